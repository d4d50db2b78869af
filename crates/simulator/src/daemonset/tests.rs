//! DaemonSets on a few Nodes, with Pods that start and stop as a test wants.

use serde_json::{Value, json};

use super::*;
use crate::objects::later;
use crate::tests::{ObjectWorld, START};

type World = ObjectWorld<DaemonSetActor>;

fn mk_node(name: &str, labels: &Value, taints: &Value) -> Value {
    json!({"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}})
}

/// A DaemonSet and the Nodes a, b and c.
fn world(spec: &Value) -> World {
    let mut set = json!({"metadata": {"name": "ds", "namespace": "n", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "revisionHistoryLimit": 10,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"image": "1"}}},
        "status": {"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0}});
    for (name, value) in spec.as_object().unwrap() {
        set["spec"][name] = value.clone();
    }
    let mut world = World::new(DaemonSetActor, set);
    for name in ["a", "b", "c"] {
        world.show(NODES, mk_node(name, &json!({"disk": name}), &json!([])));
    }
    world
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"image": image}}}})
}

fn update(surge: &Value, unavailable: &Value) -> Value {
    json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}})
}

/// Node and image of all Pods that are not being deleted.
fn places(world: &World) -> Vec<String> {
    let pods = world
        .names(PODS)
        .into_iter()
        .map(|name| world.get(PODS, name));
    let alive = pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    let place = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut places: Vec<String> = alive
        .map(|pod| {
            format!(
                "{}={}",
                text(pod.pointer(place)),
                text(pod.pointer("/spec/image"))
            )
        })
        .collect();
    places.sort();
    places
}

/// The counts of a status: desired, current, ready, updated, available, unavailable, misscheduled.
fn counts(world: &World) -> [i64; 7] {
    let fields = [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "numberMisscheduled",
    ];
    fields.map(|field| world.own()["status"][field].as_i64().unwrap_or(0))
}

#[test]
fn creates_a_pod_for_each_node() {
    let mut world = world(&json!({}));
    let created = world.run();
    assert_eq!(created.len(), 4, "a revision and three Pods: {created:?}");
    assert_eq!(places(&world), ["a=1", "b=1", "c=1"]);
    assert_eq!(counts(&world), [3, 3, 0, 3, 0, 3, 0]);
    let revision = world.get(CONTROLLER_REVISIONS, world.names(CONTROLLER_REVISIONS)[0]);
    let hash = &revision["metadata"]["labels"]["controller-revision-hash"];
    let pod = world.get(PODS, world.names(PODS)[0]);
    assert_eq!(
        pod["metadata"]["labels"],
        json!({"app": "a", "controller-revision-hash": hash})
    );
    let tolerations = pod["spec"]["tolerations"].as_array().unwrap();
    let keys: Vec<&str> = tolerations
        .iter()
        .map(|known| known["key"].as_str().unwrap())
        .collect();
    let expected = [
        "not-ready",
        "unreachable",
        "disk-pressure",
        "memory-pressure",
        "pid-pressure",
        "unschedulable",
    ];
    assert_eq!(
        keys,
        expected.map(|key| format!("node.kubernetes.io/{key}"))
    );
    world.settle();
    assert_eq!(counts(&world), [3, 3, 3, 3, 3, 0, 0]);
    assert_eq!(world.own()["status"]["observedGeneration"], 1);
    let name = pod_name(&world, "a");
    let event = format!("Normal SuccessfulCreate: Created pod: {name}");
    assert!(world.events.contains(&event), "{:?}", world.events);
}

/// The name of the Pod on a Node.
fn pod_name(world: &World, node: &str) -> String {
    let mut names = world.names(PODS).into_iter();
    let is_on = |name: &&str| {
        world
            .get(PODS, name)
            .to_string()
            .contains(&format!("[\"{node}\"]"))
    };
    names.find(is_on).unwrap().to_owned()
}

