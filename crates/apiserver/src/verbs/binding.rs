//! Bindings: the only way a Pod that exists gets its node.
//!
//! A Binding is asked, not stored: it writes the node, its own annotations and labels, and the condition that says so
//! into the Pod. Mirrors `BindingREST` and `assignPod` of `registry/core/pod/storage`, 1.36. The older path, a create in
//! `bindings`, does the same.

use caretaker_machinery::status::{Cause, Named, Status};
use serde_json::{Value, json};

use super::commit::{self, Mode, Plan};
use super::{Ask, Reply, create, decode};
use crate::deletion::dry_run_of;
use crate::metadata::{self, Tree};
use crate::server::Inner;

/// A Binding that came to `bindings`: it names its Pod itself.
pub(super) async fn create(inner: &Inner, ask: &Ask) -> Result<Reply, Status> {
    let name = metadata::text(&decoded(inner, ask)?, "name").to_owned();
    if name.is_empty() {
        return Err(Status::bad_request("Name parameter required."));
    }
    bind(inner, ask, &name).await
}

/// Puts the Pod of that name on the node that the body names.
pub(super) async fn bind(inner: &Inner, ask: &Ask, name: &str) -> Result<Reply, Status> {
    let mode = Mode::dry_run(dry_run_of(&ask.query, "CreateOptions")?);
    let binding = decoded(inner, ask)?;
    if metadata::text(&binding, "name") != name {
        return Err(Status::bad_request(
            "name in URL does not match name in Binding object",
        ));
    }
    let node = node(&binding)?.to_owned();
    let kinds = inner.kinds();
    let pods = kinds.get("", "v1", "pods").expect("a built-in kind");
    let pod_named = pods.resource_named(name);
    let key = ask.key_of(name);
    let bound = commit::commit(inner, pods, &key, mode, |current| {
        let current = current.ok_or_else(|| Status::not_found(pod_named))?;
        let mut pod = current.to_value();
        if let Some(why) = stale(&binding, &pod, key.as_str()) {
            return Err(Status::conflict(pod_named, &why));
        }
        if let Some(why) = unfit(&pod, name) {
            let of = Named {
                what: "pods/binding",
                ..pod_named
            };
            return Err(Status::conflict(of, &why));
        }
        assign(
            &mut pod,
            &binding,
            &node,
            &metadata::time(inner.clock.now()),
        );
        Ok(Plan::Put(pod))
    });
    bound.await?;
    Ok(Reply::Done {
        status: Status::created(),
        warnings: Vec::new(),
    })
}

/// The Binding in the body, whichever path it came by.
fn decoded(inner: &Inner, ask: &Ask) -> Result<Tree, Status> {
    let kinds = inner.kinds();
    let bindings = kinds.get("", "v1", "bindings").expect("a built-in kind");
    let as_binding = Ask {
        kind: bindings.clone(),
        ..ask.clone()
    };
    let mut tree = decode::object(&kinds, &as_binding)?.tree;
    create::place(&as_binding, &mut tree)?;
    Ok(tree)
}

/// The node a Binding names. Upstream reports what is wrong with it as a fault of its own.
fn node(binding: &Tree) -> Result<&str, Status> {
    let target = binding.get("target").unwrap_or(&Value::Null);
    let text = |field: &str| target[field].as_str().unwrap_or_default();
    let mut causes = Vec::new();
    if !matches!(text("kind"), "" | "Node") {
        let known = ["Node", "<empty>"];
        causes.push(Cause::not_supported("target.kind", text("kind"), &known));
    }
    if text("name").is_empty() {
        causes.push(Cause::required("target.name", ""));
    }
    let said: Vec<String> = causes
        .iter()
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect();
    match said.as_slice() {
        [] => Ok(text("name")),
        [one] => Err(Status::unexplained(one)),
        more => Err(Status::unexplained(format!("[{}]", more.join(", ")))),
    }
}

/// A Binding may say which copy of the Pod it is for.
fn stale(binding: &Tree, pod: &Tree, key: &str) -> Option<String> {
    for (field, called) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let (wanted, found) = (metadata::text(binding, field), metadata::text(pod, field));
        if !wanted.is_empty() && wanted != found {
            return Some(format!(
                "StorageError: invalid object, Code: 4, Key: /registry/pods/{key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {called} in precondition: {wanted}, {called} in object meta: {found}"
            ));
        }
    }
    None
}

/// Why a Pod cannot be bound.
fn unfit(pod: &Tree, name: &str) -> Option<String> {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let node = spec["nodeName"].as_str().unwrap_or_default();
    if metadata::is_deleting(pod) {
        Some(format!(
            "pod {name} is being deleted, cannot be assigned to a host"
        ))
    } else if !node.is_empty() {
        Some(format!("pod {name} is already assigned to node {node:?}"))
    } else if spec["schedulingGates"]
        .as_array()
        .is_some_and(|gates| !gates.is_empty())
    {
        Some(format!("pod {name} has non-empty .spec.schedulingGates"))
    } else {
        None
    }
}

fn assign(pod: &mut Tree, binding: &Tree, node: &str, now: &str) {
    pod.entry("spec").or_insert_with(|| json!({}))["nodeName"] = node.into();
    for field in ["annotations", "labels"] {
        let Some(Value::Object(given)) = metadata::get(binding, field) else {
            continue;
        };
        let own = metadata::of(pod).entry(field).or_insert_with(|| json!({}));
        for (key, value) in given {
            own[key.as_str()] = value.clone();
        }
    }
    let status = pod.entry("status").or_insert_with(|| json!({}));
    let Some(status) = status.as_object_mut() else {
        return;
    };
    status.remove("nominatedNodeName");
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let scheduled = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
    if let Some(conditions) = conditions.as_array_mut() {
        match conditions
            .iter_mut()
            .find(|known| known["type"] == "PodScheduled")
        {
            Some(known) => *known = scheduled,
            None => conditions.push(scheduled),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_tree(value: &Value) -> Tree {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_pod_is_bound_once_alive_and_when_nothing_gates_it() {
        let cases = [
            (json!({"spec": {}}), None),
            (json!({"spec": {"schedulingGates": []}}), None),
            (
                json!({"spec": {"nodeName": "n"}}),
                Some("pod p is already assigned to node \"n\""),
            ),
            (
                json!({"spec": {"schedulingGates": [{"name": "g"}]}}),
                Some("pod p has non-empty .spec.schedulingGates"),
            ),
            (
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"nodeName": "n"}}),
                Some("pod p is being deleted, cannot be assigned to a host"),
            ),
        ];
        for (pod, expected) in cases {
            assert_eq!(unfit(&mk_tree(&pod), "p").as_deref(), expected, "{pod}");
        }
    }

    #[test]
    fn binding_replaces_the_condition_and_what_was_only_nominated() {
        let mut pod = mk_tree(
            &json!({"metadata": {"labels": {"a": "1"}}, "status": {"nominatedNodeName": "x",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}, {"type": "Other"}]}}),
        );
        let binding = mk_tree(
            &json!({"metadata": {"labels": {"a": "2", "b": "3"}, "annotations": {"c": "4"}}}),
        );
        assign(&mut pod, &binding, "n", "2026-01-01T00:00:00Z");
        let expected = json!({"metadata": {"labels": {"a": "2", "b": "3"}, "annotations": {"c": "4"}},
            "spec": {"nodeName": "n"},
            "status": {"conditions": [{"type": "PodScheduled", "status": "True", "lastProbeTime": null,
                "lastTransitionTime": "2026-01-01T00:00:00Z"}, {"type": "Other"}]}});
        assert_eq!(Value::Object(pod), expected);
    }
}
