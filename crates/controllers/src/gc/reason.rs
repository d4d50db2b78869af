//! Why the collector does or does not do something, as values with a sentence each.
//!
//! The sentences go to evidence, to the log and to `explain`; they say what happens to "it", the object decided about.

use std::fmt;

use crate::runtime::call::AbsenceProof;
use crate::runtime::controller::{DecisionReason, ObjectIdentity};

/// Why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Nothing is known about it.
    Unknown,
    /// It refers to no owner.
    Unowned,
    /// An owner of it lives.
    Owned {
        /// That owner.
        owner: ObjectIdentity,
    },
    /// It is being deleted already, and nothing of that is the collector's business.
    Deleting,
    /// Its delete was acknowledged.
    Going,
    /// A list did not show it.
    Doubtful,
    /// All its owners are gone.
    OwnerAbsent {
        /// The first of them.
        owner: ObjectIdentity,
        /// How that is known.
        proof: AbsenceProof,
    },
    /// An owner waits for it to go, and no other owner lives.
    OwnerWaiting {
        /// That owner.
        owner: ObjectIdentity,
    },
    /// Some of its owners are gone or wait for it, and another one lives.
    LosesOwners {
        /// Those it is separated from.
        owners: Vec<ObjectIdentity>,
        /// One that lives.
        kept: ObjectIdentity,
    },
    /// An owner is being deleted without its dependents.
    Orphaned {
        /// That owner.
        owner: ObjectIdentity,
    },
    /// It and its owner wait for each other.
    Ring {
        /// One it waits for.
        with: ObjectIdentity,
    },
    /// It waits for dependents that block its end.
    WaitsForDependents {
        /// How many references block it.
        blocking: u32,
    },
    /// It waits for its dependents to be separated from it.
    WaitsForOrphans {
        /// One of them.
        next: ObjectIdentity,
    },
    /// It waits until all kinds have been listed once: they may hold more dependents.
    WaitsForKinds {
        /// Those kinds.
        kinds: Vec<String>,
    },
    /// Its dependents are gone, so it may go.
    DependentsGone {
        /// Kinds that could not be listed in time.
        unseen: Vec<String>,
    },
    /// Its dependents are separated from it, so it may go.
    DependentsOrphaned {
        /// Kinds that could not be listed in time.
        unseen: Vec<String>,
    },
    /// Whether an owner lives has to be asked.
    AsksFor {
        /// That owner.
        owner: ObjectIdentity,
    },
    /// An owner's kind is about to be listed for the first time, which will answer the question.
    WaitsForList {
        /// That owner.
        owner: ObjectIdentity,
    },
    /// An owner's type is not served: it is presumed alive.
    Unserved {
        /// That owner.
        owner: ObjectIdentity,
    },
    /// It belongs to the cluster, and an owner's kind lives in namespaces: no such owner can exist, and upstream leaves
    /// such objects alone.
    OutOfReach {
        /// That owner.
        owner: ObjectIdentity,
    },
    /// A kind's past was taken back; nothing follows until it has been listed again.
    Frozen {
        /// That kind.
        kind: String,
    },
    /// As an owner: it was found, and no feed shows it; it is looked at again later.
    NotShown,
    /// As an owner: nobody needs to know.
    Settled,
}

// === impl Reason ===

impl DecisionReason for Reason {
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

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("nothing is known about it"),
            Self::Unowned => f.write_str("it has no owner"),
            Self::Owned { owner } => write!(f, "its owner {owner} lives"),
            Self::Deleting => f.write_str("it is being deleted already"),
            Self::Going => f.write_str("its delete was acknowledged"),
            Self::Doubtful => f.write_str("a fresh list did not show it"),
            Self::OwnerAbsent { owner, proof } => write!(f, "its owner {owner} is gone: {proof}"),
            Self::OwnerWaiting { owner } => write!(f, "its owner {owner} waits for it to go"),
            Self::LosesOwners { owners, kept } => {
                let owners = listed(owners.iter());
                write!(f, "its owner {kept} lives, and {owners} let it go")
            }
            Self::Orphaned { owner } => write!(f, "its owner {owner} goes without it"),
            Self::Ring { with } => write!(f, "it and {with} wait for each other"),
            Self::WaitsForDependents { blocking: 1 } => f.write_str("one dependent blocks its end"),
            Self::WaitsForDependents { blocking } => {
                write!(f, "{blocking} dependents block its end")
            }
            Self::WaitsForOrphans { next } => write!(f, "{next} still refers to it"),
            Self::WaitsForKinds { kinds } => {
                write!(f, "{} have not been listed yet", listed(kinds.iter()))
            }
            Self::DependentsGone { unseen } => ready(f, "no dependent blocks its end", unseen),
            Self::DependentsOrphaned { unseen } => {
                ready(f, "no dependent refers to it any more", unseen)
            }
            Self::AsksFor { owner } => write!(f, "whether its owner {owner} lives is asked"),
            Self::WaitsForList { owner } => {
                write!(f, "the first list of its owner {owner}'s kind is awaited")
            }
            Self::Unserved { owner } => write!(
                f,
                "its owner {owner} is of a type the server does not have ({}), so it is presumed alive",
                owner.api_version
            ),
            Self::OutOfReach { owner } => write!(
                f,
                "it belongs to the cluster and its owner {owner} would be in a namespace"
            ),
            Self::Frozen { kind } => {
                write!(f, "the server's past changed, and {kind} are listed anew")
            }
            Self::NotShown => f.write_str("it was found, and its kind cannot be watched"),
            Self::Settled => f.write_str("nobody needs to know more about it"),
        }
    }
}

fn ready(f: &mut fmt::Formatter<'_>, what: &str, unseen: &[String]) -> fmt::Result {
    f.write_str(what)?;
    if unseen.is_empty() {
        return Ok(());
    }
    let kinds = listed(unseen.iter());
    write!(
        f,
        ", as far as is known: {kinds} could not be listed in time"
    )
}

fn listed(items: impl Iterator<Item = impl ToString>) -> String {
    let items: Vec<String> = items.map(|item| item.to_string()).collect();
    items.join(", ")
}
