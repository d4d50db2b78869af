//! Which failed requests are logged, so that an operator sees every failure once and a permanent one does not fill the
//! log.
//!
//! The first failure of an object with a cause (verb and HTTP code) is logged at once; while it lasts, it is logged
//! again after ten seconds, then at twice the interval each time. What is left out is counted and said in the next line.

use std::collections::BTreeMap;
use std::time::Duration;

use caretaker_machinery::clock::SteadyTime;

use super::report::TargetName;
use crate::runtime::call::ApiCall;
use crate::runtime::kind::KindCatalog;

/// From the first line of a failure to the second.
const INTERVAL_MIN: Duration = Duration::from_secs(10);

/// The longest time between two lines of a failure that lasts.
const INTERVAL_MAX: Duration = Duration::from_secs(600);

/// How many failures are remembered one by one: enough for every object of a broken webhook that an operator looks at.
/// What fails beyond that is counted and logged as one number per [`INTERVAL_MIN`].
const FAILURES_MAX: usize = 1_000;

/// The failures of one driver's requests that last.
#[derive(Debug, Default)]
pub(super) struct FailureLog {
    failures: BTreeMap<FailureCause, LoggedFailure>,
    /// Failures that found no room since the last line about them, and when that line was.
    untracked: u64,
    untracked_logged: Option<SteadyTime>,
}

/// One object and the way in which its requests fail.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FailureCause {
    /// The object as in `deployments.apps shop/web`.
    pub(super) object: String,
    pub(super) verb: &'static str,
    /// The HTTP code; nothing if there was no answer.
    pub(super) code: Option<u16>,
}

/// What is to be logged about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureLine {
    /// A line about this failure, with how many of its kind were left out since the last line.
    Full { repeated: u64 },
    /// A line about this many failures of objects that are not remembered one by one.
    Summary { failures: u64 },
    /// Nothing: it was logged a short while ago.
    None,
}

#[derive(Debug)]
struct LoggedFailure {
    interval: Duration,
    due: SteadyTime,
    repeated: u64,
    last_seen: SteadyTime,
}

// === impl FailureCause ===

impl FailureCause {
    pub(super) fn of(call: &ApiCall, catalog: &KindCatalog, code: Option<u16>) -> Self {
        Self {
            object: TargetName(call, catalog).to_string(),
            verb: call.verb(),
            code,
        }
    }
}

// === impl FailureLog ===

impl FailureLog {
    /// Takes note of a failed request.
    pub(super) fn failed(&mut self, cause: FailureCause, now: SteadyTime) -> FailureLine {
        if let Some(known) = self.failures.get_mut(&cause) {
            known.last_seen = now;
            if now < known.due {
                known.repeated += 1;
                return FailureLine::None;
            }
            known.interval = (known.interval * 2).min(INTERVAL_MAX);
            known.due = now.later(known.interval);
            let repeated = std::mem::take(&mut known.repeated);
            return FailureLine::Full { repeated };
        }
        if self.failures.len() >= FAILURES_MAX {
            return self.crowded(cause, now);
        }
        self.remember(cause, now);
        FailureLine::Full { repeated: 0 }
    }

    /// Forgets the failures of an object that a request succeeded for.
    pub(super) fn succeeded(&mut self, object: &str) {
        let first = FailureCause {
            object: object.to_owned(),
            verb: "",
            code: None,
        };
        while let Some((cause, _)) = self.failures.range(&first..).next()
            && cause.object == object
        {
            let cause = cause.clone();
            self.failures.remove(&cause);
        }
    }

    /// Whether any failure is remembered.
    pub(super) fn is_empty(&self) -> bool {
        self.failures.is_empty()
    }

    /// There is no room: what has not failed for a while makes some, or the failure is only counted.
    fn crowded(&mut self, cause: FailureCause, now: SteadyTime) -> FailureLine {
        self.untracked += 1;
        let is_recent = |since: SteadyTime| now.since(since) < INTERVAL_MIN;
        if self.untracked_logged.is_some_and(is_recent) {
            return FailureLine::None;
        }
        self.untracked_logged = Some(now);
        self.failures
            .retain(|_, known| now.since(known.last_seen) < INTERVAL_MAX);
        let failures = std::mem::take(&mut self.untracked);
        if self.failures.len() < FAILURES_MAX {
            self.remember(cause, now);
            return FailureLine::Full {
                repeated: failures - 1,
            };
        }
        FailureLine::Summary { failures }
    }

    fn remember(&mut self, cause: FailureCause, now: SteadyTime) {
        let failure = LoggedFailure {
            interval: INTERVAL_MIN,
            due: now.later(INTERVAL_MIN),
            repeated: 0,
            last_seen: now,
        };
        self.failures.insert(cause, failure);
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::*;

    fn cause(object: &str) -> FailureCause {
        FailureCause {
            object: object.to_owned(),
            verb: "delete",
            code: Some(500),
        }
    }

    fn at(secs: i64) -> SteadyTime {
        SteadyTime::at(Timestamp::UNIX_EPOCH).after(SignedDuration::from_secs(secs))
    }

    #[test]
    fn a_lasting_failure_is_logged_at_growing_intervals() {
        let mut log = FailureLog::default();
        let logged: Vec<i64> = (0..2_000)
            .filter(|&secs| log.failed(cause("a"), at(secs)) != FailureLine::None)
            .collect();
        assert_eq!(logged, [0, 10, 30, 70, 150, 310, 630, 1230, 1830]);
    }

    #[test]
    fn left_out_failures_are_counted() {
        let mut log = FailureLog::default();
        for _ in 0..5 {
            log.failed(cause("a"), at(0));
        }
        let line = log.failed(cause("a"), at(10));
        assert_eq!(line, FailureLine::Full { repeated: 4 });
    }

    #[test]
    fn another_cause_and_another_object_are_logged_at_once() {
        let mut log = FailureLog::default();
        let forbidden = FailureCause {
            code: Some(403),
            ..cause("a")
        };
        for cause in [cause("a"), forbidden, cause("b")] {
            assert_eq!(log.failed(cause, at(0)), FailureLine::Full { repeated: 0 });
        }
    }

    #[test]
    fn a_success_starts_over() {
        let mut log = FailureLog::default();
        log.failed(cause("a"), at(0));
        log.succeeded("a");
        assert!(log.is_empty());
        assert_eq!(
            log.failed(cause("a"), at(1)),
            FailureLine::Full { repeated: 0 }
        );
    }

    #[test]
    fn more_failures_than_are_remembered_become_one_line() {
        let mut log = FailureLog::default();
        for number in 0..FAILURES_MAX {
            log.failed(cause(&number.to_string()), at(0));
        }
        let lines: Vec<FailureLine> = (0..30)
            .map(|number| log.failed(cause(&format!("more-{number}")), at(number)))
            .collect();
        let summaries: Vec<_> = lines
            .iter()
            .filter(|line| **line != FailureLine::None)
            .collect();
        assert_eq!(
            summaries,
            [
                &FailureLine::Summary { failures: 1 },
                &FailureLine::Summary { failures: 10 },
                &FailureLine::Summary { failures: 10 },
            ]
        );
        assert_eq!(log.failures.len(), FAILURES_MAX);
        // What has not failed for a long time makes room.
        let line = log.failed(cause("late"), at(1_000));
        assert!(matches!(line, FailureLine::Full { .. }), "{line:?}");
    }
}
