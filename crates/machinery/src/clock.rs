//! Time as a value.
//!
//! A [`Clock`] supplies the time for everything that concerns objects: TTLs, schedule times, grace periods, ages, queue
//! delays. It either calls a function that the binary passes in (`wall`), or it is driven: it starts at a given time, runs
//! at a multiple of tokio's time and can be moved. Tests on paused time, `--clock-speed` and `clock advance` all use a
//! driven clock, so that tests exercise the code that runs. Transport timeouts and reconnects use tokio's time directly.
//!
//! The machine's clock may be set back. Times on objects are compared with [`Clock::now`]; waits and backoffs are measured
//! by [`Clock::steady`], which never goes back.
//!
//! Nothing in this crate reads the machine's clock; `wall` takes the function that does.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::time::Instant;

/// Longest uninterrupted sleep. A sleeper notices a suspended machine or a changed machine clock after at most this time.
pub const SLEEP_PIECE_MAX: Duration = Duration::from_secs(10);

/// The speed of a driven clock that advances as fast as tokio's time.
pub const REAL_TIME: NonZeroU32 = NonZeroU32::MIN;

/// A clock. Clones show the same time and share all jumps.
#[derive(Clone)]
pub struct Clock {
    source: ClockSource,
    /// The clock's time when it was made, and tokio's.
    start: Timestamp,
    origin: Instant,
    /// A watch channel, because a jump must wake sleepers immediately.
    jumps: Arc<watch::Sender<ClockJumps>>,
}

#[derive(Clone, Copy)]
enum ClockSource {
    Wall(fn() -> Timestamp),
    Driven { speed: NonZeroU32 },
}

/// The jumps of a clock so far.
#[derive(Debug, Clone, Copy, Default)]
struct ClockJumps {
    sum: SignedDuration,
    /// The sum of the jumps that went forward.
    forward: SignedDuration,
}

/// A time that never goes back: the time of a clock when it was made, plus the time that has passed since. It differs
/// from [`Clock::now`] by as much as the clock was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SteadyTime(Timestamp);

/// A wall clock cannot be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this clock shows the machine's time and cannot be moved")]
pub struct NotDriven;

// === impl Clock ===

impl Clock {
    /// A clock that shows what `read` returns. Only the binary passes such a function.
    #[must_use]
    pub fn wall(read: fn() -> Timestamp) -> Self {
        Self::from_source(ClockSource::Wall(read), read())
    }

    /// A clock that starts at `start` and advances `speed` times as fast as tokio's time.
    ///
    /// On a paused tokio runtime it stands still unless the runtime advances.
    #[must_use]
    pub fn driven(start: Timestamp, speed: NonZeroU32) -> Self {
        Self::from_source(ClockSource::Driven { speed }, start)
    }

    fn from_source(source: ClockSource, start: Timestamp) -> Self {
        Self {
            source,
            start,
            origin: Instant::now(),
            jumps: Arc::new(watch::Sender::new(ClockJumps::default())),
        }
    }

