//! Behaviour that upstream does not test, and deviations: rounds, quarantine, finalizers, conflicts, gates.

use serde_json::json;

use super::world::{MkPod, NODES, PODS, World};
use crate::podgc::{PodGcReason, PodGcSettings};
use crate::runtime::call::ApiCall;
use crate::runtime::controller::ObservedChange;
use crate::runtime::kind::KindState;
use crate::runtime::record::Uid;

const NONE: [&str; 0] = [];

fn out_of_service() -> serde_json::Value {
    json!([{ "key": "node.kubernetes.io/out-of-service", "effect": "NoExecute" }])
}

#[test]
fn waits_until_both_kinds_are_listed() {
    let mut world = World::with_threshold(None);
    world.create_pod(&MkPod::new("a", "", "Pending").terminating());
    world.observe(&ObservedChange::Kind(PODS, KindState::Synced));
    world.advance(100);
    assert_eq!(world.because("a"), PodGcReason::Unlisted);
    assert_eq!(world.requests(), NONE);
    world.sync();
    assert_eq!(world.requests(), ["patch a", "delete a"]);
}

#[test]
fn a_change_between_two_rounds_waits_for_the_next() {
    let mut world = World::with_threshold(None);
    world.sync();
    world.advance(21);
    world.create_pod(&MkPod::new("a", "", "Pending").terminating());
    world.advance(18);
    assert!(matches!(
        world.because("a"),
        PodGcReason::AtNextRound { .. }
    ));
    assert_eq!(world.requests(), NONE);
    world.advance(1);
    assert_eq!(world.requests(), ["patch a", "delete a"]);
}

#[test]
fn deletes_pods_of_a_deleted_node_after_the_quarantine() {
    let mut world = World::with_threshold(None);
    world.put_node("n", "True", &json!([]));
    world.create_pod(&MkPod::new("a", "n", "Running"));
    world.sync();
    world.advance(5);
    world.remove(NODES, "n");
    // The round at 20 s notices it, and the Pod is due 40 s later.
    world.advance(54);
    assert!(matches!(
        world.because("a"),
        PodGcReason::Quarantined { .. }
    ));
    assert_eq!(world.requests(), NONE);
    world.advance(1);
    assert_eq!(world.requests(), ["get n", "patch a", "delete a"]);
}

#[test]
fn a_node_re_created_inside_the_quarantine_keeps_its_pods() {
    for lags in [false, true] {
        let mut world = World::with_threshold(None);
        world.put_node("n", "True", &json!([]));
        world.create_pod(&MkPod::new("a", "n", "Running"));
        world.sync();
        world.remove(NODES, "n");
        world.advance(39);
        world.lags = lags;
        world.put_node("n", "True", &json!([]));
        world.advance(60);
        // If the watch lags, the lookup finds the Node.
        let expected: &[&str] = if lags { &["get n"] } else { &[] };
        assert_eq!(world.requests(), expected, "{lags}");
        world.catch_up();
        world.advance(200);
        assert_eq!(world.requests(), NONE);
    }
}

#[test]
fn reads_a_node_that_no_feed_shows_once_per_quarantine() {
    let mut world = World::with_threshold(None);
    world.lags = true;
    world.put_node("n", "True", &json!([]));
    world.lags = false;
    world.forget_unseen();
    for name in ["a", "b", "c"] {
        world.create_pod(&MkPod::new(name, "n", "Running"));
    }
    world.sync();
    world.advance(400);
    let requests = world.requests();
    assert!(requests.iter().all(|line| line == "get n"), "{requests:?}");
    // At 40 s, and then every 60 s: found, noticed by the next round, quarantined again.
    assert_eq!(requests.len(), 7);
}

#[test]
fn a_pod_created_after_the_lookup_has_its_own_quarantine() {
    let mut world = World::with_threshold(None);
    world.create_pod(&MkPod::new("a", "n", "Failed"));
    world.sync();
    world.advance(30);
    world.create_pod(&MkPod::new("b", "n", "Failed"));
    world.advance(11);
    assert_eq!(world.requests(), ["get n", "delete a", "delete b"]);
    world.create_pod(&MkPod::new("c", "n", "Failed"));
    world.advance(58);
    assert_eq!(world.requests(), NONE);
    world.advance(1);
    assert_eq!(world.requests(), ["get n", "delete c"]);
}

