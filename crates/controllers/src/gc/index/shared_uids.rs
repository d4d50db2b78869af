//! Objects that several kinds show under one uid: Namespace and Project of OpenShift, or one resource in two API groups.
//!
//! Such an object is one node. The node has the kind that showed it first and lives as long as any kind shows it: a feed
//! that ends, or that does not show the object any more, says nothing about the other kinds.

use std::collections::{BTreeMap, BTreeSet};

use super::OwnershipIndex;
use super::graph::NodeId;
use crate::runtime::kind::KindId;

/// The other kinds that show an object. Hardly any object has an entry.
#[derive(Debug, Default)]
pub(crate) struct SharedUids {
    others: BTreeMap<NodeId, BTreeSet<KindId>>,
}

// === impl SharedUids ===

impl SharedUids {
    /// Whether this kind shows the node, too.
    pub(super) fn has(&self, id: NodeId, kind: KindId) -> bool {
        self.others
            .get(&id)
            .is_some_and(|kinds| kinds.contains(&kind))
    }

    pub(super) fn insert(&mut self, id: NodeId, kind: KindId) {
        self.others.entry(id).or_default().insert(kind);
    }

    /// Forgets a node that no kind shows any more.
    pub(super) fn forget(&mut self, id: NodeId) {
        self.others.remove(&id);
    }

    fn remove(&mut self, id: NodeId, kind: KindId) {
        if let Some(kinds) = self.others.get_mut(&id) {
            kinds.remove(&kind);
            if kinds.is_empty() {
                self.others.remove(&id);
            }
        }
    }

    fn first(&self, id: NodeId) -> Option<KindId> {
        self.others.get(&id)?.first().copied()
    }
}

// === impl OwnershipIndex ===

impl OwnershipIndex {
    /// A kind does not show a node any more. Returns whether another kind still does; the node then has that kind.
    pub(super) fn is_shown_by_another(&mut self, id: NodeId, kind: KindId) -> bool {
        let own = self.graph.node(id).kind;
        if own != kind {
            self.shared.remove(id, kind);
            return !self.is_virtual(id);
        }
        let Some(other) = self.shared.first(id) else {
            return false;
        };
        self.shared.remove(id, other);
        self.graph.node_mut(id).kind = other;
        true
    }

    /// A kind is not served any more: nodes that other kinds show live on.
    pub(super) fn forget_shared(&mut self, kind: KindId) {
        let shared: Vec<NodeId> = self.shared.others.keys().copied().collect();
        for id in shared {
            self.is_shown_by_another(id, kind);
        }
    }
}
