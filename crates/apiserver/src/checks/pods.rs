//! Rules of Pods and Pod templates that need more than one field.
//!
//! Mirrors `ValidatePodSpec` and what it calls in `core/validation`, 1.36.

use caretaker_machinery::names::{label_value, qualified_name, subdomain};
use serde_json::{Map, Value};

use super::table::CheckFn;
use super::{Visit, formats, is_missing, list, resources, text};

pub(super) const CHECKS: &[(&str, CheckFn)] = &[
    ("pod", pod),
    ("template", template),
    ("template-volumes", template_volumes),
    ("host-ports", host_ports),
    ("host-network", host_network),
    ("dns-config", dns_config),
    ("scheduling-gates", scheduling_gates),
    ("toleration", toleration),
    ("spread", spread),
    ("label-requirement", label_requirement),
    ("node-requirement", node_requirement),
    ("node-fields", node_fields),
    ("affinity-term", affinity_term),
    ("overhead", overhead),
    ("class-overhead", class_overhead),
    ("pod-claim", pod_claim),
    ("pod-os", pod_os),
    ("seccomp", seccomp),
    ("sysctls", sysctls),
    ("supplemental-groups", share_process),
    ("empty-dir", empty_dir),
    ("downward-files", downward_files),
    ("projection", projection),
    ("hostname-override", hostname_override),
    ("host-names", host_names),
];

/// Rules of Pods that templates do not have.
fn pod(v: &mut Visit<'_>) {
    let spec = v.get("spec");
    for field in ["containers", "initContainers"] {
        for (at, container) in list(&spec[field]).iter().enumerate() {
            let image = text(container, "image");
            if image.trim() != image {
                let why = "must not have leading or trailing whitespace";
                v.invalid(&format!("spec.{field}[{at}].image"), image, why);
            }
        }
    }
    if v.old.is_some() {
        return;
    }
    if !text(spec, "nodeName").is_empty() && !list(&spec["schedulingGates"]).is_empty() {
        let why = "cannot be set until all schedulingGates have been cleared";
        v.forbidden("spec.nodeName", why);
    }
}

/// Upstream names the labels and annotations of a template without `metadata`.
fn template(v: &mut Visit<'_>) {
    let metadata = v.get("metadata");
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        v.invalid_all("labels", key, &qualified_name(key));
        let value = value.as_str().unwrap_or_default();
        v.invalid_all("labels", value, &label_value(value));
    }
    let annotations = metadata["annotations"].as_object();
    for key in annotations.into_iter().flat_map(Map::keys) {
        v.invalid_all("annotations", key, &qualified_name(&key.to_lowercase()));
    }
    v.each("spec");
    if !list(&v.get("spec")["ephemeralContainers"]).is_empty() {
        let why = "ephemeral containers not allowed in pod template";
        v.forbidden("spec.ephemeralContainers", why);
    }
}

/// The controller of a StatefulSet replaces volumes that have the name of a claim.
fn template_volumes(v: &mut Visit<'_>) {
    v.each_unique("volumes", "name");
}

/// A port of the node is used once.
fn host_ports(v: &mut Visit<'_>) {
    let mut seen: Vec<String> = Vec::new();
    for (at, container) in list(v.get("containers")).iter().enumerate() {
        for (number, port) in list(&container["ports"]).iter().enumerate() {
            let Some(host) = port["hostPort"].as_i64().filter(|port| *port != 0) else {
                continue;
            };
            let shown = format!("{}/{}/{host}", text(port, "protocol"), text(port, "hostIP"));
            if seen.contains(&shown) {
                let path = format!("containers[{at}].ports[{number}].hostPort");
                v.duplicate(&path, &shown);
            }
            seen.push(shown);
        }
    }
}

/// On the network of the node, a container has the ports of the node.
fn host_network(v: &mut Visit<'_>) {
    if v.get("hostNetwork") != true {
        return;
    }
    let is_pod = v.parent("PodTemplateSpec").is_none();
    for (at, container) in list(v.get("containers")).iter().enumerate() {
        for (number, port) in list(&container["ports"]).iter().enumerate() {
            let of = |field: &str| port[field].as_i64().unwrap_or(0);
            let (host, own) = (of("hostPort"), of("containerPort"));
            if (is_pod || host != 0) && host != own {
                let path = format!("containers[{at}].ports[{number}].hostPort");
                let why = "must match `containerPort` when `hostNetwork` is true";
                v.invalid(&path, host, why);
            }
        }
    }
}

