//! When lasting trouble is logged again: at once, then at growing intervals, so that it is not forgotten and does not
//! fill the log.

use std::time::Duration;

use tokio::time::Instant;

/// From the first report to the second; the interval doubles.
const INTERVAL_MIN: Duration = Duration::from_secs(60);
const INTERVAL_MAX: Duration = Duration::from_secs(3600);

/// The reports about one source of trouble.
#[derive(Debug, Default)]
pub(crate) struct ReportInterval {
    /// The trouble of the last report, when that was, and the interval after it.
    last: Option<(String, Instant, Duration)>,
}

// === impl ReportInterval ===

impl ReportInterval {
    /// Whether `trouble` is to be reported now. Another trouble than the last one is reported at once.
    pub(crate) fn is_due(&mut self, trouble: &str, now: Instant) -> bool {
        let interval = match &self.last {
            Some((last, at, interval)) if last == trouble => {
                if now.saturating_duration_since(*at) < *interval {
                    return false;
                }
                (*interval * 2).min(INTERVAL_MAX)
            }
            _ => INTERVAL_MIN,
        };
        self.last = Some((trouble.to_owned(), now, interval));
        true
    }

    /// The trouble is over. Returns whether it had been reported.
    pub(crate) fn clear(&mut self) -> bool {
        self.last.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lasting_trouble_is_reported_at_growing_intervals() {
        let start = Instant::now();
        let mut interval = ReportInterval::default();
        let mut is_due =
            |trouble, secs| interval.is_due(trouble, start + Duration::from_secs(secs));
        let reported: Vec<u64> = (0..10_000).filter(|secs| is_due("a", *secs)).collect();
        assert_eq!(reported, [0, 60, 180, 420, 900, 1860, 3780, 7380]);
        assert!(is_due("b", 10_000) && !is_due("b", 10_001));
        assert!(interval.clear() && !interval.clear());
        assert!(interval.is_due("b", start + Duration::from_secs(10_002)));
    }
}
