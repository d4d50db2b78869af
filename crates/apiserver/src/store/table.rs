//! One resource: its objects in key order, its history, and its subscribers.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use super::history::{EventHistory, EventKind, StoreEvent};
use super::{ObjectKey, RevisionTooOld, StoreRevision, StoredObject};

/// Objects of one resource. Changed by the writer only.
#[derive(Default)]
pub(super) struct ResourceTable {
    objects: BTreeMap<ObjectKey, Arc<StoredObject>>,
    history: EventHistory,
    changed: watch::Sender<()>,
    closed: bool,
}

/// The part of a table that a list covers.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListScope {
    pub(crate) namespace: Option<String>,
    /// The key at which a continued list begins.
    pub(crate) start: Option<ObjectKey>,
}

/// The objects of the scope that a page holds.
pub(crate) struct PageFilter<'a> {
    pub(crate) matches: &'a dyn Fn(&StoredObject) -> bool,
    pub(crate) limit: Option<usize>,
}

/// A list, or one page of it.
pub(crate) struct ObjectPage {
    pub(crate) revision: StoreRevision,
    pub(crate) objects: Vec<Arc<StoredObject>>,
    /// The first key that did not fit, and how many objects of the scope remain from there.
    pub(crate) rest: Option<(ObjectKey, usize)>,
}

// === impl ResourceTable ===

impl ResourceTable {
    /// Makes an empty table whose history begins at `revision`.
    pub(super) fn since(revision: StoreRevision) -> Self {
        Self {
            history: EventHistory::since(revision),
            ..Self::default()
        }
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<StoredObject>> {
        self.objects.get(key).cloned()
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
        self.changed.send_replace(());
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Reports whether the table is closed and no watch reads its history.
    pub(super) fn is_abandoned(&self) -> bool {
        self.closed && self.changed.receiver_count() == 0
    }

    pub(super) fn apply(&mut self, event: StoreEvent, now: Instant) {
        let key = event.object.key.clone();
        if event.kind == EventKind::Deleted {
            self.objects.remove(&key);
        } else {
            self.objects.insert(key, event.object.clone());
        }
        self.history.push(Arc::new(event), now);
        self.changed.send_replace(());
    }

    pub(super) fn trim_history(&mut self, now: Instant) {
        self.history.trim(now);
    }

    pub(super) fn events_after(
        &self,
        cursor: StoreRevision,
        max: usize,
    ) -> Result<Vec<Arc<StoreEvent>>, RevisionTooOld> {
        self.history.after(cursor, max)
    }

    /// Returns a page of the present, or of a past revision: the present with later events undone.
    pub(super) fn page(
        &self,
        scope: &ListScope,
        past: Option<StoreRevision>,
        now: StoreRevision,
        keep: &PageFilter<'_>,
    ) -> Result<ObjectPage, RevisionTooOld> {
        let (low, high) = scope.bounds();
        let present = self.objects.range::<str, _>((
            low.as_ref().map(String::as_str),
            high.as_ref().map(String::as_str),
        ));
        match past {
            None => Ok(fill(now, present.map(|(_, object)| object), keep)),
            Some(past) => {
                let mut objects: BTreeMap<&str, &Arc<StoredObject>> = present
                    .map(|(key, object)| (key.as_str(), object))
                    .collect();
                for event in self.history.undo_to(past)? {
                    let key = event.object.key.as_str();
                    if !scope.contains(key) {
                        continue;
                    }
                    match &event.previous {
                        Some(previous) => objects.insert(key, previous),
                        None => objects.remove(key),
                    };
                }
                Ok(fill(past, objects.into_values(), keep))
            }
        }
    }
}

// === impl ListScope ===

impl ListScope {
    fn bounds(&self) -> (Bound<String>, Bound<String>) {
        // '0' follows '/': all keys of a namespace and no other lie between the two.
        let (first, end) = match &self.namespace {
            Some(namespace) => (
                format!("{namespace}/"),
                Bound::Excluded(format!("{namespace}0")),
            ),
            None => (String::new(), Bound::Unbounded),
        };
        let start = match &self.start {
            Some(start) if start.as_str() > first.as_str() => start.as_str().to_owned(),
            _ => first,
        };
        match &end {
            // A forged continue token may point behind the namespace; an inverted range would panic.
            Bound::Excluded(end_key) if start > *end_key => (Bound::Included(end_key.clone()), end),
            _ => (Bound::Included(start), end),
        }
    }

    fn contains(&self, key: &str) -> bool {
        let inside = self.namespace.as_ref().is_none_or(|namespace| {
            key.strip_prefix(namespace.as_str())
                .is_some_and(|rest| rest.starts_with('/'))
        });
        inside
            && self
                .start
                .as_ref()
                .is_none_or(|start| key >= start.as_str())
    }
}

// === impl ObjectPage ===

impl ObjectPage {
    pub(super) fn empty(revision: StoreRevision) -> Self {
        Self {
            revision,
            objects: Vec::new(),
            rest: None,
        }
    }
}

impl std::borrow::Borrow<str> for ObjectKey {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

fn fill<'a>(
    revision: StoreRevision,
    objects: impl Iterator<Item = &'a Arc<StoredObject>>,
    keep: &PageFilter<'_>,
) -> ObjectPage {
    let mut page = ObjectPage::empty(revision);
    let mut objects = objects.peekable();
    while let Some(object) = objects.next_if(|_| keep.limit != Some(page.objects.len())) {
        if (keep.matches)(object) {
            page.objects.push(object.clone());
        }
    }
    // As upstream, the rest is not checked against the selectors: the last page of a selective list may be empty.
    if let Some(next) = objects.next() {
        page.rest = Some((next.key.clone(), 1 + objects.count()));
    }
    page
}
