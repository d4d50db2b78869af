//! The IP families of a Service, and its cluster IPs before any is allotted.

use std::net::{IpAddr, Ipv4Addr};

use caretaker_machinery::status::StatusCause;
use serde_json::{Value, json};

use super::{NONE, ServiceSpec, spec_of};
use crate::metadata::{self, ObjectTree};

const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];
const NO_FAMILY: &str = "not configured on this cluster";
const NO_DUAL_STACK: &str = "this cluster is not configured for dual-stack services";
const BAD_IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

/// The families of a Service and their policy.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct IpFamilies {
    families: Vec<String>,
    policy: String,
}

// === impl IpFamilies ===

impl IpFamilies {
    pub(super) fn set(self, spec: &mut ObjectTree) {
        spec.insert("ipFamilies".into(), json!(self.families));
        spec.insert("ipFamilyPolicy".into(), self.policy.into());
    }
}

/// Keeps `clusterIP` and the first of `clusterIPs` equal where a client sets only one of them.
pub(super) fn sync_cluster_ips(old: Option<&ObjectTree>, new: &mut ObjectTree) {
    let is = ServiceSpec::of(new);
    let (one, all) = (is.text("clusterIP").to_owned(), is.0.get("clusterIPs"));
    let all_is_empty = all.and_then(Value::as_array).is_none_or(Vec::is_empty);
    let changed = match old.map(ServiceSpec::of) {
        None => all_is_empty && !one.is_empty(),
        Some(was) => was.text("clusterIP") != one && was.0.get("clusterIPs") == all,
    };
    let all = match one.as_str() {
        "" => None,
        one => Some(json!([one])),
    };
    if let Some(spec) = spec_of(new).filter(|_| changed) {
        metadata::set(spec, "clusterIPs", all);
    }
}

/// Returns the families and the policy of a Service, or why they cannot be. A Service without cluster IPs has none.
pub(super) fn settle(
    old: Option<&ObjectTree>,
    service: &ObjectTree,
) -> Result<Option<IpFamilies>, Vec<StatusCause>> {
    let spec = ServiceSpec::of(service);
    if spec.is_external_name() {
        return Ok(None);
    }
    let causes = cluster_ip_faults(spec);
    if !causes.is_empty() {
        return Err(causes);
    }
    let given = |field: &str| Some(spec.text(field)).filter(|text| !text.is_empty());
    let was = old.map(|old| ServiceSpec::of(old).text("ipFamilyPolicy"));
    let policy = given("ipFamilyPolicy").or(was.filter(|policy| !policy.is_empty()));
    let mut families: Vec<String> = spec
        .texts("ipFamilies")
        .into_iter()
        .map(str::to_owned)
        .collect();
    let selects = spec.0["selector"]
        .as_object()
        .is_some_and(|labels| !labels.is_empty());
    if spec.is_headless() && !selects {
        return Ok(Some(without_selector(policy, families)));
    }
    let policy = policy.unwrap_or("SingleStack");
    let causes = single_stack_faults(spec, policy, families.len());
    if !causes.is_empty() {
        return Err(causes);
    }
    if families.is_empty() {
        families.push("IPv4".into());
    }
    Ok(Some(IpFamilies {
        families,
        policy: policy.into(),
    }))
}

/// A headless Service without a selector has endpoints that users write, of any family: both are assumed.
fn without_selector(policy: Option<&str>, mut families: Vec<String>) -> IpFamilies {
    let policy = policy.unwrap_or("RequireDualStack");
    if families.is_empty() {
        families.push("IPv4".into());
    }
    if families.len() == 1 && policy != "SingleStack" {
        let other = FAMILIES.iter().find(|family| **family != families[0]);
        families.extend(other.map(|family| (*family).to_owned()));
    }
    IpFamilies {
        families,
        policy: policy.into(),
    }
}

