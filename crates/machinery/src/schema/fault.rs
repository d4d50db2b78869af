//! Faults of an object or of a schema and their messages, which are upstream's.
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
    /// The value has the wrong type or format: the expected and the found one.
    Type(&'a str, &'a str),
    Required,
    NotOneOf(&'a Value, &'a EnumValues),
    TooLong(i64),
    /// The number of items, and the most that are allowed.
    TooMany(usize, i64),
    /// Any other fault of a value, with the whole message.
    Invalid(Value, String),
    /// A message that contains the path.
    Plain(String),
}

/// The faults of a schema, and the path of the part that is being checked.
pub(super) struct FaultList {
    path: String,
    pub(super) causes: Vec<StatusCause>,
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
        causes.push(invalid(place("", below), &"".into(), why));
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
    invalid(NOWHERE, &Value::Null, why)
}

/// The fault of a value that occurs twice.
pub(super) fn repeated(at: String, value: &Value) -> StatusCause {
    let message = format!("Duplicate value: {}", shown(value));
    StatusCause::new("FieldValueDuplicate", at, message)
}

/// The fault of an invalid value, with the value in upstream's notation.
pub(super) fn invalid(at: impl Into<String>, value: &Value, why: &str) -> StatusCause {
    let message = format!("Invalid value: {}: {why}", shown(value));
    StatusCause::new("FieldValueInvalid", at, message)
}

/// The path that upstream uses for faults of the whole object.
const NOWHERE: &str = "<nil>";

// === impl SchemaFault ===

impl SchemaFault<'_> {
    fn cause(&self, below: &str) -> StatusCause {
        let (at, field) = (&self.at, place(&self.at, below));
        let (reason, message) = match &self.what {
            FaultDetail::Type(expected, found) => {
                let found = quoted(found);
                let message = format!(
                    "Invalid value: {found}: {at} in body must be of type {expected}: {found}"
                );
                ("FieldValueTypeInvalid", message)
            }
            FaultDetail::Required => ("FieldValueRequired", "Required value".to_owned()),
            FaultDetail::NotOneOf(value, choice) => {
                let (value, known) = (shown(value), choice.shown());
                let message = format!("Unsupported value: {value}: supported values: {known}");
                ("FieldValueNotSupported", message)
            }
            FaultDetail::TooLong(max) => {
                let unit = if *max == 1 { "byte" } else { "bytes" };
                let message = format!("Too long: may not be more than {max} {unit}");
                ("FieldValueTooLong", message)
            }
            FaultDetail::TooMany(found, max) => {
                let unit = if *max == 1 { "item" } else { "items" };
                let message = format!("Too many: {found}: must have at most {max} {unit}");
                ("FieldValueTooMany", message)
            }
            FaultDetail::Invalid(value, text) => return invalid(field, value, text),
            FaultDetail::Plain(text) => return invalid(place("", below), &"".into(), text),
        };
        StatusCause::new(reason, field, message)
    }
}

// === impl FaultList ===

impl FaultList {
    pub(super) fn new(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            causes: Vec::new(),
        }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Runs the checks of a part; `step` leads to it from the current path.
    pub(super) fn below(&mut self, step: &str, check: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push_str(step);
        check(self);
        self.path.truncate(length);
    }

    /// A member of the current part is missing.
    pub(super) fn require(&mut self, member: &str, why: &str) {
        self.causes
            .push(StatusCause::required(self.at(member), why));
    }

    /// A member is not allowed here.
    pub(super) fn forbid(&mut self, member: &str, why: &str) {
        self.causes
            .push(StatusCause::forbidden(self.at(member), why));
    }

    /// The value of a member violates a rule.
    pub(super) fn refuse(&mut self, member: &str, value: &Value, why: &str) {
        self.causes.push(invalid(self.at(member), value, why));
    }

    /// The text in a member is missing or wrong.
    pub(super) fn refuse_text(&mut self, member: &str, text: &str, why: &str) {
        match text {
            "" => self.require(member, why),
            text => self.refuse(member, &text.into(), why),
        }
    }

    /// The text in a member is not one of the known ones.
    pub(super) fn refuse_word(&mut self, member: &str, word: &str, known: &[&str]) {
        let at = self.at(member);
        self.causes
            .push(StatusCause::not_supported(at, word, known));
    }

    fn at(&self, member: &str) -> String {
        format!("{}.{member}", self.path)
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
