//! The cases of upstream's `test/e2e/apimachinery/garbage_collector.go`, numbered in its order. Only the collector
//! runs, so the cases create what a ReplicationController or a Deployment would have created.

use serde_json::{Value, json};

use super::{all, background, controller, foreground, orphan, pod, pods_of};
use crate::case::{CheckResult, TestCase, case};
use crate::environment::Environment;
use crate::fixtures::{CreatedObject, blocking, owned};
use crate::objects::{DEPLOYMENTS, PODS, REPLICA_SETS, mk_deployment, mk_pod, mk_workload, with};

pub(super) const CASES: &[TestCase] = &[
    case!(e2e_01_delete_pods_created_by_rc_when_not_orphaning),
    case!(e2e_02_orphan_pods_created_by_rc_if_delete_options_say_so),
    case!(e2e_03_orphan_pods_created_by_rc_if_orphan_dependents_is_nil),
    case!(e2e_04_delete_rs_created_by_deployment_when_not_orphaning),
    case!(e2e_05_orphan_rs_created_by_deployment_when_policy_is_orphan),
    case!(e2e_06_keep_the_rc_around_until_all_its_pods_are_deleted),
    case!(e2e_07_keep_dependents_that_have_a_valid_and_a_waiting_owner),
    case!(e2e_08_not_be_blocked_by_dependency_circle),
    case!(e2e_09_support_cascading_deletion_of_custom_resources, Crds),
    case!(e2e_10_support_orphan_deletion_of_custom_resources, Crds),
];

async fn e2e_01_delete_pods_created_by_rc_when_not_orphaning(env: &Environment) -> CheckResult {
    let owner = controller(env, "rc").await?;
    let pods = pods_of(env, &owner, 10).await?;
    env.delete(&owner, background()).await?;
    env.goes(&[&owner]).await?;
    env.goes(&all(&pods)).await
}

/// An owner of many Pods, deleted with `options`, goes; its Pods stay and have no owner any more.
async fn orphans(env: &Environment, options: Value) -> CheckResult {
    let owner = controller(env, "rc").await?;
    let pods = pods_of(env, &owner, 20).await?;
    env.seen(&PODS, mk_pod("c")).await?;
    env.delete(&owner, options).await?;
    env.goes(&[&owner]).await?;
    env.remain(&all(&pods)).await?;
    for pod in &pods {
        env.owned_by(pod, &[]).await?;
    }
    Ok(())
}

async fn e2e_02_orphan_pods_created_by_rc_if_delete_options_say_so(
    env: &Environment,
) -> CheckResult {
    orphans(env, orphan()).await
}

async fn e2e_03_orphan_pods_created_by_rc_if_orphan_dependents_is_nil(
    env: &Environment,
) -> CheckResult {
    orphans(env, json!({})).await
}

/// A Deployment, its ReplicaSet and two Pods of that.
async fn deployment(
    env: &Environment,
) -> CheckResult<(CreatedObject, CreatedObject, Vec<CreatedObject>)> {
    let deployment = env.make(&DEPLOYMENTS, mk_deployment("d")).await?;
    let owner = with(
        blocking(deployment.reference()),
        json!({"controller": true}),
    );
    let set = owned(mk_workload("ReplicaSet", "rs"), &[owner]);
    let set = env.make(&REPLICA_SETS, set).await?;
    let pods = pods_of(env, &set, 2).await?;
    env.seen(&REPLICA_SETS, mk_workload("ReplicaSet", "c"))
        .await?;
    Ok((deployment, set, pods))
}

async fn e2e_04_delete_rs_created_by_deployment_when_not_orphaning(
    env: &Environment,
) -> CheckResult {
    let (deployment, set, pods) = deployment(env).await?;
    env.delete(&deployment, background()).await?;
    env.goes(&[&deployment, &set]).await?;
    env.goes(&all(&pods)).await
}

async fn e2e_05_orphan_rs_created_by_deployment_when_policy_is_orphan(
    env: &Environment,
) -> CheckResult {
    let (deployment, set, pods) = deployment(env).await?;
    env.delete(&deployment, orphan()).await?;
    env.goes(&[&deployment]).await?;
    env.owned_by(&set, &[]).await?;
    env.remain(&[&set, &pods[0], &pods[1]]).await?;
    env.owned_by(&pods[0], &[&set]).await?;
    env.owned_by(&pods[1], &[&set]).await
}

async fn e2e_06_keep_the_rc_around_until_all_its_pods_are_deleted(
    env: &Environment,
) -> CheckResult {
    let owner = controller(env, "rc").await?;
    pods_of(env, &owner, 20).await?;
    env.seen(&PODS, mk_pod("c")).await?;
    env.delete(&owner, foreground()).await?;
    env.goes(&[&owner]).await?;
    // At the very moment the owner is gone, and not some time later.
    env.count(&PODS, 0).await
}

async fn e2e_07_keep_dependents_that_have_a_valid_and_a_waiting_owner(
    env: &Environment,
) -> CheckResult {
    let (doomed, solid) = (
        controller(env, "doomed").await?,
        controller(env, "solid").await?,
    );
    let lost = pods_of(env, &doomed, 10).await?;
    let mut kept = Vec::new();
    for number in 0..10 {
        let owners = [blocking(doomed.reference()), solid.reference()];
        kept.push(pod(env, &format!("kept-{number}"), &owners).await?);
    }
    env.seen(&PODS, mk_pod("c")).await?;
    env.delete(&doomed, foreground()).await?;
    env.goes(&[&doomed]).await?;
    env.gone(&all(&lost)).await?;
    for pod in &kept {
        env.owned_by(pod, &[&solid]).await?;
    }
    env.remain(&all(&kept)).await
}

async fn e2e_08_not_be_blocked_by_dependency_circle(env: &Environment) -> CheckResult {
    let first = pod(env, "a", &[]).await?;
    let second = pod(env, "b", &[blocking(first.reference())]).await?;
    let third = pod(env, "c", &[blocking(second.reference())]).await?;
    let owners = [blocking(third.reference())];
    env.change(&first, json!({"metadata": {"ownerReferences": owners}}))
        .await?;
    env.seen(&PODS, mk_pod("c")).await?;
    env.delete(&first, foreground()).await?;
    env.goes(&[&first, &second, &third]).await
}

async fn e2e_09_support_cascading_deletion_of_custom_resources(env: &Environment) -> CheckResult {
    let kind = env.define(json!({"spec": {"scope": "Cluster"}})).await?;
    let owner = env.make(&kind.resource, kind.object("owner")).await?;
    let child = owned(kind.object("child"), &[owner.reference()]);
    let child = env.make(&kind.resource, child).await?;
    // The collector watches the kind once this object is collected.
    let canary = env.make(&kind.resource, kind.object("canary")).await?;
    env.delete(&canary, foreground()).await?;
    env.goes(&[&canary]).await?;
    env.untouched(&[&owner, &child]).await?;
    env.delete(&owner, background()).await?;
    env.goes(&[&owner, &child]).await
}

async fn e2e_10_support_orphan_deletion_of_custom_resources(env: &Environment) -> CheckResult {
    let kind = env.define(json!({"spec": {"scope": "Cluster"}})).await?;
    let owner = env.make(&kind.resource, kind.object("owner")).await?;
    let child = owned(kind.object("child"), &[owner.reference()]);
    let child = env.make(&kind.resource, child).await?;
    env.seen(&kind.resource, kind.object("c")).await?;
    env.delete(&owner, orphan()).await?;
    env.goes(&[&owner]).await?;
    env.owned_by(&child, &[]).await?;
    env.remain(&[&child]).await
}
