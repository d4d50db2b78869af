//! The metrics of the process, under upstream's names (1.36) where upstream has them, else with the prefix `caretaker_`.
//!
//! Clones share the metrics. Drivers, effects, feeds and controllers count; the admin server serves the page. Ages are
//! not stored, because they grow while nothing happens: every driver registers its [`DriverLiveness`], and the ages are
//! computed when the page is read.

mod families;
mod labels;

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

pub use families::MetricFamilies;
pub use labels::{
    ControllerLabel, DeleteLabels, DropLabels, KindLabels, LeaseLabel, QueueLabel, RequestLabels,
    RunningLabels,
};

use super::driver::liveness::{DriverLiveness, WorkAges};

/// Adds metrics to the page, a row each: the field, the name and the help text. The encoder appends `_total` to the names
/// of counters.
macro_rules! register_metrics {
    ($registry:ident, $set:expr; $($field:ident $name:literal $help:literal;)*) => {
        $($registry.register($name, $help, $set.$field.clone());)*
    };
}
pub(crate) use register_metrics;

/// The metrics that one controller has beside those of the runtime. Clones must count into the same metrics.
pub trait MetricSet: Clone + Default + Send + 'static {
    /// Adds the set to the metrics page.
    fn register(&self, registry: &mut Registry);
}

/// All metrics of the process.
#[derive(Debug, Clone)]
pub struct ControllerMetrics {
    inner: Arc<MetricsState>,
}

#[derive(Debug)]
struct MetricsState {
    registry: Mutex<Registry>,
    /// The metric sets of controllers that are registered, each once.
    sets: Mutex<BTreeMap<TypeId, Box<dyn Any + Send>>>,
    families: MetricFamilies,
    drivers: LivenessGauges,
}

/// The `workqueue_*` metrics of one work queue.
#[derive(Debug, Clone)]
pub struct QueueMetrics {
    pub depth: Gauge,
    pub adds: Counter,
    pub retries: Counter,
    pub queue_duration: Histogram,
    pub work_duration: Histogram,
}

/// The running drivers. Their ages are gauges that are computed when the page is read.
#[derive(Debug, Clone, Default)]
struct LivenessGauges(Arc<Mutex<Vec<DriverLiveness>>>);

// === impl ControllerMetrics ===

impl ControllerMetrics {
    /// Metrics whose counts are all zero.
    #[must_use]
    pub fn new() -> Self {
        let families = MetricFamilies::default();
        let drivers = LivenessGauges::default();
        let mut registry = Registry::default();
        families.register(&mut registry);
        registry.register_collector(Box::new(drivers.clone()));
        Self {
            inner: Arc::new(MetricsState {
                registry: Mutex::new(registry),
                sets: Mutex::default(),
                families,
                drivers,
            }),
        }
    }

    /// The families of the runtime, to count in.
    #[must_use]
    pub fn families(&self) -> &MetricFamilies {
        &self.inner.families
    }

    /// The metrics of one controller. The first use registers them.
    #[must_use]
    pub fn of<M: MetricSet>(&self) -> M {
        let mut sets = lock(&self.inner.sets);
        let set = sets.entry(TypeId::of::<M>()).or_insert_with(|| {
            let set = M::default();
            set.register(&mut lock(&self.inner.registry));
            Box::new(set)
        });
        let set = set.downcast_ref::<M>();
        set.expect("every set is stored under its own type").clone()
    }

    /// Adds metrics that were created before this page.
    pub(crate) fn add<M: MetricSet>(&self, set: &M) {
        let mut sets = lock(&self.inner.sets);
        sets.entry(TypeId::of::<M>()).or_insert_with(|| {
            set.register(&mut lock(&self.inner.registry));
            Box::new(set.clone())
        });
    }

