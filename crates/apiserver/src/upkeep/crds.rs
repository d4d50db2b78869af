//! Deletes the custom resources of a CustomResourceDefinition that is being deleted, then the definition.
//!
//! It uses ordinary deletes, so finalizers are honoured. Mirrors the CRD finalizer, 1.36.

use std::sync::Weak;

use caretaker_machinery::status::Status;

use super::{PendingWork, TaskWake, objects};
use crate::deletion::DeleteOptions;
use crate::kinds::{CustomKind, ServedKind};
use crate::metadata;
use crate::server::ServerState;
use crate::store::ObjectKey;
use crate::strategy::crd::{FINALIZER, set_condition};
use crate::strategy::is_finished;
use crate::verbs::delete::delete_object;
use crate::verbs::write::{WriteMode, WritePlan, WriteTarget};

pub(super) async fn run(inner: Weak<ServerState>) {
    let Some(server) = inner.upgrade() else {
        return;
    };
    let definitions = server.builtin("apiextensions.k8s.io", "customresourcedefinitions");
    let mut wake = TaskWake::new(&server, &definitions);
    drop(server);
    loop {
        let Some(server) = inner.upgrade() else {
            return;
        };
        wake.mark_seen();
        let mut work = PendingWork::None;
        for kind in server.kinds().stored() {
            if let Some(custom) = kind.custom.as_ref().filter(|custom| custom.terminating) {
                finish(&server, &definitions, &kind, custom).await;
                work = PendingWork::Waiting;
            }
        }
        drop(server);
        if !wake.next(work).await {
            return;
        }
    }
}

async fn finish(
    inner: &ServerState,
    definitions: &ServedKind,
    kind: &ServedKind,
    custom: &CustomKind,
) {
    for object in objects(inner, kind, None) {
        if !metadata::is_deleting(&object.to_value()) {
            // An object that cannot be deleted is counted below.
            let _ = delete_object(inner, kind, &object.key, &DeleteOptions::default()).await;
        }
    }
    let left = objects(inner, kind, None).len();
    let key = ObjectKey::new(None, &custom.definition);
    let now = inner.clock.now();
    let target = WriteTarget {
        server: inner,
        kind: definitions,
        key: &key,
        mode: WriteMode::Real,
    };
    let change = target.commit(|current| {
        let current = current
            .ok_or_else(|| Status::not_found(definitions.resource_named(&custom.definition)))?;
        let mut tree = current.to_value();
        if !metadata::is_deleting(&tree) {
            return Ok(WritePlan::Keep);
        }
        let status = tree
            .entry("status")
            .or_insert_with(|| serde_json::json!({}));
        if left > 0 {
            let why = (
                "InstanceDeletionInProgress",
                "CustomResource deletion is in progress",
            );
            set_condition(status, "Terminating", "True", why, now);
            return Ok(WritePlan::Put(tree));
        }
        let why = ("InstanceDeletionCompleted", "removed all instances");
        set_condition(status, "Terminating", "False", why, now);
        let finalizers = metadata::finalizers(&tree)
            .into_iter()
            .filter(|name| name != FINALIZER);
        let finalizers: Vec<String> = finalizers.collect();
        metadata::set_finalizers(&mut tree, &finalizers);
        Ok(if is_finished(definitions, &tree) {
            WritePlan::Finish(tree)
        } else {
            WritePlan::Put(tree)
        })
    });
    // Not found: the definition is gone already.
    let _ = change.await;
}
