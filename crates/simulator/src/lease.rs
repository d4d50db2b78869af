//! Leases of simulated Nodes: the heartbeats that kubelets renew in the namespace `kube-node-lease`.
//!
//! A Node that is deleted or not ready renews nothing. Mirrors `component-helpers/apimachinery/lease`, 1.36.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::actor::{Actor, ActorDecision, NamespacedName, request, rest, retry, wait_until};
use crate::cache::{GroupResource, ObjectCache, ObjectSnapshot};
use crate::node::{NODES, is_fit};
use crate::objects::{create_at, later, merge, reference, time_at};

const LEASES: GroupResource = ("coordination.k8s.io", "leases");
const NAMESPACE: &str = "kube-node-lease";
/// A Lease is valid for as many intervals; kubelet's.
const INTERVALS_VALID: i64 = 4;

/// Renews the Leases of simulated Nodes.
#[derive(Debug)]
pub(crate) struct LeaseActor {
    interval_secs: i64,
}

// === impl LeaseActor ===

impl LeaseActor {
    pub(crate) fn new(interval_secs: u32) -> Self {
        Self {
            interval_secs: i64::from(interval_secs.max(1)),
        }
    }

    /// The Lease of a Node at a time.
    fn spec(&self, node: &ObjectSnapshot, now: Timestamp) -> Value {
        let secs = self.interval_secs.saturating_mul(INTERVALS_VALID);
        json!({"holderIdentity": &*node.meta().name, "leaseDurationSeconds": secs,
            "renewTime": micro_time(now)})
    }

    fn create(&self, cache: &ObjectCache, node: &ObjectSnapshot, now: Timestamp) -> ActorDecision {
        let mut lease = json!({"spec": self.spec(node, now)});
        if let Some(Value::Object(mut owner)) = reference(cache, node) {
            owner.retain(|name, _| !matches!(name.as_str(), "controller" | "blockOwnerDeletion"));
            lease["metadata"]["ownerReferences"] = json!([owner]);
        }
        let key = lease_of(node);
        create_at(cache, LEASES, &key, lease).map_or_else(
            || retry("leases are not served"),
            |call| request(call, "the Node has no Lease"),
        )
    }
}

impl Actor for LeaseActor {
    const NAME: &'static str = "simulated-leases";
    const KINDS: &'static [GroupResource] = &[NODES, LEASES];

    fn decide(&self, cache: &ObjectCache, node: &ObjectSnapshot, now: Timestamp) -> ActorDecision {
        if !is_fit(node) {
            return rest("the Node is not simulated or not ready");
        }
        let Some(lease) = cache.get(LEASES, &lease_of(node)) else {
            return self.create(cache, node, now);
        };
        let renewed = time_at(lease.at("/spec/renewTime"));
        match renewed.map(|renewed| later(renewed, self.interval_secs)) {
            Some(due) if due > now => wait_until(due, "the Lease is fresh"),
            _ if lease.is_stale() => rest("waiting for the watch to show the Lease"),
            _ => {
                let patch = json!({"spec": self.spec(node, now)});
                request(merge(lease, patch), "the Lease is renewed")
            }
        }
    }

    /// A Lease matters to the Node of its name only if it is gone: the actor changes it by itself.
    fn affected(&self, cache: &ObjectCache, object: &ObjectSnapshot) -> Vec<NamespacedName> {
        let key = object.key();
        let is_gone = cache.get(LEASES, &key).is_none();
        let is_own = *key.namespace == *NAMESPACE && is_gone;
        is_own
            .then(|| NamespacedName::new("", &key.name))
            .into_iter()
            .collect()
    }
}

fn lease_of(node: &ObjectSnapshot) -> NamespacedName {
    NamespacedName::new(NAMESPACE, &node.meta().name)
}

/// A time with microseconds, as Leases have it.
fn micro_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{ActorHarness, START, decided};

    fn mk_node(ready: &str) -> Value {
        json!({"metadata": {"name": "a", "labels": {crate::node::LABEL: "true"}},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}})
    }

    #[test]
    fn lease_is_created_and_renewed_while_the_node_is_ready() {
        let key = NamespacedName::new("", "a");
        let mut harness = ActorHarness::of(LeaseActor::new(10));
        harness.applied(NODES, mk_node("True"));
        let created = decided(&harness.decide(&key, START));
        assert_eq!((created.verb, created.name.as_str()), ("create", "a"));
        let (meta, spec) = (&created.body["metadata"], &created.body["spec"]);
        assert_eq!(meta["namespace"], NAMESPACE);
        assert_eq!(
            meta["ownerReferences"],
            json!([{"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "uid-of-a"}])
        );
        assert_eq!(
            *spec,
            json!({"holderIdentity": "a", "leaseDurationSeconds": 40,
                "renewTime": "2026-01-01T00:00:00.000000Z"})
        );
        harness.answer(&key, created.body);
        let due = later(START, 10);
        assert_eq!(harness.at(&key, START), Some(due));
        let renewed = decided(&harness.decide(&key, due));
        assert_eq!(renewed.verb, "patch");
        assert_eq!(
            renewed.body["spec"]["renewTime"],
            "2026-01-01T00:00:10.000000Z"
        );
        harness.applied(NODES, mk_node("Unknown"));
        assert!(harness.is_resting(&key, due));
    }
}
