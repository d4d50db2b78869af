//! Keys that occur twice in a JSON patch, in it and in the object that it makes.

use serde_json::Value;

use super::{UnknownSource, report};

/// The members of an operation.
const KNOWN: [&str; 4] = ["op", "path", "from", "value"];

/// What strict decoding reports of a JSON patch.
#[derive(Debug, Default)]
pub(crate) struct PatchReport {
    /// Of the patch itself.
    pub(crate) patch: Vec<String>,
    /// Paths of repeated keys in an object after the patch.
    pub(crate) object: Vec<String>,
}

/// Reads the text of a JSON patch again, which has been parsed into these operations.
pub(crate) fn report_patch(bytes: &[u8], operations: &Value, is_repeated: bool) -> PatchReport {
    let list = operations.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut unknown = Vec::new();
    for (at, operation) in list.iter().enumerate() {
        let members = operation.as_object().into_iter().flatten();
        let members = members.filter(|(name, _)| !KNOWN.contains(&name.as_str()));
        unknown.extend(members.map(|(name, _)| format!("[{at}].{name}")));
    }
    if !is_repeated && unknown.is_empty() {
        return PatchReport::default();
    }
    let lines = report(bytes, &unknown, UnknownSource::Types);
    let object = lines.iter().filter_map(|line| object_path(line, list));
    PatchReport {
        object: object.collect(),
        patch: lines
            .iter()
            .map(|line| format!("json patch {line}"))
            .collect(),
    }
}

/// Returns the path in the object of a key that is repeated within the value of an operation, unless a later operation
/// replaces that value.
fn object_path(line: &str, operations: &[Value]) -> Option<String> {
    let path = line
        .strip_prefix("duplicate field \"[")?
        .strip_suffix('"')?;
    let (at, rest) = path.split_once("].value")?;
    let at: usize = at.parse().ok()?;
    let pointer = operations.get(at)?["path"].as_str()?;
    let is_replaced = |later: &Value| {
        let later = later["path"].as_str().unwrap_or_default();
        let rest = pointer.strip_prefix(later);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let is_gone = operations[at + 1..].iter().any(is_replaced);
    // The place of an appended item depends on the object.
    if rest.is_empty() || is_gone || pointer.ends_with("/-") {
        return None;
    }
    let mut path = String::new();
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        match token.parse::<usize>() {
            Ok(index) => path.push_str(&format!("[{index}]")),
            Err(_) if path.is_empty() => path = token,
            Err(_) => path = format!("{path}.{token}"),
        }
    }
    Some(path + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_and_unknown_members_are_named_in_both_places() {
        let text = r#"[{"op":"add","path":"/data/c","value":"d","value":"e"},
            {"op":"add","path":"/spec/list/0","value":{"a":1,"a":2}},
            {"op":"add","path":"/x","value":{"a":1,"a":2}},
            {"op":"add","path":"/x","value":1,"bogus":1}]"#;
        let (operations, is_repeated) = super::super::parse(text.as_bytes()).unwrap();
        let found = report_patch(text.as_bytes(), &operations, is_repeated);
        let patch = [
            "json patch duplicate field \"[0].value\"",
            "json patch duplicate field \"[1].value.a\"",
            "json patch duplicate field \"[2].value.a\"",
            "json patch unknown field \"[3].bogus\"",
        ];
        assert_eq!(found.patch, patch);
        assert_eq!(found.object, ["spec.list[0].a"]);
    }
}
