//! Asks one controller for decisions and has them carried out: one task per controller.
//!
//! The driver owns the controller and its queue, so that no lock exists that could be held while waiting. Every turn it
//! fills free slots (take a key, decide it, send its request) and then waits for the next change, answer, time or
//! question. Safety sits here, in [`Driver::gate`], between a decision and the API, once for all controllers. A panic in
//! a controller ends its driver: whoever started it starts it again with an empty index, never with half of one.

mod account;
mod flight;
mod handle;
pub mod pulse;
pub mod skew;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use caretaker_machinery::clock::Clock;
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

pub use flight::CONFLICTS_AT_ONCE;
use flight::{Landed, Trip};
pub use handle::{Ask, Handle};

use super::call::{Call, Judged, Target};
use super::controller::{Change, Controller, DriverStep, Next, Note, Wake};
use super::effects::Effects;
use super::events::Events;
use super::evidence::Trail;
use super::kind::{KindId, KindState};
use super::metrics::{Metrics, QueueMetrics};
use super::queue::{Bucket, Counts, Due, Queue, RETRY_MAX, Release, Retries, age};
use pulse::Pulse;
use skew::{Question, Skew, Timing};

/// How many changes are taken per turn. One would starve answers as soon as several feeds are busy, all would starve
/// everything else.
const CHANGES_AT_ONCE: usize = 256;

/// How many decisions are made per turn, so that a long queue of keys that ask for nothing does not hold up the rest.
const DECISIONS_AT_ONCE: usize = 1_024;

/// How many questions are answered per turn beyond the one that woke the driver.
const ASKS_AT_ONCE: usize = 16;

/// How many questions may wait.
const ASKS_WAITING_MAX: usize = 64;

/// How long a stopping driver waits for the requests it has sent.
pub const SHUTDOWN_MAX: Duration = Duration::from_secs(10);

/// What a driver works with.
#[derive(Debug)]
pub struct Parts {
    /// Carries out calls.
    pub effects: Effects,
    /// Domain time.
    pub clock: Clock,
    /// Where notes go.
    pub events: Events,
    /// Where records of writes go.
    pub evidence: Trail,
    /// What is counted.
    pub metrics: Metrics,
    /// The rest.
    pub options: Options,
}

/// How a driver behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// The name of the queue in metrics: upstream's where ours corresponds to one; the controller's if not said.
    pub queue: Option<&'static str>,
    /// How many requests may be in flight.
    pub workers: usize,
    /// Whether writes are sent.
    pub mode: Mode,
    /// The longest backoff of a key.
    pub retry_max: Duration,
    /// A bucket for all retries.
    pub retry_bucket: Option<Bucket>,
    /// By whose time the controller judges.
    pub timing: Timing,
    /// Whom Events come from; the controller if not said.
    pub reporter: Option<&'static str>,
}

/// Whether writes are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// They are.
    #[default]
    Act,
    /// They are recorded instead, once per key and version.
    DryRun,
}

/// Why a driver ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It was told to.
    Stopped,
    /// Nobody is left to tell it anything: its feeds are gone.
    Unfed,
}

/// One controller at work.
pub struct Driver<C: Controller> {
    name: &'static str,
    reporter: &'static str,
    controller: C,
    changes: mpsc::Receiver<Change>,
    asks: mpsc::Receiver<Ask<C>>,
    handle: Handle<C>,
    effects: Arc<Effects>,
    clock: Clock,
    events: Events,
    evidence: Trail,
    metrics: Metrics,
    queue_metrics: QueueMetrics,
    workers: usize,
    mode: Mode,
    timing: Timing,
    skew: Skew,
    /// The question for the server's time that is on its way, or waits to be.
    question: Option<Question>,
    is_stopping: bool,
    queue: Queue<C::Key>,
    wake: Wake<C::Key>,
    flight: JoinSet<Landed<C>>,
    /// When each request in flight was sent, and to which kind. Numbers grow, so the first is the oldest.
    sent: BTreeMap<u64, (Instant, KindId)>,
    /// Kinds whose last answer took long.
    slow: BTreeSet<KindId>,
    /// Until when keys are put off for whose kind there is no room.
    crowded_until: Timestamp,
    requests: u64,
    /// Since when each key in process is.
    started: BTreeMap<C::Key, Timestamp>,
    /// The notes of each key's last decision that had any.
    told: BTreeMap<C::Key, Vec<Note>>,
    /// What a dry run has recorded.
    rehearsed: BTreeMap<C::Key, (Target, Option<Judged>)>,
    frozen: BTreeSet<KindId>,
    counted: Counts,
}

/// What becomes of a decision to send a request.
enum Gate {
    /// It is sent.
    Pass,
    /// Not now; the key backs off.
    Later,
    /// Not at all, until something changes.
    Rest,
}

// === impl Options ===

