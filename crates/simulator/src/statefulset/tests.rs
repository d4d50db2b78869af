//! StatefulSets whose Pods start and stop as a test wants.

use serde_json::{Value, json};

use super::*;
use crate::objects::later;
use crate::tests::{ObjectWorld, START};

type World = ObjectWorld<StatefulSetActor>;

fn mk_set(spec: &Value) -> Value {
    let mut set = json!({"metadata": {"name": "web", "namespace": "n", "generation": 1, "annotations": {"a": "b"}},
        "spec": {"replicas": 3, "serviceName": "nginx", "selector": {"matchLabels": {"app": "a"}},
            "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"image": "1"}}},
        "status": {"replicas": 0}});
    for (name, value) in spec.as_object().unwrap() {
        set["spec"][name] = value.clone();
    }
    set
}

fn world(spec: &Value) -> World {
    World::new(StatefulSetActor, mk_set(spec))
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"image": image}}}})
}

/// The images of all Pods by name.
fn images(world: &World) -> Vec<String> {
    let names = world.names(PODS);
    let texts = names.iter().map(|name| {
        let image = &world.get(PODS, name)["spec"]["image"];
        format!("{name}={}", image.as_str().unwrap())
    });
    texts.collect()
}

/// The numbers of all revisions.
fn revisions(world: &World) -> Vec<i64> {
    let names = world.names(CONTROLLER_REVISIONS);
    let numbers = names
        .iter()
        .map(|name| world.get(CONTROLLER_REVISIONS, name));
    let mut numbers: Vec<i64> = numbers
        .map(|known| known["revision"].as_i64().unwrap())
        .collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn creates_pods_in_order() {
    let mut world = world(&json!({}));
    let created = world.run();
    assert_eq!(created.len(), 2, "{created:?}");
    assert_eq!(created[1], "create web-0");
    let revision = world.names(CONTROLLER_REVISIONS)[0].to_owned();
    let known = world.get(CONTROLLER_REVISIONS, &revision);
    assert_eq!(known["revision"], 1);
    assert_eq!(known["metadata"]["annotations"], json!({"a": "b"}));
    let hash = known["metadata"]["labels"]["controller.kubernetes.io/hash"].as_str();
    assert_eq!(format!("web-{}", hash.unwrap()), revision);
    let pod = world.get(PODS, "web-0");
    assert_eq!(
        pod["metadata"]["labels"],
        json!({"app": "a", "statefulset.kubernetes.io/pod-name": "web-0",
            "apps.kubernetes.io/pod-index": "0", "controller-revision-hash": revision})
    );
    assert_eq!(pod["spec"]["hostname"], "web-0");
    assert_eq!(pod["spec"]["subdomain"], "nginx");
    assert_eq!(
        world.events,
        ["Normal SuccessfulCreate: Create Pod web-0 in StatefulSet web successful"]
    );
    assert!(world.run().is_empty(), "it waits for the first Pod");
    world.ready("web-0");
    assert_eq!(world.run(), ["create web-1"]);
    assert_eq!(
        world.own()["status"],
        json!({"replicas": 2, "readyReplicas": 1, "currentReplicas": 2, "updatedReplicas": 2,
            "availableReplicas": 1, "currentRevision": revision, "updateRevision": revision,
            "collisionCount": 0, "observedGeneration": 1})
    );
    assert_eq!(world.settle(), ["create web-2"]);
}

#[test]
fn creates_and_deletes_all_pods_at_once_in_parallel() {
    let mut world = world(&json!({"podManagementPolicy": "Parallel", "ordinals": {"start": 5}}));
    assert_eq!(
        world.run()[1..],
        ["create web-5", "create web-6", "create web-7"]
    );
    world.settle();
    world.change(&json!({"spec": {"replicas": 1}}));
    assert_eq!(world.run(), ["delete web-7", "delete web-6"]);
}

#[test]
fn scales_down_in_order_and_waits_for_each_pod() {
    let mut world = world(&json!({}));
    world.settle();
    world.change(&json!({"spec": {"replicas": 1}}));
    assert_eq!(world.run(), ["delete web-2"]);
    assert!(world.run().is_empty());
    world.gone(PODS, "web-2");
    assert_eq!(world.run(), ["delete web-1"]);
    assert!(world.settle().is_empty());
    assert_eq!(world.own()["status"]["replicas"], 1);
    assert_eq!(
        world.events.last().unwrap(),
        "Normal SuccessfulDelete: Delete Pod web-1 in StatefulSet web successful"
    );
}

#[test]
fn rolls_from_the_highest_ordinal_down_to_the_partition() {
    let update = |partition: u32| json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}});
    let mut world = world(&update(1));
    world.settle();
    world.change(&image("2"));
    assert_eq!(world.run()[1..], ["delete web-2"]);
    world.gone(PODS, "web-2");
    assert_eq!(world.run(), ["create web-2"]);
    assert!(world.run().is_empty(), "it waits for the new Pod");
    world.ready("web-2");
    assert_eq!(world.settle(), ["delete web-1", "create web-1"]);
    assert_eq!(images(&world), ["web-0=1", "web-1=2", "web-2=2"]);
    let status = &world.own()["status"];
    assert_eq!(
        (&status["currentReplicas"], &status["updatedReplicas"]),
        (&json!(1), &json!(2))
    );
    assert_ne!(status["currentRevision"], status["updateRevision"]);
    // A Pod below the partition comes back with the old template.
    let mut pod = world.get(PODS, "web-0").clone();
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    world.show(PODS, pod);
    assert_eq!(world.settle(), ["create web-0"]);
    assert_eq!(images(&world), ["web-0=1", "web-1=2", "web-2=2"]);
    world.change(&json!({ "spec": update(0) }));
    world.settle();
    let status = &world.own()["status"];
    assert_eq!(status["currentRevision"], status["updateRevision"]);
    assert_eq!(status["currentReplicas"], 3);
}

