//! Schemas as data: what a definition is refused for. A row is a note, the member of the spec that it is the schema of, or
//! nothing for the whole object, and the schema.

/// A note, a member of the spec or nothing, and a schema.
pub(super) type SchemaRow = (&'static str, &'static str, &'static str);

/// Schemas that are not structural, and some that only look so.
pub(super) const NOT_STRUCTURAL: &[SchemaRow] = &[
    ("no type", "a", r##"{"description": "x"}"##),
    (
        "items without a type",
        "a",
        r##"{"type": "array", "items": {}}"##,
    ),
    ("no items", "a", r##"{"type": "array"}"##),
    (
        "a type in an alternative",
        "a",
        r##"{"type": "string", "anyOf": [{"type": "string", "description": "d"}]}"##,
    ),
    (
        "a default in an alternative",
        "a",
        r##"{"type": "string", "allOf": [{"default": "d"}], "not": {"nullable": true}}"##,
    ),
    (
        "int-or-string spelled out",
        "a",
        r##"{"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "maxLength": 3}"##,
    ),
    (
        "int-or-string and free",
        "a",
        r##"{"x-kubernetes-int-or-string": true, "x-kubernetes-preserve-unknown-fields": true}"##,
    ),
    (
        "a property only in an alternative",
        "a",
        r##"{"type": "object", "anyOf": [{"properties": {"x": {"minimum": 1}}}]}"##,
    ),
    (
        "embedded and empty",
        "a",
        r##"{"type": "object", "x-kubernetes-embedded-resource": true}"##,
    ),
    (
        "embedded and a text",
        "a",
        r##"{"type": "string", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}"##,
    ),
    (
        "metadata with labels",
        "",
        r##"{"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}"##,
    ),
    (
        "metadata with a name",
        "",
        r##"{"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}}}}"##,
    ),
    (
        "a kind that is a number",
        "",
        r##"{"type": "object", "properties": {"kind": {"type": "integer"}}}"##,
    ),
    (
        "additional properties at the root",
        "",
        r##"{"type": "object", "additionalProperties": {"type": "string"}}"##,
    ),
    (
        "a bad pattern",
        "a",
        r##"{"type": "string", "pattern": "(["}"##,
    ),
    (
        "a pattern that looks ahead",
        "a",
        r##"{"type": "string", "pattern": "(?=a)b"}"##,
    ),
];

/// Schemas that use what is not supported.
pub(super) const NOT_SUPPORTED: &[SchemaRow] = &[
    ("an unknown type", "a", r##"{"type": "nonsense"}"##),
    ("null", "a", r##"{"type": "null"}"##),
    (
        "unique items",
        "a",
        r##"{"type": "array", "uniqueItems": true, "items": {"type": "string"}}"##,
    ),
    (
        "properties of both kinds",
        "a",
        r##"{"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": {"type": "string"}}"##,
    ),
    ("a reference", "a", r##"{"type": "object", "$ref": "#/x"}"##),
    (
        "definitions",
        "a",
        r##"{"type": "object", "definitions": {"x": {"type": "string"}}}"##,
    ),
    (
        "unknown fields not kept",
        "a",
        r##"{"type": "object", "x-kubernetes-preserve-unknown-fields": false}"##,
    ),
    (
        "a text that is a set",
        "a",
        r##"{"type": "string", "x-kubernetes-list-type": "set"}"##,
    ),
    (
        "an unknown kind of list",
        "a",
        r##"{"type": "array", "x-kubernetes-list-type": "heap", "items": {"type": "string"}}"##,
    ),
    (
        "a set of objects",
        "a",
        r##"{"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}}"##,
    ),
    (
        "an unknown kind of map",
        "a",
        r##"{"type": "object", "x-kubernetes-map-type": "heap"}"##,
    ),
    (
        "a map without keys",
        "a",
        r##"{"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [], "items": {"type": "object", "properties": {"k": {"type": "string"}}}}"##,
    ),
    (
        "a map with unknown keys",
        "a",
        r##"{"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "k"], "items": {"type": "object", "properties": {"l": {"type": "string"}}}}"##,
    ),
    (
        "a map whose keys may be missing",
        "a",
        r##"{"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "properties": {"k": {"type": "string", "nullable": true}}}}"##,
    ),
    (
        "a map of texts",
        "a",
        r##"{"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "string"}}"##,
    ),
    (
        "a map with a key that is a list",
        "a",
        r##"{"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "array", "items": {"type": "string"}}}}}"##,
    ),
    (
        "keys without a map",
        "a",
        r##"{"type": "array", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object"}}"##,
    ),
    (
        "a nullable root",
        "",
        r##"{"type": "object", "nullable": true}"##,
    ),
];

/// Schemas with defaults.
pub(super) const BAD_DEFAULTS: &[SchemaRow] = &[
    (
        "good ones",
        "a",
        r##"{"type": "object", "default": {}, "properties": {"x": {"type": "integer", "default": 5}}}"##,
    ),
    ("another type", "a", r##"{"type": "string", "default": 5}"##),
    (
        "out of bounds",
        "a",
        r##"{"type": "integer", "maximum": 4, "default": 5}"##,
    ),
    (
        "not in the enum",
        "a",
        r##"{"type": "string", "enum": ["a", "b"], "default": "c"}"##,
    ),
    (
        "unknown fields",
        "a",
        r##"{"type": "object", "default": {"x": 1}}"##,
    ),
    (
        "a member of another type",
        "a",
        r##"{"type": "object", "properties": {"x": {"type": "integer"}}, "default": {"x": "1"}}"##,
    ),
    (
        "something missing",
        "a",
        r##"{"type": "object", "required": ["y"], "properties": {"y": {"type": "string"}}, "default": {}}"##,
    ),
    (
        "an embedded object without kind",
        "a",
        r##"{"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true, "default": {"apiVersion": "v1"}}"##,
    ),
    (
        "in the metadata",
        "",
        r##"{"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "default": "x"}}}}}"##,
    ),
];
