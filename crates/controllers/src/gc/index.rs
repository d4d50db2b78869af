//! The index of the collector: the ownership graph, and the results of owner lookups.
//!
//! The driver's observations change it, decisions only read it. Foreground and orphan deletion are facts of the current
//! object, not transitions that the collector must have seen. A reference always points at a node: the node is virtual
//! if no feed has shown the owner, or if the owner is gone and objects still refer to it.
//! Mirrors `graph_builder.go`. Upstream's alternate identities are not needed, because lookups are kept per coordinates.

mod answers;
mod arena;
pub(crate) mod catch_up;
pub(crate) mod graph;
pub(crate) mod intern;
mod kinds;
pub(crate) mod lookups;
pub(crate) mod reference_types;
mod shared_uids;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use self::catch_up::CatchUp;
use self::graph::{EdgeId, NodeId, ObjectFacts, OptionalBool, OwnershipGraph};
pub(crate) use self::lookups::OwnerLookup;
use self::lookups::OwnerLookups;
use self::reference_types::ReferenceTypes;
use self::shared_uids::SharedUids;
use super::{GcKey, OwnerCoordinates};
use crate::runtime::bounded_map::BoundedMap;
use crate::runtime::call::{AbsenceProof, CallTarget};
use crate::runtime::controller::{ObjectIdentity, WakeList};
use crate::runtime::kind::{KindCatalog, KindId, KindScope, KindState, split_api_version};
use crate::runtime::record::{ObjectRecord, OwnerRef, RecordMeta, Uid};

/// The finalizer of a foreground deletion.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of a deletion that leaves the dependents as orphans.
pub(crate) const ORPHAN: &str = "orphan";

/// How many absent owners are kept. Upstream's 500 are too few when a large namespace is deleted.
///
/// While objects refer to an absent owner, its node has the proof. Afterwards an entry saves a lookup when another
/// dependent of the owner appears, and keeps that dependent if the owner left orphans.
const ABSENT_OWNERS: usize = 10_000;

/// How long the absence of an owner is remembered that no object refers to. It saves a lookup when a watch lags; the
/// history of a restored store may contradict it.
const ABSENT_OWNER_AGE: SignedDuration = SignedDuration::from_mins(5);

/// The kind of a virtual owner whose type is not served.
const UNRESOLVED: KindId = KindId::NONE;

/// The ownership graph, the state of each kind, and the results of owner lookups.
#[derive(Debug)]
pub struct OwnershipIndex {
    pub(crate) graph: OwnershipGraph,
    pub(crate) types: ReferenceTypes,
    pub(crate) catalog: Arc<KindCatalog>,
    pub(crate) states: BTreeMap<KindId, KindState>,
    /// Kinds that have never been listed, and when their first list began. A failed list does not remove them.
    pub(crate) unlisted: BTreeMap<KindId, Timestamp>,
    pub(crate) lookups: OwnerLookups,
    /// Absent owners that no object refers to now, and since when.
    absent_owners: BoundedMap<OwnerCoordinates, (AbsenceProof, Timestamp)>,
    /// Owners whose deletion was observed before a relist, which may show another history.
    pub(crate) unproven_owners: BoundedMap<Uid, ()>,
    /// Owners that we released after all their dependents were orphaned.
    pub(crate) orphaned_owners: BoundedMap<Uid, ()>,
    /// Owners that lost the orphan finalizer and may have dependents that no feed has shown: they are gone, or not every
    /// kind had been seen. The answer to our patch shows whether we released them or another client changed them.
    left_orphaning: BoundedMap<Uid, ()>,
    catch_up: CatchUp,
    shared: SharedUids,
    /// When discovery last found other kinds.
    pub(crate) catalog_since: Timestamp,
    /// The time of the last change or answer.
    now: Timestamp,
    /// All finalizers of the objects that have `foregroundDeletion` or `orphan`.
    finalizers: BTreeMap<NodeId, Vec<Box<str>>>,
    virtual_nodes: BTreeSet<NodeId>,
    /// Owners that are being deleted and wait for their dependents to be deleted or orphaned.
    awaiting_dependents: BTreeSet<NodeId>,
}

/// The number of nodes and edges of the graph.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GraphSize {
    /// Objects and virtual owners.
    pub nodes: usize,
    /// The ownerReferences of all objects.
    pub edges: usize,
    /// Owners that references name and no feed has shown.
    pub virtual_nodes: usize,
}

