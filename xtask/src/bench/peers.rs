//! The programs under test: ours and the Go program it stands in for, as rows of data.
//!
//! A [`BenchSubject`] holds the name and the flags of one controller in both programs; a benchmark of another controller
//! adds a row. Both programs get the same server, the same ordinary identity (Priority and Fairness applies to it) and no
//! port, run one controller without a lease, and are ready when their log contains a given line.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::sampling;
use crate::cargo::{Binary, Running};
use crate::interrupt;
use crate::real::{Identity, Instance, OracleHome, Role, build, tail};

/// Ours with the profile that is shipped.
const CARETAKER: Binary = Binary {
    package: "kube-caretaker",
    name: "caretaker",
    profile: "dist",
};
/// Interval of looks at the log: short against the quickest start.
const LOOK: Duration = Duration::from_millis(10);
/// Time of a program to become ready; the Go program's own limit is 30 s.
const PATIENCE: Duration = Duration::from_secs(120);
/// Lines of a log that are shown when its program ended early.
const LAST_LINES: usize = 15;
/// The log of the program under test, in the server's directory.
const LOG: &str = "under-test.log";

/// The side that runs in a leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BenchSide {
    /// Our controllers, `caretaker run`.
    Ours,
    /// The Go controllers of kube-controller-manager.
    Peer,
}

/// The name and the flags of one controller in both programs.
#[derive(Debug)]
pub(super) struct BenchSubject {
    /// Its name in `--controllers`, the same in both programs.
    pub(super) controller: &'static str,
    /// The flag for the number of workers, the same in both programs.
    pub(super) workers_flag: &'static str,
    /// Further flags of both programs.
    pub(super) flags: &'static [&'static str],
    /// By how much the Go program multiplies its `--kube-api-qps` for this controller's client.
    pub(super) peer_qps_factor: f64,
    /// A part of the line that ours logs when it is ready.
    pub(super) ours_ready: &'static str,
    /// A part of the line that the Go program logs when it is ready.
    pub(super) peer_ready: &'static str,
    /// False for Volcano's controllers, whose Go program is not built here.
    pub(super) has_peer: bool,
}

pub(super) const GARBAGE_COLLECTOR: BenchSubject = BenchSubject {
    controller: "garbage-collector-controller",
    workers_flag: "--concurrent-gc-syncs",
    flags: &[],
    peer_qps_factor: 2.0,
    ours_ready: "the graph is complete",
    peer_ready: "all resource monitors have synced",
    has_peer: true,
};

/// The TTL controller of `batch/v1`. Ours logs no line when it has listed the Jobs; the load is made after the start.
pub(super) const TTL: BenchSubject = BenchSubject {
    controller: "ttl-after-finished-controller",
    workers_flag: "--concurrent-ttl-after-finished-syncs",
    flags: &[],
    peer_qps_factor: 1.0,
    ours_ready: "running against",
    peer_ready: "Starting TTL after finished controller",
    has_peer: true,
};

/// The TTL controller of Volcano's Jobs.
pub(super) const VOLCANO_TTL: BenchSubject = BenchSubject {
    controller: "gc-controller",
    workers_flag: "--worker-threads-for-gc",
    flags: &[],
    peer_qps_factor: 1.0,
    ours_ready: "running against",
    peer_ready: "",
    has_peer: false,
};

/// The CronJob controller of `batch/v1`.
pub(super) const CRON: BenchSubject = BenchSubject {
    controller: "cronjob-controller",
    workers_flag: "--concurrent-cron-job-syncs",
    flags: &[],
    peer_qps_factor: 1.0,
    ours_ready: "running against",
    peer_ready: "Starting cronjob controller v2",
    has_peer: true,
};

/// The controller of Volcano's CronJobs.
pub(super) const VOLCANO_CRON: BenchSubject = BenchSubject {
    controller: "cronjob-controller/volcano",
    workers_flag: "--worker-threads-for-cronjob",
    flags: &[],
    peer_qps_factor: 1.0,
    ours_ready: "running against",
    peer_ready: "",
    has_peer: false,
};

