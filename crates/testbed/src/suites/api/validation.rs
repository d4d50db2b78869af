//! Objects that the server refuses: the causes, their paths, their words and their order.
//!
//! Each case sends one valid object with small changes, as a dry run, and shows the causes of each answer.

use serde_json::{Value, json};

use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::{Ask, Session};

pub(super) const CASES: &[TestCase] = &[
    api_case!(containers_are_checked),
    api_case!(environments_are_checked),
    api_case!(mounts_and_volumes_are_checked),
    api_case!(probes_and_hooks_are_checked),
    api_case!(resources_are_checked),
    api_case!(pod_specs_are_checked),
    api_case!(scheduling_of_pods_is_checked),
    api_case!(deployments_are_checked),
    api_case!(stateful_and_daemon_sets_are_checked),
    api_case!(job_specs_are_checked),
    api_case!(ingresses_are_checked),
    api_case!(network_policies_are_checked),
    api_case!(roles_and_bindings_are_checked),
    api_case!(claims_volumes_and_classes_are_checked),
    api_case!(autoscalers_and_budgets_are_checked),
    api_case!(leases_are_checked),
    api_case!(repeated_fields_are_reported_in_order),
];

const POLICIES: &str = "/apis/networking.k8s.io/v1";
const SCALERS: &str = "/apis/autoscaling/v2";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const VOLUMES: &str = "/api/v1/persistentvolumes";

/// The causes of a refusal, or the kind of the object that was taken.
fn causes(body: &Value) -> Value {
    let causes = body["details"]["causes"].as_array();
    match causes {
        None if body["status"] == "Failure" => body["message"].clone(),
        None => body["kind"].clone(),
        Some(causes) => causes
            .iter()
            .map(|cause| format!("{}: {}", cause["field"], cause["message"]))
            .collect(),
    }
}

/// Sends an object with each of the changes.
async fn send(s: &mut Session, path: &str, object: &Value, changes: &[Value]) {
    let path = format!("{path}?dryRun=All");
    for change in changes {
        let changed = with(object.clone(), change.clone());
        s.ask(Ask::post(&path, &changed).viewed(causes)).await;
    }
}

fn container(change: Value) -> Value {
    let container = with(json!({"name": "c", "image": "x"}), change);
    json!({"spec": {"containers": [container]}})
}

async fn send_pods(s: &mut Session, changes: &[Value]) {
    let path = s.path(&PODS);
    send(s, &path, &mk_pod("a"), changes).await;
}

async fn send_containers(s: &mut Session, changes: &[Value]) {
    let changes: Vec<Value> = changes.iter().cloned().map(container).collect();
    send_pods(s, &changes).await;
}

async fn containers_are_checked(s: &mut Session) {
    send_containers(
        s,
        &[
            json!({}),
            json!({"name": ""}),
            json!({"name": "Bad_Name"}),
            json!({"image": null}),
            json!({"image": " x"}),
            json!({"imagePullPolicy": "Sometimes"}),
            json!({"terminationMessagePolicy": "None"}),
            json!({"ports": [{"containerPort": 99999}]}),
            json!({"ports": [{"containerPort": 0}]}),
            json!({"ports": [{"containerPort": 80, "hostPort": -1}]}),
            json!({"ports": [{"containerPort": 80, "protocol": "ICMP"}]}),
            json!({"ports": [{"containerPort": 80, "name": "Not--A-Port-Name-"}]}),
            json!({"ports": [{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}]}),
            json!({"ports": [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81, "hostPort": 8080}]}),
            json!({"securityContext": {"runAsUser": -1, "runAsGroup": 2_147_483_648_i64}}),
            json!({"securityContext": {"procMount": "x"}}),
            json!({"securityContext": {"seccompProfile": {"type": "Localhost"}}}),
            json!({"securityContext": {"seccompProfile": {"type": "x"}}}),
            json!({"restartPolicy": "Maybe"}),
        ],
    )
    .await;
    let twice =
        json!({"spec": {"containers": [{"name": "c", "image": "x"}, {"name": "c", "image": "x"}]}});
    let first = json!({"spec": {"initContainers": [{"name": "c", "image": "x", "livenessProbe": {"exec": {"command": ["a"]}}}]}});
    send_pods(s, &[twice, first, json!({"spec": {"containers": []}})]).await;
}

