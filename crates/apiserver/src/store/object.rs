//! One stored object: canonical JSON, its labels and its selectable fields.
//!
//! The bytes lack `apiVersion` and `kind`, which the kinds table knows and which differ by the version served. The
//! resourceVersion is inserted when the store has numbered the object; until then it is a [`ObjectDraft`].
//!
//! DEVIATION(key-order): canonical means that fields are in the order of the alphabet, so that equal objects have equal
//! bytes. Upstream writes them in the order of its Go types.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::metadata::value_at;

/// The number of a write, over all resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StoreRevision(pub(crate) u64);

/// The schema that an object was written under. An object of another schema has to be pruned and defaulted when it is
/// read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SchemaId(u32);

/// The key of an object in its table: `namespace/name`, or `name` if it has no namespace.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ObjectKey(Arc<str>);

/// A list of strings in one allocation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PackedStrings {
    text: Box<str>,
    ends: Box<[u32]>,
}

/// An object in the store.
pub(crate) struct StoredObject {
    pub(crate) rev: StoreRevision,
    pub(crate) key: ObjectKey,
    /// Keys and values alternate.
    labels: PackedStrings,
    /// Values of the kind's selectable fields, in the order of its row.
    pub(crate) fields: PackedStrings,
    /// The place of the metadata in `bytes`.
    meta: Range<u32>,
    /// The place of the resourceVersion in `bytes`, with its key and comma.
    version: Range<u32>,
    pub(crate) schema: SchemaId,
    pub(crate) bytes: Bytes,
}

/// An object that has no revision yet.
pub(crate) struct ObjectDraft {
    key: ObjectKey,
    labels: PackedStrings,
    fields: PackedStrings,
    meta: Range<u32>,
    version_at: u32,
    schema: SchemaId,
    bytes: Vec<u8>,
}

// === impl SchemaId ===

impl SchemaId {
    /// The id for kinds without a schema.
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

// === impl StoreRevision ===

impl StoreRevision {
    /// The revision of an empty store. Clients take 0 for "any", so it is 1.
    pub(crate) const START: Self = Self(1);

    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for StoreRevision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// === impl ObjectKey ===

impl ObjectKey {
    pub(crate) fn new(namespace: Option<&str>, name: &str) -> Self {
        match namespace {
            Some(namespace) => Self(format!("{namespace}/{name}").into()),
            None => Self(name.into()),
        }
    }

    /// Makes the key of a continue token, which may name any place.
    pub(crate) fn raw(text: &str) -> Self {
        Self(text.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        self.0.split_once('/').map(|(namespace, _)| namespace)
    }

    pub(crate) fn name(&self) -> &str {
        self.0.split_once('/').map_or(&*self.0, |(_, name)| name)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// === impl PackedStrings ===

impl PackedStrings {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(self.ends.iter().copied())
            .map(|(start, end)| &self.text[start as usize..end as usize])
    }

    pub(crate) fn get(&self, index: usize) -> Option<&str> {
        self.iter().nth(index)
    }
}

impl<'a> FromIterator<&'a str> for PackedStrings {
    fn from_iter<I: IntoIterator<Item = &'a str>>(strings: I) -> Self {
        let mut text = String::new();
        let mut ends = Vec::new();
        for string in strings {
            text.push_str(string);
            ends.push(position(text.len()));
        }
        Self {
            text: text.into(),
            ends: ends.into(),
        }
    }
}

// === impl StoredObject ===

impl StoredObject {
    /// Returns the metadata as JSON.
    pub(crate) fn meta(&self) -> &[u8] {
        &self.bytes[self.meta.start as usize..self.meta.end as usize]
    }

    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        let mut pairs = self.labels.iter();
        while let Some(key) = pairs.next() {
            let value = pairs.next();
            if key == name {
                return value;
            }
        }
        None
    }

    /// Returns the object as a tree.
    pub(crate) fn to_value(&self) -> Map<String, Value> {
        // Written by `ObjectDraft::new` from a tree, so it parses; an empty object would be refused by every rule.
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }

