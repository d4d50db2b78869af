//! `TestAttemptToDeleteItem*` and `TestAbsentOwnerCache`: the requests that a dependent causes, and their content.

use std::time::Duration;

use super::world::{NODES, PODS, RCS, SETS, World, object, to};
use crate::gc::GcReason;
use crate::runtime::call::{ApiCall, CallTarget, DeletePropagation, FailureKind};
use crate::runtime::controller::{NextStep, ObservedChange};
use crate::runtime::kind::KindState;

fn verbs(world: &World) -> Vec<(&'static str, &str)> {
    let verb = |call: &ApiCall| call.verb();
    let calls = world.calls().iter();
    calls
        .map(|call| (verb(call), &*call.target().name))
        .collect()
}

#[test]
fn looks_up_an_absent_owner_once_and_deletes_its_dependents() {
    let mut world = World::new();
    for pod in ["pod-1", "pod-2", "pod-3"] {
        world.create(object(PODS, pod, &[to(RCS, "rc")]));
    }
    world.settle();
    let verbs: Vec<_> = verbs(&world).into_iter().map(|(verb, _)| verb).collect();
    assert_eq!(verbs, ["get", "delete", "delete", "delete"]);
    assert_eq!(world.names(), [""; 0]);
}

#[test]
fn an_observed_delete_needs_no_lookup() {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    world.create(object(PODS, "pod", &[to(RCS, "rc")]));
    world.settle();
    world.delete("rc", DeletePropagation::Background);
    world.lag(PODS);
    world.settle();
    assert_eq!(verbs(&world), [("delete", "pod")]);
    let ApiCall::Delete {
        judged,
        propagation,
        ..
    } = &world.calls()[0]
    else {
        panic!("a delete")
    };
    assert_eq!(judged.uid.to_string(), "pod");
    assert_eq!(*propagation, Some(DeletePropagation::Background));
}

/// Absence is remembered after the last dependent is gone, so the next one needs no lookup.
#[test]
fn a_late_dependent_needs_no_lookup() {
    let mut world = World::new();
    world.create(object(PODS, "pod-1", &[to(RCS, "rc")]));
    world.settle();
    world.create(object(PODS, "pod-2", &[to(RCS, "rc")]));
    world.settle();
    let asked = world.calls().iter().filter(|call| call.is_read()).count();
    assert_eq!((asked, world.names().len()), (1, 0));
}

#[test]
fn finalizers_decide_the_propagation_policy() {
    let table = [
        (&[][..], DeletePropagation::Background),
        (&["x/y"][..], DeletePropagation::Background),
        (&["orphan", "x/y"][..], DeletePropagation::Orphan),
        (&["foregroundDeletion"][..], DeletePropagation::Foreground),
    ];
    for (finalizers, expected) in table {
        let mut world = World::new();
        world.create(object(RCS, "rc", &[]));
        let mut pod = object(PODS, "pod", &[to(RCS, "rc")]);
        pod.meta.finalizers = finalizers.iter().map(|&own| own.into()).collect();
        world.create(pod);
        world.settle();
        world.delete("rc", DeletePropagation::Background);
        world.deliver(RCS);
        let NextStep::Call(ApiCall::Delete { propagation, .. }) = world.decide("pod").next else {
            panic!("{finalizers:?}")
        };
        assert_eq!(propagation, Some(expected), "{finalizers:?}");
    }
}

#[test]
fn an_owner_that_cannot_be_read_is_presumed_alive() {
    for failure in [
        FailureKind::Forbidden,
        FailureKind::NotServed,
        FailureKind::Unavailable,
        FailureKind::TooManyRequests,
        FailureKind::Refused,
    ] {
        let mut world = World::new();
        let rc = CallTarget {
            kind: RCS,
            namespace: "ns".into(),
            name: "rc".into(),
        };
        world.fail([(rc, failure)].into());
        world.create(object(PODS, "pod", &[to(RCS, "rc")]));
        world.settle();
        assert!(world.exists("pod"), "{failure:?}");
        assert!(world.calls().iter().all(ApiCall::is_read), "{failure:?}");
    }
}

#[test]
fn an_owner_of_an_unknown_type_is_presumed_alive() {
    let mut world = World::new();
    let mut unknown = to(RCS, "rc");
    unknown.api_version = "core/v1".into();
    world.create(object(PODS, "pod", &[unknown, to(RCS, "absent")]));
    world.settle();
    assert_eq!(world.calls(), []);
    assert!(matches!(
        world.decide("pod").because,
        GcReason::Unserved { .. }
    ));
}

#[test]
fn another_uid_under_the_owners_name_is_proof() {
    let mut world = World::new();
    world.lag(RCS);
    world.create(object(RCS, "rc", &[]));
    let mut old = to(RCS, "rc");
    old.uid = "an-earlier-rc".into();
    world.create(object(PODS, "pod", &[old]));
    world.settle();
    assert_eq!(world.names(), ["rc"]);
    assert_eq!(world.gc().lookups().absent, 1);
}

