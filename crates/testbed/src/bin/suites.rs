//! Runs a suite on one server and prints the outcomes, or compares the transcripts of two servers.
//!
//! Every suite prints one JSON line per case and a last line with their number, by which `cargo xtask conformance` sees
//! that the output is complete. `suites api --record` freezes the transcripts of the real server for `cargo test`, and
//! `suites compare` reads the output of two runs of `suites api`. The other suites run with the controllers of their
//! command line. `suites schema` sends random schemas and objects to two servers and prints their disagreements.
//! `suites gc-random` runs random ownership scripts and prints what was left of each. `suites protobuf` compares upstream's
//! samples of objects with our encoding.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use caretaker_testbed::case::{CaseNeed, CaseOutcome, TestCase};
use caretaker_testbed::compare::{AllowedDifferences, differences};
use caretaker_testbed::controllers::ControllerSource;
use caretaker_testbed::environment::Environment;
use caretaker_testbed::kube_steps;
use caretaker_testbed::ownership::model::{self, ExpectedEnd, ModelScope, ObjectEnd};
use caretaker_testbed::ownership::run::ScriptRunner;
use caretaker_testbed::ownership::{OwnershipScript, ScriptShape};
use caretaker_testbed::samples::{self, SampleOutcome};
use caretaker_testbed::schemas::SchemaCase;
use caretaker_testbed::suites::{CaseSuite, CaseTheme, api, cron, gc, podgc, ttl, workloads};
use caretaker_testbed::target::Target;
use caretaker_testbed::transcript;
use clap::{Args, Parser, Subcommand};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::time::Instant;

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
struct SuiteArgs {
    /// The server: the current context of this kubeconfig
    #[arg(long, required_unless_present = "embedded")]
    kubeconfig: Option<PathBuf>,
    /// The server: a new embedded one for every case, on paused time, with our controllers in process
    #[arg(long, conflicts_with_all = ["kubeconfig", "record", "controllers", "log"])]
    embedded: bool,
    /// Only cases whose name contains this, or whose path does if this has `::` (`api::watch::NAME`)
    #[arg(long, default_value = "")]
    only: String,
    /// Only this theme
    #[arg(long)]
    theme: Option<String>,
    /// A need that the controllers do not meet; cases with this need are skipped
    #[arg(long)]
    lacks: Option<String>,
    /// Cases that run at the same time; those that start the controllers themselves run alone
    #[arg(long, default_value_t = 8)]
    jobs: usize,
    /// Freeze the transcripts in this directory, one file per theme; only from the real server
    #[arg(long, conflicts_with = "only")]
    record: Option<PathBuf>,
    /// File for the controllers' output; otherwise it goes to stderr
    #[arg(long)]
    log: Option<PathBuf>,
    /// The command of the controllers, started and killed here; without it they have to run already
    #[arg(last = true)]
    controllers: Vec<String>,
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
struct RandomArgs {
    /// The server: the current context of this kubeconfig; the objects stay there
    #[arg(long)]
    kubeconfig: PathBuf,
    #[command(flatten)]
    seeds: SeedArgs,
    /// Scripts that run at the same time
    #[arg(long, default_value_t = 50)]
    jobs: usize,
    /// File for the controllers' output; otherwise it goes to stderr
    #[arg(long)]
    log: Option<PathBuf>,
    /// The command of the garbage collector, started and killed here; without it one has to run already
    #[arg(last = true)]
    controllers: Vec<String>,
}

#[derive(Args)]
struct SchemaArgs {
    /// The other server: the current context of this kubeconfig
    #[arg(long)]
    kubeconfig: PathBuf,
    #[command(flatten)]
    seeds: SeedArgs,
    /// Cases that run at the same time
    #[arg(long, default_value_t = 16)]
    jobs: usize,
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

#[derive(Args)]
struct CompareArgs {
    /// The output of the real server's run
    real: PathBuf,
    /// The output of the run on the server under test
    ours: PathBuf,
    /// Directory of the frozen transcripts and of `allowed.txt`, the differences that are meant
    #[arg(long)]
    data: PathBuf,
}

/// One case of a suite with its outcome and the seconds it took on the runtime's clock.
struct CaseReport {
    theme: &'static CaseTheme,
    case: &'static TestCase,
    outcome: CaseOutcome,
    secs: f64,
}

/// Prints reports, and collects transcripts for `--record`.
struct ReportPrinter {
    suite: &'static CaseSuite,
    printed: usize,
    failed: usize,
    recorded: BTreeMap<&'static str, Vec<(String, Vec<Value>)>>,
}

/// The transcript of a case in an output, or the need for which it was skipped.
type ReportedTranscript = Result<Vec<Value>, String>;

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

// === impl SeedArgs ===

impl SeedArgs {
    fn range(&self) -> std::ops::Range<u64> {
        self.seed..self.seed.saturating_add(self.seeds)
    }
}

// === impl SuiteArgs ===

impl SuiteArgs {
    /// Runs all cases; the exit code says whether one failed.
    async fn run(&self, suite: &'static CaseSuite) -> anyhow::Result<ExitCode> {
        let mut printer = ReportPrinter::new(suite);
        let is_wanted = |theme: &CaseTheme, case: &TestCase| {
            let path = format!("{}::{}::{}", suite.name, theme.name, case.name);
            let name = match self.only.contains("::") {
                true => path.as_str(),
                false => case.name,
            };
            name.contains(&self.only) && self.theme.as_deref().is_none_or(|t| t == theme.name)
        };
        let (mut usual, mut alone) = (Vec::new(), Vec::new());
        for (theme, case) in suite.cases().filter(|(theme, case)| is_wanted(theme, case)) {
            match self.lacking(case) {
                Some(need) => printer.print(CaseReport {
                    theme,
                    case,
                    outcome: CaseOutcome::Skipped(need),
                    secs: 0.0,
                })?,
                None if case.is_alone() => alone.push((theme, case)),
                None => usual.push((theme, case)),
            }
        }
        let Some(file) = &self.kubeconfig else {
            let source = ControllerSource::InProcess(suite.controllers);
            for (theme, case) in usual.into_iter().chain(alone) {
                // Cases on one paused runtime would advance each other's time.
                let report = report(theme, case, &Target::embedded(), &source).await;
                printer.print(report)?;
            }
            return printer.finish(None);
        };
        let target = Target::real(file).await?;
        let source = source(&self.controllers, self.log.as_ref());
        let needs_actors = |(_, case): &(_, &TestCase)| case.needs.contains(&CaseNeed::Actors);
        let _actors = match usual.iter().chain(&alone).any(needs_actors) {
            true => Some(target.actors().await?),
            false => None,
        };
        self.run_together(&usual, &target, &source, &mut printer)
            .await?;
        for (theme, case) in alone {
            printer.print(report(theme, case, &target, &source).await)?;
        }
        printer.finish(self.record.as_deref())
    }

