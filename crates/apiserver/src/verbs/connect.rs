//! Connections to Pods, Nodes and Services: `exec`, `attach`, `portforward` and `proxy`, all of which are refused.
//!
//! The checks are those of the real server, down to the address that it would connect to. DEVIATION(no-kubelet): the
//! server opens no connection to that address; it answers as the real one does if the address cannot be reached. Mirrors
//! the `Location` functions of `registry/core/{pod,node,service}` and `kubelet/client`, 1.36.

use std::net::IpAddr;

use caretaker_machinery::status::{Status, quoted};
use serde_json::Value;

use super::ResourceRequest;
use crate::metadata::{self, ObjectTree, value_at};
use crate::server::ServerState;
use crate::store::ObjectKey;

/// The subresources of this module.
const PARTS: [&str; 4] = ["attach", "exec", "portforward", "proxy"];
/// The types of Node addresses, the preferred one first, as by default.
const ADDRESS_TYPES: [&str; 5] = [
    "Hostname",
    "InternalDNS",
    "InternalIP",
    "ExternalDNS",
    "ExternalIP",
];
/// The port of a kubelet that does not report another one.
const KUBELET_PORT: i64 = 10_250;
const NOT_ALLOWED: &str = "address not allowed";

/// The address of a kubelet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KubeletAddress {
    host: String,
    port: i64,
}

/// Reports whether this module answers requests for a subresource.
pub(super) fn serves(part: &str) -> bool {
    PARTS.contains(&part)
}

/// Returns why a connection is refused.
pub(super) fn refuse(server: &ServerState, request: &ResourceRequest, part: &str) -> Status {
    let refused = match (part, request.kind.plural.as_str()) {
        ("proxy", "nodes") => proxy_to_node(server, request),
        ("proxy", "services") => proxy_to_service(server, request),
        ("proxy", _) => proxy_to_pod(server, request),
        _ => stream_to_pod(server, request, part),
    };
    refused.unwrap_or_else(|status| status)
}

fn stream_to_pod(
    server: &ServerState,
    request: &ResourceRequest,
    part: &str,
) -> Result<Status, Status> {
    let pod = pod_named(server, request, request.name())?;
    if part != "portforward" {
        let wanted = request.query.get("container").unwrap_or_default();
        container_of(&pod, wanted)?;
    }
    let Some(kubelet) = kubelet_of(server, &pod)? else {
        let name = request.name();
        let why = format!("pod {name} does not have a host assigned");
        return Err(Status::bad_request(why));
    };
    if !request.upgrades {
        return Err(Status::bad_request("Upgrade request required"));
    }
    let why = kubelet.unreachable();
    Ok(Status::unexplained(format!("error dialing backend: {why}")))
}

fn proxy_to_pod(server: &ServerState, request: &ResourceRequest) -> Result<Status, Status> {
    let (name, port) = name_and_port(request, "pod")?;
    let pod = pod_named(server, request, &name)?;
    let address = value_at(&pod, "/status/podIP").as_str();
    let address = check_address(address.unwrap_or_default())?;
    let containers = value_at(&pod, "/spec/containers").as_array();
    let mut ports = containers.into_iter().flatten().filter_map(|container| {
        let port = container["ports"].get(0)?;
        port["containerPort"].as_i64()
    });
    let port = match port {
        Some(port) => port,
        None => ports.next().unwrap_or(80).to_string(),
    };
    Ok(unreachable_service(address, &port))
}

fn proxy_to_service(server: &ServerState, request: &ResourceRequest) -> Result<Status, Status> {
    let (name, port) = name_and_port(request, "service")?;
    let not_found = || Status::not_found(request.kind.resource_named(&name));
    let mut port_name = port.clone().unwrap_or_default();
    if let Some(number) = port.and_then(|port| port.parse::<i64>().ok()) {
        let service = server
            .store
            .get(request.kind.resource, &request.key_of(&name));
        let service = service.ok_or_else(not_found)?.to_value();
        let ports = value_at(&service, "/spec/ports").as_array();
        let mut ports = ports.into_iter().flatten();
        let Some(port) = ports.find(|port| port["port"] == number) else {
            return Err(Status::unavailable(format!(
                "no service port {number} found for service {}",
                quoted(&name)
            )));
        };
        port_name = port["name"].as_str().unwrap_or_default().to_owned();
    }
    let endpoints = server.builtin("", "endpoints");
    let endpoints = server.store.get(endpoints.resource, &request.key_of(&name));
    let endpoints = endpoints.ok_or_else(not_found)?.to_value();
    let subsets = value_at(&endpoints, "/subsets").as_array();
    let target = subsets.into_iter().flatten().find_map(|subset| {
        let address = subset["addresses"].get(0)?["ip"].as_str()?.to_owned();
        let mut ports = subset["ports"].as_array()?.iter();
        let port = ports.find(|port| port["name"].as_str().unwrap_or_default() == port_name)?;
        Some((address, port["port"].as_i64()?))
    });
    let Some((address, port)) = target else {
        return Err(Status::unavailable(format!(
            "no endpoints available for service {}",
            quoted(&name)
        )));
    };
    Ok(unreachable_service(&address, &port.to_string()))
}

