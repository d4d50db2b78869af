//! The controllers that a suite runs with: where they come from, and how they are started and ended.
//!
//! A suite runs with any implementation. The garbage collector is always among the controllers; a canary that it collects
//! shows that they work. The controllers may run already, be a program that is started here (the Go controller manager,
//! `caretaker run`), or run in this process beside the embedded server. A program is killed, not asked to end: a controller
//! may not depend on a graceful shutdown, and a case that restarts one should not wait for it.

pub mod process;

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

use crate::target::{InProcessControllers, Target};

/// The garbage collector's name for `--controllers`.
pub const COLLECTOR: &str = "garbage-collector-controller";

/// Where the controllers of a case come from.
#[derive(Clone, Debug)]
pub enum ControllerSource {
    /// They run already, or none is wanted; a case cannot restart them.
    Running,
    Program {
        /// The program and its arguments.
        line: Vec<String>,
        /// Its output is appended to this file, otherwise to our stderr.
        log: Option<PathBuf>,
    },
    /// Ours, in this process, on the target's clock: the garbage collector and these.
    InProcess(&'static [&'static str]),
}

/// Controllers that were started; dropping it ends them, unless they ran already.
pub enum StartedControllers {
    Elsewhere,
    Process(Child),
    Here(Box<InProcessControllers>),
}

// === impl ControllerSource ===

impl ControllerSource {
    /// Starts the controllers; they may take a while until they act.
    pub fn start(&self, target: &Target) -> anyhow::Result<StartedControllers> {
        match self {
            Self::Running => Ok(StartedControllers::Elsewhere),
            Self::InProcess(others) => {
                let list = [&[COLLECTOR], *others].concat().join(",");
                Ok(StartedControllers::Here(Box::new(
                    target.controllers(&list)?,
                )))
            }
            Self::Program { line, log } => {
                let (program, args) = line
                    .split_first()
                    .context("the command of the controllers is empty")?;
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
                Ok(StartedControllers::Process(child))
            }
        }
    }
}

// === impl StartedControllers ===

impl StartedControllers {
    /// Returns how the program ended, if it has ended by itself.
    pub fn ended(&mut self) -> Option<String> {
        let Self::Process(child) = self else {
            return None;
        };
        let status = child.try_wait().ok().flatten()?;
        Some(format!("the controllers ended by themselves ({status})"))
    }
}

impl Drop for StartedControllers {
    fn drop(&mut self) {
        if let Self::Process(child) = self {
            // A program that has ended already cannot be killed; either way it is gone.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(line: &[&str]) -> ControllerSource {
        ControllerSource::Program {
            line: line.iter().map(ToString::to_string).collect(),
            log: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn kills_the_program_when_dropped() {
        let mut running = program(&["sleep", "600"])
            .start(&Target::embedded())
            .unwrap();
        assert_eq!(running.ended(), None);
        let StartedControllers::Process(child) = &running else {
            panic!("not a process")
        };
        let place = PathBuf::from(format!("/proc/{}", child.id()));
        assert!(place.exists());
        drop(running);
        assert!(!place.exists());
    }

    #[tokio::test(start_paused = true)]
    async fn names_a_missing_program() {
        let error = program(&["/no/such/program"])
            .start(&Target::embedded())
            .err();
        assert_eq!(
            error.map(|e| e.to_string()).as_deref(),
            Some("cannot start /no/such/program")
        );
    }
}
