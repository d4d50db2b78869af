//! Validation of metadata: names, labels, owners, finalizers, and fields that an update may not change.
//!
//! Each cause is reported once. Upstream runs some rules more than once and repeats their causes; no client depends on it.

use caretaker_machinery::names::{self, NameRule};
use caretaker_machinery::status::StatusCause;
use serde::Serialize;
use serde_json::Value;

use super::{ObjectTree, finalizers, get, is_deleting, text};
use crate::kinds::{ServedKind, split_group};

/// Most bytes of all annotations of an object.
const ANNOTATION_BYTES_MAX: usize = 256 * 1024;
/// Finalizers that need no domain: those of the garbage collector and of namespaces.
pub(crate) const STANDARD_FINALIZERS: [&str; 3] = [ORPHAN, FOREGROUND, "kubernetes"];
/// The garbage collector orphans the dependents before the object is removed.
pub(crate) const ORPHAN: &str = "orphan";
/// The garbage collector deletes the dependents before the object is removed.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// The message for an unknown finalizer of a built-in kind.
pub(crate) const UNKNOWN_FINALIZER: &str =
    "name is neither a standard finalizer name nor is it fully qualified";

/// Reports whether a finalizer is one of the standard ones or names its domain.
pub(crate) fn is_known_finalizer(finalizer: &str) -> bool {
    finalizer.contains('/') || STANDARD_FINALIZERS.contains(&finalizer)
}

/// Returns why an object's metadata is refused.
pub(crate) fn faults(kind: &ServedKind, object: &ObjectTree) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    name_faults(kind, object, &mut causes);
    label_faults(object, &mut causes);
    annotation_faults(object, &mut causes);
    owner_faults(object, &mut causes);
    let is_standard = kind.custom.is_none() && !kind.rules.free_finalizers;
    finalizer_faults(is_standard, object, &mut causes);
    causes
}

/// Returns why the metadata of an embedded object at `path` is refused.
pub(crate) fn embedded_faults(metadata: &ObjectTree, path: &str) -> Vec<StatusCause> {
    let object = ObjectTree::from_iter([("metadata".to_owned(), Value::Object(metadata.clone()))]);
    let mut causes = Vec::new();
    let name = text(&object, "name");
    let faults = NameRule::PathSegment.faults(name);
    refuse(&mut causes, "metadata.name", name, &faults);
    label_faults(&object, &mut causes);
    annotation_faults(&object, &mut causes);
    owner_faults(&object, &mut causes);
    finalizer_faults(false, &object, &mut causes);
    for cause in &mut causes {
        cause.field.replace_range(.."metadata".len(), path);
    }
    causes
}

/// Returns why the change of metadata by an update is refused.
pub(crate) fn update_faults(old: &ObjectTree, new: &ObjectTree) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    if is_deleting(old) {
        let known = finalizers(old);
        let mut added = finalizers(new);
        added.retain(|finalizer| !known.contains(finalizer));
        if !added.is_empty() {
            let shown: Vec<String> = added.iter().map(|name| format!("{name:?}")).collect();
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                shown.join(", ")
            );
            causes.push(StatusCause::forbidden("metadata.finalizers", &why));
        }
    }
    for field in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if get(old, field) != get(new, field) {
            let value = get(new, field);
            let path = format!("metadata.{field}");
            causes.push(StatusCause::invalid(path, value, "field is immutable"));
        }
    }
    causes
}

/// Returns why a prefix for names is refused. Upstream checks a prefix that ends in a dash with an `a` in the place of
/// its last two characters.
pub(crate) fn generate_name_faults(kind: &ServedKind, object: &ObjectTree) -> Vec<StatusCause> {
    let prefix = text(object, "generateName");
    if prefix.is_empty() {
        return Vec::new();
    }
    let mut shown = prefix.to_owned();
    if prefix.len() > 1 && prefix.ends_with('-') {
        shown.pop();
        shown.pop();
        shown.push('a');
    }
    let mut causes = Vec::new();
    let faults = kind.rules.names.faults(&shown);
    refuse(&mut causes, "metadata.generateName", prefix, &faults);
    causes
}

/// Adds a cause for each fault of a value.
fn refuse(causes: &mut Vec<StatusCause>, field: &str, value: &str, faults: &[String]) {
    let faults = faults.iter();
    causes.extend(faults.map(|fault| StatusCause::invalid(field, value, fault)));
}

