//! Rules of Services: cluster IPs, IP families and node ports follow from the type, and go when the type does.
//!
//! Mirrors `core/service/strategy.go`, `core/service/storage` and the validation of Services, 1.36, for a cluster with
//! one IP family, IPv4.

mod allot;
mod check;
mod families;

use caretaker_machinery::status::{Status, StatusCause};
use serde_json::{Value, json};

use super::{KindStrategy, ObjectAdmission, ObjectChange, ObjectPart, WriteContext};
use crate::allocation::{self, Allotment};
use crate::metadata::{self, ObjectTree, value_at};
use crate::server::ServerState;
use crate::store::StoredObject;

/// The cluster IP of a headless Service.
const NONE: &str = "None";

const EXTERNAL_IPS: &str =
    "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
const EXTERNAL_NAME: &str = "spec.externalName is ignored when spec.type is not \"ExternalName\"";

/// The rules of Services.
#[derive(Debug)]
pub(super) struct ServiceStrategy;

/// The type of a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServiceType {
    ClusterIp,
    NodePort,
    LoadBalancer,
    ExternalName,
    /// Validation refuses it.
    Unknown,
}

/// The spec of a Service, to look at.
#[derive(Clone, Copy)]
struct ServiceSpec<'a>(&'a Value);

/// Reports whether a Service needs something.
type NeedOfType = fn(ServiceSpec<'_>) -> bool;

/// The fields that belong to some types only, and the question whether a type needs them.
const TYPE_FIELDS: [(&str, NeedOfType); 4] = [
    ("healthCheckNodePort", |spec| spec.needs_health_port()),
    ("allocateLoadBalancerNodePorts", |spec| {
        spec.is_load_balancer()
    }),
    ("loadBalancerClass", |spec| spec.is_load_balancer()),
    ("externalTrafficPolicy", |spec| spec.is_external()),
];
/// The fields that belong to Services with cluster IPs.
const CLUSTER_IP_FIELDS: [&[&str]; 3] = [
    &["clusterIP", "clusterIPs"],
    &["ipFamilies"],
    &["ipFamilyPolicy"],
];

// === impl ServiceStrategy ===

impl KindStrategy for ServiceStrategy {
    /// Only a Service of type LoadBalancer keeps the addresses of its load balancer.
    fn prepare_update(&self, _: &ObjectTree, new: &mut ObjectTree, _: WriteContext<'_>) {
        if !ServiceSpec::of(new).is_load_balancer() {
            new.insert("status".into(), json!({"loadBalancer": {}}));
        }
    }

    fn admit<'a>(
        &self,
        write: &ObjectAdmission<'a, '_>,
        service: &mut ObjectTree,
    ) -> Result<Option<Allotment<'a>>, Status> {
        let old = write.old;
        if let Some(old) = old {
            keep_allotted(old, service);
        }
        families::sync_cluster_ips(old, service);
        let invalid = |causes| {
            let name = metadata::text(service, "name");
            Status::invalid(write.kind.kind_named(name), causes)
        };
        let families = families::settle(old, service).map_err(invalid)?;
        if let (Some(spec), Some(families)) = (spec_of(service), families) {
            families.set(spec);
        }
        let mut allotment = Allotment::new(write.server, write.mode, service);
        allot::allot(write.kind, &mut allotment, old, service)?;
        if let Some(old) = old {
            drop_fields_of_old_type(old, service);
        }
        Ok(Some(allotment))
    }

    fn validate(&self, change: &ObjectChange<'_>) -> Vec<StatusCause> {
        let ObjectChange { part, new, old, .. } = *change;
        match part {
            ObjectPart::Main => check::faults(new, old),
            _ => Vec::new(),
        }
    }

    fn warnings(&self, _: Option<&ObjectTree>, new: &ObjectTree) -> Vec<String> {
        let spec = ServiceSpec::of(new);
        let mut warnings = Vec::new();
        if !spec.texts("externalIPs").is_empty() {
            warnings.push(EXTERNAL_IPS.to_owned());
        }
        if !spec.text("externalName").is_empty() && !spec.is_external_name() {
            warnings.push(EXTERNAL_NAME.to_owned());
        }
        warnings
    }

    fn removed(&self, server: &ServerState, service: &StoredObject) {
        for holding in allot::holdings(ServiceSpec::of(&service.to_value())) {
            allocation::release(server, holding);
        }
    }
}

// === impl ServiceSpec ===

impl<'a> ServiceSpec<'a> {
    fn of(service: &'a ObjectTree) -> Self {
        Self(value_at(service, "/spec"))
    }

