//! Workloads: what simulated kubelets, schedulers and controllers write, and what the server makes of it.

use http::Method;
use serde_json::{Value, json};

use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::{Answer, Ask, Session};

pub(super) const CASES: &[TestCase] = &[
    api_case!(create_of_a_replica_set_fills_in_defaults),
    api_case!(create_of_a_parallel_job_fills_in_defaults),
    api_case!(create_of_a_job_with_a_selector_of_its_own),
    api_case!(a_job_whose_numbers_or_words_make_no_sense_is_refused),
    api_case!(create_of_a_node_keeps_its_status),
    api_case!(a_binding_puts_a_pod_on_a_node),
    api_case!(a_binding_brings_labels_and_annotations),
    api_case!(a_binding_ends_what_was_only_nominated),
    api_case!(a_second_binding_is_409),
    api_case!(a_binding_of_a_pod_that_ends_or_is_gated_is_409),
    api_case!(a_binding_may_name_the_copy_it_is_for),
    api_case!(a_binding_has_to_make_sense),
    api_case!(a_binding_that_is_tried_binds_nothing),
    api_case!(a_binding_is_only_posted),
    api_case!(the_older_path_of_bindings_does_the_same),
    api_case!(a_node_is_not_set_by_an_update),
    api_case!(a_pod_lives_by_its_status),
    api_case!(a_bound_pod_waits_for_its_grace_and_goes_without),
    api_case!(a_job_status_agrees_with_itself),
    api_case!(a_job_completes_with_conditions_in_order),
    api_case!(a_job_fails_with_conditions_in_order),
    api_case!(what_a_job_status_said_holds),
    api_case!(a_replica_set_and_a_deployment_count_in_their_status),
];

const TIME: &str = "2026-01-01T00:00:00Z";

async fn create_of_a_replica_set_fills_in_defaults(s: &mut Session) {
    s.post(&REPLICA_SETS, mk_workload("ReplicaSet", "a")).await;
    let two = with(
        mk_workload("ReplicaSet", "b"),
        json!({"spec": {"replicas": 2}}),
    );
    s.post(&REPLICA_SETS, two).await;
}

async fn create_of_a_parallel_job_fills_in_defaults(s: &mut Session) {
    let parallel = json!({"spec": {"parallelism": 2}});
    s.post(&JOBS, with(mk_job("a"), parallel)).await;
    let both = json!({"spec": {"parallelism": 2, "completions": 4, "ttlSecondsAfterFinished": 0}});
    s.post(&JOBS, with(mk_job("b"), both)).await;
    let indexed =
        json!({"spec": {"completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": 1}});
    s.post(&JOBS, with(mk_job("c"), indexed)).await;
}

async fn a_job_whose_numbers_or_words_make_no_sense_is_refused(s: &mut Session) {
    for spec in [
        json!({"ttlSecondsAfterFinished": -5}),
        json!({"parallelism": -2}),
        json!({"completions": -1}),
        json!({"backoffLimit": -1}),
        json!({"activeDeadlineSeconds": -1, "ttlSecondsAfterFinished": -1}),
        json!({"completionMode": "Indexed", "completions": null}),
        json!({"completionMode": "Both"}),
        json!({"podReplacementPolicy": "Always"}),
        json!({"template": {"spec": {"restartPolicy": "Always"}}}),
        json!({"template": {"spec": {"restartPolicy": "Sometimes"}}}),
    ] {
        s.post(&JOBS, with(mk_job("a"), json!({ "spec": spec })))
            .await;
    }
    s.post(&JOBS, mk_job("b")).await;
    let path = format!("{}/b", s.path(&JOBS));
    let patch = json!({"spec": {"ttlSecondsAfterFinished": -5}});
    s.note("afterwards")
        .ask(Ask::merge_patch(path, &patch))
        .await;
}

async fn create_of_a_job_with_a_selector_of_its_own(s: &mut Session) {
    let labels = json!({"app": "x"});
    let spec = json!({"manualSelector": true, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}}});
    s.post(&JOBS, with(mk_job("a"), json!({ "spec": spec })))
        .await;
}

