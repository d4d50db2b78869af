//! What a Pod, a Service or a claim uses of the resources that quotas limit.
//!
//! A Pod uses what it requests and limits until it has ended; containers that run one after the other count as the largest
//! of them. Mirrors `pkg/quota/v1/evaluator/core` and `component-helpers/resource`, 1.36, without resizes in progress.

use std::collections::BTreeMap;

use caretaker_machinery::quantity::Quantity;
use caretaker_machinery::selector::LabelSelector;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{CLAIMS, PODS};
use crate::cache::{GroupResource, ObjectSnapshot};
use crate::objects::later;
use crate::pod::has_ended;

/// Amounts by the name of their resource.
pub(super) type ResourceAmounts = BTreeMap<String, Quantity>;

/// Limited resources that Pods use, beside those of [`POD_PREFIXES`].
pub(super) const POD_RESOURCES: [&str; 10] = [
    "pods",
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];
/// How the names of huge pages and extended resources begin.
pub(super) const POD_PREFIXES: [&str; 2] = ["hugepages-", "requests."];
pub(super) const SERVICE_RESOURCES: [&str; 3] =
    ["services", "services.nodeports", "services.loadbalancers"];
pub(super) const CLAIM_RESOURCES: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];
/// How the names of the resources of one storage class end.
pub(super) const CLAIM_SUFFIXES: [&str; 2] = [
    ".storageclass.storage.k8s.io/persistentvolumeclaims",
    ".storageclass.storage.k8s.io/requests.storage",
];
/// Resources of Pods that are counted under their own name and with `requests.` and `limits.`.
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Adds an amount to a sum.
pub(super) fn add(sums: &mut ResourceAmounts, name: &str, amount: &Quantity) {
    let sum = match sums.get(name) {
        Some(known) => known.plus(amount),
        None => amount.clone(),
    };
    sums.insert(name.to_owned(), sum);
}

/// What a Pod uses: nothing but its count once it has ended, or is overdue to be deleted.
pub(super) fn of_pod(pod: &ObjectSnapshot, now: Timestamp) -> ResourceAmounts {
    let mut used = ResourceAmounts::new();
    if has_ended(pod) || expiry(pod).is_some_and(|expiry| expiry < now) {
        return used;
    }
    add(&mut used, "pods", &Quantity::of_count(1));
    for (name, amount) in of_containers(pod, "requests") {
        if COMPUTE.contains(&name.as_str()) || name.starts_with("hugepages-") {
            add(&mut used, &name, &amount);
        }
        if COMPUTE.contains(&name.as_str()) || name.starts_with("hugepages-") || name.contains('/')
        {
            add(&mut used, &format!("requests.{name}"), &amount);
        }
    }
    for (name, amount) in of_containers(pod, "limits") {
        if COMPUTE.contains(&name.as_str()) {
            add(&mut used, &format!("limits.{name}"), &amount);
        }
    }
    used
}

/// When a Pod that is being deleted stops counting: a grace period after it should be gone.
pub(super) fn expiry(pod: &ObjectSnapshot) -> Option<Timestamp> {
    let grace = pod.number("/metadata/deletionGracePeriodSeconds")?;
    Some(later(pod.meta().deletion?, grace))
}

/// The `requests` or `limits` of a Pod: of all containers together, or of the largest one that runs before them.
fn of_containers(pod: &ObjectSnapshot, of: &str) -> ResourceAmounts {
    let mut together = ResourceAmounts::new();
    for container in pod.items("/spec/containers") {
        sum_up(&mut together, &container["resources"][of]);
    }
    let (mut sidecars, mut largest) = (ResourceAmounts::new(), ResourceAmounts::new());
    for container in pod.items("/spec/initContainers") {
        let own = &container["resources"][of];
        let mut running = sidecars.clone();
        sum_up(&mut running, own);
        if container["restartPolicy"] == "Always" {
            sum_up(&mut together, own);
            sidecars = running.clone();
        }
        raise(&mut largest, running);
    }
    raise(&mut together, largest);
    // Amounts of the whole Pod take the place of those of its containers.
    let whole = parsed(&pod.at("/spec/resources")[of]);
    together.extend(whole.filter(|(name, _)| name != "ephemeral-storage"));
    for (name, amount) in parsed(pod.at("/spec/overhead")) {
        if of == "requests" || together.contains_key(&name) {
            add(&mut together, &name, &amount);
        }
    }
    together
}

fn parsed(list: &Value) -> impl Iterator<Item = (String, Quantity)> {
    let list = list.as_object().into_iter().flatten();
    list.filter_map(|(name, amount)| {
        // A client may write a number instead of a text.
        let text = amount
            .as_str()
            .map_or_else(|| amount.to_string(), str::to_owned);
        Some((name.clone(), Quantity::parse(&text).ok()?))
    })
}

fn sum_up(sums: &mut ResourceAmounts, list: &Value) {
    parsed(list).for_each(|(name, amount)| add(sums, &name, &amount));
}

