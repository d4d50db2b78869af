//! Cron schedules: the times at which a CronJob is due.
//!
//! A [`CronSchedule`] is a value: it reads no clock and has no time zone of its own unless its text names one. Callers
//! parse it once and pass instants to it. A *slot* is an instant at which the schedule is due (its schedule time).
//!
//! - [`CronSchedule::next`]: the first slot after an instant; [`CronSchedule::slots`]: iterates over all of them.
//! - [`CronSchedule::latest`]: the last slot between two instants; [`CronSchedule::count`]: the number of slots between them.
//! - [`CronSchedule::zone`]: the zone that the text names. Without one the schedule uses the zone that the caller passes.
//! - [`CronSchedule::description`] and [`CronSchedule::clock_change_effects`]:
//!   the schedule in English, and what daylight saving changes do to it.
//! - [`zone::find`]: looks up a zone by its IANA name in the compiled-in database.
//!
//! Grammar and slots are those of robfig/cron 3.0.1, which Kubernetes and Volcano use, also at offset changes. Where
//! robfig/cron panics, hangs or makes no progress, the search falls back to the next minute that matches the fields
//! (`cron-standstill` in the deviations).

mod field;
mod parse;
mod search;
mod words;
pub mod zone;

use jiff::Timestamp;
use jiff::tz::TimeZone;

pub use self::parse::{CronParseError, SCHEDULE_BYTES_MAX};
pub use self::words::ClockChangeEffect;

use self::field::CronFields;
use self::zone::ZoneTimeline;

/// Counting stops here: upstream reports "too many missed start times" above 100 and counts no further.
pub const SLOTS_COUNTED_MAX: usize = 101;

/// A parsed cron schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronSchedule {
    text: String,
    kind: ScheduleKind,
    zone: Option<TimeZone>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScheduleKind {
    Fields(CronFields),
    /// `@every`: this many seconds after the previous slot.
    Every(i64),
}

// === impl CronSchedule ===

impl CronSchedule {
    /// Parses an expression of five fields, a descriptor like `@daily`, or `@every` with a duration, each optionally
    /// preceded by `TZ=` or `CRON_TZ=`.
    ///
    /// # Errors
    /// If the text is none of these. The error names the problem, its position, and the accepted values.
    pub fn parse(text: &str) -> Result<Self, CronParseError> {
        parse::parse(text)
    }

    /// The text that was parsed.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The zone that the text names by `TZ=` or `CRON_TZ=`. It takes precedence over the zone that a caller passes.
    #[must_use]
    pub fn zone(&self) -> Option<&TimeZone> {
        self.zone.as_ref()
    }

    /// The first slot later than `after`; `None` if there is none before the end of the fifth year after it.
    #[must_use]
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        self.next_on(&self.timeline(zone), after)
    }

    /// All slots after `after` in order. Ends when there is no next slot.
    pub fn slots<'s>(
        &'s self,
        after: Timestamp,
        zone: &'s TimeZone,
    ) -> impl Iterator<Item = Timestamp> + 's {
        let timeline = self.timeline(zone);
        let next = move |at: &Timestamp| self.next_on(&timeline, *at);
        std::iter::successors(Some(after), next).skip(1)
    }

    /// The last of the [slots](Self::slots) after `after` that is not later than `now`.
    ///
    /// Exact, and fast for any number of slots: microseconds, plus a few for each year if the schedule skips months.
    #[must_use]
    pub fn latest(&self, after: Timestamp, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let (after, now) = (whole_second(after), whole_second(now));
        let found = match &self.kind {
            ScheduleKind::Fields(fields) => {
                search::latest(fields, &self.timeline(zone), after, now)
            }
            ScheduleKind::Every(secs) => {
                let times = (now - after) / secs;
                (times > 0).then(|| after + times * secs)
            }
        };
        timestamp(found?)
    }

    /// The number of [slots](Self::slots) after `after` that are not later than `now`, at most [`SLOTS_COUNTED_MAX`].
    #[must_use]
    pub fn count(&self, after: Timestamp, now: Timestamp, zone: &TimeZone) -> usize {
        let due = self.slots(after, zone).take_while(|slot| *slot <= now);
        due.take(SLOTS_COUNTED_MAX).count()
    }

    fn timeline<'z>(&'z self, zone: &'z TimeZone) -> ZoneTimeline<'z> {
        ZoneTimeline::new(self.zone.as_ref().unwrap_or(zone))
    }

    fn next_on(&self, timeline: &ZoneTimeline<'_>, after: Timestamp) -> Option<Timestamp> {
        let after = whole_second(after);
        timestamp(match &self.kind {
            ScheduleKind::Fields(fields) => search::next(fields, timeline, after)?,
            ScheduleKind::Every(secs) => after.checked_add(*secs)?,
        })
    }
}

/// The whole second that contains an instant.
fn whole_second(time: Timestamp) -> i64 {
    time.as_second() - i64::from(time.subsec_nanosecond() < 0)
}

/// `None` if the second is outside the representable range.
fn timestamp(seconds: i64) -> Option<Timestamp> {
    Timestamp::from_second(seconds).ok()
}

#[cfg(test)]
mod tests;
