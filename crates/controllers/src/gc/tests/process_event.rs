//! `TestProcessEvent`: the graph does not depend on the order of events.

use std::time::Duration;

use jiff::Timestamp;

use super::world::{NODES, PODS, RCS, World, kinds, object, to, unsynced_gc};
use crate::gc::index::OwnershipIndex;
use crate::gc::view::{EdgeView, GraphSelection, GraphView};
use crate::gc::{GarbageCollector, GcKey, GcReason, GraphSize, KIND_WAIT_MAX};
use crate::runtime::call::{AbsenceProof, ApiAnswer, CallTarget, DeletePropagation, FailureKind};
use crate::runtime::controller::{
    AnsweredCall, Controller, FeedProgress, NextStep, ObservedChange, WakeList,
};
use crate::runtime::kind::KindState;
use crate::runtime::record::{ObjectRecord, OwnerRef, Uid};

fn edges(index: &OwnershipIndex) -> Vec<(String, String)> {
    let view = GraphView::of(index, &GraphSelection::Whole);
    let ends = |edge: EdgeView| (edge.dependent, edge.owner);
    view.edges.into_iter().map(ends).collect()
}

fn chain() -> Vec<ObjectRecord> {
    let link = |name: &str, owners: &[&str]| {
        let owners: Vec<OwnerRef> = owners.iter().map(|owner| to(PODS, owner)).collect();
        object(PODS, name, &owners)
    };
    vec![
        link("1", &[]),
        link("2", &["1"]),
        link("3", &["1", "2"]),
        link("4", &["2"]),
        link("5", &["3", "4"]),
    ]
}

fn show(world: &mut World, record: &ObjectRecord, revision: &str) {
    let mut record = record.clone();
    record.meta.revision = revision.into();
    world.observe(&ObservedChange::Applied(record.into()));
}

#[test]
fn the_graph_does_not_depend_on_the_order_of_events() {
    let mut forward = World::new();
    let mut backward = World::new();
    for record in chain() {
        show(&mut forward, &record, "5");
    }
    for record in chain().iter().rev() {
        show(&mut backward, record, "5");
    }
    let (one, other) = (forward.gc().index(), backward.gc().index());
    assert_eq!(edges(one), edges(other));
    assert_eq!(one.size(), other.size());
    let size = GraphSize {
        nodes: 5,
        edges: 6,
        virtual_nodes: 0,
    };
    assert_eq!(one.size(), size);
}

#[test]
fn a_deleted_owner_stays_virtual_while_it_has_dependents() {
    let mut world = World::new();
    for record in chain() {
        show(&mut world, &record, "5");
    }
    world.observe(&ObservedChange::Deleted(chain()[2].clone().into()));
    let size = world.gc().index().size();
    assert_eq!((size.nodes, size.edges, size.virtual_nodes), (5, 4, 1));
    let mut five = chain()[4].clone();
    five.meta.owners = vec![to(PODS, "4")];
    show(&mut world, &five, "6");
    let size = world.gc().index().size();
    assert_eq!((size.nodes, size.edges, size.virtual_nodes), (4, 3, 0));
}

#[test]
fn an_update_replaces_the_references_in_their_order() {
    let mut world = World::new();
    let owners = |names: &[&str]| names.iter().map(|name| to(RCS, name)).collect::<Vec<_>>();
    let mut pod = object(PODS, "pod", &owners(&["a", "b", "c"]));
    show(&mut world, &pod, "5");
    pod.meta.owners = owners(&["c", "x", "a"]);
    show(&mut world, &pod, "6");
    let index = world.gc().index();
    assert_eq!(index.size().virtual_nodes, 3);
    let id = index.graph.find(&"pod".into()).unwrap();
    let kept: Vec<&str> = index
        .graph
        .owners(id)
        .map(|(edge, _)| index.graph.reference_name(edge))
        .collect();
    assert_eq!(kept, ["c", "x", "a"]);
}

#[test]
fn ignores_older_and_equal_copies() {
    let mut world = World::new();
    show(&mut world, &object(PODS, "pod", &[to(RCS, "rc")]), "9");
    show(&mut world, &object(PODS, "pod", &[]), "8");
    show(&mut world, &object(PODS, "pod", &[]), "9");
    assert_eq!(world.gc().index().size().edges, 1);
    show(&mut world, &object(PODS, "pod", &[]), "10");
    assert_eq!(world.gc().index().size().edges, 0);
}

