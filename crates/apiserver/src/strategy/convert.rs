//! Conversion between the stored version of a resource and the versions that are served.
//!
//! Two built-in resources need it: Events, whose fields have other names in `events.k8s.io`, and `autoscaling/v1`, whose
//! single CPU target is one of the metrics of `v2`. Custom kinds convert by name only.

use serde_json::{Value, json};

use super::custom;
use crate::kinds::ServedKind;
use crate::metadata::ObjectTree;
use crate::store::StoredObject;

/// Names of an Event's fields in `events.k8s.io/v1` and in the core group, which is stored.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("deprecatedCount", "count"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedSource", "source"),
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("reportingController", "reportingComponent"),
];
const REPORTERS: [&str; 2] = ["reportingController", "reportingInstance"];
const CPU_TARGET: &str = "targetCPUUtilizationPercentage";

/// The difference between the objects of a row and the stored ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VersionConversion {
    None,
    Event,
    AutoscalerV1,
}

impl VersionConversion {
    fn of(kind: &ServedKind) -> Self {
        match (
            kind.group.as_str(),
            kind.version.as_str(),
            kind.plural.as_str(),
        ) {
            ("events.k8s.io", "v1", "events") => VersionConversion::Event,
            ("autoscaling", "v1", "horizontalpodautoscalers") => VersionConversion::AutoscalerV1,
            _ => VersionConversion::None,
        }
    }
}

/// Reports whether objects of this row are served as they are stored.
pub(crate) fn is_stored(kind: &ServedKind) -> bool {
    // Versions of a custom kind differ in their apiVersion, so a watch line of one is not a line of the other.
    VersionConversion::of(kind) == VersionConversion::None && kind.custom.is_none()
}

/// Returns the object in the version of `kind`; none if the stored bytes can be served.
pub(crate) fn from_stored(kind: &ServedKind, object: &StoredObject) -> Option<ObjectTree> {
    match VersionConversion::of(kind) {
        VersionConversion::None if custom::needs_conversion(kind, object) => {
            Some(custom::to_served(kind, object))
        }
        VersionConversion::None => None,
        conversion => Some(serve(conversion, object.to_value())),
    }
}

/// Returns the tree that a write starts from: as stored, and for a custom kind as its present schema prunes and defaults it.
pub(crate) fn current(kind: &ServedKind, object: &StoredObject) -> ObjectTree {
    match kind.custom {
        Some(_) => custom::to_served(kind, object),
        None => object.to_value(),
    }
}

/// Returns a stored tree in the version of `kind`.
pub(crate) fn served(kind: &ServedKind, stored: &ObjectTree) -> Value {
    let mut tree = serve(VersionConversion::of(kind), stored.clone());
    tree.insert("apiVersion".into(), kind.api_version().into());
    tree.insert("kind".into(), kind.kind.clone().into());
    Value::Object(tree)
}

/// Returns the stored form of a tree that a client sent in the version of `kind`.
pub(crate) fn to_stored(kind: &ServedKind, mut tree: ObjectTree) -> ObjectTree {
    match VersionConversion::of(kind) {
        VersionConversion::None => {}
        VersionConversion::Event => {
            for (served, stored) in EVENT_FIELDS {
                rename(&mut tree, served, stored);
            }
        }
        VersionConversion::AutoscalerV1 => cpu_target_to_metric(&mut tree),
    }
    tree
}

fn serve(conversion: VersionConversion, mut tree: ObjectTree) -> ObjectTree {
    match conversion {
        VersionConversion::None => {}
        VersionConversion::Event => {
            for (served, stored) in EVENT_FIELDS {
                rename(&mut tree, stored, served);
            }
            // The core group writes these as empty texts when they are absent.
            let absent = |field: &str, value: &Value| REPORTERS.contains(&field) && value == "";
            tree.retain(|field, value| !absent(field, value));
        }
        VersionConversion::AutoscalerV1 => metric_to_cpu_target(&mut tree),
    }
    tree
}

fn rename(tree: &mut ObjectTree, from: &str, to: &str) {
    if let Some(value) = tree.remove(from) {
        tree.insert(to.to_owned(), value);
    }
}

fn cpu_target_to_metric(tree: &mut ObjectTree) {
    let Some(spec) = tree.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(percent) = spec.remove(CPU_TARGET) {
        let metric = json!({"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": percent}}});
        spec.insert("metrics".into(), json!([metric]));
    }
}

/// Shows the CPU target; other metrics do not exist in the old version and stay stored.
fn metric_to_cpu_target(tree: &mut ObjectTree) {
    let Some(spec) = tree.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    let metrics = spec.remove("metrics").unwrap_or_default();
    let is_cpu =
        |metric: &&Value| metric["type"] == "Resource" && metric["resource"]["name"] == "cpu";
    let cpu = metrics.as_array().and_then(|list| list.iter().find(is_cpu));
    let percent = cpu.map(|metric| metric["resource"]["target"]["averageUtilization"].clone());
    if let Some(percent) = percent.filter(Value::is_number) {
        spec.insert(CPU_TARGET.into(), percent);
    }
    if let Some(status) = tree.get_mut("status").and_then(Value::as_object_mut) {
        let keep = [
            "currentReplicas",
            "desiredReplicas",
            "lastScaleTime",
            "observedGeneration",
        ];
        status.retain(|name, _| keep.contains(&name.as_str()));
    }
}
