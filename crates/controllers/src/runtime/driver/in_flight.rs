//! Requests that have no answer yet: how many there may be, for which kinds, and since when.
//!
//! A kind whose requests take long leaves slots to the other kinds, so that one hanging webhook does not stop a whole
//! controller. Only the driver changes this.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use crate::runtime::call::{ApiCall, CallTarget};
use crate::runtime::controller::Controller;
use crate::runtime::effects::PerformedCall;
use crate::runtime::kind::KindId;
use crate::runtime::queue::later;

/// How many conflicts in a row a key may have before it backs off. An object that is rewritten every second is still
/// written to; one that is rewritten all the time does not make the driver send requests all the time.
pub const CONFLICTS_AT_ONCE: u32 = 5;

/// A kind with a request that takes longer than this is slow, until one is answered sooner. Requests to a healthy server
/// take a hundredth of it.
const SLOW: Duration = Duration::from_secs(1);

/// A slow kind may have one in this many slots, or all but one of a few: a kind that hangs must leave room for others.
const SLOW_SHARE: usize = 4;

/// How long a key waits when its kind has no free slot.
const CROWDED_WAIT: Duration = Duration::from_secs(1);

/// The time between two such keys, so that deferring a hundred thousand of them does not keep the driver busy.
const CROWDED_SPACING: Duration = Duration::from_micros(250);

/// The requests of one driver that have no answer yet.
pub(super) struct InFlight<C: Controller> {
    tasks: JoinSet<FinishedCall<C>>,
    workers: usize,
    /// When each request was sent, and to which kind. Numbers grow, so the first is the oldest.
    sent: BTreeMap<u64, (Instant, KindId)>,
    /// Kinds whose last answer took long.
    slow: BTreeSet<KindId>,
    /// Until when keys are deferred whose kind has no free slot.
    crowded_until: Timestamp,
    last_number: u64,
}

/// What happened to a key since it was taken out of the queue.
#[derive(Debug, Clone)]
pub(super) struct KeyProgress<K> {
    /// The key that this one waited for without success.
    pub(super) in_vain: Option<K>,
    /// The object of the last request, if that was a read.
    pub(super) read: Option<CallTarget>,
    pub(super) conflicts: u32,
    pub(super) requests: u32,
}

/// A request that has its answer.
pub(super) struct FinishedCall<C: Controller> {
    pub(super) key: C::Key,
    pub(super) call: ApiCall,
    pub(super) because: C::Reason,
    pub(super) progress: KeyProgress<C::Key>,
    number: u64,
    pub(super) took: Duration,
    pub(super) performed: PerformedCall,
}

/// A request that is about to be sent.
pub(super) struct PlannedCall<C: Controller> {
    pub(super) key: C::Key,
    pub(super) call: ApiCall,
    pub(super) because: C::Reason,
    pub(super) progress: KeyProgress<C::Key>,
}

// === impl InFlight ===

impl<C: Controller> InFlight<C> {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            tasks: JoinSet::new(),
            workers: workers.max(1),
            sent: BTreeMap::new(),
            slow: BTreeSet::new(),
            crowded_until: Timestamp::MIN,
            last_number: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    pub(super) fn has_free_slot(&self) -> bool {
        self.tasks.len() < self.workers
    }

    /// Whether a kind may have one more slot. One object whose requests hang costs the others of its kind no more than
    /// its slot; only if the last answer was slow, all requests of the kind count.
    pub(super) fn has_room_for(&self, kind: KindId) -> bool {
        let is_slow = self.slow.contains(&kind);
        let sent = self.sent.values();
        let slow = sent.filter(|(at, to)| *to == kind && (is_slow || at.elapsed() > SLOW));
        slow.count() < slow_share(self.workers)
    }

    /// When a key is decided again whose kind has no free slot.
    pub(super) fn defer_until(&mut self, now: Timestamp) -> Timestamp {
        let until = later(now, CROWDED_WAIT).max(self.crowded_until);
        self.crowded_until = later(until, CROWDED_SPACING);
        until
    }

    /// Sends a request by `perform`.
    pub(super) fn spawn<F>(&mut self, planned: PlannedCall<C>, perform: impl FnOnce(ApiCall) -> F)
    where
        F: Future<Output = (ApiCall, PerformedCall)> + Send + 'static,
    {
        let PlannedCall {
            key,
            call,
            because,
            mut progress,
        } = planned;
        progress.requests += 1;
        self.last_number += 1;
        let number = self.last_number;
        let start = Instant::now();
        self.sent.insert(number, (start, call.target().kind));
        let perform = perform(call);
        self.tasks.spawn(async move {
            let (call, performed) = perform.await;
            FinishedCall {
                key,
                call,
                because,
                progress,
                number,
                took: start.elapsed(),
                performed,
            }
        });
    }

    /// The next request that has its answer; nothing if none is in flight. May be cancelled and called again.
    pub(super) async fn next(&mut self) -> Option<FinishedCall<C>> {
        let joined = self.tasks.join_next().await?;
        Some(self.finish(joined))
    }

    /// A request that has its answer already.
    pub(super) fn try_next(&mut self) -> Option<FinishedCall<C>> {
        let joined = self.tasks.try_join_next()?;
        Some(self.finish(joined))
    }

    /// When the oldest request without an answer was sent.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.sent.first_key_value().map(|(_, (sent, _))| *sent)
    }

    fn finish(&mut self, joined: Result<FinishedCall<C>, JoinError>) -> FinishedCall<C> {
        let finished = joined.unwrap_or_else(|error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => unreachable!("no request is aborted while its driver runs: {error}"),
        });
        self.sent.remove(&finished.number);
        let kind = finished.call.target().kind;
        if finished.took > SLOW {
            self.slow.insert(kind);
        } else {
            self.slow.remove(&kind);
        }
        finished
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

/// How many slots a slow kind may have.
fn slow_share(workers: usize) -> usize {
    let all_but_one = workers.saturating_sub(1).min(SLOW_SHARE);
    (workers / SLOW_SHARE).max(all_but_one).max(1)
}
