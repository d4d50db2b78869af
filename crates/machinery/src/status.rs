//! `Status`: how a Kubernetes API says that something went wrong, or that a delete is done.
//!
//! The server builds it, the controllers read it. Constructors word their messages as kube-apiserver does, because
//! clients and people match on them. A `Status` is what the caller may see; context for the log stays with whoever
//! creates it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The outcome of a request, as it travels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Always `Status`.
    #[serde(default)]
    pub kind: String,
    /// Always `v1`.
    #[serde(rename = "apiVersion", default)]
    pub api_version: String,
    /// Carries a fresh continue token with an expired one; else empty.
    #[serde(default)]
    pub metadata: ListMeta,
    /// `Success` or `Failure`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// For programs; missing on some internal errors.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What the answer is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
    /// The HTTP status code; 0 in a success.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub code: u16,
}

/// The part of list metadata that a `Status` uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListMeta {
    /// Where an expired list may go on, at a newer revision.
    #[serde(rename = "continue", default, skip_serializing_if = "Option::is_none")]
    pub continue_token: Option<String>,
    /// The revision to go on from.
    #[serde(
        rename = "resourceVersion",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub resource_version: Option<String>,
}

/// What a `Status` is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// Name of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// API group of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The resource (`pods`) in most answers, the kind (`Pod`) where a field or a precondition is at fault.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The uid of a deleted object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Each fault of an invalid object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// When to come back.
    #[serde(default, skip_serializing_if = "is_zero_u32")]
    pub retry_after_seconds: u32,
}

/// One fault.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cause {
    /// `FieldValueRequired` and its like.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Path of the field, `metadata.name`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// A resource within its group: what most messages name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named<'a> {
    /// API group, empty for core.
    pub group: &'a str,
    /// Plural or kind, as the message wants it.
    pub what: &'a str,
    /// Object name.
    pub name: &'a str,
}

// === impl Status ===

impl Status {
    /// A failure with everything but details.
    #[must_use]
    pub fn failure(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            kind: "Status".into(),
            api_version: "v1".into(),
            metadata: ListMeta::default(),
            status: "Failure".into(),
            message: message.into(),
            reason: reason.into(),
            details: None,
            code,
        }
    }

    /// The answer to a delete that removed the object.
    #[must_use]
    pub fn deleted(of: Named<'_>, uid: &str) -> Self {
        Self {
            status: "Success".into(),
            code: 0,
            ..Self::failure(0, "", "")
        }
        .with(Details {
            uid: uid.into(),
            ..of.details()
        })
    }

    /// 201 for what was done and left nothing to show.
    #[must_use]
    pub fn created() -> Self {
        Self {
            status: "Success".to_owned(),
            ..Self::failure(201, "", "")
        }
    }

    /// 404 for an object.
    #[must_use]
    pub fn not_found(of: Named<'_>) -> Self {
        Self::failure(404, "NotFound", format!("{of} not found")).with(of.details())
    }

    /// 404 for a path below a group and version that exist.
    #[must_use]
    pub fn unknown_resource() -> Self {
        let message = "the server could not find the requested resource";
        Self::failure(404, "NotFound", message).with(Details::default())
    }

    /// 409 for a name that is taken.
    #[must_use]
    pub fn already_exists(of: Named<'_>) -> Self {
        Self::failure(409, "AlreadyExists", format!("{of} already exists")).with(of.details())
    }

    /// 409 for a precondition that does not hold; `why` ends the sentence.
    #[must_use]
    pub fn conflict(of: Named<'_>, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {of}: {why}");
        Self::failure(409, "Conflict", message).with(of.details())
    }

    /// 403; `why` ends the sentence.
    #[must_use]
    pub fn forbidden(of: Named<'_>, why: &str) -> Self {
        Self::failure(403, "Forbidden", format!("{of} is forbidden: {why}")).with(of.details())
    }

    /// 400.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, "BadRequest", message)
    }

    /// 500 without a reason, as upstream answers where it did not think of the case.
    #[must_use]
    pub fn unexplained(message: impl Into<String>) -> Self {
        Self::failure(500, "", message)
    }

    /// 405.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::failure(405, "MethodNotAllowed", message).with(Details::default())
    }

    /// 422 with its faults; `of` names the kind. Repeated faults are said once.
    #[must_use]
    pub fn invalid(of: Named<'_>, causes: Vec<Cause>) -> Self {
        let mut said: Vec<String> = Vec::new();
        for cause in &causes {
            let text = format!("{}: {}", cause.field, cause.message);
            if !said.contains(&text) {
                said.push(text);
            }
        }
        let list = match said.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        Self::failure(422, "Invalid", format!("{of} is invalid: {list}")).with(Details {
            causes,
            ..of.details()
        })
    }

    /// 410 for a revision that history no longer holds.
    #[must_use]
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, "Expired", message)
    }

    /// 504 for a revision that the server has not reached.
    #[must_use]
    pub fn revision_too_large(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        Self::failure(504, "Timeout", message).with(Details {
            causes: vec![Cause {
                reason: "ResourceVersionTooLarge".into(),
                message: "Too large resource version".into(),
                field: String::new(),
            }],
            retry_after_seconds: 1,
            ..Details::default()
        })
    }

    /// The same answer with details.
    #[must_use]
    pub fn with(mut self, details: Details) -> Self {
        self.details = Some(details);
        self
    }

    /// Whether this is the failure that `reason` names.
    #[must_use]
    pub fn is(&self, reason: &str) -> bool {
        self.reason == reason
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} {})", self.message, self.code, self.reason)
    }
}

