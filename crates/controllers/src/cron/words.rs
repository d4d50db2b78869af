//! What the users of a CronJob are told: the Events of the originals, a row each, per kind.
//!
//! Types, reasons and messages are those of the originals, because alerts and scripts match them; the same tables stand
//! in `docs/cronjobs.md`. What a kind has no row for it does not tell.

use super::dialects::Dialect;
use crate::runtime::controller::{Identity, Note, Severity};

/// What there can be to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    SawCompleted,
    Created,
    Deleted,
    DeleteFailed,
    GetFailed,
    CreateFailed,
    Forbidden,
    Replacing,
    TakenBack,
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

/// What is told, how badly it is meant, the word for programs, and the sentence with holes: `{job}`.
pub(super) type Sentence = (What, Severity, &'static str, &'static str);

use Severity::{Normal, Warning};

const TOO_MANY: &str = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";

/// Kubernetes'.
pub(super) const BATCH: &[Sentence] = &[
    (
        What::SawCompleted,
        Normal,
        "SawCompletedJob",
        "Saw completed job: {job}, condition: {how}",
    ),
    (
        What::Created,
        Normal,
        "SuccessfulCreate",
        "Created job {job}",
    ),
    (
        What::Deleted,
        Normal,
        "SuccessfulDelete",
        "Deleted job {job}",
    ),
    (
        What::DeleteFailed,
        Warning,
        "FailedDelete",
        "Deleted job: {error}",
    ),
    (What::GetFailed, Warning, "FailedGet", "Get job: {error}"),
    (
        What::CreateFailed,
        Warning,
        "FailedCreate",
        "Error creating job: {error}",
    ),
    (
        What::Forbidden,
        Normal,
        "JobAlreadyActive",
        "Not starting job because prior execution is running and concurrency policy is Forbid",
    ),
    (
        What::TakenBack,
        Warning,
        "UnexpectedJob",
        "Saw a job that the controller did not create or forgot: {job}",
    ),
    (
        What::Dropped,
        Normal,
        "MissingJob",
        "Active job went missing: {job}",
    ),
    (What::TooManyMissed, Warning, "TooManyMissedTimes", TOO_MANY),
    (
        What::Missed,
        Warning,
        "MissSchedule",
        "Missed scheduled time to start a job: {slot}",
    ),
    (
        What::ZoneInSchedule,
        Warning,
        "UnsupportedSchedule",
        "CRON_TZ or TZ used in schedule {schedule} is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details",
    ),
    (
        What::EditUnreadable,
        Warning,
        "UnParseableCronJobSchedule",
        "unparseable schedule for cronjob: {plain}",
    ),
    (
        What::Unreadable,
        Warning,
        "UnparseableSchedule",
        "unparseable schedule: {schedule} : {error}",
    ),
    (
        What::UnknownZone,
        Warning,
        "UnknownTimeZone",
        "invalid timeZone: {zone}: {error}",
    ),
    (
        What::NeverDue,
        Warning,
        "InvalidSchedule",
        "invalid schedule: {plain} : {error}",
    ),
];

