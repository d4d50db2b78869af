//! Nodes, the Pods that are bound to them, and the results of lookups.
//!
//! Feeds decide which Nodes exist. A lookup confirms the state that a sweep relies on, and never adds a Node that no feed
//! shows. The quarantine belongs to the name of a Node, like upstream's queue of names: a Pod that is bound to the name
//! during the quarantine does not wait longer than the others.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::{PodGcIndex, is_fresh};
use crate::podgc::facts::NodeFacts;
use crate::podgc::{CONFIRMED_FOR, PodGcWake, PodSweep, QUARANTINE};
use crate::runtime::call::AbsenceProof;
use crate::runtime::queue::later;
use crate::runtime::record::{ObjectRecord, Revision, Uid};

/// A Node, or the name of a missing Node that Pods are bound to.
#[derive(Debug, Default)]
pub(crate) struct KnownNode {
    shown: Option<ShownNode>,
    pods: BTreeSet<Uid>,
    /// The end of the quarantine, if the Node is missing.
    quarantine: Option<Timestamp>,
    /// The time and the result of the last lookup.
    lookup: Option<(Timestamp, NodeLookup)>,
}

/// The result of reading a Node from the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NodeLookup {
    Alive,
    Absent(AbsenceProof),
}

/// A Node that its feed shows.
#[derive(Debug)]
struct ShownNode {
    uid: Uid,
    revision: Revision,
    facts: NodeFacts,
}

// === impl KnownNode ===

impl KnownNode {
    pub(crate) fn is_shown(&self) -> bool {
        self.shown.is_some()
    }

    fn is_uid(&self, uid: &Uid) -> bool {
        self.shown.as_ref().is_some_and(|shown| shown.uid == *uid)
    }

    /// Whether it is not ready and out of service.
    pub(crate) fn is_shut_down(&self) -> bool {
        let shown = self.shown.as_ref();
        shown.is_some_and(|shown| shown.facts.is_shut_down())
    }

    /// The result of the last lookup, if it is still valid.
    pub(crate) fn fresh_lookup(&self, now: Timestamp) -> Option<&NodeLookup> {
        let (at, lookup) = self.lookup.as_ref()?;
        is_fresh(*at, CONFIRMED_FOR, now).then_some(lookup)
    }

    /// When a lookup found it although no feed shows it.
    pub(crate) fn found_at(&self) -> Option<Timestamp> {
        match self.lookup {
            Some((at, NodeLookup::Alive)) if !self.is_shown() => Some(at),
            _ => None,
        }
    }
}

// === impl PodGcIndex ===

impl PodGcIndex {
    /// Applies the current state of a Node. An older copy is ignored.
    pub(crate) fn apply_node(
        &mut self,
        record: &ObjectRecord,
        now: Timestamp,
        wake: &mut PodGcWake,
    ) {
        let node = self.nodes.entry(record.meta.name.as_ref().into());
        let node = node.or_default();
        let shown = node.shown.as_ref();
        if shown.is_some_and(|shown| record.meta.revision.is_before(&shown.revision)) {
            return;
        }
        let before = (node.is_shown(), node.is_shut_down());
        node.shown = Some(ShownNode {
            uid: record.meta.uid.clone(),
            revision: record.meta.revision.clone(),
            facts: NodeFacts::read(&record.body),
        });
        node.quarantine = None;
        node.lookup = None;
        if before != (true, node.is_shut_down()) {
            self.update_pods_of_node(&record.meta.name, now, wake);
        }
    }

    /// Handles a Node's DELETED event. Its Pods are removed only after the quarantine and a lookup.
    pub(crate) fn node_deleted(
        &mut self,
        record: &ObjectRecord,
        now: Timestamp,
        wake: &mut PodGcWake,
    ) {
        let node = self.nodes.get(&*record.meta.name);
        if node.is_some_and(|node| node.is_uid(&record.meta.uid)) {
            self.hide_node(&record.meta.name, now, wake);
        }
    }

