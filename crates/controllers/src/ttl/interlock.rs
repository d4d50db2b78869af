//! The interlock with the CronJob controller: a CronJob's Job is not deleted before the CronJob's status records its slot.
//!
//! Otherwise, after a crash between the creation of a Job and the record of its tick, the next process would find
//! neither and create the Job again. The rule holds while the CronJob exists, while its controller runs and writes here,
//! and for Jobs that have the name of a slot newer than `lastScheduleTime`, until that slot can no longer be served
//! (`cron::slot_keeper`). A CronJob that no feed shows is read from the server. If CronJobs are not served, the Job is free.
//! If they are forbidden, the last copy of the CronJob decides; a Job whose CronJob was never seen is free, and so is one
//! whose slot never ends, because nothing would ever end the wait.
//!
//! Upstream has no such rule: there a Job with a TTL of 0 can run twice.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::index::TrackedJob;
use crate::cron::{self, CRON_JOBS, CronDialect, SlotHold, SlotKeeper};
use crate::runtime::call::CallTarget;
use crate::runtime::controller::WakeList;
use crate::runtime::kind::{KindCatalog, KindId, KindState};
use crate::runtime::record::{ObjectRecord, Revision, Uid};

/// The CronJobs of one dialect, and the tracked Jobs of each.
#[derive(Debug)]
pub(super) struct TickInterlock {
    /// `None` if their controller does not run in this process, or does not write.
    dialect: Option<&'static CronDialect>,
    /// The zone of schedules without `timeZone`.
    default_zone: TimeZone,
    kind: Option<KindId>,
    is_served: bool,
    is_forbidden: bool,
    cron_jobs: BTreeMap<Uid, CronJobState>,
    /// The tracked Jobs of each CronJob.
    jobs: BTreeMap<Uid, BTreeSet<Uid>>,
}

#[derive(Debug)]
struct CronJobState {
    revision: Revision,
    is_deleting: bool,
    keeper: SlotKeeper,
}

/// The slot of a Job, and the CronJob that created the Job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JobTick {
    pub(super) owner: Uid,
    pub(super) cron_job: Box<str>,
    pub(super) slot: Timestamp,
}

/// Whether a Job's tick lets the Job be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TickHold {
    Free,
    /// The CronJob's status does not record the tick yet.
    Unrecorded(SlotHold),
    /// No feed has shown the CronJob, so it has to be read.
    Unknown(CallTarget),
}

// === impl TickInterlock ===

impl TickInterlock {
    /// `zone` is the zone of schedules without `timeZone`; `None` if the CronJob controller does not run in this process.
    pub(super) fn new(row: &'static CronDialect, zone: Option<TimeZone>) -> Self {
        Self {
            dialect: zone.is_some().then_some(row),
            default_zone: zone.unwrap_or(TimeZone::UTC),
            kind: None,
            is_served: false,
            is_forbidden: false,
            cron_jobs: BTreeMap::new(),
            jobs: BTreeMap::new(),
        }
    }

    pub(super) fn is_cron_job(&self, kind: KindId) -> bool {
        self.kind == Some(kind)
    }

    pub(super) fn set_catalog(&mut self, catalog: &KindCatalog, wake: &mut WakeList<Uid>) {
        let id = self
            .dialect
            .and_then(|row| catalog.id(row.group, CRON_JOBS));
        // Changes of a kind that is no longer served may come after this one.
        self.kind = id.or(self.kind);
        let was_served = self.is_served;
        self.is_served = id.is_some_and(|id| catalog.get(id).is_some());
        if was_served && !self.is_served {
            self.cron_jobs.clear();
            self.wake_all(wake);
        }
    }

    /// Records the state of the CronJobs' feed.
    pub(super) fn set_kind_state(&mut self, state: KindState, wake: &mut WakeList<Uid>) {
        match state {
            KindState::Gone | KindState::Frozen => self.cron_jobs.clear(),
            KindState::Forbidden if !self.is_forbidden => self.is_forbidden = true,
            KindState::Synced if self.is_forbidden => self.is_forbidden = false,
            KindState::Synced
            | KindState::Forbidden
            | KindState::Syncing(_)
            | KindState::Failing(_) => return,
        }
        self.wake_all(wake);
    }

    /// The tick that created a Job, if the Job has the name of a slot.
    pub(super) fn tick_of(&self, record: &ObjectRecord) -> Option<JobTick> {
        let dialect = self.dialect?;
        let owner = cron::owner(record)?;
        let slot = cron::slot_of_job(dialect, record, &owner.name)?;
        Some(JobTick {
            owner: owner.uid.clone(),
            cron_job: owner.name.clone(),
            slot,
        })
    }

    pub(super) fn track_job(&mut self, tick: &JobTick, job: &Uid) {
        let jobs = self.jobs.entry(tick.owner.clone()).or_default();
        jobs.insert(job.clone());
    }

    pub(super) fn untrack_job(&mut self, tick: Option<JobTick>, job: &Uid) {
        let Some(tick) = tick else {
            return;
        };
        if let Some(jobs) = self.jobs.get_mut(&tick.owner) {
            jobs.remove(job);
            if jobs.is_empty() {
                self.jobs.remove(&tick.owner);
            }
        }
    }

    /// Applies the current state of a CronJob. An older copy is ignored.
    pub(super) fn apply(&mut self, record: &ObjectRecord, wake: &mut WakeList<Uid>) {
        let uid = &record.meta.uid;
        let known = self.cron_jobs.get(uid);
        if known.is_some_and(|known| record.meta.revision.is_before(&known.revision)) {
            return;
        }
        let cron = CronJobState {
            revision: record.meta.revision.clone(),
            is_deleting: record.meta.deletion.is_some(),
            keeper: SlotKeeper::read(record, &self.default_zone),
        };
        self.cron_jobs.insert(uid.clone(), cron);
        self.wake_jobs(uid, wake);
    }

    /// Removes a CronJob that is gone, or that a relist did not show. Returns its tracked Jobs.
    pub(super) fn forget(&mut self, uid: &Uid, wake: &mut WakeList<Uid>) -> Vec<Uid> {
        self.cron_jobs.remove(uid);
        self.wake_jobs(uid, wake);
        self.jobs.get(uid).into_iter().flatten().cloned().collect()
    }

    /// Whether the Job of a tick may be deleted.
    pub(super) fn hold(&self, tick: &JobTick, job: &TrackedJob, now: Timestamp) -> TickHold {
        let Some(kind) = self.kind.filter(|_| self.is_served) else {
            return TickHold::Free;
        };
        let hold = match self.cron_jobs.get(&tick.owner) {
            Some(cron) if cron.is_deleting => None,
            Some(cron) => cron.keeper.hold(tick.slot, now),
            None if self.is_forbidden => None,
            None => {
                let namespace = job.target().namespace;
                return TickHold::Unknown(CallTarget::new(kind, namespace, &*tick.cron_job));
            }
        };
        let hold = hold.filter(|hold| hold.until.is_some() || !self.is_forbidden);
        hold.map_or(TickHold::Free, TickHold::Unrecorded)
    }

    fn wake_all(&self, wake: &mut WakeList<Uid>) {
        for job in self.jobs.values().flatten() {
            wake.now(job.clone());
        }
    }

    fn wake_jobs(&self, cron: &Uid, wake: &mut WakeList<Uid>) {
        for job in self.jobs.get(cron).into_iter().flatten() {
            wake.now(job.clone());
        }
    }
}
