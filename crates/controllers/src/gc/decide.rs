//! Decides what to do with one object. Reads the index, changes nothing, asks for at most one request.
//!
//! Mirrors `attemptToDeleteItem`, `processDeletingDependentsItem` and `attemptToOrphanWorker`. The actions have the same
//! names here, in the log and in the summary lines:
//!
//! | action | request | rules |
//! |---|---|---|
//! | collect | delete an object without a living owner | `OwnerAbsent`, `OwnerWaiting` |
//! | detach | remove references to owners that are gone, because another owner lives | `LosesOwners` |
//! | orphan | remove the reference to an owner that is deleted without its dependents | `Orphaned` |
//! | release | remove our finalizer from an owner whose dependents are gone or orphaned | `DependentsGone`, `DependentsOrphaned` |
//! | unblock | clear `blockOwnerDeletion` in a ring of owners that wait for each other | `Ring` |

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::index::graph::{EdgeId, Facts, Flag, NodeId};
use super::index::lookups::UNSHOWN_RECHECK;
use super::index::{FOREGROUND, Index, Lookup, ORPHAN};
use super::patches;
use super::reason::Reason;
use super::standing::{Standing, Standings, doubt, kind_name, named};
use super::{Coordinates, Key};
use crate::runtime::call::{ApiCall, DeletePropagation, JudgedVersion, PatchForm};
use crate::runtime::controller::{EventNote, EventSeverity, NextStep, Verdict};
use crate::runtime::kind::{KindId, KindScope, KindState};
use crate::runtime::record::Uid;

/// The most owners that the search for a ring visits. No sane cluster has a longer ring.
const RING_SEARCH_MAX: usize = 1_000;

/// The Event about a reference that leads into another namespace.
const INVALID_NAMESPACE: &str = "OwnerRefInvalidNamespace";
/// The Event about an owner that is released although some kinds were never listed.
const KINDS_UNSEEN: &str = "DependentsMayRemain";

type Decision = (NextStep<Key>, Reason);

/// The decision for an object.
pub(super) fn object(index: &Index, uid: &Uid, now: Timestamp) -> Verdict<Key, Reason> {
    let Some(id) = index.graph.find(uid) else {
        return verdict((NextStep::Rest, Reason::Unknown), Vec::new());
    };
    let mut notes = Vec::new();
    notes.extend(foreign_namespace(index, id));
    let (next, because) = judge(index, id, now);
    notes.extend(unseen(index, id, &because));
    verdict((next, because), notes)
}

/// The decision for an owner that dependents refer to: read it, or not.
pub(super) fn owner(index: &Index, owner: &Coordinates, now: Timestamp) -> Verdict<Key, Reason> {
    let decision = match asked_at(index, owner, now) {
        Some(at) if at <= now => {
            let identity = index.graph.find(&owner.uid).map(|id| index.identity(id));
            let call = ApiCall::Get {
                target: owner.target(),
            };
            let owner = identity.unwrap_or_default();
            (NextStep::Call(call), Reason::AsksFor { owner })
        }
        Some(at) => (NextStep::At(at), Reason::NotShown),
        None => (NextStep::Rest, Reason::Settled),
    };
    verdict(decision, Vec::new())
}

fn verdict((next, because): Decision, notes: Vec<EventNote>) -> Verdict<Key, Reason> {
    Verdict {
        next,
        because,
        notes,
    }
}

