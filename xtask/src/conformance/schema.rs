//! Random schemas and objects on the embedded server and on a fresh real one: the same verdicts, the same objects?
//!
//! `suites schema` makes the cases, performs them on both servers and says where they disagree; this gives it the real
//! server and counts.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use serde::Deserialize;
use serde_json::Value;

use super::{kept_file, run_lines, suite_command, suites};
use crate::real::{Instance, Options};

/// The number of cases with differences that are shown.
const SHOWN_MAX: usize = 10;

/// The schemas to send.
#[derive(Debug, clap::Args)]
pub struct RandomSchemas {
    /// How many schemas
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The seed of the first; `--seed S --seeds 1` sends one schema again
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
}

/// The answers of both servers.
#[derive(Debug)]
pub struct SchemaReport {
    cases: Vec<SchemaLine>,
    took: Duration,
}

/// One line of `suites schema`: a case.
#[derive(Debug, Deserialize)]
struct SchemaLine {
    seed: u64,
    answers: usize,
    taken: usize,
    invalid: usize,
    unlike: Vec<UnlikeAnswer>,
    /// Only where something differs.
    schema: Option<Value>,
}

/// An answer that differs.
#[derive(Debug, Deserialize)]
struct UnlikeAnswer {
    answer: usize,
    real: Value,
    ours: Value,
}

/// Sends the cases to both servers.
pub fn schema(schemas: &RandomSchemas) -> Result<SchemaReport> {
    let (suites, output) = (suites()?, kept_file("schema.jsonl")?);
    Instance::run("conformance-schema", &Options::default(), |instance| {
        let mut command = suite_command(&suites, "schema", instance);
        command
            .arg(format!("--seed={}", schemas.seed))
            .arg(format!("--seeds={}", schemas.seeds));
        let (cases, took) = run_lines(&mut command, &output, "cases")?;
        Ok(SchemaReport { cases, took })
    })
}

// === impl SchemaReport ===

impl SchemaReport {
    /// The number of cases that were not answered alike.
    pub fn different(&self) -> usize {
        self.unlike().count()
    }

    fn unlike(&self) -> impl Iterator<Item = (&SchemaLine, &Value)> {
        let cases = self.cases.iter();
        cases.filter_map(|case| Some((case, case.schema.as_ref()?)))
    }
}

impl fmt::Display for SchemaReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (case, schema) in self.unlike().take(SHOWN_MAX) {
            writeln!(f, "seed {}: {schema}", case.seed)?;
            for UnlikeAnswer { answer, real, ours } in &case.unlike {
                writeln!(f, "  answer {answer}\n    real: {real}\n    ours: {ours}")?;
            }
        }
        let sum = |of: fn(&SchemaLine) -> usize| self.cases.iter().map(of).sum::<usize>();
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
    use super::super::read_lines;
    use super::*;

    const SAME: &str = r#"{"seed":1,"answers":4,"taken":3,"invalid":1,"unlike":[]}"#;
    const OTHER: &str = r#"{"seed":2,"answers":1,"taken":0,"invalid":1,"unlike":[{"answer":0,"real":1,"ours":2}],"schema":{}}"#;

    #[test]
    fn cases_are_counted_and_those_that_differ_are_shown() {
        let output = format!("{SAME}\n{OTHER}\n{{\"cases\":2}}\n");
        let cases = read_lines(&output, "cases").unwrap();
        let report = SchemaReport {
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
            assert!(
                read_lines::<SchemaLine>(broken, "cases").is_err(),
                "{broken:?}"
            );
        }
    }
}
