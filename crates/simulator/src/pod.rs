//! Simulated scheduler and kubelet: binds Pods, starts and finishes them, and removes deleted ones. No container runs.
//!
//! The choice of a Node ignores requests, selectors, affinity and taints. A Pod whose Node is gone, not ready or not
//! simulated is left alone, like a Pod without a kubelet.

use caretaker_controllers::runtime::call::ApiCall;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::actor::{
    Actor, ActorDecision, NamespacedName, make, request, rest, set_status, wait_until,
};
use crate::annotations::{PodBehaviour, PodOutcome};
use crate::cache::{GroupResource, ObjectCache, ObjectSnapshot};
use crate::node::{NODES, is_fit};
use crate::objects::{
    delete_with_grace, free_name, hash, later, pod_of, set_condition, time, time_at,
};

pub(crate) const PODS: GroupResource = ("", "pods");
/// Names of the simulated schedulers. Pods with another scheduler wait for it.
const SCHEDULERS: [&str; 2] = ["default-scheduler", "volcano"];

/// Simulates the scheduler and the kubelets.
#[derive(Debug)]
pub(crate) struct PodActor;

// === impl PodActor ===

impl Actor for PodActor {
    const NAME: &'static str = "simulated-pods";
    const KINDS: &'static [GroupResource] = &[PODS, NODES];

    fn decide(&self, cache: &ObjectCache, pod: &ObjectSnapshot, now: Timestamp) -> ActorDecision {
        let node = pod.text("/spec/nodeName");
        if pod.is_deleting() {
            return end(cache, pod, now);
        }
        if has_ended(pod) {
            return rest("the Pod has finished");
        }
        if node.is_empty() {
            return bind(cache, pod);
        }
        if !is_on_fit_node(cache, pod) {
            return rest("the Node is not simulated");
        }
        let behaviour = PodBehaviour::of(pod.at("/metadata/annotations"));
        if pod.text("/status/phase") == "Running" {
            finish(pod, behaviour, now)
        } else {
            run(pod, behaviour, now)
        }
    }

    /// A change of a Node affects its Pods and unbound Pods.
    fn affected(&self, cache: &ObjectCache, node: &ObjectSnapshot) -> Vec<NamespacedName> {
        let name = &*node.meta().name;
        let concerned = cache.all(PODS).filter(|pod| {
            let bound = pod.text("/spec/nodeName");
            bound.is_empty() || bound == name
        });
        concerned.map(ObjectSnapshot::key).collect()
    }
}

/// Whether the Pod has succeeded or failed.
pub(crate) fn has_ended(pod: &ObjectSnapshot) -> bool {
    matches!(pod.text("/status/phase"), "Succeeded" | "Failed")
}

/// Whether the Pod is neither finished nor being deleted.
pub(crate) fn is_active(pod: &ObjectSnapshot) -> bool {
    !has_ended(pod) && !pod.is_deleting()
}

/// Creates one more Pod of a Job or ReplicaSet.
pub(crate) fn make_pod(cache: &ObjectCache, owner: &ObjectSnapshot) -> ActorDecision {
    let name = free_name(cache, owner, PODS);
    let pod = pod_of(owner.at("/spec/template"));
    make(cache, owner, PODS, (&name, pod), "too few Pods")
}

fn is_on_fit_node(cache: &ObjectCache, pod: &ObjectSnapshot) -> bool {
    let node = cache.get(NODES, &NamespacedName::new("", pod.text("/spec/nodeName")));
    node.is_some_and(is_fit)
}

/// Removes a deleted Pod after its grace period, like the kubelet of its Node.
fn end(cache: &ObjectCache, pod: &ObjectSnapshot, now: Timestamp) -> ActorDecision {
    let grace = pod.number("/metadata/deletionGracePeriodSeconds");
    if grace.is_none_or(|secs| secs == 0) {
        return rest("only finalizers keep the Pod");
    }
    if !is_on_fit_node(cache, pod) {
        return rest("the Node is not simulated");
    }
    match pod.meta().deletion {
        Some(over) if over > now => wait_until(over, "the grace period has not ended"),
        _ => request(
            delete_with_grace(pod, Some(0)),
            "the grace period has ended",
        ),
    }
}

