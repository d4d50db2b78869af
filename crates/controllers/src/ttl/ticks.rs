//! The Jobs of ticks: what a CronJob has made may not go before its status tells the slot.
//!
//! Otherwise whoever comes after a crash between the create of a Job and the record of its tick finds neither, and makes
//! the Job again. The rule holds while the CronJob lives, while its controller works in this process, and for Jobs that
//! bear the name of a slot newer than `lastScheduleTime`. A CronJob that no feed shows is asked for. Where CronJobs are not
//! served, or may not be read, nobody can make Jobs of them, and there is nothing to wait for.
//!
//! Mirrors nothing upstream: there a Job with a TTL of 0 can run twice.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::index::Job;
use crate::cron::{self, CRON_JOBS, CronDialect};
use crate::runtime::call::CallTarget;
use crate::runtime::controller::WakeList;
use crate::runtime::kind::{KindCatalog, KindId, KindState};
use crate::runtime::record::{ObjectRecord, Revision, Uid};

/// The CronJobs whose ticks count.
#[derive(Debug)]
pub(super) struct Ticks {
    /// Nothing if their controller does not work here.
    row: Option<&'static CronDialect>,
    kind: Option<KindId>,
    is_served: bool,
    is_forbidden: bool,
    crons: BTreeMap<Uid, CronJob>,
    /// The Jobs of each that have a time to go.
    jobs: BTreeMap<Uid, BTreeSet<Uid>>,
}

#[derive(Debug)]
struct CronJob {
    revision: Revision,
    is_deleting: bool,
    created: Option<Timestamp>,
    last: Option<Timestamp>,
}

/// The slot that a Job is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tick {
    pub(super) owner: Uid,
    pub(super) cron_job: Box<str>,
    pub(super) slot: Timestamp,
}

/// Whether a Job's tick lets the Job be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TickHold {
    Free,
    /// The CronJob's status does not record the tick yet.
    Unrecorded,
    /// No feed has shown the CronJob, so it has to be read.
    Unknown(CallTarget),
}

// === impl Ticks ===

impl Ticks {
    pub(super) fn new(row: Option<&'static CronDialect>) -> Self {
        Self {
            row,
            kind: None,
            is_served: false,
            is_forbidden: false,
            crons: BTreeMap::new(),
            jobs: BTreeMap::new(),
        }
    }

    pub(super) fn is_cron(&self, kind: KindId) -> bool {
        self.kind == Some(kind)
    }

    pub(super) fn know_catalog(&mut self, catalog: &KindCatalog, wake: &mut WakeList<Uid>) {
        let id = self.row.and_then(|row| catalog.id(row.group, CRON_JOBS));
        // What is said about a kind that went may come after this.
        self.kind = id.or(self.kind);
        let was_served = self.is_served;
        self.is_served = id.is_some_and(|id| catalog.get(id).is_some());
        if was_served && !self.is_served {
            self.crons.clear();
            self.wake_all(wake);
        }
    }

    /// How the feed of CronJobs does.
    pub(super) fn know_kind(&mut self, state: KindState, wake: &mut WakeList<Uid>) {
        match state {
            KindState::Gone | KindState::Frozen => self.crons.clear(),
            KindState::Forbidden if !self.is_forbidden => self.is_forbidden = true,
            KindState::Synced if self.is_forbidden => self.is_forbidden = false,
            KindState::Synced
            | KindState::Forbidden
            | KindState::Syncing(_)
            | KindState::Failing(_) => return,
        }
        self.wake_all(wake);
    }

    /// The tick that a Job is for, if it bears the name of one.
    pub(super) fn of(&self, record: &ObjectRecord) -> Option<Tick> {
        self.row?;
        let owner = cron::owner(record)?;
        let slot = cron::slot_of_job_name(&owner.name, &record.meta.name, None)?;
        Some(Tick {
            owner: owner.uid.clone(),
            cron_job: owner.name.clone(),
            slot,
        })
    }

    /// A Job has a time to go.
    pub(super) fn follow(&mut self, tick: &Tick, job: &Uid) {
        let jobs = self.jobs.entry(tick.owner.clone()).or_default();
        jobs.insert(job.clone());
    }

    /// A Job has no time to go any more.
    pub(super) fn leave(&mut self, tick: &Tick, job: &Uid) {
        if let Some(jobs) = self.jobs.get_mut(&tick.owner) {
            jobs.remove(job);
            if jobs.is_empty() {
                self.jobs.remove(&tick.owner);
            }
        }
    }

    /// A CronJob as it is.
    pub(super) fn apply(&mut self, record: &ObjectRecord, wake: &mut WakeList<Uid>) {
        let uid = &record.meta.uid;
        let known = self.crons.get(uid);
        if known.is_some_and(|known| record.meta.revision.is_before(&known.revision)) {
            return;
        }
        let (created, last) = cron::cron_job_times(record);
        let cron = CronJob {
            revision: record.meta.revision.clone(),
            is_deleting: record.meta.deletion.is_some(),
            created,
            last,
        };
        self.crons.insert(uid.clone(), cron);
        self.wake(uid, wake);
    }

    /// A CronJob is not known any more: gone, or not shown. Says whose Jobs it concerns.
    pub(super) fn forget(&mut self, uid: &Uid, wake: &mut WakeList<Uid>) -> Vec<Uid> {
        self.crons.remove(uid);
        self.wake(uid, wake);
        self.jobs.get(uid).into_iter().flatten().cloned().collect()
    }

    /// Whether the Job of a tick may be deleted.
    pub(super) fn hold(&self, tick: &Tick, job: &Job, now: Timestamp) -> TickHold {
        let Some(kind) = self.kind.filter(|_| self.is_served && !self.is_forbidden) else {
            return TickHold::Free;
        };
        let Some(cron) = self.crons.get(&tick.owner) else {
            let CallTarget { namespace, .. } = job.target();
            return TickHold::Unknown(CallTarget {
                kind,
                namespace,
                name: tick.cron_job.clone(),
            });
        };
        let created = cron.created.unwrap_or(Timestamp::MIN);
        let is_unrecorded = cron::is_unrecorded_tick(tick.slot, created, cron.last, now);
        if is_unrecorded && !cron.is_deleting {
            TickHold::Unrecorded
        } else {
            TickHold::Free
        }
    }

    fn wake_all(&self, wake: &mut WakeList<Uid>) {
        for job in self.jobs.values().flatten() {
            wake.now(job.clone());
        }
    }

    fn wake(&self, cron: &Uid, wake: &mut WakeList<Uid>) {
        for job in self.jobs.get(cron).into_iter().flatten() {
            wake.now(job.clone());
        }
    }
}
