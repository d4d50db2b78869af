//! The requests of a driver: how many may be in flight and for which kinds, and what follows from their answers.
//!
//! `slot_limit` lowers the number while the API server pushes back. A kind whose requests take long leaves slots to the
//! other kinds, so that one hanging webhook does not stop a whole controller. After an answer the controller observes it, and the key is decided again, read again or backed off. Every
//! answer also carries the server's time, which the driver compares with its own.

mod slot_limit;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use caretaker_machinery::clock::SteadyTime;
use jiff::Timestamp;
use prometheus_client::metrics::gauge::Gauge;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tracing::{Instrument as _, Span};

use super::Driver;
use super::clock_skew::{DriverTime, ServerTime};
use super::failure_log::FailureCause;
use super::report::TargetName;
use crate::runtime::call::{ApiAnswer, ApiCall, CallFailure, FailureKind};
use crate::runtime::controller::{
    AfterWrite, AnsweredCall, Controller, DecisionReason as _, DriverStep,
};
use crate::runtime::effects::{Effects, PerformedCall};
use crate::runtime::kind::KindId;
use crate::runtime::queue::ReleaseCause;
use slot_limit::{LatencyClass, LimitChange, LoadSignal, SlotLimit};

/// How many conflicts in a row a key may have before it backs off. An object that is rewritten every second is still
/// written to; one that is rewritten all the time does not make the driver send requests all the time.
pub const CONFLICTS_AT_ONCE: u32 = 5;

/// A kind with a request that takes longer than this is slow, until one is answered sooner. Requests to a healthy server
/// take a hundredth of it.
const SLOW: Duration = Duration::from_secs(1);

/// The divisor of the slots that gives the share of a slow kind, and the least share where there are more slots than that:
/// a kind that hangs must leave room for others.
const SLOW_SHARE: usize = 4;

/// How long a key waits when its kind has no free slot.
const CROWDED_WAIT: Duration = Duration::from_secs(1);

/// The time between two such keys, so that deferring a hundred thousand of them does not keep the driver busy.
const CROWDED_SPACING: Duration = Duration::from_micros(250);

/// The requests of one driver that have no answer yet.
pub(super) struct InFlight<C: Controller> {
    tasks: JoinSet<FinishedCall<C>>,
    limit: SlotLimit,
    /// The limit as a metric.
    slots: Gauge,
    /// When each request was sent or may be sent, and to which kind. Numbers grow, so the first is the oldest.
    sent: BTreeMap<u64, (Instant, KindId)>,
    /// Kinds whose last answer took long.
    slow: BTreeSet<KindId>,
    /// Until when keys are deferred whose kind has no free slot.
    crowded_until: SteadyTime,
    last_number: u64,
}

/// What happened to a key since it was taken out of the queue.
#[derive(Debug, Clone)]
pub(super) struct KeyProgress<K> {
    /// The key that this one waited for without success.
    pub(super) in_vain: Option<K>,
    /// The last request, if that was a read.
    pub(super) read: Option<ApiCall>,
    pub(super) conflicts: u32,
    pub(super) requests: u32,
}

/// A request that is about to be sent.
pub(super) struct PlannedCall<C: Controller> {
    pub(super) key: C::Key,
    pub(super) call: ApiCall,
    pub(super) because: C::Reason,
    pub(super) progress: KeyProgress<C::Key>,
}

/// A request that has its answer.
pub(super) struct FinishedCall<C: Controller> {
    pub(super) planned: PlannedCall<C>,
    number: u64,
    pub(super) took: Duration,
    pub(super) performed: PerformedCall,
}

// === impl InFlight ===

