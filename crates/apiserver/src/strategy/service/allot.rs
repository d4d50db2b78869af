//! Takes cluster IPs and node ports for a Service, and gives those back that a change makes superfluous.

use std::net::Ipv4Addr;

use caretaker_machinery::status::{Status, StatusCause, StatusDetails};
use serde_json::{Value, json};

use super::{ServiceSpec, node_port, spec_of};
use crate::allocation::{Allotment, AllotmentRefusal, ServiceHolding};
use crate::kinds::ServedKind;
use crate::metadata::{self, ObjectTree};

/// Takes all that the Service needs and does not hold.
pub(super) fn allot(
    kind: &ServedKind,
    allotment: &mut Allotment<'_>,
    old: Option<&ObjectTree>,
    service: &mut ObjectTree,
) -> Result<(), Status> {
    let name = metadata::text(service, "name").to_owned();
    let invalid = |cause| Status::invalid(kind.kind_named(&name), vec![cause]);
    let was = old.map(ServiceSpec::of);
    allot_ips(allotment, was, service, &invalid)?;
    match was {
        None => allot_new_ports(allotment, service, &invalid)?,
        Some(was) => allot_changed_ports(allotment, was, service, &invalid)?,
    }
    allot_health_port(allotment, was, service)
}

/// Returns what a stored Service holds.
pub(super) fn holdings(spec: ServiceSpec<'_>) -> Vec<ServiceHolding> {
    let ips = cluster_ips(spec);
    let mut ports = match spec.may_have_node_ports() {
        true => numbers(spec),
        false => Vec::new(),
    };
    let health = spec.0["healthCheckNodePort"].as_i64();
    ports.extend(health.filter(|_| spec.needs_health_port()));
    ports.sort_unstable();
    ports.dedup();
    let ports = ports
        .into_iter()
        .filter_map(|port| u16::try_from(port).ok());
    ips.into_iter()
        .map(ServiceHolding::ClusterIp)
        .chain(ports.map(ServiceHolding::NodePort))
        .collect()
}

fn cluster_ips(spec: ServiceSpec<'_>) -> Vec<Ipv4Addr> {
    if !spec.needs_cluster_ip() {
        return Vec::new();
    }
    let ips = spec.texts("clusterIPs").into_iter();
    ips.filter_map(|ip| ip.parse().ok()).collect()
}

/// The node ports of a Service, each once.
fn numbers(spec: ServiceSpec<'_>) -> Vec<i64> {
    let mut numbers: Vec<i64> = spec
        .ports()
        .map(node_port)
        .filter(|port| *port != 0)
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn allot_ips(
    allotment: &mut Allotment<'_>,
    was: Option<ServiceSpec<'_>>,
    service: &mut ObjectTree,
    invalid: &dyn Fn(StatusCause) -> Status,
) -> Result<(), Status> {
    let is = ServiceSpec::of(service);
    if is.is_external_name() {
        for ip in was.into_iter().flat_map(cluster_ips) {
            allotment.free(ServiceHolding::ClusterIp(ip));
        }
        return Ok(());
    }
    if was.is_some_and(|was| !was.is_external_name()) || is.is_headless() {
        return Ok(());
    }
    let wanted = is.texts("clusterIPs");
    match wanted.first() {
        Some(ip) => {
            let taken = match ip.parse() {
                Ok(ip) => allotment.take_ip(ip),
                Err(_) => Err(AllotmentRefusal::IpOutOfRange),
            };
            taken.map_err(|refusal| {
                let why = format!("failed to allocate IP {ip}: {refusal}");
                invalid(StatusCause::invalid("spec.clusterIPs", &wanted, &why))
            })
        }
        None => {
            let taken = allotment.take_any_ip();
            let ip =
                taken.map_err(|refusal| internal("failed to allocate a serviceIP", refusal))?;
            if let Some(spec) = spec_of(service) {
                spec.insert("clusterIP".into(), ip.to_string().into());
                spec.insert("clusterIPs".into(), json!([ip.to_string()]));
            }
            Ok(())
        }
    }
}

/// A port of the same number under another protocol shares the node port.
fn allot_new_ports(
    allotment: &mut Allotment<'_>,
    service: &mut ObjectTree,
    invalid: &dyn Fn(StatusCause) -> Status,
) -> Result<(), Status> {
    let spec = ServiceSpec::of(service);
    if !spec.may_have_node_ports() {
        return Ok(());
    }
    let allocates = spec.needs_node_ports();
    let requested: Vec<(Option<i64>, i64)> = spec
        .ports()
        .map(|port| (port["port"].as_i64(), node_port(port)))
        .collect();
    let mut shared: Vec<(Option<i64>, i64)> = Vec::new();
    for (index, port) in ports_of(service).enumerate() {
        let (number, own) = (port["port"].as_i64(), node_port(port));
        if own == 0 && !allocates {
            continue;
        }
        let take = |allotment: &mut Allotment<'_>, wanted: i64| {
            let refuse = |refusal| invalid(port_cause(index, wanted, refusal));
            allotment.take_port(wanted).map_err(refuse)
        };
        let same = shared.iter().find(|(known, _)| *known == number);
        match same.map(|(_, node_port)| *node_port) {
            None => {
                let asked = requested
                    .iter()
                    .find(|(known, np)| *known == number && *np != 0);
                let taken = match asked {
                    Some((_, wanted)) => take(allotment, *wanted).map(|()| *wanted)?,
                    None => any_port(allotment)?,
                };
                port["nodePort"] = taken.into();
                shared.push((number, taken));
            }
            Some(taken) if own == 0 => port["nodePort"] = taken.into(),
            Some(taken) if own != taken => take(allotment, own)?,
            Some(_) => {}
        }
    }
    Ok(())
}

