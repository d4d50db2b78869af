//! Which events are worth writing. Pure: notes and times go in, what to write comes out.
//!
//! Three steps, as upstream's `events_cache.go` (1.36) has them: too much about one object is cut off, many similar
//! events become one that says so, and the same event again raises a count instead of making another one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use crate::runtime::controller::{EventNote, EventSeverity, ObjectIdentity};
use crate::runtime::queue::age;

/// How many events about one object are told at once; upstream's.
const SPAM_BURST: u32 = 25;

/// After that, one in so long; upstream's.
const SPAM_EACH: Duration = Duration::from_secs(300);

/// From so many different messages of one reason on, they are combined; upstream's.
const SIMILAR_MAX: usize = 10;

/// Similar events are those within so long of each other; upstream's.
const SIMILAR_WITHIN: Duration = Duration::from_secs(600);

/// How many objects, reasons and messages are remembered; upstream's. The one untouched for longest goes first.
const REMEMBERED_MAX: usize = 4_096;

/// What was told, about what, and when.
#[derive(Debug, Default)]
pub(super) struct EventCorrelator {
    /// Per source and object: what may still be told.
    spam: RecencyMap<(&'static str, ObjectIdentity), SpamTokens>,
    /// Per source, object and reason: the messages of late.
    similar: RecencyMap<EventGroup, BTreeSet<String>>,
    /// Per event: what the server has of it.
    written: RecencyMap<(EventGroup, String), WrittenEvent>,
}

type EventGroup = (&'static str, ObjectIdentity, &'static str, bool);

#[derive(Debug, Clone, Copy)]
struct SpamTokens {
    left: u32,
    /// When `left` was true.
    at: Timestamp,
}

#[derive(Debug, Clone)]
struct WrittenEvent {
    name: String,
    count: u32,
    first: Timestamp,
}

/// An event that is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlannedEvent {
    /// The event on the server that this raises; a new one if there is none.
    pub(super) name: Option<String>,
    pub(super) message: String,
    pub(super) count: u32,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    /// What distinguishes it among similar ones; nothing once they are combined.
    distinct_by: String,
}

/// A map that forgets what was not touched for longest.
#[derive(Debug)]
struct RecencyMap<K, V> {
    values: BTreeMap<K, (Timestamp, V)>,
    order: BTreeSet<(Timestamp, K)>,
}

// === impl EventCorrelator ===

impl EventCorrelator {
    /// What to write for a note; nothing if too much was told already.
    pub(super) fn take(
        &mut self,
        controller: &'static str,
        note: &EventNote,
        now: Timestamp,
    ) -> Option<PlannedEvent> {
        let group = group(controller, note);
        let (message, told_apart_by) = self.combine(&group, note, now);
        if !self.spend(controller, &note.about, now) {
            return None;
        }
        let written = self.written.get(&(group, told_apart_by.clone()));
        Some(match written {
            Some((_, written)) => PlannedEvent {
                name: Some(written.name.clone()),
                message,
                count: written.count.saturating_add(1),
                first: written.first,
                last: now,
                distinct_by: told_apart_by,
            },
            None => PlannedEvent {
                name: None,
                message,
                count: 1,
                first: now,
                last: now,
                distinct_by: told_apart_by,
            },
        })
    }

    /// The server has it, under this name.
    pub(super) fn written(
        &mut self,
        controller: &'static str,
        note: &EventNote,
        told: &PlannedEvent,
        name: String,
    ) {
        let written = WrittenEvent {
            name,
            count: told.count,
            first: told.first,
        };
        let key = (group(controller, note), told.distinct_by.clone());
        self.written.put(key, told.last, written);
    }

    /// The message, and what tells it apart from similar ones.
    fn combine(
        &mut self,
        group: &EventGroup,
        note: &EventNote,
        now: Timestamp,
    ) -> (String, String) {
        let mut messages = match self.similar.get(group) {
            Some((last, messages)) if age(now, last) <= SIMILAR_WITHIN => messages.clone(),
            _ => BTreeSet::new(),
        };
        messages.insert(note.message.clone());
        let is_many = messages.len() >= SIMILAR_MAX;
        if messages.len() > SIMILAR_MAX {
            // Enough to know that they are many.
            messages.pop_first();
        }
        self.similar.put(group.clone(), now, messages);
        if is_many {
            let message = format!("(combined from similar events): {}", note.message);
            (message, String::new())
        } else {
            (note.message.clone(), note.message.clone())
        }
    }

    fn spend(&mut self, controller: &'static str, about: &ObjectIdentity, now: Timestamp) -> bool {
        let key = (controller, about.clone());
        let mut tokens = match self.spam.get(&key) {
            Some((_, tokens)) => tokens.refilled(now),
            None => SpamTokens {
                left: SPAM_BURST,
                at: now,
            },
        };
        let may = tokens.left > 0;
        tokens.left -= u32::from(may);
        self.spam.put(key, now, tokens);
        may
    }
}

fn group(controller: &'static str, note: &EventNote) -> EventGroup {
    let is_warning = note.severity == EventSeverity::Warning;
    (controller, note.about.clone(), note.reason, is_warning)
}

// === impl SpamTokens ===

