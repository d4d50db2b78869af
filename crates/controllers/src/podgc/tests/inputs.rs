//! Invalid inputs (`docs/inputs.md`, Pod GC): no wrong delete, and no effect on other Pods.

use serde_json::{Value, json};

use super::world::{MkPod, PODS, World, mk_record};
use crate::runtime::call::FailureKind;
use crate::runtime::controller::ObservedChange;

const NONE: [&str; 0] = [];

#[test]
fn node_lookups_that_fail_mean_that_the_node_exists() {
    for kind in [
        FailureKind::Forbidden,
        FailureKind::NotServed,
        FailureKind::TooManyRequests,
        FailureKind::Refused,
        FailureKind::Unavailable,
    ] {
        let mut world = World::with_threshold(None);
        world.create_pod(&MkPod::new("a", "gone", "Running"));
        world.create_pod(&MkPod::new("b", "", "Failed").terminating());
        world.failing = Some(("get", kind));
        world.sync();
        assert_eq!(world.requests(), ["delete b"], "{kind:?}");
        world.advance(200);
        assert!(world.requests().iter().all(|line| line == "get gone"));
        world.failing = None;
        // The longest backoff.
        world.advance(60);
        assert_eq!(world.requests(), ["get gone", "patch a", "delete a"]);
    }
}

#[test]
fn thresholds_from_off_to_huge() {
    for (threshold, expected) in [
        (None, 0),
        (Some(1), 2),
        (Some(3), 0),
        (Some(i32::MAX as usize), 0),
        (Some(usize::MAX), 0),
    ] {
        let mut world = World::with_threshold(threshold);
        world.put_node("n", "True", &json!([]));
        for name in ["a", "b", "c"] {
            world.create_pod(&MkPod::new(name, "n", "Succeeded"));
        }
        world.sync();
        assert_eq!(world.requests().len(), expected, "{threshold:?}");
    }
}

#[test]
fn unknown_phases_count_as_terminated_and_are_marked() {
    for phase in ["", "Evaporated", "running"] {
        let mut world = World::with_threshold(Some(1));
        world.put_node("n", "True", &json!([]));
        world.create_pod(&MkPod::new("a", "n", phase));
        let time = "2026-03-01T11:00:00Z";
        world.create_pod(&MkPod::new("b", "n", "Succeeded").created(time));
        world.sync();
        assert_eq!(world.requests(), ["patch a", "delete a"], "{phase:?}");
    }
}

#[test]
fn ignores_pods_that_cannot_be_decoded() {
    let broken: [(&str, Value); 6] = [
        ("/spec/nodeName", json!(7)),
        ("/status/phase", json!(["Failed"])),
        ("/status/conditions", json!("all")),
        ("/metadata/creationTimestamp", json!("yesterday")),
        ("/metadata/generation", json!("one")),
        ("/metadata/deletionGracePeriodSeconds", json!(0.5)),
    ];
    for (pointer, value) in broken {
        let mut world = World::with_threshold(Some(1));
        let ending = |name| MkPod::new(name, "", "Failed").terminating();
        // The first version of the Pod is valid.
        world.create_pod(&ending("a"));
        world.create_pod(&ending("a").with(pointer, value));
        world.create_pod(&ending("b"));
        world.sync();
        world.advance(100);
        assert_eq!(world.requests(), ["delete b"], "{pointer}");
    }
}

#[test]
fn nulls_and_missing_fields_read_as_zero_values() {
    let mut world = World::with_threshold(Some(2));
    for member in ["spec", "status"] {
        let name = format!("no-{member}");
        let mut pod = MkPod::new(&name, "", "Running").terminating();
        pod.0[member] = Value::Null;
        world.create_pod(&pod);
    }
    let bare = json!({ "metadata": { "name": "bare", "uid": "u", "namespace": "x" } });
    world.put(PODS, bare);
    let listed = MkPod::new("listed", "", "Running").terminating();
    world.create_pod(&listed.with("/status/conditions", json!([null, {}])));
    world.sync();
    let left = world.names(PODS);
    // Two Pods have no phase, so they count as terminated, and two are kept. One of them is terminating and unscheduled.
    assert_eq!(left, ["bare"]);
}

#[test]
fn nodes_that_cannot_be_decoded_count_as_in_service() {
    let taint = json!({ "key": "node.kubernetes.io/out-of-service" });
    let broken = [
        json!({ "spec": { "taints": [taint] }, "status": { "conditions": 7 } }),
        json!({ "spec": { "taints": [{ "key": 7 }, taint] } }),
        json!({ "spec": 7 }),
    ];
    for mut node in broken {
        node["metadata"] = json!({ "name": "n", "uid": "u" });
        let mut world = World::with_threshold(None);
        world.put(super::world::NODES, node);
        world.create_pod(&MkPod::new("a", "n", "Running").terminating());
        world.sync();
        world.advance(200);
        assert_eq!(world.requests(), NONE);
    }
}

#[test]
fn a_node_without_conditions_is_not_ready() {
    let mut world = World::with_threshold(None);
    let taint = json!({ "key": "node.kubernetes.io/out-of-service" });
    let node =
        json!({ "metadata": { "name": "n", "uid": "u" }, "spec": { "taints": [null, taint] } });
    world.put(super::world::NODES, node);
    world.create_pod(&MkPod::new("a", "n", "Running").terminating());
    world.sync();
    assert_eq!(world.requests(), ["get n", "patch a", "delete a"]);
}

#[test]
fn handles_mirror_pods_and_invalid_node_names() {
    let mut world = World::with_threshold(None);
    let mirror = MkPod::new("static-n", "gone", "Running");
    let annotation = json!({ "kubernetes.io/config.mirror": "x" });
    world.create_pod(&mirror.with("/metadata/annotations", annotation));
    world.create_pod(&MkPod::new("odd", "../../x", "Failed"));
    world.sync();
    world.advance(100);
    let mut requests = world.requests();
    requests.sort();
    // `../../x` is not a valid name: effects send no request for it, so the Node counts as existing.
    assert_eq!(requests, ["delete static-n", "get gone", "patch static-n"]);
    assert!(world.pod("odd").is_some());
}

#[test]
fn ignores_objects_from_an_older_list() {
    let mut world = World::with_threshold(None);
    world.create_pod(&MkPod::new("a", "", "Pending"));
    let mut old = MkPod::new("a", "", "Pending").terminating().0;
    old["metadata"]["resourceVersion"] = json!("5");
    world.observe(&ObservedChange::Applied(mk_record(PODS, &old)));
    world.sync();
    assert_eq!(world.requests(), NONE);
}

#[test]
fn a_stream_of_pods_for_a_missing_node_does_not_prolong_the_quarantine_of_others() {
    let mut world = World::with_threshold(None);
    world.create_pod(&MkPod::new("first", "gone", "Failed"));
    world.sync();
    for second in 0..40 {
        world.create_pod(&MkPod::new(&format!("p{second:02}"), "gone", "Failed"));
        world.advance(1);
    }
    assert!(world.requests().contains(&"delete first".to_owned()));
}
