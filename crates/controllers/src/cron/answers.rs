//! Takes the answers to the controller's requests, and returns the Events that follow.
//!
//! An answer is an observation: its object is stored like one from a watch. A failed step is remembered, so that the next
//! decision tries the other steps first. Mirrors what both originals do after each of their requests.

use jiff::Timestamp;

use super::event_texts::CronEvent;
use super::memory::{CronMemory, FailedStep, SlotState, StatusWrite};
use super::reason::SkipReason;
use super::{CronJobs, owner, slots, status};
use crate::runtime::call::{ApiAnswer, ApiCall, FailureKind, JudgedVersion};
use crate::runtime::controller::{AnsweredCall, EventNote, WakeList};
use crate::runtime::record::{ObjectRecord, Uid};

// === impl CronJobs ===

impl CronJobs {
    fn remember(&mut self, uid: &Uid, change: impl FnOnce(&mut CronMemory)) {
        self.index.memory(uid).map(change);
    }

    /// Remembers a failed step. The CronJob is woken at its next slot, so that no slot waits for a backoff.
    fn fail(&mut self, uid: &Uid, failed: FailedStep, now: Timestamp, wake: &mut WakeList<Uid>) {
        let next = self
            .index
            .cron(uid)
            .and_then(|cron| cron.next(&self.index.settings, now));
        if let Some(next) = next {
            wake.at(uid.clone(), next);
        }
        self.remember(uid, |memory| memory.failed = Some(failed));
    }

    /// A request succeeded: forgets the failure of its own step, and of no other.
    fn succeed(&mut self, uid: &Uid, is_own: fn(&FailedStep) -> bool) {
        self.remember(uid, |memory| {
            memory.failed.take_if(|failed| is_own(failed));
        });
    }

    /// Takes the answer to the create of a slot's Job.
    pub(super) fn created(&mut self, answered: AnsweredCall<'_, Uid>) -> Option<EventNote> {
        let (uid, now, wake) = (answered.key, answered.now, answered.wake);
        let name = answered.call.target().name.clone();
        self.remember(uid, CronMemory::create_answered);
        match answered.answer {
            ApiAnswer::Object(record) if self.owns(uid, record) => {
                self.succeed(uid, |failed| *failed == FailedStep::Start);
                self.index.apply_job(record, wake);
                self.index.note(uid, CronEvent::Created, &[("job", &name)])
            }
            ApiAnswer::Object(record) => {
                self.block_slot(uid, &name, SkipReason::Stolen, now);
                // DEVIATION(cron-lost-slot): Volcano deletes a Job that another controller took over, too.
                if self.index.row.deletes_unowned && controller_name(record).is_none() {
                    let judged = JudgedVersion::new(&record.meta.uid, &record.meta.revision);
                    let unowned_job = Some((answered.call.target().clone(), judged));
                    self.remember(uid, |memory| memory.unowned_job = unowned_job);
                    return None;
                }
                self.foreign(uid, &name, record)
            }
            // The Job exists. The driver reads it, and `found` takes the answer.
            answer if answer.is_conflict() => None,
            ApiAnswer::Failed(failure) => {
                self.fail(uid, FailedStep::Start, now, wake);
                let event = match failure.kind {
                    FailureKind::NamespaceEnding => CronEvent::NamespaceEnding,
                    _ => CronEvent::CreateFailed,
                };
                self.index.note(uid, event, &[("error", &failure.message)])
            }
            ApiAnswer::Page(_) | ApiAnswer::Done | ApiAnswer::Absent(_) => None,
        }
    }

    /// Takes the answer to a status write.
    pub(super) fn recorded(&mut self, answered: AnsweredCall<'_, Uid>) -> Vec<EventNote> {
        let (uid, now, wake) = (answered.key, answered.now, answered.wake);
        let ApiCall::Patch { judged, patch, .. } = answered.call else {
            return Vec::new();
        };
        match answered.answer {
            ApiAnswer::Object(record) if record.meta.uid == *uid => {
                self.index.apply_cron(record, now, wake);
                self.succeed(uid, |failed| *failed == FailedStep::Record);
                let Some(cron) = self.index.cron(uid) else {
                    return Vec::new();
                };
                let meant = status::derive(&self.index, uid, cron, now);
                let is_kept =
                    record.meta.revision != cron.revision || status::is_kept(patch, &cron.status);
                let old = cron.memory.status.replaced(&judged.revision);
                let notes = old.map(|old| status::changes(&self.index, uid, cron, old, now));
                if let Some(memory) = self.index.memory(uid) {
                    memory.status = if is_kept {
                        memory.deleted_active.clear();
                        StatusWrite::Settled
                    } else {
                        StatusWrite::NotKept(meant)
                    };
                }
                return notes.unwrap_or_default();
            }
            // The CronJob is gone, or another one has its name.
            ApiAnswer::Object(_) | ApiAnswer::Absent(_) => self.index.forget_cron(uid, wake),
            answer if answer.is_conflict() => {}
            ApiAnswer::Page(_) | ApiAnswer::Done => {}
            ApiAnswer::Failed(_) => self.fail(uid, FailedStep::Record, now, wake),
        }
        Vec::new()
    }

