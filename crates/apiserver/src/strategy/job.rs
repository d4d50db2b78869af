//! Jobs: how they find their Pods, and what their status may say.
//!
//! A Job's Pods bear its uid, and it selects them by that, unless it says itself how to. Its status may not contradict
//! itself, and what it has said about its end holds. Mirrors `registry/batch/job/strategy.go` and the validation of a
//! Job's status, 1.36, without its rules about indexes.

use caretaker_machinery::status::Cause;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::metadata::{self, Tree};

/// Labels of a Job's Pods that hold its uid: the one it selects by, and its older name.
const UID_LABELS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];
/// Labels that hold its name.
const NAME_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];

pub(super) fn prepare_create(object: &mut Tree) {
    let uid = metadata::text(object, "uid").to_owned();
    let name = metadata::text(object, "name").to_owned();
    let Some(Value::Object(spec)) = object.get_mut("spec") else {
        return;
    };
    if spec.get("manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    let selector = spec.entry("selector").or_insert(Value::Null);
    add_labels(selector, "matchLabels", &[(UID_LABELS[0], &uid)]);
    let template = spec.entry("template").or_insert(Value::Null);
    let template = member(template, "metadata");
    let labels = [
        (UID_LABELS[0], &uid),
        (UID_LABELS[1], &uid),
        (NAME_LABELS[0], &name),
        (NAME_LABELS[1], &name),
    ];
    add_labels(template, "labels", &labels);
}

/// Counts of Pods; none is below zero.
const COUNTS: [&str; 5] = ["active", "failed", "ready", "succeeded", "terminating"];
/// Conditions of which a Job can have only one at a time.
const EXCLUSIVE: [(&str, &str); 4] = [
    ("Complete", "Failed"),
    ("Complete", "FailureTarget"),
    ("SuccessCriteriaMet", "Failed"),
    ("SuccessCriteriaMet", "FailureTarget"),
];
/// An end, and the condition that has to announce it.
const ANNOUNCED: [(&str, &str); 2] = [
    ("Complete", "SuccessCriteriaMet"),
    ("Failed", "FailureTarget"),
];
/// Conditions that stay once they are true, as messages call them.
const LASTING: [(&str, &str); 4] = [
    ("Complete", "terminal Complete"),
    ("Failed", "terminal Failed"),
    ("FailureTarget", "terminal FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
];

/// Pods that have ended and are not counted yet, as messages show them.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Uncounted<'a> {
    succeeded: &'a Value,
    failed: &'a Value,
}

/// What a status says that contradicts itself or what was there before.
pub(super) fn status_faults(new: &Tree, old: &Tree) -> Vec<Cause> {
    let none = Value::Null;
    let status = |job: &'_ Tree| job.get("status").cloned().unwrap_or_default();
    let (was, now) = (status(old), status(new));
    if was == now {
        return Vec::new();
    }
    let mut causes = Vec::new();
    let count = |status: &Value, field: &str| status[field].as_i64().unwrap_or(0);
    for field in COUNTS.iter().filter(|field| count(&now, field) < 0) {
        let why = "must be greater than or equal to 0";
        causes.push(Cause::invalid(place(field), count(&now, field), why));
    }
    let (ready, active) = (count(&now, "ready"), count(&now, "active"));
    if ready > active.max(0) {
        let why = "cannot set more ready pods than active";
        causes.push(Cause::invalid(place("ready"), ready, why));
    }
    for field in ["failed", "succeeded"] {
        if count(&now, field) < count(&was, field) {
            let why = format!("cannot decrease the {field} counter");
            causes.push(Cause::invalid(place(field), count(&now, field), &why));
        }
    }
    let suspended = new.get("spec").unwrap_or(&none)["suspend"] == true;
    if !suspended && !was["startTime"].is_null() && was["startTime"] != now["startTime"] {
        let why = "field is immutable for unsuspended job once set";
        causes.push(Cause::invalid(place("startTime"), &now["startTime"], why));
    }
    causes.extend(end_faults(&now, &was));
    causes.extend(condition_faults(&now, &was));
    causes.sort_by(|a, b| (&a.field, &a.message).cmp(&(&b.field, &b.message)));
    causes
}

/// What is wrong about how, and when, a Job has ended.
fn end_faults(now: &Value, was: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let completed = &now["completionTime"];
    let is_complete = is_true(now, "Complete");
    if is_complete || is_true(now, "Failed") {
        for field in ["active", "terminating"] {
            if let Some(count) = now[field].as_i64().filter(|count| *count > 0) {
                let why = format!("{field}>0 is invalid for finished job");
                causes.push(Cause::invalid(place(field), count, &why));
            }
        }
        if now["startTime"].is_null() {
            let why = "startTime is required for finished job";
            causes.push(Cause::required(place("startTime"), why));
        }
        let uncounted = &now["uncountedTerminatedPods"];
        if uncounted.as_object().is_some_and(|pods| !pods.is_empty()) {
            let shown = Uncounted {
                succeeded: &uncounted["succeeded"],
                failed: &uncounted["failed"],
            };
            let why = "must be empty for finished job";
            causes.push(Cause::invalid(place("uncountedTerminatedPods"), shown, why));
        }
    }
    let time = |value: &Value| {
        value
            .as_str()
            .and_then(|text| text.parse::<Timestamp>().ok())
    };
    let why = match (is_complete, completed.is_null()) {
        (true, true) => {
            let why = "completionTime is required for Complete jobs";
            causes.push(Cause::required(place("completionTime"), why));
            None
        }
        (false, false) => {
            Some("cannot set completionTime when there is no Complete=True condition")
        }
        (true, false) if time(completed) < time(&now["startTime"]) => {
            Some("must be equal to or after `startTime`")
        }
        (true, false)
            if !was["completionTime"].is_null() && was["completionTime"] != *completed =>
        {
            Some("field is immutable")
        }
        _ => None,
    };
    causes.extend(why.map(|why| Cause::invalid(place("completionTime"), completed, why)));
    causes
}

/// Conditions that cannot be together, that lack another, or that were taken back.
fn condition_faults(now: &Value, was: &Value) -> Vec<Cause> {
    let mut said = Vec::new();
    for (one, other) in EXCLUSIVE {
        if is_true(now, one) && is_true(now, other) {
            said.push(format!("cannot set {one}=True and {other}=true conditions"));
        }
    }
    for (end, announcement) in ANNOUNCED {
        if is_true(now, end) && !is_true(now, announcement) {
            said.push(format!(
                "cannot set {end}=True condition without the {announcement}=true condition"
            ));
        }
    }
    for (condition, called) in LASTING {
        if is_true(was, condition) && !is_true(now, condition) {
            said.push(format!("cannot disable the {called}=True condition"));
        }
    }
    let causes = said
        .iter()
        .map(|why| Cause::contradictory(place("conditions"), why));
    causes.collect()
}

fn place(field: &str) -> String {
    format!("status.{field}")
}

fn is_true(status: &Value, condition: &str) -> bool {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.any(|known| known["type"] == condition && known["status"] == "True")
}

/// Adds labels where `field` of `object` has none of that key.
fn add_labels(object: &mut Value, field: &str, labels: &[(&str, &String)]) {
    let slot = member(object, field);
    for (key, value) in labels {
        let known = slot.get(key).is_some();
        if !known {
            slot[*key] = json!(value);
        }
    }
}

/// A member that is an object; it becomes one if it was not there.
fn member<'a>(object: &'a mut Value, field: &str) -> &'a mut Value {
    if !object.is_object() {
        *object = json!({});
    }
    let slot = &mut object[field];
    if !slot.is_object() {
        *slot = json!({});
    }
    slot
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(spec: &Value) -> Value {
        let job = json!({"metadata": {"name": "a", "uid": "u"}, "spec": spec});
        let mut job = job.as_object().unwrap().clone();
        prepare_create(&mut job);
        job["spec"].clone()
    }

    #[test]
    fn a_job_selects_the_pods_that_bear_its_uid() {
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

    fn said(now: &Value, was: &Value) -> Vec<String> {
        let job = |status: &Value| json!({"status": status}).as_object().unwrap().clone();
        let causes = status_faults(&job(now), &job(was));
        causes
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect()
    }

    #[test]
    fn a_status_agrees_with_itself() {
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
            assert_eq!(said(&now, &json!({})), expected, "{now}");
        }
    }

    #[test]
    fn what_a_status_said_about_the_end_holds() {
        let was = json!({"startTime": TIME, "succeeded": 1, "conditions": [condition("SuccessCriteriaMet")]});
        let expected = [
            "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
            "status.startTime: Invalid value: null: field is immutable for unsuspended job once set",
            "status.succeeded: Invalid value: 0: cannot decrease the succeeded counter",
        ];
        assert_eq!(said(&json!({}), &was), expected);
        assert!(said(&was, &was).is_empty());
    }

    #[test]
    fn a_job_that_selects_by_hand_is_left_alone() {
        let spec = json!({"manualSelector": true, "selector": {"matchLabels": {"own": "x"}}});
        assert_eq!(prepared(&spec), spec);
    }
}
