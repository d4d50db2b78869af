//! The status of a DaemonSet: counts of Nodes by the state of their oldest Pod.

use serde_json::Value;

use super::DaemonPods;
use crate::cache::ObjectSnapshot;
use crate::objects::set_count;

impl DaemonPods<'_> {
    /// The number of Nodes that should have a Pod.
    pub(super) fn desired(&self) -> usize {
        self.nodes.values().filter(|on| on.may_start).count()
    }

    /// The status with the present counts.
    pub(super) fn status(&self) -> Value {
        let (mut desired, mut misscheduled) = (0, 0);
        let mut first: Vec<&ObjectSnapshot> = Vec::new();
        for (name, on) in &self.nodes {
            let pod = self.pods_on(name).first().copied();
            match on.may_start {
                true => {
                    desired += 1;
                    first.extend(pod);
                }
                false => misscheduled += usize::from(pod.is_some()),
            }
        }
        let count = |is_counted: &dyn Fn(&ObjectSnapshot) -> bool| {
            first.iter().filter(|pod| is_counted(pod)).count()
        };
        let available = count(&|pod| self.rule.is_available(pod));
        let mut status = self.set.at("/status").clone();
        set_count(
            &mut status,
            "updatedNumberScheduled",
            count(&|pod| self.is_updated(pod)),
        );
        set_count(&mut status, "numberAvailable", available);
        set_count(&mut status, "numberUnavailable", desired - available);
        status["desiredNumberScheduled"] = desired.into();
        status["currentNumberScheduled"] = first.len().into();
        status["numberMisscheduled"] = misscheduled.into();
        status["numberReady"] = count(&|pod| pod.is_true("Ready")).into();
        status["observedGeneration"] = self.set.at("/metadata/generation").clone();
        status
    }
}
