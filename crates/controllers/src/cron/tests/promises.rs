//! The rule of ticks: a slot has at most one Job, and no controller of ours deletes a Job whose slot the status does not
//! record.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;

use super::super::{BATCH, CronSettings, DIALECTS, VOLCANO};
use super::world::{BASE, CONFLICT, CronWorld, NAME, REFUSE, RunEnd};
use crate::runtime::call::{ApiAnswer, ApiCall};
use crate::runtime::controller::{NextStep, Verdict};
use crate::test_world::ServerFault;

fn verb<K, R>(verdict: &Verdict<K, R>) -> &'static str {
    match &verdict.next {
        NextStep::Call(call) => call.verb(),
        _ => "",
    }
}

#[test]
fn a_tick_is_two_requests_and_a_cron_job_that_waits_costs_none() {
    for row in DIALECTS {
        let mut world = CronWorld::new(row, &json!({}));
        assert_eq!(world.run(), RunEnd::In(300));
        assert!(world.asked.is_empty());
        assert_eq!(world.at(5).run(), RunEnd::In(300));
        assert_eq!(
            world.asked,
            [
                format!("create {}", CronWorld::name_at(5)),
                format!("patch {NAME}")
            ]
        );
        let status = world.status();
        let active = &status["active"][0];
        let job = world.job(&CronWorld::name_at(5));
        assert_eq!(active["uid"], job["metadata"]["uid"]);
        assert_eq!(
            active["resourceVersion"],
            job["metadata"]["resourceVersion"]
        );
        assert_eq!(
            (&active["kind"], &active["apiVersion"]),
            (&json!("Job"), &json!(row.api_version))
        );
    }
}

