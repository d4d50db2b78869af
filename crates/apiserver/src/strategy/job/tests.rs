//! Tests of the rules of Jobs.

use super::super::validation::tests::found;
use super::*;

fn prepared(spec: &Value) -> Value {
    let job = json!({"metadata": {"name": "a", "uid": "u"}, "spec": spec});
    let mut job = job.as_object().unwrap().clone();
    set_selector(&mut job);
    job["spec"].clone()
}

#[test]
fn selects_pods_by_the_uid_of_the_job() {
    let spec = prepared(&json!({"template": {"metadata": {"labels": {"own": "x"}}}}));
    assert_eq!(
        spec["selector"],
        json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}})
    );
    assert_eq!(
        spec["template"]["metadata"]["labels"],
        json!({"batch.kubernetes.io/controller-uid": "u", "controller-uid": "u",
            "batch.kubernetes.io/job-name": "a", "job-name": "a", "own": "x"})
    );
}

const TIME: &str = "2026-01-01T00:00:00Z";

fn condition(kind: &str) -> Value {
    json!({"type": kind, "status": "True"})
}

fn status_messages(now: &Value, was: &Value) -> Vec<String> {
    let job = |status: &Value| json!({"status": status}).as_object().unwrap().clone();
    let causes = status_faults(&job(now), &job(was));
    causes
        .iter()
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect()
}

#[test]
fn refuses_contradictory_status() {
    let complete = json!([condition("SuccessCriteriaMet"), condition("Complete")]);
    let failed = json!([condition("FailureTarget"), condition("Failed")]);
    let cases = [
        (json!({"active": 1, "ready": 1}), vec![]),
        (
            json!({"ready": 1}),
            vec!["status.ready: Invalid value: 1: cannot set more ready pods than active"],
        ),
        (
            json!({"conditions": complete, "startTime": TIME, "completionTime": TIME}),
            vec![],
        ),
        (json!({"conditions": failed, "startTime": TIME}), vec![]),
        (
            json!({"conditions": failed, "startTime": TIME, "active": 1}),
            vec!["status.active: Invalid value: 1: active>0 is invalid for finished job"],
        ),
        (
            json!({"conditions": [condition("Complete")]}),
            vec![
                "status.completionTime: Required value: completionTime is required for Complete jobs",
                "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
                "status.startTime: Required value: startTime is required for finished job",
            ],
        ),
        (
            json!({"conditions": complete, "startTime": TIME, "completionTime": "2025-12-31T23:59:59Z"}),
            vec![
                "status.completionTime: Invalid value: \"2025-12-31T23:59:59Z\": must be equal to or after `startTime`",
            ],
        ),
    ];
    for (now, expected) in cases {
        assert_eq!(status_messages(&now, &json!({})), expected, "{now}");
    }
}

#[test]
fn terminal_status_cannot_change() {
    let was =
        json!({"startTime": TIME, "succeeded": 1, "conditions": [condition("SuccessCriteriaMet")]});
    let expected = [
        "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
        "status.startTime: Invalid value: null: field is immutable for unsuspended job once set",
        "status.succeeded: Invalid value: 0: cannot decrease the succeeded counter",
    ];
    assert_eq!(status_messages(&json!({}), &was), expected);
    assert!(status_messages(&was, &was).is_empty());
}

#[test]
fn manual_selector_is_not_changed() {
    let spec = json!({"manualSelector": true, "selector": {"matchLabels": {"own": "x"}}});
    assert_eq!(prepared(&spec), spec);
}

fn mk_job(mut spec: Value) -> Value {
    if spec.get("template").is_none() {
        spec["template"] = json!({"spec": {"containers": [{"name": "c", "image": "x"}]}});
    }
    spec["selector"] = json!({"matchLabels": {"a": "b"}});
    spec["template"]["metadata"] = json!({"labels": {"a": "b"}});
    spec["template"]["spec"]["restartPolicy"] = "Never".into();
    json!({"spec": spec})
}

#[test]
fn elastic_jobs_may_change_completions_and_suspended_jobs_their_template() {
    let indexed = |count: i64| json!({"completionMode": "Indexed", "completions": count, "parallelism": count});
    let cases = [
        (
            json!({"completions": 5}),
            json!({"completions": 1}),
            vec!["spec.completions: Invalid value: 5: field is immutable"],
        ),
        (indexed(5), indexed(1), vec![]),
        (
            json!({"suspend": false, "template": {"spec": {"containers": [{"name": "d", "image": "x"}]}}}),
            json!({"suspend": true}),
            vec![],
        ),
    ];
    for (new, old, expected) in cases {
        let causes = found("batch/v1", "Job", mk_job(new.clone()), Some(mk_job(old)));
        assert_eq!(causes, expected, "{new}");
    }
}