async fn environments_are_checked(s: &mut Session) {
    let from = |source: Value| json!({"env": [{"name": "A", "valueFrom": source}]});
    send_containers(
        s,
        &[
            json!({"env": [{"name": "", "value": "x"}]}),
            json!({"env": [{"name": "a=b"}]}),
            from(json!({})),
            json!({"env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}),
            from(json!({"fieldRef": {"fieldPath": "metadata.nope"}})),
            from(json!({"fieldRef": {"fieldPath": "metadata.labels"}})),
            from(json!({"fieldRef": {"fieldPath": "metadata.labels['a']"}})),
            from(json!({"fieldRef": {"fieldPath": ""}})),
            from(json!({"secretKeyRef": {"name": "s", "key": ""}})),
            from(json!({"configMapKeyRef": {"name": "S", "key": "a/b"}})),
            from(json!({"resourceFieldRef": {"resource": "limits.disk"}})),
            from(json!({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}})),
            json!({"envFrom": [{}]}),
            json!({"envFrom": [{"configMapRef": {"name": ""}}]}),
            json!({"envFrom": [{"configMapRef": {"name": "a"}, "secretRef": {"name": "b"}}]}),
        ],
    )
    .await;
}

async fn mounts_and_volumes_are_checked(s: &mut Session) {
    send_containers(
        s,
        &[
            json!({"volumeMounts": [{"name": "nope", "mountPath": "/a"}]}),
            json!({"volumeMounts": [{"name": "", "mountPath": ""}]}),
        ],
    )
    .await;
    let volume = |volume: Value| json!({"spec": {"volumes": [volume]}});
    let mounts = |mounts: Value| {
        let pod = container(json!({"volumeMounts": mounts}));
        with(pod, volume(json!({"name": "v", "emptyDir": {}})))
    };
    send_pods(
        s,
        &[
            mounts(json!([{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}])),
            mounts(json!([{"name": "v", "mountPath": "/a", "subPath": "/b"}])),
            mounts(json!([{"name": "v", "mountPath": "/a", "subPath": "../b", "subPathExpr": "c"}])),
            mounts(json!([{"name": "v", "mountPath": "/a", "mountPropagation": "Bidirectional"}])),
            mounts(json!([{"name": "v", "mountPath": "/a", "mountPropagation": "x"}])),
            volume(json!({"name": "v"})),
            volume(json!({"name": "Bad_Name", "emptyDir": {}})),
            volume(json!({"name": "v", "emptyDir": {"sizeLimit": "-1"}})),
            volume(json!({"name": "v", "hostPath": {"path": ""}})),
            volume(json!({"name": "v", "hostPath": {"path": "/a/../b", "type": "x"}})),
            volume(json!({"name": "v", "secret": {}})),
            volume(json!({"name": "v", "configMap": {"name": "m", "defaultMode": 512}})),
            volume(json!({"name": "v", "configMap": {"name": "m", "items": [{"key": "", "path": "../x"}]}})),
            volume(json!({"name": "v", "persistentVolumeClaim": {"claimName": ""}})),
            volume(json!({"name": "v", "nfs": {"server": "", "path": "x"}})),
            volume(json!({"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}})),
            json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]}}),
        ],
    )
    .await;
}

async fn probes_and_hooks_are_checked(s: &mut Session) {
    let exec = json!({"command": ["a"]});
    send_containers(
        s,
        &[
            json!({"livenessProbe": {}}),
            json!({"livenessProbe": {"exec": exec, "tcpSocket": {"port": 80}}}),
            json!({"livenessProbe": {"exec": exec, "successThreshold": 2}}),
            json!({"livenessProbe": {"exec": {}}}),
            json!({"livenessProbe": {"httpGet": {"port": 0}}}),
            json!({"livenessProbe": {"httpGet": {"port": "no_name", "scheme": "FTP"}}}),
            json!({"livenessProbe": {"httpGet": {"port": 80, "httpHeaders": [{"name": "a b", "value": "c"}]}}}),
            json!({"readinessProbe": {"exec": exec, "terminationGracePeriodSeconds": 5}}),
            json!({"readinessProbe": {"grpc": {"port": 99999}}}),
            json!({"startupProbe": {"exec": exec, "periodSeconds": -1, "timeoutSeconds": -2}}),
            json!({"lifecycle": {"preStop": {}}}),
            json!({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}}),
        ],
    )
    .await;
}

