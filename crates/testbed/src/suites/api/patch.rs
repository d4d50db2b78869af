//! Patch: JSON merge patch and JSON patch, and what all patches have in common. Strategic merge patches have their own theme.

use futures::future::join_all;
use http::Method;
use serde_json::json;

use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::{Ask, Session};

pub(super) const CASES: &[TestCase] = &[
    api_case!(merge_patch_sets_replaces_and_deletes),
    api_case!(merge_patch_that_changes_nothing_writes_nothing),
    api_case!(merge_patch_replaces_lists),
    api_case!(merge_patch_that_is_no_object_is_refused),
    api_case!(merge_patch_with_wrong_types_is_422),
    api_case!(merge_patch_of_a_missing_object_is_404),
    api_case!(merge_patch_with_a_resource_version_is_conditional),
    api_case!(merge_patch_with_another_uid_is_422),
    api_case!(merge_patch_of_name_or_namespace_is_refused),
    api_case!(merge_patch_of_kind_is_refused),
    api_case!(merge_patch_cannot_touch_system_fields),
    api_case!(merge_patch_of_status_through_the_main_resource_is_ignored),
    api_case!(merge_patch_of_the_status_subresource),
    api_case!(merge_patch_raises_the_generation_when_the_spec_changes),
    api_case!(merge_patch_dry_run_stores_nothing),
    api_case!(merge_patches_in_parallel_all_succeed),
    api_case!(merge_patch_with_unknown_fields_warns_or_is_422_when_strict),
    api_case!(patch_of_another_content_type_is_415),
    api_case!(patch_with_force_is_422_unless_it_applies),
    api_case!(json_patch_operations),
    api_case!(json_patch_that_fails_a_test_is_422),
    api_case!(json_patch_of_missing_places),
    api_case!(json_patch_that_is_malformed),
    api_case!(json_patch_is_all_or_nothing),
    api_case!(json_patch_of_the_whole_object),
    api_case!(json_patch_with_a_test_of_the_version),
    api_case!(json_patch_that_changes_nothing_writes_nothing),
];

async fn merge_patch_sets_replaces_and_deletes(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    for (note, patch) in [
        ("", json!({"data": {"k": "2", "l": "3"}})),
        (
            "",
            json!({"data": {"k": null}, "metadata": {"labels": {"x": "y"}}}),
        ),
        (
            "nulls in what is new are dropped",
            json!({"binaryData": {"a": null}}),
        ),
        ("", json!({"data": null, "metadata": {"labels": null}})),
    ] {
        s.note(note).merge_patch(&CONFIG_MAPS, "a", patch).await;
    }
}

async fn merge_patch_that_changes_nothing_writes_nothing(s: &mut Session) {
    let made = s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let mut watch = s.watch_from(&CONFIG_MAPS, &made).await;
    for patch in [
        json!({}),
        json!({"data": {"k": "v", "missing": null}}),
        json!({"metadata": {"labels": {}}}),
    ] {
        s.merge_patch(&CONFIG_MAPS, "a", patch).await;
    }
    s.take(&mut watch, 0).await;
}

async fn merge_patch_replaces_lists(s: &mut Session) {
    s.post(&CONFIG_MAPS, with(mk_config_map("a"), json!({"metadata": {"finalizers": ["example.com/a", "example.com/b"], "ownerReferences": [mk_owner("o", 1)]}}))).await;
    s.merge_patch(&CONFIG_MAPS, "a", json!({"metadata": {"finalizers": ["example.com/c"], "ownerReferences": [mk_owner("p", 2)]}})).await;
    let patch = json!({"metadata": {"finalizers": [], "ownerReferences": null}});
    s.merge_patch(&CONFIG_MAPS, "a", patch).await;
}

async fn merge_patch_that_is_no_object_is_refused(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let path = s.item(&CONFIG_MAPS, "a");
    for body in ["", "{", "[]", "null", "1", "\"x\"", "{}{}"] {
        let ask = Ask::with_body(Method::PATCH, &path, "application/merge-patch+json", body);
        s.ask(ask).await;
    }
}

async fn merge_patch_with_wrong_types_is_422(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    for patch in [
        json!({"data": "text"}),
        json!({"data": {"k": 1}}),
        json!({"metadata": {"labels": {"a": 1}}}),
        json!({"metadata": {"labels": {"a": "not valid"}}}),
        json!({"metadata": null}),
    ] {
        s.merge_patch(&CONFIG_MAPS, "a", patch).await;
    }
}

