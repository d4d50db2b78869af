//! The binary from outside: what it prints, how it ends, and what kubectl makes of it.

#![expect(
    clippy::unwrap_used,
    reason = "a test may unwrap, and so may what only tests use"
)]

mod child;
mod cron;
mod demo;
mod flags;
mod http;
mod kubectl;
mod look;
mod opinions;
mod process;
mod schedule;
mod session;
mod up;
mod workloads;
