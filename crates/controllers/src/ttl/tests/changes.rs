//! Changes of a Job while it waits for its expiry.

use super::*;
use crate::runtime::call::{CallFailure, FailureKind};
use crate::runtime::controller::AnsweredCall;

/// A batch Job that finished now, with this version and TTL.
fn job(revision: u64, ttl: impl Into<Value>) -> Arc<ObjectRecord> {
    let ttl: Value = ttl.into();
    let condition = json!({"type": "Complete", "status": "True", "lastTransitionTime": NOW});
    mk_job(
        &BATCH,
        json!({"metadata": {"resourceVersion": revision.to_string()},
            "spec": {"ttlSecondsAfterFinished": ttl}, "status": {"conditions": [condition]}}),
    )
}

fn changed(
    record: &Arc<ObjectRecord>,
    change: impl FnOnce(&mut ObjectRecord),
) -> Arc<ObjectRecord> {
    let mut record = ObjectRecord::clone(record);
    change(&mut record);
    Arc::new(record)
}

fn waiting(ttl: &TtlController) -> Option<Timestamp> {
    match ttl.decide(&uid(), NOW).next {
        NextStep::At(time) => Some(time),
        _ => None,
    }
}

/// A controller that has the Job at version 5, one hour before its expiry.
fn mk_waiting() -> TtlController {
    let mut ttl = mk(&BATCH, TtlSettings::default());
    assert_eq!(apply(&mut ttl, &job(5, json!(3600))), [uid()]);
    assert_eq!(waiting(&ttl), Some(at(3600)));
    ttl
}

fn answered(ttl: &mut TtlController, call: &ApiCall, answer: &ApiAnswer) -> Vec<Uid> {
    let mut wake = WakeList::default();
    assert_eq!(
        ttl.answered(AnsweredCall {
            key: &uid(),
            call,
            answer,
            now: NOW,
            wake: &mut wake
        }),
        []
    );
    wake.drain().map(|(uid, _)| uid).collect()
}

fn get(ttl: &TtlController) -> ApiCall {
    ApiCall::Get {
        target: delete(ttl).target().clone(),
    }
}

