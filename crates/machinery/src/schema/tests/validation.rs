//! Validation of objects, with the expected messages.

use serde_json::{Value, json};

use super::super::ValidatedPart;
use super::{faults, mk_schema, validated};

/// A schema of `a`, its value, and its faults.
const ROWS: &[(&str, &str, &[&str])] = &[
    (r#"{"type": "string"}"#, r#""x""#, &[]),
    (
        r#"{"type": "string"}"#,
        "5",
        &[r#"a: Invalid value: "integer": a in body must be of type string: "integer""#],
    ),
    (
        r#"{"type": "integer"}"#,
        "1.5",
        &[
            r#"a: Invalid value: "number": a in body must be of type integer: "number""#,
            r#"<nil>: Invalid value: "": Checked value must be of type integer (default format) in a"#,
        ],
    ),
    (r#"{"type": "integer"}"#, "2.0", &[]),
    (r#"{"type": "number"}"#, "2", &[]),
    (
        r#"{"type": "boolean"}"#,
        r#""true""#,
        &[r#"a: Invalid value: "string": a in body must be of type boolean: "string""#],
    ),
    (
        r#"{"type": "string"}"#,
        "null",
        &[r#"a: Invalid value: "null": a in body must be of type string: "null""#],
    ),
    (r#"{"type": "string", "nullable": true}"#, "null", &[]),
    (
        r#"{"type": "string", "nullable": true, "enum": ["x"]}"#,
        "null",
        &[r#"a: Unsupported value: null: supported values: "x""#],
    ),
    (r#"{"x-kubernetes-int-or-string": true}"#, r#""50%""#, &[]),
    (r#"{"x-kubernetes-int-or-string": true}"#, "50", &[]),
    (
        r#"{"x-kubernetes-int-or-string": true}"#,
        "true",
        &[r#"a: Invalid value: "boolean": a in body must be of type integer,string: "boolean""#],
    ),
    (
        r#"{"type": "string", "enum": ["x", "y"]}"#,
        r#""z""#,
        &[r#"a: Unsupported value: "z": supported values: "x", "y""#],
    ),
    (
        r#"{"type": "integer", "enum": [1, 2]}"#,
        "3",
        &[r#"a: Unsupported value: 3: supported values: "1", "2""#],
    ),
    (
        r#"{"type": "integer", "minimum": 2, "maximum": 4}"#,
        "1",
        &["a: Invalid value: 1: a in body should be greater than or equal to 2"],
    ),
    (
        r#"{"type": "integer", "minimum": 2, "maximum": 4}"#,
        "5",
        &["a: Invalid value: 5: a in body should be less than or equal to 4"],
    ),
    (
        r#"{"type": "integer", "minimum": 2, "exclusiveMinimum": true}"#,
        "2",
        &["a: Invalid value: 2: a in body should be greater than 2"],
    ),
    (
        r#"{"type": "number", "maximum": 2.5, "exclusiveMaximum": true}"#,
        "2.5",
        &["a: Invalid value: 2.5: a in body should be less than 2.5"],
    ),
    (
        r#"{"type": "integer", "multipleOf": 3}"#,
        "7",
        &["a: Invalid value: 7: a in body should be a multiple of 3"],
    ),
    (r#"{"type": "number", "multipleOf": 0.1}"#, "0.3", &[]),
    (
        r#"{"type": "integer", "format": "int32"}"#,
        "3000000000",
        &[
            r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in a"#,
        ],
    ),
    (
        r#"{"type": "string", "maxLength": 2}"#,
        r#""äöü""#,
        &["a: Too long: may not be more than 2 bytes"],
    ),
    (
        r#"{"type": "string", "minLength": 2}"#,
        r#""ä""#,
        &[r#"a: Invalid value: "ä": a in body should be at least 2 chars long"#],
    ),
    (
        r#"{"type": "string", "pattern": "^a+$"}"#,
        r#""b""#,
        &[r#"a: Invalid value: "b": a in body should match '^a+$'"#],
    ),
    (
        r#"{"type": "string", "format": "date"}"#,
        r#""x""#,
        &[r#"a: Invalid value: "x": a in body must be of type date: "x""#],
    ),
    (
        r#"{"type": "string", "format": "date"}"#,
        "5",
        &[r#"a: Invalid value: "int64": a in body must be of type date: "int64""#],
    ),
    (r#"{"type": "string", "format": "date"}"#, "[]", &[]),
    (r#"{"type": "string", "format": "nonsense"}"#, r#""x""#, &[]),
    (
        r#"{"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2}"#,
        "[]",
        &["a: Invalid value: 0: a in body should have at least 1 items"],
    ),
    (
        r#"{"type": "array", "items": {"type": "string"}, "maxItems": 1}"#,
        r#"["x", 1]"#,
        &[
            r#"a[1]: Invalid value: "integer": a[1] in body must be of type string: "integer""#,
            "a: Too many: 2: must have at most 1 item",
        ],
    ),
    (
        r#"{"type": "object", "required": ["x"], "properties": {"x": {"type": "string"}}}"#,
        "{}",
        &["a.x: Required value"],
    ),
    (
        r#"{"type": "object", "minProperties": 1, "additionalProperties": {"type": "integer"}}"#,
        "{}",
        &["a: Invalid value: 0: a in body should have at least 1 properties"],
    ),
    (
        r#"{"type": "object", "maxProperties": 1, "additionalProperties": {"type": "integer"}}"#,
        r#"{"x": "1", "y": 2}"#,
        &[
            "a: Too many: 2: must have at most 1 item",
            r#"a.x: Invalid value: "string": a.x in body must be of type integer: "string""#,
        ],
    ),
    (
        r#"{"type": "object", "additionalProperties": false}"#,
        r#"{"x": 1}"#,
        &[r#"a: Invalid value: "x": a.x in body is a forbidden property"#],
    ),
    (
        r#"{"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 1}]}"#,
        "3",
        &[
            r#"<nil>: Invalid value: "": "a" must validate at least one schema (anyOf)"#,
            "a: Invalid value: 3: a in body should be greater than or equal to 5",
        ],
    ),
    (
        r#"{"type": "integer", "oneOf": [{"minimum": 5}, {"maximum": 9}]}"#,
        "7",
        &[
            r#"<nil>: Invalid value: "": "a" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
        ],
    ),
    (
        r#"{"type": "integer", "allOf": [{"minimum": 5}, {"maximum": 9}]}"#,
        "10",
        &[
            "a: Invalid value: 10: a in body should be less than or equal to 9",
            r#"<nil>: Invalid value: "": "a" must validate all the schemas (allOf)"#,
        ],
    ),
    (
        r#"{"type": "integer", "not": {"minimum": 5}}"#,
        "6",
        &[r#"<nil>: Invalid value: "": "a" must not validate the schema (not)"#],
    ),
    (
        r#"{"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}"#,
        r#"["x", "y", "x", "x"]"#,
        &[r#"a[2]: Duplicate value: "x""#],
    ),
    (
        r#"{"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}}"#,
        r#"[{"k": "x"}, {"k": "y"}, {"k": "x"}]"#,
        &[r#"a[2]: Duplicate value: {"k":"x"}"#],
    ),
    (
        r#"{"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}"#,
        r#"{"kind": "", "metadata": {"name": "bad"}}"#,
        &[
            "a.apiVersion: Required value",
            r#"a.kind: Invalid value: "": must not be empty"#,
            r#"a.metadata.name: Invalid value: "bad": is bad"#,
        ],
    ),
];

#[test]
fn faults_match_upstream() {
    for (schema, value, expected) in ROWS {
        let schema = mk_schema(&serde_json::from_str(schema).unwrap());
        let value: Value = serde_json::from_str(value).unwrap();
        assert_eq!(
            &faults(&schema, &json!({"a": value})),
            expected,
            "{value} by {schema}"
        );
    }
}

#[test]
fn validates_the_type_of_the_object_itself() {
    let schema = json!({"type": "object", "required": ["kind", "other"], "properties": {"kind": {"type": "string", "enum": ["X"]}}});
    assert_eq!(
        faults(&schema, &json!({})),
        [
            r#"kind: Unsupported value: "Example": supported values: "X""#,
            "other: Required value"
        ]
    );
}

/// A schema of `a`, its old and new value, and whether the update is refused.
const UPDATES: &[(&str, &str, &str, bool)] = &[
    (r#"{"type": "integer", "maximum": 5}"#, "9", "9", false),
    (r#"{"type": "integer", "maximum": 5}"#, "9", "8", true),
    (
        r#"{"type": "object", "properties": {"x": {"type": "integer", "maximum": 5}, "y": {"type": "string"}}}"#,
        r#"{"x": 9, "y": "1"}"#,
        r#"{"x": 9, "y": "2"}"#,
        false,
    ),
    (
        r#"{"type": "array", "items": {"type": "integer", "maximum": 5}}"#,
        "[9, 1]",
        "[9, 2]",
        true,
    ),
    (
        r#"{"type": "array", "items": {"type": "integer", "maximum": 5}}"#,
        "[9, 1]",
        "[9, 1]",
        false,
    ),
    (
        r#"{"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 5}}}}"#,
        r#"[{"k": "x", "v": 9}, {"k": "y", "v": 1}]"#,
        r#"[{"k": "y", "v": 2}, {"k": "x", "v": 9}]"#,
        false,
    ),
    (
        r#"{"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}"#,
        r#"["x", "x"]"#,
        r#"["x", "x", "y", "y"]"#,
        false,
    ),
    (
        r#"{"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}"#,
        r#"["x"]"#,
        r#"["x", "x"]"#,
        true,
    ),
    (
        r#"{"type": "object", "x-kubernetes-preserve-unknown-fields": true, "maxProperties": 1}"#,
        r#"{"x": 1, "y": 1}"#,
        r#"{"x": 1, "y": 1}"#,
        true,
    ),
];

#[test]
fn ignores_faults_that_an_update_did_not_change() {
    for (schema, old, new, is_refused) in UPDATES {
        let schema = mk_schema(&serde_json::from_str(schema).unwrap());
        let value = |text: &str| json!({"a": serde_json::from_str::<Value>(text).unwrap()});
        let causes = validated(
            &schema,
            &value(new),
            Some(&value(old)),
            ValidatedPart::Whole,
        );
        assert_eq!(
            !causes.is_empty(),
            *is_refused,
            "{old} to {new} by {schema}: {causes:?}"
        );
    }
}

#[test]
fn status_update_validates_only_the_status() {
    let number = json!({"type": "integer"});
    let schema = json!({"type": "object", "properties": {"spec": number, "status": {"type": "object", "required": ["y"], "properties": {"x": number}}}});
    let causes = validated(
        &schema,
        &json!({"spec": "bad", "status": {"x": "bad"}}),
        None,
        ValidatedPart::Status,
    );
    let fields: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
    assert_eq!(fields, ["status.x", "status.y"]);
    assert!(
        causes[0]
            .message
            .ends_with(r#"x in body must be of type integer: "string""#)
    );
}

#[test]
fn reports_skipped_cel_rules_like_upstream() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'x'"}]}}});
    assert!(faults(&schema, &json!({"a": "x"})).is_empty());
    let found = faults(&schema, &json!({"a": 1}));
    assert!(
        found.len() == 2
            && found[1]
                .starts_with("<nil>: Invalid value: null: some validation rules were not checked"),
        "{found:?}"
    );
}
