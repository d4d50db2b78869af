//! The cases of upstream's `test/integration/garbagecollector` that need no custom kind, and the one of
//! `test/integration/job` that is about the collector.

use futures::future::try_join_all;
use serde_json::{Value, json};

use super::{
    HOLD, all, background, controller, foreground, held, mk_controller, orphan, pod, pods_of,
};
use crate::case::{CheckResult, TestCase, case};
use crate::environment::Environment;
use crate::fixtures::{CreatedObject, blocking, owned};
use crate::objects::{
    CONFIG_MAPS, JOBS, PODS, REPLICATION_CONTROLLERS, SECRETS, VOLUMES, mk_config_map, mk_job,
    mk_object, mk_pod, with,
};

pub(super) const CASES: &[TestCase] = &[
    case!(integration_cross_namespace_references, FreshControllers),
    case!(integration_cascading_deletion),
    case!(integration_create_with_non_existent_owner),
    case!(integration_stressing_cascading_deletion),
    case!(integration_orphaning),
    case!(integration_solid_owner_does_not_block_waiting_owner),
    case!(integration_non_blocking_owner_ref_does_not_block),
    case!(integration_double_deletion_with_finalizer),
    case!(integration_blocking_owner_ref_does_block, FreshControllers),
    case!(integration_cluster_scoped_owners),
    case!(integration_job_orphan_pods_finalizers_cleared_with_gc),
];

/// What the Job controller holds Pods with until it has counted them.
const JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";

fn mk_secret(name: &str) -> Value {
    mk_object("v1", "Secret", name)
}

/// A reference of a kind that no server knows.
fn unknown(env: &Environment) -> Value {
    with(
        env.absent(),
        json!({"apiVersion": "unknown.example.com/v1", "kind": "Unknown"}),
    )
}

async fn integration_cross_namespace_references(env: &Environment) -> CheckResult {
    /// As many references as upstream gives them.
    const UNRESOLVABLE: u32 = 25;
    let b = env.second_ns().await?;
    let parent = env
        .make_in(&b, &CONFIG_MAPS, mk_config_map("parent"))
        .await?;
    let bad = with(parent.reference(), json!({"kind": "Secret"}));
    let mut valid = Vec::new();
    for number in 0..10 {
        let child = owned(mk_secret(&format!("valid-{number}")), &[parent.reference()]);
        valid.push(env.make_in(&b, &SECRETS, child).await?);
    }
    let mut clinging = Vec::new();
    let mut owners: Vec<Value> = (0..UNRESOLVABLE).map(|_| unknown(env)).collect();
    owners.push(bad.clone());
    for number in 0..3 {
        let child = owned(mk_secret(&format!("clinging-{number}")), &owners);
        clinging.push(env.make(&SECRETS, child).await?);
    }
    let lost = owned(mk_secret("lost"), std::slice::from_ref(&bad));
    let lost = env.make(&SECRETS, lost).await?;
    env.start_controllers().await?;
    env.goes(&[&lost]).await?;
    let mut kept = all(&valid);
    kept.extend(all(&clinging));
    kept.push(&parent);
    env.remain(&kept).await?;
    let late = owned(mk_secret("late"), &[bad]);
    let late = env.make(&SECRETS, late).await?;
    env.goes(&[&late]).await?;
    env.untouched(&kept).await
}

async fn integration_cascading_deletion(env: &Environment) -> CheckResult {
    let (doomed, other) = (
        controller(env, "doomed").await?,
        controller(env, "other").await?,
    );
    let lost = pod(env, "lost", &[doomed.reference()]).await?;
    let shared = pod(env, "shared", &[doomed.reference(), other.reference()]).await?;
    let free = pod(env, "free", &[]).await?;
    env.seen(&PODS, mk_pod("c")).await?;
    env.delete(&doomed, json!({"orphanDependents": false}))
        .await?;
    env.goes(&[&doomed, &lost]).await?;
    env.until(async || env.owned_by(&shared, &[&other]).await)
        .await?;
    env.remain(&[&shared, &free, &other]).await
}

async fn integration_create_with_non_existent_owner(env: &Environment) -> CheckResult {
    let lost = pod(env, "lost", &[env.absent()]).await?;
    env.goes(&[&lost]).await
}

async fn integration_stressing_cascading_deletion(env: &Environment) -> CheckResult {
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
    let one =
        async |number: usize, orphans: bool| -> CheckResult<(CreatedObject, Vec<CreatedObject>)> {
            let mut owner = mk_controller(&format!("rc-{number}"));
            if orphans {
                owner["metadata"]["finalizers"] = json!(["orphan"]);
            }
            let owner = env.make(&REPLICATION_CONTROLLERS, owner).await?;
            let pods = pods_of(env, &owner, PODS_EACH).await?;
            Ok((owner, pods))
        };
    let rows = (0..GROUPS).flat_map(|_| &combinations).enumerate();
    let made = try_join_all(rows.clone().map(|(number, row)| one(number, row.0))).await?;
    env.seen(&PODS, mk_pod("c")).await?;
    let deletes = made
        .iter()
        .zip(rows.clone())
        .map(|((owner, _), (_, row))| env.delete(owner, row.1.clone()));
    try_join_all(deletes).await?;
    let (mut kept, mut lost) = (Vec::new(), Vec::new());
    for ((_, pods), (_, row)) in made.iter().zip(rows) {
        if row.2 { &mut kept } else { &mut lost }.extend(pods);
    }
    env.until(async || env.count(&REPLICATION_CONTROLLERS, 0).await)
        .await?;
    env.goes(&lost).await?;
    env.stays(async || env.count(&PODS, kept.len()).await)
        .await?;
    for pod in kept {
        env.owned_by(pod, &[]).await?;
        env.untouched(&[pod]).await?;
    }
    Ok(())
}

