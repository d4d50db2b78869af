//! What is known: CronJobs, the Jobs that they own, and what was learned while serving them.
//!
//! Feeds and answers change it, the newer version wins. Jobs are found by the uid of their controller, so a CronJob costs
//! what it owns and not what its namespace has; Jobs of nobody are not kept. A Job whose delete was acknowledged stays
//! until a feed shows its end, so that an older copy on a slow watch does not bring it back. A Job that a fresh list does
//! not show is in doubt, which means that it is taken to be there until the server was asked.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::Settings;
use super::dialects::{CRON_JOBS, Dialect, JOBS};
use super::facts::{self, JobFacts, Spec};
use super::family::{Family, Job, Rules};
use super::reason::Why;
use super::slots::{self, Outlook};
use super::status::Status;
use crate::runtime::call::{Judged, Target};
use crate::runtime::controller::{Identity, Wake};
use crate::runtime::kind::{Catalog, KindId, KindState};
use crate::runtime::record::{Record, Revision, Uid};

/// What is known.
#[derive(Debug)]
pub struct Index {
    pub(super) row: &'static Dialect,
    pub(super) settings: Settings,
    crons_kind: Known,
    jobs_kind: Known,
    crons: BTreeMap<Uid, Cron>,
    /// By the uid of the CronJob, whether that is known or not.
    jobs: BTreeMap<Uid, Family>,
    owners: BTreeMap<Uid, Uid>,
    rules: Rules,
}

/// One of the two kinds.
#[derive(Debug, Default)]
struct Known {
    id: Option<KindId>,
    /// Whether all its objects were shown, and nothing was taken back since.
    is_listed: bool,
}

/// A CronJob.
#[derive(Debug)]
pub(super) struct Cron {
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
    pub(super) revision: Revision,
    pub(super) is_deleting: bool,
    pub(super) created: Timestamp,
    pub(super) spec: Spec,
    pub(super) status: Status,
    pub(super) memory: Memory,
}

/// What was learned by serving it. Nothing of it has to survive a restart.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// What failed last: everything else comes before it.
    pub(super) failed: Option<Failed>,
    /// A slot that cannot have a Job of ours, by its minute, and why.
    pub(super) lost: Option<(i64, Why)>,
    /// When the server showed the CronJob last.
    pub(super) confirmed: Option<Timestamp>,
    /// A Job that we made and that somebody gave to somebody else.
    pub(super) stray: Option<(Target, Judged)>,
    /// The version before the status changed last, and what that said.
    pub(super) before: Option<(Revision, Status)>,
    /// A status that was written and did not become what was meant: it is not written again.
    pub(super) unheard: Option<Status>,
    /// Whether its schedule was changed while we looked.
    pub(super) is_edited: bool,
    /// Jobs that the status tells and that we have deleted: nobody misses them.
    pub(super) deleted: BTreeSet<Uid>,
}

/// What failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failed {
    /// To remove this Job.
    Prune(Uid),
    /// To start a Job, or to get rid of the one that it replaces.
    Start,
    /// To write the status.
    Record,
    /// To ask for a Job.
    Ask,
}

// === impl Index ===

impl Index {
    pub(super) fn new(row: &'static Dialect, mut settings: Settings) -> Self {
        settings.after_aborted.take_if(|_| !row.has_aborted);
        let rules = Rules {
            age: row.age,
            are_aborted_over: settings.after_aborted.is_some(),
        };
        Self {
            row,
            settings,
            rules,
            crons_kind: Known::default(),
            jobs_kind: Known::default(),
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

    /// Whether everything is known that decisions rest on.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.crons_kind.is_listed && self.jobs_kind.is_listed
    }

    /// How many CronJobs there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.crons.len()
    }

    pub(super) fn cron(&self, uid: &Uid) -> Option<&Cron> {
        self.crons.get(uid)
    }

    pub(super) fn memory(&mut self, uid: &Uid) -> Option<&mut Memory> {
        self.crons.get_mut(uid).map(|cron| &mut cron.memory)
    }

    /// The Jobs that a CronJob owns, finished ones too; none if it has none.
    pub(super) fn family(&self, owner: &Uid) -> Option<&Family> {
        self.jobs.get(owner)
    }

