//! Asks one controller for decisions and sends their requests: one task per controller.
//!
//! The driver owns the controller and its queue, so that no lock exists that could be held while waiting. Every turn it
//! fills free slots (take a key, decide it, send its request) and then waits for the next change, answer, time or
//! question. Safety sits here, in [`Driver::gate`], between a decision and the API, once for all controllers. A panic in
//! a controller ends its driver: the manager starts another one with an empty index, never with half of one.
//!
//! - [`options`]: what can be chosen. `handle`: how other tasks query the controller.
//! - `in_flight`: requests without an answer. `watched_kinds`: the states of kinds.
//! - [`clock_skew`]: the controller's time.
//! - `report`: evidence, metrics and Events; `failure_log`: which failures are logged; [`liveness`]: what `/livez` reads.

pub mod clock_skew;
mod failure_log;
mod handle;
mod in_flight;
pub mod liveness;
pub mod options;
mod report;
#[cfg(test)]
mod stepping;
mod watched_kinds;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tracing::Instrument as _;

pub use handle::{DriverHandle, DriverQuery};
pub use in_flight::CONFLICTS_AT_ONCE;
pub use options::{DriverEnd, DriverMode, DriverOptions, DriverParts};

use super::call::{ApiAnswer, ApiCall, CallFailure, CallTarget, FailureKind, JudgedVersion};
use super::controller::{
    AfterWrite, AnsweredCall, Controller, DriverStep, NextStep, ObservedChange, WakeList,
};
use super::effects::Effects;
use super::events::EventSink;
use super::queue::{DueKey, ReleaseCause, RetryLimits, WorkQueue};
use clock_skew::{DriverClock, ServerTime};
use in_flight::{FinishedCall, InFlight, KeyProgress, PlannedCall};
use liveness::DriverLiveness;
use report::{DriverReport, ReportTargets, TargetName};
use watched_kinds::WatchedKinds;

/// How many changes are taken per turn. One would starve answers as soon as several feeds are busy, all would starve
/// everything else.
const CHANGES_AT_ONCE: usize = 256;

/// How many decisions are made per turn, so that a long queue of keys that need no request does not hold up the rest.
const DECISIONS_AT_ONCE: usize = 1_024;

/// How many questions are answered per turn beyond the one that woke the driver.
const ASKS_AT_ONCE: usize = 16;

/// How many questions may wait.
const ASKS_WAITING_MAX: usize = 64;

/// How long a stopping driver waits for the requests it has sent.
pub const SHUTDOWN_MAX: Duration = Duration::from_secs(10);

/// One running controller.
pub struct Driver<C: Controller> {
    controller: C,
    changes: mpsc::Receiver<ObservedChange>,
    asks: mpsc::Receiver<DriverQuery<C>>,
    handle: DriverHandle<C>,
    effects: Arc<Effects>,
    clock: DriverClock,
    queue: WorkQueue<C::Key>,
    wake: WakeList<C::Key>,
    in_flight: InFlight<C>,
    kinds: WatchedKinds,
    report: DriverReport<C::Key>,
    mode: DriverMode,
    /// The last write of each key that a dry run has recorded.
    held_back: BTreeMap<C::Key, (CallTarget, Option<JudgedVersion>)>,
    is_stopping: bool,
}

/// What becomes of a decision to send a request.
enum WriteGate {
    Pass,
    /// Not now; the key backs off.
    Later,
    /// Not at all, until something changes.
    Rest,
}

// === impl Driver ===

impl<C: Controller> Driver<C> {
    /// A driver for `controller`, fed by `changes`.
    #[must_use]
    pub fn new(controller: C, changes: mpsc::Receiver<ObservedChange>, parts: DriverParts) -> Self {
        let name = controller.name();
        let options = parts.options;
        let queue_name = options.queue.unwrap_or(name);
        let liveness = DriverLiveness::new(name, queue_name, parts.clock.clone());
        let (asker, asks) = mpsc::channel(ASKS_WAITING_MAX);
        let effects = Arc::new(parts.effects);
        Self {
            controller,
            changes,
            asks,
            handle: DriverHandle::new(asker, liveness.clone()),
            clock: DriverClock::new(parts.clock, options.timing, effects.clone()),
            effects,
            queue: WorkQueue::new(RetryLimits {
                max: options.retry_max,
                bucket: options.retry_bucket,
            }),
            wake: WakeList::default(),
            in_flight: InFlight::new(options.workers),
            kinds: WatchedKinds::default(),
            report: DriverReport::new(ReportTargets {
                name,
                event_source: options.reporter.unwrap_or(name),
                events: match options.mode {
                    DriverMode::Act => parts.events,
                    // An Event is a write, too.
                    DriverMode::DryRun => EventSink::none(),
                },
                evidence: parts.evidence,
                metrics: parts.metrics,
                liveness,
            }),
            mode: options.mode,
            held_back: BTreeMap::new(),
            is_stopping: false,
        }
    }

