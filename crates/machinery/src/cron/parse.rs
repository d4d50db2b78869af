//! The text of a schedule: the grammar of robfig/cron 3.0.1 (`ParseStandard`), to the letter.
//!
//! What is accepted is what Kubernetes and Volcano accept, oddities included: empty items of a list count as nothing, what
//! follows the hyphen of `*-5` is ignored, every number may have a plus. The messages are our own: they name the field, what
//! is wrong with it and what is allowed, and know where in the text it stands. The first fault from the left is told.

use std::ops::Range;

use jiff::tz::TimeZone;

use super::field::{Fields, Set};
use super::zone::{self, quoted};
use super::{Kind, Schedule};

/// Longest schedule in bytes. The longest sensible one, all minutes in a list, has not even 200.
///
/// DEVIATION(schedule-length): upstream is only bounded by the size of an object, and would read a mebibyte of commas again
/// at every look.
pub const SCHEDULE_BYTES_MAX: usize = 16 * 1024;

/// Shortest `@every`, in seconds. What is shorter, or negative, is made this long.
const EVERY_SECS_MIN: i64 = 1;

/// What every expression needs.
const FIVE: &str = "five are needed: minute, hour, day of month, month, day of week";

/// What begins an expression that names its zone.
const ZONE_PREFIXES: [&str; 2] = ["TZ=", "CRON_TZ="];

/// Words for whole schedules.
const DESCRIPTORS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// The word for a schedule without fields, with its one blank.
const EVERY: &str = "@every ";

/// Why a text is not a schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ParseError {
    span: Range<usize>,
    message: String,
}

/// What one of the five fields may hold.
struct Allowed {
    name: &'static str,
    first: u8,
    last: u8,
    /// Names of the values from `first` on, if they have any.
    names: &'static [&'static str],
}

const ALLOWED: [Allowed; 5] = [
    Allowed::numbers("minute", 0, 59),
    Allowed::numbers("hour", 0, 23),
    Allowed::numbers("day of month", 1, 31),
    Allowed {
        names: &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
        ..Allowed::numbers("month", 1, 12)
    },
    Allowed {
        names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
        ..Allowed::numbers("day of week", 0, 6)
    },
];

/// Reads a schedule.
pub(super) fn parse(text: &str) -> Result<Schedule, ParseError> {
    let whole = |message: String| ParseError {
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
        Kind::Fields(fields(text, rest)?)
    };
    Ok(Schedule {
        text: text.to_owned(),
        kind,
        zone,
    })
}

/// The zone that the expression begins with, if there is one, and what follows it.
fn take_zone(text: &str) -> Result<(Option<TimeZone>, &str), ParseError> {
    let prefix = ZONE_PREFIXES
        .iter()
        .find_map(|prefix| text.strip_prefix(prefix));
    let Some(rest) = prefix else {
        return Ok((None, text));
    };
    // A real blank, not just any white space: robfig/cron panics without one.
    let Some((name, rest)) = rest.split_once(' ') else {
        let message = format!(
            "after the time zone {} a blank and a schedule are needed",
            quoted(rest)
        );
        return Err(ParseError::at(text, rest, message));
    };
    let zone = match name {
        "" => TimeZone::UTC,
        name => zone::find(name).map_err(|error| ParseError::at(text, name, error.to_string()))?,
    };
    Ok((Some(zone), rest.trim()))
}

fn descriptor(text: &str, rest: &str) -> Result<Kind, ParseError> {
    if let Some(duration) = rest.strip_prefix(EVERY) {
        let Some(nanos) = go_duration(duration) else {
            let message = format!(
                "{} is not a duration; numbers with the units h, m, s, ms, us or ns are needed, like 90s or 1h30m",
                quoted(duration)
            );
            return Err(ParseError::at(text, duration, message));
        };
        return Ok(Kind::Every((nanos / 1_000_000_000).max(EVERY_SECS_MIN)));
    }
    let known = DESCRIPTORS.iter().find(|(name, _)| *name == rest);
    let Some((_, meaning)) = known else {
        let names = DESCRIPTORS.map(|(name, _)| name).join(", ");
        let message = format!(
            "{} is not known; allowed are {names} and @every with a duration, in small letters",
            quoted(rest)
        );
        return Err(ParseError::at(text, rest, message));
    };
    Ok(Kind::Fields(fields(meaning, meaning)?))
}

fn fields(text: &str, rest: &str) -> Result<Fields, ParseError> {
    let found: Vec<&str> = rest.split_whitespace().collect();
    let Ok(found) = <[&str; 5]>::try_from(found.as_slice()) else {
        let message = match found.len() {
            0 => format!("the schedule has no fields; {FIVE}"),
            1 => format!("the schedule has 1 field; {FIVE}"),
            count => format!("the schedule has {count} fields; {FIVE}"),
        };
        return Err(ParseError::at(text, rest, message));
    };
    let mut sets = [Set::default(); 5];
    for ((field, allowed), set) in found.iter().zip(&ALLOWED).zip(&mut sets) {
        for item in field.split(',').filter(|item| !item.is_empty()) {
            let read = allowed.item(item);
            set.join(read.map_err(|(part, problem)| {
                ParseError::at(text, part, allowed.complaint(item, &problem))
            })?);
        }
    }
    Ok(Fields::new(sets))
}

// === impl ParseError ===

impl ParseError {
    /// Which bytes of the text are meant.
    #[must_use]
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// `part` is a piece of `text`.
    fn at(text: &str, part: &str, message: String) -> Self {
        let start = part.as_ptr().addr() - text.as_ptr().addr();
        Self {
            span: start..start + part.len(),
            message,
        }
    }
}

// === impl Allowed ===

impl Allowed {
    const fn numbers(name: &'static str, first: u8, last: u8) -> Self {
        Self {
            name,
            first,
            last,
            names: &[],
        }
    }

    /// One item of the list that a field is: what it names, or the part that is wrong and why.
    fn item<'t>(&self, item: &'t str) -> Result<Set, (&'t str, String)> {
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
                // `5/15` begins at 5 and has no end of its own.
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
            return Err((item, "a step of 0 leads nowhere".to_owned()));
        }
        // Both are within the field now, which ends below 64.
        let mut set = Set::steps(first as u8, last as u8, every);
        set.starred = is_star && every == 1;
        Ok(set)
    }

    /// A number, or the name of one.
    fn value<'t>(&self, text: &'t str) -> Result<u64, (&'t str, String)> {
        let is_text = |name: &&str| folded(text).eq(name.chars());
        match self.names.iter().position(is_text) {
            Some(position) => Ok(u64::from(self.first) + position as u64),
            None => number(text),
        }
    }

    /// What is wrong with an item of this field, and what is allowed instead.
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

/// A number as Go's `Atoi` reads it, but none below zero.
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

/// Small letters as Go's `ToLower` has them, as far as a name of a month or a day can come of it.
fn folded(text: &str) -> impl Iterator<Item = char> {
    text.chars().map(|letter| match letter {
        // The dotted capital of Turkish: FR\u{130} is a Friday.
        '\u{130}' => 'i',
        other => other.to_ascii_lowercase(),
    })
}

/// A duration in nanoseconds as Go's `ParseDuration` reads it, its rounding and its limits included.
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

/// `0.digits` of a unit. Digits beyond what 63 bits hold count as nothing.
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
        // Both signs that look like this: micro and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}
