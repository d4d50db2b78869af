//! Structs as messages show them.
//!
//! Upstream validates its internal types, which mostly have no JSON tags: a message shows all their fields, under Go's names
//! and in the order of the declaration. Types of `meta` are shown in JSON, without empty fields.

use caretaker_machinery::types::{FieldArity, StructField, TypeRef, ValueType};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use crate::types::types;

/// A value of a struct type that a message shows.
pub(super) struct ShownStruct<'a> {
    pub(super) of: TypeRef,
    pub(super) value: &'a Value,
}

/// A field of a struct.
pub(super) struct ShownField<'a> {
    pub(super) field: StructField,
    pub(super) value: &'a Value,
}

impl Serialize for ShownStruct<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        serialize_members(&mut map, self.of, self.value)?;
        map.end()
    }
}

/// Writes the fields of a struct; those of embedded ones stand beside them.
fn serialize_members<M: SerializeMap>(
    map: &mut M,
    of: TypeRef,
    object: &Value,
) -> Result<(), M::Error> {
    let row = types().get(of);
    let in_json = row.name.starts_with("meta.");
    for known in &row.fields {
        let value = object.get(known.name).unwrap_or(&Value::Null);
        if in_json && value.is_null() {
            continue;
        }
        if let ValueType::Struct(of) = known.field.of
            && (known.embedded || known.go_name() == "ObjectMeta")
        {
            let within = if known.embedded { object } else { value };
            serialize_members(map, of, within)?;
            continue;
        }
        let field = ShownField {
            field: known.field,
            value,
        };
        if in_json {
            map.serialize_entry(known.name, &field)?;
        } else {
            map.serialize_entry(&known.go_name(), &field)?;
        }
    }
    Ok(())
}

impl Serialize for ShownField<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ShownField { field, value } = self;
        match (field.of, field.shape, value) {
            (_, _, Value::Null) if field.optional || field.shape != FieldArity::One => {
                serializer.serialize_none()
            }
            (ValueType::Struct(of), FieldArity::One, value) => {
                ShownStruct { of, value }.serialize(serializer)
            }
            (ValueType::Struct(of), FieldArity::List, Value::Array(items)) => {
                let items = items.iter().map(|value| ShownStruct { of, value });
                serializer.collect_seq(items)
            }
            (_, _, Value::Null) => field.zero().serialize(serializer),
            (_, _, value) => value.serialize(serializer),
        }
    }
}
