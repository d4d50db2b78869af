//! Processes that outlive the command that started them: starting, recognising and ending them.
//!
//! A process is remembered as pid plus start time, because the kernel hands pids out again: nothing is ever signalled
//! whose start time does not match. Signals go through a pidfd taken before that comparison, so no pid can change hands
//! in between. Linux only: the start time comes from `/proc`.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::interrupt;

/// How long a server may take to end by itself before it is killed. kube-apiserver needs one to two seconds.
const GRACE: Duration = Duration::from_secs(20);
/// How often a wait looks again: short against a start of several seconds, long against the cost of looking.
pub(crate) const POLL: Duration = Duration::from_millis(50);

/// One process, past any reuse of its pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// The number the kernel gave it.
    pub pid: u32,
    /// When it was started, in clock ticks since the machine was booted.
    pub start_ticks: u64,
}

/// What to start and where its output goes.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) log: PathBuf,
}

/// How waiting for a server ended, when it was not interrupted.
#[derive(Debug)]
pub(crate) enum Outcome {
    Ready,
    Exited(ExitStatus),
    TimedOut,
}

// === impl ProcessId ===

impl ProcessId {
    /// The process that has this pid now, if there is one.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let start_ticks = start_of_living(&stat)?;
        Some(Self { pid, start_ticks })
    }

    /// This process itself.
    pub(crate) fn own() -> Result<Self> {
        Self::of(std::process::id())
            .context("cannot read /proc/self/stat: the oracle runs on Linux only")
    }

    /// Whether exactly this process still runs. A zombie does not.
    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Asks the process to end, waits, and kills it when it does not. Returns at once when it is gone already.
    pub(crate) fn stop(self) -> Result<()> {
        for (signal, patience) in [(Signal::TERM, GRACE), (Signal::KILL, GRACE)] {
            self.signal(signal)?;
            let deadline = Instant::now() + patience;
            while Instant::now() < deadline {
                if !self.is_alive() {
                    return Ok(());
                }
                thread::sleep(POLL);
            }
        }
        bail!(
            "process {} is still there after SIGKILL: look at it with `ps -p {0}`",
            self.pid
        )
    }

    fn signal(self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.pid)
            .ok()
            .and_then(Pid::from_raw)
            .context("a pid that no process can have")?;
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else {
            return Ok(());
        };
        if !self.is_alive() {
            return Ok(());
        }
        match pidfd_send_signal(&pidfd, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => bail!("cannot signal process {}: {error}", self.pid),
        }
    }
}

// === impl Launch ===

impl Launch {
    /// Starts the program in a process group of its own, so that Ctrl-C in this terminal does not reach it.
    pub(crate) fn spawn(&self) -> Result<Child> {
        let log = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .mode(0o600)
            .open(&self.log)
            .with_context(|| format!("cannot write {}", self.log.display()))?;
        let errors = log.try_clone().context("cannot share the log file")?;
        Command::new(&self.program)
            .args(&self.args)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))
    }
}

/// Waits until `is_ready` says so, the process ends, or `patience` is used up. An interrupt is an error.
pub(crate) fn wait_ready(
    child: &mut Child,
    patience: Duration,
    mut is_ready: impl FnMut() -> bool,
) -> Result<Outcome> {
    let deadline = Instant::now() + patience;
    loop {
        interrupt::check()?;
        if let Some(status) = child
            .try_wait()
            .context("cannot wait for a process just started")?
        {
            return Ok(Outcome::Exited(status));
        }
        if is_ready() {
            return Ok(Outcome::Ready);
        }
        if Instant::now() >= deadline {
            return Ok(Outcome::TimedOut);
        }
        thread::sleep(POLL);
    }
}

/// The living processes of the given programs that were told to work in a directory.
pub(crate) fn using(dir: &Path, programs: &[&str]) -> Result<Vec<ProcessId>> {
    let entries =
        fs::read_dir("/proc").context("cannot read /proc: the oracle runs on Linux only")?;
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let in_dir = format!("={}/", dir.display());
    Ok(pids
        .filter_map(|pid| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let words = String::from_utf8_lossy(&words);
            let program = Path::new(words.split('\0').next()?)
                .file_name()?
                .to_str()?
                .to_owned();
            let is_meant = programs.contains(&program.as_str()) && words.contains(&in_dir);
            is_meant.then(|| ProcessId::of(pid)).flatten()
        })
        .collect())
}

