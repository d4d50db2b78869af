//! Compares schedules with recorded results of robfig/cron 3.0.1, and covers the cases where it hangs.

mod english;
mod grammar;
mod properties;

use super::*;

/// Recorded with zone data from before Morocco abolished summer time.
const SAMPLE: &str = include_str!("../../tests/data/robfig-v3.0.1-sample.tsv");
const GAPS: &str = include_str!("../../tests/data/midnight-gaps.tsv");

pub(super) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(super) fn mk_schedule(text: &str) -> CronSchedule {
    CronSchedule::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

pub(super) fn mk_zone(name: &str) -> TimeZone {
    match name {
        "" => TimeZone::UTC,
        name => zone::find(name).unwrap(),
    }
}

/// One line of a file: the input, and the result of robfig/cron.
struct Row<'t> {
    line: &'t str,
    zone: &'t str,
    expression: &'t str,
    from: Timestamp,
    count: usize,
    answer: &'t str,
}

fn rows(file: &str) -> impl Iterator<Item = Row<'_>> {
    let lines = file.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let columns: Vec<&str> = line.split('\t').collect();
        let [_, zone, expression, from, count, answer] = columns[..] else {
            panic!("{line}");
        };
        Row {
            line,
            zone,
            expression,
            from: at(from),
            count: count.parse().unwrap(),
            answer,
        }
    })
}

/// Our result in the format of such a row.
fn answer(row: &Row<'_>) -> String {
    let Ok(schedule) = CronSchedule::parse(row.expression) else {
        return "ERR".to_owned();
    };
    let zone = mk_zone(row.zone);
    let mut slots: Vec<String> = schedule
        .slots(row.from, &zone)
        .take(row.count)
        .map(|slot| slot.as_second().to_string())
        .collect();
    if slots.len() < row.count {
        slots.push("ZERO".to_owned());
    }
    slots.join(",")
}

/// Whether a row depends on Morocco's offset after 2026. A law changed it by an hour after the sample was recorded.
fn is_after_law_change(row: &Row<'_>) -> bool {
    row.zone == "Africa/Casablanca" && row.from > at("2026-11-01T00:00:00Z")
}

#[test]
fn matches_the_recorded_sample_of_robfig_cron() {
    let mut of_another_law = 0;
    for row in rows(SAMPLE) {
        let expected = if row.answer.starts_with("ERR") {
            "ERR".to_owned()
        } else if is_after_law_change(&row) {
            of_another_law += 1;
            let slots = row.answer.split(',').map(str::parse::<i64>);
            let later = slots.map(|slot| (slot.unwrap() + 3_600).to_string());
            later.collect::<Vec<_>>().join(",")
        } else {
            row.answer.to_owned()
        };
        assert_eq!(answer(&row), expected, "{}", row.line);
    }
    assert_eq!((rows(SAMPLE).count(), of_another_law), (849, 2));
}

#[test]
fn matches_robfig_cron_at_missing_midnights() {
    for row in rows(GAPS) {
        assert_eq!(answer(&row), row.answer, "{}", row.line);
    }
    assert_eq!(rows(GAPS).count(), 34);
}

#[test]
fn returns_next_matching_minute_where_robfig_cron_hangs() {
    let cases = [
        // The clocks went back at 00:01, so 00:30 of that day follows 23:30.
        (
            "America/St_Johns",
            "30 0 * * *",
            "2010-11-06T12:00:00Z",
            "2010-11-07T03:00:00Z,2010-11-07T04:00:00Z,2010-11-08T04:00:00Z",
        ),
        (
            "America/St_Johns",
            "@daily",
            "2004-10-31T03:06:10Z",
            "2004-10-31T03:30:00Z,2004-11-01T03:30:00Z",
        ),
        // There was no 30 December.
        (
            "Pacific/Apia",
            "0 12 1 * *",
            "2011-12-29T00:00:00Z",
            "2011-12-31T22:00:00Z,2012-01-31T22:00:00Z",
        ),
        (
            "Pacific/Fakaofo",
            "30 */2 1 * *",
            "2011-12-27T07:36:04Z",
            "2011-12-31T11:30:00Z,2011-12-31T13:30:00Z",
        ),
        ("Pacific/Apia", "0 0 30 2 *", "2011-12-29T00:00:00Z", ""),
    ];
    for (zone, expression, after, expected) in cases {
        let expected: Vec<_> = expected.split_terminator(',').map(at).collect();
        let zone = mk_zone(zone);
        let schedule = mk_schedule(expression);
        let slots = schedule.slots(at(after), &zone).take(expected.len().max(1));
        assert_eq!(slots.collect::<Vec<_>>(), expected, "{expression}");
    }
}

#[test]
fn zone_of_the_text_takes_precedence() {
    let schedule = mk_schedule("CRON_TZ=Asia/Tokyo  0 9 * * *");
    let zone = schedule.zone().and_then(TimeZone::iana_name);
    assert_eq!(zone, Some("Asia/Tokyo"));
    for caller in ["", "America/New_York"] {
        let next = schedule.next(at("2026-03-01T12:00:00Z"), &mk_zone(caller));
        assert_eq!(next, Some(at("2026-03-02T00:00:00Z")), "{caller}");
    }
    assert_eq!(mk_schedule("0 9 * * *").zone(), None);
    let nowhere = mk_schedule("TZ= 0 9 * * *");
    assert_eq!(nowhere.zone(), Some(&TimeZone::UTC));
}

