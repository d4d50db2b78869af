//! Simulated controller of DaemonSets: one Pod on each Node that its template selects and tolerates.
//!
//! - `nodes`: which Nodes are eligible, and the Pod of a Node.
//! - `rolling`: which Pods a rolling update replaces.
//! - `status`: counts.
//!
//! Mirrors `pkg/controller/daemon`, 1.36. It adopts no Pods, and deletes a Pod that failed without a back-off: a simulated
//! Pod runs for seconds before it fails.

mod nodes;
mod rolling;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use caretaker_controllers::runtime::controller::EventNote;
use jiff::Timestamp;
use serde_json::Value;

use crate::actor::{Actor, ActorDecision, NamespacedName, owner_key, request, rest};
use crate::availability::AvailabilityRule;
use crate::cache::{GroupResource, ObjectCache, ObjectSnapshot};
use crate::events::{identity, on_state, on_success, pod_deleted};
use crate::node::NODES;
use crate::objects::{delete, label, time_at, write_status};
use crate::placement::pinned_node;
use crate::pod::{PODS, has_ended};
use crate::revisions::{CONTROLLER_REVISIONS, OF_DAEMON_SETS, REVISION_LABEL, RevisionHistory};

const DAEMON_SETS: GroupResource = ("apps", "daemonsets");

/// Simulates the controller of DaemonSets.
#[derive(Debug)]
pub(crate) struct DaemonSetActor;

/// A DaemonSet with the Nodes and its Pods at one time.
struct DaemonPods<'a> {
    cache: &'a ObjectCache,
    set: &'a ObjectSnapshot,
    history: RevisionHistory<'a>,
    /// The revision of the present template.
    update: &'a ObjectSnapshot,
    /// The spec of a new Pod, without the affinity to its Node.
    spec: Value,
    nodes: BTreeMap<&'a str, DaemonNode<'a>>,
    /// By the Node that they are on or meant for; bound and old ones first.
    pods: BTreeMap<&'a str, Vec<&'a ObjectSnapshot>>,
    rule: AvailabilityRule,
}

/// A Node, and whether it may have a Pod of a DaemonSet.
struct DaemonNode<'a> {
    node: &'a ObjectSnapshot,
    /// A Pod may be created for it.
    may_start: bool,
    /// A Pod that is there may stay.
    may_stay: bool,
}

// === impl DaemonSetActor ===

impl Actor for DaemonSetActor {
    const NAME: &'static str = "simulated-daemonsets";
    const REPORTER: &'static str = "daemonset-controller";
    const KINDS: &'static [GroupResource] = &[DAEMON_SETS, PODS, CONTROLLER_REVISIONS, NODES];

    fn decide(&self, cache: &ObjectCache, set: &ObjectSnapshot, now: Timestamp) -> ActorDecision {
        if set.is_deleting() {
            return rest("the DaemonSet is being deleted");
        }
        let history = RevisionHistory::of(cache, set);
        match history.present(&OF_DAEMON_SETS) {
            Err(decision) => decision,
            Ok(update) => {
                let spec = nodes::spec(set);
                let nodes = cache.all(NODES).map(|node| {
                    let judged = nodes::judge(&spec, node);
                    (&*node.meta().name, judged)
                });
                DaemonPods {
                    cache,
                    set,
                    history,
                    update,
                    nodes: nodes.collect(),
                    spec,
                    pods: pods_by_node(cache, set),
                    rule: AvailabilityRule::of(set, now),
                }
                .decide()
            }
        }
    }

    /// A Node matters to all DaemonSets.
    fn affected(&self, cache: &ObjectCache, object: &ObjectSnapshot) -> Vec<NamespacedName> {
        match cache.served(NODES).map(|(id, _)| id) == Some(object.kind()) {
            true => cache.all(DAEMON_SETS).map(ObjectSnapshot::key).collect(),
            false => owner_key(object).into_iter().collect(),
        }
    }
}

/// The Pods of a DaemonSet by Node, without those that have ended and are being deleted.
fn pods_by_node<'a>(
    cache: &'a ObjectCache,
    set: &ObjectSnapshot,
) -> BTreeMap<&'a str, Vec<&'a ObjectSnapshot>> {
    let mut by_node: BTreeMap<&str, Vec<&ObjectSnapshot>> = BTreeMap::new();
    let own = cache.controlled_by(set, PODS);
    for pod in own.filter(|pod| !(has_ended(pod) && pod.is_deleting())) {
        let bound = Some(pod.text("/spec/nodeName")).filter(|node| !node.is_empty());
        if let Some(node) = bound.or_else(|| pinned_node(pod)) {
            by_node.entry(node).or_default().push(pod);
        }
    }
    for pods in by_node.values_mut() {
        pods.sort_by_key(|pod| {
            let is_unbound = pod.text("/spec/nodeName").is_empty();
            let created = time_at(pod.at("/metadata/creationTimestamp"));
            (is_unbound, created, pod.key())
        });
    }
    by_node
}

// === impl DaemonPods ===

