//! How transcripts are kept as files: JSON that reads well in a review.
//!
//! One file per theme, an object of case name to its exchanges in table order. What fits on a line stands on one
//! line; the bytes depend on the content alone, so that two recordings can be compared with `diff`.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Longest line that is not broken up, in characters, indentation included.
const LINE_MAX: usize = 140;

/// The text of a file of transcripts.
pub fn written(cases: &[(String, Vec<Value>)]) -> String {
    let mut out = String::from("{");
    for (at, (name, transcript)) in cases.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(out, "{comma}\n\n  {}: ", Value::from(name.as_str()));
        write_value(&mut out, &Value::from(transcript.clone()), 2, 0);
    }
    out.push_str("\n}\n");
    out
}

/// The transcripts of a file, by case.
pub fn read(text: &str) -> Result<Vec<(String, Vec<Value>)>, serde_json::Error> {
    let map: Map<String, Value> = serde_json::from_str(text)?;
    let transcripts = map.into_iter().map(|(name, value)| match value {
        Value::Array(exchanges) => (name, exchanges),
        other => (name, vec![other]),
    });
    Ok(transcripts.collect())
}

/// One value, for people, at most a few lines.
pub fn shown(value: &Value) -> String {
    let mut out = String::new();
    write_value(&mut out, value, 0, 0);
    out
}

fn write_value(out: &mut String, value: &Value, indent: usize, used: usize) {
    let compact = line(value);
    let nested = match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if !nested || indent + used + compact.chars().count() <= LINE_MAX {
        out.push_str(&compact);
        return;
    }
    let inner = indent + 2;
    match value {
        Value::Object(map) => {
            let entries = ranked(map)
                .into_iter()
                .map(|(key, value)| (format!("{}: ", Value::from(key.as_str())), value));
            write_block(out, ['{', '}'], entries, inner);
        }
        Value::Array(items) => write_block(
            out,
            ['[', ']'],
            items.iter().map(|item| (String::new(), item)),
            inner,
        ),
        _ => {}
    }
}

fn write_block<'a>(
    out: &mut String,
    braces: [char; 2],
    entries: impl Iterator<Item = (String, &'a Value)>,
    indent: usize,
) {
    out.push(braces[0]);
    for (at, (key, value)) in entries.enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(out, "{comma}\n{:indent$}{key}", "");
        write_value(out, value, indent, key.len() + 1);
    }
    let outer = indent - 2;
    let _ = write!(out, "\n{:outer$}{}", "", braces[1]);
}

/// The value on one line.
fn line(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let entries = ranked(map)
                .into_iter()
                .map(|(key, value)| format!("{}: {}", Value::from(key.as_str()), line(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => format!(
            "[{}]",
            items.iter().map(line).collect::<Vec<_>>().join(", ")
        ),
        other => other.to_string(),
    }
}

fn ranked(map: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| (rank(key), *key));
    entries
}

/// The request line comes first, the body last; everything else by name.
fn rank(key: &str) -> u8 {
    match key {
        "note" => 0,
        "request" | "read" | "apiVersion" | "type" => 1,
        "kind" => 2,
        "body" | "events" | "object" | "items" | "rows" => 9,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_written_can_be_read_and_is_written_the_same_again() {
        let long = "x".repeat(LINE_MAX);
        let exchange = json!({"request": "GET /", "status": 200, "body": {"text": long, "empty": {}, "none": []}});
        let cases = vec![
            ("a".to_owned(), vec![exchange.clone(), exchange]),
            ("b".to_owned(), vec![]),
        ];
        let text = written(&cases);
        assert_eq!(read(&text).unwrap(), cases);
        assert_eq!(written(&read(&text).unwrap()), text);
    }

    #[test]
    fn short_values_stay_on_one_line_and_long_ones_begin_with_the_request() {
        let text = shown(&json!({"body": "x".repeat(LINE_MAX), "request": "GET /"}));
        assert!(text.starts_with("{\n  \"request\": \"GET /\","), "{text}");
        assert_eq!(shown(&json!([1, {"a": 2}])), r#"[1, {"a": 2}]"#);
    }
}