fn judge(index: &Index, id: NodeId, now: Timestamp) -> Decision {
    let node = index.graph.node(id);
    if node.facts.has(Facts::VIRTUAL) {
        return (NextStep::Rest, Reason::Unknown);
    }
    if index.states.get(&node.kind) == Some(&KindState::Frozen) {
        let kind = kind_name(index, node.kind);
        return (NextStep::Retry, Reason::Frozen { kind });
    }
    if node.facts.has(Facts::DOUBTFUL) {
        let target = index.target(id);
        return (NextStep::Call(ApiCall::Get { target }), Reason::Doubtful);
    }
    if node.facts.has(Facts::GOING) {
        return (NextStep::Rest, Reason::Going);
    }
    let standings = Standings::of(index, id, now);
    if let Some(first) = standings.orphaning.first() {
        return orphan(index, id, &standings, *first);
    }
    if node.facts.is_orphaning() {
        return wait_for_orphans(index, id, now);
    }
    if node.facts.is_waiting() {
        return wait_for_dependents(index, id, now);
    }
    if node.facts.has(Facts::DELETING) {
        return (NextStep::Rest, Reason::Deleting);
    }
    if !index.graph.has_owners(id) {
        return (NextStep::Rest, Reason::Unowned);
    }
    dependent(index, id, &standings, now)
}

/// Orphans an object whose owner is deleted without its dependents. This also happens while the object itself is being
/// deleted, because the owner waits for it.
fn orphan(index: &Index, id: NodeId, standings: &Standings, first: EdgeId) -> Decision {
    let is_settled =
        standings.doubt.is_none() && standings.unknown.is_empty() && standings.waiting.is_empty();
    let gone = if is_settled {
        standings.loose()
    } else {
        standings.orphaning.iter().copied().collect()
    };
    let owner = named(index, first);
    (
        patch(index, id, patches::without_references(index, id, &gone)),
        Reason::Orphaned { owner },
    )
}

/// A dependent that is not being deleted.
fn dependent(index: &Index, id: NodeId, standings: &Standings, now: Timestamp) -> Decision {
    if let Some((edge, standing)) = &standings.doubt {
        let because = doubt(index, *edge, standing);
        let next = match standing {
            Standing::Unlisted(until) => NextStep::At(*until),
            Standing::Frozen(_) => NextStep::Retry,
            _ => NextStep::Rest,
        };
        return (next, because);
    }
    if let Some(edge) = standings.unknown.values().next() {
        let owner = named(index, *edge);
        let owners = standings
            .unknown
            .keys()
            .cloned()
            .map(|owner| Key::Owner(owner.into()));
        return (NextStep::After(owners.collect()), Reason::AsksFor { owner });
    }
    if let Some(unconfirmed) = unconfirmed(index, standings, now) {
        return unconfirmed;
    }
    match standings.solid {
        Some(solid) => detach(index, id, standings, solid),
        None => collect(index, id, standings),
    }
}

/// Reads an owner that waits in the foreground before its dependent is deleted: its user may have changed the policy.
fn unconfirmed(index: &Index, standings: &Standings, now: Timestamp) -> Option<Decision> {
    let edge = standings.waiting.iter().find(|edge| {
        let owner = index.graph.edge(**edge).owner;
        !index
            .lookups
            .is_confirmed(&index.graph.node(owner).uid, now)
    })?;
    let owner = named(index, *edge);
    let coordinates = index.coordinates(*edge)?;
    let next = NextStep::After(vec![Key::Owner(coordinates.into())]);
    Some((next, Reason::AsksFor { owner }))
}

/// Detaches an object with a living owner from its other owners.
fn detach(index: &Index, id: NodeId, standings: &Standings, solid: EdgeId) -> Decision {
    let kept = named(index, solid);
    let loose = standings.loose();
    if loose.is_empty() {
        return (NextStep::Rest, Reason::Owned { owner: kept });
    }
    let owners = loose.iter().map(|edge| named(index, *edge)).collect();
    (
        patch(index, id, patches::without_references(index, id, &loose)),
        Reason::LosesOwners { owners, kept },
    )
}

/// Collects an object without a living owner.
fn collect(index: &Index, id: NodeId, standings: &Standings) -> Decision {
    let facts = index.graph.node(id).facts;
    if let Some(waiting) = standings.waiting.first() {
        let owner = named(index, *waiting);
        if index.graph.has_dependents(id) {
            if let Some(ring) = unblock_ring(index, id) {
                return ring;
            }
            let next = delete(index, id, DeletePropagation::Foreground);
            return (next, Reason::OwnerWaiting { owner });
        }
        return (
            delete(index, id, own_policy(facts)),
            Reason::OwnerWaiting { owner },
        );
    }
    let Some((edge, proof)) = standings.dangling.first() else {
        return (NextStep::Rest, Reason::Unowned);
    };
    let because = Reason::OwnerAbsent {
        owner: named(index, *edge),
        proof: proof.clone(),
    };
    (delete(index, id, own_policy(facts)), because)
}

