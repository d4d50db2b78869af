//! The TTL of Jobs that have finished: `ttl-after-finished-controller` and, for Volcano, `gc-controller`.
//!
//! - [`kinds`]: what finishes, a row each; one implementation is started once per row.
//! - `index`: the Jobs that have a time to go, and nothing but what that takes.
//! - `decide`: when they go.
//! - `ticks`: Jobs of CronJobs, which stay until their tick is recorded.
//! - [`reason`]: why, in words. [`metrics`]: what only these controllers count.
//!
//! Mirrors `pkg/controller/ttlafterfinished` (1.36) and Volcano's `pkg/controllers/garbagecollector`. Both look twice
//! before they delete, in their cache and at the server.
//!
//! DEVIATION(ttl-one-request): the second look is the server's own: the delete names the uid and the resourceVersion that
//! were judged. If anything has changed, the Job is read and judged again; upstream's delete compares the uid only, so
//! that a TTL raised between its two last requests is lost.

mod decide;
mod index;
pub mod kinds;
pub mod metrics;
pub mod reason;
mod ticks;

use std::time::Duration;

use jiff::Timestamp;

use self::index::{Index, Job, State};
pub use self::kinds::{BATCH, Finishing, KINDS, VOLCANO};
pub use self::reason::Reason;
use self::ticks::Ticks;
use crate::cron::CRON_JOBS;
use crate::runtime::call::ApiAnswer;
use crate::runtime::controller::{
    AnsweredCall, Controller, DriverStep, EventNote, ObservedChange, Verdict, WakeList,
};
use crate::runtime::feed_set::KindInterest;
use crate::runtime::kind::{KindId, KindState};
use crate::runtime::metrics::ControllerMetrics;
use crate::runtime::record::{ObjectRecord, RecordView, Uid};

/// Deletes the finished Jobs of one kind when their time has come.
#[derive(Debug)]
pub struct Ttl {
    row: &'static Finishing,
    rules: Rules,
    /// The number of its kind, once discovery has found it.
    kind: Option<KindId>,
    index: Index,
}

/// What can be chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rules {
    /// After how long a Job goes that was aborted; by itself none does. A longer TTL of the Job's own wins.
    pub after_aborted: Option<Duration>,
    /// Whether the controller of the CronJobs that make such Jobs works in this process, too.
    pub with_cron: bool,
}

/// Jobs that have a time to go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pending {
    /// How many.
    pub count: usize,
    /// When the first of them goes.
    pub next: Option<Timestamp>,
}

// === impl Ttl ===

impl Ttl {
    /// A controller of one kind that knows nothing yet.
    #[must_use]
    pub fn new(row: &'static Finishing, rules: Rules) -> Self {
        Self {
            row,
            rules,
            kind: None,
            index: Index::new(Ticks::new(rules.with_cron.then_some(row.cron))),
        }
    }

    /// The Jobs that have a time to go.
    #[must_use]
    pub fn pending(&self) -> Pending {
        self.index.pending()
    }

    /// What is decided about an object as it is, also if it is none that would be remembered; nothing about other kinds.
    #[must_use]
    pub fn explain(&self, record: &ObjectRecord, now: Timestamp) -> Option<Verdict<Uid, Reason>> {
        let judge = || Job::of(record, decide::judge(self.row, self.rules, record));
        let uid = &record.meta.uid;
        self.is_ours(record)
            .then(|| decide::about(self.row, uid, &judge(), now))
    }

    fn is_ours(&self, record: &ObjectRecord) -> bool {
        self.kind == Some(record.kind)
    }

    fn is_cron(&self, kind: KindId) -> bool {
        self.index.ticks.is_cron(kind)
    }

    /// The server said something about the CronJob that made a Job.
    fn found_cron(&mut self, uid: &Uid, answer: &ApiAnswer, wake: &mut WakeList<Uid>) {
        let tick = self.index.get(uid).and_then(Job::tick).cloned();
        match answer {
            ApiAnswer::Object(record) if tick.is_some_and(|tick| tick.owner == record.meta.uid) => {
                self.index.ticks.apply(record, wake);
            }
            // Gone, or another one has its name.
            ApiAnswer::Object(_) | ApiAnswer::Absent(_) => self.index.release(uid),
            ApiAnswer::Done | ApiAnswer::Failed(_) => {}
        }
    }

