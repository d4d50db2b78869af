//! An embedded Kubernetes API server as one tower service.
//!
//! A request goes through [`server`], which parses it ([`request`], [`negotiate`], [`body`]), looks its kind up
//! ([`kinds`]), asks a verb ([`verbs`], with [`metadata`], [`deletion`], [`strategy`]) that reads and writes the
//! [`store`], and writes the answer ([`respond`], [`tables`], [`watching`]). Around it: [`discovery`], [`openapi`],
//! [`health`], [`metrics`], and the tasks of [`upkeep`].

mod body;
mod deletion;
mod discovery;
mod etag;
mod fields;
mod health;
mod kinds;
pub mod listen;
mod metadata;
mod metrics;
mod negotiate;
mod openapi;
mod request;
mod respond;
mod server;
mod store;
mod strategy;
mod tables;
mod upkeep;
mod verbs;
mod watching;

pub use respond::Body;
pub use server::{ApiServer, ApiService, Identity, Upkeep};
