//! What is counted, under upstream's names (1.36) where upstream counts it and as `caretaker_…` where it does not.
//!
//! One value per process; clones are the same metrics. Drivers, effects, feeds and controllers count, the admin server
//! shows. What grows by standing still (ages) is not stored: every driver leaves its [`Pulse`] here and the age is
//! taken when somebody looks.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::driver::pulse::{Ages, Pulse};

/// All metrics of the process.
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

struct Inner {
    registry: Registry,
    families: Families,
    pulses: Pulses,
}

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
    depth: Family<QueueLabel, Gauge>,
    adds: Family<QueueLabel, Counter>,
    retries: Family<QueueLabel, Counter>,
    queue_duration: Durations,
    work_duration: Durations,
}

/// The part of one work queue.
#[derive(Debug, Clone)]
pub struct QueueMetrics {
    /// `workqueue_depth`.
    pub depth: Gauge,
    /// `workqueue_adds_total`.
    pub adds: Counter,
    /// `workqueue_retries_total`.
    pub retries: Counter,
    /// `workqueue_queue_duration_seconds`.
    pub queue_duration: Histogram,
    /// `workqueue_work_duration_seconds`.
    pub work_duration: Histogram,
}

/// Who.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ControllerLabel {
    /// As `--controllers` spells it.
    pub controller: &'static str,
}

/// Which queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct QueueLabel {
    /// Upstream's name of the queue where ours corresponds to one.
    pub name: &'static str,
}

/// A request and its end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    /// `GET`.
    pub method: String,
    /// `200`, or `<error>` without an answer.
    pub code: String,
}

/// A delete and its end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DeleteLabels {
    /// Who.
    pub controller: &'static str,
    /// Of what group.
    pub group: String,
    /// Of what resource.
    pub resource: String,
    /// `background`, `foreground`, `orphan` or `default`.
    pub policy: &'static str,
    /// `deleted`, `absent`, `conflict`, `failed` or `dry-run`.
    pub result: &'static str,
}

/// Where and why a Pod was removed by force.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ForcedLabels {
    /// The Pod's.
    pub namespace: String,
    /// `terminated`, `out-of-service`, `orphaned` or `unscheduled`.
    pub reason: &'static str,
}

/// A question after an owner and its end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct LookupLabels {
    /// Who asked.
    pub controller: &'static str,
    /// What came out.
    pub result: &'static str,
}

/// What a kind is, and how well it is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct KindLabels {
    /// Its group.
    pub group: String,
    /// Its resource.
    pub resource: String,
    /// How well.
    pub state: &'static str,
}

/// A slot without a Job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct SkipLabels {
    /// `cronjobs.batch`.
    pub kind: &'static str,
    /// `forbid`, `deadline`, `foreign-job` or `mutated-job`.
    pub reason: &'static str,
}

/// Slots without a Job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct MissLabels {
    /// `cronjobs.batch`.
    pub kind: &'static str,
}

/// Why an Event was not written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DropLabels {
    /// `queue`, `spam` or `refused`.
    pub reason: &'static str,
}

/// Who runs where.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RunningLabels {
    /// The controller.
    pub name: &'static str,
    /// The process it runs in.
    pub manager: &'static str,
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
struct Buckets;

type Durations = Family<QueueLabel, Histogram, Buckets>;

/// The drivers that live, and how each is.
#[derive(Debug, Clone, Default)]
struct Pulses(Arc<Mutex<Vec<Pulse>>>);

// === impl Metrics ===

impl Metrics {
    /// Nothing counted yet.
    #[must_use]
    pub fn new() -> Self {
        let families = Families::default();
        let pulses = Pulses::default();
        let mut registry = Registry::default();
        families.register_upstreams(&mut registry);
        families.register_own(&mut registry);
        registry.register_collector(Box::new(pulses.clone()));
        Self {
            inner: Arc::new(Inner {
                registry,
                families,
                pulses,
            }),
        }
    }

    /// What can be counted directly.
    #[must_use]
    pub fn families(&self) -> &Families {
        &self.inner.families
    }

    /// Counts a request and its answer, if there was one.
    pub fn request(&self, method: &http::Method, status: Option<u16>) {
        let code = status.map_or("<error>".to_owned(), |status| status.to_string());
        let labels = RequestLabels {
            method: method.to_string(),
            code,
        };
        self.inner.families.requests.get_or_create(&labels).inc();
    }

    /// The metrics of the queue of that name.
    #[must_use]
    pub fn queue(&self, name: &'static str) -> QueueMetrics {
        let label = QueueLabel { name };
        let families = &self.inner.families;
        QueueMetrics {
            depth: families.depth.get_or_create_owned(&label),
            adds: families.adds.get_or_create_owned(&label),
            retries: families.retries.get_or_create_owned(&label),
            queue_duration: families.queue_duration.get_or_create_owned(&label),
            work_duration: families.work_duration.get_or_create_owned(&label),
        }
    }

