//! What is read in CronJobs and Jobs, and nothing else. Each part is read by itself: what cannot be understood counts as
//! not said, and hides none of the others. A template stays bytes until a Job is made of it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use caretaker_machinery::cron::zone::{self, ZoneError};
use caretaker_machinery::cron::{ParseError, Schedule};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::dialects::Dialect;
use super::status::{Active, Status};
use super::{SWIFT, slots};
use crate::runtime::record::body::{members, part, time};
use crate::runtime::record::{Body, OwnerRef, Record, Uid};

/// What a CronJob asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) text: Box<str>,
    pub(super) schedule: Result<Schedule, ParseError>,
    /// What `timeZone` says, if it says anything.
    pub(super) zone_name: Option<Box<str>>,
    pub(super) zone: Option<Result<TimeZone, ZoneError>>,
    pub(super) policy: Policy,
    pub(super) is_suspended: bool,
    pub(super) deadline_secs: Option<i64>,
    /// How many Jobs that succeeded are kept; all without a number.
    pub(super) succeeded_kept: Option<usize>,
    pub(super) failed_kept: Option<usize>,
    /// `jobTemplate` as it is written.
    pub(super) template: Bytes,
    /// Whether our own code could remove a Job soon after its slot.
    pub(super) is_swift: bool,
}

/// What happens while a Job of the last slot still runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Policy {
    #[default]
    Allow,
    Forbid,
    Replace,
}

/// What a Job says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct JobFacts {
    pub(super) outcome: Outcome,
    /// When it ended, if it has and says so.
    pub(super) ended: Option<Timestamp>,
    pub(super) started: Option<Timestamp>,
    pub(super) created: Option<Timestamp>,
    /// The slot that its name, and its annotation, say it is for.
    pub(super) slot: Option<Timestamp>,
}

/// How a Job stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Outcome {
    #[default]
    Unfinished,
    Succeeded,
    Failed,
    /// Put aside; it may be resumed.
    Aborted,
}

#[derive(Default, Deserialize)]
struct Object<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow)]
    creation_timestamp: Option<&'a RawValue>,
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpecOfCronJob<'a> {
    #[serde(borrow)]
    schedule: Option<&'a RawValue>,
    #[serde(borrow)]
    time_zone: Option<&'a RawValue>,
    #[serde(borrow)]
    concurrency_policy: Option<&'a RawValue>,
    #[serde(borrow)]
    suspend: Option<&'a RawValue>,
    #[serde(borrow)]
    starting_deadline_seconds: Option<&'a RawValue>,
    #[serde(borrow)]
    successful_jobs_history_limit: Option<&'a RawValue>,
    #[serde(borrow)]
    failed_jobs_history_limit: Option<&'a RawValue>,
    #[serde(borrow)]
    job_template: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatusOfCronJob<'a> {
    #[serde(borrow)]
    active: Option<&'a RawValue>,
    #[serde(borrow)]
    last_schedule_time: Option<&'a RawValue>,
    #[serde(borrow)]
    last_successful_time: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reference<'a> {
    #[serde(borrow)]
    uid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    resource_version: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
struct Template<'a> {
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct TemplateSpec<'a> {
    #[serde(borrow, rename = "ttlSecondsAfterFinished")]
    ttl: Option<&'a RawValue>,
}

/// The status of a Job of either kind.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StatusOfJob<'a> {
    #[serde(borrow)]
    conditions: Option<&'a RawValue>,
    #[serde(borrow)]
    start_time: Option<&'a RawValue>,
    #[serde(borrow)]
    completion_time: Option<&'a RawValue>,
    #[serde(borrow)]
    state: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stage<'a> {
    #[serde(borrow, default)]
    r#type: Cow<'a, str>,
    #[serde(borrow, default)]
    status: Cow<'a, str>,
    #[serde(borrow, default)]
    phase: Cow<'a, str>,
    #[serde(borrow)]
    last_transition_time: Option<&'a RawValue>,
}

/// A CronJob as far as it matters: when it was made, what it asks for, what is written in its status.
pub(super) fn cron_job(record: &Record) -> (Option<Timestamp>, Spec, Status) {
    let Body::Json(body) = &record.body else {
        return (
            None,
            Spec::read(&SpecOfCronJob::default(), &Bytes::new()),
            Status::default(),
        );
    };
    let object: Object<'_> = serde_json::from_slice(body).unwrap_or_default();
    let metadata: Metadata<'_> = members(object.metadata).unwrap_or_default();
    let spec: SpecOfCronJob<'_> = members(object.spec).unwrap_or_default();
    let status: StatusOfCronJob<'_> = members(object.status).unwrap_or_default();
    (
        time(metadata.creation_timestamp),
        Spec::read(&spec, body),
        Status::read(&status),
    )
}

/// When a CronJob was made, and the last slot that its status tells: what others need who keep to the rule of ticks.
pub(crate) fn cron_job_times(record: &Record) -> (Option<Timestamp>, Option<Timestamp>) {
    let Body::Json(body) = &record.body else {
        return (None, None);
    };
    let object: Object<'_> = serde_json::from_slice(body).unwrap_or_default();
    let metadata: Metadata<'_> = members(object.metadata).unwrap_or_default();
    let status: StatusOfCronJob<'_> = members(object.status).unwrap_or_default();
    (
        time(metadata.creation_timestamp),
        time(status.last_schedule_time),
    )
}

/// The controller that a Job belongs to, if that is a CronJob. Of which group is told by its uid.
pub(crate) fn owner(record: &Record) -> Option<&OwnerRef> {
    let mut owners = record.meta.owners.iter();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    (&*owner.kind == "CronJob").then_some(owner)
}

// === impl Dialect ===

