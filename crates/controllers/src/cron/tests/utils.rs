//! `utils_test.go` of both originals: names, annotations, slots and the order in which Jobs are pruned.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use caretaker_machinery::cron::CronSchedule;

use super::super::slots::{self, DueSlot};
use super::super::{BATCH, DIALECTS, VOLCANO};
use super::world::{BASE, CronWorld, RunEnd};

/// Minutes and seconds after 10:00.
fn at(minutes: i64, secs: i64) -> Timestamp {
    BASE + SignedDuration::from_mins(minutes) + SignedDuration::from_secs(secs)
}

const DAY: i64 = 24 * 60;

/// `TestMostRecentScheduleTime`, `TestNextScheduleTime`, `TestNextScheduleTimeDuration`: schedule, last slot or creation,
/// deadline, now; the slot that is due, the number of slots, and the next one. All in minutes after Tuesday, 10:00.
#[test]
fn the_latest_slot_is_found_and_the_next_one_follows() {
    #[rustfmt::skip]
    #[allow(clippy::type_complexity)]
    let cases: &[(&str, i64, Option<i64>, i64, Option<(i64, usize)>, i64)] = &[
        ("0 * * * ?", -10, None, -7, None, 0),
        ("0 * * * ?", -10, None, 1, Some((0, 1)), 60),
        ("0 * * * ?", 0, None, 2, None, 60),
        ("0 * * * ?", 0, None, 65, Some((60, 1)), 120),
        ("0 * * * ?", -60, None, 65, Some((60, 2)), 120),
        ("0 * * * ?", -60, None, 60 + 10 * DAY, Some((60 + 10 * DAY, 101)), 120 + 10 * DAY),
        ("0 * * * ?", -60, Some(7_200), 60 + 10 * DAY, Some((60 + 10 * DAY, 2)), 120 + 10 * DAY),
        ("0 * * * *", 0, None, 30, None, 60),
        ("0 * * * *", 0, None, 61, Some((60, 1)), 120),
        ("0 * * * *", 0, None, 301, Some((300, 5)), 360),
        ("30 6-16/4 * * 1-5", 30, None, 24 * 60 + 31, Some((24 * 60 + 30, 3)), 28 * 60 + 30),
        // Upstream finds none here (cron-latest-slot).
        ("30 10,11,12 * * 1-5", 30, None, 30 * 60 + 30, Some((26 * 60 + 30, 5)), 48 * 60 + 30),
        ("30 6-16/4 * * 1-5", 30, None, 96 * 60 + 31, Some((76 * 60 + 30, 10)), 140 * 60 + 30),
        ("30 6-16/4 * * 1-5", 0, None, 24 * 60 + 31, Some((24 * 60 + 30, 4)), 28 * 60 + 30),
        ("@every 1h", 1, None, 7 * DAY, Some((7 * DAY - 59, 101)), 7 * DAY + 1),
        ("*/5 * * * *", 30, None, 31, None, 35),
        ("*/5 * * * *", 30, Some(60), 31, None, 35),
        ("*/5 * * * *", 30, Some(60), 32, None, 35),
        ("0 12 * * 2", 120, None, 19 * DAY + 90, Some((14 * DAY + 120, 2)), 21 * DAY + 120),
        ("0 12 * * 3", 0, None, 6 * 60, None, 26 * 60),
    ];
    for (text, last, deadline, now, due, next) in cases {
        let schedule = CronSchedule::parse(text).unwrap();
        let found = slots::outlook(
            &schedule,
            &TimeZone::UTC,
            at(*last, 0),
            *deadline,
            at(*now, 0),
        );
        let events = found.due.map(|slot: DueSlot| (slot.time, slot.count));
        let expected = due.map(|(minutes, count)| (at(minutes, 0), count));
        assert_eq!(
            (events, found.next),
            (expected, Some(at(*next, 0))),
            "{text} {last} {now}"
        );
    }
    for never in ["59 23 31 2 *", "0 0 30 2 *"] {
        let schedule = CronSchedule::parse(never).unwrap();
        let found = slots::outlook(&schedule, &TimeZone::UTC, at(0, 0), None, at(DAY, 0));
        assert_eq!((found.due, found.next), (None, None), "{never}");
    }
}

/// A deadline applies to the slot and moves nothing else (cron-deadline).
#[test]
fn a_deadline_drops_slots_and_moves_no_anchor() {
    #[rustfmt::skip]
    let cases = [
        // Schedule, deadline, seconds after 10:00; the slot in seconds after 10:00, how many, whether it is too late.
        ("@every 1h", 60, 3_600, 3_600, 1, false),
        ("@every 1h", 60, 3_659, 3_600, 1, false),
        ("@every 1h", 60, 3_660, 3_600, 0, true),
        // Upstream finds 13:30, because it counts from 11:30.
        ("@every 1h", 7_200, 12_600, 10_800, 2, false),
        ("*/5 * * * *", 0, 300, 300, 0, true),
        ("*/5 * * * *", 1, 300, 300, 1, false),
        ("*/5 * * * *", 1, 301, 300, 0, true),
        ("*/5 * * * *", -7, 300, 300, 0, true),
        ("*/5 * * * *", i64::MAX, 301, 300, 1, false),
        ("* * * * *", i64::MAX, 86_400, 86_400, 101, false),
    ];
    for (text, deadline, now, slot, count, is_late) in cases {
        let schedule = CronSchedule::parse(text).unwrap();
        let found = slots::outlook(&schedule, &TimeZone::UTC, BASE, Some(deadline), at(0, now));
        let expected = DueSlot {
            time: at(0, slot),
            count,
            is_late,
        };
        assert_eq!(found.due, Some(expected), "{text} {deadline} {now}");
    }
}

