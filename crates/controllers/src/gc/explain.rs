//! One object for people: how it stands with its owners, who holds up its end, and what hangs on it.
//!
//! `caretaker explain` reads this beside the verdict. It is made of the same index and the same standings as decisions
//! are, so it cannot tell another story. Changes nothing.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use super::index::Index;
use super::index::graph::{Edge, Facts, Flag, NodeId};
use super::standing::{Standing, kind_name, named, standing};
use super::view::{DOWN, reached};
use crate::runtime::call::CallTarget;
use crate::runtime::controller::ObjectIdentity;
use crate::runtime::kind::{KindId, KindState};
use crate::runtime::record::Uid;

/// How many of those who hold up an object's end are named.
pub const BLOCKERS_NAMED: usize = 10;

/// What connects an object with others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ties {
    /// Its references, in their order.
    pub owners: Vec<Tie>,
    /// Dependents whose references block its foreground deletion: the first of them, and how many there are.
    pub blockers: (Vec<ObjectIdentity>, usize),
    /// What hangs on it, directly or through others, by kind.
    pub hanging: Vec<Hanging>,
}

/// How an object stands with one owner.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Tie {
    /// The owner, as the reference names it.
    #[serde(flatten)]
    pub owner: ObjectIdentity,
    /// Whether the owner manages the object.
    pub controller: bool,
    /// Whether the object blocks the owner's foreground deletion.
    pub blocks: bool,
    /// A word for programs: `Solid`, `Waiting`, `Orphaning`, `Absent`, `Unserved`, `OutOfReach`, `Frozen`, `Unlisted`
    /// or `Unknown`.
    pub standing: &'static str,
    /// For people: what the owner does.
    pub message: String,
}

/// Objects of one kind that hang on another.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hanging {
    /// `ReplicaSet`.
    pub kind: String,
    /// `replicasets.apps`.
    pub resource: String,
    /// How many.
    pub count: usize,
}

impl Index {
    /// What connects an object with others; nothing if it is not known.
    #[must_use]
    pub fn ties(&self, uid: &Uid, now: Timestamp) -> Option<Ties> {
        let id = self.graph.find(uid)?;
        let owners = self.graph.owners(id).map(|(edge, found)| {
            let standing = standing(self, edge, now);
            Tie {
                owner: named(self, edge),
                controller: found.controller == Flag::True,
                blocks: found.blocks == Flag::True,
                standing: word(&standing),
                message: sentence(self, found, &standing),
            }
        });
        Some(Ties {
            owners: owners.collect(),
            blockers: blockers(self, id),
            hanging: hanging(self, id),
        })
    }

    /// Who is known under a name, also if only from references. Looks at every object.
    #[must_use]
    pub fn known_as(&self, target: &CallTarget) -> Vec<Uid> {
        let ids = self.graph.ids().filter(|id| {
            let node = self.graph.node(*id);
            node.kind == target.kind
                && node.name == target.name
                && *self.graph.namespace(*id) == *target.namespace
        });
        ids.map(|id| self.graph.node(id).uid.clone()).collect()
    }

    /// How well a kind is known; nothing if nobody looks after it.
    #[must_use]
    pub fn kind_state(&self, kind: KindId) -> Option<KindState> {
        self.states.get(&kind).copied()
    }
}

fn word(standing: &Standing) -> &'static str {
    match standing {
        Standing::Solid => "Solid",
        Standing::Waiting => "Waiting",
        Standing::Orphaning => "Orphaning",
        Standing::Dangling(_) => "Absent",
        Standing::Unserved => "Unserved",
        Standing::OutOfReach => "OutOfReach",
        Standing::Frozen(_) => "Frozen",
        Standing::Unlisted(_) => "Unlisted",
        Standing::Unknown(_) => "Unknown",
    }
}

fn sentence(index: &Index, edge: &Edge, standing: &Standing) -> String {
    let is_deleting = index.graph.node(edge.owner).facts.has(Facts::DELETING);
    match standing {
        Standing::Solid if is_deleting => "lives, and is being deleted".to_owned(),
        Standing::Solid => "lives".to_owned(),
        Standing::Waiting => "is being deleted and waits for its dependents".to_owned(),
        Standing::Orphaning => "is being deleted without its dependents".to_owned(),
        Standing::Dangling(proof) => format!("is gone: {proof}"),
        Standing::Unserved => "is of a type the server does not have: presumed alive".to_owned(),
        Standing::OutOfReach => {
            "would be in a namespace, which what it owns is not: left alone".to_owned()
        }
        Standing::Frozen(kind) => {
            let kind = kind_name(index, *kind);
            format!("is presumed alive until {kind} have been listed anew")
        }
        Standing::Unlisted(until) => {
            format!("is presumed alive until its kind has been listed, or {until:.0}")
        }
        Standing::Unknown(_) => {
            "may be there or not: presumed alive until that is known".to_owned()
        }
    }
}

fn blockers(index: &Index, id: NodeId) -> (Vec<ObjectIdentity>, usize) {
    let is_blocking = |edge: &Edge| edge.blocks == Flag::True && edge.dependent != id;
    let mut all: Vec<NodeId> = index
        .graph
        .dependents(id)
        .filter(|(_, edge)| is_blocking(edge))
        .map(|(_, edge)| edge.dependent)
        .collect();
    all.sort_unstable();
    all.dedup();
    let mut first: Vec<ObjectIdentity> = all.iter().map(|id| index.identity(*id)).collect();
    first.sort_unstable();
    first.truncate(BLOCKERS_NAMED);
    (first, all.len())
}

fn hanging(index: &Index, id: NodeId) -> Vec<Hanging> {
    let mut below = reached(index, vec![id], DOWN);
    below.remove(&id);
    let mut counts: BTreeMap<KindId, usize> = BTreeMap::new();
    for id in below {
        *counts.entry(index.graph.node(id).kind).or_default() += 1;
    }
    let named = counts.into_iter().map(|(id, count)| Hanging {
        kind: match index.catalog.get(id) {
            Some(kind) => kind.kind.to_string(),
            None => "object".to_owned(),
        },
        resource: kind_name(index, id),
        count,
    });
    let mut named: Vec<Hanging> = named.collect();
    named.sort_unstable();
    named
}
