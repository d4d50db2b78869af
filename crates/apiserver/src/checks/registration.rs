//! Rules of APIServices and of the bindings of admission policies that need more than one field.
//!
//! Mirrors `apiregistration/validation` and `admissionregistration/validation`, 1.36.

use caretaker_machinery::names::{NameRule, dns_1035_label, subdomain};

use super::table::CheckFn;
use super::{Visit, find, list};

pub(super) const CHECKS: &[(&str, CheckFn)] = &[
    ("api-service-name", api_service_name),
    ("api-service", api_service),
    ("policy-actions", policy_actions),
    ("policy-param", policy_param),
];

/// The name of an APIService follows from its spec.
fn api_service_name(v: &mut Visit<'_>) {
    let part = |path: &str| find(v.new, path).as_str().unwrap_or_default();
    let expected = format!("{}.{}", part("spec.version"), part("spec.group"));
    for field in ["metadata.name", "metadata.generateName"] {
        let name = find(v.new, field).as_str().unwrap_or_default();
        let is_good = NameRule::PathSegment.faults(name).is_empty();
        if !name.is_empty() && is_good && name != expected {
            let why = format!("must be `spec.version+\".\"+spec.group`: {expected:?}");
            v.invalid(field, name, &why);
        }
    }
}

fn api_service(v: &mut Visit<'_>) {
    let text = |field: &str| v.get(field).as_str().unwrap_or_default();
    let (group, version) = (text("group"), text("version"));
    match group {
        "" if version != "v1" => {
            let why = "only v1 may have an empty group and it better be legacy kube";
            v.required("group", why);
        }
        "" => {}
        group => v.invalid_all("group", group, &subdomain(group)),
    }
    v.invalid_all("version", version, &dns_1035_label(version));
    for (field, max) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1_000)] {
        let number = v.get(field).as_i64().unwrap_or(0);
        if !(1..=max).contains(&number) {
            let why = format!("must be positive and less than {max}");
            v.invalid(field, number, &why);
        }
    }
    let bundle = v.get("caBundle").as_str().unwrap_or_default();
    let (has_bundle, is_insecure) = (!bundle.is_empty(), v.get("insecureSkipTLSVerify") == true);
    if v.get("service").is_null() {
        if has_bundle {
            let shown = format!("{} bytes", decoded_len(bundle));
            v.invalid(
                "caBundle",
                shown,
                "local APIServices may not have a caBundle",
            );
        }
        if is_insecure {
            let why = "local APIServices may not have insecureSkipTLSVerify";
            v.invalid("insecureSkipTLSVerify", true, why);
        }
        return;
    }
    service(v);
    if is_insecure && has_bundle {
        let why = "may not be true if caBundle is present";
        v.invalid("insecureSkipTLSVerify", true, why);
    }
}

fn service(v: &mut Visit<'_>) {
    let service = v.get("service");
    for field in ["namespace", "name"] {
        if super::text(service, field).is_empty() {
            v.required(&format!("service.{field}"), "");
        }
    }
    let port = service["port"].as_i64().unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        v.invalid("service.port", port, why);
    }
}

/// Returns how many bytes a text in base64 stands for.
fn decoded_len(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    text.len() / 4 * 3 - padding.min(2)
}

/// What happens to a request that violates a policy.
fn policy_actions(v: &mut Visit<'_>) {
    let known = ["Audit", "Deny", "Warn"];
    let actions = list(v.get("validationActions"));
    if actions.is_empty() {
        let why = "at least one validation action is required";
        return v.required("validationActions", why);
    }
    for (at, action) in actions.iter().enumerate() {
        let (path, word) = (
            format!("validationActions[{at}]"),
            action.as_str().unwrap_or_default(),
        );
        if !known.contains(&word) {
            v.unsupported(&path, word, &known);
        }
        if actions[..at].contains(action) {
            v.duplicate(&path, word);
        }
    }
    let has = |word: &str| actions.iter().any(|action| action == word);
    if has("Deny") && has("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        v.invalid("validationActions", actions, why);
    }
}

/// Parameters are named, or selected by their labels.
fn policy_param(v: &mut Visit<'_>) {
    let name = v.get("name").as_str().unwrap_or_default();
    let has_selector = !v.get("selector").is_null();
    v.invalid_all("name", name, &NameRule::PathSegment.faults(name));
    match (name.is_empty(), has_selector) {
        (true, false) => v.required("", "one of name or selector must be specified"),
        (false, true) => {
            let why = "name and selector are mutually exclusive";
            v.forbidden("name", why);
            v.forbidden("selector", why);
        }
        _ => {}
    }
    v.each("selector");
    match v.get("parameterNotFoundAction").as_str() {
        None => v.required("parameterNotFoundAction", ""),
        Some(word) if !["Deny", "Allow"].contains(&word) => {
            v.unsupported("parameterNotFoundAction", word, &["Deny", "Allow"]);
        }
        Some(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::strategy::validation::tests::found;

    #[test]
    fn api_services_are_called_after_their_version() {
        let service = |name: &str| {
            json!({"metadata": {"name": name}, "spec": {"group": "g.io", "version": "v1",
                "groupPriorityMinimum": 5, "versionPriority": 5, "caBundle": "YWI="}})
        };
        let find = |name| {
            found(
                "apiregistration.k8s.io/v1",
                "APIService",
                service(name),
                None,
            )
        };
        let local =
            "spec.caBundle: Invalid value: \"2 bytes\": local APIServices may not have a caBundle";
        assert_eq!(find("v1.g.io"), [local]);
        let named = "metadata.name: Invalid value: \"a\": must be `spec.version+\".\"+spec.group`: \"v1.g.io\"";
        assert_eq!(find("a"), [named, local]);
    }

    #[test]
    fn bindings_deny_or_warn() {
        let binding = |actions: serde_json::Value| json!({"metadata": {"name": "a"}, "spec": {"policyName": "p", "validationActions": actions}});
        let find = |actions| {
            let kind = "ValidatingAdmissionPolicyBinding";
            found(
                "admissionregistration.k8s.io/v1",
                kind,
                binding(actions),
                None,
            )
            .len()
        };
        assert_eq!(find(json!(["Deny", "Audit"])), 0);
        assert_eq!(find(json!(["Deny", "Warn"])), 1);
        assert_eq!(find(json!([])), 1);
        assert_eq!(find(json!(["X", "X"])), 3);
    }
}
