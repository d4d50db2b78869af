//! The reason of each decision of the collector, with an identifier and a sentence.
//!
//! The sentences are printed by evidence, the log and `explain`. In them, "it" is the object of the decision.

use std::fmt;

use crate::runtime::call::AbsenceProof;
use crate::runtime::controller::{DecisionReason, ObjectIdentity};

/// The reason of a decision about an object or an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GcReason {
    /// The index does not have it.
    Unknown,
    /// It has no ownerReferences.
    Unowned,
    /// One of its owners exists.
    Owned { owner: ObjectIdentity },
    /// It is being deleted already, and needs nothing from the collector.
    Deleting,
    /// The server acknowledged our delete.
    Going,
    /// A relist did not show it, so it is read from the server.
    Doubtful,
    /// All its owners are absent.
    OwnerAbsent {
        /// The first absent owner.
        owner: ObjectIdentity,
        proof: AbsenceProof,
    },
    /// An owner in foreground deletion waits for it, and no other owner exists.
    OwnerWaiting { owner: ObjectIdentity },
    /// Some of its owners are absent or wait for it, and another owner exists.
    LosesOwners {
        /// The owners whose references are removed.
        owners: Vec<ObjectIdentity>,
        /// An owner that exists.
        kept: ObjectIdentity,
    },
    /// An owner is in orphan deletion.
    Orphaned { owner: ObjectIdentity },
    /// It and its owner are in foreground deletion and block each other.
    Ring {
        /// The dependent that blocks it.
        with: ObjectIdentity,
    },
    /// It is in foreground deletion and dependents block it.
    WaitsForDependents {
        /// The number of blocking references.
        blocking: u32,
    },
    /// It is in orphan deletion and dependents still refer to it.
    WaitsForOrphans {
        /// One of these dependents.
        next: ObjectIdentity,
    },
    /// It waits for the first list of some kinds, which may have more dependents.
    WaitsForKinds { kinds: Vec<String> },
    /// No dependent blocks its foreground deletion, so its finalizer is removed.
    DependentsGone {
        /// Kinds that could not be listed in time.
        unseen: Vec<String>,
    },
    /// No dependent refers to it, so its orphan finalizer is removed.
    DependentsOrphaned {
        /// Kinds that could not be listed in time.
        unseen: Vec<String>,
    },
    /// An owner has to be read from the server.
    AsksFor { owner: ObjectIdentity },
    /// An owner's kind is in its first list, which will show the owner or not.
    WaitsForList { owner: ObjectIdentity },
    /// An owner's type is not served, so the owner is presumed alive.
    Unserved { owner: ObjectIdentity },
    /// It is cluster-scoped and an owner's kind is namespaced. Such an owner cannot exist, and upstream does not delete
    /// such objects.
    OutOfReach { owner: ObjectIdentity },
    /// The server's store was restored; the kind is listed again before anything is written.
    Frozen { kind: String },
    /// For an owner: it was found and no feed shows it, so it is read again later.
    NotShown,
    /// For an owner: no dependent needs a lookup.
    Settled,
}

// === impl GcReason ===

impl DecisionReason for GcReason {
    fn rule(&self) -> &'static str {
        match self {
            Self::Unknown => "Unknown",
            Self::Unowned => "Unowned",
            Self::Owned { .. } => "Owned",
            Self::Deleting => "Deleting",
            Self::Going => "Going",
            Self::Doubtful => "Doubtful",
            Self::OwnerAbsent { .. } => "OwnerAbsent",
            Self::OwnerWaiting { .. } => "OwnerWaiting",
            Self::LosesOwners { .. } => "LosesOwners",
            Self::Orphaned { .. } => "Orphaned",
            Self::Ring { .. } => "Ring",
            Self::WaitsForDependents { .. } => "WaitsForDependents",
            Self::WaitsForOrphans { .. } => "WaitsForOrphans",
            Self::WaitsForKinds { .. } => "WaitsForKinds",
            Self::DependentsGone { .. } => "DependentsGone",
            Self::DependentsOrphaned { .. } => "DependentsOrphaned",
            Self::AsksFor { .. } => "AsksFor",
            Self::WaitsForList { .. } => "WaitsForList",
            Self::Unserved { .. } => "Unserved",
            Self::OutOfReach { .. } => "OutOfReach",
            Self::Frozen { .. } => "Frozen",
            Self::NotShown => "NotShown",
            Self::Settled => "Settled",
        }
    }

    fn proof(&self) -> Option<&AbsenceProof> {
        match self {
            Self::OwnerAbsent { proof, .. } => Some(proof),
            _ => None,
        }
    }

    fn cause(&self) -> Option<&ObjectIdentity> {
        match self {
            Self::OwnerAbsent { owner, .. }
            | Self::OwnerWaiting { owner }
            | Self::Orphaned { owner } => Some(owner),
            Self::LosesOwners { owners, .. } => owners.first(),
            _ => None,
        }
    }
}

