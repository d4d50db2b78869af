//! The cases of upstream's `ttlafterfinished_controller_test.go` (1.36), and two more: conditions in any order and
//! number, and the options of the delete.

use super::*;

#[test]
fn a_job_expires_at_its_finish_plus_its_ttl() {
    // The finish time, the TTL, and the seconds that are left.
    let table = [(0, 0, 0), (0, 10, 10), (-10, 15, 5), (-10, 5, -5)];
    for condition in ["Complete", "Failed"] {
        for (finish, ttl, left) in table {
            let job = batch(condition, json!(at(finish)), json!(ttl));
            let verdict = judged(&BATCH, &job);
            match left {
                1.. => assert_eq!(
                    verdict.next,
                    NextStep::At(at(left)),
                    "{condition} {finish} {ttl}"
                ),
                _ => assert_eq!(rule(&verdict), "Expired", "{condition} {finish} {ttl}"),
            }
        }
    }
}

#[test]
fn a_job_without_an_expiry_is_not_tracked() {
    let finished = |ttl| batch("Complete", json!(at(-100)), ttl);
    let table = [
        (
            "not finished",
            mk_job(&BATCH, json!({"spec": {"ttlSecondsAfterFinished": 0}})),
            "Unfinished",
        ),
        ("no TTL", finished(Value::Null), "NoTTL"),
        (
            "almost complete",
            batch("SuccessCriteriaMet", json!(at(-100)), json!(0)),
            "Unfinished",
        ),
        (
            "almost failed",
            batch("FailureTarget", json!(at(-100)), json!(0)),
            "Unfinished",
        ),
        (
            "suspended",
            batch("Suspended", json!(at(-100)), json!(0)),
            "Unfinished",
        ),
        (
            "deleting",
            mk_job(
                &BATCH,
                json!({"metadata": {"deletionTimestamp": NOW}, "spec": {"ttlSecondsAfterFinished": 0}}),
            ),
            "Deleting",
        ),
    ];
    for (name, job, expected) in table {
        let mut ttl = mk(&BATCH, TtlSettings::default());
        assert_eq!(apply(&mut ttl, &job), [], "{name}");
        assert_eq!(ttl.decide(&uid(), NOW).next, NextStep::Rest, "{name}");
        let explained = ttl.explain(&job, NOW).unwrap();
        assert_eq!(
            (rule(&explained), explained.next),
            (expected, NextStep::Rest),
            "{name}"
        );
    }
}

#[test]
fn the_first_true_condition_counts() {
    let condition = |kind: &str, status: &str, secs: i64| json!({"type": kind, "status": status, "lastTransitionTime": at(secs)});
    let table = [
        (
            vec![
                condition("Complete", "True", -60),
                condition("Failed", "True", -10),
            ],
            Some(-60),
        ),
        (
            vec![
                condition("Failed", "True", -10),
                condition("Complete", "True", -60),
            ],
            Some(-10),
        ),
        (
            vec![
                condition("Complete", "False", -60),
                condition("Failed", "True", -10),
            ],
            Some(-10),
        ),
        (
            vec![
                condition("SuccessCriteriaMet", "True", -60),
                condition("Complete", "True", -50),
            ],
            Some(-50),
        ),
        (vec![condition("Complete", "Unknown", -60)], None),
        (vec![condition("complete", "True", -60)], None),
        (Vec::new(), None),
    ];
    for (conditions, finish) in table {
        let job = mk_job(
            &BATCH,
            json!({"spec": {"ttlSecondsAfterFinished": 1000}, "status": {"conditions": conditions}}),
        );
        let expected = finish.map_or(NextStep::Rest, |finish| NextStep::At(at(finish + 1000)));
        assert_eq!(judged(&BATCH, &job).next, expected, "{conditions:?}");
    }
}

#[test]
fn deletes_in_the_foreground_with_preconditions() {
    for (row, job) in [
        (&BATCH, batch("Failed", json!(at(-10)), json!(0))),
        (&VOLCANO, volcano("Failed", json!(at(-10)), json!(0))),
    ] {
        let NextStep::Call(ApiCall::Delete {
            target,
            judged,
            propagation,
            grace_secs,
        }) = judged(row, &job).next
        else {
            panic!("{} deletes nothing", row.name)
        };
        assert_eq!(
            (target.kind, &*target.namespace, &*target.name),
            (job.kind, "shop", "a")
        );
        assert_eq!(
            (judged.uid, judged.revision),
            (uid(), job.meta.revision.clone())
        );
        assert_eq!(
            (propagation, grace_secs),
            (Some(DeletePropagation::Foreground), None)
        );
    }
}

#[test]
fn sentences_give_finish_ttl_and_expiry() {
    let waits = judged(&BATCH, &batch("Complete", json!(at(-10)), json!(100)));
    assert_eq!(
        waits.because.to_string(),
        "it finished at 2025-12-31T23:59:50Z, and its TTL of 100 s expires at 2026-01-01T00:01:30Z"
    );
    let over = judged(&BATCH, &batch("Complete", json!(at(-10)), json!(5)));
    assert_eq!(
        over.because.to_string(),
        "it finished at 2025-12-31T23:59:50Z, and its TTL of 5 s expired at 2025-12-31T23:59:55Z"
    );
    let ahead = judged(&BATCH, &batch("Complete", json!(at(60)), json!(5)));
    assert_eq!(
        (rule(&ahead), ahead.next),
        ("FinishInFuture", NextStep::At(at(65)))
    );
}
