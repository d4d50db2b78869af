//! `DeleteOptions`, read from the body, or from the query if there is no body.

use caretaker_machinery::schema::type_name;
use caretaker_machinery::status::{Status, StatusCause};
use serde_json::{Map, Value};

use crate::body::{self, BodyError, FieldError};
use crate::request::{RequestQuery, check_dry_run, invalid_options};
use crate::types;

/// Options of a delete.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_seconds: Option<i64>,
    pub(crate) policy: Option<PropagationPolicy>,
    /// The deprecated form of `policy`.
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) uid: Option<String>,
    pub(crate) revision: Option<String>,
    pub(crate) dry_run: bool,
}

/// The treatment of dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PropagationPolicy {
    Background,
    Foreground,
    Orphan,
}

// === impl DeleteOptions ===

impl DeleteOptions {
    pub(crate) fn read(
        content_type: &str,
        body: &[u8],
        query: &RequestQuery,
    ) -> Result<Self, Status> {
        let given = if body.is_empty() {
            from_query(query)?
        } else {
            from_body(content_type, body)?
        };
        Self::from_tree(&given)
    }

    pub(crate) fn from_tree(given: &Map<String, Value>) -> Result<Self, Status> {
        let own = |field, go_type| (given, "DeleteOptions", field, go_type);
        let preconditions = own("preconditions", "v1.Preconditions");
        let preconditions = member(preconditions, |value| value.as_object().cloned())?;
        let preconditions = preconditions.unwrap_or_default();
        let wanted = |field, go_type| {
            let of = (
                &preconditions,
                "Preconditions.preconditions",
                field,
                go_type,
            );
            member(of, |value| value.as_str().map(str::to_owned))
        };
        let options = Self {
            grace_seconds: member(own("gracePeriodSeconds", "int64"), Value::as_i64)?,
            policy: policy(given)?,
            orphan_dependents: member(own("orphanDependents", "bool"), Value::as_bool)?,
            uid: wanted("uid", "types.UID")?,
            revision: wanted("resourceVersion", "string")?,
            dry_run: check_dry_run(given.get("dryRun"), "DeleteOptions")?,
        };
        if let (Some(policy), Some(_)) = (options.policy, options.orphan_dependents) {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            let cause = StatusCause::invalid("propagationPolicy", format!("{policy:?}"), why);
            return Err(invalid_options("DeleteOptions", vec![cause]));
        }
        Ok(options)
    }
}

fn from_body(content_type: &str, bytes: &[u8]) -> Result<Map<String, Value>, Status> {
    let of = types::named("meta.k8s.io/v1", "DeleteOptions");
    let parsed = body::parse(content_type, bytes, of).map(|parsed| parsed.value);
    let why = match parsed {
        Ok(Value::Object(given)) => return check_kind(given),
        Err(BodyError::Envelope { error, .. }) => {
            return Err(Status::bad_request(error.to_string()));
        }
        Err(BodyError::Message { ref names, .. }) if check_kind(names.clone()).is_err() => {
            return check_kind(names.clone());
        }
        Ok(other) => format!("a JSON object was expected, not {}", type_name(&other)),
        Err(BodyError::Syntax(why)) => why,
        Err(unsupported) => return Err(unsupported.to_status("DeleteOptions")),
    };
    let message = format!("couldn't get version/kind; json parse error: {why}");
    Err(Status::bad_request(message))
}

fn check_kind(given: Map<String, Value>) -> Result<Map<String, Value>, Status> {
    let text = |field| given.get(field).and_then(Value::as_str).unwrap_or_default();
    // Typed clients send the options under the apiVersion of their own group; any is taken.
    let (kind, version) = match (text("kind"), text("apiVersion")) {
        ("" | "DeleteOptions", _) => return Ok(given),
        (kind, "") => (kind, "meta.k8s.io/v1"),
        named => named,
    };
    Err(Status::bad_request(format!(
        "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
    )))
}

fn from_query(query: &RequestQuery) -> Result<Map<String, Value>, Status> {
    let mut given = Map::new();
    if let Some(seconds) = query.integer("gracePeriodSeconds")? {
        given.insert("gracePeriodSeconds".into(), seconds.into());
    }
    let policy = query.get("propagationPolicy");
    if let Some(policy) = policy.filter(|policy| !policy.is_empty()) {
        given.insert("propagationPolicy".into(), policy.into());
    }
    if query.get("orphanDependents").is_some() {
        let orphan = query.flag("orphanDependents");
        given.insert("orphanDependents".into(), orphan.into());
    }
    given.insert("dryRun".into(), query.all("dryRun").into());
    Ok(given)
}

fn policy(given: &Map<String, Value>) -> Result<Option<PropagationPolicy>, Status> {
    let of = (
        given,
        "DeleteOptions",
        "propagationPolicy",
        "v1.DeletionPropagation",
    );
    let text = member(of, |value| value.as_str().map(str::to_owned))?;
    Ok(match text.as_deref() {
        None => None,
        Some("Background") => Some(PropagationPolicy::Background),
        Some("Foreground") => Some(PropagationPolicy::Foreground),
        Some("Orphan") => Some(PropagationPolicy::Orphan),
        Some(other) => {
            let known = ["Foreground", "Background", "Orphan", "nil"];
            let cause = StatusCause::not_supported("propagationPolicy", other, &known);
            return Err(invalid_options("DeleteOptions", vec![cause]));
        }
    })
}

/// Reads a member; absent and null are none. The tuple names the object, its Go type, the member and its Go type.
fn member<T>(
    (given, of, field, go_type): (&Map<String, Value>, &str, &str, &str),
    read: impl FnOnce(&Value) -> Option<T>,
) -> Result<Option<T>, Status> {
    let Some(value) = given.get(field).filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let wrong = || FieldError::wrong_type(value, format!("{of}.{field}"), go_type);
    let read = read(value).ok_or_else(|| Status::bad_request(wrong().to_string()));
    read.map(Some)
}
