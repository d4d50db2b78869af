//! Limits of numbers. Like upstream, integers are compared with the integer part of a limit.
//!
//! Mirrors `numberValidator` of kube-openapi: a limit that does not fit the type of the value is a fault of every object.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::fault::FaultDetail;
use super::values::{as_float, go_float, truncated};
use super::{JsonType, NodeTypes};

/// Largest integer below which all integers are representable as floats.
const WHOLE_MAX: f64 = 9_007_199_254_740_991.0;
/// Largest relative distance from an integer at which a quotient counts as an integer.
const EPSILON: f64 = 1e-9;

/// The limits that a schema sets for numbers.
#[derive(Debug, Default)]
pub(super) struct NumberBounds {
    min: Option<f64>,
    max: Option<f64>,
    exclusive_min: bool,
    exclusive_max: bool,
    multiple_of: Option<f64>,
    range: NumberRange,
}

/// The numbers that a type and its format allow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum NumberRange {
    #[default]
    All,
    Integer,
    Int32,
    Int64,
    Float32,
}

// === impl NumberBounds ===

impl NumberBounds {
    pub(super) fn read(schema: &Value, types: NodeTypes) -> Self {
        let format = schema["format"].as_str().unwrap_or_default();
        let range = match (types, format) {
            (NodeTypes::One(JsonType::Integer), "int32") => NumberRange::Int32,
            (NodeTypes::One(JsonType::Integer), "int64") => NumberRange::Int64,
            (NodeTypes::One(JsonType::Integer), _) => NumberRange::Integer,
            (NodeTypes::One(JsonType::Number), "float") => NumberRange::Float32,
            _ => NumberRange::All,
        };
        Self {
            min: schema["minimum"].as_f64(),
            max: schema["maximum"].as_f64(),
            exclusive_min: schema["exclusiveMinimum"] == true,
            exclusive_max: schema["exclusiveMaximum"] == true,
            multiple_of: schema["multipleOf"].as_f64(),
            range,
        }
    }

    /// The faults of the number at path `at`.
    pub(super) fn faults(&self, number: &Number, at: &str) -> Vec<FaultDetail<'static>> {
        let mut faults = Vec::new();
        let is_within = |value: Number| self.range.has(&value);
        if !is_within(number.clone()) {
            faults.push(self.range.fault("Checked", at));
        }
        let whole = number.as_i64();
        let mut bound =
            |limit: f64,
             name: &str,
             check: &dyn Fn(f64, Option<i64>) -> Option<(Number, String)>| {
                let fits = Number::from_f64(limit).is_none_or(is_within);
                if !fits {
                    faults.push(self.range.fault(name, at));
                }
                if let Some((value, text)) = check(limit, whole.filter(|_| fits)) {
                    faults.push(FaultDetail::Invalid(Value::Number(value), text));
                }
            };
        if let Some(factor) = self.multiple_of {
            bound(factor, "MultipleOf", &|factor, whole| {
                multiple(number, whole, factor, at)
            });
        }
        let ends = [
            (
                self.min,
                self.exclusive_min,
                "Minimum",
                "greater",
                Ordering::Less,
            ),
            (
                self.max,
                self.exclusive_max,
                "Maximum",
                "less",
                Ordering::Greater,
            ),
        ];
        for (limit, is_exclusive, name, word, beyond) in ends {
            let Some(limit) = limit else {
                continue;
            };
            let or_equal = if is_exclusive { "" } else { " or equal to" };
            let rule = format!("{at} in body should be {word} than{or_equal}");
            let is_bad = |order: Ordering| order == beyond || is_exclusive && order.is_eq();
            bound(limit, &format!("{name} boundary"), &|limit, whole| {
                outside(number, whole, limit, &rule, is_bad)
            });
        }
        faults
    }
}

// === impl NumberRange ===

impl NumberRange {
    fn has(self, number: &Number) -> bool {
        let float = number.as_f64().unwrap_or_default();
        let is_integer =
            number.is_i64() || float.fract() == 0.0 && float.abs() < 9_223_372_036_854_775_808.0;
        match self {
            NumberRange::All => true,
            NumberRange::Integer | NumberRange::Int64 => is_integer,
            NumberRange::Int32 => {
                is_integer && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&float)
            }
            NumberRange::Float32 => float.abs() <= f64::from(f32::MAX) * (1.0 + 1e-8),
        }
    }

    fn fault(self, what: &str, at: &str) -> FaultDetail<'static> {
        let of = match self {
            NumberRange::All | NumberRange::Integer => "integer (default format)",
            NumberRange::Int32 => "integer with format int32",
            NumberRange::Int64 => "integer with format int64",
            NumberRange::Float32 => "number with format float",
        };
        FaultDetail::Plain(format!("{what} value must be of type {of} in {at}"))
    }
}

/// Whether upstream treats a float as an integer.
pub(super) fn is_whole(value: f64) -> bool {
    if !value.is_finite() || value.abs() > WHOLE_MAX {
        return false;
    }
    let whole = value.trunc();
    // Upstream converts to an unsigned number, so the tolerance applies only to positive ones.
    whole == value
        || value > 0.0
            && whole != 0.0
            && (value - whole).abs() / (value.abs() + whole.abs()) < EPSILON
}

/// The fault of a number outside a limit: the number to show, and the message.
fn outside(
    number: &Number,
    whole: Option<i64>,
    limit: f64,
    word: &str,
    is_bad: impl Fn(Ordering) -> bool,
) -> Option<(Number, String)> {
    if let Some(whole) = whole {
        let limit = truncated(limit);
        return is_bad(whole.cmp(&limit)).then(|| (whole.into(), format!("{word} {limit}")));
    }
    let value = number.as_f64().unwrap_or_default();
    let bad = value.partial_cmp(&limit).is_some_and(is_bad);
    bad.then(|| (shown_float(value), format!("{word} {}", go_float(limit))))
}

fn multiple(
    number: &Number,
    whole: Option<i64>,
    factor: f64,
    at: &str,
) -> Option<(Number, String)> {
    let odd = |value: Number, factor: String| {
        let text = format!("{at} in body should be a multiple of {factor}");
        Some((value, text))
    };
    let negative = |shown: String, factor: Number| {
        let text = format!("factor MultipleOf declared for {at} must be positive: {shown}");
        Some((factor, text))
    };
    if let Some(whole) = whole {
        let factor = truncated(factor);
        return match whole.checked_rem(factor) {
            _ if factor <= 0 => negative(factor.to_string(), factor.into()),
            Some(0) => None,
            _ => odd(whole.into(), factor.to_string()),
        };
    }
    if factor <= 0.0 {
        return negative(go_float(factor), shown_float(factor));
    }
    let value = number.as_f64().unwrap_or_default();
    let quotient = if factor < 1.0 {
        1.0 / factor * value
    } else {
        value / factor
    };
    if is_whole(quotient) {
        return None;
    }
    odd(shown_float(value), go_float(factor))
}

/// A float as a JSON number. Floats from JSON are finite.
fn shown_float(value: f64) -> Number {
    Number::from_f64(value).unwrap_or_else(|| truncated(value).into())
}

/// The type of a number, and the format that Go's decoder gives it.
pub(super) fn type_of(number: &Number) -> (JsonType, &'static str) {
    match number.as_i64() {
        Some(_) => (JsonType::Integer, "int64"),
        None => (JsonType::Number, "float64"),
    }
}

/// A number as a float.
pub(super) fn value_of(number: &Number) -> f64 {
    number
        .as_i64()
        .map_or_else(|| number.as_f64().unwrap_or_default(), as_float)
}
