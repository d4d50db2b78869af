//! Endpoints of Services: which Pods are behind a Service, and under which ports.
//!
//! - `object`: the actor of Endpoints, one object per Service.
//! - `slices`: the actor of EndpointSlices, up to 100 endpoints in each.
//!
//! Mirrors `pkg/controller/endpoint`, `pkg/controller/endpointslice` and `k8s.io/endpointslice`, 1.36. Left out: topology
//! hints, and the annotation `endpoints.kubernetes.io/last-change-trigger-time`, which only serves to measure a cluster.

pub(crate) mod object;
pub(crate) mod slices;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use caretaker_machinery::selector::LabelSelector;
use serde_json::{Map, Value, json};

use crate::actor::NamespacedName;
use crate::cache::{GroupResource, ObjectCache, ObjectSnapshot};
use crate::pod::{PODS, has_ended};

pub(crate) const SERVICES: GroupResource = ("", "services");
/// Label of the endpoints of a Service without a cluster IP.
const HEADLESS: &str = "service.kubernetes.io/headless";

/// One port of a Service on one Pod.
#[derive(Debug, Clone, PartialEq)]
struct ServedPort {
    name: String,
    number: i64,
    protocol: String,
    app_protocol: Value,
}

// === impl ServedPort ===

impl ServedPort {
    /// The port as EndpointSlices and Endpoints have it. An EndpointSlice also has empty names.
    fn to_json(&self) -> Value {
        let mut port = json!({"name": self.name, "port": self.number, "protocol": self.protocol});
        if !self.app_protocol.is_null() {
            port["appProtocol"] = self.app_protocol.clone();
        }
        port
    }
}

/// The selector of a Service that gets endpoints; `None` if it gets none.
fn selector(service: &ObjectSnapshot) -> Option<LabelSelector> {
    if service.text("/spec/type") == "ExternalName" {
        return None;
    }
    LabelSelector::of_labels(service.at("/spec/selector"))
}

/// The Pods behind a Service that have an address, by name. Those that are being deleted are behind it too.
fn pods<'a>(
    cache: &'a ObjectCache,
    service: &ObjectSnapshot,
    selector: &LabelSelector,
) -> Vec<&'a ObjectSnapshot> {
    let pods = cache.in_namespace(PODS, &service.meta().namespace);
    let is_behind = |pod: &&ObjectSnapshot| {
        let labels = pod.at("/metadata/labels");
        !has_ended(pod)
            && !pod.text("/status/podIP").is_empty()
            && selector.matches(|key| labels[key].as_str())
    };
    pods.filter(is_behind).collect()
}

/// The Services whose endpoints may change with a Pod: those that select it, and those of `is_member`.
fn services_of(
    cache: &ObjectCache,
    pod: &ObjectSnapshot,
    is_member: impl Fn(&ObjectSnapshot) -> bool,
) -> Vec<NamespacedName> {
    let labels = pod.at("/metadata/labels");
    let services = cache.in_namespace(SERVICES, &pod.meta().namespace);
    let concerned = services.filter(|service| {
        let selector = selector(service);
        selector.is_some_and(|selector| {
            selector.matches(|key| labels[key].as_str()) || is_member(service)
        })
    });
    concerned.map(ObjectSnapshot::key).collect()
}

/// The ports of a Service on a Pod. A port whose name no container has is left out.
fn ports(service: &ObjectSnapshot, pod: &ObjectSnapshot) -> Vec<ServedPort> {
    let ports = service.items("/spec/ports").iter();
    let ports = ports.filter_map(|port| {
        let protocol = port["protocol"].as_str().unwrap_or("TCP");
        Some(ServedPort {
            name: port["name"].as_str().unwrap_or_default().to_owned(),
            number: target_port(pod, port, protocol)?,
            protocol: protocol.to_owned(),
            app_protocol: port["appProtocol"].clone(),
        })
    });
    ports.collect()
}

/// The number of a target port; names are looked up in the containers and in sidecars.
fn target_port(pod: &ObjectSnapshot, port: &Value, protocol: &str) -> Option<i64> {
    let name = match &port["targetPort"] {
        Value::Null => return port["port"].as_i64(),
        Value::String(name) => name,
        number => return number.as_i64(),
    };
    let sidecars = pod.items("/spec/initContainers").iter();
    let sidecars = sidecars.filter(|container| container["restartPolicy"] == "Always");
    let containers = pod.items("/spec/containers").iter().chain(sidecars);
    let mut ports =
        containers.flat_map(|container| container["ports"].as_array().into_iter().flatten());
    let found = ports.find(|known| {
        known["name"] == *name && known["protocol"].as_str().unwrap_or("TCP") == protocol
    });
    found.and_then(|known| known["containerPort"].as_i64())
}

fn is_headless(service: &ObjectSnapshot) -> bool {
    matches!(service.text("/spec/clusterIP"), "" | "None")
}

/// The labels of a Service without those that its endpoints have of their own.
fn labels(service: &ObjectSnapshot, own: &[&str]) -> Map<String, Value> {
    let labels = service.at("/metadata/labels").as_object();
    let mut labels = labels.cloned().unwrap_or_default();
    labels.retain(|name, _| name != HEADLESS && !own.contains(&name.as_str()));
    if is_headless(service) {
        labels.insert(HEADLESS.to_owned(), "".into());
    }
    labels
}

/// The host name of a Pod within a Service, if it has one.
fn host_name<'a>(service: &ObjectSnapshot, pod: &'a ObjectSnapshot) -> Option<&'a str> {
    let is_member = pod.text("/spec/subdomain") == &*service.meta().name;
    let name = pod.text("/spec/hostname");
    (is_member && !name.is_empty()).then_some(name)
}

/// The reference to a Pod in its endpoint.
fn reference(pod: &ObjectSnapshot) -> Value {
    let meta = pod.meta();
    json!({"kind": "Pod", "namespace": &*meta.namespace, "name": &*meta.name, "uid": meta.uid.to_string()})
}

/// The addresses of a Pod that are of a family, `IPv4` or `IPv6`.
fn addresses(pod: &ObjectSnapshot, family: &str) -> Vec<String> {
    let all = pod.items("/status/podIPs").iter();
    let all = all.filter_map(|known| known["ip"].as_str()?.parse::<IpAddr>().ok());
    let family = all.filter(|address| address.is_ipv6() == (family == "IPv6"));
    family.map(|address| address.to_string()).collect()
}

/// The families of a Service's addresses, the first one first.
fn families(service: &ObjectSnapshot) -> Vec<&str> {
    let families = service.items("/spec/ipFamilies").iter();
    let families: Vec<&str> = families.filter_map(Value::as_str).collect();
    match service.text("/spec/clusterIP").contains(':') {
        _ if !families.is_empty() => families,
        true => vec!["IPv6"],
        false => vec!["IPv4"],
    }
}
