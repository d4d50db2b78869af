//! What the server checks of a Service. DEVIATION(validation): kinds of external IPs and the status are not.

use caretaker_machinery::names;
use caretaker_machinery::status::StatusCause;
use serde_json::{Value, json};

use super::families::{cluster_ip_faults, ip_fault};
use super::{NONE, ServiceSpec, ServiceType, node_port};
use crate::checks;
use crate::metadata::ObjectTree;
use crate::strategy::validation::unsupported_fault;

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const AFFINITIES: [&str; 2] = ["ClientIP", "None"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const TRAFFIC: [&str; 2] = ["Cluster", "Local"];
const BAD_PORT: &str = "must be between 1 and 65535, inclusive";
const FOR_LOAD_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";
const NOT_FOR_NAMES: &str = "may not be set for ExternalName services";
const SET_ONCE: &str = "may not change once set";
/// How a Service prefers endpoints that are near, in the order of upstream's message.
const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];
/// Longest time for which a client keeps its endpoint, in seconds: a day.
const AFFINITY_SECS_MAX: i64 = 86_400;
/// Most characters of the name of a port of a container.
const PORT_NAME_CHARS_MAX: usize = 15;

/// Returns why a Service is refused.
pub(super) fn faults(new: &ObjectTree, old: Option<&ObjectTree>) -> Vec<StatusCause> {
    let spec = ServiceSpec::of(new);
    let mut causes = Vec::new();
    if let Some(old) = old {
        causes.extend(change_faults(spec, ServiceSpec::of(old)));
    }
    causes.extend(type_faults(spec));
    causes.extend(port_faults(spec));
    causes.extend(affinity_faults(spec));
    causes.extend(cluster_ip_faults(spec));
    causes.extend(external_ip_faults(spec));
    causes.extend(unsupported_fault(spec.0, "spec", "type", &TYPES));
    causes.extend(node_port_faults(spec));
    causes.extend(repeated_ports(spec));
    causes.extend(traffic_faults(spec));
    causes
}

/// What an update may not change.
fn change_faults(new: ServiceSpec<'_>, old: ServiceSpec<'_>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    // A type that does not exist is refused as such.
    let is_known = TYPES.contains(&new.text("type"));
    if is_known && !new.is_external_name() && !old.is_external_name() {
        let (ips, was) = (new.texts("clusterIPs"), old.texts("clusterIPs"));
        if ips.first() != was.first() {
            causes.push(StatusCause::invalid("spec.clusterIPs[0]", &ips, SET_ONCE));
        }
        let (families, was) = (new.texts("ipFamilies"), old.texts("ipFamilies"));
        if families.first() != was.first() && !new.is_headless() {
            let field = "spec.ipFamilies[0]";
            causes.push(StatusCause::invalid(field, &families, SET_ONCE));
        }
    }
    if new.is_load_balancer() && old.is_load_balancer() {
        let class = new.text("loadBalancerClass");
        if class != old.text("loadBalancerClass") {
            let field = "spec.loadBalancerClass";
            causes.push(StatusCause::invalid(field, class, SET_ONCE));
        }
    }
    let health = "healthCheckNodePort";
    let kept = new.needs_health_port() && old.needs_health_port();
    if kept && new.0[health] != old.0[health] {
        let field = format!("spec.{health}");
        causes.push(StatusCause::forbidden(field, "field is immutable"));
    }
    causes
}

fn type_faults(spec: ServiceSpec<'_>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    if spec.ports().next().is_none() && !spec.is_headless() && !spec.is_external_name() {
        causes.push(StatusCause::required("spec.ports", ""));
    }
    let of_type = spec.service_type();
    if spec.is_headless() && matches!(of_type, ServiceType::NodePort | ServiceType::LoadBalancer) {
        let why = format!(
            "may not be set to 'None' for {} services",
            spec.text("type")
        );
        causes.push(StatusCause::invalid("spec.clusterIPs[0]", NONE, &why));
    }
    if of_type != ServiceType::ExternalName {
        return causes;
    }
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if spec.0.get(field).is_some() {
            causes.push(StatusCause::forbidden(
                format!("spec.{field}"),
                NOT_FOR_NAMES,
            ));
        }
    }
    let name = spec.text("externalName");
    match name.strip_suffix('.').unwrap_or(name) {
        "" => causes.push(StatusCause::required("spec.externalName", "")),
        shown => {
            let faults = names::subdomain(shown).into_iter();
            causes.extend(faults.map(|why| StatusCause::invalid("spec.externalName", shown, &why)));
        }
    }
    causes
}

