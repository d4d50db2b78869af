//! Simulated workloads beside the server of `up`, and the CRDs of Volcano that they and some controllers need.
//!
//! The simulator's controllers share the watches of the others, but not their evidence and metrics: simulated writes
//! must not appear as writes of the product.

use std::num::NonZeroU32;

use anyhow::{Context as _, Result};
use caretaker_controllers::runtime::events::EventSink;
use caretaker_controllers::runtime::evidence::EvidenceTrail;
use caretaker_controllers::runtime::feed_set::FeedSet;
use caretaker_controllers::runtime::manager::{ControllerManager, SharedParts};
use caretaker_controllers::runtime::metrics::ControllerMetrics;
use caretaker_machinery::clock::Clock;
use caretaker_simulator::{LEASE_SECS, SimulationOptions, volcano};

use crate::args::{ControllerFlags, VOLCANO_CRON, VOLCANO_TTL};

/// Controllers that need the CRDs of Volcano.
const VOLCANO_CONTROLLERS: [&str; 2] = [VOLCANO_CRON, VOLCANO_TTL];

/// Whether Nodes, Pods, their controllers and Jobs are simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkloadMode {
    Absent,
    Simulated,
}

/// Installs the CRDs of Volcano if a controller or the simulation needs them.
pub(crate) async fn install(
    client: &kube::Client,
    flags: &ControllerFlags,
    workloads: WorkloadMode,
) -> Result<()> {
    let is_needed = VOLCANO_CONTROLLERS.iter().any(|name| flags.runs(name));
    if is_needed || workloads == WorkloadMode::Simulated {
        let installed = volcano::install(client).await;
        installed.context("cannot install the CRDs of Volcano")?;
    }
    Ok(())
}

/// Printed by `up --simulate-workloads`.
pub(crate) const SIMULATED: &str =
    "workloads are simulated: Pods and Jobs start and finish, but no container runs";

/// The size of the simulated cluster. Leases are renewed every 10 seconds of the clock, and at most once per second of the
/// wall clock.
pub(crate) fn options(nodes: u32, clock_speed: NonZeroU32) -> SimulationOptions {
    SimulationOptions {
        nodes,
        lease_secs: LEASE_SECS.max(clock_speed.get()),
    }
}

/// Starts the simulated controllers. Must be called inside a tokio runtime.
pub(crate) fn start(
    client: kube::Client,
    feeds: FeedSet,
    clock: Clock,
    options: SimulationOptions,
) -> ControllerManager {
    let metrics = ControllerMetrics::new();
    let (events, recorder) = EventSink::new(client.clone(), clock.clone(), metrics.clone());
    // The task ends with the controllers, which hold the sinks.
    drop(tokio::spawn(recorder.run()));
    let mut manager = ControllerManager::new(SharedParts {
        client,
        feeds,
        clock,
        events,
        evidence: EvidenceTrail::new(),
        metrics,
        limit: None,
    });
    caretaker_simulator::start(&mut manager, options);
    manager
}
