//! Namespaces: their own life cycle, as far as the API server alone is concerned. Nothing empties them here.

use serde_json::{Value, json};

use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::{Ask, Session};

pub(super) const CASES: &[TestCase] = &[
    api_case!(namespace_create_fills_in_label_finalizer_and_phase),
    api_case!(namespace_create_keeps_other_finalizers),
    api_case!(namespace_label_of_the_name_comes_back),
    api_case!(namespace_system_ones_cannot_be_deleted),
    api_case!(namespace_delete_makes_it_terminate),
    api_case!(namespace_delete_again_changes_nothing),
    api_case!(namespace_delete_with_a_policy_adds_its_finalizer),
    api_case!(namespace_delete_obeys_preconditions),
    api_case!(namespace_delete_dry_run_deletes_nothing),
    api_case!(namespace_put_cannot_change_spec_finalizers),
    api_case!(namespace_finalize_of_an_active_one_changes_its_finalizers),
    api_case!(namespace_finalize_removes_finalizers_one_by_one),
    api_case!(namespace_finalize_of_the_last_one_deletes),
    api_case!(namespace_held_by_metadata_finalizers_outlives_finalize),
    api_case!(namespace_whose_metadata_finalizers_go_first_waits_for_finalize),
    api_case!(namespace_finalize_obeys_versions_and_names),
    api_case!(namespace_terminating_refuses_creates_and_allows_the_rest),
    api_case!(namespace_terminating_refuses_creating_puts),
    api_case!(namespace_status_can_be_written),
    api_case!(namespace_phase_follows_deletion_not_status),
];

fn other(s: &Session) -> String {
    format!("{}-x", s.ns())
}

fn mk_finalize(name: &str, finalizers: &[&str]) -> Value {
    with(
        mk_namespace(name),
        json!({"spec": {"finalizers": finalizers}}),
    )
}

async fn finalize(s: &mut Session, name: &str, finalizers: &[&str]) {
    let object = mk_finalize(name, finalizers);
    s.put(&NAMESPACES, &format!("{name}/finalize"), object)
        .await;
}

async fn namespace_create_fills_in_label_finalizer_and_phase(s: &mut Session) {
    let x = other(s);
    s.post(&NAMESPACES, mk_namespace(&x)).await;
    s.post(&NAMESPACES, mk_namespace(&x)).await;
    let odd = json!({"metadata": {"labels": {"kubernetes.io/metadata.name": "wrong", "mine": "1"}}, "status": {"phase": "Terminating"}});
    s.post(&NAMESPACES, with(mk_namespace(&format!("{x}2")), odd))
        .await;
}

async fn namespace_create_keeps_other_finalizers(s: &mut Session) {
    let x = other(s);
    let object = with(
        mk_finalize(&x, &["example.com/mine"]),
        json!({"metadata": {"finalizers": ["example.com/meta"]}}),
    );
    s.post(&NAMESPACES, object).await;
    s.note("a bad one")
        .post(&NAMESPACES, mk_finalize(&format!("{x}2"), &["noslash"]))
        .await;
}

async fn namespace_label_of_the_name_comes_back(s: &mut Session) {
    let x = other(s);
    s.post(&NAMESPACES, mk_namespace(&x)).await;
    for patch in [
        json!({"metadata": {"labels": {"kubernetes.io/metadata.name": "wrong"}}}),
        json!({"metadata": {"labels": {"kubernetes.io/metadata.name": null, "mine": "1"}}}),
    ] {
        s.merge_patch(&NAMESPACES, &x, patch).await;
    }
    s.put(&NAMESPACES, &x, mk_namespace(&x)).await;
}

async fn namespace_system_ones_cannot_be_deleted(s: &mut Session) {
    for name in ["default", "kube-system", "kube-public"] {
        s.delete(&NAMESPACES, name).await;
    }
}

async fn namespace_delete_makes_it_terminate(s: &mut Session) {
    let x = other(s);
    let made = s.post(&NAMESPACES, mk_namespace(&x)).await;
    let query = &format!(
        "fieldSelector=metadata.name%3D{x}&resourceVersion={}",
        made.rv()
    );
    let mut watch = s.watch(&NAMESPACES, query).await;
    s.delete(&NAMESPACES, &x).await;
    s.get(&NAMESPACES, &x).await;
    s.take(&mut watch, 1).await;
}

async fn namespace_delete_again_changes_nothing(s: &mut Session) {
    let x = other(s);
    s.post(&NAMESPACES, mk_namespace(&x)).await;
    s.delete(&NAMESPACES, &x).await;
    s.delete(&NAMESPACES, &x).await;
    s.delete_with(&NAMESPACES, &x, json!({"propagationPolicy": "Foreground"}))
        .await;
    s.delete_with(&NAMESPACES, &x, json!({"gracePeriodSeconds": 0}))
        .await;
}

