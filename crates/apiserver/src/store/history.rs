//! The latest events of one resource, for resuming a watch and for listing a past revision.
//!
//! A ring of events, each with the state before it. It holds [`EVENTS_MAX`] events or [`BYTES_MAX`] bytes of them, more
//! while the oldest are younger than [`AGE_MIN`], and never more than [`EVENTS_LIMIT`] events or [`BYTES_LIMIT`] bytes.
//! Writes to one resource do not shorten the history of another.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::{RevisionTooOld, StoreRevision, StoredObject};

/// Events kept of one resource, whatever their age.
pub(crate) const EVENTS_MAX: usize = 10_000;
/// Bytes kept of one resource, whatever the age of the events: about a thousand Pods.
pub(crate) const BYTES_MAX: usize = 8 << 20;
/// Younger events are kept beyond [`EVENTS_MAX`] and [`BYTES_MAX`]: a client that read a bookmark (every 60 s) can still
/// resume from it.
pub(crate) const AGE_MIN: Duration = Duration::from_secs(75);
/// Most events of one resource, so that a burst of writes cannot fill the memory.
pub(crate) const EVENTS_LIMIT: usize = 100_000;
/// Most bytes of one resource, for a burst of writes of large objects.
pub(crate) const BYTES_LIMIT: usize = 128 << 20;
/// The bytes of an event besides those of its object, roughly: keys, labels, pointers, places of allocations.
const EVENT_BYTES: usize = 512;

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
    /// The event as watches in the stored version send it, encoded by the first watch of each form and shared by all.
    encoded: [OnceLock<Bytes>; 4],
}

/// The forms of an event that watches share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventForm {
    Json,
    JsonMetadata,
    Protobuf,
    ProtobufMetadata,
}

/// A ring of events, oldest first.
#[derive(Default)]
pub(super) struct EventHistory {
    events: VecDeque<(Arc<StoreEvent>, Instant)>,
    /// The sum of [`StoreEvent::bytes`].
    bytes: usize,
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
            encoded: Default::default(),
        }
    }

    /// Returns the event in one of its forms, which `encode` makes at the first call.
    pub(crate) fn encoded(&self, form: EventForm, encode: impl FnOnce() -> Bytes) -> &Bytes {
        self.encoded[form as usize].get_or_init(encode)
    }

    pub(crate) fn rev(&self) -> StoreRevision {
        self.object.rev
    }

    /// The memory of the event, roughly. The forms in JSON count before they are encoded, so that the sum does not change
    /// while the event is in the ring; those in protobuf are smaller and rarely needed beside them. The state before is the
    /// object of an earlier event.
    fn bytes(&self) -> usize {
        2 * self.object.bytes.len() + self.object.meta().len() + EVENT_BYTES
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
        self.bytes += event.bytes();
        self.events.push_back((event, now));
        self.trim(now);
    }

    /// Drops the oldest events until the limits hold. The last event stays, whatever its size.
    pub(super) fn trim(&mut self, now: Instant) {
        while let Some((oldest, at)) = self.events.front() {
            let count = self.events.len();
            let is_old = now.duration_since(*at) > AGE_MIN;
            let is_much = count > EVENTS_MAX || self.bytes > BYTES_MAX;
            let is_too_much = count > EVENTS_LIMIT || self.bytes > BYTES_LIMIT;
            if count == 1 || !(is_much && is_old || is_too_much) {
                break;
            }
            self.bytes -= oldest.bytes();
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::{ObjectDraft, ObjectKey, PackedStrings};

    /// A history with `count` events of objects of `size` bytes, `every` apart.
    fn mk_history(count: u64, size: usize, every: Duration) -> EventHistory {
        let mut history = EventHistory::default();
        let start = Instant::now();
        let tree = json!({"metadata": {"uid": "u"}, "data": "x".repeat(size)});
        let key = ObjectKey::new(Some("ns"), "a");
        let draft = ObjectDraft::new(key, tree.as_object().unwrap(), PackedStrings::default());
        let first = draft.commit(StoreRevision(1));
        for number in 1..=count {
            let object = Arc::new(first.at(StoreRevision(number)));
            let event = StoreEvent::new(EventKind::Modified, object, None);
            let after = every * u32::try_from(number).unwrap();
            history.push(Arc::new(event), start + after);
        }
        history
    }

    #[test]
    fn keeps_events_within_limits_of_number_age_and_bytes() {
        let (slow, fast) = (Duration::from_secs(1), Duration::ZERO);
        // Each event counts twice the size of its object, and some more.
        let table: [(&str, u64, usize, Duration, std::ops::RangeInclusive<usize>); 6] = [
            ("few", 100, 10, slow, 100..=100),
            ("many old", 10_100, 10, slow, 10_000..=10_000),
            ("large old", 1_000, 64 << 10, slow, 75..=76),
            ("old of 4 KiB", 5_000, 4 << 10, slow, 900..=1_024),
            ("large young", 1_000, 64 << 10, fast, 1_000..=1_000),
            ("huge young", 200, 1 << 20, fast, 60..=64),
        ];
        for (what, count, size, every, kept) in table {
            let history = mk_history(count, size, every);
            let len = history.events.len();
            assert!(kept.contains(&len), "{what}: {len}");
            let sum: usize = history.events.iter().map(|(event, _)| event.bytes()).sum();
            assert_eq!(history.bytes, sum, "{what}");
            let dropped = count - u64::try_from(len).unwrap();
            let is_complete = |after| history.after(StoreRevision(after), 1).is_ok();
            assert!(is_complete(dropped), "{what}");
            assert!(dropped == 0 || !is_complete(dropped - 1), "{what}");
        }
    }

    #[test]
    fn drops_old_events_after_a_burst() {
        let mut history = mk_history(1_000, 64 << 10, Duration::ZERO);
        let pushed = history.events.back().unwrap().1;
        history.trim(pushed + AGE_MIN);
        assert_eq!(history.events.len(), 1_000);
        history.trim(pushed + AGE_MIN + Duration::from_secs(1));
        assert!(history.bytes <= BYTES_MAX, "{}", history.bytes);
    }
}
