//! The Events of both originals, a row each, per kind.
//!
//! Types, reasons and messages are verbatim, because alerts and scripts match them; `docs/cronjobs.md` has the same
//! tables. A kind without a row for a case emits no Event. `TickUnrecorded` is our own, and so is `ForeignJob` of `batch/v1`.

use super::dialects::CronDialect;
use crate::runtime::controller::{EventNote, EventSeverity, ObjectIdentity};

/// The cases in which a CronJob gets an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CronEvent {
    SawCompleted,
    Created,
    Deleted,
    DeleteFailed,
    GetFailed,
    CreateFailed,
    Forbidden,
    Replacing,
    Unexpected,
    Kept,
    Dropped,
    MadeAgain,
    Foreign,
    NamespaceEnding,
    TooManyMissed,
    Missed,
    ZoneInSchedule,
    EditUnreadable,
    Unreadable,
    UnknownZone,
    NeverDue,
}

/// Case, severity, reason, and the message with placeholders like `{job}`.
pub(super) type EventText = (CronEvent, EventSeverity, &'static str, &'static str);

/// A row for each case, so that the tables read like those of the documentation.
macro_rules! event_texts {
    ($($event:ident $severity:ident $reason:literal $message:expr;)*) => {
        &[$((CronEvent::$event, EventSeverity::$severity, $reason, $message)),*]
    };
}

const TOO_MANY: &str = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";

/// Volcano's. Kubernetes' controller logs the error at every sync and emits nothing.
const FOREIGN: &str = "Job {job} exists but is not owned by this CronJob (current owner: {owner})";

/// The Events of Kubernetes' controller.
pub(super) const BATCH: &[EventText] = event_texts! {
    SawCompleted Normal "SawCompletedJob" "Saw completed job: {job}, condition: {how}";
    Created Normal "SuccessfulCreate" "Created job {job}";
    Deleted Normal "SuccessfulDelete" "Deleted job {job}";
    DeleteFailed Warning "FailedDelete" "Deleted job: {error}";
    GetFailed Warning "FailedGet" "Get job: {error}";
    CreateFailed Warning "FailedCreate" "Error creating job: {error}";
    Forbidden Normal "JobAlreadyActive"
        "Not starting job because prior execution is running and concurrency policy is Forbid";
    Unexpected Warning "UnexpectedJob" "Saw a job that the controller did not create or forgot: {job}";
    Kept Warning "TickUnrecorded"
        "Job {job} is kept beyond its history limit, because the status does not record its slot {slot} yet";
    Dropped Normal "MissingJob" "Active job went missing: {job}";
    Foreign Warning "ForeignJob" FOREIGN;
    TooManyMissed Warning "TooManyMissedTimes" TOO_MANY;
    Missed Warning "MissSchedule" "Missed scheduled time to start a job: {slot}";
    ZoneInSchedule Warning "UnsupportedSchedule"
        "CRON_TZ or TZ used in schedule {schedule} is not officially supported, see \
        https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details";
    EditUnreadable Warning "UnParseableCronJobSchedule" "unparseable schedule for cronjob: {plain}";
    Unreadable Warning "UnparseableSchedule" "unparseable schedule: {schedule} : {error}";
    UnknownZone Warning "UnknownTimeZone" "invalid timeZone: {zone}: {error}";
    NeverDue Warning "InvalidSchedule" "invalid schedule: {plain} : {error}";
};