/// Unblocks an object one of whose dependents waits in the foreground too: the two may form a ring.
fn unblock_ring(index: &Index, id: NodeId) -> Option<Decision> {
    let mut own = index.graph.owners(id);
    if !own.any(|(_, edge)| edge.blocks == Flag::True) {
        return None;
    }
    let mut dependents = index.graph.dependents(id);
    let (_, edge) =
        dependents.find(|(_, edge)| index.graph.node(edge.dependent).facts.is_waiting())?;
    Some(unblock(index, id, edge.dependent))
}

fn unblock(index: &Index, id: NodeId, with: NodeId) -> Decision {
    let with = index.identity(with);
    let next = patch(index, id, patches::unblocked_references(index, id));
    (next, Reason::Ring { with })
}

/// An owner that is deleted in the foreground: it waits for its dependents, then it is released.
fn wait_for_dependents(index: &Index, id: NodeId, now: Timestamp) -> Decision {
    let blocking = index.graph.node(id).blocking;
    if blocking > 0 {
        return match waits_for_itself(index, id) {
            Some(with) => unblock(index, id, with),
            None => (NextStep::Rest, Reason::WaitsForDependents { blocking }),
        };
    }
    release(index, id, now, FOREGROUND, |unseen| {
        Reason::DependentsGone { unseen }
    })
}

/// DEVIATION(foreground-ring): owners that were deleted in the foreground at the same time and block each other wait for
/// ever upstream. Here the first owner that finds itself in the ring stops blocking.
fn waits_for_itself(index: &Index, id: NodeId) -> Option<NodeId> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![id]);
    while let Some(at) = open.pop() {
        for (_, edge) in index.graph.owners(at) {
            let waits = index.graph.node(edge.owner).facts.is_waiting();
            if !waits || edge.blocks != Flag::True || edge.owner == at {
                continue;
            }
            if edge.owner == id {
                return Some(at);
            }
            if seen.len() < RING_SEARCH_MAX && seen.insert(edge.owner) {
                open.push(edge.owner);
            }
        }
    }
    None
}

/// An owner that is deleted without its dependents: it waits until all are orphaned, then it is released.
fn wait_for_orphans(index: &Index, id: NodeId, now: Timestamp) -> Decision {
    let mut dependents = index.graph.dependents(id);
    if let Some((_, edge)) = dependents.next() {
        let next = index.identity(edge.dependent);
        return (NextStep::Rest, Reason::WaitsForOrphans { next });
    }
    release(index, id, now, ORPHAN, |unseen| {
        Reason::DependentsOrphaned { unseen }
    })
}

/// Releases an owner once every kind that may hold dependents has been listed, or its first list has taken too long.
///
/// DEVIATION(first-lists): upstream does not wait for the first list of a kind, and does not report that it did not see
/// the kind.
fn release(
    index: &Index,
    id: NodeId,
    now: Timestamp,
    finalizer: &str,
    because: fn(Vec<String>) -> Reason,
) -> Decision {
    let syncing = index.syncing(now);
    if let Some(until) = syncing.iter().map(|(_, until)| *until).max() {
        let kinds = kind_names(index, syncing.iter().map(|(kind, _)| *kind));
        return (NextStep::At(until), Reason::WaitsForKinds { kinds });
    }
    let overdue = index.unlisted.keys().copied();
    let unseen = kind_names(index, overdue);
    (
        patch(index, id, patches::without_finalizer(index, id, finalizer)),
        because(unseen),
    )
}

fn kind_names(index: &Index, kinds: impl Iterator<Item = KindId>) -> Vec<String> {
    kinds.map(|kind| kind_name(index, kind)).collect()
}

