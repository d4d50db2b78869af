//! The programs under test: ours and the Go program it stands in for, as rows of data.
//!
//! A [`Subject`] says how both know one controller; a benchmark of another controller adds a row. Both programs get the
//! same server, the same ordinary identity (one that Priority and Fairness applies to) and no port of their own, run one
//! controller each without a lease, and are ready when a line of their log says so.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::sampling;
use crate::cargo::{Binary, Running};
use crate::interrupt;
use crate::real::{Home, Identity, Instance, Role, build, tail};

/// Ours as it is shipped.
const CARETAKER: Binary = Binary {
    package: "kube-caretaker",
    name: "caretaker",
    profile: "dist",
};
/// How often the log is looked at: short against the quickest start.
const LOOK: Duration = Duration::from_millis(10);
/// How long a program may take until it says that it is ready; the Go program's own limit is 30 s.
const PATIENCE: Duration = Duration::from_secs(120);
/// What of a log is shown when its program ended early.
const LAST_LINES: usize = 15;
/// The file in a server's directory to which the program under test writes.
const LOG: &str = "under-test.log";

/// Who runs in a leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// `caretaker run`.
    Ours,
    /// kube-controller-manager.
    Peer,
}

/// One controller, as both programs know it.
#[derive(Debug)]
pub(super) struct Subject {
    /// Its name in `--controllers`, the same in both.
    pub(super) controller: &'static str,
    /// The flag, the same in both, that says how many requests may be under way.
    pub(super) workers_flag: &'static str,
    /// What both are told besides.
    pub(super) flags: &'static [&'static str],
    /// By how much the Go program multiplies its `--kube-api-qps` for this controller's client.
    pub(super) peer_qps_factor: f64,
    /// What ours logs when it knows everything.
    pub(super) ours_ready: &'static str,
    /// What the Go program logs then.
    pub(super) peer_ready: &'static str,
    /// Whether there is a Go program that has it.
    pub(super) has_peer: bool,
}

/// The garbage collector.
pub(super) const GARBAGE_COLLECTOR: Subject = Subject {
    controller: "garbage-collector-controller",
    workers_flag: "--concurrent-gc-syncs",
    flags: &[],
    peer_qps_factor: 2.0,
    ours_ready: "the graph is complete",
    peer_ready: "all resource monitors have synced",
    has_peer: true,
};

/// The TTL controller of `batch/v1`. Ours says nothing more when it knows all Jobs: the load is made after the start.
pub(super) const TTL: Subject = Subject {
    controller: "ttl-after-finished-controller",
    workers_flag: "--concurrent-ttl-after-finished-syncs",
    flags: &[],
    peer_qps_factor: 1.0,
    ours_ready: "at work in",
    peer_ready: "Starting TTL after finished controller",
    has_peer: true,
};

/// The TTL controller of Volcano's Jobs.
pub(super) const VOLCANO_TTL: Subject = Subject {
    controller: "gc-controller",
    workers_flag: "--worker-threads-for-gc",
    flags: &[],
    peer_qps_factor: 1.0,
    ours_ready: "at work in",
    peer_ready: "",
    has_peer: false,
};

/// The CronJob controller of `batch/v1`.
pub(super) const CRON: Subject = Subject {
    controller: "cronjob-controller",
    workers_flag: "--concurrent-cron-job-syncs",
    flags: &[],
    peer_qps_factor: 1.0,
    ours_ready: "at work in",
    peer_ready: "Starting cronjob controller v2",
    has_peer: true,
};

/// The CronJob controller of Volcano's.
pub(super) const VOLCANO_CRON: Subject = Subject {
    controller: "cronjob-controller/volcano",
    workers_flag: "--worker-threads-for-cronjob",
    flags: &[],
    peer_qps_factor: 1.0,
    ours_ready: "at work in",
    peer_ready: "",
    has_peer: false,
};

/// How many terminated Pods both Pod GCs keep.
pub(super) const POD_GC_KEEPS: usize = 100;

/// Pod GC. Neither has a flag for its workers.
pub(super) const POD_GC: Subject = Subject {
    controller: "pod-garbage-collector-controller",
    workers_flag: "",
    flags: &["--terminated-pod-gc-threshold=100"],
    peer_qps_factor: 1.0,
    ours_ready: "at work in",
    peer_ready: "Starting GC controller",
    has_peer: true,
};

/// How much a program may ask of the server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Limit {
    /// Its own default.
    Default,
    /// So many requests each second.
    PerSecond(f64),
    /// None but the number of workers.
    None,
}

/// What may differ from a program's defaults.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) limit: Limit,
    /// Requests under way at once; the default where none is given.
    pub(super) workers: Option<u32>,
}

/// Both programs, built.
#[derive(Debug)]
pub(super) struct Programs {
    ours: PathBuf,
    peer: PathBuf,
    /// Ours is not there: the Go program runs on both sides, and every ratio should be one.
    is_rehearsal: bool,
}

/// A program under test, running. It ends with this value.
#[derive(Debug)]
pub(super) struct UnderTest {
    running: Running,
    /// From its start until it said that it is ready.
    pub(super) ready_after: Duration,
}

// === impl Side ===

impl Side {
    /// How tables and files name it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Peer => "Go",
        }
    }
}

// === impl Limit ===

impl Limit {
    /// The burst that goes with a rate: a tenth of a second's worth, so that neither side gets much for free.
    fn burst(rate: f64) -> f64 {
        (rate / 10.0).max(1.0).round()
    }
}

