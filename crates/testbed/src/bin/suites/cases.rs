//! `suites api`, `gc` and the other suites of named cases: runs the cases and prints their outcomes.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use caretaker_testbed::case::{CaseNeed, CaseOutcome, TestCase};
use caretaker_testbed::controllers::ControllerSource;
use caretaker_testbed::environment::Environment;
use caretaker_testbed::suites::{CaseSuite, CaseTheme};
use caretaker_testbed::target::Target;
use caretaker_testbed::transcript;
use clap::Args;
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::source;

#[derive(Args)]
pub(super) struct SuiteArgs {
    /// The server: the current context of this kubeconfig
    #[arg(long, required_unless_present = "embedded")]
    kubeconfig: Option<PathBuf>,
    /// The server: a new embedded one for every case, on paused time, with our controllers in process
    #[arg(long, conflicts_with_all = ["kubeconfig", "record", "controllers", "log"])]
    pub(super) embedded: bool,
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

// === impl SuiteArgs ===

impl SuiteArgs {
    /// Runs all cases; the exit code says whether one failed.
    pub(super) async fn run(&self, suite: &'static CaseSuite) -> anyhow::Result<ExitCode> {
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
