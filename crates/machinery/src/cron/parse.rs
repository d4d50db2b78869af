//! Parser for the text of a schedule. The grammar is exactly that of robfig/cron 3.0.1 (`ParseStandard`).
//!
//! It accepts what Kubernetes and Volcano accept, oddities included: empty list elements are skipped, the part after the
//! hyphen of `*-5` is ignored, and every number may have a plus sign. The messages are our own: they name the field, the
//! problem and the allowed values, and carry the position in the text. Only the leftmost error is reported.

use std::ops::Range;

use jiff::tz::TimeZone;

use super::field::{CronFields, NumberSet};
use super::zone::{self, quoted};
use super::{CronSchedule, ScheduleKind};

/// Longest schedule in bytes. The longest sensible one, a list of all minutes, has fewer than 200.
///
/// DEVIATION(schedule-length): upstream is bounded only by the size of an object, and would parse a mebibyte of commas at
/// every reconcile.
pub const SCHEDULE_BYTES_MAX: usize = 16 * 1024;

/// Shortest `@every`, in seconds. Shorter and negative durations are raised to it.
const EVERY_SECS_MIN: i64 = 1;

/// Ends the messages about a wrong number of fields.
const FIVE: &str = "five are needed: minute, hour, day of month, month, day of week";

/// Prefixes of an expression that names its time zone.
const ZONE_PREFIXES: [&str; 2] = ["TZ=", "CRON_TZ="];

/// Descriptors and the five fields they stand for.
const DESCRIPTORS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// Prefix of a schedule with a fixed interval, including its one blank.
const EVERY: &str = "@every ";

/// A text is not a valid schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CronParseError {
    span: Range<usize>,
    message: String,
}

/// The values that one of the five fields accepts.
struct FieldRange {
    name: &'static str,
    first: u8,
    last: u8,
    /// Names of the values, starting with `first`; empty if they have none.
    names: &'static [&'static str],
}

const ALLOWED: [FieldRange; 5] = [
    FieldRange::numbers("minute", 0, 59),
    FieldRange::numbers("hour", 0, 23),
    FieldRange::numbers("day of month", 1, 31),
    FieldRange {
        names: &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
        ..FieldRange::numbers("month", 1, 12)
    },
    FieldRange {
        names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
        ..FieldRange::numbers("day of week", 0, 6)
    },
];

/// Parses a schedule; see [`CronSchedule::parse`].
pub(super) fn parse(text: &str) -> Result<CronSchedule, CronParseError> {
    let whole = |message: String| CronParseError {
        span: 0..text.len(),
        message,
    };
    if text.len() > SCHEDULE_BYTES_MAX {
        let long = text.len();
        return Err(whole(format!(
            "the schedule has {long} bytes, at most {SCHEDULE_BYTES_MAX} are accepted"
        )));
    }
    if text.is_empty() {
        return Err(whole(format!("the schedule has no fields; {FIVE}")));
    }
    let (zone, rest) = take_zone(text)?;
    let kind = if rest.starts_with('@') {
        descriptor(text, rest)?
    } else {
        ScheduleKind::Fields(fields(text, rest)?)
    };
    Ok(CronSchedule {
        text: text.to_owned(),
        kind,
        zone,
    })
}

/// Splits a leading time zone off the expression.
fn take_zone(text: &str) -> Result<(Option<TimeZone>, &str), CronParseError> {
    let prefix = ZONE_PREFIXES
        .iter()
        .find_map(|prefix| text.strip_prefix(prefix));
    let Some(rest) = prefix else {
        return Ok((None, text));
    };
    // A space, not other white space: robfig/cron panics without one.
    let Some((name, rest)) = rest.split_once(' ') else {
        let message = format!(
            "after the time zone {} a blank and a schedule are needed",
            quoted(rest)
        );
        return Err(CronParseError::at(text, rest, message));
    };
    let zone = match name {
        "" => TimeZone::UTC,
        name => {
            zone::find(name).map_err(|error| CronParseError::at(text, name, error.to_string()))?
        }
    };
    Ok((Some(zone), rest.trim()))
}

