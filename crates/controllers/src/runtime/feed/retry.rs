//! When to ask again after a failure: client-go's reflector backoff, 0.8 s to 30 s.

use std::time::Duration;

use caretaker_machinery::rng::Rng;

/// The first wait, before jitter.
const WAIT_MIN: Duration = Duration::from_millis(800);
/// The longest wait, before jitter, which may double it.
const WAIT_MAX: Duration = Duration::from_secs(15);
/// After so long without a failure the earlier ones are forgotten.
const GOOD: Duration = Duration::from_secs(120);

/// Counts failures.
#[derive(Debug, Default)]
pub(super) struct Retry {
    failures: u32,
    /// Since when nothing failed.
    good_since: Option<Duration>,
    /// The list under way is needed because the server lost what we knew: its success is no sign of health.
    is_loss: bool,
}

// === impl Retry ===

impl Retry {
    /// Something failed. How long to wait.
    pub(super) fn failed(&mut self, at: Duration, rng: &mut Rng) -> Duration {
        self.forgive(at);
        self.good_since = None;
        let wait = WAIT_MIN
            .saturating_mul(1 << self.failures.min(10))
            .min(WAIT_MAX);
        self.failures = self.failures.saturating_add(1);
        rng.duration(wait..2 * wait)
    }

    /// The server cannot go on from where we were. How long to wait; not at all the first time.
    pub(super) fn lost(&mut self, at: Duration, rng: &mut Rng) -> Option<Duration> {
        self.forgive(at);
        self.is_loss = true;
        if self.failures == 0 {
            self.failures = 1;
            self.good_since = None;
            return None;
        }
        Some(self.failed(at, rng))
    }

    /// A list has become necessary because something is wrong.
    pub(super) fn set_loss(&mut self) {
        self.is_loss = true;
    }

    /// A list was applied.
    pub(super) fn synced(&mut self, at: Duration) {
        if !std::mem::take(&mut self.is_loss) {
            self.failures = 0;
        }
        self.good_since.get_or_insert(at);
    }

    /// A watch was opened.
    pub(super) fn opened(&mut self, at: Duration) {
        self.good_since.get_or_insert(at);
    }

    /// Whether the last thing that happened was a failure.
    pub(super) fn is_failing(&self) -> bool {
        self.failures > 0 && self.good_since.is_none()
    }

    fn forgive(&mut self, at: Duration) {
        if self.good_since.is_some_and(|since| at >= since + GOOD) {
            self.failures = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(retry: &mut Retry, count: u64, from: u64) -> Vec<f64> {
        let mut rng = Rng::seeded(7);
        let seconds = (from..from + count).map(Duration::from_secs);
        seconds
            .map(|at| retry.failed(at, &mut rng).as_secs_f64())
            .collect()
    }

    #[test]
    fn waits_double_with_jitter_up_to_half_a_minute() {
        let mut retry = Retry::default();
        let bounds = [0.8, 1.6, 3.2, 6.4, 12.8, 15.0, 15.0];
        let waits = waits(&mut retry, 7, 0);
        for (wait, bound) in waits.iter().zip(bounds) {
            assert!((bound..bound * 2.0).contains(wait), "{waits:?}");
        }
        assert!(
            waits
                .windows(2)
                .any(|pair| (pair[1] / pair[0] - 2.0).abs() > 0.01),
            "no jitter"
        );
    }

    #[test]
    fn a_list_forgives_failures_unless_it_was_a_loss_that_made_it_necessary() {
        let mut rng = Rng::seeded(7);
        let mut retry = Retry::default();
        let _ = waits(&mut retry, 5, 0);
        retry.synced(Duration::from_secs(6));
        assert!(waits(&mut retry, 1, 7)[0] < 1.6);

        let mut retry = Retry::default();
        let at = Duration::from_secs(1);
        assert_eq!(retry.lost(at, &mut rng), None);
        retry.synced(at);
        assert!(retry.lost(at, &mut rng).unwrap() >= 2 * WAIT_MIN);
        retry.synced(at);
        assert!(retry.lost(at, &mut rng).unwrap() >= 4 * WAIT_MIN);
        retry.synced(at);
        assert_eq!(retry.lost(at + GOOD, &mut rng), None);
    }

    #[test]
    fn two_good_minutes_forgive_everything() {
        let mut retry = Retry::default();
        let _ = waits(&mut retry, 5, 0);
        assert!(retry.is_failing());
        retry.opened(Duration::from_secs(10));
        assert!(!retry.is_failing());
        assert!(waits(&mut retry, 1, 100)[0] > 10.0);
        retry.opened(Duration::from_secs(110));
        assert!(waits(&mut retry, 1, 230)[0] < 1.6);
    }
}