/// The delete that is sent after the hour.
fn delete(ttl: &TtlController) -> ApiCall {
    match ttl.decide(&uid(), at(3600)).next {
        NextStep::Call(call) => call,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_changed_ttl_takes_effect_at_once() {
    let mut ttl = mk_waiting();
    for (revision, secs, expected) in [
        (6, json!(7200), Some(at(7200))),
        (7, json!(60), Some(at(60))),
        (8, Value::Null, None),
        (9, json!(30), Some(at(30))),
    ] {
        assert_eq!(apply(&mut ttl, &job(revision, secs)), [uid()]);
        assert_eq!(waiting(&ttl), expected, "{revision}");
    }
    assert_eq!(
        ttl.pending(),
        crate::ttl::PendingJobs {
            count: 1,
            next_expiry: Some(at(30))
        }
    );
    apply(&mut ttl, &job(10, Value::Null));
    assert_eq!(ttl.pending(), crate::ttl::PendingJobs::default());
}

#[test]
fn a_job_that_restarts_is_not_deleted() {
    let mut ttl = mk(&VOLCANO, TtlSettings::default());
    apply(&mut ttl, &volcano("Failed", json!(at(-10)), json!(5)));
    assert_eq!(rule(&ttl.decide(&uid(), NOW)), "Expired");
    let restarting = volcano("Restarting", json!(NOW), json!(5));
    let restarting = changed(&restarting, |record| record.meta.revision = "2".into());
    assert_eq!(apply(&mut ttl, &restarting), [uid()]);
    assert_eq!(ttl.decide(&uid(), at(1_000_000)).next, NextStep::Rest);
}

#[test]
fn a_job_that_is_gone_is_forgotten_and_its_successor_is_not() {
    for end in [
        ObservedChange::Deleted(job(6, json!(3600))),
        ObservedChange::Missing(BATCH_JOBS, uid()),
        ObservedChange::Kind(BATCH_JOBS, KindState::Gone),
        ObservedChange::Kind(BATCH_JOBS, KindState::Frozen),
    ] {
        let mut ttl = mk_waiting();
        assert_eq!(observe(&mut ttl, &end), [uid()], "{end:?}");
        assert_eq!(ttl.decide(&uid(), at(3600)).next, NextStep::Rest, "{end:?}");
        // After a restore an older version counts.
        apply(&mut ttl, &job(2, json!(60)));
        assert_eq!(waiting(&ttl), Some(at(60)));
    }
    let mut ttl = mk_waiting();
    let successor = changed(&job(9, json!(7200)), |record| record.meta.uid = "b".into());
    apply(&mut ttl, &successor);
    observe(&mut ttl, &ObservedChange::Deleted(job(8, json!(3600))));
    assert_eq!(ttl.decide(&uid(), at(3600)).next, NextStep::Rest);
    let next = ttl.decide(&"b".into(), at(3600)).next;
    assert_eq!(next, NextStep::At(at(7200)));
}

#[test]
fn judges_the_object_that_a_conflict_shows() {
    let read = |record| ApiAnswer::Object(record);
    let mut ttl = mk_waiting();
    let call = get(&ttl);
    // The TTL was raised, so the Job waits. An older copy changes nothing.
    answered(&mut ttl, &call, &read(job(6, json!(7200))));
    assert_eq!(waiting(&ttl), Some(at(7200)));
    answered(&mut ttl, &call, &read(job(5, json!(0))));
    assert_eq!(waiting(&ttl), Some(at(7200)));
    // The Job was written, so the delete has the new version.
    answered(&mut ttl, &call, &read(job(7, json!(3600))));
    assert_eq!(delete(&ttl).judged().unwrap().revision, "7".into());
    // Another Job has the name, another client deleted it, or it is gone: no request.
    let other = changed(&job(9, json!(0)), |record| record.meta.uid = "b".into());
    let deleting = changed(&job(9, json!(0)), |record| record.meta.deletion = Some(NOW));
    for answer in [
        read(other),
        read(deleting),
        ApiAnswer::Absent(AbsenceProof::NotFound),
    ] {
        let mut ttl = mk_waiting();
        answered(&mut ttl, &call, &answer);
        assert_eq!(
            ttl.decide(&uid(), at(7200)).next,
            NextStep::Rest,
            "{answer:?}"
        );
        assert_eq!(ttl.decide(&"b".into(), at(7200)).next, NextStep::Rest);
    }
}

#[test]
fn an_acknowledged_delete_is_not_sent_again() {
    let deleting = changed(&job(6, json!(0)), |record| record.meta.deletion = Some(NOW));
    for answer in [
        ApiAnswer::Object(deleting.clone()),
        ApiAnswer::Done,
        ApiAnswer::Absent(AbsenceProof::NotFound),
    ] {
        let mut ttl = mk_waiting();
        let call = delete(&ttl);
        answered(&mut ttl, &call, &answer);
        let verdict = ttl.decide(&uid(), at(3600));
        assert_eq!(
            (rule(&verdict), verdict.next),
            ("Going", NextStep::Rest),
            "{answer:?}"
        );
        assert_eq!(ttl.pending().count, 0);
        // A lagging watch shows an older copy.
        apply(&mut ttl, &job(5, json!(3600)));
        assert_eq!(
            ttl.decide(&uid(), at(3600)).next,
            NextStep::Rest,
            "{answer:?}"
        );
        // A finalizer keeps it, so it is not deleted again.
        apply(&mut ttl, &deleting);
        assert_eq!(
            ttl.decide(&uid(), at(3600)).next,
            NextStep::Rest,
            "{answer:?}"
        );
        observe(&mut ttl, &ObservedChange::Deleted(deleting.clone()));
        assert_eq!(rule(&ttl.decide(&uid(), at(3600))), "Unknown");
    }
}

#[test]
fn a_failed_delete_is_sent_again() {
    let mut ttl = mk_waiting();
    let call = delete(&ttl);
    for kind in [
        FailureKind::Conflict,
        FailureKind::Forbidden,
        FailureKind::Unavailable,
    ] {
        let failure = CallFailure {
            kind,
            status: Some(500),
            message: "no".into(),
            retry_after: None,
        };
        answered(&mut ttl, &call, &ApiAnswer::Failed(failure));
        assert_eq!(delete(&ttl), call, "{kind:?}");
    }
}
