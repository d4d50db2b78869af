//! A rate limit on our own side, `--kube-api-qps` and `--kube-api-burst`; off by default.
//!
//! DEVIATION(client-limit): upstream's clients have a limit by default (20/s, 30 at once). Here at most `workers` requests
//! are in flight, fewer when the server refuses some or slows down (`driver/requests/slot_limit`) and to a kind that
//! answers slowly: the server knows its own load.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A number of requests per second, and a number that may be sent at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClientRateLimit {
    /// Requests per second; a value that is not above zero means no limit.
    pub qps: f64,
    /// Requests that may be sent at once after a pause; at least one.
    pub burst: u32,
}

/// Spaces out requests over time.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    each: Duration,
    /// How far ahead of its time a request may go.
    ahead: Duration,
    /// When the next request may be sent without a burst.
    until: Mutex<Option<Instant>>,
}

// === impl RateLimiter ===

impl RateLimiter {
    pub(crate) fn new(limit: ClientRateLimit) -> Self {
        let each = Duration::try_from_secs_f64(limit.qps.recip()).unwrap_or_default();
        Self {
            each,
            ahead: each.saturating_mul(limit.burst.saturating_sub(1)),
            until: Mutex::new(None),
        }
    }

    /// Takes the next place, and returns when the caller may send a request.
    pub(crate) fn reserve(&self, now: Instant) -> Instant {
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        let place = until.map_or(now, |until| until.max(now));
        *until = Some(place + self.each);
        self.allowed_at(place, now)
    }

    /// When the next request may be sent, without taking its place.
    pub(crate) fn next(&self, now: Instant) -> Instant {
        let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
        self.allowed_at(until.map_or(now, |until| until.max(now)), now)
    }

    /// When the request of a place may be sent. Counted from now, because an `Instant` before the first one cannot be
    /// represented.
    fn allowed_at(&self, place: Instant, now: Instant) -> Instant {
        now + place.duration_since(now).saturating_sub(self.ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_goes_at_once_and_the_rest_at_the_rate() {
        let limiter = RateLimiter::new(ClientRateLimit {
            qps: 10.0,
            burst: 3,
        });
        let start = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..6 {
            tokio::time::sleep_until(limiter.reserve(Instant::now())).await;
            waits.push(start.elapsed().as_millis());
        }
        assert_eq!(waits, [0, 0, 0, 100, 200, 300]);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let start = Instant::now();
        for _ in 0..4 {
            tokio::time::sleep_until(limiter.reserve(Instant::now())).await;
        }
        assert_eq!(start.elapsed().as_millis(), 100, "a rest fills it up again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_of_zero_or_less_is_no_limit() {
        for qps in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let limiter = RateLimiter::new(ClientRateLimit { qps, burst: 0 });
            let start = Instant::now();
            for _ in 0..100 {
                tokio::time::sleep_until(limiter.reserve(Instant::now())).await;
            }
            assert_eq!(start.elapsed(), Duration::ZERO, "{qps}");
        }
    }
}
