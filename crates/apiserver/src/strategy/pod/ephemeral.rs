//! Ephemeral containers: added to a running Pod to debug it, through a subresource of their own, and never changed.
//!
//! Mirrors the ephemeral containers of `core/pod/strategy.go` and `core/validation`, 1.36, as far as they concern names,
//! images, targets and the fields that other containers have.

use caretaker_machinery::names;
use caretaker_machinery::status::StatusCause;
use serde_json::Value;

use super::restore_all;
use crate::metadata::{ObjectTree, value_at};

const FIELD: &str = "ephemeralContainers";
const NOT_HERE: &str = "cannot be set for an Ephemeral Container";
/// Fields of containers that ephemeral ones must not have, in the order of the Go type.
const FORBIDDEN: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// Keeps only the ephemeral containers of a write.
pub(super) fn prepare(old: &ObjectTree, new: &mut ObjectTree) {
    let containers = value_at(new, "/spec").get(FIELD).cloned();
    restore_all(old, new);
    if let Some(Value::Object(spec)) = new.get_mut("spec") {
        crate::metadata::set(spec, FIELD, containers);
    }
}

/// Refuses a new Pod that has some.
pub(super) fn create_fault(pod: &ObjectTree) -> Option<StatusCause> {
    let has_some = !containers(pod, FIELD).is_empty();
    has_some.then(|| StatusCause::forbidden(format!("spec.{FIELD}"), "cannot be set on create"))
}

/// Returns why the ephemeral containers of a write are refused.
pub(super) fn faults(new: &ObjectTree, old: &ObjectTree) -> Vec<StatusCause> {
    let path = format!("spec.{FIELD}");
    let mut causes = Vec::new();
    let others = [
        containers(new, "containers"),
        containers(new, "initContainers"),
    ]
    .concat();
    let others: Vec<&str> = others.iter().map(name).collect();
    let mut known = others.clone();
    let volumes = containers(new, "volumes");
    for (index, container) in containers(new, FIELD).iter().enumerate() {
        let at = format!("{path}[{index}]");
        container_faults(container, &at, volumes, &mut causes);
        if known.contains(&name(container)) {
            causes.push(StatusCause::duplicate(
                format!("{at}.name"),
                name(container),
            ));
        }
        known.push(name(container));
        let target = container["targetContainerName"]
            .as_str()
            .unwrap_or_default();
        if !target.is_empty() && !others.contains(&target) {
            let field = format!("{at}.targetContainerName");
            causes.push(StatusCause::missing(field, target));
        }
        forbidden_faults(container, &at, &mut causes);
    }
    for was in containers(old, FIELD) {
        let mut present = containers(new, FIELD).iter();
        let why = match present.find(|container| name(container) == name(was)) {
            None => "removed",
            Some(container) if container != was => "changed",
            Some(_) => continue,
        };
        let why = format!(
            "existing ephemeral containers {:?} may not be {why}\n",
            name(was)
        );
        causes.push(StatusCause::forbidden(&path, &why));
    }
    causes
}

fn container_faults(container: &Value, at: &str, volumes: &[Value], causes: &mut Vec<StatusCause>) {
    let field = format!("{at}.name");
    match name(container) {
        "" => causes.push(StatusCause::required(field, "")),
        name => {
            let faults = names::label(name);
            let faults = faults.iter();
            causes.extend(faults.map(|fault| StatusCause::invalid(&field, name, fault)));
        }
    }
    if container["image"].as_str().unwrap_or_default().is_empty() {
        causes.push(StatusCause::required(format!("{at}.image"), ""));
    }
    let mounts = container["volumeMounts"].as_array().into_iter().flatten();
    for (index, mount) in mounts.enumerate() {
        if !volumes.iter().any(|volume| name(volume) == name(mount)) {
            let field = format!("{at}.volumeMounts[{index}].name");
            causes.push(StatusCause::missing(field, name(mount)));
        }
    }
}

