//! The cases of upstream's `test/integration/garbagecollector` that need no custom kind, and the one of
//! `test/integration/job` that is about the collector.

use futures::future::try_join_all;
use serde_json::{Value, json};

use super::{
    HOLD, all, background, controller, foreground, held, mk_controller, orphan, pod, pods_of,
};
use crate::objects::{
    CONFIG_MAPS, JOBS, PODS, REPLICATION_CONTROLLERS, SECRETS, VOLUMES, mk_config_map, mk_job,
    mk_object, mk_pod, with,
};
use crate::suites::play::play;
use crate::suites::stage::{Made, Stage, blocking, owned};
use crate::suites::{Checked, Play};

pub(super) const PLAYS: &[Play] = &[
    play!(integration_cross_namespace_references, FreshCollector),
    play!(integration_cascading_deletion),
    play!(integration_create_with_non_existent_owner),
    play!(integration_stressing_cascading_deletion),
    play!(integration_orphaning),
    play!(integration_solid_owner_does_not_block_waiting_owner),
    play!(integration_non_blocking_owner_ref_does_not_block),
    play!(integration_double_deletion_with_finalizer),
    play!(integration_blocking_owner_ref_does_block, FreshCollector),
    play!(integration_cluster_scoped_owners),
    play!(integration_job_orphan_pods_finalizers_cleared_with_gc),
];

/// What the Job controller holds Pods with until it has counted them.
const JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";

fn mk_secret(name: &str) -> Value {
    mk_object("v1", "Secret", name)
}

/// A reference of a kind that no server knows.
fn unknown(stage: &Stage) -> Value {
    with(
        stage.absent(),
        json!({"apiVersion": "unknown.example.com/v1", "kind": "Unknown"}),
    )
}

async fn integration_cross_namespace_references(stage: &Stage) -> Checked {
    /// As many references as upstream gives them.
    const UNRESOLVABLE: u32 = 25;
    let b = stage.second_ns().await?;
    let parent = stage
        .make_in(&b, &CONFIG_MAPS, mk_config_map("parent"))
        .await?;
    let bad = with(parent.reference(), json!({"kind": "Secret"}));
    let mut valid = Vec::new();
    for number in 0..10 {
        let child = owned(mk_secret(&format!("valid-{number}")), &[parent.reference()]);
        valid.push(stage.make_in(&b, &SECRETS, child).await?);
    }
    let mut clinging = Vec::new();
    let mut owners: Vec<Value> = (0..UNRESOLVABLE).map(|_| unknown(stage)).collect();
    owners.push(bad.clone());
    for number in 0..3 {
        let child = owned(mk_secret(&format!("clinging-{number}")), &owners);
        clinging.push(stage.make(&SECRETS, child).await?);
    }
    let lost = owned(mk_secret("lost"), std::slice::from_ref(&bad));
    let lost = stage.make(&SECRETS, lost).await?;
    stage.start_collector().await?;
    stage.goes(&[&lost]).await?;
    let mut kept = all(&valid);
    kept.extend(all(&clinging));
    kept.push(&parent);
    stage.remain(&kept).await?;
    let late = owned(mk_secret("late"), &[bad]);
    let late = stage.make(&SECRETS, late).await?;
    stage.goes(&[&late]).await?;
    stage.untouched(&kept).await
}

async fn integration_cascading_deletion(stage: &Stage) -> Checked {
    let (doomed, other) = (
        controller(stage, "doomed").await?,
        controller(stage, "other").await?,
    );
    let lost = pod(stage, "lost", &[doomed.reference()]).await?;
    let shared = pod(stage, "shared", &[doomed.reference(), other.reference()]).await?;
    let free = pod(stage, "free", &[]).await?;
    stage.seen(&PODS, mk_pod("c")).await?;
    stage
        .delete(&doomed, json!({"orphanDependents": false}))
        .await?;
    stage.goes(&[&doomed, &lost]).await?;
    stage
        .until(async || stage.owned_by(&shared, &[&other]).await)
        .await?;
    stage.remain(&[&shared, &free, &other]).await
}

async fn integration_create_with_non_existent_owner(stage: &Stage) -> Checked {
    let lost = pod(stage, "lost", &[stage.absent()]).await?;
    stage.goes(&[&lost]).await
}

async fn integration_stressing_cascading_deletion(stage: &Stage) -> Checked {
    const GROUPS: usize = 10;
    const PODS_EACH: usize = 3;
    // Whether it is made with the orphan finalizer, how it is deleted, and whether its Pods are to stay.
    let combinations = [
        (false, json!({}), true),
        (true, json!({}), true),
        (true, json!({"orphanDependents": false}), false),
        (false, json!({"orphanDependents": true}), true),
        (true, json!({"orphanDependents": true}), true),
    ];
    let one = async |number: usize, orphans: bool| -> Checked<(Made, Vec<Made>)> {
        let mut owner = mk_controller(&format!("rc-{number}"));
        if orphans {
            owner["metadata"]["finalizers"] = json!(["orphan"]);
        }
        let owner = stage.make(&REPLICATION_CONTROLLERS, owner).await?;
        let pods = pods_of(stage, &owner, PODS_EACH).await?;
        Ok((owner, pods))
    };
    let rows = (0..GROUPS).flat_map(|_| &combinations).enumerate();
    let made = try_join_all(rows.clone().map(|(number, row)| one(number, row.0))).await?;
    stage.seen(&PODS, mk_pod("c")).await?;
    let deletes = made
        .iter()
        .zip(rows.clone())
        .map(|((owner, _), (_, row))| stage.delete(owner, row.1.clone()));
    try_join_all(deletes).await?;
    let (mut kept, mut lost) = (Vec::new(), Vec::new());
    for ((_, pods), (_, row)) in made.iter().zip(rows) {
        if row.2 { &mut kept } else { &mut lost }.extend(pods);
    }
    stage
        .until(async || stage.count(&REPLICATION_CONTROLLERS, 0).await)
        .await?;
    stage.goes(&lost).await?;
    stage
        .stays(async || stage.count(&PODS, kept.len()).await)
        .await?;
    for pod in kept {
        stage.owned_by(pod, &[]).await?;
        stage.untouched(&[pod]).await?;
    }
    Ok(())
}

