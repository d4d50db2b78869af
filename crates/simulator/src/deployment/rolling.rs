//! How many Pods each ReplicaSet of a Deployment may have.
//!
//! A rolling update never has more Pods than `replicas` and `maxSurge` together, and never fewer available ones than
//! `replicas` without `maxUnavailable`. A Deployment that is resized in the middle of a rollout resizes all its ReplicaSets
//! in proportion. Mirrors `rolling.go`, `sync.go` and `deployment_util.go`, 1.36.

use std::cmp::Reverse;

use caretaker_controllers::runtime::call::{ApiCall, PatchForm};
use serde_json::{Value, json};

use super::revision::{DESIRED, MAXIMUM};
use super::{Rollout, annotation, count, replicas};
use crate::actor::{ActorDecision, request};
use crate::cache::ObjectSnapshot;
use crate::events::on_success;
use crate::objects::{PercentRounding, scaled, time_at};

impl Rollout<'_> {
    /// The new ReplicaSet gets as many Pods as it may have.
    pub(super) fn grow_new(&self, new: &ObjectSnapshot) -> Option<ActorDecision> {
        let (is, wanted) = (replicas(new), self.wanted());
        let size = if is > wanted {
            wanted
        } else {
            self.size_of_new(is)
        };
        self.resize(new, size)
    }

    /// The number of Pods that the new ReplicaSet may have if it has `is`.
    pub(super) fn size_of_new(&self, is: i64) -> i64 {
        let wanted = self.wanted();
        if self.deployment.text("/spec/strategy/type") == "Recreate" {
            return wanted;
        }
        let all: i64 = self.all().map(replicas).sum();
        let free = wanted + self.max_surge() - all;
        if free <= 0 {
            return is;
        }
        is + free.min(wanted - is)
    }

    /// Old ReplicaSets lose Pods: first those that are not available, then as many as the new ones make up for.
    pub(super) fn shrink_old(&self, new: &ObjectSnapshot) -> Option<ActorDecision> {
        let all: i64 = self.all().map(replicas).sum();
        let least = self.wanted() - self.max_unavailable();
        let unavailable = replicas(new) - count(new, "availableReplicas");
        let most = all - least - unavailable;
        let active = || self.old.iter().filter(|set| replicas(set) > 0);
        if most <= 0 {
            return None;
        }
        for set in active() {
            let idle = replicas(set) - count(set, "availableReplicas");
            // A negative number: the status of the ReplicaSet is not up to date yet.
            if idle < 0 {
                return None;
            }
            if idle > 0 {
                return self.resize(set, replicas(set) - idle.min(most));
            }
        }
        let sets = active().copied().chain([new]);
        let available: i64 = sets.map(|set| count(set, "availableReplicas")).sum();
        let excess = available - least;
        let oldest = active().next().filter(|_| excess > 0)?;
        self.resize(oldest, replicas(oldest) - excess.min(replicas(oldest)))
    }

    /// Gives the ReplicaSets their sizes after the Deployment was resized, or while it is paused.
    pub(super) fn scale(&self) -> Option<ActorDecision> {
        let wanted = self.wanted();
        let mut active: Vec<&ObjectSnapshot> = self.all().filter(|set| replicas(set) > 0).collect();
        if active.len() <= 1 {
            let latest = self.new.or_else(|| self.old.last().copied());
            let only = active.first().copied().or(latest)?;
            return self.resize(only, wanted);
        }
        if self.is_saturated() {
            let mut old = self.old.iter().filter(|set| replicas(set) > 0);
            return old.next().and_then(|set| self.resize(set, 0));
        }
        if self.deployment.text("/spec/strategy/type") == "Recreate" {
            return None;
        }
        let allowed = if wanted > 0 {
            wanted + self.max_surge()
        } else {
            0
        };
        let missing = allowed - active.iter().map(|set| replicas(set)).sum::<i64>();
        let age = |set: &ObjectSnapshot| time_at(set.at("/metadata/creationTimestamp"));
        // The largest first; of equal ones the newest first if there are more to come, else the oldest.
        active.sort_by_key(|set| (age(set), set.key()));
        if missing > 0 {
            active.reverse();
        }
        active.sort_by_key(|set| Reverse(replicas(set)));
        let sizes = self.proportional(&active, missing);
        let mut resized = active.iter().zip(sizes);
        resized.find_map(|(set, size)| self.resize_and_note(set, size))
    }

    /// The sizes of these ReplicaSets when `missing` Pods are distributed to them in proportion.
    fn proportional(&self, active: &[&ObjectSnapshot], missing: i64) -> Vec<i64> {
        let mut added = 0;
        let mut sizes = Vec::new();
        for set in active {
            let left = missing - added;
            let part = match missing {
                0 => 0,
                1.. => self.growth(set).min(left),
                _ => self.growth(set).max(left),
            };
            let part = if left == 0 { 0 } else { part };
            added += part;
            sizes.push(replicas(set) + part);
        }
        // The remainder goes to the largest.
        if let Some(largest) = sizes.first_mut() {
            *largest = (*largest + missing - added).max(0);
        }
        sizes
    }

    /// By how much a ReplicaSet grows in proportion to the Deployment; negative if it shrinks.
    fn growth(&self, set: &ObjectSnapshot) -> i64 {
        let is = replicas(set);
        if self.wanted() == 0 {
            return -is;
        }
        let before = annotation(set, MAXIMUM).and_then(|text| text.parse::<u32>().ok());
        let before = before.map(i64::from).filter(|before| *before > 0);
        let before = before.unwrap_or_else(|| count(self.deployment, "replicas"));
        if before == 0 {
            return 0;
        }
        let product = is * (self.wanted() + self.max_surge());
        // Rounded half up, as whole numbers.
        (2 * product + before).div_euclid(2 * before) - is
    }

    fn is_saturated(&self) -> bool {
        let wanted = self.wanted();
        self.new.is_some_and(|new| {
            let desired = annotation(new, DESIRED).and_then(|text| text.parse::<i64>().ok());
            desired == Some(wanted)
                && replicas(new) == wanted
                && count(new, "availableReplicas") == wanted
        })
    }

    /// Resizes a ReplicaSet; `None` if it has this size.
    pub(super) fn resize(&self, set: &ObjectSnapshot, size: i64) -> Option<ActorDecision> {
        self.resize_and_note(set, size)
            .filter(|_| replicas(set) != size)
    }

    /// Resizes a ReplicaSet and notes the size of the Deployment; `None` if both are as they should be.
    fn resize_and_note(&self, set: &ObjectSnapshot, size: i64) -> Option<ActorDecision> {
        let is = replicas(set);
        let mut patch = json!({});
        if is != size {
            patch["spec"]["replicas"] = size.into();
        }
        for (name, value) in self.sizes() {
            if annotation(set, name) != Some(value.as_str()) {
                patch["metadata"]["annotations"][name] = value.into();
            }
        }
        if patch == json!({}) {
            return None;
        }
        let call = ApiCall::Patch {
            target: set.target(),
            judged: set.judged(),
            subresource: None,
            form: PatchForm::Merge,
            patch,
        };
        let event = (is != size).then(|| self.scaling(&set.meta().name, is, size));
        let decision = request(call, "the ReplicaSet gets another size");
        Some(on_success(decision, event))
    }

    /// How many Pods a rolling update may have beyond `replicas`.
    pub(super) fn max_surge(&self) -> i64 {
        self.fenceposts().0
    }

    /// How many of the wanted Pods may be unavailable.
    pub(super) fn max_unavailable(&self) -> i64 {
        self.fenceposts().1.min(self.wanted())
    }

    /// `maxSurge` and `maxUnavailable` as numbers; not both are zero.
    fn fenceposts(&self) -> (i64, i64) {
        if self.deployment.text("/spec/strategy/type") == "Recreate" {
            return (0, 0);
        }
        let total = usize::try_from(self.wanted()).unwrap_or(0);
        let limits = self.deployment.at("/spec/strategy/rollingUpdate");
        let number = |value: &Value, rounding| {
            let number = scaled(value, total, rounding).unwrap_or(0);
            i64::try_from(number).unwrap_or(i64::MAX)
        };
        let surge = number(&limits["maxSurge"], PercentRounding::Up);
        match number(&limits["maxUnavailable"], PercentRounding::Down) {
            0 if surge == 0 => (0, 1),
            unavailable => (surge, unavailable),
        }
    }
}
