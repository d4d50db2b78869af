//! The load: runs `load` of `testbed` on a server and reads the one line it prints.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::cargo::{Binary, Running};
use crate::interrupt;

/// The driver, optimised: what it takes of the machine is taken from those it measures.
pub(super) const LOAD: Binary = Binary {
    package: "caretaker-testbed",
    name: "load",
    profile: "release",
};

/// The built driver.
#[derive(Debug)]
pub(super) struct Driver(pub(super) PathBuf);

/// What most commands of `load` print.
#[derive(Debug, Deserialize)]
pub(super) struct Measured {
    pub(super) count: usize,
    pub(super) secs: f64,
    pub(super) p50_secs: f64,
    pub(super) p99_secs: f64,
    pub(super) bytes: usize,
    pub(super) cpu_secs: f64,
}

// === impl Driver ===

impl Driver {
    /// Has the driver do something to the server of a kubeconfig, and waits until it is done.
    pub(super) fn drive<T: DeserializeOwned>(
        &self,
        who: &str,
        kubeconfig: &Path,
        args: &str,
    ) -> Result<T> {
        eprintln!("{who}: {args}");
        self.run(Command::new(&self.0).arg(kubeconfig).args(args.split(' ')))
    }

    /// Has the driver do something that needs no server.
    pub(super) fn alone<T: DeserializeOwned>(&self, args: &str) -> Result<T> {
        self.run(Command::new(&self.0).args(args.split(' ')))
    }

    fn run<T: DeserializeOwned>(&self, command: &mut Command) -> Result<T> {
        interrupt::check()?;
        let mut running = Running::start(command.stdout(Stdio::piped()))?;
        let status = running.wait()?;
        if !status.success() {
            bail!("the load was not borne ({status}); the driver says why above");
        }
        // One line: it fits into the pipe.
        let mut line = String::new();
        let stdout = running.0.stdout.as_mut().context("its output is a pipe")?;
        stdout
            .read_to_string(&mut line)
            .context("cannot read what the driver prints")?;
        serde_json::from_str(&line).context("the driver did not print what it measured")
    }
}

// === impl Measured ===

impl Measured {
    pub(super) fn rate(&self) -> f64 {
        self.count as f64 / self.secs
    }

    pub(super) fn busy(&self) -> f64 {
        self.cpu_secs / self.secs
    }
}
