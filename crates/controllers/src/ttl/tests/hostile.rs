//! Invalid TTLs, times and statuses: the Job stays, with a warning Event.

use super::*;

/// JSON values that are not valid TTLs.
const ODD_TTLS: [&str; 12] = [
    "-1",
    "-2147483648",
    "2147483648",
    "9223372036854775807",
    "99999999999999999999999999",
    "1.5",
    "5.0",
    "1e3",
    "\"5\"",
    "true",
    "[]",
    "{\"secs\": 5}",
];

#[test]
fn a_job_with_an_invalid_ttl_stays() {
    for odd in ODD_TTLS {
        let odd: Value = serde_json::from_str(odd).unwrap();
        for (row, job) in [
            (
                &BATCH,
                batch("Complete", json!(at(-1_000_000)), odd.clone()),
            ),
            (
                &VOLCANO,
                volcano("Completed", json!(at(-1_000_000)), odd.clone()),
            ),
        ] {
            let verdict = judged(row, &job);
            assert_eq!(
                (rule(&verdict), &verdict.next),
                ("TTLOutOfRange", &NextStep::Rest),
                "{odd}"
            );
            let note = &verdict.notes[0];
            assert_eq!(
                (note.reason, &*note.about.api_version),
                ("TTLOutOfRange", row.api_version)
            );
            assert_eq!((&*note.about.name, &*note.about.uid), ("a", "a"));
        }
        let aborted = volcano("Aborted", json!(at(-1_000_000)), odd.clone());
        let after_aborted = Some(Duration::ZERO);
        let mut ttl = mk(
            &VOLCANO,
            TtlSettings {
                after_aborted,
                ..TtlSettings::default()
            },
        );
        apply(&mut ttl, &aborted);
        assert_eq!(rule(&ttl.decide(&uid(), NOW)), "TTLOutOfRange", "{odd}");
    }
}

#[test]
fn waits_for_the_longest_ttl_and_cuts_a_long_one_in_its_event() {
    let job = batch("Complete", json!(NOW), json!(i32::MAX));
    assert_eq!(judged(&BATCH, &job).next, NextStep::At(at(i32::MAX.into())));
    let long = "x".repeat(1 << 20);
    let verdict = judged(&BATCH, &batch("Complete", json!(NOW), json!(long)));
    assert!(
        verdict.notes[0].message.len() < 300,
        "a long TTL is cut in the message"
    );
}

#[test]
fn a_job_without_a_valid_finish_time_is_retried() {
    for odd in [
        json!(null),
        json!("0001-01-01T00:00:00Z"),
        json!("0001-01-01T00:00:00.000Z"),
        json!("0001-01-01T00:00:00+00:00"),
        json!("0001-01-01T01:00:00+01:00"),
        json!(""),
        json!("yesterday"),
        json!("2026-13-01T00:00:00Z"),
        json!("2026-01-01"),
        json!(1_767_225_600),
        json!({}),
    ] {
        for (row, job) in [
            (&BATCH, batch("Failed", odd.clone(), json!(0))),
            (&VOLCANO, volcano("Failed", odd.clone(), json!(0))),
        ] {
            let verdict = judged(row, &job);
            assert_eq!(
                (rule(&verdict), &verdict.next),
                ("FinishTimeUnknown", &NextStep::Retry),
                "{odd}"
            );
            assert_eq!(verdict.notes.len(), 1);
        }
    }
}

#[test]
fn accepts_far_times_and_keeps_a_job_that_expires_after_year_9999() {
    let last = "9999-12-30T22:00:00Z";
    let soon = judged(&BATCH, &batch("Complete", json!(last), json!(0)));
    assert_eq!(
        (rule(&soon), soon.next),
        ("FinishInFuture", NextStep::At(last.parse().unwrap()))
    );
    let never = judged(&BATCH, &batch("Complete", json!(last), json!(i32::MAX)));
    assert_eq!(
        (rule(&never), &never.next),
        ("TTLOutOfRange", &NextStep::Rest)
    );
    // A finish time before the creation still counts.
    let past = judged(
        &BATCH,
        &batch("Complete", json!("1066-10-14T12:00:00Z"), json!(60)),
    );
    assert_eq!(rule(&past), "Expired");
}

#[test]
fn a_status_of_a_wrong_shape_is_unfinished() {
    for status in [
        json!(null),
        json!("Complete"),
        json!(["Complete"]),
        json!({"conditions": "Complete"}),
        json!({"conditions": {"type": "Complete", "status": "True"}}),
        json!({"conditions": [null, 7, "Complete", [], {"type": null, "status": "True"}, {"type": 7}]}),
        json!({"conditions": [{"type": "Complete", "status": true}]}),
        json!({"state": "Completed"}),
        json!({"state": {"phase": 7}}),
        json!({"state": {"phase": ["Completed"]}}),
    ] {
        for row in [&BATCH, &VOLCANO] {
            let job = mk_job(
                row,
                json!({"spec": {"ttlSecondsAfterFinished": 0}, "status": status}),
            );
            assert_eq!(
                judged(row, &job).next,
                NextStep::Rest,
                "{} {status}",
                row.name
            );
        }
    }
    for spec in [json!(null), json!("x"), json!([1])] {
        let job = batch("Complete", json!(at(-10)), json!(0));
        let whole = mk_job(
            &BATCH,
            json!({"spec": spec, "status": {"conditions": [
            {"type": "Complete", "status": "True", "lastTransitionTime": at(-10)}]}}),
        );
        assert_eq!(judged(&BATCH, &whole).next, NextStep::Rest, "{spec}");
        assert_eq!(rule(&judged(&BATCH, &job)), "Expired");
    }
}

#[test]
fn an_invalid_condition_does_not_hide_the_next() {
    let conditions = json!([null, 7, {"type": 7}, {"type": "Complete", "status": "True", "lastTransitionTime": at(-10)}]);
    let job = mk_job(
        &BATCH,
        json!({"spec": {"ttlSecondsAfterFinished": 0}, "status": {"conditions": conditions}}),
    );
    assert_eq!(rule(&judged(&BATCH, &job)), "Expired");
}

#[test]
fn ignores_depth_and_size_of_other_fields() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let text = format!(
        r#"{{"metadata":{{"name":"a","uid":"a","resourceVersion":"1"}},"spec":{{"template":{deep},"ttlSecondsAfterFinished":0}},
        "status":{{"x":{deep},"conditions":[{{"y":{deep},"type":"Complete","status":"True","lastTransitionTime":"2020-01-01T00:00:00Z"}}]}}}}"#
    );
    let record = decode(BATCH_JOBS, text.as_bytes(), RecordView::Full).unwrap();
    assert_eq!(rule(&judged(&BATCH, &Arc::new(record))), "Expired");
}
