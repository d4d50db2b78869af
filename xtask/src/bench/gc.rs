//! The garbage collectors beside each other: cascades in four shapes, and the time and memory a graph takes.
//!
//! A case is a workload under one setting of the limits; each case runs in legs, A-B-B-A, on a fresh real server each.
//! What a leg does and counts stands in `gc/leg`, what the numbers have to be in `gc/budgets`.

mod budgets;
mod leg;

use anyhow::Result;
use clap::ValueEnum;
use serde::Deserialize;

use super::grouped;
use super::peers::{Limit, Settings};
use super::run::{Kit, Measurable, Report, Run, driver, settle};

/// Dependents where both run at their defaults: the Go program's take a minute at its rate limit.
const OBJECTS_AT_DEFAULTS: usize = 1_000;
/// Dependents otherwise.
const OBJECTS: usize = 5_000;
/// Objects in the graph that a start has to learn.
const OBJECTS_AT_START: usize = 50_000;
/// Objects whose memory is measured in the driver's own process.
pub const OBJECTS_IN_MEMORY: u32 = 200_000;
/// Dependents of one owner, or links of one chain.
const FAN: usize = 500;
/// What both may ask of the server each second where the budget is equal.
pub const REQUEST_BUDGET: u32 = 400;
/// Requests under way at once where nothing else limits; the Go program gets the best of these where all are tried.
pub const WORKERS: [u32; 2] = [20, 100];

/// What is done to the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Owners with 500 dependents each, deleted in the background
    Flat,
    /// Chains of 500 links, deleted in the background from their first
    Chain,
    /// Owners with 500 dependents each, deleted in the foreground
    Foreground,
    /// Owners with 500 dependents each, which stay
    Orphan,
    /// A start beside objects that are there already
    Start,
}

/// What limits the collectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Their own defaults, which for the Go program is a rate limit
    Defaults,
    /// So many requests each second, the same for both
    Equal,
    /// Only the number of workers
    Unlimited,
}

/// How much is measured.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Only these workloads; all of them if none is named.
    pub workloads: Vec<Workload>,
    /// Only these modes; all of them if none is named.
    pub modes: Vec<Mode>,
    /// So many objects in every case, instead of each case's own number.
    pub objects: Option<usize>,
    /// Numbers of workers where nothing else limits.
    pub workers: Vec<u32>,
    /// Requests each second where the budget is equal.
    pub budget: u32,
    /// How.
    pub run: Run,
}

/// One workload under one setting.
#[derive(Clone, Copy, Debug)]
struct Case {
    workload: Workload,
    mode: Mode,
    objects: usize,
    settings: Settings,
}

/// What holding a graph in the driver's own process came to.
#[derive(Debug, Deserialize)]
pub struct Held {
    /// Objects held.
    pub count: u64,
    /// Resident memory for each of them, in bytes.
    pub bytes_per_object: f64,
}

/// Measures both collectors.
pub fn gc(wanted: &Wanted) -> Result<Report> {
    let cases = wanted.run.choose(cases(wanted))?;
    let kit = Kit::build("gc", &wanted.run)?;
    let results = kit.measure(&cases, |case, stand| leg::Leg::new(stand, case).measure())?;
    let verdicts = budgets::verdicts(&cases, &results);
    let notes = budgets::notes(wanted, &cases, &results);
    Ok(kit.report(&cases, &results, verdicts, notes))
}

/// Measures, in the driver's own process, what each object takes in the collector's graph.
pub fn memory(objects: u32, is_quick: bool) -> Result<Held> {
    driver(is_quick)?.alone(&format!("graph-memory --objects {objects}"))
}

// === impl Case ===

impl Measurable for Case {
    fn title(&self) -> String {
        let Self {
            workload,
            mode,
            settings,
            ..
        } = self;
        let (what, objects) = (workload.word(), grouped(&self.objects.to_string()));
        if *workload == Workload::Start {
            return format!("{what} at {objects}");
        }
        let workers = settings.workers;
        let workers = workers.map_or_else(String::new, |workers| format!(", {workers} workers"));
        format!("{what} {objects}, {}{workers}", mode.word())
    }
}

impl Case {
    /// How many owners, and how many dependents each of them has.
    fn family(&self) -> (usize, usize) {
        let owners = self.objects.div_ceil(FAN).max(1);
        (owners, self.objects / owners)
    }