/// The Events of Volcano's controller.
pub(super) const VOLCANO: &[EventText] = event_texts! {
    SawCompleted Normal "SawCompletedJob" "Saw completed job: {job} in active, remove";
    Created Normal "SuccessfulCreate" "Created job {job} for CronJob {cronjob}";
    Deleted Normal "SuccessfulDelete" "Deleted job \"{job}\"";
    DeleteFailed Warning "FailedDelete" "Error deleting job \"{job}\": {error}";
    GetFailed Warning "FailedGet" "Get job: {error}";
    CreateFailed Warning "FailedCreate" "Failed to create job: {error}";
    Forbidden Warning "ForbidConcurrent" "Skipping job creation because another job is already running";
    Replacing Warning "ReplaceConcurrent" "Replacing active job for CronJob";
    Unexpected Warning "OrphanedJob" "Detected orphaned job forgotten or not managed by controller: {job} (UID: {uid})";
    Kept Warning "TickUnrecorded"
        "Job {job} is kept beyond its history limit, because the status does not record its slot {slot} yet";
    Dropped Warning "StaleReference" "Active job \"{job}\" no longer exists (UID: {uid})";
    MadeAgain Warning "StaleReference"
        "Active job reference \"{job}\" points to a different UID (expected: {uid}, actual: {other})";
    Foreign Warning "ForeignJob" FOREIGN;
    NamespaceEnding Warning "NamespaceTerminating" "Namespace {namespace} is terminating, skipping job creation";
    TooManyMissed Warning "TooManyMissedTimes" TOO_MANY;
    ZoneInSchedule Warning "UnsupportedSchedule"
        "CRON_TZ or TZ in the schedule {schedule} is not officially supported. If set, the TimeZone field will be ignored \
        during execution.";
    EditUnreadable Warning "UnParseableCronJobSchedule" "unparseable schedule for cronjob: {plain}";
    Unreadable Warning "InvalidSchedule" "Error getting schedule time: {error}";
    UnknownZone Warning "InvalidTimeZone" "Invalid time zone {zone}: {error}";
    NeverDue Warning "InvalidSchedule" "Error getting schedule time: {error}";
};

/// The most characters of a schedule or a zone in a message: a hostile one may have a million.
const QUOTED_CHARS_MAX: usize = 120;

/// The Event of a case, if the kind has one. `values` holds a value for each placeholder by its name.
pub(super) fn note(
    row: &CronDialect,
    about: &ObjectIdentity,
    event: CronEvent,
    values: &[(&str, &str)],
) -> Option<EventNote> {
    let (_, severity, reason, sentence) = row.event_texts.iter().find(|text| text.0 == event)?;
    let cronjob = format!("{}/{}", about.namespace, about.name);
    let common = [
        ("cronjob", cronjob.as_str()),
        ("namespace", &about.namespace),
    ];
    let message = filled(sentence, values.iter().chain(&common));
    Some(EventNote::new(*severity, about.clone(), reason, message))
}

/// A user's text as Go's `%q` prints it, shortened.
pub(super) fn quoted(text: &str) -> String {
    format!("{:?}", shortened(text))
}

pub(super) fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(QUOTED_CHARS_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// Fills the placeholders of a message. Values are not scanned for placeholders, because users choose names.
fn filled<'a>(sentence: &str, values: impl Iterator<Item = &'a (&'a str, &'a str)>) -> String {
    let values: Vec<_> = values.collect();
    let mut text = String::with_capacity(sentence.len() + 32);
    let mut rest = sentence;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        let value = values.iter().find(|(known, _)| *known == name);
        text.push_str(value.map_or("", |(_, value)| value));
        rest = after;
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::super::dialects::DIALECTS;
    use super::*;

    /// One row per Event, as the documentation shows it.
    fn documented(row: &CronDialect) -> Vec<String> {
        let rows = row
            .event_texts
            .iter()
            .map(|(_, severity, reason, sentence)| {
                format!("| {severity:?} | {reason} | `{sentence}` |")
            });
        rows.collect()
    }

    #[test]
    fn events_are_documented() {
        let docs = include_str!("../../../../docs/cronjobs.md");
        for row in DIALECTS {
            let title = format!("### `{}`", row.api_version);
            let (_, section) = docs.split_once(&title).expect(&title);
            let section = section.split("\n##").next().unwrap();
            let rows: Vec<&str> = section
                .lines()
                .filter(|line| line.starts_with("| Normal") || line.starts_with("| Warning"))
                .collect();
            assert_eq!(rows, documented(row), "{}", row.name);
        }
    }

    #[test]
    fn values_are_not_scanned_for_placeholders_and_are_shortened() {
        let values = [("job", "{uid}"), ("uid", "u")];
        assert_eq!(filled("{job} {uid} {x}!", values.iter()), "{uid} u !");
        assert_eq!(filled("a { b", values.iter()), "a ");
        let long = shortened(&"é".repeat(1 << 20));
        assert_eq!(long.chars().count(), QUOTED_CHARS_MAX + 1);
        assert_eq!(quoted("a\"b"), r#""a\"b""#);
    }
}
