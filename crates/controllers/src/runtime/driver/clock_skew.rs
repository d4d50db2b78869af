//! The difference between the server's clock and ours, for controllers that compare our time with times that others
//! wrote.
//!
//! Every answer carries the server's time in its `Date` header; where no request is sent, the driver asks for the time
//! alone. The median of the last answers, minus our time, is the offset. A small offset is ignored. A large one is added to
//! the time that such a controller gets, and subtracted from the times that it asks for. `Date` has whole seconds and the
//! answer took its time, so the corrected time is the server's or a little earlier. An answer that makes it earlier than
//! that counts at once; one that makes it later counts when no answer has been as early for a minute, because one of
//! several API servers may have a wrong clock. While there is a correction nothing is decided with an old one: late is
//! safe, early is not.
//! After a jump of our own clock earlier answers are worthless: nothing is decided until the server has answered again.
//!
//! DEVIATION(clock-skew): upstream judges TTLs and schedule times by its own clock alone, and its documentation says to
//! mind the skew.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use caretaker_machinery::clock::{Clock, SteadyTime};
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

/// How far the wall clock may drift from the steady time before that counts as set: far more than the time between two
/// readings, and little enough that a timer is hardly late.
const SET_MIN: SignedDuration = SignedDuration::from_millis(500);

/// How long no answer has to confirm the correction before a later time replaces it. One of several API servers may have
/// a wrong clock, and the answers of the others come in between.
const LATER_AFTER: Duration = Duration::from_secs(60);

/// Whose time a controller judges by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TimeSource {
    /// Ours since the start, whatever the machine's clock is set to: it compares only times that it was given.
    #[default]
    Steady,
    /// Our wall clock: it compares times on objects, and the server has the same clock.
    Own,
    /// The server's, if that is far from our wall clock.
    Server,
}

/// A time by both clocks of a driver.
#[derive(Debug, Clone, Copy)]
pub(super) struct DriverTime {
    /// The wall clock's, for evidence and times on objects.
    pub(super) wall: Timestamp,
    /// The time by which waits and backoffs are measured.
    pub(super) steady: SteadyTime,
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
    /// How far the wall clock was ahead of the steady time when timers were last compared with it.
    drift: SignedDuration,
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
    /// When an answer last was as early as the correction, or earlier.
    confirmed: Option<Instant>,
}

// === impl DriverClock ===

impl DriverClock {
    pub(super) fn new(clock: Clock, timing: TimeSource, effects: Arc<Effects>) -> Self {
        let request = (timing == TimeSource::Server).then(|| ask(effects.clone(), Duration::ZERO));
        Self {
            drift: DriverTime::read(&clock).drift(),
            clock,
            timing,
            skew: ClockSkew::default(),
            effects,
            request,
            is_awaited: false,
        }
    }

    pub(super) fn now(&self) -> DriverTime {
        DriverTime::read(&self.clock)
    }

    /// The time that the controller gets.
    pub(super) fn controller_time(&self, now: DriverTime) -> Timestamp {
        match self.timing {
            TimeSource::Steady => now.steady.timestamp(),
            TimeSource::Own | TimeSource::Server => now
                .wall
                .saturating_add(self.skew.correction())
                .unwrap_or(Timestamp::MAX),
        }
    }

    /// The steady time at which the controller's time will be this, if no clock is set until then.
    pub(super) fn own_time(&self, time: Timestamp, now: DriverTime) -> SteadyTime {
        let left = time.duration_since(self.controller_time(now));
        now.steady.after(left)
    }

    /// What is added to our wall clock.
    pub(super) fn correction(&self) -> SignedDuration {
        self.skew.correction()
    }

    /// Whether the wall clock was set since the last call: then timers for its times have to be looked at again.
    pub(super) fn was_set(&mut self, now: DriverTime) -> bool {
        let was_set = self.timing != TimeSource::Steady && has_drifted(self.drift, now);
        if was_set {
            self.drift = now.drift();
        }
        was_set
    }

