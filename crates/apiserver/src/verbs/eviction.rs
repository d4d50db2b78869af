//! The subresource `eviction`: the delete of a Pod that respects PodDisruptionBudgets.
//!
//! An Eviction is not stored. The server looks up the budget of the Pod, counts the disruption in the status of the
//! budget, sets the condition `DisruptionTarget` of the Pod, and deletes it. [`budget`] decides; a controller of budgets
//! (`simulator::disruption`, or upstream's) computes the numbers it decides by. Mirrors `EvictionREST` of
//! `registry/core/pod/storage/eviction.go`, 1.36.

mod budget;

use std::sync::Arc;

use caretaker_machinery::selector::LabelSelector;
use caretaker_machinery::status::{Status, StatusCause};
use serde_json::{Value, json};

use self::budget::PodGuard;
use super::decode::{DecodedBody, set_namespace};
use super::delete::{check_preconditions, delete_object};
use super::write::{WriteMode, WritePlan, WriteTarget};
use super::{ResourceRequest, VerbReply, decode};
use crate::body;
use crate::deletion::DeleteOptions;
use crate::kinds::ServedKind;
use crate::metadata::{self, ObjectTree, value_at};
use crate::server::ServerState;
use crate::store::{ListScope, ObjectKey, PageFilter, StoredObject};
use crate::strategy;
use crate::types;

/// Most attempts to evict a Pod that changes meanwhile, as upstream.
const ATTEMPTS_MAX: usize = 20;
/// Versions of Eviction, which do not differ. The older one is accepted, but no longer served otherwise.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const UNSAFE_DELETE: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

/// An eviction of one Pod.
struct PodEviction<'a> {
    server: &'a ServerState,
    pods: &'a ServedKind,
    key: ObjectKey,
    /// As the client sent them.
    options: DeleteOptions,
}

pub(super) async fn create(
    server: &ServerState,
    request: &ResourceRequest,
) -> Result<VerbReply, Status> {
    request.query.write_options("CreateOptions")?;
    let DecodedBody {
        tree: eviction,
        warnings,
    } = decode_eviction(server, request)?;
    if metadata::text(&eviction, "name") != request.name() {
        let why = "name in URL does not match name in Eviction object";
        return Err(Status::bad_request(why));
    }
    let given = value_at(&eviction, "/deleteOptions");
    if given[UNSAFE_DELETE] == true {
        let field = format!("deleteOptions.{UNSAFE_DELETE}");
        let why = "can not be set for pod eviction, try after removing the option";
        let cause = StatusCause::invalid(field, true, why);
        let kind = eviction_kind(&request.kind, VERSIONS[0]);
        return Err(Status::invalid(
            kind.kind_named(request.name()),
            vec![cause],
        ));
    }
    let mut given = given.as_object().cloned().unwrap_or_default();
    set_dry_run(&mut given, request)?;
    if server
        .store
        .get(request.kind.resource, &request.key())
        .is_none()
    {
        return Err(request.not_found());
    }
    let eviction = PodEviction {
        server,
        pods: &request.kind,
        key: request.key(),
        options: DeleteOptions::from_tree(&given)?,
    };
    eviction.run().await?;
    Ok(VerbReply::Status {
        status: Status::created(),
        warnings,
    })
}

// === impl PodEviction ===

