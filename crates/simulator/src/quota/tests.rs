//! Tables of the quota actor: counts, resources of Pods, scopes, and when the status is written.

use super::*;
use crate::objects::time;
use crate::tests::{ActorHarness, START, decided};

const DEPLOYMENTS: GroupResource = ("apps", "deployments");

fn mk_quota(spec: &Value) -> Value {
    json!({"metadata": {"name": "q", "namespace": "n"}, "spec": spec})
}

fn mk_object(name: &str, namespace: &str, spec: &Value) -> Value {
    json!({"metadata": {"name": name, "namespace": namespace}, "spec": spec})
}

fn mk_pod(name: &str, requests: &Value, limits: &Value) -> Value {
    let resources = json!({"requests": requests, "limits": limits});
    mk_object(
        name,
        "n",
        &json!({"containers": [{"name": "c", "resources": resources}]}),
    )
}

fn key() -> NamespacedName {
    NamespacedName::new("n", "q")
}

/// The used amounts of these resources, `null` for those that are not limited.
fn used(spec: &Value, objects: &[(GroupResource, Value)]) -> Value {
    let mut harness = ActorHarness::of(QuotaActor);
    for (named, object) in objects {
        harness.applied(*named, object.clone());
    }
    harness.applied(QUOTAS, mk_quota(spec));
    let written = decided(&harness.decide(&key(), START));
    assert_eq!(
        (written.verb, written.subresource),
        ("patch", Some("status"))
    );
    let status = &written.body["status"];
    assert_eq!(status["hard"], spec["hard"]);
    let mut quota = mk_quota(spec);
    quota["status"] = status.clone();
    harness.applied(QUOTAS, quota);
    assert!(
        harness.is_resting(&key(), START),
        "the status is written once"
    );
    status["used"].clone()
}

#[test]
fn counts_objects_of_the_namespace() {
    let hard = json!({"count/configmaps": "9", "configmaps": "9", "count/deployments.apps": "9", "secrets": "9",
        "services": "9", "services.nodeports": "9", "services.loadbalancers": "9", "resourcequotas": "1",
        "count/widgets.example.com": "9"});
    let ports = json!([{"port": 1}, {"port": 2, "nodePort": 30000}]);
    let service = |name: &str, kind: &str, allocates: bool| {
        let spec =
            json!({"type": kind, "ports": ports, "allocateLoadBalancerNodePorts": allocates});
        (SERVICES, mk_object(name, "n", &spec))
    };
    let objects = [
        (("", "configmaps"), mk_object("a", "n", &json!({}))),
        (("", "configmaps"), mk_object("b", "other", &json!({}))),
        (DEPLOYMENTS, mk_object("d", "n", &json!({}))),
        (DEPLOYMENTS, mk_object("e", "n", &json!({}))),
        service("s", "ClusterIP", true),
        service("t", "NodePort", true),
        service("u", "LoadBalancer", true),
        service("v", "LoadBalancer", false),
    ];
    assert_eq!(
        used(&json!({"hard": hard}), &objects),
        json!({"count/configmaps": "1", "configmaps": "1", "count/deployments.apps": "2", "secrets": "0",
            "services": "4", "services.nodeports": "5", "services.loadbalancers": "2", "resourcequotas": "1"})
    );
}

#[test]
fn adds_up_the_resources_of_living_pods() {
    let hard = json!({"pods": "9", "count/pods": "9", "cpu": "9", "requests.cpu": "9", "limits.cpu": "9",
        "memory": "9Gi", "limits.memory": "9Gi", "requests.example.com/gpu": "9"});
    let mut ended = mk_pod("b", &json!({"cpu": "1"}), &json!({}));
    ended["status"] = json!({"phase": "Succeeded"});
    let gpu = json!({"cpu": "500m", "memory": "512Mi", "example.com/gpu": "2"});
    let objects = [
        (PODS, mk_pod("a", &gpu, &json!({"cpu": 1, "memory": "1Gi"}))),
        (PODS, ended),
        (
            PODS,
            mk_pod("c", &json!({"cpu": "250m", "memory": "1Gi"}), &json!({})),
        ),
    ];
    assert_eq!(
        used(&json!({"hard": hard}), &objects),
        json!({"pods": "2", "count/pods": "3", "cpu": "750m", "requests.cpu": "750m", "limits.cpu": "1",
            "memory": "1536Mi", "limits.memory": "1Gi", "requests.example.com/gpu": "2"})
    );
}

#[test]
fn containers_that_run_one_after_the_other_count_as_the_largest() {
    let container = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
    let sidecar =
        |cpu: &str| json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}});
    let cases = [
        (json!({"containers": [container("1"), container("2")]}), "3"),
        (
            json!({"containers": [container("1")], "initContainers": [container("2"), container("3")]}),
            "3",
        ),
        (
            json!({"containers": [container("1")], "initContainers": [sidecar("2")]}),
            "3",
        ),
        (
            json!({"containers": [container("1")], "initContainers": [sidecar("2"), container("4")]}),
            "6",
        ),
        (
            json!({"containers": [container("1")], "initContainers": [container("2"), sidecar("4")]}),
            "5",
        ),
        (
            json!({"containers": [container("1")], "overhead": {"cpu": "100m"}}),
            "1100m",
        ),
        (
            json!({"containers": [container("1")], "resources": {"requests": {"cpu": "4"}}}),
            "4",
        ),
    ];
    for (spec, cpu) in cases {
        let objects = [(PODS, mk_object("p", "n", &spec))];
        let found = used(&json!({"hard": {"requests.cpu": "9"}}), &objects);
        assert_eq!(found["requests.cpu"], cpu, "{spec}");
    }
}

