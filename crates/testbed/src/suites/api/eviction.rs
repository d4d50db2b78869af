//! The subresource `eviction` of Pods, and PodDisruptionBudgets.

use http::Method;
use serde_json::{Value, json};

use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::{Answer, Ask, Session};

pub(super) const CASES: &[TestCase] = &[
    api_case!(an_eviction_marks_and_deletes_the_pod),
    api_case!(an_eviction_has_to_make_sense),
    api_case!(an_eviction_that_is_tried_deletes_nothing),
    api_case!(an_eviction_has_the_options_of_a_delete),
    api_case!(an_eviction_may_name_the_copy_it_is_for),
    api_case!(an_eviction_in_the_older_version_is_taken),
    api_case!(an_eviction_within_the_budget_is_counted),
    api_case!(an_eviction_beyond_the_budget_is_429),
    api_case!(an_eviction_waits_for_a_budget_that_is_not_observed),
    api_case!(an_eviction_with_two_budgets_is_500),
    api_case!(an_eviction_of_a_pod_that_does_not_run_needs_no_budget),
    api_case!(an_eviction_of_an_unready_pod_follows_the_policy),
    api_case!(an_eviction_is_only_posted),
    api_case!(budgets_have_no_negative_counts),
];

const TIME: &str = "2026-01-01T00:00:00Z";

fn mk_eviction(pod: &str) -> Value {
    mk_object("policy/v1", "Eviction", pod)
}

async fn evict(s: &mut Session, pod: &str, eviction: Value) -> Answer {
    let path = s.item(&PODS, &format!("{pod}/eviction"));
    s.ask(Ask::post(path, &eviction).showing(&["retry-after"]))
        .await
}

/// Creates a Pod with the label `app` of its name and a finalizer, so that its end can be seen.
async fn run_pod(s: &mut Session, name: &str, phase: &str, ready: &str) {
    let held = json!({"metadata": {"labels": {"app": name}, "finalizers": ["example.com/a"]},
        "spec": {"terminationGracePeriodSeconds": 0}});
    let pod = with(mk_bound_pod(name), held);
    s.quietly(Ask::post(s.path(&PODS), &pod)).await;
    let ready = json!({"type": "Ready", "status": ready});
    let status = json!({"status": {"phase": phase, "conditions": [ready]}});
    let path = s.item(&PODS, &format!("{name}/status"));
    s.quietly(Ask::merge_patch(path, &status)).await;
}

