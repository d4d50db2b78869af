//! The search for slots: the next one, the latest one, how many.
//!
//! [`next`] walks as robfig/cron 3.0.1 does (`SpecSchedule.Next`): months, days, hours, minutes and seconds, each from where
//! the one before it stopped, and back to the months when one of them starts over. What the walk does at a change of
//! offset is therefore the same, its oddities included: a day that is lost when its midnight does not exist, a slot on the
//! day after the one that was named. Where that walk never ends, or ends where it began, the schedule is taken at its word
//! instead.
//!
//! [`latest`] does not walk from slot to slot over years: away from changes of offset the walk finds exactly the minutes
//! that the fields name, and these can be counted from the other end.

use super::field::{DAY, Date, Fields, HOUR, MINUTE, Rhythm, Set, Wall, day_number};
use super::zone::Ruler;

/// A schedule without a slot until the end of the fifth year after this one has no next slot.
const YEARS_MAX: i64 = 5;

/// Steps of one walk. The longest ones, in search of the 31st of a month that has 30 days, have some 900.
const STEPS_MAX: u32 = 2_000;

/// How far from a change of offset the walk is sure to be unimpressed: two offsets of a zone are a day apart at most.
const CALM: i64 = DAY + HOUR;

/// Within this many days, away from changes of offset, a schedule of [`Rhythm::EveryWeek`] has a slot. A walk that was
/// impressed by a change misses one day that is named, not two.
const EVERY_WEEK_DAYS: i64 = 2 * 7 + 2;

/// The same for [`Rhythm::EveryMonth`], whose dates can be two months apart (31 July, 31 August, 31 October).
const EVERY_MONTH_DAYS: i64 = 2 * 62 + 2;

/// How many changes of offset are looked at in search of a long time without one.
const STRETCHES_MAX: usize = 8;

/// A walk that does not come to an end.
struct Stuck;

/// Whether a part of the walk started over, so that everything above it has to be looked at again.
#[derive(PartialEq, Eq)]
enum Over {
    Yes,
    No,
}

/// Where a walk stands.
struct Walk<'a> {
    fields: &'a Fields,
    ruler: &'a Ruler<'a>,
    at: i64,
    wall: Wall,
    /// Whether the smaller units have been set back to their first value. Happens once in a walk.
    is_reset: bool,
    steps: u32,
}

/// The next slot after the second `after`.
pub(super) fn next(fields: &Fields, ruler: &Ruler<'_>, after: i64) -> Option<i64> {
    if fields.rhythm == Rhythm::Never {
        return None;
    }
    let start = after + 1;
    match Walk::new(fields, ruler, start).run() {
        Ok(Some(found)) if found >= start => Some(found),
        Ok(None) => None,
        // DEVIATION(cron-standstill): where robfig/cron hangs or returns the time it was given, a controller would hang
        // too. The next minute that is named is what everybody expects there.
        Ok(Some(_)) | Err(Stuck) => named_next(fields, ruler, start),
    }
}

/// The first minute at `from` or later that the fields name, within the years of a search.
pub(super) fn named_next(fields: &Fields, ruler: &Ruler<'_>, from: i64) -> Option<i64> {
    let year_last = ruler.wall(from).date.year + YEARS_MAX;
    let mut at = from;
    loop {
        let stretch = ruler.stretch(at);
        let until = stretch.until.saturating_add(stretch.offset);
        if let Some(found) = fields.first(at + stretch.offset, until, year_last) {
            return Some(found - stretch.offset);
        }
        if stretch.until == i64::MAX || ruler.wall(stretch.until).date.year > year_last {
            return None;
        }
        at = stretch.until;
    }
}

/// The last slot that is not after `now` of those that follow `after`.
pub(super) fn latest(fields: &Fields, ruler: &Ruler<'_>, after: i64, now: i64) -> Option<i64> {
    let mut at = next(fields, ruler, after).filter(|first| *first <= now)?;
    if let Some(later) = certain(fields, ruler, after, now) {
        at = at.max(later);
    }
    loop {
        at = last_alike(fields, ruler, at, now);
        match next(fields, ruler, at) {
            Some(found) if found <= now => at = found,
            _ => return Some(at),
        }
    }
}

/// A slot not after `now` that is reached from `after` whatever happens on the way.
///
/// A schedule with slots in every week or month has one in the first part of any time that is long enough. From there on,
/// as long as the offset does not change, every minute that is named is a slot.
fn certain(fields: &Fields, ruler: &Ruler<'_>, after: i64, now: i64) -> Option<i64> {
    let days = match fields.rhythm {
        Rhythm::EveryWeek => EVERY_WEEK_DAYS,
        Rhythm::EveryMonth => EVERY_MONTH_DAYS,
        _ => return None,
    };
    let mut at = now;
    for _ in 0..STRETCHES_MAX {
        let stretch = ruler.stretch(at);
        // What began before the change is over after these days, and the next slot is an ordinary one.
        let settled = stretch.from.checked_add(CALM + DAY)?;
        if settled <= after {
            return None;
        }
        let (from, to) = (settled + days * DAY, now.min(stretch.until - CALM));
        if from < to
            && let Some(found) = fields.last(from + stretch.offset, to + stretch.offset)
        {
            return Some(found - stretch.offset);
        }
        at = stretch.from - 1;
    }
    None
}

