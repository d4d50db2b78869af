//! A suite of controller cases on a fresh real server, with our controllers or with the Go ones.
//!
//! `suites` starts and kills the controllers itself, because some cases start them after they have created their objects;
//! this module gives it the server and the command line. With `--peer`, a case that names a deviation of ours may fail. A
//! suite is a row that names its controllers; the garbage collector is always among them.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::{kept_file, run_lines, suite_command, suites};
use crate::cargo::Binary;
use crate::real::{Identity, Instance, Options};

/// The garbage collector's.
pub const GC: ConformanceSuite = ConformanceSuite {
    name: "gc",
    ours: "garbage-collector-controller",
    peers: "garbage-collector-controller",
    flags: &[],
    peer_lacks: None,
};

/// Pod GC's, with the threshold that its cases expect.
pub const POD_GC: ConformanceSuite = ConformanceSuite {
    name: "podgc",
    ours: "garbage-collector-controller,pod-garbage-collector-controller",
    peers: "garbage-collector-controller,pod-garbage-collector-controller",
    flags: &["--terminated-pod-gc-threshold=30"],
    ..GC
};

/// The CronJob controllers'. There is no Go program here that has Volcano's.
pub const CRON: ConformanceSuite = ConformanceSuite {
    name: "cron",
    ours: "garbage-collector-controller,cronjob-controller,ttl-after-finished-controller,gc-controller",
    peers: "garbage-collector-controller,cronjob-controller,ttl-after-finished-controller",
    peer_lacks: Some("VolcanoCron"),
    ..GC
};

/// The TTL controllers'. There is no Go program here that has Volcano's.
pub const TTL: ConformanceSuite = ConformanceSuite {
    name: "ttl",
    ours: "garbage-collector-controller,ttl-after-finished-controller,gc-controller",
    peers: "garbage-collector-controller,ttl-after-finished-controller",
    peer_lacks: Some("VolcanoTtl"),
    ..GC
};

/// The simulated workloads'; their actors run in `suites`.
pub const WORKLOADS: ConformanceSuite = ConformanceSuite {
    name: "workloads",
    ..TTL
};

/// The variable that names a caretaker which is built already.
const CARETAKER_BIN: &str = "CARETAKER_BIN";

/// A suite and its controllers.
#[derive(Debug, Clone, Copy)]
pub struct ConformanceSuite {
    /// The subcommand of `suites`.
    name: &'static str,
    /// Our controllers, as `--controllers` spells them.
    ours: &'static str,
    /// Those of kube-controller-manager.
    peers: &'static str,
    /// Further flags of both.
    flags: &'static [&'static str],
    /// The need of cases that the Go controllers do not meet.
    peer_lacks: Option<&'static str>,
}

/// A run of a suite.
#[derive(Debug, clap::Args)]
pub struct SuiteRequest {
    /// Only cases whose name contains this, or whose path does if this has `::` (`api::watch::NAME`)
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// With the controllers of kube-controller-manager instead of ours
    #[arg(long)]
    peer: bool,
    /// One more flag for kube-apiserver, as in --apiserver-flag=--watch-cache=false; may be repeated
    #[arg(
        long = "apiserver-flag",
        value_name = "FLAG",
        allow_hyphen_values = true
    )]
    apiserver_flags: Vec<String>,
}

/// Whose controllers they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// Those of `caretaker run`.
    Ours,
    /// Those of kube-controller-manager.
    Peer,
}

/// The outcomes of a suite.
#[derive(Debug)]
pub struct SuiteReport {
    cases: Vec<CaseLine>,
    controllers: Whose,
    took: Duration,
    log: PathBuf,
}

/// One line of `suites`: the outcome of a case.
#[derive(Debug, Deserialize)]
struct CaseLine {
    name: String,
    deviation: Option<String>,
    secs: f64,
    failed: Option<String>,
    skipped: Option<String>,
}

