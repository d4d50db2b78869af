//! Decoding and defaulting of built-in objects.
//!
//! Both are data: `types.txt` lists the type of each field and which fields are written even when empty, `defaults.txt`
//! the values of absent fields. Defaults that depend on more than a sibling are [code](derived). Mirrors the json
//! tags of the Go types and the `defaults.go` of each group, 1.36, and runs like upstream's decoder on every write, so
//! that a PUT without defaults changes nothing.
//! DEVIATION(defaults): no defaults are computed for Pod-level resources, and no protection finalizers are set on volumes
//! and claims: no code of this server would remove them.

mod derived;
mod read;
mod table;

use caretaker_machinery::types::{TypeRef, ValueType};
use serde_json::Value;

use crate::body::FieldError;
use crate::kinds::ServedKind;
use crate::metadata::ObjectTree;
use crate::types::{is_schema, stored, types};
pub(crate) use read::read_time;

use read::TypeReader;
use table::defaults;

/// Decodes an object in its stored form. Returns the paths of unknown members; those outside the metadata are dropped.
pub(crate) fn read(kind: &ServedKind, object: &mut ObjectTree) -> Result<Vec<String>, FieldError> {
    let mut reader = TypeReader::default();
    if let Some(root) = stored(kind) {
        reader.read_root(root, object)?;
    }
    Ok(reader.unknown)
}

/// Sets the defaults of a decoded object.
pub(crate) fn fill(kind: &ServedKind, object: &mut ObjectTree) {
    if let Some(root) = stored(kind) {
        fill_type(root, object);
    }
}

fn fill_type(of: TypeRef, object: &mut ObjectTree) {
    if is_schema(of) {
        return;
    }
    let row = types().get(of);
    let missing = |object: &ObjectTree, name: &str| !object.contains_key(name);
    for (name, field) in &row.members {
        if field.always && field.is_inline() && missing(object, name) {
            object.insert((*name).into(), field.zero());
        }
    }
    for default in defaults(of) {
        default.apply(object);
    }
    for (name, value) in object.iter_mut() {
        if let Some(ValueType::Struct(of)) = row.members.get(name.as_str()).map(|field| field.of) {
            each_struct(value, |members| fill_type(of, members));
        }
    }
    derived::complete(row.name, object);
    for (name, field) in &row.members {
        if field.always && missing(object, name) {
            object.insert((*name).into(), field.zero());
        }
    }
}