#[test]
fn scopes_choose_pods() {
    let mut idle = mk_pod("idle", &json!({}), &json!({}));
    idle["spec"]["priorityClassName"] = "high".into();
    let mut brief = mk_pod("brief", &json!({"cpu": "1"}), &json!({}));
    brief["spec"]["activeDeadlineSeconds"] = 60.into();
    let mut picky = mk_pod("picky", &json!({"cpu": "1"}), &json!({}));
    picky["spec"]["affinity"] = json!({"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
        [{"podAffinityTerm": {"namespaces": ["other"]}}]}});
    let objects = [
        (PODS, idle),
        (PODS, brief),
        (PODS, picky),
        (("", "configmaps"), mk_object("a", "n", &json!({}))),
    ];
    let selector = |operator: &str, values: &[&str]| {
        json!({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": operator,
            "values": values}]}})
    };
    let cases = [
        (json!({"scopes": []}), "3"),
        (json!({"scopes": ["Terminating"]}), "1"),
        (json!({"scopes": ["NotTerminating"]}), "2"),
        (json!({"scopes": ["BestEffort"]}), "1"),
        (json!({"scopes": ["NotBestEffort", "NotTerminating"]}), "1"),
        (json!({"scopes": ["CrossNamespacePodAffinity"]}), "1"),
        (json!({"scopes": ["PriorityClass"]}), "1"),
        (selector("In", &["high"]), "1"),
        (selector("In", &["low"]), "0"),
        (selector("NotIn", &["high"]), "2"),
        (selector("DoesNotExist", &[]), "2"),
        (selector("Exists", &[]), "1"),
    ];
    for (mut spec, pods) in cases {
        spec["hard"] = json!({"pods": "9", "configmaps": "9"});
        let is_scoped = spec["scopes"] != json!([]);
        let configmaps = if is_scoped { "0" } else { "1" };
        let expected = json!({"pods": pods, "configmaps": configmaps});
        assert_eq!(used(&spec, &objects), expected, "{spec}");
    }
}

#[test]
fn claims_count_by_their_storage_class() {
    let class = "gold.storageclass.storage.k8s.io";
    let hard = json!({"persistentvolumeclaims": "9", "requests.storage": "9Gi",
        format!("{class}/requests.storage"): "9Gi", format!("{class}/persistentvolumeclaims"): "9"});
    let claim = |name: &str, class: &str| {
        let spec =
            json!({"storageClassName": class, "resources": {"requests": {"storage": "1Gi"}}});
        (CLAIMS, mk_object(name, "n", &spec))
    };
    let found = used(
        &json!({"hard": hard}),
        &[claim("a", "gold"), claim("b", "")],
    );
    assert_eq!(
        found,
        json!({"persistentvolumeclaims": "2", "requests.storage": "2Gi",
            format!("{class}/requests.storage"): "1Gi", format!("{class}/persistentvolumeclaims"): "1"})
    );
}

#[test]
fn a_pod_that_is_overdue_to_be_deleted_counts_no_more() {
    let mut harness = ActorHarness::of(QuotaActor);
    let mut pod = mk_pod("a", &json!({}), &json!({}));
    pod["metadata"]["deletionTimestamp"] = time(later(START, 30)).into();
    pod["metadata"]["deletionGracePeriodSeconds"] = 30.into();
    harness.applied(PODS, pod);
    let mut quota = mk_quota(&json!({"hard": {"pods": "1"}}));
    quota["status"] = json!({"hard": {"pods": "1"}, "used": {"pods": "1"}});
    harness.applied(QUOTAS, quota);
    let over = later(START, 61);
    assert_eq!(harness.at(&key(), START), Some(over));
    let written = decided(&harness.decide(&key(), over));
    assert_eq!(written.body["status"], json!({"used": {"pods": "0"}}));
}

#[test]
fn equal_amounts_in_other_words_are_no_change() {
    let mut harness = ActorHarness::of(QuotaActor);
    harness.applied(
        PODS,
        mk_pod("a", &json!({"cpu": "1", "memory": "1024Mi"}), &json!({})),
    );
    let mut quota = mk_quota(&json!({"hard": {"cpu": "2000m", "memory": "2Gi"}}));
    quota["status"] = json!({"hard": {"cpu": "2", "memory": "2048Mi"}, "used": {"cpu": "1000m", "memory": "1Gi"}});
    harness.applied(QUOTAS, quota);
    assert!(harness.is_resting(&key(), START));
}
