//! Delete: the whole decision function: preconditions, grace, finalizers, propagation, second deletes. Collections have their
//! own theme, Pods a file.

mod pods;

use http::Method;
use serde_json::{Value, json};

use self::pods::*;
use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::{Ask, Session};

pub(super) const CASES: &[TestCase] = &[
    api_case!(delete_answers_with_a_status_that_names_the_uid),
    api_case!(delete_of_some_kinds_answers_with_the_object),
    api_case!(delete_of_a_missing_object_is_404),
    api_case!(delete_with_another_uid_is_409),
    api_case!(delete_with_another_resource_version_is_409),
    api_case!(delete_with_right_preconditions_deletes),
    api_case!(delete_options_may_be_of_any_version),
    api_case!(delete_options_of_another_kind_are_400),
    api_case!(delete_options_that_make_no_sense_are_refused),
    api_case!(delete_options_may_stand_in_the_query),
    api_case!(delete_with_a_finalizer_marks_and_waits),
    api_case!(delete_again_while_a_finalizer_holds_changes_nothing),
    api_case!(delete_ends_when_the_last_finalizer_goes_by_put),
    api_case!(delete_ends_when_the_last_finalizer_goes_by_patch),
    api_case!(delete_foreground_waits_under_its_finalizer),
    api_case!(delete_foreground_then_background_deletes_at_once),
    api_case!(delete_orphan_waits_under_its_finalizer),
    api_case!(delete_orphan_then_foreground_swaps_the_finalizers),
    api_case!(delete_foreground_then_no_policy_keeps_the_finalizer),
    api_case!(delete_foreground_then_orphan_swaps_the_finalizers),
    api_case!(delete_with_orphan_dependents_true_orphans),
    api_case!(delete_with_orphan_dependents_false_and_a_finalizer_is_202),
    api_case!(delete_with_policy_and_orphan_dependents_is_422),
    api_case!(delete_keeps_other_finalizers_in_order),
    api_case!(delete_obeys_a_finalizer_that_was_there_before),
    api_case!(delete_of_an_unscheduled_pod_takes_two_writes),
    api_case!(delete_of_a_bound_pod_waits_for_its_grace),
    api_case!(delete_of_a_bound_pod_again_can_only_shorten_the_grace),
    api_case!(delete_of_a_bound_pod_with_grace_0_deletes_at_once),
    api_case!(delete_of_a_bound_pod_that_is_waiting_with_grace_0_deletes),
    api_case!(delete_of_a_finished_pod_is_immediate),
    api_case!(delete_of_a_bound_pod_with_a_finalizer_needs_both),
    api_case!(delete_of_a_bound_pod_whose_finalizer_goes_first_waits_for_grace),
    api_case!(delete_with_a_negative_grace_means_one_second),
    api_case!(delete_of_a_pod_takes_the_grace_of_its_spec),
    api_case!(delete_grace_is_ignored_by_kinds_without_grace),
    api_case!(delete_of_a_job_orphans_by_default_and_warns),
    api_case!(delete_of_a_replication_controller_orphans_by_default),
    api_case!(delete_of_a_deployment_raises_its_generation_once),
    api_case!(delete_of_an_event_ignores_propagation),
    api_case!(delete_dry_run_answers_and_deletes_nothing),
    api_case!(delete_events_carry_the_last_state_and_a_new_version),
];

const FOREGROUND: &str = "Foreground";
const BACKGROUND: &str = "Background";
const ORPHAN: &str = "Orphan";

fn grace(secs: i64) -> Value {
    json!({ "gracePeriodSeconds": secs })
}

fn policy(name: &str) -> Value {
    json!({ "propagationPolicy": name })
}

async fn delete_answers_with_a_status_that_names_the_uid(s: &mut Session) {
    s.hide(&["spec", "status"]);
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.delete(&CONFIG_MAPS, "a").await;
    s.get(&CONFIG_MAPS, "a").await;
    s.post(&DEPLOYMENTS, mk_deployment("a")).await;
    s.delete(&DEPLOYMENTS, "a").await;
    s.post(&LEASES, mk_lease("a")).await;
    s.delete(&LEASES, "a").await;
}