    /// The need of a case that `--lacks` names.
    fn lacking(&self, case: &TestCase) -> Option<CaseNeed> {
        let lacks = self.lacks.as_deref()?;
        let mut needs = case.needs.iter().copied();
        needs.find(|need| format!("{need:?}") == lacks)
    }

    /// Runs several cases at a time, with the same controllers for all.
    async fn run_together(
        &self,
        cases: &[(&'static CaseTheme, &'static TestCase)],
        target: &Target,
        source: &ControllerSource,
        printer: &mut ReportPrinter,
    ) -> anyhow::Result<()> {
        let env = match source {
            ControllerSource::Program { .. } if !cases.is_empty() => {
                let env = Environment::new(target, source, "controllers-run".to_owned()).await;
                env.start_controllers().await.map_err(anyhow::Error::msg)?;
                Some(env)
            }
            _ => None,
        };
        let runs = cases
            .iter()
            .map(|(theme, case)| report(theme, case, target, &ControllerSource::Running));
        let mut runs = futures::stream::iter(runs).buffered(self.jobs.max(1));
        while let Some(report) = runs.next().await {
            printer.print(report)?;
            if let Some(env) = &env {
                env.check_running().map_err(anyhow::Error::msg)?;
            }
        }
        if let Some(env) = env {
            env.clean_up().await;
        }
        Ok(())
    }
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

async fn report(
    theme: &'static CaseTheme,
    case: &'static TestCase,
    target: &Target,
    source: &ControllerSource,
) -> CaseReport {
    let started = Instant::now();
    let outcome = case.run(target, source).await;
    CaseReport {
        theme,
        case,
        outcome,
        secs: started.elapsed().as_secs_f64(),
    }
}

// === impl ReportPrinter ===

impl ReportPrinter {
    fn new(suite: &'static CaseSuite) -> Self {
        Self {
            suite,
            printed: 0,
            failed: 0,
            recorded: BTreeMap::new(),
        }
    }

