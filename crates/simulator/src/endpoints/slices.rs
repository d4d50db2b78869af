//! The actor of EndpointSlices: the endpoints of a Service in slices of up to 100, by ports and address family.
//!
//! Slices belong to their Service, so that the garbage collector removes them with it. A Service without endpoints has one
//! empty slice. Changes touch as few slices as upstream's reconciler does: endpoints stay in their slice, new ones fill
//! slices that change anyway, and a slice that is not needed becomes the one that is missing.

use std::collections::BTreeMap;

use caretaker_controllers::runtime::call::{ApiCall, PatchForm};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    SERVICES, ServedPort, addresses, families, host_name, labels, pods, ports, reference, selector,
    services_of,
};
use crate::actor::{Actor, ActorDecision, NamespacedName, make, request, rest};
use crate::cache::{GroupResource, ObjectCache, ObjectSnapshot};
use crate::node::NODES;
use crate::objects::{delete, difference, free_name};
use crate::pod::PODS;

const SLICES: GroupResource = ("discovery.k8s.io", "endpointslices");
/// Labels with the Service and the controller of a slice, and the value of the latter.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";
/// Label of a Node with its zone.
const ZONE: &str = "topology.kubernetes.io/zone";
/// Endpoints in one slice; upstream's default.
const ENDPOINTS_MAX: usize = 100;

/// Simulates the controller of EndpointSlices.
#[derive(Debug)]
pub(crate) struct EndpointSlicesActor;

/// The slices of a Service that have to change.
#[derive(Debug, Default)]
struct SliceChanges<'a> {
    create: Vec<SliceContent>,
    /// Slices that stay, also those that have this content already.
    update: Vec<(&'a ObjectSnapshot, SliceContent)>,
    delete: Vec<&'a ObjectSnapshot>,
}

/// What a slice should hold.
#[derive(Debug, Clone)]
struct SliceContent {
    family: String,
    ports: Vec<ServedPort>,
    endpoints: Vec<Value>,
}

/// The endpoints of one set of ports, by address, host name and Pod.
type EndpointGroup = BTreeMap<(Vec<String>, String, String), Value>;

// === impl EndpointSlicesActor ===

impl Actor for EndpointSlicesActor {
    const NAME: &'static str = "simulated-endpointslices";
    const REPORTER: &'static str = "endpoint-slice-controller";
    const KINDS: &'static [GroupResource] = &[SERVICES, SLICES, PODS, NODES];

    fn decide(&self, cache: &ObjectCache, service: &ObjectSnapshot, _: Timestamp) -> ActorDecision {
        let Some(selector) = selector(service) else {
            return rest("the Service selects no Pods");
        };
        let pods = pods(cache, service, &selector);
        let changes = changes(cache, service, &pods);
        let wanted = slice_labels(service);
        if let (Some(content), false) = (changes.create.first(), service.is_deleting()) {
            let name = free_name(cache, service, SLICES);
            let slice = (name.as_str(), content.to_json(&wanted));
            return make(cache, service, SLICES, slice, "a slice is missing");
        }
        let update = changes
            .update
            .iter()
            .find_map(|(slice, content)| content.patch(slice, &wanted));
        if let Some(call) = update {
            return request(call, "the endpoints of a slice have changed");
        }
        match changes.delete.first() {
            Some(slice) => request(delete(slice), "a slice is not needed"),
            None => rest("the slices are up to date"),
        }
    }

    fn affected(&self, cache: &ObjectCache, object: &ObjectSnapshot) -> Vec<NamespacedName> {
        let is_of = |named| cache.served(named).map(|(id, _)| id) == Some(object.kind());
        if is_of(SLICES) {
            let service = object.at("/metadata/labels")[SERVICE_NAME].as_str();
            let key = service.map(|name| NamespacedName::new(&object.meta().namespace, name));
            return key.into_iter().collect();
        }
        // The Pods of a Node that comes or goes change as well.
        if is_of(NODES) {
            return Vec::new();
        }
        let uid = object.meta().uid.to_string();
        services_of(cache, object, |service| {
            let mut slices = of_service(cache, service);
            slices.any(|slice| lists(slice, &uid))
        })
    }
}

// === impl SliceContent ===

impl SliceContent {
    fn to_json(&self, labels: &Map<String, Value>) -> Value {
        let ports: Vec<Value> = self.ports.iter().map(ServedPort::to_json).collect();
        json!({"metadata": {"labels": labels}, "addressType": self.family, "ports": ports,
            "endpoints": self.endpoints})
    }

