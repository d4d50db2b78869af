//! Decodes the server's JSON into an [`ObjectRecord`].
//!
//! Only the parts that decisions read are decoded; the rest is skipped without recursion, so neither its depth nor its
//! size matters. Missing members and nulls decode to empty values, as in Go. An object that cannot be decoded becomes an
//! [`UnreadableObject`] with as much of its identity as can be found, so that one bad object does not fail its kind.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use caretaker_machinery::proto::MalformedProto;
use jiff::Timestamp;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::error::Category;

use super::body::JsonMembers;
use super::{KindId, ObjectRecord, OwnerRef, RecordBody, RecordMeta, Revision, Uid};

/// How much of an object a record holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordView {
    Metadata,
    /// The metadata, and the whole object as bytes.
    Full,
}

/// An object that cannot be decoded, with the parts of its identity that could be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableObject {
    /// The name, with the namespace if the object has one: `shop/web`.
    pub name: Option<String>,
    pub uid: Option<Uid>,
    pub revision: Option<Revision>,
    pub error: DecodeError,
}

/// Why an object cannot be decoded. The messages name a place and quote none of the object's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("not JSON at line {line} column {column}")]
    NotJson { line: usize, column: usize },
    #[error("unexpected end at line {line} column {column}")]
    UnexpectedEnd { line: usize, column: usize },
    #[error("unexpected type at line {line} column {column}")]
    UnexpectedType { line: usize, column: usize },
    #[error(transparent)]
    Protobuf(#[from] MalformedProto),
    #[error("it has no name")]
    NoName,
    #[error("it has no uid")]
    NoUid,
}

/// Decodes one object.
///
/// # Errors
/// The object is not JSON, a part of its metadata has the wrong type, or it has no name or no uid.
pub fn decode(
    kind: KindId,
    bytes: &[u8],
    view: RecordView,
) -> Result<ObjectRecord, UnreadableObject> {
    let ObjectOnly(object): ObjectOnly<JsonObject<'_>> =
        serde_json::from_slice(bytes).map_err(|error| unreadable(bytes, (&error).into()))?;
    let metadata = object.metadata.0.0;
    for (text, error) in [
        (&metadata.name, DecodeError::NoName),
        (&metadata.uid, DecodeError::NoUid),
    ] {
        if text.0.is_empty() {
            return Err(unreadable(bytes, error));
        }
    }
    let body = match view {
        RecordView::Metadata => RecordBody::None,
        // A copy, because a slice would keep the whole page of the list in memory.
        RecordView::Full => RecordBody::Json(Bytes::copy_from_slice(bytes)),
    };
    Ok(ObjectRecord {
        kind,
        meta: metadata.into_meta(),
        body,
    })
}

/// The part of an object that is decoded.
#[derive(serde::Deserialize)]
struct JsonObject<'a> {
    #[serde(borrow, default)]
    metadata: NullAsDefault<ObjectOnly<JsonMetadata<'a>>>,
}

#[derive(Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct JsonMetadata<'a> {
    #[serde(borrow)]
    name: NullableText<'a>,
    #[serde(borrow)]
    namespace: NullableText<'a>,
    #[serde(borrow)]
    uid: NullableText<'a>,
    #[serde(borrow)]
    resource_version: NullableText<'a>,
    deletion_timestamp: NullAsDefault<Option<Timestamp>>,
    #[serde(borrow)]
    finalizers: NullAsDefault<Vec<NullableText<'a>>>,
    #[serde(borrow)]
    owner_references: NullAsDefault<Vec<NullAsDefault<ObjectOnly<JsonOwnerRef<'a>>>>>,
}

#[derive(Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct JsonOwnerRef<'a> {
    #[serde(borrow)]
    api_version: NullableText<'a>,
    #[serde(borrow)]
    kind: NullableText<'a>,
    #[serde(borrow)]
    name: NullableText<'a>,
    #[serde(borrow)]
    uid: NullableText<'a>,
    controller: Option<bool>,
    block_owner_deletion: Option<bool>,
}

/// A string, borrowed where it needs no unescaping. Null decodes to an empty string.
#[derive(Default)]
struct NullableText<'a>(Cow<'a, str>);

/// A value that is decoded from a JSON object only. Derived code would accept a list too, one member per item.
#[derive(Default)]
struct ObjectOnly<T>(T);

/// A value whose null decodes to its default.
#[derive(Default)]
struct NullAsDefault<T>(T);

// === impl JsonMetadata ===

impl JsonMetadata<'_> {
    fn into_meta(self) -> RecordMeta {
        let finalizers = self.finalizers.0.into_iter();
        let owners = self.owner_references.0.into_iter();
        RecordMeta {
            name: self.name.0.into(),
            namespace: self.namespace.0.into(),
            uid: Uid::from(&*self.uid.0),
            revision: Revision::from(&*self.resource_version.0),
            deletion: self.deletion_timestamp.0,
            finalizers: finalizers.map(|finalizer| finalizer.0.into()).collect(),
            owners: owners
                .map(|NullAsDefault(ObjectOnly(reference))| reference.into_owner())
                .collect(),
        }
    }
}

// === impl JsonOwnerRef ===

impl JsonOwnerRef<'_> {
    fn into_owner(self) -> OwnerRef {
        OwnerRef {
            api_version: self.api_version.0.into(),
            kind: self.kind.0.into(),
            name: self.name.0.into(),
            uid: Uid::from(&*self.uid.0),
            controller: self.controller,
            block_owner_deletion: self.block_owner_deletion,
        }
    }
}

// === impl NullableText ===

impl<'de: 'a, 'a> Deserialize<'de> for NullableText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Cow<'de, str>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(text))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(text.to_owned()))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(""))
            }
        }
        deserializer.deserialize_any(TextVisitor).map(NullableText)
    }
}

// === impl ObjectOnly ===

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ObjectOnly<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for MembersVisitor<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }
        let visitor = MembersVisitor(PhantomData);
        deserializer.deserialize_map(visitor).map(ObjectOnly)
    }
}

// === impl NullAsDefault ===

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for NullAsDefault<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Option::<T>::deserialize(deserializer)?;
        Ok(Self(value.unwrap_or_default()))
    }
}

// === impl DecodeError ===

/// Takes the place of an error. The message of serde would quote the value that was found there.
impl From<&serde_json::Error> for DecodeError {
    fn from(error: &serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        match error.classify() {
            Category::Data => Self::UnexpectedType { line, column },
            Category::Eof => Self::UnexpectedEnd { line, column },
            Category::Io | Category::Syntax => Self::NotJson { line, column },
        }
    }
}

/// Finds as much as possible of the identity of an object that cannot be decoded.
fn unreadable(bytes: &[u8], error: DecodeError) -> UnreadableObject {
    let metadata = JsonMembers::of(bytes).object("metadata");
    let text = |name| Some(metadata.text(name)).filter(|text| !text.is_empty());
    let name = text("name").map(|name| match text("namespace") {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.into_owned(),
    });
    UnreadableObject {
        name,
        uid: text("uid").map(|uid| Uid::from(&*uid)),
        revision: text("resourceVersion").map(|revision| Revision::from(&*revision)),
        error,
    }
}

#[cfg(test)]
mod tests;