    fn print(&mut self, report: CaseReport) -> std::io::Result<()> {
        let CaseReport { theme, case, .. } = report;
        self.printed += 1;
        let mut line = json!({
            "suite": self.suite.name, "theme": theme.name, "name": case.name, "deviation": case.deviation,
            "secs": report.secs,
        });
        match report.outcome {
            CaseOutcome::Passed => line["passed"] = true.into(),
            CaseOutcome::Skipped(need) => line["skipped"] = format!("{need:?}").into(),
            CaseOutcome::Recorded(transcript) => {
                line["transcript"] = transcript.clone().into();
                let recorded = self.recorded.entry(theme.name).or_default();
                recorded.push((case.name.to_owned(), transcript));
            }
            CaseOutcome::Failed(why) => {
                self.failed += 1;
                line["failed"] = why.into();
            }
        }
        writeln!(std::io::stdout().lock(), "{line}")
    }

    /// Freezes transcripts if wanted, and prints the number of cases, by which a truncated output is recognised.
    fn finish(&self, record: Option<&Path>) -> anyhow::Result<ExitCode> {
        if let Some(directory) = record {
            for (theme, transcripts) in &self.recorded {
                let file = directory.join(format!("{theme}.json"));
                std::fs::write(&file, transcript::written(transcripts))
                    .with_context(|| file.display().to_string())?;
            }
        }
        let line = json!({"suite": self.suite.name, "cases": self.printed, "failed": self.failed});
        writeln!(std::io::stdout().lock(), "{line}")?;
        Ok(ExitCode::from(u8::from(self.failed > 0)))
    }
}

// === impl RandomArgs ===

impl RandomArgs {
    /// Runs all scripts, then prints their number.
    async fn run(&self) -> anyhow::Result<()> {
        let target = Target::real(&self.kubeconfig).await?;
        let source = source(&self.controllers, self.log.as_ref());
        let runner = ScriptRunner::start(&target, &source).await;
        let mut runner = runner.map_err(anyhow::Error::msg)?;
        let seeds = self.seeds.range();
        let script = |seed| OwnershipScript::of(seed, ScriptShape::LARGE);
        let scripts: Vec<OwnershipScript> = seeds.map(script).collect();
        for group in scripts.chunks(self.jobs.max(1)) {
            let ends = runner.run(group).await.map_err(anyhow::Error::msg)?;
            for (script, ends) in group.iter().zip(&ends) {
                writeln!(std::io::stdout().lock(), "{}", ended(script, ends))?;
            }
        }
        let line = json!({"scripts": scripts.len()});
        writeln!(std::io::stdout().lock(), "{line}")?;
        Ok(())
    }
}

/// The line about a script. `must` has a `?` where the model calls the end a race; `was` is the actual end.
fn ended(script: &OwnershipScript, ends: &[ObjectEnd]) -> Value {
    let expected = model::expected(script, ModelScope::Both);
    let (mut left, mut unlike) = (serde_json::Map::new(), Vec::new());
    for (number, (expected, end)) in expected.iter().zip(ends).enumerate() {
        let name = script.name(number);
        unlike.extend(expected.difference(end).map(|why| format!("{name}: {why}")));
        left.insert(name, left_of(expected, end));
    }
    let races = expected.iter().filter(|own| own.presence.is_none()).count();
    json!({
        "seed": script.seed, "objects": ends.len(), "races": races, "left": left, "unlike": unlike,
        "script": script.to_string(),
    })
}

fn left_of(expected: &ExpectedEnd, end: &ObjectEnd) -> Value {
    let shown = |is_determined: bool, text: String| match is_determined {
        true => text,
        false => "?".to_owned(),
    };
    let text = [
        shown(expected.presence.is_some(), format!("{:?}", end.presence)),
        shown(
            expected.finalizers.is_some(),
            format!("{:?}", end.finalizers),
        ),
        shown(
            expected.references.is_some(),
            format!("{:?}", end.references),
        ),
    ];
    json!({"must": text.join(" "), "was": format!("{:?} {:?} {:?}", end.presence, end.finalizers, end.references)})
}

// === impl SchemaArgs ===

impl SchemaArgs {
    /// Runs every case on both servers; prints a line for each, then their number.
    async fn run(&self) -> anyhow::Result<()> {
        let real = Target::real(&self.kubeconfig).await?;
        let seeds = self.seeds.range();
        let lines = seeds.map(|seed| compared(SchemaCase::of(seed), &real));
        let mut lines = futures::stream::iter(lines).buffered(self.jobs.max(1));
        let mut cases = 0;
        while let Some(line) = lines.next().await {
            writeln!(std::io::stdout().lock(), "{line}")?;
            cases += 1;
        }
        writeln!(std::io::stdout().lock(), "{}", json!({"cases": cases}))?;
        Ok(())
    }
}

/// The line about a case: where the answers of the two servers differ.
async fn compared(case: SchemaCase, real: &Target) -> Value {
    let (real, ours) = (case.run(real).await, case.run(&Target::embedded()).await);
    let pairs = real.iter().zip(&ours).enumerate();
    let unlike: Vec<Value> = pairs
        .filter(|(_, (real, ours))| real != ours)
        .map(|(number, (real, ours))| json!({"answer": number, "real": real, "ours": ours}))
        .collect();
    let codes = |code: u64| real.iter().filter(|answer| answer["code"] == code).count();
    let mut line = json!({
        "seed": case.seed, "answers": real.len(), "taken": codes(200) + codes(201), "invalid": codes(422), "unlike": unlike,
    });
    if real.len() != ours.len() || !unlike.is_empty() {
        line["schema"] = case.schema;
        line["lengths"] = json!([real.len(), ours.len()]);
    }
    line
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

// === impl CompareArgs ===

impl CompareArgs {
    /// Prints every difference that is not allowed, then one line of JSON: the numbers, the needs for which cases were
    /// skipped, and the cases whose frozen transcript is not the real server's current one.
    fn run(&self) -> anyhow::Result<ExitCode> {
        let file = self.data.join("allowed.txt");
        let allowed = AllowedDifferences::parse(&read(&file)?)
            .map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))?;
        let (real, ours, frozen) = (reported(&self.real)?, reported(&self.ours)?, self.frozen()?);
        let (mut equal, mut meant, mut different) = (0, 0, 0);
        let (mut skipped, mut stale) = (BTreeMap::<&str, usize>::new(), Vec::new());
        for (name, real) in &real {
            if let Ok(real) = real
                && frozen.get(name) != Some(real)
            {
                stale.push(name);
            }
            let ours = ours
                .get(name)
                .with_context(|| format!("{name} ran on one server only"))?;
            let (real, ours) = match (real, ours) {
                (Ok(real), Ok(ours)) => (real, ours),
                (Err(word), _) | (_, Err(word)) => {
                    *skipped.entry(word).or_default() += 1;
                    continue;
                }
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
        let summary = json!({
            "checks": real.len(), "equal": equal, "allowed": meant, "different": different,
            "skipped": skipped, "stale": stale,
        });
        println!("{summary}");
        Ok(ExitCode::from(u8::from(different > 0)))
    }

    /// The frozen transcripts of all themes, by case.
    fn frozen(&self) -> anyhow::Result<BTreeMap<String, Vec<Value>>> {
        let mut all = BTreeMap::new();
        for entry in
            std::fs::read_dir(&self.data).with_context(|| self.data.display().to_string())?
        {
            let file = entry?.path();
            if file
                .extension()
                .is_some_and(|extension| extension == "json")
            {
                all.extend(
                    transcript::read(&read(&file)?).with_context(|| file.display().to_string())?,
                );
            }
        }
        Ok(all)
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| file.display().to_string())
}

/// The transcripts of an output, by case; its last line is about no case.
fn reported(file: &Path) -> anyhow::Result<BTreeMap<String, ReportedTranscript>> {
    let mut all = BTreeMap::new();
    for line in read(file)?.lines() {
        let line: Value = serde_json::from_str(line).with_context(|| file.display().to_string())?;
        let Some(name) = line["name"].as_str() else {
            continue;
        };
        let word = line["skipped"].as_str().unwrap_or_default().to_owned();
        all.insert(
            name.to_owned(),
            line["transcript"].as_array().cloned().ok_or(word),
        );
    }
    Ok(all)
}
