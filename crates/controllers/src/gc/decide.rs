//! Decides what to do with one object or owner: at most one request. Reads the index and changes nothing.
//!
//! Mirrors `attemptToDeleteItem`, `processDeletingDependentsItem` and `attemptToOrphanWorker`. The actions have the same
//! names here, in the log and in the summary lines:
//!
//! | action | request | rules |
//! |---|---|---|
//! | collect | delete an object without a living owner | `OwnerAbsent`, `OwnerWaiting` |
//! | detach | remove references to owners that are gone, because another owner exists | `LosesOwners` |
//! | orphan | remove the reference to an owner that is deleted without its dependents | `Orphaned` |
//! | release | remove our finalizer from an owner whose dependents are gone or orphaned | `DependentsGone`, `DependentsOrphaned` |
//! | unblock | clear `blockOwnerDeletion` in a ring of owners that wait for each other | `Ring` |

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::index::catch_up::{CATCH_UP_INTERVAL, CheckStep};
use super::index::graph::{EdgeId, NodeId, ObjectFacts, OptionalBool};
use super::index::lookups::UNSHOWN_RECHECK;
use super::index::{FOREGROUND, ORPHAN, OwnerLookup, OwnershipIndex};
use super::patches;
use super::reason::GcReason;
use super::standing::{OwnerStanding, OwnerStandings, doubt_reason, kind_name, reference_identity};
use super::{GcKey, OwnerCoordinates};
use crate::runtime::call::{ApiCall, CallTarget, DeletePropagation, JudgedVersion, PatchForm};
use crate::runtime::controller::{EventNote, NextStep, Verdict};
use crate::runtime::kind::{KindId, KindScope, KindState};
use crate::runtime::queue::later;
use crate::runtime::record::Uid;

/// The most owners that the search for a ring visits. Rings in practice have two or three members.
const RING_SEARCH_MAX: usize = 1_000;

/// The Event about an ownerReference to an owner in another namespace.
const INVALID_NAMESPACE: &str = "OwnerRefInvalidNamespace";
/// The Event about an owner that is released before every kind has been listed.
const DEPENDENTS_MAY_REMAIN: &str = "DependentsMayRemain";
/// The Event about an object that stays although the deletion of its owner was observed.
const OWNER_UNPROVEN: &str = "OwnerDeletionUnproven";

type GcDecision = (NextStep<GcKey>, GcReason);

pub(super) fn decide_object(
    index: &OwnershipIndex,
    uid: &Uid,
    now: Timestamp,
) -> Verdict<GcKey, GcReason> {
    let Some(id) = index.graph.find(uid) else {
        return Verdict::new(NextStep::Rest, GcReason::Unknown);
    };
    let (next, because) = judge(index, id, now);
    let foreign = foreign_namespace_event(index, id);
    let unseen = unseen_kinds_event(index, id, &because);
    let unproven = unproven_owner_event(index, id, &because);
    let notes = foreign.into_iter().chain(unseen).chain(unproven);
    Verdict {
        next,
        because,
        notes: notes.collect(),
    }
}

/// Decides whether to read an owner that dependents refer to.
pub(super) fn decide_owner(
    index: &OwnershipIndex,
    owner: &OwnerCoordinates,
    now: Timestamp,
) -> Verdict<GcKey, GcReason> {
    let (next, because) = match owner_read_time(index, owner, now) {
        Some(at) if at <= now => {
            let identity = index.graph.find(&owner.uid).map(|id| index.identity(id));
            let target = owner.target();
            let call = match owner.version.clone() {
                None => ApiCall::Get { target },
                Some(version) => ApiCall::GetInVersion { target, version },
            };
            let owner = identity.unwrap_or_default();
            (NextStep::Call(call), GcReason::AsksFor { owner })
        }
        Some(at) => (NextStep::At(at), GcReason::NotShown),
        None => (NextStep::Rest, GcReason::Settled),
    };
    Verdict::new(next, because)
}

