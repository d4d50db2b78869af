//! Starting, finding and ending processes that outlive the command that started them.
//!
//! A process is identified by pid and start time, because the kernel reuses pids: a process whose start time does not
//! match is never signalled. Signals go through a pidfd taken before that comparison, so the pid cannot be reused in
//! between. Linux only: the start time comes from `/proc`.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::interrupt;

/// Time of a server to end after SIGTERM before it is killed. kube-apiserver needs one to two seconds.
const GRACE: Duration = Duration::from_secs(20);
/// Interval of polling: short against a start of several seconds, long against the cost of a look.
pub(crate) const POLL: Duration = Duration::from_millis(50);
/// Lines of a log that are shown when its program did not become ready.
const FAILURE_LOG_LINES: usize = 15;

/// Identifies one process, also after its pid is reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessId {
    pub pid: u32,
    /// Clock ticks from the boot of the machine to the start of the process.
    pub start_ticks: u64,
}

/// The outcome of waiting for a program. A failure is what follows the program's name in a message.
#[derive(Debug)]
pub(crate) enum StartOutcome {
    Ready,
    Exited(String),
    TimedOut(String),
}

// === impl ProcessId ===

impl ProcessId {
    /// The process that has this pid now, if there is one.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let start_ticks = start_of_living(&stat)?;
        Some(Self { pid, start_ticks })
    }

    /// Returns whether this process still runs. A zombie does not.
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
            "process {} still runs after SIGKILL: look at it with `ps -p {0}`",
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

/// Starts a program in a process group of its own, so that Ctrl-C in this terminal does not reach it.
pub(crate) fn spawn_logged(program: &Path, args: &[String], log: &Path) -> Result<Child> {
    let output = private_file(log)?;
    let errors = output.try_clone().context("cannot share the log file")?;
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))
}

/// Waits until `is_ready` returns true, the process ends, or `patience` is used up. An interrupt is an error.
pub(crate) fn wait_ready(
    child: &mut Child,
    log: &Path,
    patience: Duration,
    interval: Duration,
    mut is_ready: impl FnMut() -> bool,
) -> Result<StartOutcome> {
    let deadline = Instant::now() + patience;
    let log_end = || format!("its log ends with:\n{}", tail(log, FAILURE_LOG_LINES));
    loop {
        interrupt::check()?;
        if let Some(status) = child
            .try_wait()
            .context("cannot wait for a process just started")?
        {
            let why = format!("ended with {status} before it was ready; {}", log_end());
            return Ok(StartOutcome::Exited(why));
        }
        if is_ready() {
            return Ok(StartOutcome::Ready);
        }
        if Instant::now() >= deadline {
            let secs = patience.as_secs();
            let why = format!("was not ready after {secs} s; {}", log_end());
            return Ok(StartOutcome::TimedOut(why));
        }
        thread::sleep(interval);
    }
}

/// Makes an empty file that only this user may read.
pub(super) fn private_file(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    let options = options.create(true).write(true).truncate(true).mode(0o600);
    let file = options.open(path);
    file.with_context(|| format!("cannot write {}", path.display()))
}

/// Returns whether a log contains a text; false without a log.
pub(crate) fn log_contains(log: &Path, text: &str) -> bool {
    fs::read(log).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(text))
}

/// The living processes of the given programs with a path in `dir` among their flags.
pub(super) fn using(dir: &Path, programs: &[&str]) -> Result<Vec<ProcessId>> {
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
pub(super) fn tail(log: &Path, lines: usize) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
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
    use super::super::test_programs::mk_program;
    use super::*;

    #[test]
    fn the_start_time_is_read_after_any_program_name() {
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
        let own = ProcessId::of(std::process::id()).unwrap();
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
            "it is a zombie until its parent waits for it"
        );
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn a_process_is_found_by_its_program_and_directory() {
        let dir = tempfile::tempdir().unwrap();
        let mut child = mk_program("sh", dir.path());
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
    fn waiting_ends_with_readiness_an_exit_or_a_timeout() {
        let mut ended = Command::new("false").spawn().unwrap();
        let log = tempfile::NamedTempFile::new().unwrap();
        fs::write(log.path(), "last words\n").unwrap();
        let wait = |child: &mut Child, patience, is_ready: bool| {
            let patience = Duration::from_secs(patience);
            wait_ready(child, log.path(), patience, POLL, || is_ready).unwrap()
        };
        let outcome = wait(&mut ended, 60, false);
        assert!(matches!(outcome, StartOutcome::Exited(why) if why.ends_with("last words")));

        let mut running = Command::new("sleep").arg("600").spawn().unwrap();
        let ready = wait(&mut running, 60, true);
        let impatient = wait(&mut running, 0, false);
        running.kill().unwrap();
        running.wait().unwrap();
        assert!(matches!(ready, StartOutcome::Ready));
        assert!(matches!(impatient, StartOutcome::TimedOut(_)));
    }
}
