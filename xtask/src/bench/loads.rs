//! One leg of a case: the program under test, the load, and the figures of both.
//!
//! A timed load makes objects beside the running program, with a time that lies behind the last of them, so the cost of
//! the servers includes making them. Pods are made before the program starts, because its first round comes at once; the
//! driver watches while it starts. Their time counts from the first Pod that goes to the last: the interval of the rounds
//! and the quarantine are the same for both programs and are not measured.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;

use super::cases::{BenchCase, LATENESS_P99};
use super::peers::POD_GC_KEEPS;
use super::run::settle;
use super::stand::{BenchStand, PhaseWork, SETTLE};
use super::{BenchFigure, FigureUnit};

const NAMESPACE: &str = "bench";
/// Clients that make the objects.
const MAKERS: usize = 32;
/// Objects that the makers create per second, at the least; the time of the objects comes when all exist.
const MADE_PER_SEC: usize = 100;
/// Time for the program to see the object made last.
const SPARE_SECS: usize = 15;
/// A Node that does not exist.
const MISSING_NODE: &str = "gone";
/// Time of the driver to begin to watch before the program starts.
const WATCHING: Duration = Duration::from_secs(3);

pub(super) const PODS_RATE: &str = "Pods/s";

/// The load of a case.
#[derive(Clone, Copy, Debug)]
pub(super) enum CaseLoad {
    Timed(TimedLoad),
    Pods(PodCause),
}

/// Objects on which a controller acts when their time comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimedLoad {
    /// The command of the driver.
    pub(super) command: &'static str,
    /// Further arguments of the driver, after a space.
    pub(super) more: &'static str,
    /// The word for one act in figures.
    pub(super) each: &'static str,
    /// The kinds on which only the program and the driver act.
    pub(super) kinds: &'static [&'static str],
}

/// Why Pod GC deletes the Pods.
#[derive(Clone, Copy, Debug)]
pub(super) enum PodCause {
    Terminated,
    NodeMissing,
}

/// The output of the driver's `cron-run` and `ttl-run`.
#[derive(Debug, Deserialize)]
struct TimedOutput {
    count: usize,
    secs: f64,
    p50_secs: f64,
    p99_secs: f64,
    max_secs: f64,
    early: usize,
    /// Only of controllers that make objects.
    duplicates: Option<usize>,
    own_requests: BTreeMap<String, f64>,
    making_secs: f64,
    cpu_secs: f64,
}

/// The output of the driver's `pods-run`.
#[derive(Debug, Deserialize)]
struct PodsOutput {
    count: usize,
    secs: f64,
    first_secs: f64,
    own_requests: BTreeMap<String, f64>,
    cpu_secs: f64,
}

// === impl CaseLoad ===

impl CaseLoad {
    /// Runs one leg on a stand and ends its server.
    pub(super) fn measure(
        &self,
        case: &BenchCase,
        stand: BenchStand<'_>,
    ) -> Result<Vec<BenchFigure>> {
        match self {
            Self::Timed(load) => load.measure(case, stand),
            Self::Pods(cause) => cause.measure(case, stand),
        }
    }
}

// === impl TimedLoad ===

impl TimedLoad {
    fn measure(&self, case: &BenchCase, mut stand: BenchStand<'_>) -> Result<Vec<BenchFigure>> {
        if !case.subject.has_peer {
            stand.drive::<()>("volcano-install")?;
        }
        let program = stand.start(case.subject, case.settings)?;
        settle(SETTLE)?;
        let phase = stand.begin(Some(&program))?;
        let output: TimedOutput = stand.drive(&self.args(case))?;
        let rate = output.count as f64 / output.secs;
        stand.figure("lateness, p50", output.p50_secs, FigureUnit::Seconds);
        stand.figure(LATENESS_P99, output.p99_secs, FigureUnit::Seconds);
        stand.figure("lateness, max", output.max_secs, FigureUnit::Seconds);
        stand.figure("before their time", output.early as f64, FigureUnit::Count);
        if let Some(duplicates) = output.duplicates {
            stand.figure("duplicates", duplicates as f64, FigureUnit::Count);
        }
        stand.figure(format!("{}s/s", self.each), rate, FigureUnit::PerSecond);
        let work = PhaseWork {
            count: output.count,
            each: self.each,
            secs: output.secs,
            kinds: self.kinds,
            own_requests: &output.own_requests,
            driver_secs: output.cpu_secs,
            making_secs: output.making_secs,
        };
        stand.end(&phase, &work, &program)?;
        drop(program);
        stand.close()
    }

    /// The arguments of the driver.
    fn args(&self, case: &BenchCase) -> String {
        let (command, count, more) = (self.command, case.count, self.more);
        let lead = count.div_ceil(MADE_PER_SEC) + SPARE_SECS;
        let volcano = if case.subject.has_peer {
            ""
        } else {
            " --volcano"
        };
        format!(
            "{command} {NAMESPACE} --count {count} --lead {lead} --clients {MAKERS}{volcano}{more}"
        )
    }
}

// === impl PodCause ===

impl PodCause {
    fn measure(self, case: &BenchCase, mut stand: BenchStand<'_>) -> Result<Vec<BenchFigure>> {
        let (kept, node) = match self {
            Self::Terminated => (POD_GC_KEEPS, String::new()),
            Self::NodeMissing => (0, format!(" --node {MISSING_NODE}")),
        };
        let pods = case.count + kept;
        let plant = format!("pods-plant {NAMESPACE} --pods {pods}{node} --clients {MAKERS}");
        let _: usize = stand.drive(&plant)?;
        let phase = stand.begin(None)?;
        let watch = format!("pods-run {NAMESPACE} --left {kept}");
        let (output, program) = thread::scope(|scope| {
            let watching = scope.spawn(|| stand.drive::<PodsOutput>(&watch));
            settle(WATCHING)?;
            let program = stand.start(case.subject, case.settings)?;
            let output = watching.join().map_err(|_| anyhow!("the driver panicked"));
            anyhow::Ok((output?.context("the Pods were not deleted")?, program))
        })?;
        let rate = output.count as f64 / output.secs;
        stand.figure(PODS_RATE, rate, FigureUnit::PerSecond);
        stand.figure("first Pod after", output.first_secs, FigureUnit::Seconds);
        let work = PhaseWork {
            count: output.count,
            each: "Pod",
            secs: output.secs,
            kinds: &["pods", "nodes"],
            own_requests: &output.own_requests,
            driver_secs: output.cpu_secs,
            making_secs: 0.0,
        };
        stand.end(&phase, &work, &program)?;
        drop(program);
        stand.close()
    }
}
