//! Schemas and objects that need unbounded time or memory without limits. Without the limits these tests run for hours or
//! exhaust the memory.

use serde_json::{Value, json};

use super::super::check::{self, StatusSubresource};
use super::{METADATA, faults, mk_schema, pruned};

/// The deepest nesting that the JSON parser accepts.
const DEEP: usize = 60;

#[test]
fn handles_the_deepest_nesting() {
    let (mut schema, mut value) = (json!({"type": "string", "default": "d"}), json!({}));
    for _ in 0..DEEP {
        schema =
            json!({"type": "object", "properties": {"x": schema}, "allOf": [{"required": ["x"]}]});
    }
    for _ in 0..DEEP - 1 {
        value = json!({"x": value});
    }
    let schema = mk_schema(&schema);
    assert!(check::faults(&schema, "s", StatusSubresource::Disabled, METADATA).is_empty());
    let (settled, _) = pruned(&schema, json!({"a": value})).unwrap();
    assert!(settled.to_string().contains(r#"{"x":"d"}"#));
    assert!(faults(&schema, &settled).is_empty());
}

#[test]
fn many_items_with_many_alternatives_exceed_the_step_budget() {
    let alternatives: Vec<Value> = (0..2000)
        .map(|number| json!({"minimum": 10 + number}))
        .collect();
    let schema =
        mk_schema(&json!({"type": "array", "items": {"type": "integer", "anyOf": alternatives}}));
    let found = faults(&schema, &json!({"a": vec![1; 100_000]}));
    assert!(found[0].contains("steps to validate"), "{}", found[0]);
    let found = faults(&schema, &json!({"a": vec![10; 100_000]}));
    assert!(
        found.is_empty(),
        "the first alternative is enough: {found:?}"
    );
}

#[test]
fn huge_enum_is_not_repeated_in_every_message() {
    let members: Vec<String> = (0..100_000)
        .map(|number| format!("member-{number}"))
        .collect();
    let schema = mk_schema(&json!({"type": "array", "items": {"type": "string", "enum": members}}));
    let good: Vec<&String> = members.iter().collect();
    assert!(faults(&schema, &json!({"a": good})).is_empty());
    let found = faults(&schema, &json!({"a": vec!["odd"; 100_000]}));
    assert!(found.iter().map(String::len).sum::<usize>() < 8 * 1024 * 1024);
    assert!(
        found.last().unwrap().contains("more faults"),
        "{}",
        found.len()
    );
}

#[test]
fn faults_of_a_million_items_are_limited() {
    let list = |kind: &str| {
        mk_schema(
            &json!({"type": "array", "x-kubernetes-list-type": kind, "items": {"type": "integer", "maximum": 5}}),
        )
    };
    let items: Vec<Value> = (0..1_000_000).map(|number| json!(number)).collect();
    let found = faults(&list("atomic"), &json!({"a": items}));
    assert_eq!(found.len(), 1001);
    assert!(found[1000].contains("more faults"), "{}", found[1000]);
    let same = vec![json!(1); 1_000_000];
    assert_eq!(
        faults(&list("set"), &json!({"a": same})),
        ["a[1]: Duplicate value: 1"]
    );
}

#[test]
fn backtracking_patterns_match_in_linear_time() {
    let schema = mk_schema(&json!({"type": "string", "pattern": "^(a+)+$"}));
    let mut text = "a".repeat(100_000);
    assert!(faults(&schema, &json!({"a": text})).is_empty());
    text.push('!');
    assert_eq!(faults(&schema, &json!({"a": text})).len(), 1);
}

#[test]
fn long_texts_with_long_patterns_exceed_the_step_budget() {
    let pattern = "(a|b|c|d|e|f|g|h)?".repeat(2000);
    let schema = mk_schema(&json!({"type": "string", "pattern": format!("^{pattern}$")}));
    let found = faults(&schema, &json!({"a": "z".repeat(2_000_000)}));
    assert!(found[0].contains("steps to validate"), "{found:?}");
}
