//! The controllers a suite is played with: whose they are, and how they are started and ended.
//!
//! A suite does not care whose controllers they are. They always have the garbage collector among them, by which it is
//! seen when they are at work, and are called after it here. One may run already, be a program that is started here (the Go
//! controller manager, `caretaker run`), or run in this process beside the embedded server. A program is killed, not
//! asked to end: no collector may depend on a last word, and a play that restarts one should not wait for it.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

use crate::target::{Controllers, Target};

/// What `--controllers` calls the collector.
pub const NAME: &str = "garbage-collector-controller";

/// Where a collector comes from.
#[derive(Clone, Debug)]
pub enum Collector {
    /// One runs already, and nobody here can restart it.
    Standing,
    /// A program that collects as long as it runs.
    Program {
        /// The program and its arguments.
        line: Vec<String>,
        /// What it says goes to the end of this file; without one to where our own errors go.
        log: Option<PathBuf>,
    },
    /// Ours, in this process, on the target's clock: the collector, and with it these.
    InProcess(&'static [&'static str]),
}

/// A collector that runs; it ends with this value, if it was started here.
pub enum Running {
    /// Somebody else's.
    Elsewhere,
    /// A child process.
    Process(Child),
    /// Tasks of this process.
    Here(Box<Controllers>),
}

// === impl Collector ===

impl Collector {
    /// Starts it. It may take a while until it acts.
    pub fn start(&self, target: &Target) -> anyhow::Result<Running> {
        match self {
            Self::Standing => Ok(Running::Elsewhere),
            Self::InProcess(others) => {
                let list = [&[NAME], *others].concat().join(",");
                Ok(Running::Here(Box::new(target.controllers(&list)?)))
            }
            Self::Program { line, log } => {
                let (program, args) = line.split_first().context("the collector has no command")?;
                let mut command = Command::new(program);
                command.args(args).stdin(Stdio::null());
                if let Some(log) = log {
                    let file = OpenOptions::new().create(true).append(true).open(log);
                    let file = file.with_context(|| log.display().to_string())?;
                    command.stderr(file.try_clone()?).stdout(file);
                } else {
                    // Our own stdout is for the suite's lines.
                    command.stdout(Stdio::null());
                }
                let child = command
                    .spawn()
                    .with_context(|| format!("cannot start {program}"))?;
                Ok(Running::Process(child))
            }
        }
    }
}

// === impl Running ===

impl Running {
    /// Says how it ended, if it is a program that did so by itself.
    pub fn ended(&mut self) -> Option<String> {
        let Self::Process(child) = self else {
            return None;
        };
        let status = child.try_wait().ok().flatten()?;
        Some(format!("the collector ended by itself ({status})"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Self::Process(child) = self {
            // One that has ended already cannot be killed, and that is what was wanted.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(line: &[&str]) -> Collector {
        Collector::Program {
            line: line.iter().map(ToString::to_string).collect(),
            log: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_runs_until_its_value_ends() {
        let mut running = program(&["sleep", "600"])
            .start(&Target::embedded())
            .unwrap();
        assert_eq!(running.ended(), None);
        let Running::Process(child) = &running else {
            panic!("not a process")
        };
        let place = PathBuf::from(format!("/proc/{}", child.id()));
        assert!(place.exists());
        drop(running);
        assert!(!place.exists());
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_that_is_missing_is_named() {
        let error = program(&["/no/such/program"])
            .start(&Target::embedded())
            .err();
        assert_eq!(
            error.map(|e| e.to_string()).as_deref(),
            Some("cannot start /no/such/program")
        );
    }
}
