//! How far the server's clock is from ours, for controllers that compare our time with times that others wrote.
//!
//! Every answer tells the server's time, and where none is asked for it is asked for the time alone. The median of the
//! last of them, less ours, is the offset; a small one is nobody's business, a large one is added to the time that such a
//! controller is told, and what it asks for later is taken back to ours. `Date` is cut off to a second and the answer took
//! its way, so the corrected time is the server's or a little earlier. An answer by which it is earlier than that counts at
//! once, and while there is a correction nothing is decided by an old one: rather late than too soon. What was learned
//! before our clock jumped says nothing any more: nothing is decided until the server has told its time again.
//!
//! DEVIATION(clock-skew): upstream judges TTLs and slots by its own clock alone, and its documentation says to mind the
//! skew.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::Driver;
use crate::runtime::controller::Controller;
use crate::runtime::effects::Effects;

/// How many answers are remembered.
pub const DATES_MAX: usize = 16;

/// The largest difference that is left alone, and the smallest that is a jump of our clock.
pub const SKEW_MAX: SignedDuration = SignedDuration::from_secs(5);

/// How long a correction is relied on after the server has told its time.
const FRESH: Duration = Duration::from_secs(10);

/// How often the server is asked for its time, whatever else it is asked: somebody may correct its clock.
const ASK_EVERY: Duration = Duration::from_secs(300);

/// The same, when it did not answer.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// A question for the server's time; an answer without one is an answer.
pub(super) type Question = Pin<Box<dyn Future<Output = Result<Option<Timestamp>, String>> + Send>>;

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
    /// Whether the server does not tell its time: then ours has to do.
    is_silent: bool,
    /// Whether it was asked because somebody waits for it.
    is_awaited: bool,
    /// When it was looked last, by both of our clocks.
    looked: Option<(Timestamp, Instant)>,
    /// When the server last told its time.
    told: Option<Instant>,
}

// === impl Skew ===

impl Skew {
    /// An answer said that it was `date`, when it was `now` here, by both of our clocks. Says whether the correction is another one.
    pub fn note(&mut self, date: Timestamp, now: Timestamp, at: Instant) -> bool {
        self.told = Some(at);
        if self.offsets.len() == DATES_MAX {
            self.offsets.pop_front();
        }
        let offset = date.duration_since(now);
        self.offsets.push_back(offset);
        let mut sorted: Vec<SignedDuration> = self.offsets.iter().copied().collect();
        sorted.sort_unstable();
        // Of two in the middle the lower one: late rather than early.
        let median = sorted[(sorted.len() - 1) / 2];
        // Somebody has set the server's clock back, or one of several is behind.
        let is_earlier = offset < median - SKEW_MAX;
        let likely = if is_earlier { offset } else { median };
        let correction = match likely.abs() > SKEW_MAX {
            true => likely,
            false => SignedDuration::ZERO,
        };
        // A second more or less is how `Date` is cut off.
        let is_other = (correction - self.correction).abs() > SKEW_MAX;
        if is_other {
            self.correction = correction;
        }
        is_other
    }

    /// Looks at our clock: a jump of it makes what was learned worthless. Says whether there was one.
    pub fn look(&mut self, now: Timestamp, at: Instant) -> bool {
        let last = self.looked.replace((now, at));
        let has_jumped = last.is_some_and(|(then, before)| {
            let passed = SignedDuration::try_from(at.duration_since(before)).unwrap_or_default();
            (now.duration_since(then) - passed).abs() > SKEW_MAX
        });
        if has_jumped {
            self.offsets.clear();
        }
        has_jumped
    }

