//! The runtime of the controllers on an embedded server, in process and on paused time.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod faults;
mod feeds;
mod world;
