//! Rules of Endpoints, Events, ServiceCIDRs, quotas by scope and webhooks that need more than one field.
//!
//! Mirrors `core/validation` (`events.go` too), `networking/validation` and `admissionregistration/validation`, 1.36.

use std::net::IpAddr;

use caretaker_machinery::names::{dns_1035_label, qualified_name, subdomain};
use serde_json::Value;

use super::table::CheckFn;
use super::{Visit, find, formats, list, text};

pub(super) const CHECKS: &[(&str, CheckFn)] = &[
    ("endpoint-subset", endpoint_subset),
    ("endpoint-address", endpoint_address),
    ("endpoint-port", endpoint_port),
    ("event", event),
    ("event-kept", event_kept),
    ("service-cidr", service_cidr),
    ("provider-id", provider_id),
    ("scope-selector", scope_selector),
    ("scopes-kept", scopes_kept),
    ("webhooks", webhooks),
    ("webhook", webhook),
    ("webhook-rule", webhook_rule),
];

/// Most characters of the texts of an Event.
const EVENT_LENGTHS: [(&str, usize); 4] = [
    ("reportingInstance", 128),
    ("action", 128),
    ("reason", 128),
    ("message", 1024),
];
/// Fields of an Event that keep their value in events.k8s.io. The path of the first is the one that messages name.
const EVENT_KEPT: [(&str, &str); 12] = [
    ("involvedObject", "involvedObject"),
    ("reason", "reason"),
    ("message", "message"),
    ("source", "source"),
    ("firstTimestamp", "firstTimestamp"),
    ("lastTimestamp", "lastTimestamp"),
    ("count", "count"),
    ("type", "type"),
    ("action", "action"),
    ("related", "related"),
    ("reportingController", "reportingComponent"),
    ("reportingInstance", "reportingInstance"),
];
/// Scopes of a quota that have no values.
const PLAIN_SCOPES: [&str; 5] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "Terminating",
];

fn endpoint_subset(v: &mut Visit<'_>) {
    if list(v.get("addresses")).is_empty() && list(v.get("notReadyAddresses")).is_empty() {
        v.required("", "must specify `addresses` or `notReadyAddresses`");
    }
}

fn endpoint_address(v: &mut Visit<'_>) {
    let ip = v.get("ip").as_str().unwrap_or_default();
    v.invalid_all("ip", ip, &formats::ip(ip));
    endpoint_ip(v, "ip", ip);
}

/// An address that a Service may have behind it.
pub(super) fn endpoint_ip(v: &mut Visit<'_>, field: &str, text: &str) {
    let Ok(ip) = text.parse::<IpAddr>() else {
        return v.invalid(field, text, "must be a valid IP address");
    };
    let unspecified = format!("may not be unspecified ({text})");
    let (is_local, is_local_multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (
            ip.is_unicast_link_local(),
            ip.segments()[0] & 0xff0f == 0xff02,
        ),
    };
    let rules = [
        (ip.is_unspecified(), unspecified.as_str()),
        (
            ip.is_loopback(),
            "may not be in the loopback range (127.0.0.0/8, ::1/128)",
        ),
        (
            is_local,
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
        ),
        (
            is_local_multicast,
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        ),
    ];
    for (_, why) in rules.into_iter().filter(|(is_fault, _)| *is_fault) {
        v.invalid(field, text, why);
    }
}

fn endpoint_port(v: &mut Visit<'_>) {
    let ports = v
        .parent("EndpointSubset")
        .and_then(|subset| subset.get("ports"));
    let is_one = ports.is_none_or(|ports| list(ports).len() < 2);
    if !is_one && text_of(v, "name").is_empty() {
        v.required("name", "");
    }
}

fn text_of<'a>(v: &Visit<'a>, field: &str) -> &'a str {
    v.get(field).as_str().unwrap_or_default()
}

