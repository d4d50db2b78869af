//! Decides what to do for one CronJob. Reads the index, changes nothing, asks for at most one request.
//!
//! Mirrors `syncCronJob` and `cleanupFinishedJobs` of both originals. They send all requests of a reconcile in one go;
//! here each decision sends one request, and the next one is decided anew after the answer. [`STEPS`] is the order of
//! the requests. The step that failed last moves to the end, so that a request that is refused for ever blocks no other.
//!
//! A tick is safe because of its order: the Job is created under the name of its slot, then the status records the slot,
//! and only then may this controller delete the Job, unless its slot can no longer be served (`slot_keeper`). The same holds for `lastSuccessfulTime` and a successful Job.
//!
//! DEVIATION(cron-exact-timer): upstream waits 100 ms longer than until the slot.
//! DEVIATION(cron-permanent-errors): Volcano retries a CronJob with an unknown zone or an unreadable schedule for ever.
//! Here an Event reports the error, and nothing happens until the CronJob changes.
//! DEVIATION(cron-preconditions): upstream deletes Jobs by name alone. Here uid and resourceVersion go with every delete.
//! DEVIATION(cron-record-first): upstream deletes Jobs over the history limits before it writes the status, so that a
//! crash in between loses `lastSuccessfulTime`. Here the status comes first.

use std::time::Duration;

use jiff::Timestamp;

use super::CronReason;
use super::event_texts::{self, CronEvent};
use super::facts::{ConcurrencyPolicy, JobProgress};
use super::index::{CronIndex, CronState};
use super::memory::{FailedStep, ScheduleOrigin, StatusWrite};
use super::owned_jobs::{OwnedJob, OwnedJobs};
use super::reason::{SkipReason, SkippedSlot};
use super::slot_keeper::{SlotHold, SlotKeeper};
use super::slots::{self, DueSlot};
use super::status::{self, CronStatus};
use crate::runtime::call::{ApiCall, JudgedVersion, PatchForm};
use crate::runtime::controller::{EventNote, NextStep, Verdict};
use crate::runtime::queue::later;
use crate::runtime::record::Uid;

/// When a schedule is looked at again that has no slot for years.
const LOOK_AGAIN: Duration = Duration::from_secs(365 * 86_400);

/// Go's error for a schedule without slots, which the Event repeats.
const NO_SLOTS: &str = "time difference between two schedules is less than 1 second";

/// The steps of a reconcile. The first step that has a request ends the decision.
static STEPS: [(FailedHere, StepRequest); 4] = [
    // Delete Jobs over the history limits.
    (
        |failed| matches!(failed, FailedStep::Prune(_)),
        |case| case.prune(),
    ),
    // Serve the slot that is due.
    (
        |failed| *failed == FailedStep::Start,
        |case| case.plan.request.clone(),
    ),
    // Write the status.
    (
        |failed| *failed == FailedStep::Record,
        |case| case.record.clone(),
    ),
    // Read a Job that a list did not show.
    (|failed| *failed == FailedStep::Ask, |case| case.ask()),
];

/// Whether it was this step whose request failed.
type FailedHere = fn(&FailedStep) -> bool;

/// The request of a step, if the step has one to send now.
type StepRequest = fn(&CronCase<'_>) -> Option<ReasonedCall>;

type ReasonedCall = (ApiCall, CronReason);

/// One CronJob at the time of a decision, with everything that several steps need.
struct CronCase<'a> {
    index: &'a CronIndex,
    uid: &'a Uid,
    cron: &'a CronState,
    now: Timestamp,
    /// The status as it should be.
    derived: CronStatus,
    /// The write that makes the status so; none if it is so, or if the API server does not keep it.
    record: Option<ReasonedCall>,
    plan: SlotPlan,
}

/// What happens with the slot that is due, if any.
struct SlotPlan {
    /// The request that serves the slot.
    request: Option<ReasonedCall>,
    /// The decision if no step has a request: when to decide again, and the Events.
    verdict: Verdict<Uid, CronReason>,
}

