//! The reason of each decision of a TTL controller, with an identifier and a sentence.

use std::fmt;

use jiff::Timestamp;

use super::index::JobExpiry;
use crate::runtime::controller::DecisionReason;

/// The reason of a decision about a Job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TtlReason {
    /// The index does not track it: no feed shows it, or it does not expire.
    Unknown,
    /// It is being deleted already.
    Deleting,
    /// It has not finished.
    Unfinished,
    /// It has no TTL.
    NoTtl,
    /// The server acknowledged our delete.
    Going,
    /// Its TTL has not expired yet.
    Waits(RetentionSpan),
    /// Its TTL has not expired yet, and its finish time is in the future.
    FinishInFuture(RetentionSpan),
    /// Its TTL has expired.
    Expired(RetentionSpan),
    /// It was aborted longer ago than `--ttl-after-aborted` and its TTL.
    AbortedLongAgo(RetentionSpan),
    /// Its TTL has expired, but the status of its CronJob does not record its slot yet.
    TickUnrecorded {
        /// The CronJob's name.
        cron_job: String,
        slot: Timestamp,
    },
    /// Its TTL has expired, and its CronJob has to be read because no feed shows it.
    AsksForCronJob {
        /// The CronJob's name.
        cron_job: String,
    },
    /// It has finished, but has no valid finish time.
    FinishTimeUnknown,
    /// Its TTL is not a valid number of seconds, or its expiry is after the year 9999.
    TtlOutOfRange {
        /// The TTL as the object has it.
        ttl: Box<str>,
    },
}

/// The time from the finish of a Job to its expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionSpan {
    /// When it finished, or was aborted.
    pub finish: Timestamp,
    pub expiry: Timestamp,
    /// The verb for messages: `finished` or `was aborted`.
    pub verb: &'static str,
}

// === impl TtlReason ===

impl TtlReason {
    pub(super) fn waits(end: JobExpiry, now: Timestamp) -> Self {
        let span = RetentionSpan::of(end);
        if end.finish > now {
            Self::FinishInFuture(span)
        } else {
            Self::Waits(span)
        }
    }

    pub(super) fn expired(end: JobExpiry) -> Self {
        let span = RetentionSpan::of(end);
        if end.is_aborted {
            Self::AbortedLongAgo(span)
        } else {
            Self::Expired(span)
        }
    }
}

impl DecisionReason for TtlReason {
    fn rule(&self) -> &'static str {
        match self {
            Self::Unknown => "Unknown",
            Self::Deleting => "Deleting",
            Self::Unfinished => "Unfinished",
            Self::NoTtl => "NoTTL",
            Self::Going => "Going",
            Self::Waits(_) => "Waits",
            Self::FinishInFuture(_) => "FinishInFuture",
            Self::Expired(_) => "Expired",
            Self::AbortedLongAgo(_) => "AbortedLongAgo",
            Self::TickUnrecorded { .. } => "TickUnrecorded",
            Self::AsksForCronJob { .. } => "AsksForCronJob",
            Self::FinishTimeUnknown => "FinishTimeUnknown",
            Self::TtlOutOfRange { .. } => "TTLOutOfRange",
        }
    }
}

impl fmt::Display for TtlReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("no watch shows it, or it does not expire"),
            Self::Deleting => f.write_str("it is being deleted already"),
            Self::Unfinished => f.write_str("it has not finished"),
            Self::NoTtl => f.write_str("it has no ttlSecondsAfterFinished"),
            Self::Going => f.write_str("its delete was acknowledged"),
            Self::Waits(span) => write!(f, "{span} expires at {:.0}", span.expiry),
            Self::FinishInFuture(span) => write!(
                f,
                "{span} expires at {:.0}; by our clock the finish time is in the future",
                span.expiry
            ),
            Self::Expired(span) | Self::AbortedLongAgo(span) => {
                write!(f, "{span} expired at {:.0}", span.expiry)
            }
            Self::TickUnrecorded { cron_job, slot } => write!(
                f,
                "its TTL has expired, but it stays until the status of CronJob {cron_job} records its slot {slot:.0}"
            ),
            Self::AsksForCronJob { cron_job } => {
                write!(
                    f,
                    "its TTL has expired, and CronJob {cron_job} is read from the server first"
                )
            }
            Self::FinishTimeUnknown => {
                f.write_str("it has finished, but its status has no valid finish time, so it stays")
            }
            Self::TtlOutOfRange { ttl } => write!(
                f,
                "ttlSecondsAfterFinished is {ttl}, which is not a number of seconds from 0 to 2147483647 that ends before \
                the year 10000, so it stays"
            ),
        }
    }
}

// === impl RetentionSpan ===

impl RetentionSpan {
    fn of(end: JobExpiry) -> Self {
        Self {
            finish: end.finish,
            expiry: end.expiry,
            verb: if end.is_aborted {
                "was aborted"
            } else {
                "finished"
            },
        }
    }
}

/// Writes `it finished at …, and its TTL of 5 s`.
impl fmt::Display for RetentionSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secs = self.expiry.duration_since(self.finish).as_secs();
        let Self {
            finish, verb: did, ..
        } = self;
        write!(f, "it {did} at {finish:.0}, and its TTL of {secs} s")
    }
}
