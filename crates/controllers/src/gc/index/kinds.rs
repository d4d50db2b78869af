//! What follows for the graph when a kind becomes known, doubtful or unknown, and when discovery finds other kinds.

use std::sync::Arc;

use super::graph::{Facts, NodeId};
use super::{Index, UNRESOLVED};
use crate::gc::Key;
use crate::runtime::controller::WakeList;
use crate::runtime::kind::{KindCatalog, KindId, KindState};
use crate::runtime::record::Revision;

// === impl Index ===

impl Index {
    /// A kind is known better or worse than before.
    pub fn know_kind(&mut self, kind: KindId, state: KindState, wake: &mut WakeList<Key>) {
        match state {
            KindState::Syncing(since) => {
                self.unlisted.entry(kind).or_insert(since);
            }
            KindState::Failing(_) => {}
            KindState::Synced | KindState::Frozen | KindState::Forbidden | KindState::Gone => {
                self.unlisted.remove(&kind);
            }
        }
        match state {
            KindState::Gone => {
                self.states.remove(&kind);
                self.forget_objects(kind, wake);
            }
            KindState::Frozen => {
                self.states.insert(kind, state);
                self.forget_past(kind);
            }
            // Less is known than before, so nothing more can follow.
            KindState::Syncing(_) => {
                self.states.insert(kind, state);
            }
            KindState::Synced | KindState::Forbidden | KindState::Failing(_) => {
                self.states.insert(kind, state);
                self.wake_waiting_for(kind, wake);
            }
        }
    }

    /// Discovery found other kinds. References that could not be resolved may be now, and the other way round.
    pub fn know_catalog(&mut self, catalog: &Arc<KindCatalog>, wake: &mut WakeList<Key>) {
        self.catalog = catalog.clone();
        self.types.resolve(catalog);
        for id in self.graph.ids() {
            if !self.is_virtual(id) && !self.is_plainly_owned(id) {
                wake.now(self.key(id));
            }
        }
    }

    /// Those who refer to an owner of this kind that no feed has shown, and owners that wait for all kinds to be known.
    fn wake_waiting_for(&self, kind: KindId, wake: &mut WakeList<Key>) {
        for id in &self.virtuals {
            for (_, edge) in self.graph.dependents(*id) {
                if self.types.kind(edge.typed) == Some(kind) {
                    wake.now(self.key(edge.dependent));
                }
            }
        }
        for id in &self.awaiting_dependents {
            wake.now(self.key(*id));
        }
    }

    /// The server was set back in time: what this kind's objects were is not known any more. Nor does any absence hold,
    /// of whatever kind: each feed notices by itself, and what was gone may be back before its own feed says so.
    fn forget_past(&mut self, kind: KindId) {
        let of_kind: Vec<NodeId> = self.objects(kind).collect();
        for id in of_kind {
            self.graph.set_revision(id, &Revision::default());
            self.graph.node_mut(id).facts = Facts::default();
            self.finalizers.remove(&id);
            self.awaiting_dependents.remove(&id);
        }
        self.lookups.clear();
        self.absent.clear();
        self.orphaned.clear();
        self.deleted_while_orphaning.clear();
    }

    /// A kind that is not served: its objects are not known to be gone, only not known. Whoever refers to one presumes
    /// it alive.
    fn forget_objects(&mut self, kind: KindId, wake: &mut WakeList<Key>) {
        let of_kind: Vec<NodeId> = self.objects(kind).collect();
        for id in of_kind {
            let detached = self.graph.detach(id);
            self.finalizers.remove(&id);
            self.awaiting_dependents.remove(&id);
            let node = self.graph.node_mut(id);
            node.facts = Facts::VIRTUAL;
            node.kind = UNRESOLVED;
            self.virtuals.insert(id);
            wake.now(self.key(id));
            self.wake_dependents(id, wake);
            self.unlink(detached, wake);
        }
        // Only now, because they may refer to each other.
        let unused: Vec<NodeId> = self.virtuals.iter().copied().collect();
        for id in unused {
            if self.virtuals.contains(&id) {
                self.drop_if_unused(id);
            }
        }
    }

    fn objects(&self, kind: KindId) -> impl Iterator<Item = NodeId> {
        let graph = &self.graph;
        graph.ids().filter(move |id| {
            let node = graph.node(*id);
            node.kind == kind && !node.facts.has(Facts::VIRTUAL)
        })
    }
}
