//! Applies changes of a kind's feed state, and of the set of kinds that discovery finds.

use std::sync::Arc;

use super::graph::{NodeId, ObjectFacts};
use super::{OwnershipIndex, UNRESOLVED};
use crate::gc::GcKey;
use crate::runtime::controller::WakeList;
use crate::runtime::kind::{KindCatalog, KindId, KindState};
use crate::runtime::record::Revision;

// === impl OwnershipIndex ===

impl OwnershipIndex {
    /// Records the state of a kind's feed, and wakes the keys that waited for it.
    pub fn set_kind_state(&mut self, kind: KindId, state: KindState, wake: &mut WakeList<GcKey>) {
        match state {
            KindState::Syncing(since) => {
                self.unlisted.entry(kind).or_insert(since);
            }
            KindState::Failing(_) => {}
            KindState::Synced | KindState::Frozen | KindState::Forbidden | KindState::Gone => {
                self.unlisted.remove(&kind);
            }
        }
        self.catch_up.note_state(kind, state, self.now);
        match state {
            KindState::Gone => {
                self.states.remove(&kind);
                self.catch_up.forget_kind(kind);
                self.forget_objects(kind, wake);
            }
            KindState::Frozen => {
                self.states.insert(kind, state);
                self.forget_past(kind);
            }
            // Less is known than before, so no key has a new decision.
            KindState::Syncing(_) => {
                self.states.insert(kind, state);
            }
            KindState::Synced | KindState::Forbidden | KindState::Failing(_) => {
                self.states.insert(kind, state);
                self.wake_waiting_for(kind, wake);
            }
        }
    }

    /// Replaces the catalog. References that did not resolve may resolve now, and the reverse; the graph is walked only
    /// if that is so, because most new kinds own nothing yet.
    pub fn set_catalog(&mut self, catalog: &Arc<KindCatalog>, wake: &mut WakeList<GcKey>) {
        let before = std::mem::replace(&mut self.catalog, catalog.clone());
        self.catalog_since = self.now;
        if !self.types.resolve(&before, catalog) {
            return;
        }
        for id in self.graph.ids() {
            if !self.is_virtual(id) && !self.has_settled_owners(id) {
                wake.now(self.key(id));
            }
        }
    }

    /// Wakes dependents of virtual owners of this kind, and owners that wait until all kinds are listed.
    fn wake_waiting_for(&self, kind: KindId, wake: &mut WakeList<GcKey>) {
        for id in &self.virtual_nodes {
            for (_, edge) in self.graph.dependents(*id) {
                if self.types.kind(edge.type_id) == Some(kind) {
                    wake.now(self.key(edge.dependent));
                }
            }
        }
        for id in &self.awaiting_dependents {
            wake.now(self.key(*id));
        }
    }

    /// Forgets the state of this kind's objects, because the server's store was restored. Proofs of absence of every kind
    /// are forgotten too: each feed notices a restore by itself, and an absent owner may be back before its own feed
    /// notices.
    fn forget_past(&mut self, kind: KindId) {
        let of_kind: Vec<NodeId> = self.objects_of_kind(kind).collect();
        for id in of_kind {
            self.graph.set_revision(id, &Revision::default());
            self.graph.node_mut(id).facts = ObjectFacts::default();
            self.finalizers.remove(&id);
            self.stop_waiting(id);
        }
        self.void_absences();
        self.lookups.clear();
        self.orphaned_owners.clear();
        self.left_orphaning.clear();
    }

    /// Turns the objects of a kind that is no longer served into virtual owners. They are not proven absent, so their
    /// dependents presume them alive.
    fn forget_objects(&mut self, kind: KindId, wake: &mut WakeList<GcKey>) {
        self.forget_shared(kind);
        let of_kind: Vec<NodeId> = self.objects_of_kind(kind).collect();
        for id in of_kind {
            let detached = self.graph.detach(id);
            self.finalizers.remove(&id);
            self.stop_waiting(id);
            let node = self.graph.node_mut(id);
            node.facts = ObjectFacts::VIRTUAL;
            node.kind = UNRESOLVED;
            self.virtual_nodes.insert(id);
            wake.now(self.key(id));
            self.wake_dependents(id, wake);
            self.unlink(detached, wake);
        }
        // After the loop above, because the objects may refer to each other.
        let unused: Vec<NodeId> = self.virtual_nodes.iter().copied().collect();
        for id in unused {
            if self.virtual_nodes.contains(&id) {
                self.drop_if_unused(id);
            }
        }
    }

    fn objects_of_kind(&self, kind: KindId) -> impl Iterator<Item = NodeId> {
        let graph = &self.graph;
        graph.ids().filter(move |id| {
            let node = graph.node(*id);
            node.kind == kind && !node.facts.has(ObjectFacts::VIRTUAL)
        })
    }
}
