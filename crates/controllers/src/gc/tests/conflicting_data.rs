//! `TestConflictingData`: references that name an owner wrongly, in every order of events.
//!
//! Upstream's cases inspect its queues. These check which objects remain, and how many requests that takes.

use super::world::{NODES, PODS, RCS, SETS, World, kinds, object, to};
use crate::gc::GcReason;
use crate::runtime::call::DeletePropagation;
use crate::runtime::record::{ObjectRecord, OwnerRef};

fn elsewhere(mut record: ObjectRecord) -> ObjectRecord {
    record.meta.namespace = "ns2".into();
    record
}

fn versioned(mut reference: OwnerRef, api_version: &str) -> OwnerRef {
    reference.api_version = api_version.into();
    reference
}

/// Creates the objects in both orders, and delivers all events after each creation.
fn both_orders(records: &[ObjectRecord], check: impl Fn(&mut World, &str)) {
    let mut backward: Vec<ObjectRecord> = records.to_vec();
    backward.reverse();
    for (order, records) in [("as written", records), ("reversed", &backward)] {
        let mut world = World::new();
        for record in records {
            world.create(record.clone());
            world.settle();
        }
        check(&mut world, order);
    }
}

/// Upstream's case 1.
#[test]
fn a_namespaced_child_may_have_a_cluster_scoped_owner() {
    let records = [
        object(PODS, "child", &[to(NODES, "owner")]),
        object(NODES, "owner", &[]),
    ];
    let mut world = World::new();
    world.lag(NODES);
    world.create(records[1].clone());
    world.create(records[0].clone());
    world.settle();
    assert!(world.exists("child"));
    world.catch_up();
    world.settle();
    assert_eq!(world.names(), ["child", "owner"]);
    assert_eq!(world.calls().len(), 1, "one lookup, no more");
}

/// Upstream's cases 2 and 3.
#[test]
fn deletes_a_child_of_an_owner_in_another_namespace_with_a_warning() {
    let records = [
        elsewhere(object(RCS, "owner", &[])),
        object(PODS, "child", &[to(RCS, "owner")]),
    ];
    both_orders(&records[..1], |world, _| {
        world.create(records[1].clone());
        world.settle();
        assert_eq!(world.names(), ["owner"]);
        let [note, ..] = world.notes() else {
            panic!("no warning")
        };
        assert_eq!(note.reason, "OwnerRefInvalidNamespace");
        assert_eq!(
            note.message,
            "ownerRef [v1/ReplicationController, namespace: ns, name: owner, uid: owner] does not exist in namespace \"ns\""
        );
    });
    let mut world = World::new();
    world.lag(PODS);
    world.create(records[1].clone());
    world.create(records[0].clone());
    world.settle();
    world.catch_up();
    world.settle();
    assert_eq!(world.names(), ["owner"]);
}

/// Upstream's cases 4 and 5.
#[test]
fn a_cluster_scoped_child_of_a_namespaced_owner_stays() {
    let records = [
        object(NODES, "child", &[to(RCS, "owner")]),
        object(RCS, "owner", &[]),
    ];
    both_orders(&records, |world, order| {
        assert_eq!(world.names(), ["child", "owner"], "{order}");
        assert_eq!(world.calls(), [], "{order}");
        let verdict = world.decide("child");
        assert!(
            matches!(verdict.because, GcReason::OutOfReach { .. }),
            "{order}"
        );
        assert_eq!(verdict.notes.len(), 1, "{order}");
        assert!(verdict.notes[0].message.ends_with("namespace \"\""));
    });
}

/// Upstream's case 6. The other version names the same object, so no lookup is needed.
#[test]
fn a_reference_by_another_served_version_is_valid() {
    let child = object(
        PODS,
        "child",
        &[versioned(to(SETS, "owner"), "apps/v1beta1")],
    );
    let mut world = World::new();
    world.create(object(SETS, "owner", &[]));
    world.create(child);
    world.settle();
    assert_eq!(world.calls(), []);
    world.delete("owner", DeletePropagation::Background);
    world.settle();
    assert_eq!(world.names(), [""; 0]);
    assert_eq!(world.calls().len(), 1);
}