async fn delete_of_some_kinds_answers_with_the_object(s: &mut Session) {
    s.hide(&["spec", "status"]);
    s.post(&SERVICES, mk_service("a")).await;
    s.delete(&SERVICES, "a").await;
    s.post(&SERVICE_ACCOUNTS, mk_object("v1", "ServiceAccount", "a"))
        .await;
    s.delete(&SERVICE_ACCOUNTS, "a").await;
    s.post(&QUOTAS, mk_object("v1", "ResourceQuota", "a")).await;
    s.delete(&QUOTAS, "a").await;
    let name = format!("{}-node", s.ns());
    s.post(&NODES, mk_object("v1", "Node", &name)).await;
    s.note("and this one with a Status")
        .delete(&NODES, &name)
        .await;
}

async fn delete_of_a_missing_object_is_404(s: &mut Session) {
    s.delete(&CONFIG_MAPS, "a").await;
    s.delete_with(&DEPLOYMENTS, "a", policy(FOREGROUND)).await;
    let options = json!({"preconditions": {"uid": "00000000-0000-0000-0000-000000000001"}});
    s.delete_with(&CONFIG_MAPS, "a", options).await;
}

async fn delete_with_another_uid_is_409(s: &mut Session) {
    s.hide(&["spec", "status"]);
    let options = json!({"preconditions": {"uid": "00000000-0000-0000-0000-000000000001"}});
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.delete_with(&CONFIG_MAPS, "a", options.clone()).await;
    s.get(&CONFIG_MAPS, "a").await;
    s.post(&DEPLOYMENTS, mk_deployment("a")).await;
    s.delete_with(&DEPLOYMENTS, "a", options.clone()).await;
    s.post(&PODS, mk_pod("a")).await;
    s.delete_with(&PODS, "a", options).await;
}

async fn delete_with_another_resource_version_is_409(s: &mut Session) {
    let old = s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.merge_patch(&CONFIG_MAPS, "a", json!({"data": {"k": "2"}}))
        .await;
    for (note, options) in [
        ("", json!({"preconditions": {"resourceVersion": old.rv()}})),
        (
            "",
            json!({"preconditions": {"resourceVersion": old.rv(), "uid": old.uid()}}),
        ),
        (
            "no version at all is a version too",
            json!({"preconditions": {"resourceVersion": ""}}),
        ),
    ] {
        s.note(note).delete_with(&CONFIG_MAPS, "a", options).await;
    }
}

async fn delete_with_right_preconditions_deletes(s: &mut Session) {
    let made = s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let options = json!({"preconditions": {"resourceVersion": made.rv(), "uid": made.uid()}});
    s.delete_with(&CONFIG_MAPS, "a", options).await;
    s.note("none given")
        .post(&CONFIG_MAPS, mk_config_map("b"))
        .await;
    s.delete_with(&CONFIG_MAPS, "b", json!({"preconditions": {}}))
        .await;
}

async fn delete_options_may_be_of_any_version(s: &mut Session) {
    for version in ["v1", "apps/v1", "meta.k8s.io/v1", "batch/v1"] {
        s.post(&CONFIG_MAPS, mk_config_map("a")).await;
        s.delete_with(
            &CONFIG_MAPS,
            "a",
            json!({"apiVersion": version, "kind": "DeleteOptions"}),
        )
        .await;
    }
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let options = json!({"kind": "DeleteOptions", "apiVersion": "nonsense.io/v7"});
    s.delete_with(&CONFIG_MAPS, "a", options).await;
    s.delete_with(&CONFIG_MAPS, "a", json!({})).await;
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.delete_with(&CONFIG_MAPS, "a", json!({"unknown": 1}))
        .await;
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let path = s.item(&CONFIG_MAPS, "a");
    let ask = Ask::with_body(
        Method::DELETE,
        path,
        "application/yaml",
        "propagationPolicy: Foreground\n",
    );
    s.note("YAML").ask(ask).await;
}

