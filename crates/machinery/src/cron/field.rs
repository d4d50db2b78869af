//! The five fields of a schedule as sets of numbers, and the calendar they are read on.
//!
//! All times in this module are wall-clock times without a zone: it finds the minutes that match a schedule, and the first
//! and the last of them within bounds. `parse` creates the values; they never change. The rule that combines day of month
//! and day of week is that of robfig/cron 3.0.1 (`dayMatches`).

/// Seconds of a minute, an hour and a day on the wall clock.
pub(super) const MINUTE: i64 = 60;
pub(super) const HOUR: i64 = 60 * MINUTE;
pub(super) const DAY: i64 = 24 * HOUR;

/// A set of numbers below 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct NumberSet {
    bits: u64,
    /// The field was written as `*` without a step, so the set holds every number of its field.
    pub(super) starred: bool,
}

/// The five fields of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CronFields {
    pub(super) minute: NumberSet,
    pub(super) hour: NumberSet,
    pub(super) day: NumberSet,
    pub(super) month: NumberSet,
    /// 0 is Sunday.
    pub(super) weekday: NumberSet,
    /// Derived from the other fields.
    pub(super) rhythm: DayRecurrence,
}

/// How often the days that match a schedule recur. Bounds how far a search has to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DayRecurrence {
    /// A field is empty, so no time matches.
    Never,
    /// Only on dates that do not exist, like 31 April. An offset change on the first of a month can still make
    /// robfig's search return a slot.
    NoSuchDate,
    /// Only on 29 February: the one case in which the next slot can be more than a year away.
    LeapDays,
    /// The schedule skips some months.
    SomeMonths,
    /// In every month, on certain days of the week, possibly also on certain dates.
    EveryWeek,
    /// In every month, on certain dates.
    EveryMonth,
}

/// A date and time of day as a wall clock shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WallTime {
    pub(super) date: CivilDate,
    pub(super) hour: u8,
    pub(super) minute: u8,
    pub(super) second: u8,
}

/// A day of the proleptic Gregorian calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CivilDate {
    pub(super) year: i64,
    pub(super) month: u8,
    pub(super) day: u8,
    pub(super) weekday: u8,
}

// === impl NumberSet ===

impl NumberSet {
    /// `first`, `first + step`, … up to `last`.
    pub(super) fn steps(first: u8, last: u8, step: u64) -> Self {
        let step = usize::try_from(step).unwrap_or(usize::MAX).max(1);
        let mut set = Self::default();
        for value in (first..=last).step_by(step) {
            set.bits |= 1 << value;
        }
        set
    }

    /// Adds the numbers of `other`.
    pub(super) fn join(&mut self, other: Self) {
        self.bits |= other.bits;
        self.starred |= other.starred;
    }

    pub(super) fn has(self, value: u8) -> bool {
        self.bits & (1 << value) != 0
    }

    pub(super) fn len(self) -> u32 {
        self.bits.count_ones()
    }

    pub(super) fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// The lowest number in the set that is not below `value`.
    pub(super) fn at_or_after(self, value: u8) -> Option<u8> {
        let rest = self.bits & (u64::MAX << value);
        (rest != 0).then(|| rest.trailing_zeros() as u8)
    }

    /// The highest number in the set that is not above `value`.
    pub(super) fn at_or_before(self, value: u8) -> Option<u8> {
        let rest = self.bits & (u64::MAX >> (63 - value));
        (rest != 0).then(|| 63 - rest.leading_zeros() as u8)
    }

    pub(super) fn values(self) -> impl Iterator<Item = u8> {
        (0..64).filter(move |value| self.has(*value))
    }
}

// === impl CronFields ===

impl CronFields {
    /// Takes minute, hour, day of month, month and day of week in the order of the text.
    pub(super) fn new([minute, hour, day, month, weekday]: [NumberSet; 5]) -> Self {
        let mut fields = Self {
            minute,
            hour,
            day,
            month,
            weekday,
            rhythm: DayRecurrence::Never,
        };
        fields.rhythm = fields.find_rhythm();
        fields
    }