    fn apply(&mut self, record: &ObjectRecord, now: Timestamp, wake: &mut WakeList<Uid>) {
        let state = decide::judge(self.row, self.rules, record);
        if let State::Timed(end) = &state
            && end.finish > now
        {
            tracing::warn!(
                controller = self.row.name,
                job = format!("{}/{}", record.meta.namespace, record.meta.name),
                finish = %end.finish,
                "it says that it finished in the future; it goes that much later"
            );
        }
        self.index.apply(record, state, wake);
    }
}

impl Controller for Ttl {
    type Key = Uid;
    type Reason = Reason;

    fn name(&self) -> &'static str {
        self.row.name
    }

    fn observe(&mut self, change: &ObservedChange, now: Timestamp, wake: &mut WakeList<Uid>) {
        match change {
            ObservedChange::Applied(record) if self.is_ours(record) => {
                self.apply(record, now, wake);
            }
            ObservedChange::Applied(record) if self.is_cron(record.kind) => {
                self.index.ticks.apply(record, wake);
            }
            ObservedChange::Deleted(record) if self.is_cron(record.kind) => {
                for job in self.index.ticks.forget(&record.meta.uid, wake) {
                    self.index.release(&job);
                }
            }
            ObservedChange::Deleted(record) => self.index.forget(&record.meta.uid, wake),
            // The server is asked before anything follows from that.
            ObservedChange::Missing(kind, uid) if self.is_cron(*kind) => {
                self.index.ticks.forget(uid, wake);
            }
            // Nothing follows from an object that nobody shows.
            ObservedChange::Missing(_, uid) => self.index.forget(uid, wake),
            // The kind is gone, or its past was taken back: a list of everything comes before anything more.
            ObservedChange::Kind(kind, KindState::Gone | KindState::Frozen)
                if self.kind == Some(*kind) =>
            {
                self.index.clear(wake);
            }
            ObservedChange::Kind(kind, state) if self.is_cron(*kind) => {
                self.index.ticks.know_kind(*state, wake);
            }
            ObservedChange::Catalog(catalog) => {
                self.index.ticks.know_catalog(catalog, wake);
                self.kind = catalog.id(self.row.group, self.row.resource);
            }
            ObservedChange::Applied(_) | ObservedChange::Kind(..) => {}
        }
    }

    fn decide(&self, uid: &Uid, now: Timestamp) -> Verdict<Uid, Reason> {
        decide::known(self.row, &self.index, uid, now)
    }

    fn answered(&mut self, answered: AnsweredCall<'_, Uid>) -> Vec<EventNote> {
        let AnsweredCall {
            key: uid,
            call,
            answer,
            now,
            wake,
        } = answered;
        if self.is_cron(call.target().kind) {
            self.found_cron(uid, answer, wake);
            return Vec::new();
        }
        match answer {
            ApiAnswer::Object(record) if record.meta.uid == *uid && call.is_read() => {
                // A Job that the feed has not shown, or shows no more, is none of ours.
                if self.index.has(uid) {
                    self.apply(record, now, wake);
                }
            }
            ApiAnswer::Object(record) if record.meta.uid == *uid => {
                self.index.going(uid, Some(&record.meta.revision));
            }
            // Gone, or another one has its name. The feed says so, too, and then it is forgotten.
            ApiAnswer::Object(_) | ApiAnswer::Absent(_) => self.index.going(uid, None),
            ApiAnswer::Done if !call.is_read() => self.index.going(uid, None),
            ApiAnswer::Done | ApiAnswer::Failed(_) => {}
        }
        Vec::new()
    }

    fn measure(&mut self, step: &DriverStep<'_, Uid, Reason>, metrics: &ControllerMetrics) {
        metrics::measure(self, step, metrics);
    }

    fn keys(&self, record: &ObjectRecord) -> Vec<Uid> {
        let uid = self.is_ours(record).then(|| record.meta.uid.clone());
        uid.into_iter().collect()
    }
}

// === impl Finishing ===

impl Finishing {
    /// What a controller of this kind has to be shown.
    #[must_use]
    pub fn interest(&self, rules: Rules) -> KindInterest {
        let mut kinds = vec![(self.group.into(), self.resource.into())];
        if rules.with_cron {
            kinds.push((self.cron.group.into(), CRON_JOBS.into()));
        }
        KindInterest::Kinds {
            kinds,
            view: RecordView::Full,
        }
    }
}

#[cfg(test)]
mod tests;
