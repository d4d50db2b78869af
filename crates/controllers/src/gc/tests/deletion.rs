//! Foreground and orphan deletion, and a change of policy between the two.

use std::time::Duration;

use super::world::{NODES, PODS, RCS, SETS, World, blocking, kinds, object, to, unsynced_gc};
use crate::gc::index::{FOREGROUND, ORPHAN};
use crate::gc::{GarbageCollector, GcKey, GcReason, KIND_WAIT_MAX};
use crate::runtime::call::{ApiAnswer, ApiCall, DeletePropagation, ObjectPage};
use crate::runtime::controller::{
    AnsweredCall, Controller, FeedProgress, NextStep, ObservedChange, WakeList,
};
use crate::runtime::kind::{KindScope, KindState};
use crate::runtime::record::Revision;
use crate::test_world::mk_kind;

fn count(world: &World, verb: &str) -> usize {
    world
        .calls()
        .iter()
        .filter(|call| call.verb() == verb)
        .count()
}

#[test]
fn foreground_deletes_dependents_before_their_owner() {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    world.create(object(PODS, "blocks", &[blocking(to(RCS, "rc"))]));
    world.create(object(PODS, "does-not", &[to(RCS, "rc")]));
    world.settle();
    world.delete("rc", DeletePropagation::Foreground);
    world.settle();
    assert_eq!(world.names(), [""; 0]);
    let last = world.calls().last().unwrap();
    assert_eq!((last.verb(), &*last.target().name), ("patch", "rc"));
    assert_eq!(count(&world, "get"), 1, "the owner is confirmed once");
}

#[test]
fn only_a_blocking_dependent_keeps_its_owner() {
    for (reference, owner_stays) in [(blocking(to(RCS, "rc")), true), (to(RCS, "rc"), false)] {
        let mut world = World::new();
        world.create(object(RCS, "rc", &[]));
        let mut pod = object(PODS, "pod", &[reference]);
        pod.meta.finalizers = vec!["x/y".into()];
        world.create(pod);
        world.settle();
        world.delete("rc", DeletePropagation::Foreground);
        world.pass(Duration::from_secs(3600));
        assert!(world.exists("pod"));
        assert_eq!(world.exists("rc"), owner_stays);
        assert_eq!(count(&world, "delete"), 1, "deleted once");
        world.change("pod", |meta| meta.finalizers.clear());
        world.settle();
        assert_eq!(world.names(), [""; 0]);
    }
}

#[test]
fn a_dependent_with_another_owner_is_detached_from_the_waiting_one() {
    let mut world = World::new();
    world.create(object(RCS, "goes", &[]));
    world.create(object(RCS, "stays", &[]));
    let owners = [blocking(to(RCS, "goes")), to(RCS, "stays")];
    world.create(object(PODS, "pod", &owners));
    world.settle();
    world.delete("goes", DeletePropagation::Foreground);
    world.settle();
    assert_eq!(world.names(), ["pod", "stays"]);
    assert_eq!(world.object("pod").meta.owners, [to(RCS, "stays")]);
}

#[test]
fn a_dependent_with_dependents_is_deleted_in_the_foreground() {
    let mut world = World::new();
    world.create(object(RCS, "a", &[]));
    world.create(object(RCS, "b", &[blocking(to(RCS, "a"))]));
    world.create(object(PODS, "c", &[blocking(to(RCS, "b"))]));
    world.settle();
    world.delete("a", DeletePropagation::Foreground);
    world.settle();
    let ends: Vec<&str> = world
        .calls()
        .iter()
        .filter(|call| !call.is_read())
        .map(|call| &*call.target().name)
        .collect();
    assert_eq!(ends, ["b", "c", "b", "a"]);
    assert_eq!(world.names(), [""; 0]);
}

#[test]
fn deletes_a_dependent_that_appears_while_its_owner_waits() {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    let mut held = object(PODS, "held", &[blocking(to(RCS, "rc"))]);
    held.meta.finalizers = vec!["x/y".into()];
    world.create(held);
    world.settle();
    world.delete("rc", DeletePropagation::Foreground);
    world.settle();
    world.create(object(PODS, "late", &[to(RCS, "rc")]));
    world.settle();
    assert_eq!(world.names(), ["held", "rc"]);
}

