//! OpenAPI documents in protobuf, as the messages of gnostic, which client-go reads: `gnostic.txt` numbers the fields.
//!
//! A keyword that has no row is left out, as in upstream's conversion. YAML values are written as JSON, which is YAML.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use caretaker_machinery::proto::push_message;
use serde_json::Value;

const MESSAGES: &str = include_str!("../../data/gnostic.txt");

/// A message: its fields by name, or a choice of two by a key.
enum MessageRow {
    Fields(BTreeMap<&'static str, &'static str>),
    Choice {
        key: &'static str,
        with: &'static str,
        without: &'static str,
    },
}

/// Encodes a document of OpenAPI v3.
pub(super) fn encode_v3(document: &Value) -> Vec<u8> {
    encode("v3.Document", document)
}

/// Encodes a document of OpenAPI v2.
pub(super) fn encode_v2(document: &Value) -> Vec<u8> {
    encode("v2.Document", document)
}

fn encode(of: &str, value: &Value) -> Vec<u8> {
    let mut message = Vec::new();
    match messages().get(of) {
        Some(MessageRow::Choice { key, with, without }) => {
            let has_key = match *key {
                "bool" => value.is_boolean(),
                key => value.get(key).is_some(),
            };
            push(&mut message, if has_key { with } else { without }, value);
        }
        Some(MessageRow::Fields(fields)) => {
            for (name, value) in value.as_object().into_iter().flatten() {
                if let Some(field) = fields.get(name.as_str()) {
                    push(&mut message, field, value);
                } else if let Some(field) = fields.get("x-").filter(|_| name.starts_with("x-")) {
                    let (numbers, of) = split(field);
                    push_entry(&mut message, numbers, of, name, value);
                }
            }
        }
        None => {}
    }
    message
}

/// Appends a field: `field` is its numbers, its shape and its type.
fn push(message: &mut Vec<u8>, field: &str, value: &Value) {
    let (numbers, of) = split(field);
    if let Some((outer, inner)) = numbers.split_once('.') {
        let mut wrapped = Vec::new();
        push(&mut wrapped, &format!("{inner}{of}"), value);
        push_message(message, number(outer), &wrapped);
    } else if let Some(of) = of.strip_prefix("[]") {
        for item in value.as_array().into_iter().flatten() {
            push_one(message, number(numbers), of, item);
        }
    } else if let Some(of) = of.strip_prefix("{}") {
        for (name, value) in value.as_object().into_iter().flatten() {
            push_entry(message, numbers, of, name, value);
        }
    } else {
        push_one(message, number(numbers), of, value);
    }
}

/// Appends a named value.
fn push_entry(message: &mut Vec<u8>, numbers: &str, of: &str, name: &str, value: &Value) {
    let mut entry = Vec::new();
    push_message(&mut entry, 1, name.as_bytes());
    push_one(&mut entry, 2, of, value);
    push_message(message, number(numbers), &entry);
}

fn push_one(message: &mut Vec<u8>, number: u32, of: &str, value: &Value) {
    match of {
        "s" => push_message(
            message,
            number,
            value.as_str().unwrap_or_default().as_bytes(),
        ),
        "b" => push_varint(message, number, value.as_bool().unwrap_or_default().into()),
        "i" => push_varint(message, number, value.as_u64().unwrap_or_default()),
        "d" => push_double(message, number, value.as_f64().unwrap_or_default()),
        "any" => {
            let mut any = Vec::new();
            push_message(&mut any, 2, format!("{value}\n").as_bytes());
            push_message(message, number, &any);
        }
        // A default is a number, a boolean or a text; another one cannot be expressed.
        "default" => {
            let mut default = Vec::new();
            match value {
                Value::Number(value) => {
                    push_double(&mut default, 1, value.as_f64().unwrap_or_default());
                }
                Value::Bool(value) => push_varint(&mut default, 2, (*value).into()),
                Value::String(value) => push_message(&mut default, 3, value.as_bytes()),
                _ => return,
            }
            push_message(message, number, &default);
        }
        of => push_message(message, number, &encode(of, value)),
    }
}

fn push_varint(message: &mut Vec<u8>, number: u32, value: u64) {
    push_number(message, u64::from(number) << 3);
    push_number(message, value);
}

fn push_double(message: &mut Vec<u8>, number: u32, value: f64) {
    push_number(message, u64::from(number) << 3 | 1);
    message.extend_from_slice(&value.to_le_bytes());
}

/// Appends seven bits per byte, the lowest first.
fn push_number(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(0x80 | (value & 0x7f) as u8);
        value >>= 7;
    }
    message.push(value as u8);
}

/// Splits the numbers of a field from its shape and type.
fn split(field: &str) -> (&str, &str) {
    let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
    field.split_at(
        field
            .find(|letter| !is_number(letter))
            .unwrap_or(field.len()),
    )
}

fn number(text: &str) -> u32 {
    text.parse().expect("a test reads the file")
}

fn messages() -> &'static BTreeMap<&'static str, MessageRow> {
    static TABLE: LazyLock<BTreeMap<&'static str, MessageRow>> = LazyLock::new(|| {
        let lines = MESSAGES.lines().filter(|line| !line.starts_with('#'));
        lines
            .filter_map(|line| {
                let (name, row) = line.split_once('\t')?;
                let choice = row.strip_prefix('?').and_then(|row| {
                    let (key, fields) = row.split_once(' ')?;
                    let (with, without) = fields.split_once('|')?;
                    Some(MessageRow::Choice { key, with, without })
                });
                let fields = || {
                    let fields = row.split(' ').filter_map(|field| field.split_once(':'));
                    MessageRow::Fields(fields.collect())
                };
                Some((name, choice.unwrap_or_else(fields)))
            })
            .collect()
    });
    &TABLE
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_field_has_a_number_and_a_known_type() {
        let scalars = ["s", "b", "i", "d", "any", "default"];
        for (name, row) in messages() {
            let fields: Vec<&str> = match row {
                MessageRow::Fields(fields) => fields.values().copied().collect(),
                MessageRow::Choice { with, without, .. } => vec![with, without],
            };
            assert!(!fields.is_empty(), "{name}");
            for field in fields {
                let (numbers, of) = split(field);
                assert!(numbers.split('.').all(|part| number(part) > 0));
                let of = of.trim_start_matches(['[', ']', '{', '}']);
                let known = scalars.contains(&of) || messages().contains_key(of);
                assert!(known, "{name}: {field}");
            }
        }
    }

    #[test]
    fn encodes_texts_maps_choices_and_numbers() {
        let schema =
            json!({"properties": {"a": {"$ref": "#/x"}}, "minimum": 1.5, "type": "object"});
        let expected = [
            &[0x69][..],
            &1.5_f64.to_le_bytes(),
            &[0xfa, 0x01, 14, 10, 12, 10, 1, b'a', 18, 7, 18, 5, 10, 3],
            b"#/x",
            &[0xca, 0x01, 6],
            b"object",
        ];
        assert_eq!(encode("v3.Schema", &schema), expected.concat());
    }
}