/// The propagation policy of a delete follows the finalizers that the object has already.
fn own_policy(facts: Facts) -> DeletePropagation {
    if facts.has(Facts::ORPHAN) {
        DeletePropagation::Orphan
    } else if facts.has(Facts::FOREGROUND) {
        DeletePropagation::Foreground
    } else {
        DeletePropagation::Background
    }
}

fn delete(index: &Index, id: NodeId, propagation: DeletePropagation) -> NextStep<Key> {
    NextStep::Call(ApiCall::Delete {
        target: index.target(id),
        judged: judged(index, id),
        propagation: Some(propagation),
        grace_secs: None,
    })
}

fn patch(index: &Index, id: NodeId, patch: Value) -> NextStep<Key> {
    NextStep::Call(ApiCall::Patch {
        target: index.target(id),
        judged: judged(index, id),
        subresource: None,
        form: PatchForm::Merge,
        patch,
    })
}

fn judged(index: &Index, id: NodeId) -> JudgedVersion {
    JudgedVersion {
        uid: index.graph.node(id).uid.clone(),
        revision: index.graph.revision(id),
    }
}

/// When to read an owner: never if no reference leads to it, or if its state is known.
fn asked_at(index: &Index, owner: &Coordinates, now: Timestamp) -> Option<Timestamp> {
    let is_clusterwide = index.scope(owner.kind) == Some(KindScope::Cluster);
    if is_clusterwide != owner.namespace.is_empty() {
        // The kind was served again with another scope: no reference has these coordinates any more.
        return None;
    }
    let id = index.graph.find(&owner.uid)?;
    let facts = index.graph.node(id).facts;
    let confirmed_if = |facts: Facts| {
        let is_due = facts.is_waiting() && !index.lookups.is_confirmed(&owner.uid, now);
        is_due.then_some(now)
    };
    let is_shown = !facts.has(Facts::VIRTUAL) && index.target(id) == owner.target();
    match index.lookups.get(owner) {
        Some(Lookup::Absent(_)) => None,
        _ if is_shown => confirmed_if(facts),
        Some(Lookup::Alive(facts, at)) => {
            confirmed_if(*facts).or_else(|| Some(at.saturating_add(UNSHOWN_RECHECK).unwrap_or(now)))
        }
        None if index.absent.get(owner).is_some() => None,
        None => match index.states.get(&owner.kind) {
            Some(KindState::Syncing(since)) if now < super::sync_deadline(*since) => None,
            _ => Some(now),
        },
    }
}

/// The Event about a reference to an owner in another namespace, which is never looked up.
fn foreign_namespace(index: &Index, id: NodeId) -> Option<EventNote> {
    let own = index.graph.namespace(id);
    let (edge, _) = index.graph.owners(id).find(|(_, edge)| {
        let owner = index.graph.node(edge.owner);
        !owner.facts.has(Facts::VIRTUAL)
            && index.scope(owner.kind) == Some(KindScope::Namespaced)
            && index.graph.namespace(edge.owner) != own
    })?;
    let mut owner = named(index, edge);
    own.clone_into(&mut owner.namespace);
    Some(EventNote {
        about: index.identity(id),
        severity: EventSeverity::Warning,
        reason: INVALID_NAMESPACE,
        message: format!(
            "ownerRef [{}/{}, namespace: {}, name: {}, uid: {}] does not exist in namespace {own:?}",
            owner.api_version, owner.kind, owner.namespace, owner.name, owner.uid
        ),
        dedup_key: None,
    })
}

/// The Event about an owner that is released although some kinds were never listed.
fn unseen(index: &Index, id: NodeId, because: &Reason) -> Option<EventNote> {
    let (Reason::DependentsGone { unseen } | Reason::DependentsOrphaned { unseen }) = because
    else {
        return None;
    };
    (!unseen.is_empty()).then(|| EventNote {
        about: index.identity(id),
        severity: EventSeverity::Warning,
        reason: KINDS_UNSEEN,
        message: because.to_string(),
        dedup_key: None,
    })
}
