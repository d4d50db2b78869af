//! A suite of plays on a fresh real server, with our controllers or with the Go ones.
//!
//! `suites` starts and kills the controllers itself, because some plays need one that starts in the middle of them; this
//! gives it the server and the command line. A play that fails although our controllers pass is a finding of `--peer` only
//! if the play names no deviation of ours. A suite is a row: which controllers it takes, the collector among them always.

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
pub const GC: Suite = Suite {
    name: "gc",
    ours: "garbage-collector-controller",
    peers: "garbage-collector-controller",
    flags: &[],
    peer_lacks: None,
};

/// Pod GC's. As many terminated Pods are kept as the plays say.
pub const POD_GC: Suite = Suite {
    name: "podgc",
    ours: "garbage-collector-controller,pod-garbage-collector-controller",
    peers: "garbage-collector-controller,pod-garbage-collector-controller",
    flags: &["--terminated-pod-gc-threshold=30"],
    peer_lacks: None,
};

/// The CronJob controllers'. There is no Go program here that has Volcano's.
pub const CRON: Suite = Suite {
    name: "cron",
    ours: "garbage-collector-controller,cronjob-controller,ttl-after-finished-controller,gc-controller",
    peers: "garbage-collector-controller,cronjob-controller,ttl-after-finished-controller",
    flags: &[],
    peer_lacks: Some("VolcanoCron"),
};

/// The TTL controllers'. There is no Go program here that has Volcano's.
pub const TTL: Suite = Suite {
    name: "ttl",
    ours: "garbage-collector-controller,ttl-after-finished-controller,gc-controller",
    peers: "garbage-collector-controller,ttl-after-finished-controller",
    flags: &[],
    peer_lacks: Some("VolcanoTtl"),
};

/// The simulated workloads'; their actors run in `suites`.
pub const WORKLOADS: Suite = Suite {
    name: "workloads",
    ..TTL
};

/// The variable that names a caretaker which is built already.
const CARETAKER_BIN: &str = "CARETAKER_BIN";

/// A suite, and who is at work in it.
#[derive(Debug, Clone, Copy)]
pub struct Suite {
    /// As the program `suites` calls it.
    pub(super) name: &'static str,
    /// Our controllers, as `--controllers` spells them.
    ours: &'static str,
    /// Those of kube-controller-manager.
    peers: &'static str,
    /// What both are told besides.
    flags: &'static [&'static str],
    /// What plays may need that the Go controllers do not have.
    peer_lacks: Option<&'static str>,
}

/// What to play.
#[derive(Debug)]
pub struct Wanted {
    /// Only plays whose name contains this.
    pub only: Option<String>,
    /// With whose controllers.
    pub collector: Whose,
    /// More flags for kube-apiserver.
    pub apiserver_flags: Vec<String>,
}

/// Whose controllers they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// `caretaker run`.
    Ours,
    /// kube-controller-manager.
    Peer,
}

/// What became of the plays.
#[derive(Debug)]
pub struct Report {
    plays: Vec<Line>,
    collector: Whose,
    took: Duration,
    log: PathBuf,
}

/// One line of `suites`: how a play ended.
#[derive(Debug, Deserialize)]
struct Line {
    name: String,
    deviation: Option<String>,
    secs: f64,
    failed: Option<String>,
    skipped: Option<String>,
}

/// The last line of `suites`.
#[derive(Debug, Deserialize)]
struct End {
    plays: usize,
}

