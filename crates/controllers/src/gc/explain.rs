//! The relations of one object: its standing with each owner, the dependents that block its deletion, and how many
//! objects depend on it.
//!
//! `caretaker explain` prints them beside the verdict. They come from the index and the standings that decisions use,
//! so the two cannot contradict each other. Changes nothing.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use super::index::OwnershipIndex;
use super::index::graph::{NodeId, ObjectFacts, OptionalBool, OwnerEdge};
use super::standing::{OwnerStanding, kind_name, reference_identity, standing_with_owner};
use super::view::{WalkDirection, reachable};
use crate::runtime::call::CallTarget;
use crate::runtime::controller::ObjectIdentity;
use crate::runtime::kind::{KindId, KindState};
use crate::runtime::record::Uid;

/// How many blocking dependents are listed by name.
pub const BLOCKERS_NAMED: usize = 10;

/// The owners and dependents of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectRelations {
    /// One relation for each ownerReference, in their order.
    pub owners: Vec<OwnerRelation>,
    /// Dependents whose references block its foreground deletion: the first [`BLOCKERS_NAMED`], and their total number.
    pub blockers: (Vec<ObjectIdentity>, usize),
    /// Direct and indirect dependents, counted by kind.
    pub dependents: Vec<DependentCount>,
}

/// The standing of an object with one owner.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct OwnerRelation {
    /// The owner, as the reference names it.
    #[serde(flatten)]
    pub owner: ObjectIdentity,
    /// Whether the reference has `controller: true`.
    pub controller: bool,
    /// Whether the reference has `blockOwnerDeletion: true`.
    pub blocks: bool,
    /// The standing as an identifier: `Solid`, `Waiting`, `Orphaning`, `Absent`, `Unserved`, `OutOfReach`, `Frozen`,
    /// `Doubtful`, `Unlisted` or `Unknown`.
    pub standing: &'static str,
    /// The standing as a predicate about the owner: `is gone: …`.
    pub message: String,
}

/// How many objects of one kind depend on an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DependentCount {
    /// The kind, such as `ReplicaSet`.
    pub kind: String,
    /// The resource and its group, such as `replicasets.apps`.
    pub resource: String,
    pub count: usize,
}

impl OwnershipIndex {
    /// The owners and dependents of an object; `None` if the index does not have it.
    #[must_use]
    pub fn relations(&self, uid: &Uid, now: Timestamp) -> Option<ObjectRelations> {
        let id = self.graph.find(uid)?;
        let owners = self.graph.owners(id).map(|(edge, found)| {
            let standing = standing_with_owner(self, edge, now);
            let (standing, message) = describe(self, found, &standing);
            OwnerRelation {
                owner: reference_identity(self, edge),
                controller: found.controller == OptionalBool::True,
                blocks: found.blocks == OptionalBool::True,
                standing,
                message,
            }
        });
        Some(ObjectRelations {
            owners: owners.collect(),
            blockers: blockers(self, id),
            dependents: count_dependents(self, id),
        })
    }

    /// The uids of all objects and virtual owners with this kind, namespace and name. Scans the whole graph.
    #[must_use]
    pub fn uids_named(&self, target: &CallTarget) -> Vec<Uid> {
        let ids = self.graph.ids().filter(|id| {
            let node = self.graph.node(*id);
            node.kind == target.kind
                && node.name == target.name
                && *self.graph.namespace(*id) == *target.namespace
        });
        ids.map(|id| self.graph.node(id).uid.clone()).collect()
    }

    /// All objects of a namespace, without virtual owners. Scans the whole graph.
    #[must_use]
    pub fn objects_in(&self, namespace: &str) -> Vec<ObjectIdentity> {
        let ids = self.graph.ids().filter(|id| {
            self.graph.namespace(*id) == namespace
                && !self.graph.node(*id).facts.has(ObjectFacts::VIRTUAL)
        });
        ids.map(|id| self.identity(id)).collect()
    }

    /// The state of a kind's feed; `None` if the kind is not watched.
    #[must_use]
    pub fn kind_state(&self, kind: KindId) -> Option<KindState> {
        self.states.get(&kind).copied()
    }
}

/// A standing as an identifier, and as a predicate about the owner.
fn describe(
    index: &OwnershipIndex,
    edge: &OwnerEdge,
    standing: &OwnerStanding,
) -> (&'static str, String) {
    let owner = index.graph.node(edge.owner);
    let (name, sentence) = match standing {
        OwnerStanding::Solid if owner.facts.has(ObjectFacts::DELETING) => {
            ("Solid", "exists, and is being deleted")
        }
        OwnerStanding::Solid => ("Solid", "exists"),
        OwnerStanding::Waiting => ("Waiting", "is being deleted and waits for its dependents"),
        OwnerStanding::Orphaning => ("Orphaning", "is being deleted without its dependents"),
        OwnerStanding::Dangling(proof) => return ("Absent", format!("is gone: {proof}")),
        OwnerStanding::Unserved => (
            "Unserved",
            "is of a type the server does not have: presumed alive",
        ),
        OwnerStanding::OutOfReach => (
            "OutOfReach",
            "would be in a namespace, and its dependent is cluster-scoped: presumed alive",
        ),
        OwnerStanding::Doubtful => (
            "Doubtful",
            "was being deleted without its dependents when the watch of its kind was lost: it is read again",
        ),
        OwnerStanding::Frozen(kind) => {
            let kind = kind_name(index, *kind);
            let sentence = format!("is presumed alive until {kind} have been listed again");
            return ("Frozen", sentence);
        }
        OwnerStanding::Unlisted(until) => {
            let sentence =
                format!("is presumed alive until its kind has been listed, or {until:.0}");
            return ("Unlisted", sentence);
        }
        OwnerStanding::Unknown(_) => (
            "Unknown",
            "has not been seen: presumed alive until it is read from the server",
        ),
    };
    (name, sentence.to_owned())
}

fn blockers(index: &OwnershipIndex, id: NodeId) -> (Vec<ObjectIdentity>, usize) {
    let is_blocking = |edge: &OwnerEdge| edge.blocks == OptionalBool::True && edge.dependent != id;
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

fn count_dependents(index: &OwnershipIndex, id: NodeId) -> Vec<DependentCount> {
    let mut below = reachable(index, vec![id], WalkDirection::Down);
    below.remove(&id);
    let mut counts: BTreeMap<KindId, usize> = BTreeMap::new();
    for id in below {
        *counts.entry(index.graph.node(id).kind).or_default() += 1;
    }
    let named = counts.into_iter().map(|(id, count)| DependentCount {
        kind: match index.catalog.get(id) {
            Some(kind) => kind.kind.to_string(),
            None => "object".to_owned(),
        },
        resource: kind_name(index, id),
        count,
    });
    let mut named: Vec<DependentCount> = named.collect();
    named.sort_unstable();
    named
}