/// The decision for a CronJob.
pub(super) fn cron_job(index: &CronIndex, uid: &Uid, now: Timestamp) -> Verdict<Uid, CronReason> {
    let rest = |because| Verdict::new(NextStep::Rest, because);
    let Some(cron) = index.cron(uid) else {
        return rest(CronReason::Unknown);
    };
    if !index.is_complete() {
        return rest(CronReason::Unlisted);
    }
    if cron.is_deleting && !index.row.serves_deleting {
        return rest(CronReason::Deleting);
    }
    let case = CronCase::new(index, uid, cron, now);
    let failed = cron.memory.failed.as_ref();
    let (last, first): (Vec<_>, Vec<_>) =
        (STEPS.iter()).partition(|(failed_here, _)| failed.is_some_and(failed_here));
    let found = (first.iter().chain(&last)).find_map(|(_, request)| request(&case));
    let release = found.is_none().then(|| case.next_release()).flatten();
    let mut notes = status::unexpected(index, uid, cron, now);
    notes.extend(case.note_of_kept());
    let mut verdict = case.plan.waking_by(release).verdict;
    verdict.notes.extend(notes);
    if let Some((call, because)) = found {
        verdict.next = NextStep::Call(call);
        verdict.because = because;
    }
    verdict
}

// === impl CronCase ===

impl<'a> CronCase<'a> {
    fn new(index: &'a CronIndex, uid: &'a Uid, cron: &'a CronState, now: Timestamp) -> Self {
        let mut case = Self {
            index,
            uid,
            cron,
            now,
            derived: status::derive(index, uid, cron, now),
            record: None,
            plan: SlotPlan::rest(CronReason::Unknown, None),
        };
        case.record = case.status_write();
        case.plan = case.plan_slot();
        case
    }

    /// The read of a Job that a list did not show.
    fn ask(&self) -> Option<ReasonedCall> {
        let job = self.index.jobs_of(self.uid).and_then(OwnedJobs::doubtful)?;
        let target = self.index.target_of_job(self.cron, &job.name)?;
        let because = CronReason::Asks {
            job: job.name.to_string(),
        };
        Some((ApiCall::Get { target }, because))
    }

    /// The delete of a Job that was stored without a controller, else of the oldest finished Job over a history
    /// limit. If the status lacks a fact about that Job, the write of the status comes first, unless that write failed
    /// last.
    fn prune(&self) -> Option<ReasonedCall> {
        let Self { cron, index, .. } = self;
        let cron_job = cron.identity(index.row, self.uid);
        if let Some((target, judged)) = cron.memory.unowned_job.clone() {
            let call = ApiCall::Delete {
                target,
                judged,
                propagation: index.row.propagation,
                grace_secs: None,
            };
            return Some((call, CronReason::Stray { cron_job }));
        }
        let record = self.record.as_ref();
        let record = record.filter(|_| cron.memory.failed != Some(FailedStep::Record));
        let limits = self.limits().into_iter().flatten();
        let over_limit = limits.filter_map(|(outcome, kept, which)| {
            let (uid, job) = self.oldest_over(outcome, kept, record.is_some())?;
            Some((uid, job, kept, which))
        });
        // A Job whose delete failed gives way to the other list.
        let (uid, job, kept, which) = over_limit.min_by_key(|(uid, ..)| self.delete_failed(uid))?;
        if let Some(record) = record.filter(|_| self.is_unrecorded(uid, job)) {
            return Some(record.clone());
        }
        let because = CronReason::OverHistoryLimit {
            kept,
            which,
            cron_job,
        };
        self.delete(uid, job, because)
    }

