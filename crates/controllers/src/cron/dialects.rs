//! The two kinds of CronJobs, a row each. All differences between the controllers of Kubernetes and of Volcano are here and
//! in `event_texts`.
//!
//! Mirrors `pkg/controller/cronjob` (1.36) and Volcano's `pkg/controllers/cronjob` (1.15).

use jiff::Timestamp;
use prometheus_client::metrics::histogram::Histogram;

use super::event_texts::{self, EventText};
use super::facts::JobFacts;
use super::metrics::CronMetrics;
use crate::runtime::call::DeletePropagation;
use crate::runtime::record::body::JsonMembers;

/// A kind of CronJobs and the Jobs that it makes.
#[derive(Debug)]
pub struct CronDialect {
    /// The controller's name, as `--controllers` spells it.
    pub name: &'static str,
    /// The `source.component` of its Events.
    pub reporter: &'static str,
    /// Upstream's name of the queue, where it has one.
    pub queue: Option<&'static str>,
    /// API group of both kinds.
    pub group: &'static str,
    /// `apiVersion` of both kinds.
    pub api_version: &'static str,
    /// The `kind` label of its metrics.
    pub label: &'static str,
    /// The histogram of the delay between a slot and the create of its Job.
    pub skew: fn(&CronMetrics) -> &Histogram,
    /// The annotation with the slot of a Job.
    pub(super) stamp: &'static str,
    /// `propagationPolicy` of our deletes; the API server's default if none.
    pub propagation: Option<DeletePropagation>,
    /// The time by which the oldest finished Job is pruned first.
    pub(super) age: JobAgeBy,
    /// Whether its Jobs can be aborted, so that a TTL for aborted Jobs applies.
    pub(super) has_aborted: bool,
    /// Whether an unknown time zone is reported while a CronJob is suspended.
    pub(super) checks_suspended: bool,
    /// Whether the status of a CronJob is written while it is being deleted.
    pub(super) serves_deleting: bool,
    /// Whether a Job that the API server stored without any controller is deleted again.
    pub(super) deletes_unowned: bool,
    pub(crate) read_job: ReadJob,
    pub(super) event_texts: &'static [EventText],
}

/// Reads the status of a Job: its facts, and when it got its outcome.
type ReadJob = fn(&JsonMembers<'_>) -> (JobFacts, Option<Timestamp>);

/// The time that orders finished Jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobAgeBy {
    Creation,
    Start,
}

/// The resource of CronJobs, in both groups.
pub const CRON_JOBS: &str = "cronjobs";

/// The resource of Jobs, in both groups.
pub const JOBS: &str = "jobs";

/// The CronJobs of Kubernetes itself.
pub static BATCH: CronDialect = CronDialect {
    name: "cronjob-controller/batch",
    reporter: "cronjob-controller",
    queue: Some("cronjob"),
    group: "batch",
    api_version: "batch/v1",
    label: "cronjobs.batch",
    skew: |metrics| &metrics.batch_job_skew,
    stamp: "batch.kubernetes.io/cronjob-scheduled-timestamp",
    propagation: Some(DeletePropagation::Background),
    age: JobAgeBy::Start,
    has_aborted: false,
    checks_suspended: true,
    serves_deleting: true,
    deletes_unowned: false,
    read_job: JobFacts::by_condition,
    event_texts: event_texts::BATCH,
};

/// Volcano's CronJobs. Its original has no named queue.
pub static VOLCANO: CronDialect = CronDialect {
    name: "cronjob-controller/volcano",
    reporter: "vc-controller-manager",
    queue: None,
    group: "batch.volcano.sh",
    api_version: "batch.volcano.sh/v1alpha1",
    label: "cronjobs.batch.volcano.sh",
    skew: |metrics| &metrics.volcano_job_skew,
    stamp: "volcano.sh/cronjob-scheduled-timestamp",
    propagation: None,
    age: JobAgeBy::Creation,
    has_aborted: true,
    checks_suspended: false,
    serves_deleting: false,
    deletes_unowned: true,
    read_job: JobFacts::by_phase,
    event_texts: event_texts::VOLCANO,
};

/// The rows of both kinds.
pub static DIALECTS: [&CronDialect; 2] = [&BATCH, &VOLCANO];
