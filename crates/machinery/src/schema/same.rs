//! Detects which parts of an object an update did not change. Their faults are ignored.
//!
//! Mirrors `CorrelatedObject` of upstream's `cel/common`: items of a `map` list are matched by their keys in any order;
//! members without a schema count as changed; any other list is compared as a whole.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{ListType, SchemaNode};

/// A value before the update, and its schema.
#[derive(Debug, Clone, Copy)]
pub(super) struct OldValue<'a> {
    pub(super) node: &'a SchemaNode,
    pub(super) value: &'a Value,
}

/// The items of a `map` list before the update, by their keys.
pub(super) struct OldItems<'a> {
    node: &'a SchemaNode,
    keys: &'a [String],
    items: BTreeMap<String, &'a Value>,
}

// === impl OldValue ===

impl<'a> OldValue<'a> {
    pub(super) fn member(self, name: &str) -> Option<Self> {
        Some(Self {
            value: self.value.as_object()?.get(name)?,
            node: self.node.member(name)?,
        })
    }

    /// `None` unless the list has type `map`.
    pub(super) fn items(self) -> Option<OldItems<'a>> {
        let ListType::Map(keys) = &self.node.list else {
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

    /// Whether the update did not change the value.
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
    pub(super) fn find(&self, new: &Value) -> Option<OldValue<'a>> {
        let value = self.items.get(&key_of(new, self.keys)?)?;
        Some(OldValue {
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
