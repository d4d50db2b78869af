//! Pod GC's suite: what a client sees of Pods that have terminated, lost their Node, or end without anybody's help.
//!
//! The plays restate upstream's `test/integration/podgc/podgc_test.go`, its e2e case, and those of `gc_controller_test.go`
//! that a client can bring about, and add what upstream never tested. No kubelet runs: a Pod is what its status says.
//! Rounds come every 20 s, so plays wait for canaries rather than for a time. Those that count terminated Pods of the
//! whole cluster start their controllers themselves, because then they are played alone.

use http::Method;
use serde_json::{Value, json};

use super::play::play;
use super::stage::{Made, Stage};
use super::{Checked, Play};
use crate::objects::{NODES, PODS, mk_object, mk_pod, with};
use crate::session::Ask;
use crate::target::TERMINATED_PODS_KEPT;

/// Who is at work beside the collector.
pub const CONTROLLERS: &[&str] = &[caretaker_controllers::podgc::NAME];

/// The plays.
pub const PLAYS: &[&[Play]] = &[&[
    play!(orphaned_pods_with_finalizer_pending_pod),
    play!(orphaned_pods_with_finalizer_succeeded_pod),
    play!(orphaned_pods_with_finalizer_failed_pod),
    play!(terminating_on_out_of_service_node_phase_changed_to_failed),
    play!(terminating_on_out_of_service_node_getting_deleted_when_no_finalizer),
    play!(duplicated_field_keys_orphan_pod_with_duplicated_env_vars),
    play!(duplicated_field_keys_orphan_pod_with_duplicated_ports),
    play!(gc_orphaned_no_nodes_one_running_pod),
    play!(gc_orphaned_some_nodes_missing),
    play!(gc_terminating_only_on_nodes_not_ready_with_the_taint),
    play!(gc_unscheduled_terminating_is_marked_and_has_no_condition),
    play!(a_node_re_created_inside_the_quarantine_keeps_its_pods),
    play!(
        e2e_exactly_as_many_terminated_pods_as_are_kept_are_left,
        FreshCollector
    ),
    play!(gc_terminated_evicted_pods_go_first, FreshCollector),
    play!(pods_that_wait_for_their_finalizers_cost_no_other_its_place, FreshCollector; "held-pods"),
]];

/// A finalizer that nobody but the play takes off.
const HOLD: &str = "test.k8s.io/finalizer";
/// How many terminated Pods are too many in the plays about that.
const OVER: usize = 5;

pub(crate) fn out_of_service(effect: &str) -> Value {
    json!([{"key": "node.kubernetes.io/out-of-service", "effect": effect}])
}

/// A Pod on a Node, which does not have to exist.
pub(crate) fn on(node: &str, pod: Value) -> Value {
    with(pod, json!({"spec": {"nodeName": node}}))
}

pub(crate) fn held(pod: Value) -> Value {
    with(pod, json!({"metadata": {"finalizers": [HOLD]}}))
}

/// Changes the status of an object.
async fn report(stage: &Stage, made: &Made, status: Value) -> Checked {
    let patch = json!({ "status": status }).to_string();
    let ask = Ask::new(Method::PATCH, format!("{}/status", made.path())).body(patch);
    let ask = ask.content_type("application/merge-patch+json");
    stage.send(ask, &[200]).await.map(|_| ())
}

/// Makes a Node. Servers set taints of their own when one is made, so its own are written afterwards.
pub(crate) async fn node(stage: &Stage, name: &str, ready: &str, taints: Value) -> Checked<Made> {
    let made = stage.make(&NODES, mk_object("v1", "Node", name)).await?;
    stage
        .change(&made, json!({"spec": {"taints": taints}}))
        .await?;
    let conditions = json!([{"type": "Ready", "status": ready}]);
    report(stage, &made, json!({ "conditions": conditions })).await?;
    Ok(made)
}

