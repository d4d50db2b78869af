//! Objects as controllers see them: the parts of the metadata that decisions read, and a body if the controller asks for
//! full objects.
//!
//! Feeds and effects make records; a record never changes. Labels, annotations and managedFields are skipped while
//! decoding.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;

use super::kind::KindId;

pub(crate) mod body;
mod decode;
mod proto;

pub use decode::{DecodeError, RecordView, UnreadableObject, decode};
pub(crate) use proto::{decode_partial, watch_event};

/// An object at one resourceVersion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRecord {
    pub kind: KindId,
    pub meta: RecordMeta,
    pub body: RecordBody,
}

/// The metadata that decisions read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordMeta {
    pub name: Box<str>,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: Box<str>,
    pub uid: Uid,
    /// The resourceVersion at which the object was read.
    pub revision: Revision,
    /// The `deletionTimestamp`: when the delete was requested, or when the grace period of a Pod ends.
    pub deletion: Option<Timestamp>,
    pub finalizers: Vec<Box<str>>,
    /// The `ownerReferences`, in their order.
    pub owners: Vec<OwnerRef>,
}

/// The part of an object besides its metadata.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RecordBody {
    /// Only metadata was requested.
    #[default]
    None,
    /// The whole object as the server wrote it.
    Json(Bytes),
}

/// One of an object's `ownerReferences`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnerRef {
    pub api_version: Box<str>,
    pub kind: Box<str>,
    /// The name of an owner in the dependent's namespace, or of a cluster-scoped owner.
    pub name: Box<str>,
    pub uid: Uid,
    /// Whether the owner manages this object. Unset differs from false, because patches write it back.
    pub controller: Option<bool>,
    /// Whether the owner's foreground deletion waits for this object.
    pub block_owner_deletion: Option<bool>,
}

/// The uid of an object. Users can write any text into an ownerReference, so texts that are no UUID are kept as they are.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Uid {
    /// A UUID in lower case with hyphens.
    Uuid([u8; 16]),
    /// Any other text.
    Odd(Arc<str>),
}

/// A resourceVersion. Numbers can be compared; any other text is neither older nor newer than another version.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// A decimal number without leading zeros.
    Number(u64),
    /// Any other text.
    Odd(Arc<str>),
}

// === impl RecordBody ===

impl RecordBody {
    /// The whole object; empty if only metadata was requested.
    pub(crate) fn json(&self) -> Bytes {
        match self {
            Self::None => Bytes::new(),
            Self::Json(json) => json.clone(),
        }
    }
}

// === impl Uid ===

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        match uuid::Uuid::try_parse(text) {
            Ok(uuid) if *uuid.hyphenated().encode_lower(&mut [0; 36]) == *text => {
                Self::Uuid(uuid.into_bytes())
            }
            _ => Self::Odd(text.into()),
        }
    }
}

impl Default for Uid {
    fn default() -> Self {
        Self::Odd("".into())
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uuid(bytes) => uuid::Uuid::from_bytes(*bytes).hyphenated().fmt(f),
            Self::Odd(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// === impl Revision ===

impl Revision {
    /// Whether this is certainly an earlier version than `other`.
    #[must_use]
    pub fn is_before(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Number(own), Self::Number(other)) if own < other)
    }

    /// Whether a server compares this version. It takes an empty version, or version 0, for any version.
    pub(crate) fn is_exact(&self) -> bool {
        match self {
            Self::Number(number) => *number > 0,
            Self::Odd(text) => !text.is_empty(),
        }
    }

    pub(crate) fn number(&self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Odd(_) => None,
        }
    }
}

impl From<&str> for Revision {
    fn from(text: &str) -> Self {
        match text.parse::<u64>() {
            Ok(number) if number.to_string() == text => Self::Number(number),
            _ => Self::Odd(text.into()),
        }
    }
}

impl Default for Revision {
    fn default() -> Self {
        Self::Odd("".into())
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Odd(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_displays_as_it_was_written() {
        let usual = "0a1b2c3d-0000-4000-8000-00000000abcd";
        assert!(matches!(Uid::from(usual), Uid::Uuid(_)));
        let upper = usual.to_uppercase();
        let plain = usual.replace('-', "");
        for odd in ["", "x", &upper, &plain, "\0", "é"] {
            assert!(matches!(Uid::from(odd), Uid::Odd(_)), "{odd}");
            assert_eq!(Uid::from(odd).to_string(), odd);
        }
        assert_eq!(Uid::from(usual).to_string(), usual);
        assert_ne!(Uid::from(usual), Uid::from(upper.as_str()));
    }

    #[test]
    fn only_numbers_are_earlier_or_later() {
        let before = |a: &str, b: &str| Revision::from(a).is_before(&Revision::from(b));
        assert!(before("9", "10"));
        assert!(!before("10", "10") && !before("10", "9"));
        for odd in ["", "x", "007", "-1", "18446744073709551616"] {
            assert!(!before(odd, "5") && !before("5", odd), "{odd}");
            assert_eq!(Revision::from(odd).to_string(), odd);
        }
    }
}
