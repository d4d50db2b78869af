//! Namespaces: they end in two steps, and the second needs somebody to have emptied them.
//!
//! A delete marks a namespace as terminating; it goes when both `spec.finalizers` (the namespace controller's) and
//! `metadata.finalizers` are empty, by whichever write empties the last. Mirrors `registry/core/namespace`, 1.36.

use caretaker_machinery::status::{Cause, Status};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::deletion::{self, Decision, DeleteOptions};
use crate::kinds::Kind;
use crate::metadata::check::{UNKNOWN_FINALIZER, is_known_finalizer};
use crate::metadata::{self, Tree};

/// The finalizer of the namespace controller.
pub(crate) const FINALIZER: &str = "kubernetes";
/// Namespaces that every cluster has; those marked cannot be deleted.
pub(crate) const DEFAULT_NAMESPACES: [(&str, Protected); 4] = [
    ("default", Protected::Yes),
    ("kube-node-lease", Protected::No),
    ("kube-public", Protected::Yes),
    ("kube-system", Protected::Yes),
];
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Whether a namespace may be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protected {
    Yes,
    No,
}

pub(super) fn prepare_create(object: &mut Tree) {
    object.insert("status".into(), json!({"phase": "Active"}));
    let mut finalizers = finalizers(object);
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.into());
    }
    set_finalizers(object, &finalizers);
    name_label(object);
}

/// Only the subresource changes `spec.finalizers`.
pub(super) fn prepare_update(old: &Tree, new: &mut Tree) {
    set_finalizers(new, &finalizers(old));
    name_label(new);
}

pub(super) fn prepare_finalize(old: &Tree, new: &mut Tree) {
    metadata::set(new, "status", old.get("status").cloned());
    let finalizers = finalizers(new);
    set_finalizers(new, &finalizers);
    name_label(new);
}

/// What a namespace may not say: finalizers nobody knows, and a phase that its deletion contradicts.
pub(super) fn faults(new: &Tree, old: Option<&Tree>) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (index, finalizer) in finalizers(new).iter().enumerate() {
        if !is_known_finalizer(finalizer) {
            let path = match old {
                None => "spec.finalizers".to_owned(),
                Some(_) => format!("spec.finalizers[{index}]"),
            };
            causes.push(Cause::invalid(path, finalizer, UNKNOWN_FINALIZER));
        }
    }
    let phase = new
        .get("status")
        .and_then(|status| status["phase"].as_str())
        .unwrap_or_default();
    let fault = match (metadata::is_deleting(new), phase) {
        (false, "Terminating") => "may only be 'Active' if `deletionTimestamp` is empty",
        (true, "Active") => "may only be 'Terminating' if `deletionTimestamp` is not empty",
        _ => return causes,
    };
    causes.push(Cause::invalid("status.Phase", phase, fault));
    causes
}

/// A precondition that does not hold, in the words of this kind.
pub(super) fn conflict(kind: &Kind, name: &str, what: &str, wanted: &str, found: &str) -> Status {
    let why = format!(
        "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
    );
    Status::conflict(kind.resource_named(name), &why)
}

pub(super) fn decide_delete(
    kind: &Kind,
    object: &Tree,
    options: &DeleteOptions,
    now: Timestamp,
) -> Result<Decision, Status> {
    let name = metadata::text(object, "name");
    if DEFAULT_NAMESPACES.contains(&(name, Protected::Yes)) {
        let why = "this namespace may not be deleted";
        return Err(Status::forbidden(kind.resource_named(name), why));
    }
    if metadata::is_deleting(object) {
        return Ok(if is_finalized(object) {
            deletion::decide(kind, object, options, now)
        } else {
            Decision::Pending
        });
    }
    let mut changed = object.clone();
    // The collector's finalizers, as for any object; but the namespace stays whatever they say.
    if let Decision::Keep(held) = deletion::decide(kind, object, options, now) {
        metadata::set_finalizers(&mut changed, &metadata::finalizers(&held));
    }
    let deadline = metadata::time(now);
    metadata::of(&mut changed).insert("deletionTimestamp".into(), deadline.into());
    let status = changed.entry("status").or_insert_with(|| json!({}));
    status["phase"] = "Terminating".into();
    Ok(Decision::Keep(changed))
}

/// Whether the namespace controller has let go.
pub(crate) fn is_finalized(object: &Tree) -> bool {
    finalizers(object).is_empty()
}

/// `spec.finalizers`.
pub(crate) fn finalizers(object: &Tree) -> Vec<String> {
    let list = object
        .get("spec")
        .and_then(|spec| spec["finalizers"].as_array());
    let names = list.into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}

/// Sets `spec.finalizers`; none means no field.
pub(crate) fn set_finalizers(object: &mut Tree, finalizers: &[String]) {
    let spec = if finalizers.is_empty() {
        json!({})
    } else {
        json!({"finalizers": finalizers})
    };
    object.insert("spec".into(), spec);
}

/// Every namespace bears its name as a label, so that selectors can name it.
pub(super) fn name_label(object: &mut Tree) {
    let name = metadata::text(object, "name").to_owned();
    let labels = metadata::of(object)
        .entry("labels")
        .or_insert_with(|| json!({}));
    if let (Some(labels), false) = (labels.as_object_mut(), name.is_empty()) {
        labels.insert(NAME_LABEL.into(), name.into());
    }
}