    /// The history limits that are set.
    fn limits(&self) -> [Option<(JobProgress, usize, &'static str)>; 2] {
        let spec = &self.cron.spec;
        let limit = |outcome, kept: Option<usize>, which| Some((outcome, kept?, which));
        [
            limit(JobProgress::Succeeded, spec.succeeded_kept, "successful"),
            limit(JobProgress::Failed, spec.failed_kept, "failed"),
        ]
    }

    /// The first Job to prune of those with this outcome. A Job whose delete failed comes last. A Job that is kept for its
    /// slot counts only if the status can be written now.
    fn oldest_over(
        &self,
        outcome: JobProgress,
        kept: usize,
        can_record: bool,
    ) -> Option<(&Uid, &OwnedJob)> {
        let jobs = self.index.jobs_of(self.uid)?;
        let mut prunable = jobs
            .beyond(outcome, kept)
            .filter(|(_, job)| can_record || self.hold(job).is_none());
        let first = prunable.next()?;
        if self.delete_failed(first.0) {
            return prunable.next().or(Some(first));
        }
        Some(first)
    }

    /// Whether the status lacks a fact about a finished Job: its tick, its end or its success.
    fn is_unrecorded(&self, uid: &Uid, job: &OwnedJob) -> bool {
        let stored = &self.cron.status;
        self.cron.unrecorded_tick(job, self.now).is_some()
            || stored.active.iter().any(|active| active.uid == *uid)
            || job.success() > stored.last_successful
    }

    fn delete_failed(&self, uid: &Uid) -> bool {
        matches!(&self.cron.memory.failed, Some(FailedStep::Prune(failed)) if failed == uid)
    }

    /// Why a Job is kept for its slot, if it is.
    fn hold(&self, job: &OwnedJob) -> Option<SlotHold> {
        let slot = self.cron.unrecorded_tick(job, self.now)?;
        SlotKeeper::of(self.cron, &self.index.settings).hold(slot, self.now)
    }

    /// When the first Job over a history limit is no longer kept for its slot. Jobs that nothing keeps were deleted before,
    /// so few are left to look at.
    fn next_release(&self) -> Option<Timestamp> {
        let jobs = self.index.jobs_of(self.uid)?;
        let limits = self.limits().into_iter().flatten();
        let over_limit = limits.flat_map(|(outcome, kept, _)| jobs.beyond(outcome, kept));
        over_limit
            .filter_map(|(_, job)| self.hold(job)?.until)
            .min()
    }

    /// The Event about a Job over a history limit that is kept for its slot, while the status cannot be written.
    fn note_of_kept(&self) -> Option<EventNote> {
        let memory = &self.cron.memory;
        let is_refused = memory.failed == Some(FailedStep::Record)
            || matches!(memory.status, StatusWrite::NotKept(_));
        let jobs = self.index.jobs_of(self.uid).filter(|_| is_refused)?;
        let mut limits = self.limits().into_iter().flatten();
        let (job, hold) = limits.find_map(|(outcome, kept, _)| {
            let job = jobs.youngest_beyond(outcome, kept)?;
            Some((job, self.hold(job)?))
        })?;
        let slot = format!("{:.0}", hold.slot);
        self.note(CronEvent::Kept, &[("job", &job.name), ("slot", &slot)])
    }

    /// The delete of a Job; none while the Job is kept for its slot.
    fn delete(&self, uid: &Uid, job: &OwnedJob, because: CronReason) -> Option<ReasonedCall> {
        let Self { cron, index, .. } = self;
        if self.hold(job).is_some() {
            return None;
        }
        let call = ApiCall::Delete {
            target: index.target_of_job(cron, &job.name)?,
            judged: JudgedVersion::new(uid, &job.revision),
            propagation: index.row.propagation,
            grace_secs: None,
        };
        Some((call, because))
    }

    fn status_write(&self) -> Option<ReasonedCall> {
        let Self { cron, index, .. } = self;
        if matches!(&cron.memory.status, StatusWrite::NotKept(status) if *status == self.derived) {
            return None;
        }
        let patch = status::patch(index.row, cron, &self.derived)?;
        let call = ApiCall::Patch {
            target: index.target_of_cron(cron)?,
            judged: JudgedVersion::new(self.uid, &cron.revision),
            subresource: Some("status"),
            form: PatchForm::Merge,
            patch,
        };
        Some((call, CronReason::Records))
    }
}

/// The slot that is due.
impl CronCase<'_> {
    /// Finds the slot that is due and plans for it.
    fn plan_slot(&self) -> SlotPlan {
        let Self { cron, index, .. } = self;
        let spec = &cron.spec;
        if let Some(plan) = self.plan_unscheduled() {
            return plan;
        }
        let schedule = match &spec.schedule {
            Ok(schedule) => schedule,
            Err(error) => return self.plan_unreadable(error.to_string()),
        };
        let last = self.derived.last_schedule.unwrap_or(cron.created);
        let zone = cron.zone(&index.settings);
        let outlook = slots::outlook(schedule, zone, last, spec.deadline_secs, self.now);
        let mut plan = match (outlook.due, outlook.next) {
            (Some(slot), next) if self.is_served(slot) => self.wait_until(next, None),
            (Some(slot), next) => self.plan_due(slot, next),
            (None, Some(next)) => self.wait_until(Some(next), None),
            (None, None) if last > self.now => {
                SlotPlan::new(NextStep::At(last), CronReason::LastInFuture { last })
            }
            (None, None) => {
                let plain = event_texts::shortened(&spec.text);
                let values = [("plain", &*plain), ("error", NO_SLOTS)];
                self.wait_until(None, None)
                    .with_note(self.note(CronEvent::NeverDue, &values))
            }
        };
        if spec.text.contains("TZ") {
            let schedule = event_texts::quoted(&spec.text);
            let note = self.note(CronEvent::ZoneInSchedule, &[("schedule", &schedule)]);
            plan = plan.with_note(note);
        }
        plan
    }

