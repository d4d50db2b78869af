//! The status of a Deployment: counts, conditions, and the progress deadline.
//!
//! Mirrors `progress.go` and `calculateStatus` of `sync.go`, 1.36. A condition that is written anew goes to the end of the
//! list, as upstream does it; kubectl shows them in this order.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::revision::HISTORY;
use super::{Rollout, UNLIMITED, annotation, count};
use crate::actor::{ActorDecision, request, rest, set_status, wait_until};
use crate::cache::ObjectSnapshot;
use crate::objects::{later, set_count, time, time_at, write_status};

const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";
const FAILURE: &str = "ReplicaFailure";
/// Reasons of [`PROGRESSING`] that decide what comes next.
const PAUSED: &str = "DeploymentPaused";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const DONE: &str = "NewReplicaSetAvailable";

impl Rollout<'_> {
    /// Notes in the condition [`PROGRESSING`] that the Deployment was paused or resumed, so that a paused one does not time
    /// out.
    pub(super) fn note_pause(&self) -> Option<ActorDecision> {
        self.deadline_secs()?;
        let known = condition(self.deployment.at("/status"), PROGRESSING);
        let reason = known.and_then(|known| known["reason"].as_str());
        let is_noted = reason == Some(PAUSED);
        let (reason, message) = match *self.deployment.at("/spec/paused") == true {
            _ if reason == Some(TIMED_OUT) => return None,
            true if !is_noted => (PAUSED, "Deployment is paused"),
            false if is_noted => ("DeploymentResumed", "Deployment is resumed"),
            _ => return None,
        };
        let mut status = self.deployment.at("/status").clone();
        self.set(&mut status, PROGRESSING, "Unknown", (reason, message));
        let call = write_status(self.deployment, &status);
        call.map(|call| request(call, "the Deployment was paused or resumed"))
    }

    /// Notes in a status that the Deployment has a new ReplicaSet. Returns whether the status has changed.
    pub(super) fn note_new(
        &self,
        status: &mut Value,
        new: &ObjectSnapshot,
        is_recorded: bool,
    ) -> bool {
        if self.deadline_secs().is_none() {
            return false;
        }
        let name = &new.meta().name;
        // A ReplicaSet without a history was created for the revision that is not recorded yet.
        if !is_recorded && annotation(new, HISTORY).is_none() {
            let message = format!("Created new replica set {name:?}");
            return self.set(
                status,
                PROGRESSING,
                "True",
                ("NewReplicaSetCreated", &message),
            );
        }
        if condition(status, PROGRESSING).is_some() {
            return false;
        }
        let message = format!("Found new replica set {name:?}");
        self.set(
            status,
            PROGRESSING,
            "True",
            ("FoundNewReplicaSet", &message),
        )
    }

    /// Writes a status.
    pub(super) fn report(&self, status: &Value) -> ActorDecision {
        let why = "the status does not match the ReplicaSets";
        set_status(self.deployment, status, why)
    }

    /// Writes the status with the progress of a rollout; without a change, waits for the progress deadline.
    pub(super) fn report_progress(&self) -> ActorDecision {
        let mut status = self.counted();
        if self.deadline_secs().is_some() {
            self.judge_progress(&mut status);
        } else {
            remove(&mut status, PROGRESSING);
        }
        match self.failure() {
            Some(failure) => {
                let of = |field: &str| failure[field].as_str().unwrap_or_default();
                let text = (of("reason"), of("message"));
                self.set(&mut status, FAILURE, of("status"), text);
            }
            None => remove(&mut status, FAILURE),
        }
        if let Some(call) = write_status(self.deployment, &status) {
            let why = "the status does not match the ReplicaSets";
            return request(call, why);
        }
        let reason = condition(&status, PROGRESSING).map(|known| &known["reason"]);
        match self.deadline(&status) {
            Some(over) if !self.is_done(&status) && reason.is_some_and(|is| *is != TIMED_OUT) => {
                wait_until(over, "the rollout waits for Pods")
            }
            _ => rest("ReplicaSets and status are up to date"),
        }
    }

    /// The status with the present counts and the condition [`AVAILABLE`].
    pub(super) fn counted(&self) -> Value {
        let sum = |field: &str| self.all().map(|set| count(set, field)).sum::<i64>();
        let (available, wanted) = (sum("availableReplicas"), self.wanted());
        let all: i64 = self.all().map(super::replicas).sum();
        let mut status = self.deployment.at("/status").clone();
        for (field, number) in [
            ("replicas", sum("replicas")),
            (
                "updatedReplicas",
                self.new.map_or(0, |new| count(new, "replicas")),
            ),
            ("readyReplicas", sum("readyReplicas")),
            ("availableReplicas", available),
            ("unavailableReplicas", all - available),
        ] {
            set_count(&mut status, field, usize::try_from(number).unwrap_or(0));
        }
        self.count_terminating(&mut status);
        status["observedGeneration"] = self.deployment.at("/metadata/generation").clone();
        if available >= wanted - self.max_unavailable() {
            let text = (
                "MinimumReplicasAvailable",
                "Deployment has minimum availability.",
            );
            self.set(&mut status, AVAILABLE, "True", text);
        } else {
            let text = (
                "MinimumReplicasUnavailable",
                "Deployment does not have minimum availability.",
            );
            self.set(&mut status, AVAILABLE, "False", text);
        }
        status
    }

    /// Sums the Pods that are being deleted; no sum if a ReplicaSet does not count them.
    fn count_terminating(&self, status: &mut Value) {
        let observed = |set: &&ObjectSnapshot| count(set, "observedGeneration") > 0;
        let counts = self.all().filter(observed);
        let counts = counts.map(|set| set.number("/status/terminatingReplicas"));
        match (counts.sum::<Option<i64>>(), status.as_object_mut()) {
            (Some(sum), _) => status["terminatingReplicas"] = sum.into(),
            (None, Some(status)) => drop(status.remove("terminatingReplicas")),
            (None, None) => {}
        }
    }

    /// Sets the condition [`PROGRESSING`] by comparing the new status with the present one.
    fn judge_progress(&self, status: &mut Value) {
        let known = condition(self.deployment.at("/status"), PROGRESSING).cloned();
        let is_over = known.as_ref().is_some_and(|known| known["reason"] == DONE)
            && status["replicas"] == status["updatedReplicas"];
        if is_over {
            return;
        }
        let of = match self.new {
            Some(new) => format!("ReplicaSet {:?}", new.meta().name),
            None => format!("Deployment {:?}", self.deployment.meta().name),
        };
        if self.is_done(status) {
            let message = format!("{of} has successfully progressed.");
            self.set(status, PROGRESSING, "True", (DONE, &message));
        } else if self.has_progressed(status) {
            let message = format!("{of} is progressing.");
            remove(status, PROGRESSING);
            self.set(status, PROGRESSING, "True", ("ReplicaSetUpdated", &message));
            // It was removed to be dated anew; the time of its transition stays.
            let transition = known.filter(|known| known["status"] == "True");
            let last = status["conditions"]
                .as_array_mut()
                .and_then(|all| all.last_mut());
            if let (Some(known), Some(last)) = (transition, last) {
                last["lastTransitionTime"] = known["lastTransitionTime"].clone();
            }
        } else if self.has_timed_out(status) {
            let message = format!("{of} has timed out progressing.");
            self.set(status, PROGRESSING, "False", (TIMED_OUT, &message));
        }
    }

    /// Whether the present status says that all Pods are updated and available.
    pub(super) fn is_complete(&self) -> bool {
        self.is_done(self.deployment.at("/status"))
    }

    fn is_done(&self, status: &Value) -> bool {
        let wanted = self.wanted();
        let mut fields = ["updatedReplicas", "replicas", "availableReplicas"].iter();
        let generation = self.deployment.number("/metadata/generation").unwrap_or(0);
        fields.all(|field| status[*field].as_i64().unwrap_or(0) == wanted)
            && status["observedGeneration"].as_i64().unwrap_or(0) >= generation
    }

    fn has_progressed(&self, status: &Value) -> bool {
        let count = |of: &Value, field: &str| of[field].as_i64().unwrap_or(0);
        let before = self.deployment.at("/status");
        let old = |of: &Value| count(of, "replicas") - count(of, "updatedReplicas");
        let mut fields = ["updatedReplicas", "readyReplicas", "availableReplicas"].iter();
        old(status) < old(before) || fields.any(|field| count(status, field) > count(before, field))
    }

    fn has_timed_out(&self, status: &Value) -> bool {
        let reason = condition(status, PROGRESSING).map(|known| known["reason"].as_str());
        match reason.flatten() {
            Some(DONE) => false,
            Some(TIMED_OUT) => true,
            _ => self.deadline(status).is_some_and(|over| over <= self.now),
        }
    }

    /// When a rollout without progress has timed out.
    fn deadline(&self, status: &Value) -> Option<Timestamp> {
        let last = time_at(&condition(status, PROGRESSING)?["lastUpdateTime"])?;
        // It has to be exceeded, and times have whole seconds.
        Some(later(last, self.deadline_secs()?.saturating_add(1)))
    }

    fn deadline_secs(&self) -> Option<i64> {
        let secs = self.deployment.number("/spec/progressDeadlineSeconds");
        secs.filter(|secs| *secs != UNLIMITED)
    }

    /// The failure condition of the new ReplicaSet, or of another one.
    fn failure(&self) -> Option<&Value> {
        let mut sets = self.new.into_iter().chain(self.old.iter().copied());
        sets.find_map(|set| condition(set.at("/status"), FAILURE))
    }

    /// Sets a condition unless it has this status and reason. Returns whether it has changed.
    fn set(&self, status: &mut Value, of: &str, is: &str, (reason, message): (&str, &str)) -> bool {
        let known = condition(status, of).cloned();
        let is_same = |known: &Value| known["status"] == is && known["reason"] == reason;
        if known.as_ref().is_some_and(is_same) {
            return false;
        }
        let now = Value::from(time(self.now));
        let transition = known.filter(|known| known["status"] == is);
        let transition =
            transition.map_or_else(|| now.clone(), |known| known["lastTransitionTime"].clone());
        remove(status, of);
        let condition = json!({"type": of, "status": is, "reason": reason, "message": message,
            "lastUpdateTime": now, "lastTransitionTime": transition});
        match status["conditions"].as_array_mut() {
            Some(conditions) => conditions.push(condition),
            None => status["conditions"] = json!([condition]),
        }
        true
    }
}

fn condition<'a>(status: &'a Value, of: &str) -> Option<&'a Value> {
    let mut conditions = status["conditions"].as_array()?.iter();
    conditions.find(|known| known["type"] == of)
}

fn remove(status: &mut Value, of: &str) {
    if let Some(conditions) = status["conditions"].as_array_mut() {
        conditions.retain(|known| known["type"] != of);
    }
}
