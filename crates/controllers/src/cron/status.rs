//! The status of a CronJob, derived from the Jobs that it owns and from the stored status.
//!
//! Jobs of slots that have not finished are active, and so are Jobs that the stored status lists: the controller before us
//! created them. A Job that a user started by hand is neither. The last slot is the later one of `lastScheduleTime` and the latest slot
//! that an owned Job is named after. So the process that takes over after a crash between the create of a Job and the
//! status write derives the same status, and no slot gets a second Job.
//!
//! DEVIATION(cron-derived-active): upstream's Forbid and Replace follow `status.active`, so a slot's Job that is missing
//! there runs on beside the next one. Here such a Job counts too, and `active` lists it.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::dialects::CronDialect;
use super::event_texts::CronEvent;
use super::facts::ConcurrencyPolicy;
use super::index::{CronIndex, CronState};
use super::owned_jobs::{OwnedJob, OwnedJobs};
use super::slots;
use crate::runtime::controller::EventNote;
use crate::runtime::record::Uid;

/// The most Events about Jobs that users started, per decision: a CronJob may have a hundred thousand.
const UNEXPECTED_MAX: usize = 20;

/// The fields of a status that the controller writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CronStatus {
    pub(super) active: Vec<ActiveJob>,
    pub(super) last_schedule: Option<Timestamp>,
    pub(super) last_successful: Option<Timestamp>,
}

/// An entry of `status.active`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ActiveJob {
    pub(super) uid: Uid,
    pub(super) name: Box<str>,
    pub(super) revision: Box<str>,
}

/// A time of a status.
type StatusTime = fn(&CronStatus) -> Option<Timestamp>;

/// The status as it should be.
pub(super) fn derive(index: &CronIndex, uid: &Uid, cron: &CronState, now: Timestamp) -> CronStatus {
    let stored = &cron.status;
    let mut running: Vec<(&Uid, &OwnedJob)> = running(index, uid, cron, now).collect();
    running.sort_by_key(|(_, job)| (job.facts.created, &job.name));
    // Entries of running Jobs keep their place and text, so that the patch is small.
    let runs: BTreeSet<&Uid> = running.iter().map(|(uid, _)| *uid).collect();
    let mut listed = BTreeSet::new();
    let mut active: Vec<ActiveJob> = stored.active.clone();
    active.retain(|known| runs.contains(&known.uid) && listed.insert(known.uid.clone()));
    let new = running.iter().filter(|(uid, _)| !listed.contains(*uid));
    active.extend(new.map(|(uid, job)| ActiveJob {
        uid: (*uid).clone(),
        name: (*job.name).into(),
        revision: job.revision.to_string().into(),
    }));
    let succeeded = index.jobs_of(uid).and_then(OwnedJobs::last_success);
    CronStatus {
        active,
        last_schedule: last_schedule(index, uid, cron, now),
        last_successful: stored.last_successful.max(succeeded),
    }
}

/// The last slot that was served: the later one of `lastScheduleTime` and the slots that owned Jobs are named after.
pub(super) fn last_schedule(
    index: &CronIndex,
    uid: &Uid,
    cron: &CronState,
    now: Timestamp,
) -> Option<Timestamp> {
    let stored = cron.status.last_schedule;
    let jobs = index.jobs_of(uid);
    let slot = jobs.and_then(|jobs| jobs.last_slot(slots::latest_named(now)));
    // If the latest slot is recorded, so are all earlier ones.
    let unrecorded =
        slot.filter(|slot| slots::is_unrecorded_tick(*slot, cron.created, stored, now));
    stored.max(unrecorded)
}

/// The Jobs that run and count: those of slots, and those that the stored status lists. A Job that this controller replaced
/// does not count, even while a finalizer keeps it.
pub(super) fn running<'a>(
    index: &'a CronIndex,
    uid: &Uid,
    cron: &'a CronState,
    now: Timestamp,
) -> impl Iterator<Item = (&'a Uid, &'a OwnedJob)> {
    let counts = counting(cron, now);
    unfinished(index, uid).filter(move |(uid, job)| {
        let is_replaced = job.is_deleting && cron.spec.policy == ConcurrencyPolicy::Replace;
        !job.is_going && !is_replaced && counts(uid, job)
    })
}

/// The Events about running Jobs that do not count. The driver emits each of them once.
pub(super) fn unexpected(
    index: &CronIndex,
    uid: &Uid,
    cron: &CronState,
    now: Timestamp,
) -> Vec<EventNote> {
    let counts = counting(cron, now);
    let unexpected = unfinished(index, uid)
        .filter(|(uid, job)| !job.is_going && !job.is_deleting && !counts(uid, job));
    let notes = unexpected
        .take(UNEXPECTED_MAX)
        .filter_map(|(job_uid, job)| {
            let values = [("job", &*job.name), ("uid", &job_uid.to_string())];
            index.note(uid, CronEvent::Unexpected, &values)
        });
    notes.collect()
}

fn unfinished<'a>(
    index: &'a CronIndex,
    uid: &Uid,
) -> impl Iterator<Item = (&'a Uid, &'a OwnedJob)> {
    let unfinished = index.jobs_of(uid).map(OwnedJobs::unfinished);
    unfinished.into_iter().flatten()
}