/// Raises amounts to others that are greater.
fn raise(amounts: &mut ResourceAmounts, others: ResourceAmounts) {
    for (name, other) in others {
        let is_greater = amounts.get(&name).is_none_or(|known| other.exceeds(known));
        if is_greater {
            amounts.insert(name, other);
        }
    }
}

/// What a Service uses: itself, and node ports and load balancers by its type.
pub(super) fn of_service(service: &ObjectSnapshot) -> ResourceAmounts {
    let ports = service.items("/spec/ports");
    let explicit = ports
        .iter()
        .filter(|port| port["nodePort"].as_i64().unwrap_or(0) != 0);
    let allocates = *service.at("/spec/allocateLoadBalancerNodePorts") != false;
    let (node_ports, balancers) = match service.text("/spec/type") {
        "NodePort" => (ports.len(), 0),
        "LoadBalancer" if allocates => (ports.len(), 1),
        "LoadBalancer" => (explicit.count(), 1),
        _ => (0, 0),
    };
    let counts = [1, node_ports, balancers];
    let names = SERVICE_RESOURCES.map(str::to_owned);
    names
        .into_iter()
        .zip(counts.map(Quantity::of_count))
        .collect()
}

/// What a claim uses: itself and its storage, both also by the storage class.
pub(super) fn of_claim(claim: &ObjectSnapshot) -> ResourceAmounts {
    let mut used = ResourceAmounts::new();
    let annotated =
        claim.at("/metadata/annotations")["volume.beta.kubernetes.io/storage-class"].as_str();
    let class = annotated.unwrap_or_else(|| claim.text("/spec/storageClassName"));
    let storage = claim.text("/spec/resources/requests/storage");
    let storage = Quantity::parse(storage).ok();
    let amounts = [Some(Quantity::of_count(1)), storage];
    for ((name, suffix), amount) in CLAIM_RESOURCES.into_iter().zip(CLAIM_SUFFIXES).zip(amounts) {
        let Some(amount) = amount else {
            continue;
        };
        add(&mut used, name, &amount);
        if !class.is_empty() {
            add(&mut used, &format!("{class}{suffix}"), &amount);
        }
    }
    used
}

/// Whether an object is within a scope. Only Pods and claims have scopes; other objects are within none.
pub(super) fn is_in_scope(named: GroupResource, object: &ObjectSnapshot, scope: &Value) -> bool {
    match (named, scope["scopeName"].as_str().unwrap_or_default()) {
        (PODS, "Terminating") => is_terminating(object),
        (PODS, "NotTerminating") => !is_terminating(object),
        (PODS, "BestEffort") => is_best_effort(object),
        (PODS, "NotBestEffort") => !is_best_effort(object),
        (PODS, "PriorityClass") => meets(scope, object.text("/spec/priorityClassName")),
        (PODS, "CrossNamespacePodAffinity") => has_cross_namespace_affinity(object),
        (CLAIMS, "VolumeAttributesClass") => {
            meets(scope, object.text("/spec/volumeAttributesClassName"))
        }
        _ => false,
    }
}

/// Whether a name meets the operator and the values of a scope; empty counts as none.
fn meets(scope: &Value, name: &str) -> bool {
    let expression =
        json!({"key": "name", "operator": scope["operator"], "values": scope["values"]});
    let selector = LabelSelector::of_field(&json!({"matchExpressions": [expression]}));
    let label = (!name.is_empty()).then_some(name);
    selector.is_some_and(|selector| selector.matches(|_| label))
}

fn is_terminating(pod: &ObjectSnapshot) -> bool {
    pod.number("/spec/activeDeadlineSeconds")
        .is_some_and(|secs| secs >= 0)
}

fn is_best_effort(pod: &ObjectSnapshot) -> bool {
    match pod.text("/status/qosClass") {
        "" => {}
        class => return class == "BestEffort",
    }
    let containers = ["/spec/containers", "/spec/initContainers"];
    let mut containers = containers.into_iter().flat_map(|list| pod.items(list));
    let zero = Quantity::of_count(0);
    !containers.any(|container| {
        let lists = ["requests", "limits"].map(|of| &container["resources"][of]);
        let mut amounts = lists.into_iter().flat_map(parsed);
        amounts.any(|(name, amount)| {
            matches!(name.as_str(), "cpu" | "memory") && amount.exceeds(&zero)
        })
    })
}

fn has_cross_namespace_affinity(pod: &ObjectSnapshot) -> bool {
    let is_cross = |term: &Value| {
        let names = term["namespaces"].as_array();
        names.is_some_and(|names| !names.is_empty()) || !term["namespaceSelector"].is_null()
    };
    ["podAffinity", "podAntiAffinity"].into_iter().any(|kind| {
        let affinity = &pod.at("/spec/affinity")[kind];
        let list = |name: &str| affinity[name].as_array().into_iter().flatten();
        let mut preferred = list("preferredDuringSchedulingIgnoredDuringExecution");
        list("requiredDuringSchedulingIgnoredDuringExecution").any(is_cross)
            || preferred.any(|term| is_cross(&term["podAffinityTerm"]))
    })
}
