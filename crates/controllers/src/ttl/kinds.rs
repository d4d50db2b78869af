//! The kinds that finish, one row each, and how to read the finish from an object.
//!
//! Only the few fields that decisions need are read from an object, each by itself, so that an invalid field does not
//! hide the others.

use std::borrow::Cow;

use jiff::Timestamp;
use prometheus_client::metrics::histogram::Histogram;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::metrics::TtlMetrics;
use crate::cron::{self, CronDialect};
use crate::runtime::record::body::{members, part, time};

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
    read_finish: fn(&FinishStatus<'_>) -> JobFinish,
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
    read_finish: by_condition,
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
    read_finish: by_phase,
};

pub static KINDS: [&FinishingKind; 2] = [&BATCH, &VOLCANO];

/// Whether an object has finished, with its finish time if that is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobFinish {
    No,
    Finished(Option<Timestamp>),
    /// It was aborted and may be resumed.
    Aborted(Option<Timestamp>),
}

/// The fields of an object that decide when it expires.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FinishFields {
    pub(super) finish: JobFinish,
    /// `None` without a TTL. The error quotes a TTL that is not a valid number of seconds.
    pub(super) ttl_secs: Option<Result<u32, Box<str>>>,
}

#[derive(Deserialize)]
struct JobBody<'a> {
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct TtlSpec<'a> {
    #[serde(borrow, rename = "ttlSecondsAfterFinished")]
    ttl: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct FinishStatus<'a> {
    #[serde(borrow)]
    conditions: Option<&'a RawValue>,
    #[serde(borrow)]
    state: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct JobCondition<'a> {
    #[serde(borrow, default)]
    r#type: Cow<'a, str>,
    #[serde(borrow, default)]
    status: Cow<'a, str>,
    #[serde(borrow)]
    last_transition_time: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct VolcanoState<'a> {
    #[serde(borrow, default)]
    phase: Cow<'a, str>,
    #[serde(borrow)]
    last_transition_time: Option<&'a RawValue>,
}

/// How many characters of an invalid TTL a message quotes.
const ODD_CHARS_MAX: usize = 40;

// === impl FinishingKind ===

impl FinishingKind {
    /// Reads the finish and the TTL from the JSON of an object.
    pub(super) fn read(&self, body: &[u8]) -> FinishFields {
        let object: Option<JobBody<'_>> = serde_json::from_slice(body).ok();
        let (spec, status) = object.map_or((None, None), |object| (object.spec, object.status));
        let spec: TtlSpec<'_> = members(spec).unwrap_or_default();
        let status: FinishStatus<'_> = members(status).unwrap_or_default();
        FinishFields {
            finish: (self.read_finish)(&status),
            ttl_secs: spec.ttl.map(seconds),
        }
    }
}

/// Reads the finish from the first true condition of type Complete or Failed.
fn by_condition(status: &FinishStatus<'_>) -> JobFinish {
    let conditions: Vec<&RawValue> = part(status.conditions).unwrap_or_default();
    let mut conditions = conditions.into_iter().filter_map(|raw| members(Some(raw)));
    let finished = conditions.find(|condition: &JobCondition<'_>| {
        condition.status == "True" && ["Complete", "Failed"].contains(&&*condition.r#type)
    });
    finished.map_or(JobFinish::No, |condition| {
        JobFinish::Finished(time(condition.last_transition_time))
    })
}

/// Reads the finish from the phase. An aborted Job can be resumed, so it has not finished.
fn by_phase(status: &FinishStatus<'_>) -> JobFinish {
    let state: VolcanoState<'_> = members(status.state).unwrap_or_default();
    match &*state.phase {
        "Completed" | "Failed" | "Terminated" => {
            JobFinish::Finished(time(state.last_transition_time))
        }
        "Aborted" => JobFinish::Aborted(time(state.last_transition_time)),
        _ => JobFinish::No,
    }
}

/// Reads a number of seconds: a non-negative 32-bit integer, as in the API.
fn seconds(raw: &RawValue) -> Result<u32, Box<str>> {
    let secs: Option<i32> = part(Some(raw));
    secs.and_then(|secs| u32::try_from(secs).ok())
        .ok_or_else(|| {
            raw.get()
                .chars()
                .take(ODD_CHARS_MAX)
                .collect::<String>()
                .into()
        })
}
