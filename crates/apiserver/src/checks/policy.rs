//! Rules of autoscalers, disruption budgets, RBAC, quotas, limits, Nodes and Leases that need more than one field.
//!
//! Mirrors the validation of `autoscaling`, `policy`, `rbac`, `coordination` and parts of `core`, 1.36.

use caretaker_machinery::names::{qualified_name, subdomain};
use caretaker_machinery::quantity::Quantity;
use serde_json::Value;

use super::resources::{self, parse};
use super::table::CheckFn;
use super::workloads::{at_most_all, count_or_percent, is_usable};
use super::{Visit, list, text};

pub(super) const CHECKS: &[(&str, CheckFn)] = &[
    ("scaler", scaler),
    ("scaler-metrics", scaler_metrics),
    ("scale-target", scale_target),
    ("metric", metric),
    ("metric-target", metric_target),
    ("metric-resource", metric_resource),
    ("budget", budget),
    ("policy-rule", policy_rule),
    ("role-ref", role_ref),
    ("subject", subject),
    ("aggregation", aggregation),
    ("taints", taints),
    ("quota", quota),
    ("limit-item", limit_item),
    ("limit-types", limit_types),
    ("pod-cidr", pod_cidr),
    ("limit-type", limit_type),
    ("secret-type", secret_type),
    ("quota-scopes", quota_scopes),
];

const RBAC: &str = "rbac.authorization.k8s.io";
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
const SOURCE_TYPES: [&str; 5] = [
    "ContainerResource",
    "External",
    "Object",
    "Pods",
    "Resource",
];

fn scaler(v: &mut Visit<'_>) {
    let (min, max) = (v.get("minReplicas").as_i64(), v.get("maxReplicas").as_i64());
    let max = max.unwrap_or(0);
    if let Some(min) = min.filter(|min| *min < 1) {
        let why = "must be greater than or equal to 1";
        v.invalid("minReplicas", min, why);
    }
    if max == 0 {
        v.required("maxReplicas", "must be set and greater than 0");
    } else if max < 0 {
        v.invalid("maxReplicas", max, "must be greater than or equal to 1");
    }
    if min.is_some_and(|min| max < min) {
        let why = "must be greater than or equal to `minReplicas`";
        v.invalid("maxReplicas", max, why);
    }
}

/// Nothing measures Pods that do not run, so scaling from zero needs other metrics.
fn scaler_metrics(v: &mut Visit<'_>) {
    let metrics = list(v.get("metrics"));
    let is_outer = |metric: &Value| ["Object", "External"].contains(&text(metric, "type"));
    if v.get("minReplicas") == 0 && !metrics.iter().any(is_outer) {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        v.forbidden("metrics", why);
    }
}

/// The target of a scaler is in a named group.
fn scale_target(v: &mut Visit<'_>) {
    let version = text(v.get("scaleTargetRef"), "apiVersion");
    let field = "scaleTargetRef.apiVersion";
    match version.split('/').count() {
        2 => {}
        1 => v.invalid(field, version, "apiVersion must specify API group"),
        _ => {
            let why = format!("unexpected GroupVersion string: {version}");
            v.invalid(field, version, &why);
        }
    }
}

fn metric(v: &mut Visit<'_>) {
    let kind = v.get("type").as_str().unwrap_or_default();
    if kind.is_empty() {
        v.required("type", "must specify a metric source type");
    }
    if !SOURCE_TYPES.contains(&kind) {
        v.unsupported("type", kind, &SOURCE_TYPES);
    }
    let present = SOURCES.iter().map(|(_, field)| *field);
    let mut present: Vec<&str> = present
        .filter(|field| v.here().contains_key(*field))
        .collect();
    if let Some((_, first)) = SOURCES
        .iter()
        .find(|(_, field)| v.here().contains_key(*field))
    {
        v.each(first);
    }
    let count = present.len();
    match SOURCES.iter().find(|(name, _)| *name == kind) {
        Some((_, field)) => {
            if !present.contains(field) {
                let why = "must populate information for the given metric source";
                v.required(field, why);
            }
            present.retain(|other| other != field);
        }
        None => v.unsupported("type", kind, &SOURCE_TYPES),
    }
    if count != 1 {
        for field in present {
            v.forbidden(field, "must populate the given metric source only");
        }
    }
}

