//! Runs a suite on one server and prints what was answered, or compares what two servers answered.
//!
//! `suites api` prints one JSON line per scenario; `suites compare` reads two such outputs. `cargo xtask conformance` does
//! the one on two servers and then the other. `suites api --record` freezes the answers of the real server for `cargo test`.
//! `suites cron`, `suites gc`, `suites podgc` and `suites ttl` play with whatever controllers they are given and print one JSON line per
//! play: how it ended, and why.
//! `suites workloads` does the same beside simulated Nodes and workloads.
//! `suites schema` sends random schemas and objects to two servers and prints where they disagree.
//! `suites gc-random` performs random scripts with it and prints one JSON line per script: what was left.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use caretaker_testbed::collector::Collector;
use caretaker_testbed::compare::{Allowed, differences};
use caretaker_testbed::schemas::Case;
use caretaker_testbed::script::Script;
use caretaker_testbed::script::model::{self, End, Expected};
use caretaker_testbed::script::perform::Theatre;
use caretaker_testbed::suites::stage::Stage;
use caretaker_testbed::suites::{
    Ending, Need, Outcome, Play, Scenario, Theme, api, cron, gc, podgc, ttl, workloads,
};
use caretaker_testbed::target::Target;
use caretaker_testbed::transcript;
use clap::{Args, Parser, Subcommand};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::time::Instant;

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
    /// Ownership, cascades, orphans and waiting owners, with a garbage collector
    Gc(Plays),
    /// Pods that have terminated, lost their Node or were never bound, with Pod GC and a garbage collector
    Podgc(Plays),
    /// CronJobs of both kinds, with CronJob and TTL controllers and a garbage collector
    Cron(Plays),
    /// The TTL of finished Jobs, with TTL controllers and a garbage collector
    Ttl(Plays),
    /// Random objects with random owners, deleted at random, with a garbage collector
    GcRandom(GcRandom),
    /// Random schemas and objects, on the embedded server and on another one
    Schema(Schemas),
    /// Simulated Pods, Deployments and Jobs, also of Volcano, with a garbage collector; the actors run in this process
    Workloads(Plays),
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
struct Plays {
    /// The server: the current context of this kubeconfig
    #[arg(long, required_unless_present = "embedded")]
    kubeconfig: Option<PathBuf>,
    /// The server: a new embedded one for every play, on paused time, with our collector in process
    #[arg(long, conflicts_with_all = ["kubeconfig", "collector", "log"])]
    embedded: bool,
    /// Only plays whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// What the controllers do not have, so that plays that need it are skipped: the name of a need
    #[arg(long)]
    lacks: Option<String>,
    /// Plays that run at the same time; those that start the collector themselves run alone
    #[arg(long, default_value_t = 8)]
    jobs: usize,
    /// Where the collector's output goes; without it to stderr
    #[arg(long)]
    log: Option<PathBuf>,
    /// The command that is the collector, started and killed here; without it one has to be running
    #[arg(last = true)]
    collector: Vec<String>,
}

#[derive(Args)]
struct GcRandom {
    /// The server: the current context of this kubeconfig; it keeps what is made
    #[arg(long)]
    kubeconfig: PathBuf,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many seeds
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Scripts that are performed at the same time
    #[arg(long, default_value_t = 50)]
    jobs: usize,
    /// Where the collector's output goes; without it to stderr
    #[arg(long)]
    log: Option<PathBuf>,
    /// The command that is the collector, started and killed here; without it one has to be running
    #[arg(last = true)]
    collector: Vec<String>,
}

#[derive(Args)]
struct Schemas {
    /// The other server: the current context of this kubeconfig
    #[arg(long)]
    kubeconfig: PathBuf,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many seeds
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Cases that are performed at the same time
    #[arg(long, default_value_t = 16)]
    jobs: usize,
}

#[derive(Args)]
struct Compare {
    /// What the real server answered
    real: PathBuf,
    /// What the server under test answered
    ours: PathBuf,
    /// Where the frozen answers are, and in `allowed.txt` the differences that are meant
    #[arg(long)]
    data: PathBuf,
}

/// How a play ended, and after how many seconds of the runtime's time.
struct Played {
    play: &'static Play,
    ending: Ending,
    secs: f64,
}

/// What is printed about plays.
struct Lines {
    suite: &'static str,
    said: usize,
    failed: usize,
}

/// What an output says of one scenario: its transcript, or the word why it was skipped.
type Said = Result<Vec<Value>, String>;

