//! The relations of an object for `caretaker explain`, and the parts of the graph for `caretaker graph`.

use jiff::Timestamp;

use super::world::{NODES, PODS, RCS, SETS, World, blocking, object, to};
use crate::gc::explain::{BLOCKERS_NAMED, DependentCount, ObjectRelations, OwnerRelation};
use crate::gc::index::{FOREGROUND, ORPHAN};
use crate::gc::view::{GraphSelection, GraphView};
use crate::runtime::call::CallTarget;
use crate::runtime::controller::ObservedChange;
use crate::runtime::kind::KindState;
use crate::runtime::record::{OwnerRef, Uid};

fn relations(world: &World, uid: &str) -> ObjectRelations {
    world
        .gc()
        .index()
        .relations(&uid.into(), world.now())
        .unwrap()
}

fn deleted(world: &mut World, uid: &str, finalizer: &str) {
    world.change(uid, |meta| {
        meta.deletion = Some(Timestamp::UNIX_EPOCH);
        meta.finalizers.push(finalizer.into());
    });
}

#[test]
fn relations_show_the_standing_of_each_owner() {
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
        (to(RCS, "living"), "Solid", "exists"),
        (to(RCS, "dying"), "Solid", "exists, and is being deleted"),
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
            "has not been seen: presumed alive until it is read from the server",
        ),
    ];
    let owners: Vec<OwnerRef> = table.iter().map(|(owner, ..)| owner.clone()).collect();
    world.create(object(PODS, "pod", &owners));
    world.catch_up();
    let owners = relations(&world, "pod").owners;
    assert_eq!(owners.len(), table.len());
    for (relation, (owner, standing, message)) in owners.iter().zip(&table) {
        assert_eq!(relation.owner.name, &*owner.name);
        assert_eq!(
            (relation.standing, relation.message.as_str()),
            (*standing, *message)
        );
    }
}

#[test]
fn relations_show_the_proof_of_an_absent_owner() {
    let mut world = World::new();
    let waits = OwnerRef {
        controller: Some(true),
        ..blocking(to(RCS, "gone"))
    };
    world.create(object(PODS, "pod", &[waits, to(SETS, "living")]));
    world.create(object(SETS, "living", &[]));
    // Only the lookups run, so that the Pod is not written to before the check.
    world.catch_up();
    while world.calls().is_empty() && world.step() {}
    let relation = relations(&world, "pod").owners.remove(0);
    let expected = OwnerRelation {
        controller: true,
        blocks: true,
        standing: "Absent",
        message: "is gone: the server does not have it".into(),
        owner: relation.owner.clone(),
    };
    assert_eq!(relation, expected);
    assert_eq!(relation.owner.to_string(), "ReplicationController ns/gone");
}

#[test]
fn owners_of_a_kind_in_a_list_are_doubtful() {
    let mut world = World::new();
    world.create(object(NODES, "node", &[to(RCS, "below")]));
    world.create(object(PODS, "pod", &[to(RCS, "unseen")]));
    world.catch_up();
    assert_eq!(relations(&world, "node").owners[0].standing, "OutOfReach");
    world.observe(&ObservedChange::Kind(RCS, KindState::Frozen));
    let frozen = &relations(&world, "pod").owners[0];
    assert_eq!(
        (frozen.standing, frozen.message.as_str()),
        (
            "Frozen",
            "is presumed alive until replicationcontrollers have been listed again"
        )
    );
    let now = world.now();
    world.observe(&ObservedChange::Kind(RCS, KindState::Syncing(now)));
    let unlisted = &relations(&world, "pod").owners[0];
    assert_eq!(
        (unlisted.standing, unlisted.message.as_str()),
        (
            "Unlisted",
            "is presumed alive until its kind has been listed, or 1970-01-01T00:00:30Z"
        )
    );
}

#[test]
fn relations_name_blockers_and_count_indirect_dependents() {
    let mut world = World::new();
    world.create(object(SETS, "owner", &[blocking(to(SETS, "owner"))]));
    for number in 0..12 {
        let name = format!("pod-{number:02}");
        // An object with two references to the same owner blocks once.
        let twice = [blocking(to(SETS, "owner")), blocking(to(SETS, "owner"))];
        world.create(object(PODS, &name, &twice));
    }
    world.create(object(RCS, "idle", &[to(SETS, "owner")]));
    world.create(object(PODS, "deep", &[to(RCS, "idle")]));
    world.catch_up();
    let relations = relations(&world, "owner");
    let (first, count) = &relations.blockers;
    assert_eq!((first.len(), *count), (BLOCKERS_NAMED, 12));
    assert_eq!(first[0].name, "pod-00");
    let dependents = |kind: &str, resource: &str, count| DependentCount {
        kind: kind.into(),
        resource: resource.into(),
        count,
    };
    let expected = [
        dependents("Pod", "pods", 13),
        dependents("ReplicationController", "replicationcontrollers", 1),
    ];
    assert_eq!(relations.dependents, expected);
}

#[test]
fn finds_objects_and_virtual_owners_by_name() {
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
        assert_eq!(
            world.gc().index().uids_named(&target),
            expected,
            "{target:?}"
        );
    }
    let index = world.gc().index();
    assert_eq!(index.kind_state(PODS), Some(KindState::Synced));
    assert_eq!(index.kind_state(crate::runtime::kind::KindId(9)), None);
    assert_eq!(index.relations(&"unknown".into(), world.now()), None);
}

#[test]
fn a_view_holds_only_the_selected_part() {
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
    let table: [(GraphSelection, &[&str]); 6] = [
        (
            GraphSelection::Through(vec!["set".into()]),
            &["left", "node", "right", "set"],
        ),
        (
            GraphSelection::Through(vec!["left".into()]),
            &["left", "node", "set"],
        ),
        (GraphSelection::Through(vec!["single".into()]), &["single"]),
        (
            GraphSelection::Namespace("ns".into()),
            &["left", "node", "right", "set"],
        ),
        (
            GraphSelection::Namespace("far".into()),
            &["elsewhere", "other"],
        ),
        (GraphSelection::Namespace("none".into()), &[]),
    ];
    for (part, expected) in table {
        let view = GraphView::of(world.gc().index(), &part);
        let found: Vec<&str> = view.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(found, expected, "{part:?}");
    }
}
