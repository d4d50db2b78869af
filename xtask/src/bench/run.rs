//! How a benchmark of controllers runs, whichever it is: the programs, the legs of each case, the file of raw numbers and
//! the report.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use super::bounds::Bound;
use super::doubts::doubts;
use super::driver::{Driver, LOAD};
use super::legs::{Leg, Order, Results};
use super::peers::{Programs, Side};
use super::stand::Stand;
use super::{Figure, Table};
use crate::cargo::{Binary, workspace};
use crate::interrupt;

/// How the driver and ours are built when only the harness is tried.
const QUICK_PROFILE: &str = "dev";

/// How a run is made.
#[derive(Clone, Debug)]
pub struct Run {
    /// Which side runs when.
    pub legs: Order,
    /// Only cases with this in their title.
    pub only: Option<String>,
    /// Where the raw numbers go, instead of a new file below `target`.
    pub csv: Option<PathBuf>,
    /// Whether ours and the driver are built without optimising: for trying the harness, not for figures.
    pub is_quick: bool,
    /// Whether the Go program runs on both sides: every ratio should then be one.
    pub is_rehearsal: bool,
}

/// What a run came to.
#[derive(Debug)]
pub struct Report {
    tables: Vec<Table>,
    verdicts: Vec<String>,
    notes: Vec<String>,
    csv: PathBuf,
    took: Duration,
}

/// What can be measured in legs.
pub(super) trait Measurable {
    /// Its name in tables and files.
    fn title(&self) -> String;

    /// Whether there is a Go program to measure beside ours.
    fn has_peer(&self) -> bool {
        true
    }

    /// What its numbers have to be, if that is one thing.
    fn bound(&self) -> Option<Bound> {
        None
    }
}

/// Everything that is built, and when the run began.
#[derive(Debug)]
pub(super) struct Kit<'a> {
    programs: Programs,
    driver: Driver,
    csv: PathBuf,
    started: Instant,
    run: &'a Run,
}

// === impl Run ===

impl Run {
    /// The cases that are wanted.
    pub(super) fn choose<C: Measurable>(&self, cases: Vec<C>) -> Result<Vec<C>> {
        let Some(only) = &self.only else {
            return Ok(cases);
        };
        let titles: Vec<String> = cases.iter().map(C::title).collect();
        let chosen = cases.into_iter().filter(|case| case.title().contains(only));
        let chosen: Vec<C> = chosen.collect();
        if chosen.is_empty() {
            bail!("no case has {only:?} in its title: {}", titles.join("; "));
        }
        Ok(chosen)
    }
}

// === impl Kit ===

impl<'a> Kit<'a> {
    /// Builds what a run takes. `name` begins the name of the file of raw numbers.
    pub(super) fn build(name: &str, run: &'a Run) -> Result<Self> {
        let started = Instant::now();
        let profile = run.is_quick.then_some(QUICK_PROFILE);
        Ok(Self {
            driver: driver(run.is_quick)?,
            programs: Programs::build(profile, run.is_rehearsal)?,
            csv: csv_path(name, run)?,
            started,
            run,
        })
    }

    /// Measures every case in legs, each on a stand of its own.
    pub(super) fn measure<C: Measurable>(
        &self,
        cases: &[C],
        leg: impl Fn(&C, Stand<'_>) -> Result<Vec<Figure>>,
    ) -> Result<Results> {
        let origin = origin(self.run);
        let mut results = Results::default();
        for case in cases {
            for (number, side) in (1..).zip(&self.run.legs.0) {
                if *side == Side::Peer && !case.has_peer() {
                    continue;
                }
                let title = case.title();
                let (all, secs) = (self.run.legs.0.len(), self.started.elapsed().as_secs());
                eprintln!(
                    "== {secs} s: {title}: leg {number} of {all}, {}",
                    side.word()
                );
                let stand = Stand::new(&self.programs, &self.driver, *side);
                let measured = stand.and_then(|stand| leg(case, stand));
                let figures = measured.with_context(|| format!("{title}, {}", side.word()))?;
                results.0.push(Leg {
                    case: title,
                    side: *side,
                    number,
                    figures,
                });
                // After every leg: a run that is broken off leaves what it has measured.
                fs::write(&self.csv, results.csv(&origin))
                    .with_context(|| format!("cannot write {}", self.csv.display()))?;
            }
        }
        Ok(results)
    }

    /// What a run came to whose cases have a bound each at most, and `figure` as their main one.
    pub(super) fn verdicts<C: Measurable>(
        self,
        cases: &[C],
        results: &Results,
        figure: &str,
        notes: &[&str],
    ) -> Report {
        let verdict = |case: &C| Some(case.bound()?.verdict(&case.title(), results));
        let doubts = cases
            .iter()
            .flat_map(|case| doubts(&case.title(), figure, results));
        let notes = notes
            .iter()
            .map(ToString::to_string)
            .chain(doubts)
            .collect();
        let verdicts = cases.iter().filter_map(verdict).collect();
        self.report(cases, results, verdicts, notes)
    }

    /// What the run came to, with what has to be said of any run.
    pub(super) fn report<C: Measurable>(
        self,
        cases: &[C],
        results: &Results,
        verdicts: Vec<String>,
        mut notes: Vec<String>,
    ) -> Report {
        let tables = cases
            .iter()
            .map(|case| results.table(&case.title(), Side::Peer.word()));
        if self.run.is_rehearsal {
            notes.push("a rehearsal: the Go program ran on both sides, and nothing here is a figure of ours".to_owned());
        }
        if self.run.is_quick {
            notes.push(
                "ours and the driver were built without optimising: not for quoting".to_owned(),
            );
        }
        Report {
            tables: tables.collect(),
            verdicts,
            notes,
            took: self.started.elapsed(),
            csv: self.csv,
        }
    }
}

// === impl Report ===

impl fmt::Display for Report {
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

/// The driver of the load.
pub(super) fn driver(is_quick: bool) -> Result<Driver> {
    let profile = if is_quick {
        QUICK_PROFILE
    } else {
        LOAD.profile
    };
    Ok(Driver(Binary { profile, ..LOAD }.build()?))
}

/// Fails when a run has been interrupted, in time for the next leg.
pub(super) fn settle(time: Duration) -> Result<()> {
    std::thread::sleep(time);
    interrupt::check()
}

/// Where the raw numbers go; a new file each time unless one is named.
fn csv_path(name: &str, run: &Run) -> Result<PathBuf> {
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

/// What has to be known to repeat a run.
fn origin(run: &Run) -> BTreeMap<&'static str, String> {
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

/// What git says; nothing where there is none.
fn git(dir: &Path, args: &[&str]) -> String {
    let said = Command::new("git").current_dir(dir).args(args).output();
    let said = said.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&said).into_owned()
}
