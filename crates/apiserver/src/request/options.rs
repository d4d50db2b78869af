//! Options in the query of a request: of lists and watches, and of writes.

use caretaker_machinery::status::{NamedResource, Status, StatusCause};
use serde_json::Value;

use super::RequestQuery;
use crate::body::FieldError;

/// Most characters of the name of a field manager, as upstream.
const FIELD_MANAGER_BYTES_MAX: usize = 128;

/// Options of creates, updates and patches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
}

/// Options of lists and watches.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListOptions {
    pub(crate) limit: Option<usize>,
    pub(crate) continue_token: Option<String>,
    pub(crate) revision: Option<String>,
    pub(crate) revision_match: Option<RevisionMatch>,
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
    pub(crate) timeout_secs: Option<u64>,
    pub(crate) bookmarks: bool,
    pub(crate) initial_events: Option<bool>,
    pub(crate) watch: bool,
}

/// The `resourceVersionMatch` option of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RevisionMatch {
    Exact,
    NotOlderThan,
    /// Refused by the checks.
    Unknown(String),
}

// === impl RequestQuery ===

impl RequestQuery {
    pub(crate) fn list_options(&self) -> Result<ListOptions, Status> {
        let text = |key| {
            self.get(key)
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        let options = ListOptions {
            limit: self
                .integer("limit")?
                .and_then(|limit| usize::try_from(limit).ok())
                .filter(|limit| *limit > 0),
            continue_token: text("continue"),
            revision: text("resourceVersion"),
            revision_match: text("resourceVersionMatch").map(RevisionMatch::from),
            label_selector: text("labelSelector").unwrap_or_default(),
            field_selector: text("fieldSelector").unwrap_or_default(),
            timeout_secs: self
                .integer("timeoutSeconds")?
                .and_then(|seconds| u64::try_from(seconds).ok())
                .filter(|seconds| *seconds > 0),
            bookmarks: self.flag("allowWatchBookmarks"),
            initial_events: self.tristate("sendInitialEvents"),
            watch: self.flag("watch"),
        };
        options.check()?;
        Ok(options)
    }

    /// Reads the options of a write; `options` is their kind, which errors name.
    ///
    /// `fieldValidation` and `fieldManager` are checked for form. DEVIATION(field-validation): duplicate fields are not
    /// reported.
    pub(crate) fn write_options(&self, options: &str) -> Result<WriteOptions, Status> {
        let dry_run = check_dry_run(Some(&self.all("dryRun").into()), options)?;
        let mut causes = Vec::new();
        let known = ["", "Ignore", "Strict", "Warn"];
        let validation = self.get("fieldValidation");
        if let Some(value) = validation.filter(|value| !known.contains(value)) {
            causes.push(StatusCause::not_supported("fieldValidation", value, &known));
        }
        let manager = self.get("fieldManager").unwrap_or_default();
        if manager.len() > FIELD_MANAGER_BYTES_MAX {
            let cause = StatusCause::too_long("fieldManager", FIELD_MANAGER_BYTES_MAX);
            causes.push(cause);
        }
        if let Some((at, bad)) = manager.char_indices().find(|(_, c)| c.is_control()) {
            let code = u32::from(bad);
            let why = format!("invalid character U+{code:04X} (at position {at})");
            causes.push(StatusCause::invalid("fieldManager", manager, &why));
        }
        if causes.is_empty() {
            Ok(WriteOptions { dry_run })
        } else {
            Err(invalid_options(options, causes))
        }
    }
}

// === impl ListOptions ===

impl ListOptions {
    /// Refuses invalid combinations of options.
    fn check(&self) -> Result<(), Status> {
        let causes = if self.watch {
            self.watch_faults()
        } else {
            self.list_faults()
        };
        if causes.is_empty() {
            Ok(())
        } else {
            Err(invalid_options("ListOptions", causes))
        }
    }