/// The reference to the first owner goes, and the second owner waits until its dependents are deleted.
#[test]
fn an_orphan_of_one_owner_is_deleted_for_another() {
    let mut world = World::new();
    world.create(object(RCS, "orphans", &[]));
    world.create(object(RCS, "waits", &[]));
    let owners = [to(RCS, "orphans"), blocking(to(RCS, "waits"))];
    world.create(object(PODS, "pod", &owners));
    world.settle();
    world.delete("orphans", DeletePropagation::Orphan);
    world.delete("waits", DeletePropagation::Foreground);
    world.pass(Duration::from_secs(3));
    assert_eq!(world.names(), [""; 0]);
}

/// A kind that discovery has just found has no feed yet.
#[test]
fn a_new_kind_delays_an_orphan_deletion_for_a_moment() {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    world.settle();
    let new = mk_kind("", "v1", "Novelty", "news", KindScope::Namespaced);
    world.serve(kinds().into_iter().chain([new]));
    world.delete("rc", DeletePropagation::Orphan);
    world.settle();
    assert!(world.exists("rc"));
    world.pass(Duration::from_secs(2));
    assert!(!world.exists("rc"));
    assert!(world.notes().is_empty());
}

/// S3: a part of discovery that could not be read may have kinds with dependents.
#[test]
fn unread_discovery_delays_an_orphan_deletion() {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    world.settle();
    let complete = world.server().catalog.clone();
    let gaps = vec!["/apis/x/v1".to_owned()];
    let partial = complete.with(kinds()).with_gaps(gaps.clone());
    world.observe(&ObservedChange::Catalog(partial.into()));
    world.delete("rc", DeletePropagation::Orphan);
    world.pass(Duration::from_secs(10));
    let because = world.decide("rc").because;
    assert!(matches!(because, GcReason::WaitsForWatches { kinds } if kinds == gaps));
    world.observe(&ObservedChange::Catalog(complete));
    world.pass(Duration::from_secs(2));
    assert!(!world.exists("rc"));
}

#[test]
fn a_waiting_owner_is_read_again_after_a_hundred_dependents() {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    for number in 0..250 {
        world.create(object(
            PODS,
            &number.to_string(),
            &[blocking(to(RCS, "rc"))],
        ));
    }
    world.settle();
    world.delete("rc", DeletePropagation::Foreground);
    world.settle();
    assert_eq!((count(&world, "delete"), count(&world, "get")), (250, 3));
}

#[test]
fn orphans_lose_their_reference_and_stay() {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    for pod in ["1", "2", "3"] {
        world.create(object(PODS, pod, &[blocking(to(RCS, "rc"))]));
    }
    world.settle();
    world.delete("rc", DeletePropagation::Orphan);
    world.settle();
    assert_eq!(world.names(), ["1", "2", "3"]);
    assert!(world.objects().iter().all(|pod| pod.meta.owners.is_empty()));
    assert_eq!((count(&world, "patch"), count(&world, "delete")), (4, 0));
}

/// `TestOrphanDependentsFailure`: the owner keeps its finalizer while a dependent cannot be patched.
#[test]
fn the_finalizer_stays_while_one_dependent_refers_to_the_owner() {
    use crate::runtime::call::{CallTarget, FailureKind};
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    world.create(object(PODS, "pod", &[to(RCS, "rc")]));
    world.settle();
    let pod = CallTarget {
        kind: PODS,
        namespace: "ns".into(),
        name: "pod".into(),
    };
    world.fail([(pod, FailureKind::Forbidden)].into());
    world.delete("rc", DeletePropagation::Orphan);
    world.pass(Duration::from_secs(600));
    assert!(world.exists("rc"));
    world.fail([].into());
    world.pass(Duration::from_secs(60));
    assert_eq!(world.names(), ["pod"]);
}

#[test]
fn an_owner_is_released_once_while_its_watch_lags() {
    for policy in [DeletePropagation::Orphan, DeletePropagation::Foreground] {
        let mut world = World::new();
        world.create(object(RCS, "rc", &[]));
        world.delete("rc", policy);
        while world.deliver(RCS) {}
        world.lag(RCS);
        world.pass(Duration::from_secs(3));
        assert_eq!(
            (world.names().len(), count(&world, "patch")),
            (0, 1),
            "{policy:?}"
        );
    }
}