    /// The plan for a CronJob whose schedule does not count now: deleted, suspended, or in an unknown zone.
    fn plan_unscheduled(&self) -> Option<SlotPlan> {
        let Self { cron, index, .. } = self;
        let spec = &cron.spec;
        if cron.is_deleting {
            return Some(SlotPlan::rest(CronReason::Deleting, None));
        }
        if spec.is_suspended && !index.row.checks_suspended {
            return Some(SlotPlan::rest(CronReason::Suspended, None));
        }
        if let Some(Err(error)) = &spec.zone {
            let error = error.to_string();
            let zone = event_texts::quoted(spec.zone_name.as_deref().unwrap_or_default());
            let values = [("zone", &*zone), ("error", &*error)];
            let note = self.note(CronEvent::UnknownZone, &values);
            return Some(SlotPlan::rest(CronReason::UnknownZone { error }, note));
        }
        let is_suspended = spec.is_suspended;
        is_suspended.then(|| SlotPlan::rest(CronReason::Suspended, None))
    }

    fn plan_unreadable(&self, error: String) -> SlotPlan {
        let text = &self.cron.spec.text;
        let event = match self.cron.memory.schedule {
            ScheduleOrigin::Edited => CronEvent::EditUnreadable,
            ScheduleOrigin::FirstSeen => CronEvent::Unreadable,
        };
        let values = [
            ("schedule", &*event_texts::quoted(text)),
            ("plain", &*event_texts::shortened(text)),
            ("error", &*error),
        ];
        let note = self.note(event, &values);
        SlotPlan::rest(CronReason::Unreadable { error }, note)
    }

    /// Whether a slot has its Job, or the status records it.
    fn is_served(&self, slot: DueSlot) -> bool {
        let name = slots::job_name(&self.cron.name, slot.time);
        let jobs = self.index.jobs_of(self.uid);
        jobs.is_some_and(|jobs| jobs.uids_of_name(&name).next().is_some())
            || slots::is_recorded(slot.time, self.derived.last_schedule)
    }

    /// The plan for a slot that is due and has no Job. The checks stand in the order of upstream's `syncCronJob`.
    fn plan_due(&self, slot: DueSlot, next: Option<Timestamp>) -> SlotPlan {
        let Self { cron, index, .. } = self;
        // Not once for each slot: where few Events get through, what blocks the slot matters more.
        let missed = slots::are_too_many(slot.count)
            .then(|| self.note(CronEvent::TooManyMissed, &[]))
            .flatten();
        let skip = |why| {
            let skipped = SkippedSlot {
                slot: slot.time,
                why,
            };
            self.wait_until(next, Some(skipped))
                .with_note(missed.clone())
        };
        if slot.is_late {
            let deadline_secs = cron.spec.deadline_secs.unwrap_or_default();
            let time = slot.time.strftime("%a, %d %b %Y %H:%M:%S %z").to_string();
            let note = self.note(CronEvent::Missed, &[("slot", &time)]);
            return skip(SkipReason::Late { deadline_secs }).with_note(note);
        }
        if let Some(why) = cron.memory.slot.blocked(slot.time) {
            return skip(why);
        }
        let running = status::running(index, self.uid, cron, self.now).next();
        let plan = self.wait_until(next, None).with_note(missed.clone());
        match (cron.spec.policy, running) {
            (ConcurrencyPolicy::Forbid, Some(_)) => skip(SkipReason::WaitsForRunningJob)
                .with_note(self.slot_note(slot, CronEvent::Forbidden)),
            (ConcurrencyPolicy::Replace, Some((old, job))) => plan
                .sending(self.replace(slot, old, job))
                .waking_by(self.hold(job).and_then(|hold| hold.until))
                .with_note(self.slot_note(slot, CronEvent::Replacing)),
            _ if self.needs_confirmation() => plan.sending(self.confirm(slot)),
            _ => plan.sending(self.create(slot)),
        }
    }