#[test]
fn a_pod_held_by_a_finalizer_is_marked_and_deleted_once() {
    let pods = [
        MkPod::new("bound", "gone", "Running"),
        MkPod::new("unbound", "", "Pending").terminating(),
        MkPod::new("lost", "out", "Running").terminating(),
        MkPod::new("done", "in", "Succeeded"),
        MkPod::new("new", "in", "Succeeded").created("2026-03-01T11:00:00Z"),
    ];
    let mut world = World::with_threshold(Some(1));
    world.put_node("in", "True", &json!([]));
    world.put_node("out", "False", &out_of_service());
    for pod in pods {
        world.create_pod(&pod.held());
    }
    world.sync();
    world.advance(300);
    let mut requests = world.requests();
    requests.retain(|line| !line.starts_with("get"));
    requests.sort();
    assert_eq!(
        requests,
        [
            "delete bound",
            "delete done",
            "delete lost",
            "delete unbound",
            "patch bound",
            "patch lost",
            "patch unbound",
        ]
    );
    for name in ["bound", "unbound", "lost", "done"] {
        assert_eq!(world.because(name), PodGcReason::Held, "{name}");
    }
    let conditions = |name| world.pod(name).unwrap()["status"]["conditions"].take();
    assert!(conditions("bound").is_array());
    assert!(conditions("lost").is_null() && conditions("unbound").is_null());
}

#[test]
fn a_pod_without_a_grace_period_is_marked_and_not_deleted_again() {
    let mut world = World::with_threshold(None);
    let pod = MkPod::new("a", "gone", "Running").terminating().held();
    world.create_pod(&pod.with("/metadata/deletionGracePeriodSeconds", json!(0)));
    world.sync();
    world.advance(100);
    assert_eq!(world.requests(), ["get gone", "patch a"]);
}

#[test]
fn a_replacement_of_the_same_name_survives() {
    let mut world = World::with_threshold(None);
    world.create_pod(&MkPod::new("web-0", "gone", "Failed"));
    world.sync();
    world.advance(39);
    world.lags = true;
    world.remove(PODS, "web-0");
    let other = MkPod::new("web-0", "", "Pending");
    world.create_pod(&other.with("/metadata/uid", json!("another")));
    world.advance(20);
    // The delete conflicts, and the read shows another Pod.
    assert_eq!(world.requests(), ["get gone", "delete web-0", "get web-0"]);
    world.catch_up();
    world.advance(200);
    assert_eq!(world.requests(), NONE);
    assert!(world.pod("web-0").is_some());
}

#[test]
fn a_pod_that_changed_is_read_and_judged_again() {
    let mut world = World::with_threshold(Some(1));
    world.put_node("n", "True", &json!([]));
    for (hour, name) in ["a", "b"].into_iter().enumerate() {
        let time = format!("2026-03-01T0{hour}:00:00Z");
        world.create_pod(&MkPod::new(name, "n", "Failed").created(&time));
    }
    world.lags = true;
    world.create_pod(&MkPod::new("a", "n", "Failed").with("/metadata/labels", json!({})));
    world.sync();
    assert_eq!(world.requests(), ["delete a", "get a", "delete a"]);
}

#[test]
fn keeps_the_threshold_while_other_clients_delete() {
    let mut world = World::with_threshold(Some(2));
    world.put_node("n", "True", &json!([]));
    world.sync();
    for name in ["a", "b", "c", "d"] {
        world.create_pod(&MkPod::new(name, "n", "Failed"));
    }
    world.advance(1);
    world.remove(PODS, "d");
    world.advance(100);
    assert_eq!(world.requests(), ["delete a"]);
}

#[test]
fn a_pod_that_only_a_finalizer_keeps_does_not_count() {
    let mut world = World::with_threshold(Some(1));
    world.put_node("n", "True", &json!([]));
    let time = "2026-03-01T11:00:00Z";
    let held = MkPod::new("new", "n", "Failed").created(time).terminating();
    let held = held.with("/metadata/deletionGracePeriodSeconds", json!(0));
    world.create_pod(&held.held());
    world.create_pod(&MkPod::new("old", "n", "Failed"));
    world.sync();
    world.advance(100);
    assert_eq!(world.requests(), NONE);
}

#[test]
fn applies_the_namespace_threshold_before_the_global_one() {
    let mut world = World::new(PodGcSettings {
        threshold: Some(3),
        threshold_per_namespace: Some(2),
        ..PodGcSettings::default()
    });
    world.put_node("n", "True", &json!([]));
    for (hour, name) in ["a0", "a1", "a2", "b0", "b1", "c0"].into_iter().enumerate() {
        let pod = MkPod::new(name, "n", "Succeeded");
        let pod = pod.created(&format!("2026-03-01T0{hour}:00:00Z"));
        world.create_pod(&pod.with("/metadata/namespace", json!(&name[..1])));
    }
    world.sync();
    assert!(
        world
            .requests()
            .iter()
            .all(|line| line.starts_with("delete"))
    );
    let left = [world.names(PODS), world.names(NODES)].concat();
    // a0 is over the threshold of its namespace; a1 and a2 are the oldest of the remaining five.
    assert_eq!(left, ["b0", "b1", "c0", "n"]);
}