    /// Handles a Node that a relist did not show. This is rare, so it scans all Nodes.
    pub(crate) fn node_missing(&mut self, uid: &Uid, now: Timestamp, wake: &mut PodGcWake) {
        let mut nodes = self.nodes.iter();
        let found = nodes.find(|(_, node)| node.is_uid(uid));
        if let Some(name) = found.map(|(name, _)| name.clone()) {
            self.hide_node(&name, now, wake);
        }
    }

    pub(super) fn hide_node(&mut self, name: &str, now: Timestamp, wake: &mut PodGcWake) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.shown = None;
            node.lookup = None;
            self.update_pods_of_node(name, now, wake);
            self.drop_unused_node(name);
        }
    }

    /// Records that the server has a Node of this name. The Node's state counts only if a feed shows the Node.
    pub(crate) fn record_node_alive(
        &mut self,
        name: &str,
        record: &ObjectRecord,
        now: Timestamp,
        wake: &mut PodGcWake,
    ) {
        if self.node(name).is_some_and(KnownNode::is_shown) {
            self.apply_node(record, now, wake);
        }
        if let Some(node) = self.nodes.get_mut(name) {
            node.lookup = Some((now, NodeLookup::Alive));
        }
    }

    /// Records that the server has no Node of this name.
    pub(crate) fn record_node_absent(&mut self, name: &str, proof: &AbsenceProof, now: Timestamp) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.lookup = Some((now, NodeLookup::Absent(proof.clone())));
        }
    }

    /// Whether a Pod is due that cannot be removed before its Node was read.
    pub(crate) fn needs_node_lookup(&self, name: &str, now: Timestamp) -> bool {
        let Some(node) = self.nodes.get(name) else {
            return false;
        };
        if node.fresh_lookup(now).is_some() {
            return false;
        }
        let sweep = match node.is_shown() {
            true => PodSweep::OutOfService,
            false => PodSweep::Orphaned,
        };
        let mut pods = node.pods.iter();
        pods.any(|uid| self.sweep_time(uid, sweep).is_some_and(|at| at <= now))
    }

    /// When a sweep may remove a Pod. If a lookup found the Node although no feed shows it, its quarantine starts again.
    pub(crate) fn sweep_time(&self, uid: &Uid, sweep: PodSweep) -> Option<Timestamp> {
        let due = self.due(uid, sweep)?;
        let node = self.pod(uid).and_then(|pod| self.node(&pod.node));
        let found = node
            .filter(|_| sweep == PodSweep::Orphaned)
            .and_then(KnownNode::found_at);
        Some(found.map_or(due, |at| due.max(later(self.next_round(at), QUARANTINE))))
    }

    pub(super) fn bind(&mut self, uid: &Uid, name: &Arc<str>) {
        if !name.is_empty() {
            let node = self.nodes.entry(name.clone()).or_default();
            node.pods.insert(uid.clone());
        }
    }

    pub(super) fn unbind(&mut self, uid: &Uid, name: &str) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.pods.remove(uid);
            self.drop_unused_node(name);
        }
    }

    /// The end of the quarantine for a Pod whose Node is missing. A running quarantine is not extended.
    pub(super) fn quarantined_until(&mut self, uid: &Uid, round: Timestamp) -> Timestamp {
        let until = later(round, QUARANTINE);
        let Some(pod) = self.pods.get(uid) else {
            return until;
        };
        let Some(node) = self.nodes.get_mut(&pod.node) else {
            return until;
        };
        match node.quarantine {
            Some(lasting) if lasting >= round => lasting,
            _ => *node.quarantine.insert(until),
        }
    }

    fn update_pods_of_node(&mut self, name: &str, now: Timestamp, wake: &mut PodGcWake) {
        let round = self.next_round(now);
        let pods = self.nodes.get(name).map(|node| node.pods.clone());
        for uid in pods.unwrap_or_default() {
            let before = self.pod(&uid).and_then(|pod| self.rank(&uid, pod));
            self.update_rank(&uid, before, round, wake);
        }
    }

    fn drop_unused_node(&mut self, name: &str) {
        let node = self.nodes.get(name);
        if node.is_some_and(|node| !node.is_shown() && node.pods.is_empty()) {
            self.nodes.remove(name);
        }
    }
}
