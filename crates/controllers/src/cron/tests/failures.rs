//! Requests that fail, some of them for ever, block no other request.

use jiff::SignedDuration;
use serde_json::json;

use super::super::{BATCH, DIALECTS, VOLCANO};
use super::world::{BASE, CronWorld, NAMESPACE_ENDING, REFUSE, RunEnd};

/// Every request of a verb is refused from now on.
fn refuse(world: &mut CronWorld, verb: &'static str) {
    for _ in 0..100 {
        world.troubles.push_back((verb, REFUSE));
    }
}

#[test]
fn a_failing_status_write_blocks_no_slot() {
    for row in DIALECTS {
        let mut world = CronWorld::new(row, &json!({}));
        refuse(&mut world, "patch");
        for minutes in [5, 10, 15] {
            world.at(minutes);
            for _ in 0..3 {
                assert_eq!(world.run(), RunEnd::Failed);
            }
        }
        assert_eq!(world.jobs(), [5, 10, 15].map(CronWorld::name_at));
        world.troubles.clear();
        assert_eq!(world.run(), RunEnd::In(300));
        assert_eq!(world.status()["lastScheduleTime"], "2025-03-11T10:15:00Z");
    }
}

#[test]
fn a_failing_status_write_blocks_no_pruning() {
    let mut world = CronWorld::new(&BATCH, &json!({"successfulJobsHistoryLimit": 0}));
    world.add_job(1, "Completed");
    world
        .change_cron(&json!({"status": {"lastScheduleTime": BASE + SignedDuration::from_mins(1)}}));
    refuse(&mut world, "patch");
    assert_eq!(world.at(2).run(), RunEnd::Failed);
    assert_eq!(world.asked_for("delete"), 0, "that comes first");
    assert_eq!(world.run(), RunEnd::Failed);
    assert_eq!(world.jobs(), [""; 0], "and holds up nothing");
}

#[test]
fn a_failing_create_blocks_no_status_write() {
    let mut world = CronWorld::new(&BATCH, &json!({}));
    world.add_job(1, "Completed");
    refuse(&mut world, "create");
    world.at(5);
    for _ in 0..3 {
        assert_eq!(world.run(), RunEnd::Failed);
    }
    assert_eq!(world.status()["lastSuccessfulTime"], "2025-03-11T10:02:00Z");
    assert_eq!(world.events, ["FailedCreate"; 3]);
    world.troubles.clear();
    assert_eq!(world.run(), RunEnd::In(300));
    assert_eq!(world.active(), [CronWorld::name_at(5)]);
}

#[test]
fn a_failing_delete_blocks_neither_slots_nor_other_deletes() {
    let mut world = CronWorld::new(
        &VOLCANO,
        &json!({"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0}),
    );
    for (minutes, phase) in [(1, "Completed"), (2, "Completed"), (3, "Failed")] {
        world.add_job(minutes, phase);
    }
    world
        .change_cron(&json!({"status": {"lastScheduleTime": BASE + SignedDuration::from_mins(3)}}));
    world.at(5);
    world.troubles.push_back(("delete", REFUSE));
    assert_eq!(world.run(), RunEnd::Failed);
    assert_eq!(world.events, ["FailedDelete"]);
    world.troubles.push_back(("delete", REFUSE));
    assert_eq!(world.run(), RunEnd::Failed);
    assert_eq!(
        world.active(),
        [CronWorld::name_at(5)],
        "the slot was served before it was tried again"
    );
    assert_eq!(world.run(), RunEnd::In(300));
    assert_eq!(world.jobs(), [CronWorld::name_at(5)], "{:?}", world.asked);
}

#[test]
fn replace_creates_no_job_while_its_delete_fails() {
    let mut world = CronWorld::new(&VOLCANO, &json!({"concurrencyPolicy": "Replace"}));
    world.add_job(1, "Running");
    world
        .change_cron(&json!({"status": {"lastScheduleTime": BASE + SignedDuration::from_mins(1)}}));
    refuse(&mut world, "delete");
    world.at(5);
    for _ in 0..3 {
        assert_eq!(world.run(), RunEnd::Failed);
    }
    assert_eq!(world.asked_for("create"), 0);
    assert_eq!(world.events[..2], ["ReplaceConcurrent", "FailedDelete"]);
}

#[test]
fn a_terminating_namespace_is_reported_by_volcano_only() {
    for row in DIALECTS {
        let mut world = CronWorld::new(row, &json!({}));
        world.troubles.push_back(("create", NAMESPACE_ENDING));
        assert_eq!(world.at(5).run(), RunEnd::Failed);
        let events: &[&str] = if row.group == "batch" {
            &[]
        } else {
            &["NamespaceTerminating"]
        };
        assert_eq!(world.events, events);
    }
}

#[test]
fn a_status_that_the_server_drops_is_not_written_for_ever() {
    let mut world = CronWorld::new(&VOLCANO, &json!({}));
    world.at(5).run();
    // From now on the status is forgotten whenever it is written.
    for minutes in [10, 15] {
        world.at(minutes);
        world.forgets_status = true;
        assert_eq!(world.run(), RunEnd::In(300));
        assert_eq!(world.jobs().len(), usize::try_from(minutes / 5).unwrap());
    }
    assert!(world.asked_for("patch") <= 4, "{:?}", world.asked);
}
