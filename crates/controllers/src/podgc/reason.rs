//! The reason of each decision of Pod GC, with an identifier and a sentence.
//!
//! The sentences are printed by evidence, the log and `explain`; thiserror formats them, although no reason is an error.
//! In them, "it" is the object of the decision.

use jiff::Timestamp;

use super::PodSweep;
use crate::runtime::call::AbsenceProof;
use crate::runtime::controller::{DecisionReason, ObjectIdentity};

/// The reason of a decision about a Pod or a Node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PodGcReason {
    #[error("Pod GC does not know it")]
    Unknown,
    #[error("Pods and Nodes have not been listed yet")]
    Unlisted,
    #[error("the server's store was restored, and Pods and Nodes are listed again first")]
    Frozen,
    #[error("Pod GC has no reason to remove it")]
    Unwanted,
    #[error("its delete was acknowledged")]
    Going,
    #[error("it was deleted already, and only its finalizers keep it")]
    Held,
    #[error("{}, and the next round is at {until:.0}", sweep_sentence(*sweep))]
    AtNextRound { sweep: PodSweep, until: Timestamp },
    #[error("its Node {node} is missing; it is removed if the Node is still missing at {until:.0}")]
    Quarantined { node: String, until: Timestamp },
    #[error("Node {node} is read from the server first")]
    AsksFor { node: String },
    /// Its Node was out of service before.
    #[error("its Node {node} is gone, but no watch has shown that yet")]
    NodeVanishing { node: String },
    #[error("it has terminated, and more than {kept} terminated Pods exist{}", in_namespace(namespace.as_deref()))]
    Terminated {
        kept: usize,
        /// The namespace if the threshold is that of a namespace.
        namespace: Option<String>,
    },
    #[error("it is being deleted, and its Node {node} is out of service")]
    OutOfService { node: String },
    #[error("its {node} is gone: {proof}")]
    NodeGone {
        node: ObjectIdentity,
        proof: AbsenceProof,
    },
    #[error("{}", sweep_sentence(PodSweep::Unscheduled))]
    Unscheduled,
    /// For a Node.
    #[error("no Pod needs a lookup of it")]
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

fn in_namespace(namespace: Option<&str>) -> String {
    namespace.map_or(String::new(), |namespace| format!(" in {namespace}"))
}

fn sweep_sentence(sweep: PodSweep) -> &'static str {
    match sweep {
        PodSweep::Terminated => "it has terminated, and more terminated Pods exist than are kept",
        PodSweep::OutOfService => "it is being deleted, and its Node is out of service",
        PodSweep::Orphaned => "its Node is missing",
        PodSweep::Unscheduled => "it is being deleted and was never bound to a Node",
    }
}
