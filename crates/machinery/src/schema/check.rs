//! Validation of schemas, with upstream's messages and field paths.
//!
//! Like upstream, there are three sets of rules: a schema must be [structural] (each value has one type, and alternatives add
//! nothing new), its [defaults] must be valid, and it may use only [supported members](openapi).
//! Mirrors `apiextensions/validation/validation.go` and `apiserver/schema/{validation,complete}.go`, 1.36. Upstream iterates
//! over Go maps, so its order of faults is random; ours is by name.

mod defaults;
mod openapi;
mod structural;

use serde_json::Value;

use super::MetadataRules;
use super::compile::{self, CompilePurpose};
use super::fault::{FaultList, invalid};
use crate::status::StatusCause;

/// Whether the custom resource has a status subresource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusSubresource {
    Enabled,
    Disabled,
}

/// Members that a root schema may have if there is a status subresource, by their JSON names.
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

/// The faults of the schema at `path`, after [`read`](super::read).
#[must_use]
pub fn faults(
    schema: &Value,
    path: &str,
    status: StatusSubresource,
    metadata: MetadataRules,
) -> Vec<StatusCause> {
    let mut faults = FaultList::new(path);
    if status == StatusSubresource::Enabled {
        faults.causes.extend(root_fault(schema, path));
    }
    if schema["nullable"] == true {
        faults.forbid("nullable", "nullable cannot be true at the root");
    }
    let unsupported = structural::unsupported(schema);
    if unsupported.is_none() {
        let mut found = structural::faults(schema, path);
        if found.is_empty() {
            let node = compile::node(schema, CompilePurpose::Defaults);
            found = defaults::faults(&node, path, metadata);
        }
        faults.causes.extend(found);
    }
    openapi::check(schema, &mut faults);
    match unsupported {
        Some(why) if faults.causes.is_empty() => vec![invalid(path, &"".into(), &why)],
        _ => faults.causes,
    }
}

/// The formats that are ignored; upstream warns about them.
#[must_use]
pub fn unknown_formats(schema: &Value) -> Vec<String> {
    let mut formats = Vec::new();
    each(schema, &mut |schema| {
        let format = schema["format"]
            .as_str()
            .filter(|format| !format.is_empty());
        let source = serde_json::json!({"type": schema["type"], "format": format});
        let node = compile::node(&source, CompilePurpose::Objects);
        formats.extend(format.filter(|_| node.format.is_none()).map(str::to_owned));
    });
    formats
}

/// With a status subresource a root schema may have few members, because the object is validated without its status.
fn root_fault(schema: &Value, path: &str) -> Option<StatusCause> {
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

/// The alternatives of a schema, each with the step from the schema to it.
fn alternatives<'a>(
    schema: &'a Value,
    names: [&'static str; 3],
) -> impl Iterator<Item = (String, &'a Value)> {
    names.into_iter().flat_map(|name| {
        let schemas = schema[name].as_array().into_iter().flatten().enumerate();
        schemas.map(move |(index, schema)| (format!(".{name}[{index}]"), schema))
    })
}

/// The properties of a schema.
fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

/// Visits a schema and all schemas in it.
fn each(schema: &Value, visit: &mut impl FnMut(&Value)) {
    visit(schema);
    for name in ["items", "additionalProperties", "not"] {
        if schema[name].is_object() {
            each(&schema[name], visit);
        }
    }
    for (_, schema) in alternatives(schema, ["allOf", "anyOf", "oneOf"]) {
        each(schema, visit);
    }
    for (_, schema) in properties(schema) {
        each(schema, visit);
    }
}
