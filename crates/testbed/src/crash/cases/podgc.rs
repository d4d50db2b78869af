//! Convergent cases of Pod GC: each of its four sweeps, and a Node that comes back in time.

use std::time::Duration;

use caretaker_controllers::podgc::NAME;
use futures::FutureExt as _;
use serde_json::json;

use super::{crash_case, do_nothing};
use crate::case::{CaseBody, CaseNeed, CheckResult, ConvergentSteps, TestCase};
use crate::environment::Environment;
use crate::fixtures::CreatedObject;
use crate::objects::mk_pod;
use crate::suites::podgc::{held, node, on, out_of_service, pod, terminated};

pub(super) const CASES: &[TestCase] = &[
    crash_case!(terminated_pods, terminated_pods, do_nothing),
    crash_case!(
        a_node_out_of_service,
        a_node_out_of_service,
        act_on_a_node_out_of_service
    ),
    crash_case!(a_node_that_goes, a_node_that_goes, act_on_a_node_that_goes),
    crash_case!(
        a_pod_never_bound,
        a_pod_never_bound,
        act_on_a_pod_never_bound
    ),
    crash_case!(
        a_node_that_comes_back,
        a_node_that_comes_back,
        act_on_a_node_that_comes_back
    ),
];

/// The Node and two Pods on it: one with a finalizer, one without.
async fn pods_on(env: &Environment, made: CreatedObject) -> CheckResult<Vec<CreatedObject>> {
    let first = pod(env, on(made.name(), mk_pod("free")), "Running").await?;
    let second = pod(env, on(made.name(), held(mk_pod("held"))), "Running").await?;
    Ok(vec![made, first, second])
}

async fn terminated_pods(env: &Environment) -> CheckResult<Vec<CreatedObject>> {
    terminated(env, &json!({"phase": "Succeeded"})).await
}

async fn a_node_out_of_service(env: &Environment) -> CheckResult<Vec<CreatedObject>> {
    let made = node(env, "node", "False", json!([])).await?;
    pods_on(env, made).await
}

async fn act_on_a_node_out_of_service(env: &Environment, made: &[CreatedObject]) -> CheckResult {
    for pod in &made[1..] {
        let options = json!({"gracePeriodSeconds": 300});
        env.delete(pod, options).await?;
    }
    let taints = out_of_service("NoExecute");
    let patch = json!({"spec": {"taints": taints}});
    env.change(&made[0], patch).await
}

async fn a_node_that_goes(env: &Environment) -> CheckResult<Vec<CreatedObject>> {
    let made = node(env, "node", "True", json!([])).await?;
    pods_on(env, made).await
}

async fn act_on_a_node_that_goes(env: &Environment, made: &[CreatedObject]) -> CheckResult {
    env.delete(&made[0], json!({})).await
}

async fn a_pod_never_bound(env: &Environment) -> CheckResult<Vec<CreatedObject>> {
    Ok(vec![pod(env, held(mk_pod("held")), "Pending").await?])
}

async fn act_on_a_pod_never_bound(env: &Environment, made: &[CreatedObject]) -> CheckResult {
    env.delete(&made[0], json!({})).await
}

async fn a_node_that_comes_back(env: &Environment) -> CheckResult<Vec<CreatedObject>> {
    let made = node(env, "node", "True", json!([])).await?;
    let made = pods_on(env, made).await?;
    pod(env, on("never-there", mk_pod("orphan")), "Running").await?;
    Ok(made)
}

async fn act_on_a_node_that_comes_back(env: &Environment, made: &[CreatedObject]) -> CheckResult {
    env.delete(&made[0], json!({})).await?;
    tokio::time::sleep(Duration::from_secs(30)).await;
    node(env, "node", "True", json!([])).await.map(|_| ())
}