/// The part of the cluster that the index covers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexCoverage {
    /// Objects that a feed has shown.
    pub objects: usize,
    /// Kinds that have a feed, also a failing or a forbidden one.
    pub kinds: usize,
    /// Kinds whose first list is still being read.
    pub pending: usize,
}

// === impl OwnershipIndex ===

impl OwnershipIndex {
    /// Creates an empty index. `seed` makes the order of hash buckets unpredictable.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            graph: OwnershipGraph::new(seed),
            types: ReferenceTypes::default(),
            catalog: Arc::default(),
            states: BTreeMap::new(),
            unlisted: BTreeMap::new(),
            lookups: OwnerLookups::default(),
            absent_owners: BoundedMap::new(ABSENT_OWNERS),
            unproven_owners: BoundedMap::new(ABSENT_OWNERS),
            orphaned_owners: BoundedMap::new(ABSENT_OWNERS),
            left_orphaning: BoundedMap::new(ABSENT_OWNERS),
            catch_up: CatchUp::default(),
            shared: SharedUids::default(),
            catalog_since: Timestamp::UNIX_EPOCH,
            now: Timestamp::UNIX_EPOCH,
            finalizers: BTreeMap::new(),
            virtual_nodes: BTreeSet::new(),
            awaiting_dependents: BTreeSet::new(),
        }
    }

    /// Counts the nodes and edges of the graph.
    #[must_use]
    pub fn size(&self) -> GraphSize {
        GraphSize {
            nodes: self.graph.node_count(),
            edges: self.graph.edge_count(),
            virtual_nodes: self.virtual_nodes.len(),
        }
    }

    /// Counts the objects and kinds that the index covers.
    #[must_use]
    pub fn coverage(&self) -> IndexCoverage {
        let is_pending = |state: &&KindState| matches!(state, KindState::Syncing(_));
        IndexCoverage {
            objects: self.graph.node_count() - self.virtual_nodes.len(),
            kinds: self.states.len(),
            pending: self.states.values().filter(is_pending).count(),
        }
    }

    /// Sets the time of the changes and answers that follow.
    pub fn set_time(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// Applies the current state of an object. A copy older than the known one is ignored.
    pub fn apply(&mut self, record: &ObjectRecord, wake: &mut WakeList<GcKey>) {
        let meta = &record.meta;
        let (id, before) = match self.graph.find(&meta.uid) {
            None => {
                let uid = meta.uid.clone();
                let id = self
                    .graph
                    .add(uid, record.kind, &meta.namespace, &meta.name);
                (id, None)
            }
            Some(id) if self.is_virtual(id) => {
                self.show_virtual(id, record, wake);
                (id, None)
            }
            Some(id) => {
                if self.graph.node(id).kind != record.kind {
                    self.shared.insert(id, record.kind);
                }
                let known = self.graph.revision(id);
                let facts = self.graph.node(id).facts;
                let is_news = known != meta.revision || facts.has(ObjectFacts::DOUBTFUL);
                if !is_news || meta.revision.is_before(&known) {
                    return;
                }
                (id, Some(facts))
            }
        };
        if before.is_none() {
            self.unproven_owners.remove(&meta.uid);
        }
        let facts = facts_of(meta);
        if before.is_some_and(ObjectFacts::is_orphaning) && !facts.is_orphaning() {
            self.leave_orphaning(id, &meta.uid);
        }
        self.graph.set_revision(id, &meta.revision);
        self.graph.node_mut(id).facts = facts;
        self.keep_finalizers(id, meta);
        let relinked = self.owners_differ(id, &meta.owners);
        if relinked {
            self.relink(id, &meta.owners, wake);
        }
        let was = before.unwrap_or_default();
        if awaits_dependents(facts) {
            self.awaiting_dependents.insert(id);
            if facts.is_orphaning() {
                self.begin_orphaning(id, wake);
            }
            wake.now(self.key(id));
            if was.is_waiting() != facts.is_waiting()
                || was.is_orphaning() != facts.is_orphaning()
                || was.has(ObjectFacts::DOUBTFUL)
            {
                self.wake_dependents(id, wake);
            }
        } else {
            self.stop_waiting(id);
            if (before.is_none() || relinked) && !self.has_settled_owners(id) {
                wake.now(self.key(id));
            }
        }
    }

    /// Records that an object is absent, with the proof, and wakes its dependents.
    pub fn mark_absent(
        &mut self,
        coordinates: OwnerCoordinates,
        proof: AbsenceProof,
        wake: &mut WakeList<GcKey>,
    ) {
        let Some(id) = self.graph.find(&coordinates.uid) else {
            return;
        };
        if self.is_shown_by_another(id, coordinates.kind) {
            return;
        }
        // Its own key is decided once more, so that the driver can drop its state.
        wake.now(self.key(id));
        self.forget_wrong_lookups(id);
        if self.graph.node(id).facts.is_orphaning() {
            self.left_orphaning.insert(coordinates.uid.clone(), ());
        }
        let detached = self.graph.detach(id);
        self.unlink(detached, wake);
        self.finalizers.remove(&id);
        self.stop_waiting(id);
        self.shared.forget(id);
        self.graph.node_mut(id).facts = ObjectFacts::VIRTUAL;
        self.virtual_nodes.insert(id);
        // The proof replaces every earlier lookup.
        let _ = self.lookups.prove_absent(coordinates, proof);
        self.wake_dependents(id, wake);
        self.drop_if_unused(id);
    }

    /// Records that a relist of a kind did not show an object.
    pub fn mark_doubtful(&mut self, kind: KindId, uid: &Uid, wake: &mut WakeList<GcKey>) {
        if let Some(id) = self.graph.find(uid)
            && !self.is_virtual(id)
            && !self.is_shown_by_another(id, kind)
        {
            let node = self.graph.node_mut(id);
            node.facts = node.facts.with(ObjectFacts::DOUBTFUL);
            wake.now(self.key(id));
        }
    }

    /// Records that our delete of an object was acknowledged. Its feed will show the DELETED event.
    pub fn mark_going(&mut self, uid: &Uid) {
        if let Some(id) = self.graph.find(uid) {
            let node = self.graph.node_mut(id);
            node.facts = node.facts.with(ObjectFacts::GOING);
        }
    }

    /// An owner lost the orphan finalizer and still exists.
    fn leave_orphaning(&mut self, id: NodeId, uid: &Uid) {
        if self.unseen_kinds(id, self.now).next().is_some() {
            self.left_orphaning.insert(uid.clone(), ());
        }
        self.catch_up.end(id);
    }

    /// An object is in neither foreground nor orphan deletion any more.
    fn stop_waiting(&mut self, id: NodeId) {
        self.awaiting_dependents.remove(&id);
        self.catch_up.end(id);
    }

    /// Turns a virtual owner into an object that a feed shows. Dependents whose reference does not match the object have
    /// to be judged again.
    fn show_virtual(&mut self, id: NodeId, record: &ObjectRecord, wake: &mut WakeList<GcKey>) {
        let meta = &record.meta;
        self.graph
            .identify(id, record.kind, &meta.namespace, &meta.name);
        self.graph.node_mut(id).facts = ObjectFacts::default();
        self.virtual_nodes.remove(&id);
        self.lookups.forget(&meta.uid);
        for (edge, found) in self.graph.dependents(id) {
            if !self.names_owner_correctly(edge) {
                wake.now(self.key(found.dependent));
            }
        }
    }

    fn keep_finalizers(&mut self, id: NodeId, meta: &RecordMeta) {
        let mut finalizers = meta.finalizers.iter();
        if finalizers.any(|finalizer| [FOREGROUND, ORPHAN].contains(&&**finalizer)) {
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
                    || known.controller != OptionalBool::from(owner.controller)
                    || known.blocks != OptionalBool::from(owner.block_owner_deletion)
                    || self.types.text(known.type_id) != (&owner.api_version, &owner.kind)
                    || self.graph.reference_name(edge) != &*owner.name
            })
        });
        differs || edges.next().is_some()
    }

    /// Replaces the references of a dependent. The new ones are added before the old ones are removed, so that a virtual
    /// owner in both is not dropped in between.
    fn relink(&mut self, id: NodeId, owners: &[OwnerRef], wake: &mut WakeList<GcKey>) {
        self.forget_wrong_lookups(id);
        let detached = self.graph.detach(id);
        for reference in owners.iter().rev() {
            let typed = self
                .types
                .acquire(&self.catalog, &reference.api_version, &reference.kind);
            let kind = self.types.kind(typed).unwrap_or(UNRESOLVED);
            let owner = match self.graph.find(&reference.uid) {
                Some(owner) => owner,
                None => self.add_virtual(id, kind, reference),
            };
            let flags = (
                OptionalBool::from(reference.controller),
                OptionalBool::from(reference.block_owner_deletion),
            );
            self.graph.link(id, owner, typed, &reference.name, flags);
        }
        self.unlink(detached, wake);
    }

    /// Forgets lookups under the coordinates of this dependent's mismatched references. Another dependent with the same
    /// reference asks again. Lookups of a virtual owner are kept as long as its node.
    fn forget_wrong_lookups(&mut self, id: NodeId) {
        let wrong: Vec<OwnerCoordinates> = self
            .graph
            .owners(id)
            .filter(|(edge, found)| {
                !self.is_virtual(found.owner) && !self.names_owner_correctly(*edge)
            })
            .filter_map(|(edge, _)| self.coordinates(edge))
            .collect();
        for coordinates in &wrong {
            self.lookups.forget_coordinates(coordinates);
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
        self.graph.node_mut(id).facts = ObjectFacts::VIRTUAL;
        self.virtual_nodes.insert(id);
        id
    }

    fn unlink(&mut self, mut detached: graph::DetachedEdges, wake: &mut WakeList<GcKey>) {
        while let Some((owner, typed)) = self.graph.unlink(&mut detached) {
            self.types.release(typed);
            if awaits_dependents(self.graph.node(owner).facts) {
                wake.now(self.key(owner));
            }
            self.drop_if_unused(owner);
        }
    }

    /// Removes a virtual owner that no object refers to. Its proofs of absence are kept for dependents that appear later.
    fn drop_if_unused(&mut self, id: NodeId) {
        if !self.is_virtual(id) || self.graph.has_dependents(id) || self.graph.has_owners(id) {
            return;
        }
        for (coordinates, proof) in self.lookups.forget(&self.graph.node(id).uid) {
            self.absent_owners.insert(coordinates, (proof, self.now));
        }
        self.virtual_nodes.remove(&id);
        self.graph.remove(id);
    }

    pub(crate) fn wake_dependents(&self, id: NodeId, wake: &mut WakeList<GcKey>) {
        for (_, edge) in self.graph.dependents(id) {
            wake.now(self.key(edge.dependent));
        }
    }
}

