//! The status of a Pod whose containers are all in one state.
//!
//! The API server resizes only containers whose status shows resources: upstream takes others for containers of a kubelet
//! that cannot resize. Init containers have run and ended before; sidecars among them live like the other containers.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::cache::ObjectSnapshot;
use crate::objects::{set_condition, time};

/// The state of all containers of a Pod.
pub(super) struct ContainerState {
    pub(super) state: Value,
    /// The state before their last restart; null if there was none.
    pub(super) last: Value,
    pub(super) restarts: i64,
    pub(super) readiness: ContainerReadiness,
}

/// Readiness of the containers of a Pod.
#[derive(Clone, Copy)]
pub(super) enum ContainerReadiness {
    Ready,
    /// They wait to be restarted.
    Waiting,
    /// They have ended, and the Pod is in this phase.
    Ended(&'static str),
}

// === impl ContainerState ===

impl ContainerState {
    /// Containers that started at a time.
    pub(super) fn running(at: Timestamp) -> Self {
        Self {
            state: json!({"running": {"startedAt": time(at)}}),
            last: Value::Null,
            restarts: 0,
            readiness: ContainerReadiness::Ready,
        }
    }

    /// The status of the Pod with its containers in this state.
    pub(super) fn status_of(&self, pod: &ObjectSnapshot, now: Timestamp) -> Value {
        let mut status = pod.at("/status").clone();
        let containers = pod.items("/spec/containers").iter();
        status["containerStatuses"] = containers.map(|container| self.of(container)).collect();
        let initial = pod.items("/spec/initContainers");
        if !initial.is_empty() {
            let known = pod.items("/status/initContainerStatuses");
            let initial = initial.iter().enumerate().map(|(place, container)| {
                match (container["restartPolicy"] == "Always", known.get(place)) {
                    (true, _) => self.of(container),
                    (false, Some(known)) => known.clone(),
                    (false, None) => completed(container, now),
                }
            });
            status["initContainerStatuses"] = initial.collect();
        }
        status["conditions"] = self.conditions(pod, now).into();
        note_generation(&mut status, pod);
        status
    }

    fn of(&self, container: &Value) -> Value {
        let is_ready = matches!(self.readiness, ContainerReadiness::Ready);
        let mut status = json!({"name": container["name"], "image": container["image"], "imageID": "",
            "restartCount": self.restarts, "ready": is_ready, "started": is_ready, "state": self.state});
        if !matches!(self.readiness, ContainerReadiness::Ended(_)) {
            allot(&mut status, container);
        }
        if !self.last.is_null() {
            status["lastState"] = self.last.clone();
        }
        status
    }

    fn conditions(&self, pod: &ObjectSnapshot, now: Timestamp) -> Vec<Value> {
        let mut conditions = pod.items("/status/conditions").to_vec();
        let names = pod.items("/spec/containers").iter();
        let names: Vec<&str> = names
            .filter_map(|container| container["name"].as_str())
            .collect();
        for of in ["Initialized", "Ready", "ContainersReady"] {
            let condition = match self.readiness {
                ContainerReadiness::Ended(phase) if of != "Initialized" => {
                    let reason = format!("Pod{}", phase.replace("Succeeded", "Completed"));
                    json!({"type": of, "status": "False", "reason": reason})
                }
                ContainerReadiness::Waiting if of != "Initialized" => {
                    let message = format!("containers with unready status: [{}]", names.join(" "));
                    json!({"type": of, "status": "False", "reason": "ContainersNotReady", "message": message})
                }
                _ => json!({"type": of, "status": "True"}),
            };
            // A condition that is true again has no reason.
            let known = conditions.iter_mut().find(|known| known["type"] == of);
            if let Some(known) = known.and_then(Value::as_object_mut) {
                known.retain(|name, _| !matches!(name.as_str(), "reason" | "message"));
            }
            set_condition(&mut conditions, condition, now);
        }
        // The API server stores null here; a patch without it would look like a change.
        conditions
            .iter_mut()
            .for_each(|known| known["lastProbeTime"] = Value::Null);
        conditions
    }
}

/// The status of a running Pod that follows a change of its spec: resized containers, new ephemeral containers, the
/// generation. `None` if it follows already.
pub(super) fn following_spec(pod: &ObjectSnapshot, now: Timestamp) -> Option<Value> {
    let mut status = pod.at("/status").clone();
    for (list, specs) in [
        ("containerStatuses", "/spec/containers"),
        ("initContainerStatuses", "/spec/initContainers"),
    ] {
        let known = status.get_mut(list).and_then(Value::as_array_mut);
        for known in known.into_iter().flatten() {
            let mut specs = pod.items(specs).iter();
            let spec = specs.find(|spec| spec["name"] == known["name"]);
            if let Some(spec) = spec.filter(|_| !known["state"]["running"].is_null()) {
                allot(known, spec);
            }
        }
    }
    let known = pod.items("/status/ephemeralContainerStatuses");
    let is_new = |spec: &&Value| !known.iter().any(|known| known["name"] == spec["name"]);
    let specs = pod.items("/spec/ephemeralContainers").iter();
    let started: Vec<Value> = specs
        .filter(is_new)
        .map(|spec| attached(spec, now))
        .collect();
    if !started.is_empty() {
        status["ephemeralContainerStatuses"] = known.iter().cloned().chain(started).collect();
    }
    note_generation(&mut status, pod);
    (status != *pod.at("/status")).then_some(status)
}

/// Notes the spec that the status is about.
fn note_generation(status: &mut Value, pod: &ObjectSnapshot) {
    let generation = pod.at("/metadata/generation");
    if !generation.is_null() {
        status["observedGeneration"] = generation.clone();
    }
}

/// Shows the resources of a container's spec as the ones that it got.
fn allot(status: &mut Value, container: &Value) {
    let resources = &container["resources"];
    let part = |name: &str| Some((name.to_owned(), resources.get(name)?.clone()));
    let shown: Map<String, Value> = ["limits", "requests"]
        .into_iter()
        .filter_map(part)
        .collect();
    if let Some(requests) = shown.get("requests") {
        status["allocatedResources"] = requests.clone();
    }
    status["resources"] = shown.into();
}

/// The status of an ephemeral container that has started. It has no readiness.
fn attached(container: &Value, now: Timestamp) -> Value {
    json!({"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0,
        "ready": false, "state": {"running": {"startedAt": time(now)}}})
}

/// The status of an init container that has run.
fn completed(container: &Value, now: Timestamp) -> Value {
    let ended = json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": time(now),
        "finishedAt": time(now)}});
    json!({"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0,
        "ready": true, "started": false, "state": ended})
}
