//! Decodes a message into the JSON tree that Go writes for the same object.
//!
//! Mirrors the generated `Unmarshal` methods (gogo/protobuf) followed by `encoding/json`: unknown fields are skipped, a
//! repeated message is merged, the last of repeated scalars counts, zeros are left out or written as the table says, and
//! text that is not UTF-8 gets U+FFFD for each wrong byte.
//!
//! Work and memory are bounded by the bytes of the message, [`DEPTH_MAX`] and [`VALUES_MAX`]: a message of two bytes can
//! be a struct with many members in JSON.
//! DEVIATION(protobuf-values): values that JSON cannot express are refused, where upstream panics or stores them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use serde_json::{Map, Number, Value};

use super::wire::{ProtoError, WireReader, WireType};
use crate::quantity::Quantity;
use crate::types::{
    FieldArity, MessageField, ScalarType, StructField, TypeRef, TypeTable, UnionType, ValueType,
};

/// Deepest nesting of the JSON tree. `serde_json` reads no deeper text, and objects are stored as text.
pub const DEPTH_MAX: usize = 127;

/// Most values in one object, members and items together: a body of 3 MiB with nothing but short labels has fewer.
pub const VALUES_MAX: usize = 500_000;

/// The seconds of the years 0 to 9999, which RFC 3339 can express.
const SECONDS: std::ops::RangeInclusive<i64> = -62_167_219_200..=253_402_300_799;
/// The seconds of Go's zero time, which JSON shows as null.
const ZERO_TIME: i64 = -62_135_596_800;

/// Decodes one object.
struct MessageReader<'t> {
    table: &'t TypeTable,
    values_left: usize,
    depth_left: usize,
}