    /// The handle by which other tasks query the controller.
    #[must_use]
    pub fn handle(&self) -> DriverHandle<C> {
        self.handle.clone()
    }

    /// Works until the manager stops it, or until its feeds are gone. Requests in flight get their time to finish.
    ///
    /// # Panics
    /// When the controller does; nothing of the driver is worth keeping then.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) -> DriverEnd {
        let mut batch = Vec::with_capacity(CHANGES_AT_ONCE);
        let end = loop {
            let has_more = self.fill();
            self.publish();
            let until = self.queue.next_due();
            tokio::select! {
                biased;
                // A manager that is gone means stop, too.
                _ = stop.wait_for(|stop| *stop) => break DriverEnd::Stopped,
                count = self.changes.recv_many(&mut batch, CHANGES_AT_ONCE) => {
                    if count == 0 {
                        break DriverEnd::Unfed;
                    }
                }
                Some(finished) = self.in_flight.next() => self.answered(finished),
                time = self.clock.wait(until) => self.server_time(time),
                Some(ask) = self.asks.recv() => self.answer(ask),
                () = tokio::task::yield_now(), if has_more => {}
            }
            for change in batch.drain(..) {
                self.observe(&change);
            }
            // Everything is looked at every turn, whatever woke the driver.
            while let Some(finished) = self.in_flight.try_next() {
                self.answered(finished);
            }
            for _ in 0..ASKS_AT_ONCE {
                let Ok(ask) = self.asks.try_recv() else { break };
                self.answer(ask);
            }
        };
        self.finish().await;
        end
    }

    /// Waits for the requests in flight, and sends no more.
    async fn finish(&mut self) {
        self.is_stopping = true;
        let last = tokio::time::timeout(SHUTDOWN_MAX, async {
            while let Some(finished) = self.in_flight.next().await {
                self.answered(finished);
            }
        });
        if last.await.is_err() {
            tracing::warn!(
                controller = self.report.name,
                requests = self.in_flight.len(),
                "stopping without the answers to some requests"
            );
        }
        self.publish();
    }

    fn publish(&mut self) {
        self.report.publish(&self.queue, self.in_flight.oldest());
    }

    fn answer(&self, ask: DriverQuery<C>) {
        let now = self.clock.now();
        ask(&self.controller, self.clock.controller_time(now));
    }

    fn observe(&mut self, change: &ObservedChange) {
        if let ObservedChange::Kind(kind, state) = change
            && let Some(kinds) = self.kinds.observe(*kind, *state)
        {
            tracing::info!(controller = self.report.name, kinds, "controller synced");
        }
        let now = self.clock.now();
        let time = self.clock.controller_time(now);
        self.controller.observe(change, time, &mut self.wake);
        self.queue_woken(None, now);
    }

    /// Queues the keys that a change or an answer woke, except one key, unless that is for later.
    fn queue_woken(&mut self, except: Option<&C::Key>, now: Timestamp) {
        let mut wake = std::mem::take(&mut self.wake);
        for (key, at) in wake.drain() {
            let at = at.map_or(now, |at| self.clock.own_time(at));
            if Some(&key) != except || at > now {
                self.queue.add_at(key, at, now);
            }
        }
        // Its room is used again.
        self.wake = wake;
    }

    /// Takes up keys while there are free slots. Returns whether there is more to do at once.
    fn fill(&mut self) -> bool {
        let now = self.clock.now();
        self.queue.promote(now);
        if self.clock.is_unknown(now) {
            return false;
        }
        let mut decisions = 0;
        while self.in_flight.has_free_slot() {
            if decisions == DECISIONS_AT_ONCE {
                return true;
            }
            let Some(due) = self.queue.pop(now) else {
                break;
            };
            decisions += 1;
            self.report.work_started(&due, now);
            let DueKey { key, in_vain, .. } = due;
            self.decide(key, KeyProgress::new(in_vain), now);
        }
        false
    }

    /// Asks the controller what follows for a key in process, and begins with it.
    fn decide(&mut self, key: C::Key, progress: KeyProgress<C::Key>, now: Timestamp) {
        let verdict = self
            .controller
            .decide(&key, self.clock.controller_time(now));
        self.report.emit_new(&key, verdict.notes);
        let step = DriverStep::Decided {
            key: &key,
            next: &verdict.next,
            because: &verdict.because,
        };
        self.controller.measure(&step, &self.report.metrics);
        match verdict.next {
            NextStep::Rest => {
                self.held_back.remove(&key);
                self.queue.clear_timer(&key);
                self.stop_work(&key, now);
            }
            NextStep::At(time) if self.clock.own_time(time) > now => {
                self.held_back.remove(&key);
                let at = self.clock.own_time(time);
                self.queue.add_at(key.clone(), at, now);
                self.rest(&key, now);
            }
            // The time has come and it still only wants to wait: a clock that stands still must not make us spin.
            NextStep::At(_) | NextStep::Retry => self.retry(&key, now),
            // The answer was of no use to it: the same question again would have the same answer.
            NextStep::Call(ApiCall::Get { target }) if progress.read.as_ref() == Some(&target) => {
                self.retry(&key, now);
            }
            NextStep::After(others) => self.wait_for(&key, &others, &progress, now),
            NextStep::Call(call) => match self.gate(&key, &call, &verdict.because, now) {
                WriteGate::Pass if self.in_flight.has_room_for(call.target().kind) => {
                    self.send(PlannedCall {
                        key,
                        call,
                        because: verdict.because,
                        progress,
                    });
                }
                WriteGate::Pass => {
                    // The kind has no free slot. That is no failure of the key, and keys behind it go on waiting.
                    let until = self.in_flight.defer_until(now);
                    self.queue.defer(&key, until);
                    self.stop_work(&key, now);
                }
                WriteGate::Later => self.retry(&key, now),
                WriteGate::Rest => self.rest(&key, now),
            },
        }
    }

    /// All of `others` are to be decided; waiting for the last is enough, since a key that still lacks one says so again.
    fn wait_for(
        &mut self,
        key: &C::Key,
        others: &[C::Key],
        progress: &KeyProgress<C::Key>,
        now: Timestamp,
    ) {
        for other in others {
            self.queue.prioritize(other, now);
        }
        let behind = others
            .last()
            .filter(|last| progress.in_vain.as_ref() != Some(*last));
        if behind.is_some_and(|behind| self.queue.park(key, behind, now)) {
            self.stop_work(key, now);
        } else {
            self.retry(key, now);
        }
    }

    /// What stands between a decision and the API: the one place for it. Reads always pass; they change nothing.
    ///
    /// A kind whose resourceVersions went back is not written to until a fresh list was applied. A dry run records
    /// writes instead. Pause, guard and leader gate belong here too.
    fn gate(
        &mut self,
        key: &C::Key,
        call: &ApiCall,
        because: &C::Reason,
        now: Timestamp,
    ) -> WriteGate {
        if call.is_read() {
            return WriteGate::Pass;
        }
        if self.kinds.is_frozen(call.target().kind) {
            return WriteGate::Later;
        }
        match self.mode {
            DriverMode::Act => WriteGate::Pass,
            DriverMode::DryRun => {
                let write = (call.target().clone(), call.judged().cloned());
                if self.held_back.get(key) != Some(&write) {
                    self.held_back.insert(key.clone(), write);
                    let catalog = self.effects.catalog();
                    self.report.held_back(key, call, because, &catalog, now);
                }
                WriteGate::Rest
            }
        }
    }

    /// Sends the request of a key in process, in a span of its own.
    fn send(&mut self, planned: PlannedCall<C>) {
        let effects = self.effects.clone();
        let span = tracing::debug_span!(
            "request",
            controller = self.report.name,
            verb = planned.call.verb(),
            object = %TargetName::of(&planned.call, &effects.catalog()),
            attempt = self.queue.failures(&planned.key) + 1,
        );
        self.in_flight.spawn(planned, move |call| {
            let request = async move {
                let performed = effects.perform(&call).await;
                (call, performed)
            };
            request.instrument(span)
        });
    }

    /// Takes note of an answer. It is an observation like a change of a feed; then the same key is decided again.
    fn answered(&mut self, finished: FinishedCall<C>) {
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
        // A failure must not wake its own key: that is what the backoff is for.
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
        }
    }

    /// A request failed: its key backs off, or waits as long as the server wants.
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

    /// After a conflict the judged copy is stale. The object is read, and judged again at once.
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

    /// The server has answered a request for its time, or it is time for the next key.
    fn server_time(&mut self, time: Option<ServerTime>) {
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

    /// Takes note of the server's time in an answer. With another correction, all times that the controller asked for
    /// are other ones.
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

    fn rest(&mut self, key: &C::Key, now: Timestamp) {
        self.queue.reset_backoff(key);
        self.stop_work(key, now);
    }

    /// The key has no request to send now. Keys behind it look again too: it cannot help them now.
    fn retry(&mut self, key: &C::Key, now: Timestamp) {
        self.queue.retry(key, now);
        self.queue.release(key, ReleaseCause::Idle, now);
        self.stop_work(key, now);
    }

    fn stop_work(&mut self, key: &C::Key, now: Timestamp) {
        self.queue.done(key, now);
        self.report.work_ended(key, now);
    }
}