async fn merge_patch_of_a_missing_object_is_404(s: &mut Session) {
    s.merge_patch(&CONFIG_MAPS, "a", json!({})).await;
    s.json_patch(&CONFIG_MAPS, "a", json!([])).await;
    s.strategic_patch(&DEPLOYMENTS, "a", json!({})).await;
}

async fn merge_patch_with_a_resource_version_is_conditional(s: &mut Session) {
    let old = s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let patch =
        |rv: &str, value: &str| json!({"metadata": {"resourceVersion": rv}, "data": {"k": value}});
    for (note, patch) in [
        ("", patch(old.rv(), "2")),
        ("stale", patch(old.rv(), "3")),
        (
            "stale, and nothing else",
            json!({"metadata": {"resourceVersion": old.rv()}}),
        ),
        ("garbage", patch("abc", "3")),
        (
            "removed",
            json!({"metadata": {"resourceVersion": null}, "data": {"k": "4"}}),
        ),
    ] {
        s.note(note).merge_patch(&CONFIG_MAPS, "a", patch).await;
    }
}

async fn merge_patch_with_another_uid_is_422(s: &mut Session) {
    let made = s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    for (note, patch) in [
        (
            "",
            json!({"metadata": {"uid": "00000000-0000-0000-0000-000000000001"}}),
        ),
        (
            "its own",
            json!({"metadata": {"uid": made.uid()}, "data": {"k": "2"}}),
        ),
        (
            "none",
            json!({"metadata": {"uid": null}, "data": {"k": "3"}}),
        ),
    ] {
        s.note(note).merge_patch(&CONFIG_MAPS, "a", patch).await;
    }
}

async fn merge_patch_of_name_or_namespace_is_refused(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    for patch in [
        json!({"metadata": {"name": "b"}}),
        json!({"metadata": {"namespace": "other"}}),
        json!({"metadata": {"name": null}}),
        json!({"metadata": {"namespace": null}, "data": {"k": "2"}}),
    ] {
        s.merge_patch(&CONFIG_MAPS, "a", patch).await;
    }
}

async fn merge_patch_of_kind_is_refused(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    for patch in [
        json!({"kind": "Secret"}),
        json!({"apiVersion": "v2"}),
        json!({"kind": null, "apiVersion": null, "data": {"k": "2"}}),
    ] {
        s.merge_patch(&CONFIG_MAPS, "a", patch).await;
    }
}

