//! Why Pod GC does or does not do something, as values with a sentence each.
//!
//! The sentences go to evidence, to the log and to `explain`; they say what happens to "it", the object decided about.

use std::fmt;

use jiff::Timestamp;

use super::Sweep;
use crate::runtime::call::AbsenceProof;
use crate::runtime::controller::{DecisionReason, ObjectIdentity};

/// Why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Nothing is known about it.
    Unknown,
    /// Pods or Nodes have not been listed yet.
    Unlisted,
    /// A kind's past was taken back; nothing follows until it has been listed again.
    Frozen,
    /// No sweep wants it.
    Unwanted,
    /// Its delete was acknowledged.
    Going,
    /// All that can be asked for was asked for; others have to take their finalizers off.
    Held,
    /// A sweep wants it, and its next round has not come.
    AtNextRound {
        /// Which one.
        sweep: Sweep,
        /// When.
        until: Timestamp,
    },
    /// Its Node is missing, but not for long enough.
    Quarantined {
        /// That Node.
        node: String,
        /// How long that is.
        until: Timestamp,
    },
    /// It depends on its Node, and whether that is as it seems has to be asked.
    AsksFor {
        /// That Node.
        node: String,
    },
    /// Its Node was out of service and has just gone; the feed has not shown that yet.
    NodeVanishing {
        /// That Node.
        node: String,
    },
    /// It has terminated, and more have than are kept.
    Terminated {
        /// How many are kept.
        kept: usize,
        /// In this namespace; of all without one.
        namespace: Option<String>,
    },
    /// It is being deleted, on a Node that is not ready and out of service.
    OutOfService {
        /// That Node.
        node: String,
    },
    /// Its Node is gone.
    NodeGone {
        /// That Node.
        node: ObjectIdentity,
        /// How that is known.
        proof: AbsenceProof,
    },
    /// It is being deleted and was never bound to a Node.
    Unscheduled,
    /// As a Node: nobody needs to know.
    Settled,
}

// === impl Reason ===

impl Reason {
    /// The sweep that carries something out for this reason.
    #[must_use]
    pub fn sweep(&self) -> Option<Sweep> {
        match self {
            Self::Terminated { .. } => Some(Sweep::Terminated),
            Self::OutOfService { .. } => Some(Sweep::OutOfService),
            Self::NodeGone { .. } => Some(Sweep::Orphaned),
            Self::Unscheduled => Some(Sweep::Unscheduled),
            _ => None,
        }
    }

    /// A Node that is known by its name only.
    pub(super) fn node(name: String) -> ObjectIdentity {
        ObjectIdentity {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name,
            ..ObjectIdentity::default()
        }
    }
}

impl DecisionReason for Reason {
    fn rule(&self) -> &'static str {
        match self {
            Self::Unknown => "Unknown",
            Self::Unlisted => "Unlisted",
            Self::Frozen => "Frozen",
            Self::Unwanted => "Unwanted",
            Self::Going => "Going",
            Self::Held => "Held",
            Self::AtNextRound { .. } => "AtNextRound",
            Self::Quarantined { .. } => "Quarantined",
            Self::AsksFor { .. } => "AsksFor",
            Self::NodeVanishing { .. } => "NodeVanishing",
            Self::Terminated { .. } => "Terminated",
            Self::OutOfService { .. } => "OutOfService",
            Self::NodeGone { .. } => "NodeGone",
            Self::Unscheduled => "Unscheduled",
            Self::Settled => "Settled",
        }
    }

    fn proof(&self) -> Option<&AbsenceProof> {
        match self {
            Self::NodeGone { proof, .. } => Some(proof),
            _ => None,
        }
    }

    fn cause(&self) -> Option<&ObjectIdentity> {
        match self {
            Self::NodeGone { node, .. } => Some(node),
            _ => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("nothing is known about it"),
            Self::Unlisted => f.write_str("Pods and Nodes have not been listed yet"),
            Self::Frozen => f.write_str("the server's past changed, and it is listed anew"),
            Self::Unwanted => f.write_str("it is no Pod that has to be cleaned up"),
            Self::Going => f.write_str("its delete was acknowledged"),
            Self::Held => f.write_str("its finalizers hold it, and nothing more can be done"),
            Self::AtNextRound { sweep, until } => {
                write!(f, "{}, and the next round is at {until:.0}", words(*sweep))
            }
            Self::Quarantined { node, until } => write!(
                f,
                "its Node {node} is missing; if it still is at {until:.0}, it goes"
            ),
            Self::AsksFor { node } => write!(f, "whether Node {node} is there is asked"),
            Self::NodeVanishing { node } => write!(f, "its Node {node} has just gone"),
            Self::Terminated { kept, namespace } => {
                write!(f, "it has terminated, and more than {kept} Pods have")?;
                match namespace {
                    Some(namespace) => write!(f, " in {namespace}"),
                    None => Ok(()),
                }
            }
            Self::OutOfService { node } => {
                write!(
                    f,
                    "it is being deleted, and its Node {node} is out of service"
                )
            }
            Self::NodeGone { node, proof } => write!(f, "its {node} is gone: {proof}"),
            Self::Unscheduled => f.write_str(words(Sweep::Unscheduled)),
            Self::Settled => f.write_str("nobody needs to know more about it"),
        }
    }
}

fn words(sweep: Sweep) -> &'static str {
    match sweep {
        Sweep::Terminated => "it has terminated, and more Pods have than are kept",
        Sweep::OutOfService => "it is being deleted, and its Node is out of service",
        Sweep::Orphaned => "its Node is missing",
        Sweep::Unscheduled => "it is being deleted and was never bound to a Node",
    }
}