    pub(super) fn job(&self, owner: &Uid, uid: &Uid) -> Option<&Job> {
        self.jobs.get(owner)?.get(uid)
    }

    /// Whether a Job runs no more. An aborted one does as long as nobody has said when aborted ones go.
    pub(super) fn has_finished(&self, job: &Job) -> bool {
        job.has_finished(self.rules)
    }

    pub(super) fn target_of_cron(&self, cron: &Cron) -> Option<Target> {
        Some(Target {
            kind: self.crons_kind.id?,
            namespace: cron.namespace.clone(),
            name: cron.name.clone(),
        })
    }

    pub(super) fn target_of_job(&self, cron: &Cron, name: &str) -> Option<Target> {
        Some(Target {
            kind: self.jobs_kind.id?,
            namespace: cron.namespace.clone(),
            name: name.into(),
        })
    }

    pub(super) fn know_catalog(&mut self, catalog: &Catalog) {
        self.crons_kind.id = catalog.id(self.row.group, CRON_JOBS);
        self.jobs_kind.id = catalog.id(self.row.group, JOBS);
    }

    /// A kind is known better or worse. What was taken back is forgotten; a list of everything comes before anything more.
    pub(super) fn know_kind(&mut self, kind: KindId, state: KindState, wake: &mut Wake<Uid>) {
        let is_cron = self.is_cron(kind);
        if !is_cron && !self.is_job(kind) {
            return;
        }
        let known = if is_cron {
            &mut self.crons_kind
        } else {
            &mut self.jobs_kind
        };
        let was_complete = known.is_listed;
        match state {
            KindState::Synced => known.is_listed = true,
            // What is known may be old; names and preconditions make sure that nothing wrong follows.
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
        let known = if is_cron {
            &self.crons_kind
        } else {
            &self.jobs_kind
        };
        if known.is_listed && !was_complete && self.is_complete() {
            for uid in self.crons.keys() {
                wake.now(uid.clone());
            }
        }
    }

    /// A CronJob as it is.
    pub(super) fn apply_cron(&mut self, record: &Record, now: Timestamp, wake: &mut Wake<Uid>) {
        let uid = &record.meta.uid;
        let revision = &record.meta.revision;
        let is_known =
            |known: &Cron| revision == &known.revision || revision.is_before(&known.revision);
        if self.crons.get(uid).is_some_and(is_known) {
            return;
        }
        let (created, spec, status) = facts::cron_job(record);
        let mut cron = Cron {
            namespace: record.meta.namespace.clone(),
            name: record.meta.name.clone(),
            revision: revision.clone(),
            is_deleting: record.meta.deletion.is_some(),
            created: created.unwrap_or(now),
            spec,
            status,
            memory: Memory::default(),
        };
        let mut next = None;
        if let Some(known) = self.crons.remove(uid) {
            let is_edited =
                known.spec.text != cron.spec.text || known.spec.zone_name != cron.spec.zone_name;
            cron.memory = known.memory;
            if known.status != cron.status {
                cron.memory.unheard = None;
                cron.memory.before = Some((known.revision, known.status));
            }
            if is_edited {
                cron.memory.lost = None;
                cron.memory.is_edited = true;
                next = cron.next(&self.settings, now);
            }
        }
        // A schedule that was changed is looked at when its next slot comes, as upstream does; all else at once.
        match next {
            Some(next) => wake.at(uid.clone(), next),
            None => wake.now(uid.clone()),
        }
        self.crons.insert(uid.clone(), cron);
    }

    /// A CronJob is gone, or nothing follows from it any more. Its Jobs are known as long as they are there.
    pub(super) fn forget_cron(&mut self, uid: &Uid, wake: &mut Wake<Uid>) {
        if self.crons.remove(uid).is_some() {
            wake.now(uid.clone());
        }
    }

    /// A Job as it is.
    pub(super) fn apply_job(&mut self, record: &Record, wake: &mut Wake<Uid>) {
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
        let job = Job {
            name: (*record.meta.name).into(),
            revision: record.meta.revision.clone(),
            facts: JobFacts::read(self.row, record, &owner.name),
            is_deleting: record.meta.deletion.is_some(),
            is_going: false,
            is_doubtful: false,
        };
        self.owners.insert(uid.clone(), owner.uid.clone());
        let jobs = self.jobs.entry(owner.uid.clone());
        let jobs = jobs.or_insert_with(|| Family::new(self.rules));
        let before = jobs.put(uid, job.clone());
        // Pods of a Job come and go, and each is a new version of it that nothing follows from.
        let is_same = before.is_some_and(|before| {
            Job {
                revision: job.revision.clone(),
                ..before
            } == job
        });
        if !is_same && self.crons.contains_key(&owner.uid) {
            wake.now(owner.uid.clone());
        }
    }

    /// A Job is gone.
    pub(super) fn forget_job(&mut self, uid: &Uid, wake: &mut Wake<Uid>) {
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

    /// A fresh list did not show a Job. Before anything follows from that the server is asked; nothing would from the end
    /// of one that has finished.
    pub(super) fn doubt_job(&mut self, uid: &Uid, wake: &mut Wake<Uid>) {
        let Some(owner) = self.owners.get(uid).cloned() else {
            return;
        };
        let is_over = self
            .job(&owner, uid)
            .is_some_and(|job| job.is_going || self.has_finished(job));
        if is_over {
            return self.forget_job(uid, wake);
        }
        self.change_job(uid, |job| job.is_doubtful = true);
        wake.now(owner);
    }

    /// The delete of a Job was acknowledged, and this is the version that it made, if it made one.
    pub(super) fn going(&mut self, uid: &Uid, revision: Option<&Revision>) {
        self.change_job(uid, |job| {
            job.is_going = true;
            if let Some(revision) = revision {
                job.revision = revision.clone();
            }
        });
    }

    /// The Jobs of a CronJob that had this name and another uid are gone: the name is somebody else's, or nobody's.
    pub(super) fn renamed(
        &mut self,
        owner: &Uid,
        name: &str,
        but: Option<&Uid>,
        wake: &mut Wake<Uid>,
    ) {
        let known = self.family(owner).map(|family| family.named(name));
        let gone = known.into_iter().flatten().filter(|uid| Some(*uid) != but);
        let gone: Vec<Uid> = gone.cloned().collect();
        for uid in gone {
            self.forget_job(&uid, wake);
        }
    }

    fn change_job(&mut self, uid: &Uid, change: impl FnOnce(&mut Job)) {
        let owner = self.owners.get(uid);
        let family = owner.and_then(|owner| self.jobs.get_mut(owner));
        if let Some(family) = family
            && let Some(mut job) = family.take(uid)
        {
            change(&mut job);
            family.put(uid, job);
        }
    }
}

// === impl Cron ===

impl Cron {
    /// As messages name it.
    pub(super) fn identity(&self, row: &Dialect, uid: &Uid) -> Identity {
        Identity {
            api_version: row.api_version.to_owned(),
            kind: "CronJob".to_owned(),
            namespace: self.namespace.to_string(),
            name: self.name.to_string(),
            uid: uid.to_string(),
        }
    }

    /// The tick that a Job is for, if that is not recorded.
    pub(super) fn open_tick(&self, job: &Job, now: Timestamp) -> Option<Timestamp> {
        let last = self.status.last_schedule;
        let is_open = |slot: &Timestamp| slots::is_open(*slot, self.created, last, now);
        job.facts.slot.filter(is_open)
    }

    /// The zone that its schedule is read in, unless that names one itself.
    pub(super) fn zone<'a>(&'a self, settings: &'a Settings) -> &'a TimeZone {
        match &self.spec.zone {
            Some(Ok(zone)) => zone,
            _ => &settings.default_zone,
        }
    }

    /// When the next slot comes, if it can be known.
    pub(super) fn next(&self, settings: &Settings, now: Timestamp) -> Option<Timestamp> {
        let outlook = self.outlook(settings, self.status.last_schedule, now);
        outlook.and_then(|outlook| outlook.next)
    }

    /// When it is due after the last slot that was served, if it can be known. Deadlines do not count.
    pub(super) fn outlook(
        &self,
        settings: &Settings,
        last: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<Outlook> {
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
