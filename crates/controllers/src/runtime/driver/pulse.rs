//! How a driver is: what waits, for how long, and whether anything moves. The driver leaves it here every turn;
//! metrics and `/livez` look whenever they like, also when the driver hangs.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use caretaker_machinery::clock::Clock;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::runtime::queue::age;

/// How one driver is. Clones are the same.
#[derive(Clone)]
pub struct Pulse {
    controller: &'static str,
    queue: &'static str,
    clock: Clock,
    state: Arc<Mutex<State>>,
}

/// What a driver leaves behind.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Since when the oldest due key is due.
    pub(crate) due: Option<Timestamp>,
    /// Since when each key in process is.
    pub(crate) started: Vec<Timestamp>,
    /// When the oldest request without an answer was sent.
    pub(crate) asked: Option<Instant>,
    /// When this was left.
    pub(crate) turned: Option<Instant>,
}

/// How long things have been going on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ages {
    /// The oldest due key.
    pub due: Option<Duration>,
    /// The oldest request that has no answer yet.
    pub call: Option<Duration>,
    /// Keys are due, and the driver has not looked for so long. A long queue that moves is not stuck.
    pub stuck: Option<Duration>,
    /// The key that has been in process for longest.
    pub longest: Duration,
    /// All keys in process together.
    pub unfinished: Duration,
}

// === impl Pulse ===

impl Pulse {
    pub(crate) fn new(controller: &'static str, queue: &'static str, clock: Clock) -> Self {
        Self {
            controller,
            queue,
            clock,
            state: Arc::default(),
        }
    }

    /// Whose.
    #[must_use]
    pub fn controller(&self) -> &'static str {
        self.controller
    }

    /// The name of its queue in metrics.
    #[must_use]
    pub fn queue(&self) -> &'static str {
        self.queue
    }

    /// How it is now.
    #[must_use]
    pub fn ages(&self) -> Ages {
        let now = self.clock.now();
        let state = self.state();
        let started = state.started.iter().map(|start| age(now, *start));
        Ages {
            due: state.due.map(|since| age(now, since)),
            call: state.asked.map(|since| since.elapsed()),
            stuck: state.due.and(state.turned).map(|since| since.elapsed()),
            longest: started.clone().max().unwrap_or_default(),
            unfinished: started.sum(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Pulse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pulse({}, {:?})", self.controller, self.ages())
    }
}

// === impl Ages ===

impl Ages {
    /// How long the item has waited, in the queue or for an answer, that has waited for longest.
    #[must_use]
    pub fn oldest(&self) -> Duration {
        self.longest.max(self.due.unwrap_or_default())
    }

    /// How long nothing has happened that should have: what `/livez` compares with its limit.
    #[must_use]
    pub fn overdue(&self) -> Duration {
        let waits = [self.call, self.stuck];
        waits.into_iter().flatten().max().unwrap_or_default()
    }
}
