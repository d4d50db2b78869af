//! Changes of a CronJob in the very second of a slot (2.4 in the inputs): the slot has one Job or none, never two.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::super::{BATCH, DIALECTS};
use super::world::{BASE, CronWorld, REFUSE, RunEnd};

#[test]
fn suspending_at_the_tick_waits_and_resuming_runs_once() {
    for row in DIALECTS {
        let mut world = CronWorld::new(row, &json!({}));
        let suspend = |world: &mut CronWorld, is_suspended: bool| {
            world.change_cron(&json!({"spec": {"suspend": is_suspended}}));
            world.run()
        };
        world.at(5);
        assert_eq!(suspend(&mut world, true), RunEnd::Rest);
        assert!(world.asked.is_empty());
        assert_eq!(suspend(&mut world, false), RunEnd::In(300));
        for is_suspended in [true, false, true, false] {
            suspend(&mut world, is_suspended);
        }
        assert_eq!(world.asked_for("create"), 1);
        assert_eq!(world.active(), [CronWorld::name_at(5)]);
    }
}

#[test]
fn a_tick_is_recorded_although_the_cron_job_was_suspended() {
    for row in DIALECTS {
        let mut world = CronWorld::new(row, &json!({}));
        world.troubles.push_back(("patch", REFUSE));
        assert_eq!(world.at(5).run(), RunEnd::Failed);
        world.change_cron(&json!({"spec": {"suspend": true}}));
        assert_eq!(world.run(), RunEnd::Rest);
        assert_eq!(world.status()["lastScheduleTime"], "2025-03-11T10:05:00Z");
        world.change_cron(&json!({"spec": {"suspend": false}}));
        assert_eq!(world.run(), RunEnd::In(300));
        assert_eq!(world.asked_for("create"), 1);
    }
}

/// The new schedule, and the Jobs that are created if the edit comes before and after the slot is served.
#[test]
fn a_schedule_edited_at_the_tick_starts_no_slot_twice() {
    let cases: [(&str, &[i64], &[i64]); 4] = [
        // The new schedule has no slot since the CronJob was created.
        ("*/7 * * * *", &[], &[5]),
        // The new schedule has the same slot.
        ("* * * * *", &[5], &[5]),
        // A slot that the new schedule has in the past is served, as in upstream.
        ("4 * * * *", &[4], &[5]),
        // Another time of the same minute.
        ("@every 20s", &[5], &[5]),
    ];
    for (schedule, before, after) in cases {
        for (is_served, made) in [(false, before), (true, after)] {
            let mut world = CronWorld::new(&BATCH, &json!({}));
            world.at(5);
            if is_served {
                world.run();
            }
            world.change_cron(&json!({"spec": {"schedule": schedule}}));
            world.run();
            world.now = BASE + SignedDuration::from_secs(5 * 60 + 40);
            world.run();
            let names: Vec<String> = made.iter().copied().map(CronWorld::name_at).collect();
            assert_eq!(world.jobs(), names, "{schedule} {is_served}");
        }
    }
}

/// The first slot is later than the CronJob, whose time has whole seconds.
#[test]
fn only_cron_jobs_created_before_the_tick_run_at_it() {
    for (secs, made) in [(-1, 1), (0, 0), (1, 0)] {
        for row in DIALECTS {
            let mut world = CronWorld::new(row, &json!({}));
            let created = BASE + SignedDuration::from_secs(5 * 60 + secs);
            world.change_cron(&json!({"metadata": {"creationTimestamp": created}}));
            world.restart(super::super::CronSettings::default());
            world.now = BASE + SignedDuration::from_secs(5 * 60 + 2);
            assert_eq!(world.run(), RunEnd::In(298), "{secs}");
            assert_eq!(world.asked_for("create"), made, "{secs}");
            world.at(10).run();
            assert_eq!(world.asked_for("create"), made + 1, "{secs}");
        }
    }
}

/// Its predecessor of the same name has served the slot, and that Job is still there.
#[test]
fn a_recreated_cron_job_leaves_the_slot_to_the_existing_job() {
    for row in DIALECTS {
        let mut world = CronWorld::new(row, &json!({}));
        let mut job = world.mk_job(5, "Running");
        job["metadata"]["ownerReferences"][0]["uid"] = "predecessor".into();
        let before: Value = job.clone();
        world.put_job(job);
        assert_eq!(world.at(5).run(), RunEnd::In(300));
        assert_eq!(
            world.job(&CronWorld::name_at(5))["metadata"]["uid"],
            before["metadata"]["uid"]
        );
        assert!(world.active().is_empty());
        world.drop_job_unseen(&CronWorld::name_at(5));
        assert_eq!(world.run(), RunEnd::In(300), "the slot is over");
        world.at(10).run();
        assert_eq!(world.active(), [CronWorld::name_at(10)]);
    }
}
