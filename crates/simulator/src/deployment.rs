//! Simulated controller of Deployments: one ReplicaSet per template, rolled out by `maxSurge` and `maxUnavailable`.
//!
//! - `revision`: the new ReplicaSet, revisions and the annotations that record them.
//! - `rolling`: how many Pods each ReplicaSet may have.
//! - `status`: counts, conditions and the progress deadline.
//!
//! Mirrors `pkg/controller/deployment`, 1.36: the order of its steps, its annotations, conditions and Events. Where
//! upstream writes several objects in one pass, this actor decides again after each write. It does not adopt ReplicaSets,
//! and ignores the annotation `deprecated.deployment.rollback.to`; `kubectl rollout undo` does not need it.

mod revision;
mod rolling;
mod status;
#[cfg(test)]
mod tests;

use caretaker_controllers::runtime::call::{ApiCall, CallFailure, FailureKind};
use caretaker_controllers::runtime::controller::EventNote;
use jiff::Timestamp;
use serde_json::Value;

use crate::actor::{Actor, ActorDecision, NamespacedName, owner_key, request};
use crate::cache::{GroupResource, ObjectCache, ObjectSnapshot};
use crate::events::identity;
use crate::objects::{delete, time_at};
use crate::pod::{PODS, has_ended};
use crate::replicaset::REPLICA_SETS;

const DEPLOYMENTS: GroupResource = ("apps", "deployments");
/// A limit of this size stands for none.
const UNLIMITED: i64 = i32::MAX as i64;

/// Simulates the Deployment controller.
#[derive(Debug)]
pub(crate) struct DeploymentActor;

/// A Deployment and its ReplicaSets at one time.
struct Rollout<'a> {
    cache: &'a ObjectCache,
    deployment: &'a ObjectSnapshot,
    /// The ReplicaSet of the Deployment's template.
    new: Option<&'a ObjectSnapshot>,
    /// All other ReplicaSets, the oldest first.
    old: Vec<&'a ObjectSnapshot>,
    now: Timestamp,
}

// === impl DeploymentActor ===

impl Actor for DeploymentActor {
    const NAME: &'static str = "simulated-deployments";
    const REPORTER: &'static str = "deployment-controller";
    const KINDS: &'static [GroupResource] = &[DEPLOYMENTS, REPLICA_SETS, PODS];

    fn decide(
        &self,
        cache: &ObjectCache,
        deployment: &ObjectSnapshot,
        now: Timestamp,
    ) -> ActorDecision {
        Rollout::of(cache, deployment, now).decide()
    }

    fn refused(
        &self,
        cache: &ObjectCache,
        deployment: &ObjectSnapshot,
        call: &ApiCall,
        failure: &CallFailure,
    ) -> Option<EventNote> {
        let is_final = matches!(failure.kind, FailureKind::Forbidden | FailureKind::Refused);
        let is_create = matches!(call, ApiCall::Create { .. });
        let (set, why) = (&call.target().name, &failure.message);
        let message = format!("Failed to create new replica set {set:?}: {why}");
        let about = identity(cache, deployment);
        (is_final && is_create).then(|| EventNote::warning(about, "ReplicaSetCreateError", message))
    }

    /// A Pod matters only to a Deployment that waits for the end of its old Pods.
    fn affected(&self, cache: &ObjectCache, object: &ObjectSnapshot) -> Vec<NamespacedName> {
        let Some(owner) = owner_key(object) else {
            return Vec::new();
        };
        if cache.served(PODS).map(|(id, _)| id) != Some(object.kind()) {
            return vec![owner];
        }
        let set = cache.get(REPLICA_SETS, &owner);
        let deployment = set.and_then(owner_key);
        let is_recreated = |key: &NamespacedName| {
            let deployment = cache.get(DEPLOYMENTS, key);
            deployment.is_some_and(|known| known.text("/spec/strategy/type") == "Recreate")
        };
        deployment.into_iter().filter(is_recreated).collect()
    }
}

// === impl Rollout ===

impl<'a> Rollout<'a> {
    fn of(cache: &'a ObjectCache, deployment: &'a ObjectSnapshot, now: Timestamp) -> Self {
        let mut sets: Vec<&ObjectSnapshot> =
            cache.controlled_by(deployment, REPLICA_SETS).collect();
        let age = |set: &ObjectSnapshot| time_at(set.at("/metadata/creationTimestamp"));
        sets.sort_by_key(|set| (age(set), set.key()));
        let is_new = |set: &&ObjectSnapshot| revision::is_of_template(set, deployment);
        let new = sets.iter().position(is_new).map(|at| sets.remove(at));
        Self {
            cache,
            deployment,
            new,
            old: sets,
            now,
        }
    }