fn port_faults(spec: ServiceSpec<'_>) -> Vec<StatusCause> {
    let count = spec.ports().count();
    let mut known: Vec<&str> = Vec::new();
    let mut causes = Vec::new();
    for (index, port) in spec.ports().enumerate() {
        let path = format!("spec.ports[{index}]");
        let name = port["name"].as_str().unwrap_or_default();
        let field = format!("{path}.name");
        if name.is_empty() {
            causes.extend((count > 1).then(|| StatusCause::required(field, "")));
        } else {
            let faults = names::label(name).into_iter();
            causes.extend(faults.map(|why| StatusCause::invalid(field.clone(), name, &why)));
            if known.contains(&name) {
                causes.push(duplicate(field, &json!(name)));
            }
            known.push(name);
        }
        let number = port["port"].as_i64().unwrap_or(0);
        if !is_port(number) {
            causes.push(StatusCause::invalid(
                format!("{path}.port"),
                number,
                BAD_PORT,
            ));
        }
        causes.extend(unsupported_fault(port, &path, "protocol", &PROTOCOLS));
        causes.extend(target_faults(&path, &port["targetPort"]));
        let protocol = port["appProtocol"].as_str();
        for (text, why) in protocol.into_iter().flat_map(|text| {
            names::qualified_name(text)
                .into_iter()
                .map(move |why| (text, why))
        }) {
            let field = format!("{path}.appProtocol");
            causes.push(StatusCause::invalid(field, text, &why));
        }
    }
    causes
}

/// A target is a number or the name of a port.
fn target_faults(path: &str, target: &Value) -> Vec<StatusCause> {
    let field = format!("{path}.targetPort");
    let Some(name) = target.as_str() else {
        let number = target.as_i64().unwrap_or(0);
        let fault = (!is_port(number)).then(|| StatusCause::invalid(field, number, BAD_PORT));
        return fault.into_iter().collect();
    };
    let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let mut faults = Vec::new();
    if name.len() > PORT_NAME_CHARS_MAX {
        faults.push("must be no more than 15 characters");
    }
    if !name.bytes().all(known) {
        faults.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        faults.push("must contain at least one letter (a-z)");
    }
    if name.contains("--") {
        faults.push("must not contain consecutive hyphens");
    }
    if name.starts_with('-') || name.ends_with('-') {
        faults.push("must not begin or end with a hyphen");
    }
    let faults = faults.into_iter();
    faults
        .map(|why| StatusCause::invalid(field.clone(), name, why))
        .collect()
}

fn affinity_faults(spec: ServiceSpec<'_>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (key, value) in spec.0["selector"].as_object().into_iter().flatten() {
        let faults = names::qualified_name(key).into_iter();
        causes.extend(faults.map(|why| StatusCause::invalid("spec.selector", key, &why)));
        let value = value.as_str().unwrap_or_default();
        let faults = names::label_value(value).into_iter();
        causes.extend(faults.map(|why| StatusCause::invalid("spec.selector", value, &why)));
    }
    causes.extend(unsupported_fault(
        spec.0,
        "spec",
        "sessionAffinity",
        &AFFINITIES,
    ));
    if spec.text("sessionAffinity") == "ClientIP" {
        let secs = spec.0["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].as_i64();
        if let Some(secs) = secs.filter(|secs| !(1..=AFFINITY_SECS_MAX).contains(secs)) {
            let field = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
            let why = "must be greater than 0 and less than 86400";
            causes.push(StatusCause::invalid(field, secs, why));
        }
    }
    causes
}

