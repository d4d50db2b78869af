//! The text of cells: ages, values of custom kinds by column type, and helpers for the cells of built-in kinds.
//!
//! Ages follow upstream's `duration.HumanDuration`, other cells its table convertor for custom resources (1.36).

use caretaker_machinery::schema::{go_float, go_json};
use jiff::Timestamp;
use serde_json::Value;

/// Go's zero time, which means that the event never happened.
pub(super) const NO_TIME: &str = "0001-01-01T00:00:00Z";
/// Shown for an empty list and for many missing strings.
pub(super) const NONE: &str = "<none>";

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// Formats of ages: below this many seconds, the unit, and the smaller unit for the remainder. Longer ages have fewer
/// details.
const STEPS: [(i64, TimeUnit, Option<TimeUnit>); 8] = [
    (2 * MINUTE, SECONDS, None),
    (10 * MINUTE, MINUTES, Some(SECONDS)),
    (3 * HOUR, MINUTES, None),
    (8 * HOUR, HOURS, Some(MINUTES)),
    (2 * DAY, HOURS, None),
    (8 * DAY, DAYS, Some(HOURS)),
    (2 * YEAR, DAYS, None),
    (8 * YEAR, YEARS, Some(DAYS)),
];

type TimeUnit = (i64, char);
const SECONDS: TimeUnit = (1, 's');
const MINUTES: TimeUnit = (MINUTE, 'm');
const HOURS: TimeUnit = (HOUR, 'h');
const DAYS: TimeUnit = (DAY, 'd');
const YEARS: TimeUnit = (YEAR, 'y');

/// The age of a time in a field.
pub(super) fn age(time: &str, now: Timestamp) -> String {
    if time.is_empty() {
        return "<unknown>".into();
    }
    match time.parse::<Timestamp>() {
        Ok(time) => since(time, now),
        Err(_) => "<invalid>".into(),
    }
}

/// The duration between two times.
pub(super) fn since(time: Timestamp, now: Timestamp) -> String {
    human(now.duration_since(time).as_secs())
}

/// The string in a field; empty if it is missing.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The items of a list; none if it is missing.
pub(super) fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Joins texts with commas.
pub(super) fn joined(texts: &[impl AsRef<str>]) -> String {
    let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    if texts.is_empty() {
        return NONE.into();
    }
    texts.join(",")
}

/// Labels in the notation of a selector.
pub(super) fn labels(labels: &Value) -> String {
    let labels = labels.as_object().into_iter().flatten();
    let mut labels: Vec<(&String, &Value)> = labels.collect();
    labels.sort_unstable_by_key(|(key, _)| *key);
    let labels: Vec<String> = labels
        .into_iter()
        .map(|(key, value)| format!("{key}={}", text(value)))
        .collect();
    joined(&labels)
}

/// The cell of a value in a column of a custom kind.
pub(super) fn of_type(name: &str, value: &Value, now: Timestamp) -> Value {
    match (name, value) {
        ("string", value) => printed(value).into(),
        ("integer", Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => integer.into(),
            // Like Go, truncate the fraction.
            (None, Some(float)) => (float as i64).into(),
            (None, None) => Value::Null,
        },
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(time)) => age(time, now).into(),
        _ => Value::Null,
    }
}

/// A duration with two or three significant digits. Tolerates a client clock that is ahead by a second.
pub(super) fn human(seconds: i64) -> String {
    if seconds < 0 {
        return if seconds < -1 { "<invalid>" } else { "0s" }.into();
    }
    let step = STEPS.iter().find(|(limit, _, _)| seconds < *limit);
    let ((large, name), small) = step.map_or((YEARS, None), |(_, large, small)| (*large, *small));
    let mut text = format!("{}{name}", seconds / large);
    if let Some((unit, name)) = small {
        let rest = seconds % large / unit;
        if rest > 0 {
            text.push_str(&format!("{rest}{name}"));
        }
    }
    text
}

/// A value as text in the notation of Go.
fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".into(),
        Value::String(text) => text.clone(),
        Value::Number(number) if !number.is_i64() => go_float(number.as_f64().unwrap_or_default()),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(_) | Value::Object(_) => go_json(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn older_ages_have_fewer_details() {
        let cases = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (2 * MINUTE, "2m"),
            (5 * MINUTE + 16, "5m16s"),
            (10 * MINUTE - 1, "9m59s"),
            (10 * MINUTE + 59, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 5 * MINUTE + 59, "3h5m"),
            (8 * HOUR - 1, "7h59m"),
            (8 * HOUR + 59 * MINUTE, "8h"),
            (2 * DAY - 1, "47h"),
            (2 * DAY, "2d"),
            (3 * DAY + 4 * HOUR, "3d4h"),
            (8 * DAY - 1, "7d23h"),
            (8 * DAY + 23 * HOUR, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR, "2y"),
            (3 * YEAR + 7 * DAY, "3y7d"),
            (8 * YEAR - 1, "7y364d"),
            (8 * YEAR + 300 * DAY, "8y"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(human(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn formats_cells_by_column_type() {
        let now: Timestamp = "2026-11-15T23:00:00Z".parse().unwrap();
        let cases = [
            ("string", json!("text"), json!("text")),
            ("string", json!(7), json!("7")),
            ("string", json!(true), json!("true")),
            ("string", json!(1.5), json!("1.5")),
            ("string", json!(1_234_567.5), json!("1.2345675e+06")),
            (
                "string",
                json!(12_345_678_901_234_567_890_u64),
                json!("1.2345678901234567e+19"),
            ),
            (
                "string",
                json!({"k": "v", "a": [1, "<x>"]}),
                json!(r#"{"a":[1,"\u003cx\u003e"],"k":"v"}"#),
            ),
            ("string", json!(null), json!("<no value>")),
            ("integer", json!(7), json!(7)),
            ("integer", json!(1.5), json!(1)),
            ("integer", json!("text"), json!(null)),
            ("number", json!(1.5), json!(1.5)),
            ("number", json!(7), json!(7)),
            ("boolean", json!(true), json!(true)),
            ("boolean", json!("text"), json!(null)),
            ("date", json!("2026-11-10T00:00:00Z"), json!("5d23h")),
            ("date", json!("text"), json!("<invalid>")),
            ("date", json!(""), json!("<unknown>")),
            ("date", json!(7), json!(null)),
            ("date", json!(null), json!(null)),
        ];
        for (name, value, cell) in cases {
            assert_eq!(of_type(name, &value, now), cell, "{name} {value}");
        }
    }
}
