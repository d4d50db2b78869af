//! Decodes the JSON of a schema: unknown members are dropped, a member of the wrong type is an error.
//!
//! The table is `JSONSchemaProps` of `apiextensions/v1`, 1.36, as its json tags say.

use serde_json::Value;

/// A member of a schema has the wrong type. The message is that of Go's JSON decoder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("json: cannot unmarshal {found} into Go struct field {field} of type {go_type}")]
pub struct SchemaTypeError {
    found: &'static str,
    field: String,
    go_type: &'static str,
}

/// The type of a member of a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MemberType {
    Text,
    Flag,
    Integer,
    Number,
    Texts,
    Json,
    /// A list of values of any type.
    Jsons,
    Schema,
    Schemas,
    /// Schemas by name.
    Named,
    SchemaOrList,
    SchemaOrFlag,
    /// Named schemas or lists of texts.
    Dependencies,
    /// An object that is not inspected.
    Other,
    /// A list of CEL rules.
    Rules,
}

const MEMBERS: &[(&str, MemberType)] = &[
    ("$ref", MemberType::Text),
    ("$schema", MemberType::Text),
    ("additionalItems", MemberType::SchemaOrFlag),
    ("additionalProperties", MemberType::SchemaOrFlag),
    ("allOf", MemberType::Schemas),
    ("anyOf", MemberType::Schemas),
    ("default", MemberType::Json),
    ("definitions", MemberType::Named),
    ("dependencies", MemberType::Dependencies),
    ("description", MemberType::Text),
    ("enum", MemberType::Jsons),
    ("example", MemberType::Json),
    ("exclusiveMaximum", MemberType::Flag),
    ("exclusiveMinimum", MemberType::Flag),
    ("externalDocs", MemberType::Other),
    ("format", MemberType::Text),
    ("id", MemberType::Text),
    ("items", MemberType::SchemaOrList),
    ("maxItems", MemberType::Integer),
    ("maxLength", MemberType::Integer),
    ("maxProperties", MemberType::Integer),
    ("maximum", MemberType::Number),
    ("minItems", MemberType::Integer),
    ("minLength", MemberType::Integer),
    ("minProperties", MemberType::Integer),
    ("minimum", MemberType::Number),
    ("multipleOf", MemberType::Number),
    ("not", MemberType::Schema),
    ("nullable", MemberType::Flag),
    ("oneOf", MemberType::Schemas),
    ("pattern", MemberType::Text),
    ("patternProperties", MemberType::Named),
    ("properties", MemberType::Named),
    ("required", MemberType::Texts),
    ("title", MemberType::Text),
    ("type", MemberType::Text),
    ("uniqueItems", MemberType::Flag),
    ("x-kubernetes-embedded-resource", MemberType::Flag),
    ("x-kubernetes-int-or-string", MemberType::Flag),
    ("x-kubernetes-list-map-keys", MemberType::Texts),
    ("x-kubernetes-list-type", MemberType::Text),
    ("x-kubernetes-map-type", MemberType::Text),
    ("x-kubernetes-preserve-unknown-fields", MemberType::Flag),
    ("x-kubernetes-validations", MemberType::Rules),
];

/// Decodes the schema at `path`. Returns the paths of the dropped members.
///
/// # Errors
/// If a member has the wrong type.
pub fn read(schema: &mut Value, path: &str) -> Result<Vec<String>, SchemaTypeError> {
    let mut unknown = Vec::new();
    props(schema, path, &mut unknown)?;
    Ok(unknown)
}

