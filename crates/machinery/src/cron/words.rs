//! A schedule in plain English, and the effects of daylight saving changes on it.
//!
//! [`CronSchedule::description`] describes the meaning of the fields, not their spelling: a list that equals a step is
//! described as a step, and the rule for the two day fields is spelled out. [`CronSchedule::clock_change_effects`]
//! examines the offset changes of the coming year and reports what a reader of the fields does not expect: times that
//! do not exist, times that occur twice, and the days that the search skips or adds (see `search`).

use std::fmt::Write as _;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::field::{CronFields, DAY, DayRecurrence, HOUR, MINUTE, NumberSet, WallTime};
use super::search;
use super::zone::ZoneTimeline;
use super::{CronSchedule, ScheduleKind, timestamp, whole_second};

/// Up to this number, times of day are listed one by one.
const TIMES_LISTED_MAX: u32 = 6;

/// Most slots that one effect lists; the rest is only counted.
const SLOTS_LISTED_MAX: usize = 3;

/// How many days ahead offset changes are examined, and at most how many. No zone has more changes in a year.
const AHEAD_DAYS: i64 = 366;
const CHANGES_MAX: usize = 4;

/// Distance in seconds within which an offset change can affect the search.
const AROUND: i64 = 3 * DAY;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// The effect of one offset change on a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClockChangeEffect {
    /// The instant of the offset change.
    pub at: Timestamp,
    /// One sentence for the user.
    pub text: String,
}

// === impl CronSchedule ===

impl CronSchedule {
    /// The schedule in plain English, without a full stop: `at 02:30 on Monday to Friday`.
    #[must_use]
    pub fn description(&self) -> String {
        let mut words = match &self.kind {
            ScheduleKind::Every(secs) => {
                let time = SignedDuration::from_secs(*secs);
                format!("every {time:#}, counted from the time before")
            }
            ScheduleKind::Fields(fields) => fields_in_words(fields),
        };
        if let Some(name) = self.zone().and_then(TimeZone::iana_name) {
            // Writing to a String cannot fail.
            let _ = write!(words, " ({name})");
        }
        words
    }

    /// The unexpected effects of the offset changes in the year after `from`.
    #[must_use]
    pub fn clock_change_effects(&self, from: Timestamp, zone: &TimeZone) -> Vec<ClockChangeEffect> {
        let ScheduleKind::Fields(fields) = &self.kind else {
            return Vec::new();
        };
        if fields.rhythm == DayRecurrence::Never {
            return Vec::new();
        }
        let timeline = self.timeline(zone);
        let from = whole_second(from);
        let until = from + AHEAD_DAYS * DAY;
        let soon = timeline.changes(from).take_while(|change| *change < until);
        let effects = soon.take(CHANGES_MAX).filter_map(|change| {
            Some(ClockChangeEffect {
                at: timestamp(change)?,
                text: effect_of(fields, &timeline, change)?,
            })
        });
        effects.collect()
    }
}

fn fields_in_words(fields: &CronFields) -> String {
    if matches!(
        fields.rhythm,
        DayRecurrence::Never | DayRecurrence::NoSuchDate
    ) {
        return "never: there is no such time".to_owned();
    }
    let times = times(fields);
    let days = days(fields);
    let months = months(fields);
    let leap = if fields.rhythm == DayRecurrence::LeapDays {
        ", in leap years only"
    } else {
        ""
    };
    let days = match days {
        Some(days) => format!(" {days}"),
        // "Every 15 minutes" needs no days, "at 02:30" does.
        None if times.starts_with("every") => String::new(),
        None => " every day".to_owned(),
    };
    format!("{times}{days}{months}{leap}")
}

fn times(fields: &CronFields) -> String {
    let (minute, hour) = (fields.minute, fields.hour);
    let minutes = match (minute.len(), step(minute, 60)) {
        (60, _) => "every minute".to_owned(),
        (_, Some(step)) => format!("every {step} minutes"),
        (1, _) => format!("at minute {}", list(minute, number)),
        _ => format!("at minutes {}", list(minute, number)),
    };
    let is_often = minutes.starts_with("every");
    if hour.len() == 24 {
        return match is_often {
            true => minutes,
            false => format!("every hour {minutes}"),
        };
    }
    if minute.len() * hour.len() <= TIMES_LISTED_MAX {
        let times = hour.values().flat_map(|hour| {
            let minutes = minute.values();
            minutes.map(move |minute| format!("{hour:02}:{minute:02}"))
        });
        return format!("at {}", joined(&times.collect::<Vec<_>>()));
    }
    match step(hour, 24) {
        Some(step) if is_often => format!("{minutes} of every {} hour from 0 on", ordinal(step)),
        Some(step) => format!("every {step} hours from 0 on {minutes}"),
        None if hour.len() == 1 => format!("{minutes} of hour {}", list(hour, number)),
        None => format!("{minutes} of the hours {}", list(hour, number)),
    }
}

/// The days, or `None` for every day.
fn days(fields: &CronFields) -> Option<String> {
    let (day, weekday) = (fields.day, fields.weekday);
    let either = !day.starred && !weekday.starred;
    let dates = (!day.is_empty() && day.len() < 31)
        .then(|| format!("on the {} of the month", list(day, ordinal)));
    let names = (!weekday.is_empty() && weekday.len() < 7)
        .then(|| list(weekday, |weekday| WEEKDAYS[usize::from(weekday)].to_owned()));
    if either && (day.len() == 31 || weekday.len() == 7) {
        return None;
    }
    match (dates, names) {
        (Some(dates), Some(names)) => Some(format!("{dates} and also on every {names}")),
        (Some(dates), None) => Some(dates),
        (None, Some(names)) => Some(format!("on {names}")),
        (None, None) => None,
    }
}

