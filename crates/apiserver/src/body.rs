//! Request bodies: collected up to a limit, and parsed into a JSON tree.

use caretaker_machinery::quantity::QuantityError;
use caretaker_machinery::schema::{EmbeddedObjectError, SchemaTypeError, type_name};
use caretaker_machinery::status::Status;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Map, Value};

/// Largest request body, as upstream.
pub(crate) const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Media types that the server reads, as errors name them.
const ACCEPTED: &str = "application/json, application/yaml";

/// Collects a body, up to [`BODY_BYTES_MAX`].
pub(crate) async fn collect<B>(body: B) -> Result<bytes::Bytes, Status>
where
    B: http_body::Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            let message = format!("Request entity too large: limit is {BODY_BYTES_MAX}");
            Err(Status::failure(413, "RequestEntityTooLarge", message))
        }
        // The client went away or broke the framing, and will not read the response.
        Err(_) => Err(Status::bad_request("the request body ended unexpectedly")),
    }
}

/// Parses a body by its content type; no type means JSON. The last of duplicate keys counts.
///
/// DEVIATION(invalid-utf8): invalid UTF-8 is refused; upstream replaces it.
pub(crate) fn parse(content_type: &str, bytes: &[u8]) -> Result<Value, BodyError> {
    match media_type(content_type).to_ascii_lowercase().as_str() {
        "" | "application/json" => Ok(serde_json::from_slice(bytes)?),
        "application/yaml" => parse_yaml(bytes),
        other => Err(BodyError::UnsupportedType(other.to_owned())),
    }
}

/// Parses YAML, which includes JSON.
pub(crate) fn parse_yaml(bytes: &[u8]) -> Result<Value, BodyError> {
    let text = std::str::from_utf8(bytes).map_err(|error| BodyError::Syntax(error.to_string()))?;
    serde_saphyr::from_str(text).map_err(|error| BodyError::Syntax(error.to_string()))
}

/// A body that cannot be parsed.
#[derive(Debug)]
pub(crate) enum BodyError {
    UnsupportedType(String),
    Syntax(String),
}

/// A body that does not decode into the type of its kind. The messages are those of upstream's decoder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FieldError {
    #[error("json: cannot unmarshal {found} into Go struct field {field} of type {go_type}")]
    WrongType {
        found: String,
        field: String,
        go_type: String,
    },
    #[error("json: cannot unmarshal {found} into Go value of type {go_type}")]
    WrongValue {
        found: &'static str,
        go_type: &'static str,
    },
    #[error("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {expected:?}")]
    Time {
        text: String,
        layout: String,
        rest: String,
        expected: String,
    },
    #[error("illegal base64 data at input byte {0}")]
    Base64(usize),
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// The schema in a CustomResourceDefinition.
    #[error(transparent)]
    Schema(#[from] SchemaTypeError),
    /// An object within a custom resource.
    #[error(transparent)]
    Embedded(#[from] EmbeddedObjectError),
    #[error("strict decoding error: {0}")]
    Unknown(String),
}

// === impl BodyError ===

impl BodyError {
    /// Returns the status of an object of `kind` that cannot be parsed.
    pub(crate) fn to_status(&self, kind: &str) -> Status {
        match self {
            BodyError::UnsupportedType(media_type) => unsupported(media_type),
            BodyError::Syntax(why) => Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: {why}"
            )),
        }
    }
}

impl From<serde_json::Error> for BodyError {
    fn from(error: serde_json::Error) -> Self {
        BodyError::Syntax(error.to_string())
    }
}

// === impl FieldError ===

impl FieldError {
    /// Returns the error of a value of another type than its field.
    pub(crate) fn wrong_type(value: &Value, field: impl Into<String>, go_type: &str) -> Self {
        FieldError::WrongType {
            found: type_name(value).to_owned(),
            field: field.into(),
            go_type: go_type.to_owned(),
        }
    }

    /// Returns the error of metadata that upstream decodes without the object around it.
    pub(crate) fn outside_object(self) -> Self {
        match self {
            FieldError::WrongType {
                found,
                field,
                go_type,
            } => FieldError::WrongType {
                found,
                field: field.replace("ObjectMeta.metadata.", "ObjectMeta."),
                go_type,
            },
            other => other,
        }
    }
}

/// Returns the tree as an object.
pub(crate) fn object(value: Value, kind: &str) -> Result<Map<String, Value>, Status> {
    match value {
        Value::Object(object) => Ok(object),
        // Upstream takes null for an empty object.
        Value::Null => Ok(Map::new()),
        other => {
            let why = format!("a JSON object was expected, not {}", type_name(&other));
            Err(BodyError::Syntax(why).to_status(kind))
        }
    }
}

/// Returns the media type without its parameters.
pub(crate) fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

fn unsupported(media_type: &str) -> Status {
    // DEVIATION(protobuf-bodies): not read yet. Commands such as `kubectl create namespace` send them, so the message says
    // what to do instead.
    let message = if media_type == "application/vnd.kubernetes.protobuf" {
        format!(
            "this server does not read protobuf bodies yet: send the object as JSON or YAML (kubectl apply -f, kubectl create -f) - accepted media types include: {ACCEPTED}"
        )
    } else {
        format!(
            "the body of the request was in an unknown format - accepted media types include: {ACCEPTED}"
        )
    };
    Status::failure(415, "UnsupportedMediaType", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_json_and_yaml_and_refuses_other_types() {
        let tree = serde_json::json!({"metadata": {"name": "a"}});
        assert_eq!(parse("", br#"{"metadata":{"name":"a"}}"#).unwrap(), tree);
        assert_eq!(
            parse("application/yaml", b"metadata:\n  name: a\n").unwrap(),
            tree
        );
        assert_eq!(
            parse(
                "application/json; charset=utf-8",
                br#"{"metadata":{"name":"a"}}"#
            )
            .unwrap(),
            tree
        );
        let refused = parse("application/vnd.kubernetes.protobuf", b"k8s\0").unwrap_err();
        assert_eq!(refused.to_status("Pod").code, 415);
    }

    #[test]
    fn malformed_bodies_are_bad_requests() {
        let deep = "[".repeat(100_000);
        let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g]\n";
        for (content_type, body) in [
            ("application/json", deep.as_bytes()),
            ("application/yaml", deep.as_bytes()),
            ("application/yaml", bomb.as_bytes()),
            ("application/json", b"{\"a\":\"\xff\"}".as_slice()),
            ("application/json", b"".as_slice()),
        ] {
            let refused = parse(content_type, body).unwrap_err();
            assert_eq!(refused.to_status("Pod").code, 400);
        }
        assert_eq!(object(serde_json::json!([]), "Pod").unwrap_err().code, 400);
    }
}
