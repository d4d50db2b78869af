//! The programs under test: ours and the Go program it stands in for, as rows of data.
//!
//! A [`BenchSubject`] holds the name and the flags of one controller in both programs; a benchmark of another controller
//! adds a row. Both programs get the same server, the same ordinary identity (Priority and Fairness applies to it) and no
//! port, run one controller without a lease, and are ready when their log contains a given line.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::cases::{BenchTopic, LimitMode};
use super::driver::LoadDriver;
use super::run::BenchRun;
use crate::cargo::{Binary, Running};
use crate::real::{
    Identity, Instance, OracleHome, Role, StartOutcome, build, log_contains, spawn_logged,
    wait_ready,
};

/// Interval of looks at the log: short against the quickest start.
const LOOK: Duration = Duration::from_millis(10);
/// Time of a program to become ready; the Go program's own limit is 30 s.
const PATIENCE: Duration = Duration::from_secs(120);
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
    /// The benchmark that measures it.
    pub(super) topic: BenchTopic,
    /// Its name in `--controllers`, the same in both programs.
    controller: &'static str,
    /// The flag for the number of workers, the same in both programs.
    workers_flag: &'static str,
    /// Further flags of both programs.
    flags: &'static [&'static str],
    /// By how much the Go program multiplies its `--kube-api-qps` for this controller's client.
    peer_qps_factor: f64,
    /// A part of the line that ours logs when it is ready.
    ours_ready: &'static str,
    /// A part of the line that the Go program logs when it is ready; nothing for Volcano's controllers, whose Go program
    /// is not built here.
    pub(super) peer_ready: Option<&'static str>,
}

/// A controller of ours that logs no line when it has listed its objects. The load is made after the start.
const ROW: BenchSubject = BenchSubject {
    topic: BenchTopic::Gc,
    controller: "",
    workers_flag: "",
    flags: &[],
    peer_qps_factor: 1.0,
    ours_ready: "running against",
    peer_ready: None,
};

pub(super) static GARBAGE_COLLECTOR: BenchSubject = BenchSubject {
    controller: "garbage-collector-controller",
    workers_flag: "--concurrent-gc-syncs",
    peer_qps_factor: 2.0,
    ours_ready: "the graph is complete",
    peer_ready: Some("all resource monitors have synced"),
    ..ROW
};

/// The TTL controller of `batch/v1`.
pub(super) static TTL: BenchSubject = BenchSubject {
    topic: BenchTopic::Ttl,
    controller: "ttl-after-finished-controller",
    workers_flag: "--concurrent-ttl-after-finished-syncs",
    peer_ready: Some("Starting TTL after finished controller"),
    ..ROW
};

/// The TTL controller of Volcano's Jobs.
pub(super) static VOLCANO_TTL: BenchSubject = BenchSubject {
    topic: BenchTopic::Ttl,
    controller: "gc-controller",
    workers_flag: "--worker-threads-for-gc",
    ..ROW
};

/// The CronJob controller of `batch/v1`.
pub(super) static CRON: BenchSubject = BenchSubject {
    topic: BenchTopic::Cron,
    controller: "cronjob-controller",
    workers_flag: "--concurrent-cron-job-syncs",
    peer_ready: Some("Starting cronjob controller v2"),
    ..ROW
};

/// The controller of Volcano's CronJobs.
pub(super) static VOLCANO_CRON: BenchSubject = BenchSubject {
    topic: BenchTopic::Cron,
    controller: "cronjob-controller/volcano",
    workers_flag: "--worker-threads-for-cronjob",
    ..ROW
};

/// Terminated Pods that both programs keep; the value of the flag below.
pub(super) const POD_GC_KEEPS: usize = 100;

/// Pod GC. Neither program has a flag for its workers.
pub(super) static POD_GC: BenchSubject = BenchSubject {
    topic: BenchTopic::PodGc,
    controller: "pod-garbage-collector-controller",
    flags: &["--terminated-pod-gc-threshold=100"],
    peer_ready: Some("Starting GC controller"),
    ..ROW
};

/// Settings that may differ from a program's defaults.
#[derive(Clone, Copy, Debug)]
pub(super) struct SubjectSettings {
    pub(super) mode: LimitMode,
    /// Requests per second where the budget is equal.
    pub(super) budget: u32,
    /// Requests in flight; the program's default where none is given.
    pub(super) workers: Option<u32>,
}

