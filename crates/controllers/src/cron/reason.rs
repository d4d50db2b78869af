//! The reasons of the decisions for CronJobs, as values with a sentence each.

use std::fmt;

use jiff::Timestamp;

use crate::runtime::controller::{DecisionReason, ObjectIdentity};

/// Why a decision was made. The sentence speaks of the CronJob, or of the Job that a delete is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CronReason {
    /// No feed has shown the CronJob.
    Unknown,
    /// CronJobs or Jobs have not been listed yet.
    Unlisted,
    Deleting,
    Suspended,
    /// The schedule cannot be parsed.
    Unreadable {
        /// The parser's message.
        error: String,
    },
    /// The time zone does not exist.
    UnknownZone {
        /// The message of the lookup.
        error: String,
    },
    /// The schedule has no slot for years.
    NeverDue,
    /// `lastScheduleTime` lies in the future by our clock, and no slot follows it.
    LastInFuture {
        last: Timestamp,
    },
    /// The next slot lies in the future.
    Waits {
        /// The next slot.
        next: Timestamp,
        /// The slot before it, if that one has no Job.
        skip: Option<SkippedSlot>,
    },
    /// A slot is due, and the CronJob is read first to see whether another process served it.
    Confirms {
        slot: Timestamp,
    },
    /// A slot is due.
    Starts {
        slot: Timestamp,
        /// The number of slots before it without a Job, up to 100.
        missed: usize,
        /// The owner of the Job.
        cron_job: ObjectIdentity,
    },
    /// A slot is due, and the Job of an earlier slot still runs.
    Replaced {
        slot: Timestamp,
        /// The owner of the Job.
        cron_job: ObjectIdentity,
    },
    /// The stored status differs from the derived one.
    Records,
    /// More Jobs have finished than the history limit keeps.
    OverHistoryLimit {
        /// The history limit.
        kept: usize,
        /// `successful` or `failed`.
        which: &'static str,
        /// The owner of the Job.
        cron_job: ObjectIdentity,
    },
    /// A relist does not show a Job that ran.
    Asks {
        /// The name of the Job.
        job: String,
    },
    /// The API server stored a Job that we created without our owner reference.
    Stray {
        /// The CronJob that the Job was created for.
        cron_job: ObjectIdentity,
    },
}

/// A slot in the past that has no Job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkippedSlot {
    /// The schedule time.
    pub slot: Timestamp,
    pub why: SkipReason,
}

/// Why a slot in the past has no Job: it was skipped, or it still waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    /// The slot waits: the concurrency policy is `Forbid`, and a Job still runs. The slot gets its Job if that one ends
    /// before the next slot comes.
    WaitsForRunningJob,
    /// The deadline of the slot has passed.
    Late {
        /// The value of `startingDeadlineSeconds`.
        deadline_secs: i64,
    },
    /// A Job of another owner has the name of the slot's Job.
    Foreign,
    /// An admission webhook gave the slot's Job to another owner.
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

impl fmt::Display for CronReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("nothing is known about it"),
            Self::Unlisted => f.write_str("not all CronJobs and Jobs are known"),
            Self::Deleting => f.write_str("it is being deleted, so it starts no Jobs"),
            Self::Suspended => {
                f.write_str("it is suspended, so it starts no Jobs until it is resumed")
            }
            Self::Unreadable { error } => {
                write!(
                    f,
                    "its schedule cannot be read, so it waits for another one: {error}"
                )
            }
            Self::UnknownZone { error } => write!(f, "it waits for another time zone: {error}"),
            Self::NeverDue => f.write_str("its schedule names no time within five years"),
            Self::LastInFuture { last } => write!(
                f,
                "its lastScheduleTime is {last:.0}, which is still to come by our clock; nothing is due before"
            ),
            Self::Waits {
                next, skip: None, ..
            } => write!(f, "its next slot is {next:.0}"),
            Self::Waits {
                next,
                skip: Some(skip),
                ..
            } => write!(f, "its next slot is {next:.0}; {skip}"),
            Self::Confirms { slot } => {
                write!(
                    f,
                    "its slot {slot:.0} has come; its Jobs may be gone soon, so it is read once more first"
                )
            }
            Self::Starts {
                slot, missed: 0, ..
            } => write!(f, "its slot {slot:.0} has come"),
            Self::Starts { slot, missed, .. } => {
                write!(
                    f,
                    "its slot {slot:.0} has come; {missed} before it have no Job"
                )
            }
            Self::Replaced { slot, .. } => write!(
                f,
                "the slot {slot:.0} has come, and the concurrency policy is Replace"
            ),
            Self::Records => f.write_str("its status differs from what its Jobs show"),
            Self::OverHistoryLimit { kept, which, .. } => {
                let (jobs, are) = match kept {
                    1 => ("Job", "is"),
                    _ => ("Jobs", "are"),
                };
                write!(f, "only {kept} {which} {jobs} of its CronJob {are} kept")
            }
            Self::Asks { job } => write!(f, "a fresh list does not show its Job {job}"),
            Self::Stray { .. } => {
                f.write_str("it was created for a CronJob and stored with another owner")
            }
        }
    }
}

// === impl SkippedSlot ===

impl fmt::Display for SkippedSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slot = self.slot;
        match self.why {
            SkipReason::WaitsForRunningJob => write!(
                f,
                "the slot {slot:.0} waits, because a Job still runs and the concurrency policy is Forbid; when that ends before the next slot comes, it starts"
            ),
            SkipReason::Late { deadline_secs } => write!(
                f,
                "the slot {slot:.0} was skipped, because it was found later than its startingDeadlineSeconds of {deadline_secs}"
            ),
            SkipReason::Foreign => write!(
                f,
                "the slot {slot:.0} was skipped, because a Job of its name belongs to another owner"
            ),
            SkipReason::Stolen => write!(
                f,
                "the slot {slot:.0} was skipped, because its Job was created and stored with another owner"
            ),
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
