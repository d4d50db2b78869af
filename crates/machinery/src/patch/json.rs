//! JSON patch, RFC 6902, as kube-apiserver 1.36 applies it.
//!
//! Implemented here instead of taken from a crate, because upstream's library is laxer than the RFC and clients rely on it:
//! - `replace` of a missing member adds it; `copy` of a missing member copies null; `test` of one compares with null;
//! - a missing `value` is null;
//! - indices may be signed and have leading zeros; negative ones count from the end;
//! - the part of a path before the first `/` is ignored; a path without `/` refers to nothing.
//!
//! DEVIATION(json-patch-test): `test` compares values. Upstream compares text, so that a string with `<`, `>` or `&`, which
//! it stores escaped, never equals itself.
//! DEVIATION(json-depth): values that nest deeper than [`DEPTH_MAX`] are refused; upstream bounds only the size.

use std::io;

use serde_json::{Map, Value};

use super::DEPTH_MAX;

/// Most operations of one patch; upstream has the same limit.
pub const OPERATIONS_MAX: usize = 10_000;

/// Most bytes of JSON that the `copy` operations of one patch may add; upstream has the same limit. Without it, thirty
/// copies could turn a kilobyte into a terabyte.
pub const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// A JSON patch cannot be applied.
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
    /// 422: an operation is unknown or fails on this object.
    #[error("operation {operation}: {fault}")]
    DoesNotApply {
        /// Index of the operation in the patch.
        operation: usize,
        /// The reason of the failure.
        fault: OperationError,
    },
}

/// One operation of a JSON patch fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperationError {
    /// The `op` is unknown or missing.
    #[error("unknown operation {0:?}")]
    UnknownOperation(String),
    /// A `test` found a different value.
    #[error("the value at {0:?} differs from the expected one")]
    TestFailed(String),
    /// A path refers to nothing, or is missing.
    #[error("there is nothing at {0:?}")]
    MissingPath(String),
    /// An operation would replace the document by a scalar or null.
    #[error("the document can only be replaced by an object or a list")]
    BadDocument,
    /// The copies exceed [`COPIED_BYTES_MAX`].
    #[error("copies of more than {COPIED_BYTES_MAX} bytes are not allowed")]
    CopiedTooMuch,
    /// The result would exceed [`DEPTH_MAX`].
    #[error("nesting deeper than {DEPTH_MAX} levels is not allowed")]
    TooDeep,
}

/// One operation of the patch as the client sent it.
struct PatchOperation {
    op: String,
    path: String,
    from: String,
    value: Value,
}

/// The document while the operations are applied.
struct PatchedDocument {
    document: Value,
    copied_bytes: usize,
}

/// A writer that discards its input and fails after `bytes` bytes.
struct ByteBudget {
    bytes: usize,
}

// === impl JsonPatchError ===

impl JsonPatchError {
    /// The HTTP status that upstream returns.
    #[must_use]
    pub fn code(&self) -> u16 {
        match self {
            Self::NotAList | Self::BadOperation(_) => 400,
            Self::TooManyOperations(_) => 413,
            Self::DoesNotApply { .. } => 422,
        }
    }
}