impl Default for Options {
    fn default() -> Self {
        Self {
            queue: None,
            workers: 20,
            mode: Mode::Act,
            retry_max: RETRY_MAX,
            retry_bucket: None,
            timing: Timing::Own,
            reporter: None,
        }
    }
}

// === impl Driver ===

impl<C: Controller> Driver<C> {
    /// A driver for `controller`, fed by `changes`.
    #[must_use]
    pub fn new(controller: C, changes: mpsc::Receiver<Change>, parts: Parts) -> Self {
        let name = controller.name();
        let options = parts.options;
        let queue_name = options.queue.unwrap_or(name);
        let pulse = Pulse::new(name, queue_name, parts.clock.clone());
        parts.metrics.follow(pulse.clone());
        let (asker, asks) = mpsc::channel(ASKS_WAITING_MAX);
        let effects = Arc::new(parts.effects);
        Self {
            name,
            reporter: options.reporter.unwrap_or(name),
            controller,
            changes,
            asks,
            handle: Handle::new(asker, pulse),
            effects: effects.clone(),
            clock: parts.clock,
            events: match options.mode {
                Mode::Act => parts.events,
                // An Event is a write, too.
                Mode::DryRun => Events::none(),
            },
            evidence: parts.evidence,
            queue_metrics: parts.metrics.queue(queue_name),
            metrics: parts.metrics,
            workers: options.workers.max(1),
            mode: options.mode,
            timing: options.timing,
            skew: Skew::default(),
            question: (options.timing == Timing::Server)
                .then(|| skew::ask(effects.clone(), Duration::ZERO)),
            is_stopping: false,
            queue: Queue::new(Retries {
                max: options.retry_max,
                bucket: options.retry_bucket,
            }),
            wake: Wake::default(),
            flight: JoinSet::new(),
            sent: BTreeMap::new(),
            slow: BTreeSet::new(),
            crowded_until: Timestamp::MIN,
            requests: 0,
            started: BTreeMap::new(),
            told: BTreeMap::new(),
            rehearsed: BTreeMap::new(),
            frozen: BTreeSet::new(),
            counted: Counts::default(),
        }
    }

    /// How others look into the controller and at how the driver is.
    #[must_use]
    pub fn handle(&self) -> Handle<C> {
        self.handle.clone()
    }