#[test]
fn after_a_crash_the_tick_is_recorded_and_not_started_again() {
    for phase in ["Running", "Completed", "Failed"] {
        for suspend in [false, true] {
            let mut world = CronWorld::new(
                &VOLCANO,
                &json!({"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0}),
            );
            world.at(5);
            // The process that crashed created the Job and wrote no status.
            world.add_job(5, phase);
            world.change_cron(&json!({"spec": {"suspend": suspend}}));
            world.restart(CronSettings::default());
            world.run();
            assert_eq!(world.asked_for("create"), 0, "{phase}");
            assert_eq!(
                world.asked[0], "patch nightly",
                "{phase}: before anything is deleted"
            );
            assert_eq!(world.status()["lastScheduleTime"], "2025-03-11T10:05:00Z");
            assert!(
                !world.events.contains(&"OrphanedJob".to_owned()),
                "{phase}: it is no surprise"
            );
            let gone = usize::from(phase != "Running");
            assert_eq!(world.asked_for("delete"), gone, "{phase}");
        }
    }
}

/// A history limit of 0 and a Replace want to delete a Job whose tick is not recorded, and the status cannot be written.
#[test]
fn nothing_is_deleted_before_its_tick_is_recorded() {
    let specs = [
        (json!({"successfulJobsHistoryLimit": 0}), "Completed"),
        (json!({"concurrencyPolicy": "Replace"}), "Running"),
    ];
    for (spec, phase) in specs {
        let mut world = CronWorld::new(&BATCH, &spec);
        world.at(5);
        world.add_job(5, phase);
        world.at(10);
        for _ in 0..3 {
            world.troubles.push_back(("patch", REFUSE));
        }
        for _ in 0..3 {
            assert_eq!(world.run(), RunEnd::Failed);
        }
        assert_eq!(world.asked_for("delete"), 0);
        world.run();
        assert_eq!(world.asked_for("delete"), 1, "{:?}", world.asked);
    }
}

/// After a crash the next process would find neither the Job nor its success.
#[test]
fn a_success_is_recorded_before_its_job_is_deleted() {
    for row in DIALECTS {
        for shows_first in [false, true] {
            let mut world = CronWorld::new(row, &json!({"successfulJobsHistoryLimit": 0}));
            world.shows_first = shows_first;
            world.at(5).run();
            world.asked.clear();
            world.events.clear();
            world.at(6).end_job(&CronWorld::name_at(5), "Completed");
            assert_eq!(world.run(), RunEnd::In(240));
            assert_eq!(
                world.asked,
                [
                    format!("patch {NAME}"),
                    format!("delete {}", CronWorld::name_at(5))
                ]
            );
            assert_eq!(world.events, ["SawCompletedJob", "SuccessfulDelete"]);
            assert_eq!(world.status()["lastSuccessfulTime"], "2025-03-11T10:06:00Z");
        }
    }
}

#[test]
fn a_late_success_is_recorded_before_its_job_is_deleted() {
    for shows_first in [false, true] {
        let mut world = CronWorld::new(&VOLCANO, &json!({"successfulJobsHistoryLimit": 1}));
        world.shows_first = shows_first;
        world.add_job(1, "Running");
        world.add_job(2, "Completed");
        world.at(3).run();
        assert_eq!(world.status()["lastSuccessfulTime"], "2025-03-11T10:03:00Z");
        world.at(4).end_job(&CronWorld::name_at(1), "Completed");
        world.run();
        assert_eq!(world.jobs(), [CronWorld::name_at(2)]);
        assert_eq!(world.status()["lastSuccessfulTime"], "2025-03-11T10:04:00Z");
    }
}

/// Upstream's case 59, for several slots and both orders of answer and watch event. A Job that a user deletes is still
/// reported as missing.
#[test]
fn our_own_deletes_emit_no_missing_job_event() {
    let cases: [(_, &[&str], _); 2] = [
        (
            &BATCH,
            &["SuccessfulDelete", "SuccessfulCreate"],
            "MissingJob",
        ),
        (
            &VOLCANO,
            &["ReplaceConcurrent", "SuccessfulDelete", "SuccessfulCreate"],
            "StaleReference",
        ),
    ];
    for (row, events, missed) in cases {
        for shows_first in [false, true] {
            let mut world = CronWorld::new(row, &json!({"concurrencyPolicy": "Replace"}));
            world.shows_first = shows_first;
            world.at(5).run();
            for minutes in [10, 15] {
                world.events.clear();
                world.at(minutes).run();
                assert_eq!(world.events, events, "{shows_first}");
            }
            world.events.clear();
            world.drop_job(&CronWorld::name_at(15));
            world.at(16).run();
            assert_eq!(world.events, [missed]);
        }
    }
}

#[test]
fn a_blocking_job_is_reported_once_per_slot() {
    for (row, reason) in [(&BATCH, "JobAlreadyActive"), (&VOLCANO, "ForbidConcurrent")] {
        let mut world = CronWorld::new(row, &json!({"concurrencyPolicy": "Forbid"}));
        world.at(5).run();
        world.events.clear();
        for minutes in [10, 11, 15, 20, 24] {
            assert_eq!(world.at(minutes).run(), RunEnd::In((5 - minutes % 5) * 60));
            world.run();
        }
        assert_eq!(world.events, [reason; 3]);
        // More than a hundred slots were missed: the Event is emitted once.
        let many = ["TooManyMissedTimes", reason];
        for (minutes, events) in [(505, &many[1..]), (510, &many), (515, &many[1..])] {
            world.events.clear();
            world.at(minutes).run();
            world.run();
            assert_eq!(world.events, events, "{minutes}");
        }
    }
}

#[test]
fn a_short_lived_job_causes_a_read_of_the_cron_job_first() {
    let swift = |secs: i64| json!({"jobTemplate": {"spec": {"ttlSecondsAfterFinished": secs}}});
    let aborted = |secs| CronSettings {
        after_aborted: Some(Duration::from_secs(secs)),
        ..CronSettings::default()
    };
    let cases = [
        (swift(0), CronSettings::default(), true),
        (swift(119), CronSettings::default(), true),
        (swift(120), CronSettings::default(), false),
        (swift(-1), CronSettings::default(), false),
        (json!({}), CronSettings::default(), false),
        (
            json!({"successfulJobsHistoryLimit": 0}),
            CronSettings::default(),
            true,
        ),
        (
            json!({"failedJobsHistoryLimit": 0}),
            CronSettings::default(),
            true,
        ),
        (
            json!({"failedJobsHistoryLimit": 1}),
            CronSettings::default(),
            false,
        ),
        (json!({}), aborted(119), true),
        (json!({}), aborted(120), false),
    ];
    for (spec, settings, is_read) in cases {
        let mut world = CronWorld::with(&VOLCANO, settings, &spec);
        world.at(5).run();
        let expected = usize::from(is_read);
        assert_eq!(world.asked_for(&format!("get {NAME}")), expected, "{spec}");
        assert_eq!(world.asked_for("create"), 1);
    }
    let mut world = CronWorld::with(&BATCH, aborted(1), &json!({}));
    world.at(5).run();
    assert_eq!(world.asked_for("get"), 0, "its Jobs are never aborted");
}

/// Another process has served the slot, and the Job is deleted already; our feed has shown none of it.
#[test]
fn a_read_counts_more_than_a_lagging_feed() {
    let spec = json!({"jobTemplate": {"spec": {"ttlSecondsAfterFinished": 0}}});
    let mut world = CronWorld::new(&BATCH, &spec);
    world.at(5);
    world.change_unseen(&json!({"status": {"lastScheduleTime": "2025-03-11T10:05:00Z"}}));
    assert_eq!(world.run(), RunEnd::In(300));
    assert_eq!(world.asked, [format!("get {NAME}")]);
    // The read counts for that moment only.
    world.at(10);
    assert_eq!(verb(&world.decide()), "get");
}

/// S6: the read for a later slot drops the block on an earlier one, so a clock that goes back leads to a second POST.
#[test]
fn a_second_create_after_the_clock_went_back_does_no_harm() {
    let spec = json!({"jobTemplate": {"spec": {"ttlSecondsAfterFinished": 0}}});
    let mut world = CronWorld::new(&BATCH, &spec);
    let mut foreign = world.mk_job(5, "Running");
    foreign["metadata"]["ownerReferences"] = json!([]);
    world.put_job_unseen(foreign);
    let before = world.job(&CronWorld::name_at(5));
    let create = format!("create {}", CronWorld::name_at(5));
    world.at(5).run();
    assert_eq!(world.asked_for(&create), 1);
    world.run();
    assert_eq!(world.asked_for(&create), 1, "the slot is blocked");

    // The later slot is confirmed, but its Job cannot be created.
    world.troubles.push_back(("create", REFUSE));
    assert_eq!(world.at(10).run(), RunEnd::Failed);
    world.at(6).run();
    assert_eq!(world.asked_for(&create), 2, "{:?}", world.asked);
    world.run();
    assert_eq!(world.asked_for(&create), 2, "the slot is blocked again");
    assert_eq!(world.asked_for("delete"), 0);
    assert_eq!(world.jobs(), [CronWorld::name_at(5)]);
    assert_eq!(world.job(&CronWorld::name_at(5)), before);
}

#[test]
fn a_lost_answer_causes_no_second_job() {
    let mut world = CronWorld::new(&BATCH, &json!({}));
    world
        .troubles
        .push_back(("create", ServerFault::LoseAnswer));
    assert_eq!(world.at(5).run(), RunEnd::Failed);
    assert_eq!(world.jobs().len(), 1);
    assert_eq!(world.run(), RunEnd::In(300));
    assert_eq!(world.jobs().len(), 1);
    assert_eq!(world.active(), [CronWorld::name_at(5)]);
}

#[test]
fn a_minute_has_one_job() {
    let mut world = CronWorld::new(
        &BATCH,
        &json!({"schedule": "@every 20s", "successfulJobsHistoryLimit": 0}),
    );
    for secs in (20..=180).step_by(20) {
        world.now = BASE + SignedDuration::from_secs(secs);
        world.run();
        // Every Job finishes and is deleted at once.
        for job in world.jobs() {
            world.end_job(&job, "Completed");
        }
        world.run();
    }
    let made = world
        .asked
        .iter()
        .filter(|asked| asked.starts_with("create"));
    assert_eq!(
        made.collect::<Vec<_>>(),
        [0, 1, 2, 3]
            .map(|minutes| format!("create {}", CronWorld::name_at(minutes)))
            .iter()
            .collect::<Vec<_>>()
    );
}

#[test]
fn a_status_that_changes_meanwhile_is_read_and_written_again() {
    let mut world = CronWorld::new(&BATCH, &json!({}));
    world.troubles.push_back(("create", REFUSE));
    world.troubles.push_back(("patch", CONFLICT));
    world.at(5);
    assert_eq!(world.run(), RunEnd::Failed);
    // Another client writes, and no feed shows it.
    world.change_unseen(&json!({"metadata": {"annotations": {"touched": "yes"}}}));
    assert_eq!(world.run(), RunEnd::In(300));
    assert_eq!(world.status()["lastScheduleTime"], "2025-03-11T10:05:00Z");
    assert_eq!(world.cron()["metadata"]["annotations"]["touched"], "yes");
}

/// As `kubectl create job --from` makes them: the CronJob is their controller.
#[test]
fn jobs_started_by_hand_are_neither_replaced_nor_waited_for() {
    let minute = BASE.as_second() / 60;
    // A name of the user's choice, seconds since 1970, and the name of a slot with the annotation of kubectl.
    let names = [
        ("nightly-by-hand".to_owned(), json!({})),
        (format!("{NAME}-{}", BASE.as_second()), json!({})),
        (
            format!("{NAME}-{}", minute + 1),
            json!({"cronjob.kubernetes.io/instantiate": "manual"}),
        ),
    ];
    for (row, reason) in [(&BATCH, "UnexpectedJob"), (&VOLCANO, "OrphanedJob")] {
        for policy in ["Allow", "Forbid", "Replace"] {
            for (name, annotations) in &names {
                let mut world = CronWorld::new(row, &json!({"concurrencyPolicy": policy}));
                let mut job = world.mk_job(0, "Running");
                job["metadata"]["name"] = name.as_str().into();
                job["metadata"]["annotations"] = annotations.clone();
                world.put_job(job);
                world.at(5).run();
                world.restart(CronSettings::default());
                world.at(6).run();
                assert_eq!(world.asked_for("delete"), 0, "{policy} {name}");
                assert!(world.jobs().contains(name), "{policy}");
                assert_eq!(world.active(), [CronWorld::name_at(5)], "{policy} {name}");
                let reported = world.events.iter().filter(|event| *event == reason);
                assert_eq!(reported.count(), 2, "once per process: {:?}", world.events);
            }
        }
    }
}

/// The controller before us created them, under whatever name.
#[test]
fn jobs_that_the_status_lists_are_replaced_and_waited_for() {
    for row in DIALECTS {
        for (policy, deleted) in [("Forbid", 0), ("Replace", 1)] {
            let mut world = CronWorld::new(row, &json!({"concurrencyPolicy": policy}));
            let mut job = world.mk_job(0, "Running");
            job["metadata"]["name"] = "old".into();
            world.put_job(job.clone());
            world.list_active(&[job]);
            world.at(5).run();
            assert_eq!(world.asked_for("delete old"), deleted, "{policy}");
            assert_eq!(world.asked_for("create"), deleted, "{policy}");
            let active = if deleted == 1 {
                CronWorld::name_at(5)
            } else {
                "old".to_owned()
            };
            assert_eq!(world.active(), [active], "{policy}");
        }
    }
}

/// The status cannot be written, or the server drops it. The slot at 10:05 can be served until 10:10.
#[test]
fn a_job_is_pruned_when_its_slot_can_no_longer_be_served() {
    for is_dropped in [false, true] {
        let limits = json!({"successfulJobsHistoryLimit": 0, "schedule": "5,10 * * * *"});
        let mut world = CronWorld::new(&BATCH, &limits);
        world.forgets_status = is_dropped;
        let refused = if is_dropped { 0 } else { 100 };
        world
            .troubles
            .extend((0..refused).map(|_| ("patch", REFUSE)));
        world.at(5).run();
        world.at(6).end_job(&CronWorld::name_at(5), "Completed");
        for minutes in [7, 9] {
            world.at(minutes).run();
            world.run();
        }
        assert_eq!(world.asked_for("delete"), 0);
        let kept = |event: &&String| *event == "TickUnrecorded";
        assert_eq!(
            world.events.iter().filter(kept).count(),
            1,
            "{:?}",
            world.events
        );
        let message = format!(
            "Job {} is kept beyond its history limit, because the status does not record its slot 2025-03-11T10:05:00Z yet",
            CronWorld::name_at(5)
        );
        assert!(world.messages.contains(&message), "{:?}", world.messages);
        // The slot at 10:10 is served, but its Job does not finish.
        let ended = world.at(10).run();
        if is_dropped {
            assert_eq!(ended, RunEnd::In(10), "it is woken for the delete");
        }
        assert_eq!(world.asked_for("delete"), 0, "clocks may differ");
        world.now = BASE + SignedDuration::from_secs(610);
        world.run();
        assert_eq!(world.jobs(), [CronWorld::name_at(10)], "{:?}", world.asked);
    }
}

#[test]
fn a_job_is_replaced_when_its_slot_can_no_longer_be_served() {
    let mut world = CronWorld::new(&BATCH, &json!({"concurrencyPolicy": "Replace"}));
    world.forgets_status = true;
    world.at(5).run();
    assert_eq!(world.at(10).run(), RunEnd::In(10));
    assert_eq!(world.asked_for("delete"), 0);
    world.now = BASE + SignedDuration::from_secs(610);
    world.run();
    assert_eq!(world.jobs(), [CronWorld::name_at(10)]);
}

/// Forbid and Replace count the Jobs of slots that exist, whatever the status says (cron-derived-active).
#[test]
fn jobs_missing_in_the_status_count_and_are_reported_once() {
    let mut world = CronWorld::new(&VOLCANO, &json!({"concurrencyPolicy": "Forbid"}));
    world.add_job(1, "Running");
    world
        .change_cron(&json!({"status": {"lastScheduleTime": BASE + SignedDuration::from_mins(1)}}));
    assert_eq!(world.at(5).run(), RunEnd::In(300));
    assert_eq!(world.events, ["ForbidConcurrent", "OrphanedJob"]);
    assert_eq!(world.active(), [CronWorld::name_at(1)]);
    world.run();
    assert_eq!(world.events.len(), 2);
    world.end_job(&CronWorld::name_at(1), "Completed");
    assert_eq!(world.at(7).run(), RunEnd::In(180));
    assert_eq!(
        world.events[2..],
        ["SuccessfulCreate", "SawCompletedJob"],
        "at once, as upstream"
    );
    assert_eq!(world.active(), [CronWorld::name_at(5)]);
}

#[test]
fn three_jobs_are_replaced_in_one_go() {
    for row in DIALECTS {
        let mut world = CronWorld::new(row, &json!({"concurrencyPolicy": "Replace"}));
        for minutes in [1, 2, 3] {
            world.add_job(minutes, "Running");
        }
        assert_eq!(world.at(5).run(), RunEnd::In(300));
        assert_eq!(world.jobs(), [CronWorld::name_at(5)]);
        assert_eq!((world.asked_for("delete"), world.asked_for("get")), (3, 0));
        let replaced = world
            .events
            .iter()
            .filter(|event| *event == "ReplaceConcurrent")
            .count();
        assert_eq!(replaced, usize::from(row.group != "batch"));
        assert_eq!(world.active(), [CronWorld::name_at(5)]);
    }
}

#[test]
fn a_job_with_a_finalizer_is_deleted_once_and_replaced() {
    let mut world = CronWorld::new(&BATCH, &json!({"concurrencyPolicy": "Replace"}));
    let mut job = world.mk_job(1, "Running");
    job["metadata"]["finalizers"] = json!(["hold"]);
    world.put_job(job);
    for minutes in [5, 10, 15] {
        world.at(minutes).run();
        assert_eq!(world.active(), [CronWorld::name_at(minutes)]);
        // The feed shows the Jobs that exist.
        for name in world.jobs() {
            let job = world.job(&name);
            world.put_job(job);
        }
    }
    let deletes = world
        .asked
        .iter()
        .filter(|asked| **asked == format!("delete {}", CronWorld::name_at(1)));
    assert_eq!(deletes.count(), 1);
}

#[test]
fn a_job_missing_in_a_list_is_read_before_any_decision() {
    for is_there in [true, false] {
        let mut world = CronWorld::new(&BATCH, &json!({"concurrencyPolicy": "Forbid"}));
        world.add_job(1, "Running");
        world.at(2).run();
        world.asked.clear();
        world.miss_job(&CronWorld::name_at(1));
        if !is_there {
            world.drop_job_unseen(&CronWorld::name_at(1));
        }
        world.at(5).run();
        assert_eq!(world.asked[0], format!("get {}", CronWorld::name_at(1)));
        assert_eq!(world.asked_for("create"), usize::from(!is_there));
        assert_eq!(world.events.contains(&"MissingJob".to_owned()), !is_there);
    }
}

#[test]
fn no_job_is_created_before_jobs_are_listed() {
    let mut world = CronWorld::new(&BATCH, &json!({}));
    world.forbid_jobs();
    assert_eq!(world.at(5).run(), RunEnd::Rest);
    assert!(world.asked.is_empty());
}

#[test]
fn aborted_jobs_are_active_unless_they_have_a_ttl() {
    for after_aborted in [None, Some(Duration::from_secs(3_600))] {
        let settings = CronSettings {
            after_aborted,
            ..CronSettings::default()
        };
        let spec = json!({"concurrencyPolicy": "Forbid", "failedJobsHistoryLimit": 0, "successfulJobsHistoryLimit": 0});
        let mut world = CronWorld::with(&VOLCANO, settings, &spec);
        world.add_job(1, "Aborted");
        world.at(5).run();
        assert_eq!(
            world.asked_for("create"),
            usize::from(after_aborted.is_some())
        );
        assert_eq!(
            world.asked_for("delete"),
            0,
            "that is for the TTL controller"
        );
    }
}

#[test]
fn terminated_jobs_count_as_failed() {
    let mut world = CronWorld::new(&VOLCANO, &json!({"failedJobsHistoryLimit": 1}));
    for (minutes, phase) in [(1, "Terminated"), (2, "Failed"), (3, "Terminated")] {
        world.add_job(minutes, phase);
    }
    world.at(4).run();
    assert_eq!(world.jobs(), [CronWorld::name_at(3)]);
}

/// A mutating webhook gave the Job to another controller. That one's Job is not ours to delete.
#[test]
fn a_job_that_another_controller_took_over_is_left_alone() {
    let other = json!([{"apiVersion": "x/v1", "kind": "Workflow", "name": "w", "uid": "w", "controller": true}]);
    for (row, owners) in [
        (&BATCH, other.clone()),
        (&BATCH, json!([])),
        (&VOLCANO, other),
    ] {
        let mut world = CronWorld::new(row, &json!({}));
        world.at(5);
        let verdict = world.decide();
        let NextStep::Call(call @ ApiCall::Create { .. }) = verdict.next else {
            panic!("{verdict:?}");
        };
        let mut job = world.mk_job(5, "Running");
        job["metadata"]["ownerReferences"] = owners;
        world.put_job(job);
        let answer = ApiAnswer::Object(world.record_of_job(&CronWorld::name_at(5)));
        let notes = world.answer(&call, &answer);
        let reasons: Vec<&str> = notes.iter().map(|note| note.reason).collect();
        assert_eq!(reasons, ["ForeignJob"]);
        assert_eq!(world.run(), RunEnd::In(300), "the slot is lost");
        assert!(world.asked.is_empty(), "{:?}", world.asked);
        world.at(10).run();
        assert_eq!(world.active(), [CronWorld::name_at(10)]);
    }
}

#[test]
fn a_job_stored_without_a_controller_is_deleted_and_its_slot_is_lost() {
    let mut world = CronWorld::new(&VOLCANO, &json!({}));
    world.at(5);
    let verdict = world.decide();
    let NextStep::Call(call @ ApiCall::Create { .. }) = verdict.next else {
        panic!("{verdict:?}");
    };
    let mut job = world.mk_job(5, "Running");
    job["metadata"]["ownerReferences"] = json!([]);
    world.put_job(job);
    let answer = ApiAnswer::Object(world.record_of_job(&CronWorld::name_at(5)));
    world.answer(&call, &answer);
    assert_eq!(world.run(), RunEnd::In(300));
    assert_eq!(world.asked, [format!("delete {}", CronWorld::name_at(5))]);
    assert_eq!(world.at(10).run(), RunEnd::In(300));
    assert_eq!(world.asked_for("create"), 1);
}

/// e2e: should remove from active list jobs that have been deleted.
#[test]
fn a_job_deleted_by_a_user_leaves_the_status_and_is_not_created_again() {
    for (row, reason) in [(&BATCH, "MissingJob"), (&VOLCANO, "StaleReference")] {
        let mut world = CronWorld::new(row, &json!({}));
        world.at(5).run();
        world.drop_job(&CronWorld::name_at(5));
        assert_eq!(world.at(6).run(), RunEnd::In(240));
        assert_eq!(world.events, ["SuccessfulCreate", reason]);
        assert!(world.active().is_empty() && world.jobs().is_empty());
    }
}

#[test]
fn a_job_created_again_is_reported_with_both_uids() {
    let cases = [
        (
            &BATCH,
            "MissingJob",
            "Active job went missing: JOB",
            "UnexpectedJob",
        ),
        (
            &VOLCANO,
            "StaleReference",
            "Active job reference \"JOB\" points to a different UID (expected: OLD, actual: another)",
            "OrphanedJob",
        ),
    ];
    for (row, reason, message, taken_back) in cases {
        let mut world = CronWorld::new(row, &json!({}));
        world.at(5).run();
        let name = CronWorld::name_at(5);
        let mut job = world.job(&name);
        let old = job["metadata"]["uid"].take();
        job["metadata"]["uid"] = "another".into();
        world.drop_job(&name);
        world.put_job(job);
        world.at(6).run();
        assert_eq!(world.events, ["SuccessfulCreate", reason, taken_back]);
        let message = message.replace("JOB", &name);
        assert_eq!(
            world.messages[1],
            message.replace("OLD", old.as_str().unwrap())
        );
    }
}

/// A user removed the owner reference after the Job had run. The controller learns of it when it deletes the Job.
#[test]
fn an_old_job_that_is_no_longer_ours_costs_no_slot() {
    let mut world = CronWorld::new(&VOLCANO, &json!({"successfulJobsHistoryLimit": 0}));
    world.at(5).run();
    let name = CronWorld::name_at(5);
    world.at(6).end_job(&name, "Completed");
    let mut job = world.job(&name);
    job["metadata"]["ownerReferences"] = json!([]);
    world.put_job_unseen(job);
    assert_eq!(world.run(), RunEnd::In(240));
    assert_eq!(world.asked.last(), Some(&format!("get {name}")));
    assert_eq!(world.events, ["SuccessfulCreate", "SawCompletedJob"]);
    assert_eq!(world.jobs(), [name]);
}

/// A CronJob that was restored is younger than its last slot.
#[test]
fn a_last_schedule_time_before_the_creation_delays_no_slot() {
    let limits = json!({"successfulJobsHistoryLimit": 0});
    let mut world = CronWorld::new(&BATCH, &limits);
    let before = BASE - SignedDuration::from_mins(7);
    world.change_cron(&json!({"status": {"lastScheduleTime": before}}));
    world.at(0).run();
    assert_eq!(world.jobs(), [CronWorld::name_at(0)]);
    assert_eq!(world.status()["lastScheduleTime"], "2025-03-11T10:00:00Z");
}
