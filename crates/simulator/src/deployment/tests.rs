//! Rollouts of a Deployment, with ReplicaSets that obey at once or as a test wants.

use std::collections::BTreeMap;

use caretaker_controllers::runtime::call::ApiCall;
use caretaker_controllers::runtime::controller::NextStep;
use serde_json::json;

use super::revision::{DESIRED, HASH_LABEL, HISTORY, MAXIMUM, REVISION};
use super::*;
use crate::objects::{later, time};
use crate::tests::{ActorHarness, START, events};

/// More requests than any rollout of these tests needs.
const REQUESTS_MAX: usize = 100;

/// A Deployment `d`, its ReplicaSets, and a server that accepts all writes.
struct World {
    harness: ActorHarness<DeploymentActor>,
    deployment: Value,
    sets: BTreeMap<String, Value>,
    /// Messages of all Events.
    events: Vec<String>,
    now: Timestamp,
}

impl World {
    fn new(spec: &Value) -> Self {
        let deployment = json!({"metadata": {"name": "d", "namespace": "n", "generation": 1},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "progressDeadlineSeconds": 600,
                "revisionHistoryLimit": 10,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
                "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"image": "1"}}}});
        let mut world = Self {
            harness: ActorHarness::of(DeploymentActor),
            deployment,
            sets: BTreeMap::new(),
            events: Vec::new(),
            now: START,
        };
        world.change(&json!({ "spec": spec }));
        world
    }

    /// A Deployment whose first rollout is complete.
    fn rolled_out(spec: &Value) -> Self {
        let mut world = Self::new(spec);
        world.complete();
        world.events.clear();
        world
    }

    /// A user changes the Deployment.
    fn change(&mut self, patch: &Value) {
        if !patch["spec"].is_null() {
            let generation = self.deployment["metadata"]["generation"].as_i64().unwrap();
            self.deployment["metadata"]["generation"] = (generation + 1).into();
        }
        merge(&mut self.deployment, patch);
        self.harness.applied(DEPLOYMENTS, self.deployment.clone());
    }

    fn use_image(&mut self, image: &str) {
        self.change(&json!({"spec": {"template": {"spec": {"image": image}}}}));
    }

    /// Carries out all decisions until the actor rests or waits. Returns the requests.
    fn run(&mut self) -> Vec<String> {
        let mut requests = Vec::new();
        loop {
            let decision = self
                .harness
                .decide(&NamespacedName::new("n", "d"), self.now);
            let NextStep::Call(call) = &decision.next else {
                return requests;
            };
            assert!(requests.len() < REQUESTS_MAX, "endless: {requests:?}");
            self.events.extend(events(&decision));
            requests.push(self.carry_out(call));
        }
    }

    fn carry_out(&mut self, call: &ApiCall) -> String {
        let name = call.target().name.to_string();
        match call {
            ApiCall::Create { object, .. } => {
                let mut set = object.clone();
                let order = i64::try_from(self.sets.len()).unwrap();
                set["metadata"]["creationTimestamp"] = time(later(START, order)).into();
                set["metadata"]["generation"] = 1.into();
                self.show(name.clone(), set);
                format!("create {}", object["spec"]["replicas"])
            }
            ApiCall::Delete { .. } => {
                self.sets.remove(&name);
                let key = NamespacedName::new("n", &name);
                self.harness.deleted(REPLICA_SETS, &key);
                "delete".to_owned()
            }
            ApiCall::Patch { patch, .. } if name == "d" => {
                merge(&mut self.deployment, patch);
                self.harness.applied(DEPLOYMENTS, self.deployment.clone());
                "status".to_owned()
            }
            ApiCall::Patch { patch, .. } => {
                let mut set = self.sets[&name].clone();
                merge(&mut set, patch);
                let to = &patch["spec"]["replicas"];
                let image = self.sets[&name]["spec"]["template"]["spec"]["image"].clone();
                self.show(name, set);
                match to.is_null() {
                    true => "annotate".to_owned(),
                    false => format!("{} to {to}", image.as_str().unwrap()),
                }
            }
            _ => panic!("actors never send GET"),
        }
    }

    fn show(&mut self, name: String, set: Value) {
        self.harness.applied(REPLICA_SETS, set.clone());
        self.sets.insert(name, set);
    }

    /// The ReplicaSet of an image.
    fn set(&self, image: &str) -> &Value {
        let mut sets = self.sets.values();
        let set = sets.find(|set| set["spec"]["template"]["spec"]["image"] == image);
        set.expect("the image has a ReplicaSet")
    }

    fn note(&self, image: &str, name: &str) -> &str {
        let annotation = &self.set(image)["metadata"]["annotations"][name];
        annotation.as_str().unwrap_or("none")
    }

    /// The ReplicaSet of an image has the Pods that it wants, this many of them available.
    fn obey(&mut self, image: &str, available: i64) {
        let mut set = self.set(image).clone();
        let replicas = set["spec"]["replicas"].clone();
        set["status"] = json!({"replicas": replicas, "readyReplicas": available, "availableReplicas": available,
            "observedGeneration": 1, "terminatingReplicas": 0});
        let name = set["metadata"]["name"].as_str().unwrap().to_owned();
        self.show(name, set);
    }

    /// All ReplicaSets obey at once, until the rollout is complete. Returns the requests without those of the status.
    fn complete(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            let before = self.sets.clone();
            for set in before.values() {
                let image = set["spec"]["template"]["spec"]["image"].as_str().unwrap();
                self.obey(image, set["spec"]["replicas"].as_i64().unwrap());
            }
            let requests = self.run();
            if requests.is_empty() && self.sets == before {
                all.retain(|request| request != "status");
                return all;
            }
            all.extend(requests);
        }
    }

    /// Status, reason and message of a condition.
    fn condition(&self, of: &str) -> [&str; 3] {
        let conditions = self.deployment["status"]["conditions"].as_array().unwrap();
        let found = conditions.iter().find(|known| known["type"] == of);
        let found = found.unwrap_or(&Value::Null);
        ["status", "reason", "message"].map(|field| found[field].as_str().unwrap_or("none"))
    }

    fn number(&self, field: &str) -> i64 {
        self.deployment["status"][field].as_i64().unwrap_or(0)
    }
}

/// RFC 7386, for patches that add and change members.
fn merge(into: &mut Value, patch: &Value) {
    let Some(members) = patch.as_object() else {
        *into = patch.clone();
        return;
    };
    for (name, value) in members {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut into[name], value);
        }
    }
}

