//! Simulated controller of Deployments: one ReplicaSet per template; the newest is scaled up, the others to zero.
//!
//! Reduced to object lifecycles: the new ReplicaSet gets all replicas at once, and the old ones are scaled down when these
//! are available (with `Recreate`: before). `maxSurge` and `maxUnavailable` are ignored. Otherwise mirrors
//! `pkg/controller/deployment`, 1.36.

use caretaker_controllers::runtime::call::ApiCall;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::actor::{Actor, ActorDecision, make, request, request_or_rest, rest};
use crate::cache::{GroupResource, ObjectCache, ObjectSnapshot};
use crate::objects::{
    change, delete, hashed, pod_of, set_condition, set_count, time, write_status,
};
use crate::replicaset::REPLICA_SETS;

const DEPLOYMENTS: GroupResource = ("apps", "deployments");
/// Label that distinguishes the ReplicaSets of a Deployment and their Pods.
const HASH_LABEL: &str = "pod-template-hash";
/// Annotation with the revision number of a ReplicaSet.
const REVISION: &str = "deployment.kubernetes.io/revision";

/// Simulates the Deployment controller.
#[derive(Debug)]
pub(crate) struct DeploymentActor;

// === impl DeploymentActor ===

impl Actor for DeploymentActor {
    const NAME: &'static str = "simulated-deployments";
    const KINDS: &'static [GroupResource] = &[DEPLOYMENTS, REPLICA_SETS];

    fn decide(
        &self,
        cache: &ObjectCache,
        deployment: &ObjectSnapshot,
        now: Timestamp,
    ) -> ActorDecision {
        if deployment.is_deleting() {
            return rest("the Deployment is being deleted");
        }
        let hash = template_hash(deployment);
        let (new, old): (Vec<&ObjectSnapshot>, Vec<&ObjectSnapshot>) = cache
            .controlled_by(deployment, REPLICA_SETS)
            .filter(|set| !set.is_deleting())
            .partition(|set| set.at("/metadata/labels")[HASH_LABEL] == *hash);
        let new = new.first().copied();
        let is_paused = *deployment.at("/spec/paused") == true;
        let step = if is_paused {
            None
        } else {
            roll(cache, deployment, new, &old, &hash)
        };
        if let Some(step) = step {
            return step;
        }
        request_or_rest(
            write_status(deployment, &status(deployment, new, &old, now)),
            "the status does not match the ReplicaSets",
            "ReplicaSets and status are up to date",
        )
    }
}

/// The next step of a rollout; `None` if it is complete or waits for Pods.
fn roll(
    cache: &ObjectCache,
    deployment: &ObjectSnapshot,
    new: Option<&ObjectSnapshot>,
    old: &[&ObjectSnapshot],
    hash: &str,
) -> Option<ActorDecision> {
    let wanted = wanted(deployment);
    let is_at_once = deployment.text("/spec/strategy/type") != "Recreate";
    let empty = |set: &&&ObjectSnapshot| count(set, "/spec/replicas") == 0;
    let is_used = |set: &&&ObjectSnapshot| !empty(set) || count(set, "/status/replicas") > 0;
    let emptied = |set: &ObjectSnapshot| {
        scaled(set, 0).map(|call| request(call, "a newer ReplicaSet is available"))
    };
    let Some(new) = new else {
        if !is_at_once && let Some(set) = old.iter().find(is_used) {
            return emptied(set).or_else(|| Some(rest("old Pods are terminating")));
        }
        let name = format!("{}-{hash}", deployment.meta().name);
        let set = (name.as_str(), replica_set(deployment, old, hash));
        let why = "there is no ReplicaSet for the template";
        return Some(make(cache, deployment, REPLICA_SETS, set, why));
    };
    if let Some(call) = scaled(new, wanted) {
        return Some(request(call, "the number of replicas differs"));
    }
    if count(new, "/status/availableReplicas") < wanted {
        return None;
    }
    if let Some(set) = old.iter().find(|set| !empty(set)) {
        return emptied(set);
    }
    let limit = deployment.number("/spec/revisionHistoryLimit");
    let mut spent: Vec<&&ObjectSnapshot> = old.iter().filter(|set| !is_used(set)).collect();
    spent.sort_by_key(|set| revision(set));
    let is_over = i64::try_from(spent.len()).is_ok_and(|spent| spent > limit.unwrap_or(10));
    let oldest = spent.first().filter(|_| is_over)?;
    let why = "the revision history limit is exceeded";
    Some(request(delete(oldest), why))
}

fn wanted(deployment: &ObjectSnapshot) -> i64 {
    deployment.number("/spec/replicas").unwrap_or(1)
}

fn count(set: &ObjectSnapshot, pointer: &str) -> i64 {
    set.number(pointer).unwrap_or(0)
}

