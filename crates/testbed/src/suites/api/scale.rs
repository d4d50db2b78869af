//! The subresource `scale` of workloads and of custom resources.

use http::Method;
use serde_json::{Value, json};

use super::crd::{define, gadgets, group};
use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::{Ask, Session};

pub(super) const CASES: &[TestCase] = &[
    api_case!(scale_of_each_workload_is_read_and_written),
    api_case!(scale_of_a_missing_object_is_404),
    api_case!(scale_counts_the_generation_and_knows_no_zero),
    api_case!(scale_with_a_version_or_a_uid_is_conditional),
    api_case!(scale_takes_all_patches),
    api_case!(scale_that_is_negative_or_malformed_is_refused),
    api_case!(scale_of_another_kind_or_name_is_400),
    api_case!(scale_ignores_metadata_and_status),
    api_case!(scale_of_other_methods_is_405),
    api_case!(scale_as_table_metadata_and_yaml),
    api_case!(scale_shows_the_selector_as_text),
    api_case!(crd_with_bad_scale_paths_is_422, Crds),
    api_case!(custom_scale_is_read_and_written, Crds),
    api_case!(custom_scale_without_replicas, Crds),
    api_case!(custom_scale_is_refused, Crds),
    api_case!(custom_objects_with_bad_replicas_are_422, Crds),
];

const WORKLOADS: [(Resource, &str); 3] = [
    (DEPLOYMENTS, "Deployment"),
    (REPLICA_SETS, "ReplicaSet"),
    (STATEFUL_SETS, "StatefulSet"),
];

fn mk_scale(name: &str, replicas: i64) -> Value {
    with(
        mk_object("autoscaling/v1", "Scale", name),
        json!({"spec": {"replicas": replicas}}),
    )
}

fn mk_sized(kind: &str, name: &str) -> Value {
    with(mk_workload(kind, name), json!({"spec": {"replicas": 2}}))
}

fn replicas(count: &Value) -> Value {
    json!({"spec": {"replicas": count}})
}

/// Generation and replicas of a workload.
fn sized(body: &Value) -> Value {
    json!([body["metadata"]["generation"], body["spec"]["replicas"]])
}

