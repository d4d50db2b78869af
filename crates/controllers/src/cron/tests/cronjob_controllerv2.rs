//! `cronjob_controllerv2_test.go` of Kubernetes: what is different from Volcano's cases, and what these do not have.
//!
//! Schedules are hourly and everything was made at 10:00, as there.

use serde_json::{Value, json};

use super::super::BATCH;
use super::world::{BASE, Ended, Trouble, World};

const WEEK: i64 = 7 * 24 * 60;

/// Policy and more, minutes after 10:00, Jobs (phase and slot); how it ends, Events, Jobs made and deleted.
type Row = (
    Value,
    i64,
    &'static [(&'static str, i64)],
    Ended,
    &'static [&'static str],
    usize,
    usize,
);

fn play(cases: &[Row]) {
    for (spec, now, jobs, ended, told, made, deleted) in cases {
        let mut world = World::new(&BATCH, json!({"schedule": "0 * * * ?"}));
        world.change_cron(json!({ "spec": spec }));
        for (phase, slot) in *jobs {
            world.add_job(*slot, phase);
        }
        let listed: Vec<Value> = jobs
            .iter()
            .map(|(phase, slot)| world.mk_job(*slot, phase))
            .collect();
        let last = jobs
            .iter()
            .map(|(_, slot)| BASE + jiff::SignedDuration::from_mins(*slot))
            .max();
        world.list_active(&listed);
        world.change_cron(json!({"status": {"lastScheduleTime": last}}));
        world.asked.clear();
        assert_eq!(
            world.at(*now).run(),
            *ended,
            "{spec} {now} {jobs:?}: {:?}",
            world.asked
        );
        assert_eq!(world.told, *told, "{spec} {now} {jobs:?}");
        assert_eq!(world.asked_for("create"), *made, "{spec} {now} {jobs:?}");
        assert_eq!(world.asked_for("delete"), *deleted, "{spec} {now} {jobs:?}");
    }
}

#[test]
fn never_ran() {
    let policies =
        ["Allow", "Forbid", "Replace"].map(|policy| json!({"concurrencyPolicy": policy}));
    let with = |changes: Value| {
        policies.clone().map(|mut policy| {
            super::world::merge(&mut policy, &changes);
            policy
        })
    };
    let all = |changes: Value, now, ended: Ended, told: &'static [&'static str], made| {
        let cases = with(changes).map(|spec| (spec, now, &[][..], ended.clone(), told, made, 0));
        play(&cases);
    };
    all(
        json!({"schedule": "bad"}),
        59,
        Ended::Rest,
        &["UnParseableCronJobSchedule"],
        0,
    );
    all(
        json!({"timeZone": "bad"}),
        59,
        Ended::Rest,
        &["UnknownTimeZone"],
        0,
    );
    // Volcano does not look at it while it is suspended.
    all(
        json!({"timeZone": "bad", "suspend": true}),
        59,
        Ended::Rest,
        &["UnknownTimeZone"],
        0,
    );
    all(json!({}), 59, Ended::In(60), &[], 0);
    all(
        json!({"timeZone": "Pacific/Honolulu"}),
        59,
        Ended::In(60),
        &[],
        0,
    );
    all(json!({}), 61, Ended::In(59 * 60), &["SuccessfulCreate"], 1);
    all(
        json!({"timeZone": "Asia/Kolkata"}),
        31,
        Ended::In(59 * 60),
        &["SuccessfulCreate"],
        1,
    );
    all(
        json!({"schedule": "TZ=UTC 0 * * * ?", "timeZone": "Asia/Kolkata"}),
        61,
        Ended::In(59 * 60),
        &["UnsupportedSchedule", "SuccessfulCreate"],
        1,
    );
    all(json!({"suspend": true}), 61, Ended::Rest, &[], 0);
    // Upstream says so only if the slot was found before and is too late now; here it is always told (cron-deadline).
    all(
        json!({"startingDeadlineSeconds": 10}),
        61,
        Ended::In(59 * 60),
        &["MissSchedule"],
        0,
    );
    all(
        json!({"startingDeadlineSeconds": 600}),
        61,
        Ended::In(59 * 60),
        &["SuccessfulCreate"],
        1,
    );
}

