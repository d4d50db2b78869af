//! Dependents of objects whose kind is no longer served: a deleted CustomResourceDefinition deletes its objects, and
//! discovery drops the kind while the cascade still runs.

use super::world::{PODS, RCS, World, kinds, object, to};
use crate::runtime::call::DeletePropagation;
use crate::runtime::controller::ObservedChange;
use crate::runtime::kind::{KindScope, KindState};
use crate::test_world::mk_kind;

fn world_with_owner_and_pods() -> World {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    for number in 0..5 {
        world.create(object(PODS, &format!("pod-{number}"), &[to(RCS, "rc")]));
    }
    world.settle();
    world
}

fn remove_kind(world: &mut World) {
    let [pods, _, sets, nodes] = kinds();
    world.serve([pods, sets, nodes]);
}

/// The watch shows the deletion, then discovery drops the kind before the dependents are deleted; or the reverse, because
/// a feed follows its watch for some time after its kind is gone.
#[test]
fn an_observed_deletion_is_proof_after_the_kind_is_gone() {
    for is_dropped_first in [false, true] {
        let mut world = world_with_owner_and_pods();
        world.delete("rc", DeletePropagation::Background);
        if is_dropped_first {
            remove_kind(&mut world);
        }
        world.deliver(RCS);
        remove_kind(&mut world);
        world.settle();
        assert_eq!(world.names(), [""; 0], "{is_dropped_first}");
    }
}

#[test]
fn the_proof_outlives_the_feed_of_the_kind() {
    let mut world = world_with_owner_and_pods();
    world.delete("rc", DeletePropagation::Background);
    world.deliver(RCS);
    remove_kind(&mut world);
    world.observe(&ObservedChange::Kind(RCS, KindState::Gone));
    world.settle();
    assert_eq!(world.names(), [""; 0]);
}

/// The dependent is shown for the first time after discovery dropped the kind of its deleted owner.
#[test]
fn a_dependent_that_appears_after_the_kind_is_gone_is_deleted() {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    world.settle();
    world.delete("rc", DeletePropagation::Background);
    world.settle();
    remove_kind(&mut world);
    world.create(object(PODS, "pod", &[to(RCS, "rc")]));
    world.settle();
    assert_eq!(world.names(), [""; 0]);
}

/// Another version, name or kind of the reference is another owner, and no watch has shown its deletion.
#[test]
fn a_reference_that_does_not_name_the_deleted_owner_keeps_its_dependent() {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    let mut version = to(RCS, "rc");
    version.api_version = "v2".into();
    let mut name = to(RCS, "rc");
    name.name = "other".into();
    world.lag(PODS);
    world.create(object(PODS, "version", &[version]));
    world.create(object(PODS, "name", &[name]));
    world.settle();
    world.delete("rc", DeletePropagation::Background);
    world.settle();
    remove_kind(&mut world);
    world.catch_up();
    world.settle();
    assert_eq!(world.names(), ["name", "version"]);
}

/// A cluster that gets a CRD a second must not have its whole graph decided every time.
#[test]
fn a_new_kind_wakes_only_if_a_reference_names_it() {
    let mut world = World::new();
    let mut unserved = to(RCS, "x");
    unserved.kind = "Wonder".into();
    world.create(object(PODS, "pod", &[unserved]));
    world.settle();
    let before = world.decisions();
    let new = |kind: &str| mk_kind("", "v1", kind, "news", KindScope::Namespaced);
    world.serve(kinds().into_iter().chain([new("Novelty")]));
    world.settle();
    assert_eq!(world.decisions(), before);
    world.serve(kinds().into_iter().chain([new("Wonder")]));
    world.settle();
    assert_eq!(world.names(), [""; 0], "the owner could be looked up");
}
