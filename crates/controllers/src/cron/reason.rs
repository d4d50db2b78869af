//! Why a CronJob's Jobs are made, kept or removed, as values with a sentence each.

use std::fmt;

use jiff::Timestamp;

use crate::runtime::controller::{DecisionReason, Identity};

/// Why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Nothing is known about it.
    Unknown,
    /// CronJobs or Jobs have not been listed.
    Unlisted,
    /// It is being deleted.
    Deleting,
    /// It is suspended.
    Suspended,
    /// Its schedule cannot be read.
    Unreadable {
        /// Why not.
        error: String,
    },
    /// Its time zone does not exist.
    UnknownZone {
        /// What is wrong.
        error: String,
    },
    /// No slot comes for years.
    NeverDue,
    /// Its last slot is still to come, by our clock.
    LastInFuture {
        /// When that is.
        last: Timestamp,
    },
    /// Its next slot has not come.
    Waits {
        /// When it does.
        next: Timestamp,
        /// Why the one before has no Job, if it has none.
        skip: Option<Skip>,
    },
    /// A slot has come, and the server is asked whether somebody has served it.
    Confirms {
        /// Which.
        slot: Timestamp,
    },
    /// A slot has come.
    Starts {
        /// Which.
        slot: Timestamp,
        /// How many before it have no Job, up to 100.
        missed: usize,
        /// The CronJob.
        cron_job: Identity,
    },
    /// A slot has come, and the Job of an earlier one still runs.
    Replaced {
        /// The slot.
        slot: Timestamp,
        /// The CronJob.
        cron_job: Identity,
    },
    /// The status does not say what is so.
    Records,
    /// More Jobs have finished than are kept.
    OverHistoryLimit {
        /// How many are.
        kept: usize,
        /// `successful` or `failed`.
        which: &'static str,
        /// The CronJob.
        cron_job: Identity,
    },
    /// A list does not show a Job that ran.
    Asks {
        /// Its name.
        job: String,
    },
    /// A Job was made and came back as somebody else's.
    Stray {
        /// The CronJob.
        cron_job: Identity,
    },
}

/// Why a slot has no Job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skip {
    /// Which slot.
    pub slot: Timestamp,
    /// Why.
    pub why: Why,
}

/// Why a slot has no Job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Its Job would run beside an earlier one, which is forbidden.
    Forbidden,
    /// It was found too late.
    Late {
        /// How late it might have been, in seconds.
        deadline_secs: i64,
    },
    /// Somebody else's Job has its name.
    Foreign,
    /// Whatever is made there is given to somebody else.
    Stolen,
}

// === impl Reason ===

impl DecisionReason for Reason {
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

    fn cause(&self) -> Option<&Identity> {
        match self {
            Self::Starts { cron_job, .. }
            | Self::Replaced { cron_job, .. }
            | Self::OverHistoryLimit { cron_job, .. }
            | Self::Stray { cron_job } => Some(cron_job),
            _ => None,
        }
    }
}

impl fmt::Display for Reason {
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
            Self::Records => f.write_str("its status does not say what is so"),
            Self::OverHistoryLimit { kept, which, .. } => {
                let (jobs, are) = match kept {
                    1 => ("Job", "is"),
                    _ => ("Jobs", "are"),
                };
                write!(f, "only {kept} {which} {jobs} of its CronJob {are} kept")
            }
            Self::Asks { job } => write!(f, "a fresh list does not show its Job {job}"),
            Self::Stray { .. } => {
                f.write_str("it was made for a CronJob and came back as somebody else's")
            }
        }
    }
}

// === impl Skip ===

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slot = self.slot;
        match self.why {
            Why::Forbidden => write!(
                f,
                "the slot {slot:.0} waits, because a Job still runs and the concurrency policy is Forbid; when that ends before the next slot comes, it starts"
            ),
            Why::Late { deadline_secs } => write!(
                f,
                "the slot {slot:.0} was skipped, because it was found later than its startingDeadlineSeconds of {deadline_secs}"
            ),
            Why::Foreign => write!(
                f,
                "the slot {slot:.0} was skipped, because a Job of its name belongs to somebody else"
            ),
            Why::Stolen => write!(
                f,
                "the slot {slot:.0} was skipped, because its Job was made and came back as somebody else's"
            ),
        }
    }
}

// === impl Why ===

impl Why {
    /// As metrics spell it.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Forbidden => "forbid",
            Self::Late { .. } => "deadline",
            Self::Foreign => "foreign-job",
            Self::Stolen => "mutated-job",
        }
    }
}
