//! Nodes and edges of the ownership graph, in a compact form: a million objects take the memory that a hundred thousand
//! take upstream.
//!
//! Nodes and edges are kept in two arenas and refer to each other by number. The edges of an owner form a doubly linked
//! list, so that a dependent is removed in constant time even if the owner has a million of them. The edges of a
//! dependent form a singly linked list, in the order of its ownerReferences. Only the index changes the graph. No
//! function here recurses.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use hashbrown::HashTable;

use super::arena::SlotArena;
use super::intern::{TextId, TextInterner};
use crate::runtime::kind::KindId;
use crate::runtime::record::{Revision, Uid};

/// The number of a node. It is reused after the node is removed, so it must not be kept outside the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeId(u32);

/// The number of an edge. It is reused after the edge is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EdgeId(u32);

/// The end of a list of edges.
const NONE: EdgeId = EdgeId(u32::MAX);

/// An object, or a virtual owner: one that references name and no feed has shown.
#[derive(Debug)]
pub(crate) struct GraphNode {
    pub(crate) uid: Uid,
    pub(crate) name: Box<str>,
    /// 0 means that the revision is not a number; its text is in `OwnershipGraph::opaque_revisions`.
    revision: u64,
    pub(crate) namespace: TextId,
    owners: EdgeId,
    dependents: EdgeId,
    /// How many dependents' references block this object's foreground deletion.
    pub(crate) blocking: u32,
    pub(crate) kind: KindId,
    pub(crate) facts: ObjectFacts,
}

/// Flags of an object: whether it is virtual, deleting, doubtful, and which of our finalizers it has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ObjectFacts(u8);

/// One ownerReference of a dependent.
#[derive(Debug)]
pub(crate) struct OwnerEdge {
    pub(crate) dependent: NodeId,
    pub(crate) owner: NodeId,
    /// The next reference of the same dependent.
    next_owner: EdgeId,
    /// The neighbours in the owner's list of dependents.
    previous_dependent: EdgeId,
    next_dependent: EdgeId,
    /// apiVersion and kind as the reference has them.
    pub(crate) type_id: TextId,
    pub(crate) controller: OptionalBool,
    pub(crate) blocks: OptionalBool,
}

/// A boolean that may be unset. A patch has to write it back as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OptionalBool {
    Unset,
    False,
    True,
}

/// All objects and their ownerReferences, with an index by uid.
#[derive(Debug)]
pub(crate) struct OwnershipGraph {
    nodes: SlotArena<GraphNode>,
    edges: SlotArena<OwnerEdge>,
    by_uid: HashTable<NodeId>,
    seed: u64,
    pub(crate) namespaces: TextInterner,
    opaque_revisions: BTreeMap<NodeId, Arc<str>>,
    /// The owner names of references whose owner has another name.
    reference_names: BTreeMap<EdgeId, Box<str>>,
}

// === impl ObjectFacts ===

impl ObjectFacts {
    /// No feed has shown it; only references name it.
    pub(crate) const VIRTUAL: Self = Self(1);
    /// It has a deletionTimestamp.
    pub(crate) const DELETING: Self = Self(2);
    /// It has the finalizer `foregroundDeletion`.
    pub(crate) const FOREGROUND: Self = Self(4);
    /// It has the finalizer `orphan`.
    pub(crate) const ORPHAN: Self = Self(8);
    /// Our delete of it was acknowledged, or it was not found. Its feed will show the DELETED event.
    pub(crate) const GOING: Self = Self(16);
    /// A relist did not show it.
    pub(crate) const DOUBTFUL: Self = Self(32);
    /// The slot of the arena is free.
    const FREE: Self = Self(64);

    pub(crate) fn has(self, all: Self) -> bool {
        self.0 & all.0 == all.0
    }

