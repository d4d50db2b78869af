//! Objects as controllers see them: the few parts of metadata that decisions read, and a body where somebody wants one.
//!
//! Records are made by feeds and effects and never changed. What nobody reads (labels, annotations, managedFields) is
//! skipped while decoding, at whatever depth it is nested.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;

use super::kind::KindId;

pub(crate) mod body;
mod decode;
mod proto;

pub use decode::{RecordView, UnreadableObject, decode};
pub(crate) use proto::{WatchFrame, decode_partial, watch_event};

/// An object at one resourceVersion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRecord {
    /// What it is.
    pub kind: KindId,
    /// Its metadata.
    pub meta: RecordMeta,
    /// The rest of it.
    pub body: RecordBody,
}

/// The metadata that decisions read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordMeta {
    /// Its name.
    pub name: Box<str>,
    /// Its namespace; empty for objects of the cluster.
    pub namespace: Box<str>,
    /// Its identity.
    pub uid: Uid,
    /// The version it was read at.
    pub revision: Revision,
    /// When its end was asked for, or will be reached.
    pub deletion: Option<Timestamp>,
    /// Who must agree before it goes.
    pub finalizers: Vec<Box<str>>,
    /// Whom it belongs to.
    pub owners: Vec<OwnerRef>,
}

/// What a feed hands on besides metadata.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RecordBody {
    /// Only metadata was asked for.
    #[default]
    None,
    /// The whole object as the server wrote it.
    Json(Bytes),
}

/// One of an object's `ownerReferences`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnerRef {
    /// `apps/v1`.
    pub api_version: Box<str>,
    /// `Deployment`.
    pub kind: Box<str>,
    /// The owner's name, in the dependent's namespace or in the cluster.
    pub name: Box<str>,
    /// The owner's identity.
    pub uid: Uid,
    /// Whether the owner manages this object; unset is kept apart from false, because patches write it back.
    pub controller: Option<bool>,
    /// Whether the owner's foreground deletion waits for this object.
    pub block_owner_deletion: Option<bool>,
}

/// An object's identity. Nothing makes servers use UUIDs, least of all in ownerReferences: other texts are kept as they are.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Uid {
    /// A UUID in its usual spelling.
    Uuid([u8; 16]),
    /// Anything else.
    Odd(Arc<str>),
}

/// A resourceVersion. Clients may compare the numbers; a text that is none is newer than nothing and older than nothing.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// A number in its usual spelling.
    Number(u64),
    /// Anything else.
    Odd(Arc<str>),
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
    fn a_uid_is_compact_only_in_its_usual_spelling_and_always_reads_as_it_was_written() {
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