fn dns_config(v: &mut Visit<'_>) {
    let config = v.get("dnsConfig");
    let servers = list(&config["nameservers"]);
    if v.get("dnsPolicy") == "None" {
        if config.is_null() {
            let why = "must provide `dnsConfig` when `dnsPolicy` is None";
            return v.required("dnsConfig", why);
        }
        if servers.is_empty() {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return v.required("dnsConfig.nameservers", why);
        }
    }
    if servers.len() > 3 {
        let why = "must not have more than 3 nameservers";
        v.invalid("dnsConfig.nameservers", servers, why);
    }
    for (at, server) in servers.iter().enumerate() {
        let server = server.as_str().unwrap_or_default();
        let path = format!("dnsConfig.nameservers[{at}]");
        v.invalid_all(&path, server, &formats::ip(server));
    }
    let searches = list(&config["searches"]);
    if searches.len() > 32 {
        let why = "must not have more than 32 search paths";
        v.invalid("dnsConfig.searches", searches, why);
    }
    for (at, search) in searches.iter().enumerate() {
        let search = search.as_str().unwrap_or_default();
        let name = search.strip_suffix('.').unwrap_or(search);
        if search != "." {
            let path = format!("dnsConfig.searches[{at}]");
            v.invalid_all(&path, name, &formats::search(name));
        }
    }
    for (at, option) in list(&config["options"]).iter().enumerate() {
        if text(option, "name").is_empty() {
            v.required(&format!("dnsConfig.options[{at}]"), "must not be empty");
        }
    }
}

fn scheduling_gates(v: &mut Visit<'_>) {
    let gates = list(v.get("schedulingGates"));
    for (at, gate) in gates.iter().enumerate() {
        let (name, path) = (text(gate, "name"), format!("schedulingGates[{at}]"));
        v.invalid_all(&path, name, &qualified_name(name));
        if gates[..at].iter().any(|other| text(other, "name") == name) {
            v.duplicate(&path, name);
        }
    }
}

fn toleration(v: &mut Visit<'_>) {
    let of = |field: &str| v.get(field).as_str().unwrap_or_default();
    let (key, operator, value, effect) = (of("key"), of("operator"), of("value"), of("effect"));
    if !key.is_empty() {
        v.invalid_all("key", key, &qualified_name(key));
    } else if operator != "Exists" {
        let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        v.invalid("operator", operator, why);
    }
    if !v.get("tolerationSeconds").is_null() && effect != "NoExecute" {
        let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        v.invalid("effect", effect, why);
    }
    match operator {
        "" | "Equal" => {
            let faults = label_value(value);
            if !faults.is_empty() {
                v.invalid("operator", value, &faults.join(";"));
            }
        }
        "Exists" => {
            if !value.is_empty() {
                let why = "value must be empty when `operator` is 'Exists'";
                v.invalid("operator", value, why);
            }
        }
        "Lt" | "Gt" => v.unsupported("operator", operator, &["Equal", "Exists", "Lt", "Gt"]),
        other => v.unsupported("operator", other, &["Equal", "Exists"]),
    }
    let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    if !effect.is_empty() && !effects.contains(&effect) {
        v.unsupported("effect", effect, &effects);
    }
}

/// A pair of topology key and action occurs once, and few domains only matter where Pods wait.
fn spread(v: &mut Visit<'_>) {
    let of = |field: &str| v.get(field).as_str().unwrap_or_default();
    let (key, action) = (of("topologyKey"), of("whenUnsatisfiable"));
    let all = v
        .parent("PodSpec")
        .and_then(|spec| spec.get("topologySpreadConstraints"));
    let same = |other: &&Value| {
        text(other, "topologyKey") == key && text(other, "whenUnsatisfiable") == action
    };
    let all = all.map(list).unwrap_or_default();
    let own = all
        .iter()
        .position(|other| other.as_object() == Some(v.here()));
    let later = all.iter().skip(own.map_or(0, |own| own + 1));
    if later.filter(same).count() > 0 {
        v.duplicate(
            "{topologyKey, whenUnsatisfiable}",
            &format!("{{{key}, {action}}}"),
        );
    }
    if let Some(domains) = v.get("minDomains").as_i64() {
        if domains <= 0 {
            v.invalid("minDomains", domains, "must be greater than 0");
        }
        if action != "DoNotSchedule" {
            let why =
                format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
            v.invalid("minDomains", domains, &why);
        }
    }
}

