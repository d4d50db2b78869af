//! Simulated workloads beside the server of `up`, and the kinds of Volcano that they and some controllers need.
//!
//! Actors are controllers like the others and share their feeds, but not their evidence and metrics: what is simulated is
//! not told as if the controllers had done it.

use anyhow::{Context as _, Result};
use caretaker_controllers::runtime::events::Events;
use caretaker_controllers::runtime::evidence::Trail;
use caretaker_controllers::runtime::feed_set::FeedSet;
use caretaker_controllers::runtime::manager::{Manager, Shared};
use caretaker_controllers::runtime::metrics::Metrics;
use caretaker_machinery::clock::Clock;
use caretaker_simulator::volcano;

use crate::args::{VOLCANO_CRON, VOLCANO_TTL, Work};

/// Controllers that look after kinds of Volcano.
const OF_VOLCANO: [&str; 2] = [VOLCANO_CRON, VOLCANO_TTL];

/// Whether nothing, or also Nodes, Pods and Jobs, are played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workloads {
    Absent,
    Simulated,
}

/// Installs the kinds of Volcano if somebody here needs them.
pub(crate) async fn install(
    client: &kube::Client,
    work: &Work,
    workloads: Workloads,
) -> Result<()> {
    let is_needed = OF_VOLCANO.iter().any(|name| work.runs(name));
    if is_needed || workloads == Workloads::Simulated {
        let installed = volcano::install(client).await;
        installed.context("the kinds of Volcano cannot be installed")?;
    }
    Ok(())
}

/// What has to be said wherever something is simulated.
pub(crate) const SIMULATED: &str =
    "workloads are simulated: Pods and Jobs live and end, but no container runs";

/// Starts the actors.
pub(crate) fn start(client: kube::Client, feeds: FeedSet, clock: Clock) -> Manager {
    let mut manager = Manager::new(Shared {
        client,
        feeds,
        clock,
        events: Events::none(),
        evidence: Trail::new(),
        metrics: Metrics::new(),
        limit: None,
    });
    caretaker_simulator::start(&mut manager);
    manager
}
