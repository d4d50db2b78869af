//! Objects of custom kinds: what they have in common with others, and where they differ.
//!
//! No rules of schemas here: every schema keeps unknown fields and demands nothing.

use http::Method;
use serde_json::json;

use super::crd::{define, define_gadgets, gadgets, group};
use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::{Ask, Session};

pub(super) const CASES: &[TestCase] = &[
    api_case!(custom_objects_are_created_and_listed_with_their_kind, Crds),
    api_case!(custom_objects_of_another_kind_are_refused, Crds),
    api_case!(custom_objects_have_generations, Crds),
    api_case!(custom_objects_have_a_status_of_their_own, Crds),
    api_case!(custom_objects_without_status_subresource, Crds),
    api_case!(custom_objects_need_a_resource_version_on_put, Crds),
    api_case!(custom_objects_take_merge_and_json_patches_only, Crds),
    api_case!(custom_objects_are_deleted_like_others, Crds),
    api_case!(custom_objects_are_watched, Crds),
    api_case!(custom_objects_are_selected_by_label_and_name, Crds),
    api_case!(custom_objects_as_tables_with_default_columns, Crds),
    api_case!(custom_objects_as_tables_with_printer_columns, Crds),
    api_case!(custom_objects_as_partial_metadata, Crds),
    api_case!(custom_objects_are_not_served_as_protobuf, Crds),
];

async fn custom_objects_are_created_and_listed_with_their_kind(s: &mut Session) {
    let (gadgets, group) = define_gadgets(s).await;
    s.post(&gadgets, with(mk_gadget(&group, "a"), json!({"spec": {"any": {"thing": [1, null, 1.5, 1e3, true]}}, "top": "level", "status": {"dropped": true}}))).await;
    s.get(&gadgets, "a").await;
    s.list(&gadgets, "").await;
    s.note("exists")
        .post(&gadgets, mk_gadget(&group, "a"))
        .await;
    s.note("missing").get(&gadgets, "b").await;
    s.post_with(&gadgets, "dryRun=All", mk_gadget(&group, "c"))
        .await;
    for (note, changes) in [
        (
            "generated",
            json!({"metadata": {"name": null, "generateName": "gen-"}}),
        ),
        ("no name", json!({"metadata": {"name": null}})),
    ] {
        s.note(note)
            .post(&gadgets, with(mk_gadget(&group, "c"), changes))
            .await;
    }
    s.note("YAML");
    let yaml = format!("apiVersion: {group}/v1\nkind: Gadget\nmetadata:\n  name: yaml\n");
    let path = s.path(&gadgets);
    s.ask(Ask::with_body(Method::POST, path, "application/yaml", yaml))
        .await;
}

async fn custom_objects_of_another_kind_are_refused(s: &mut Session) {
    let (gadgets, group) = define_gadgets(s).await;
    for (note, object) in [
        (
            "another kind",
            with(mk_gadget(&group, "a"), json!({"kind": "Widget"})),
        ),
        (
            "another version",
            with(
                mk_gadget(&group, "a"),
                json!({"apiVersion": format!("{group}/v2")}),
            ),
        ),
        (
            "another group",
            with(mk_gadget(&group, "a"), json!({"apiVersion": "v1"})),
        ),
        (
            "no kind",
            with(mk_gadget(&group, "a"), json!({"kind": null})),
        ),
        (
            "no version",
            with(mk_gadget(&group, "a"), json!({"apiVersion": null})),
        ),
        ("no object", json!([])),
        (
            "bad metadata",
            with(
                mk_gadget(&group, "a"),
                json!({"metadata": {"labels": {"a": 1}}}),
            ),
        ),
        ("bad name", mk_gadget(&group, "Bad_")),
        (
            "bad finalizer",
            with(
                mk_gadget(&group, "a"),
                json!({"metadata": {"finalizers": ["noslash"]}}),
            ),
        ),
    ] {
        s.note(note).post(&gadgets, object).await;
    }
    let path = s.path(&gadgets);
    s.note("no content")
        .ask(Ask::new(Method::POST, &path).content_type("application/json"))
        .await;
    let ask = Ask::with_body(Method::POST, &path, "application/xml", "<a/>");
    s.note("xml").ask(ask).await;
}

async fn custom_objects_have_generations(s: &mut Session) {
    let (gadgets, group) = define_gadgets(s).await;
    let changes = json!({"metadata": {"generation": 7}});
    s.post(&gadgets, with(mk_gadget(&group, "a"), changes))
        .await;
    for (note, patch) in [
        ("spec", json!({"spec": {"size": 2}})),
        ("nothing", json!({"spec": {"size": 2}})),
        ("labels", json!({"metadata": {"labels": {"x": "y"}}})),
    ] {
        s.note(note).merge_patch(&gadgets, "a", patch).await;
    }
    s.note("status")
        .merge_patch(&gadgets, "a/status", json!({"status": {"done": true}}))
        .await;
    s.note("something else")
        .merge_patch(&gadgets, "a", json!({"top": "level"}))
        .await;
    let patch = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    s.note("deletion").merge_patch(&gadgets, "a", patch).await;
    s.delete(&gadgets, "a").await;
}

