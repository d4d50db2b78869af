//! The latest events of one resource, for resuming a watch and for listing a past revision.
//!
//! A ring of events, each with the state before it. It holds [`EVENTS_MAX`] events, more while the oldest are younger
//! than [`AGE_MIN`], and never more than [`EVENTS_LIMIT`]. Writes to one resource do not shorten the history of another.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::{RevisionTooOld, StoreRevision, StoredObject};

/// Events kept of one resource, whatever their age.
pub(crate) const EVENTS_MAX: usize = 10_000;
/// Younger events are kept beyond [`EVENTS_MAX`]: a client that read a bookmark (every 60 s) can still resume from it.
pub(crate) const AGE_MIN: Duration = Duration::from_secs(75);
/// Most events of one resource, so that a burst of writes cannot fill the memory.
pub(crate) const EVENTS_LIMIT: usize = 100_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    Added,
    Modified,
    Deleted,
}

/// One write as a watch sees it.
pub(crate) struct StoreEvent {
    pub(crate) kind: EventKind,
    /// The state after the write; for a removal, the last state under the revision of the removal.
    pub(crate) object: Arc<StoredObject>,
    pub(crate) previous: Option<Arc<StoredObject>>,
    /// The watch line in the stored version, encoded by the first watch and shared by all.
    pub(crate) line: OnceLock<Bytes>,
    /// The watch line with PartialObjectMetadata.
    pub(crate) metadata_line: OnceLock<Bytes>,
}

/// A ring of events, oldest first.
#[derive(Default)]
pub(super) struct EventHistory {
    events: VecDeque<(Arc<StoreEvent>, Instant)>,
    /// The newest revision that was dropped; history is complete after it.
    floor: Option<StoreRevision>,
}

// === impl EventKind ===

impl EventKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            EventKind::Added => "ADDED",
            EventKind::Modified => "MODIFIED",
            EventKind::Deleted => "DELETED",
        }
    }
}

// === impl StoreEvent ===

impl StoreEvent {
    pub(super) fn new(
        kind: EventKind,
        object: Arc<StoredObject>,
        previous: Option<Arc<StoredObject>>,
    ) -> Self {
        Self {
            kind,
            object,
            previous,
            line: OnceLock::new(),
            metadata_line: OnceLock::new(),
        }
    }

    pub(crate) fn rev(&self) -> StoreRevision {
        self.object.rev
    }
}

// === impl EventHistory ===

impl EventHistory {
    /// Makes an empty history that begins at `revision`.
    pub(super) fn since(revision: StoreRevision) -> Self {
        Self {
            floor: Some(revision),
            ..Self::default()
        }
    }

    pub(super) fn push(&mut self, event: Arc<StoreEvent>, now: Instant) {
        self.events.push_back((event, now));
        while let Some((oldest, at)) = self.events.front() {
            let expired = self.events.len() > EVENTS_MAX && now.duration_since(*at) > AGE_MIN;
            if !expired && self.events.len() <= EVENTS_LIMIT {
                break;
            }
            self.floor = Some(oldest.rev());
            self.events.pop_front();
        }
    }

    /// Returns at most `max` events after `cursor`, oldest first.
    pub(super) fn after(
        &self,
        cursor: StoreRevision,
        max: usize,
    ) -> Result<Vec<Arc<StoreEvent>>, RevisionTooOld> {
        self.reaches(cursor)?;
        let start = self.first_after(cursor);
        let events = self.events.range(start..).take(max);
        Ok(events.map(|(event, _)| event.clone()).collect())
    }

    /// Returns every event after `cursor`, newest first, which is the order of undoing them.
    pub(super) fn undo_to(
        &self,
        cursor: StoreRevision,
    ) -> Result<impl Iterator<Item = &Arc<StoreEvent>>, RevisionTooOld> {
        self.reaches(cursor)?;
        let start = self.first_after(cursor);
        Ok(self.events.range(start..).rev().map(|(event, _)| event))
    }

    fn first_after(&self, cursor: StoreRevision) -> usize {
        self.events
            .partition_point(|(event, _)| event.rev() <= cursor)
    }

    fn reaches(&self, cursor: StoreRevision) -> Result<(), RevisionTooOld> {
        match self.floor {
            Some(floor) if cursor < floor => Err(RevisionTooOld(floor)),
            _ => Ok(()),
        }
    }
}
