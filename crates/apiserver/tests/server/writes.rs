//! Tests of concurrent writes, watches, pages and warnings.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::World;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const TEAMS: &str = "/apis/example.com/v1/namespaces/default/teams";

const PATH: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(start_paused = true)]
async fn forty_concurrent_patches_succeed() {
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
async fn watch_from_a_list_gets_every_event_once() {
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

/// A client of a server that was restarted watches from a version of the earlier one. Its own version in a bookmark would
/// look like a sign of life.
#[tokio::test(start_paused = true)]
async fn watch_from_a_future_version_gets_no_bookmark() {
    let world = World::new(1);
    let (_, list) = world.call("GET", PATH, Value::Null).await;
    let revision: u64 = list["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    for (ahead, expected) in [(0, vec!["BOOKMARK"; 4]), (1_000, vec![])] {
        let asked = revision + ahead;
        let mut watch = world
            .watch(&format!(
                "{PATH}?watch=1&allowWatchBookmarks=1&resourceVersion={asked}&timeoutSeconds=200"
            ))
            .await;
        let mut seen = Vec::new();
        while let Some((kind, _)) = watch.event().await {
            seen.push(kind);
        }
        assert_eq!(seen, expected, "{ahead} ahead");
    }
}

#[tokio::test(start_paused = true)]
async fn watch_behind_the_history_ends_with_410() {
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
async fn pages_show_one_revision_during_writes() {
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
async fn expired_page_has_a_token_to_continue() {
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

/// The real server answers 422 on subresources too.
#[tokio::test(start_paused = true)]
async fn subresources_check_the_options_of_a_write() {
    let world = World::new(1);
    let pods = "/api/v1/namespaces/default/pods";
    let pod =
        json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    world.must("POST", pods, pod.clone()).await;
    let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}});
    let long = format!("fieldManager={}", "x".repeat(129));
    let unsupported = "fieldValidation: Unsupported value: \"X\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"";
    let too_long = "fieldManager: Too long: may not be more than 128 bytes";
    for (method, part, body, options) in [
        ("PUT", "status", pod, "UpdateOptions"),
        ("POST", "binding", binding, "CreateOptions"),
    ] {
        for (query, fault) in [("fieldValidation=X", unsupported), (&long, too_long)] {
            let path = format!("{pods}/a/{part}?{query}");
            let (code, status) = world.call(method, &path, body.clone()).await;
            assert_eq!(code, 422, "{path}: {status}");
            assert_eq!(
                status["message"],
                format!("{options}.meta.k8s.io \"\" is invalid: {fault}")
            );
        }
    }
}

/// The real server warns in this order, and on an update only about finalizers that are new.
#[tokio::test(start_paused = true)]
async fn warnings_are_about_body_then_owners_then_kind() {
    let world = World::new(1);
    let definition = json!({
        "metadata": {"name": "teams.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "teams", "singular": "team", "kind": "Team", "listKind": "TeamList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    world.must("POST", DEFINITIONS, definition).await;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"});
    let team = |finalizers: &[&str]| {
        json!({
            "apiVersion": "example.com/v1", "kind": "Team", "odd": 1,
            "metadata": {"name": "a", "ownerReferences": [owner, owner], "finalizers": finalizers},
        })
    };
    let create = warnings(&world, "POST", TEAMS, team(&["one"])).await;
    let path = format!("{TEAMS}/a");
    let update = warnings(&world, "PATCH", &path, team(&["one", "two"])).await;
    for (warnings, finalizer) in [(create, "one"), (update, "two")] {
        let begins = [
            "299 - \"unknown field \\\"odd\\\"\"".to_owned(),
            "299 - \".metadata.ownerReferences contains duplicate entries".to_owned(),
            format!("299 - \"metadata.finalizers: \\\"{finalizer}\\\": prefer"),
        ];
        assert_eq!(warnings.len(), begins.len(), "{warnings:?}");
        for (warning, begin) in warnings.iter().zip(&begins) {
            assert!(warning.starts_with(begin), "{warning} {begin}");
        }
    }
}

async fn warnings(world: &World, method: &str, path: &str, body: Value) -> Vec<String> {
    let content_type = if method == "PATCH" {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    let path = format!("{path}?fieldValidation=Warn");
    let response = world
        .send(method, &path, content_type, &body.to_string())
        .await;
    assert!(response.status().is_success(), "{}", response.status());
    let warnings = response.headers().get_all("warning").iter();
    warnings
        .map(|warning| warning.to_str().unwrap().to_owned())
        .collect()
}
