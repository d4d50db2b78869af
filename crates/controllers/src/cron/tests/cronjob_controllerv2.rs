//! `cronjob_controllerv2_test.go` of Kubernetes: the cases that Volcano does not have, or has with another result.
//!
//! As there, schedules are hourly and all objects were created at 10:00.

use serde_json::{Value, json};

use super::super::BATCH;
use super::world::{BASE, CronWorld, REFUSE, RunEnd};
use crate::test_world::merged;

const WEEK: i64 = 7 * 24 * 60;

/// ConcurrencyPolicy and more, minutes after 10:00, Jobs (phase and slot); how it ends, Events, Jobs created and deleted.
type Row = (
    Value,
    i64,
    &'static [(&'static str, i64)],
    RunEnd,
    &'static [&'static str],
    usize,
    usize,
);

/// Runs the cases and returns those that do not end as expected.
fn wrong(cases: &[Row]) -> Vec<String> {
    let judge = |shows_first, (spec, now, jobs, ended, events, made, deleted): &Row| {
        let mut world = CronWorld::new(&BATCH, &json!({"schedule": "0 * * * ?"}));
        world.shows_first = shows_first;
        world.change_cron(&json!({ "spec": spec }));
        for (phase, slot) in *jobs {
            world.add_job(*slot, phase);
        }
        let listed = jobs.iter().map(|(phase, slot)| world.mk_job(*slot, phase));
        let listed: Vec<Value> = listed.collect();
        let slots = jobs
            .iter()
            .map(|(_, slot)| BASE + jiff::SignedDuration::from_mins(*slot));
        let last = slots.max();
        world.list_active(&listed);
        world.change_cron(&json!({"status": {"lastScheduleTime": last}}));
        world.asked.clear();
        let found = world.at(*now).run();
        let counts = (world.asked_for("create"), world.asked_for("delete"));
        let is_right = found == *ended && world.events == *events && counts == (*made, *deleted);
        (!is_right).then(|| {
            format!(
                "{spec} {now} {jobs:?}: {found:?} {:?} {counts:?}",
                world.events
            )
        })
    };
    let both = [false, true].into_iter();
    both.flat_map(|shows_first| cases.iter().filter_map(move |row| judge(shows_first, row)))
        .collect()
}

/// A spec with each policy.
fn each(changes: &Value) -> [Value; 3] {
    ["Allow", "Forbid", "Replace"].map(|policy| {
        let spec = json!({"concurrencyPolicy": policy});
        merged(spec, changes.clone())
    })
}

#[test]
#[rustfmt::skip]
fn never_ran() {
    let late = RunEnd::In(59 * 60);
    let started: &[&str] = &["SuccessfulCreate"];
    let in_zone = json!({"schedule": "TZ=UTC 0 * * * ?", "timeZone": "Asia/Kolkata"});
    let cases: [(Value, i64, RunEnd, &[&str]); 11] = [
        (json!({"schedule": "bad"}), 59, RunEnd::Rest, &["UnParseableCronJobSchedule"]),
        (json!({"timeZone": "bad"}), 59, RunEnd::Rest, &["UnknownTimeZone"]),
        // Volcano does not check the zone of a suspended CronJob.
        (json!({"timeZone": "bad", "suspend": true}), 59, RunEnd::Rest, &["UnknownTimeZone"]),
        (json!({}), 59, RunEnd::In(60), &[]),
        (json!({"timeZone": "Pacific/Honolulu"}), 59, RunEnd::In(60), &[]),
        (json!({}), 61, late.clone(), started),
        (json!({"timeZone": "Asia/Kolkata"}), 31, late.clone(), started),
        (in_zone, 61, late.clone(), &["UnsupportedSchedule", "SuccessfulCreate"]),
        (json!({"suspend": true}), 61, RunEnd::Rest, &[]),
        // Upstream emits this only if the slot was found before and is too late now; here it is always emitted (cron-deadline).
        (json!({"startingDeadlineSeconds": 10}), 61, late.clone(), &["MissSchedule"]),
        (json!({"startingDeadlineSeconds": 600}), 61, late, started),
    ];
    for (changes, now, ended, events) in cases {
        let made = usize::from(events.contains(&"SuccessfulCreate"));
        let rows = each(&changes).map(|spec| (spec, now, &[][..], ended.clone(), events, made, 0));
        assert_eq!(wrong(&rows), [""; 0]);
    }
}

