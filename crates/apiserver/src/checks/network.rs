//! Rules of Ingresses, NetworkPolicies and EndpointSlices that need more than one field.
//!
//! Mirrors `networking/validation` and `discovery/validation`, 1.36.

use caretaker_machinery::names::{label, qualified_name, subdomain};
use serde_json::Value;

use super::cluster::endpoint_ip;
use super::formats::path_segment;
use super::table::CheckFn;
use super::{Visit, formats, list, text};

pub(super) const CHECKS: &[(&str, CheckFn)] = &[
    ("ingress", ingress),
    ("ingress-host", ingress_host),
    ("ingress-path", ingress_path),
    ("ingress-backend", ingress_backend),
    ("ingress-tls", ingress_tls),
    ("ingress-class", ingress_class),
    ("policy-port", policy_port),
    ("policy-peer", policy_peer),
    ("policy-types", policy_types),
    ("ip-block", ip_block),
    ("endpoint-addresses", endpoint_addresses),
    ("ip-name", ip_name),
];

fn ingress(v: &mut Visit<'_>) {
    if list(v.get("rules")).is_empty() && v.get("defaultBackend").is_null() {
        let why = "either `defaultBackend` or `rules` must be specified";
        v.invalid("", v.get("rules"), why);
    }
}

/// An IPAddress is named after itself, and belongs to an object.
fn ip_name(v: &mut Visit<'_>) {
    for field in ["metadata.name", "metadata.generateName"] {
        let name = super::find(v.new, field).as_str().unwrap_or_default();
        // Names that no path can have were refused before.
        if !name.is_empty() && path_segment(name).is_empty() {
            v.invalid_all(field, name, &formats::ip(name));
        }
    }
    if v.get("spec").is_null() {
        v.required("spec.parentRef", "");
    }
}

fn host_faults(host: &str) -> Vec<String> {
    if host.contains('*') {
        formats::wildcard(host)
    } else {
        subdomain(host)
    }
}

fn ingress_host(v: &mut Visit<'_>) {
    let host = v.get("host").as_str().unwrap_or_default();
    if host.is_empty() {
        return;
    }
    if formats::ip(host).is_empty() {
        v.invalid("host", host, "must be a DNS name, not an IP address");
    }
    v.invalid_all("host", host, &host_faults(host));
}

fn ingress_path(v: &mut Visit<'_>) {
    let path = v.get("path").as_str().unwrap_or_default();
    let is_absolute = path.starts_with('/');
    match v.get("pathType").as_str().unwrap_or_default() {
        "" => return v.required("pathType", "pathType must be specified"),
        "Exact" | "Prefix" => {
            if !is_absolute {
                v.invalid("path", path, "must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if path.contains(part) {
                    v.invalid("path", path, &format!("must not contain '{part}'"));
                }
            }
            for end in ["/..", "/."] {
                if path.ends_with(end) {
                    v.invalid("path", path, &format!("cannot end with '{end}'"));
                }
            }
        }
        "ImplementationSpecific" => {
            if !path.is_empty() && !is_absolute {
                v.invalid("path", path, "must be an absolute path");
            }
        }
        other => v.unsupported(
            "pathType",
            other,
            &["Exact", "ImplementationSpecific", "Prefix"],
        ),
    }
    v.each("backend");
}

fn ingress_backend(v: &mut Visit<'_>) {
    let (resource, service) = (v.get("resource"), v.get("service"));
    match (resource.is_null(), service.is_null()) {
        (false, false) => v.invalid("", "", "cannot set both resource and service backends"),
        (true, true) => v.invalid("", "", "resource or service backend is required"),
        (false, true) => v.each("resource"),
        (true, false) => {
            let name = text(service, "name");
            if name.is_empty() {
                v.required("service.name", "");
            } else {
                v.invalid_all("service.name", name, &label(name));
            }
            let (name, number) = (
                text(&service["port"], "name"),
                service["port"]["number"].as_i64(),
            );
            match (name, number.unwrap_or(0)) {
                ("", 0) => v.required("", "port name or number is required"),
                ("", number) => {
                    if !(1..=65535).contains(&number) {
                        let why = "must be between 1 and 65535, inclusive";
                        v.invalid("service.port.number", number, why);
                    }
                }
                (name, 0) => {
                    v.invalid_all("service.port.name", name, &formats::port_name(name));
                }
                _ => v.invalid("", "", "cannot set both port name & port number"),
            }
        }
    }
}

fn ingress_tls(v: &mut Visit<'_>) {
    for (at, host) in list(v.get("hosts")).iter().enumerate() {
        let host = host.as_str().unwrap_or_default();
        v.invalid_all(&format!("hosts[{at}]"), host, &host_faults(host));
    }
    let name = v.get("secretName").as_str().unwrap_or_default();
    if !name.is_empty() {
        v.invalid_all("secretName", name, &subdomain(name));
    }
}

fn ingress_class(v: &mut Visit<'_>) {
    let controller = v.get("controller").as_str().unwrap_or_default();
    if controller.len() > 250 {
        v.too_long("controller", 250);
    }
    formats::domain_prefixed_path(v, "controller", controller);
}