fn months(fields: &CronFields) -> String {
    if fields.month.len() == 12 {
        return String::new();
    }
    let name = |month| MONTHS[usize::from(month) - 1].to_owned();
    format!(" in {}", list(fields.month, name))
}

/// Describes the effect of the offset change at `change`; `None` if it has none.
fn effect_of(fields: &CronFields, timeline: &ZoneTimeline<'_>, change: i64) -> Option<String> {
    let (old, new) = (timeline.offset(change - 1), timeline.offset(change));
    let (from, to) = (change + old, change + new);
    // A change by whole hours does not affect a schedule that runs in every hour.
    let is_steady = fields.hour.len() == 24 && (new - old) % HOUR == 0;
    let mut effects = Vec::new();
    let shown = |wall: i64| clock(&WallTime::of_seconds(wall));
    if !is_steady {
        let between = matching_minutes(fields, from.min(to), from.max(to));
        let verb = if new > old {
            ["does not exist that day", "do not exist that day"]
        } else {
            ["comes twice", "come twice"]
        };
        effects.extend(listed(&between, verb, shown));
    }
    let (lost, added) = differences(fields, timeline, change);
    let dated = |at: i64| {
        let wall = timeline.wall(at);
        format!("{} {}", day(&wall), clock(&wall))
    };
    effects.extend(listed(&lost, ["is left out", "are left out"], dated));
    effects.extend(listed(
        &added,
        ["is a slot as well", "are slots as well"],
        dated,
    ));
    if effects.is_empty() {
        return None;
    }
    let direction = if new > old { "forward" } else { "back" };
    let date = day(&WallTime::of_seconds(from));
    Some(format!(
        "on {date} the clocks go {direction} from {} to {}: {}",
        shown(from),
        shown(to),
        effects.join("; ")
    ))
}

/// The wall-clock minutes from `from` on and before `until` that match the fields.
fn matching_minutes(fields: &CronFields, from: i64, until: i64) -> Vec<i64> {
    let next = |from: i64| fields.first(from, until, i64::MAX);
    std::iter::successors(next(from), |at| next(at + MINUTE)).collect()
}

/// Around an offset change: the matching minutes that are not slots, and the slots that do not match the fields.
fn differences(
    fields: &CronFields,
    timeline: &ZoneTimeline<'_>,
    change: i64,
) -> (Vec<i64>, Vec<i64>) {
    let (from, until) = (change - AROUND, change + AROUND);
    let collect = |next: &dyn Fn(i64) -> Option<i64>| -> Vec<i64> {
        let all = std::iter::successors(next(from), |at| next(*at));
        all.take_while(|at| *at < until).collect()
    };
    let named = collect(&|at| search::named_next(fields, timeline, at + 1));
    let slots = collect(&|at| search::next(fields, timeline, at));
    let without = |all: &[i64], others: &[i64]| -> Vec<i64> {
        let missing = all.iter().filter(|at| others.binary_search(at).is_err());
        missing.copied().collect()
    };
    (without(&named, &slots), without(&slots, &named))
}

/// The first few of these times with a verb in singular or plural; `None` without times.
fn listed(times: &[i64], verb: [&str; 2], show: impl Fn(i64) -> String) -> Option<String> {
    let mut names: Vec<String> = times
        .iter()
        .take(SLOTS_LISTED_MAX)
        .map(|at| show(*at))
        .collect();
    let more = times.len() - names.len();
    if more > 0 {
        names.push(format!("{more} more"));
    }
    match names.as_slice() {
        [] => None,
        [one] => Some(format!("{one} {}", verb[0])),
        several => Some(format!("{} {}", joined(several), verb[1])),
    }
}

fn day(wall: &WallTime) -> String {
    let date = &wall.date;
    format!("{:04}-{:02}-{:02}", date.year, date.month, date.day)
}

fn clock(wall: &WallTime) -> String {
    format!("{:02}:{:02}", wall.hour, wall.minute)
}

/// The step from 0 that produces this set, if there is one that divides the field evenly.
fn step(set: NumberSet, size: u8) -> Option<u8> {
    let step = set.at_or_after(1)?;
    let is_even = size.is_multiple_of(step) && step > 1;
    let plain = NumberSet::steps(0, size - 1, u64::from(step));
    (is_even && set.values().eq(plain.values())).then_some(step)
}

/// The values of a set; three or more consecutive ones as a range.
fn list(set: NumberSet, name: impl Fn(u8) -> String) -> String {
    let mut parts = Vec::new();
    let mut at = set.at_or_after(0);
    while let Some(first) = at {
        let mut last = first;
        while last < 63 && set.has(last + 1) {
            last += 1;
        }
        if last - first < 2 {
            parts.extend((first..=last).map(&name));
        } else {
            parts.push(format!("{} to {}", name(first), name(last)));
        }
        at = set.at_or_after(last + 1);
    }
    joined(&parts)
}

fn joined(parts: &[String]) -> String {
    match parts {
        [rest @ .., last] if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => parts.concat(),
    }
}

fn number(value: u8) -> String {
    value.to_string()
}

fn ordinal(value: u8) -> String {
    let ending = match (value % 10, value) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{value}{ending}")
}
