//! OpenAPI v2: the documents of version 3 in the older form, merged into one.
//!
//! Version 2 has no defaults here, no choices and no nullable values. A custom schema loses what clients of version 2
//! cannot read, as in upstream's `ToStructuralOpenAPIV2`.
//! DEVIATION(openapi): parameters stand where they are used, upstream names those that are used often.

use serde_json::{Map, Value, json};

/// Keywords of version 3 that have no meaning in version 2.
const DROPPED: [&str; 7] = [
    "default",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "nullable",
    "discriminator",
];

/// Adds the paths and schemas of a document of version 3.
pub(super) fn merge(target: &mut Value, document: Value) {
    let Value::Object(mut document) = document else {
        return;
    };
    if let Some(Value::Object(paths)) = document.remove("paths") {
        for (path, item) in paths {
            target["paths"][path] = path_item(item);
        }
    }
    let schemas = document
        .get_mut("components")
        .and_then(|components| components.get_mut("schemas"));
    if let Some(Value::Object(schemas)) = schemas.map(Value::take) {
        for (name, own) in schemas {
            let known = &mut target["definitions"][&name];
            let mut own = schema(own, SchemaDepth::Top);
            // The kinds of every group come from several documents.
            let listed = "x-kubernetes-group-version-kind";
            if let (Some(Value::Array(all)), Some(Value::Array(more))) =
                (known.get(listed).cloned(), own.get_mut(listed))
            {
                let rest = std::mem::replace(more, all);
                for kind in rest {
                    if !more.contains(&kind) {
                        more.push(kind);
                    }
                }
            }
            *known = own;
        }
    }
}

/// Returns a document without paths and definitions.
pub(super) fn empty(version: &str) -> Value {
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": {},
        "definitions": {},
        "securityDefinitions": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}},
        "security": [{"BearerToken": []}],
    })
}

/// The media types of custom kinds.
const CUSTOM: [&str; 2] = ["application/json", "application/yaml"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SchemaDepth {
    Top,
    Inner,
}

fn schema(value: Value, depth: SchemaDepth) -> Value {
    let Value::Object(mut own) = value else {
        return value;
    };
    if let Some(target) = referenced(&own) {
        own.retain(|keyword, _| keyword.starts_with("x-") || keyword == "description");
        let target = target.replace("#/components/schemas/", "#/definitions/");
        own.insert("$ref".into(), target.into());
        return own.into();
    }
    let is = |keyword: &str| own.get(keyword) == Some(&Value::Bool(true));
    let (open, nullable) = (is("x-kubernetes-preserve-unknown-fields"), is("nullable"));
    // A choice between types, which only built-in types have.
    if own.contains_key("oneOf") && !own.contains_key("type") && !open {
        own.insert("type".into(), "string".into());
    }
    own.retain(|keyword, _| !DROPPED.contains(&keyword.as_str()));
    if open && depth == SchemaDepth::Top {
        own.retain(|keyword, _| keyword == "x-kubernetes-group-version-kind");
        own.insert("type".into(), "object".into());
    } else if open || nullable {
        for keyword in ["type", "items", "properties", "required"] {
            own.remove(keyword);
        }
    }
    if let Some(Value::Object(fields)) = own.get_mut("properties") {
        for field in fields.values_mut() {
            *field = schema(field.take(), SchemaDepth::Inner);
        }
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = own.get_mut(keyword) {
            *inner = schema(inner.take(), SchemaDepth::Inner);
        }
    }
    own.into()
}

/// The target of a reference: direct, or in an `allOf` of one.
fn referenced(schema: &Map<String, Value>) -> Option<String> {
    let direct = schema.get("$ref");
    let target = direct.or_else(|| match schema.get("allOf")?.as_array()?.as_slice() {
        [only] => only.get("$ref"),
        _ => None,
    });
    target?.as_str().map(str::to_owned)
}

fn path_item(mut item: Value) -> Value {
    for (method, part) in item.as_object_mut().into_iter().flatten() {
        match method.as_str() {
            "parameters" => parameters(part),
            _ => *part = operation(part.take()),
        }
    }
    item
}

fn operation(mut own: Value) -> Value {
    let mut consumes = None;
    if let Some(list) = own.get_mut("parameters") {
        parameters(list);
    }
    if let Some(mut body) = own.as_object_mut().and_then(|it| it.remove("requestBody")) {
        let content = body["content"].as_object().cloned().unwrap_or_default();
        consumes = Some(content.keys().map(|of| of.as_str().into()).collect());
        let mut entry = json!({"name": "body", "in": "body"});
        entry["schema"] = body_schema(&content);
        if let Some(required) = body.get_mut("required") {
            entry["required"] = required.take();
        }
        match own["parameters"].as_array_mut() {
            Some(list) => list.insert(0, entry),
            None => own["parameters"] = json!([entry]),
        }
    }
    let mut produces: Vec<Value> = Vec::new();
    for response in own["responses"]
        .as_object_mut()
        .into_iter()
        .flat_map(Map::values_mut)
    {
        let content = response.as_object_mut().and_then(|it| it.remove("content"));
        if let Some(Value::Object(content)) = content {
            produces = content.keys().map(|of| Value::from(of.as_str())).collect();
            response["schema"] = body_schema(&content);
        }
    }
    // Operations of custom kinds and those without a kind consume what they produce.
    let same = own.get("x-kubernetes-action").is_none() || produces == CUSTOM;
    let default = || match same {
        true => produces.clone(),
        false => vec!["*/*".into()],
    };
    own["consumes"] = consumes.unwrap_or_else(default).into();
    own["produces"] = produces.into();
    own["schemes"] = json!(["https"]);
    own
}

fn body_schema(content: &Map<String, Value>) -> Value {
    let first = content.values().next();
    let own = first.map(|entry| entry["schema"].clone());
    schema(own.unwrap_or_default(), SchemaDepth::Inner)
}

/// A parameter of version 2 carries the keywords of its schema.
fn parameters(list: &mut Value) {
    for entry in list.as_array_mut().into_iter().flatten() {
        let Some(entry) = entry.as_object_mut() else {
            continue;
        };
        if let Some(Value::Object(schema)) = entry.remove("schema") {
            entry.extend(schema);
        }
    }
}
