//! The status of a StatefulSet: counts of Pods, and the revisions of a rollout.

use serde_json::Value;

use super::StatefulPods;
use crate::cache::ObjectSnapshot;
use crate::objects::{label, set_count};
use crate::revisions::REVISION_LABEL;

impl StatefulPods<'_> {
    /// The status with the present counts. A rollout is complete when all wanted Pods are ready and updated.
    pub(super) fn status(&self) -> Value {
        let count = |is_counted: &dyn Fn(&ObjectSnapshot) -> bool| {
            self.pods.values().filter(|pod| is_counted(pod)).count()
        };
        let is_of = |pod: &ObjectSnapshot, revision: &ObjectSnapshot| {
            !pod.is_deleting() && label(pod, REVISION_LABEL) == &*revision.meta().name
        };
        let is_ready =
            |pod: &ObjectSnapshot| pod.text("/status/phase") == "Running" && pod.is_true("Ready");
        let all = self.pods.len();
        let ready = count(&is_ready);
        let updated = count(&|pod| is_of(pod, self.update));
        let wanted = usize::try_from(self.wanted()).unwrap_or(0);
        let is_rolling = self.set.text("/spec/updateStrategy/type") == "RollingUpdate";
        let is_complete = is_rolling && [all, ready, updated].iter().all(|is| *is == wanted);
        let (current, of_current) = match is_complete {
            true => (self.update, updated),
            false => (self.current, count(&|pod| is_of(pod, self.current))),
        };
        let mut status = self.set.at("/status").clone();
        set_count(&mut status, "readyReplicas", ready);
        set_count(&mut status, "currentReplicas", of_current);
        set_count(&mut status, "updatedReplicas", updated);
        status["replicas"] = all.into();
        let available = count(&|pod| is_ready(pod) && self.rule.is_available(pod));
        status["availableReplicas"] = available.into();
        status["currentRevision"] = (*current.meta().name).into();
        status["updateRevision"] = (*self.update.meta().name).into();
        if status["collisionCount"].is_null() {
            status["collisionCount"] = 0.into();
        }
        status["observedGeneration"] = self.set.at("/metadata/generation").clone();
        status
    }
}