/// Terminated Pods that both programs keep; the value of the flag below.
pub(super) const POD_GC_KEEPS: usize = 100;

/// Pod GC. Neither has a flag for its workers.
pub(super) const POD_GC: BenchSubject = BenchSubject {
    controller: "pod-garbage-collector-controller",
    workers_flag: "",
    flags: &["--terminated-pod-gc-threshold=100"],
    peer_qps_factor: 1.0,
    ours_ready: "running against",
    peer_ready: "Starting GC controller",
    has_peer: true,
};

/// The limit of a program's request rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RequestLimit {
    /// The program's own default.
    Default,
    /// Requests per second.
    PerSecond(f64),
    /// Only the number of workers limits.
    None,
}

/// Settings that may differ from a program's defaults.
#[derive(Clone, Copy, Debug)]
pub(super) struct SubjectSettings {
    pub(super) limit: RequestLimit,
    /// Requests in flight; the program's default where none is given.
    pub(super) workers: Option<u32>,
}

/// The built programs of both sides.
#[derive(Debug)]
pub(super) struct BenchPrograms {
    ours: PathBuf,
    peer: PathBuf,
    /// The Go program runs on both sides, and every ratio should be one.
    is_rehearsal: bool,
}

/// A running program under test. Dropping it ends the program.
#[derive(Debug)]
pub(super) struct ProgramUnderTest {
    running: Running,
    /// The time from its start until it was ready.
    pub(super) ready_after: Duration,
}

// === impl BenchSide ===

impl BenchSide {
    /// The side's word in tables and files.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Peer => "Go",
        }
    }
}

// === impl RequestLimit ===

impl RequestLimit {
    /// The burst for a rate: the requests of a tenth of a second, so that neither side gains much from it.
    fn burst(rate: f64) -> f64 {
        (rate / 10.0).max(1.0).round()
    }
}

// === impl BenchPrograms ===

impl BenchPrograms {
    /// Builds the missing programs. In a rehearsal ours is the Go program too.
    pub(super) fn build(profile: Option<&'static str>, is_rehearsal: bool) -> Result<Self> {
        let peer = build::ensure(&OracleHome::from_env()?)?
            .programs
            .path(Role::ControllerManager);
        let ours = if is_rehearsal {
            peer.clone()
        } else {
            let profile = profile.unwrap_or(CARETAKER.profile);
            Binary {
                profile,
                ..CARETAKER
            }
            .build()?
        };
        Ok(Self {
            ours,
            peer,
            is_rehearsal,
        })
    }

    /// Starts one side's program on a server and waits until it is ready.
    pub(super) fn start(
        &self,
        side: BenchSide,
        subject: &BenchSubject,
        settings: SubjectSettings,
        server: &Instance,
    ) -> Result<ProgramUnderTest> {
        let kubeconfig = server.kubeconfig(Identity::Ordinary);
        let (program, ready, args_of) = match side {
            BenchSide::Ours if !self.is_rehearsal => (&self.ours, subject.ours_ready, side),
            BenchSide::Ours | BenchSide::Peer => (&self.peer, subject.peer_ready, BenchSide::Peer),
        };
        let args = args(args_of, subject, settings, &kubeconfig);
        eprintln!("{}: starts {}", side.word(), args.join(" "));
        let log = server.dir().join(LOG);
        let mut command = Command::new(program);
        ProgramUnderTest::start(command.args(args), &log, ready)
    }
}

// === impl ProgramUnderTest ===

impl ProgramUnderTest {
    fn start(command: &mut Command, log: &Path, ready: &str) -> Result<Self> {
        let output =
            File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let errors = output.try_clone().context("cannot share the log file")?;
        let started = Instant::now();
        let mut running = Running::start(command.stdout(output).stderr(errors))?;
        let last_lines = || tail(log, LAST_LINES);
        loop {
            interrupt::check()?;
            let text = fs::read(log).context("cannot read the log of the program under test")?;
            if String::from_utf8_lossy(&text).contains(ready) {
                break;
            }
            if let Some(status) = running.0.try_wait().context("cannot wait for a program")? {
                bail!(
                    "the program under test ended with {status} before it was ready; its log ends with:\n{}",
                    last_lines()
                );
            }
            if started.elapsed() > PATIENCE {
                let secs = PATIENCE.as_secs();
                bail!(
                    "the program under test did not log {ready:?} within {secs} s; its log ends with:\n{}",
                    last_lines()
                );
            }
            thread::sleep(LOOK);
        }
        Ok(Self {
            running,
            ready_after: started.elapsed(),
        })
    }

