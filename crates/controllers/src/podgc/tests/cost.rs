//! The cost of a round depends on the changes, not on the number of Pods. Counted in decisions and requests, not in time.

use std::sync::Arc;

use serde_json::json;

use super::world::{MkPod, NODES, PODS, World, mk_record};
use crate::podgc::PodGcSettings;
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

/// 150,000 Pods on 1,500 Nodes. 12,500 Pods have terminated, as many as the threshold.
fn mk_world() -> World {
    let mut world = World::new(PodGcSettings::default());
    for number in 0..NODES_COUNT {
        world.observe(&ObservedChange::Applied(mk_node(number)));
    }
    for number in 0..PODS_COUNT {
        let phase = match number.is_multiple_of(12) {
            true => "Succeeded",
            false => "Running",
        };
        let pod = mk_pod(number, phase);
        let record = decode(PODS, pod.as_bytes(), RecordView::Full).unwrap();
        world.observe(&ObservedChange::Applied(Arc::new(record)));
    }
    world.sync();
    world
}

#[test]
fn the_cost_of_a_round_depends_on_the_changes() {
    let mut world = mk_world();
    assert_eq!(world.gc().index().pods(), PODS_COUNT);
    world.advance(600);
    assert_eq!(
        (world.decisions(), world.requests().len()),
        (0, 0),
        "thirty rounds without a change"
    );

    // One more Pod terminates: the oldest one is deleted, and no other Pod is decided about.
    world.put(PODS, serde_json::from_str(&mk_pod(1, "Failed")).unwrap());
    world.advance(600);
    // The scripted server has only the Pod that changed, and answers 404 for pod-0.
    assert_eq!(world.requests(), ["delete pod-0"]);
    assert_eq!(world.gc().index().wanted(), 0);
    assert!(world.decisions() <= 2, "{}", world.decisions());

    // A Node is deleted and created again: only its hundred Pods are decided about.
    let before = world.decisions();
    world.observe(&ObservedChange::Deleted(mk_node(7)));
    assert_eq!(world.gc().index().wanted(), PODS_COUNT / NODES_COUNT);
    world.observe(&ObservedChange::Applied(mk_node(7)));
    assert_eq!(world.gc().index().wanted(), 0);
    world.advance(600);
    let decisions = world.decisions() - before;
    assert!(decisions <= 2 * PODS_COUNT / NODES_COUNT, "{decisions}");
    assert_eq!(world.requests().len(), 0);
}

#[test]
fn a_thousand_pods_over_the_threshold_take_one_request_each() {
    const OVER: usize = 1_000;
    let mut world = World::with_threshold(Some(100));
    world.put_node("n", "True", &json!([]));
    for number in 0..100 + OVER {
        world.create_pod(&MkPod::new(&format!("p{number:04}"), "n", "Succeeded"));
    }
    world.sync();
    assert_eq!(world.requests().len(), OVER);
    assert!(world.decisions() <= 3 * OVER, "{}", world.decisions());
    assert_eq!(world.names(PODS).len(), 100);
}

#[test]
fn a_thousand_orphans_take_two_requests_each_and_one_lookup() {
    const ORPHANS: usize = 1_000;
    let mut world = World::with_threshold(None);
    for number in 0..ORPHANS {
        world.create_pod(&MkPod::new(&format!("p{number:04}"), "gone", "Running"));
    }
    world.sync();
    world.advance(40);
    let requests = world.requests();
    assert_eq!(requests.len(), 2 * ORPHANS + 1);
    assert_eq!(requests[0], "get gone");
}
