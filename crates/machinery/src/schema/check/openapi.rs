//! Checks that a schema uses only supported members.

use serde_json::Value;

use super::super::fault::invalid;
use super::super::values::json;
use crate::status::StatusCause;

/// Properties of a schema that its subschemas inherit.
#[derive(Clone, Default)]
struct SchemaContext {
    /// Set if defaults are forbidden: the end of the message.
    no_defaults: Option<String>,
    /// The schema is inside `apiVersion`, `kind` or `metadata` of an object.
    in_metadata: bool,
}

/// Unsupported members and their messages.
const UNSUPPORTED: [(&str, &str); 6] = [
    ("id", "id is not supported"),
    ("additionalItems", "additionalItems is not supported"),
    ("patternProperties", "patternProperties is not supported"),
    ("definitions", "definitions is not supported"),
    ("dependencies", "dependencies is not supported"),
    ("$ref", "$ref is not supported"),
];

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// The faults of a schema and its subschemas.
pub(super) fn faults(schema: &Value, path: &str, causes: &mut Vec<StatusCause>) {
    place(schema, path, &SchemaContext::default(), true, causes);
}

fn place(
    schema: &Value,
    path: &str,
    context: &SchemaContext,
    is_root: bool,
    causes: &mut Vec<StatusCause>,
) {
    supported(schema, path, context, causes);
    if schema["uniqueItems"] == true {
        let why =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        causes.push(StatusCause::forbidden(format!("{path}.uniqueItems"), why));
    }
    additional(schema, path, context, causes);
    let is_object = is_root || schema["x-kubernetes-embedded-resource"] == true;
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        let mut context = context.clone();
        if is_object && matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
            context.in_metadata = true;
            if is_root {
                context.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        place(
            schema,
            &format!("{path}.properties[{name}]"),
            &context,
            false,
            causes,
        );
    }
    if schema["not"].is_object() {
        place(
            &schema["not"],
            &format!("{path}.not"),
            context,
            false,
            causes,
        );
    }
    for name in ["allOf", "oneOf", "anyOf"] {
        for (index, schema) in schema[name].as_array().into_iter().flatten().enumerate() {
            place(
                schema,
                &format!("{path}.{name}[{index}]"),
                context,
                false,
                causes,
            );
        }
    }
    match &schema["items"] {
        items @ Value::Object(_) => place(items, &format!("{path}.items"), context, false, causes),
        Value::Array(items) => {
            for (index, schema) in items.iter().enumerate() {
                place(
                    schema,
                    &format!("{path}.items[{index}]"),
                    context,
                    false,
                    causes,
                );
            }
        }
        _ => {}
    }
    extensions(schema, path, causes);
    list_map(schema, path, causes);
    rules(schema, path, causes);
}

fn supported(schema: &Value, path: &str, context: &SchemaContext, causes: &mut Vec<StatusCause>) {
    let name = schema["type"].as_str().unwrap_or_default();
    if !name.is_empty() && !TYPES.contains(&name) {
        causes.push(StatusCause::not_supported(
            format!("{path}.type"),
            name,
            &TYPES,
        ));
    }
    if let Some(why) = context
        .no_defaults
        .as_ref()
        .filter(|_| !schema["default"].is_null())
    {
        causes.push(StatusCause::forbidden(
            format!("{path}.default"),
            &format!("must not be set {why}"),
        ));
    }
    for (name, why) in UNSUPPORTED {
        if !schema[name].is_null() {
            causes.push(StatusCause::forbidden(format!("{path}.{name}"), why));
        }
    }
    if name == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        causes.push(StatusCause::forbidden(format!("{path}.type"), why));
    }
    if schema["items"]
        .as_array()
        .is_some_and(|items| !items.is_empty())
    {
        let why = "items must be a schema object and not an array";
        causes.push(StatusCause::forbidden(format!("{path}.items"), why));
    }
    if context.in_metadata && schema["x-kubernetes-embedded-resource"] == true {
        let why = "must not be used inside of resource meta";
        causes.push(StatusCause::forbidden(
            format!("{path}.x-kubernetes-embedded-resource"),
            why,
        ));
    }
}