async fn namespace_delete_with_a_policy_adds_its_finalizer(s: &mut Session) {
    for (suffix, policy) in [("o", "Orphan"), ("f", "Foreground"), ("b", "Background")] {
        let x = format!("{}-{suffix}", s.ns());
        s.post(&NAMESPACES, mk_namespace(&x)).await;
        s.delete_with(&NAMESPACES, &x, json!({ "propagationPolicy": policy }))
            .await;
    }
}

async fn namespace_delete_obeys_preconditions(s: &mut Session) {
    let x = other(s);
    let old = s.post(&NAMESPACES, mk_namespace(&x)).await;
    let options = json!({"preconditions": {"uid": "00000000-0000-0000-0000-000000000001"}});
    s.delete_with(&NAMESPACES, &x, options).await;
    s.merge_patch(&NAMESPACES, &x, json!({"metadata": {"labels": {"x": "y"}}}))
        .await;
    for options in [
        json!({"preconditions": {"resourceVersion": old.rv()}}),
        json!({"preconditions": {"uid": old.uid()}}),
    ] {
        s.delete_with(&NAMESPACES, &x, options).await;
    }
    s.delete(&NAMESPACES, "missing").await;
}

async fn namespace_delete_dry_run_deletes_nothing(s: &mut Session) {
    let x = other(s);
    s.post(&NAMESPACES, mk_namespace(&x)).await;
    s.delete_with(&NAMESPACES, &x, json!({"dryRun": ["All"]}))
        .await;
    s.get(&NAMESPACES, &x).await;
}

async fn namespace_put_cannot_change_spec_finalizers(s: &mut Session) {
    let x = other(s);
    s.post(&NAMESPACES, mk_namespace(&x)).await;
    s.put(&NAMESPACES, &x, mk_finalize(&x, &[])).await;
    s.merge_patch(&NAMESPACES, &x, json!({"spec": {"finalizers": null}}))
        .await;
    let patch = json!({"spec": {"finalizers": []}});
    s.merge_patch(&NAMESPACES, &format!("{x}/status"), patch)
        .await;
}

async fn namespace_finalize_of_an_active_one_changes_its_finalizers(s: &mut Session) {
    let x = other(s);
    s.post(&NAMESPACES, mk_namespace(&x)).await;
    finalize(s, &x, &["kubernetes", "example.com/mine"]).await;
    finalize(s, &x, &[]).await;
    s.get(&NAMESPACES, &x).await;
    s.note("nothing holds it now").delete(&NAMESPACES, &x).await;
    s.get(&NAMESPACES, &x).await;
}

async fn namespace_finalize_removes_finalizers_one_by_one(s: &mut Session) {
    let x = other(s);
    s.post(&NAMESPACES, mk_finalize(&x, &["example.com/mine"]))
        .await;
    s.delete(&NAMESPACES, &x).await;
    finalize(s, &x, &["kubernetes"]).await;
    let object = with(
        mk_finalize(&x, &["kubernetes"]),
        json!({"metadata": {"labels": {"new": "1"}}}),
    );
    s.note("labels sent along")
        .put(&NAMESPACES, &format!("{x}/finalize"), object)
        .await;
    s.get(&NAMESPACES, &x).await;
}

async fn namespace_finalize_of_the_last_one_deletes(s: &mut Session) {
    let x = other(s);
    s.post(&NAMESPACES, mk_namespace(&x)).await;
    let going = s.delete(&NAMESPACES, &x).await;
    let query = &format!(
        "fieldSelector=metadata.name%3D{x}&resourceVersion={}",
        going.rv()
    );
    let mut watch = s.watch(&NAMESPACES, query).await;
    finalize(s, &x, &[]).await;
    s.get(&NAMESPACES, &x).await;
    s.take(&mut watch, 1).await;
}

async fn namespace_held_by_metadata_finalizers_outlives_finalize(s: &mut Session) {
    let x = other(s);
    let changes = json!({"metadata": {"finalizers": ["example.com/meta"]}});
    s.post(&NAMESPACES, with(mk_namespace(&x), changes)).await;
    s.delete(&NAMESPACES, &x).await;
    let object = with(
        mk_finalize(&x, &[]),
        json!({"metadata": {"finalizers": ["example.com/meta"]}}),
    );
    s.put(&NAMESPACES, &format!("{x}/finalize"), object).await;
    s.get(&NAMESPACES, &x).await;
    s.merge_patch(&NAMESPACES, &x, json!({"metadata": {"finalizers": null}}))
        .await;
    s.get(&NAMESPACES, &x).await;
}