/// Applies `patch` to `original`. A null patch has no operations.
///
/// # Errors
/// If the patch is malformed or too large, or if an operation fails.
pub fn apply(original: Value, patch: Value) -> Result<Value, JsonPatchError> {
    let operations = match patch {
        Value::Array(operations) => operations,
        Value::Null => Vec::new(),
        _ => return Err(JsonPatchError::NotAList),
    };
    let operations = operations
        .into_iter()
        .enumerate()
        .map(|(at, value)| PatchOperation::read(value).ok_or(JsonPatchError::BadOperation(at)))
        .collect::<Result<Vec<_>, _>>()?;
    if operations.len() > OPERATIONS_MAX {
        return Err(JsonPatchError::TooManyOperations(operations.len()));
    }
    let mut patching = PatchedDocument {
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

// === impl PatchOperation ===

impl PatchOperation {
    /// Null counts as missing, both for a member and for the whole operation.
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

/// Replaces a string that an operation lacks. As a path it refers to nothing, because it has no `/`.
const NOT_GIVEN: &str = "(not given)";

// === impl PatchedDocument ===

impl PatchedDocument {
    fn run(&mut self, operation: PatchOperation) -> Result<(), OperationError> {
        let PatchOperation {
            op,
            path,
            from,
            value,
        } = operation;
        let missing = |path: String| OperationError::MissingPath(path);
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
            _ => Err(OperationError::UnknownOperation(op)),
        }
    }

    fn add(&mut self, path: String, value: Value) -> Result<(), OperationError> {
        check_depth(&path, &value)?;
        let place = parent(&mut self.document, &path);
        let added = place.and_then(|(parent, key)| match parent {
            Value::Object(members) => {
                members.insert(key, value);
                Some(())
            }
            Value::Array(elements) => {
                // An element can also be inserted after the last one.
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
        added.ok_or(OperationError::MissingPath(path))
    }

    fn replace(&mut self, path: String, value: Value) -> Result<(), OperationError> {
        if path.is_empty() {
            if !(value.is_object() || value.is_array()) {
                return Err(OperationError::BadDocument);
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
        replaced.ok_or(OperationError::MissingPath(path))
    }

    fn test(&mut self, path: String, expected: &Value) -> Result<(), OperationError> {
        let actual = if path.is_empty() {
            Some(&self.document)
        } else {
            get(&mut self.document, &path)
        };
        match actual {
            Some(actual) if actual == expected => Ok(()),
            Some(_) => Err(OperationError::TestFailed(path)),
            None => Err(OperationError::MissingPath(path)),
        }
    }

    fn copy_of(&mut self, from: String) -> Result<Value, OperationError> {
        let mut room = ByteBudget {
            bytes: COPIED_BYTES_MAX - self.copied_bytes,
        };
        let value = get(&mut self.document, &from).ok_or(OperationError::MissingPath(from))?;
        // Measure the value before cloning it.
        serde_json::to_writer(&mut room, value).map_err(|_| OperationError::CopiedTooMuch)?;
        let value = value.clone();
        self.copied_bytes = COPIED_BYTES_MAX - room.bytes;
        Ok(value)
    }
}

// === impl ByteBudget ===

impl io::Write for ByteBudget {
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

/// The value at `path`; null for a missing member of an existing object.
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

/// The object or list that contains the value at `path`, and the last token of the path.
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

/// Parses a path token as an index below `places`.
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

fn check_depth(path: &str, value: &Value) -> Result<(), OperationError> {
    if tokens(path).count() + depth(value) > DEPTH_MAX {
        return Err(OperationError::TooDeep);
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

    fn fault(original: Value, patch: Value) -> OperationError {
        match apply(original, patch) {
            Err(JsonPatchError::DoesNotApply { fault, .. }) => fault,
            other => panic!("expected a fault: {other:?}"),
        }
    }

    /// One operation, and the members of the document after it; `None` for 422.
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
    fn operations_match_upstream() {
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
    fn malformed_patches_and_failing_operations_have_different_codes() {
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
    fn error_names_operation_and_path() {
        let patch =
            json!([{"op": "add", "path": "/a", "value": 1}, {"op": "remove", "path": "/b"}]);
        let error = apply(json!({}), patch).unwrap_err();
        assert_eq!(error.to_string(), "operation 1: there is nothing at \"/b\"");
    }

    #[test]
    fn copies_stop_at_the_byte_limit() {
        let patch: Vec<Value> = (0..64)
            .map(|n| json!({"op": "copy", "from": "/a", "path": format!("/a/{n}")}))
            .collect();
        let original = json!({"a": {"text": "x".repeat(1000)}});
        assert_eq!(
            fault(original, Value::Array(patch)),
            OperationError::CopiedTooMuch
        );
    }

    #[test]
    fn nesting_stops_at_the_depth_limit() {
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
        assert_eq!(
            fault(json!({}), Value::Array(patch)),
            OperationError::TooDeep
        );
        let patch = json!([{"op": "copy", "from": "/a", "path": "/a/a/b"}]);
        assert_eq!(fault(deepest, patch), OperationError::TooDeep);
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
        fn patches_never_panic(
            original in any_json(),
            patch in prop::collection::vec(any_operation(), 0..8),
        ) {
            let _ = apply(original, Value::Array(patch));
        }

        #[test]
        fn applies_diffs_of_another_implementation(
            from in any_json(),
            to in any_json(),
        ) {
            let (from, to) = (json!({"d": from}), json!({"d": to}));
            let patch = serde_json::to_value(json_patch::diff(&from, &to)).unwrap();
            prop_assert_eq!(apply(from, patch), Ok(to));
        }
    }
}