/// Volcano's.
pub(super) const VOLCANO: &[Sentence] = &[
    (
        What::SawCompleted,
        Normal,
        "SawCompletedJob",
        "Saw completed job: {job} in active, remove",
    ),
    (
        What::Created,
        Normal,
        "SuccessfulCreate",
        "Created job {job} for CronJob {cronjob}",
    ),
    (
        What::Deleted,
        Normal,
        "SuccessfulDelete",
        "Deleted job \"{job}\"",
    ),
    (
        What::DeleteFailed,
        Warning,
        "FailedDelete",
        "Error deleting job \"{job}\": {error}",
    ),
    (What::GetFailed, Warning, "FailedGet", "Get job: {error}"),
    (
        What::CreateFailed,
        Warning,
        "FailedCreate",
        "Failed to create job: {error}",
    ),
    (
        What::Forbidden,
        Warning,
        "ForbidConcurrent",
        "Skipping job creation because another job is already running",
    ),
    (
        What::Replacing,
        Warning,
        "ReplaceConcurrent",
        "Replacing active job for CronJob",
    ),
    (
        What::TakenBack,
        Warning,
        "OrphanedJob",
        "Detected orphaned job forgotten or not managed by controller: {job} (UID: {uid})",
    ),
    (
        What::Dropped,
        Warning,
        "StaleReference",
        "Active job \"{job}\" no longer exists (UID: {uid})",
    ),
    (
        What::MadeAgain,
        Warning,
        "StaleReference",
        "Active job reference \"{job}\" points to a different UID (expected: {uid}, actual: {other})",
    ),
    (
        What::Foreign,
        Warning,
        "ForeignJob",
        "Job {job} exists but is not owned by this CronJob (current owner: {owner})",
    ),
    (
        What::NamespaceEnding,
        Warning,
        "NamespaceTerminating",
        "Namespace {namespace} is terminating, skipping job creation",
    ),
    (What::TooManyMissed, Warning, "TooManyMissedTimes", TOO_MANY),
    (
        What::ZoneInSchedule,
        Warning,
        "UnsupportedSchedule",
        "CRON_TZ or TZ in the schedule {schedule} is not officially supported. If set, the TimeZone field will be ignored during execution.",
    ),
    (
        What::EditUnreadable,
        Warning,
        "UnParseableCronJobSchedule",
        "unparseable schedule for cronjob: {plain}",
    ),
    (
        What::Unreadable,
        Warning,
        "InvalidSchedule",
        "Error getting schedule time: {error}",
    ),
    (
        What::UnknownZone,
        Warning,
        "InvalidTimeZone",
        "Invalid time zone {zone}: {error}",
    ),
    (
        What::NeverDue,
        Warning,
        "InvalidSchedule",
        "Error getting schedule time: {error}",
    ),
];

/// As many characters of a schedule or a zone as are told: a hostile one may have a million.
const TOLD_CHARS_MAX: usize = 120;

/// What is told about a CronJob, if its kind tells that. `holes` are the words that go into the sentence.
pub(super) fn note(
    row: &Dialect,
    about: &Identity,
    what: What,
    holes: &[(&str, &str)],
) -> Option<Note> {
    let (_, severity, reason, sentence) = row.words.iter().find(|words| words.0 == what)?;
    let cronjob = format!("{}/{}", about.namespace, about.name);
    let common = [
        ("cronjob", cronjob.as_str()),
        ("namespace", &about.namespace),
    ];
    Some(Note {
        about: about.clone(),
        severity: *severity,
        reason,
        message: filled(sentence, holes.iter().chain(&common)),
        dedup_key: None,
    })
}

/// Text of a user's as Go's `%q` shows it, shortened.
pub(super) fn quoted(text: &str) -> String {
    format!("{:?}", shortened(text))
}

pub(super) fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(TOLD_CHARS_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// A sentence with its holes filled. What goes in is not looked at for holes again: users choose names.
fn filled<'a>(sentence: &str, holes: impl Iterator<Item = &'a (&'a str, &'a str)>) -> String {
    let holes: Vec<_> = holes.collect();
    let mut text = String::with_capacity(sentence.len() + 32);
    let mut rest = sentence;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        let hole = holes.iter().find(|(known, _)| *known == name);
        text.push_str(hole.map_or("", |(_, value)| value));
        rest = after;
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::super::dialects::DIALECTS;
    use super::*;

    /// One row per sentence, as the documentation has it.
    fn documented(row: &Dialect) -> Vec<String> {
        let rows = row.words.iter().map(|(_, severity, reason, sentence)| {
            format!("| {severity:?} | {reason} | `{sentence}` |")
        });
        rows.collect()
    }

    #[test]
    fn what_is_told_is_what_is_documented() {
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
    fn words_of_users_are_not_read_for_holes_and_not_told_at_any_length() {
        let holes = [("job", "{uid}"), ("uid", "u")];
        assert_eq!(filled("{job} {uid} {x}!", holes.iter()), "{uid} u !");
        assert_eq!(filled("a { b", holes.iter()), "a ");
        let long = shortened(&"é".repeat(1 << 20));
        assert_eq!(long.chars().count(), TOLD_CHARS_MAX + 1);
        assert_eq!(quoted("a\"b"), r#""a\"b""#);
    }
}