#[test]
#[rustfmt::skip]
fn ran_and_done_or_still_active() {
    let done: &[(&str, i64)] = &[("Completed", 0)];
    let runs: &[(&str, i64)] = &[("Running", 0)];
    let late = || RunEnd::In(59 * 60);
    let saw: &[&str] = &["SawCompletedJob"];
    let made: &[&str] = &["SuccessfulCreate"];
    let saw_and_made: &[&str] = &["SuccessfulCreate", "SawCompletedJob"];
    let long: &[&str] = &["TooManyMissedTimes", "SuccessfulCreate", "SawCompletedJob"];
    let mut cases: Vec<Row> = Vec::new();
    for spec in each(&json!({})) {
        cases.push((spec.clone(), 59, done, RunEnd::In(60), saw, 0, 0));
        cases.push((spec.clone(), 61, done, late(), saw_and_made, 1, 0));
        cases.push((spec.clone(), 59, runs, RunEnd::In(60), &[], 0, 0));
        // No controller ran for a week.
        cases.push((spec, WEEK + 1, done, late(), long, 1, 0));
    }
    for spec in each(&json!({"startingDeadlineSeconds": 300})) {
        cases.push((spec, WEEK + 1, done, late(), saw_and_made, 1, 0));
    }
    let [allow, forbid, replace] = each(&json!({}));
    let every = json!({"schedule": "@every 1h"});
    cases.extend([
        (json!({"suspend": true}), 61, done, RunEnd::Rest, saw, 0, 0),
        (json!({"suspend": true}), 61, runs, RunEnd::Rest, &[], 0, 0),
        (json!({"startingDeadlineSeconds": 10}), 61, done, late(), &["MissSchedule", "SawCompletedJob"], 0, 0),
        (allow, 61, runs, late(), made, 1, 0),
        (forbid, 61, runs, late(), &["JobAlreadyActive"], 0, 0),
        (replace, 61, runs, late(), &["SuccessfulDelete", "SuccessfulCreate"], 1, 1),
        (every.clone(), 59, done, RunEnd::In(60), saw, 0, 0),
        (every.clone(), 60, done, RunEnd::In(3_600), saw_and_made, 1, 0),
        (every, WEEK + 1, runs, late(), &["TooManyMissedTimes", "SuccessfulCreate"], 1, 0),
    ] as [Row; 9]);
    assert_eq!(wrong(&cases), [""; 0]);
}

#[test]
fn time_drifted_back_starts_nothing() {
    let mut world = CronWorld::new(
        &BATCH,
        &json!({"schedule": "0 * * * ?", "concurrencyPolicy": "Forbid"}),
    );
    let later = BASE + jiff::SignedDuration::from_mins(120);
    world.change_cron(&json!({"status": {"lastScheduleTime": later}}));
    assert_eq!(world.at(61).run(), RunEnd::In(119 * 60));
    assert_eq!((world.asked.len(), world.events.len()), (0, 0));
}

/// The cases of `TestControllerV2CleanupFinishedJobs`.
#[test]
fn the_oldest_job_is_pruned_even_if_no_job_can_be_created() {
    let mut world = CronWorld::new(&BATCH, &json!({"successfulJobsHistoryLimit": 1}));
    world.add_job(1, "Completed");
    world.add_job(2, "Completed");
    world.change_cron(
        &json!({"status": {"lastScheduleTime": BASE + jiff::SignedDuration::from_mins(2)}}),
    );
    for _ in 0..3 {
        world.troubles.push_back(("create", REFUSE));
    }
    assert_eq!(world.at(5).run(), RunEnd::Failed);
    assert_eq!(world.jobs(), [CronWorld::name_at(2)]);
    assert_eq!(world.events, ["SuccessfulDelete", "FailedCreate"]);
    let mut world = CronWorld::new(&BATCH, &json!({"successfulJobsHistoryLimit": 2}));
    world.add_job(1, "Completed");
    world.add_job(2, "Completed");
    world.at(4).run();
    assert_eq!(world.asked_for("delete"), 0);
}

/// `TestControllerV2JobAlreadyExistsButNotInActiveStatus` and `…ButDifferentOwner`.
#[test]
fn an_existing_job_serves_its_slot_if_we_own_it() {
    for is_ours in [true, false] {
        let mut world = CronWorld::new(&BATCH, &json!({}));
        let mut job = world.mk_job(5, "Running");
        if !is_ours {
            job["metadata"]["ownerReferences"][0]["uid"] = "another".into();
        }
        world.put_job_unseen(job);
        assert_eq!(world.at(5).run(), RunEnd::In(300));
        let (create, get) = (
            format!("create {}", CronWorld::name_at(5)),
            format!("get {}", CronWorld::name_at(5)),
        );
        if is_ours {
            assert_eq!(world.asked, [create, get, "patch nightly".to_owned()]);
            assert_eq!(world.active(), [CronWorld::name_at(5)]);
            assert_eq!(world.status()["lastScheduleTime"], "2025-03-11T10:05:00Z");
        } else {
            assert_eq!(world.asked, [create, get]);
            assert_eq!(
                world.run(),
                RunEnd::In(300),
                "it is not tried again for this slot"
            );
            assert_eq!(world.asked.len(), 2);
            let because = world.decide().because.to_string();
            assert!(because.contains("belongs to another owner"), "{because}");
        }
        // Kubernetes emits no Event about either; ours reports the lost slot (`cron-lost-slot`).
        let events: &[&str] = if is_ours { &[] } else { &["ForeignJob"] };
        assert_eq!(world.events, events);
    }
}

#[test]
fn the_last_success_is_recorded_whatever_the_history_limit() {
    for limit in [json!(0), json!(10), Value::Null] {
        let mut world = CronWorld::new(&BATCH, &json!({"successfulJobsHistoryLimit": limit}));
        world.add_job(1, "Completed");
        world.add_job(2, "Completed");
        world.at(4).run();
        assert_eq!(world.status()["lastSuccessfulTime"], "2025-03-11T10:03:00Z");
        let kept = if limit == 0 { 0 } else { 2 };
        assert_eq!(world.jobs().len(), kept, "{limit}");
    }
}
