//! JSON patch, RFC 6902, as kube-apiserver 1.36 applies it.
//!
//! Written out rather than taken from a crate, because upstream's library is laxer than the RFC and clients rely on it:
//! - `replace` of a missing member adds it; `copy` of a missing member copies null; `test` of one is a test for null;
//! - a value that is not given is null;
//! - indices may be signed and have leading zeros, negative ones count from the end;
//! - what stands before the first `/` of a path is not looked at; a path without `/` names nothing.
//!
//! DEVIATION(json-patch-test): `test` compares values. Upstream compares text, so that there a string with `<`, `>` or `&`, which it
//! stores escaped, never equals itself.
//! DEVIATION(json-depth): what would nest deeper than [`DEPTH_MAX`] is refused; upstream bounds it by size only.

use std::io;

use serde_json::{Map, Value};

use super::DEPTH_MAX;

/// Most operations of one patch, as upstream.
pub const OPERATIONS_MAX: usize = 10_000;

/// Most bytes of JSON that the `copy` operations of one patch may add, as upstream: thirty copies could otherwise turn a
/// kilobyte into a terabyte.
pub const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Why a JSON patch cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonPatchError {
    /// 400: the patch is not a list.
    #[error("a JSON patch must be a list of operations")]
    NotAList,
    /// 400: an operation is not an object, or its `op`, `path` or `from` is not a string.
    #[error("operation {0} must be an object whose op, path and from are strings")]
    BadOperation(usize),
    /// 413: more than [`OPERATIONS_MAX`].
    #[error("the allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {0}")]
    TooManyOperations(usize),
    /// 422: an operation that is none, or has nothing to work on.
    #[error("operation {operation}: {fault}")]
    DoesNotApply {
        /// Its place in the patch.
        operation: usize,
        /// What is wrong with it.
        fault: Fault,
    },
}

/// Why one operation does not apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// No such `op`, or none at all.
    #[error("unknown operation {0:?}")]
    UnknownOperation(String),
    /// A `test` that does not hold.
    #[error("the value at {0:?} is another one")]
    TestFailed(String),
    /// A path that leads nowhere, or none at all.
    #[error("there is nothing at {0:?}")]
    MissingPath(String),
    /// The document itself can only become an object or a list.
    #[error("the document can only be replaced by an object or a list")]
    BadDocument,
    /// Copies beyond [`COPIED_BYTES_MAX`].
    #[error("copies of more than {COPIED_BYTES_MAX} bytes are not allowed")]
    CopiedTooMuch,
    /// Nesting beyond [`DEPTH_MAX`].
    #[error("nesting deeper than {DEPTH_MAX} levels is not allowed")]
    TooDeep,
}

/// One step, as sent.
struct Operation {
    op: String,
    path: String,
    from: String,
    value: Value,
}

/// A document on its way through a patch.
struct Patching {
    document: Value,
    copied_bytes: usize,
}

/// Counts down the bytes written to it and fails when there is no room left.
struct Room {
    bytes: usize,
}

// === impl JsonPatchError ===

impl JsonPatchError {
    /// The HTTP status upstream answers with.
    #[must_use]
    pub fn code(&self) -> u16 {
        match self {
            Self::NotAList | Self::BadOperation(_) => 400,
            Self::TooManyOperations(_) => 413,
            Self::DoesNotApply { .. } => 422,
        }
    }
}

/// The object that `patch` makes of `original`. A patch of null is one without operations.
///
/// # Errors
/// A patch that is not one, is too large, or has an operation that does not apply.
pub fn apply(original: Value, patch: Value) -> Result<Value, JsonPatchError> {
    let operations = match patch {
        Value::Array(operations) => operations,
        Value::Null => Vec::new(),
        _ => return Err(JsonPatchError::NotAList),
    };
    let operations = operations
        .into_iter()
        .enumerate()
        .map(|(at, value)| Operation::read(value).ok_or(JsonPatchError::BadOperation(at)))
        .collect::<Result<Vec<_>, _>>()?;
    if operations.len() > OPERATIONS_MAX {
        return Err(JsonPatchError::TooManyOperations(operations.len()));
    }
    let mut patching = Patching {
        document: original,
        copied_bytes: 0,
    };
    for (at, operation) in operations.into_iter().enumerate() {
        patching
            .run(operation)
            .map_err(|fault| JsonPatchError::DoesNotApply {
                operation: at,
                fault,
            })?;
    }
    Ok(patching.document)
}

