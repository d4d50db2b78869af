//! What a request brings: bytes of a limited size, read as one JSON tree whatever they were written in.

use caretaker_machinery::status::Status;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Map, Value};

/// Largest request body, as upstream.
pub(crate) const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// What the server reads, as it says when it gets something else.
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
        // The client went away or broke the framing; nobody reads the answer.
        Err(_) => Err(Status::bad_request("the request body ended unexpectedly")),
    }
}

/// The tree in `bytes`, by its content type; no type means JSON. Duplicate keys: the last one holds.
///
/// DEVIATION(invalid-utf8): broken text is refused, not mended.
pub(crate) fn parse(content_type: &str, bytes: &[u8]) -> Result<Value, Unreadable> {
    match media_type(content_type).to_ascii_lowercase().as_str() {
        "" | "application/json" => Ok(serde_json::from_slice(bytes)?),
        "application/yaml" => parse_yaml(bytes),
        other => Err(Unreadable::Unsupported(other.to_owned())),
    }
}

/// YAML as a tree; JSON is YAML.
pub(crate) fn parse_yaml(bytes: &[u8]) -> Result<Value, Unreadable> {
    let text = std::str::from_utf8(bytes).map_err(|error| Unreadable::Syntax(error.to_string()))?;
    serde_saphyr::from_str(text).map_err(|error| Unreadable::Syntax(error.to_string()))
}

/// Why a body is not a tree.
#[derive(Debug)]
pub(crate) enum Unreadable {
    /// A content type nobody reads.
    Unsupported(String),
    /// The text is broken.
    Syntax(String),
}

// === impl Unreadable ===

impl Unreadable {
    /// The answer to an object of `kind` that cannot be read.
    pub(crate) fn to_status(&self, kind: &str) -> Status {
        match self {
            Unreadable::Unsupported(media_type) => unsupported(media_type),
            Unreadable::Syntax(why) => Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: {why}"
            )),
        }
    }
}

impl From<serde_json::Error> for Unreadable {
    fn from(error: serde_json::Error) -> Self {
        Unreadable::Syntax(error.to_string())
    }
}

/// An object from the tree; anything else is no object.
pub(crate) fn object(value: Value, kind: &str) -> Result<Map<String, Value>, Status> {
    match value {
        Value::Object(object) => Ok(object),
        // Upstream takes null for an object that says nothing.
        Value::Null => Ok(Map::new()),
        other => {
            let why = format!("a JSON object was expected, not {}", type_name(&other));
            Err(Unreadable::Syntax(why).to_status(kind))
        }
    }
}

/// What JSON calls the type of `value`.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The type without its parameters.
pub(crate) fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

fn unsupported(media_type: &str) -> Status {
    // DEVIATION(protobuf-bodies): not read yet. They get a sentence of their own: kubectl's `create namespace` and its like
    // send them, and a person should learn what to do instead.
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
    fn json_and_yaml_are_read_and_the_rest_is_refused() {
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
    fn hostile_bodies_are_bad_requests() {
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