/// Decides whether to list a kind that orphaning owners wait for.
pub(super) fn decide_kind(
    index: &OwnershipIndex,
    kind: KindId,
    now: Timestamp,
) -> Verdict<GcKey, GcReason> {
    let target = CallTarget::collection(kind);
    let next = match index.next_check(kind, now) {
        CheckStep::Settled => return Verdict::new(NextStep::Rest, GcReason::Settled),
        CheckStep::At(at) => NextStep::At(at),
        CheckStep::Page(token) => NextStep::Call(ApiCall::List { target, token }),
    };
    let kind = kind_name(index, kind);
    Verdict::new(next, GcReason::LooksForDependents { kind })
}

fn judge(index: &OwnershipIndex, id: NodeId, now: Timestamp) -> GcDecision {
    let node = index.graph.node(id);
    if node.facts.has(ObjectFacts::VIRTUAL) {
        return (NextStep::Rest, GcReason::Unknown);
    }
    if index.states.get(&node.kind) == Some(&KindState::Frozen) {
        let kind = kind_name(index, node.kind);
        return (NextStep::Retry, GcReason::Frozen { kind });
    }
    if node.facts.has(ObjectFacts::DOUBTFUL) {
        let target = index.target(id);
        return (NextStep::Call(ApiCall::Get { target }), GcReason::Doubtful);
    }
    if node.facts.has(ObjectFacts::GOING) {
        return (NextStep::Rest, GcReason::Going);
    }
    let standings = OwnerStandings::of(index, id, now);
    if let Some(first) = standings.orphaning.first() {
        return orphan(index, id, &standings, *first);
    }
    if node.facts.is_orphaning() {
        return wait_for_orphans(index, id, now);
    }
    if node.facts.is_waiting() {
        return wait_for_dependents(index, id, now);
    }
    if node.facts.has(ObjectFacts::DELETING) {
        return (NextStep::Rest, GcReason::Deleting);
    }
    if !index.graph.has_owners(id) {
        return (NextStep::Rest, GcReason::Unowned);
    }
    decide_dependent(index, id, &standings, now)
}

/// Orphans an object whose owner is deleted without its dependents. This also happens while the object itself is being
/// deleted, because the owner waits for it.
fn orphan(
    index: &OwnershipIndex,
    id: NodeId,
    standings: &OwnerStandings,
    first: EdgeId,
) -> GcDecision {
    let is_settled =
        standings.doubt.is_none() && standings.unknown.is_empty() && standings.waiting.is_empty();
    let gone = if is_settled {
        standings.removable_references()
    } else {
        standings.orphaning.iter().copied().collect()
    };
    let owner = reference_identity(index, first);
    (
        patch(index, id, patches::without_references(index, id, &gone)),
        GcReason::Orphaned { owner },
    )
}

/// Decides about an object that has owners and is not being deleted.
fn decide_dependent(
    index: &OwnershipIndex,
    id: NodeId,
    standings: &OwnerStandings,
    now: Timestamp,
) -> GcDecision {
    if let Some((edge, standing)) = &standings.doubt {
        let because = doubt_reason(index, *edge, standing);
        let next = match standing {
            OwnerStanding::Unlisted(until) => NextStep::At(*until),
            OwnerStanding::Frozen(_) | OwnerStanding::Doubtful => NextStep::Retry,
            _ => NextStep::Rest,
        };
        return (next, because);
    }
    if let Some(edge) = standings.unknown.values().next() {
        let owner = reference_identity(index, *edge);
        let owners = standings.unknown.keys().cloned();
        let owners = owners.map(|owner| GcKey::Owner(owner.into()));
        let next = NextStep::After(owners.collect());
        return (next, GcReason::AsksFor { owner });
    }
    if let Some(unconfirmed) = confirm_waiting_owner(index, standings, now) {
        return unconfirmed;
    }
    match standings.solid {
        Some(solid) => detach(index, id, standings, solid),
        None => collect(index, id, standings),
    }
}

