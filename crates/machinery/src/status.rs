//! `Status`: the object with which a Kubernetes API reports an error, or the success of a delete.
//!
//! The API server builds it, the controllers read it. Constructors use the messages of kube-apiserver, because clients
//! match on them. A `Status` holds only what the client may see; context for the log stays with the code that creates it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The outcome of a request in its wire format. The kind is always `Status`, the version `v1`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    #[serde(default)]
    pub kind: String,
    #[serde(rename = "apiVersion", default)]
    pub api_version: String,
    /// Holds a fresh continue token if the given one has expired; otherwise empty.
    #[serde(default)]
    pub metadata: StatusListMeta,
    /// `Success` or `Failure`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub status: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Machine-readable reason such as `NotFound`; missing on some internal errors.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The object and the causes that the status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<StatusDetails>,
    /// The HTTP status code; 0 in a success.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub code: u16,
}

/// The part of list metadata that a `Status` uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusListMeta {
    /// Continues an expired list at a newer revision.
    #[serde(rename = "continue", default, skip_serializing_if = "Option::is_none")]
    pub continue_token: Option<String>,
    /// The revision at which the list continues.
    #[serde(
        rename = "resourceVersion",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub resource_version: Option<String>,
}

/// The object that a `Status` is about, and the causes of a failure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusDetails {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The resource (`pods`) in most responses, the kind (`Pod`) where a field or a precondition is at fault.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The uid of a deleted object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The faults of an invalid object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatusCause>,
    /// After this time the client should retry.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

/// One fault of an invalid object.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StatusCause {
    /// A machine-readable reason such as `FieldValueRequired`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Path of the field, such as `metadata.name`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// The object that a message names: `jobs.batch "a"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedResource<'a> {
    /// API group; empty for the core group.
    pub group: &'a str,
    /// The resource (`jobs`) or the kind (`Job`), depending on the message.
    pub what: &'a str,
    pub name: &'a str,
}

// === impl Status ===

impl Status {
    /// A failure without details.
    #[must_use]
    pub fn failure(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            kind: "Status".into(),
            api_version: "v1".into(),
            metadata: StatusListMeta::default(),
            status: "Failure".into(),
            message: message.into(),
            reason: reason.into(),
            details: None,
            code,
        }
    }

    /// The response to a delete that removed the object.
    #[must_use]
    pub fn deleted(of: NamedResource<'_>, uid: &str) -> Self {
        Self::success(0).with(StatusDetails {
            uid: uid.into(),
            ..of.details()
        })
    }

    /// 201 for a create that returns no object, such as a binding.
    #[must_use]
    pub fn created() -> Self {
        Self::success(201)
    }

    fn success(code: u16) -> Self {
        Self {
            status: "Success".into(),
            ..Self::failure(code, "", "")
        }
    }

    /// 404 for an object that does not exist.
    #[must_use]
    pub fn not_found(of: NamedResource<'_>) -> Self {
        Self::failure(404, "NotFound", format!("{of} not found")).with(of.details())
    }

    /// 404 for an unknown resource in an existing group and version.
    #[must_use]
    pub fn unknown_resource() -> Self {
        let message = "the server could not find the requested resource";
        Self::failure(404, "NotFound", message).with(StatusDetails::default())
    }

    /// 409 for a create of an existing object.
    #[must_use]
    pub fn already_exists(of: NamedResource<'_>) -> Self {
        Self::failure(409, "AlreadyExists", format!("{of} already exists")).with(of.details())
    }

    /// 409 for a failed precondition; `why` ends the message.
    #[must_use]
    pub fn conflict(of: NamedResource<'_>, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {of}: {why}");
        Self::failure(409, "Conflict", message).with(of.details())
    }

    /// 403 Forbidden; `why` ends the message.
    #[must_use]
    pub fn forbidden(of: NamedResource<'_>, why: &str) -> Self {
        Self::failure(403, "Forbidden", format!("{of} is forbidden: {why}")).with(of.details())
    }

    /// 400 BadRequest with this message.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, "BadRequest", message)
    }

    /// 500 without a reason, which upstream returns for unclassified errors.
    #[must_use]
    pub fn unexplained(message: impl Into<String>) -> Self {
        Self::failure(500, "", message)
    }

    /// 405 for a verb that the resource does not support.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::failure(405, "MethodNotAllowed", message).with(StatusDetails::default())
    }

    /// 405 for an action that custom resources do not support; only the resource is named.
    #[must_use]
    pub fn unsupported(action: &str, of: NamedResource<'_>) -> Self {
        let what = format!("{}.{}", of.what, of.group);
        let message = format!("{action} is not supported on resources of kind {what:?}");
        Self::failure(405, "MethodNotAllowed", message).with(StatusDetails {
            name: String::new(),
            ..of.details()
        })
    }

    /// 429 for a request that may succeed later; 0 seconds name no time.
    #[must_use]
    pub fn too_many_requests(message: &str, retry_after_seconds: u32) -> Self {
        Self::failure(429, "TooManyRequests", message).with(StatusDetails {
            retry_after_seconds,
            ..StatusDetails::default()
        })
    }

    /// 503 for a backend that cannot be reached.
    #[must_use]
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::failure(503, "ServiceUnavailable", message)
    }

    /// 422 with the faults of the object; `of` names the kind. The message lists repeated faults once.
    #[must_use]
    pub fn invalid(of: NamedResource<'_>, causes: Vec<StatusCause>) -> Self {
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
        Self::failure(422, "Invalid", format!("{of} is invalid: {list}")).with(StatusDetails {
            causes,
            ..of.details()
        })
    }

    /// 410 for a revision that was compacted.
    #[must_use]
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, "Expired", message)
    }

    /// 504 for a revision that the API server has not reached.
    #[must_use]
    pub fn revision_too_large(asked: u64, current: u64) -> Self {
        const TOO_LARGE: &str = "Too large resource version";
        let message = format!("Timeout: {TOO_LARGE}: {asked}, current: {current}");
        Self::failure(504, "Timeout", message).with(StatusDetails {
            causes: vec![StatusCause::new("ResourceVersionTooLarge", "", TOO_LARGE)],
            retry_after_seconds: 1,
            ..StatusDetails::default()
        })
    }

    /// Sets the details.
    #[must_use]
    pub fn with(mut self, details: StatusDetails) -> Self {
        self.details = Some(details);
        self
    }

    /// Whether the status has this reason.
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

