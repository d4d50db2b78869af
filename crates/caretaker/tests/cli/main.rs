//! The binary as a process: its output, its exit codes, and its API with kubectl.

#![expect(clippy::unwrap_used, reason = "tests and their helpers may unwrap")]

mod child;
mod connections;
mod credentials;
mod cron;
mod demo;
mod failures;
mod faults;
mod flags;
mod gate;
mod http;
mod inspect;
mod instances;
mod kubectl;
mod manifests;
mod peers;
mod process;
mod proxy;
mod reach;
mod replicas;
mod schedule;
mod session;
mod stop;
mod tokens;
mod up;
mod verdicts;
mod workloads;
