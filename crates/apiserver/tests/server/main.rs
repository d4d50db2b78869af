//! The server as its users have it: through the service, on paused time.

mod client;
mod deterministic;
mod upkeep;
mod writes;
