//! Tests of the background tasks.

use std::num::NonZeroU32;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::client::World;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn mk_definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

fn mk_widget() -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}})
}

#[tokio::test(start_paused = true)]
async fn deleted_namespace_is_emptied_and_removed() {
    let world = World::new(1);
    world
        .must(
            "POST",
            "/api/v1/namespaces",
            json!({"metadata": {"name": "shop"}}),
        )
        .await;
    world
        .must(
            "POST",
            "/api/v1/namespaces/shop/configmaps",
            json!({"metadata": {"name": "a"}}),
        )
        .await;
    world
        .must(
            "POST",
            "/apis/batch/v1/namespaces/shop/jobs",
            json!({"metadata": {"name": "j"}, "spec": {"template": {"spec": {"restartPolicy": "Never",
                "containers": [{"name": "c", "image": "i"}]}}}}),
        )
        .await;
    world.must("POST", CRDS, mk_definition()).await;
    world
        .must(
            "POST",
            "/apis/example.com/v1/namespaces/shop/widgets",
            mk_widget(),
        )
        .await;
    let deleted = world
        .must("DELETE", "/api/v1/namespaces/shop", Value::Null)
        .await;
    assert_eq!(deleted["status"]["phase"], "Terminating");
    world.until_gone("/api/v1/namespaces/shop").await;
    for path in [
        "/api/v1/configmaps",
        "/apis/batch/v1/jobs",
        "/apis/example.com/v1/widgets",
    ] {
        assert_eq!(
            world.must("GET", path, Value::Null).await["items"],
            json!([]),
            "{path}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn conditions_of_a_namespace_list_remaining_objects() {
    let world = World::new(1);
    world
        .must(
            "POST",
            "/api/v1/namespaces",
            json!({"metadata": {"name": "shop"}}),
        )
        .await;
    let held = json!({"metadata": {"name": "a", "finalizers": ["x.io/y"]}});
    world
        .must("POST", "/api/v1/namespaces/shop/configmaps", held)
        .await;
    world
        .must("DELETE", "/api/v1/namespaces/shop", Value::Null)
        .await;
    tokio::time::sleep(Duration::from_secs(1)).await;

    let namespace = world
        .must("GET", "/api/v1/namespaces/shop", Value::Null)
        .await;
    let conditions = namespace["status"]["conditions"].as_array().unwrap();
    let message = |kind: &str| {
        conditions
            .iter()
            .find(|condition| condition["type"] == kind)
            .unwrap()["message"]
            .clone()
    };
    assert_eq!(
        message("NamespaceContentRemaining"),
        "Some resources are remaining: configmaps. has 1 resource instances"
    );
    assert_eq!(
        message("NamespaceFinalizersRemaining"),
        "Some content in the namespace has finalizers remaining: x.io/y in 1 resource instances"
    );
    let release = json!({"metadata": {"finalizers": null}});
    world
        .must("PATCH", "/api/v1/namespaces/shop/configmaps/a", release)
        .await;
    world.until_gone("/api/v1/namespaces/shop").await;
}

#[tokio::test(start_paused = true)]
async fn bound_pod_holds_its_namespace_until_its_grace_period_ends() {
    let world = World::new(1);
    world
        .must(
            "POST",
            "/api/v1/namespaces",
            json!({"metadata": {"name": "shop"}}),
        )
        .await;
    let containers = json!([{"name": "c", "image": "i"}]);
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": containers}});
    world
        .must("POST", "/api/v1/namespaces/shop/pods", pod)
        .await;
    world
        .must("DELETE", "/api/v1/namespaces/shop", Value::Null)
        .await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let pod = world
        .must("GET", "/api/v1/namespaces/shop/pods/p", Value::Null)
        .await;
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
    world
        .must(
            "DELETE",
            "/api/v1/namespaces/shop/pods/p",
            json!({"gracePeriodSeconds": 0}),
        )
        .await;
    world.until_gone("/api/v1/namespaces/shop").await;
}

#[tokio::test(start_paused = true)]
async fn deleted_definition_removes_its_objects_and_ends_watches() {
    let world = World::new(1);
    world.must("POST", CRDS, mk_definition()).await;
    world
        .must(
            "POST",
            "/apis/example.com/v1/namespaces/default/widgets",
            mk_widget(),
        )
        .await;
    let mut watch = world.watch("/apis/example.com/v1/widgets?watch=1").await;
    assert_eq!(watch.event().await.unwrap().0, "ADDED");
    world
        .must(
            "DELETE",
            &format!("{CRDS}/widgets.example.com"),
            Value::Null,
        )
        .await;
    world
        .until_gone(&format!("{CRDS}/widgets.example.com"))
        .await;
    assert_eq!(watch.event().await.unwrap().0, "DELETED");
    assert_eq!(watch.event().await, None);
    assert_eq!(
        world
            .call("GET", "/apis/example.com/v1/widgets", Value::Null)
            .await
            .0,
        404
    );
}

/// Upstream's conformance specs write such a status.
#[tokio::test(start_paused = true)]
async fn definition_whose_conditions_were_removed_can_be_deleted() {
    let world = World::new(1);
    world.must("POST", CRDS, mk_definition()).await;
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    world.must("POST", widgets, mk_widget()).await;
    let path = format!("{CRDS}/widgets.example.com");
    let status = json!({"status": {"conditions": []}});
    let patched = world.must("PATCH", &format!("{path}/status"), status).await;
    assert_eq!(patched["status"]["conditions"], Value::Null);
    world.must("DELETE", &path, Value::Null).await;
    world.until_gone(&path).await;
    assert_eq!(world.call("GET", widgets, Value::Null).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn object_with_finalizer_holds_its_definition() {
    let world = World::new(1);
    world.must("POST", CRDS, mk_definition()).await;
    let mut widget = mk_widget();
    widget["metadata"]["finalizers"] = json!(["x.io/y"]);
    let path = "/apis/example.com/v1/namespaces/default/widgets";
    world.must("POST", path, widget).await;
    world
        .must(
            "DELETE",
            &format!("{CRDS}/widgets.example.com"),
            Value::Null,
        )
        .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let widget = world.must("GET", &format!("{path}/w"), Value::Null).await;
    assert!(widget["metadata"]["deletionTimestamp"].is_string());
    world
        .must(
            "PATCH",
            &format!("{path}/w"),
            json!({"metadata": {"finalizers": null}}),
        )
        .await;
    world
        .until_gone(&format!("{CRDS}/widgets.example.com"))
        .await;
}

#[tokio::test(start_paused = true)]
async fn events_expire_an_hour_after_their_last_write() {
    let world = World::new(1);
    let event = mk_event(&world).await;
    tokio::time::sleep(Duration::from_mins(40)).await;
    world.must("PATCH", &event, json!({"message": "n"})).await;
    tokio::time::sleep(Duration::from_mins(59)).await;
    assert_eq!(world.call("GET", &event, Value::Null).await.0, 200);
    tokio::time::sleep(Duration::from_mins(1)).await;
    world.until_gone(&event).await;
}

#[tokio::test(start_paused = true)]
async fn events_outlive_days_of_a_clock_that_jumps_or_runs_fast() {
    for speed in [1, 600] {
        let speed = NonZeroU32::new(speed).unwrap();
        let world = World::at_speed(1, speed);
        let event = mk_event(&world).await;
        world.clock.jump(SignedDuration::from_hours(48)).unwrap();
        tokio::time::sleep(Duration::from_mins(59)).await;
        assert_eq!(world.call("GET", &event, Value::Null).await.0, 200);
        tokio::time::sleep(Duration::from_mins(1)).await;
        world.until_gone(&event).await;
    }
}

/// Creates an Event, and returns its path.
async fn mk_event(world: &World) -> String {
    let path = "/api/v1/namespaces/default/events";
    let event = json!({"metadata": {"name": "e"}, "message": "m"});
    world.must("POST", path, event).await;
    format!("{path}/e")
}