/// Queries for decisions.
impl OwnershipIndex {
    pub(crate) fn key(&self, id: NodeId) -> GcKey {
        GcKey::Object(self.graph.node(id).uid.clone())
    }

    pub(crate) fn is_virtual(&self, id: NodeId) -> bool {
        self.graph.node(id).facts.has(ObjectFacts::VIRTUAL)
    }

    pub(crate) fn scope(&self, kind: KindId) -> Option<KindScope> {
        self.catalog.get(kind).map(|kind| kind.scope)
    }

    pub(crate) fn target(&self, id: NodeId) -> CallTarget {
        let node = self.graph.node(id);
        CallTarget::new(node.kind, self.graph.namespace(id), &*node.name)
    }

    pub(crate) fn finalizers(&self, id: NodeId) -> &[Box<str>] {
        self.finalizers.get(&id).map_or(&[], Vec::as_slice)
    }

    /// The coordinates that a reference gives for its owner; `None` if its type is not served.
    pub(crate) fn coordinates(&self, edge: EdgeId) -> Option<OwnerCoordinates> {
        let kind = self.types.kind(self.graph.edge(edge).type_id)?;
        Some(self.coordinates_as(edge, kind, self.scope(kind)?))
    }

    /// The proof that the owner of a reference was deleted, if its type is not served any more. Only an observed deletion
    /// counts: discovery and the answers to requests prove nothing about objects of such a type.
    pub(crate) fn observed_deletion(
        &self,
        edge: EdgeId,
        now: Timestamp,
    ) -> Option<(OwnerCoordinates, &AbsenceProof)> {
        let (api_version, kind) = self.types.text(self.graph.edge(edge).type_id);
        let retired = self.catalog.resolve_retired(api_version, kind)?;
        let coordinates = self.coordinates_as(edge, retired.id, retired.scope);
        let proof = match self.lookups.get(&coordinates) {
            Some(OwnerLookup::Absent(proof)) => proof,
            Some(OwnerLookup::Alive(..)) => return None,
            None => self.remembered_absence(&coordinates, now)?,
        };
        (*proof == AbsenceProof::Observed).then_some((coordinates, proof))
    }

