//! Simulated Nodes that stay ready and renew their heartbeat. They have no kubelet.
//!
//! They register once, like a kubelet when it starts. If a user deletes a Node, it is not created again; if a user marks
//! it not ready, it stays not ready. Nodes of users that have the label and are ready get heartbeats, too.

use std::collections::BTreeSet;

use caretaker_controllers::runtime::call::{ApiCall, CallTarget};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::actor::{
    Actor, ActorDecision, NamespacedName, request, rest, retry, set_status, wait_until,
};
use crate::cache::{GroupResource, ObjectCache, ObjectSnapshot};
use crate::objects::{later, time, time_at};

/// Name of the first Node; the others have a number, from 2.
pub const NAME: &str = "simulated-node";
/// Has the value `true` on every Node whose Pods are simulated. Pods of other Nodes are left to their kubelets.
pub const LABEL: &str = "simulate.caretaker.dev/node";
/// The number of Nodes that can be asked for: every DaemonSet looks at all of them at each change.
pub const COUNT_MAX: u32 = 1_000;

pub(crate) const NODES: GroupResource = ("", "nodes");
/// Interval of heartbeats in the status; kubelet's, when nothing else changes. Leases are renewed more often.
const HEARTBEAT_SECS: i64 = 300;

/// Registers Nodes and renews their heartbeats.
#[derive(Debug)]
pub(crate) struct NodeActor {
    /// The number of Nodes to register.
    count: u32,
    /// Nodes that exist or have existed.
    registered: BTreeSet<Box<str>>,
}

// === impl NodeActor ===

impl NodeActor {
    pub(crate) fn new(count: u32) -> Self {
        Self {
            count: count.min(COUNT_MAX),
            registered: BTreeSet::new(),
        }
    }

    /// The number of the Node of this name, from 1.
    fn number(&self, name: &str) -> Option<u32> {
        (1..=self.count).find(|number| name_of(*number) == name)
    }
}

impl Actor for NodeActor {
    const NAME: &'static str = "simulated-nodes";
    const KINDS: &'static [GroupResource] = &[NODES];

    fn roots(&self) -> Vec<NamespacedName> {
        let names = (1..=self.count).map(name_of);
        names.map(|name| NamespacedName::new("", &name)).collect()
    }

    fn observe_own(&mut self, node: &ObjectSnapshot) {
        self.registered.insert(node.meta().name.clone());
    }

    fn absent(&self, cache: &ObjectCache, key: &NamespacedName, now: Timestamp) -> ActorDecision {
        let number = self.number(&key.name);
        let Some(number) = number.filter(|_| !self.registered.contains(&key.name)) else {
            return rest("the Node was deleted");
        };
        let Some((kind, _)) = cache.served(NODES) else {
            return retry("Nodes are not served");
        };
        let call = ApiCall::Create {
            target: CallTarget {
                kind,
                namespace: "".into(),
                name: key.name.clone(),
            },
            subresource: None,
            object: node(number, now),
        };
        request(call, "the Node registers")
    }

    fn decide(&self, _: &ObjectCache, node: &ObjectSnapshot, now: Timestamp) -> ActorDecision {
        if !is_fit(node) {
            return rest("the Node is not simulated or not ready");
        }
        let last = node.items("/status/conditions").iter();
        let last = last
            .filter(|known| known["type"] == "Ready")
            .find_map(|known| time_at(&known["lastHeartbeatTime"]));
        match last.map(|last| later(last, HEARTBEAT_SECS)) {
            Some(due) if due > now => wait_until(due, "the heartbeat is not due"),
            _ => {
                let mut status = node.at("/status").clone();
                let conditions = status["conditions"].as_array_mut();
                for condition in conditions.into_iter().flatten() {
                    condition["lastHeartbeatTime"] = time(now).into();
                }
                set_status(node, &status, "the heartbeat is due")
            }
        }
    }
}

/// The name of the Node with this number.
fn name_of(number: u32) -> String {
    match number {
        0 | 1 => NAME.to_owned(),
        number => format!("{NAME}-{number}"),
    }
}

/// Whether Pods on this Node are simulated: it has the label, is ready and is not being deleted.
pub(crate) fn is_fit(node: &ObjectSnapshot) -> bool {
    let labels = node.at("/metadata/labels");
    labels[LABEL] == "true" && node.is_true("Ready") && !node.is_deleting()
}

/// The address of a Node; empty if it has none.
pub(crate) fn address(node: &ObjectSnapshot) -> &str {
    let mut addresses = node.items("/status/addresses").iter();
    let internal = addresses.find(|known| known["type"] == "InternalIP");
    internal
        .and_then(|known| known["address"].as_str())
        .unwrap_or_default()
}

fn node(number: u32, now: Timestamp) -> Value {
    let (now, name) = (time(now), name_of(number));
    let address = format!("10.0.{}.{}", number / 256, number % 256);
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
            "name": name,
            "labels": {LABEL: "true", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64"},
        },
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
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
    fn nodes_register_and_renew_their_heartbeats() {
        let mut harness = ActorHarness::of(NodeActor::new(2));
        for (name, address) in [(NAME, "10.0.0.1"), ("simulated-node-2", "10.0.0.2")] {
            let key = NamespacedName::new("", name);
            let registered = decided(&harness.decide(&key, START));
            assert_eq!(
                (registered.verb, registered.name.as_str()),
                ("create", name)
            );
            let status = &registered.body["status"];
            assert_eq!(status["conditions"][3]["type"], "Ready");
            assert_eq!(status["addresses"][0]["address"], address);
            harness.answer(&key, registered.body);
            let due = later(START, HEARTBEAT_SECS);
            assert_eq!(harness.at(&key, START), Some(due));
            let beat = decided(&harness.decide(&key, due));
            assert_eq!(beat.verb, "patch");
            for condition in beat.body["status"]["conditions"].as_array().unwrap() {
                assert_eq!(condition["lastHeartbeatTime"], time(due));
                assert_eq!(condition["lastTransitionTime"], time(START));
            }
        }
        let third = NamespacedName::new("", "simulated-node-3");
        assert!(harness.is_resting(&third, START));
    }

    #[test]
    fn deleted_or_not_ready_node_stays_so() {
        let key = NamespacedName::new("", NAME);
        let mut harness = ActorHarness::of(NodeActor::new(1));
        harness.applied(NODES, node(1, START));
        harness.deleted(NODES, &key);
        assert!(harness.is_resting(&key, later(START, 1000)));
        let mut tired = node(1, START);
        tired["status"]["conditions"][3]["status"] = "False".into();
        harness.applied(NODES, tired);
        assert!(harness.is_resting(&key, later(START, 1000)));
    }
}
