//! The types of metadata's fields: which values decode, and what is kept of them.
//!
//! Upstream decodes metadata into a struct: it drops unknown and empty members, and a wrong type is an error that names
//! the field. The table below is that struct. managedFields are not kept: the server
//! does not track field managers.
//! DEVIATION(managed-fields): they are dropped on every write until server-side apply exists.

use caretaker_machinery::schema::{MetadataShapeError, type_name};
use serde_json::{Map, Value};

use super::ObjectTree;
use crate::body::FieldError;
use crate::strategy::defaults::read_time;

/// The type of a field of the metadata.
#[derive(Clone, Copy)]
enum MetadataShape {
    Text,
    Time,
    Integer,
    /// A map of strings.
    Texts,
    /// A list of strings.
    List,
    /// A list of owner references.
    Owners,
    /// Read and dropped.
    Dropped,
}

const FIELDS: &[(&str, MetadataShape)] = &[
    ("annotations", MetadataShape::Texts),
    ("creationTimestamp", MetadataShape::Time),
    ("deletionGracePeriodSeconds", MetadataShape::Integer),
    ("deletionTimestamp", MetadataShape::Time),
    ("finalizers", MetadataShape::List),
    ("generateName", MetadataShape::Text),
    ("generation", MetadataShape::Integer),
    ("labels", MetadataShape::Texts),
    ("managedFields", MetadataShape::Dropped),
    ("name", MetadataShape::Text),
    ("namespace", MetadataShape::Text),
    ("ownerReferences", MetadataShape::Owners),
    ("resourceVersion", MetadataShape::Text),
    ("selfLink", MetadataShape::Text),
    ("uid", MetadataShape::Text),
];

/// Fields of an owner reference that are always written, and those that may be absent.
const OWNER_TEXTS: [&str; 4] = ["apiVersion", "kind", "name", "uid"];
const OWNER_FLAGS: [&str; 2] = ["blockOwnerDeletion", "controller"];

/// Brings an object's metadata into shape. Drops unknown members and returns their paths.
pub(crate) fn shape(object: &mut ObjectTree, kind: &str) -> Result<Vec<String>, FieldError> {
    match object.entry("metadata").or_insert(Value::Null) {
        Value::Object(metadata) => shape_members(metadata),
        nothing @ Value::Null => {
            *nothing = Value::Object(Map::new());
            Ok(Vec::new())
        }
        other => {
            let field = format!("{kind}.metadata");
            Err(FieldError::wrong_type(other, field, "v1.ObjectMeta"))
        }
    }
}

/// Does the same for the metadata of an embedded object. The signature is that of `machinery::schema`.
pub(crate) fn shape_embedded(metadata: &mut Value) -> Result<Vec<String>, MetadataShapeError> {
    match metadata {
        Value::Object(members) => shape_members(members)
            .map_err(|error| MetadataShapeError(error.outside_object().to_string())),
        Value::Null => {
            *metadata = Value::Object(Map::new());
            Ok(Vec::new())
        }
        other => {
            let error = FieldError::WrongValue {
                found: type_name(other),
                go_type: "v1.ObjectMeta",
            };
            Err(MetadataShapeError(error.to_string()))
        }
    }
}

fn shape_members(metadata: &mut ObjectTree) -> Result<Vec<String>, FieldError> {
    let mut unknown = Vec::new();
    let mut shaped = Map::new();
    for (name, value) in std::mem::take(metadata) {
        let known = FIELDS.iter().find(|(field, _)| *field == name);
        let Some((_, shape)) = known else {
            unknown.push(name);
            continue;
        };
        if let (MetadataShape::Owners, Value::Array(owners)) = (shape, &value) {
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

// === impl MetadataShape ===

impl MetadataShape {
    /// Returns the value to keep; none if it is empty.
    fn read(self, field: &str, value: Value) -> Result<Option<Value>, FieldError> {
        if value.is_null() {
            return Ok(None);
        }
        let wrong = |value: &Value, go_type: &str| {
            FieldError::wrong_type(value, format!("ObjectMeta.metadata.{field}"), go_type)
        };
        match (self, value) {
            (MetadataShape::Dropped, _) => Ok(None),
            (MetadataShape::Text, Value::String(text)) => {
                Ok((!text.is_empty()).then_some(text.into()))
            }
            (MetadataShape::Text, other) => Err(wrong(&other, "string")),
            (MetadataShape::Time, Value::String(text)) => read_time(&text).map(Some),
            (MetadataShape::Time, other) => Err(wrong(&other, "string")),
            (MetadataShape::Integer, value) => match value.as_i64() {
                Some(0) if field == "generation" => Ok(None),
                Some(_) => Ok(Some(value)),
                None => Err(wrong(&value, "int64")),
            },
            (MetadataShape::Texts, Value::Object(map)) => {
                read_texts(map).map_err(|other| wrong(&other, "string"))
            }
            (MetadataShape::Texts, other) => Err(wrong(&other, "map[string]string")),
            (MetadataShape::List, Value::Array(list)) => {
                match list.iter().find(|item| !item.is_string()) {
                    Some(other) => Err(wrong(other, "string")),
                    None => Ok((!list.is_empty()).then_some(list.into())),
                }
            }
            (MetadataShape::List, other) => Err(wrong(&other, "[]string")),
            (MetadataShape::Owners, Value::Array(list)) => {
                let owners: Result<Vec<Value>, FieldError> =
                    list.into_iter().map(read_owner).collect();
                owners.map(|owners| (!owners.is_empty()).then_some(owners.into()))
            }
            (MetadataShape::Owners, other) => Err(wrong(&other, "[]v1.OwnerReference")),
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

fn read_owner(owner: Value) -> Result<Value, FieldError> {
    let wrong = |value: &Value, field: &str, go_type: &str| {
        let field = format!("OwnerReference.metadata.ownerReferences.{field}");
        FieldError::wrong_type(value, field, go_type)
    };
    let Value::Object(mut given) = owner else {
        let field = "ObjectMeta.metadata.ownerReferences";
        return Err(FieldError::wrong_type(&owner, field, "v1.OwnerReference"));
    };
    let mut read = Map::new();
    for field in OWNER_TEXTS {
        let value = match given.remove(field) {
            None | Some(Value::Null) => "".into(),
            Some(value @ Value::String(_)) => value,
            Some(other) => return Err(wrong(&other, field, "string")),
        };
        read.insert(field.into(), value);
    }
    for field in OWNER_FLAGS {
        match given.remove(field) {
            None | Some(Value::Null) => {}
            Some(value @ Value::Bool(_)) => {
                read.insert(field.into(), value);
            }
            Some(other) => return Err(wrong(&other, field, "bool")),
        }
    }
    Ok(Value::Object(read))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shaped(metadata: Value) -> Result<Value, FieldError> {
        let mut object = Map::from_iter([("metadata".to_owned(), metadata)]);
        shape(&mut object, "ConfigMap")?;
        Ok(object["metadata"].clone())
    }

    #[test]
    fn drops_unknown_and_empty_members() {
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
    fn type_errors_name_the_field() {
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
                shaped(metadata).map_err(|error| error.to_string()),
                Err(format!("json: cannot unmarshal {message}"))
            );
        }
    }

    #[test]
    fn null_label_is_empty() {
        assert_eq!(
            shaped(json!({"labels": {"a": null}})),
            Ok(json!({"labels": {"a": ""}}))
        );
    }
}
