//! Why a finished Job goes or stays, as values with a sentence each.

use std::fmt;

use jiff::Timestamp;

use super::index::End;
use crate::runtime::controller::DecisionReason;

/// Why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Nothing is known about it that anything would follow from.
    Unknown,
    /// It is being deleted already.
    Deleting,
    /// It has not finished.
    Unfinished,
    /// It has no TTL.
    NoTtl,
    /// Its delete was acknowledged.
    Going,
    /// Its time has not come.
    Waits(Span),
    /// The same, and it says that it finished in the future.
    FinishInFuture(Span),
    /// Its time has come.
    Expired(Span),
    /// Its time has come, and it was aborted.
    AbortedLongAgo(Span),
    /// Its time has come, and the status of its CronJob does not tell its slot yet.
    TickUnrecorded {
        /// The CronJob's name.
        cron_job: String,
        /// The slot.
        slot: Timestamp,
    },
    /// Its time has come, and nobody has shown its CronJob.
    AsksForCronJob {
        /// The CronJob's name.
        cron_job: String,
    },
    /// It has finished, and does not say when.
    FinishTimeUnknown,
    /// Its TTL makes no sense.
    TtlOutOfRange {
        /// What is written there.
        ttl: Box<str>,
    },
}

/// From the finish to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// When it finished, or was aborted.
    pub finish: Timestamp,
    /// When its time is over.
    pub expire: Timestamp,
    /// What it did at `finish`.
    pub did: &'static str,
}

// === impl Reason ===

impl Reason {
    pub(super) fn waits(end: End, now: Timestamp) -> Self {
        let span = Span::of(end);
        if end.finish > now {
            Self::FinishInFuture(span)
        } else {
            Self::Waits(span)
        }
    }

    pub(super) fn over(end: End) -> Self {
        let span = Span::of(end);
        if end.is_aborted {
            Self::AbortedLongAgo(span)
        } else {
            Self::Expired(span)
        }
    }
}

impl DecisionReason for Reason {
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

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("nothing that would follow from it is known about it"),
            Self::Deleting => f.write_str("it is being deleted already"),
            Self::Unfinished => f.write_str("it has not finished"),
            Self::NoTtl => f.write_str("it has no ttlSecondsAfterFinished"),
            Self::Going => f.write_str("its delete was acknowledged"),
            Self::Waits(span) => write!(f, "{span} are over at {:.0}", span.expire),
            Self::FinishInFuture(span) => write!(
                f,
                "{span} are over at {:.0}; by our clock that finish is still to come",
                span.expire
            ),
            Self::Expired(span) | Self::AbortedLongAgo(span) => {
                write!(f, "{span} are over since {:.0}", span.expire)
            }
            Self::TickUnrecorded { cron_job, slot } => write!(
                f,
                "its time is over, and it stays until the CronJob {cron_job} tells its slot {slot:.0} in its status"
            ),
            Self::AsksForCronJob { cron_job } => {
                write!(
                    f,
                    "its time is over, and it is asked whether the CronJob {cron_job} is there"
                )
            }
            Self::FinishTimeUnknown => {
                f.write_str("it has finished, and its status does not say when, so it stays")
            }
            Self::TtlOutOfRange { ttl } => write!(
                f,
                "ttlSecondsAfterFinished is {ttl}, which is no number of seconds from 0 to 2147483647 that ends before \
                 the year 10000, so it stays"
            ),
        }
    }
}

// === impl Span ===

impl Span {
    fn of(end: End) -> Self {
        Self {
            finish: end.finish,
            expire: end.expire,
            did: if end.is_aborted {
                "was aborted"
            } else {
                "finished"
            },
        }
    }
}

/// `it finished at …, and the 5 s that it stays after that`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secs = self.expire.duration_since(self.finish).as_secs();
        let Self { finish, did, .. } = self;
        write!(
            f,
            "it {did} at {finish:.0}, and the {secs} s that it stays after that"
        )
    }
}