fn proxy_to_node(server: &ServerState, request: &ResourceRequest) -> Result<Status, Status> {
    let (name, port) = name_and_port(request, "node")?;
    let node = server
        .store
        .get(request.kind.resource, &request.key_of(&name));
    let not_found = || Status::not_found(request.kind.resource_named(&name));
    let node = node.ok_or_else(not_found)?.to_value();
    let kubelet = KubeletAddress::of(&node)?;
    if kubelet.host.parse::<IpAddr>().is_err() {
        let why = format!("lookup {}: no such host", kubelet.host);
        return Err(Status::bad_request(why));
    }
    let host = check_address(&kubelet.host)?;
    let port = port.unwrap_or_else(|| kubelet.port.to_string());
    Ok(unreachable_service(host, &port))
}

/// Returns the kubelet of a Pod's Node; none if the Pod is not bound.
pub(super) fn kubelet_of(
    server: &ServerState,
    pod: &ObjectTree,
) -> Result<Option<KubeletAddress>, Status> {
    node_of(server, pod)?
        .map(|node| KubeletAddress::of(&node))
        .transpose()
}

/// Returns the Node of a Pod; none if the Pod is not bound. Upstream reports an absent Node as a Pod.
pub(super) fn node_of(
    server: &ServerState,
    pod: &ObjectTree,
) -> Result<Option<ObjectTree>, Status> {
    let name = value_at(pod, "/spec/nodeName").as_str().unwrap_or_default();
    if name.is_empty() {
        return Ok(None);
    }
    let nodes = server.builtin("", "nodes");
    let node = server
        .store
        .get(nodes.resource, &ObjectKey::new(None, name));
    match node {
        Some(node) => Ok(Some(node.to_value())),
        None => {
            let pods = server.builtin("", "pods");
            Err(Status::not_found(pods.resource_named(name)))
        }
    }
}

