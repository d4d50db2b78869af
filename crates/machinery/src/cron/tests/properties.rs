//! Properties of arbitrary expressions, zones and times.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::Instant;

use jiff::civil::DateTime;
use jiff::tz::TimeZoneDatabase;
use jiff::{SignedDuration, ToSpan as _};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::*;

/// A schedule as sets, and its text.
#[derive(Debug, Clone)]
struct Sketch {
    text: String,
    /// `None` is a star.
    sets: Vec<Option<BTreeSet<i8>>>,
}

const RANGES: [(i8, i8); 5] = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];

/// Zones with unusual offset changes.
const ODD_ZONES: [&str; 12] = [
    "Africa/Cairo",
    "America/Asuncion",
    "America/Havana",
    "America/St_Johns",
    "Asia/Beirut",
    "Asia/Damascus",
    "Atlantic/Azores",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Pacific/Apia",
    "Pacific/Chatham",
    "America/New_York",
];

// === impl Sketch ===

impl Sketch {
    fn new(sets: Vec<Option<BTreeSet<i8>>>) -> Self {
        let fields = sets.iter().map(|set| match set {
            None => "*".to_owned(),
            Some(set) => {
                let numbers: Vec<String> = set.iter().map(ToString::to_string).collect();
                numbers.join(",")
            }
        });
        let fields: Vec<String> = fields.collect();
        Self {
            text: fields.join(" "),
            sets,
        }
    }

    /// Whether the schedule matches a wall-clock time. A reference implementation of the documented rule.
    fn names(&self, shown: DateTime) -> bool {
        let weekday = shown.weekday().to_sunday_zero_offset();
        let values = [
            shown.minute(),
            shown.hour(),
            shown.day(),
            shown.month(),
            weekday,
        ];
        let has = |field: usize| {
            let set = self.sets[field].as_ref();
            set.is_none_or(|set| set.contains(&values[field]))
        };
        let either = self.sets[2].is_some() && self.sets[4].is_some();
        let day = if either {
            has(2) || has(4)
        } else {
            has(2) && has(4)
        };
        shown.second() == 0 && has(0) && has(1) && has(3) && day
    }
}

fn a_sketch(stars: f64) -> impl Strategy<Value = Sketch> {
    let field = move |(first, last): (i8, i8)| {
        let values: Vec<i8> = (first..=last).collect();
        let some = subsequence(values, 1..=4).prop_map(|set| set.into_iter().collect());
        prop::option::weighted(1.0 - stars, some)
    };
    RANGES.map(field).to_vec().prop_map(Sketch::new)
}

fn any_zone() -> impl Strategy<Value = TimeZone> {
    let database = TimeZoneDatabase::bundled();
    let names: Vec<String> = database.available().map(|name| name.to_string()).collect();
    let names = names.into_iter().filter(|name| zone::find(name).is_ok());
    let names: Vec<String> = names.collect();
    let odd = select(&ODD_ZONES[..]).prop_map(mk_zone);
    prop_oneof![odd, select(names).prop_map(|name| mk_zone(&name))]
}

fn a_time(first: &str, last: &str) -> impl Strategy<Value = Timestamp> {
    let (first, last) = (at(first).as_second(), at(last).as_second());
    let nanos = prop_oneof![Just(0), 0..1_000_000_000_i32];
    (first..last, nanos).prop_map(|(secs, nanos)| Timestamp::new(secs, nanos).unwrap())
}

/// A time near the next offset change after `time`, if there is one.
fn near_change(zone: &TimeZone, time: Timestamp, hours: i64) -> Timestamp {
    let change = zone.following(time).next();
    let change = change.map_or(time, |change| change.timestamp());
    change.saturating_add(hours.hours()).unwrap()
}

/// Whether the offset changes between these two times in a way that affects a search: not by whole hours, not on the hour,
/// or within an hour of midnight. The recorded samples cover these cases.
fn is_misleading(zone: &TimeZone, from: Timestamp, until: Timestamp) -> bool {
    let changes = zone.following(from);
    let mut changes = changes.take_while(|change| change.timestamp() <= until);
    changes.any(|change| {
        let instant = change.timestamp();
        let before = zone.to_offset(instant - SignedDuration::from_secs(1));
        let ends = [before, change.offset()].map(|offset| offset.to_datetime(instant));
        let by = change.offset().seconds() - before.seconds();
        let is_odd = |end: &DateTime| end.minute() != 0 || end.hour() == 0 || end.hour() == 23;
        by % 3_600 != 0 || ends.iter().any(is_odd)
    })
}

