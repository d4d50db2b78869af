//! Simulated Nodes, Pods and Jobs that only speak the API. Nothing runs: no container is ever started.
//!
//! - `actor`: what an actor is, and how it becomes a controller.
//! - `world`: what an actor knows.
//! - `objects`: what actors write: owners, conditions, names, patches.
//! - [`life`]: what annotations ask for.
//! - `node`, `pod`, `replicaset`, `deployment`, `job`, `vcjob`: the actors.
//! - [`volcano`]: the kinds of Volcano, to be installed or printed.

mod actor;
mod deployment;
mod job;
pub mod life;
mod node;
mod objects;
mod pod;
mod replicaset;
mod vcjob;
pub mod volcano;
mod world;

use caretaker_controllers::runtime::driver::Options;
use caretaker_controllers::runtime::manager::Manager;

pub use crate::node::{LABEL as NODE_LABEL, NAME as NODE};

use crate::actor::{Acting, Actor};

/// Starts all actors.
pub fn start(manager: &mut Manager) {
    start_one(manager, node::Nodes::default);
    start_one(manager, || pod::Pods);
    start_one(manager, || replicaset::ReplicaSets);
    start_one(manager, || deployment::Deployments);
    start_one(manager, || job::Jobs);
    start_one(manager, || vcjob::VolcanoJobs);
}

fn start_one<A: Actor>(manager: &mut Manager, make: impl Fn() -> A + Send + 'static) {
    // Nobody asks an actor anything.
    drop(
        manager.start(Acting::<A>::interest(), Options::default(), move || {
            Acting::new(make())
        }),
    );
}

#[cfg(test)]
mod tests;
