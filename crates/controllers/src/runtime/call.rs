//! The requests that a decision can ask for, and their answers.
//!
//! Controllers make calls, `effects` carries them out and makes the answers. A call names everything that the server
//! has to compare (uid and resourceVersion), because safety rests on the server comparing it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::kind::KindId;
use super::record::{ObjectRecord, Revision, Uid};

/// Exactly one request to the API server.
#[derive(Debug, Clone, PartialEq)]
pub enum ApiCall {
    /// Read one object from the quorum, as much of it as the controller's feeds show.
    Get {
        /// The object.
        target: CallTarget,
    },
    /// Make an object, or post to a subresource of one.
    Create {
        /// The object; it has a name, so that what was made twice is found out.
        target: CallTarget,
        /// The subresource, `binding`.
        subresource: Option<&'static str>,
        /// All of it; `effects` writes neither kind nor name into it.
        object: Value,
    },
    /// Delete one object.
    Delete {
        /// The object.
        target: CallTarget,
        /// What was judged.
        judged: JudgedVersion,
        /// What becomes of its dependents; the kind's default if not said.
        propagation: Option<DeletePropagation>,
        /// How long a Pod may take to stop; its own choice if not said.
        grace_secs: Option<u32>,
    },
    /// Change one object.
    Patch {
        /// The object.
        target: CallTarget,
        /// What was judged; `effects` writes it into the patch.
        judged: JudgedVersion,
        /// The subresource, `status`.
        subresource: Option<&'static str>,
        form: PatchForm,
        /// The rest of the patch.
        patch: Value,
    },
}

/// Where an object is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallTarget {
    /// What it is.
    pub kind: KindId,
    /// Its namespace; empty for objects of the cluster.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
}

/// Which copy of an object was judged. The server refuses the request with 409 if it has another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgedVersion {
    /// Its identity.
    pub uid: Uid,
    /// Its version.
    pub revision: Revision,
}

/// What a patch says about lists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PatchForm {
    /// All of each list: a JSON merge patch, the one form that every kind takes.
    #[default]
    Merge,
    /// Single entries by their key: a strategic merge patch, for built-in kinds. One condition can be written by it
    /// without knowing the others.
    Strategic,
}

/// What becomes of the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletePropagation {
    /// They go after it.
    Background,
    /// They go before it.
    Foreground,
    /// They stay.
    Orphan,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum ApiAnswer {
    /// The object as it is now. After a delete: as it was last.
    Object(Arc<ObjectRecord>),
    /// Done; the server had nothing to show.
    Done,
    /// The object that was asked for does not exist, and that is proven.
    Absent(AbsenceProof),
    /// The request failed, or its answer cannot be used.
    Failed(CallFailure),
}

/// How it is known that an object does not exist. Nothing else counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AbsenceProof {
    /// A watch showed its DELETED event.
    Observed,
    /// Another object lives under its name.
    OtherUid(Uid),
    /// A well-formed 404 names it, for a kind that discovery serves.
    NotFound,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFailure {
    pub kind: FailureKind,
    /// The HTTP status, if there was an answer.
    pub status: Option<u16>,
    /// The server's message, or why the server was not reached.
    pub message: String,
    /// How long the server wants no further request, capped.
    pub retry_after: Option<Duration>,
}

/// The kind of a failure, as far as drivers or controllers act on the difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// 409: the object changed since it was judged, or exists already.
    Conflict,
    /// 401 or 403.
    Forbidden,
    /// 403: the namespace is ending and takes nothing new.
    NamespaceEnding,
    /// The kind is not served, or the server does not know the path; says nothing about the object.
    NotServed,
    /// 429.
    TooManyRequests,
    /// Any other 4xx: the request itself is at fault.
    Refused,
    /// 5xx, an unreadable answer, a timeout, no connection.
    Unavailable,
}

// === impl ApiCall ===

impl ApiCall {
    /// The object it is about.
    #[must_use]
    pub fn target(&self) -> &CallTarget {
        match self {
            Self::Get { target }
            | Self::Create { target, .. }
            | Self::Delete { target, .. }
            | Self::Patch { target, .. } => target,
        }
    }

    /// The verb, as evidence and metrics name it.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Get { .. } => "get",
            Self::Create { .. } => "create",
            Self::Delete { .. } => "delete",
            Self::Patch { .. } => "patch",
        }
    }

    /// Which copy was judged; nothing for a read, and for what does not exist yet.
    #[must_use]
    pub fn judged(&self) -> Option<&JudgedVersion> {
        match self {
            Self::Get { .. } | Self::Create { .. } => None,
            Self::Delete { judged, .. } | Self::Patch { judged, .. } => Some(judged),
        }
    }

    /// Whether it leaves the cluster as it is.
    #[must_use]
    pub fn is_read(&self) -> bool {
        matches!(self, Self::Get { .. })
    }
}

// === impl PatchForm ===

impl PatchForm {
    /// As `Content-Type` spells it.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
        }
    }
}

// === impl DeletePropagation ===

impl DeletePropagation {
    /// As `DeleteOptions` spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

// === impl AbsenceProof ===

impl fmt::Display for AbsenceProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Observed => f.write_str("its deletion was observed"),
            Self::OtherUid(uid) => write!(f, "its name belongs to another object, uid {uid}"),
            Self::NotFound => f.write_str("the server does not have it"),
        }
    }
}

// === impl CallFailure ===

impl fmt::Display for CallFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "{status}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}
