//! Rules of Jobs: how a Job finds its Pods, which fields keep their value, and which status is consistent.
//!
//! A Job's Pods have its uid as a label, and it selects them by that, unless `manualSelector` is set. A status must not
//! contradict itself, and the conditions of its end stay. Mirrors `registry/batch/job/strategy.go` and the update rules of
//! `batch/validation`, 1.36; `checks` has the rules of the spec.

use caretaker_machinery::status::StatusCause;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::validation::{immutable_faults, negative_faults};
use super::{KindStrategy, ObjectChange, WriteContext};
use crate::checks;
use crate::metadata::{self, ObjectTree, is_true, value_at};

/// The rules of Jobs.
#[derive(Debug)]
pub(super) struct JobStrategy;

/// Labels of a Job's Pods that hold its uid: the one it selects by, and its older name.
const UID_LABELS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];
/// Labels that hold its name.
const NAME_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];

/// JSON pointers to fields that keep their value.
const IMMUTABLE: [&str; 8] = [
    "/spec/completions",
    "/spec/selector",
    "/spec/template",
    "/spec/completionMode",
    "/spec/podFailurePolicy",
    "/spec/backoffLimitPerIndex",
    "/spec/managedBy",
    "/spec/successPolicy",
];
/// Counts of Pods in the status; none is below zero.
const STATUS_COUNTS: [&str; 5] = ["active", "failed", "ready", "succeeded", "terminating"];
/// Conditions of which a Job can have only one.
const EXCLUSIVE: [(&str, &str); 4] = [
    ("Complete", "Failed"),
    ("Complete", "FailureTarget"),
    ("SuccessCriteriaMet", "Failed"),
    ("SuccessCriteriaMet", "FailureTarget"),
];
/// A terminal condition, and the condition that has to precede it.
const ANNOUNCED: [(&str, &str); 2] = [
    ("Complete", "SuccessCriteriaMet"),
    ("Failed", "FailureTarget"),
];
/// Conditions that stay once they are true, and their names in messages.
const LASTING: [(&str, &str); 4] = [
    ("Complete", "terminal Complete"),
    ("Failed", "terminal Failed"),
    ("FailureTarget", "terminal FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
];

/// Pods that have ended and are not counted yet, in the form that messages show.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct UncountedPods<'a> {
    succeeded: &'a Value,
    failed: &'a Value,
}

// === impl JobStrategy ===

impl KindStrategy for JobStrategy {
    fn prepare_create(&self, object: &mut ObjectTree, _: WriteContext<'_>) {
        set_selector(object);
    }

    fn validate(&self, change: &ObjectChange<'_>) -> Vec<StatusCause> {
        let ObjectChange { new, old, .. } = *change;
        let mut causes = Vec::new();
        if let Some(old) = old {
            let fixed = IMMUTABLE.iter().filter(|path| !may_change(path, new, old));
            let fixed: Vec<&str> = fixed.copied().collect();
            let faults = immutable_faults(&fixed, new, old).into_iter();
            causes.extend(faults.map(|fault| shown_in_go(change, fault)));
        }
        causes.extend(old.into_iter().flat_map(|old| status_faults(new, old)));
        causes
    }
}

/// Shows the value of a struct as upstream does. DEVIATION(validation): a template is shown in JSON.
fn shown_in_go(change: &ObjectChange<'_>, mut fault: StatusCause) -> StatusCause {
    let path = format!("/{}", fault.field.replace('.', "/"));
    let value = value_at(change.new, &path);
    if value.is_object() && fault.field != "spec.template" {
        let shown = checks::shown(change.kind, &fault.field, value);
        fault.message = format!("Invalid value: {shown}: field is immutable");
    }
    fault
}

/// Makes a Job select the Pods that have its uid as a label.
fn set_selector(object: &mut ObjectTree) {
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
    add_labels(template, "labels", &UID_LABELS.map(|label| (label, &uid)));
    add_labels(template, "labels", &NAME_LABELS.map(|label| (label, &name)));
}

/// A suspended Job may get another template. An elastic Job, whose parallelism is its number of completions, may change
/// both together.
fn may_change(path: &str, new: &ObjectTree, old: &ObjectTree) -> bool {
    let spec = |job: &ObjectTree, field: &str| value_at(job, &format!("/spec/{field}")).clone();
    let elastic = |job: &ObjectTree| spec(job, "completions") == spec(job, "parallelism");
    match path {
        "/spec/template" => spec(old, "suspend") == json!(true),
        "/spec/completions" => {
            spec(new, "completionMode") == json!("Indexed") && elastic(old) && elastic(new)
        }
        _ => false,
    }
}

