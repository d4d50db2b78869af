//! The garbage collectors beside each other: cascades in four shapes, and the time and memory of a graph.
//!
//! A case is a workload under one setting of the limits; it runs in legs, A-B-B-A, each on a new real server. `gc/leg`
//! runs a leg, `gc/budgets` holds the bounds on its figures.

mod budgets;
mod leg;

use anyhow::Result;
use clap::ValueEnum;
use serde::Deserialize;

use super::grouped;
use super::peers::{RequestLimit, SubjectSettings};
use super::run::{BenchKit, BenchReport, BenchRun, Measurable, driver, settle};

/// Dependents where both run at their defaults: the Go program takes a minute at its rate limit.
const OBJECTS_AT_DEFAULTS: usize = 1_000;
/// Dependents in the other modes.
const OBJECTS: usize = 5_000;
/// Objects that exist before a measured start.
const OBJECTS_AT_START: usize = 50_000;
/// Objects whose memory is measured in the driver's own process.
pub const OBJECTS_IN_MEMORY: u32 = 200_000;
/// Dependents of one owner, or links of one chain.
const FAN: usize = 500;
/// Requests per second of both programs where the budget is equal.
pub const REQUEST_BUDGET: u32 = 400;
/// Requests in flight where only workers limit; each side counts with its best number.
pub const WORKERS: [u32; 2] = [20, 100];

/// The load on the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GcWorkload {
    /// Owners with 500 dependents each, deleted in the background
    Flat,
    /// Chains of 500 links, deleted in the background from their first
    Chain,
    /// Owners with 500 dependents each, deleted in the foreground
    Foreground,
    /// Owners with 500 dependents each, which stay
    Orphan,
    /// A start with objects that exist already
    Start,
}

/// The limit of the collectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GcMode {
    /// Their own defaults, which for the Go program is a rate limit
    Defaults,
    /// The same number of requests per second for both
    Equal,
    /// Only the number of workers
    Unlimited,
}

/// The choices of the command line.
#[derive(Clone, Debug)]
pub struct GcBenchOptions {
    /// Only these workloads; all of them if none is named.
    pub workloads: Vec<GcWorkload>,
    /// Only these modes; all of them if none is named.
    pub modes: Vec<GcMode>,
    /// Objects in every case, instead of its own number.
    pub objects: Option<usize>,
    /// Numbers of workers where only workers limit.
    pub workers: Vec<u32>,
    /// Requests per second where the budget is equal.
    pub budget: u32,
    pub run: BenchRun,
}

/// One workload under one setting.
#[derive(Clone, Copy, Debug)]
struct GcCase {
    workload: GcWorkload,
    mode: GcMode,
    objects: usize,
    settings: SubjectSettings,
}

/// The memory of a graph in the driver's own process.
#[derive(Debug, Deserialize)]
pub struct GraphMemoryOutput {
    pub count: u64,
    pub bytes_per_object: f64,
}

/// Measures both collectors.
pub fn gc(wanted: &GcBenchOptions) -> Result<BenchReport> {
    let cases = wanted.run.choose(cases(wanted))?;
    let kit = BenchKit::build("gc", &wanted.run)?;
    let results = kit.measure(&cases, |case, stand| {
        leg::CascadeLeg::new(stand, case).measure()
    })?;
    let verdicts = budgets::verdicts(&cases, &results);
    let notes = budgets::notes(wanted, &cases, &results);
    Ok(kit.report(&cases, &results, verdicts, notes))
}

/// Measures the memory of each object in the collector's graph, in the driver's own process.
pub fn memory(objects: u32, is_quick: bool) -> Result<GraphMemoryOutput> {
    driver(is_quick)?.alone(&format!("graph-memory --objects {objects}"))
}

// === impl GcCase ===

impl Measurable for GcCase {
    fn title(&self) -> String {
        let Self {
            workload,
            mode,
            settings,
            ..
        } = self;
        let (what, objects) = (workload.word(), grouped(&self.objects.to_string()));
        if *workload == GcWorkload::Start {
            return format!("{what} at {objects}");
        }
        let workers = settings.workers;
        let workers = workers.map_or_else(String::new, |workers| format!(", {workers} workers"));
        format!("{what} {objects}, {}{workers}", mode.word())
    }
}

impl GcCase {
    /// The number of owners, and of dependents of each owner.
    fn family(&self) -> (usize, usize) {
        let owners = self.objects.div_ceil(FAN).max(1);
        (owners, self.objects / owners)
    }

    /// The number of all dependents.
    fn dependents(&self) -> usize {
        let (owners, dependents) = self.family();
        owners * dependents
    }
}

