//! One Node that is ready, and says so again every few minutes. It has no kubelet: nothing can run on it.
//!
//! It registers once, as a kubelet does when it starts: who deletes it wants it gone, and it stays gone. A Node that
//! somebody has marked not ready stays so, too.

use caretaker_controllers::runtime::call::{Call, Target};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::actor::{Actor, Decision, Key, ask, at, rest, retry};
use crate::objects::{later, time, time_at, write_status};
use crate::world::{Named, Object, World};

/// What the Node is called.
pub const NAME: &str = "simulated-node";
/// Bears the value `true` on every Node whose Pods are simulated; others are left to their kubelets.
pub const LABEL: &str = "simulate.caretaker.dev/node";

pub(crate) const NODES: Named = ("", "nodes");
/// Between two heartbeats: kubelet's, when nothing else changes.
const HEARTBEAT_SECS: i64 = 300;

/// The Node.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    /// It exists, or did.
    is_registered: bool,
}

// === impl Nodes ===

impl Actor for Nodes {
    const NAME: &'static str = "simulated-nodes";
    const KINDS: &'static [Named] = &[NODES];

    fn roots(&self) -> Vec<Key> {
        vec![Key::new("", NAME)]
    }

    fn note(&mut self, node: &Object) {
        self.is_registered |= *node.meta().name == *NAME;
    }

    fn absent(&self, world: &World, key: &Key, now: Timestamp) -> Decision {
        if self.is_registered || *key.name != *NAME {
            return rest("it was deleted");
        }
        let Some((kind, _)) = world.served(NODES) else {
            return retry("there are no Nodes here");
        };
        let call = Call::Create {
            target: Target {
                kind,
                namespace: "".into(),
                name: NAME.into(),
            },
            subresource: None,
            object: node(now),
        };
        ask(call, "a Node registers")
    }

    fn decide(&self, _: &World, node: &Object, now: Timestamp) -> Decision {
        if *node.meta().name != *NAME || !is_fit(node) {
            return rest("nothing to say about it");
        }
        let mut status = node.at("/status").clone();
        let Some(ready) = ready(&mut status) else {
            return rest("it says nothing about being ready");
        };
        let due = time_at(&ready["lastHeartbeatTime"]).map(|last| later(last, HEARTBEAT_SECS));
        match due {
            Some(due) if due > now => at(due, "it has said that it is ready"),
            _ => {
                ready["lastHeartbeatTime"] = time(now).into();
                let heartbeat = write_status(node, &status);
                heartbeat.map_or_else(
                    || retry("its clock stands still"),
                    |call| ask(call, "a Node is still ready"),
                )
            }
        }
    }
}

/// Whether Pods on this Node are simulated: it is one of ours, alive and ready.
pub(crate) fn is_fit(node: &Object) -> bool {
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
    use crate::tests::{START, Stage, decided};

    #[test]
    fn a_node_registers_once_and_tells_from_time_to_time_that_it_is_ready() {
        let mut stage = Stage::of(Nodes::default());
        let key = Key::new("", NAME);
        let registered = decided(&stage.decide(&key, START));
        assert_eq!(registered.verb, "create");
        assert_eq!(registered.body["status"]["conditions"][3]["type"], "Ready");
        stage.answer(&key, registered.body);
        let due = later(START, HEARTBEAT_SECS);
        assert_eq!(stage.at(&key, START), Some(due));
        let beat = decided(&stage.decide(&key, due));
        assert_eq!(beat.verb, "patch");
        let conditions = &beat.body["status"]["conditions"];
        assert_eq!(conditions[3]["lastHeartbeatTime"], time(due));
        assert_eq!(conditions[3]["lastTransitionTime"], time(START));
    }

    #[test]
    fn who_deletes_the_node_or_marks_it_not_ready_has_the_last_word() {
        let key = Key::new("", NAME);
        let mut stage = Stage::of(Nodes::default());
        stage.applied(NODES, node(START));
        stage.deleted(NODES, &key);
        assert!(stage.is_resting(&key, later(START, 1000)));
        let mut tired = node(START);
        tired["status"]["conditions"][3]["status"] = "False".into();
        stage.applied(NODES, tired);
        assert!(stage.is_resting(&key, later(START, 1000)));
    }
}
