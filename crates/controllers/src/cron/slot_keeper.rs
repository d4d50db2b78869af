//! How long the Job of a slot is kept although a TTL, a history limit or `Replace` wants to delete it.
//!
//! The name of a Job proves that its slot was served, until the status records the slot. If both were missing, the next
//! decision would create the Job again. A slot that can no longer be served needs no proof: a later slot has come, or the
//! starting deadline has passed. So a status that cannot be written keeps no Job for ever.
//!
//! DEVIATION(cron-slot-kept): upstream deletes the Job at once, and a Job with a TTL of 0 can run twice.

use caretaker_machinery::cron::CronSchedule;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::CronSettings;
use super::facts;
use super::index::CronState;
use super::slots;
use crate::runtime::record::ObjectRecord;

/// The most by which the clock of the next leader may be behind ours: both are corrected beyond five seconds
/// (`clock-skew`).
const CLOCKS_APART: SignedDuration = SignedDuration::from_secs(10);

/// The parts of a CronJob that decide whether a slot can be served.
#[derive(Debug, Clone)]
pub(crate) struct SlotKeeper {
    created: Option<Timestamp>,
    last_schedule: Option<Timestamp>,
    /// `None` if schedule or zone cannot be read.
    schedule: Option<CronSchedule>,
    zone: TimeZone,
    deadline_secs: Option<i64>,
}

/// The reason why the Job of a slot is kept: the status does not record the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotHold {
    pub(crate) slot: Timestamp,
    /// When the slot can no longer be served; `None` if that time is not known.
    pub(crate) until: Option<Timestamp>,
}

// === impl SlotKeeper ===

impl SlotKeeper {
    /// Reads a CronJob.
    pub(crate) fn read(record: &ObjectRecord, default_zone: &TimeZone) -> Self {
        let (created, spec, status) = facts::cron_job(record);
        let is_zone_known = !matches!(spec.zone, Some(Err(_)));
        let schedule = spec.schedule.ok().filter(|_| is_zone_known);
        let zone = spec.zone.and_then(Result::ok);
        Self {
            created,
            last_schedule: status.last_schedule,
            schedule,
            zone: zone.unwrap_or_else(|| default_zone.clone()),
            deadline_secs: spec.deadline_secs,
        }
    }

    pub(super) fn of(cron: &CronState, settings: &CronSettings) -> Self {
        let is_zone_known = !matches!(cron.spec.zone, Some(Err(_)));
        let schedule = cron.spec.schedule.as_ref().ok();
        Self {
            created: Some(cron.created),
            last_schedule: cron.status.last_schedule,
            schedule: schedule.filter(|_| is_zone_known).cloned(),
            zone: cron.zone(settings).clone(),
            deadline_secs: cron.spec.deadline_secs,
        }
    }

    /// Why the Job of a slot is kept now, if it is.
    pub(crate) fn hold(&self, slot: Timestamp, now: Timestamp) -> Option<SlotHold> {
        let created = self.created.unwrap_or(Timestamp::MIN);
        if !slots::is_unrecorded_tick(slot, created, self.last_schedule, now) {
            return None;
        }
        let until = self.end(slot);
        let is_over = until.is_some_and(|until| until <= now);
        (!is_over).then_some(SlotHold { slot, until })
    }

    /// When no process serves a slot any more.
    fn end(&self, slot: Timestamp) -> Option<Timestamp> {
        let schedule = self.schedule.as_ref();
        let next = schedule.and_then(|schedule| slots::next_minute(schedule, &self.zone, slot));
        let late = self.deadline_secs.and_then(|secs| {
            slot.checked_add(SignedDuration::from_secs(secs.max(0)))
                .ok()
        });
        let end = next.into_iter().chain(late).min()?;
        end.checked_add(CLOCKS_APART).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        format!("2025-03-11T{text}Z").parse().unwrap()
    }

    fn mk(schedule: &str, deadline_secs: Option<i64>) -> SlotKeeper {
        SlotKeeper {
            created: Some(at("10:00:00")),
            last_schedule: None,
            schedule: CronSchedule::parse(schedule).ok(),
            zone: TimeZone::UTC,
            deadline_secs,
        }
    }

    #[test]
    fn a_slot_is_kept_until_the_next_one_or_its_deadline() {
        let rows = [
            ("*/5 * * * *", None, Some("10:10:10")),
            ("*/5 * * * *", Some(600), Some("10:10:10")),
            ("*/5 * * * *", Some(60), Some("10:06:10")),
            ("*/5 * * * *", Some(0), Some("10:05:10")),
            ("*/5 * * * *", Some(-1), Some("10:05:10")),
            ("*/5 * * * *", Some(i64::MAX), Some("10:10:10")),
            // All slots of a minute share one name.
            ("@every 10s", None, Some("10:06:10")),
            ("@every 90s", None, Some("10:06:40")),
            ("0 0 30 2 *", None, None),
            ("now and then", None, None),
            ("now and then", Some(60), Some("10:06:10")),
        ];
        let slot = at("10:05:00");
        for (schedule, deadline_secs, until) in rows {
            let keeper = mk(schedule, deadline_secs);
            let until = until.map(at);
            let hold = keeper.hold(slot, at("10:05:01"));
            assert_eq!(
                hold,
                Some(SlotHold { slot, until }),
                "{schedule} {deadline_secs:?}"
            );
            if let Some(until) = until {
                assert_eq!(keeper.hold(slot, until), None, "{schedule}");
            }
        }
    }

    #[test]
    fn a_recorded_slot_and_a_name_that_is_no_slot_are_not_kept() {
        let recorded = SlotKeeper {
            last_schedule: Some(at("10:05:00")),
            ..mk("*/5 * * * *", None)
        };
        assert_eq!(recorded.hold(at("10:05:00"), at("10:05:01")), None);
        let keeper = mk("*/5 * * * *", None);
        for slot in ["09:59:00", "11:06:00"] {
            assert_eq!(keeper.hold(at(slot), at("10:05:01")), None, "{slot}");
        }
    }
}
