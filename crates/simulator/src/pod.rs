//! Pods: bound to a Node, running for a while, ended, and removed when they were deleted. No container runs.
//!
//! Plays the parts that a scheduler and a kubelet have in a Pod's life. Which Pod goes where is not thought about:
//! requests, selectors, affinity and taints are not looked at. A Pod whose Node is gone, not ready or not simulated is
//! left alone, as one without a kubelet is.

use caretaker_controllers::runtime::call::Call;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::actor::{Actor, Decision, Key, ask, at, rest};
use crate::life::{Life, Outcome};
use crate::node::{NODES, is_fit};
use crate::objects::{hash, later, set_condition, time, time_at, write_status};
use crate::world::{Named, Object, World};

pub(crate) const PODS: Named = ("", "pods");
/// Schedulers whose work is done here; Pods of others wait for those.
const SCHEDULERS: [&str; 2] = ["default-scheduler", "volcano"];

/// The scheduler and the kubelets.
#[derive(Debug)]
pub(crate) struct Pods;

// === impl Pods ===

impl Actor for Pods {
    const NAME: &'static str = "simulated-pods";
    const KINDS: &'static [Named] = &[PODS, NODES];

    fn decide(&self, world: &World, pod: &Object, now: Timestamp) -> Decision {
        let node = pod.text("/spec/nodeName");
        if pod.is_deleting() {
            return end(world, pod, now);
        }
        if has_ended(pod) {
            return rest("it has ended");
        }
        if node.is_empty() {
            return bind(world, pod);
        }
        if !is_on_fit_node(world, pod) {
            return rest("nobody simulates its Node");
        }
        let life = Life::of(pod.at("/metadata/annotations"));
        if pod.text("/status/phase") == "Running" {
            finish(pod, life, now)
        } else {
            run(pod, life, now)
        }
    }

    /// A Node that comes or goes concerns its Pods and those that have none.
    fn affected(&self, world: &World, node: &Object) -> Vec<Key> {
        let name = &*node.meta().name;
        let concerned = world.all(PODS).filter(|pod| {
            let bound = pod.text("/spec/nodeName");
            bound.is_empty() || bound == name
        });
        concerned.map(Object::key).collect()
    }
}

/// Whether nothing of it runs or will run.
pub(crate) fn has_ended(pod: &Object) -> bool {
    matches!(pod.text("/status/phase"), "Succeeded" | "Failed")
}

/// Whether it is neither ended nor about to be.
pub(crate) fn is_active(pod: &Object) -> bool {
    !has_ended(pod) && !pod.is_deleting()
}

fn is_on_fit_node(world: &World, pod: &Object) -> bool {
    let node = world.get(NODES, &Key::new("", pod.text("/spec/nodeName")));
    node.is_some_and(is_fit)
}

/// A Pod that was deleted is removed when its grace is over, by the kubelet of its Node.
fn end(world: &World, pod: &Object, now: Timestamp) -> Decision {
    let grace = pod.number("/metadata/deletionGracePeriodSeconds");
    if grace.is_none_or(|secs| secs == 0) {
        return rest("only finalizers hold it");
    }
    if !is_on_fit_node(world, pod) {
        return rest("nobody simulates its Node");
    }
    match pod.meta().deletion {
        Some(over) if over > now => at(over, "its grace is not over"),
        _ => {
            let call = Call::Delete {
                target: pod.target(),
                judged: pod.judged(),
                propagation: None,
                grace_secs: Some(0),
            };
            ask(call, "its grace is over")
        }
    }
}