/// The target of a source, and the values that each source needs.
fn metric_target(v: &mut Visit<'_>) {
    let target = v.get("target");
    let kind = text(target, "type");
    if kind.is_empty() {
        v.required("target.type", "must specify a metric target type");
    }
    if !["Utilization", "Value", "AverageValue"].contains(&kind) {
        let why = "must be either Utilization, Value, or AverageValue";
        v.invalid("target.type", kind, why);
    }
    for field in ["value", "averageValue"] {
        let amount = text(target, field);
        if target.get(field).is_some() && (amount == "0" || amount.starts_with('-')) {
            v.invalid(&format!("target.{field}"), amount, "must be positive");
        }
    }
    if let Some(percent) = target["averageUtilization"].as_i64().filter(|n| *n < 1) {
        let why = "must be greater than 0";
        v.invalid("target.averageUtilization", percent, why);
    }
    let has = |field: &str| !target[field].is_null();
    let (value, average) = (has("value"), has("averageValue"));
    match v.own_type() {
        "ObjectMetricSource" if !value && !average => {
            let why = "must set either a target value or averageValue";
            v.required("target.averageValue", why);
        }
        "ExternalMetricSource" if !value && !average => {
            let why = "must set either a target value for metric or a per-pod target";
            v.required("target.averageValue", why);
        }
        "ExternalMetricSource" if value && average => {
            let why = "may not set both a target value for metric and a per-pod target";
            v.forbidden("target.value", why);
        }
        "PodsMetricSource" if !average => {
            let why = "must specify a positive target averageValue";
            v.required("target.averageValue", why);
        }
        "ResourceMetricSource" | "ContainerResourceMetricSource" => {
            match (has("averageUtilization"), average) {
                (false, false) => {
                    let why = "must set either a target raw value or a target utilization";
                    v.required("target.averageUtilization", why);
                }
                (true, true) => {
                    let why = "may not set both a target raw value and a target utilization";
                    v.forbidden("target.averageValue", why);
                }
                _ => {}
            }
        }
        _ => {}
    }
}

fn budget(v: &mut Visit<'_>) {
    let fields = ["minAvailable", "maxUnavailable"];
    if fields.iter().all(|field| v.here().contains_key(*field)) {
        let why = "minAvailable and maxUnavailable cannot be both set";
        v.invalid_struct("", why);
    }
    for field in fields {
        let value = v.get(field);
        count_or_percent(v, field, value);
        at_most_all(v, field, value);
    }
}

fn policy_rule(v: &mut Visit<'_>) {
    let has = |field: &str| !list(v.get(field)).is_empty();
    let (groups, resources, names) = (has("apiGroups"), has("resources"), has("resourceNames"));
    if !has("verbs") {
        v.required("verbs", "verbs must contain at least one value");
    }
    let urls = v.get("nonResourceURLs");
    if !list(urls).is_empty() {
        if v.parent("Role").is_some() {
            let why = "namespaced rules cannot apply to non-resource URLs";
            v.invalid("nonResourceURLs", urls, why);
        }
        if groups || resources || names {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            v.invalid("nonResourceURLs", urls, why);
        }
        return;
    }
    if !groups {
        let why = "resource rules must supply at least one api group";
        v.required("apiGroups", why);
    }
    if !resources {
        let why = "resource rules must supply at least one resource";
        v.required("resources", why);
    }
}

