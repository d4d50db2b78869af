//! From a server's JSON to a [`ObjectRecord`].
//!
//! Only what decisions read is taken; the rest is skipped without recursion, so neither its depth nor its size matters.
//! Missing members and nulls read as nothing, as in Go. What cannot be read becomes [`UnreadableObject`] with as much of its
//! identity as can be found: one bad object is never an error of its kind.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use jiff::Timestamp;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::body::members;
use super::{KindId, ObjectRecord, OwnerRef, RecordBody, RecordMeta, Revision, Uid};

/// How much of an object somebody wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordView {
    /// Its metadata.
    Metadata,
    /// All of it, as bytes.
    Full,
}

/// An object that could not be read, and what was found of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnreadableObject {
    /// Its name, with its namespace if it has one: `shop/web`.
    pub name: Option<String>,
    /// Its identity.
    pub uid: Option<Uid>,
    /// The version it was read at.
    pub revision: Option<Revision>,
    /// What is wrong and where, without any of the object's data.
    pub why: String,
}

/// Reads one object.
///
/// # Errors
/// The object is not JSON, its metadata is not as metadata should be, or it has no name or no uid.
pub fn decode(
    kind: KindId,
    bytes: &[u8],
    view: RecordView,
) -> Result<ObjectRecord, UnreadableObject> {
    let ObjectOnly(object): ObjectOnly<JsonObject<'_>> =
        serde_json::from_slice(bytes).map_err(|error| unreadable(bytes, place(&error)))?;
    let metadata = object.metadata.0.0;
    for (text, why) in [
        (&metadata.name, "it has no name"),
        (&metadata.uid, "it has no uid"),
    ] {
        if text.0.is_empty() {
            return Err(unreadable(bytes, why.to_owned()));
        }
    }
    let body = match view {
        RecordView::Metadata => RecordBody::None,
        // A copy: a slice would keep the whole page alive that the object came with.
        RecordView::Full => RecordBody::Json(Bytes::copy_from_slice(bytes)),
    };
    Ok(ObjectRecord {
        kind,
        meta: metadata.into_meta(),
        body,
    })
}

/// An object as far as it is read.
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
    finalizers: NullAsDefault<TextList>,
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

/// What is left when the metadata as a whole cannot be read: each member by itself.
#[derive(Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SalvagedMetadata<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    namespace: Option<&'a RawValue>,
    #[serde(borrow)]
    uid: Option<&'a RawValue>,
    #[serde(borrow)]
    resource_version: Option<&'a RawValue>,
}

#[derive(serde::Deserialize)]
struct SalvagedObject<'a> {
    #[serde(borrow, default)]
    metadata: Option<&'a RawValue>,
}

/// A string, borrowed where it needs no unescaping; null reads as empty.
#[derive(Default)]
struct NullableText<'a>(Cow<'a, str>);

/// A list of strings, each kept.
#[derive(Default)]
struct TextList(Vec<Box<str>>);

/// What only an object with members becomes: serde would read a list, too, one member after the other.
#[derive(Default)]
struct ObjectOnly<T>(T);

/// A value whose null reads as its default.
#[derive(Default)]
struct NullAsDefault<T>(T);

// === impl JsonMetadata ===

impl JsonMetadata<'_> {
    fn into_meta(self) -> RecordMeta {
        let owners = self.owner_references.0.into_iter();
        RecordMeta {
            name: self.name.0.into(),
            namespace: self.namespace.0.into(),
            uid: Uid::from(&*self.uid.0),
            revision: Revision::from(&*self.resource_version.0),
            deletion: self.deletion_timestamp.0,
            finalizers: self.finalizers.0.0,
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

// === impl TextList ===

impl<'de> Deserialize<'de> for TextList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextsVisitor;
        impl<'de> Visitor<'de> for TextsVisitor {
            type Value = Vec<Box<str>>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of strings")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut texts = Vec::new();
                while let Some(NullableText(text)) = seq.next_element()? {
                    texts.push(text.into());
                }
                Ok(texts)
            }
        }
        deserializer.deserialize_seq(TextsVisitor).map(TextList)
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

/// As much as can be found of an object that is not as it should be.
fn unreadable(bytes: &[u8], why: String) -> UnreadableObject {
    let ruin = serde_json::from_slice::<ObjectOnly<SalvagedObject<'_>>>(bytes).ok();
    let metadata = ruin.and_then(|ObjectOnly(ruin)| ruin.metadata);
    let remains: SalvagedMetadata<'_> = members(metadata).unwrap_or_default();
    let text = |raw: Option<&RawValue>| {
        let text: String = serde_json::from_str(raw?.get()).ok()?;
        (!text.is_empty()).then_some(text)
    };
    let name = text(remains.name).map(|name| match text(remains.namespace) {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name,
    });
    UnreadableObject {
        name,
        uid: text(remains.uid).map(|uid| Uid::from(uid.as_str())),
        revision: text(remains.resource_version).map(|revision| Revision::from(revision.as_str())),
        why,
    }
}

/// The place of an error. Its message would quote the value that was found there, and that is nobody's business.
pub(crate) fn place(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        serde_json::error::Category::Data => "unexpected type",
        serde_json::error::Category::Eof => "unexpected end",
        serde_json::error::Category::Io | serde_json::error::Category::Syntax => "not JSON",
    };
    format!("{what} at line {} column {}", error.line(), error.column())
}

#[cfg(test)]
mod tests;
