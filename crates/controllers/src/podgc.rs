//! Removes Pods that no kubelet or owner will remove: `pod-garbage-collector-controller`.
//!
//! - `index`: Pods and Nodes, and the sweeps that each Pod is due for.
//! - `decide`: the decision for one key, as a pure function of the index and the time.
//! - [`reason`]: the reason of each decision. [`metrics`]: the metrics that only Pod GC has.
//! - `condition`: the patch that marks a Pod as failed.
//! - `facts`: the fields of Pods and Nodes that the sweeps need.
//!
//! Mirrors `pkg/controller/podgc` (1.36): four sweeps every 20 s, for terminated Pods over the threshold, terminating Pods
//! on a Node out of service, Pods whose Node is absent, and terminating Pods that were never bound. The feature gates of
//! 1.26 are settings here.
//!
//! DEVIATION(pod-gc-preconditions): upstream deletes by name alone, and so may delete a replacement of the same name.
//! Here every delete has the judged uid and resourceVersion; after our own patch, those of its answer.
//! DEVIATION(pod-gc-parallel): upstream starts all deletes of two sweeps at once and sends those of the others one by one.

mod condition;
mod decide;
mod facts;
mod index;
pub mod metrics;
pub mod reason;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

pub use self::index::PodGcIndex;
pub use self::reason::PodGcReason;
use crate::runtime::call::{ApiAnswer, ApiCall};
use crate::runtime::controller::{
    AnsweredCall, Controller, DriverStep, EventNote, ObservedChange, Verdict, WakeList,
};
use crate::runtime::feed_set::KindInterest;
use crate::runtime::metrics::ControllerMetrics;
use crate::runtime::record::{ObjectRecord, Uid};

/// The controller's name, as `--controllers` spells it.
pub const NAME: &str = "pod-garbage-collector-controller";

/// The time between two rounds, as upstream.
pub const PERIOD: Duration = Duration::from_secs(20);

/// How long a Node has to be missing before its Pods are removed, as upstream. It counts from the next round, so the
/// Node has been missing for 40 to 60 s when it ends.
pub const QUARANTINE: Duration = Duration::from_secs(40);

/// The most requests in flight at the same time.
pub const POD_GC_PARALLEL: usize = 20;

/// How many terminated Pods are kept by default, as upstream.
pub const THRESHOLD: usize = 12_500;

/// How long the read of a Node is valid: long enough for many of its Pods, far shorter than a round.
const CONFIRMED_FOR: Duration = Duration::from_secs(5);

/// Removes terminated, orphaned and unscheduled Pods, and Pods on Nodes out of service.
#[derive(Debug)]
pub struct PodGcController {
    index: PodGcIndex,
}

/// The settings of Pod GC. The defaults are upstream's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodGcSettings {
    /// How many terminated Pods are kept; `None` keeps all.
    pub threshold: Option<usize>,
    /// How many terminated Pods of each namespace are kept. Only those count for `threshold`.
    pub threshold_per_namespace: Option<usize>,
    /// Whether Pods on Nodes out of service are removed: upstream's gate `NodeOutOfServiceVolumeDetach`.
    pub sweeps_out_of_service: bool,
    /// Whether a Pod is marked as failed before its delete: upstream's gate `PodDisruptionConditions`.
    pub marks_failed: bool,
}

/// The Pod or Node that one decision is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodGcKey {
    /// A Pod that may be marked or deleted.
    Pod(Uid),
    /// A Node that has to be read from the server before its Pods are removed.
    Node(Arc<str>),
}

/// The keys of Pod GC that have to be decided again.
type PodGcWake = WakeList<PodGcKey>;

/// The reasons for which Pods are removed, in the order in which they are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodSweep {
    /// Terminated Pods over the threshold.
    Terminated,
    /// Terminating Pods on a Node that is not ready and out of service.
    OutOfService,
    /// Pods whose Node is absent.
    Orphaned,
    /// Terminating Pods that were never bound.
    Unscheduled,
}

/// The kinds that Pod GC watches, with full objects.
#[must_use]
pub fn interest() -> KindInterest {
    KindInterest::full([("", "pods"), ("", "nodes")])
}

// === impl PodGcKey ===

impl fmt::Display for PodGcKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(uid) => uid.fmt(f),
            Self::Node(name) => write!(f, "node {name}"),
        }
    }
}

// === impl PodGcController ===

impl PodGcController {
    /// Creates a controller with an empty index.
    #[must_use]
    pub fn new(settings: PodGcSettings) -> Self {
        Self {
            index: PodGcIndex::new(settings),
        }
    }

    /// The index, for metrics and tests.
    #[must_use]
    pub fn index(&self) -> &PodGcIndex {
        &self.index
    }

