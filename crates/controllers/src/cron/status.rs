//! The status of a CronJob, which is derived: from the Jobs that it owns, and from what was written before.
//!
//! Owned Jobs that have not finished are active. The last slot is the latest that an owned Job bears the name of, or what
//! was recorded. So whoever comes after a crash between the create of a Job and the record of its tick derives the same
//! status as the one that died, and no tick has a second Job.
//!
//! DEVIATION(cron-derived-active): upstream's `status.active` is the truth for Forbid and Replace, and what it forgot runs
//! on beside; here owned Jobs are, and `active` shows them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::dialects::Dialect;
use super::facts::Policy;
use super::family::{Family, Job};
use super::index::{Cron, Index};
use super::slots;
use super::words::{self, What};
use crate::runtime::controller::Note;
use crate::runtime::record::Uid;

/// What is written in a status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) active: Vec<Active>,
    pub(super) last_schedule: Option<Timestamp>,
    pub(super) last_successful: Option<Timestamp>,
}

/// A reference to a Job that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Active {
    pub(super) uid: Uid,
    pub(super) name: Box<str>,
    pub(super) revision: Box<str>,
}

/// The status as it should be.
pub(super) fn derive(index: &Index, uid: &Uid, cron: &Cron, now: Timestamp) -> Status {
    let stored = &cron.status;
    let mut running: Vec<(&Uid, &Job)> = running(index, uid, cron).collect();
    running.sort_by_key(|(_, job)| (job.facts.created, &job.name));
    // What is listed keeps its place and its words.
    let runs: BTreeSet<&Uid> = running.iter().map(|(uid, _)| *uid).collect();
    let mut listed = BTreeSet::new();
    let mut active: Vec<Active> = stored.active.clone();
    active.retain(|known| runs.contains(&known.uid) && listed.insert(known.uid.clone()));
    let new = running.iter().filter(|(uid, _)| !listed.contains(*uid));
    active.extend(new.map(|(uid, job)| Active {
        uid: (*uid).clone(),
        name: (*job.name).into(),
        revision: job.revision.to_string().into(),
    }));
    let succeeded = index.family(uid).and_then(Family::last_success);
    Status {
        active,
        last_schedule: last_schedule(index, uid, cron, now),
        last_successful: stored.last_successful.max(succeeded),
    }
}

/// The last slot that was served: the latest of what was recorded and of what owned Jobs are named after.
pub(super) fn last_schedule(
    index: &Index,
    uid: &Uid,
    cron: &Cron,
    now: Timestamp,
) -> Option<Timestamp> {
    let stored = cron.status.last_schedule;
    let family = index.family(uid);
    let slot = family.and_then(|family| family.last_slot(slots::latest_of_a_name(now)));
    // If it is not open, no earlier one is.
    let open = slot.filter(|slot| slots::is_open(*slot, cron.created, stored, now));
    stored.max(open)
}

/// The Jobs that run. One that we replaced does not, also while something holds it.
pub(super) fn running<'a>(
    index: &'a Index,
    uid: &Uid,
    cron: &Cron,
) -> impl Iterator<Item = (&'a Uid, &'a Job)> {
    let unfinished = index.family(uid).map(Family::unfinished);
    unfinished.into_iter().flatten().filter(move |(_, job)| {
        let is_replaced = job.is_deleting && cron.spec.policy == Policy::Replace;
        !job.is_going && !is_replaced
    })
}

/// What has to be patched, and nothing if all is as it should be.
pub(super) fn patch(row: &Dialect, cron: &Cron, derived: &Status) -> Option<Value> {
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
        // A list without entries is written as none.
        let active = if active.is_empty() {
            Value::Null
        } else {
            active.into()
        };
        status.insert("active".to_owned(), active);
    }
    for (name, old, new) in [
        (
            "lastScheduleTime",
            stored.last_schedule,
            derived.last_schedule,
        ),
        (
            "lastSuccessfulTime",
            stored.last_successful,
            derived.last_successful,
        ),
    ] {
        if let Some(new) = new.filter(|_| old != new) {
            status.insert(name.to_owned(), format!("{new:.0}").into());
        }
    }
    (!status.is_empty()).then(|| json!({ "status": status }))
}

/// Whether a status has become what a patch of ours says.
pub(super) fn is_kept(patch: &Value, status: &Status) -> bool {
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

/// What there is to tell when one status has taken the place of another.
pub(super) fn changes(
    index: &Index,
    uid: &Uid,
    cron: &Cron,
    old: &Status,
    now: Timestamp,
) -> Vec<Note> {
    let new = &cron.status;
    let about = cron.identity(index.row, uid);
    let tell = |what, holes: &[(&str, &str)]| words::note(index.row, &about, what, holes);
    let mut notes = Vec::new();
    let kept: BTreeSet<&Uid> = new.active.iter().map(|job| &job.uid).collect();
    let mut told = BTreeSet::new();
    for gone in &old.active {
        if kept.contains(&gone.uid) || !told.insert(&gone.uid) {
            continue;
        }
        notes.extend(match index.job(uid, &gone.uid) {
            // We deleted it, and have said so.
            _ if cron.memory.deleted.contains(&gone.uid) => None,
            Some(job) if index.has_finished(job) => tell(
                What::SawCompleted,
                &[("job", &job.name), ("how", job.facts.outcome.condition())],
            ),
            // Somebody else deletes it, and it is to be replaced.
            Some(_) => None,
            None => dropped(index, uid, gone, &tell),
        });
    }
    let before: BTreeSet<&Uid> = old.active.iter().map(|job| &job.uid).collect();
    // The Job of a tick that was recorded with this status is no surprise.
    let is_tick = |job: &Job| {
        let slot = job.facts.slot;
        slot.is_some_and(|slot| slots::is_open(slot, cron.created, old.last_schedule, now))
    };
    for new in new.active.iter().filter(|job| !before.contains(&job.uid)) {
        if index.job(uid, &new.uid).is_some_and(|job| !is_tick(job)) {
            let holes = [("job", &*new.name), ("uid", &new.uid.to_string())];
            notes.extend(tell(What::TakenBack, &holes));
        }
    }
    notes
}

/// A Job that ran is gone. Another one may have its name.
fn dropped(
    index: &Index,
    uid: &Uid,
    gone: &Active,
    tell: &impl Fn(What, &[(&str, &str)]) -> Option<Note>,
) -> Option<Note> {
    let family = index.family(uid);
    let other = family.and_then(|family| family.named(&gone.name).next());
    let other = other.map(ToString::to_string);
    let uid = gone.uid.to_string();
    let holes = [
        ("job", &*gone.name),
        ("uid", &*uid),
        ("other", other.as_deref().unwrap_or_default()),
    ];
    let made_again = other.as_ref().and_then(|_| tell(What::MadeAgain, &holes));
    made_again.or_else(|| tell(What::Dropped, &holes))
}