    /// Counts a request by method and status; `None` if there was no answer.
    pub fn request(&self, method: &http::Method, status: Option<u16>) {
        let code = status.map_or("<error>".to_owned(), |status| status.to_string());
        let labels = RequestLabels {
            method: method.to_string(),
            code,
        };
        self.inner.families.requests.get_or_create(&labels).inc();
    }

    /// How many times a controller was started again after a panic.
    #[must_use]
    pub fn restarts(&self, controller: &'static str) -> u64 {
        let restarts = &self.inner.families.restarts;
        restarts
            .get(&ControllerLabel { controller })
            .map_or(0, |count| count.get())
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

    /// Adds a driver's ages to the page, instead of those of the controller's previous driver.
    pub fn follow(&self, driver: DriverLiveness) {
        let mut drivers = lock(&self.inner.drivers.0);
        drivers.retain(|other| other.controller() != driver.controller());
        drivers.push(driver);
    }

    /// The metrics page, in the text format of Prometheus.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &lock(&self.inner.registry)).expect("a String takes all text");
        text
    }
}

impl Default for ControllerMetrics {
    fn default() -> Self {
        Self::new()
    }
}

// === impl LivenessGauges ===

impl Collector for LivenessGauges {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let ages: Vec<(DriverLiveness, WorkAges)> = lock(&self.0)
            .iter()
            .map(|driver| (driver.clone(), driver.ages()))
            .collect();
        let mut gauge = |name, help, by_queue: bool, value: fn(&WorkAges) -> f64| {
            let kind = ConstGauge::new(0.0).metric_type();
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for (driver, ages) in &ages {
                let gauge = ConstGauge::new(value(ages));
                if by_queue {
                    let name = driver.queue();
                    gauge.encode(family.encode_family(&QueueLabel { name })?)?;
                } else {
                    let controller = driver.controller();
                    gauge.encode(family.encode_family(&ControllerLabel { controller })?)?;
                }
            }
            Ok::<(), fmt::Error>(())
        };
        gauge(
            "workqueue_unfinished_work_seconds",
            "Seconds that all keys in process have taken so far",
            true,
            |ages| ages.unfinished.as_secs_f64(),
        )?;
        gauge(
            "workqueue_longest_running_processor_seconds",
            "Seconds that the oldest key in process has taken so far",
            true,
            |ages| ages.longest.as_secs_f64(),
        )?;
        gauge(
            "caretaker_oldest_item_seconds",
            "Age of the oldest key, in the queue or in process",
            false,
            |ages| ages.oldest().as_secs_f64(),
        )
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_upstreams_names_and_labels() {
        let metrics = ControllerMetrics::new();
        metrics.request(&http::Method::GET, Some(200));
        metrics.request(&http::Method::DELETE, None);
        let queue = metrics.queue("garbage_collector_attempt_to_delete");
        queue.depth.set(3);
        queue.adds.inc_by(7);
        queue.queue_duration.observe(0.5);
        let text = metrics.encode();
        for line in [
            r#"rest_client_requests_total{method="GET",code="200"} 1"#,
            r#"rest_client_requests_total{method="DELETE",code="<error>"} 1"#,
            r#"workqueue_depth{name="garbage_collector_attempt_to_delete"} 3"#,
            r#"workqueue_adds_total{name="garbage_collector_attempt_to_delete"} 7"#,
            r#"workqueue_queue_duration_seconds_bucket{le="0.1",name="garbage_collector_attempt_to_delete"} 0"#,
            r#"workqueue_queue_duration_seconds_bucket{le="1.0",name="garbage_collector_attempt_to_delete"} 1"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn histograms_have_upstreams_ten_buckets() {
        let metrics = ControllerMetrics::new();
        metrics.queue("q").work_duration.observe(0.0);
        let text = metrics.encode();
        let buckets = text
            .lines()
            .filter(|line| line.starts_with("workqueue_work_duration_seconds_bucket"));
        assert_eq!(buckets.count(), 11, "ten and infinity: {text}");
    }
}