/// Makes a Pod and says in which phase it is.
pub(crate) async fn pod(stage: &Stage, object: Value, phase: &str) -> Checked<Made> {
    let made = stage.make(&PODS, object).await?;
    if phase != "Pending" {
        report(stage, &made, json!({ "phase": phase })).await?;
    }
    Ok(made)
}

async fn status(stage: &Stage, made: &Made) -> Checked<Value> {
    Ok(stage.there(made).await?["status"].clone())
}

fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.find(|condition| condition["type"] == kind)
}

/// The Pod is in this phase, and nothing says that it was a target of disruption.
async fn is_plainly(stage: &Stage, made: &Made, phase: &str) -> Checked {
    let status = status(stage, made).await?;
    if status["phase"] != phase || condition(&status, "DisruptionTarget").is_some() {
        return Err(format!("{} has the status {status}", made.path()));
    }
    Ok(())
}

/// The Pod failed because its Node is gone, says so, and says what it said before.
async fn is_marked(stage: &Stage, made: &Made) -> Checked {
    let status = status(stage, made).await?;
    let mut found = condition(&status, "DisruptionTarget").cloned();
    let time = found
        .as_mut()
        .and_then(|condition| condition.as_object_mut()?.remove("lastTransitionTime"));
    let mut meant = json!({
        "type": "DisruptionTarget", "status": "True", "observedGeneration": 1,
        "reason": "DeletionByPodGC", "message": "PodGC: node no longer exists",
    });
    // The real server shows a member that nobody set.
    if found
        .as_ref()
        .is_some_and(|found| found.get("lastProbeTime").is_some())
    {
        meant["lastProbeTime"] = Value::Null;
    }
    let has_time = time.is_some_and(|time| time.is_string());
    if status["phase"] != "Failed" || found != Some(meant) || !has_time {
        return Err(format!("{} has the status {status}", made.path()));
    }
    Ok(())
}

/// Waits for a round: a Pod that was never bound, is held and deleted, is marked.
async fn round(stage: &Stage, name: &str) -> Checked {
    let canary = stage.make(&PODS, held(mk_pod(name))).await?;
    stage.delete(&canary, json!({})).await?;
    stage
        .until(async || is_plainly(stage, &canary, "Failed").await)
        .await?;
    stage.release(&canary).await
}

/// An orphan that a finalizer holds is deleted, and then is as `look` says.
async fn orphan(stage: &Stage, phase: &str, look: impl AsyncFn(&Made) -> Checked) -> Checked {
    let node = node(stage, "node", "True", json!([])).await?;
    let made = pod(stage, held(on(node.name(), mk_pod("testpod"))), phase).await?;
    stage.delete(&node, json!({})).await?;
    stage.until(async || stage.deleting(&[&made]).await).await?;
    look(&made).await?;
    stage.release(&made).await
}

async fn orphaned_pods_with_finalizer_pending_pod(stage: &Stage) -> Checked {
    orphan(stage, "Pending", async |made| is_marked(stage, made).await).await
}

async fn orphaned_pods_with_finalizer_succeeded_pod(stage: &Stage) -> Checked {
    let look = async |made: &Made| is_plainly(stage, made, "Succeeded").await;
    orphan(stage, "Succeeded", look).await
}

async fn orphaned_pods_with_finalizer_failed_pod(stage: &Stage) -> Checked {
    let look = async |made: &Made| is_plainly(stage, made, "Failed").await;
    orphan(stage, "Failed", look).await
}

/// A Pod that ends slowly on a Node that is taken out of service then.
async fn lost(stage: &Stage, object: Value) -> Checked<Made> {
    let node = node(stage, "node", "False", json!([])).await?;
    let made = pod(stage, on(node.name(), object), "Running").await?;
    stage
        .delete(&made, json!({"gracePeriodSeconds": 300}))
        .await?;
    stage.deleting(&[&made]).await?;
    let taints = out_of_service("NoExecute");
    stage
        .change(&node, json!({"spec": {"taints": taints}}))
        .await?;
    Ok(made)
}