async fn create_of_a_node_keeps_its_status(s: &mut Session) {
    let ready = json!({"type": "Ready", "status": "True", "lastHeartbeatTime": TIME, "lastTransitionTime": TIME,
        "reason": "R", "message": "m"});
    let status =
        json!({"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "conditions": [ready]});
    let name = format!("{}-n", s.ns());
    let node = with(mk_object("v1", "Node", &name), json!({ "status": status }));
    s.post(&NODES, node).await;
    let later = json!({"status": {"conditions": [{"type": "Ready", "status": "False",
        "lastHeartbeatTime": TIME, "lastTransitionTime": TIME}]}});
    let status = format!("{name}/status");
    s.merge_patch(&NODES, &status, later).await;
}

fn mk_binding(pod: &str) -> Value {
    with(
        mk_object("v1", "Binding", pod),
        json!({"target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"}}),
    )
}

async fn bind(s: &mut Session, pod: &str, binding: Value) -> Answer {
    let path = format!("{}/binding", s.item(&PODS, pod));
    s.ask(Ask::post(path, &binding)).await
}

async fn a_binding_puts_a_pod_on_a_node(s: &mut Session) {
    s.post(&PODS, mk_pod("a")).await;
    bind(s, "a", mk_binding("a")).await;
    s.get(&PODS, "a").await;
    bind(s, "b", mk_binding("b")).await;
}

async fn a_binding_brings_labels_and_annotations(s: &mut Session) {
    s.hide_defaults();
    let own =
        json!({"metadata": {"labels": {"a": "1", "b": "1"}, "annotations": {"a": "1", "b": "1"}}});
    s.post(&PODS, with(mk_pod("a"), own)).await;
    let more =
        json!({"metadata": {"labels": {"b": "2", "c": "2"}, "annotations": {"b": "2", "c": "2"}}});
    bind(s, "a", with(mk_binding("a"), more)).await;
    s.get(&PODS, "a").await;
}

async fn a_binding_ends_what_was_only_nominated(s: &mut Session) {
    s.hide_defaults();
    s.post(&PODS, mk_pod("a")).await;
    let not_yet = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m",
        "lastTransitionTime": TIME, "lastProbeTime": TIME});
    let nominated = json!({"status": {"nominatedNodeName": "node-1", "conditions": [not_yet]}});
    s.merge_patch(&PODS, "a/status", nominated).await;
    bind(s, "a", mk_binding("a")).await;
    s.get(&PODS, "a").await;
}

async fn a_second_binding_is_409(s: &mut Session) {
    s.hide_defaults();
    s.post(&PODS, mk_pod("a")).await;
    bind(s, "a", mk_binding("a")).await;
    bind(s, "a", mk_binding("a")).await;
    bind(
        s,
        "a",
        with(mk_binding("a"), json!({"target": {"name": "node-2"}})),
    )
    .await;
}

async fn a_binding_of_a_pod_that_ends_or_is_gated_is_409(s: &mut Session) {
    s.hide_defaults();
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    s.post(&PODS, with(mk_pod("a"), held)).await;
    s.delete(&PODS, "a").await;
    bind(s, "a", mk_binding("a")).await;
    let gated = json!({"spec": {"schedulingGates": [{"name": "example.com/gate"}]}});
    s.post(&PODS, with(mk_pod("b"), gated)).await;
    bind(s, "b", mk_binding("b")).await;
}

async fn a_binding_may_name_the_copy_it_is_for(s: &mut Session) {
    s.hide_defaults();
    let pod = s.post(&PODS, mk_pod("a")).await;
    let (uid, rv) = (pod.uid().to_owned(), pod.rv().to_owned());
    for meta in [
        json!({"uid": "00000000-0000-0000-0000-000000000001"}),
        json!({"resourceVersion": "1"}),
        json!({"uid": uid, "resourceVersion": rv}),
    ] {
        bind(s, "a", with(mk_binding("a"), json!({ "metadata": meta }))).await;
    }
}

async fn a_binding_has_to_make_sense(s: &mut Session) {
    s.hide_defaults();
    s.post(&PODS, mk_pod("a")).await;
    for binding in [
        mk_binding("b"),
        mk_pod("a"),
        with(mk_binding("a"), json!({"target": null})),
        with(
            mk_binding("a"),
            json!({"target": {"kind": "Pod", "name": ""}}),
        ),
        with(mk_binding("a"), json!({"target": {"name": null}})),
        with(mk_binding("a"), json!({"metadata": {"namespace": "other"}})),
        with(mk_binding("a"), json!({"target": {"kind": null}})),
    ] {
        bind(s, "a", binding).await;
    }
}

