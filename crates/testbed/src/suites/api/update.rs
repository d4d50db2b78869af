//! Update: PUT of whole objects and of their status, conflicts, what stays as it was, and when nothing is written.

use serde_json::{Value, json};

use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::{Ask, Session};

pub(super) const CASES: &[TestCase] = &[
    api_case!(put_with_a_stale_resource_version_is_409),
    api_case!(put_with_the_current_resource_version_replaces),
    api_case!(put_with_a_resource_version_that_is_none_is_refused),
    api_case!(put_without_resource_version_replaces_most_kinds),
    api_case!(put_without_resource_version_on_a_lease_is_refused),
    api_case!(put_with_another_uid_is_409),
    api_case!(put_of_a_missing_object_is_404),
    api_case!(put_of_a_missing_object_creates_some_kinds),
    api_case!(put_under_another_name_is_400),
    api_case!(put_in_another_namespace_is_400),
    api_case!(put_of_another_kind_is_400),
    api_case!(put_of_the_same_object_writes_nothing),
    api_case!(put_keeps_what_the_system_set),
    api_case!(put_cannot_mark_an_object_deleted),
    api_case!(put_removes_what_it_leaves_out),
    api_case!(put_raises_the_generation_when_the_spec_changes),
    api_case!(put_dry_run_answers_and_stores_nothing),
    api_case!(put_of_an_immutable_config_map_is_422),
    api_case!(put_of_another_secret_type_is_422),
    api_case!(put_of_another_selector_is_422),
    api_case!(put_leaves_the_status_alone),
    api_case!(put_of_status_leaves_the_spec_alone),
    api_case!(put_of_status_obeys_resource_versions),
    api_case!(put_of_status_keeps_annotations_and_finalizers_but_not_labels_of_a_deployment),
    api_case!(put_of_status_cannot_change_owners_of_a_pod),
    api_case!(put_of_status_of_a_missing_object_is_404),
    api_case!(get_of_status_is_the_whole_object),
    api_case!(put_with_unknown_fields_warns_or_is_400_when_strict),
    api_case!(put_of_a_deleting_object_keeps_its_deletion_mark),
];

async fn put_with_a_stale_resource_version_is_409(s: &mut Session) {
    let old = s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.merge_patch(&CONFIG_MAPS, "a", json!({"data": {"k": "2"}}))
        .await;
    s.put(&CONFIG_MAPS, "a", old.body).await;
    s.hide(&["spec", "status"]);
    let old = s.post(&DEPLOYMENTS, mk_deployment("a")).await;
    s.merge_patch(&DEPLOYMENTS, "a", json!({"spec": {"replicas": 2}}))
        .await;
    s.put(&DEPLOYMENTS, "a", old.body).await;
}

async fn put_with_the_current_resource_version_replaces(s: &mut Session) {
    let made = s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let changes = json!({"data": {"k": "2", "l": "3"}});
    s.put(&CONFIG_MAPS, "a", with(made.body, changes)).await;
    s.get(&CONFIG_MAPS, "a").await;
}

async fn put_with_a_resource_version_that_is_none_is_refused(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    for rv in ["abc", "-1", "99999999999999999999", "1 ", "00"] {
        let changes = json!({"metadata": {"resourceVersion": rv}});
        s.put(&CONFIG_MAPS, "a", with(mk_config_map("a"), changes))
            .await;
    }
}

async fn put_without_resource_version_replaces_most_kinds(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    for (note, changes) in [
        ("", json!({"data": {"k": "2"}})),
        (
            "zero is none",
            json!({"data": {"k": "3"}, "metadata": {"resourceVersion": "0"}}),
        ),
    ] {
        s.note(note)
            .put(&CONFIG_MAPS, "a", with(mk_config_map("a"), changes))
            .await;
    }
}

async fn put_without_resource_version_on_a_lease_is_refused(s: &mut Session) {
    s.post(&LEASES, mk_lease("a")).await;
    for object in [
        with(mk_lease("a"), json!({"spec": {"holderIdentity": "you"}})),
        with(mk_lease("a"), json!({"metadata": {"resourceVersion": "0"}})),
    ] {
        s.put(&LEASES, "a", object).await;
    }
    let budget = mk_object("policy/v1", "PodDisruptionBudget", "a");
    s.post(&DISRUPTION_BUDGETS, budget.clone()).await;
    let changes = json!({"spec": {"minAvailable": 1}});
    s.put(&DISRUPTION_BUDGETS, "a", with(budget, changes)).await;
}

