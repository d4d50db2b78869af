//! Validation of the defaults in a schema: they must be valid values without unknown members.

use serde_json::{Map, Value, json};

use super::super::fault::invalid;
use super::super::{MetadataRules, SchemaNode, embedded, validate, walk};
use crate::status::StatusCause;

/// The path from the nearest object into its metadata; `None` outside of metadata.
type MetadataPath = Option<Vec<MetadataStep>>;

#[derive(Clone)]
enum MetadataStep {
    Member(String),
    Item,
}

/// The faults of all defaults in a schema. Like upstream, it ignores defaults below `additionalProperties`.
pub(super) fn faults(root: &SchemaNode, path: &str, metadata: MetadataRules) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    place(root, path, true, &None, metadata, &mut causes);
    causes
}

fn place(
    node: &SchemaNode,
    path: &str,
    is_root: bool,
    way: &MetadataPath,
    metadata: MetadataRules,
    causes: &mut Vec<StatusCause>,
) {
    let is_object = is_root || node.embedded;
    let way = if is_object { &None } else { way };
    if let Some(default) = &node.default {
        let at = format!("{path}.default");
        match way {
            Some(way) => causes.extend(in_metadata(default, node, way, &at, metadata)),
            None => causes.extend(outside(default, node, &at, metadata)),
        }
    }
    if let Some(items) = &node.items {
        let way = way
            .as_ref()
            .map(|way| [way.as_slice(), &[MetadataStep::Item]].concat());
        place(
            items,
            &format!("{path}.items"),
            false,
            &way,
            metadata,
            causes,
        );
    }
    for (name, node) in &node.properties {
        let starts = is_object && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
        let before = way.clone().or(starts.then(Vec::new));
        let way =
            before.map(|way| [way.as_slice(), &[MetadataStep::Member(name.clone())]].concat());
        let below = format!("{path}.properties[{name}]");
        place(node, &below, false, &way, metadata, causes);
    }
}

fn outside(
    default: &Value,
    node: &SchemaNode,
    at: &str,
    metadata: MetadataRules,
) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    if walk::has_unknown(node, default, metadata) {
        causes.push(invalid(at, default, "must not have unknown fields"));
    }
    let mut found = Vec::new();
    embedded::walk(node, default, at, metadata, &mut found);
    if found.is_empty() {
        let mut shaped = default.clone();
        if let Some(given) = shaped.get_mut("metadata").filter(|_| node.embedded) {
            // `has_unknown` has already pruned a copy of it.
            let _ = (metadata.shape)(given);
        }
        found = validate::value_faults(node, &shaped, at);
    }
    causes.extend(found);
    causes
}

/// Validates a default inside metadata by building the metadata that results from it.
fn in_metadata(
    default: &Value,
    node: &SchemaNode,
    way: &[MetadataStep],
    at: &str,
    metadata: MetadataRules,
) -> Vec<StatusCause> {
    let mut made = default.clone();
    for step in way.iter().rev() {
        made = match step {
            MetadataStep::Member(name) => Value::Object(Map::from_iter([(name.clone(), made)])),
            MetadataStep::Item => json!([made]),
        };
    }
    let wrong = |why: &str| {
        vec![invalid(
            at,
            default,
            &format!("must result in valid metadata: {why}"),
        )]
    };
    let Some(given) = made.get_mut("metadata") else {
        return validate::value_faults(node, default, at);
    };
    let before = given.clone();
    if let Err(why) = (metadata.shape)(given) {
        return wrong(&format!("metadata: Invalid value: {before}: {why}"));
    }
    let mut shaped = given.as_object().cloned().unwrap_or_default();
    shaped.entry("name").or_insert_with(|| "fakename".into());
    match (metadata.faults)(&shaped, "metadata").first() {
        Some(cause) => wrong(&format!("{}: {}", cause.field, cause.message)),
        None => validate::value_faults(node, default, at),
    }
}
