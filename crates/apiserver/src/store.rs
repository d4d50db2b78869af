//! All objects of the server: one ordered map per resource, one revision for all, and a history for watches.
//!
//! Objects go in and come out as bytes. A writer prepares new bytes against what [`ObjectStore::get`] returned and proposes them
//! with the revision of that object. The store compares, numbers and publishes; nothing else happens under the writer's
//! lock. Readers clone pointers and encode outside.
//!
//! The guarantees are those of etcd behind a watch cache: revisions only grow, and a list holds every write up to its
//! revision.

mod history;
mod object;
mod table;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use tokio::sync::watch;
use tokio::time::Instant;

pub(crate) use history::{EventForm, EventKind, StoreEvent};
pub(crate) use object::{
    ObjectDraft, ObjectKey, PackedStrings, SchemaId, StoreRevision, StoredObject,
};
pub(crate) use table::{ListScope, ObjectPage, PageFilter};

use table::ResourceTable;

/// Names a resource for the life of the process: built-in kinds first, custom ones as they appear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ResourceId(pub(crate) u32);

/// Holds all tables. The writer's lock is taken first and held for a whole write.
#[derive(Default)]
pub(crate) struct ObjectStore {
    writer: Mutex<()>,
    state: RwLock<StoreState>,
}

/// The state that readers see, always at one revision.
struct StoreState {
    revision: StoreRevision,
    changed: watch::Sender<()>,
    tables: BTreeMap<ResourceId, ResourceTable>,
}

/// A change to one object, and the state that it was prepared against.
pub(crate) struct WriteProposal {
    pub(crate) resource: ResourceId,
    pub(crate) key: ObjectKey,
    /// The revision of the object; `None` if it does not exist.
    pub(crate) expected: Option<StoreRevision>,
    /// The new content; `None` removes the object.
    pub(crate) new: Option<ObjectDraft>,
    pub(crate) premise: Option<WritePremise>,
}

/// Another object that must not have changed: the namespace of a new object, which may be about to end.
#[derive(Debug, Clone)]
pub(crate) struct WritePremise {
    pub(crate) resource: ResourceId,
    pub(crate) key: ObjectKey,
    pub(crate) rev: StoreRevision,
}

/// The objects that a proposal relies on have changed: the writer has to prepare it again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StaleProposal;

/// History does not reach back far enough. Holds the oldest revision that it still has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RevisionTooOld(pub(crate) StoreRevision);

/// Events of one resource in order, complete up to a revision, which is below the cursor if that is in the future.
pub(crate) struct EventBatch {
    pub(crate) events: Vec<Arc<StoreEvent>>,
    pub(crate) up_to: StoreRevision,
    /// No event will follow: the resource is no longer served.
    pub(crate) last: bool,
}

// === impl StoreState ===

impl Default for StoreState {
    fn default() -> Self {
        Self {
            revision: StoreRevision::START,
            changed: watch::Sender::new(()),
            tables: BTreeMap::new(),
        }
    }
}

// === impl ObjectStore ===

impl ObjectStore {
    /// Returns the revision of the last write.
    pub(crate) fn revision(&self) -> StoreRevision {
        self.read().revision
    }

    pub(crate) fn get(&self, resource: ResourceId, key: &ObjectKey) -> Option<Arc<StoredObject>> {
        self.read().tables.get(&resource)?.get(key)
    }

    /// Writes a proposal unless it is stale. Returns the object as written; for a removal, its last state under the
    /// revision of the removal.
    pub(crate) fn write(
        &self,
        proposal: WriteProposal,
    ) -> Result<Arc<StoredObject>, StaleProposal> {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let (revision, previous) = {
            let state = self.read();
            let find = |resource, key| state.tables.get(&resource)?.get(key);
            let premise_holds = proposal.premise.as_ref().is_none_or(|premise| {
                let found = find(premise.resource, &premise.key);
                found.is_some_and(|object| object.rev == premise.rev)
            });
            let current = find(proposal.resource, &proposal.key);
            if !premise_holds || current.as_ref().map(|object| object.rev) != proposal.expected {
                return Err(StaleProposal);
            }
            (state.revision.next(), current)
        };
        let (kind, object) = match (proposal.new, &previous) {
            (Some(draft), None) => (EventKind::Added, draft.commit(revision)),
            (Some(draft), Some(_)) => (EventKind::Modified, draft.commit(revision)),
            (None, Some(previous)) => (EventKind::Deleted, previous.at(revision)),
            // The removal of an object that does not exist.
            (None, None) => return Err(StaleProposal),
        };
        let object = Arc::new(object);
        let event = StoreEvent::new(kind, object.clone(), previous);
        self.publish(proposal.resource, event);
        Ok(object)
    }

