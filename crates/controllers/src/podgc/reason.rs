//! The reason of each decision of Pod GC, with an identifier and a sentence.
//!
//! The sentences are printed by evidence, the log and `explain`. In them, "it" is the object of the decision.

use std::fmt;

use jiff::Timestamp;

use super::PodSweep;
use crate::runtime::call::AbsenceProof;
use crate::runtime::controller::{DecisionReason, ObjectIdentity};

/// The reason of a decision about a Pod or a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodGcReason {
    /// The index does not have it.
    Unknown,
    /// Pods or Nodes have not been listed yet.
    Unlisted,
    /// The server's store was restored; Pods and Nodes are listed again before anything is written.
    Frozen,
    /// No sweep wants it.
    Unwanted,
    /// The server acknowledged our delete.
    Going,
    /// It was marked and deleted already, and only finalizers keep it.
    Held,
    /// A sweep wants it at the next round.
    AtNextRound { sweep: PodSweep, until: Timestamp },
    /// Its Node is missing, and the quarantine has not ended.
    Quarantined { node: String, until: Timestamp },
    /// Its Node has to be read from the server first.
    AsksFor { node: String },
    /// Its Node was out of service and is gone, but the feed has not shown the DELETED event yet.
    NodeVanishing { node: String },
    /// It has terminated and is over the threshold.
    Terminated {
        kept: usize,
        /// The namespace if the threshold is that of a namespace.
        namespace: Option<String>,
    },
    /// It is being deleted, on a Node that is not ready and out of service.
    OutOfService { node: String },
    /// Its Node is proven absent.
    NodeGone {
        node: ObjectIdentity,
        proof: AbsenceProof,
    },
    /// It is being deleted and was never bound to a Node.
    Unscheduled,
    /// For a Node: no Pod needs a lookup.
    Settled,
}

// === impl PodGcReason ===

impl PodGcReason {
    /// The sweep that removes a Pod for this reason.
    #[must_use]
    pub fn sweep(&self) -> Option<PodSweep> {
        match self {
            Self::Terminated { .. } => Some(PodSweep::Terminated),
            Self::OutOfService { .. } => Some(PodSweep::OutOfService),
            Self::NodeGone { .. } => Some(PodSweep::Orphaned),
            Self::Unscheduled => Some(PodSweep::Unscheduled),
            _ => None,
        }
    }

    /// The identity of a Node of which only the name is known.
    pub(super) fn node_identity(name: String) -> ObjectIdentity {
        ObjectIdentity {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name,
            ..ObjectIdentity::default()
        }
    }
}

impl DecisionReason for PodGcReason {
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

impl fmt::Display for PodGcReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("Pod GC does not know it"),
            Self::Unlisted => f.write_str("Pods and Nodes have not been listed yet"),
            Self::Frozen => f.write_str(
                "the server's store was restored, and Pods and Nodes are listed again first",
            ),
            Self::Unwanted => f.write_str("Pod GC has no reason to remove it"),
            Self::Going => f.write_str("its delete was acknowledged"),
            Self::Held => f.write_str("it was deleted already, and only its finalizers keep it"),
            Self::AtNextRound { sweep, until } => {
                write!(
                    f,
                    "{}, and the next round is at {until:.0}",
                    sweep_sentence(*sweep)
                )
            }
            Self::Quarantined { node, until } => write!(
                f,
                "its Node {node} is missing; it is removed if the Node is still missing at {until:.0}"
            ),
            Self::AsksFor { node } => write!(f, "Node {node} is read from the server first"),
            Self::NodeVanishing { node } => write!(
                f,
                "its Node {node} is gone, but no watch has shown that yet"
            ),
            Self::Terminated { kept, namespace } => {
                write!(
                    f,
                    "it has terminated, and more than {kept} terminated Pods exist"
                )?;
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
            Self::Unscheduled => f.write_str(sweep_sentence(PodSweep::Unscheduled)),
            Self::Settled => f.write_str("no Pod needs a lookup of it"),
        }
    }
}

fn sweep_sentence(sweep: PodSweep) -> &'static str {
    match sweep {
        PodSweep::Terminated => "it has terminated, and more terminated Pods exist than are kept",
        PodSweep::OutOfService => "it is being deleted, and its Node is out of service",
        PodSweep::Orphaned => "its Node is missing",
        PodSweep::Unscheduled => "it is being deleted and was never bound to a Node",
    }
}