#[test]
fn an_irrelevant_update_wakes_no_key() {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    world.create(object(PODS, "pod", &[to(RCS, "rc")]));
    world.settle();
    world.change("pod", |_| {});
    world.change("rc", |meta| meta.finalizers = vec!["x/y".into()]);
    while world.deliver(PODS) || world.deliver(RCS) {}
    assert!(!world.step(), "a key was woken");
}

/// When a kind is no longer served, only references to its objects remain, and these owners are presumed alive.
#[test]
fn objects_of_a_kind_that_is_no_longer_served_are_not_absent() {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    world.create(object(RCS, "rc-2", &[to(RCS, "rc")]));
    world.create(object(PODS, "pod", &[to(RCS, "rc")]));
    world.settle();
    let [pods, _, sets, nodes] = kinds();
    world.serve([pods, sets, nodes]);
    world.observe(&ObservedChange::Kind(RCS, KindState::Gone));
    world.settle();
    let size = world.gc().index().size();
    assert_eq!((size.nodes, size.edges, size.virtual_nodes), (2, 1, 1));
    assert!(world.exists("pod") && world.calls().is_empty());
    world.serve(kinds());
    world.observe(&ObservedChange::Kind(RCS, KindState::Synced));
    world.settle();
    assert_eq!(world.calls().len(), 1, "now it can be looked up");
}

/// After a restore an earlier proof of absence is void: the deleted object may be back.
#[test]
fn a_frozen_kind_deletes_nothing_until_it_is_listed_again() {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    world.create(object(PODS, "pod", &[to(RCS, "rc")]));
    world.settle();
    let restored = world.object("rc");
    world.delete("rc", DeletePropagation::Background);
    world.deliver(RCS);
    world.observe(&ObservedChange::Kind(RCS, KindState::Frozen));
    world.pass(Duration::from_secs(60));
    assert!(world.exists("pod"));
    world.restore(&restored);
    world.observe(&ObservedChange::Applied(restored.into()));
    world.observe(&ObservedChange::Kind(RCS, KindState::Synced));
    world.pass(Duration::from_secs(60));
    assert!(world.exists("pod"));
    assert_eq!(world.calls(), []);
}

/// A store that was restored makes every feed list again, each at its own time: an absent owner may be back before the
/// feed of its kind notices. Raised revisions cause a relist, lower ones freeze the kind first.
#[test]
fn a_restore_voids_proofs_of_absence_of_every_kind() {
    let frozen = ObservedChange::Kind(PODS, KindState::Frozen);
    let relists = ObservedChange::Progress(PODS, FeedProgress::Relists);
    for sign in [frozen, relists] {
        let mut world = World::new();
        world.create(object(RCS, "rc", &[]));
        world.create(object(PODS, "pod", &[to(RCS, "rc")]));
        world.settle();
        let restored = ["rc", "pod"].map(|uid| world.object(uid));
        world.delete("rc", DeletePropagation::Background);
        world.settle();
        assert_eq!(world.names(), [""; 0]);
        for object in &restored {
            world.restore(object);
        }
        world.observe(&sign);
        world.observe(&ObservedChange::Applied(restored[1].clone().into()));
        world.observe(&ObservedChange::Kind(PODS, KindState::Synced));
        world.settle();
        assert_eq!(world.names(), ["pod", "rc"], "{sign:?}");
        // The same if the owner's kind is not served any more: nothing proves the owner absent.
        let [pods, _, sets, nodes] = kinds();
        world.serve([pods, sets, nodes]);
        world.settle();
        assert_eq!(world.names(), ["pod", "rc"], "{sign:?}");
        let verdict = world.decide("pod");
        assert!(matches!(verdict.because, GcReason::Unserved { .. }));
        assert_eq!(verdict.notes, [], "the owner was found again");
    }
}

/// The versions of a frozen kind's objects are of another history, so nothing can be judged by them.
#[test]
fn objects_of_a_frozen_kind_are_not_written() {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    world.create(object(PODS, "pod", &[to(RCS, "rc")]));
    world.settle();
    world.observe(&ObservedChange::Kind(PODS, KindState::Frozen));
    world.delete("rc", DeletePropagation::Background);
    world.pass(Duration::from_secs(60));
    assert_eq!(world.calls(), []);
    let because = world.decide("pod").because;
    assert!(matches!(because, GcReason::Frozen { .. }), "{because}");
    let listed = world.object("pod");
    world.observe(&ObservedChange::Applied(listed.into()));
    world.observe(&ObservedChange::Kind(PODS, KindState::Synced));
    world.pass(Duration::from_secs(60));
    assert_eq!(world.names(), [""; 0]);
}

