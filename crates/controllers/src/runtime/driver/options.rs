//! What a driver is started with, and how it ends.

use std::time::Duration;

use caretaker_machinery::clock::Clock;

use super::clock_skew::Timing;
use crate::runtime::effects::Effects;
use crate::runtime::events::Events;
use crate::runtime::evidence::Trail;
use crate::runtime::metrics::Metrics;
use crate::runtime::queue::{Bucket, RETRY_MAX};

/// What a driver works with.
#[derive(Debug)]
pub struct Parts {
    pub effects: Effects,
    pub clock: Clock,
    pub events: Events,
    pub evidence: Trail,
    pub metrics: Metrics,
    pub options: Options,
}

/// Why a driver ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The manager stopped it.
    Stopped,
    /// Its feeds are gone, so no change can come any more.
    Unfed,
}

/// How a driver behaves: what flags and tests choose per controller.
#[derive(Debug, Clone)]
pub struct Options {
    /// The name of the queue in metrics: upstream's where ours corresponds to one; the controller's by default.
    pub queue: Option<&'static str>,
    /// How many requests may be in flight.
    pub workers: usize,
    pub mode: Mode,
    /// The longest backoff of a key.
    pub retry_max: Duration,
    /// A bucket for all retries.
    pub retry_bucket: Option<Bucket>,
    /// Whose time the controller judges by.
    pub timing: Timing,
    /// The component that Events name as their source; the controller by default.
    pub reporter: Option<&'static str>,
}

/// Whether writes are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Act,
    /// Writes are recorded instead, once per key and version.
    DryRun,
}

// === impl Options ===

impl Default for Options {
    fn default() -> Self {
        Self {
            queue: None,
            workers: 20,
            mode: Mode::Act,
            retry_max: RETRY_MAX,
            retry_bucket: None,
            timing: Timing::Own,
            reporter: None,
        }
    }
}