    /// The proof of absence of an owner that no object referred to. It is forgotten after some minutes, and if the clock
    /// was set back.
    pub(crate) fn remembered_absence(
        &self,
        owner: &OwnerCoordinates,
        now: Timestamp,
    ) -> Option<&AbsenceProof> {
        let known = self.absent_owners.get(owner);
        let observed = || {
            let any = self.absent_owners.get(&owner.in_any_version());
            any.filter(|(proof, _)| *proof == AbsenceProof::Observed)
        };
        let (proof, since) = known.or_else(observed)?;
        let age = now.duration_since(*since);
        (!age.is_negative() && age < ABSENT_OWNER_AGE).then_some(proof)
    }

    fn coordinates_as(&self, edge: EdgeId, kind: KindId, scope: KindScope) -> OwnerCoordinates {
        let found = self.graph.edge(edge);
        let namespace = match scope {
            KindScope::Cluster => "",
            KindScope::Namespaced => self.graph.namespace(found.dependent),
        };
        let (api_version, _) = self.types.text(found.type_id);
        let preferred = self.catalog.get(kind).map(|kind| &*kind.version);
        let named = split_api_version(api_version).map(|(_, version)| version);
        OwnerCoordinates {
            kind,
            version: named.filter(|_| named != preferred).map(Into::into),
            namespace: namespace.into(),
            name: self.graph.reference_name(edge).into(),
            uid: self.graph.node(found.owner).uid.clone(),
        }
    }

