//! Holds the CronJobs of one kind and the Jobs that they own.
//!
//! Watches and answers change it; the newer resourceVersion wins. Jobs are stored by the uid of their controller, so a
//! decision costs what the CronJob owns and not what its namespace has; Jobs without a CronJob are not kept. A Job whose
//! delete was acknowledged stays until a watch shows its DELETED event, so that an older copy on a slow watch does not
//! bring it back. A Job that a relist does not show is doubtful: it counts as existing until the API server was asked.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::CronSettings;
use super::dialects::{CRON_JOBS, CronDialect, JOBS};
use super::event_texts::{self, CronEvent};
use super::facts::{self, CronSpec, JobFacts};
use super::memory::{CronMemory, StatusWrite};
use super::owned_jobs::{JobRules, OwnedJob, OwnedJobs};
use super::slots::{self, SlotOutlook};
use super::status::CronStatus;
use crate::runtime::call::CallTarget;
use crate::runtime::controller::{EventNote, ObjectIdentity, WakeList};
use crate::runtime::kind::{KindCatalog, KindId, KindState};
use crate::runtime::record::{ObjectRecord, Revision, Uid};

/// Holds all indexing state of one CronJob controller. The driver's task owns it.
#[derive(Debug)]
pub struct CronIndex {
    pub(super) row: &'static CronDialect,
    pub(super) settings: CronSettings,
    crons_kind: KindSync,
    jobs_kind: KindSync,
    crons: BTreeMap<Uid, CronState>,
    /// By the uid of the owner. The owner itself may not have been shown yet.
    jobs: BTreeMap<Uid, OwnedJobs>,
    /// The owner of each Job, by the uid of the Job.
    owners: BTreeMap<Uid, Uid>,
    rules: JobRules,
}

/// The id of a kind, and how complete its objects are.
#[derive(Debug, Default)]
struct KindSync {
    id: Option<KindId>,
    /// Whether a list was completed, and the feed was not reset since.
    is_listed: bool,
}

/// One CronJob as last observed.
#[derive(Debug)]
pub(super) struct CronState {
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
    pub(super) revision: Revision,
    pub(super) is_deleting: bool,
    pub(super) created: Timestamp,
    pub(super) spec: CronSpec,
    pub(super) status: CronStatus,
    pub(super) memory: CronMemory,
}

// === impl CronIndex ===

impl CronIndex {
    pub(super) fn new(row: &'static CronDialect, mut settings: CronSettings) -> Self {
        settings.after_aborted.take_if(|_| !row.has_aborted);
        let rules = JobRules {
            age: row.age,
            are_aborted_over: settings.after_aborted.is_some(),
        };
        Self {
            row,
            settings,
            rules,
            crons_kind: KindSync::default(),
            jobs_kind: KindSync::default(),
            crons: BTreeMap::new(),
            jobs: BTreeMap::new(),
            owners: BTreeMap::new(),
        }
    }

    pub(super) fn is_cron(&self, kind: KindId) -> bool {
        self.crons_kind.id == Some(kind)
    }

    pub(super) fn is_job(&self, kind: KindId) -> bool {
        self.jobs_kind.id == Some(kind)
    }