#[test]
fn first_rollout_creates_a_replica_set_that_selects_its_own_pods() {
    let mut world = World::new(&json!({"minReadySeconds": 3}));
    world.change(
        &json!({"metadata": {"annotations": {"kubernetes.io/change-cause": "first",
        "kubectl.kubernetes.io/last-applied-configuration": "{}"}}}),
    );
    assert_eq!(world.run(), ["create 2", "status", "status"]);
    let set = world.set("1").clone();
    let name = set["metadata"]["name"].as_str().unwrap();
    let hash = set["metadata"]["labels"][HASH_LABEL].as_str().unwrap();
    assert_eq!(name, format!("d-{hash}"));
    assert_eq!(
        set["spec"]["selector"]["matchLabels"],
        json!({"app": "a", HASH_LABEL: hash})
    );
    assert_eq!(
        set["spec"]["template"]["metadata"]["labels"],
        json!({"app": "a", HASH_LABEL: hash})
    );
    assert_eq!(set["spec"]["minReadySeconds"], 3);
    assert_eq!(
        set["metadata"]["annotations"],
        json!({REVISION: "1", DESIRED: "2", MAXIMUM: "3", "kubernetes.io/change-cause": "first"})
    );
    assert_eq!(
        world.events,
        [format!(
            "Normal ScalingReplicaSet: Scaled up replica set {name} from 0 to 2"
        )]
    );
    assert_eq!(world.deployment["metadata"]["annotations"][REVISION], "1");
}

