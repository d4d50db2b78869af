//! StatefulSets, DaemonSets and ReplicationControllers; where their Pods may be; the Leases of Nodes.

use serde_json::{Value, json};

use super::{conditions, must, says, some};
use crate::case::{CheckResult, TestCase, case};
use crate::environment::Environment;
use crate::objects::{
    CLAIMS, CONTROLLER_REVISIONS, DAEMON_SETS, DEPLOYMENTS, LEASES, PODS, REPLICA_SETS,
    REPLICATION_CONTROLLERS, STATEFUL_SETS, mk_object, mk_pod, mk_workload, with,
};
use crate::session::Ask;

pub(super) const CASES: &[TestCase] = &[
    case!(a_stateful_set_creates_its_pods_in_order, Actors),
    case!(a_stateful_set_scales_down_from_the_end, Actors),
    case!(a_stateful_set_rolls_forward_and_back, Actors),
    case!(a_stateful_set_keeps_pods_below_its_partition, Actors),
    case!(claims_of_a_stateful_set_go_by_its_policy, Actors),
    case!(a_daemon_set_has_a_pod_on_its_node, Actors),
    case!(a_daemon_set_rolls_to_a_new_template, Actors),
    case!(
        a_replication_controller_has_as_many_pods_as_it_wants,
        Actors
    ),
    case!(a_deployment_goes_back_twice, Actors),
    case!(a_deployment_scales_to_zero_and_back, Actors),
    case!(a_pod_that_no_node_takes_says_so, Actors),
    case!(a_node_renews_its_lease, Actors),
];

/// The template of Pods that start at once and have little grace.
fn quick() -> Value {
    json!({"metadata": {"annotations": {"simulate.caretaker.dev/start-seconds": "0"}},
        "spec": {"terminationGracePeriodSeconds": 1}})
}

fn mk_quick(kind: &str, spec: &Value) -> Value {
    let workload = with(
        mk_workload(kind, "w"),
        json!({"spec": {"template": quick()}}),
    );
    with(workload, json!({ "spec": spec }))
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}

/// Waits until the Pods have these names and images.
async fn has_pods(env: &Environment, meant: &[(&str, &str)]) -> CheckResult {
    env.until(async || {
        let pods = env.list(&PODS).await?;
        let mut found: Vec<(&str, &str)> = Vec::new();
        for pod in &pods {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let image = pod["spec"]["containers"][0]["image"].as_str();
            found.push((name, image.unwrap_or_default()));
        }
        found.sort_unstable();
        match found == meant {
            true => Ok(()),
            false => Err(format!("there are {found:?} instead of {meant:?}")),
        }
    })
    .await
}

async fn a_stateful_set_creates_its_pods_in_order(env: &Environment) -> CheckResult {
    let spec = json!({"replicas": 3, "serviceName": "s"});
    let set = env
        .make(&STATEFUL_SETS, mk_quick("StatefulSet", &spec))
        .await?;
    let done = says(env, &set, "/status/availableReplicas", &json!(3)).await?;
    let (status, revisions) = (&done["status"], some(env, &CONTROLLER_REVISIONS, 1).await?);
    let revision = &revisions[0]["metadata"]["name"];
    for (field, meant) in [
        ("replicas", json!(3)),
        ("readyReplicas", json!(3)),
        ("currentReplicas", json!(3)),
        ("updatedReplicas", json!(3)),
        ("collisionCount", json!(0)),
        ("observedGeneration", json!(1)),
        ("currentRevision", revision.clone()),
        ("updateRevision", revision.clone()),
    ] {
        must(status[field] == meant, field, &done)?;
    }
    let mut started = Vec::new();
    for ordinal in 0..3 {
        let name = format!("w-{ordinal}");
        let pod = env.there(&env.known(&PODS, &name).await?).await?;
        let labels = json!({"app": "a", "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": ordinal.to_string(), "controller-revision-hash": revision});
        must(
            pod["metadata"]["labels"] == labels,
            "it has other labels",
            &pod,
        )?;
        must(
            pod["spec"]["hostname"] == *name,
            "it has another host name",
            &pod,
        )?;
        must(
            pod["spec"]["subdomain"] == "s",
            "it has another subdomain",
            &pod,
        )?;
        let version = pod["metadata"]["creationTimestamp"].as_str();
        started.push(version.unwrap_or_default().to_owned());
    }
    match started.is_sorted() {
        true => Ok(()),
        false => Err(format!("they were created in another order: {started:?}")),
    }
}

