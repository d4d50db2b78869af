//! What people are shown: how an object stands with its owners, what blocks it and hangs on it, and parts of the graph.

use jiff::Timestamp;

use super::world::{NODES, PODS, RCS, SETS, World, blocking, object, to};
use crate::gc::explain::{BLOCKERS_NAMED, Hanging, Tie, Ties};
use crate::gc::index::{FOREGROUND, ORPHAN};
use crate::gc::view::{Part, View};
use crate::runtime::call::CallTarget;
use crate::runtime::controller::ObservedChange;
use crate::runtime::kind::KindState;
use crate::runtime::record::{OwnerRef, Uid};

fn ties(world: &World, uid: &str) -> Ties {
    world.gc().index().ties(&uid.into(), world.now()).unwrap()
}

fn deleted(world: &mut World, uid: &str, finalizer: &str) {
    world.change(uid, |meta| {
        meta.deletion = Some(Timestamp::UNIX_EPOCH);
        meta.finalizers.push(finalizer.into());
    });
}

#[test]
fn each_owner_is_told_as_it_stands() {
    let mut world = World::new();
    for name in ["living", "dying", "waiting", "orphaning"] {
        world.create(object(RCS, name, &[]));
    }
    deleted(&mut world, "dying", "example.com/other");
    deleted(&mut world, "waiting", FOREGROUND);
    deleted(&mut world, "orphaning", ORPHAN);
    let nowhere = OwnerRef {
        api_version: "nope/v1".into(),
        ..to(RCS, "nowhere")
    };
    let table = [
        (to(RCS, "living"), "Solid", "lives"),
        (to(RCS, "dying"), "Solid", "lives, and is being deleted"),
        (
            to(RCS, "waiting"),
            "Waiting",
            "is being deleted and waits for its dependents",
        ),
        (
            to(RCS, "orphaning"),
            "Orphaning",
            "is being deleted without its dependents",
        ),
        (
            nowhere,
            "Unserved",
            "is of a type the server does not have: presumed alive",
        ),
        (
            to(RCS, "unseen"),
            "Unknown",
            "may be there or not: presumed alive until that is known",
        ),
    ];
    let owners: Vec<OwnerRef> = table.iter().map(|(owner, ..)| owner.clone()).collect();
    world.create(object(PODS, "pod", &owners));
    world.catch_up();
    let told = ties(&world, "pod").owners;
    assert_eq!(told.len(), table.len());
    for (tie, (owner, standing, message)) in told.iter().zip(&table) {
        assert_eq!(tie.owner.name, &*owner.name);
        assert_eq!((tie.standing, tie.message.as_str()), (*standing, *message));
    }
}

#[test]
fn an_owner_that_was_asked_for_is_told_with_the_proof() {
    let mut world = World::new();
    let waits = OwnerRef {
        controller: Some(true),
        ..blocking(to(RCS, "gone"))
    };
    world.create(object(PODS, "pod", &[waits, to(SETS, "living")]));
    world.create(object(SETS, "living", &[]));
    // Keeps the pod from being written to before anybody looks: only the reads are played.
    world.catch_up();
    while world.calls().is_empty() && world.step() {}
    let tie = ties(&world, "pod").owners.remove(0);
    let expected = Tie {
        controller: true,
        blocks: true,
        standing: "Absent",
        message: "is gone: the server does not have it".into(),
        owner: tie.owner.clone(),
    };
    assert_eq!(tie, expected);
    assert_eq!(tie.owner.to_string(), "ReplicationController ns/gone");
}

#[test]
fn a_kind_that_is_being_listed_leaves_its_owners_in_doubt() {
    let mut world = World::new();
    world.create(object(NODES, "node", &[to(RCS, "below")]));
    world.create(object(PODS, "pod", &[to(RCS, "unseen")]));
    world.catch_up();
    assert_eq!(ties(&world, "node").owners[0].standing, "OutOfReach");
    world.observe(&ObservedChange::Kind(RCS, KindState::Frozen));
    let frozen = &ties(&world, "pod").owners[0];
    assert_eq!(
        (frozen.standing, frozen.message.as_str()),
        (
            "Frozen",
            "is presumed alive until replicationcontrollers have been listed anew"
        )
    );
    let now = world.now();
    world.observe(&ObservedChange::Kind(RCS, KindState::Syncing(now)));
    let unlisted = &ties(&world, "pod").owners[0];
    assert_eq!(
        (unlisted.standing, unlisted.message.as_str()),
        (
            "Unlisted",
            "is presumed alive until its kind has been listed, or 1970-01-01T00:00:30Z"
        )
    );
}