#[test]
fn first_rollout_reports_its_progress() {
    let mut world = World::new(&json!({}));
    world.run();
    let set = world.set("1").clone();
    let name = set["metadata"]["name"].as_str().unwrap();
    let created = format!("Created new replica set \"{name}\"");
    assert_eq!(
        world.condition("Progressing"),
        ["True", "NewReplicaSetCreated", &created]
    );
    world.obey("1", 0);
    world.run();
    let progress = format!("ReplicaSet \"{name}\" is progressing.");
    assert_eq!(
        world.condition("Progressing"),
        ["True", "ReplicaSetUpdated", &progress]
    );
    let unavailable = "Deployment does not have minimum availability.";
    assert_eq!(
        world.condition("Available"),
        ["False", "MinimumReplicasUnavailable", unavailable]
    );
    assert_eq!(
        (
            world.number("updatedReplicas"),
            world.number("unavailableReplicas")
        ),
        (2, 2)
    );
    world.obey("1", 2);
    world.run();
    let done = format!("ReplicaSet \"{name}\" has successfully progressed.");
    assert_eq!(
        world.condition("Progressing"),
        ["True", "NewReplicaSetAvailable", &done]
    );
    let available = "Deployment has minimum availability.";
    assert_eq!(
        world.condition("Available"),
        ["True", "MinimumReplicasAvailable", available]
    );
    assert_eq!(world.number("observedGeneration"), 2);
    assert_eq!(
        world.run(),
        Vec::<String>::new(),
        "the status is written once"
    );
}

#[test]
fn rolls_by_surge_and_unavailable_pods() {
    // Replicas, maxSurge, maxUnavailable, and the sizes of old and new ReplicaSet in their order.
    let cases: [(u32, Value, Value, &[&str]); 6] = [
        (
            4,
            json!(1),
            json!(0),
            &[
                "create 1", "1 to 3", "2 to 2", "1 to 2", "2 to 3", "1 to 1", "2 to 4", "1 to 0",
            ],
        ),
        (
            4,
            json!("50%"),
            json!("25%"),
            &["create 2", "1 to 3", "2 to 3", "1 to 0", "2 to 4"],
        ),
        (
            2,
            json!(0),
            json!(1),
            &["create 0", "1 to 1", "2 to 1", "1 to 0", "2 to 2"],
        ),
        (2, json!("100%"), json!(0), &["create 2", "1 to 0"]),
        (1, json!("25%"), json!("25%"), &["create 1", "1 to 0"]),
        (
            3,
            json!(0),
            json!("100%"),
            &["create 0", "1 to 0", "2 to 3"],
        ),
    ];
    for (replicas, surge, unavailable, expected) in cases {
        let limits = json!({"maxSurge": surge, "maxUnavailable": unavailable});
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": limits});
        let spec = json!({"replicas": replicas, "strategy": strategy});
        let mut world = World::rolled_out(&spec);
        world.use_image("2");
        assert_eq!(world.complete(), expected, "{spec}");
        assert_eq!(world.condition("Progressing")[1], "NewReplicaSetAvailable");
        assert_eq!(world.set("1")["spec"]["replicas"], 0);
    }
}

#[test]
fn pods_that_are_not_available_stop_the_rollout_and_time_out() {
    let mut world = World::rolled_out(&json!({"replicas": 4, "progressDeadlineSeconds": 60}));
    world.use_image("2");
    assert_eq!(
        world.run(),
        ["create 1", "status", "1 to 3", "2 to 2", "status"]
    );
    world.obey("1", 3);
    world.obey("2", 0);
    assert_eq!(world.run(), ["status"]);
    let key = NamespacedName::new("n", "d");
    let over = later(START, 61);
    assert_eq!(world.harness.at(&key, world.now), Some(over));
    world.now = over;
    assert_eq!(world.run(), ["status"]);
    let name = world.set("2")["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let late = format!("ReplicaSet \"{name}\" has timed out progressing.");
    assert_eq!(
        world.condition("Progressing"),
        ["False", "ProgressDeadlineExceeded", &late]
    );
    assert_eq!(world.condition("Available")[0], "True");
    assert!(world.harness.is_resting(&key, later(over, 1_000)));
    // A rollback removes the Pods that never became available first.
    world.use_image("1");
    assert_eq!(world.complete(), ["annotate", "2 to 0", "1 to 4"]);
}