/// Waits for a fresh read of an owner in foreground deletion before its dependent is deleted, because its user may
/// have changed the propagation policy.
fn confirm_waiting_owner(
    index: &OwnershipIndex,
    standings: &OwnerStandings,
    now: Timestamp,
) -> Option<GcDecision> {
    let edge = standings.waiting.iter().find(|edge| {
        let owner = index.graph.edge(**edge).owner;
        !index
            .lookups
            .is_confirmed(&index.graph.node(owner).uid, now)
    })?;
    let owner = reference_identity(index, *edge);
    let coordinates = index.coordinates(*edge)?;
    let next = NextStep::After(vec![GcKey::Owner(coordinates.into())]);
    Some((next, GcReason::AsksFor { owner }))
}

/// Detaches an object with a living owner from its other owners.
fn detach(
    index: &OwnershipIndex,
    id: NodeId,
    standings: &OwnerStandings,
    solid: EdgeId,
) -> GcDecision {
    let kept = reference_identity(index, solid);
    let loose = standings.removable_references();
    if loose.is_empty() {
        return (NextStep::Rest, GcReason::Owned { owner: kept });
    }
    let owners = loose
        .iter()
        .map(|edge| reference_identity(index, *edge))
        .collect();
    let next = patch(index, id, patches::without_references(index, id, &loose));
    (next, GcReason::LosesOwners { owners, kept })
}

/// Collects an object without a living owner.
fn collect(index: &OwnershipIndex, id: NodeId, standings: &OwnerStandings) -> GcDecision {
    let facts = index.graph.node(id).facts;
    if let Some(waiting) = standings.waiting.first() {
        let owner = reference_identity(index, *waiting);
        let policy = if index.graph.has_dependents(id) {
            if let Some(ring) = unblock_ring(index, id) {
                return ring;
            }
            DeletePropagation::Foreground
        } else {
            policy_by_finalizers(facts)
        };
        return (delete(index, id, policy), GcReason::OwnerWaiting { owner });
    }
    let Some((edge, proof)) = standings.dangling.first() else {
        return (NextStep::Rest, GcReason::Unowned);
    };
    let because = GcReason::OwnerAbsent {
        owner: reference_identity(index, *edge),
        proof: proof.clone(),
    };
    (delete(index, id, policy_by_finalizers(facts)), because)
}

/// Unblocks an object if one of its dependents is in foreground deletion too, because the two may form a ring.
fn unblock_ring(index: &OwnershipIndex, id: NodeId) -> Option<GcDecision> {
    let mut own = index.graph.owners(id);
    if !own.any(|(_, edge)| edge.blocks == OptionalBool::True) {
        return None;
    }
    let mut dependents = index.graph.dependents(id);
    let (_, edge) =
        dependents.find(|(_, edge)| index.graph.node(edge.dependent).facts.is_waiting())?;
    Some(unblock(index, id, edge.dependent))
}

fn unblock(index: &OwnershipIndex, id: NodeId, with: NodeId) -> GcDecision {
    let with = index.identity(with);
    let next = patch(index, id, patches::unblocked_references(index, id));
    (next, GcReason::Ring { with })
}

/// An owner that is deleted in the foreground: it waits for its dependents, then it is released.
fn wait_for_dependents(index: &OwnershipIndex, id: NodeId, now: Timestamp) -> GcDecision {
    let blocking = index.graph.node(id).blocking;
    if blocking > 0 {
        return match find_ring(index, id) {
            Some(with) => unblock(index, id, with),
            None => (NextStep::Rest, GcReason::WaitsForDependents { blocking }),
        };
    }
    release(index, id, now)
}

