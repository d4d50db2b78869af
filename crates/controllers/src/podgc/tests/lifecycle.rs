//! What upstream does and never tested, and where we differ from it: rounds, quarantine, holds, conflicts, gates.

use serde_json::json;

use super::world::{MkPod, NODES, PODS, World};
use crate::podgc::{Reason, Settings};
use crate::runtime::call::ApiCall;
use crate::runtime::controller::ObservedChange;
use crate::runtime::kind::KindState;
use crate::runtime::record::Uid;

const NONE: [&str; 0] = [];

fn out_of_service() -> serde_json::Value {
    json!([{ "key": "node.kubernetes.io/out-of-service", "effect": "NoExecute" }])
}

#[test]
fn nothing_happens_before_both_kinds_are_listed_and_then_at_once() {
    let mut world = World::with_threshold(None);
    world.create_pod(&MkPod::new("a", "", "Pending").terminating());
    world.tell(&ObservedChange::Kind(PODS, KindState::Synced));
    world.advance(100);
    assert_eq!(world.because("a"), Reason::Unlisted);
    assert_eq!(world.asked(), NONE);
    world.sync();
    assert_eq!(world.asked(), ["patch a", "delete a"]);
}

#[test]
fn what_comes_up_between_two_rounds_waits_for_the_next() {
    let mut world = World::with_threshold(None);
    world.sync();
    world.advance(21);
    world.create_pod(&MkPod::new("a", "", "Pending").terminating());
    world.advance(18);
    assert!(matches!(world.because("a"), Reason::AtNextRound { .. }));
    assert_eq!(world.asked(), NONE);
    world.advance(1);
    assert_eq!(world.asked(), ["patch a", "delete a"]);
}

#[test]
fn a_node_that_goes_costs_its_pods_their_life_after_the_quarantine_only() {
    let mut world = World::with_threshold(None);
    world.put_node("n", "True", &json!([]));
    world.create_pod(&MkPod::new("a", "n", "Running"));
    world.sync();
    world.advance(5);
    world.remove(NODES, "n");
    // Noticed by the round at 20 s, due 40 s later.
    world.advance(54);
    assert!(matches!(world.because("a"), Reason::Quarantined { .. }));
    assert_eq!(world.asked(), NONE);
    world.advance(1);
    assert_eq!(world.asked(), ["get n", "patch a", "delete a"]);
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
        // Behind a watch that lags the question finds it.
        let expected: &[&str] = if lags { &["get n"] } else { &[] };
        assert_eq!(world.asked(), expected, "{lags}");
        world.catch_up();
        world.advance(200);
        assert_eq!(world.asked(), NONE);
    }
}

#[test]
fn a_node_that_no_feed_shows_and_the_server_has_is_asked_for_once_per_quarantine() {
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
    let asked = world.asked();
    assert!(asked.iter().all(|line| line == "get n"), "{asked:?}");
    // At 40 s, and then every 60 s: found, noticed by the next round, quarantined.
    assert_eq!(asked.len(), 7);
}

#[test]
fn a_pod_that_comes_after_the_question_has_a_quarantine_of_its_own() {
    let mut world = World::with_threshold(None);
    world.create_pod(&MkPod::new("a", "n", "Failed"));
    world.sync();
    world.advance(30);
    world.create_pod(&MkPod::new("b", "n", "Failed"));
    world.advance(11);
    assert_eq!(world.asked(), ["get n", "delete a", "delete b"]);
    world.create_pod(&MkPod::new("c", "n", "Failed"));
    world.advance(58);
    assert_eq!(world.asked(), NONE);
    world.advance(1);
    assert_eq!(world.asked(), ["get n", "delete c"]);
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
    let mut asked = world.asked();
    asked.retain(|line| !line.starts_with("get"));
    asked.sort();
    assert_eq!(
        asked,
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
        assert_eq!(world.because(name), Reason::Held, "{name}");
    }
    let conditions = |name| world.pod(name).unwrap()["status"]["conditions"].take();
    assert!(conditions("bound").is_array());
    assert!(conditions("lost").is_null() && conditions("unbound").is_null());
}

#[test]
fn a_pod_that_was_forced_already_is_marked_and_not_deleted_again() {
    let mut world = World::with_threshold(None);
    let pod = MkPod::new("a", "gone", "Running").terminating().held();
    world.create_pod(&pod.with("/metadata/deletionGracePeriodSeconds", json!(0)));
    world.sync();
    world.advance(100);
    assert_eq!(world.asked(), ["get gone", "patch a"]);
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
    // The delete is refused, the read shows another one.
    assert_eq!(world.asked(), ["get gone", "delete web-0", "get web-0"]);
    world.catch_up();
    world.advance(200);
    assert_eq!(world.asked(), NONE);
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
    assert_eq!(world.asked(), ["delete a", "get a", "delete a"]);
}

