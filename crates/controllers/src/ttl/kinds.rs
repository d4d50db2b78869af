//! The kinds that finish, one row each, and how to read the finish from an object.
//!
//! Only the few fields that decisions need are read from an object, each by itself, so that an invalid field does not
//! hide the others.

use jiff::Timestamp;
use prometheus_client::metrics::histogram::Histogram;
use serde_json::value::RawValue;

use super::metrics::TtlMetrics;
use crate::cron::{self, CronDialect, JobProgress};
use crate::runtime::record::body::JsonMembers;

/// A kind whose objects finish and may have a TTL after that.
#[derive(Debug)]
pub struct FinishingKind {
    /// The controller's name, as `--controllers` spells it.
    pub name: &'static str,
    pub group: &'static str,
    pub resource: &'static str,
    /// The apiVersion for Events.
    pub api_version: &'static str,
    pub kind: &'static str,
    /// Upstream's name of the work queue, if it has one.
    pub queue: Option<&'static str>,
    /// The CronJobs that create such Jobs.
    pub cron_dialect: &'static CronDialect,
    /// The histogram of how long after its expiry a Job was deleted.
    pub deletion_delay: fn(&TtlMetrics) -> &Histogram,
}

/// The row of `batch/v1` Jobs.
pub static BATCH: FinishingKind = FinishingKind {
    name: "ttl-after-finished-controller",
    group: "batch",
    resource: "jobs",
    api_version: "batch/v1",
    kind: "Job",
    queue: Some("ttl_jobs_to_delete"),
    cron_dialect: &cron::BATCH,
    deletion_delay: |metrics| &metrics.batch_job_deletion,
};

/// The row of Volcano's Jobs. Upstream's work queue has no name.
pub static VOLCANO: FinishingKind = FinishingKind {
    name: "gc-controller",
    group: "batch.volcano.sh",
    resource: "jobs",
    api_version: "batch.volcano.sh/v1alpha1",
    kind: "Job",
    queue: None,
    cron_dialect: &cron::VOLCANO,
    deletion_delay: |metrics| &metrics.volcano_job_deletion,
};

pub static KINDS: [&FinishingKind; 2] = [&BATCH, &VOLCANO];

/// A TTL in seconds, or the text of an invalid one.
type TtlSeconds = Result<u32, Box<str>>;

/// How many characters of an invalid TTL a message quotes.
const ODD_CHARS_MAX: usize = 40;

// === impl FinishingKind ===

impl FinishingKind {
    /// Reads the outcome of a Job, when the Job got it, and its TTL. The error quotes a TTL that is not a valid number of
    /// seconds.
    pub(super) fn read(&self, body: &[u8]) -> (JobProgress, Option<Timestamp>, Option<TtlSeconds>) {
        let object = JsonMembers::of(body);
        let (facts, since) = (self.cron_dialect.read_job)(&object.object("status"));
        let ttl = object.object("spec").raw("ttlSecondsAfterFinished");
        (facts.outcome, since, ttl.map(seconds))
    }
}

/// Reads a number of seconds: a non-negative 32-bit integer, as in the API.
fn seconds(raw: &RawValue) -> TtlSeconds {
    let secs = serde_json::from_str::<i32>(raw.get()).ok();
    let secs = secs.and_then(|secs| u32::try_from(secs).ok());
    let odd = || raw.get().chars().take(ODD_CHARS_MAX).collect::<String>();
    secs.ok_or_else(|| odd().into())
}
