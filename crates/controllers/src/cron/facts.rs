//! Reads the parts of CronJobs and Jobs that the controller needs. Each part is read by itself: an unreadable part counts
//! as absent and hides no other part. A template stays bytes until a Job is created from it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use caretaker_machinery::cron::zone::{self, ZoneError};
use caretaker_machinery::cron::{CronParseError, CronSchedule};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::dialects::CronDialect;
use super::status::{ActiveJob, CronStatus};
use super::{SHORT_LIVED, slots};
use crate::runtime::record::body::{members, part, time};
use crate::runtime::record::{ObjectRecord, OwnerRef, RecordBody, Uid};

/// The spec of a CronJob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CronSpec {
    pub(super) text: Box<str>,
    pub(super) schedule: Result<CronSchedule, CronParseError>,
    /// `timeZone` as written.
    pub(super) zone_name: Option<Box<str>>,
    pub(super) zone: Option<Result<TimeZone, ZoneError>>,
    pub(super) policy: ConcurrencyPolicy,
    pub(super) is_suspended: bool,
    pub(super) deadline_secs: Option<i64>,
    /// `successfulJobsHistoryLimit`; without it all successful Jobs are kept.
    pub(super) succeeded_kept: Option<usize>,
    pub(super) failed_kept: Option<usize>,
    /// The JSON of `jobTemplate`.
    pub(super) template: Bytes,
    /// Whether the TTL or a history limit lets our controllers delete a Job soon after its slot.
    pub(super) is_short_lived: bool,
}

/// What to do with a slot while a Job of an earlier slot runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum ConcurrencyPolicy {
    #[default]
    Allow,
    Forbid,
    Replace,
}

/// The parts of a Job that decisions read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct JobFacts {
    pub(super) outcome: JobProgress,
    /// The time of its end, if it has one.
    pub(super) ended: Option<Timestamp>,
    pub(super) started: Option<Timestamp>,
    pub(super) created: Option<Timestamp>,
    /// The slot in its name, to the second if its annotation has it.
    pub(super) slot: Option<Timestamp>,
}

/// How far a Job has got.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum JobProgress {
    #[default]
    Unfinished,
    Succeeded,
    Failed,
    /// Volcano only: the Job was stopped and may be resumed.
    Aborted,
}

#[derive(Default, Deserialize)]
struct RawObject<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMetadata<'a> {
    #[serde(borrow)]
    creation_timestamp: Option<&'a RawValue>,
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawCronSpec<'a> {
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
struct RawCronStatus<'a> {
    #[serde(borrow)]
    active: Option<&'a RawValue>,
    #[serde(borrow)]
    last_schedule_time: Option<&'a RawValue>,
    #[serde(borrow)]
    last_successful_time: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawJobReference<'a> {
    #[serde(borrow)]
    uid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    resource_version: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
struct RawTemplate<'a> {
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct RawTemplateSpec<'a> {
    #[serde(borrow, rename = "ttlSecondsAfterFinished")]
    ttl: Option<&'a RawValue>,
}

/// The status of a Job of either kind.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawJobStatus<'a> {
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
struct RawJobState<'a> {
    #[serde(borrow, default)]
    r#type: Cow<'a, str>,
    #[serde(borrow, default)]
    status: Cow<'a, str>,
    #[serde(borrow, default)]
    phase: Cow<'a, str>,
    #[serde(borrow)]
    last_transition_time: Option<&'a RawValue>,
}

/// The creation time, spec and status of a CronJob.
pub(super) fn cron_job(record: &ObjectRecord) -> (Option<Timestamp>, CronSpec, CronStatus) {
    let RecordBody::Json(body) = &record.body else {
        return (
            None,
            CronSpec::read(&RawCronSpec::default(), &Bytes::new()),
            CronStatus::default(),
        );
    };
    let object: RawObject<'_> = serde_json::from_slice(body).unwrap_or_default();
    let metadata: RawMetadata<'_> = members(object.metadata).unwrap_or_default();
    let spec: RawCronSpec<'_> = members(object.spec).unwrap_or_default();
    let status: RawCronStatus<'_> = members(object.status).unwrap_or_default();
    (
        time(metadata.creation_timestamp),
        CronSpec::read(&spec, body),
        CronStatus::read(&status),
    )
}

/// The creation time and `lastScheduleTime` of a CronJob. The TTL controllers need them to find unrecorded ticks.
pub(crate) fn cron_job_times(record: &ObjectRecord) -> (Option<Timestamp>, Option<Timestamp>) {
    let RecordBody::Json(body) = &record.body else {
        return (None, None);
    };
    let object: RawObject<'_> = serde_json::from_slice(body).unwrap_or_default();
    let metadata: RawMetadata<'_> = members(object.metadata).unwrap_or_default();
    let status: RawCronStatus<'_> = members(object.status).unwrap_or_default();
    (
        time(metadata.creation_timestamp),
        time(status.last_schedule_time),
    )
}

/// The owner of a Job that is its controller, if that is a CronJob. Its uid decides between the two groups.
pub(crate) fn owner(record: &ObjectRecord) -> Option<&OwnerRef> {
    let mut owners = record.meta.owners.iter();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    (&*owner.kind == "CronJob").then_some(owner)
}

// === impl CronDialect ===

