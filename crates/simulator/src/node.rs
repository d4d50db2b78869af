//! One simulated Node that stays ready and renews its heartbeat. It has no kubelet.
//!
//! It registers once, like a kubelet when it starts. If a user deletes the Node, it is not created again; if a user marks
//! it not ready, it stays not ready.

use caretaker_controllers::runtime::call::{ApiCall, CallTarget};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::actor::{
    Actor, ActorDecision, NamespacedName, request, rest, retry, set_status, wait_until,
};
use crate::cache::{GroupResource, ObjectCache, ObjectSnapshot};
use crate::objects::{later, time, time_at};

/// Name of the Node.
pub const NAME: &str = "simulated-node";
/// Has the value `true` on every Node whose Pods are simulated. Pods of other Nodes are left to their kubelets.
pub const LABEL: &str = "simulate.caretaker.dev/node";

pub(crate) const NODES: GroupResource = ("", "nodes");
/// Interval of heartbeats; kubelet's, when nothing else changes.
const HEARTBEAT_SECS: i64 = 300;

/// Registers the Node and renews its heartbeat.
#[derive(Debug, Default)]
pub(crate) struct NodeActor {
    /// The Node exists or has existed.
    is_registered: bool,
}

// === impl NodeActor ===

impl Actor for NodeActor {
    const NAME: &'static str = "simulated-nodes";
    const KINDS: &'static [GroupResource] = &[NODES];

    fn roots(&self) -> Vec<NamespacedName> {
        vec![NamespacedName::new("", NAME)]
    }

    fn observe_own(&mut self, node: &ObjectSnapshot) {
        self.is_registered |= *node.meta().name == *NAME;
    }

    fn absent(&self, cache: &ObjectCache, key: &NamespacedName, now: Timestamp) -> ActorDecision {
        if self.is_registered || *key.name != *NAME {
            return rest("the Node was deleted");
        }
        let Some((kind, _)) = cache.served(NODES) else {
            return retry("Nodes are not served");
        };
        let call = ApiCall::Create {
            target: CallTarget {
                kind,
                namespace: "".into(),
                name: NAME.into(),
            },
            subresource: None,
            object: node(now),
        };
        request(call, "the Node registers")
    }

    fn decide(&self, _: &ObjectCache, node: &ObjectSnapshot, now: Timestamp) -> ActorDecision {
        if *node.meta().name != *NAME || !is_fit(node) {
            return rest("the Node is not simulated or not ready");
        }
        let mut status = node.at("/status").clone();
        let Some(ready) = ready(&mut status) else {
            return rest("the Node has no Ready condition");
        };
        let due = time_at(&ready["lastHeartbeatTime"]).map(|last| later(last, HEARTBEAT_SECS));
        match due {
            Some(due) if due > now => wait_until(due, "the heartbeat is not due"),
            _ => {
                ready["lastHeartbeatTime"] = time(now).into();
                set_status(node, &status, "the heartbeat is due")
            }
        }
    }
}

/// Whether Pods on this Node are simulated: it has the label, is ready and is not being deleted.
pub(crate) fn is_fit(node: &ObjectSnapshot) -> bool {
    let labels = node.at("/metadata/labels");
    labels[LABEL] == "true" && node.is_true("Ready") && !node.is_deleting()
}

fn ready(status: &mut Value) -> Option<&mut Value> {
    let conditions = status["conditions"].as_array_mut()?;
    conditions.iter_mut().find(|known| known["type"] == "Ready")
}

fn node(now: Timestamp) -> Value {
    let now = time(now);
    let condition = |of: &str, status: &str, reason: &str| {
        json!({"type": of, "status": status, "reason": reason, "message": "simulated: no kubelet runs",
            "lastHeartbeatTime": now, "lastTransitionTime": now})
    };
    let amounts =
        json!({"cpu": "64", "memory": "256Gi", "pods": "10000", "ephemeral-storage": "1Ti"});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": NAME,
            "labels": {LABEL: "true", "kubernetes.io/hostname": NAME, "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64"},
        },
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": NAME}],
            "conditions": [
                condition("MemoryPressure", "False", "Simulated"),
                condition("DiskPressure", "False", "Simulated"),
                condition("PIDPressure", "False", "Simulated"),
                condition("Ready", "True", "Simulated"),
            ],
            "nodeInfo": {"architecture": "amd64", "bootID": "", "containerRuntimeVersion": "simulated://0",
                "kernelVersion": "simulated", "kubeProxyVersion": "", "kubeletVersion": "simulated", "machineID": "",
                "operatingSystem": "linux", "osImage": "simulated", "systemUUID": ""},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{ActorHarness, START, decided};

    #[test]
    fn node_registers_and_renews_its_heartbeat() {
        let mut harness = ActorHarness::of(NodeActor::default());
        let key = NamespacedName::new("", NAME);
        let registered = decided(&harness.decide(&key, START));
        assert_eq!(registered.verb, "create");
        assert_eq!(registered.body["status"]["conditions"][3]["type"], "Ready");
        harness.answer(&key, registered.body);
        let due = later(START, HEARTBEAT_SECS);
        assert_eq!(harness.at(&key, START), Some(due));
        let beat = decided(&harness.decide(&key, due));
        assert_eq!(beat.verb, "patch");
        let conditions = &beat.body["status"]["conditions"];
        assert_eq!(conditions[3]["lastHeartbeatTime"], time(due));
        assert_eq!(conditions[3]["lastTransitionTime"], time(START));
    }

    #[test]
    fn deleted_or_not_ready_node_stays_so() {
        let key = NamespacedName::new("", NAME);
        let mut harness = ActorHarness::of(NodeActor::default());
        harness.applied(NODES, node(START));
        harness.deleted(NODES, &key);
        assert!(harness.is_resting(&key, later(START, 1000)));
        let mut tired = node(START);
        tired["status"]["conditions"][3]["status"] = "False".into();
        harness.applied(NODES, tired);
        assert!(harness.is_resting(&key, later(START, 1000)));
    }
}