#[test]
fn finds_zones_by_exact_name_only() {
    for name in [
        "UTC",
        "Europe/Berlin",
        "US/Eastern",
        "Asia/Calcutta",
        "EST5EDT",
        "Etc/GMT+5",
        "Factory",
    ] {
        assert!(zone::find(name).is_ok(), "{name}");
    }
    for name in [
        "",
        "utc",
        "europe/berlin",
        "Europe",
        "Europe/Berlin ",
        "../x",
        "/etc/localtime",
        "Etc/Unknown",
        "+01:00",
        "CET-1CEST",
    ] {
        let error = zone::find(name).unwrap_err();
        assert!(matches!(error, zone::ZoneError::Unknown(_)), "{name}");
    }
    assert_eq!(zone::find("Local"), Err(zone::ZoneError::Local));
}

/// Zone, expression, after, now, and the latest slot.
type Latest = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    Option<&'static str>,
);

const LATEST: &[Latest] = &[
    // Nothing is due yet, or exactly now.
    (
        "",
        "0 0 * * *",
        "2026-03-01T00:00:00Z",
        "2026-03-01T23:59:59.9Z",
        None,
    ),
    (
        "",
        "0 0 * * *",
        "2026-03-01T00:00:00Z",
        "2026-03-02T00:00:00Z",
        Some("2026-03-02T00:00:00Z"),
    ),
    (
        "",
        "0 0 * * *",
        "2026-03-02T00:00:00Z",
        "2026-03-01T00:00:00Z",
        None,
    ),
    // A clock that was wrong by two thousand years does not slow the search down.
    (
        "",
        "* * * * *",
        "0001-01-01T00:00:00Z",
        "2026-03-02T00:00:30Z",
        Some("2026-03-02T00:00:00Z"),
    ),
    (
        "America/New_York",
        "30 2 * * *",
        "0001-01-01T00:00:00Z",
        "2026-03-08T12:00:00Z",
        Some("2026-03-07T07:30:00Z"),
    ),
    (
        "Africa/Cairo",
        "0 12 * * 5",
        "1970-01-01T00:00:00Z",
        "2026-04-24T12:00:00Z",
        Some("2026-04-17T10:00:00Z"),
    ),
    (
        "America/Havana",
        "0 12 * * 6",
        "1970-01-01T00:00:00Z",
        "2026-03-09T00:00:00Z",
        Some("2026-03-08T16:00:00Z"),
    ),
    // There is no slot within five years of 2096, so the sequence ends.
    (
        "",
        "0 0 29 2 *",
        "2090-01-01T00:00:00Z",
        "2150-01-01T00:00:00Z",
        Some("2096-02-29T00:00:00Z"),
    ),
    (
        "",
        "@every 7h",
        "2026-03-01T00:00:00.5Z",
        "2026-03-02T00:00:00Z",
        Some("2026-03-01T21:00:00Z"),
    ),
    (
        "",
        "@every 7h",
        "2026-03-01T00:00:00.5Z",
        "2026-03-01T06:59:59.9Z",
        None,
    ),
    (
        "",
        ", * * * *",
        "2026-03-01T00:00:00Z",
        "2036-03-01T00:00:00Z",
        None,
    ),
];

#[test]
fn latest_slot_is_the_last_before_the_sequence_ends() {
    for (zone, expression, after, now, expected) in LATEST {
        let found = mk_schedule(expression).latest(at(after), at(now), &mk_zone(zone));
        assert_eq!(found, expected.map(at), "{expression} {after} {now}");
    }
}

#[test]
fn counts_slots_up_to_the_limit() {
    let count = |expression: &str, now: &str| {
        let after = at("2026-03-01T00:00:00Z");
        mk_schedule(expression).count(after, at(now), &TimeZone::UTC)
    };
    assert_eq!(count("* * * * *", "2026-03-01T00:00:59Z"), 0);
    assert_eq!(count("* * * * *", "2026-03-01T00:01:00Z"), 1);
    assert_eq!(count("* * * * *", "2026-03-01T01:40:00Z"), 100);
    assert_eq!(
        count("* * * * *", "2026-03-01T01:41:00Z"),
        SLOTS_COUNTED_MAX
    );
    assert_eq!(
        count("* * * * *", "2226-03-01T01:41:00Z"),
        SLOTS_COUNTED_MAX
    );
    assert_eq!(count("0 0 29 2 *", "2226-03-01T00:00:00Z"), 18);
    assert_eq!(count("@every 1s", "2026-02-01T00:00:00Z"), 0);
}

#[test]
fn no_next_slot_at_the_end_of_time() {
    for expression in ["* * * * *", "0 0 1 1 *", "@every 2562047h"] {
        let schedule = mk_schedule(expression);
        for zone in ["", "America/New_York", "Pacific/Apia"].map(mk_zone) {
            assert_eq!(schedule.next(Timestamp::MAX, &zone), None, "{expression}");
            assert!(schedule.next(Timestamp::MIN, &zone).is_some());
            let latest = schedule.latest(Timestamp::MIN, Timestamp::MIN, &zone);
            assert_eq!(latest, None, "{expression}");
        }
    }
}