#[test]
fn a_replica_set_that_is_used_again_gets_a_new_revision() {
    let mut world = World::rolled_out(&json!({}));
    world.change(&json!({"metadata": {"annotations": {"kubernetes.io/change-cause": "second"}}}));
    world.complete();
    for (image, revision, history) in [
        ("2", "2", "none"),
        ("1", "3", "1"),
        ("2", "4", "2"),
        ("1", "5", "1,3"),
    ] {
        world.use_image(image);
        world.complete();
        let found = (world.note(image, REVISION), world.note(image, HISTORY));
        assert_eq!(found, (revision, history));
        assert_eq!(
            world.deployment["metadata"]["annotations"][REVISION],
            revision
        );
    }
    assert_eq!(world.note("1", "kubernetes.io/change-cause"), "second");
    assert_eq!(world.sets.len(), 2);
}

#[test]
fn a_paused_deployment_is_scaled_and_not_rolled() {
    let mut world = World::rolled_out(&json!({}));
    world.change(&json!({"spec": {"paused": true}}));
    world.use_image("2");
    assert_eq!(world.complete(), Vec::<String>::new());
    assert_eq!(
        world.condition("Progressing"),
        ["Unknown", "DeploymentPaused", "Deployment is paused"]
    );
    assert_eq!(world.number("updatedReplicas"), 0);
    world.change(&json!({"spec": {"replicas": 5}}));
    assert_eq!(world.complete(), ["1 to 5"]);
    assert_eq!(
        (world.note("1", DESIRED), world.note("1", MAXIMUM)),
        ("5", "7")
    );
    world.change(&json!({"spec": {"paused": false}}));
    assert_eq!(world.run()[..2], ["status", "create 2"]);
    world.complete();
    assert_eq!(world.set("2")["spec"]["replicas"], 5);
    assert_eq!(world.condition("Progressing")[1], "NewReplicaSetAvailable");
}

