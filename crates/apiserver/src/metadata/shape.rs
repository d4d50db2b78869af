//! The types of metadata's fields: what decodes, and what is kept of it.
//!
//! Upstream decodes metadata into a struct: unknown members vanish, empty ones are left out when it is written again, and
//! a wrong type is an error that names the field. The table below is that struct. managedFields are not kept: nothing
//! here tracks who set what.
//! DEVIATION(managed-fields): they are dropped on every write until server-side apply exists.

use serde_json::{Map, Value};

use super::Tree;
use crate::body::type_name;

/// What a field of the metadata may hold.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Time,
    Integer,
    /// A map of texts.
    Texts,
    /// A list of texts.
    List,
    /// A list of owner references.
    Owners,
    /// Read and dropped.
    Dropped,
}

const FIELDS: &[(&str, Shape)] = &[
    ("annotations", Shape::Texts),
    ("creationTimestamp", Shape::Time),
    ("deletionGracePeriodSeconds", Shape::Integer),
    ("deletionTimestamp", Shape::Time),
    ("finalizers", Shape::List),
    ("generateName", Shape::Text),
    ("generation", Shape::Integer),
    ("labels", Shape::Texts),
    ("managedFields", Shape::Dropped),
    ("name", Shape::Text),
    ("namespace", Shape::Text),
    ("ownerReferences", Shape::Owners),
    ("resourceVersion", Shape::Text),
    ("selfLink", Shape::Text),
    ("uid", Shape::Text),
];

/// Fields of an owner reference that are always written, and those that may be absent.
const OWNER_TEXTS: [&str; 4] = ["apiVersion", "kind", "name", "uid"];
const OWNER_FLAGS: [&str; 2] = ["blockOwnerDeletion", "controller"];

/// Brings an object's metadata into shape, or says in upstream's words what does not decode. Answers with the members
/// that metadata does not have; they are gone.
pub(crate) fn shape(object: &mut Tree, kind: &str) -> Result<Vec<String>, String> {
    match object.entry("metadata").or_insert(Value::Null) {
        Value::Object(metadata) => shape_members(metadata),
        nothing @ Value::Null => {
            *nothing = Value::Object(Map::new());
            Ok(Vec::new())
        }
        other => {
            let found = type_name(other);
            Err(format!(
                "json: cannot unmarshal {found} into Go struct field {kind}.metadata of type v1.ObjectMeta"
            ))
        }
    }
}

/// The same for metadata of an object within an object.
pub(crate) fn shape_embedded(metadata: &mut Value) -> Result<Vec<String>, String> {
    match metadata {
        Value::Object(members) => {
            shape_members(members).map_err(|why| why.replace("ObjectMeta.metadata.", "ObjectMeta."))
        }
        Value::Null => {
            *metadata = Value::Object(Map::new());
            Ok(Vec::new())
        }
        other => {
            let found = type_name(other);
            Err(format!(
                "json: cannot unmarshal {found} into Go value of type v1.ObjectMeta"
            ))
        }
    }
}

fn shape_members(metadata: &mut Tree) -> Result<Vec<String>, String> {
    let mut unknown = Vec::new();
    let mut shaped = Map::new();
    for (name, value) in std::mem::take(metadata) {
        let known = FIELDS.iter().find(|(field, _)| *field == name);
        let Some((_, shape)) = known else {
            unknown.push(name);
            continue;
        };
        if let (Shape::Owners, Value::Array(owners)) = (shape, &value) {
            unknown.extend(unknown_in_owners(owners));
        }
        if let Some(value) = shape.read(&name, value)? {
            shaped.insert(name, value);
        }
    }
    *metadata = shaped;
    Ok(unknown)
}

fn unknown_in_owners(owners: &[Value]) -> Vec<String> {
    let known = |name: &str| OWNER_TEXTS.contains(&name) || OWNER_FLAGS.contains(&name);
    let members = owners.iter().enumerate().flat_map(|(index, owner)| {
        let names = owner.as_object().into_iter().flat_map(Map::keys);
        names.map(move |name| (index, name))
    });
    members
        .filter(|(_, name)| !known(name))
        .map(|(index, name)| format!("ownerReferences[{index}].{name}"))
        .collect()
}

// === impl Shape ===