    /// Whether the schedule matches this day. If one of the two day fields is a star, the other decides; without a star
    /// a match in either field is enough.
    pub(super) fn has_day(&self, date: &CivilDate) -> bool {
        let (day, weekday) = (self.day.has(date.day), self.weekday.has(date.weekday));
        if self.day.starred || self.weekday.starred {
            day && weekday
        } else {
            day || weekday
        }
    }

    /// Whether the schedule matches exactly this second.
    pub(super) fn names(&self, wall: &WallTime) -> bool {
        self.month.has(wall.date.month)
            && self.has_day(&wall.date)
            && self.hour.has(wall.hour)
            && self.minute.has(wall.minute)
            && wall.second == 0
    }

    fn find_rhythm(&self) -> DayRecurrence {
        if self.minute.is_empty() || self.hour.is_empty() || self.month.is_empty() {
            return DayRecurrence::Never;
        }
        let every_month = self.month.len() == 12;
        // A starred field holds every value, so the other field decides.
        let by_weekday = !self.weekday.is_empty() && !self.weekday.starred
            || self.weekday.starred && self.day.starred;
        if by_weekday {
            return if every_month {
                DayRecurrence::EveryWeek
            } else {
                DayRecurrence::SomeMonths
            };
        }
        let first = match self.day.at_or_after(1) {
            Some(first) if !self.day.starred => first,
            _ => return DayRecurrence::Never,
        };
        let longest = self.month.values().map(|month| days_in(2000, month)).max();
        match longest {
            Some(longest) if first > longest => DayRecurrence::NoSuchDate,
            // The longest month has 29 days only if February is the only month.
            Some(29) if first == 29 => DayRecurrence::LeapDays,
            _ if every_month => DayRecurrence::EveryMonth,
            _ => DayRecurrence::SomeMonths,
        }
    }

    /// The first matching minute at or after `from`, before `until` and not after `year_last`, in wall-clock time.
    pub(super) fn first(&self, from: i64, until: i64, year_last: i64) -> Option<i64> {
        let mut day = from.div_euclid(DAY);
        loop {
            let date = CivilDate::of_day(day);
            if date.year > year_last || day.saturating_mul(DAY) >= until {
                return None;
            }
            if !self.month.has(date.month) {
                day = day_number(date.year, i64::from(date.month) + 1, 1);
                continue;
            }
            if self.has_day(&date) {
                let earliest = (from - day * DAY).max(0);
                let minute = (earliest + MINUTE - 1) / MINUTE;
                if let Some(minute) = self.first_minute(minute) {
                    let found = day * DAY + minute * MINUTE;
                    return (found < until).then_some(found);
                }
            }
            day += 1;
        }
    }

    /// The last matching minute at or before `to` and not before `from`, in wall-clock time.
    pub(super) fn last(&self, from: i64, to: i64) -> Option<i64> {
        let mut day = to.div_euclid(DAY);
        loop {
            if (day + 1).saturating_mul(DAY) <= from {
                return None;
            }
            let date = CivilDate::of_day(day);
            if !self.month.has(date.month) {
                day -= i64::from(date.day);
                continue;
            }
            if self.has_day(&date) {
                let latest = (to - day * DAY).min(DAY - 1);
                if let Some(minute) = self.last_minute(latest / MINUTE) {
                    let found = day * DAY + minute * MINUTE;
                    return (found >= from).then_some(found);
                }
            }
            day -= 1;
        }
    }

    /// The first matching minute of a day, counted from midnight, that is not before `minute`.
    fn first_minute(&self, minute: i64) -> Option<i64> {
        let (hour, rest) = (minute / 60, minute % 60);
        if hour < 24
            && self.hour.has(hour as u8)
            && let Some(found) = self.minute.at_or_after(rest as u8)
        {
            return Some(hour * 60 + i64::from(found));
        }
        let hour = self.hour.at_or_after(hour as u8 + 1)?;
        Some(i64::from(hour) * 60 + i64::from(self.minute.at_or_after(0)?))
    }

