//! Rules of Pods: the fields that admission sets, the first status, and the few fields that may change.
//!
//! Mirrors the plugin DefaultTolerationSeconds, `core/helper/qos` and the update rules of
//! `core/validation`, 1.36; [`priority`] and [`account`] have what its class and its ServiceAccount give to a Pod.
//! DEVIATION(gated-pods): upstream also lets an update of a Pod with scheduling gates narrow its node selector and node
//! affinity. They are for schedulers, and nothing here schedules.

mod ephemeral;
mod resize;

use caretaker_machinery::status::{Status, StatusCause};
use serde_json::{Value, json};

use super::validation::restore_field;
use super::{
    KindStrategy, ObjectAdmission, ObjectChange, ObjectPart, WriteContext, account, priority,
    restore_metadata,
};
use crate::allocation::Allotment;
use crate::metadata::{self, ObjectTree, value_at};

/// The rules of Pods.
#[derive(Debug)]
pub(super) struct PodStrategy;

/// Taints that a Pod tolerates for a limited time unless its spec has another toleration of them.
const TOLERATED: [&str; 2] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
];
/// The seconds for which a Pod tolerates them.
const TOLERATED_SECS: u32 = 300;
/// Fields that the priority admission sets.
const PRIORITY: [&str; 2] = ["preemptionPolicy", "priority"];
const GATED: &str = "Scheduling is blocked due to non-empty scheduling gates";
const IMMUTABLE_FIELD_CHANGED: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

// === impl PodStrategy ===

impl KindStrategy for PodStrategy {
    fn prepare_create(&self, object: &mut ObjectTree, context: WriteContext<'_>) {
        if let Some(Value::Object(spec)) = object.get_mut("spec") {
            add_tolerations(spec);
        }
        let spec = value_at(object, "/spec");
        let mut status = json!({"phase": "Pending", "qosClass": qos_class(spec)});
        let gates = spec["schedulingGates"].as_array();
        if gates.is_some_and(|gates| !gates.is_empty()) {
            status["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
                "message": GATED, "lastProbeTime": null, "lastTransitionTime": metadata::time(context.now)}]);
        }
        object.insert("status".into(), status);
    }

    fn admit<'a>(
        &self,
        write: &ObjectAdmission<'a, '_>,
        pod: &mut ObjectTree,
    ) -> Result<Option<Allotment<'a>>, Status> {
        if write.old.is_none() {
            priority::admit_pod(write, pod)?;
            account::admit_pod(write, pod)?;
        }
        Ok(None)
    }

    /// An update that leaves out what admission set at creation does not remove it.
    fn prepare_update(&self, old: &ObjectTree, new: &mut ObjectTree, _: WriteContext<'_>) {
        let Some(Value::Object(spec)) = new.get_mut("spec") else {
            return;
        };
        for field in PRIORITY {
            let was = value_at(old, "/spec").get(field);
            if let (Some(value), None) = (was, spec.get(field)) {
                spec.insert(field.into(), value.clone());
            }
        }
        add_tolerations(spec);
    }

    fn prepare_part(
        &self,
        part: ObjectPart,
        old: &ObjectTree,
        new: &mut ObjectTree,
        _: WriteContext<'_>,
    ) {
        match part {
            ObjectPart::EphemeralContainers => ephemeral::prepare(old, new),
            ObjectPart::Resize => resize::prepare(old, new),
            _ => {}
        }
    }

    fn prepare_status(&self, old: &ObjectTree, new: &mut ObjectTree, _: WriteContext<'_>) {
        restore_metadata(old, new, &["ownerReferences", "deletionTimestamp"]);
    }

    fn validate(&self, change: &ObjectChange<'_>) -> Vec<StatusCause> {
        let ObjectChange { new, old, part, .. } = *change;
        match (part, old) {
            (_, None) => ephemeral::create_fault(new).into_iter().collect(),
            (ObjectPart::EphemeralContainers, Some(old)) => ephemeral::faults(new, old),
            (ObjectPart::Resize, Some(old)) => resize::faults(new, old),
            (_, Some(old)) => update_faults(new, old),
        }
    }
}