async fn delete_options_of_another_kind_are_400(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    for options in [
        json!({"apiVersion": "v1", "kind": "Pod"}),
        json!({"apiVersion": "v1", "kind": "Nonsense"}),
        json!({"kind": "Pod"}),
        json!([]),
    ] {
        s.delete_with(&CONFIG_MAPS, "a", options).await;
    }
    let path = s.item(&CONFIG_MAPS, "a");
    for ask in [
        Ask::with_body(Method::DELETE, &path, "application/json", "{"),
        Ask::with_body(Method::DELETE, &path, "text/plain", "{}"),
    ] {
        s.ask(ask).await;
    }
}

async fn delete_options_that_make_no_sense_are_refused(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.delete_with(&CONFIG_MAPS, "a", policy("Sometimes")).await;
    s.delete_with(&CONFIG_MAPS, "a", policy("")).await;
    s.delete_with(&CONFIG_MAPS, "a", json!({"dryRun": ["Some"]}))
        .await;
    s.delete_with(&CONFIG_MAPS, "a", json!({"gracePeriodSeconds": "soon"}))
        .await;
    s.delete_with(&CONFIG_MAPS, "a", json!({"preconditions": "none"}))
        .await;
    s.get(&CONFIG_MAPS, "a").await;
}

async fn delete_options_may_stand_in_the_query(s: &mut Session) {
    s.hide(&["spec", "status"]);
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.delete(&CONFIG_MAPS, "a?propagationPolicy=Foreground")
        .await;
    s.post(&PODS, mk_bound_pod("a")).await;
    s.delete(&PODS, "a?gracePeriodSeconds=7").await;
    s.delete(&PODS, "a?gracePeriodSeconds=abc").await;
    s.post(&CONFIG_MAPS, mk_config_map("b")).await;
    s.note("a body counts instead of the query");
    let path = s.item(&CONFIG_MAPS, "b?propagationPolicy=Foreground");
    s.ask(Ask::new(Method::DELETE, path).json(&policy(BACKGROUND)))
        .await;
    s.post(&CONFIG_MAPS, mk_config_map("c")).await;
    s.delete(&CONFIG_MAPS, "c?dryRun=All").await;
    s.delete(&CONFIG_MAPS, "c?orphanDependents=true").await;
    s.delete(&CONFIG_MAPS, "c?propagationPolicy=Sometimes")
        .await;
}

async fn delete_with_a_finalizer_marks_and_waits(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_held("a")).await;
    s.delete(&CONFIG_MAPS, "a").await;
    s.get(&CONFIG_MAPS, "a").await;
}

async fn delete_again_while_a_finalizer_holds_changes_nothing(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_held("a")).await;
    s.delete(&CONFIG_MAPS, "a").await;
    s.delete(&CONFIG_MAPS, "a").await;
    s.delete_with(&CONFIG_MAPS, "a", policy(BACKGROUND)).await;
    s.delete_with(&CONFIG_MAPS, "a", grace(0)).await;
}

async fn delete_ends_when_the_last_finalizer_goes_by_put(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_held("a")).await;
    let going = s.delete(&CONFIG_MAPS, "a").await;
    let mut watch = s.watch_from(&CONFIG_MAPS, &going).await;
    let free = json!({"metadata": {"finalizers": null, "annotations": {"last": "words"}}});
    s.put(&CONFIG_MAPS, "a", with(going.body, free)).await;
    s.get(&CONFIG_MAPS, "a").await;
    s.take(&mut watch, 1).await;
}

async fn delete_ends_when_the_last_finalizer_goes_by_patch(s: &mut Session) {
    let changes = json!({"metadata": {"finalizers": ["example.com/a", "example.com/b"]}});
    s.post(&CONFIG_MAPS, with(mk_held("a"), changes)).await;
    let going = s.delete(&CONFIG_MAPS, "a").await;
    let mut watch = s.watch_from(&CONFIG_MAPS, &going).await;
    let patch = json!([{"op": "remove", "path": "/metadata/finalizers/0"}]);
    s.json_patch(&CONFIG_MAPS, "a", patch).await;
    s.merge_patch(&CONFIG_MAPS, "a", json!({"metadata": {"finalizers": null}}))
        .await;
    s.get(&CONFIG_MAPS, "a").await;
    s.take(&mut watch, 2).await;
}

