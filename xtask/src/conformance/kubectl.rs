//! Command lines of kubectl on the embedded server and on a real one: the same output?
//!
//! `script` reads the cases from `xtask/data/kubectl`, `servers` starts both servers with controllers and simulated Nodes,
//! `lines` runs the command lines, and `output` takes out what differs between any two clusters. A case that differs
//! needs a row with a reason in `allowed.txt`, and a row without a difference fails. So does a case that cannot be
//! prepared.

mod lines;
mod output;
mod script;
mod servers;

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::kept_file;
use crate::cargo::workspace;
use crate::real::KUBECTL;
use lines::{LineRunner, UNPREPARED};
use script::{AllowedCases, KubectlCase};
pub(super) use servers::{ADMISSION, ComparedServer};

/// Lines of a difference that are shown.
const SHOWN_LINES: usize = 30;

/// A run of the suite.
#[derive(Debug, clap::Args)]
pub struct KubectlRequest {
    /// Only cases whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// The outcome of every case.
#[derive(Debug)]
pub struct KubectlReport {
    cases: Vec<ComparedCase>,
    /// The rows of `allowed.txt` that name no case.
    strays: Vec<String>,
    took: Duration,
    files: [PathBuf; 2],
}

#[derive(Debug)]
struct ComparedCase {
    name: String,
    real: String,
    ours: String,
    /// The reason why it may differ.
    allowed: Option<String>,
}

/// Whether a case is as it should be.
enum CaseFinding<'a> {
    Equal,
    Allowed(&'a str),
    Different,
    /// It is equal, and a row allows a difference.
    NeedlessRow,
    /// A line that prepares the case failed on a server, so nothing was compared.
    Unprepared,
}

/// Runs the cases on both servers at the same time.
pub fn kubectl(request: &KubectlRequest) -> Result<KubectlReport> {
    let data = workspace().join("xtask/data/kubectl");
    let read = |name: &str| {
        let file = data.join(name);
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
    };
    let mut cases = script::parse(&read("cases.txt")?)?;
    let allowed = AllowedCases::parse(&read("allowed.txt")?)?;
    let strays = allowed.strays(&cases);
    if let Some(only) = &request.only {
        cases.retain(|case| case.name.contains(only.as_str()));
    }
    if cases.is_empty() {
        bail!("no case of xtask/data/kubectl/cases.txt has such a name");
    }
    let program = KUBECTL.ensure()?;
    let (ours, real) = (ComparedServer::ours()?, ComparedServer::real()?);
    let started = Instant::now();
    eprintln!(
        "running {} cases on both servers; all of them take minutes",
        cases.len()
    );
    let run = |server: &ComparedServer| {
        let mut runner = LineRunner::new(&program, server, &data)?;
        runner.wait_for_node()?;
        cases
            .iter()
            .map(|case| runner.run(case))
            .collect::<Result<Vec<String>>>()
    };
    let (of_real, of_ours) = thread::scope(|scope| {
        let of_real = scope.spawn(|| run(&real));
        let of_ours = run(&ours);
        let of_real = of_real
            .join()
            .unwrap_or_else(|_| bail!("the run on the real server panicked"));
        (of_real, of_ours)
    });
    let (of_real, of_ours) = (of_real?, of_ours?);
    let took = started.elapsed();
    real.stop()?;
    let files = [
        ("kubectl-real.txt", &of_real),
        ("kubectl-ours.txt", &of_ours),
    ];
    let files = files.map(|(name, texts)| keep(name, &cases, texts));
    let [first, second] = files;
    let compared = cases.into_iter().zip(of_real.into_iter().zip(of_ours));
    let compared = compared.map(|(case, (real, ours))| ComparedCase {
        allowed: allowed.reason(&case.name).map(str::to_owned),
        name: case.name,
        real,
        ours,
    });
    Ok(KubectlReport {
        cases: compared.collect(),
        strays,
        took,
        files: [first?, second?],
    })
}

/// Writes the outputs of one server, which a developer compares with a tool of their own.
fn keep(name: &str, cases: &[KubectlCase], outputs: &[String]) -> Result<PathBuf> {
    let texts = cases.iter().zip(outputs);
    let text: String = texts
        .map(|(case, output)| format!("= {}\n{output}\n", case.name))
        .collect();
    let file = kept_file(name)?;
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

// === impl ComparedCase ===

impl ComparedCase {
    fn finding(&self) -> CaseFinding<'_> {
        let mut lines = self.real.lines().chain(self.ours.lines());
        if lines.any(|line| line.starts_with(UNPREPARED)) {
            return CaseFinding::Unprepared;
        }
        match (self.real == self.ours, &self.allowed) {
            (true, None) => CaseFinding::Equal,
            (true, Some(_)) => CaseFinding::NeedlessRow,
            (false, Some(reason)) => CaseFinding::Allowed(reason),
            (false, None) => CaseFinding::Different,
        }
    }
}

// === impl KubectlReport ===

impl KubectlReport {
    /// The number of cases that differ without a reason, of reasons without a difference, and of rows without a case.
    pub fn failed(&self) -> usize {
        let is_failed = |case: &&ComparedCase| {
            matches!(
                case.finding(),
                CaseFinding::Different | CaseFinding::NeedlessRow | CaseFinding::Unprepared
            )
        };
        self.cases.iter().filter(is_failed).count() + self.strays.len()
    }
}

impl fmt::Display for KubectlReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut equal, mut allowed, mut different) = (0, 0, 0);
        for case in &self.cases {
            match case.finding() {
                CaseFinding::Equal => equal += 1,
                CaseFinding::Allowed(reason) => {
                    allowed += 1;
                    writeln!(f, "allowed    {}: {reason}", case.name)?;
                }
                CaseFinding::NeedlessRow => {
                    different += 1;
                    writeln!(
                        f,
                        "EQUAL      {}: remove its row from allowed.txt",
                        case.name
                    )?;
                }
                CaseFinding::Unprepared => {
                    different += 1;
                    writeln!(f, "UNPREPARED {}", case.name)?;
                    for (server, output) in [("real", &case.real), ("ours", &case.ours)] {
                        let failed = output.lines().filter(|line| line.starts_with(UNPREPARED));
                        for line in failed {
                            writeln!(f, "    {server}: {line}")?;
                        }
                    }
                }
                CaseFinding::Different => {
                    different += 1;
                    writeln!(f, "DIFFERENT  {}", case.name)?;
                    let lines = output::differing_lines(&case.real, &case.ours);
                    for line in lines.iter().take(SHOWN_LINES) {
                        writeln!(f, "    {line}")?;
                    }
                }
            }
        }
        for stray in &self.strays {
            writeln!(f, "allowed.txt has a row for {stray}, which is no case")?;
        }
        let [real, ours] = &self.files;
        let (all, secs) = (self.cases.len(), self.took.as_secs_f64());
        writeln!(
            f,
            "{all} cases: {equal} equal, {allowed} allowed, {different} different; {secs:.0} s"
        )?;
        writeln!(f, "outputs: {} and {}", real.display(), ours.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_case(name: &str, ours: &str, allowed: Option<&str>) -> ComparedCase {
        ComparedCase {
            name: name.to_owned(),
            real: "a\n".to_owned(),
            ours: ours.to_owned(),
            allowed: allowed.map(str::to_owned),
        }
    }

    #[test]
    fn a_difference_needs_a_reason_and_a_reason_a_difference() {
        let report = KubectlReport {
            cases: vec![
                mk_case("same", "a\n", None),
                mk_case("other", "b\n", None),
                mk_case("meant", "b\n", Some("no kubelet")),
                mk_case("needless", "a\n", Some("no kubelet")),
                mk_case("broken", "preparation failed: b\n", Some("no kubelet")),
            ],
            strays: vec!["gone".to_owned()],
            took: Duration::from_secs(60),
            files: ["r.txt".into(), "o.txt".into()],
        };
        assert_eq!(report.failed(), 4);
        let text = "\
DIFFERENT  other
    real: a
    ours: b
allowed    meant: no kubelet
EQUAL      needless: remove its row from allowed.txt
UNPREPARED broken
    ours: preparation failed: b
allowed.txt has a row for gone, which is no case
5 cases: 1 equal, 1 allowed, 3 different; 60 s
outputs: r.txt and o.txt
";
        assert_eq!(report.to_string(), text);
    }
}
