//! Background tasks of the server.
//!
//! Each task waits for writes, reads the store, and does the next step; it keeps no state that a restart would lose. The
//! tasks write through the same code as requests, and end with the server.

pub(crate) mod accounts;
mod crds;
mod events;
mod namespaces;

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;

use crate::kinds::ServedKind;
use crate::server::{ServerState, UpkeepTasks};
use crate::store::{ListScope, PageFilter, StoredObject};

/// Writes within this time are handled together.
const SETTLE: Duration = Duration::from_millis(2);

/// Time between two trims of the history, for resources that are not written any more.
const TRIM_EVERY: Duration = Duration::from_secs(60);

/// Wakes a task: after any write while it has work, otherwise after a write that may start new work.
struct TaskWake {
    any: watch::Receiver<()>,
    own: watch::Receiver<()>,
}

/// Whether a task waits for objects to disappear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PendingWork {
    None,
    Waiting,
}

/// Starts the tasks.
pub(crate) fn start(inner: &Arc<ServerState>, upkeep: UpkeepTasks) {
    tokio::spawn(trim_history(Arc::downgrade(inner)));
    if upkeep.namespaces {
        tokio::spawn(namespaces::run(Arc::downgrade(inner)));
    }
    if upkeep.crds {
        tokio::spawn(crds::run(Arc::downgrade(inner)));
    }
    if inner.accounts.is_some() {
        tokio::spawn(accounts::run(Arc::downgrade(inner)));
    }
    if upkeep.events {
        tokio::spawn(events::run(Arc::downgrade(inner)));
    }
}

async fn trim_history(inner: Weak<ServerState>) {
    while let Some(server) = inner.upgrade() {
        server.store.trim_history();
        drop(server);
        tokio::time::sleep(TRIM_EVERY).await;
    }
}

/// All objects of a kind, or of one namespace of it.
fn objects(
    inner: &ServerState,
    kind: &ServedKind,
    namespace: Option<&str>,
) -> Vec<Arc<StoredObject>> {
    let scope = ListScope {
        namespace: namespace.map(str::to_owned),
        start: None,
    };
    let keep = PageFilter {
        matches: &|_| true,
        limit: None,
    };
    let page = inner.store.list(kind.resource, &scope, None, &keep);
    page.map(|page| page.objects).unwrap_or_default()
}

// === impl TaskWake ===

impl TaskWake {
    /// `begins` is the kind whose deletion starts the work.
    fn new(inner: &ServerState, begins: &ServedKind) -> Self {
        Self {
            any: inner.store.subscribe_all(),
            own: inner.store.subscribe(begins.resource),
        }
    }

    /// Must be called before the task reads the store; later writes wake it.
    fn mark_seen(&mut self) {
        self.any.mark_unchanged();
        self.own.mark_unchanged();
    }

    /// Waits for the next wake. Returns false if the server is gone.
    async fn next(&mut self, work: PendingWork) -> bool {
        let changed = match work {
            PendingWork::Waiting => self.any.changed().await,
            PendingWork::None => self.own.changed().await,
        };
        tokio::time::sleep(SETTLE).await;
        changed.is_ok()
    }
}
