//! The two kinds of CronJobs, a row each. What the controllers of Kubernetes and of Volcano do differently stands here and
//! in [`words`](super::words); everything else is one implementation.
//!
//! Mirrors `pkg/controller/cronjob` (1.36) and Volcano's `pkg/controllers/cronjob` (1.15).

use prometheus_client::metrics::histogram::Histogram;

use super::facts::{JobFacts, StatusOfJob};
use super::metrics::CronMetrics;
use super::words::{self, Sentence};
use crate::runtime::call::Propagation;

/// A kind of CronJobs and the Jobs that it makes.
#[derive(Debug)]
pub struct Dialect {
    /// The controller's name, as `--controllers` spells it.
    pub name: &'static str,
    /// Whom its Events come from.
    pub reporter: &'static str,
    /// Upstream's name of the queue, where it has one.
    pub queue: Option<&'static str>,
    /// API group of both kinds.
    pub group: &'static str,
    /// The version that CronJobs and Jobs are named with.
    pub api_version: &'static str,
    /// What metrics call the CronJobs.
    pub label: &'static str,
    /// Where it is counted how late Jobs are made.
    pub skew: fn(&CronMetrics) -> &Histogram,
    /// The annotation that tells a Job which slot it is for.
    pub(super) stamp: &'static str,
    /// What becomes of the dependents of a Job that we delete; the server's choice if not said.
    pub(super) propagation: Option<Propagation>,
    /// In which order finished Jobs go: the oldest by this time first.
    pub(super) age: AgeBy,
    /// Whether its Jobs can be aborted: only then it matters after how long those go.
    pub(super) has_aborted: bool,
    /// Whether the time zone is looked at while a CronJob is suspended.
    pub(super) checks_suspended: bool,
    /// Whether the status of a CronJob that is being deleted is kept right.
    pub(super) serves_deleting: bool,
    pub(super) read_job: fn(&StatusOfJob<'_>) -> JobFacts,
    pub(super) words: &'static [Sentence],
}

/// A time of a Job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AgeBy {
    Creation,
    Start,
}

/// The resource of CronJobs, in both groups.
pub const CRON_JOBS: &str = "cronjobs";

/// The resource of Jobs, in both groups.
pub const JOBS: &str = "jobs";

/// Kubernetes' own.
pub static BATCH: Dialect = Dialect {
    name: "cronjob-controller/batch",
    reporter: "cronjob-controller",
    queue: Some("cronjob"),
    group: "batch",
    api_version: "batch/v1",
    label: "cronjobs.batch",
    skew: |metrics| &metrics.batch_job_skew,
    stamp: "batch.kubernetes.io/cronjob-scheduled-timestamp",
    propagation: Some(Propagation::Background),
    age: AgeBy::Start,
    has_aborted: false,
    checks_suspended: true,
    serves_deleting: true,
    read_job: JobFacts::by_condition,
    words: words::BATCH,
};

/// Volcano's. Its queue has no name.
pub static VOLCANO: Dialect = Dialect {
    name: "cronjob-controller/volcano",
    reporter: "vc-controller-manager",
    queue: None,
    group: "batch.volcano.sh",
    api_version: "batch.volcano.sh/v1alpha1",
    label: "cronjobs.batch.volcano.sh",
    skew: |metrics| &metrics.volcano_job_skew,
    stamp: "volcano.sh/cronjob-scheduled-timestamp",
    propagation: None,
    age: AgeBy::Creation,
    has_aborted: true,
    checks_suspended: false,
    serves_deleting: false,
    read_job: JobFacts::by_phase,
    words: words::VOLCANO,
};

/// Both.
pub static DIALECTS: [&Dialect; 2] = [&BATCH, &VOLCANO];
