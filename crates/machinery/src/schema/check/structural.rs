//! Checks that a schema is structural: each value has one type, specified outside of all alternatives.

use serde_json::{Map, Value};

use super::super::fault::FaultList;
use super::super::pattern;
use super::{alternatives, properties};
use crate::status::StatusCause;

/// The position of a schema in the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SchemaLevel {
    Root,
    Item,
    Field,
}

/// Members that a schema in an alternative may not have, and what they must be.
const NOT_IN_ALTERNATIVES: [(&str, &str); 12] = [
    ("type", "empty"),
    ("default", "undefined"),
    ("title", "empty"),
    ("description", "empty"),
    ("nullable", "false"),
    ("x-kubernetes-preserve-unknown-fields", "false"),
    ("x-kubernetes-embedded-resource", "false"),
    ("x-kubernetes-int-or-string", "false"),
    ("x-kubernetes-list-map-keys", "empty"),
    ("x-kubernetes-list-type", "undefined"),
    ("x-kubernetes-map-type", "undefined"),
    ("x-kubernetes-validations", "empty"),
];

/// Members that no structural schema supports, and their names in messages.
const UNSUPPORTED: [(&str, &str); 7] = [
    ("id", "id"),
    ("$schema", "schema"),
    ("$ref", "$ref"),
    ("patternProperties", "patternProperties"),
    ("dependencies", "dependencies"),
    ("additionalItems", "additionalItems"),
    ("definitions", "definitions"),
];

/// The first reason why a schema cannot be checked at all.
pub(super) fn unsupported(schema: &Value) -> Option<String> {
    let mut found = None;
    super::each(schema, &mut |schema| {
        let member = UNSUPPORTED.iter().find(|(name, _)| !schema[name].is_null());
        let why = member.map(|(_, shown)| format!("OpenAPIV3Schema '{shown}' is not supported"));
        let list = schema["items"]
            .is_array()
            .then(|| "OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
        let keep = (schema["x-kubernetes-preserve-unknown-fields"] == false).then(|| {
            "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"
                .to_owned()
        });
        found = found.take().or(why).or(keep).or(list);
    });
    found
}

/// The faults of a schema in upstream's order.
pub(super) fn faults(schema: &Value, path: &str) -> Vec<StatusCause> {
    let mut faults = FaultList::new(path);
    place(schema, SchemaLevel::Root, &mut faults);
    complete_values(schema, schema, path, &mut faults);
    let mut causes = faults.causes;
    causes.sort_by_key(|cause| format!("{}: {}", cause.field, cause.message));
    causes
}

/// Checks a schema outside of alternatives.
fn place(schema: &Value, level: SchemaLevel, faults: &mut FaultList) {
    let flag = |name: &str| schema[name] == true;
    if schema["type"] == "array" && !schema["items"].is_object() {
        faults.require("items", "must be specified");
    }
    if schema["items"].is_object() {
        faults.below(".items", |faults| {
            place(&schema["items"], SchemaLevel::Item, faults);
        });
    }
    for (name, schema) in properties(schema) {
        faults.below(&format!(".properties[{name}]"), |faults| {
            place(schema, SchemaLevel::Field, faults);
        });
    }
    let additional = &schema["additionalProperties"];
    if !additional.is_null() && level == SchemaLevel::Root {
        faults.forbid("additionalProperties", "must not be used at the root");
    }
    if additional.is_object() {
        faults.below(".additionalProperties", |faults| {
            place(additional, SchemaLevel::Field, faults);
        });
    }
    for other in [
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
    ] {
        if flag("x-kubernetes-int-or-string") && flag(other) {
            let why = "must be false if x-kubernetes-int-or-string is true";
            faults.refuse(other, &true.into(), why);
        }
    }
    let (any, first) = (
        is_int_or_string(&schema["anyOf"]),
        is_int_or_string(&schema["allOf"][0]["anyOf"]),
    );
    values(schema, (any, first), faults);
    type_faults(schema, level, faults);
    own_members(schema, level, faults);
}

fn type_faults(schema: &Value, level: SchemaLevel, faults: &mut FaultList) {
    let name = schema["type"].as_str().unwrap_or_default();
    let flag = |name: &str| schema[name] == true;
    let embedded = flag("x-kubernetes-embedded-resource");
    if embedded && name != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        faults.refuse_text("type", name, why);
    } else if name.is_empty()
        && !flag("x-kubernetes-int-or-string")
        && !flag("x-kubernetes-preserve-unknown-fields")
    {
        let why = match level {
            SchemaLevel::Root => "must not be empty at the root",
            SchemaLevel::Item => "must not be empty for specified array items",
            SchemaLevel::Field => "must not be empty for specified object fields",
        };
        faults.require("type", why);
    }
    if embedded && !schema["additionalProperties"].is_null() {
        let why = "must not be used if x-kubernetes-embedded-resource is set";
        faults.forbid("additionalProperties", why);
    }
    if level == SchemaLevel::Root && !name.is_empty() && name != "object" {
        faults.refuse("type", &name.into(), "must be object at the root");
    }
}