async fn a_stateful_set_scales_down_from_the_end(env: &Environment) -> CheckResult {
    let spec = json!({"replicas": 3, "podManagementPolicy": "Parallel"});
    let set = env
        .make(&STATEFUL_SETS, mk_quick("StatefulSet", &spec))
        .await?;
    says(env, &set, "/status/readyReplicas", &json!(3)).await?;
    env.change(&set, json!({"spec": {"replicas": 1}})).await?;
    has_pods(env, &[("w-0", "i")]).await?;
    says(env, &set, "/status/replicas", &json!(1)).await?;
    env.change(&set, json!({"spec": {"replicas": 0}})).await?;
    has_pods(env, &[]).await?;
    says(env, &set, "/status/replicas", &json!(0))
        .await
        .map(|_| ())
}

async fn a_stateful_set_rolls_forward_and_back(env: &Environment) -> CheckResult {
    let set = mk_quick("StatefulSet", &json!({"replicas": 2}));
    let set = env.make(&STATEFUL_SETS, set).await?;
    says(env, &set, "/status/readyReplicas", &json!(2)).await?;
    for (next, revision) in [("two", 2), ("i", 3), ("two", 4)] {
        env.change(&set, image(next)).await?;
        has_pods(env, &[("w-0", next), ("w-1", next)]).await?;
        let last = env
            .until(async || {
                let set = env.there(&set).await?;
                let status = &set["status"];
                let is_done = status["currentRevision"] == status["updateRevision"]
                    && status["observedGeneration"] == set["metadata"]["generation"]
                    && status["updatedReplicas"] == 2;
                match is_done {
                    true => Ok(()),
                    false => Err(format!("the rollout is not complete: {status}")),
                }
            })
            .await;
        last?;
        let revisions = some(env, &CONTROLLER_REVISIONS, 2).await?;
        let last = revisions
            .iter()
            .filter_map(|known| known["revision"].as_i64())
            .max();
        if last != Some(revision) {
            return Err(format!(
                "the last revision is {last:?} instead of {revision}"
            ));
        }
    }
    Ok(())
}

async fn a_stateful_set_keeps_pods_below_its_partition(env: &Environment) -> CheckResult {
    let update = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}});
    let set = mk_quick(
        "StatefulSet",
        &json!({"replicas": 2, "updateStrategy": update}),
    );
    let set = env.make(&STATEFUL_SETS, set).await?;
    says(env, &set, "/status/readyReplicas", &json!(2)).await?;
    env.change(&set, image("two")).await?;
    has_pods(env, &[("w-0", "i"), ("w-1", "two")]).await?;
    let partial = says(env, &set, "/status/updatedReplicas", &json!(1)).await?;
    must(
        partial["status"]["currentReplicas"] == 1,
        "it counts others",
        &partial,
    )?;
    let all = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}});
    env.change(&set, all).await?;
    has_pods(env, &[("w-0", "two"), ("w-1", "two")]).await
}

