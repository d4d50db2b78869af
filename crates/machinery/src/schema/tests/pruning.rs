//! Pruning and defaulting.

use serde_json::{Value, json};

use super::{mk_schema, pruned};

/// A schema of `a`, an object, the resulting object, and its unknown fields.
type Row = (Value, Value, Value, Vec<&'static str>);

fn text() -> Value {
    json!({"type": "string"})
}

fn rows() -> Vec<Row> {
    [pruning_rows(), defaulting_rows(), embedded_rows()].concat()
}

fn pruning_rows() -> Vec<Row> {
    let free = || json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    vec![
        (
            text(),
            json!({"a": "x", "b": 1, "c": {}}),
            json!({"a": "x"}),
            vec!["b", "c"],
        ),
        (
            json!({"type": "array", "items": {"type": "object", "properties": {"x": text()}}}),
            json!({"a": [{"x": "1", "y": 1}, "odd"]}),
            json!({"a": [{"x": "1"}, "odd"]}),
            vec!["a[0].y"],
        ),
        (
            free(),
            json!({"a": {"b": {"c": null}}}),
            json!({"a": {"b": {"c": null}}}),
            vec![],
        ),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"k": {"type": "object", "properties": {"x": text()}}}}),
            json!({"a": {"k": {"x": "1", "y": 1}, "z": {"y": 1}}}),
            json!({"a": {"k": {"x": "1"}, "z": {"y": 1}}}),
            vec!["a.k.y"],
        ),
        (
            json!({"type": "object", "additionalProperties": true}),
            json!({"a": {"k": {"x": "1"}, "l": 1}}),
            json!({"a": {"k": {}, "l": 1}}),
            vec!["a.k.x"],
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "object", "properties": {"x": text()}}}),
            json!({"a": {"k": {"x": "1", "y": 2}}}),
            json!({"a": {"k": {"x": "1"}}}),
            vec!["a.k.y"],
        ),
    ]
}

fn defaulting_rows() -> Vec<Row> {
    vec![
        (
            json!({"type": "string", "default": "d"}),
            json!({}),
            json!({"a": "d"}),
            vec![],
        ),
        (
            json!({"type": "string", "default": "d"}),
            json!({"a": null}),
            json!({"a": "d"}),
            vec![],
        ),
        (
            json!({"type": "string", "default": "d", "nullable": true}),
            json!({"a": null}),
            json!({"a": null}),
            vec![],
        ),
        (
            json!({"type": "string", "nullable": true}),
            json!({"a": null}),
            json!({"a": null}),
            vec![],
        ),
        (text(), json!({"a": null}), json!({}), vec![]),
        (
            json!({"type": "object", "default": {}, "properties": {"x": {"type": "integer", "default": 7}}}),
            json!({}),
            json!({"a": {"x": 7}}),
            vec![],
        ),
        (
            json!({"type": "object", "properties": {"x": {"type": "integer", "default": 7}}}),
            json!({}),
            json!({}),
            vec![],
        ),
        (
            json!({"type": "array", "items": {"type": "string", "default": "d"}}),
            json!({"a": [null, "x"]}),
            json!({"a": ["d", "x"]}),
            vec![],
        ),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            json!({"a": [null]}),
            json!({"a": [null]}),
            vec![],
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string", "default": "d"}}),
            json!({"a": {"k": null}}),
            json!({"a": {"k": "d"}}),
            vec![],
        ),
    ]
}

fn embedded_rows() -> Vec<Row> {
    vec![
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
            json!({"a": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "odd": 1}, "spec": {"x": 1}}}),
            json!({"a": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "spec": {"x": 1}}}),
            vec!["a.metadata.odd"],
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": text()}}),
            json!({"a": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "spec": "x", "odd": 1}}),
            json!({"a": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "spec": "x"}}),
            vec!["a.odd"],
        ),
        (
            text(),
            json!({"apiVersion": "v1", "kind": "K", "metadata": {"odd": 1}}),
            json!({"apiVersion": "v1", "kind": "K", "metadata": {"odd": 1}}),
            vec![],
        ),
    ]
}

#[test]
fn prunes_unknown_fields_and_fills_in_defaults() {
    for (schema, given, expected, unknown) in rows() {
        let schema = mk_schema(&schema);
        let unknown: Vec<String> = unknown.into_iter().map(str::to_owned).collect();
        assert_eq!(
            pruned(&schema, given.clone()),
            Ok((expected, unknown)),
            "{given} by {schema}"
        );
    }
}

#[test]
fn pruning_twice_changes_nothing() {
    for (schema, given, _, _) in rows() {
        let schema = mk_schema(&schema);
        let (once, _) = pruned(&schema, given).unwrap();
        assert_eq!(
            pruned(&schema, once.clone()),
            Ok((once, vec![])),
            "{schema}"
        );
    }
}

#[test]
fn root_that_preserves_unknown_fields_drops_nothing() {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let given = json!({"spec": {"a": [1, {"b": null}]}, "other": null});
    assert_eq!(pruned(&schema, given.clone()), Ok((given, vec![])));
}

#[test]
fn embedded_object_needs_valid_type_and_metadata() {
    let schema = mk_schema(
        &json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
    );
    let rows = [
        (
            json!({"a": {"kind": 1}}),
            "a.kind: Invalid value: 1: must be a string",
        ),
        (
            json!({"a": {"metadata": 1}}),
            "a.metadata: Invalid value: 1: no object",
        ),
    ];
    for (given, why) in rows {
        let error = pruned(&schema, given).unwrap_err();
        assert_eq!(error.to_string(), why);
    }
}
