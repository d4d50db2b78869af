//! Decides which Events are written. Pure: notes and times go in, planned Events come out.
//!
//! The steps are those of upstream's `events_cache.go` (1.36): limit the Events about one object, combine many similar
//! Events into one, and raise the count of an Event that was written before. Intervals are measured by steady time, so that
//! a clock that is set back suppresses no Event.

use std::collections::BTreeSet;
use std::time::Duration;

use caretaker_machinery::clock::SteadyTime;
use jiff::Timestamp;

use crate::runtime::bounded_map::BoundedMap;
use crate::runtime::controller::{EventNote, EventSeverity, EventSource, ObjectIdentity};

/// How many Events about one object may be written at once, as in upstream.
const SPAM_BURST: u32 = 25;

/// After that burst, one Event per this time, as in upstream.
const SPAM_EACH: Duration = Duration::from_secs(300);

/// The number of different messages of one reason from which on they are combined, as in upstream.
const SIMILAR_MAX: usize = 10;

/// Events further apart than this are not similar, as in upstream.
const SIMILAR_WITHIN: Duration = Duration::from_secs(600);

/// How many entries each map keeps, as in upstream. The entry that was not written for longest is dropped first.
const REMEMBERED_MAX: usize = 4_096;

/// Remembers the Events of late: their objects, messages and counts.
#[derive(Debug)]
pub(super) struct EventCorrelator {
    /// Per source and object: how many Events may still be written.
    spam: BoundedMap<(EventSource, ObjectIdentity), SpamTokens>,
    /// Per source, object and reason: the recent messages, and when the last one came.
    similar: BoundedMap<EventGroup, (SteadyTime, BTreeSet<String>)>,
    /// Per Event, also by the part of the object: its name and count on the server.
    written: BoundedMap<(EventGroup, String, String), WrittenEvent>,
}

type EventGroup = (EventSource, ObjectIdentity, &'static str, bool);

#[derive(Debug, Clone, Copy)]
struct SpamTokens {
    left: u32,
    /// The time at which `left` was computed.
    at: SteadyTime,
}

#[derive(Debug, Clone)]
struct WrittenEvent {
    name: String,
    count: u32,
    first: Timestamp,
}

/// An Event that is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlannedEvent {
    /// The existing Event whose count is raised; `None` creates one.
    pub(super) name: Option<String>,
    pub(super) message: String,
    pub(super) count: u32,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    /// The message that distinguishes it from similar Events; empty once they are combined.
    distinct_by: String,
}

// === impl EventCorrelator ===

impl EventCorrelator {
    /// Plans the Event of a note; `None` if there were too many Events about its object.
    pub(super) fn take(
        &mut self,
        source: &EventSource,
        note: &EventNote,
        now: Timestamp,
        steady: SteadyTime,
    ) -> Option<PlannedEvent> {
        let group = group(source, note);
        let (message, distinct_by) = self.combine(&group, note, steady);
        if !self.spend(source, &note.about, steady) {
            return None;
        }
        let key = (group, note.field_path.clone(), distinct_by.clone());
        let written = self.written.get(&key);
        Some(match written {
            Some(written) => PlannedEvent {
                name: Some(written.name.clone()),
                message,
                count: written.count.saturating_add(1),
                first: written.first,
                last: now,
                distinct_by,
            },
            None => PlannedEvent {
                name: None,
                message,
                count: 1,
                first: now,
                last: now,
                distinct_by,
            },
        })
    }

    /// Remembers that the server has a planned Event, under this name.
    pub(super) fn written(
        &mut self,
        source: &EventSource,
        note: &EventNote,
        planned: &PlannedEvent,
        name: String,
    ) {
        let written = WrittenEvent {
            name,
            count: planned.count,
            first: planned.first,
        };
        let part = note.field_path.clone();
        let key = (group(source, note), part, planned.distinct_by.clone());
        self.written.insert(key, written);
    }