/// S3, the deviation `orphans-seen`: a lagging watch may hide a dependent, and a list shows that it does.
#[test]
fn an_orphaning_owner_waits_for_a_dependent_that_no_watch_has_shown() {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    world.settle();
    world.lag(PODS);
    world.create(object(PODS, "pod", &[to(RCS, "rc")]));
    world.delete("rc", DeletePropagation::Orphan);
    world.pass(Duration::from_secs(10));
    assert_eq!(world.names(), ["pod", "rc"]);
    let GcReason::WaitsForWatches { kinds } = world.decide("rc").because else {
        panic!("{}", world.decide("rc").because);
    };
    assert_eq!(kinds, ["pods"]);
    world.catch_up();
    world.settle();
    assert_eq!(world.names(), ["pod"]);
    assert_eq!(world.object("pod").meta.owners, []);
}

/// An idle watch shows no progress, so its kind is listed. Kinds whose watches have gone on are not.
#[test]
fn lists_only_kinds_whose_watches_have_not_reached_the_deletion() {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    world.settle();
    world.lag(PODS);
    world.delete("rc", DeletePropagation::Orphan);
    world.settle();
    assert!(world.exists("rc"), "the watch of Pods may be late");
    world.pass(Duration::from_secs(2));
    assert!(!world.exists("rc"));
    assert_eq!(count(&world, "list"), 1);
}

/// The kinds are decided when they are due for the first owner, which needs no list any more. That decision must not drop
/// the turn of the second owner, which comes later.
#[test]
fn an_owner_is_released_after_another_one_ended_its_orphan_deletion() {
    let mut world = World::new();
    world.create(object(RCS, "a", &[]));
    world.create(object(RCS, "b", &[]));
    world.settle();
    world.lag(PODS);
    world.delete("a", DeletePropagation::Orphan);
    world.pass(Duration::from_millis(300));
    world.delete("a", DeletePropagation::Background);
    world.delete("b", DeletePropagation::Orphan);
    world.pass(Duration::from_secs(3));
    assert_eq!(world.names(), [""; 0]);
}

/// The answer to a list arrives after a second owner's deletion was seen. The list may be older than that deletion.
#[test]
fn a_list_says_nothing_about_deletions_that_are_newer() {
    let (mut gc, now) = unsynced_gc();
    let change = |gc: &mut GarbageCollector, change: ObservedChange| {
        gc.observe(&change, now, &mut WakeList::default());
    };
    for kind in [PODS, RCS, SETS, NODES] {
        change(&mut gc, ObservedChange::Kind(kind, KindState::Synced));
    }
    let orphaning = |name: &str, revision: u64| {
        let mut owner = object(RCS, name, &[]);
        owner.meta.revision = Revision::Number(revision);
        owner.meta.deletion = Some(now);
        owner.meta.finalizers = vec![ORPHAN.into()];
        ObservedChange::Applied(owner.into())
    };
    let due = now + KIND_WAIT_MAX / 2;
    let waits_for_pods = |gc: &GarbageCollector, name: &str| {
        let because = gc.decide(&GcKey::Object(name.into()), due).because;
        matches!(because, GcReason::WaitsForWatches { kinds } if kinds.contains(&"pods".to_owned()))
    };
    let list = |gc: &mut GarbageCollector,
                revision: u64,
                between: &mut dyn FnMut(&mut GarbageCollector)| {
        let key = GcKey::Kind(PODS);
        // After a list that is of no use, the next one waits for a moment.
        let due = match gc.decide(&key, due).next {
            NextStep::At(at) => at,
            _ => due,
        };
        let NextStep::Call(call) = gc.decide(&key, due).next else {
            panic!("no list");
        };
        between(gc);
        let page = ObjectPage {
            revision: Revision::Number(revision),
            items: Vec::new(),
            token: None,
        };
        gc.answered(AnsweredCall {
            key: &key,
            call: &call,
            answer: &ApiAnswer::Page(page.into()),
            now: due,
            wake: &mut WakeList::default(),
        });
    };
    change(&mut gc, orphaning("a", 10));
    list(&mut gc, 20, &mut |gc| change(gc, orphaning("b", 30)));
    assert!(!waits_for_pods(&gc, "a"), "version 20 is newer than 10");
    assert!(waits_for_pods(&gc, "b"), "version 20 is older than 30");
    // The list is newer than this deletion, but was not searched for dependents of an owner that a lagging watch shows later.
    change(&mut gc, orphaning("c", 15));
    assert!(waits_for_pods(&gc, "c"), "c was not known to be deleted");
    // An aggregated server with a store of its own counts differently: a list that was requested later is enough. The
    // watch may go on meanwhile.
    let progress = FeedProgress::UpTo(Revision::Number(25));
    let progress = ObservedChange::Progress(PODS, progress);
    list(&mut gc, 20, &mut |gc| {
        change(gc, progress.clone());
        change(gc, orphaning("d", 30));
    });
    assert!(!waits_for_pods(&gc, "b") && !waits_for_pods(&gc, "c"));
    // A server that lags, or a proxy, may serve a list that is older than what the watch has shown before.
    list(&mut gc, 20, &mut |_| {});
    assert!(waits_for_pods(&gc, "d"), "the list is older than the watch");
    list(&mut gc, 25, &mut |_| {});
    assert!(!waits_for_pods(&gc, "d"));
}

