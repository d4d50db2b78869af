//! Nodes, the Pods that are bound to them, and what lookups found.
//!
//! A feed says which Nodes there are; a lookup confirms what a sweep is about to rely on, and never makes a Node of one
//! that no feed shows. The quarantine belongs to a Node's name, as upstream's queue of names does: whoever is bound to it
//! while it lasts waits no longer than the others.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::{Index, is_fresh, quarantine};
use crate::podgc::facts::NodeFacts;
use crate::podgc::{CONFIRMED_FOR, Key, Sweep};
use crate::runtime::call::AbsenceProof;
use crate::runtime::controller::WakeList;
use crate::runtime::record::{ObjectRecord, Revision, Uid};

/// A Node, or the name of one.
#[derive(Debug, Default)]
pub(crate) struct Node {
    shown: Option<Shown>,
    pods: BTreeSet<Uid>,
    /// How long it has to be missing, if it is.
    quarantine: Option<Timestamp>,
    /// What the server said about it last, and when.
    lookup: Option<(Timestamp, Lookup)>,
}

/// What a lookup found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// It is there.
    Alive,
    /// It is not.
    Absent(AbsenceProof),
}

/// A Node as its feed shows it.
#[derive(Debug)]
struct Shown {
    uid: Uid,
    revision: Revision,
    facts: NodeFacts,
}

// === impl Node ===

impl Node {
    pub(crate) fn is_shown(&self) -> bool {
        self.shown.is_some()
    }

    fn is_uid(&self, uid: &Uid) -> bool {
        self.shown.as_ref().is_some_and(|shown| shown.uid == *uid)
    }

    /// Whether it is out of service and not ready.
    pub(crate) fn is_lost(&self) -> bool {
        let shown = self.shown.as_ref();
        shown.is_some_and(|shown| shown.facts.is_lost())
    }

    /// What the server said just now.
    pub(crate) fn confirmed(&self, now: Timestamp) -> Option<&Lookup> {
        let (at, lookup) = self.lookup.as_ref()?;
        is_fresh(*at, CONFIRMED_FOR, now).then_some(lookup)
    }

    /// When it was found although no feed shows it.
    pub(crate) fn found_at(&self) -> Option<Timestamp> {
        match self.lookup {
            Some((at, Lookup::Alive)) if !self.is_shown() => Some(at),
            _ => None,
        }
    }
}

// === impl Index ===

impl Index {
    /// A Node exists and looks like this.
    pub(crate) fn apply_node(
        &mut self,
        record: &ObjectRecord,
        now: Timestamp,
        wake: &mut WakeList<Key>,
    ) {
        let node = self.nodes.entry(record.meta.name.as_ref().into());
        let node = node.or_default();
        let shown = node.shown.as_ref();
        if shown.is_some_and(|shown| record.meta.revision.is_before(&shown.revision)) {
            return;
        }
        let before = (node.is_shown(), node.is_lost());
        node.shown = Some(Shown {
            uid: record.meta.uid.clone(),
            revision: record.meta.revision.clone(),
            facts: NodeFacts::read(&record.body),
        });
        node.quarantine = None;
        node.lookup = None;
        if before != (true, node.is_lost()) {
            self.review_node(&record.meta.name, now, wake);
        }
    }

    /// A watch showed a Node's end. Nothing follows from that before the server was asked.
    pub(crate) fn end_node(
        &mut self,
        record: &ObjectRecord,
        now: Timestamp,
        wake: &mut WakeList<Key>,
    ) {
        let node = self.nodes.get(&*record.meta.name);
        if node.is_some_and(|node| node.is_uid(&record.meta.uid)) {
            self.hide_node(&record.meta.name, now, wake);
        }
    }

    /// A fresh list did not show a Node. Rare, so that all of them are looked at.
    pub(crate) fn lose_node(&mut self, uid: &Uid, now: Timestamp, wake: &mut WakeList<Key>) {
        let mut nodes = self.nodes.iter();
        let found = nodes.find(|(_, node)| node.is_uid(uid));
        if let Some(name) = found.map(|(name, _)| name.clone()) {
            self.hide_node(&name, now, wake);
        }
    }

    pub(super) fn hide_node(&mut self, name: &str, now: Timestamp, wake: &mut WakeList<Key>) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.shown = None;
            node.lookup = None;
            self.review_node(name, now, wake);
            self.tidy_node(name);
        }
    }

    /// The server has a Node of this name. That is how it looks, if a feed shows it at all.
    pub(crate) fn found_node(
        &mut self,
        name: &str,
        record: &ObjectRecord,
        now: Timestamp,
        wake: &mut WakeList<Key>,
    ) {
        if self.node(name).is_some_and(Node::is_shown) {
            self.apply_node(record, now, wake);
        }
        if let Some(node) = self.nodes.get_mut(name) {
            node.lookup = Some((now, Lookup::Alive));
        }
    }

    /// The server has no Node of this name.
    pub(crate) fn missed_node(&mut self, name: &str, proof: &AbsenceProof, now: Timestamp) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.lookup = Some((now, Lookup::Absent(proof.clone())));
        }
    }

    /// Whether somebody is due who cannot go before the server was asked about their Node.
    pub(crate) fn asks_for(&self, name: &str, now: Timestamp) -> bool {
        let Some(node) = self.nodes.get(name) else {
            return false;
        };
        if node.confirmed(now).is_some() {
            return false;
        }
        let sweep = match node.is_shown() {
            true => Sweep::OutOfService,
            false => Sweep::Orphaned,
        };
        let mut pods = node.pods.iter();
        pods.any(|uid| self.time(uid, sweep).is_some_and(|at| at <= now))
    }

    /// When a sweep's time comes for a Pod. A Node that was found although no feed shows it starts its quarantine anew.
    pub(crate) fn time(&self, uid: &Uid, sweep: Sweep) -> Option<Timestamp> {
        let due = self.due(uid, sweep)?;
        let node = self.pod(uid).and_then(|pod| self.node(&pod.node));
        let found = node
            .filter(|_| sweep == Sweep::Orphaned)
            .and_then(Node::found_at);
        Some(found.map_or(due, |at| due.max(quarantine(self.next_round(at)))))
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
            self.tidy_node(name);
        }
    }

    /// Until when a Pod waits whose Node is missing. A quarantine that lasts is not extended.
    pub(super) fn quarantined_until(&mut self, uid: &Uid, round: Timestamp) -> Timestamp {
        let until = quarantine(round);
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

    fn review_node(&mut self, name: &str, now: Timestamp, wake: &mut WakeList<Key>) {
        let round = self.next_round(now);
        let pods = self.nodes.get(name).map(|node| node.pods.clone());
        for uid in pods.unwrap_or_default() {
            let before = self.pod(&uid).and_then(|pod| self.rank(&uid, pod));
            self.settle(&uid, before, round, wake);
        }
    }

    fn tidy_node(&mut self, name: &str) {
        let node = self.nodes.get(name);
        if node.is_some_and(|node| !node.is_shown() && node.pods.is_empty()) {
            self.nodes.remove(name);
        }
    }
}