    /// The current time, clamped to the range of [`Timestamp`].
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match self.source {
            ClockSource::Wall(read) => read(),
            ClockSource::Driven { .. } => add(self.without_jumps(), self.jumps.borrow().sum),
        }
    }

    /// The current time by a clock that is never set back. A jump of a driven clock forward counts as time that passed.
    #[must_use]
    pub fn steady(&self) -> SteadyTime {
        SteadyTime(add(self.without_jumps(), self.jumps.borrow().forward))
    }

    fn without_jumps(&self) -> Timestamp {
        let ran = self.origin.elapsed().saturating_mul(self.speed());
        add(
            self.start,
            SignedDuration::try_from(ran).unwrap_or(SignedDuration::MAX),
        )
    }

    fn speed(&self) -> u32 {
        match self.source {
            ClockSource::Wall(_) => 1,
            ClockSource::Driven { speed } => speed.get(),
        }
    }

    /// Moves a driven clock by `by`, backwards if it is negative, and wakes all sleepers to check the time again.
    ///
    /// # Errors
    /// A wall clock cannot be moved.
    pub fn jump(&self, by: SignedDuration) -> Result<Timestamp, NotDriven> {
        match self.source {
            ClockSource::Wall(_) => Err(NotDriven),
            ClockSource::Driven { .. } => {
                self.jumps.send_modify(|jumps| {
                    jumps.sum = jumps.sum.saturating_add(by);
                    let forward = by.max(SignedDuration::ZERO);
                    jumps.forward = jumps.forward.saturating_add(forward);
                });
                Ok(self.now())
            }
        }
    }

    /// Returns when the clock shows `until` or later.
    ///
    /// Sleeps in pieces of at most [`SLEEP_PIECE_MAX`], and a jump ends a piece early, so that neither a suspended machine
    /// nor a moved clock makes a sleeper late.
    pub async fn sleep_until(&self, until: Timestamp) {
        let mut jumps = self.jumps.subscribe();
        loop {
            let left = until.duration_since(self.now());
            if left <= SignedDuration::ZERO {
                return;
            }
            self.sleep_piece(left, &mut jumps).await;
        }
    }

    /// Returns when the steady time is `until` or later, after a jump of the clock, or after [`SLEEP_PIECE_MAX`]. The
    /// caller checks both times again.
    pub async fn sleep_until_steady(&self, until: SteadyTime) {
        let mut jumps = self.jumps.subscribe();
        let left = until.0.duration_since(self.steady().0);
        if left > SignedDuration::ZERO {
            self.sleep_piece(left, &mut jumps).await;
        }
    }

    /// Sleeps until `left` has passed on this clock, or less: until a jump, or for the longest piece.
    async fn sleep_piece(&self, left: SignedDuration, jumps: &mut watch::Receiver<ClockJumps>) {
        // Rounded up, so that a sleeper does not wake too early.
        let left = left.unsigned_abs() / self.speed() + Duration::from_nanos(1);
        let piece = left.min(SLEEP_PIECE_MAX);
        let _ = tokio::time::timeout(piece, jumps.changed()).await;
    }
}

// === impl SteadyTime ===

impl SteadyTime {
    /// The time that this timestamp is in [`Clock::steady`].
    #[must_use]
    pub const fn at(time: Timestamp) -> Self {
        Self(time)
    }

    /// This time as a timestamp, for comparison with others of [`Clock::steady`].
    #[must_use]
    pub const fn timestamp(self) -> Timestamp {
        self.0
    }

    /// The time after a wait, or before this one if the wait is negative.
    #[must_use]
    pub fn after(self, wait: SignedDuration) -> Self {
        Self(add(self.0, wait))
    }

    /// The time after a wait.
    #[must_use]
    pub fn later(self, wait: Duration) -> Self {
        self.after(SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX))
    }

    /// The time since an earlier one; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::try_from(self.0.duration_since(earlier.0)).unwrap_or_default()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.source {
            ClockSource::Wall(_) => "wall",
            ClockSource::Driven { .. } => "driven",
        };
        write!(f, "Clock({kind}, {})", self.now())
    }
}

