//! Comparison of values with an enum, and their notation in messages. Both follow upstream.
//!
//! An enum is searched in logarithmic time. Upstream converts a value to the type of each member before it compares them:
//! 1.5 is a member of `[1]`, and 65 of `["A"]`. Null is never a member.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::status::quoted;

/// The members of an enum.
#[derive(Debug)]
pub(super) struct EnumValues {
    texts: BTreeSet<String>,
    integers: BTreeSet<i64>,
    /// By their bits; see [`bits`].
    floats: BTreeSet<u64>,
    /// All other values, by their JSON.
    others: BTreeSet<String>,
    /// The list for messages.
    shown: String,
}

// === impl EnumValues ===

impl EnumValues {
    pub(super) fn of(values: &[Value]) -> Self {
        let mut choice = Self {
            texts: BTreeSet::new(),
            integers: BTreeSet::new(),
            floats: BTreeSet::new(),
            others: BTreeSet::new(),
            shown: String::new(),
        };
        for value in values {
            if !choice.shown.is_empty() {
                choice.shown.push_str(", ");
            }
            let text = value.as_str().map_or_else(|| go_json(value), str::to_owned);
            choice.shown.push_str(&quoted(&text));
            match value {
                Value::Null => {}
                Value::String(text) => {
                    choice.texts.insert(text.clone());
                }
                Value::Number(number) => match number.as_i64() {
                    Some(integer) => {
                        choice.integers.insert(integer);
                    }
                    None => {
                        choice
                            .floats
                            .insert(bits(number.as_f64().unwrap_or_default()));
                    }
                },
                other => {
                    choice.others.insert(other.to_string());
                }
            }
        }
        choice
    }

    pub(super) fn has(&self, value: &Value) -> bool {
        match value {
            Value::Null => false,
            Value::String(text) => self.texts.contains(text),
            Value::Number(number) => match number.as_i64() {
                Some(integer) => {
                    self.integers.contains(&integer)
                        || self.floats.contains(&bits(as_float(integer)))
                        || (!self.texts.is_empty() && self.texts.contains(&character(integer)))
                }
                None => {
                    let float = number.as_f64().unwrap_or_default();
                    self.floats.contains(&bits(float)) || self.integers.contains(&truncated(float))
                }
            },
            other => !self.others.is_empty() && self.others.contains(&other.to_string()),
        }
    }

    /// The list of members for messages.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }
}

/// A value for a message.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Number(number) if !number.is_i64() => go_float(number.as_f64().unwrap_or_default()),
        other => go_json(other),
    }
}

/// JSON with Go's escapes.
#[must_use]
pub fn go_json(value: &Value) -> String {
    let text = value.to_string();
    if !text.contains(['<', '>', '&']) {
        return text;
    }
    text.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

/// A float in the format of Go's `%v`: with an exponent from a million on.
#[must_use]
pub fn go_float(value: f64) -> String {
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[expect(clippy::cast_precision_loss, reason = "upstream compares floats")]
pub(super) fn as_float(integer: i64) -> f64 {
    integer as f64
}

/// The integer part, saturating.
#[expect(clippy::cast_possible_truncation, reason = "truncates on purpose")]
pub(super) fn truncated(float: f64) -> i64 {
    float as i64
}

/// An integer converted to a string as in Go: the character with this code point.
fn character(integer: i64) -> String {
    let character = u32::try_from(integer).ok().and_then(char::from_u32);
    character.unwrap_or(char::REPLACEMENT_CHARACTER).to_string()
}

fn bits(float: f64) -> u64 {
    // Maps -0.0 to 0.0.
    (float + 0.0).to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn finds_enum_members_like_upstream() {
        let cases = [
            (json!(["a", "b"]), json!("a"), true),
            (json!(["a", "b"]), json!("c"), false),
            (json!([1, 2]), json!(2), true),
            (json!([1, 2]), json!(2.5), true),
            (json!([1, 2]), json!("1"), false),
            (json!([1.5]), json!(1.5), true),
            (json!([1.5]), json!(1), false),
            (json!(["A"]), json!(65), true),
            (json!([null, 1]), json!(null), false),
            (json!([true]), json!(true), true),
            (json!([true]), json!(false), false),
            (json!([{"a": 1}]), json!({"a": 1}), true),
            (json!([[1]]), json!([2]), false),
        ];
        for (members, value, is_one) in cases {
            let choice = EnumValues::of(members.as_array().unwrap());
            assert_eq!(choice.has(&value), is_one, "{value} in {members}");
        }
    }

    #[test]
    fn formats_floats_like_go() {
        let cases = [
            (1.0, "1"),
            (0.5, "0.5"),
            (1e21, "1e+21"),
            (1.5e-7, "1.5e-07"),
            (-2.25, "-2.25"),
            (1e6, "1e+06"),
            (123_456.5, "123456.5"),
        ];
        for (value, text) in cases {
            assert_eq!(go_float(value), text);
        }
    }
}
