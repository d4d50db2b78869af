//! Pod GC's suite: what a client sees of Pods that have terminated, lost their Node, or were deleted before they were bound.
//!
//! The cases restate upstream's `test/integration/podgc/podgc_test.go`, its e2e case, and those of `gc_controller_test.go`
//! that a client can bring about, and add what upstream never tested. No kubelet runs: a Pod is what its status says.
//! Rounds come every 20 s, so cases wait for canaries rather than for a time. Those that count terminated Pods of the
//! whole cluster start their controllers themselves, because then they run alone.

use serde_json::{Value, json};

use super::{CaseSuite, CaseTheme};
use crate::case::{CheckResult, TestCase, case};
use crate::environment::Environment;
use crate::fixtures::CreatedObject;
use crate::objects::{NODES, PODS, mk_object, mk_pod, with};
use crate::target::TERMINATED_PODS_KEPT;

/// The controllers beside the garbage collector.
pub const CONTROLLERS: &[&str] = &[caretaker_controllers::podgc::NAME];

pub static SUITE: CaseSuite = CaseSuite {
    name: "podgc",
    controllers: CONTROLLERS,
    themes: &[CaseTheme {
        name: "podgc",
        cases: CASES,
    }],
};

const CASES: &[TestCase] = &[
    case!(orphaned_pods_with_finalizer_pending_pod),
    case!(orphaned_pods_with_finalizer_succeeded_pod),
    case!(orphaned_pods_with_finalizer_failed_pod),
    case!(terminating_on_out_of_service_node_phase_changed_to_failed),
    case!(terminating_on_out_of_service_node_getting_deleted_when_no_finalizer),
    case!(duplicated_field_keys_orphan_pod_with_duplicated_env_vars),
    case!(duplicated_field_keys_orphan_pod_with_duplicated_ports),
    case!(gc_orphaned_no_nodes_one_running_pod),
    case!(gc_orphaned_some_nodes_missing),
    case!(gc_terminating_only_on_nodes_not_ready_with_the_taint),
    case!(gc_unscheduled_terminating_is_marked_and_has_no_condition),
    case!(a_node_re_created_inside_the_quarantine_keeps_its_pods),
    case!(
        e2e_exactly_as_many_terminated_pods_as_are_kept_are_left,
        FreshControllers
    ),
    case!(gc_terminated_evicted_pods_go_first, FreshControllers),
    case!(pods_that_wait_for_their_finalizers_cost_no_other_its_place, FreshControllers; "held-pods"),
];

/// A finalizer that only the case removes.
const HOLD: &str = "test.k8s.io/finalizer";
/// Number of terminated Pods above the threshold.
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

/// Makes a Node. Servers set taints of their own when one is made, so its own are written afterwards.
pub(crate) async fn node(
    env: &Environment,
    name: &str,
    ready: &str,
    taints: Value,
) -> CheckResult<CreatedObject> {
    let made = env.make(&NODES, mk_object("v1", "Node", name)).await?;
    env.change(&made, json!({"spec": {"taints": taints}}))
        .await?;
    let conditions = json!([{"type": "Ready", "status": ready}]);
    env.change_status(&made, json!({ "conditions": conditions }))
        .await?;
    Ok(made)
}

/// Makes a Pod and says in which phase it is.
pub(crate) async fn pod(
    env: &Environment,
    object: Value,
    phase: &str,
) -> CheckResult<CreatedObject> {
    let made = env.make(&PODS, object).await?;
    if phase != "Pending" {
        env.change_status(&made, json!({ "phase": phase })).await?;
    }
    Ok(made)
}

async fn status(env: &Environment, made: &CreatedObject) -> CheckResult<Value> {
    Ok(env.there(made).await?["status"].clone())
}

fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.find(|condition| condition["type"] == kind)
}

/// The Pod is in this phase, and nothing says that it was a target of disruption.
async fn is_plainly(env: &Environment, made: &CreatedObject, phase: &str) -> CheckResult {
    let status = status(env, made).await?;
    if status["phase"] != phase || condition(&status, "DisruptionTarget").is_some() {
        return Err(format!("{} has the status {status}", made.path()));
    }
    Ok(())
}

