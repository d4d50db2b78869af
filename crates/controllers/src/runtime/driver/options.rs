//! The parts and options that a driver is started with, and how it ends.

use std::time::Duration;

use caretaker_machinery::clock::Clock;

use super::clock_skew::TimeSource;
use super::gate::WriteHold;
use crate::runtime::effects::Effects;
use crate::runtime::events::EventSink;
use crate::runtime::evidence::EvidenceTrail;
use crate::runtime::metrics::ControllerMetrics;
use crate::runtime::queue::{RETRY_MAX, RetryBucket};

/// The parts that a driver is made of.
pub struct DriverParts {
    pub effects: Effects,
    pub clock: Clock,
    pub events: EventSink,
    pub evidence: EvidenceTrail,
    pub metrics: ControllerMetrics,
    pub options: DriverOptions,
}

/// Why a driver ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverEnd {
    /// The manager stopped it.
    Stopped,
    /// Its feeds are gone, so no change can come any more.
    FeedsGone,
}

/// The options of a driver, which flags and tests choose per controller.
#[derive(Debug, Clone)]
pub struct DriverOptions {
    /// The name of the queue in metrics: upstream's where ours corresponds to one; the controller's by default.
    pub queue: Option<&'static str>,
    /// How many requests may be in flight.
    pub workers: usize,
    pub mode: DriverMode,
    /// Conditions outside the driver that hold back writes while they last.
    pub holds: Vec<WriteHold>,
    /// The longest backoff of a key.
    pub retry_max: Duration,
    /// One bucket for the retries of all keys.
    pub retry_bucket: Option<RetryBucket>,
    /// Whose time the controller judges by.
    pub timing: TimeSource,
    /// The component that Events name as their source; the controller by default.
    pub reporter: Option<&'static str>,
}

/// Whether writes are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DriverMode {
    #[default]
    Act,
    /// Writes are recorded instead, once per key and version.
    DryRun,
}

// === impl DriverOptions ===

impl Default for DriverOptions {
    fn default() -> Self {
        Self {
            queue: None,
            workers: 20,
            mode: DriverMode::Act,
            holds: Vec::new(),
            retry_max: RETRY_MAX,
            retry_bucket: None,
            timing: TimeSource::Steady,
            reporter: None,
        }
    }
}
