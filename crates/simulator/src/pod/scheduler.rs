//! Simulated scheduler: binds a Pod to a Node, and reports a Pod that no Node can take.
//!
//! A Pod goes to a Node that its selector and affinity select and whose taints it tolerates; requests, preferences and
//! affinity to other Pods are ignored. Messages are those of `pkg/scheduler`, 1.36.

use std::collections::BTreeMap;

use caretaker_controllers::runtime::call::ApiCall;
use caretaker_controllers::runtime::controller::EventNote;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::actor::{ActorDecision, request, rest, set_status};
use crate::cache::{ObjectCache, ObjectSnapshot};
use crate::events::{identity, on_success, reported_by};
use crate::node::{LABEL, NODES, is_fit};
use crate::objects::{hash, set_condition};
use crate::placement::{REPELLING, selects, tolerates, tolerates_cordon};

/// Names of the simulated schedulers. Pods with another scheduler wait for it.
const SCHEDULERS: [&str; 2] = ["default-scheduler", "volcano"];

/// Binds a Pod to a Node, chosen by the hash of its uid.
pub(super) fn bind(cache: &ObjectCache, pod: &ObjectSnapshot, now: Timestamp) -> ActorDecision {
    if !pod.items("/spec/schedulingGates").is_empty() {
        return rest("the Pod has scheduling gates");
    }
    let named = pod.text("/spec/schedulerName");
    let Some(scheduler) = SCHEDULERS.into_iter().find(|known| *known == named) else {
        return rest("the Pod has another scheduler");
    };
    let nodes: Vec<&ObjectSnapshot> = cache
        .all(NODES)
        .filter(|node| why_not(pod, node).is_none())
        .collect();
    let about = identity(cache, pod);
    if nodes.is_empty() {
        let message = no_node(cache, pod);
        let decision = unschedulable(pod, &message, now);
        let event = EventNote::warning(about, "FailedScheduling", message);
        return on_success(decision, [reported_by(scheduler, "", event)]);
    }
    let count = nodes.len() as u64;
    let chosen = usize::try_from(hash(&pod.meta().uid.to_string()) % count).unwrap_or(0);
    let (meta, node) = (pod.meta(), &*nodes[chosen].meta().name);
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": &*meta.name, "namespace": &*meta.namespace, "uid": meta.uid.to_string(),
            "resourceVersion": meta.revision.to_string()},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let call = ApiCall::Create {
        target: pod.target(),
        subresource: Some("binding"),
        object: binding,
    };
    let (namespace, name) = (&meta.namespace, &meta.name);
    let message = format!("Successfully assigned {namespace}/{name} to {node}");
    let event = EventNote::normal(about, "Scheduled", message);
    let decision = request(call, "the Pod is not bound");
    on_success(decision, [reported_by(scheduler, "", event)])
}

/// Writes the condition of a Pod that fits no Node. The times stay as they are while the message does.
fn unschedulable(pod: &ObjectSnapshot, message: &str, now: Timestamp) -> ActorDecision {
    let mut status = pod.at("/status").clone();
    let mut conditions = pod.items("/status/conditions").to_vec();
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": message, "lastProbeTime": null});
    set_condition(&mut conditions, condition, now);
    status["conditions"] = Value::Array(conditions);
    set_status(pod, &status, "no Node is available")
}

/// Why a Node does not take a Pod.
fn why_not(pod: &ObjectSnapshot, node: &ObjectSnapshot) -> Option<&'static str> {
    let spec = pod.at("/spec");
    // A real scheduler would leave a Node without the label out for a selector that the Pod has.
    if node.at("/metadata/labels")[LABEL] != "true" || !selects(spec, node) {
        Some("node(s) didn't match Pod's node affinity/selector")
    } else if !tolerates_cordon(spec, node) {
        Some("node(s) were unschedulable")
    } else if !is_fit(node) || !tolerates(spec, node, REPELLING) {
        Some("node(s) had untolerated taint(s)")
    } else {
        None
    }
}

fn no_node(cache: &ObjectCache, pod: &ObjectSnapshot) -> String {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in cache.all(NODES).filter_map(|node| why_not(pod, node)) {
        *reasons.entry(reason).or_default() += 1;
    }
    let all: usize = reasons.values().sum();
    if all == 0 {
        return "no nodes available to schedule pods".to_owned();
    }
    let mut reasons: Vec<String> = reasons
        .into_iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    reasons.sort();
    let reasons = reasons.join(", ");
    format!(
        "0/{all} nodes are available: {reasons}. no new claims to deallocate, preemption: 0/{all} nodes are \
         available: {all} Preemption is not helpful for scheduling."
    )
}
