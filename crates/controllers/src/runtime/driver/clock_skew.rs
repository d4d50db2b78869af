//! The difference between the server's clock and ours, for controllers that compare our time with times that others
//! wrote.
//!
//! Every answer carries the server's time in its `Date` header; where no request is sent, the driver asks for the time
//! alone. The median of the last answers, minus our time, is the offset. A small offset is ignored. A large one is added to
//! the time that such a controller gets, and subtracted from the times that it asks for. `Date` has whole seconds and the
//! answer took its time, so the corrected time is the server's or a little earlier. An answer that makes it earlier than
//! that counts at once, and while there is a correction nothing is decided with an old one: late is safe, early is not.
//! After a jump of our own clock earlier answers are worthless: nothing is decided until the server has answered again.
//!
//! DEVIATION(clock-skew): upstream judges TTLs and schedule times by its own clock alone, and its documentation says to
//! mind the skew.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use caretaker_machinery::clock::Clock;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::runtime::effects::{Effects, ExchangeError};

/// How many answers are remembered.
pub const DATES_MAX: usize = 16;

/// The largest difference that is ignored. A larger one between our two clocks is a jump.
pub const SKEW_MAX: SignedDuration = SignedDuration::from_secs(5);

/// How long a correction is used after the server's last answer.
const FRESH: Duration = Duration::from_secs(10);

/// How often the server is asked for its time, whatever else it is asked: its clock may be corrected at any time.
const ASK_EVERY: Duration = Duration::from_secs(300);

/// The same after a request for the time that failed.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// The server's time; nothing if its answer has none.
pub(super) type ServerTime = Result<Option<Timestamp>, ExchangeError>;

/// A request for the server's time.
type TimeRequest = Pin<Box<dyn Future<Output = ServerTime> + Send>>;

/// Whose time a controller judges by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TimeSource {
    /// Ours: it compares only times that our clock gave, or the server has the same clock.
    #[default]
    Own,
    /// The server's, if that is far from ours.
    Server,
}

/// The time of one driver and its controller.
pub(super) struct DriverClock {
    clock: Clock,
    timing: TimeSource,
    skew: ClockSkew,
    effects: Arc<Effects>,
    /// The request for the server's time that is on its way, or waits to be sent.
    request: Option<TimeRequest>,
    /// Whether decisions wait for that request.
    is_awaited: bool,
}

/// Estimates the difference between the server's clock and ours.
#[derive(Debug, Default)]
pub struct ClockSkew {
    offsets: VecDeque<SignedDuration>,
    correction: SignedDuration,
    /// Whether the server's answers have no `Date`: then only our time can be used.
    is_silent: bool,
    /// The last reading of our two clocks.
    last_reading: Option<(Timestamp, Instant)>,
    /// When the server's last `Date` came.
    last_date: Option<Instant>,
}

// === impl DriverClock ===