    /// The last matching minute of a day, counted from midnight, that is not after `minute`.
    fn last_minute(&self, minute: i64) -> Option<i64> {
        let (hour, rest) = (minute / 60, minute % 60);
        if self.hour.has(hour as u8)
            && let Some(found) = self.minute.at_or_before(rest as u8)
        {
            return Some(hour * 60 + i64::from(found));
        }
        let hour = self.hour.at_or_before((hour as u8).checked_sub(1)?)?;
        Some(i64::from(hour) * 60 + i64::from(self.minute.at_or_before(59)?))
    }
}

// === impl WallTime ===

impl WallTime {
    /// The wall-clock time `seconds` after 1970-01-01 00:00:00.
    pub(super) fn of_seconds(seconds: i64) -> Self {
        let of_day = seconds.rem_euclid(DAY);
        Self {
            date: CivilDate::of_day(seconds.div_euclid(DAY)),
            hour: (of_day / HOUR) as u8,
            minute: (of_day % HOUR / MINUTE) as u8,
            second: (of_day % MINUTE) as u8,
        }
    }

    /// Seconds since midnight.
    pub(super) fn of_day(&self) -> i64 {
        i64::from(self.hour) * HOUR + i64::from(self.minute) * MINUTE + i64::from(self.second)
    }
}

// === impl CivilDate ===

impl CivilDate {
    /// The [`day_number`] of the date that is `months` and `days` later.
    pub(super) fn number_after(&self, months: i64, days: i64) -> i64 {
        let (month, day) = (i64::from(self.month), i64::from(self.day));
        day_number(self.year, month + months, day + days)
    }

    /// The date `day` days after 1970-01-01.
    pub(super) fn of_day(day: i64) -> Self {
        /// Days of 400 years, after which the calendar repeats, of four years, and of a year without a leap day.
        const AGE: i64 = 146_097;
        const FOUR_YEARS: i64 = 1_461;
        const YEAR: i64 = 365;
        // Counted from 1 March of the year 0, a leap day is the last day of its year, of its four years and of its 400 years.
        let since_march = day + 719_468;
        let (age, of_age) = (since_march.div_euclid(AGE), since_march.rem_euclid(AGE));
        let leap_days = of_age / (FOUR_YEARS - 1) - of_age / 36_524 + of_age / (AGE - 1);
        let year_of_age = (of_age - leap_days) / YEAR;
        let of_year = of_age - (YEAR * year_of_age + year_of_age / 4 - year_of_age / 100);
        // From March on, every five months have 153 days.
        let month_from_march = (5 * of_year + 2) / 153;
        let day_of_month = of_year - (153 * month_from_march + 2) / 5 + 1;
        let (month, next_year) = if month_from_march < 10 {
            (month_from_march + 3, 0)
        } else {
            (month_from_march - 9, 1)
        };
        Self {
            year: age * 400 + year_of_age + next_year,
            month: month as u8,
            day: day_of_month as u8,
            // 1970-01-01 was a Thursday.
            weekday: (day + 4).rem_euclid(7) as u8,
        }
    }
}

/// The number of days between 1970-01-01 and a date. Month and day may be out of range, as in Go's `time.Date`: the 13th
/// month is January of the next year, the 31st of April the 1st of May.
pub(super) fn day_number(year: i64, month: i64, day: i64) -> i64 {
    let months = year * 12 + month - 1;
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12));
    // Years begin with March here, see `Date::of_day`.
    let (year, from_march) = if month >= 2 {
        (year, month - 2)
    } else {
        (year - 1, month + 10)
    };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (153 * from_march + 2) / 5 + day - 1 - 719_468
}

/// The number of days of a month.
pub(super) fn days_in(year: i64, month: u8) -> u8 {
    let month = i64::from(month);
    (day_number(year, month + 1, 1) - day_number(year, month, 1)) as u8
}
