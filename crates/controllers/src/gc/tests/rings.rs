//! Owners in foreground deletion that wait for each other.

use super::world::{PODS, RCS, World, blocking, object, to};
use crate::runtime::call::DeletePropagation;

#[test]
fn deletes_a_ring_in_the_foreground() {
    for length in [2, 3, 100] {
        let mut world = World::new();
        for number in 0..length {
            let next = format!("{}", (number + 1) % length);
            world.create(object(
                PODS,
                &number.to_string(),
                &[blocking(to(PODS, &next))],
            ));
        }
        world.settle();
        world.delete("0", DeletePropagation::Foreground);
        world.settle();
        assert_eq!(world.names(), [""; 0], "a ring of {length}");
    }
}

/// Tests the deviation `foreground-ring`.
#[test]
fn deletes_a_ring_whose_members_all_wait() {
    let mut world = World::new();
    for (name, next) in [("a", "b"), ("b", "c"), ("c", "a")] {
        world.create(object(PODS, name, &[blocking(to(PODS, next))]));
    }
    world.settle();
    for name in ["a", "b", "c"] {
        world.delete(name, DeletePropagation::Foreground);
    }
    world.settle();
    assert_eq!(world.names(), [""; 0]);
}

/// The dependent has a dependent that waits already. Upstream takes that for a ring, too.
#[test]
fn a_dependent_whose_own_dependent_waits_stops_blocking() {
    let mut world = World::new();
    world.create(object(RCS, "top", &[]));
    world.create(object(RCS, "middle", &[blocking(to(RCS, "top"))]));
    world.create(object(PODS, "waits", &[blocking(to(RCS, "middle"))]));
    let mut held = object(PODS, "held", &[blocking(to(PODS, "waits"))]);
    held.meta.finalizers = vec!["x/y".into()];
    world.create(held);
    world.settle();
    world.delete("waits", DeletePropagation::Foreground);
    world.settle();
    world.delete("top", DeletePropagation::Foreground);
    world.settle();
    assert_eq!(world.names(), ["held", "middle", "waits"]);
}

/// Two objects own each other, but only one of them blocks the deletion of the other.
#[test]
fn a_reference_that_does_not_block_makes_no_ring() {
    let mut world = World::new();
    world.create(object(RCS, "owner", &[to(RCS, "held")]));
    let mut held = object(RCS, "held", &[blocking(to(RCS, "owner"))]);
    held.meta.finalizers = vec!["x/y".into()];
    world.create(held);
    world.settle();
    for name in ["owner", "held"] {
        world.delete(name, DeletePropagation::Foreground);
    }
    world.settle();
    assert_eq!(world.names(), ["held", "owner"]);
    let mut written = world.calls().iter().filter(|call| !call.is_read());
    assert!(written.all(|call| &*call.target().name == "held"));
    world.change("held", |meta| meta.finalizers.clear());
    world.settle();
    assert_eq!(world.names(), [""; 0]);
}