/// A proof that an answer gave is as void after a lost watch as one that a watch gave.
#[test]
fn a_lost_watch_voids_what_was_not_found() {
    let mut world = World::new();
    let pod = CallTarget::new(PODS, "ns", "pod");
    world.fail([(pod, FailureKind::Unavailable)].into());
    world.create(object(PODS, "pod", &[to(RCS, "rc")]));
    world.settle();
    assert_eq!(world.gc().lookups().absent, 1);
    world.restore(&object(RCS, "rc", &[]));
    world.observe(&ObservedChange::Progress(PODS, FeedProgress::Interrupted));
    world.fail([].into());
    world.pass(Duration::from_secs(100));
    assert_eq!(world.names(), ["pod", "rc"]);
}

/// After a relist the server cannot be asked for an owner whose kind is gone.
#[test]
fn reports_an_object_whose_owners_deletion_is_no_longer_proven() {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    world.create(object(PODS, "pod", &[to(RCS, "rc")]));
    world.settle();
    world.delete("rc", DeletePropagation::Background);
    world.deliver(RCS);
    world.observe(&ObservedChange::Progress(PODS, FeedProgress::Relists));
    let [pods, _, sets, nodes] = kinds();
    world.serve([pods, sets, nodes]);
    world.settle();
    assert_eq!(world.names(), ["pod"]);
    let notes = world.decide("pod").notes;
    let [note] = notes.as_slice() else {
        panic!("{notes:?}");
    };
    assert_eq!(note.reason, "OwnerDeletionUnproven");
    let part = "/rc was deleted, but the watches began anew since";
    assert!(note.message.contains(part), "{}", note.message);
    // The restored store has the owner, and its feed shows it before the kind is gone again.
    world.serve(kinds());
    let owner = object(RCS, "rc", &[]);
    world.observe(&ObservedChange::Applied(owner.into()));
    let [pods, _, sets, nodes] = kinds();
    world.serve([pods, sets, nodes]);
    assert_eq!(world.decide("pod").notes, []);
}

/// A cascade is under way when the store is replaced. Its deletes are sent again as soon as the server is back, before any
/// kind is listed.
#[test]
fn a_lost_watch_voids_the_proofs_of_a_cascade_under_way() {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    world.create(object(PODS, "pod", &[to(RCS, "rc")]));
    world.settle();
    let restored = world.object("rc");
    world.delete("rc", DeletePropagation::Background);
    world.deliver(RCS);
    world.restore(&restored);
    world.observe(&ObservedChange::Progress(PODS, FeedProgress::Interrupted));
    world.settle();
    assert_eq!(world.names(), ["pod", "rc"]);
}

/// The same for an orphan deletion: the restored owner is not being deleted, and its dependents keep their references.
#[test]
fn an_owner_in_orphan_deletion_is_read_again_after_a_lost_watch() {
    for is_restored in [true, false] {
        let mut world = World::new();
        world.create(object(RCS, "rc", &[]));
        world.create(object(PODS, "pod", &[to(RCS, "rc")]));
        world.settle();
        let alive = world.object("rc");
        world.delete("rc", DeletePropagation::Orphan);
        world.deliver(RCS);
        if is_restored {
            world.restore(&alive);
        }
        world.observe(&ObservedChange::Progress(RCS, FeedProgress::Interrupted));
        world.pass(Duration::from_secs(100));
        let writes = world.calls().iter().filter(|call| !call.is_read()).count();
        if is_restored {
            assert_eq!(world.names(), ["pod", "rc"]);
            assert_eq!(writes, 0);
        } else {
            assert_eq!(world.names(), ["pod"]);
            assert_eq!(world.object("pod").meta.owners, []);
        }
    }
}

/// An absence that no object refers to is a hint that saves a lookup, and is forgotten within minutes.
#[test]
fn an_absence_without_dependents_is_forgotten() {
    for (minutes, lookups) in [(1, 0), (10, 1)] {
        let mut world = World::new();
        world.create(object(RCS, "rc", &[]));
        world.settle();
        world.delete("rc", DeletePropagation::Background);
        world.settle();
        world.pass(Duration::from_secs(minutes * 60));
        world.create(object(PODS, "pod", &[to(RCS, "rc")]));
        world.settle();
        assert_eq!(world.names(), [""; 0]);
        let gets = world.calls().iter().filter(|call| call.is_read()).count();
        assert_eq!(gets, lookups, "{minutes}");
    }
}