/// An event of any object is progress of its kind, and no list is needed.
#[test]
fn an_event_of_a_later_version_is_as_good_as_a_list() {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    world.settle();
    world.server().bookmarked.clear();
    world.delete("rc", DeletePropagation::Orphan);
    for (kind, name) in [(PODS, "a"), (RCS, "b"), (SETS, "c"), (NODES, "d")] {
        world.create(object(kind, name, &[]));
    }
    world.pass(Duration::from_secs(2));
    assert!(!world.exists("rc"));
    assert_eq!(count(&world, "list"), 0);
}

/// Tests the deviation `late-orphans`: a release waits for a lagging watch for a limited time.
#[test]
fn orphans_a_dependent_that_appears_after_its_owner_is_gone() {
    for are_feeds_faster in [false, true] {
        let mut world = World::new();
        world.shows_first = are_feeds_faster;
        world.create(object(RCS, "rc", &[]));
        world.settle();
        world.lag(PODS);
        world.create(object(PODS, "pod", &[to(RCS, "rc")]));
        world.delete("rc", DeletePropagation::Orphan);
        world.pass(KIND_WAIT_MAX + Duration::from_secs(1));
        assert_eq!(world.names(), ["pod"]);
        let [note] = world.notes() else {
            panic!("not one Event")
        };
        assert!(note.message.contains("pods"), "{}", note.message);
        world.catch_up();
        world.settle();
        assert_eq!(world.names(), ["pod"], "{are_feeds_faster}");
        assert_eq!(world.object("pod").meta.owners, []);
    }
}

/// The same if another finalizer holds the owner beyond its release.
#[test]
fn orphans_a_dependent_that_appears_after_its_held_owner_was_released() {
    for are_feeds_faster in [false, true] {
        let mut world = World::new();
        world.shows_first = are_feeds_faster;
        world.create(object(RCS, "rc", &[]));
        world.change("rc", |meta| meta.finalizers = vec!["x/held".into()]);
        world.settle();
        world.lag(PODS);
        world.create(object(PODS, "pod", &[to(RCS, "rc")]));
        world.delete("rc", DeletePropagation::Orphan);
        world.pass(KIND_WAIT_MAX + Duration::from_secs(1));
        world.change("rc", |meta| meta.finalizers = Vec::new());
        world.settle();
        assert_eq!(world.names(), ["pod"]);
        world.catch_up();
        world.settle();
        assert_eq!(world.names(), ["pod"], "{are_feeds_faster}");
    }
}

/// An owner that another finalizer holds lives on after its orphan deletion. A dependent that appears then is treated as
/// upstream treats it, whether the answer to the release or its watch event comes first.
#[test]
fn deletes_a_dependent_of_a_held_owner_that_was_released_before() {
    for are_feeds_faster in [false, true] {
        let mut world = World::new();
        world.shows_first = are_feeds_faster;
        world.create(object(RCS, "rc", &[]));
        world.change("rc", |meta| {
            meta.finalizers = vec!["example.com/held".into()];
        });
        world.delete("rc", DeletePropagation::Orphan);
        world.settle();
        assert_eq!(world.object("rc").meta.finalizers.len(), 1);
        world.create(object(PODS, "pod", &[to(RCS, "rc")]));
        world.settle();
        world.delete("rc", DeletePropagation::Background);
        world.change("rc", |meta| meta.finalizers = Vec::new());
        world.settle();
        assert_eq!(world.names().len(), 0, "{are_feeds_faster}");
    }
}

