//! Cells of bindings, Ingresses, network policies, budgets, quotas, autoscalers, certificate requests and endpoint slices.
//! Mirrors the printer of kube-apiserver 1.36.

use serde_json::Value;

use super::cells::{self, NONE, items, text};
use super::services;

/// Most hosts, ports and endpoints that are listed; the rest is counted.
const LISTED_MAX: usize = 3;
/// Most metrics of an autoscaler that are listed.
const METRICS_MAX: usize = 2;
const UNKNOWN: &str = "<unknown>";

/// The role of a binding.
pub(super) fn role(binding: &Value) -> Value {
    let role = &binding["roleRef"];
    format!("{}/{}", text(&role["kind"]), text(&role["name"])).into()
}

/// The users of a binding.
pub(super) fn users(binding: &Value) -> Value {
    subjects(binding, "User")
}

/// The groups of a binding.
pub(super) fn groups(binding: &Value) -> Value {
    subjects(binding, "Group")
}

/// The ServiceAccounts of a binding with their namespaces.
pub(super) fn accounts(binding: &Value) -> Value {
    subjects(binding, "ServiceAccount")
}

fn subjects(binding: &Value, kind: &str) -> Value {
    let named = items(&binding["subjects"]).filter(|subject| subject["kind"] == kind);
    let names: Vec<String> = named
        .map(|subject| match (kind, text(&subject["name"])) {
            ("ServiceAccount", name) => format!("{}/{name}", text(&subject["namespace"])),
            (_, name) => name.to_owned(),
        })
        .collect();
    names.join(", ").into()
}

/// The hosts of an Ingress.
pub(super) fn hosts(ingress: &Value) -> Value {
    let hosts = items(&ingress["spec"]["rules"]).map(|rule| text(&rule["host"]));
    let hosts: Vec<String> = hosts
        .filter(|host| !host.is_empty())
        .map(str::to_owned)
        .collect();
    match hosts.is_empty() {
        true => "*".into(),
        false => with_more(&hosts, LISTED_MAX, ",").into(),
    }
}

/// The addresses of an Ingress.
pub(super) fn addresses(ingress: &Value) -> Value {
    services::balancers(ingress).join(",").into()
}

/// The ports of an Ingress.
pub(super) fn ingress_ports(ingress: &Value) -> Value {
    match items(&ingress["spec"]["tls"]).next() {
        Some(_) => "80, 443".into(),
        None => "80".into(),
    }
}

/// A number of Pods or a percentage in the spec of a budget.
pub(super) fn share(budget: &Value, field: &str) -> Value {
    match &budget["spec"][field] {
        Value::Null => "N/A".into(),
        Value::String(text) => text.as_str().into(),
        number => number.to_string().into(),
    }
}

/// The used and allowed amounts of a quota: those of limits, or the others.
pub(super) fn amounts(quota: &Value, of_limits: bool) -> Value {
    let hard = quota["status"]["hard"].as_object().into_iter().flatten();
    let mut rows: Vec<(&String, &Value)> = hard
        .filter(|(name, _)| name.starts_with("limits.") == of_limits)
        .collect();
    rows.sort_unstable_by_key(|(name, _)| *name);
    let used = |name: &str| match text(&quota["status"]["used"][name]) {
        "" => "0",
        used => used,
    };
    let rows: Vec<String> = rows
        .into_iter()
        .map(|(name, hard)| format!("{name}: {}/{}", used(name), text(hard)))
        .collect();
    rows.join(", ").into()
}

/// The target of an autoscaler.
pub(super) fn reference(scaler: &Value) -> Value {
    let target = &scaler["spec"]["scaleTargetRef"];
    format!("{}/{}", text(&target["kind"]), text(&target["name"])).into()
}

/// The fewest Pods of an autoscaler.
pub(super) fn fewest(scaler: &Value) -> Value {
    match &scaler["spec"]["minReplicas"] {
        Value::Null => "<unset>".into(),
        number => number.to_string().into(),
    }
}

/// Current and wanted values of the metrics of an autoscaler.
pub(super) fn metrics(scaler: &Value) -> Value {
    let current = &scaler["status"]["currentMetrics"];
    let specs = items(&scaler["spec"]["metrics"]).enumerate();
    let all: Vec<String> = specs.map(|(at, spec)| metric(spec, &current[at])).collect();
    match all.is_empty() {
        true => NONE.into(),
        false => with_more(&all, METRICS_MAX, ", ").into(),
    }
}

