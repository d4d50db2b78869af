//! Deletes the custom resources of a CustomResourceDefinition that is being deleted, then the definition.
//!
//! It uses ordinary deletes, so finalizers are honoured. Mirrors the CRD finalizer, 1.36.

use std::sync::Weak;

use caretaker_machinery::status::Status;
use serde_json::json;

use super::{PendingWork, TaskWake, objects};
use crate::deletion::DeleteOptions;
use crate::kinds::{CustomKind, ServedKind};
use crate::metadata;
use crate::server::ServerState;
use crate::store::ObjectKey;
use crate::strategy::crd::{FINALIZER, set_condition};
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
        let status = tree.entry("status").or_insert_with(|| json!({}));
        if left > 0 {
            let message = "CustomResource deletion is in progress";
            let why = ("InstanceDeletionInProgress", message);
            set_condition(status, "Terminating", "True", why, now);
            return Ok(WritePlan::Put(tree));
        }
        let why = ("InstanceDeletionCompleted", "removed all instances");
        set_condition(status, "Terminating", "False", why, now);
        let mut finalizers = metadata::finalizers(&tree);
        finalizers.retain(|name| name != FINALIZER);
        metadata::set_finalizers(&mut tree, &finalizers);
        Ok(WritePlan::update(definitions, tree))
    });
    // Not found: the definition is gone already.
    let _ = change.await;
}
