//! `cronjob_controller_handler_test.go` of Volcano, and `TestControllerV2UpdateCronJob`: the owner of a Job, and when a
//! CronJob is decided after a change.

use serde_json::{Value, json};

use super::super::{DIALECTS, VOLCANO};
use super::world::{BASE, CronWorld, RunEnd};
use crate::runtime::controller::ObservedChange;
use crate::test_world::merged;

/// `GetJobsByCronJob`: the owner reference of a Job, and whether the Job counts as running.
#[test]
fn a_job_belongs_to_the_controller_with_its_uid() {
    let cases: [(Value, bool); 6] = [
        (json!({}), true),
        (json!({"apiVersion": "batch/v1"}), true),
        (json!({"kind": "Deployment"}), false),
        (json!({"controller": false}), false),
        (json!({"controller": null}), false),
        (json!({"uid": "another"}), false),
    ];
    for (changes, is_ours) in cases {
        let mut world = CronWorld::new(&VOLCANO, &json!({"concurrencyPolicy": "Forbid"}));
        let mut job = world.mk_job(1, "Running");
        let owner = &mut job["metadata"]["ownerReferences"][0];
        *owner = merged(owner.take(), changes.clone());
        world.put_job(job);
        world.at(5).run();
        let is_started = world.jobs().contains(&CronWorld::name_at(5));
        assert_eq!(is_started, !is_ours, "{changes}");
    }
}

/// `UpdateCronJob` and `TestControllerV2UpdateCronJob`: a change, and after how many seconds the CronJob is decided.
#[test]
fn a_new_schedule_waits_for_its_slot_and_other_changes_are_decided_at_once() {
    let now: &[Option<i64>] = &[None];
    let cases: [(&str, Value, &[Option<i64>]); 9] = [
        (
            "0 * * * *",
            json!({"jobTemplate": {"spec": {"k": "w"}}}),
            now,
        ),
        ("0 * * * *", json!({"suspend": true}), now),
        ("0 * * * *", json!({"concurrencyPolicy": "Forbid"}), now),
        ("0 * * * *", json!({"schedule": "*/1 * * * *"}), &[Some(60)]),
        ("@every 1m", json!({"schedule": "@every 3m"}), &[Some(180)]),
        ("@every 3m", json!({"schedule": "@every 1m"}), &[Some(60)]),
        (
            "0 12 * * *",
            json!({"timeZone": "Europe/Rome"}),
            &[Some(3_600)],
        ),
        // An unreadable schedule is reported at once.
        ("0 * * * *", json!({"schedule": ""}), now),
        ("0 * * * *", json!({"timeZone": "nowhere"}), now),
    ];
    for (before, changes, woken) in cases {
        for row in DIALECTS {
            let mut world = CronWorld::new(row, &json!({"schedule": before}));
            world.change_cron(&json!({"status": {"lastScheduleTime": BASE}}));
            let got = world.change_cron(&json!({ "spec": changes.clone() }));
            assert_eq!(got, woken, "{before} {changes}");
        }
    }
}

#[test]
fn an_unreadable_schedule_after_a_change_has_its_own_reason() {
    for row in DIALECTS {
        let mut world = CronWorld::new(row, &json!({}));
        assert_eq!(world.at(1).run(), RunEnd::In(240));
        world.change_cron(&json!({"spec": {"schedule": "bad"}}));
        assert_eq!(world.run(), RunEnd::Rest);
        assert_eq!(world.events, ["UnParseableCronJobSchedule"]);
        assert_eq!(world.messages, ["unparseable schedule for cronjob: bad"]);
        world.change_cron(&json!({"spec": {"schedule": "* * * * *"}}));
        assert_eq!(world.run(), RunEnd::In(60));
        assert_eq!(
            world.jobs(),
            [CronWorld::name_at(1)],
            "the latest of the new schedule, as upstream"
        );
    }
}

#[test]
fn irrelevant_changes_of_a_job_wake_no_key() {
    let mut world = CronWorld::new(&VOLCANO, &json!({}));
    world.add_job(1, "Running");
    let mut job = world.mk_job(1, "Running");
    job["status"]["running"] = 7.into();
    let name = CronWorld::name_at(1);
    world.put_job_unseen(job);
    let change = ObservedChange::Applied(world.record_of_job(&name));
    assert_eq!(world.observe(&change), []);
    world.end_job(&name, "Completed");
    world.at(2).run();
    assert_eq!(
        world.asked,
        ["patch nightly"],
        "the newest version is known, and its end was seen"
    );
}