/// Returns why a cluster of one family cannot have the Service.
fn single_stack_faults(spec: ServiceSpec<'_>, policy: &str, named: usize) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let ips = spec.texts("clusterIPs");
    let many = if ips.len() > 1 {
        "cluster IPs"
    } else if named > 1 {
        "IP families"
    } else {
        ""
    };
    if policy == "SingleStack" && !many.is_empty() {
        let why = format!(
            "must be 'RequireDualStack' or 'PreferDualStack' when multiple {many} are specified"
        );
        causes.push(StatusCause::invalid("spec.ipFamilyPolicy", policy, &why));
    }
    for (index, ip) in ips.iter().enumerate().skip(named) {
        if family_of(ip) == Some("IPv6") {
            let field = format!("spec.clusterIPs[{index}]");
            let why = format!("IPv6 is {NO_FAMILY}");
            causes.push(StatusCause::invalid(field, &ips, &why));
        }
    }
    if !causes.is_empty() {
        return causes;
    }
    if policy == "RequireDualStack" {
        let field = "spec.ipFamilyPolicy";
        causes.push(StatusCause::invalid(field, policy, NO_DUAL_STACK));
    }
    for (index, family) in spec.texts("ipFamilies").into_iter().enumerate() {
        if family != "IPv4" {
            let field = format!("spec.ipFamilies[{index}]");
            causes.push(StatusCause::invalid(field, family, NO_FAMILY));
        }
    }
    causes
}

/// Returns why cluster IPs, families and policy contradict each other.
pub(super) fn cluster_ip_faults(spec: ServiceSpec<'_>) -> Vec<StatusCause> {
    if spec.is_external_name() {
        return Vec::new();
    }
    let mut causes = Vec::new();
    let (one, ips) = (spec.text("clusterIP"), spec.texts("clusterIPs"));
    let mismatch = match (one, ips.first()) {
        ("", Some(_)) => "must be empty when `clusterIP` is not specified",
        (one, Some(first)) if one != *first => "first value must match `clusterIP`",
        _ => "",
    };
    if !mismatch.is_empty() {
        causes.push(StatusCause::invalid("spec.clusterIPs", &ips, mismatch));
    }
    causes.extend(family_faults(spec));
    let policy = spec.text("ipFamilyPolicy");
    if !policy.is_empty() && !POLICIES.contains(&policy) {
        let field = "spec.ipFamilyPolicy";
        causes.push(StatusCause::not_supported(field, policy, &POLICIES));
    }
    let invalid = ip_faults(&ips);
    if !invalid.is_empty() {
        causes.extend(invalid);
        return causes;
    }
    if let [first, second] = ips.as_slice()
        && family_of(first) == family_of(second)
    {
        let why = "may specify no more than one IP for each IP family";
        causes.push(StatusCause::invalid("spec.clusterIPs", &ips, why));
    }
    if spec.is_headless() || !causes.is_empty() {
        return causes;
    }
    let families = spec.texts("ipFamilies");
    for (index, (ip, family)) in ips.iter().zip(families).enumerate() {
        if family_of(ip) != Some(family) {
            let why = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            let field = format!("spec.clusterIPs[{index}]");
            causes.push(StatusCause::invalid(field, ip, &why));
        }
    }
    causes
}

fn family_faults(spec: ServiceSpec<'_>) -> Vec<StatusCause> {
    let families = spec.texts("ipFamilies");
    let faults = families.iter().enumerate().filter_map(|(index, family)| {
        let field = format!("spec.ipFamilies[{index}]");
        if !FAMILIES.contains(family) {
            Some(StatusCause::not_supported(field, family, &FAMILIES))
        } else if families[..index].contains(family) {
            let message = format!("Duplicate value: {family:?}");
            Some(StatusCause::new("FieldValueDuplicate", field, message))
        } else {
            None
        }
    });
    faults.collect()
}

