//! Malformed CronJobs (`C` in the inputs): each is reported once, costs no further request and harms no other object.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::super::{BATCH, CronSettings, DIALECTS, VOLCANO};
use super::world::{BASE, CronWorld, JOB_KIND, NAME, NS, RunEnd};
use crate::runtime::call::{ApiAnswer, ApiCall};
use crate::runtime::controller::{NextStep, ObservedChange};
use crate::runtime::record::{ObjectRecord, RecordView, decode};

#[test]
fn unreadable_schedules_are_reported_and_wait_for_a_change() {
    let long = "* ".repeat(1 << 19);
    let schedules = [
        json!(""),
        json!("   "),
        json!("* * * *"),
        json!("* * * * * *"),
        json!("* * * * * * *"),
        json!("@reboot"),
        json!("TZ=0"),
        json!("TZ=x"),
        json!("CRON_TZ=../../etc/passwd * * * * *"),
        json!("TZ=Local * * * * *"),
        json!("*/0 * * * *"),
        json!("60 * * * *"),
        json!("5-1 * * * *"),
        json!("٣ * * * *"),
        json!(long),
        json!(5),
        Value::Null,
        json!({}),
        json!(["* * * * *"]),
    ];
    for schedule in schedules {
        for (row, reason) in [
            (&BATCH, "UnparseableSchedule"),
            (&VOLCANO, "InvalidSchedule"),
        ] {
            let mut world = CronWorld::new(row, &json!({"schedule": schedule}));
            assert_eq!(world.at(5).run(), RunEnd::Rest, "{schedule:.40}");
            assert_eq!(world.events, [reason], "{schedule:.40}");
            assert!(world.messages[0].len() < 2_000, "{schedule:.40}");
            world.at(10).run();
            assert_eq!((world.events.len(), world.asked.len()), (1, 0), "once");
        }
    }
}

/// An interval shorter than a second counts as a second, and one longer than all time has no slot.
#[test]
fn intervals_of_any_length_are_served_once_a_minute_at_most() {
    for (schedule, made) in [("@every 1ns", 5), ("@every 0s", 5), ("@every 290y", 0)] {
        let mut world = CronWorld::new(&BATCH, &json!({"schedule": schedule}));
        for minutes in 1..=5 {
            world.at(minutes).run();
        }
        assert_eq!(
            world.asked_for("create"),
            made,
            "{schedule}: {:?}",
            world.events
        );
    }
}

#[test]
fn schedules_without_slots_are_reported_and_checked_after_a_year() {
    for row in DIALECTS {
        for schedule in ["0 0 31 2 *", "0 0 30 2 *"] {
            let mut world = CronWorld::new(row, &json!({"schedule": schedule}));
            assert_eq!(world.at(5).run(), RunEnd::In(365 * 86_400));
            assert_eq!(world.events, ["InvalidSchedule"]);
            assert!(world.asked.is_empty());
        }
        // The next leap day after 2096 is in 2104, further away than upstream searches: it is found all the same.
        let mut world = CronWorld::new(row, &json!({"schedule": "0 0 29 2 *"}));
        let leap: jiff::Timestamp = "2096-02-29T00:00:00Z".parse().unwrap();
        world.change_cron(&json!({"status": {"lastScheduleTime": leap}}));
        world.now = leap + SignedDuration::from_hours(24);
        assert_eq!(world.run(), RunEnd::In(365 * 86_400));
        world.now = "2104-03-01T00:00:00Z".parse().unwrap();
        world.run();
        assert_eq!(world.asked_for("create"), 1);
    }
}