#[test]
fn ran_and_done_or_still_active() {
    let done: &[(&str, i64)] = &[("Completed", 0)];
    let runs: &[(&str, i64)] = &[("Running", 0)];
    let spec = |policy: &str| json!({"concurrencyPolicy": policy});
    let saw: &[&str] = &["SawCompletedJob"];
    let saw_and_made: &[&str] = &["SuccessfulCreate", "SawCompletedJob"];
    let mut cases: Vec<Row> = Vec::new();
    for policy in ["Allow", "Forbid", "Replace"] {
        cases.push((spec(policy), 59, done, Ended::In(60), saw, 0, 0));
        cases.push((
            spec(policy),
            61,
            done,
            Ended::In(59 * 60),
            saw_and_made,
            1,
            0,
        ));
        cases.push((spec(policy), 59, runs, Ended::In(60), &[], 0, 0));
    }
    cases.push((json!({"suspend": true}), 61, done, Ended::Rest, saw, 0, 0));
    cases.push((json!({"suspend": true}), 61, runs, Ended::Rest, &[], 0, 0));
    cases.push((
        json!({"startingDeadlineSeconds": 10}),
        61,
        done,
        Ended::In(59 * 60),
        &["MissSchedule", "SawCompletedJob"],
        0,
        0,
    ));
    cases.push((
        spec("Allow"),
        61,
        runs,
        Ended::In(59 * 60),
        &["SuccessfulCreate"],
        1,
        0,
    ));
    cases.push((
        spec("Forbid"),
        61,
        runs,
        Ended::In(59 * 60),
        &["JobAlreadyActive"],
        0,
        0,
    ));
    cases.push((
        spec("Replace"),
        61,
        runs,
        Ended::In(59 * 60),
        &["SuccessfulDelete", "SuccessfulCreate"],
        1,
        1,
    ));
    // A week without anybody who looked.
    for policy in ["Allow", "Forbid", "Replace"] {
        let long: &[&str] = &["TooManyMissedTimes", "SuccessfulCreate", "SawCompletedJob"];
        cases.push((spec(policy), WEEK + 1, done, Ended::In(59 * 60), long, 1, 0));
        let short = json!({"concurrencyPolicy": policy, "startingDeadlineSeconds": 300});
        cases.push((
            short,
            WEEK + 1,
            done,
            Ended::In(59 * 60),
            saw_and_made,
            1,
            0,
        ));
    }
    let every = json!({"schedule": "@every 1h"});
    cases.push((every.clone(), 59, done, Ended::In(60), saw, 0, 0));
    cases.push((
        every.clone(),
        60,
        done,
        Ended::In(3_600),
        saw_and_made,
        1,
        0,
    ));
    cases.push((
        every,
        WEEK + 1,
        runs,
        Ended::In(59 * 60),
        &["TooManyMissedTimes", "SuccessfulCreate"],
        1,
        0,
    ));
    play(&cases);
}

#[test]
fn time_drifted_back_starts_nothing() {
    let mut world = World::new(
        &BATCH,
        json!({"schedule": "0 * * * ?", "concurrencyPolicy": "Forbid"}),
    );
    let later = BASE + jiff::SignedDuration::from_mins(120);
    world.change_cron(json!({"status": {"lastScheduleTime": later}}));
    assert_eq!(world.at(61).run(), Ended::In(119 * 60));
    assert_eq!((world.asked.len(), world.told.len()), (0, 0));
}

/// `TestControllerV2CleanupFinishedJobs`.
#[test]
fn the_oldest_goes_even_if_nothing_can_be_made() {
    let mut world = World::new(&BATCH, json!({"successfulJobsHistoryLimit": 1}));
    world.add_job(1, "Completed");
    world.add_job(2, "Completed");
    world.change_cron(
        json!({"status": {"lastScheduleTime": BASE + jiff::SignedDuration::from_mins(2)}}),
    );
    for _ in 0..3 {
        world.troubles.push_back(("create", Trouble::Refuse));
    }
    assert_eq!(world.at(5).run(), Ended::Failed);
    assert_eq!(world.jobs(), [World::name_at(2)]);
    assert_eq!(world.told, ["SuccessfulDelete", "FailedCreate"]);
    let mut world = World::new(&BATCH, json!({"successfulJobsHistoryLimit": 2}));
    world.add_job(1, "Completed");
    world.add_job(2, "Completed");
    world.at(4).run();
    assert_eq!(world.asked_for("delete"), 0);
}

/// `TestControllerV2JobAlreadyExistsButNotInActiveStatus` and `…ButDifferentOwner`.
#[test]
fn a_job_that_exists_is_the_slots_if_it_is_ours() {
    for is_ours in [true, false] {
        let mut world = World::new(&BATCH, json!({}));
        let mut job = world.mk_job(5, "Running");
        job["metadata"]["resourceVersion"] = "7".into();
        if !is_ours {
            job["metadata"]["ownerReferences"][0]["uid"] = "another".into();
        }
        world
            .objects
            .insert((crate::runtime::kind::KindId(1), World::name_at(5)), job);
        assert_eq!(world.at(5).run(), Ended::In(300));
        let (create, get) = (
            format!("create {}", World::name_at(5)),
            format!("get {}", World::name_at(5)),
        );
        if is_ours {
            assert_eq!(world.asked, [create, get, "patch nightly".to_owned()]);
            assert_eq!(world.active(), [World::name_at(5)]);
            assert_eq!(world.status()["lastScheduleTime"], "2025-03-11T10:05:00Z");
        } else {
            assert_eq!(world.asked, [create, get]);
            assert_eq!(
                world.run(),
                Ended::In(300),
                "it is not tried again for this slot"
            );
            assert_eq!(world.asked.len(), 2);
            let because = world.decide().because.to_string();
            assert!(because.contains("belongs to somebody else"), "{because}");
        }
        assert_eq!(world.told, [""; 0], "Kubernetes says nothing about either");
    }
}

#[test]
fn the_last_success_is_told_whatever_is_kept() {
    for limit in [json!(0), json!(10), Value::Null] {
        let mut world = World::new(&BATCH, json!({"successfulJobsHistoryLimit": limit}));
        world.add_job(1, "Completed");
        world.add_job(2, "Completed");
        world.at(4).run();
        assert_eq!(world.status()["lastSuccessfulTime"], "2025-03-11T10:03:00Z");
        let kept = if limit == 0 { 0 } else { 2 };
        assert_eq!(world.jobs().len(), kept, "{limit}");
    }
}
