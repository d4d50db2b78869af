//! The server as its users have it: through the service, on paused time.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod client;
mod cronjobs;
mod deterministic;
mod upkeep;
mod writes;
