//! Simulated controllers of ReplicaSets and ReplicationControllers: they create and delete Pods, and count them in the
//! status.
//!
//! Reduced to object lifecycles: they create and delete Pods one by one, with deterministic names, and do not adopt
//! orphans. Otherwise mirrors `pkg/controller/replicaset` and `pkg/controller/replication`, which is the same controller
//! under other names, 1.36.

use jiff::Timestamp;
use serde_json::Value;

use crate::actor::{Actor, ActorDecision, request, rest};
use crate::availability::AvailabilityRule;
use crate::cache::{GroupResource, ObjectCache, ObjectSnapshot};
use crate::objects::{label, set_count, time_at, write_status};
use crate::pod::{PODS, delete_pod, has_ended, is_active, make_pod};

pub(crate) const REPLICA_SETS: GroupResource = ("apps", "replicasets");
const REPLICATION_CONTROLLERS: GroupResource = ("", "replicationcontrollers");

/// Simulates the controller of ReplicaSets.
#[derive(Debug)]
pub(crate) struct ReplicaSetActor;

/// Simulates the controller of ReplicationControllers.
#[derive(Debug)]
pub(crate) struct ReplicationControllerActor;

/// Whether a status counts the Pods that are being deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TerminatingPods {
    Counted,
    Ignored,
}

// === impl ReplicaSetActor ===

impl Actor for ReplicaSetActor {
    const NAME: &'static str = "simulated-replicasets";
    const REPORTER: &'static str = "replicaset-controller";
    const KINDS: &'static [GroupResource] = &[REPLICA_SETS, PODS];

    fn decide(&self, cache: &ObjectCache, set: &ObjectSnapshot, now: Timestamp) -> ActorDecision {
        replicate(cache, set, TerminatingPods::Counted, now)
    }
}

// === impl ReplicationControllerActor ===

impl Actor for ReplicationControllerActor {
    const NAME: &'static str = "simulated-replicationcontrollers";
    const REPORTER: &'static str = "replication-controller";
    const KINDS: &'static [GroupResource] = &[REPLICATION_CONTROLLERS, PODS];

    fn decide(&self, cache: &ObjectCache, set: &ObjectSnapshot, now: Timestamp) -> ActorDecision {
        replicate(cache, set, TerminatingPods::Ignored, now)
    }
}

/// Creates missing Pods, deletes excess ones, then writes the status.
fn replicate(
    cache: &ObjectCache,
    set: &ObjectSnapshot,
    terminating: TerminatingPods,
    now: Timestamp,
) -> ActorDecision {
    if set.is_deleting() {
        return rest("the object is being deleted");
    }
    let mut active: Vec<&ObjectSnapshot> = Vec::new();
    let mut ending = 0;
    for pod in cache.controlled_by(set, PODS) {
        if is_active(pod) {
            active.push(pod);
        } else if !has_ended(pod) {
            ending += 1;
        }
    }
    let wanted = usize::try_from(set.number("/spec/replicas").unwrap_or(1)).unwrap_or(0);
    if active.len() < wanted {
        return make_pod(cache, set);
    }
    if active.len() > wanted
        && let Some(pod) = active.iter().min_by_key(|pod| worth(pod))
    {
        return delete_pod(cache, set, pod);
    }
    let rule = AvailabilityRule::of(set, now);
    let mut status = status(set, &active, rule);
    if terminating == TerminatingPods::Counted {
        status["terminatingReplicas"] = ending.into();
    }
    match write_status(set, &status) {
        Some(call) => request(call, "the status does not match the Pods"),
        None => rule.wait_for(active.into_iter(), "Pods and status are up to date"),
    }
}

/// Sort key for deletion: unbound, not ready and young Pods go first.
fn worth(pod: &ObjectSnapshot) -> (bool, bool, std::cmp::Reverse<Option<Timestamp>>, &str) {
    (
        !pod.text("/spec/nodeName").is_empty(),
        pod.is_true("Ready"),
        std::cmp::Reverse(time_at(pod.at("/metadata/creationTimestamp"))),
        &pod.meta().name,
    )
}

