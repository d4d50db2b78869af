//! Makes Jobs on the schedules of CronJobs: `cronjob-controller`, once for each of two kinds.
//!
//! - [`dialects`]: the kinds, a row each; one implementation is started once per row.
//! - `facts`: what is read in CronJobs and Jobs.
//! - `index`: what is known, Jobs by their owner.
//! - `slots`: which slot is due, and the names of Jobs.
//! - `decide`: what follows, one request at a time.
//! - `job`: the Job of a slot, or by hand. `status`: what a CronJob's status should say. `words`: Events.
//! - [`reason`]: why, in words.
//!
//! Mirrors `pkg/controller/cronjob` (1.36) and Volcano's `pkg/controllers/cronjob` (1.15), except for what is marked.
//!
//! **Ticks.** A slot has at most one Job. Its name is the slot's, so it cannot be made twice while it is there; the status
//! tells the slot before anything of ours may delete it; and where it may be gone soon, the CronJob is read right before
//! it is made. The TTL controllers keep to the same rule (`ttl::ticks`).

mod decide;
pub mod dialects;
mod facts;
mod index;
mod job;
pub mod reason;
mod slots;
mod status;
mod words;

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

pub use self::dialects::{BATCH, CRON_JOBS, DIALECTS, Dialect, JOBS, VOLCANO};
pub(crate) use self::facts::{cron_job_times, owner};
use self::index::Failed;
pub use self::index::Index;
pub use self::job::{Order, of_template};
pub use self::reason::Reason;
use self::reason::Why;
pub(crate) use self::slots::{is_open, named};
use self::words::What;
use crate::runtime::call::{Answer, Call, Failure, FailureKind, Judged};
use crate::runtime::controller::{Change, Controller, Note, Verdict, Wake};
use crate::runtime::feeds::Interest;
use crate::runtime::record::{Record, Uid, View};

/// A Job that our own code may remove so soon after its slot is no lock: its CronJob is read before it is made.
pub const SWIFT: Duration = Duration::from_secs(120);

/// Makes the Jobs of one kind of CronJobs.
#[derive(Debug)]
pub struct CronJobs {
    index: Index,
}

/// What can be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The zone of schedules that name none.
    pub default_zone: TimeZone,
    /// After how long a Job goes that was aborted. If that is said, aborted Jobs have finished.
    pub after_aborted: Option<Duration>,
}

// === impl Settings ===

impl Default for Settings {
    /// UTC, and aborted Jobs stay.
    fn default() -> Self {
        Self {
            default_zone: TimeZone::UTC,
            after_aborted: None,
        }
    }
}

// === impl Dialect ===

impl Dialect {
    /// What a controller of this kind has to be shown.
    #[must_use]
    pub fn interest(&self) -> Interest {
        let kinds = [CRON_JOBS, JOBS].map(|resource| (self.group.into(), resource.into()));
        Interest::Kinds {
            kinds: kinds.to_vec(),
            view: View::Full,
        }
    }
}

// === impl CronJobs ===

impl CronJobs {
    /// A controller of one kind that knows nothing yet.
    #[must_use]
    pub fn new(row: &'static Dialect, settings: Settings) -> Self {
        Self {
            index: Index::new(row, settings),
        }
    }

    /// What it knows.
    #[must_use]
    pub fn index(&self) -> &Index {
        &self.index
    }

    fn note(&self, uid: &Uid, what: What, holes: &[(&str, &str)]) -> Option<Note> {
        let cron = self.index.cron(uid)?;
        let about = cron.identity(self.index.row, uid);
        words::note(self.index.row, &about, what, holes)
    }

    /// Something of a CronJob's failed. What else there is to do comes first next time, and no slot waits for a backoff.
    fn fail(&mut self, uid: &Uid, failed: Failed, now: Timestamp, wake: &mut Wake<Uid>) {
        let next = self
            .index
            .cron(uid)
            .and_then(|cron| cron.next(&self.index.settings, now));
        if let Some(next) = next {
            wake.at(uid.clone(), next);
        }
        if let Some(memory) = self.index.memory(uid) {
            memory.failed = Some(failed);
        }
    }

    /// Something of a CronJob's was done. What else failed has failed all the same.
    fn succeed(&mut self, uid: &Uid, is_meant: fn(&Failed) -> bool) {
        if let Some(memory) = self.index.memory(uid) {
            memory.failed.take_if(|failed| is_meant(failed));
        }
    }

