//! Removes Pods that nobody else will: `pod-garbage-collector-controller`.
//!
//! - `index`: what is known, and whom a sweep wants since when.
//! - `decide`: what follows from it.
//! - [`reason`]: why, in words. [`metrics`]: what only Pod GC counts.
//! - `condition`: what is written to a Pod before it goes.
//! - `facts`: what is read in Pods and Nodes.
//!
//! Mirrors `pkg/controller/podgc` (1.36): four sweeps every 20 s, for Pods that have terminated and are too many, that
//! end on a Node out of service, whose Node is gone, and that end without ever having had one. The gates of 1.26 are
//! switches here.
//!
//! DEVIATION(pod-gc-preconditions): upstream deletes by name alone, and so the replacement of the same name too. Here uid
//! and resourceVersion go with every delete; after our own patch those of its answer.
//! DEVIATION(pod-gc-parallel): upstream starts all deletes of two sweeps at once and does those of the others one by one.

mod condition;
mod decide;
mod facts;
mod index;
pub mod metrics;
pub mod reason;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

pub use self::index::Index;
pub use self::reason::Reason;
use crate::runtime::call::{ApiAnswer, ApiCall};
use crate::runtime::controller::{
    AnsweredCall, Controller, DriverStep, EventNote, ObservedChange, Verdict, WakeList,
};
use crate::runtime::feed_set::KindInterest;
use crate::runtime::metrics::ControllerMetrics;
use crate::runtime::record::{ObjectRecord, RecordView, Uid};

/// The controller's name, as `--controllers` spells it.
pub const NAME: &str = "pod-garbage-collector-controller";

/// The kinds it has to know in full: group and resource.
const KINDS: [(&str, &str); 2] = [("", "pods"), ("", "nodes")];

/// Between two rounds, as upstream.
pub const PERIOD: Duration = Duration::from_secs(20);

/// How long a Node has to be missing before its Pods go, as upstream.
pub const QUARANTINE: Duration = Duration::from_secs(40);

/// How many requests are under way at most.
pub const POD_GC_PARALLEL: usize = 20;

/// How many terminated Pods upstream keeps by default.
pub const THRESHOLD: usize = 12_500;

/// How long the server's word about a Node is relied on: long enough for many of its Pods, far shorter than a round.
const CONFIRMED_FOR: Duration = Duration::from_secs(5);

/// Pod GC.
#[derive(Debug)]
pub struct PodGc {
    index: Index,
}

/// What can be chosen about Pod GC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How many terminated Pods are kept; all without a number.
    pub threshold: Option<usize>,
    /// How many of each namespace are kept, before those of all are counted.
    pub threshold_per_namespace: Option<usize>,
    /// Whether there is a second sweep: upstream's gate `NodeOutOfServiceVolumeDetach`.
    pub sweeps_out_of_service: bool,
    /// Whether a Pod is marked before it goes: upstream's gate `PodDisruptionConditions`.
    pub marks_failed: bool,
}

/// What one decision is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A Pod: whether it goes.
    Pod(Uid),
    /// A Node that has to be asked for before anything follows for its Pods.
    Node(Arc<str>),
}

/// Why Pods go, in the order in which it is looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sweep {
    /// They have terminated, and there are too many of them.
    Terminated,
    /// They end on a Node that is not ready and out of service.
    OutOfService,
    /// Their Node is gone.
    Orphaned,
    /// They end and were never bound.
    Unscheduled,
}

/// What it has to be shown.
#[must_use]
pub fn interest() -> KindInterest {
    let kinds = KINDS.map(|(group, resource)| (group.into(), resource.into()));
    KindInterest::Kinds {
        kinds: kinds.to_vec(),
        view: RecordView::Full,
    }
}

// === impl PodGc ===