async fn integration_orphaning(env: &Environment) -> CheckResult {
    let owner = controller(env, "owner").await?;
    let pods = pods_of(env, &owner, 3).await?;
    env.seen(&PODS, mk_pod("c")).await?;
    env.delete(&owner, json!({"orphanDependents": true}))
        .await?;
    env.goes(&[&owner]).await?;
    for pod in &pods {
        env.owned_by(pod, &[]).await?;
    }
    env.remain(&all(&pods)).await
}

async fn integration_solid_owner_does_not_block_waiting_owner(env: &Environment) -> CheckResult {
    let (doomed, solid) = (
        controller(env, "doomed").await?,
        controller(env, "solid").await?,
    );
    let owners = [blocking(doomed.reference()), solid.reference()];
    let shared = pod(env, "shared", &owners).await?;
    env.seen(&PODS, mk_pod("c")).await?;
    env.delete(&doomed, foreground()).await?;
    env.goes(&[&doomed]).await?;
    env.owned_by(&shared, &[&solid]).await?;
    env.remain(&[&shared, &solid]).await
}

async fn integration_non_blocking_owner_ref_does_not_block(env: &Environment) -> CheckResult {
    let owner = controller(env, "owner").await?;
    let nil = owned(held(mk_pod("nil")), &[owner.reference()]);
    let nil = env.make(&PODS, nil).await?;
    let not = with(owner.reference(), json!({"blockOwnerDeletion": false}));
    let not = env.make(&PODS, owned(held(mk_pod("not")), &[not])).await?;
    env.seen(&PODS, mk_pod("c")).await?;
    env.delete(&owner, foreground()).await?;
    env.goes(&[&owner]).await?;
    // The collector deletes them as well, but no owner waits for them.
    env.until(async || env.deleting(&[&nil, &not]).await)
        .await?;
    env.stays(async || env.deleting(&[&nil, &not]).await).await
}

async fn integration_double_deletion_with_finalizer(env: &Environment) -> CheckResult {
    let pod = env.make(&PODS, held(mk_pod("p"))).await?;
    for _ in 0..2 {
        env.delete(&pod, foreground()).await?;
        env.until(async || env.held_by(&pod, &[HOLD]).await).await?;
        env.deleting(&[&pod]).await?;
    }
    env.release(&pod).await?;
    env.goes(&[&pod]).await
}

async fn integration_blocking_owner_ref_does_block(env: &Environment) -> CheckResult {
    let owner = controller(env, "owner").await?;
    let child = owned(held(mk_pod("child")), &[blocking(owner.reference())]);
    let child = env.make(&PODS, child).await?;
    env.start_controllers().await?;
    env.delete(&owner, foreground()).await?;
    env.until(async || env.deleting(&[&child]).await).await?;
    env.stays(async || env.deleting(&[&owner, &child]).await)
        .await?;
    env.release(&child).await?;
    env.goes(&[&child, &owner]).await
}

async fn integration_cluster_scoped_owners(env: &Environment) -> CheckResult {
    let spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}});
    let volume = with(
        mk_object("v1", "PersistentVolume", "pv"),
        json!({ "spec": spec }),
    );
    let volume = env.make(&VOLUMES, volume).await?;
    let child = async |name: &str, owner: Value| {
        env.make(&CONFIG_MAPS, owned(mk_config_map(name), &[owner]))
            .await
    };
    // At once, so that the collector may see the child before its owner.
    let kept = child("kept", volume.reference()).await?;
    let no_volume = with(env.absent(), json!({"kind": "PersistentVolume"}));
    let lost = child("lost", no_volume).await?;
    let strange = child("strange", unknown(env)).await?;
    env.goes(&[&lost]).await?;
    env.remain(&[&kept, &strange, &volume]).await
}

/// The case acts as a Job controller that is slow to remove its finalizers.
async fn integration_job_orphan_pods_finalizers_cleared_with_gc(env: &Environment) -> CheckResult {
    for (name, options) in [("b", background()), ("f", foreground()), ("o", orphan())] {
        let job = env.make(&JOBS, mk_job(name)).await?;
        let owner = with(blocking(job.reference()), json!({"controller": true}));
        let tracked = with(
            mk_pod(name),
            json!({"metadata": {"finalizers": [JOB_TRACKING]}}),
        );
        let pod = env.make(&PODS, owned(tracked, &[owner])).await?;
        env.seen(&PODS, mk_pod("c")).await?;
        env.delete(&job, options).await?;
        match name {
            "o" => {
                env.goes(&[&job]).await?;
                env.owned_by(&pod, &[]).await?;
                env.release(&pod).await?;
                env.remain(&[&pod]).await?;
            }
            _ => {
                env.until(async || env.deleting(&[&pod]).await).await?;
                env.stays(async || env.held_by(&pod, &[JOB_TRACKING]).await)
                    .await?;
                env.release(&pod).await?;
                env.goes(&[&pod, &job]).await?;
            }
        }
    }
    Ok(())
}