/// A Pod without a Node gets one: any, but always the same one.
fn bind(world: &World, pod: &Object) -> Decision {
    if !pod.items("/spec/schedulingGates").is_empty() {
        return rest("something gates it");
    }
    if !SCHEDULERS.contains(&pod.text("/spec/schedulerName")) {
        return rest("it waits for another scheduler");
    }
    let is_open = |node: &&Object| is_fit(node) && *node.at("/spec/unschedulable") != true;
    let nodes: Vec<&Object> = world.all(NODES).filter(is_open).collect();
    if nodes.is_empty() {
        return rest("there is no Node for it");
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
    let call = Call::Create {
        target: pod.target(),
        subresource: Some("binding"),
        object: binding,
    };
    ask(call, "it has no Node")
}

/// A Pod that is bound runs after a moment.
fn run(pod: &Object, life: Life, now: Timestamp) -> Decision {
    let mut conditions = pod.items("/status/conditions").iter();
    let scheduled = conditions.find(|known| known["type"] == "PodScheduled");
    let bound = scheduled.and_then(|known| time_at(&known["lastTransitionTime"]));
    let bound = bound.or_else(|| time_at(pod.at("/metadata/creationTimestamp")));
    let start = later(bound.unwrap_or(now), life.start_secs);
    if start > now {
        return at(start, "it is starting");
    }
    let started = json!({"running": {"startedAt": time(now)}});
    let address = address(pod);
    let mut status = with_containers(pod, now, &started, Readiness::Ready);
    status["phase"] = "Running".into();
    status["startTime"] = time(now).into();
    status["hostIP"] = "10.0.0.1".into();
    status["hostIPs"] = json!([{"ip": "10.0.0.1"}]);
    status["podIP"] = address.as_str().into();
    status["podIPs"] = json!([{"ip": address}]);
    write(pod, &status, "it starts")
}

/// A Pod that runs ends after a while, unless its containers would be started again.
fn finish(pod: &Object, life: Life, now: Timestamp) -> Decision {
    let is_restarted = pod.text("/spec/restartPolicy") == "Always" && !life.is_said;
    let started = time_at(pod.at("/status/startTime")).unwrap_or(now);
    let Some(run_secs) = life.run_secs.filter(|_| !is_restarted) else {
        return rest("it runs until it is deleted");
    };
    let over = later(started, run_secs);
    if over > now {
        return at(over, "it runs");
    }
    let (phase, code, reason) = match life.outcome {
        Outcome::Succeeded => ("Succeeded", 0, "Completed"),
        Outcome::Failed => ("Failed", 1, "Error"),
    };
    let ended = json!({"terminated": {"exitCode": code, "reason": reason,
        "startedAt": time(started), "finishedAt": time(now)}});
    let mut status = with_containers(pod, now, &ended, Readiness::Ended(phase));
    status["phase"] = phase.into();
    write(pod, &status, "it ends")
}

/// Whether containers are ready, or why they are not.
#[derive(Clone, Copy)]
enum Readiness {
    Ready,
    Ended(&'static str),
}

/// The Pod's status with all its containers in one state.
fn with_containers(pod: &Object, now: Timestamp, state: &Value, ready: Readiness) -> Value {
    let mut status = pod.at("/status").clone();
    let is_ready = matches!(ready, Readiness::Ready);
    let containers = pod.items("/spec/containers").iter();
    let containers = containers.map(|container| {
        json!({"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0,
            "ready": is_ready, "started": is_ready, "state": state})
    });
    status["containerStatuses"] = containers.collect();
    let mut conditions = pod.items("/status/conditions").to_vec();
    for of in ["Initialized", "Ready", "ContainersReady"] {
        let condition = match ready {
            Readiness::Ended(phase) if of != "Initialized" => {
                let reason = format!("Pod{}", phase.replace("Succeeded", "Completed"));
                json!({"type": of, "status": "False", "reason": reason})
            }
            _ => json!({"type": of, "status": "True"}),
        };
        set_condition(&mut conditions, condition, now);
    }
    // Stored so; a patch that left it out would seem to change it.
    conditions
        .iter_mut()
        .for_each(|known| known["lastProbeTime"] = Value::Null);
    status["conditions"] = conditions.into();
    status
}

fn write(pod: &Object, status: &Value, why: &'static str) -> Decision {
    match write_status(pod, status) {
        Some(call) => ask(call, why),
        None => rest("nothing about it changes"),
    }
}

/// An address that belongs to this Pod, as far as a hash can tell Pods apart.
fn address(pod: &Object) -> String {
    let [.., high, low] = hash(&pod.meta().uid.to_string()).to_be_bytes();
    format!("10.244.{high}.{low}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::life::{FOREVER, OUTCOME, RUN_SECONDS, START_SECONDS};
    use crate::node;
    use crate::objects::time;
    use crate::tests::{START, Stage, decided};

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

    fn key() -> Key {
        Key::new("n", "p")
    }

    fn stage(pod: Value, ready: &str) -> Stage<Pods> {
        let mut stage = Stage::of(Pods);
        stage.applied(NODES, mk_node(ready));
        stage.applied(PODS, pod);
        stage
    }

    #[test]
    fn a_pod_is_bound_if_somebody_here_may_bind_it() {
        let cases = [
            (json!({}), "True", true),
            (json!({"schedulerName": "volcano"}), "True", true),
            (json!({"schedulerName": "mine"}), "True", false),
            (json!({"schedulingGates": [{"name": "g"}]}), "True", false),
            (json!({}), "False", false),
        ];
        for (spec, ready, expected) in cases {
            let stage = stage(mk_pod(&spec, &json!({})), ready);
            if !expected {
                assert!(stage.is_resting(&key(), START), "{spec}");
                continue;
            }
            let bound = decided(&stage.decide(&key(), START));
            assert_eq!((bound.verb, bound.subresource), ("create", Some("binding")));
            assert_eq!(bound.body["target"]["name"], node::NAME);
            assert_eq!(bound.body["metadata"]["resourceVersion"], "2");
        }
    }

    #[test]
    fn a_feed_that_is_faster_than_the_answer_is_believed() {
        let mut stage = stage(mk_pod(&json!({}), &json!({})), "True");
        let asked = stage.decide(&key(), START);
        let mut bound = mk_pod(&json!({"nodeName": node::NAME}), &json!({}));
        bound["status"]["phase"] = "Running".into();
        stage.applied(PODS, bound);
        stage.answered(&key(), &asked);
        assert!(!stage.is_resting(&key(), START));
    }

    #[test]
    fn a_pod_that_was_just_bound_waits_until_that_is_seen() {
        let mut stage = stage(mk_pod(&json!({}), &json!({})), "True");
        stage.answered(&key(), &stage.decide(&key(), START));
        assert!(stage.is_resting(&key(), START));
        stage.applied(PODS, mk_pod(&json!({"nodeName": node::NAME}), &json!({})));
        assert!(!stage.is_resting(&key(), START));
    }

    fn mk_running(annotations: &Value, policy: &str) -> Value {
        let spec = json!({"nodeName": node::NAME, "restartPolicy": policy});
        let mut pod = mk_pod(&spec, annotations);
        pod["status"] = json!({"phase": "Running", "startTime": time(START)});
        pod
    }

    #[test]
    fn a_pod_starts_after_a_moment_and_says_all_that_a_kubelet_says() {
        let mut pod = mk_pod(
            &json!({"nodeName": node::NAME}),
            &json!({START_SECONDS: "3"}),
        );
        pod["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "True",
            "lastTransitionTime": time(START)}]);
        let stage = stage(pod, "True");
        let start = later(START, 3);
        assert_eq!(stage.at(&key(), START), Some(start));
        let running = decided(&stage.decide(&key(), start));
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
    fn a_pod_ends_as_it_is_told_to() {
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
            let stage = stage(mk_running(&annotations, policy), "True");
            let Some((secs, phase)) = expected else {
                assert!(
                    stage.is_resting(&key(), later(START, 10_000)),
                    "{annotations}"
                );
                continue;
            };
            let over = later(START, secs);
            assert_eq!(stage.at(&key(), START), Some(over), "{annotations}");
            let ended = decided(&stage.decide(&key(), over));
            assert_eq!(ended.body["status"]["phase"], phase, "{annotations}");
        }
    }

    #[test]
    fn a_deleted_pod_goes_when_its_grace_is_over_and_its_node_lives() {
        let gone = later(START, 30);
        let deleted = |grace: i64| {
            let mut pod = mk_running(&json!({}), "Always");
            pod["metadata"]["deletionTimestamp"] = time(gone).into();
            pod["metadata"]["deletionGracePeriodSeconds"] = grace.into();
            pod
        };
        let alive = stage(deleted(30), "True");
        assert_eq!(alive.at(&key(), START), Some(gone));
        let call = decided(&alive.decide(&key(), gone));
        assert_eq!((call.verb, call.grace_secs), ("delete", Some(0)));
        assert!(
            stage(deleted(0), "True").is_resting(&key(), gone),
            "only finalizers hold it"
        );
        assert!(
            stage(deleted(30), "False").is_resting(&key(), gone),
            "no kubelet"
        );
    }
}