impl PodGc {
    /// One that knows nothing yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            index: Index::new(settings),
        }
    }

    /// What it knows.
    #[must_use]
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The server said something about a Pod.
    fn heard(
        &mut self,
        uid: &Uid,
        call: &ApiCall,
        answer: &ApiAnswer,
        now: Timestamp,
        wake: &mut WakeList<Key>,
    ) {
        match answer {
            // Another one has its name: the end of this one will be shown.
            ApiAnswer::Object(record) if record.meta.uid != *uid => {
                self.index.going(uid, now, wake);
            }
            ApiAnswer::Object(record) => {
                if matches!(call, ApiCall::Patch { .. }) {
                    self.index.mark(uid, now, wake);
                }
                self.index.apply_known(record, now, wake);
                let is_held = !record.meta.finalizers.is_empty();
                if matches!(call, ApiCall::Delete { .. }) && !is_held {
                    self.index.going(uid, now, wake);
                }
            }
            ApiAnswer::Done | ApiAnswer::Absent(_) => self.index.going(uid, now, wake),
            ApiAnswer::Failed(_) => {}
        }
    }

    /// The server said something about a Node. What is no answer is no proof: the Node is there.
    fn looked_up(
        &mut self,
        name: &str,
        answer: &ApiAnswer,
        now: Timestamp,
        wake: &mut WakeList<Key>,
    ) {
        match answer {
            ApiAnswer::Object(record) => self.index.found_node(name, record, now, wake),
            ApiAnswer::Absent(proof) => self.index.missed_node(name, proof, now),
            ApiAnswer::Done | ApiAnswer::Failed(_) => {}
        }
    }
}

impl Controller for PodGc {
    type Key = Key;
    type Reason = Reason;

    fn name(&self) -> &'static str {
        NAME
    }

    fn observe(&mut self, change: &ObservedChange, now: Timestamp, wake: &mut WakeList<Key>) {
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
                index.end_node(record, now, wake);
            }
            // A Pod that is gone needs nothing, so it does not matter whether it is.
            ObservedChange::Missing(kind, uid) if index.is_pod(*kind) => {
                index.forget_pod(uid, now, wake);
            }
            ObservedChange::Missing(kind, uid) if index.is_node(*kind) => {
                index.lose_node(uid, now, wake);
            }
            ObservedChange::Kind(kind, state) => index.know_kind(*kind, *state, now, wake),
            ObservedChange::Catalog(catalog) => index.know_catalog(catalog),
            ObservedChange::Applied(_)
            | ObservedChange::Deleted(_)
            | ObservedChange::Missing(..) => {}
        }
    }

    fn decide(&self, key: &Key, now: Timestamp) -> Verdict<Key, Reason> {
        let (next, because) = match key {
            Key::Pod(uid) => decide::pod(&self.index, uid, now),
            Key::Node(name) => decide::node(&self.index, name, now),
        };
        Verdict {
            next,
            because,
            notes: Vec::new(),
        }
    }

    fn answered(&mut self, answered: AnsweredCall<'_, Key>) -> Vec<EventNote> {
        let AnsweredCall {
            key,
            call,
            answer,
            now,
            wake,
        } = answered;
        match key {
            Key::Pod(uid) => self.heard(uid, call, answer, now, wake),
            Key::Node(name) => self.looked_up(name, answer, now, wake),
        }
        Vec::new()
    }

    fn measure(&mut self, step: &DriverStep<'_, Key, Reason>, metrics: &ControllerMetrics) {
        metrics::measure(step, metrics);
    }

    fn keys(&self, record: &ObjectRecord) -> Vec<Key> {
        if self.index.is_pod(record.kind) {
            vec![Key::Pod(record.meta.uid.clone())]
        } else if self.index.is_node(record.kind) {
            vec![Key::Node(record.meta.name.as_ref().into())]
        } else {
            Vec::new()
        }
    }
}

// === impl Settings ===

impl Default for Settings {
    /// Upstream's.
    fn default() -> Self {
        Self {
            threshold: Some(THRESHOLD),
            threshold_per_namespace: None,
            sweeps_out_of_service: true,
            marks_failed: true,
        }
    }
}

// === impl Sweep ===

impl Sweep {
    /// All of them, in their order.
    pub const ALL: [Self; 4] = [
        Self::Terminated,
        Self::OutOfService,
        Self::Orphaned,
        Self::Unscheduled,
    ];

    /// As upstream's metrics spell it.
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
