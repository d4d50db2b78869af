//! Objects within objects: what each of them must say about itself.
//!
//! Mirrors `objectmeta/validation.go` of apiextensions-apiserver 1.36.

use serde_json::{Map, Value};

use super::fault::{FAULTS_MAX, invalid};
use super::{Metadata, Node};
use crate::names;
use crate::status::Cause;

/// The faults of all embedded objects below the root.
pub(super) fn faults(root: &Node, object: &Map<String, Value>, metadata: Metadata) -> Vec<Cause> {
    let mut causes = Vec::new();
    members(root, object, "", metadata, &mut causes);
    causes
}

/// The faults of all embedded objects in a value, and of itself if its schema says that it is one.
pub(super) fn walk(
    node: &Node,
    value: &Value,
    path: &str,
    metadata: Metadata,
    causes: &mut Vec<Cause>,
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
    node: &Node,
    object: &Map<String, Value>,
    path: &str,
    metadata: Metadata,
    causes: &mut Vec<Cause>,
) {
    for (name, value) in object
        .iter()
        .filter(|(_, value)| value.is_object() || value.is_array())
    {
        let at = match path {
            _ if !node.properties.contains_key(name) => format!("{path}[{name}]"),
            "" => name.clone(),
            path => format!("{path}.{name}"),
        };
        if let Some(of) = node.member(name) {
            walk(of, value, &at, metadata, causes);
        }
    }
}

fn object_faults(
    object: &Map<String, Value>,
    path: &str,
    metadata: Metadata,
    causes: &mut Vec<Cause>,
) {
    for field in ["apiVersion", "kind"] {
        let at = format!("{path}.{field}");
        match object.get(field) {
            None => causes.push(Cause::required(at, "")),
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
