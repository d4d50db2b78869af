//! The search for the next and the latest slot of a schedule.
//!
//! [`next`] follows the algorithm of robfig/cron 3.0.1 (`SpecSchedule.Next`): it advances month, day, hour, minute and
//! second in this order, and starts again with the month when one of them wraps around. Its results at an offset change
//! are therefore the same, oddities included: it skips a day whose midnight does not exist, or returns a slot on the day
//! after the one that matches. Where that algorithm does not terminate, or returns the time it started from, the search
//! returns the next minute that matches the fields.
//!
//! [`latest`] does not step from slot to slot over years: away from offset changes the algorithm finds exactly the minutes
//! that match the fields, so the last one can be computed directly.

use super::field::{
    CivilDate, CronFields, DAY, DayRecurrence, HOUR, MINUTE, NumberSet, WallTime, day_number,
};
use super::zone::ZoneTimeline;

/// A search gives up at the end of the fifth year after the one it starts in.
const YEARS_MAX: i64 = 5;

/// Most steps of one search. The longest known ones look for the 31st of a month with 30 days, in about 900 steps.
const STEPS_MAX: u32 = 2_000;

/// Distance in seconds from an offset change at which the change cannot affect a search: two offsets of a zone differ by at
/// most a day.
const CALM: i64 = DAY + HOUR;

/// Within this many days, away from changes of offset, a schedule of [`DayRecurrence::EveryWeek`] has a slot. A search that an
/// offset change affects misses at most one matching day.
const EVERY_WEEK_DAYS: i64 = 2 * 7 + 2;

/// The same for [`DayRecurrence::EveryMonth`], whose dates can be two months apart (31 August, 31 October).
const EVERY_MONTH_DAYS: i64 = 2 * 62 + 2;

/// Most offset changes that are examined to find a long period without one.
const PERIODS_MAX: usize = 8;

/// The search made no progress or exceeded [`STEPS_MAX`].
struct SearchStuck;

/// Whether a unit wrapped around while it was advanced, so that the larger units must be checked again.
#[derive(PartialEq, Eq)]
enum UnitOverflow {
    Yes,
    No,
}

/// State of one search.
struct SlotSearch<'a> {
    fields: &'a CronFields,
    timeline: &'a ZoneTimeline<'a>,
    at: i64,
    wall: WallTime,
    /// The smaller units were reset to their first value. This happens once per search.
    is_reset: bool,
    steps: u32,
}

/// The next slot after the second `after`.
pub(super) fn next(fields: &CronFields, timeline: &ZoneTimeline<'_>, after: i64) -> Option<i64> {
    if fields.rhythm == DayRecurrence::Never {
        return None;
    }
    let start = after + 1;
    match SlotSearch::new(fields, timeline, start).run() {
        Ok(Some(found)) if found >= start => Some(found),
        Ok(None) => None,
        // DEVIATION(cron-standstill): where robfig/cron hangs or returns the time it was given, a controller would hang
        // too. The next minute that matches the fields is what a user expects.
        Ok(Some(_)) | Err(SearchStuck) => named_next(fields, timeline, start),
    }
}

/// The first minute at or after `from` that matches the fields, within [`YEARS_MAX`].
pub(super) fn named_next(
    fields: &CronFields,
    timeline: &ZoneTimeline<'_>,
    from: i64,
) -> Option<i64> {
    let year_last = timeline.wall(from).date.year + YEARS_MAX;
    let mut at = from;
    loop {
        let period = timeline.period(at);
        let until = period.until.saturating_add(period.offset);
        if let Some(found) = fields.first(at + period.offset, until, year_last) {
            return Some(found - period.offset);
        }
        if period.until == i64::MAX || timeline.wall(period.until).date.year > year_last {
            return None;
        }
        at = period.until;
    }
}

/// The last slot after `after` that is not later than `now`.
pub(super) fn latest(
    fields: &CronFields,
    timeline: &ZoneTimeline<'_>,
    after: i64,
    now: i64,
) -> Option<i64> {
    let mut at = next(fields, timeline, after).filter(|first| *first <= now)?;
    if let Some(later) = certain(fields, timeline, after, now) {
        at = at.max(later);
    }
    loop {
        at = last_alike(fields, timeline, at, now);
        match next(fields, timeline, at) {
            Some(found) if found <= now => at = found,
            _ => return Some(at),
        }
    }
}

/// A slot not later than `now` that every sequence of slots from `after` contains, whatever offset changes lie between.
///
/// A schedule with slots in every week or month has a slot in the first days of any period that is long enough. From there
/// on, while the offset does not change, every matching minute is a slot.
fn certain(fields: &CronFields, timeline: &ZoneTimeline<'_>, after: i64, now: i64) -> Option<i64> {
    let days = match fields.rhythm {
        DayRecurrence::EveryWeek => EVERY_WEEK_DAYS,
        DayRecurrence::EveryMonth => EVERY_MONTH_DAYS,
        _ => return None,
    };
    let mut at = now;
    for _ in 0..PERIODS_MAX {
        let period = timeline.period(at);
        // After this time the change no longer affects the search.
        let settled = period.from.checked_add(CALM + DAY)?;
        if settled <= after {
            return None;
        }
        let (from, to) = (settled + days * DAY, now.min(period.until - CALM));
        if from < to
            && let Some(found) = fields.last(from + period.offset, to + period.offset)
        {
            return Some(found - period.offset);
        }
        at = period.from - 1;
    }
    None
}