async fn put_with_another_uid_is_409(s: &mut Session) {
    let made = s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let uid = json!({"metadata": {"uid": "00000000-0000-0000-0000-000000000001"}});
    s.put(&CONFIG_MAPS, "a", with(mk_config_map("a"), uid.clone()))
        .await;
    s.put(&CONFIG_MAPS, "a", with(made.body.clone(), uid)).await;
    let object = with(mk_config_map("a"), json!({"metadata": {"uid": made.uid()}}));
    s.note("its own uid").put(&CONFIG_MAPS, "a", object).await;
}

async fn put_of_a_missing_object_is_404(s: &mut Session) {
    s.put(&CONFIG_MAPS, "a", mk_config_map("a")).await;
    s.put(&DEPLOYMENTS, "a", mk_deployment("a")).await;
    for changes in [
        json!({"metadata": {"resourceVersion": "1"}}),
        json!({"metadata": {"uid": "00000000-0000-0000-0000-000000000001"}}),
    ] {
        s.put(&CONFIG_MAPS, "a", with(mk_config_map("a"), changes))
            .await;
    }
}

async fn put_of_a_missing_object_creates_some_kinds(s: &mut Session) {
    s.put(&LEASES, "a", mk_lease("a")).await;
    s.put(&ENDPOINTS, "a", mk_object("v1", "Endpoints", "a"))
        .await;
    s.put(&LIMIT_RANGES, "a", mk_object("v1", "LimitRange", "a"))
        .await;
    let object = mk_object("rbac.authorization.k8s.io/v1", "Role", "a");
    s.put(&ROLES, "a", object).await;
    let event = mk_event("a", s.ns());
    s.put(&EVENTS, "a", event).await;
    s.note("a resourceVersion does not mean that it must be there");
    for changes in [
        json!({"metadata": {"resourceVersion": "1"}}),
        json!({"metadata": {"uid": "00000000-0000-0000-0000-000000000001"}}),
    ] {
        s.put(&LEASES, "b", with(mk_lease("b"), changes)).await;
    }
    s.note("dry run creates nothing")
        .put(&LEASES, "c?dryRun=All", mk_lease("c"))
        .await;
    s.get(&LEASES, "c").await;
}

async fn put_under_another_name_is_400(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.put(&CONFIG_MAPS, "a", mk_config_map("b")).await;
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    s.note("no name at all")
        .put(&CONFIG_MAPS, "a", object)
        .await;
}

async fn put_in_another_namespace_is_400(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let changes = json!({"metadata": {"namespace": "other"}});
    s.put(&CONFIG_MAPS, "a", with(mk_config_map("a"), changes))
        .await;
}

async fn put_of_another_kind_is_400(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.put(&CONFIG_MAPS, "a", mk_object("v1", "Secret", "a"))
        .await;
    s.put(&CONFIG_MAPS, "a", mk_object("v2", "ConfigMap", "a"))
        .await;
    s.put(&CONFIG_MAPS, "a", json!([])).await;
    let path = s.item(&CONFIG_MAPS, "a");
    s.note("no body")
        .ask(Ask::new(http::Method::PUT, path))
        .await;
}

async fn put_of_the_same_object_writes_nothing(s: &mut Session) {
    let made = s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let mut watch = s.watch_from(&CONFIG_MAPS, &made).await;
    s.put(&CONFIG_MAPS, "a", made.body.clone()).await;
    s.put(&CONFIG_MAPS, "a", mk_config_map("a")).await;
    let changes = json!({"metadata": {"labels": {}, "finalizers": []}});
    s.note("empty is nothing")
        .put(&CONFIG_MAPS, "a", with(made.body, changes))
        .await;
    s.take(&mut watch, 0).await;
}

async fn put_keeps_what_the_system_set(s: &mut Session) {
    let made = s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let meta = json!({"creationTimestamp": "2001-01-01T00:00:00Z", "selfLink": "/here", "generateName": "gen-"});
    s.put(
        &CONFIG_MAPS,
        "a",
        with(made.body, json!({ "metadata": meta })),
    )
    .await;
    s.hide(&["spec", "status"]);
    let made = s.post(&DEPLOYMENTS, mk_deployment("a")).await;
    let object = with(
        made.body,
        json!({"metadata": {"generation": 7, "annotations": {"a": "b"}}}),
    );
    s.put(&DEPLOYMENTS, "a", object).await;
    s.note("a kind without generations takes any")
        .post(&SECRETS, mk_object("v1", "Secret", "a"))
        .await;
    let changes = json!({"metadata": {"generation": 7}});
    s.put(&SECRETS, "a", with(mk_object("v1", "Secret", "a"), changes))
        .await;
}