/// The precondition lets the server reject a decision that was made from an old copy.
#[test]
fn judges_a_changed_object_again() {
    let mut world = World::new();
    world.create(object(RCS, "rc-1", &[]));
    world.create(object(RCS, "rc-2", &[]));
    world.create(object(PODS, "pod", &[to(RCS, "rc-1")]));
    world.settle();
    world.lag(PODS);
    world.change("pod", |meta| meta.owners = vec![to(RCS, "rc-2")]);
    world.delete("rc-1", DeletePropagation::Background);
    world.settle();
    assert_eq!(verbs(&world), [("delete", "pod"), ("get", "pod")]);
    assert!(world.exists("pod"));
}

#[test]
fn removes_dangling_references_if_another_owner_exists() {
    let mut world = World::new();
    world.create(object(SETS, "set", &[]));
    let mut kept = to(SETS, "set");
    kept.controller = Some(true);
    kept.block_owner_deletion = Some(false);
    world.create(object(
        PODS,
        "pod",
        &[to(RCS, "rc"), kept.clone(), to(NODES, "node")],
    ));
    world.settle();
    assert_eq!(world.object("pod").meta.owners, [kept]);
    assert!(!world.calls().iter().any(|call| call.verb() == "delete"));
}

#[test]
fn waits_for_the_first_list_of_an_owners_kind_for_a_limited_time() {
    let mut world = World::unsynced();
    world.create(object(PODS, "pod", &[to(RCS, "rc")]));
    world.settle();
    assert_eq!(world.calls(), []);
    world.pass(std::time::Duration::from_secs(29));
    assert_eq!(world.calls(), []);
    world.pass(std::time::Duration::from_secs(2));
    assert_eq!(verbs(&world), [("get", "rc"), ("delete", "pod")]);
}

/// An owner that was found but that no feed shows is read again once a minute.
#[test]
fn reads_an_owner_that_no_feed_shows_again() {
    let mut world = World::new();
    world.lag(RCS);
    world.create(object(RCS, "rc", &[]));
    world.create(object(PODS, "pod", &[to(RCS, "rc")]));
    world.settle();
    assert_eq!(verbs(&world), [("get", "rc")]);
    world.lose("rc");
    world.pass(std::time::Duration::from_secs(59));
    assert_eq!(verbs(&world), [("get", "rc")]);
    world.pass(std::time::Duration::from_secs(2));
    assert_eq!(world.names(), [""; 0]);
    assert_eq!(world.gc().lookups().absent, 1);
}

#[test]
fn reads_a_missing_owner_before_its_dependents_are_judged() {
    use crate::runtime::controller::ObservedChange;
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    world.create(object(PODS, "pod", &[to(RCS, "rc")]));
    world.settle();
    world.observe(&ObservedChange::Missing(RCS, "rc".into()));
    world.settle();
    assert_eq!(verbs(&world), [("get", "rc")]);
    assert!(world.exists("pod"), "the list was wrong, the owner exists");
    world.lose("rc");
    world.observe(&ObservedChange::Missing(RCS, "rc".into()));
    world.settle();
    assert!(!world.exists("pod"));
}

/// A kind that may not be listed: each of its owners is asked for, rarely in the end.
#[test]
fn owners_of_a_kind_that_may_not_be_listed_are_read_ever_more_rarely() {
    for may_read in [true, false] {
        let mut world = World::new();
        world.observe(&ObservedChange::Kind(NODES, KindState::Forbidden));
        world.restore(&object(NODES, "node", &[]));
        if !may_read {
            let node = CallTarget::new(NODES, "", "node");
            world.fail([(node, FailureKind::Forbidden)].into());
        }
        world.create(object(PODS, "pod", &[to(NODES, "node")]));
        world.pass(Duration::from_secs(600));
        let reads = |world: &World| {
            let log = &world.server().log;
            log.iter().filter(|line| *line == "get node").count()
        };
        let first = reads(&world);
        assert!(first >= 4, "may read {may_read}: {first} in ten minutes");
        world.pass(Duration::from_secs(86_400));
        let more = reads(&world) - first;
        assert!(
            (80..110).contains(&more),
            "may read {may_read}: {more} reads in a day"
        );
        assert!(world.exists("pod"));
    }
}

#[test]
fn a_kind_that_may_be_listed_again_ends_the_wait_for_its_owners() {
    let mut world = World::new();
    world.observe(&ObservedChange::Kind(NODES, KindState::Forbidden));
    let node = CallTarget::new(NODES, "", "node");
    world.fail([(node, FailureKind::Forbidden)].into());
    world.create(object(PODS, "pod", &[to(NODES, "node")]));
    world.pass(Duration::from_secs(10_000));
    assert!(world.exists("pod"));
    world.fail([].into());
    world.sync(NODES);
    world.settle();
    assert!(!world.exists("pod"), "the Node does not exist");
}
