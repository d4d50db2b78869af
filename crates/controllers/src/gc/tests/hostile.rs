//! G1–G16 of the input matrix, as far as they concern the graph and the decisions: nothing loops, nothing is blocked.

use super::world::{NODES, PODS, RCS, World, blocking, object, to};
use crate::runtime::call::DeletePropagation;
use crate::runtime::controller::ObservedChange;
use crate::runtime::record::{OwnerRef, RecordView, Uid, decode};

/// G1.
#[test]
fn an_object_that_owns_itself_lives_and_ends_like_any_other() {
    let mut world = World::new();
    world.create(object(PODS, "self", &[blocking(to(PODS, "self"))]));
    world.settle();
    assert_eq!((world.names().len(), world.calls().len()), (1, 0));
    world.delete("self", DeletePropagation::Foreground);
    world.settle();
    assert_eq!(world.names(), [""; 0]);
    world.create(object(PODS, "self-2", &[to(PODS, "self-2")]));
    world.settle();
    world.delete("self-2", DeletePropagation::Background);
    world.settle();
    assert_eq!(world.gc().index().size().nodes, 0);
}

/// G1.
#[test]
fn a_ring_nobody_deletes_lives_and_costs_nothing() {
    let mut world = World::new();
    for number in 0..100 {
        let next = format!("{}", (number + 1) % 100);
        world.create(object(PODS, &number.to_string(), &[to(PODS, &next)]));
    }
    world.settle();
    assert_eq!((world.names().len(), world.calls().len()), (100, 0));
}

/// G1.
#[test]
fn a_ring_with_an_owner_outside_survives_what_does_not_concern_it() {
    let mut world = World::new();
    world.create(object(RCS, "outside", &[]));
    let owners = [blocking(to(PODS, "b")), to(RCS, "outside")];
    world.create(object(PODS, "a", &owners));
    world.create(object(PODS, "b", &[blocking(to(PODS, "a"))]));
    world.settle();
    world.delete("b", DeletePropagation::Foreground);
    world.settle();
    assert_eq!(world.names(), ["a", "outside"]);
}

/// G2.
#[test]
fn duplicate_and_contradictory_references_are_each_judged() {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    let mut misnamed = to(RCS, "rc");
    misnamed.name = "nobody".into();
    let right = to(RCS, "rc");
    let owners = [right.clone(), right.clone(), misnamed.clone()];
    world.create(object(PODS, "pod", &owners));
    world.create(object(PODS, "only-wrong", &[misnamed]));
    world.settle();
    assert_eq!(world.names(), ["pod", "rc"]);
    let kept = world.object("pod").meta.owners;
    assert_eq!(kept, &[right.clone(), right]);
}

/// G5. One question per owner, however many references there are.
#[test]
fn ten_thousand_references_cost_one_question_each() {
    let mut world = World::new();
    let owners: Vec<OwnerRef> = (0..10_000)
        .map(|number| to(RCS, &format!("rc-{}", number % 1_000)))
        .collect();
    world.create(object(PODS, "pod", &owners));
    world.settle();
    assert_eq!(world.names(), [""; 0]);
    assert_eq!(world.calls().len(), 1_001);
}

/// G5.
#[test]
fn odd_uids_are_as_good_as_any() {
    let long = "u".repeat(1 << 20);
    for odd in [
        "x",
        &long,
        "0A1B2C3D-0000-4000-8000-00000000ABCD",
        "\0",
        "é",
    ] {
        let mut world = World::new();
        let mut owner = object(RCS, "rc", &[]);
        owner.meta.uid = odd.into();
        world.create(owner);
        let mut reference = to(RCS, "rc");
        reference.uid = odd.into();
        world.create(object(PODS, "pod", &[reference]));
        world.settle();
        assert_eq!((world.names().len(), world.calls().len()), (2, 0));
        world.delete(odd, DeletePropagation::Foreground);
        world.settle();
        assert_eq!(world.names().len(), 0);
    }
    // A feed shows no object without a uid.
    let nameless = br#"{"metadata": {"name": "rc", "namespace": "ns", "uid": ""}}"#;
    assert!(decode(RCS, nameless, RecordView::Metadata).is_err());
}

