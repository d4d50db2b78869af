//! Everything the server knows: one ordered map per resource, one revision for all, and enough history to look back.
//!
//! Objects go in and come out as bytes. Whoever wants to change one prepares the new bytes against what [`Store::get`]
//! showed and proposes them with the revision they were judged at; the writer compares, numbers, journals and publishes,
//! and nothing else happens under its lock. Readers clone pointers and encode outside.
//!
//! The guarantees are those of etcd behind a watch cache: revisions only grow, a list holds every write up to its
//! revision, nothing is visible before it is journaled.

mod history;
mod journal;
mod object;
mod table;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use tokio::sync::watch;
use tokio::time::Instant;

pub(crate) use history::{Event, EventKind};
pub(crate) use journal::{Journal, JournalError, Memory, Write};
pub(crate) use object::{Draft, Key, Object, Revision, SchemaId, Strings};
pub(crate) use table::{Keep, Page, Scope};

use table::Table;

/// Names a resource for the life of the process: built-in kinds first, custom ones as they appear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ResourceId(pub(crate) u32);

/// Holds all tables. The journal's lock is the writer's: it is taken first and held for a whole write.
pub(crate) struct Store {
    journal: Mutex<Box<dyn Journal>>,
    state: RwLock<State>,
}

/// What readers see, always at one revision.
struct State {
    revision: Revision,
    changed: watch::Sender<()>,
    tables: BTreeMap<ResourceId, Table>,
}

/// A change to one object, and what it was judged by.
pub(crate) struct Proposal {
    pub(crate) resource: ResourceId,
    pub(crate) key: Key,
    /// The revision the change was prepared against; `None`: there was no such object.
    pub(crate) expected: Option<Revision>,
    /// The new content; `None`: remove it.
    pub(crate) new: Option<Draft>,
    /// What else it was judged by.
    pub(crate) premise: Option<Premise>,
}

/// Another object as it has to be still: the namespace of a new one, which may be about to end.
#[derive(Debug, Clone)]
pub(crate) struct Premise {
    pub(crate) resource: ResourceId,
    pub(crate) key: Key,
    pub(crate) rev: Revision,
}

/// Why a proposal was not taken.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Somebody else was faster: prepare again.
    Changed,
    /// The journal could not keep it.
    Journal(JournalError),
}

/// History does not reach back far enough; the oldest revision that can still be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooOld(pub(crate) Revision);

/// Events of one resource, in order, and the revision up to which there is nothing else.
pub(crate) struct Batch {
    pub(crate) events: Vec<Arc<Event>>,
    pub(crate) up_to: Revision,
    /// Nothing will follow: the resource is no longer served.
    pub(crate) last: bool,
}

// === impl Store ===

impl Store {
    pub(crate) fn new(journal: Box<dyn Journal>) -> Self {
        Self {
            journal: Mutex::new(journal),
            state: RwLock::new(State {
                revision: Revision::START,
                changed: watch::Sender::new(()),
                tables: BTreeMap::new(),
            }),
        }
    }

    /// The revision of the last write.
    pub(crate) fn revision(&self) -> Revision {
        self.read().revision
    }

    pub(crate) fn get(&self, resource: ResourceId, key: &Key) -> Option<Arc<Object>> {
        self.read().tables.get(&resource)?.get(key)
    }

    /// Takes a proposal, or says that its premise no longer holds. Returns the object as written; for a removal, its
    /// last state under the revision of the removal.
    pub(crate) async fn propose(&self, proposal: Proposal) -> Result<Arc<Object>, Refused> {
        self.write(proposal)
    }

    /// The same for those who cannot wait: before the first request is served.
    pub(crate) fn write(&self, proposal: Proposal) -> Result<Arc<Object>, Refused> {
        let mut journal = lock(&self.journal);
        let (revision, previous) = {
            let state = self.read();
            let find = |resource, key| state.tables.get(&resource)?.get(key);
            let premise_holds = proposal.premise.as_ref().is_none_or(|premise| {
                let found = find(premise.resource, &premise.key);
                found.is_some_and(|object| object.rev == premise.rev)
            });
            let current = find(proposal.resource, &proposal.key);
            if !premise_holds || current.as_ref().map(|object| object.rev) != proposal.expected {
                return Err(Refused::Changed);
            }
            (state.revision.next(), current)
        };
        let event = match (proposal.new, previous) {
            (Some(draft), previous) => Event::put(Arc::new(draft.commit(revision)), previous),
            (None, Some(previous)) => Event::delete(Arc::new(previous.at(revision)), previous),
            // Nothing was there and nothing shall be there.
            (None, None) => return Err(Refused::Changed),
        };
        journal
            .append(&[Write {
                resource: proposal.resource,
                event: &event,
            }])
            .map_err(Refused::Journal)?;
        let object = event.object.clone();
        self.publish(proposal.resource, event);
        Ok(object)
    }

