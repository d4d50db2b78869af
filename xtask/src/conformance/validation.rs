//! Built-in objects with random changes on the embedded server and on a fresh real one: the same verdicts and causes?
//!
//! `suites validation` makes the objects, sends them to both servers and says where they disagree; this gives it the real
//! server and prints the rate of equal answers by kind.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::Result;
use serde::Deserialize;

use super::{kept_file, run_lines, suite_command, suites};
use crate::real::{Instance, Options};

/// The number of differences that are shown.
const SHOWN_MAX: usize = 40;

/// The objects to send.
#[derive(Debug, clap::Args)]
pub struct RandomObjects {
    /// How many seeds; each changes the object of every line of `objects.jsonl`, for a create and for an update
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first seed; `--seed S --seeds 1` sends the objects of one seed again
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
}

/// The answers of both servers.
#[derive(Debug)]
pub struct ValidationReport {
    cases: Vec<ValidationLine>,
    took: Duration,
}

/// One line of `suites validation`: a seed.
#[derive(Debug, Deserialize)]
struct ValidationLine {
    seed: u64,
    kinds: BTreeMap<String, KindCount>,
    unlike: Vec<UnlikeCauses>,
}

/// The answers to the objects of one kind.
#[derive(Debug, Default, Deserialize)]
struct KindCount {
    answers: usize,
    equal: usize,
    /// Those that differ only where a row of `allowed.txt` has a reason.
    allowed: usize,
    /// Those that the real server refused.
    refused: usize,
}

/// A write that is not answered alike.
#[derive(Debug, Deserialize)]
struct UnlikeCauses {
    kind: String,
    request: String,
    codes: [u16; 2],
    /// Said by one server only.
    real: Vec<String>,
    ours: Vec<String>,
}

/// Sends the objects to both servers.
pub fn validation(objects: &RandomObjects) -> Result<ValidationReport> {
    let (suites, output) = (suites()?, kept_file("validation.jsonl")?);
    Instance::run("conformance-validation", &Options::default(), |instance| {
        let mut command = suite_command(&suites, "validation", instance);
        command
            .arg(format!("--seed={}", objects.seed))
            .arg(format!("--seeds={}", objects.seeds));
        let (cases, took) = run_lines(&mut command, &output, "cases")?;
        Ok(ValidationReport { cases, took })
    })
}

// === impl KindCount ===

impl KindCount {
    fn add(&mut self, other: &Self) {
        self.answers += other.answers;
        self.equal += other.equal;
        self.allowed += other.allowed;
        self.refused += other.refused;
    }
}

impl fmt::Display for KindCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            answers,
            equal,
            allowed,
            refused,
        } = *self;
        let percent = 100.0 * equal as f64 / answers.max(1) as f64;
        let different = answers - equal - allowed;
        write!(
            f,
            "{percent:5.1} %  {answers} answers ({refused} refused), {allowed} allowed, {different} different"
        )
    }
}

// === impl ValidationReport ===

impl ValidationReport {
    /// The number of writes that were not answered alike.
    pub fn different(&self) -> usize {
        self.cases.iter().map(|case| case.unlike.len()).sum()
    }
}

impl fmt::Display for ValidationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unlike = self.cases.iter();
        let unlike = unlike.flat_map(|case| case.unlike.iter().map(|unlike| (case.seed, unlike)));
        for (seed, unlike) in unlike.take(SHOWN_MAX) {
            let [real, ours] = unlike.codes;
            let (kind, request) = (&unlike.kind, &unlike.request);
            writeln!(
                f,
                "seed {seed}, {kind}, {request}: real {real}, ours {ours}"
            )?;
            for (whose, said) in [("real", &unlike.real), ("ours", &unlike.ours)] {
                for cause in said {
                    writeln!(f, "  {whose}: {cause}")?;
                }
            }
        }
        let (mut kinds, mut all) = (BTreeMap::new(), KindCount::default());
        for (kind, count) in self.cases.iter().flat_map(|case| &case.kinds) {
            let sum: &mut KindCount = kinds.entry(kind).or_default();
            sum.add(count);
            all.add(count);
        }
        for (kind, count) in kinds {
            writeln!(f, "{kind:<66} {count}")?;
        }
        let (seeds, seconds) = (self.cases.len(), self.took.as_secs_f64());
        writeln!(f, "all of {seeds} seeds: {all}; {seconds:.0} s")
    }
}

#[cfg(test)]
mod tests {
    use super::super::read_lines;
    use super::*;

    #[test]
    fn rates_are_printed_by_kind_and_differences_first() {
        let output = r#"{"seed":1,"kinds":{"v1 Pod":{"answers":2,"equal":2,"allowed":0,"refused":1}},"unlike":[]}
{"seed":2,"kinds":{"v1 Pod":{"answers":2,"equal":0,"allowed":1,"refused":2}},"unlike":[{"kind":"v1 Pod","request":"create: remove /spec","codes":[422,201],"real":["Invalid","spec: Required value"],"ours":[]}]}
{"cases":2}
"#;
        let report = ValidationReport {
            cases: read_lines(output, "cases").unwrap(),
            took: Duration::from_secs(3),
        };
        assert_eq!(report.different(), 1);
        let counts = " 50.0 %  4 answers (3 refused), 1 allowed, 1 different";
        let text = format!(
            "\
seed 2, v1 Pod, create: remove /spec: real 422, ours 201
  real: Invalid
  real: spec: Required value
{:<66} {counts}
all of 2 seeds: {counts}; 3 s
",
            "v1 Pod"
        );
        assert_eq!(report.to_string(), text);
    }
}
