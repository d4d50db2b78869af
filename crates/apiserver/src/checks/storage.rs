//! Rules of volumes, claims and storage classes that need more than one field.
//!
//! Mirrors `ValidatePersistentVolumeSpec`, `ValidatePersistentVolumeClaimSpec` of `core/validation` and `storage/validation`,
//! 1.36.

use caretaker_machinery::names::{qualified_name, subdomain};
use serde_json::Value;

use super::resources::parse;
use super::table::CheckFn;
use super::{Visit, list, text};

pub(super) const CHECKS: &[(&str, CheckFn)] = &[
    ("access-modes", access_modes),
    ("volume-capacity", volume_capacity),
    ("claim-size", claim_size),
    ("data-source", data_source),
    ("data-sources", data_sources),
    ("root-recycling", root_recycling),
    ("provisioner", provisioner),
    ("attributes-class", attributes_class),
    ("volume-source-kept", volume_source_kept),
];

const MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

fn access_modes(v: &mut Visit<'_>) {
    let modes = list(v.get("accessModes"));
    for mode in modes {
        let mode = mode.as_str().unwrap_or_default();
        if !MODES.contains(&mode) {
            v.unsupported("accessModes", mode, &MODES);
        }
    }
    let (single, other): (Vec<&Value>, Vec<&Value>) =
        modes.iter().partition(|mode| **mode == "ReadWriteOncePod");
    let is_known = |mode: &&Value| mode.as_str().is_some_and(|mode| MODES.contains(&mode));
    if !single.is_empty() && other.iter().any(is_known) {
        let why = "may not use ReadWriteOncePod with other access modes";
        v.forbidden("accessModes", why);
    }
}

fn volume_capacity(v: &mut Visit<'_>) {
    let capacity = v.get("capacity");
    let members = capacity.as_object();
    let count = members.map_or(0, serde_json::Map::len);
    if count == 0 {
        v.required("capacity", "");
    }
    if count != 1 || capacity.get("storage").is_none() {
        v.unsupported_value(
            "capacity",
            members.map_or(&Value::Null, |_| capacity),
            &["storage"],
        );
    }
    for (name, amount) in members.into_iter().flatten() {
        let Some(amount) = parse(amount) else {
            continue;
        };
        let (shown, at) = (amount.to_string(), format!("capacity[{name}]"));
        if shown.starts_with('-') {
            let number = shown.parse::<i64>().unwrap_or(-1);
            v.invalid(&at, number, "must be a valid resource quantity");
        }
        if shown == "0" || shown.starts_with('-') {
            v.invalid(&at, &shown, "must be greater than zero");
        }
    }
}

fn claim_size(v: &mut Visit<'_>) {
    let at = "resources[storage]";
    match v.get("resources")["requests"].get("storage") {
        None => v.required(at, ""),
        Some(amount) => {
            let shown = amount.as_str().unwrap_or_default();
            if shown == "0" || shown.starts_with('-') {
                v.invalid(at, shown, "must be greater than zero");
            }
        }
    }
}

fn data_source(v: &mut Visit<'_>) {
    let of = |field: &str| v.get(field).as_str().unwrap_or_default();
    let (name, kind, group, namespace) = (of("name"), of("kind"), of("apiGroup"), of("namespace"));
    if name.is_empty() {
        v.required("name", "");
    }
    if kind.is_empty() {
        v.required("kind", "");
    }
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        v.invalid("", kind, why);
    }
    if !group.is_empty() {
        v.invalid_all("apiGroup", group, &subdomain(group));
    }
    if !namespace.is_empty() {
        let faults = caretaker_machinery::names::label(namespace);
        v.invalid_all("namespace", namespace, &faults);
    }
}

fn data_sources(v: &mut Visit<'_>) {
    let spec = v.here();
    let source = v.get("dataSource");
    // Upstream drops sources of other kinds of the core group when a claim is created.
    let is_dropped = v.old.is_none()
        && text(source, "apiGroup").is_empty()
        && text(source, "kind") != "PersistentVolumeClaim";
    for field in ["dataSource", "dataSourceRef"] {
        if spec.contains_key(field) && !(is_dropped && field == "dataSource") {
            v.path_each(field, data_source);
        }
    }
}

/// The root of a node is not emptied.
fn root_recycling(v: &mut Visit<'_>) {
    let path = text(v.get("hostPath"), "path");
    let is_root = !path.is_empty() && path.split('/').all(|part| part.is_empty() || part == ".");
    if is_root && v.get("persistentVolumeReclaimPolicy") == "Recycle" {
        let why = "may not be 'recycle' for a hostPath mount of '/'";
        v.forbidden("persistentVolumeReclaimPolicy", why);
    }
}

fn provisioner(v: &mut Visit<'_>) {
    let name = v.get("provisioner").as_str().unwrap_or_default();
    if name.is_empty() {
        return v.required("provisioner", "");
    }
    let name = name.to_lowercase();
    v.invalid_all("provisioner", &name, &qualified_name(&name));
}

fn attributes_class(v: &mut Visit<'_>) {
    let name = v
        .get("volumeAttributesClassName")
        .as_str()
        .unwrap_or_default();
    if !name.is_empty() {
        v.invalid_all("volumeAttributesClassName", name, &subdomain(name));
    }
}

/// Fields of a volume's spec that are not its source.
const VOLUME_FIELDS: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

/// A volume keeps its source and its mode. DEVIATION(validation): the message has no diff of the two.
fn volume_source_kept(v: &mut Visit<'_>) {
    let Some(old) = v.old else {
        return;
    };
    let source = |object: &Value| -> Vec<(String, Value)> {
        let members = object.as_object().into_iter().flatten();
        members
            .filter(|(name, _)| !VOLUME_FIELDS.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    let (new, old) = (v.get("spec"), super::find(old, "spec"));
    if source(new) != source(old) {
        let why = "spec.persistentvolumesource is immutable after creation";
        v.forbidden("spec.persistentvolumesource", why);
    }
    if new["volumeMode"] != old["volumeMode"] {
        v.invalid("volumeMode", &new["volumeMode"], "field is immutable");
    }
}
