//! Drops what a schema does not know and fills in what it defaults: one walk over the object.
//!
//! Mirrors `pruning`, `defaulting` and `objectmeta` of apiextensions-apiserver 1.36, which are four walks there. At each
//! object: unknown members go, nulls go that are neither allowed nor defaulted, metadata of embedded objects gets its
//! shape, defaults come in, and then its members are walked. A default has no unknown members, or its schema would have
//! been refused, so nothing of it is lost on the way.

use std::collections::BTreeSet;
use std::mem;

use serde_json::{Map, Value};

use super::values::shown;
use super::{Additional, Metadata, Node};

/// What became of an object beside the changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// The paths of the members that were dropped because nothing is known of them.
    pub unknown: Vec<String>,
}

/// What happens to unknown members at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unknown {
    /// They go.
    Drop,
    /// They stay here; below those that are known, they go again.
    Keep,
    /// They stay here and below.
    Leave,
}

struct Walk {
    path: String,
    /// The path as faults of embedded objects spell it: names that are no properties in brackets.
    place: String,
    unknown: Vec<String>,
    unknown_metadata: Vec<String>,
    defaults: Defaults,
    metadata: Metadata,
}

/// Members that every object has, whatever its schema says.
const OWN: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Whether defaults are filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Defaults {
    Fill,
    Leave,
}

pub(super) fn settle(
    root: &Node,
    object: &mut Map<String, Value>,
    defaults: Defaults,
    metadata: Metadata,
) -> Result<Settled, String> {
    let mut walk = Walk {
        path: String::new(),
        place: String::new(),
        unknown: Vec::new(),
        unknown_metadata: Vec::new(),
        defaults,
        metadata,
    };
    let unknown = if root.preserve {
        Unknown::Keep
    } else {
        Unknown::Drop
    };
    walk.object(Some(root), unknown, object)?;
    walk.unknown.sort();
    walk.unknown_metadata.sort();
    walk.unknown.append(&mut walk.unknown_metadata);
    Ok(Settled {
        unknown: walk.unknown,
    })
}

/// Whether a value has unknown members.
pub(super) fn has_unknown(node: &Node, value: &Value, metadata: Metadata) -> bool {
    let mut value = value.clone();
    let mut walk = Walk {
        path: ".".to_owned(),
        place: String::new(),
        unknown: Vec::new(),
        unknown_metadata: Vec::new(),
        defaults: Defaults::Leave,
        metadata,
    };
    // Bad metadata is said elsewhere.
    let _ = walk.value(Some(node), Unknown::Drop, &mut value);
    !walk.unknown.is_empty()
}

impl Walk {
    fn value(
        &mut self,
        node: Option<&Node>,
        unknown: Unknown,
        value: &mut Value,
    ) -> Result<(), String> {
        let unknown = match unknown {
            Unknown::Drop if node.is_some_and(|node| node.preserve) => Unknown::Keep,
            other => other,
        };
        if node.is_none() && unknown != Unknown::Drop {
            return Ok(());
        }
        match value {
            Value::Object(members) => self.object(node, unknown, members),
            Value::Array(items) => self.items(node, unknown, items),
            _ => Ok(()),
        }
    }