    /// Applies the answer to a request about a Pod.
    fn apply_pod_answer(&mut self, uid: &Uid, answered: AnsweredCall<'_, PodGcKey>) {
        let (call, now, wake) = (answered.call, answered.now, answered.wake);
        match answered.answer {
            // Another Pod has its name. The feed will show the DELETED event of this one.
            ApiAnswer::Object(record) if record.meta.uid != *uid => {
                self.index.mark_going(uid, now, wake);
            }
            ApiAnswer::Object(record) => {
                if matches!(call, ApiCall::Patch { .. }) {
                    self.index.record_mark(uid, now, wake);
                }
                self.index.apply_if_known(record, now, wake);
                let is_held = !record.meta.finalizers.is_empty();
                if matches!(call, ApiCall::Delete { .. }) && !is_held {
                    self.index.mark_going(uid, now, wake);
                }
            }
            ApiAnswer::Page(_) | ApiAnswer::Done | ApiAnswer::Absent(_) => {
                self.index.mark_going(uid, now, wake);
            }
            ApiAnswer::Failed(_) => {}
        }
    }

    /// Applies the answer to the read of a Node. A failed read proves nothing, so the Node counts as existing.
    fn apply_node_answer(&mut self, name: &str, answered: AnsweredCall<'_, PodGcKey>) {
        let (now, wake) = (answered.now, answered.wake);
        match answered.answer {
            ApiAnswer::Object(record) => self.index.record_node_alive(name, record, now, wake),
            ApiAnswer::Absent(proof) => self.index.record_node_absent(name, proof, now),
            ApiAnswer::Page(_) | ApiAnswer::Done | ApiAnswer::Failed(_) => {}
        }
    }
}

impl Controller for PodGcController {
    type Key = PodGcKey;
    type Reason = PodGcReason;

    fn name(&self) -> &'static str {
        NAME
    }

    fn observe(&mut self, change: &ObservedChange, now: Timestamp, wake: &mut PodGcWake) {
        let index = &mut self.index;
        match change {
            ObservedChange::Applied(record) if index.is_pod(record.kind) => {
                index.apply_pod(record, now, wake);
            }
            ObservedChange::Applied(record) if index.is_node(record.kind) => {
                index.apply_node(record, now, wake);
            }
            ObservedChange::Deleted(record) if index.is_pod(record.kind) => {
                index.forget_pod(&record.meta.uid, now, wake);
            }
            ObservedChange::Deleted(record) if index.is_node(record.kind) => {
                index.node_deleted(record, now, wake);
            }
            // The Pod may exist or not; without a feed that shows it, Pod GC does nothing.
            ObservedChange::Missing(kind, uid) if index.is_pod(*kind) => {
                index.forget_pod(uid, now, wake);
            }
            ObservedChange::Missing(kind, uid) if index.is_node(*kind) => {
                index.node_missing(uid, now, wake);
            }
            ObservedChange::Kind(kind, state) => index.set_kind_state(*kind, *state, now, wake),
            ObservedChange::Catalog(catalog) => index.set_catalog(catalog),
            ObservedChange::Applied(_)
            | ObservedChange::Deleted(_)
            | ObservedChange::Missing(..)
            | ObservedChange::Progress(..) => {}
        }
    }

    fn decide(&self, key: &PodGcKey, now: Timestamp) -> Verdict<PodGcKey, PodGcReason> {
        let (next, because) = match key {
            PodGcKey::Pod(uid) => decide::decide_pod(&self.index, uid, now),
            PodGcKey::Node(name) => decide::decide_node(&self.index, name, now),
        };
        Verdict::new(next, because)
    }

    fn answered(&mut self, answered: AnsweredCall<'_, PodGcKey>) -> Vec<EventNote> {
        match answered.key {
            PodGcKey::Pod(uid) => self.apply_pod_answer(uid, answered),
            PodGcKey::Node(name) => self.apply_node_answer(name, answered),
        }
        Vec::new()
    }

    fn measure(
        &mut self,
        step: &DriverStep<'_, PodGcKey, PodGcReason>,
        metrics: &ControllerMetrics,
    ) {
        metrics::measure(step, metrics);
    }

    fn keys(&self, record: &ObjectRecord) -> Vec<PodGcKey> {
        if self.index.is_pod(record.kind) {
            vec![PodGcKey::Pod(record.meta.uid.clone())]
        } else if self.index.is_node(record.kind) {
            vec![PodGcKey::Node(record.meta.name.as_ref().into())]
        } else {
            Vec::new()
        }
    }
}

// === impl PodGcSettings ===

impl Default for PodGcSettings {
    fn default() -> Self {
        Self {
            threshold: Some(THRESHOLD),
            threshold_per_namespace: None,
            sweeps_out_of_service: true,
            marks_failed: true,
        }
    }
}

// === impl PodSweep ===

impl PodSweep {
    /// All sweeps, in their order.
    pub const ALL: [Self; 4] = [
        Self::Terminated,
        Self::OutOfService,
        Self::Orphaned,
        Self::Unscheduled,
    ];

    /// The name of the sweep in upstream's metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Terminated => "terminated",
            Self::OutOfService => "out-of-service",
            Self::Orphaned => "orphaned",
            Self::Unscheduled => "unscheduled",
        }
    }
}

#[cfg(test)]
mod tests;
