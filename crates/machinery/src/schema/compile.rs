//! Compiles the JSON of a schema to nodes: regular expressions compiled, formats looked up, enums indexed.
//!
//! Invalid parts are ignored: `check` reports them, and a schema that was stored nevertheless is applied as far as possible.

use serde_json::Value;

use super::format::ValueFormat;
use super::number::NumberBounds;
use super::pattern::GoPattern;
use super::values::EnumValues;
use super::{AdditionalProperties, JsonType, ListType, NodeTypes, SchemaNode, SizeLimits};

/// Selects one of the two ways in which upstream builds its validators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CompilePurpose {
    /// Validation of objects.
    Objects,
    /// Validation of the defaults in the schema: int-or-string accepts any type, and unknown formats count.
    Defaults,
}

/// Compiles a schema and all schemas in it.
pub(super) fn node(schema: &Value, purpose: CompilePurpose) -> SchemaNode {
    let text = |name: &str| schema[name].as_str();
    let flag = |name: &str| schema[name] == true;
    let is_both = flag("x-kubernetes-int-or-string") && purpose == CompilePurpose::Objects;
    let types = if is_both {
        NodeTypes::IntOrString
    } else {
        text("type")
            .and_then(JsonType::of)
            .map_or(NodeTypes::Any, NodeTypes::One)
    };
    let properties = schema["properties"].as_object().into_iter().flatten();
    let pattern = text("pattern").filter(|pattern| !pattern.is_empty());
    SchemaNode {
        types,
        nullable: flag("nullable"),
        preserve: flag("x-kubernetes-preserve-unknown-fields"),
        embedded: flag("x-kubernetes-embedded-resource"),
        default: Some(&schema["default"])
            .filter(|default| !default.is_null())
            .cloned(),
        properties: properties
            .map(|(name, schema)| (name.clone(), node(schema, purpose)))
            .collect(),
        additional: additional(&schema["additionalProperties"], purpose),
        items: schema["items"]
            .is_object()
            .then(|| Box::new(node(&schema["items"], purpose))),
        list: list(schema),
        required: texts(&schema["required"]),
        length: size(schema, "minLength", "maxLength"),
        count: size(schema, "minItems", "maxItems"),
        members: size(schema, "minProperties", "maxProperties"),
        bounds: NumberBounds::read(schema, types),
        pattern: pattern.map(GoPattern::compile),
        format: text("format").and_then(|name| match purpose {
            CompilePurpose::Objects => ValueFormat::of(name, types),
            CompilePurpose::Defaults => Some(ValueFormat::any(name)),
        }),
        choice: schema["enum"]
            .as_array()
            .filter(|values| !values.is_empty())
            .map(|values| EnumValues::of(values)),
        all_of: nodes(&schema["allOf"], purpose),
        any_of: nodes(&schema["anyOf"], purpose),
        one_of: nodes(&schema["oneOf"], purpose),
        not: schema["not"]
            .is_object()
            .then(|| Box::new(node(&schema["not"], purpose))),
    }
}

/// Whether a schema or a schema in it has CEL rules.
pub(super) fn has_rules(schema: &Value) -> bool {
    let own = schema["x-kubernetes-validations"].as_array();
    own.is_some_and(|rules| !rules.is_empty())
        || schema["properties"]
            .as_object()
            .is_some_and(|all| all.values().any(has_rules))
        || ["items", "additionalProperties"]
            .iter()
            .any(|name| schema[name].is_object() && has_rules(&schema[name]))
}

fn additional(value: &Value, purpose: CompilePurpose) -> AdditionalProperties {
    match value {
        Value::Bool(true) => AdditionalProperties::Allowed,
        Value::Bool(false) => AdditionalProperties::Forbidden,
        Value::Object(_) => AdditionalProperties::Schema(Box::new(node(value, purpose))),
        _ => AdditionalProperties::Unspecified,
    }
}

fn list(schema: &Value) -> ListType {
    match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => ListType::Set,
        Some("map") => ListType::Map(texts(&schema["x-kubernetes-list-map-keys"])),
        _ => ListType::Atomic,
    }
}

fn size(schema: &Value, min: &str, max: &str) -> SizeLimits {
    SizeLimits {
        min: schema[min].as_i64(),
        max: schema[max].as_i64(),
    }
}

fn nodes(value: &Value, purpose: CompilePurpose) -> Vec<SchemaNode> {
    let items = value.as_array().into_iter().flatten();
    items.map(|schema| node(schema, purpose)).collect()
}

fn texts(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}
