//! Runs a benchmark of controllers: builds the programs, runs the legs of each case, writes the file of raw numbers and
//! makes the report.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use super::driver::{LOAD, LoadDriver};
use super::legs::{LegFigures, LegOrder, LegResults};
use super::peers::{BenchPrograms, BenchSide};
use super::stand::BenchStand;
use super::{BenchFigure, FigureTable};
use crate::cargo::{Binary, workspace};
use crate::interrupt;

/// The profile of the driver and of ours when only the harness is tried.
const QUICK_PROFILE: &str = "dev";

/// The choices that all benchmarks of controllers share.
#[derive(Clone, Debug)]
pub struct BenchRun {
    pub legs: LegOrder,
    /// Only cases whose title contains this.
    pub only: Option<String>,
    /// The file of the raw numbers, instead of a new one below `target`.
    pub csv: Option<PathBuf>,
    /// Builds ours and the driver without optimising, to try the harness.
    pub is_quick: bool,
    /// Runs the Go program on both sides: every ratio should then be one.
    pub is_rehearsal: bool,
}

/// The result of a run, to be printed.
#[derive(Debug)]
pub struct BenchReport {
    tables: Vec<FigureTable>,
    verdicts: Vec<String>,
    notes: Vec<String>,
    csv: PathBuf,
    took: Duration,
}

/// A case that is measured in legs.
pub(super) trait Measurable {
    /// The case's name in tables and files.
    fn title(&self) -> String;

    /// Returns whether a Go program is measured beside ours.
    fn has_peer(&self) -> bool {
        true
    }
}

/// The built programs and the start time of a run.
#[derive(Debug)]
pub(super) struct BenchKit<'a> {
    programs: BenchPrograms,
    driver: LoadDriver,
    csv: PathBuf,
    started: Instant,
    run: &'a BenchRun,
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
            is_quick: true,
            is_rehearsal: false,
        }
    }

    /// The cases whose title contains `only`.
    pub(super) fn choose<C: Measurable>(&self, cases: Vec<C>) -> Result<Vec<C>> {
        let Some(only) = &self.only else {
            return Ok(cases);
        };
        let titles: Vec<String> = cases.iter().map(C::title).collect();
        let chosen = cases.into_iter().filter(|case| case.title().contains(only));
        let chosen: Vec<C> = chosen.collect();
        if chosen.is_empty() {
            bail!("no title contains {only:?}: {}", titles.join("; "));
        }
        Ok(chosen)
    }
}

// === impl BenchKit ===

impl<'a> BenchKit<'a> {
    /// Builds the programs of a run. `name` begins the name of the file of raw numbers.
    pub(super) fn build(name: &str, run: &'a BenchRun) -> Result<Self> {
        let started = Instant::now();
        let profile = run.is_quick.then_some(QUICK_PROFILE);
        Ok(Self {
            driver: driver(run.is_quick)?,
            programs: BenchPrograms::build(profile, run.is_rehearsal)?,
            csv: csv_path(name, run)?,
            started,
            run,
        })
    }

    /// Measures every case in legs, each on a stand of its own.
    pub(super) fn measure<C: Measurable>(
        &self,
        cases: &[C],
        leg: impl Fn(&C, BenchStand<'_>) -> Result<Vec<BenchFigure>>,
    ) -> Result<LegResults> {
        let origin = origin(self.run);
        let mut results = LegResults::default();
        for case in cases {
            for (number, side) in (1..).zip(&self.run.legs.0) {
                if *side == BenchSide::Peer && !case.has_peer() {
                    continue;
                }
                let title = case.title();
                let (all, secs) = (self.run.legs.0.len(), self.started.elapsed().as_secs());
                eprintln!(
                    "== {secs} s: {title}: leg {number} of {all}, {}",
                    side.word()
                );
                let stand = BenchStand::new(&self.programs, &self.driver, *side);
                let measured = stand.and_then(|stand| leg(case, stand));
                let figures = measured.with_context(|| format!("{title}, {}", side.word()))?;
                results.0.push(LegFigures {
                    case: title,
                    side: *side,
                    number,
                    figures,
                });
                // After every leg, so that an interrupted run keeps its figures.
                fs::write(&self.csv, results.csv(&origin))
                    .with_context(|| format!("cannot write {}", self.csv.display()))?;
            }
        }
        Ok(results)
    }

    /// Makes the report, with the notes that apply to any run.
    pub(super) fn report<C: Measurable>(
        self,
        cases: &[C],
        results: &LegResults,
        verdicts: Vec<String>,
        mut notes: Vec<String>,
    ) -> BenchReport {
        let tables = cases
            .iter()
            .map(|case| results.table(&case.title(), BenchSide::Peer.word()));
        if self.run.is_rehearsal {
            notes.push(
                "a rehearsal: the Go program ran on both sides; no figure is of ours".to_owned(),
            );
        }
        if self.run.is_quick {
            notes.push(
                "ours and the driver were built without optimising: not for quoting".to_owned(),
            );
        }
        BenchReport {
            tables: tables.collect(),
            verdicts,
            notes,
            took: self.started.elapsed(),
            csv: self.csv,
        }
    }
}

// === impl BenchReport ===

impl fmt::Display for BenchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for table in &self.tables {
            writeln!(f, "{table}")?;
        }
        for line in self.verdicts.iter().chain(&self.notes) {
            writeln!(f, "- {line}")?;
        }
        let secs = self.took.as_secs();
        writeln!(f, "raw numbers: {}", self.csv.display())?;
        writeln!(f, "took {} min {} s", secs / 60, secs % 60)
    }
}

/// Builds the driver of the load.
pub(super) fn driver(is_quick: bool) -> Result<LoadDriver> {
    let profile = if is_quick {
        QUICK_PROFILE
    } else {
        LOAD.profile
    };
    Ok(LoadDriver(Binary { profile, ..LOAD }.build()?))
}

/// Sleeps, then fails if the run was interrupted meanwhile.
pub(super) fn settle(time: Duration) -> Result<()> {
    std::thread::sleep(time);
    interrupt::check()
}

/// The file of the raw numbers; a new one for each run unless one is named.
fn csv_path(name: &str, run: &BenchRun) -> Result<PathBuf> {
    if let Some(path) = &run.csv {
        return Ok(path.clone());
    }
    let dir = workspace().join("target").join("bench");
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let dir = dir.canonicalize().unwrap_or(dir);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let secs = now.unwrap_or_default().as_secs();
    Ok(dir.join(format!("{name}-{secs}.csv")))
}

/// The facts that are needed to repeat a run.
fn origin(run: &BenchRun) -> BTreeMap<&'static str, String> {
    let flags: Vec<String> = std::env::args().skip(1).collect();
    let built = if run.is_quick { "dev" } else { "dist" };
    [
        (
            "commit",
            git(workspace(), &["describe", "--always", "--dirty"]),
        ),
        ("flags", flags.join(" ")),
        ("profile", built.to_owned()),
    ]
    .into()
}

/// The output of git; empty without git.
fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git").current_dir(dir).args(args).output();
    let stdout = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&stdout).into_owned()
}