async fn custom_objects_have_a_status_of_their_own(s: &mut Session) {
    let (gadgets, group) = define_gadgets(s).await;
    let made = s.post(&gadgets, mk_gadget(&group, "a")).await.body;
    s.note("through the main resource")
        .merge_patch(&gadgets, "a", json!({"status": {"done": true}}))
        .await;
    let meta = json!({"labels": {"new": "l"}, "annotations": {"new": "a"}, "finalizers": ["example.com/new"]});
    let sent = with(
        made.clone(),
        json!({"metadata": meta, "spec": {"size": 9}, "status": {"done": true}}),
    );
    for (note, object) in [
        ("only the status is taken", sent),
        ("stale", with(made, json!({"status": {"done": false}}))),
        (
            "no version",
            with(mk_gadget(&group, "a"), json!({"status": {"done": false}})),
        ),
    ] {
        s.note(note).put(&gadgets, "a/status", object).await;
    }
    s.get(&gadgets, "a/status").await;
    let patch = json!([{"op": "remove", "path": "/status/done"}]);
    s.json_patch(&gadgets, "a/status", patch).await;
    s.note("missing")
        .merge_patch(&gadgets, "b/status", json!({}))
        .await;
}

async fn custom_objects_without_status_subresource(s: &mut Session) {
    let group = group(s);
    let version = with(
        mk_crd(&group)["spec"]["versions"][0].clone(),
        json!({"subresources": null}),
    );
    define(
        s,
        &with(mk_crd(&group), json!({"spec": {"versions": [version]}})),
    )
    .await;
    let gadgets = gadgets(s);
    let object = with(mk_gadget(&group, "a"), json!({"status": {"done": false}}));
    s.post(&gadgets, object).await;
    s.merge_patch(&gadgets, "a", json!({"status": {"done": true}}))
        .await;
    s.get(&gadgets, "a/status").await;
    s.get(&gadgets, "a/scale").await;
    s.get_path(format!("/apis/{group}/v1")).await;
}

async fn custom_objects_need_a_resource_version_on_put(s: &mut Session) {
    let (gadgets, group) = define_gadgets(s).await;
    let made = s.post(&gadgets, mk_gadget(&group, "a")).await.body;
    for (note, object) in [
        ("", mk_gadget(&group, "a")),
        ("", with(made.clone(), json!({"spec": {"size": 2}}))),
        ("stale", with(made.clone(), json!({"spec": {"size": 3}}))),
        (
            "another uid",
            with(
                made,
                json!({"metadata": {"uid": "00000000-0000-0000-0000-000000000001"}}),
            ),
        ),
    ] {
        s.note(note).put(&gadgets, "a", object).await;
    }
    s.note("missing")
        .put(&gadgets, "b", mk_gadget(&group, "b"))
        .await;
    s.note("another name")
        .put(&gadgets, "a", mk_gadget(&group, "b"))
        .await;
}

async fn custom_objects_take_merge_and_json_patches_only(s: &mut Session) {
    let (gadgets, group) = define_gadgets(s).await;
    s.post(&gadgets, mk_gadget(&group, "a")).await;
    s.strategic_patch(&gadgets, "a", json!({"spec": {"size": 2}}))
        .await;
    s.merge_patch(&gadgets, "a", json!({"spec": {"size": 2, "list": [1, 2]}}))
        .await;
    s.json_patch(
        &gadgets,
        "a",
        json!([{"op": "add", "path": "/spec/list/0", "value": {"x": null}}]),
    )
    .await;
    s.note("null stays null in a json patch")
        .json_patch(
            &gadgets,
            "a",
            json!([{"op": "add", "path": "/spec/none", "value": null}]),
        )
        .await;
    s.merge_patch(&gadgets, "a", json!({"kind": "Widget"}))
        .await;
    s.merge_patch(&gadgets, "a", json!({"spec": null})).await;
    let patch = json!([{"op": "test", "path": "/spec/size", "value": 3}]);
    s.json_patch(&gadgets, "a", patch).await;
}

async fn custom_objects_are_deleted_like_others(s: &mut Session) {
    let (gadgets, group) = define_gadgets(s).await;
    s.post(&gadgets, mk_gadget(&group, "a")).await;
    let options = json!({"preconditions": {"uid": "00000000-0000-0000-0000-000000000001"}});
    s.note("another uid")
        .delete_with(&gadgets, "a", options)
        .await;
    s.delete_with(&gadgets, "a", json!({"propagationPolicy": "Foreground"}))
        .await;
    s.delete_with(&gadgets, "a", json!({"propagationPolicy": "Background"}))
        .await;
    s.post(&gadgets, mk_gadget(&group, "b")).await;
    s.delete(&gadgets, "b").await;
    s.delete(&gadgets, "b").await;
    s.post(&gadgets, mk_gadget(&group, "c")).await;
    s.delete_all(&gadgets, "", json!({})).await;
    s.list(&gadgets, "").await;
}

