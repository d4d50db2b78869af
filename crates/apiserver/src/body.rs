//! Request bodies: collected up to a limit, and parsed into a JSON tree, whatever their encoding.

pub(crate) mod strict;

use caretaker_machinery::proto::ProtoError;
use caretaker_machinery::quantity::QuantityError;
use caretaker_machinery::schema::{EmbeddedObjectError, SchemaTypeError, type_name};
use caretaker_machinery::status::Status;
use caretaker_machinery::types::TypeRef;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Map, Value};

use crate::negotiate::{MEDIA_TYPES, PROTOBUF};
use crate::protobuf::{self, ProtobufFault};

/// Largest request body, as upstream.
pub(crate) const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Most bytes of a body that an error shows.
const SHOWN_BYTES_MAX: usize = 30;

/// Collects a body, up to [`BODY_BYTES_MAX`].
pub(crate) async fn collect<B>(body: B) -> Result<bytes::Bytes, Status>
where
    B: http_body::Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        // The client went away or broke the framing, and will not read the response.
        Err(_) => Err(Status::bad_request("the request body ended unexpectedly")),
    }
}

/// Parses a body by its content type; no type means JSON. Of repeated keys, the last counts, and objects are merged. `of` is the type of a message,
/// which custom kinds do not have.
///
/// DEVIATION(invalid-utf8): invalid UTF-8 in JSON is refused; upstream replaces it, as is done here in protobuf.
/// DEVIATION(custom-protobuf): a message for a custom kind is refused with 415; upstream panics and closes the connection.
pub(crate) fn parse(
    content_type: &str,
    bytes: &[u8],
    of: Option<TypeRef>,
) -> Result<ParsedBody, BodyError> {
    let once = |value| ParsedBody {
        value,
        is_repeated: false,
        yaml_lines: Vec::new(),
    };
    match (media_type(content_type).to_ascii_lowercase().as_str(), of) {
        ("" | "application/json", _) => {
            let (value, is_repeated) = strict::parse(bytes)?;
            Ok(ParsedBody {
                is_repeated,
                ..once(value)
            })
        }
        ("application/yaml", _) => {
            let (value, yaml_lines) = parse_yaml(bytes)?;
            Ok(ParsedBody {
                yaml_lines,
                ..once(value)
            })
        }
        (PROTOBUF, Some(of)) => match protobuf::read(bytes, of) {
            Ok(tree) => Ok(once(Value::Object(tree))),
            Err(ProtobufFault::Envelope(error)) => Err(BodyError::Envelope {
                error,
                shown: shown(bytes),
            }),
            Err(ProtobufFault::Message { names, error }) => {
                Err(BodyError::Message { names, error })
            }
        },
        (PROTOBUF, None) => Err(BodyError::UnsupportedType(&MEDIA_TYPES[..2])),
        _ => Err(BodyError::UnsupportedType(&MEDIA_TYPES)),
    }
}

/// Parses YAML, which includes JSON. Returns a line of text for each repeated key.
fn parse_yaml(bytes: &[u8]) -> Result<(Value, Vec<String>), BodyError> {
    let text = std::str::from_utf8(bytes).map_err(|error| BodyError::Syntax(error.to_string()))?;
    // The first parser refuses repeated keys, which are rare.
    match serde_saphyr::from_str(text) {
        Ok(value) => Ok((value, Vec::new())),
        Err(error) => strict::yaml::parse(text).map_err(|_| BodyError::Syntax(error.to_string())),
    }
}

/// A body as a tree of JSON.
#[derive(Debug)]
pub(crate) struct ParsedBody {
    pub(crate) value: Value,
    /// An object in it had a key twice.
    pub(crate) is_repeated: bool,
    /// The same for YAML: a line of text for each repeated key.
    pub(crate) yaml_lines: Vec<String>,
}

/// A body that cannot be parsed.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// The media types that are supported.
    UnsupportedType(&'static [&'static str]),
    Syntax(String),
    /// Bytes that are no object in protobuf encoding, and their beginning.
    Envelope {
        error: ProtoError,
        shown: String,
    },
    /// A message that does not decode into the type of its kind, and the apiVersion and kind that it names.
    Message {
        names: Map<String, Value>,
        error: ProtoError,
    },
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
            BodyError::UnsupportedType(media_types) => unsupported(media_types),
            BodyError::Envelope { error, shown } => Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): {error} ({shown})"
            )),
            BodyError::Message {
                error: ProtoError::TooManyValues,
                ..
            } => too_large(),
            BodyError::Message { error, .. } => Status::bad_request(error.to_string()),
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

fn too_large() -> Status {
    let message = format!("Request entity too large: limit is {BODY_BYTES_MAX}");
    Status::failure(413, "RequestEntityTooLarge", message)
}

fn unsupported(media_types: &[&str]) -> Status {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: {}",
        media_types.join(", ")
    );
    Status::failure(415, "UnsupportedMediaType", message)
}

/// Returns the beginning of a body: text if it looks like JSON, else hexadecimal digits.
fn shown(bytes: &[u8]) -> String {
    let (start, more) = match bytes.get(..SHOWN_BYTES_MAX) {
        Some(start) if start.len() < bytes.len() => (start, " ..."),
        _ => (bytes, ""),
    };
    match bytes.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(start).into_owned() + more,
        Some(_) => {
            let digits: String = start.iter().map(|byte| format!("{byte:02x}")).collect();
            digits + more
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_json_and_yaml_and_refuses_other_types() {
        let tree = serde_json::json!({"metadata": {"name": "a"}});
        assert_eq!(
            parse("", br#"{"metadata":{"name":"a"}}"#, None)
                .unwrap()
                .value,
            tree
        );
        assert_eq!(
            parse("application/yaml", b"metadata:\n  name: a\n", None)
                .unwrap()
                .value,
            tree
        );
        assert_eq!(
            parse(
                "application/json; charset=utf-8",
                br#"{"metadata":{"name":"a"}}"#,
                None
            )
            .unwrap()
            .value,
            tree
        );
        for content_type in [PROTOBUF, "text/plain"] {
            let refused = parse(content_type, b"k8s\0", None).unwrap_err();
            assert_eq!(refused.to_status("Pod").code, 415, "{content_type}");
        }
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
            let refused = parse(content_type, body, None).unwrap_err();
            assert_eq!(refused.to_status("Pod").code, 400);
        }
        assert_eq!(object(serde_json::json!([]), "Pod").unwrap_err().code, 400);
    }
}
