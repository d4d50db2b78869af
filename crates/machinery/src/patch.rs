//! JSON patch, merge patch and strategic merge patch.
//!
//! Each form is a pure function that consumes the object and returns the patched one, so a patch is never half applied.
//! Results equal those of kube-apiserver 1.36, also where its libraries differ from the RFCs; each module lists these
//! differences. Pruning, defaulting and validation after a patch are the API server's job. Server-side apply is not here.

pub mod json;
pub mod merge;
pub mod strategic;

/// Deepest nesting of lists and objects in a patched object: the deepest that `serde_json` parses. Only a JSON patch can
/// build a value that is deeper than its inputs.
pub const DEPTH_MAX: usize = 127;

#[cfg(test)]
mod testing {
    use proptest::prelude::*;
    use serde_json::Value;

    /// Arbitrary JSON with few member names, so that documents and patches overlap.
    pub(super) fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-1..3i64).prop_map(Value::from),
            Just(Value::from(1.0)),
            "[ab]".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[ab]", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }
}