proptest! {
    #[test]
    fn search_equals_checking_every_minute(
        sketch in prop_oneof![a_sketch(0.5), a_sketch(0.8)],
        zone in any_zone(),
        time in a_time("2000-01-01T00:00:00Z", "2100-01-01T00:00:00Z"),
        near in prop::option::of(-60..30_i64),
    ) {
        let days = |days: i64| SignedDuration::from_hours(24 * days);
        let after = near.map_or(time, |hours| near_change(&zone, time, hours));
        let until = after + days(6);
        // A search starts with the current month, and a change affects it for two days.
        if is_misleading(&zone, after - days(33), until + days(2)) {
            return Ok(());
        }
        let schedule = mk_schedule(&sketch.text);
        let first = after.as_second().div_euclid(60) + 1;
        let minutes = (first..=until.as_second() / 60).map(|minute| Timestamp::from_second(minute * 60).unwrap());
        let expected: Vec<Timestamp> = minutes.filter(|minute| sketch.names(zone.to_datetime(*minute))).collect();
        let found: Vec<Timestamp> = schedule.slots(after, &zone).take_while(|slot| *slot <= until).collect();
        prop_assert_eq!(found, expected, "{} {:?} {}", sketch.text, zone, after);
    }

    #[test]
    fn latest_equals_the_last_of_an_iteration(
        sketch in prop_oneof![a_sketch(0.3), a_sketch(0.6)],
        zone in any_zone(),
        after in a_time("1930-01-01T00:00:00Z", "2110-01-01T00:00:00Z"),
        days in prop_oneof![0..30_i64, 0..2_000_i64],
        near in prop::option::of(-60..60_i64),
    ) {
        let schedule = mk_schedule(&sketch.text);
        let later = after + SignedDuration::from_hours(24 * days);
        let now = near.map_or(later, |hours| near_change(&zone, later, hours));
        let due = schedule.slots(after, &zone).take_while(|slot| *slot <= now);
        // Enough slots to pass many offset changes, few enough to iterate.
        let due: Vec<Timestamp> = due.take(20_000).collect();
        let now = if due.len() == 20_000 { due[19_999] } else { now };
        let latest = schedule.latest(after, now, &zone);
        prop_assert_eq!(latest, due.last().copied(), "{} {:?} {} {}", sketch.text, zone, after, now);
        let count = schedule.count(after, now, &zone);
        prop_assert_eq!(count, due.len().min(SLOTS_COUNTED_MAX));
    }

    #[test]
    fn slots_increase_and_stay_within_five_years(
        sketch in a_sketch(0.3),
        zone in any_zone(),
        time in a_time("-009999-01-03T00:00:00Z", "9999-12-30T00:00:00Z"),
        near in prop::option::of(-60..60_i64),
    ) {
        let after = near.map_or(time, |hours| near_change(&zone, time, hours));
        let mut before = after;
        for slot in mk_schedule(&sketch.text).slots(after, &zone).take(5) {
            prop_assert!(slot > before && slot.subsec_nanosecond() == 0);
            let year = |time| zone.to_datetime(time).year();
            prop_assert!(year(slot) <= year(before + SignedDuration::from_secs(1)) + 5);
            before = slot;
        }
    }

    #[test]
    fn parser_never_panics_and_spans_are_valid(
        text in prop_oneof![
            any::<String>(),
            "(TZ=|CRON_TZ=)?[A-Za-z/_]{0,12} ?[-0-9*?/,@a-zA-Z ]{0,30}",
            "@every [-+0-9.a-zµ]{0,20}",
            "([-0-9*?/,]{1,6} ){4}[-0-9*?/,a-z]{1,6}",
        ],
    ) {
        match CronSchedule::parse(&text) {
            Ok(schedule) => {
                let next = schedule.next(Timestamp::UNIX_EPOCH, &TimeZone::UTC);
                prop_assert!(next.is_none_or(|next| next > Timestamp::UNIX_EPOCH));
                prop_assert!(!schedule.description().is_empty());
            }
            Err(error) => prop_assert!(text.get(error.span()).is_some(), "{error}"),
        }
    }
}

#[test]
#[ignore = "prints how long the slowest searches take; run it with --release --nocapture"]
#[expect(clippy::disallowed_methods, reason = "it measures")]
fn measures_the_slowest_searches() {
    let year_one = "0001-01-01T00:00:00Z";
    for (zone, expression, after) in [
        ("UTC", "* * * * *", "2026-01-01T00:00:00Z"),
        ("America/New_York", "* * * * *", "2026-01-01T00:00:00Z"),
        ("America/New_York", "0 0 29 2 *", "2096-03-01T00:00:00Z"),
        (
            "America/New_York",
            "0 0 31 2,4,6,9,11 *",
            "2126-03-01T00:00:00Z",
        ),
        ("Pacific/Apia", "0 0 1 * *", "2011-12-29T12:00:00Z"),
        ("America/New_York", "* * * * *", year_one),
        ("Australia/Sydney", "* * 31 * *", year_one),
        ("America/New_York", "* * * 1-11 *", year_one),
    ] {
        let (schedule, zone) = (mk_schedule(expression), mk_zone(zone));
        let (after, now) = (at(after), at("2100-01-01T00:00:00Z"));
        let micros = |work: &dyn Fn()| {
            let rounds = 100;
            let begin = Instant::now();
            (0..rounds).for_each(|_| work());
            begin.elapsed().as_secs_f64() * 1e6 / f64::from(rounds)
        };
        let next = micros(&|| {
            black_box(schedule.next(after, &zone));
        });
        let latest = micros(&|| {
            black_box(schedule.latest(after, now, &zone));
        });
        assert!(schedule.latest(after, now, &zone) <= Some(now));
        println!("{expression:<22} {after}: next {next:.1} µs, latest {latest:.1} µs");
    }
}