async fn resources_are_checked(s: &mut Session) {
    let resources = |limits: Value, requests: Value| json!({"resources": {"limits": limits, "requests": requests}});
    send_containers(
        s,
        &[
            resources(json!({"cpu": "1"}), json!({"cpu": "1500m"})),
            resources(json!({}), json!({"cpu": "-1"})),
            resources(json!({"nope": "1"}), json!({})),
            resources(json!({"Bad Name": "1"}), json!({})),
            resources(json!({"example.com/gpu": "1500m"}), json!({})),
            resources(
                json!({"example.com/gpu": "2"}),
                json!({"example.com/gpu": "1"}),
            ),
            resources(json!({}), json!({"example.com/gpu": "1"})),
            resources(json!({"hugepages-2Mi": "2Mi"}), json!({})),
            json!({"resources": {"limits": {"cpu": "x"}}}),
            json!({"resizePolicy": [{"resourceName": "disk", "restartPolicy": "x"}]}),
        ],
    )
    .await;
}

async fn pod_specs_are_checked(s: &mut Session) {
    let spec = |change: Value| json!({"spec": change});
    send_pods(
        s,
        &[
            spec(json!({"restartPolicy": "Sometimes"})),
            spec(json!({"dnsPolicy": "x"})),
            spec(json!({"dnsPolicy": "None"})),
            spec(json!({"dnsPolicy": "None", "dnsConfig": {}})),
            spec(json!({"dnsConfig": {"nameservers": ["1.1.1.1", "2.2.2.2", "3.3.3.3", "nope"]}})),
            spec(json!({"dnsConfig": {"options": [{"value": "x"}]}})),
            spec(json!({"activeDeadlineSeconds": 0})),
            spec(json!({"nodeSelector": {"a b": "c"}})),
            spec(json!({"nodeName": "Not_A_Node"})),
            spec(json!({"hostname": "a.b"})),
            spec(json!({"subdomain": "A"})),
            spec(json!({"hostAliases": [{"ip": "x", "hostnames": ["A"]}]})),
            spec(json!({"securityContext": {"fsGroup": -1, "supplementalGroups": [1, -2]}})),
            spec(json!({"securityContext": {"sysctls": [{"name": "A", "value": "1"}]}})),
            spec(json!({"securityContext": {"fsGroupChangePolicy": "x"}})),
            spec(json!({"readinessGates": [{"conditionType": "a b"}]})),
            spec(json!({"schedulingGates": [{"name": "a"}, {"name": "a"}]})),
            spec(json!({"schedulingGates": [{"name": "a"}], "nodeName": "n"})),
            spec(json!({"os": {"name": "plan9"}})),
            spec(json!({"hostNetwork": true, "containers": [{"name": "c", "image": "x", "ports": [{"containerPort": 80, "hostPort": 81}]}]})),
        ],
    )
    .await;
}

