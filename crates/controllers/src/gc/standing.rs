//! How an object stands with each of its owners.
//!
//! Mirrors `isDangling` and the classification in `attemptToDeleteItem`: solid, dangling, waiting. Doubt of any kind is
//! a standing of its own and means that nothing follows: an owner is presumed alive until its absence is proven.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::Coordinates;
use super::index::graph::{EdgeId, Facts, NodeId};
use super::index::{Index, Lookup};
use super::reason::Reason;
use crate::runtime::call::AbsenceProof;
use crate::runtime::controller::ObjectIdentity;
use crate::runtime::kind::{KindId, KindScope, KindState};

/// How an object stands with one owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    /// The owner lives.
    Solid,
    /// The owner is being deleted and waits for its dependents.
    Waiting,
    /// The owner is being deleted and leaves its dependents behind.
    Orphaning,
    /// The owner does not exist.
    Dangling(AbsenceProof),
    /// The owner's type is not served.
    Unserved,
    /// The owner's kind lives in namespaces, the object does not.
    OutOfReach,
    /// The owner's kind is being listed anew because its past was taken back.
    Frozen(KindId),
    /// The owner's kind is about to be listed for the first time; until then at most.
    Unlisted(Timestamp),
    /// Nobody has shown the owner: ask.
    Unknown(Coordinates),
}

/// How an object stands with all its owners.
#[derive(Debug, Default)]
pub(super) struct Standings {
    /// The first owner that lives.
    pub(super) solid: Option<EdgeId>,
    pub(super) waiting: Vec<EdgeId>,
    pub(super) orphaning: Vec<EdgeId>,
    pub(super) dangling: Vec<(EdgeId, AbsenceProof)>,
    /// Owners that have to be asked for.
    pub(super) unknown: BTreeMap<Coordinates, EdgeId>,
    /// The weightiest reason for which nothing can follow, whatever is asked.
    pub(super) doubt: Option<(EdgeId, Standing)>,
}

// === impl Standings ===

impl Standings {
    pub(super) fn of(index: &Index, id: NodeId, now: Timestamp) -> Self {
        let mut all = Self::default();
        for (edge, _) in index.graph.owners(id) {
            match standing(index, edge, now) {
                Standing::Solid => all.solid = all.solid.or(Some(edge)),
                Standing::Waiting => all.waiting.push(edge),
                Standing::Orphaning => all.orphaning.push(edge),
                Standing::Dangling(proof) => all.dangling.push((edge, proof)),
                Standing::Unknown(coordinates) => {
                    all.unknown.entry(coordinates).or_insert(edge);
                }
                doubt => all.doubted(edge, doubt),
            }
        }
        all
    }

    /// Keeps the doubt that lasts longest.
    fn doubted(&mut self, edge: EdgeId, doubt: Standing) {
        let weight = |doubt: &Standing| match doubt {
            Standing::OutOfReach => 3,
            Standing::Unserved => 2,
            Standing::Frozen(_) => 1,
            _ => 0,
        };
        if self
            .doubt
            .as_ref()
            .is_none_or(|(_, known)| weight(known) < weight(&doubt))
        {
            self.doubt = Some((edge, doubt));
        }
    }

    /// All references that are to go if the object stays.
    pub(super) fn loose(&self) -> BTreeSet<EdgeId> {
        let dangling = self.dangling.iter().map(|(edge, _)| edge);
        let loose = self.waiting.iter().chain(&self.orphaning).chain(dangling);
        loose.copied().collect()
    }
}

/// How an object stands with the owner behind one of its references.
pub(super) fn standing(index: &Index, edge: EdgeId, now: Timestamp) -> Standing {
    let reference = index.graph.edge(edge);
    let owner = index.graph.node(reference.owner);
    let is_shown = !owner.facts.has(Facts::VIRTUAL);
    if is_shown && index.states.get(&owner.kind) == Some(&KindState::Frozen) {
        return Standing::Frozen(owner.kind);
    }
    if is_shown && owner.facts.is_orphaning() {
        // Whatever else the reference says about it: the owner cannot go while anybody refers to its uid.
        return Standing::Orphaning;
    }
    let Some(coordinates) = index.coordinates(edge) else {
        return Standing::Unserved;
    };
    let is_clusterwide = index.graph.namespace(reference.dependent).is_empty();
    if is_clusterwide && index.scope(coordinates.kind) == Some(KindScope::Namespaced) {
        return Standing::OutOfReach;
    }
    let state = index.states.get(&coordinates.kind);
    if state == Some(&KindState::Frozen) {
        return Standing::Frozen(coordinates.kind);
    }
    match index.lookups.get(&coordinates) {
        Some(Lookup::Absent(proof)) => gone(index, &coordinates, proof),
        _ if is_shown && index.matches(edge) => alive(owner.facts),
        Some(Lookup::Alive(facts, _)) => alive(*facts),
        None => unknown(index, coordinates, state, now),
    }
}

/// DEVIATION(late-orphans): a dependent that was not known when its owner's orphans were let go is let go when it
/// appears; upstream collects it, because by then the owner is simply gone.
fn gone(index: &Index, owner: &Coordinates, proof: &AbsenceProof) -> Standing {
    if index.orphaned.get(&owner.uid).is_some() {
        Standing::Orphaning
    } else {
        Standing::Dangling(proof.clone())
    }
}

/// Nothing was asked yet about these coordinates.
fn unknown(
    index: &Index,
    coordinates: Coordinates,
    state: Option<&KindState>,
    now: Timestamp,
) -> Standing {
    if let Some(proof) = index.absent.get(&coordinates) {
        return gone(index, &coordinates, proof);
    }
    if let Some(KindState::Syncing(since)) = state {
        let until = super::sync_deadline(*since);
        if now < until {
            return Standing::Unlisted(until);
        }
    }
    Standing::Unknown(coordinates)
}

fn alive(facts: Facts) -> Standing {
    if facts.is_orphaning() {
        Standing::Orphaning
    } else if facts.is_waiting() {
        Standing::Waiting
    } else {
        Standing::Solid
    }
}

/// The owner as a reference names it.
pub(super) fn named(index: &Index, edge: EdgeId) -> ObjectIdentity {
    let reference = index.graph.edge(edge);
    let (api_version, kind) = index.types.text(reference.typed);
    let scope = index.types.kind(reference.typed);
    let namespace = match scope.and_then(|kind| index.scope(kind)) {
        Some(KindScope::Cluster) => "",
        Some(KindScope::Namespaced) | None => index.graph.namespace(reference.dependent),
    };
    ObjectIdentity {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: index.graph.reference_name(edge).to_owned(),
        uid: index.graph.node(reference.owner).uid.to_string(),
    }
}

/// Why nothing follows from a doubtful standing.
pub(super) fn doubt(index: &Index, edge: EdgeId, standing: &Standing) -> Reason {
    let owner = named(index, edge);
    match standing {
        Standing::Unserved => Reason::Unserved { owner },
        Standing::OutOfReach => Reason::OutOfReach { owner },
        Standing::Frozen(kind) => Reason::Frozen {
            kind: kind_name(index, *kind),
        },
        Standing::Unlisted(_) => Reason::WaitsForList { owner },
        _ => Reason::AsksFor { owner },
    }
}

pub(super) fn kind_name(index: &Index, kind: KindId) -> String {
    index
        .catalog
        .get(kind)
        .map_or_else(|| "an unknown kind".to_owned(), ToString::to_string)
}
