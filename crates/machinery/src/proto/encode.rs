//! Encodes an object in JSON as the message that Go writes for it, byte for byte.
//!
//! Mirrors the generated `Marshal` methods (gogo/protobuf): fields by number, scalars and structs that are no pointers
//! also when they are zero, maps by key. The input is a tree, or the text of a stored object, which is encoded without a
//! tree. The keys of a map have to be sorted in the input, as those of trees and stored objects are. Members that the
//! table does not list are left out.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::wire::{WireType, enclose, push_bytes, push_tag, push_varint};
use crate::types::{
    FieldArity, ScalarType, StructField, StructType, TypeRef, TypeTable, UnionType, ValueType,
};

/// The number of a key and of a value in the message of an entry of a map.
const KEY: u32 = 1;
const VALUE: u32 = 2;

/// Encodes one object.
struct MessageWriter<'t> {
    table: &'t TypeTable,
    /// What is complete, followed by the members of the structs that are being read, in the order of the input.
    out: Vec<u8>,
    /// The members of these structs, innermost last.
    members: Vec<EncodedMember>,
    /// The fields of one struct in the order of their numbers. Empty between two structs, and kept for its memory.
    ordered: Vec<u8>,
}

/// The place of one member in the output.
struct EncodedMember {
    name: &'static str,
    start: usize,
    end: usize,
}

/// Writes the root, which has no tag.
struct RootSeed<'w, 't> {
    writer: &'w mut MessageWriter<'t>,
    of: TypeRef,
}

/// Writes the value of a field, or one element of it. Returns false if it is null; then nothing is written.
struct ValueSeed<'w, 't> {
    writer: &'w mut MessageWriter<'t>,
    number: u32,
    shape: FieldArity,
    of: ValueType,
}

/// Finds the field that a key names.
struct MemberSeed<'t>(&'t StructType);

/// Writes a key of a map.
struct KeySeed<'w>(&'w mut Vec<u8>);

/// Encodes an object as a message of type `of`.
///
/// # Errors
/// If the input cannot be read, or a value has another type than the table says.
pub fn encode<'de, D: Deserializer<'de>>(
    table: &TypeTable,
    of: TypeRef,
    object: D,
) -> Result<Vec<u8>, D::Error> {
    let mut writer = MessageWriter {
        table,
        out: Vec::with_capacity(1024),
        members: Vec::new(),
        ordered: Vec::with_capacity(1024),
    };
    let root = RootSeed {
        writer: &mut writer,
        of,
    };
    object.deserialize_map(root)?;
    Ok(writer.out)
}

// === impl MessageWriter ===

impl MessageWriter<'_> {
    /// Writes the fields of a struct.
    fn write_struct<'de, A: MapAccess<'de>>(
        &mut self,
        of: TypeRef,
        mut members: A,
    ) -> Result<(), A::Error> {
        let row = self.table.get(of);
        let (start, first) = (self.out.len(), self.members.len());
        while let Some(found) = members.next_key_seed(MemberSeed(row))? {
            let Some((name, field)) = found else {
                members.next_value::<IgnoredAny>()?;
                continue;
            };
            let start = self.out.len();
            let seed = ValueSeed {
                writer: self,
                number: field.number,
                shape: field.shape,
                of: field.of,
            };
            if members.next_value_seed(seed)? {
                let end = self.out.len();
                self.members.push(EncodedMember { name, start, end });
            }
        }
        let mut ordered = std::mem::take(&mut self.ordered);
        self.put_in_order(of, first, &mut ordered);
        self.members.truncate(first);
        self.out.truncate(start);
        self.out.append(&mut ordered);
        self.ordered = ordered;
        Ok(())
    }

    /// Appends the fields of a struct whose members are those from `first` on, with zeros for absent ones.
    fn put_in_order(&self, of: TypeRef, first: usize, ordered: &mut Vec<u8>) {
        for field in &self.table.get(of).fields {
            let mut members = self.members[first..].iter();
            match (field.field.of, members.rfind(|it| it.name == field.name)) {
                (ValueType::Struct(inner), _) if field.embedded => {
                    let start = ordered.len();
                    self.put_in_order(inner, first, ordered);
                    enclose(ordered, start, field.field.number);
                }
                (_, Some(member)) => ordered.extend_from_slice(&self.out[member.start..member.end]),
                (_, None) => self.push_absent(&field.field, ordered),
            }
        }
    }

    /// Appends a field that the input does not have.
    fn push_absent(&self, field: &StructField, out: &mut Vec<u8>) {
        let is_nil = matches!(
            field.of,
            ValueType::Scalar(ScalarType::Bytes | ScalarType::Strings)
        );
        if !field.optional && !is_nil && field.shape == FieldArity::One {
            self.push_zero(field.number, field.of, out);
        }
    }

    fn push_zero(&self, number: u32, of: ValueType, out: &mut Vec<u8>) {
        let start = out.len();
        let scalar = match of {
            ValueType::Scalar(scalar) => scalar,
            ValueType::Struct(of) => {
                self.put_in_order(of, self.members.len(), out);
                return enclose(out, start, number);
            }
        };
        match scalar {
            ScalarType::Bool | ScalarType::Int32 | ScalarType::Int64 => push_number(out, number, 0),
            ScalarType::Double => push_double(out, number, 0.0),
            ScalarType::IntOrString => push_int_or_string(out, number, (0, 0, "")),
            ScalarType::Quantity => push_quantity(out, number, "0"),
            ScalarType::Bytes
            | ScalarType::MicroTime
            | ScalarType::Raw
            | ScalarType::String
            | ScalarType::Strings
            | ScalarType::Time => push_bytes(out, number, &[]),
        }
    }
}

