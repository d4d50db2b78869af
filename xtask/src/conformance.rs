//! Conformance: the same cases on the embedded server and on a real one, answer by answer.
//!
//! The cases, the normalisation of answers and the list of allowed differences belong to the `suites` binary of `testbed`.
//! This module starts the real server, has `suites` run and compare, and prints the outcome. Frozen answers are written on
//! request only, and always from the real server. The suites with controllers, whose cases state their own expectations,
//! are in `suite`.

mod e2e;
mod interop;
mod kubectl;
mod protobuf;
mod random;
mod restore;
mod schema;
mod suite;
mod validation;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cargo::{Binary, Running, workspace};
use crate::real::{Identity, Instance, Options};

pub use e2e::{E2eReport, E2eRequest, E2eServer, e2e};
pub use interop::{InteropPart, InteropReport, InteropRequest, interop};
pub use kubectl::{KubectlReport, KubectlRequest, kubectl};
pub use protobuf::{ProtobufReport, protobuf};
pub use random::{RandomReport, RandomScripts, gc_random};
pub use restore::{RestoreReport, RestoreRequest, restore};
pub use schema::{RandomSchemas, SchemaReport, schema};
pub use suite::{
    CRON, ConformanceSuite, GC, POD_GC, SuiteReport, SuiteRequest, TTL, WORKLOADS, run_suite,
};
pub use validation::{RandomObjects, ValidationReport, validation};

/// A run of the API suite.
#[derive(Debug, clap::Args)]
pub struct ApiRequest {
    /// Only cases whose name contains this, or whose path does if this has `::` (`api::watch::NAME`)
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Also freeze what the real server answers, for `cargo test`
    #[arg(long, conflicts_with = "only")]
    record: bool,
}

/// The outcome of the API suite.
#[derive(Debug)]
pub struct ApiReport {
    /// Each difference that no row allows, as text.
    differences: String,
    pub summary: ApiSummary,
    /// The time of the real server for all cases.
    real: Duration,
    /// The time of the embedded server.
    embedded: Duration,
}

/// The last line of `suites compare`.
#[derive(Debug, Deserialize)]
pub struct ApiSummary {
    /// Cases, including the skipped ones.
    checks: usize,
    /// Those that both servers answered alike.
    equal: usize,
    /// Those that differ only where a row allows it.
    allowed: usize,
    /// Those that differ elsewhere, or for which a row allows what no longer differs.
    pub different: usize,
    /// How many were skipped, by the need that was not met.
    skipped: BTreeMap<String, usize>,
    /// Those whose frozen answers are not what the real server says now.
    stale: Vec<String>,
}

/// Runs the API suite on a fresh real server and on embedded ones, and compares.
pub fn api(request: &ApiRequest) -> Result<ApiReport> {
    let suites = suites()?;
    Instance::run("conformance", &Options::default(), |instance| {
        compare(&suites, instance, request)
    })
}

fn compare(suites: &Path, instance: &Instance, request: &ApiRequest) -> Result<ApiReport> {
    let data = workspace().join("crates/testbed/data/api");
    let files = ["real.jsonl", "embedded.jsonl"].map(|name| instance.dir().join(name));
    let run = |file: &Path, command: &mut Command| {
        let only = request.only.iter().flat_map(|only| ["--only", only]);
        let (status, took) = run_into(command.args(only), file)?;
        if !status.success() {
            bail!("the suite did not come to its end ({status}); see its output above");
        }
        Ok(took)
    };
    let mut on_real = suite_command(suites, "api", instance);
    if request.record {
        on_real.arg("--record").arg(&data);
    }
    let real = run(&files[0], &mut on_real)?;
    let mut on_embedded = Command::new(suites);
    let embedded = run(&files[1], on_embedded.args(["api", "--embedded"]))?;
    let compared = Command::new(suites)
        .arg("compare")
        .args(&files)
        .arg("--data")
        .arg(&data)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start suites")?;
    let (differences, summary) = read(&String::from_utf8_lossy(&compared.stdout))?;
    Ok(ApiReport {
        differences,
        summary,
        real,
        embedded,
    })
}

/// Builds the program of the suites.
fn suites() -> Result<PathBuf> {
    Binary::testbed("suites", "dev").build()
}

/// The command that runs a suite on a real server as its administrator.
fn suite_command(suites: &Path, suite: &str, instance: &Instance) -> Command {
    let mut command = Command::new(suites);
    command
        .arg(suite)
        .arg("--kubeconfig")
        .arg(instance.kubeconfig(Identity::Admin));
    command
}

/// A file in the directory of logs and outputs, which outlive an instance.
fn kept_file(name: &str) -> Result<PathBuf> {
    let dir = workspace().join("target").join("conformance");
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    Ok(dir.join(name))
}

/// Runs a program with its output in a file. Returns the time that it took.
fn run_into(command: &mut Command, file: &Path) -> Result<(ExitStatus, Duration)> {
    let out = File::create(file).with_context(|| format!("cannot write {}", file.display()))?;
    let started = Instant::now();
    let status = Running::start(command.stdout(out))?.wait()?;
    Ok((status, started.elapsed()))
}