    /// Returns the same content under another revision.
    pub(crate) fn at(&self, rev: StoreRevision) -> StoredObject {
        self.to_draft().commit(rev)
    }

    /// Reports whether a draft has the same content.
    pub(crate) fn same_as(&self, draft: &ObjectDraft) -> bool {
        let (start, end) = (self.version.start as usize, self.version.end as usize);
        self.key == draft.key
            && self.bytes[..start] == draft.bytes[..draft.bytes.len().min(start)]
            && self.bytes[end..] == draft.bytes[draft.bytes.len().min(start)..]
    }

    fn to_draft(&self) -> ObjectDraft {
        let (start, end) = (self.version.start as usize, self.version.end as usize);
        let mut bytes = Vec::with_capacity(self.bytes.len());
        bytes.extend_from_slice(&self.bytes[..start]);
        bytes.extend_from_slice(&self.bytes[end..]);
        ObjectDraft {
            key: self.key.clone(),
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            meta: self.meta.start..self.meta.end - (self.version.end - self.version.start),
            version_at: self.version.start,
            schema: self.schema,
            bytes,
        }
    }
}

// === impl ObjectDraft ===

impl ObjectDraft {
    /// Encodes `object`, whose apiVersion, kind and resourceVersion do not count. `fields` are the values of the kind's
    /// selectable fields.
    pub(crate) fn new(key: ObjectKey, object: &Map<String, Value>, fields: PackedStrings) -> Self {
        let mut bytes = Vec::with_capacity(1024);
        let mut meta = 0..0;
        let mut version_at = 0;
        bytes.push(b'{');
        for (name, value) in object {
            if name == "apiVersion" || name == "kind" {
                continue;
            }
            separate(&mut bytes);
            write(&mut bytes, name);
            bytes.push(b':');
            match value {
                Value::Object(metadata) if name == "metadata" => {
                    let start = position(bytes.len());
                    version_at = encode_metadata(&mut bytes, metadata);
                    meta = start..position(bytes.len());
                }
                value => write(&mut bytes, value),
            }
        }
        bytes.push(b'}');
        Self {
            labels: labels_of(object),
            key,
            fields,
            meta,
            version_at,
            schema: SchemaId::NONE,
            bytes,
        }
    }

    /// Sets the schema under which the object is written.
    pub(crate) fn under(mut self, schema: SchemaId) -> Self {
        self.schema = schema;
        self
    }

    /// Returns the object under its revision.
    pub(crate) fn commit(self, rev: StoreRevision) -> StoredObject {
        let at = self.version_at as usize;
        let version = format!("\"resourceVersion\":\"{rev}\",");
        let mut bytes = Vec::with_capacity(self.bytes.len() + version.len());
        bytes.extend_from_slice(&self.bytes[..at]);
        bytes.extend_from_slice(version.as_bytes());
        bytes.extend_from_slice(&self.bytes[at..]);
        self.assemble(rev, position(version.len()), bytes)
    }

    /// Returns the object without a revision, for the dry run of a create.
    pub(crate) fn unnumbered(mut self) -> StoredObject {
        let bytes = std::mem::take(&mut self.bytes);
        self.assemble(StoreRevision(0), 0, bytes)
    }

