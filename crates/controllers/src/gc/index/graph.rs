//! Nodes and edges of the ownership graph, packed: a million objects have to fit where upstream puts a hundred thousand.
//!
//! Nodes and edges live in two arenas and point at each other by number. The edges of an owner form a doubly linked
//! list, so that a fan of a million dependents loses each of them in constant time; those of a dependent form a singly
//! linked one, in the order of its ownerReferences. Only the index changes a graph. Nothing here recurses.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use hashbrown::HashTable;

use super::arena::Arena;
use super::intern::{Interner, TextId};
use crate::runtime::kind::KindId;
use crate::runtime::record::{Revision, Uid};

/// A node's place. Reused after the node is gone: never kept outside the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeId(u32);

/// An edge's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EdgeId(u32);

/// The end of a list of edges.
const NONE: EdgeId = EdgeId(u32::MAX);

/// An object, or an owner that somebody refers to and nobody has shown.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) uid: Uid,
    pub(crate) name: Box<str>,
    /// 0: not a number; the text is in `Graph::odd_revisions`.
    revision: u64,
    pub(crate) namespace: TextId,
    owners: EdgeId,
    dependents: EdgeId,
    /// How many dependents' references block this object's foreground deletion.
    pub(crate) blocking: u32,
    pub(crate) kind: KindId,
    pub(crate) facts: Facts,
}

/// What is known about an object besides its place in the graph.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Facts(u8);

/// One ownerReference.
#[derive(Debug)]
pub(crate) struct Edge {
    pub(crate) dependent: NodeId,
    pub(crate) owner: NodeId,
    /// The dependent's next reference.
    next: EdgeId,
    /// The owner's other dependents.
    before: EdgeId,
    after: EdgeId,
    /// apiVersion and kind, as written.
    pub(crate) typed: TextId,
    pub(crate) controller: Flag,
    pub(crate) blocks: Flag,
}

/// A boolean that may be unset: a patch has to write it back as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flag {
    Unset,
    False,
    True,
}

/// The whole graph.
#[derive(Debug)]
pub(crate) struct Graph {
    nodes: Arena<Node>,
    edges: Arena<Edge>,
    by_uid: HashTable<NodeId>,
    seed: u64,
    pub(crate) namespaces: Interner,
    odd_revisions: BTreeMap<NodeId, Arc<str>>,
    /// Names of references that are not their owner's name.
    odd_names: BTreeMap<EdgeId, Box<str>>,
}

// === impl Facts ===

impl Facts {
    /// Known from references only.
    pub(crate) const VIRTUAL: Self = Self(1);
    /// It has a deletionTimestamp.
    pub(crate) const DELETING: Self = Self(2);
    /// It has the finalizer `foregroundDeletion`.
    pub(crate) const FOREGROUND: Self = Self(4);
    /// It has the finalizer `orphan`.
    pub(crate) const ORPHAN: Self = Self(8);
    /// Our delete of it was acknowledged, or its absence proven; the feed will show its end.
    pub(crate) const GOING: Self = Self(16);
    /// A fresh list did not show it.
    pub(crate) const DOUBTFUL: Self = Self(32);
    /// The slot holds nothing.
    const FREE: Self = Self(64);

    pub(crate) fn has(self, all: Self) -> bool {
        self.0 & all.0 == all.0
    }