    pub(crate) fn with(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    /// Whether it is in foreground deletion and waits for its dependents. If it has both finalizers, `orphan` counts.
    pub(crate) fn is_waiting(self) -> bool {
        self.has(Self::DELETING.with(Self::FOREGROUND)) && !self.has(Self::ORPHAN)
    }

    /// Whether it is being deleted and its dependents are to become orphans.
    pub(crate) fn is_orphaning(self) -> bool {
        self.has(Self::DELETING.with(Self::ORPHAN))
    }
}

// === impl OptionalBool ===

impl From<Option<bool>> for OptionalBool {
    fn from(value: Option<bool>) -> Self {
        match value {
            None => Self::Unset,
            Some(false) => Self::False,
            Some(true) => Self::True,
        }
    }
}

impl From<OptionalBool> for Option<bool> {
    fn from(flag: OptionalBool) -> Self {
        match flag {
            OptionalBool::Unset => None,
            OptionalBool::False => Some(false),
            OptionalBool::True => Some(true),
        }
    }
}

// === impl OwnershipGraph ===

impl OwnershipGraph {
    /// Creates an empty graph. `seed` prevents hash collisions by chosen uids.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            nodes: SlotArena::new(),
            edges: SlotArena::new(),
            by_uid: HashTable::new(),
            seed,
            namespaces: TextInterner::default(),
            opaque_revisions: BTreeMap::new(),
            reference_names: BTreeMap::new(),
        }
    }

    pub(crate) fn find(&self, uid: &Uid) -> Option<NodeId> {
        let is_it = |id: &NodeId| self.node(*id).uid == *uid;
        self.by_uid.find(self.hash(uid), is_it).copied()
    }

    pub(crate) fn node(&self, id: NodeId) -> &GraphNode {
        self.nodes.get(id.0)
    }

    pub(crate) fn node_mut(&mut self, id: NodeId) -> &mut GraphNode {
        self.nodes.get_mut(id.0)
    }

    pub(crate) fn edge(&self, id: EdgeId) -> &OwnerEdge {
        self.edges.get(id.0)
    }

    pub(crate) fn namespace(&self, id: NodeId) -> &str {
        self.namespaces.text(self.node(id).namespace)
    }

    pub(crate) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn edge_count(&self) -> usize {
        self.edges.len()
    }

    /// All nodes, in the order of their numbers.
    pub(crate) fn ids(&self) -> impl Iterator<Item = NodeId> {
        let all = (0..self.nodes.slot_count()).map(NodeId);
        all.filter(|id| !self.node(*id).facts.has(ObjectFacts::FREE))
    }

    /// The references of a dependent, in the order of its ownerReferences.
    pub(crate) fn owners(&self, id: NodeId) -> impl Iterator<Item = (EdgeId, &OwnerEdge)> {
        self.chain(self.node(id).owners, |edge| edge.next_owner)
    }

    /// The references to an owner. A dependent with two references occurs twice.
    pub(crate) fn dependents(&self, id: NodeId) -> impl Iterator<Item = (EdgeId, &OwnerEdge)> {
        self.chain(self.node(id).dependents, |edge| edge.next_dependent)
    }

    fn chain(
        &self,
        first: EdgeId,
        next: fn(&OwnerEdge) -> EdgeId,
    ) -> impl Iterator<Item = (EdgeId, &OwnerEdge)> {
        let mut at = first;
        std::iter::from_fn(move || {
            let id = (at != NONE).then_some(at)?;
            let edge = self.edge(id);
            at = next(edge);
            Some((id, edge))
        })
    }

    pub(crate) fn has_owners(&self, id: NodeId) -> bool {
        self.node(id).owners != NONE
    }

    pub(crate) fn has_dependents(&self, id: NodeId) -> bool {
        self.node(id).dependents != NONE
    }

    /// The owner's name as the reference has it.
    pub(crate) fn reference_name(&self, id: EdgeId) -> &str {
        match self.reference_names.get(&id) {
            Some(name) => name,
            None => &self.node(self.edge(id).owner).name,
        }
    }

    pub(crate) fn revision(&self, id: NodeId) -> Revision {
        match self.node(id).revision {
            0 => {
                let text = self.opaque_revisions.get(&id);
                Revision::Odd(text.cloned().unwrap_or_else(|| "".into()))
            }
            number => Revision::Number(number),
        }
    }

    pub(crate) fn set_revision(&mut self, id: NodeId, revision: &Revision) {
        let number = match revision {
            Revision::Number(number) if *number != 0 => *number,
            Revision::Number(_) | Revision::Odd(_) => 0,
        };
        if number == 0 {
            self.opaque_revisions
                .insert(id, revision.to_string().into());
        } else if self.node(id).revision == 0 {
            self.opaque_revisions.remove(&id);
        }
        self.node_mut(id).revision = number;
    }

    /// Adds a node without edges. Its uid must be new.
    pub(crate) fn add(&mut self, uid: Uid, kind: KindId, namespace: &str, name: &str) -> NodeId {
        let hash = self.hash(&uid);
        let node = GraphNode {
            uid,
            name: name.into(),
            revision: 0,
            namespace: self.namespaces.acquire(namespace),
            owners: NONE,
            dependents: NONE,
            blocking: 0,
            kind,
            facts: ObjectFacts::default(),
        };
        let id = NodeId(self.nodes.add(node));
        let (nodes, seed) = (&self.nodes, self.seed);
        let hash_of = |id: &NodeId| hash_of(seed, &nodes.get(id.0).uid);
        self.by_uid.insert_unique(hash, id, hash_of);
        id
    }

    /// Removes a node that has no edges.
    pub(crate) fn remove(&mut self, id: NodeId) {
        assert!(!self.has_owners(id) && !self.has_dependents(id));
        let hash = self.hash(&self.node(id).uid);
        if let Ok(found) = self.by_uid.find_entry(hash, |other| *other == id) {
            found.remove();
        }
        self.opaque_revisions.remove(&id);
        self.namespaces.release(self.node(id).namespace);
        let node = self.node_mut(id);
        node.facts = ObjectFacts::FREE;
        node.name = "".into();
        node.uid = Uid::default();
        self.nodes.remove(id.0);
    }

    /// Sets the kind, namespace and name of a node. References that use another name keep theirs.
    pub(crate) fn identify(&mut self, id: NodeId, kind: KindId, namespace: &str, name: &str) {
        if *self.node(id).name != *name {
            let plain: Vec<EdgeId> = self
                .dependents(id)
                .map(|(edge, _)| edge)
                .filter(|edge| !self.reference_names.contains_key(edge))
                .collect();
            for edge in plain {
                self.reference_names
                    .insert(edge, self.node(id).name.clone());
            }
            self.node_mut(id).name = name.into();
        }
        let earlier = self.node(id).namespace;
        let namespace = self.namespaces.acquire(namespace);
        self.namespaces.release(earlier);
        let node = self.node_mut(id);
        node.namespace = namespace;
        node.kind = kind;
    }

    /// Adds a reference in front of the dependent's other references.
    pub(crate) fn link(
        &mut self,
        dependent: NodeId,
        owner: NodeId,
        typed: TextId,
        name: &str,
        (controller, blocks): (OptionalBool, OptionalBool),
    ) -> EdgeId {
        let sibling = self.node(owner).dependents;
        let edge = OwnerEdge {
            dependent,
            owner,
            next_owner: self.node(dependent).owners,
            previous_dependent: NONE,
            next_dependent: sibling,
            type_id: typed,
            controller,
            blocks,
        };
        let id = EdgeId(self.edges.add(edge));
        if sibling != NONE {
            self.edges.get_mut(sibling.0).previous_dependent = id;
        }
        if *self.node(owner).name != *name {
            self.reference_names.insert(id, name.into());
        }
        self.node_mut(dependent).owners = id;
        let counts = counts_as_blocking(self.edges.get(id.0));
        let owner = self.node_mut(owner);
        owner.dependents = id;
        owner.blocking += u32::from(counts);
        id
    }

    /// Detaches all references of a dependent. The caller removes them one by one with [`OwnershipGraph::unlink`].
    pub(crate) fn detach(&mut self, dependent: NodeId) -> DetachedEdges {
        DetachedEdges(std::mem::replace(
            &mut self.node_mut(dependent).owners,
            NONE,
        ))
    }

    /// Removes the next detached reference. Returns its owner, and its type so that the caller can release it.
    pub(crate) fn unlink(&mut self, detached: &mut DetachedEdges) -> Option<(NodeId, TextId)> {
        let id = (detached.0 != NONE).then_some(detached.0)?;
        let counts = counts_as_blocking(self.edge(id));
        let OwnerEdge {
            owner,
            next_owner: next,
            previous_dependent: before,
            next_dependent: after,
            type_id: typed,
            ..
        } = *self.edge(id);
        detached.0 = next;
        if before == NONE {
            self.node_mut(owner).dependents = after;
        } else {
            self.edges.get_mut(before.0).next_dependent = after;
        }
        if after != NONE {
            self.edges.get_mut(after.0).previous_dependent = before;
        }
        self.node_mut(owner).blocking -= u32::from(counts);
        self.reference_names.remove(&id);
        self.edges.remove(id.0);
        Some((owner, typed))
    }

    fn hash(&self, uid: &Uid) -> u64 {
        hash_of(self.seed, uid)
    }
}

/// References that were detached from their dependent and have not been removed yet.
#[must_use]
pub(crate) struct DetachedEdges(EdgeId);

/// DEVIATION(self-owner): an object that names itself as its owner does not wait for itself; upstream it waits for ever.
fn counts_as_blocking(edge: &OwnerEdge) -> bool {
    edge.blocks == OptionalBool::True && edge.owner != edge.dependent
}

fn hash_of(seed: u64, uid: &Uid) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(seed);
    uid.hash(&mut hasher);
    hasher.finish()
}