fn role_ref(v: &mut Visit<'_>) {
    let role = v.get("roleRef");
    let (group, kind, name) = (
        text(role, "apiGroup"),
        text(role, "kind"),
        text(role, "name"),
    );
    if group != RBAC {
        v.unsupported("roleRef.apiGroup", group, &[RBAC]);
    }
    let kinds: &[&str] = match v.own_type() {
        "RoleBinding" => &["Role", "ClusterRole"],
        _ => &["ClusterRole"],
    };
    if !kinds.contains(&kind) {
        v.unsupported("roleRef.kind", kind, kinds);
    }
    if name.is_empty() {
        v.required("roleRef.name", "");
    } else {
        let faults = caretaker_machinery::names::NameRule::PathSegment.faults(name);
        v.invalid_all("roleRef.name", name, &faults);
    }
}

fn subject(v: &mut Visit<'_>) {
    let of = |field: &str| v.get(field).as_str().unwrap_or_default();
    let (kind, group, name, namespace) = (of("kind"), of("apiGroup"), of("name"), of("namespace"));
    if name.is_empty() {
        v.required("name", "");
    }
    match kind {
        "ServiceAccount" => {
            if !name.is_empty() {
                v.invalid_all("name", name, &subdomain(name));
            }
            if !group.is_empty() {
                v.unsupported("apiGroup", group, &[""]);
            }
            if namespace.is_empty() && v.parent("ClusterRoleBinding").is_some() {
                v.required("namespace", "");
            }
        }
        "User" | "Group" => {
            if group != RBAC {
                v.unsupported("apiGroup", group, &[RBAC]);
            }
        }
        other => v.unsupported("kind", other, &["ServiceAccount", "User", "Group"]),
    }
}

fn aggregation(v: &mut Visit<'_>) {
    if list(v.get("clusterRoleSelectors")).is_empty() {
        let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        v.required("clusterRoleSelectors", why);
    }
    v.each("clusterRoleSelectors");
    for (at, selector) in list(v.get("clusterRoleSelectors")).iter().enumerate() {
        if !is_usable(selector) {
            let path = format!("clusterRoleSelectors[{at}]");
            v.invalid(&path, super::ABSENT, "invalid label selector.");
        }
    }
}

fn metric_resource(v: &mut Visit<'_>) {
    resources::container_name(v, "name", text_of(v, "name"));
}

/// Upstream names taints as if they were metadata.
fn taints(v: &mut Visit<'_>) {
    let taints = list(&v.get("spec")["taints"]);
    let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    for (at, taint) in taints.iter().enumerate() {
        let own = |field: &str| format!("metadata.taints[{at}].{field}");
        let (key, value, effect) = (
            text(taint, "key"),
            text(taint, "value"),
            text(taint, "effect"),
        );
        v.invalid_all(&own("key"), key, &qualified_name(key));
        let faults = caretaker_machinery::names::label_value(value);
        if !faults.is_empty() {
            v.invalid(&own("value"), value, &faults.join(";"));
        }
        match effect {
            "" => v.required(&own("effect"), ""),
            effect if !effects.contains(&effect) => v.unsupported(&own("effect"), effect, &effects),
            _ => {}
        }
        let same = |other: &Value| text(other, "key") == key && text(other, "effect") == effect;
        if taints[..at].iter().any(same) {
            let why = "taints must be unique by key and effect pair";
            v.duplicate_struct(&format!("metadata.taints[{at}]"), "Taint", taint, why);
        }
    }
}

/// An Event is in the namespace of the object that it is about.
fn limit_type(v: &mut Visit<'_>) {
    let name = v.get("type").as_str().unwrap_or_default();
    let faults = qualified_name(name);
    v.invalid_all("type", name, &faults);
    let standard = ["Container", "PersistentVolumeClaim", "Pod"];
    if faults.is_empty() && !name.contains('/') && !standard.contains(&name) {
        let why = "must be a standard limit type or fully qualified";
        v.invalid("type", name, why);
    }
}