async fn delete_foreground_waits_under_its_finalizer(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.delete_with(&CONFIG_MAPS, "a", policy(FOREGROUND)).await;
    s.note("again")
        .delete_with(&CONFIG_MAPS, "a", policy(FOREGROUND))
        .await;
    s.get(&CONFIG_MAPS, "a").await;
}

async fn delete_foreground_then_background_deletes_at_once(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let going = s.delete_with(&CONFIG_MAPS, "a", policy(FOREGROUND)).await;
    let mut watch = s.watch_from(&CONFIG_MAPS, &going).await;
    s.delete_with(&CONFIG_MAPS, "a", policy(BACKGROUND)).await;
    s.get(&CONFIG_MAPS, "a").await;
    s.take(&mut watch, 1).await;
}

async fn delete_orphan_waits_under_its_finalizer(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.delete_with(&CONFIG_MAPS, "a", policy(ORPHAN)).await;
    s.delete_with(&CONFIG_MAPS, "a", policy(BACKGROUND)).await;
}

async fn delete_orphan_then_foreground_swaps_the_finalizers(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.delete_with(&CONFIG_MAPS, "a", policy(ORPHAN)).await;
    s.delete_with(&CONFIG_MAPS, "a", policy(FOREGROUND)).await;
}

async fn delete_foreground_then_no_policy_keeps_the_finalizer(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.delete_with(&CONFIG_MAPS, "a", policy(FOREGROUND)).await;
    s.delete(&CONFIG_MAPS, "a").await;
    s.delete_with(&CONFIG_MAPS, "a", grace(0)).await;
}

async fn delete_foreground_then_orphan_swaps_the_finalizers(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_held("a")).await;
    s.delete_with(&CONFIG_MAPS, "a", policy(FOREGROUND)).await;
    s.delete_with(&CONFIG_MAPS, "a", policy(ORPHAN)).await;
    s.delete_with(&CONFIG_MAPS, "a", policy(BACKGROUND)).await;
}

async fn delete_with_orphan_dependents_true_orphans(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.delete_with(&CONFIG_MAPS, "a", json!({"orphanDependents": true}))
        .await;
    s.delete_with(&CONFIG_MAPS, "a", json!({"orphanDependents": false}))
        .await;
}

async fn delete_with_orphan_dependents_false_and_a_finalizer_is_202(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_held("a")).await;
    s.delete_with(&CONFIG_MAPS, "a", json!({"orphanDependents": false}))
        .await;
    s.delete_with(&CONFIG_MAPS, "a", json!({"orphanDependents": false}))
        .await;
}

async fn delete_with_policy_and_orphan_dependents_is_422(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let options = json!({"orphanDependents": true, "propagationPolicy": ORPHAN});
    s.delete_with(&CONFIG_MAPS, "a", options).await;
}

async fn delete_keeps_other_finalizers_in_order(s: &mut Session) {
    let finalizers = json!({"metadata": {"finalizers": ["example.com/b", "example.com/a"]}});
    s.post(&CONFIG_MAPS, with(mk_config_map("a"), finalizers))
        .await;
    s.delete_with(&CONFIG_MAPS, "a", policy(FOREGROUND)).await;
    s.delete_with(&CONFIG_MAPS, "a", policy(ORPHAN)).await;
    s.delete_with(&CONFIG_MAPS, "a", policy(BACKGROUND)).await;
}

async fn delete_obeys_a_finalizer_that_was_there_before(s: &mut Session) {
    let held = |name: &str, finalizer: &str| {
        with(
            mk_config_map(name),
            json!({"metadata": {"finalizers": [finalizer]}}),
        )
    };
    s.post(&CONFIG_MAPS, held("a", "orphan")).await;
    s.note("no policy").delete(&CONFIG_MAPS, "a").await;
    s.post(&CONFIG_MAPS, held("b", "foregroundDeletion")).await;
    s.note("no policy").delete(&CONFIG_MAPS, "b").await;
    s.post(&CONFIG_MAPS, held("c", "foregroundDeletion")).await;
    s.note("background removes it")
        .delete_with(&CONFIG_MAPS, "c", policy(BACKGROUND))
        .await;
    s.post(&CONFIG_MAPS, held("d", "foregroundDeletion")).await;
    s.delete_with(&CONFIG_MAPS, "d", json!({"orphanDependents": false}))
        .await;
}

