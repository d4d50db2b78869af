//! `caretaker schedule`: when a schedule is due (`next`), when CronJobs are ([`list`]), and one run of one now ([`run`]).
//!
//! `next` is here, a pure function of the command line and the time: what to print, and what to say beside it. The engine is
//! `machinery::cron`, the same that decides about CronJobs. The other two ask a [`cluster`].

mod cluster;
mod list;
mod run;

use std::fmt::Write as _;

use anyhow::{Result, anyhow};
use caretaker_machinery::cron::{ParseError, Schedule};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

pub(super) use self::list::list;
pub(super) use self::run::run;

use crate::args::{Listing, ScheduleNext};

/// Columns of the table. The last one is often empty.
const HEADINGS: [&str; 5] = ["SLOT", "DAY", "OFFSET", "FROM NOW", "NOTE"];

/// What a command has to say.
#[derive(Debug)]
pub(super) struct Answer {
    /// For stdout.
    pub(super) text: String,
    /// For stderr.
    pub(super) note: Option<String>,
}

/// The next slots as they are to be printed.
pub(super) fn next(args: &ScheduleNext, now: Timestamp) -> Result<Answer> {
    let text = args.expression.as_str();
    let schedule = Schedule::parse(text).map_err(|error| anyhow!(pointed(text, &error)))?;
    let given = args.time_zone.clone().unwrap_or(TimeZone::UTC);
    let zone = schedule.zone().unwrap_or(&given);
    let note = match (schedule.zone(), &args.time_zone) {
        (Some(zone), Some(other)) if zone != other => Some(format!(
            "the schedule itself names {}, so --time-zone {} does not count",
            name(zone),
            name(other)
        )),
        _ => None,
    };
    let after = args.after.unwrap_or(now);
    let slots = schedule.slots(after, zone).take(args.count.into());
    let slots: Vec<Timestamp> = slots.collect();
    let text = match args.output {
        Listing::Table => table(&schedule, zone, after, &slots, now),
        Listing::Json => {
            let next: Vec<String> = slots.iter().map(|slot| rfc3339(*slot, zone)).collect();
            // By hand, because the order of the members is part of the form.
            format!(
                "{{\"schedule\":{},\"timeZone\":{},\"next\":{}}}\n",
                json!(schedule.text()),
                json!(name(zone)),
                json!(next)
            )
        }
    };
    Ok(Answer { text, note })
}

/// What is wrong with an expression, with a line that points at it if it fits on one.
fn pointed(text: &str, error: &ParseError) -> String {
    let (span, mut message) = (error.span(), error.to_string());
    let fits = text.len() <= 100 && !text.contains(char::is_control);
    if fits && let (Some(before), Some(part)) = (text.get(..span.start), text.get(span)) {
        let indent = before.chars().count();
        let marks = part.chars().count().max(1);
        // Writing to a String cannot fail.
        let _ = write!(message, "\n  {text}\n  {:indent$}{:^<marks$}", "", "");
    }
    message
}

fn table(
    schedule: &Schedule,
    zone: &TimeZone,
    after: Timestamp,
    slots: &[Timestamp],
    now: Timestamp,
) -> String {
    let mut words = schedule.words();
    if schedule.zone().is_none() {
        let _ = write!(words, " ({})", name(zone));
    }
    let mut text = format!("{}\n\n", capitalised(&words));
    if slots.is_empty() {
        return text + "No slot until the end of the fifth year after.\n";
    }
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    let mut before = after;
    for slot in slots {
        let shown = slot.to_zoned(zone.clone());
        rows.push([
            shown.strftime("%Y-%m-%d %H:%M:%S").to_string(),
            shown.strftime("%a").to_string(),
            shown.strftime("%:z").to_string(),
            from_now(slot.duration_since(now)),
            change(zone, before, *slot),
        ]);
        before = *slot;
    }
    text += &aligned(&rows);
    let surprises = schedule.surprises(after, zone);
    if !surprises.is_empty() {
        text.push('\n');
    }
    for surprise in surprises {
        let _ = writeln!(text, "{}.", capitalised(&surprise.text));
    }
    text
}

/// Rows in columns, with two blanks between them.
fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |cell: &String| cell.chars().count();
    let mut widths = [0; N];
    for row in rows {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = width(cell).max(*widest);
        }
    }
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths);
        let line: String = cells
            .map(|(cell, width)| format!("{cell:<width$}  "))
            .collect();
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// What happened to the clocks between two slots.
fn change(zone: &TimeZone, before: Timestamp, slot: Timestamp) -> String {
    let by = zone.to_offset(slot).duration_since(zone.to_offset(before));
    let amount = by.abs();
    let is_again = zone.to_datetime(slot) == zone.to_datetime(before);
    match by.signum() {
        1 => format!("clocks went forward {amount:#}"),
        -1 if is_again => format!("the same time again, clocks went back {amount:#}"),
        -1 => format!("clocks went back {amount:#}"),
        _ => String::new(),
    }
}

/// As flags and tables have it.
pub(super) fn name(zone: &TimeZone) -> &str {
    zone.iana_name().unwrap_or("UTC")
}

/// As Go writes it: `Z` where the clocks show Greenwich's time.
fn rfc3339(slot: Timestamp, zone: &TimeZone) -> String {
    let offset = zone.to_offset(slot);
    if offset == Offset::UTC {
        return slot.to_string();
    }
    slot.display_with_offset(offset).to_string()
}

/// The two largest units are enough for somebody who waits.
fn from_now(left: SignedDuration) -> String {
    let secs = left.abs().as_secs();
    let (days, hours, minutes) = (secs / 86_400, secs / 3_600 % 24, secs / 60 % 60);
    let amount = match (days, hours, minutes) {
        (0, 0, 0) => format!("{secs}s"),
        (0, 0, _) => format!("{minutes}m {}s", secs % 60),
        (0, ..) => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    };
    if left.is_negative() {
        return format!("{amount} ago");
    }
    format!("in {amount}")
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests;