fn name_faults(kind: &ServedKind, object: &ObjectTree, causes: &mut Vec<StatusCause>) {
    let name = text(object, "name");
    if name.is_empty() {
        let why = "name or generateName is required";
        causes.push(StatusCause::required("metadata.name", why));
    } else {
        let faults = kind.rules.names.faults(name);
        refuse(causes, "metadata.name", name, &faults);
    }
    let generation = get(object, "generation").and_then(Value::as_i64);
    if let Some(generation @ ..0) = generation {
        let why = "must be greater than or equal to 0";
        causes.push(StatusCause::invalid("metadata.generation", generation, why));
    }
}

fn label_faults(object: &ObjectTree, causes: &mut Vec<StatusCause>) {
    let labels = get(object, "labels").and_then(Value::as_object);
    for (key, value) in labels.into_iter().flatten() {
        refuse(causes, "metadata.labels", key, &names::qualified_name(key));
        let value = value.as_str().unwrap_or_default();
        refuse(causes, "metadata.labels", value, &names::label_value(value));
    }
}

fn annotation_faults(object: &ObjectTree, causes: &mut Vec<StatusCause>) {
    let annotations = get(object, "annotations").and_then(Value::as_object);
    let mut bytes = 0;
    for (key, value) in annotations.into_iter().flatten() {
        // Upper case is allowed in annotation keys, prefix included.
        let faults = names::qualified_name(&key.to_lowercase());
        refuse(causes, "metadata.annotations", key, &faults);
        bytes += key.len() + value.as_str().unwrap_or_default().len();
    }
    if bytes > ANNOTATION_BYTES_MAX {
        let cause = StatusCause::too_long("metadata.annotations", ANNOTATION_BYTES_MAX);
        causes.push(cause);
    }
}

fn owner_faults(object: &ObjectTree, causes: &mut Vec<StatusCause>) {
    let field = "metadata.ownerReferences";
    let owners = get(object, "ownerReferences").and_then(Value::as_array);
    let owners = owners.map(Vec::as_slice).unwrap_or_default();
    let part = |owner: &Value, name: &str| owner[name].as_str().unwrap_or_default().to_owned();
    for owner in owners {
        let part = |name: &str| part(owner, name);
        let api_version = part("apiVersion");
        let (group, version) = split_group(&api_version);
        if version.is_empty() || version.contains('/') {
            let (path, why) = (format!("{field}.apiVersion"), "version must not be empty");
            causes.push(StatusCause::invalid(path, &api_version, why));
        }
        for name in ["kind", "name", "uid"] {
            if part(name).is_empty() {
                let path = format!("{field}.{name}");
                causes.push(StatusCause::invalid(path, "", "must not be empty"));
            }
        }
        if (group, version, part("kind").as_str()) == ("", "v1", "Event") {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            causes.push(StatusCause::invalid(field, shown(owner), why));
        }
    }
    let controllers = owners.iter().filter(|owner| owner["controller"] == true);
    let mut controllers =
        controllers.map(|owner| format!("{}/{}", part(owner, "kind"), part(owner, "name")));
    if let (Some(first), Some(second)) = (controllers.next(), controllers.next()) {
        let why = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
        );
        let all: Vec<ShownOwner<'_>> = owners.iter().map(shown).collect();
        causes.push(StatusCause::invalid(field, all, &why));
    }
}

/// An owner reference as messages show it: fields in the order of their declaration.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownOwner<'a> {
    api_version: &'a Value,
    kind: &'a Value,
    name: &'a Value,
    uid: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    controller: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_owner_deletion: Option<&'a Value>,
}

fn shown(owner: &Value) -> ShownOwner<'_> {
    ShownOwner {
        api_version: &owner["apiVersion"],
        kind: &owner["kind"],
        name: &owner["name"],
        uid: &owner["uid"],
        controller: owner.get("controller"),
        block_owner_deletion: owner.get("blockOwnerDeletion"),
    }
}

/// `is_standard`: a finalizer must be a standard one or name its domain.
fn finalizer_faults(is_standard: bool, object: &ObjectTree, causes: &mut Vec<StatusCause>) {
    let list = finalizers(object);
    for (index, finalizer) in list.iter().enumerate() {
        let faults = names::qualified_name(finalizer);
        refuse(causes, "metadata.finalizers", finalizer, &faults);
        if is_standard && !is_known_finalizer(finalizer) {
            let path = format!("metadata.finalizers[{index}]");
            causes.push(StatusCause::invalid(path, finalizer, UNKNOWN_FINALIZER));
        }
    }
    let has = |name: &str| list.iter().any(|finalizer| finalizer == name);
    if has(ORPHAN) && has(FOREGROUND) {
        let why = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        causes.push(StatusCause::invalid("metadata.finalizers", list, &why));
    }
}
