//! The flags of the commands about cron schedules: `caretaker schedule next`, `list` and `run`.

use std::str::FromStr;

use caretaker_machinery::cron::zone::{self, ZoneError};
use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::objects::Place;
use super::settings::Zone;
use super::values::Verbosity;

/// Most slots that are shown: more than a month of hours.
const COUNT_MAX: i64 = 1_000;

#[derive(Debug, Subcommand)]
pub(crate) enum Schedule {
    /// Show when a schedule is due next, also when clocks change. Needs no cluster
    Next(ScheduleNext),
    /// Show every CronJob: when it runs next, when it ran last, how many Jobs of it are active
    List(ScheduleList),
    /// Run a CronJob once, now, whatever its schedule says
    Run(ScheduleRun),
}

#[derive(Debug, Args)]
pub(crate) struct ScheduleNext {
    /// The schedule of a CronJob, like '30 2 * * 1-5', '@daily' or '@every 90m'
    // A sign in front of a minute is a mistake in the schedule, not a flag.
    #[arg(value_name = "EXPR", allow_hyphen_values = true)]
    pub(crate) expression: String,

    /// The zone whose clocks count, like Europe/Berlin; TZ= in the expression wins [default: UTC]
    #[arg(long, value_name = "ZONE", value_parser = time_zone)]
    pub(crate) time_zone: Option<TimeZone>,

    /// Slots after this time, like 2026-03-29T00:00:00Z [default: now]
    #[arg(long, value_name = "RFC3339", value_parser = time)]
    pub(crate) after: Option<Timestamp>,

    /// How many slots
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=COUNT_MAX))]
    pub(crate) count: u16,

    /// How they are shown
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: Listing,
}

#[derive(Debug, Args)]
pub(crate) struct ScheduleList {
    #[command(flatten)]
    pub(crate) place: Place,

    /// All namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,

    #[command(flatten)]
    pub(crate) zone: Zone,

    /// How they are shown
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: Listing,

    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
}

#[derive(Debug, Args)]
pub(crate) struct ScheduleRun {
    /// The CronJob: a name, or cronjob/NAME, or cronvcjob/NAME for Volcano's
    #[arg(value_name = "CRONJOB")]
    pub(crate) cron_job: CronJobName,

    #[command(flatten)]
    pub(crate) place: Place,

    /// Also if its concurrencyPolicy is Forbid and a Job of it is active
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
}

/// Some CronJob, `report`, `cronjob/report` or `cronvcjob/report`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CronJobName {
    /// What stands before the slash, in small letters.
    pub(crate) kind: Option<String>,
    pub(crate) name: String,
}

/// The forms of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listing {
    Table,
    Json,
}

// === impl CronJobName ===

impl FromStr for CronJobName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, name) = match text.split_once('/') {
            Some((kind, name)) => (Some(kind), name),
            None => (None, text),
        };
        // What would lead elsewhere in a path is nobody's name.
        let is_odd = |c: char| matches!(c, '/' | '%' | '?' | '#') || c.is_control() || c == ' ';
        if kind == Some("") || matches!(name, "" | "." | "..") || name.contains(is_odd) {
            return Err("a name is needed, like report, cronjob/report or cronvcjob/report".into());
        }
        Ok(Self {
            kind: kind.map(str::to_lowercase),
            name: name.to_owned(),
        })
    }
}

pub(super) fn time_zone(name: &str) -> Result<TimeZone, ZoneError> {
    zone::find(name)
}

fn time(text: &str) -> Result<Timestamp, &'static str> {
    let read = text.parse();
    read.map_err(|_| "a time is needed, like 2026-03-29T00:00:00Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cron_job_is_a_name_with_or_without_its_kind() {
        let read = |text: &str| {
            let read: Result<CronJobName, String> = text.parse();
            read.ok().map(|read| (read.kind, read.name))
        };
        let kind = |word: &str| Some(word.to_owned());
        for (text, expected) in [
            ("report", (None, "report")),
            ("cronjob/report", (kind("cronjob"), "report")),
            ("CronVcJob/a.b", (kind("cronvcjob"), "a.b")),
        ] {
            let (kind, name) = expected;
            assert_eq!(read(text), Some((kind, name.to_owned())), "{text}");
        }
        for text in ["", "/a", "cronjob/", "a/b/c", "..", "a?b", "a b", "a%2f"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
