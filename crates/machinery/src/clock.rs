//! Domain time as a value.
//!
//! A [`Clock`] tells the time that objects live by: TTLs, cron slots, grace periods, ages, queue delays. It either reads
//! a function the binary hands in (`wall`), or it is driven: it starts where it is told to, runs at a multiple of tokio's
//! time and can be moved by hand. Tests on paused time, `--clock-speed` and `clock advance` are all the driven kind, so
//! that what is tested is what runs. Transport time (timeouts, reconnects) is tokio's and does not pass through here.
//!
//! Nothing in this crate reads the machine's clock; that is why `wall` takes the function that does.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::time::Instant;

/// Longest uninterrupted sleep. A machine that was suspended or whose clock was set is noticed after at most this long.
pub const SLEEP_PIECE_MAX: Duration = Duration::from_secs(10);

/// The speed of a driven clock that keeps pace with tokio's time.
pub const REAL_TIME: NonZeroU32 = NonZeroU32::MIN;

/// Holds where domain time comes from. Clones show the same time and feel the same jumps.
#[derive(Clone)]
pub struct Clock {
    source: Source,
    /// Sum of all jumps. A watch channel, because sleepers must learn of a jump the moment it happens.
    jumped: Arc<watch::Sender<SignedDuration>>,
}

#[derive(Clone, Copy)]
enum Source {
    Wall(fn() -> Timestamp),
    Driven {
        start: Timestamp,
        origin: Instant,
        speed: NonZeroU32,
    },
}

/// The answer to moving a clock that shows the machine's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotDriven;

// === impl Clock ===

impl Clock {
    /// A clock that shows what `read` returns. Only the binary has such a function.
    #[must_use]
    pub fn wall(read: fn() -> Timestamp) -> Self {
        Self::from_source(Source::Wall(read))
    }

    /// A clock that starts at `start` and advances `speed` times as fast as tokio's time.
    ///
    /// On a paused tokio runtime it stands still unless the runtime advances.
    #[must_use]
    pub fn driven(start: Timestamp, speed: NonZeroU32) -> Self {
        Self::from_source(Source::Driven {
            start,
            origin: Instant::now(),
            speed,
        })
    }

    fn from_source(source: Source) -> Self {
        Self {
            source,
            jumped: Arc::new(watch::Sender::new(SignedDuration::ZERO)),
        }
    }

    /// The time now. It never leaves the range of [`Timestamp`]: beyond it, the clock stands still at the limit.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match self.source {
            Source::Wall(read) => read(),
            Source::Driven {
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

    /// Moves a driven clock by `by`, back if it is negative, and wakes every sleeper to look again.
    ///
    /// # Errors
    /// A wall clock cannot be moved.
    pub fn jump(&self, by: SignedDuration) -> Result<Timestamp, NotDriven> {
        match self.source {
            Source::Wall(_) => Err(NotDriven),
            Source::Driven { .. } => {
                self.jumped.send_modify(|sum| *sum = sum.saturating_add(by));
                Ok(self.now())
            }
        }
    }

    /// Returns when the clock shows `until` or later.
    ///
    /// Cut into pieces of at most [`SLEEP_PIECE_MAX`] and ended early by a jump, so that neither a suspended machine nor
    /// a moved clock makes a sleeper late.
    pub async fn sleep_until(&self, until: Timestamp) {
        let mut jumps = self.jumped.subscribe();
        loop {
            let left = until.duration_since(self.now());
            if left <= SignedDuration::ZERO {
                return;
            }
            let piece = self.tokio_time_for(left).min(SLEEP_PIECE_MAX);
            // Either outcome, time passed or a jump, only means: look again.
            let _ = tokio::time::timeout(piece, jumps.changed()).await;
        }
    }

    /// How long tokio has to run for `left` of this clock to pass, rounded up so that a sleeper does not wake too early.
    fn tokio_time_for(&self, left: SignedDuration) -> Duration {
        let speed = match self.source {
            Source::Wall(_) => 1,
            Source::Driven { speed, .. } => speed.get(),
        };
        left.unsigned_abs() / speed + Duration::from_nanos(1)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.source {
            Source::Wall(_) => "wall",
            Source::Driven { .. } => "driven",
        };
        write!(f, "Clock({kind}, {})", self.now())
    }
}

// === impl NotDriven ===

impl fmt::Display for NotDriven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this clock shows the machine's time and cannot be moved")
    }
}

impl std::error::Error for NotDriven {}

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
    async fn paused_time_passes_only_when_someone_sleeps() {
        let clock = mk_clock(1);
        tokio::task::yield_now().await;
        assert_eq!(clock.now(), at(START));

        clock.sleep_until(at("2026-03-01T17:00:00Z")).await;
        let late = clock.now().duration_since(at("2026-03-01T17:00:00Z"));
        assert!(late >= SignedDuration::ZERO && late < SignedDuration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn sixty_times_as_fast_sleeps_a_sixtieth() {
        let clock = mk_clock(60);
        let before = Instant::now();
        clock.sleep_until(at("2026-03-01T13:00:00Z")).await;

        let slept = before.elapsed();
        assert!(slept >= Duration::from_secs(60) && slept < Duration::from_millis(60_100));
        assert!(clock.now() >= at("2026-03-01T13:00:00Z"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_jump_ends_a_sleep_without_time_passing() {
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
    async fn a_jump_back_makes_a_sleeper_wait_longer() {
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
    async fn clones_feel_the_same_jumps() {
        let clock = mk_clock(1);
        let clone = clock.clone();
        clock.jump(SignedDuration::from_secs(5)).unwrap();
        assert_eq!(clone.now(), at("2026-03-01T12:00:05Z"));
    }

    #[tokio::test(start_paused = true)]
    async fn absurd_jumps_stop_at_the_ends_of_time() {
        let clock = mk_clock(1);
        assert_eq!(clock.jump(SignedDuration::MAX), Ok(Timestamp::MAX));
        clock.jump(SignedDuration::MIN).unwrap();
        assert_eq!(clock.jump(SignedDuration::MIN), Ok(Timestamp::MIN));
    }

    #[test]
    fn a_wall_clock_shows_what_it_reads_and_cannot_be_moved() {
        let clock = Clock::wall(|| Timestamp::UNIX_EPOCH);
        assert_eq!(clock.now(), Timestamp::UNIX_EPOCH);
        assert_eq!(clock.jump(SignedDuration::from_secs(1)), Err(NotDriven));
    }
}