impl<'a> DaemonPods<'a> {
    /// The first step that has something to write; then old revisions and the status.
    fn decide(&self) -> ActorDecision {
        let steps = self.nodes.values().find_map(|node| self.manage(node));
        let step = steps
            .or_else(|| self.delete_lost())
            .or_else(|| self.roll())
            .or_else(|| self.forget_revision());
        if let Some(decision) = step {
            return decision;
        }
        match write_status(self.set, &self.status()) {
            Some(call) => request(call, "the status does not match the Pods"),
            None => {
                let pods = self.pods.values().flatten().copied();
                self.rule.wait_for(pods, "Pods and status are up to date")
            }
        }
    }

    /// Brings the Pods of one Node to the wanted number.
    fn manage(&self, on: &DaemonNode<'_>) -> Option<ActorDecision> {
        let node = on.node;
        let pods = self.pods_on(&node.meta().name);
        if pods.is_empty() {
            return on.may_start.then(|| self.create(node));
        }
        let alive = pods.iter().copied().filter(|pod| !pod.is_deleting());
        let alive: Vec<&ObjectSnapshot> = alive.collect();
        if !on.may_stay {
            return alive.first().map(|pod| self.delete(pod));
        }
        if let Some(ended) = alive.iter().find(|pod| has_ended(pod)) {
            return Some(self.delete_ended(ended, node));
        }
        if !self.allows_surge() {
            return alive.get(1).map(|pod| self.delete(pod));
        }
        match alive.is_empty() {
            true => on.may_start.then(|| self.create(node)),
            false => self.delete_surged(&alive),
        }
    }

    /// Where Pods may surge, a Node keeps the oldest Pod of the present revision and the oldest of another one, until one
    /// makes the other superfluous.
    fn delete_surged(&self, alive: &[&ObjectSnapshot]) -> Option<ActorDecision> {
        let of = |is_updated: bool| {
            let pods = alive.iter().copied();
            pods.filter(move |pod| self.is_updated(pod) == is_updated)
        };
        if let Some(excess) = of(true).nth(1).or_else(|| of(false).nth(1)) {
            return Some(self.delete(excess));
        }
        let (new, old) = (of(true).next()?, of(false).next()?);
        let is_replaced = !old.is_true("Ready") || self.rule.is_available(new);
        is_replaced.then(|| self.delete(old))
    }

    /// Deletes a Pod that waits for a Node that does not exist.
    fn delete_lost(&self) -> Option<ActorDecision> {
        let mut lost = self
            .pods
            .iter()
            .filter(|(node, _)| !self.nodes.contains_key(*node));
        let waits =
            |pod: &&&ObjectSnapshot| pod.text("/spec/nodeName").is_empty() && !pod.is_deleting();
        let pod = lost.find_map(|(_, pods)| pods.iter().find(waits));
        pod.map(|pod| self.delete(pod))
    }

    fn forget_revision(&self) -> Option<ActorDecision> {
        self.history.truncate(|known| {
            let hash = label(known, REVISION_LABEL);
            let mut pods = self.cache.controlled_by(self.set, PODS);
            known.meta().uid == self.update.meta().uid
                || pods.any(|pod| label(pod, REVISION_LABEL) == hash)
        })
    }

    fn delete(&self, pod: &ObjectSnapshot) -> ActorDecision {
        let decision = request(delete(pod), "the Node has a Pod too many");
        let event = pod_deleted(self.cache, self.set, &pod.meta().name);
        on_success(decision, [event])
    }

    fn delete_ended(&self, pod: &ObjectSnapshot, node: &ObjectSnapshot) -> ActorDecision {
        let (meta, node) = (pod.meta(), &node.meta().name);
        let place = format!("{}/{} on node {node}", meta.namespace, meta.name);
        let about = identity(self.cache, self.set);
        let event = if pod.text("/status/phase") == "Failed" {
            let message = format!("Found failed daemon pod {place}, will try to kill it");
            EventNote::warning(about, "FailedDaemonPod", message)
        } else {
            let message = format!("Found succeeded daemon pod {place}, will try to delete it");
            EventNote::normal(about, "SucceededDaemonPod", message)
        };
        on_state(self.delete(pod), [event])
    }

    fn pods_on(&self, node: &str) -> &[&'a ObjectSnapshot] {
        self.pods.get(node).map_or(&[], Vec::as_slice)
    }

    fn hash(&self) -> &str {
        label(self.update, REVISION_LABEL)
    }

    /// Whether a Pod is of the present template.
    fn is_updated(&self, pod: &ObjectSnapshot) -> bool {
        let generation = self.template_generation();
        label(pod, REVISION_LABEL) == self.hash()
            || generation.is_some_and(|is| label(pod, nodes::GENERATION_LABEL) == is)
    }

    /// The counter of templates in an annotation that the API server maintains.
    fn template_generation(&self) -> Option<&str> {
        let annotations = self.set.at("/metadata/annotations");
        let generation = annotations["deprecated.daemonset.template.generation"].as_str();
        generation.filter(|text| text.parse::<i64>().is_ok())
    }
}
