//! The index of a TTL controller: the Jobs that expire, with their identity, judged version and expiry.
//!
//! Feeds and answers change it; the newer version wins. A Job without an expiry is not tracked. A Job whose delete was
//! acknowledged is kept until its feed removes it, so that an older copy on a slow watch does not add it again.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::PendingJobs;
use super::interlock::{JobTick, TickInterlock};
use crate::runtime::call::{CallTarget, JudgedVersion};
use crate::runtime::controller::WakeList;
use crate::runtime::kind::KindId;
use crate::runtime::record::{ObjectRecord, Revision, Uid};

/// The tracked Jobs, and the interlock with their CronJobs.
#[derive(Debug)]
pub(super) struct TtlIndex {
    jobs: BTreeMap<Uid, TrackedJob>,
    pub(super) interlock: TickInterlock,
}

/// A Job that expires, or that has an invalid TTL or finish time.
#[derive(Debug)]
pub(super) struct TrackedJob {
    kind: KindId,
    namespace: Box<str>,
    name: Box<str>,
    revision: Revision,
    pub(super) state: ExpiryState,
    /// The tick that created it, until its CronJob is known to be gone.
    pub(super) tick: Option<JobTick>,
}

/// Whether and when a Job expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ExpiryState {
    /// It is being deleted already.
    Deleting,
    /// It has not finished.
    Unfinished,
    /// It has no TTL.
    NoTtl,
    /// It has finished and has a TTL.
    Timed(JobExpiry),
    /// It has finished, but has no valid finish time.
    NoFinishTime,
    /// Its TTL, quoted here, is not a valid number of seconds, or its expiry is after the year 9999.
    OutOfRange(Box<str>),
    /// The server acknowledged our delete.
    Going,
}

/// When a Job finished, and when it expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JobExpiry {
    /// When it finished, or was aborted.
    pub(super) finish: Timestamp,
    pub(super) expiry: Timestamp,
    pub(super) is_aborted: bool,
}

// === impl TtlIndex ===

impl TtlIndex {
    pub(super) fn new(ticks: TickInterlock) -> Self {
        Self {
            jobs: BTreeMap::new(),
            interlock: ticks,
        }
    }

    /// Applies the current state of a Job. An older copy is ignored.
    pub(super) fn apply(
        &mut self,
        record: &ObjectRecord,
        state: ExpiryState,
        wake: &mut WakeList<Uid>,
    ) {
        let uid = &record.meta.uid;
        let known = self.jobs.get(uid);
        let is_old = known.is_some_and(|known| {
            let is_newer = known.revision.is_before(&record.meta.revision);
            record.meta.revision.is_before(&known.revision)
                || known.state == ExpiryState::Going && !is_newer && state.is_tracked()
        });
        if is_old {
            return;
        }
        if !state.is_tracked() {
            return self.forget(uid, wake);
        }
        wake.now(uid.clone());
        let mut job = TrackedJob::of(record, state);
        job.tick = self.interlock.tick_of(record);
        let known = self.jobs.remove(uid);
        let tick = known.and_then(|known| known.tick);
        self.interlock.untrack_job(tick, uid);
        if let Some(tick) = &job.tick {
            self.interlock.track_job(tick, uid);
        }
        self.jobs.insert(uid.clone(), job);
    }

    /// Ends the interlock of a Job, because its CronJob is gone and will record no tick.
    pub(super) fn release_tick(&mut self, uid: &Uid) {
        if let Some(job) = self.jobs.get_mut(uid) {
            self.interlock.untrack_job(job.tick.take(), uid);
        }
    }

    /// Removes a Job that is gone or does not expire any more.
    pub(super) fn forget(&mut self, uid: &Uid, wake: &mut WakeList<Uid>) {
        if let Some(job) = self.jobs.remove(uid) {
            wake.now(uid.clone());
            self.interlock.untrack_job(job.tick, uid);
        }
    }

    /// Removes all Jobs.
    pub(super) fn clear(&mut self, wake: &mut WakeList<Uid>) {
        for (uid, job) in std::mem::take(&mut self.jobs) {
            self.interlock.untrack_job(job.tick, &uid);
            wake.now(uid);
        }
    }

    /// Records that a delete was acknowledged, with the revision that it wrote, if any.
    pub(super) fn mark_going(&mut self, uid: &Uid, revision: Option<&Revision>) {
        if let Some(job) = self.jobs.get_mut(uid) {
            job.state = ExpiryState::Going;
            if let Some(revision) = revision {
                job.revision = revision.clone();
            }
        }
    }

    pub(super) fn get(&self, uid: &Uid) -> Option<&TrackedJob> {
        self.jobs.get(uid)
    }

    /// Counts the Jobs that wait for their expiry. Scans all tracked Jobs.
    pub(super) fn pending(&self) -> PendingJobs {
        let ends = self.jobs.values().filter_map(|job| match &job.state {
            ExpiryState::Timed(end) => Some(end.expiry),
            _ => None,
        });
        ends.fold(PendingJobs::default(), |pending, expire| PendingJobs {
            count: pending.count + 1,
            next_expiry: Some(pending.next_expiry.map_or(expire, |next| next.min(expire))),
        })
    }
}

// === impl TrackedJob ===

impl TrackedJob {
    pub(super) fn of(record: &ObjectRecord, state: ExpiryState) -> Self {
        Self {
            kind: record.kind,
            namespace: record.meta.namespace.clone(),
            name: record.meta.name.clone(),
            revision: record.meta.revision.clone(),
            state,
            tick: None,
        }
    }

    pub(super) fn target(&self) -> CallTarget {
        CallTarget::new(self.kind, &*self.namespace, &*self.name)
    }

    pub(super) fn judged(&self, uid: &Uid) -> JudgedVersion {
        JudgedVersion::new(uid, &self.revision)
    }
}

// === impl ExpiryState ===

impl ExpiryState {
    /// Whether the index keeps a Job in this state.
    fn is_tracked(&self) -> bool {
        !matches!(self, Self::Deleting | Self::Unfinished | Self::NoTtl)
    }
}
