//! Tests of the server through its service, with paused time.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod client;
mod cluster;
mod cronjobs;
mod deterministic;
mod subresources;
mod tokens;
mod upkeep;
mod writes;