    fn list_faults(&self) -> Vec<StatusCause> {
        let mut causes = Vec::new();
        if self.initial_events.is_some() {
            let why = "sendInitialEvents is forbidden for list";
            causes.push(StatusCause::forbidden("sendInitialEvents", why));
        }
        let Some(asked) = &self.revision_match else {
            return causes;
        };
        let mut forbid = |why: &str| causes.push(StatusCause::forbidden(MATCH, why));
        if self.revision.is_none() {
            forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        if self.continue_token.is_some() {
            forbid(NO_MATCH_WITH_CONTINUE);
        }
        match asked {
            RevisionMatch::Exact if self.revision.as_deref() == Some("0") => {
                forbid("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
            }
            RevisionMatch::Unknown(other) => {
                let known = ["Exact", "NotOlderThan", ""];
                causes.push(StatusCause::not_supported(MATCH, other, &known));
            }
            RevisionMatch::Exact | RevisionMatch::NotOlderThan => {}
        }
        causes
    }

    fn watch_faults(&self) -> Vec<StatusCause> {
        let mut causes = Vec::new();
        let mut forbid = |why: &str| causes.push(StatusCause::forbidden(MATCH, why));
        // A watch without a revision begins with the stored objects, as if it had set sendInitialEvents.
        let implied = self
            .revision
            .as_deref()
            .is_none_or(|revision| revision == "0");
        match (self.initial_events, &self.revision_match) {
            (None, Some(_)) => {
                forbid(
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                );
            }
            (Some(_), asked) if *asked != Some(RevisionMatch::NotOlderThan) => {
                forbid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
            }
            _ => {}
        }
        if self.continue_token.is_some() && (implied || self.initial_events.is_some()) {
            forbid(NO_MATCH_WITH_CONTINUE);
        }
        let wrong = match &self.revision_match {
            Some(RevisionMatch::Exact) => Some("Exact"),
            Some(RevisionMatch::Unknown(other)) => Some(other.as_str()),
            _ => None,
        };
        causes
            .extend(wrong.map(|wrong| StatusCause::not_supported(MATCH, wrong, &["NotOlderThan"])));
        causes
    }
}

// === impl RevisionMatch ===

impl From<String> for RevisionMatch {
    fn from(text: String) -> Self {
        match text.as_str() {
            "Exact" => RevisionMatch::Exact,
            "NotOlderThan" => RevisionMatch::NotOlderThan,
            _ => RevisionMatch::Unknown(text),
        }
    }
}

const MATCH: &str = "resourceVersionMatch";
const NO_MATCH_WITH_CONTINUE: &str = "resourceVersionMatch is forbidden when continue is provided";

/// Reads the values of `dryRun`; `options` is the kind of the options, which errors name.
pub(crate) fn check_dry_run(value: Option<&Value>, options: &str) -> Result<bool, Status> {
    let values = match value {
        None | Some(Value::Null) => return Ok(false),
        Some(Value::Array(values)) => values,
        Some(other) => {
            let wrong = FieldError::wrong_type(other, format!("{options}.dryRun"), "[]string");
            return Err(Status::bad_request(wrong.to_string()));
        }
    };
    if values.iter().all(|value| value == "All") {
        return Ok(!values.is_empty());
    }
    let shown = Value::Array(values.clone());
    let message = format!("Unsupported value: {shown}: supported values: \"All\"");
    let cause = StatusCause::new("FieldValueNotSupported", "dryRun", message);
    Err(invalid_options(options, vec![cause]))
}

/// Returns the status of invalid options; `options` is their kind.
pub(crate) fn invalid_options(options: &str, causes: Vec<StatusCause>) -> Status {
    let named = NamedResource {
        group: "meta.k8s.io",
        what: options,
        name: "",
    };
    Status::invalid(named, causes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_invalid_combinations() {
        let cases = [
            "resourceVersionMatch=Exact",
            "resourceVersionMatch=Exact&resourceVersion=0",
            "resourceVersionMatch=Exact&resourceVersion=5&continue=x",
            "resourceVersionMatch=Nope&resourceVersion=5",
            "sendInitialEvents=true",
            "watch=1&sendInitialEvents=true",
            "watch=1&resourceVersionMatch=NotOlderThan&resourceVersion=5",
            "watch=1&sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=5",
        ];
        for case in cases {
            assert_eq!(
                RequestQuery::parse(case).list_options().unwrap_err().code,
                422,
                "{case}"
            );
        }
    }
}