async fn namespace_whose_metadata_finalizers_go_first_waits_for_finalize(s: &mut Session) {
    let x = other(s);
    let changes = json!({"metadata": {"finalizers": ["example.com/meta"]}});
    s.post(&NAMESPACES, with(mk_namespace(&x), changes)).await;
    s.delete(&NAMESPACES, &x).await;
    s.merge_patch(&NAMESPACES, &x, json!({"metadata": {"finalizers": null}}))
        .await;
    s.get(&NAMESPACES, &x).await;
    finalize(s, &x, &[]).await;
    s.get(&NAMESPACES, &x).await;
}

async fn namespace_finalize_obeys_versions_and_names(s: &mut Session) {
    let x = other(s);
    let old = s.post(&NAMESPACES, mk_namespace(&x)).await.body;
    s.merge_patch(&NAMESPACES, &x, json!({"metadata": {"labels": {"x": "y"}}}))
        .await;
    let path = format!("{x}/finalize");
    for (note, object) in [
        ("stale", with(old, json!({"spec": {"finalizers": []}}))),
        ("another name", mk_finalize("other", &[])),
        ("a bad finalizer", mk_finalize(&x, &["noslash"])),
    ] {
        s.note(note).put(&NAMESPACES, &path, object).await;
    }
    s.note("missing")
        .put(&NAMESPACES, "missing/finalize", mk_finalize("missing", &[]))
        .await;
    s.note("only PUT").get(&NAMESPACES, &path).await;
    s.merge_patch(&NAMESPACES, &path, json!({})).await;
    let object = mk_finalize(&x, &[]);
    s.note("dry run")
        .put(&NAMESPACES, &format!("{path}?dryRun=All"), object)
        .await;
    s.get(&NAMESPACES, &x).await;
}

async fn namespace_terminating_refuses_creates_and_allows_the_rest(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.post(&CONFIG_MAPS, mk_held("b")).await;
    let ns = s.ns().to_owned();
    s.delete(&NAMESPACES, &ns).await;
    s.post(&CONFIG_MAPS, mk_config_map("new")).await;
    s.post(&DEPLOYMENTS, mk_deployment("new")).await;
    s.note("dry run")
        .post_with(&CONFIG_MAPS, "dryRun=All", mk_config_map("new"))
        .await;
    s.note("exists")
        .post(&CONFIG_MAPS, mk_config_map("a"))
        .await;
    let object = with(mk_config_map("a"), json!({"data": {"k": "2"}}));
    s.put(&CONFIG_MAPS, "a", object).await;
    s.merge_patch(&CONFIG_MAPS, "a", json!({"data": {"k": "3"}}))
        .await;
    s.list(&CONFIG_MAPS, "").await;
    s.delete(&CONFIG_MAPS, "a").await;
    s.delete_all(&CONFIG_MAPS, "", json!({})).await;
    s.list(&CONFIG_MAPS, "").await;
}

async fn namespace_terminating_refuses_creating_puts(s: &mut Session) {
    let ns = s.ns().to_owned();
    s.delete(&NAMESPACES, &ns).await;
    s.put(&LEASES, "a", mk_lease("a")).await;
    let event = mk_event("a", &ns);
    s.post(&EVENTS, event).await;
    s.ask(Ask::post(
        format!("{}?dryRun=All", LEASES.collection(&ns)),
        &mk_lease("a"),
    ))
    .await;
}

async fn namespace_status_can_be_written(s: &mut Session) {
    let x = other(s);
    s.post(&NAMESPACES, mk_namespace(&x)).await;
    let condition = json!({"type": "NamespaceContentRemaining", "status": "True", "reason": "SomeResourcesRemain", "message": "m", "lastTransitionTime": "2001-01-01T00:00:00Z"});
    let patch = json!({"status": {"conditions": [condition]}});
    s.merge_patch(&NAMESPACES, &format!("{x}/status"), patch)
        .await;
    s.get(&NAMESPACES, &format!("{x}/status")).await;
    s.note("through the main resource")
        .merge_patch(&NAMESPACES, &x, json!({"status": {"conditions": null}}))
        .await;
}

async fn namespace_phase_follows_deletion_not_status(s: &mut Session) {
    let x = other(s);
    s.post(&NAMESPACES, mk_namespace(&x)).await;
    s.note("not deleting")
        .merge_patch(
            &NAMESPACES,
            &format!("{x}/status"),
            json!({"status": {"phase": "Terminating"}}),
        )
        .await;
    s.delete(&NAMESPACES, &x).await;
    let patch = json!({"status": {"phase": "Active"}});
    s.note("deleting")
        .merge_patch(&NAMESPACES, &format!("{x}/status"), patch)
        .await;
    s.get(&NAMESPACES, &x).await;
}
