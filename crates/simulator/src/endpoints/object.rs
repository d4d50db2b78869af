//! The actor of Endpoints: one object per Service, with its name, that lists ready and other addresses by ports.
//!
//! Addresses with the same ports are one subset. Beyond 1,000 addresses the list is cut, the ready ones first in it, and an
//! annotation says so. When the Service is gone, its Endpoints go.

use std::collections::BTreeMap;

use caretaker_controllers::runtime::call::{ApiCall, PatchForm};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{SERVICES, families, host_name, labels, pods, ports, reference, selector, services_of};
use crate::actor::{Actor, ActorDecision, NamespacedName, request, rest, retry};
use crate::cache::{GroupResource, ObjectCache, ObjectSnapshot};
use crate::objects::{delete, difference};
use crate::pod::PODS;

const ENDPOINTS: GroupResource = ("", "endpoints");
/// Label with the controller of Endpoints, and its value.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";
/// Annotation of Endpoints that do not have all addresses, and its value.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
const TRUNCATED: &str = "truncated";
/// Addresses in one object, as in upstream.
const ADDRESSES_MAX: usize = 1_000;

/// Name, number and protocol of a port.
type PortKey = (String, i64, String);
/// The places of the Pods that offer a port, and whether they are ready.
type Offering = Vec<(usize, bool)>;

/// Simulates the controller of Endpoints.
#[derive(Debug)]
pub(crate) struct EndpointsActor;

// === impl EndpointsActor ===

impl Actor for EndpointsActor {
    const NAME: &'static str = "simulated-endpoints";
    const REPORTER: &'static str = MANAGER;
    const KINDS: &'static [GroupResource] = &[SERVICES, ENDPOINTS, PODS];

    fn decide(&self, cache: &ObjectCache, service: &ObjectSnapshot, _: Timestamp) -> ActorDecision {
        let Some(selector) = selector(service) else {
            return rest("the Service selects no Pods");
        };
        let all = pods(cache, service, &selector);
        let (subsets, is_cut) = cut(subsets(service, &all));
        let mut wanted = labels(service, &[MANAGED_BY]);
        wanted.insert(MANAGED_BY.to_owned(), MANAGER.into());
        match cache.get(ENDPOINTS, &service.key()) {
            Some(known) if known.is_deleting() => rest("the Endpoints are being deleted"),
            Some(known) => update(known, wanted, subsets, is_cut),
            None if service.is_deleting() => rest("the Service is being deleted"),
            None => create(cache, service, &wanted, subsets, is_cut),
        }
    }

    /// The Endpoints of a Service that does not exist any more go, if this controller made them.
    fn absent(&self, cache: &ObjectCache, key: &NamespacedName, _: Timestamp) -> ActorDecision {
        match cache.get(ENDPOINTS, key) {
            Some(left)
                if left.at("/metadata/labels")[MANAGED_BY] == MANAGER && !left.is_deleting() =>
            {
                request(delete(left), "the Service is gone")
            }
            _ => rest("the Service does not exist"),
        }
    }

    fn affected(&self, cache: &ObjectCache, object: &ObjectSnapshot) -> Vec<NamespacedName> {
        if cache.served(PODS).map(|(id, _)| id) != Some(object.kind()) {
            return vec![object.key()];
        }
        let uid = object.meta().uid.to_string();
        services_of(cache, object, |service| {
            let known = cache.get(ENDPOINTS, &service.key());
            known.is_some_and(|known| lists(known, &uid))
        })
    }
}

/// Whether Endpoints have an address of the Pod with this uid.
fn lists(endpoints: &ObjectSnapshot, uid: &str) -> bool {
    let mut subsets = endpoints.items("/subsets").iter();
    subsets.any(|subset| {
        let mut addresses = ["addresses", "notReadyAddresses"]
            .into_iter()
            .flat_map(|field| subset[field].as_array().into_iter().flatten());
        addresses.any(|address| address["targetRef"]["uid"] == uid)
    })
}

