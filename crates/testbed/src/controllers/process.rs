//! Controllers as one process has them, from its start to its crash.
//!
//! They reach the server through a [`Wire`]. Cutting the wire and dropping the value is the crash: no request that the
//! controllers had sent or still send has an effect or an answer.

use std::time::Duration;

use caretaker_controllers::runtime::events::EventSink;
use caretaker_controllers::runtime::evidence::EvidenceTrail;
use caretaker_controllers::runtime::feed_set::{FeedSet, FeedSetOptions, KindInterest};
use caretaker_controllers::runtime::manager::{ControllerManager, SharedParts};
use caretaker_controllers::runtime::metrics::ControllerMetrics;
use caretaker_controllers::runtime::record::RecordView;
use caretaker_machinery::clock::{Clock, REAL_TIME};
use caretaker_machinery::rng::Rng;
use jiff::SignedDuration;
use tokio::task::AbortHandle;

use crate::checkers::KnownKind;
use crate::target::{Target, start_controller};
use crate::wire::Wire;

/// The seed of the controllers' randomness; fixed, so that runs repeat.
const SEED: u64 = 5;

/// Running controllers. Dropping it aborts them; nothing is sent any more if their wire was cut before.
pub struct ControllerProcess {
    clock: Clock,
    _manager: ControllerManager,
    recorder: AbortHandle,
}

/// Which controllers a process has, and what they observe.
#[derive(Clone, Copy)]
pub struct ProcessOptions<'a> {
    /// Names for `--controllers`.
    pub names: &'a [&'a str],
    /// The kinds that the garbage collector watches.
    pub kinds: &'a [KnownKind],
    /// Time between two discoveries.
    pub discovery: Duration,
    /// Difference of the controllers' clock to the server's.
    pub ahead: SignedDuration,
}

// === impl ControllerProcess ===

impl ControllerProcess {
    /// Starts controllers that reach the target through a wire. The garbage collector watches `options.kinds` only: a
    /// crash run starts hundreds of processes, and each kind costs a list.
    pub fn start(
        target: &Target,
        wire: &Wire,
        options: &ProcessOptions<'_>,
    ) -> Result<Self, String> {
        let Some(clock) = target.clock() else {
            return Err("a real server's time cannot be driven".to_owned());
        };
        let clock = match options.ahead.is_zero() {
            true => clock.clone(),
            false => Clock::driven(clock.now() + options.ahead, REAL_TIME),
        };
        let client = wire.client();
        let metrics = ControllerMetrics::new();
        let (events, recorder) = EventSink::new(client.clone(), clock.clone(), metrics.clone());
        let recorder = tokio::spawn(recorder.run()).abort_handle();
        let feeds_options = FeedSetOptions {
            discovery_every: options.discovery,
            metrics: metrics.clone(),
        };
        let feeds = FeedSet::start(
            client.clone(),
            clock.clone(),
            Rng::seeded(SEED),
            feeds_options,
        );
        let mut manager = ControllerManager::new(SharedParts {
            client,
            feeds,
            clock: clock.clone(),
            events,
            evidence: EvidenceTrail::new(),
            metrics,
            limit: None,
        });
        let kinds = options.kinds.iter().map(|known| {
            let (group, resource) = known.resource.name();
            (group.into(), resource.into())
        });
        let interest = KindInterest::Kinds {
            kinds: kinds.collect(),
            view: RecordView::Metadata,
        };
        for name in options.names {
            start_controller(&mut manager, name, options.names, &interest)
                .map_err(|error| error.to_string())?;
        }
        Ok(Self {
            clock,
            _manager: manager,
            recorder,
        })
    }

    /// The controllers' clock, which a test may jump.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }
}

impl Drop for ControllerProcess {
    fn drop(&mut self) {
        self.recorder.abort();
    }
}