/// What a line comes to.
enum Verdict<'a> {
    Passed,
    Allowed(&'a str),
    Failed(&'a str),
    Skipped(&'a str),
}

/// Plays a suite on a fresh real server.
pub fn plays(suite: Suite, wanted: &Wanted) -> Result<Report> {
    let suites = SUITES.build()?;
    let caretaker = match wanted.collector {
        Whose::Ours => Some(caretaker()?),
        Whose::Peer => None,
    };
    let log = log(suite.name, wanted.collector)?;
    let options = Options {
        apiserver_flags: wanted.apiserver_flags.clone(),
        ..Options::default()
    };
    let name = format!("conformance-{}-{}", suite.name, std::process::id());
    let instance = Instance::start(&name, &options)?;
    let collector = match &caretaker {
        Some(program) => ours(suite, program, &instance),
        None => peer(suite, &instance)?,
    };
    eprintln!("playing with {}; this takes minutes", collector[0]);
    let started = Instant::now();
    let plays = play(suite, &suites, &instance, wanted, &collector, &log);
    let took = started.elapsed();
    instance.stop()?;
    Ok(Report {
        plays: plays.with_context(|| format!("the controllers' log: {}", log.display()))?,
        collector: wanted.collector,
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
            "{} has no command `run`, so there is nobody of ours to play with; `--peer` plays with the Go controllers",
            program.display()
        );
    }
    Ok(program)
}

/// The command line of our controllers.
pub(super) fn ours(suite: Suite, program: &Path, instance: &Instance) -> Vec<String> {
    // As for the Go controllers, not the identity that Priority and Fairness exempts.
    let kubeconfig = instance.kubeconfig(Identity::Ordinary);
    let mut line = vec![
        program.display().to_string(),
        "run".to_owned(),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--controllers={}", suite.ours),
        "--take-over".to_owned(),
        // Several may run on one machine, and nobody asks this one.
        "--secure-port=0".to_owned(),
    ];
    line.extend(suite.flags.iter().map(ToString::to_string));
    line
}

/// The command line of the Go controllers.
pub(super) fn peer(suite: Suite, instance: &Instance) -> Result<Vec<String>> {
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

/// An empty file for what the controllers say; it outlives the instance.
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

fn play(
    suite: Suite,
    suites: &Path,
    instance: &Instance,
    wanted: &Wanted,
    collector: &[String],
    log: &Path,
) -> Result<Vec<Line>> {
    let output = instance.dir().join("plays.jsonl");
    let mut command = Command::new(suites);
    command
        .arg(suite.name)
        .arg("--kubeconfig")
        .arg(instance.kubeconfig(Identity::Admin))
        .arg("--log")
        .arg(log);
    if let Some(only) = &wanted.only {
        command.args(["--only", only]);
    }
    if let (Whose::Peer, Some(need)) = (wanted.collector, suite.peer_lacks) {
        command.args(["--lacks", need]);
    }
    command.arg("--").args(collector);
    let file = fs::File::create(&output).context("cannot write in the instance's directory")?;
    let status = Running::start(command.stdout(file))?.wait()?;
    let output = fs::read_to_string(&output).context("cannot read what was played")?;
    read(&output).with_context(|| format!("the suite did not come to its end ({status})"))
}

/// Takes the output of `suites` apart: a line for each play, then one with their number.
fn read(output: &str) -> Result<Vec<Line>> {
    let output = output.trim_end();
    let start = output.rfind('\n').map_or(0, |at| at + 1);
    let end: End = serde_json::from_str(&output[start..]).context("it says why above")?;
    let lines = output[..start].lines();
    let lines: Vec<Line> = lines.map(serde_json::from_str).collect::<Result<_, _>>()?;
    if end.plays != lines.len() {
        bail!("{} plays, but {} lines", end.plays, lines.len());
    }
    Ok(lines)
}

// === impl Report ===

impl Report {
    /// How many plays failed that should not have.
    pub fn failed(&self) -> usize {
        let is_failed = |line: &&Line| matches!(self.verdict(line), Verdict::Failed(_));
        self.plays.iter().filter(is_failed).count()
    }

    fn verdict<'a>(&self, line: &'a Line) -> Verdict<'a> {
        match (&line.skipped, &line.failed, &line.deviation) {
            (Some(need), _, _) => Verdict::Skipped(need),
            (_, None, Some(_)) if self.collector == Whose::Peer => {
                Verdict::Failed("the Go controllers do as ours: the deviation is none")
            }
            (_, None, _) => Verdict::Passed,
            (_, Some(_), Some(name)) if self.collector == Whose::Peer => Verdict::Allowed(name),
            (_, Some(why), _) => Verdict::Failed(why),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut passed, mut allowed) = (0, 0);
        let mut skipped: BTreeMap<&str, usize> = BTreeMap::new();
        for line in &self.plays {
            let Line { name, secs, .. } = line;
            match self.verdict(line) {
                Verdict::Passed => {
                    passed += 1;
                    writeln!(f, "passed   {secs:>5.1} s  {name}")?;
                }
                Verdict::Allowed(deviation) => {
                    allowed += 1;
                    writeln!(f, "allowed  {secs:>5.1} s  {name} ({deviation})")?;
                }
                Verdict::Skipped(need) => {
                    *skipped.entry(need).or_default() += 1;
                    writeln!(f, "skipped           {name} ({need})")?;
                }
                Verdict::Failed(why) => writeln!(f, "FAILED   {secs:>5.1} s  {name}: {why}")?,
            }
        }
        let (plays, failed, secs) = (self.plays.len(), self.failed(), self.took.as_secs_f64());
        let skipped: usize = skipped.values().sum();
        writeln!(
            f,
            "{plays} plays in {secs:.0} s: {passed} passed, {failed} failed, {allowed} allowed to differ, {skipped} skipped"
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
{"suite":"gc","name":"d","deviation":null,"secs":0,"skipped":"FreshCollector"}
{"plays":4}
"#;

    fn report(collector: Whose, output: &str) -> Report {
        Report {
            plays: read(output).unwrap(),
            collector,
            took: Duration::from_secs(360),
            log: "/x.log".into(),
        }
    }

    #[test]
    fn a_deviation_excuses_the_peer_and_nobody_else() {
        let text = "\
passed     1.2 s  a
allowed  150.0 s  b (self-owner)
FAILED     2.0 s  c: it is gone
skipped           d (FreshCollector)
4 plays in 360 s: 1 passed, 1 failed, 1 allowed to differ, 1 skipped
the controllers' log: /x.log
";
        assert_eq!(report(Whose::Peer, OUTPUT).to_string(), text);
        assert_eq!(report(Whose::Peer, OUTPUT).failed(), 1);
        assert_eq!(report(Whose::Ours, OUTPUT).failed(), 2);
    }

    #[test]
    fn a_deviation_that_is_none_is_told() {
        let line = r#"{"name":"b","deviation":"self-owner","secs":1,"passed":true}"#;
        let output = format!("{line}\n{{\"plays\":1}}\n");
        assert_eq!(report(Whose::Peer, &output).failed(), 1);
        assert_eq!(report(Whose::Ours, &output).failed(), 0);
    }

    #[test]
    fn an_output_without_its_end_is_no_report() {
        let cut = OUTPUT.replace("{\"plays\":4}\n", "");
        for broken in ["", "{}", cut.as_str(), "{\"plays\":1}"] {
            assert!(read(broken).is_err(), "{broken:?}");
        }
        assert_eq!(read("{\"plays\":0}\n").unwrap().len(), 0);
    }
}
