//! Time zones: which names there are, and what the wall clock shows in one.
//!
//! Zones come from the IANA database that is compiled in and from nowhere else, so that a schedule means the same on every
//! machine. Names are Go's: a file name with its capitals. A [`Ruler`] lays a zone's offsets along the time line, and turns
//! what a wall clock shows into an instant by the rule of Go's `time.Date`, on which the odd hours of robfig/cron depend.

use std::cell::Cell;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::field::Wall;

/// How much of a text that is not understood is repeated in a message.
const QUOTED_CHARS_MAX: usize = 40;

/// Why a name is not that of a zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ZoneError {
    /// The zone of whatever machine the program runs on.
    #[error("the time zone \"Local\" is refused: it is another one on every machine")]
    Local,
    /// The database does not have it.
    #[error(
        "unknown time zone {0}; a name of the IANA database is needed, capitals as there, like Europe/Berlin"
    )]
    Unknown(String),
}

/// The zone of this name. Links like `US/Eastern` are names too.
///
/// # Errors
/// If the IANA database has no such name, or has it with other capitals.
pub fn find(name: &str) -> Result<TimeZone, ZoneError> {
    if name == "Local" {
        // DEVIATION(cron-local): upstream takes `TZ=Local` for the zone of the machine that runs the controller.
        return Err(ZoneError::Local);
    }
    let zone = TimeZoneDatabase::bundled().get(name);
    // jiff does not mind capitals, and has a name of its own for a zone that is not known.
    zone.ok()
        .filter(|zone| zone.iana_name() == Some(name) && !zone.is_unknown())
        .ok_or_else(|| ZoneError::Unknown(quoted(name)))
}

/// A zone along the time line, in whole seconds since 1970.
pub(super) struct Ruler<'z> {
    zone: &'z TimeZone,
    /// Where the last questions were answered, the newest first. Nearly all are about the same stretch, and those around a
    /// change of offset about two.
    known: Cell<[Stretch; 2]>,
}

/// Some time in which the offset stays the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) from: i64,
    /// The first second that does not belong to it.
    pub(super) until: i64,
    pub(super) offset: i64,
}

// === impl Ruler ===

impl<'z> Ruler<'z> {
    pub(super) fn new(zone: &'z TimeZone) -> Self {
        let nowhere = Stretch {
            from: i64::MAX,
            until: i64::MIN,
            offset: 0,
        };
        Self {
            zone,
            known: Cell::new([nowhere; 2]),
        }
    }

    /// The stretch that `at` belongs to.
    pub(super) fn stretch(&self, at: i64) -> Stretch {
        let known = self.known.get();
        let has = |stretch: &&Stretch| (stretch.from..stretch.until).contains(&at);
        if let Some(stretch) = known.iter().find(has) {
            return *stretch;
        }
        let time = timestamp_near(at);
        let before = self
            .zone
            .preceding(timestamp_near(at.saturating_add(1)))
            .next();
        let after = self.zone.following(time).next();
        let found = Stretch {
            from: before.map_or(i64::MIN, |change| change.timestamp().as_second()),
            until: after.map_or(i64::MAX, |change| change.timestamp().as_second()),
            offset: i64::from(self.zone.to_offset(time).seconds()),
        };
        self.known.set([found, known[0]]);
        found
    }

    /// When the offset changes after `at`.
    pub(super) fn changes(&self, at: i64) -> impl Iterator<Item = i64> {
        let changes = self.zone.following(timestamp_near(at));
        changes.map(|change| change.timestamp().as_second())
    }

    pub(super) fn offset(&self, at: i64) -> i64 {
        self.stretch(at).offset
    }

    pub(super) fn wall(&self, at: i64) -> Wall {
        Wall::of_seconds(at + self.offset(at))
    }

    /// When the wall clock shows `wall`, in seconds as if it stood in Greenwich. A time that comes twice is the first of
    /// both in the west and the second in the east; one that does not exist is moved to before the gap in the west and to
    /// after it in the east.
    pub(super) fn instant(&self, wall: i64) -> i64 {
        wall - self.offset(wall - self.offset(wall))
    }
}

/// An instant, held at the ends of the representable time.
fn timestamp_near(seconds: i64) -> Timestamp {
    let bounds = (Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
    Timestamp::from_second(seconds.clamp(bounds.0, bounds.1)).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Text in a message: no longer than one can read, and nothing that moves a terminal's cursor.
pub(super) fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(QUOTED_CHARS_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}