    fn text(self, field: &str) -> &'a str {
        self.0[field].as_str().unwrap_or_default()
    }

    fn texts(self, field: &str) -> Vec<&'a str> {
        let items = self.0[field].as_array().into_iter().flatten();
        items.filter_map(Value::as_str).collect()
    }

    fn ports(self) -> impl Iterator<Item = &'a Value> {
        self.0["ports"].as_array().into_iter().flatten()
    }

    fn service_type(self) -> ServiceType {
        match self.text("type") {
            "ClusterIP" => ServiceType::ClusterIp,
            "NodePort" => ServiceType::NodePort,
            "LoadBalancer" => ServiceType::LoadBalancer,
            "ExternalName" => ServiceType::ExternalName,
            _ => ServiceType::Unknown,
        }
    }

    fn is_load_balancer(self) -> bool {
        self.service_type() == ServiceType::LoadBalancer
    }

    fn is_external_name(self) -> bool {
        self.service_type() == ServiceType::ExternalName
    }

    /// Reports whether the type has a cluster IP, if only `None`.
    fn needs_cluster_ip(self) -> bool {
        use ServiceType::{ClusterIp, LoadBalancer, NodePort};
        matches!(self.service_type(), ClusterIp | NodePort | LoadBalancer)
    }

    fn is_headless(self) -> bool {
        self.texts("clusterIPs") == [NONE]
    }

    /// Reports whether the type may have node ports.
    fn may_have_node_ports(self) -> bool {
        use ServiceType::{LoadBalancer, NodePort};
        matches!(self.service_type(), NodePort | LoadBalancer)
    }

    /// Reports whether ports without a node port get one.
    fn needs_node_ports(self) -> bool {
        let allocates = self.0["allocateLoadBalancerNodePorts"] != false;
        self.may_have_node_ports() && (allocates || !self.is_load_balancer())
    }

    fn needs_health_port(self) -> bool {
        self.is_load_balancer() && self.text("externalTrafficPolicy") == "Local"
    }

    /// Reports whether traffic from outside of the cluster can reach it.
    fn is_external(self) -> bool {
        let has_ips = !self.texts("externalIPs").is_empty();
        self.may_have_node_ports() || self.service_type() == ServiceType::ClusterIp && has_ips
    }
}

fn spec_of(service: &mut ObjectTree) -> Option<&mut ObjectTree> {
    service.get_mut("spec").and_then(Value::as_object_mut)
}

/// The node port of a port; 0 if it has none.
fn node_port(port: &Value) -> i64 {
    port["nodePort"].as_i64().unwrap_or(0)
}

/// Fills in what was allotted before and the client leaves out.
fn keep_allotted(old: &ObjectTree, new: &mut ObjectTree) {
    let was = ServiceSpec::of(old);
    let is = ServiceSpec::of(new);
    let (keep_ips, keep_ports, keep_health) = (
        was.needs_cluster_ip() && is.needs_cluster_ip(),
        was.needs_node_ports() && is.needs_node_ports(),
        was.needs_health_port() && is.needs_health_port(),
    );
    let still_used = |number: i64| is.ports().any(|port| node_port(port) == number);
    let kept: Vec<(&str, i64)> = was
        .ports()
        .map(|port| (port["name"].as_str().unwrap_or_default(), node_port(port)))
        .filter(|(_, number)| *number != 0 && !still_used(*number))
        .collect();
    let Some(spec) = spec_of(new) else {
        return;
    };
    if keep_ips {
        if spec
            .get("clusterIP")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .is_empty()
        {
            metadata::set(spec, "clusterIP", was.0.get("clusterIP").cloned());
        }
        let same = spec.get("clusterIP") == was.0.get("clusterIP");
        let lacks = spec.get("clusterIPs").and_then(Value::as_array);
        if same && lacks.is_none_or(Vec::is_empty) {
            metadata::set(spec, "clusterIPs", was.0.get("clusterIPs").cloned());
        }
    }
    if keep_ports {
        let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
        for port in ports
            .into_iter()
            .flatten()
            .filter(|port| node_port(port) == 0)
        {
            let name = port["name"].as_str().unwrap_or_default();
            if let Some((_, number)) = kept.iter().rev().find(|(known, _)| *known == name) {
                port["nodePort"] = (*number).into();
            }
        }
    }
    if keep_health {
        let number = was.0.get("healthCheckNodePort").cloned();
        let slot = spec.entry("healthCheckNodePort").or_insert(0.into());
        if slot.as_i64() == Some(0) {
            *slot = number.unwrap_or_else(|| 0.into());
        }
    }
}

/// Removes what only the old type needs and the client left as it was.
fn drop_fields_of_old_type(old: &ObjectTree, new: &mut ObjectTree) {
    let (was, is) = (ServiceSpec::of(old), ServiceSpec::of(new));
    let ended = |needs: NeedOfType| needs(was) && !needs(is);
    let same = |field: &str| was.0.get(field) == is.0.get(field);
    let mut dropped: Vec<&str> = Vec::new();
    if was.needs_cluster_ip() && !is.needs_cluster_ip() {
        let unchanged = CLUSTER_IP_FIELDS
            .iter()
            .filter(|fields| fields.iter().all(|field| same(field)));
        dropped.extend(unchanged.copied().flatten());
        dropped.extend(same("internalTrafficPolicy").then_some("internalTrafficPolicy"));
    }
    for (field, needs) in TYPE_FIELDS {
        if ended(needs) && same(field) {
            dropped.push(field);
        }
    }
    let numbers = |spec: ServiceSpec<'_>| spec.ports().map(node_port).collect::<Vec<i64>>();
    let ends_ports = was.may_have_node_ports() && !is.may_have_node_ports();
    let drops_ports = ends_ports && numbers(was) == numbers(is);
    let Some(spec) = spec_of(new) else {
        return;
    };
    for field in dropped {
        spec.remove(field);
    }
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter(|_| drops_ports) {
        if let Some(port) = port.as_object_mut() {
            port.remove("nodePort");
        }
    }
}
