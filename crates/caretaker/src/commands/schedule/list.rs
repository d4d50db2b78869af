//! `caretaker schedule list`: CronJobs with their next and last times.
//!
//! A row is a pure function of an object, a zone and the time. The next time is computed as in the controllers: from the
//! last schedule time or the creation, so that `@every` is right, too. An invalid CronJob is a row with a note; a kind that
//! cannot be listed is a sentence on stderr.

use anyhow::{Result, bail};
use caretaker_controllers::cron;
use caretaker_machinery::cron::{CronSchedule, zone};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::Value;

use super::cluster::{CronCluster, CronKind, CronList, CronRequestError, KINDS};
use super::{aligned, from_now, name, rfc3339};
use crate::args::{ListFormat, ScheduleList};
use crate::wiring::{self, notice};

/// Columns of the table. The first is shown with all namespaces, the last one if a row has a note.
const HEADINGS: [&str; 11] = [
    "NAMESPACE",
    "CRONJOB",
    "SCHEDULE",
    "ZONE",
    "NEXT RUN",
    "LEFT",
    "LAST RUN",
    "LAST SUCCESS",
    "ACTIVE",
    "SUSPENDED",
    "NOTE",
];
/// Characters of a schedule or a note in the table.
const CELL_CHARS_MAX: usize = 60;

/// A CronJob in the table and in JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CronRow {
    api_version: &'static str,
    /// The type for `schedule run`: `cronjob` or `cronvcjob`.
    #[serde(rename = "type")]
    word: &'static str,
    namespace: String,
    name: String,
    schedule: String,
    time_zone: String,
    /// RFC 3339 in its zone.
    next: Option<String>,
    seconds_left: Option<i64>,
    last_schedule_time: Option<Timestamp>,
    last_successful_time: Option<Timestamp>,
    active: usize,
    suspended: bool,
    /// Why there is no next time, unless it is suspended.
    note: Option<String>,
    #[serde(skip)]
    slot: Option<(Timestamp, TimeZone)>,
}

pub(in crate::commands) async fn list(args: &ScheduleList) -> Result<String> {
    let cluster = CronCluster::find(&args.cluster).await?;
    let namespace = (!args.all_namespaces).then_some(cluster.namespace.as_str());
    let default_zone = args.zone.find();
    let (mut rows, mut is_any_listed) = (Vec::new(), false);
    let mut now = wiring::clock().now();
    for kind in &KINDS {
        match cluster.list(&kind.path(namespace, "cronjobs")).await {
            Ok(CronList { objects, date }) => {
                is_any_listed = true;
                // The controllers follow the server's clock, which may differ from ours.
                now = date.unwrap_or(now);
                let read = objects.iter();
                rows.extend(read.map(|object| row(kind, object, &default_zone, now)));
            }
            Err(error) => notice(&gap(kind, &error)),
        }
    }
    if !is_any_listed {
        bail!("cannot list CronJobs");
    }
    rows.sort_by(|a, b| (&a.namespace, &a.name, a.word).cmp(&(&b.namespace, &b.name, b.word)));
    if rows.is_empty() {
        if let Some(namespace) = namespace
            && !cluster.may_have_namespace().await
        {
            bail!("there is no namespace {namespace}");
        }
        let place = namespace.map_or(String::new(), |namespace| {
            format!(" in namespace {namespace}")
        });
        notice(&format!("no CronJobs found{place}"));
    }
    Ok(match args.output {
        ListFormat::Json => serde_json::to_string_pretty(&rows)? + "\n",
        ListFormat::Table if rows.is_empty() => String::new(),
        ListFormat::Table => table(&rows, namespace.is_none(), now),
    })
}

/// A sentence about a kind that is missing in the list.
fn gap(kind: &CronKind, error: &CronRequestError) -> String {
    let resource = kind.resource;
    match error {
        CronRequestError::NotServed => format!("the server does not serve {resource}"),
        CronRequestError::Forbidden => {
            format!("missing in this output: {resource} (forbidden to list)")
        }
        other => format!("missing in this output: {resource} ({other})"),
    }
}