    /// The patch that gives a slice this content and these labels; `None` if it has them.
    fn patch(&self, slice: &ObjectSnapshot, labels: &Map<String, Value>) -> Option<ApiCall> {
        let wanted = self.to_json(labels);
        let mut patch = Map::new();
        let labels = &wanted["metadata"]["labels"];
        if let Some(labels) = difference(slice.at("/metadata/labels"), labels) {
            patch.insert("metadata".to_owned(), json!({"labels": labels}));
        }
        if served(slice) != self.ports {
            patch.insert("ports".to_owned(), wanted["ports"].clone());
        }
        let known = slice.items("/endpoints").iter().map(comparable);
        if !known.eq(self.endpoints.iter().cloned()) {
            patch.insert("endpoints".to_owned(), wanted["endpoints"].clone());
        }
        (!patch.is_empty()).then(|| ApiCall::Patch {
            target: slice.target(),
            judged: slice.judged(),
            subresource: None,
            form: PatchForm::Merge,
            patch: patch.into(),
        })
    }
}

/// All changes that the slices of a Service need.
fn changes<'a>(
    cache: &'a ObjectCache,
    service: &ObjectSnapshot,
    pods: &[&ObjectSnapshot],
) -> SliceChanges<'a> {
    let mut all = SliceChanges::default();
    let families = families(service);
    let (own, foreign): (Vec<&ObjectSnapshot>, Vec<&ObjectSnapshot>) = of_service(cache, service)
        .partition(|slice| {
            slice.is_controlled_by(service) && families.contains(&slice.text("/addressType"))
        });
    for family in &families {
        let own = own.iter().copied();
        let own: Vec<&ObjectSnapshot> = own
            .filter(|slice| slice.text("/addressType") == *family)
            .collect();
        let changes = changes_of_family(cache, service, pods, own, family);
        all.create.extend(changes.create);
        all.update.extend(changes.update);
        all.delete.extend(changes.delete);
    }
    all.delete.extend(foreign);
    all
}

fn changes_of_family<'a>(
    cache: &'a ObjectCache,
    service: &ObjectSnapshot,
    pods: &[&ObjectSnapshot],
    own: Vec<&'a ObjectSnapshot>,
    family: &str,
) -> SliceChanges<'a> {
    let mut changes = SliceChanges::default();
    let wanted = groups(cache, service, pods, family);
    let mut known: Vec<(Vec<ServedPort>, Vec<&ObjectSnapshot>)> = Vec::new();
    for slice in own {
        let ports = served(slice);
        match known.iter_mut().find(|(known, _)| *known == ports) {
            Some((_, slices)) => slices.push(slice),
            None => known.push((ports, vec![slice])),
        }
    }
    for (ports, group) in wanted {
        let place = known.iter().position(|(known, _)| *known == ports);
        let slices = place.map(|place| known.swap_remove(place).1);
        let family = family.to_owned();
        let empty = SliceContent {
            family,
            ports,
            endpoints: Vec::new(),
        };
        distribute(slices.unwrap_or_default(), group, &empty, &mut changes);
    }
    changes
        .delete
        .extend(known.into_iter().flat_map(|(_, slices)| slices));
    if changes.create.is_empty() && changes.update.is_empty() {
        changes.create.push(SliceContent {
            family: family.to_owned(),
            ports: Vec::new(),
            endpoints: Vec::new(),
        });
    }
    // A slice that would go becomes one that is missing.
    while !changes.create.is_empty() && !changes.delete.is_empty() {
        let (slice, content) = (changes.delete.remove(0), changes.create.pop());
        changes
            .update
            .extend(content.map(|content| (slice, content)));
    }
    changes
}

/// Distributes the endpoints of one set of ports to its slices.
fn distribute<'a>(
    slices: Vec<&'a ObjectSnapshot>,
    mut group: EndpointGroup,
    empty: &SliceContent,
    changes: &mut SliceChanges<'a>,
) {
    let (mut changed, mut same) = (Vec::new(), Vec::new());
    for slice in slices {
        let known: Vec<Value> = slice.items("/endpoints").iter().map(comparable).collect();
        let kept: Vec<Value> = known
            .iter()
            .filter_map(|known| group.remove(&key_of(known)))
            .collect();
        let content = SliceContent {
            endpoints: kept.clone(),
            ..empty.clone()
        };
        match known == kept {
            true => same.push((slice, content)),
            false if kept.is_empty() => changes.delete.push(slice),
            false => changed.push((slice, content)),
        }
    }
    let mut left: Vec<Value> = group.into_values().collect();
    // The fullest first.
    changed
        .sort_by_key(|(_, content): &(_, SliceContent)| std::cmp::Reverse(content.endpoints.len()));
    for (_, content) in &mut changed {
        let room = ENDPOINTS_MAX.saturating_sub(content.endpoints.len());
        content.endpoints.extend(left.drain(..room.min(left.len())));
    }
    while !left.is_empty() {
        let room = |content: &SliceContent| {
            ENDPOINTS_MAX.checked_sub(content.endpoints.len() + left.len())
        };
        let fits = same
            .iter()
            .enumerate()
            .filter_map(|(place, (_, content))| Some((room(content)?, place)));
        if left.len() < ENDPOINTS_MAX
            && let Some((_, place)) = fits.min()
        {
            let (slice, mut content) = same.remove(place);
            content.endpoints.append(&mut left);
            changed.push((slice, content));
        } else {
            let count = left.len().min(ENDPOINTS_MAX);
            let endpoints = left.drain(..count).collect();
            changes.create.push(SliceContent {
                endpoints,
                ..empty.clone()
            });
        }
    }
    // The labels of the Service may have changed, so that all slices count as updates.
    changes.update.extend(changed.into_iter().chain(same));
}

