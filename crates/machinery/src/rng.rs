//! Random numbers from a seed.
//!
//! Code that needs randomness takes an [`Rng`]. The same seed gives the same uids, name suffixes and jitter, which makes a
//! test run repeatable. Not for secrets: tokens and keys come from the operating system.

use std::ops::Range;
use std::time::Duration;

use uuid::Uuid;

/// A deterministic stream of random numbers.
#[derive(Debug, Clone)]
pub struct Rng(fastrand::Rng);

// === impl Rng ===

impl Rng {
    /// Starts the stream of `seed`.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// A separate stream for one more consumer, so that the number of draws of one does not change the values of another.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.0.fork())
    }

    /// A number of the full range.
    pub fn u64(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// A uniformly distributed number below `limit`; 0 if `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        if limit == 0 { 0 } else { self.0.usize(..limit) }
    }

    /// A duration within `range`; the start of an empty range.
    pub fn duration(&mut self, range: Range<Duration>) -> Duration {
        let width = range.end.saturating_sub(range.start);
        range.start + width.mul_f64(self.0.f64())
    }

    /// A version 4 UUID.
    pub fn uuid(&mut self) -> Uuid {
        uuid::Builder::from_random_bytes(self.0.u128(..).to_be_bytes()).into_uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_gives_same_stream() {
        let draw = |seed| {
            let mut rng = Rng::seeded(seed);
            (rng.u64(), rng.uuid(), rng.below(100), rng.fork().u64())
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn draws_of_a_fork_do_not_change_its_parent() {
        let mut quiet = Rng::seeded(7);
        let mut busy = Rng::seeded(7);
        let _ = quiet.fork();
        let mut fork = busy.fork();
        for _ in 0..10 {
            fork.u64();
        }
        assert_eq!(quiet.u64(), busy.u64());
    }

    #[test]
    fn uuids_are_version_4_and_distinct() {
        let mut rng = Rng::seeded(7);
        let (one, two) = (rng.uuid(), rng.uuid());
        assert_eq!(one.get_version_num(), 4);
        assert_ne!(one, two);
    }

    #[test]
    fn numbers_and_durations_stay_within_bounds() {
        let mut rng = Rng::seeded(7);
        let (from, to) = (Duration::from_secs(300), Duration::from_secs(600));
        for _ in 0..1000 {
            assert!(rng.below(3) < 3);
            assert!((from..to).contains(&rng.duration(from..to)));
        }
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.duration(to..from), to);
    }
}
