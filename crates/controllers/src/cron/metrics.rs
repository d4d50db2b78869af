//! The metrics that only the CronJob controllers have, one set for both kinds of CronJob.

use std::collections::BTreeMap;

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::{CronDialect, CronReason};
use crate::runtime::call::ApiAnswer;
use crate::runtime::controller::{DriverStep, NextStep};
use crate::runtime::metrics::{ControllerMetrics, MetricSet, register_metrics};
use crate::runtime::queue::age;
use crate::runtime::record::Uid;

/// How late Jobs were created, and which schedule times got none. Clones count into the same metrics.
#[derive(Debug, Clone)]
pub struct CronMetrics {
    /// The histogram `cronjob_controller_job_creation_skew_duration_seconds`.
    pub batch_job_skew: Histogram,
    /// The histogram `volcano_cronjob_controller_job_creation_skew_duration_seconds`.
    pub volcano_job_skew: Histogram,
    skipped: Family<SkipLabels, Counter>,
    missed: Family<MissLabels, Counter>,
}

/// The labels of `caretaker_cron_skipped_total`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SkipLabels {
    /// The resource of the CronJobs, such as `cronjobs.batch`.
    kind: &'static str,
    /// `forbid`, `deadline`, `foreign-job` or `mutated-job`.
    reason: &'static str,
}

/// The labels of `caretaker_cron_missed_total`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MissLabels {
    /// The resource of the CronJobs, such as `cronjobs.batch`.
    kind: &'static str,
}

/// Counts every schedule time that had no Job when it came once per reason, although the controller decides about it
/// many times.
#[derive(Debug, Default)]
pub(super) struct SkipCounter {
    /// The last schedule time that was counted for each CronJob, and why it had no Job.
    counted: BTreeMap<Uid, (Timestamp, &'static str)>,
}

// === impl CronMetrics ===

impl Default for CronMetrics {
    fn default() -> Self {
        // Upstream's buckets of the delay of created Jobs: 1 s · 2^k, k = 0..9.
        let skew = || Histogram::new(exponential_buckets(1.0, 2.0, 10));
        Self {
            batch_job_skew: skew(),
            volcano_job_skew: skew(),
            skipped: Family::default(),
            missed: Family::default(),
        }
    }
}

impl MetricSet for CronMetrics {
    fn register(&self, registry: &mut Registry) {
        register_metrics! { registry, self;
            batch_job_skew "cronjob_controller_job_creation_skew_duration_seconds"
                "How long after its slot the Job of a CronJob was made";
            volcano_job_skew "volcano_cronjob_controller_job_creation_skew_duration_seconds"
                "How long after its slot the Job of a Volcano CronJob was made";
            skipped "caretaker_cron_skipped" "Slots of CronJobs that came and had no Job then";
            missed "caretaker_cron_missed" "Slots of CronJobs that never had a Job, because a later one came first";
        }
    }
}

// === impl SkipCounter ===

impl SkipCounter {
    /// Counts a schedule time without a Job after a decision, and delay and missed schedule times after a Job was created.
    pub(super) fn measure(
        &mut self,
        row: &CronDialect,
        step: &DriverStep<'_, Uid, CronReason>,
        metrics: &ControllerMetrics,
    ) {
        match step {
            DriverStep::Decided { key, next, because } => {
                self.count_skip(row, key, because, metrics);
                if matches!(next, NextStep::Rest) {
                    self.counted.remove(*key);
                }
            }
            DriverStep::Answered {
                call,
                answer: ApiAnswer::Object(_) | ApiAnswer::Done,
                because: CronReason::Starts { slot, missed, .. },
                now,
                ..
            } if !call.is_read() => {
                let set = metrics.of::<CronMetrics>();
                (row.skew)(&set).observe(age(*now, *slot).as_secs_f64());
                let missed = u64::try_from(*missed).unwrap_or(u64::MAX);
                let kind = row.label;
                set.missed
                    .get_or_create(&MissLabels { kind })
                    .inc_by(missed);
            }
            DriverStep::Answered { .. } => {}
        }
    }

    fn count_skip(
        &mut self,
        row: &CronDialect,
        uid: &Uid,
        because: &CronReason,
        metrics: &ControllerMetrics,
    ) {
        let CronReason::Waits {
            skip: Some(skip), ..
        } = because
        else {
            return;
        };
        let (kind, reason) = (row.label, skip.why.label());
        let before = self.counted.insert(uid.clone(), (skip.slot, reason));
        if before != Some((skip.slot, reason)) {
            let set = metrics.of::<CronMetrics>();
            set.skipped
                .get_or_create(&SkipLabels { kind, reason })
                .inc();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn creation_skew_has_upstreams_name_and_buckets() {
        let metrics = ControllerMetrics::new();
        metrics.of::<CronMetrics>().batch_job_skew.observe(1.5);
        let text = metrics.encode();
        let name = "cronjob_controller_job_creation_skew_duration_seconds_bucket";
        let counts: Vec<&str> = text.lines().filter(|line| line.starts_with(name)).collect();
        assert_eq!(counts.len(), 11, "ten and infinity: {counts:?}");
        for (le, count) in [("1.0", 0), ("2.0", 1), ("512.0", 1)] {
            let line = format!("{name}{{le=\"{le}\"}} {count}");
            assert!(counts.contains(&&*line), "{line}: {counts:?}");
        }
    }
}