// === impl GcWorkload ===

impl GcWorkload {
    /// All workloads, in the order in which they run.
    const ALL: [Self; 5] = [
        Self::Flat,
        Self::Chain,
        Self::Foreground,
        Self::Orphan,
        Self::Start,
    ];

    fn word(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Chain => "chain",
            Self::Foreground => "foreground",
            Self::Orphan => "orphan",
            Self::Start => "start",
        }
    }

    /// The `--shape` and `--policy` of the driver.
    fn shape_and_policy(self) -> (&'static str, &'static str) {
        match self {
            Self::Flat | Self::Start => ("flat", "background"),
            Self::Chain => ("chain", "background"),
            Self::Foreground => ("flat", "foreground"),
            Self::Orphan => ("flat", "orphan"),
        }
    }
}

// === impl GcMode ===

impl GcMode {
    fn word(self) -> &'static str {
        match self {
            Self::Defaults => "defaults",
            Self::Equal => "equal budget",
            Self::Unlimited => "unlimited",
        }
    }
}

/// The cases of a run: at defaults only the flat one, because that rate limit makes each case take minutes.
fn cases(wanted: &GcBenchOptions) -> Vec<GcCase> {
    let all = |mode, objects, settings| {
        GcWorkload::ALL.map(|workload| GcCase {
            workload,
            mode,
            objects: wanted.objects.unwrap_or(objects),
            settings,
        })
    };
    let settings = |limit, workers| SubjectSettings { limit, workers };
    let budget = RequestLimit::PerSecond(f64::from(wanted.budget));
    let mut cases = Vec::new();
    let [flat, ..] = all(
        GcMode::Defaults,
        OBJECTS_AT_DEFAULTS,
        settings(RequestLimit::Default, None),
    );
    cases.push(flat);
    let [equal @ .., _] = all(GcMode::Equal, OBJECTS, settings(budget, None));
    cases.extend(equal);
    // As far as is known the Go program is at its best with the most workers; one shape is enough to check it.
    let most = wanted.workers.iter().max();
    for workers in &wanted.workers {
        let settings = settings(RequestLimit::None, Some(*workers));
        let [flat, others @ .., _] = all(GcMode::Unlimited, OBJECTS, settings);
        cases.push(flat);
        cases.extend(others.into_iter().filter(|_| Some(workers) == most));
    }
    let [.., start] = all(
        GcMode::Unlimited,
        OBJECTS_AT_START,
        settings(RequestLimit::None, None),
    );
    cases.push(start);
    cases.retain(|case| {
        let is_workload = wanted.workloads.is_empty() || wanted.workloads.contains(&case.workload);
        let is_mode = wanted.modes.is_empty() || wanted.modes.contains(&case.mode);
        is_workload && is_mode
    });
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> GcBenchOptions {
        GcBenchOptions {
            workloads: Vec::new(),
            modes: Vec::new(),
            objects: None,
            workers: WORKERS.to_vec(),
            budget: REQUEST_BUDGET,
            run: BenchRun::quick("ABBA"),
        }
    }

    fn titles(wanted: &GcBenchOptions) -> Vec<String> {
        cases(wanted).iter().map(GcCase::title).collect()
    }

    #[test]
    fn all_cases_run_without_a_choice() {
        let titles = titles(&wanted());
        assert_eq!(titles.len(), 1 + 4 + 1 + 4 + 1, "{titles:?}");
        assert_eq!(titles[9], "orphan 5,000, unlimited, 100 workers");
    }

    #[test]
    fn choices_narrow_the_cases() {
        let chosen = GcBenchOptions {
            workloads: vec![GcWorkload::Chain, GcWorkload::Start],
            modes: vec![GcMode::Unlimited],
            objects: Some(200),
            workers: vec![7],
            ..wanted()
        };
        assert_eq!(
            titles(&chosen),
            ["chain 200, unlimited, 7 workers", "start at 200"]
        );
        let none = GcBenchOptions {
            workloads: vec![GcWorkload::Start],
            modes: vec![GcMode::Equal],
            ..wanted()
        };
        assert_eq!(titles(&none), [""; 0]);
    }

    #[test]
    fn a_family_has_the_dependents_of_its_case() {
        let table = [(5_000, (10, 500)), (1_000, (2, 500)), (200, (1, 200))];
        for (objects, family) in table {
            let wanted = GcBenchOptions {
                objects: Some(objects),
                ..wanted()
            };
            let case = cases(&wanted)[0];
            assert_eq!(case.family(), family);
            assert_eq!(case.dependents(), objects);
        }
    }
}