/// The Pod failed because its Node is gone, says so, and says what it said before.
async fn is_marked(env: &Environment, made: &CreatedObject) -> CheckResult {
    let status = status(env, made).await?;
    let mut found = condition(&status, "DisruptionTarget").cloned();
    let time = found
        .as_mut()
        .and_then(|condition| condition.as_object_mut()?.remove("lastTransitionTime"));
    let mut meant = json!({
        "type": "DisruptionTarget", "status": "True", "observedGeneration": 1,
        "reason": "DeletionByPodGC", "message": "PodGC: node no longer exists",
    });
    // The real server adds a member that no client has set.
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
async fn round(env: &Environment, name: &str) -> CheckResult {
    let canary = env.make(&PODS, held(mk_pod(name))).await?;
    env.delete(&canary, json!({})).await?;
    env.until(async || is_plainly(env, &canary, "Failed").await)
        .await?;
    env.release(&canary).await
}

/// An orphan that a finalizer holds is deleted, and then is as `look` says.
async fn orphan(
    env: &Environment,
    phase: &str,
    look: impl AsyncFn(&CreatedObject) -> CheckResult,
) -> CheckResult {
    let node = node(env, "node", "True", json!([])).await?;
    let made = pod(env, held(on(node.name(), mk_pod("testpod"))), phase).await?;
    env.delete(&node, json!({})).await?;
    env.until(async || env.deleting(&[&made]).await).await?;
    look(&made).await?;
    env.release(&made).await
}

async fn orphaned_pods_with_finalizer_pending_pod(env: &Environment) -> CheckResult {
    orphan(env, "Pending", async |made| is_marked(env, made).await).await
}

async fn orphaned_pods_with_finalizer_succeeded_pod(env: &Environment) -> CheckResult {
    let look = async |made: &CreatedObject| is_plainly(env, made, "Succeeded").await;
    orphan(env, "Succeeded", look).await
}

async fn orphaned_pods_with_finalizer_failed_pod(env: &Environment) -> CheckResult {
    let look = async |made: &CreatedObject| is_plainly(env, made, "Failed").await;
    orphan(env, "Failed", look).await
}

/// A Pod that ends slowly on a Node that is taken out of service then.
async fn lost(env: &Environment, object: Value) -> CheckResult<CreatedObject> {
    let node = node(env, "node", "False", json!([])).await?;
    let made = pod(env, on(node.name(), object), "Running").await?;
    env.delete(&made, json!({"gracePeriodSeconds": 300}))
        .await?;
    env.deleting(&[&made]).await?;
    let taints = out_of_service("NoExecute");
    env.change(&node, json!({"spec": {"taints": taints}}))
        .await?;
    Ok(made)
}

async fn terminating_on_out_of_service_node_phase_changed_to_failed(
    env: &Environment,
) -> CheckResult {
    let made = lost(env, held(mk_pod("testpod"))).await?;
    env.until(async || is_plainly(env, &made, "Failed").await)
        .await?;
    env.release(&made).await
}

async fn terminating_on_out_of_service_node_getting_deleted_when_no_finalizer(
    env: &Environment,
) -> CheckResult {
    let made = lost(env, mk_pod("testpod")).await?;
    env.goes(&[&made]).await
}

/// An orphan whose container has `members` is marked all the same.
async fn orphan_with(env: &Environment, members: Value) -> CheckResult {
    let mut object = held(on("non-existing-node", mk_pod("testpod")));
    let container = &mut object["spec"]["containers"][0];
    *container = with(container.clone(), members);
    let made = pod(env, object, "Pending").await?;
    env.until(async || env.deleting(&[&made]).await).await?;
    is_marked(env, &made).await?;
    env.release(&made).await
}

async fn duplicated_field_keys_orphan_pod_with_duplicated_env_vars(
    env: &Environment,
) -> CheckResult {
    let variables = json!([{"name": "XYZ", "value": "1"}, {"name": "XYZ", "value": "2"}]);
    orphan_with(env, json!({ "env": variables })).await
}

async fn duplicated_field_keys_orphan_pod_with_duplicated_ports(env: &Environment) -> CheckResult {
    let ports = json!([
        {"containerPort": 93, "hostPort": 9376}, {"containerPort": 93, "hostPort": 9377},
    ]);
    orphan_with(env, json!({ "ports": ports })).await
}

async fn gc_orphaned_no_nodes_one_running_pod(env: &Environment) -> CheckResult {
    let mut pods = Vec::new();
    for (name, phase) in [("a", "Failed"), ("b", "Succeeded"), ("c", "Running")] {
        pods.push(pod(env, on("deleted", mk_pod(name)), phase).await?);
    }
    env.goes(&[&pods[0], &pods[1], &pods[2]]).await
}

async fn gc_orphaned_some_nodes_missing(env: &Environment) -> CheckResult {
    let node = node(env, "node", "True", json!([])).await?;
    let kept = pod(env, on(node.name(), mk_pod("kept")), "Failed").await?;
    let bound = pod(env, on(node.name(), mk_pod("bound")), "Running").await?;
    let gone = pod(env, on("deleted", mk_pod("gone")), "Running").await?;
    env.goes(&[&gone]).await?;
    env.remain(&[&kept, &bound]).await
}

async fn gc_terminating_only_on_nodes_not_ready_with_the_taint(env: &Environment) -> CheckResult {
    let table = [
        ("plain", "False", json!([]), false),
        ("ready", "True", out_of_service("NoExecute"), false),
        ("execute", "False", out_of_service("NoExecute"), true),
        ("schedule", "Unknown", out_of_service("NoSchedule"), true),
        ("prefer", "False", out_of_service("PreferNoSchedule"), true),
    ];
    let (mut swept, mut ending, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    for (name, ready, taints, is_swept) in table {
        let node = node(env, name, ready, taints).await?;
        let object = |pod: &str| on(node.name(), mk_pod(&format!("{name}-{pod}")));
        kept.push(pod(env, object("runs"), "Running").await?);
        let made = pod(env, object("ends"), "Running").await?;
        let options = json!({"gracePeriodSeconds": 300});
        env.delete(&made, options).await?;
        if is_swept {
            swept.push(made);
        } else {
            ending.push(made);
        }
    }
    for made in &swept {
        env.goes(&[made]).await?;
    }
    round(env, "canary").await?;
    for made in &ending {
        env.deleting(&[made]).await?;
        is_plainly(env, made, "Running").await?;
    }
    for made in &kept {
        env.untouched(&[made]).await?;
    }
    Ok(())
}

async fn gc_unscheduled_terminating_is_marked_and_has_no_condition(
    env: &Environment,
) -> CheckResult {
    let object = held(mk_pod("unbound"));
    let made = env.make(&PODS, object).await?;
    let kept = env.make(&PODS, mk_pod("kept")).await?;
    env.delete(&made, json!({})).await?;
    env.until(async || is_plainly(env, &made, "Failed").await)
        .await?;
    env.release(&made).await?;
    env.goes(&[&made]).await?;
    env.remain(&[&kept]).await
}

async fn a_node_re_created_inside_the_quarantine_keeps_its_pods(env: &Environment) -> CheckResult {
    let first = node(env, "node", "True", json!([])).await?;
    let made = pod(env, on(first.name(), mk_pod("kept")), "Running").await?;
    env.delete(&first, json!({})).await?;
    // A round has seen that it is gone.
    round(env, "canary").await?;
    node(env, "node", "True", json!([])).await?;
    // Its quarantine ends later than the other one's would have.
    let orphan = pod(env, on("deleted", mk_pod("orphan")), "Running").await?;
    env.goes(&[&orphan]).await?;
    round(env, "second-canary").await?;
    is_plainly(env, &made, "Running").await?;
    env.remain(&[&made]).await
}

/// Makes terminated Pods, more than are kept; the last one is evicted if that is asked for.
pub(crate) async fn terminated(env: &Environment, last: &Value) -> CheckResult<Vec<CreatedObject>> {
    let mut pods = Vec::new();
    let count = TERMINATED_PODS_KEPT + OVER;
    for number in 0..count {
        // No scheduler binds it, as in the original.
        let object = with(
            mk_pod(&format!("pod-{number:03}")),
            json!({"spec": {"schedulerName": "please-do-not-schedule-my-pods"}}),
        );
        let made = env.make(&PODS, object).await?;
        let failed = json!({"phase": "Failed"});
        let is_last = number + 1 == count;
        let status = if is_last { last.clone() } else { failed };
        env.change_status(&made, status).await?;
        pods.push(made);
    }
    Ok(pods)
}

async fn e2e_exactly_as_many_terminated_pods_as_are_kept_are_left(
    env: &Environment,
) -> CheckResult {
    let pods = terminated(env, &json!({"phase": "Succeeded"})).await?;
    env.start_controllers().await?;
    env.until(async || env.count(&PODS, TERMINATED_PODS_KEPT).await)
        .await?;
    let (gone, kept) = pods.split_at(OVER);
    env.gone(&gone.iter().collect::<Vec<_>>()).await?;
    round(env, "canary").await?;
    env.untouched(&kept.iter().collect::<Vec<_>>()).await
}

async fn gc_terminated_evicted_pods_go_first(env: &Environment) -> CheckResult {
    let evicted = json!({"phase": "Failed", "reason": "Evicted"});
    let pods = terminated(env, &evicted).await?;
    env.start_controllers().await?;
    env.until(async || env.count(&PODS, TERMINATED_PODS_KEPT).await)
        .await?;
    let last = pods.len() - 1;
    let mut gone: Vec<&CreatedObject> = pods[..OVER - 1].iter().collect();
    gone.push(&pods[last]);
    env.gone(&gone).await?;
    let kept: Vec<&CreatedObject> = pods[OVER - 1..last].iter().collect();
    env.untouched(&kept).await
}

async fn pods_that_wait_for_their_finalizers_cost_no_other_its_place(
    env: &Environment,
) -> CheckResult {
    let pods = terminated(env, &json!({"phase": "Failed"})).await?;
    let (kept, going) = pods.split_at(TERMINATED_PODS_KEPT);
    for made in going {
        let finalizers = json!([HOLD]);
        env.change(made, json!({"metadata": {"finalizers": finalizers}}))
            .await?;
        env.delete(made, json!({"gracePeriodSeconds": 0})).await?;
    }
    env.start_controllers().await?;
    round(env, "canary").await?;
    env.untouched(&kept.iter().collect::<Vec<_>>()).await
}
