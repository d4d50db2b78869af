//! Patches: an object and a change of it make a new object.
//!
//! Three forms, each a pure function that takes the object and gives back the patched one; on an error nothing of it is
//! left, so nothing is ever half applied. Results equal those of kube-apiserver 1.36, also where its libraries differ
//! from the RFCs; the modules say where. What follows a patch (dropping unknown fields, defaults, validation) is the
//! server's. Server-side apply is not a patch in this sense and not here.

pub mod json;
pub mod merge;
pub mod strategic;

/// Deepest nesting of lists and objects in a patched object: what `serde_json` is willing to parse again. Only a JSON
/// patch can build something deeper than its inputs.
pub const DEPTH_MAX: usize = 127;

#[cfg(test)]
mod testing {
    use proptest::prelude::*;
    use serde_json::Value;

    /// Any JSON over few names, so that documents and patches meet.
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
