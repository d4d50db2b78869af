//! A server that is measured: ours or the real one, started, looked at from outside, and ended with its value.
//!
//! Memory and processor time are those of the processes that serve: `caretaker` on one side, kube-apiserver and etcd on
//! the other.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use super::sampling;
use crate::cargo::Running;
use crate::real::{Identity, Instance, Options};

/// A running server.
#[derive(Debug)]
pub(super) struct Server {
    /// What it is called in progress messages.
    pub(super) name: &'static str,
    /// How it is reached.
    pub(super) kubeconfig: PathBuf,
    /// How long its start took.
    pub(super) ready_after: Duration,
    processes: Processes,
}

/// Kept for what their ends do.
#[derive(Debug)]
enum Processes {
    Ours(Running),
    Real(Instance),
}

// === impl Server ===

impl Server {
    /// Our server, in memory. It is ready when it says so on stdout.
    pub(super) fn ours(caretaker: &Path) -> Result<Self> {
        let mut command = Command::new(caretaker);
        command
            .args(["up", "--output=json", "--listen=127.0.0.1:0"])
            .args(["--ephemeral", "--controllers=-*"])
            .stdout(Stdio::piped());
        let started = Instant::now();
        let mut running = Running::start(&mut command)?;
        let stdout = running.0.stdout.take().context("its output is a pipe")?;
        let mut line = String::new();
        BufReader::new(stdout)
            .read_line(&mut line)
            .context("cannot read what caretaker prints")?;
        let ready_after = started.elapsed();
        let kubeconfig = serde_json::from_str::<Value>(&line)
            .ok()
            .and_then(|ready| Some(PathBuf::from(ready["kubeconfig"].as_str()?)))
            .context("caretaker did not become ready; it says why above")?;
        Ok(Self {
            name: "ours",
            kubeconfig,
            ready_after,
            processes: Processes::Ours(running),
        })
    }

    /// A real server. It is ready when `/readyz` says so; its programs must be built already.
    pub(super) fn real() -> Result<Self> {
        let started = Instant::now();
        let name = format!("bench-{}", std::process::id());
        let instance = Instance::start(&name, &Options::default())?;
        Ok(Self {
            name: "real",
            ready_after: started.elapsed(),
            kubeconfig: instance.kubeconfig(Identity::Admin),
            processes: Processes::Real(instance),
        })
    }

    /// Its resident memory now, in bytes.
    pub(super) fn resident_bytes(&self) -> Result<f64> {
        self.pids().into_iter().map(sampling::resident_bytes).sum()
    }

    /// The processor time it has used so far, in seconds.
    pub(super) fn cpu_secs(&self) -> Result<f64> {
        self.pids().into_iter().map(sampling::cpu_secs).sum()
    }

    fn pids(&self) -> Vec<u32> {
        match &self.processes {
            Processes::Ours(running) => vec![running.0.id()],
            Processes::Real(instance) => instance.pids().into_iter().map(|(_, pid)| pid).collect(),
        }
    }
}