fn label_requirement(v: &mut Visit<'_>) {
    requirement(v, &["In", "NotIn"], &["Exists", "DoesNotExist"], false);
}

fn node_requirement(v: &mut Visit<'_>) {
    requirement(v, &["In", "NotIn"], &["Exists", "DoesNotExist"], true);
}

/// A label and the values that it may have. Operators of Nodes also compare.
fn requirement(v: &mut Visit<'_>, listed: &[&str], bare: &[&str], compares: bool) {
    let (operator, values) = (v.get("operator"), list(v.get("values")));
    let operator = operator.as_str().unwrap_or_default();
    if listed.contains(&operator) {
        if values.is_empty() {
            let why = "must be specified when `operator` is 'In' or 'NotIn'";
            v.required("values", why);
        }
    } else if bare.contains(&operator) {
        if !values.is_empty() {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            v.forbidden("values", why);
        }
    } else if compares && ["Gt", "Lt"].contains(&operator) {
        if values.len() != 1 {
            let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            v.required("values", why);
        }
    } else {
        v.invalid("operator", operator, "not a valid selector operator");
    }
    let key = v.get("key").as_str().unwrap_or_default();
    v.invalid_all("key", key, &qualified_name(key));
    // Preferred terms may have any values.
    if compares && v.parent("PreferredSchedulingTerm").is_some() {
        return;
    }
    for (at, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        v.invalid_all(&format!("values[{at}]"), value, &label_value(value));
    }
}

/// The only field of Nodes that terms may select by is the name.
fn node_fields(v: &mut Visit<'_>) {
    for (at, field) in list(v.get("matchFields")).iter().enumerate() {
        let (operator, values) = (text(field, "operator"), list(&field["values"]));
        if !["In", "NotIn"].contains(&operator) {
            let path = format!("matchFields[{at}].operator");
            v.invalid(&path, operator, "not a valid selector operator");
        } else if values.len() != 1 {
            let path = format!("matchFields[{at}].values");
            let why =
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            v.required(&path, why);
        }
        let key = text(field, "key");
        if key != "metadata.name" {
            let path = format!("matchFields[{at}].key");
            v.invalid(&path, key, "not a valid field selector key");
            continue;
        }
        for (number, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            let path = format!("matchFields[{at}].values[{number}]");
            v.invalid_all(&path, value, &subdomain(value));
        }
    }
}

fn affinity_term(v: &mut Visit<'_>) {
    for name in list(v.get("namespaces")) {
        let name = name.as_str().unwrap_or_default();
        v.invalid_all("namespace", name, &caretaker_machinery::names::label(name));
    }
    let key = v.get("topologyKey").as_str().unwrap_or_default();
    if key.is_empty() {
        v.required("topologyKey", "can not be empty");
    }
    v.invalid_all("topologyKey", key, &qualified_name(key));
}

fn overhead(v: &mut Visit<'_>) {
    resources::limits(v, "overhead.limits", v.get("overhead"));
}

/// A claim of a Pod is named, or made from a template.
fn pod_claim(v: &mut Visit<'_>) {
    let has = |field: &str| !v.get(field).is_null();
    match (has("resourceClaimName"), has("resourceClaimTemplateName")) {
        (true, true) => {
            let why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
            v.invalid_struct("", why);
        }
        (false, false) => {
            let why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
            v.invalid_struct("", why);
        }
        _ => {}
    }
}

fn class_overhead(v: &mut Visit<'_>) {
    resources::limits(v, "limits", v.get("podFixed"));
}

