//! The number of Pods that the controllers of some Pods want together.
//!
//! A ReplicaSet of a Deployment counts as the Deployment. A custom object is read when it is needed, because this actor does
//! not watch its kind; upstream reads its scale subresource at the same moments.

use std::collections::BTreeMap;

use caretaker_controllers::runtime::call::{ApiCall, CallTarget};
use caretaker_controllers::runtime::kind::KindId;
use caretaker_controllers::runtime::record::{OwnerRef, Uid};
use jiff::Timestamp;
use serde_json::Value;

use crate::actor::NamespacedName;
use crate::cache::{GroupResource, ObjectCache, ObjectSnapshot};

const CRDS: GroupResource = ("apiextensions.k8s.io", "customresourcedefinitions");
const REPLICA_SETS: GroupResource = ("apps", "replicasets");
const DEPLOYMENTS: GroupResource = ("apps", "deployments");
/// Kinds whose objects have `spec.replicas`: group, kind and resource.
const WORKLOADS: [(&str, &str, GroupResource); 4] = [
    ("apps", "ReplicaSet", REPLICA_SETS),
    ("apps", "Deployment", DEPLOYMENTS),
    ("apps", "StatefulSet", ("apps", "statefulsets")),
    ("", "ReplicationController", ("", "replicationcontrollers")),
];

/// How many Pods are expected.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ExpectedPods {
    pub(super) count: usize,
    /// Some Pods have no controller, and do not count.
    pub(super) has_unmanaged: bool,
}

/// The number of expected Pods is not known.
#[derive(Debug)]
pub(super) enum ScaleError {
    /// A custom object has to be read first.
    Unknown(ApiCall),
    /// A Pod has a controller without a scale.
    Failed(String),
}

// === impl ExpectedPods ===

impl ExpectedPods {
    /// Adds up what the controllers of these Pods want.
    pub(super) fn of(
        cache: &ObjectCache,
        pods: &[&ObjectSnapshot],
        now: Timestamp,
    ) -> Result<Self, ScaleError> {
        let mut scales: BTreeMap<Uid, usize> = BTreeMap::new();
        let mut has_unmanaged = false;
        for pod in pods {
            let Some(owner) = pod.controller() else {
                has_unmanaged = true;
                continue;
            };
            if scales.contains_key(&owner.uid) {
                continue;
            }
            let found = of_workload(cache, pod, owner);
            let found = match found {
                Some(found) => Some(found),
                None => of_custom(cache, pod, owner, now)?,
            };
            let (uid, scale) = found.ok_or_else(|| {
                let name = &pod.meta().name;
                ScaleError::Failed(format!("found no controllers for pod {name:?}"))
            })?;
            scales.insert(uid, scale);
        }
        Ok(Self {
            count: scales.values().sum(),
            has_unmanaged,
        })
    }
}

/// The workload that manages a Pod and its scale. A ReplicaSet's Deployment takes its place.
fn of_workload(
    cache: &ObjectCache,
    pod: &ObjectSnapshot,
    owner: &OwnerRef,
) -> Option<(Uid, usize)> {
    let namespace = &pod.meta().namespace;
    let object = owned_by(cache, namespace, owner)?;
    let above = object
        .controller()
        .filter(|above| *above.kind == *"Deployment");
    let above = above.and_then(|above| owned_by(cache, namespace, above));
    let object = above.unwrap_or(object);
    Some((
        object.meta().uid.clone(),
        number(object.at("/spec/replicas")),
    ))
}

fn owned_by<'a>(
    cache: &'a ObjectCache,
    namespace: &str,
    owner: &OwnerRef,
) -> Option<&'a ObjectSnapshot> {
    let (group, _) = owner.api_version.split_once('/').unwrap_or_default();
    let mut workloads = WORKLOADS.iter();
    let (.., named) = workloads.find(|(of, kind, _)| *of == group && **kind == *owner.kind)?;
    let object = cache.get(*named, &NamespacedName::new(namespace, &owner.name))?;
    (object.meta().uid == owner.uid).then_some(object)
}

/// The scale of a custom object, by the path in the definition of its kind. `None` if the object is another one.
fn of_custom(
    cache: &ObjectCache,
    pod: &ObjectSnapshot,
    owner: &OwnerRef,
    now: Timestamp,
) -> Result<Option<(Uid, usize)>, ScaleError> {
    let (kind, api_version) = (&owner.kind, &owner.api_version);
    let Some(id) = cache.resolve(api_version, kind) else {
        let why = format!("no matches for kind {kind:?} in version {api_version:?}");
        return Err(ScaleError::Failed(why));
    };
    let (group, _) = api_version.split_once('/').unwrap_or_default();
    if WORKLOADS
        .iter()
        .any(|(of, known, _)| *of == group && **known == **kind)
    {
        return Ok(None);
    }
    let Some(path) = scale_path(cache, id, api_version) else {
        let named = cache.kind(id).map(|kind| match &*kind.group {
            "" => kind.resource.to_string(),
            group => format!("{}.{group}", kind.resource),
        });
        let named = named.unwrap_or_default();
        let why = format!("{named} does not implement the scale subresource");
        return Err(ScaleError::Failed(why));
    };
    let target = CallTarget::new(id, pod.meta().namespace.clone(), owner.name.clone());
    let Some(object) = cache.fetched(&target, now) else {
        return Err(ScaleError::Unknown(ApiCall::Get { target }));
    };
    let Some(object) = object.filter(|object| object.meta().uid == owner.uid) else {
        return Ok(None);
    };
    Ok(Some((owner.uid.clone(), number(object.at(&path)))))
}

/// The JSON pointer to the number of Pods in objects of a custom kind; `None` if the kind has no scale subresource.
fn scale_path(cache: &ObjectCache, id: KindId, api_version: &str) -> Option<String> {
    let kind = cache.kind(id)?;
    let (_, version) = api_version.split_once('/')?;
    let name = format!("{}.{}", kind.resource, kind.group);
    let definition = cache.get(CRDS, &NamespacedName::new("", &name))?;
    let mut versions = definition.items("/spec/versions").iter();
    let version = versions.find(|known| known["name"] == version)?;
    let path = version["subresources"]["scale"]["specReplicasPath"].as_str()?;
    Some(path.replace('.', "/"))
}

fn number(value: &Value) -> usize {
    let number = value.as_u64().unwrap_or(0);
    usize::try_from(number).unwrap_or(usize::MAX)
}
