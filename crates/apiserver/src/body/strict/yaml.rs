//! Keys that occur twice in an object in YAML, in the words of upstream's parser.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Error, Options, Spanned};

/// Parses YAML in which keys may be repeated; the last value counts. Returns a line of text for each repeated key.
pub(crate) fn parse(text: &str) -> Result<(Value, Vec<String>), Error> {
    let value = serde_saphyr::from_str_with_options(text, options())?;
    let mut lines = Vec::new();
    serde_saphyr::with_deserializer_from_str_with_options(text, options(), |reader| {
        LineSeed(&mut lines).deserialize(reader)
    })?;
    Ok((value, lines))
}

fn options() -> Options {
    serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins }
}

/// Collects the lines of repeated keys.
struct LineSeed<'a>(&'a mut Vec<String>);

// === impl LineSeed ===

impl<'de> DeserializeSeed<'de> for LineSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for LineSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML value")
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

    fn visit_bytes<E>(self, _: &[u8]) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(LineSeed(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(key) = members.next_key::<Spanned<String>>()? {
            let line = key.referenced.line();
            if seen.contains(&key.value) {
                let key = &key.value;
                self.0
                    .push(format!("line {line}: key {key:?} already set in map"));
            }
            seen.insert(key.value);
            members.next_value_seed(LineSeed(self.0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn repeated_keys_are_named_with_their_lines() {
        let text = "a: 1\nb:\n  c: x\n  c: z\nlist:\n- {d: 1, d: 2}\na: 3\na: null\n";
        let (value, lines) = parse(text).unwrap();
        assert_eq!(
            value,
            json!({"a": null, "b": {"c": "z"}, "list": [{"d": 2}]})
        );
        let expected = [
            "line 4: key \"c\" already set in map",
            "line 6: key \"d\" already set in map",
            "line 7: key \"a\" already set in map",
            "line 8: key \"a\" already set in map",
        ];
        assert_eq!(lines, expected);
        assert_eq!(parse("a: {b: 1}").unwrap().1, Vec::<String>::new());
        assert!(parse("a: [").is_err());
    }
}
