//! Cells of Services, Endpoints and IngressClasses. Mirrors the printer of kube-apiserver 1.36.

use serde_json::Value;

use super::cells::{self, items, labels, text};

/// Most endpoints that are listed; the rest is counted.
const ENDPOINTS_MAX: usize = 3;

/// The annotation of the default IngressClass.
const DEFAULT_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";

/// The selector of a Service or a ReplicationController.
pub(super) fn selector(of: &Value) -> Value {
    labels(&of["spec"]["selector"]).into()
}

/// The external addresses of a Service.
pub(super) fn external(service: &Value) -> Value {
    let spec = &service["spec"];
    let own: Vec<&str> = items(&spec["externalIPs"]).map(text).collect();
    match text(&spec["type"]) {
        "ClusterIP" | "NodePort" => cells::joined(&own).into(),
        "LoadBalancer" => {
            let mut all = balancers(service);
            all.extend(own);
            if all.is_empty() {
                "<pending>".into()
            } else {
                all.join(",").into()
            }
        }
        "ExternalName" => text(&spec["externalName"]).into(),
        _ => "<unknown>".into(),
    }
}

/// Addresses and names of load balancers of a Service or an Ingress, without duplicates.
pub(super) fn balancers(service: &Value) -> Vec<&str> {
    let ingress = items(&service["status"]["loadBalancer"]["ingress"]);
    let mut all: Vec<&str> = ingress
        .map(|ingress| match text(&ingress["ip"]) {
            "" => text(&ingress["hostname"]),
            address => address,
        })
        .filter(|name| !name.is_empty())
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The ports of a Service with their node ports: `80:30080/TCP`.
pub(super) fn ports(service: &Value) -> Value {
    let port = |port: &Value| {
        let protocol = text(&port["protocol"]);
        match port["nodePort"].as_i64() {
            Some(on_node) if on_node > 0 => format!("{}:{on_node}/{protocol}", port["port"]),
            _ => format!("{}/{protocol}", port["port"]),
        }
    };
    let ports: Vec<String> = items(&service["spec"]["ports"]).map(port).collect();
    cells::joined(&ports).into()
}

/// The name of an IngressClass, and whether it is the default.
pub(super) fn class_name(class: &Value) -> Value {
    let name = text(&class["metadata"]["name"]);
    match class["metadata"]["annotations"][DEFAULT_CLASS] == "true" {
        true => format!("{name} (default)").into(),
        false => name.into(),
    }
}

/// The object with the parameters of an IngressClass.
pub(super) fn class_parameters(class: &Value) -> Value {
    let parameters = &class["spec"]["parameters"];
    let (kind, name) = (text(&parameters["kind"]), text(&parameters["name"]));
    match (parameters, text(&parameters["apiGroup"])) {
        (Value::Null, _) => cells::NONE.into(),
        (_, "") => format!("{kind}/{name}").into(),
        (_, group) => format!("{kind}.{group}/{name}").into(),
    }
}

/// The Service behind an APIService.
pub(super) fn api_backend(api: &Value) -> Value {
    let service = &api["spec"]["service"];
    match service {
        Value::Null => "Local".into(),
        _ => format!("{}/{}", text(&service["namespace"]), text(&service["name"])).into(),
    }
}

/// Whether an APIService is available, and why it is not.
pub(super) fn api_available(api: &Value) -> Value {
    let mut conditions = items(&api["status"]["conditions"]);
    let Some(condition) = conditions.find(|condition| condition["type"] == "Available") else {
        return "Unknown".into();
    };
    match (text(&condition["status"]), text(&condition["reason"])) {
        ("True", _) => "True".into(),
        (status, "") => status.into(),
        (status, reason) => format!("{status} ({reason})").into(),
    }
}

/// The first addresses of Endpoints, and the number of further ones.
pub(super) fn endpoints(endpoints: &Value) -> Value {
    let mut subsets = items(&endpoints["subsets"]).peekable();
    if subsets.peek().is_none() {
        return cells::NONE.into();
    }
    let mut all = Vec::new();
    for subset in subsets {
        let addresses = || items(&subset["addresses"]).map(|address| text(&address["ip"]));
        let mut ports = items(&subset["ports"]).peekable();
        if ports.peek().is_none() {
            all.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            all.extend(addresses().map(|address| with_port(address, &port["port"])));
        }
    }
    let more = all.len().saturating_sub(ENDPOINTS_MAX);
    all.truncate(ENDPOINTS_MAX);
    let named = all.join(",");
    if more == 0 {
        named
    } else {
        format!("{named} + {more} more...")
    }
    .into()
}

fn with_port(address: &str, port: &Value) -> String {
    if address.contains(':') {
        format!("[{address}]:{port}")
    } else {
        format!("{address}:{port}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_api_service_shows_its_backend_and_why_it_is_unavailable() {
        let available = |status: &str, reason: &str| json!({"status": {"conditions": [{"type": "Available", "status": status, "reason": reason}]}});
        let cases = [
            (json!({}), "Unknown"),
            (available("True", "Local"), "True"),
            (
                available("False", "ServiceNotFound"),
                "False (ServiceNotFound)",
            ),
            (available("False", ""), "False"),
        ];
        for (api, expected) in cases {
            assert_eq!(api_available(&api), expected, "{api}");
        }
        let remote = json!({"spec": {"service": {"namespace": "a", "name": "b"}}});
        assert_eq!(api_backend(&remote), "a/b");
        assert_eq!(api_backend(&json!({"spec": {}})), "Local");
    }

    #[test]
    fn external_address_depends_on_the_service_type() {
        let ingress = json!({"loadBalancer": {"ingress": [{"ip": "2.2.2.2"}, {"hostname": "a.b"}, {"ip": "2.2.2.2"}]}});
        let cases = [
            (json!({}), "<unknown>"),
            (json!({"spec": {"type": "ClusterIP"}}), "<none>"),
            (
                json!({"spec": {"type": "NodePort", "externalIPs": ["1.1.1.1", "1.1.1.2"]}}),
                "1.1.1.1,1.1.1.2",
            ),
            (
                json!({"spec": {"type": "ExternalName", "externalName": "a.b"}}),
                "a.b",
            ),
            (json!({"spec": {"type": "LoadBalancer"}}), "<pending>"),
            (
                json!({"spec": {"type": "LoadBalancer", "externalIPs": ["1.1.1.1"]}}),
                "1.1.1.1",
            ),
            (
                json!({"spec": {"type": "LoadBalancer", "externalIPs": ["1.1.1.1"]}, "status": ingress}),
                "2.2.2.2,a.b,1.1.1.1",
            ),
        ];
        for (service, text) in cases {
            assert_eq!(external(&service), text, "{service}");
        }
    }

    #[test]
    fn ingress_classes_name_their_parameters() {
        let cases = [
            (json!({"metadata": {"name": "a"}}), "a", "<none>"),
            (
                json!({"metadata": {"name": "a", "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}},
                    "spec": {"parameters": {"kind": "K", "name": "n"}}}),
                "a (default)",
                "K/n",
            ),
            (
                json!({"metadata": {"name": "b"}, "spec": {"parameters": {"apiGroup": "g", "kind": "K", "name": "n"}}}),
                "b",
                "K.g/n",
            ),
        ];
        for (class, name, parameters) in cases {
            assert_eq!(class_name(&class), name);
            assert_eq!(class_parameters(&class), parameters);
        }
    }

    #[test]
    fn node_ports_follow_service_ports() {
        let service = json!({"spec": {"ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}});
        assert_eq!(ports(&service), "80:30080/TCP,53/UDP");
        assert_eq!(ports(&json!({})), "<none>");
    }

    #[test]
    fn lists_three_endpoints_and_counts_the_rest() {
        let addresses = json!([{"ip": "1.1.1.1"}, {"ip": "fd00::1"}]);
        let cases = [
            (json!([]), "<none>"),
            (json!([{"notReadyAddresses": addresses}]), ""),
            (json!([{"addresses": addresses}]), "1.1.1.1,fd00::1"),
            (
                json!([{"addresses": addresses, "ports": [{"port": 80}]}]),
                "1.1.1.1:80,[fd00::1]:80",
            ),
            (
                json!([{"addresses": addresses, "ports": [{"port": 80}, {"port": 81}]}]),
                "1.1.1.1:80,[fd00::1]:80,1.1.1.1:81 + 1 more...",
            ),
        ];
        for (subsets, text) in cases {
            assert_eq!(endpoints(&json!({"subsets": subsets})), text, "{subsets}");
        }
    }
}
