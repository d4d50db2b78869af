//! Writes that the server accepts and that have to be repeated, because an admission webhook or another client undoes
//! them.
//!
//! The driver remembers the last accepted write of each key. If the next write of the key is the same, it is no news for
//! the server: it waits for a backoff that doubles each time, as after a failure. Only this write waits. The key is still
//! decided when something changes, and another write of it is sent at once. Upstream's workers forget a key after a
//! successful write, and repeat it as fast as the watch shows that it was undone.

use std::time::Duration;

use caretaker_machinery::clock::SteadyTime;

use super::failure_log::{FailureCause, FailureLine, FailureLog};
use crate::runtime::bounded_map::BoundedMap;
use crate::runtime::call::ApiCall;
use crate::runtime::queue::RETRY_MIN;

/// How many keys are remembered whose last write was accepted once. A webhook undoes a write before many others follow.
const ACCEPTED_MAX: usize = 1_000;

/// How many keys are remembered whose last write was accepted more than once.
const REPEATED_MAX: usize = 10_000;

/// How many times a write is accepted before that is reported. A user may undo a write once or twice.
const REPORTED_FROM: u32 = 3;

/// A write that is repeated later than this many times the longest backoff is a new one.
const FORGOTTEN_AFTER: u32 = 2;

/// The last accepted writes of a driver's keys.
pub(super) struct RepeatedWrites<K> {
    accepted: BoundedMap<K, AcceptedWrite>,
    /// Keys whose last write was repeated. Kept apart, so that a cascade of other writes does not displace them.
    repeated: BoundedMap<K, AcceptedWrite>,
    backoff_max: Duration,
    log: FailureLog,
}

/// A write that the server accepted.
#[derive(Debug)]
struct AcceptedWrite {
    call: ApiCall,
    /// When it was accepted last.
    at: SteadyTime,
    /// How many times in a row it was accepted.
    times: u32,
    /// Whether the key needed nothing afterwards. If it needs the write again, the write was undone since.
    had_effect: bool,
}

/// A write that was accepted several times in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WriteRepetition {
    pub(super) times: u32,
    /// The time until it may be sent again.
    pub(super) wait: Duration,
}

// === impl RepeatedWrites ===

impl<K: Clone + Ord> RepeatedWrites<K> {
    pub(super) fn new(backoff_max: Duration) -> Self {
        Self {
            accepted: BoundedMap::new(ACCEPTED_MAX),
            repeated: BoundedMap::new(REPEATED_MAX),
            backoff_max,
            log: FailureLog::default(),
        }
    }

    /// When a write may be sent, if it is the same as the last accepted one of its key.
    pub(super) fn not_before(
        &self,
        key: &K,
        call: &ApiCall,
        now: SteadyTime,
    ) -> Option<SteadyTime> {
        let earlier = self.earlier(key, call, now)?;
        // A user may undo a write that had its effect: the first repetition does not wait.
        let failures = earlier.times - u32::from(earlier.had_effect);
        Some(earlier.at.later(self.backoff(failures)))
    }

    /// Records that a key needs nothing now.
    pub(super) fn rests(&mut self, key: &K) {
        for writes in [&mut self.accepted, &mut self.repeated] {
            if let Some(write) = writes.get_mut(key) {
                write.had_effect = true;
            }
        }
    }

    /// Remembers a write that the server accepted. Returns its repetitions if they are worth a report.
    pub(super) fn accepted(
        &mut self,
        key: &K,
        call: &ApiCall,
        now: SteadyTime,
    ) -> Option<WriteRepetition> {
        let times = self.earlier(key, call, now).map_or(0, |write| write.times) + 1;
        let write = AcceptedWrite {
            call: call.clone(),
            at: now,
            times,
            had_effect: false,
        };
        self.repeated.remove(key);
        if times == 1 {
            self.accepted.insert(key.clone(), write);
        } else {
            self.accepted.remove(key);
            self.repeated.insert(key.clone(), write);
        }
        (times >= REPORTED_FROM).then(|| WriteRepetition {
            times,
            wait: self.backoff(times),
        })
    }

    /// Whether a repetition is to be logged now.
    pub(super) fn log_line(&mut self, cause: FailureCause, now: SteadyTime) -> FailureLine {
        self.log.failed(cause, now)
    }

    fn earlier(&self, key: &K, call: &ApiCall, now: SteadyTime) -> Option<&AcceptedWrite> {
        let last = self.repeated.get(key).or_else(|| self.accepted.get(key))?;
        let is_recent = now.since(last.at) < self.backoff_max.saturating_mul(FORGOTTEN_AFTER);
        (is_recent && call.is_same_write(&last.call)).then_some(last)
    }