/// The last slot up to `now` that follows the slot `at` without anything happening on the way, perhaps `at` itself.
fn last_alike(fields: &Fields, ruler: &Ruler<'_>, at: i64, now: i64) -> i64 {
    let stretch = ruler.stretch(at);
    let wall = ruler.wall(at);
    if !fields.names(&wall) {
        return at;
    }
    // Within the day the walk only adds hours and minutes; from day to day it asks what the clock will show.
    let midnight = at - wall.of_day() + DAY;
    let mut until = midnight.min(stretch.until);
    if at >= stretch.from.saturating_add(CALM) && fields.rhythm != Rhythm::LeapDays {
        until = until.max(stretch.until - CALM);
    }
    let to = now.min(until - 1);
    let found = fields.last(at + stretch.offset, to + stretch.offset);
    found.map_or(at, |found| found - stretch.offset)
}

// === impl Walk ===

impl<'a> Walk<'a> {
    fn new(fields: &'a Fields, ruler: &'a Ruler<'a>, start: i64) -> Self {
        Self {
            fields,
            ruler,
            at: start,
            wall: ruler.wall(start),
            is_reset: false,
            steps: 0,
        }
    }

    fn run(mut self) -> Result<Option<i64>, Stuck> {
        let year_last = self.wall.date.year + YEARS_MAX;
        let (hours, minutes) = (self.fields.hour, self.fields.minute);
        while self.wall.date.year <= year_last {
            let over = self.months()? == Over::Yes
                || self.days()? == Over::Yes
                || self.climb(hours, HOUR, 24, |wall| wall.hour)? == Over::Yes
                || self.climb(minutes, MINUTE, 60, |wall| wall.minute)? == Over::Yes
                || self.climb(Set::steps(0, 0, 1), 1, 60, |wall| wall.second)? == Over::Yes;
            if !over {
                return Ok(Some(self.at));
            }
        }
        Ok(None)
    }

    fn months(&mut self) -> Result<Over, Stuck> {
        while !self.fields.month.has(self.wall.date.month) {
            if self.resets() {
                let Date { year, month, .. } = self.wall.date;
                self.go_to_wall(day_number(year, i64::from(month), 1) * DAY);
            }
            let day = self.wall.date.number_after(1, 0);
            self.step()?;
            self.go_to_wall(day * DAY + self.wall.of_day());
            if self.wall.date.month == 1 {
                return Ok(Over::Yes);
            }
        }
        Ok(Over::No)
    }

    fn days(&mut self) -> Result<Over, Stuck> {
        while !self.fields.has_day(&self.wall.date) {
            if self.resets() {
                self.go_to_wall(self.wall.date.number_after(0, 0) * DAY);
            }
            let day = self.wall.date.number_after(0, 1);
            let before = self.at;
            self.step()?;
            self.go_to_wall(day * DAY + self.wall.of_day());
            // A midnight that does not exist is made up for in whole hours, wherever that leads.
            match i64::from(self.wall.hour) {
                0 => {}
                hour @ 13.. => self.go_to(self.at + (24 - hour) * HOUR),
                hour => self.go_to(self.at - hour * HOUR),
            }
            // Pacific/Apia had no 30 December 2011: from the 29th a day later is the 29th.
            if self.at == before {
                return Err(Stuck);
            }
            if self.wall.date.day == 1 {
                return Ok(Over::Yes);
            }
        }
        Ok(Over::No)
    }

    /// Adds units of real time until the wall clock shows a value of `set`.
    fn climb(
        &mut self,
        set: Set,
        unit: i64,
        values: u8,
        read: fn(&Wall) -> u8,
    ) -> Result<Over, Stuck> {
        while !set.has(read(&self.wall)) {
            if self.resets() {
                self.reset_below(unit);
            }
            // While the offset stays the same, the values in between are those that do not match.
            let value = read(&self.wall);
            let steps = i64::from(set.at_or_after(value).unwrap_or(values) - value).max(1);
            let far = self.at + steps * unit;
            let is_calm = far < self.ruler.stretch(self.at).until;
            self.step()?;
            self.go_to(if is_calm { far } else { self.at + unit });
            if read(&self.wall) == 0 {
                return Ok(Over::Yes);
            }
        }
        Ok(Over::No)
    }

    /// Sets everything below an hour, a minute or a second to zero: below an hour by the wall clock, below a minute by
    /// real time, which are not the same where an offset has seconds.
    fn reset_below(&mut self, unit: i64) {
        if unit == HOUR {
            let wall = self.at + self.ruler.offset(self.at);
            self.go_to_wall(wall - wall.rem_euclid(HOUR));
        } else {
            self.go_to(self.at - self.at.rem_euclid(unit));
        }
    }

    /// Whether now is the one time to reset.
    fn resets(&mut self) -> bool {
        !std::mem::replace(&mut self.is_reset, true)
    }

    fn step(&mut self) -> Result<(), Stuck> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return Err(Stuck);
        }
        Ok(())
    }

    fn go_to(&mut self, at: i64) {
        self.at = at;
        self.wall = self.ruler.wall(at);
    }

    fn go_to_wall(&mut self, wall: i64) {
        self.go_to(self.ruler.instant(wall));
    }
}