    fn object(
        &mut self,
        node: Option<&Node>,
        unknown: Unknown,
        members: &mut Map<String, Value>,
    ) -> Result<(), String> {
        let Some(node) = node else {
            let names: Vec<String> = mem::take(members)
                .into_iter()
                .map(|(name, _)| name)
                .collect();
            names.iter().for_each(|name| self.drop(name));
            return Ok(());
        };
        let is_root = self.path.is_empty();
        let is_own = |name: &str| (node.embedded || is_root) && OWN.contains(&name);
        self.drop_unknown(node, unknown, is_root, members);
        if node.embedded && !is_root {
            self.embedded(members)?;
        }
        let mut filled = BTreeSet::new();
        for (name, of) in &node.properties {
            let missing = self.default_of(of).filter(|_| !members.contains_key(name));
            if let Some(default) = missing {
                members.insert(name.clone(), default.clone());
                filled.insert(name);
            }
        }
        for (name, value) in members.iter_mut() {
            let of = node.member(name);
            if let Some(of) = of.filter(|of| value.is_null() && !of.nullable) {
                *value = self.default_of(of).cloned().unwrap_or_default();
            }
            let below = match unknown {
                _ if is_own(name) => Unknown::Leave,
                Unknown::Leave => Unknown::Leave,
                Unknown::Keep
                    if of.is_none()
                        && !matches!(
                            node.additional,
                            Additional::Allowed | Additional::Forbidden
                        ) =>
                {
                    Unknown::Leave
                }
                Unknown::Drop | Unknown::Keep => Unknown::Drop,
            };
            let lengths = (self.path.len(), self.place.len());
            self.enter(name);
            match node.properties.contains_key(name) {
                true if self.place.is_empty() => self.place.push_str(name),
                true => self.place.push_str(&format!(".{name}")),
                false => self.place.push_str(&format!("[{name}]")),
            }
            let known = self.unknown_metadata.len();
            self.value(of, below, value)?;
            if filled.contains(name) {
                // Nobody has sent what a default says too much.
                self.unknown_metadata.truncate(known);
            }
            self.path.truncate(lengths.0);
            self.place.truncate(lengths.1);
        }
        Ok(())
    }

    /// Drops unknown members, and nulls that are neither allowed nor defaulted.
    fn drop_unknown(
        &mut self,
        node: &Node,
        unknown: Unknown,
        is_root: bool,
        members: &mut Map<String, Value>,
    ) {
        let is_known = |name: &str| {
            unknown != Unknown::Drop
                || (node.embedded || is_root) && OWN.contains(&name)
                || node.properties.contains_key(name)
                || !matches!(node.additional, Additional::Unsaid)
        };
        let mut dropped = Vec::new();
        members.retain(|name, value| {
            if !is_known(name) {
                dropped.push(name.clone());
                return false;
            }
            let of = node.member(name).filter(|_| value.is_null());
            of.is_none_or(|of| of.nullable || of.default.is_some())
        });
        dropped.iter().for_each(|name| self.drop(name));
    }

    fn items(
        &mut self,
        node: Option<&Node>,
        unknown: Unknown,
        items: &mut [Value],
    ) -> Result<(), String> {
        let of = node.and_then(|node| node.items.as_deref());
        for (index, item) in items.iter_mut().enumerate() {
            if let Some(of) = of.filter(|of| item.is_null() && !of.nullable) {
                *item = self.default_of(of).cloned().unwrap_or_default();
            }
            let lengths = (self.path.len(), self.place.len());
            self.path.push_str(&format!("[{index}]"));
            self.place.push_str(&format!("[{index}]"));
            self.value(of, unknown, item)?;
            self.path.truncate(lengths.0);
            self.place.truncate(lengths.1);
        }
        Ok(())
    }

    /// The type and metadata of an object within the object.
    fn embedded(&mut self, members: &mut Map<String, Value>) -> Result<(), String> {
        for field in ["apiVersion", "kind"] {
            if let Some(value) = members.get(field).filter(|value| !value.is_string()) {
                let (path, value) = (&self.place, shown(value));
                return Err(format!(
                    "{path}.{field}: Invalid value: {value}: must be a string"
                ));
            }
        }
        if let Some(given) = members.get_mut("metadata") {
            let before = given.clone();
            match (self.metadata.shape)(given) {
                Ok(unknown) => {
                    let paths = unknown
                        .iter()
                        .map(|field| format!("{}.metadata.{field}", self.place));
                    self.unknown_metadata.extend(paths);
                }
                Err(why) => {
                    let (path, value) = (&self.place, shown(&before));
                    return Err(format!("{path}.metadata: Invalid value: {value}: {why}"));
                }
            }
        }
        Ok(())
    }

    fn default_of<'n>(&self, node: &'n Node) -> Option<&'n Value> {
        let fill = self.defaults == Defaults::Fill;
        node.default.as_ref().filter(|_| fill)
    }

    fn drop(&mut self, name: &str) {
        let length = self.path.len();
        self.enter(name);
        self.unknown.push(self.path.clone());
        self.path.truncate(length);
    }

    fn enter(&mut self, name: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(name);
    }
}