#[test]
fn those_who_block_are_named_and_what_hangs_on_an_object_is_counted_through_all_levels() {
    let mut world = World::new();
    world.create(object(SETS, "owner", &[blocking(to(SETS, "owner"))]));
    for number in 0..12 {
        let name = format!("pod-{number:02}");
        // Twice the same owner is one object that blocks.
        let twice = [blocking(to(SETS, "owner")), blocking(to(SETS, "owner"))];
        world.create(object(PODS, &name, &twice));
    }
    world.create(object(RCS, "idle", &[to(SETS, "owner")]));
    world.create(object(PODS, "deep", &[to(RCS, "idle")]));
    world.catch_up();
    let ties = ties(&world, "owner");
    let (first, count) = &ties.blockers;
    assert_eq!((first.len(), *count), (BLOCKERS_NAMED, 12));
    assert_eq!(first[0].name, "pod-00");
    let hanging = |kind: &str, resource: &str, count| Hanging {
        kind: kind.into(),
        resource: resource.into(),
        count,
    };
    let expected = [
        hanging("Pod", "pods", 13),
        hanging("ReplicationController", "replicationcontrollers", 1),
    ];
    assert_eq!(ties.hanging, expected);
}

#[test]
fn an_object_is_known_by_its_place_also_if_only_references_name_it() {
    let mut world = World::new();
    world.create(object(PODS, "pod", &[to(RCS, "gone")]));
    world.catch_up();
    let place = |kind, namespace: &str, name: &str| CallTarget {
        kind,
        namespace: namespace.into(),
        name: name.into(),
    };
    let table = [
        (place(PODS, "ns", "pod"), vec!["pod"]),
        (place(RCS, "ns", "gone"), vec!["gone"]),
        (place(RCS, "ns", "pod"), vec![]),
        (place(PODS, "other", "pod"), vec![]),
        (place(PODS, "ns", "other"), vec![]),
    ];
    for (target, expected) in table {
        let expected: Vec<Uid> = expected.into_iter().map(Uid::from).collect();
        assert_eq!(world.gc().index().known_as(&target), expected, "{target:?}");
    }
    let index = world.gc().index();
    assert_eq!(index.kind_state(PODS), Some(KindState::Synced));
    assert_eq!(index.kind_state(crate::runtime::kind::KindId(9)), None);
    assert_eq!(index.ties(&"nobody".into(), world.now()), None);
}

#[test]
fn a_part_of_the_graph_is_what_was_asked_for_and_no_more() {
    let mut world = World::new();
    world.create(object(NODES, "node", &[]));
    world.create(object(SETS, "set", &[to(NODES, "node")]));
    world.create(object(PODS, "left", &[to(SETS, "set")]));
    world.create(object(PODS, "right", &[to(SETS, "set")]));
    world.create(object(PODS, "single", &[]));
    world.create(object(NODES, "other", &[]));
    let mut elsewhere = object(PODS, "elsewhere", &[to(NODES, "other")]);
    elsewhere.meta.namespace = "far".into();
    world.create(elsewhere);
    world.catch_up();
    let table: [(Part, &[&str]); 6] = [
        (
            Part::Through(vec!["set".into()]),
            &["left", "node", "right", "set"],
        ),
        (Part::Through(vec!["left".into()]), &["left", "node", "set"]),
        (Part::Through(vec!["single".into()]), &["single"]),
        (
            Part::Namespace("ns".into()),
            &["left", "node", "right", "set"],
        ),
        (Part::Namespace("far".into()), &["elsewhere", "other"]),
        (Part::Namespace("none".into()), &[]),
    ];
    for (part, expected) in table {
        let view = View::of(world.gc().index(), &part);
        let found: Vec<&str> = view.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(found, expected, "{part:?}");
    }
}
