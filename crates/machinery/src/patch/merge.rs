//! JSON merge patch, RFC 7386, as kube-apiserver 1.36 applies it.
//!
//! Objects merge, `null` removes a member, any other value replaces it. Unlike the RFC, a list that becomes the new value
//! loses the null members of its objects, unless it replaces an object. Upstream's library does this, and custom resources
//! make it visible.

use serde_json::{Map, Value};

/// A merge patch cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergePatchError {
    /// 400: the patch is a list, a scalar or null.
    #[error("a merge patch must be a JSON object")]
    NotAnObject,
}

/// Applies `patch` to `original`.
///
/// # Errors
/// If the patch is not an object.
pub fn apply(original: Value, patch: Value) -> Result<Value, MergePatchError> {
    let Value::Object(patch) = patch else {
        return Err(MergePatchError::NotAnObject);
    };
    let mut target = match original {
        Value::Object(target) => target,
        _ => Map::new(),
    };
    merge(&mut target, patch);
    Ok(Value::Object(target))
}

/// Removes null members from `value` at every depth; null elements of lists stay.
pub fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(elements) => elements.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

fn merge(target: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (key, new) in patch {
        match (target.get_mut(&key), new) {
            (_, Value::Null) => {
                target.remove(&key);
            }
            (Some(Value::Object(old)), Value::Object(new)) => merge(old, new),
            (Some(old @ Value::Object(_)), new) => *old = new,
            (_, mut new) => {
                drop_nulls(&mut new);
                target.insert(key, new);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::patch::testing::any_json;

    #[test]
    fn merge_patches_match_upstream() {
        let original = json!({"b": 1, "l": [1, 2], "n": null, "o": {"p": {"q": 1}}});
        let cases = [
            ("nothing changes nothing", json!({}), original.clone()),
            (
                "members merge, null removes, at any depth",
                json!({"b": null, "none": null, "o": {"p": {"q": null, "r": 2}}}),
                json!({"l": [1, 2], "n": null, "o": {"p": {"r": 2}}}),
            ),
            (
                "scalars and lists replace each other and objects",
                json!({"b": [3], "l": "s", "o": 4}),
                json!({"b": [3], "l": "s", "n": null, "o": 4}),
            ),
            (
                "an object in place of something else is merged into nothing",
                json!({"b": {"x": null, "y": {"z": null}}, "n": {"x": null}, "new": {"x": null}}),
                json!({"b": {"y": {}}, "l": [1, 2], "n": {}, "new": {}, "o": {"p": {"q": 1}}}),
            ),
            (
                "a new list loses null members, not null elements",
                json!({"new": [{"p": null, "q": [{"r": null}]}, null], "l": [{"p": null}], "n": [{"p": null}]}),
                json!({"b": 1, "l": [{}], "n": [{}], "new": [{"q": [{}]}, null], "o": {"p": {"q": 1}}}),
            ),
            (
                "a list in place of an object keeps them",
                json!({"o": [{"p": null}]}),
                json!({"b": 1, "l": [1, 2], "n": null, "o": [{"p": null}]}),
            ),
        ];
        for (what, patch, expected) in cases {
            assert_eq!(apply(original.clone(), patch), Ok(expected), "{what}");
        }
    }

    #[test]
    fn refuses_patches_that_are_not_objects() {
        for patch in [json!(null), json!([]), json!(5), json!("x")] {
            assert_eq!(apply(json!({}), patch), Err(MergePatchError::NotAnObject));
        }
    }

    proptest! {
        #[test]
        fn matches_rfc_7386_for_lists_without_nulls(original in any_json(), patch in any_json()) {
            let mut reference = original.clone();
            json_patch::merge(&mut reference, &patch);
            if patch.is_object() {
                let got = apply(original, patch.clone()).unwrap();
                if !holds_null_in_list(&patch) {
                    prop_assert_eq!(got, reference);
                }
            }
        }
    }

    fn holds_null_in_list(value: &Value) -> bool {
        match value {
            Value::Array(elements) => elements.iter().any(|e| e.to_string().contains("null")),
            Value::Object(members) => members.values().any(holds_null_in_list),
            _ => false,
        }
    }
}
