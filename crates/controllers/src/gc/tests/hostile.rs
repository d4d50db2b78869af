//! G1–G16 of `docs/inputs.md`, as far as they concern the graph and the decisions.

use super::world::{NODES, PODS, RCS, World, blocking, object, to};
use crate::runtime::call::DeletePropagation;
use crate::runtime::controller::ObservedChange;
use crate::runtime::record::{OwnerRef, RecordView, Uid, decode};

/// G1 of `docs/inputs.md`.
#[test]
fn an_object_that_owns_itself_is_deleted_like_any_other() {
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

/// G1 of `docs/inputs.md`.
#[test]
fn a_ring_without_a_delete_needs_no_request() {
    let mut world = World::new();
    for number in 0..100 {
        let next = format!("{}", (number + 1) % 100);
        world.create(object(PODS, &number.to_string(), &[to(PODS, &next)]));
    }
    world.settle();
    assert_eq!((world.names().len(), world.calls().len()), (100, 0));
}

/// G1 of `docs/inputs.md`.
#[test]
fn a_ring_with_a_living_outside_owner_stays() {
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

/// G2 of `docs/inputs.md`.
#[test]
fn duplicate_and_contradictory_references_are_each_judged() {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    let mut misnamed = to(RCS, "rc");
    misnamed.name = "wrong-name".into();
    let right = to(RCS, "rc");
    let owners = [right.clone(), right.clone(), misnamed.clone()];
    world.create(object(PODS, "pod", &owners));
    world.create(object(PODS, "only-wrong", &[misnamed]));
    world.settle();
    assert_eq!(world.names(), ["pod", "rc"]);
    let kept = world.object("pod").meta.owners;
    assert_eq!(kept, &[right.clone(), right]);
}

/// G5: each owner is looked up once, whatever the number of references.
#[test]
fn looks_up_each_of_many_owners_once() {
    let mut world = World::new();
    let owners: Vec<OwnerRef> = (0..10_000)
        .map(|number| to(RCS, &format!("rc-{}", number % 1_000)))
        .collect();
    world.create(object(PODS, "pod", &owners));
    world.settle();
    assert_eq!(world.names(), [""; 0]);
    assert_eq!(world.calls().len(), 1_001);
}

/// G5 of `docs/inputs.md`.
#[test]
fn accepts_uids_of_any_form() {
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

/// G6: the graph is not walked recursively, and the cost is linear.
#[test]
fn deletes_long_chains_and_wide_fans() {
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

/// G7 of `docs/inputs.md`.
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

/// G10: an object that two kinds serve is one node and is deleted once.
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

/// G10: a reference by the other kind is looked up once.
#[test]
fn looks_up_a_reference_by_the_other_kind_once() {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    world.settle();
    // The same object, as the other kind serves it.
    let mut twin = world.object("rc");
    twin.kind = super::world::SETS;
    world.restore(&twin);
    world.create(object(PODS, "pod", &[to(super::world::SETS, "rc")]));
    world.settle();
    assert_eq!((world.names().len(), world.calls().len()), (2, 1));
}

/// G5: each name is a lookup of its own, and its answer wakes only the keys that wait for it.
#[test]
fn looks_up_one_uid_under_many_names_once_each() {
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

/// G12: objects from a backup refer to owners by their earlier uids. Upstream collects them, and so do we.
#[test]
fn deletes_restored_dependents_of_replaced_owners() {
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

/// G3: an owner of a type that is not served is presumed alive.
#[test]
fn an_owner_of_an_unserved_kind_keeps_its_dependents() {
    let mut world = World::new();
    let mut owner = to(RCS, "x");
    owner.kind = "Wonder".into();
    world.create(object(PODS, "pod", &[owner.clone(), to(RCS, "absent")]));
    world.create(object(NODES, "node", &[owner]));
    world.settle();
    assert_eq!(world.names(), ["node", "pod"]);
    assert_eq!(world.calls(), []);
}
