//! Time as a value.
//!
//! A [`Clock`] supplies the time for everything that concerns objects: TTLs, schedule times, grace periods, ages, queue
//! delays. It either calls a function that the binary passes in (`wall`), or it is driven: it starts at a given time, runs
//! at a multiple of tokio's time and can be moved. Tests on paused time, `--clock-speed` and `clock advance` all use a
//! driven clock, so that tests exercise the code that runs. Transport timeouts and reconnects use tokio's time directly.
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
    /// Sum of all jumps. A watch channel, because a jump must wake sleepers immediately.
    jumped: Arc<watch::Sender<SignedDuration>>,
}

#[derive(Clone, Copy)]
enum ClockSource {
    Wall(fn() -> Timestamp),
    Driven {
        start: Timestamp,
        origin: Instant,
        speed: NonZeroU32,
    },
}

/// A wall clock cannot be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this clock shows the machine's time and cannot be moved")]
pub struct NotDriven;

// === impl Clock ===

impl Clock {
    /// A clock that shows what `read` returns. Only the binary passes such a function.
    #[must_use]
    pub fn wall(read: fn() -> Timestamp) -> Self {
        Self::from_source(ClockSource::Wall(read))
    }

    /// A clock that starts at `start` and advances `speed` times as fast as tokio's time.
    ///
    /// On a paused tokio runtime it stands still unless the runtime advances.
    #[must_use]
    pub fn driven(start: Timestamp, speed: NonZeroU32) -> Self {
        Self::from_source(ClockSource::Driven {
            start,
            origin: Instant::now(),
            speed,
        })
    }

    fn from_source(source: ClockSource) -> Self {
        Self {
            source,
            jumped: Arc::new(watch::Sender::new(SignedDuration::ZERO)),
        }
    }

    /// The current time, clamped to the range of [`Timestamp`].
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match self.source {
            ClockSource::Wall(read) => read(),
            ClockSource::Driven {
                start,
                origin,
                speed,
            } => {
                let ran = origin.elapsed().saturating_mul(speed.get());
                let ran = SignedDuration::try_from(ran).unwrap_or(SignedDuration::MAX);
                add(add(start, ran), *self.jumped.borrow())
            }
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
                self.jumped.send_modify(|sum| *sum = sum.saturating_add(by));
                Ok(self.now())
            }
        }
    }

    /// Returns when the clock shows `until` or later.
    ///
    /// Sleeps in pieces of at most [`SLEEP_PIECE_MAX`], and a jump ends a piece early, so that neither a suspended machine
    /// nor a moved clock makes a sleeper late.
    pub async fn sleep_until(&self, until: Timestamp) {
        let mut jumps = self.jumped.subscribe();
        loop {
            let left = until.duration_since(self.now());
            if left <= SignedDuration::ZERO {
                return;
            }
            let piece = self.tokio_time_for(left).min(SLEEP_PIECE_MAX);
            // After a timeout or a jump, check the time again.
            let _ = tokio::time::timeout(piece, jumps.changed()).await;
        }
    }

    /// The tokio time in which `left` passes on this clock, rounded up so that a sleeper does not wake too early.
    fn tokio_time_for(&self, left: SignedDuration) -> Duration {
        let speed = match self.source {
            ClockSource::Wall(_) => 1,
            ClockSource::Driven { speed, .. } => speed.get(),
        };
        left.unsigned_abs() / speed + Duration::from_nanos(1)
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

    #[test]
    fn wall_clock_shows_the_given_time_and_cannot_jump() {
        let clock = Clock::wall(|| Timestamp::UNIX_EPOCH);
        assert_eq!(clock.now(), Timestamp::UNIX_EPOCH);
        assert_eq!(clock.jump(SignedDuration::from_secs(1)), Err(NotDriven));
    }
}
