//! Empties terminating namespaces and finishes them. Mirrors the namespace controller's deletion, 1.36.
//!
//! Deletes Pods first, then all other objects with background propagation. If objects remain (a finalizer, the grace period
//! of a Pod), the conditions of the namespace list them, and the task checks again after the next write.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use caretaker_machinery::status::Status;
use serde_json::json;

use super::{PendingWork, TaskWake, objects};
use crate::deletion::{DeleteOptions, PropagationPolicy};
use crate::kinds::ServedKind;
use crate::metadata::{self, ObjectTree};
use crate::server::ServerState;
use crate::store::{ObjectKey, StoredObject};
use crate::strategy::crd::set_condition;
use crate::strategy::namespace::{FINALIZER, finalizers, set_finalizers};
use crate::verbs::delete::delete_object;
use crate::verbs::write::{WriteMode, WritePlan, WriteTarget};

/// The conditions of steps that cannot fail in this server: type, reason and message, as upstream.
const SUCCEEDED: [(&str, &str, &str); 3] = [
    (
        "NamespaceDeletionDiscoveryFailure",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
];

pub(super) async fn run(inner: Weak<ServerState>) {
    let Some(server) = inner.upgrade() else {
        return;
    };
    let kind = server.builtin("", "namespaces");
    let mut wake = TaskWake::new(&server, &kind);
    drop(server);
    loop {
        let Some(server) = inner.upgrade() else {
            return;
        };
        wake.mark_seen();
        let namespaces = objects(&server, &kind, None);
        let mut work = PendingWork::None;
        for namespace in namespaces.iter().filter(|object| is_terminating(object)) {
            finish(&server, &kind, namespace.key.name()).await;
            work = PendingWork::Waiting;
        }
        drop(server);
        if !wake.next(work).await {
            return;
        }
    }
}

fn is_terminating(namespace: &StoredObject) -> bool {
    namespace.fields.get(0) == Some("Terminating")
}

/// One pass over a namespace: deletes its objects, and finalizes it when none is left.
async fn finish(inner: &ServerState, kind: &ServedKind, namespace: &str) {
    let kinds: Vec<Arc<ServedKind>> = inner.kinds().stored();
    let (pods, others): (Vec<_>, Vec<_>) = kinds
        .into_iter()
        .filter(|kind| kind.namespaced && kind.allows("delete"))
        .partition(|kind| kind.group.is_empty() && kind.plural == "pods");
    let mut remains = empty(inner, &pods, namespace).await;
    if remains.is_empty() {
        remains = empty(inner, &others, namespace).await;
    }
    let key = ObjectKey::new(None, namespace);
    let now = inner.clock.now();
    let target = WriteTarget {
        server: inner,
        kind,
        key: &key,
        mode: WriteMode::Real,
    };
    let change = target.commit(|current| {
        let current = current.ok_or_else(|| Status::not_found(kind.resource_named(namespace)))?;
        let mut tree = current.to_value();
        if !metadata::is_deleting(&tree) {
            return Ok(WritePlan::Keep);
        }
        if remains.is_empty() {
            let mut left = finalizers(&tree);
            left.retain(|name| name != FINALIZER);
            set_finalizers(&mut tree, &left);
            return Ok(WritePlan::update(kind, tree));
        }
        explain(&mut tree, &remains, now);
        Ok(WritePlan::Put(tree))
    });
    // Not found: the namespace is gone already.
    let _ = change.await;
}

/// Deletes the objects of `kinds` in the namespace; returns the remaining ones.
async fn empty(
    inner: &ServerState,
    kinds: &[Arc<ServedKind>],
    namespace: &str,
) -> Vec<(Arc<ServedKind>, Vec<ObjectTree>)> {
    let options = DeleteOptions {
        policy: Some(PropagationPolicy::Background),
        ..DeleteOptions::default()
    };
    let mut remains = Vec::new();
    for kind in kinds {
        for object in objects(inner, kind, Some(namespace)) {
            if !metadata::is_deleting(&object.to_value()) {
                // An object that cannot be deleted is counted below.
                let _ = delete_object(inner, kind, &object.key, &options).await;
            }
        }
        let left: Vec<ObjectTree> = objects(inner, kind, Some(namespace))
            .iter()
            .map(|object| object.to_value())
            .collect();
        if !left.is_empty() {
            remains.push((kind.clone(), left));
        }
    }
    remains
}

/// Sets the conditions of a namespace that still has objects.
fn explain(
    namespace: &mut ObjectTree,
    remains: &[(Arc<ServedKind>, Vec<ObjectTree>)],
    now: jiff::Timestamp,
) {
    let mut content = Vec::new();
    let mut holders: BTreeMap<String, usize> = BTreeMap::new();
    for (kind, objects) in remains {
        let name = if kind.group.is_empty() {
            format!("{}.", kind.plural)
        } else {
            format!("{}.{}", kind.plural, kind.group)
        };
        content.push(format!("{name} has {} resource instances", objects.len()));
        for finalizer in objects.iter().flat_map(metadata::finalizers) {
            *holders.entry(finalizer).or_default() += 1;
        }
    }
    let held: Vec<String> = holders
        .iter()
        .map(|(name, count)| format!("{name} in {count} resource instances"))
        .collect();
    let content = content.join(", ");
    let content = format!("Some resources are remaining: {content}");
    let held = held.join(", ");
    let (is_held, reason, held) = match held.as_str() {
        "" => (
            "False",
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished".to_owned(),
        ),
        held => (
            "True",
            "SomeFinalizersRemain",
            format!("Some content in the namespace has finalizers remaining: {held}"),
        ),
    };
    let status = namespace.entry("status").or_insert_with(|| json!({}));
    for (condition, reason, message) in SUCCEEDED {
        set_condition(status, condition, "False", (reason, message), now);
    }
    let why = ("SomeResourcesRemain", content.as_str());
    set_condition(status, "NamespaceContentRemaining", "True", why, now);
    let why = (reason, held.as_str());
    set_condition(status, "NamespaceFinalizersRemaining", is_held, why, now);
}
