//! How late things were that had a time of their own.

use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::percentile;

/// How late each was so far, and how many came too early.
#[derive(Default)]
pub(super) struct LatenessSamples {
    late: Vec<Duration>,
    early: usize,
}

/// What it comes to.
#[derive(Debug, Serialize)]
pub struct LatenessSummary {
    /// How late half of them were at most, in seconds.
    pub p50_secs: f64,
    /// How late 99 of 100 were at most, in seconds.
    pub p99_secs: f64,
    /// How late the last was, in seconds.
    pub max_secs: f64,
    /// How many came before their time.
    pub early: usize,
}

// === impl LatenessSamples ===

impl LatenessSamples {
    /// One whose time was `due` came now.
    pub(super) fn note(&mut self, now: Instant, due: Instant) {
        self.early += usize::from(now < due);
        self.late.push(now.saturating_duration_since(due));
    }

    pub(super) fn sum_up(mut self) -> LatenessSummary {
        self.late.sort_unstable();
        let secs = |percent| percentile(&self.late, percent).as_secs_f64();
        LatenessSummary {
            p50_secs: secs(50),
            p99_secs: secs(99),
            max_secs: secs(100),
            early: self.early,
        }
    }
}