    pub(crate) fn with(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    /// Being deleted in the foreground: it waits for its dependents. The orphan finalizer wins if both are there.
    pub(crate) fn is_waiting(self) -> bool {
        self.has(Self::DELETING.with(Self::FOREGROUND)) && !self.has(Self::ORPHAN)
    }

    /// Being deleted, and its dependents are to stay.
    pub(crate) fn is_orphaning(self) -> bool {
        self.has(Self::DELETING.with(Self::ORPHAN))
    }
}

// === impl Flag ===

impl From<Option<bool>> for Flag {
    fn from(value: Option<bool>) -> Self {
        match value {
            None => Self::Unset,
            Some(false) => Self::False,
            Some(true) => Self::True,
        }
    }
}

impl From<Flag> for Option<bool> {
    fn from(flag: Flag) -> Self {
        match flag {
            Flag::Unset => None,
            Flag::False => Some(false),
            Flag::True => Some(true),
        }
    }
}

// === impl Graph ===

impl Graph {
    /// An empty graph. `seed` keeps those who choose uids from choosing collisions.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            nodes: Arena::new(),
            edges: Arena::new(),
            by_uid: HashTable::new(),
            seed,
            namespaces: Interner::default(),
            odd_revisions: BTreeMap::new(),
            odd_names: BTreeMap::new(),
        }
    }

    pub(crate) fn find(&self, uid: &Uid) -> Option<NodeId> {
        let is_it = |id: &NodeId| self.node(*id).uid == *uid;
        self.by_uid.find(self.hash(uid), is_it).copied()
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        self.nodes.get(id.0)
    }

    pub(crate) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.nodes.get_mut(id.0)
    }

    pub(crate) fn edge(&self, id: EdgeId) -> &Edge {
        self.edges.get(id.0)
    }

    pub(crate) fn namespace(&self, id: NodeId) -> &str {
        self.namespaces.text(self.node(id).namespace)
    }

    pub(crate) fn node_count(&self) -> usize {
        self.nodes.count()
    }

    pub(crate) fn edge_count(&self) -> usize {
        self.edges.count()
    }

    /// All nodes, in the order of their places.
    pub(crate) fn ids(&self) -> impl Iterator<Item = NodeId> {
        let all = (0..self.nodes.numbers()).map(NodeId);
        all.filter(|id| !self.node(*id).facts.has(Facts::FREE))
    }

    /// The references of a dependent, in order.
    pub(crate) fn owners(&self, id: NodeId) -> impl Iterator<Item = (EdgeId, &Edge)> {
        self.chain(self.node(id).owners, |edge| edge.next)
    }

    /// The references to an owner. A dependent with two of them comes twice.
    pub(crate) fn dependents(&self, id: NodeId) -> impl Iterator<Item = (EdgeId, &Edge)> {
        self.chain(self.node(id).dependents, |edge| edge.after)
    }

    fn chain(
        &self,
        first: EdgeId,
        next: fn(&Edge) -> EdgeId,
    ) -> impl Iterator<Item = (EdgeId, &Edge)> {
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

    /// The owner's name as this reference writes it.
    pub(crate) fn reference_name(&self, id: EdgeId) -> &str {
        match self.odd_names.get(&id) {
            Some(name) => name,
            None => &self.node(self.edge(id).owner).name,
        }
    }

    pub(crate) fn revision(&self, id: NodeId) -> Revision {
        match self.node(id).revision {
            0 => {
                let text = self.odd_revisions.get(&id);
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
            self.odd_revisions.insert(id, revision.to_string().into());
        } else if self.node(id).revision == 0 {
            self.odd_revisions.remove(&id);
        }
        self.node_mut(id).revision = number;
    }

    /// Adds a node without edges. Its uid must be new.
    pub(crate) fn add(&mut self, uid: Uid, kind: KindId, namespace: &str, name: &str) -> NodeId {
        let hash = self.hash(&uid);
        let node = Node {
            uid,
            name: name.into(),
            revision: 0,
            namespace: self.namespaces.take(namespace),
            owners: NONE,
            dependents: NONE,
            blocking: 0,
            kind,
            facts: Facts::default(),
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
        self.odd_revisions.remove(&id);
        self.namespaces.give_back(self.node(id).namespace);
        let node = self.node_mut(id);
        node.facts = Facts::FREE;
        node.name = "".into();
        node.uid = Uid::default();
        self.nodes.remove(id.0);
    }

    /// Says what and where a node really is. References that name it otherwise keep the name they use.
    pub(crate) fn identify(&mut self, id: NodeId, kind: KindId, namespace: &str, name: &str) {
        if *self.node(id).name != *name {
            let plain: Vec<EdgeId> = self
                .dependents(id)
                .map(|(edge, _)| edge)
                .filter(|edge| !self.odd_names.contains_key(edge))
                .collect();
            for edge in plain {
                self.odd_names.insert(edge, self.node(id).name.clone());
            }
            self.node_mut(id).name = name.into();
        }
        let earlier = self.node(id).namespace;
        let namespace = self.namespaces.take(namespace);
        self.namespaces.give_back(earlier);
        let node = self.node_mut(id);
        node.namespace = namespace;
        node.kind = kind;
    }

    /// Adds a reference in front of the dependent's others.
    pub(crate) fn link(
        &mut self,
        dependent: NodeId,
        owner: NodeId,
        typed: TextId,
        name: &str,
        (controller, blocks): (Flag, Flag),
    ) -> EdgeId {
        let sibling = self.node(owner).dependents;
        let edge = Edge {
            dependent,
            owner,
            next: self.node(dependent).owners,
            before: NONE,
            after: sibling,
            typed,
            controller,
            blocks,
        };
        let id = EdgeId(self.edges.add(edge));
        if sibling != NONE {
            self.edges.get_mut(sibling.0).before = id;
        }
        if *self.node(owner).name != *name {
            self.odd_names.insert(id, name.into());
        }
        self.node_mut(dependent).owners = id;
        let counts = counts_as_blocking(self.edges.get(id.0));
        let owner = self.node_mut(owner);
        owner.dependents = id;
        owner.blocking += u32::from(counts);
        id
    }

    /// Cuts the list of a dependent's references off, to be removed one by one while others are added.
    pub(crate) fn detach(&mut self, dependent: NodeId) -> Detached {
        Detached(std::mem::replace(
            &mut self.node_mut(dependent).owners,
            NONE,
        ))
    }

    /// Removes the next detached reference. Returns its owner, and the type for whoever counts its uses.
    pub(crate) fn unlink(&mut self, detached: &mut Detached) -> Option<(NodeId, TextId)> {
        let id = (detached.0 != NONE).then_some(detached.0)?;
        let counts = counts_as_blocking(self.edge(id));
        let Edge {
            owner,
            next,
            before,
            after,
            typed,
            ..
        } = *self.edge(id);
        detached.0 = next;
        if before == NONE {
            self.node_mut(owner).dependents = after;
        } else {
            self.edges.get_mut(before.0).after = after;
        }
        if after != NONE {
            self.edges.get_mut(after.0).before = before;
        }
        self.node_mut(owner).blocking -= u32::from(counts);
        self.odd_names.remove(&id);
        self.edges.remove(id.0);
        Some((owner, typed))
    }

    fn hash(&self, uid: &Uid) -> u64 {
        hash_of(self.seed, uid)
    }
}

/// References that were cut off their dependent and not removed yet.
#[must_use]
pub(crate) struct Detached(EdgeId);

/// DEVIATION(self-owner): an object that names itself as its owner does not wait for itself; upstream's would for ever.
fn counts_as_blocking(edge: &Edge) -> bool {
    edge.blocks == Flag::True && edge.owner != edge.dependent
}

fn hash_of(seed: u64, uid: &Uid) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(seed);
    uid.hash(&mut hasher);
    hasher.finish()
}
