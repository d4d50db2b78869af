//! A suite of controller cases on a fresh real server, with our controllers or with the Go ones.
//!
//! `suites` starts and kills the controllers itself, because some cases start them after they have created their objects;
//! this module gives it the server and the command line. With `--peer`, a case that names a deviation of ours may fail. A
//! suite is a row that names its controllers; the garbage collector is always among them.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::SUITES;
use crate::cargo::{Binary, Running, workspace};
use crate::real::{Identity, Instance, Options};

const CARETAKER: Binary = Binary {
    package: "kube-caretaker",
    name: "caretaker",
    profile: "dev",
};

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
    peer_lacks: None,
};

/// The CronJob controllers'. There is no Go program here that has Volcano's.
pub const CRON: ConformanceSuite = ConformanceSuite {
    name: "cron",
    ours: "garbage-collector-controller,cronjob-controller,ttl-after-finished-controller,gc-controller",
    peers: "garbage-collector-controller,cronjob-controller,ttl-after-finished-controller",
    flags: &[],
    peer_lacks: Some("VolcanoCron"),
};

/// The TTL controllers'. There is no Go program here that has Volcano's.
pub const TTL: ConformanceSuite = ConformanceSuite {
    name: "ttl",
    ours: "garbage-collector-controller,ttl-after-finished-controller,gc-controller",
    peers: "garbage-collector-controller,ttl-after-finished-controller",
    flags: &[],
    peer_lacks: Some("VolcanoTtl"),
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
    pub(super) name: &'static str,
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
#[derive(Debug)]
pub struct SuiteRequest {
    /// Only cases whose name contains this.
    pub only: Option<String>,
    pub controllers: Whose,
    /// More flags for kube-apiserver.
    pub apiserver_flags: Vec<String>,
}

/// Whose controllers they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
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

/// The last line of `suites`.
#[derive(Debug, Deserialize)]
struct LastLine {
    cases: usize,
}

enum CaseVerdict<'a> {
    Passed,
    Allowed(&'a str),
    Failed(&'a str),
    Skipped(&'a str),
}

/// Runs a suite on a fresh real server.
pub fn run_suite(suite: ConformanceSuite, request: &SuiteRequest) -> Result<SuiteReport> {
    let suites = SUITES.build()?;
    let caretaker = match request.controllers {
        Whose::Ours => Some(caretaker()?),
        Whose::Peer => None,
    };
    let log = log(suite.name, request.controllers)?;
    let options = Options {
        apiserver_flags: request.apiserver_flags.clone(),
        ..Options::default()
    };
    let name = format!("conformance-{}-{}", suite.name, std::process::id());
    let instance = Instance::start(&name, &options)?;
    let command = match &caretaker {
        Some(program) => ours(suite, program, &instance),
        None => peer(suite, &instance)?,
    };
    eprintln!("running with {}; this takes minutes", command[0]);
    let started = Instant::now();
    let cases = run(suite, &suites, &instance, request, &command, &log);
    let took = started.elapsed();
    instance.stop()?;
    Ok(SuiteReport {
        cases: cases.with_context(|| format!("the controllers' log: {}", log.display()))?,
        controllers: request.controllers,
        took,
        log,
    })
}

/// A caretaker that has the command it takes.
pub(super) fn caretaker() -> Result<PathBuf> {
    let program = match std::env::var_os(CARETAKER_BIN) {
        Some(path) => PathBuf::from(path),
        None => CARETAKER.build()?,
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
    Ok(program)
}

/// The command line of our controllers.
pub(super) fn ours(suite: ConformanceSuite, program: &Path, instance: &Instance) -> Vec<String> {
    // As for the Go controllers, not the identity that Priority and Fairness exempts.
    let kubeconfig = instance.kubeconfig(Identity::Ordinary);
    let mut line = vec![
        program.display().to_string(),
        "run".to_owned(),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--controllers={}", suite.ours),
        "--take-over".to_owned(),
        // Several may run on one machine, and no client needs this port.
        "--secure-port=0".to_owned(),
    ];
    line.extend(suite.flags.iter().map(ToString::to_string));
    line
}

/// The command line of the Go controllers.
pub(super) fn peer(suite: ConformanceSuite, instance: &Instance) -> Result<Vec<String>> {
    let flags = [
        "--secure-port=0",
        // The suite is about what happens; its defaults of 20 and 30 would only make it wait.
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ];
    instance.controller_manager(&Options {
        controllers: Some(suite.peers.to_owned()),
        controller_manager_flags: flags
            .iter()
            .chain(suite.flags)
            .map(ToString::to_string)
            .collect(),
        ..Options::default()
    })
}

/// An empty file for the controllers' output; it outlives the instance.
pub(super) fn log(suite: &str, whose: Whose) -> Result<PathBuf> {
    let dir = workspace().join("target").join("conformance");
    let file = dir.join(match whose {
        Whose::Ours => format!("{suite}-ours.log"),
        Whose::Peer => format!("{suite}-peer.log"),
    });
    fs::create_dir_all(&dir)
        .and_then(|()| fs::write(&file, ""))
        .with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

fn run(
    suite: ConformanceSuite,
    suites: &Path,
    instance: &Instance,
    request: &SuiteRequest,
    controllers: &[String],
    log: &Path,
) -> Result<Vec<CaseLine>> {
    let output = instance.dir().join("cases.jsonl");
    let mut command = Command::new(suites);
    command
        .arg(suite.name)
        .arg("--kubeconfig")
        .arg(instance.kubeconfig(Identity::Admin))
        .arg("--log")
        .arg(log);
    if let Some(only) = &request.only {
        command.args(["--only", only]);
    }
    if let (Whose::Peer, Some(need)) = (request.controllers, suite.peer_lacks) {
        command.args(["--lacks", need]);
    }
    command.arg("--").args(controllers);
    let file = fs::File::create(&output).context("cannot write in the instance's directory")?;
    let status = Running::start(command.stdout(file))?.wait()?;
    let output = fs::read_to_string(&output).context("cannot read the output of the suite")?;
    read(&output).with_context(|| format!("the suite did not come to its end ({status})"))
}

/// Parses the output of `suites`: a line for each case, then one with their number.
fn read(output: &str) -> Result<Vec<CaseLine>> {
    let output = output.trim_end();
    let start = output.rfind('\n').map_or(0, |at| at + 1);
    let end: LastLine = serde_json::from_str(&output[start..]).context("it says why above")?;
    let lines = output[..start].lines();
    let lines: Vec<CaseLine> = lines.map(serde_json::from_str).collect::<Result<_, _>>()?;
    if end.cases != lines.len() {
        bail!("{} cases, but {} lines", end.cases, lines.len());
    }
    Ok(lines)
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
        let (mut passed, mut allowed) = (0, 0);
        let mut skipped: BTreeMap<&str, usize> = BTreeMap::new();
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
                    *skipped.entry(need).or_default() += 1;
                    writeln!(f, "skipped           {name} ({need})")?;
                }
                CaseVerdict::Failed(why) => writeln!(f, "FAILED   {secs:>5.1} s  {name}: {why}")?,
            }
        }
        let (cases, failed, secs) = (self.cases.len(), self.failed(), self.took.as_secs_f64());
        let skipped: usize = skipped.values().sum();
        writeln!(
            f,
            "{cases} cases in {secs:.0} s: {passed} passed, {failed} failed, {allowed} allowed to differ, {skipped} skipped"
        )?;
        writeln!(f, "the controllers' log: {}", self.log.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = r#"{"suite":"gc","name":"a","deviation":null,"secs":1.25,"passed":true}
{"suite":"gc","name":"b","deviation":"self-owner","secs":150,"failed":"it is still there"}
{"suite":"gc","name":"c","deviation":null,"secs":2,"failed":"it is gone"}
{"suite":"gc","name":"d","deviation":null,"secs":0,"skipped":"FreshControllers"}
{"cases":4}
"#;

    fn report(controllers: Whose, output: &str) -> SuiteReport {
        SuiteReport {
            cases: read(output).unwrap(),
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
            assert!(read(broken).is_err(), "{broken:?}");
        }
        assert_eq!(read("{\"cases\":0}\n").unwrap().len(), 0);
    }
}
