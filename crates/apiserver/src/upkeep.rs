//! What the server does by itself: tasks that end with it.
//!
//! Each waits for writes, looks at what the store holds, and does the next step; none keeps state that a restart would
//! lose. They write through the same code as requests.

mod crds;
mod events;
mod namespaces;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::watch;

use crate::kinds::Kind;
use crate::metadata;
use crate::server::{ServerState, Upkeep};
use crate::store::{Keep, Key, Object, Proposal, Scope};
use crate::strategy;
use crate::strategy::namespace::DEFAULT_NAMESPACES;
use crate::verbs::write;

/// Writes that come in one burst are looked at together.
const SETTLE: Duration = Duration::from_millis(2);

/// When a task looks again: at any write while it has work, else when new work may have begun.
struct Wake {
    any: watch::Receiver<()>,
    own: watch::Receiver<()>,
}

/// Whether a task waits for something to go away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    None,
    Waiting,
}

/// Makes what every cluster has and starts the tasks.
pub(crate) fn start(inner: &Arc<ServerState>, upkeep: Upkeep) {
    create_default_namespaces(inner);
    if upkeep.namespaces {
        tokio::spawn(namespaces::run(Arc::downgrade(inner)));
    }
    if upkeep.crds {
        tokio::spawn(crds::run(Arc::downgrade(inner)));
    }
    if upkeep.events {
        tokio::spawn(events::run(Arc::downgrade(inner)));
    }
}

fn create_default_namespaces(inner: &ServerState) {
    let kind = inner.builtin("", "namespaces");
    let now = inner.clock.now();
    for (name, _) in DEFAULT_NAMESPACES {
        let mut tree = metadata::Tree::new();
        tree.insert("metadata".into(), json!({"name": name}));
        metadata::set_create_fields(&mut tree, now, &mut inner.rng());
        strategy::prepare_create(&kind, &mut tree, &inner.kinds(), now);
        let key = Key::new(None, name);
        let proposal = Proposal {
            resource: kind.resource,
            expected: None,
            new: Some(write::encode(&kind, &key, &tree)),
            premise: None,
            key,
        };
        // Refused only if it is there already, which is what is wanted.
        let _ = inner.store.write(proposal);
    }
}

/// All objects of a kind, or of one namespace of it.
fn objects(inner: &ServerState, kind: &Kind, namespace: Option<&str>) -> Vec<Arc<Object>> {
    let scope = Scope {
        namespace: namespace.map(str::to_owned),
        start: None,
    };
    let keep = Keep {
        matches: &|_| true,
        limit: None,
    };
    let page = inner.store.list(kind.resource, &scope, None, &keep);
    page.map(|page| page.objects).unwrap_or_default()
}

// === impl Wake ===

impl Wake {
    /// `begins` is the kind whose deletion begins the work.
    fn new(inner: &ServerState, begins: &Kind) -> Self {
        Self {
            any: inner.store.subscribe_all(),
            own: inner.store.subscribe(begins.resource),
        }
    }

    /// Call it before looking: what is written afterwards wakes.
    fn looked(&mut self) {
        self.any.mark_unchanged();
        self.own.mark_unchanged();
    }

    /// Waits for a reason to look again. False: the server is gone.
    async fn next(&mut self, work: Work) -> bool {
        let changed = match work {
            Work::Waiting => self.any.changed().await,
            Work::None => self.own.changed().await,
        };
        tokio::time::sleep(SETTLE).await;
        changed.is_ok()
    }
}