/// One metric: `cpu: 50%/80%`.
fn metric(spec: &Value, status: &Value) -> String {
    let (member, has_name) = match text(&spec["type"]) {
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "External" => ("external", false),
        _ => return "<unknown type>".into(),
    };
    let (target, current) = (&spec[member]["target"], &status[member]["current"]);
    let amount = |of: &Value, field: &str| match text(&of[field]) {
        "" => UNKNOWN.to_owned(),
        amount => amount.to_owned(),
    };
    let percent = |of: &Value, absent: &str| match of["averageUtilization"].as_i64() {
        Some(percent) => format!("{percent}%"),
        None => absent.to_owned(),
    };
    let is_average = target["averageValue"].is_string();
    match (has_name, member) {
        (true, _) => {
            let name = text(&spec[member]["name"]);
            match is_average {
                true => format!(
                    "{name}: {}/{}",
                    amount(current, "averageValue"),
                    amount(target, "averageValue")
                ),
                false => format!(
                    "{name}: {}/{}",
                    percent(current, UNKNOWN),
                    percent(target, "<auto>")
                ),
            }
        }
        (false, "pods") => format!(
            "{}/{}",
            amount(current, "averageValue"),
            amount(target, "averageValue")
        ),
        (false, _) if is_average => format!(
            "{}/{} (avg)",
            amount(current, "averageValue"),
            amount(target, "averageValue")
        ),
        (false, _) => format!("{}/{}", amount(current, "value"), amount(target, "value")),
    }
}

/// The decision about a certificate request.
pub(super) fn decision(request: &Value) -> Value {
    let status = &request["status"];
    let has = |kind: &str| items(&status["conditions"]).any(|one| one["type"] == kind);
    let mut decision = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        decision.push_str(",Failed");
    }
    if !text(&status["certificate"]).is_empty() {
        decision.push_str(",Issued");
    }
    decision.into()
}

/// The duration that a certificate request asks for.
pub(super) fn requested_duration(request: &Value) -> Value {
    match request["spec"]["expirationSeconds"].as_i64() {
        Some(seconds) => cells::human(seconds).into(),
        None => NONE.into(),
    }
}

/// The ports of an endpoint slice.
pub(super) fn slice_ports(slice: &Value) -> Value {
    let port = |port: &Value| match (&port["port"], &port["name"]) {
        (Value::Number(number), _) => number.to_string(),
        (_, Value::String(name)) => name.clone(),
        _ => "*".to_owned(),
    };
    let ports: Vec<String> = items(&slice["ports"]).map(port).collect();
    listed(&ports)
}

/// The addresses of an endpoint slice.
pub(super) fn slice_endpoints(slice: &Value) -> Value {
    let addresses = items(&slice["endpoints"]).flat_map(|endpoint| items(&endpoint["addresses"]));
    let addresses: Vec<String> = addresses.map(|address| text(address).to_owned()).collect();
    listed(&addresses)
}

/// The number of items of a list.
pub(super) fn count(of: &Value, field: &str) -> Value {
    items(&of[field]).count().into()
}

fn listed(texts: &[String]) -> Value {
    match texts.is_empty() {
        true => "<unset>".into(),
        false => with_more(texts, LISTED_MAX, ",").into(),
    }
}