impl PodEviction<'_> {
    async fn run(&self) -> Result<(), Status> {
        let mut attempts_left = ATTEMPTS_MAX;
        let pod = loop {
            let pod = self.pod()?;
            let mut options = self.options.clone();
            match budget::guard(&pod.to_value()) {
                PodGuard::Budget => break pod,
                PodGuard::None => {}
                PodGuard::Unchanged => {
                    let revision = pod.rev.to_string();
                    options.revision = options.revision.or(Some(revision));
                }
            }
            attempts_left -= 1;
            match self.mark_and_delete(options).await {
                Err(status) if status.is("Conflict") && self.may_retry(attempts_left) => {
                    tokio::task::yield_now().await;
                }
                result => return result,
            }
        };
        let budgets = self.budgets_of(&pod);
        match budgets.as_slice() {
            [] => self.mark_and_delete(self.options.clone()).await,
            [budget] => self.evict_within(&pod, budget).await,
            _ => Err(Status::unexplained(budget::SEVERAL)),
        }
    }

    /// Evicts a Pod that one budget guards.
    async fn evict_within(&self, pod: &StoredObject, budget: &StoredObject) -> Result<(), Status> {
        let mut options = self.options.clone();
        let is_counted = budget::is_counted(&pod.to_value(), &budget.to_value());
        if is_counted {
            self.count(budget).await?;
        } else {
            // It must not have become ready meanwhile.
            options.revision = Some(pod.rev.to_string());
        }
        match self.mark_and_delete(options).await {
            Err(status)
                if status.is("Conflict") && !is_counted && self.options.revision.is_none() =>
            {
                Err(budget::still_processed(budget.key.name()))
            }
            result => result,
        }
    }

    /// Counts the disruption in the status of a budget.
    async fn count(&self, budget: &StoredObject) -> Result<(), Status> {
        let budgets = self.server.builtin("policy", "poddisruptionbudgets");
        let now = self.server.clock.now();
        let target = WriteTarget {
            server: self.server,
            kind: &budgets,
            key: &budget.key,
            mode: WriteMode::dry_run(self.options.dry_run),
        };
        let count = target.commit(|current| {
            let name = budget.key.name();
            let missing = || Status::not_found(budgets.resource_named(name));
            let current = current.ok_or_else(missing)?.to_value();
            let counted = budget::count(&current, self.key.name(), now)?;
            Ok(WritePlan::Put(counted))
        });
        count.await.map(drop)
    }

    /// Sets the condition of the Pod, and deletes it.
    async fn mark_and_delete(&self, mut options: DeleteOptions) -> Result<(), Status> {
        if !options.dry_run {
            let now = metadata::time(self.server.clock.now());
            let target = WriteTarget {
                server: self.server,
                kind: self.pods,
                key: &self.key,
                mode: WriteMode::Real,
            };
            let mark = target.commit(|current| {
                let mut pod = current.ok_or_else(|| self.not_found())?.to_value();
                check_preconditions(self.pods, self.key.name(), &pod, &options)?;
                mark(&mut pod, &now);
                Ok(WritePlan::Put(pod))
            });
            let marked = mark.await?.into_object();
            if options.revision.is_some() {
                options.revision = Some(marked.rev.to_string());
            }
        }
        let delete = delete_object(self.server, self.pods, &self.key, &options);
        delete.await.map(drop)
    }

    fn pod(&self) -> Result<Arc<StoredObject>, Status> {
        let pod = self.server.store.get(self.pods.resource, &self.key);
        pod.ok_or_else(|| self.not_found())
    }

    fn not_found(&self) -> Status {
        Status::not_found(self.pods.resource_named(self.key.name()))
    }

    /// A client that named a revision learns of the conflict.
    fn may_retry(&self, attempts_left: usize) -> bool {
        self.options.revision.is_none() && attempts_left > 0
    }

    /// Returns the budgets that select a Pod. A selector that cannot be read selects nothing.
    fn budgets_of(&self, pod: &StoredObject) -> Vec<Arc<StoredObject>> {
        let budgets = self.server.builtin("policy", "poddisruptionbudgets");
        let scope = ListScope {
            namespace: self.key.namespace().map(str::to_owned),
            start: None,
        };
        let selects = |budget: &StoredObject| {
            let budget = budget.to_value();
            let selector = LabelSelector::of_field(value_at(&budget, "/spec/selector"));
            selector.is_some_and(|selector| selector.matches(|label| pod.label(label)))
        };
        let filter = PageFilter {
            matches: &selects,
            limit: None,
        };
        let found = (self.server.store).list(budgets.resource, &scope, None, &filter);
        found.map(|page| page.objects).unwrap_or_default()
    }
}

/// Decodes the body as an Eviction, in either version.
fn decode_eviction(server: &ServerState, request: &ResourceRequest) -> Result<DecodedBody, Status> {
    let of = types::named("policy/v1", "Eviction");
    let peeked = body::parse(&request.content_type, &request.body, of);
    let version = match peeked {
        Ok(body) if body.value["apiVersion"] == "policy/v1beta1" => VERSIONS[1],
        _ => VERSIONS[0],
    };
    let request = ResourceRequest {
        kind: Arc::new(eviction_kind(&request.kind, version)),
        ..request.clone()
    };
    let mut decoded = decode::decode_body(&server.kinds(), &request)?;
    set_namespace(&request, &mut decoded.tree)?;
    Ok(decoded)
}

/// Returns the row of Evictions. It is in no table.
fn eviction_kind(pods: &ServedKind, version: &str) -> ServedKind {
    ServedKind {
        group: "policy".into(),
        version: version.into(),
        plural: "evictions".into(),
        kind: "Eviction".into(),
        list_kind: "EvictionList".into(),
        subresources: Vec::new(),
        rules: crate::kinds::KindRules::default(),
        strategy: strategy::of_builtin("policy", "evictions"),
        custom: None,
        ..pods.clone()
    }
}

/// A dry run is asked for in the query, or in the options of the Eviction; both must not differ.
fn set_dry_run(given: &mut ObjectTree, request: &ResourceRequest) -> Result<(), Status> {
    let asked = request.query.all("dryRun");
    let own = metadata::strings(given.get("dryRun").unwrap_or(&Value::Null));
    if own.is_empty() {
        given.insert("dryRun".into(), json!(asked));
    } else if !asked.is_empty() && asked != own {
        return Err(Status::unexplained(format!(
            "Non-matching dry-run options in request and content: [{}] and [{}]",
            asked.join(" "),
            own.join(" ")
        )));
    }
    Ok(())
}

/// Sets the condition that says why a Pod is deleted.
fn mark(pod: &mut ObjectTree, now: &str) {
    let status = pod.entry("status").or_insert_with(|| json!({}));
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else {
        return;
    };
    let mut target = json!({"type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
        "lastTransitionTime": now, "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"});
    let known = conditions
        .iter_mut()
        .find(|known| known["type"] == target["type"]);
    match known {
        Some(known) => {
            if known["status"] == target["status"] {
                target["lastTransitionTime"] = known["lastTransitionTime"].clone();
            }
            *known = target;
        }
        None => conditions.push(target),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::mk_tree;

    #[test]
    fn mark_keeps_the_time_of_an_earlier_mark_and_other_conditions() {
        let mut pod =
            mk_tree(&json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}));
        mark(&mut pod, "T1");
        let once = pod.clone();
        let conditions = value_at(&pod, "/status/conditions").as_array().unwrap();
        assert_eq!(conditions.len(), 2);
        assert_eq!(conditions[1]["lastTransitionTime"], "T1");
        mark(&mut pod, "T2");
        assert_eq!(pod, once);
    }
}
