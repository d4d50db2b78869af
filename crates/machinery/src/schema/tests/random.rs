//! Properties of random schemas and objects.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::check::{self, StatusSubresource};
use super::{METADATA, faults, pruned};

/// Few names, so that schemas and objects overlap.
const NAMES: [&str; 4] = ["a", "b", "c", "metadata"];

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-5i64..5).prop_map(Value::from),
        (-9i32..9).prop_map(|number| json!(f64::from(number) / 2.0)),
        "[a-c]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(proptest::sample::select(&NAMES[..]), inner, 0..4)
                .prop_map(|members| Value::Object(
                    members
                        .into_iter()
                        .map(|(name, value)| (name.to_owned(), value))
                        .collect()
                )),
        ]
    })
}

/// Arbitrary JSON that resembles a schema.
fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string", "maxLength": 2})),
        Just(json!({"type": "integer", "minimum": 0, "default": 1})),
        Just(json!({"type": "number", "nullable": true})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
        any_json().prop_map(|value| json!({"type": "string", "default": value})),
        any_json(),
    ];
    leaf.prop_recursive(4, 16, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|schema| json!({"type": "array", "items": schema, "x-kubernetes-list-type": "set"})),
            inner.clone().prop_map(|schema| json!({"type": "object", "additionalProperties": schema})),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| json!({"type": "object", "properties": {"a": a, "b": b}, "required": ["a"]})),
            (inner.clone(), inner).prop_map(|(a, b)| json!({"type": "object", "anyOf": [a], "not": b, "x-kubernetes-preserve-unknown-fields": true})),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn pruning_is_idempotent_and_never_panics(schema in any_schema(), value in any_json()) {
        let schema = json!({"type": "object", "properties": {"a": schema}});
        // `check` refuses a schema with an invalid default.
        let is_sound = check::faults(&schema, "s", StatusSubresource::Enabled, METADATA).is_empty();
        let Ok((once, _)) = pruned(&schema, json!({"a": value, "odd": 1})) else {
            return Ok(());
        };
        let found = faults(&schema, &once);
        prop_assert!(once.get("odd").is_none());
        if is_sound {
            prop_assert_eq!(pruned(&schema, once.clone()), Ok((once.clone(), vec![])));
        }
        prop_assert_eq!(faults(&schema, &once), found, "the same faults every time");
    }
}