/// A user who changes the policy to Background wants the dependents deleted, also those that appear later.
#[test]
fn deletes_a_late_dependent_if_another_client_deleted_its_owner() {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    world.settle();
    world.lag(PODS);
    world.lag(RCS);
    world.create(object(PODS, "pod", &[to(RCS, "rc")]));
    world.delete("rc", DeletePropagation::Orphan);
    world.deliver(RCS);
    world.delete("rc", DeletePropagation::Background);
    world.deliver(RCS);
    world.catch_up();
    world.settle();
    assert_eq!(world.names().len(), 0);
}

/// A terminating Pod still exists after it was detached from its first owner.
#[test]
fn a_terminating_object_is_detached_from_each_of_its_owners() {
    let mut world = World::new();
    world.create(object(RCS, "a", &[]));
    world.create(object(RCS, "b", &[]));
    let mut pod = object(PODS, "pod", &[to(RCS, "a"), to(RCS, "b")]);
    pod.meta.deletion = Some(jiff::Timestamp::UNIX_EPOCH);
    world.server().graceful.insert("pod".into());
    world.create(pod);
    world.settle();
    for owner in ["a", "b"] {
        world.delete(owner, DeletePropagation::Orphan);
        world.settle();
    }
    assert_eq!(world.names(), ["pod"]);
}

#[test]
fn an_owner_with_both_finalizers_leaves_orphans() {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    world.create(object(PODS, "pod", &[to(RCS, "rc")]));
    world.settle();
    world.change("rc", |meta| {
        meta.finalizers = vec![FOREGROUND.into(), ORPHAN.into()];
        meta.deletion = Some(jiff::Timestamp::UNIX_EPOCH);
    });
    world.settle();
    assert_eq!(world.names(), ["pod"]);
}

/// S3: a kind in its first list may have dependents, so a release waits for it, at most for `KIND_WAIT_MAX`.
#[test]
fn a_release_waits_for_first_lists_only() {
    for policy in [DeletePropagation::Orphan, DeletePropagation::Foreground] {
        let mut world = World::new();
        world.begin_first_list(NODES);
        world.observe(&ObservedChange::Kind(PODS, KindState::Forbidden));
        world.create(object(RCS, "rc", &[]));
        world.delete("rc", policy);
        world.settle();
        assert!(matches!(
            world.decide("rc").because,
            GcReason::WaitsForKinds { .. } | GcReason::WaitsForWatches { .. }
        ));
        world.pass(Duration::from_secs(29));
        assert!(world.exists("rc"));
        world.pass(Duration::from_secs(2));
        assert!(!world.exists("rc"));
        let [note] = world.notes() else {
            panic!("not one Event")
        };
        assert!(note.message.contains("nodes"), "{}", note.message);
    }
}

/// A failed first list is retried, so the release waits. A list that has been forbidden for a while is not.
#[test]
fn a_release_waits_for_a_first_list_that_failed() {
    let mut world = World::new();
    world.begin_first_list(NODES);
    let now = world.now();
    world.observe(&ObservedChange::Kind(NODES, KindState::Failing(now)));
    world.create(object(RCS, "rc", &[]));
    world.delete("rc", DeletePropagation::Orphan);
    world.pass(Duration::from_secs(10));
    assert!(world.exists("rc"));
    world.observe(&ObservedChange::Kind(NODES, KindState::Forbidden));
    world.pass(Duration::from_secs(10));
    assert!(world.exists("rc"));
    world.pass(Duration::from_secs(11));
    assert!(!world.exists("rc"));
}

/// S3: a single 401 or 403 must not hide a kind from an orphan deletion. A random run behind a proxy found that.
#[test]
fn a_refusal_that_passes_hides_no_dependent_of_an_orphaning_owner() {
    let mut world = World::new();
    world.begin_first_list(NODES);
    world.observe(&ObservedChange::Kind(NODES, KindState::Forbidden));
    world.create(object(RCS, "rc", &[]));
    world.delete("rc", DeletePropagation::Orphan);
    world.pass(Duration::from_secs(20));
    assert!(world.exists("rc"));
    world.sync(NODES);
    world.settle();
    assert!(!world.exists("rc"));
    assert!(world.notes().is_empty());
}