/// Creates a budget of the Pods with the label `app`.
async fn set_budget(s: &mut Session, name: &str, app: &str, status: Value) {
    let spec = json!({"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}});
    let budget = with(mk_object("policy/v1", "PodDisruptionBudget", name), spec);
    s.quietly(Ask::post(s.path(&DISRUPTION_BUDGETS), &budget))
        .await;
    set_status(s, name, status).await;
}

async fn set_status(s: &mut Session, name: &str, status: Value) {
    let path = s.item(&DISRUPTION_BUDGETS, &format!("{name}/status"));
    let status = json!({ "status": status });
    s.quietly(Ask::merge_patch(path, &status)).await;
}

fn mk_status(allowed: i64, healthy: i64, desired: i64) -> Value {
    json!({"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": healthy,
        "desiredHealthy": desired, "expectedPods": 3})
}

/// The end and the conditions of a Pod.
fn ending(body: &Value) -> Value {
    let is_deleting = !body["metadata"]["deletionTimestamp"].is_null();
    json!([
        is_deleting,
        body["metadata"]["generation"],
        body["status"]["conditions"]
    ])
}

async fn look(s: &mut Session, name: &str) {
    let path = s.item(&PODS, name);
    s.ask(Ask::get(path).viewed(ending)).await;
}

async fn an_eviction_marks_and_deletes_the_pod(s: &mut Session) {
    run_pod(s, "a", "Running", "True").await;
    evict(s, "a", mk_eviction("a")).await;
    look(s, "a").await;
    s.note("again");
    evict(s, "a", mk_eviction("a")).await;
    look(s, "a").await;
    evict(s, "b", mk_eviction("b")).await;
}

async fn an_eviction_has_to_make_sense(s: &mut Session) {
    run_pod(s, "a", "Running", "True").await;
    for (note, changes) in [
        ("another name", json!({"metadata": {"name": "b"}})),
        ("no name", json!({"metadata": {"name": null}})),
        ("another namespace", json!({"metadata": {"namespace": "b"}})),
        ("another kind", json!({"apiVersion": "v1", "kind": "Pod"})),
        ("unknown version", json!({"apiVersion": "policy/v2"})),
        (
            "unknown field",
            json!({"foo": 1, "deleteOptions": {"dryRun": ["All"]}}),
        ),
    ] {
        s.note(note);
        evict(s, "a", with(mk_eviction("a"), changes)).await;
    }
    evict(s, "a", Value::Null).await;
    evict(s, "a", json!({})).await;
    look(s, "a").await;
}

async fn an_eviction_that_is_tried_deletes_nothing(s: &mut Session) {
    run_pod(s, "a", "Running", "True").await;
    set_budget(s, "b", "a", mk_status(1, 2, 1)).await;
    let dry = with(
        mk_eviction("a"),
        json!({"deleteOptions": {"dryRun": ["All"]}}),
    );
    evict(s, "a", dry.clone()).await;
    let path = s.item(&PODS, "a/eviction?dryRun=All");
    s.ask(Ask::post(&path, &mk_eviction("a"))).await;
    s.ask(Ask::post(&path, &dry)).await;
    let twice = with(dry, json!({"deleteOptions": {"dryRun": ["All", "All"]}}));
    s.note("not the same").ask(Ask::post(&path, &twice)).await;
    look(s, "a").await;
    s.get(&DISRUPTION_BUDGETS, "b").await;
}

async fn an_eviction_has_the_options_of_a_delete(s: &mut Session) {
    run_pod(s, "a", "Running", "True").await;
    for options in [
        json!({"dryRun": ["No"]}),
        json!({"propagationPolicy": "Foo", "dryRun": ["All"]}),
        json!({"gracePeriodSeconds": "x"}),
        json!({"ignoreStoreReadErrorWithClusterBreakingPotential": true}),
        json!({"gracePeriodSeconds": 7}),
    ] {
        let options = json!({ "deleteOptions": options });
        evict(s, "a", with(mk_eviction("a"), options)).await;
    }
    let graceful = |body: &Value| body["metadata"]["deletionGracePeriodSeconds"].clone();
    let path = s.item(&PODS, "a");
    s.ask(Ask::get(path).viewed(graceful)).await;
}

async fn an_eviction_may_name_the_copy_it_is_for(s: &mut Session) {
    run_pod(s, "a", "Running", "True").await;
    s.hide(&["spec", "status"]);
    let pod = s.get(&PODS, "a").await;
    let other = "00000000-0000-0000-0000-000000000001";
    for (note, preconditions) in [
        ("another uid", json!({"uid": other})),
        ("an older copy", json!({"resourceVersion": "1"})),
        (
            "this copy",
            json!({"uid": pod.uid(), "resourceVersion": pod.rv()}),
        ),
    ] {
        s.note(note);
        let options = json!({"deleteOptions": {"preconditions": preconditions}});
        evict(s, "a", with(mk_eviction("a"), options)).await;
    }
    look(s, "a").await;
}

async fn an_eviction_in_the_older_version_is_taken(s: &mut Session) {
    run_pod(s, "a", "Running", "True").await;
    let older = json!({"apiVersion": "policy/v1beta1"});
    evict(s, "a", with(mk_eviction("a"), older)).await;
    look(s, "a").await;
}

async fn an_eviction_within_the_budget_is_counted(s: &mut Session) {
    for name in ["a", "b", "c"] {
        run_pod(s, name, "Running", "True").await;
        let label = json!({"metadata": {"labels": {"app": "x"}}});
        let path = s.item(&PODS, name);
        s.quietly(Ask::merge_patch(path, &label)).await;
    }
    let allowed = json!({"type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods",
        "message": "", "lastTransitionTime": TIME});
    let status = with(mk_status(2, 3, 1), json!({"conditions": [allowed]}));
    set_budget(s, "b", "x", status).await;
    for name in ["a", "b", "c"] {
        evict(s, name, mk_eviction(name)).await;
        s.get(&DISRUPTION_BUDGETS, "b").await;
    }
}

async fn an_eviction_beyond_the_budget_is_429(s: &mut Session) {
    run_pod(s, "a", "Running", "True").await;
    set_budget(s, "b", "a", mk_status(0, 1, 1)).await;
    evict(s, "a", mk_eviction("a")).await;
    let condition = |reason: &str, message: &str| {
        json!({"conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": reason,
            "message": message, "lastTransitionTime": TIME}]})
    };
    for status in [
        mk_status(0, 2, 1),
        with(mk_status(0, 2, 1), condition("InsufficientPods", "not now")),
        with(mk_status(0, 1, 1), condition("SyncFailed", "broken")),
    ] {
        set_status(s, "b", status).await;
        evict(s, "a", mk_eviction("a")).await;
    }
    look(s, "a").await;
}