async fn scheduling_of_pods_is_checked(s: &mut Session) {
    let toleration = |toleration: Value| json!({"spec": {"tolerations": [toleration]}});
    let node = |expression: Value| {
        json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}}})
    };
    let near = |term: Value| json!({"spec": {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}}});
    let spread = |constraint: Value| json!({"spec": {"topologySpreadConstraints": [constraint]}});
    send_pods(
        s,
        &[
            toleration(json!({"operator": "Equal"})),
            toleration(json!({"key": "a", "operator": "x"})),
            toleration(json!({"key": "a", "operator": "Exists", "value": "b"})),
            toleration(json!({"key": "a", "operator": "Exists", "effect": "x"})),
            toleration(json!({"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5})),
            node(json!({"key": "a", "operator": "In"})),
            node(json!({"key": "a", "operator": "Exists", "values": ["b"]})),
            node(json!({"key": "a", "operator": "x"})),
            node(json!({"key": "a", "operator": "Gt", "values": ["1", "2"]})),
            json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}}}),
            near(json!({"weight": 101, "podAffinityTerm": {"topologyKey": "zone"}})),
            near(json!({"weight": 1, "podAffinityTerm": {"topologyKey": ""}})),
            near(json!({"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}})),
            spread(json!({"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "x"})),
            spread(json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2})),
        ],
    )
    .await;
}

async fn deployments_are_checked(s: &mut Session) {
    let path = s.path(&DEPLOYMENTS);
    let spec = |change: Value| json!({"spec": change});
    let rolling = |surge: Value, unavailable: Value| {
        let update = json!({"maxSurge": surge, "maxUnavailable": unavailable});
        json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": update}}})
    };
    let changes = [
        spec(json!({"replicas": -1})),
        spec(json!({"minReadySeconds": -1, "revisionHistoryLimit": -1})),
        spec(json!({"progressDeadlineSeconds": 5, "minReadySeconds": 5})),
        spec(json!({"selector": null})),
        spec(json!({"selector": {"matchLabels": null}})),
        spec(json!({"selector": {"matchLabels": {"other": "x"}}})),
        spec(json!({"selector": {"matchExpressions": [{"key": "a", "operator": "x"}]}})),
        spec(json!({"strategy": {"type": "x"}})),
        spec(json!({"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}})),
        rolling(json!(0), json!(0)),
        rolling(json!("x"), json!("150%")),
        rolling(json!(-1), json!(1)),
        spec(json!({"template": {"spec": {"restartPolicy": "Never"}}})),
        spec(json!({"template": {"spec": {"activeDeadlineSeconds": 5}}})),
        spec(json!({"template": {"metadata": {"labels": {"Bad Key": "x"}}}})),
        spec(json!({"template": {"spec": {"containers": null}}})),
    ];
    send(s, &path, &mk_deployment("a"), &changes).await;
}

async fn stateful_and_daemon_sets_are_checked(s: &mut Session) {
    let spec = |change: Value| json!({"spec": change});
    let path = s.path(&STATEFUL_SETS);
    let changes = [
        spec(json!({"replicas": -1, "serviceName": "A"})),
        spec(json!({"podManagementPolicy": "x"})),
        spec(json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}})),
        spec(
            json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": -1}}}),
        ),
        spec(json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "x"}})),
        spec(json!({"ordinals": {"start": -1}})),
        spec(json!({"volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": {}}]})),
        spec(json!({"template": {"spec": {"restartPolicy": "OnFailure"}}})),
    ];
    send(s, &path, &mk_workload("StatefulSet", "a"), &changes).await;
    let path = s.path(&DAEMON_SETS);
    let changes = [
        spec(json!({"updateStrategy": {"type": "x"}})),
        spec(json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}})),
        spec(json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}})),
        spec(json!({"selector": {"matchLabels": {"other": "x"}}})),
        spec(json!({"minReadySeconds": -1, "revisionHistoryLimit": -1})),
    ];
    send(s, &path, &mk_workload("DaemonSet", "a"), &changes).await;
}

