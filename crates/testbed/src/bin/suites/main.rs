//! Runs a suite on one server and prints the outcomes, or compares the transcripts of two servers.
//!
//! Every suite prints one JSON line per case and a last line with their number, by which `cargo xtask conformance` sees
//! that the output is complete. `suites api --record` freezes the transcripts of the real server for `cargo test`, and
//! `suites compare` reads the output of two runs of `suites api`. The other suites run with the controllers of their
//! command line. `suites schema` sends random schemas and objects to two servers and prints their disagreements;
//! `suites validation` does so with objects of built-in kinds.
//! `suites gc-random` runs random ownership scripts and prints what was left of each. `suites protobuf` compares upstream's
//! samples of objects with our encoding.

mod cases;
mod compare;
mod random;
mod schema;
mod validation;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use caretaker_testbed::controllers::ControllerSource;
use caretaker_testbed::kube_steps;
use caretaker_testbed::samples::{self, SampleOutcome};
use caretaker_testbed::suites::{api, cron, gc, podgc, ttl, workloads};
use caretaker_testbed::target::Target;
use clap::{Args, Parser, Subcommand};
use serde_json::json;
use tokio::runtime::Runtime;

use cases::SuiteArgs;
use compare::CompareArgs;
use random::RandomArgs;
use schema::SchemaArgs;
use validation::ValidationArgs;

/// Runs suites of test cases on API servers.
#[derive(Parser)]
struct SuitesCli {
    #[command(subcommand)]
    command: SuitesCommand,
}

#[derive(Subcommand)]
enum SuitesCommand {
    /// Requests, watches, conflicts and deletes, as any client sees them
    Api(SuiteArgs),
    /// Ownership, cascades, orphans and waiting owners, with a garbage collector
    Gc(SuiteArgs),
    /// Pods that have terminated, lost their Node or were never bound, with Pod GC and a garbage collector
    Podgc(SuiteArgs),
    /// CronJobs of both dialects, with CronJob and TTL controllers and a garbage collector
    Cron(SuiteArgs),
    /// The TTL of finished Jobs, with TTL controllers and a garbage collector
    Ttl(SuiteArgs),
    /// Simulated Pods, Deployments and Jobs, also of Volcano, with a garbage collector; the actors run in this process
    Workloads(SuiteArgs),
    /// Random objects with random owners and deletes, with a garbage collector
    GcRandom(RandomArgs),
    /// Random schemas and objects, on the embedded server and on another one
    Schema(SchemaArgs),
    /// Objects with random changes, on the embedded server and on another one
    Validation(ValidationArgs),
    /// Everyday steps of kube, the Rust client
    Kube(ServerArgs),
    /// Simulated Nodes and Pods on a server, until this process is ended
    Nodes(ServerArgs),
    /// Upstream's samples of objects, in JSON and in protobuf
    Protobuf(SampleArgs),
    /// Compare two outputs of the same suite
    Compare(CompareArgs),
}

#[derive(Args)]
struct SeedArgs {
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Number of seeds
    #[arg(long, default_value_t = 1)]
    seeds: u64,
}

#[derive(Args)]
struct ServerArgs {
    /// The server: the current context of this kubeconfig
    #[arg(long)]
    kubeconfig: PathBuf,
}

#[derive(Args)]
struct SampleArgs {
    /// Directories of samples
    #[arg(required = true)]
    directories: Vec<PathBuf>,
}

fn main() -> anyhow::Result<ExitCode> {
    let (suite, args) = match SuitesCli::parse().command {
        SuitesCommand::Api(args) => (&api::SUITE, args),
        SuitesCommand::Cron(args) => (&cron::SUITE, args),
        SuitesCommand::Gc(args) => (&gc::SUITE, args),
        SuitesCommand::Podgc(args) => (&podgc::SUITE, args),
        SuitesCommand::Ttl(args) => (&ttl::SUITE, args),
        SuitesCommand::Workloads(args) => (&workloads::SUITE, args),
        SuitesCommand::GcRandom(random) => {
            runtime(false)?.block_on(random.run())?;
            return Ok(ExitCode::SUCCESS);
        }
        SuitesCommand::Schema(schemas) => {
            runtime(false)?.block_on(schemas.run())?;
            return Ok(ExitCode::SUCCESS);
        }
        SuitesCommand::Validation(objects) => {
            runtime(false)?.block_on(objects.run())?;
            return Ok(ExitCode::SUCCESS);
        }
        SuitesCommand::Kube(server) => {
            runtime(false)?.block_on(async {
                let target = Target::real(&server.kubeconfig).await?;
                kube_steps::run(target.client().clone()).await
            })?;
            return Ok(ExitCode::SUCCESS);
        }
        SuitesCommand::Nodes(nodes) => {
            runtime(false)?.block_on(nodes.run())?;
            return Ok(ExitCode::SUCCESS);
        }
        SuitesCommand::Protobuf(samples) => {
            samples.run()?;
            return Ok(ExitCode::SUCCESS);
        }
        SuitesCommand::Compare(compare) => return compare.run(),
    };
    runtime(args.embedded)?.block_on(args.run(suite))
}

/// A runtime whose time is paused for the embedded server, so that waits cost nothing.
fn runtime(embedded: bool) -> std::io::Result<Runtime> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(embedded).build()
}

/// The controllers of a command line.
fn source(command: &[String], log: Option<&PathBuf>) -> ControllerSource {
    if command.is_empty() {
        return ControllerSource::Running;
    }
    ControllerSource::Program {
        line: command.to_vec(),
        log: log.cloned(),
    }
}

// === impl SeedArgs ===

impl SeedArgs {
    fn range(&self) -> std::ops::Range<u64> {
        self.seed..self.seed.saturating_add(self.seeds)
    }
}

// === impl ServerArgs ===

impl ServerArgs {
    /// Runs the actors, whose parent ends them with this process.
    async fn run(&self) -> anyhow::Result<()> {
        let target = Target::real(&self.kubeconfig).await?;
        let _actors = target.nodes().await?;
        std::future::pending().await
    }
}

// === impl SampleArgs ===

impl SampleArgs {
    /// Prints a line for each sample, then their number.
    fn run(&self) -> anyhow::Result<()> {
        let mut count = 0;
        for directory in &self.directories {
            let reports = samples::compare_directory(directory);
            for report in reports.with_context(|| directory.display().to_string())? {
                let (served, different) = match report.outcome {
                    SampleOutcome::Equal => (true, None),
                    SampleOutcome::NotServed => (false, None),
                    SampleOutcome::Different(place) => (true, Some(place)),
                };
                let line = json!({"name": report.name, "served": served, "different": different});
                writeln!(std::io::stdout().lock(), "{line}")?;
                count += 1;
            }
        }
        writeln!(std::io::stdout().lock(), "{}", json!({"samples": count}))?;
        Ok(())
    }
}
