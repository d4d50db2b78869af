//! Decides about a Pod, or about a Node that has to be read: at most one request. Reads the index and changes nothing.
//!
//! Mirrors the four sweeps of `gc_controller.go` (1.36) in their order, and `markFailedAndDeletePod`: first the mark, if
//! the Pod's phase is not final, then the delete without a grace period.
//!
//! DEVIATION(node-confirmed): the second sweep reads the Node from the server before it acts; upstream trusts its cache,
//! and may delete Pods of a Node that is back in service (kubernetes#142331).

use jiff::Timestamp;

use super::condition::{self, MarkCause};
use super::index::{KnownPod, NodeLookup, PodGcIndex};
use super::{PERIOD, PodGcKey, PodGcReason, PodSweep};
use crate::runtime::call::{ApiCall, JudgedVersion, PatchForm};
use crate::runtime::controller::NextStep;
use crate::runtime::queue::later;
use crate::runtime::record::Uid;

type PodGcDecision = (NextStep<PodGcKey>, PodGcReason);

pub(super) fn decide_pod(index: &PodGcIndex, uid: &Uid, now: Timestamp) -> PodGcDecision {
    let Some(pod) = index.pod(uid) else {
        return (NextStep::Rest, PodGcReason::Unknown);
    };
    if !index.is_complete() {
        return (NextStep::Rest, PodGcReason::Unlisted);
    }
    if index.is_frozen() {
        return (NextStep::Retry, PodGcReason::Frozen);
    }
    if pod.is_going {
        return (NextStep::Rest, PodGcReason::Going);
    }
    if index.is_held(pod) {
        return (NextStep::Rest, PodGcReason::Held);
    }
    // A Pod that was marked for a sweep stays with that sweep.
    let sweeps = pod.marked.into_iter().chain(PodSweep::ALL);
    let mut times = sweeps.filter_map(|sweep| Some((index.sweep_time(uid, sweep)?, sweep)));
    let mut soonest: Option<(Timestamp, PodSweep)> = None;
    for (time, sweep) in &mut times {
        if time <= now {
            return decide_due_pod(index, uid, pod, sweep, now);
        }
        if soonest.is_none_or(|(known, _)| time < known) {
            soonest = Some((time, sweep));
        }
    }
    match soonest {
        Some((time, sweep)) => (NextStep::At(time), waiting_reason(pod, sweep, time)),
        None => (NextStep::Rest, PodGcReason::Unwanted),
    }
}

/// Decides whether to read a Node.
pub(super) fn decide_node(index: &PodGcIndex, name: &str, now: Timestamp) -> PodGcDecision {
    if index.is_frozen() {
        return (NextStep::Retry, PodGcReason::Frozen);
    }
    match index.target_of_node(name) {
        Some(target) if index.needs_node_lookup(name, now) => {
            let node = name.to_owned();
            (
                NextStep::Call(ApiCall::Get { target }),
                PodGcReason::AsksFor { node },
            )
        }
        _ => (NextStep::Rest, PodGcReason::Settled),
    }
}

/// Decides about a Pod that is due for a sweep. If the sweep depends on the Node, the Node is read first, once for all
/// of its Pods.
fn decide_due_pod(
    index: &PodGcIndex,
    uid: &Uid,
    pod: &KnownPod,
    sweep: PodSweep,
    now: Timestamp,
) -> PodGcDecision {
    let node = pod.node.to_string();
    let found = index.node(&node).and_then(|known| known.fresh_lookup(now));
    let because = match (sweep, found) {
        (PodSweep::Terminated, _) => terminated_reason(index, uid, pod),
        (PodSweep::Unscheduled, _) => PodGcReason::Unscheduled,
        (PodSweep::OutOfService, Some(NodeLookup::Alive)) => PodGcReason::OutOfService { node },
        // The Pod is orphaned as soon as the feed shows the Node's DELETED event too. If the feed never does, another Node
        // has the name, and the next round sees it.
        (PodSweep::OutOfService, Some(NodeLookup::Absent(_))) => {
            return (
                NextStep::At(index.next_round(now)),
                PodGcReason::NodeVanishing { node },
            );
        }
        (PodSweep::Orphaned, Some(NodeLookup::Absent(proof))) => PodGcReason::NodeGone {
            node: PodGcReason::node_identity(node),
            proof: proof.clone(),
        },
        (PodSweep::OutOfService | PodSweep::Orphaned, _) => {
            let key = PodGcKey::Node(pod.node.clone());
            return (NextStep::After(vec![key]), PodGcReason::AsksFor { node });
        }
    };
    // A server that does not store the mark gets the next one after a round, as from upstream.
    if let Some(marked) = pod.marked_at.filter(|_| needs_mark(index, pod)) {
        let again = later(marked, PERIOD);
        if again > now {
            return (NextStep::At(again), because);
        }
    }
    match next_request(index, uid, pod, sweep, now) {
        Some(call) => (NextStep::Call(call), because),
        None => (NextStep::Rest, PodGcReason::Unlisted),
    }
}

/// The next request: the mark, if the Pod needs one, else the delete.
fn next_request(
    index: &PodGcIndex,
    uid: &Uid,
    pod: &KnownPod,
    sweep: PodSweep,
    now: Timestamp,
) -> Option<ApiCall> {
    let target = index.target_of_pod(pod)?;
    let judged = JudgedVersion::new(uid, &pod.revision);
    if !needs_mark(index, pod) {
        return Some(ApiCall::Delete {
            target,
            judged,
            propagation: None,
            grace_secs: Some(0),
        });
    }
    let cause = match sweep {
        PodSweep::Orphaned => MarkCause::NodeGone,
        PodSweep::Terminated | PodSweep::OutOfService | PodSweep::Unscheduled => MarkCause::Other,
    };
    Some(ApiCall::Patch {
        target,
        judged,
        subresource: Some("status"),
        form: PatchForm::Strategic,
        patch: condition::failed_patch(pod, cause, now),
    })
}

/// Whether the Pod has to be marked, because its phase is not final.
fn needs_mark(index: &PodGcIndex, pod: &KnownPod) -> bool {
    index.settings.marks_failed && !pod.facts.phase.is_final()
}

fn terminated_reason(index: &PodGcIndex, uid: &Uid, pod: &KnownPod) -> PodGcReason {
    let settings = index.settings;
    let (kept, namespace) = match index.exceeds_namespace_threshold(uid, pod) {
        true => (
            settings.threshold_per_namespace,
            Some(pod.namespace.to_string()),
        ),
        false => (settings.threshold, None),
    };
    PodGcReason::Terminated {
        kept: kept.unwrap_or_default(),
        namespace,
    }
}

fn waiting_reason(pod: &KnownPod, sweep: PodSweep, until: Timestamp) -> PodGcReason {
    let node = pod.node.to_string();
    match sweep {
        PodSweep::Orphaned => PodGcReason::Quarantined { node, until },
        PodSweep::Terminated | PodSweep::OutOfService | PodSweep::Unscheduled => {
            PodGcReason::AtNextRound { sweep, until }
        }
    }
}
