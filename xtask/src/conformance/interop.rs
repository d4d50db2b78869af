//! Clients that others wrote, with `caretaker up`: do their everyday steps work?
//!
//! A part is a program that prints a line for each step, or a text file of steps for the shell (`xtask/data/interop`).
//! What a part needs and the machine lacks is reported, and the part counts as skipped. Everything that is built or
//! downloaded goes to the oracle's directory.

mod parts;
mod steps;

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::ValueEnum;

use crate::interrupt;
use parts::PartContext;
use steps::StepOutcome;

/// A run of the suite.
#[derive(Debug, clap::Args)]
pub struct InteropRequest {
    /// Only these parts, comma separated
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<InteropPart>,
}

/// A client, or several that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InteropPart {
    /// kube-controller-manager's controllers, with ours off
    Controllers,
    /// client-go with bodies in JSON
    ClientGoJson,
    /// client-go with bodies in protobuf
    ClientGoProtobuf,
    /// A manager of controller-runtime with leader election
    ControllerRuntime,
    /// Install, upgrade, rollback and uninstall with helm 3
    Helm,
    /// The Python client
    Python,
    /// An operator of kopf
    Kopf,
    /// The JavaScript client
    Javascript,
    /// The Rust client, kube
    Rust,
}

/// The outcome of every part.
#[derive(Debug)]
pub struct InteropReport(Vec<PartReport>);

#[derive(Debug)]
struct PartReport {
    name: String,
    outcome: PartOutcome,
    took: Duration,
}

#[derive(Debug)]
enum PartOutcome {
    /// All steps up to the first that failed.
    Ran(Vec<StepOutcome>),
    /// What the machine lacks.
    Skipped(String),
}

/// Runs the parts one after the other.
pub fn interop(request: &InteropRequest) -> Result<InteropReport> {
    let all = InteropPart::value_variants().iter().copied();
    let is_wanted = |part: &InteropPart| request.only.is_empty() || request.only.contains(part);
    let mut context = PartContext::default();
    let mut reports = Vec::new();
    for part in all.filter(is_wanted) {
        interrupt::check()?;
        let name = part.name();
        eprintln!("running {name}");
        let started = Instant::now();
        reports.push(PartReport {
            outcome: context.run(part)?,
            took: started.elapsed(),
            name,
        });
    }
    Ok(InteropReport(reports))
}

// === impl InteropPart ===

impl InteropPart {
    /// Its word on the command line.
    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

// === impl InteropReport ===

impl InteropReport {
    /// The number of parts with a step that failed.
    pub fn failed(&self) -> usize {
        let is_failed = |part: &&PartReport| match &part.outcome {
            PartOutcome::Ran(steps) => steps.iter().any(|step| step.failed.is_some()),
            PartOutcome::Skipped(_) => false,
        };
        self.0.iter().filter(is_failed).count()
    }
}

impl fmt::Display for InteropReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut passed, mut failed, mut skipped) = (0, 0, 0);
        for PartReport {
            name,
            outcome,
            took,
        } in &self.0
        {
            let steps = match outcome {
                PartOutcome::Skipped(lack) => {
                    skipped += 1;
                    writeln!(f, "{name}: SKIPPED: {lack}")?;
                    continue;
                }
                PartOutcome::Ran(steps) => steps,
            };
            writeln!(
                f,
                "{name}: {} steps, {:.0} s",
                steps.len(),
                took.as_secs_f64()
            )?;
            for step in steps {
                match &step.failed {
                    None => passed += 1,
                    Some(_) => failed += 1,
                }
                writeln!(f, "  {step}")?;
            }
        }
        let parts = self.0.len();
        writeln!(
            f,
            "{parts} parts: {passed} steps passed, {failed} failed; {skipped} parts skipped"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_part(name: &str, outcome: PartOutcome) -> PartReport {
        PartReport {
            name: name.to_owned(),
            outcome,
            took: Duration::from_secs(3),
        }
    }

    #[test]
    fn skipped_parts_are_named_and_failed_ones_counted() {
        let steps = steps::read("ok a\nFAILED b: not there\n").unwrap();
        let report = InteropReport(vec![
            mk_part("helm", PartOutcome::Ran(steps)),
            mk_part("python", PartOutcome::Skipped("no python3".to_owned())),
        ]);
        assert_eq!(report.failed(), 1);
        let text = "\
helm: 2 steps, 3 s
  ok      a
  FAILED  b: not there
python: SKIPPED: no python3
2 parts: 1 steps passed, 1 failed; 1 parts skipped
";
        assert_eq!(report.to_string(), text);
    }

    #[test]
    fn every_part_has_a_name() {
        for part in InteropPart::value_variants() {
            assert!(!part.name().is_empty(), "{part:?}");
        }
    }
}