    /// Takes the answer to the delete of a Job.
    pub(super) fn deleted(&mut self, answered: AnsweredCall<'_, Uid>) -> Option<EventNote> {
        let (uid, now, wake) = (answered.key, answered.now, answered.wake);
        let job = &answered.call.judged()?.uid;
        let name = answered.call.target().name.clone();
        if let Some(memory) = self.index.memory(uid) {
            // Whatever the answer: the Job belongs to another owner now, so one delete is enough.
            memory.unowned_job.take_if(|(_, judged)| judged.uid == *job);
        }
        match answered.answer {
            ApiAnswer::Object(record) if record.meta.uid == *job => {
                self.index
                    .delete_acknowledged(job, Some(&record.meta.revision));
            }
            ApiAnswer::Page(_) | ApiAnswer::Done => self.index.delete_acknowledged(job, None),
            // DEVIATION(cron-deleted-already): upstream emits FailedDelete. Here the goal is reached.
            ApiAnswer::Object(_) | ApiAnswer::Absent(_) => {
                self.index.forget_job(job, wake);
                return None;
            }
            answer if answer.is_conflict() => return None,
            ApiAnswer::Failed(failure) => {
                let known = self.index.job(uid, job);
                let is_replaced = known.is_some_and(|known| !self.index.has_finished(known));
                let failed = if is_replaced {
                    FailedStep::Start
                } else {
                    FailedStep::Prune(job.clone())
                };
                self.fail(uid, failed, now, wake);
                return self.index.note(
                    uid,
                    CronEvent::DeleteFailed,
                    &[("job", &name), ("error", &failure.message)],
                );
            }
        }
        self.succeed(uid, |failed| {
            matches!(failed, FailedStep::Prune(_) | FailedStep::Start)
        });
        let cron = self.index.cron(uid);
        let is_listed =
            cron.is_some_and(|cron| cron.status.active.iter().any(|active| active.uid == *job));
        if let Some(memory) = self.index.memory(uid).filter(|_| is_listed) {
            memory.deleted_active.insert(job.clone());
        }
        self.index.note(uid, CronEvent::Deleted, &[("job", &name)])
    }

    /// Takes the answer to the read of the CronJob before a create.
    pub(super) fn confirmed(&mut self, answered: AnsweredCall<'_, Uid>) {
        let (uid, now, wake) = (answered.key, answered.now, answered.wake);
        match answered.answer {
            ApiAnswer::Object(record) if record.meta.uid == *uid => {
                self.index.apply_cron(record, now, wake);
                self.remember(uid, |memory| memory.slot = SlotState::Confirmed { at: now });
            }
            ApiAnswer::Object(_) | ApiAnswer::Absent(_) => self.index.forget_cron(uid, wake),
            ApiAnswer::Failed(_) => self.fail(uid, FailedStep::Start, now, wake),
            ApiAnswer::Page(_) | ApiAnswer::Done => {}
        }
    }

    /// Takes the answer to the read of a Job, or of the object that has its name.
    pub(super) fn found(&mut self, answered: AnsweredCall<'_, Uid>) -> Option<EventNote> {
        let (uid, now, wake) = (answered.key, answered.now, answered.wake);
        let name = &answered.call.target().name;
        match answered.answer {
            ApiAnswer::Object(record) => {
                self.succeed(uid, |failed| *failed == FailedStep::Ask);
                self.index
                    .drop_replaced(uid, name, Some(&record.meta.uid), wake);
                self.index.apply_job(record, wake);
                if self.owns(uid, record) || !self.block_slot(uid, name, SkipReason::Foreign, now) {
                    return None;
                }
                self.foreign(uid, name, record)
            }
            ApiAnswer::Absent(_) => {
                self.index.drop_replaced(uid, name, None, wake);
                None
            }
            ApiAnswer::Failed(failure) => {
                self.fail(uid, FailedStep::Ask, now, wake);
                self.index
                    .note(uid, CronEvent::GetFailed, &[("error", &failure.message)])
            }
            ApiAnswer::Page(_) | ApiAnswer::Done => None,
        }
    }

    /// Blocks the slot that is due if its Job would have this name. Returns whether it does.
    ///
    /// DEVIATION(cron-lost-slot): upstream tries the same slot again with every reconcile, and emits an Event each time.
    fn block_slot(&mut self, uid: &Uid, name: &str, why: SkipReason, now: Timestamp) -> bool {
        let index = &self.index;
        let due = index.cron(uid).and_then(|cron| {
            let last = status::last_schedule(index, uid, cron, now);
            let due = cron.outlook(&index.settings, last, now)?.due?.time;
            (slots::job_name(&cron.name, due) == name).then_some(due)
        });
        let (Some(due), Some(memory)) = (due, self.index.memory(uid)) else {
            return false;
        };
        memory.slot = SlotState::Blocked {
            minute: slots::minute(due),
            why,
        };
        true
    }

    /// The Event about a Job of a slot's name that is not ours.
    fn foreign(&self, uid: &Uid, name: &str, record: &ObjectRecord) -> Option<EventNote> {
        let owner = controller_name(record).unwrap_or("none");
        let values = [("job", name), ("owner", owner)];
        self.index.note(uid, CronEvent::Foreign, &values)
    }

    fn owns(&self, uid: &Uid, record: &ObjectRecord) -> bool {
        owner(record).is_some_and(|owner| owner.uid == *uid)
    }
}

/// The name of the owner that is the controller of a Job.
fn controller_name(record: &ObjectRecord) -> Option<&str> {
    let mut owners = record.meta.owners.iter();
    let controller = owners.find(|owner| owner.controller == Some(true))?;
    Some(&controller.name)
}
