//! Events as users see them.

use caretaker_apiserver::{ApiServer, UserIdentity};
use caretaker_controllers::runtime::controller::{EventNote, EventSource, ObjectIdentity};
use caretaker_controllers::runtime::events::EventSink;
use caretaker_controllers::runtime::metrics::ControllerMetrics;
use caretaker_machinery::clock::{Clock, REAL_TIME};
use caretaker_machinery::rng::Rng;
use http::Method;
use serde_json::{Value, json};

use crate::driver_world::{DriverWorld, PATH, RequestFate, START, user};

const EVENTS: &str = "/api/v1/namespaces/default/events";

async fn events(world: &DriverWorld) -> Vec<Value> {
    let (_, list) = world.call(Method::GET, EVENTS, &Value::Null).await;
    list["items"].as_array().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn a_note_becomes_one_event() {
    let world = DriverWorld::new();
    world.create("noted-a", &["example.com/a"]).await;
    world.pass(1).await;
    let path = format!("{PATH}/noted-a");
    for data in ["b", "c"] {
        let touch = json!({"data": {"a": data}});
        world.call(Method::PATCH, &path, &touch).await;
        world.pass(1).await;
    }
    let found = events(&world).await;
    assert_eq!(found.len(), 1, "the state did not change");
    let event = &found[0];
    let (_, object) = world.call(Method::GET, &path, &Value::Null).await;
    let uid = &object["metadata"]["uid"];
    assert_eq!(
        event["involvedObject"],
        json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "noted-a", "uid": uid})
    );
    assert_eq!(event["reason"], "Noted");
    assert_eq!(event["type"], "Warning");
    assert_eq!(event["message"], "it has 1 finalizers");
    assert_eq!(event["count"], 1);
    assert_eq!(event["source"], json!({"component": "toy-controller"}));
    assert_eq!(event["firstTimestamp"], "2026-03-01T12:00:00Z");
    let name = event["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("noted-a."), "{name}");
}

#[tokio::test(start_paused = true)]
async fn a_state_that_comes_back_raises_the_count_of_its_event() {
    let world = DriverWorld::new();
    world.create("noted-a", &["example.com/a"]).await;
    world.pass(1).await;
    for finalizers in [
        json!(["example.com/a", "example.com/b"]),
        json!(["example.com/a"]),
    ] {
        let patch = json!({"metadata": {"finalizers": finalizers}});
        world
            .call(Method::PATCH, &format!("{PATH}/noted-a"), &patch)
            .await;
        world.pass(1).await;
    }
    let found = events(&world).await;
    let mut events: Vec<_> = found
        .iter()
        .map(|event| {
            (
                event["message"].as_str().unwrap(),
                event["count"].as_u64().unwrap(),
            )
        })
        .collect();
    events.sort_unstable();
    assert_eq!(
        events,
        [("it has 1 finalizers", 2), ("it has 2 finalizers", 1)]
    );
    let again = found.iter().find(|event| event["count"] == 2).unwrap();
    assert_eq!(again["firstTimestamp"], "2026-03-01T12:00:00Z");
    assert_eq!(again["lastTimestamp"], "2026-03-01T12:00:02Z");
}