// === impl ValueSeed ===

impl<'t> ValueSeed<'_, 't> {
    /// Writes one element of a list or of a map.
    fn element(&mut self, number: u32, of: ValueType) -> ValueSeed<'_, 't> {
        ValueSeed {
            writer: self.writer,
            number,
            shape: FieldArity::One,
            of,
        }
    }

    /// Writes the zero of an element that is null.
    fn push_null(&mut self, number: u32, of: ValueType) {
        let mut out = std::mem::take(&mut self.writer.out);
        self.writer.push_zero(number, of, &mut out);
        self.writer.out = out;
    }

    /// The type of a single value; none for lists and maps.
    fn scalar(&self) -> Option<ScalarType> {
        match (self.shape, self.of) {
            (FieldArity::One, ValueType::Scalar(scalar)) => Some(scalar),
            _ => None,
        }
    }

    fn union(&self) -> Option<(&'t StructType, UnionType)> {
        match (self.shape, self.of) {
            (FieldArity::One, ValueType::Struct(of)) => {
                let row = self.writer.table.get(of);
                row.union.map(|union| (row, union))
            }
            _ => None,
        }
    }

    fn unexpected<E: Error>(&self, found: &str) -> E {
        let of = match self.of {
            ValueType::Struct(of) => self.writer.table.get(of).name.to_owned(),
            ValueType::Scalar(scalar) => format!("{scalar:?}"),
        };
        E::custom(format!("{found} instead of {of} in field {}", self.number))
    }
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_, '_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<bool, D::Error> {
        if self.scalar() != Some(ScalarType::Raw) {
            return input.deserialize_any(self);
        }
        let value = <Value as serde::Deserialize>::deserialize(input)?;
        if value.is_null() {
            return Ok(false);
        }
        let out = &mut self.writer.out;
        let start = out.len();
        push_bytes(out, 1, value.to_string().as_bytes());
        enclose(out, start, self.number);
        Ok(true)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_, '_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the value of field {}", self.number)
    }

    fn visit_unit<E: Error>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<bool, E> {
        let union = self.union().map(|(_, union)| union);
        let (number, start) = (self.number, self.writer.out.len());
        match (self.scalar(), union) {
            (Some(ScalarType::Bool), _) => {
                push_number(&mut self.writer.out, number, value.into());
            }
            (_, Some(UnionType::SchemaOrBool)) => {
                push_number(&mut self.writer.out, 1, value.into());
                enclose(&mut self.writer.out, start, number);
            }
            _ => return Err(self.unexpected("a boolean")),
        }
        Ok(true)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<bool, E> {
        let (number, out) = (self.number, &mut self.writer.out);
        match (self.shape, self.of) {
            (FieldArity::One, ValueType::Scalar(ScalarType::Int32 | ScalarType::Int64)) => {
                push_number(out, number, value);
            }
            (FieldArity::One, ValueType::Scalar(ScalarType::Double)) => {
                push_double(out, number, value as f64);
            }
            (FieldArity::One, ValueType::Scalar(ScalarType::IntOrString)) => {
                push_int_or_string(out, number, (0, value, ""));
            }
            (FieldArity::One, ValueType::Scalar(ScalarType::Quantity)) => {
                push_quantity(out, number, &value.to_string());
            }
            _ => return Err(self.unexpected("a number")),
        }
        Ok(true)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<bool, E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => self.visit_f64(value as f64),
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<bool, E> {
        if self.scalar() != Some(ScalarType::Double) {
            return Err(self.unexpected("a fraction"));
        }
        push_double(&mut self.writer.out, self.number, value);
        Ok(true)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<bool, E> {
        let scalar = self.scalar();
        let (number, out) = (self.number, &mut self.writer.out);
        match scalar {
            Some(ScalarType::String) => push_bytes(out, number, text.as_bytes()),
            Some(ScalarType::Bytes) => {
                let bytes = STANDARD.decode(text).map_err(E::custom)?;
                push_bytes(out, number, &bytes);
            }
            Some(ScalarType::Quantity) => push_quantity(out, number, text),
            Some(ScalarType::IntOrString) => push_int_or_string(out, number, (1, 0, text)),
            Some(scalar @ (ScalarType::Time | ScalarType::MicroTime)) => {
                let at: Timestamp = text.parse().map_err(E::custom)?;
                push_time(out, number, at, scalar);
            }
            _ => return Err(self.unexpected("a string")),
        }
        Ok(true)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<bool, A::Error> {
        const TEXT: ValueType = ValueType::Scalar(ScalarType::String);
        let start = self.writer.out.len();
        // The number and the type of an item, and whether the list is a message of its own.
        let (number, of, is_message) = match (self.shape, self.scalar(), self.union()) {
            (FieldArity::List, _, _) => (self.number, self.of, false),
            (_, Some(ScalarType::Strings), _) => (1, TEXT, true),
            (_, _, Some((row, UnionType::SchemaOrArray | UnionType::SchemaOrStrings))) => {
                let list = row.numbered(2).map(|field| field.field.of);
                (2, list.unwrap_or(TEXT), true)
            }
            _ => return Err(self.unexpected("a list")),
        };
        while let Some(is_written) = items.next_element_seed(self.element(number, of))? {
            if !is_written {
                self.push_null(number, of);
            }
        }
        if is_message {
            enclose(&mut self.writer.out, start, self.number);
        }
        Ok(true)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<bool, A::Error> {
        let (start, of) = (self.writer.out.len(), self.of);
        match (self.shape, of, self.union()) {
            (FieldArity::Map, _, _) => loop {
                let start = self.writer.out.len();
                let key = members.next_key_seed(KeySeed(&mut self.writer.out))?;
                if key.is_none() {
                    return Ok(true);
                }
                if !members.next_value_seed(self.element(VALUE, of))? {
                    self.push_null(VALUE, of);
                }
                enclose(&mut self.writer.out, start, self.number);
            },
            (FieldArity::One, _, Some((row, union))) => {
                if union == UnionType::SchemaOrBool {
                    push_number(&mut self.writer.out, 1, 1);
                }
                let Some(StructField {
                    number,
                    of: ValueType::Struct(of),
                    ..
                }) = row.members.get("schema").copied()
                else {
                    return Err(self.unexpected("an object"));
                };
                let inner = self.writer.out.len();
                self.writer.write_struct(of, members)?;
                enclose(&mut self.writer.out, inner, number);
            }
            (FieldArity::One, ValueType::Struct(of), None) => {
                self.writer.write_struct(of, members)?;
            }
            _ => return Err(self.unexpected("an object")),
        }
        enclose(&mut self.writer.out, start, self.number);
        Ok(true)
    }
}

// === impl RootSeed ===

impl<'de> Visitor<'de> for RootSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<(), A::Error> {
        self.writer.write_struct(self.of, members)
    }
}

// === impl MemberSeed ===

impl<'de, 't> DeserializeSeed<'de> for MemberSeed<'t> {
    type Value = Option<(&'static str, &'t StructField)>;

    fn deserialize<D: Deserializer<'de>>(self, key: D) -> Result<Self::Value, D::Error> {
        key.deserialize_str(self)
    }
}

impl<'de, 't> Visitor<'de> for MemberSeed<'t> {
    type Value = Option<(&'static str, &'t StructField)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        let found = self.0.members.get_key_value(name);
        Ok(found.map(|(name, field)| (*name, field)))
    }
}

// === impl KeySeed ===

impl<'de> DeserializeSeed<'de> for KeySeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, key: D) -> Result<(), D::Error> {
        key.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<(), E> {
        push_bytes(self.0, KEY, key.as_bytes());
        Ok(())
    }
}

