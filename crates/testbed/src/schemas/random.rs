//! Schemas and objects by chance.
//!
//! Most schemas are sound and some are broken in one place; most objects fit their schema almost everywhere, because an
//! object that is wrong in every place shows little.

use caretaker_machinery::rng::Rng;
use serde_json::{Map, Value, json};

/// How deep schemas nest.
const DEPTH_MAX: usize = 3;
const NAMES: [&str; 5] = ["a", "b", "c", "name", "kind"];
const TEXTS: [&str; 8] = [
    "",
    "a",
    "abc",
    "Abc-1",
    "2024-02-29",
    "10.0.0.1",
    "x y",
    "äö",
];
const NUMBERS: [f64; 8] = [0.0, 1.0, -1.0, 2.5, 3.0, 5.0, 10.0, 3e9];
const PATTERNS: [&str; 8] = [
    "^a",
    "^[a-z]+$",
    r"^\d{4}-\d\d",
    r"^\w*$",
    "b|c",
    "(?i)ABC",
    r"^[^\s]*$",
    r"^\p{L}*$",
];
const FORMATS: [&str; 10] = [
    "date",
    "date-time",
    "ipv4",
    "uuid",
    "hostname",
    "byte",
    "int32",
    "duration",
    "nonsense",
    "email",
];