fn node_port_faults(spec: ServiceSpec<'_>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let mut seen: Vec<(&Value, i64)> = Vec::new();
    for (index, port) in spec.ports().enumerate() {
        let number = node_port(port);
        if number == 0 {
            continue;
        }
        let field = format!("spec.ports[{index}].nodePort");
        if spec.service_type() == ServiceType::ClusterIp {
            let why = "may not be used when `type` is 'ClusterIP'";
            causes.push(StatusCause::forbidden(field.clone(), why));
        }
        let pair = (&port["protocol"], number);
        if seen.contains(&pair) {
            causes.push(duplicate(field, &json!(number)));
        }
        seen.push(pair);
    }
    causes
}

/// Two ports may not have the same number and protocol. Upstream shows them as its own type.
fn repeated_ports(spec: ServiceSpec<'_>) -> Vec<StatusCause> {
    let mut seen: Vec<(&Value, &Value)> = Vec::new();
    let mut causes = Vec::new();
    for (index, port) in spec.ports().enumerate() {
        let pair = (&port["protocol"], &port["port"]);
        if seen.contains(&pair) {
            let message = format!(
                r#"Duplicate value: {{"Name":"","Protocol":{},"AppProtocol":null,"Port":{},"TargetPort":0,"NodePort":0}}"#,
                pair.0, pair.1
            );
            let field = format!("spec.ports[{index}]");
            causes.push(StatusCause::new("FieldValueDuplicate", field, message));
        }
        seen.push(pair);
    }
    causes
}

fn external_ip_faults(spec: ServiceSpec<'_>) -> Vec<StatusCause> {
    let ips = spec.texts("externalIPs").into_iter().enumerate();
    let faults = ips.filter_map(|(at, ip)| Some((at, ip, ip_fault(ip)?)));
    faults
        .map(|(at, ip, why)| StatusCause::invalid(format!("spec.externalIPs[{at}]"), ip, why))
        .collect()
}

/// The addresses whose requests a load balancer forwards. The path is upstream's.
fn source_range_faults(spec: ServiceSpec<'_>) -> Vec<StatusCause> {
    let ranges = spec.texts("loadBalancerSourceRanges");
    let mut causes = Vec::new();
    if !ranges.is_empty() && !spec.is_load_balancer() {
        let field = "spec.LoadBalancerSourceRanges";
        causes.push(StatusCause::forbidden(field, FOR_LOAD_BALANCERS));
    }
    for (at, range) in ranges.into_iter().enumerate() {
        let field = format!("spec.LoadBalancerSourceRanges[{at}]");
        let faults = checks::cidr_faults(range.trim());
        causes.extend(
            faults
                .iter()
                .map(|why| StatusCause::invalid(&field, range, why)),
        );
    }
    causes
}

fn traffic_faults(spec: ServiceSpec<'_>) -> Vec<StatusCause> {
    let mut causes = source_range_faults(spec);
    if !spec.is_load_balancer() {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if spec.0.get(field).is_some() {
                let field = format!("spec.{field}");
                causes.push(StatusCause::forbidden(field, FOR_LOAD_BALANCERS));
            }
        }
    }
    let policy = spec.text("externalTrafficPolicy");
    if !policy.is_empty() && !spec.is_external() {
        let why = "may only be set for externally-accessible services";
        let field = "spec.externalTrafficPolicy";
        causes.push(StatusCause::invalid(field, policy, why));
    } else {
        let field = "externalTrafficPolicy";
        causes.extend(unsupported_fault(spec.0, "spec", field, &TRAFFIC));
    }
    let health = spec.0["healthCheckNodePort"].as_i64().unwrap_or(0);
    if health != 0 && !spec.needs_health_port() {
        let why =
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        let field = "spec.healthCheckNodePort";
        causes.push(StatusCause::invalid(field, health, why));
    }
    causes.extend(unsupported_fault(
        spec.0,
        "spec",
        "internalTrafficPolicy",
        &TRAFFIC,
    ));
    let field = "trafficDistribution";
    causes.extend(unsupported_fault(spec.0, "spec", field, &DISTRIBUTIONS));
    causes
}

fn is_port(number: i64) -> bool {
    (1..=65_535).contains(&number)
}

fn duplicate(field: String, value: &Value) -> StatusCause {
    StatusCause::new(
        "FieldValueDuplicate",
        field,
        format!("Duplicate value: {value}"),
    )
}