async fn put_cannot_mark_an_object_deleted(s: &mut Session) {
    let made = s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    for object in [
        with(
            made.body.clone(),
            json!({"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}}),
        ),
        with(
            made.body,
            json!({"metadata": {"deletionGracePeriodSeconds": 5}}),
        ),
    ] {
        s.put(&CONFIG_MAPS, "a", object).await;
    }
}

async fn put_removes_what_it_leaves_out(s: &mut Session) {
    let object = with(
        mk_labelled("a", json!({"l": "1"})),
        json!({"metadata": {"annotations": {"x": "y"}, "ownerReferences": [mk_owner("o", 1)]}}),
    );
    s.post(&CONFIG_MAPS, object).await;
    s.put(&CONFIG_MAPS, "a", mk_object("v1", "ConfigMap", "a"))
        .await;
}

async fn put_raises_the_generation_when_the_spec_changes(s: &mut Session) {
    s.hide(&["spec", "status"]);
    let made = s.post(&DEPLOYMENTS, mk_deployment("a")).await.body;
    let made = s
        .note("spec")
        .put(
            &DEPLOYMENTS,
            "a",
            with(made, json!({"spec": {"replicas": 2}})),
        )
        .await
        .body;
    let made = s
        .note("labels")
        .put(
            &DEPLOYMENTS,
            "a",
            with(made, json!({"metadata": {"labels": {"a": "b"}}})),
        )
        .await
        .body;
    let object = with(made, json!({"status": {"observedGeneration": 2}}));
    s.note("status").put(&DEPLOYMENTS, "a/status", object).await;
    let made = s.post(&JOBS, mk_job("a")).await.body;
    s.put(&JOBS, "a", with(made, json!({"spec": {"suspend": true}})))
        .await;
    let made = s.post(&PODS, mk_pod("a")).await.body;
    let changes = json!({"spec": {"activeDeadlineSeconds": 5}});
    s.put(&PODS, "a", with(made, changes)).await;
}

async fn put_dry_run_answers_and_stores_nothing(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let object = with(mk_config_map("a"), json!({"data": {"k": "2"}}));
    s.put(&CONFIG_MAPS, "a?dryRun=All", object).await;
    s.get(&CONFIG_MAPS, "a").await;
    s.put(&CONFIG_MAPS, "a?dryRun=Some", mk_config_map("a"))
        .await;
}

async fn put_of_an_immutable_config_map_is_422(s: &mut Session) {
    let made = s
        .post(
            &CONFIG_MAPS,
            with(mk_config_map("a"), json!({"immutable": true})),
        )
        .await
        .body;
    for (note, object) in [
        ("", with(made.clone(), json!({"data": {"k": "2"}}))),
        ("", with(made.clone(), json!({"immutable": null}))),
        (
            "metadata may change",
            with(made, json!({"metadata": {"labels": {"l": "1"}}})),
        ),
    ] {
        s.note(note).put(&CONFIG_MAPS, "a", object).await;
    }
}

async fn put_of_another_secret_type_is_422(s: &mut Session) {
    let made = s.post(&SECRETS, mk_object("v1", "Secret", "a")).await.body;
    let changes = json!({"type": "example.com/other"});
    s.put(&SECRETS, "a", with(made, changes)).await;
}

async fn put_of_another_selector_is_422(s: &mut Session) {
    s.hide(&["spec", "status"]);
    let made = s.post(&DEPLOYMENTS, mk_deployment("a")).await.body;
    let changes = json!({"spec": {"selector": {"matchLabels": {"app": "b"}}}});
    s.put(&DEPLOYMENTS, "a", with(made, changes)).await;
}

async fn put_leaves_the_status_alone(s: &mut Session) {
    s.hide(&["spec"]);
    let made = s.post(&DEPLOYMENTS, mk_deployment("a")).await.body;
    s.put(
        &DEPLOYMENTS,
        "a",
        with(made, json!({"status": {"replicas": 3}})),
    )
    .await;
    let made = s.post(&CRON_JOBS, mk_cron_job("a")).await.body;
    let object = with(
        made,
        json!({"status": {"lastScheduleTime": "2001-01-01T00:00:00Z"}}),
    );
    s.put(&CRON_JOBS, "a", object).await;
    let made = s.post(&PODS, mk_pod("a")).await.body;
    let changes = json!({"status": {"phase": "Running"}});
    s.put(&PODS, "a", with(made, changes)).await;
}

async fn put_of_status_leaves_the_spec_alone(s: &mut Session) {
    s.hide_defaults();
    let strategy = json!({"type": "Recreate"});
    let made = s
        .post(
            &DEPLOYMENTS,
            with(
                mk_deployment("a"),
                json!({"spec": {"replicas": 1, "strategy": strategy}}),
            ),
        )
        .await
        .body;
    let changes =
        json!({"spec": {"replicas": 5}, "status": {"replicas": 3, "observedGeneration": 1}});
    s.put(&DEPLOYMENTS, "a/status", with(made, changes)).await;
}

async fn put_of_status_obeys_resource_versions(s: &mut Session) {
    s.hide(&["spec"]);
    let old = s.post(&DEPLOYMENTS, mk_deployment("a")).await.body;
    for (note, object) in [
        ("", with(old.clone(), json!({"status": {"replicas": 3}}))),
        ("stale", with(old, json!({"status": {"replicas": 4}}))),
        (
            "without",
            with(mk_deployment("a"), json!({"status": {"replicas": 5}})),
        ),
    ] {
        s.note(note).put(&DEPLOYMENTS, "a/status", object).await;
    }
}

fn decorated(object: Value) -> Value {
    let meta = json!({
        "labels": {"new": "l"},
        "annotations": {"new": "a"},
        "finalizers": ["example.com/new"],
        "ownerReferences": [mk_owner("o", 1)],
    });
    with(object, json!({ "metadata": meta }))
}

async fn put_of_status_keeps_annotations_and_finalizers_but_not_labels_of_a_deployment(
    s: &mut Session,
) {
    s.hide(&["spec"]);
    let made = s.post(&DEPLOYMENTS, mk_deployment("a")).await.body;
    s.put(&DEPLOYMENTS, "a/status", decorated(made)).await;
    let made = s
        .post(&REPLICA_SETS, mk_workload("ReplicaSet", "a"))
        .await
        .body;
    s.put(&REPLICA_SETS, "a/status", decorated(made)).await;
    let made = s.post(&JOBS, mk_job("a")).await.body;
    s.put(&JOBS, "a/status", decorated(made)).await;
    let made = s.post(&CRON_JOBS, mk_cron_job("a")).await.body;
    s.put(&CRON_JOBS, "a/status", decorated(made)).await;
}

async fn put_of_status_cannot_change_owners_of_a_pod(s: &mut Session) {
    s.hide(&["spec"]);
    let made = s.post(&PODS, mk_pod("a")).await.body;
    let object = with(decorated(made), json!({"status": {"phase": "Running"}}));
    s.put(&PODS, "a/status", object).await;
}

async fn put_of_status_of_a_missing_object_is_404(s: &mut Session) {
    s.put(&DEPLOYMENTS, "a/status", mk_deployment("a")).await;
    s.merge_patch(&DEPLOYMENTS, "a/status", json!({"status": {"replicas": 1}}))
        .await;
}

async fn get_of_status_is_the_whole_object(s: &mut Session) {
    s.hide(&["spec"]);
    s.post(&DEPLOYMENTS, mk_deployment("a")).await;
    s.get(&DEPLOYMENTS, "a/status").await;
}

async fn put_with_unknown_fields_warns_or_is_400_when_strict(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let odd = with(mk_config_map("a"), json!({"nope": 1}));
    s.put(&CONFIG_MAPS, "a", odd.clone()).await;
    s.put(&CONFIG_MAPS, "a?fieldValidation=Ignore", odd.clone())
        .await;
    s.put(&CONFIG_MAPS, "a?fieldValidation=Strict", odd).await;
}

async fn put_of_a_deleting_object_keeps_its_deletion_mark(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_held("a")).await;
    let going = s.delete(&CONFIG_MAPS, "a").await.body;
    let changes = json!({"data": {"k": "2"}});
    s.put(&CONFIG_MAPS, "a", with(mk_held("a"), changes)).await;
    let moved =
        json!({"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z", "resourceVersion": null}});
    s.put(&CONFIG_MAPS, "a", with(going, moved)).await;
}