    /// Whether decisions have to wait for the server's time; the server is asked for it then.
    pub(super) fn is_unknown(&mut self, now: DriverTime) -> bool {
        if self.timing != TimeSource::Server {
            return false;
        }
        self.skew.look(now.wall, Instant::now());
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
        now: DriverTime,
    ) -> Option<SignedDuration> {
        let date = date.filter(|_| self.timing == TimeSource::Server)?;
        let has_changed = self.skew.note(date, now.wall, Instant::now());
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

    /// Waits until a steady time, until the wall clock is set, or for the answer to the request for the server's time.
    /// May be cancelled and called again.
    pub(super) async fn wait(&mut self, until: Option<SteadyTime>) -> Option<ServerTime> {
        let Self {
            clock,
            request,
            drift,
            ..
        } = self;
        let answer = async {
            match request {
                Some(request) => request.await,
                None => std::future::pending().await,
            }
        };
        let sleep = async {
            let Some(until) = until else {
                return std::future::pending().await;
            };
            loop {
                clock.sleep_until_steady(until).await;
                let now = DriverTime::read(clock);
                if now.steady >= until || has_drifted(*drift, now) {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            answer = answer => Some(answer),
            () = sleep => None,
        }
    }
}

// === impl DriverTime ===

impl DriverTime {
    fn read(clock: &Clock) -> Self {
        Self {
            wall: clock.now(),
            steady: clock.steady(),
        }
    }

    /// How far the wall clock is ahead of the steady time.
    fn drift(self) -> SignedDuration {
        self.wall.duration_since(self.steady.timestamp())
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
        let is_confirmed = |last: Instant| at.saturating_duration_since(last) < LATER_AFTER;
        if is_other && (correction < self.correction || !self.confirmed.is_some_and(is_confirmed)) {
            self.correction = correction;
            self.confirmed = Some(at);
            return true;
        }
        if offset <= self.correction + SKEW_MAX {
            self.confirmed = Some(at);
        }
        false
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
            self.confirmed = None;
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

fn has_drifted(before: SignedDuration, now: DriverTime) -> bool {
    now.drift().saturating_sub(before).abs() > SET_MIN
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

    /// Answers that come so rarely that a later time may replace an earlier one.
    fn noted(offsets: &[i64]) -> ClockSkew {
        let mut skew = ClockSkew::default();
        for (count, offset) in (0..).zip(offsets) {
            skew.note(NOW + secs(*offset), NOW, after(count));
        }
        skew
    }

    fn after(answers: u32) -> Instant {
        Instant::now() + LATER_AFTER * answers
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
        for (noted, count) in (0..DATES_MAX).zip(41..) {
            let expected = if noted <= DATES_MAX / 2 { 0 } else { 3600 };
            assert_eq!(skew.correction(), secs(expected), "{noted}");
            skew.note(NOW + secs(3600), NOW, after(count));
        }
        assert_eq!(skew.correction(), secs(3600));
    }

    #[test]
    fn a_clock_that_was_set_back_counts_at_once() {
        let mut skew = noted(&[3600; 40]);
        let back = after(40);
        assert!(skew.note(NOW, NOW, back));
        assert_eq!(skew.correction(), secs(0));
        // If that was a lie, the others are right again after a while.
        let second = Duration::from_secs(1);
        assert!(!skew.note(NOW + secs(3600), NOW, back + LATER_AFTER - second));
        assert_eq!(skew.correction(), secs(0));
        assert!(skew.note(NOW + secs(3600), NOW, back + LATER_AFTER + second));
        assert_eq!(skew.correction(), secs(3600));
    }

    /// Two API servers, one of them twelve seconds ahead, answer in turns.
    #[test]
    fn a_server_that_is_ahead_of_another_changes_the_correction_at_most_once() {
        for ahead_of_ten in 1..10 {
            let (mut skew, start) = (ClockSkew::default(), Instant::now());
            let changes = (0..400_u32).filter(|answer| {
                let is_ahead = answer * 7 % 10 < ahead_of_ten;
                let passed = Duration::from_secs(u64::from(*answer));
                let now = NOW + passed;
                let offset = secs(if is_ahead { 12 } else { 0 });
                skew.note(now + offset, now, start + passed)
            });
            let changes = changes.count();
            assert!(changes <= 2, "{ahead_of_ten} of ten: {changes} changes");
            assert_eq!(skew.correction(), secs(0), "{ahead_of_ten} of ten");
        }
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