/// Upstream's cases 7 and 8.
#[test]
fn a_reference_by_a_version_that_is_not_served_keeps_the_child() {
    let records = [
        object(PODS, "child", &[versioned(to(SETS, "owner"), "apps/v9")]),
        object(SETS, "owner", &[]),
    ];
    both_orders(&records, |world, order| {
        world.delete("owner", DeletePropagation::Background);
        world.settle();
        assert_eq!(world.names(), ["child"], "{order}");
        assert_eq!(world.calls(), [], "{order}");
        let [pods, rcs, mut sets, nodes] = kinds();
        sets.versions.push("v9".into());
        world.serve([pods, rcs, sets, nodes]);
        world.settle();
        assert_eq!(world.names(), [""; 0], "{order}: the version is served now");
    });
}

/// Upstream's cases 9 and 10.
#[test]
fn deletes_only_the_child_with_a_served_version() {
    let records = [
        object(PODS, "unserved", &[versioned(to(SETS, "owner"), "apps/v9")]),
        object(PODS, "served", &[to(SETS, "owner")]),
    ];
    both_orders(&records, |world, order| {
        assert_eq!(world.names(), ["unserved"], "{order}");
        assert_eq!(world.calls().len(), 2, "{order}: a lookup and a delete");
    });
}

/// Upstream's cases 11, 12 and 13.
#[test]
fn deletes_only_the_child_with_the_wrong_kind() {
    let bad = object(PODS, "bad", &[to(RCS, "owner")]);
    let good = object(PODS, "good", &[to(SETS, "owner")]);
    for records in [[&bad, &good], [&good, &bad]] {
        for owner_is_late in [false, true] {
            let mut world = World::new();
            if owner_is_late {
                world.lag(SETS);
            }
            world.create(object(SETS, "owner", &[]));
            for record in records {
                world.create(record.clone());
                world.settle();
            }
            world.catch_up();
            world.settle();
            assert_eq!(world.names(), ["good", "owner"]);
        }
    }
}

/// Upstream's cases 14 and 16: kubernetes#98040.
#[test]
fn a_cluster_scoped_child_does_not_keep_its_namespaced_sibling() {
    let records = [
        object(NODES, "bad", &[to(RCS, "owner")]),
        object(PODS, "good", &[to(RCS, "owner")]),
    ];
    both_orders(&records, |world, order| {
        assert_eq!(world.names(), ["bad"], "{order}");
        assert!(world.is_quiet(), "{order}");
    });
}

/// Upstream's case 15.
#[test]
fn a_late_owner_keeps_both_its_children() {
    let mut world = World::new();
    world.lag(RCS);
    world.create(object(RCS, "owner", &[]));
    world.create(object(NODES, "bad", &[to(RCS, "owner")]));
    world.create(object(PODS, "good", &[to(RCS, "owner")]));
    world.settle();
    world.catch_up();
    world.settle();
    assert_eq!(world.names(), ["bad", "good", "owner"]);
    assert_eq!(world.decide("bad").notes.len(), 1);
}

/// Upstream's case 17: kubernetes#114603. Every delete has a resourceVersion; an object that changed is read and judged
/// again at once.
#[test]
fn deletes_an_object_that_changes_all_the_time() {
    let mut world = World::new();
    world.create(object(RCS, "owner", &[]));
    world.create(object(PODS, "child", &[to(RCS, "owner")]));
    world.settle();
    world.lag(PODS);
    world.change("child", |_| {});
    world.delete("owner", DeletePropagation::Background);
    world.settle();
    let verbs: Vec<&str> = world
        .calls()
        .iter()
        .map(crate::runtime::call::ApiCall::verb)
        .collect();
    assert_eq!(verbs, ["delete", "get", "delete"]);
    assert!(!world.exists("child"));
}