    /// A Job was made, or not.
    fn created(
        &mut self,
        uid: &Uid,
        call: &Call,
        answer: &Answer,
        now: Timestamp,
        wake: &mut Wake<Uid>,
    ) -> Option<Note> {
        let name = call.target().name.clone();
        if let Some(memory) = self.index.memory(uid) {
            memory.confirmed = None;
        }
        match answer {
            Answer::Object(record) if self.owns(uid, record) => {
                self.succeed(uid, |failed| *failed == Failed::Start);
                self.index.apply_job(record, wake);
                self.note(uid, What::Created, &[("job", &name)])
            }
            Answer::Object(record) => {
                let judged = Judged {
                    uid: record.meta.uid.clone(),
                    revision: record.meta.revision.clone(),
                };
                self.lose(uid, &name, Why::Stolen);
                if let Some(memory) = self.index.memory(uid) {
                    memory.stray = Some((call.target().clone(), judged));
                }
                None
            }
            // It exists: the driver reads it.
            Answer::Failed(Failure {
                kind: FailureKind::Conflict,
                ..
            }) => None,
            Answer::Failed(failure) => {
                self.fail(uid, Failed::Start, now, wake);
                match failure.kind {
                    FailureKind::NamespaceEnding => self.note(uid, What::NamespaceEnding, &[]),
                    _ => self.note(uid, What::CreateFailed, &[("error", &failure.message)]),
                }
            }
            Answer::Done | Answer::Absent(_) => None,
        }
    }

    /// A status was written, or not.
    fn recorded(
        &mut self,
        uid: &Uid,
        call: &Call,
        answer: &Answer,
        now: Timestamp,
        wake: &mut Wake<Uid>,
    ) -> Vec<Note> {
        let Call::Patch { judged, patch, .. } = call else {
            return Vec::new();
        };
        match answer {
            Answer::Object(record) if record.meta.uid == *uid => {
                self.index.apply_cron(record, now, wake);
                self.succeed(uid, |failed| *failed == Failed::Record);
                let Some(cron) = self.index.cron(uid) else {
                    return Vec::new();
                };
                let meant = status::derive(&self.index, uid, cron, now);
                let is_kept =
                    record.meta.revision != cron.revision || status::is_kept(patch, &cron.status);
                // The feed may have shown it before the answer came: then the version that was judged is the one before.
                let before = cron.memory.before.as_ref();
                let old = before.filter(|(revision, _)| *revision == judged.revision);
                let notes = old.map(|(_, old)| status::changes(&self.index, uid, cron, old, now));
                let notes = notes.unwrap_or_default();
                if let Some(memory) = self.index.memory(uid) {
                    memory.before = None;
                    memory.unheard = (!is_kept).then_some(meant);
                }
                return notes;
            }
            // Gone, or another one has its name.
            Answer::Object(_) | Answer::Absent(_) => self.index.forget_cron(uid, wake),
            Answer::Failed(Failure {
                kind: FailureKind::Conflict,
                ..
            })
            | Answer::Done => {}
            Answer::Failed(_) => self.fail(uid, Failed::Record, now, wake),
        }
        Vec::new()
    }

    /// A Job was deleted, or not.
    fn deleted(
        &mut self,
        uid: &Uid,
        call: &Call,
        answer: &Answer,
        now: Timestamp,
        wake: &mut Wake<Uid>,
    ) -> Option<Note> {
        let job = &call.judged()?.uid;
        let name = call.target().name.clone();
        if let Some(memory) = self.index.memory(uid)
            && memory
                .stray
                .as_ref()
                .is_some_and(|(_, judged)| judged.uid == *job)
        {
            // Once is enough: what becomes of it is up to those who took it.
            memory.stray = None;
        }
        match answer {
            Answer::Object(record) if record.meta.uid == *job => {
                self.succeed(uid, |failed| {
                    matches!(failed, Failed::Prune(_) | Failed::Start)
                });
                self.index.going(job, Some(&record.meta.revision));
            }
            Answer::Done => {
                self.succeed(uid, |failed| {
                    matches!(failed, Failed::Prune(_) | Failed::Start)
                });
                self.index.going(job, None);
            }
            Answer::Object(_) | Answer::Absent(_) => {
                self.index.forget_job(job, wake);
                return None;
            }
            Answer::Failed(Failure {
                kind: FailureKind::Conflict,
                ..
            }) => return None,
            Answer::Failed(failure) => {
                let known = self.index.job(uid, job);
                let is_replaced = known.is_some_and(|known| !self.index.has_finished(known));
                let failed = if is_replaced {
                    Failed::Start
                } else {
                    Failed::Prune(job.clone())
                };
                self.fail(uid, failed, now, wake);
                return self.note(
                    uid,
                    What::DeleteFailed,
                    &[("job", &name), ("error", &failure.message)],
                );
            }
        }
        self.note(uid, What::Deleted, &[("job", &name)])
    }