fn forbidden_faults(container: &Value, at: &str, causes: &mut Vec<StatusCause>) {
    for field in FORBIDDEN {
        let is_set = match &container[field] {
            Value::Null => false,
            Value::Object(members) => !members.is_empty(),
            Value::Array(items) => !items.is_empty(),
            _ => true,
        };
        if is_set {
            causes.push(StatusCause::forbidden(format!("{at}.{field}"), NOT_HERE));
        }
    }
    let mounts = container["volumeMounts"].as_array().into_iter().flatten();
    for (index, mount) in mounts.enumerate() {
        for field in ["subPath", "subPathExpr"] {
            if mount[field].as_str().is_some_and(|text| !text.is_empty()) {
                let field = format!("{at}.volumeMounts[{index}].{field}");
                causes.push(StatusCause::forbidden(field, NOT_HERE));
            }
        }
    }
}

fn containers<'a>(pod: &'a ObjectTree, field: &str) -> &'a [Value] {
    let list = value_at(pod, "/spec").get(field).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

fn name(container: &Value) -> &str {
    container["name"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::metadata::mk_tree;

    fn mk_pod(ephemeral: &Value) -> ObjectTree {
        mk_tree(
            &json!({"metadata": {"name": "p", "labels": {"a": "b"}, "resourceVersion": "7"},
            "spec": {"containers": [{"name": "c", "image": "i"}], FIELD: ephemeral}}),
        )
    }

    #[test]
    fn a_write_changes_nothing_but_ephemeral_containers() {
        let old = mk_pod(&json!([]));
        let mut new = mk_tree(
            &json!({"metadata": {"name": "p", "labels": {"x": "y"}, "resourceVersion": "3"},
            "spec": {"containers": [], "nodeName": "n", FIELD: [{"name": "d"}]}, "status": {"phase": "Failed"}}),
        );
        prepare(&old, &mut new);
        let mut expected = mk_pod(&json!([{"name": "d"}]));
        expected["metadata"]["resourceVersion"] = "3".into();
        assert_eq!(new, expected);
    }

    #[test]
    fn containers_may_be_added_and_not_changed_or_removed() {
        let one = || json!({"name": "d", "image": "i"});
        let full = || {
            json!({"name": "e", "image": "i", "ports": [{}], "resources": {"limits": {"cpu": "1"}},
            "restartPolicy": "Always", "lifecycle": {"preStop": {}}, "volumeMounts": [{"name": "v", "subPath": "x"}]})
        };
        let cases = [
            (
                json!([one()]),
                json!([one(), {"name": "e", "image": "i", "resources": {}}]),
                vec![],
            ),
            (json!([one()]), json!([]), vec!["spec.ephemeralContainers"]),
            (
                json!([one()]),
                json!([{"name": "d", "image": "j"}]),
                vec!["spec.ephemeralContainers"],
            ),
            (
                json!([]),
                json!([{"name": "c", "image": "i"}]),
                vec!["spec.ephemeralContainers[0].name"],
            ),
            (
                json!([]),
                json!([one(), one()]),
                vec!["spec.ephemeralContainers[1].name"],
            ),
            (
                json!([]),
                json!([{"name": "d", "image": "i", "targetContainerName": "x"}]),
                vec!["spec.ephemeralContainers[0].targetContainerName"],
            ),
            (
                json!([]),
                json!([{"name": "", "image": ""}]),
                vec![
                    "spec.ephemeralContainers[0].name",
                    "spec.ephemeralContainers[0].image",
                ],
            ),
            (
                json!([]),
                json!([full()]),
                vec![
                    "spec.ephemeralContainers[0].volumeMounts[0].name",
                    "spec.ephemeralContainers[0].ports",
                    "spec.ephemeralContainers[0].resources",
                    "spec.ephemeralContainers[0].restartPolicy",
                    "spec.ephemeralContainers[0].lifecycle",
                    "spec.ephemeralContainers[0].volumeMounts[0].subPath",
                ],
            ),
        ];
        for (old, new, expected) in cases {
            let causes = faults(&mk_pod(&new), &mk_pod(&old));
            let fields: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
            assert_eq!(fields, expected, "{new}");
        }
    }
}
