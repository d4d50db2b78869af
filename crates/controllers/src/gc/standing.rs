//! The standing of an object with each of its owners.
//!
//! Mirrors `isDangling` and the classification in `attemptToDeleteItem`: solid, dangling, waiting. Each kind of doubt is
//! a standing of its own and prevents a write: an owner is presumed alive until its absence is proven.
//!
//! DEVIATION(gc-starts-per-kind): upstream collects nothing before all kinds were listed, or 30 s have passed. Here an object
//! is judged as soon as it is known. If its owner's kind is not listed yet, the decision waits for that kind, and after
//! 30 s the owner is read.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::OwnerCoordinates;
use super::index::graph::{EdgeId, NodeId, ObjectFacts};
use super::index::{OwnerLookup, OwnershipIndex};
use super::reason::GcReason;
use crate::runtime::call::AbsenceProof;
use crate::runtime::controller::ObjectIdentity;
use crate::runtime::kind::{KindId, KindScope, KindState};

/// The standing of an object with one owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OwnerStanding {
    /// The owner exists.
    Solid,
    /// The owner is in foreground deletion and waits for its dependents.
    Waiting,
    /// The owner is in orphan deletion.
    Orphaning,
    /// The owner is proven absent.
    Dangling(AbsenceProof),
    /// The owner's type is not served, and no watch has shown the owner's deletion.
    Unserved,
    /// The owner's kind is namespaced and the object is cluster-scoped.
    OutOfReach,
    /// The owner's kind is frozen: the server's store was restored and the kind is listed again.
    Frozen(KindId),
    /// The owner was in orphan deletion, and the feed of its kind lost its watch since. The owner is read again.
    Doubtful,
    /// The owner's kind is in its first list. The collector waits for it until this time.
    Unlisted(Timestamp),
    /// No feed has shown the owner, so it has to be read from the server.
    Unknown(OwnerCoordinates),
}

/// The standings of an object with all its owners.
#[derive(Debug, Default)]
pub(super) struct OwnerStandings {
    /// The first owner that exists.
    pub(super) solid: Option<EdgeId>,
    pub(super) waiting: Vec<EdgeId>,
    pub(super) orphaning: Vec<EdgeId>,
    pub(super) dangling: Vec<(EdgeId, AbsenceProof)>,
    /// Owners that have to be read from the server.
    pub(super) unknown: BTreeMap<OwnerCoordinates, EdgeId>,
    /// The doubt that lasts longest. It prevents a write, whatever a lookup would find.
    pub(super) doubt: Option<(EdgeId, OwnerStanding)>,
}

// === impl OwnerStandings ===

impl OwnerStandings {
    pub(super) fn of(index: &OwnershipIndex, id: NodeId, now: Timestamp) -> Self {
        let mut all = Self::default();
        for (edge, _) in index.graph.owners(id) {
            match standing_with_owner(index, edge, now) {
                OwnerStanding::Solid => all.solid = all.solid.or(Some(edge)),
                OwnerStanding::Waiting => all.waiting.push(edge),
                OwnerStanding::Orphaning => all.orphaning.push(edge),
                OwnerStanding::Dangling(proof) => all.dangling.push((edge, proof)),
                OwnerStanding::Unknown(coordinates) => {
                    all.unknown.entry(coordinates).or_insert(edge);
                }
                doubt => all.keep_doubt(edge, doubt),
            }
        }
        all
    }

