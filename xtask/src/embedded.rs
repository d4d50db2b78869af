//! `caretaker up` as a child process, for the suites and benchmarks that compare it with a real server.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::cargo::Running;

/// A running `caretaker up`. Dropping it ends the program.
#[derive(Debug)]
pub(crate) struct EmbeddedServer {
    pub(crate) running: Running,
    pub(crate) kubeconfig: PathBuf,
    /// The time from its start to the line that it prints when it is ready.
    pub(crate) ready_after: Duration,
}

// === impl EmbeddedServer ===

impl EmbeddedServer {
    /// Starts the program with these flags on any free port. Its messages go to `stderr`.
    pub(crate) fn start(caretaker: &Path, flags: &[&str], stderr: Stdio) -> Result<Self> {
        let mut command = Command::new(caretaker);
        command
            .args(["up", "--output=json", "--listen=127.0.0.1:0"])
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(stderr);
        let started = Instant::now();
        let mut running = Running::start(&mut command)?;
        let stdout = running.0.stdout.take().context("its output is a pipe")?;
        let mut line = String::new();
        BufReader::new(stdout)
            .read_line(&mut line)
            .context("cannot read the output of caretaker")?;
        let ready_after = started.elapsed();
        let kubeconfig =
            ready_kubeconfig(&line).context("caretaker did not become ready; see its messages")?;
        Ok(Self {
            running,
            kubeconfig,
            ready_after,
        })
    }
}

/// The path of the kubeconfig in the line that `up` prints when it is ready.
fn ready_kubeconfig(line: &str) -> Option<PathBuf> {
    let ready: Value = serde_json::from_str(line).ok()?;
    ready["kubeconfig"].as_str().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_line_of_a_ready_server_has_a_kubeconfig() {
        let kubeconfig = ready_kubeconfig(r#"{"server":"https://127.0.0.1:1","kubeconfig":"a/b"}"#);
        assert_eq!(kubeconfig, Some(PathBuf::from("a/b")));
        for line in ["", "caretaker: no", "{}", r#"{"kubeconfig":7}"#] {
            assert_eq!(ready_kubeconfig(line), None, "{line}");
        }
    }

    #[test]
    fn a_program_that_prints_nothing_is_not_ready() {
        let error = EmbeddedServer::start(Path::new("true"), &[], Stdio::null()).unwrap_err();
        assert!(error.to_string().contains("did not become ready"));
    }
}