    /// The server said something about the CronJob itself.
    fn confirmed(&mut self, uid: &Uid, answer: &Answer, now: Timestamp, wake: &mut Wake<Uid>) {
        match answer {
            Answer::Object(record) if record.meta.uid == *uid => {
                self.index.apply_cron(record, now, wake);
                if let Some(memory) = self.index.memory(uid) {
                    memory.confirmed = Some(now);
                }
            }
            Answer::Object(_) | Answer::Absent(_) => self.index.forget_cron(uid, wake),
            Answer::Failed(_) => self.fail(uid, Failed::Start, now, wake),
            Answer::Done => {}
        }
    }

    /// The server said something about a Job, or about what has its name.
    fn found(
        &mut self,
        uid: &Uid,
        call: &Call,
        answer: &Answer,
        now: Timestamp,
        wake: &mut Wake<Uid>,
    ) -> Option<Note> {
        let name = &call.target().name;
        match answer {
            Answer::Object(record) => {
                self.succeed(uid, |failed| *failed == Failed::Ask);
                self.index.renamed(uid, name, Some(&record.meta.uid), wake);
                self.index.apply_job(record, wake);
                if self.owns(uid, record) || !self.lose(uid, name, Why::Foreign) {
                    return None;
                }
                let mut owners = record.meta.owners.iter();
                let owner = owners.find(|owner| owner.controller == Some(true));
                let owner = owner.map_or("none", |owner| &owner.name);
                self.note(uid, What::Foreign, &[("job", name), ("owner", owner)])
            }
            Answer::Absent(_) => {
                self.index.renamed(uid, name, None, wake);
                None
            }
            Answer::Failed(failure) => {
                self.fail(uid, Failed::Ask, now, wake);
                self.note(uid, What::GetFailed, &[("error", &failure.message)])
            }
            Answer::Done => None,
        }
    }

    /// The slot of this name cannot have a Job. Says whether it is a slot's name.
    fn lose(&mut self, uid: &Uid, name: &str, why: Why) -> bool {
        let Some(cron) = self.index.cron(uid) else {
            return false;
        };
        let Some(minute) = named(&cron.name, name, None).map(slots::minute) else {
            return false;
        };
        if let Some(memory) = self.index.memory(uid) {
            memory.lost = Some((minute, why));
        }
        true
    }

    fn owns(&self, uid: &Uid, record: &Record) -> bool {
        owner(record).is_some_and(|owner| owner.uid == *uid)
    }
}

impl Controller for CronJobs {
    type Key = Uid;
    type Reason = Reason;

    fn name(&self) -> &'static str {
        self.index.row.name
    }

    fn observe(&mut self, change: &Change, now: Timestamp, wake: &mut Wake<Uid>) {
        let index = &mut self.index;
        match change {
            Change::Applied(record) if index.is_cron(record.kind) => {
                index.apply_cron(record, now, wake);
            }
            Change::Applied(record) if index.is_job(record.kind) => index.apply_job(record, wake),
            Change::Deleted(record) if index.is_cron(record.kind) => {
                index.forget_cron(&record.meta.uid, wake);
            }
            Change::Deleted(record) if index.is_job(record.kind) => {
                index.forget_job(&record.meta.uid, wake);
            }
            // Nothing follows from a CronJob that nobody shows.
            Change::Missing(kind, uid) if index.is_cron(*kind) => index.forget_cron(uid, wake),
            Change::Missing(kind, uid) if index.is_job(*kind) => index.doubt_job(uid, wake),
            Change::Kind(kind, state) => index.know_kind(*kind, *state, wake),
            Change::Catalog(catalog) => index.know_catalog(catalog),
            Change::Applied(_) | Change::Deleted(_) | Change::Missing(..) => {}
        }
    }

    fn decide(&self, uid: &Uid, now: Timestamp) -> Verdict<Uid, Reason> {
        decide::cron_job(&self.index, uid, now)
    }

    fn answered(
        &mut self,
        uid: &Uid,
        call: &Call,
        answer: &Answer,
        now: Timestamp,
        wake: &mut Wake<Uid>,
    ) -> Vec<Note> {
        let note = match call {
            Call::Create { .. } => self.created(uid, call, answer, now, wake),
            Call::Patch { .. } => return self.recorded(uid, call, answer, now, wake),
            Call::Delete { .. } => self.deleted(uid, call, answer, now, wake),
            Call::Get { target } if self.index.is_cron(target.kind) => {
                self.confirmed(uid, answer, now, wake);
                None
            }
            Call::Get { .. } => self.found(uid, call, answer, now, wake),
        };
        note.into_iter().collect()
    }

    fn keys(&self, record: &Record) -> Vec<Uid> {
        if self.index.is_cron(record.kind) {
            return vec![record.meta.uid.clone()];
        }
        let owner = owner(record).filter(|_| self.index.is_job(record.kind));
        owner.map(|owner| owner.uid.clone()).into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