async fn terminating_on_out_of_service_node_phase_changed_to_failed(stage: &Stage) -> Checked {
    let made = lost(stage, held(mk_pod("testpod"))).await?;
    stage
        .until(async || is_plainly(stage, &made, "Failed").await)
        .await?;
    stage.release(&made).await
}

async fn terminating_on_out_of_service_node_getting_deleted_when_no_finalizer(
    stage: &Stage,
) -> Checked {
    let made = lost(stage, mk_pod("testpod")).await?;
    stage.goes(&[&made]).await
}

/// An orphan whose container has `members` is marked all the same.
async fn orphan_with(stage: &Stage, members: Value) -> Checked {
    let mut object = held(on("non-existing-node", mk_pod("testpod")));
    let container = &mut object["spec"]["containers"][0];
    *container = with(container.clone(), members);
    let made = pod(stage, object, "Pending").await?;
    stage.until(async || stage.deleting(&[&made]).await).await?;
    is_marked(stage, &made).await?;
    stage.release(&made).await
}

async fn duplicated_field_keys_orphan_pod_with_duplicated_env_vars(stage: &Stage) -> Checked {
    let env = json!([{"name": "XYZ", "value": "1"}, {"name": "XYZ", "value": "2"}]);
    orphan_with(stage, json!({ "env": env })).await
}

async fn duplicated_field_keys_orphan_pod_with_duplicated_ports(stage: &Stage) -> Checked {
    let ports = json!([
        {"containerPort": 93, "hostPort": 9376}, {"containerPort": 93, "hostPort": 9377},
    ]);
    orphan_with(stage, json!({ "ports": ports })).await
}

async fn gc_orphaned_no_nodes_one_running_pod(stage: &Stage) -> Checked {
    let mut pods = Vec::new();
    for (name, phase) in [("a", "Failed"), ("b", "Succeeded"), ("c", "Running")] {
        pods.push(pod(stage, on("deleted", mk_pod(name)), phase).await?);
    }
    stage.goes(&[&pods[0], &pods[1], &pods[2]]).await
}

async fn gc_orphaned_some_nodes_missing(stage: &Stage) -> Checked {
    let node = node(stage, "node", "True", json!([])).await?;
    let kept = pod(stage, on(node.name(), mk_pod("kept")), "Failed").await?;
    let bound = pod(stage, on(node.name(), mk_pod("bound")), "Running").await?;
    let gone = pod(stage, on("deleted", mk_pod("gone")), "Running").await?;
    stage.goes(&[&gone]).await?;
    stage.remain(&[&kept, &bound]).await
}