fn policy_port(v: &mut Visit<'_>) {
    let protocol = v.get("protocol").as_str().unwrap_or("TCP");
    if !["TCP", "UDP", "SCTP"].contains(&protocol) {
        v.unsupported("protocol", protocol, &["TCP", "UDP", "SCTP"]);
    }
    let end = v.get("endPort").as_i64();
    match v.get("port") {
        Value::Null => {
            if let Some(end) = end {
                let why = "may not be specified when `port` is not specified";
                v.invalid("endPort", end, why);
            }
        }
        Value::String(name) => {
            if let Some(end) = end {
                let why = "may not be specified when `port` is non-numeric";
                v.invalid("endPort", end, why);
            }
            v.invalid_all("port", name, &formats::port_name(name));
        }
        number => {
            let number = number.as_i64().unwrap_or(0);
            let is_port = |port: &i64| (1..=65535).contains(port);
            if !is_port(&number) {
                v.invalid("port", number, "must be between 1 and 65535, inclusive");
            }
            if let Some(end) = end {
                if end < number {
                    // Upstream shows the port, not its end.
                    v.invalid("endPort", number, "must be greater than or equal to `port`");
                }
                if !is_port(&end) {
                    v.invalid("endPort", end, "must be between 1 and 65535, inclusive");
                }
            }
        }
    }
}

fn policy_peer(v: &mut Visit<'_>) {
    for field in ["podSelector", "namespaceSelector", "ipBlock"] {
        v.each(field);
    }
    let has_block = !v.get("ipBlock").is_null();
    match v.here().len() {
        0 => v.required("", "must specify a peer"),
        1 => {}
        _ if has_block => v.forbidden("", "may not specify both ipBlock and another peer"),
        _ => {}
    }
}

fn policy_types(v: &mut Visit<'_>) {
    let types = list(v.get("policyTypes"));
    if types.len() > 2 {
        let why = "may not specify more than two policyTypes";
        return v.invalid("policyTypes", types, why);
    }
    for (at, name) in types.iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        if !["Ingress", "Egress"].contains(&name) {
            v.unsupported(&format!("policyTypes[{at}]"), name, &["Ingress", "Egress"]);
        }
    }
}

fn ip_block(v: &mut Visit<'_>) {
    let cidr = v.get("cidr").as_str().unwrap_or_default();
    if cidr.is_empty() {
        return v.required("cidr", "");
    }
    let faults = formats::cidr(cidr);
    v.invalid_all("cidr", cidr, &faults);
    if !faults.is_empty() {
        return;
    }
    for (at, except) in list(v.get("except")).iter().enumerate() {
        let except = except.as_str().unwrap_or_default();
        let path = format!("except[{at}]");
        let faults = formats::cidr(except);
        v.invalid_all(&path, except, &faults);
        if faults.is_empty() && !is_part(except, cidr) {
            v.invalid(&path, except, "must be a strict subset of `cidr`");
        }
    }
}

/// Reports whether a block of addresses is smaller than another and within it.
fn is_part(part: &str, whole: &str) -> bool {
    let read = |text: &str| {
        let (address, bits) = text.split_once('/')?;
        let address: std::net::IpAddr = address.parse().ok()?;
        let bits: u32 = bits.parse().ok()?;
        Some(match address {
            std::net::IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, bits, 4),
            std::net::IpAddr::V6(address) => (address.to_bits(), bits, 6),
        })
    };
    match (read(part), read(whole)) {
        (Some((part, bits, family)), Some((whole, fewer, other))) => {
            let shift = 128 - fewer.min(128);
            let same = shift == 128 || part >> shift == whole >> shift;
            family == other && bits > fewer && same
        }
        _ => false,
    }
}

fn endpoint_addresses(v: &mut Visit<'_>) {
    let kind = v
        .new
        .get("addressType")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let addresses = list(v.get("addresses"));
    if addresses.is_empty() {
        v.required("addresses", "must contain at least 1 address");
    } else if addresses.len() > 100 {
        v.too_many("addresses", addresses.len(), 100);
    }
    for (at, address) in addresses.iter().enumerate() {
        let address = address.as_str().unwrap_or_default();
        let path = format!("addresses[{at}]");
        match kind {
            "FQDN" => v.invalid_all(&path, address, &subdomain(address)),
            kind => {
                let faults = formats::ip(address);
                v.invalid_all(&path, address, &faults);
                if !faults.is_empty() {
                    continue;
                }
                if kind == "IPv4" && address.contains(':') {
                    v.invalid("addresses", address, "must be an IPv4 address");
                } else if kind == "IPv6" && !address.contains(':') {
                    v.invalid("addresses", address, "must be an IPv6 address");
                }
                endpoint_ip(v, &path, address);
            }
        }
    }
    for key in v
        .get("deprecatedTopology")
        .as_object()
        .into_iter()
        .flatten()
    {
        v.invalid_all("deprecatedTopology", key.0, &qualified_name(key.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_are_part_of_their_block() {
        for (part, whole, expected) in [
            ("10.1.0.0/16", "10.0.0.0/8", true),
            ("10.0.0.0/8", "10.0.0.0/8", false),
            ("11.0.0.0/16", "10.0.0.0/8", false),
            ("2001:db8::/64", "2001:db8::/32", true),
            ("10.1.0.0/16", "2001:db8::/32", false),
            ("10.1.0.0/16", "0.0.0.0/0", true),
        ] {
            assert_eq!(is_part(part, whole), expected, "{part} {whole}");
        }
    }
}
