//! Schemas and objects made to explode. Each test ends because the work is bounded; without that it would run for hours
//! or take all memory.

use serde_json::{Value, json};

use super::super::check::{self, StatusPath};
use super::{METADATA, faults, mk_schema, settle};

/// As deep as the parser lets anything be.
const DEEP: usize = 60;

#[test]
fn deep_nesting_is_walked_to_its_end() {
    let (mut schema, mut value) = (json!({"type": "string", "default": "d"}), json!({}));
    for _ in 0..DEEP {
        schema =
            json!({"type": "object", "properties": {"x": schema}, "allOf": [{"required": ["x"]}]});
    }
    for _ in 0..DEEP - 1 {
        value = json!({"x": value});
    }
    let schema = mk_schema(&schema);
    assert!(check::faults(&schema, "s", StatusPath::None, METADATA).is_empty());
    let (settled, _) = settle(&schema, json!({"a": value})).unwrap();
    assert!(settled.to_string().contains(r#"{"x":"d"}"#));
    assert!(faults(&schema, &settled).is_empty());
}

#[test]
fn many_items_with_many_alternatives_end_with_a_fault_that_says_why() {
    let alternatives: Vec<Value> = (0..2000)
        .map(|number| json!({"minimum": 10 + number}))
        .collect();
    let schema =
        mk_schema(&json!({"type": "array", "items": {"type": "integer", "anyOf": alternatives}}));
    let told = faults(&schema, &json!({"a": vec![1; 100_000]}));
    assert!(told[0].contains("steps to validate"), "{}", told[0]);
    let told = faults(&schema, &json!({"a": vec![10; 100_000]}));
    assert!(told.is_empty(), "the first alternative is enough: {told:?}");
}

#[test]
fn a_huge_enum_is_searched_and_not_told_again_and_again() {
    let members: Vec<String> = (0..100_000)
        .map(|number| format!("member-{number}"))
        .collect();
    let schema = mk_schema(&json!({"type": "array", "items": {"type": "string", "enum": members}}));
    let good: Vec<&String> = members.iter().collect();
    assert!(faults(&schema, &json!({"a": good})).is_empty());
    let told = faults(&schema, &json!({"a": vec!["odd"; 100_000]}));
    assert!(told.iter().map(String::len).sum::<usize>() < 8 * 1024 * 1024);
    assert!(
        told.last().unwrap().contains("more faults"),
        "{}",
        told.len()
    );
}

#[test]
fn a_million_items_are_judged_and_their_faults_counted() {
    let list = |kind: &str| {
        mk_schema(
            &json!({"type": "array", "x-kubernetes-list-type": kind, "items": {"type": "integer", "maximum": 5}}),
        )
    };
    let items: Vec<Value> = (0..1_000_000).map(|number| json!(number)).collect();
    let told = faults(&list("atomic"), &json!({"a": items}));
    assert_eq!(told.len(), 1001);
    assert!(told[1000].contains("more faults"), "{}", told[1000]);
    let same = vec![json!(1); 1_000_000];
    assert_eq!(
        faults(&list("set"), &json!({"a": same})),
        ["a[1]: Duplicate value: 1"]
    );
}

#[test]
fn a_pattern_that_makes_others_backtrack_is_just_a_pattern() {
    let schema = mk_schema(&json!({"type": "string", "pattern": "^(a+)+$"}));
    let mut text = "a".repeat(100_000);
    assert!(faults(&schema, &json!({"a": text})).is_empty());
    text.push('!');
    assert_eq!(faults(&schema, &json!({"a": text})).len(), 1);
}

#[test]
fn long_texts_under_long_patterns_are_refused_before_they_take_long() {
    let pattern = "(a|b|c|d|e|f|g|h)?".repeat(2000);
    let schema = mk_schema(&json!({"type": "string", "pattern": format!("^{pattern}$")}));
    let told = faults(&schema, &json!({"a": "z".repeat(2_000_000)}));
    assert!(told[0].contains("steps to validate"), "{told:?}");
}