    /// The first step that has something to write; the last one is the status.
    fn decide(&self) -> ActorDecision {
        if self.deployment.is_deleting() {
            return self
                .record_revision()
                .unwrap_or_else(|| self.report(&self.counted()));
        }
        if let Some(decision) = self.note_pause() {
            return decision;
        }
        let is_paused = *self.deployment.at("/spec/paused") == true;
        if is_paused || self.is_scaled() {
            return self
                .record_revision()
                .or_else(|| self.scale())
                .or_else(|| self.clean_up().filter(|_| is_paused))
                .unwrap_or_else(|| self.report(&self.counted()));
        }
        let step = match self.deployment.text("/spec/strategy/type") {
            "Recreate" => self.recreate(),
            _ => self.roll(),
        };
        step.or_else(|| self.clean_up().filter(|_| self.is_complete()))
            .unwrap_or_else(|| self.report_progress())
    }

    /// The next step of a rolling update.
    fn roll(&self) -> Option<ActorDecision> {
        let Some(new) = self.new else {
            return Some(self.create());
        };
        self.record_revision()
            .or_else(|| self.grow_new(new))
            .or_else(|| self.shrink_old(new))
    }

    /// The next step of an update that stops all old Pods first.
    fn recreate(&self) -> Option<ActorDecision> {
        if let Some(decision) = self.record_revision() {
            return Some(decision);
        }
        let mut active = self.old.iter().filter(|set| replicas(set) > 0);
        if let Some(set) = active.next() {
            return self.resize(set, 0);
        }
        if self.has_old_pods() {
            return None;
        }
        match self.new {
            None => Some(self.create()),
            Some(new) => self.resize(new, self.wanted()),
        }
    }

    fn has_old_pods(&self) -> bool {
        self.old.iter().any(|set| {
            let mut pods = self.cache.controlled_by(set, PODS);
            count(set, "replicas") > 0 || pods.any(|pod| !has_ended(pod))
        })
    }

    /// Deletes the oldest ReplicaSet beyond the history limit, if it is empty.
    fn clean_up(&self) -> Option<ActorDecision> {
        let limit = self.deployment.number("/spec/revisionHistoryLimit");
        let limit = limit.filter(|limit| *limit != UNLIMITED)?;
        let mut alive: Vec<&&ObjectSnapshot> =
            self.old.iter().filter(|set| !set.is_deleting()).collect();
        alive.sort_by_key(|set| revision::number(set));
        let excess = i64::try_from(alive.len()).unwrap_or(i64::MAX) - limit;
        let excess = usize::try_from(excess).unwrap_or(0);
        let is_empty = |set: &&&ObjectSnapshot| {
            let observed = set.number("/status/observedGeneration").unwrap_or(0);
            let generation = set.number("/metadata/generation").unwrap_or(0);
            replicas(set) == 0 && count(set, "replicas") == 0 && generation <= observed
        };
        let oldest = alive.into_iter().take(excess).find(is_empty)?;
        Some(request(
            delete(oldest),
            "the revision history limit is exceeded",
        ))
    }

    /// All ReplicaSets, the oldest first, the new one last.
    fn all(&self) -> impl Iterator<Item = &'a ObjectSnapshot> {
        self.old.iter().copied().chain(self.new)
    }

    /// The number of Pods that the Deployment wants.
    fn wanted(&self) -> i64 {
        self.deployment.number("/spec/replicas").unwrap_or(1)
    }
}

/// The number of Pods that a ReplicaSet wants.
fn replicas(set: &ObjectSnapshot) -> i64 {
    set.number("/spec/replicas").unwrap_or(0)
}

/// A count in the status of a ReplicaSet or Deployment.
fn count(object: &ObjectSnapshot, field: &str) -> i64 {
    object.at("/status")[field].as_i64().unwrap_or(0)
}

/// The value of an annotation as text.
fn annotation<'a>(object: &'a ObjectSnapshot, name: &str) -> Option<&'a str> {
    object.at("/metadata/annotations")[name].as_str()
}

/// A template without the label that distinguishes ReplicaSets.
fn without_hash(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(labels) = template.pointer_mut("/metadata/labels")
        && let Some(labels) = labels.as_object_mut()
    {
        labels.remove(revision::HASH_LABEL);
    }
    template
}