#[test]
fn leaves_pods_to_the_user_on_delete() {
    let mut world = world(&json!({"updateStrategy": {"type": "OnDelete"}, "replicas": 1}));
    world.settle();
    world.change(&image("2"));
    assert_eq!(world.settle().len(), 1, "only a revision");
    assert_eq!(images(&world), ["web-0=1"]);
    world.gone(PODS, "web-0");
    assert_eq!(world.settle(), ["create web-0"]);
    assert_eq!(images(&world), ["web-0=2"]);
}

#[test]
fn goes_back_and_forth_and_keeps_a_limited_history() {
    let mut world = world(&json!({"replicas": 1, "revisionHistoryLimit": 1}));
    world.settle();
    for (next, numbers) in [("2", vec![1, 2]), ("1", vec![2, 3]), ("2", vec![3, 4])] {
        world.change(&image(next));
        world.settle();
        assert_eq!(images(&world), [format!("web-0={next}")]);
        assert_eq!(revisions(&world), numbers, "{next}");
    }
    for next in ["3", "4", "5"] {
        world.change(&image(next));
        world.settle();
    }
    assert_eq!(revisions(&world), [6, 7], "the last one and one more");
}

#[test]
fn waits_until_pods_are_available_and_replaces_ended_ones() {
    let mut world = world(&json!({"replicas": 2, "minReadySeconds": 10}));
    world.run();
    world.ready("web-0");
    assert!(world.run().is_empty());
    let key = NamespacedName::new("n", "web");
    assert_eq!(world.harness.at(&key, START), Some(later(START, 10)));
    assert_eq!(world.own()["status"]["availableReplicas"], 0);
    world.now = later(START, 10);
    assert_eq!(world.run(), ["create web-1"]);
    let mut pod = world.get(PODS, "web-0").clone();
    pod["status"]["phase"] = "Failed".into();
    world.show(PODS, pod);
    assert_eq!(world.run(), ["delete web-0"]);
}