async fn integration_orphaning(stage: &Stage) -> Checked {
    let owner = controller(stage, "owner").await?;
    let pods = pods_of(stage, &owner, 3).await?;
    stage.seen(&PODS, mk_pod("c")).await?;
    stage
        .delete(&owner, json!({"orphanDependents": true}))
        .await?;
    stage.goes(&[&owner]).await?;
    for pod in &pods {
        stage.owned_by(pod, &[]).await?;
    }
    stage.remain(&all(&pods)).await
}

async fn integration_solid_owner_does_not_block_waiting_owner(stage: &Stage) -> Checked {
    let (doomed, solid) = (
        controller(stage, "doomed").await?,
        controller(stage, "solid").await?,
    );
    let owners = [blocking(doomed.reference()), solid.reference()];
    let shared = pod(stage, "shared", &owners).await?;
    stage.seen(&PODS, mk_pod("c")).await?;
    stage.delete(&doomed, foreground()).await?;
    stage.goes(&[&doomed]).await?;
    stage.owned_by(&shared, &[&solid]).await?;
    stage.remain(&[&shared, &solid]).await
}

async fn integration_non_blocking_owner_ref_does_not_block(stage: &Stage) -> Checked {
    let owner = controller(stage, "owner").await?;
    let nil = owned(held(mk_pod("nil")), &[owner.reference()]);
    let nil = stage.make(&PODS, nil).await?;
    let not = with(owner.reference(), json!({"blockOwnerDeletion": false}));
    let not = stage
        .make(&PODS, owned(held(mk_pod("not")), &[not]))
        .await?;
    stage.seen(&PODS, mk_pod("c")).await?;
    stage.delete(&owner, foreground()).await?;
    stage.goes(&[&owner]).await?;
    // The collector deletes them as well, but nobody waits for them.
    stage
        .until(async || stage.deleting(&[&nil, &not]).await)
        .await?;
    stage
        .stays(async || stage.deleting(&[&nil, &not]).await)
        .await
}

async fn integration_double_deletion_with_finalizer(stage: &Stage) -> Checked {
    let pod = stage.make(&PODS, held(mk_pod("p"))).await?;
    for _ in 0..2 {
        stage.delete(&pod, foreground()).await?;
        stage
            .until(async || stage.held_by(&pod, &[HOLD]).await)
            .await?;
        stage.deleting(&[&pod]).await?;
    }
    stage.release(&pod).await?;
    stage.goes(&[&pod]).await
}

async fn integration_blocking_owner_ref_does_block(stage: &Stage) -> Checked {
    let owner = controller(stage, "owner").await?;
    let child = owned(held(mk_pod("child")), &[blocking(owner.reference())]);
    let child = stage.make(&PODS, child).await?;
    stage.start_collector().await?;
    stage.delete(&owner, foreground()).await?;
    stage
        .until(async || stage.deleting(&[&child]).await)
        .await?;
    stage
        .stays(async || stage.deleting(&[&owner, &child]).await)
        .await?;
    stage.release(&child).await?;
    stage.goes(&[&child, &owner]).await
}

async fn integration_cluster_scoped_owners(stage: &Stage) -> Checked {
    let spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}});
    let volume = with(
        mk_object("v1", "PersistentVolume", "pv"),
        json!({ "spec": spec }),
    );
    let volume = stage.make(&VOLUMES, volume).await?;
    let child = async |name: &str, owner: Value| {
        stage
            .make(&CONFIG_MAPS, owned(mk_config_map(name), &[owner]))
            .await
    };
    // At once, so that the collector may see the child before its owner.
    let kept = child("kept", volume.reference()).await?;
    let no_volume = with(stage.absent(), json!({"kind": "PersistentVolume"}));
    let lost = child("lost", no_volume).await?;
    let strange = child("strange", unknown(stage)).await?;
    stage.goes(&[&lost]).await?;
    stage.remain(&[&kept, &strange, &volume]).await
}

/// The play stands in for a Job controller that is slow to take its finalizers off.
async fn integration_job_orphan_pods_finalizers_cleared_with_gc(stage: &Stage) -> Checked {
    for (name, options) in [("b", background()), ("f", foreground()), ("o", orphan())] {
        let job = stage.make(&JOBS, mk_job(name)).await?;
        let owner = with(blocking(job.reference()), json!({"controller": true}));
        let tracked = with(
            mk_pod(name),
            json!({"metadata": {"finalizers": [JOB_TRACKING]}}),
        );
        let pod = stage.make(&PODS, owned(tracked, &[owner])).await?;
        stage.seen(&PODS, mk_pod("c")).await?;
        stage.delete(&job, options).await?;
        match name {
            "o" => {
                stage.goes(&[&job]).await?;
                stage.owned_by(&pod, &[]).await?;
                stage.release(&pod).await?;
                stage.remain(&[&pod]).await?;
            }
            _ => {
                stage.until(async || stage.deleting(&[&pod]).await).await?;
                stage
                    .stays(async || stage.held_by(&pod, &[JOB_TRACKING]).await)
                    .await?;
                stage.release(&pod).await?;
                stage.goes(&[&pod, &job]).await?;
            }
        }
    }
    Ok(())
}