/// Binds a Pod to a Node, chosen by the hash of its uid.
fn bind(cache: &ObjectCache, pod: &ObjectSnapshot) -> ActorDecision {
    if !pod.items("/spec/schedulingGates").is_empty() {
        return rest("the Pod has scheduling gates");
    }
    if !SCHEDULERS.contains(&pod.text("/spec/schedulerName")) {
        return rest("the Pod has another scheduler");
    }
    let is_open = |node: &&ObjectSnapshot| is_fit(node) && *node.at("/spec/unschedulable") != true;
    let nodes: Vec<&ObjectSnapshot> = cache.all(NODES).filter(is_open).collect();
    if nodes.is_empty() {
        return rest("no Node is available");
    }
    let count = nodes.len() as u64;
    let chosen = usize::try_from(hash(&pod.meta().uid.to_string()) % count).unwrap_or(0);
    let meta = pod.meta();
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": &*meta.name, "namespace": &*meta.namespace, "uid": meta.uid.to_string(),
            "resourceVersion": meta.revision.to_string()},
        "target": {"apiVersion": "v1", "kind": "Node", "name": &*nodes[chosen].meta().name},
    });
    let call = ApiCall::Create {
        target: pod.target(),
        subresource: Some("binding"),
        object: binding,
    };
    request(call, "the Pod is not bound")
}

/// Starts a bound Pod after its start time.
fn run(pod: &ObjectSnapshot, behaviour: PodBehaviour, now: Timestamp) -> ActorDecision {
    let mut conditions = pod.items("/status/conditions").iter();
    let scheduled = conditions.find(|known| known["type"] == "PodScheduled");
    let bound = scheduled.and_then(|known| time_at(&known["lastTransitionTime"]));
    let bound = bound.or_else(|| time_at(pod.at("/metadata/creationTimestamp")));
    let start = later(bound.unwrap_or(now), behaviour.start_secs);
    if start > now {
        return wait_until(start, "the Pod is starting");
    }
    let started = json!({"running": {"startedAt": time(now)}});
    let address = address(pod);
    let mut status = with_containers(pod, now, &started, ContainerReadiness::Ready);
    status["phase"] = "Running".into();
    status["startTime"] = time(now).into();
    status["hostIP"] = "10.0.0.1".into();
    status["hostIPs"] = json!([{"ip": "10.0.0.1"}]);
    status["podIP"] = address.as_str().into();
    status["podIPs"] = json!([{"ip": address}]);
    set_status(pod, &status, "the Pod starts")
}

/// Finishes a running Pod after its run time, unless its containers would be restarted.
fn finish(pod: &ObjectSnapshot, behaviour: PodBehaviour, now: Timestamp) -> ActorDecision {
    let is_restarted = pod.text("/spec/restartPolicy") == "Always" && !behaviour.is_explicit;
    let started = time_at(pod.at("/status/startTime")).unwrap_or(now);
    let Some(run_secs) = behaviour.run_secs.filter(|_| !is_restarted) else {
        return rest("the Pod runs until it is deleted");
    };
    let over = later(started, run_secs);
    if over > now {
        return wait_until(over, "the Pod is running");
    }
    let (phase, code, reason) = match behaviour.outcome {
        PodOutcome::Succeeded => ("Succeeded", 0, "Completed"),
        PodOutcome::Failed => ("Failed", 1, "Error"),
    };
    let ended = json!({"terminated": {"exitCode": code, "reason": reason,
        "startedAt": time(started), "finishedAt": time(now)}});
    let mut status = with_containers(pod, now, &ended, ContainerReadiness::Ended(phase));
    status["phase"] = phase.into();
    set_status(pod, &status, "the Pod finishes")
}

