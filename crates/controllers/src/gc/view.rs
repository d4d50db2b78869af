//! A copy of the ownership graph, or of a part of it, for `caretaker graph` and the debug endpoints.
//!
//! `graph.json` is its serialised form, `dot` the form for Graphviz. Changes nothing.

use std::collections::BTreeSet;

use serde::Serialize;

use super::index::OwnershipIndex;
use super::index::graph::{NodeId, ObjectFacts, OptionalBool};
use crate::runtime::record::Uid;

/// Nodes sorted by uid, and edges sorted by dependent and owner.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct GraphView {
    /// Objects and virtual owners.
    pub nodes: Vec<NodeView>,
    /// The ownerReferences between these nodes.
    pub edges: Vec<EdgeView>,
}

/// An object or a virtual owner.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeView {
    pub uid: String,
    pub api_version: String,
    pub kind: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    pub name: String,
    /// Whether only references name it and no feed has shown it.
    pub r#virtual: bool,
    /// Whether it has a deletionTimestamp.
    pub deleting: bool,
    /// Whether it is in foreground deletion and waits for its dependents.
    pub foreground: bool,
}

/// One ownerReference of a dependent.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct EdgeView {
    /// The dependent's uid.
    pub dependent: String,
    /// The owner's uid.
    pub owner: String,
    /// Whether the reference has `controller: true`.
    pub controller: bool,
    /// Whether the reference has `blockOwnerDeletion: true`.
    pub blocks: bool,
}

/// The part of the graph that a view holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GraphSelection {
    /// All objects, also those without owners and dependents.
    Whole,
    /// Objects that have owners or dependents.
    Related,
    /// Objects that are connected with these, in any direction.
    Around(Vec<Uid>),
    /// These objects, their owners and the owners of those.
    Above(Vec<Uid>),
    /// These objects, their dependents and the dependents of those.
    Below(Vec<Uid>),
    /// These objects, with all their owners and dependents, direct and indirect.
    Through(Vec<Uid>),
    /// Objects of this namespace that have owners or dependents, and all their owners, also cluster-scoped ones.
    Namespace(String),
}

/// The direction in which references are followed: to owners, to dependents, or both.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WalkDirection {
    Up,
    Down,
    Both,
}

// === impl GraphView ===

impl GraphView {
    /// Copies a part of the index.
    #[must_use]
    pub fn of(index: &OwnershipIndex, part: &GraphSelection) -> Self {
        let chosen: BTreeSet<NodeId> = match part {
            GraphSelection::Whole => index.graph.ids().collect(),
            GraphSelection::Related => index
                .graph
                .ids()
                .filter(|id| is_related(index, *id))
                .collect(),
            GraphSelection::Around(uids) => {
                let mut around = reachable(index, find_nodes(index, uids), WalkDirection::Both);
                around.retain(|id| is_related(index, *id));
                around
            }
            GraphSelection::Above(uids) => {
                reachable(index, find_nodes(index, uids), WalkDirection::Up)
            }
            GraphSelection::Below(uids) => {
                reachable(index, find_nodes(index, uids), WalkDirection::Down)
            }
            GraphSelection::Through(uids) => {
                let mut line = reachable(index, find_nodes(index, uids), WalkDirection::Up);
                line.extend(reachable(
                    index,
                    find_nodes(index, uids),
                    WalkDirection::Down,
                ));
                line
            }
            GraphSelection::Namespace(namespace) => {
                let here = index
                    .graph
                    .ids()
                    .filter(|id| index.graph.namespace(*id) == namespace && is_related(index, *id));
                reachable(index, here.collect(), WalkDirection::Up)
            }
        };
        let mut nodes: Vec<NodeView> = chosen.iter().map(|id| node_view(index, *id)).collect();
        nodes.sort();
        let mut edges: Vec<EdgeView> = chosen
            .iter()
            .flat_map(|id| index.graph.owners(*id))
            .filter(|(_, edge)| chosen.contains(&edge.owner))
            .map(|(_, edge)| EdgeView {
                dependent: index.graph.node(edge.dependent).uid.to_string(),
                owner: index.graph.node(edge.owner).uid.to_string(),
                controller: edge.controller == OptionalBool::True,
                blocks: edge.blocks == OptionalBool::True,
            })
            .collect();
        edges.sort();
        Self { nodes, edges }
    }
}

fn is_related(index: &OwnershipIndex, id: NodeId) -> bool {
    index.graph.has_owners(id) || index.graph.has_dependents(id)
}

fn find_nodes(index: &OwnershipIndex, uids: &[Uid]) -> Vec<NodeId> {
    let ids = uids.iter().filter_map(|uid| index.graph.find(uid));
    ids.collect()
}

/// All objects that references lead to from some objects, and these objects.
pub(super) fn reachable(
    index: &OwnershipIndex,
    mut open: Vec<NodeId>,
    direction: WalkDirection,
) -> BTreeSet<NodeId> {
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        if direction != WalkDirection::Down {
            open.extend(index.graph.owners(id).map(|(_, edge)| edge.owner));
        }
        if direction != WalkDirection::Up {
            open.extend(index.graph.dependents(id).map(|(_, edge)| edge.dependent));
        }
    }
    seen
}

fn node_view(index: &OwnershipIndex, id: NodeId) -> NodeView {
    let identity = index.identity(id);
    let facts = index.graph.node(id).facts;
    NodeView {
        uid: identity.uid,
        api_version: identity.api_version,
        kind: identity.kind,
        namespace: identity.namespace,
        name: identity.name,
        r#virtual: facts.has(ObjectFacts::VIRTUAL),
        deleting: facts.has(ObjectFacts::DELETING),
        foreground: facts.is_waiting(),
    }
}
