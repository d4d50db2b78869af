//! From the JSON of a schema to nodes that walks can use: patterns compiled, formats looked up, enums indexed.
//!
//! Reads leniently: what is wrong was said by `check`, and a schema that was stored all the same does as much as it can.

use serde_json::Value;

use super::format::Format;
use super::number::Bounds;
use super::pattern::Pattern;
use super::values::Choice;
use super::{Additional, List, Node, Size, Type, Types};

/// The node of a schema and all below it.
pub(super) fn node(schema: &Value) -> Node {
    let text = |name: &str| schema[name].as_str();
    let flag = |name: &str| schema[name] == true;
    let types = if flag("x-kubernetes-int-or-string") {
        Types::IntOrString
    } else {
        text("type")
            .and_then(Type::of)
            .map_or(Types::Any, Types::One)
    };
    let properties = schema["properties"].as_object().into_iter().flatten();
    let pattern = text("pattern").filter(|pattern| !pattern.is_empty());
    Node {
        types,
        nullable: flag("nullable"),
        preserve: flag("x-kubernetes-preserve-unknown-fields"),
        embedded: flag("x-kubernetes-embedded-resource"),
        default: Some(&schema["default"])
            .filter(|default| !default.is_null())
            .cloned(),
        properties: properties
            .map(|(name, schema)| (name.clone(), node(schema)))
            .collect(),
        additional: additional(&schema["additionalProperties"]),
        items: schema["items"]
            .is_object()
            .then(|| Box::new(node(&schema["items"]))),
        list: list(schema),
        required: texts(&schema["required"]),
        length: size(schema, "minLength", "maxLength"),
        count: size(schema, "minItems", "maxItems"),
        members: size(schema, "minProperties", "maxProperties"),
        bounds: Bounds::read(schema, types),
        pattern: pattern.map(Pattern::compile),
        format: text("format").and_then(|name| Format::of(name, types)),
        choice: schema["enum"]
            .as_array()
            .filter(|values| !values.is_empty())
            .map(|values| Choice::of(values)),
        all_of: nodes(&schema["allOf"]),
        any_of: nodes(&schema["anyOf"]),
        one_of: nodes(&schema["oneOf"]),
        not: schema["not"]
            .is_object()
            .then(|| Box::new(node(&schema["not"]))),
    }
}

/// Whether there are rules in CEL anywhere.
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

fn additional(value: &Value) -> Additional {
    match value {
        Value::Bool(true) => Additional::Allowed,
        Value::Bool(false) => Additional::Forbidden,
        Value::Object(_) => Additional::Schema(Box::new(node(value))),
        _ => Additional::Unsaid,
    }
}

fn list(schema: &Value) -> List {
    match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => List::Set,
        Some("map") => List::Map(texts(&schema["x-kubernetes-list-map-keys"])),
        _ => List::Atomic,
    }
}

fn size(schema: &Value, min: &str, max: &str) -> Size {
    Size {
        min: schema[min].as_i64(),
        max: schema[max].as_i64(),
    }
}

fn nodes(value: &Value) -> Vec<Node> {
    value.as_array().into_iter().flatten().map(node).collect()
}

fn texts(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}