    /// The message to write, and the text that distinguishes the Event from similar ones.
    fn combine(
        &mut self,
        group: &EventGroup,
        note: &EventNote,
        now: SteadyTime,
    ) -> (String, String) {
        let mut messages = match self.similar.get(group) {
            Some((last, messages)) if now.since(*last) <= SIMILAR_WITHIN => messages.clone(),
            _ => BTreeSet::new(),
        };
        messages.insert(note.message.clone());
        let is_many = messages.len() >= SIMILAR_MAX;
        if messages.len() > SIMILAR_MAX {
            // Only the number of messages matters, so one of them can go.
            messages.pop_first();
        }
        self.similar.insert(group.clone(), (now, messages));
        if is_many {
            let message = format!("(combined from similar events): {}", note.message);
            (message, String::new())
        } else {
            (note.message.clone(), note.message.clone())
        }
    }

    fn spend(&mut self, source: &EventSource, about: &ObjectIdentity, now: SteadyTime) -> bool {
        let key = (source.clone(), about.clone());
        let mut tokens = match self.spam.get(&key) {
            Some(tokens) => tokens.refilled(now),
            None => SpamTokens {
                left: SPAM_BURST,
                at: now,
            },
        };
        let may = tokens.left > 0;
        tokens.left -= u32::from(may);
        self.spam.insert(key, tokens);
        may
    }
}

impl Default for EventCorrelator {
    fn default() -> Self {
        Self {
            spam: BoundedMap::new(REMEMBERED_MAX),
            similar: BoundedMap::new(REMEMBERED_MAX),
            written: BoundedMap::new(REMEMBERED_MAX),
        }
    }
}

fn group(source: &EventSource, note: &EventNote) -> EventGroup {
    let is_warning = note.severity == EventSeverity::Warning;
    (source.clone(), note.about.clone(), note.reason, is_warning)
}

// === impl SpamTokens ===