enum CaseVerdict<'a> {
    Passed,
    Allowed(&'a str),
    Failed(&'a str),
    Skipped(&'a str),
}

/// Runs a suite on a fresh real server.
pub fn run_suite(suite: ConformanceSuite, request: &SuiteRequest) -> Result<SuiteReport> {
    let (suites, controllers) = (suites()?, Whose::of(request.peer));
    let caretaker = controllers.build()?;
    let log = suite.log(controllers)?;
    let options = Options {
        apiserver_flags: request.apiserver_flags.clone(),
        ..Options::default()
    };
    let name = format!("conformance-{}", suite.name);
    let ran = Instance::run(&name, &options, |instance| {
        let line = suite.command_line(caretaker.as_deref(), instance)?;
        eprintln!("running with {}; this takes minutes", line[0]);
        let mut command = suite_command(&suites, suite.name, instance);
        command.arg("--log").arg(&log);
        if let Some(only) = &request.only {
            command.args(["--only", only]);
        }
        if let (Whose::Peer, Some(need)) = (controllers, suite.peer_lacks) {
            command.args(["--lacks", need]);
        }
        command.arg("--").args(line);
        run_lines(&mut command, &instance.dir().join("cases.jsonl"), "cases")
    });
    let (cases, took) = ran.with_context(|| format!("the controllers' log: {}", log.display()))?;
    Ok(SuiteReport {
        cases,
        controllers,
        took,
        log,
    })
}

// === impl Whose ===

impl Whose {
    pub(super) fn of(is_peer: bool) -> Self {
        if is_peer { Self::Peer } else { Self::Ours }
    }

    /// Builds a caretaker that has the command it takes; nothing for the Go controllers.
    pub(super) fn build(self) -> Result<Option<PathBuf>> {
        if self == Self::Peer {
            return Ok(None);
        }
        let program = match std::env::var_os(CARETAKER_BIN) {
            Some(path) => PathBuf::from(path),
            None => Binary::caretaker("dev").build()?,
        };
        let help = Command::new(&program)
            .args(["run", "--help"])
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot start {}", program.display()))?;
        if !help.status.success() {
            bail!(
                "{} has no command `run`, so our controllers cannot run; `--peer` runs the Go controllers",
                program.display()
            );
        }
        Ok(Some(program))
    }
}

// === impl ConformanceSuite ===

impl ConformanceSuite {
    /// The command line of our controllers, or of the Go ones without a program of ours.
    pub(super) fn command_line(
        &self,
        caretaker: Option<&Path>,
        instance: &Instance,
    ) -> Result<Vec<String>> {
        let flags = self.flags.iter().map(ToString::to_string);
        // No client needs a port of the controllers, and several may run on one machine.
        let no_port = "--secure-port=0".to_owned();
        let Some(program) = caretaker else {
            // The suite is about what happens; the defaults of 20 and 30 would only make it wait.
            let rates = ["--kube-api-qps=200", "--kube-api-burst=400"].map(str::to_owned);
            return instance.controller_manager(&Options {
                controllers: Some(self.peers.to_owned()),
                controller_manager_flags: [no_port].into_iter().chain(rates).chain(flags).collect(),
                ..Options::default()
            });
        };
        // As for the Go controllers, not the identity that Priority and Fairness exempts.
        let kubeconfig = instance.kubeconfig(Identity::Ordinary);
        let line = [
            program.display().to_string(),
            "run".to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--controllers={}", self.ours),
            "--take-over".to_owned(),
            // Killed processes must not make the next one wait.
            "--leader-elect=false".to_owned(),
            no_port,
        ];
        Ok(line.into_iter().chain(flags).collect())
    }

    /// An empty file for the controllers' output; it outlives the instance.
    pub(super) fn log(&self, whose: Whose) -> Result<PathBuf> {
        let side = match whose {
            Whose::Ours => "ours",
            Whose::Peer => "peer",
        };
        let file = kept_file(&format!("{}-{side}.log", self.name))?;
        fs::write(&file, "").with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    }
}

// === impl SuiteReport ===

impl SuiteReport {
    /// The number of cases that failed and are not allowed to.
    pub fn failed(&self) -> usize {
        let is_failed = |line: &&CaseLine| matches!(self.verdict(line), CaseVerdict::Failed(_));
        self.cases.iter().filter(is_failed).count()
    }

    fn verdict<'a>(&self, line: &'a CaseLine) -> CaseVerdict<'a> {
        match (&line.skipped, &line.failed, &line.deviation) {
            (Some(need), _, _) => CaseVerdict::Skipped(need),
            (_, None, Some(_)) if self.controllers == Whose::Peer => {
                CaseVerdict::Failed("the Go controllers pass: this is no deviation")
            }
            (_, None, _) => CaseVerdict::Passed,
            (_, Some(_), Some(name)) if self.controllers == Whose::Peer => {
                CaseVerdict::Allowed(name)
            }
            (_, Some(why), _) => CaseVerdict::Failed(why),
        }
    }
}

