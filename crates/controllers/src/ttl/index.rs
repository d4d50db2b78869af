//! The Jobs that have a time to go: their identity, the version that was judged, and what came of it.
//!
//! Feeds and answers change it, the newer version wins. A Job that nothing follows for is not kept. One whose delete was
//! acknowledged stays, so that an older copy on a slow watch does not bring it back; only a feed removes it.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::Pending;
use super::ticks::{Tick, Ticks};
use crate::runtime::call::{CallTarget, JudgedVersion};
use crate::runtime::controller::WakeList;
use crate::runtime::kind::KindId;
use crate::runtime::record::{ObjectRecord, Revision, Uid};

/// The Jobs that matter.
#[derive(Debug)]
pub(super) struct Index {
    jobs: BTreeMap<Uid, Job>,
    /// The CronJobs that made some of them.
    pub(super) ticks: Ticks,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Job {
    kind: KindId,
    namespace: Box<str>,
    name: Box<str>,
    revision: Revision,
    state: State,
    /// The tick that it is for, while its CronJob is not known to be gone.
    tick: Option<Tick>,
}

/// What is known about a Job's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// It is being deleted already.
    Deleting,
    /// It has not finished.
    Unfinished,
    /// It has no TTL.
    NoTtl,
    /// It has a time to go.
    Timed(End),
    /// It has finished, and does not say when.
    NoFinishTime,
    /// Its TTL is no number of seconds, or ends after all time; this is what is written there.
    OutOfRange(Box<str>),
    /// Its delete was acknowledged.
    Going,
}

/// When a Job goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    /// When it finished, or was aborted.
    pub(super) finish: Timestamp,
    /// When its time is over.
    pub(super) expire: Timestamp,
    /// Whether it was aborted.
    pub(super) is_aborted: bool,
}

// === impl Index ===

impl Index {
    pub(super) fn new(ticks: Ticks) -> Self {
        Self {
            jobs: BTreeMap::new(),
            ticks,
        }
    }

    /// Takes note of a Job as it is.
    pub(super) fn apply(&mut self, record: &ObjectRecord, state: State, wake: &mut WakeList<Uid>) {
        let uid = &record.meta.uid;
        let known = self.jobs.get(uid);
        let is_old = known.is_some_and(|known| {
            let is_newer = known.revision.is_before(&record.meta.revision);
            record.meta.revision.is_before(&known.revision)
                || known.state == State::Going && !is_newer && state.is_of_interest()
        });
        if is_old {
            return;
        }
        if !state.is_of_interest() {
            return self.forget(uid, wake);
        }
        wake.now(uid.clone());
        let mut job = Job::of(record, state);
        job.tick = self.ticks.of(record);
        if let Some(tick) = self.jobs.remove(uid).and_then(|known| known.tick) {
            self.ticks.leave(&tick, uid);
        }
        if let Some(tick) = &job.tick {
            self.ticks.follow(tick, uid);
        }
        self.jobs.insert(uid.clone(), job);
    }

    /// The CronJob that made a Job is gone, so that no tick of it is recorded any more.
    pub(super) fn release(&mut self, uid: &Uid) {
        if let Some(job) = self.jobs.get_mut(uid)
            && let Some(tick) = job.tick.take()
        {
            self.ticks.leave(&tick, uid);
        }
    }

    /// A Job is gone, or nothing follows for it any more.
    pub(super) fn forget(&mut self, uid: &Uid, wake: &mut WakeList<Uid>) {
        if let Some(job) = self.jobs.remove(uid) {
            wake.now(uid.clone());
            if let Some(tick) = &job.tick {
                self.ticks.leave(tick, uid);
            }
        }
    }

    /// Nothing is known any more.
    pub(super) fn clear(&mut self, wake: &mut WakeList<Uid>) {
        for (uid, job) in std::mem::take(&mut self.jobs) {
            if let Some(tick) = &job.tick {
                self.ticks.leave(tick, &uid);
            }
            wake.now(uid);
        }
    }

    /// A delete was acknowledged, and this is the version that it made, if it made one.
    pub(super) fn going(&mut self, uid: &Uid, revision: Option<&Revision>) {
        if let Some(job) = self.jobs.get_mut(uid) {
            job.state = State::Going;
            if let Some(revision) = revision {
                job.revision = revision.clone();
            }
        }
    }

    pub(super) fn has(&self, uid: &Uid) -> bool {
        self.jobs.contains_key(uid)
    }

    pub(super) fn get(&self, uid: &Uid) -> Option<&Job> {
        self.jobs.get(uid)
    }

    /// The Jobs that have a time to go. Looks at every Job.
    pub(super) fn pending(&self) -> Pending {
        let ends = self.jobs.values().filter_map(|job| match &job.state {
            State::Timed(end) => Some(end.expire),
            _ => None,
        });
        ends.fold(Pending::default(), |pending, expire| Pending {
            count: pending.count + 1,
            next: Some(pending.next.map_or(expire, |next| next.min(expire))),
        })
    }
}

// === impl Job ===

impl Job {
    /// A Job as it is.
    pub(super) fn of(record: &ObjectRecord, state: State) -> Self {
        Self {
            kind: record.kind,
            namespace: record.meta.namespace.clone(),
            name: record.meta.name.clone(),
            revision: record.meta.revision.clone(),
            state,
            tick: None,
        }
    }

    /// The tick that it is for, while its CronJob is not known to be gone.
    pub(super) fn tick(&self) -> Option<&Tick> {
        self.tick.as_ref()
    }

    pub(super) fn state(&self) -> &State {
        &self.state
    }

    pub(super) fn target(&self) -> CallTarget {
        CallTarget {
            kind: self.kind,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    pub(super) fn judged(&self, uid: &Uid) -> JudgedVersion {
        JudgedVersion {
            uid: uid.clone(),
            revision: self.revision.clone(),
        }
    }
}

// === impl State ===

impl State {
    /// Whether anything follows from it.
    fn is_of_interest(&self) -> bool {
        !matches!(self, Self::Deleting | Self::Unfinished | Self::NoTtl)
    }
}
