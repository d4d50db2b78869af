//! Cron schedules: when a CronJob is due.
//!
//! A [`Schedule`] is a value without a clock and without a place. It is parsed once, and asked with instants:
//!
//! - [`Schedule::next`]: the first slot after an instant; [`Schedule::slots`]: all of them, one after the other.
//! - [`Schedule::latest`]: the last slot that is due of those after an instant; [`Schedule::count`]: how many there are.
//! - [`Schedule::zone`]: the zone that the text itself names. A schedule without one is read in the zone of the caller.
//! - [`Schedule::words`] and [`Schedule::surprises`]: what it means in English, and what happens when clocks change.
//! - [`zone::find`]: a zone by its IANA name, from the database that is compiled in.
//!
//! Grammar and slots are those of robfig/cron 3.0.1, which Kubernetes and Volcano use, at changes of offset too; where that
//! crashes, hangs or stands still, there is a sane answer (`cron-standstill` in the deviations).

mod field;
mod parse;
mod search;
mod words;
pub mod zone;

use jiff::Timestamp;
use jiff::tz::TimeZone;

pub use self::parse::{ParseError, SCHEDULE_BYTES_MAX};
pub use self::words::Surprise;

use self::field::Fields;
use self::zone::Ruler;

/// Slots are counted up to here: upstream says "too many missed start times" above 100 and does not look further.
pub const SLOTS_COUNTED_MAX: usize = 101;

/// When something is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    text: String,
    kind: Kind,
    zone: Option<TimeZone>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Fields(Fields),
    /// So many seconds after the last time, wherever that was.
    Every(i64),
}

// === impl Schedule ===

impl Schedule {
    /// Reads an expression of five fields, a descriptor like `@daily`, or `@every` with a duration, each with or without
    /// `TZ=` or `CRON_TZ=` before it.
    ///
    /// # Errors
    /// For everything else, with what is wrong, where, and what is allowed.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse::parse(text)
    }

    /// What it was parsed from.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The zone that the text names by `TZ=` or `CRON_TZ=`. It is used instead of any that a caller gives.
    #[must_use]
    pub fn zone(&self) -> Option<&TimeZone> {
        self.zone.as_ref()
    }

    /// The first slot later than `after`; none if there is none until the end of the fifth year after.
    #[must_use]
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        self.next_on(&self.ruler(zone), after)
    }

    /// All slots after `after`, each the next one of the one before. Ends when there is no next.
    pub fn slots<'s>(
        &'s self,
        after: Timestamp,
        zone: &'s TimeZone,
    ) -> impl Iterator<Item = Timestamp> + 's {
        let ruler = self.ruler(zone);
        let next = move |at: &Timestamp| self.next_on(&ruler, *at);
        std::iter::successors(Some(after), next).skip(1)
    }

    /// The last of the [slots](Self::slots) after `after` that is not later than `now`.
    ///
    /// Exact, and quick however many slots that are: microseconds, and a few more for each year if months are left out.
    #[must_use]
    pub fn latest(&self, after: Timestamp, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let (after, now) = (whole_second(after), whole_second(now));
        let found = match &self.kind {
            Kind::Fields(fields) => search::latest(fields, &self.ruler(zone), after, now),
            Kind::Every(secs) => {
                let times = (now - after) / secs;
                (times > 0).then(|| after + times * secs)
            }
        };
        timestamp(found?)
    }

    /// How many [slots](Self::slots) after `after` are not later than `now`, up to [`SLOTS_COUNTED_MAX`].
    #[must_use]
    pub fn count(&self, after: Timestamp, now: Timestamp, zone: &TimeZone) -> usize {
        let due = self.slots(after, zone).take_while(|slot| *slot <= now);
        due.take(SLOTS_COUNTED_MAX).count()
    }

    fn ruler<'z>(&'z self, zone: &'z TimeZone) -> Ruler<'z> {
        Ruler::new(self.zone.as_ref().unwrap_or(zone))
    }

    fn next_on(&self, ruler: &Ruler<'_>, after: Timestamp) -> Option<Timestamp> {
        let after = whole_second(after);
        timestamp(match &self.kind {
            Kind::Fields(fields) => search::next(fields, ruler, after)?,
            Kind::Every(secs) => after.checked_add(*secs)?,
        })
    }
}

/// The second that an instant lies in.
fn whole_second(time: Timestamp) -> i64 {
    time.as_second() - i64::from(time.subsec_nanosecond() < 0)
}

/// None beyond the end of representable time.
fn timestamp(seconds: i64) -> Option<Timestamp> {
    Timestamp::from_second(seconds).ok()
}

#[cfg(test)]
mod tests;
