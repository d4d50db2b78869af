//! The controllers of one process, from its start to its violent end.

use std::time::Duration;

use caretaker_controllers::gc::GarbageCollector;
use caretaker_controllers::runtime::driver::Options;
use caretaker_controllers::runtime::events::Events;
use caretaker_controllers::runtime::evidence::Trail;
use caretaker_controllers::runtime::feeds::{Feeds, FeedsOptions, Interest};
use caretaker_controllers::runtime::manager::{Manager, Shared};
use caretaker_controllers::runtime::metrics::Metrics;
use caretaker_controllers::runtime::record::View;
use caretaker_machinery::rng::Rng;
use tokio::task::AbortHandle;

use crate::checkers::Known;
use crate::target::Target;
use crate::wire::Wire;

/// What the controllers' randomness begins with; any number does, as long as it stays.
const SEED: u64 = 5;

/// A collector that runs. Dropped it is not asked to end, and says no last word if its wire was cut before.
pub struct Generation {
    _manager: Manager,
    recorder: AbortHandle,
}

// === impl Generation ===

impl Generation {
    /// Starts a collector that reaches the target through a wire and looks at these kinds only: a run has hundreds of
    /// starts, and each kind costs a list.
    pub fn start(
        target: &Target,
        wire: &Wire,
        kinds: &[Known],
        discovery_every: Duration,
    ) -> Result<Self, String> {
        let Some(clock) = target.clock() else {
            return Err("a real server's time cannot be driven".to_owned());
        };
        let client = wire.client();
        let metrics = Metrics::new();
        let (events, recorder) = Events::new(client.clone(), clock.clone(), metrics.clone());
        let recorder = tokio::spawn(recorder.run()).abort_handle();
        let options = FeedsOptions { discovery_every };
        let feeds = Feeds::start(client.clone(), clock.clone(), Rng::seeded(SEED), options);
        let mut manager = Manager::new(Shared {
            client,
            feeds,
            clock: clock.clone(),
            events,
            evidence: Trail::new(),
            metrics,
            limit: None,
        });
        let kinds = kinds.iter().map(|known| {
            let (group, resource) = known.resource.name();
            (group.into(), resource.into())
        });
        let interest = Interest::Kinds {
            kinds: kinds.collect(),
            view: View::Metadata,
        };
        // Nobody asks it anything.
        let _ = manager.start(interest, Options::default(), || GarbageCollector::new(SEED));
        Ok(Self {
            _manager: manager,
            recorder,
        })
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.recorder.abort();
    }
}
