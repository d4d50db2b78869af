//! What is written to a Pod before it goes: that it failed, and why if its Node is gone.
//!
//! Mirrors `markFailedAndDeletePodWithCondition` (1.36): a Pod whose kubelet will never report its end would stay Running
//! in the eyes of whoever reads its last state. The other conditions are left as they are: the patch is a strategic merge
//! patch, which names one entry of the list and no other.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::index::Pod;

/// The type of the condition.
pub(super) const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// Whether the condition is written too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The Pod's Node is gone.
    NodeGone,
    /// Anything else, of which upstream writes nothing.
    Untold,
}

/// The patch of a Pod's status that says that it failed.
pub(super) fn failed(pod: &Pod, cause: Cause, now: Timestamp) -> Value {
    let mut status = json!({ "phase": "Failed" });
    // Servers before 1.33 count no generations of Pods.
    let generation = (pod.generation > 0).then_some(pod.generation);
    if let Some(generation) = generation {
        status["observedGeneration"] = generation.into();
    }
    if cause == Cause::NodeGone {
        let mut condition = json!({
            "type": DISRUPTION_TARGET,
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
        });
        if let Some(generation) = generation {
            condition["observedGeneration"] = generation.into();
        }
        // It was a target before: since then, not since now.
        if !pod.is_disrupted {
            condition["lastTransitionTime"] = format!("{now:.0}").into();
        }
        status["conditions"] = json!([condition]);
    }
    json!({ "status": status })
}
