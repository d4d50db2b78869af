//! Reads the parts of CronJobs and Jobs that the controller needs. Each part is read by itself: an unreadable part counts
//! as absent and hides no other part. A template stays bytes until a Job is created from it.

use std::borrow::Cow;

use bytes::Bytes;
use caretaker_machinery::cron::zone::{self, ZoneError};
use caretaker_machinery::cron::{CronParseError, CronSchedule};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

use super::dialects::CronDialect;
use super::status::{ActiveJob, CronStatus};
use super::{SHORT_LIVED, slots};
use crate::runtime::record::body::JsonMembers;
use crate::runtime::record::{ObjectRecord, OwnerRef, Uid};

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

/// The annotation of a Job that a user started with `kubectl create job --from` or `caretaker schedule run`.
const STARTED_BY_HAND: &str = "cronjob.kubernetes.io/instantiate";

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
pub(crate) struct JobFacts {
    pub(crate) outcome: JobProgress,
    /// The time of its end, if it has one.
    pub(super) ended: Option<Timestamp>,
    pub(super) started: Option<Timestamp>,
    pub(super) created: Option<Timestamp>,
    /// The slot in its name, to the second if its annotation has it.
    pub(super) slot: Option<Timestamp>,
    /// Whether its annotation says that a user started it.
    pub(super) is_by_hand: bool,
}

/// How far a Job has got.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum JobProgress {
    #[default]
    Unfinished,
    Succeeded,
    Failed,
    /// Volcano only: the Job was stopped and may be resumed.
    Aborted,
}

/// The creation time, spec and status of a CronJob.
pub(super) fn cron_job(record: &ObjectRecord) -> (Option<Timestamp>, CronSpec, CronStatus) {
    let body = record.body.json();
    let object = JsonMembers::of(&body);
    (
        object.object("metadata").time("creationTimestamp"),
        CronSpec::read(&object.object("spec"), &body),
        CronStatus::read(&object.object("status")),
    )
}

/// The owner of a Job that is its controller, if that is a CronJob. Its uid decides between the two groups.
pub(crate) fn owner(record: &ObjectRecord) -> Option<&OwnerRef> {
    let mut owners = record.meta.owners.iter();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    (&*owner.kind == "CronJob").then_some(owner)
}

/// The slot that a Job is named after, if its CronJob has this name.
pub(crate) fn slot_of_job(
    row: &CronDialect,
    record: &ObjectRecord,
    cron_job: &str,
) -> Option<Timestamp> {
    let body = record.body.json();
    let object = JsonMembers::of(&body);
    let annotations = object.object("metadata").object("annotations");
    slot_in(row, &annotations, &record.meta.name, cron_job)
}

// === impl CronDialect ===

impl CronDialect {
    /// Whether a Job has succeeded or failed.
    pub fn has_finished(&self, job: &Value) -> bool {
        let status = job["status"].to_string();
        let (facts, _) = (self.read_job)(&JsonMembers::of(status.as_bytes()));
        matches!(facts.outcome, JobProgress::Succeeded | JobProgress::Failed)
    }
}

// === impl CronSpec ===

impl CronSpec {
    fn read(spec: &JsonMembers<'_>, body: &Bytes) -> Self {
        let text = spec.text("schedule");
        let zone_name: Option<Cow<'_, str>> = spec.part("timeZone");
        let limit = |name| usize::try_from(spec.part::<i64>(name)?).ok();
        let succeeded_kept = limit("successfulJobsHistoryLimit");
        let failed_kept = limit("failedJobsHistoryLimit");
        let template = spec.object("jobTemplate").object("spec");
        let ttl = template.part::<i64>("ttlSecondsAfterFinished");
        let ttl = ttl.and_then(|secs| u64::try_from(secs).ok());
        Self {
            schedule: CronSchedule::parse(&text),
            text: text.into(),
            // DEVIATION(cron-empty-zone): Go takes a zone without a name for UTC. No server that checks CronJobs stores one.
            zone: zone_name.as_deref().map(zone::find),
            zone_name: zone_name.map(Into::into),
            policy: match &*spec.text("concurrencyPolicy") {
                "Forbid" => ConcurrencyPolicy::Forbid,
                "Replace" => ConcurrencyPolicy::Replace,
                _ => ConcurrencyPolicy::Allow,
            },
            is_suspended: spec.part("suspend").unwrap_or_default(),
            deadline_secs: spec.part("startingDeadlineSeconds"),
            succeeded_kept,
            failed_kept,
            template: spec
                .raw("jobTemplate")
                .map(|raw| body.slice_ref(raw.get().as_bytes()))
                .unwrap_or_default(),
            is_short_lived: ttl.is_some_and(|secs| secs < SHORT_LIVED.as_secs())
                || [succeeded_kept, failed_kept].contains(&Some(0)),
        }
    }
}