/// The last slot not later than `now` that is reached from the slot `at` without an offset change; may be `at` itself.
fn last_alike(fields: &CronFields, timeline: &ZoneTimeline<'_>, at: i64, now: i64) -> i64 {
    let period = timeline.period(at);
    let wall = timeline.wall(at);
    if !fields.names(&wall) {
        return at;
    }
    // Within a day the search only adds hours and minutes; only steps between days use the wall clock.
    let midnight = at - wall.of_day() + DAY;
    let mut until = midnight.min(period.until);
    if at >= period.from.saturating_add(CALM) && fields.rhythm != DayRecurrence::LeapDays {
        until = until.max(period.until - CALM);
    }
    let to = now.min(until - 1);
    let found = fields.last(at + period.offset, to + period.offset);
    found.map_or(at, |found| found - period.offset)
}

// === impl SlotSearch ===

impl<'a> SlotSearch<'a> {
    fn new(fields: &'a CronFields, timeline: &'a ZoneTimeline<'a>, start: i64) -> Self {
        Self {
            fields,
            timeline,
            at: start,
            wall: timeline.wall(start),
            is_reset: false,
            steps: 0,
        }
    }

    fn run(mut self) -> Result<Option<i64>, SearchStuck> {
        let year_last = self.wall.date.year + YEARS_MAX;
        let (hours, minutes) = (self.fields.hour, self.fields.minute);
        while self.wall.date.year <= year_last {
            let over = self.months()? == UnitOverflow::Yes
                || self.days()? == UnitOverflow::Yes
                || self.climb(hours, HOUR, 24, |wall| wall.hour)? == UnitOverflow::Yes
                || self.climb(minutes, MINUTE, 60, |wall| wall.minute)? == UnitOverflow::Yes
                || self.climb(NumberSet::steps(0, 0, 1), 1, 60, |wall| wall.second)?
                    == UnitOverflow::Yes;
            if !over {
                return Ok(Some(self.at));
            }
        }
        Ok(None)
    }

    fn months(&mut self) -> Result<UnitOverflow, SearchStuck> {
        while !self.fields.month.has(self.wall.date.month) {
            if self.resets() {
                let CivilDate { year, month, .. } = self.wall.date;
                self.go_to_wall(day_number(year, i64::from(month), 1) * DAY);
            }
            let day = self.wall.date.number_after(1, 0);
            self.step()?;
            self.go_to_wall(day * DAY + self.wall.of_day());
            if self.wall.date.month == 1 {
                return Ok(UnitOverflow::Yes);
            }
        }
        Ok(UnitOverflow::No)
    }

    fn days(&mut self) -> Result<UnitOverflow, SearchStuck> {
        while !self.fields.has_day(&self.wall.date) {
            if self.resets() {
                self.go_to_wall(self.wall.date.number_after(0, 0) * DAY);
            }
            let day = self.wall.date.number_after(0, 1);
            let before = self.at;
            self.step()?;
            self.go_to_wall(day * DAY + self.wall.of_day());
            // Like robfig/cron: correct for a midnight that does not exist in whole hours.
            match i64::from(self.wall.hour) {
                0 => {}
                hour @ 13.. => self.go_to(self.at + (24 - hour) * HOUR),
                hour => self.go_to(self.at - hour * HOUR),
            }
            // Pacific/Apia had no 30 December 2011: one day after the 29th is the 29th again.
            if self.at == before {
                return Err(SearchStuck);
            }
            if self.wall.date.day == 1 {
                return Ok(UnitOverflow::Yes);
            }
        }
        Ok(UnitOverflow::No)
    }

    /// Adds units of elapsed time until the wall clock shows a value of `set`.
    fn climb(
        &mut self,
        set: NumberSet,
        unit: i64,
        values: u8,
        read: fn(&WallTime) -> u8,
    ) -> Result<UnitOverflow, SearchStuck> {
        while !set.has(read(&self.wall)) {
            if self.resets() {
                self.reset_below(unit);
            }
            // While the offset does not change, the skipped values do not match.
            let value = read(&self.wall);
            let steps = i64::from(set.at_or_after(value).unwrap_or(values) - value).max(1);
            let far = self.at + steps * unit;
            let is_calm = far < self.timeline.period(self.at).until;
            self.step()?;
            self.go_to(if is_calm { far } else { self.at + unit });
            if read(&self.wall) == 0 {
                return Ok(UnitOverflow::Yes);
            }
        }
        Ok(UnitOverflow::No)
    }

    /// Truncates to the unit, like robfig/cron: hours by the wall clock, smaller units by elapsed time. The two differ where
    /// an offset has seconds.
    fn reset_below(&mut self, unit: i64) {
        if unit == HOUR {
            let wall = self.at + self.timeline.offset(self.at);
            self.go_to_wall(wall - wall.rem_euclid(HOUR));
        } else {
            self.go_to(self.at - self.at.rem_euclid(unit));
        }
    }

    /// True on the first call only.
    fn resets(&mut self) -> bool {
        !std::mem::replace(&mut self.is_reset, true)
    }

    fn step(&mut self) -> Result<(), SearchStuck> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return Err(SearchStuck);
        }
        Ok(())
    }

    fn go_to(&mut self, at: i64) {
        self.at = at;
        self.wall = self.timeline.wall(at);
    }

    fn go_to_wall(&mut self, wall: i64) {
        self.go_to(self.timeline.instant(wall));
    }
}