impl Shape {
    /// The value to keep, none if it says nothing.
    fn read(self, field: &str, value: Value) -> Result<Option<Value>, String> {
        if value.is_null() {
            return Ok(None);
        }
        let wrong = |value: &Value, go_type: &str| {
            let found = type_name(value);
            format!(
                "json: cannot unmarshal {found} into Go struct field ObjectMeta.metadata.{field} of type {go_type}"
            )
        };
        match (self, value) {
            (Shape::Dropped, _) => Ok(None),
            (Shape::Text, Value::String(text)) => Ok((!text.is_empty()).then_some(text.into())),
            (Shape::Text, other) => Err(wrong(&other, "string")),
            (Shape::Time, Value::String(text)) => read_time(&text).map(Some),
            (Shape::Time, other) => Err(wrong(&other, "string")),
            (Shape::Integer, value) => match value.as_i64() {
                Some(0) if field == "generation" => Ok(None),
                Some(_) => Ok(Some(value)),
                None => Err(wrong(&value, "int64")),
            },
            (Shape::Texts, Value::Object(map)) => {
                read_texts(map).map_err(|other| wrong(&other, "string"))
            }
            (Shape::Texts, other) => Err(wrong(&other, "map[string]string")),
            (Shape::List, Value::Array(list)) => match list.iter().find(|item| !item.is_string()) {
                Some(other) => Err(wrong(other, "string")),
                None => Ok((!list.is_empty()).then_some(list.into())),
            },
            (Shape::List, other) => Err(wrong(&other, "[]string")),
            (Shape::Owners, Value::Array(list)) => {
                let owners: Result<Vec<Value>, String> = list.into_iter().map(read_owner).collect();
                owners.map(|owners| (!owners.is_empty()).then_some(owners.into()))
            }
            (Shape::Owners, other) => Err(wrong(&other, "[]v1.OwnerReference")),
        }
    }
}

fn read_texts(map: Map<String, Value>) -> Result<Option<Value>, Value> {
    let mut texts = Map::new();
    for (key, value) in map {
        match value {
            Value::Null => texts.insert(key, "".into()),
            Value::String(_) => texts.insert(key, value),
            other => return Err(other),
        };
    }
    Ok((!texts.is_empty()).then_some(Value::Object(texts)))
}

fn read_time(text: &str) -> Result<Value, String> {
    match text.parse() {
        Ok(at) => Ok(super::time(at).into()),
        Err(_) => Err(format!(
            "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \"2006\""
        )),
    }
}

fn read_owner(owner: Value) -> Result<Value, String> {
    let wrong = |value: &Value, field: &str, go_type: &str| {
        let found = type_name(value);
        format!(
            "json: cannot unmarshal {found} into Go struct field OwnerReference.metadata.ownerReferences{field} of type {go_type}"
        )
    };
    let Value::Object(mut given) = owner else {
        let found = type_name(&owner);
        return Err(format!(
            "json: cannot unmarshal {found} into Go struct field ObjectMeta.metadata.ownerReferences of type v1.OwnerReference"
        ));
    };
    let mut read = Map::new();
    for field in OWNER_TEXTS {
        let value = match given.remove(field) {
            None | Some(Value::Null) => "".into(),
            Some(value @ Value::String(_)) => value,
            Some(other) => return Err(wrong(&other, &format!(".{field}"), "string")),
        };
        read.insert(field.into(), value);
    }
    for field in OWNER_FLAGS {
        match given.remove(field) {
            None | Some(Value::Null) => {}
            Some(value @ Value::Bool(_)) => {
                read.insert(field.into(), value);
            }
            Some(other) => return Err(wrong(&other, &format!(".{field}"), "bool")),
        }
    }
    Ok(Value::Object(read))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shaped(metadata: Value) -> Result<Value, String> {
        let mut object = Map::from_iter([("metadata".to_owned(), metadata)]);
        shape(&mut object, "ConfigMap")?;
        Ok(object["metadata"].clone())
    }

    #[test]
    fn unknown_and_empty_members_vanish() {
        let metadata = json!({"name": "a", "foo": 1, "labels": {}, "annotations": null, "finalizers": [],
            "generation": 0, "managedFields": [{}], "ownerReferences": [{"uid": "u", "extra": 1}]});
        let owner = json!({"apiVersion": "", "kind": "", "name": "", "uid": "u"});
        assert_eq!(
            shaped(metadata),
            Ok(json!({"name": "a", "ownerReferences": [owner]}))
        );
        assert_eq!(shaped(Value::Null), Ok(json!({})));
    }

    #[test]
    fn wrong_types_are_named_with_their_field() {
        let cases = [
            (
                json!(5),
                "number into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
            ),
            (
                json!({"labels": 5}),
                "number into Go struct field ObjectMeta.metadata.labels of type map[string]string",
            ),
            (
                json!({"labels": {"a": 5}}),
                "number into Go struct field ObjectMeta.metadata.labels of type string",
            ),
            (
                json!({"name": true}),
                "bool into Go struct field ObjectMeta.metadata.name of type string",
            ),
            (
                json!({"finalizers": [1]}),
                "number into Go struct field ObjectMeta.metadata.finalizers of type string",
            ),
            (
                json!({"ownerReferences": {}}),
                "object into Go struct field ObjectMeta.metadata.ownerReferences of type []v1.OwnerReference",
            ),
            (
                json!({"ownerReferences": [{"controller": 1}]}),
                "number into Go struct field OwnerReference.metadata.ownerReferences.controller of type bool",
            ),
        ];
        for (metadata, message) in cases {
            assert_eq!(
                shaped(metadata),
                Err(format!("json: cannot unmarshal {message}"))
            );
        }
    }

    #[test]
    fn a_null_label_is_an_empty_one() {
        assert_eq!(
            shaped(json!({"labels": {"a": null}})),
            Ok(json!({"labels": {"a": ""}}))
        );
    }
}