async fn a_binding_that_is_tried_binds_nothing(s: &mut Session) {
    s.hide_defaults();
    s.post(&PODS, mk_pod("a")).await;
    let path = format!("{}/binding?dryRun=All", s.item(&PODS, "a"));
    s.ask(Ask::post(path, &mk_binding("a"))).await;
    s.get(&PODS, "a").await;
}

async fn a_binding_is_only_posted(s: &mut Session) {
    s.hide_defaults();
    s.post(&PODS, mk_pod("a")).await;
    let path = format!("{}/binding", s.item(&PODS, "a"));
    s.get_path(&path).await;
    s.ask(Ask::new(Method::DELETE, &path)).await;
    s.get_path(format!("/api/v1/namespaces/{}/bindings", s.ns()))
        .await;
}

async fn the_older_path_of_bindings_does_the_same(s: &mut Session) {
    s.hide_defaults();
    s.post(&PODS, mk_pod("a")).await;
    let path = format!("/api/v1/namespaces/{}/bindings", s.ns());
    for binding in [mk_binding("a"), mk_binding("a"), mk_binding("b")] {
        s.ask(Ask::post(&path, &binding)).await;
    }
    let nameless = json!({"metadata": {"name": null}});
    s.ask(Ask::post(&path, &with(mk_binding("a"), nameless)))
        .await;
    s.get(&PODS, "a").await;
}

async fn a_node_is_not_set_by_an_update(s: &mut Session) {
    s.hide_defaults();
    s.post(&PODS, mk_pod("a")).await;
    let bound = json!({"spec": {"nodeName": "node-1"}});
    let path = s.item(&PODS, "a");
    // The message ends with upstream's diff of its own types.
    s.ask(
        Ask::merge_patch(path, &bound).viewed(|body| body["details"]["causes"][0]["field"].clone()),
    )
    .await;
}

async fn a_pod_lives_by_its_status(s: &mut Session) {
    s.hide_defaults();
    s.post(&PODS, mk_bound_pod("a")).await;
    let container = |ready: bool, state: Value| {
        json!([{"name": "c", "image": "i", "imageID": "", "ready": ready, "started": ready,
            "restartCount": 0, "state": state}])
    };
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": TIME});
    let running = json!({"phase": "Running", "startTime": TIME, "hostIP": "10.0.0.1", "podIP": "10.0.0.2",
        "conditions": [ready], "containerStatuses": container(true, json!({"running": {"startedAt": TIME}}))});
    s.merge_patch(&PODS, "a/status", json!({ "status": running }))
        .await;
    let ended =
        json!({"exitCode": 0, "reason": "Completed", "startedAt": TIME, "finishedAt": TIME});
    let succeeded = json!({"phase": "Succeeded", "containerStatuses": container(false, json!({"terminated": ended}))});
    s.merge_patch(&PODS, "a/status", json!({ "status": succeeded }))
        .await;
}

async fn a_bound_pod_waits_for_its_grace_and_goes_without(s: &mut Session) {
    s.hide_defaults();
    let pod = s.post(&PODS, mk_pod("a")).await;
    bind(s, "a", mk_binding("a")).await;
    s.delete(&PODS, "a").await;
    let stale = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid(), "resourceVersion": pod.rv()}});
    s.delete_with(&PODS, "a", stale).await;
    let now = s.get(&PODS, "a").await;
    let fresh = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": now.uid(), "resourceVersion": now.rv()}});
    s.delete_with(&PODS, "a", fresh).await;
    s.get(&PODS, "a").await;
}

fn condition(of: &str) -> Value {
    json!({"type": of, "status": "True", "lastProbeTime": TIME, "lastTransitionTime": TIME})
}

fn conditions(all: &[&str]) -> Value {
    all.iter().map(|of| condition(of)).collect()
}

async fn status(s: &mut Session, status: Value) -> Answer {
    s.merge_patch(&JOBS, "a/status", json!({ "status": status }))
        .await
}

