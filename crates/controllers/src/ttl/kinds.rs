//! What finishes: a row for each kind, and how its objects say that they have.
//!
//! Only the few members that decisions read are taken from an object, each by itself: whatever else is in it, and
//! whatever is wrong with one of them, hides none of the others.

use std::borrow::Cow;

use jiff::Timestamp;
use prometheus_client::metrics::histogram::Histogram;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::metrics::TtlMetrics;
use crate::cron::{self, CronDialect};
use crate::runtime::record::body::{members, part, time};

/// A kind whose objects finish and may say how long they stay after that.
#[derive(Debug)]
pub struct Finishing {
    /// The controller's name, as `--controllers` spells it.
    pub name: &'static str,
    /// API group.
    pub group: &'static str,
    /// Resource.
    pub resource: &'static str,
    /// What Events name it.
    pub api_version: &'static str,
    /// `Job`.
    pub kind: &'static str,
    /// Upstream's name of the queue, where it has one.
    pub queue: Option<&'static str>,
    /// The CronJobs that make such Jobs.
    pub cron: &'static CronDialect,
    /// Where it is counted how late deletes are.
    pub deletion_delay: fn(&TtlMetrics) -> &Histogram,
    finish: fn(&Status<'_>) -> Finish,
}

/// Kubernetes' own Jobs.
pub static BATCH: Finishing = Finishing {
    name: "ttl-after-finished-controller",
    group: "batch",
    resource: "jobs",
    api_version: "batch/v1",
    kind: "Job",
    queue: Some("ttl_jobs_to_delete"),
    cron: &cron::BATCH,
    deletion_delay: |metrics| &metrics.batch_job_deletion,
    finish: by_condition,
};

/// Volcano's Jobs. Upstream's queue has no name.
pub static VOLCANO: Finishing = Finishing {
    name: "gc-controller",
    group: "batch.volcano.sh",
    resource: "jobs",
    api_version: "batch.volcano.sh/v1alpha1",
    kind: "Job",
    queue: None,
    cron: &cron::VOLCANO,
    deletion_delay: |metrics| &metrics.volcano_job_deletion,
    finish: by_phase,
};

/// All of them.
pub static KINDS: [&Finishing; 2] = [&BATCH, &VOLCANO];

/// Whether an object has finished, and when if it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finish {
    /// It has not.
    No,
    /// It has.
    Finished(Option<Timestamp>),
    /// It was put aside: it may be resumed.
    Aborted(Option<Timestamp>),
}

/// What an object says about its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) finish: Finish,
    /// Nothing if it has no TTL; an error with what is written there if that is no number of seconds.
    pub(super) ttl_secs: Option<Result<u32, Box<str>>>,
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct Spec<'a> {
    #[serde(borrow, rename = "ttlSecondsAfterFinished")]
    ttl: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct Status<'a> {
    #[serde(borrow)]
    conditions: Option<&'a RawValue>,
    #[serde(borrow)]
    state: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition<'a> {
    #[serde(borrow, default)]
    r#type: Cow<'a, str>,
    #[serde(borrow, default)]
    status: Cow<'a, str>,
    #[serde(borrow)]
    last_transition_time: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Phase<'a> {
    #[serde(borrow, default)]
    phase: Cow<'a, str>,
    #[serde(borrow)]
    last_transition_time: Option<&'a RawValue>,
}

/// As much of an odd TTL as is told.
const ODD_CHARS_MAX: usize = 40;

// === impl Finishing ===

impl Finishing {
    /// What an object of this kind says about its end.
    pub(super) fn read(&self, body: &[u8]) -> Said {
        let object: Option<Object<'_>> = serde_json::from_slice(body).ok();
        let (spec, status) = object.map_or((None, None), |object| (object.spec, object.status));
        let spec: Spec<'_> = members(spec).unwrap_or_default();
        let status: Status<'_> = members(status).unwrap_or_default();
        Said {
            finish: (self.finish)(&status),
            ttl_secs: spec.ttl.map(seconds),
        }
    }
}

/// The first condition that says Complete or Failed.
fn by_condition(status: &Status<'_>) -> Finish {
    let conditions: Vec<&RawValue> = part(status.conditions).unwrap_or_default();
    let mut conditions = conditions.into_iter().filter_map(|raw| members(Some(raw)));
    let finished = conditions.find(|condition: &Condition<'_>| {
        condition.status == "True" && ["Complete", "Failed"].contains(&&*condition.r#type)
    });
    finished.map_or(Finish::No, |condition| {
        Finish::Finished(time(condition.last_transition_time))
    })
}

/// Phases from which nothing more comes. An aborted Job can be resumed, so it is not one of them.
fn by_phase(status: &Status<'_>) -> Finish {
    let state: Phase<'_> = members(status.state).unwrap_or_default();
    match &*state.phase {
        "Completed" | "Failed" | "Terminated" => Finish::Finished(time(state.last_transition_time)),
        "Aborted" => Finish::Aborted(time(state.last_transition_time)),
        _ => Finish::No,
    }
}

/// A number of seconds as the API has them: 32 bits, not negative.
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