/// What Events of both groups have to look like.
fn event(v: &mut Visit<'_>) {
    let namespace = text(v.get("involvedObject"), "namespace");
    let own = text(v.get("metadata"), "namespace");
    let is_new = !v.get("eventTime").is_null();
    let matches = match (is_new, namespace) {
        (false, "") => own == "default",
        (false, namespace) => namespace == own,
        (true, "") => ["default", "kube-system"].contains(&own),
        (true, _) => true,
    };
    if !matches {
        let why = "does not match event.namespace";
        v.invalid("involvedObject.namespace", namespace, why);
    }
    if !is_new {
        return;
    }
    let component = match v.group {
        "events.k8s.io" => "reportingController",
        _ => "reportingComponent",
    };
    let controller = text_of(v, "reportingComponent");
    if controller.is_empty() {
        v.required(component, "");
    }
    v.invalid_all(component, controller, &qualified_name(controller));
    for (field, chars_max) in EVENT_LENGTHS {
        let value = text_of(v, field);
        if value.is_empty() && field != "message" {
            v.required(field, "");
        }
        if value.len() > chars_max {
            let why = format!("can have at most {chars_max} characters");
            v.invalid(field, "", &why);
        }
    }
}

/// What only events.k8s.io demands.
fn event_kept(v: &mut Visit<'_>) {
    if v.group != "events.k8s.io" {
        return;
    }
    let series = v.get("series");
    let old = v.old;
    let is_kept = old.is_some_and(|old| find(old, "series") == series);
    if !series.is_null() && !is_kept {
        if series["count"].as_i64().unwrap_or(0) < 2 {
            v.invalid("series.count", "", "should be at least 2");
        }
        if series["lastObservedTime"].is_null() {
            v.required("series.lastObservedTime", "");
        }
    }
    let Some(old) = old else {
        return new_event(v);
    };
    for (shown, field) in EVENT_KEPT {
        let (new, old) = (find(v.new, field), find(old, field));
        if new != old && !(is_zero(new) && is_zero(old)) {
            let value = v.shown_at(field, new);
            let message = format!("Invalid value: {value}: field is immutable");
            v.push("FieldValueInvalid", shown, message);
        }
    }
}

fn new_event(v: &mut Visit<'_>) {
    if v.get("eventTime").is_null() {
        v.required("eventTime", "");
    }
    let kind = text_of(v, "type");
    if !["Normal", "Warning"].contains(&kind) {
        v.invalid("type", "", &format!("has invalid value: {kind}"));
    }
    for field in ["firstTimestamp", "lastTimestamp", "count", "source"] {
        if !is_zero(v.get(field)) {
            v.invalid(field, "", "needs to be unset");
        }
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Object(members) => members.values().all(is_zero),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) => false,
    }
}

fn service_cidr(v: &mut Visit<'_>) {
    let cidrs = list(find(v.new, "spec.cidrs"));
    let Some(old) = v.old else {
        return new_cidrs(v, cidrs);
    };
    let old = list(find(old, "spec.cidrs"));
    let why = "field is immutable";
    if old.len() == cidrs.len() {
        for (at, cidr) in cidrs
            .iter()
            .enumerate()
            .filter(|(at, new)| old[*at] != **new)
        {
            v.invalid(&format!("spec.cidrs[{at}]"), cidr, why);
        }
    } else if old.len() == 1 && cidrs.len() == 2 {
        if cidrs[0] != old[0] {
            v.invalid("spec.cidrs[0]", &cidrs[0], why);
        }
        new_cidrs(v, cidrs);
    } else {
        let shown = if cidrs.is_empty() {
            &Value::Null
        } else {
            find(v.new, "spec.cidrs")
        };
        v.invalid("spec.cidrs", shown, why);
    }
}

fn new_cidrs(v: &mut Visit<'_>, cidrs: &[Value]) {
    match cidrs.len() {
        0 => return v.required("spec.cidrs", "at least one CIDR required"),
        1 | 2 => {}
        _ => {
            let shown = v.shown("spec");
            let message = format!("Invalid value: {shown}: may only hold up to 2 values");
            return v.push("FieldValueInvalid", "spec.cidrs", message);
        }
    }
    let mut families = Vec::new();
    for (at, cidr) in cidrs.iter().enumerate() {
        let cidr = cidr.as_str().unwrap_or_default();
        let faults = formats::cidr(cidr);
        if faults.is_empty() {
            families.push(cidr.contains(':'));
        }
        v.invalid_all(&format!("spec.cidrs[{at}]"), cidr, &faults);
    }
    if let [one, other] = families[..]
        && one == other
    {
        let why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        v.invalid("spec.cidrs", cidrs, why);
    }
}

