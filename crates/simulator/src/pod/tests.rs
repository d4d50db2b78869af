//! Tables of the Pod actor: binding, starting, finishing and stopping.

use serde_json::Value;

use super::*;
use crate::annotations::{FOREVER, OUTCOME, RUN_SECONDS, START_SECONDS, STOP_SECONDS};
use crate::node;
use crate::objects::time;
use crate::tests::{ActorHarness, START, decided, events};

fn mk_pod(spec: &Value, annotations: &Value) -> Value {
    let mut pod = json!({"metadata": {"name": "p", "namespace": "n", "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never",
            "schedulerName": "default-scheduler"},
        "status": {"phase": "Pending"}});
    for (name, value) in spec.as_object().unwrap() {
        pod["spec"][name] = value.clone();
    }
    pod
}

fn mk_node(ready: &str) -> Value {
    json!({"metadata": {"name": node::NAME, "labels": {node::LABEL: "true"}},
        "status": {"conditions": [{"type": "Ready", "status": ready}]}})
}

fn key() -> NamespacedName {
    NamespacedName::new("n", "p")
}

fn harness(pod: Value, ready: &str) -> ActorHarness<PodActor> {
    let mut harness = ActorHarness::of(PodActor);
    harness.applied(NODES, mk_node(ready));
    harness.applied(PODS, pod);
    harness
}

#[test]
fn binds_pods_of_simulated_schedulers() {
    let cases = [
        (json!({}), true),
        (json!({"schedulerName": "volcano"}), true),
        (json!({"schedulerName": "mine"}), false),
        (json!({"schedulingGates": [{"name": "g"}]}), false),
    ];
    for (spec, expected) in cases {
        let harness = harness(mk_pod(&spec, &json!({})), "True");
        if !expected {
            assert!(harness.is_resting(&key(), START), "{spec}");
            continue;
        }
        let decision = harness.decide(&key(), START);
        let bound = decided(&decision);
        assert_eq!((bound.verb, bound.subresource), ("create", Some("binding")));
        assert_eq!(bound.body["target"]["name"], node::NAME);
        assert_eq!(bound.body["metadata"]["resourceVersion"], "2");
        let scheduler = spec["schedulerName"]
            .as_str()
            .unwrap_or("default-scheduler");
        let event = "Normal Scheduled: Successfully assigned n/p to simulated-node";
        assert_eq!(events(&decision), [format!("{scheduler}   {event}")]);
    }
}

#[test]
fn reports_a_pod_that_fits_no_node() {
    let preemption = |count: usize| {
        format!(
            "no new claims to deallocate, preemption: 0/{count} nodes are available: {count} Preemption is not \
             helpful for scheduling."
        )
    };
    let mut cordoned = mk_node("True");
    cordoned["spec"] = json!({"unschedulable": true});
    let mut foreign = mk_node("True");
    foreign["metadata"] = json!({"name": "other"});
    let cases = [
        (vec![], "no nodes available to schedule pods".to_owned()),
        (
            vec![cordoned.clone()],
            format!(
                "0/1 nodes are available: 1 node(s) were unschedulable. {}",
                preemption(1)
            ),
        ),
        (
            vec![mk_node("False"), foreign],
            format!(
                "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had \
                 untolerated taint(s). {}",
                preemption(2)
            ),
        ),
    ];
    for (nodes, message) in cases {
        let mut harness = ActorHarness::of(PodActor);
        nodes
            .into_iter()
            .for_each(|node| harness.applied(NODES, node));
        let mut pod = mk_pod(&json!({}), &json!({}));
        harness.applied(PODS, pod.clone());
        let decision = harness.decide(&key(), START);
        let written = decided(&decision);
        let condition = &written.body["status"]["conditions"][0];
        assert_eq!(
            (written.verb, written.subresource),
            ("patch", Some("status"))
        );
        assert_eq!(condition["reason"], "Unschedulable");
        assert_eq!(condition["message"], message);
        let event = format!("default-scheduler   Warning FailedScheduling: {message}");
        assert_eq!(events(&decision), [event]);
        pod["status"]["conditions"] = json!([condition]);
        harness.applied(PODS, pod);
        assert!(harness.is_resting(&key(), later(START, 60)), "{message}");
    }
}

#[test]
fn watch_may_be_faster_than_the_response() {
    let mut harness = harness(mk_pod(&json!({}), &json!({})), "True");
    let asked = harness.decide(&key(), START);
    let mut bound = mk_pod(&json!({"nodeName": node::NAME}), &json!({}));
    bound["status"]["phase"] = "Running".into();
    harness.applied(PODS, bound);
    harness.answered(&key(), &asked);
    assert!(!harness.is_resting(&key(), START));
}

#[test]
fn bound_pod_waits_for_the_watch() {
    let mut harness = harness(mk_pod(&json!({}), &json!({})), "True");
    harness.answered(&key(), &harness.decide(&key(), START));
    assert!(harness.is_resting(&key(), START));
    harness.applied(PODS, mk_pod(&json!({"nodeName": node::NAME}), &json!({})));
    assert!(!harness.is_resting(&key(), START));
}

