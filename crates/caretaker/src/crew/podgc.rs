//! Pod GC in the crew.

use caretaker_controllers::podgc::{self, PodGc};

use super::member::{Hiring, Member, member};

/// Upstream's one queue of Pod GC, of the names of missing Nodes.
const QUEUE: &str = "orphaned_pods_nodes";

/// Starts it.
pub(super) fn start(hiring: &mut Hiring<'_>) -> Box<dyn Member> {
    let settings = hiring.work.pod_gc();
    let shape = |options: &mut caretaker_controllers::runtime::driver::Options| {
        options.queue = Some(QUEUE);
        options.workers = podgc::POD_GC_PARALLEL;
    };
    let post = hiring.start(podgc::NAME, podgc::interest(), shape, move || {
        PodGc::new(settings)
    });
    // The driver counts what it does.
    member(podgc::NAME, post, |_, _| {})
}