impl<C: Controller> InFlight<C> {
    pub(super) fn new(workers: usize, slots: Gauge) -> Self {
        let limit = SlotLimit::new(workers);
        slots.set(gauge_value(limit.allowed()));
        Self {
            tasks: JoinSet::new(),
            limit,
            slots,
            sent: BTreeMap::new(),
            slow: BTreeSet::new(),
            crowded_until: SteadyTime::at(Timestamp::MIN),
            last_number: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether the request of one more key could be sent now. A key that has to wait for the rate limit waits undecided:
    /// a write that was decided earlier could be based on objects that have changed since, or on a store that was
    /// restored since. Only the second request of a key may wait after its decision.
    pub(super) fn has_free_slot(&self, effects: &Effects) -> bool {
        let now = Instant::now();
        effects.limited_until(now).is_none() && self.limit.has_free_slot(self.tasks.len(), now)
    }

    /// Whether a kind may have one more slot. One object whose requests hang costs the others of its kind no more than
    /// its slot; only if the last answer was slow, all requests of the kind count.
    pub(super) fn has_room_for(&self, kind: KindId) -> bool {
        let is_slow = self.slow.contains(&kind);
        let sent = self.sent.values();
        let slow = sent.filter(|(at, to)| *to == kind && (is_slow || at.elapsed() > SLOW));
        slow.count() < slow_share(self.limit.allowed())
    }

    /// When a key is decided again whose kind has no free slot.
    pub(super) fn defer_until(&mut self, now: SteadyTime) -> SteadyTime {
        let until = now.later(CROWDED_WAIT).max(self.crowded_until);
        self.crowded_until = until.later(CROWDED_SPACING);
        until
    }

    /// Sends a request in a task of its own.
    fn spawn(&mut self, mut planned: PlannedCall<C>, effects: Arc<Effects>, span: Span) {
        planned.progress.requests += 1;
        self.last_number += 1;
        // Waiting for our own rate limit is no slowness of the server.
        let (number, start) = (self.last_number, effects.next_slot());
        self.sent
            .insert(number, (start, planned.call.target().kind));
        let request = async move {
            let performed = effects.perform_at(&planned.call, start).await;
            FinishedCall {
                planned,
                number,
                took: start.elapsed(),
                performed,
            }
        };
        self.tasks.spawn(request.instrument(span));
    }

    /// The next request that has its answer; nothing if none is in flight. May be cancelled and called again.
    pub(super) async fn next(&mut self) -> Option<FinishedCall<C>> {
        let joined = self.tasks.join_next().await?;
        Some(self.finish(joined))
    }

    /// Like [`Self::next`]; `None` when a refused request gives its slot back, or when the rate limit allows a request.
    /// Pending if neither will happen.
    pub(super) async fn next_or_freed(&mut self, effects: &Effects) -> Option<FinishedCall<C>> {
        let now = Instant::now();
        let freed = [self.limit.next_free(now), effects.limited_until(now)];
        let freed = freed.into_iter().flatten().min();
        let freed = async {
            match freed {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(joined) = self.tasks.join_next() => Some(self.finish(joined)),
            () = freed => None,
        }
    }

    /// A request that has its answer already.
    pub(super) fn try_next(&mut self) -> Option<FinishedCall<C>> {
        let joined = self.tasks.try_join_next()?;
        Some(self.finish(joined))
    }

    /// When the oldest request without an answer was sent, or may be sent.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.sent.first_key_value().map(|(_, (sent, _))| *sent)
    }

    fn finish(&mut self, joined: Result<FinishedCall<C>, JoinError>) -> FinishedCall<C> {
        let finished = joined.unwrap_or_else(|error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => unreachable!("no request is aborted while its driver runs: {error}"),
        });
        let kind = finished.planned.call.target().kind;
        if let Some((sent, _)) = self.sent.remove(&finished.number) {
            let change = self
                .limit
                .observe(finished.load_signal(), sent, Instant::now());
            self.slots.set(gauge_value(self.limit.allowed()));
            log_limit(change);
        }
        if finished.took > SLOW {
            self.slow.insert(kind);
        } else {
            self.slow.remove(&kind);
        }
        finished
    }
}

// === impl FinishedCall ===

impl<C: Controller> FinishedCall<C> {
    /// A 503 without `Retry-After` is the answer of one unavailable backend behind the server, and no sign of load.
    fn load_signal(&self) -> LoadSignal {
        let call = &self.planned.call;
        match &self.performed.answer {
            ApiAnswer::Failed(failure)
                if failure.kind == FailureKind::TooManyRequests
                    || failure.status == Some(503) && failure.retry_after.is_some() =>
            {
                LoadSignal::Refused(failure.retry_after)
            }
            _ if self.performed.status.is_none() => LoadSignal::Unknown,
            _ => {
                let class = LatencyClass {
                    kind: call.target().kind,
                    is_read: call.is_read(),
                };
                LoadSignal::Served(class, self.took)
            }
        }
    }
}

// === impl KeyProgress ===

impl<K> KeyProgress<K> {
    /// A key that was just taken out of the queue.
    pub(super) fn new(in_vain: Option<K>) -> Self {
        Self {
            in_vain,
            read: None,
            conflicts: 0,
            requests: 0,
        }
    }
}

// === impl Driver ===

impl<C: Controller> Driver<C> {
    /// Sends the request of a key in process, in a span of its own.
    pub(super) fn send(&mut self, planned: PlannedCall<C>) {
        let span = tracing::debug_span!(
            "request",
            controller = self.report.name,
            verb = planned.call.verb(),
            object = %TargetName(&planned.call, &self.effects.catalog()),
            attempt = self.queue.failures(&planned.key) + 1,
        );
        self.in_flight.spawn(planned, self.effects.clone(), span);
    }