// === impl Programs ===

impl Programs {
    /// Builds what is not built yet. In a rehearsal ours is the Go program too.
    pub(super) fn build(profile: Option<&'static str>, is_rehearsal: bool) -> Result<Self> {
        let peer = build::ensure(&Home::from_env()?)?
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
        side: Side,
        subject: &Subject,
        settings: Settings,
        server: &Instance,
    ) -> Result<UnderTest> {
        let kubeconfig = server.kubeconfig(Identity::Ordinary);
        let (program, args, ready) = match side {
            Side::Ours if !self.is_rehearsal => (
                &self.ours,
                ours_args(subject, settings, &kubeconfig),
                subject.ours_ready,
            ),
            Side::Ours | Side::Peer => (
                &self.peer,
                peer_args(subject, settings, &kubeconfig),
                subject.peer_ready,
            ),
        };
        eprintln!("{}: starts {}", side.word(), args.join(" "));
        let log = server.dir().join(LOG);
        let mut command = Command::new(program);
        UnderTest::start(command.args(args), &log, ready)
    }
}

// === impl UnderTest ===

impl UnderTest {
    fn start(command: &mut Command, log: &Path, ready: &str) -> Result<Self> {
        let output =
            File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let errors = output.try_clone().context("cannot share the log file")?;
        let started = Instant::now();
        let mut running = Running::start(command.stdout(output).stderr(errors))?;
        let last_words = || tail(log, LAST_LINES);
        loop {
            interrupt::check()?;
            let text = fs::read(log).context("cannot read the log of the program under test")?;
            if String::from_utf8_lossy(&text).contains(ready) {
                break;
            }
            if let Some(status) = running.0.try_wait().context("cannot wait for a program")? {
                bail!(
                    "the program under test ended with {status} before it was ready; its last words:\n{}",
                    last_words()
                );
            }
            if started.elapsed() > PATIENCE {
                let secs = PATIENCE.as_secs();
                bail!(
                    "the program under test did not log {ready:?} within {secs} s; its last words:\n{}",
                    last_words()
                );
            }
            thread::sleep(LOOK);
        }
        Ok(Self {
            running,
            ready_after: started.elapsed(),
        })
    }

    /// The processor time it has used so far, in seconds.
    pub(super) fn cpu_secs(&self) -> Result<f64> {
        sampling::cpu_secs(self.running.0.id())
    }

    /// Its resident memory now, in bytes.
    pub(super) fn resident_bytes(&self) -> Result<f64> {
        sampling::resident_bytes(self.running.0.id())
    }

    /// The most it ever had, in bytes.
    pub(super) fn peak_bytes(&self) -> Result<f64> {
        sampling::peak_bytes(self.running.0.id())
    }
}

/// The arguments of `caretaker`.
fn ours_args(subject: &Subject, settings: Settings, kubeconfig: &Path) -> Vec<String> {
    let mut args = vec![
        "run".to_owned(),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--controllers={}", subject.controller),
        "--take-over".to_owned(),
        "--secure-port=0".to_owned(),
    ];
    if let Limit::PerSecond(rate) = settings.limit {
        args.push(format!("--kube-api-qps={rate}"));
        args.push(format!("--kube-api-burst={}", Limit::burst(rate)));
    }
    args.extend(workers(subject, settings));
    args.extend(subject.flags.iter().map(ToString::to_string));
    args
}

/// The arguments of kube-controller-manager.
fn peer_args(subject: &Subject, settings: Settings, kubeconfig: &Path) -> Vec<String> {
    let mut args = vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--controllers={}", subject.controller),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
    ];
    match settings.limit {
        Limit::Default => {}
        Limit::PerSecond(rate) => {
            let qps = rate / subject.peer_qps_factor;
            args.push(format!("--kube-api-qps={qps}"));
            args.push(format!("--kube-api-burst={}", Limit::burst(rate)));
        }
        Limit::None => args.push("--kube-api-qps=-1".to_owned()),
    }
    args.extend(workers(subject, settings));
    args.extend(subject.flags.iter().map(ToString::to_string));
    args
}

fn workers(subject: &Subject, settings: Settings) -> Option<String> {
    let flag = subject.workers_flag;
    settings.workers.map(|workers| format!("{flag}={workers}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_equal_budget_is_half_the_flag_for_a_client_that_doubles_it() {
        let table = [
            (Limit::Default, None, "", ""),
            (
                Limit::PerSecond(400.0),
                None,
                "--kube-api-qps=400 --kube-api-burst=40",
                "--kube-api-qps=200 --kube-api-burst=40",
            ),
            (
                Limit::None,
                Some(100),
                "--concurrent-gc-syncs=100",
                "--kube-api-qps=-1 --concurrent-gc-syncs=100",
            ),
        ];
        let kubeconfig = Path::new("/k");
        for (limit, workers, ours, peer) in table {
            let settings = Settings { limit, workers };
            let all = ours_args(&GARBAGE_COLLECTOR, settings, kubeconfig);
            assert_eq!(all[5..].join(" "), ours, "{settings:?}");
            let all = peer_args(&GARBAGE_COLLECTOR, settings, kubeconfig);
            assert_eq!(all[4..].join(" "), peer, "{settings:?}");
        }
    }

    #[test]
    fn a_program_is_ready_when_its_log_says_so_and_an_early_end_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let shell = |script: &str, ready: &str| {
            UnderTest::start(Command::new("sh").args(["-c", script]), &log, ready)
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
