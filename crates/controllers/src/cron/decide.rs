//! What follows for a CronJob. Reads the index, changes nothing, asks for at most one request.
//!
//! Mirrors `syncCronJob` and `cleanupFinishedJobs` of both originals. Where they do all of it in one go, here one request
//! follows the other, and each is decided anew from what is known then: Jobs beyond the history limits go, the Job of the
//! slot that is due is made, the status is written. What failed last comes last, so that nothing that is refused for ever
//! holds up anything else.
//!
//! The order in which a tick is served is what makes it safe: first its Job is made, under the name of the slot, then the
//! status tells its time, and only then may anything of ours delete that Job. So it is with its success.
//!
//! DEVIATION(cron-exact-timer): upstream waits 100 ms longer than until the slot.
//! DEVIATION(cron-permanent-errors): Volcano tries a CronJob with an unknown zone or an unreadable schedule again and again.
//! Here an Event says what is wrong, and nothing happens until it is changed.
//! DEVIATION(cron-preconditions): upstream deletes Jobs by name alone. Here uid and resourceVersion go with every delete.
//! DEVIATION(cron-record-first): upstream deletes what is beyond the history limits and writes the status then, so that
//! whoever dies in between takes a `lastSuccessfulTime` along. Here the status comes first.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::Reason;
use super::facts::{Outcome, Policy};
use super::family::{Family, Job};
use super::index::{Cron, Failed, Index};
use super::job;
use super::reason::{Skip, Why};
use super::slots::{self, Slot};
use super::status::{self, Status};
use super::words::{self, What};
use crate::runtime::call::{Call, Judged, PatchForm};
use crate::runtime::controller::{Next, Note, Verdict};
use crate::runtime::record::Uid;

/// How long the server's word about a CronJob is relied on: as long as one request may take to be decided, and no more.
const CONFIRMED_FOR: SignedDuration = SignedDuration::from_secs(1);

/// When a schedule is looked at again that has no slot for years.
const LOOK_AGAIN: Duration = Duration::from_secs(365 * 86_400);

/// What Go says about a schedule without slots.
const NO_SLOTS: &str = "time difference between two schedules is less than 1 second";

/// What can be done for a CronJob, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Prune,
    Start,
    Record,
    Ask,
}

/// A CronJob, now.
struct Case<'a> {
    index: &'a Index,
    uid: &'a Uid,
    cron: &'a Cron,
    /// Its status as it should be.
    derived: Status,
    now: Timestamp,
}

/// What becomes of the slot that is due, if any.
struct Tick {
    /// The request that serves it, and why.
    call: Option<(Call, Reason)>,
    /// What happens otherwise, and why.
    next: Next<Uid>,
    because: Reason,
    notes: Vec<Note>,
}

/// What follows for a CronJob.
pub(super) fn cron_job(index: &Index, uid: &Uid, now: Timestamp) -> Verdict<Uid, Reason> {
    let Some(cron) = index.cron(uid) else {
        return rest(Reason::Unknown);
    };
    if !index.is_complete() {
        return rest(Reason::Unlisted);
    }
    if cron.is_deleting && !index.row.serves_deleting {
        return rest(Reason::Deleting);
    }
    let case = Case {
        index,
        uid,
        cron,
        derived: status::derive(index, uid, cron, now),
        now,
    };
    let tick = case.tick();
    let record = case.record();
    let failed = cron.memory.failed.as_ref().map(Step::of);
    let steps = Step::ALL.into_iter().filter(|step| Some(*step) != failed);
    for step in steps.chain(failed) {
        let found = match step {
            Step::Prune => case.prune(record.as_ref().filter(|_| failed != Some(Step::Record))),
            Step::Start => tick.call.clone(),
            Step::Record => record.clone(),
            Step::Ask => case.ask(),
        };
        if let Some((call, because)) = found {
            return Verdict {
                next: Next::Call(call),
                because,
                notes: tick.notes,
            };
        }
    }
    Verdict {
        next: tick.next,
        because: tick.because,
        notes: tick.notes,
    }
}

// === impl Step ===

impl Step {
    const ALL: [Self; 4] = [Self::Prune, Self::Start, Self::Record, Self::Ask];

