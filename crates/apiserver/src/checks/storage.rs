//! Rules of volumes, claims and storage classes that need more than one field.
//!
//! Mirrors `ValidatePersistentVolumeSpec`, `ValidatePersistentVolumeClaimSpec` of `core/validation` and `storage/validation`,
//! 1.36.

use caretaker_machinery::names::{label, qualified_name, subdomain};
use serde_json::Value;

use super::resources::parse;
use super::table::CheckFn;
use super::{Visit, find, list, text};

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
    ("volume-affinity-kept", volume_affinity_kept),
    ("driver-name", driver_name),
    ("attachment-source", attachment_source),
    ("attributes-driver", attributes_driver),
    ("csi-driver", csi_driver),
    ("csi-node-driver", csi_node_driver),
    ("csi-drivers-kept", csi_drivers_kept),
    ("topology-terms", topology_terms),
    ("csi-secrets", csi_secrets),
    ("topologies-differ", topologies_differ),
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

/// The name of a CSI driver, in whichever field the current struct has it.
fn driver_name(v: &mut Visit<'_>) {
    let field = match v.own_type() {
        "VolumeAttachmentSpec" => "attacher",
        "CSIPersistentVolumeSource" | "OpaqueDeviceConfiguration" | "ResourceSliceSpec" => "driver",
        _ => "name",
    };
    let name = v.get(field).as_str().unwrap_or_default();
    if name.is_empty() {
        return v.required(field, "");
    }
    if name.len() > 63 {
        v.too_long(field, 63);
    }
    v.invalid_all(field, name, &subdomain(&name.to_lowercase()));
}

fn attachment_source(v: &mut Visit<'_>) {
    let (inline, name) = (v.get("inlineVolumeSpec"), v.get("persistentVolumeName"));
    let why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (inline.is_null(), name.as_str()) {
        (true, None) => v.required("", why),
        (false, Some(_)) => v.forbidden("", why),
        (true, Some("")) => {
            let why = "must specify non empty persistentVolumeName";
            v.required("persistentVolumeName", why);
        }
        _ => {}
    }
    if let Some(name) = name.as_str() {
        v.invalid_all("persistentVolumeName", name, &subdomain(name));
    }
}

fn attributes_driver(v: &mut Visit<'_>) {
    let name = v.get("driverName").as_str().unwrap_or_default();
    if name.is_empty() {
        v.required("driverName", "");
    } else {
        let name = name.to_lowercase();
        v.invalid_all("driverName", &name, &qualified_name(&name));
    }
    let parameters = v.get("parameters").as_object();
    if parameters.is_none_or(serde_json::Map::is_empty) {
        v.required("parameters", "must contain at least one key/value pair");
    }
    if parameters.is_some_and(|map| map.contains_key("")) {
        v.invalid("parameters", "", "field can not be empty.");
    }
    for field in ["driverName", "parameters"] {
        if v.old.is_some_and(|old| find(old, field) != v.get(field)) {
            v.forbidden(field, &format!("updates to {field} are forbidden."));
        }
    }
}

fn csi_driver(v: &mut Visit<'_>) {
    // The messages name this field otherwise than the type does.
    if v.get("attachRequired").is_null() {
        v.required("attachedRequired", "");
    }
    for field in ["podInfoOnMount", "storageCapacity"] {
        if v.get(field).is_null() {
            v.required(field, "");
        }
    }
    let requests = list(v.get("tokenRequests"));
    for (at, request) in requests.iter().enumerate() {
        let audience = text(request, "audience");
        if requests[..at]
            .iter()
            .any(|other| text(other, "audience") == audience)
        {
            v.duplicate(&format!("tokenRequests[{at}].audience"), audience);
            continue;
        }
        if let Some(seconds @ ..600) = request["expirationSeconds"].as_i64() {
            let why = "may not specify a duration less than 10 minutes";
            v.invalid(
                &format!("tokenRequests[{at}].expirationSeconds"),
                seconds,
                why,
            );
        }
    }
    for mode in list(v.get("volumeLifecycleModes")) {
        let mode = mode.as_str().unwrap_or_default();
        if !["Persistent", "Ephemeral"].contains(&mode) {
            v.unsupported("volumeLifecycleModes", mode, &["Persistent", "Ephemeral"]);
        }
    }
    let kept = v.get("serviceAccountTokenInSecrets");
    if !kept.is_null() && requests.is_empty() {
        let why = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        v.invalid("serviceAccountTokenInSecrets", kept, why);
    }
    let fields = [
        ("attachedRequired", "attachRequired"),
        ("volumeLifecycleModes", "volumeLifecycleModes"),
    ];
    for (shown, field) in fields {
        let old = v.old.map(|old| &find(old, "spec")[field]);
        if old.is_some_and(|old| old != v.get(field)) {
            v.invalid(shown, v.get(field), "field is immutable");
        }
    }
}