fn allot_changed_ports(
    allotment: &mut Allotment<'_>,
    was: ServiceSpec<'_>,
    service: &mut ObjectTree,
    invalid: &dyn Fn(StatusCause) -> Status,
) -> Result<(), Status> {
    let old = match was.may_have_node_ports() {
        true => numbers(was),
        false => Vec::new(),
    };
    let is = ServiceSpec::of(service);
    let allocates = is.needs_node_ports();
    let mut kept = Vec::new();
    if is.may_have_node_ports() {
        let mut seen: Vec<(String, i64)> = Vec::new();
        for (index, port) in ports_of(service).enumerate() {
            let mut number = node_port(port);
            if number == 0 && !allocates {
                continue;
            }
            if number == 0 {
                number = any_port(allotment)?;
                port["nodePort"] = number.into();
            } else if !old.contains(&number) && !kept.contains(&number) {
                let taken = allotment.take_port(number);
                taken.map_err(|refusal| invalid(port_cause(index, number, refusal)))?;
            }
            let protocol = port["protocol"].as_str().unwrap_or_default().to_owned();
            let pair = (protocol, number);
            if seen.contains(&pair) {
                let message = format!("duplicate nodePort: {{{} {number}}}", pair.0);
                return Err(Status::unexplained(message));
            }
            seen.push(pair);
            kept.push(number);
        }
    }
    for number in old.into_iter().filter(|number| !kept.contains(number)) {
        free_port(allotment, number);
    }
    Ok(())
}

fn allot_health_port(
    allotment: &mut Allotment<'_>,
    was: Option<ServiceSpec<'_>>,
    service: &mut ObjectTree,
) -> Result<(), Status> {
    let needed = was.is_some_and(ServiceSpec::needs_health_port);
    let is = ServiceSpec::of(service);
    let number = is.0["healthCheckNodePort"].as_i64().unwrap_or(0);
    match (needed, is.needs_health_port()) {
        (false, true) if number != 0 => {
            let taken = allotment.take_port(number);
            let what = format!("failed to allocate requested HealthCheck NodePort {number}");
            taken.map_err(|refusal| internal(&what, refusal))
        }
        (false, true) => {
            let number = any_port(allotment)?;
            if let Some(spec) = spec_of(service) {
                spec.insert("healthCheckNodePort".into(), number.into());
            }
            Ok(())
        }
        (true, false) => {
            let old = was.and_then(|was| was.0["healthCheckNodePort"].as_i64());
            free_port(allotment, old.unwrap_or(0));
            Ok(())
        }
        _ => Ok(()),
    }
}

fn any_port(allotment: &mut Allotment<'_>) -> Result<i64, Status> {
    let taken = allotment.take_any_port();
    let refuse = |refusal| internal("failed to allocate a nodePort", refusal);
    taken.map(i64::from).map_err(refuse)
}

fn free_port(allotment: &mut Allotment<'_>, number: i64) {
    if let Ok(port) = u16::try_from(number) {
        allotment.free(ServiceHolding::NodePort(port));
    }
}

fn ports_of(service: &mut ObjectTree) -> impl Iterator<Item = &mut Value> {
    let ports = spec_of(service).and_then(|spec| spec.get_mut("ports")?.as_array_mut());
    ports.into_iter().flatten()
}

fn port_cause(index: usize, number: i64, refusal: AllotmentRefusal) -> StatusCause {
    let field = format!("spec.ports[{index}].nodePort");
    StatusCause::invalid(field, number, &refusal.to_string())
}

fn internal(what: &str, refusal: AllotmentRefusal) -> Status {
    let message = format!("{what}: {refusal}");
    let cause = StatusCause::new("", "", &*message);
    let details = StatusDetails {
        causes: vec![cause],
        ..StatusDetails::default()
    };
    let message = format!("Internal error occurred: {message}");
    Status::failure(500, "InternalError", message).with(details)
}