/// The name and the fields of a message that JSON shows as one value: names in Go and types, from number 1 on.
struct SmallMessage(&'static str, &'static [(&'static str, WireType)]);

/// A value of a [`SmallMessage`].
enum SmallValue<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

const INT_OR_STRING: SmallMessage = SmallMessage(
    "IntOrString",
    &[
        ("Type", WireType::Varint),
        ("IntVal", WireType::Varint),
        ("StrVal", WireType::Bytes),
    ],
);
const QUANTITY: SmallMessage = SmallMessage("Quantity", &[("String_", WireType::Bytes)]);
const RAW: SmallMessage = SmallMessage("RawExtension", &[("Raw", WireType::Bytes)]);
const STRINGS: SmallMessage = SmallMessage("ExtraValue", &[("Items", WireType::Bytes)]);
const TIMESTAMP: SmallMessage = SmallMessage(
    "Timestamp",
    &[("Seconds", WireType::Varint), ("Nanos", WireType::Varint)],
);

/// Decodes a message of type `of`.
///
/// # Errors
/// If it is malformed, has a field of another type than the table says, a value that JSON cannot express, or exceeds a
/// limit.
pub fn decode(
    table: &TypeTable,
    of: TypeRef,
    message: &[u8],
) -> Result<Map<String, Value>, ProtoError> {
    let mut reader = MessageReader {
        table,
        values_left: VALUES_MAX,
        depth_left: DEPTH_MAX,
    };
    let mut object = Map::new();
    reader.read_struct(of, message, &mut object)?;
    Ok(object)
}

// === impl MessageReader ===

impl MessageReader<'_> {
    /// Runs `read` one level deeper.
    fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, ProtoError>,
    ) -> Result<T, ProtoError> {
        self.depth_left = self.depth_left.checked_sub(1).ok_or(ProtoError::TooDeep)?;
        let result = read(self);
        self.depth_left += 1;
        result
    }

    fn count_value(&mut self) -> Result<(), ProtoError> {
        let left = self.values_left.checked_sub(1);
        self.values_left = left.ok_or(ProtoError::TooManyValues)?;
        Ok(())
    }

    /// Reads a message into an object, which may hold the fields of an earlier one.
    fn read_struct(
        &mut self,
        of: TypeRef,
        message: &[u8],
        object: &mut Map<String, Value>,
    ) -> Result<(), ProtoError> {
        self.nested(|reader| {
            reader.read_fields(of, message, object)?;
            reader.complete(of, object)
        })
    }

    fn read_fields(
        &mut self,
        of: TypeRef,
        message: &[u8],
        object: &mut Map<String, Value>,
    ) -> Result<(), ProtoError> {
        let table = self.table;
        let row = table.get(of);
        let mut wire = WireReader::of(message);
        while let Some(tag) = wire.next_tag(row.short_name())? {
            let Some(field) = row.numbered(tag.number) else {
                wire.skip(tag.wire)?;
                continue;
            };
            match (field.field.shape, field.field.of) {
                (FieldArity::One, ValueType::Struct(inner)) if field.embedded => {
                    let inner_message = field.expect(tag.wire, &mut wire)?;
                    self.read_fields(inner, inner_message, object)?;
                }
                (FieldArity::One, _) => {
                    let before = object.remove(field.name);
                    field.check_wire(tag.wire)?;
                    let value = self.read_value(field, &mut wire, before)?;
                    self.put(object, field, value)?;
                }
                (FieldArity::List, of) => {
                    let items = array_of(object, field.name);
                    // Numbers may be packed into one field.
                    if tag.wire == WireType::Bytes as u8 && of.wire() == WireType::Varint {
                        let mut packed = WireReader::of(wire.bytes()?);
                        while !packed.is_empty() {
                            self.push_item(field, &mut packed, items)?;
                        }
                    } else {
                        field.check_wire(tag.wire)?;
                        self.push_item(field, &mut wire, items)?;
                    }
                }
                (FieldArity::Map, _) => {
                    let entry = field.expect(tag.wire, &mut wire)?;
                    self.read_entry(field, entry, object)?;
                }
            }
        }
        Ok(())
    }

    fn push_item(
        &mut self,
        field: &MessageField,
        wire: &mut WireReader<'_>,
        items: &mut Vec<Value>,
    ) -> Result<(), ProtoError> {
        self.count_value()?;
        let item = self.nested(|reader| reader.read_value(field, wire, None))?;
        items.push(item);
        Ok(())
    }

    /// Reads an entry of a map: its key is field 1, its value field 2.
    fn read_entry(
        &mut self,
        field: &MessageField,
        entry: &[u8],
        object: &mut Map<String, Value>,
    ) -> Result<(), ProtoError> {
        self.count_value()?;
        let (mut key, mut value) = (String::new(), None);
        let mut wire = WireReader::of(entry);
        while let Some(tag) = wire.entry_tag()? {
            match tag.number {
                1 => key = text(wire.bytes()?),
                2 => {
                    let read = self.nested(|reader| reader.read_value(field, &mut wire, None));
                    value = Some(read?);
                }
                _ => wire.skip(tag.wire)?,
            }
        }
        let value = match (value, field.field.of) {
            (Some(value), _) => value,
            (None, ValueType::Scalar(ScalarType::Bytes)) => "".into(),
            (None, of) => self.nested(|reader| reader.zero(of))?,
        };
        let members = object.entry(field.name);
        let members = members.or_insert_with(|| Value::Object(Map::new()));
        if !members.is_object() {
            *members = Value::Object(Map::new());
        }
        if let Value::Object(members) = members {
            members.insert(key, value);
        }
        Ok(())
    }

    /// Sets the value of a field, or leaves out a zero.
    fn put(
        &mut self,
        object: &mut Map<String, Value>,
        field: &MessageField,
        value: Value,
    ) -> Result<(), ProtoError> {
        let StructField {
            optional, always, ..
        } = field.field;
        if optional || always || !is_zero(&value) {
            self.count_value()?;
            object.insert(field.name.to_owned(), value);
        }
        Ok(())
    }

    /// Adds the members that are always written.
    fn complete(&mut self, of: TypeRef, object: &mut Map<String, Value>) -> Result<(), ProtoError> {
        let table = self.table;
        for (name, field) in &table.get(of).members {
            if field.always && !object.contains_key(*name) {
                let zero = match field.is_inline() {
                    true => self.zero(field.of)?,
                    false => field.zero(),
                };
                self.count_value()?;
                object.insert((*name).to_owned(), zero);
            }
        }
        Ok(())
    }

    /// Returns the zero value of a type, with the members that are always written.
    fn zero(&mut self, of: ValueType) -> Result<Value, ProtoError> {
        match of {
            ValueType::Struct(at) => self.read_message(at, &[], Map::new()),
            ValueType::Scalar(_) => Ok(of.zero()),
        }
    }

    /// Reads one value. The caller checks the type on the wire.
    fn read_value(
        &mut self,
        field: &MessageField,
        wire: &mut WireReader<'_>,
        before: Option<Value>,
    ) -> Result<Value, ProtoError> {
        let scalar = match field.field.of {
            ValueType::Scalar(scalar) => scalar,
            ValueType::Struct(at) => {
                let before = match before {
                    Some(Value::Object(before)) if self.table.get(at).union.is_none() => before,
                    _ => Map::new(),
                };
                return self.read_message(at, wire.bytes()?, before);
            }
        };
        Ok(match scalar {
            ScalarType::Bool => (wire.varint()? != 0).into(),
            // Like upstream, bits beyond the width of the type are cut off.
            ScalarType::Int32 => (wire.varint()? as i32).into(),
            ScalarType::Int64 => wire.varint()?.cast_signed().into(),
            ScalarType::Double => number(f64::from_bits(wire.fixed64()?), field)?,
            ScalarType::Bytes => STANDARD.encode(wire.bytes()?).into(),
            ScalarType::String => text(wire.bytes()?).into(),
            ScalarType::IntOrString => int_or_string(wire.bytes()?, field)?,
            ScalarType::Quantity => quantity(wire.bytes()?)?,
            ScalarType::Time | ScalarType::MicroTime => time(wire.bytes()?, scalar, field)?,
            ScalarType::Raw => self.raw(wire.bytes()?, field)?,
            ScalarType::Strings => self.strings(wire.bytes()?)?,
        })
    }

    fn read_message(
        &mut self,
        of: TypeRef,
        message: &[u8],
        mut object: Map<String, Value>,
    ) -> Result<Value, ProtoError> {
        let union = self.table.get(of).union;
        self.read_struct(of, message, &mut object)?;
        Ok(match union {
            None => Value::Object(object),
            Some(union) => union.unwrapped(object),
        })
    }

    /// Reads JSON within a message.
    fn raw(&mut self, message: &[u8], field: &MessageField) -> Result<Value, ProtoError> {
        let mut raw = &[][..];
        RAW.read(message, |_, value| raw = value.bytes())?;
        if raw.is_empty() {
            return Ok(Value::Null);
        }
        let value: Value = serde_json::from_slice(raw).map_err(|error| field.refuse(&error))?;
        self.check_tree(&value)?;
        Ok(value)
    }

    /// Counts the values of a tree, and its depth.
    fn check_tree(&mut self, value: &Value) -> Result<(), ProtoError> {
        self.count_value()?;
        match value {
            Value::Array(items) => {
                self.nested(|reader| items.iter().try_for_each(|item| reader.check_tree(item)))
            }
            Value::Object(members) => self.nested(|reader| {
                let mut values = members.values();
                values.try_for_each(|value| reader.check_tree(value))
            }),
            _ => Ok(()),
        }
    }

    fn strings(&mut self, message: &[u8]) -> Result<Value, ProtoError> {
        let mut items = Vec::new();
        STRINGS.read(message, |_, value| items.push(value.bytes()))?;
        for _ in &items {
            self.count_value()?;
        }
        if items.is_empty() {
            return Ok(Value::Null);
        }
        Ok(items.into_iter().map(text).collect())
    }
}

// === impl MessageField ===

impl MessageField {
    fn check_wire(&self, found: u8) -> Result<(), ProtoError> {
        self.check(found, self.field.of.wire())
    }

    /// Reads the bytes of a message or of an entry of a map.
    fn expect<'a>(&self, found: u8, wire: &mut WireReader<'a>) -> Result<&'a [u8], ProtoError> {
        self.check(found, WireType::Bytes)?;
        wire.bytes()
    }

    fn check(&self, found: u8, expected: WireType) -> Result<(), ProtoError> {
        if found == expected as u8 {
            return Ok(());
        }
        Err(ProtoError::WrongWireType {
            wire: found,
            field: self.go_name(),
        })
    }

    fn refuse(&self, why: &dyn std::fmt::Display) -> ProtoError {
        ProtoError::Value {
            field: self.go_name(),
            why: why.to_string(),
        }
    }
}