/// A Node keeps its addresses once it has some.
fn pod_cidr(v: &mut Visit<'_>) {
    let spec = v.get("spec");
    // Of two fields that contradict each other, the older counts.
    let older = &spec["podCIDR"];
    let cidrs = match list(&spec["podCIDRs"]) {
        [first, ..] if !older.is_null() && first != older => std::slice::from_ref(older),
        cidrs => cidrs,
    };
    for (at, cidr) in cidrs.iter().enumerate() {
        let cidr = cidr.as_str().unwrap_or_default();
        let path = format!("spec.podCIDRs[{at}]");
        v.invalid_all(&path, cidr, &super::formats::cidr(cidr));
    }
    let old = v
        .old
        .map_or(super::ABSENT, |old| super::find(old, "spec.podCIDRs"));
    if !list(old).is_empty() && cidrs != list(old) {
        let why = "node updates may not change podCIDR except from \"\" to valid";
        v.forbidden("spec.podCIDRs", why);
    }
}

/// Secrets of the types that Kubernetes knows have their keys.
fn secret_type(v: &mut Visit<'_>) {
    let data = v.get("data");
    let keys: &[&str] = match v.get("type").as_str().unwrap_or_default() {
        "kubernetes.io/service-account-token" => {
            let name = "kubernetes.io/service-account.name";
            let annotations = &v.get("metadata")["annotations"];
            if text(annotations, name).is_empty() {
                v.required(&format!("metadata.annotations[{name}]"), "");
            }
            return;
        }
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/basic-auth" => {
            let has = |key: &&str| data.get(*key).is_some();
            match ["username", "password"].iter().any(has) {
                true => &[],
                false => &["username", "password"],
            }
        }
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        _ => &[],
    };
    for key in keys {
        let path = format!("data[{key}]");
        match data.get(*key).and_then(Value::as_str) {
            Some(config) if key.starts_with('.') => {
                if let Some(why) = config_fault(config) {
                    v.invalid(&path, "<secret contents redacted>", &why);
                }
            }
            Some(content) if !content.is_empty() => {}
            _ => v.required(&path, ""),
        }
    }
}

/// Returns why the configuration of a registry client is no JSON object, in the words of Go's parser where they are simple.
fn config_fault(config: &str) -> Option<String> {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(config)
        .ok()?;
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(_) | Value::Null) => None,
        Ok(other) => {
            let found = caretaker_machinery::schema::type_name(&other);
            Some(format!(
                "json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
            ))
        }
        Err(error) if error.is_eof() => Some("unexpected end of JSON input".to_owned()),
        Err(_) => {
            let text = String::from_utf8_lossy(&bytes);
            let first = text.trim_start().chars().next().unwrap_or_default();
            Some(format!(
                "invalid character '{first}' looking for beginning of value"
            ))
        }
    }
}

const SCOPES: [&str; 6] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
];

/// Scopes of Pods limit resources of Pods only.
fn quota_scopes(v: &mut Visit<'_>) {
    let scopes = list(v.get("scopes"));
    let hard = v.get("hard").as_object();
    let names = || hard.into_iter().flat_map(serde_json::Map::keys);
    for scope in scopes {
        let scope = scope.as_str().unwrap_or_default();
        if !SCOPES.contains(&scope) {
            v.invalid("scopes", scopes, "unsupported scope");
            continue;
        }
        let fits = |name: &str| match scope {
            "BestEffort" => name == "pods",
            _ => {
                let name = name
                    .trim_start_matches("requests.")
                    .trim_start_matches("limits.");
                ["pods", "cpu", "memory", "ephemeral-storage"].contains(&name)
            }
        };
        let is_known = |name: &&String| resources::is_quota_standard(name);
        for _ in names().filter(is_known).filter(|name| !fits(name)) {
            v.invalid("scopes", scopes, "unsupported scope applied to resource");
        }
    }
    let has = |scope: &str| scopes.iter().any(|known| known == scope);
    if (has("BestEffort") && has("NotBestEffort")) || (has("Terminating") && has("NotTerminating"))
    {
        v.invalid("scopes", scopes, "conflicting scopes");
    }
}

/// Each type of limits occurs once.
fn limit_types(v: &mut Visit<'_>) {
    v.each_unique("limits", "type");
}