fn update_faults(new: &ObjectTree, old: &ObjectTree) -> Vec<StatusCause> {
    let (new, old) = (value_at(new, "/spec"), value_at(old, "/spec"));
    let mut causes = Vec::new();
    for field in ["containers", "initContainers"] {
        let count = |spec: &Value| spec[field].as_array().map_or(0, Vec::len);
        if count(new) != count(old) {
            let why = "pod updates may not add or remove containers";
            causes.push(StatusCause::forbidden(format!("spec.{field}"), why));
        }
    }
    if !causes.is_empty() {
        return causes;
    }
    let deadline = |spec: &Value| spec["activeDeadlineSeconds"].as_i64();
    let why = match (deadline(old), deadline(new)) {
        (Some(was), Some(now)) if now > was => "must be less than or equal to previous value",
        (Some(_), None) => "must not update from a positive integer to nil value",
        _ => "",
    };
    if !why.is_empty() {
        let field = "spec.activeDeadlineSeconds";
        causes.push(StatusCause::invalid(field, deadline(new), why));
    }
    causes.extend(added_gates(old, new));
    if with_mutable_fields_of(old, new) != *old {
        causes.push(StatusCause::forbidden("spec", IMMUTABLE_FIELD_CHANGED));
    }
    causes
}

/// Returns a cause for each scheduling gate that the old spec lacks: an update may only remove gates.
fn added_gates(old: &Value, new: &Value) -> Vec<StatusCause> {
    let names = |spec: &Value| -> Vec<String> {
        let gates = spec["schedulingGates"].as_array().into_iter().flatten();
        let name = |gate: &Value| gate["name"].as_str().unwrap_or_default().to_owned();
        gates.map(name).collect()
    };
    let known = names(old);
    let gates = names(new).into_iter().enumerate();
    gates
        .filter(|(_, name)| !known.contains(name))
        .map(|(index, name)| {
            let field = format!("spec.schedulingGates[{index}].name");
            let why = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            StatusCause::forbidden(field, &why)
        })
        .collect()
}

/// Returns the new spec with all fields that may change set to their old values.
fn with_mutable_fields_of(old: &Value, new: &Value) -> Value {
    let mut new = new.clone();
    restore_field(&mut new, old, "activeDeadlineSeconds");
    // `added_gates` reports added gates; removed ones are allowed.
    restore_field(&mut new, old, "schedulingGates");
    if old["terminationGracePeriodSeconds"].as_i64() < Some(0) {
        restore_field(&mut new, old, "terminationGracePeriodSeconds");
    }
    // An update may change how long a Pod tolerates.
    let tolerations = |spec: &Value| {
        let mut list = spec["tolerations"].as_array().cloned().unwrap_or_default();
        for toleration in list.iter_mut().filter_map(Value::as_object_mut) {
            toleration.remove("tolerationSeconds");
        }
        list
    };
    let now = tolerations(&new);
    if tolerations(old).iter().all(|kept| now.contains(kept)) {
        restore_field(&mut new, old, "tolerations");
    }
    for field in ["containers", "initContainers"] {
        let olds = old[field].as_array().into_iter().flatten();
        let news = new.get_mut(field).and_then(Value::as_array_mut);
        for (new, old) in news.into_iter().flatten().zip(olds) {
            restore_field(new, old, "image");
        }
    }
    new
}

/// Adds the tolerations that every Pod has.
fn add_tolerations(spec: &mut ObjectTree) {
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
    let Some(tolerations) = tolerations.as_array_mut() else {
        return;
    };
    for taint in TOLERATED {
        let covers = |toleration: &Value, field: &str, wanted: &str| {
            let value = toleration[field].as_str().unwrap_or_default();
            value.is_empty() || value == wanted
        };
        let tolerated = tolerations.iter().any(|toleration| {
            covers(toleration, "key", taint) && covers(toleration, "effect", "NoExecute")
        });
        if !tolerated {
            tolerations.push(
                json!({"key": taint, "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": TOLERATED_SECS}),
            );
        }
    }
}

/// Takes everything but the resourceVersion from the old Pod, and leaves a spec that the caller completes.
fn restore_all(old: &ObjectTree, new: &mut ObjectTree) {
    let revision = metadata::get(new, "resourceVersion").cloned();
    new.clone_from(old);
    metadata::set(metadata::of(new), "resourceVersion", revision);
}