    /// The wait after a write was accepted without effect this many times in a row.
    fn backoff(&self, failures: u32) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else {
            return Duration::ZERO;
        };
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        RETRY_MIN.saturating_mul(factor).min(self.backoff_max)
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use serde_json::json;

    use super::*;
    use crate::runtime::call::{CallTarget, JudgedVersion, PatchForm};
    use crate::runtime::kind::KindId;
    use crate::runtime::record::Revision;

    fn at(millis: i64) -> SteadyTime {
        SteadyTime::at(Timestamp::UNIX_EPOCH).after(SignedDuration::from_millis(millis))
    }

    fn mk_patch(revision: u64, value: &str) -> ApiCall {
        ApiCall::Patch {
            target: CallTarget::new(KindId(0), "shop", "web"),
            judged: JudgedVersion::new(&"u".into(), &Revision::Number(revision)),
            subresource: None,
            form: PatchForm::Merge,
            patch: json!({ "a": value }),
        }
    }

    #[test]
    fn the_same_write_of_a_later_version_backs_off() {
        let mut writes = RepeatedWrites::new(Duration::from_secs(60));
        let mut now = at(0);
        let mut waits = Vec::new();
        for revision in 1..=16 {
            let patch = mk_patch(revision, "b");
            let due = writes.not_before(&1, &patch, now).unwrap_or(now);
            waits.push(due.since(now).as_millis());
            now = due;
            writes.accepted(&1, &patch, now);
        }
        let doubling = (0..14).map(|power| 5 << power);
        let expected: Vec<u128> = [0].into_iter().chain(doubling).chain([60_000]).collect();
        assert_eq!(waits, expected);
    }

    #[test]
    fn a_write_that_had_its_effect_waits_from_the_second_repetition_on() {
        let mut writes = RepeatedWrites::new(Duration::from_secs(60));
        let mut waits = Vec::new();
        for revision in 1..=4 {
            let patch = mk_patch(revision, "b");
            let due = writes.not_before(&1, &patch, at(0)).unwrap_or(at(0));
            waits.push(due.since(at(0)).as_millis());
            writes.accepted(&1, &patch, at(0));
            writes.rests(&1);
        }
        assert_eq!(waits, [0, 0, 5, 10]);
    }

    #[test]
    fn another_write_and_another_key_do_not_wait() {
        let mut writes = RepeatedWrites::new(Duration::from_secs(60));
        for revision in 1..=5 {
            writes.accepted(&1, &mk_patch(revision, "b"), at(0));
        }
        assert!(writes.not_before(&1, &mk_patch(6, "b"), at(0)).is_some());
        assert_eq!(writes.not_before(&1, &mk_patch(6, "c"), at(0)), None);
        assert_eq!(writes.not_before(&2, &mk_patch(6, "b"), at(0)), None);
        // After another write the first one is new again.
        writes.accepted(&1, &mk_patch(6, "c"), at(0));
        assert_eq!(writes.not_before(&1, &mk_patch(7, "b"), at(0)), None);
    }

    #[test]
    fn a_write_is_forgotten_after_two_of_the_longest_waits() {
        let mut writes = RepeatedWrites::new(Duration::from_secs(60));
        writes.accepted(&1, &mk_patch(1, "b"), at(0));
        let patch = mk_patch(2, "b");
        assert!(writes.not_before(&1, &patch, at(119_999)).is_some());
        assert_eq!(writes.not_before(&1, &patch, at(120_000)), None);
    }

    #[test]
    fn the_third_acceptance_is_reported() {
        let mut writes = RepeatedWrites::new(Duration::from_secs(60));
        let reported: Vec<Option<u32>> = (1..=4)
            .map(|revision| writes.accepted(&1, &mk_patch(revision, "b"), at(0)))
            .map(|repetition| repetition.map(|repetition| repetition.times))
            .collect();
        assert_eq!(reported, [None, None, Some(3), Some(4)]);
    }

    #[test]
    fn other_writes_do_not_displace_a_repeated_one() {
        let mut writes = RepeatedWrites::new(Duration::from_secs(60));
        for key in [0, 0] {
            writes.accepted(&key, &mk_patch(1, "b"), at(0));
        }
        for key in 1..=2 * ACCEPTED_MAX {
            writes.accepted(&key, &mk_patch(1, "b"), at(0));
        }
        assert!(writes.not_before(&0, &mk_patch(2, "b"), at(0)).is_some());
        assert_eq!(writes.not_before(&1, &mk_patch(2, "b"), at(0)), None);
    }
}