/// Returns why a changed status is refused: it contradicts itself or the old one.
fn status_faults(new: &ObjectTree, old: &ObjectTree) -> Vec<StatusCause> {
    let (was, now) = (value_at(old, "/status"), value_at(new, "/status"));
    if was == now {
        return Vec::new();
    }
    let mut causes = negative_faults(now, "status", &STATUS_COUNTS);
    let count = |status: &Value, field: &str| status[field].as_i64().unwrap_or(0);
    let (ready, active) = (count(now, "ready"), count(now, "active"));
    if ready > active.max(0) {
        let why = "cannot set more ready pods than active";
        causes.push(StatusCause::invalid("status.ready", ready, why));
    }
    for field in ["failed", "succeeded"] {
        let count_now = count(now, field);
        if count_now < count(was, field) {
            let why = format!("cannot decrease the {field} counter");
            causes.push(StatusCause::invalid(status_path(field), count_now, &why));
        }
    }
    let suspended = value_at(new, "/spec/suspend") == true;
    let start = &now["startTime"];
    if !suspended && !was["startTime"].is_null() && was["startTime"] != *start {
        let why = "field is immutable for unsuspended job once set";
        causes.push(StatusCause::invalid("status.startTime", start, why));
    }
    causes.extend(end_faults(now, was));
    causes.extend(condition_faults(now, was));
    causes.sort_by(|a, b| (&a.field, &a.message).cmp(&(&b.field, &b.message)));
    causes
}

/// Checks the counts and times of a Job that has ended.
fn end_faults(now: &Value, was: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let completed = &now["completionTime"];
    let is_complete = is_true(now, "Complete");
    if is_complete || is_true(now, "Failed") {
        for field in ["active", "terminating"] {
            if let Some(count) = now[field].as_i64().filter(|count| *count > 0) {
                let why = format!("{field}>0 is invalid for finished job");
                causes.push(StatusCause::invalid(status_path(field), count, &why));
            }
        }
        if now["startTime"].is_null() {
            let why = "startTime is required for finished job";
            causes.push(StatusCause::required(status_path("startTime"), why));
        }
        let uncounted = &now["uncountedTerminatedPods"];
        if uncounted.as_object().is_some_and(|pods| !pods.is_empty()) {
            let shown = UncountedPods {
                succeeded: &uncounted["succeeded"],
                failed: &uncounted["failed"],
            };
            let why = "must be empty for finished job";
            let path = status_path("uncountedTerminatedPods");
            causes.push(StatusCause::invalid(path, shown, why));
        }
    }
    let time = |value: &Value| value.as_str()?.parse::<Timestamp>().ok();
    let why = match (is_complete, completed.is_null()) {
        (true, true) => {
            let why = "completionTime is required for Complete jobs";
            causes.push(StatusCause::required(status_path("completionTime"), why));
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
    causes
        .extend(why.map(|why| StatusCause::invalid(status_path("completionTime"), completed, why)));
    causes
}

/// Checks for conditions that exclude each other, that lack another, or that were removed.
fn condition_faults(now: &Value, was: &Value) -> Vec<StatusCause> {
    let mut faults = Vec::new();
    for (one, other) in EXCLUSIVE {
        if is_true(now, one) && is_true(now, other) {
            faults.push(format!("cannot set {one}=True and {other}=true conditions"));
        }
    }
    for (end, announcement) in ANNOUNCED {
        if is_true(now, end) && !is_true(now, announcement) {
            faults.push(format!(
                "cannot set {end}=True condition without the {announcement}=true condition"
            ));
        }
    }
    for (condition, called) in LASTING {
        if is_true(was, condition) && !is_true(now, condition) {
            faults.push(format!("cannot disable the {called}=True condition"));
        }
    }
    let causes = faults
        .iter()
        .map(|why| StatusCause::contradictory(status_path("conditions"), why));
    causes.collect()
}

fn status_path(field: &str) -> String {
    format!("status.{field}")
}

/// Adds labels where `field` of `object` has none of that key.
fn add_labels(object: &mut Value, field: &str, labels: &[(&str, &String)]) {
    let slot = member(object, field);
    for (key, value) in labels {
        if slot.get(key).is_none() {
            slot[*key] = json!(value);
        }
    }
}

/// Returns a member as an object; makes it an empty one if it is none.
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
mod tests;
