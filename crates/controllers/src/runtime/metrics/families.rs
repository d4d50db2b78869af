//! The metrics one by one: their names, what they say, and upstream's buckets.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::labels::{
    ControllerLabel, DeleteLabels, DropLabels, ForcedLabels, KindLabels, LookupLabels, MissLabels,
    QueueLabel, RequestLabels, RunningLabels, SkipLabels,
};

/// What can be counted directly. Each is shared: what is added here is seen by [`Metrics::encode`].
#[derive(Debug, Clone)]
pub struct Families {
    /// `rest_client_requests_total`.
    pub requests: Family<RequestLabels, Counter>,
    /// `caretaker_deletes_total`.
    pub deletes: Family<DeleteLabels, Counter>,
    /// `pod_gc_collector_force_delete_pods_total`.
    pub forced_pods: Family<ForcedLabels, Counter>,
    /// `pod_gc_collector_force_delete_pod_errors_total`.
    pub forced_pod_errors: Family<ForcedLabels, Counter>,
    /// `caretaker_conflicts_starved_total`: keys that backed off because their object changed faster than they asked.
    pub conflicts_starved: Family<ControllerLabel, Counter>,
    /// `caretaker_events_dropped_total`.
    pub events_dropped: Family<DropLabels, Counter>,
    /// `caretaker_graph_nodes`.
    pub graph_nodes: Family<ControllerLabel, Gauge>,
    /// `caretaker_graph_edges`.
    pub graph_edges: Family<ControllerLabel, Gauge>,
    /// `caretaker_graph_virtual_nodes`.
    pub graph_virtual_nodes: Family<ControllerLabel, Gauge>,
    /// `caretaker_owner_lookups_total`.
    pub owner_lookups: Family<LookupLabels, Counter>,
    /// `caretaker_kind_state`: 1 for the state a kind is in.
    pub kind_state: Family<KindLabels, Gauge>,
    /// `garbagecollector_controller_resources_sync_error_total`.
    pub sync_errors: Counter,
    /// `ttl_after_finished_controller_job_deletion_duration_seconds`: how long after its time a Job was deleted.
    pub batch_job_deletion: Histogram,
    /// `volcano_gc_controller_job_deletion_duration_seconds`: the same for Volcano's.
    pub volcano_job_deletion: Histogram,
    /// `caretaker_ttl_pending`: Jobs that have a time to go.
    pub ttl_pending: Family<ControllerLabel, Gauge>,
    /// `caretaker_ttl_next_expiry_timestamp_seconds`: when the first of them goes.
    pub ttl_next_expiry: Family<ControllerLabel, Gauge>,
    /// `cronjob_controller_job_creation_skew_duration_seconds`: how long after its slot a Job was made.
    pub batch_job_skew: Histogram,
    /// `volcano_cronjob_controller_job_creation_skew_duration_seconds`: the same for Volcano's.
    pub volcano_job_skew: Histogram,
    /// `caretaker_cron_skipped_total`: slots that came and had no Job then.
    pub cron_skipped: Family<SkipLabels, Counter>,
    /// `caretaker_cron_missed_total`: slots that never had one, because a later one came first.
    pub cron_missed: Family<MissLabels, Counter>,
    /// `caretaker_controller_restarts_total`.
    pub restarts: Family<ControllerLabel, Counter>,
    /// `running_managed_controllers`.
    pub running: Family<RunningLabels, Gauge>,
    pub(super) depth: Family<QueueLabel, Gauge>,
    pub(super) adds: Family<QueueLabel, Counter>,
    pub(super) retries: Family<QueueLabel, Counter>,
    pub(super) queue_duration: Durations,
    pub(super) work_duration: Durations,
}

/// Upstream's buckets of the queue durations: 10 ns · 10^k, k = 0..9.
const QUEUE_BUCKETS: [f64; 10] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0];

/// Upstream's buckets of the lateness of TTL deletes: 0.1 s · 2^k, k = 0..13.
fn deletion_buckets() -> impl Iterator<Item = f64> {
    exponential_buckets(0.1, 2.0, 14)
}

/// Upstream's buckets of the lateness of Jobs of CronJobs: 1 s · 2^k, k = 0..9.
fn skew_buckets() -> impl Iterator<Item = f64> {
    exponential_buckets(1.0, 2.0, 10)
}

/// Makes histograms with these buckets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Buckets;

pub(super) type Durations = Family<QueueLabel, Histogram, Buckets>;

// === impl Families ===

impl Families {
    // The encoder appends `_total` to the names of counters.