impl std::error::Error for Status {}

// === impl Cause ===

impl Cause {
    /// A value that is missing.
    #[must_use]
    pub fn required(field: impl Into<String>, why: &str) -> Self {
        let message = if why.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {why}")
        };
        Self::new("FieldValueRequired", field, message)
    }

    /// A value that breaks a rule; `value` as JSON shows it.
    #[must_use]
    pub fn invalid(field: impl Into<String>, value: impl Serialize, why: &str) -> Self {
        let shown = serde_json::to_string(&value).unwrap_or_default();
        Self::new(
            "FieldValueInvalid",
            field,
            format!("Invalid value: {shown}: {why}"),
        )
    }

    /// A value that breaks a rule and is not shown.
    #[must_use]
    pub fn contradictory(field: impl Into<String>, why: &str) -> Self {
        Self::new("FieldValueInvalid", field, format!("Invalid value: {why}"))
    }

    /// A value that may not be there.
    #[must_use]
    pub fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self::new("FieldValueForbidden", field, format!("Forbidden: {why}"))
    }

    /// A value outside a closed set.
    #[must_use]
    pub fn not_supported(field: impl Into<String>, value: &str, supported: &[&str]) -> Self {
        let supported: Vec<String> = supported.iter().map(|v| format!("{v:?}")).collect();
        let message = format!(
            "Unsupported value: {}: supported values: {}",
            quoted(value),
            supported.join(", ")
        );
        Self::new("FieldValueNotSupported", field, message)
    }

    /// A value that is too long.
    #[must_use]
    pub fn too_long(field: impl Into<String>, bytes_max: usize) -> Self {
        Self::new(
            "FieldValueTooLong",
            field,
            format!("Too long: may not be more than {bytes_max} bytes"),
        )
    }

    fn new(reason: &str, field: impl Into<String>, message: String) -> Self {
        Self {
            reason: reason.into(),
            message,
            field: field.into(),
        }
    }
}

// === impl Named ===

impl Named<'_> {
    fn details(&self) -> Details {
        Details {
            name: self.name.into(),
            group: self.group.into(),
            kind: self.what.into(),
            ..Details::default()
        }
    }
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.group.is_empty() { "" } else { "." };
        write!(f, "{}{dot}{} {}", self.what, self.group, quoted(self.name))
    }
}

/// Text in quotes, as upstream's messages show it: Go's spelling of control characters, not Rust's.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            control if control.is_ascii_control() => {
                quoted.push_str(&format!("\\x{:02x}", u32::from(control)));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(code: &u16) -> bool {
    *code == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero_u32(seconds: &u32) -> bool {
    *seconds == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const JOB: Named<'static> = Named {
        group: "batch",
        what: "jobs",
        name: "a",
    };

    #[test]
    fn a_missing_object_is_named_with_its_resource_and_group() {
        let status = serde_json::to_value(Status::not_found(JOB)).unwrap();
        assert_eq!(
            status,
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "jobs.batch \"a\" not found", "reason": "NotFound",
                "details": {"name": "a", "group": "batch", "kind": "jobs"}, "code": 404})
        );
    }

    #[test]
    fn an_invalid_object_lists_each_fault_once_in_its_message() {
        let fault = Cause::required("metadata.name", "name or generateName is required");
        let one = Status::invalid(JOB, vec![fault.clone(), fault.clone()]);
        assert_eq!(
            one.message,
            "jobs.batch \"a\" is invalid: metadata.name: Required value: name or generateName is required"
        );
        let two = Status::invalid(JOB, vec![fault, Cause::forbidden("spec", "no")]);
        assert!(
            two.message.contains(": [metadata.name: ")
                && two.message.ends_with("spec: Forbidden: no]")
        );
    }

    #[test]
    fn a_success_has_no_code_and_names_the_uid() {
        let status = serde_json::to_value(Status::deleted(JOB, "u")).unwrap();
        assert_eq!(
            status,
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                "details": {"name": "a", "group": "batch", "kind": "jobs", "uid": "u"}})
        );
    }

    #[test]
    fn control_characters_are_spelled_as_in_go() {
        assert_eq!(quoted("a\0b\"\\\n"), r#""a\x00b\"\\\n""#);
    }

    #[test]
    fn a_status_survives_the_wire() {
        let status = Status::revision_too_large(9, 5);
        let text = serde_json::to_string(&status).unwrap();
        assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), status);
    }
}
