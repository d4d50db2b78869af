//! Definitions of custom kinds: what they must say, and how they become rows of the kinds table.
//!
//! A definition is accepted and established in the write that stores it, and its kind is served before that write is
//! answered. DEVIATION(crd-established-at-once): upstream needs some 30 ms, and delays the first creates by 2 s; one process
//! has no replicas to wait for. Mirrors `apiextensions-apiserver`, 1.36. Schemas are stored, not yet applied.

mod check;
mod names;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::deletion::{self, Decision, DeleteOptions};
use crate::kinds::{Custom, Field, Generation, Kind, Kinds, Rules, Subresource};
use crate::metadata::{self, Tree};
use crate::server::Inner;
use crate::store::{Key, ResourceId};

pub(super) use check::faults;
use names::accept;

/// Holds a definition until its objects are gone.
pub(crate) const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

const ALL_VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];

/// Fills in what a definition may leave out, and accepts it.
pub(super) fn prepare_create(object: &mut Tree, kinds: &Kinds, now: Timestamp) {
    default_names(object);
    let mut status = json!({"storedVersions": storage_versions(object)});
    accept(object, &mut status, kinds, now);
    object.insert("status".into(), status);
}

pub(super) fn prepare_update(old: &Tree, new: &mut Tree, kinds: &Kinds, now: Timestamp) {
    default_names(new);
    let mut status = old.get("status").cloned().unwrap_or_else(|| json!({}));
    let stored = status["storedVersions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let mut stored: Vec<Value> = stored;
    for version in storage_versions(new) {
        if !stored.contains(&version) {
            stored.push(version);
        }
    }
    status["storedVersions"] = stored.into();
    if old.get("spec") != new.get("spec") {
        accept(new, &mut status, kinds, now);
    }
    new.insert("status".into(), status);
}

fn default_names(object: &mut Tree) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    spec.entry("conversion")
        .or_insert_with(|| json!({"strategy": "None"}));
    let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) else {
        return;
    };
    let kind = names
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if !kind.is_empty() {
        names
            .entry("singular")
            .or_insert_with(|| kind.to_lowercase().into());
        names
            .entry("listKind")
            .or_insert_with(|| format!("{kind}List").into());
    }
}

fn storage_versions(object: &Tree) -> Vec<Value> {
    let names = versions(object)
        .iter()
        .filter(|version| version["storage"] == true);
    names.map(|version| version["name"].clone()).collect()
}

fn versions(object: &Tree) -> &[Value] {
    let versions = object
        .get("spec")
        .and_then(|spec| spec["versions"].as_array());
    versions.map(Vec::as_slice).unwrap_or_default()
}

/// Sets a condition; its time moves only when its status does.
pub(crate) fn set_condition(
    status: &mut Value,
    kind: &str,
    value: &str,
    (reason, message): (&str, &str),
    now: Timestamp,
) {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else {
        return;
    };
    let found = conditions
        .iter_mut()
        .find(|condition| condition["type"] == kind);
    let since = match &found {
        Some(found) if found["status"] == value => found["lastTransitionTime"].clone(),
        _ => metadata::time(now).into(),
    };
    let condition = json!({"type": kind, "status": value, "reason": reason, "message": message,
        "lastTransitionTime": since});
    match found {
        Some(found) => *found = condition,
        None => conditions.push(condition),
    }
}

fn is_established(status: &Value) -> bool {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    conditions
        .into_iter()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

/// A definition stays until its objects are gone.
pub(super) fn decide_delete(
    kind: &Kind,
    object: &Tree,
    options: &DeleteOptions,
    now: Timestamp,
) -> Decision {
    let finalizers = metadata::finalizers(object);
    if metadata::is_deleting(object) {
        return if finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            Decision::Pending
        } else {
            deletion::decide(kind, object, options, now)
        };
    }
    let mut changed = object.clone();
    if let Decision::Keep(held) = deletion::decide(kind, object, options, now) {
        metadata::set_finalizers(&mut changed, &metadata::finalizers(&held));
    }
    let mut finalizers = metadata::finalizers(&changed);
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.into());
    }
    metadata::set_finalizers(&mut changed, &finalizers);
    metadata::of(&mut changed).insert("deletionTimestamp".into(), metadata::time(now).into());
    let why = (
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    );
    let status = changed.entry("status").or_insert_with(|| json!({}));
    set_condition(status, "Terminating", "True", why, now);
    Decision::Keep(changed)
}

