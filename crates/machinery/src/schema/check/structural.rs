//! Checks that a schema is structural: each value has one type, specified outside of all alternatives.

use serde_json::Value;

use super::super::fault::invalid;
use super::super::pattern;
use crate::status::StatusCause;

/// The position of a schema in the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SchemaLevel {
    Root,
    Item,
    Field,
}

/// Members that a schema in an alternative may not have, and their messages.
const NOT_IN_ALTERNATIVES: [(&str, &str); 11] = [
    ("type", "must be empty to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (
        "x-kubernetes-preserve-unknown-fields",
        "must be false to be structural",
    ),
    (
        "x-kubernetes-embedded-resource",
        "must be false to be structural",
    ),
    (
        "x-kubernetes-int-or-string",
        "must be false to be structural",
    ),
    (
        "x-kubernetes-list-map-keys",
        "must be empty to be structural",
    ),
    (
        "x-kubernetes-list-type",
        "must be undefined to be structural",
    ),
    (
        "x-kubernetes-map-type",
        "must be undefined to be structural",
    ),
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
    let mut causes = Vec::new();
    place(schema, SchemaLevel::Root, path, &mut causes);
    complete_values(schema, schema, path, path, &mut causes);
    causes.sort_by_key(|cause| format!("{}: {}", cause.field, cause.message));
    causes
}

/// Checks a schema outside of alternatives.
fn place(schema: &Value, level: SchemaLevel, path: &str, causes: &mut Vec<StatusCause>) {
    let (text, flag) = (
        |name: &str| schema[name].as_str().unwrap_or_default(),
        |name: &str| schema[name] == true,
    );
    if text("type") == "array" && !schema["items"].is_object() {
        causes.push(StatusCause::required(
            format!("{path}.items"),
            "must be specified",
        ));
    }
    if schema["items"].is_object() {
        place(
            &schema["items"],
            SchemaLevel::Item,
            &format!("{path}.items"),
            causes,
        );
    }
    for (name, schema) in properties(schema) {
        place(
            schema,
            SchemaLevel::Field,
            &format!("{path}.properties[{name}]"),
            causes,
        );
    }
    let additional = format!("{path}.additionalProperties");
    if !schema["additionalProperties"].is_null() && level == SchemaLevel::Root {
        causes.push(StatusCause::forbidden(
            &additional,
            "must not be used at the root",
        ));
    }
    if schema["additionalProperties"].is_object() {
        place(
            &schema["additionalProperties"],
            SchemaLevel::Field,
            &additional,
            causes,
        );
    }
    let int_or_string = flag("x-kubernetes-int-or-string");
    for other in [
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
    ] {
        if int_or_string && flag(other) {
            let why = "must be false if x-kubernetes-int-or-string is true";
            causes.push(invalid(format!("{path}.{other}"), &true.into(), why));
        }
    }
    let (any, first) = (
        is_int_or_string(&schema["anyOf"]),
        is_int_or_string(&schema["allOf"][0]["anyOf"]),
    );
    values(schema, (any, first), path, causes);
    type_faults(schema, level, path, causes);
    own_members(schema, level, path, causes);
}

fn type_faults(schema: &Value, level: SchemaLevel, path: &str, causes: &mut Vec<StatusCause>) {
    let (name, at) = (
        schema["type"].as_str().unwrap_or_default(),
        format!("{path}.type"),
    );
    let flag = |name: &str| schema[name] == true;
    let embedded = flag("x-kubernetes-embedded-resource");
    if embedded && name != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        causes.push(match name {
            "" => StatusCause::required(&at, why),
            other => invalid(&at, &other.into(), why),
        });
    } else if name.is_empty()
        && !flag("x-kubernetes-int-or-string")
        && !flag("x-kubernetes-preserve-unknown-fields")
    {
        let why = match level {
            SchemaLevel::Root => "must not be empty at the root",
            SchemaLevel::Item => "must not be empty for specified array items",
            SchemaLevel::Field => "must not be empty for specified object fields",
        };
        causes.push(StatusCause::required(&at, why));
    }
    if embedded && !schema["additionalProperties"].is_null() {
        let why = "must not be used if x-kubernetes-embedded-resource is set";
        causes.push(StatusCause::forbidden(
            format!("{path}.additionalProperties"),
            why,
        ));
    }
    if level == SchemaLevel::Root && !name.is_empty() && name != "object" {
        causes.push(invalid(&at, &name.into(), "must be object at the root"));
    }
}

