//! The status of ResourceQuotas: the limits of the spec, and how much of each is used in the namespace.
//!
//! - `usage`: what a Pod, a Service or a claim uses.
//!
//! Counts objects of the kinds in [`COUNTED`] and adds up the resources of Pods and claims, within the scopes of a quota.
//! Mirrors `pkg/controller/resourcequota` and `pkg/quota/v1`, 1.36. Left out: objects of other kinds, resource claims, and
//! the admission of requests, which the API server would do.

#[cfg(test)]
mod tests;
mod usage;

use std::collections::BTreeMap;

use caretaker_machinery::quantity::Quantity;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use self::usage::{ResourceAmounts, add, of_claim, of_pod, of_service};
use crate::actor::{Actor, ActorDecision, NamespacedName, request, rest, wait_until};
use crate::cache::{GroupResource, ObjectCache, ObjectSnapshot};
use crate::objects::{later, write_status};
use crate::pod::PODS;

const QUOTAS: GroupResource = ("", "resourcequotas");
const SERVICES: GroupResource = ("", "services");
const CLAIMS: GroupResource = ("", "persistentvolumeclaims");
/// The kinds whose objects are counted. Those of the core group listed in [`PLAIN_NAMES`] may also be named without
/// `count/`.
const COUNTED: [GroupResource; 27] = [
    QUOTAS,
    PODS,
    SERVICES,
    CLAIMS,
    ("", "configmaps"),
    ("", "endpoints"),
    ("", "limitranges"),
    ("", "podtemplates"),
    ("", "replicationcontrollers"),
    ("", "secrets"),
    ("", "serviceaccounts"),
    ("apps", "controllerrevisions"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("autoscaling", "horizontalpodautoscalers"),
    ("batch", "cronjobs"),
    ("batch", "jobs"),
    ("batch.volcano.sh", "cronjobs"),
    ("batch.volcano.sh", "jobs"),
    ("coordination.k8s.io", "leases"),
    ("discovery.k8s.io", "endpointslices"),
    ("networking.k8s.io", "ingresses"),
    ("networking.k8s.io", "networkpolicies"),
    ("policy", "poddisruptionbudgets"),
    ("rbac.authorization.k8s.io", "roles"),
];
const PLAIN_NAMES: [&str; 4] = [
    "configmaps",
    "resourcequotas",
    "replicationcontrollers",
    "secrets",
];

/// Simulates the controller of ResourceQuotas.
#[derive(Debug)]
pub(crate) struct QuotaActor;

/// A name of a limited resource, or its beginning or end.
enum LimitName {
    Exact(String),
    Prefix(&'static str),
    Suffix(&'static str),
}

// === impl QuotaActor ===

impl Actor for QuotaActor {
    const NAME: &'static str = "simulated-quotas";
    const REPORTER: &'static str = "resourcequota-controller";
    const KINDS: &'static [GroupResource] = &COUNTED;

    fn decide(&self, cache: &ObjectCache, quota: &ObjectSnapshot, now: Timestamp) -> ActorDecision {
        let hard = quota.at("/spec/hard").as_object();
        let hard = hard.cloned().unwrap_or_default();
        let used = used(cache, quota, &hard, now);
        let status = json!({"hard": hard, "used": used});
        let is_same = |field: &str| amounts(&status[field]) == amounts(&quota.at("/status")[field]);
        let is_new = quota.at("/status/hard").is_null() || quota.at("/status/used").is_null();
        let is_due = is_new && !hard.is_empty() || !is_same("hard") || !is_same("used");
        let call = write_status(quota, &status).filter(|_| is_due);
        match (call, next_expiry(cache, quota, now)) {
            (Some(call), _) => request(call, "the usage has changed"),
            (None, Some(next)) => wait_until(next, "a Pod that is being deleted counts until then"),
            (None, None) => rest("the usage is up to date"),
        }
    }

    fn affected(&self, cache: &ObjectCache, object: &ObjectSnapshot) -> Vec<NamespacedName> {
        let quotas = cache.in_namespace(QUOTAS, &object.meta().namespace);
        quotas.map(ObjectSnapshot::key).collect()
    }
}

/// The used amounts of the resources that a quota limits. What cannot be computed keeps its last amount.
fn used(
    cache: &ObjectCache,
    quota: &ObjectSnapshot,
    hard: &Map<String, Value>,
    now: Timestamp,
) -> Map<String, Value> {
    let mut sums = ResourceAmounts::new();
    let scopes = scopes(quota);
    let namespace = &quota.meta().namespace;
    for named in COUNTED {
        let names = names_of(named);
        let is_limited = |name: &String| names.iter().any(|known| known.is_of(name));
        if !hard.keys().any(is_limited) {
            continue;
        }
        let limited = hard.keys().filter(|name| is_limited(name));
        limited.for_each(|name| add(&mut sums, name, &Quantity::of_count(0)));
        for object in cache.in_namespace(named, namespace) {
            if !scopes
                .iter()
                .all(|scope| usage::is_in_scope(named, object, scope))
            {
                continue;
            }
            let amounts = match named {
                PODS => of_pod(object, now),
                SERVICES => of_service(object),
                CLAIMS => of_claim(object),
                _ => ResourceAmounts::new(),
            };
            for (name, amount) in amounts {
                add(&mut sums, &name, &amount);
            }
            for name in plain_counts(named) {
                add(&mut sums, &name, &Quantity::of_count(1));
            }
        }
    }
    let last = quota.at("/status/used");
    let used = hard.keys().filter_map(|name| {
        let known = sums.get(name).map(|amount| amount.to_string().into());
        let value = known.or_else(|| last.get(name).cloned())?;
        Some((name.clone(), value))
    });
    used.collect()
}

// === impl LimitName ===

impl LimitName {
    fn is_of(&self, name: &str) -> bool {
        match self {
            Self::Exact(known) => known == name,
            Self::Prefix(prefix) => name.starts_with(prefix),
            Self::Suffix(suffix) => name.ends_with(suffix),
        }
    }
}

/// The resources that objects of a kind use.
fn names_of(named: GroupResource) -> Vec<LimitName> {
    let exact = plain_counts(named).into_iter().map(LimitName::Exact);
    let more: &[&str] = match named {
        PODS => &usage::POD_RESOURCES,
        SERVICES => &usage::SERVICE_RESOURCES,
        CLAIMS => &usage::CLAIM_RESOURCES,
        _ => &[],
    };
    let more = more.iter().map(|name| LimitName::Exact((*name).to_owned()));
    let mut names: Vec<LimitName> = exact.chain(more).collect();
    match named {
        PODS => names.extend(usage::POD_PREFIXES.map(LimitName::Prefix)),
        CLAIMS => names.extend(usage::CLAIM_SUFFIXES.map(LimitName::Suffix)),
        _ => {}
    }
    names
}

/// The names under which every object of a kind counts as one.
fn plain_counts((group, resource): GroupResource) -> Vec<String> {
    let counted = match group {
        "" => format!("count/{resource}"),
        group => format!("count/{resource}.{group}"),
    };
    let plain = (group.is_empty() && PLAIN_NAMES.contains(&resource)).then(|| resource.to_owned());
    [Some(counted), plain].into_iter().flatten().collect()
}

/// The scopes of a quota as requirements with a name, an operator and values.
fn scopes(quota: &ObjectSnapshot) -> Vec<Value> {
    let plain = quota.items("/spec/scopes").iter();
    let plain = plain.map(|name| json!({"scopeName": name, "operator": "Exists"}));
    let selected = quota.items("/spec/scopeSelector/matchExpressions").iter();
    plain.chain(selected.cloned()).collect()
}

/// Amounts by name, in a form in which equal ones are the same.
fn amounts(list: &Value) -> BTreeMap<&str, String> {
    let list = list.as_object().into_iter().flatten();
    let amounts = list.map(|(name, amount)| {
        let text = amount.as_str().unwrap_or_default();
        let amount = Quantity::parse(text).map(|parsed| Quantity::of_count(0).plus(&parsed));
        (
            name.as_str(),
            amount.map_or_else(|_| text.to_owned(), |amount| amount.to_string()),
        )
    });
    amounts.collect()
}

/// When the next Pod of the namespace that is being deleted stops counting.
fn next_expiry(cache: &ObjectCache, quota: &ObjectSnapshot, now: Timestamp) -> Option<Timestamp> {
    let pods = cache.in_namespace(PODS, &quota.meta().namespace);
    let expiries = pods.filter_map(usage::expiry);
    expiries
        .map(|expiry| later(expiry, 1))
        .filter(|at| *at > now)
        .min()
}