fn row(kind: &CronKind, object: &Value, default_zone: &TimeZone, now: Timestamp) -> CronRow {
    let (meta, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let time = |value: &Value| value.as_str().and_then(|text| text.parse().ok());
    let last: Option<Timestamp> = time(&status["lastScheduleTime"]);
    let since = last.or_else(|| time(&meta["creationTimestamp"]));
    let suspended = spec["suspend"] == true;
    let (mut note, mut slot) = (None, None);
    let mut time_zone = spec["timeZone"]
        .as_str()
        .unwrap_or(name(default_zone))
        .to_owned();
    match due(spec, default_zone, since.unwrap_or(now), now) {
        Ok((next, zone)) => {
            time_zone = name(&zone).to_owned();
            if !meta["deletionTimestamp"].is_null() {
                note = Some("is being deleted".to_owned());
            } else if !suspended && next.is_none() {
                note = Some("never due within five years".to_owned());
            } else if !suspended {
                slot = next.map(|next| (next, zone));
            }
        }
        Err(error) => note = Some(error.to_string()),
    }
    CronRow {
        api_version: kind.dialect.api_version,
        word: kind.word(),
        namespace: text(&meta["namespace"]),
        name: text(&meta["name"]),
        schedule: text(&spec["schedule"]),
        time_zone,
        next: slot.as_ref().map(|(next, zone)| rfc3339(*next, zone)),
        seconds_left: slot
            .as_ref()
            .map(|(next, _)| next.as_second() - now.as_second()),
        last_schedule_time: last,
        last_successful_time: time(&status["lastSuccessfulTime"]),
        active: status["active"].as_array().map_or(0, Vec::len),
        suspended,
        note,
        slot,
    }
}

/// The next time and its zone.
fn due(
    spec: &Value,
    default_zone: &TimeZone,
    since: Timestamp,
    now: Timestamp,
) -> Result<(Option<Timestamp>, TimeZone)> {
    let text = spec["schedule"].as_str().unwrap_or_default();
    let schedule = CronSchedule::parse(text)?;
    let given = match spec["timeZone"].as_str() {
        Some(name) => zone::find(name)?,
        None => default_zone.clone(),
    };
    let zone = schedule.zone().cloned().unwrap_or(given);
    Ok((cron::next_slot(&schedule, &zone, since, now), zone))
}

fn table(rows: &[CronRow], shows_namespaces: bool, now: Timestamp) -> String {
    let ago = |time: Option<Timestamp>| match time {
        Some(time) => from_now(time.duration_since(now)),
        None => "never".to_owned(),
    };
    let mut lines = vec![HEADINGS.map(str::to_owned)];
    lines.extend(rows.iter().map(|row| {
        let next = |show: &dyn Fn(Timestamp, &TimeZone) -> String| match &row.slot {
            Some((next, zone)) => show(*next, zone),
            None => "-".to_owned(),
        };
        let wall = |next: Timestamp, zone: &TimeZone| {
            let shown = next.to_zoned(zone.clone());
            shown.strftime("%Y-%m-%d %H:%M:%S").to_string()
        };
        [
            row.namespace.clone(),
            format!("{}/{}", row.word, row.name),
            cell(&row.schedule),
            cell(&row.time_zone),
            next(&wall),
            next(&|next, _| from_now(next.duration_since(now))),
            ago(row.last_schedule_time),
            ago(row.last_successful_time),
            row.active.to_string(),
            if row.suspended { "yes" } else { "no" }.to_owned(),
            row.note.as_deref().map(cell).unwrap_or_default(),
        ]
    }));
    if rows.iter().all(|row| row.note.is_none()) {
        lines[0][HEADINGS.len() - 1].clear();
    }
    if !shows_namespaces {
        let without = lines.iter().map(|[_, rest @ ..]| rest.clone());
        return aligned(&without.collect::<Vec<_>>());
    }
    aligned(&lines)
}

/// Shortens text and replaces control characters.
fn cell(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(CELL_CHARS_MAX)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    if text.chars().nth(CELL_CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests;