impl SpamTokens {
    fn refilled(self, now: Timestamp) -> Self {
        let periods = age(now, self.at).as_secs() / SPAM_EACH.as_secs();
        let periods = u32::try_from(periods).unwrap_or(u32::MAX);
        let left = self.left.saturating_add(periods).min(SPAM_BURST);
        let at = if left == SPAM_BURST {
            now
        } else {
            crate::runtime::queue::later(self.at, SPAM_EACH.saturating_mul(periods))
        };
        Self { left, at }
    }
}

// === impl RecencyMap ===

impl<K: Clone + Ord, V> RecencyMap<K, V> {
    /// When it was put, and what.
    fn get(&self, key: &K) -> Option<(Timestamp, &V)> {
        self.values.get(key).map(|(at, value)| (*at, value))
    }

    fn put(&mut self, key: K, at: Timestamp, value: V) {
        if let Some((before, _)) = self.values.insert(key.clone(), (at, value)) {
            self.order.remove(&(before, key.clone()));
        }
        self.order.insert((at, key));
        if self.values.len() > REMEMBERED_MAX
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.values.remove(&oldest);
        }
    }
}

impl<K, V> Default for RecencyMap<K, V> {
    fn default() -> Self {
        Self {
            values: BTreeMap::new(),
            order: BTreeSet::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "garbage-collector-controller";

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(secs).unwrap()
    }

    fn mk_note(name: &str, message: &str) -> EventNote {
        EventNote {
            about: ObjectIdentity {
                name: name.to_owned(),
                ..ObjectIdentity::default()
            },
            severity: EventSeverity::Warning,
            reason: "OwnerRefInvalidNamespace",
            message: message.to_owned(),
            dedup_key: None,
        }
    }

    /// Tells, and writes what is to be written. Name, count and message of it.
    fn tell(
        correlator: &mut EventCorrelator,
        note: &EventNote,
        secs: i64,
    ) -> Option<(Option<String>, u32, String)> {
        let told = correlator.take(SOURCE, note, at(secs))?;
        let name = told.name.clone().unwrap_or_else(|| format!("e{secs}"));
        correlator.written(SOURCE, note, &told, name);
        Some((told.name, told.count, told.message))
    }

    #[test]
    fn the_same_event_again_raises_a_count() {
        let mut correlator = EventCorrelator::default();
        let note = mk_note("a", "m");
        let first = tell(&mut correlator, &note, 0).unwrap();
        assert_eq!(first, (None, 1, "m".to_owned()));
        let second = tell(&mut correlator, &note, 5).unwrap();
        assert_eq!(second, (Some("e0".to_owned()), 2, "m".to_owned()));
        let told = correlator.take(SOURCE, &note, at(9)).unwrap();
        assert_eq!((told.first, told.last), (at(0), at(9)));
        let other = tell(&mut correlator, &mk_note("b", "m"), 9).unwrap();
        assert_eq!(other.1, 1, "about another object");
    }

    #[test]
    fn an_event_that_was_not_written_is_told_as_new() {
        let mut correlator = EventCorrelator::default();
        let note = mk_note("a", "m");
        for _ in 0..3 {
            let told = correlator.take(SOURCE, &note, at(0)).unwrap();
            assert_eq!((told.name, told.count), (None, 1));
        }
    }

    #[test]
    fn the_tenth_similar_event_says_that_there_are_many() {
        let mut correlator = EventCorrelator::default();
        for number in 0..9 {
            let note = mk_note("a", &format!("m{number}"));
            let told = tell(&mut correlator, &note, number).unwrap();
            assert_eq!(told, (None, 1, format!("m{number}")));
        }
        let (name, count, message) = tell(&mut correlator, &mk_note("a", "m9"), 9).unwrap();
        assert_eq!((name, count), (None, 1));
        assert_eq!(message, "(combined from similar events): m9");
        let (name, count, _) = tell(&mut correlator, &mk_note("a", "m10"), 10).unwrap();
        assert_eq!((name, count), (Some("e9".to_owned()), 2));
        let later = 10 + 601;
        let told = tell(&mut correlator, &mk_note("a", "m11"), later).unwrap();
        assert_eq!(told.2, "m11", "it is long ago");
    }

    #[test]
    fn whoever_tells_too_much_about_one_object_is_cut_off() {
        let mut correlator = EventCorrelator::default();
        let note = mk_note("a", "m");
        let told = (0..100).filter(|_| tell(&mut correlator, &note, 0).is_some());
        assert_eq!(told.count(), 25);
        assert!(tell(&mut correlator, &mk_note("b", "m"), 0).is_some());
        assert!(tell(&mut correlator, &note, 299).is_none());
        assert!(tell(&mut correlator, &note, 300).is_some());
        assert!(tell(&mut correlator, &note, 300).is_none());
        let told = (0..100).filter(|_| tell(&mut correlator, &note, 1_000_000).is_some());
        assert_eq!(told.count(), 25, "never more than the burst");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut correlator = EventCorrelator::default();
        for number in 0..i64::try_from(REMEMBERED_MAX).unwrap() + 10 {
            tell(&mut correlator, &mk_note(&number.to_string(), "m"), number).unwrap();
        }
        let sizes = [
            correlator.spam.values.len(),
            correlator.similar.order.len(),
            correlator.written.values.len(),
        ];
        assert_eq!(sizes, [REMEMBERED_MAX; 3]);
        let told = tell(&mut correlator, &mk_note("0", "m"), 10_000).unwrap();
        assert_eq!(told.1, 1, "the first ones were forgotten");
    }
}