fn main() -> anyhow::Result<ExitCode> {
    match Cli::parse().command {
        Command::Api(run) => {
            runtime(run.embedded)?.block_on(run.suite("api", api::THEMES))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Cron(plays) => {
            let suite = plays.suite("cron", cron::PLAYS, cron::CONTROLLERS);
            runtime(plays.embedded)?.block_on(suite)
        }
        Command::Gc(plays) => runtime(plays.embedded)?.block_on(plays.suite("gc", gc::PLAYS, &[])),
        Command::Podgc(plays) => {
            let suite = plays.suite("podgc", podgc::PLAYS, podgc::CONTROLLERS);
            runtime(plays.embedded)?.block_on(suite)
        }
        Command::Ttl(plays) => {
            let suite = plays.suite("ttl", ttl::PLAYS, ttl::CONTROLLERS);
            runtime(plays.embedded)?.block_on(suite)
        }
        Command::Workloads(plays) => {
            let suite = plays.suite("workloads", workloads::PLAYS, workloads::CONTROLLERS);
            runtime(plays.embedded)?.block_on(suite)
        }
        Command::GcRandom(random) => {
            runtime(false)?.block_on(random.run())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Schema(schemas) => {
            runtime(false)?.block_on(schemas.run())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Compare(compare) => compare.run(),
    }
}

/// The embedded server's time is paused: nobody waits for it.
fn runtime(embedded: bool) -> std::io::Result<Runtime> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(embedded).build()
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
            let chosen = theme
                .scenarios
                .iter()
                .filter(|s| s.name.contains(&self.only));
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
                std::fs::write(&file, transcript::written(&recorded))
                    .with_context(|| file.display().to_string())?;
            }
        }
        Ok(())
    }
}

async fn run<'s>(scenario: &'s Scenario, real: Option<&Target>) -> (&'s str, Outcome) {
    let target = real.cloned().unwrap_or_else(Target::embedded);
    (scenario.name, scenario.run(&target).await)
}

// === impl Plays ===

impl Plays {
    /// Plays everything; success means that nothing failed.
    async fn suite(
        &self,
        suite: &'static str,
        plays: &[&'static [Play]],
        others: &'static [&'static str],
    ) -> anyhow::Result<ExitCode> {
        let chosen = plays.iter().copied().flatten();
        let chosen = chosen.filter(|play| play.name.contains(&self.only));
        let (idle, chosen): (Vec<&Play>, Vec<&Play>) =
            chosen.partition(|play| self.lacking(play).is_some());
        let chosen = chosen.into_iter();
        let (fresh, usual): (Vec<&Play>, Vec<&Play>) = chosen.partition(|play| play.is_fresh());
        let mut lines = Lines {
            suite,
            said: 0,
            failed: 0,
        };
        let Some(file) = &self.kubeconfig else {
            let controllers = Collector::InProcess(others);
            for play in usual.into_iter().chain(fresh) {
                // Plays on one paused runtime would move each other's time.
                lines.say(&timed(play, &Target::embedded(), &controllers).await)?;
            }
            return Ok(lines.end()?);
        };
        let (target, collector) = (
            Target::real(file).await?,
            collector(&self.collector, self.log.as_ref()),
        );
        let has_actors = |play: &&&Play| play.needs.contains(&Need::Actors);
        let _actors = match usual.iter().chain(&fresh).any(|play| has_actors(&play)) {
            true => Some(target.actors().await?),
            false => None,
        };
        for play in idle {
            let need = self.lacking(play);
            let ending = need.map_or(Ending::Passed, Ending::Skipped);
            let secs = 0.0;
            lines.say(&Played { play, ending, secs })?;
        }
        if !usual.is_empty() {
            self.together(&usual, &target, &collector, &mut lines)
                .await?;
        }
        for play in fresh {
            lines.say(&timed(play, &target, &collector).await)?;
        }
        Ok(lines.end()?)
    }

    /// What a play needs that the controllers do not have.
    fn lacking(&self, play: &Play) -> Option<Need> {
        let lacks = self.lacks.as_deref()?;
        let mut needs = play.needs.iter().copied();
        needs.find(|need| format!("{need:?}") == lacks)
    }