fn revision(set: &ObjectSnapshot) -> i64 {
    let text = set.at("/metadata/annotations")[REVISION].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn scaled(set: &ObjectSnapshot, replicas: i64) -> Option<ApiCall> {
    let mut spec = set.at("/spec").clone();
    spec["replicas"] = replicas.into();
    change(set, None, "spec", &spec)
}

/// A hash of the template.
fn template_hash(deployment: &ObjectSnapshot) -> String {
    let template = deployment.at("/spec/template").to_string();
    // Twice as long as other suffixes: two templates of a Deployment must not collide.
    format!("{}{}", hashed(&template), hashed(&format!("{template}/")))
}

fn replica_set(deployment: &ObjectSnapshot, old: &[&ObjectSnapshot], hash: &str) -> Value {
    let mut template = pod_of(deployment.at("/spec/template"));
    template["metadata"]["labels"][HASH_LABEL] = hash.into();
    let mut selector = deployment.at("/spec/selector").clone();
    selector["matchLabels"][HASH_LABEL] = hash.into();
    let last = old.iter().map(|set| revision(set)).max().unwrap_or(0);
    let wanted = wanted(deployment);
    json!({
        "metadata": {
            "labels": template["metadata"]["labels"],
            "annotations": {REVISION: (last + 1).to_string(),
                "deployment.kubernetes.io/desired-replicas": wanted.to_string()},
        },
        "spec": {"replicas": wanted, "selector": selector, "template": template},
    })
}

fn status(
    deployment: &ObjectSnapshot,
    new: Option<&ObjectSnapshot>,
    old: &[&ObjectSnapshot],
    now: Timestamp,
) -> Value {
    let mut status = deployment.at("/status").clone();
    let all = || old.iter().copied().chain(new);
    let sum = |field: &str| -> usize {
        let pointer = format!("/status/{field}");
        let counts = all().map(|set| count(set, &pointer));
        usize::try_from(counts.sum::<i64>()).unwrap_or(0)
    };
    let updated = new.map_or(0, |set| count(set, "/status/replicas"));
    let updated = usize::try_from(updated).unwrap_or(0);
    let wanted = usize::try_from(wanted(deployment)).unwrap_or(0);
    let available = sum("availableReplicas");
    for (field, count) in [
        ("replicas", sum("replicas")),
        ("updatedReplicas", updated),
        ("readyReplicas", sum("readyReplicas")),
        ("availableReplicas", available),
        ("unavailableReplicas", wanted.saturating_sub(available)),
    ] {
        set_count(&mut status, field, count);
    }
    status["observedGeneration"] = deployment.at("/metadata/generation").clone();
    let is_available = available >= wanted;
    let is_done = is_available && updated == wanted && sum("replicas") == wanted;
    let mut conditions = deployment.items("/status/conditions").to_vec();
    let available = if is_available {
        json!({"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable",
            "message": "Deployment has minimum availability."})
    } else {
        json!({"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable",
            "message": "Deployment does not have minimum availability."})
    };
    let set = new.map_or("", |set| &set.meta().name);
    let (reason, progress) = if is_done {
        ("NewReplicaSetAvailable", "has successfully progressed")
    } else {
        ("ReplicaSetUpdated", "is progressing")
    };
    let progressing = json!({"type": "Progressing", "status": "True", "reason": reason,
        "message": format!("ReplicaSet {set:?} {progress}.")});
    for condition in [available, progressing] {
        set_and_date(&mut conditions, condition, now);
    }
    status["conditions"] = conditions.into();
    status
}

/// Sets a condition with `lastUpdateTime`, which conditions of Deployments have.
fn set_and_date(conditions: &mut Vec<Value>, mut condition: Value, now: Timestamp) {
    let known = conditions
        .iter()
        .find(|known| known["type"] == condition["type"]);
    let mut fields = ["status", "reason", "message"].iter();
    if known.is_some_and(|known| fields.all(|field| known[*field] == condition[*field])) {
        return;
    }
    condition["lastUpdateTime"] = time(now).into();
    set_condition(conditions, condition, now);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::NamespacedName;
    use crate::tests::{ActorHarness, START, decided};

    fn mk_deployment(spec: &Value) -> Value {
        let mut deployment = json!({"metadata": {"name": "d", "namespace": "n", "generation": 3},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "a"}},
                "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": []}}}});
        for (name, value) in spec.as_object().unwrap() {
            deployment["spec"][name] = value.clone();
        }
        deployment
    }

    fn key() -> NamespacedName {
        NamespacedName::new("n", "d")
    }

    /// A Deployment whose first ReplicaSet exists and has `available` Pods.
    fn rolled_out(spec: &Value, available: u32) -> (ActorHarness<DeploymentActor>, Value) {
        let mut harness = ActorHarness::of(DeploymentActor);
        harness.applied(DEPLOYMENTS, mk_deployment(spec));
        let made = decided(&harness.decide(&key(), START));
        assert_eq!(made.verb, "create");
        let mut set = made.body;
        set["status"] = json!({"replicas": available, "readyReplicas": available, "availableReplicas": available});
        harness.applied(REPLICA_SETS, set.clone());
        (harness, set)
    }

    #[test]
    fn creates_a_replica_set_that_selects_its_own_pods() {
        let (harness, set) = rolled_out(&json!({}), 2);
        let hash = &set["metadata"]["labels"][HASH_LABEL];
        assert_eq!(
            set["metadata"]["name"],
            format!("d-{}", hash.as_str().unwrap())
        );
        assert_eq!(&set["spec"]["selector"]["matchLabels"][HASH_LABEL], hash);
        assert_eq!(
            &set["spec"]["template"]["metadata"]["labels"][HASH_LABEL],
            hash
        );
        assert_eq!(set["metadata"]["annotations"][REVISION], "1");
        let counted = decided(&harness.decide(&key(), START));
        let status = &counted.body["status"];
        assert_eq!(status["updatedReplicas"], 2);
        assert_eq!(status["observedGeneration"], 3);
        assert_eq!(status["conditions"][1]["reason"], "NewReplicaSetAvailable");
    }

    #[test]
    fn scales_the_replica_set() {
        let (mut harness, _) = rolled_out(&json!({}), 2);
        harness.applied(DEPLOYMENTS, mk_deployment(&json!({"replicas": 5})));
        let scaled = decided(&harness.decide(&key(), START));
        assert_eq!((scaled.verb, scaled.subresource), ("patch", None));
        assert_eq!(scaled.body, json!({"spec": {"replicas": 5}}));
    }

    #[test]
    fn scales_down_old_set_when_new_pods_are_available() {
        let (mut harness, old) = rolled_out(&json!({}), 2);
        let template =
            json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c"}]}});
        let next = mk_deployment(&json!({"template": template}));
        harness.applied(DEPLOYMENTS, next);
        let made = decided(&harness.decide(&key(), START));
        assert_eq!(made.body["metadata"]["annotations"][REVISION], "2");
        assert_ne!(made.body["metadata"]["name"], old["metadata"]["name"]);
        let mut new = made.body;
        harness.applied(REPLICA_SETS, new.clone());
        assert_eq!(
            decided(&harness.decide(&key(), START)).subresource,
            Some("status")
        );
        new["status"] = json!({"replicas": 2, "readyReplicas": 2, "availableReplicas": 2});
        harness.applied(REPLICA_SETS, new);
        let emptied = decided(&harness.decide(&key(), START));
        assert_eq!(emptied.name, old["metadata"]["name"].as_str().unwrap());
        assert_eq!(emptied.body, json!({"spec": {"replicas": 0}}));
    }

    #[test]
    fn recreate_removes_old_pods_first() {
        let recreate = json!({"strategy": {"type": "Recreate"}});
        let (mut harness, mut old) = rolled_out(&recreate, 2);
        let template = json!({"spec": {"containers": [{"name": "c"}]}});
        let mut next = mk_deployment(&recreate);
        next["spec"]["template"] = template;
        harness.applied(DEPLOYMENTS, next);
        assert_eq!(
            decided(&harness.decide(&key(), START)).body,
            json!({"spec": {"replicas": 0}})
        );
        old["spec"]["replicas"] = 0.into();
        harness.applied(REPLICA_SETS, old.clone());
        assert!(
            harness.is_resting(&key(), START),
            "old Pods are terminating"
        );
        old["status"] = json!({"replicas": 0});
        harness.applied(REPLICA_SETS, old);
        assert_eq!(decided(&harness.decide(&key(), START)).verb, "create");
    }

    #[test]
    fn deletes_oldest_replica_set_over_the_history_limit() {
        let (mut harness, new) = rolled_out(&json!({"revisionHistoryLimit": 1}), 2);
        for (name, revision) in [("b", "3"), ("a", "7")] {
            let mut set = new.clone();
            set["metadata"]["name"] = name.into();
            set["metadata"]["labels"][HASH_LABEL] = name.into();
            set["metadata"]["annotations"][REVISION] = revision.into();
            set["spec"]["replicas"] = 0.into();
            set["status"] = json!({"replicas": 0});
            harness.applied(REPLICA_SETS, set);
        }
        let deleted = decided(&harness.decide(&key(), START));
        assert_eq!((deleted.verb, deleted.name.as_str()), ("delete", "b"));
    }
}
