//! The resize of a Pod: the CPU and memory of its containers, through a subresource of its own.
//!
//! Mirrors `podResizeStrategy` and `ValidatePodResize`, 1.36. Left out: the rules for resources of the whole Pod beside
//! those of its containers.

use caretaker_machinery::quantity::Quantity;
use caretaker_machinery::status::StatusCause;
use serde_json::{Map, Value};

use super::{qos_class, restore_all};
use crate::metadata::{self, ObjectTree, value_at};

const LISTS: [&str; 2] = ["initContainers", "containers"];
/// The order of messages about containers that were added or renamed.
const ORDER: [&str; 2] = ["containers", "initContainers"];
const RESIZABLE: [&str; 2] = ["cpu", "memory"];
const FIXED: &str = "only cpu and memory resources are mutable";
const FIXED_INIT: &str = "only cpu and memory resources for init or sidecar containers are mutable";

/// Keeps only the resources and resize policies of a write. A write that adds or renames containers stays as it is, and is
/// refused.
pub(super) fn prepare(old: &ObjectTree, new: &mut ObjectTree) {
    let lengths = |pod: &ObjectTree| LISTS.map(|field| containers(pod, field).len());
    if lengths(old) != lengths(new) {
        return;
    }
    let lists = LISTS.map(|field| merged(containers(old, field), containers(new, field)));
    let resources = value_at(new, "/spec").get("resources").cloned();
    restore_all(old, new);
    let Some(Value::Object(spec)) = new.get_mut("spec") else {
        return;
    };
    metadata::set(spec, "resources", resources);
    for (field, list) in LISTS.iter().zip(lists) {
        if spec.contains_key(*field) {
            spec.insert((*field).into(), list.into());
        }
    }
}

/// Returns why a resize is refused.
pub(super) fn faults(new: &ObjectTree, old: &ObjectTree) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for field in ORDER {
        for (index, container) in containers(new, field).iter().enumerate() {
            let at = format!("spec.{field}[{index}].resources");
            causes.extend(amount_faults(&container["resources"], &at));
        }
    }
    let class = value_at(old, "/status/qosClass").as_str();
    let class = class.unwrap_or_else(|| qos_class(value_at(old, "/spec")));
    if class != qos_class(value_at(new, "/spec")) {
        let why = "Pod QOS Class may not change as a result of resizing";
        causes.push(StatusCause::invalid("spec", class, why));
    }
    if !is_supported(old) {
        let why = "Pod running on node without support for resize";
        causes.push(StatusCause::forbidden("spec", why));
    }
    let order = order_faults(new, old);
    if !order.is_empty() {
        causes.extend(order);
        return causes;
    }
    for field in LISTS {
        let pairs = containers(new, field).iter().zip(containers(old, field));
        for (index, (new, old)) in pairs.enumerate() {
            for list in ["requests", "limits"] {
                if is_removed(&new["resources"][list], &old["resources"][list]) {
                    let at = format!("spec.{field}[{index}].resources.{list}");
                    let why = format!("resource {list} cannot be removed");
                    causes.push(StatusCause::forbidden(at, &why));
                }
            }
        }
    }
    for (field, why) in [("containers", FIXED), ("initContainers", FIXED_INIT)] {
        let pairs = containers(new, field).iter().zip(containers(old, field));
        for (index, (new, old)) in pairs.enumerate() {
            if without_resizable(new) != without_resizable(old) {
                let at = match field {
                    "containers" => "spec".to_owned(),
                    _ => format!("spec.{field}[{index}]"),
                };
                causes.push(StatusCause::forbidden(at, why));
            }
        }
    }
    causes
}

/// Returns the old containers with the new resources; the new ones if their names differ.
fn merged(old: &[Value], new: &[Value]) -> Vec<Value> {
    let same_names = old
        .iter()
        .zip(new)
        .all(|(old, new)| old["name"] == new["name"]);
    if !same_names {
        return new.to_vec();
    }
    let merge = |(old, new): (&Value, &Value)| {
        let mut merged = old.clone();
        if let (Some(merged), Some(new)) = (merged.as_object_mut(), new.as_object()) {
            for field in ["resources", "resizePolicy"] {
                metadata::set(merged, field, new.get(field).cloned());
            }
        }
        merged
    };
    old.iter().zip(new).map(merge).collect()
}

/// Returns causes for negative amounts, and for requests above their limits.
fn amount_faults(resources: &Value, at: &str) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let zero = Quantity::of_count(0);
    for list in ["limits", "requests"] {
        for (name, amount) in resources[list].as_object().into_iter().flatten() {
            let Some(amount) = quantity(amount) else {
                continue;
            };
            if zero.exceeds(&amount) {
                let why = "must be greater than or equal to 0";
                let at = format!("{at}.{list}[{name}]");
                causes.push(StatusCause::invalid(at, amount.to_string(), why));
            }
            let limit = quantity(&resources["limits"][name.as_str()]);
            if let Some(limit) = limit.filter(|limit| list == "requests" && amount.exceeds(limit)) {
                let why = format!("must be less than or equal to {name} limit of {limit}");
                let at = format!("{at}.{list}");
                causes.push(StatusCause::invalid(at, amount.to_string(), &why));
            }
        }
    }
    causes
}