/// Returns the quality-of-service class that follows from requests and limits.
fn qos_class(spec: &Value) -> &'static str {
    let containers = ["containers", "initContainers"]
        .iter()
        .filter_map(|field| spec[*field].as_array())
        .flatten();
    let (mut any, mut all_equal) = (false, true);
    for container in containers {
        let amount = |list: &str, name: &str| {
            let amount = container["resources"][list].get(name).cloned();
            amount.filter(|amount| amount != "0")
        };
        for name in ["cpu", "memory"] {
            let (limit, request) = (amount("limits", name), amount("requests", name));
            any |= limit.is_some() || request.is_some();
            all_equal &= limit.is_some() && limit == request;
        }
    }
    match (any, all_equal) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests {
    use super::super::validation::tests::found;
    use super::*;

    #[test]
    fn qos_class_follows_requests_and_limits() {
        let spec =
            |resources: Value| json!({"containers": [{"name": "c", "resources": resources}]});
        let full = json!({"cpu": "1", "memory": "1Gi"});
        let zero = json!({"cpu": "0", "memory": "0"});
        let cases = [
            (json!({}), "BestEffort"),
            (json!({"limits": zero, "requests": zero}), "BestEffort"),
            (json!({"limits": full, "requests": full}), "Guaranteed"),
            (json!({"requests": full}), "Burstable"),
            (
                json!({"limits": full, "requests": {"cpu": "1"}}),
                "Burstable",
            ),
        ];
        for (resources, expected) in cases {
            assert_eq!(qos_class(&spec(resources.clone())), expected, "{resources}");
        }
    }

    #[test]
    fn pods_get_tolerations_for_lost_nodes() {
        let cases = [
            (json!([]), 2),
            (json!([{"operator": "Exists"}]), 1),
            (
                json!([{"key": TOLERATED[0], "effect": "NoExecute", "tolerationSeconds": 5}]),
                2,
            ),
            (json!([{"key": TOLERATED[0], "effect": "NoSchedule"}]), 3),
        ];
        for (given, count) in cases {
            let mut spec = json!({"tolerations": given}).as_object().unwrap().clone();
            add_tolerations(&mut spec);
            let tolerations = spec["tolerations"].as_array().unwrap();
            assert_eq!(tolerations.len(), count, "{given}");
        }
    }

    #[test]
    fn refuses_changes_of_immutable_pod_fields() {
        let old = json!({"containers": [{"name": "c", "image": "a"}], "activeDeadlineSeconds": 5,
            "terminationGracePeriodSeconds": 30, "tolerations": [{"key": "a"}]});
        let cases = [
            ("/containers/0/image", json!("b"), None),
            ("/activeDeadlineSeconds", json!(4), None),
            ("/tolerations", json!([{"key": "a"}, {"key": "b"}]), None),
            ("/tolerations", json!([{"key": "b"}]), Some("spec")),
            ("/containers", json!([]), Some("spec.containers")),
            ("/containers/0/name", json!("d"), Some("spec")),
            (
                "/activeDeadlineSeconds",
                json!(6),
                Some("spec.activeDeadlineSeconds"),
            ),
            ("/terminationGracePeriodSeconds", json!(1), Some("spec")),
        ];
        let pod = |spec: &Value| json!({"spec": spec}).as_object().unwrap().clone();
        for (path, value, field) in cases {
            let mut new = old.clone();
            *new.pointer_mut(path).unwrap() = value;
            let causes = update_faults(&pod(&new), &pod(&old));
            let fields: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
            assert_eq!(fields, field.into_iter().collect::<Vec<_>>(), "{path}");
        }
    }

    #[test]
    fn updates_may_remove_scheduling_gates_and_add_none() {
        let gates = |names: &[&str]| -> Vec<Value> {
            names.iter().map(|name| json!({"name": name})).collect()
        };
        let pod = |names: &[&str]| {
            let spec = json!({"containers": [{"name": "c"}], "schedulingGates": gates(names)});
            json!({"spec": spec}).as_object().unwrap().clone()
        };
        let added = |index: usize| {
            let why = "only deletion is allowed, but found new scheduling gate 'c'";
            vec![StatusCause::forbidden(
                format!("spec.schedulingGates[{index}].name"),
                why,
            )]
        };
        let cases: [(&[&str], &[&str], Vec<StatusCause>); 5] = [
            (&["a", "b"], &["b"], vec![]),
            (&["a", "b"], &[], vec![]),
            (&["a", "b"], &["b", "a"], vec![]),
            (&["a", "b"], &["a", "c"], added(1)),
            (&[], &["c"], added(0)),
        ];
        for (old, new, expected) in cases {
            assert_eq!(
                update_faults(&pod(new), &pod(old)),
                expected,
                "{old:?} {new:?}"
            );
        }
    }

    #[test]
    fn requires_containers_and_one_source_per_volume() {
        let spec = json!({"containers": [], "volumes": [{"name": "a", "emptyDir": {}, "hostPath": {"path": "/"}}]});
        let expected = [
            "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
            "spec.containers: Required value",
        ];
        assert_eq!(found("v1", "Pod", json!({"spec": spec}), None), expected);
    }
}
