//! Conformance: the same cases on the embedded server and on a real one, answer by answer.
//!
//! The cases, the normalisation of answers and the list of allowed differences belong to the `suites` binary of `testbed`.
//! This module starts the real server, has `suites` run and compare, and prints the outcome. Frozen answers are written on
//! request only, and always from the real server. The suites with controllers, whose cases state their own expectations,
//! are in `suite`.

mod random;
mod schema;
mod suite;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::cargo::{Binary, Running, workspace};
use crate::real::{Identity, Instance, Options};

pub use random::{Report as RandomReport, Wanted as RandomWanted, gc_random};
pub use schema::{Report as SchemaReport, Wanted as SchemaWanted, schema};
pub use suite::{
    CRON, ConformanceSuite, GC, POD_GC, SuiteReport, SuiteRequest, TTL, WORKLOADS, Whose, run_suite,
};

const SUITES: Binary = Binary {
    package: "caretaker-testbed",
    name: "suites",
    profile: "dev",
};

/// What to run.
#[derive(Debug, Default)]
pub struct Wanted {
    /// Only cases whose name contains this.
    pub only: Option<String>,
    /// Freeze the real server's answers for `cargo test`.
    pub record: bool,
}

/// What became of a run.
#[derive(Debug)]
pub struct Report {
    /// Each difference that no row allows, as text.
    pub differences: String,
    pub summary: Summary,
    /// How long the real server took for all cases.
    pub real: Duration,
    /// How long the embedded one took.
    pub embedded: Duration,
}

/// The last line of `suites compare`.
#[derive(Debug, Deserialize)]
pub struct Summary {
    /// Cases, including the skipped ones.
    pub checks: usize,
    /// Those that both servers answered alike.
    pub equal: usize,
    /// Those that differ only where a row allows it.
    pub allowed: usize,
    /// Those that differ elsewhere, or for which a row allows what no longer differs.
    pub different: usize,
    /// How many were skipped, by the need that was not met.
    pub skipped: BTreeMap<String, usize>,
    /// Those whose frozen answers are not what the real server says now.
    pub stale: Vec<String>,
}

/// Runs the API suite on a fresh real server and on embedded ones, and compares.
pub fn api(wanted: &Wanted) -> Result<Report> {
    let suites = SUITES.build()?;
    let name = format!("conformance-{}", std::process::id());
    let options = Options {
        // The embedded server knows no anonymous users either; strangers are asked about in the suite.
        apiserver_flags: vec!["--anonymous-auth=false".to_owned()],
        ..Options::default()
    };
    let instance = Instance::start(&name, &options)?;
    let report = compare(&suites, &instance, wanted);
    instance.stop()?;
    report
}

fn compare(suites: &Path, instance: &Instance, wanted: &Wanted) -> Result<Report> {
    let data = workspace().join("crates/testbed/data/api");
    let (real, embedded) = (
        instance.dir().join("real.jsonl"),
        instance.dir().join("embedded.jsonl"),
    );
    let run = || {
        let mut command = Command::new(suites);
        command.arg("api");
        if let Some(only) = &wanted.only {
            command.args(["--only", only]);
        }
        command
    };
    let mut on_real = run();
    on_real
        .arg("--kubeconfig")
        .arg(instance.kubeconfig(Identity::Admin));
    if wanted.record {
        on_real.arg("--record").arg(&data);
    }
    let real_took = run_into(&mut on_real, &real)?;
    let embedded_took = run_into(run().arg("--embedded"), &embedded)?;
    let compared = Command::new(suites)
        .arg("compare")
        .args([&real, &embedded])
        .arg("--data")
        .arg(&data)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start suites")?;
    let (differences, summary) = read(&String::from_utf8_lossy(&compared.stdout))?;
    Ok(Report {
        differences,
        summary,
        real: real_took,
        embedded: embedded_took,
    })
}

/// Runs a program with its output in a file; says how long it took.
fn run_into(command: &mut Command, file: &PathBuf) -> Result<Duration> {
    let out = File::create(file).with_context(|| format!("cannot write {}", file.display()))?;
    let started = Instant::now();
    let status = Running::start(command.stdout(out))?.wait()?;
    if !status.success() {
        bail!("the suite did not come to its end ({status}); it says why above");
    }
    Ok(started.elapsed())
}

/// Takes the output of `suites compare` apart: reports, then one line of JSON.
fn read(output: &str) -> Result<(String, Summary)> {
    let output = output.trim_end();
    let start = output.rfind('\n').map_or(0, |at| at + 1);
    let summary = serde_json::from_str(&output[start..])
        .context("the answers were not compared; `suites compare` says why above")?;
    Ok((output[..start].to_owned(), summary))
}

// === impl Summary ===

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let skipped: usize = self.skipped.values().sum();
        write!(
            f,
            "{} checks: {} equal, {} allowed, {} different, {skipped} skipped",
            self.checks, self.equal, self.allowed, self.different
        )?;
        let words: Vec<String> = self
            .skipped
            .iter()
            .map(|(word, count)| format!("{word} {count}"))
            .collect();
        if words.is_empty() {
            return Ok(());
        }
        write!(f, " ({})", words.join(", "))
    }
}

impl fmt::Display for Report {
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
    fn a_report_names_what_was_skipped_and_what_has_to_be_frozen_again() {
        let (differences, summary) = read(LINE).unwrap();
        let report = Report {
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
        let summary = Summary {
            checks: 2,
            equal: 2,
            allowed: 0,
            different: 0,
            skipped: BTreeMap::new(),
            stale: Vec::new(),
        };
        let report = Report {
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
