//! PriorityClasses, and the priority that Pods get from them.

use serde_json::{Value, json};

use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::{Answer, Ask, Session};

pub(super) const CASES: &[TestCase] = &[
    api_case!(pods_get_the_priority_of_their_class),
    api_case!(priorities_that_a_class_does_not_give_are_403),
    api_case!(priority_classes_are_checked),
    api_case!(classes_of_the_system_stay),
    api_case!(one_class_is_the_default, Alone),
];

fn mk_class(name: &str, value: i64, more: Value) -> Value {
    let mut class = mk_object("scheduling.k8s.io/v1", "PriorityClass", name);
    class["value"] = value.into();
    with(class, more)
}

/// Creates a class with a name of this case, and returns the name.
async fn class(s: &mut Session, name: &str, value: i64, more: Value) -> String {
    let name = format!("{}-{name}", s.ns());
    s.post(&PRIORITY_CLASSES, mk_class(&name, value, more))
        .await;
    name
}

/// Creates a Pod and shows its priority.
async fn pod(s: &mut Session, name: &str, spec: Value) {
    let pod = with(mk_pod(name), json!({ "spec": spec }));
    let path = s.path(&PODS);
    s.ask(Ask::post(path, &pod).viewed(priority)).await;
}

fn priority(pod: &Value) -> Value {
    let spec = &pod["spec"];
    match spec.is_null() {
        true => pod["message"].clone(),
        false => json!([
            spec["priority"],
            spec["priorityClassName"],
            spec["preemptionPolicy"]
        ]),
    }
}

async fn pods_get_the_priority_of_their_class(s: &mut Session) {
    let high = class(s, "high", 100, json!({})).await;
    let never = class(s, "never", -7, json!({"preemptionPolicy": "Never"})).await;
    pod(s, "a", json!({})).await;
    pod(s, "b", json!({"priorityClassName": high})).await;
    pod(s, "c", json!({"priorityClassName": high, "priority": 100})).await;
    pod(s, "d", json!({"priorityClassName": never})).await;
    pod(s, "e", json!({"priorityClassName": "system-node-critical"})).await;
    pod(
        s,
        "f",
        json!({"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}),
    )
    .await;
    let left_out = json!({"spec": {"priority": null, "preemptionPolicy": null}});
    let path = s.item(&PODS, "b");
    s.ask(Ask::merge_patch(path, &left_out).viewed(priority))
        .await;
}

async fn priorities_that_a_class_does_not_give_are_403(s: &mut Session) {
    let never = class(s, "never", 5, json!({"preemptionPolicy": "Never"})).await;
    for spec in [
        json!({"priorityClassName": "nope"}),
        json!({"priorityClassName": "Bad Name"}),
        json!({"priority": 5}),
        json!({"priorityClassName": never, "priority": 6}),
        json!({"priorityClassName": never, "preemptionPolicy": "PreemptLowerPriority"}),
        json!({"preemptionPolicy": "Never"}),
    ] {
        let pod = with(mk_pod("a"), json!({ "spec": spec }));
        s.post(&PODS, pod).await;
    }
}

async fn priority_classes_are_checked(s: &mut Session) {
    let name = class(s, "a", 1_000_000_000, json!({"description": "x"})).await;
    class(s, "b", 1_000_000_001, json!({})).await;
    class(s, "b", 7, json!({"preemptionPolicy": "X"})).await;
    for change in [
        json!({"value": 3}),
        json!({"preemptionPolicy": "Never"}),
        json!({"description": "y"}),
    ] {
        s.merge_patch(&PRIORITY_CLASSES, &name, change).await;
    }
}

async fn classes_of_the_system_stay(s: &mut Session) {
    s.post(&PRIORITY_CLASSES, mk_class("system-x", 5, json!({})))
        .await;
    let critical = mk_class("system-node-critical", 2_000_001_000, json!({}));
    s.post(&PRIORITY_CLASSES, critical).await;
    s.delete(&PRIORITY_CLASSES, "system-node-critical").await;
}

async fn one_class_is_the_default(s: &mut Session) {
    let is_default = json!({"globalDefault": true});
    let name = class(s, "a", 55, is_default.clone()).await;
    wait_for_default_priority(s, 55).await;
    class(s, "b", 56, is_default.clone()).await;
    let other = class(s, "c", 57, json!({})).await;
    s.merge_patch(&PRIORITY_CLASSES, &other, is_default).await;
    let same = json!({"description": "x"});
    s.merge_patch(&PRIORITY_CLASSES, &name, same).await;
    pod(s, "a", json!({})).await;
    pod(s, "b", json!({"priority": 55})).await;
    s.delete(&PRIORITY_CLASSES, &name).await;
    wait_for_default_priority(s, 0).await;
    pod(s, "c", json!({})).await;
}

/// Waits until a Pod without a class would get this priority: the real server reads classes from an informer, which
/// learns of a change a moment later.
async fn wait_for_default_priority(s: &mut Session, priority: i64) {
    let path = format!("{}?dryRun=All", s.path(&PODS));
    let ask = || Ask::post(path.clone(), &mk_pod("probe"));
    let ready = |tried: &Answer| tried.body["spec"]["priority"] == priority;
    s.until_answer("the default priority", ask, ready).await;
}
