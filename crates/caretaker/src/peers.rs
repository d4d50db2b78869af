//! Detects active controller managers of Kubernetes and Volcano, so that `caretaker run` does not duplicate their work.
//!
//! kube-controller-manager is detected by its Lease, and by its Pods, because with `--leader-elect=false` it has no Lease.
//! Volcano has no Lease by default, so its Pods are listed. All are looked at all the time: a manager may start or stop at
//! any moment. The cluster does not show whether a manager runs
//! without our controllers; in that case the user sets `--take-over`. Two active controllers are wasteful, not dangerous:
//! every delete of ours has the judged uid and resourceVersion as preconditions. So a Lease that may not be read does not
//! prevent writes, while a server that does not answer does.
//!
//! - `look`: one request and its response. `history`: what the looks of one kind have shown so far.
//! - `watch`: the tasks that look, and set the rows of the drivers' gates. `contact`: whether the server answers at all.

mod contact;
mod history;
mod look;
mod watch;

use std::time::Duration;

use caretaker_controllers::runtime::driver::HoldState;

pub(crate) use self::contact::ServerContact;
use self::history::PeerHistory;
use self::look::LookReader;
pub(crate) use self::watch::PeerWatch;
use crate::args::{BATCH_CRON, BATCH_TTL, GARBAGE_COLLECTOR, POD_GC, VOLCANO_CRON, VOLCANO_TTL};

/// The Lease of kube-controller-manager.
const LEASE: &str =
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";

/// The Pods of kube-controller-manager, with the label that kubeadm and others give them, from the server's cache.
const KUBERNETES_PODS: &str = "/api/v1/namespaces/kube-system/pods?labelSelector=component%3Dkube-controller-manager&resourceVersion=0";

/// The Pods of vc-controller-manager, with the label of its chart, from the server's cache. One running Pod is enough.
const VOLCANO_PODS: &str = "/api/v1/pods?labelSelector=app%3Dvolcano-controller&resourceVersion=0";

/// The time between two lists of Pods.
const PODS_PERIOD: Duration = Duration::from_secs(10);

/// What is known about a manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PeerStanding {
    /// It has not been looked for, or the server does not say. Holds the reason.
    Unknown(String),
    /// Holds the name of the Lease holder or of the Pod.
    Alive(String),
    /// Not installed, or without a sign of life for two lease durations.
    Absent,
    /// The server does not let us look.
    Forbidden(String),
}

/// What our controllers do while another manager is active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerPolicy {
    /// Run as a dry run.
    DryRun,
    /// Write as usual, with `--take-over`.
    TakeOver,
}

/// A controller manager, and the controllers that it shares with us.
#[derive(Debug)]
pub(crate) struct PeerManager {
    name: &'static str,
    /// Ways to see whether it is active. One that shows it is enough.
    looks: &'static [LookPlan],
    /// Names in our `--controllers`.
    units: &'static [&'static str],
}

/// A request that is repeated, and shows whether a manager is active.
#[derive(Debug)]
struct LookPlan {
    /// The objects that it reads.
    objects: &'static str,
    path: &'static str,
    read: LookReader,
    history: fn() -> PeerHistory,
}

const KUBERNETES: PeerManager = PeerManager {
    name: "kube-controller-manager",
    looks: &[
        LookPlan {
            objects: "the lease kube-system/kube-controller-manager",
            path: LEASE,
            read: look::lease,
            history: PeerHistory::of_lease,
        },
        LookPlan {
            objects: "Pods with the label component=kube-controller-manager",
            path: KUBERNETES_PODS,
            read: look::ready_pod,
            history: || PeerHistory::of_pods(PODS_PERIOD),
        },
    ],
    units: &[BATCH_CRON, GARBAGE_COLLECTOR, POD_GC, BATCH_TTL],
};

const VOLCANO: PeerManager = PeerManager {
    name: "vc-controller-manager",
    looks: &[LookPlan {
        objects: "Pods with the label app=volcano-controller",
        path: VOLCANO_PODS,
        read: look::running_pod,
        history: || PeerHistory::of_pods(PODS_PERIOD),
    }],
    units: &[VOLCANO_CRON, VOLCANO_TTL],
};

// === impl PeerStanding ===

impl PeerStanding {
    /// What several looks show together: a sign of life counts most, then a look without an answer. A forbidden look counts
    /// only if it was not forbidden to look in another way.
    fn combined(standings: &[Self]) -> Self {
        let weight = |standing: &&Self| match standing {
            Self::Alive(_) => 3,
            Self::Unknown(_) => 2,
            Self::Absent => 1,
            Self::Forbidden(_) => 0,
        };
        // The first of equals.
        let most = standings.iter().rev().max_by_key(weight);
        most.cloned().unwrap_or(Self::Absent)
    }

    /// What the drivers that do the work of `manager` do with their writes.
    fn hold(&self, manager: &PeerManager) -> HoldState {
        let name = manager.name;
        match self {
            Self::Absent | Self::Forbidden(_) => HoldState::Pass,
            Self::Unknown(why) => {
                let why = format!("cannot tell whether {name} is active ({why}), so writes wait");
                HoldState::Wait(why.into())
            }
            Self::Alive(who) => {
                let why = format!(
                    "{name} is active ({who}) and may do the same work, so this is a dry run; set --take-over when it \
                     does not"
                );
                HoldState::Record(why.into())
            }
        }
    }
}

// === impl PeerPolicy ===

impl PeerPolicy {
    pub(crate) fn by_flag(take_over: bool) -> Self {
        if take_over {
            Self::TakeOver
        } else {
            Self::DryRun
        }
    }
}

// === impl PeerManager ===

impl PeerManager {
    /// The controllers that both have.
    fn shared(&self, running: &[&'static str]) -> Vec<&'static str> {
        let units = self.units.iter().copied();
        units.filter(|unit| running.contains(unit)).collect()
    }

    /// A sentence about a standing. `ours`: the controllers that both have, at least one. `was_alive`: the manager was
    /// active before.
    fn sentence(
        &self,
        standing: &PeerStanding,
        ours: &[&str],
        policy: PeerPolicy,
        was_alive: bool,
    ) -> Option<String> {
        let name = self.name;
        let shown_by = self.looks[0].objects;
        let list = ours.join(", ");
        // Its flag does not know halves of controllers.
        let off = ours
            .iter()
            .map(|unit| format!(",-{}", unit.split('/').next().unwrap_or(unit)));
        let off: String = off.collect();
        match standing {
            PeerStanding::Absent if was_alive && policy == PeerPolicy::DryRun => Some(format!(
                "{name} has shown no sign of life for two lease durations, so these controllers write: {list}"
            )),
            PeerStanding::Absent => None,
            PeerStanding::Alive(who) if policy == PeerPolicy::TakeOver => Some(format!(
                "{name} is active ({who}); --take-over is set, so these controllers write, too: {list}"
            )),
            PeerStanding::Alive(who) => Some(format!(
                "{name} is active ({who}), so these controllers run as a dry run: {list}. To let them write, start \
                 {name} with --controllers=*{off} and caretaker with --take-over"
            )),
            PeerStanding::Forbidden(why) => Some(format!(
                "cannot tell whether {name} is active ({shown_by}: {why}); if it is, start it with \
                 --controllers=*{off}"
            )),
            PeerStanding::Unknown(_) if policy == PeerPolicy::TakeOver => None,
            PeerStanding::Unknown(why) => Some(format!(
                "cannot tell whether {name} is active ({why}), so these controllers do not write yet: {list}"
            )),
        }
    }
}

#[cfg(test)]
mod tests;