fn provider_id(v: &mut Visit<'_>) {
    let of = |tree| find(tree, "spec.providerID").as_str().unwrap_or_default();
    let old = v.old.map_or("", of);
    if !old.is_empty() && old != of(v.new) {
        let why = "node updates may not change providerID except from \"\" to valid";
        v.forbidden("spec.providerID", why);
    }
}

fn scope_selector(v: &mut Visit<'_>) {
    let at = |field: &str| format!("scopeSelector.matchExpressions.{field}");
    let expressions = list(&v.get("scopeSelector")["matchExpressions"]);
    for expression in expressions {
        let (scope, operator) = (text(expression, "scopeName"), text(expression, "operator"));
        let values = list(&expression["values"]);
        let is_plain = PLAIN_SCOPES.contains(&scope);
        if !is_plain && !["PriorityClass", "VolumeAttributesClass"].contains(&scope) {
            v.invalid(&at("scopeName"), scope, "unsupported scope");
        }
        if is_plain && operator != "Exists" {
            let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            v.invalid(&at("operator"), operator, why);
        }
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                v.required(&at("values"), why);
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                v.invalid(&at("values"), values, why);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => v.invalid(&at("operator"), other, "not a valid selector operator"),
        }
    }
}

/// An update keeps the set of scopes.
fn scopes_kept(v: &mut Visit<'_>) {
    let Some(old) = v.old else {
        return;
    };
    let (new, old) = (find(v.new, "spec.scopes"), find(old, "spec.scopes"));
    let within = |some: &Value, other: &Value| list(some).iter().all(|s| list(other).contains(s));
    if !within(new, old) || !within(old, new) {
        v.invalid("spec.scopes", new, "field is immutable");
    }
}

fn webhooks(v: &mut Visit<'_>) {
    let hooks = list(v.get("webhooks"));
    for (at, hook) in hooks.iter().enumerate() {
        let name = text(hook, "name");
        if hooks[..at].iter().any(|other| text(other, "name") == name) {
            v.duplicate(&format!("webhooks[{at}].name"), name);
        }
    }
}

fn webhook(v: &mut Visit<'_>) {
    let name = text_of(v, "name");
    if name.is_empty() {
        v.required("name", "");
    } else {
        let faults = subdomain(name);
        v.invalid_all("name", name, &faults);
        if faults.is_empty() && name.split('.').count() < 3 {
            let why = "should be a domain with at least three segments separated by dots";
            v.invalid("name", name, why);
        }
    }
    let versions = v.get("admissionReviewVersions");
    if list(versions).is_empty() {
        v.required("admissionReviewVersions", "must specify one of v1, v1beta1");
    }
    let mut is_known = false;
    for (at, version) in list(versions).iter().enumerate() {
        let path = format!("admissionReviewVersions[{at}]");
        if list(versions)[..at].contains(version) {
            v.invalid(&path, version, "duplicate version");
            continue;
        }
        let version = version.as_str().unwrap_or_default();
        v.invalid_all(&path, version, &dns_1035_label(version));
        is_known |= ["v1", "v1beta1"].contains(&version);
    }
    if !is_known && !list(versions).is_empty() {
        let why = "must include at least one of v1, v1beta1";
        v.invalid("admissionReviewVersions", versions, why);
    }
    if v.get("sideEffects").is_null() {
        v.required("sideEffects", "must specify one of None, NoneOnDryRun");
    }
    let config = v.get("clientConfig");
    if config["url"].is_null() == config["service"].is_null() {
        v.required("clientConfig", "exactly one of url or service is required");
    } else if config["url"].is_null() {
        webhook_service(v, &config["service"]);
    } else {
        webhook_url(v, text(config, "url"));
    }
}

fn webhook_url(v: &mut Visit<'_>, url: &str) {
    let form = "desired format: https://host[/path]";
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    if scheme != "https" {
        let why = format!("'https' is the only allowed URL scheme; {form}");
        v.invalid("clientConfig.url", url, &why);
    }
    if rest.split('/').next().unwrap_or_default().is_empty() {
        let why = format!("host must be specified; {form}");
        v.invalid("clientConfig.url", url, &why);
    }
}

