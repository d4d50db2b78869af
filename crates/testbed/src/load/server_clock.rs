//! The server's clock, read to the millisecond: its `Date` has seconds only, so one waits until a second begins.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use tokio::time::Instant;

use crate::target::date;

/// How often the time is asked for until the second changes.
const ASK: Duration = Duration::from_millis(1);

/// The server's clock, by ours.
pub(super) struct ServerClock {
    second: Timestamp,
    began: Instant,
}

// === impl ServerClock ===

impl ServerClock {
    /// Asks until a second begins.
    pub(super) async fn read(client: &Client) -> anyhow::Result<Self> {
        let first = date(client).await?;
        loop {
            let began = Instant::now();
            let second = date(client).await?;
            if second > first {
                // It began between the last question and its answer.
                return Ok(Self { second, began });
            }
            tokio::time::sleep(ASK).await;
        }
    }

    /// The second that it is.
    pub(super) fn now_second(&self) -> Timestamp {
        let secs = i64::try_from(self.began.elapsed().as_secs());
        self.second + SignedDuration::from_secs(secs.unwrap_or(0))
    }

    /// When it is this time there, by our clock; not before the second that was read.
    pub(super) fn at(&self, time: Timestamp) -> Instant {
        let after = Duration::try_from(time.duration_since(self.second)).unwrap_or_default();
        self.began + after
    }
}