/// The addresses of a Service's Pods, those with the same ports together.
fn subsets(service: &ObjectSnapshot, pods: &[&ObjectSnapshot]) -> Vec<Value> {
    let tolerates = *service.at("/spec/publishNotReadyAddresses") == true;
    let family = families(service)[0];
    // By port: the names of the Pods, ready or not. A Service without ports has one entry without a port.
    let mut by_port: BTreeMap<PortKey, (Value, Offering)> = BTreeMap::new();
    for (place, pod) in pods.iter().enumerate() {
        if pod.is_deleting() && !tolerates {
            continue;
        }
        let is_ready = tolerates || pod.is_true("Ready");
        let mut offered: Vec<_> = ports(service, pod)
            .into_iter()
            .map(|port| {
                let mut json = port.to_json();
                if port.name.is_empty()
                    && let Some(json) = json.as_object_mut()
                {
                    json.remove("name");
                }
                ((port.name, port.number, port.protocol), json)
            })
            .collect();
        let is_portless = service.items("/spec/ports").is_empty();
        if is_portless && service.text("/spec/clusterIP") == "None" {
            offered.push((PortKey::default(), Value::Null));
        }
        for (key, port) in offered {
            let (_, offering) = by_port.entry(key).or_insert((port, Vec::new()));
            offering.push((place, is_ready));
        }
    }
    let mut by_pods: BTreeMap<Offering, Vec<Value>> = BTreeMap::new();
    for (port, offering) in by_port.into_values() {
        by_pods.entry(offering).or_default().push(port);
    }
    let subsets = by_pods.into_iter().map(|(offering, ports)| {
        let of = |wanted: bool| {
            let offering = offering
                .iter()
                .filter(move |(_, is_ready)| *is_ready == wanted);
            let mut addresses: Vec<Value> = offering
                .filter_map(|(place, _)| address(service, pods[*place], family))
                .collect();
            addresses.sort_by_key(|address| address["ip"].to_string());
            addresses
        };
        let ports: Vec<Value> = ports.into_iter().filter(|port| !port.is_null()).collect();
        let mut subset = Map::new();
        for (field, values) in [
            ("addresses", of(true)),
            ("notReadyAddresses", of(false)),
            ("ports", ports),
        ] {
            if !values.is_empty() {
                subset.insert(field.to_owned(), values.into());
            }
        }
        Value::Object(subset)
    });
    subsets.collect()
}

fn address(service: &ObjectSnapshot, pod: &ObjectSnapshot, family: &str) -> Option<Value> {
    let ip = super::addresses(pod, family).into_iter().next()?;
    let mut address = json!({"ip": ip, "targetRef": reference(pod)});
    let node = pod.text("/spec/nodeName");
    if !node.is_empty() {
        address["nodeName"] = node.into();
    }
    if let Some(name) = host_name(service, pod) {
        address["hostname"] = name.into();
    }
    Some(address)
}

/// The subsets with at most [`ADDRESSES_MAX`] addresses, and whether some were left out.
fn cut(mut subsets: Vec<Value>) -> (Vec<Value>, bool) {
    let (mut left, mut is_cut) = (ADDRESSES_MAX, false);
    for field in ["addresses", "notReadyAddresses"] {
        for subset in &mut subsets {
            if let Some(addresses) = subset[field].as_array_mut() {
                is_cut |= addresses.len() > left;
                addresses.truncate(left);
                left -= addresses.len();
            }
        }
    }
    for subset in &mut subsets {
        if let Some(subset) = subset.as_object_mut() {
            subset.retain(|_, value| !value.is_null() && *value != json!([]));
        }
    }
    subsets
        .retain(|subset| !subset["addresses"].is_null() || !subset["notReadyAddresses"].is_null());
    (subsets, is_cut)
}

fn create(
    cache: &ObjectCache,
    service: &ObjectSnapshot,
    labels: &Map<String, Value>,
    subsets: Vec<Value>,
    is_cut: bool,
) -> ActorDecision {
    let Some((kind, _)) = cache.served(ENDPOINTS) else {
        return retry("Endpoints are not served");
    };
    let mut target = service.target();
    target.kind = kind;
    let meta = service.meta();
    let mut object = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata":
        {"name": &*meta.name, "namespace": &*meta.namespace, "labels": labels}});
    if !subsets.is_empty() {
        object["subsets"] = subsets.into();
    }
    if is_cut {
        object["metadata"]["annotations"] = json!({OVER_CAPACITY: TRUNCATED});
    }
    let call = ApiCall::Create {
        target,
        subresource: None,
        object,
    };
    request(call, "the Service has no Endpoints")
}

fn update(
    known: &ObjectSnapshot,
    labels: Map<String, Value>,
    subsets: Vec<Value>,
    is_cut: bool,
) -> ActorDecision {
    let mut patch = Map::new();
    let mut metadata = Map::new();
    if let Some(labels) = difference(known.at("/metadata/labels"), &labels.into()) {
        metadata.insert("labels".to_owned(), labels);
    }
    let annotation = if is_cut {
        json!(TRUNCATED)
    } else {
        Value::Null
    };
    if known.at("/metadata/annotations")[OVER_CAPACITY] != annotation {
        let annotations = json!({OVER_CAPACITY: annotation});
        metadata.insert("annotations".to_owned(), annotations);
    }
    if !metadata.is_empty() {
        patch.insert("metadata".to_owned(), metadata.into());
    }
    if known.items("/subsets") != subsets.as_slice() {
        patch.insert("subsets".to_owned(), subsets.into());
    }
    if patch.is_empty() {
        return rest("the Endpoints are up to date");
    }
    let call = ApiCall::Patch {
        target: known.target(),
        judged: known.judged(),
        subresource: None,
        form: PatchForm::Merge,
        patch: patch.into(),
    };
    request(call, "the Endpoints do not match the Pods")
}
