//! The requests that a decision can ask for, and their answers.
//!
//! Controllers make calls; `effects` sends them and makes the answers. A write names the uid and the resourceVersion that
//! the decision was based on, so that the server refuses it if the object has changed since.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::kind::KindId;
use super::record::{ObjectRecord, Revision, Uid};

/// Exactly one request to the API server.
#[derive(Debug, Clone, PartialEq)]
pub enum ApiCall {
    /// Read one object from the quorum, in the view of the controller's feeds.
    Get { target: CallTarget },
    /// Read one object in a version that the server does not prefer.
    GetInVersion {
        target: CallTarget,
        version: Box<str>,
    },
    /// Read a page of all objects of a kind from the quorum, as metadata.
    List {
        /// The kind, without namespace and name.
        target: CallTarget,
        /// The `continue` token of the page before.
        token: Option<Box<str>>,
    },
    /// Create an object, or post to a subresource of one.
    Create {
        /// The object. It always has a name, so that a second create of it fails.
        target: CallTarget,
        /// The subresource, such as `binding`.
        subresource: Option<&'static str>,
        /// The whole object; `effects` adds neither kind nor name.
        object: Value,
    },
    Delete {
        target: CallTarget,
        /// The version that the decision was based on: the precondition of the delete.
        judged: JudgedVersion,
        /// What happens to the dependents; the kind's default if `None`.
        propagation: Option<DeletePropagation>,
        /// How long a Pod may take to stop; its `terminationGracePeriodSeconds` if `None`.
        grace_secs: Option<u32>,
    },
    Patch {
        target: CallTarget,
        /// The version that the decision was based on; `effects` writes it into the patch.
        judged: JudgedVersion,
        /// The subresource, such as `status`.
        subresource: Option<&'static str>,
        form: PatchForm,
        /// The patch without `uid` and `resourceVersion`.
        patch: Value,
    },
}

/// The object of a call: its kind, namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallTarget {
    pub kind: KindId,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: Box<str>,
    pub name: Box<str>,
}

/// The version of an object that a decision was based on. If the server has another one, it refuses the request: with 409,
/// or with 422 for a patch of an object with another uid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgedVersion {
    pub uid: Uid,
    pub revision: Revision,
}

/// The form of a patch, which decides how it changes lists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PatchForm {
    /// A JSON merge patch replaces whole lists. Every kind accepts it.
    #[default]
    Merge,
    /// A strategic merge patch changes single entries of a list by their key. Only built-in kinds accept it. It can write
    /// one condition without knowing the others.
    Strategic,
}

/// What happens to the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletePropagation {
    /// The dependents are deleted after the object.
    Background,
    /// The dependents are deleted before the object.
    Foreground,
    /// The dependents stay and lose their owner.
    Orphan,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum ApiAnswer {
    /// The object in its current version. After a delete: in its last one.
    Object(Arc<ObjectRecord>),
    /// A page of a list.
    Page(Arc<ObjectPage>),
    /// The request was accepted, and the response has no object.
    Done,
    /// The object provably does not exist.
    Absent(AbsenceProof),
    /// The request failed, or its response cannot be used.
    Failed(CallFailure),
}

/// A page of the objects of one kind. Objects that cannot be decoded are left out.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectPage {
    /// The version of the list, the same on all of its pages.
    pub revision: Revision,
    pub items: Vec<ObjectRecord>,
    /// The token of the next page; `None` on the last one.
    pub token: Option<Box<str>>,
}

/// The proof that an object does not exist. Nothing else counts as absence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AbsenceProof {
    /// A watch showed its DELETED event.
    Observed,
    /// Another object has its name.
    OtherUid(Uid),
    /// A well-formed 404 names the object, and discovery serves its kind.
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
    /// How long the server asked us to wait, capped.
    pub retry_after: Option<Duration>,
}

/// The kinds of failures that drivers or controllers treat differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// 409: the object has changed since the decision, or exists already.
    Conflict,
    /// Status 401 or 403.
    Forbidden,
    /// 403: the namespace is terminating, and nothing can be created in it.
    NamespaceEnding,
    /// The kind is not served, or the server does not know the path. This proves nothing about the object.
    NotServed,
    /// The server answered 429.
    TooManyRequests,
    /// Any other 4xx: the request itself is wrong.
    Refused,
    /// 5xx, an unreadable response, a timeout, or no connection.
    Unavailable,
    /// A row of the driver's gate closed after the decision, so the request was not sent.
    HeldBack,
}

// === impl ApiCall ===

impl ApiCall {
    /// The object that is read or written.
    #[must_use]
    pub fn target(&self) -> &CallTarget {
        match self {
            Self::Get { target }
            | Self::GetInVersion { target, .. }
            | Self::List { target, .. }
            | Self::Create { target, .. }
            | Self::Delete { target, .. }
            | Self::Patch { target, .. } => target,
        }
    }

    /// The verb as evidence and metrics name it.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Get { .. } | Self::GetInVersion { .. } => "get",
            Self::List { .. } => "list",
            Self::Create { .. } => "create",
            Self::Delete { .. } => "delete",
            Self::Patch { .. } => "patch",
        }
    }

    /// The version that the decision was based on; `None` for a read and for a create.
    #[must_use]
    pub fn judged(&self) -> Option<&JudgedVersion> {
        match self {
            Self::Get { .. }
            | Self::GetInVersion { .. }
            | Self::List { .. }
            | Self::Create { .. } => None,
            Self::Delete { judged, .. } | Self::Patch { judged, .. } => Some(judged),
        }
    }

    /// Whether this writes the same to the same object as `other`. The versions that they were based on may differ.
    #[must_use]
    pub fn is_same_write(&self, other: &Self) -> bool {
        if self.is_read() || self.target() != other.target() {
            return false;
        }
        let mut other = other.clone();
        if let (Self::Delete { judged, .. } | Self::Patch { judged, .. }, Some(own)) =
            (&mut other, self.judged())
        {
            judged.revision = own.revision.clone();
        }
        *self == other
    }

    /// Whether the call changes nothing in the cluster.
    #[must_use]
    pub fn is_read(&self) -> bool {
        matches!(
            self,
            Self::Get { .. } | Self::GetInVersion { .. } | Self::List { .. }
        )
    }
}

// === impl CallTarget ===

impl CallTarget {
    /// All objects of a kind.
    #[must_use]
    pub fn collection(kind: KindId) -> Self {
        Self {
            kind,
            namespace: "".into(),
            name: "".into(),
        }
    }
}

// === impl CallTarget ===

impl CallTarget {
    /// The object of this kind, namespace and name.
    pub fn new(kind: KindId, namespace: impl Into<Box<str>>, name: impl Into<Box<str>>) -> Self {
        Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

// === impl JudgedVersion ===

impl JudgedVersion {
    pub(crate) fn new(uid: &Uid, revision: &Revision) -> Self {
        Self {
            uid: uid.clone(),
            revision: revision.clone(),
        }
    }
}

// === impl PatchForm ===

impl PatchForm {
    /// The value of the `Content-Type` header.
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
    /// The value of `propagationPolicy` in `DeleteOptions`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

// === impl ApiAnswer ===

impl ApiAnswer {
    /// Whether the server refused the request because the object has changed, or exists already.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Failed(failure) if failure.kind == FailureKind::Conflict)
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

impl CallFailure {
    /// A failure without a `Retry-After`.
    pub(crate) fn new(kind: FailureKind, status: Option<u16>, message: String) -> Self {
        Self {
            kind,
            status,
            message,
            retry_after: None,
        }
    }
}

impl fmt::Display for CallFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "{status}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}