    /// Returns one page of a resource, at the present revision or at `at`.
    pub(crate) fn list(
        &self,
        resource: ResourceId,
        scope: &ListScope,
        at: Option<StoreRevision>,
        keep: &PageFilter<'_>,
    ) -> Result<ObjectPage, RevisionTooOld> {
        let state = self.read();
        let now = state.revision;
        match state.tables.get(&resource) {
            Some(table) => table.page(scope, at.filter(|at| *at < now), now, keep),
            None => Ok(ObjectPage::empty(at.unwrap_or(now))),
        }
    }

    /// Returns a receiver that every write to `resource` wakes.
    pub(crate) fn subscribe(&self, resource: ResourceId) -> watch::Receiver<()> {
        if let Some(table) = self.read().tables.get(&resource) {
            return table.subscribe();
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.tables.entry(resource).or_default().subscribe()
    }

    /// Returns a receiver that every write wakes.
    pub(crate) fn subscribe_all(&self) -> watch::Receiver<()> {
        self.read().changed.subscribe()
    }

    /// Returns at most `max` events of `resource` after `cursor`.
    pub(crate) fn events_after(
        &self,
        resource: ResourceId,
        cursor: StoreRevision,
        max: usize,
    ) -> Result<EventBatch, RevisionTooOld> {
        let state = self.read();
        let Some(table) = state.tables.get(&resource) else {
            return Ok(EventBatch {
                events: Vec::new(),
                up_to: state.revision,
                last: true,
            });
        };
        let events = table.events_after(cursor, max)?;
        let (up_to, complete) = match events.last() {
            Some(last) if events.len() == max => (last.rev(), false),
            _ => (state.revision, true),
        };
        Ok(EventBatch {
            events,
            up_to,
            last: complete && table.is_closed(),
        })
    }

    /// Opens a resource whose history begins now, so that a watch from an earlier revision is too old.
    pub(crate) fn open(&self, resource: ResourceId) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let now = state.revision;
        state.tables.insert(resource, ResourceTable::since(now));
    }

    /// Closes a resource that is no longer served. Its watches get the remaining events and end; then it is dropped.
    pub(crate) fn close(&self, resource: ResourceId) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = state.tables.get_mut(&resource) {
            table.close();
        }
        state.tables.retain(|_, table| !table.is_abandoned());
    }

    /// Drops events that were kept only because they were young. Writes do the same for their own resource.
    pub(crate) fn trim_history(&self) {
        let now = Instant::now();
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        for table in state.tables.values_mut() {
            table.trim_history(now);
        }
    }

    fn publish(&self, resource: ResourceId, event: StoreEvent) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.revision = event.rev();
        let table = state.tables.entry(resource).or_default();
        table.apply(event, Instant::now());
        state.changed.send_replace(());
    }

    /// Takes the lock for reading. State is never left half changed, so a poisoned lock still holds a valid state.
    fn read(&self) -> RwLockReadGuard<'_, StoreState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NAMESPACES: ResourceId = ResourceId(0);
    const CONFIG_MAPS: ResourceId = ResourceId(1);

    fn mk_proposal(
        resource: ResourceId,
        key: &ObjectKey,
        expected: Option<StoreRevision>,
        value: &str,
    ) -> WriteProposal {
        let tree = json!({"metadata": {"uid": "u"}, "data": value});
        let tree = tree.as_object().unwrap();
        WriteProposal {
            resource,
            key: key.clone(),
            expected,
            new: Some(ObjectDraft::new(
                key.clone(),
                tree,
                PackedStrings::default(),
            )),
            premise: None,
        }
    }

    #[test]
    fn refuses_proposals_whose_object_or_premise_has_changed() {
        let store = ObjectStore::default();
        let (namespace, object) = (
            ObjectKey::new(None, "shop"),
            ObjectKey::new(Some("shop"), "a"),
        );
        let active = store
            .write(mk_proposal(NAMESPACES, &namespace, None, "active"))
            .unwrap();
        let premise = WritePremise {
            resource: NAMESPACES,
            key: namespace.clone(),
            rev: active.rev,
        };
        let create = || WriteProposal {
            premise: Some(premise.clone()),
            ..mk_proposal(CONFIG_MAPS, &object, None, "x")
        };
        let created = store.write(create()).unwrap();
        assert!(store.write(create()).is_err());

        let removed = WriteProposal {
            new: None,
            ..mk_proposal(CONFIG_MAPS, &object, Some(created.rev), "")
        };
        store.write(removed).unwrap();
        store
            .write(mk_proposal(
                NAMESPACES,
                &namespace,
                Some(active.rev),
                "terminating",
            ))
            .unwrap();
        assert!(store.write(create()).is_err());
        assert!(store.get(CONFIG_MAPS, &object).is_none());
    }
}