async fn job_specs_are_checked(s: &mut Session) {
    let path = s.path(&JOBS);
    let spec = |change: Value| json!({"spec": change});
    let rule = |rule: Value| {
        let template = json!({"spec": {"restartPolicy": "Never"}});
        json!({"spec": {"podFailurePolicy": {"rules": [rule]}, "template": template}})
    };
    let changes = [
        spec(json!({"backoffLimitPerIndex": 1})),
        spec(json!({"maxFailedIndexes": 1})),
        spec(json!({"completionMode": "Indexed", "completions": 3, "parallelism": 100_001})),
        spec(
            json!({"completionMode": "Indexed", "completions": 3, "backoffLimitPerIndex": 1, "maxFailedIndexes": 4}),
        ),
        spec(json!({"managedBy": "x"})),
        spec(json!({"managedBy": "example.com/x"})),
        spec(
            json!({"successPolicy": {"rules": []}, "completionMode": "Indexed", "completions": 1}),
        ),
        rule(json!({"action": "x"})),
        rule(json!({"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [1]}})),
        rule(json!({"action": "Count", "onExitCodes": {"operator": "In", "values": [0, 2, 1, 1]}})),
        rule(json!({"action": "Count", "onExitCodes": {"operator": "x", "containerName": "nope"}})),
        rule(json!({"action": "Count", "onPodConditions": [{"type": "a b", "status": "x"}]})),
    ];
    send(s, &path, &mk_job("a"), &changes).await;
}

async fn ingresses_are_checked(s: &mut Session) {
    let path = s.path(&INGRESSES);
    let object = mk_object("networking.k8s.io/v1", "Ingress", "a");
    let backend = |backend: Value| json!({"spec": {"defaultBackend": backend}});
    let service = |name: &str, port: Value| json!({"service": {"name": name, "port": port}});
    let good = service("s", json!({"number": 80}));
    let rule = |host: &str, path: Value| {
        let path = with(
            json!({"path": "/", "pathType": "Prefix", "backend": good}),
            path,
        );
        json!({"spec": {"rules": [{"host": host, "http": {"paths": [path]}}]}})
    };
    let changes = [
        json!({"spec": {}}),
        backend(good.clone()),
        backend(json!({})),
        backend(service("", json!({"number": 80}))),
        backend(service("A", json!({"number": 80}))),
        backend(service("s", json!({}))),
        backend(service("s", json!({"number": 99999}))),
        backend(service("s", json!({"number": 80, "name": "a"}))),
        backend(json!({"resource": {"kind": "", "name": ""}})),
        rule("1.2.3.4", json!({})),
        rule("A", json!({})),
        rule("*.*.a", json!({})),
        rule("a", json!({"pathType": null})),
        rule("a", json!({"pathType": "x"})),
        rule("a", json!({"path": "x"})),
        rule("a", json!({"path": "/a/../b//c"})),
        json!({"spec": {"rules": [{"http": {"paths": []}}]}}),
        json!({"spec": {"defaultBackend": good, "tls": [{"hosts": ["A", "*.a"], "secretName": "B"}]}}),
        json!({"spec": {"defaultBackend": good, "ingressClassName": "A"}}),
    ];
    send(s, &path, &object, &changes).await;
}

async fn network_policies_are_checked(s: &mut Session) {
    let path = format!("{POLICIES}/namespaces/{}/networkpolicies", s.ns());
    let object = with(
        mk_object("networking.k8s.io/v1", "NetworkPolicy", "a"),
        json!({"spec": {"podSelector": {}}}),
    );
    let rule = |rule: Value| json!({"spec": {"ingress": [rule]}});
    let changes = [
        json!({}),
        json!({"spec": {"policyTypes": ["x"]}}),
        json!({"spec": {"policyTypes": ["Ingress", "Egress", "Ingress"]}}),
        json!({"spec": {"podSelector": {"matchLabels": {"a b": "c d"}}}}),
        rule(json!({"ports": [{"port": 0}]})),
        rule(json!({"ports": [{"port": "a_b"}]})),
        rule(json!({"ports": [{"port": 80, "endPort": 79}]})),
        rule(json!({"ports": [{"port": "a", "endPort": 79}]})),
        rule(json!({"ports": [{"endPort": 79}]})),
        rule(json!({"ports": [{"protocol": "ICMP"}]})),
        rule(json!({"from": [{}]})),
        rule(json!({"from": [{"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}]})),
        rule(json!({"from": [{"ipBlock": {"cidr": "x"}}]})),
        rule(json!({"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}}]})),
    ];
    send(s, &path, &object, &changes).await;
}

async fn roles_and_bindings_are_checked(s: &mut Session) {
    let group = "rbac.authorization.k8s.io";
    let version = "rbac.authorization.k8s.io/v1";
    let path = s.path(&ROLES);
    let rules = |rule: Value| json!({"rules": [rule]});
    let changes = [
        rules(json!({"verbs": ["get"]})),
        rules(json!({"apiGroups": [""], "resources": ["pods"]})),
        rules(json!({"nonResourceURLs": ["/x"], "verbs": ["get"]})),
        rules(json!({"nonResourceURLs": ["/x"], "verbs": ["get"], "resources": ["pods"]})),
    ];
    send(s, &path, &mk_object(version, "Role", "a"), &changes).await;
    let (path, role) = (
        s.path(&ROLE_BINDINGS),
        json!({"apiGroup": group, "kind": "Role", "name": "r"}),
    );
    let object = with(
        mk_object(version, "RoleBinding", "a"),
        json!({"roleRef": role}),
    );
    let subject = |subject: Value| json!({"subjects": [subject]});
    let changes = [
        json!({"roleRef": {"apiGroup": "x"}}),
        json!({"roleRef": {"kind": "x"}}),
        json!({"roleRef": {"name": ""}}),
        subject(json!({"kind": "x", "name": "a"})),
        subject(json!({"kind": "ServiceAccount", "name": "A"})),
        subject(json!({"kind": "ServiceAccount", "name": "a", "apiGroup": "x"})),
        subject(json!({"kind": "User", "name": ""})),
    ];
    send(s, &path, &object, &changes).await;
}

async fn claims_volumes_and_classes_are_checked(s: &mut Session) {
    let path = s.path(&CLAIMS);
    let spec = |change: Value| json!({"spec": change});
    let size = json!({"requests": {"storage": "1Gi"}});
    let object = with(
        mk_object("v1", "PersistentVolumeClaim", "a"),
        json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": size}}),
    );
    let changes = [
        spec(json!({"accessModes": null})),
        spec(json!({"accessModes": ["x"]})),
        spec(json!({"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]})),
        spec(json!({"resources": null})),
        spec(json!({"resources": {"requests": {"storage": "0"}}})),
        spec(json!({"storageClassName": "A"})),
        spec(json!({"volumeMode": "x"})),
    ];
    send(s, &path, &object, &changes).await;
    let object = with(
        mk_object("v1", "PersistentVolume", &format!("{}-a", s.ns())),
        json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}}),
    );
    let changes = [
        spec(json!({"accessModes": null})),
        spec(json!({"capacity": null})),
        spec(json!({"capacity": {"storage": "0"}})),
        spec(json!({"hostPath": null})),
        spec(json!({"nfs": {"server": "a", "path": "/"}})),
        spec(json!({"persistentVolumeReclaimPolicy": "x"})),
        spec(json!({"persistentVolumeReclaimPolicy": "Recycle", "hostPath": {"path": "/"}})),
    ];
    send(s, VOLUMES, &object, &changes).await;
    let object = mk_object(
        "storage.k8s.io/v1",
        "StorageClass",
        &format!("{}-a", s.ns()),
    );
    let changes = [
        json!({}),
        json!({"provisioner": "a b"}),
        json!({"provisioner": "a/b", "reclaimPolicy": "Recycle"}),
        json!({"provisioner": "a/b", "volumeBindingMode": "x"}),
    ];
    send(s, CLASSES, &object, &changes).await;
}

async fn autoscalers_and_budgets_are_checked(s: &mut Session) {
    let path = format!("{SCALERS}/namespaces/{}/horizontalpodautoscalers", s.ns());
    let spec = |change: Value| json!({"spec": change});
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"});
    let object = with(
        mk_object("autoscaling/v2", "HorizontalPodAutoscaler", "a"),
        json!({"spec": {"scaleTargetRef": target, "maxReplicas": 3}}),
    );
    let metric = |metric: Value| json!({"spec": {"metrics": [metric]}});
    let changes = [
        spec(json!({"maxReplicas": 0})),
        spec(json!({"minReplicas": 4})),
        spec(json!({"minReplicas": 0})),
        spec(json!({"scaleTargetRef": {"kind": "", "name": "a/b"}})),
        metric(json!({"type": "Resource"})),
        metric(
            json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}),
        ),
        metric(
            json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 0}}}),
        ),
        spec(
            json!({"behavior": {"scaleUp": {"policies": [{"type": "x", "value": 0, "periodSeconds": 1801}]}}}),
        ),
    ];
    send(s, &path, &object, &changes).await;
    let path = s.path(&DISRUPTION_BUDGETS);
    let changes = [
        spec(json!({"minAvailable": 1, "maxUnavailable": 1})),
        spec(json!({"minAvailable": -1})),
        spec(json!({"maxUnavailable": "101%"})),
        spec(json!({"maxUnavailable": "x"})),
        spec(json!({"unhealthyPodEvictionPolicy": "x"})),
    ];
    let object = mk_object("policy/v1", "PodDisruptionBudget", "a");
    send(s, &path, &object, &changes).await;
}

async fn leases_are_checked(s: &mut Session) {
    let path = s.path(&LEASES);
    let spec = |change: Value| json!({"spec": change});
    let changes = [
        spec(json!({"leaseDurationSeconds": 0})),
        spec(json!({"leaseTransitions": -1})),
        spec(json!({"holderIdentity": ""})),
    ];
    send(s, &path, &mk_lease("a"), &changes).await;
}

async fn repeated_fields_are_reported_in_order(s: &mut Session) {
    let path = s.path(&CONFIG_MAPS);
    let text = r#"{"metadata":{"name":"a","name":"a","zz":1},"foo":1,"data":{"k":"1","k":"2","k":"3"},"data":{"x":"y"},"bar":{"q":1,"q":2},"bar":3}"#;
    for query in ["dryRun=All", "dryRun=All&fieldValidation=Strict"] {
        s.ask(Ask::post(format!("{path}?{query}"), &Value::Null).body(text))
            .await;
    }
    s.post(&CONFIG_MAPS, mk_config_map("p")).await;
    let patch = r#"{"data":{"l":"1","l":"2"},"foo":1,"bar":{"x":1,"x":2}}"#;
    let item = s.item(&CONFIG_MAPS, "p");
    s.ask(Ask::merge_patch(&item, &Value::Null).body(patch))
        .await;
}
