//! The Nodes of a DaemonSet, and the Pod that a Node gets: bound to it by its affinity, with tolerations for Nodes that
//! have problems.

use serde_json::{Value, json};

use super::{DaemonNode, DaemonPods};
use crate::actor::ActorDecision;
use crate::cache::ObjectSnapshot;
use crate::placement::{EVICTING, REPELLING, selects, tolerates};
use crate::pod::make_pod_of;
use crate::revisions::REVISION_LABEL;

/// Label of a Pod with the number of its template; the API server counts them in an annotation of the DaemonSet.
pub(super) const GENERATION_LABEL: &str = "pod-template-generation";
/// Taints that Pods of DaemonSets tolerate: upstream's, in its order.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// Another one, for Pods in the network of their Node.
const TOLERATED_BY_HOST_NETWORK: (&str, &str) =
    ("node.kubernetes.io/network-unavailable", "NoSchedule");

impl DaemonPods<'_> {
    /// Creates the Pod of a Node.
    pub(super) fn create(&self, node: &ObjectSnapshot) -> ActorDecision {
        let mut template = self.set.at("/spec/template").clone();
        let mut spec = self.spec.clone();
        spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!({
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In",
                "values": [&*node.meta().name]}]}]});
        template["spec"] = spec;
        let labels = &mut template["metadata"]["labels"];
        labels[REVISION_LABEL] = self.hash().into();
        if let Some(generation) = self.template_generation() {
            labels[GENERATION_LABEL] = generation.into();
        }
        make_pod_of(self.cache, self.set, &template)
    }
}

/// Whether a Node may have a Pod with this spec.
pub(super) fn judge<'a>(spec: &Value, node: &'a ObjectSnapshot) -> DaemonNode<'a> {
    let named = spec["nodeName"].as_str().unwrap_or_default();
    let is_selected = (named.is_empty() || named == &*node.meta().name) && selects(spec, node);
    DaemonNode {
        node,
        may_start: is_selected && tolerates(spec, node, REPELLING),
        may_stay: is_selected && tolerates(spec, node, EVICTING),
    }
}

/// The spec of the template with the tolerations of all Pods of DaemonSets.
pub(super) fn spec(set: &ObjectSnapshot) -> Value {
    let mut spec = set.at("/spec/template/spec").clone();
    let mut tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    let network = (spec["hostNetwork"] == true).then_some(TOLERATED_BY_HOST_NETWORK);
    for (key, effect) in TOLERATED.into_iter().chain(network) {
        let toleration = json!({"key": key, "operator": "Exists", "effect": effect});
        // One of the template for the same taint is replaced.
        let is_same = |known: &&mut Value| {
            known["key"] == key && known["effect"] == effect && known["operator"] == "Exists"
        };
        match tolerations.iter_mut().find(is_same) {
            Some(known) => *known = toleration,
            None => tolerations.push(toleration),
        }
    }
    spec["tolerations"] = tolerations.into();
    spec
}
