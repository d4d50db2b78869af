//! Checks that a schema uses only supported members.

use serde_json::Value;

use super::super::fault::FaultList;
use super::super::values::go_json;
use super::{alternatives, properties};

/// Properties of a schema that its subschemas inherit.
#[derive(Clone, Default)]
struct SchemaContext {
    /// Set if defaults are forbidden: the end of the message.
    no_defaults: Option<String>,
    /// The schema is inside `apiVersion`, `kind` or `metadata` of an object.
    in_metadata: bool,
}

/// Members that are not supported.
const UNSUPPORTED: [&str; 6] = [
    "id",
    "additionalItems",
    "patternProperties",
    "definitions",
    "dependencies",
    "$ref",
];

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// The reasons that a CEL rule may give, sorted.
const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const KEEP: &str = "x-kubernetes-preserve-unknown-fields";
const LIST_TYPE: &str = "x-kubernetes-list-type";
const MAP_KEYS: &str = "x-kubernetes-list-map-keys";
const MAP_TYPE: &str = "x-kubernetes-map-type";

/// Checks a root schema and its subschemas.
pub(super) fn check(schema: &Value, faults: &mut FaultList) {
    place(schema, &SchemaContext::default(), true, faults);
}

fn place(schema: &Value, context: &SchemaContext, is_root: bool, faults: &mut FaultList) {
    supported(schema, context, faults);
    if schema["uniqueItems"] == true {
        let why =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        faults.forbid("uniqueItems", why);
    }
    additional(schema, context, faults);
    let is_object = is_root || schema[EMBEDDED] == true;
    for (name, schema) in properties(schema) {
        let mut context = context.clone();
        if is_object && matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
            context.in_metadata = true;
            if is_root {
                context.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        inside(&format!(".properties[{name}]"), schema, &context, faults);
    }
    if schema["not"].is_object() {
        inside(".not", &schema["not"], context, faults);
    }
    for (step, schema) in alternatives(schema, ["allOf", "oneOf", "anyOf"]) {
        inside(&step, schema, context, faults);
    }
    match &schema["items"] {
        items @ Value::Object(_) => inside(".items", items, context, faults),
        Value::Array(items) => {
            for (index, schema) in items.iter().enumerate() {
                inside(&format!(".items[{index}]"), schema, context, faults);
            }
        }
        _ => {}
    }
    extensions(schema, faults);
    list_map(schema, faults);
    rules(schema, faults);
}

fn inside(step: &str, schema: &Value, context: &SchemaContext, faults: &mut FaultList) {
    faults.below(step, |faults| place(schema, context, false, faults));
}

fn supported(schema: &Value, context: &SchemaContext, faults: &mut FaultList) {
    let name = text(schema, "type").unwrap_or_default();
    if !name.is_empty() && !TYPES.contains(&name) {
        faults.refuse_word("type", name, &TYPES);
    }
    if let Some(why) = &context.no_defaults
        && !schema["default"].is_null()
    {
        faults.forbid("default", &format!("must not be set {why}"));
    }
    for name in UNSUPPORTED {
        if !schema[name].is_null() {
            faults.forbid(name, &format!("{name} is not supported"));
        }
    }
    if name == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        faults.forbid("type", why);
    }
    if !list(&schema["items"]).is_empty() {
        let why = "items must be a schema object and not an array";
        faults.forbid("items", why);
    }
    if context.in_metadata && schema[EMBEDDED] == true {
        faults.forbid(EMBEDDED, "must not be used inside of resource meta");
    }
}

fn additional(schema: &Value, context: &SchemaContext, faults: &mut FaultList) {
    let additional = &schema["additionalProperties"];
    let is_open = matches!(additional, Value::Null | Value::Bool(true));
    if properties(schema).next().is_some() && !is_open {
        let why = "additionalProperties and properties are mutual exclusive";
        faults.forbid("additionalProperties", why);
    }
    if additional.is_object() {
        let mut context = context.clone();
        if context.in_metadata {
            context.no_defaults =
                Some("inside additionalProperties applying to object metadata".to_owned());
        }
        inside(".additionalProperties", additional, &context, faults);
    }
}

fn extensions(schema: &Value, faults: &mut FaultList) {
    if schema[KEEP] == false {
        faults.refuse(KEEP, &false.into(), "must be true or undefined");
    }
    let type_name = text(schema, "type").unwrap_or_default();
    let mut wants = |extension: &str, wanted: &str| {
        let is_wrong = schema[extension].is_string() && type_name != wanted;
        if is_wrong {
            let why = format!("must be {wanted} if {extension} is specified");
            faults.refuse_text("type", type_name, &why);
        }
        is_wrong
    };
    wants(MAP_TYPE, "object");
    let is_no_list = wants(LIST_TYPE, "array");
    let is_known = |faults: &mut FaultList, extension: &str, known: &[&str]| {
        let word = text(schema, extension).filter(|word| !known.contains(word));
        if let Some(word) = word {
            faults.refuse_word(extension, word, known);
        }
    };
    is_known(faults, MAP_TYPE, &["atomic", "granular"]);
    if text(schema, LIST_TYPE) == Some("set") && !is_no_list {
        set_items(&schema["items"], faults);
    }
    is_known(faults, LIST_TYPE, &["atomic", "set", "map"]);
}