/// Finds a ring of waiting owners that leads back to `id`, and returns the member that waits for `id`.
///
/// DEVIATION(foreground-ring): upstream, owners that were deleted in the foreground at the same time and block each
/// other wait for ever. Here the first owner that finds itself in the ring stops blocking.
fn find_ring(index: &OwnershipIndex, id: NodeId) -> Option<NodeId> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![id]);
    while let Some(at) = open.pop() {
        for (_, edge) in index.graph.owners(at) {
            let waits = index.graph.node(edge.owner).facts.is_waiting();
            if !waits || edge.blocks != OptionalBool::True || edge.owner == at {
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

/// An owner that is deleted without its dependents: it waits until all are orphaned and every kind has been seen up to
/// its deletion, or until that takes too long. Then it is released.
///
/// DEVIATION(orphans-seen): upstream releases the owner as soon as no dependent that it knows refers to it.
fn wait_for_orphans(index: &OwnershipIndex, id: NodeId, now: Timestamp) -> GcDecision {
    let mut dependents = index.graph.dependents(id);
    if let Some((_, edge)) = dependents.next() {
        let next = index.identity(edge.dependent);
        return (NextStep::Rest, GcReason::WaitsForOrphans { next });
    }
    let unseen = index.unseen_names(id, now);
    let deadline = super::sync_deadline(index.orphaning_since(id).unwrap_or(now));
    if unseen.is_empty() || now >= deadline {
        let release = patches::without_finalizer(index, id, ORPHAN);
        let because = GcReason::DependentsOrphaned { unseen };
        return (patch(index, id, release), because);
    }
    let at = later(now, CATCH_UP_INTERVAL).min(deadline);
    (
        NextStep::At(at),
        GcReason::WaitsForWatches { kinds: unseen },
    )
}

/// Releases an owner in foreground deletion once every kind that may hold dependents has been listed, or its first list has taken too long.
///
/// DEVIATION(first-lists): upstream does not wait for the first list of a kind, and does not report the kinds that it
/// has not listed.
fn release(index: &OwnershipIndex, id: NodeId, now: Timestamp) -> GcDecision {
    let syncing = index.kinds_awaiting_first_list(now);
    if let Some(until) = syncing.iter().map(|(_, until)| *until).max() {
        let kinds = kind_names(index, syncing.iter().map(|(kind, _)| *kind));
        return (NextStep::At(until), GcReason::WaitsForKinds { kinds });
    }
    let overdue = index.unlisted.keys().copied();
    let unseen = kind_names(index, overdue);
    (
        patch(index, id, patches::without_finalizer(index, id, FOREGROUND)),
        GcReason::DependentsGone { unseen },
    )
}

fn kind_names(index: &OwnershipIndex, kinds: impl Iterator<Item = KindId>) -> Vec<String> {
    kinds.map(|kind| kind_name(index, kind)).collect()
}

/// The propagation policy of a delete: the one that the object's finalizers ask for, else Background.
fn policy_by_finalizers(facts: ObjectFacts) -> DeletePropagation {
    if facts.has(ObjectFacts::ORPHAN) {
        DeletePropagation::Orphan
    } else if facts.has(ObjectFacts::FOREGROUND) {
        DeletePropagation::Foreground
    } else {
        DeletePropagation::Background
    }
}

fn delete(index: &OwnershipIndex, id: NodeId, propagation: DeletePropagation) -> NextStep<GcKey> {
    NextStep::Call(ApiCall::Delete {
        target: index.target(id),
        judged: judged_copy(index, id),
        propagation: Some(propagation),
        grace_secs: None,
    })
}

fn patch(index: &OwnershipIndex, id: NodeId, patch: Value) -> NextStep<GcKey> {
    NextStep::Call(ApiCall::Patch {
        target: index.target(id),
        judged: judged_copy(index, id),
        subresource: None,
        form: PatchForm::Merge,
        patch,
    })
}

fn judged_copy(index: &OwnershipIndex, id: NodeId) -> JudgedVersion {
    JudgedVersion::new(&index.graph.node(id).uid, &index.graph.revision(id))
}

/// When to read an owner: not at all if no reference points at it, or if its state is known.
fn owner_read_time(
    index: &OwnershipIndex,
    owner: &OwnerCoordinates,
    now: Timestamp,
) -> Option<Timestamp> {
    let id = index.graph.find(&owner.uid)?;
    let Some(scope) = index.scope(owner.kind) else {
        // Discovery does not find the kind at the moment.
        return Some(later(now, UNSHOWN_RECHECK));
    };
    if (scope == KindScope::Cluster) != owner.namespace.is_empty() {
        // The kind is now served with another scope, so no reference has these coordinates any more.
        return None;
    }
    let facts = index.graph.node(id).facts;
    let confirmed_if = |facts: ObjectFacts| {
        let is_due = facts.is_waiting() && !index.lookups.is_confirmed(&owner.uid, now);
        is_due.then_some(now)
    };
    let is_shown = !facts.has(ObjectFacts::VIRTUAL) && index.target(id) == owner.target();
    match index.lookups.get(owner) {
        Some(OwnerLookup::Absent(_)) => None,
        _ if is_shown => confirmed_if(facts),
        Some(OwnerLookup::Alive(facts, recheck)) => confirmed_if(*facts).or(Some(recheck.at)),
        None if index.remembered_absence(owner, now).is_some() => None,
        None => match index.states.get(&owner.kind) {
            Some(KindState::Syncing(since)) if now < super::sync_deadline(*since) => None,
            _ => Some(now),
        },
    }
}

/// The Event about a reference to an owner in another namespace. The collector does not look such an owner up.
fn foreign_namespace_event(index: &OwnershipIndex, id: NodeId) -> Option<EventNote> {
    let own = index.graph.namespace(id);
    let (edge, _) = index.graph.owners(id).find(|(_, edge)| {
        let owner = index.graph.node(edge.owner);
        !owner.facts.has(ObjectFacts::VIRTUAL)
            && index.scope(owner.kind) == Some(KindScope::Namespaced)
            && index.graph.namespace(edge.owner) != own
    })?;
    let mut owner = reference_identity(index, edge);
    own.clone_into(&mut owner.namespace);
    let message = format!(
        "ownerRef [{}/{}, namespace: {}, name: {}, uid: {}] does not exist in namespace {own:?}",
        owner.api_version, owner.kind, owner.namespace, owner.name, owner.uid
    );
    Some(EventNote::warning(
        index.identity(id),
        INVALID_NAMESPACE,
        message,
    ))
}

/// The Event about an owner that is released before every kind has been listed.
fn unseen_kinds_event(index: &OwnershipIndex, id: NodeId, because: &GcReason) -> Option<EventNote> {
    let (GcReason::DependentsGone { unseen } | GcReason::DependentsOrphaned { unseen }) = because
    else {
        return None;
    };
    (!unseen.is_empty()).then(|| {
        EventNote::warning(
            index.identity(id),
            DEPENDENTS_MAY_REMAIN,
            because.to_string(),
        )
    })
}

/// The Event about an object whose owner was deleted before a relist, and whose owner's kind is gone: the restored store
/// may have had the owner, and the server cannot be asked for it. Dependents of kinds that were never served have none.
fn unproven_owner_event(
    index: &OwnershipIndex,
    id: NodeId,
    because: &GcReason,
) -> Option<EventNote> {
    let GcReason::Unserved { owner } = because else {
        return None;
    };
    index.unproven_owners.get(&Uid::from(owner.uid.as_str()))?;
    let message = format!(
        "its owner {owner} was deleted, but the watches began anew since, and {} {} is not served any more: nothing proves \
         that the owner is absent, so this object stays; delete it, or remove the reference",
        owner.api_version, owner.kind
    );
    Some(EventNote::warning(
        index.identity(id),
        OWNER_UNPROVEN,
        message,
    ))
}
