//! Answers that a watch event overtakes, or that contradict the watches. Feeds decide which objects exist.

use jiff::Timestamp;

use super::world::{PODS, RCS, SETS, object, to, unsynced_gc};
use crate::gc::index::FOREGROUND;
use crate::gc::{GarbageCollector, GcKey};
use crate::runtime::call::{AbsenceProof, ApiAnswer, ApiCall, CallTarget};
use crate::runtime::controller::{AnsweredCall, Controller, NextStep, ObservedChange, WakeList};
use crate::runtime::kind::KindState;
use crate::runtime::record::{ObjectRecord, OwnerRef};

/// A collector without a driver, which the test gives changes and answers in any order.
struct Collector {
    gc: GarbageCollector,
    now: Timestamp,
}

// === impl Collector ===

impl Collector {
    fn new() -> Self {
        let (gc, now) = unsynced_gc();
        let mut collector = Self { gc, now };
        for kind in [PODS, RCS, SETS] {
            collector.observe(&ObservedChange::Kind(kind, KindState::Synced));
        }
        collector
    }

    fn observe(&mut self, change: &ObservedChange) {
        self.gc.observe(change, self.now, &mut WakeList::default());
    }

    fn show(&mut self, object: &ObjectRecord) {
        self.observe(&ObservedChange::Applied(object.clone().into()));
    }

    fn show_deleted(&mut self, object: &ObjectRecord) {
        self.observe(&ObservedChange::Deleted(object.clone().into()));
    }

    fn next(&self, uid: &str) -> NextStep<GcKey> {
        self.gc.decide(&key(uid), self.now).next
    }

    fn is_deleted(&self, uid: &str) -> bool {
        matches!(self.next(uid), NextStep::Call(ApiCall::Delete { .. }))
    }

    /// The lookup that a dependent waits for, and its request.
    #[track_caller]
    fn lookup(&self, dependent: &str) -> (GcKey, ApiCall) {
        let NextStep::After(mut owners) = self.next(dependent) else {
            panic!("no lookup: {:?}", self.next(dependent));
        };
        let owner = owners.remove(0);
        match self.gc.decide(&owner, self.now).next {
            NextStep::Call(call) => (owner, call),
            other => panic!("no request: {other:?}"),
        }
    }

    fn answer(&mut self, key: &GcKey, call: &ApiCall, answer: &ApiAnswer) {
        self.gc.answered(AnsweredCall {
            key,
            call,
            answer,
            now: self.now,
            wake: &mut WakeList::default(),
        });
    }
}

fn key(uid: &str) -> GcKey {
    GcKey::Object(uid.into())
}

fn found(object: &ObjectRecord) -> ApiAnswer {
    ApiAnswer::Object(object.clone().into())
}

const NOT_FOUND: ApiAnswer = ApiAnswer::Absent(AbsenceProof::NotFound);

#[test]
fn an_answer_from_before_a_deletion_revokes_no_proof() {
    let mut collector = Collector::new();
    let owner = object(RCS, "rc", &[]);
    collector.show(&object(PODS, "pod", &[to(RCS, "rc")]));
    let (asked, call) = collector.lookup("pod");
    collector.show(&owner);
    collector.show_deleted(&owner);
    collector.answer(&asked, &call, &found(&owner));
    assert!(collector.is_deleted("pod"));
}

/// Two versions of a group may be served from different stores.
#[test]
fn an_owner_that_one_version_does_not_have_is_read_in_another() {
    let mut collector = Collector::new();
    let beta = OwnerRef {
        api_version: "apps/v1beta1".into(),
        ..to(SETS, "set")
    };
    collector.show(&object(PODS, "one", &[to(SETS, "set")]));
    collector.show(&object(PODS, "beta", &[beta]));
    let (asked, call) = collector.lookup("one");
    collector.answer(&asked, &call, &NOT_FOUND);
    assert!(collector.is_deleted("one"));
    let (_, call) = collector.lookup("beta");
    assert!(matches!(call, ApiCall::GetInVersion { .. }));
}

#[test]
fn an_answer_brings_no_deleted_object_back() {
    let mut collector = Collector::new();
    let pod = object(PODS, "pod", &[to(RCS, "rc")]);
    collector.show(&pod);
    let (asked, call) = collector.lookup("pod");
    collector.answer(&asked, &call, &NOT_FOUND);
    let NextStep::Call(call) = collector.next("pod") else {
        panic!("no delete");
    };
    collector.show_deleted(&pod);
    collector.answer(&key("pod"), &call, &found(&pod));
    assert_eq!(collector.gc.index().size().nodes, 0);
}

/// A server whose store was restored answers with a version from before the deletion.
#[test]
fn a_read_that_does_not_show_the_deletion_confirms_nothing() {
    let mut collector = Collector::new();
    let mut owner = object(RCS, "rc", &[]);
    owner.meta.revision = "5".into();
    let alive = owner.clone();
    owner.meta.revision = "10".into();
    owner.meta.deletion = Some(collector.now);
    owner.meta.finalizers = vec![FOREGROUND.into()];
    collector.show(&owner);
    collector.show(&object(PODS, "pod", &[to(RCS, "rc")]));
    let (asked, call) = collector.lookup("pod");
    collector.answer(&asked, &call, &found(&alive));
    assert!(!collector.is_deleted("pod"));
    collector.answer(&asked, &call, &found(&owner));
    assert!(collector.is_deleted("pod"));
}

/// The driver reads an object again after a conflict. Its watch says whether it is gone, unless a relist missed it.
#[test]
fn one_answer_does_not_end_an_object_that_its_feed_shows() {
    for is_doubtful in [false, true] {
        let mut collector = Collector::new();
        collector.show(&object(RCS, "rc", &[]));
        collector.show(&object(PODS, "pod", &[to(RCS, "rc")]));
        if is_doubtful {
            collector.observe(&ObservedChange::Missing(RCS, "rc".into()));
        }
        let target = CallTarget::new(RCS, "ns", "rc");
        collector.answer(&key("rc"), &ApiCall::Get { target }, &NOT_FOUND);
        assert_eq!(collector.is_deleted("pod"), is_doubtful);
    }
}
