//! Rules of namespaces, which are deleted in two steps.
//!
//! A delete marks a namespace as terminating. The write that empties the last of `spec.finalizers` (the namespace
//! controller's) and `metadata.finalizers` removes it. Mirrors `registry/core/namespace`, 1.36.

use caretaker_machinery::names;
use caretaker_machinery::status::{Status, StatusCause};
use serde_json::json;

use super::{KindStrategy, ObjectChange, WriteContext};
use crate::deletion::{self, DeleteDecision, ObjectDelete};
use crate::kinds::ServedKind;
use crate::metadata::check::{UNKNOWN_FINALIZER, is_known_finalizer};
use crate::metadata::{self, ObjectTree, strings, value_at};
use crate::server::ServerState;
use crate::store::ObjectKey;
use crate::upkeep::accounts;

/// The finalizer of the namespace controller.
pub(crate) const FINALIZER: &str = "kubernetes";
/// Namespaces that every cluster has.
pub(crate) const DEFAULT_NAMESPACES: [&str; 4] =
    ["default", "kube-node-lease", "kube-public", "kube-system"];
/// Those that the server refuses to delete.
const PROTECTED: [&str; 3] = ["default", "kube-public", "kube-system"];
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The rules of namespaces.
#[derive(Debug)]
pub(super) struct NamespaceStrategy;

// === impl NamespaceStrategy ===

impl KindStrategy for NamespaceStrategy {
    fn prepare_create(&self, object: &mut ObjectTree, _: WriteContext<'_>) {
        object.insert("status".into(), json!({"phase": "Active"}));
        let mut finalizers = finalizers(object);
        if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            finalizers.push(FINALIZER.into());
        }
        set_finalizers(object, &finalizers);
        set_name_label(object);
    }

    /// Only a write to `finalize` changes `spec.finalizers`.
    fn prepare_update(&self, old: &ObjectTree, new: &mut ObjectTree, _: WriteContext<'_>) {
        set_finalizers(new, &finalizers(old));
        set_name_label(new);
    }

    fn prepare_status(&self, _old: &ObjectTree, new: &mut ObjectTree, _: WriteContext<'_>) {
        set_name_label(new);
    }

    fn prepare_finalize(&self, old: &ObjectTree, new: &mut ObjectTree) {
        metadata::set(new, "status", old.get("status").cloned());
        let finalizers = finalizers(new);
        set_finalizers(new, &finalizers);
        set_name_label(new);
    }

    /// Refuses unknown finalizers, and a phase that contradicts the deletion.
    fn validate(&self, change: &ObjectChange<'_>) -> Vec<StatusCause> {
        let ObjectChange { new, old, .. } = *change;
        let mut causes = Vec::new();
        for (index, finalizer) in finalizers(new).iter().enumerate() {
            let path = || match old {
                None => "spec.finalizers".to_owned(),
                Some(_) => format!("spec.finalizers[{index}]"),
            };
            let faults = names::qualified_name(finalizer).into_iter();
            causes.extend(faults.map(|why| StatusCause::invalid(path(), finalizer, &why)));
            if !is_known_finalizer(finalizer) {
                causes.push(StatusCause::invalid(path(), finalizer, UNKNOWN_FINALIZER));
            }
        }
        let phase = value_at(new, "/status/phase").as_str().unwrap_or_default();
        let fault = match (metadata::is_deleting(new), phase) {
            (false, "Terminating") => "may only be 'Active' if `deletionTimestamp` is empty",
            (true, "Active") => "may only be 'Terminating' if `deletionTimestamp` is not empty",
            _ => return causes,
        };
        causes.push(StatusCause::invalid("status.Phase", phase, fault));
        causes
    }

    /// A namespace has its ServiceAccount before its create is answered.
    fn after_commit(&self, server: &ServerState, kind: &ServedKind, key: &ObjectKey) {
        if let Some(namespace) = server.store.get(kind.resource, key) {
            accounts::keep(server, &namespace);
        }
    }

    fn decide_delete(&self, delete: &ObjectDelete<'_>) -> Result<DeleteDecision, Status> {
        let name = metadata::text(delete.object, "name");
        if PROTECTED.contains(&name) {
            let why = "this namespace may not be deleted";
            return Err(Status::forbidden(delete.kind.resource_named(name), why));
        }
        let is_released = self.is_released(delete.object);
        Ok(deletion::decide_in_steps(delete, is_released, |changed| {
            let status = changed.entry("status").or_insert_with(|| json!({}));
            status["phase"] = "Terminating".into();
        }))
    }

    /// The namespace controller removes its finalizer when the namespace is empty.
    fn is_released(&self, object: &ObjectTree) -> bool {
        finalizers(object).is_empty()
    }
}

pub(crate) fn finalizers(object: &ObjectTree) -> Vec<String> {
    strings(value_at(object, "/spec/finalizers"))
}

/// Sets `spec.finalizers`; an empty list removes the field.
pub(crate) fn set_finalizers(object: &mut ObjectTree, finalizers: &[String]) {
    let spec = if finalizers.is_empty() {
        json!({})
    } else {
        json!({"finalizers": finalizers})
    };
    object.insert("spec".into(), spec);
}

/// Every namespace has its name as a label, so that selectors can name it.
fn set_name_label(object: &mut ObjectTree) {
    let name = metadata::text(object, "name").to_owned();
    let labels = metadata::of(object)
        .entry("labels")
        .or_insert_with(|| json!({}));
    if let (Some(labels), false) = (labels.as_object_mut(), name.is_empty()) {
        labels.insert(NAME_LABEL.into(), name.into());
    }
}
