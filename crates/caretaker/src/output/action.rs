//! Action and reason of a write, in the words of summary lines.
//!
//! Every rule id that leads to a write is a row of [`RULES`]. Each action has one verb, wherever it is printed.

use caretaker_controllers::runtime::evidence::Evidence;

use self::WriteAction::{Create, Delete, Detach, Orphan, RecordStatus, Release, Unblock};

/// Rule id, action, and the reason in a few words. The reason may be empty.
const RULES: &[(&str, WriteAction, &str)] = &[
    ("OwnerAbsent", Delete, "owner deleted"),
    ("OwnerWaiting", Delete, "owner is deleted in the foreground"),
    ("Orphaned", Orphan, ""),
    ("LosesOwners", Detach, ""),
    ("Ring", Unblock, ""),
    ("DependentsGone", Release, ""),
    ("DependentsOrphaned", Release, ""),
    ("Terminated", Delete, "too many terminated Pods"),
    ("OutOfService", Delete, "Node out of service"),
    ("NodeGone", Delete, "Node gone"),
    ("Unscheduled", Delete, "never scheduled"),
    ("Expired", Delete, "TTL expired"),
    ("AbortedLongAgo", Delete, "aborted long ago"),
    ("SlotCame", Create, ""),
    ("RecordsStatus", RecordStatus, ""),
    ("OverHistoryLimit", Delete, "over the history limit"),
    ("Replaced", Delete, "replaced by the next Job"),
    ("Stray", Delete, "created without our owner reference"),
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

    /// `delete`, for what would be done, and `deleted`, for what was done.
    pub(crate) fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Delete => ("delete", "deleted"),
            Self::Orphan => ("orphan", "orphaned"),
            Self::Detach => ("detach", "detached"),
            Self::Unblock => ("unblock", "unblocked"),
            Self::Release => ("release", "released"),
            Self::Mark => ("mark", "marked"),
            Self::Create => ("create", "created"),
            Self::RecordStatus => ("update status of", "updated status of"),
        }
    }
}
