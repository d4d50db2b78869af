//! Random ownership under faults: many seeds, each with `caretaker run` behind a faulty proxy, on both servers.
//!
//! The `faults` binary of `testbed` runs one seed. This module starts the servers, runs several seeds at a time, prints a
//! line for each, and the story of every object that ended wrongly. Seeds on the embedded server have a server each. On
//! the real one, those of a lane share a server, because a collector sees all objects of its server.

use std::fmt;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::Deserialize;

use crate::cargo::{Binary, Running, workspace};
use crate::real::{Identity, Instance, Options};

/// Seeds of a run that names none.
const SEEDS: u64 = 20;

/// The seeds to run, and where.
#[derive(Debug, clap::Args)]
pub struct FaultsRequest {
    /// How many seeds on each server [default: 20, or 1 with --seed]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    /// The first seed; alone it repeats this one
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Only on this server [default: both]
    #[arg(long)]
    server: Option<FaultsServer>,
    /// The program whose command `run` is tested [default: the one of this checkout]
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Seeds that run at the same time; each lane on the real server has a server of its own
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    jobs: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FaultsServer {
    Embedded,
    Real,
}

/// The figures of all seeds on one server.
#[derive(Debug)]
pub struct FaultsSummary {
    server: FaultsServer,
    seeds: Vec<SeedLine>,
    /// Seeds that did not come to their end.
    unfinished: usize,
    took: Duration,
}

/// The output of the `faults` binary.
#[derive(Debug, Default, Deserialize)]
struct SeedLine {
    line: String,
    is_right: bool,
    objects: usize,
    either: usize,
    faults: usize,
    kills: usize,
    wrong_deletes: usize,
    leftovers: usize,
    lost_references: usize,
    left_references: usize,
    violations: usize,
    stories: Vec<String>,
}

/// What all lanes on a server share.
struct SeedLanes {
    server: FaultsServer,
    faults: PathBuf,
    caretaker: PathBuf,
    directory: PathBuf,
    next: AtomicU64,
    end: u64,
}

/// The outcome of a seed, or why there is none.
type SeedOutcome = (u64, Result<SeedLine>);

/// Runs all seeds; prints a line for each and a summary for each server. Returns the number of seeds that are not right.
pub fn faults(request: &FaultsRequest, out: &mut impl Write) -> Result<usize> {
    let caretaker = match &request.binary {
        Some(path) => path.clone(),
        None => Binary::caretaker("release").build()?,
    };
    let faults = Binary::testbed("faults", "release").build()?;
    let servers = match request.server {
        Some(server) => vec![server],
        None => vec![FaultsServer::Embedded, FaultsServer::Real],
    };
    let first = request.seed.unwrap_or(0);
    let count = request
        .seeds
        .unwrap_or(if request.seed.is_some() { 1 } else { SEEDS });
    let mut failed = 0;
    for server in servers {
        let lanes = SeedLanes {
            server,
            faults: faults.clone(),
            caretaker: caretaker.clone(),
            directory: workspace().join("target").join("faults"),
            next: AtomicU64::new(first),
            end: first.saturating_add(count),
        };
        let summary = lanes.run(request.jobs.min(count), out)?;
        write!(out, "{summary}")?;
        out.flush()?;
        failed += summary.failed();
    }
    Ok(failed)
}

// === impl SeedLanes ===

impl SeedLanes {
    fn run(&self, lanes: u64, out: &mut impl Write) -> Result<FaultsSummary> {
        let started = Instant::now();
        let (sender, outcomes) = channel();
        let mut summary = FaultsSummary {
            server: self.server,
            seeds: Vec::new(),
            unfinished: 0,
            took: Duration::ZERO,
        };
        thread::scope(|scope| -> Result<()> {
            let lane = |number| {
                let sender = sender.clone();
                scope.spawn(move || self.lane(number, &sender))
            };
            let running: Vec<_> = (0..lanes).map(lane).collect();
            drop(sender);
            for (seed, outcome) in outcomes {
                summary.print(seed, outcome, out)?;
            }
            for lane in running {
                lane.join()
                    .map_err(|_| anyhow::anyhow!("a lane panicked"))??;
            }
            Ok(())
        })?;
        summary.took = started.elapsed();
        Ok(summary)
    }

