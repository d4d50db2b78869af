//! The metric families of the runtime: their names, help texts and buckets.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::labels::{
    ControllerLabel, DeleteLabels, DropLabels, KindLabels, LeaseLabel, QueueLabel, RequestLabels,
    RunningLabels,
};
use super::register_metrics;

/// The metric families of the process. Clones count into the same families.
#[derive(Debug, Clone)]
pub struct MetricFamilies {
    /// The family `rest_client_requests_total`.
    pub requests: Family<RequestLabels, Counter>,
    /// The family `caretaker_deletes_total`.
    pub deletes: Family<DeleteLabels, Counter>,
    /// The family `caretaker_conflicts_starved_total`: keys that backed off because their object changed too fast.
    pub conflicts_starved: Family<ControllerLabel, Counter>,
    /// The family `caretaker_writes_repeated_total`: accepted writes that were undone, from the third time on.
    pub writes_repeated: Family<ControllerLabel, Counter>,
    /// The family `caretaker_request_slots`: how many requests a controller may have in flight now.
    pub request_slots: Family<ControllerLabel, Gauge>,
    /// The family `caretaker_events_dropped_total`.
    pub events_dropped: Family<DropLabels, Counter>,
    /// The family `caretaker_kind_state`: 1 for the state that a kind is in.
    pub kind_state: Family<KindLabels, Gauge>,
    /// The family `caretaker_controller_restarts_total`.
    pub restarts: Family<ControllerLabel, Counter>,
    /// The family `running_managed_controllers`.
    pub running: Family<RunningLabels, Gauge>,
    /// The family `leader_election_master_status`: 1 while this process leads.
    pub leader: Family<LeaseLabel, Gauge>,
    pub(super) depth: Family<QueueLabel, Gauge>,
    pub(super) adds: Family<QueueLabel, Counter>,
    pub(super) retries: Family<QueueLabel, Counter>,
    pub(super) queue_duration: Family<QueueLabel, Histogram>,
    pub(super) work_duration: Family<QueueLabel, Histogram>,
}

/// Upstream's buckets of the queue durations: 10 ns · 10^k, k = 0..9.
const QUEUE_BUCKETS: [f64; 10] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0];

// === impl MetricFamilies ===

impl MetricFamilies {
    pub(super) fn register(&self, registry: &mut Registry) {
        register_metrics! { registry, self;
            requests "rest_client_requests" "Requests by method and code of the answer";
            running "running_managed_controllers" "Controllers that run now";
            leader "leader_election_master_status" "Whether this process leads: 1, or 0 as a standby";
            depth "workqueue_depth" "Keys that are due";
            adds "workqueue_adds" "Keys that became due";
            retries "workqueue_retries" "Failures that led to a retry";
            queue_duration "workqueue_queue_duration_seconds" "Seconds that keys were due before they were processed";
            work_duration "workqueue_work_duration_seconds" "Seconds that keys were in process";
            deletes "caretaker_deletes" "Deletes by kind, policy and result";
            conflicts_starved "caretaker_conflicts_starved" "Keys that backed off after too many conflicts in a row";
            writes_repeated "caretaker_writes_repeated" "Accepted writes that had to be repeated because they were undone";
            request_slots "caretaker_request_slots" "Requests that may be in flight now";
            events_dropped "caretaker_events_dropped" "Events that were not written";
            kind_state "caretaker_kind_state" "The state that each kind is in";
            restarts "caretaker_controller_restarts" "Controllers that were started again after a panic";
        }
    }
}

impl Default for MetricFamilies {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            deletes: Family::default(),
            conflicts_starved: Family::default(),
            writes_repeated: Family::default(),
            request_slots: Family::default(),
            events_dropped: Family::default(),
            kind_state: Family::default(),
            restarts: Family::default(),
            running: Family::default(),
            leader: Family::default(),
            depth: Family::default(),
            adds: Family::default(),
            retries: Family::default(),
            queue_duration: Family::new_with_constructor(|| Histogram::new(QUEUE_BUCKETS)),
            work_duration: Family::new_with_constructor(|| Histogram::new(QUEUE_BUCKETS)),
        }
    }
}
