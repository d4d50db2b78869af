//! Random schemas and objects on the embedded server and on a fresh real one: the same verdicts, the same objects?
//!
//! `suites schema` makes the cases, performs them on both servers and says where they disagree; this gives it the real
//! server and counts.

use std::fmt;
use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;

use super::{SUITES, run_into};
use crate::cargo::workspace;
use crate::real::{Identity, Instance, Options};

/// How many cases that differ are shown.
const SHOWN_MAX: usize = 10;

/// What to send.
#[derive(Debug)]
pub struct Wanted {
    /// The first seed.
    pub seed: u64,
    pub seeds: u64,
}

/// What both servers said.
#[derive(Debug)]
pub struct Report {
    cases: Vec<Line>,
    took: Duration,
}

/// One line of `suites schema`: a case.
#[derive(Debug, Deserialize)]
struct Line {
    seed: u64,
    answers: usize,
    taken: usize,
    invalid: usize,
    unlike: Vec<Unlike>,
    /// Only where something differs.
    schema: Option<Value>,
}

/// An answer that differs.
#[derive(Debug, Deserialize)]
struct Unlike {
    answer: usize,
    real: Value,
    ours: Value,
}

/// The last line of `suites schema`.
#[derive(Debug, Deserialize)]
struct End {
    cases: usize,
}

/// Sends the cases to both servers.
pub fn schema(wanted: &Wanted) -> Result<Report> {
    let suites = SUITES.build()?;
    let name = format!("conformance-schema-{}", std::process::id());
    let output = workspace()
        .join("target")
        .join("conformance")
        .join("schema.jsonl");
    let dir = output.parent().context("a file is in a directory")?;
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let instance = Instance::start(&name, &Options::default())?;
    let mut command = Command::new(suites);
    command
        .arg("schema")
        .arg("--kubeconfig")
        .arg(instance.kubeconfig(Identity::Admin))
        .arg(format!("--seed={}", wanted.seed))
        .arg(format!("--seeds={}", wanted.seeds));
    let ran = run_into(&mut command, &output);
    instance.stop()?;
    let took = ran?;
    let said = fs::read_to_string(&output).context("cannot read what was said")?;
    Ok(Report {
        cases: read(&said)?,
        took,
    })
}

/// Takes the output of `suites schema` apart: a line for each case, then one with their number.
fn read(output: &str) -> Result<Vec<Line>> {
    let output = output.trim_end();
    let start = output.rfind('\n').map_or(0, |at| at + 1);
    let end: End = serde_json::from_str(&output[start..]).context("the cases have no end")?;
    let lines = output[..start].lines();
    let lines: Vec<Line> = lines.map(serde_json::from_str).collect::<Result<_, _>>()?;
    if end.cases != lines.len() {
        bail!("{} cases, but {} lines", end.cases, lines.len());
    }
    Ok(lines)
}

// === impl Report ===

impl Report {
    /// How many cases were not answered alike.
    pub fn different(&self) -> usize {
        self.cases
            .iter()
            .filter(|case| case.schema.is_some())
            .count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for case in self
            .cases
            .iter()
            .filter(|case| case.schema.is_some())
            .take(SHOWN_MAX)
        {
            let schema = case.schema.as_ref().unwrap_or(&Value::Null);
            writeln!(f, "seed {}: {schema}", case.seed)?;
            for Unlike { answer, real, ours } in &case.unlike {
                writeln!(f, "  answer {answer}\n    real: {real}\n    ours: {ours}")?;
            }
        }
        let sum = |of: fn(&Line) -> usize| self.cases.iter().map(of).sum::<usize>();
        writeln!(
            f,
            "{} schemas, {} answers ({} taken, {} invalid): {} schemas with differences; {:.0} s",
            self.cases.len(),
            sum(|case| case.answers),
            sum(|case| case.taken),
            sum(|case| case.invalid),
            self.different(),
            self.took.as_secs_f64()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAME: &str = r#"{"seed":1,"answers":4,"taken":3,"invalid":1,"unlike":[]}"#;
    const OTHER: &str = r#"{"seed":2,"answers":1,"taken":0,"invalid":1,"unlike":[{"answer":0,"real":1,"ours":2}],"schema":{}}"#;

    #[test]
    fn cases_are_counted_and_those_that_differ_are_shown() {
        let cases = read(&format!("{SAME}\n{OTHER}\n{{\"cases\":2}}\n")).unwrap();
        let report = Report {
            cases,
            took: Duration::from_secs(3),
        };
        assert_eq!(report.different(), 1);
        let text = "\
seed 2: {}
  answer 0
    real: 1
    ours: 2
2 schemas, 5 answers (3 taken, 2 invalid): 1 schemas with differences; 3 s
";
        assert_eq!(report.to_string(), text);
    }

    #[test]
    fn an_output_that_was_cut_off_is_no_result() {
        for broken in ["", SAME, &format!("{SAME}\n{{\"cases\":2}}")] {
            assert!(read(broken).is_err(), "{broken:?}");
        }
    }
}