#[test]
fn the_threshold_is_never_undercut_while_others_delete_too() {
    let mut world = World::with_threshold(Some(2));
    world.put_node("n", "True", &json!([]));
    world.sync();
    for name in ["a", "b", "c", "d"] {
        world.create_pod(&MkPod::new(name, "n", "Failed"));
    }
    world.advance(1);
    world.remove(PODS, "d");
    world.advance(100);
    assert_eq!(world.asked(), ["delete a"]);
}

#[test]
fn a_pod_that_waits_for_its_finalizer_costs_no_other_its_place() {
    let mut world = World::with_threshold(Some(1));
    world.put_node("n", "True", &json!([]));
    let time = "2026-03-01T11:00:00Z";
    let held = MkPod::new("new", "n", "Failed").created(time).terminating();
    let held = held.with("/metadata/deletionGracePeriodSeconds", json!(0));
    world.create_pod(&held.held());
    world.create_pod(&MkPod::new("old", "n", "Failed"));
    world.sync();
    world.advance(100);
    assert_eq!(world.asked(), NONE);
}

#[test]
fn namespaces_have_a_threshold_of_their_own_and_what_they_keep_counts_for_all() {
    let mut world = World::new(Settings {
        threshold: Some(3),
        threshold_per_namespace: Some(2),
        ..Settings::default()
    });
    world.put_node("n", "True", &json!([]));
    for (hour, name) in ["a0", "a1", "a2", "b0", "b1", "c0"].into_iter().enumerate() {
        let pod = MkPod::new(name, "n", "Succeeded");
        let pod = pod.created(&format!("2026-03-01T0{hour}:00:00Z"));
        world.create_pod(&pod.with("/metadata/namespace", json!(&name[..1])));
    }
    world.sync();
    assert!(world.asked().iter().all(|line| line.starts_with("delete")));
    let left = [world.names(PODS), world.names(NODES)].concat();
    // a0 for its namespace, then a1 and a2 as the oldest of the five that are left.
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
        let mut world = World::new(Settings {
            sweeps_out_of_service,
            marks_failed,
            ..Settings::default()
        });
        world.put_node("out", "False", &out_of_service());
        world.create_pod(&lost);
        world.create_pod(&unbound);
        world.sync();
        assert_eq!(world.asked(), expected);
    }
}

#[test]
fn a_node_back_in_service_is_noticed_before_its_pods_go() {
    let mut world = World::with_threshold(None);
    world.put_node("n", "False", &out_of_service());
    world.create_pod(&MkPod::new("a", "n", "Running").terminating());
    world.lags = true;
    world.put_node("n", "True", &json!([]));
    world.sync();
    world.advance(100);
    assert_eq!(world.asked(), ["get n"]);
    assert!(world.pod("a").is_some());
}

#[test]
fn a_taint_that_comes_later_is_acted_on_at_the_next_round() {
    let mut world = World::with_threshold(None);
    world.put_node("n", "False", &json!([]));
    world.create_pod(&MkPod::new("a", "n", "Running").terminating());
    world.sync();
    world.advance(30);
    world.put_node("n", "False", &out_of_service());
    world.advance(9);
    assert_eq!(world.asked(), NONE);
    world.advance(1);
    assert_eq!(world.asked(), ["get n", "patch a", "delete a"]);
}

#[test]
fn a_taint_taken_back_between_mark_and_delete_leaves_the_rest_to_the_kubelet() {
    let mut world = World::with_threshold(None);
    world.put_node("n", "False", &out_of_service());
    world.create_pod(&MkPod::new("a", "n", "Running").terminating());
    world.failing = Some(("delete", crate::runtime::call::FailureKind::Unavailable));
    world.sync();
    assert_eq!(world.asked(), ["get n", "patch a", "delete a"]);
    world.put_node("n", "True", &json!([]));
    world.failing = None;
    world.advance(100);
    assert_eq!(world.asked(), NONE);
}

#[test]
fn a_disruption_target_keeps_its_time() {
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
        Reason::NodeGone { .. } | Reason::AsksFor { .. }
    ));
    assert_eq!(world.because("kept"), Reason::Unwanted);
}

#[test]
fn a_delete_that_fails_is_tried_again_before_the_next_round() {
    let mut world = World::with_threshold(None);
    world.create_pod(&MkPod::new("a", "", "Failed").terminating());
    world.failing = Some(("delete", crate::runtime::call::FailureKind::Unavailable));
    world.sync();
    world.failing = None;
    world.advance(5);
    assert_eq!(world.asked(), ["delete a", "delete a"]);
}