fn webhook_service(v: &mut Visit<'_>, service: &Value) {
    for field in ["name", "namespace"] {
        if text(service, field).is_empty() {
            v.required(&format!("clientConfig.service.{field}"), "");
        }
    }
    let port = service["port"].as_i64().unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        v.invalid("clientConfig.service.port", port, why);
    }
    let path = text(service, "path");
    if !path.is_empty() && !path.starts_with('/') {
        v.invalid("clientConfig.service.path", path, "must start with a '/'");
    }
}

fn webhook_rule(v: &mut Visit<'_>) {
    let operations = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    for (at, word) in list(v.get("operations")).iter().enumerate() {
        let word = word.as_str().unwrap_or_default();
        if !operations.contains(&word) {
            v.unsupported(&format!("operations[{at}]"), word, &operations);
        }
    }
    let lists = [
        ("operations", "operations"),
        ("apiGroups", "API groups"),
        ("apiVersions", "API versions"),
    ];
    for (field, what) in lists {
        let items = list(v.get(field));
        if items.is_empty() {
            v.required(field, "");
        } else if items.len() > 1 && items.iter().any(|item| item == "*") {
            let why = format!("if '*' is present, must not specify other {what}");
            v.invalid(field, items, &why);
        }
    }
    for (at, _) in list(v.get("apiVersions"))
        .iter()
        .enumerate()
        .filter(|(_, v)| *v == "")
    {
        v.required(&format!("apiVersions[{at}]"), "");
    }
    let resources = list(v.get("resources"));
    if resources.is_empty() {
        v.required("resources", "");
    }
    for (at, resource) in resources.iter().enumerate() {
        let path = format!("resources[{at}]");
        match resource.as_str().unwrap_or_default() {
            "" => v.required(&path, ""),
            "*/*" if resources.len() > 1 => {
                let why = "if '*/*' is present, must not specify other resources";
                v.invalid("resources", resources, why);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::strategy::validation::tests::found;

    #[test]
    fn events_of_the_newer_group_are_kept() {
        let event = |reason: &str| {
            json!({"metadata": {"namespace": "a"}, "involvedObject": {"namespace": "a"}, "reason": reason,
                "action": "x", "type": "Normal", "reportingComponent": "c", "reportingInstance": "i",
                "eventTime": "2024-01-01T00:00:00.000000Z"})
        };
        let changed = |version| found(version, "Event", event("b"), Some(event("a")));
        assert_eq!(
            changed("events.k8s.io/v1"),
            ["reason: Invalid value: \"b\": field is immutable"]
        );
        assert!(changed("v1").is_empty());
        assert!(found("events.k8s.io/v1", "Event", event("a"), None).is_empty());
    }

    #[test]
    fn endpoints_have_addresses_that_can_be_reached() {
        let cases = [
            (
                json!([{}]),
                "must specify `addresses` or `notReadyAddresses`",
            ),
            (
                json!([{"addresses": [{"ip": "127.0.0.1"}]}]),
                "may not be in the loopback range (127.0.0.0/8, ::1/128)",
            ),
            (
                json!([{"addresses": [{"ip": "10.1.2.3", "hostname": "A"}]}]),
                "RFC 1123 label",
            ),
        ];
        for (subsets, why) in cases {
            let causes = found("v1", "Endpoints", json!({"subsets": subsets}), None);
            assert_eq!(causes.len(), 1, "{causes:?}");
            assert!(causes[0].contains(why), "{causes:?}");
        }
    }

    #[test]
    fn ranges_of_services_are_kept() {
        let object = |cidrs: Value| json!({"spec": {"cidrs": cidrs}});
        let old = Some(object(json!(["10.0.0.0/24"])));
        let find = |cidrs, old| found("networking.k8s.io/v1", "ServiceCIDR", object(cidrs), old);
        assert!(find(json!(["10.0.0.0/24", "2001:db8::/64"]), old.clone()).is_empty());
        assert_eq!(
            find(json!(["10.1.0.0/24"]), old),
            ["spec.cidrs[0]: Invalid value: \"10.1.0.0/24\": field is immutable"]
        );
        assert_eq!(
            find(json!([]), None),
            ["spec.cidrs: Required value: at least one CIDR required"]
        );
    }
}
