//! Removes the objects of a custom kind whose definition is being deleted, then the definition.
//!
//! Objects are deleted as anyone would delete them, so their finalizers hold. Mirrors the CRD finalizer, 1.36.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::{alive, builtin};
use crate::deletion::DeleteOptions;
use crate::kinds::Kind;
use crate::metadata;
use crate::server::Inner;
use crate::store::{Keep, Key, Object, Scope};
use crate::strategy::crd::{FINALIZER, set_condition};
use crate::strategy::is_finished;
use crate::verbs::commit::{self, Mode, Plan};
use crate::verbs::delete::delete_one;

/// Writes that come in one burst are looked at together.
const SETTLE: Duration = Duration::from_millis(2);

pub(super) async fn run(inner: Weak<Inner>) {
    let Some(mut changed) = alive(&inner).map(|inner| inner.store.subscribe_all()) else {
        return;
    };
    loop {
        let Some(server) = alive(&inner) else { return };
        changed.mark_unchanged();
        let kinds = server.kinds().stored();
        let ending = kinds.iter().filter(|kind| {
            kind.custom
                .as_ref()
                .is_some_and(|custom| custom.terminating)
        });
        for kind in ending {
            finish(&server, kind).await;
        }
        drop(server);
        if changed.changed().await.is_err() {
            return;
        }
        tokio::time::sleep(SETTLE).await;
    }
}

async fn finish(inner: &Inner, kind: &Kind) {
    for object in objects(inner, kind) {
        if !metadata::is_deleting(&object.to_value()) {
            // What cannot be deleted now is still there below.
            let _ = delete_one(inner, kind, &object.key, &DeleteOptions::default()).await;
        }
    }
    let Some(custom) = &kind.custom else { return };
    let left = objects(inner, kind).len();
    let definitions = builtin(inner, "apiextensions.k8s.io", "customresourcedefinitions");
    let key = Key::new(None, &custom.definition);
    let now = inner.clock.now();
    let change = commit::commit(inner, &definitions, &key, Mode::Real, |current| {
        let Some(current) = current else {
            return Ok(Plan::Keep);
        };
        let mut tree = current.to_value();
        if !metadata::is_deleting(&tree) {
            return Ok(Plan::Keep);
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
            return Ok(Plan::Put(tree));
        }
        let why = ("InstanceDeletionCompleted", "removed all instances");
        set_condition(status, "Terminating", "False", why, now);
        let finalizers = metadata::finalizers(&tree)
            .into_iter()
            .filter(|name| name != FINALIZER);
        let finalizers: Vec<String> = finalizers.collect();
        metadata::set_finalizers(&mut tree, &finalizers);
        Ok(if is_finished(&definitions, &tree) {
            Plan::Finish(tree)
        } else {
            Plan::Put(tree)
        })
    });
    // A definition that is gone, or a lost race, is the next pass's business.
    let _ = tokio::time::timeout(Duration::from_secs(1), change).await;
}

fn objects(inner: &Inner, kind: &Kind) -> Vec<Arc<Object>> {
    let keep = Keep {
        matches: &|_| true,
        limit: None,
    };
    let page = inner
        .store
        .list(kind.resource, &Scope::default(), None, &keep);
    page.map(|page| page.objects).unwrap_or_default()
}
