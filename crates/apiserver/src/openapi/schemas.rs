//! The schemas of an OpenAPI v3 document: those of built-in types from the table, those of custom kinds from their
//! definitions.
//!
//! DEVIATION(openapi): no type and no field of a built-in kind has a description. Those of custom kinds are the user's.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::kinds::ServedKind;
use crate::schemas::{PlainValue, SchemaRow, SchemaValue, ValueShape, table};

/// The name of the metadata of objects and of lists.
pub(super) const OBJECT_META: &str = "meta.v1.ObjectMeta";
pub(super) const LIST_META: &str = "meta.v1.ListMeta";

/// A value is rendered differently as a field and as an element of a list or map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValuePlace {
    Field,
    Element,
}

/// Returns the name of a type in documents.
pub(super) fn full_name(name: &str) -> String {
    if table().get(name).is_none() {
        return name.to_owned();
    }
    let prefix = match name.split('.').next().unwrap_or_default() {
        "apiextensions" => "io.k8s.apiextensions-apiserver.pkg.apis.",
        "apiregistration" => "io.k8s.kube-aggregator.pkg.apis.",
        "meta" => "io.k8s.apimachinery.pkg.apis.",
        "api" | "runtime" | "util" | "version" => "io.k8s.apimachinery.pkg.",
        _ => "io.k8s.api.",
    };
    format!("{prefix}{name}")
}

/// Returns the short name of a kind's type: of a custom kind, its group in reverse order.
pub(super) fn type_name(kind: &ServedKind, name: &str) -> String {
    match kind.custom {
        None => format!("{}.{}.{name}", kind.package(), kind.version),
        Some(_) => {
            let mut group: Vec<&str> = kind.group.split('.').collect();
            group.reverse();
            format!("{}.{}.{name}", group.join("."), kind.version)
        }
    }
}

/// Returns a reference to a type.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{}", full_name(name))})
}

/// Renders the types of the table that are among these names, and all that these contain.
pub(super) fn components(
    names: BTreeSet<String>,
    (group, version): (&str, &str),
) -> Map<String, Value> {
    let mut schemas = Map::new();
    let mut open: Vec<String> = names.into_iter().collect();
    while let Some(name) = open.pop() {
        let full = full_name(&name);
        let Some(row) = table().get(&name) else {
            continue;
        };
        if schemas.contains_key(&full) {
            continue;
        }
        let fields = row.fields().filter_map(|field| field.value.reference());
        open.extend(fields.map(str::to_owned));
        schemas.insert(full, type_schema(&name, row, (group, version)));
    }
    schemas
}

/// Renders the schema of a custom kind and that of its list.
pub(super) fn custom(kind: &ServedKind, schema: &Value) -> [(String, Value); 2] {
    let mut own = schema.clone();
    if !own.is_object() {
        own = json!({"type": "object"});
    }
    complete(&mut own);
    let object = json!({"type": "string"});
    let meta = json!({"allOf": [reference(OBJECT_META)]});
    own["properties"]["apiVersion"] = object.clone();
    own["properties"]["kind"] = object.clone();
    own["properties"]["metadata"] = meta;
    own["x-kubernetes-group-version-kind"] = kinds(kind, &kind.kind);
    let name = type_name(kind, &kind.kind);
    let list = json!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": object,
            "items": {"type": "array", "items": reference(&name)},
            "kind": object,
            "metadata": {"allOf": [reference(LIST_META)]},
        },
        "x-kubernetes-group-version-kind": kinds(kind, &kind.list_kind),
    });
    [(name, own), (type_name(kind, &kind.list_kind), list)]
}

/// Adds what a definition says in other words: the fields of embedded objects, and the two types of an integer or text.
fn complete(schema: &mut Value) {
    let Some(keywords) = schema.as_object_mut() else {
        return;
    };
    if let Some(Value::Object(fields)) = keywords.get_mut("properties") {
        fields.values_mut().for_each(complete);
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(inner) = keywords.get_mut(inner) {
            complete(inner);
        }
    }
    let is = |keyword: &str| schema.get(keyword) == Some(&Value::Bool(true));
    let (embedded, int_or_string) = (
        is("x-kubernetes-embedded-resource"),
        is("x-kubernetes-int-or-string"),
    );
    if embedded {
        schema["required"] = json!(["kind", "apiVersion"]);
        schema["properties"]["apiVersion"] = json!({"type": "string"});
        schema["properties"]["kind"] = json!({"type": "string"});
        schema["properties"]["metadata"] = json!({"allOf": [reference(OBJECT_META)]});
    }
    if int_or_string {
        schema["anyOf"] = json!([{"type": "integer"}, {"type": "string"}]);
    }
}

