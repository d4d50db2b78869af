//! Slots of a schedule (the schedule times of a CronJob), and the Jobs that are named after them.
//!
//! Pure functions. They mirror `mostRecentScheduleTime`, `nextScheduleTime` and `getJobFromTemplate2` of both originals.
//!
//! DEVIATION(cron-latest-slot): upstream estimates the number of missed slots from the distance of the first two, and
//! finds none if a schedule is irregular. Here the latest slot is searched for, and missed slots are counted up to 101.
//! DEVIATION(cron-deadline): upstream counts from `now - startingDeadlineSeconds`, so that `@every` with a short deadline
//! never runs. Here slots are counted from the last one, and those that are older than the deadline are dropped.

use caretaker_machinery::cron::{CronSchedule, SLOTS_COUNTED_MAX};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::dialects::CronDialect;
use super::index::CronState;
use crate::runtime::record::Uid;

/// The most that a slot in a Job's name may lie in the future. Clocks are set back; but this controller gave no name that
/// lies further ahead.
const AHEAD_MAX: SignedDuration = SignedDuration::from_hours(1);

/// How far back a slot is searched for if the schedule had none for years.
const YEARS_AGO: SignedDuration = SignedDuration::from_hours(366 * 24);

/// The slots of a CronJob around the current time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotOutlook {
    /// The latest slot in the past, if it is later than the last one that was served.
    pub(super) due: Option<DueSlot>,
    /// The slot after it; none if the schedule has none for years.
    pub(super) next: Option<Timestamp>,
}

/// The latest slot in the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DueSlot {
    pub(super) time: Timestamp,
    /// The number of slots since the last one that was served, this one included, up to 101. Slots past their deadline do
    /// not count.
    pub(super) count: usize,
    /// Whether `startingDeadlineSeconds` have passed since the slot.
    pub(super) is_late: bool,
}

/// The parts of a Job that do not come from its template.
#[derive(Debug, Clone, Copy)]
pub struct JobOrder<'a> {
    /// The name of the CronJob, which becomes the Job's one owner.
    pub cron_job: &'a str,
    /// The namespace of both.
    pub namespace: &'a str,
    /// The uid of the CronJob.
    pub uid: &'a str,
    /// The name of the Job.
    pub name: &'a str,
    /// The annotation that says what the Job was made for.
    pub mark: (&'a str, &'a str),
    /// Whether a foreground deletion of the CronJob waits for the Job. The user needs an extra right to set this.
    pub blocks_owner: bool,
}

/// The slot that is due after `last`, and the next one.
pub(super) fn outlook(
    schedule: &CronSchedule,
    zone: &TimeZone,
    last: Timestamp,
    deadline_secs: Option<i64>,
    now: Timestamp,
) -> SlotOutlook {
    let mut last = last;
    let mut found = schedule.latest(last, now, zone);
    let mut next = None;
    if found.is_none() {
        next = schedule.next(last, zone);
        // No slot for years after the last one, and those years may be over: leap days around 2100.
        if next.is_none() && last < now {
            last = now.saturating_sub(YEARS_AGO).unwrap_or(now).max(last);
            found = schedule.latest(last, now, zone);
            next = schedule.next(now, zone);
        }
    }
    let Some(time) = found else {
        return SlotOutlook { due: None, next };
    };
    // A deadline longer than the range of times drops nothing.
    let limit = deadline_secs.and_then(|secs| {
        let deadline = SignedDuration::from_secs(secs.max(0));
        now.checked_sub(deadline).ok()
    });
    let dropped = limit.and_then(|limit| schedule.latest(last, limit, zone));
    SlotOutlook {
        due: Some(DueSlot {
            time,
            count: schedule.count(dropped.unwrap_or(last), now, zone),
            is_late: limit.is_some_and(|limit| time <= limit),
        }),
        next: next_minute(schedule, zone, time),
    }
}

/// The next slot with a Job name of its own. All slots of a minute share one name, and `@every 10s` has six of them.
pub(super) fn next_minute(
    schedule: &CronSchedule,
    zone: &TimeZone,
    time: Timestamp,
) -> Option<Timestamp> {
    let mut next = schedule.next(time, zone)?;
    // Slots are whole seconds, so the loop ends after at most 60 rounds.
    while minute(next) == minute(time) {
        next = schedule.next(next, zone)?;
    }
    Some(next)
}

/// The next slot in the future; none if the schedule has none for years.
#[must_use]
pub fn next(
    schedule: &CronSchedule,
    zone: &TimeZone,
    last: Timestamp,
    now: Timestamp,
) -> Option<Timestamp> {
    outlook(schedule, zone, last, None, now).next
}

