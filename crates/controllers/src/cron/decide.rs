//! What follows for a CronJob. Reads the index, changes nothing, asks for at most one request.
//!
//! Mirrors `syncCronJob` and `cleanupFinishedJobs` of both originals. Where they do all of it in one go, here one request
//! follows the other, and each is decided anew from what is known then: Jobs beyond the history limits go, the Job of the
//! slot that is due is made, the status is written. What failed last comes last, so that nothing that is refused for ever
//! holds up anything else.
//!
//! The order in which a tick is served is what makes it safe: first its Job is made, under the name of the slot, then the
//! status tells its time, and only then may anything of ours delete that Job.
//!
//! DEVIATION(cron-exact-timer): upstream waits 100 ms longer than until the slot.
//! DEVIATION(cron-permanent-errors): Volcano tries a CronJob with an unknown zone or an unreadable schedule again and again.
//! Here an Event says what is wrong, and nothing happens until it is changed.
//! DEVIATION(cron-preconditions): upstream deletes Jobs by name alone. Here uid and resourceVersion go with every delete.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::Reason;
use super::dialects::AgeBy;
use super::facts::{Outcome, Policy};
use super::index::{Cron, Failed, Index, Job};
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
    let failed = cron.memory.failed.as_ref().map(Step::of);
    let steps = Step::ALL.into_iter().filter(|step| Some(*step) != failed);
    for step in steps.chain(failed) {
        let found = match step {
            Step::Prune => case.prune(),
            Step::Start => tick.call.clone(),
            Step::Record => case.record(),
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
            (None, None) if last > self.now => Tick::rests(Reason::LastInFuture { last }, None),
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
        let Self {
            cron,
            index,
            uid,
            now,
            ..
        } = self;
        let skip = |why| {
            Some(Skip {
                slot: slot.time,
                why,
            })
        };
        let name = slots::name(&cron.name, slot.time);
        let is_served = slots::is_recorded(slot.time, self.derived.last_schedule)
            || index.jobs(uid).any(|(_, job)| *job.name == *name);
        if is_served {
            return Tick::waits(self, next, None);
        }
        if slot.is_late {
            let deadline_secs = cron.spec.deadline_secs.unwrap_or_default();
            let time = slot.time.strftime("%a, %d %b %Y %H:%M:%S %z").to_string();
            let note = self.note(What::Missed, &[("slot", &time)]);
            return Tick::waits(self, next, skip(Why::Late { deadline_secs })).telling(note);
        }
        let lost = cron
            .memory
            .lost
            .filter(|(minute, _)| *minute == slots::minute(slot.time));
        if let Some((_, why)) = lost {
            return Tick::waits(self, next, skip(why));
        }
        let is_active = |job: &&Job| status::is_active(index, cron, job);
        let mut running = index.jobs(uid).filter(|(_, job)| is_active(job));
        match cron.spec.policy {
            Policy::Forbid if running.next().is_some() => {
                let note = self.note(What::Forbidden, &[]);
                return Tick::waits(self, next, skip(Why::Forbidden)).telling(note);
            }
            Policy::Replace => {
                if let Some((old, job)) = running.next() {
                    return self.replace(slot, next, old, job);
                }
            }
            Policy::Allow | Policy::Forbid => {}
        }
        let too_many = slots::are_too_many(slot.count);
        let note = too_many
            .then(|| self.note(What::TooManyMissed, &[]))
            .flatten();
        let call = match cron.memory.confirmed {
            Some(at) if now.duration_since(at).abs() <= CONFIRMED_FOR => self.start(slot, &name),
            _ if !self.is_swift() => self.start(slot, &name),
            _ => index
                .target_of_cron(cron)
                .map(|target| (Call::Get { target }, Reason::Confirms { slot: slot.time })),
        };
        Tick {
            call,
            ..Tick::waits(self, next, None)
        }
        .telling(note)
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
            kind: index.row.label,
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
        let note = self.note(What::Replacing, &[]);
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

    /// The oldest of the finished Jobs that are more than are kept, and first of all what was made and is not ours.
    fn prune(&self) -> Option<(Call, Reason)> {
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
            let (uid, job) = self.oldest(outcome, kept)?;
            let because = Reason::OverHistoryLimit {
                kept,
                which,
                cron_job: cron_job(),
            };
            Some((uid, self.delete(uid, job, because)?))
        });
        // One whose delete failed gives way to the other list.
        let (mut calls, last): (Vec<_>, Vec<_>) = found.partition(|(uid, _)| !self.has_failed(uid));
        calls.extend(last);
        calls.into_iter().next().map(|(_, call)| call)
    }

    /// The first that goes of those that ended like this, if more are there than are kept. One whose delete failed is the
    /// last of them.
    fn oldest(&self, outcome: Outcome, kept: usize) -> Option<(&Uid, &Job)> {
        let Self {
            index, now, cron, ..
        } = self;
        let ended = |job: &Job| job.facts.outcome == outcome && !job.is_deleting && !job.is_going;
        let mut ended: Vec<(&Uid, &Job)> =
            index.jobs(self.uid).filter(|(_, job)| ended(job)).collect();
        let over = ended.len().checked_sub(kept).filter(|over| *over > 0)?;
        let age = |job: &Job| match index.row.age {
            AgeBy::Creation => job.facts.created,
            AgeBy::Start => job.facts.started,
        };
        ended.select_nth_unstable_by(over - 1, |(_, a), (_, b)| {
            let key = |job: &Job| age(job).unwrap_or(Timestamp::MAX);
            (key(a), &a.name).cmp(&(key(b), &b.name))
        });
        ended.truncate(over);
        let is_open = |job: &Job| cron.open_tick(job, *now).is_some();
        let free = ended.into_iter().filter(|(_, job)| !is_open(job));
        free.min_by(|(uid, job), (other, than)| {
            let key = |uid, job: &Job| (self.has_failed(uid), age(job).unwrap_or(Timestamp::MAX));
            let ages = key(uid, job).cmp(&key(other, than));
            ages.then_with(|| job.name.cmp(&than.name))
        })
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
        let mut jobs = self.index.jobs(self.uid);
        let (_, job) = jobs.find(|(_, job)| job.is_doubtful)?;
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
        let kind = case.index.row.label;
        let (next, because) = match next {
            Some(next) => (next, Reason::Waits { next, skip, kind }),
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