async fn claims_of_a_stateful_set_go_by_its_policy(env: &Environment) -> CheckResult {
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let spec = json!({"replicas": 2, "volumeClaimTemplates": [claim],
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"}});
    let set = env
        .make(&STATEFUL_SETS, mk_quick("StatefulSet", &spec))
        .await?;
    says(env, &set, "/status/readyReplicas", &json!(2)).await?;
    let claims = some(env, &CLAIMS, 2).await?;
    let names: Vec<_> = claims
        .iter()
        .map(|claim| &claim["metadata"]["name"])
        .collect();
    if names != ["data-w-0", "data-w-1"] {
        return Err(format!("the claims are {names:?}"));
    }
    env.change(&set, json!({"spec": {"replicas": 1}})).await?;
    some(env, &CLAIMS, 1).await?;
    let background = json!({"propagationPolicy": "Background"});
    env.delete(&set, background).await?;
    some(env, &CLAIMS, 0).await.map(|_| ())
}

/// A DaemonSet for the one Node of the simulation: other cases may have Nodes of their own.
fn mk_daemon_set() -> Value {
    let selector = json!({"kubernetes.io/hostname": "simulated-node"});
    mk_quick(
        "DaemonSet",
        &json!({"template": {"spec": {"nodeSelector": selector}}}),
    )
}

async fn a_daemon_set_has_a_pod_on_its_node(env: &Environment) -> CheckResult {
    let set = env.make(&DAEMON_SETS, mk_daemon_set()).await?;
    let done = says(env, &set, "/status/numberAvailable", &json!(1)).await?;
    for field in [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "observedGeneration",
    ] {
        must(done["status"][field] == 1, field, &done)?;
    }
    let pods = some(env, &PODS, 1).await?;
    must(
        pods[0]["spec"]["nodeName"] == "simulated-node",
        "it is on another Node",
        &pods[0],
    )?;
    let revisions = some(env, &CONTROLLER_REVISIONS, 1).await?;
    let hash = &revisions[0]["metadata"]["labels"]["controller-revision-hash"];
    let label = &pods[0]["metadata"]["labels"]["controller-revision-hash"];
    must(label == hash, "it has another revision", &pods[0])?;
    let nowhere = json!({"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": "none"}}}}});
    env.change(&set, nowhere).await?;
    says(env, &set, "/status/desiredNumberScheduled", &json!(0)).await?;
    some(env, &PODS, 0).await.map(|_| ())
}

async fn a_daemon_set_rolls_to_a_new_template(env: &Environment) -> CheckResult {
    for surge in [0, 1] {
        let update = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": 1 - surge}});
        let set = with(mk_daemon_set(), json!({"spec": {"updateStrategy": update}}));
        let set = env.make(&DAEMON_SETS, set).await?;
        says(env, &set, "/status/numberAvailable", &json!(1)).await?;
        env.change(&set, image("two")).await?;
        says(env, &set, "/status/observedGeneration", &json!(2)).await?;
        env.until(async || {
            let pods = env.list(&PODS).await?;
            let is_new = |pod: &Value| pod["spec"]["containers"][0]["image"] == "two";
            match pods.len() == 1 && pods.iter().all(is_new) {
                true => Ok(()),
                false => Err(format!("{} Pods, not all of them new", pods.len())),
            }
        })
        .await?;
        says(env, &set, "/status/updatedNumberScheduled", &json!(1)).await?;
        some(env, &CONTROLLER_REVISIONS, 2).await?;
        env.delete(&set, json!({"propagationPolicy": "Foreground"}))
            .await?;
        env.goes(&[&set]).await?;
        env.count(&PODS, 0).await?;
        env.count(&CONTROLLER_REVISIONS, 0).await?;
    }
    Ok(())
}