async fn delete_grace_is_ignored_by_kinds_without_grace(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_held("a")).await;
    s.delete_with(&CONFIG_MAPS, "a", grace(30)).await;
    s.post(&CONFIG_MAPS, mk_config_map("b")).await;
    s.delete_with(&CONFIG_MAPS, "b", grace(30)).await;
}

async fn delete_of_a_job_orphans_by_default_and_warns(s: &mut Session) {
    s.hide(&["spec", "status"]);
    s.post(&JOBS, mk_job("a")).await;
    s.delete(&JOBS, "a").await;
    s.delete_with(&JOBS, "a", policy(BACKGROUND)).await;
    s.post(&JOBS, mk_job("b")).await;
    s.delete_with(&JOBS, "b", policy(BACKGROUND)).await;
    s.post(&JOBS, mk_job("c")).await;
    s.delete_with(&JOBS, "c", policy(FOREGROUND)).await;
    s.post(&JOBS, mk_job("d")).await;
    s.delete_with(&JOBS, "d", json!({"orphanDependents": false}))
        .await;
    s.post(&CRON_JOBS, mk_cron_job("a")).await;
    s.note("a CronJob does not").delete(&CRON_JOBS, "a").await;
}

async fn delete_of_a_replication_controller_orphans_by_default(s: &mut Session) {
    s.hide(&["spec", "status"]);
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": mk_pod_spec()});
    let controller = with(
        mk_object("v1", "ReplicationController", "a"),
        json!({"spec": {"selector": {"app": "a"}, "template": template}}),
    );
    s.post(&REPLICATION_CONTROLLERS, controller).await;
    s.delete(&REPLICATION_CONTROLLERS, "a").await;
}

async fn delete_of_a_deployment_raises_its_generation_once(s: &mut Session) {
    s.hide(&["spec", "status"]);
    s.post(&DEPLOYMENTS, mk_deployment("a")).await;
    s.delete_with(&DEPLOYMENTS, "a", policy(FOREGROUND)).await;
    s.delete_with(&DEPLOYMENTS, "a", policy(ORPHAN)).await;
}

async fn delete_of_an_event_ignores_propagation(s: &mut Session) {
    let event = mk_event("a", s.ns());
    s.post(&EVENTS, event).await;
    s.delete_with(&EVENTS, "a", policy(FOREGROUND)).await;
    s.get(&EVENTS, "a").await;
}

async fn delete_dry_run_answers_and_deletes_nothing(s: &mut Session) {
    s.hide(&["spec", "status"]);
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    for options in [
        json!({"dryRun": ["All"]}),
        json!({"dryRun": ["All"], "propagationPolicy": FOREGROUND}),
    ] {
        s.delete_with(&CONFIG_MAPS, "a", options).await;
    }
    s.get(&CONFIG_MAPS, "a").await;
    s.post(&PODS, mk_bound_pod("a")).await;
    s.delete_with(&PODS, "a", json!({"dryRun": ["All"]})).await;
    s.get(&PODS, "a").await;
    s.note("preconditions count").delete_with(&CONFIG_MAPS, "a", json!({"dryRun": ["All"], "preconditions": {"uid": "00000000-0000-0000-0000-000000000001"}})).await;
}

async fn delete_events_carry_the_last_state_and_a_new_version(s: &mut Session) {
    let mut watch = s.watch(&CONFIG_MAPS, "").await;
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.merge_patch(&CONFIG_MAPS, "a", json!({"data": {"k": "2"}}))
        .await;
    s.delete(&CONFIG_MAPS, "a").await;
    s.take(&mut watch, 3).await;
}