fn order_faults(new: &ObjectTree, old: &ObjectTree) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for field in ORDER {
        let (new, old) = (containers(new, field), containers(old, field));
        if new.len() != old.len() {
            let why = format!("{field} may not be added or removed on resize");
            causes.push(StatusCause::forbidden(format!("spec.{field}"), &why));
            continue;
        }
        for (index, (new, old)) in new.iter().zip(old).enumerate() {
            if new["name"] != old["name"] {
                let why = format!("{field} may not be renamed or reordered on resize");
                let at = format!("spec.{field}[{index}].name");
                causes.push(StatusCause::forbidden(at, &why));
            }
        }
    }
    causes
}

/// The kubelet of a running Pod supports resizes if it reports the resources of containers.
fn is_supported(pod: &ObjectTree) -> bool {
    let statuses = value_at(pod, "/status/containerStatuses").as_array();
    let mut statuses = statuses.into_iter().flatten();
    let running = statuses.find(|status| status["state"].get("running").is_some());
    running.is_none_or(|status| status.get("resources").is_some())
}

fn is_removed(new: &Value, old: &Value) -> bool {
    let mut names = old.as_object().into_iter().flat_map(Map::keys);
    names.any(|name| new.get(name).is_none())
}

/// Returns a container without the amounts that may change.
fn without_resizable(container: &Value) -> Value {
    let mut container = container.clone();
    for list in ["requests", "limits"] {
        let Some(Value::Object(resources)) = container.get_mut("resources") else {
            continue;
        };
        if let Some(Value::Object(amounts)) = resources.get_mut(list) {
            amounts.retain(|name, _| !RESIZABLE.contains(&name.as_str()));
            if amounts.is_empty() {
                resources.remove(list);
            }
        }
    }
    container
}

fn quantity(amount: &Value) -> Option<Quantity> {
    Quantity::parse(amount.as_str()?).ok()
}

fn containers<'a>(pod: &'a ObjectTree, field: &str) -> &'a [Value] {
    let list = value_at(pod, "/spec").get(field).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::metadata::mk_tree;

    fn mk_pod(containers: &Value) -> ObjectTree {
        mk_tree(&json!({"metadata": {"name": "p"}, "spec": {"containers": containers}}))
    }

    fn mk_container(resources: &Value) -> Value {
        json!([{"name": "c", "image": "i", "resources": resources}])
    }

    #[test]
    fn a_resize_changes_nothing_but_resources() {
        let old = mk_pod(&mk_container(&json!({"requests": {"cpu": "1"}})));
        let mut new = mk_tree(
            &json!({"metadata": {"labels": {"a": "b"}}, "spec": {"nodeName": "n",
            "containers": [{"name": "c", "image": "other", "resources": {"requests": {"cpu": "2"}}}]}}),
        );
        prepare(&old, &mut new);
        assert_eq!(
            new,
            mk_pod(&mk_container(&json!({"requests": {"cpu": "2"}})))
        );
    }

    #[test]
    fn resizes_keep_the_class_and_what_is_set() {
        let old = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}});
        let with = |path: &str, value: Value| {
            let mut new = old.clone();
            *new.pointer_mut(path).unwrap() = value;
            mk_container(&new)
        };
        let cases = [
            (with("/requests/cpu", json!("2")), vec![]),
            (
                with("/requests/cpu", json!("3")),
                vec![
                    "spec.containers[0].resources.requests: Invalid value: \"3\": must be less than or equal to cpu limit of 2",
                ],
            ),
            (
                with("/requests/cpu", json!("-1")),
                vec![
                    "spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
                ],
            ),
            (
                with("/limits", json!({})),
                vec![
                    "spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed",
                ],
            ),
            (
                with(
                    "/requests",
                    json!({"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1"}),
                ),
                vec!["spec: Forbidden: only cpu and memory resources are mutable"],
            ),
            (
                json!([{"name": "c", "image": "i"}, {"name": "d"}]),
                vec![
                    "spec: Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing",
                    "spec.containers: Forbidden: containers may not be added or removed on resize",
                ],
            ),
            (
                json!([{"name": "d", "image": "i", "resources": old}]),
                vec![
                    "spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize",
                ],
            ),
        ];
        for (new, expected) in cases {
            let causes = faults(&mk_pod(&new), &mk_pod(&mk_container(&old)));
            let found: Vec<String> = causes
                .iter()
                .map(|cause| format!("{}: {}", cause.field, cause.message))
                .collect();
            assert_eq!(found, expected, "{new}");
        }
    }

    #[test]
    fn a_running_container_must_report_its_resources() {
        let pod = |status: Value| mk_tree(&json!({"status": {"containerStatuses": [status]}}));
        assert!(is_supported(&pod(json!({"state": {"waiting": {}}}))));
        assert!(!is_supported(&pod(json!({"state": {"running": {}}}))));
        assert!(is_supported(&pod(
            json!({"state": {"running": {}}, "resources": {}})
        )));
    }
}