fn quota(v: &mut Visit<'_>) {
    for (name, amount) in v.get("hard").as_object().into_iter().flatten() {
        let at = format!("hard[{name}]");
        resources::quota_name(v, &at, name);
        resources::quantity(v, &at, name, amount);
    }
}

/// The amounts of a limit, by resource.
const LIMIT_MAPS: [&str; 5] = [
    "max",
    "min",
    "default",
    "defaultRequest",
    "maxLimitRequestRatio",
];

/// The type of a limit decides about names of resources, and whether there are defaults.
fn limit_names(v: &mut Visit<'_>) {
    let of = text_of(v, "type");
    let is_of_pods = ["Container", "Pod"].contains(&of);
    for map in LIMIT_MAPS {
        if of == "Pod" && map.starts_with("default") {
            if !v.get(map).is_null() {
                v.forbidden(map, "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        for (name, _) in v.get(map).as_object().into_iter().flatten() {
            let at = format!("{map}[{name}]");
            if is_of_pods {
                resources::container_name(v, &at, name);
            } else {
                resources::resource_name(v, &at, name);
            }
        }
    }
}

/// Minimum, default and maximum of a resource are in this order.
fn limit_item(v: &mut Visit<'_>) {
    limit_names(v);
    let amount = |map: &str, name: &str| v.get(map).get(name).and_then(parse);
    let mut names: Vec<&String> = LIMIT_MAPS
        .iter()
        .filter_map(|map| v.get(map).as_object())
        .flat_map(serde_json::Map::keys)
        .collect();
    names.sort_unstable();
    names.dedup();
    let pairs = [
        ("min", "max", "min"),
        ("min", "defaultRequest", "defaultRequest"),
        ("defaultRequest", "max", "defaultRequest"),
        ("defaultRequest", "default", "defaultRequest"),
        ("min", "default", "default"),
        ("default", "max", "default"),
    ];
    let mut found = Vec::new();
    for name in names {
        for (less, more, at) in pairs {
            let amounts = amount(less, name).zip(amount(more, name));
            let Some((low, high)) = amounts.filter(|(low, high)| low.exceeds(high)) else {
                continue;
            };
            let called = |map: &str| match (map, less, more) {
                ("defaultRequest", _, _) => "default request".to_owned(),
                ("default", "defaultRequest", _) => "default limit".to_owned(),
                (map, _, _) => map.to_owned(),
            };
            let (less_name, more_name) = (called(less), called(more));
            let why = format!("{less_name} value {low} is greater than {more_name} value {high}");
            let shown = if (at == less || more == "default") && (less, more) != ("default", "max") {
                low
            } else {
                high
            };
            found.push((format!("{at}[{name}]"), shown.to_string(), why));
        }
        if let Some(ratio) = amount("maxLimitRequestRatio", name) {
            let bounds = amount("max", name).zip(amount("min", name));
            let whys = ratio_faults(&ratio, bounds);
            let at = format!("maxLimitRequestRatio[{name}]");
            found.extend(whys.map(|why| (at.clone(), ratio.to_string(), why)));
        }
    }
    for (at, shown, why) in found {
        v.invalid(&at, shown, &why);
    }
}

/// A ratio of limit and request is at least one, and at most that of maximum and minimum.
fn ratio_faults(
    ratio: &Quantity,
    bounds: Option<(Quantity, Quantity)>,
) -> impl Iterator<Item = String> {
    let less = (ratio.approximate() < 1.0).then(|| format!("ratio {ratio} is less than 1"));
    let bound = bounds.map(|(max, min)| max.approximate() / min.approximate());
    let bound = bound.filter(|bound| ratio.approximate() > *bound);
    let more = bound.map(|bound| format!("ratio {ratio} is greater than max/min = {bound:.6}"));
    less.into_iter().chain(more)
}

fn text_of<'a>(v: &Visit<'a>, field: &str) -> &'a str {
    v.get(field).as_str().unwrap_or_default()
}