async fn scale_of_each_workload_is_read_and_written(s: &mut Session) {
    for (resource, kind) in &WORKLOADS {
        let path = s.path(resource);
        s.quietly(Ask::post(&path, &mk_sized(kind, "a"))).await;
        s.get(resource, "a/scale").await;
        s.put(resource, "a/scale", mk_scale("a", 3)).await;
        s.merge_patch(resource, "a/scale", replicas(&json!(4)))
            .await;
    }
    let controller = with(
        mk_object("v1", "ReplicationController", "a"),
        json!({"spec": {"replicas": 2, "selector": {"app": "a"},
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": mk_pod_spec()}}}),
    );
    let path = s.path(&REPLICATION_CONTROLLERS);
    s.quietly(Ask::post(&path, &controller)).await;
    s.get(&REPLICATION_CONTROLLERS, "a/scale").await;
    s.put(&REPLICATION_CONTROLLERS, "a/scale", mk_scale("a", 3))
        .await;
    s.merge_patch(&REPLICATION_CONTROLLERS, "a/scale", replicas(&json!(4)))
        .await;
}

async fn scale_of_a_missing_object_is_404(s: &mut Session) {
    for (resource, _) in &WORKLOADS {
        s.get(resource, "a/scale").await;
        s.put(resource, "a/scale", mk_scale("a", 3)).await;
        s.merge_patch(resource, "a/scale", json!({})).await;
    }
}

async fn scale_counts_the_generation_and_knows_no_zero(s: &mut Session) {
    let path = s.path(&DEPLOYMENTS);
    s.quietly(Ask::post(&path, &mk_sized("Deployment", "a")))
        .await;
    for (note, scale) in [
        ("", mk_scale("a", 3)),
        ("the same", mk_scale("a", 3)),
        ("zero", mk_scale("a", 0)),
        ("no replicas", with(mk_scale("a", 0), json!({"spec": null}))),
    ] {
        s.note(note).put(&DEPLOYMENTS, "a/scale", scale).await;
        s.ask(Ask::get(format!("{path}/a")).viewed(sized)).await;
    }
    s.merge_patch(&DEPLOYMENTS, "a/scale", replicas(&json!(1)))
        .await;
    s.merge_patch(&DEPLOYMENTS, "a/scale", replicas(&Value::Null))
        .await;
    s.put(&DEPLOYMENTS, "a/scale?dryRun=All", mk_scale("a", 9))
        .await;
    s.ask(Ask::get(format!("{path}/a")).viewed(sized)).await;
}

async fn scale_with_a_version_or_a_uid_is_conditional(s: &mut Session) {
    let path = s.path(&DEPLOYMENTS);
    s.quietly(Ask::post(&path, &mk_sized("Deployment", "a")))
        .await;
    let old = s.get(&DEPLOYMENTS, "a/scale").await;
    let named = |field: &str, value: &str| json!({"metadata": {field: value}});
    let other = "00000000-0000-0000-0000-000000000001";
    for (note, changes) in [
        ("its own", named("resourceVersion", old.rv())),
        ("stale", named("resourceVersion", old.rv())),
        ("garbage", named("resourceVersion", "abc")),
        ("its own", named("uid", old.uid())),
        ("another", named("uid", other)),
    ] {
        let count = if note == "its own" { 3 } else { 5 };
        let scale = with(mk_scale("a", count), changes.clone());
        s.note(note).put(&DEPLOYMENTS, "a/scale", scale).await;
        if note != "its own" {
            s.merge_patch(&DEPLOYMENTS, "a/scale", changes).await;
        }
    }
}

async fn scale_takes_all_patches(s: &mut Session) {
    let path = s.path(&DEPLOYMENTS);
    s.quietly(Ask::post(&path, &mk_sized("Deployment", "a")))
        .await;
    s.strategic_patch(&DEPLOYMENTS, "a/scale", replicas(&json!(3)))
        .await;
    let replace = json!([{"op": "replace", "path": "/spec/replicas", "value": 4}]);
    s.json_patch(&DEPLOYMENTS, "a/scale", replace).await;
    let test = json!([{"op": "test", "path": "/spec/replicas", "value": 1}]);
    s.json_patch(&DEPLOYMENTS, "a/scale", test).await;
    let path = s.item(&DEPLOYMENTS, "a/scale");
    s.ask(Ask::with_body(Method::PATCH, path, "text/plain", "{}"))
        .await;
}

async fn scale_that_is_negative_or_malformed_is_refused(s: &mut Session) {
    let path = s.path(&DEPLOYMENTS);
    s.quietly(Ask::post(&path, &mk_sized("Deployment", "a")))
        .await;
    for count in [json!(-1), json!("x"), json!(5_000_000_000_i64), json!(1.5)] {
        let scale = with(mk_scale("a", 1), replicas(&count));
        s.put(&DEPLOYMENTS, "a/scale", scale).await;
    }
    s.merge_patch(&DEPLOYMENTS, "a/scale", replicas(&json!(-1)))
        .await;
    let labels = json!({"metadata": {"labels": {"a": "b c"}}});
    s.put(&DEPLOYMENTS, "a/scale", with(mk_scale("a", 1), labels))
        .await;
    let unknown = with(mk_scale("a", 3), json!({"foo": 1}));
    s.put(&DEPLOYMENTS, "a/scale", unknown.clone()).await;
    s.put(&DEPLOYMENTS, "a/scale?fieldValidation=Strict", unknown)
        .await;
    s.merge_patch(&DEPLOYMENTS, "a/scale", json!({"spec": {"foo": 1}}))
        .await;
}

async fn scale_of_another_kind_or_name_is_400(s: &mut Session) {
    let path = s.path(&DEPLOYMENTS);
    s.quietly(Ask::post(&path, &mk_sized("Deployment", "a")))
        .await;
    for (note, changes) in [
        ("another name", json!({"metadata": {"name": "b"}})),
        ("no name", json!({"metadata": {"name": null}})),
        ("another namespace", json!({"metadata": {"namespace": "b"}})),
        ("unknown kind", json!({"kind": "Deployment"})),
        (
            "another kind",
            json!({"apiVersion": "apps/v1", "kind": "Deployment"}),
        ),
        ("unknown version", json!({"apiVersion": "foo/v1"})),
        ("neither", json!({"apiVersion": null, "kind": null})),
    ] {
        let scale = with(mk_scale("a", 3), changes);
        s.note(note).put(&DEPLOYMENTS, "a/scale", scale).await;
    }
    s.put(&DEPLOYMENTS, "a/scale", Value::Null).await;
    s.merge_patch(&DEPLOYMENTS, "a/scale", json!({"metadata": {"name": "b"}}))
        .await;
}

async fn scale_ignores_metadata_and_status(s: &mut Session) {
    let path = s.path(&DEPLOYMENTS);
    s.quietly(Ask::post(&path, &mk_sized("Deployment", "a")))
        .await;
    let more = json!({"metadata": {"labels": {"x": "y"}, "annotations": {"x": "y"}, "finalizers": ["example.com/a"]},
        "status": {"replicas": 77, "selector": "x=y"}});
    s.put(
        &DEPLOYMENTS,
        "a/scale",
        with(mk_scale("a", 3), more.clone()),
    )
    .await;
    s.merge_patch(&DEPLOYMENTS, "a/scale", more).await;
    s.hide(&["spec", "status"]);
    s.get(&DEPLOYMENTS, "a").await;
}

async fn scale_of_other_methods_is_405(s: &mut Session) {
    let path = s.path(&DEPLOYMENTS);
    s.quietly(Ask::post(&path, &mk_sized("Deployment", "a")))
        .await;
    let path = s.item(&DEPLOYMENTS, "a/scale");
    s.ask(Ask::post(&path, &mk_scale("a", 3))).await;
    s.ask(Ask::new(Method::DELETE, &path)).await;
}

async fn scale_as_table_metadata_and_yaml(s: &mut Session) {
    let path = s.path(&DEPLOYMENTS);
    s.quietly(Ask::post(&path, &mk_sized("Deployment", "a")))
        .await;
    let path = s.item(&DEPLOYMENTS, "a/scale");
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let columns = |body: &Value| {
        let columns = body["columnDefinitions"].as_array().into_iter().flatten();
        let columns: Vec<&Value> = columns.map(|column| &column["name"]).collect();
        let cells = body["rows"][0]["cells"].as_array();
        let cells = cells.map(|cells| &cells[..cells.len() - 1]);
        json!([columns, cells])
    };
    s.ask(Ask::get(&path).accept(table).viewed(columns)).await;
    let partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    s.ask(Ask::get(&path).accept(partial)).await;
    s.ask(Ask::get(&path).accept("text/html")).await;
}

async fn scale_shows_the_selector_as_text(s: &mut Session) {
    let labels = json!({"app": "a", "b": "1", "z": "1"});
    let selector = json!({"matchLabels": {"z": "1", "app": "a"}, "matchExpressions": [
        {"key": "b", "operator": "In", "values": ["2", "1"]}, {"key": "b", "operator": "NotIn", "values": ["3"]},
        {"key": "app", "operator": "Exists"}, {"key": "y", "operator": "DoesNotExist"}]});
    let object = with(
        mk_sized("ReplicaSet", "a"),
        json!({"spec": {"selector": selector, "template": {"metadata": {"labels": labels}}}}),
    );
    let path = s.path(&REPLICA_SETS);
    s.quietly(Ask::post(&path, &object)).await;
    s.get(&REPLICA_SETS, "a/scale").await;
}

/// A definition of Gadgets with this subresource `scale`.
fn mk_scaled(group: &str, scale: &Value) -> Value {
    let version = with(
        mk_crd(group)["spec"]["versions"][0].clone(),
        json!({"subresources": {"scale": scale}}),
    );
    with(mk_crd(group), json!({"spec": {"versions": [version]}}))
}

fn mk_paths() -> Value {
    json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector"})
}

async fn crd_with_bad_scale_paths_is_422(s: &mut Session) {
    let group = group(s);
    let paths = |spec: &str, status: &str, selector: &str| json!({"specReplicasPath": spec, "statusReplicasPath": status, "labelSelectorPath": selector});
    for scale in [
        json!({}),
        paths("", "", ""),
        paths("spec.replicas", ".spec.x", ""),
        paths(".spec", ".status", ".metadata.x"),
        paths("..spec.a", ".status.a", "x"),
    ] {
        let path = format!("{}?dryRun=All", CRDS.everywhere());
        s.ask(Ask::post(path, &mk_scaled(&group, &scale))).await;
    }
}

async fn custom_scale_is_read_and_written(s: &mut Session) {
    let group = group(s);
    define(s, &mk_scaled(&group, &mk_paths())).await;
    let gadgets = gadgets(s);
    let gadget = with(mk_gadget(&group, "a"), replicas(&json!(2)));
    s.post(&gadgets, gadget).await;
    s.get(&gadgets, "a/scale").await;
    let status = json!({"status": {"replicas": 1, "selector": "a=b"}});
    s.merge_patch(&gadgets, "a/status", status).await;
    s.put(&gadgets, "a/scale", mk_scale("a", 3)).await;
    s.merge_patch(&gadgets, "a/scale", replicas(&json!(4)))
        .await;
    let replace = json!([{"op": "replace", "path": "/spec/replicas", "value": 5}]);
    s.json_patch(&gadgets, "a/scale", replace).await;
    s.put(&gadgets, "a/scale", mk_scale("a", 0)).await;
    s.get(&gadgets, "a").await;
    s.strategic_patch(&gadgets, "a/scale", replicas(&json!(4)))
        .await;
    let path = s.item(&gadgets, "a/scale");
    s.ask(Ask::post(&path, &mk_scale("a", 3))).await;
    s.ask(Ask::new(Method::DELETE, &path)).await;
    s.get(&gadgets, "b/scale").await;
    s.put(&gadgets, "b/scale", mk_scale("b", 3)).await;
    s.merge_patch(&gadgets, "b/scale", json!({})).await;
}

async fn custom_scale_without_replicas(s: &mut Session) {
    let group = group(s);
    define(s, &mk_scaled(&group, &mk_paths())).await;
    let gadgets = gadgets(s);
    s.post(&gadgets, mk_gadget(&group, "a")).await;
    s.get(&gadgets, "a/scale").await;
    s.merge_patch(&gadgets, "a/scale", json!({})).await;
    s.merge_patch(&gadgets, "a/scale", replicas(&json!(3)))
        .await;
    s.get(&gadgets, "a/scale").await;
}

async fn custom_scale_is_refused(s: &mut Session) {
    let group = group(s);
    define(s, &mk_scaled(&group, &mk_paths())).await;
    let gadgets = gadgets(s);
    let gadget = with(mk_gadget(&group, "a"), replicas(&json!(2)));
    s.post(&gadgets, gadget).await;
    let other = "00000000-0000-0000-0000-000000000001";
    for (note, changes) in [
        ("negative", replicas(&json!(-1))),
        ("a text", replicas(&json!("x"))),
        ("stale", json!({"metadata": {"resourceVersion": "1"}})),
        ("another uid", json!({"metadata": {"uid": other}})),
        ("another name", json!({"metadata": {"name": "b"}})),
        (
            "another kind",
            json!({"apiVersion": format!("{group}/v1"), "kind": "Gadget"}),
        ),
        (
            "bad labels are not looked at",
            json!({"metadata": {"labels": {"a": "b c"}}}),
        ),
    ] {
        let scale = with(mk_scale("a", 3), changes);
        s.note(note).put(&gadgets, "a/scale", scale).await;
    }
    s.merge_patch(&gadgets, "a/scale", replicas(&json!(-1)))
        .await;
    let stale = json!({"metadata": {"resourceVersion": "1"}});
    s.merge_patch(&gadgets, "a/scale", stale).await;
}

async fn custom_objects_with_bad_replicas_are_422(s: &mut Session) {
    let group = group(s);
    define(s, &mk_scaled(&group, &mk_paths())).await;
    let gadgets = gadgets(s);
    for spec in [
        replicas(&json!(-1)),
        replicas(&json!("x")),
        replicas(&json!(1.5)),
        replicas(&json!(5_000_000_000_i64)),
        json!({"spec": "x"}),
    ] {
        s.post(&gadgets, with(mk_gadget(&group, "a"), spec)).await;
    }
    s.post(&gadgets, mk_gadget(&group, "a")).await;
    let status = json!({"status": {"replicas": -1, "selector": 5}});
    s.merge_patch(&gadgets, "a/status", status).await;
}