/// Returns the container that a request names, or the only one.
pub(super) fn container_of(pod: &ObjectTree, wanted: &str) -> Result<String, Status> {
    let name = metadata::text(pod, "name");
    let names = |field: &str| -> Vec<String> {
        let containers = value_at(pod, "/spec").get(field).and_then(Value::as_array);
        let names = containers.into_iter().flatten();
        names
            .map(|container| container["name"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    let main = names("containers");
    let all = [
        names("initContainers"),
        main.clone(),
        names("ephemeralContainers"),
    ]
    .concat();
    match (wanted, main.as_slice()) {
        ("", [only]) => Ok(only.clone()),
        ("", []) => Err(Status::bad_request(format!(
            "a container name must be specified for pod {name}"
        ))),
        ("", _) => Err(Status::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            all.join(" ")
        ))),
        (wanted, _) if all.iter().any(|known| known == wanted) => Ok(wanted.to_owned()),
        (wanted, _) => Err(Status::bad_request(format!(
            "container {wanted} is not valid for pod {name}"
        ))),
    }
}

fn pod_named(
    server: &ServerState,
    request: &ResourceRequest,
    name: &str,
) -> Result<ObjectTree, Status> {
    let pod = server
        .store
        .get(request.kind.resource, &request.key_of(name));
    let not_found = || Status::not_found(request.kind.resource_named(name));
    Ok(pod.ok_or_else(not_found)?.to_value())
}

/// Splits `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`.
fn name_and_port(
    request: &ResourceRequest,
    what: &str,
) -> Result<(String, Option<String>), Status> {
    let id = request.name();
    let parts: Vec<&str> = id.split(':').collect();
    let (name, port) = match parts.as_slice() {
        [name] => (*name, None),
        [name, port] => (*name, Some(*port)),
        ["" | "http" | "https", name, port] => (*name, Some(*port)),
        _ => ("", None),
    };
    if name.is_empty() {
        let why = format!("invalid {what} request {}", quoted(id));
        return Err(Status::bad_request(why));
    }
    let port = port.filter(|port| !port.is_empty());
    Ok((name.to_owned(), port.map(str::to_owned)))
}

/// Refuses addresses that are not those of another host.
fn check_address(address: &str) -> Result<&str, Status> {
    let is_allowed = match address.parse() {
        Ok(IpAddr::V4(ip)) => {
            !(ip.is_loopback()
                || ip.is_link_local()
                || ip.is_multicast()
                || ip.is_unspecified()
                || ip.is_broadcast())
        }
        Ok(IpAddr::V6(ip)) => {
            !(ip.is_loopback()
                || ip.is_unicast_link_local()
                || ip.is_multicast()
                || ip.is_unspecified())
        }
        Err(_) => false,
    };
    match is_allowed {
        true => Ok(address),
        false => Err(Status::bad_request(NOT_ALLOWED)),
    }
}

fn unreachable_service(address: &str, port: &str) -> Status {
    Status::unavailable(format!(
        "error trying to reach service: dial tcp {address}:{port}: connect: connection refused"
    ))
}

// === impl KubeletAddress ===

impl KubeletAddress {
    fn of(node: &ObjectTree) -> Result<Self, Status> {
        let addresses = value_at(node, "/status/addresses").as_array();
        let addresses = addresses.map(Vec::as_slice).unwrap_or_default();
        let mut preferred = ADDRESS_TYPES.iter().filter_map(|of| {
            let known = addresses.iter().find(|known| known["type"] == *of)?;
            known["address"].as_str()
        });
        let Some(host) = preferred.next() else {
            let shown: Vec<String> = addresses
                .iter()
                .map(|known| {
                    let text = |field: &str| known[field].as_str().unwrap_or_default();
                    format!("{{{} {}}}", text("type"), text("address"))
                })
                .collect();
            let why = format!(
                "no preferred addresses found; known addresses: [{}]",
                shown.join(" ")
            );
            return Err(Status::unexplained(why));
        };
        let port = value_at(node, "/status/daemonEndpoints/kubeletEndpoint/Port");
        Ok(Self {
            host: host.to_owned(),
            port: port
                .as_i64()
                .filter(|port| *port > 0)
                .unwrap_or(KUBELET_PORT),
        })
    }

    /// Returns the address as part of a URL.
    pub(super) fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Returns why no connection to it can be made, in the words of Go.
    pub(super) fn unreachable(&self) -> String {
        match self.host.parse::<IpAddr>() {
            Ok(_) => format!("dial tcp {}: connect: connection refused", self.authority()),
            Err(_) => format!("dial tcp: lookup {}: no such host", self.host),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::metadata::mk_tree;

    #[test]
    fn a_pod_with_several_containers_needs_a_name() {
        let pod = |containers: Value| {
            mk_tree(
                &json!({"metadata": {"name": "p"}, "spec": {"containers": containers,
                "initContainers": [{"name": "i"}], "ephemeralContainers": [{"name": "e"}]}}),
            )
        };
        let (one, two) = (
            json!([{"name": "a"}]),
            json!([{"name": "a"}, {"name": "b"}]),
        );
        let cases = [
            (&one, "", Ok("a")),
            (&one, "e", Ok("e")),
            (&two, "b", Ok("b")),
            (&two, "i", Ok("i")),
            (&two, "x", Err("container x is not valid for pod p")),
            (
                &two,
                "",
                Err("a container name must be specified for pod p, choose one of: [i a b e]"),
            ),
        ];
        for (containers, wanted, expected) in cases {
            let found = container_of(&pod(containers.clone()), wanted);
            let found = found.as_deref().map_err(|status| status.message.as_str());
            assert_eq!(found, expected, "{wanted}");
        }
    }

    #[test]
    fn names_of_nodes_are_preferred_to_their_addresses() {
        let node = |addresses: Value| mk_tree(&json!({"status": {"addresses": addresses}}));
        let named = json!([{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "n"}]);
        let cases = [
            (named, Ok("dial tcp: lookup n: no such host")),
            (
                json!([{"type": "InternalIP", "address": "10.0.0.1"}]),
                Ok("dial tcp 10.0.0.1:10250: connect: connection refused"),
            ),
            (
                json!([{"type": "Other", "address": "x"}]),
                Err("no preferred addresses found; known addresses: [{Other x}]"),
            ),
        ];
        for (addresses, expected) in cases {
            let found = KubeletAddress::of(&node(addresses));
            let found = found.map(|kubelet| kubelet.unreachable());
            let found = found.as_deref().map_err(|status| status.message.as_str());
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn proxies_reach_no_local_addresses() {
        for (address, allowed) in [
            ("10.1.2.3", true),
            ("fd00::1", true),
            ("127.0.0.1", false),
            ("169.254.1.1", false),
            ("::1", false),
            ("fe80::1", false),
            ("", false),
            ("host", false),
        ] {
            assert_eq!(check_address(address).is_ok(), allowed, "{address}");
        }
    }
}
