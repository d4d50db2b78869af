//! When a finished Job goes. Pure: what is known and the time go in, a verdict comes out.
//!
//! Never before its finish and its TTL, never what has not finished, and what cannot be understood means never, with a
//! warning for whoever wrote it.

use std::time::Duration;

use jiff::Timestamp;

use super::index::{End, Index, Job, State};
use super::kinds::{Finish, Finishing, Said};
use super::ticks::TickHold;
use super::{Reason, Rules};
use crate::runtime::call::{ApiCall, DeletePropagation};
use crate::runtime::controller::{
    DecisionReason as _, EventNote, EventSeverity, NextStep, ObjectIdentity, Verdict,
};
use crate::runtime::record::{ObjectRecord, RecordBody, Uid};

/// What a Job says about its end, by the rules.
pub(super) fn judge(row: &Finishing, rules: Rules, record: &ObjectRecord) -> State {
    if record.meta.deletion.is_some() {
        return State::Deleting;
    }
    let RecordBody::Json(body) = &record.body else {
        return State::Unfinished;
    };
    let Said { finish, ttl_secs } = row.read(body);
    let (finish, least, is_aborted) = match (finish, rules.after_aborted) {
        (Finish::No, _) | (Finish::Aborted(_), None) => return State::Unfinished,
        (Finish::Finished(time), _) => (time, None, false),
        (Finish::Aborted(time), after) => (time, after, true),
    };
    let own = match ttl_secs {
        None => None,
        Some(Ok(secs)) => Some(Duration::from_secs(secs.into())),
        Some(Err(odd)) => return State::OutOfRange(odd),
    };
    // What is there is longer than what is not.
    let Some(ttl) = own.max(least) else {
        return State::NoTtl;
    };
    let Some(finish) = finish else {
        return State::NoFinishTime;
    };
    match finish.checked_add(ttl) {
        Ok(expire) => State::Timed(End {
            finish,
            expire,
            is_aborted,
        }),
        Err(_) => State::OutOfRange(ttl.as_secs().to_string().into()),
    }
}

/// What follows for a Job of the index.
pub(super) fn known(
    row: &Finishing,
    index: &Index,
    uid: &Uid,
    now: Timestamp,
) -> Verdict<Uid, Reason> {
    match index.get(uid) {
        Some(job) => held(index, job, now).unwrap_or_else(|| about(row, uid, job, now)),
        None => rest(Reason::Unknown),
    }
}

/// A Job whose time has come, and whose tick is not recorded, or not known to be.
fn held(index: &Index, job: &Job, now: Timestamp) -> Option<Verdict<Uid, Reason>> {
    let (State::Timed(end), Some(tick)) = (job.state(), job.tick()) else {
        return None;
    };
    if now < end.expire {
        return None;
    }
    let cron_job = tick.cron_job.to_string();
    let (next, because) = match index.ticks.hold(tick, job, now) {
        TickHold::Free => return None,
        TickHold::Unrecorded => {
            let slot = tick.slot;
            (NextStep::Rest, Reason::TickUnrecorded { cron_job, slot })
        }
        TickHold::Unknown(target) => (
            NextStep::Call(ApiCall::Get { target }),
            Reason::AsksForCronJob { cron_job },
        ),
    };
    Some(Verdict {
        next,
        because,
        notes: Vec::new(),
    })
}

/// What follows for a Job.
pub(super) fn about(row: &Finishing, uid: &Uid, job: &Job, now: Timestamp) -> Verdict<Uid, Reason> {
    match job.state() {
        State::Deleting => rest(Reason::Deleting),
        State::Unfinished => rest(Reason::Unfinished),
        State::NoTtl => rest(Reason::NoTtl),
        State::Going => rest(Reason::Going),
        State::Timed(end) if now < end.expire => Verdict {
            next: NextStep::At(end.expire),
            because: Reason::waits(*end, now),
            notes: Vec::new(),
        },
        State::Timed(end) => Verdict {
            next: NextStep::Call(ApiCall::Delete {
                target: job.target(),
                judged: job.judged(uid),
                propagation: Some(DeletePropagation::Foreground),
                grace_secs: None,
            }),
            because: Reason::over(*end),
            notes: Vec::new(),
        },
        State::NoFinishTime => warned(row, uid, job, NextStep::Retry, Reason::FinishTimeUnknown),
        State::OutOfRange(odd) => {
            let because = Reason::TtlOutOfRange { ttl: odd.clone() };
            warned(row, uid, job, NextStep::Rest, because)
        }
    }
}

fn rest(because: Reason) -> Verdict<Uid, Reason> {
    Verdict {
        next: NextStep::Rest,
        because,
        notes: Vec::new(),
    }
}

/// A verdict that the Job's users are told as well.
///
/// DEVIATION(ttl-warnings): upstream logs such a Job and tries it again, and its user never learns why it stays.
fn warned(
    row: &Finishing,
    uid: &Uid,
    job: &Job,
    next: NextStep<Uid>,
    because: Reason,
) -> Verdict<Uid, Reason> {
    let target = job.target();
    let note = EventNote {
        about: ObjectIdentity {
            api_version: row.api_version.to_owned(),
            kind: row.kind.to_owned(),
            namespace: target.namespace.into(),
            name: target.name.into(),
            uid: uid.to_string(),
        },
        severity: EventSeverity::Warning,
        reason: because.rule(),
        message: because.to_string(),
        dedup_key: None,
    };
    Verdict {
        next,
        because,
        notes: vec![note],
    }
}
