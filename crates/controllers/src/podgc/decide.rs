//! What follows for a Pod, or for a Node that has to be asked for. Reads the index, changes nothing, asks for at most one
//! request.
//!
//! Mirrors the four sweeps of `gc_controller.go` (1.36) in their order, and `markFailedAndDeletePod`: first the patch that
//! says that the Pod failed, if nothing says how it ended, then the delete without grace.
//!
//! DEVIATION(node-confirmed): the second sweep asks for the Node before it acts; upstream trusts its cache, and may kill
//! Pods of a Node that is back in service (kubernetes#142331).

use jiff::Timestamp;

use super::condition::{self, Cause};
use super::index::{Index, Lookup, Pod};
use super::{Key, PERIOD, Reason, Sweep};
use crate::runtime::call::{AbsenceProof, ApiCall, JudgedVersion, PatchForm};
use crate::runtime::controller::NextStep;
use crate::runtime::queue::later;
use crate::runtime::record::Uid;

type Decision = (NextStep<Key>, Reason);

/// What follows for a Pod.
pub(super) fn pod(index: &Index, uid: &Uid, now: Timestamp) -> Decision {
    let Some(pod) = index.pod(uid) else {
        return (NextStep::Rest, Reason::Unknown);
    };
    if !index.is_complete() {
        return (NextStep::Rest, Reason::Unlisted);
    }
    if index.is_frozen() {
        return (NextStep::Retry, Reason::Frozen);
    }
    if pod.is_going {
        return (NextStep::Rest, Reason::Going);
    }
    if index.is_held(pod) {
        return (NextStep::Rest, Reason::Held);
    }
    // One that was marked for a sweep goes by it.
    let sweeps = pod.marked.into_iter().chain(Sweep::ALL);
    let mut times = sweeps.filter_map(|sweep| Some((index.time(uid, sweep)?, sweep)));
    let mut soonest: Option<(Timestamp, Sweep)> = None;
    for (time, sweep) in &mut times {
        if time <= now {
            return act(index, uid, pod, sweep, now);
        }
        if soonest.is_none_or(|(known, _)| time < known) {
            soonest = Some((time, sweep));
        }
    }
    match soonest {
        Some((time, sweep)) => (NextStep::At(time), waits(pod, sweep, time)),
        None => (NextStep::Rest, Reason::Unwanted),
    }
}

/// What has to be asked about a Node.
pub(super) fn node(index: &Index, name: &str, now: Timestamp) -> Decision {
    if index.is_frozen() {
        return (NextStep::Retry, Reason::Frozen);
    }
    match index.target_of_node(name) {
        Some(target) if index.asks_for(name, now) => {
            let node = name.to_owned();
            (
                NextStep::Call(ApiCall::Get { target }),
                Reason::AsksFor { node },
            )
        }
        _ => (NextStep::Rest, Reason::Settled),
    }
}

/// A Pod whose time has come. If that depends on its Node, the server is asked about the Node first: once for all of its
/// Pods.
fn act(index: &Index, uid: &Uid, pod: &Pod, sweep: Sweep, now: Timestamp) -> Decision {
    let node = pod.node.to_string();
    let found = index.node(&node).and_then(|known| known.confirmed(now));
    let because = match (sweep, found) {
        (Sweep::Terminated, _) => terminated(index, uid, pod),
        (Sweep::Unscheduled, _) => Reason::Unscheduled,
        (Sweep::OutOfService, Some(Lookup::Alive)) => Reason::OutOfService { node },
        // It is orphaned as soon as its feed says so too.
        (Sweep::OutOfService, Some(Lookup::Absent(_))) => {
            // If it never does, another Node has the name, and the next round sees that.
            return (
                NextStep::At(index.next_round(now)),
                Reason::NodeVanishing { node },
            );
        }
        (Sweep::Orphaned, Some(Lookup::Absent(proof))) => orphaned(node, proof),
        (Sweep::OutOfService | Sweep::Orphaned, _) => {
            let key = Key::Node(pod.node.clone());
            return (NextStep::After(vec![key]), Reason::AsksFor { node });
        }
    };
    // A server that does not keep the mark is not asked again before upstream would.
    if let Some(marked) = pod.marked_at.filter(|_| needs_mark(index, pod)) {
        let again = later(marked, PERIOD);
        if again > now {
            return (NextStep::At(again), because);
        }
    }
    match call(index, uid, pod, sweep, now) {
        Some(call) => (NextStep::Call(call), because),
        None => (NextStep::Rest, Reason::Unlisted),
    }
}

/// The one request that is next: the mark, if the Pod needs one, and then the delete.
fn call(index: &Index, uid: &Uid, pod: &Pod, sweep: Sweep, now: Timestamp) -> Option<ApiCall> {
    let target = index.target_of_pod(pod)?;
    let judged = JudgedVersion {
        uid: uid.clone(),
        revision: pod.revision.clone(),
    };
    if !needs_mark(index, pod) {
        return Some(ApiCall::Delete {
            target,
            judged,
            propagation: None,
            grace_secs: Some(0),
        });
    }
    let cause = match sweep {
        Sweep::Orphaned => Cause::NodeGone,
        Sweep::Terminated | Sweep::OutOfService | Sweep::Unscheduled => Cause::Untold,
    };
    Some(ApiCall::Patch {
        target,
        judged,
        subresource: Some("status"),
        form: PatchForm::Strategic,
        patch: condition::failed(pod, cause, now),
    })
}

/// Whether nothing says yet how the Pod ended.
fn needs_mark(index: &Index, pod: &Pod) -> bool {
    index.settings.marks_failed && !pod.phase.is_final()
}

fn terminated(index: &Index, uid: &Uid, pod: &Pod) -> Reason {
    let settings = index.settings;
    if index.is_over_in_namespace(uid, pod) {
        Reason::Terminated {
            kept: settings.threshold_per_namespace.unwrap_or_default(),
            namespace: Some(pod.namespace.to_string()),
        }
    } else {
        Reason::Terminated {
            kept: settings.threshold.unwrap_or_default(),
            namespace: None,
        }
    }
}

fn orphaned(node: String, proof: &AbsenceProof) -> Reason {
    Reason::NodeGone {
        node: Reason::node(node),
        proof: proof.clone(),
    }
}

fn waits(pod: &Pod, sweep: Sweep, until: Timestamp) -> Reason {
    let node = pod.node.to_string();
    match sweep {
        Sweep::Orphaned => Reason::Quarantined { node, until },
        Sweep::Terminated | Sweep::OutOfService | Sweep::Unscheduled => {
            Reason::AtNextRound { sweep, until }
        }
    }
}
