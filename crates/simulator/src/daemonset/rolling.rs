//! Which Pods of a DaemonSet a rolling update replaces.
//!
//! Without `maxSurge`, old Pods are deleted as long as no more than `maxUnavailable` Nodes are without an available Pod.
//! With it, up to `maxSurge` Nodes get a new Pod beside the old one, which goes when the new one is available. Mirrors
//! `update.go`, 1.36; Nodes are taken in the order of their names.

use super::DaemonPods;
use crate::actor::ActorDecision;
use crate::cache::ObjectSnapshot;
use crate::objects::{PercentRounding, scaled};

/// The Pods of a Node that are not being deleted.
struct NodePods<'a> {
    name: &'a str,
    new: Option<&'a ObjectSnapshot>,
    old: Option<&'a ObjectSnapshot>,
    /// There are more than one of a kind.
    is_excessive: bool,
}

impl<'a> DaemonPods<'a> {
    /// The next step of a rolling update.
    pub(super) fn roll(&self) -> Option<ActorDecision> {
        if self.set.text("/spec/updateStrategy/type") == "OnDelete" {
            return None;
        }
        match self.limits() {
            (0, unavailable) => self.replace(unavailable),
            (surge, _) => self.surge(surge),
        }
    }

    /// Whether a Node may have an old and a new Pod.
    pub(super) fn allows_surge(&self) -> bool {
        self.set.text("/spec/updateStrategy/type") == "RollingUpdate"
            && self.limit("maxSurge", 1) > 0
    }

    /// `maxSurge` and `maxUnavailable` as numbers; not both are zero.
    fn limits(&self) -> (usize, usize) {
        let desired = self.desired();
        let limits = (
            self.limit("maxSurge", desired),
            self.limit("maxUnavailable", desired),
        );
        match limits {
            (0, 0) => (0, 1),
            limits => limits,
        }
    }

    fn limit(&self, name: &str, desired: usize) -> usize {
        let limits = self.set.at("/spec/updateStrategy/rollingUpdate");
        scaled(&limits[name], desired, PercentRounding::Up).unwrap_or(0)
    }

    /// The Nodes with Pods, and those that should have one.
    fn on_nodes(&self) -> Vec<NodePods<'a>> {
        let wanted = self.nodes.iter().filter(|(_, on)| on.may_start);
        let mut names: Vec<&str> = wanted.map(|(name, _)| *name).collect();
        names.extend(self.pods.keys());
        names.sort_unstable();
        names.dedup();
        let on_node = |name: &'a str| {
            let alive = self.pods_on(name).iter().copied();
            let alive = alive.filter(|pod| !pod.is_deleting());
            let (new, old): (Vec<_>, Vec<_>) = alive.partition(|pod| self.is_updated(pod));
            NodePods {
                name,
                new: new.first().copied(),
                old: old.first().copied(),
                is_excessive: new.len() > 1 || old.len() > 1,
            }
        };
        names.into_iter().map(on_node).collect()
    }

    /// Deletes an old Pod that is not available, or an available one if enough others are.
    fn replace(&self, unavailable_max: usize) -> Option<ActorDecision> {
        let nodes = self.on_nodes();
        let is_old = |on: &&NodePods<'a>| on.new.is_none() && !on.is_excessive;
        let mut candidates = nodes.iter().filter(is_old).filter_map(|on| on.old);
        let idle = candidates.clone().find(|pod| !self.rule.is_available(pod));
        if let Some(idle) = idle {
            return Some(self.delete(idle));
        }
        let is_unavailable = |on: &&NodePods<'_>| match (on.new, on.old) {
            _ if on.is_excessive => true,
            (Some(_), Some(_)) | (None, None) => true,
            (Some(only), None) | (None, Some(only)) => !self.rule.is_available(only),
        };
        let unavailable = nodes.iter().filter(is_unavailable).count();
        let candidate = candidates.next().filter(|_| unavailable < unavailable_max);
        candidate.map(|pod| self.delete(pod))
    }

    /// Deletes an old Pod whose successor is available, or creates a Pod beside an old one.
    fn surge(&self, surge_max: usize) -> Option<ActorDecision> {
        let nodes = self.on_nodes();
        let is_available =
            |pod: Option<&ObjectSnapshot>| pod.is_some_and(|pod| self.rule.is_available(pod));
        let surging = nodes.iter().filter(|on| {
            let is_beside = on.old.is_some() && on.new.is_some() && !is_available(on.new);
            on.is_excessive || is_beside
        });
        let surging = surging.count();
        let mut waiting = Vec::new();
        for on in nodes.iter().filter(|on| !on.is_excessive) {
            match (on.old, on.new) {
                (Some(old), Some(_)) if is_available(on.new) => return Some(self.delete(old)),
                (Some(old), None) => waiting.push((on.name, old)),
                _ => {}
            }
        }
        let available = nodes.iter().filter(|on| is_available(on.old.or(on.new)));
        let may_leave = available.count() > self.desired();
        for (name, old) in &waiting {
            let node = self.nodes.get(name).filter(|on| on.may_start);
            let is_idle = !self.rule.is_available(old);
            match node {
                None if is_idle || may_leave => return Some(self.delete(old)),
                Some(on) if is_idle || surging < surge_max => return Some(self.create(on.node)),
                _ => {}
            }
        }
        None
    }
}
