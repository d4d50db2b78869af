//! Slots: which one is due, when the next one comes, and the names that Jobs get from them.
//!
//! Mirrors `mostRecentScheduleTime` and `nextScheduleTime` of both originals, whose estimate of the latest missed slot is
//! replaced by an exact search.
//!
//! DEVIATION(cron-latest-slot): upstream guesses the number of missed slots from the distance of the first two, and finds
//! none at all if a schedule is irregular. Here the latest one is found, and missed ones are counted up to 101.
//! DEVIATION(cron-deadline): upstream counts from `now - startingDeadlineSeconds`, so that `@every` with a short deadline
//! never runs. Here slots are counted from the last one, and those that are older than the deadline are dropped.

use caretaker_machinery::cron::{SLOTS_COUNTED_MAX, Schedule};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// How much later than now a Job's name may say that its slot is. Clocks are moved; a name that says more than that was
/// not given by us.
const AHEAD_MAX: SignedDuration = SignedDuration::from_hours(1);

/// How far it is looked back for a slot of a schedule that had none for years.
const YEARS_AGO: SignedDuration = SignedDuration::from_hours(366 * 24);

/// When a CronJob is due, seen from now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outlook {
    /// The latest slot that has come, if it came after the last one that was served.
    pub(super) due: Option<Slot>,
    /// The slot after it; none if there is none for years.
    pub(super) next: Option<Timestamp>,
}

/// A slot that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) time: Timestamp,
    /// How many slots have come, this one included, up to 101. Those that are over their deadline do not count.
    pub(super) count: usize,
    /// Whether it is as old as its deadline, or older.
    pub(super) is_late: bool,
}

/// What is due after `last`, and what comes then.
pub(super) fn outlook(
    schedule: &Schedule,
    zone: &TimeZone,
    last: Timestamp,
    deadline_secs: Option<i64>,
    now: Timestamp,
) -> Outlook {
    let mut last = last;
    let mut found = schedule.latest(last, now, zone);
    let mut next = None;
    if found.is_none() {
        next = schedule.next(last, zone);
        // Nothing for years after the last one, and those may be over: leap days of a century.
        if next.is_none() && last < now {
            last = now.saturating_sub(YEARS_AGO).unwrap_or(now).max(last);
            found = schedule.latest(last, now, zone);
            next = schedule.next(now, zone);
        }
    }
    let Some(time) = found else {
        return Outlook { due: None, next };
    };
    // A deadline before all time is none.
    let limit = deadline_secs.and_then(|secs| {
        let deadline = SignedDuration::from_secs(secs.max(0));
        now.checked_sub(deadline).ok()
    });
    let dropped = limit.and_then(|limit| schedule.latest(last, limit, zone));
    Outlook {
        due: Some(Slot {
            time,
            count: schedule.count(dropped.unwrap_or(last), now, zone),
            is_late: limit.is_some_and(|limit| time <= limit),
        }),
        next: next_minute(schedule, zone, time),
    }
}

/// The next slot that has a name of its own: the slots of a minute share one, and `@every 10s` has six of them.
fn next_minute(schedule: &Schedule, zone: &TimeZone, time: Timestamp) -> Option<Timestamp> {
    let mut next = schedule.next(time, zone)?;
    // Slots are whole seconds, so these are not many.
    while minute(next) == minute(time) {
        next = schedule.next(next, zone)?;
    }
    Some(next)
}

/// The slot after those that have come since `last`; none if there is none for years.
#[must_use]
pub fn next(
    schedule: &Schedule,
    zone: &TimeZone,
    last: Timestamp,
    now: Timestamp,
) -> Option<Timestamp> {
    outlook(schedule, zone, last, None, now).next
}

/// The name of the Job of a slot. Slots of the same minute have the same.
pub(super) fn name(cron_job: &str, slot: Timestamp) -> String {
    format!("{cron_job}-{}", minute(slot))
}

/// The slot that a Job's name stands for; `stamp`, where the Job has one, tells the second. Nothing if it is no tick's
/// name.
pub(crate) fn named(cron_job: &str, job: &str, stamp: Option<Timestamp>) -> Option<Timestamp> {
    let digits = job.strip_prefix(cron_job)?.strip_prefix('-')?;
    let minutes = i64::from(digits.parse::<u32>().ok()?);
    // No sign, no zeros in front: what `name` writes and nothing else.
    if minutes.to_string() != digits {
        return None;
    }
    let start = Timestamp::from_second(minutes * 60).ok()?;
    Some(
        stamp
            .filter(|stamp| minute(*stamp) == minutes)
            .unwrap_or(start),
    )
}

/// Whether the slot that a Job is named after is a tick of its CronJob which the status does not tell: newer than the last
/// one, or than the CronJob if there was none, and not in the future.
pub(crate) fn is_open(
    slot: Timestamp,
    created: Timestamp,
    last: Option<Timestamp>,
    now: Timestamp,
) -> bool {
    let is_new = match last {
        Some(_) => !is_recorded(slot, last),
        None => minute(slot) >= minute(created),
    };
    is_new && slot.duration_since(now) <= AHEAD_MAX
}

/// The latest slot that the name of a Job may stand for.
pub(super) fn latest_of_a_name(now: Timestamp) -> Timestamp {
    now.saturating_add(AHEAD_MAX).unwrap_or(Timestamp::MAX)
}

/// Whether a slot is told by a `lastScheduleTime`. A minute has one Job at most, whatever the schedule.
pub(super) fn is_recorded(slot: Timestamp, last: Option<Timestamp>) -> bool {
    last.is_some_and(|last| minute(slot) <= minute(last))
}

/// Whether upstream would say that too many were missed.
pub(super) fn are_too_many(count: usize) -> bool {
    count >= SLOTS_COUNTED_MAX
}

/// Whole minutes since 1970.
pub(super) fn minute(time: Timestamp) -> i64 {
    time.as_second().div_euclid(60)
}
