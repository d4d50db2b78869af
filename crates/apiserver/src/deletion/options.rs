//! `DeleteOptions`, read from the body, or from the query if there is no body.

use caretaker_machinery::status::{Status, StatusCause};
use serde_json::{Map, Value};

use crate::body::{self, BodyError};
use crate::request::{RequestQuery, check_dry_run, invalid_options};

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

    fn from_tree(given: &Map<String, Value>) -> Result<Self, Status> {
        let preconditions = match given.get("preconditions") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(preconditions)) => preconditions.clone(),
            Some(other) => {
                return Err(wrong(
                    other,
                    "DeleteOptions.preconditions",
                    "v1.Preconditions",
                ));
            }
        };
        let options = Self {
            grace_seconds: match given.get("gracePeriodSeconds") {
                None | Some(Value::Null) => None,
                Some(value) => Some(
                    value
                        .as_i64()
                        .ok_or_else(|| wrong(value, "DeleteOptions.gracePeriodSeconds", "int64"))?,
                ),
            },
            policy: policy(given)?,
            orphan_dependents: match given.get("orphanDependents") {
                None | Some(Value::Null) => None,
                Some(Value::Bool(orphan)) => Some(*orphan),
                Some(other) => return Err(wrong(other, "DeleteOptions.orphanDependents", "bool")),
            },
            uid: text(
                &preconditions,
                "uid",
                "Preconditions.preconditions.uid",
                "types.UID",
            )?,
            revision: text(
                &preconditions,
                "resourceVersion",
                "Preconditions.preconditions.resourceVersion",
                "string",
            )?,
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
    let unreadable = |why: &str| {
        Status::bad_request(format!(
            "couldn't get version/kind; json parse error: {why}"
        ))
    };
    let given = match body::parse(content_type, bytes) {
        Ok(Value::Object(given)) => given,
        Ok(other) => {
            let found = body::type_name(&other);
            return Err(unreadable(&format!(
                "a JSON object was expected, not {found}"
            )));
        }
        Err(BodyError::Syntax(why)) => return Err(unreadable(&why)),
        Err(unsupported) => return Err(unsupported.to_status("DeleteOptions")),
    };
    // Typed clients send the options under the apiVersion of their own group; any is taken.
    match given.get("kind").and_then(Value::as_str) {
        None | Some("" | "DeleteOptions") => Ok(given),
        Some(kind) => {
            let version = given
                .get("apiVersion")
                .and_then(Value::as_str)
                .filter(|v| !v.is_empty());
            Err(Status::bad_request(format!(
                "no kind {kind:?} is registered for version {:?} in scheme \"pkg/runtime/scheme.go:111\"",
                version.unwrap_or("meta.k8s.io/v1")
            )))
        }
    }
}

fn from_query(query: &RequestQuery) -> Result<Map<String, Value>, Status> {
    let mut given = Map::new();
    if let Some(seconds) = query.integer("gracePeriodSeconds")? {
        given.insert("gracePeriodSeconds".into(), seconds.into());
    }
    if let Some(policy) = query
        .get("propagationPolicy")
        .filter(|policy| !policy.is_empty())
    {
        given.insert("propagationPolicy".into(), policy.into());
    }
    if query.get("orphanDependents").is_some() {
        given.insert(
            "orphanDependents".into(),
            query.flag("orphanDependents").into(),
        );
    }
    given.insert("dryRun".into(), query.all("dryRun").into());
    Ok(given)
}

fn policy(given: &Map<String, Value>) -> Result<Option<PropagationPolicy>, Status> {
    match given.get("propagationPolicy") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => match text.as_str() {
            "Background" => Ok(Some(PropagationPolicy::Background)),
            "Foreground" => Ok(Some(PropagationPolicy::Foreground)),
            "Orphan" => Ok(Some(PropagationPolicy::Orphan)),
            other => {
                let known = ["Foreground", "Background", "Orphan", "nil"];
                let cause = StatusCause::not_supported("propagationPolicy", other, &known);
                Err(invalid_options("DeleteOptions", vec![cause]))
            }
        },
        Some(other) => Err(wrong(
            other,
            "DeleteOptions.propagationPolicy",
            "v1.DeletionPropagation",
        )),
    }
}

fn text(
    given: &Map<String, Value>,
    field: &str,
    path: &str,
    go_type: &str,
) -> Result<Option<String>, Status> {
    match given.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(wrong(other, path, go_type)),
    }
}

fn wrong(value: &Value, path: &str, go_type: &str) -> Status {
    let found = body::type_name(value);
    Status::bad_request(format!(
        "json: cannot unmarshal {found} into Go struct field {path} of type {go_type}"
    ))
}