async fn a_replication_controller_has_as_many_pods_as_it_wants(env: &Environment) -> CheckResult {
    let template = with(
        quick(),
        json!({"metadata": {"labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}),
    );
    let controller = with(
        mk_object("v1", "ReplicationController", "w"),
        json!({"spec": {"replicas": 2, "selector": {"app": "a"}, "template": template}}),
    );
    let controller = env.make(&REPLICATION_CONTROLLERS, controller).await?;
    let done = says(env, &controller, "/status/availableReplicas", &json!(2)).await?;
    for field in ["replicas", "fullyLabeledReplicas", "readyReplicas"] {
        must(done["status"][field] == 2, field, &done)?;
    }
    some(env, &PODS, 2).await?;
    env.change(&controller, json!({"spec": {"replicas": 0}}))
        .await?;
    says(env, &controller, "/status/replicas", &json!(0)).await?;
    env.until(async || env.count(&PODS, 0).await).await
}

async fn a_deployment_goes_back_twice(env: &Environment) -> CheckResult {
    let deployment = mk_quick("Deployment", &json!({"replicas": 2}));
    let deployment = env.make(&DEPLOYMENTS, deployment).await?;
    says(env, &deployment, "/status/availableReplicas", &json!(2)).await?;
    for (next, revision) in [("two", "2"), ("i", "3"), ("two", "4")] {
        env.change(&deployment, image(next)).await?;
        let pointer = "/metadata/annotations/deployment.kubernetes.io~1revision";
        says(env, &deployment, pointer, &json!(revision)).await?;
        env.until(async || {
            let object = env.there(&deployment).await?;
            let status = &object["status"];
            let is_done = status["updatedReplicas"] == 2
                && status["replicas"] == 2
                && status["availableReplicas"] == 2
                && status["observedGeneration"] == object["metadata"]["generation"];
            match is_done {
                true => Ok(()),
                false => Err(format!("the rollout is not complete: {status}")),
            }
        })
        .await?;
        some(env, &REPLICA_SETS, 2).await?;
    }
    Ok(())
}

async fn a_deployment_scales_to_zero_and_back(env: &Environment) -> CheckResult {
    let deployment = mk_quick("Deployment", &json!({"replicas": 2}));
    let deployment = env.make(&DEPLOYMENTS, deployment).await?;
    says(env, &deployment, "/status/availableReplicas", &json!(2)).await?;
    env.change(&deployment, json!({"spec": {"replicas": 0}}))
        .await?;
    env.until(async || env.count(&PODS, 0).await).await?;
    let empty = says(env, &deployment, "/status/replicas", &Value::Null).await?;
    must(
        conditions(&empty).contains(&"Available"),
        "it is not available",
        &empty,
    )?;
    env.change(&deployment, json!({"spec": {"replicas": 1}}))
        .await?;
    says(env, &deployment, "/status/availableReplicas", &json!(1)).await?;
    // All Pods are deleted at once, as when a Node is drained.
    for pod in some(env, &PODS, 1).await? {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let pod = env.known(&PODS, name).await?;
        env.delete(&pod, json!({})).await?;
        env.goes(&[&pod]).await?;
    }
    says(env, &deployment, "/status/availableReplicas", &json!(1))
        .await
        .map(|_| ())
}

async fn a_pod_that_no_node_takes_says_so(env: &Environment) -> CheckResult {
    let nowhere = json!({"spec": {"nodeSelector": {"kubernetes.io/hostname": "none"}}});
    let pod = env.make(&PODS, with(mk_pod("a"), nowhere)).await?;
    let pointer = "/status/conditions/0/reason";
    let waiting = says(env, &pod, pointer, &json!("Unschedulable")).await?;
    must(
        waiting["status"]["phase"] == "Pending",
        "it is not pending",
        &waiting,
    )
}

async fn a_node_renews_its_lease(env: &Environment) -> CheckResult {
    let path = format!("{}/simulated-node", LEASES.collection("kube-node-lease"));
    let renewed = async || {
        let lease = env.send(Ask::get(path.clone()), &[200, 404]).await?;
        let time = lease.body["spec"]["renewTime"]
            .as_str()
            .map(ToOwned::to_owned);
        time.ok_or_else(|| "there is no Lease".to_owned())
    };
    env.until(async || renewed().await.map(|_| ())).await?;
    let first = renewed().await?;
    env.until(async || match renewed().await? == first {
        true => Err("it is not renewed".to_owned()),
        false => Ok(()),
    })
    .await
}
