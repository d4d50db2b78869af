//! Jobs: how they find their Pods.
//!
//! A Job's Pods bear its uid, and it selects them by that, unless it says itself how to. Mirrors
//! `registry/batch/job/strategy.go`, 1.36.

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

    #[test]
    fn a_job_that_selects_by_hand_is_left_alone() {
        let spec = json!({"manualSelector": true, "selector": {"matchLabels": {"own": "x"}}});
        assert_eq!(prepared(&spec), spec);
    }
}