    /// Passes an answer to the controller as an observation, then decides the same key again.
    pub(super) fn answered(&mut self, finished: FinishedCall<C>) {
        let now = self.clock.now();
        if finished.performed.is_held_back() {
            // Nothing was sent. The row that closed wakes the key when it opens.
            self.gate.hold(&finished.planned.key);
            self.rest(&finished.planned.key, now);
            return;
        }
        self.compare_clocks(finished.performed.date, now);
        let time = self.clock.controller_time(now);
        let catalog = self.effects.catalog();
        self.report.answered(&finished, &catalog, now.wall);
        let (mut planned, answer) = (finished.planned, finished.performed.answer);
        let PlannedCall {
            key, call, because, ..
        } = &planned;
        let step = DriverStep::Answered {
            key,
            call,
            answer: &answer,
            because,
            now: time,
        };
        self.controller.measure(&step, &self.report.metrics);
        let notes = self.controller.answered(AnsweredCall {
            key,
            call,
            answer: &answer,
            now: time,
            wake: &mut self.wake,
        });
        let is_accepted = matches!(answer, ApiAnswer::Object(_) | ApiAnswer::Done);
        let on_success = match is_accepted && !call.is_read() {
            true => because.events_on_success(),
            false => &[],
        };
        if !self.gate.holds_all() {
            let notes = notes.into_iter().chain(on_success.iter().cloned());
            notes.for_each(|note| self.report.emit(note));
        }
        let has_failed = matches!(answer, ApiAnswer::Failed(_));
        // A failure must not wake its own key, because that key backs off.
        self.queue_woken(has_failed.then_some(key), now);
        if self.is_stopping {
            return;
        }
        let is_read = call.is_read();
        planned.progress.in_vain = None;
        planned.progress.read = is_read.then(|| planned.call.clone());
        if !is_read && !has_failed {
            // The requests from now on belong to the next write.
            planned.progress.requests = 0;
            self.accepted(&planned, now);
        }
        match answer {
            answer if answer.is_conflict() && !is_read => self.read_again(planned, now),
            ApiAnswer::Failed(failure) => self.failed(&planned, &failure, now),
            ApiAnswer::Object(_) | ApiAnswer::Page(_) | ApiAnswer::Done | ApiAnswer::Absent(_) => {
                self.continue_after(planned, now);
            }
        }
    }

    /// Decides the key of a successful request again: at once, or after a write as the controller wants it.
    fn continue_after(&mut self, planned: PlannedCall<C>, now: DriverTime) {
        let key = planned.key;
        self.queue.release(&key, ReleaseCause::Answered, now.steady);
        self.queue.clear_dirty(&key);
        let is_last = self.controller.after_write() == AfterWrite::EndOfQueue;
        if is_last && !planned.call.is_read() {
            self.queue.add(key.clone(), now.steady);
            self.stop_work(&key, now);
        } else {
            self.decide(key, planned.progress, now);
        }
    }

    /// Remembers a write that the server accepted, and reports it if it was accepted before and had to be repeated.
    fn accepted(&mut self, planned: &PlannedCall<C>, now: DriverTime) {
        let (key, call) = (&planned.key, &planned.call);
        let Some(repetition) = self.writes.accepted(key, call, now.steady) else {
            return;
        };
        if self.gate.holds_all() {
            // The Event would be a write.
            return;
        }
        let catalog = self.effects.catalog();
        let line = self
            .writes
            .log_line(FailureCause::of(call, &catalog, None), now.steady);
        self.report
            .repeated_write(planned, repetition, line, &catalog, now.wall);
    }

    /// Backs off the key of a failed request, or lets it wait as long as the server asked for.
    fn failed(&mut self, planned: &PlannedCall<C>, failure: &CallFailure, now: DriverTime) {
        let key = &planned.key;
        let wait = match failure.retry_after {
            Some(wait) => {
                self.queue.retry_after(key, wait, now.steady);
                wait
            }
            None if planned.call.is_read() && failure.status == Some(403) => {
                self.queue.retry_forbidden(key, now.steady)
            }
            None => self.queue.retry(key, now.steady),
        };
        let catalog = self.effects.catalog();
        self.report
            .failed(&planned.call, failure, wait, &catalog, now);
        self.stop_work(key, now);
    }

    /// After a conflict the judged version is stale: reads the object, so that the key is decided again with its answer.
    ///
    /// DEVIATION(conflicts-judged-again): upstream's collector deletes once more without a version if the owners have not
    /// changed, and so can override what a user has just asked for.
    fn read_again(&mut self, mut planned: PlannedCall<C>, now: DriverTime) {
        planned.progress.conflicts += 1;
        if planned.progress.conflicts > CONFLICTS_AT_ONCE {
            self.report.starved(&planned.call, &self.effects.catalog());
            self.queue.retry_undisturbed(&planned.key, now.steady);
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
    /// for. If they come earlier, its timers expire.
    fn compare_clocks(&mut self, date: Option<Timestamp>, now: DriverTime) {
        let before = self.clock.correction();
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
            // A timer that is too early asks for its time again.
            if offset > before {
                self.queue.expire_timers(now.steady);
            }
        }
    }
}

fn gauge_value(slots: usize) -> i64 {
    i64::try_from(slots).unwrap_or(i64::MAX)
}

fn log_limit(change: Option<LimitChange>) {
    match change {
        Some(LimitChange::Falls(requests)) => {
            tracing::info!(requests, "API server pushes back; fewer requests at once");
        }
        Some(LimitChange::Restored) => {
            tracing::info!("API server does not push back any more; all workers send requests");
        }
        None => {}
    }
}

/// How many slots a slow kind may have: a quarter, at least four, and all but one of two to five.
fn slow_share(workers: usize) -> usize {
    let all_but_one = workers.saturating_sub(1).min(SLOW_SHARE);
    (workers / SLOW_SHARE).max(all_but_one).max(1)
}
