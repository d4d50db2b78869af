//! What the server does by itself: tasks that end with it.
//!
//! Each waits for writes, looks at what the store holds, and does the next step; none keeps state that a restart would
//! lose. They write through the same code as requests.

mod crds;
mod events;
mod namespaces;

use std::sync::{Arc, Weak};

use serde_json::json;

use crate::kinds::Kind;
use crate::metadata;
use crate::server::{Inner, Upkeep};
use crate::store::{Key, Proposal};
use crate::strategy;
use crate::strategy::namespace::DEFAULT_NAMESPACES;
use crate::verbs::commit;

/// Makes what every cluster has and starts the tasks.
pub(crate) fn start(inner: &Arc<Inner>, upkeep: Upkeep) {
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

fn create_default_namespaces(inner: &Inner) {
    let kind = builtin(inner, "", "namespaces");
    let now = inner.clock.now();
    for (name, _) in DEFAULT_NAMESPACES {
        let mut tree = metadata::Tree::new();
        tree.insert("metadata".into(), json!({"name": name}));
        metadata::born(&mut tree, now, &mut inner.rng());
        strategy::prepare_create(&kind, &mut tree, &inner.kinds(), now);
        let key = Key::new(None, name);
        let proposal = Proposal {
            resource: kind.resource,
            expected: None,
            new: Some(commit::draft(&kind, &key, &tree)),
            key,
        };
        // Refused only if it is there already, which is what is wanted.
        let _ = inner.store.write(proposal);
    }
}

/// The row of a built-in kind.
fn builtin(inner: &Inner, group: &str, plural: &str) -> Arc<Kind> {
    let kinds = inner.kinds();
    let kind = kinds.get(group, "v1", plural);
    kind.expect("a built-in kind").clone()
}

/// The server, while somebody still uses it.
fn alive(inner: &Weak<Inner>) -> Option<Arc<Inner>> {
    inner.upgrade()
}