    /// Runs one seed after the other until none is left.
    fn lane(&self, number: u64, sender: &Sender<SeedOutcome>) -> Result<()> {
        let run_all = |kubeconfig: Option<&Path>| loop {
            crate::interrupt::check()?;
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            if seed >= self.end {
                return Ok(());
            }
            let outcome = self.run_seed(seed, kubeconfig);
            if sender.send((seed, outcome)).is_err() {
                bail!("the output is closed");
            }
        };
        match self.server {
            FaultsServer::Embedded => run_all(None),
            FaultsServer::Real => {
                let name = format!("faults-{number}-{}", std::process::id());
                let instance = Instance::start(&name, &Options::default())?;
                let done = run_all(Some(&instance.kubeconfig(Identity::Admin)));
                instance.stop()?;
                done
            }
        }
    }

    /// Runs one seed. Its logs stay if it is not right.
    fn run_seed(&self, seed: u64, kubeconfig: Option<&Path>) -> Result<SeedLine> {
        let directory = self.directory.join(format!("{}-{seed}", self.server));
        if directory.exists() {
            fs::remove_dir_all(&directory).context("cannot remove old logs")?;
        }
        fs::create_dir_all(&directory).context("cannot make a directory for logs")?;
        let output = directory.join("outcome.json");
        let mut command = Command::new(&self.faults);
        command
            .arg(format!("--seed={seed}"))
            .arg("--binary")
            .arg(&self.caretaker)
            .arg("--directory")
            .arg(&directory)
            .stdout(fs::File::create(&output)?)
            .stderr(Stdio::inherit());
        if let Some(kubeconfig) = kubeconfig {
            command.arg("--kubeconfig").arg(kubeconfig);
        }
        Running::start(&mut command)?.wait()?;
        let text = fs::read_to_string(&output).context("no outcome")?;
        let line: SeedLine = serde_json::from_str(&text).context("it did not come to its end")?;
        if line.is_right {
            fs::remove_dir_all(&directory).context("cannot remove logs")?;
        }
        Ok(line)
    }
}

// === impl FaultsSummary ===

impl FaultsSummary {
    /// The number of seeds that are not right.
    pub fn failed(&self) -> usize {
        let wrong = self.seeds.iter().filter(|line| !line.is_right);
        self.unfinished + wrong.count()
    }

    fn print(&mut self, seed: u64, outcome: Result<SeedLine>, out: &mut impl Write) -> Result<()> {
        match outcome {
            Ok(line) => {
                writeln!(out, "{} {}", self.server, line.line)?;
                for story in &line.stories {
                    writeln!(out, "{story}\n")?;
                }
                self.seeds.push(line);
            }
            Err(error) => {
                writeln!(out, "{} seed {seed}: {error:#}", self.server)?;
                self.unfinished += 1;
            }
        }
        Ok(out.flush()?)
    }

    fn sum(&self, of: impl Fn(&SeedLine) -> usize) -> usize {
        self.seeds.iter().map(of).sum()
    }
}

impl fmt::Display for FaultsSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} seeds in {:.0} s, {} unfinished: {} objects ({} with either end), {} faults, {} kills",
            self.server,
            self.seeds.len(),
            self.took.as_secs_f64(),
            self.unfinished,
            self.sum(|line| line.objects),
            self.sum(|line| line.either),
            self.sum(|line| line.faults),
            self.sum(|line| line.kills),
        )?;
        writeln!(
            f,
            "{}: {} wrong deletes, {} leftovers, {} lost and {} left references, {} rules broken",
            self.server,
            self.sum(|line| line.wrong_deletes),
            self.sum(|line| line.leftovers),
            self.sum(|line| line.lost_references),
            self.sum(|line| line.left_references),
            self.sum(|line| line.violations),
        )
    }
}

impl fmt::Display for FaultsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Embedded => "embedded",
            Self::Real => "real",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_counts_what_is_wrong() {
        let line = |leftovers| SeedLine {
            is_right: leftovers == 0,
            objects: 900,
            either: 9,
            leftovers,
            ..SeedLine::default()
        };
        let summary = FaultsSummary {
            server: FaultsServer::Embedded,
            seeds: vec![line(0), line(2)],
            unfinished: 1,
            took: Duration::from_secs(60),
        };
        let text = "\
embedded: 2 seeds in 60 s, 1 unfinished: 1800 objects (18 with either end), 0 faults, 0 kills
embedded: 0 wrong deletes, 2 leftovers, 0 lost and 0 left references, 0 rules broken
";
        assert_eq!(summary.to_string(), text);
        assert_eq!(summary.failed(), 2);
    }
}