/// Visits the structs that a field holds: one, a list or a map of them.
fn each_struct(value: &mut Value, mut visit: impl FnMut(&mut ObjectTree)) {
    match value {
        Value::Array(items) => {
            for item in items {
                item.as_object_mut().into_iter().for_each(&mut visit);
            }
        }
        Value::Object(members) => visit(members),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::KindTable;
    use serde_json::json;

    fn settled(api_version: &str, kind: &str, object: Value) -> Value {
        let kinds = KindTable::builtin();
        let kind = kinds.by_kind(api_version, kind).unwrap();
        let Value::Object(mut object) = object else {
            panic!("{object} is no object");
        };
        let mut once = ObjectTree::new();
        for _ in 0..2 {
            once = object.clone();
            let unknown = read(kind, &mut object).unwrap();
            assert!(unknown.is_empty(), "{unknown:?}");
            fill(kind, &mut object);
        }
        assert_eq!(object, once, "a second time changes something");
        object.remove("metadata");
        Value::Object(object)
    }

    fn mk_container() -> Value {
        json!({"name": "c", "image": "registry:5000/x"})
    }

    fn filled_container() -> Value {
        json!({"name": "c", "image": "registry:5000/x", "imagePullPolicy": "Always", "resources": {},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"})
    }

    fn filled_template() -> Value {
        json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [filled_container()],
            "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
            "securityContext": {}, "terminationGracePeriodSeconds": 30}})
    }

    /// A workload with required fields only.
    fn mk_workload() -> Value {
        json!({"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [mk_container()]}}}})
    }

    #[test]
    fn defaults_workloads_as_the_real_server_does() {
        let selector = json!({"matchLabels": {"app": "a"}});
        let template = filled_template();
        let cases = [
            (
                "Deployment",
                json!({"spec": {"selector": selector, "template": template, "replicas": 1, "revisionHistoryLimit": 10,
                    "progressDeadlineSeconds": 600, "strategy": {"type": "RollingUpdate",
                    "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}}, "status": {}}),
            ),
            (
                "ReplicaSet",
                json!({"spec": {"selector": selector, "template": template, "replicas": 1}, "status": {"replicas": 0}}),
            ),
            (
                "DaemonSet",
                json!({"spec": {"selector": selector, "template": template, "revisionHistoryLimit": 10,
                    "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}},
                    "status": {"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0,
                    "numberReady": 0}}),
            ),
            (
                "StatefulSet",
                json!({"spec": {"selector": selector, "template": template, "replicas": 1, "revisionHistoryLimit": 10,
                    "serviceName": "", "podManagementPolicy": "OrderedReady",
                    "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
                    "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}},
                    "status": {"availableReplicas": 0, "replicas": 0}}),
            ),
        ];
        for (kind, expected) in cases {
            assert_eq!(settled("apps/v1", kind, mk_workload()), expected, "{kind}");
        }
    }

    #[test]
    fn recreate_strategy_gets_no_rolling_update() {
        let mut given = mk_workload();
        given["spec"]["strategy"] = json!({"type": "Recreate"});
        let deployment = settled("apps/v1", "Deployment", given);
        assert_eq!(deployment["spec"]["strategy"], json!({"type": "Recreate"}));
    }

    #[test]
    fn job_template_gets_job_defaults_only_at_creation() {
        let spec = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [mk_container()]}}});
        let job = settled("batch/v1", "Job", json!({"spec": spec}));
        let expected = json!({"backoffLimit": 6, "completionMode": "NonIndexed", "completions": 1,
            "manualSelector": false, "parallelism": 1, "podReplacementPolicy": "TerminatingOrFailed", "suspend": false});
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(&job["spec"][field], value, "{field}");
        }
        let cron = settled(
            "batch/v1",
            "CronJob",
            json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": spec}}}),
        );
        assert_eq!(cron["spec"]["jobTemplate"]["metadata"], json!({}));
        assert_eq!(
            cron["spec"]["jobTemplate"]["spec"]
                .as_object()
                .unwrap()
                .len(),
            1
        );
        assert_eq!(cron["spec"]["concurrencyPolicy"], "Allow");
    }

    #[test]
    fn parallel_jobs_get_no_default_completions() {
        let job = settled("batch/v1", "Job", json!({"spec": {"parallelism": 3}}));
        assert_eq!(job["spec"].get("completions"), None);
        let job = settled(
            "batch/v1",
            "Job",
            json!({"spec": {"backoffLimitPerIndex": 1}}),
        );
        assert_eq!(job["spec"]["backoffLimit"], i32::MAX);
    }

    #[test]
    fn defaults_requests_probes_ports_and_volumes_of_pods() {
        let pod = settled(
            "v1",
            "Pod",
            json!({"spec": {"serviceAccount": "x", "volumes": [{"name": "a"}, {"name": "h", "hostPath": {"path": "/"}}],
                "containers": [{"name": "c", "image": "x@sha256:1", "resources": {"limits": {"cpu": 0.5}},
                "livenessProbe": {"httpGet": {"port": 80}}, "ports": [{"containerPort": 80}]}]}}),
        );
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["imagePullPolicy"], "IfNotPresent");
        assert_eq!(container["resources"]["requests"], json!({"cpu": "500m"}));
        assert_eq!(
            container["livenessProbe"],
            json!({"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, "failureThreshold": 3, "periodSeconds": 10,
                "successThreshold": 1, "timeoutSeconds": 1})
        );
        assert_eq!(
            container["ports"],
            json!([{"containerPort": 80, "protocol": "TCP"}])
        );
        assert_eq!(
            pod["spec"]["volumes"],
            json!([{"name": "a", "emptyDir": {}}, {"name": "h", "hostPath": {"path": "/", "type": ""}}])
        );
        assert_eq!(pod["spec"]["serviceAccountName"], "x");
        assert_eq!(pod["spec"]["enableServiceLinks"], true);
    }

    /// apiVersion, kind, an object as a client sends it, and the object as it is stored.
    const OTHER_KINDS: &[(&str, &str, &str, &str)] = &[
        (
            "rbac.authorization.k8s.io/v1",
            "Role",
            r#"{"rules": []}"#,
            r#"{"rules": null}"#,
        ),
        (
            "v1",
            "ConfigMap",
            r#"{"binaryData": {}, "data": {}}"#,
            r#"{}"#,
        ),
        ("v1", "ServiceAccount", r#"{"secrets": []}"#, r#"{}"#),
        ("v1", "LimitRange", r#"{}"#, r#"{"spec": {"limits": null}}"#),
        (
            "v1",
            "Event",
            r#"{}"#,
            r#"{"eventTime": null, "firstTimestamp": null, "involvedObject": {}, "lastTimestamp": null, "reportingComponent": "", "reportingInstance": "", "source": {}}"#,
        ),
        (
            "policy/v1",
            "PodDisruptionBudget",
            r#"{"spec": {"selector": {}}}"#,
            r#"{"spec": {"selector": {}}, "status": {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}}"#,
        ),
        (
            "v1",
            "Service",
            r#"{"spec": {"ports": [{"port": 80}]}}"#,
            r#"{"spec": {"internalTrafficPolicy": "Cluster", "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}], "sessionAffinity": "None", "type": "ClusterIP"}, "status": {"loadBalancer": {}}}"#,
        ),
        (
            "v1",
            "Service",
            r#"{"spec": {"type": "ExternalName", "externalName": "x.y"}}"#,
            r#"{"spec": {"externalName": "x.y", "sessionAffinity": "None", "type": "ExternalName"}, "status": {"loadBalancer": {}}}"#,
        ),
        (
            "v1",
            "PersistentVolumeClaim",
            r#"{"spec": {"resources": {"requests": {"storage": "1024Mi"}}}}"#,
            r#"{"spec": {"resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Filesystem"}, "status": {"phase": "Pending"}}"#,
        ),
        (
            "networking.k8s.io/v1",
            "NetworkPolicy",
            r#"{"spec": {"podSelector": {}, "egress": [{}]}}"#,
            r#"{"spec": {"podSelector": {}, "egress": [{}], "policyTypes": ["Ingress", "Egress"]}}"#,
        ),
        (
            "apps/v1",
            "ControllerRevision",
            r#"{"data": {"any": [1, null]}, "revision": 0}"#,
            r#"{"data": {"any": [1, null]}, "revision": 0}"#,
        ),
    ];

    #[test]
    fn defaults_other_kinds() {
        for (api_version, kind, given, expected) in OTHER_KINDS {
            let given = serde_json::from_str(given).unwrap();
            let expected: Value = serde_json::from_str(expected).unwrap();
            assert_eq!(settled(api_version, kind, given), expected, "{kind}");
        }
    }
}