fn status(set: &ObjectSnapshot, active: &[&ObjectSnapshot], rule: AvailabilityRule) -> Value {
    let mut status = set.at("/status").clone();
    let count = |is_counted: &dyn Fn(&ObjectSnapshot) -> bool| {
        active.iter().filter(|pod| is_counted(pod)).count()
    };
    let wanted = set.at("/spec/template/metadata/labels").as_object();
    let is_labeled = |pod: &ObjectSnapshot| {
        let mut wanted = wanted.into_iter().flatten();
        wanted.all(|(name, value)| value.as_str() == Some(label(pod, name)))
    };
    set_count(&mut status, "fullyLabeledReplicas", count(&is_labeled));
    set_count(
        &mut status,
        "readyReplicas",
        count(&|pod| pod.is_true("Ready")),
    );
    set_count(
        &mut status,
        "availableReplicas",
        count(&|pod| rule.is_available(pod)),
    );
    status["replicas"] = active.len().into();
    status["observedGeneration"] = set.at("/metadata/generation").clone();
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::NamespacedName;
    use crate::tests::{ActorHarness, START, decided, events};
    use caretaker_controllers::runtime::call::FailureKind;
    use serde_json::json;

    fn mk_set(replicas: u32) -> Value {
        json!({"metadata": {"name": "s", "namespace": "n", "generation": 1},
            "spec": {"replicas": replicas, "template": {"metadata": {"labels": {"a": "b"},
                "annotations": {"c": "d"}}, "spec": {"containers": []}}},
            "status": {"replicas": 0}})
    }

    fn mk_pod(name: &str, status: &Value, node: &str) -> Value {
        json!({"metadata": {"name": name, "namespace": "n", "ownerReferences": [{"apiVersion": "apps/v1",
            "kind": "ReplicaSet", "name": "s", "uid": "uid-of-s", "controller": true}]},
            "spec": {"nodeName": node}, "status": status})
    }

    fn ready() -> Value {
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
    }

    #[test]
    fn creates_missing_pods_once() {
        let mut harness = ActorHarness::of(ReplicaSetActor);
        let key = NamespacedName::new("n", "s");
        harness.applied(REPLICA_SETS, mk_set(2));
        let mut names = Vec::new();
        for _ in 0..2 {
            let decision = harness.decide(&key, START);
            let made = decided(&decision);
            assert_eq!(made.verb, "create");
            let event = format!("Normal SuccessfulCreate: Created pod: {}", made.name);
            assert_eq!(events(&decision), [event]);
            let owner = &made.body["metadata"]["ownerReferences"][0];
            assert_eq!(owner["uid"], "uid-of-s");
            assert_eq!(owner["controller"], true);
            assert_eq!(owner["blockOwnerDeletion"], true);
            assert_eq!(made.body["metadata"]["annotations"], json!({"c": "d"}));
            assert_eq!(
                decided(&harness.decide(&key, START)).name,
                made.name,
                "the decision is repeatable"
            );
            names.push(made.name.clone());
            harness.answer(&key, made.body);
        }
        assert_ne!(names[0], names[1]);
        let counted = decided(&harness.decide(&key, START));
        assert_eq!(
            (counted.verb, counted.subresource),
            ("patch", Some("status"))
        );
        assert_eq!(counted.body["status"]["replicas"], 2);
    }

    #[test]
    fn deletes_least_useful_pods_and_replaces_finished_ones() {
        let cases = [
            (
                1,
                vec![("a", ready(), "x"), ("b", json!({}), "")],
                Some(("delete", "b")),
            ),
            (
                1,
                vec![("a", ready(), "x"), ("b", json!({"phase": "Running"}), "x")],
                Some(("delete", "b")),
            ),
            (0, vec![("a", ready(), "x")], Some(("delete", "a"))),
            (1, vec![("a", json!({"phase": "Failed"}), "x")], None),
        ];
        for (replicas, pods, expected) in cases {
            let mut harness = ActorHarness::of(ReplicaSetActor);
            harness.applied(REPLICA_SETS, mk_set(replicas));
            for (name, status, node) in pods {
                harness.applied(PODS, mk_pod(name, &status, node));
            }
            let decision = harness.decide(&NamespacedName::new("n", "s"), START);
            let asked = decided(&decision);
            match expected {
                Some((verb, name)) => {
                    assert_eq!((asked.verb, asked.name.as_str()), (verb, name));
                    let event = format!("Normal SuccessfulDelete: Deleted pod: {name}");
                    assert_eq!(events(&decision), [event]);
                }
                None => assert_eq!(asked.verb, "create"),
            }
        }
    }

    #[test]
    fn reports_refused_pods() {
        let key = NamespacedName::new("n", "s");
        let mut harness = ActorHarness::of(ReplicaSetActor);
        harness.applied(REPLICA_SETS, mk_set(1));
        let decision = harness.decide(&key, START);
        let cases = [
            (
                FailureKind::Forbidden,
                Some("FailedCreate: Error creating: no"),
            ),
            (
                FailureKind::Refused,
                Some("FailedCreate: Error creating: no"),
            ),
            (FailureKind::Conflict, None),
            (FailureKind::NamespaceEnding, None),
            (FailureKind::Unavailable, None),
        ];
        for (kind, expected) in cases {
            let found = harness.failed(&key, &decision, kind, "no");
            assert_eq!(found.as_deref(), expected, "{kind:?}");
        }
        harness.applied(REPLICA_SETS, mk_set(0));
        harness.applied(PODS, mk_pod("a", &ready(), "x"));
        let decision = harness.decide(&key, START);
        let found = harness.failed(&key, &decision, FailureKind::Forbidden, "no");
        assert_eq!(found.as_deref(), Some("FailedDelete: Error deleting: no"));
    }

    #[test]
    fn rests_when_deleting_or_up_to_date() {
        let key = NamespacedName::new("n", "s");
        let mut harness = ActorHarness::of(ReplicaSetActor);
        let mut set = mk_set(3);
        set["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        harness.applied(REPLICA_SETS, set);
        assert!(harness.is_resting(&key, START));
        let mut set = mk_set(1);
        set["status"] = json!({"replicas": 1, "readyReplicas": 1, "availableReplicas": 1,
            "terminatingReplicas": 0, "observedGeneration": 1});
        harness.applied(REPLICA_SETS, set);
        harness.applied(PODS, mk_pod("a", &ready(), "x"));
        assert!(harness.is_resting(&key, START));
    }

    #[test]
    fn counts_pods_by_their_state() {
        let mut harness = ActorHarness::of(ReplicaSetActor);
        let mut set = mk_set(2);
        set["spec"]["minReadySeconds"] = 10.into();
        harness.applied(REPLICA_SETS, set);
        let since = |secs: i64| {
            let since = crate::objects::time(crate::objects::later(START, -secs));
            json!({"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": since}]})
        };
        let mut labeled = mk_pod("a", &since(10), "x");
        labeled["metadata"]["labels"] = json!({"a": "b", "more": "c"});
        harness.applied(PODS, labeled);
        harness.applied(PODS, mk_pod("b", &since(4), "x"));
        let mut ending = mk_pod("c", &ready(), "x");
        ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        harness.applied(PODS, ending);
        let key = NamespacedName::new("n", "s");
        let counted = decided(&harness.decide(&key, START));
        assert_eq!(
            counted.body["status"],
            json!({"replicas": 2, "fullyLabeledReplicas": 1, "readyReplicas": 2, "availableReplicas": 1,
                "terminatingReplicas": 1, "observedGeneration": 1})
        );
    }

    #[test]
    fn replication_controllers_have_pods_too() {
        let mut harness = ActorHarness::of(ReplicationControllerActor);
        let key = NamespacedName::new("n", "s");
        harness.applied(REPLICATION_CONTROLLERS, mk_set(1));
        let made = decided(&harness.decide(&key, START));
        assert_eq!(made.verb, "create");
        assert_eq!(made.body["metadata"]["generateName"], "s-");
        let owner = &made.body["metadata"]["ownerReferences"][0];
        assert_eq!(
            (&owner["apiVersion"], &owner["kind"]),
            (&json!("v1"), &json!("ReplicationController"))
        );
        harness.answer(&key, made.body);
        let counted = decided(&harness.decide(&key, START));
        assert_eq!(
            counted.body["status"],
            json!({"replicas": 1, "fullyLabeledReplicas": 1, "observedGeneration": 1})
        );
    }
}