async fn gc_terminating_only_on_nodes_not_ready_with_the_taint(stage: &Stage) -> Checked {
    let table = [
        ("plain", "False", json!([]), false),
        ("ready", "True", out_of_service("NoExecute"), false),
        ("execute", "False", out_of_service("NoExecute"), true),
        ("schedule", "Unknown", out_of_service("NoSchedule"), true),
        ("prefer", "False", out_of_service("PreferNoSchedule"), true),
    ];
    let (mut swept, mut ending, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    for (name, ready, taints, is_swept) in table {
        let node = node(stage, name, ready, taints).await?;
        let object = |pod: &str| on(node.name(), mk_pod(&format!("{name}-{pod}")));
        kept.push(pod(stage, object("runs"), "Running").await?);
        let made = pod(stage, object("ends"), "Running").await?;
        let options = json!({"gracePeriodSeconds": 300});
        stage.delete(&made, options).await?;
        if is_swept {
            swept.push(made);
        } else {
            ending.push(made);
        }
    }
    for made in &swept {
        stage.goes(&[made]).await?;
    }
    round(stage, "canary").await?;
    for made in &ending {
        stage.deleting(&[made]).await?;
        is_plainly(stage, made, "Running").await?;
    }
    for made in &kept {
        stage.untouched(&[made]).await?;
    }
    Ok(())
}

async fn gc_unscheduled_terminating_is_marked_and_has_no_condition(stage: &Stage) -> Checked {
    let object = held(mk_pod("unbound"));
    let made = stage.make(&PODS, object).await?;
    let kept = stage.make(&PODS, mk_pod("kept")).await?;
    stage.delete(&made, json!({})).await?;
    stage
        .until(async || is_plainly(stage, &made, "Failed").await)
        .await?;
    stage.release(&made).await?;
    stage.goes(&[&made]).await?;
    stage.remain(&[&kept]).await
}

async fn a_node_re_created_inside_the_quarantine_keeps_its_pods(stage: &Stage) -> Checked {
    let first = node(stage, "node", "True", json!([])).await?;
    let made = pod(stage, on(first.name(), mk_pod("kept")), "Running").await?;
    stage.delete(&first, json!({})).await?;
    // A round has seen that it is gone.
    round(stage, "canary").await?;
    node(stage, "node", "True", json!([])).await?;
    // Its quarantine ends later than the other one's would have.
    let orphan = pod(stage, on("deleted", mk_pod("orphan")), "Running").await?;
    stage.goes(&[&orphan]).await?;
    round(stage, "second-canary").await?;
    is_plainly(stage, &made, "Running").await?;
    stage.remain(&[&made]).await
}

/// Makes terminated Pods, more than are kept; the last one is evicted if that is asked for.
pub(crate) async fn terminated(stage: &Stage, last: &Value) -> Checked<Vec<Made>> {
    let mut pods = Vec::new();
    let count = TERMINATED_PODS_KEPT + OVER;
    for number in 0..count {
        // Nobody schedules it, as in the original.
        let object = with(
            mk_pod(&format!("pod-{number:03}")),
            json!({"spec": {"schedulerName": "please-do-not-schedule-my-pods"}}),
        );
        let made = stage.make(&PODS, object).await?;
        let failed = json!({"phase": "Failed"});
        let is_last = number + 1 == count;
        let told = if is_last { last.clone() } else { failed };
        report(stage, &made, told).await?;
        pods.push(made);
    }
    Ok(pods)
}

async fn e2e_exactly_as_many_terminated_pods_as_are_kept_are_left(stage: &Stage) -> Checked {
    let pods = terminated(stage, &json!({"phase": "Succeeded"})).await?;
    stage.start_collector().await?;
    stage
        .until(async || stage.count(&PODS, TERMINATED_PODS_KEPT).await)
        .await?;
    let (gone, kept) = pods.split_at(OVER);
    stage.gone(&gone.iter().collect::<Vec<_>>()).await?;
    round(stage, "canary").await?;
    stage.untouched(&kept.iter().collect::<Vec<_>>()).await
}

async fn gc_terminated_evicted_pods_go_first(stage: &Stage) -> Checked {
    let evicted = json!({"phase": "Failed", "reason": "Evicted"});
    let pods = terminated(stage, &evicted).await?;
    stage.start_collector().await?;
    stage
        .until(async || stage.count(&PODS, TERMINATED_PODS_KEPT).await)
        .await?;
    let last = pods.len() - 1;
    let mut gone: Vec<&Made> = pods[..OVER - 1].iter().collect();
    gone.push(&pods[last]);
    stage.gone(&gone).await?;
    let kept: Vec<&Made> = pods[OVER - 1..last].iter().collect();
    stage.untouched(&kept).await
}

async fn pods_that_wait_for_their_finalizers_cost_no_other_its_place(stage: &Stage) -> Checked {
    let pods = terminated(stage, &json!({"phase": "Failed"})).await?;
    let (kept, going) = pods.split_at(TERMINATED_PODS_KEPT);
    for made in going {
        let finalizers = json!([HOLD]);
        stage
            .change(made, json!({"metadata": {"finalizers": finalizers}}))
            .await?;
        stage.delete(made, json!({"gracePeriodSeconds": 0})).await?;
    }
    stage.start_collector().await?;
    round(stage, "canary").await?;
    stage.untouched(&kept.iter().collect::<Vec<_>>()).await
}
