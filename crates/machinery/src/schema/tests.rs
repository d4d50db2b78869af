//! Tables of schemas, objects and results. The rows were verified against kube-apiserver; `cargo xtask conformance schema`
//! compares many more.

mod limits;
mod pruning;
mod random;
mod validation;
mod validity;

use serde_json::{Map, Value, json};

use super::{
    EmbeddedObjectError, MetadataRules, MetadataShapeError, StructuralSchema, ValidatedPart,
    ValidationSubject,
};
use crate::status::StatusCause;

/// Metadata rules for these tests: `name` is the only field, and the name `bad` is invalid.
const METADATA: MetadataRules = MetadataRules {
    shape: |metadata| {
        let Value::Object(members) = metadata else {
            return Err(MetadataShapeError("no object".to_owned()));
        };
        let unknown: Vec<String> = members
            .keys()
            .filter(|name| *name != "name")
            .cloned()
            .collect();
        members.retain(|name, _| name == "name");
        Ok(unknown)
    },
    faults: |metadata, path| {
        let is_bad = metadata.get("name").is_some_and(|name| name == "bad");
        let cause = StatusCause::invalid(format!("{path}.name"), "bad", "is bad");
        is_bad.then_some(cause).into_iter().collect()
    },
};

/// A schema with one property `a`.
fn mk_schema(a: &Value) -> Value {
    json!({"type": "object", "properties": {"a": a}})
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("{other} is no object"),
    }
}

/// Prunes and defaults an object. Returns the result and the unknown fields.
fn pruned(schema: &Value, given: Value) -> Result<(Value, Vec<String>), EmbeddedObjectError> {
    let mut given = object(given);
    let report = StructuralSchema::new(schema).prune_and_default(&mut given, METADATA)?;
    Ok((Value::Object(given), report))
}

fn validated(
    schema: &Value,
    new: &Value,
    old: Option<&Value>,
    part: ValidatedPart,
) -> Vec<StatusCause> {
    let (new, old) = (object(new.clone()), old.map(|old| object(old.clone())));
    let subject = ValidationSubject {
        api_version: "example.com/v1",
        kind: "Example",
        new: &new,
        old: old.as_ref(),
        part,
    };
    StructuralSchema::new(schema).faults(&subject, METADATA)
}

/// The faults of a new object, each as one line.
fn faults(schema: &Value, new: &Value) -> Vec<String> {
    let causes = validated(schema, new, None, ValidatedPart::Whole);
    causes
        .iter()
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect()
}