fn mk_running(annotations: &Value, policy: &str) -> Value {
    let spec = json!({"nodeName": node::NAME, "restartPolicy": policy});
    let mut pod = mk_pod(&spec, annotations);
    pod["status"] = json!({"phase": "Running", "startTime": time(START)});
    pod
}

#[test]
fn pod_starts_with_the_status_of_a_kubelet() {
    let containers = json!([{"name": "c", "image": "i", "imagePullPolicy": "Always"}]);
    let mut pod = mk_pod(
        &json!({"nodeName": node::NAME, "containers": containers,
            "initContainers": [{"name": "d", "image": "j", "imagePullPolicy": "IfNotPresent"}]}),
        &json!({START_SECONDS: "3"}),
    );
    pod["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "True",
        "lastTransitionTime": time(START)}]);
    let harness = harness(pod, "True");
    let start = later(START, 3);
    assert_eq!(harness.at(&key(), START), Some(start));
    let of = "kubelet simulated-node spec";
    let mut expected = vec![format!(
        "{of}.containers{{c}} Normal Pulling: Pulling image \"i\""
    )];
    assert_eq!(events(&harness.decide(&key(), START)), expected);
    let starts = harness.decide(&key(), start);
    let present = "Container image \"j\" already present on machine and can be accessed by the pod";
    let pulled =
        "Successfully pulled image \"i\" in 3s (3s including waiting). Image size: 0 bytes.";
    expected.clear();
    for (part, message) in [("initContainers{d}", present), ("containers{c}", pulled)] {
        for text in [
            format!("Pulled: {message}"),
            "Created: Container created".to_owned(),
            "Started: Container started".to_owned(),
        ] {
            expected.push(format!("{of}.{part} Normal {text}"));
        }
    }
    assert_eq!(events(&starts), expected);
    let running = decided(&starts);
    let status = &running.body["status"];
    assert_eq!(status["phase"], "Running");
    assert_eq!(status["startTime"], time(start));
    assert_eq!(status["containerStatuses"][0]["ready"], true);
    let initial = &status["initContainerStatuses"][0];
    assert_eq!(initial["state"]["terminated"]["reason"], "Completed");
    let types: Vec<&str> = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|known| known["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        types,
        ["PodScheduled", "Initialized", "Ready", "ContainersReady"]
    );
}

#[test]
fn pod_finishes_as_annotated() {
    let cases = [
        (json!({}), "Never", Some((5, "Succeeded"))),
        (
            json!({RUN_SECONDS: "60"}),
            "OnFailure",
            Some((60, "Succeeded")),
        ),
        (json!({OUTCOME: "failed"}), "Never", Some((5, "Failed"))),
        (json!({}), "Always", None),
        (json!({RUN_SECONDS: "1"}), "Always", Some((1, "Succeeded"))),
        (json!({RUN_SECONDS: FOREVER}), "Never", None),
    ];
    for (annotations, policy, expected) in cases {
        let harness = harness(mk_running(&annotations, policy), "True");
        let Some((secs, phase)) = expected else {
            assert!(
                harness.is_resting(&key(), later(START, 10_000)),
                "{annotations}"
            );
            continue;
        };
        let over = later(START, secs);
        assert_eq!(harness.at(&key(), START), Some(over), "{annotations}");
        let ended = decided(&harness.decide(&key(), over));
        assert_eq!(ended.body["status"]["phase"], phase, "{annotations}");
    }
}

#[test]
fn the_status_of_a_running_pod_follows_its_spec() {
    let mut pod = mk_running(&json!({}), "Always");
    let running = json!({"running": {"startedAt": time(START)}});
    pod["status"]["containerStatuses"] = json!([{"name": "c", "state": running, "resources": {}}]);
    let mut harness = harness(pod.clone(), "True");
    assert!(harness.is_resting(&key(), START));
    let resources = json!({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}});
    pod["spec"]["containers"][0]["resources"] = resources.clone();
    pod["spec"]["ephemeralContainers"] = json!([{"name": "debugger", "image": "d"}]);
    harness.applied(PODS, pod);
    let status = decided(&harness.decide(&key(), START)).body["status"].clone();
    let container = &status["containerStatuses"][0];
    assert_eq!(container["resources"], resources);
    assert_eq!(container["allocatedResources"], json!({"cpu": "1"}));
    let ephemeral = &status["ephemeralContainerStatuses"][0];
    assert_eq!(ephemeral["name"], "debugger");
    assert_eq!(ephemeral["state"], running);
}