impl fmt::Display for GcReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("the collector does not know it"),
            Self::Unowned => f.write_str("it has no owner"),
            Self::Owned { owner } => write!(f, "its owner {owner} exists"),
            Self::Deleting => f.write_str("it is being deleted already"),
            Self::Going => f.write_str("its delete was acknowledged"),
            Self::Doubtful => f.write_str("a relist did not show it"),
            Self::OwnerAbsent { owner, proof } => write!(f, "its owner {owner} is gone: {proof}"),
            Self::OwnerWaiting { owner } => write!(f, "its owner {owner} waits for it to go"),
            Self::LosesOwners { owners, kept } => {
                let owners = comma_separated(owners.iter());
                write!(
                    f,
                    "its owner {kept} exists; {owners} are gone or wait for it"
                )
            }
            Self::Orphaned { owner } => {
                write!(f, "its owner {owner} is deleted without its dependents")
            }
            Self::Ring { with } => write!(f, "it and {with} wait for each other"),
            Self::WaitsForDependents { blocking: 1 } => {
                f.write_str("one dependent blocks its deletion")
            }
            Self::WaitsForDependents { blocking } => {
                write!(f, "{blocking} dependents block its deletion")
            }
            Self::WaitsForOrphans { next } => write!(f, "{next} still refers to it"),
            Self::WaitsForKinds { kinds } => {
                write!(
                    f,
                    "{} have not been listed yet",
                    comma_separated(kinds.iter())
                )
            }
            Self::DependentsGone { unseen } => {
                release_sentence(f, "no dependent blocks its deletion", unseen)
            }
            Self::DependentsOrphaned { unseen } => {
                release_sentence(f, "no dependent refers to it any more", unseen)
            }
            Self::AsksFor { owner } => write!(f, "its owner {owner} is read from the server first"),
            Self::WaitsForList { owner } => {
                write!(
                    f,
                    "it waits for the first list of the kind of its owner {owner}"
                )
            }
            Self::Unserved { owner } => write!(
                f,
                "its owner {owner} is of a type the server does not have ({}), so it is presumed alive",
                owner.api_version
            ),
            Self::OutOfReach { owner } => write!(
                f,
                "it is cluster-scoped and its owner {owner} would be in a namespace"
            ),
            Self::Frozen { kind } => {
                write!(
                    f,
                    "the server's store was restored, and {kind} are listed again first"
                )
            }
            Self::NotShown => f.write_str("it exists, but no watch shows it"),
            Self::Settled => f.write_str("no dependent needs a lookup of it"),
        }
    }
}

fn release_sentence(f: &mut fmt::Formatter<'_>, what: &str, unseen: &[String]) -> fmt::Result {
    f.write_str(what)?;
    if unseen.is_empty() {
        return Ok(());
    }
    let kinds = comma_separated(unseen.iter());
    write!(
        f,
        ", but {kinds} could not be listed in time and may have more dependents"
    )
}

fn comma_separated(items: impl Iterator<Item = impl ToString>) -> String {
    let items: Vec<String> = items.map(|item| item.to_string()).collect();
    items.join(", ")
}