    /// Whether the CronJob is read before the Job is created. A Job that our own controllers may delete soon after its
    /// slot is no proof that the slot was served, so the status has to be current.
    fn needs_confirmation(&self) -> bool {
        let after_aborted = self.index.settings.after_aborted;
        let is_short_lived = self.cron.spec.is_short_lived
            || after_aborted.is_some_and(|after| after < super::SHORT_LIVED);
        is_short_lived && !self.cron.memory.slot.is_confirmed(self.now)
    }

    fn confirm(&self, slot: DueSlot) -> Option<ReasonedCall> {
        let target = self.index.target_of_cron(self.cron)?;
        Some((
            ApiCall::Get { target },
            CronReason::Confirms { slot: slot.time },
        ))
    }

    fn create(&self, slot: DueSlot) -> Option<ReasonedCall> {
        let Self {
            cron, index, uid, ..
        } = self;
        let name = slots::job_name(&cron.name, slot.time);
        let call = ApiCall::Create {
            target: index.target_of_job(cron, &name)?,
            subresource: None,
            object: slots::job_of(index.row, uid, cron, slot.time),
        };
        let because = CronReason::Starts {
            slot: slot.time,
            missed: slot.count.saturating_sub(1),
            cron_job: cron.identity(index.row, uid),
        };
        Some((call, because))
    }

    /// The delete of the Job that runs, before the slot's own Job is created.
    fn replace(&self, slot: DueSlot, uid: &Uid, job: &OwnedJob) -> Option<ReasonedCall> {
        let because = CronReason::Replaced {
            slot: slot.time,
            cron_job: self.cron.identity(self.index.row, self.uid),
        };
        self.delete(uid, job, because)
    }

    /// Nothing to do until the next slot.
    fn wait_until(&self, next: Option<Timestamp>, skip: Option<SkippedSlot>) -> SlotPlan {
        let (next, because) = match next {
            Some(next) => (next, CronReason::Waits { next, skip }),
            None => (later(self.now, LOOK_AGAIN), CronReason::NeverDue),
        };
        SlotPlan::new(NextStep::At(next), because)
    }

    fn note(&self, event: CronEvent, values: &[(&str, &str)]) -> Option<EventNote> {
        self.index.note(self.uid, event, values)
    }

    /// An Event that is emitted once for each slot.
    ///
    /// DEVIATION(cron-once-per-slot): upstream emits it again with every reconcile. Here it is emitted once for each slot, and
    /// an Event about no slot, like an unreadable schedule, once as long as its cause lasts.
    fn slot_note(&self, slot: DueSlot, event: CronEvent) -> Option<EventNote> {
        let note = self.note(event, &[])?;
        let dedup_key = Some(slot.time.to_string());
        Some(EventNote { dedup_key, ..note })
    }
}

// === impl SlotPlan ===

impl SlotPlan {
    fn new(next: NextStep<Uid>, because: CronReason) -> Self {
        Self {
            request: None,
            verdict: Verdict::new(next, because),
        }
    }

    fn rest(because: CronReason, note: Option<EventNote>) -> Self {
        Self::new(NextStep::Rest, because).with_note(note)
    }

    fn with_note(mut self, note: Option<EventNote>) -> Self {
        self.verdict.notes.extend(note);
        self
    }

    /// Decides again at this time at the latest.
    fn waking_by(mut self, time: Option<Timestamp>) -> Self {
        if let Some(time) = time {
            self.verdict.next = match self.verdict.next {
                NextStep::At(next) => NextStep::At(next.min(time)),
                _ => NextStep::At(time),
            };
        }
        self
    }

    fn sending(self, request: Option<ReasonedCall>) -> Self {
        Self { request, ..self }
    }
}