#[test]
fn a_list_that_misses_a_pod_forgets_it_and_one_that_misses_a_node_proves_nothing() {
    let mut world = World::with_threshold(None);
    world.put_node("n", "True", &json!([]));
    world.create_pod(&MkPod::new("a", "n", "Running"));
    world.sync();
    let uid = world.object(NODES, "n").unwrap()["metadata"]["uid"].take();
    world.tell(&ObservedChange::Missing(
        NODES,
        Uid::from(uid.as_str().unwrap()),
    ));
    world.advance(100);
    assert_eq!(world.asked(), ["get n"]);
    world.tell(&ObservedChange::Missing(PODS, Uid::from("uid-a")));
    world.advance(300);
    assert_eq!(world.asked(), NONE);
    assert_eq!(world.gc().index().pods(), 0);
}

#[test]
fn a_store_that_was_set_back_stops_everything_until_it_is_listed_anew() {
    let mut world = World::with_threshold(None);
    world.create_pod(&MkPod::new("a", "gone", "Failed"));
    world.sync();
    world.tell(&ObservedChange::Kind(NODES, KindState::Frozen));
    world.advance(100);
    assert_eq!(world.asked(), NONE);
    world.tell(&ObservedChange::Kind(NODES, KindState::Synced));
    world.advance(30);
    assert_eq!(world.asked(), NONE, "the quarantine begins anew");
    world.advance(40);
    assert_eq!(world.asked(), ["get gone", "delete a"]);
}

#[test]
fn a_node_that_was_well_before_the_store_was_set_back_is_well_again() {
    let mut world = World::with_threshold(None);
    world.put_node("n", "True", &json!([]));
    world.create_pod(&MkPod::new("a", "n", "Running"));
    let objects = [(NODES, "n"), (PODS, "a")];
    let objects = objects.map(|(kind, name)| (kind, world.object(kind, name).unwrap()));
    world.put_node("n", "False", &out_of_service());
    world.sync();
    world.set_back(objects.to_vec());
    world.create_pod(&MkPod::new("a", "n", "Running").terminating());
    world.advance(100);
    assert_eq!(world.asked(), NONE);
    assert_eq!(world.because("a"), Reason::Unwanted);
}

#[test]
fn a_pod_that_a_restored_store_brings_back_goes_again() {
    let mut world = World::with_threshold(None);
    world.create_pod(&MkPod::new("a", "", "Failed").terminating());
    let pod = world.pod("a").unwrap();
    world.sync();
    world.advance(1);
    assert_eq!(world.asked(), ["delete a"]);
    world.set_back(vec![(PODS, pod)]);
    world.advance(30);
    assert_eq!(world.asked(), ["delete a"]);
}

#[test]
fn a_server_that_keeps_no_mark_is_asked_as_rarely_as_upstream_asks() {
    let mut world = World::with_threshold(None);
    world.create_pod(&MkPod::new("a", "", "Running").terminating());
    world.drops_marks = true;
    world.sync();
    world.advance(100);
    let asked = world.asked();
    assert!((4..=7).contains(&asked.len()), "{asked:?}");
    assert!(asked.iter().all(|asked| asked == "patch a"), "{asked:?}");
    world.drops_marks = false;
    world.advance(25);
    assert_eq!(world.asked(), ["patch a", "delete a"]);
}

#[test]
fn a_node_that_another_one_follows_under_its_name_keeps_nobody_waiting() {
    let mut world = World::with_threshold(None);
    world.put_node("n", "False", &out_of_service());
    world.create_pod(&MkPod::new("a", "n", "Failed").terminating());
    let old = world.object(NODES, "n").unwrap()["metadata"]["uid"].take();
    world.lags = true;
    world.remove(NODES, "n");
    world.sync();
    assert_eq!(world.asked(), ["get n"]);
    // The watch was down: the next list shows the new one, and misses the old one.
    world.forget_unseen();
    world.lags = false;
    world.put_node("n", "False", &out_of_service());
    world.tell(&ObservedChange::Missing(
        NODES,
        Uid::from(old.as_str().unwrap()),
    ));
    world.advance(25);
    assert_eq!(world.asked(), ["get n", "delete a"]);
}

#[test]
fn a_server_without_nodes_any_more_loses_no_pod() {
    let mut world = World::with_threshold(None);
    world.put_node("n", "True", &json!([]));
    world.create_pod(&MkPod::new("a", "n", "Running"));
    world.sync();
    world.tell(&ObservedChange::Kind(NODES, KindState::Gone));
    world.lose(NODES);
    world.advance(300);
    assert_eq!(world.asked(), NONE);
    assert_eq!(world.because("a"), Reason::Unlisted);
}

#[test]
fn every_delete_names_what_was_judged() {
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