    /// Whether what is known can be relied on, as far as that is possible.
    #[must_use]
    pub fn is_known(&self) -> bool {
        let is_fresh = || self.told.is_some_and(|told| told.elapsed() < FRESH);
        self.is_silent || (!self.offsets.is_empty() && (self.correction.is_zero() || is_fresh()))
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

    /// Whether the server has to tell its time before anything is decided; it is asked for it then.
    pub(super) fn lacks_time(&mut self, now: Timestamp) -> bool {
        if self.timing == Timing::Own {
            return false;
        }
        self.skew.look(now, Instant::now());
        let lacks = !self.skew.is_known();
        if lacks && !self.skew.is_awaited {
            self.skew.is_awaited = true;
            self.question = Some(ask(self.effects.clone(), Duration::ZERO));
        }
        lacks
    }

    /// Takes note of the time that an answer told. With another correction, all times that were asked for are other ones.
    pub(super) fn compare_clocks(&mut self, date: Option<Timestamp>, now: Timestamp) {
        let Some(date) = date else {
            return;
        };
        if self.timing == Timing::Server && self.skew.note(date, now, Instant::now()) {
            let secs = self.skew.correction().as_secs();
            tracing::warn!(
                controller = self.name,
                secs,
                "the server's clock is so many seconds ahead of ours (behind, if negative); its time counts"
            );
            self.queue.hasten(now);
        }
    }

    /// The server has told its time, or not.
    pub(super) fn told_the_time(&mut self, told: Result<Option<Timestamp>, String>) {
        let again = match told {
            Ok(date) => {
                self.skew.is_awaited = false;
                self.skew.is_silent = date.is_none();
                self.compare_clocks(date, self.clock.now());
                ASK_EVERY
            }
            Err(error) => {
                tracing::debug!(
                    controller = self.name,
                    error,
                    "the server does not tell its time"
                );
                ASK_AGAIN
            }
        };
        self.question = Some(ask(self.effects.clone(), again));
    }
}

/// Asks for the server's time after a while.
pub(super) fn ask(effects: Arc<Effects>, after: Duration) -> Question {
    Box::pin(async move {
        tokio::time::sleep(after).await;
        effects.date().await
    })
}

/// The answer to a question; never, if there is none.
pub(super) async fn answer(question: &mut Option<Question>) -> Result<Option<Timestamp>, String> {
    match question {
        Some(question) => question.await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

    fn secs(secs: i64) -> SignedDuration {
        SignedDuration::from_secs(secs)
    }

    fn noted(offsets: &[i64]) -> Skew {
        let mut skew = Skew::default();
        for offset in offsets {
            skew.note(NOW + secs(*offset), NOW, Instant::now());
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
    fn sixteen_answers_are_remembered_and_later_times_need_half_of_them() {
        let mut skew = noted(&[0; 40]);
        for told in 0..DATES_MAX {
            let expected = if told <= DATES_MAX / 2 { 0 } else { 3600 };
            assert_eq!(skew.correction(), secs(expected), "{told}");
            skew.note(NOW + secs(3600), NOW, Instant::now());
        }
        assert_eq!(skew.correction(), secs(3600));
    }

    #[test]
    fn a_clock_that_was_set_back_counts_at_once() {
        let mut skew = noted(&[3600; 40]);
        assert!(skew.note(NOW, NOW, Instant::now()));
        assert_eq!(skew.correction(), secs(0));
        // If that was a lie, the others are right again.
        assert!(skew.note(NOW + secs(3600), NOW, Instant::now()));
        assert_eq!(skew.correction(), secs(3600));
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_correction_is_not_relied_on() {
        for (offset, is_known) in [(0, true), (3600, false), (-3600, false)] {
            let skew = noted(&[offset]);
            assert!(skew.is_known());
            tokio::time::advance(FRESH).await;
            assert_eq!(skew.is_known(), is_known, "{offset}");
        }
    }

    #[test]
    fn a_second_more_or_less_is_no_news() {
        let mut skew = noted(&[100]);
        assert!(!skew.note(NOW + secs(101), NOW, Instant::now()));
        assert!(!skew.note(NOW + secs(99), NOW, Instant::now()));
        assert_eq!(skew.correction(), secs(100));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_learned_before_our_clock_jumped_is_forgotten_and_the_correction_stays() {
        let start = Instant::now();
        for (jump, is_known) in [(0, true), (5, true), (-5, true), (6, false), (-3600, false)] {
            let mut skew = noted(&[100]);
            assert!(!skew.look(NOW, start));
            let has_jumped = skew.look(NOW + secs(60 + jump), start + Duration::from_secs(60));
            assert_eq!(has_jumped, !is_known, "{jump}");
            assert_eq!(skew.is_known(), is_known, "{jump}");
            assert_eq!(skew.correction(), secs(100), "{jump}");
        }
    }
}