    /// Works until it is told to stop, or until its feeds are gone. Requests in flight get their time to finish.
    ///
    /// # Panics
    /// When the controller does; nothing of the driver is worth keeping then.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) -> End {
        let mut batch = Vec::with_capacity(CHANGES_AT_ONCE);
        let end = loop {
            let has_more = self.fill();
            self.publish();
            let until = self.queue.next_due();
            tokio::select! {
                biased;
                // Nobody left who could say so means stop, too.
                _ = stop.wait_for(|stop| *stop) => break End::Stopped,
                count = self.changes.recv_many(&mut batch, CHANGES_AT_ONCE) => {
                    if count == 0 {
                        break End::Unfed;
                    }
                }
                Some(landed) = self.flight.join_next() => self.land(landed),
                told = skew::answer(&mut self.question) => self.told_the_time(told),
                () = sleep(&self.clock, until) => {}
                Some(ask) = self.asks.recv() => self.answer(ask),
                () = tokio::task::yield_now(), if has_more => {}
            }
            for change in batch.drain(..) {
                self.observe(&change);
            }
            // Everything is looked at every turn, whatever woke us.
            while let Some(landed) = self.flight.try_join_next() {
                self.land(landed);
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
            while let Some(landed) = self.flight.join_next().await {
                self.land(landed);
            }
        });
        if last.await.is_err() {
            let left = self.flight.len();
            tracing::warn!(
                controller = self.name,
                left,
                "requests without an answer are given up"
            );
        }
        self.publish();
    }

    fn answer(&self, ask: Ask<C>) {
        ask(&self.controller, self.told_time(self.clock.now()));
    }

    fn observe(&mut self, change: &Change) {
        if let Change::Kind(kind, state) = change {
            if matches!(state, KindState::Frozen) {
                self.frozen.insert(*kind);
            } else {
                self.frozen.remove(kind);
            }
        }
        let now = self.clock.now();
        let told = self.told_time(now);
        self.controller.observe(change, told, &mut self.wake);
        self.take_in(None, now);
    }

    /// Queues what was woken, except one key, unless that is for later.
    fn take_in(&mut self, except: Option<&C::Key>, now: Timestamp) {
        let mut wake = std::mem::take(&mut self.wake);
        for (key, at) in wake.drain() {
            let at = at.map_or(now, |at| self.own_time(at));
            if Some(&key) != except || at > now {
                self.queue.add_at(key, at, now);
            }
        }
        // Its room is used again.
        self.wake = wake;
    }

    /// Takes up keys while there are free slots. Says whether there is more to do at once.
    fn fill(&mut self) -> bool {
        let now = self.clock.now();
        self.queue.promote(now);
        if self.lacks_time(now) {
            return false;
        }
        let mut decisions = 0;
        while self.flight.len() < self.workers {
            if decisions == DECISIONS_AT_ONCE {
                return true;
            }
            let Some(due) = self.queue.pop(now) else {
                break;
            };
            decisions += 1;
            self.take_up(due, now);
        }
        false
    }

    fn take_up(&mut self, due: Due<C::Key>, now: Timestamp) {
        let waited = age(now, due.since);
        self.queue_metrics
            .queue_duration
            .observe(waited.as_secs_f64());
        self.started.insert(due.key.clone(), now);
        let trip = Trip {
            in_vain: due.in_vain,
            read: None,
            conflicts: 0,
            requests: 0,
        };
        self.decide(due.key, trip, now);
    }

    /// Asks the controller what follows for a key in process, and begins with it.
    fn decide(&mut self, key: C::Key, trip: Trip<C::Key>, now: Timestamp) {
        let verdict = self.controller.decide(&key, self.told_time(now));
        self.tell_if_new(&key, verdict.notes);
        let step = DriverStep::Decided {
            key: &key,
            next: &verdict.next,
            because: &verdict.because,
        };
        self.controller.measure(&step, &self.metrics);
        match verdict.next {
            Next::Rest => {
                self.rehearsed.remove(&key);
                self.queue.settle(&key);
                self.stop_work(&key, now);
            }
            Next::At(time) if self.own_time(time) > now => {
                self.rehearsed.remove(&key);
                self.queue.add_at(key.clone(), self.own_time(time), now);
                self.rest(&key, now);
            }
            // The time has come and it still only wants to wait: a clock that stands still must not make us spin.
            Next::At(_) | Next::Retry => self.retry(&key, now),
            // The answer was of no use to it: the same question again would have the same answer.
            Next::Call(Call::Get { target }) if trip.read.as_ref() == Some(&target) => {
                self.retry(&key, now);
            }
            Next::After(others) => self.wait_for(&key, &others, &trip, now),
            Next::Call(call) => match self.gate(&key, &call, &verdict.because, now) {
                Gate::Pass if self.has_room(call.target().kind) => {
                    self.send(key, call, verdict.because, trip);
                }
                Gate::Pass => self.put_off(&key, now),
                Gate::Later => self.retry(&key, now),
                Gate::Rest => self.rest(&key, now),
            },
        }
    }

    /// All of `others` are to be decided; waiting for the last is enough, since whoever still lacks one says so again.
    fn wait_for(&mut self, key: &C::Key, others: &[C::Key], trip: &Trip<C::Key>, now: Timestamp) {
        for other in others {
            self.queue.await_key(other, now);
        }
        let behind = others
            .last()
            .filter(|last| trip.in_vain.as_ref() != Some(*last));
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
    fn gate(&mut self, key: &C::Key, call: &Call, because: &C::Reason, now: Timestamp) -> Gate {
        if call.is_read() {
            return Gate::Pass;
        }
        if self.frozen.contains(&call.target().kind) {
            return Gate::Later;
        }
        match self.mode {
            Mode::Act => Gate::Pass,
            Mode::DryRun => {
                let rehearsed = (call.target().clone(), call.judged().cloned());
                if self.rehearsed.get(key) != Some(&rehearsed) {
                    self.rehearsed.insert(key.clone(), rehearsed);
                    self.account_rehearsal(key, call, because, now);
                }
                Gate::Rest
            }
        }
    }

    fn rest(&mut self, key: &C::Key, now: Timestamp) {
        self.queue.forget(key);
        self.stop_work(key, now);
    }

    /// Nothing to ask now. Whoever waits for this key looks again too: it cannot help them now.
    fn retry(&mut self, key: &C::Key, now: Timestamp) {
        self.queue.retry(key, now);
        self.queue.release(key, Release::Idle, now);
        self.stop_work(key, now);
    }

    fn stop_work(&mut self, key: &C::Key, now: Timestamp) {
        self.queue.done(key, now);
        if let Some(start) = self.started.remove(key) {
            let took = age(now, start);
            self.queue_metrics.work_duration.observe(took.as_secs_f64());
        }
    }

    /// Tells what a decision has to say, if it is not what this key said last time.
    fn tell_if_new(&mut self, key: &C::Key, notes: Vec<Note>) {
        if notes.is_empty() {
            self.told.remove(key);
            return;
        }
        let last = self.told.get(key);
        for note in &notes {
            if !last.is_some_and(|last| last.contains(note)) {
                self.events.tell(self.reporter, note.clone());
            }
        }
        self.told.insert(key.clone(), notes);
    }
}

/// Sleeps until a time of the clock; for ever without one.
async fn sleep(clock: &Clock, until: Option<Timestamp>) {
    match until {
        Some(until) => clock.sleep_until(until).await,
        None => std::future::pending().await,
    }
}