    /// The processor time used so far, in seconds.
    pub(super) fn cpu_secs(&self) -> Result<f64> {
        sampling::cpu_secs(self.running.0.id())
    }

    /// Its resident memory now, in bytes.
    pub(super) fn resident_bytes(&self) -> Result<f64> {
        sampling::resident_bytes(self.running.0.id())
    }

    /// Its largest resident memory so far, in bytes.
    pub(super) fn peak_bytes(&self) -> Result<f64> {
        sampling::peak_bytes(self.running.0.id())
    }
}

/// The arguments of `caretaker` or of kube-controller-manager.
fn args(
    side: BenchSide,
    subject: &BenchSubject,
    settings: SubjectSettings,
    kubeconfig: &Path,
) -> Vec<String> {
    let (first, qps_factor): (&[&str], f64) = match side {
        BenchSide::Ours => (&["run", "--take-over"], 1.0),
        BenchSide::Peer => (&["--leader-elect=false"], subject.peer_qps_factor),
    };
    let mut args: Vec<String> = first.iter().map(ToString::to_string).collect();
    args.push(format!("--kubeconfig={}", kubeconfig.display()));
    args.push(format!("--controllers={}", subject.controller));
    args.push("--secure-port=0".to_owned());
    match settings.limit {
        RequestLimit::PerSecond(rate) => {
            args.push(format!("--kube-api-qps={}", rate / qps_factor));
            args.push(format!("--kube-api-burst={}", RequestLimit::burst(rate)));
        }
        // Ours has no limit by default.
        RequestLimit::None if side == BenchSide::Peer => args.push("--kube-api-qps=-1".to_owned()),
        RequestLimit::None | RequestLimit::Default => {}
    }
    let flag = subject.workers_flag;
    args.extend(settings.workers.map(|workers| format!("{flag}={workers}")));
    args.extend(subject.flags.iter().map(ToString::to_string));
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_equal_budget_is_half_the_flag_for_a_client_that_doubles_it() {
        let table = [
            (RequestLimit::Default, None, "", ""),
            (
                RequestLimit::PerSecond(400.0),
                None,
                "--kube-api-qps=400 --kube-api-burst=40",
                "--kube-api-qps=200 --kube-api-burst=40",
            ),
            (
                RequestLimit::None,
                Some(100),
                "--concurrent-gc-syncs=100",
                "--kube-api-qps=-1 --concurrent-gc-syncs=100",
            ),
        ];
        let kubeconfig = Path::new("/k");
        for (limit, workers, ours, peer) in table {
            let settings = SubjectSettings { limit, workers };
            let all = args(BenchSide::Ours, &GARBAGE_COLLECTOR, settings, kubeconfig);
            assert_eq!(all[5..].join(" "), ours, "{settings:?}");
            let all = args(BenchSide::Peer, &GARBAGE_COLLECTOR, settings, kubeconfig);
            assert_eq!(all[4..].join(" "), peer, "{settings:?}");
        }
    }

    #[test]
    fn readiness_is_read_from_the_log_and_an_early_end_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let shell = |script: &str, ready: &str| {
            ProgramUnderTest::start(Command::new("sh").args(["-c", script]), &log, ready)
        };
        let ready = shell("echo hello; echo ready >&2; sleep 600", "ready").unwrap();
        assert!(ready.resident_bytes().unwrap() > 0.0);
        assert!(ready.peak_bytes().unwrap() >= ready.resident_bytes().unwrap());
        drop(ready);
        let error = shell("echo no such command; exit 3", "ready").unwrap_err();
        let error = error.to_string();
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(error.ends_with("no such command"), "{error}");
    }
}
