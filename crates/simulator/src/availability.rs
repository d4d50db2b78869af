//! Availability of Pods: ready, and ready for `minReadySeconds`.
//!
//! Mirrors `IsPodAvailable` of `pkg/api/v1/pod`, 1.36.

use jiff::Timestamp;

use crate::actor::{ActorDecision, rest, wait_until};
use crate::cache::ObjectSnapshot;
use crate::objects::{later, time_at};

/// Whether a Pod is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PodAvailability {
    NotReady,
    /// It is ready, and available at this time.
    At(Timestamp),
    Available,
}

/// The availability of the Pods of one owner at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AvailabilityRule {
    min_ready_secs: i64,
    now: Timestamp,
}

// === impl AvailabilityRule ===

impl AvailabilityRule {
    /// The rule of an owner with `spec.minReadySeconds`.
    pub(crate) fn of(owner: &ObjectSnapshot, now: Timestamp) -> Self {
        let min_ready_secs = owner.number("/spec/minReadySeconds").unwrap_or(0);
        Self {
            min_ready_secs,
            now,
        }
    }

    pub(crate) fn judge(self, pod: &ObjectSnapshot) -> PodAvailability {
        let mut conditions = pod.items("/status/conditions").iter();
        let ready = conditions.find(|known| known["type"] == "Ready" && known["status"] == "True");
        let Some(ready) = ready else {
            return PodAvailability::NotReady;
        };
        if self.min_ready_secs <= 0 {
            return PodAvailability::Available;
        }
        match time_at(&ready["lastTransitionTime"]) {
            None => PodAvailability::NotReady,
            Some(since) => match later(since, self.min_ready_secs) {
                due if due > self.now => PodAvailability::At(due),
                _ => PodAvailability::Available,
            },
        }
    }

    pub(crate) fn is_available(self, pod: &ObjectSnapshot) -> bool {
        self.judge(pod) == PodAvailability::Available
    }

    /// Waits until the next of these Pods becomes available, if there is one.
    pub(crate) fn wait_for<'a>(
        self,
        pods: impl Iterator<Item = &'a ObjectSnapshot>,
        otherwise: &'static str,
    ) -> ActorDecision {
        let times = pods.filter_map(|pod| match self.judge(pod) {
            PodAvailability::At(time) => Some(time),
            PodAvailability::NotReady | PodAvailability::Available => None,
        });
        match times.min() {
            Some(time) => wait_until(time, "ready Pods become available"),
            None => rest(otherwise),
        }
    }
}
