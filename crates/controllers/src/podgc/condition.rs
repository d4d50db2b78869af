//! The mark: the patch of a Pod's status to `Failed`, with a condition if its Node is gone.
//!
//! Mirrors `markFailedAndDeletePodWithCondition` (1.36). Without the mark, clients would see a Pod as Running whose
//! kubelet will never report its end. The other conditions do not change, because the strategic merge patch names only
//! one entry of the list.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::index::KnownPod;

/// The type of the condition that the mark sets.
pub(super) const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// Whether the mark sets the condition too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkCause {
    /// The Pod's Node is gone, so the condition is set.
    NodeGone,
    /// Another cause, for which upstream sets no condition.
    Other,
}

/// The patch that sets a Pod's phase to `Failed`.
pub(super) fn failed_patch(pod: &KnownPod, cause: MarkCause, now: Timestamp) -> Value {
    let mut status = json!({ "phase": "Failed" });
    // Servers before 1.33 have no generation for Pods.
    let generation = Some(pod.facts.generation).filter(|generation| *generation > 0);
    if let Some(generation) = generation {
        status["observedGeneration"] = generation.into();
    }
    if cause == MarkCause::NodeGone {
        let mut condition = json!({
            "type": DISRUPTION_TARGET,
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
        });
        if let Some(generation) = generation {
            condition["observedGeneration"] = generation.into();
        }
        // An existing condition keeps its transition time.
        if !pod.facts.is_disrupted {
            condition["lastTransitionTime"] = format!("{now:.0}").into();
        }
        status["conditions"] = json!([condition]);
    }
    json!({ "status": status })
}