// === impl Operation ===

impl Operation {
    /// Null stands for what is not given, be it a member or the whole operation.
    fn read(value: Value) -> Option<Self> {
        let mut members = match value {
            Value::Object(members) => members,
            Value::Null => Map::new(),
            _ => return None,
        };
        let mut text = |name: &str| match members.remove(name) {
            Some(Value::String(text)) => Some(text),
            Some(Value::Null) | None => Some(NOT_GIVEN.to_owned()),
            Some(_) => None,
        };
        Some(Self {
            op: text("op")?,
            path: text("path")?,
            from: text("from")?,
            value: members.remove("value").unwrap_or_default(),
        })
    }
}

/// Stands for a string that an operation lacks. As a path it names nothing, since it has no `/`.
const NOT_GIVEN: &str = "(not given)";

// === impl Patching ===

impl Patching {
    fn run(&mut self, operation: Operation) -> Result<(), Fault> {
        let Operation {
            op,
            path,
            from,
            value,
        } = operation;
        let missing = |path: String| Fault::MissingPath(path);
        match op.as_str() {
            "add" => self.add(path, value),
            "remove" => {
                let removed = remove(&mut self.document, &path);
                removed.map(drop).ok_or_else(|| missing(path))
            }
            "replace" => self.replace(path, value),
            "move" => {
                let value = remove(&mut self.document, &from).ok_or_else(|| missing(from))?;
                self.add(path, value)
            }
            "copy" => {
                let value = self.copy_of(from)?;
                self.add(path, value)
            }
            "test" => self.test(path, &value),
            _ => Err(Fault::UnknownOperation(op)),
        }
    }

    fn add(&mut self, path: String, value: Value) -> Result<(), Fault> {
        check_depth(&path, &value)?;
        let place = parent(&mut self.document, &path);
        let added = place.and_then(|(parent, key)| match parent {
            Value::Object(members) => {
                members.insert(key, value);
                Some(())
            }
            Value::Array(elements) => {
                // One more place than elements: behind the last one.
                let end = elements.len();
                let at = if key == "-" {
                    end
                } else {
                    index(&key, end + 1)?
                };
                elements.insert(at, value);
                Some(())
            }
            _ => None,
        });
        added.ok_or(Fault::MissingPath(path))
    }

    fn replace(&mut self, path: String, value: Value) -> Result<(), Fault> {
        if path.is_empty() {
            if !(value.is_object() || value.is_array()) {
                return Err(Fault::BadDocument);
            }
            self.document = value;
            return Ok(());
        }
        check_depth(&path, &value)?;
        let place = parent(&mut self.document, &path);
        let replaced = place.and_then(|(parent, key)| match parent {
            Value::Object(members) => {
                members.insert(key, value);
                Some(())
            }
            Value::Array(elements) => {
                let at = index(&key, elements.len())?;
                elements[at] = value;
                Some(())
            }
            _ => None,
        });
        replaced.ok_or(Fault::MissingPath(path))
    }

    fn test(&mut self, path: String, expected: &Value) -> Result<(), Fault> {
        let actual = if path.is_empty() {
            Some(&self.document)
        } else {
            get(&mut self.document, &path)
        };
        match actual {
            Some(actual) if actual == expected => Ok(()),
            Some(_) => Err(Fault::TestFailed(path)),
            None => Err(Fault::MissingPath(path)),
        }
    }

    fn copy_of(&mut self, from: String) -> Result<Value, Fault> {
        let mut room = Room {
            bytes: COPIED_BYTES_MAX - self.copied_bytes,
        };
        let value = get(&mut self.document, &from).ok_or(Fault::MissingPath(from))?;
        // Measured before it is cloned.
        serde_json::to_writer(&mut room, value).map_err(|_| Fault::CopiedTooMuch)?;
        let value = value.clone();
        self.copied_bytes = COPIED_BYTES_MAX - room.bytes;
        Ok(value)
    }
}