/// Checks the schemas of `apiVersion`, `kind` and `metadata` of an object.
fn own_members(schema: &Value, level: SchemaLevel, faults: &mut FaultList) {
    let embedded = schema["x-kubernetes-embedded-resource"] == true;
    let is_object = level == SchemaLevel::Root || embedded;
    let properties = &schema["properties"];
    for (name, type_name) in [
        ("kind", "string"),
        ("apiVersion", "string"),
        ("metadata", "object"),
    ] {
        let found = properties[name]["type"].as_str().unwrap_or_default();
        if is_object && properties.get(name).is_some() && found != type_name {
            let why = format!("must be {type_name}");
            faults.refuse(&format!("properties[{name}].type"), &found.into(), &why);
        }
    }
    if let Some(metadata) = properties.get("metadata")
        && level == SchemaLevel::Root
        && !names_only(metadata)
    {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        faults.forbid("properties[metadata]", why);
    }
    if embedded
        && schema["x-kubernetes-preserve-unknown-fields"] != true
        && properties.as_object().is_none_or(Map::is_empty)
    {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        faults.require("properties", why);
    }
}

/// Whether a schema of metadata is only about the name.
fn names_only(metadata: &Value) -> bool {
    let are_names = |schema: &Value| {
        let mut names = schema.as_object().into_iter().flat_map(Map::keys);
        schema.is_object() && names.all(|name| name == "name" || name == "generateName")
    };
    let mut members = metadata.as_object().into_iter().flatten();
    let is_plain = members.all(|(name, value)| match name.as_str() {
        "type" | "default" => true,
        "properties" => are_names(value),
        _ => false,
    });
    metadata.is_object() && is_plain
}

/// Checks the alternatives and the pattern of a schema. Alternatives that express int-or-string are exempt.
fn values(schema: &Value, (skip_any, skip_first): (bool, bool), faults: &mut FaultList) {
    for (step, schema) in alternatives(schema, ["anyOf", "allOf", "oneOf"]) {
        if !(skip_any && step.starts_with(".anyOf")) {
            alternative(&step, schema, skip_first && step == ".allOf[0]", faults);
        }
    }
    if schema["not"].is_object() {
        alternative(".not", &schema["not"], false, faults);
    }
    if let Some(pattern) = schema["pattern"].as_str()
        && let Err(why) = pattern::compile(pattern)
    {
        let why = format!("must be a valid regular expression, but isn't: {why}");
        faults.refuse("pattern", &pattern.into(), &why);
    }
}

/// Checks a schema within an alternative.
fn alternative(step: &str, schema: &Value, skip_any: bool, faults: &mut FaultList) {
    faults.below(step, |faults| {
        values(schema, (skip_any, false), faults);
        if schema["items"].is_object() {
            alternative(".items", &schema["items"], false, faults);
        }
        for (name, schema) in properties(schema) {
            alternative(&format!(".properties[{name}]"), schema, false, faults);
        }
        let rows = [("additionalProperties", "undefined")].into_iter();
        for (name, needed) in rows.chain(NOT_IN_ALTERNATIVES) {
            if !matches!(schema[name], Value::Null | Value::Bool(false)) {
                faults.forbid(name, &format!("must be {needed} to be structural"));
            }
        }
        if schema["properties"].get("metadata").is_some() {
            let why = "must not be specified in a nested context";
            faults.forbid("properties[metadata]", why);
        }
    });
}

/// Checks that every field of the alternative at `path` is also specified outside of it.
fn complete(alternative: &Value, outside: &Value, path: &str, faults: &mut FaultList) {
    if !outside.is_object() {
        let why = format!("because it is defined in {path}");
        let cause = StatusCause::required(faults.path(), &why);
        faults.causes.push(cause);
        return;
    }
    complete_values(alternative, outside, path, faults);
    if alternative["items"].is_object() {
        faults.below(".items", |faults| {
            let path = format!("{path}.items");
            complete(&alternative["items"], &outside["items"], &path, faults);
        });
    }
    for (name, schema) in properties(alternative) {
        let step = format!(".properties[{name}]");
        faults.below(&step, |faults| {
            let outside = &outside["properties"][name];
            complete(schema, outside, &format!("{path}{step}"), faults);
        });
    }
}

fn complete_values(schema: &Value, outside: &Value, path: &str, faults: &mut FaultList) {
    if schema["not"].is_object() {
        complete(&schema["not"], outside, &format!("{path}.not"), faults);
    }
    for (step, schema) in alternatives(schema, ["allOf", "anyOf", "oneOf"]) {
        complete(schema, outside, &format!("{path}{step}"), faults);
    }
}

/// Whether alternatives express int-or-string.
fn is_int_or_string(alternatives: &Value) -> bool {
    *alternatives == serde_json::json!([{"type": "integer"}, {"type": "string"}])
}