/// Items of a set are compared as a whole, so they must be atomic.
fn set_items(items: &Value, faults: &mut FaultList) {
    let (list, map) = (&items[LIST_TYPE], &items[MAP_TYPE]);
    let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
    faults.below(".items", |faults| match text(items, "type") {
        Some("array") if !list.is_null() && list != "atomic" => {
            faults.refuse(LIST_TYPE, list, why);
        }
        // Upstream shows the list type here, not the map type.
        Some("object") if map != "atomic" => faults.refuse(MAP_TYPE, list, why),
        _ => {}
    });
}

fn list_map(schema: &Value, faults: &mut FaultList) {
    let kind = text(schema, LIST_TYPE);
    let keys = list(&schema[MAP_KEYS]).iter().filter_map(Value::as_str);
    let keys: Vec<&str> = keys.collect();
    if !keys.is_empty() && kind != Some("map") {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        match kind {
            None => faults.require(LIST_TYPE, why),
            Some(other) => faults.refuse(LIST_TYPE, &other.into(), why),
        }
    }
    let items = &schema["items"];
    if kind == Some("map") {
        if keys.is_empty() {
            let why = "must not be empty if x-kubernetes-list-type is map";
            faults.require(MAP_KEYS, why);
        }
        match text(items, "type") {
            _ if items.is_null() => {
                let why = "must have a schema if x-kubernetes-list-type is map";
                faults.require("items", why);
            }
            Some("object") => map_keys(&keys, items, faults),
            other => {
                let why = "must be object if parent array's x-kubernetes-list-type is map";
                faults.refuse("items.type", &other.unwrap_or_default().into(), why);
            }
        }
    }
    if let Some(kind @ ("map" | "set")) = kind
        && items["nullable"] == true
    {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {kind}");
        faults.forbid("items.nullable", &why);
    }
    if kind == Some("map") {
        required_keys(&keys, items, faults);
    }
}

fn map_keys(keys: &[&str], items: &Value, faults: &mut FaultList) {
    let shown = keys.into();
    for (index, key) in keys.iter().enumerate() {
        match items["properties"].get(key) {
            None => {
                let why = "entries must all be names of item properties";
                faults.refuse(MAP_KEYS, &shown, why);
            }
            Some(property) if matches!(text(property, "type"), Some("array" | "object")) => {
                let at = format!("items.properties[{key}].type");
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                faults.refuse(&at, &items["type"], why);
            }
            Some(_) => {}
        }
        if keys[..index].contains(key) {
            faults.refuse(MAP_KEYS, &shown, "must not contain duplicate entries");
        }
    }
}

/// Keys of a `map` list must be required or have a default, so that every item is identified.
fn required_keys(keys: &[&str], items: &Value, faults: &mut FaultList) {
    let required = list(&items["required"]);
    for key in keys {
        let Some(property) = items["properties"].get(key) else {
            continue;
        };
        let at = format!("items.properties[{key}]");
        if !required.iter().any(|name| name == key) && property["default"].is_null() {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            faults.require(&format!("{at}.default"), why);
        }
        if property["nullable"] == true {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            faults.forbid(&format!("{at}.nullable"), why);
        }
    }
}

/// Checks the form of CEL rules; the expressions are not compiled.
fn rules(schema: &Value, faults: &mut FaultList) {
    let rules = list(&schema["x-kubernetes-validations"]).iter().enumerate();
    for (index, rule) in rules {
        let step = format!(".x-kubernetes-validations[{index}]");
        faults.below(&step, |faults| check_rule(rule, faults));
    }
}

fn check_rule(rule: &Value, faults: &mut FaultList) {
    let own = text(rule, "rule").unwrap_or_default().trim();
    let message = text(rule, "message").unwrap_or_default();
    if own.is_empty() {
        faults.require("rule", "rule is not specified");
    } else if !message.is_empty() && message.trim().is_empty() {
        faults.refuse("message", &message.into(), "must be non-empty if specified");
    } else if message.trim().contains(['\n', '\r']) {
        faults.refuse("message", &message.into(), "must not contain line breaks");
    } else if own.contains(['\n', '\r']) && message.is_empty() {
        let why = "message must be specified if rule contains line breaks";
        faults.require("message", why);
    }
    let reason = &rule["reason"];
    if !reason.is_null() && !REASONS.iter().any(|known| reason == known) {
        let shown = reason
            .as_str()
            .map_or_else(|| go_json(reason), str::to_owned);
        faults.refuse_word("reason", &shown, &REASONS);
    }
}

fn text<'a>(schema: &'a Value, member: &str) -> Option<&'a str> {
    schema[member].as_str()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
