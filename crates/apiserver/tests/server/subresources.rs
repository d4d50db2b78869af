//! Tests of subresources that the real server does not answer alike, or that several clients use at once.

use std::sync::Arc;

use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::client::World;

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

/// Creates a Pod on a simulated Node whose container has this status.
async fn set_pod(world: &World, name: &str, container: Value) {
    let node =
        json!({"metadata": {"name": "n", "labels": {"simulate.caretaker.dev/node": "true"}}});
    world.call("POST", "/api/v1/nodes", node).await;
    let annotations = json!({"simulate.caretaker.dev/run-seconds": "7"});
    let pod = json!({"metadata": {"name": name, "annotations": annotations},
        "spec": {"nodeName": "n", "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}]}});
    world.must("POST", PODS, pod).await;
    set_status(world, name, container).await;
}

async fn set_status(world: &World, name: &str, container: Value) {
    let mut status =
        json!({"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 0});
    for (field, value) in container.as_object().unwrap() {
        status[field] = value.clone();
    }
    let status = json!({"status": {"phase": "Running", "containerStatuses": [status]}});
    world
        .must("PATCH", &format!("{PODS}/{name}/status"), status)
        .await;
}

async fn log(world: &World, path: &str) -> (u16, String) {
    let response = world.send("GET", &format!("{PODS}/{path}"), "", "").await;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(bytes.to_vec()).unwrap())
}

fn running() -> Value {
    json!({"state": {"running": {"startedAt": "2026-03-01T12:00:00Z"}}})
}

fn ended() -> Value {
    json!({"terminated": {"exitCode": 3, "reason": "Error", "startedAt": "2026-03-01T12:00:00Z",
        "finishedAt": "2026-03-01T12:00:07Z"}})
}

#[tokio::test(start_paused = true)]
async fn logs_of_simulated_pods_show_their_life() {
    let world = World::new(1);
    set_pod(&world, "a", running()).await;
    let first = "Pod default/a is scheduled to Node n\nimage i is pulled\ncontainer c is started\n\
        this is a simulation, no process runs: run-seconds=7\n";
    assert_eq!(log(&world, "a/log").await, (200, first.to_owned()));
    let last =
        "2026-03-01T12:00:00.000000000Z this is a simulation, no process runs: run-seconds=7\n";
    let stamped = log(&world, "a/log?timestamps=true&tailLines=1").await;
    assert_eq!(stamped, (200, last.to_owned()));
    assert_eq!(
        log(&world, "a/log?limitBytes=5").await,
        (200, "Pod d".to_owned())
    );
    let (code, refused) = log(&world, "a/log?previous=true").await;
    assert!(
        code == 400 && refused.contains("previous terminated container"),
        "{refused}"
    );

    set_status(&world, "a", json!({"state": ended()})).await;
    let end = "container c has ended with exit code 3 (Error)\n";
    // It is over, so there is nothing to follow.
    assert_eq!(
        log(&world, "a/log?follow=true").await,
        (200, format!("{first}{end}"))
    );

    let again = json!({"restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended()});
    set_status(&world, "a", again).await;
    assert_eq!(
        log(&world, "a/log?previous=true").await,
        (200, format!("{first}{end}"))
    );

    set_pod(
        &world,
        "b",
        json!({"state": {"waiting": {"reason": "ContainerCreating"}}}),
    )
    .await;
    let (code, refused) = log(&world, "b/log").await;
    assert!(
        code == 400 && refused.contains("is waiting to start: ContainerCreating"),
        "{refused}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_followed_log_ends_with_its_container_or_its_pod() {
    let world = World::new(1);
    for name in ["a", "b"] {
        set_pod(&world, name, running()).await;
    }
    let follow = |name: &str| format!("{PODS}/{name}/log?follow=true&tailLines=0");
    let (mut one, mut two) = (
        world.watch(&follow("a")).await,
        world.watch(&follow("b")).await,
    );
    set_status(&world, "a", json!({"state": ended()})).await;
    let line = one.line().await.unwrap();
    assert_eq!(line, b"container c has ended with exit code 3 (Error)\n");
    assert_eq!(one.line().await, None);
    world
        .must("DELETE", &format!("{PODS}/b"), Value::Null)
        .await;
    assert_eq!(two.line().await, None);
}

#[tokio::test(start_paused = true)]
async fn evictions_at_once_do_not_exceed_the_budget() {
    let world = Arc::new(World::new(1));
    for number in 0..10 {
        let labels = json!({"app": "a"});
        let name = format!("p{number}");
        set_pod(&world, &name, running()).await;
        let ready = json!({"metadata": {"labels": labels, "finalizers": ["example.com/a"]}});
        world.must("PATCH", &format!("{PODS}/{name}"), ready).await;
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        world
            .must("PATCH", &format!("{PODS}/{name}/status"), ready)
            .await;
    }
    let budget = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 6, "selector": {"matchLabels": {"app": "a"}}}});
    world.must("POST", BUDGETS, budget).await;
    let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 4, "currentHealthy": 10,
        "desiredHealthy": 6, "expectedPods": 10}});
    world
        .must("PATCH", &format!("{BUDGETS}/b/status"), status)
        .await;
    let evictions = (0..10).map(|number| {
        let world = world.clone();
        tokio::spawn(async move {
            let eviction = json!({"metadata": {"name": format!("p{number}")}});
            let path = format!("{PODS}/p{number}/eviction");
            world.call("POST", &path, eviction).await.0
        })
    });
    let mut codes = Vec::new();
    for eviction in evictions.collect::<Vec<_>>() {
        codes.push(eviction.await.unwrap());
    }
    codes.sort_unstable();
    assert_eq!(codes, [201, 201, 201, 201, 429, 429, 429, 429, 429, 429]);
    let budget = world
        .must("GET", &format!("{BUDGETS}/b"), Value::Null)
        .await;
    let disrupted = budget["status"]["disruptedPods"].as_object().unwrap();
    assert_eq!(
        (disrupted.len(), &budget["status"]["disruptionsAllowed"]),
        (4, &json!(0))
    );
}

#[tokio::test(start_paused = true)]
async fn scales_are_read_as_protobuf() {
    let world = World::new(1);
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template}});
    let path = "/apis/apps/v1/namespaces/default/deployments";
    world.must("POST", path, deployment).await;
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 3}});
    let bytes = caretaker_apiserver::protobuf::encode(&scale).unwrap();
    let scale_path = format!("{path}/a/scale");
    let protobuf = "application/vnd.kubernetes.protobuf";
    assert_eq!(
        world.put_bytes(&scale_path, protobuf, bytes.clone()).await,
        200
    );
    let stored = world.must("GET", &format!("{path}/a"), Value::Null).await;
    assert_eq!(stored["spec"]["replicas"], 3);
    // Every beginning of it is refused or read, and nothing panics.
    for end in 0..bytes.len() {
        let code = world
            .put_bytes(&scale_path, protobuf, bytes[..end].to_vec())
            .await;
        assert!((200..500).contains(&code), "{end}: {code}");
    }
}
