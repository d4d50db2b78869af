//! The reasons of the decisions for CronJobs, as values with a sentence each. thiserror formats the sentences, although
//! no reason is an error.

use jiff::Timestamp;

use crate::runtime::controller::{DecisionReason, ObjectIdentity};

/// Why a decision was made. The sentence speaks of the CronJob, or of the Job that a delete is about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CronReason {
    #[error("nothing is known about it")]
    Unknown,
    #[error("not all CronJobs and Jobs are known")]
    Unlisted,
    #[error("it is being deleted, so it starts no Jobs")]
    Deleting,
    #[error("it is suspended, so it starts no Jobs until it is resumed")]
    Suspended,
    #[error("its schedule cannot be read, so it waits for another one: {error}")]
    Unreadable { error: String },
    #[error("it waits for another time zone: {error}")]
    UnknownZone { error: String },
    #[error("its schedule names no time within five years")]
    NeverDue,
    #[error(
        "its lastScheduleTime is {last:.0}, which is still to come by our clock; nothing is due before"
    )]
    LastInFuture { last: Timestamp },
    #[error("its next slot is {next:.0}{}", skipped(skip.as_ref()))]
    Waits {
        next: Timestamp,
        /// The slot before it, if that one has no Job.
        skip: Option<SkippedSlot>,
    },
    /// Another process may have served the slot.
    #[error(
        "its slot {slot:.0} has come; its Jobs may be gone soon, so it is read once more first"
    )]
    Confirms { slot: Timestamp },
    #[error("its slot {slot:.0} has come{}", missed_slots(*missed))]
    Starts {
        slot: Timestamp,
        /// The number of slots before it without a Job, up to 100.
        missed: usize,
        /// The owner of the Job.
        cron_job: ObjectIdentity,
    },
    /// The Job of an earlier slot still runs.
    #[error("the slot {slot:.0} has come, and the concurrency policy is Replace")]
    Replaced {
        slot: Timestamp,
        /// The owner of the Job.
        cron_job: ObjectIdentity,
    },
    #[error("its status differs from what its Jobs show")]
    Records,
    #[error("only {kept} {which} {} of its CronJob {} kept", jobs_are(*kept).0, jobs_are(*kept).1)]
    OverHistoryLimit {
        /// The history limit.
        kept: usize,
        /// `successful` or `failed`.
        which: &'static str,
        /// The owner of the Job.
        cron_job: ObjectIdentity,
    },
    #[error("a fresh list does not show its Job {job}")]
    Asks { job: String },
    #[error("it was created for a CronJob and stored without a controller")]
    Stray {
        /// The CronJob that the Job was created for.
        cron_job: ObjectIdentity,
    },
}

/// A slot in the past that has no Job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the slot {slot:.0} {why}")]
pub struct SkippedSlot {
    /// The schedule time.
    pub slot: Timestamp,
    pub why: SkipReason,
}

/// Why a slot in the past has no Job: it was skipped, or it still waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SkipReason {
    #[error(
        "waits, because a Job still runs and the concurrency policy is Forbid; when that ends before the next slot comes, it starts"
    )]
    WaitsForRunningJob,
    #[error(
        "was skipped, because it was found later than its startingDeadlineSeconds of {deadline_secs}"
    )]
    Late {
        /// The value of `startingDeadlineSeconds`.
        deadline_secs: i64,
    },
    #[error("was skipped, because a Job of its name belongs to another owner")]
    Foreign,
    /// An admission webhook changed the owner of the Job.
    #[error("was skipped, because its Job was created and stored with another owner")]
    Stolen,
}

// === impl CronReason ===

impl DecisionReason for CronReason {
    fn rule(&self) -> &'static str {
        match self {
            Self::Unknown => "Unknown",
            Self::Unlisted => "Unlisted",
            Self::Deleting => "Deleting",
            Self::Suspended => "Suspended",
            Self::Unreadable { .. } => "UnreadableSchedule",
            Self::UnknownZone { .. } => "UnknownTimeZone",
            Self::NeverDue => "NeverDue",
            Self::LastInFuture { .. } => "LastInFuture",
            Self::Waits { .. } => "WaitsForSlot",
            Self::Confirms { .. } => "ConfirmsSlot",
            Self::Starts { .. } => "SlotCame",
            Self::Replaced { .. } => "Replaced",
            Self::Records => "RecordsStatus",
            Self::OverHistoryLimit { .. } => "OverHistoryLimit",
            Self::Asks { .. } => "AsksForJob",
            Self::Stray { .. } => "Stray",
        }
    }

    fn cause(&self) -> Option<&ObjectIdentity> {
        match self {
            Self::Starts { cron_job, .. }
            | Self::Replaced { cron_job, .. }
            | Self::OverHistoryLimit { cron_job, .. }
            | Self::Stray { cron_job } => Some(cron_job),
            _ => None,
        }
    }
}

// === impl SkipReason ===

impl SkipReason {
    /// The `reason` label of `caretaker_cron_skipped_total`.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::WaitsForRunningJob => "forbid",
            Self::Late { .. } => "deadline",
            Self::Foreign => "foreign-job",
            Self::Stolen => "mutated-job",
        }
    }
}

fn skipped(skip: Option<&SkippedSlot>) -> String {
    skip.map_or(String::new(), |skip| format!("; {skip}"))
}

fn missed_slots(missed: usize) -> String {
    match missed {
        0 => String::new(),
        _ => format!("; {missed} before it have no Job"),
    }
}

fn jobs_are(count: usize) -> (&'static str, &'static str) {
    match count {
        1 => ("Job", "is"),
        _ => ("Jobs", "are"),
    }
}
