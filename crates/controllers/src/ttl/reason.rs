//! The reason of each decision of a TTL controller, with an identifier and a sentence. thiserror formats the
//! sentences, although no reason is an error.

use jiff::Timestamp;

use super::index::JobExpiry;
use crate::runtime::controller::DecisionReason;

/// The reason of a decision about a Job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TtlReason {
    #[error("no watch shows it, or it does not expire")]
    Unknown,
    #[error("it is being deleted already")]
    Deleting,
    #[error("it has not finished")]
    Unfinished,
    #[error("it has no ttlSecondsAfterFinished")]
    NoTtl,
    #[error("its delete was acknowledged")]
    Going,
    #[error("{0} expires at {expiry:.0}", expiry = .0.expiry)]
    Waits(RetentionSpan),
    #[error("{0} expires at {expiry:.0}; by our clock the finish time is in the future", expiry = .0.expiry)]
    FinishInFuture(RetentionSpan),
    #[error("{0} expired at {expiry:.0}", expiry = .0.expiry)]
    Expired(RetentionSpan),
    /// It was aborted longer ago than `--ttl-after-aborted` and its TTL.
    #[error("{0} expired at {expiry:.0}", expiry = .0.expiry)]
    AbortedLongAgo(RetentionSpan),
    #[error(
        "its TTL has expired, but it stays until the status of CronJob {cron_job} records its slot {slot:.0}{}",
        at_latest(*until)
    )]
    TickUnrecorded {
        cron_job: String,
        slot: Timestamp,
        /// When the slot can no longer be served, if that time is known.
        until: Option<Timestamp>,
    },
    /// No feed shows its CronJob.
    #[error("its TTL has expired, and CronJob {cron_job} is read from the server first")]
    AsksForCronJob { cron_job: String },
    #[error("it has finished, but its status has no valid finish time, so it stays")]
    FinishTimeUnknown,
    #[error(
        "ttlSecondsAfterFinished is {ttl}, which is not a number of seconds from 0 to 2147483647 that ends before \
        the year 10000, so it stays"
    )]
    TtlOutOfRange {
        /// The TTL as the object has it.
        ttl: Box<str>,
    },
}

/// The time from the finish of a Job to its expiry: `it finished at …, and its TTL of 5 s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it {verb} at {finish:.0}, and its TTL of {} s", expiry.duration_since(*finish).as_secs())]
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

fn at_latest(until: Option<Timestamp>) -> String {
    until.map_or(String::new(), |until| {
        format!(", at the latest until {until:.0}")
    })
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
