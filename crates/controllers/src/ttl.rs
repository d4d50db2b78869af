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
use crate::runtime::call::Answer;
use crate::runtime::controller::{CallAnswer, Change, Controller, DriverStep, Note, Verdict, Wake};
use crate::runtime::feed_set::Interest;
use crate::runtime::kind::{KindId, KindState};
use crate::runtime::metrics::Metrics;
use crate::runtime::record::{Record, Uid, View};

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
    pub fn explain(&self, record: &Record, now: Timestamp) -> Option<Verdict<Uid, Reason>> {
        let judge = || Job::of(record, decide::judge(self.row, self.rules, record));
        let uid = &record.meta.uid;
        self.is_ours(record)
            .then(|| decide::about(self.row, uid, &judge(), now))
    }

    fn is_ours(&self, record: &Record) -> bool {
        self.kind == Some(record.kind)
    }

    fn is_cron(&self, kind: KindId) -> bool {
        self.index.ticks.is_cron(kind)
    }

    /// The server said something about the CronJob that made a Job.
    fn found_cron(&mut self, uid: &Uid, answer: &Answer, wake: &mut Wake<Uid>) {
        let tick = self.index.get(uid).and_then(Job::tick).cloned();
        match answer {
            Answer::Object(record) if tick.is_some_and(|tick| tick.owner == record.meta.uid) => {
                self.index.ticks.apply(record, wake);
            }
            // Gone, or another one has its name.
            Answer::Object(_) | Answer::Absent(_) => self.index.release(uid),
            Answer::Done | Answer::Failed(_) => {}
        }
    }

    fn apply(&mut self, record: &Record, now: Timestamp, wake: &mut Wake<Uid>) {
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

    fn observe(&mut self, change: &Change, now: Timestamp, wake: &mut Wake<Uid>) {
        match change {
            Change::Applied(record) if self.is_ours(record) => self.apply(record, now, wake),
            Change::Applied(record) if self.is_cron(record.kind) => {
                self.index.ticks.apply(record, wake);
            }
            Change::Deleted(record) if self.is_cron(record.kind) => {
                for job in self.index.ticks.forget(&record.meta.uid, wake) {
                    self.index.release(&job);
                }
            }
            Change::Deleted(record) => self.index.forget(&record.meta.uid, wake),
            // The server is asked before anything follows from that.
            Change::Missing(kind, uid) if self.is_cron(*kind) => {
                self.index.ticks.forget(uid, wake);
            }
            // Nothing follows from an object that nobody shows.
            Change::Missing(_, uid) => self.index.forget(uid, wake),
            // The kind is gone, or its past was taken back: a list of everything comes before anything more.
            Change::Kind(kind, KindState::Gone | KindState::Frozen) if self.kind == Some(*kind) => {
                self.index.clear(wake);
            }
            Change::Kind(kind, state) if self.is_cron(*kind) => {
                self.index.ticks.know_kind(*state, wake);
            }
            Change::Catalog(catalog) => {
                self.index.ticks.know_catalog(catalog, wake);
                self.kind = catalog.id(self.row.group, self.row.resource);
            }
            Change::Applied(_) | Change::Kind(..) => {}
        }
    }

    fn decide(&self, uid: &Uid, now: Timestamp) -> Verdict<Uid, Reason> {
        decide::known(self.row, &self.index, uid, now)
    }

    fn answered(&mut self, answered: CallAnswer<'_, Uid>) -> Vec<Note> {
        let CallAnswer {
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
            Answer::Object(record) if record.meta.uid == *uid && call.is_read() => {
                // A Job that the feed has not shown, or shows no more, is none of ours.
                if self.index.has(uid) {
                    self.apply(record, now, wake);
                }
            }
            Answer::Object(record) if record.meta.uid == *uid => {
                self.index.going(uid, Some(&record.meta.revision));
            }
            // Gone, or another one has its name. The feed says so, too, and then it is forgotten.
            Answer::Object(_) | Answer::Absent(_) => self.index.going(uid, None),
            Answer::Done if !call.is_read() => self.index.going(uid, None),
            Answer::Done | Answer::Failed(_) => {}
        }
        Vec::new()
    }

    fn measure(&mut self, step: &DriverStep<'_, Uid, Reason>, metrics: &Metrics) {
        metrics::measure(self, step, metrics);
    }

    fn keys(&self, record: &Record) -> Vec<Uid> {
        let uid = self.is_ours(record).then(|| record.meta.uid.clone());
        uid.into_iter().collect()
    }
}

// === impl Finishing ===

impl Finishing {
    /// What a controller of this kind has to be shown.
    #[must_use]
    pub fn interest(&self, rules: Rules) -> Interest {
        let mut kinds = vec![(self.group.into(), self.resource.into())];
        if rules.with_cron {
            kinds.push((self.cron.group.into(), CRON_JOBS.into()));
        }
        Interest::Kinds {
            kinds,
            view: View::Full,
        }
    }
}

#[cfg(test)]
mod tests;
