//! Builds the programs of this workspace and runs them as child processes.
//!
//! xtask links none of our crates, so that starting a real server compiles none of them. It builds their programs with
//! the cargo that runs it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::interrupt;
use crate::real::{POLL, ProcessId};

/// A binary of this workspace and the profile to build it with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binary {
    name: &'static str,
    profile: &'static str,
}

/// A started program. Dropping it ends the program.
#[derive(Debug)]
pub(crate) struct Running(pub(crate) Child);

// === impl Binary ===

impl Binary {
    pub(crate) const fn caretaker(profile: &'static str) -> Self {
        Self {
            name: "caretaker",
            profile,
        }
    }

    /// A program of the test harness.
    pub(crate) const fn testbed(name: &'static str, profile: &'static str) -> Self {
        Self { name, profile }
    }

    /// Builds the binary if needed and returns its path. The messages of cargo go to stderr.
    pub(crate) fn build(self) -> Result<PathBuf> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        // Variables that describe xtask are removed: build scripts that read them (ring's does) would run again, and their
        // dependents would be compiled again, at each change between a cargo run of the user and one of ours.
        let about_us = std::env::vars_os().map(|(name, _)| name);
        for name in about_us.filter(|name| is_about_a_package(&name.to_string_lossy())) {
            command.env_remove(name);
        }
        // Of the whole workspace: with `--package`, cargo resolves other features than `cargo test --workspace` does, and
        // compiles most dependencies a second time.
        let messages = command
            .current_dir(workspace())
            .args(["build", "--message-format=json-render-diagnostics"])
            .args(["--workspace", "--bin", self.name])
            .args(["--profile", self.profile])
            .stderr(Stdio::inherit())
            .output()
            .context("cannot start cargo")?;
        interrupt::check()?;
        if !messages.status.success() {
            bail!(
                "{} does not build; see the output of cargo above",
                self.name
            );
        }
        executable(&String::from_utf8_lossy(&messages.stdout), self.name)
            .with_context(|| format!("cargo printed no path of {}", self.name))
    }
}

// === impl Running ===

impl Running {
    /// Starts a program without standard input.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let child = command.stdin(Stdio::null()).spawn();
        let program = || format!("cannot start {}", command.get_program().display());
        Ok(Self(child.with_context(program)?))
    }

    /// Waits until the program ends. An interrupt is an error.
    pub(crate) fn wait(&mut self) -> Result<ExitStatus> {
        loop {
            interrupt::check()?;
            if let Some(status) = self.0.try_wait().context("cannot wait for a program")? {
                return Ok(status);
            }
            thread::sleep(POLL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A program that was waited for has no id any more: the kernel may have reused its pid.
        if let (Ok(None), Some(id)) = (self.0.try_wait(), ProcessId::of(self.0.id())) {
            if let Err(error) = id.stop() {
                eprintln!("{error:#}");
            }
            // Reaps it.
            let _ = self.0.try_wait();
        }
    }
}

/// Returns whether cargo sets this variable for each package that it compiles or runs.
fn is_about_a_package(variable: &str) -> bool {
    let about = variable.strip_prefix("CARGO_").unwrap_or_default();
    let prefixes = ["PKG_", "MANIFEST_", "BIN_", "CRATE_"];
    prefixes.iter().any(|prefix| about.starts_with(prefix))
}

/// The root directory of this workspace.
pub(crate) fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The path of a binary in the messages of cargo.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut named = messages.filter(|message| message["target"]["name"] == name);
    named.find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_binary_is_read_from_cargos_messages() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"load"},"executable":null}
not JSON
{"reason":"compiler-artifact","target":{"name":"other"},"executable":"/b/other"}
{"reason":"compiler-artifact","target":{"name":"load"},"executable":"/b/load"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executable(messages, "load"), Some("/b/load".into()));
        assert_eq!(executable(messages, "suites"), None);
    }

    #[test]
    fn variables_of_a_package_differ_from_those_of_the_user() {
        for variable in ["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR"] {
            assert!(is_about_a_package(variable), "{variable}");
        }
        for variable in [
            "CARGO",
            "CARGO_HOME",
            "CARGO_TARGET_DIR",
            "CARGO_NET_OFFLINE",
        ] {
            assert!(!is_about_a_package(variable), "{variable}");
        }
    }

    #[test]
    fn a_program_ends_with_the_value_that_holds_it() {
        let mut ended = Running::start(&mut Command::new("false")).unwrap();
        assert!(!ended.wait().unwrap().success());
        let running = Running::start(Command::new("sleep").arg("600")).unwrap();
        let place = PathBuf::from(format!("/proc/{}", running.0.id()));
        assert!(place.exists());
        drop(running);
        assert!(!place.exists());
    }

    #[test]
    fn a_program_that_is_missing_is_named() {
        let error = Running::start(&mut Command::new("/no/such/program")).unwrap_err();
        assert_eq!(error.to_string(), "cannot start /no/such/program");
    }
}