/// The name of the Job of a slot. Slots of the same minute share it.
pub(super) fn job_name(cron_job: &str, slot: Timestamp) -> String {
    format!("{cron_job}-{}", minute(slot))
}

/// The slot that a Job is named after; none if [`job_name`] did not make the name. A name has whole minutes, so `stamp`,
/// the Job's annotation, adds the second.
pub(super) fn slot_of_job_name(
    cron_job: &str,
    job: &str,
    stamp: Option<Timestamp>,
) -> Option<Timestamp> {
    let digits = job.strip_prefix(cron_job)?.strip_prefix('-')?;
    let minutes = i64::from(digits.parse::<u32>().ok()?);
    // No sign and no leading zeros: only names that `job_name` writes.
    if minutes.to_string() != digits {
        return None;
    }
    let start = Timestamp::from_second(minutes * 60).ok()?;
    let stamp = stamp.filter(|stamp| minute(*stamp) == minutes);
    Some(stamp.unwrap_or(start))
}

/// Whether the slot of a Job is a tick that the CronJob's status does not record: later than `lastScheduleTime`, or not
/// before the CronJob's creation if that is not set, and at most [`AHEAD_MAX`] in the future.
pub(super) fn is_unrecorded_tick(
    slot: Timestamp,
    created: Timestamp,
    last: Option<Timestamp>,
    now: Timestamp,
) -> bool {
    let is_new = match last {
        Some(_) => !is_recorded(slot, last),
        None => minute(slot) >= minute(created),
    };
    is_new && slot.duration_since(now) <= AHEAD_MAX
}

/// The latest slot that a Job's name may contain now.
pub(super) fn latest_named(now: Timestamp) -> Timestamp {
    now.saturating_add(AHEAD_MAX).unwrap_or(Timestamp::MAX)
}

/// Whether `lastScheduleTime` covers a slot. A minute has at most one Job, whatever the schedule.
pub(super) fn is_recorded(slot: Timestamp, last: Option<Timestamp>) -> bool {
    last.is_some_and(|last| minute(slot) <= minute(last))
}

/// Whether upstream emits `TooManyMissedTimes` for this number of slots.
pub(super) fn are_too_many(count: usize) -> bool {
    count >= SLOTS_COUNTED_MAX
}

/// Whole minutes since 1970.
pub(super) fn minute(time: Timestamp) -> i64 {
    time.as_second().div_euclid(60)
}

/// The Job of a slot, as it is created.
pub(super) fn job_of(row: &CronDialect, uid: &Uid, cron: &CronState, slot: Timestamp) -> Value {
    let template = serde_json::from_slice(&cron.spec.template).unwrap_or_default();
    let order = JobOrder {
        cron_job: &cron.name,
        namespace: &cron.namespace,
        uid: &uid.to_string(),
        name: &job_name(&cron.name, slot),
        mark: (row.stamp, &stamp(cron, slot)),
        blocks_owner: true,
    };
    of_template(row, template, &order)
}

/// A Job made from the template of a CronJob: labels, annotations and spec of the template, and the parts of `order`.
pub fn of_template(row: &CronDialect, mut template: Value, order: &JobOrder<'_>) -> Value {
    let mut part = |path: &str| template.pointer_mut(path).map(Value::take);
    let map = |part: Option<Value>| match part {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    };
    let spec = part("/spec").unwrap_or_default();
    let labels = map(part("/metadata/labels"));
    let mut annotations = map(part("/metadata/annotations"));
    annotations.insert(order.mark.0.to_owned(), order.mark.1.into());
    let mut owner = json!({
        "apiVersion": row.api_version,
        "kind": "CronJob",
        "name": order.cron_job,
        "uid": order.uid,
        "controller": true,
    });
    if order.blocks_owner {
        owner["blockOwnerDeletion"] = true.into();
    }
    let mut metadata = json!({
        "name": order.name,
        "namespace": order.namespace,
        "annotations": annotations,
        "ownerReferences": [owner],
    });
    if !labels.is_empty() {
        metadata["labels"] = labels.into();
    }
    json!({
        "apiVersion": row.api_version,
        "kind": "Job",
        "metadata": metadata,
        "spec": spec,
    })
}

/// The slot in the CronJob's `timeZone`, in UTC if it has none, whatever default zone its schedule is read in.
fn stamp(cron: &CronState, slot: Timestamp) -> String {
    match &cron.spec.zone {
        Some(Ok(zone)) if *zone != TimeZone::UTC => {
            let zoned = slot.to_zoned(zone.clone());
            match zoned.offset().seconds() {
                0 => format!("{slot:.0}"),
                _ => zoned.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
            }
        }
        _ => format!("{slot:.0}"),
    }
}
