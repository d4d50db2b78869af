//! The flags of `caretaker schedule next`, `list` and `run`.

use std::str::FromStr;

use caretaker_machinery::cron::zone::{self, ZoneError};
use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::decision_flags::ZoneFlag;
use super::inspect::ClusterFlags;
use super::values::{InvalidValue, VerbosityFlags, number};

/// Maximum of `--count`: more than a month of hourly times.
const COUNT_MAX: i64 = 1_000;

/// Edits by which a misspelt time zone may differ from the suggested one: one in four letters, and at least one.
const LETTERS_PER_EDIT: usize = 4;

#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// Show the next times of a schedule, also across clock changes; needs no cluster
    Next(ScheduleNext),
    /// List CronJobs with their next time, their last time, and their active Jobs
    List(ScheduleList),
    /// Run a CronJob once, now
    Run(ScheduleRun),
}

#[derive(Debug, Args)]
pub(crate) struct ScheduleNext {
    /// Schedule of a CronJob, like '30 2 * * 1-5', '@daily' or '@every 90m'
    // A leading minus sign is an error in the schedule, not a flag.
    #[arg(value_name = "EXPR", allow_hyphen_values = true)]
    pub(crate) expression: String,

    /// Time zone, like Europe/Berlin; TZ= in the expression wins [default: UTC]
    #[arg(long, value_name = "ZONE", value_parser = time_zone)]
    pub(crate) time_zone: Option<TimeZone>,

    /// Show times after this one, like 2026-03-29T00:00:00Z [default: now]
    #[arg(long, value_name = "RFC3339", value_parser = time)]
    pub(crate) after: Option<Timestamp>,

    /// Number of times to show
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number::<u16, 1, COUNT_MAX>)]
    pub(crate) count: u16,

    /// Format of the output
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: ListFormat,
}

#[derive(Debug, Args)]
pub(crate) struct ScheduleList {
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,

    /// Show all namespaces, not only one
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,

    #[command(flatten)]
    pub(crate) zone: ZoneFlag,

    /// Format of the output
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: ListFormat,

    #[command(flatten)]
    pub(crate) verbosity: VerbosityFlags,
}

#[derive(Debug, Args)]
pub(crate) struct ScheduleRun {
    /// CronJob: NAME, cronjob/NAME, or cronvcjob/NAME for Volcano's
    #[arg(value_name = "CRONJOB")]
    pub(crate) cron_job: CronJobName,

    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,

    /// Run even if concurrencyPolicy is Forbid and a Job is active
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) verbosity: VerbosityFlags,
}

/// `report`, `cronjob/report` or `cronvcjob/report`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CronJobName {
    /// The part before the slash, in lower case.
    pub(crate) kind: Option<String>,
    pub(crate) name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListFormat {
    Table,
    Json,
}

// === impl CronJobName ===

impl FromStr for CronJobName {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let (kind, name) = match text.split_once('/') {
            Some((kind, name)) => (Some(kind), name),
            None => (None, text),
        };
        // These characters would change the path of the request.
        let is_odd = |c: char| matches!(c, '/' | '%' | '?' | '#') || c.is_control() || c == ' ';
        if kind == Some("") || matches!(name, "" | "." | "..") || name.contains(is_odd) {
            return Err(InvalidValue(
                "a name like report, cronjob/report or cronvcjob/report",
            ));
        }
        Ok(Self {
            kind: kind.map(str::to_lowercase),
            name: name.to_owned(),
        })
    }
}

pub(super) fn time_zone(name: &str) -> Result<TimeZone, String> {
    zone::find(name).map_err(|error| match (&error, similar_zone(name)) {
        (ZoneError::Unknown(_), Some(similar)) => format!("{error}; did you mean {similar}?"),
        _ => error.to_string(),
    })
}

/// The zone whose name is most like this one. The place alone, `Berlin`, is enough.
fn similar_zone(name: &str) -> Option<String> {
    let wanted = name.to_lowercase();
    let edits_max = (wanted.chars().count() / LETTERS_PER_EDIT).max(1);
    let edits = |zone: &str| {
        let zone = zone.to_lowercase();
        let place = zone.rsplit('/').next().unwrap_or_default();
        strsim::osa_distance(&wanted, &zone).min(strsim::osa_distance(&wanted, place))
    };
    let database = TimeZoneDatabase::bundled();
    let zones = database.available().map(|zone| zone.to_string());
    let nearest = zones.filter(|zone| zone::find(zone).is_ok());
    let nearest = nearest.min_by_key(|zone| (edits(zone), zone.len()))?;
    (edits(&nearest) <= edits_max).then_some(nearest)
}

fn time(text: &str) -> Result<Timestamp, InvalidValue> {
    let read = text.parse();
    read.map_err(|_| InvalidValue("a time like 2026-03-29T00:00:00Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_time_zone_has_a_suggestion() {
        for (name, similar) in [
            ("Europe/Berln", Some("Europe/Berlin")),
            ("europe/berlin", Some("Europe/Berlin")),
            ("Berlin", Some("Europe/Berlin")),
            ("Asia/Shangai", Some("Asia/Shanghai")),
            ("America/NewYork", Some("America/New_York")),
            ("utc", Some("UTC")),
            ("Nowhere", None),
            ("", None),
        ] {
            let error = time_zone(name).unwrap_err();
            let tip = similar.map(|similar| format!("; did you mean {similar}?"));
            match tip {
                Some(tip) => assert!(error.ends_with(&tip), "{name}: {error}"),
                None => assert!(!error.contains("did you mean"), "{name}: {error}"),
            }
        }
    }

    #[test]
    fn a_cron_job_name_may_have_a_kind() {
        let read = |text: &str| {
            let read: Result<CronJobName, InvalidValue> = text.parse();
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
