//! The flags of the commands about cron schedules: `caretaker schedule next`.

use caretaker_machinery::cron::zone::{self, ZoneError};
use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Most slots that are shown: more than a month of hours.
const COUNT_MAX: i64 = 1_000;

#[derive(Debug, Subcommand)]
pub(crate) enum Schedule {
    /// Show when a schedule is due next, also when clocks change. Needs no cluster
    Next(ScheduleNext),
}

#[derive(Debug, Args)]
pub(crate) struct ScheduleNext {
    /// The schedule of a CronJob, like '30 2 * * 1-5', '@daily' or '@every 90m'
    #[arg(value_name = "EXPR")]
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

/// The forms of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listing {
    Table,
    Json,
}

pub(super) fn time_zone(name: &str) -> Result<TimeZone, ZoneError> {
    zone::find(name)
}

fn time(text: &str) -> Result<Timestamp, &'static str> {
    let read = text.parse();
    read.map_err(|_| "a time is needed, like 2026-03-29T00:00:00Z")
}