#[test]
fn gates_switch_the_second_sweep_and_the_marks_off() {
    let lost = MkPod::new("lost", "out", "Running").terminating();
    let unbound = MkPod::new("unbound", "", "Pending").terminating();
    let table: [(bool, bool, &[&str]); 3] = [
        (
            true,
            true,
            &[
                "get out",
                "patch lost",
                "delete lost",
                "patch unbound",
                "delete unbound",
            ],
        ),
        (false, true, &["patch unbound", "delete unbound"]),
        (true, false, &["get out", "delete lost", "delete unbound"]),
    ];
    for (sweeps_out_of_service, marks_failed, expected) in table {
        let mut world = World::new(PodGcSettings {
            sweeps_out_of_service,
            marks_failed,
            ..PodGcSettings::default()
        });
        world.put_node("out", "False", &out_of_service());
        world.create_pod(&lost);
        world.create_pod(&unbound);
        world.sync();
        assert_eq!(world.requests(), expected);
    }
}

#[test]
fn notices_a_node_back_in_service_before_its_pods_are_deleted() {
    let mut world = World::with_threshold(None);
    world.put_node("n", "False", &out_of_service());
    world.create_pod(&MkPod::new("a", "n", "Running").terminating());
    world.lags = true;
    world.put_node("n", "True", &json!([]));
    world.sync();
    world.advance(100);
    assert_eq!(world.requests(), ["get n"]);
    assert!(world.pod("a").is_some());
}

#[test]
fn a_later_taint_takes_effect_at_the_next_round() {
    let mut world = World::with_threshold(None);
    world.put_node("n", "False", &json!([]));
    world.create_pod(&MkPod::new("a", "n", "Running").terminating());
    world.sync();
    world.advance(30);
    world.put_node("n", "False", &out_of_service());
    world.advance(9);
    assert_eq!(world.requests(), NONE);
    world.advance(1);
    assert_eq!(world.requests(), ["get n", "patch a", "delete a"]);
}

#[test]
fn a_taint_removed_after_the_mark_stops_the_delete() {
    let mut world = World::with_threshold(None);
    world.put_node("n", "False", &out_of_service());
    world.create_pod(&MkPod::new("a", "n", "Running").terminating());
    world.failing = Some(("delete", crate::runtime::call::FailureKind::Unavailable));
    world.sync();
    assert_eq!(world.requests(), ["get n", "patch a", "delete a"]);
    world.put_node("n", "True", &json!([]));
    world.failing = None;
    world.advance(100);
    assert_eq!(world.requests(), NONE);
}