    /// Whether both kinds were listed. No request is sent before.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.crons_kind.is_listed && self.jobs_kind.is_listed
    }

    /// The number of CronJobs.
    #[must_use]
    pub fn count(&self) -> usize {
        self.crons.len()
    }

    pub(super) fn cron(&self, uid: &Uid) -> Option<&CronState> {
        self.crons.get(uid)
    }

    /// An Event about a CronJob, if its kind has one for this case.
    pub(super) fn note(
        &self,
        uid: &Uid,
        event: CronEvent,
        values: &[(&str, &str)],
    ) -> Option<EventNote> {
        let about = self.crons.get(uid)?.identity(self.row, uid);
        event_texts::note(self.row, &about, event, values)
    }

    pub(super) fn memory(&mut self, uid: &Uid) -> Option<&mut CronMemory> {
        self.crons.get_mut(uid).map(|cron| &mut cron.memory)
    }

    /// The Jobs that a CronJob owns, finished ones included.
    pub(super) fn jobs_of(&self, owner: &Uid) -> Option<&OwnedJobs> {
        self.jobs.get(owner)
    }

    /// The CronJob that controls a Job, known or not.
    pub(super) fn owner_of(&self, job: &Uid) -> Option<&Uid> {
        self.owners.get(job)
    }

    pub(super) fn job(&self, owner: &Uid, uid: &Uid) -> Option<&OwnedJob> {
        self.jobs.get(owner)?.get(uid)
    }

    /// Whether a Job has finished. An aborted Job counts only if aborted Jobs have a TTL.
    pub(super) fn has_finished(&self, job: &OwnedJob) -> bool {
        job.has_finished(self.rules)
    }

    pub(super) fn target_of_cron(&self, cron: &CronState) -> Option<CallTarget> {
        let kind = self.crons_kind.id?;
        Some(CallTarget::new(kind, &*cron.namespace, &*cron.name))
    }

    pub(super) fn target_of_job(&self, cron: &CronState, name: &str) -> Option<CallTarget> {
        Some(CallTarget::new(self.jobs_kind.id?, &*cron.namespace, name))
    }

    pub(super) fn know_catalog(&mut self, catalog: &KindCatalog) {
        self.crons_kind.id = catalog.id(self.row.group, CRON_JOBS);
        self.jobs_kind.id = catalog.id(self.row.group, JOBS);
    }

    /// Takes a kind's new state. A reset drops all objects of the kind, and decisions wait for the next list.
    pub(super) fn know_kind(&mut self, kind: KindId, state: KindState, wake: &mut WakeList<Uid>) {
        let is_cron = self.is_cron(kind);
        let known = match is_cron {
            true => &mut self.crons_kind,
            false if self.is_job(kind) => &mut self.jobs_kind,
            false => return,
        };
        let was_listed = known.is_listed;
        match state {
            KindState::Synced => known.is_listed = true,
            // The objects may be stale. Names and preconditions protect against wrong requests.
            KindState::Failing(_) => {}
            KindState::Syncing(_) | KindState::Forbidden => known.is_listed = false,
            KindState::Frozen | KindState::Gone => {
                known.is_listed = false;
                if is_cron {
                    self.crons.clear();
                } else {
                    self.jobs.clear();
                    self.owners.clear();
                }
            }
        }
        if !was_listed && self.is_complete() {
            for uid in self.crons.keys() {
                wake.now(uid.clone());
            }
        }
    }

    /// Stores a CronJob, unless the stored version is as new.
    pub(super) fn apply_cron(
        &mut self,
        record: &ObjectRecord,
        now: Timestamp,
        wake: &mut WakeList<Uid>,
    ) {
        let uid = &record.meta.uid;
        let revision = &record.meta.revision;
        let is_old =
            |known: &CronState| revision == &known.revision || revision.is_before(&known.revision);
        if self.crons.get(uid).is_some_and(is_old) {
            return;
        }
        let (created, spec, status) = facts::cron_job(record);
        let mut cron = CronState {
            namespace: record.meta.namespace.clone(),
            name: record.meta.name.clone(),
            revision: revision.clone(),
            is_deleting: record.meta.deletion.is_some(),
            created: created.unwrap_or(now),
            spec,
            status,
            memory: CronMemory::default(),
        };
        let mut next = None;
        if let Some(known) = self.crons.remove(uid) {
            let is_edited =
                known.spec.text != cron.spec.text || known.spec.zone_name != cron.spec.zone_name;
            cron.memory = known.memory;
            if known.status != cron.status {
                cron.memory.status = StatusWrite::Replaced {
                    revision: known.revision,
                    status: known.status,
                };
            }
            if is_edited {
                cron.memory.schedule_edited();
                next = cron.next(&self.settings, now);
            }
        }
        // After an edit of the schedule the CronJob is decided at its next slot, as upstream does; else at once.
        match next {
            Some(next) => wake.at(uid.clone(), next),
            None => wake.now(uid.clone()),
        }
        self.crons.insert(uid.clone(), cron);
    }

    /// Drops a CronJob that was deleted or is not shown any more. Its Jobs stay until watches show their end.
    pub(super) fn forget_cron(&mut self, uid: &Uid, wake: &mut WakeList<Uid>) {
        if self.crons.remove(uid).is_some() {
            wake.now(uid.clone());
        }
    }

    /// Stores a Job under its owner, unless the stored version is newer or the Job was deleted since.
    pub(super) fn apply_job(&mut self, record: &ObjectRecord, wake: &mut WakeList<Uid>) {
        let uid = &record.meta.uid;
        let owner = facts::owner(record);
        if let Some(known) = self.owners.get(uid).cloned() {
            let job = self.job(&known, uid);
            let is_old = job.is_some_and(|job| {
                let is_newer = job.revision.is_before(&record.meta.revision);
                record.meta.revision.is_before(&job.revision) || job.is_going && !is_newer
            });
            if is_old {
                return;
            }
            if owner.is_none_or(|owner| owner.uid != known) {
                self.forget_job(uid, wake);
            }
        }
        let Some(owner) = owner else {
            return;
        };
        let job = OwnedJob {
            name: (*record.meta.name).into(),
            revision: record.meta.revision.clone(),
            facts: JobFacts::read(self.row, record, &owner.name),
            is_deleting: record.meta.deletion.is_some(),
            is_going: false,
            is_doubtful: false,
        };
        self.owners.insert(uid.clone(), owner.uid.clone());
        let jobs = self.jobs.entry(owner.uid.clone());
        let jobs = jobs.or_insert_with(|| OwnedJobs::new(self.rules));
        let before = jobs.put(uid, job.clone());
        // Every Pod of a Job makes a new version of the Job. Only facts that decisions read wake the CronJob.
        let is_same = before.is_some_and(|before| {
            OwnedJob {
                revision: job.revision.clone(),
                ..before
            } == job
        });
        if !is_same && self.crons.contains_key(&owner.uid) {
            wake.now(owner.uid.clone());
        }
    }

    /// Drops a Job and wakes its owner.
    pub(super) fn forget_job(&mut self, uid: &Uid, wake: &mut WakeList<Uid>) {
        let Some(owner) = self.owners.remove(uid) else {
            return;
        };
        if let Some(jobs) = self.jobs.get_mut(&owner) {
            jobs.take(uid);
            if jobs.is_empty() {
                self.jobs.remove(&owner);
            }
        }
        wake.now(owner);
    }

    /// A relist did not show a Job. An unfinished one becomes doubtful until the API server was asked. A finished one is
    /// dropped, because its end changes no decision.
    pub(super) fn doubt_job(&mut self, uid: &Uid, wake: &mut WakeList<Uid>) {
        let Some(owner) = self.owners.get(uid).cloned() else {
            return;
        };
        let is_finished = self
            .job(&owner, uid)
            .is_some_and(|job| job.is_going || self.has_finished(job));
        if is_finished {
            return self.forget_job(uid, wake);
        }
        self.change_job(uid, |job| job.is_doubtful = true);
        wake.now(owner);
    }

    /// The API server acknowledged the delete of a Job. `revision` is the version that the delete wrote, if any.
    pub(super) fn delete_acknowledged(&mut self, uid: &Uid, revision: Option<&Revision>) {
        self.change_job(uid, |job| {
            job.is_going = true;
            if let Some(revision) = revision {
                job.revision = revision.clone();
            }
        });
    }

    /// Drops the Jobs of an owner that have this name and not the uid that the API server returned for it.
    pub(super) fn drop_replaced(
        &mut self,
        owner: &Uid,
        name: &str,
        found: Option<&Uid>,
        wake: &mut WakeList<Uid>,
    ) {
        let known = self.jobs_of(owner).map(|jobs| jobs.uids_of_name(name));
        let gone = known
            .into_iter()
            .flatten()
            .filter(|uid| Some(*uid) != found);
        let gone: Vec<Uid> = gone.cloned().collect();
        for uid in gone {
            self.forget_job(&uid, wake);
        }
    }

    fn change_job(&mut self, uid: &Uid, change: impl FnOnce(&mut OwnedJob)) {
        let owner = self.owners.get(uid);
        let jobs = owner.and_then(|owner| self.jobs.get_mut(owner));
        if let Some(jobs) = jobs
            && let Some(mut job) = jobs.take(uid)
        {
            change(&mut job);
            jobs.put(uid, job);
        }
    }
}