    /// Shows how a driver is from now on, instead of the one that had its controller before.
    pub fn follow(&self, pulse: Pulse) {
        let mut pulses = self.inner.pulses.lock();
        pulses.retain(|other| other.controller() != pulse.controller());
        pulses.push(pulse);
    }

    /// Everything, in the text format of Prometheus.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.inner.registry).expect("a String takes all text");
        text
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

// === impl Families ===

impl Families {
    // The encoder appends `_total` to the names of counters.

    fn register_upstreams(&self, registry: &mut Registry) {
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

    fn register_own(&self, registry: &mut Registry) {
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

// === impl Pulses ===

impl Pulses {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Pulse>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for Pulses {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let ages: Vec<(Pulse, Ages)> = self
            .lock()
            .iter()
            .map(|pulse| (pulse.clone(), pulse.ages()))
            .collect();
        let mut gauge = |name, help, by_queue: bool, value: fn(&Ages) -> f64| {
            let kind = ConstGauge::new(0.0).metric_type();
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for (pulse, ages) in &ages {
                let gauge = ConstGauge::new(value(ages));
                if by_queue {
                    let name = pulse.queue();
                    gauge.encode(family.encode_family(&QueueLabel { name })?)?;
                } else {
                    let controller = pulse.controller();
                    gauge.encode(family.encode_family(&ControllerLabel { controller })?)?;
                }
            }
            Ok::<(), fmt::Error>(())
        };
        gauge(
            "workqueue_unfinished_work_seconds",
            "Seconds of all work that is in process",
            true,
            |ages| ages.unfinished.as_secs_f64(),
        )?;
        gauge(
            "workqueue_longest_running_processor_seconds",
            "How long the key has been in process that has been for longest",
            true,
            |ages| ages.longest.as_secs_f64(),
        )?;
        gauge(
            "caretaker_oldest_item_seconds",
            "How long the key has been waiting, or in process, that has been for longest",
            false,
            |ages| ages.oldest().as_secs_f64(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_the_names_and_labels_that_dashboards_know() {
        let metrics = Metrics::new();
        metrics.request(&http::Method::GET, Some(200));
        metrics.request(&http::Method::DELETE, None);
        let queue = metrics.queue("garbage_collector_attempt_to_delete");
        queue.depth.set(3);
        queue.adds.inc_by(7);
        queue.queue_duration.observe(0.5);
        metrics.families().sync_errors.inc();
        let text = metrics.encode();
        for line in [
            r#"rest_client_requests_total{method="GET",code="200"} 1"#,
            r#"rest_client_requests_total{method="DELETE",code="<error>"} 1"#,
            r#"workqueue_depth{name="garbage_collector_attempt_to_delete"} 3"#,
            r#"workqueue_adds_total{name="garbage_collector_attempt_to_delete"} 7"#,
            r#"workqueue_queue_duration_seconds_bucket{le="0.1",name="garbage_collector_attempt_to_delete"} 0"#,
            r#"workqueue_queue_duration_seconds_bucket{le="1.0",name="garbage_collector_attempt_to_delete"} 1"#,
            r#"garbagecollector_controller_resources_sync_error_total 1"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn the_lateness_of_ttl_deletes_has_upstreams_names_and_buckets() {
        let metrics = Metrics::new();
        metrics.families().batch_job_deletion.observe(0.15);
        metrics.families().volcano_job_deletion.observe(900.0);
        let text = metrics.encode();
        for (name, le, count) in [
            ("ttl_after_finished_controller", "0.1", 0),
            ("ttl_after_finished_controller", "0.2", 1),
            ("ttl_after_finished_controller", "819.2", 1),
            ("volcano_gc_controller", "819.2", 0),
            ("volcano_gc_controller", "+Inf", 1),
        ] {
            let line =
                format!("{name}_job_deletion_duration_seconds_bucket{{le=\"{le}\"}} {count}");
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn the_lateness_of_cron_jobs_has_upstreams_name_and_buckets() {
        let metrics = Metrics::new();
        metrics.families().batch_job_skew.observe(1.5);
        let text = metrics.encode();
        let name = "cronjob_controller_job_creation_skew_duration_seconds_bucket";
        let counts: Vec<&str> = text.lines().filter(|line| line.starts_with(name)).collect();
        assert_eq!(counts.len(), 11, "ten and infinity: {counts:?}");
        for (le, count) in [("1.0", 0), ("2.0", 1), ("512.0", 1)] {
            let line = format!("{name}{{le=\"{le}\"}} {count}");
            assert!(counts.contains(&&*line), "{line}: {counts:?}");
        }
    }

    #[test]
    fn histograms_have_upstreams_ten_buckets() {
        let metrics = Metrics::new();
        metrics.queue("q").work_duration.observe(0.0);
        let text = metrics.encode();
        let buckets = text
            .lines()
            .filter(|line| line.starts_with("workqueue_work_duration_seconds_bucket"));
        assert_eq!(buckets.count(), 11, "ten and infinity: {text}");
    }
}