#[test]
fn a_kind_that_has_long_been_forbidden_delays_no_orphan_deletion() {
    let mut world = World::new();
    world.begin_first_list(NODES);
    world.observe(&ObservedChange::Kind(NODES, KindState::Forbidden));
    world.pass(Duration::from_secs(31));
    world.create(object(RCS, "rc", &[]));
    world.delete("rc", DeletePropagation::Orphan);
    world.settle();
    assert!(!world.exists("rc"));
    assert!(world.notes().is_empty());
}

#[test]
fn releases_an_owner_when_the_last_kind_is_listed() {
    let mut world = World::new();
    world.begin_first_list(NODES);
    world.create(object(RCS, "rc", &[]));
    world.delete("rc", DeletePropagation::Orphan);
    world.settle();
    assert!(world.exists("rc"));
    world.sync(NODES);
    world.settle();
    assert!(!world.exists("rc"));
}

/// S3 and G16: the user changes the policy during the cascade, and the watch of the owner's kind lags.
#[test]
fn a_change_from_foreground_to_orphan_stops_the_cascade() {
    let mut world = World::new();
    world.create(object(RCS, "rc", &[]));
    for number in 0..500 {
        world.create(object(
            PODS,
            &format!("pod-{number:03}"),
            &[blocking(to(RCS, "rc"))],
        ));
    }
    world.settle();
    world.delete("rc", DeletePropagation::Foreground);
    world.deliver(RCS);
    world.lag(RCS);
    while count(&world, "delete") < 150 {
        assert!(world.step());
    }
    world.delete("rc", DeletePropagation::Orphan);
    world.set_time(world.now() + Duration::from_secs(2));
    world.pass(Duration::from_secs(2));
    assert_eq!(
        count(&world, "delete"),
        150,
        "the late watch does not matter"
    );
    assert_eq!(world.names().len(), 350);
    assert!(world.objects().iter().all(|pod| pod.meta.owners.is_empty()));
}

#[test]
fn a_change_from_orphan_to_background_finishes() {
    for policy in [DeletePropagation::Background, DeletePropagation::Foreground] {
        let mut world = World::new();
        world.create(object(RCS, "rc", &[]));
        for number in 0..10 {
            world.create(object(PODS, &number.to_string(), &[to(RCS, "rc")]));
        }
        world.settle();
        world.delete("rc", DeletePropagation::Orphan);
        world.deliver(RCS);
        while count(&world, "patch") < 4 {
            assert!(world.step());
        }
        world.delete("rc", policy);
        world.settle();
        assert!(!world.exists("rc"));
        let left = world.objects();
        let free = left.iter().filter(|pod| pod.meta.owners.is_empty());
        assert_eq!((free.count(), left.len()), (4, 4), "{policy:?}");
    }
}

#[test]
fn does_not_delete_a_terminating_object() {
    let mut world = World::new();
    let mut pod = object(PODS, "pod", &[to(RCS, "absent")]);
    pod.meta.finalizers = vec!["x/y".into()];
    pod.meta.deletion = Some(jiff::Timestamp::UNIX_EPOCH);
    world.create(pod);
    world.settle();
    assert_eq!(world.calls(), []);
    let verdict = world.decide("pod");
    assert_eq!(
        (verdict.next, verdict.because),
        (NextStep::Rest, GcReason::Deleting)
    );
}

/// `TestDoubleDeletionWithFinalizer`: the second delete sets the finalizer again, and the collector removes it again.
#[test]
fn a_second_foreground_delete_is_released_again() {
    let mut world = World::new();
    let mut pod = object(PODS, "pod", &[]);
    pod.meta.finalizers = vec!["x/y".into()];
    world.create(pod);
    for _ in 0..2 {
        world.delete("pod", DeletePropagation::Foreground);
        world.settle();
        let finalizers = world.object("pod").meta.finalizers;
        assert_eq!(finalizers, [Box::from("x/y")]);
    }
    assert_eq!(world.calls().len(), 2);
    assert!(matches!(world.calls()[0], ApiCall::Patch { .. }));
}