/// Runs a suite that prints a line for each case, then one with their number under the name `number`.
fn run_lines<L: DeserializeOwned>(
    command: &mut Command,
    file: &Path,
    number: &str,
) -> Result<(Vec<L>, Duration)> {
    let (status, took) = run_into(command, file)?;
    let output = fs::read_to_string(file).context("cannot read the output of the suite")?;
    let lines = read_lines(&output, number).with_context(|| {
        format!("the suite did not come to its end ({status}); see its output above")
    })?;
    Ok((lines, took))
}

fn read_lines<L: DeserializeOwned>(output: &str, number: &str) -> Result<Vec<L>> {
    let (lines, last) = split_last(output);
    let end: Value = serde_json::from_str(last).context("the last line is not JSON")?;
    let lines: Vec<L> = lines
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    if end[number] != lines.len() {
        bail!("{} {number}, but {} lines", end[number], lines.len());
    }
    Ok(lines)
}

/// Parses the output of `suites compare`: reports, then one line of JSON.
fn read(output: &str) -> Result<(String, ApiSummary)> {
    let (reports, last) = split_last(output);
    let summary = serde_json::from_str(last)
        .context("the answers were not compared; see the output of `suites compare` above")?;
    Ok((reports.to_owned(), summary))
}

/// The lines before the last one, and the last one.
fn split_last(output: &str) -> (&str, &str) {
    let output = output.trim_end();
    output.split_at(output.rfind('\n').map_or(0, |at| at + 1))
}

// === impl ApiSummary ===

impl fmt::Display for ApiSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let skipped: usize = self.skipped.values().sum();
        write!(
            f,
            "{} checks: {} equal, {} allowed, {} different, {skipped} skipped",
            self.checks, self.equal, self.allowed, self.different
        )?;
        let words = self.skipped.iter();
        let words: Vec<String> = words
            .map(|(word, count)| format!("{word} {count}"))
            .collect();
        if words.is_empty() {
            return Ok(());
        }
        write!(f, " ({})", words.join(", "))
    }
}

impl fmt::Display for ApiReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}{}", self.differences, self.summary)?;
        let (real, embedded) = (self.real.as_secs_f64(), self.embedded.as_secs_f64());
        writeln!(f, "real {real:.1} s, embedded {embedded:.1} s")?;
        if self.summary.stale.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "frozen answers that the real server does not give now: {}",
            self.summary.stale.join(", ")
        )?;
        writeln!(
            f,
            "freeze them again with `cargo xtask conformance api --record`"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"checks":9,"equal":4,"allowed":1,"different":1,"skipped":{"Actors":1,"RealOnly":2},"stale":["a","b"]}"#;

    #[test]
    fn the_numbers_are_the_last_line_and_what_stands_before_it_is_for_people() {
        let (differences, summary) = read(&format!("a\n  GET /x\n\n{LINE}\n")).unwrap();
        assert_eq!(differences, "a\n  GET /x\n\n");
        assert_eq!(summary.different, 1);
        assert_eq!(read(LINE).unwrap().0, "");
        for broken in ["", "a\nb", "{}"] {
            assert!(read(broken).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn a_truncated_output_is_refused() {
        let read = |output: &str| read_lines::<Value>(output, "cases");
        for broken in [
            "",
            "{}",
            "{\"a\":1}",
            "{\"cases\":1}",
            "{\"a\":1}\n{\"cases\":2}",
        ] {
            assert!(read(broken).is_err(), "{broken:?}");
        }
        assert_eq!(read("{\"cases\":0}\n").unwrap().len(), 0);
        assert_eq!(read("{\"a\":1}\n{\"cases\":1}\n").unwrap().len(), 1);
    }

    #[test]
    fn a_report_names_what_was_skipped_and_what_has_to_be_frozen_again() {
        let (differences, summary) = read(LINE).unwrap();
        let report = ApiReport {
            differences,
            summary,
            real: Duration::from_millis(61_240),
            embedded: Duration::from_millis(950),
        };
        let text = "\
9 checks: 4 equal, 1 allowed, 1 different, 3 skipped (Actors 1, RealOnly 2)
real 61.2 s, embedded 0.9 s
frozen answers that the real server does not give now: a, b
freeze them again with `cargo xtask conformance api --record`
";
        assert_eq!(report.to_string(), text);
    }

    #[test]
    fn a_report_without_anything_to_say_is_two_lines() {
        let summary = ApiSummary {
            checks: 2,
            equal: 2,
            allowed: 0,
            different: 0,
            skipped: BTreeMap::new(),
            stale: Vec::new(),
        };
        let report = ApiReport {
            differences: String::new(),
            summary,
            real: Duration::ZERO,
            embedded: Duration::ZERO,
        };
        let text =
            "2 checks: 2 equal, 0 allowed, 0 different, 0 skipped\nreal 0.0 s, embedded 0.0 s\n";
        assert_eq!(report.to_string(), text);
    }
}