fn descriptor(text: &str, rest: &str) -> Result<ScheduleKind, CronParseError> {
    if let Some(duration) = rest.strip_prefix(EVERY) {
        let Some(nanos) = go_duration(duration) else {
            let message = format!(
                "{} is not a duration; numbers with the units h, m, s, ms, us or ns are needed, like 90s or 1h30m",
                quoted(duration)
            );
            return Err(CronParseError::at(text, duration, message));
        };
        return Ok(ScheduleKind::Every(
            (nanos / 1_000_000_000).max(EVERY_SECS_MIN),
        ));
    }
    let known = DESCRIPTORS.iter().find(|(name, _)| *name == rest);
    let Some((_, meaning)) = known else {
        let names = DESCRIPTORS.map(|(name, _)| name).join(", ");
        let message = format!(
            "{} is not known; allowed are {names} and @every with a duration, in small letters",
            quoted(rest)
        );
        return Err(CronParseError::at(text, rest, message));
    };
    Ok(ScheduleKind::Fields(fields(meaning, meaning)?))
}

fn fields(text: &str, rest: &str) -> Result<CronFields, CronParseError> {
    let found: Vec<&str> = rest.split_whitespace().collect();
    let Ok(found) = <[&str; 5]>::try_from(found.as_slice()) else {
        let message = match found.len() {
            0 => format!("the schedule has no fields; {FIVE}"),
            1 => format!("the schedule has 1 field; {FIVE}"),
            count => format!("the schedule has {count} fields; {FIVE}"),
        };
        return Err(CronParseError::at(text, rest, message));
    };
    let mut sets = [NumberSet::default(); 5];
    for ((field, allowed), set) in found.iter().zip(&ALLOWED).zip(&mut sets) {
        for item in field.split(',').filter(|item| !item.is_empty()) {
            let read = allowed.item(item);
            set.join(read.map_err(|(part, problem)| {
                CronParseError::at(text, part, allowed.complaint(item, &problem))
            })?);
        }
    }
    Ok(CronFields::new(sets))
}

// === impl CronParseError ===

impl CronParseError {
    /// The byte range of the text that the error is about.
    #[must_use]
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// `part` must be a subslice of `text`.
    fn at(text: &str, part: &str, message: String) -> Self {
        let start = part.as_ptr().addr() - text.as_ptr().addr();
        Self {
            span: start..start + part.len(),
            message,
        }
    }
}

// === impl FieldRange ===

impl FieldRange {
    const fn numbers(name: &'static str, first: u8, last: u8) -> Self {
        Self {
            name,
            first,
            last,
            names: &[],
        }
    }

    /// Parses one element of a field. An error holds the wrong part of the text and the problem.
    fn item<'t>(&self, item: &'t str) -> Result<NumberSet, (&'t str, String)> {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (item, None),
        };
        let (low, high) = match range.split_once('-') {
            Some((low, high)) => (low, Some(high)),
            None => (range, None),
        };
        let is_star = low == "*" || low == "?";
        let (first, last) = if is_star {
            (u64::from(self.first), u64::from(self.last))
        } else {
            let first = self.value(low)?;
            match high {
                Some(high) if high.contains('-') => {
                    return Err((range, "a range has one hyphen".to_owned()));
                }
                Some(high) => (first, self.value(high)?),
                // `5/15` begins at 5 and extends to the end of the field.
                None if step.is_some() => (first, u64::from(self.last)),
                None => (first, first),
            }
        };
        let every = match step {
            Some(step) if step.contains('/') => {
                return Err((item, "a step has one slash".to_owned()));
            }
            Some(step) => number(step)?,
            None => 1,
        };
        let beyond = |part, value: u64| {
            let hint = match (self.names.len(), value) {
                (7, 7) => " (Sunday is 0)",
                _ => "",
            };
            Err((part, format!("{value} is above {}{hint}", self.last)))
        };
        if first < u64::from(self.first) {
            return Err((low, format!("{first} is below {}", self.first)));
        }
        if first > u64::from(self.last) {
            return beyond(low, first);
        }
        if last > u64::from(self.last) {
            return beyond(high.unwrap_or(low), last);
        }
        if first > last {
            let problem =
                format!("a range cannot end before it begins, as {first} to {last} would");
            return Err((range, problem));
        }
        if every == 0 {
            return Err((item, "a step must not be 0".to_owned()));
        }
        // Both are within the field here, and every field ends below 64.
        let mut set = NumberSet::steps(first as u8, last as u8, every);
        set.starred = is_star && every == 1;
        Ok(set)
    }

    /// Parses a number or the name of a month or day.
    fn value<'t>(&self, text: &'t str) -> Result<u64, (&'t str, String)> {
        let is_text = |name: &&str| folded(text).eq(name.chars());
        match self.names.iter().position(is_text) {
            Some(position) => Ok(u64::from(self.first) + position as u64),
            None => number(text),
        }
    }

    /// The message for a wrong element of this field.
    fn complaint(&self, item: &str, problem: &str) -> String {
        let Self {
            name, first, last, ..
        } = self;
        let names = match self.names {
            [first, .., last] => format!(" or {first} to {last}"),
            _ => String::new(),
        };
        format!(
            "{name} {}: {problem}; allowed are {first} to {last}{names}, *, ranges like {first}-{last}, \
             steps like */2, and lists of these with commas",
            quoted(item)
        )
    }
}

