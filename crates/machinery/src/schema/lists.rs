//! Uniqueness of list items: of `set` lists, and of `map` lists by their keys.
//!
//! Mirrors `listtype/validation.go` of apiextensions-apiserver 1.36: of several equal items only the second is reported, and
//! items of a map list that lack all keys count as equal.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::fault::{FAULTS_MAX, invalid, repeated};
use super::{ListType, SchemaNode};
use crate::status::StatusCause;

/// The faults of all lists with repeated items.
pub(super) fn faults(root: &SchemaNode, object: &Map<String, Value>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    members(root, object, "", &mut causes);
    causes
}

fn members(
    node: &SchemaNode,
    object: &Map<String, Value>,
    path: &str,
    causes: &mut Vec<StatusCause>,
) {
    for (name, value) in object {
        let at = node.path_of(path, name);
        if let Some(of) = node.member(name) {
            walk(of, value, &at, causes);
        }
    }
}

fn walk(node: &SchemaNode, value: &Value, path: &str, causes: &mut Vec<StatusCause>) {
    match value {
        Value::Object(object) => members(node, object, path, causes),
        Value::Array(items) => {
            match &node.list {
                ListType::Atomic => {}
                ListType::Set => report(repetitions(items.iter().cloned()), path, causes),
                ListType::Map(keys) => map(items, keys, path, causes),
            }
            let Some(of) = &node.items else {
                return;
            };
            for (index, item) in items.iter().enumerate() {
                if causes.len() < FAULTS_MAX && (item.is_object() || item.is_array()) {
                    walk(of, item, &format!("{path}[{index}]"), causes);
                }
            }
        }
        _ => {}
    }
}

fn map(items: &[Value], keys: &[String], path: &str, causes: &mut Vec<StatusCause>) {
    let odd = |item: &Value| !item.is_null() && !item.is_object();
    if let Some(index) = items.iter().position(odd) {
        let why = "must be an object for an array of list-type map";
        causes.push(invalid(format!("{path}[{index}]"), &items[index], why));
        return;
    }
    let key_of = |item: &Value| -> Value {
        let given = keys
            .iter()
            .filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
        Value::Object(given.collect())
    };
    report(repetitions(items.iter().map(key_of)), path, causes);
}

/// The second occurrence of each repeated value.
fn repetitions(values: impl Iterator<Item = Value>) -> Vec<(usize, Value)> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for (index, value) in values.enumerate() {
        let times = seen.entry(value.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            found.push((index, value));
        }
    }
    found
}

fn report(found: Vec<(usize, Value)>, path: &str, causes: &mut Vec<StatusCause>) {
    let room = FAULTS_MAX.saturating_sub(causes.len());
    let found = found.into_iter().take(room);
    causes.extend(found.map(|(index, value)| repeated(format!("{path}[{index}]"), &value)));
}