    /// Whether a reference has the kind, namespace and name of the owner that a feed has shown.
    pub(crate) fn names_owner_correctly(&self, edge: EdgeId) -> bool {
        let found = self.graph.edge(edge);
        let owner = self.graph.node(found.owner);
        let resolved = self.types.kind(found.type_id);
        let is_kind = |kind| kind == owner.kind || self.shared.has(found.owner, kind);
        let is_near = || match self.scope(owner.kind) {
            Some(KindScope::Cluster) => true,
            Some(KindScope::Namespaced) => {
                owner.namespace == self.graph.node(found.dependent).namespace
            }
            None => false,
        };
        resolved.is_some_and(is_kind)
            && self.graph.reference_name(edge) == &*owner.name
            && is_near()
    }

    /// Whether the object needs no decision because of its owners: each owner is shown or about to be listed, and none is
    /// in foreground or orphan deletion.
    fn has_settled_owners(&self, id: NodeId) -> bool {
        self.graph.owners(id).all(|(edge, found)| {
            let owner = self.graph.node(found.owner).facts;
            if owner.has(ObjectFacts::VIRTUAL) {
                return self.is_awaiting_first_list(edge);
            }
            !awaits_dependents(owner) && self.names_owner_correctly(edge)
        })
    }

    /// Whether the owner's kind is in its first list and another object refers to the owner. That object looks the owner
    /// up if the list takes too long. At a start most objects are shown before their owners, and queueing all of them
    /// would cost more than the graph.
    fn is_awaiting_first_list(&self, edge: EdgeId) -> bool {
        let found = self.graph.edge(edge);
        let mut dependents = self.graph.dependents(found.owner);
        self.is_being_listed(self.graph.node(found.owner).kind)
            && self.names_owner_correctly(edge)
            && dependents.any(|(_, other)| other.dependent != found.dependent)
    }

    pub(crate) fn is_being_listed(&self, kind: KindId) -> bool {
        matches!(self.states.get(&kind), Some(KindState::Syncing(_)))
    }

    /// The identity of an object for messages. A virtual owner has the type that its first dependent gives.
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
                let (api_version, kind) = self.types.text(edge.type_id);
                named(api_version.to_owned(), kind)
            }
            None => named(String::new(), ""),
        }
    }

    /// Kinds that have not been listed yet, and how long releases wait for each.
    pub(crate) fn kinds_awaiting_first_list(&self, now: Timestamp) -> Vec<(KindId, Timestamp)> {
        let unlisted = self.unlisted.iter();
        let pending = unlisted.map(|(kind, since)| (*kind, super::sync_deadline(*since)));
        pending.filter(|(_, until)| now < *until).collect()
    }
}

/// Whether an object is in foreground or orphan deletion.
fn awaits_dependents(facts: ObjectFacts) -> bool {
    facts.is_waiting() || facts.is_orphaning()
}

pub(crate) fn facts_of(meta: &RecordMeta) -> ObjectFacts {
    let mut facts = ObjectFacts::default();
    if meta.deletion.is_some() {
        facts = facts.with(ObjectFacts::DELETING);
    }
    for finalizer in &meta.finalizers {
        match &**finalizer {
            FOREGROUND => facts = facts.with(ObjectFacts::FOREGROUND),
            ORPHAN => facts = facts.with(ObjectFacts::ORPHAN),
            _ => {}
        }
    }
    facts
}
