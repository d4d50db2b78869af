//! Reads the JSON of a schema into its type: members nobody knows go, and a member of the wrong type is an error.
//!
//! The table is `JSONSchemaProps` of `apiextensions/v1`, 1.36, as its json tags say.

use serde_json::Value;

/// What a member of a schema holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    Text,
    Flag,
    Integer,
    Number,
    Texts,
    /// Anything.
    Json,
    /// A list of anything.
    Jsons,
    Schema,
    Schemas,
    /// Schemas by name.
    Named,
    SchemaOrList,
    SchemaOrFlag,
    /// Named schemas or lists of texts.
    Dependencies,
    /// An object nobody looks into.
    Other,
    /// Rules in CEL.
    Rules,
}

const MEMBERS: &[(&str, Holds)] = &[
    ("$ref", Holds::Text),
    ("$schema", Holds::Text),
    ("additionalItems", Holds::SchemaOrFlag),
    ("additionalProperties", Holds::SchemaOrFlag),
    ("allOf", Holds::Schemas),
    ("anyOf", Holds::Schemas),
    ("default", Holds::Json),
    ("definitions", Holds::Named),
    ("dependencies", Holds::Dependencies),
    ("description", Holds::Text),
    ("enum", Holds::Jsons),
    ("example", Holds::Json),
    ("exclusiveMaximum", Holds::Flag),
    ("exclusiveMinimum", Holds::Flag),
    ("externalDocs", Holds::Other),
    ("format", Holds::Text),
    ("id", Holds::Text),
    ("items", Holds::SchemaOrList),
    ("maxItems", Holds::Integer),
    ("maxLength", Holds::Integer),
    ("maxProperties", Holds::Integer),
    ("maximum", Holds::Number),
    ("minItems", Holds::Integer),
    ("minLength", Holds::Integer),
    ("minProperties", Holds::Integer),
    ("minimum", Holds::Number),
    ("multipleOf", Holds::Number),
    ("not", Holds::Schema),
    ("nullable", Holds::Flag),
    ("oneOf", Holds::Schemas),
    ("pattern", Holds::Text),
    ("patternProperties", Holds::Named),
    ("properties", Holds::Named),
    ("required", Holds::Texts),
    ("title", Holds::Text),
    ("type", Holds::Text),
    ("uniqueItems", Holds::Flag),
    ("x-kubernetes-embedded-resource", Holds::Flag),
    ("x-kubernetes-int-or-string", Holds::Flag),
    ("x-kubernetes-list-map-keys", Holds::Texts),
    ("x-kubernetes-list-type", Holds::Text),
    ("x-kubernetes-map-type", Holds::Text),
    ("x-kubernetes-preserve-unknown-fields", Holds::Flag),
    ("x-kubernetes-validations", Holds::Rules),
];

/// Reads the schema at `path`. Answers with the paths of the members that were dropped.
///
/// # Errors
/// Says in upstream's words which member has the wrong type.
pub fn read(schema: &mut Value, path: &str) -> Result<Vec<String>, String> {
    let mut unknown = Vec::new();
    props(schema, path, &mut unknown)?;
    Ok(unknown)
}

fn props(schema: &mut Value, path: &str, unknown: &mut Vec<String>) -> Result<(), String> {
    let Value::Object(members) = schema else {
        return Err(wrong(schema, "JSONSchemaProps", "", "v1.JSONSchemaProps"));
    };
    let holds = |name: &str| {
        let row = MEMBERS.binary_search_by_key(&name, |(name, _)| name);
        row.ok().map(|row| MEMBERS[row].1)
    };
    let strangers = members.keys().filter(|name| holds(name).is_none());
    unknown.extend(strangers.map(|name| format!("{path}.{name}")));
    members.retain(|name, value| holds(name).is_some() && !value.is_null());
    for (name, value) in members.iter_mut() {
        if let Some(holds) = holds(name) {
            holds.read(name, value, &format!("{path}.{name}"), unknown)?;
        }
    }
    // What upstream leaves out when it is empty or says nothing.
    members.retain(|name, value| match (holds(name), value) {
        (Some(Holds::Text), Value::String(text)) => {
            !text.is_empty() || name.starts_with("x-") || name == "$ref"
        }
        (Some(Holds::Flag), Value::Bool(flag)) => {
            *flag || name == "x-kubernetes-preserve-unknown-fields"
        }
        (
            Some(Holds::Texts | Holds::Schemas | Holds::Jsons | Holds::Rules),
            Value::Array(items),
        ) => !items.is_empty(),
        (Some(Holds::Named | Holds::Dependencies), Value::Object(members)) => !members.is_empty(),
        _ => true,
    });
    Ok(())
}

// === impl Holds ===

impl Holds {
    fn read(
        self,
        name: &str,
        value: &mut Value,
        path: &str,
        unknown: &mut Vec<String>,
    ) -> Result<(), String> {
        match (self, &mut *value) {
            (Holds::Json, _)
            | (Holds::Text, Value::String(_))
            | (Holds::Flag | Holds::SchemaOrFlag, Value::Bool(_))
            | (Holds::Number, Value::Number(_))
            | (Holds::Jsons | Holds::Rules, Value::Array(_))
            | (Holds::Other, Value::Object(_)) => Ok(()),
            (Holds::Integer, Value::Number(number)) if number.is_i64() => Ok(()),
            (Holds::Texts, Value::Array(items)) => {
                match items.iter().find(|item| !item.is_string()) {
                    Some(other) => Err(wrong(other, "JSONSchemaProps", name, "string")),
                    None => Ok(()),
                }
            }
            (Holds::Schema | Holds::SchemaOrFlag | Holds::SchemaOrList, Value::Object(_)) => {
                props(value, path, unknown)
            }
            (Holds::Schemas | Holds::SchemaOrList, Value::Array(items)) => {
                let items = items.iter_mut().enumerate();
                items
                    .into_iter()
                    .try_for_each(|(index, item)| props(item, &format!("{path}[{index}]"), unknown))
            }
            (Holds::Named, Value::Object(members)) => members
                .iter_mut()
                .try_for_each(|(name, schema)| props(schema, &format!("{path}.{name}"), unknown)),
            (Holds::Dependencies, Value::Object(members)) => members
                .iter_mut()
                .filter(|(_, value)| value.is_object())
                .try_for_each(|(name, schema)| props(schema, &format!("{path}.{name}"), unknown)),
            (_, other) => Err(wrong(other, "JSONSchemaProps", name, self.go_type())),
        }
    }

    fn go_type(self) -> &'static str {
        match self {
            Holds::Text => "string",
            Holds::Flag => "bool",
            Holds::Integer => "int64",
            Holds::Number => "float64",
            Holds::Texts => "[]string",
            Holds::Jsons => "[]v1.JSON",
            Holds::Schemas => "[]v1.JSONSchemaProps",
            Holds::Named => "map[string]v1.JSONSchemaProps",
            Holds::Rules => "v1.ValidationRules",
            Holds::Schema | Holds::Json | Holds::SchemaOrList | Holds::SchemaOrFlag => {
                "v1.JSONSchemaProps"
            }
            Holds::Dependencies => "v1.JSONSchemaDependencies",
            Holds::Other => "v1.ExternalDocumentation",
        }
    }
}

fn wrong(value: &Value, of: &str, field: &str, go_type: &str) -> String {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let dot = if field.is_empty() { "" } else { "." };
    format!(
        "json: cannot unmarshal {found} into Go struct field {of}{dot}{field} of type {go_type}"
    )
}