#[test]
fn a_deployment_that_is_resized_in_a_rollout_resizes_all_in_proportion() {
    let strategy = json!({"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}});
    let mut world = World::rolled_out(&json!({"replicas": 10, "strategy": strategy}));
    world.use_image("2");
    world.run();
    world.obey("1", 8);
    world.run();
    world.obey("2", 0);
    world.run();
    let sizes =
        |world: &World| ["1", "2"].map(|image| world.set(image)["spec"]["replicas"].clone());
    assert_eq!(sizes(&world), [8, 5]);
    world.change(&json!({"spec": {"replicas": 15}}));
    assert_eq!(world.run()[..2], ["1 to 11", "2 to 7"]);
    for image in ["1", "2"] {
        assert_eq!(
            (world.note(image, DESIRED), world.note(image, MAXIMUM)),
            ("15", "18")
        );
    }
    world.change(&json!({"spec": {"replicas": 0}}));
    world.run();
    assert_eq!(sizes(&world), [0, 0]);
}

#[test]
fn resizes_its_only_replica_set() {
    let mut world = World::rolled_out(&json!({}));
    for (wanted, direction) in [(5, "up"), (1, "down")] {
        let is = world.set("1")["spec"]["replicas"].clone();
        world.change(&json!({"spec": {"replicas": wanted}}));
        assert_eq!(world.complete(), [format!("1 to {wanted}")]);
        let name = world.set("1")["metadata"]["name"]
            .as_str()
            .unwrap()
            .to_owned();
        let event = format!("Scaled {direction} replica set {name} from {is} to {wanted}");
        assert_eq!(world.events, [format!("Normal ScalingReplicaSet: {event}")]);
        world.events.clear();
    }
}

#[test]
fn recreate_waits_for_the_end_of_all_old_pods() {
    let mut world =
        World::rolled_out(&json!({"strategy": {"type": "Recreate", "rollingUpdate": null}}));
    let owner = world.set("1")["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    world.use_image("2");
    let mut pod = json!({"metadata": {"name": "p", "namespace": "n", "deletionTimestamp": time(START),
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner,
            "uid": format!("uid-of-{owner}"), "controller": true}]}, "status": {"phase": "Running"}});
    world.harness.applied(PODS, pod.clone());
    assert_eq!(world.complete(), ["1 to 0"], "a Pod is terminating");
    pod["status"]["phase"] = "Failed".into();
    world.harness.applied(PODS, pod);
    assert_eq!(world.complete(), ["create 2"]);
    assert_eq!(world.condition("Progressing")[1], "NewReplicaSetAvailable");
}

#[test]
fn removes_empty_replica_sets_beyond_the_history_limit() {
    for (limit, left) in [
        (1, vec!["3", "4"]),
        (0, vec!["4"]),
        (i32::MAX, vec!["1", "2", "3", "4"]),
    ] {
        let mut world = World::rolled_out(&json!({"revisionHistoryLimit": limit}));
        for image in ["2", "3", "4"] {
            world.use_image(image);
            world.complete();
        }
        let sets = world.sets.values();
        let images = sets.map(|set| set["spec"]["template"]["spec"]["image"].as_str().unwrap());
        let mut images: Vec<&str> = images.collect();
        images.sort_unstable();
        assert_eq!(images, left, "{limit}");
        assert_eq!(world.note("4", REVISION), "4");
    }
}

#[test]
fn a_name_that_is_taken_leads_to_another_hash() {
    let mut world = World::new(&json!({}));
    let probe = World::rolled_out(&json!({}));
    let taken = probe.set("1")["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let foreign = json!({"metadata": {"name": taken, "namespace": "n"}, "spec": {"replicas": 1}});
    world.harness.applied(REPLICA_SETS, foreign);
    assert_eq!(world.run()[..2], ["status", "create 2"]);
    assert_eq!(world.number("collisionCount"), 1);
    assert_ne!(world.set("1")["metadata"]["name"], taken.as_str());
}

#[test]
fn a_deployment_that_is_being_deleted_only_counts() {
    let mut world = World::rolled_out(&json!({}));
    world.change(&json!({"metadata": {"deletionTimestamp": time(START)}}));
    world.use_image("2");
    world.obey("1", 0);
    assert_eq!(world.run(), ["status"]);
    assert_eq!(world.number("unavailableReplicas"), 2);
}

#[test]
fn no_progress_is_reported_without_a_deadline() {
    let mut world = World::rolled_out(&json!({"progressDeadlineSeconds": i32::MAX}));
    assert_eq!(world.condition("Progressing"), ["none"; 3]);
    world.use_image("2");
    world.complete();
    assert_eq!(world.condition("Progressing"), ["none"; 3]);
    assert_eq!(world.condition("Available")[0], "True");
}

#[test]
fn a_failure_of_a_replica_set_is_shown() {
    let mut world = World::rolled_out(&json!({}));
    world.obey("1", 0);
    let mut set = world.set("1").clone();
    set["status"]["conditions"] = json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
        "message": "quota"}]);
    let name = set["metadata"]["name"].as_str().unwrap().to_owned();
    world.show(name, set);
    world.run();
    assert_eq!(
        world.condition("ReplicaFailure"),
        ["True", "FailedCreate", "quota"]
    );
    world.obey("1", 2);
    world.run();
    assert_eq!(world.condition("ReplicaFailure"), ["none"; 3]);
}
