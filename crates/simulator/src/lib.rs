//! Simulated Nodes, Pods, their controllers and Jobs. They only use the API; no container is ever started.
//!
//! - `actor`: the trait of an actor, and the adapter that makes it a controller.
//! - `cache`: the objects that an actor watches.
//! - `events`: Events about the objects of actors.
//! - `objects`: helpers for requests: owner references, conditions, names, patches.
//! - [`annotations`]: annotations that control the simulation of an object.
//! - `availability`: when a Pod counts as available; `placement`: which Nodes a Pod may be on.
//! - `revisions`: the ControllerRevisions of StatefulSets and DaemonSets.
//! - `node`, `lease`, `pod`, `replicaset`, `deployment`, `statefulset`, `daemonset`, `job`, `vcjob`: the actors.
//! - `endpoints`, `disruption`, `quota`: actors that follow Pods: endpoints of Services, the status of budgets and quotas.
//! - [`volcano`]: Volcano's CustomResourceDefinitions, to be installed or printed.

mod actor;
pub mod annotations;
mod availability;
mod cache;
mod daemonset;
mod deployment;
mod disruption;
mod endpoints;
mod events;
mod job;
mod lease;
mod node;
mod objects;
mod placement;
mod pod;
mod quota;
mod replicaset;
mod revisions;
mod statefulset;
mod vcjob;
pub mod volcano;

use caretaker_controllers::runtime::driver::DriverOptions;
use caretaker_controllers::runtime::driver::clock_skew::TimeSource;
use caretaker_controllers::runtime::manager::ControllerManager;

pub use crate::node::{COUNT_MAX as NODES_MAX, LABEL as NODE_LABEL, NAME as NODE};

use crate::actor::{Actor, ActorController};

/// Seconds between two renewals of the Lease of a Node; kubelet's.
pub const LEASE_SECS: u32 = 10;

/// The size of the simulated cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimulationOptions {
    /// The number of Nodes to register, at most [`NODES_MAX`].
    pub nodes: u32,
    /// Seconds of the clock between two renewals of the Lease of a Node.
    pub lease_secs: u32,
}

// === impl SimulationOptions ===

impl Default for SimulationOptions {
    fn default() -> Self {
        Self {
            nodes: 1,
            lease_secs: LEASE_SECS,
        }
    }
}

/// Starts all actors as controllers.
pub fn start(manager: &mut ControllerManager, options: SimulationOptions) {
    start_nodes(manager, options);
    start_one(manager, || replicaset::ReplicaSetActor);
    start_one(manager, || replicaset::ReplicationControllerActor);
    start_one(manager, || deployment::DeploymentActor);
    start_one(manager, || statefulset::StatefulSetActor);
    start_one(manager, || daemonset::DaemonSetActor);
    start_one(manager, || job::JobActor);
    start_one(manager, || vcjob::VolcanoJobActor);
    start_one(manager, || endpoints::object::EndpointsActor);
    start_one(manager, || endpoints::slices::EndpointSlicesActor);
    start_one(manager, || disruption::DisruptionActor);
    start_one(manager, || quota::QuotaActor);
}

/// Starts the actors of Nodes and Pods only, for a server whose workloads have other controllers.
pub fn start_nodes(manager: &mut ControllerManager, options: SimulationOptions) {
    start_one(manager, move || node::NodeActor::new(options.nodes));
    start_one(manager, move || lease::LeaseActor::new(options.lease_secs));
    start_one(manager, || pod::PodActor);
}

fn start_one<A: Actor>(manager: &mut ControllerManager, make: impl Fn() -> A + Send + 'static) {
    // Actors answer no queries, so the handle is not needed.
    drop(manager.start(
        ActorController::<A>::interest(),
        DriverOptions {
            timing: TimeSource::Own,
            reporter: Some(A::REPORTER),
            ..DriverOptions::default()
        },
        move || ActorController::new(make()),
    ));
}

#[cfg(test)]
mod tests;