fn additional(schema: &Value, path: &str, context: &SchemaContext, causes: &mut Vec<StatusCause>) {
    let at = format!("{path}.additionalProperties");
    let has_properties = schema["properties"]
        .as_object()
        .is_some_and(|all| !all.is_empty());
    if has_properties
        && !matches!(
            schema["additionalProperties"],
            Value::Null | Value::Bool(true)
        )
    {
        let why = "additionalProperties and properties are mutual exclusive";
        causes.push(StatusCause::forbidden(&at, why));
    }
    if schema["additionalProperties"].is_object() {
        let mut context = context.clone();
        if context.in_metadata {
            context.no_defaults =
                Some("inside additionalProperties applying to object metadata".to_owned());
        }
        place(
            &schema["additionalProperties"],
            &at,
            &context,
            false,
            causes,
        );
    }
}

fn extensions(schema: &Value, path: &str, causes: &mut Vec<StatusCause>) {
    let text = |name: &str| schema[name].as_str();
    let keep = "x-kubernetes-preserve-unknown-fields";
    if schema[keep] == false {
        causes.push(invalid(
            format!("{path}.{keep}"),
            &false.into(),
            "must be true or undefined",
        ));
    }
    let type_name = text("type").unwrap_or_default();
    let mut wants = |extension: &str, wanted: &str| {
        let is_wrong = text(extension).is_some() && type_name != wanted;
        let why = format!("must be {wanted} if {extension} is specified");
        let at = format!("{path}.type");
        if is_wrong {
            causes.push(match type_name {
                "" => StatusCause::required(at, &why),
                other => invalid(at, &other.into(), &why),
            });
        }
        is_wrong
    };
    wants("x-kubernetes-map-type", "object");
    let is_no_list = wants("x-kubernetes-list-type", "array");
    if let Some(other) =
        text("x-kubernetes-map-type").filter(|name| !matches!(*name, "atomic" | "granular"))
    {
        let at = format!("{path}.x-kubernetes-map-type");
        causes.push(StatusCause::not_supported(
            at,
            other,
            &["atomic", "granular"],
        ));
    }
    if text("x-kubernetes-list-type") == Some("set") && !is_no_list {
        set_items(&schema["items"], path, causes);
    }
    if let Some(other) =
        text("x-kubernetes-list-type").filter(|name| !matches!(*name, "atomic" | "set" | "map"))
    {
        let at = format!("{path}.x-kubernetes-list-type");
        causes.push(StatusCause::not_supported(
            at,
            other,
            &["atomic", "set", "map"],
        ));
    }
}

/// Items of a set are compared as a whole, so they must be atomic.
fn set_items(items: &Value, path: &str, causes: &mut Vec<StatusCause>) {
    let (list, map) = (
        &items["x-kubernetes-list-type"],
        &items["x-kubernetes-map-type"],
    );
    let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let at = |name: &str| format!("{path}.items.{name}");
    match items["type"].as_str() {
        Some("array") if !list.is_null() && list != "atomic" => {
            causes.push(StatusCause::invalid(
                at("x-kubernetes-list-type"),
                list,
                why,
            ));
        }
        Some("object") if map != "atomic" => {
            // Upstream shows the list type here, not the map type.
            causes.push(StatusCause::invalid(at("x-kubernetes-map-type"), list, why));
        }
        _ => {}
    }
}

