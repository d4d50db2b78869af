//! Runs one seed of random ownership under faults with a real `caretaker run`, and prints its outcome as JSON.
//!
//! `cargo xtask faults` runs it for many seeds, on embedded and on real servers.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use caretaker_machinery::clock::Clock;
use caretaker_testbed::faults::{self, ControllerHost, EndFault, FaultsPlan, FaultsSize};
use caretaker_testbed::target::Target;
use clap::Parser;
use jiff::Timestamp;
use serde_json::json;

/// Runs a seed of random ownership under faults.
#[derive(Parser)]
struct FaultsCli {
    #[arg(long)]
    seed: u64,
    /// The server: the current context of this kubeconfig; an embedded one without it
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// The program whose command `run` is tested
    #[arg(long)]
    binary: PathBuf,
    /// An existing directory for the logs of the processes
    #[arg(long)]
    directory: PathBuf,
}

fn main() -> anyhow::Result<ExitCode> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime
        .enable_all()
        .build()?
        .block_on(FaultsCli::parse().run())
}

#[allow(
    clippy::disallowed_methods,
    reason = "certificates and a real process need the machine's time"
)]
fn now() -> Timestamp {
    Timestamp::now()
}

// === impl FaultsCli ===

impl FaultsCli {
    async fn run(&self) -> anyhow::Result<ExitCode> {
        let target = match &self.kubeconfig {
            Some(file) => Target::real(file).await?,
            None => Target::embedded_on(Clock::wall(now)),
        };
        let host = ControllerHost::Program {
            path: self.binary.clone(),
            directory: self.directory.clone(),
            now: now(),
        };
        let plan = FaultsPlan::of(self.seed, FaultsSize::LARGE);
        let report = faults::run(&target, &host, &plan).await;
        let report = report.map_err(anyhow::Error::msg);
        let report = report.with_context(|| format!("seed {}", self.seed))?;
        let stories = [report.violations.clone(), report.stories.clone()].concat();
        let line = json!({
            "seed": report.seed,
            "line": report.to_string(),
            "is_right": report.is_right(),
            "objects": report.objects,
            "either": report.either,
            "faults": report.faults.values().sum::<usize>(),
            "kills": report.kills,
            "wrong_deletes": report.count(EndFault::WrongDelete),
            "leftovers": report.count(EndFault::Leftover),
            "lost_references": report.count(EndFault::LostReference),
            "left_references": report.count(EndFault::LeftReference),
            "violations": report.violations.len(),
            "stories": stories,
        });
        println!("{line}");
        Ok(ExitCode::from(u8::from(!report.is_right())))
    }
}