/// Whether a running Job counts.
fn counting(cron: &CronState, now: Timestamp) -> impl Fn(&Uid, &OwnedJob) -> bool {
    let listed: BTreeSet<&Uid> = cron.status.active.iter().map(|job| &job.uid).collect();
    let until = slots::latest_named(now);
    move |uid, job| job.is_of_slot(until) || listed.contains(uid)
}

/// The merge patch that turns the stored status into the derived one; none if they are equal.
pub(super) fn patch(row: &CronDialect, cron: &CronState, derived: &CronStatus) -> Option<Value> {
    let stored = &cron.status;
    let mut status = Map::new();
    if stored.active != derived.active {
        let active = derived.active.iter().map(|job| {
            json!({
                "apiVersion": row.api_version,
                "kind": "Job",
                "namespace": &*cron.namespace,
                "name": &*job.name,
                "uid": job.uid.to_string(),
                "resourceVersion": &*job.revision,
            })
        });
        let active: Vec<Value> = active.collect();
        // `null` removes the list, as upstream's `omitempty` does.
        let active = if active.is_empty() {
            Value::Null
        } else {
            active.into()
        };
        status.insert("active".to_owned(), active);
    }
    let times: [(&str, StatusTime); 2] = [
        ("lastScheduleTime", |status| status.last_schedule),
        ("lastSuccessfulTime", |status| status.last_successful),
    ];
    for (name, time) in times {
        if let Some(new) = time(derived).filter(|_| time(stored) != time(derived)) {
            status.insert(name.to_owned(), format!("{new:.0}").into());
        }
    }
    (!status.is_empty()).then(|| json!({ "status": status }))
}

/// Whether the API server stored what a patch of ours wrote.
pub(super) fn is_kept(patch: &Value, status: &CronStatus) -> bool {
    let written = &patch["status"];
    let uids = |list: &Value| -> Vec<Uid> {
        let list = list.as_array().into_iter().flatten();
        list.map(|job| Uid::from(job["uid"].as_str().unwrap_or_default()))
            .collect()
    };
    let time = |member: &str, found: Option<Timestamp>| match &written[member] {
        Value::Null => true,
        text => found.is_some_and(|found| *text == format!("{found:.0}")),
    };
    let active = status.active.iter().map(|job| job.uid.clone());
    let is_active = written
        .get("active")
        .is_none_or(|list| active.eq(uids(list)));
    is_active
        && time("lastScheduleTime", status.last_schedule)
        && time("lastSuccessfulTime", status.last_successful)
}

/// The Events about Jobs that entered or left `status.active` with a status write of ours.
pub(super) fn changes(
    index: &CronIndex,
    uid: &Uid,
    cron: &CronState,
    old: &CronStatus,
    now: Timestamp,
) -> Vec<EventNote> {
    let new = &cron.status;
    let note = |event, values: &[(&str, &str)]| index.note(uid, event, values);
    let mut notes = Vec::new();
    let kept: BTreeSet<&Uid> = new.active.iter().map(|job| &job.uid).collect();
    let mut seen = BTreeSet::new();
    for gone in &old.active {
        if kept.contains(&gone.uid) || !seen.insert(&gone.uid) {
            continue;
        }
        notes.extend(match index.job(uid, &gone.uid) {
            // The delete had an Event of its own.
            _ if cron.memory.deleted_active.contains(&gone.uid) => None,
            Some(job) if index.has_finished(job) => note(
                CronEvent::SawCompleted,
                &[("job", &job.name), ("how", job.facts.outcome.condition())],
            ),
            // Another client deletes the Job, and the CronJob replaces it.
            Some(_) => None,
            None => missing(index, uid, gone, &note),
        });
    }
    let before: BTreeSet<&Uid> = old.active.iter().map(|job| &job.uid).collect();
    // The status write recorded the tick of such a Job, so the Job is expected.
    let is_tick = |job: &OwnedJob| {
        let slot = job.facts.slot;
        slot.is_some_and(|slot| {
            slots::is_unrecorded_tick(slot, cron.created, old.last_schedule, now)
        })
    };
    for new in new.active.iter().filter(|job| !before.contains(&job.uid)) {
        if index.job(uid, &new.uid).is_some_and(|job| !is_tick(job)) {
            let values = [("job", &*new.name), ("uid", &new.uid.to_string())];
            notes.extend(note(CronEvent::Unexpected, &values));
        }
    }
    notes
}

/// The Event about an active Job that is gone. Another Job may have its name.
fn missing(
    index: &CronIndex,
    uid: &Uid,
    gone: &ActiveJob,
    note: &impl Fn(CronEvent, &[(&str, &str)]) -> Option<EventNote>,
) -> Option<EventNote> {
    let jobs = index.jobs_of(uid);
    let other = jobs.and_then(|jobs| jobs.uids_of_name(&gone.name).next());
    let other = other.map(ToString::to_string);
    let uid = gone.uid.to_string();
    let values = [
        ("job", &*gone.name),
        ("uid", &*uid),
        ("other", other.as_deref().unwrap_or_default()),
    ];
    let made_again = other
        .as_ref()
        .and_then(|_| note(CronEvent::MadeAgain, &values));
    made_again.or_else(|| note(CronEvent::Dropped, &values))
}
