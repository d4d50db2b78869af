//! What the collector knows: the ownership graph, and what was learned about owners nobody has shown.
//!
//! The driver's observations change it, decisions only read it. Being deleted, in the foreground or with orphans, are
//! facts of the current object and not transitions that somebody must have seen. A reference always points at a node:
//! an owner that no feed has shown is a virtual one, and so is an owner that is gone while somebody refers to it.
//! Mirrors `graph_builder.go`; alternate identities are not needed, because lookups are kept per coordinates.

mod answers;
mod arena;
pub(crate) mod graph;
pub(crate) mod intern;
mod kinds;
pub(crate) mod lookups;
pub(crate) mod remembered;
pub(crate) mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use self::graph::{EdgeId, Facts, Flag, Graph, NodeId};
pub(crate) use self::lookups::Lookup;
use self::lookups::Lookups;
use self::remembered::{ABSENT_OWNERS, Remembered};
use self::types::Types;
use super::{Coordinates, Key};
use crate::runtime::call::{AbsenceProof, CallTarget};
use crate::runtime::controller::{ObjectIdentity, WakeList};
use crate::runtime::kind::{KindCatalog, KindId, KindScope, KindState};
use crate::runtime::record::{ObjectRecord, OwnerRef, RecordMeta, Uid};

/// The finalizer of a foreground deletion.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of a deletion that spares the dependents.
pub(crate) const ORPHAN: &str = "orphan";

/// The kind of a virtual owner whose type is not served.
const UNRESOLVED: KindId = KindId(u16::MAX);

/// Everything the collector knows.
#[derive(Debug)]
pub struct Index {
    pub(crate) graph: Graph,
    pub(crate) types: Types,
    pub(crate) catalog: Arc<KindCatalog>,
    pub(crate) states: BTreeMap<KindId, KindState>,
    /// Kinds that were never listed, and since when that is tried. A list that fails does not make them known.
    pub(crate) unlisted: BTreeMap<KindId, Timestamp>,
    pub(crate) lookups: Lookups,
    /// Owners that are gone, and nobody refers to them now.
    pub(crate) absent: Remembered<Coordinates, AbsenceProof>,
    /// Owners that went after we had separated all their dependents from them.
    pub(crate) orphaned: Remembered<Uid, ()>,
    /// Owners whose DELETED event came while they had the orphan finalizer. The answer to our patch decides whether we
    /// released them or another client deleted them.
    deleted_while_orphaning: Remembered<Uid, ()>,
    /// All finalizers of the objects that have one of ours.
    finalizers: BTreeMap<NodeId, Vec<Box<str>>>,
    virtuals: BTreeSet<NodeId>,
    /// Owners that are being deleted and wait for their dependents to be deleted or orphaned.
    awaiting_dependents: BTreeSet<NodeId>,
}

/// How large the graph is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// Objects, and owners that are only referred to.
    pub nodes: usize,
    /// References.
    pub edges: usize,
    /// Owners that are only referred to.
    pub virtual_nodes: usize,
}

/// How much of the cluster is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Knowledge {
    /// Objects that a feed has shown.
    pub objects: usize,
    /// Kinds that are watched, or would be if that were possible.
    pub kinds: usize,
    /// Those of them whose first list is still being read.
    pub pending: usize,
}

// === impl Index ===

