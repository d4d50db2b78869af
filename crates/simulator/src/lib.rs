//! Simulated Nodes, Pods, ReplicaSets, Deployments and Jobs. They only use the API; no container is ever started.
//!
//! - `actor`: the trait of an actor, and the adapter that makes it a controller.
//! - `cache`: the objects that an actor watches.
//! - `events`: Events about the objects of actors.
//! - `objects`: helpers for requests: owner references, conditions, names, patches.
//! - [`annotations`]: annotations that control the simulation of an object.
//! - `node`, `pod`, `replicaset`, `deployment`, `job`, `vcjob`: the actors.
//! - `endpoints`, `disruption`, `quota`: actors that follow Pods: endpoints of Services, the status of budgets and quotas.
//! - [`volcano`]: Volcano's CustomResourceDefinitions, to be installed or printed.

mod actor;
pub mod annotations;
mod cache;
mod deployment;
mod disruption;
mod endpoints;
mod events;
mod job;
mod node;
mod objects;
mod pod;
mod quota;
mod replicaset;
mod vcjob;
pub mod volcano;

use caretaker_controllers::runtime::driver::DriverOptions;
use caretaker_controllers::runtime::driver::clock_skew::TimeSource;
use caretaker_controllers::runtime::manager::ControllerManager;

pub use crate::node::{LABEL as NODE_LABEL, NAME as NODE};

use crate::actor::{Actor, ActorController};

/// Starts all actors as controllers.
pub fn start(manager: &mut ControllerManager) {
    start_nodes(manager);
    start_one(manager, || replicaset::ReplicaSetActor);
    start_one(manager, || deployment::DeploymentActor);
    start_one(manager, || job::JobActor);
    start_one(manager, || vcjob::VolcanoJobActor);
    start_one(manager, || endpoints::object::EndpointsActor);
    start_one(manager, || endpoints::slices::EndpointSlicesActor);
    start_one(manager, || disruption::DisruptionActor);
    start_one(manager, || quota::QuotaActor);
}

/// Starts the actors of Nodes and Pods only, for a server whose workloads have other controllers.
pub fn start_nodes(manager: &mut ControllerManager) {
    start_one(manager, node::NodeActor::default);
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
