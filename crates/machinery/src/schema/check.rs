//! Whether a schema is one that objects can be judged by, in the words and with the paths of the real server.
//!
//! Three sets of rules, as upstream has them: a schema must be [structural] (each place has one type, and alternatives
//! add nothing new), its [defaults] must be valid themselves, and each [place](openapi) may use only what is supported.
//! Mirrors `apiextensions/validation/validation.go` and `apiserver/schema/{validation,complete}.go`, 1.36. Upstream's order
//! of faults is that of Go's maps, which is none; ours is by name.

mod defaults;
mod openapi;
mod structural;

use serde_json::Value;

use super::Metadata;
use super::compile::{self, Purpose};
use super::fault::invalid;
use crate::status::Cause;

/// Whether the status of the objects has a path of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusPath {
    /// Yes.
    Own,
    /// No.
    None,
}

/// Members of a root schema that say nothing about the status, by their names in JSON; upstream lists those in Go.
const AT_ROOT: [&str; 22] = [
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];
const AT_ROOT_SHOWN: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations]";

/// The faults of the schema at `path`, which was [read](super::read).
#[must_use]
pub fn faults(schema: &Value, path: &str, status: StatusPath, metadata: Metadata) -> Vec<Cause> {
    let mut causes = Vec::new();
    if status == StatusPath::Own {
        causes.extend(root_fault(schema, path));
    }
    if schema["nullable"] == true {
        causes.push(Cause::forbidden(
            format!("{path}.nullable"),
            "nullable cannot be true at the root",
        ));
    }
    let unsupported = structural::unsupported(schema);
    if unsupported.is_none() {
        let mut found = structural::faults(schema, path);
        if found.is_empty() {
            found = defaults::faults(&compile::node(schema, Purpose::Defaults), path, metadata);
        }
        causes.extend(found);
    }
    openapi::faults(schema, path, &mut causes);
    match unsupported {
        Some(why) if causes.is_empty() => vec![invalid(path, &"".into(), &why)],
        _ => causes,
    }
}

/// The formats that say nothing, which upstream warns about.
#[must_use]
pub fn unknown_formats(schema: &Value) -> Vec<String> {
    let mut formats = Vec::new();
    each(schema, &mut |schema| {
        let format = schema["format"]
            .as_str()
            .filter(|format| !format.is_empty());
        let source = serde_json::json!({"type": schema["type"], "format": format});
        let node = compile::node(&source, Purpose::Objects);
        formats.extend(format.filter(|_| node.format.is_none()).map(str::to_owned));
    });
    formats
}

/// With a status of its own, a root schema may say little: it is judged without the status.
fn root_fault(schema: &Value, path: &str) -> Option<Cause> {
    let members = schema.as_object()?;
    if let Some(other) = schema["type"].as_str().filter(|name| *name != "object") {
        let why = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        return Some(invalid(format!("{path}.type"), &other.into(), why));
    }
    let odd = members.keys().any(|name| !AT_ROOT.contains(&name.as_str()));
    let why = format!(
        "only {AT_ROOT_SHOWN} fields are allowed at the root of the schema if the status subresource is enabled"
    );
    odd.then(|| invalid(path, schema, &why))
}

/// Visits a schema and all schemas in it.
fn each(schema: &Value, visit: &mut impl FnMut(&Value)) {
    visit(schema);
    for name in ["items", "additionalProperties", "not"] {
        if schema[name].is_object() {
            each(&schema[name], visit);
        }
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        for schema in schema[name].as_array().into_iter().flatten() {
            each(schema, visit);
        }
    }
    for schema in schema["properties"]
        .as_object()
        .into_iter()
        .flat_map(|all| all.values())
    {
        each(schema, visit);
    }
}
