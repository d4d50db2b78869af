//! Simulated scheduler and kubelet: binds Pods, starts and finishes them, and removes deleted ones. No container runs.
//!
//! - `scheduler`: the choice of a Node.
//! - `status`: the status of a Pod by the state of its containers; `restarts`: containers that fail again and again.
//! - `events`: the Events of a kubelet.
//!
//! A Pod whose Node is gone, not ready or not simulated is left alone, like a Pod without a kubelet. A deleted Pod stops
//! after a second or as its annotation says, like containers that obey SIGTERM; one that does not run goes at once.

mod events;
mod restarts;
mod scheduler;
mod status;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::{Value, json};

use self::status::{ContainerReadiness, ContainerState};
use crate::actor::{
    Actor, ActorDecision, NamespacedName, make, request, rest, set_status, wait_until,
};
use crate::annotations::{PodBehaviour, PodOutcome};
use crate::cache::{GroupResource, ObjectCache, ObjectSnapshot};
use crate::events::{on_state, on_success, pod_created, pod_deleted};
use crate::node::{self, NODES, is_fit};
use crate::objects::{delete, delete_with_grace, free_name, hash, later, pod_of, time, time_at};

pub(crate) const PODS: GroupResource = ("", "pods");

/// Simulates the scheduler and the kubelets.
#[derive(Debug)]
pub(crate) struct PodActor;

// === impl PodActor ===

impl Actor for PodActor {
    const NAME: &'static str = "simulated-pods";
    const REPORTER: &'static str = "kubelet";
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
            return scheduler::bind(cache, pod, now);
        }
        if !is_on_fit_node(cache, pod) {
            return rest("the Node is not simulated");
        }
        let behaviour = PodBehaviour::of(pod.at("/metadata/annotations"));
        if pod.text("/status/phase") == "Running" {
            if let Some(status) = status::following_spec(pod, now) {
                return set_status(pod, &status, "the containers follow their spec");
            }
            finish(cache, pod, behaviour, now)
        } else {
            run(cache, pod, behaviour, now)
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
    make_pod_of(cache, owner, owner.at("/spec/template"))
}

/// Creates one more Pod of an owner from this template.
pub(crate) fn make_pod_of(
    cache: &ObjectCache,
    owner: &ObjectSnapshot,
    template: &Value,
) -> ActorDecision {
    let name = free_name(cache, owner, PODS);
    let mut pod = pod_of(template);
    pod["metadata"]["generateName"] = format!("{}-", owner.meta().name).into();
    let decision = make(cache, owner, PODS, (&name, pod), "too few Pods");
    on_success(decision, [pod_created(cache, owner, &name)])
}

/// Deletes a Pod of a Job or ReplicaSet.
pub(crate) fn delete_pod(
    cache: &ObjectCache,
    owner: &ObjectSnapshot,
    pod: &ObjectSnapshot,
) -> ActorDecision {
    let decision = request(delete(pod), "too many Pods");
    on_success(decision, [pod_deleted(cache, owner, &pod.meta().name)])
}

fn is_on_fit_node(cache: &ObjectCache, pod: &ObjectSnapshot) -> bool {
    let node = cache.get(NODES, &NamespacedName::new("", pod.text("/spec/nodeName")));
    node.is_some_and(is_fit)
}

/// Removes a deleted Pod when its containers have stopped, like the kubelet of its Node.
fn end(cache: &ObjectCache, pod: &ObjectSnapshot, now: Timestamp) -> ActorDecision {
    let grace = pod.number("/metadata/deletionGracePeriodSeconds");
    let (Some(over), Some(grace @ 1..)) = (pod.meta().deletion, grace) else {
        return rest("only finalizers keep the Pod");
    };
    if !is_on_fit_node(cache, pod) {
        return rest("the Node is not simulated");
    }
    let is_running = pod.text("/status/phase") == "Running";
    if !is_running {
        return request(delete_with_grace(pod, Some(0)), "no container runs");
    }
    let behaviour = PodBehaviour::of(pod.at("/metadata/annotations"));
    let stop = later(over, behaviour.stop_secs.min(grace) - grace);
    let decision = if stop > now {
        wait_until(stop, "the containers are stopping")
    } else {
        request(
            delete_with_grace(pod, Some(0)),
            "the containers have stopped",
        )
    };
    on_state(decision, events::stopping(cache, pod))
}

/// Starts a bound Pod after its start time.
fn run(
    cache: &ObjectCache,
    pod: &ObjectSnapshot,
    behaviour: PodBehaviour,
    now: Timestamp,
) -> ActorDecision {
    let mut conditions = pod.items("/status/conditions").iter();
    let scheduled = conditions.find(|known| known["type"] == "PodScheduled");
    let bound = scheduled.and_then(|known| time_at(&known["lastTransitionTime"]));
    let bound = bound.or_else(|| time_at(pod.at("/metadata/creationTimestamp")));
    let start = later(bound.unwrap_or(now), behaviour.start_secs);
    if start > now {
        let decision = wait_until(start, "the Pod is starting");
        return on_state(decision, events::pulling(cache, pod));
    }
    let address = address(pod);
    let node = cache.get(NODES, &NamespacedName::new("", pod.text("/spec/nodeName")));
    let host = node.map(node::address).unwrap_or_default();
    let mut status = ContainerState::running(now).status_of(pod, now);
    status["phase"] = "Running".into();
    status["startTime"] = time(now).into();
    if !host.is_empty() {
        status["hostIP"] = host.into();
        status["hostIPs"] = json!([{"ip": host}]);
    }
    status["podIP"] = address.as_str().into();
    status["podIPs"] = json!([{"ip": address}]);
    let decision = set_status(pod, &status, "the Pod starts");
    on_success(decision, events::started(cache, pod, behaviour.start_secs))
}

/// Finishes a running Pod after its run time, unless its containers are restarted.
fn finish(
    cache: &ObjectCache,
    pod: &ObjectSnapshot,
    behaviour: PodBehaviour,
    now: Timestamp,
) -> ActorDecision {
    let is_restarted = pod.text("/spec/restartPolicy") == "Always" && !behaviour.is_explicit;
    let started = time_at(pod.at("/status/startTime")).unwrap_or(now);
    let Some(run_secs) = behaviour.run_secs.filter(|_| !is_restarted) else {
        return rest("the Pod runs until it is deleted");
    };
    let may_restart = pod.text("/spec/restartPolicy") != "Never";
    if behaviour.outcome == PodOutcome::Crashing && may_restart {
        return restarts::crash(cache, pod, run_secs, now);
    }
    let over = later(started, run_secs);
    if over > now {
        return wait_until(over, "the Pod is running");
    }
    let (phase, code, reason) = match behaviour.outcome {
        PodOutcome::Succeeded => ("Succeeded", 0, "Completed"),
        PodOutcome::Failed | PodOutcome::Crashing => ("Failed", 1, "Error"),
    };
    let ended = json!({"terminated": {"exitCode": code, "reason": reason,
        "startedAt": time(started), "finishedAt": time(now)}});
    let ended = ContainerState {
        state: ended,
        readiness: ContainerReadiness::Ended(phase),
        ..ContainerState::running(started)
    };
    let mut status = ended.status_of(pod, now);
    status["phase"] = phase.into();
    set_status(pod, &status, "the Pod finishes")
}

/// An IP address derived from the uid of the Pod.
fn address(pod: &ObjectSnapshot) -> String {
    let [.., high, low] = hash(&pod.meta().uid.to_string()).to_be_bytes();
    format!("10.244.{high}.{low}")
}