/// Readiness of the containers of a Pod.
#[derive(Clone, Copy)]
enum ContainerReadiness {
    Ready,
    Ended(&'static str),
}

/// The status of the Pod with all containers in one state.
fn with_containers(
    pod: &ObjectSnapshot,
    now: Timestamp,
    state: &Value,
    ready: ContainerReadiness,
) -> Value {
    let mut status = pod.at("/status").clone();
    let is_ready = matches!(ready, ContainerReadiness::Ready);
    let containers = pod.items("/spec/containers").iter();
    let containers = containers.map(|container| {
        json!({"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0,
            "ready": is_ready, "started": is_ready, "state": state})
    });
    status["containerStatuses"] = containers.collect();
    let mut conditions = pod.items("/status/conditions").to_vec();
    for of in ["Initialized", "Ready", "ContainersReady"] {
        let condition = match ready {
            ContainerReadiness::Ended(phase) if of != "Initialized" => {
                let reason = format!("Pod{}", phase.replace("Succeeded", "Completed"));
                json!({"type": of, "status": "False", "reason": reason})
            }
            _ => json!({"type": of, "status": "True"}),
        };
        set_condition(&mut conditions, condition, now);
    }
    // The API server stores null here; a patch without it would look like a change.
    conditions
        .iter_mut()
        .for_each(|known| known["lastProbeTime"] = Value::Null);
    status["conditions"] = conditions.into();
    status
}

/// An IP address derived from the uid of the Pod.
fn address(pod: &ObjectSnapshot) -> String {
    let [.., high, low] = hash(&pod.meta().uid.to_string()).to_be_bytes();
    format!("10.244.{high}.{low}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotations::{FOREVER, OUTCOME, RUN_SECONDS, START_SECONDS};
    use crate::node;
    use crate::objects::time;
    use crate::tests::{ActorHarness, START, decided};

    fn mk_pod(spec: &Value, annotations: &Value) -> Value {
        let mut pod = json!({"metadata": {"name": "p", "namespace": "n", "annotations": annotations},
            "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never",
                "schedulerName": "default-scheduler"},
            "status": {"phase": "Pending"}});
        for (name, value) in spec.as_object().unwrap() {
            pod["spec"][name] = value.clone();
        }
        pod
    }

    fn mk_node(ready: &str) -> Value {
        json!({"metadata": {"name": node::NAME, "labels": {node::LABEL: "true"}},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}})
    }

    fn key() -> NamespacedName {
        NamespacedName::new("n", "p")
    }

    fn harness(pod: Value, ready: &str) -> ActorHarness<PodActor> {
        let mut harness = ActorHarness::of(PodActor);
        harness.applied(NODES, mk_node(ready));
        harness.applied(PODS, pod);
        harness
    }

    #[test]
    fn binds_pods_of_simulated_schedulers() {
        let cases = [
            (json!({}), "True", true),
            (json!({"schedulerName": "volcano"}), "True", true),
            (json!({"schedulerName": "mine"}), "True", false),
            (json!({"schedulingGates": [{"name": "g"}]}), "True", false),
            (json!({}), "False", false),
        ];
        for (spec, ready, expected) in cases {
            let harness = harness(mk_pod(&spec, &json!({})), ready);
            if !expected {
                assert!(harness.is_resting(&key(), START), "{spec}");
                continue;
            }
            let bound = decided(&harness.decide(&key(), START));
            assert_eq!((bound.verb, bound.subresource), ("create", Some("binding")));
            assert_eq!(bound.body["target"]["name"], node::NAME);
            assert_eq!(bound.body["metadata"]["resourceVersion"], "2");
        }
    }

