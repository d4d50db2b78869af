//! What is wrong with an object, and how the real server words it.
//!
//! Faults are kept as references into object and schema while alternatives are weighed against each other, and become
//! [`Cause`]s at the end, within [`FAULTS_MAX`] and [`FAULT_BYTES_MAX`].

use serde_json::Value;

use super::values::{Choice, shown};
use crate::status::{Cause, quoted};

/// Faults of one object that are told. DEVIATION(schema-faults-max): upstream tells all, and takes a time that grows with
/// the square of their number.
pub(super) const FAULTS_MAX: usize = 1000;
/// Their length in all: a large enum is repeated in each fault.
const FAULT_BYTES_MAX: usize = 1024 * 1024;

/// A fault at a place, which is written as upstream's validator writes it.
#[derive(Debug, Clone)]
pub(super) struct Fault<'a> {
    pub(super) at: String,
    pub(super) what: What<'a>,
}

/// What is wrong.
#[derive(Debug, Clone)]
pub(super) enum What<'a> {
    /// It has another type or format than this one.
    Type {
        expected: &'a str,
        found: &'a str,
    },
    Required,
    NotOneOf(&'a Value, &'a Choice),
    TooLong(i64),
    TooMany {
        found: usize,
        max: i64,
    },
    /// Anything else about a value; the text is the whole sentence.
    Invalid {
        value: Value,
        text: String,
    },
    /// A sentence that names its place itself.
    Plain(String),
}

/// The causes of an answer. `below` is where the object stands that was judged.
pub(super) fn causes(faults: &[Fault<'_>], below: &str, overflow: bool) -> Vec<Cause> {
    let mut causes: Vec<Cause> = Vec::new();
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
        let why = "there are more faults than are told; correct these first";
        causes.push(cause(
            "FieldValueInvalid",
            place("", below),
            format!("Invalid value: \"\": {why}"),
        ));
    }
    causes
}

/// Whether upstream leaves rules in CEL unchecked because of this.
pub(super) fn blocks_rules(cause: &Cause) -> bool {
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

/// What is said then.
pub(super) fn rules_not_checked() -> Cause {
    let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
    cause(
        "FieldValueInvalid",
        NOWHERE.to_owned(),
        format!("Invalid value: null: {why}"),
    )
}

/// A value that occurs twice.
pub(super) fn repeated(at: String, value: &Value) -> Cause {
    cause(
        "FieldValueDuplicate",
        at,
        format!("Duplicate value: {}", shown(value)),
    )
}

/// A value that is wrong, in upstream's spelling.
pub(super) fn invalid(at: impl Into<String>, value: &Value, why: &str) -> Cause {
    cause(
        "FieldValueInvalid",
        at.into(),
        format!("Invalid value: {}: {why}", shown(value)),
    )
}

/// How upstream names the place of what concerns all of an object.
const NOWHERE: &str = "<nil>";

// === impl Fault ===

impl Fault<'_> {
    fn cause(&self, below: &str) -> Cause {
        let (at, field) = (&self.at, place(&self.at, below));
        match &self.what {
            What::Type { expected, found } => {
                let found = quoted(found);
                let message = format!(
                    "Invalid value: {found}: {at} in body must be of type {expected}: {found}"
                );
                cause("FieldValueTypeInvalid", field, message)
            }
            What::Required => cause("FieldValueRequired", field, "Required value".to_owned()),
            What::NotOneOf(value, choice) => {
                let message = format!(
                    "Unsupported value: {}: supported values: {}",
                    shown(value),
                    choice.shown()
                );
                cause("FieldValueNotSupported", field, message)
            }
            What::TooLong(max) => {
                let unit = if *max == 1 { "byte" } else { "bytes" };
                let message = format!("Too long: may not be more than {max} {unit}");
                cause("FieldValueTooLong", field, message)
            }
            What::TooMany { found, max } => {
                let unit = if *max == 1 { "item" } else { "items" };
                let message = format!("Too many: {found}: must have at most {max} {unit}");
                cause("FieldValueTooMany", field, message)
            }
            What::Invalid { value, text } => invalid(field, value, text),
            What::Plain(text) => invalid(place("", below), &"".into(), text),
        }
    }
}

/// A place within `below`, as the answer names it.
fn place(at: &str, below: &str) -> String {
    let at = at.strip_prefix('.').unwrap_or(at);
    match (at, below) {
        ("", "") => NOWHERE.to_owned(),
        ("", below) => below.to_owned(),
        (at, "") => at.to_owned(),
        (at, below) => format!("{below}.{at}"),
    }
}

fn cause(reason: &str, field: String, message: String) -> Cause {
    Cause {
        reason: reason.to_owned(),
        message,
        field,
    }
}