#[test]
fn follows_selectors_taints_and_nodes() {
    let taint = |effect: &str| json!([{"key": "k", "effect": effect}]);
    let cases = [
        (json!({"nodeSelector": {"disk": "a"}}), json!([]), vec!["a"]),
        (json!({"nodeName": "b"}), json!([]), vec!["b"]),
        (json!({}), taint("NoSchedule"), vec!["a", "b"]),
        (json!({}), taint("PreferNoSchedule"), vec!["a", "b", "c"]),
        (
            json!({"tolerations": [{"operator": "Exists"}]}),
            taint("NoExecute"),
            vec!["a", "b", "c"],
        ),
        (
            json!({}),
            json!([{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]),
            vec!["a", "b", "c"],
        ),
    ];
    for (spec, taints, expected) in cases {
        let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": spec});
        let mut world = world(&json!({ "template": template }));
        world.show(NODES, mk_node("c", &json!({"disk": "c"}), &taints));
        world.run();
        let nodes: Vec<String> = places(&world);
        let nodes: Vec<&str> = nodes
            .iter()
            .map(|place| place.trim_end_matches('='))
            .collect();
        assert_eq!(nodes, expected, "{spec}");
    }
}

#[test]
fn pods_stay_with_a_new_taint_unless_it_evicts() {
    for (effect, expected) in [("NoSchedule", 0), ("NoExecute", 1)] {
        let mut world = world(&json!({}));
        world.settle();
        let taints = json!([{"key": "k", "effect": effect}]);
        world.show(NODES, mk_node("c", &json!({}), &taints));
        assert_eq!(world.run().len(), expected, "{effect}");
        assert_eq!(counts(&world)[0], 2);
        assert_eq!(counts(&world)[6], 1, "it is misscheduled");
    }
}

#[test]
fn new_and_deleted_nodes_change_the_pods() {
    let mut world = world(&json!({}));
    world.settle();
    world.show(NODES, mk_node("d", &json!({}), &json!([])));
    assert_eq!(world.run().len(), 1);
    assert_eq!(places(&world).last().unwrap(), "d=1");
    // Its Pod was not bound yet, so that no other controller would delete it.
    world.gone_cluster(NODES, "d");
    assert_eq!(world.run().len(), 1);
    assert_eq!(places(&world), ["a=1", "b=1", "c=1"]);
}

#[test]
fn replaces_pods_within_the_limits() {
    let cases = [
        (json!(0), json!(1), 1),
        (json!(0), json!(2), 2),
        (json!(0), json!("50%"), 2),
        (json!(0), json!(0), 1),
    ];
    for (surge, unavailable, deleted) in cases {
        let mut world = world(&update(&surge, &unavailable));
        world.settle();
        world.change(&image("2"));
        let requests = world.run();
        assert_eq!(
            requests.len(),
            1 + deleted,
            "a revision and deletes: {requests:?}"
        );
        assert_eq!(counts(&world)[3], 0);
        world.settle();
        assert_eq!(places(&world), ["a=2", "b=2", "c=2"]);
        assert_eq!(counts(&world), [3, 3, 3, 3, 3, 0, 0]);
    }
}

#[test]
fn surges_before_it_deletes() {
    let mut world = world(&update(&json!(1), &json!(0)));
    world.settle();
    world.change(&image("2"));
    assert_eq!(world.run().len(), 2, "a revision and a Pod");
    assert_eq!(places(&world), ["a=1", "a=2", "b=1", "c=1"]);
    let name = pod_of(&world, "a", "2");
    world.ready(&name);
    let requests = world.run();
    assert!(requests[0].starts_with("delete"), "{requests:?}");
    assert_eq!(places(&world), ["a=2", "b=1", "b=2", "c=1"]);
    world.settle();
    assert_eq!(places(&world), ["a=2", "b=2", "c=2"]);
}

fn pod_of(world: &World, node: &str, image: &str) -> String {
    let mut names = world.names(PODS).into_iter();
    let is_it = |name: &&str| {
        let pod = world.get(PODS, name);
        pod["spec"]["image"] == image && pod.to_string().contains(&format!("[\"{node}\"]"))
    };
    names.find(is_it).unwrap().to_owned()
}

#[test]
fn replaces_old_pods_that_are_not_available_first() {
    let mut world = world(&json!({}));
    world.run();
    for node in ["a", "b"] {
        let name = pod_name(&world, node);
        world.ready(&name);
    }
    world.change(&image("2"));
    world.run();
    assert_eq!(places(&world), ["a=1", "b=1"], "the Pod of c was not ready");
}

#[test]
fn leaves_pods_to_the_user_on_delete() {
    let mut world = world(&json!({"updateStrategy": {"type": "OnDelete"}}));
    world.settle();
    world.change(&image("2"));
    assert_eq!(world.run().len(), 1, "only a revision");
    let name = pod_name(&world, "b");
    world.gone(PODS, &name);
    world.settle();
    assert_eq!(places(&world), ["a=1", "b=2", "c=1"]);
    assert_eq!(counts(&world)[3], 1);
}

#[test]
fn reports_and_replaces_ended_pods() {
    let cases = [
        (
            "Failed",
            "Warning FailedDaemonPod: Found failed daemon pod n/NAME on node a, will try to kill it",
        ),
        (
            "Succeeded",
            "Normal SucceededDaemonPod: Found succeeded daemon pod n/NAME on node a, will try to delete it",
        ),
    ];
    for (phase, expected) in cases {
        let mut world = world(&json!({}));
        world.settle();
        world.events.clear();
        let name = pod_name(&world, "a");
        let mut pod = world.get(PODS, &name).clone();
        pod["status"] = json!({ "phase": phase });
        world.show(PODS, pod);
        assert_eq!(world.run()[0], format!("delete {name}"));
        assert_eq!(world.events[0], expected.replace("NAME", &name));
        world.settle();
        assert_eq!(places(&world), ["a=1", "b=1", "c=1"]);
    }
}

#[test]
fn waits_for_availability_and_keeps_a_limited_history() {
    let mut world = world(&json!({"minReadySeconds": 5, "revisionHistoryLimit": 1}));
    world.settle();
    let key = NamespacedName::new("n", "ds");
    assert_eq!(world.harness.at(&key, START), Some(later(START, 5)));
    assert_eq!(counts(&world), [3, 3, 3, 3, 0, 3, 0]);
    for next in ["2", "3", "4", "2"] {
        world.change(&image(next));
        for _ in 0..4 {
            world.settle();
            world.now = later(world.now, 5);
        }
        world.settle();
        assert_eq!(
            places(&world),
            ["a", "b", "c"].map(|node| format!("{node}={next}"))
        );
    }
    assert_eq!(world.names(CONTROLLER_REVISIONS).len(), 2);
}

#[test]
fn counts_templates_as_the_server_does() {
    let mut world = world(&json!({}));
    let generation =
        json!({"metadata": {"annotations": {"deprecated.daemonset.template.generation": "7"}}});
    world.change(&generation);
    world.run();
    let pod = world.get(PODS, world.names(PODS)[0]);
    assert_eq!(pod["metadata"]["labels"]["pod-template-generation"], "7");
}
