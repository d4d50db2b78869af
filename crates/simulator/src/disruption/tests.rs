//! Tables of the budget actor: expected and healthy Pods, evictions, and controllers of all kinds.

use caretaker_controllers::runtime::controller::NextStep;

use super::*;
use crate::objects::time;
use crate::tests::{ActorHarness, START, decided, events};

const REPLICA_SETS: GroupResource = ("apps", "replicasets");
const CUSTOM: GroupResource = ("example.com", "widgets");

fn mk_budget(spec: &Value, status: &Value) -> Value {
    let mut budget = json!({"metadata": {"name": "b", "namespace": "n", "generation": 3},
        "spec": {"selector": {"matchLabels": {"app": "a"}}}, "status": status});
    for (name, value) in spec.as_object().unwrap() {
        budget["spec"][name] = value.clone();
    }
    budget
}

fn mk_pod(name: &str, owner: Option<(&str, &str, &str)>, is_ready: bool) -> Value {
    let status = if is_ready { "True" } else { "False" };
    let mut pod = json!({"metadata": {"name": name, "namespace": "n", "labels": {"app": "a"}},
        "status": {"conditions": [{"type": "Ready", "status": status}]}});
    if let Some((api_version, kind, name)) = owner {
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": api_version, "kind": kind, "name": name,
            "uid": format!("uid-of-{name}"), "controller": true}]);
    }
    pod
}

fn mk_set(name: &str, replicas: u32, owner: Option<&str>) -> Value {
    let mut set =
        json!({"metadata": {"name": name, "namespace": "n"}, "spec": {"replicas": replicas}});
    if let Some(owner) = owner {
        set["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": owner,
            "uid": format!("uid-of-{owner}"), "controller": true}]);
    }
    set
}

fn key() -> NamespacedName {
    NamespacedName::new("n", "b")
}

/// A budget and a ReplicaSet `s` that wants `replicas` Pods and has `ready` ones.
fn harness(spec: &Value, replicas: u32, ready: usize) -> ActorHarness<DisruptionActor> {
    let mut harness = ActorHarness::of(DisruptionActor);
    harness.applied(BUDGETS, mk_budget(spec, &json!({})));
    harness.applied(REPLICA_SETS, mk_set("s", replicas, None));
    for number in 0..replicas as usize {
        let owner = Some(("apps/v1", "ReplicaSet", "s"));
        harness.applied(PODS, mk_pod(&format!("p{number}"), owner, number < ready));
    }
    harness
}

/// Expected, desired, healthy Pods and allowed disruptions in a written status.
fn numbers(status: &Value) -> [i64; 4] {
    [
        "expectedPods",
        "desiredHealthy",
        "currentHealthy",
        "disruptionsAllowed",
    ]
    .map(|field| status[field].as_i64().unwrap())
}

#[test]
fn counts_expected_and_healthy_pods() {
    // The budget, wanted and ready Pods, and the expected numbers.
    let cases = [
        (json!({"minAvailable": 2}), 3, 3, [3, 2, 3, 1]),
        (json!({"minAvailable": 2}), 3, 1, [3, 2, 1, 0]),
        (json!({"minAvailable": "50%"}), 5, 5, [5, 3, 5, 2]),
        (json!({"minAvailable": "100%"}), 5, 5, [5, 5, 5, 0]),
        (json!({"maxUnavailable": 1}), 5, 5, [5, 4, 5, 1]),
        (json!({"maxUnavailable": "30%"}), 5, 4, [5, 3, 4, 1]),
        (json!({"maxUnavailable": 9}), 5, 4, [5, 0, 4, 4]),
        (json!({"minAvailable": 0}), 0, 0, [0, 0, 0, 0]),
        (json!({}), 2, 2, [0, 0, 2, 0]),
    ];
    for (spec, replicas, ready, expected) in cases {
        let mut harness = harness(&spec, replicas, ready);
        let decision = harness.decide(&key(), START);
        let written = decided(&decision);
        assert_eq!(
            (written.verb, written.subresource),
            ("patch", Some("status"))
        );
        let status = &written.body["status"];
        assert_eq!(numbers(status), expected, "{spec} {ready}/{replicas}");
        assert_eq!(status["observedGeneration"], 3);
        let condition = &status["conditions"][0];
        let (is, reason) = match expected[3] {
            0 => ("False", "InsufficientPods"),
            _ => ("True", "SufficientPods"),
        };
        assert_eq!(
            (&condition["status"], &condition["reason"]),
            (&is.into(), &reason.into())
        );
        assert_eq!(condition["observedGeneration"], 3);
        let none = ["Normal NoPods: No matching pods found"];
        let noted: &[&str] = if replicas == 0 { &none } else { &[] };
        assert_eq!(events(&decision), noted);
        harness.applied(BUDGETS, mk_budget(&spec, status));
        assert!(
            harness.is_resting(&key(), later(START, 60)),
            "the status is written once"
        );
    }
}