    /// Plays several at a time, with one collector for all.
    async fn together(
        &self,
        plays: &[&'static Play],
        target: &Target,
        collector: &Collector,
        lines: &mut Lines,
    ) -> anyhow::Result<()> {
        let stage = Stage::set(target, collector, "collector-is-there".to_owned()).await;
        let mut played = stage.start_collector().await;
        let runs = plays
            .iter()
            .map(|play| timed(play, target, &Collector::Standing));
        let mut runs = futures::stream::iter(runs).buffered(self.jobs.max(1));
        while played.is_ok()
            && let Some(run) = runs.next().await
        {
            lines.say(&run)?;
            played = stage.still_collected();
        }
        stage.strike().await;
        played.map_err(anyhow::Error::msg)
    }
}

/// The collector that a command line names.
fn collector(line: &[String], log: Option<&PathBuf>) -> Collector {
    if line.is_empty() {
        return Collector::Standing;
    }
    Collector::Program {
        line: line.to_vec(),
        log: log.cloned(),
    }
}

// === impl GcRandom ===

impl GcRandom {
    /// Performs everything, then says how many scripts there were.
    async fn run(&self) -> anyhow::Result<()> {
        let target = Target::real(&self.kubeconfig).await?;
        let collector = collector(&self.collector, self.log.as_ref());
        let theatre = Theatre::open(&target, &collector).await;
        let mut theatre = theatre.map_err(anyhow::Error::msg)?;
        let seeds = self.seed..self.seed.saturating_add(self.seeds);
        let scripts: Vec<Script> = seeds.map(Script::of).collect();
        for group in scripts.chunks(self.jobs.max(1)) {
            let ends = theatre.perform(group).await.map_err(anyhow::Error::msg)?;
            for (script, ends) in group.iter().zip(&ends) {
                writeln!(std::io::stdout().lock(), "{}", ended(script, ends))?;
            }
        }
        let line = json!({"scripts": scripts.len()});
        writeln!(std::io::stdout().lock(), "{line}")?;
        Ok(())
    }
}

/// What was left of a script. What the model calls a race is `?`, because nobody has to do as somebody else did; how it
/// really ended is beside it.
fn ended(script: &Script, ends: &[End]) -> Value {
    let expected = model::expected(script);
    let (mut left, mut unlike) = (serde_json::Map::new(), Vec::new());
    for (number, (expected, end)) in expected.iter().zip(ends).enumerate() {
        let name = script.name(number);
        unlike.extend(expected.unlike(end).map(|why| format!("{name}: {why}")));
        left.insert(name, left_of(expected, end));
    }
    let races = expected.iter().filter(|own| own.is.is_none()).count();
    json!({
        "seed": script.seed, "objects": ends.len(), "races": races, "left": left, "unlike": unlike,
        "script": script.to_string(),
    })
}

fn left_of(expected: &Expected, end: &End) -> Value {
    let shown = |is_determined: bool, text: String| match is_determined {
        true => text,
        false => "?".to_owned(),
    };
    let text = [
        shown(expected.is.is_some(), format!("{:?}", end.is)),
        shown(
            expected.finalizers.is_some(),
            format!("{:?}", end.finalizers),
        ),
        shown(
            expected.references.is_some(),
            format!("{:?}", end.references),
        ),
    ];
    json!({"must": text.join(" "), "was": format!("{:?} {:?} {:?}", end.is, end.finalizers, end.references)})
}

// === impl Schemas ===

impl Schemas {
    /// Performs every case on both servers; one line for each, then how many there were.
    async fn run(&self) -> anyhow::Result<()> {
        let real = Target::real(&self.kubeconfig).await?;
        let seeds = self.seed..self.seed.saturating_add(self.seeds);
        let lines = seeds.map(|seed| compared(Case::of(seed), &real));
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

/// Where two servers say different things about a case.
async fn compared(case: Case, real: &Target) -> Value {
    let (real, ours) = (
        case.perform(real).await,
        case.perform(&Target::embedded()).await,
    );
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

// === impl Lines ===

impl Lines {
    fn say(&mut self, played: &Played) -> std::io::Result<()> {
        let Played { play, ending, secs } = played;
        self.said += 1;
        let mut line = json!({
            "suite": self.suite, "name": play.name, "deviation": play.deviation, "secs": secs,
        });
        match ending {
            Ending::Passed => line["passed"] = true.into(),
            Ending::Skipped(need) => line["skipped"] = format!("{need:?}").into(),
            Ending::Failed(why) => {
                self.failed += 1;
                line["failed"] = why.as_str().into();
            }
        }
        writeln!(std::io::stdout().lock(), "{line}")
    }

    /// Says how many there were, so that an output that was cut off is recognised.
    fn end(&self) -> std::io::Result<ExitCode> {
        let Self {
            suite,
            said,
            failed,
        } = self;
        let line = json!({"suite": suite, "plays": said, "failed": failed});
        writeln!(std::io::stdout().lock(), "{line}")?;
        Ok(ExitCode::from(u8::from(*failed > 0)))
    }
}

async fn timed(play: &'static Play, target: &Target, collector: &Collector) -> Played {
    let started = Instant::now();
    let ending = play.run(target, collector).await;
    let secs = started.elapsed().as_secs_f64();
    Played { play, ending, secs }
}

// === impl Compare ===

impl Compare {
    /// Prints every difference that is not allowed, then one line of JSON: the numbers, the words for what was skipped,
    /// and the scenarios whose frozen answers are not what the real server says now.
    fn run(&self) -> anyhow::Result<ExitCode> {
        let file = self.data.join("allowed.txt");
        let allowed = Allowed::parse(&read(&file)?)
            .map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))?;
        let (real, ours, frozen) = (said(&self.real)?, said(&self.ours)?, self.frozen()?);
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

    /// The frozen answers of all themes, by scenario.
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

/// What an output says, by scenario.
fn said(file: &Path) -> anyhow::Result<BTreeMap<String, Said>> {
    let mut all = BTreeMap::new();
    for line in read(file)?.lines() {
        let line: Value = serde_json::from_str(line).with_context(|| file.display().to_string())?;
        let name = line["name"].as_str().unwrap_or_default().to_owned();
        let word = line["skipped"].as_str().unwrap_or_default().to_owned();
        all.insert(name, line["transcript"].as_array().cloned().ok_or(word));
    }
    Ok(all)
}