impl Index {
    /// Knows nothing. `seed` makes the order of hash buckets unpredictable.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            graph: Graph::new(seed),
            types: Types::default(),
            catalog: Arc::default(),
            states: BTreeMap::new(),
            unlisted: BTreeMap::new(),
            lookups: Lookups::default(),
            absent: Remembered::new(ABSENT_OWNERS),
            orphaned: Remembered::new(ABSENT_OWNERS),
            deleted_while_orphaning: Remembered::new(ABSENT_OWNERS),
            finalizers: BTreeMap::new(),
            virtuals: BTreeSet::new(),
            awaiting_dependents: BTreeSet::new(),
        }
    }

    /// How large the graph is.
    #[must_use]
    pub fn size(&self) -> Size {
        Size {
            nodes: self.graph.node_count(),
            edges: self.graph.edge_count(),
            virtual_nodes: self.virtuals.len(),
        }
    }

    /// How much of the cluster is known.
    #[must_use]
    pub fn knowledge(&self) -> Knowledge {
        let is_pending = |state: &&KindState| matches!(state, KindState::Syncing(_));
        Knowledge {
            objects: self.graph.node_count() - self.virtuals.len(),
            kinds: self.states.len(),
            pending: self.states.values().filter(is_pending).count(),
        }
    }

    /// An object exists and looks like this. An older copy than the known one says nothing.
    pub fn apply(&mut self, record: &ObjectRecord, wake: &mut WakeList<Key>) {
        let meta = &record.meta;
        let (id, before) = match self.graph.find(&meta.uid) {
            None => {
                let id = self.add(record);
                (id, None)
            }
            Some(id) if self.is_virtual(id) => {
                self.appear(id, record, wake);
                (id, None)
            }
            Some(id) => {
                let known = self.graph.revision(id);
                let facts = self.graph.node(id).facts;
                let is_news = known != meta.revision || facts.has(Facts::DOUBTFUL);
                if !is_news || meta.revision.is_before(&known) {
                    return;
                }
                (id, Some(facts))
            }
        };
        self.graph.set_revision(id, &meta.revision);
        let facts = facts_of(meta);
        self.graph.node_mut(id).facts = facts;
        self.keep_finalizers(id, meta);
        let relinked = self.owners_differ(id, &meta.owners);
        if relinked {
            self.relink(id, &meta.owners, wake);
        }
        let was = before.unwrap_or_default();
        if awaits_dependents(facts) {
            self.awaiting_dependents.insert(id);
            wake.now(self.key(id));
            if was.is_waiting() != facts.is_waiting() || was.is_orphaning() != facts.is_orphaning()
            {
                self.wake_dependents(id, wake);
            }
        } else {
            self.awaiting_dependents.remove(&id);
            if (before.is_none() || relinked) && !self.is_plainly_owned(id) {
                wake.now(self.key(id));
            }
        }
    }

    /// Records that an object is gone, with its proof, and wakes its dependents.
    pub fn mark_absent(
        &mut self,
        coordinates: Coordinates,
        proof: AbsenceProof,
        wake: &mut WakeList<Key>,
    ) {
        let Some(id) = self.graph.find(&coordinates.uid) else {
            return;
        };
        // Its own key is decided once more, so that the driver can drop its state.
        wake.now(self.key(id));
        self.forget_places(id);
        if self.graph.node(id).facts.is_orphaning() {
            self.deleted_while_orphaning
                .remember(coordinates.uid.clone(), ());
        }
        let detached = self.graph.detach(id);
        self.unlink(detached, wake);
        self.finalizers.remove(&id);
        self.awaiting_dependents.remove(&id);
        self.graph.node_mut(id).facts = Facts::VIRTUAL;
        self.virtuals.insert(id);
        // The proof replaces every earlier lookup.
        let _ = self.lookups.prove_absent(coordinates, proof);
        self.wake_dependents(id, wake);
        self.drop_if_unused(id);
    }

    /// A fresh list did not show an object that was there.
    pub fn doubt(&mut self, uid: &Uid, wake: &mut WakeList<Key>) {
        if let Some(id) = self.graph.find(uid)
            && !self.is_virtual(id)
        {
            let node = self.graph.node_mut(id);
            node.facts = node.facts.with(Facts::DOUBTFUL);
            wake.now(self.key(id));
        }
    }

    /// Our delete of an object was acknowledged: its end will be shown by its feed.
    pub fn going(&mut self, uid: &Uid) {
        if let Some(id) = self.graph.find(uid) {
            let node = self.graph.node_mut(id);
            node.facts = node.facts.with(Facts::GOING);
        }
    }

    fn add(&mut self, record: &ObjectRecord) -> NodeId {
        let RecordMeta {
            uid,
            namespace,
            name,
            ..
        } = &record.meta;
        self.graph.add(uid.clone(), record.kind, namespace, name)
    }

    /// A virtual owner is shown by a feed. Who referred to something else by its uid has to be judged again.
    fn appear(&mut self, id: NodeId, record: &ObjectRecord, wake: &mut WakeList<Key>) {
        let RecordMeta {
            uid,
            namespace,
            name,
            ..
        } = &record.meta;
        self.graph.identify(id, record.kind, namespace, name);
        self.graph.node_mut(id).facts = Facts::default();
        self.virtuals.remove(&id);
        self.lookups.forget(uid);
        for (edge, found) in self.graph.dependents(id) {
            if !self.matches(edge) {
                wake.now(self.key(found.dependent));
            }
        }
    }

    fn keep_finalizers(&mut self, id: NodeId, meta: &RecordMeta) {
        let ours = |finalizer: &&str| [FOREGROUND, ORPHAN].contains(finalizer);
        if meta
            .finalizers
            .iter()
            .map(|own| &**own)
            .any(|own| ours(&own))
        {
            self.finalizers.insert(id, meta.finalizers.clone());
        } else {
            self.finalizers.remove(&id);
        }
    }

    fn owners_differ(&self, id: NodeId, owners: &[OwnerRef]) -> bool {
        let mut edges = self.graph.owners(id);
        let differs = owners.iter().any(|owner| {
            edges.next().is_none_or(|(edge, known)| {
                self.graph.node(known.owner).uid != owner.uid
                    || known.controller != Flag::from(owner.controller)
                    || known.blocks != Flag::from(owner.block_owner_deletion)
                    || self.types.text(known.typed) != (&owner.api_version, &owner.kind)
                    || self.graph.reference_name(edge) != &*owner.name
            })
        });
        differs || edges.next().is_some()
    }

    /// Replaces the references of a dependent. The new ones come first, so that an owner in both is not dropped between.
    fn relink(&mut self, id: NodeId, owners: &[OwnerRef], wake: &mut WakeList<Key>) {
        self.forget_places(id);
        let detached = self.graph.detach(id);
        for reference in owners.iter().rev() {
            let typed = self
                .types
                .take(&self.catalog, &reference.api_version, &reference.kind);
            let kind = self.types.kind(typed).unwrap_or(UNRESOLVED);
            let owner = match self.graph.find(&reference.uid) {
                Some(owner) => owner,
                None => self.add_virtual(id, kind, reference),
            };
            let flags = (
                Flag::from(reference.controller),
                Flag::from(reference.block_owner_deletion),
            );
            self.graph.link(id, owner, typed, &reference.name, flags);
        }
        self.unlink(detached, wake);
    }

    /// What was said about places where only wrong references look for an owner lives as long as these. Those of a virtual
    /// owner live as long as it does.
    fn forget_places(&mut self, id: NodeId) {
        let wrong: Vec<Coordinates> = self
            .graph
            .owners(id)
            .filter(|(edge, found)| !self.is_virtual(found.owner) && !self.matches(*edge))
            .filter_map(|(edge, _)| self.coordinates(edge))
            .collect();
        for coordinates in &wrong {
            self.lookups.forget_place(coordinates);
        }
    }

    fn add_virtual(&mut self, dependent: NodeId, kind: KindId, owner: &OwnerRef) -> NodeId {
        let namespace = match self.scope(kind) {
            Some(KindScope::Cluster) => String::new(),
            Some(KindScope::Namespaced) | None => self.graph.namespace(dependent).to_owned(),
        };
        let id = self
            .graph
            .add(owner.uid.clone(), kind, &namespace, &owner.name);
        self.graph.node_mut(id).facts = Facts::VIRTUAL;
        self.virtuals.insert(id);
        id
    }

    fn unlink(&mut self, mut detached: graph::Detached, wake: &mut WakeList<Key>) {
        while let Some((owner, typed)) = self.graph.unlink(&mut detached) {
            self.types.give_back(typed);
            if awaits_dependents(self.graph.node(owner).facts) {
                wake.now(self.key(owner));
            }
            self.drop_if_unused(owner);
        }
    }

    /// A virtual owner is there for those who refer to it. What was learned about it is kept for latecomers.
    fn drop_if_unused(&mut self, id: NodeId) {
        if !self.is_virtual(id) || self.graph.has_dependents(id) || self.graph.has_owners(id) {
            return;
        }
        for (coordinates, proof) in self.lookups.forget(&self.graph.node(id).uid) {
            self.absent.remember(coordinates, proof);
        }
        self.virtuals.remove(&id);
        self.graph.remove(id);
    }

    pub(crate) fn wake_dependents(&self, id: NodeId, wake: &mut WakeList<Key>) {
        for (_, edge) in self.graph.dependents(id) {
            wake.now(self.key(edge.dependent));
        }
    }
}