fn push_number(out: &mut Vec<u8>, number: u32, value: i64) {
    push_tag(out, number, WireType::Varint);
    push_varint(out, value.cast_unsigned());
}

fn push_double(out: &mut Vec<u8>, number: u32, value: f64) {
    push_tag(out, number, WireType::Fixed64);
    out.extend_from_slice(&value.to_bits().to_le_bytes());
}

fn push_quantity(out: &mut Vec<u8>, number: u32, text: &str) {
    let start = out.len();
    push_bytes(out, 1, text.as_bytes());
    enclose(out, start, number);
}

fn push_int_or_string(out: &mut Vec<u8>, number: u32, (kind, int, string): (i64, i64, &str)) {
    let start = out.len();
    push_number(out, 1, kind);
    push_number(out, 2, int);
    push_bytes(out, 3, string.as_bytes());
    enclose(out, start, number);
}

/// Writes a time: seconds, and nanoseconds that are never negative.
fn push_time(out: &mut Vec<u8>, number: u32, at: Timestamp, of: ScalarType) {
    const SECOND: i128 = 1_000_000_000;
    let (seconds, nanos) = (
        at.as_nanosecond().div_euclid(SECOND),
        at.as_nanosecond().rem_euclid(SECOND),
    );
    let nanos = match of {
        ScalarType::MicroTime => nanos - nanos % 1000,
        _ => 0,
    };
    let start = out.len();
    push_number(out, 1, seconds as i64);
    push_number(out, 2, nanos as i64);
    enclose(out, start, number);
}
