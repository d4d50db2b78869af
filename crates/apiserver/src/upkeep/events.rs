//! Deletes Events an hour after their last write. Upstream uses etcd leases; watchers see the same DELETED event.

use std::collections::VecDeque;
use std::sync::Weak;

use jiff::{SignedDuration, Timestamp};

use crate::server::ServerState;
use crate::store::{EventKind, ObjectKey, StoreRevision, WriteProposal};

/// Time to live of an Event after its last write.
const LIFE: SignedDuration = SignedDuration::from_hours(1);
/// Most writes that are read at once.
const AT_ONCE: usize = 1024;

pub(super) async fn run(inner: Weak<ServerState>) {
    let Some(server) = inner.upgrade() else {
        return;
    };
    let kind = server.builtin("", "events");
    let mut changed = server.store.subscribe(kind.resource);
    let clock = server.clock.clone();
    let mut cursor = StoreRevision(0);
    let mut due: VecDeque<(Timestamp, ObjectKey, StoreRevision)> = VecDeque::new();
    drop(server);
    loop {
        let Some(server) = inner.upgrade() else {
            return;
        };
        changed.mark_unchanged();
        let now = clock.now();
        loop {
            // The task reads the history after every write, long before it is compacted.
            let Ok(batch) = server.store.events_after(kind.resource, cursor, AT_ONCE) else {
                break;
            };
            let written = batch
                .events
                .iter()
                .filter(|event| event.kind != EventKind::Deleted);
            due.extend(written.map(|event| (later(now), event.object.key.clone(), event.rev())));
            cursor = batch.up_to;
            if batch.events.len() < AT_ONCE {
                break;
            }
        }
        while let Some((at, key, revision)) = due.front() {
            if *at > now {
                break;
            }
            // The Event was written again; its later entry counts.
            let _ = server.store.write(WriteProposal {
                resource: kind.resource,
                key: key.clone(),
                expected: Some(*revision),
                new: None,
                premise: None,
            });
            due.pop_front();
        }
        drop(server);
        let next = due.front().map_or(later(now), |(at, _, _)| *at);
        let alive = tokio::select! {
            biased;
            changed = changed.changed() => changed.is_ok(),
            () = clock.sleep_until(next) => true,
        };
        if !alive {
            return;
        }
    }
}

fn later(now: Timestamp) -> Timestamp {
    now.checked_add(LIFE).unwrap_or(Timestamp::MAX)
}
