//! Deletes Events an hour after their last write. Upstream uses etcd leases; watchers see the same DELETED event.
//!
//! The hour is one of tokio's time, like every limit of the server's memory. The clock of objects may run faster or be
//! moved; users who look at Events do not (ADR 7).

use std::collections::VecDeque;
use std::sync::Weak;
use std::time::Duration;

use tokio::time::Instant;

use crate::server::ServerState;
use crate::store::{EventKind, ObjectKey, StoreRevision, WriteProposal};

/// Time to live of an Event after its last write.
const LIFE: Duration = Duration::from_hours(1);
/// Most writes that are read at once.
const AT_ONCE: usize = 1024;

pub(super) async fn run(inner: Weak<ServerState>) {
    let Some(server) = inner.upgrade() else {
        return;
    };
    let kind = server.builtin("", "events");
    let mut changed = server.store.subscribe(kind.resource);
    let mut cursor = StoreRevision(0);
    let mut due: VecDeque<(Instant, ObjectKey, StoreRevision)> = VecDeque::new();
    drop(server);
    loop {
        let Some(server) = inner.upgrade() else {
            return;
        };
        changed.mark_unchanged();
        let now = Instant::now();
        loop {
            // The task reads the history after every write, long before it is compacted.
            let Ok(batch) = server.store.events_after(kind.resource, cursor, AT_ONCE) else {
                break;
            };
            let written = batch
                .events
                .iter()
                .filter(|event| event.kind != EventKind::Deleted);
            due.extend(written.map(|event| (now + LIFE, event.object.key.clone(), event.rev())));
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
        let next = due.front().map_or(now + LIFE, |(at, _, _)| *at);
        let alive = tokio::select! {
            biased;
            changed = changed.changed() => changed.is_ok(),
            () = tokio::time::sleep_until(next) => true,
        };
        if !alive {
            return;
        }
    }
}
