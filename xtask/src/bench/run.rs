//! Runs a benchmark of controllers: builds the programs, runs the legs of each case, writes the file of raw numbers and
//! makes the report.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use super::bounds::{doubts, verdicts};
use super::cases::{BenchCase, BenchOptions, BenchTopic};
use super::leg;
use super::legs::{LegFigures, LegOrder, LegResults};
use super::peers::{BenchPrograms, BenchSide};
use super::stand::BenchStand;
use super::{BenchFigure, FigureTable};
use crate::cargo::workspace;
use crate::interrupt;

/// The choices that all benchmarks of controllers share.
#[derive(Clone, Debug, clap::Args)]
pub struct BenchRun {
    /// Order of the legs: A is the Go program, B is ours
    #[arg(long, default_value = "ABBA")]
    pub legs: LegOrder,
    /// Only cases whose title contains this, such as defaults
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// The file of the raw numbers [default: a new file in target/bench]
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Build ours and the driver without optimising: to try the harness, not for figures
    #[arg(long)]
    pub quick: bool,
    /// Run the Go program on both sides: every ratio should be one
    #[arg(long, hide = true)]
    pub ours_is_peer: bool,
}

/// The result of a run, to be printed.
#[derive(Debug)]
pub struct BenchReport {
    tables: Vec<FigureTable>,
    /// The verdicts, then the notes and doubts.
    sentences: Vec<String>,
    csv: PathBuf,
    took: Duration,
}

/// Measures both programs in every case of a benchmark.
pub fn measure(topic: BenchTopic, options: &BenchOptions) -> Result<BenchReport> {
    let run = &options.run;
    let cases = run.choose(options.cases(topic))?;
    let started = Instant::now();
    let programs = BenchPrograms::build(run)?;
    let csv = run.csv_path(topic.word())?;
    let origin = run.origin();
    let mut results = LegResults::default();
    for case in &cases {
        let title = case.title();
        for (number, side) in (1..).zip(run.legs.0.iter().copied()) {
            if side == BenchSide::Peer && case.row.subject.peer_ready.is_none() {
                continue;
            }
            let (all, secs) = (run.legs.0.len(), started.elapsed().as_secs());
            let who = side.word();
            eprintln!("== {secs} s: {title}: leg {number} of {all}, {who}");
            results.0.push(LegFigures {
                figures: run_leg(case, &programs, side)
                    .with_context(|| format!("{title}, {who}"))?,
                case: title.clone(),
                side,
                number,
            });
            // After every leg, so that an interrupted run keeps its figures.
            fs::write(&csv, results.csv(&origin))
                .with_context(|| format!("cannot write {}", csv.display()))?;
        }
    }
    let tables = cases.iter();
    Ok(BenchReport {
        tables: tables
            .map(|case| results.table(&case.title(), BenchSide::Peer.word()))
            .collect(),
        sentences: [
            verdicts(&cases, &results),
            notes(topic, options, &cases),
            doubts(topic.main_figure(), &cases, &results),
            run.notes(),
        ]
        .concat(),
        csv,
        took: started.elapsed(),
    })
}

/// Sleeps, then fails if the run was interrupted meanwhile.
pub(super) fn settle(time: Duration) -> Result<()> {
    std::thread::sleep(time);
    interrupt::check()
}

fn run_leg(
    case: &BenchCase,
    programs: &BenchPrograms,
    side: BenchSide,
) -> Result<Vec<BenchFigure>> {
    leg::measure(case, BenchStand::new(programs, side)?)
}

/// The notes of a benchmark that are about one of the cases.
fn notes(topic: BenchTopic, options: &BenchOptions, cases: &[BenchCase]) -> Vec<String> {
    let is_measured = |part: &str| cases.iter().any(|case| case.title().contains(part));
    let notes = topic.notes().iter().filter(|(part, _)| is_measured(part));
    let budget = options.budget.to_string();
    notes.map(|(_, note)| note.replace('#', &budget)).collect()
}

// === impl BenchRun ===

impl BenchRun {
    /// A run for tests, which builds no program.
    #[cfg(test)]
    pub(super) fn quick(legs: &str) -> Self {
        Self {
            legs: legs.parse().unwrap(),
            only: None,
            csv: None,
            quick: true,
            ours_is_peer: false,
        }
    }

    /// The cases whose title contains `only`.
    fn choose(&self, cases: Vec<BenchCase>) -> Result<Vec<BenchCase>> {
        let Some(only) = &self.only else {
            return Ok(cases);
        };
        let titles: Vec<String> = cases.iter().map(BenchCase::title).collect();
        let chosen = cases.into_iter().filter(|case| case.title().contains(only));
        let chosen: Vec<BenchCase> = chosen.collect();
        if chosen.is_empty() {
            bail!("no title contains {only:?}: {}", titles.join("; "));
        }
        Ok(chosen)
    }

    /// The notes on how the programs were built and chosen.
    fn notes(&self) -> Vec<String> {
        let notes = [
            (
                self.ours_is_peer,
                "a rehearsal: the Go program ran on both sides; no figure is of ours",
            ),
            (
                self.quick,
                "ours and the driver were built without optimising: not for quoting",
            ),
        ];
        let notes = notes.into_iter().filter(|(applies, _)| *applies);
        notes.map(|(_, note)| note.to_owned()).collect()
    }

    /// The file of the raw numbers; a new one for each run unless one is named.
    fn csv_path(&self, name: &str) -> Result<PathBuf> {
        if let Some(path) = &self.csv {
            return Ok(path.clone());
        }
        let dir = workspace().join("target").join("bench");
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let dir = dir.canonicalize().unwrap_or(dir);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let secs = now.unwrap_or_default().as_secs();
        Ok(dir.join(format!("{name}-{secs}.csv")))
    }

    /// The facts that are needed to repeat a run. The commit is empty without git.
    fn origin(&self) -> BTreeMap<&'static str, String> {
        let flags: Vec<String> = std::env::args().skip(1).collect();
        let built = if self.quick { "dev" } else { "dist" };
        let mut git = Command::new("git");
        let git = git.current_dir(workspace());
        let commit = git.args(["describe", "--always", "--dirty"]).output();
        let commit = commit.map(|output| output.stdout).unwrap_or_default();
        [
            ("commit", String::from_utf8_lossy(&commit).into_owned()),
            ("flags", flags.join(" ")),
            ("profile", built.to_owned()),
        ]
        .into()
    }
}

// === impl BenchReport ===

impl fmt::Display for BenchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for table in &self.tables {
            writeln!(f, "{table}")?;
        }
        for line in &self.sentences {
            writeln!(f, "- {line}")?;
        }
        let secs = self.took.as_secs();
        writeln!(f, "raw numbers: {}", self.csv.display())?;
        writeln!(f, "took {} min {} s", secs / 60, secs % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_shown_with_the_cases_that_it_is_about() {
        let options = BenchOptions::new(None, vec![20], BenchRun::quick("AB"));
        let mut cases = options.cases(BenchTopic::Gc);
        let all = notes(BenchTopic::Gc, &options, &cases);
        assert!(all[1].contains("send 400 requests a second"), "{all:?}");
        cases.truncate(1);
        let notes = notes(BenchTopic::Gc, &options, &cases);
        assert_eq!(notes, [all[0].as_str(), &all[2]]);
    }
}