// === impl Room ===

impl io::Write for Room {
    fn write(&mut self, written: &[u8]) -> io::Result<usize> {
        self.bytes = self
            .bytes
            .checked_sub(written.len())
            .ok_or(io::ErrorKind::StorageFull)?;
        Ok(written.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is at `path`; null for a missing member of an object that is there.
fn get<'a>(document: &'a mut Value, path: &str) -> Option<&'a Value> {
    let (parent, key) = parent(document, path)?;
    match parent {
        Value::Object(members) => Some(members.get(&key).unwrap_or(&Value::Null)),
        Value::Array(elements) => {
            let at = index(&key, elements.len())?;
            elements.get(at)
        }
        _ => None,
    }
}

fn remove(document: &mut Value, path: &str) -> Option<Value> {
    let (parent, key) = parent(document, path)?;
    match parent {
        Value::Object(members) => members.remove(&key),
        Value::Array(elements) => {
            let at = index(&key, elements.len())?;
            Some(elements.remove(at))
        }
        _ => None,
    }
}

/// What holds the place that `path` names, and the last token of the path.
fn parent<'a>(document: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let unescape = |token: &str| token.replace("~1", "/").replace("~0", "~");
    let (way, last) = path.rsplit_once('/')?;
    let mut value = document;
    for token in tokens(way) {
        let token = unescape(token);
        value = match value {
            Value::Object(members) => members.get_mut(&token)?,
            Value::Array(elements) => {
                let at = index(&token, elements.len())?;
                elements.get_mut(at)?
            }
            _ => return None,
        };
    }
    Some((value, unescape(last)))
}

fn tokens(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').skip(1)
}

/// Which of `places` a token of a path names.
fn index(token: &str, places: usize) -> Option<usize> {
    let at: i64 = token.parse().ok()?;
    let distance = usize::try_from(at.unsigned_abs()).ok()?;
    let at = if at < 0 {
        places.checked_sub(distance)?
    } else {
        distance
    };
    (at < places).then_some(at)
}

