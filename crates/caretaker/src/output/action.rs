//! Action and reason of a write, in the words of summary lines.
//!
//! Every rule id that leads to a write is a row of [`RULES`]. Each action has one verb, wherever it is printed.

use caretaker_controllers::runtime::evidence::Evidence;

/// Rule id, action, and the reason in a few words. The reason may be empty.
const RULES: &[(&str, WriteAction, &str)] = &[
    ("OwnerAbsent", WriteAction::Delete, "owner deleted"),
    (
        "OwnerWaiting",
        WriteAction::Delete,
        "owner is deleted in the foreground",
    ),
    ("Orphaned", WriteAction::Orphan, ""),
    ("LosesOwners", WriteAction::Detach, ""),
    ("Ring", WriteAction::Unblock, ""),
    ("DependentsGone", WriteAction::Release, ""),
    ("DependentsOrphaned", WriteAction::Release, ""),
    (
        "Terminated",
        WriteAction::Delete,
        "too many terminated Pods",
    ),
    ("OutOfService", WriteAction::Delete, "Node out of service"),
    ("NodeGone", WriteAction::Delete, "Node gone"),
    ("Unscheduled", WriteAction::Delete, "never scheduled"),
    ("Expired", WriteAction::Delete, "TTL expired"),
    ("AbortedLongAgo", WriteAction::Delete, "aborted long ago"),
    ("SlotCame", WriteAction::Create, ""),
    ("RecordsStatus", WriteAction::RecordStatus, ""),
    (
        "OverHistoryLimit",
        WriteAction::Delete,
        "over the history limit",
    ),
    ("Replaced", WriteAction::Delete, "replaced by the next Job"),
    (
        "Stray",
        WriteAction::Delete,
        "created without our owner reference",
    ),
];

/// The order is the one in which a summary line names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WriteAction {
    Delete,
    /// Removes the reference to an owner that is deleted with `Orphan`.
    Orphan,
    /// Removes the reference to an owner that is gone; other owners remain.
    Detach,
    /// Sets `blockOwnerDeletion` to false, to break a cycle of waiting owners.
    Unblock,
    /// Removes the finalizer of an owner that has waited for its dependents.
    Release,
    /// Patches the status of a Pod to `Failed` before its deletion.
    Mark,
    Create,
    RecordStatus,
}

// === impl WriteAction ===

impl WriteAction {
    /// The action of a record and its reason. An unknown rule is judged by the verb of its request.
    pub(crate) fn of(record: &Evidence) -> (Self, &'static str) {
        let rule = record.because["rule"].as_str().unwrap_or_default();
        match RULES.iter().find(|(known, _, _)| *known == rule) {
            Some((_, Self::Delete, why)) if record.verb == "patch" => (Self::Mark, why),
            Some((_, action, why)) => (*action, why),
            None => match record.verb {
                "delete" => (Self::Delete, ""),
                "create" => (Self::Create, ""),
                _ => (Self::Detach, ""),
            },
        }
    }

    /// `delete`, for what failed or would be done.
    pub(crate) fn verb(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Orphan => "orphan",
            Self::Detach => "detach",
            Self::Unblock => "unblock",
            Self::Release => "release",
            Self::Mark => "mark",
            Self::Create => "create",
            Self::RecordStatus => "update status of",
        }
    }

    /// `deleted`, for what was done.
    pub(crate) fn past(self) -> &'static str {
        match self {
            Self::Delete => "deleted",
            Self::Orphan => "orphaned",
            Self::Detach => "detached",
            Self::Unblock => "unblocked",
            Self::Release => "released",
            Self::Mark => "marked",
            Self::Create => "created",
            Self::RecordStatus => "updated status of",
        }
    }
}
