//! The metrics that only the TTL controllers have, one set for both kinds of Job.

use jiff::Timestamp;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::{TtlController, TtlReason};
use crate::runtime::call::ApiAnswer;
use crate::runtime::controller::{Controller as _, DriverStep};
use crate::runtime::metrics::{ControllerLabel, ControllerMetrics, MetricSet, register_metrics};
use crate::runtime::queue::age;
use crate::runtime::record::Uid;

/// How long after their expiry Jobs were deleted, and how many Jobs wait. Clones share the same metrics.
#[derive(Debug, Clone)]
pub struct TtlMetrics {
    /// Exposed as `ttl_after_finished_controller_job_deletion_duration_seconds`.
    pub batch_job_deletion: Histogram,
    /// Exposed as `volcano_gc_controller_job_deletion_duration_seconds`.
    pub volcano_job_deletion: Histogram,
    pending: Family<ControllerLabel, Gauge>,
    next_expiry: Family<ControllerLabel, Gauge>,
}

// === impl TtlMetrics ===

impl TtlMetrics {
    /// Sets the gauges from a controller's index: how many Jobs wait, and the earliest expiry.
    pub fn refresh(&self, ttl: &TtlController) {
        let label = ControllerLabel {
            controller: ttl.name(),
        };
        let pending = ttl.pending();
        let count = i64::try_from(pending.count).unwrap_or(i64::MAX);
        self.pending.get_or_create(&label).set(count);
        match pending.next_expiry {
            Some(next) => {
                let gauge = self.next_expiry.get_or_create(&label);
                gauge.set(next.as_second());
            }
            None => drop(self.next_expiry.remove(&label)),
        }
    }
}

impl Default for TtlMetrics {
    fn default() -> Self {
        // Upstream's buckets of the delay of TTL deletes: 0.1 s · 2^k, k = 0..13.
        let delay = || Histogram::new(exponential_buckets(0.1, 2.0, 14));
        Self {
            batch_job_deletion: delay(),
            volcano_job_deletion: delay(),
            pending: Family::default(),
            next_expiry: Family::default(),
        }
    }
}

impl MetricSet for TtlMetrics {
    fn register(&self, registry: &mut Registry) {
        register_metrics! { registry, self;
            batch_job_deletion "ttl_after_finished_controller_job_deletion_duration_seconds"
                "How long after its TTL a finished Job was deleted";
            volcano_job_deletion "volcano_gc_controller_job_deletion_duration_seconds"
                "How long after its TTL a finished Volcano Job was deleted";
            pending "caretaker_ttl_pending" "Finished Jobs that wait for their expiry";
            next_expiry "caretaker_ttl_next_expiry_timestamp_seconds" "The earliest expiry of a finished Job";
        }
    }
}

/// Observes how long after its expiry a Job was deleted.
pub(super) fn measure(
    ttl: &TtlController,
    step: &DriverStep<'_, Uid, TtlReason>,
    metrics: &ControllerMetrics,
) {
    let DriverStep::Answered {
        call,
        answer: ApiAnswer::Object(_) | ApiAnswer::Done,
        because,
        now,
        ..
    } = step
    else {
        return;
    };
    if let (false, Some(expiry)) = (call.is_read(), expiry(because)) {
        let late = age(*now, expiry).as_secs_f64();
        (ttl.row.deletion_delay)(&metrics.of::<TtlMetrics>()).observe(late);
    }
}

/// When a Job should have been deleted, if it was deleted because of its age.
fn expiry(because: &TtlReason) -> Option<Timestamp> {
    match because {
        TtlReason::Expired(span) | TtlReason::AbortedLongAgo(span) => Some(span.expiry),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletion_delay_has_upstreams_names_and_buckets() {
        let metrics = ControllerMetrics::new();
        let set = metrics.of::<TtlMetrics>();
        set.batch_job_deletion.observe(0.15);
        set.volcano_job_deletion.observe(900.0);
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
}
