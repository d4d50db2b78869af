//! Asks one controller for decisions and sends their requests: one task per controller.
//!
//! The driver owns the controller and its queue, so that no lock can be held while it waits. In every turn the driver
//! fills free slots (take a key, decide it, send its request) and then waits for the next change, answer, due time or
//! query. `gate` stands between a decision and the API, once for all controllers. A panic in a controller ends its
//! driver: the manager starts a new driver with an empty index, never with a half-updated one.
//!
//! - `gate`: the conditions that hold back writes, as rows.
//! - [`options`]: what flags and tests choose. `handle`: queries from other tasks.
//! - `requests`: the requests in flight, and what follows from their answers.
//! - `watched_kinds`: the states of kinds. [`clock_skew`]: the controller's time.
//! - `repeated_writes`: writes that are undone and wait before they are repeated.
//! - `report`: evidence, metrics and Events; `failure_log`: which failures are logged; [`liveness`]: what `/livez` reads.

pub mod clock_skew;
mod failure_log;
mod gate;
mod handle;
pub mod liveness;
pub mod options;
mod repeated_writes;
mod report;
mod requests;
#[cfg(test)]
mod stepping;
mod watched_kinds;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

pub(crate) use gate::WriteFence;
pub use gate::{HoldPurpose, HoldState, WriteHold};
pub use handle::{DriverHandle, DriverQuery};
pub use options::{DriverEnd, DriverMode, DriverOptions, DriverParts};
pub use requests::CONFLICTS_AT_ONCE;

use super::controller::{Controller, DriverStep, NextStep, ObservedChange, WakeList};
use super::effects::Effects;
use super::events::EventSink;
use super::metrics::ControllerLabel;
use super::queue::{DueKey, ReleaseCause, RetryLimits, WorkQueue};
use clock_skew::{DriverClock, DriverTime};
use gate::{GateOutcome, WriteGate};
use liveness::DriverLiveness;
use repeated_writes::RepeatedWrites;
use report::DriverReport;
use requests::{InFlight, KeyProgress, PlannedCall};
use watched_kinds::WatchedKinds;

/// How many changes are taken per turn: enough to keep up with several busy feeds, and few enough that answers and
/// queries do not wait.
const CHANGES_AT_ONCE: usize = 256;

/// How many decisions are made per turn, so that a long queue of keys that need no request does not delay answers.
const DECISIONS_AT_ONCE: usize = 1_024;

/// How many queries are answered per turn beyond the one that woke the driver.
const QUERIES_AT_ONCE: usize = 16;

/// How many queries may wait in the channel.
const QUERIES_WAITING_MAX: usize = 64;

/// How long a stopping driver waits for the answers to the requests it has sent.
pub const SHUTDOWN_MAX: Duration = Duration::from_secs(10);

/// One running controller.
pub struct Driver<C: Controller> {
    controller: C,
    changes: mpsc::Receiver<ObservedChange>,
    queries: mpsc::Receiver<DriverQuery<C>>,
    handle: DriverHandle<C>,
    effects: Arc<Effects>,
    clock: DriverClock,
    queue: WorkQueue<C::Key>,
    wake: WakeList<C::Key>,
    in_flight: InFlight<C>,
    kinds: WatchedKinds,
    writes: RepeatedWrites<C::Key>,
    report: DriverReport<C::Key>,
    gate: WriteGate<C::Key>,
    is_stopping: bool,
}

// === impl Driver ===

impl<C: Controller> Driver<C> {
    /// A driver for `controller` that observes `changes`.
    #[must_use]
    pub fn new(controller: C, changes: mpsc::Receiver<ObservedChange>, parts: DriverParts) -> Self {
        let name = controller.name();
        let options = parts.options;
        let queue_name = options.queue.unwrap_or(name);
        let liveness = DriverLiveness::new(name, queue_name, parts.clock.clone());
        let (sender, queries) = mpsc::channel(QUERIES_WAITING_MAX);
        let effects = Arc::new(parts.effects.fenced(WriteFence::new(&options.holds)));
        let label = ControllerLabel { controller: name };
        let slots = parts.metrics.families().request_slots.clone();
        let slots = slots.get_or_create_owned(&label);
        Self {
            controller,
            changes,
            queries,
            handle: DriverHandle::new(sender, liveness.clone()),
            clock: DriverClock::new(parts.clock, options.timing, effects.clone()),
            effects,
            queue: WorkQueue::new(RetryLimits {
                max: options.retry_max,
                bucket: options.retry_bucket,
            }),
            wake: WakeList::default(),
            in_flight: InFlight::new(options.workers, slots),
            kinds: WatchedKinds::default(),
            writes: RepeatedWrites::new(options.retry_max),
            report: DriverReport::new(
                liveness,
                options.reporter.unwrap_or(name),
                match options.mode {
                    DriverMode::Act => parts.events,
                    // An Event is a write, too.
                    DriverMode::DryRun => EventSink::none(),
                },
                parts.evidence,
                parts.metrics,
            ),
            gate: WriteGate::new(options.mode, options.holds),
            is_stopping: false,
        }
    }

