//! Objects in protobuf encoding: bodies of requests as trees, and objects, lists and documents as messages.
//!
//! The types come from `types.txt`; the wire format is in [`proto`]. Stored objects are encoded from their bytes, without
//! a tree.

use caretaker_machinery::proto::{self, ProtoEnvelope, ProtoError, ProtoFields};
use caretaker_machinery::status::Status;
use caretaker_machinery::types::TypeRef;
use serde_json::{Map, Value};

use crate::kinds::ServedKind;
use crate::negotiate::MetaVersion;
use crate::store::StoredObject;
use crate::strategy::convert;
use crate::types::{named, served, types};

/// Why [`decode`] refuses an object of a kind that has no row in `types.txt`.
pub const NOT_BUILT_IN: &str = "is no built-in kind";

/// A body whose envelope, or the message in it, cannot be decoded.
#[derive(Debug)]
pub(crate) enum ProtobufFault {
    Envelope(ProtoError),
    Message {
        /// The members `apiVersion` and `kind`, if the envelope has them.
        names: Map<String, Value>,
        error: ProtoError,
    },
}

/// Decodes a body into a tree with the apiVersion and the kind of its envelope.
pub(crate) fn read(bytes: &[u8], of: TypeRef) -> Result<Map<String, Value>, ProtobufFault> {
    let envelope = ProtoEnvelope::open(bytes).map_err(ProtobufFault::Envelope)?;
    let mut names = Map::new();
    // Like upstream, an apiVersion of three parts counts as none.
    let api_version = Some(envelope.api_version).filter(|text| text.matches('/').count() < 2);
    for (name, text) in [
        ("apiVersion", api_version.unwrap_or_default()),
        ("kind", envelope.kind),
    ] {
        if !text.is_empty() {
            names.insert(name.into(), text.into());
        }
    }
    match proto::decode(types(), of, envelope.raw) {
        Ok(mut tree) => {
            tree.append(&mut names);
            Ok(tree)
        }
        Err(error) => Err(ProtobufFault::Message { names, error }),
    }
}

/// Encodes an object in the version of `kind`, without an envelope.
pub(crate) fn object_message(
    kind: &ServedKind,
    object: &StoredObject,
) -> Result<Vec<u8>, serde_json::Error> {
    let of = served(kind).ok_or_else(|| no_type(&kind.kind))?;
    match convert::from_stored(kind, object) {
        Some(converted) => proto::encode(types(), of, Value::Object(converted)),
        None => encode_bytes(of, &object.bytes),
    }
}

/// Encodes a PartialObjectMetadata, without an envelope.
pub(crate) fn metadata_message(object: &StoredObject) -> Result<Vec<u8>, serde_json::Error> {
    let of = named("meta.k8s.io/v1", "ObjectMeta").ok_or_else(|| no_type("ObjectMeta"))?;
    let metadata = encode_bytes(of, object.meta())?;
    let mut message = Vec::with_capacity(metadata.len() + 4);
    proto::push_message(&mut message, 1, &metadata);
    Ok(message)
}

/// Encodes an object in its envelope: whole, or its metadata only.
pub(crate) fn object(
    kind: &ServedKind,
    object: &StoredObject,
    metadata: Option<MetaVersion>,
) -> Result<Vec<u8>, serde_json::Error> {
    let (message, api_version) = match metadata {
        Some(version) => (metadata_message(object)?, version.api_version().to_owned()),
        None => (object_message(kind, object)?, kind.api_version()),
    };
    let envelope = ProtoEnvelope {
        api_version: &api_version,
        kind: match metadata {
            Some(_) => "PartialObjectMetadata",
            None => &kind.kind,
        },
        raw: &message,
    };
    Ok(envelope.to_bytes())
}

/// Encodes an object or a list of a built-in kind, in its envelope.
///
/// # Errors
/// If no built-in kind has its apiVersion and kind, or a value has another type than the field.
pub fn encode(tree: &Value) -> Result<Vec<u8>, serde_json::Error> {
    let text = |member: &str| tree[member].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let message = match (named(api_version, kind), kind.strip_suffix("List")) {
        (Some(of), _) => proto::encode(types(), of, tree)?,
        (None, Some(item)) => {
            let items = tree["items"].as_array().into_iter().flatten();
            let of = named(api_version, item).ok_or_else(|| no_type(kind))?;
            let mut list = list_head(&tree["metadata"])?;
            for item in items {
                proto::push_message(&mut list, 2, &proto::encode(types(), of, item)?);
            }
            list
        }
        (None, None) => return Err(no_type(kind)),
    };
    let envelope = ProtoEnvelope {
        api_version,
        kind,
        raw: &message,
    };
    Ok(envelope.to_bytes())
}

/// Decodes an object or a list of a built-in kind from its envelope.
///
/// # Errors
/// If the bytes are malformed, or no built-in kind has the apiVersion and kind of the envelope.
pub fn decode(bytes: &[u8]) -> Result<Value, ProtoError> {
    let ProtoEnvelope {
        api_version,
        kind,
        raw,
    } = ProtoEnvelope::open(bytes)?;
    let unknown = || ProtoError::Value {
        field: kind.to_owned(),
        why: NOT_BUILT_IN.to_owned(),
    };
    let mut tree = match (named(api_version, kind), kind.strip_suffix("List")) {
        (Some(of), _) => proto::decode(types(), of, raw)?,
        (None, Some(item)) => {
            let of = named(api_version, item).ok_or_else(unknown)?;
            decode_list(of, raw)?
        }
        (None, None) => return Err(unknown()),
    };
    for (name, text) in [("apiVersion", api_version), ("kind", kind)] {
        if !text.is_empty() {
            tree.insert(name.into(), text.into());
        }
    }
    Ok(Value::Object(tree))
}

fn decode_list(of: TypeRef, list: &[u8]) -> Result<Map<String, Value>, ProtoError> {
    let (mut tree, mut items) = (Map::new(), Vec::new());
    for field in ProtoFields::of(list) {
        let (number, value) = field.map_err(|_| ProtoError::Truncated)?;
        let message = value.bytes().map_err(|_| ProtoError::Truncated)?;
        match (number, named("meta.k8s.io/v1", "ListMeta")) {
            (1, Some(meta)) => {
                let meta = proto::decode(types(), meta, message)?;
                tree.insert("metadata".into(), Value::Object(meta));
            }
            (2, _) => items.push(Value::Object(proto::decode(types(), of, message)?)),
            _ => {}
        }
    }
    tree.insert("items".into(), items.into());
    Ok(tree)
}

/// Encodes the metadata of a list, with which every list begins. Its items follow as field 2.
pub(crate) fn list_head(metadata: &Value) -> Result<Vec<u8>, serde_json::Error> {
    let of = named("meta.k8s.io/v1", "ListMeta").ok_or_else(|| no_type("ListMeta"))?;
    let metadata = proto::encode(types(), of, metadata)?;
    let mut list = Vec::new();
    proto::push_message(&mut list, 1, &metadata);
    Ok(list)
}

/// Returns the answer if an object cannot be encoded. Decoding checks all types, so this is an error of the server.
pub(crate) fn internal_error(error: &serde_json::Error) -> Status {
    tracing::error!(%error, "cannot encode an object as protobuf");
    Status::unexplained(format!("cannot encode the object as protobuf: {error}"))
}

fn encode_bytes(of: TypeRef, json: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    let mut input = serde_json::Deserializer::from_slice(json);
    proto::encode(types(), of, &mut input)
}

fn no_type(kind: &str) -> serde_json::Error {
    serde::de::Error::custom(format!("{kind} has no message"))
}

#[cfg(test)]
mod tests;
