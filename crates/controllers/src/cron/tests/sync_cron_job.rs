//! `TestSyncCronJob` of Volcano's `cronjob_controller_test.go`: its 65 cases.
//!
//! The CronJob was created at 10:00, runs every five minutes and keeps all Jobs, unless a case says otherwise. All times
//! are minutes after 10:00. The timer is exact in every case (`cron-exact-timer`); a case that names a deviation has our
//! expectation.

mod cases;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::super::VOLCANO;
use super::world::{BASE, CronWorld, NAMESPACE_ENDING, RunEnd};

/// One case. Fields that a case does not set come from [`CASE`].
struct SyncCase {
    name: &'static str,
    /// The deviation that changes the expectation, if any.
    deviation: &'static str,
    now: i64,
    policy: &'static str,
    /// More fields of the CronJob's spec, as JSON.
    spec: &'static str,
    jobs: &'static [JobBefore],
    last_schedule: Option<i64>,
    namespace_terminates: bool,
    then: SyncOutcome,
}

/// A Job from before the case.
#[derive(Clone, Copy)]
struct JobBefore {
    phase: &'static str,
    slot: i64,
    place: JobPlace,
    is_owned: bool,
    is_in_status: bool,
}

#[derive(Clone, Copy)]
enum JobPlace {
    /// The API server has it, and a watch has shown it.
    Watched,
    /// The API server has it, and no watch has shown it.
    Unwatched,
    /// Only the status still lists it.
    Deleted,
}

/// The result of a case.
#[derive(Debug, PartialEq, Eq)]
struct SyncOutcome {
    /// After how many minutes the CronJob is decided again.
    requeue: Option<i64>,
    is_written: bool,
    has_failed: bool,
    last_schedule: Option<i64>,
    last_successful: Option<i64>,
    active: usize,
    events: usize,
    created: usize,
    deleted: usize,
}

/// Nothing set: a spec of defaults and no Jobs.
const CASE: SyncCase = SyncCase {
    name: "",
    deviation: "",
    now: 0,
    policy: "",
    spec: "{}",
    jobs: &[],
    last_schedule: None,
    namespace_terminates: false,
    then: IDLE,
};

/// No request, no Event, no status.
const IDLE: SyncOutcome = SyncOutcome {
    requeue: None,
    is_written: false,
    has_failed: false,
    last_schedule: None,
    last_successful: None,
    active: 0,
    events: 0,
    created: 0,
    deleted: 0,
};

/// One Job was created and is active, its Event was emitted, and the status was written.
const STARTED: SyncOutcome = SyncOutcome {
    is_written: true,
    active: 1,
    events: 1,
    created: 1,
    ..IDLE
};

// === impl JobBefore ===

impl JobBefore {
    const fn watched(phase: &'static str, slot: i64) -> Self {
        Self {
            phase,
            slot,
            place: JobPlace::Watched,
            is_owned: true,
            is_in_status: false,
        }
    }

    const fn unwatched(phase: &'static str, slot: i64) -> Self {
        Self {
            place: JobPlace::Unwatched,
            ..Self::watched(phase, slot)
        }
    }

    const fn deleted(phase: &'static str, slot: i64) -> Self {
        Self {
            place: JobPlace::Deleted,
            ..Self::watched(phase, slot)
        }
    }

    /// `status.active` lists it.
    const fn active(self) -> Self {
        Self {
            is_in_status: true,
            ..self
        }
    }

    const fn unowned(self) -> Self {
        Self {
            is_owned: false,
            ..self
        }
    }
}

#[test]
fn sync_cron_job() {
    for case in cases::CASES {
        for shows_first in [false, true] {
            let mut world = prepare(&case);
            world.shows_first = shows_first;
            let ended = world.at(case.now).run();
            assert_eq!(
                outcome(&world, &ended),
                case.then,
                "{} {}: {:?} {:?}",
                case.name,
                case.deviation,
                world.asked,
                world.events
            );
        }
    }
}

fn prepare(case: &SyncCase) -> CronWorld {
    let mut spec: Value = serde_json::from_str(case.spec).unwrap();
    if !case.policy.is_empty() {
        spec["concurrencyPolicy"] = case.policy.into();
    }
    let mut world = CronWorld::new(&VOLCANO, &spec);
    let mut active = Vec::new();
    for before in case.jobs {
        let mut job = world.mk_job(before.slot, before.phase);
        if !before.is_owned {
            job["metadata"]["ownerReferences"] = json!([]);
        }
        match before.place {
            JobPlace::Watched => world.put_job(job.clone()),
            JobPlace::Unwatched => world.put_job_unseen(job.clone()),
            JobPlace::Deleted => {}
        }
        if before.is_in_status {
            active.push(job);
        }
    }
    if let Some(minutes) = case.last_schedule {
        let last = BASE + SignedDuration::from_mins(minutes);
        world.change_cron(&json!({"status": {"lastScheduleTime": last}}));
    }
    if !active.is_empty() {
        world.list_active(&active);
    }
    if case.namespace_terminates {
        world.troubles.push_back(("create", NAMESPACE_ENDING));
    }
    world
}

fn outcome(world: &CronWorld, ended: &RunEnd) -> SyncOutcome {
    let minutes = |member: &str| {
        let time: Timestamp = world.status()[member].as_str()?.parse().unwrap();
        Some(time.duration_since(BASE).as_mins())
    };
    SyncOutcome {
        requeue: match ended {
            RunEnd::In(secs) => Some(secs / 60),
            RunEnd::Rest | RunEnd::Failed => None,
        },
        is_written: world.asked_for("patch") > 0,
        has_failed: *ended == RunEnd::Failed,
        last_schedule: minutes("lastScheduleTime"),
        last_successful: minutes("lastSuccessfulTime"),
        active: world.active().len(),
        events: world.events.len(),
        created: world
            .events
            .iter()
            .filter(|event| *event == "SuccessfulCreate")
            .count(),
        deleted: world.asked_for("delete"),
    }
}