/// The first texts, and the number of further ones.
fn with_more(texts: &[String], most: usize, separator: &str) -> String {
    let shown = texts[..texts.len().min(most)].join(separator);
    match texts.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn subjects_are_listed_by_kind() {
        let binding = json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [
            {"kind": "User", "name": "a"}, {"kind": "User", "name": "b"}, {"kind": "Group", "name": "g"},
            {"kind": "ServiceAccount", "name": "s", "namespace": "n"}, {"kind": "ServiceAccount", "name": "t"}]});
        assert_eq!(role(&binding), "Role/r");
        assert_eq!(users(&binding), "a, b");
        assert_eq!(groups(&binding), "g");
        assert_eq!(accounts(&binding), "n/s, /t");
        assert_eq!(users(&json!({})), "");
    }

    #[test]
    fn cells_of_ingresses() {
        let rules = |names: &[&str]| {
            let rules: Vec<Value> = names.iter().map(|name| json!({"host": name})).collect();
            json!({"spec": {"rules": rules}})
        };
        for (names, cell) in [
            (&[][..], "*"),
            (&[""], "*"),
            (&["a", "b", "c"], "a,b,c"),
            (&["a", "b", "c", "d"], "a,b,c + 1 more..."),
        ] {
            assert_eq!(hosts(&rules(names)), cell, "{names:?}");
        }
        let at = |points: Value| json!({"status": {"loadBalancer": {"ingress": points}}});
        assert_eq!(
            addresses(&at(json!([{"ip": "2.2.2.2"}, {"hostname": "b"}]))),
            "2.2.2.2,b"
        );
        assert_eq!(ingress_ports(&json!({"spec": {"tls": [{}]}})), "80, 443");
        assert_eq!(ingress_ports(&json!({})), "80");
    }

    #[test]
    fn amounts_of_limits_have_a_column_of_their_own() {
        let quota = json!({"status": {"hard": {"pods": "2", "limits.cpu": "4", "configmaps": "9"}, "used": {"pods": "1"}}});
        assert_eq!(amounts(&quota, false), "configmaps: 0/9, pods: 1/2");
        assert_eq!(amounts(&quota, true), "limits.cpu: 0/4");
        let budget = json!({"spec": {"minAvailable": "50%", "other": 3}});
        assert_eq!(share(&budget, "minAvailable"), "50%");
        assert_eq!(share(&budget, "other"), "3");
        assert_eq!(share(&budget, "maxUnavailable"), "N/A");
    }

    #[test]
    fn metrics_show_current_and_wanted_values() {
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}});
        let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": {"averageValue": "1Gi"}}});
        let pods = json!({"type": "Pods", "pods": {"target": {"averageValue": "5"}}});
        let object = json!({"type": "Object", "object": {"target": {"value": "7"}}});
        let external = json!({"type": "External", "external": {"target": {"averageValue": "9"}}});
        let table = [
            (json!([]), json!([]), "<none>"),
            (json!([cpu]), json!([]), "cpu: <unknown>/80%"),
            (
                json!([cpu]),
                json!([{"resource": {"current": {"averageUtilization": 40}}}]),
                "cpu: 40%/80%",
            ),
            (
                json!([memory, pods]),
                json!([]),
                "memory: <unknown>/1Gi, <unknown>/5",
            ),
            (
                json!([object, external, cpu]),
                json!([{"object": {"current": {"value": "3"}}}]),
                "3/7, <unknown>/9 (avg) + 1 more...",
            ),
            (json!([{"type": "Other"}]), json!([]), "<unknown type>"),
        ];
        for (wanted, current, cell) in table {
            let scaler =
                json!({"spec": {"metrics": wanted}, "status": {"currentMetrics": current}});
            assert_eq!(metrics(&scaler), cell);
        }
        assert_eq!(fewest(&json!({})), "<unset>");
        assert_eq!(fewest(&json!({"spec": {"minReplicas": 2}})), "2");
    }

    #[test]
    fn decisions_about_certificates_follow_from_conditions() {
        let request = |kinds: &[&str], certificate: &str| {
            let conditions: Vec<Value> = kinds.iter().map(|kind| json!({"type": kind})).collect();
            json!({"status": {"conditions": conditions, "certificate": certificate}})
        };
        for (kinds, certificate, cell) in [
            (&[][..], "", "Pending"),
            (&["Approved"], "", "Approved"),
            (&["Approved"], "YQ==", "Approved,Issued"),
            (&["Approved", "Denied"], "", "Denied"),
            (&["Approved", "Failed"], "", "Approved,Failed"),
        ] {
            assert_eq!(decision(&request(kinds, certificate)), cell);
        }
        let lasting = json!({"spec": {"expirationSeconds": 3600}});
        assert_eq!(requested_duration(&lasting), "60m");
        assert_eq!(requested_duration(&json!({})), "<none>");
    }

    #[test]
    fn slices_list_three_ports_and_addresses() {
        let slice = json!({"ports": [{"port": 80}, {"name": "web"}, {}],
            "endpoints": [{"addresses": ["1", "2"]}, {"addresses": ["3", "4"]}]});
        assert_eq!(slice_ports(&slice), "80,web,*");
        assert_eq!(slice_endpoints(&slice), "1,2,3 + 1 more...");
        assert_eq!(slice_ports(&json!({})), "<unset>");
        assert_eq!(count(&slice, "ports"), 3);
    }
}