    #[test]
    fn watch_may_be_faster_than_the_response() {
        let mut harness = harness(mk_pod(&json!({}), &json!({})), "True");
        let asked = harness.decide(&key(), START);
        let mut bound = mk_pod(&json!({"nodeName": node::NAME}), &json!({}));
        bound["status"]["phase"] = "Running".into();
        harness.applied(PODS, bound);
        harness.answered(&key(), &asked);
        assert!(!harness.is_resting(&key(), START));
    }

    #[test]
    fn bound_pod_waits_for_the_watch() {
        let mut harness = harness(mk_pod(&json!({}), &json!({})), "True");
        harness.answered(&key(), &harness.decide(&key(), START));
        assert!(harness.is_resting(&key(), START));
        harness.applied(PODS, mk_pod(&json!({"nodeName": node::NAME}), &json!({})));
        assert!(!harness.is_resting(&key(), START));
    }

    fn mk_running(annotations: &Value, policy: &str) -> Value {
        let spec = json!({"nodeName": node::NAME, "restartPolicy": policy});
        let mut pod = mk_pod(&spec, annotations);
        pod["status"] = json!({"phase": "Running", "startTime": time(START)});
        pod
    }

    #[test]
    fn pod_starts_with_the_status_of_a_kubelet() {
        let mut pod = mk_pod(
            &json!({"nodeName": node::NAME}),
            &json!({START_SECONDS: "3"}),
        );
        pod["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "True",
            "lastTransitionTime": time(START)}]);
        let harness = harness(pod, "True");
        let start = later(START, 3);
        assert_eq!(harness.at(&key(), START), Some(start));
        let running = decided(&harness.decide(&key(), start));
        let status = &running.body["status"];
        assert_eq!(status["phase"], "Running");
        assert_eq!(status["startTime"], time(start));
        assert_eq!(status["containerStatuses"][0]["ready"], true);
        let types: Vec<&str> = status["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|known| known["type"].as_str().unwrap())
            .collect();
        assert_eq!(
            types,
            ["PodScheduled", "Initialized", "Ready", "ContainersReady"]
        );
    }

    #[test]
    fn pod_finishes_as_annotated() {
        let cases = [
            (json!({}), "Never", Some((5, "Succeeded"))),
            (
                json!({RUN_SECONDS: "60"}),
                "OnFailure",
                Some((60, "Succeeded")),
            ),
            (json!({OUTCOME: "failed"}), "Never", Some((5, "Failed"))),
            (json!({}), "Always", None),
            (json!({RUN_SECONDS: "1"}), "Always", Some((1, "Succeeded"))),
            (json!({RUN_SECONDS: FOREVER}), "Never", None),
        ];
        for (annotations, policy, expected) in cases {
            let harness = harness(mk_running(&annotations, policy), "True");
            let Some((secs, phase)) = expected else {
                assert!(
                    harness.is_resting(&key(), later(START, 10_000)),
                    "{annotations}"
                );
                continue;
            };
            let over = later(START, secs);
            assert_eq!(harness.at(&key(), START), Some(over), "{annotations}");
            let ended = decided(&harness.decide(&key(), over));
            assert_eq!(ended.body["status"]["phase"], phase, "{annotations}");
        }
    }

    #[test]
    fn deleted_pod_is_removed_after_its_grace_period() {
        let gone = later(START, 30);
        let deleted = |grace: i64| {
            let mut pod = mk_running(&json!({}), "Always");
            pod["metadata"]["deletionTimestamp"] = time(gone).into();
            pod["metadata"]["deletionGracePeriodSeconds"] = grace.into();
            pod
        };
        let alive = harness(deleted(30), "True");
        assert_eq!(alive.at(&key(), START), Some(gone));
        let call = decided(&alive.decide(&key(), gone));
        assert_eq!((call.verb, call.grace_secs), ("delete", Some(0)));
        assert!(
            harness(deleted(0), "True").is_resting(&key(), gone),
            "only finalizers keep the Pod"
        );
        assert!(
            harness(deleted(30), "False").is_resting(&key(), gone),
            "no kubelet"
        );
    }
}
