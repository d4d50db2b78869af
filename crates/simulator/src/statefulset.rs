//! Simulated controller of StatefulSets: Pods with stable names, created, deleted and updated in order.
//!
//! - `pods`: a Pod of an ordinal and a revision.
//! - `claims`: PersistentVolumeClaims from `volumeClaimTemplates`, and their owners by the retention policy.
//! - `status`: counts and revisions.
//!
//! Mirrors `pkg/controller/statefulset`, 1.36, in the order of its steps. It adopts no Pods, and does not repair labels of
//! Pods. `maxUnavailable` is ignored, as upstream ignores it unless a feature gate is set.

mod claims;
mod pods;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use caretaker_controllers::runtime::call::{ApiCall, CallFailure, FailureKind};
use caretaker_controllers::runtime::controller::EventNote;
use jiff::Timestamp;

use crate::actor::{Actor, ActorDecision, NamespacedName, owner_key, request, rest};
use crate::availability::AvailabilityRule;
use crate::cache::{GroupResource, ObjectCache, ObjectSnapshot};
use crate::events::{identity, on_success};
use crate::objects::{delete, label, write_status};
use crate::pod::{PODS, has_ended};
use crate::revisions::{CONTROLLER_REVISIONS, OF_STATEFUL_SETS, REVISION_LABEL, RevisionHistory};

const STATEFUL_SETS: GroupResource = ("apps", "statefulsets");
pub(crate) const CLAIMS: GroupResource = ("", "persistentvolumeclaims");

/// Simulates the controller of StatefulSets.
#[derive(Debug)]
pub(crate) struct StatefulSetActor;

/// A StatefulSet with its Pods and revisions at one time.
struct StatefulPods<'a> {
    cache: &'a ObjectCache,
    set: &'a ObjectSnapshot,
    history: RevisionHistory<'a>,
    /// The revision that all Pods had when the last rollout was complete.
    current: &'a ObjectSnapshot,
    /// The revision of the present template.
    update: &'a ObjectSnapshot,
    /// The Pods with the name of a member, by their ordinal.
    pods: BTreeMap<i64, &'a ObjectSnapshot>,
    rule: AvailabilityRule,
}

// === impl StatefulSetActor ===

impl Actor for StatefulSetActor {
    const NAME: &'static str = "simulated-statefulsets";
    const REPORTER: &'static str = "statefulset-controller";
    const KINDS: &'static [GroupResource] = &[STATEFUL_SETS, PODS, CONTROLLER_REVISIONS, CLAIMS];

    fn decide(&self, cache: &ObjectCache, set: &ObjectSnapshot, now: Timestamp) -> ActorDecision {
        let history = RevisionHistory::of(cache, set);
        let update = match history.present(&OF_STATEFUL_SETS) {
            Ok(update) => update,
            Err(_) if set.is_deleting() => return rest("the StatefulSet is being deleted"),
            Err(decision) => return decision,
        };
        StatefulPods {
            cache,
            set,
            current: history
                .named(set.text("/status/currentRevision"))
                .unwrap_or(update),
            update,
            history,
            pods: members(cache, set),
            rule: AvailabilityRule::of(set, now),
        }
        .decide()
    }

    fn refused(
        &self,
        cache: &ObjectCache,
        set: &ObjectSnapshot,
        call: &ApiCall,
        failure: &CallFailure,
    ) -> Option<EventNote> {
        let kind = Some(call.target().kind);
        let is = |named| cache.served(named).map(|(id, _)| id) == kind;
        let (reason, verb) = match call {
            ApiCall::Create { .. } => ("FailedCreate", "Create"),
            ApiCall::Delete { .. } => ("FailedDelete", "Delete"),
            _ => return None,
        };
        let (name, of, why) = (&call.target().name, &set.meta().name, &failure.message);
        let message = if is(PODS) {
            format!("{verb} Pod {name} in StatefulSet {of} failed error: {why}")
        } else if is(CLAIMS) {
            let pod = claims::pod_of_claim(set, name)?;
            format!("{verb} Claim {name} for Pod {pod} in StatefulSet {of} failed error: {why}")
        } else {
            return None;
        };
        let is_final = matches!(failure.kind, FailureKind::Forbidden | FailureKind::Refused);
        is_final.then(|| EventNote::warning(identity(cache, set), reason, message))
    }

    /// A claim matters to all StatefulSets of its namespace that have claims.
    fn affected(&self, cache: &ObjectCache, object: &ObjectSnapshot) -> Vec<NamespacedName> {
        if cache.served(CLAIMS).map(|(id, _)| id) != Some(object.kind()) {
            return owner_key(object).into_iter().collect();
        }
        let sets = cache.in_namespace(STATEFUL_SETS, &object.meta().namespace);
        sets.filter(|set| !claims::templates(set).is_empty())
            .map(ObjectSnapshot::key)
            .collect()
    }
}

/// The Pods of a StatefulSet whose names are those of a member, by ordinal.
fn members<'a>(cache: &'a ObjectCache, set: &ObjectSnapshot) -> BTreeMap<i64, &'a ObjectSnapshot> {
    let own = cache.controlled_by(set, PODS);
    own.filter_map(|pod| Some((ordinal(set, &pod.meta().name)?, pod)))
        .collect()
}