    pub(super) fn register_upstreams(&self, registry: &mut Registry) {
        registry.register(
            "rest_client_requests",
            "Requests by method and code of the answer",
            self.requests.clone(),
        );
        registry.register(
            "garbagecollector_controller_resources_sync_error",
            "Syncs of resources that did not succeed",
            self.sync_errors.clone(),
        );
        registry.register(
            "ttl_after_finished_controller_job_deletion_duration_seconds",
            "How long after its TTL a finished Job was deleted",
            self.batch_job_deletion.clone(),
        );
        registry.register(
            "volcano_gc_controller_job_deletion_duration_seconds",
            "How long after its TTL a finished Volcano Job was deleted",
            self.volcano_job_deletion.clone(),
        );
        registry.register(
            "cronjob_controller_job_creation_skew_duration_seconds",
            "How long after its slot the Job of a CronJob was made",
            self.batch_job_skew.clone(),
        );
        registry.register(
            "volcano_cronjob_controller_job_creation_skew_duration_seconds",
            "How long after its slot the Job of a Volcano CronJob was made",
            self.volcano_job_skew.clone(),
        );
        registry.register(
            "running_managed_controllers",
            "Controllers that run now",
            self.running.clone(),
        );
        registry.register(
            "pod_gc_collector_force_delete_pods",
            "Pods that were removed by force, or should have been",
            self.forced_pods.clone(),
        );
        registry.register(
            "pod_gc_collector_force_delete_pod_errors",
            "Pods that could not be removed by force",
            self.forced_pod_errors.clone(),
        );
        registry.register("workqueue_depth", "Keys that are due", self.depth.clone());
        registry.register("workqueue_adds", "Keys that became due", self.adds.clone());
        registry.register(
            "workqueue_retries",
            "Failures that led to a retry",
            self.retries.clone(),
        );
        registry.register(
            "workqueue_queue_duration_seconds",
            "How long keys were due before their turn",
            self.queue_duration.clone(),
        );
        registry.register(
            "workqueue_work_duration_seconds",
            "How long keys were in process",
            self.work_duration.clone(),
        );
    }

    pub(super) fn register_own(&self, registry: &mut Registry) {
        registry.register(
            "caretaker_deletes",
            "Deletes by kind, policy and result",
            self.deletes.clone(),
        );
        registry.register(
            "caretaker_conflicts_starved",
            "Keys that backed off after too many conflicts in a row",
            self.conflicts_starved.clone(),
        );
        registry.register(
            "caretaker_events_dropped",
            "Events that were not written",
            self.events_dropped.clone(),
        );
        registry.register(
            "caretaker_graph_nodes",
            "Objects in the graph",
            self.graph_nodes.clone(),
        );
        registry.register(
            "caretaker_graph_edges",
            "Ownerships in the graph",
            self.graph_edges.clone(),
        );
        registry.register(
            "caretaker_graph_virtual_nodes",
            "Owners in the graph that were never seen",
            self.graph_virtual_nodes.clone(),
        );
        registry.register(
            "caretaker_owner_lookups",
            "Questions after owners by result",
            self.owner_lookups.clone(),
        );
        registry.register(
            "caretaker_kind_state",
            "The state that each kind is in",
            self.kind_state.clone(),
        );
        registry.register(
            "caretaker_ttl_pending",
            "Finished Jobs that have a time to go",
            self.ttl_pending.clone(),
        );
        registry.register(
            "caretaker_ttl_next_expiry_timestamp_seconds",
            "When the first of them goes",
            self.ttl_next_expiry.clone(),
        );
        registry.register(
            "caretaker_cron_skipped",
            "Slots of CronJobs that came and had no Job then",
            self.cron_skipped.clone(),
        );
        registry.register(
            "caretaker_cron_missed",
            "Slots of CronJobs that never had a Job, because a later one came first",
            self.cron_missed.clone(),
        );
        registry.register(
            "caretaker_controller_restarts",
            "Controllers that were started again after a panic",
            self.restarts.clone(),
        );
    }
}

impl Default for Families {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            deletes: Family::default(),
            forced_pods: Family::default(),
            forced_pod_errors: Family::default(),
            conflicts_starved: Family::default(),
            events_dropped: Family::default(),
            graph_nodes: Family::default(),
            graph_edges: Family::default(),
            graph_virtual_nodes: Family::default(),
            owner_lookups: Family::default(),
            kind_state: Family::default(),
            sync_errors: Counter::default(),
            batch_job_deletion: Histogram::new(deletion_buckets()),
            volcano_job_deletion: Histogram::new(deletion_buckets()),
            ttl_pending: Family::default(),
            ttl_next_expiry: Family::default(),
            batch_job_skew: Histogram::new(skew_buckets()),
            volcano_job_skew: Histogram::new(skew_buckets()),
            cron_skipped: Family::default(),
            cron_missed: Family::default(),
            restarts: Family::default(),
            running: Family::default(),
            depth: Family::default(),
            adds: Family::default(),
            retries: Family::default(),
            queue_duration: Family::new_with_constructor(Buckets),
            work_duration: Family::new_with_constructor(Buckets),
        }
    }
}

// === impl Buckets ===

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(QUEUE_BUCKETS)
    }
}
