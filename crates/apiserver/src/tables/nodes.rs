//! Cells of Nodes: readiness, roles, addresses. Mirrors the printer of kube-apiserver 1.36.

use serde_json::Value;

use super::cells::{self, items, text};

/// A label prefix whose rest is a role, and a label whose value is a role.
const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE: &str = "kubernetes.io/role";

/// Whether a Node is ready and schedulable.
pub(super) fn status(node: &Value) -> Value {
    let mut conditions = items(&node["status"]["conditions"]);
    let ready = match conditions.find(|condition| condition["type"] == "Ready") {
        Some(condition) if condition["status"] == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let cordoned = node["spec"]["unschedulable"] == true;
    let suffix = if cordoned { ",SchedulingDisabled" } else { "" };
    format!("{ready}{suffix}").into()
}

/// The roles in the labels of a Node.
pub(super) fn roles(node: &Value) -> Value {
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    let role = |(key, value): (&String, &Value)| match key.strip_prefix(ROLE_PREFIX) {
        Some(role) => Some(role.to_owned()),
        None if key == ROLE => Some(text(value).to_owned()),
        None => None,
    };
    let mut roles: Vec<String> = labels
        .filter_map(role)
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    cells::joined(&roles).into()
}

/// The kernel version and the architecture.
pub(super) fn kernel(node: &Value) -> Value {
    let info = &node["status"]["nodeInfo"];
    let kernel = match text(&info["kernelVersion"]) {
        "" => "<unknown>",
        kernel => kernel,
    };
    match text(&info["architecture"]) {
        "" => kernel.into(),
        machine => format!("{kernel} ({machine})").into(),
    }
}

/// The first address of a type.
pub(super) fn address(node: &Value, of_type: &str) -> Value {
    let mut addresses = items(&node["status"]["addresses"]);
    let address = addresses.find(|address| address["type"] == of_type);
    address
        .map_or(cells::NONE, |address| text(&address["address"]))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn shows_readiness_and_scheduling() {
        let ready = |status: &str| json!([{"type": "MemoryPressure", "status": "True"}, {"type": "Ready", "status": status}]);
        let cases = [
            (json!({}), "Unknown"),
            (json!({"status": {"conditions": ready("True")}}), "Ready"),
            (
                json!({"status": {"conditions": ready("False")}}),
                "NotReady",
            ),
            (
                json!({"status": {"conditions": ready("Unknown")}}),
                "NotReady",
            ),
            (
                json!({"spec": {"unschedulable": true}}),
                "Unknown,SchedulingDisabled",
            ),
        ];
        for (node, word) in cases {
            assert_eq!(status(&node), word, "{node}");
        }
    }

    #[test]
    fn shows_kernel_with_architecture() {
        let node = |kernel: &str, machine: &str| json!({"status": {"nodeInfo": {"kernelVersion": kernel, "architecture": machine}}});
        let cases = [
            (node("", ""), "<unknown>"),
            (node("6.1", ""), "6.1"),
            (node("", "arm64"), "<unknown> (arm64)"),
            (node("6.1", "amd64"), "6.1 (amd64)"),
        ];
        for (node, text) in cases {
            assert_eq!(kernel(&node), text);
        }
    }

    #[test]
    fn shows_roles_and_addresses_or_none() {
        let labels = json!({"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/a": "x",
            "kubernetes.io/role": "old", "node-role.kubernetes.io/": "", "role": "no"});
        assert_eq!(
            roles(&json!({"metadata": {"labels": labels}})),
            "a,old,worker"
        );
        assert_eq!(
            roles(&json!({"metadata": {"labels": {"kubernetes.io/role": ""}}})),
            "<none>"
        );
        let addresses =
            json!([{"type": "InternalIP", "address": "1"}, {"type": "InternalIP", "address": "2"}]);
        let node = json!({"status": {"addresses": addresses}});
        assert_eq!(address(&node, "InternalIP"), "1");
        assert_eq!(address(&node, "ExternalIP"), "<none>");
    }
}