    fn assemble(self, rev: StoreRevision, version_len: u32, bytes: Vec<u8>) -> StoredObject {
        StoredObject {
            rev,
            key: self.key,
            labels: self.labels,
            fields: self.fields,
            meta: self.meta.start..self.meta.end + version_len,
            version: self.version_at..self.version_at + version_len,
            schema: self.schema,
            bytes: bytes.into(),
        }
    }
}

/// Writes metadata and returns the place of the resourceVersion. Keys are sorted, and a uid, which sorts after it, is
/// always present.
fn encode_metadata(bytes: &mut Vec<u8>, metadata: &Map<String, Value>) -> u32 {
    let mut version_at = None;
    bytes.push(b'{');
    for (name, value) in metadata {
        if name == "resourceVersion" {
            continue;
        }
        separate(bytes);
        if version_at.is_none() && name.as_str() > "resourceVersion" {
            version_at = Some(position(bytes.len()));
        }
        write(bytes, name);
        bytes.push(b':');
        write(bytes, value);
    }
    let end = position(bytes.len());
    bytes.push(b'}');
    version_at.unwrap_or(end)
}

fn labels_of(object: &Map<String, Value>) -> PackedStrings {
    let labels = value_at(object, "/metadata/labels").as_object();
    let labels = labels.into_iter().flatten();
    labels
        .flat_map(|(key, value)| [key.as_str(), value.as_str().unwrap_or_default()])
        .collect()
}

fn separate(bytes: &mut Vec<u8>) {
    if bytes.last() != Some(&b'{') {
        bytes.push(b',');
    }
}

fn write<T: serde::Serialize + ?Sized>(bytes: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(bytes, value)
        .expect("a JSON tree has string keys and a Vec takes all bytes");
}

/// Positions fit: a request body has at most 3 MiB.
fn position(index: usize) -> u32 {
    u32::try_from(index).expect("objects are far smaller than 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn mk_draft(object: &Value) -> ObjectDraft {
        ObjectDraft::new(
            ObjectKey::new(Some("ns"), "a"),
            object.as_object().unwrap(),
            PackedStrings::default(),
        )
    }

    fn mk_object() -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"},
            "metadata": {"name": "a", "namespace": "ns", "labels": {"app": "x", "tier": "y"},
                "resourceVersion": "7", "uid": "u"}})
    }

    #[test]
    fn revision_is_inserted_into_the_metadata() {
        let object = mk_draft(&mk_object()).commit(StoreRevision(42));
        let value: Value = serde_json::from_slice(&object.bytes).unwrap();
        assert_eq!(value["metadata"]["resourceVersion"], "42");
        assert_eq!(value["data"]["k"], "v");
        assert!(value.get("kind").is_none() && value.get("apiVersion").is_none());
        let meta: Value = serde_json::from_slice(object.meta()).unwrap();
        assert_eq!(meta, value["metadata"]);
    }

    #[test]
    fn new_revision_keeps_the_content() {
        let object = mk_draft(&mk_object()).commit(StoreRevision(9));
        let later = object.at(StoreRevision(1_000));
        assert_eq!(later.at(StoreRevision(9)).bytes, object.bytes);
        let meta: Value = serde_json::from_slice(later.meta()).unwrap();
        assert_eq!(meta["resourceVersion"], "1000");
    }

    #[test]
    fn comparison_ignores_the_revision() {
        let object = mk_draft(&mk_object()).commit(StoreRevision(9));
        assert!(object.same_as(&mk_draft(&mk_object())));
        let mut other = mk_object();
        other["data"]["k"] = json!("w");
        assert!(!object.same_as(&mk_draft(&other)));
        other["data"] = json!({});
        assert!(!object.same_as(&mk_draft(&other)));
    }

    #[test]
    fn finds_labels_by_name() {
        let object = mk_draft(&mk_object()).commit(StoreRevision(9));
        assert_eq!(object.label("tier"), Some("y"));
        assert_eq!(object.label("x"), None);
    }

    #[test]
    fn dry_run_object_has_no_revision() {
        let object = mk_draft(&mk_object()).unnumbered();
        let meta: Value = serde_json::from_slice(object.meta()).unwrap();
        assert!(meta.get("resourceVersion").is_none());
    }

    #[test]
    fn key_has_namespace_and_name() {
        let key = ObjectKey::new(Some("ns"), "a");
        assert_eq!((key.namespace(), key.name()), (Some("ns"), "a"));
        let key = ObjectKey::new(None, "a");
        assert_eq!((key.namespace(), key.name()), (None, "a"));
    }

    #[test]
    fn strings_keep_their_order_and_empty_members() {
        let strings: PackedStrings = ["a", "", "bc"].into_iter().collect();
        assert_eq!(strings.iter().collect::<Vec<_>>(), ["a", "", "bc"]);
        assert_eq!(strings.get(2), Some("bc"));
        assert_eq!(strings.get(3), None);
    }
}