/// G6. Neither is walked recursively, and neither takes a square of its size.
#[test]
fn long_chains_and_wide_fans_end() {
    let mut world = World::new();
    world.create(object(PODS, "0", &[]));
    for number in 1..20_000 {
        let owner = (number - 1).to_string();
        world.create(object(
            PODS,
            &number.to_string(),
            &[blocking(to(PODS, &owner))],
        ));
    }
    world.create(object(RCS, "fan", &[]));
    for number in 0..20_000 {
        world.create(object(PODS, &format!("fan-{number}"), &[to(RCS, "fan")]));
    }
    world.settle();
    world.delete("fan", DeletePropagation::Background);
    world.delete("0", DeletePropagation::Background);
    world.settle();
    assert_eq!(world.names().len(), 0);
    assert_eq!(
        world.calls().len(),
        39_999,
        "one delete each and nothing else"
    );
}

/// G7.
#[test]
fn an_object_held_by_a_foreign_finalizer_is_deleted_once() {
    let mut world = World::new();
    let mut pod = object(PODS, "pod", &[to(RCS, "absent")]);
    pod.meta.finalizers = vec!["x/y".into()];
    world.create(pod);
    world.pass(std::time::Duration::from_secs(3_600));
    assert!(world.exists("pod"));
    assert_eq!(world.calls().len(), 2);
    for _ in 0..10 {
        world.change("pod", |_| {});
    }
    world.settle();
    assert_eq!(world.calls().len(), 2);
}

/// G10. One object seen through two kinds is one node and is deleted once.
#[test]
fn the_same_uid_in_two_kinds_is_one_object() {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    let pod = object(PODS, "pod", &[to(RCS, "rc")]);
    world.create(pod.clone());
    world.settle();
    let mut twin = world.object("pod");
    twin.kind = super::world::SETS;
    world.observe(&ObservedChange::Applied(twin.clone().into()));
    world.settle();
    assert_eq!(world.gc().index().size().nodes, 2);
    world.delete("rc", DeletePropagation::Background);
    world.settle();
    world.observe(&ObservedChange::Deleted(twin.into()));
    assert_eq!(world.gc().index().size().nodes, 0);
    assert_eq!(world.calls().len(), 1);
}

/// G10. A reference by the other kind is answered by the server, once.
#[test]
fn a_reference_to_the_twin_kind_is_asked_for_once() {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    world.settle();
    // The same object, as the other kind shows it.
    let mut twin = world.object("rc");
    twin.kind = super::world::SETS;
    world.restore(&twin);
    world.create(object(PODS, "pod", &[to(super::world::SETS, "rc")]));
    world.settle();
    assert_eq!((world.names().len(), world.calls().len()), (2, 1));
}

/// G5. One uid under many names: each name is a question of its own, and nobody is woken for another's answer.
#[test]
fn one_uid_under_many_names_costs_one_question_each() {
    let mut world = World::new();
    for number in 0..1_000 {
        let mut owner = to(RCS, &format!("rc-{number}"));
        owner.uid = "the-same".into();
        world.create(object(PODS, &format!("pod-{number}"), &[owner]));
    }
    world.settle();
    assert_eq!((world.names().len(), world.calls().len()), (0, 2_000));
    assert!(world.decisions() < 10_000, "{}", world.decisions());
}

/// G12. What a backup brings back has owners of the same name and other uids: upstream collects it, and so do we.
#[test]
fn restored_children_of_replaced_owners_go() {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    let mut earlier = to(RCS, "rc");
    earlier.uid = Uid::from("the-uid-before-the-backup");
    for number in 0..3 {
        world.create(object(PODS, &number.to_string(), &[earlier.clone()]));
    }
    world.settle();
    assert_eq!(world.names(), ["rc"]);
    assert_eq!(world.calls().len(), 4);
}

/// G3, scope unknown: nothing follows until the kind is known.
#[test]
fn an_owner_whose_kind_nobody_serves_shields_its_dependents() {
    let mut world = World::new();
    let mut owner = to(RCS, "x");
    owner.kind = "Wonder".into();
    world.create(object(PODS, "pod", &[owner.clone(), to(RCS, "absent")]));
    world.create(object(NODES, "node", &[owner]));
    world.settle();
    assert_eq!(world.names(), ["node", "pod"]);
    assert_eq!(world.calls(), []);
}