/// The built programs of both sides, and the driver of the load.
#[derive(Debug)]
pub(super) struct BenchPrograms {
    /// Nothing in a rehearsal: the Go program runs on both sides, and every ratio should be one.
    ours: Option<PathBuf>,
    peer: PathBuf,
    pub(super) driver: LoadDriver,
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

// === impl BenchPrograms ===

impl BenchPrograms {
    /// Builds the missing programs, ours with the profile that is shipped.
    pub(super) fn build(run: &BenchRun) -> Result<Self> {
        let driver = LoadDriver::build(run.quick)?;
        let real = build::ensure(&OracleHome::from_env()?)?;
        let profile = if run.quick { "dev" } else { "dist" };
        let ours = (!run.ours_is_peer).then(|| Binary::caretaker(profile).build());
        Ok(Self {
            ours: ours.transpose()?,
            peer: real.path(Role::ControllerManager),
            driver,
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
        let (program, ready, args_of) = match (side, &self.ours) {
            (BenchSide::Ours, Some(ours)) => (ours, Some(subject.ours_ready), BenchSide::Ours),
            _ => (&self.peer, subject.peer_ready, BenchSide::Peer),
        };
        let ready = ready.context("this controller has no Go program here")?;
        let args = args(args_of, subject, settings, &kubeconfig);
        eprintln!("{}: starts {}", side.word(), args.join(" "));
        ProgramUnderTest::start(program, &args, &server.dir().join(LOG), ready)
    }
}

// === impl ProgramUnderTest ===

impl ProgramUnderTest {
    fn start(program: &Path, args: &[String], log: &Path, ready: &str) -> Result<Self> {
        let started = Instant::now();
        let mut running = Running(spawn_logged(program, args, log)?);
        let is_ready = || log_contains(log, ready);
        match wait_ready(&mut running.0, log, PATIENCE, LOOK, is_ready)? {
            StartOutcome::Ready => Ok(Self {
                running,
                ready_after: started.elapsed(),
            }),
            StartOutcome::Exited(why) | StartOutcome::TimedOut(why) => {
                bail!("the program under test {why}")
            }
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.running.0.id()
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
        BenchSide::Ours => (&["run", "--take-over", "--leader-elect=false"], 1.0),
        BenchSide::Peer => (&["--leader-elect=false"], subject.peer_qps_factor),
    };
    let mut args: Vec<String> = first.iter().map(ToString::to_string).collect();
    args.push(format!("--kubeconfig={}", kubeconfig.display()));
    args.push(format!("--controllers={}", subject.controller));
    args.push("--secure-port=0".to_owned());
    match settings.mode {
        LimitMode::Equal => {
            let rate = f64::from(settings.budget);
            args.push(format!("--kube-api-qps={}", rate / qps_factor));
            // The requests of a tenth of a second, so that neither side gains much from it.
            let burst = (rate / 10.0).max(1.0).round();
            args.push(format!("--kube-api-burst={burst}"));
        }
        // Ours has no limit by default.
        LimitMode::Unlimited if side == BenchSide::Peer => {
            args.push("--kube-api-qps=-1".to_owned());
        }
        LimitMode::Unlimited | LimitMode::Defaults => {}
    }
    let flag = subject.workers_flag;
    args.extend(settings.workers.map(|workers| format!("{flag}={workers}")));
    args.extend(subject.flags.iter().map(ToString::to_string));
    args
}

#[cfg(test)]
mod tests {
    use super::super::sampling::{peak_bytes, resident_bytes};
    use super::*;

    #[test]
    fn an_equal_budget_is_half_the_flag_for_a_client_that_doubles_it() {
        let table = [
            (LimitMode::Defaults, None, "", ""),
            (
                LimitMode::Equal,
                None,
                "--kube-api-qps=400 --kube-api-burst=40",
                "--kube-api-qps=200 --kube-api-burst=40",
            ),
            (
                LimitMode::Unlimited,
                Some(100),
                "--concurrent-gc-syncs=100",
                "--kube-api-qps=-1 --concurrent-gc-syncs=100",
            ),
        ];
        let kubeconfig = Path::new("/k");
        for (mode, workers, ours, peer) in table {
            let settings = SubjectSettings {
                mode,
                budget: 400,
                workers,
            };
            let all = args(BenchSide::Ours, &GARBAGE_COLLECTOR, settings, kubeconfig);
            assert_eq!(all[6..].join(" "), ours, "{settings:?}");
            let all = args(BenchSide::Peer, &GARBAGE_COLLECTOR, settings, kubeconfig);
            assert_eq!(all[4..].join(" "), peer, "{settings:?}");
        }
    }

    #[test]
    fn readiness_is_read_from_the_log_and_an_early_end_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let shell = |script: &str, ready: &str| {
            let args = ["-c".to_owned(), script.to_owned()];
            ProgramUnderTest::start(Path::new("sh"), &args, &log, ready)
        };
        let ready = shell("echo hello; echo ready >&2; sleep 600", "ready").unwrap();
        let resident = resident_bytes(ready.pid()).unwrap();
        assert!(resident > 0.0);
        assert!(peak_bytes(ready.pid()).unwrap() >= resident);
        drop(ready);
        let error = shell("echo no such command; exit 3", "ready").unwrap_err();
        let error = error.to_string();
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(error.ends_with("no such command"), "{error}");
    }
}
