//! Faults of an object and their messages, which are upstream's.
//!
//! While alternatives (`anyOf`, `oneOf`) are compared, faults are references into object and schema. They become
//! [`StatusCause`]s at the end, within [`FAULTS_MAX`] and [`FAULT_BYTES_MAX`].

use serde_json::Value;

use super::values::{EnumValues, shown};
use crate::status::{StatusCause, quoted};

/// Most faults of one object that are reported. DEVIATION(schema-faults-max): upstream reports all of them, in a time that
/// grows with the square of their number.
pub(super) const FAULTS_MAX: usize = 1000;
/// Most bytes of all fault messages: each fault repeats a large enum.
const FAULT_BYTES_MAX: usize = 1024 * 1024;

/// A fault and its path in the notation of upstream's validator.
#[derive(Debug, Clone)]
pub(super) struct SchemaFault<'a> {
    pub(super) at: String,
    pub(super) what: FaultDetail<'a>,
}

/// The kind of a fault, with the values for its message.
#[derive(Debug, Clone)]
pub(super) enum FaultDetail<'a> {
    /// The value has the wrong type or format.
    Type {
        expected: &'a str,
        found: &'a str,
    },
    Required,
    NotOneOf(&'a Value, &'a EnumValues),
    TooLong(i64),
    TooMany {
        found: usize,
        max: i64,
    },
    /// Any other fault of a value; `text` is the whole message.
    Invalid {
        value: Value,
        text: String,
    },
    /// A message that contains the path.
    Plain(String),
}

/// Converts faults to the causes of a `Status`. `below` is the path of the validated value.
pub(super) fn causes(faults: &[SchemaFault<'_>], below: &str, overflow: bool) -> Vec<StatusCause> {
    let mut causes: Vec<StatusCause> = Vec::new();
    let mut bytes = 0;
    let mut overflow = overflow;
    for fault in faults {
        if bytes > FAULT_BYTES_MAX || causes.len() >= FAULTS_MAX {
            overflow = true;
            break;
        }
        let cause = fault.cause(below);
        if !causes.contains(&cause) {
            bytes += cause.message.len() + cause.field.len();
            causes.push(cause);
        }
    }
    if overflow {
        let why = "there are more faults than are reported; correct these first";
        causes.push(cause(
            "FieldValueInvalid",
            place("", below),
            format!("Invalid value: \"\": {why}"),
        ));
    }
    causes
}

/// Whether upstream skips the CEL rules because of this fault.
pub(super) fn blocks_rules(cause: &StatusCause) -> bool {
    let blocking = [
        "NotSupported",
        "Required",
        "TooLong",
        "TooMany",
        "TypeInvalid",
    ];
    let kind = cause.reason.strip_prefix("FieldValue").unwrap_or_default();
    blocking.contains(&kind)
}

/// The fault that upstream adds if it skips the CEL rules.
pub(super) fn rules_not_checked() -> StatusCause {
    let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
    cause(
        "FieldValueInvalid",
        NOWHERE.to_owned(),
        format!("Invalid value: null: {why}"),
    )
}

/// The fault of a value that occurs twice.
pub(super) fn repeated(at: String, value: &Value) -> StatusCause {
    cause(
        "FieldValueDuplicate",
        at,
        format!("Duplicate value: {}", shown(value)),
    )
}

/// The fault of an invalid value, with the value in upstream's notation.
pub(super) fn invalid(at: impl Into<String>, value: &Value, why: &str) -> StatusCause {
    cause(
        "FieldValueInvalid",
        at.into(),
        format!("Invalid value: {}: {why}", shown(value)),
    )
}

/// The path that upstream uses for faults of the whole object.
const NOWHERE: &str = "<nil>";

// === impl SchemaFault ===

impl SchemaFault<'_> {
    fn cause(&self, below: &str) -> StatusCause {
        let (at, field) = (&self.at, place(&self.at, below));
        match &self.what {
            FaultDetail::Type { expected, found } => {
                let found = quoted(found);
                let message = format!(
                    "Invalid value: {found}: {at} in body must be of type {expected}: {found}"
                );
                cause("FieldValueTypeInvalid", field, message)
            }
            FaultDetail::Required => {
                cause("FieldValueRequired", field, "Required value".to_owned())
            }
            FaultDetail::NotOneOf(value, choice) => {
                let message = format!(
                    "Unsupported value: {}: supported values: {}",
                    shown(value),
                    choice.shown()
                );
                cause("FieldValueNotSupported", field, message)
            }
            FaultDetail::TooLong(max) => {
                let unit = if *max == 1 { "byte" } else { "bytes" };
                let message = format!("Too long: may not be more than {max} {unit}");
                cause("FieldValueTooLong", field, message)
            }
            FaultDetail::TooMany { found, max } => {
                let unit = if *max == 1 { "item" } else { "items" };
                let message = format!("Too many: {found}: must have at most {max} {unit}");
                cause("FieldValueTooMany", field, message)
            }
            FaultDetail::Invalid { value, text } => invalid(field, value, text),
            FaultDetail::Plain(text) => invalid(place("", below), &"".into(), text),
        }
    }
}

/// Joins a path with the path of the validated value.
fn place(at: &str, below: &str) -> String {
    let at = at.strip_prefix('.').unwrap_or(at);
    match (at, below) {
        ("", "") => NOWHERE.to_owned(),
        ("", below) => below.to_owned(),
        (at, "") => at.to_owned(),
        (at, below) => format!("{below}.{at}"),
    }
}

fn cause(reason: &str, field: String, message: String) -> StatusCause {
    StatusCause {
        reason: reason.to_owned(),
        message,
        field,
    }
}