#[test]
fn unknown_time_zones_are_reported_and_wait_for_a_change() {
    for zone in [
        "",
        "Local",
        "local",
        "nowhere",
        "../x",
        "UTC!",
        "europe/berlin",
        "Etc/Unknown",
    ] {
        for (row, reason) in [(&BATCH, "UnknownTimeZone"), (&VOLCANO, "InvalidTimeZone")] {
            let mut world = CronWorld::new(row, &json!({"timeZone": zone}));
            assert_eq!(world.at(5).run(), RunEnd::Rest, "{zone}");
            assert_eq!(world.events, [reason], "{zone}");
            world.change_cron(&json!({"spec": {"timeZone": "Asia/Kathmandu"}}));
            world.run();
            assert_eq!(world.jobs(), [CronWorld::name_at(5)], "{zone}");
        }
    }
    for zone in [
        "US/Eastern",
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "Asia/Kathmandu",
    ] {
        let mut world = CronWorld::new(&BATCH, &json!({"timeZone": zone}));
        world.at(5).run();
        assert_eq!(world.jobs(), [CronWorld::name_at(5)], "{zone}");
    }
}

#[test]
fn schedules_without_a_zone_use_the_zone_of_the_process() {
    let zone = caretaker_machinery::cron::zone::find("Asia/Kathmandu").unwrap();
    let settings = CronSettings {
        default_zone: zone,
        ..CronSettings::default()
    };
    // 10:00 in UTC is 15:45 there.
    for (spec, secs) in [
        (json!({"schedule": "0 16 * * *"}), 15 * 60),
        (
            json!({"schedule": "0 16 * * *", "timeZone": "UTC"}),
            6 * 3_600,
        ),
        (json!({"schedule": "TZ=UTC 0 16 * * *"}), 6 * 3_600),
    ] {
        let mut world = CronWorld::with(&BATCH, settings.clone(), &spec);
        assert_eq!(world.run(), RunEnd::In(secs), "{spec}");
        world.now = BASE + SignedDuration::from_secs(secs);
        world.run();
        let job = world.job(&CronWorld::name_at(secs / 60));
        let stamp = job["metadata"]["annotations"][BATCH.stamp]
            .as_str()
            .unwrap();
        assert!(stamp.ends_with('Z'), "in UTC without a timeZone: {stamp}");
    }
}

#[test]
fn out_of_range_numbers_are_ignored_or_used_as_they_are() {
    for (spec, kept) in [
        (json!({"successfulJobsHistoryLimit": -1}), 3),
        (json!({"successfulJobsHistoryLimit": i32::MAX}), 3),
        (json!({"successfulJobsHistoryLimit": "1"}), 3),
        (json!({"successfulJobsHistoryLimit": 1.5}), 3),
        (json!({"successfulJobsHistoryLimit": 2}), 2),
        (json!({"concurrencyPolicy": "Sometimes"}), 3),
        (json!({"suspend": "yes"}), 3),
        (json!({"jobTemplate": [1]}), 3),
    ] {
        let mut world = CronWorld::new(&VOLCANO, &spec);
        for minutes in [1, 2, 3] {
            world.add_job(minutes, "Completed");
        }
        assert_eq!(world.at(5).run(), RunEnd::In(300), "{spec}");
        assert_eq!(world.jobs().len(), kept + 1, "{spec}");
    }
}

#[test]
fn malformed_times_are_ignored_one_by_one() {
    let cases = [
        ("9998-12-31T23:59:59Z", 0),
        ("0001-01-01T00:00:00Z", 1),
        ("0002-01-01T00:00:00Z", 1),
        ("soon", 1),
    ];
    for (last, made) in cases {
        let mut world = CronWorld::new(&BATCH, &json!({}));
        world.change_cron(&json!({"status": {"lastScheduleTime": last}}));
        world.at(5).run();
        assert_eq!(world.asked_for("create"), made, "{last}");
    }
}

/// The next leap day after that of 2096 is further away than the search goes.
#[test]
fn a_last_schedule_time_in_the_future_is_waited_for() {
    let mut world = CronWorld::new(&BATCH, &json!({"schedule": "0 0 29 2 *"}));
    let last: jiff::Timestamp = "2096-02-29T00:00:00Z".parse().unwrap();
    world.change_cron(&json!({"status": {"lastScheduleTime": last}}));
    assert_eq!(world.run(), RunEnd::In(last.duration_since(BASE).as_secs()));
    assert!(world.asked.is_empty() && world.events.is_empty());
}

