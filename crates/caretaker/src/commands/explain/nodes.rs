//! The Pods that are bound to a Node. They are no dependents: Pod GC deletes them some time after the Node.

use std::collections::BTreeMap;

use caretaker_controllers::podgc;
use caretaker_controllers::runtime::controller::{ObjectIdentity, ObservedChange};
use caretaker_controllers::runtime::kind::KindState;
use caretaker_controllers::runtime::record::{ObjectRecord, Uid};

use super::super::ClusterSnapshot;
use super::content;

impl ClusterSnapshot {
    /// Sorted by namespace and name; `None` for other kinds.
    pub(super) async fn pods_of_node(
        &mut self,
        node: &ObjectRecord,
    ) -> Option<Vec<ObjectIdentity>> {
        let kind = self.catalog.get(node.kind)?;
        if (&*kind.group, &*kind.resource) != ("", "nodes") {
            return None;
        }
        let pods = self.catalog.id("", "pods")?;
        let mut bound: BTreeMap<Uid, ObjectIdentity> = BTreeMap::new();
        let observe = |change: &ObservedChange| match change {
            ObservedChange::Applied(pod) if pod.kind == pods => {
                if content(pod)["spec"]["nodeName"] == *node.meta.name {
                    bound.insert(pod.meta.uid.clone(), pod_identity(pod));
                }
                false
            }
            ObservedChange::Deleted(pod) => {
                bound.remove(&pod.meta.uid);
                false
            }
            ObservedChange::Kind(kind, state) => {
                *kind == pods && !matches!(state, KindState::Syncing(_))
            }
            _ => false,
        };
        self.feed(podgc::interest(), observe).await;
        let mut bound: Vec<ObjectIdentity> = bound.into_values().collect();
        bound.sort();
        Some(bound)
    }
}

fn pod_identity(pod: &ObjectRecord) -> ObjectIdentity {
    ObjectIdentity {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: pod.meta.namespace.to_string(),
        name: pod.meta.name.to_string(),
        uid: pod.meta.uid.to_string(),
    }
}
