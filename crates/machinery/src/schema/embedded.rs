//! Validation of embedded objects: `apiVersion`, `kind` and `metadata`.
//!
//! Mirrors `objectmeta/validation.go` of apiextensions-apiserver 1.36.

use serde_json::{Map, Value};

use super::fault::{FAULTS_MAX, invalid};
use super::{MetadataRules, SchemaNode};
use crate::names;
use crate::status::StatusCause;

/// The faults of all embedded objects below the root.
pub(super) fn faults(
    root: &SchemaNode,
    object: &Map<String, Value>,
    metadata: MetadataRules,
) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    members(root, object, "", metadata, &mut causes);
    causes
}

/// The faults of all embedded objects in a value, including the value itself.
pub(super) fn walk(
    node: &SchemaNode,
    value: &Value,
    path: &str,
    metadata: MetadataRules,
    causes: &mut Vec<StatusCause>,
) {
    if causes.len() >= FAULTS_MAX {
        return;
    }
    match value {
        Value::Object(object) => {
            if node.embedded {
                object_faults(object, path, metadata, causes);
            }
            members(node, object, path, metadata, causes);
        }
        Value::Array(items) => {
            let of = node
                .items
                .iter()
                .flat_map(|of| items.iter().map(move |item| (of, item)));
            for (index, (of, item)) in of.enumerate() {
                walk(of, item, &format!("{path}[{index}]"), metadata, causes);
            }
        }
        _ => {}
    }
}

fn members(
    node: &SchemaNode,
    object: &Map<String, Value>,
    path: &str,
    metadata: MetadataRules,
    causes: &mut Vec<StatusCause>,
) {
    for (name, value) in object
        .iter()
        .filter(|(_, value)| value.is_object() || value.is_array())
    {
        let at = node.path_of(path, name);
        if let Some(of) = node.member(name) {
            walk(of, value, &at, metadata, causes);
        }
    }
}

fn object_faults(
    object: &Map<String, Value>,
    path: &str,
    metadata: MetadataRules,
    causes: &mut Vec<StatusCause>,
) {
    for field in ["apiVersion", "kind"] {
        let at = format!("{path}.{field}");
        match object.get(field) {
            None => causes.push(StatusCause::required(at, "")),
            Some(Value::String(text)) if text.is_empty() => {
                causes.push(invalid(at, &"".into(), "must not be empty"));
            }
            Some(value @ Value::String(text)) => {
                let fault = if field == "kind" {
                    kind_fault(text)
                } else {
                    version_fault(text)
                };
                causes.extend(fault.map(|why| invalid(at, value, &why)));
            }
            Some(other) => causes.push(invalid(at, other, "must be a string")),
        }
    }
    if let Some(Value::Object(given)) = object.get("metadata") {
        causes.extend((metadata.faults)(given, &format!("{path}.metadata")));
    }
}

fn kind_fault(kind: &str) -> Option<String> {
    let faults = names::dns_1035_label(&kind.to_lowercase());
    (!faults.is_empty()).then(|| {
        format!(
            "may have mixed case, but should otherwise match: {}",
            faults.join(",")
        )
    })
}

fn version_fault(version: &str) -> Option<String> {
    (version.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {version}"))
}