fn pod_os(v: &mut Visit<'_>) {
    let os = v.get("os");
    if os.is_null() {
        return;
    }
    match text(os, "name") {
        "" => v.required("os.name", ""),
        "linux" | "windows" => {}
        other => v.unsupported("os", other, &["linux", "windows"]),
    }
}

fn seccomp(v: &mut Visit<'_>) {
    let profile = v.get("localhostProfile");
    match (v.get("type") == "Localhost", profile.as_str()) {
        (true, None) => {
            let why = "must be set when seccomp type is Localhost";
            v.required("localhostProfile", why);
        }
        (true, Some(path)) => {
            v.invalid_all("localhostProfile", path, &formats::relative_path(path));
        }
        (false, Some(_)) => {
            let why = "can only be set when seccomp type is Localhost";
            let shown = v.shown("");
            let message = format!("Invalid value: {shown}: {why}");
            v.push("FieldValueInvalid", "localhostProfile", message);
        }
        (false, None) => {}
    }
}

const SYSCTL: &str = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

fn sysctls(v: &mut Visit<'_>) {
    let known = |name: &str| {
        let is_end = |byte: Option<&u8>| {
            byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        let is_part = |part: &str| {
            let bytes = part.as_bytes();
            is_end(bytes.first())
                && is_end(bytes.last())
                && bytes
                    .iter()
                    .all(|byte| is_end(Some(byte)) || b"-_".contains(byte))
        };
        name.len() <= 253 && name.split(['.', '/']).all(is_part)
    };
    let settings = list(v.get("sysctls"));
    for (at, setting) in settings.iter().enumerate() {
        let (name, path) = (text(setting, "name"), format!("sysctls[{at}].name"));
        if name.is_empty() {
            v.required(&path, "");
        } else if !known(name) {
            v.invalid(&path, name, SYSCTL);
        } else if settings[..at]
            .iter()
            .any(|other| text(other, "name") == name)
        {
            v.duplicate(&path, name);
        }
    }
}

fn share_process(v: &mut Visit<'_>) {
    if v.get("shareProcessNamespace") == true && v.get("hostPID") == true {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        v.invalid("securityContext.shareProcessNamespace", true, why);
    }
}

fn empty_dir(v: &mut Visit<'_>) {
    let limit = v.get("sizeLimit").as_str().unwrap_or_default();
    if limit.starts_with('-') {
        let why = "SizeLimit field must be a valid resource quantity";
        v.forbidden("sizeLimit", why);
    }
}

/// Upstream leaves out the index of a file in the paths of its causes.
fn downward_files(v: &mut Visit<'_>) {
    for file in list(v.get("items")) {
        let path = text(file, "path");
        if path.is_empty() {
            v.required("path", "");
        }
        let has = |field: &str| !file[field].is_null();
        match (has("fieldRef"), has("resourceFieldRef")) {
            (true, true) => {
                let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
                v.invalid("", "resource", why);
            }
            (false, false) => {
                v.required("", "one of fieldRef and resourceFieldRef is required");
            }
            _ => {}
        }
    }
}

fn projection(v: &mut Visit<'_>) {
    let sources = v.here().iter().filter(|(_, value)| !is_missing(value));
    match sources.count() {
        0 | 1 => {}
        _ => v.forbidden("", "may not specify more than 1 volume type"),
    }
}

/// The controller of a StatefulSet sets both, so its template may have any.
fn host_names(v: &mut Visit<'_>) {
    for field in ["hostname", "subdomain"] {
        let name = v.get(field).as_str().unwrap_or_default();
        if !name.is_empty() && v.parent("StatefulSetSpec").is_none() {
            v.invalid_all(field, name, &caretaker_machinery::names::label(name));
        }
    }
}

fn hostname_override(v: &mut Visit<'_>) {
    let field = "hostnameOverride";
    let Some(name) = v.get(field).as_str() else {
        return;
    };
    if v.get("setHostnameAsFQDN") == true {
        let why = "may not be specified when setHostnameAsFQDN is true";
        v.forbidden(field, why);
    }
    if v.get("hostNetwork") == true {
        let why = "may not be specified when hostNetwork is true";
        v.forbidden(field, why);
    }
    if name.len() > 64 {
        v.too_long(field, 64);
    }
    v.invalid_all(field, name, &subdomain(name));
}
