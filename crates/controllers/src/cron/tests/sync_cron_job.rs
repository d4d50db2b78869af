//! `TestSyncCronJob` of Volcano's `cronjob_controller_test.go`: its 65 cases, in its order and under its names.
//!
//! Everything was made at 10:00, schedules are every five minutes and all Jobs are kept, unless a case says otherwise. In
//! all of them the timer is exact (`cron-exact-timer`); a row that names a deviation has our expectation.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::super::VOLCANO;
use super::world::{BASE, Ended, Trouble, World};

/// What comes of a case. Times are minutes after 10:00.
#[derive(Debug, PartialEq, Eq)]
struct Expected {
    after: Option<i64>,
    is_written: bool,
    has_failed: bool,
    slot: Option<i64>,
    success: Option<i64>,
    active: usize,
    events: usize,
    created: usize,
    deleted: usize,
}

type Row = (
    u32,
    &'static str,
    i64,
    &'static str,
    &'static str,
    &'static str,
    Expected,
);

#[rustfmt::skip]
const CASES: [Row; 65] = [
    (1, "cron-permanent-errors", 3, r#"{"schedule": "wrong shcedlue"}"#, "", "Abnormal situation, error schedule", Expected { after: None, is_written: false, has_failed: false, slot: None, success: None, active: 0, events: 1, created: 0, deleted: 0 }),
    (2, "cron-permanent-errors", 3, r#"{"timeZone": "error TZ"}"#, "", "Abnormal situation, error TimeZone", Expected { after: None, is_written: false, has_failed: false, slot: None, success: None, active: 0, events: 1, created: 0, deleted: 0 }),
    (3, "", 3, r#"{"suspend": true}"#, "", "Abnormal situation, suspend", Expected { after: None, is_written: false, has_failed: false, slot: None, success: None, active: 0, events: 0, created: 0, deleted: 0 }),
    (4, "", 3, r#"{"concurrencyPolicy": "Allow"}"#, "", "First run, is not time, Allow", Expected { after: Some(2), is_written: false, has_failed: false, slot: None, success: None, active: 0, events: 0, created: 0, deleted: 0 }),
    (5, "", 3, r#"{"concurrencyPolicy": "Forbid"}"#, "", "First run, is not time, Forbid", Expected { after: Some(2), is_written: false, has_failed: false, slot: None, success: None, active: 0, events: 0, created: 0, deleted: 0 }),
    (6, "", 3, r#"{"concurrencyPolicy": "Replace"}"#, "", "First run, is not time, Replace", Expected { after: Some(2), is_written: false, has_failed: false, slot: None, success: None, active: 0, events: 0, created: 0, deleted: 0 }),
    (7, "", 0, r#"{"concurrencyPolicy": "Allow", "schedule": "0 10 * * *", "timeZone": "Pacific/Honolulu"}"#, "", "First run, is not time in TZ", Expected { after: Some(600), is_written: false, has_failed: false, slot: None, success: None, active: 0, events: 0, created: 0, deleted: 0 }),
    (8, "", 5, r#"{"concurrencyPolicy": "Allow"}"#, "", "First run, is time, Allow", Expected { after: Some(5), is_written: true, has_failed: false, slot: Some(5), success: None, active: 1, events: 1, created: 1, deleted: 0 }),
    (9, "", 5, r#"{"concurrencyPolicy": "Forbid"}"#, "", "First run, is time, Forbid", Expected { after: Some(5), is_written: true, has_failed: false, slot: Some(5), success: None, active: 1, events: 1, created: 1, deleted: 0 }),
    (10, "", 5, r#"{"concurrencyPolicy": "Forbid"}"#, "", "First run, is time, Replace", Expected { after: Some(5), is_written: true, has_failed: false, slot: Some(5), success: None, active: 1, events: 1, created: 1, deleted: 0 }),
    (11, "", 5, r#"{"concurrencyPolicy": "Allow", "startingDeadlineSeconds": 60}"#, "", "First run, is time, has startingDeadlineSeconds, Allow", Expected { after: Some(5), is_written: true, has_failed: false, slot: Some(5), success: None, active: 1, events: 1, created: 1, deleted: 0 }),
    (12, "", 600, r#"{"concurrencyPolicy": "Allow", "schedule": "0 10 * * *", "timeZone": "Pacific/Honolulu"}"#, "", "First run, is time in TZ, Allow", Expected { after: Some(1440), is_written: true, has_failed: false, slot: Some(600), success: None, active: 1, events: 1, created: 1, deleted: 0 }),
    (13, "", 600, r#"{"schedule": "TZ=UTC 0 20 * * *", "timeZone": "Pacific/Honolulu"}"#, "", "First run, is time, uses schedule's TZ despite conflict with TimeZone setting", Expected { after: Some(1440), is_written: true, has_failed: false, slot: Some(600), success: None, active: 1, events: 2, created: 1, deleted: 0 }),
    (14, "", 7, r#"{"concurrencyPolicy": "Allow"}"#, "", "First run, miss Time, no startingDeadlineSeconds, Allow", Expected { after: Some(3), is_written: true, has_failed: false, slot: Some(5), success: None, active: 1, events: 1, created: 1, deleted: 0 }),
    (15, "", 7, r#"{"concurrencyPolicy": "Allow", "startingDeadlineSeconds": 180}"#, "", "First run, miss Time, no miss deadline, Allow", Expected { after: Some(3), is_written: true, has_failed: false, slot: Some(5), success: None, active: 1, events: 1, created: 1, deleted: 0 }),
    (16, "", 7, r#"{"concurrencyPolicy": "Allow", "startingDeadlineSeconds": 60}"#, "", "First run, miss deadline, Allow", Expected { after: Some(3), is_written: false, has_failed: false, slot: None, success: None, active: 0, events: 0, created: 0, deleted: 0 }),
    (17, "", 600, r#"{"concurrencyPolicy": "Allow"}"#, "", "First run, manymiss, no startingDeadlineSeconds, Allow", Expected { after: Some(5), is_written: true, has_failed: false, slot: Some(600), success: None, active: 1, events: 2, created: 1, deleted: 0 }),
    (18, "", 1440, r#"{"concurrencyPolicy": "Allow", "schedule": "* * * * *", "startingDeadlineSeconds": 60060}"#, "", "First run, manymiss, has startingDeadlineSeconds, Allow", Expected { after: Some(1), is_written: true, has_failed: false, slot: Some(1440), success: None, active: 1, events: 2, created: 1, deleted: 0 }),
    (19, "cron-derived-active", 5, r#"{"concurrencyPolicy": "Allow"}"#, "Completed@10:05 inClient; create→AlreadyExists", "First run, is time, job exist and done, Allow", Expected { after: Some(5), is_written: true, has_failed: false, slot: Some(5), success: Some(6), active: 0, events: 0, created: 0, deleted: 0 }),
    (20, "", 5, r#"{"concurrencyPolicy": "Allow"}"#, "Running@10:05 inClient/notOwnedByCj; create→AlreadyExists", "First run, is time, job exist but not owned by this CronJob, Allow", Expected { after: Some(5), is_written: false, has_failed: false, slot: None, success: None, active: 0, events: 1, created: 0, deleted: 0 }),
    (21, "", 5, r#"{"concurrencyPolicy": "Allow"}"#, "Completed@10:05 active", "First run, is time, job in active but not in lister, Allow", Expected { after: Some(5), is_written: true, has_failed: false, slot: Some(5), success: None, active: 1, events: 2, created: 1, deleted: 0 }),
    (22, "", 5, r#"{"concurrencyPolicy": "Allow"}"#, "create→NsTerminating", "First run, is time, nameSpace is terminating", Expected { after: None, is_written: false, has_failed: true, slot: None, success: None, active: 0, events: 1, created: 0, deleted: 0 }),
    (23, "", 5, r#"{"concurrencyPolicy": "Allow", "schedule": "@every 1h"}"#, "", "First run, @every schedule, not time, Allow", Expected { after: Some(55), is_written: false, has_failed: false, slot: None, success: None, active: 0, events: 0, created: 0, deleted: 0 }),
    (24, "", 60, r#"{"concurrencyPolicy": "Allow", "schedule": "@every 1h"}"#, "", "First run, @every schedule, is time, Allow", Expected { after: Some(60), is_written: true, has_failed: false, slot: Some(60), success: None, active: 1, events: 1, created: 1, deleted: 0 }),
    (25, "", 90, r#"{"concurrencyPolicy": "Allow", "schedule": "@every 1h", "startingDeadlineSeconds": 60}"#, "", "First run, @every schedule, is time, miss deadline, Allow", Expected { after: Some(30), is_written: false, has_failed: false, slot: None, success: None, active: 0, events: 0, created: 0, deleted: 0 }),
    (26, "", 90, r#"{"concurrencyPolicy": "Allow", "schedule": "@every 1h", "startingDeadlineSeconds": 60060}"#, "", "First run, @every schedule, is time, no miss deadline, Allow", Expected { after: Some(30), is_written: true, has_failed: false, slot: Some(60), success: None, active: 1, events: 1, created: 1, deleted: 0 }),
    (27, "cron-derived-active", 30, r#"{"concurrencyPolicy": "Allow", "schedule": "@every 1h", "startingDeadlineSeconds": 60060}"#, "Completed@10:00 inLister", "not first run, @every schedule, pre all done, is not time, Allow", Expected { after: Some(30), is_written: true, has_failed: false, slot: Some(0), success: Some(1), active: 0, events: 0, created: 0, deleted: 0 }),
    (28, "", 60, r#"{"concurrencyPolicy": "Allow", "schedule": "@every 1h", "startingDeadlineSeconds": 60060}"#, "Completed@10:00 inLister", "not first run, @every schedule, pre all done, is time, Allow", Expected { after: Some(60), is_written: true, has_failed: false, slot: Some(60), success: Some(1), active: 1, events: 1, created: 1, deleted: 0 }),
    (29, "cron-derived-active", 30, r#"{"concurrencyPolicy": "Allow", "schedule": "@every 1h", "startingDeadlineSeconds": 60060}"#, "Running@10:00 inLister/inClient/active", "not first run, @every schedule, pre active, is not time, Allow", Expected { after: Some(30), is_written: true, has_failed: false, slot: Some(0), success: None, active: 1, events: 0, created: 0, deleted: 0 }),
    (30, "", 60, r#"{"concurrencyPolicy": "Allow", "schedule": "@every 1h", "startingDeadlineSeconds": 60060}"#, "Running@10:00 inLister/inClient/active", "not first run, @every schedule, pre activee all done, is time, Allow", Expected { after: Some(60), is_written: true, has_failed: false, slot: Some(60), success: None, active: 2, events: 1, created: 1, deleted: 0 }),
    (31, "", 7, r#"{"concurrencyPolicy": "Allow", "successfulJobsHistoryLimit": 0}"#, "Completed@10:05 inLister; lastSched=10:05", "noy first run, successfulJobHistoryLimit is 0", Expected { after: Some(3), is_written: true, has_failed: false, slot: Some(5), success: Some(6), active: 0, events: 1, created: 0, deleted: 1 }),
    (32, "", 22, r#"{"concurrencyPolicy": "Allow", "successfulJobsHistoryLimit": 5}"#, "Completed@10:05 inLister; Completed@10:10 inLister; Completed@10:15 inLister; Completed@10:20 inLister; lastSched=10:20", "noy first run, successfulJobHistoryLimit is 5", Expected { after: Some(3), is_written: true, has_failed: false, slot: Some(20), success: Some(21), active: 0, events: 0, created: 0, deleted: 0 }),
    (33, "cron-derived-active", 3, r#"{"concurrencyPolicy": "Allow", "startingDeadlineSeconds": 60060}"#, "Completed@10:00 inLister", "not first run, pre all done, is not time, Allow", Expected { after: Some(2), is_written: true, has_failed: false, slot: Some(0), success: Some(1), active: 0, events: 0, created: 0, deleted: 0 }),
    (34, "cron-derived-active", 3, r#"{"concurrencyPolicy": "Forbid", "startingDeadlineSeconds": 60060}"#, "Completed@10:00 inLister", "not first run, pre all done, is not time, Forbid", Expected { after: Some(2), is_written: true, has_failed: false, slot: Some(0), success: Some(1), active: 0, events: 0, created: 0, deleted: 0 }),
    (35, "cron-derived-active", 3, r#"{"concurrencyPolicy": "Replace", "startingDeadlineSeconds": 60060}"#, "Completed@10:00 inLister", "not first run, pre all done, is not time, Replace", Expected { after: Some(2), is_written: true, has_failed: false, slot: Some(0), success: Some(1), active: 0, events: 0, created: 0, deleted: 0 }),
    (36, "cron-derived-active", 3, r#"{"concurrencyPolicy": "Replace", "startingDeadlineSeconds": 60060}"#, "Failed@10:00 inLister", "not first run, pre all done, is not time, Replace", Expected { after: Some(2), is_written: true, has_failed: false, slot: Some(0), success: None, active: 0, events: 0, created: 0, deleted: 0 }),
    (37, "", 7, r#"{"concurrencyPolicy": "Allow"}"#, "Completed@10:00 inLister; Failed@10:05 inLister; lastSched=10:05", "not first run, pre all done, one suc and one fail, is not time, Allow", Expected { after: Some(3), is_written: true, has_failed: false, slot: Some(5), success: Some(1), active: 0, events: 0, created: 0, deleted: 0 }),
    (38, "cron-derived-active", 3, r#"{"concurrencyPolicy": "Allow"}"#, "Completed@10:00 inLister/active", "not first run, pre all done but in active, is not time, Allow", Expected { after: Some(2), is_written: true, has_failed: false, slot: Some(0), success: Some(1), active: 0, events: 1, created: 0, deleted: 0 }),
    (39, "cron-derived-active", 3, r#"{"concurrencyPolicy": "Forbid"}"#, "Completed@10:00 inLister/active", "not first run, pre all done but in active, is not time, Forbid", Expected { after: Some(2), is_written: true, has_failed: false, slot: Some(0), success: Some(1), active: 0, events: 1, created: 0, deleted: 0 }),
    (40, "cron-derived-active", 3, r#"{"concurrencyPolicy": "Replace"}"#, "Completed@10:00 inLister/active", "not first run, pre all done but in active, is not time, Replace", Expected { after: Some(2), is_written: true, has_failed: false, slot: Some(0), success: Some(1), active: 0, events: 1, created: 0, deleted: 0 }),
    (41, "", 5, r#"{"concurrencyPolicy": "Allow"}"#, "Completed@10:00 inLister", "not first run, pre all done, is time, Allow", Expected { after: Some(5), is_written: true, has_failed: false, slot: Some(5), success: Some(1), active: 1, events: 1, created: 1, deleted: 0 }),
    (42, "", 5, r#"{"concurrencyPolicy": "Forbid"}"#, "Completed@10:00 inLister", "not first run, pre all done, is time, Forbid", Expected { after: Some(5), is_written: true, has_failed: false, slot: Some(5), success: Some(1), active: 1, events: 1, created: 1, deleted: 0 }),
    (43, "", 5, r#"{"concurrencyPolicy": "Replace"}"#, "Completed@10:00 inLister", "not first run, pre all done, is time, Replace", Expected { after: Some(5), is_written: true, has_failed: false, slot: Some(5), success: Some(1), active: 1, events: 1, created: 1, deleted: 0 }),
    (44, "cron-derived-active", 5, r#"{"concurrencyPolicy": "Allow", "suspend": true}"#, "Completed@10:00 inLister", "not first run, pre all done, is time, suspend", Expected { after: None, is_written: true, has_failed: false, slot: Some(0), success: Some(1), active: 0, events: 0, created: 0, deleted: 0 }),
    (45, "", 5, r#"{"concurrencyPolicy": "Allow"}"#, "Failed@10:00 inLister", "not first run, pre all done fail, is time, Allow", Expected { after: Some(5), is_written: true, has_failed: false, slot: Some(5), success: None, active: 1, events: 1, created: 1, deleted: 0 }),
    (46, "", 15, r#"{"concurrencyPolicy": "Allow"}"#, "Completed@10:00 inLister; Failed@10:05 inLister", "not first run, pre all done, one suc and one fail, is time, Allow", Expected { after: Some(5), is_written: true, has_failed: false, slot: Some(15), success: Some(1), active: 1, events: 1, created: 1, deleted: 0 }),
    (47, "", 5, r#"{"concurrencyPolicy": "Allow"}"#, "Completed@10:00 inLister/active", "not first run, pre all done but in active, is time, Allow", Expected { after: Some(5), is_written: true, has_failed: false, slot: Some(5), success: Some(1), active: 1, events: 2, created: 1, deleted: 0 }),
    (48, "", 5, r#"{"concurrencyPolicy": "Forbid"}"#, "Completed@10:00 inLister/active", "not first run, pre all done but in active, is time, Forbid", Expected { after: Some(5), is_written: true, has_failed: false, slot: Some(5), success: Some(1), active: 1, events: 2, created: 1, deleted: 0 }),
    (49, "", 5, r#"{"concurrencyPolicy": "Replace"}"#, "Completed@10:00 inLister/active", "not first run, pre all done but in active, is time, Replace", Expected { after: Some(5), is_written: true, has_failed: false, slot: Some(5), success: Some(1), active: 1, events: 2, created: 1, deleted: 0 }),
    (50, "cron-derived-active", 5, r#"{"concurrencyPolicy": "Allow"}"#, "Running@10:05 inLister/inClient/active; Completed@10:00 inLister; create→AlreadyExists", "not first run, pre all done, job exist and in active, is time, Allow", Expected { after: Some(5), is_written: true, has_failed: false, slot: Some(5), success: Some(1), active: 1, events: 0, created: 0, deleted: 0 }),
    (51, "cron-derived-active", 7, r#"{"concurrencyPolicy": "Allow", "startingDeadlineSeconds": 60}"#, "Completed@10:00 inLister", "not first run, pre all done, miss deadline, Allow", Expected { after: Some(3), is_written: true, has_failed: false, slot: Some(0), success: Some(1), active: 0, events: 0, created: 0, deleted: 0 }),
    (52, "", 7, r#"{"concurrencyPolicy": "Allow", "startingDeadlineSeconds": 180}"#, "Completed@10:00 inLister", "not first run, pre all done, no miss deadline, Allow", Expected { after: Some(3), is_written: true, has_failed: false, slot: Some(5), success: Some(1), active: 1, events: 1, created: 1, deleted: 0 }),
    (53, "", 7, r#"{"concurrencyPolicy": "Allow"}"#, "Running@10:05 inLister/active; lastSched=10:05", "not first run, pre active, not time, Allow", Expected { after: Some(3), is_written: false, has_failed: false, slot: Some(5), success: None, active: 1, events: 0, created: 0, deleted: 0 }),
    (54, "", 7, r#"{"concurrencyPolicy": "Forbid"}"#, "Running@10:05 inLister/active; lastSched=10:05", "not first run, pre active, not time, Forbid", Expected { after: Some(3), is_written: false, has_failed: false, slot: Some(5), success: None, active: 1, events: 0, created: 0, deleted: 0 }),
    (55, "", 7, r#"{"concurrencyPolicy": "Replace"}"#, "Running@10:05 inLister/active; lastSched=10:05", "not first run, pre active, not time, Replace", Expected { after: Some(3), is_written: false, has_failed: false, slot: Some(5), success: None, active: 1, events: 0, created: 0, deleted: 0 }),
    (56, "", 7, r#"{"concurrencyPolicy": "Allow"}"#, "Running@10:05 inLister/active; lastSched=10:05", "not first run, pre active, not time, suspend", Expected { after: Some(3), is_written: false, has_failed: false, slot: Some(5), success: None, active: 1, events: 0, created: 0, deleted: 0 }),
    (57, "", 10, r#"{"concurrencyPolicy": "Allow"}"#, "Running@10:05 inLister/inClient/active; lastSched=10:05", "not first run, pre active, is time, Allow", Expected { after: Some(5), is_written: true, has_failed: false, slot: Some(10), success: None, active: 2, events: 1, created: 1, deleted: 0 }),
    (58, "", 10, r#"{"concurrencyPolicy": "Forbid"}"#, "Running@10:05 inLister/inClient/active; lastSched=10:05", "not first run, pre active, is time, Forbid", Expected { after: Some(5), is_written: false, has_failed: false, slot: Some(5), success: None, active: 1, events: 1, created: 0, deleted: 0 }),
    (59, "", 10, r#"{"concurrencyPolicy": "Replace"}"#, "Running@10:05 inLister/inClient/active; lastSched=10:05", "not first run, pre active, is time, Replace", Expected { after: Some(5), is_written: true, has_failed: false, slot: Some(10), success: None, active: 1, events: 3, created: 1, deleted: 1 }),
    (60, "", 10, r#"{"concurrencyPolicy": "Allow", "suspend": true}"#, "Running@10:05 inLister/inClient/active; lastSched=10:05", "not first run, pre active, is time, suspend", Expected { after: None, is_written: false, has_failed: false, slot: Some(5), success: None, active: 1, events: 0, created: 0, deleted: 0 }),
    (61, "cron-preconditions", 10, r#"{"concurrencyPolicy": "Replace"}"#, "Running@10:05 inLister/inClient/active; get job→error; lastSched=10:05", "not first run, pre active, is time, Replace, get job failed", Expected { after: Some(5), is_written: true, has_failed: false, slot: Some(10), success: None, active: 1, events: 3, created: 1, deleted: 1 }),
    (62, "", 12, r#"{"concurrencyPolicy": "Allow", "startingDeadlineSeconds": 60}"#, "Running@10:05 inLister/inClient/active; lastSched=10:05", "not first run, pre active, is time, miss deadline", Expected { after: Some(3), is_written: false, has_failed: false, slot: Some(5), success: None, active: 1, events: 0, created: 0, deleted: 0 }),
    (63, "", 12, r#"{"concurrencyPolicy": "Allow", "startingDeadlineSeconds": 180}"#, "Running@10:05 inLister/inClient/active; lastSched=10:05", "not first run, pre active, is time, no miss deadline", Expected { after: Some(3), is_written: true, has_failed: false, slot: Some(10), success: None, active: 2, events: 1, created: 1, deleted: 0 }),
    (64, "", 600, r#"{"concurrencyPolicy": "Allow"}"#, "Completed@10:05 inLister", "not first run, pre all done, manymiss, Allow", Expected { after: Some(5), is_written: true, has_failed: false, slot: Some(600), success: Some(6), active: 1, events: 2, created: 1, deleted: 0 }),
    (65, "", 1440, r#"{"concurrencyPolicy": "Allow", "schedule": "* * * * *", "startingDeadlineSeconds": 60060}"#, "Completed@10:05 inLister", "not first run, pre all done, manymiss, has startingDeadlineSeconds, Allow", Expected { after: Some(1), is_written: true, has_failed: false, slot: Some(1440), success: Some(6), active: 1, events: 2, created: 1, deleted: 0 }),
];

#[test]
fn sync_cron_job() {
    for (number, _, now, spec, jobs, name, expected) in CASES {
        for shows_first in [false, true] {
            let spec: Value = serde_json::from_str(spec).unwrap();
            let mut world = World::new(&VOLCANO, &spec);
            prepare(&mut world, jobs);
            world.shows_first = shows_first;
            let ended = world.at(now).run();
            assert_eq!(
                outcome(&world, &ended),
                expected,
                "{number} {name}: {:?} {:?}",
                world.asked,
                world.told
            );
        }
    }
}

/// Jobs before the case, in upstream's words: `Running@10:05 inLister/active; lastSched=10:05`.
fn prepare(world: &mut World, jobs: &str) {
    let minutes = |clock: &str| -> i64 {
        let (hours, minutes) = clock.split_once(':').unwrap();
        (hours.parse::<i64>().unwrap() - 10) * 60 + minutes.parse::<i64>().unwrap()
    };
    let mut listed = Vec::new();
    for word in jobs.split("; ").filter(|word| !word.is_empty()) {
        if let Some(clock) = word.strip_prefix("lastSched=") {
            let last = BASE + SignedDuration::from_mins(minutes(clock));
            world.change_cron(&serde_json::json!({"status": {"lastScheduleTime": last}}));
        } else if let Some(trouble) = word.strip_prefix("create→") {
            // That it exists follows from the Job that is there.
            if trouble == "NsTerminating" {
                world.troubles.push_back(("create", Trouble::Ending));
            }
        } else if let Some((phase, rest)) = word.split_once('@') {
            let (clock, places) = rest.split_once(' ').unwrap();
            let mut job = world.mk_job(minutes(clock), phase);
            if places.contains("notOwnedByCj") {
                job["metadata"]["ownerReferences"] = serde_json::json!([]);
            }
            if places.contains("inLister") {
                world.put_job(job.clone());
            } else if places.contains("inClient") {
                let name = job["metadata"]["name"].as_str().unwrap().to_owned();
                job["metadata"]["resourceVersion"] = "50".into();
                world
                    .objects
                    .insert((crate::runtime::kind::KindId(1), name), job.clone());
            }
            if places.contains("active") {
                listed.push(job);
            }
        }
    }
    if !listed.is_empty() {
        world.list_active(&listed);
    }
}

fn outcome(world: &World, ended: &Ended) -> Expected {
    let minutes = |member: &str| {
        let time: Timestamp = world.status()[member].as_str()?.parse().unwrap();
        Some(time.duration_since(BASE).as_mins())
    };
    Expected {
        after: match ended {
            Ended::In(secs) => Some(secs / 60),
            Ended::Rest | Ended::Failed => None,
        },
        is_written: world.asked_for("patch") > 0,
        has_failed: *ended == Ended::Failed,
        slot: minutes("lastScheduleTime"),
        success: minutes("lastSuccessfulTime"),
        active: world.active().len(),
        events: world.told.len(),
        created: world
            .told
            .iter()
            .filter(|told| *told == "SuccessfulCreate")
            .count(),
        deleted: world.asked_for("delete"),
    }
}
