//! Restores the store of a real server while `caretaker run` keeps running: nothing restored may be deleted.
//!
//! Families of owners and dependents are created and the store is saved. Then users delete the owners in every mode, and
//! `run` collects the dependents, so that it knows the owners absent. The store is restored: owners and dependents are
//! back, and what `run` knows comes from a history that no longer exists. A proxy decides which kinds `run` can list
//! first. Some writes are refused until the restore, so that cascades are under way when the store is replaced.

mod case;
mod objects;
mod proxy;

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use self::case::RestoreCase;
use super::kept_file;
use super::suite::Whose;
use crate::real::RestoreMode;

const ROWS: [RestoreRow; 4] = [
    RestoreRow {
        name: "bumped_owners_listed_last",
        mode: RestoreMode::Bumped,
        order: ListOrder::OwnersLast,
    },
    RestoreRow {
        name: "bumped_dependents_listed_last",
        mode: RestoreMode::Bumped,
        order: ListOrder::DependentsLast,
    },
    RestoreRow {
        name: "bumped_listed_as_they_come",
        mode: RestoreMode::Bumped,
        order: ListOrder::AsTheyCome,
    },
    RestoreRow {
        name: "plain_revisions_go_back",
        mode: RestoreMode::Plain,
        order: ListOrder::AsTheyCome,
    },
];

/// A run of the suite.
#[derive(Debug, clap::Args)]
pub struct RestoreRequest {
    /// Only cases whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// How often each case runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    rounds: u32,
}

/// The outcomes of the suite.
#[derive(Debug)]
pub struct RestoreReport {
    cases: Vec<RestoreOutcome>,
    log: PathBuf,
}

#[derive(Clone, Copy)]
struct RestoreRow {
    name: &'static str,
    mode: RestoreMode,
    order: ListOrder,
}

/// Which kinds the controllers can list first after the restore.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListOrder {
    /// Nothing can be listed until the interrupted deletes were sent again; then everything but the owners' kinds.
    OwnersLast,
    DependentsLast,
    AsTheyCome,
}

#[derive(Debug)]
struct RestoreOutcome {
    name: &'static str,
    took: Duration,
    /// Each sentence is a failure.
    failures: Vec<String>,
}

/// Runs the suite.
pub fn restore(request: &RestoreRequest) -> Result<RestoreReport> {
    let caretaker = Whose::Ours.build()?.context("no caretaker was built")?;
    let log = kept_file("restore.log")?;
    fs::write(&log, "").with_context(|| format!("cannot write {}", log.display()))?;
    let mut cases = Vec::new();
    for _ in 0..request.rounds {
        for row in ROWS.iter().filter(|row| row.name.contains(&request.only)) {
            eprintln!("running {}; this takes minutes", row.name);
            let started = Instant::now();
            let failures = RestoreCase::run(*row, &caretaker, &log);
            cases.push(RestoreOutcome {
                name: row.name,
                took: started.elapsed(),
                failures: failures.unwrap_or_else(|error| vec![format!("{error:#}")]),
            });
        }
    }
    Ok(RestoreReport { cases, log })
}

// === impl RestoreReport ===

impl RestoreReport {
    /// The number of cases that failed.
    pub fn failed(&self) -> usize {
        let failed = self.cases.iter().filter(|case| !case.failures.is_empty());
        failed.count()
    }
}

impl fmt::Display for RestoreReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for case in &self.cases {
            let word = if case.failures.is_empty() {
                "passed"
            } else {
                "FAILED"
            };
            writeln!(
                f,
                "{word}  {:>5.1} s  {}",
                case.took.as_secs_f64(),
                case.name
            )?;
            for failure in &case.failures {
                writeln!(f, "    {failure}")?;
            }
        }
        let (all, failed) = (self.cases.len(), self.failed());
        writeln!(f, "{all} cases: {} passed, {failed} failed", all - failed)?;
        writeln!(f, "the controllers' log: {}", self.log.display())
    }
}
