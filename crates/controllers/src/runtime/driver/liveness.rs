//! The age of a driver's work. The driver stores it every turn; metrics and `/livez` read it at any time, also when the
//! driver hangs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use caretaker_machinery::clock::{Clock, SteadyTime};
use tokio::time::Instant;

/// The liveness of one driver. Clones share it.
#[derive(Debug, Clone)]
pub struct DriverLiveness {
    controller: &'static str,
    queue: &'static str,
    clock: Clock,
    state: Arc<Mutex<LivenessState>>,
}

/// The times that a driver stores every turn.
#[derive(Debug, Default)]
pub(crate) struct LivenessState {
    /// Since when the oldest due key is due.
    pub(crate) due: Option<SteadyTime>,
    /// The time since which each key is in process.
    pub(crate) started: Vec<SteadyTime>,
    /// When the oldest request without an answer was sent.
    pub(crate) asked: Option<Instant>,
    /// When the driver stored this.
    pub(crate) turned: Option<Instant>,
}

/// How long a driver's work has been waiting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkAges {
    /// The age of the oldest due key.
    pub due: Option<Duration>,
    /// The age of the oldest request that has no answer yet.
    pub call: Option<Duration>,
    /// How long the driver has not had a turn although keys are due. A long queue that moves is not stuck.
    pub stuck: Option<Duration>,
    /// The time that the oldest key in process has taken.
    pub longest: Duration,
    /// The time that all keys in process have taken together.
    pub unfinished: Duration,
}

// === impl DriverLiveness ===

impl DriverLiveness {
    pub(crate) fn new(controller: &'static str, queue: &'static str, clock: Clock) -> Self {
        Self {
            controller,
            queue,
            clock,
            state: Arc::default(),
        }
    }

    /// The controller's name.
    #[must_use]
    pub fn controller(&self) -> &'static str {
        self.controller
    }

    /// The name of its queue in metrics.
    #[must_use]
    pub fn queue(&self) -> &'static str {
        self.queue
    }

    /// The ages at this moment.
    #[must_use]
    pub fn ages(&self) -> WorkAges {
        let now = self.clock.steady();
        let state = self.state();
        let started = state.started.iter().map(|start| now.since(*start));
        WorkAges {
            due: state.due.map(|since| now.since(since)),
            call: state.asked.map(|since| since.elapsed()),
            stuck: state.due.and(state.turned).map(|since| since.elapsed()),
            longest: started.clone().max().unwrap_or_default(),
            unfinished: started.sum(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, LivenessState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl WorkAges ===

impl WorkAges {
    /// The age of the oldest key, in the queue or in process.
    #[must_use]
    pub fn oldest(&self) -> Duration {
        self.longest.max(self.due.unwrap_or_default())
    }

    /// How long the driver has made no progress although it should have: what `/livez` compares with its limit.
    #[must_use]
    pub fn overdue(&self) -> Duration {
        let waits = [self.call, self.stuck];
        waits.into_iter().flatten().max().unwrap_or_default()
    }
}
