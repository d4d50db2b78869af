//! The garbage collector in the crew.

use caretaker_controllers::gc::{self, GarbageCollector};
use caretaker_controllers::runtime::driver::Options;
use caretaker_controllers::runtime::feed_set::Interest;
use caretaker_controllers::runtime::manager::CurrentHandle;

use super::member::Hiring;
use crate::args::ResourceName;

/// Upstream's name for the queue that ours corresponds to most: one key per object, decided and carried out.
const QUEUE: &str = "garbage_collector_attempt_to_delete";

/// Starts it.
pub(super) fn start(hiring: &mut Hiring<'_>) -> CurrentHandle<GarbageCollector> {
    let interest = collected(&hiring.work.gc_ignored_resources);
    let (workers, seed) = (hiring.work.concurrent_gc_syncs, hiring.seed);
    let shape = |options: &mut Options| {
        options.queue = Some(QUEUE);
        options.workers = workers.into();
    };
    hiring.start(gc::NAME, interest, shape, move || {
        GarbageCollector::new(seed)
    })
}

/// The kinds that the collector looks after: all that can be deleted, without events and `ignored`.
pub(crate) fn collected(ignored: &[ResourceName]) -> Interest {
    let named = |(resource, group): (&str, &str)| (resource.into(), group.into());
    let more = ignored
        .iter()
        .map(|name| (name.resource.as_str(), name.group.as_str()));
    Interest::Deletable {
        ignored: gc::IGNORED.into_iter().chain(more).map(named).collect(),
    }
}
