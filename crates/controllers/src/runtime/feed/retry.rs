//! Reacts to failures of a feed: sets the state of the kind, and backs off like client-go's reflector, 0.8 s to 30 s.
//!
//! DEVIATION(feeds-never-give-up): a controller of Volcano whose first list fails returns and does no work. Here the list is
//! repeated; a warning and `/readyz` name the kind.

use std::time::Duration;

use caretaker_machinery::rng::Rng;

use super::super::kind::KindState;
use super::{FeedAction, FeedOutput, FeedPhase, FeedTime, KindFeed, OPEN_FAILURES_MAX};

/// The first wait, before jitter.
const WAIT_MIN: Duration = Duration::from_millis(800);
/// The longest wait, before jitter, which may double it.
const WAIT_MAX: Duration = Duration::from_secs(15);
/// After this time without a failure, earlier failures are forgotten.
const GOOD: Duration = Duration::from_secs(120);

/// Counts the failures of one feed.
#[derive(Debug, Default)]
pub(super) struct FeedBackoff {
    failures: u32,
    /// The time since which no request has failed.
    good_since: Option<Duration>,
    /// The current list is needed because the server lost our version. Its success does not reset the failures.
    is_loss: bool,
}

// === impl FeedBackoff ===

impl FeedBackoff {
    /// Counts a failure, and returns how long to wait.
    pub(super) fn failed(&mut self, at: Duration, rng: &mut Rng) -> Duration {
        self.forgive(at);
        self.good_since = None;
        let wait = WAIT_MIN
            .saturating_mul(1 << self.failures.min(10))
            .min(WAIT_MAX);
        self.failures = self.failures.saturating_add(1);
        rng.duration(wait..2 * wait)
    }

    /// The server cannot continue the watch. Returns how long to wait; `None` the first time.
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

    /// Marks the next list as caused by a failure.
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

    /// Whether the last request failed.
    pub(super) fn is_failing(&self) -> bool {
        self.failures > 0 && self.good_since.is_none()
    }

    fn forgive(&mut self, at: Duration) {
        if self.good_since.is_some_and(|since| at >= since + GOOD) {
            self.failures = 0;
        }
    }
}

// === impl KindFeed ===

impl KindFeed {
    /// Waits for the backoff, or for the server's `Retry-After` if that is longer.
    pub(super) fn back_off(&mut self, retry_after: Option<Duration>, at: FeedTime) -> FeedAction {
        self.is_proven = false;
        let wait = self.retry.failed(at.elapsed, &mut self.rng);
        self.rest(
            retry_after.map_or(wait, |retry_after| retry_after.max(wait)),
            at,
        )
    }

    pub(super) fn unanswered(&mut self, at: FeedTime, out: &mut Vec<FeedOutput>) -> FeedAction {
        self.opening_failed();
        self.fail(None, at, out)
    }

    /// The kind counts as failing, and the feed waits.
    pub(super) fn fail(
        &mut self,
        retry_after: Option<Duration>,
        at: FeedTime,
        out: &mut Vec<FeedOutput>,
    ) -> FeedAction {
        self.degrade(KindState::Failing(at.now), out);
        self.back_off(retry_after, at)
    }

    /// Reacts to a status other than 200, of a list or of a watch.
    pub(super) fn refused(
        &mut self,
        status: u16,
        retry_after: Option<Duration>,
        at: FeedTime,
        out: &mut Vec<FeedOutput>,
    ) -> FeedAction {
        match status {
            401 | 403 | 405 => {
                self.degrade(KindState::Forbidden, out);
                self.back_off(retry_after, at)
            }
            404 => {
                self.forget_position();
                out.push(FeedOutput::NotServed);
                self.fail(retry_after, at, out)
            }
            // 504: the server has not reached our version, or a proxy timed out; both relist.
            410 | 504 if self.position.is_some() => self.expired(at),
            410 if self.has_token() && self.pages => self.begin_whole_list(),
            429 | 500.. => {
                self.opening_failed();
                self.fail(retry_after, at, out)
            }
            _ if matches!(self.phase, FeedPhase::OpeningStream) && status != 410 => {
                self.streams = false;
                self.begin(at)
            }
            _ => {
                self.forget_position();
                self.fail(retry_after, at, out)
            }
        }
    }

    /// Counts a failure to open a list or a watch. After several of them another form of request is tried.
    pub(super) fn opening_failed(&mut self) {
        match self.phase {
            FeedPhase::OpeningStream | FeedPhase::Streaming => self.stream_broke(),
            FeedPhase::OpeningWatch => {
                self.open_failures += 1;
                if self.open_failures >= OPEN_FAILURES_MAX {
                    self.forget_position();
                }
            }
            FeedPhase::Resting(_) | FeedPhase::Listing(_) | FeedPhase::Watching => {}
        }
    }

    /// A list has to come first, and its success will not mean that all is well.
    pub(super) fn forget_position(&mut self) {
        self.is_proven = false;
        if self.position.take().is_some() {
            self.retry.set_loss();
        }
    }

    /// The server does not have the history that the watch needs: lists again, at once unless this happens often.
    pub(super) fn expired(&mut self, at: FeedTime) -> FeedAction {
        self.forget_position();
        let wait = self.retry.lost(at.elapsed, &mut self.rng);
        match wait {
            Some(wait) => self.rest(wait, at),
            None => self.begin(at),
        }
    }

    /// Sets a worse state of the kind. A frozen kind stays frozen until a list is applied.
    pub(super) fn degrade(&mut self, state: KindState, out: &mut Vec<FeedOutput>) {
        let same = std::mem::discriminant(&self.state) == std::mem::discriminant(&state);
        if !same && self.state != KindState::Frozen {
            self.set_state(state, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(retry: &mut FeedBackoff, count: u64, from: u64) -> Vec<f64> {
        let mut rng = Rng::seeded(7);
        let seconds = (from..from + count).map(Duration::from_secs);
        seconds
            .map(|at| retry.failed(at, &mut rng).as_secs_f64())
            .collect()
    }

    #[test]
    fn waits_double_with_jitter_up_to_half_a_minute() {
        let mut retry = FeedBackoff::default();
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
    fn a_list_resets_failures_unless_a_lost_watch_caused_it() {
        let mut rng = Rng::seeded(7);
        let mut retry = FeedBackoff::default();
        let _ = waits(&mut retry, 5, 0);
        retry.synced(Duration::from_secs(6));
        assert!(waits(&mut retry, 1, 7)[0] < 1.6);

        let mut retry = FeedBackoff::default();
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
    fn two_minutes_without_failure_reset_the_backoff() {
        let mut retry = FeedBackoff::default();
        let _ = waits(&mut retry, 5, 0);
        assert!(retry.is_failing());
        retry.opened(Duration::from_secs(10));
        assert!(!retry.is_failing());
        assert!(waits(&mut retry, 1, 100)[0] > 10.0);
        retry.opened(Duration::from_secs(110));
        assert!(waits(&mut retry, 1, 230)[0] < 1.6);
    }
}
