//! G1–G16 of `docs/inputs.md`, as far as they concern the graph and the decisions.

use super::world::{NODES, PODS, RCS, SETS, World, blocking, kinds, object, to};
use crate::gc::index::lookups::UNSHOWN_RECHECK;
use crate::runtime::call::{ApiCall, DeletePropagation};
use crate::runtime::controller::ObservedChange;
use crate::runtime::kind::KindState;
use crate::runtime::record::{ObjectRecord, OwnerRef, RecordView, Uid, decode};

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
    twin.kind = SETS;
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
    twin.kind = SETS;
    world.restore(&twin);
    world.create(object(PODS, "pod", &[to(SETS, "rc")]));
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

/// Two kinds show one object. The end of one of them, by any way, says nothing about the other.
#[test]
fn an_object_lives_as_long_as_any_kind_shows_it() {
    type TwinEnd = fn(&mut World, ObjectRecord);
    let ends: [TwinEnd; 4] = [
        |world, _| world.observe(&ObservedChange::Kind(RCS, KindState::Gone)),
        |world, twin| {
            let first = ObjectRecord { kind: RCS, ..twin };
            world.observe(&ObservedChange::Deleted(first.into()));
        },
        |world, twin| world.observe(&ObservedChange::Deleted(twin.into())),
        |world, twin| world.observe(&ObservedChange::Missing(RCS, twin.meta.uid)),
    ];
    for (case, end) in ends.into_iter().enumerate() {
        let mut world = World::new();
        world.create(object(RCS, "rc", &[]));
        world.create(object(PODS, "pod", &[to(RCS, "rc")]));
        world.settle();
        let mut twin = world.object("rc");
        twin.kind = SETS;
        world.restore(&twin);
        world.observe(&ObservedChange::Applied(twin.clone().into()));
        end(&mut world, twin);
        world.settle();
        assert!(world.exists("pod"), "case {case}");
        let size = world.gc().index().size();
        assert_eq!((size.nodes, size.virtual_nodes), (2, 0), "case {case}");
    }
}

/// Two versions of a group may be served from different stores, so the owner is read in the version of the reference.
#[test]
fn an_owner_is_read_in_the_version_that_the_reference_names() {
    for (version, expected) in [("apps/v1", None), ("apps/v1beta1", Some("v1beta1"))] {
        let mut world = World::new();
        let mut owner = to(SETS, "set");
        owner.api_version = version.into();
        world.create(object(PODS, "pod", &[owner]));
        world.settle();
        let read = match &world.calls()[0] {
            ApiCall::Get { .. } => None,
            ApiCall::GetInVersion { version, .. } => Some(&**version),
            other => panic!("{other:?}"),
        };
        assert_eq!(read, expected);
        assert_eq!(world.names(), [""; 0]);
    }
}

/// A watch shows the owner in the preferred version. Its deletion is proof for references in every version.
#[test]
fn an_observed_deletion_is_proof_in_every_version() {
    let mut world = World::new();
    world.create(object(SETS, "set", &[]));
    let mut owner = to(SETS, "set");
    owner.api_version = "apps/v1beta1".into();
    world.create(object(PODS, "pod", &[owner]));
    world.settle();
    world.delete("set", DeletePropagation::Background);
    world.settle();
    assert_eq!(world.names(), [""; 0]);
    assert!(world.calls().iter().all(|call| !call.is_read()));
}

/// The owner was found, and no feed shows it. Discovery does not find its kind when it is to be read again.
#[test]
fn a_recheck_survives_a_kind_that_discovery_does_not_find_for_a_moment() {
    let mut world = World::new();
    world.observe(&ObservedChange::Kind(NODES, KindState::Forbidden));
    let node = object(NODES, "node", &[]);
    world.restore(&node);
    world.create(object(PODS, "pod", &[to(NODES, "node")]));
    world.settle();
    let [pods, rcs, sets, _] = kinds();
    world.serve([pods, rcs, sets]);
    world.pass(2 * UNSHOWN_RECHECK);
    world.serve(kinds());
    world.lose("node");
    world.pass(2 * UNSHOWN_RECHECK);
    assert_eq!(world.names(), [""; 0]);
}
