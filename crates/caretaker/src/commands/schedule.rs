//! `caretaker schedule`: the times of a schedule (`next`), a list of CronJobs ([`list`]), and one run now ([`run`]).
//!
//! `next` is here, a pure function of the command line and the time. It uses `machinery::cron`, as the controllers do. The
//! other two send requests to a [`cluster`].

mod cluster;
mod list;
mod run;

use std::fmt::Write as _;

use anyhow::{Result, anyhow};
use caretaker_machinery::cron::{CronParseError, CronSchedule};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

pub(super) use self::list::list;
pub(super) use self::run::run;

use crate::args::{ListFormat, ScheduleNext};

/// Columns of the table. The last one is often empty.
const HEADINGS: [&str; 5] = ["SLOT", "DAY", "OFFSET", "FROM NOW", "NOTE"];

#[derive(Debug)]
pub(super) struct NextOutput {
    pub(super) text: String,
    /// A notice for stderr.
    pub(super) note: Option<String>,
}

/// The next times of a schedule.
pub(super) fn next(args: &ScheduleNext, now: Timestamp) -> Result<NextOutput> {
    let text = args.expression.as_str();
    let schedule = CronSchedule::parse(text).map_err(|error| anyhow!(pointed(text, &error)))?;
    let given = args.time_zone.clone().unwrap_or(TimeZone::UTC);
    let zone = schedule.zone().unwrap_or(&given);
    let note = match (schedule.zone(), &args.time_zone) {
        (Some(zone), Some(other)) if zone != other => Some(format!(
            "the schedule names time zone {}, which overrides --time-zone {}",
            name(zone),
            name(other)
        )),
        _ => None,
    };
    let after = args.after.unwrap_or(now);
    let slots = schedule.slots(after, zone).take(args.count.into());
    let slots: Vec<Timestamp> = slots.collect();
    let text = match args.output {
        ListFormat::Table => table(&schedule, zone, after, &slots, now),
        ListFormat::Json => {
            let next: Vec<String> = slots.iter().map(|slot| rfc3339(*slot, zone)).collect();
            // Not with serde_json, which would sort the members.
            format!(
                "{{\"schedule\":{},\"timeZone\":{},\"next\":{}}}\n",
                json!(schedule.text()),
                json!(name(zone)),
                json!(next)
            )
        }
    };
    Ok(NextOutput { text, note })
}

/// The error of an expression, with a caret line if the expression is short.
fn pointed(text: &str, error: &CronParseError) -> String {
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
    schedule: &CronSchedule,
    zone: &TimeZone,
    after: Timestamp,
    slots: &[Timestamp],
    now: Timestamp,
) -> String {
    let mut words = schedule.description();
    if schedule.zone().is_none() {
        let _ = write!(words, " ({})", name(zone));
    }
    let mut text = format!("{}\n\n", capitalised(&words));
    if slots.is_empty() {
        return text + "No time within five years.\n";
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
    let effects = schedule.clock_change_effects(after, zone);
    if !effects.is_empty() {
        text.push('\n');
    }
    for effect in effects {
        let _ = writeln!(text, "{}.", capitalised(&effect.text));
    }
    text
}

/// Aligns columns with two spaces between them.
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

/// The clock change between two times, in words.
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

/// The IANA name.
pub(super) fn name(zone: &TimeZone) -> &str {
    zone.iana_name().unwrap_or("UTC")
}

/// As Go writes it: `Z` for offset zero.
fn rfc3339(slot: Timestamp, zone: &TimeZone) -> String {
    let offset = zone.to_offset(slot);
    if offset == Offset::UTC {
        return slot.to_string();
    }
    slot.display_with_offset(offset).to_string()
}

/// The two largest units of a duration.
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