async fn a_job_status_agrees_with_itself(s: &mut Session) {
    s.hide(&["spec"]);
    s.post(&JOBS, mk_job("a")).await;
    let complete = conditions(&["SuccessCriteriaMet", "Complete"]);
    let all = conditions(&["SuccessCriteriaMet", "Complete", "FailureTarget", "Failed"]);
    for wrong in [
        json!({"active": -1}),
        json!({"ready": 1}),
        json!({"completionTime": TIME}),
        json!({"conditions": conditions(&["Complete"])}),
        json!({"conditions": conditions(&["Failed"])}),
        json!({"conditions": conditions(&["SuccessCriteriaMet", "FailureTarget"])}),
        json!({"conditions": all, "startTime": TIME, "completionTime": TIME}),
        json!({"conditions": complete, "startTime": TIME, "completionTime": "2025-01-01T00:00:00Z"}),
        json!({"conditions": complete, "startTime": TIME, "completionTime": TIME, "active": 1, "terminating": 1}),
        json!({"conditions": complete, "startTime": TIME, "completionTime": TIME,
            "uncountedTerminatedPods": {"succeeded": ["00000000-0000-0000-0000-000000000001"]}}),
    ] {
        status(s, wrong).await;
    }
}

async fn a_job_completes_with_conditions_in_order(s: &mut Session) {
    s.hide(&["spec"]);
    s.post(&JOBS, mk_job("a")).await;
    status(s, json!({"startTime": TIME, "active": 1, "ready": 1, "terminating": 0, "uncountedTerminatedPods": {}})).await;
    let met = conditions(&["SuccessCriteriaMet"]);
    status(
        s,
        json!({"active": null, "ready": 0, "succeeded": 1, "conditions": met}),
    )
    .await;
    let complete = conditions(&["SuccessCriteriaMet", "Complete"]);
    status(s, json!({"conditions": complete, "completionTime": TIME})).await;
    status(s, json!({"active": 1})).await;
    status(s, json!({"completionTime": "2026-01-02T00:00:00Z"})).await;
    status(s, json!({"completionTime": null})).await;
    status(s, json!({"conditions": met})).await;
}

async fn a_job_fails_with_conditions_in_order(s: &mut Session) {
    s.hide(&["spec"]);
    s.post(&JOBS, mk_job("a")).await;
    let failed = conditions(&["FailureTarget", "Failed"]);
    status(
        s,
        json!({"startTime": TIME, "conditions": conditions(&["FailureTarget"])}),
    )
    .await;
    status(
        s,
        json!({"failed": 1, "conditions": failed, "completionTime": TIME}),
    )
    .await;
    status(s, json!({"failed": 1, "conditions": failed})).await;
    status(s, json!({"conditions": null})).await;
}

async fn what_a_job_status_said_holds(s: &mut Session) {
    s.hide(&["spec"]);
    s.post(&JOBS, mk_job("a")).await;
    let met = conditions(&["SuccessCriteriaMet"]);
    status(
        s,
        json!({"startTime": TIME, "succeeded": 1, "failed": 1, "conditions": met}),
    )
    .await;
    for wrong in [
        json!({"startTime": null}),
        json!({"startTime": "2026-01-02T00:00:00Z"}),
        json!({"succeeded": 0, "failed": 0}),
        json!({"conditions": null}),
    ] {
        status(s, wrong).await;
    }
}

async fn a_replica_set_and_a_deployment_count_in_their_status(s: &mut Session) {
    s.hide(&["spec"]);
    s.post(&REPLICA_SETS, mk_workload("ReplicaSet", "a")).await;
    let counts = json!({"replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 1, "availableReplicas": 1,
        "terminatingReplicas": 0, "observedGeneration": 1});
    s.merge_patch(&REPLICA_SETS, "a/status", json!({ "status": counts }))
        .await;
    for wrong in [
        json!({"replicas": -1}),
        json!({"readyReplicas": 3}),
        json!({"availableReplicas": 2}),
        json!({"fullyLabeledReplicas": 3}),
    ] {
        s.merge_patch(&REPLICA_SETS, "a/status", json!({ "status": wrong }))
            .await;
    }
    s.post(&DEPLOYMENTS, mk_deployment("a")).await;
    let available = json!({"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable",
        "message": "m", "lastUpdateTime": TIME, "lastTransitionTime": TIME});
    let counts = json!({"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        "observedGeneration": 1, "conditions": [available]});
    s.merge_patch(&DEPLOYMENTS, "a/status", json!({ "status": counts }))
        .await;
}