/// Checks the schemas of `apiVersion`, `kind` and `metadata` of an object.
fn own_members(schema: &Value, level: SchemaLevel, path: &str, causes: &mut Vec<StatusCause>) {
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
            let at = format!("{path}.properties[{name}].type");
            causes.push(invalid(at, &found.into(), &format!("must be {type_name}")));
        }
    }
    if let Some(metadata) = properties
        .get("metadata")
        .filter(|_| level == SchemaLevel::Root)
    {
        let names = |schema: &Value| {
            schema.as_object().is_some_and(|all| {
                all.keys()
                    .all(|name| name == "name" || name == "generateName")
            })
        };
        let plain = metadata.as_object().is_some_and(|members| {
            members.iter().all(|(name, value)| {
                matches!(name.as_str(), "type" | "default") || name == "properties" && names(value)
            })
        });
        if !plain {
            let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            causes.push(StatusCause::forbidden(
                format!("{path}.properties[metadata]"),
                why,
            ));
        }
    }
    if embedded
        && schema["x-kubernetes-preserve-unknown-fields"] != true
        && properties.as_object().is_none_or(serde_json::Map::is_empty)
    {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        causes.push(StatusCause::required(format!("{path}.properties"), why));
    }
}

/// Checks the alternatives and the pattern of a schema. Alternatives that express int-or-string are exempt.
fn values(
    schema: &Value,
    (skip_any, skip_first): (bool, bool),
    path: &str,
    causes: &mut Vec<StatusCause>,
) {
    for name in ["anyOf", "allOf", "oneOf"] {
        if name == "anyOf" && skip_any {
            continue;
        }
        for (index, schema) in schema[name].as_array().into_iter().flatten().enumerate() {
            let skip = name == "allOf" && index == 0 && skip_first;
            alternative(schema, skip, &format!("{path}.{name}[{index}]"), causes);
        }
    }
    if schema["not"].is_object() {
        alternative(&schema["not"], false, &format!("{path}.not"), causes);
    }
    if let Some(pattern) = schema["pattern"]
        .as_str()
        .filter(|pattern| !pattern.is_empty())
        && let Err(why) = pattern::compile(pattern)
    {
        let why = format!("must be a valid regular expression, but isn't: {why}");
        causes.push(invalid(format!("{path}.pattern"), &pattern.into(), &why));
    }
}

/// Checks a schema within an alternative.
fn alternative(schema: &Value, skip_any: bool, path: &str, causes: &mut Vec<StatusCause>) {
    values(schema, (skip_any, false), path, causes);
    if schema["items"].is_object() {
        alternative(&schema["items"], false, &format!("{path}.items"), causes);
    }
    for (name, schema) in properties(schema) {
        alternative(schema, false, &format!("{path}.properties[{name}]"), causes);
    }
    if !matches!(
        schema["additionalProperties"],
        Value::Null | Value::Bool(false)
    ) {
        let why = "must be undefined to be structural";
        causes.push(StatusCause::forbidden(
            format!("{path}.additionalProperties"),
            why,
        ));
    }
    for (name, why) in NOT_IN_ALTERNATIVES {
        if !matches!(schema[name], Value::Null | Value::Bool(false)) {
            causes.push(StatusCause::forbidden(format!("{path}.{name}"), why));
        }
    }
    if !schema["x-kubernetes-validations"].is_null() {
        causes.push(StatusCause::forbidden(
            format!("{path}.x-kubernetes-validations"),
            "must be empty to be structural",
        ));
    }
    if schema["properties"].get("metadata").is_some() {
        let why = "must not be specified in a nested context";
        causes.push(StatusCause::forbidden(
            format!("{path}.properties[metadata]"),
            why,
        ));
    }
}

/// Checks that every field of an alternative is also specified outside of it.
fn complete(
    alternative: &Value,
    outside: &Value,
    at: &str,
    path: &str,
    causes: &mut Vec<StatusCause>,
) {
    if !outside.is_object() {
        causes.push(StatusCause::required(
            at,
            &format!("because it is defined in {path}"),
        ));
        return;
    }
    complete_values(alternative, outside, at, path, causes);
    if alternative["items"].is_object() {
        complete(
            &alternative["items"],
            &outside["items"],
            &format!("{at}.items"),
            &format!("{path}.items"),
            causes,
        );
    }
    for (name, schema) in properties(alternative) {
        let below = format!(".properties[{name}]");
        complete(
            schema,
            &outside["properties"][name],
            &format!("{at}{below}"),
            &format!("{path}{below}"),
            causes,
        );
    }
}

fn complete_values(
    schema: &Value,
    outside: &Value,
    at: &str,
    path: &str,
    causes: &mut Vec<StatusCause>,
) {
    if schema["not"].is_object() {
        complete(&schema["not"], outside, at, &format!("{path}.not"), causes);
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        for (index, schema) in schema[name].as_array().into_iter().flatten().enumerate() {
            complete(
                schema,
                outside,
                at,
                &format!("{path}.{name}[{index}]"),
                causes,
            );
        }
    }
}

/// Whether alternatives express int-or-string.
fn is_int_or_string(alternatives: &Value) -> bool {
    *alternatives == serde_json::json!([{"type": "integer"}, {"type": "string"}])
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}
