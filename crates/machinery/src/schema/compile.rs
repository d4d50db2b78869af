//! From the JSON of a schema to nodes that walks can use: patterns compiled, formats looked up, enums indexed.
//!
//! Reads leniently: what is wrong was said by `check`, and a schema that was stored all the same does as much as it can.

use serde_json::Value;

use super::format::Format;
use super::number::Bounds;
use super::pattern::Pattern;
use super::values::Choice;
use super::{Additional, List, Node, Size, Type, Types};

/// What a schema is compiled for. Upstream makes its validators in two ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To judge objects.
    Objects,
    /// To judge the defaults in it: int-or-string is any type there, and a format that means nothing counts.
    Defaults,
}

/// The node of a schema and all below it.
pub(super) fn node(schema: &Value, purpose: Purpose) -> Node {
    let text = |name: &str| schema[name].as_str();
    let flag = |name: &str| schema[name] == true;
    let is_both = flag("x-kubernetes-int-or-string") && purpose == Purpose::Objects;
    let types = if is_both {
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
        bounds: Bounds::read(schema, types),
        pattern: pattern.map(Pattern::compile),
        format: text("format").and_then(|name| match purpose {
            Purpose::Objects => Format::of(name, types),
            Purpose::Defaults => Some(Format::any(name)),
        }),
        choice: schema["enum"]
            .as_array()
            .filter(|values| !values.is_empty())
            .map(|values| Choice::of(values)),
        all_of: nodes(&schema["allOf"], purpose),
        any_of: nodes(&schema["anyOf"], purpose),
        one_of: nodes(&schema["oneOf"], purpose),
        not: schema["not"]
            .is_object()
            .then(|| Box::new(node(&schema["not"], purpose))),
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

fn additional(value: &Value, purpose: Purpose) -> Additional {
    match value {
        Value::Bool(true) => Additional::Allowed,
        Value::Bool(false) => Additional::Forbidden,
        Value::Object(_) => Additional::Schema(Box::new(node(value, purpose))),
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

fn nodes(value: &Value, purpose: Purpose) -> Vec<Node> {
    let items = value.as_array().into_iter().flatten();
    items.map(|schema| node(schema, purpose)).collect()
}

fn texts(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}