// === impl ValueType ===

impl ValueType {
    pub(super) fn wire(self) -> WireType {
        match self {
            ValueType::Scalar(ScalarType::Bool | ScalarType::Int32 | ScalarType::Int64) => {
                WireType::Varint
            }
            ValueType::Scalar(ScalarType::Double) => WireType::Fixed64,
            _ => WireType::Bytes,
        }
    }
}

// === impl UnionType ===

impl UnionType {
    /// Returns the value that JSON shows instead of the struct.
    fn unwrapped(self, mut members: Map<String, Value>) -> Value {
        let schema = members.remove("schema").unwrap_or_default();
        let mut other = |name| members.remove(name).unwrap_or_default();
        match self {
            UnionType::SchemaOrBool if schema.is_null() => other("allows"),
            UnionType::SchemaOrBool => schema,
            UnionType::SchemaOrArray => match other("jSONSchemas") {
                Value::Null => schema,
                schemas => schemas,
            },
            UnionType::SchemaOrStrings => match other("property") {
                Value::Null => schema,
                names => names,
            },
        }
    }
}

// === impl SmallMessage ===

impl SmallMessage {
    /// Calls `found` with the index and the value of each known field.
    fn read<'a>(
        &self,
        message: &'a [u8],
        mut found: impl FnMut(usize, SmallValue<'a>),
    ) -> Result<(), ProtoError> {
        let mut wire = WireReader::of(message);
        while let Some(tag) = wire.next_tag(self.0)? {
            let index = tag.number as usize - 1;
            let Some((name, expected)) = self.1.get(index) else {
                wire.skip(tag.wire)?;
                continue;
            };
            if tag.wire != *expected as u8 {
                return Err(ProtoError::WrongWireType {
                    wire: tag.wire,
                    field: (*name).to_owned(),
                });
            }
            let value = match expected {
                WireType::Bytes => SmallValue::Bytes(wire.bytes()?),
                WireType::Varint | WireType::Fixed64 => SmallValue::Number(wire.varint()?),
            };
            found(index, value);
        }
        Ok(())
    }
}