// === impl StatusCause ===

impl StatusCause {
    /// A required value is missing.
    #[must_use]
    pub fn required(field: impl Into<String>, why: &str) -> Self {
        let message = if why.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {why}")
        };
        Self::new("FieldValueRequired", field, message)
    }

    /// A value violates a rule. The message shows the value as JSON.
    #[must_use]
    pub fn invalid(field: impl Into<String>, value: impl Serialize, why: &str) -> Self {
        let shown = serde_json::to_string(&value).unwrap_or_default();
        let message = format!("Invalid value: {shown}: {why}");
        Self::new("FieldValueInvalid", field, message)
    }

    /// A value violates a rule. The message does not show the value.
    #[must_use]
    pub fn contradictory(field: impl Into<String>, why: &str) -> Self {
        Self::new("FieldValueInvalid", field, format!("Invalid value: {why}"))
    }

    /// A value is not allowed here.
    #[must_use]
    pub fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self::new("FieldValueForbidden", field, format!("Forbidden: {why}"))
    }

    /// A value is not one of the supported ones.
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

    /// A value occurs twice.
    #[must_use]
    pub fn duplicate(field: impl Into<String>, value: &str) -> Self {
        let message = format!("Duplicate value: {}", quoted(value));
        Self::new("FieldValueDuplicate", field, message)
    }

    /// A value refers to what does not exist.
    #[must_use]
    pub fn missing(field: impl Into<String>, value: &str) -> Self {
        let message = format!("Not found: {}", quoted(value));
        Self::new("FieldValueNotFound", field, message)
    }

    /// A value is longer than `bytes_max`.
    #[must_use]
    pub fn too_long(field: impl Into<String>, bytes_max: usize) -> Self {
        let message = format!("Too long: may not be more than {bytes_max} bytes");
        Self::new("FieldValueTooLong", field, message)
    }

    /// A cause with this reason and message.
    #[must_use]
    pub fn new(reason: &str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            message: message.into(),
            field: field.into(),
        }
    }
}

// === impl NamedResource ===

impl NamedResource<'_> {
    fn details(&self) -> StatusDetails {
        StatusDetails {
            name: self.name.into(),
            group: self.group.into(),
            kind: self.what.into(),
            ..StatusDetails::default()
        }
    }
}

impl fmt::Display for NamedResource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.group.is_empty() { "" } else { "." };
        write!(f, "{}{dot}{} {}", self.what, self.group, quoted(self.name))
    }
}

/// Quotes a text like Go's `%q`, as upstream's messages do: control characters are escaped in Go's way, not Rust's.
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

fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const JOB: NamedResource<'static> = NamedResource {
        group: "batch",
        what: "jobs",
        name: "a",
    };

    #[test]
    fn not_found_names_resource_and_group() {
        let status = serde_json::to_value(Status::not_found(JOB)).unwrap();
        assert_eq!(
            status,
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "jobs.batch \"a\" not found", "reason": "NotFound",
                "details": {"name": "a", "group": "batch", "kind": "jobs"}, "code": 404})
        );
    }

    #[test]
    fn invalid_message_lists_each_fault_once() {
        let fault = StatusCause::required("metadata.name", "name or generateName is required");
        let one = Status::invalid(JOB, vec![fault.clone(), fault.clone()]);
        assert_eq!(
            one.message,
            "jobs.batch \"a\" is invalid: metadata.name: Required value: name or generateName is required"
        );
        let two = Status::invalid(JOB, vec![fault, StatusCause::forbidden("spec", "no")]);
        assert!(
            two.message.contains(": [metadata.name: ")
                && two.message.ends_with("spec: Forbidden: no]")
        );
    }

    #[test]
    fn delete_success_has_uid_and_no_code() {
        let status = serde_json::to_value(Status::deleted(JOB, "u")).unwrap();
        assert_eq!(
            status,
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                "details": {"name": "a", "group": "batch", "kind": "jobs", "uid": "u"}})
        );
    }

    #[test]
    fn quotes_control_characters_like_go() {
        assert_eq!(quoted("a\0b\"\\\n"), r#""a\x00b\"\\\n""#);
    }

    #[test]
    fn status_round_trips_through_json() {
        let status = Status::revision_too_large(9, 5);
        let text = serde_json::to_string(&status).unwrap();
        assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), status);
    }
}
