//! Tables of what schemas make of objects. Rows were checked with the real server; `cargo xtask conformance schema` asks
//! it about many more.

mod hostile;
mod random;
mod settled;
mod validity;
mod verdicts;

use serde_json::{Map, Value, json};

use super::{Metadata, Part, Schema, Subject};
use crate::status::Cause;

/// Metadata of these tests: texts only, and nobody is called `bad`.
const METADATA: Metadata = Metadata {
    shape: |metadata| {
        let Value::Object(members) = metadata else {
            return Err("no object".to_owned());
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
        let cause = Cause::invalid(format!("{path}.name"), "bad", "is bad");
        is_bad.then_some(cause).into_iter().collect()
    },
};

/// A schema with one member `a`.
fn mk_schema(a: &Value) -> Value {
    json!({"type": "object", "properties": {"a": a}})
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("{other} is no object"),
    }
}

/// What becomes of an object, and what is unknown in it.
fn settle(schema: &Value, given: Value) -> Result<(Value, Vec<String>), String> {
    let mut given = object(given);
    let settled = Schema::new(schema).settle(&mut given, METADATA)?;
    Ok((Value::Object(given), settled.unknown))
}

fn judge(schema: &Value, new: &Value, old: Option<&Value>, part: Part) -> Vec<Cause> {
    let (new, old) = (object(new.clone()), old.map(|old| object(old.clone())));
    let subject = Subject {
        api_version: "example.com/v1",
        kind: "Example",
        new: &new,
        old: old.as_ref(),
        part,
    };
    Schema::new(schema).faults(&subject, METADATA)
}

/// The faults of a new object, each in a line.
fn faults(schema: &Value, new: &Value) -> Vec<String> {
    let causes = judge(schema, new, None, Part::Whole);
    causes
        .iter()
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect()
}