#[test]
fn finds_the_scale_of_controllers() {
    let pod = |name: &str, owner: (&str, &str, &str)| mk_pod(name, Some(owner), true);
    let spec = json!({"maxUnavailable": "50%"});
    let mut harness = ActorHarness::of(DisruptionActor);
    harness.applied(BUDGETS, mk_budget(&spec, &json!({})));
    harness.applied(("apps", "deployments"), mk_set("d", 4, None));
    for set in ["s1", "s2"] {
        harness.applied(REPLICA_SETS, mk_set(set, 3, Some("d")));
        harness.applied(
            PODS,
            pod(&format!("of-{set}"), ("apps/v1", "ReplicaSet", set)),
        );
    }
    harness.applied(("apps", "statefulsets"), mk_set("t", 2, None));
    harness.applied(PODS, pod("t-0", ("apps/v1", "StatefulSet", "t")));
    harness.applied(("", "replicationcontrollers"), mk_set("r", 1, None));
    harness.applied(PODS, pod("r-0", ("v1", "ReplicationController", "r")));
    let written = decided(&harness.decide(&key(), START));
    assert_eq!(
        numbers(&written.body["status"])[..2],
        [7, 3],
        "the Deployment counts once"
    );
    harness.applied(PODS, mk_pod("alone", None, true));
    let decision = harness.decide(&key(), START);
    assert_eq!(numbers(&decided(&decision).body["status"])[0], 7);
    assert!(events(&decision)[0].starts_with(
        "Warning UnmanagedPods: Pods selected by this PodDisruptionBudget (selector: \
         &LabelSelector{MatchLabels:map[string]string{app: a,},MatchExpressions:[]LabelSelectorRequirement{},}) were"
    ));
}

#[test]
fn custom_controllers_are_read_and_scaled_by_their_definition() {
    let spec = json!({"minAvailable": "100%"});
    let mut harness = ActorHarness::of(DisruptionActor);
    harness.applied(BUDGETS, mk_budget(&spec, &json!({})));
    let definition = |subresources: &Value| {
        json!({"metadata": {"name": "widgets.example.com"}, "spec":
        {"versions": [{"name": "v1", "subresources": subresources}]}})
    };
    let crds = ("apiextensions.k8s.io", "customresourcedefinitions");
    let scale = json!({"scale": {"specReplicasPath": ".spec.size"}});
    harness.applied(crds, definition(&scale));
    harness.applied(
        PODS,
        mk_pod("p", Some(("example.com/v1", "Widget", "w")), true),
    );
    let decision = harness.decide(&key(), START);
    let NextStep::Call(call) = &decision.next else {
        panic!("{decision:?}");
    };
    assert_eq!((call.verb(), &*call.target().name), ("get", "w"));
    let widget = json!({"metadata": {"name": "w", "namespace": "n"}, "spec": {"size": 3}});
    harness.answer_in(&key(), CUSTOM, widget, START);
    let written = decided(&harness.decide(&key(), START));
    assert_eq!(numbers(&written.body["status"]), [3, 3, 1, 0]);
    harness.applied(crds, definition(&json!({})));
    let decision = harness.decide(&key(), START);
    let why = "widgets.example.com does not implement the scale subresource";
    let condition = &decided(&decision).body["status"]["conditions"][0];
    assert_eq!(
        (&condition["reason"], &condition["message"]),
        (&"SyncFailed".into(), &why.into())
    );
    let text =
        "Warning CalculateExpectedPodCountFailed: Failed to calculate the number of expected pods";
    assert_eq!(events(&decision), [format!("{text}: {why}")]);
}

#[test]
fn pods_without_a_known_controller_fail_the_budget() {
    let cases = [
        (
            ("apps/v1", "ReplicaSet", "gone"),
            "found no controllers for pod \"p\"",
        ),
        (
            ("batch/v1", "Job", "j"),
            "jobs.batch does not implement the scale subresource",
        ),
        (
            ("example.org/v1", "Thing", "t"),
            "no matches for kind \"Thing\" in version \"example.org/v1\"",
        ),
    ];
    for (owner, why) in cases {
        let mut harness = harness(&json!({"minAvailable": "50%"}), 0, 0);
        harness.applied(PODS, mk_pod("p", Some(owner), true));
        let written = decided(&harness.decide(&key(), START));
        let status = &written.body["status"];
        assert_eq!(status["disruptionsAllowed"], 0);
        assert_eq!(status["conditions"][0]["message"], why);
    }
}

#[test]
fn evicted_pods_count_until_they_are_deleted_or_late() {
    let spec = json!({"minAvailable": 1});
    let noted = json!({"disruptedPods": {"p0": time(START), "p9": time(START)}});
    let mut harness = harness(&spec, 3, 3);
    harness.applied(BUDGETS, mk_budget(&spec, &noted));
    let written = decided(&harness.decide(&key(), later(START, 120)));
    let mut status = written.body["status"].clone();
    assert_eq!(numbers(&status), [3, 1, 2, 1]);
    assert_eq!(
        status["disruptedPods"],
        json!({"p9": null}),
        "it does not exist"
    );
    status["disruptedPods"] = json!({"p0": time(START)});
    harness.applied(BUDGETS, mk_budget(&spec, &status));
    let late = later(START, 121);
    assert_eq!(harness.at(&key(), later(START, 5)), Some(late));
    let decision = harness.decide(&key(), late);
    let written = decided(&decision);
    assert_eq!(written.body["status"]["currentHealthy"], 3);
    assert_eq!(written.body["status"]["disruptedPods"], Value::Null);
    let event = "Warning NotDeleted: Pod was expected by PDB n/n to be deleted but it wasn't";
    assert_eq!(events(&decision), [event]);
    let mut deleted = mk_pod("p0", Some(("apps/v1", "ReplicaSet", "s")), true);
    deleted["metadata"]["deletionTimestamp"] = time(START).into();
    harness.applied(PODS, deleted);
    let decision = harness.decide(&key(), later(START, 5));
    assert_eq!(
        decided(&decision).body["status"]["disruptedPods"],
        Value::Null
    );
    assert_eq!(events(&decision), Vec::<String>::new());
}