/// An owner that was in orphan deletion before the restore may not be deleted in the restored store.
#[test]
fn an_owner_of_a_frozen_kind_does_not_leave_orphans() {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    world.create(object(PODS, "pod", &[to(RCS, "rc")]));
    world.settle();
    let alive = world.object("rc");
    world.delete("rc", DeletePropagation::Orphan);
    world.deliver(RCS);
    world.restore(&alive);
    world.observe(&ObservedChange::Kind(RCS, KindState::Frozen));
    world.pass(Duration::from_secs(10));
    assert_eq!(world.calls(), []);
    world.observe(&ObservedChange::Applied(alive.into()));
    world.observe(&ObservedChange::Kind(RCS, KindState::Synced));
    world.pass(Duration::from_secs(100));
    assert_eq!(world.calls(), []);
}

/// The driver drops its state of an object at the object's last decision.
#[test]
fn a_deleted_object_is_decided_about_once_more() {
    let mut world = World::new();
    world.create(object(PODS, "pod", &[]));
    world.settle();
    world.delete("pod", DeletePropagation::Background);
    world.deliver(PODS);
    assert!(world.step(), "no key was woken");
    assert!(!world.step());
}

#[test]
fn churn_leaves_nothing_behind() {
    let mut world = World::new();
    for round in 0..50 {
        world.create(object(NODES, "node", &[]));
        for number in 0..20 {
            let name = format!("pod-{round}-{number}");
            world.create(object(PODS, &name, &[to(NODES, "node")]));
        }
        world.settle();
        world.delete("node", DeletePropagation::Background);
        world.settle();
    }
    let size = world.gc().index().size();
    assert_eq!((size.nodes, size.edges, size.virtual_nodes), (0, 0, 0));
}

/// The keys that a change wakes.
fn woken(gc: &mut GarbageCollector, change: &ObservedChange, now: Timestamp) -> Vec<GcKey> {
    let mut wake = WakeList::default();
    gc.observe(change, now, &mut wake);
    wake.drain().map(|(key, _)| key).collect()
}

#[test]
fn during_a_first_list_one_dependent_of_each_owner_is_queued() {
    let (mut gc, now) = unsynced_gc();
    let key = |uid: &str| GcKey::Object(Uid::from(uid));
    let mut keys = |change: ObservedChange| woken(&mut gc, &change, now);
    let pod = |name: &str| ObservedChange::Applied(object(PODS, name, &[to(RCS, "rc")]).into());
    assert_eq!(
        keys(pod("a")),
        [key("a")],
        "one dependent looks the owner up"
    );
    assert_eq!(keys(pod("b")), []);
    assert_eq!(keys(pod("c")), []);
    let astray = OwnerRef {
        name: "other".into(),
        ..to(RCS, "rc")
    };
    let astray = ObservedChange::Applied(object(PODS, "d", &[astray]).into());
    assert_eq!(keys(astray), [key("d")], "another name is another lookup");
    let mut all = keys(ObservedChange::Kind(RCS, KindState::Synced));
    all.sort();
    assert_eq!(all, ["a", "b", "c", "d"].map(key));
}

#[test]
fn a_lookup_before_the_first_list_wakes_all_dependents() {
    let (mut gc, now) = unsynced_gc();
    for name in ["a", "b", "c"] {
        let pod = object(PODS, name, &[to(RCS, "rc")]);
        woken(&mut gc, &ObservedChange::Applied(pod.into()), now);
    }
    let late = now + KIND_WAIT_MAX;
    let pod = GcKey::Object(Uid::from("b"));
    let NextStep::After(owners) = gc.decide(&pod, late).next else {
        panic!("no lookup");
    };
    let NextStep::Call(call) = gc.decide(&owners[0], late).next else {
        panic!("no lookup");
    };
    let mut wake = WakeList::default();
    let absent = ApiAnswer::Absent(AbsenceProof::NotFound);
    gc.answered(AnsweredCall {
        key: &owners[0],
        call: &call,
        answer: &absent,
        now: late,
        wake: &mut wake,
    });
    assert_eq!(wake.drain().count(), 3);
}