    fn of(failed: &Failed) -> Self {
        match failed {
            Failed::Prune(_) => Self::Prune,
            Failed::Start => Self::Start,
            Failed::Record => Self::Record,
            Failed::Ask => Self::Ask,
        }
    }
}

// === impl Case ===

impl Case<'_> {
    /// What becomes of the slot that is due.
    fn tick(&self) -> Tick {
        let Self { cron, index, .. } = self;
        let spec = &cron.spec;
        if cron.is_deleting {
            return Tick::rests(Reason::Deleting, None);
        }
        if spec.is_suspended && !index.row.checks_suspended {
            return Tick::rests(Reason::Suspended, None);
        }
        if let Some(Err(error)) = &spec.zone {
            let error = error.to_string();
            let zone = words::quoted(spec.zone_name.as_deref().unwrap_or_default());
            let note = self.note(What::UnknownZone, &[("zone", &zone), ("error", &error)]);
            return Tick::rests(Reason::UnknownZone { error }, note);
        }
        if spec.is_suspended {
            return Tick::rests(Reason::Suspended, None);
        }
        let schedule = match &spec.schedule {
            Ok(schedule) => schedule,
            Err(error) => return self.unreadable(error.to_string()),
        };
        let last = self.derived.last_schedule.unwrap_or(cron.created);
        let zone = cron.zone(&index.settings);
        let outlook = slots::outlook(schedule, zone, last, spec.deadline_secs, self.now);
        let mut tick = match (outlook.due, outlook.next) {
            (Some(slot), next) => self.due(slot, next),
            (None, Some(next)) => Tick::waits(self, Some(next), None),
            (None, None) if last > self.now => Tick {
                next: Next::At(last),
                ..Tick::rests(Reason::LastInFuture { last }, None)
            },
            (None, None) => {
                let plain = words::shortened(&spec.text);
                let note = self.note(What::NeverDue, &[("plain", &plain), ("error", NO_SLOTS)]);
                Tick::waits(self, None, None).telling(note)
            }
        };
        if spec.text.contains("TZ") {
            let schedule = words::quoted(&spec.text);
            tick.notes
                .extend(self.note(What::ZoneInSchedule, &[("schedule", &schedule)]));
        }
        tick
    }

    fn unreadable(&self, error: String) -> Tick {
        let text = &self.cron.spec.text;
        let what = match self.cron.memory.is_edited {
            true => What::EditUnreadable,
            false => What::Unreadable,
        };
        let holes = [
            ("schedule", &*words::quoted(text)),
            ("plain", &*words::shortened(text)),
            ("error", &*error),
        ];
        let note = self.note(what, &holes);
        Tick::rests(Reason::Unreadable { error }, note)
    }

    /// A slot that has come.
    fn due(&self, slot: Slot, next: Option<Timestamp>) -> Tick {
        let name = slots::name(&self.cron.name, slot.time);
        let family = self.index.family(self.uid);
        let is_there = family.is_some_and(|family| family.named(&name).next().is_some());
        if is_there || slots::is_recorded(slot.time, self.derived.last_schedule) {
            return Tick::waits(self, next, None);
        }
        let mut tick = self.serve(slot, next, &name);
        if slots::are_too_many(slot.count) {
            // Not for each slot: where few Events get through, what is in the way matters more.
            let note = self.note(What::TooManyMissed, &[]);
            tick.notes = note.into_iter().chain(tick.notes).collect();
        }
        tick
    }

    /// A slot that has come and has no Job.
    fn serve(&self, slot: Slot, next: Option<Timestamp>, name: &str) -> Tick {
        let Self {
            cron, index, uid, ..
        } = self;
        let skips = |why| {
            let slot = slot.time;
            Tick::waits(self, next, Some(Skip { slot, why }))
        };
        if slot.is_late {
            let deadline_secs = cron.spec.deadline_secs.unwrap_or_default();
            let time = slot.time.strftime("%a, %d %b %Y %H:%M:%S %z").to_string();
            let note = self.note(What::Missed, &[("slot", &time)]);
            return skips(Why::Late { deadline_secs }).telling(note);
        }
        let lost = cron
            .memory
            .lost
            .filter(|(minute, _)| *minute == slots::minute(slot.time));
        if let Some((_, why)) = lost {
            return skips(why);
        }
        match (cron.spec.policy, status::running(index, uid, cron).next()) {
            (Policy::Forbid, Some(_)) => {
                skips(Why::Forbidden).telling(self.note_of(slot, What::Forbidden))
            }
            (Policy::Replace, Some((old, job))) => self.replace(slot, next, old, job),
            (Policy::Allow, _) | (_, None) => Tick {
                call: self.begin(slot, name),
                ..Tick::waits(self, next, None)
            },
        }
    }

    /// The Job of a slot, or before that the CronJob, if the Job could be gone when somebody asks for it again.
    fn begin(&self, slot: Slot, name: &str) -> Option<(Call, Reason)> {
        let Self {
            cron, index, now, ..
        } = self;
        let confirmed = cron.memory.confirmed;
        let is_confirmed =
            confirmed.is_some_and(|at| now.duration_since(at).abs() <= CONFIRMED_FOR);
        if is_confirmed || !self.is_swift() {
            return self.start(slot, name);
        }
        let target = index.target_of_cron(cron)?;
        Some((Call::Get { target }, Reason::Confirms { slot: slot.time }))
    }

    /// Whether our own code could remove a Job soon after its slot.
    fn is_swift(&self) -> bool {
        let after_aborted = self.index.settings.after_aborted;
        self.cron.spec.is_swift || after_aborted.is_some_and(|after| after < super::SWIFT)
    }

    /// The Job of a slot.
    fn start(&self, slot: Slot, name: &str) -> Option<(Call, Reason)> {
        let Self {
            cron, index, uid, ..
        } = self;
        let call = Call::Create {
            target: index.target_of_job(cron, name)?,
            subresource: None,
            object: job::of_slot(index.row, uid, cron, slot.time),
        };
        let because = Reason::Starts {
            slot: slot.time,
            missed: slot.count.saturating_sub(1),
            cron_job: cron.identity(index.row, uid),
        };
        Some((call, because))
    }

    /// A Job that has to go before that of a slot is made. If its own tick is not recorded, that comes first.
    fn replace(&self, slot: Slot, next: Option<Timestamp>, uid: &Uid, job: &Job) -> Tick {
        let because = Reason::Replaced {
            slot: slot.time,
            cron_job: self.cron.identity(self.index.row, self.uid),
        };
        let call = self.delete(uid, job, because);
        let note = self.note_of(slot, What::Replacing);
        Tick {
            call,
            ..Tick::waits(self, next, None)
        }
        .telling(note)
    }

    /// The delete of a Job, unless its tick is not recorded.
    fn delete(&self, uid: &Uid, job: &Job, because: Reason) -> Option<(Call, Reason)> {
        let Self {
            cron, index, now, ..
        } = self;
        if cron.open_tick(job, *now).is_some() {
            return None;
        }
        let call = Call::Delete {
            target: index.target_of_job(cron, &job.name)?,
            judged: Judged {
                uid: uid.clone(),
                revision: job.revision.clone(),
            },
            propagation: index.row.propagation,
            grace_secs: None,
        };
        Some((call, because))
    }

    /// The oldest of the finished Jobs that are more than are kept, and first of all what was made and is not ours. What the
    /// status does not tell about a Job is written before that goes, with `record`, if that can be done.
    fn prune(&self, record: Option<&(Call, Reason)>) -> Option<(Call, Reason)> {
        let Self { cron, index, .. } = self;
        let cron_job = || cron.identity(index.row, self.uid);
        if let Some((target, judged)) = cron.memory.stray.clone() {
            let call = Call::Delete {
                target,
                judged,
                propagation: index.row.propagation,
                grace_secs: None,
            };
            return Some((
                call,
                Reason::Stray {
                    cron_job: cron_job(),
                },
            ));
        }
        let limits = [
            (Outcome::Succeeded, cron.spec.succeeded_kept, "successful"),
            (Outcome::Failed, cron.spec.failed_kept, "failed"),
        ];
        let found = limits.into_iter().filter_map(|(outcome, kept, which)| {
            let kept = kept?;
            let (uid, job) = self.oldest(outcome, kept, record.is_some())?;
            Some((uid, job, kept, which))
        });
        // One whose delete failed gives way to the other list.
        let found = found.min_by_key(|(uid, ..)| self.has_failed(uid));
        let (uid, job, kept, which) = found?;
        if let Some(record) = record.filter(|_| self.is_untold(uid, job)) {
            return Some(record.clone());
        }
        let because = Reason::OverHistoryLimit {
            kept,
            which,
            cron_job: cron_job(),
        };
        self.delete(uid, job, because)
    }

    /// The first that goes of those that ended like this, if more are there than are kept. One whose delete failed is the
    /// last of them; one whose tick is not recorded cannot go, unless that can be recorded now.
    fn oldest(&self, outcome: Outcome, kept: usize, can_record: bool) -> Option<(&Uid, &Job)> {
        let family = self.index.family(self.uid)?;
        let mut free = family
            .beyond(outcome, kept)
            .filter(|(_, job)| can_record || self.cron.open_tick(job, self.now).is_none());
        let first = free.next()?;
        match self.has_failed(first.0) {
            true => free.next().or(Some(first)),
            false => Some(first),
        }
    }

    /// Whether the status does not tell all about a finished Job: its tick, its end, its success.
    fn is_untold(&self, uid: &Uid, job: &Job) -> bool {
        let stored = &self.cron.status;
        self.cron.open_tick(job, self.now).is_some()
            || stored.active.iter().any(|active| active.uid == *uid)
            || job.success() > stored.last_successful
    }

    fn has_failed(&self, uid: &Uid) -> bool {
        self.cron.memory.failed.as_ref() == Some(&Failed::Prune(uid.clone()))
    }

    /// The status, if it does not say what is so.
    fn record(&self) -> Option<(Call, Reason)> {
        let Self {
            cron, index, uid, ..
        } = self;
        if cron.memory.unheard.as_ref() == Some(&self.derived) {
            return None;
        }
        let patch = status::patch(index.row, cron, &self.derived)?;
        let call = Call::Patch {
            target: index.target_of_cron(cron)?,
            judged: Judged {
                uid: (*uid).clone(),
                revision: cron.revision.clone(),
            },
            subresource: Some("status"),
            form: PatchForm::Merge,
            patch,
        };
        Some((call, Reason::Records))
    }

    /// A Job that is in doubt.
    fn ask(&self) -> Option<(Call, Reason)> {
        let job = self.index.family(self.uid).and_then(Family::doubtful)?;
        let target = self.index.target_of_job(self.cron, &job.name)?;
        let because = Reason::Asks {
            job: job.name.to_string(),
        };
        Some((Call::Get { target }, because))
    }

    fn note(&self, what: What, holes: &[(&str, &str)]) -> Option<Note> {
        let about = self.cron.identity(self.index.row, self.uid);
        words::note(self.index.row, &about, what, holes)
    }

    /// What is told once for each slot that it is so with.
    ///
    /// DEVIATION(cron-told-once): upstream tells it again whenever it looks. Here it is told once for each slot, and what is
    /// not about a slot, like a schedule that cannot be read, once as long as it lasts.
    fn note_of(&self, slot: Slot, what: What) -> Option<Note> {
        let note = self.note(what, &[])?;
        let dedup_key = Some(slot.time.to_string());
        Some(Note { dedup_key, ..note })
    }
}

// === impl Tick ===

impl Tick {
    fn rests(because: Reason, note: Option<Note>) -> Self {
        Self {
            call: None,
            next: Next::Rest,
            because,
            notes: note.into_iter().collect(),
        }
    }

    /// Nothing to do until the next slot comes.
    fn waits(case: &Case<'_>, next: Option<Timestamp>, skip: Option<Skip>) -> Self {
        let (next, because) = match next {
            Some(next) => (next, Reason::Waits { next, skip }),
            None => {
                let again = case.now.saturating_add(LOOK_AGAIN);
                (again.unwrap_or(Timestamp::MAX), Reason::NeverDue)
            }
        };
        Self {
            call: None,
            next: Next::At(next),
            because,
            notes: Vec::new(),
        }
    }

    fn telling(mut self, note: Option<Note>) -> Self {
        self.notes.extend(note);
        self
    }
}

fn rest(because: Reason) -> Verdict<Uid, Reason> {
    Verdict {
        next: Next::Rest,
        because,
        notes: Vec::new(),
    }
}