#[test]
fn crashing_containers_are_restarted_after_a_back_off() {
    let crashing = json!({OUTCOME: "crashing", RUN_SECONDS: "2"});
    for (policy, is_restarted) in [("Always", true), ("OnFailure", true), ("Never", false)] {
        let mut pod = mk_running(&crashing, policy);
        let running = json!({"running": {"startedAt": time(START)}});
        pod["status"]["containerStatuses"] =
            json!([{"name": "c", "restartCount": 0, "state": running, "resources": {}}]);
        let failed = later(START, 2);
        let mut harness = harness(pod.clone(), "True");
        assert_eq!(harness.at(&key(), START), Some(failed), "{policy}");
        let decision = harness.decide(&key(), failed);
        let status = decided(&decision).body["status"].clone();
        if !is_restarted {
            assert_eq!(status["phase"], "Failed");
            continue;
        }
        let container = &status["containerStatuses"][0];
        assert_eq!(
            container["restartCount"], 1,
            "the first restart comes at once"
        );
        assert_eq!(container["lastState"]["terminated"]["exitCode"], 1);
        assert_eq!(events(&decision).len(), 3, "Pulled, Created, Started");
        // Each further failure waits twice as long.
        for (restarts, secs, text) in [(1, 10, "10s"), (4, 80, "1m20s"), (9, 300, "5m0s")] {
            pod["status"]["containerStatuses"] =
                json!([{"name": "c", "restartCount": restarts, "state": running, "resources": {}}]);
            harness.applied(PODS, pod.clone());
            let decision = harness.decide(&key(), failed);
            let status = decided(&decision).body["status"].clone();
            let container = status["containerStatuses"][0].clone();
            let waiting = &container["state"]["waiting"];
            assert_eq!(waiting["reason"], "CrashLoopBackOff");
            let name = "p_n(uid-of-p)";
            let message = format!("back-off {text} restarting failed container=c pod={name}");
            assert_eq!(waiting["message"], message);
            assert_eq!(
                status["conditions"][1]["message"],
                "containers with unready status: [c]"
            );
            let event = format!("Back-off restarting failed container c in pod {name}");
            let source = "kubelet simulated-node spec.containers{c}";
            assert_eq!(
                events(&decision),
                [format!("{source} Warning BackOff: {event}")]
            );
            let mut waits = pod.clone();
            waits["status"]["containerStatuses"] = json!([container]);
            waits["status"]["conditions"] = status["conditions"].clone();
            harness.applied(PODS, waits);
            let due = later(failed, secs);
            assert_eq!(harness.at(&key(), failed), Some(due));
            let status = decided(&harness.decide(&key(), due)).body["status"].clone();
            assert_eq!(status["containerStatuses"][0]["restartCount"], restarts + 1);
            assert_eq!(status["conditions"][1]["status"], "True");
            assert_eq!(status["conditions"][1]["reason"], Value::Null);
        }
    }
}

#[test]
fn deleted_pod_is_removed_when_its_containers_have_stopped() {
    let asked = later(START, 100);
    let deleted = |grace: i64, phase: &str, annotations: &Value| {
        let mut pod = mk_running(annotations, "Always");
        pod["status"]["phase"] = phase.into();
        pod["metadata"]["deletionTimestamp"] = time(later(asked, grace)).into();
        pod["metadata"]["deletionGracePeriodSeconds"] = grace.into();
        pod
    };
    // Grace period, phase, annotation, and the seconds until the Pod is removed.
    let cases = [
        (30, "Running", json!({}), 1),
        (30, "Running", json!({STOP_SECONDS: "10"}), 10),
        (30, "Running", json!({STOP_SECONDS: "0"}), 0),
        (5, "Running", json!({STOP_SECONDS: "10"}), 5),
        (30, "Pending", json!({STOP_SECONDS: "10"}), 0),
        (30, "Succeeded", json!({}), 0),
    ];
    for (grace, phase, annotations, secs) in cases {
        let alive = harness(deleted(grace, phase, &annotations), "True");
        let (gone, case) = (later(asked, secs), format!("{grace} {phase} {annotations}"));
        if secs > 0 {
            assert_eq!(alive.at(&key(), asked), Some(gone), "{case}");
        }
        let decision = alive.decide(&key(), gone);
        let call = decided(&decision);
        assert_eq!((call.verb, call.grace_secs), ("delete", Some(0)), "{case}");
        let killing =
            "kubelet simulated-node spec.containers{c} Normal Killing: Stopping container c";
        let expected: &[&str] = if phase == "Running" { &[killing] } else { &[] };
        assert_eq!(events(&decision), expected, "{case}");
    }
    let gone = later(asked, 60);
    assert!(
        harness(deleted(0, "Running", &json!({})), "True").is_resting(&key(), gone),
        "only finalizers keep the Pod"
    );
    assert!(
        harness(deleted(30, "Running", &json!({})), "False").is_resting(&key(), gone),
        "no kubelet"
    );
}

#[test]
fn running_pod_observes_its_generation() {
    // The generation of the Pod, the one in its status, and the one that the status gets.
    let cases = [
        (json!(null), json!(null), None),
        (json!(1), json!(null), Some(json!(1))),
        (json!(2), json!(1), Some(json!(2))),
        (json!(2), json!(2), None),
    ];
    for (generation, observed, expected) in cases {
        let mut harness = ActorHarness::of(PodActor);
        let pod = json!({"metadata": {"name": "p", "namespace": "n", "generation": generation},
            "status": {"phase": "Running", "observedGeneration": observed}});
        harness.applied(PODS, pod);
        let pod = harness.snapshot(PODS, "p");
        let found = super::status::following_spec(&pod, START);
        assert_eq!(
            found.map(|status| status["observedGeneration"].clone()),
            expected
        );
    }
}
