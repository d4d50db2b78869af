//! ReplicaSets: as many Pods as they want, and counts of them.
//!
//! Reduced to what lifecycles need: Pods are made and deleted one after the other, under names that do not change, and
//! Pods of nobody are not adopted. Mirrors `pkg/controller/replicaset` otherwise, 1.36.

use jiff::Timestamp;
use serde_json::Value;

use crate::actor::{Actor, Decision, ask, rest, retry};
use crate::objects::{create, delete, free_name, pod_of, set_count, time_at, write_status};
use crate::pod::{PODS, is_active};
use crate::world::{Named, Object, World};

pub(crate) const REPLICA_SETS: Named = ("apps", "replicasets");

/// The controller of ReplicaSets.
#[derive(Debug)]
pub(crate) struct ReplicaSets;

// === impl ReplicaSets ===

impl Actor for ReplicaSets {
    const NAME: &'static str = "simulated-replicasets";
    const KINDS: &'static [Named] = &[REPLICA_SETS, PODS];

    fn decide(&self, world: &World, set: &Object, _: Timestamp) -> Decision {
        if set.is_deleting() {
            return rest("it is being deleted");
        }
        let active: Vec<&Object> = world.of(set, PODS).filter(|pod| is_active(pod)).collect();
        let wanted = usize::try_from(set.number("/spec/replicas").unwrap_or(1)).unwrap_or(0);
        if active.len() < wanted {
            let name = free_name(world, set, PODS);
            let pod = pod_of(set.at("/spec/template"));
            return create(world, set, PODS, &name, pod).map_or_else(
                || retry("there are no Pods here"),
                |call| ask(call, "it wants more Pods"),
            );
        }
        if active.len() > wanted
            && let Some(pod) = active.iter().min_by_key(|pod| worth(pod))
        {
            return ask(delete(pod), "it wants fewer Pods");
        }
        match write_status(set, &status(set, &active)) {
            Some(call) => ask(call, "its Pods have changed"),
            None => rest("it has what it wants"),
        }
    }
}

/// What is deleted first has the least of it: not bound, not ready, young.
fn worth(pod: &Object) -> (bool, bool, std::cmp::Reverse<Option<Timestamp>>, &str) {
    (
        !pod.text("/spec/nodeName").is_empty(),
        pod.is_true("Ready"),
        std::cmp::Reverse(time_at(pod.at("/metadata/creationTimestamp"))),
        &pod.meta().name,
    )
}

fn status(set: &Object, active: &[&Object]) -> Value {
    let mut status = set.at("/status").clone();
    let ready = active.iter().filter(|pod| pod.is_true("Ready")).count();
    set_count(&mut status, "fullyLabeledReplicas", active.len());
    for field in ["readyReplicas", "availableReplicas"] {
        set_count(&mut status, field, ready);
    }
    status["replicas"] = active.len().into();
    status["observedGeneration"] = set.at("/metadata/generation").clone();
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::Key;
    use crate::tests::{START, Stage, decided};
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
    fn a_set_makes_the_pods_it_lacks_and_none_twice() {
        let mut stage = Stage::of(ReplicaSets);
        let key = Key::new("n", "s");
        stage.applied(REPLICA_SETS, mk_set(2));
        let mut names = Vec::new();
        for _ in 0..2 {
            let made = decided(&stage.decide(&key, START));
            assert_eq!(made.verb, "create");
            let owner = &made.body["metadata"]["ownerReferences"][0];
            assert_eq!(owner["uid"], "uid-of-s");
            assert_eq!(owner["controller"], true);
            assert_eq!(owner["blockOwnerDeletion"], true);
            assert_eq!(made.body["metadata"]["annotations"], json!({"c": "d"}));
            assert_eq!(
                decided(&stage.decide(&key, START)).name,
                made.name,
                "the same again"
            );
            names.push(made.name.clone());
            stage.answer(&key, made.body);
        }
        assert_ne!(names[0], names[1]);
        let counted = decided(&stage.decide(&key, START));
        assert_eq!(
            (counted.verb, counted.subresource),
            ("patch", Some("status"))
        );
        assert_eq!(counted.body["status"]["replicas"], 2);
    }

    #[test]
    fn a_set_deletes_what_is_worth_least_and_replaces_what_has_ended() {
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
            let mut stage = Stage::of(ReplicaSets);
            stage.applied(REPLICA_SETS, mk_set(replicas));
            for (name, status, node) in pods {
                stage.applied(PODS, mk_pod(name, &status, node));
            }
            let asked = decided(&stage.decide(&Key::new("n", "s"), START));
            match expected {
                Some(expected) => assert_eq!((asked.verb, asked.name.as_str()), expected),
                None => assert_eq!(asked.verb, "create"),
            }
        }
    }

    #[test]
    fn a_set_that_ends_or_has_what_it_wants_rests() {
        let key = Key::new("n", "s");
        let mut stage = Stage::of(ReplicaSets);
        let mut set = mk_set(3);
        set["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        stage.applied(REPLICA_SETS, set);
        assert!(stage.is_resting(&key, START));
        let mut set = mk_set(1);
        set["status"] = json!({"replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": 1,
            "availableReplicas": 1, "observedGeneration": 1});
        stage.applied(REPLICA_SETS, set);
        stage.applied(PODS, mk_pod("a", &ready(), "x"));
        assert!(stage.is_resting(&key, START));
    }
}