impl Dialect {
    /// Whether a Job has ended for good.
    pub fn has_finished(&self, job: &Value) -> bool {
        let status = RawValue::from_string(job["status"].to_string()).ok();
        let status = members(status.as_deref()).unwrap_or_default();
        let outcome = (self.read_job)(&status).outcome;
        matches!(outcome, Outcome::Succeeded | Outcome::Failed)
    }
}

// === impl Spec ===

impl Spec {
    fn read(spec: &SpecOfCronJob<'_>, body: &Bytes) -> Self {
        let text: Cow<'_, str> = part(spec.schedule).unwrap_or_default();
        let zone_name: Option<Cow<'_, str>> = part(spec.time_zone);
        let policy: Cow<'_, str> = part(spec.concurrency_policy).unwrap_or_default();
        let limit = |raw| part::<i64>(raw).and_then(|kept| usize::try_from(kept).ok());
        let (succeeded_kept, failed_kept) = (
            limit(spec.successful_jobs_history_limit),
            limit(spec.failed_jobs_history_limit),
        );
        let template: Template<'_> = members(spec.job_template).unwrap_or_default();
        let template: TemplateSpec<'_> = members(template.spec).unwrap_or_default();
        let ttl = part::<i64>(template.ttl);
        Self {
            schedule: Schedule::parse(&text),
            text: text.into(),
            // DEVIATION(cron-empty-zone): Go takes a zone without a name for UTC. No server that checks CronJobs stores one.
            zone: zone_name.as_deref().map(zone::find),
            zone_name: zone_name.map(Into::into),
            policy: match &*policy {
                "Forbid" => Policy::Forbid,
                "Replace" => Policy::Replace,
                _ => Policy::Allow,
            },
            is_suspended: part(spec.suspend).unwrap_or_default(),
            deadline_secs: part(spec.starting_deadline_seconds),
            succeeded_kept,
            failed_kept,
            template: spec
                .job_template
                .map(|raw| body.slice_ref(raw.get().as_bytes()))
                .unwrap_or_default(),
            is_swift: ttl
                .is_some_and(|secs| u64::try_from(secs).is_ok_and(|secs| secs < SWIFT.as_secs()))
                || [succeeded_kept, failed_kept].contains(&Some(0)),
        }
    }
}

// === impl Status ===

impl Status {
    fn read(status: &StatusOfCronJob<'_>) -> Self {
        let active: Vec<&RawValue> = part(status.active).unwrap_or_default();
        // One that cannot be read is kept as one that no Job is meant by, so that it goes.
        let active = active.into_iter().map(|raw| {
            let reference: Reference<'_> = members(Some(raw)).unwrap_or_default();
            Active {
                uid: Uid::from(&*reference.uid.unwrap_or_default()),
                name: reference.name.unwrap_or_default().into(),
                revision: reference.resource_version.unwrap_or_default().into(),
            }
        });
        Self {
            active: active.collect(),
            last_schedule: time(status.last_schedule_time).map(whole),
            last_successful: time(status.last_successful_time).map(whole),
        }
    }
}

// === impl JobFacts ===

impl JobFacts {
    /// What a Job of a kind says, whose CronJob has this name.
    pub(super) fn read(row: &Dialect, record: &Record, cron_job: &str) -> Self {
        let Body::Json(body) = &record.body else {
            return Self::default();
        };
        let object: Object<'_> = serde_json::from_slice(body).unwrap_or_default();
        let metadata: Metadata<'_> = members(object.metadata).unwrap_or_default();
        let status: StatusOfJob<'_> = members(object.status).unwrap_or_default();
        let annotations: BTreeMap<Cow<'_, str>, &RawValue> =
            members(metadata.annotations).unwrap_or_default();
        let stamp = time(annotations.get(row.stamp).copied()).map(whole);
        Self {
            created: time(metadata.creation_timestamp),
            slot: slots::named(cron_job, &record.meta.name, stamp),
            ..(row.read_job)(&status)
        }
    }

    /// The first condition that says Complete or Failed.
    pub(super) fn by_condition(status: &StatusOfJob<'_>) -> Self {
        let conditions: Vec<&RawValue> = part(status.conditions).unwrap_or_default();
        let conditions = conditions.into_iter().filter_map(|raw| members(Some(raw)));
        let mut true_ones = conditions.filter(|stage: &Stage<'_>| stage.status == "True");
        let end = true_ones.find(|stage| ["Complete", "Failed"].contains(&&*stage.r#type));
        let outcome = match end.as_ref().map(|stage| &*stage.r#type) {
            Some("Complete") => Outcome::Succeeded,
            Some(_) => Outcome::Failed,
            None => Outcome::Unfinished,
        };
        Self {
            outcome,
            ended: time(status.completion_time).map(whole),
            started: time(status.start_time),
            ..Self::default()
        }
    }

    /// Phases from which nothing more comes. An aborted Job can be resumed, so it is not one of them by itself.
    pub(super) fn by_phase(status: &StatusOfJob<'_>) -> Self {
        let state: Stage<'_> = members(status.state).unwrap_or_default();
        let outcome = match &*state.phase {
            "Completed" => Outcome::Succeeded,
            "Failed" | "Terminated" => Outcome::Failed,
            "Aborted" => Outcome::Aborted,
            _ => Outcome::Unfinished,
        };
        Self {
            outcome,
            ended: time(state.last_transition_time).map(whole),
            ..Self::default()
        }
    }
}

// === impl Outcome ===

impl Outcome {
    /// What Kubernetes calls the condition.
    pub(super) fn condition(self) -> &'static str {
        match self {
            Self::Succeeded => "Complete",
            Self::Failed | Self::Unfinished | Self::Aborted => "Failed",
        }
    }
}

/// The second that a time lies in: statuses tell no more.
fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