/// Parses a number as Go's `Atoi` does; negative numbers are an error.
fn number(text: &str) -> Result<u64, (&str, String)> {
    let read: Result<i64, _> = text.parse();
    let problem = match read.map(u64::try_from) {
        Ok(Ok(number)) => return Ok(number),
        Ok(Err(_)) => "is negative",
        Err(_) if text.is_empty() => return Err((text, "a number is missing".to_owned())),
        Err(_) => "is not a number that can be used here",
    };
    Err((text, format!("{} {problem}", quoted(text))))
}

/// Lower-cases like Go's `ToLower`, as far as the names of months and days need it.
fn folded(text: &str) -> impl Iterator<Item = char> {
    text.chars().map(|letter| match letter {
        // The Turkish dotted capital I: Go reads FR\u{130} as FRI.
        '\u{130}' => 'i',
        other => other.to_ascii_lowercase(),
    })
}

/// Parses a duration in nanoseconds as Go's `ParseDuration` does, with the same rounding and limits.
fn go_duration(text: &str) -> Option<i64> {
    const LIMIT: u64 = 1 << 63;
    let (is_negative, mut rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut sum: u64 = 0;
    while !rest.is_empty() {
        let (whole, fraction, unit);
        (whole, rest) = split_digits(rest);
        (fraction, rest) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        (unit, rest) = rest.split_at(
            rest.find(|c: char| c == '.' || c.is_ascii_digit())
                .unwrap_or(rest.len()),
        );
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let nanos = unit_nanos(unit)?;
        let whole: u64 = if whole.is_empty() {
            0
        } else {
            whole.parse().ok()?
        };
        let mut value = whole.checked_mul(nanos).filter(|value| *value <= LIMIT)?;
        value += fraction_of(nanos, fraction);
        if value > LIMIT {
            return None;
        }
        sum = sum.wrapping_add(value);
        if sum > LIMIT {
            return None;
        }
    }
    if is_negative {
        return Some(0_i64.wrapping_sub_unsigned(sum));
    }
    i64::try_from(sum).ok()
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

/// `0.digits` of a unit. Digits beyond 63 bits are ignored.
fn fraction_of(nanos: u64, digits: &str) -> u64 {
    let (mut value, mut scale) = (0_u64, 1.0_f64);
    for digit in digits.bytes() {
        let longer = value.checked_mul(10);
        let longer = longer.and_then(|longer| longer.checked_add(u64::from(digit - b'0')));
        let Some(longer) = longer.filter(|longer| *longer <= 1 << 63) else {
            break;
        };
        (value, scale) = (longer, scale * 10.0);
    }
    (value as f64 * (nanos as f64 / scale)) as u64
}

fn unit_nanos(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // The micro sign and the Greek letter mu.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}
