//! Whether an update left a part of an object as it was. What is wrong there is not held against it.
//!
//! Mirrors `CorrelatedObject` of upstream's `cel/common`: items of a list of type map are compared by their keys, whatever
//! their order; members that have no schema count as changed; any other list is compared as a whole.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{List, Node};

/// A value as it was before an update, and the schema of its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Old<'a> {
    pub(super) node: &'a Node,
    pub(super) value: &'a Value,
}

/// The items of an old list, by their keys.
pub(super) struct OldItems<'a> {
    node: &'a Node,
    keys: &'a [String],
    items: BTreeMap<String, &'a Value>,
}

// === impl Old ===

impl<'a> Old<'a> {
    pub(super) fn member(self, name: &str) -> Option<Self> {
        Some(Self {
            value: self.value.as_object()?.get(name)?,
            node: self.node.member(name)?,
        })
    }

    /// None if items cannot be told apart.
    pub(super) fn items(self) -> Option<OldItems<'a>> {
        let List::Map(keys) = &self.node.list else {
            return None;
        };
        let (node, items) = (self.node.items.as_deref()?, self.value.as_array()?);
        let items = items
            .iter()
            .filter_map(|item| Some((key_of(item, keys)?, item)));
        Some(OldItems {
            node,
            keys,
            items: items.collect(),
        })
    }

    /// Whether `new` says the same.
    pub(super) fn is_same(self, new: &Value) -> bool {
        match (self.value, new) {
            (Value::Object(old), Value::Object(new)) => {
                old.len() == new.len()
                    && new
                        .iter()
                        .all(|(name, new)| self.member(name).is_some_and(|old| old.is_same(new)))
            }
            (Value::Array(old), Value::Array(new)) => match self.items() {
                _ if old.len() != new.len() => false,
                Some(items) => new
                    .iter()
                    .all(|new| items.find(new).is_some_and(|old| old.is_same(new))),
                None => old == new,
            },
            (old, new) => old == new,
        }
    }
}

// === impl OldItems ===

impl<'a> OldItems<'a> {
    /// The item with the keys of `new`.
    pub(super) fn find(&self, new: &Value) -> Option<Old<'a>> {
        let value = self.items.get(&key_of(new, self.keys)?)?;
        Some(Old {
            node: self.node,
            value,
        })
    }
}

fn key_of(item: &Value, keys: &[String]) -> Option<String> {
    let members = item.as_object()?;
    let key: Map<String, Value> = keys
        .iter()
        .filter_map(|name| Some((name.clone(), members.get(name)?.clone())))
        .collect();
    serde_json::to_string(&key).ok()
}
