//! Bindings: the only way for an existing Pod to get its node.
//!
//! A Binding is not stored. The server writes its node, annotations and labels, and the condition `PodScheduled`, into the
//! Pod. Mirrors `BindingREST` and `assignPod` of `registry/core/pod/storage`, 1.36. The older path, a create in
//! `bindings`, does the same.

use caretaker_machinery::status::{NamedResource, Status, StatusCause};
use serde_json::{Value, json};

use super::decode::set_namespace;
use super::delete::storage_error;
use super::write::{WriteMode, WritePlan, WriteRequest, WriteTarget};
use super::{ResourceRequest, VerbReply, decode};
use crate::metadata::{self, ObjectTree, value_at};
use crate::server::ServerState;
use crate::strategy::ObjectPart;

/// Serves a create in `pods/NAME/binding`, or in `bindings`, where only the Binding names its Pod.
pub(super) async fn create(
    server: &ServerState,
    request: &ResourceRequest,
) -> Result<VerbReply, Status> {
    let write = WriteRequest::new(server, request, ObjectPart::Main, "CreateOptions")?;
    let binding = decode_binding(server, request)?;
    let name = metadata::text(&binding, "name");
    if request.subresource.is_some() && name != request.name() {
        let why = "name in URL does not match name in Binding object";
        return Err(Status::bad_request(why));
    }
    bind(&write, &binding, name).await
}

/// Assigns the Pod of that name to the node of the Binding.
async fn bind(
    write: &WriteRequest<'_>,
    binding: &ObjectTree,
    name: &str,
) -> Result<VerbReply, Status> {
    let node = target_node(binding)?;
    if name.is_empty() {
        return Err(Status::bad_request("Name parameter required."));
    }
    let pods = write.server.builtin("", "pods");
    let named = pods.resource_named(name);
    let key = write.request.key_of(name);
    let target = WriteTarget {
        server: write.server,
        kind: &pods,
        key: &key,
        mode: write.mode,
    };
    let bound = target.commit(|current| {
        let current = current.ok_or_else(|| Status::not_found(named))?;
        let mut pod = current.to_value();
        if let Some(why) = failed_precondition(write.mode, binding, &pod, key.as_str()) {
            return Err(Status::conflict(named, &why));
        }
        if let Some(why) = binding_conflict(&pod, name) {
            let named = NamedResource {
                what: "pods/binding",
                ..named
            };
            return Err(Status::conflict(named, &why));
        }
        let now = metadata::time(write.server.clock.now());
        assign(&mut pod, binding, node, &now);
        Ok(WritePlan::Put(pod))
    });
    bound.await?;
    Ok(VerbReply::Status {
        status: Status::created(),
        warnings: Vec::new(),
    })
}

/// Decodes the body as a Binding, whichever path it came by.
fn decode_binding(server: &ServerState, request: &ResourceRequest) -> Result<ObjectTree, Status> {
    let request = ResourceRequest {
        kind: server.builtin("", "bindings"),
        ..request.clone()
    };
    let mut tree = decode::decode_body(&server.kinds(), &request)?.tree;
    set_namespace(&request, &mut tree)?;
    Ok(tree)
}

/// Returns the node that a Binding names. Upstream reports an invalid target as an internal error.
fn target_node(binding: &ObjectTree) -> Result<&str, Status> {
    let target = binding.get("target").unwrap_or(&Value::Null);
    let text = |field: &str| target[field].as_str().unwrap_or_default();
    let mut causes = Vec::new();
    let kind = text("kind");
    if !matches!(kind, "" | "Node") {
        let known = ["Node", "<empty>"];
        causes.push(StatusCause::not_supported("target.kind", kind, &known));
    }
    if text("name").is_empty() {
        causes.push(StatusCause::required("target.name", ""));
    }
    let messages: Vec<String> = causes
        .iter()
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect();
    match messages.as_slice() {
        [] => Ok(text("name")),
        [one] => Err(Status::unexplained(one)),
        more => Err(Status::unexplained(format!("[{}]", more.join(", ")))),
    }
}

/// A Binding may name the uid and the revision of its Pod.
fn failed_precondition(
    mode: WriteMode,
    binding: &ObjectTree,
    pod: &ObjectTree,
    key: &str,
) -> Option<String> {
    for (field, called) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let (wanted, found) = (metadata::text(binding, field), metadata::text(pod, field));
        if !wanted.is_empty() && wanted != found {
            let key = format!("pods/{key}");
            return Some(storage_error(mode, &key, (called, wanted, found)));
        }
    }
    None
}

/// Returns why a Pod cannot be bound.
fn binding_conflict(pod: &ObjectTree, name: &str) -> Option<String> {
    let node = value_at(pod, "/spec/nodeName").as_str().unwrap_or_default();
    let gates = value_at(pod, "/spec/schedulingGates").as_array();
    let why = if metadata::is_deleting(pod) {
        "is being deleted, cannot be assigned to a host".to_owned()
    } else if !node.is_empty() {
        format!("is already assigned to node {node:?}")
    } else if gates.is_some_and(|gates| !gates.is_empty()) {
        "has non-empty .spec.schedulingGates".to_owned()
    } else {
        return None;
    };
    Some(format!("pod {name} {why}"))
}

fn assign(pod: &mut ObjectTree, binding: &ObjectTree, node: &str, now: &str) {
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
        let mut known = conditions.iter_mut();
        match known.find(|known| known["type"] == "PodScheduled") {
            Some(known) => *known = scheduled,
            None => conditions.push(scheduled),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::mk_tree;

    #[test]
    fn binds_a_pod_once_if_it_has_no_gates_and_is_not_deleted() {
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
            assert_eq!(
                binding_conflict(&mk_tree(&pod), "p").as_deref(),
                expected,
                "{pod}"
            );
        }
    }

    #[test]
    fn binding_replaces_condition_and_nominated_node() {
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
