//! The reason of each decision of the collector, with an identifier and a sentence.
//!
//! The sentences are printed by evidence, the log and `explain`; thiserror formats them, although no reason is an error.
//! In them, "it" is the object of the decision.

use crate::runtime::call::AbsenceProof;
use crate::runtime::controller::{DecisionReason, ObjectIdentity};

/// How many kinds a sentence names.
const KINDS_NAMED: usize = 5;

/// The reason of a decision about an object, an owner or a kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GcReason {
    #[error("the collector does not know it")]
    Unknown,
    #[error("it has no owner")]
    Unowned,
    #[error("its owner {owner} exists")]
    Owned { owner: ObjectIdentity },
    /// It needs nothing from the collector.
    #[error("it is being deleted already")]
    Deleting,
    #[error("its delete was acknowledged")]
    Going,
    #[error("a relist did not show it, or the watch of its kind was lost")]
    Doubtful,
    /// All its owners are absent.
    #[error("its owner {owner} is gone: {proof}")]
    OwnerAbsent {
        /// The first absent owner.
        owner: ObjectIdentity,
        proof: AbsenceProof,
    },
    /// An owner in foreground deletion waits for it, and no other owner exists.
    #[error("its owner {owner} waits for it to go")]
    OwnerWaiting { owner: ObjectIdentity },
    #[error(
        "its owner {kept} exists; {} are gone or wait for it",
        comma_separated(owners)
    )]
    LosesOwners {
        /// The owners whose references are removed.
        owners: Vec<ObjectIdentity>,
        kept: ObjectIdentity,
    },
    /// An owner is in orphan deletion.
    #[error("its owner {owner} is deleted without its dependents")]
    Orphaned { owner: ObjectIdentity },
    /// It and its owner are in foreground deletion and block each other.
    #[error("it and {with} wait for each other")]
    Ring {
        /// The dependent that blocks it.
        with: ObjectIdentity,
    },
    /// It is in foreground deletion.
    #[error("{} its deletion", blocking_dependents(*blocking))]
    WaitsForDependents {
        /// The number of blocking references.
        blocking: u32,
    },
    /// It is in orphan deletion.
    #[error("{next} still refers to it")]
    WaitsForOrphans { next: ObjectIdentity },
    /// These kinds may have more dependents.
    #[error("{} have not been listed yet", comma_separated(kinds))]
    WaitsForKinds { kinds: Vec<String> },
    /// It is in orphan deletion, and these kinds may have more dependents.
    #[error(
        "the watches of {} have not reached its deletion yet",
        first_kinds(kinds)
    )]
    WaitsForWatches { kinds: Vec<String> },
    /// For a kind: owners in orphan deletion wait for it.
    #[error("{kind} are listed for dependents of owners that leave orphans")]
    LooksForDependents { kind: String },
    /// Its foreground finalizer is removed.
    #[error("no dependent blocks its deletion{}", unseen_kinds(unseen))]
    DependentsGone {
        /// Kinds that could not be listed in time.
        unseen: Vec<String>,
    },
    /// Its orphan finalizer is removed.
    #[error("no dependent refers to it any more{}", unseen_kinds(unseen))]
    DependentsOrphaned {
        /// Kinds that could not be listed in time.
        unseen: Vec<String>,
    },
    #[error("its owner {owner} is read from the server first")]
    AsksFor { owner: ObjectIdentity },
    #[error("it waits for the first list of the kind of its owner {owner}")]
    WaitsForList { owner: ObjectIdentity },
    #[error(
        "its owner {owner} is of a type the server does not have ({}), so it is presumed alive",
        owner.api_version
    )]
    Unserved { owner: ObjectIdentity },
    /// Such an owner cannot exist, and upstream does not delete such objects.
    #[error("it is cluster-scoped and its owner {owner} would be in a namespace")]
    OutOfReach { owner: ObjectIdentity },
    #[error("the server's store was restored, and {kind} are listed again first")]
    Frozen { kind: String },
    /// For an owner, which is read again later.
    #[error("it exists, but no watch shows it")]
    NotShown,
    /// For an owner.
    #[error("no dependent needs a lookup of it")]
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
            Self::WaitsForWatches { .. } => "WaitsForWatches",
            Self::LooksForDependents { .. } => "LooksForDependents",
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

fn blocking_dependents(blocking: u32) -> String {
    match blocking {
        1 => "one dependent blocks".to_owned(),
        _ => format!("{blocking} dependents block"),
    }
}

fn unseen_kinds(unseen: &[String]) -> String {
    if unseen.is_empty() {
        return String::new();
    }
    let kinds = first_kinds(unseen);
    format!(", but {kinds} could not be listed in time and may have more dependents")
}

/// The names of the first few kinds, and how many more there are.
fn first_kinds(kinds: &[String]) -> String {
    let named = comma_separated(&kinds[..kinds.len().min(KINDS_NAMED)]);
    match kinds.len().saturating_sub(KINDS_NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

fn comma_separated(items: &[impl ToString]) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    items.join(", ")
}