impl fmt::Display for SuiteReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut passed, mut allowed, mut skipped) = (0, 0, 0);
        for line in &self.cases {
            let CaseLine { name, secs, .. } = line;
            match self.verdict(line) {
                CaseVerdict::Passed => {
                    passed += 1;
                    writeln!(f, "passed   {secs:>5.1} s  {name}")?;
                }
                CaseVerdict::Allowed(deviation) => {
                    allowed += 1;
                    writeln!(f, "allowed  {secs:>5.1} s  {name} ({deviation})")?;
                }
                CaseVerdict::Skipped(need) => {
                    skipped += 1;
                    writeln!(f, "skipped           {name} ({need})")?;
                }
                CaseVerdict::Failed(why) => writeln!(f, "FAILED   {secs:>5.1} s  {name}: {why}")?,
            }
        }
        let (cases, failed, secs) = (self.cases.len(), self.failed(), self.took.as_secs_f64());
        writeln!(
            f,
            "{cases} cases in {secs:.0} s: {passed} passed, {failed} failed, {allowed} allowed to differ, {skipped} skipped"
        )?;
        writeln!(f, "the controllers' log: {}", self.log.display())
    }
}

#[cfg(test)]
mod tests {
    use super::super::read_lines;
    use super::*;

    const OUTPUT: &str = r#"{"suite":"gc","name":"a","deviation":null,"secs":1.25,"passed":true}
{"suite":"gc","name":"b","deviation":"self-owner","secs":150,"failed":"it is still there"}
{"suite":"gc","name":"c","deviation":null,"secs":2,"failed":"it is gone"}
{"suite":"gc","name":"d","deviation":null,"secs":0,"skipped":"FreshControllers"}
{"cases":4}
"#;

    fn report(controllers: Whose, output: &str) -> SuiteReport {
        SuiteReport {
            cases: read_lines(output, "cases").unwrap(),
            controllers,
            took: Duration::from_secs(360),
            log: "/x.log".into(),
        }
    }

    #[test]
    fn a_deviation_excuses_the_peer_only() {
        let text = "\
passed     1.2 s  a
allowed  150.0 s  b (self-owner)
FAILED     2.0 s  c: it is gone
skipped           d (FreshControllers)
4 cases in 360 s: 1 passed, 1 failed, 1 allowed to differ, 1 skipped
the controllers' log: /x.log
";
        assert_eq!(report(Whose::Peer, OUTPUT).to_string(), text);
        assert_eq!(report(Whose::Peer, OUTPUT).failed(), 1);
        assert_eq!(report(Whose::Ours, OUTPUT).failed(), 2);
    }

    #[test]
    fn a_peer_that_passes_despite_a_deviation_fails() {
        let line = r#"{"name":"b","deviation":"self-owner","secs":1,"passed":true}"#;
        let output = format!("{line}\n{{\"cases\":1}}\n");
        assert_eq!(report(Whose::Peer, &output).failed(), 1);
        assert_eq!(report(Whose::Ours, &output).failed(), 0);
    }

    #[test]
    fn a_truncated_output_is_refused() {
        let cut = OUTPUT.replace("{\"cases\":4}\n", "");
        for broken in ["", "{}", cut.as_str(), "{\"cases\":1}"] {
            assert!(
                read_lines::<CaseLine>(broken, "cases").is_err(),
                "{broken:?}"
            );
        }
    }
}