fn claims(policy: &Value) -> Value {
    json!({"replicas": 2, "persistentVolumeClaimRetentionPolicy": policy, "volumeClaimTemplates": [
        {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Pending"}}]})
}

#[test]
fn creates_claims_before_their_pod() {
    let mut world = world(&claims(
        &json!({"whenDeleted": "Retain", "whenScaled": "Retain"}),
    ));
    assert_eq!(world.run()[1..], ["create data-web-0", "create web-0"]);
    assert_eq!(
        world.events[0],
        "Normal SuccessfulCreate: Create Claim data-web-0 Pod web-0 in StatefulSet web success"
    );
    let claim = world.get(CLAIMS, "data-web-0");
    assert_eq!(claim["metadata"]["labels"], json!({"app": "a"}));
    assert!(claim["metadata"]["ownerReferences"].is_null());
    assert!(claim["status"].is_null());
    let volume = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}});
    assert_eq!(world.get(PODS, "web-0")["spec"]["volumes"], json!([volume]));
    world.settle();
    world.change(&json!({"spec": {"replicas": 1}}));
    world.settle();
    assert_eq!(world.names(CLAIMS), ["data-web-0", "data-web-1"]);
}

#[test]
fn claims_belong_to_the_owner_that_the_policy_names() {
    let cases = [
        ("Retain", "Retain", "", ""),
        ("Delete", "Retain", "StatefulSet web", "StatefulSet web"),
        ("Retain", "Delete", "", "Pod web-1"),
        ("Delete", "Delete", "StatefulSet web", "Pod web-1"),
    ];
    for (deleted, scaled, wanted, excess) in cases {
        let policy = json!({"whenDeleted": deleted, "whenScaled": scaled});
        let mut world = world(&claims(&policy));
        world.settle();
        let owner = |world: &World| {
            let claim = world.get(CLAIMS, "data-web-1");
            let owner = &claim["metadata"]["ownerReferences"][0];
            let text = |field: &str| owner[field].as_str().unwrap_or_default().to_owned();
            format!("{} {}", text("kind"), text("name"))
                .trim()
                .to_owned()
        };
        assert_eq!(owner(&world), wanted, "{policy}");
        world.change(&json!({"spec": {"replicas": 1}}));
        world.run();
        assert_eq!(owner(&world), excess, "{policy}");
        if scaled == "Delete" {
            // The Pod comes back only when the garbage collector has removed the claim of its predecessor.
            world.gone(PODS, "web-1");
            world.change(&json!({"spec": {"replicas": 2}}));
            assert!(world.run().is_empty(), "{policy}");
            world.gone(CLAIMS, "data-web-1");
            assert_eq!(world.settle()[..2], ["create data-web-1", "create web-1"]);
        }
    }
}

#[test]
fn reports_what_the_server_refuses() {
    let mut world = world(&claims(&json!({})));
    let key = NamespacedName::new("n", "web");
    let expected = [
        None,
        Some(
            "FailedCreate: Create Claim data-web-0 for Pod web-0 in StatefulSet web failed error: no",
        ),
        Some("FailedCreate: Create Pod web-0 in StatefulSet web failed error: no"),
    ];
    for expected in expected {
        let decision = world.harness.decide(&key, START);
        let event = world
            .harness
            .failed(&key, &decision, FailureKind::Forbidden, "no");
        assert_eq!(event.as_deref(), expected);
        world.step();
    }
}

#[test]
fn reads_ordinals_of_names() {
    let set = World::new(StatefulSetActor, mk_set(&json!({})));
    let set = set.harness.snapshot(STATEFUL_SETS, "web");
    let cases = [
        ("web-0", Some(0)),
        ("web-12", Some(12)),
        ("web-01", None),
        ("web-", None),
        ("web-+1", None),
        ("web-x", None),
        ("other-1", None),
        ("web-99999999999", None),
    ];
    for (name, expected) in cases {
        assert_eq!(ordinal(&set, name), expected, "{name}");
    }
}
