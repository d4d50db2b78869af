//! JSON with keys that occur twice in an object.
//!
//! Upstream's decoder takes the last value, merges objects, and names the path of each repeated key and of each unknown one in
//! the order of the document. [`parse`] only notes that a key is repeated; [`report`] reads the text again, which is rare.

mod patch;
pub(crate) mod yaml;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Value};

pub(crate) use patch::{PatchReport, report_patch};

/// Parses JSON. The flag is set if an object has a key twice.
pub(crate) fn parse(bytes: &[u8]) -> Result<(Value, bool), serde_json::Error> {
    let is_repeated = Cell::new(false);
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = ValueSeed(&is_repeated).deserialize(&mut reader)?;
    reader.end()?;
    Ok((value, is_repeated.get()))
}

/// Returns what strict decoding reports of a text: its repeated keys, and the paths in `unknown`. Those come last where they
/// were found by a schema.
pub(crate) fn report(bytes: &[u8], unknown: &[String], source: UnknownSource) -> Vec<String> {
    let mut report = StrictReport {
        path: String::new(),
        unknown: match source {
            UnknownSource::Types => unknown,
            UnknownSource::Schema => &[],
        },
        found: Vec::new(),
    };
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    // The text was parsed before, so that an error cannot occur.
    let _ = ReportSeed(&mut report).deserialize(&mut reader);
    let mut found = report.found;
    let named = |path: &String| format!("unknown field {path:?}");
    for line in unknown.iter().map(named) {
        if !found.contains(&line) {
            found.push(line);
        }
    }
    found
}

/// How unknown fields were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnknownSource {
    /// While the text was decoded.
    Types,
    /// Afterwards, or in another text.
    Schema,
}

/// Builds a value.
struct ValueSeed<'a>(&'a Cell<bool>);

/// Names keys of a text.
struct ReportSeed<'a, 'b>(&'a mut StrictReport<'b>);

struct StrictReport<'a> {
    path: String,
    unknown: &'a [String],
    found: Vec<String>,
}

// === impl ValueSeed ===

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(ValueSeed(self.0))? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            let value = members.next_value_seed(ValueSeed(self.0))?;
            match map.entry(key) {
                Entry::Vacant(member) => {
                    member.insert(value);
                }
                Entry::Occupied(mut known) => {
                    self.0.set(true);
                    merge(known.get_mut(), value);
                }
            }
        }
        Ok(map.into())
    }
}

/// A repeated object adds to the first one; any other value replaces it.
fn merge(known: &mut Value, value: Value) {
    match (known, value) {
        (Value::Object(known), Value::Object(value)) => {
            for (key, value) in value {
                merge(known.entry(key).or_insert(Value::Null), value);
            }
        }
        (known, value) => *known = value,
    }
}

// === impl StrictReport ===

impl StrictReport<'_> {
    fn is_unknown(&self) -> bool {
        self.unknown.contains(&self.path)
    }
}

// === impl ReportSeed ===

impl<'de> DeserializeSeed<'de> for ReportSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ReportSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let (report, mut at) = (self.0, 0);
        let length = report.path.len();
        loop {
            report.path.push_str(&format!("[{at}]"));
            let item = items.next_element_seed(ReportSeed(report))?;
            report.path.truncate(length);
            if item.is_none() {
                return Ok(());
            }
            at += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let report = self.0;
        let length = report.path.len();
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        while let Some(key) = members.next_key::<String>()? {
            if length > 0 {
                report.path.push('.');
            }
            report.path.push_str(&key);
            let count = seen.entry(key).or_default();
            *count += 1;
            if report.is_unknown() {
                if *count == 1 {
                    report
                        .found
                        .push(format!("unknown field {:?}", report.path));
                }
                members.next_value::<serde::de::IgnoredAny>()?;
            } else {
                if *count == 2 {
                    report
                        .found
                        .push(format!("duplicate field {:?}", report.path));
                }
                members.next_value_seed(ReportSeed(report))?;
            }
            report.path.truncate(length);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn repeated_keys_are_merged_and_noted() {
        let cases = [
            (
                r#"{"a":1,"b":[{"c":null}]}"#,
                json!({"a": 1, "b": [{"c": null}]}),
                false,
            ),
            (r#"{"a":1,"a":2.5}"#, json!({"a": 2.5}), true),
            (
                r#"{"a":{"x":1},"a":{"y":2}}"#,
                json!({"a": {"x": 1, "y": 2}}),
                true,
            ),
            (r#"[{"a":"x","a":[true]}]"#, json!([{"a": [true]}]), true),
        ];
        for (text, value, is_repeated) in cases {
            let found = parse(text.as_bytes()).unwrap();
            assert_eq!(found, (value, is_repeated), "{text}");
        }
        for broken in ["", "{", "{} {}", "{\"a\"}"] {
            assert!(parse(broken.as_bytes()).is_err(), "{broken}");
        }
    }

    #[test]
    fn reports_follow_the_document() {
        let text = br#"{"metadata":{"name":"a","name":"b","zz":1},"foo":1,"data":{"k":"1","k":"2","k":"3"},"data":{"x":"y"},
            "list":[{"a":1,"a":2}],"bar":{"q":1,"q":2},"bar":3}"#;
        let unknown = ["bar", "foo", "metadata.zz"].map(str::to_owned);
        let found = report(text, &unknown, UnknownSource::Types);
        let expected = [
            "duplicate field \"metadata.name\"",
            "unknown field \"metadata.zz\"",
            "unknown field \"foo\"",
            "duplicate field \"data.k\"",
            "duplicate field \"data\"",
            "duplicate field \"list[0].a\"",
            "unknown field \"bar\"",
        ];
        assert_eq!(found, expected);
        let found = report(br#"{"a":1,"a":2}"#, &unknown[..1], UnknownSource::Schema);
        assert_eq!(found, ["duplicate field \"a\"", "unknown field \"bar\""]);
    }
}
