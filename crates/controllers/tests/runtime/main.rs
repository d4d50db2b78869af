//! The runtime on the embedded server, in process, on paused time.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod connections;
mod driver;
mod driver_clients;
mod driver_effects;
mod driver_events;
mod driver_faults;
mod driver_gate;
mod driver_toy;
mod driver_world;
mod faults;
mod feeds;
mod logs;
mod world;