// === impl CronStatus ===

impl CronStatus {
    fn read(status: &JsonMembers<'_>) -> Self {
        // An unreadable entry keeps an empty uid, matches no Job, and is dropped by the next status write.
        let active = status.list("active").map(|entry| ActiveJob {
            uid: Uid::from(&*entry.text("uid")),
            name: entry.text("name").into(),
            revision: entry.text("resourceVersion").into(),
        });
        Self {
            active: active.collect(),
            last_schedule: status.time("lastScheduleTime").map(whole),
            last_successful: status.time("lastSuccessfulTime").map(whole),
        }
    }
}

// === impl JobFacts ===

impl JobFacts {
    /// Reads a Job whose CronJob has this name.
    pub(super) fn read(row: &CronDialect, record: &ObjectRecord, cron_job: &str) -> Self {
        let body = record.body.json();
        let object = JsonMembers::of(&body);
        let metadata = object.object("metadata");
        let annotations = metadata.object("annotations");
        let (facts, _) = (row.read_job)(&object.object("status"));
        Self {
            created: metadata.time("creationTimestamp"),
            slot: slot_in(row, &annotations, &record.meta.name, cron_job),
            is_by_hand: !annotations.text(STARTED_BY_HAND).is_empty(),
            ..facts
        }
    }

    /// Kubernetes: the first true condition `Complete` or `Failed` decides. Returns its time too.
    pub(super) fn by_condition(status: &JsonMembers<'_>) -> (Self, Option<Timestamp>) {
        let mut ends = status.list("conditions").filter_map(|condition| {
            let outcome = match &*condition.text("type") {
                "Complete" => JobProgress::Succeeded,
                "Failed" => JobProgress::Failed,
                _ => return None,
            };
            let time = condition.time("lastTransitionTime");
            (condition.text("status") == "True").then_some((outcome, time))
        });
        let (outcome, time) = ends.next().unwrap_or_default();
        let facts = Self {
            outcome,
            ended: status.time("completionTime").map(whole),
            started: status.time("startTime"),
            ..Self::default()
        };
        (facts, time)
    }

    /// Volcano: the phase decides. An aborted Job can be resumed, so it has not finished by itself. Returns the time of
    /// the phase too.
    pub(super) fn by_phase(status: &JsonMembers<'_>) -> (Self, Option<Timestamp>) {
        let state = status.object("state");
        let outcome = match &*state.text("phase") {
            "Completed" => JobProgress::Succeeded,
            // DEVIATION(cron-terminated): Volcano's history limits never delete a terminated Job.
            "Failed" | "Terminated" => JobProgress::Failed,
            "Aborted" => JobProgress::Aborted,
            _ => JobProgress::Unfinished,
        };
        let time = state.time("lastTransitionTime");
        let facts = Self {
            outcome,
            ended: time.map(whole),
            ..Self::default()
        };
        (facts, time)
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

fn slot_in(
    row: &CronDialect,
    annotations: &JsonMembers<'_>,
    job: &str,
    cron_job: &str,
) -> Option<Timestamp> {
    let stamp = annotations.time(row.stamp).map(whole);
    slots::slot_of_job_name(cron_job, job, stamp)
}

/// Drops fractions of a second, as API times have none.
fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
