//! Bad input (`docs/inputs.md`, Pod GC): it deletes nothing it should not, and holds up nobody else.

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
        assert_eq!(world.asked(), ["delete b"], "{kind:?}");
        world.advance(200);
        assert!(world.asked().iter().all(|line| line == "get gone"));
        world.failing = None;
        // The longest backoff.
        world.advance(60);
        assert_eq!(world.asked(), ["get gone", "patch a", "delete a"]);
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
        assert_eq!(world.asked().len(), expected, "{threshold:?}");
    }
}

#[test]
fn phases_that_nobody_knows_count_as_terminated_and_are_marked() {
    for phase in ["", "Evaporated", "running"] {
        let mut world = World::with_threshold(Some(1));
        world.put_node("n", "True", &json!([]));
        world.create_pod(&MkPod::new("a", "n", phase));
        let time = "2026-03-01T11:00:00Z";
        world.create_pod(&MkPod::new("b", "n", "Succeeded").created(time));
        world.sync();
        assert_eq!(world.asked(), ["patch a", "delete a"], "{phase:?}");
    }
}

#[test]
fn pods_that_cannot_be_read_are_left_alone_and_hold_up_nobody() {
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
        // It was readable once.
        world.create_pod(&ending("a"));
        world.create_pod(&ending("a").with(pointer, value));
        world.create_pod(&ending("b"));
        world.sync();
        world.advance(100);
        assert_eq!(world.asked(), ["delete b"], "{pointer}");
    }
}

#[test]
fn nulls_and_missing_members_read_as_nothing() {
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
    // Two have no phase, so they have terminated, and two such are kept; one of them was never bound and ends.
    assert_eq!(left, ["bare"]);
}

#[test]
fn nodes_that_cannot_be_read_are_there_and_in_service() {
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
        assert_eq!(world.asked(), NONE);
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
    assert_eq!(world.asked(), ["get n", "patch a", "delete a"]);
}

#[test]
fn mirror_pods_and_odd_node_names_are_pods_like_any_other() {
    let mut world = World::with_threshold(None);
    let mirror = MkPod::new("static-n", "gone", "Running");
    let annotation = json!({ "kubernetes.io/config.mirror": "x" });
    world.create_pod(&mirror.with("/metadata/annotations", annotation));
    world.create_pod(&MkPod::new("odd", "../../x", "Failed"));
    world.sync();
    world.advance(100);
    let mut asked = world.asked();
    asked.sort();
    // `../../x` is no name: effects refuse to make a path of it, so the Node counts as existing.
    assert_eq!(asked, ["delete static-n", "get gone", "patch static-n"]);
    assert!(world.pod("odd").is_some());
}

#[test]
fn what_an_older_list_shows_changes_nothing() {
    let mut world = World::with_threshold(None);
    world.create_pod(&MkPod::new("a", "", "Pending"));
    let mut old = MkPod::new("a", "", "Pending").terminating().0;
    old["metadata"]["resourceVersion"] = json!("5");
    world.tell(&ObservedChange::Applied(mk_record(PODS, &old)));
    world.sync();
    assert_eq!(world.asked(), NONE);
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
    assert!(world.asked().contains(&"delete first".to_owned()));
}
