//! A process under test: its output, signals and exit code. Nothing sleeps; every wait has a limit.

use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Time limit that only a hanging program exceeds.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running program; killed on drop.
pub(crate) struct TestProcess {
    pid: Pid,
    /// Kept open for programs that read their input.
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    error_lines: Receiver<String>,
    /// Lines of stderr that were read and not asked for.
    skipped_errors: Vec<String>,
    ended: Receiver<ProcessExit>,
    is_over: bool,
}

/// Exit code and remaining output of a program.
#[derive(Debug)]
pub(crate) struct ProcessExit {
    /// As in a shell: 128 plus the number of a signal.
    pub(crate) code: i32,
    /// Output that was not read before.
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Temporary directories for the home, runtime and temporary files of a program.
pub(crate) struct TestDirectories(TempDir);

/// A running `caretaker up -o json`.
pub(crate) struct UpProcess {
    pub(crate) process: TestProcess,
    /// The line it printed.
    pub(crate) line: Value,
    pub(crate) world: TestDirectories,
}

// === impl TestProcess ===

impl TestProcess {
    pub(crate) fn start(command: &mut Command) -> Self {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Its own process group: it gets no signals from the terminal of the test run.
            .process_group(0);
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (line, lines) = channel();
        let (error_line, error_lines) = channel();
        let (end, ended) = channel();
        let reader = thread::spawn(move || {
            for text in stdout.lines() {
                let _ = line.send(text.unwrap());
            }
        });
        let errors = thread::spawn(move || {
            let mut all = String::new();
            for text in stderr.lines() {
                let text = text.unwrap();
                all.push_str(&text);
                all.push('\n');
                let _ = error_line.send(text);
            }
            all
        });
        thread::spawn(move || {
            let status = child.wait().unwrap();
            let code = status.code().or_else(|| Some(128 + status.signal()?));
            reader.join().unwrap();
            let _ = end.send(ProcessExit {
                code: code.unwrap(),
                stdout: String::new(),
                stderr: errors.join().unwrap(),
            });
        });
        Self {
            pid,
            stdin,
            lines,
            error_lines,
            skipped_errors: Vec::new(),
            ended,
            is_over: false,
        }
    }

    /// The next line of its output.
    pub(crate) fn line(&mut self) -> String {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(_) => match self.ended.try_recv() {
                Ok(ended) => panic!("it ended instead of printing a line: {ended:?}"),
                Err(_) => panic!("no line within {PATIENCE:?}"),
            },
        }
    }

    /// Reads lines until one of them contains `text`.
    pub(crate) fn line_with(&mut self, text: &str) -> String {
        loop {
            let line = self.line();
            if line.contains(text) {
                return line;
            }
        }
    }

    /// A line of its stderr that contains `text`, waited for at most for `limit`.
    #[track_caller]
    pub(crate) fn error_line_with(&mut self, text: &str, limit: Duration) -> String {
        let mut skipped = self.skipped_errors.iter();
        if let Some(place) = skipped.position(|line| line.contains(text)) {
            return self.skipped_errors.remove(place);
        }
        let deadline = Instant::now() + limit;
        loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            match self.error_lines.recv_timeout(rest) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => self.skipped_errors.push(line),
                Err(_) => {
                    let seen = &self.skipped_errors;
                    panic!("no line with {text:?} within {limit:?}: {seen:#?}")
                }
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).unwrap();
    }

    /// Writes to its stdin.
    pub(crate) fn write_input(&mut self, text: &str) {
        self.stdin
            .as_mut()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
    }

    /// Closes its stdin.
    pub(crate) fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Waits until it exits.
    pub(crate) fn end(mut self) -> ProcessExit {
        let mut ended = self.ended.recv_timeout(PATIENCE).expect("it does not end");
        self.is_over = true;
        ended.stdout = self.lines.try_iter().map(|line| line + "\n").collect();
        ended
    }
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        if !self.is_over && self.ended.try_recv().is_err() {
            let _ = kill_process(self.pid, Signal::KILL);
        }
    }
}

// === impl TestDirectories ===

impl TestDirectories {
    pub(crate) fn new() -> Self {
        let world = Self(tempfile::tempdir().unwrap());
        for directory in ["run", "tmp", "home"] {
            std::fs::create_dir(world.path(directory)).unwrap();
        }
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A command with an empty environment and these directories.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .env("XDG_RUNTIME_DIR", self.path("run"))
            .env("TMPDIR", self.path("tmp"))
            .env("HOME", self.path("home"));
        for name in [
            "RUST_LOG",
            "KUBECONFIG",
            "KUBECACHEDIR",
            "KUBE_EDITOR",
            "EDITOR",
        ] {
            command.env_remove(name);
        }
        command
    }

    pub(crate) fn caretaker(&self, arguments: &[&str]) -> TestProcess {
        let mut command = self.command(env!("CARGO_BIN_EXE_caretaker"));
        TestProcess::start(command.args(arguments))
    }

    /// Files and directories in the directory `name`.
    pub(crate) fn entries(&self, name: &str) -> Vec<String> {
        let entries = self.path(name).read_dir().unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

// === impl UpProcess ===

impl UpProcess {
    /// Starts a server on a free port and waits until it is ready.
    pub(crate) fn start(flags: &[&str]) -> Self {
        let world = TestDirectories::new();
        let arguments = [&["up", "-o", "json", "--listen", "127.0.0.1:0"], flags].concat();
        let mut process = world.caretaker(&arguments);
        let line = serde_json::from_str(&process.line()).unwrap();
        Self {
            process,
            line,
            world,
        }
    }

    pub(crate) fn server(&self) -> &str {
        self.line["server"].as_str().unwrap()
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.line["kubeconfig"].as_str().unwrap().into()
    }

    /// Sends SIGTERM and waits until it exits.
    pub(crate) fn stop(self) -> (ProcessExit, TestDirectories) {
        self.process.signal(Signal::TERM);
        (self.process.end(), self.world)
    }
}
