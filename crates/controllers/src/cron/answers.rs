//! What is learned from the answers of requests, and what there is to tell about them.
//!
//! An answer is an observation like any other: objects in it are taken in as a feed's are. What failed is remembered, so
//! that everything else comes before it next time. Mirrors what both originals do after each of their requests.

use jiff::Timestamp;

use super::index::Failed;
use super::reason::Why;
use super::words::{self, What};
use super::{CronJobs, owner, slots, status};
use crate::runtime::call::{Answer, Call, Failure, FailureKind, Judged};
use crate::runtime::controller::{Note, Wake};
use crate::runtime::record::{Record, Uid};

// === impl CronJobs ===

impl CronJobs {
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
    pub(super) fn created(
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
                self.lose(uid, &name, Why::Stolen, now);
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
    pub(super) fn recorded(
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
                    if is_kept {
                        memory.deleted.clear();
                    }
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
    pub(super) fn deleted(
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
                self.index.going(job, Some(&record.meta.revision));
            }
            Answer::Done => self.index.going(job, None),
            // DEVIATION(cron-deleted-already): upstream tells FailedDelete. Here what was wanted is so.
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
        self.succeed(uid, |failed| {
            matches!(failed, Failed::Prune(_) | Failed::Start)
        });
        let cron = self.index.cron(uid);
        let is_listed =
            cron.is_some_and(|cron| cron.status.active.iter().any(|active| active.uid == *job));
        if let Some(memory) = self.index.memory(uid).filter(|_| is_listed) {
            memory.deleted.insert(job.clone());
        }
        self.note(uid, What::Deleted, &[("job", &name)])
    }

    /// The server said something about the CronJob itself.
    pub(super) fn confirmed(
        &mut self,
        uid: &Uid,
        answer: &Answer,
        now: Timestamp,
        wake: &mut Wake<Uid>,
    ) {
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
    pub(super) fn found(
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
                if self.owns(uid, record) || !self.lose(uid, name, Why::Foreign, now) {
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

    /// The slot that is due cannot have a Job, if this is its name. Says whether it is.
    ///
    /// DEVIATION(cron-lost-slot): upstream tries the same slot again whenever it looks, and tells it each time.
    fn lose(&mut self, uid: &Uid, name: &str, why: Why, now: Timestamp) -> bool {
        let index = &self.index;
        let due = index.cron(uid).and_then(|cron| {
            let last = status::last_schedule(index, uid, cron, now);
            let due = cron.outlook(&index.settings, last, now)?.due?.time;
            (slots::name(&cron.name, due) == name).then_some(due)
        });
        let (Some(due), Some(memory)) = (due, self.index.memory(uid)) else {
            return false;
        };
        memory.lost = Some((slots::minute(due), why));
        true
    }

    fn owns(&self, uid: &Uid, record: &Record) -> bool {
        owner(record).is_some_and(|owner| owner.uid == *uid)
    }
}