async fn custom_objects_are_watched(s: &mut Session) {
    let (gadgets, group) = define_gadgets(s).await;
    s.post(&gadgets, mk_gadget(&group, "a")).await;
    let query = "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut watch = s.watch(&gadgets, query).await;
    s.take(&mut watch, 2).await;
    s.merge_patch(&gadgets, "a/status", json!({"status": {"done": true}}))
        .await;
    s.delete(&gadgets, "a").await;
    s.take(&mut watch, 2).await;
}

async fn custom_objects_are_selected_by_label_and_name(s: &mut Session) {
    let (gadgets, group) = define_gadgets(s).await;
    let changes = json!({"metadata": {"labels": {"l": "1"}}});
    s.post(&gadgets, with(mk_gadget(&group, "a"), changes))
        .await;
    s.post(&gadgets, mk_gadget(&group, "b")).await;
    s.list(&gadgets, "labelSelector=l%3D1").await;
    s.list(&gadgets, "fieldSelector=metadata.name%3Db").await;
    s.list(&gadgets, "fieldSelector=spec.size%3D1").await;
    s.list(&gadgets, "limit=1").await;
}

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

async fn custom_objects_as_tables_with_default_columns(s: &mut Session) {
    let (gadgets, group) = define_gadgets(s).await;
    let path = s.path(&gadgets);
    s.ask(Ask::post(&path, &mk_gadget(&group, "a")).accept(TABLE))
        .await;
    s.ask(Ask::get(path).accept(TABLE)).await;
}

async fn custom_objects_as_tables_with_printer_columns(s: &mut Session) {
    let group = group(s);
    let column =
        |name: &str, kind: &str, path: &str| json!({"name": name, "type": kind, "jsonPath": path});
    let columns = json!([
        with(
            column("Size", "integer", ".spec.size"),
            json!({"description": "How large", "format": "int32"})
        ),
        with(
            column("Wide", "string", ".spec.text"),
            json!({"priority": 1})
        ),
        column("Ready", "boolean", ".status.ready"),
        column("Ratio", "number", ".spec.ratio"),
        column("Last", "string", ".spec.list[-1:]"),
        column("All", "string", ".spec.list[*]"),
        column("Label", "string", ".metadata.labels.a\\.b/c"),
        column(
            "Filtered",
            "string",
            ".status.conditions[?(@.type==\"Ready\")].status"
        ),
        column("Object", "string", ".spec.map"),
        column("Since", "date", ".metadata.creationTimestamp"),
        column("When", "date", ".spec.when"),
        column("Missing", "string", ".spec.missing"),
    ]);
    let version = with(
        mk_crd(&group)["spec"]["versions"][0].clone(),
        json!({"additionalPrinterColumns": columns}),
    );
    define(
        s,
        &with(mk_crd(&group), json!({"spec": {"versions": [version]}})),
    )
    .await;
    let path = s.path(&gadgets(s));
    let spec = json!({"size": 3, "text": "words", "ratio": 0.5, "list": ["x", "y"], "map": {"a": 1}, "when": "not a time"});
    let rich = with(
        mk_gadget(&group, "a"),
        json!({"spec": spec, "metadata": {"labels": {"a.b/c": "l"}}}),
    );
    s.ask(Ask::post(&path, &rich).accept(TABLE)).await;
    let status =
        json!({"status": {"ready": true, "conditions": [{"type": "Ready", "status": "True"}]}})
            .to_string();
    let patch = Ask::with_body(
        Method::PATCH,
        format!("{path}/a/status"),
        "application/merge-patch+json",
        status,
    );
    s.quietly(patch).await;
    s.quietly(Ask::post(
        &path,
        &with(
            mk_gadget(&group, "b"),
            json!({"spec": {"size": "wrong type"}}),
        ),
    ))
    .await;
    s.ask(Ask::get(path).accept(TABLE)).await;
}

async fn custom_objects_as_partial_metadata(s: &mut Session) {
    let (gadgets, group) = define_gadgets(s).await;
    let path = s.path(&gadgets);
    s.ask(
        Ask::post(&path, &mk_gadget(&group, "a"))
            .accept("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
    )
    .await;
    s.ask(
        Ask::get(&path).accept("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
    )
    .await;
    s.note("the wrong form")
        .ask(Ask::get(&path).accept("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"))
        .await;
}

async fn custom_objects_are_not_served_as_protobuf(s: &mut Session) {
    let (gadgets, group) = define_gadgets(s).await;
    s.post(&gadgets, mk_gadget(&group, "a")).await;
    let path = s.item(&gadgets, "a");
    s.ask(Ask::get(&path).accept("application/vnd.kubernetes.protobuf,application/json"))
        .await;
    let only = s
        .quietly(Ask::get(&path).accept("application/vnd.kubernetes.protobuf"))
        .await;
    s.record(json!({"request": "protobuf only", "status": only.status}));
}
