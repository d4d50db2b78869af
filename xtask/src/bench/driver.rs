//! Runs the load driver, `load` of `testbed`, on a server and parses the line that it prints.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::cargo::{Binary, Running};
use crate::interrupt;

/// Objects whose memory is measured in the driver's own process.
pub const OBJECTS_IN_MEMORY: u32 = 200_000;

/// The path of the built driver.
#[derive(Debug)]
pub(super) struct LoadDriver(PathBuf);

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

/// The memory of a graph in the driver's own process.
#[derive(Debug, Deserialize)]
pub struct GraphMemoryOutput {
    pub count: u64,
    pub bytes_per_object: f64,
}

/// Measures the memory of each object in the collector's graph, in the driver's own process.
pub fn graph_memory(objects: u32, is_quick: bool) -> Result<GraphMemoryOutput> {
    let driver = LoadDriver::build(is_quick)?;
    let objects = objects.to_string();
    output_of(Command::new(&driver.0).args(["graph-memory", "--objects", &objects]))
}

// === impl LoadDriver ===

impl LoadDriver {
    /// Builds the driver; optimised for figures, because it competes with the measured programs for the machine.
    pub(super) fn build(is_quick: bool) -> Result<Self> {
        let profile = if is_quick { "dev" } else { "release" };
        Binary::testbed("load", profile).build().map(Self)
    }

    /// Runs the driver on the server of a kubeconfig and waits for its output.
    pub(super) fn drive<T: DeserializeOwned>(
        &self,
        who: &str,
        kubeconfig: &Path,
        args: &str,
    ) -> Result<T> {
        eprintln!("{who}: {args}");
        output_of(Command::new(&self.0).arg(kubeconfig).args(args.split(' ')))
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

fn output_of<T: DeserializeOwned>(command: &mut Command) -> Result<T> {
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
