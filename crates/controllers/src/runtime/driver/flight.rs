//! Requests on their way: who may send one, and what follows from its answer.
//!
//! A kind that is slow leaves slots to the others. An answer is an observation, after which the same key is decided again;
//! after a conflict the object is read first, because what was judged is not what there is.

use std::time::Duration;

use jiff::Timestamp;
use tokio::task::JoinError;
use tokio::time::Instant;

use super::Driver;
use crate::runtime::call::{Answer, Call, FailureKind, Target};
use crate::runtime::controller::{AfterWrite, CallAnswer, Controller, DriverStep};
use crate::runtime::effects::Performed;
use crate::runtime::kind::KindId;
use crate::runtime::queue::{Release, later};

/// How often in a row an object may have changed under a decision before its key backs off. An object that somebody
/// rewrites every second still gets its turn; one that is rewritten all the time does not make us ask all the time.
pub const CONFLICTS_AT_ONCE: u32 = 5;

/// A kind with a request that takes longer than this is slow, until one is answered sooner. Requests to a healthy server
/// take a hundredth of it.
const SLOW: Duration = Duration::from_secs(1);

/// A slow kind may have one in so many of the slots, or all but one of a few: one that hangs must leave room for others.
const SLOW_SHARE: usize = 4;

/// How long a key waits for whose kind there is no room.
const CROWDED_WAIT: Duration = Duration::from_secs(1);

/// Between two such keys, so that a hundred thousand of them do not keep us busy with putting them off.
const CROWDED_SPACING: Duration = Duration::from_micros(250);

/// What happened to a key since it was taken out of the queue.
#[derive(Debug, Clone)]
pub(super) struct Trip<K> {
    pub(super) in_vain: Option<K>,
    /// What was read just now, if the last answer was about a read.
    pub(super) read: Option<Target>,
    pub(super) conflicts: u32,
    pub(super) requests: u32,
}

/// A request that has its answer, or never will.
pub(super) struct Landed<C: Controller> {
    pub(super) key: C::Key,
    pub(super) call: Call,
    pub(super) because: C::Reason,
    pub(super) trip: Trip<C::Key>,
    pub(super) number: u64,
    pub(super) took: Duration,
    pub(super) performed: Performed,
}

// === impl Driver ===

impl<C: Controller> Driver<C> {
    /// Whether a kind may have one more slot. One object whose requests hang costs the others of its kind no more than its
    /// slot; only if the last answer was slow they all count.
    pub(super) fn has_room(&self, kind: KindId) -> bool {
        let is_slow = self.slow.contains(&kind);
        let sent = self.sent.values();
        let slow = sent.filter(|(at, to)| *to == kind && (is_slow || at.elapsed() > SLOW));
        slow.count() < slow_share(self.workers)
    }

    /// There is no room for a key. That is not its fault, and whoever waits for it goes on waiting.
    pub(super) fn put_off(&mut self, key: &C::Key, now: Timestamp) {
        let until = later(now, CROWDED_WAIT).max(self.crowded_until);
        self.crowded_until = later(until, CROWDED_SPACING);
        self.queue.put_off(key, until);
        self.stop_work(key, now);
    }

    pub(super) fn send(
        &mut self,
        key: C::Key,
        call: Call,
        because: C::Reason,
        mut trip: Trip<C::Key>,
    ) {
        self.requests += 1;
        trip.requests += 1;
        let number = self.requests;
        let start = Instant::now();
        self.sent.insert(number, (start, call.target().kind));
        let effects = self.effects.clone();
        self.flight.spawn(async move {
            let performed = effects.perform(&call).await;
            Landed {
                key,
                call,
                because,
                trip,
                number,
                took: start.elapsed(),
                performed,
            }
        });
    }

    /// An answer is an observation; then the same key is decided again.
    pub(super) fn land(&mut self, landed: Result<Landed<C>, JoinError>) {
        let landed = landed.unwrap_or_else(|error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => unreachable!("no request is given up while its driver works: {error}"),
        });
        let now = self.clock.now();
        self.sent.remove(&landed.number);
        let kind = landed.call.target().kind;
        if landed.took > SLOW {
            self.slow.insert(kind);
        } else {
            self.slow.remove(&kind);
        }
        self.compare_clocks(landed.performed.date, now);
        self.account(&landed, now);
        let step = DriverStep::Answered {
            key: &landed.key,
            call: &landed.call,
            answer: &landed.performed.answer,
            because: &landed.because,
            now: self.told_time(now),
        };
        self.controller.measure(&step, &self.metrics);
        let Landed {
            key,
            call,
            because,
            mut trip,
            performed: Performed { answer, .. },
            ..
        } = landed;
        let has_failed = matches!(answer, Answer::Failed(_));
        let notes = self.controller.answered(CallAnswer {
            key: &key,
            call: &call,
            answer: &answer,
            now: self.told_time(now),
            wake: &mut self.wake,
        });
        for note in notes {
            self.events.tell(self.reporter, note);
        }
        // A failure must not wake its own key: that is what the backoff is for.
        self.take_in(has_failed.then_some(&key), now);
        if self.is_stopping {
            return;
        }
        trip.in_vain = None;
        trip.read = call.is_read().then(|| call.target().clone());
        if !call.is_read() && !has_failed {
            // What comes now is another write's.
            trip.requests = 0;
        }
        match answer {
            Answer::Failed(failure) if failure.kind == FailureKind::Conflict && !call.is_read() => {
                self.read_again(key, &call, because, trip, now);
            }
            Answer::Failed(failure) => {
                match failure.retry_after {
                    Some(wait) => self.queue.retry_after(&key, wait, now),
                    None => drop(self.queue.retry(&key, now)),
                }
                self.stop_work(&key, now);
            }
            Answer::Object(_) | Answer::Done | Answer::Absent(_) => {
                self.queue.release(&key, Release::Answered, now);
                self.queue.renew(&key);
                let is_last = self.controller.after_write() == AfterWrite::EndOfQueue;
                if is_last && !call.is_read() {
                    self.queue.add(key.clone(), now);
                    self.stop_work(&key, now);
                } else {
                    self.decide(key, trip, now);
                }
            }
        }
    }

    /// After a conflict: what was judged is not what there is. It is read, and judged again at once.
    ///
    /// DEVIATION(conflicts-judged-again): upstream's collector deletes once more without a version if the owners have not
    /// changed, and so can override what a user has just asked for.
    fn read_again(
        &mut self,
        key: C::Key,
        call: &Call,
        because: C::Reason,
        mut trip: Trip<C::Key>,
        now: Timestamp,
    ) {
        trip.conflicts += 1;
        if trip.conflicts > CONFLICTS_AT_ONCE {
            self.account_starved();
            self.queue.retry_in_peace(&key, now);
            self.stop_work(&key, now);
            return;
        }
        let target = call.target().clone();
        self.send(key, Call::Get { target }, because, trip);
    }
}

/// How many slots a slow kind may have.
fn slow_share(workers: usize) -> usize {
    let all_but_one = workers.saturating_sub(1).min(SLOW_SHARE);
    (workers / SLOW_SHARE).max(all_but_one).max(1)
}