impl DriverClock {
    pub(super) fn new(clock: Clock, timing: TimeSource, effects: Arc<Effects>) -> Self {
        let request = (timing == TimeSource::Server).then(|| ask(effects.clone(), Duration::ZERO));
        Self {
            clock,
            timing,
            skew: ClockSkew::default(),
            effects,
            request,
            is_awaited: false,
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The time that the controller gets.
    pub(super) fn controller_time(&self, now: Timestamp) -> Timestamp {
        now.saturating_add(self.skew.correction())
            .unwrap_or(Timestamp::MAX)
    }

    /// Our time when the controller's is this.
    pub(super) fn own_time(&self, time: Timestamp) -> Timestamp {
        time.saturating_sub(self.skew.correction())
            .unwrap_or(Timestamp::MIN)
    }

    /// Whether decisions have to wait for the server's time; the server is asked for it then.
    pub(super) fn is_unknown(&mut self, now: Timestamp) -> bool {
        if self.timing == TimeSource::Own {
            return false;
        }
        self.skew.look(now, Instant::now());
        let is_unknown = !self.skew.is_known();
        if is_unknown && !self.is_awaited {
            self.is_awaited = true;
            self.request = Some(ask(self.effects.clone(), Duration::ZERO));
        }
        is_unknown
    }

    /// Takes note of the `Date` of an answer. Returns the new correction if it changed: then all times that the
    /// controller asked for have changed.
    pub(super) fn note(
        &mut self,
        date: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<SignedDuration> {
        let date = date.filter(|_| self.timing == TimeSource::Server)?;
        let has_changed = self.skew.note(date, now, Instant::now());
        has_changed.then(|| self.skew.correction())
    }

    /// Takes note of the answer to a request for the time, and plans the next one. Returns the `Date`.
    pub(super) fn answered(&mut self, answer: &ServerTime) -> Option<Timestamp> {
        let (again, date) = match answer {
            Ok(date) => {
                self.is_awaited = false;
                self.skew.is_silent = date.is_none();
                (ASK_EVERY, *date)
            }
            Err(_) => (ASK_AGAIN, None),
        };
        self.request = Some(ask(self.effects.clone(), again));
        date
    }

    /// Waits until a time of our clock, or for the answer to the request for the server's time. May be cancelled and
    /// called again.
    pub(super) async fn wait(&mut self, until: Option<Timestamp>) -> Option<ServerTime> {
        let Self { clock, request, .. } = self;
        let answer = async {
            match request {
                Some(request) => request.await,
                None => std::future::pending().await,
            }
        };
        let sleep = async {
            match until {
                Some(until) => clock.sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            answer = answer => Some(answer),
            () = sleep => None,
        }
    }
}

// === impl ClockSkew ===

impl ClockSkew {
    /// An answer had this `Date` when our two clocks had `now` and `at`. Returns whether the correction changed.
    pub fn note(&mut self, date: Timestamp, now: Timestamp, at: Instant) -> bool {
        self.last_date = Some(at);
        if self.offsets.len() == DATES_MAX {
            self.offsets.pop_front();
        }
        let offset = date.duration_since(now);
        self.offsets.push_back(offset);
        let mut sorted: Vec<SignedDuration> = self.offsets.iter().copied().collect();
        sorted.sort_unstable();
        // Of two in the middle the lower one: late rather than early.
        let median = sorted[(sorted.len() - 1) / 2];
        // The server's clock was set back, or one of several servers is behind.
        let is_earlier = offset < median - SKEW_MAX;
        let likely = if is_earlier { offset } else { median };
        let correction = match likely.abs() > SKEW_MAX {
            true => likely,
            false => SignedDuration::ZERO,
        };
        // One second of difference comes from `Date`, which has whole seconds.
        let is_other = (correction - self.correction).abs() > SKEW_MAX;
        if is_other {
            self.correction = correction;
        }
        is_other
    }

    /// Compares our two clocks: a jump makes earlier answers worthless. Returns whether there was one.
    pub fn look(&mut self, now: Timestamp, at: Instant) -> bool {
        let last = self.last_reading.replace((now, at));
        let has_jumped = last.is_some_and(|(then, before)| {
            let passed = SignedDuration::try_from(at.duration_since(before)).unwrap_or_default();
            (now.duration_since(then) - passed).abs() > SKEW_MAX
        });
        if has_jumped {
            self.offsets.clear();
        }
        has_jumped
    }

    /// Whether the offset can be relied on, as far as that is possible.
    #[must_use]
    pub fn is_known(&self) -> bool {
        let is_fresh = || self.last_date.is_some_and(|last| last.elapsed() < FRESH);
        self.is_silent || (!self.offsets.is_empty() && (self.correction.is_zero() || is_fresh()))
    }

    /// What has to be added to our time.
    #[must_use]
    pub fn correction(&self) -> SignedDuration {
        self.correction
    }
}

/// Asks for the server's time after a while.
fn ask(effects: Arc<Effects>, after: Duration) -> TimeRequest {
    Box::pin(async move {
        tokio::time::sleep(after).await;
        effects.date().await
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

    fn secs(secs: i64) -> SignedDuration {
        SignedDuration::from_secs(secs)
    }

    fn noted(offsets: &[i64]) -> ClockSkew {
        let mut skew = ClockSkew::default();
        for offset in offsets {
            skew.note(NOW + secs(*offset), NOW, Instant::now());
        }
        skew
    }

    #[test]
    fn the_median_counts_if_it_is_large() {
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
    fn a_later_clock_needs_half_of_the_remembered_answers() {
        let mut skew = noted(&[0; 40]);
        for noted in 0..DATES_MAX {
            let expected = if noted <= DATES_MAX / 2 { 0 } else { 3600 };
            assert_eq!(skew.correction(), secs(expected), "{noted}");
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
    fn a_difference_of_a_second_changes_no_correction() {
        let mut skew = noted(&[100]);
        assert!(!skew.note(NOW + secs(101), NOW, Instant::now()));
        assert!(!skew.note(NOW + secs(99), NOW, Instant::now()));
        assert_eq!(skew.correction(), secs(100));
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_jump_drops_answers_and_keeps_the_correction() {
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