/// Names that only look like those of ticks must not stop a CronJob.
#[test]
fn jobs_with_names_of_impossible_slots_are_no_ticks() {
    for minutes in [-60, -1_000_000, 100, 100_000_000] {
        let mut world = CronWorld::new(&BATCH, &json!({"successfulJobsHistoryLimit": 0}));
        let mut job = world.mk_job(0, "Completed");
        job["metadata"]["name"] = CronWorld::name_at(minutes).into();
        world.put_job(job);
        world.at(5).run();
        assert_eq!(
            world.status()["lastScheduleTime"],
            "2025-03-11T10:05:00Z",
            "{minutes}"
        );
        assert_eq!(
            world.jobs(),
            [CronWorld::name_at(5)],
            "{minutes}: it goes as any other"
        );
    }
}

#[test]
fn a_hundred_thousand_references_to_nothing_are_dropped_at_once() {
    let mut world = CronWorld::new(&VOLCANO, &json!({}));
    world.add_job(1, "Running");
    let known = json!({"name": CronWorld::name_at(1), "uid": "uid-1"});
    let mut refs: Vec<Value> = (0..100_000)
        .map(|number| json!({"name": "x", "uid": format!("u{number}")}))
        .collect();
    refs.extend([known.clone(), known, json!(7), json!({}), Value::Null]);
    world.change_cron(&json!({"status": {"active": refs}}));
    world.at(2).run();
    assert_eq!(world.active(), [CronWorld::name_at(1)]);
    assert_eq!(world.asked_for("patch"), 1);
}

/// The test ends in time only if a decision looks at few of the Jobs.
#[test]
fn a_hundred_thousand_finished_jobs_are_pruned_one_by_one() {
    const JOBS: usize = 100_000;
    let mut world = CronWorld::new(&BATCH, &json!({"successfulJobsHistoryLimit": 3}));
    let time = |number: usize| BASE + SignedDuration::from_secs(i64::try_from(number).unwrap());
    let records = (0..JOBS).map(|number| {
        let time = time(number);
        let text = format!(
            r#"{{"metadata":{{"name":"j{number}","namespace":"{NS}","uid":"u{number}","resourceVersion":"7",
            "creationTimestamp":"{time}","ownerReferences":[{{"apiVersion":"batch/v1","kind":"CronJob",
            "name":"{NAME}","uid":"cron-uid","controller":true}}]}},"status":{{"startTime":"{time}",
            "completionTime":"{time}","conditions":[{{"type":"Complete","status":"True"}}]}}}}"#
        );
        Arc::new(decode(JOB_KIND, text.as_bytes(), RecordView::Full).unwrap())
    });
    let records: Vec<Arc<ObjectRecord>> = records.collect();
    for record in &records {
        world.observe(&ObservedChange::Applied(record.clone()));
    }
    world.change_cron(&json!({"status": {"lastSuccessfulTime": time(JOBS)}}));
    for record in &records[..JOBS - 3] {
        let verdict = world.decide();
        let NextStep::Call(call @ ApiCall::Delete { .. }) = verdict.next else {
            panic!("{:?}", verdict.because);
        };
        assert_eq!(call.target().name, record.meta.name);
        world.answer(&call, &ApiAnswer::Done);
        world.observe(&ObservedChange::Deleted(record.clone()));
    }
    assert_eq!(world.run(), RunEnd::In(300));
}

#[test]
fn a_million_missed_slots_are_one_job() {
    for row in DIALECTS {
        let mut world = CronWorld::new(row, &json!({"schedule": "* * * * *"}));
        assert_eq!(world.at(1_000_000).run(), RunEnd::In(60));
        assert_eq!(world.jobs(), [CronWorld::name_at(1_000_000)]);
        assert_eq!(world.events, ["TooManyMissedTimes", "SuccessfulCreate"]);
    }
    for (minutes, events) in [(100, 1), (101, 2)] {
        let mut world = CronWorld::new(&BATCH, &json!({"schedule": "* * * * *"}));
        world.at(minutes).run();
        assert_eq!(world.events.len(), events, "{minutes}");
    }
}