fn ip_faults(ips: &[&str]) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (index, ip) in ips.iter().enumerate() {
        if index == 0 && *ip == NONE {
            if ips.len() > 1 {
                let why = "'None' must be the first and only value";
                causes.push(StatusCause::invalid("spec.clusterIPs", ips, why));
            }
            continue;
        }
        if let Some(why) = ip_fault(ip) {
            let field = format!("spec.clusterIPs[{index}]");
            causes.push(StatusCause::invalid(field, ip, why));
        }
    }
    if ips.len() > 2 {
        let why = "may only hold up to 2 values";
        causes.push(StatusCause::invalid("spec.clusterIPs", ips, why));
    }
    causes
}

/// Returns why a text is refused as an IP address.
pub(super) fn ip_fault(text: &str) -> Option<&'static str> {
    if text.parse::<IpAddr>().is_ok() {
        return None;
    }
    let parts: Vec<&str> = text.split('.').collect();
    let trimmed: Vec<&str> = parts
        .iter()
        .map(|part| part.trim_start_matches('0'))
        .map(|part| if part.is_empty() { "0" } else { part })
        .collect();
    let is_padded = !parts.contains(&"") && trimmed.join(".").parse::<Ipv4Addr>().is_ok();
    Some(if is_padded {
        "must not have leading 0s"
    } else {
        BAD_IP
    })
}

fn family_of(ip: &str) -> Option<&'static str> {
    match ip.parse::<IpAddr>().ok()? {
        IpAddr::V4(_) => Some("IPv4"),
        IpAddr::V6(_) => Some("IPv6"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::mk_tree;

    fn settled(spec: &Value) -> Result<Option<(Vec<String>, String)>, Vec<String>> {
        let service = mk_tree(&json!({ "spec": spec }));
        let found = settle(None, &service);
        let found = found.map(|families| families.map(|found| (found.families, found.policy)));
        found.map_err(|causes| causes.into_iter().map(|cause| cause.field).collect())
    }

    #[test]
    fn families_follow_from_addresses_and_policy() {
        let of = |families: &[&str], policy: &str| {
            let families = families.iter().map(|family| (*family).to_owned()).collect();
            Ok(Some((families, policy.to_owned())))
        };
        let cases = [
            (json!({"type": "ExternalName"}), Ok(None)),
            (json!({"type": "ClusterIP"}), of(&["IPv4"], "SingleStack")),
            (
                json!({"clusterIP": "None", "clusterIPs": ["None"]}),
                of(&["IPv4", "IPv6"], "RequireDualStack"),
            ),
            (
                json!({"clusterIP": "None", "clusterIPs": ["None"], "selector": {"a": "b"}}),
                of(&["IPv4"], "SingleStack"),
            ),
            (
                json!({"clusterIP": "None", "clusterIPs": ["None"], "ipFamilies": ["IPv6"]}),
                of(&["IPv6", "IPv4"], "RequireDualStack"),
            ),
            (
                json!({"ipFamilyPolicy": "RequireDualStack"}),
                Err(vec!["spec.ipFamilyPolicy".to_owned()]),
            ),
            (
                json!({"clusterIP": "::1", "clusterIPs": ["::1"]}),
                Err(vec!["spec.clusterIPs[0]".to_owned()]),
            ),
        ];
        for (spec, expected) in cases {
            assert_eq!(settled(&spec), expected, "{spec}");
        }
    }

    #[test]
    fn addresses_with_leading_zeros_have_a_fault_of_their_own() {
        let cases = [
            ("10.0.0.1", None),
            ("::1", None),
            ("010.0.0.1", Some("must not have leading 0s")),
            ("foo", Some(BAD_IP)),
            ("10.0.0", Some(BAD_IP)),
            ("10..0.1", Some(BAD_IP)),
            ("", Some(BAD_IP)),
        ];
        for (text, expected) in cases {
            assert_eq!(ip_fault(text), expected, "{text}");
        }
    }
}
