//! A round costs what changed, not what exists: 150,000 Pods, counted in decisions and requests, never in time.

use std::sync::Arc;

use serde_json::json;

use super::world::{MkPod, NODES, PODS, World, mk_record};
use crate::podgc::Settings;
use crate::runtime::controller::ObservedChange;
use crate::runtime::record::{ObjectRecord, RecordView, decode};

const PODS_COUNT: usize = 150_000;
const NODES_COUNT: usize = 1_500;

fn mk_pod(number: usize, phase: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"pod-{number}","namespace":"default","uid":"00000000-0000-4000-8000-{number:012}",
        "resourceVersion":"{}","creationTimestamp":"2026-03-01T00:00:00Z","generation":1}},
        "spec":{{"nodeName":"node-{}"}},"status":{{"phase":"{phase}"}}}}"#,
        number + 1,
        number % NODES_COUNT,
    )
}

fn mk_node(number: usize) -> Arc<ObjectRecord> {
    mk_record(
        NODES,
        &json!({
            "metadata": { "name": format!("node-{number}"), "uid": format!("n{number}"), "resourceVersion": "1" },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        }),
    )
}

/// 150,000 Pods on 1,500 Nodes, 12,500 of them terminated: exactly as many as are kept.
fn mk_world() -> World {
    let mut world = World::new(Settings::default());
    for number in 0..NODES_COUNT {
        world.tell(&ObservedChange::Applied(mk_node(number)));
    }
    for number in 0..PODS_COUNT {
        let phase = match number.is_multiple_of(12) {
            true => "Succeeded",
            false => "Running",
        };
        let pod = mk_pod(number, phase);
        let record = decode(PODS, pod.as_bytes(), RecordView::Full).unwrap();
        world.tell(&ObservedChange::Applied(Arc::new(record)));
    }
    world.sync();
    world
}

#[test]
fn a_round_costs_what_changed() {
    let mut world = mk_world();
    assert_eq!(world.gc().index().pods(), PODS_COUNT);
    world.advance(600);
    assert_eq!(
        (world.decisions(), world.asked().len()),
        (0, 0),
        "thirty rounds without a change"
    );

    // One more terminates: the oldest goes, and nobody else is looked at.
    world.put(PODS, serde_json::from_str(&mk_pod(1, "Failed")).unwrap());
    world.advance(600);
    // The server of this world has the one Pod that changed, and answers that there is no pod-0.
    assert_eq!(world.asked(), ["delete pod-0"]);
    assert_eq!(world.gc().index().wanted(), 0);
    assert!(world.decisions() <= 2, "{}", world.decisions());

    // A Node goes: its hundred Pods are looked at, and one question is asked.
    let before = world.decisions();
    world.tell(&ObservedChange::Deleted(mk_node(7)));
    assert_eq!(world.gc().index().wanted(), PODS_COUNT / NODES_COUNT);
    world.tell(&ObservedChange::Applied(mk_node(7)));
    assert_eq!(world.gc().index().wanted(), 0);
    world.advance(600);
    let decisions = world.decisions() - before;
    assert!(decisions <= 2 * PODS_COUNT / NODES_COUNT, "{decisions}");
    assert_eq!(world.asked().len(), 0);
}

#[test]
fn a_thousand_over_the_threshold_cost_a_request_each() {
    const OVER: usize = 1_000;
    let mut world = World::with_threshold(Some(100));
    world.put_node("n", "True", &json!([]));
    for number in 0..100 + OVER {
        world.create_pod(&MkPod::new(&format!("p{number:04}"), "n", "Succeeded"));
    }
    world.sync();
    assert_eq!(world.asked().len(), OVER);
    assert!(world.decisions() <= 3 * OVER, "{}", world.decisions());
    assert_eq!(world.names(PODS).len(), 100);
}

#[test]
fn a_thousand_orphans_cost_two_requests_each_and_one_question() {
    const ORPHANS: usize = 1_000;
    let mut world = World::with_threshold(None);
    for number in 0..ORPHANS {
        world.create_pod(&MkPod::new(&format!("p{number:04}"), "gone", "Running"));
    }
    world.sync();
    world.advance(40);
    let asked = world.asked();
    assert_eq!(asked.len(), 2 * ORPHANS + 1);
    assert_eq!(asked[0], "get gone");
}