#[test]
fn a_disruption_target_keeps_its_transition_time() {
    let mut world = World::with_threshold(None);
    let condition = json!([{
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    let pod = MkPod::new("a", "gone", "Running").held();
    world.create_pod(&pod.with("/status/conditions", condition));
    world.sync();
    world.advance(40);
    let condition = world.pod("a").unwrap()["status"]["conditions"][0].take();
    assert_eq!(condition["lastTransitionTime"], "2026-01-01T00:00:00Z");
    assert_eq!(condition["reason"], "DeletionByPodGC");
}

#[test]
fn a_marked_orphan_is_not_taken_for_a_terminated_pod() {
    let mut world = World::with_threshold(Some(1));
    world.put_node("n", "True", &json!([]));
    world.create_pod(&MkPod::new("kept", "n", "Succeeded"));
    world.create_pod(&MkPod::new("orphan", "gone", "Running"));
    world.failing = Some(("delete", crate::runtime::call::FailureKind::Unavailable));
    world.sync();
    world.advance(60);
    assert!(matches!(
        world.because("orphan"),
        PodGcReason::NodeGone { .. } | PodGcReason::AsksFor { .. }
    ));
    assert_eq!(world.because("kept"), PodGcReason::Unwanted);
}

#[test]
fn retries_a_failed_delete_before_the_next_round() {
    let mut world = World::with_threshold(None);
    world.create_pod(&MkPod::new("a", "", "Failed").terminating());
    world.failing = Some(("delete", crate::runtime::call::FailureKind::Unavailable));
    world.sync();
    world.failing = None;
    world.advance(5);
    assert_eq!(world.requests(), ["delete a", "delete a"]);
}

#[test]
fn a_relist_without_a_node_does_not_prove_it_absent() {
    let mut world = World::with_threshold(None);
    world.put_node("n", "True", &json!([]));
    world.create_pod(&MkPod::new("a", "n", "Running"));
    world.sync();
    let uid = world.object(NODES, "n").unwrap()["metadata"]["uid"].take();
    world.observe(&ObservedChange::Missing(
        NODES,
        Uid::from(uid.as_str().unwrap()),
    ));
    world.advance(100);
    assert_eq!(world.requests(), ["get n"]);
    world.observe(&ObservedChange::Missing(PODS, Uid::from("uid-a")));
    world.advance(300);
    assert_eq!(world.requests(), NONE);
    assert_eq!(world.gc().index().pods(), 0);
}

#[test]
fn writes_nothing_after_a_restore_until_the_relist() {
    let mut world = World::with_threshold(None);
    world.create_pod(&MkPod::new("a", "gone", "Failed"));
    world.sync();
    world.observe(&ObservedChange::Kind(NODES, KindState::Frozen));
    world.advance(100);
    assert_eq!(world.requests(), NONE);
    world.observe(&ObservedChange::Kind(NODES, KindState::Synced));
    world.advance(30);
    assert_eq!(world.requests(), NONE, "the quarantine begins anew");
    world.advance(40);
    assert_eq!(world.requests(), ["get gone", "delete a"]);
}

#[test]
fn a_restore_brings_a_node_back_into_service() {
    let mut world = World::with_threshold(None);
    world.put_node("n", "True", &json!([]));
    world.create_pod(&MkPod::new("a", "n", "Running"));
    let objects = [(NODES, "n"), (PODS, "a")];
    let objects = objects.map(|(kind, name)| (kind, world.object(kind, name).unwrap()));
    world.put_node("n", "False", &out_of_service());
    world.sync();
    world.restore_store(objects.to_vec());
    world.create_pod(&MkPod::new("a", "n", "Running").terminating());
    world.advance(100);
    assert_eq!(world.requests(), NONE);
    assert_eq!(world.because("a"), PodGcReason::Unwanted);
}

#[test]
fn deletes_a_pod_again_that_a_restore_brought_back() {
    let mut world = World::with_threshold(None);
    world.create_pod(&MkPod::new("a", "", "Failed").terminating());
    let pod = world.pod("a").unwrap();
    world.sync();
    world.advance(1);
    assert_eq!(world.requests(), ["delete a"]);
    world.restore_store(vec![(PODS, pod)]);
    world.advance(30);
    assert_eq!(world.requests(), ["delete a"]);
}

#[test]
fn repeats_a_dropped_mark_once_per_round() {
    let mut world = World::with_threshold(None);
    world.create_pod(&MkPod::new("a", "", "Running").terminating());
    world.ignores_patches = true;
    world.sync();
    world.advance(100);
    let requests = world.requests();
    // At once, and in each of the five rounds of 20 s.
    assert_eq!(requests, ["patch a"; 6]);
    world.ignores_patches = false;
    world.advance(25);
    assert_eq!(world.requests(), ["patch a", "delete a"]);
}

#[test]
fn a_replaced_node_does_not_delay_its_pods() {
    let mut world = World::with_threshold(None);
    world.put_node("n", "False", &out_of_service());
    world.create_pod(&MkPod::new("a", "n", "Failed").terminating());
    let old = world.object(NODES, "n").unwrap()["metadata"]["uid"].take();
    world.lags = true;
    world.remove(NODES, "n");
    world.sync();
    assert_eq!(world.requests(), ["get n"]);
    // The watch was down, and the relist shows the new Node but not the old one.
    world.forget_unseen();
    world.lags = false;
    world.put_node("n", "False", &out_of_service());
    world.observe(&ObservedChange::Missing(
        NODES,
        Uid::from(old.as_str().unwrap()),
    ));
    world.advance(25);
    assert_eq!(world.requests(), ["get n", "delete a"]);
}

#[test]
fn keeps_pods_when_nodes_are_no_longer_served() {
    let mut world = World::with_threshold(None);
    world.put_node("n", "True", &json!([]));
    world.create_pod(&MkPod::new("a", "n", "Running"));
    world.sync();
    world.observe(&ObservedChange::Kind(NODES, KindState::Gone));
    world.lose(NODES);
    world.advance(300);
    assert_eq!(world.requests(), NONE);
    assert_eq!(world.because("a"), PodGcReason::Unlisted);
}

#[test]
fn every_delete_has_preconditions() {
    let mut world = World::with_threshold(Some(1));
    for name in ["a", "b", "c"] {
        world.create_pod(&MkPod::new(name, "gone", "Failed"));
    }
    world.create_pod(&MkPod::new("d", "gone", "Running"));
    world.sync();
    world.advance(100);
    assert_eq!(world.writes().len(), 5);
    for call in &world.writes() {
        let judged = call.judged().unwrap();
        assert!(judged.uid.to_string().starts_with("uid-"), "{call:?}");
        assert!(judged.revision.to_string().parse::<u64>().unwrap() > 100);
        assert!(!matches!(
            call,
            ApiCall::Delete {
                grace_secs: None,
                ..
            }
        ));
    }
}
