//! Time zones: lookup by name, and conversion between instants and wall-clock time.
//!
//! Zones come only from the compiled-in IANA database, so that a schedule means the same on every machine. Names are
//! case-sensitive, as in Go. A [`ZoneTimeline`] finds the offset of an instant, and converts a wall-clock time to an
//! instant by the rule of Go's `time.Date`, which determines the results of robfig/cron at offset changes.

use std::cell::Cell;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::field::WallTime;

/// Most characters of a rejected text that a message repeats.
const QUOTED_CHARS_MAX: usize = 40;

/// A name is not that of an accepted time zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ZoneError {
    /// `Local`: the zone of the machine that the program runs on.
    #[error("the time zone \"Local\" is refused: it differs from machine to machine")]
    Local,
    /// The IANA database has no zone with exactly this name.
    #[error(
        "unknown time zone {0}; a name of the IANA database is needed, capitals as there, like Europe/Berlin"
    )]
    Unknown(String),
}

/// Looks up a zone by name. Links like `US/Eastern` are accepted.
///
/// # Errors
/// If the IANA database has no such name, or only one that differs in case.
pub fn find(name: &str) -> Result<TimeZone, ZoneError> {
    if name == "Local" {
        // DEVIATION(cron-local): upstream takes `TZ=Local` for the zone of the machine that runs the controller.
        return Err(ZoneError::Local);
    }
    let zone = TimeZoneDatabase::bundled().get(name);
    // jiff ignores case, and has a zone of its own for unknown names.
    zone.ok()
        .filter(|zone| zone.iana_name() == Some(name) && !zone.is_unknown())
        .ok_or_else(|| ZoneError::Unknown(quoted(name)))
}

/// The offsets of a zone over time, in whole seconds since 1970.
pub(super) struct ZoneTimeline<'z> {
    zone: &'z TimeZone,
    /// The two periods found last, the newest first. Nearly all lookups hit the same period, and those around an offset
    /// change alternate between two.
    known: Cell<[OffsetPeriod; 2]>,
}

/// A period in which the offset does not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OffsetPeriod {
    pub(super) from: i64,
    /// The first second after the period.
    pub(super) until: i64,
    pub(super) offset: i64,
}

// === impl ZoneTimeline ===

impl<'z> ZoneTimeline<'z> {
    pub(super) fn new(zone: &'z TimeZone) -> Self {
        let nowhere = OffsetPeriod {
            from: i64::MAX,
            until: i64::MIN,
            offset: 0,
        };
        Self {
            zone,
            known: Cell::new([nowhere; 2]),
        }
    }

    /// The period that contains `at`.
    pub(super) fn period(&self, at: i64) -> OffsetPeriod {
        let known = self.known.get();
        let has = |period: &&OffsetPeriod| (period.from..period.until).contains(&at);
        if let Some(period) = known.iter().find(has) {
            return *period;
        }
        let time = timestamp_near(at);
        let before = self
            .zone
            .preceding(timestamp_near(at.saturating_add(1)))
            .next();
        let after = self.zone.following(time).next();
        let found = OffsetPeriod {
            from: before.map_or(i64::MIN, |change| change.timestamp().as_second()),
            until: after.map_or(i64::MAX, |change| change.timestamp().as_second()),
            offset: i64::from(self.zone.to_offset(time).seconds()),
        };
        self.known.set([found, known[0]]);
        found
    }

    /// The instants after `at` at which the offset changes.
    pub(super) fn changes(&self, at: i64) -> impl Iterator<Item = i64> {
        let changes = self.zone.following(timestamp_near(at));
        changes.map(|change| change.timestamp().as_second())
    }

    pub(super) fn offset(&self, at: i64) -> i64 {
        self.period(at).offset
    }

    pub(super) fn wall(&self, at: i64) -> WallTime {
        WallTime::of_seconds(at + self.offset(at))
    }

    /// The instant at which the wall clock shows `wall`, which is given in seconds as if the offset were zero. Of a time
    /// that occurs twice, it is the first in zones west of Greenwich and the second east of it; a time that does not exist
    /// is moved to before the gap in the west and to after it in the east.
    pub(super) fn instant(&self, wall: i64) -> i64 {
        wall - self.offset(wall - self.offset(wall))
    }
}

/// An instant, clamped to the representable range.
fn timestamp_near(seconds: i64) -> Timestamp {
    let bounds = (Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
    Timestamp::from_second(seconds.clamp(bounds.0, bounds.1)).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Text for a message, shortened and with control characters escaped.
pub(super) fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(QUOTED_CHARS_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}