fn csi_node_driver(v: &mut Visit<'_>) {
    let id = v.get("nodeID").as_str().unwrap_or_default();
    if id.len() > 192 {
        v.invalid("nodeID", id, "must be 192 characters or less");
    }
    let keys = list(v.get("topologyKeys"));
    for (at, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or_default();
        if name.is_empty() {
            v.required("", "");
        }
        if keys[..at].contains(key) {
            v.duplicate("", name);
        }
        v.invalid_all("", name, &qualified_name(name));
    }
}

/// An update keeps the drivers that it names, but for what they can attach.
fn csi_drivers_kept(v: &mut Visit<'_>) {
    let Some(old) = v.old else {
        return;
    };
    let rest = |driver: &Value| {
        let mut driver = driver.clone();
        driver
            .as_object_mut()
            .map(|driver| driver.remove("allocatable"));
        driver
    };
    for old in list(find(old, "spec.drivers")) {
        for new in list(find(v.new, "spec.drivers")) {
            if text(old, "name") == text(new, "name") && rest(old) != rest(new) {
                let shown = v.shown_struct("storage.v1.CSINodeDriver", &rest(new));
                let message = format!("Invalid value: {shown}: field is immutable");
                v.push("FieldValueInvalid", "spec.drivers", message);
            }
        }
    }
}

/// The Secrets of a volume driver have a name and a namespace.
fn csi_secrets(v: &mut Visit<'_>) {
    for field in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let secret = v.get(field);
        if secret.is_null() {
            continue;
        }
        for (part, faults) in [
            ("name", subdomain as fn(&str) -> Vec<String>),
            ("namespace", label),
        ] {
            let path = format!("{field}.{part}");
            match text(secret, part) {
                "" => v.required(&path, ""),
                name => v.invalid_all(&path, name, &faults(name)),
            }
        }
    }
}

/// No two terms allow the same topologies. Upstream takes a term without expressions for a repeated one.
fn topologies_differ(v: &mut Visit<'_>) {
    let terms = list(v.get("allowedTopologies"));
    for (at, term) in terms.iter().enumerate() {
        let is_empty = list(&term["matchLabelExpressions"]).is_empty();
        if is_empty || terms[..at].contains(term) {
            let path = format!("allowedTopologies[{at}].matchLabelExpressions");
            v.duplicate(&path, "");
        }
    }
}

fn topology_terms(v: &mut Visit<'_>) {
    let expressions = list(v.get("matchLabelExpressions"));
    for (at, expression) in expressions.iter().enumerate() {
        let own = |field: &str| format!("matchLabelExpressions[{at}].{field}");
        let values = list(&expression["values"]);
        if values.is_empty() {
            v.required(&own("values"), "");
        }
        for (number, value) in values.iter().enumerate() {
            if values[..number].contains(value) {
                let path = own(&format!("values[{number}]"));
                v.duplicate(&path, value.as_str().unwrap_or_default());
            }
        }
        let key = text(expression, "key");
        v.invalid_all(&own("key"), key, &qualified_name(key));
        if expressions[..at]
            .iter()
            .any(|other| text(other, "key") == key)
        {
            v.duplicate(&own("key"), key);
        }
    }
}

fn volume_affinity_kept(v: &mut Visit<'_>) {
    let affinity = find(v.new, "spec.nodeAffinity");
    let old = v
        .old
        .map_or(super::ABSENT, |old| find(old, "spec.nodeAffinity"));
    if !old.is_null() && old != affinity {
        let shown = v.shown_at("spec.nodeAffinity", affinity);
        let why = "field is immutable, except for updating from beta label to GA";
        v.push(
            "FieldValueInvalid",
            "nodeAffinity",
            format!("Invalid value: {shown}: {why}"),
        );
    }
}