    /// Keeps the doubt that lasts longest.
    fn keep_doubt(&mut self, edge: EdgeId, doubt: OwnerStanding) {
        let weight = |doubt: &OwnerStanding| match doubt {
            OwnerStanding::OutOfReach => 3,
            OwnerStanding::Unserved => 2,
            OwnerStanding::Frozen(_) | OwnerStanding::Doubtful => 1,
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

    /// The references to remove if the object stays.
    pub(super) fn removable_references(&self) -> BTreeSet<EdgeId> {
        let dangling = self.dangling.iter().map(|(edge, _)| edge);
        let loose = self.waiting.iter().chain(&self.orphaning).chain(dangling);
        loose.copied().collect()
    }
}

/// The standing of an object with the owner of one of its references.
pub(super) fn standing_with_owner(
    index: &OwnershipIndex,
    edge: EdgeId,
    now: Timestamp,
) -> OwnerStanding {
    let reference = index.graph.edge(edge);
    let owner = index.graph.node(reference.owner);
    let is_shown = !owner.facts.has(ObjectFacts::VIRTUAL);
    if is_shown && index.states.get(&owner.kind) == Some(&KindState::Frozen) {
        return OwnerStanding::Frozen(owner.kind);
    }
    if is_shown && owner.facts.is_orphaning() && owner.facts.has(ObjectFacts::DOUBTFUL) {
        return OwnerStanding::Doubtful;
    }
    if is_shown && owner.facts.is_orphaning() {
        // This holds even if the reference has another kind or name: the owner stays while an object refers to its uid.
        return OwnerStanding::Orphaning;
    }
    let Some(coordinates) = index.coordinates(edge) else {
        let deleted = index.observed_deletion(edge, now);
        return deleted.map_or(OwnerStanding::Unserved, |(owner, proof)| {
            absent_standing(index, &owner, proof)
        });
    };
    let is_clusterwide = index.graph.namespace(reference.dependent).is_empty();
    if is_clusterwide && index.scope(coordinates.kind) == Some(KindScope::Namespaced) {
        return OwnerStanding::OutOfReach;
    }
    let state = index.states.get(&coordinates.kind);
    if state == Some(&KindState::Frozen) {
        return OwnerStanding::Frozen(coordinates.kind);
    }
    match index.lookups.get(&coordinates) {
        Some(OwnerLookup::Absent(proof)) => absent_standing(index, &coordinates, proof),
        _ if is_shown && index.names_owner_correctly(edge) => living_standing(owner.facts),
        Some(OwnerLookup::Alive(facts, _)) => living_standing(*facts),
        None => unasked_standing(index, coordinates, state, now),
    }
}

/// DEVIATION(late-orphans): a dependent that appears after its owner's orphan deletion is orphaned too; upstream
/// collects it, because by then the owner is absent.
fn absent_standing(
    index: &OwnershipIndex,
    owner: &OwnerCoordinates,
    proof: &AbsenceProof,
) -> OwnerStanding {
    if index.orphaned_owners.get(&owner.uid).is_some() {
        OwnerStanding::Orphaning
    } else {
        OwnerStanding::Dangling(proof.clone())
    }
}

/// The standing if the owner has not been looked up under these coordinates.
fn unasked_standing(
    index: &OwnershipIndex,
    coordinates: OwnerCoordinates,
    state: Option<&KindState>,
    now: Timestamp,
) -> OwnerStanding {
    if let Some(proof) = index.remembered_absence(&coordinates, now) {
        return absent_standing(index, &coordinates, proof);
    }
    if let Some(KindState::Syncing(since)) = state {
        let until = super::sync_deadline(*since);
        if now < until {
            return OwnerStanding::Unlisted(until);
        }
    }
    OwnerStanding::Unknown(coordinates)
}

fn living_standing(facts: ObjectFacts) -> OwnerStanding {
    if facts.is_orphaning() {
        OwnerStanding::Orphaning
    } else if facts.is_waiting() {
        OwnerStanding::Waiting
    } else {
        OwnerStanding::Solid
    }
}

/// The owner's identity as a reference gives it.
pub(super) fn reference_identity(index: &OwnershipIndex, edge: EdgeId) -> ObjectIdentity {
    let reference = index.graph.edge(edge);
    let (api_version, kind) = index.types.text(reference.type_id);
    let scope = index.types.kind(reference.type_id);
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

/// The reason for a doubt about an owner.
pub(super) fn doubt_reason(
    index: &OwnershipIndex,
    edge: EdgeId,
    standing: &OwnerStanding,
) -> GcReason {
    let owner = reference_identity(index, edge);
    match standing {
        OwnerStanding::Unserved => GcReason::Unserved { owner },
        OwnerStanding::OutOfReach => GcReason::OutOfReach { owner },
        OwnerStanding::Frozen(kind) => GcReason::Frozen {
            kind: kind_name(index, *kind),
        },
        OwnerStanding::Unlisted(_) => GcReason::WaitsForList { owner },
        _ => GcReason::AsksFor { owner },
    }
}

pub(super) fn kind_name(index: &OwnershipIndex, kind: KindId) -> String {
    index
        .catalog
        .get(kind)
        .map_or_else(|| "an unknown kind".to_owned(), ToString::to_string)
}
