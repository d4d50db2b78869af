//! Prunes unknown fields and fills in defaults in one pass over the object.
//!
//! Mirrors `pruning`, `defaulting` and `objectmeta` of apiextensions-apiserver 1.36, which need four passes. For each object
//! it drops unknown members and nulls that are neither allowed nor defaulted, prunes the metadata of an embedded object,
//! adds defaults, and then visits the members. A default has no unknown members, because `check` refuses such a schema.

use std::collections::BTreeSet;
use std::mem;

use serde_json::{Map, Value};

use super::values::shown;
use super::{AdditionalProperties, MetadataRules, MetadataShapeError, SchemaNode};

/// The type or the metadata of an embedded object cannot be decoded. The client receives the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmbeddedObjectError {
    #[error("{path}: Invalid value: {value}: must be a string")]
    NotString { path: String, value: String },
    #[error("{path}: Invalid value: {value}: {source}")]
    Metadata {
        path: String,
        value: String,
        source: MetadataShapeError,
    },
}

/// The treatment of unknown members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnknownPolicy {
    Drop,
    /// Keep them in this object; drop them again below known members.
    Keep,
    /// Keep them in this object and everywhere below it.
    Leave,
}

struct PruneWalk {
    path: String,
    /// The path in the notation of faults of embedded objects: names that are not properties are in brackets.
    place: String,
    unknown: Vec<String>,
    unknown_metadata: Vec<String>,
    defaults: DefaultsMode,
    metadata: MetadataRules,
}

/// Members that every object may have, independent of its schema.
const OWN: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Whether defaults are filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DefaultsMode {
    Fill,
    Leave,
}

pub(super) fn prune(
    root: &SchemaNode,
    object: &mut Map<String, Value>,
    defaults: DefaultsMode,
    metadata: MetadataRules,
) -> Result<Vec<String>, EmbeddedObjectError> {
    let mut walk = PruneWalk::new("", defaults, metadata);
    let unknown = if root.preserve {
        UnknownPolicy::Keep
    } else {
        UnknownPolicy::Drop
    };
    walk.object(Some(root), unknown, object)?;
    walk.unknown.sort();
    walk.unknown_metadata.sort();
    walk.unknown.append(&mut walk.unknown_metadata);
    Ok(walk.unknown)
}

/// Whether a value has unknown members.
pub(super) fn has_unknown(node: &SchemaNode, value: &Value, metadata: MetadataRules) -> bool {
    let mut value = value.clone();
    let mut walk = PruneWalk::new(".", DefaultsMode::Leave, metadata);
    // `embedded` reports invalid metadata.
    let _ = walk.value(Some(node), UnknownPolicy::Drop, &mut value);
    !walk.unknown.is_empty()
}

impl PruneWalk {
    fn new(path: &str, defaults: DefaultsMode, metadata: MetadataRules) -> Self {
        Self {
            path: path.to_owned(),
            place: String::new(),
            unknown: Vec::new(),
            unknown_metadata: Vec::new(),
            defaults,
            metadata,
        }
    }

    fn value(
        &mut self,
        node: Option<&SchemaNode>,
        unknown: UnknownPolicy,
        value: &mut Value,
    ) -> Result<(), EmbeddedObjectError> {
        let unknown = match unknown {
            UnknownPolicy::Drop if node.is_some_and(|node| node.preserve) => UnknownPolicy::Keep,
            other => other,
        };
        if node.is_none() && unknown != UnknownPolicy::Drop {
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
        node: Option<&SchemaNode>,
        unknown: UnknownPolicy,
        members: &mut Map<String, Value>,
    ) -> Result<(), EmbeddedObjectError> {
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
                _ if is_own(name) => UnknownPolicy::Leave,
                UnknownPolicy::Leave => UnknownPolicy::Leave,
                UnknownPolicy::Keep
                    if of.is_none()
                        && !matches!(
                            node.additional,
                            AdditionalProperties::Allowed | AdditionalProperties::Forbidden
                        ) =>
                {
                    UnknownPolicy::Leave
                }
                UnknownPolicy::Drop | UnknownPolicy::Keep => UnknownPolicy::Drop,
            };
            let length = self.path.len();
            self.enter(name);
            let place = node.path_of(&self.place, name);
            let outer = mem::replace(&mut self.place, place);
            let known = self.unknown_metadata.len();
            self.value(of, below, value)?;
            if filled.contains(name) {
                // The client did not send these members, so they are not reported.
                self.unknown_metadata.truncate(known);
            }
            self.path.truncate(length);
            self.place = outer;
        }
        Ok(())
    }

    /// Drops unknown members, and nulls that are neither allowed nor defaulted.
    fn drop_unknown(
        &mut self,
        node: &SchemaNode,
        unknown: UnknownPolicy,
        is_root: bool,
        members: &mut Map<String, Value>,
    ) {
        let is_known = |name: &str| {
            unknown != UnknownPolicy::Drop
                || (node.embedded || is_root) && OWN.contains(&name)
                || node.properties.contains_key(name)
                || !matches!(node.additional, AdditionalProperties::Unspecified)
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
        node: Option<&SchemaNode>,
        unknown: UnknownPolicy,
        items: &mut [Value],
    ) -> Result<(), EmbeddedObjectError> {
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

    /// Checks the type of an embedded object and prunes its metadata.
    fn embedded(&mut self, members: &mut Map<String, Value>) -> Result<(), EmbeddedObjectError> {
        for field in ["apiVersion", "kind"] {
            if let Some(value) = members.get(field).filter(|value| !value.is_string()) {
                return Err(EmbeddedObjectError::NotString {
                    path: format!("{}.{field}", self.place),
                    value: shown(value),
                });
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
                Err(source) => {
                    return Err(EmbeddedObjectError::Metadata {
                        path: format!("{}.metadata", self.place),
                        value: shown(&before),
                        source,
                    });
                }
            }
        }
        Ok(())
    }

    fn default_of<'n>(&self, node: &'n SchemaNode) -> Option<&'n Value> {
        let fill = self.defaults == DefaultsMode::Fill;
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