// === impl CronState ===

impl CronState {
    pub(super) fn identity(&self, row: &CronDialect, uid: &Uid) -> ObjectIdentity {
        ObjectIdentity {
            api_version: row.api_version.to_owned(),
            kind: "CronJob".to_owned(),
            namespace: self.namespace.to_string(),
            name: self.name.to_string(),
            uid: uid.to_string(),
        }
    }

    /// The slot of a Job, if the status does not record it yet.
    pub(super) fn unrecorded_tick(&self, job: &OwnedJob, now: Timestamp) -> Option<Timestamp> {
        let last = self.status.last_schedule;
        let is_unrecorded_tick =
            |slot: &Timestamp| slots::is_unrecorded_tick(*slot, self.created, last, now);
        job.facts.slot.filter(is_unrecorded_tick)
    }

    /// The zone of the schedule, unless the schedule itself names one.
    pub(super) fn zone<'a>(&'a self, settings: &'a CronSettings) -> &'a TimeZone {
        match &self.spec.zone {
            Some(Ok(zone)) => zone,
            _ => &settings.default_zone,
        }
    }

    /// The next slot, if schedule and zone are readable.
    pub(super) fn next(&self, settings: &CronSettings, now: Timestamp) -> Option<Timestamp> {
        let outlook = self.outlook(settings, self.status.last_schedule, now);
        outlook.and_then(|outlook| outlook.next)
    }

    /// The slots after `last`, if schedule and zone are readable. Deadlines do not count.
    pub(super) fn outlook(
        &self,
        settings: &CronSettings,
        last: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<SlotOutlook> {
        let is_zone_known = !matches!(self.spec.zone, Some(Err(_)));
        let schedule = self.spec.schedule.as_ref().ok().filter(|_| is_zone_known)?;
        let last = last.unwrap_or(self.created);
        Some(slots::outlook(
            schedule,
            self.zone(settings),
            last,
            None,
            now,
        ))
    }
}