fn kinds(kind: &ServedKind, name: &str) -> Value {
    json!([{"group": kind.group, "version": kind.version, "kind": name}])
}

/// Renders a type of the table. Some types are kinds of every group, and a document lists them for its own.
fn type_schema(name: &str, row: SchemaRow, (group, version): (&str, &str)) -> Value {
    let mut schema = match row.plain() {
        Some(value) => render(value, ValuePlace::Element),
        None => {
            let fields = row.fields().map(|field| {
                let mut schema = render(field.value, ValuePlace::Field);
                for (word, value) in field.words() {
                    add_word(&mut schema, word, value);
                }
                (field.name.to_owned(), Value::Object(schema))
            });
            let mut schema = Map::new();
            schema.insert("type".into(), "object".into());
            schema.insert("properties".into(), fields.collect::<Map<_, _>>().into());
            schema
        }
    };
    let mut listed = Vec::new();
    for (word, value) in row.words() {
        let parts: Vec<&str> = value.split('/').collect();
        match (word, parts.as_slice()) {
            ("kind", [group, version, kind]) => {
                let group = if *group == "-" { "" } else { group };
                listed.push(json!({"group": group, "version": version, "kind": kind}));
            }
            ("kind", _) => {
                let kind = name.rsplit('.').next().unwrap_or_default();
                listed.push(json!({"group": "", "version": "v1", "kind": kind}));
                if !group.is_empty() {
                    listed.push(json!({"group": group, "version": version, "kind": kind}));
                }
            }
            _ => add_word(&mut schema, word, value),
        }
    }
    if !listed.is_empty() {
        schema.insert("x-kubernetes-group-version-kind".into(), listed.into());
    }
    schema.into()
}

fn add_word(schema: &mut Map<String, Value>, word: &str, value: &str) {
    let texts = || Value::from(value.split(',').collect::<Vec<_>>());
    let (keyword, value) = match word {
        "required" => ("required", texts()),
        "list" => ("x-kubernetes-list-type", value.into()),
        "keys" => ("x-kubernetes-list-map-keys", texts()),
        "map" => ("x-kubernetes-map-type", value.into()),
        "patch" => ("x-kubernetes-patch-strategy", value.into()),
        "merge-key" => ("x-kubernetes-patch-merge-key", value.into()),
        "union" => {
            let union = serde_json::from_str(value).unwrap_or_default();
            ("x-kubernetes-unions", union)
        }
        _ => return,
    };
    schema.insert(keyword.into(), value);
}

fn render(value: SchemaValue, place: ValuePlace) -> Map<String, Value> {
    let (shape, inner) = value.shape();
    let (of_type, keyword) = match shape {
        ValueShape::List => ("array", "items"),
        ValueShape::Map => ("object", "additionalProperties"),
        ValueShape::One => return render_plain(inner.plain(), place),
    };
    let mut schema = Map::new();
    schema.insert("type".into(), of_type.into());
    schema.insert(keyword.into(), render(inner, ValuePlace::Element).into());
    schema
}

fn render_plain(value: PlainValue, place: ValuePlace) -> Map<String, Value> {
    let mut schema = Map::new();
    if value.of.contains('.') {
        let target = reference(value.of);
        // A reference has no siblings, so one with a default or, upstream, a description stands in an `allOf`.
        let alone = match place {
            ValuePlace::Field => value.direct,
            ValuePlace::Element => value.default.is_none(),
        };
        match (alone, target) {
            (true, Value::Object(target)) => schema = target,
            (_, target) => drop(schema.insert("allOf".into(), json!([target]))),
        }
    } else if value.of.contains('|') {
        let types = value.of.split('|').map(|of| json!({"type": of}));
        schema.insert("oneOf".into(), types.collect());
    } else if !value.of.is_empty() {
        schema.insert("type".into(), value.of.into());
    }
    if let Some(format) = value.format {
        schema.insert("format".into(), format.into());
    }
    if let Some(allowed) = value.allowed {
        let texts = allowed.split('|').map(|text| text.replace('~', " "));
        schema.insert("enum".into(), texts.collect());
    }
    if let Some(default) = value.default {
        let default = match (default, value.of) {
            ("", "string") => "".into(),
            ("", "integer" | "number") => 0.into(),
            ("", "boolean") => false.into(),
            ("", _) => json!({}),
            (text, _) => serde_json::from_str(text).unwrap_or_default(),
        };
        schema.insert("default".into(), default);
    }
    schema
}
