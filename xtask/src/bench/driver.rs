//! Runs the load driver, `load` of `testbed`, on a server and parses the line that it prints.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::cargo::{Binary, Running};
use crate::interrupt;

/// The driver, optimised, because it competes with the measured programs for the machine.
pub(super) const LOAD: Binary = Binary {
    package: "caretaker-testbed",
    name: "load",
    profile: "release",
};

/// The path of the built driver.
#[derive(Debug)]
pub(super) struct LoadDriver(pub(super) PathBuf);

/// The output of most commands of `load`.
#[derive(Debug, Deserialize)]
pub(super) struct LoadOutput {
    pub(super) count: usize,
    pub(super) secs: f64,
    pub(super) p50_secs: f64,
    pub(super) p99_secs: f64,
    pub(super) bytes: usize,
    pub(super) cpu_secs: f64,
}

// === impl LoadDriver ===

impl LoadDriver {
    /// Runs the driver on the server of a kubeconfig and waits for its output.
    pub(super) fn drive<T: DeserializeOwned>(
        &self,
        who: &str,
        kubeconfig: &Path,
        args: &str,
    ) -> Result<T> {
        eprintln!("{who}: {args}");
        self.run(Command::new(&self.0).arg(kubeconfig).args(args.split(' ')))
    }

    /// Runs a command of the driver that needs no server.
    pub(super) fn alone<T: DeserializeOwned>(&self, args: &str) -> Result<T> {
        self.run(Command::new(&self.0).args(args.split(' ')))
    }

    fn run<T: DeserializeOwned>(&self, command: &mut Command) -> Result<T> {
        interrupt::check()?;
        let mut running = Running::start(command.stdout(Stdio::piped()))?;
        let status = running.wait()?;
        if !status.success() {
            bail!("the load driver failed ({status}); see its output above");
        }
        // One line: it fits into the pipe.
        let mut line = String::new();
        let stdout = running.0.stdout.as_mut().context("its output is a pipe")?;
        stdout
            .read_to_string(&mut line)
            .context("cannot read the output of the driver")?;
        serde_json::from_str(&line).context("the driver printed no result")
    }
}

// === impl LoadOutput ===

impl LoadOutput {
    pub(super) fn rate(&self) -> f64 {
        self.count as f64 / self.secs
    }

    pub(super) fn busy(&self) -> f64 {
        self.cpu_secs / self.secs
    }
}