impl CronDialect {
    /// Whether a Job has succeeded or failed.
    pub fn has_finished(&self, job: &Value) -> bool {
        let status = RawValue::from_string(job["status"].to_string()).ok();
        let status = members(status.as_deref()).unwrap_or_default();
        let outcome = (self.read_job)(&status).outcome;
        matches!(outcome, JobProgress::Succeeded | JobProgress::Failed)
    }
}

// === impl CronSpec ===

impl CronSpec {
    fn read(spec: &RawCronSpec<'_>, body: &Bytes) -> Self {
        let text: Cow<'_, str> = part(spec.schedule).unwrap_or_default();
        let zone_name: Option<Cow<'_, str>> = part(spec.time_zone);
        let policy: Cow<'_, str> = part(spec.concurrency_policy).unwrap_or_default();
        let limit = |raw| part::<i64>(raw).and_then(|kept| usize::try_from(kept).ok());
        let (succeeded_kept, failed_kept) = (
            limit(spec.successful_jobs_history_limit),
            limit(spec.failed_jobs_history_limit),
        );
        let template: RawTemplate<'_> = members(spec.job_template).unwrap_or_default();
        let template: RawTemplateSpec<'_> = members(template.spec).unwrap_or_default();
        let ttl = part::<i64>(template.ttl);
        Self {
            schedule: CronSchedule::parse(&text),
            text: text.into(),
            // DEVIATION(cron-empty-zone): Go takes a zone without a name for UTC. No server that checks CronJobs stores one.
            zone: zone_name.as_deref().map(zone::find),
            zone_name: zone_name.map(Into::into),
            policy: match &*policy {
                "Forbid" => ConcurrencyPolicy::Forbid,
                "Replace" => ConcurrencyPolicy::Replace,
                _ => ConcurrencyPolicy::Allow,
            },
            is_suspended: part(spec.suspend).unwrap_or_default(),
            deadline_secs: part(spec.starting_deadline_seconds),
            succeeded_kept,
            failed_kept,
            template: spec
                .job_template
                .map(|raw| body.slice_ref(raw.get().as_bytes()))
                .unwrap_or_default(),
            is_short_lived: ttl.is_some_and(|secs| {
                u64::try_from(secs).is_ok_and(|secs| secs < SHORT_LIVED.as_secs())
            }) || [succeeded_kept, failed_kept].contains(&Some(0)),
        }
    }
}

// === impl CronStatus ===

impl CronStatus {
    fn read(status: &RawCronStatus<'_>) -> Self {
        let active: Vec<&RawValue> = part(status.active).unwrap_or_default();
        // An unreadable entry keeps an empty uid, matches no Job, and is dropped by the next status write.
        let active = active.into_iter().map(|raw| {
            let reference: RawJobReference<'_> = members(Some(raw)).unwrap_or_default();
            ActiveJob {
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
    /// Reads a Job whose CronJob has this name.
    pub(super) fn read(row: &CronDialect, record: &ObjectRecord, cron_job: &str) -> Self {
        let RecordBody::Json(body) = &record.body else {
            return Self::default();
        };
        let object: RawObject<'_> = serde_json::from_slice(body).unwrap_or_default();
        let metadata: RawMetadata<'_> = members(object.metadata).unwrap_or_default();
        let status: RawJobStatus<'_> = members(object.status).unwrap_or_default();
        let annotations: BTreeMap<Cow<'_, str>, &RawValue> =
            members(metadata.annotations).unwrap_or_default();
        let stamp = time(annotations.get(row.stamp).copied()).map(whole);
        Self {
            created: time(metadata.creation_timestamp),
            slot: slots::slot_of_job_name(cron_job, &record.meta.name, stamp),
            ..(row.read_job)(&status)
        }
    }

    /// Kubernetes: the first true condition `Complete` or `Failed` decides.
    pub(super) fn by_condition(status: &RawJobStatus<'_>) -> Self {
        let conditions: Vec<&RawValue> = part(status.conditions).unwrap_or_default();
        let conditions = conditions.into_iter().filter_map(|raw| members(Some(raw)));
        let mut true_ones = conditions.filter(|stage: &RawJobState<'_>| stage.status == "True");
        let end = true_ones.find(|stage| ["Complete", "Failed"].contains(&&*stage.r#type));
        let outcome = match end.as_ref().map(|stage| &*stage.r#type) {
            Some("Complete") => JobProgress::Succeeded,
            Some(_) => JobProgress::Failed,
            None => JobProgress::Unfinished,
        };
        Self {
            outcome,
            ended: time(status.completion_time).map(whole),
            started: time(status.start_time),
            ..Self::default()
        }
    }

    /// Volcano: the phase decides. An aborted Job can be resumed, so it has not finished by itself.
    pub(super) fn by_phase(status: &RawJobStatus<'_>) -> Self {
        let state: RawJobState<'_> = members(status.state).unwrap_or_default();
        let outcome = match &*state.phase {
            "Completed" => JobProgress::Succeeded,
            "Failed" | "Terminated" => JobProgress::Failed,
            "Aborted" => JobProgress::Aborted,
            _ => JobProgress::Unfinished,
        };
        Self {
            outcome,
            ended: time(state.last_transition_time).map(whole),
            ..Self::default()
        }
    }
}

// === impl JobProgress ===

impl JobProgress {
    /// The condition as the Event names it.
    pub(super) fn condition(self) -> &'static str {
        match self {
            Self::Succeeded => "Complete",
            Self::Failed | Self::Unfinished | Self::Aborted => "Failed",
        }
    }
}

/// Drops fractions of a second, as API times have none.
fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
