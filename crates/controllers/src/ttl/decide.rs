//! Decides when a finished Job is deleted, as a pure function of the index and the time.
//!
//! A Job is never deleted before its finish time plus its TTL, and never if it has not finished. A Job with an invalid
//! TTL or finish time stays, with a warning Event for its user.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::index::{ExpiryState, JobExpiry, TrackedJob, TtlIndex};
use super::interlock::TickHold;
use super::kinds::FinishingKind;
use super::{TtlReason, TtlSettings};
use crate::cron::JobProgress;
use crate::runtime::call::{ApiCall, DeletePropagation};
use crate::runtime::controller::{
    DecisionReason as _, EventNote, NextStep, ObjectIdentity, Verdict,
};
use crate::runtime::record::{ObjectRecord, Uid};

/// How long a Job is kept for its slot before an Event says so. The record of a slot usually follows within a second.
const HELD_SILENTLY: SignedDuration = SignedDuration::from_secs(10);

/// Reads from a Job when it expires, according to the settings.
pub(super) fn judge_expiry(
    row: &FinishingKind,
    settings: &TtlSettings,
    record: &ObjectRecord,
) -> ExpiryState {
    if record.meta.deletion.is_some() {
        return ExpiryState::Deleting;
    }
    let (outcome, finish, ttl_secs) = row.read(&record.body.json());
    let is_aborted = outcome == JobProgress::Aborted;
    let least = settings.after_aborted.filter(|_| is_aborted);
    if outcome == JobProgress::Unfinished || is_aborted && least.is_none() {
        return ExpiryState::Unfinished;
    }
    let own = match ttl_secs {
        None => None,
        Some(Ok(secs)) => Some(Duration::from_secs(secs.into())),
        Some(Err(odd)) => return ExpiryState::OutOfRange(odd),
    };
    // `None` is less than any TTL.
    let Some(ttl) = own.max(least) else {
        return ExpiryState::NoTtl;
    };
    let Some(finish) = finish else {
        return ExpiryState::NoFinishTime;
    };
    match finish.checked_add(ttl) {
        Ok(expire) => ExpiryState::Timed(JobExpiry {
            finish,
            expiry: expire,
            is_aborted,
        }),
        Err(_) => ExpiryState::OutOfRange(ttl.as_secs().to_string().into()),
    }
}

/// Decides about a Job of the index.
pub(super) fn decide_tracked(
    row: &FinishingKind,
    index: &TtlIndex,
    uid: &Uid,
    now: Timestamp,
) -> Verdict<Uid, TtlReason> {
    match index.get(uid) {
        Some(job) => hold_for_tick(row, index, uid, job, now)
            .unwrap_or_else(|| decide_job(row, uid, job, now)),
        None => rest(TtlReason::Unknown),
    }
}

/// Holds an expired Job whose tick is not recorded, or whose CronJob has to be read first.
fn hold_for_tick(
    row: &FinishingKind,
    index: &TtlIndex,
    uid: &Uid,
    job: &TrackedJob,
    now: Timestamp,
) -> Option<Verdict<Uid, TtlReason>> {
    let (ExpiryState::Timed(end), Some(tick)) = (&job.state, &job.tick) else {
        return None;
    };
    if now < end.expiry {
        return None;
    }
    let cron_job = tick.cron_job.to_string();
    let (next, because) = match index.interlock.hold(tick, job, now) {
        TickHold::Free => return None,
        TickHold::Unrecorded(hold) => {
            let because = TtlReason::TickUnrecorded {
                cron_job,
                slot: hold.slot,
                until: hold.until,
            };
            let reported = end.expiry.saturating_add(HELD_SILENTLY).unwrap_or(now);
            let times = hold.until.into_iter().chain([reported]);
            let next = times.filter(|time| *time > now).min();
            let next = next.map_or(NextStep::Rest, NextStep::At);
            if reported <= now {
                return Some(with_warning(row, uid, job, next, because));
            }
            (next, because)
        }
        TickHold::Unknown(target) => (
            NextStep::Call(ApiCall::Get { target }),
            TtlReason::AsksForCronJob { cron_job },
        ),
    };
    Some(Verdict::new(next, because))
}

/// Decides about a Job, without the interlock.
pub(super) fn decide_job(
    row: &FinishingKind,
    uid: &Uid,
    job: &TrackedJob,
    now: Timestamp,
) -> Verdict<Uid, TtlReason> {
    match &job.state {
        ExpiryState::Deleting => rest(TtlReason::Deleting),
        ExpiryState::Unfinished => rest(TtlReason::Unfinished),
        ExpiryState::NoTtl => rest(TtlReason::NoTtl),
        ExpiryState::Going => rest(TtlReason::Going),
        ExpiryState::Timed(end) if now < end.expiry => {
            Verdict::new(NextStep::At(end.expiry), TtlReason::waits(*end, now))
        }
        ExpiryState::Timed(end) => {
            let delete = ApiCall::Delete {
                target: job.target(),
                judged: job.judged(uid),
                propagation: Some(DeletePropagation::Foreground),
                grace_secs: None,
            };
            Verdict::new(NextStep::Call(delete), TtlReason::expired(*end))
        }
        ExpiryState::NoFinishTime => {
            with_warning(row, uid, job, NextStep::Retry, TtlReason::FinishTimeUnknown)
        }
        ExpiryState::OutOfRange(odd) => {
            let because = TtlReason::TtlOutOfRange { ttl: odd.clone() };
            with_warning(row, uid, job, NextStep::Rest, because)
        }
    }
}

fn rest(because: TtlReason) -> Verdict<Uid, TtlReason> {
    Verdict::new(NextStep::Rest, because)
}

/// A verdict with a warning Event for the Job's user.
///
/// DEVIATION(ttl-warnings): upstream logs such a Job and retries it, so its user does not learn why it stays. A Job that is
/// kept for its slot gets an Event, too.
fn with_warning(
    row: &FinishingKind,
    uid: &Uid,
    job: &TrackedJob,
    next: NextStep<Uid>,
    because: TtlReason,
) -> Verdict<Uid, TtlReason> {
    let target = job.target();
    let about = ObjectIdentity {
        api_version: row.api_version.to_owned(),
        kind: row.kind.to_owned(),
        namespace: target.namespace.into(),
        name: target.name.into(),
        uid: uid.to_string(),
    };
    let note = EventNote::warning(about, because.rule(), because.to_string());
    let mut verdict = Verdict::new(next, because);
    verdict.notes.push(note);
    verdict
}