/// The last `lines` lines of a log, or nothing when there is no log.
pub(crate) fn tail(log: &Path, lines: usize) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// Names this boot of the machine; start times of different boots must not be compared.
pub(crate) fn boot_id() -> Result<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .context("cannot read the boot id in /proc: the oracle runs on Linux only")?;
    Ok(id.trim().to_owned())
}

/// Field 22 of `/proc/<pid>/stat`, unless the process has ended and only waits to be reaped. The second field, the
/// program's name, may itself hold blanks and parentheses, so counting starts behind the last `)`.
fn start_of_living(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace();
    let state = fields.next()?;
    // Field 3 is the state just taken, so field 22 is 18 further on.
    let start = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X" | "x")).then_some(start)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn the_start_time_is_found_whatever_the_program_is_called() {
        let rest = "1 1 1 0 -1 4194304 101 0 0 0 0 0 0 0 20 0 1 0 80290 3133440 380";
        let table = [
            (format!("7 (cat) R {rest}"), Some(80290)),
            (format!("7 (a b) S) S {rest}"), Some(80290)),
            (format!("7 (cat) Z {rest}"), None),
            (format!("7 (cat) X {rest}"), None),
            ("7 (cat) S 1 2 3".to_owned(), None),
            (String::new(), None),
        ];
        for (stat, start) in table {
            assert_eq!(start_of_living(&stat), start, "{stat:?}");
        }
    }

    #[test]
    fn a_pid_with_another_start_time_is_another_process() {
        let own = ProcessId::own().unwrap();
        assert!(own.is_alive());
        let earlier = ProcessId {
            start_ticks: own.start_ticks - 1,
            ..own
        };
        assert!(!earlier.is_alive());
        // Would end this test if the start time were not compared.
        earlier.stop().unwrap();
    }

    #[test]
    fn a_process_is_stopped_and_a_zombie_counts_as_gone() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let id = ProcessId::of(child.id()).unwrap();
        assert!(id.is_alive());
        id.stop().unwrap();
        assert!(
            !id.is_alive(),
            "nobody has waited for it yet, so it is a zombie"
        );
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn a_process_is_found_by_its_program_and_the_directory_it_works_in() {
        let dir = tempfile::tempdir().unwrap();
        let flag = format!("--data-dir={}/data", dir.path().display());
        let shell = ["-c", "echo started; read line", "sh", &flag];
        let mut child = Command::new("sh")
            .args(shell)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // `spawn` returns while the kernel still builds the new program's
        // command line; once the shell has spoken it is there to be read.
        let mut said = [0; "started".len()];
        child.stdout.take().unwrap().read_exact(&mut said).unwrap();
        let found = using(dir.path(), &["sh"]).unwrap();
        let others = using(dir.path(), &["etcd"]).unwrap();
        let elsewhere = using(&dir.path().join("dat"), &["sh"]).unwrap();
        let id = ProcessId::of(child.id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, [id]);
        assert_eq!([others, elsewhere], [[], []]);
    }

    #[test]
    fn waiting_tells_an_early_end_from_readiness_and_from_impatience() {
        let mut ended = Command::new("false").spawn().unwrap();
        let outcome = wait_ready(&mut ended, Duration::from_secs(60), || false).unwrap();
        assert!(matches!(outcome, Outcome::Exited(status) if !status.success()));

        let mut running = Command::new("sleep").arg("600").spawn().unwrap();
        let ready = wait_ready(&mut running, Duration::from_secs(60), || true).unwrap();
        let impatient = wait_ready(&mut running, Duration::ZERO, || false).unwrap();
        running.kill().unwrap();
        running.wait().unwrap();
        assert!(matches!(ready, Outcome::Ready));
        assert!(matches!(impatient, Outcome::TimedOut));
    }
}
