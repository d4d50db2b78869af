//! Runs a suite on one server and prints what was answered, or compares what two servers answered.
//!
//! `suites api` prints one JSON line per scenario; `suites compare` reads two such outputs. `cargo xtask conformance` does
//! the one on two servers and then the other. `suites api --record` freezes the answers of the real server for `cargo test`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use caretaker_sim::compare::{Allowed, differences};
use caretaker_sim::suites::{Outcome, Scenario, Theme, api};
use caretaker_sim::target::Target;
use caretaker_sim::transcript;
use clap::{Args, Parser, Subcommand};
use futures::StreamExt as _;
use serde_json::{Value, json};

/// Runs suites of scenarios on API servers.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Requests, watches, conflicts and deletes, as any client sees them
    Api(Run),
    /// Compare two outputs of the same suite
    Compare(Compare),
}

#[derive(Args)]
struct Run {
    /// The server: the current context of this kubeconfig
    #[arg(long, required_unless_present = "embedded")]
    kubeconfig: Option<PathBuf>,
    /// The server: a new embedded one for every scenario, on paused time
    #[arg(long, conflicts_with_all = ["kubeconfig", "record"])]
    embedded: bool,
    /// Only scenarios whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Only this theme
    #[arg(long)]
    theme: Option<String>,
    /// Scenarios that run at the same time
    #[arg(long, default_value_t = 4)]
    jobs: usize,
    /// Freeze the answers in this directory, one file per theme; only from the real server
    #[arg(long, conflicts_with = "only")]
    record: Option<PathBuf>,
}

#[derive(Args)]
struct Compare {
    /// What the real server answered
    real: PathBuf,
    /// What the server under test answered
    ours: PathBuf,
    /// The differences that are meant
    #[arg(long)]
    allowed: PathBuf,
}

fn main() -> anyhow::Result<ExitCode> {
    match Cli::parse().command {
        Command::Api(run) => {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().start_paused(run.embedded).build()?;
            runtime.block_on(run.suite("api", api::THEMES))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Compare(compare) => compare.run(),
    }
}

// === impl Run ===

impl Run {
    async fn suite(&self, suite: &str, themes: &[Theme]) -> anyhow::Result<()> {
        let real = match &self.kubeconfig {
            Some(file) => Some(Target::real(file).await?),
            None => None,
        };
        // Scenarios on one paused runtime would move each other's time.
        let jobs = if self.embedded { 1 } else { self.jobs.max(1) };
        let wanted = |theme: &&Theme| self.theme.as_deref().is_none_or(|name| name == theme.name);
        for theme in themes.iter().filter(wanted) {
            let chosen = theme.scenarios.iter().filter(|s| s.name.contains(&self.only));
            let runs = chosen.map(|scenario| run(scenario, real.as_ref()));
            let mut runs = futures::stream::iter(runs).buffered(jobs);
            let mut recorded = Vec::new();
            while let Some((name, outcome)) = runs.next().await {
                let mut line = json!({"suite": suite, "theme": theme.name, "name": name});
                match outcome {
                    Outcome::Skipped(need) => line["skipped"] = format!("{need:?}").into(),
                    Outcome::Ran(transcript) => {
                        line["transcript"] = transcript.clone().into();
                        recorded.push((name.to_owned(), transcript));
                    }
                }
                writeln!(std::io::stdout().lock(), "{line}")?;
            }
            if let Some(directory) = &self.record {
                let file = directory.join(format!("{}.json", theme.name));
                std::fs::write(&file, transcript::written(&recorded)).with_context(|| file.display().to_string())?;
            }
        }
        Ok(())
    }
}

async fn run<'s>(scenario: &'s Scenario, real: Option<&Target>) -> (&'s str, Outcome) {
    let target = real.cloned().unwrap_or_else(Target::embedded);
    (scenario.name, scenario.run(&target).await)
}

// === impl Compare ===

impl Compare {
    /// Prints every difference that is not allowed, then one line of JSON with the numbers.
    fn run(&self) -> anyhow::Result<ExitCode> {
        let allowed = Allowed::parse(&read(&self.allowed)?).map_err(|e| anyhow::anyhow!("{}: {e}", self.allowed.display()))?;
        let (real, ours) = (transcripts(&self.real)?, transcripts(&self.ours)?);
        let (mut equal, mut meant, mut different, mut skipped) = (0, 0, 0, 0);
        for (name, real) in &real {
            let (Some(real), Some(Some(ours))) = (real, ours.get(name)) else {
                skipped += 1;
                continue;
            };
            let judgement = allowed.judge(name, differences(real, ours));
            match (judgement.is_fine(), judgement.allowed) {
                (true, 0) => equal += 1,
                (true, _) => meant += 1,
                (false, _) => {
                    different += 1;
                    println!("{}", judgement.report(name, real));
                }
            }
        }
        println!("{}", json!({"checks": real.len(), "equal": equal, "allowed": meant, "different": different, "skipped": skipped}));
        Ok(if different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| file.display().to_string())
}

/// The transcripts of an output by scenario; nothing where it was skipped.
fn transcripts(file: &Path) -> anyhow::Result<BTreeMap<String, Option<Vec<Value>>>> {
    let mut all = BTreeMap::new();
    for line in read(file)?.lines() {
        let line: Value = serde_json::from_str(line).with_context(|| file.display().to_string())?;
        let name = line["name"].as_str().unwrap_or_default().to_owned();
        all.insert(name, line["transcript"].as_array().cloned());
    }
    Ok(all)
}