/// What breaks a schema, each in its own way.
const BREAKS: [(&str, &str); 14] = [
    ("type", "null"),
    ("type", r#""nonsense""#),
    ("pattern", r#""(""#),
    ("uniqueItems", "true"),
    ("default", r#"{"odd": 1}"#),
    ("default", "5"),
    ("anyOf", r#"[{"type": "string"}]"#),
    ("not", r#"{"properties": {"zz": {"minimum": 1}}}"#),
    ("x-kubernetes-list-type", r#""set""#),
    ("x-kubernetes-int-or-string", "true"),
    ("x-kubernetes-preserve-unknown-fields", "false"),
    ("additionalProperties", r#"{"type": "string"}"#),
    ("nullable", "true"),
    ("x-kubernetes-embedded-resource", "true"),
];

fn chance(rng: &mut Rng, one_in: usize) -> bool {
    rng.below(one_in) == 0
}

fn pick<T: Clone>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.below(from.len())].clone()
}

/// A schema of an object with spec, status and one thing more.
pub(super) fn schema(rng: &mut Rng) -> Value {
    let mut properties = Map::new();
    for name in ["spec", "status", "extra"] {
        if !chance(rng, 4) {
            properties.insert(name.into(), place(rng, 0));
        }
    }
    let mut schema = json!({"type": "object", "properties": properties});
    if chance(rng, 6) {
        schema["required"] = json!([pick(rng, &["spec", "extra"])]);
    }
    if chance(rng, 8) {
        schema["x-kubernetes-preserve-unknown-fields"] = true.into();
    }
    schema
}

fn place(rng: &mut Rng, depth: usize) -> Value {
    let simple = depth >= DEPTH_MAX;
    let mut schema = match rng.below(if simple { 5 } else { 9 }) {
        0 => text(rng),
        1 => number(rng, "integer"),
        2 => number(rng, "number"),
        3 => json!({"type": "boolean"}),
        4 => json!({"x-kubernetes-int-or-string": true}),
        5 => list(rng, depth),
        6 => {
            let mut map = json!({"type": "object", "additionalProperties": place(rng, depth + 1)});
            bounds(rng, &mut map, "minProperties", "maxProperties");
            map
        }
        7 if chance(rng, 2) => free(rng),
        _ => object(rng, depth),
    };
    if chance(rng, 7) {
        schema["nullable"] = true.into();
    }
    if chance(rng, 5) {
        schema["default"] = value(rng, &schema);
        if schema["default"].is_null() {
            schema["default"] = pick(rng, &TEXTS).into();
        }
    }
    if chance(rng, 6) {
        alternatives(rng, &mut schema);
    }
    if chance(rng, 40) {
        let (name, broken) = pick(rng, &BREAKS);
        schema[name] = serde_json::from_str(broken).expect("a constant");
        if name == "type" {
            // Upstream judges a default even by a type that does not exist; ours does not.
            without(&mut schema, "default");
        }
    }
    schema
}

fn without(schema: &mut Value, name: &str) {
    if let Some(members) = schema.as_object_mut() {
        members.remove(name);
    }
}

fn text(rng: &mut Rng) -> Value {
    let mut schema = json!({"type": "string"});
    if chance(rng, 3) {
        bounds(rng, &mut schema, "minLength", "maxLength");
    }
    if chance(rng, 4) {
        schema["pattern"] = pick(rng, &PATTERNS).into();
    }
    if chance(rng, 4) {
        schema["format"] = pick(rng, &FORMATS).into();
    }
    if chance(rng, 5) {
        schema["enum"] = json!([pick(rng, &TEXTS), pick(rng, &TEXTS)]);
    }
    schema
}

fn number(rng: &mut Rng, kind: &str) -> Value {
    let mut schema = json!({"type": kind});
    for (name, exclusive) in [
        ("minimum", "exclusiveMinimum"),
        ("maximum", "exclusiveMaximum"),
    ] {
        if chance(rng, 3) {
            schema[name] = whole(pick(rng, &NUMBERS));
            if chance(rng, 3) {
                schema[exclusive] = true.into();
            }
        }
    }
    if chance(rng, 6) {
        schema["multipleOf"] = whole(pick(rng, &[1.0, 2.0, 0.5, 2.5]));
    }
    if chance(rng, 4) {
        schema["format"] = pick(rng, &["int32", "int64", "float", "double", "date"]).into();
    }
    if chance(rng, 7) {
        schema["enum"] = json!([whole(pick(rng, &NUMBERS)), whole(pick(rng, &NUMBERS))]);
    }
    schema
}

fn list(rng: &mut Rng, depth: usize) -> Value {
    let mut schema = match rng.below(4) {
        0 => json!({"type": "array", "x-kubernetes-list-type": "set", "items": text(rng)}),
        1 => {
            let key = json!({"type": "string"});
            let items = json!({"type": "object", "required": ["name"], "properties": {"name": key, "a": place(rng, depth + 1)}});
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": items})
        }
        _ => json!({"type": "array", "items": place(rng, depth + 1)}),
    };
    if chance(rng, 3) {
        bounds(rng, &mut schema, "minItems", "maxItems");
    }
    schema
}

fn object(rng: &mut Rng, depth: usize) -> Value {
    let mut properties = Map::new();
    for _ in 0..=rng.below(3) {
        let schema = place(rng, depth + 1);
        properties.insert(pick(rng, &NAMES).into(), schema);
    }
    let mut schema = json!({"type": "object", "properties": properties});
    if chance(rng, 3) {
        schema["required"] = json!([pick(rng, &NAMES)]);
    }
    if chance(rng, 8) {
        schema["x-kubernetes-preserve-unknown-fields"] = true.into();
    }
    schema
}

fn free(rng: &mut Rng) -> Value {
    let mut schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    match rng.below(4) {
        0 => schema["x-kubernetes-embedded-resource"] = true.into(),
        1 => schema = json!({"x-kubernetes-preserve-unknown-fields": true}),
        2 => schema = json!({"type": "object", "additionalProperties": true}),
        _ => {}
    }
    schema
}

fn bounds(rng: &mut Rng, schema: &mut Value, min: &str, max: &str) {
    if chance(rng, 2) {
        schema[min] = rng.below(3).into();
    }
    if chance(rng, 2) {
        schema[max] = (1 + rng.below(3)).into();
    }
}

fn alternatives(rng: &mut Rng, schema: &mut Value) {
    let name = pick(rng, &["anyOf", "oneOf", "allOf", "not"]);
    let one = |rng: &mut Rng| match rng.below(5) {
        0 => json!({"minimum": whole(pick(rng, &NUMBERS))}),
        1 => json!({"maxLength": rng.below(4)}),
        2 => json!({"required": [pick(rng, &NAMES)]}),
        3 => json!({"enum": [pick(rng, &TEXTS), 1]}),
        _ => json!({"minItems": 1, "minProperties": 1}),
    };
    schema[name] = match name {
        "not" => one(rng),
        _ => json!([one(rng), one(rng)]),
    };
}

/// A value that fits a schema, for the most part.
pub(super) fn value(rng: &mut Rng, schema: &Value) -> Value {
    if chance(rng, 12) {
        return anything(rng, 2);
    }
    match schema["type"].as_str() {
        Some("string") => member(rng, schema).unwrap_or_else(|| pick(rng, &TEXTS).into()),
        Some("integer" | "number") => {
            member(rng, schema).unwrap_or_else(|| whole(pick(rng, &NUMBERS)))
        }
        Some("boolean") => chance(rng, 2).into(),
        Some("array") => (0..rng.below(4))
            .map(|_| value(rng, &schema["items"]))
            .collect(),
        Some("object") => members(rng, schema, "odd"),
        _ if schema["x-kubernetes-int-or-string"] == true => match rng.below(2) {
            0 => pick(rng, &TEXTS).into(),
            _ => rng.below(9).into(),
        },
        _ => anything(rng, 2),
    }
}

/// An object of the kind that a schema describes, without its metadata.
pub(super) fn content(rng: &mut Rng, schema: &Value) -> Value {
    members(rng, schema, "top")
}

/// `odd` is a member that no schema knows.
fn members(rng: &mut Rng, schema: &Value, odd: &str) -> Value {
    let mut members = Map::new();
    if schema["x-kubernetes-embedded-resource"] == true && !chance(rng, 3) {
        members.insert("apiVersion".into(), "v1".into());
        members.insert("kind".into(), "ConfigMap".into());
        members.insert(
            "metadata".into(),
            json!({"name": "x", "odd": 1, "labels": {"a": "b"}}),
        );
    }
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        if !chance(rng, 4) {
            members.insert(name.clone(), value(rng, schema));
        }
    }
    let additional = &schema["additionalProperties"];
    if additional.is_object() {
        for _ in 0..rng.below(4) {
            members.insert(pick(rng, &NAMES).into(), value(rng, additional));
        }
    }
    if chance(rng, 6) || schema["x-kubernetes-preserve-unknown-fields"] == true {
        let name = match odd {
            "top" => odd,
            _ => pick(rng, &[odd, "a", "b"]),
        };
        members.insert(name.into(), anything(rng, 2));
    }
    members.into()
}

/// One of the members of an enum, if there is one.
fn member(rng: &mut Rng, schema: &Value) -> Option<Value> {
    let all = schema["enum"].as_array().filter(|all| !all.is_empty())?;
    (!chance(rng, 3)).then(|| pick(rng, all))
}

fn anything(rng: &mut Rng, depth: usize) -> Value {
    match rng.below(if depth == 0 { 5 } else { 7 }) {
        0 => Value::Null,
        1 => chance(rng, 2).into(),
        2 => whole(pick(rng, &NUMBERS)),
        3 | 4 => pick(rng, &TEXTS).into(),
        5 => (0..rng.below(3))
            .map(|_| anything(rng, depth - 1))
            .collect(),
        _ => {
            let members =
                (0..rng.below(3)).map(|_| (pick(rng, &NAMES).to_owned(), anything(rng, depth - 1)));
            Value::Object(members.collect())
        }
    }
}

/// A number as people write it.
fn whole(number: f64) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and small")]
    let integer = number as i64;
    match number.fract() == 0.0 {
        true => integer.into(),
        false => number.into(),
    }
}