    /// The handle by which other tasks query the controller.
    #[must_use]
    pub fn handle(&self) -> DriverHandle<C> {
        self.handle.clone()
    }

    /// Runs until the manager stops it, or until its feeds are gone. Then it waits up to [`SHUTDOWN_MAX`] for the
    /// requests in flight.
    ///
    /// # Panics
    /// If the controller panics. The driver is dropped then.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) -> DriverEnd {
        let mut batch = Vec::with_capacity(CHANGES_AT_ONCE);
        let end = loop {
            let has_more = self.fill();
            self.publish();
            let until = self.queue.next_due();
            tokio::select! {
                biased;
                // An error means that the manager was dropped: stop as well.
                _ = stop.wait_for(|stop| *stop) => break DriverEnd::Stopped,
                () = self.gate.changed() => self.wake_held(),
                count = self.changes.recv_many(&mut batch, CHANGES_AT_ONCE) => {
                    if count == 0 {
                        break DriverEnd::FeedsGone;
                    }
                }
                finished = self.in_flight.next_or_freed(&self.effects) => {
                    if let Some(finished) = finished {
                        self.answered(finished);
                    }
                }
                time = self.clock.wait(until) => self.server_time(time),
                Some(query) = self.queries.recv() => self.run_query(query),
                () = tokio::task::yield_now(), if has_more => {}
            }
            for change in batch.drain(..) {
                self.observe(&change);
            }
            // Every turn takes from all sources, whichever of them woke the driver.
            while let Some(finished) = self.in_flight.try_next() {
                self.answered(finished);
            }
            for _ in 0..QUERIES_AT_ONCE {
                let Ok(query) = self.queries.try_recv() else {
                    break;
                };
                self.run_query(query);
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

    fn run_query(&self, query: DriverQuery<C>) {
        let now = self.clock.now();
        query(&self.controller, self.clock.controller_time(now));
    }

    fn observe(&mut self, change: &ObservedChange) {
        let now = self.clock.now();
        if let ObservedChange::Kind(kind, state) = change {
            if self.kinds.becomes_readable(*kind, *state) {
                self.queue.expire_long_backoffs(now.steady);
            }
            if let Some(kinds) = self.kinds.observe(*kind, *state) {
                tracing::info!(controller = self.report.name, kinds, "controller synced");
            }
        }
        let time = self.clock.controller_time(now);
        self.controller.observe(change, time, &mut self.wake);
        self.queue_woken(None, now);
    }

    /// Queues the keys that a change or an answer woke. `except` is queued only for a later time, not for now.
    fn queue_woken(&mut self, except: Option<&C::Key>, now: DriverTime) {
        let mut wake = std::mem::take(&mut self.wake);
        for (key, at) in wake.drain() {
            let at = at.map_or(now.steady, |at| self.clock.own_time(at, now));
            if Some(&key) != except || at > now.steady {
                self.queue.add_at(key, at, now.steady);
            }
        }
        // Keeps the allocation.
        self.wake = wake;
    }

    /// Decides due keys while there are free slots. Returns whether keys are left that could be decided now.
    fn fill(&mut self) -> bool {
        let now = self.clock.now();
        if self.clock.was_set(now) {
            self.queue.expire_timers(now.steady);
        }
        self.queue.promote(now.steady);
        if self.clock.is_unknown(now) {
            return false;
        }
        let mut decisions = 0;
        while self.in_flight.has_free_slot(&self.effects) {
            if decisions == DECISIONS_AT_ONCE {
                return true;
            }
            let Some(due) = self.queue.pop(now.steady) else {
                break;
            };
            decisions += 1;
            self.report.work_started(&due, now.steady);
            let DueKey { key, in_vain, .. } = due;
            self.decide(key, KeyProgress::new(in_vain), now);
        }
        false
    }

    /// Asks the controller for the decision of a key in process, and carries it out.
    fn decide(&mut self, key: C::Key, progress: KeyProgress<C::Key>, now: DriverTime) {
        let verdict = self
            .controller
            .decide(&key, self.clock.controller_time(now));
        self.report.decided(&key, &verdict.next, &verdict.because);
        // A row that holds back writes holds back Events as well: the key is decided again when the row changes.
        let muted = (self.gate.holds_all() && !verdict.notes.is_empty()).then(|| key.clone());
        if muted.is_none() {
            self.report.emit_new(&key, verdict.notes);
        }
        let step = DriverStep::Decided {
            key: &key,
            next: &verdict.next,
            because: &verdict.because,
        };
        self.controller.measure(&step, &self.report.metrics);
        match verdict.next {
            NextStep::Rest => {
                self.writes.rests(&key);
                self.gate.forget(&key);
                self.queue.clear_timer(&key);
                self.stop_work(&key, now);
            }
            NextStep::At(time) if self.clock.own_time(time, now) > now.steady => {
                self.writes.rests(&key);
                self.gate.forget(&key);
                let at = self.clock.own_time(time, now);
                self.queue.add_at(key.clone(), at, now.steady);
                self.rest(&key, now);
            }
            // The requested time is not in the future. Backing off keeps a clock that stands still from making us spin.
            NextStep::At(_) | NextStep::Retry => self.retry(&key, now),
            // The decision asks for what was just read: another read would have the same answer.
            NextStep::Call(call) if call.is_read() && progress.read.as_ref() == Some(&call) => {
                self.retry(&key, now);
            }
            NextStep::After(others) => self.wait_for(&key, &others, &progress, now),
            NextStep::Call(call) => {
                let planned = PlannedCall {
                    key,
                    call,
                    because: verdict.because,
                    progress,
                };
                self.pass_gate(planned, now);
            }
        }
        if let Some(key) = muted {
            self.gate.hold(&key);
        }
    }

    /// Sends the request of a decision, unless a row of the gate stops it or its kind has no free slot.
    fn pass_gate(&mut self, planned: PlannedCall<C>, now: DriverTime) {
        let (key, call) = (&planned.key, &planned.call);
        match self.gate.check(call, &self.kinds) {
            GateOutcome::Pass => {
                if !call.is_read() {
                    self.gate.forget(key);
                }
                let wait_until = self.writes.not_before(key, call, now.steady);
                if let Some(at) = wait_until.filter(|at| *at > now.steady) {
                    // The server accepted this write before, and it is needed again.
                    self.queue.defer(key, at);
                    self.queue.release(key, ReleaseCause::Idle, now.steady);
                    self.stop_work(key, now);
                } else if self.in_flight.has_room_for(call.target().kind) {
                    self.send(planned);
                } else {
                    // That is no failure of the key, and keys parked behind it keep waiting.
                    let until = self.in_flight.defer_until(now.steady);
                    self.queue.defer(key, until);
                    self.stop_work(key, now);
                }
            }
            GateOutcome::Later => self.retry(key, now),
            GateOutcome::Wait => {
                self.gate.hold(key);
                self.rest(key, now);
            }
            GateOutcome::Record => {
                if self.gate.record(key, call) {
                    let catalog = self.effects.catalog();
                    self.report
                        .held_back(key, call, &planned.because, &catalog, now.wall);
                }
                self.rest(key, now);
            }
        }
    }

    /// The state of a row has changed: decides all held keys again.
    fn wake_held(&mut self) {
        let now = self.clock.now().steady;
        for key in self.gate.keys() {
            self.queue.add(key.clone(), now);
        }
    }

    /// Makes all of `others` due and parks `key` behind the last of them. If another one is still undecided then, the
    /// next decision of `key` asks for it again.
    fn wait_for(
        &mut self,
        key: &C::Key,
        others: &[C::Key],
        progress: &KeyProgress<C::Key>,
        now: DriverTime,
    ) {
        for other in others {
            self.queue.prioritize(other, now.steady);
        }
        let behind = others
            .last()
            .filter(|last| progress.in_vain.as_ref() != Some(*last));
        if behind.is_some_and(|behind| self.queue.park(key, behind, now.steady)) {
            self.stop_work(key, now);
        } else {
            self.retry(key, now);
        }
    }

    fn rest(&mut self, key: &C::Key, now: DriverTime) {
        self.queue.reset_backoff(key);
        self.stop_work(key, now);
    }

    /// Backs off a key that has no request to send now. Keys parked behind it are released: it cannot help them now.
    fn retry(&mut self, key: &C::Key, now: DriverTime) {
        self.queue.retry(key, now.steady);
        self.queue.release(key, ReleaseCause::Idle, now.steady);
        self.stop_work(key, now);
    }

    fn stop_work(&mut self, key: &C::Key, now: DriverTime) {
        self.queue.done(key, now.steady);
        self.report.work_ended(key, now.steady);
    }
}
