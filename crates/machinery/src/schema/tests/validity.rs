//! Validation of schemas, with the expected messages.

use serde_json::{Value, json};

use super::super::check::{self, StatusSubresource};
use super::super::read;
use super::{METADATA, mk_schema};

fn faults_of(schema: &Value, status: StatusSubresource) -> Vec<String> {
    let causes = check::faults(schema, "s", status, METADATA);
    causes
        .iter()
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect()
}

/// A schema of `a` and its faults. Paths start with that of `a`.
const ROWS: &[(&str, &[&str])] = &[
    (
        r#"{"type": "string", "default": "x", "pattern": "^x$"}"#,
        &[],
    ),
    (
        r#"{"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}"#,
        &[],
    ),
    (
        r#"{"description": "x"}"#,
        &[".type: Required value: must not be empty for specified object fields"],
    ),
    (
        r#"{"type": "nonsense"}"#,
        &[
            r#".type: Unsupported value: "nonsense": supported values: "array", "boolean", "integer", "number", "object", "string""#,
        ],
    ),
    (
        r#"{"type": "array"}"#,
        &[".items: Required value: must be specified"],
    ),
    (
        r#"{"type": "array", "items": {}}"#,
        &[".items.type: Required value: must not be empty for specified array items"],
    ),
    (
        r#"{"type": "string", "anyOf": [{"type": "string"}]}"#,
        &[".anyOf[0].type: Forbidden: must be empty to be structural"],
    ),
    // Upstream requires the fields of alternatives only at the root.
    (
        r#"{"type": "object", "anyOf": [{"properties": {"x": {"minimum": 1}}}]}"#,
        &[],
    ),
    (
        r#"{"type": "string", "pattern": "("}"#,
        &[
            r#".pattern: Invalid value: "(": must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `(`"#,
        ],
    ),
    (
        r#"{"type": "string", "uniqueItems": true}"#,
        &[
            ".uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ],
    ),
    (
        r#"{"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": {"type": "string"}}"#,
        &[
            ".additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ],
    ),
    (
        r#"{"type": "string", "$ref": "x"}"#,
        &[".$ref: Forbidden: $ref is not supported"],
    ),
    (
        r#"{"type": "object", "x-kubernetes-preserve-unknown-fields": false}"#,
        &[".x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"],
    ),
    (
        r#"{"type": "string", "x-kubernetes-list-type": "set"}"#,
        &[
            r#".type: Invalid value: "string": must be array if x-kubernetes-list-type is specified"#,
        ],
    ),
    (
        r#"{"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object", "properties": {}}}"#,
        &[
            ".x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
        ],
    ),
    (
        r#"{"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "properties": {"k": {"type": "string"}}}}"#,
        &[
            ".items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
        ],
    ),
    (
        r#"{"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}}"#,
        &[
            ".items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
        ],
    ),
    (
        r#"{"type": "string", "default": 5}"#,
        &[r#".default: Invalid value: "integer":  in body must be of type string: "integer""#],
    ),
    (
        r#"{"type": "object", "default": {"x": 1}}"#,
        &[r#".default: Invalid value: {"x":1}: must not have unknown fields"#],
    ),
    (
        r#"{"type": "object", "properties": {"x": {"type": "integer"}}, "default": {"x": "1"}}"#,
        &[r#".default.x: Invalid value: "string": x in body must be of type integer: "string""#],
    ),
    (
        r#"{"type": "string", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}"#,
        &[
            r#".type: Invalid value: "string": must be object if x-kubernetes-embedded-resource is true"#,
        ],
    ),
    (
        r#"{"type": "object", "x-kubernetes-embedded-resource": true}"#,
        &[
            ".properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        ],
    ),
    (
        r#"{"type": "string", "x-kubernetes-validations": [{"rule": " "}]}"#,
        &[".x-kubernetes-validations[0].rule: Required value: rule is not specified"],
    ),
];

#[test]
fn schema_faults_have_upstream_messages_and_paths() {
    for (schema, expected) in ROWS {
        let schema = mk_schema(&serde_json::from_str(schema).unwrap());
        let expected: Vec<String> = expected
            .iter()
            .map(|line| format!("s.properties[a]{line}"))
            .collect();
        assert_eq!(
            faults_of(&schema, StatusSubresource::Disabled),
            expected,
            "{schema}"
        );
    }
}

#[test]
fn root_schemas_have_additional_rules() {
    let rows = [
        (
            json!({"type": "object"}),
            StatusSubresource::Enabled,
            vec![],
        ),
        (
            json!({}),
            StatusSubresource::Disabled,
            vec!["s.type: Required value: must not be empty at the root"],
        ),
        (
            json!({"type": "object", "additionalProperties": true}),
            StatusSubresource::Disabled,
            vec!["s.additionalProperties: Forbidden: must not be used at the root"],
        ),
        (
            json!({"type": "object", "nullable": true}),
            StatusSubresource::Disabled,
            vec!["s.nullable: Forbidden: nullable cannot be true at the root"],
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object"}}}),
            StatusSubresource::Disabled,
            vec![],
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
            StatusSubresource::Disabled,
            vec![
                "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
            ],
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "default": "x"}}}}}),
            StatusSubresource::Disabled,
            vec![
                "s.properties[metadata].properties[name].default: Forbidden: must not be set in top-level metadata",
            ],
        ),
        (
            json!({"type": "object", "anyOf": [{"properties": {"x": {"minimum": 1}}}]}),
            StatusSubresource::Disabled,
            vec![
                "s.properties[x]: Required value: because it is defined in s.anyOf[0].properties[x]",
            ],
        ),
        (
            json!({"type": "object", "$schema": "x"}),
            StatusSubresource::Disabled,
            vec![r#"s: Invalid value: "": OpenAPIV3Schema 'schema' is not supported"#],
        ),
    ];
    for (schema, status, expected) in rows {
        assert_eq!(faults_of(&schema, status), expected, "{schema}");
    }
    let composed = json!({"type": "object", "allOf": [{"required": ["spec"]}]});
    assert!(faults_of(&composed, StatusSubresource::Disabled).is_empty());
    assert_eq!(faults_of(&composed, StatusSubresource::Enabled).len(), 1);
}

#[test]
fn decodes_schemas_by_type() {
    let mut schema =
        mk_schema(&json!({"type": "string", "odd": 1, "pattern": "", "nullable": false}));
    assert_eq!(
        read(&mut schema, "s"),
        Ok(vec!["s.properties.a.odd".to_owned()])
    );
    assert_eq!(schema, mk_schema(&json!({"type": "string"})));
    for (a, why) in [
        (
            json!({"type": 5}),
            "number into Go struct field JSONSchemaProps.type of type string",
        ),
        (
            json!({"maxLength": "x"}),
            "string into Go struct field JSONSchemaProps.maxLength of type int64",
        ),
        (
            json!({"required": [1]}),
            "number into Go struct field JSONSchemaProps.required of type string",
        ),
    ] {
        let error = read(&mut mk_schema(&a), "s").unwrap_err();
        assert_eq!(error.to_string(), format!("json: cannot unmarshal {why}"));
    }
}

#[test]
fn reports_unknown_formats() {
    let schema =
        mk_schema(&json!({"type": "integer", "format": "date", "anyOf": [{"format": "nonsense"}]}));
    assert_eq!(check::unknown_formats(&schema), ["date", "nonsense"]);
}