    /// One page of a resource at one revision: now, or `at`.
    pub(crate) fn list(
        &self,
        resource: ResourceId,
        scope: &Scope,
        at: Option<Revision>,
        keep: &Keep<'_>,
    ) -> Result<Page, TooOld> {
        let state = self.read();
        let now = state.revision;
        match state.tables.get(&resource) {
            Some(table) => table.page(scope, at.filter(|at| *at < now), now, keep),
            None => Ok(Page::empty(at.unwrap_or(now))),
        }
    }

    /// A receiver that is woken by every write to `resource`.
    pub(crate) fn subscribe(&self, resource: ResourceId) -> watch::Receiver<()> {
        if let Some(table) = self.read().tables.get(&resource) {
            return table.subscribe();
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.tables.entry(resource).or_default().subscribe()
    }

    /// A receiver that is woken by every write.
    pub(crate) fn subscribe_all(&self) -> watch::Receiver<()> {
        self.read().changed.subscribe()
    }

    /// At most `max` events of `resource` after `cursor`.
    pub(crate) fn events_after(
        &self,
        resource: ResourceId,
        cursor: Revision,
        max: usize,
    ) -> Result<Batch, TooOld> {
        let state = self.read();
        let Some(table) = state.tables.get(&resource) else {
            return Ok(Batch {
                events: Vec::new(),
                up_to: state.revision,
                last: true,
            });
        };
        let events = table.events_after(cursor, max)?;
        let (up_to, complete) = match events.last() {
            Some(last) if events.len() == max => (last.rev(), false),
            _ => (state.revision.max(cursor), true),
        };
        let last = complete && table.is_closed();
        Ok(Batch {
            events,
            up_to,
            last,
        })
    }

    /// Opens a resource whose history begins now: what a watch from before would have seen, nobody knows.
    pub(crate) fn open(&self, resource: ResourceId) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let now = state.revision;
        state.tables.insert(resource, Table::since(now));
    }

    /// Closes a resource that is no longer served. Its watchers see what happened to it and end; then it is forgotten.
    pub(crate) fn close(&self, resource: ResourceId) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = state.tables.get_mut(&resource) {
            table.close();
        }
        state.tables.retain(|_, table| !table.is_abandoned());
    }

    fn publish(&self, resource: ResourceId, event: Event) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.revision = event.rev();
        let table = state.tables.entry(resource).or_default();
        table.apply(event, Instant::now());
        state.changed.send_replace(());
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// State is replaced whole, never left half changed, so a poisoned lock still holds a valid state.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NAMESPACES: ResourceId = ResourceId(0);
    const CONFIG_MAPS: ResourceId = ResourceId(1);

    fn mk_proposal(
        resource: ResourceId,
        key: &Key,
        expected: Option<Revision>,
        value: &str,
    ) -> Proposal {
        let tree = json!({"metadata": {"uid": "u"}, "data": value});
        let tree = tree.as_object().unwrap();
        Proposal {
            resource,
            key: key.clone(),
            expected,
            new: Some(Draft::new(key.clone(), tree, Strings::default())),
            premise: None,
        }
    }

    #[test]
    fn a_proposal_whose_object_or_premise_has_changed_is_refused() {
        let store = Store::new(Box::new(Memory));
        let (namespace, object) = (Key::new(None, "shop"), Key::new(Some("shop"), "a"));
        let active = store
            .write(mk_proposal(NAMESPACES, &namespace, None, "active"))
            .unwrap();
        let premise = Premise {
            resource: NAMESPACES,
            key: namespace.clone(),
            rev: active.rev,
        };
        let create = || Proposal {
            premise: Some(premise.clone()),
            ..mk_proposal(CONFIG_MAPS, &object, None, "x")
        };
        let created = store.write(create()).unwrap();
        assert!(matches!(store.write(create()), Err(Refused::Changed)));

        let removed = Proposal {
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
        assert!(matches!(store.write(create()), Err(Refused::Changed)));
        assert!(store.get(CONFIG_MAPS, &object).is_none());
    }
}
