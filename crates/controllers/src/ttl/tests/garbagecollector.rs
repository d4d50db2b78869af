//! The cases of Volcano's `garbagecollector_test.go` (1.13), and two more: all ten phases, and aborted Jobs.

use super::*;

/// All phases of a Volcano Job, and whether the Job has finished.
const PHASES: [(&str, bool); 11] = [
    ("", false),
    ("Pending", false),
    ("Running", false),
    ("Restarting", false),
    ("Aborting", false),
    ("Aborted", false),
    ("Completing", false),
    ("Terminating", false),
    ("Completed", true),
    ("Failed", true),
    ("Terminated", true),
];

#[test]
fn a_volcano_job_expires_in_three_of_ten_phases() {
    for (phase, is_over) in PHASES {
        for (ttl, left) in [(0, None), (3, Some(3))] {
            let verdict = judged(&VOLCANO, &volcano(phase, json!(NOW), json!(ttl)));
            let is_as_expected = match (is_over, left) {
                (false, _) => verdict.next == NextStep::Rest,
                (true, None) => rule(&verdict) == "Expired",
                (true, Some(left)) => verdict.next == NextStep::At(at(left)),
            };
            assert!(is_as_expected, "{phase} {ttl}: {verdict:?}");
        }
        let verdict = judged(&VOLCANO, &volcano(phase, json!(at(-100)), Value::Null));
        assert_eq!(verdict.next, NextStep::Rest, "{phase} without a TTL");
    }
}

#[test]
fn year_1_is_a_valid_finish_time_and_the_zero_time_is_not() {
    let old = |ttl| volcano("Completed", json!("0001-01-01T01:01:01Z"), json!(ttl));
    for (ttl, expire) in [(3, "0001-01-01T01:01:04Z"), (2, "0001-01-01T01:01:03Z")] {
        let verdict = judged(&VOLCANO, &old(ttl));
        let TtlReason::Expired(span) = verdict.because else {
            panic!("{verdict:?}")
        };
        assert_eq!(span.finish.to_string(), "0001-01-01T01:01:01Z");
        assert_eq!(span.expiry.to_string(), expire);
    }
    for none in [json!("0001-01-01T00:00:00Z"), Value::Null] {
        let verdict = judged(&VOLCANO, &volcano("Completed", none, json!(0)));
        assert_eq!(
            (rule(&verdict), &verdict.next),
            ("FinishTimeUnknown", &NextStep::Retry)
        );
        assert_eq!(verdict.notes[0].reason, "FinishTimeUnknown");
    }
}

#[test]
fn aborted_jobs_expire_after_the_longer_of_flag_and_ttl() {
    let hour = Duration::from_secs(3600);
    // The flag, the Job's own TTL, and the expiry in seconds.
    let table = [
        (None, None, None),
        (None, Some(0), None),
        (Some(hour), None, Some(3600)),
        (Some(hour), Some(0), Some(3600)),
        (Some(hour), Some(7200), Some(7200)),
        (Some(Duration::ZERO), Some(5), Some(5)),
    ];
    for (after_aborted, ttl, expected) in table {
        let mut controller = mk(
            &VOLCANO,
            TtlSettings {
                after_aborted,
                ..TtlSettings::default()
            },
        );
        apply(&mut controller, &volcano("Aborted", json!(NOW), json!(ttl)));
        let verdict = controller.decide(&uid(), NOW);
        let next = expected.map_or(NextStep::Rest, |secs| NextStep::At(at(secs)));
        assert_eq!(verdict.next, next, "{after_aborted:?} {ttl:?}");
        if let Some(secs) = expected {
            let verdict = controller.decide(&uid(), at(secs));
            assert_eq!(rule(&verdict), "AbortedLongAgo");
            assert!(
                verdict
                    .because
                    .to_string()
                    .starts_with("it was aborted at ")
            );
        }
        // The flag does not affect other Jobs.
        apply(
            &mut controller,
            &volcano("Completed", json!(NOW), json!(ttl)),
        );
        let next = ttl
            .filter(|secs| *secs > 0)
            .map(|secs| NextStep::At(at(secs)));
        if let Some(next) = next {
            assert_eq!(controller.decide(&uid(), NOW).next, next);
        }
    }
}

#[test]
fn each_controller_handles_only_its_own_kind() {
    let done = (
        batch("Complete", json!(at(-9)), json!(0)),
        volcano("Completed", json!(at(-9)), json!(0)),
    );
    for (row, own, other) in [(&BATCH, &done.0, &done.1), (&VOLCANO, &done.1, &done.0)] {
        let mut ttl = mk(row, TtlSettings::default());
        assert_eq!(apply(&mut ttl, other), []);
        assert_eq!(
            (ttl.keys(other), ttl.explain(other, NOW)),
            (Vec::new(), None)
        );
        assert_eq!(apply(&mut ttl, own), [uid()]);
        assert_eq!(ttl.keys(own), [uid()]);
    }
}
