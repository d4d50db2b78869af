//! The ownership graph as people and programs look at it: a copy of the whole, or of the parts around some objects.
//!
//! `graph.json` is its serialised form, `dot` its picture. Made by whoever asks the driver; changes nothing.

use std::collections::BTreeSet;

use serde::Serialize;

use super::index::Index;
use super::index::graph::{Facts, Flag, NodeId};
use crate::runtime::record::Uid;

/// Nodes and edges, nodes by uid and edges by dependent and owner.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct View {
    /// Objects, and owners that are only referred to.
    pub nodes: Vec<Node>,
    /// References.
    pub edges: Vec<Edge>,
}

/// An object.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Its uid.
    pub uid: String,
    /// `apps/v1`.
    pub api_version: String,
    /// `Deployment`.
    pub kind: String,
    /// Empty for objects of the cluster.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Whether it is known from references only.
    pub r#virtual: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether its end waits for its dependents.
    pub foreground: bool,
}

/// A reference.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Edge {
    /// Who refers, by uid.
    pub dependent: String,
    /// To whom, by uid.
    pub owner: String,
    /// Whether the owner manages the dependent.
    pub controller: bool,
    /// Whether the dependent blocks the owner's foreground deletion.
    pub blocks: bool,
}

/// Which part of the graph to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Everything, also objects without owners and dependents.
    Whole,
    /// What has owners or dependents.
    Related,
    /// What is connected with these objects, whichever way the references point.
    Around(Vec<Uid>),
    /// These objects, their owners and the owners of those.
    Above(Vec<Uid>),
    /// These objects, their dependents and the dependents of those.
    Below(Vec<Uid>),
    /// These objects with all above and all below them.
    Through(Vec<Uid>),
    /// What has owners or dependents in this namespace, and all above it wherever that is.
    Namespace(String),
}

/// Which way references are followed.
#[derive(Clone, Copy)]
pub(super) struct Directions {
    up: bool,
    down: bool,
}

const UP: Directions = Directions {
    up: true,
    down: false,
};
pub(super) const DOWN: Directions = Directions {
    up: false,
    down: true,
};
const BOTH: Directions = Directions {
    up: true,
    down: true,
};

// === impl View ===

impl View {
    /// A copy of a part of what is known.
    #[must_use]
    pub fn of(index: &Index, part: &Part) -> Self {
        let chosen: BTreeSet<NodeId> = match part {
            Part::Whole => index.graph.ids().collect(),
            Part::Related => index
                .graph
                .ids()
                .filter(|id| is_related(index, *id))
                .collect(),
            Part::Around(uids) => {
                let mut around = reached(index, found(index, uids), BOTH);
                around.retain(|id| is_related(index, *id));
                around
            }
            Part::Above(uids) => reached(index, found(index, uids), UP),
            Part::Below(uids) => reached(index, found(index, uids), DOWN),
            Part::Through(uids) => {
                let mut line = reached(index, found(index, uids), UP);
                line.extend(reached(index, found(index, uids), DOWN));
                line
            }
            Part::Namespace(namespace) => {
                let here = index
                    .graph
                    .ids()
                    .filter(|id| index.graph.namespace(*id) == namespace && is_related(index, *id));
                reached(index, here.collect(), UP)
            }
        };
        let mut nodes: Vec<Node> = chosen.iter().map(|id| node(index, *id)).collect();
        nodes.sort();
        let mut edges: Vec<Edge> = chosen
            .iter()
            .flat_map(|id| index.graph.owners(*id))
            .filter(|(_, edge)| chosen.contains(&edge.owner))
            .map(|(_, edge)| Edge {
                dependent: index.graph.node(edge.dependent).uid.to_string(),
                owner: index.graph.node(edge.owner).uid.to_string(),
                controller: edge.controller == Flag::True,
                blocks: edge.blocks == Flag::True,
            })
            .collect();
        edges.sort();
        Self { nodes, edges }
    }
}

fn is_related(index: &Index, id: NodeId) -> bool {
    index.graph.has_owners(id) || index.graph.has_dependents(id)
}

fn found(index: &Index, uids: &[Uid]) -> Vec<NodeId> {
    let ids = uids.iter().filter_map(|uid| index.graph.find(uid));
    ids.collect()
}

/// Everything that references lead to from some objects, and these themselves.
pub(super) fn reached(
    index: &Index,
    mut open: Vec<NodeId>,
    directions: Directions,
) -> BTreeSet<NodeId> {
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        if directions.up {
            open.extend(index.graph.owners(id).map(|(_, edge)| edge.owner));
        }
        if directions.down {
            open.extend(index.graph.dependents(id).map(|(_, edge)| edge.dependent));
        }
    }
    seen
}

fn node(index: &Index, id: NodeId) -> Node {
    let identity = index.identity(id);
    let facts = index.graph.node(id).facts;
    Node {
        uid: identity.uid,
        api_version: identity.api_version,
        kind: identity.kind,
        namespace: identity.namespace,
        name: identity.name,
        r#virtual: facts.has(Facts::VIRTUAL),
        deleting: facts.has(Facts::DELETING),
        foreground: facts.is_waiting(),
    }
}