#[tokio::test(start_paused = true)]
async fn events_are_limited_per_object() {
    let world = DriverWorld::new();
    for number in 0..40 {
        world.create(&format!("noted-{number}"), &[]).await;
    }
    world.pass(1).await;
    assert_eq!(events(&world).await.len(), 40);
    for round in 0..100 {
        let finalizers = if round % 2 == 0 {
            json!(["example.com/a"])
        } else {
            json!(null)
        };
        let patch = json!({"metadata": {"finalizers": finalizers}});
        world
            .call(Method::PATCH, &format!("{PATH}/noted-0"), &patch)
            .await;
        world.pass(1).await;
    }
    let of_one: u64 = events(&world)
        .await
        .iter()
        .filter(|event| event["involvedObject"]["name"] == "noted-0")
        .map(|event| event["count"].as_u64().unwrap())
        .sum();
    assert_eq!(of_one, 25);
    let dropped = r#"caretaker_events_dropped_total{reason="spam"} 76"#;
    assert!(
        world.metrics.encode().contains(dropped),
        "{}",
        world.metrics.encode()
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_about_a_name_that_is_no_dns_name_is_written() {
    let clock = Clock::driven(START.parse().unwrap(), REAL_TIME);
    let server = ApiServer::ephemeral(clock.clone(), Rng::seeded(7));
    let server = server.service(UserIdentity::admin());
    let client = kube::Client::new(server.clone(), "default");
    let (sink, recorder) = EventSink::new(client, clock, ControllerMetrics::new());
    tokio::spawn(recorder.run());
    let longest = "a".repeat(253);
    let names = ["with:colon", "Upper", &longest, "plain"];
    for name in names {
        let about = ObjectIdentity {
            api_version: "rbac.authorization.k8s.io/v1".to_owned(),
            kind: "ClusterRole".to_owned(),
            name: name.to_owned(),
            uid: format!("uid-of-{name}"),
            ..ObjectIdentity::default()
        };
        sink.emit(
            "toy-controller",
            EventNote::warning(about, "Noted", "it has an odd name".to_owned()),
        );
    }
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let (_, list) = user(&server, Method::GET, EVENTS, &Value::Null).await;
    let events = list["items"].as_array().unwrap();
    let mut about: Vec<&str> = events
        .iter()
        .map(|event| event["involvedObject"]["name"].as_str().unwrap())
        .collect();
    about.sort_unstable();
    assert_eq!(about, ["Upper", &longest, "plain", "with:colon"]);
}

#[tokio::test(start_paused = true)]
async fn events_on_success_wait_for_the_server_to_accept_the_write() {
    let world = DriverWorld::new();
    let mut refusals = 2;
    world.rule(move |method, _| {
        let is_refused = *method == Method::DELETE && refusals > 0;
        refusals -= usize::from(is_refused);
        match is_refused {
            true => RequestFate::Overtaken,
            false => RequestFate::Pass,
        }
    });
    world.create("doomed-noted", &[]).await;
    world.pass(20).await;
    assert_eq!(world.count("DELETE"), 3);
    assert!(!world.has("doomed-noted").await);
    let found = events(&world).await;
    assert_eq!(found.len(), 1, "reads and refused writes emit none");
    assert_eq!(found[0]["count"], 1);
}

#[tokio::test(start_paused = true)]
async fn an_event_names_its_own_source_and_the_part_of_the_object() {
    let clock = Clock::driven(START.parse().unwrap(), REAL_TIME);
    let server = ApiServer::ephemeral(clock.clone(), Rng::seeded(7));
    let server = server.service(UserIdentity::admin());
    let client = kube::Client::new(server.clone(), "default");
    let (sink, recorder) = EventSink::new(client, clock, ControllerMetrics::new());
    tokio::spawn(recorder.run());
    let about = ObjectIdentity {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: "default".to_owned(),
        name: "web".to_owned(),
        uid: "uid-of-web".to_owned(),
    };
    let note = EventNote {
        field_path: "spec.containers{c}".to_owned(),
        source: Some(EventSource {
            component: "kubelet",
            host: "node-a".to_owned(),
        }),
        ..EventNote::normal(about, "Started", "Container started".to_owned())
    };
    sink.emit("toy-controller", note);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let (_, list) = user(&server, Method::GET, EVENTS, &Value::Null).await;
    let event = &list["items"][0];
    assert_eq!(event["involvedObject"]["fieldPath"], "spec.containers{c}");
    assert_eq!(
        event["source"],
        json!({"component": "kubelet", "host": "node-a"})
    );
    assert_eq!(event["reportingComponent"], "kubelet");
    assert_eq!(event["reportingInstance"], "node-a");
    assert_eq!(event["type"], "Normal");
}