/// `time + by`, held at the ends of the representable range.
fn add(time: Timestamp, by: SignedDuration) -> Timestamp {
    let limit = if by.is_negative() {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    };
    time.checked_add(by).unwrap_or(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = "2026-03-01T12:00:00Z";

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn mk_clock(speed: u32) -> Clock {
        Clock::driven(at(START), NonZeroU32::new(speed).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn paused_time_advances_only_while_a_task_sleeps() {
        let clock = mk_clock(1);
        tokio::task::yield_now().await;
        assert_eq!(clock.now(), at(START));

        clock.sleep_until(at("2026-03-01T17:00:00Z")).await;
        let late = clock.now().duration_since(at("2026-03-01T17:00:00Z"));
        assert!(late >= SignedDuration::ZERO && late < SignedDuration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn clock_at_speed_60_sleeps_a_sixtieth() {
        let clock = mk_clock(60);
        let before = Instant::now();
        clock.sleep_until(at("2026-03-01T13:00:00Z")).await;

        let slept = before.elapsed();
        assert!(slept >= Duration::from_secs(60) && slept < Duration::from_millis(60_100));
        assert!(clock.now() >= at("2026-03-01T13:00:00Z"));
    }

    #[tokio::test(start_paused = true)]
    async fn jump_forward_ends_a_sleep_immediately() {
        let clock = mk_clock(1);
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep_until(at("2026-03-08T12:00:00Z")).await }
        });
        tokio::task::yield_now().await;

        let before = Instant::now();
        clock.jump(SignedDuration::from_hours(7 * 24)).unwrap();
        sleeper.await.unwrap();
        assert_eq!(before.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn jump_back_extends_a_sleep() {
        let clock = mk_clock(1);
        let before = Instant::now();
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep_until(at("2026-03-01T12:01:00Z")).await }
        });
        tokio::time::sleep(Duration::from_secs(30)).await;
        clock.jump(SignedDuration::from_mins(-2)).unwrap();
        assert_eq!(clock.now(), at("2026-03-01T11:58:30Z"));

        sleeper.await.unwrap();
        assert!(before.elapsed() >= Duration::from_secs(180));
    }

    #[tokio::test(start_paused = true)]
    async fn sleeping_until_the_past_returns_at_once() {
        let clock = mk_clock(1);
        let before = Instant::now();
        clock.sleep_until(at("1970-01-01T00:00:00Z")).await;
        assert_eq!(before.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn clones_share_jumps() {
        let clock = mk_clock(1);
        let clone = clock.clone();
        clock.jump(SignedDuration::from_secs(5)).unwrap();
        assert_eq!(clone.now(), at("2026-03-01T12:00:05Z"));
    }

    #[tokio::test(start_paused = true)]
    async fn jumps_are_clamped_to_representable_time() {
        let clock = mk_clock(1);
        assert_eq!(clock.jump(SignedDuration::MAX), Ok(Timestamp::MAX));
        clock.jump(SignedDuration::MIN).unwrap();
        assert_eq!(clock.jump(SignedDuration::MIN), Ok(Timestamp::MIN));
    }

    #[tokio::test(start_paused = true)]
    async fn steady_time_runs_at_the_clocks_speed_and_never_goes_back() {
        let clock = mk_clock(60);
        let start = clock.steady();
        assert_eq!(start.timestamp(), at(START));
        tokio::time::advance(Duration::from_secs(1)).await;
        clock.jump(SignedDuration::from_hours(-1)).unwrap();
        assert_eq!(clock.now(), at("2026-03-01T11:01:00Z"));
        assert_eq!(clock.steady().since(start), Duration::from_secs(60));
        clock.jump(SignedDuration::from_hours(2)).unwrap();
        assert_eq!(clock.now(), at("2026-03-01T13:01:00Z"));
        assert_eq!(clock.steady().since(start), Duration::from_secs(7_260));
    }

    #[tokio::test(start_paused = true)]
    async fn steady_time_of_a_wall_clock_does_not_depend_on_its_readings() {
        let clock = Clock::wall(|| Timestamp::UNIX_EPOCH);
        let start = clock.steady();
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(clock.now(), Timestamp::UNIX_EPOCH);
        assert_eq!(clock.steady().since(start), Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_steady_sleep_ends_early_only_for_a_jump_or_a_long_piece() {
        let clock = mk_clock(1);
        let start = clock.steady();
        for (wait, slept) in [(3, 3), (3_600, 10)] {
            let before = Instant::now();
            let until = clock.steady().later(Duration::from_secs(wait));
            clock.sleep_until_steady(until).await;
            assert_eq!(before.elapsed().as_secs(), slept);
        }
        let before = Instant::now();
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move {
                clock
                    .sleep_until_steady(start.later(SLEEP_PIECE_MAX * 9))
                    .await;
            }
        });
        tokio::task::yield_now().await;
        clock.jump(SignedDuration::from_hours(-1)).unwrap();
        sleeper.await.unwrap();
        assert_eq!(before.elapsed(), Duration::ZERO);
    }

    #[test]
    fn wall_clock_shows_the_given_time_and_cannot_jump() {
        let clock = Clock::wall(|| Timestamp::UNIX_EPOCH);
        assert_eq!(clock.now(), Timestamp::UNIX_EPOCH);
        assert_eq!(clock.jump(SignedDuration::from_secs(1)), Err(NotDriven));
    }
}