/// The cases of `TestGetJobFromTemplate`.
#[test]
fn a_job_is_made_from_the_template_with_its_slot() {
    let zones: [(Value, &str); 4] = [
        (Value::Null, "2025-03-11T10:05:00Z"),
        (json!("UTC"), "2025-03-11T10:05:00Z"),
        (json!("Europe/London"), "2025-03-11T10:05:00Z"),
        (json!("Europe/Rome"), "2025-03-11T11:05:00+01:00"),
    ];
    for (row, (zone, stamp)) in DIALECTS
        .into_iter()
        .flat_map(|row| zones.clone().map(|zone| (row, zone)))
    {
        let mut world = CronWorld::new(row, &json!({"timeZone": zone}));
        world.at(5).run();
        let job = world.job(&CronWorld::name_at(5));
        let metadata = &job["metadata"];
        assert_eq!(
            metadata["annotations"],
            json!({"x": "y", row.stamp: stamp}),
            "{zone}"
        );
        assert_eq!(metadata["labels"], json!({"a": "b"}));
        assert_eq!(job["spec"], json!({"k": "v"}));
        let owner = json!([{"apiVersion": row.api_version, "kind": "CronJob", "name": "nightly", "uid": "cron-uid",
            "controller": true, "blockOwnerDeletion": true}]);
        assert_eq!(metadata["ownerReferences"], owner);
        assert_eq!(
            (&job["kind"], &job["apiVersion"]),
            (&json!("Job"), &json!(row.api_version))
        );
    }
}

#[test]
fn only_possible_slots_are_read_from_job_names() {
    let stamp = at(5, 30);
    let minute = BASE.as_second() / 60 + 5;
    let name = format!("a-{minute}");
    assert_eq!(slots::job_name("a", stamp), name);
    assert_eq!(slots::slot_of_job_name("a", &name, None), Some(at(5, 0)));
    assert_eq!(
        slots::slot_of_job_name("a", &name, Some(stamp)),
        Some(stamp)
    );
    assert_eq!(
        slots::slot_of_job_name("a", &name, Some(at(6, 0))),
        Some(at(5, 0)),
        "another minute"
    );
    for odd in [
        "a",
        "a-",
        "a-x",
        "a-1x",
        "a-01",
        "a-+1",
        "a--1",
        "a-1-1",
        "b-1",
        "aa-1",
        "a-m4x7k2p",
        "a-99999999999999999999",
        "a-9223372036854775807",
        "a- 1",
    ] {
        assert_eq!(slots::slot_of_job_name("a", odd, None), None, "{odd}");
    }
    assert_eq!(
        slots::slot_of_job_name("a-1", "a-1-2", None),
        Timestamp::from_second(120).ok()
    );
    #[rustfmt::skip]
    let cases = [
        // There are no ticks before the creation of the CronJob or in the future.
        (at(-1, 0), None, false), (at(0, 0), None, true), (at(69, 0), None, true), (at(71, 0), None, false),
        // A restored status may have earlier slots.
        (at(-1, 0), Some(at(-5, 0)), true), (at(-5, 0), Some(at(-5, 0)), false),
        (at(5, 0), Some(at(4, 59)), true), (at(5, 0), Some(at(5, 0)), false), (at(5, 0), Some(at(5, 30)), false),
        (at(71, 0), Some(at(5, 30)), false),
    ];
    for (slot, last, is_unrecorded_tick) in cases {
        let found = slots::is_unrecorded_tick(slot, at(0, 30), last, at(10, 0));
        assert_eq!(found, is_unrecorded_tick, "{slot} {last:?}");
    }
}

/// `TestByJobStartTime` and `byJobCreationTimestamp`: the oldest first, those without a time last, then by name.
#[test]
fn the_oldest_go_first() {
    for (row, member) in [(&BATCH, "startTime"), (&VOLCANO, "creationTimestamp")] {
        let mut world = CronWorld::new(row, &json!({"successfulJobsHistoryLimit": 0}));
        // The order of the names is the reverse of that of the times.
        for (minutes, time) in [
            (1, None),
            (2, None),
            (3, Some(at(9, 0))),
            (4, Some(at(8, 0))),
            (5, Some(at(8, 0))),
        ] {
            let mut job = world.mk_job(minutes, "Completed");
            let place = if member == "startTime" {
                "status"
            } else {
                "metadata"
            };
            job[place][member] = json!(time);
            world.put_job(job);
        }
        world.change_cron(&json!({"status": {"lastScheduleTime": at(10, 0)}}));
        assert_eq!(world.at(12).run(), RunEnd::In(180));
        let gone: Vec<String> = [4, 5, 3, 1, 2]
            .map(|minutes| format!("delete {}", CronWorld::name_at(minutes)))
            .into();
        let asked: Vec<&String> = world
            .asked
            .iter()
            .filter(|asked| asked.starts_with("delete"))
            .collect();
        assert_eq!(asked, gone.iter().collect::<Vec<_>>(), "{}", row.name);
    }
}

/// `schedule list` shows this as the next run, too.
#[test]
fn the_next_slot_is_found_after_years_without_one() {
    let schedule = CronSchedule::parse("0 0 29 2 *").unwrap();
    let time = |text: &str| text.parse::<Timestamp>().unwrap();
    let last = time("2096-02-29T00:00:00Z");
    let next = |now| super::super::next_slot(&schedule, &TimeZone::UTC, last, time(now));
    assert_eq!(
        next("2096-03-01T00:00:00Z"),
        None,
        "further away than the search goes"
    );
    let leap = Some(time("2104-02-29T00:00:00Z"));
    assert_eq!(next("2103-01-01T00:00:00Z"), leap);
}