/// The ordinal in the name of a Pod of this StatefulSet.
fn ordinal(set: &ObjectSnapshot, name: &str) -> Option<i64> {
    let digits = name.strip_prefix(&*set.meta().name)?.strip_prefix('-')?;
    let is_plain = digits == "0" || !digits.starts_with('0');
    let ordinal = digits.parse::<u32>().ok().filter(|_| is_plain)?;
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some(ordinal.into())
}

// === impl StatefulPods ===

impl StatefulPods<'_> {
    /// The first step that has something to write; then old revisions and the status.
    fn decide(&self) -> ActorDecision {
        if !self.set.is_deleting()
            && let Some(decision) = self.step().or_else(|| self.forget_revision())
        {
            return decision;
        }
        match write_status(self.set, &self.status()) {
            Some(call) => request(call, "the status does not match the Pods"),
            None => self.rule.wait_for(
                self.pods.values().copied(),
                "Pods and status are up to date",
            ),
        }
    }

    fn step(&self) -> Option<ActorDecision> {
        match self.complete() {
            Err(decision) => decision,
            Ok(()) => match self.shrink() {
                Err(decision) => decision,
                Ok(()) => self.roll(),
            },
        }
    }

    /// Creates missing Pods and replaces ended ones. An error is the last step of this time, if there is one.
    fn complete(&self) -> Result<(), Option<ActorDecision>> {
        for ordinal in self.ordinals() {
            let Some(pod) = self.pods.get(&ordinal) else {
                match self.create(ordinal) {
                    None if !self.is_ordered() => continue,
                    decision => return Err(decision),
                }
            };
            if has_ended(pod) {
                if !pod.is_deleting() {
                    return Err(Some(self.delete(pod)));
                }
                if self.is_ordered() {
                    return Err(None);
                }
                continue;
            }
            if pod.text("/status/phase") == "Pending"
                && let Some(decision) = self.create_claim(ordinal)
            {
                return Err(Some(decision));
            }
            if self.is_ordered() && self.is_unavailable(pod) {
                return Err(None);
            }
            if let Some(decision) = self.correct_claims(ordinal, Some(pod)) {
                return Err(Some(decision));
            }
        }
        Ok(())
    }

    /// Deletes Pods beyond the wanted ordinals, the highest first.
    fn shrink(&self) -> Result<(), Option<ActorDecision>> {
        let wanted = self.ordinals();
        let excess = self.pods.iter().rev();
        let excess: Vec<_> = excess
            .filter(|(ordinal, _)| !wanted.contains(ordinal))
            .collect();
        for (ordinal, pod) in &excess {
            if let Some(decision) = self.correct_claims(**ordinal, Some(pod)) {
                return Err(Some(decision));
            }
        }
        let mut unhealthy = excess.iter().rev();
        let unhealthy = unhealthy.find(|(_, pod)| self.is_unavailable(pod));
        for (ordinal, pod) in &excess {
            if pod.is_deleting() {
                if self.is_ordered() {
                    return Err(None);
                }
                continue;
            }
            let is_first_unhealthy = unhealthy.is_some_and(|(first, _)| first == ordinal);
            if self.is_ordered() && !self.rule.is_available(pod) && !is_first_unhealthy {
                return Err(None);
            }
            return Err(Some(self.delete(pod)));
        }
        Ok(())
    }

    /// Deletes the Pod with the highest ordinal that is of another revision, one at a time.
    fn roll(&self) -> Option<ActorDecision> {
        if self.set.text("/spec/updateStrategy/type") == "OnDelete" {
            return None;
        }
        let ordinals = self.ordinals();
        let first = ordinals.start.saturating_add(self.partition());
        for ordinal in (first..ordinals.end).rev() {
            let pod = self.pods.get(&ordinal)?;
            let is_old = label(pod, REVISION_LABEL) != &*self.update.meta().name;
            if is_old && !pod.is_deleting() {
                return Some(self.delete(pod));
            }
            if self.is_unavailable(pod) {
                return None;
            }
        }
        None
    }

    fn forget_revision(&self) -> Option<ActorDecision> {
        self.history.truncate(|known| {
            let name = &known.meta().name;
            let mut pods = self.pods.values();
            [self.current, self.update]
                .iter()
                .any(|live| live.meta().name == *name)
                || pods.any(|pod| label(pod, REVISION_LABEL) == &**name)
        })
    }

    fn delete(&self, pod: &ObjectSnapshot) -> ActorDecision {
        let (name, of) = (&pod.meta().name, &self.set.meta().name);
        let message = format!("Delete Pod {name} in StatefulSet {of} successful");
        let about = identity(self.cache, self.set);
        let event = EventNote::normal(about, "SuccessfulDelete", message);
        on_success(
            request(delete(pod), "the Pod is not wanted any more"),
            [event],
        )
    }

    fn is_ordered(&self) -> bool {
        self.set.text("/spec/podManagementPolicy") != "Parallel"
    }

    fn is_unavailable(&self, pod: &ObjectSnapshot) -> bool {
        pod.is_deleting() || !self.rule.is_available(pod)
    }

    /// The ordinals of the wanted Pods.
    fn ordinals(&self) -> std::ops::Range<i64> {
        let first = self.set.number("/spec/ordinals/start").unwrap_or(0);
        first..first.saturating_add(self.wanted())
    }

    fn wanted(&self) -> i64 {
        self.set.number("/spec/replicas").unwrap_or(1)
    }

    /// The number of Pods that a rollout leaves as they are.
    fn partition(&self) -> i64 {
        let partition = self
            .set
            .number("/spec/updateStrategy/rollingUpdate/partition");
        partition.unwrap_or(0)
    }
}