async fn merge_patch_cannot_touch_system_fields(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    for (note, patch) in [
        (
            "",
            json!({"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}}),
        ),
        ("", json!({"metadata": {"deletionGracePeriodSeconds": 5}})),
        (
            "ignored",
            json!({"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}}),
        ),
        (
            "ignored",
            json!({"metadata": {"creationTimestamp": null, "generation": 9, "selfLink": "/x"}}),
        ),
        (
            "not a time",
            json!({"metadata": {"creationTimestamp": "yesterday"}}),
        ),
    ] {
        s.note(note).merge_patch(&CONFIG_MAPS, "a", patch).await;
    }
}

async fn merge_patch_of_status_through_the_main_resource_is_ignored(s: &mut Session) {
    s.hide(&["spec"]);
    s.post(&DEPLOYMENTS, mk_deployment("a")).await;
    s.merge_patch(&DEPLOYMENTS, "a", json!({"status": {"replicas": 3}}))
        .await;
    s.post(&PODS, mk_pod("a")).await;
    s.merge_patch(&PODS, "a", json!({"status": {"phase": "Running"}}))
        .await;
}

async fn merge_patch_of_the_status_subresource(s: &mut Session) {
    s.hide(&["spec"]);
    s.post(&DEPLOYMENTS, mk_deployment("a")).await;
    s.merge_patch(&DEPLOYMENTS, "a/status", json!({"status": {"replicas": 3}, "spec": {"replicas": 9}, "metadata": {"labels": {"x": "y"}, "annotations": {"x": "y"}}})).await;
    let condition = json!({"type": "Available", "status": "True", "reason": "r", "message": "m"});
    s.json_patch(
        &DEPLOYMENTS,
        "a/status",
        json!([{"op": "add", "path": "/status/conditions", "value": [condition]}]),
    )
    .await;
    s.strategic_patch(
        &DEPLOYMENTS,
        "a/status",
        json!({"status": {"conditions": [{"type": "Available", "status": "False"}]}}),
    )
    .await;
    let patch = json!({"status": {"replicas": 4}});
    s.merge_patch(&DEPLOYMENTS, "a/status?dryRun=All", patch)
        .await;
    s.get(&DEPLOYMENTS, "a").await;
}

async fn merge_patch_raises_the_generation_when_the_spec_changes(s: &mut Session) {
    s.hide(&["spec", "status"]);
    s.post(&DEPLOYMENTS, mk_deployment("a")).await;
    for (note, patch) in [
        ("spec", json!({"spec": {"replicas": 2}})),
        ("the same spec", json!({"spec": {"replicas": 2}})),
        ("labels", json!({"metadata": {"labels": {"x": "y"}}})),
        (
            "annotations",
            json!({"metadata": {"annotations": {"x": "y"}}}),
        ),
    ] {
        s.note(note).merge_patch(&DEPLOYMENTS, "a", patch).await;
    }
    s.post(&REPLICA_SETS, mk_workload("ReplicaSet", "a")).await;
    let patch = json!({"metadata": {"annotations": {"x": "y"}}});
    s.note("annotations")
        .merge_patch(&REPLICA_SETS, "a", patch)
        .await;
}

async fn merge_patch_dry_run_stores_nothing(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.merge_patch(&CONFIG_MAPS, "a?dryRun=All", json!({"data": {"k": "2"}}))
        .await;
    s.get(&CONFIG_MAPS, "a").await;
    s.merge_patch(&CONFIG_MAPS, "a?dryRun=Some", json!({"data": {"k": "2"}}))
        .await;
}

async fn merge_patches_in_parallel_all_succeed(s: &mut Session) {
    /// Enough to collide many times.
    const PATCHES: usize = 40;
    s.post(&CONFIG_MAPS, mk_object("v1", "ConfigMap", "a"))
        .await;
    let path = s.item(&CONFIG_MAPS, "a");
    let patches = (0..PATCHES).map(|n| {
        let body = json!({"data": {format!("k{n}"): "v"}}).to_string();
        s.quietly(Ask::with_body(
            Method::PATCH,
            &path,
            "application/merge-patch+json",
            body,
        ))
    });
    let good = join_all(patches)
        .await
        .iter()
        .filter(|answer| answer.status == 200)
        .count();
    let after = s.quietly(Ask::get(&path)).await;
    let keys = after.body["data"]
        .as_object()
        .map_or(0, serde_json::Map::len);
    s.record(json!({"patches": PATCHES, "answered 200": good, "keys": keys}));
}

async fn merge_patch_with_unknown_fields_warns_or_is_422_when_strict(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let odd = json!({"nope": 1, "data": {"k": "2"}});
    s.merge_patch(&CONFIG_MAPS, "a?fieldValidation=Strict", odd.clone())
        .await;
    s.merge_patch(&CONFIG_MAPS, "a?fieldValidation=Ignore", odd.clone())
        .await;
    s.merge_patch(&CONFIG_MAPS, "a", odd).await;
}

async fn patch_of_another_content_type_is_415(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let path = s.item(&CONFIG_MAPS, "a");
    for kind in [
        "application/json",
        "application/yaml",
        "text/plain",
        "application/merge-patch+xml",
    ] {
        s.ask(Ask::with_body(Method::PATCH, &path, kind, "{}"))
            .await;
    }
    s.note("none")
        .ask(Ask::new(Method::PATCH, &path).body("{}"))
        .await;
    let ask = Ask::with_body(
        Method::PATCH,
        &path,
        "application/merge-patch+json; charset=utf-8",
        "{}",
    );
    s.note("with a parameter").ask(ask).await;
}

async fn patch_with_force_is_422_unless_it_applies(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.merge_patch(&CONFIG_MAPS, "a?force=true", json!({"data": {"k": "2"}}))
        .await;
    s.json_patch(&CONFIG_MAPS, "a?force=false", json!([])).await;
    s.merge_patch(&CONFIG_MAPS, "a?fieldManager=tab%09", json!({}))
        .await;
}

async fn json_patch_operations(s: &mut Session) {
    let changes = json!({"metadata": {"finalizers": ["example.com/a"]}});
    s.post(&CONFIG_MAPS, with(mk_config_map("a"), changes))
        .await;
    let patches = [
        json!([{"op": "add", "path": "/data/l", "value": "3"}]),
        json!([{"op": "add", "path": "/data/k", "value": "over"}]),
        json!([{"op": "replace", "path": "/data/k", "value": "2"}]),
        json!([{"op": "copy", "from": "/data/k", "path": "/data/copied"}]),
        json!([{"op": "move", "from": "/data/copied", "path": "/data/moved"}]),
        json!([{"op": "test", "path": "/data/moved", "value": "2"}, {"op": "remove", "path": "/data/moved"}]),
        json!([{"op": "add", "path": "/data/a~1b~0c", "value": "x"}]),
        json!([{"op": "add", "path": "/metadata/labels", "value": {"a/b": "c"}}]),
        json!([{"op": "remove", "path": "/metadata/labels/a~1b"}]),
        json!([{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/z"}]),
        json!([{"op": "add", "path": "/metadata/finalizers/0", "value": "example.com/first"}]),
        json!([{"op": "replace", "path": "/metadata/finalizers/1", "value": "example.com/second"}]),
        json!([{"op": "remove", "path": "/metadata/finalizers/-1"}]),
    ];
    for patch in patches {
        s.json_patch(&CONFIG_MAPS, "a", patch).await;
    }
}

async fn json_patch_that_fails_a_test_is_422(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    for (note, patch) in [
        (
            "",
            json!([{"op": "test", "path": "/data/k", "value": "other"}]),
        ),
        (
            "",
            json!([{"op": "test", "path": "/data/missing", "value": "v"}]),
        ),
        (
            "an absent place equals null",
            json!([{"op": "test", "path": "/data/missing", "value": null}]),
        ),
        (
            "",
            json!([{"op": "test", "path": "/data", "value": {"k": "v"}}]),
        ),
    ] {
        s.note(note).json_patch(&CONFIG_MAPS, "a", patch).await;
    }
}

async fn json_patch_of_missing_places(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    for operation in [
        json!({"op": "remove", "path": "/data/missing"}),
        json!({"op": "replace", "path": "/data/missing", "value": "x"}),
        json!({"op": "add", "path": "/missing/place", "value": "x"}),
        json!({"op": "copy", "from": "/missing", "path": "/data/x"}),
        json!({"op": "remove", "path": "/metadata/finalizers/0"}),
        json!({"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/a"}),
    ] {
        s.json_patch(&CONFIG_MAPS, "a", json!([operation])).await;
    }
}

async fn json_patch_that_is_malformed(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    for patch in [
        json!({"op": "remove", "path": "/data"}),
        json!("text"),
        json!(null),
        json!(["text"]),
        json!([{"op": "conjure", "path": "/data"}]),
        json!([{"path": "/data", "value": {}}]),
        json!([{"op": "remove"}]),
        json!([{"op": "add", "path": "data/x", "value": "y"}]),
        json!([{"op": "add", "path": "/data/x"}]),
    ] {
        s.json_patch(&CONFIG_MAPS, "a", patch).await;
    }
    let path = s.item(&CONFIG_MAPS, "a");
    let ask = Ask::with_body(Method::PATCH, path, "application/json-patch+json", "[");
    s.ask(ask).await;
}

async fn json_patch_is_all_or_nothing(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let patch = json!([{"op": "replace", "path": "/data/k", "value": "2"}, {"op": "remove", "path": "/data/missing"}]);
    s.json_patch(&CONFIG_MAPS, "a", patch).await;
    s.get(&CONFIG_MAPS, "a").await;
}

async fn json_patch_of_the_whole_object(s: &mut Session) {
    let made = s.post(&CONFIG_MAPS, mk_config_map("a")).await.body;
    for patch in [
        json!([{"op": "replace", "path": "", "value": with(made, json!({"data": {"k": "2"}}))}]),
        json!([{"op": "remove", "path": ""}]),
        json!([{"op": "remove", "path": "/metadata"}]),
        json!([{"op": "replace", "path": "/metadata/name", "value": "b"}]),
    ] {
        s.json_patch(&CONFIG_MAPS, "a", patch).await;
    }
}

async fn json_patch_with_a_test_of_the_version(s: &mut Session) {
    let old = s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let patch = |rv: &str, value: &str| json!([{"op": "test", "path": "/metadata/resourceVersion", "value": rv}, {"op": "replace", "path": "/data/k", "value": value}]);
    s.json_patch(&CONFIG_MAPS, "a", patch(old.rv(), "2")).await;
    s.note("stale")
        .json_patch(&CONFIG_MAPS, "a", patch(old.rv(), "3"))
        .await;
    s.note("set to a stale one").json_patch(&CONFIG_MAPS, "a", json!([{"op": "replace", "path": "/metadata/resourceVersion", "value": old.rv()}, {"op": "replace", "path": "/data/k", "value": "4"}])).await;
}

async fn json_patch_that_changes_nothing_writes_nothing(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.json_patch(&CONFIG_MAPS, "a", json!([])).await;
    let patch = json!([{"op": "replace", "path": "/data/k", "value": "v"}]);
    s.json_patch(&CONFIG_MAPS, "a", patch).await;
    s.json_patch(&CONFIG_MAPS, "a", json!([{"op": "replace", "path": "/data/k", "value": "x"}, {"op": "replace", "path": "/data/k", "value": "v"}])).await;
}