fn check_depth(path: &str, value: &Value) -> Result<(), Fault> {
    if tokens(path).count() + depth(value) > DEPTH_MAX {
        return Err(Fault::TooDeep);
    }
    Ok(())
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        Value::Array(elements) => 1 + elements.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::patch::testing::any_json;

    fn fault(original: Value, patch: Value) -> Fault {
        match apply(original, patch) {
            Err(JsonPatchError::DoesNotApply { fault, .. }) => fault,
            other => panic!("expected a fault: {other:?}"),
        }
    }

    /// One operation, and the members of the document after it, or none for 422.
    const OPERATIONS: &[(&str, Option<&str>)] = &[
        (r#"{"op":"add","path":"/n","value":9}"#, Some(r#"{"n":9}"#)),
        (r#"{"op":"add","path":"/b"}"#, Some(r#"{"b":null}"#)),
        (r#"{"op":"add","path":"/","value":9}"#, Some(r#"{"":9}"#)),
        (r#"{"op":"add","path":"x/y","value":9}"#, Some(r#"{"y":9}"#)),
        (
            r#"{"op":"add","path":"/~1x~0y~01~2","value":9}"#,
            Some(r#"{"/x~y~1~2":9}"#),
        ),
        (
            r#"{"op":"add","path":"/l/-","value":9}"#,
            Some(r#"{"l":[1,2,3,9]}"#),
        ),
        (
            r#"{"op":"add","path":"/l/0","value":9}"#,
            Some(r#"{"l":[9,1,2,3]}"#),
        ),
        (
            r#"{"op":"add","path":"/l/01","value":9}"#,
            Some(r#"{"l":[1,9,2,3]}"#),
        ),
        (
            r#"{"op":"add","path":"/l/+1","value":9}"#,
            Some(r#"{"l":[1,9,2,3]}"#),
        ),
        (
            r#"{"op":"add","path":"/l/3","value":9}"#,
            Some(r#"{"l":[1,2,3,9]}"#),
        ),
        (
            r#"{"op":"add","path":"/l/-1","value":9}"#,
            Some(r#"{"l":[1,2,3,9]}"#),
        ),
        (
            r#"{"op":"add","path":"/l/-4","value":9}"#,
            Some(r#"{"l":[9,1,2,3]}"#),
        ),
        (r#"{"op":"add","path":"/l/-5","value":9}"#, None),
        (r#"{"op":"add","path":"/l/4","value":9}"#, None),
        (r#"{"op":"add","path":"/l/x","value":9}"#, None),
        (r#"{"op":"add","path":"","value":{}}"#, None),
        (r#"{"op":"add","path":"x","value":9}"#, None),
        (r#"{"op":"add","path":null,"value":9}"#, None),
        (r#"{"op":"add","value":9}"#, None),
        (r#"{"op":"add","path":"/b/x","value":9}"#, None),
        (r#"{"op":"add","path":"/none/x","value":9}"#, None),
        (r#"{"op":"remove","path":"/o/p"}"#, Some(r#"{"o":{}}"#)),
        (r#"{"op":"remove","path":"/l/-1"}"#, Some(r#"{"l":[1,2]}"#)),
        (r#"{"op":"remove","path":"/l/-"}"#, None),
        (r#"{"op":"remove","path":"/none"}"#, None),
        (r#"{"op":"remove","path":""}"#, None),
        (
            r#"{"op":"replace","path":"/o/p","value":9}"#,
            Some(r#"{"o":{"p":9}}"#),
        ),
        (
            r#"{"op":"replace","path":"/none","value":9}"#,
            Some(r#"{"none":9}"#),
        ),
        (
            r#"{"op":"replace","path":"/l/-1","value":9}"#,
            Some(r#"{"l":[1,2,9]}"#),
        ),
        (r#"{"op":"replace","path":"/l/3","value":9}"#, None),
        (r#"{"op":"replace","path":"","value":5}"#, None),
        (r#"{"op":"replace","path":""}"#, None),
        (r#"{"op":"replace","value":{}}"#, None),
        (
            r#"{"op":"move","from":"/l/0","path":"/o/q"}"#,
            Some(r#"{"l":[2,3],"o":{"p":1,"q":1}}"#),
        ),
        (r#"{"op":"move","from":"/o","path":"/o"}"#, Some("{}")),
        (r#"{"op":"move","from":"/o","path":"/o/p"}"#, None),
        (r#"{"op":"move","from":"/none","path":"/x"}"#, None),
        (
            r#"{"op":"copy","from":"/o","path":"/o/q"}"#,
            Some(r#"{"o":{"p":1,"q":{"p":1}}}"#),
        ),
        (
            r#"{"op":"copy","from":"/none","path":"/x"}"#,
            Some(r#"{"x":null}"#),
        ),
        (r#"{"op":"copy","from":"","path":"/x"}"#, None),
        (r#"{"op":"copy","path":"/x"}"#, None),
        (r#"{"op":"test","path":"/o","value":{"p":1}}"#, Some("{}")),
        (r#"{"op":"test","path":"/l/-1","value":3}"#, Some("{}")),
        (r#"{"op":"test","path":"/none","value":null}"#, Some("{}")),
        (r#"{"op":"test","path":"/none"}"#, Some("{}")),
        (r#"{"op":"test","path":"/b","value":1.0}"#, None),
        (r#"{"op":"test","path":"/b"}"#, None),
        (r#"{"op":"test","path":"","value":{}}"#, None),
        (r#"{"op":"test"}"#, None),
        (r#"{"op":"frob","path":"/b","value":9}"#, None),
        (r#"{"path":"/b","value":9}"#, None),
        ("null", None),
    ];

    #[test]
    fn operations_do_what_the_real_server_does() {
        let original = json!({"b": 1, "l": [1, 2, 3], "o": {"p": 1}});
        for (operation, changed) in OPERATIONS {
            let patch = Value::Array(vec![serde_json::from_str(operation).unwrap()]);
            let got = apply(original.clone(), patch);
            if let Some(changed) = changed {
                let mut expected = original.clone();
                let changed: Map<String, Value> = serde_json::from_str(changed).unwrap();
                expected.as_object_mut().unwrap().extend(changed);
                assert_eq!(got, Ok(expected), "{operation}");
            } else {
                assert_eq!(got.map_err(|error| error.code()), Err(422), "{operation}");
            }
        }
    }

    #[test]
    fn what_is_no_patch_at_all_is_told_apart_from_what_does_not_apply() {
        let many = |count| Value::Array(vec![json!({"op": "test", "path": "/a"}); count]);
        let cases = [
            (json!({}), 400),
            (json!("x"), 400),
            (json!([5]), 400),
            (json!([{"op": "add", "path": 5}]), 400),
            (json!([{"op": 5, "path": "/a"}]), 400),
            (json!([{"op": "copy", "path": "/a", "from": {}}]), 400),
            (many(OPERATIONS_MAX + 1), 413),
            (json!([{"op": "test", "path": "/a", "value": 1}]), 422),
        ];
        for (patch, code) in cases {
            let got = apply(json!({}), patch.clone()).map_err(|error| error.code());
            assert_eq!(got, Err(code), "{patch}");
        }
        for patch in [json!([]), json!(null), many(OPERATIONS_MAX)] {
            assert_eq!(apply(json!({}), patch), Ok(json!({})));
        }
    }

    #[test]
    fn a_fault_names_the_operation_and_the_path() {
        let patch =
            json!([{"op": "add", "path": "/a", "value": 1}, {"op": "remove", "path": "/b"}]);
        let error = apply(json!({}), patch).unwrap_err();
        assert_eq!(error.to_string(), "operation 1: there is nothing at \"/b\"");
    }

    #[test]
    fn copies_that_double_the_document_stop_at_the_limit() {
        let patch: Vec<Value> = (0..64)
            .map(|n| json!({"op": "copy", "from": "/a", "path": format!("/a/{n}")}))
            .collect();
        let original = json!({"a": {"text": "x".repeat(1000)}});
        assert_eq!(fault(original, Value::Array(patch)), Fault::CopiedTooMuch);
    }

    #[test]
    fn nesting_stops_where_the_result_could_not_be_parsed_again() {
        let mut patch = Vec::new();
        let mut path = String::from("/a");
        for _ in 0..DEPTH_MAX - 1 {
            patch.push(json!({"op": "add", "path": path, "value": {}}));
            path.push_str("/a");
        }
        let deepest = apply(json!({}), Value::Array(patch.clone())).unwrap();
        let text = deepest.to_string();
        assert!(serde_json::from_str::<Value>(&text).is_ok());
        assert!(serde_json::from_str::<Value>(&format!("[{text}]")).is_err());

        patch.push(json!({"op": "add", "path": path, "value": {}}));
        assert_eq!(fault(json!({}), Value::Array(patch)), Fault::TooDeep);
        let patch = json!([{"op": "copy", "from": "/a", "path": "/a/a/b"}]);
        assert_eq!(fault(deepest, patch), Fault::TooDeep);
    }

    fn any_operation() -> impl Strategy<Value = Value> {
        let op = prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test"]);
        let path = || "(/(a|b|0|1|-1|-|~0)){0,4}|x|9/9";
        let value = any_json();
        prop_oneof![
            9 => (op, path(), path(), value).prop_map(|(op, path, from, value)| {
                json!({"op": op, "path": path, "from": from, "value": value})
            }),
            1 => any_json(),
        ]
    }

    proptest! {
        #[test]
        fn no_patch_panics(
            original in any_json(),
            patch in prop::collection::vec(any_operation(), 0..8),
        ) {
            let _ = apply(original, Value::Array(patch));
        }

        #[test]
        fn what_another_implementation_finds_different_this_one_makes_equal(
            from in any_json(),
            to in any_json(),
        ) {
            let (from, to) = (json!({"d": from}), json!({"d": to}));
            let patch = serde_json::to_value(json_patch::diff(&from, &to)).unwrap();
            prop_assert_eq!(apply(from, patch), Ok(to));
        }
    }
}