impl SpamTokens {
    fn refilled(self, now: SteadyTime) -> Self {
        let periods = now.since(self.at).as_secs() / SPAM_EACH.as_secs();
        let periods = u32::try_from(periods).unwrap_or(u32::MAX);
        let left = self.left.saturating_add(periods).min(SPAM_BURST);
        let at = if left == SPAM_BURST {
            now
        } else {
            self.at.later(SPAM_EACH.saturating_mul(periods))
        };
        Self { left, at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: EventSource = EventSource {
        component: "garbage-collector-controller",
        host: String::new(),
    };

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(secs).unwrap()
    }

    fn mk_note(name: &str, message: &str) -> EventNote {
        let about = ObjectIdentity {
            name: name.to_owned(),
            ..ObjectIdentity::default()
        };
        EventNote::warning(about, "OwnerRefInvalidNamespace", message.to_owned())
    }

    /// Plans an Event by a clock that is not set.
    fn take(correlator: &mut EventCorrelator, note: &EventNote, secs: i64) -> Option<PlannedEvent> {
        correlator.take(&SOURCE, note, at(secs), SteadyTime::at(at(secs)))
    }

    /// Plans an Event and marks it as written. Returns its name before the write, its count and its message.
    fn record(
        correlator: &mut EventCorrelator,
        note: &EventNote,
        secs: i64,
    ) -> Option<(Option<String>, u32, String)> {
        let planned = take(correlator, note, secs)?;
        let name = planned.name.clone().unwrap_or_else(|| format!("e{secs}"));
        correlator.written(&SOURCE, note, &planned, name);
        Some((planned.name, planned.count, planned.message))
    }

    #[test]
    fn the_same_event_again_raises_a_count() {
        let mut correlator = EventCorrelator::default();
        let note = mk_note("a", "m");
        let first = record(&mut correlator, &note, 0).unwrap();
        assert_eq!(first, (None, 1, "m".to_owned()));
        let second = record(&mut correlator, &note, 5).unwrap();
        assert_eq!(second, (Some("e0".to_owned()), 2, "m".to_owned()));
        let planned = take(&mut correlator, &note, 9).unwrap();
        assert_eq!((planned.first, planned.last), (at(0), at(9)));
        let other = record(&mut correlator, &mk_note("b", "m"), 9).unwrap();
        assert_eq!(other.1, 1, "about another object");
    }

    #[test]
    fn events_about_parts_of_an_object_are_counted_apart() {
        let mut correlator = EventCorrelator::default();
        let about = |part: &str| EventNote {
            field_path: format!("spec.containers{{{part}}}"),
            ..mk_note("a", "m")
        };
        for (part, count) in [("a", 1), ("b", 1), ("a", 2)] {
            let planned = record(&mut correlator, &about(part), 0).unwrap();
            assert_eq!(planned.1, count, "{part}");
        }
    }

    #[test]
    fn an_event_that_was_not_written_stays_new() {
        let mut correlator = EventCorrelator::default();
        let note = mk_note("a", "m");
        for _ in 0..3 {
            let planned = take(&mut correlator, &note, 0).unwrap();
            assert_eq!((planned.name, planned.count), (None, 1));
        }
    }

    #[test]
    fn combines_from_the_tenth_similar_event_on() {
        let mut correlator = EventCorrelator::default();
        for number in 0..9 {
            let note = mk_note("a", &format!("m{number}"));
            let planned = record(&mut correlator, &note, number).unwrap();
            assert_eq!(planned, (None, 1, format!("m{number}")));
        }
        let (name, count, message) = record(&mut correlator, &mk_note("a", "m9"), 9).unwrap();
        assert_eq!((name, count), (None, 1));
        assert_eq!(message, "(combined from similar events): m9");
        let (name, count, _) = record(&mut correlator, &mk_note("a", "m10"), 10).unwrap();
        assert_eq!((name, count), (Some("e9".to_owned()), 2));
        let later = 10 + 601;
        let planned = record(&mut correlator, &mk_note("a", "m11"), later).unwrap();
        assert_eq!(planned.2, "m11", "it is long ago");
    }

    #[test]
    fn limits_events_about_one_object() {
        let mut correlator = EventCorrelator::default();
        let note = mk_note("a", "m");
        let planned = (0..100).filter(|_| record(&mut correlator, &note, 0).is_some());
        assert_eq!(planned.count(), 25);
        assert!(record(&mut correlator, &mk_note("b", "m"), 0).is_some());
        assert!(record(&mut correlator, &note, 299).is_none());
        assert!(record(&mut correlator, &note, 300).is_some());
        assert!(record(&mut correlator, &note, 300).is_none());
        let planned = (0..100).filter(|_| record(&mut correlator, &note, 1_000_000).is_some());
        assert_eq!(planned.count(), 25, "never more than the burst");
    }

    #[test]
    fn a_clock_that_is_set_back_suppresses_no_event() {
        let mut correlator = EventCorrelator::default();
        let note = mk_note("a", "m");
        for _ in 0..30 {
            record(&mut correlator, &note, 3_600);
        }
        // Five minutes later, by a clock that was set back by an hour.
        let steady = SteadyTime::at(at(3_900));
        let planned = correlator.take(&SOURCE, &note, at(300), steady).unwrap();
        assert_eq!((planned.count, planned.last), (26, at(300)));
    }

    #[test]
    fn memory_is_bounded() {
        let mut correlator = EventCorrelator::default();
        for number in 0..i64::try_from(REMEMBERED_MAX).unwrap() + 10 {
            record(&mut correlator, &mk_note(&number.to_string(), "m"), number).unwrap();
        }
        let sizes = [
            correlator.spam.len(),
            correlator.similar.len(),
            correlator.written.len(),
        ];
        assert_eq!(sizes, [REMEMBERED_MAX; 3]);
        let planned = record(&mut correlator, &mk_note("0", "m"), 10_000).unwrap();
        assert_eq!(planned.1, 1, "the first ones were forgotten");
    }
}
