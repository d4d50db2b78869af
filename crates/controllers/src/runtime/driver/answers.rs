//! What follows from an answer: the controller observes it, and its key is decided again, read again or backed off.
//!
//! Every answer also carries the server's time, which the driver compares with its own.

use jiff::Timestamp;

use super::Driver;
use super::clock_skew::ServerTime;
use super::in_flight::{CONFLICTS_AT_ONCE, FinishedCall, KeyProgress, PlannedCall};
use crate::runtime::call::{ApiAnswer, ApiCall, CallFailure, FailureKind};
use crate::runtime::controller::{AfterWrite, AnsweredCall, Controller, DriverStep};
use crate::runtime::queue::ReleaseCause;

// === impl Driver ===

impl<C: Controller> Driver<C> {
    /// Passes an answer to the controller as an observation, then decides the same key again.
    pub(super) fn answered(&mut self, finished: FinishedCall<C>) {
        let now = self.clock.now();
        self.compare_clocks(finished.performed.date, now);
        let time = self.clock.controller_time(now);
        let catalog = self.effects.catalog();
        self.report.answered(&finished, &catalog, now);
        let FinishedCall {
            key,
            call,
            because,
            mut progress,
            performed,
            ..
        } = finished;
        let answer = performed.answer;
        let step = DriverStep::Answered {
            key: &key,
            call: &call,
            answer: &answer,
            because: &because,
            now: time,
        };
        self.controller.measure(&step, &self.report.metrics);
        let notes = self.controller.answered(AnsweredCall {
            key: &key,
            call: &call,
            answer: &answer,
            now: time,
            wake: &mut self.wake,
        });
        for note in notes {
            self.report.emit(note);
        }
        let has_failed = matches!(answer, ApiAnswer::Failed(_));
        // A failure must not wake its own key, because that key backs off.
        self.queue_woken(has_failed.then_some(&key), now);
        if self.is_stopping {
            return;
        }
        progress.in_vain = None;
        progress.read = call.is_read().then(|| call.target().clone());
        if !call.is_read() && !has_failed {
            // The requests from now on belong to the next write.
            progress.requests = 0;
        }
        match answer {
            ApiAnswer::Failed(failure)
                if failure.kind == FailureKind::Conflict && !call.is_read() =>
            {
                let planned = PlannedCall {
                    key,
                    call,
                    because,
                    progress,
                };
                self.read_again(planned, now);
            }
            ApiAnswer::Failed(failure) => self.failed(&key, &call, &failure, now),
            ApiAnswer::Object(_) | ApiAnswer::Done | ApiAnswer::Absent(_) => {
                self.continue_after(key, &call, progress, now);
            }
        }
    }

    /// Decides the key of a successful request again: at once, or after a write as the controller wants it.
    fn continue_after(
        &mut self,
        key: C::Key,
        call: &ApiCall,
        progress: KeyProgress<C::Key>,
        now: Timestamp,
    ) {
        self.queue.release(&key, ReleaseCause::Answered, now);
        self.queue.clear_dirty(&key);
        let is_last = self.controller.after_write() == AfterWrite::EndOfQueue;
        if is_last && !call.is_read() {
            self.queue.add(key.clone(), now);
            self.stop_work(&key, now);
        } else {
            self.decide(key, progress, now);
        }
    }

    /// Backs off the key of a failed request, or lets it wait as long as the server asked for.
    fn failed(&mut self, key: &C::Key, call: &ApiCall, failure: &CallFailure, now: Timestamp) {
        let wait = match failure.retry_after {
            Some(wait) => {
                self.queue.retry_after(key, wait, now);
                wait
            }
            None => self.queue.retry(key, now),
        };
        let catalog = self.effects.catalog();
        self.report.failed(call, failure, wait, &catalog, now);
        self.stop_work(key, now);
    }

    /// After a conflict the judged version is stale: reads the object, so that the key is decided again with its answer.
    ///
    /// DEVIATION(conflicts-judged-again): upstream's collector deletes once more without a version if the owners have not
    /// changed, and so can override what a user has just asked for.
    fn read_again(&mut self, mut planned: PlannedCall<C>, now: Timestamp) {
        planned.progress.conflicts += 1;
        if planned.progress.conflicts > CONFLICTS_AT_ONCE {
            self.report.starved(&planned.call, &self.effects.catalog());
            self.queue.retry_undisturbed(&planned.key, now);
            self.stop_work(&planned.key, now);
            return;
        }
        let target = planned.call.target().clone();
        planned.call = ApiCall::Get { target };
        self.send(planned);
    }

    /// Takes the answer to a request for the server's time. `None`: the wait ended because a key is due.
    pub(super) fn server_time(&mut self, time: Option<ServerTime>) {
        let Some(time) = time else {
            return;
        };
        if let Err(error) = &time {
            let controller = self.report.name;
            tracing::debug!(controller, %error, "cannot read the server's time");
        }
        let date = self.clock.answered(&time);
        self.compare_clocks(date, self.clock.now());
    }

    /// Compares the server's time in an answer with ours. A new correction moves all times that the controller asked
    /// for, so all of its timers expire.
    fn compare_clocks(&mut self, date: Option<Timestamp>, now: Timestamp) {
        if let Some(offset) = self.clock.note(date, now) {
            let (controller, offset_secs) = (self.report.name, offset.as_secs());
            if offset.is_zero() {
                tracing::info!(controller, "server clock agrees again; using our time");
            } else {
                tracing::warn!(
                    controller,
                    offset_secs,
                    "server clock differs; using server time"
                );
            }
            self.queue.expire_timers(now);
        }
    }
}