fn list_map(schema: &Value, path: &str, causes: &mut Vec<StatusCause>) {
    let kind = schema["x-kubernetes-list-type"].as_str();
    let keys: Vec<&str> = schema["x-kubernetes-list-map-keys"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let (at_type, at_keys) = (
        format!("{path}.x-kubernetes-list-type"),
        format!("{path}.x-kubernetes-list-map-keys"),
    );
    if !keys.is_empty() && kind != Some("map") {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        causes.push(match kind {
            None => StatusCause::required(at_type, why),
            Some(other) => invalid(at_type, &other.into(), why),
        });
    }
    let (items, at_items) = (&schema["items"], format!("{path}.items"));
    if kind == Some("map") {
        if keys.is_empty() {
            causes.push(StatusCause::required(
                &at_keys,
                "must not be empty if x-kubernetes-list-type is map",
            ));
        }
        match items["type"].as_str() {
            _ if items.is_null() => {
                causes.push(StatusCause::required(
                    &at_items,
                    "must have a schema if x-kubernetes-list-type is map",
                ));
            }
            Some("object") => map_keys(&keys, items, path, causes),
            other => {
                let why = "must be object if parent array's x-kubernetes-list-type is map";
                causes.push(invalid(
                    format!("{at_items}.type"),
                    &other.unwrap_or_default().into(),
                    why,
                ));
            }
        }
    }
    if matches!(kind, Some("map" | "set")) && items["nullable"] == true {
        let why = format!(
            "cannot be nullable when x-kubernetes-list-type is {}",
            kind.unwrap_or_default()
        );
        causes.push(StatusCause::forbidden(format!("{at_items}.nullable"), &why));
    }
    if kind == Some("map") {
        required_keys(&keys, items, &at_items, causes);
    }
}

fn map_keys(keys: &[&str], items: &Value, path: &str, causes: &mut Vec<StatusCause>) {
    let at = format!("{path}.x-kubernetes-list-map-keys");
    for (index, key) in keys.iter().enumerate() {
        match items["properties"].get(key) {
            None => causes.push(StatusCause::invalid(
                &at,
                keys,
                "entries must all be names of item properties",
            )),
            Some(property) if matches!(property["type"].as_str(), Some("array" | "object")) => {
                let at = format!("{path}.items.properties[{key}].type");
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                causes.push(invalid(at, &items["type"], why));
            }
            Some(_) => {}
        }
        if keys[..index].contains(key) {
            causes.push(StatusCause::invalid(
                &at,
                keys,
                "must not contain duplicate entries",
            ));
        }
    }
}

/// Keys of a `map` list must be required or have a default, so that every item is identified.
fn required_keys(keys: &[&str], items: &Value, at_items: &str, causes: &mut Vec<StatusCause>) {
    let required = items["required"].as_array().cloned().unwrap_or_default();
    for key in keys {
        let Some(property) = items["properties"].get(key) else {
            continue;
        };
        let at = format!("{at_items}.properties[{key}]");
        if !required.iter().any(|name| name == key) && property["default"].is_null() {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            causes.push(StatusCause::required(format!("{at}.default"), why));
        }
        if property["nullable"] == true {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            causes.push(StatusCause::forbidden(format!("{at}.nullable"), why));
        }
    }
}

/// Checks the form of CEL rules; the expressions are not compiled.
fn rules(schema: &Value, path: &str, causes: &mut Vec<StatusCause>) {
    for (index, rule) in schema["x-kubernetes-validations"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let at = format!("{path}.x-kubernetes-validations[{index}]");
        let text = |name: &str| rule[name].as_str().unwrap_or_default();
        let (own, message) = (text("rule").trim(), text("message"));
        if own.is_empty() {
            causes.push(StatusCause::required(
                format!("{at}.rule"),
                "rule is not specified",
            ));
        } else if !message.is_empty() && message.trim().is_empty() {
            causes.push(invalid(
                format!("{at}.message"),
                &message.into(),
                "must be non-empty if specified",
            ));
        } else if message.trim().contains(['\n', '\r']) {
            causes.push(invalid(
                format!("{at}.message"),
                &message.into(),
                "must not contain line breaks",
            ));
        } else if own.contains(['\n', '\r']) && message.is_empty() {
            let why = "message must be specified if rule contains line breaks";
            causes.push(StatusCause::required(format!("{at}.message"), why));
        }
        let reasons = [
            "FieldValueRequired",
            "FieldValueForbidden",
            "FieldValueInvalid",
            "FieldValueDuplicate",
        ];
        let reason = &rule["reason"];
        if !reason.is_null() && !reasons.iter().any(|known| reason == known) {
            let shown = reason.as_str().map_or_else(|| json(reason), str::to_owned);
            let mut known = reasons;
            known.sort_unstable();
            causes.push(StatusCause::not_supported(
                format!("{at}.reason"),
                &shown,
                &known,
            ));
        }
    }
}
