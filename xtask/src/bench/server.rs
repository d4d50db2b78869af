//! A server that is measured: ours or the real one, started, looked at from outside, and ended with its value.
//!
//! Memory and processor time are those of the processes that serve, as `/proc` has them: `caretaker` on one side,
//! kube-apiserver and etcd on the other.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

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
        self.sum("status", resident_bytes)
    }

    /// The processor time it has used so far, in seconds.
    pub(super) fn cpu_secs(&self) -> Result<f64> {
        let ticks_per_sec = rustix::param::clock_ticks_per_second() as f64;
        Ok(self.sum("stat", cpu_ticks)? / ticks_per_sec)
    }

    fn pids(&self) -> Vec<u32> {
        match &self.processes {
            Processes::Ours(running) => vec![running.0.id()],
            Processes::Real(instance) => instance.pids().into_iter().map(|(_, pid)| pid).collect(),
        }
    }

    /// The sum over its processes of what a file of `/proc/<pid>` says.
    fn sum(&self, file: &str, read: fn(&str) -> Option<f64>) -> Result<f64> {
        let of = |pid| {
            let path = format!("/proc/{pid}/{file}");
            let gone = || format!("cannot read {path}: has the server ended?");
            let text = fs::read_to_string(&path).with_context(gone)?;
            read(&text).with_context(|| format!("{path} is not as expected"))
        };
        self.pids().into_iter().map(of).sum()
    }
}

/// `VmRSS` of `/proc/<pid>/status`.
fn resident_bytes(status: &str) -> Option<f64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}

/// Fields 14 and 15 of `/proc/<pid>/stat`, time in user and in kernel mode. The second field may hold anything, so
/// counting starts behind its last `)`.
fn cpu_ticks(stat: &str) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let (user, kernel): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_status_of_a_process() {
        let status = "Name:\tetcd\nVmHWM:\t  200 kB\nVmRSS:\t  100 kB\nThreads:\t9\n";
        assert_eq!(resident_bytes(status), Some(102_400.0));
        for broken in ["", "VmRSS:\t many kB\n", "VmRSS: 7\n"] {
            assert_eq!(resident_bytes(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn processor_time_is_found_whatever_the_program_is_called() {
        let rest = "S 1 1 1 0 -1 4194304 101 0 0 0 70 5 0 0 20 0 1 0 80290";
        for name in ["etcd", "a b) S"] {
            assert_eq!(
                cpu_ticks(&format!("7 ({name}) {rest}")),
                Some(75.0),
                "{name}"
            );
        }
        assert_eq!(cpu_ticks("7 (etcd) S 1"), None);
    }
}
