//! Upstream's samples of the built-in kinds: each has a value in every field, in JSON and in protobuf.
//!
//! A sample in protobuf has to decode to the sample in JSON, and that has to encode to the same bytes. The samples lie in the
//! modules `k8s.io/api` and `k8s.io/apiextensions-apiserver` (`testdata/HEAD`), which the oracle is built from;
//! `cargo xtask conformance protobuf` finds them there.

use std::io;
use std::path::Path;

use caretaker_apiserver::protobuf;
use caretaker_machinery::proto::ProtoError;
use serde_json::Value;

/// Characters of an unequal value that are shown.
const SHOWN_CHARS: usize = 200;

/// The comparison of one sample.
#[derive(Debug, PartialEq, Eq)]
pub enum SampleOutcome {
    /// Equal in both directions.
    Equal,
    /// The server has no type for the kind.
    NotServed,
    /// The first difference.
    Different(String),
}

/// A sample and its outcome.
#[derive(Debug)]
pub struct SampleReport {
    /// `group.version.Kind`, the name of its files.
    pub name: String,
    pub outcome: SampleOutcome,
}

/// Compares every sample of a directory, in the order of their names.
///
/// # Errors
/// If a file cannot be read, or a sample in protobuf has none in JSON beside it.
pub fn compare_directory(directory: &Path) -> io::Result<Vec<SampleReport>> {
    let mut messages: Vec<_> = std::fs::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()?;
    messages.retain(|path| path.extension().is_some_and(|extension| extension == "pb"));
    messages.sort();
    let report = |path: &std::path::PathBuf| {
        let (message, json) = (
            std::fs::read(path)?,
            std::fs::read(path.with_extension("json"))?,
        );
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Ok(SampleReport {
            name: name.into_owned(),
            outcome: compare(&message, &json),
        })
    };
    messages.iter().map(report).collect()
}

/// Compares the two forms of a sample, in both directions.
#[must_use]
pub fn compare(message: &[u8], json: &[u8]) -> SampleOutcome {
    let sample: Value = match serde_json::from_slice(json) {
        Ok(sample) => sample,
        Err(error) => return SampleOutcome::Different(format!("the sample is no JSON: {error}")),
    };
    match protobuf::decode(message) {
        Err(ProtoError::Value { why, .. }) if why == protobuf::NOT_BUILT_IN => {
            return SampleOutcome::NotServed;
        }
        Err(error) => return SampleOutcome::Different(format!("cannot be decoded: {error}")),
        Ok(decoded) => {
            if let Some(place) = first_difference("", &sample, &decoded) {
                return SampleOutcome::Different(format!("decoded, {place}"));
            }
        }
    }
    match protobuf::encode(&sample) {
        Err(error) => SampleOutcome::Different(format!("cannot be encoded: {error}")),
        Ok(encoded) if encoded == message => SampleOutcome::Equal,
        Ok(encoded) => {
            let pairs = encoded.iter().zip(message);
            let same = pairs.take_while(|(ours, theirs)| ours == theirs).count();
            let (ours, theirs) = (encoded.len(), message.len());
            SampleOutcome::Different(format!(
                "encoded, {ours} bytes for {theirs}, unequal from byte {same} on"
            ))
        }
    }
}

/// The path of the first value that differs, with both values.
fn first_difference(path: &str, sample: &Value, decoded: &Value) -> Option<String> {
    match (sample, decoded) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let names = ours
                .keys()
                .chain(theirs.keys().filter(|name| !ours.contains_key(*name)));
            let absent = &Value::Null;
            names
                .filter(|name| ours.get(*name) != theirs.get(*name))
                .find_map(|name| {
                    let value = |of: &serde_json::Map<String, Value>| {
                        of.get(name).unwrap_or(absent).clone()
                    };
                    let path = format!("{path}.{name}");
                    first_difference(&path, &value(ours), &value(theirs))
                        .or_else(|| Some(format!("{path}: null in one and absent in the other")))
                })
        }
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            let mut items = ours.iter().zip(theirs).enumerate();
            items.find_map(|(at, (ours, theirs))| {
                first_difference(&format!("{path}[{at}]"), ours, theirs)
            })
        }
        (sample, decoded) if sample == decoded => None,
        (sample, decoded) => Some(format!("{path}: {} for {}", shown(decoded), shown(sample))),
    }
}

fn shown(value: &Value) -> String {
    value.to_string().chars().take(SHOWN_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mk_map(value: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": value}})
    }

    fn mk_message(value: &str) -> Vec<u8> {
        protobuf::encode(&mk_map(value)).unwrap()
    }

    #[test]
    fn both_directions_have_to_agree() {
        let json = mk_map("v").to_string();
        assert_eq!(
            compare(&mk_message("v"), json.as_bytes()),
            SampleOutcome::Equal
        );
        let decoded = SampleOutcome::Different("decoded, .data.k: \"x\" for \"v\"".to_owned());
        assert_eq!(compare(&mk_message("x"), json.as_bytes()), decoded);
        // An empty field that upstream does not write decodes to the same object.
        let longer = [mk_message("v"), vec![0x22, 0]].concat();
        let length = longer.len();
        let encoded = format!(
            "encoded, {} bytes for {length}, unequal from byte {} on",
            length - 2,
            length - 2
        );
        assert_eq!(
            compare(&longer, json.as_bytes()),
            SampleOutcome::Different(encoded)
        );
    }

    #[test]
    fn kinds_without_a_type_and_broken_samples_are_named() {
        let mut widget = mk_message("v");
        // The envelope names the kind in its first bytes.
        let at = widget
            .windows(9)
            .position(|bytes| bytes == b"ConfigMap")
            .unwrap();
        widget[at..at + 9].copy_from_slice(b"WidgetMap");
        assert_eq!(compare(&widget, b"{}"), SampleOutcome::NotServed);
        for (message, json, why) in [
            (&mk_message("v")[..], &b"{"[..], "the sample is no JSON"),
            (b"k8s", b"{}", "cannot be decoded"),
        ] {
            let SampleOutcome::Different(text) = compare(message, json) else {
                panic!("{why}")
            };
            assert!(text.starts_with(why), "{text}");
        }
    }

    #[test]
    fn the_first_difference_has_a_path() {
        let sample = json!({"a": [{"b": 1}, {"b": 2}]});
        let table = [
            (json!({"a": [{"b": 1}, {"b": 3}]}), ".a[1].b: 3 for 2"),
            (json!({"a": []}), ".a: [] for [{\"b\":1},{\"b\":2}]"),
            (
                json!({"a": [{"b": 1}, {"b": 2}], "c": null}),
                ".c: null in one and absent in the other",
            ),
        ];
        for (decoded, place) in table {
            let found = first_difference("", &sample, &decoded);
            assert_eq!(found.as_deref(), Some(place));
        }
        assert_eq!(first_difference("", &sample, &sample), None);
    }
}