fn props(schema: &mut Value, path: &str, unknown: &mut Vec<String>) -> Result<(), SchemaTypeError> {
    let Value::Object(members) = schema else {
        return Err(wrong(schema, "", "v1.JSONSchemaProps"));
    };
    let holds = |name: &str| {
        let row = MEMBERS.binary_search_by_key(&name, |(name, _)| name);
        row.ok().map(|row| MEMBERS[row].1)
    };
    let dropped = members.keys().filter(|name| holds(name).is_none());
    unknown.extend(dropped.map(|name| format!("{path}.{name}")));
    members.retain(|name, value| holds(name).is_some() && !value.is_null());
    for (name, value) in members.iter_mut() {
        if let Some(holds) = holds(name) {
            holds.read(name, value, &format!("{path}.{name}"), unknown)?;
        }
    }
    // Upstream omits these members when they are empty.
    members.retain(|name, value| match (holds(name), value) {
        (Some(MemberType::Text), Value::String(text)) => {
            !text.is_empty() || name.starts_with("x-") || name == "$ref"
        }
        (Some(MemberType::Flag), Value::Bool(flag)) => {
            *flag || name == "x-kubernetes-preserve-unknown-fields"
        }
        (
            Some(MemberType::Texts | MemberType::Schemas | MemberType::Jsons | MemberType::Rules),
            Value::Array(items),
        ) => !items.is_empty(),
        (Some(MemberType::Named | MemberType::Dependencies), Value::Object(members)) => {
            !members.is_empty()
        }
        _ => true,
    });
    Ok(())
}

// === impl MemberType ===

impl MemberType {
    fn read(
        self,
        name: &str,
        value: &mut Value,
        path: &str,
        unknown: &mut Vec<String>,
    ) -> Result<(), SchemaTypeError> {
        match (self, &mut *value) {
            (MemberType::Json, _)
            | (MemberType::Text, Value::String(_))
            | (MemberType::Flag | MemberType::SchemaOrFlag, Value::Bool(_))
            | (MemberType::Number, Value::Number(_))
            | (MemberType::Jsons | MemberType::Rules, Value::Array(_))
            | (MemberType::Other, Value::Object(_)) => Ok(()),
            (MemberType::Integer, Value::Number(number)) if number.is_i64() => Ok(()),
            (MemberType::Texts, Value::Array(items)) => {
                match items.iter().find(|item| !item.is_string()) {
                    Some(other) => Err(wrong(other, name, "string")),
                    None => Ok(()),
                }
            }
            (
                MemberType::Schema | MemberType::SchemaOrFlag | MemberType::SchemaOrList,
                Value::Object(_),
            ) => props(value, path, unknown),
            (MemberType::Schemas | MemberType::SchemaOrList, Value::Array(items)) => {
                let items = items.iter_mut().enumerate();
                items
                    .into_iter()
                    .try_for_each(|(index, item)| props(item, &format!("{path}[{index}]"), unknown))
            }
            (MemberType::Named, Value::Object(members)) => members
                .iter_mut()
                .try_for_each(|(name, schema)| props(schema, &format!("{path}.{name}"), unknown)),
            (MemberType::Dependencies, Value::Object(members)) => members
                .iter_mut()
                .filter(|(_, value)| value.is_object())
                .try_for_each(|(name, schema)| props(schema, &format!("{path}.{name}"), unknown)),
            (_, other) => Err(wrong(other, name, self.go_type())),
        }
    }

    fn go_type(self) -> &'static str {
        match self {
            MemberType::Text => "string",
            MemberType::Flag => "bool",
            MemberType::Integer => "int64",
            MemberType::Number => "float64",
            MemberType::Texts => "[]string",
            MemberType::Jsons => "[]v1.JSON",
            MemberType::Schemas => "[]v1.JSONSchemaProps",
            MemberType::Named => "map[string]v1.JSONSchemaProps",
            MemberType::Rules => "v1.ValidationRules",
            MemberType::Schema
            | MemberType::Json
            | MemberType::SchemaOrList
            | MemberType::SchemaOrFlag => "v1.JSONSchemaProps",
            MemberType::Dependencies => "v1.JSONSchemaDependencies",
            MemberType::Other => "v1.ExternalDocumentation",
        }
    }
}

/// The name of a value's type in the messages of Go's JSON decoder.
#[must_use]
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn wrong(value: &Value, member: &str, go_type: &'static str) -> SchemaTypeError {
    let dot = if member.is_empty() { "" } else { "." };
    SchemaTypeError {
        found: type_name(value),
        field: format!("JSONSchemaProps{dot}{member}"),
        go_type,
    }
}
