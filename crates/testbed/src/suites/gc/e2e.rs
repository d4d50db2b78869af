//! The cases of upstream's `test/e2e/apimachinery/garbage_collector.go`, numbered in its order. Only the collector
//! runs, so the plays make what a ReplicationController or a Deployment would have made.

use serde_json::{Value, json};

use super::{all, background, controller, foreground, orphan, pod, pods_of};
use crate::objects::{DEPLOYMENTS, PODS, REPLICA_SETS, mk_deployment, mk_pod, mk_workload, with};
use crate::suites::play::play;
use crate::suites::stage::{Made, Stage, blocking, owned};
use crate::suites::{Checked, Play};

pub(super) const PLAYS: &[Play] = &[
    play!(e2e_01_delete_pods_created_by_rc_when_not_orphaning),
    play!(e2e_02_orphan_pods_created_by_rc_if_delete_options_say_so),
    play!(e2e_03_orphan_pods_created_by_rc_if_orphan_dependents_is_nil),
    play!(e2e_04_delete_rs_created_by_deployment_when_not_orphaning),
    play!(e2e_05_orphan_rs_created_by_deployment_when_policy_is_orphan),
    play!(e2e_06_keep_the_rc_around_until_all_its_pods_are_deleted),
    play!(e2e_07_keep_dependents_that_have_a_valid_and_a_waiting_owner),
    play!(e2e_08_not_be_blocked_by_dependency_circle),
    play!(e2e_09_support_cascading_deletion_of_custom_resources, Crds),
    play!(e2e_10_support_orphan_deletion_of_custom_resources, Crds),
];

async fn e2e_01_delete_pods_created_by_rc_when_not_orphaning(stage: &Stage) -> Checked {
    let owner = controller(stage, "rc").await?;
    let pods = pods_of(stage, &owner, 10).await?;
    stage.delete(&owner, background()).await?;
    stage.goes(&[&owner]).await?;
    stage.goes(&all(&pods)).await
}

/// An owner of many Pods, deleted with `options`, goes; its Pods stay and have no owner any more.
async fn orphans(stage: &Stage, options: Value) -> Checked {
    let owner = controller(stage, "rc").await?;
    let pods = pods_of(stage, &owner, 20).await?;
    stage.seen(&PODS, mk_pod("c")).await?;
    stage.delete(&owner, options).await?;
    stage.goes(&[&owner]).await?;
    stage.remain(&all(&pods)).await?;
    for pod in &pods {
        stage.owned_by(pod, &[]).await?;
    }
    Ok(())
}

async fn e2e_02_orphan_pods_created_by_rc_if_delete_options_say_so(stage: &Stage) -> Checked {
    orphans(stage, orphan()).await
}

async fn e2e_03_orphan_pods_created_by_rc_if_orphan_dependents_is_nil(stage: &Stage) -> Checked {
    orphans(stage, json!({})).await
}

/// A Deployment, its ReplicaSet and two Pods of that.
async fn deployment(stage: &Stage) -> Checked<(Made, Made, Vec<Made>)> {
    let deployment = stage.make(&DEPLOYMENTS, mk_deployment("d")).await?;
    let owner = with(
        blocking(deployment.reference()),
        json!({"controller": true}),
    );
    let set = owned(mk_workload("ReplicaSet", "rs"), &[owner]);
    let set = stage.make(&REPLICA_SETS, set).await?;
    let pods = pods_of(stage, &set, 2).await?;
    stage
        .seen(&REPLICA_SETS, mk_workload("ReplicaSet", "c"))
        .await?;
    Ok((deployment, set, pods))
}

async fn e2e_04_delete_rs_created_by_deployment_when_not_orphaning(stage: &Stage) -> Checked {
    let (deployment, set, pods) = deployment(stage).await?;
    stage.delete(&deployment, background()).await?;
    stage.goes(&[&deployment, &set]).await?;
    stage.goes(&all(&pods)).await
}