/// The endpoints of a Service by the ports that their Pods serve.
fn groups(
    cache: &ObjectCache,
    service: &ObjectSnapshot,
    pods: &[&ObjectSnapshot],
    family: &str,
) -> Vec<(Vec<ServedPort>, EndpointGroup)> {
    let mut groups: Vec<(Vec<ServedPort>, EndpointGroup)> = Vec::new();
    for pod in pods {
        let ports = sorted(ports(service, pod));
        let place = groups.iter().position(|(known, _)| *known == ports);
        let place = place.unwrap_or_else(|| {
            groups.push((ports, EndpointGroup::new()));
            groups.len() - 1
        });
        if let Some(endpoint) = endpoint(cache, service, pod, family) {
            groups[place].1.insert(key_of(&endpoint), endpoint);
        }
    }
    groups
}

/// The endpoint of a Pod. A Pod whose Node does not exist has none, unless unready addresses are published.
fn endpoint(
    cache: &ObjectCache,
    service: &ObjectSnapshot,
    pod: &ObjectSnapshot,
    family: &str,
) -> Option<Value> {
    let publishes = *service.at("/spec/publishNotReadyAddresses") == true;
    let node_name = pod.text("/spec/nodeName");
    let node = cache.get(NODES, &NamespacedName::new("", node_name));
    let addresses = addresses(pod, family);
    if addresses.is_empty() || node.is_none() && !publishes {
        return None;
    }
    let (serving, terminating) = (pod.is_true("Ready"), pod.is_deleting());
    let mut endpoint = json!({"addresses": addresses, "targetRef": reference(pod), "conditions":
        {"ready": publishes || serving && !terminating, "serving": serving, "terminating": terminating}});
    if !node_name.is_empty() {
        endpoint["nodeName"] = node_name.into();
    }
    let zone = node.and_then(|node| node.at("/metadata/labels")[ZONE].as_str());
    if let Some(zone) = zone.filter(|zone| !zone.is_empty()) {
        endpoint["zone"] = zone.into();
    }
    if let Some(name) = host_name(service, pod) {
        endpoint["hostname"] = name.into();
    }
    Some(endpoint)
}

/// What identifies an endpoint among others.
fn key_of(endpoint: &Value) -> (Vec<String>, String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let addresses = endpoint["addresses"].as_array().into_iter().flatten();
    (
        addresses.map(text).collect(),
        text(&endpoint["hostname"]),
        text(&endpoint["targetRef"]["name"]),
    )
}

/// An endpoint of a slice with the members that this controller sets.
fn comparable(endpoint: &Value) -> Value {
    let mut endpoint = endpoint.clone();
    if let Some(members) = endpoint.as_object_mut() {
        members.remove("hints");
    }
    if let Some(reference) = endpoint["targetRef"].as_object_mut() {
        reference.remove("resourceVersion");
    }
    endpoint
}

/// The ports of a slice.
fn served(slice: &ObjectSnapshot) -> Vec<ServedPort> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let ports = slice.items("/ports").iter().map(|port| ServedPort {
        name: text(&port["name"]),
        number: port["port"].as_i64().unwrap_or(0),
        protocol: text(&port["protocol"]),
        app_protocol: port["appProtocol"].clone(),
    });
    sorted(ports.collect())
}

fn sorted(mut ports: Vec<ServedPort>) -> Vec<ServedPort> {
    ports.sort_by(|one, other| {
        (&one.name, one.number, &one.protocol).cmp(&(&other.name, other.number, &other.protocol))
    });
    ports
}

/// The slices that this controller has made for Services of this name.
fn of_service<'a>(
    cache: &'a ObjectCache,
    service: &ObjectSnapshot,
) -> impl Iterator<Item = &'a ObjectSnapshot> {
    let name = service.meta().name.to_string();
    let slices = cache.in_namespace(SLICES, &service.meta().namespace);
    slices.filter(move |slice| {
        let labels = slice.at("/metadata/labels");
        labels[SERVICE_NAME] == name.as_str()
            && labels[MANAGED_BY] == MANAGER
            && !slice.is_deleting()
    })
}

/// Whether a slice has an endpoint of the Pod with this uid.
fn lists(slice: &ObjectSnapshot, uid: &str) -> bool {
    let mut endpoints = slice.items("/endpoints").iter();
    endpoints.any(|endpoint| endpoint["targetRef"]["uid"] == uid)
}

fn slice_labels(service: &ObjectSnapshot) -> Map<String, Value> {
    let mut labels = labels(service, &[SERVICE_NAME, MANAGED_BY]);
    labels.insert(SERVICE_NAME.to_owned(), (*service.meta().name).into());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.into());
    labels
}
