//! The controllers of one process, from its start to its violent end.

use std::time::Duration;

use caretaker_controllers::runtime::events::Events;
use caretaker_controllers::runtime::evidence::Trail;
use caretaker_controllers::runtime::feed_set::{FeedSet, FeedSetOptions, Interest};
use caretaker_controllers::runtime::manager::{Manager, Shared};
use caretaker_controllers::runtime::metrics::Metrics;
use caretaker_controllers::runtime::record::View;
use caretaker_machinery::clock::{Clock, REAL_TIME};
use caretaker_machinery::rng::Rng;
use jiff::SignedDuration;
use tokio::task::AbortHandle;

use crate::checkers::Known;
use crate::target::{Target, hire};
use crate::wire::Wire;

/// What the controllers' randomness begins with; any number does, as long as it stays.
const SEED: u64 = 5;

/// Controllers that run. Dropped they are not asked to end, and say no last word if their wire was cut before.
pub struct Generation {
    clock: Clock,
    _manager: Manager,
    recorder: AbortHandle,
}

/// Who they are, and what they are shown.
#[derive(Clone, Copy)]
pub struct Cast<'a> {
    /// As `--controllers` spells them.
    pub names: &'a [&'a str],
    /// What a collector looks at.
    pub kinds: &'a [Known],
    /// Between two discoveries.
    pub discovery: Duration,
    /// How far their clock is ahead of the server's.
    pub ahead: SignedDuration,
}

// === impl Generation ===

impl Generation {
    /// Starts controllers that reach the target through a wire, a collector among them looks at these kinds only: a run
    /// has hundreds of starts, and each kind costs a list.
    pub fn start(target: &Target, wire: &Wire, cast: &Cast<'_>) -> Result<Self, String> {
        let Some(clock) = target.clock() else {
            return Err("a real server's time cannot be driven".to_owned());
        };
        let clock = match cast.ahead.is_zero() {
            true => clock.clone(),
            false => Clock::driven(clock.now() + cast.ahead, REAL_TIME),
        };
        let client = wire.client();
        let metrics = Metrics::new();
        let (events, recorder) = Events::new(client.clone(), clock.clone(), metrics.clone());
        let recorder = tokio::spawn(recorder.run()).abort_handle();
        let options = FeedSetOptions {
            discovery_every: cast.discovery,
        };
        let feeds = FeedSet::start(client.clone(), clock.clone(), Rng::seeded(SEED), options);
        let mut manager = Manager::new(Shared {
            client,
            feeds,
            clock: clock.clone(),
            events,
            evidence: Trail::new(),
            metrics,
            limit: None,
        });
        let kinds = cast.kinds.iter().map(|known| {
            let (group, resource) = known.resource.name();
            (group.into(), resource.into())
        });
        let interest = Interest::Kinds {
            kinds: kinds.collect(),
            view: View::Metadata,
        };
        for name in cast.names {
            hire(&mut manager, name, cast.names, &interest).map_err(|error| error.to_string())?;
        }
        Ok(Self {
            clock,
            _manager: manager,
            recorder,
        })
    }
}

impl Generation {
    /// The clock they live by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.recorder.abort();
    }
}
