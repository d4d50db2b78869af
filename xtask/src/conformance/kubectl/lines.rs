//! Runs the lines of a case with the shell, against one server.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use super::output::normalise;
use super::script::{KubectlCase, ScriptLine};
use super::servers::ComparedServer;
use crate::interrupt;

/// A line that takes longer does not end by itself.
const LINE_PATIENCE: Duration = Duration::from_secs(90);
/// Pause between two looks at a running line.
const LOOK: Duration = Duration::from_millis(5);
/// Begins the line of a transcript about a preparation that failed.
pub(super) const UNPREPARED: &str = "preparation failed: ";
const NODE_READY: &str = "kubectl wait --for=create node --all --timeout=60s >/dev/null; kubectl wait --for=condition=Ready node --all --timeout=60s";

/// Runs lines against one server.
#[derive(Debug)]
pub(super) struct LineRunner<'a> {
    server: &'a ComparedServer,
    /// The directory of cases.
    data: &'a Path,
    /// The search path, with kubectl in the first place.
    path: std::ffi::OsString,
    /// Kubeconfig, outputs and everything that kubectl keeps.
    scratch: tempfile::TempDir,
}

/// What a line printed.
struct LineOutput {
    stdout: String,
    stderr: String,
    /// None if it had to be killed.
    code: Option<i32>,
}

// === impl LineRunner ===

impl<'a> LineRunner<'a> {
    pub(super) fn new(kubectl: &Path, server: &'a ComparedServer, data: &'a Path) -> Result<Self> {
        let scratch = tempfile::tempdir().context("cannot make a directory for kubectl")?;
        let own = kubectl.parent().map(Path::to_path_buf);
        let rest = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(own.into_iter().chain(std::env::split_paths(&rest)));
        Ok(Self {
            server,
            data,
            path: path.context("the directory of kubectl has a colon")?,
            scratch,
        })
    }

    /// Waits until a simulated Node is ready.
    pub(super) fn wait_for_node(&mut self) -> Result<()> {
        self.server
            .write_kubeconfig(&self.kubeconfig(), "default")?;
        let output = self.line(NODE_READY)?;
        if output.code != Some(0) {
            bail!(
                "no Node became ready on the {} server: {}",
                self.server.name(),
                output.stderr
            );
        }
        Ok(())
    }

    /// Runs a case and returns what its compared lines printed, in comparable form.
    pub(super) fn run(&mut self, case: &KubectlCase) -> Result<String> {
        self.server
            .write_kubeconfig(&self.kubeconfig(), &case.name)?;
        let create = format!("kubectl create namespace {}", case.name);
        let mut transcript = String::new();
        let prepare = ScriptLine::Prepare(create);
        for line in std::iter::once(&prepare).chain(&case.lines) {
            match line {
                ScriptLine::Prepare(line) => {
                    let output = self.line(line)?;
                    if output.code != Some(0) {
                        transcript += &format!("{UNPREPARED}{line}\n{}", self.text(&output));
                        break;
                    }
                }
                ScriptLine::Compare(line) => {
                    let output = self.line(line)?;
                    transcript += &format!("$ {line}\n{}", self.text(&output));
                }
            }
        }
        // Its Pods would disturb the cases about Nodes, and cost both servers time.
        self.line(&format!(
            "kubectl delete namespace {} --wait=false",
            case.name
        ))?;
        Ok(transcript)
    }

    /// The output of a line in comparable form.
    fn text(&self, output: &LineOutput) -> String {
        let scratch = self.scratch.path().display().to_string();
        let normal = |text: &str| match text {
            "" => String::new(),
            text => normalise(text, &[(&scratch, "TMP")]),
        };
        let mut text = normal(&output.stdout);
        let errors = normal(&output.stderr);
        if !errors.trim().is_empty() {
            text = text + "stderr:\n" + &errors;
        }
        match output.code {
            Some(0) => text,
            Some(code) => format!("{text}exit {code}\n"),
            None => format!("{text}killed after {} s\n", LINE_PATIENCE.as_secs()),
        }
    }

    fn kubeconfig(&self) -> PathBuf {
        self.scratch.path().join("kubeconfig")
    }

    fn line(&self, line: &str) -> Result<LineOutput> {
        let files = ["stdout", "stderr"].map(|name| self.scratch.path().join(name));
        let [stdout, stderr] = &files;
        let file =
            |path: &Path| File::create(path).context("cannot write in a temporary directory");
        let mut child = Command::new("sh")
            .args(["-c", line])
            .current_dir(self.data)
            .env("PATH", &self.path)
            .env("KUBECONFIG", self.kubeconfig())
            .env("HOME", self.scratch.path())
            .env("TMPDIR", self.scratch.path())
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(file(stdout)?)
            .stderr(file(stderr)?)
            .process_group(0)
            .spawn()
            .context("cannot start sh")?;
        let deadline = Instant::now() + LINE_PATIENCE;
        let code = loop {
            if let Some(status) = child.try_wait().context("cannot wait for sh")? {
                break status.code();
            }
            let is_interrupted = interrupt::check().is_err();
            if is_interrupted || Instant::now() > deadline {
                let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                if let Some(group) = group {
                    // The line may have ended just now.
                    let _ = kill_process_group(group, Signal::KILL);
                }
                child.wait().context("cannot wait for sh")?;
                interrupt::check()?;
                break None;
            }
            thread::sleep(LOOK);
        };
        let read = |path: &Path| {
            let bytes = fs::read(path).context("cannot read the output of a line")?;
            anyhow::Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok(LineOutput {
            stdout: read(stdout)?,
            stderr: read(stderr)?,
            code,
        })
    }
}