async fn an_eviction_waits_for_a_budget_that_is_not_observed(s: &mut Session) {
    run_pod(s, "a", "Running", "True").await;
    set_budget(s, "b", "a", json!({"disruptionsAllowed": 1})).await;
    evict(s, "a", mk_eviction("a")).await;
    set_status(s, "b", mk_status(1, 2, 1)).await;
    let path = s.item(&DISRUPTION_BUDGETS, "b");
    let change = json!({"spec": {"minAvailable": 0}});
    s.quietly(Ask::merge_patch(path, &change)).await;
    evict(s, "a", mk_eviction("a")).await;
    look(s, "a").await;
}

async fn an_eviction_with_two_budgets_is_500(s: &mut Session) {
    run_pod(s, "a", "Running", "True").await;
    for name in ["b", "c"] {
        set_budget(s, name, "a", mk_status(1, 2, 1)).await;
    }
    set_budget(s, "d", "other", mk_status(0, 0, 1)).await;
    evict(s, "a", mk_eviction("a")).await;
    look(s, "a").await;
}

async fn an_eviction_of_a_pod_that_does_not_run_needs_no_budget(s: &mut Session) {
    for (name, phase) in [("a", "Pending"), ("b", "Succeeded"), ("c", "Failed")] {
        run_pod(s, name, phase, "False").await;
        set_budget(s, name, name, mk_status(0, 0, 1)).await;
        evict(s, name, mk_eviction(name)).await;
        look(s, name).await;
    }
}

async fn an_eviction_of_an_unready_pod_follows_the_policy(s: &mut Session) {
    for (name, healthy, policy) in [
        ("a", 1, Value::Null),
        ("b", 0, Value::Null),
        ("c", 0, json!("IfHealthyBudget")),
        ("d", 0, json!("AlwaysAllow")),
    ] {
        run_pod(s, name, "Running", "False").await;
        set_budget(s, name, name, json!({})).await;
        let path = s.item(&DISRUPTION_BUDGETS, name);
        let policy = json!({"spec": {"unhealthyPodEvictionPolicy": policy}});
        s.quietly(Ask::merge_patch(path, &policy)).await;
        let observed = with(mk_status(0, healthy, 1), json!({"observedGeneration": 2}));
        set_status(s, name, observed).await;
        evict(s, name, mk_eviction(name)).await;
        look(s, name).await;
        let status = |body: &Value| body["status"].clone();
        let path = s.item(&DISRUPTION_BUDGETS, name);
        s.ask(Ask::get(path).viewed(status)).await;
    }
}

async fn an_eviction_is_only_posted(s: &mut Session) {
    run_pod(s, "a", "Running", "True").await;
    s.get(&PODS, "a/eviction").await;
    s.put(&PODS, "a/eviction", mk_eviction("a")).await;
    let path = s.item(&PODS, "a/eviction");
    s.ask(Ask::new(Method::DELETE, path)).await;
}

async fn budgets_have_no_negative_counts(s: &mut Session) {
    set_budget(s, "b", "a", mk_status(1, 2, 1)).await;
    let status = json!({"status": {"disruptionsAllowed": -1, "expectedPods": -2}});
    s.merge_patch(&DISRUPTION_BUDGETS, "b/status", status).await;
}