// === impl SmallValue ===

impl<'a> SmallValue<'a> {
    fn bytes(self) -> &'a [u8] {
        match self {
            SmallValue::Bytes(bytes) => bytes,
            SmallValue::Number(_) => &[],
        }
    }
}

fn array_of<'o>(object: &'o mut Map<String, Value>, name: &str) -> &'o mut Vec<Value> {
    let value = object.entry(name).or_insert(Value::Null);
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    let Value::Array(items) = value else {
        unreachable!("made an array above")
    };
    items
}

/// Reports whether a value is the zero of its type. Structs are never left out.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(_) => false,
    }
}

/// Returns text as Go writes it into JSON: each byte that is not part of a character becomes U+FFFD.
fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

/// Returns a number as Go writes it: without a fraction if it has none.
fn number(number: f64, field: &MessageField) -> Result<Value, ProtoError> {
    /// Beyond 2⁵³ not every whole number is a double.
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= WHOLE_MAX {
        return Ok((number as i64).into());
    }
    let value = Number::from_f64(number).map(Value::Number);
    value.ok_or_else(|| field.refuse(&format!("json: unsupported value: {number}")))
}

fn int_or_string(message: &[u8], field: &MessageField) -> Result<Value, ProtoError> {
    let (mut kind, mut int, mut string) = (0, 0, &[][..]);
    INT_OR_STRING.read(message, |index, value| match (index, value) {
        (0, SmallValue::Number(number)) => kind = number,
        (1, SmallValue::Number(number)) => int = number,
        (_, value) => string = value.bytes(),
    })?;
    match kind {
        0 => Ok((int as i32).into()),
        1 => Ok(text(string).into()),
        _ => Err(field.refuse(&"impossible IntOrString.Type")),
    }
}

fn quantity(message: &[u8]) -> Result<Value, ProtoError> {
    let mut found = None;
    QUANTITY.read(message, |_, value| found = Some(value.bytes()))?;
    Ok(match found {
        Some(bytes) => Quantity::parse(&text(bytes))?.to_string().into(),
        None => "0".into(),
    })
}

/// Reads a time. An empty message is Go's zero time.
fn time(message: &[u8], of: ScalarType, field: &MessageField) -> Result<Value, ProtoError> {
    const SECOND_PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(0));
    const MICRO_PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(6));
    let (mut seconds, mut nanos) = (0, 0);
    TIMESTAMP.read(message, |index, value| match (index, value) {
        (0, SmallValue::Number(number)) => seconds = number.cast_signed(),
        (_, SmallValue::Number(number)) => nanos = number as i32,
        _ => {}
    })?;
    let (micros, printer) = match of {
        ScalarType::Time => (0, SECOND_PRINTER),
        _ => (i64::from(nanos / 1000), MICRO_PRINTER),
    };
    // Nanoseconds beyond a second, or below zero, move the seconds.
    let seconds_moved = seconds.saturating_add(micros.div_euclid(1_000_000));
    if message.is_empty() || (seconds_moved, micros) == (ZERO_TIME, 0) {
        return Ok(Value::Null);
    }
    let at = Timestamp::new(seconds_moved, micros.rem_euclid(1_000_000) as i32 * 1000);
    match at {
        Ok(at) if SECONDS.contains(&seconds_moved) => Ok(printer.timestamp_to_string(&at).into()),
        _ => Err(field.refuse(&"the time is not in the years 0 to 9999")),
    }
}