async fn e2e_05_orphan_rs_created_by_deployment_when_policy_is_orphan(stage: &Stage) -> Checked {
    let (deployment, set, pods) = deployment(stage).await?;
    stage.delete(&deployment, orphan()).await?;
    stage.goes(&[&deployment]).await?;
    stage.owned_by(&set, &[]).await?;
    stage.remain(&[&set, &pods[0], &pods[1]]).await?;
    stage.owned_by(&pods[0], &[&set]).await?;
    stage.owned_by(&pods[1], &[&set]).await
}

async fn e2e_06_keep_the_rc_around_until_all_its_pods_are_deleted(stage: &Stage) -> Checked {
    let owner = controller(stage, "rc").await?;
    pods_of(stage, &owner, 20).await?;
    stage.seen(&PODS, mk_pod("c")).await?;
    stage.delete(&owner, foreground()).await?;
    stage.goes(&[&owner]).await?;
    // At the very moment the owner is gone, and not some time later.
    stage.count(&PODS, 0).await
}

async fn e2e_07_keep_dependents_that_have_a_valid_and_a_waiting_owner(stage: &Stage) -> Checked {
    let (doomed, solid) = (
        controller(stage, "doomed").await?,
        controller(stage, "solid").await?,
    );
    let lost = pods_of(stage, &doomed, 10).await?;
    let mut kept = Vec::new();
    for number in 0..10 {
        let owners = [blocking(doomed.reference()), solid.reference()];
        kept.push(pod(stage, &format!("kept-{number}"), &owners).await?);
    }
    stage.seen(&PODS, mk_pod("c")).await?;
    stage.delete(&doomed, foreground()).await?;
    stage.goes(&[&doomed]).await?;
    stage.gone(&all(&lost)).await?;
    for pod in &kept {
        stage.owned_by(pod, &[&solid]).await?;
    }
    stage.remain(&all(&kept)).await
}

async fn e2e_08_not_be_blocked_by_dependency_circle(stage: &Stage) -> Checked {
    let first = pod(stage, "a", &[]).await?;
    let second = pod(stage, "b", &[blocking(first.reference())]).await?;
    let third = pod(stage, "c", &[blocking(second.reference())]).await?;
    let owners = [blocking(third.reference())];
    stage
        .change(&first, json!({"metadata": {"ownerReferences": owners}}))
        .await?;
    stage.seen(&PODS, mk_pod("c")).await?;
    stage.delete(&first, foreground()).await?;
    stage.goes(&[&first, &second, &third]).await
}

async fn e2e_09_support_cascading_deletion_of_custom_resources(stage: &Stage) -> Checked {
    let kind = stage.define(json!({"spec": {"scope": "Cluster"}})).await?;
    let owner = stage.make(&kind.resource, kind.object("owner")).await?;
    let child = owned(kind.object("child"), &[owner.reference()]);
    let child = stage.make(&kind.resource, child).await?;
    // Somebody knows the kind as soon as this one is let go.
    let canary = stage.make(&kind.resource, kind.object("canary")).await?;
    stage.delete(&canary, foreground()).await?;
    stage.goes(&[&canary]).await?;
    stage.untouched(&[&owner, &child]).await?;
    stage.delete(&owner, background()).await?;
    stage.goes(&[&owner, &child]).await
}

async fn e2e_10_support_orphan_deletion_of_custom_resources(stage: &Stage) -> Checked {
    let kind = stage.define(json!({"spec": {"scope": "Cluster"}})).await?;
    let owner = stage.make(&kind.resource, kind.object("owner")).await?;
    let child = owned(kind.object("child"), &[owner.reference()]);
    let child = stage.make(&kind.resource, child).await?;
    stage.seen(&kind.resource, kind.object("c")).await?;
    stage.delete(&owner, orphan()).await?;
    stage.goes(&[&owner]).await?;
    stage.owned_by(&child, &[]).await?;
    stage.remain(&[&child]).await
}
