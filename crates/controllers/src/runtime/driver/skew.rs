//! How far the server's clock is from ours, for controllers that compare our time with times that others wrote.
//!
//! Every answer tells the server's time. The median of the last of them, less ours, is the offset; a small one is nobody's
//! business, a large one is added to the time that such a controller is told, and what it asks for later is taken back to
//! ours. `Date` is cut off to a second and the answer took its way, so the corrected time is the server's or a little
//! earlier: nothing happens too soon because of it. What was learned before our clock jumped says nothing any more; the
//! correction stays until the next answer, before which nothing is written.
//!
//! DEVIATION(clock-skew): upstream judges TTLs by its own clock alone, and its documentation says to mind the skew.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::{Driver, Trip};
use crate::runtime::call::{Call, Target};
use crate::runtime::controller::Controller;

/// How many answers are remembered.
pub const DATES_MAX: usize = 16;

/// The largest difference that is left alone, and the smallest that is a jump of our clock.
pub const SKEW_MAX: SignedDuration = SignedDuration::from_secs(5);

/// By whose time a controller judges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Timing {
    /// Ours: it compares only what was told by our clock, or the server has the same.
    #[default]
    Own,
    /// The server's, if that is far from ours.
    Server,
}

/// What is known of the server's clock.
#[derive(Debug, Default)]
pub struct Skew {
    offsets: VecDeque<SignedDuration>,
    correction: SignedDuration,
    /// When it was looked last, by both of our clocks.
    looked: Option<(Timestamp, Instant)>,
}

// === impl Skew ===

impl Skew {
    /// An answer said that it was `date`, when it was `now` here. Says whether the correction is another one.
    pub fn note(&mut self, date: Timestamp, now: Timestamp) -> bool {
        if self.offsets.len() == DATES_MAX {
            self.offsets.pop_front();
        }
        self.offsets.push_back(date.duration_since(now));
        let mut sorted: Vec<SignedDuration> = self.offsets.iter().copied().collect();
        sorted.sort_unstable();
        // Of two in the middle the lower one: late rather than early.
        let median = sorted[(sorted.len() - 1) / 2];
        let correction = match median.abs() > SKEW_MAX {
            true => median,
            false => SignedDuration::ZERO,
        };
        // A second more or less is how `Date` is cut off.
        let is_other = (correction - self.correction).abs() > SKEW_MAX;
        if is_other {
            self.correction = correction;
        }
        is_other
    }

    /// Looks at our clock: a jump of it makes what was learned worthless.
    pub fn look(&mut self, now: Timestamp, at: Instant) {
        if let Some((then, before)) = self.looked {
            let passed = SignedDuration::try_from(at.duration_since(before)).unwrap_or_default();
            if (now.duration_since(then) - passed).abs() > SKEW_MAX {
                self.offsets.clear();
            }
        }
        self.looked = Some((now, at));
    }

    /// Whether anything is known.
    #[must_use]
    pub fn is_known(&self) -> bool {
        !self.offsets.is_empty()
    }

    /// What our time lacks.
    #[must_use]
    pub fn correction(&self) -> SignedDuration {
        self.correction
    }
}

impl<C: Controller> Driver<C> {
    /// The time that the controller is told.
    pub(super) fn told_time(&self, now: Timestamp) -> Timestamp {
        now.saturating_add(self.skew.correction())
            .unwrap_or(Timestamp::MAX)
    }

    /// Our time when the controller's is this.
    pub(super) fn own_time(&self, time: Timestamp) -> Timestamp {
        time.saturating_sub(self.skew.correction())
            .unwrap_or(Timestamp::MIN)
    }

    /// Takes note of the time that an answer told. With another correction, all times that were asked for are other ones.
    pub(super) fn compare_clocks(&mut self, date: Option<Timestamp>, now: Timestamp) {
        let Some(date) = date else {
            return;
        };
        if self.timing == Timing::Server && self.skew.note(date, now) {
            let secs = self.skew.correction().as_secs();
            tracing::warn!(
                controller = self.name,
                secs,
                "the server's clock is so many seconds ahead of ours (behind, if negative); its time counts"
            );
            self.queue.hasten(now);
        }
    }

    /// Whether the server has to tell its time before anything is written. One that was just asked and did not tell has
    /// none.
    pub(super) fn lacks_time(&self, target: &Target, trip: &Trip<C::Key>) -> bool {
        self.timing == Timing::Server && !self.skew.is_known() && trip.read.as_ref() != Some(target)
    }

    /// The read that makes it do so.
    pub(super) fn first_look(call: &Call) -> Call {
        Call::Get {
            target: call.target().clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

    fn secs(secs: i64) -> SignedDuration {
        SignedDuration::from_secs(secs)
    }

    fn noted(offsets: &[i64]) -> Skew {
        let mut skew = Skew::default();
        for offset in offsets {
            skew.note(NOW + secs(*offset), NOW);
        }
        skew
    }

    #[test]
    fn the_median_counts_and_only_if_it_is_large() {
        let table: &[(&[i64], i64)] = &[
            (&[], 0),
            (&[0], 0),
            (&[5], 0),
            (&[-5], 0),
            (&[6], 6),
            (&[-6], -6),
            (&[3600], 3600),
            // One answer that lies changes nothing, three of five do.
            (&[0, 0, 3600], 0),
            (&[0, 0, 3600, 3600, 3600], 3600),
            (&[0, 3600], 0),
            (&[-3600, 0, 3600], 0),
            (&[-3600, 3600], -3600),
        ];
        for (offsets, expected) in table {
            assert_eq!(noted(offsets).correction(), secs(*expected), "{offsets:?}");
        }
    }

    #[test]
    fn sixteen_answers_are_remembered() {
        let mut skew = noted(&[3600; 40]);
        for told in 0..DATES_MAX {
            let expected = if told < DATES_MAX / 2 { 3600 } else { 0 };
            assert_eq!(skew.correction(), secs(expected), "{told}");
            skew.note(NOW, NOW);
        }
        assert_eq!(skew.correction(), secs(0));
    }

    #[test]
    fn a_second_more_or_less_is_no_news() {
        let mut skew = noted(&[100]);
        assert!(!skew.note(NOW + secs(101), NOW));
        assert!(!skew.note(NOW + secs(99), NOW));
        assert_eq!(skew.correction(), secs(100));
        for _ in 0..DATES_MAX {
            skew.note(NOW, NOW);
        }
        assert_eq!(skew.correction(), secs(0));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_learned_before_our_clock_jumped_is_forgotten_and_the_correction_stays() {
        let start = Instant::now();
        for (jump, is_known) in [(0, true), (5, true), (-5, true), (6, false), (-3600, false)] {
            let mut skew = noted(&[100]);
            skew.look(NOW, start);
            skew.look(NOW + secs(60 + jump), start + Duration::from_secs(60));
            assert_eq!(skew.is_known(), is_known, "{jump}");
            assert_eq!(skew.correction(), secs(100), "{jump}");
        }
    }
}
