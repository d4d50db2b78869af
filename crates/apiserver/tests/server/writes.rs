//! Writers that meet, and watchers that see everything once.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::World;

const PATH: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(start_paused = true)]
async fn forty_patches_at_once_all_succeed() {
    let world = Arc::new(World::new(1));
    world
        .must("POST", PATH, json!({"metadata": {"name": "a"}}))
        .await;
    let patches = (0..40).map(|key| {
        let world = world.clone();
        tokio::spawn(async move {
            let patch = json!({"data": {format!("k{key}"): "v"}});
            world.call("PATCH", &format!("{PATH}/a"), patch).await.0
        })
    });
    for patch in patches.collect::<Vec<_>>() {
        assert_eq!(patch.await.unwrap(), 200);
    }
    let object = world.must("GET", &format!("{PATH}/a"), Value::Null).await;
    assert_eq!(object["data"].as_object().unwrap().len(), 40);
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_list_misses_nothing_and_repeats_nothing() {
    let world = World::new(1);
    for name in ["a", "b"] {
        world
            .must("POST", PATH, json!({"metadata": {"name": name}}))
            .await;
    }
    let list = world.must("GET", PATH, Value::Null).await;
    let revision = list["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();
    world
        .must("PATCH", &format!("{PATH}/a"), json!({"data": {"k": "v"}}))
        .await;
    let mut watch = world
        .watch(&format!(
            "{PATH}?watch=1&resourceVersion={revision}&timeoutSeconds=5"
        ))
        .await;
    world
        .must("DELETE", &format!("{PATH}/b"), Value::Null)
        .await;
    let mut seen = Vec::new();
    while let Some((kind, object)) = watch.event().await {
        seen.push(format!(
            "{kind} {}",
            object["metadata"]["name"].as_str().unwrap()
        ));
    }
    assert_eq!(seen, ["MODIFIED a", "DELETED b"]);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_sleeps_too_long_is_cut_with_410() {
    let world = World::new(1);
    world
        .must("POST", PATH, json!({"metadata": {"name": "a"}}))
        .await;
    let mut watch = world
        .watch(&format!("{PATH}?watch=1&timeoutSeconds=100000"))
        .await;
    assert_eq!(watch.event().await.unwrap().0, "ADDED");
    for round in 0..10_100 {
        world
            .must(
                "PATCH",
                &format!("{PATH}/a"),
                json!({"data": {"k": round.to_string()}}),
            )
            .await;
        if round == 100 {
            tokio::time::sleep(Duration::from_secs(80)).await;
        }
    }
    tokio::time::sleep(Duration::from_secs(80)).await;
    world
        .must(
            "PATCH",
            &format!("{PATH}/a"),
            json!({"data": {"k": "last"}}),
        )
        .await;
    let (kind, status) = watch.event().await.unwrap();
    assert_eq!(
        (kind.as_str(), status["code"].as_u64()),
        ("ERROR", Some(410))
    );
    assert_eq!(watch.event().await, None);
}

#[tokio::test(start_paused = true)]
async fn pages_show_one_revision_while_others_write() {
    let world = World::new(1);
    for name in ["a", "b", "c", "d", "e"] {
        world
            .must(
                "POST",
                PATH,
                json!({"metadata": {"name": name}, "data": {"k": "old"}}),
            )
            .await;
    }
    let first = world
        .must("GET", &format!("{PATH}?limit=2"), Value::Null)
        .await;
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    world
        .must("DELETE", &format!("{PATH}/c"), Value::Null)
        .await;
    world
        .must("PATCH", &format!("{PATH}/d"), json!({"data": {"k": "new"}}))
        .await;
    world
        .must("POST", PATH, json!({"metadata": {"name": "bb"}}))
        .await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let rest = world
        .must(
            "GET",
            &format!("{PATH}?limit=9&continue={token}"),
            Value::Null,
        )
        .await;
    let names: Vec<&str> = rest["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["c", "d", "e"]);
    assert_eq!(rest["items"][1]["data"]["k"], "old");
    assert_eq!(
        rest["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_expired_page_offers_where_to_go_on() {
    let world = World::new(1);
    for name in ["a", "b", "c"] {
        world
            .must("POST", PATH, json!({"metadata": {"name": name}}))
            .await;
    }
    let first = world
        .must("GET", &format!("{PATH}?limit=1"), Value::Null)
        .await;
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    for round in 0..10_010 {
        world
            .must(
                "PATCH",
                &format!("{PATH}/a"),
                json!({"data": {"k": round.to_string()}}),
            )
            .await;
    }
    tokio::time::sleep(Duration::from_secs(80)).await;
    world
        .must(
            "PATCH",
            &format!("{PATH}/a"),
            json!({"data": {"k": "last"}}),
        )
        .await;
    let (code, expired) = world
        .call(
            "GET",
            &format!("{PATH}?limit=1&continue={token}"),
            Value::Null,
        )
        .await;
    assert_eq!((code, expired["reason"].as_str()), (410, Some("Expired")));
    let token = expired["metadata"]["continue"].as_str().unwrap();
    let rest = world
        .must("GET", &format!("{PATH}?continue={token}"), Value::Null)
        .await;
    assert_eq!(rest["items"].as_array().unwrap().len(), 2);
}
