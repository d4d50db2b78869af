//! The backoff of failed keys: how long each waits, and what ends the wait early.
//!
//! DEVIATION(retry-limits): upstream's backoff goes up to 1,000 s, and one bucket of 10/s delays the retries of all keys
//! of a queue. Here, by default, the limit is 60 s and there is no bucket, so that an object is collected within a minute once that is
//! possible again.

use std::time::Duration;

use caretaker_machinery::clock::SteadyTime;

use super::WorkQueue;

/// The first backoff of a key, doubled with every further failure, as in client-go.
pub const RETRY_MIN: Duration = Duration::from_millis(5);

/// The default of `--retry-max-delay`: the longest backoff of a key. A [`RetryBucket`] may delay a retry further.
pub const RETRY_MAX: Duration = Duration::from_secs(60);

/// The longest backoff of a key that may not read an object, as upstream's longest backoff. Thousands of owners may be of
/// a kind that may not be read.
pub const FORBIDDEN_RETRY_MAX: Duration = Duration::from_secs(1_000);

/// The limits of retries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryLimits {
    /// The longest backoff of a key.
    pub max: Duration,
    /// One bucket for all retries of the queue, as upstream has it; none by default.
    pub bucket: Option<RetryBucket>,
}

/// A token bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryBucket {
    pub qps: f64,
    pub burst: u32,
}

// === impl RetryLimits ===

impl Default for RetryLimits {
    fn default() -> Self {
        Self {
            max: RETRY_MAX,
            bucket: None,
        }
    }
}

// === impl WorkQueue ===

impl<K: Clone + Ord> WorkQueue<K> {
    /// Makes `key` due after its backoff, and the next backoff longer. Returns the backoff.
    pub fn retry(&mut self, key: &K, now: SteadyTime) -> Duration {
        self.retry_up_to(key, self.retries.max, now)
    }

    /// Makes `key` due after a backoff of up to [`FORBIDDEN_RETRY_MAX`]: it may not read an object, and a grant is rare.
    pub fn retry_forbidden(&mut self, key: &K, now: SteadyTime) -> Duration {
        self.retry_up_to(key, self.retries.max.max(FORBIDDEN_RETRY_MAX), now)
    }

    fn retry_up_to(&mut self, key: &K, max: Duration, now: SteadyTime) -> Duration {
        let failures = self.fail(key);
        let factor = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
        let backoff = RETRY_MIN.saturating_mul(factor).min(max);
        let wait = backoff.max(self.bucket_wait(now));
        self.delay(key.clone(), now.later(wait), true);
        wait
    }

    /// Makes `key` due after the server's `Retry-After`. Changes do not make it due earlier.
    pub fn retry_after(&mut self, key: &K, wait: Duration, now: SteadyTime) {
        self.fail(key);
        self.hold(key, now.later(wait));
    }

    /// Makes `key` due after its backoff. Changes do not make it due earlier: for a key whose object changes too fast.
    pub fn retry_undisturbed(&mut self, key: &K, now: SteadyTime) {
        let wait = self.retry(key, now);
        self.hold(key, now.later(wait));
    }

    /// Forgets the failures of `key`, so that its next backoff is the shortest.
    pub fn reset_backoff(&mut self, key: &K) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.failures = 0;
        }
        self.tidy(key);
    }

    /// Makes all keys due whose backoff is longer than [`RetryLimits::max`], because a kind may be read now that was
    /// forbidden.
    pub fn expire_long_backoffs(&mut self, now: SteadyTime) {
        let longest = (now.later(self.retries.max), u64::MAX);
        let long = self.delayed.split_off(&longest);
        self.expire(long, true, now);
    }

    fn hold(&mut self, key: &K, until: SteadyTime) {
        self.entries.entry(key.clone()).or_default().not_before = Some(until);
        self.delay(key.clone(), until, true);
    }

    /// Counts a failure of `key`, and returns how many there were before.
    fn fail(&mut self, key: &K) -> u32 {
        self.counts.retries += 1;
        let entry = self.entries.entry(key.clone()).or_default();
        let before = entry.failures;
        entry.failures = before.saturating_add(1);
        before
    }

    /// How long the bucket delays the next retry. It reserves times in the future, as upstream's does.
    fn bucket_wait(&mut self, now: SteadyTime) -> Duration {
        let Some(RetryBucket { qps, burst }) = self.retries.bucket else {
            return Duration::ZERO;
        };
        let Ok(each) = Duration::try_from_secs_f64(qps.recip()) else {
            return Duration::ZERO;
        };
        let until = self.bucket_until.map_or(now, |until| until.max(now));
        self.bucket_until = Some(until.later(each));
        let free = each.saturating_mul(burst.saturating_sub(1));
        until.since(now).saturating_sub(free)
    }
}
