//! `TestAttemptToDeleteItem*` and `TestAbsentOwnerCache`: which requests a dependent costs, and what they say.

use super::world::{NODES, PODS, RCS, SETS, World, object, to};
use crate::gc::Reason;
use crate::runtime::call::{ApiCall, CallTarget, DeletePropagation, FailureKind};
use crate::runtime::controller::NextStep;

fn verbs(world: &World) -> Vec<(&'static str, &str)> {
    let verb = |call: &ApiCall| call.verb();
    let calls = world.calls().iter();
    calls
        .map(|call| (verb(call), &*call.target().name))
        .collect()
}

#[test]
fn a_dependent_of_an_absent_owner_costs_one_question_per_owner_and_one_delete() {
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
fn an_observed_delete_needs_no_question() {
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

/// Absence is remembered after the last dependent is gone: the next one costs no question.
#[test]
fn a_latecomer_costs_no_question() {
    let mut world = World::new();
    world.create(object(PODS, "pod-1", &[to(RCS, "rc")]));
    world.settle();
    world.create(object(PODS, "pod-2", &[to(RCS, "rc")]));
    world.settle();
    let asked = world.calls().iter().filter(|call| call.is_read()).count();
    assert_eq!((asked, world.names().len()), (1, 0));
}

#[test]
fn finalizers_on_the_object_decide_how_it_is_deleted() {
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
fn an_owner_that_cannot_be_asked_for_is_presumed_alive() {
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
fn an_owner_of_an_unknown_type_is_presumed_alive_and_nothing_is_asked() {
    let mut world = World::new();
    let mut unknown = to(RCS, "rc");
    unknown.api_version = "core/v1".into();
    world.create(object(PODS, "pod", &[unknown, to(RCS, "absent")]));
    world.settle();
    assert_eq!(world.calls(), []);
    assert!(matches!(
        world.decide("pod").because,
        Reason::Unserved { .. }
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

/// The precondition makes the server notice what the index has not seen.
#[test]
fn an_object_that_changed_meanwhile_is_judged_again() {
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
fn dangling_references_go_when_another_owner_lives() {
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
fn an_owner_of_a_kind_that_is_being_listed_is_waited_for_but_not_for_ever() {
    let mut world = World::unsynced();
    world.create(object(PODS, "pod", &[to(RCS, "rc")]));
    world.settle();
    assert_eq!(world.calls(), []);
    world.pass(std::time::Duration::from_secs(29));
    assert_eq!(world.calls(), []);
    world.pass(std::time::Duration::from_secs(2));
    assert_eq!(verbs(&world), [("get", "rc"), ("delete", "pod")]);
}

/// An owner that was found but that no feed shows is looked at again, once a minute.
#[test]
fn an_owner_that_no_feed_shows_is_looked_at_again() {
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
fn a_missing_object_is_asked_for_before_its_dependents_are_judged() {
    use crate::runtime::controller::ObservedChange;
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    world.create(object(PODS, "pod", &[to(RCS, "rc")]));
    world.settle();
    world.observe(&ObservedChange::Missing(RCS, "rc".into()));
    world.settle();
    assert_eq!(verbs(&world), [("get", "rc")]);
    assert!(world.exists("pod"), "the list was wrong, the owner lives");
    world.lose("rc");
    world.observe(&ObservedChange::Missing(RCS, "rc".into()));
    world.settle();
    assert!(!world.exists("pod"));
}