/// What decisions read.
impl Index {
    pub(crate) fn key(&self, id: NodeId) -> Key {
        Key::Object(self.graph.node(id).uid.clone())
    }

    pub(crate) fn is_virtual(&self, id: NodeId) -> bool {
        self.graph.node(id).facts.has(Facts::VIRTUAL)
    }

    pub(crate) fn scope(&self, kind: KindId) -> Option<KindScope> {
        self.catalog.get(kind).map(|kind| kind.scope)
    }

    pub(crate) fn target(&self, id: NodeId) -> CallTarget {
        let node = self.graph.node(id);
        CallTarget {
            kind: node.kind,
            namespace: self.graph.namespace(id).into(),
            name: node.name.clone(),
        }
    }

    pub(crate) fn finalizers(&self, id: NodeId) -> &[Box<str>] {
        self.finalizers.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Where a reference says its owner is; nothing if its type is not served.
    pub(crate) fn coordinates(&self, edge: EdgeId) -> Option<Coordinates> {
        let found = self.graph.edge(edge);
        let kind = self.types.kind(found.typed)?;
        let namespace = match self.scope(kind)? {
            KindScope::Cluster => "",
            KindScope::Namespaced => self.graph.namespace(found.dependent),
        };
        Some(Coordinates {
            kind,
            namespace: namespace.into(),
            name: self.graph.reference_name(edge).into(),
            uid: self.graph.node(found.owner).uid.clone(),
        })
    }

    /// Whether a reference names its owner as the owner was shown: kind, namespace and name.
    pub(crate) fn matches(&self, edge: EdgeId) -> bool {
        let found = self.graph.edge(edge);
        let owner = self.graph.node(found.owner);
        let is_near = || match self.scope(owner.kind) {
            Some(KindScope::Cluster) => true,
            Some(KindScope::Namespaced) => {
                owner.namespace == self.graph.node(found.dependent).namespace
            }
            None => false,
        };
        self.types.kind(found.typed) == Some(owner.kind)
            && self.graph.reference_name(edge) == &*owner.name
            && is_near()
    }

    /// Whether nothing can follow from an object's references now: each owner was shown or will be, and none of them is
    /// ending.
    fn is_plainly_owned(&self, id: NodeId) -> bool {
        self.graph.owners(id).all(|(edge, found)| {
            let owner = self.graph.node(found.owner).facts;
            if owner.has(Facts::VIRTUAL) {
                return self.is_early(edge);
            }
            !awaits_dependents(owner) && self.matches(edge)
        })
    }

    /// Whether a reference is to an owner that has not been shown because its kind is being listed for the first time,
    /// and somebody else refers to that owner, who will ask for it should this take too long. At a start most objects are
    /// shown before their owners; queueing all of them would cost more than the graph.
    fn is_early(&self, edge: EdgeId) -> bool {
        let found = self.graph.edge(edge);
        let mut dependents = self.graph.dependents(found.owner);
        self.is_being_listed(self.graph.node(found.owner).kind)
            && self.matches(edge)
            && dependents.any(|(_, other)| other.dependent != found.dependent)
    }

    pub(crate) fn is_being_listed(&self, kind: KindId) -> bool {
        matches!(self.states.get(&kind), Some(KindState::Syncing(_)))
    }

    /// An object as messages name it. A virtual owner is named as its first dependent names it.
    pub(crate) fn identity(&self, id: NodeId) -> ObjectIdentity {
        let node = self.graph.node(id);
        let named = |api_version: String, kind: &str| ObjectIdentity {
            api_version,
            kind: kind.to_owned(),
            namespace: self.graph.namespace(id).to_owned(),
            name: node.name.to_string(),
            uid: node.uid.to_string(),
        };
        if let Some(kind) = self.catalog.get(node.kind) {
            return named(kind.api_version(), &kind.kind);
        }
        match self.graph.dependents(id).next() {
            Some((_, edge)) => {
                let (api_version, kind) = self.types.text(edge.typed);
                named(api_version.to_owned(), kind)
            }
            None => named(String::new(), ""),
        }
    }

    /// The kinds that have not been listed yet, and until when anybody waits for that.
    pub(crate) fn syncing(&self, now: Timestamp) -> Vec<(KindId, Timestamp)> {
        let unlisted = self.unlisted.iter();
        let pending = unlisted.map(|(kind, since)| (*kind, super::sync_deadline(*since)));
        pending.filter(|(_, until)| now < *until).collect()
    }
}

/// Whether an object is being deleted and waits for its dependents, in the foreground or to orphan them.
fn awaits_dependents(facts: Facts) -> bool {
    facts.is_waiting() || facts.is_orphaning()
}

pub(crate) fn facts_of(meta: &RecordMeta) -> Facts {
    let mut facts = Facts::default();
    if meta.deletion.is_some() {
        facts = facts.with(Facts::DELETING);
    }
    for finalizer in &meta.finalizers {
        match &**finalizer {
            FOREGROUND => facts = facts.with(Facts::FOREGROUND),
            ORPHAN => facts = facts.with(Facts::ORPHAN),
            _ => {}
        }
    }
    facts
}