/// Makes the kinds table follow the stored definition.
pub(super) fn sync(inner: &Inner, kind: &Kind, key: &Key) {
    let mut gone = None;
    inner.change_kinds(|kinds| {
        // Read under the table's lock: of two writers, the later one's definition is what stays.
        let stored = inner
            .store
            .get(kind.resource, key)
            .map(|object| object.to_value());
        let known = kinds
            .iter()
            .find(|row| {
                row.custom
                    .as_ref()
                    .is_some_and(|custom| custom.definition == key.name())
            })
            .map(|row| {
                (
                    row.resource,
                    row.custom.as_ref().map(|custom| custom.uid.clone()),
                )
            });
        let uid = stored
            .as_ref()
            .map(|object| metadata::text(object, "uid").to_owned());
        let resource = match known {
            Some((resource, known_uid)) if known_uid == uid => Some(resource),
            Some((resource, _)) => {
                kinds.remove(resource);
                gone = Some(resource);
                None
            }
            None => None,
        };
        if let Some(object) = stored.filter(|object| is_established(&object["status"])) {
            let resource = resource.unwrap_or_else(|| {
                let resource = kinds.allot();
                inner.store.open(resource);
                resource
            });
            kinds.remove(resource);
            rows(&object, resource)
                .into_iter()
                .for_each(|row| kinds.insert(row));
        }
    });
    if let Some(resource) = gone {
        inner.store.close(resource);
    }
}

/// A row for every version that is served.
fn rows(definition: &Tree, resource: ResourceId) -> Vec<Kind> {
    let spec = &definition["spec"];
    let names = &definition["status"]["acceptedNames"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| -> Vec<String> {
        let items = value.as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let terminating = metadata::is_deleting(definition);
    let served = versions(definition)
        .iter()
        .filter(|version| version["served"] == true);
    served
        .map(|version| Kind {
            resource,
            group: text(&spec["group"]),
            version: text(&version["name"]),
            plural: text(&names["plural"]),
            singular: text(&names["singular"]),
            kind: text(&names["kind"]),
            list_kind: text(&names["listKind"]),
            namespaced: spec["scope"] == "Namespaced",
            short_names: list(&names["shortNames"]),
            categories: list(&names["categories"]),
            verbs: ALL_VERBS.map(str::to_owned).to_vec(),
            subresources: subresources(version, &text(&names["kind"])),
            rules: Rules {
                generation: Generation::Content,
                fields: selectable(version),
                ..Rules::default()
            },
            custom: Some(Custom {
                definition: metadata::text(definition, "name").to_owned(),
                uid: metadata::text(definition, "uid").to_owned(),
                columns: version["additionalPrinterColumns"]
                    .as_array()
                    .cloned()
                    .unwrap_or_default(),
                terminating,
            }),
        })
        .collect()
}

fn subresources(version: &Value, kind: &str) -> Vec<Subresource> {
    let part = |name: &str, group: &str, version: &str, kind: &str| Subresource {
        name: name.into(),
        group: group.into(),
        version: version.into(),
        kind: kind.into(),
        verbs: ["get", "patch", "update"].map(str::to_owned).to_vec(),
    };
    let declared = |name: &str| version["subresources"].get(name).is_some();
    let mut parts = Vec::new();
    if declared("status") {
        parts.push(part("status", "", "", kind));
    }
    if declared("scale") {
        parts.push(part("scale", "autoscaling", "v1", "Scale"));
    }
    parts
}

fn selectable(version: &Value) -> Vec<Field> {
    let fields = version["selectableFields"].as_array().into_iter().flatten();
    fields
        .filter_map(|field| field["jsonPath"].as_str())
        .map(Field::custom)
        .collect()
}
