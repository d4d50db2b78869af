//! Rules of resource amounts: names of resources, quantities, and requests that stay within limits.
//!
//! Mirrors `validateResourceRequirements` of `core/validation`, 1.36. Upstream walks the maps in random order; here the
//! order is that of the names.

use caretaker_machinery::names::qualified_name;
use caretaker_machinery::quantity::Quantity;
use serde_json::Value;

use super::Visit;

/// Resources that are counted in whole numbers.
const WHOLE: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];
/// Resources with names that need no domain, besides those of containers.
const STANDARD: [&str; 8] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "storage",
];
/// Resources of containers.
const CONTAINER: [&str; 3] = ["cpu", "ephemeral-storage", "memory"];

/// Checks the resources of a container.
pub(super) fn requirements(v: &mut Visit<'_>) {
    let (limits, requests) = (v.get("limits"), v.get("requests"));
    self::limits(v, "limits", limits);
    for (name, amount) in requests.as_object().into_iter().flatten() {
        let at = format!("requests[{name}]");
        container_name(v, &at, name);
        quantity(v, &at, name, amount);
        within(v, name, amount, limits.get(name));
    }
    let has = |found: fn(&str) -> bool| {
        let mut names = limits.as_object().into_iter().chain(requests.as_object());
        names.any(|map| map.keys().any(|name| found(name)))
    };
    if has(is_huge) && !has(|name| name == "cpu" || name == "memory") {
        v.forbidden("", "HugePages require cpu or memory");
    }
}

/// Checks amounts that are limits of a container, under the path `at`.
pub(super) fn limits(v: &mut Visit<'_>, at: &str, amounts: &Value) {
    for (name, amount) in amounts.as_object().into_iter().flatten() {
        let at = format!("{at}[{name}]");
        container_name(v, &at, name);
        quantity(v, &at, name, amount);
    }
}

/// A request is at most its limit; equal to it where resources cannot be shared.
fn within(v: &mut Visit<'_>, name: &str, amount: &Value, limit: Option<&Value>) {
    let shared = !name.contains('/') && !is_huge(name) || name.contains("kubernetes.io/");
    let Some(limit) = limit else {
        if !shared {
            let why = "Limit must be set for non overcommitable resources";
            v.required("limits", why);
        }
        return;
    };
    let (Some(request), Some(most)) = (parse(amount), parse(limit)) else {
        return;
    };
    let (shown, limit) = (request.to_string(), most.to_string());
    let exceeds = request.exceeds(&most);
    if !shared && (exceeds || most.exceeds(&request)) {
        let why = format!("must be equal to {name} limit of {limit}");
        v.invalid("requests", shown, &why);
    } else if exceeds {
        let why = format!("must be less than or equal to {name} limit of {limit}");
        v.invalid("requests", shown, &why);
    }
}

/// Checks an amount of a resource.
pub(super) fn quantity(v: &mut Visit<'_>, at: &str, name: &str, amount: &Value) {
    let Some(amount) = parse(amount) else {
        return;
    };
    let shown = amount.to_string();
    if shown.starts_with('-') {
        v.invalid(at, &shown, "must be greater than or equal to 0");
    }
    let is_whole = WHOLE.contains(&name) || is_extended(name);
    if is_whole && (shown.ends_with('m') || shown.ends_with('u') || shown.ends_with('n')) {
        v.invalid(at, &shown, "must be an integer");
    }
}

/// Checks the name of a resource of any kind; returns whether it is good.
pub(super) fn resource_name(v: &mut Visit<'_>, at: &str, name: &str) -> bool {
    let faults = qualified_name(name);
    v.invalid_all(at, name, &faults);
    if !faults.is_empty() {
        return false;
    }
    let is_standard =
        CONTAINER.contains(&name) || STANDARD.contains(&name) || WHOLE.contains(&name);
    if !name.contains('/') && !is_standard && !is_huge(name) {
        v.invalid(
            at,
            name,
            "must be a standard resource type or fully qualified",
        );
        return false;
    }
    true
}

/// Checks the name of a resource that a quota limits.
pub(super) fn quota_name(v: &mut Visit<'_>, at: &str, name: &str) {
    resource_name(v, at, name);
    if !name.contains('/') && !is_quota_standard(name) {
        v.invalid(at, name, "must be a standard resource for quota");
    }
}

/// Reports whether a quota knows a resource without a domain.
pub(super) fn is_quota_standard(name: &str) -> bool {
    let is_counted = CONTAINER.contains(&name) || WHOLE.contains(&name);
    let is_pages = is_huge(name.strip_prefix("requests.").unwrap_or(name));
    is_counted || is_pages || (STANDARD.contains(&name) && name != "storage")
}

pub(super) fn container_name(v: &mut Visit<'_>, at: &str, name: &str) {
    resource_name(v, at, name);
    if !name.contains('/') {
        if !CONTAINER.contains(&name) && !is_huge(name) {
            v.invalid(at, name, "must be a standard resource for containers");
        }
    } else if !name.contains("kubernetes.io/") && !is_extended(name) {
        v.invalid(at, name, "doesn't follow extended resource name standard");
    }
}

/// Reports whether a resource has a domain other than that of Kubernetes.
pub(super) fn is_extended(name: &str) -> bool {
    name.contains('/')
        && !name.contains("kubernetes.io/")
        && !name.starts_with("requests.")
        && qualified_name(&format!("requests.{name}")).is_empty()
}

fn is_huge(name: &str) -> bool {
    name.starts_with("hugepages-")
}

pub(super) fn parse(amount: &Value) -> Option<Quantity> {
    Quantity::parse(amount.as_str()?).ok()
}