    /// How many dependents there are in all.
    fn dependents(&self) -> usize {
        let (owners, dependents) = self.family();
        owners * dependents
    }
}

// === impl Workload ===

impl Workload {
    /// All of them, in the order in which they run.
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

// === impl Mode ===

impl Mode {
    fn word(self) -> &'static str {
        match self {
            Self::Defaults => "defaults",
            Self::Equal => "equal budget",
            Self::Unlimited => "unlimited",
        }
    }
}

/// The cases of a run: at defaults only the plain one, because at that rate limit everything takes minutes.
fn cases(wanted: &Wanted) -> Vec<Case> {
    let all = |mode, objects, settings| {
        Workload::ALL.map(|workload| Case {
            workload,
            mode,
            objects: wanted.objects.unwrap_or(objects),
            settings,
        })
    };
    let settings = |limit, workers| Settings { limit, workers };
    let budget = Limit::PerSecond(f64::from(wanted.budget));
    let mut cases = Vec::new();
    let [flat, ..] = all(
        Mode::Defaults,
        OBJECTS_AT_DEFAULTS,
        settings(Limit::Default, None),
    );
    cases.push(flat);
    let [equal @ .., _] = all(Mode::Equal, OBJECTS, settings(budget, None));
    cases.extend(equal);
    // The most workers are the Go program's best, as far as is known; to make sure of it for one shape is enough.
    let most = wanted.workers.iter().max();
    for workers in &wanted.workers {
        let settings = settings(Limit::None, Some(*workers));
        let [flat, others @ .., _] = all(Mode::Unlimited, OBJECTS, settings);
        cases.push(flat);
        cases.extend(others.into_iter().filter(|_| Some(workers) == most));
    }
    let [.., start] = all(
        Mode::Unlimited,
        OBJECTS_AT_START,
        settings(Limit::None, None),
    );
    cases.push(start);
    cases.retain(|case| {
        let is_in = |chosen: bool, none: bool| chosen || none;
        is_in(
            wanted.workloads.contains(&case.workload),
            wanted.workloads.is_empty(),
        ) && is_in(wanted.modes.contains(&case.mode), wanted.modes.is_empty())
    });
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> Wanted {
        Wanted {
            workloads: Vec::new(),
            modes: Vec::new(),
            objects: None,
            workers: WORKERS.to_vec(),
            budget: REQUEST_BUDGET,
            run: Run {
                legs: "ABBA".parse().unwrap(),
                only: None,
                csv: None,
                is_quick: true,
                is_rehearsal: true,
            },
        }
    }

    fn titles(wanted: &Wanted) -> Vec<String> {
        cases(wanted).iter().map(Case::title).collect()
    }

    #[test]
    fn without_a_choice_every_case_runs_and_defaults_only_once() {
        let titles = titles(&wanted());
        assert_eq!(titles.len(), 1 + 4 + 1 + 4 + 1, "{titles:?}");
        assert_eq!(titles[0], "flat 1,000, defaults");
        assert_eq!(titles[1], "flat 5,000, equal budget");
        assert_eq!(titles[5], "flat 5,000, unlimited, 20 workers");
        assert_eq!(titles[9], "orphan 5,000, unlimited, 100 workers");
        assert_eq!(titles[10], "start at 50,000");
    }

    #[test]
    fn a_choice_of_workloads_modes_and_numbers_narrows_the_cases() {
        let chosen = Wanted {
            workloads: vec![Workload::Chain, Workload::Start],
            modes: vec![Mode::Unlimited],
            objects: Some(200),
            workers: vec![7],
            ..wanted()
        };
        assert_eq!(
            titles(&chosen),
            ["chain 200, unlimited, 7 workers", "start at 200"]
        );
        let none = Wanted {
            workloads: vec![Workload::Start],
            modes: vec![Mode::Equal],
            ..wanted()
        };
        assert_eq!(titles(&none), [""; 0]);
    }

    #[test]
    fn a_family_has_as_many_dependents_as_the_case_says() {
        let table = [(5_000, (10, 500)), (1_000, (2, 500)), (200, (1, 200))];
        for (objects, family) in table {
            let wanted = Wanted {
                objects: Some(objects),
                ..wanted()
            };
            let case = cases(&wanted)[0];
            assert_eq!(case.family(), family);
            assert_eq!(case.dependents(), objects);
        }
    }
}
