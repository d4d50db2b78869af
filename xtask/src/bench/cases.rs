//! The cases of the benchmarks of controllers, as one table: the program under test, the load, the limit, the bounds.
//!
//! Volcano's rows run ours alone, because its Go program cannot be built from package registries. No program runs or
//! collects the Jobs: a Job deleted in the foreground stays, on both sides alike.

use clap::ValueEnum;

use super::bounds::FigureBound::{
    self, AtMost, AtMostTimesOwn, BestTimesPeer, PartOfPeer, TimesOwn, TimesPeer,
};
use super::leg::{
    BYTES_PER_OBJECT, EMPTY_BYTES, LATENESS_P99, OBJECT_RATE, PLAIN_RATE, POD_RATE, READY,
};
use super::peers::{
    BenchSubject, CRON, GARBAGE_COLLECTOR, POD_GC, SubjectSettings, TTL, VOLCANO_CRON, VOLCANO_TTL,
};
use super::run::BenchRun;
use super::stand::{PEAK_BYTES, REQUESTS_PER_OBJECT, SERVER_CPU, STEADY_BYTES};
use super::{FigureUnit, grouped};

/// Requests in flight of the CronJob controllers where only workers limit.
pub const CRON_WORKERS: u32 = 50;
/// Requests in flight of the TTL controllers where only workers limit.
pub const TTL_WORKERS: u32 = 20;
/// Requests in flight of the collectors where only workers limit; each side counts with its best number.
pub const GC_WORKERS: [u32; 2] = [20, 100];
/// Requests per second of both programs where the budget is equal.
pub const REQUEST_BUDGET: u32 = 400;

/// A benchmark whose cases are rows of this table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BenchTopic {
    /// Lateness of the Jobs of CronJobs whose schedule times fall into the same minute.
    Cron,
    /// Cascades in four shapes, and the time and memory of a graph.
    Gc,
    /// Rate of deletes of Pods that terminated beyond the threshold or whose Node does not exist.
    PodGc,
    /// Lateness of the deletes of finished Jobs that expire together, or one after the other.
    Ttl,
}

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

/// The limit of both programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LimitMode {
    /// Their own defaults, which for the Go program is a rate limit
    Defaults,
    /// The same number of requests per second for both
    Equal,
    /// Only the number of workers
    Unlimited,
}

/// The choices of the command line.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// Objects in every case, instead of the number in its row.
    pub count: Option<usize>,
    /// Numbers of workers where only workers limit.
    pub workers: Vec<u32>,
    /// Requests per second where the budget is equal.
    pub budget: u32,
    /// Only these workloads of the collector; all of them if none is named.
    pub workloads: Vec<GcWorkload>,
    /// Only these modes; all of them if none is named.
    pub modes: Vec<LimitMode>,
    pub run: BenchRun,
}

/// The load of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CaseLoad {
    Cascade(GcWorkload),
    /// CronJobs with a schedule time in the same minute.
    Ticks,
    /// Finished Jobs that expire this many seconds apart.
    Expiry(u32),
    TerminatedPods,
    PodsOnMissingNode,
}

/// The limit of the programs in a row.
#[derive(Clone, Copy, Debug)]
enum RowLimit {
    /// The defaults of each program.
    Defaults,
    /// The same number of requests per second.
    Equal,
    /// A case for each number of workers of the command line.
    EachWorkers,
    /// The largest number of workers of the command line.
    MostWorkers,
    /// A fixed number of workers.
    Workers(u32),
    /// No limit, and no flag for workers either.
    Unlimited,
}

/// One row of the table.
#[derive(Debug)]
pub(super) struct CaseRow {
    pub(super) subject: &'static BenchSubject,
    /// The title of its cases, with `#` for the number of objects and `@` for the limit.
    title: &'static str,
    count: usize,
    limit: RowLimit,
    pub(super) load: CaseLoad,
    pub(super) bounds: &'static [FigureBound],
}

/// A row with the choices of the command line applied.
#[derive(Clone, Copy, Debug)]
pub(super) struct BenchCase {
    pub(super) row: &'static CaseRow,
    pub(super) count: usize,
    pub(super) settings: SubjectSettings,
}

const ONE_REQUEST: FigureBound = AtMost(REQUESTS_PER_OBJECT, 1.05, FigureUnit::Count);
const FLAT: CaseLoad = CaseLoad::Cascade(GcWorkload::Flat);
const CHAIN: CaseLoad = CaseLoad::Cascade(GcWorkload::Chain);
const FOREGROUND: CaseLoad = CaseLoad::Cascade(GcWorkload::Foreground);
const ORPHAN: CaseLoad = CaseLoad::Cascade(GcWorkload::Orphan);
const AT_ONCE: CaseLoad = CaseLoad::Expiry(0);
const FOREGROUND_BOUNDS: &[FigureBound] = &[AtMost(REQUESTS_PER_OBJECT, 1.1, FigureUnit::Count)];

// At defaults only the flat cascade runs, because the rate limit of the Go program makes each case take minutes. As far
// as is known the Go program is at its best with the most workers; one shape is enough to check it.
#[rustfmt::skip]
static ROWS: [CaseRow; 24] = [
    row(&GARBAGE_COLLECTOR, "flat #, @", 1_000, RowLimit::Defaults, FLAT, &[ONE_REQUEST, TimesPeer(OBJECT_RATE, 25.0)]),
    row(&GARBAGE_COLLECTOR, "flat #, @", 5_000, RowLimit::Equal, FLAT, &[ONE_REQUEST, TimesPeer(OBJECT_RATE, 1.9)]),
    row(&GARBAGE_COLLECTOR, "chain #, @", 5_000, RowLimit::Equal, CHAIN, &[ONE_REQUEST]),
    row(&GARBAGE_COLLECTOR, "foreground #, @", 5_000, RowLimit::Equal, FOREGROUND, FOREGROUND_BOUNDS),
    row(&GARBAGE_COLLECTOR, "orphan #, @", 5_000, RowLimit::Equal, ORPHAN, &[]),
    row(&GARBAGE_COLLECTOR, "flat #, @", 5_000, RowLimit::EachWorkers, FLAT, &[
        ONE_REQUEST,
        BestTimesPeer(OBJECT_RATE, 1.3),
        TimesOwn(OBJECT_RATE, PLAIN_RATE, 0.8),
        PartOfPeer(SERVER_CPU, 2.0),
    ]),
    row(&GARBAGE_COLLECTOR, "chain #, @", 5_000, RowLimit::MostWorkers, CHAIN, &[ONE_REQUEST]),
    row(&GARBAGE_COLLECTOR, "foreground #, @", 5_000, RowLimit::MostWorkers, FOREGROUND, FOREGROUND_BOUNDS),
    row(&GARBAGE_COLLECTOR, "orphan #, @", 5_000, RowLimit::MostWorkers, ORPHAN, &[]),
    row(&GARBAGE_COLLECTOR, "start at #", 50_000, RowLimit::Unlimited, CaseLoad::Cascade(GcWorkload::Start), &[
        AtMost(BYTES_PER_OBJECT, 250.0, FigureUnit::Bytes),
        PartOfPeer(BYTES_PER_OBJECT, 8.0),
        AtMost(EMPTY_BYTES, 20e6, FigureUnit::Bytes),
        PartOfPeer(READY, 3.0),
        AtMostTimesOwn(PEAK_BYTES, STEADY_BYTES, 1.3),
    ]),
    row(&CRON, "# CronJobs, @", 500, RowLimit::Defaults, CaseLoad::Ticks, &[PartOfPeer(LATENESS_P99, 20.0)]),
    row(&CRON, "# CronJobs, @", 2_000, RowLimit::MostWorkers, CaseLoad::Ticks, &[PartOfPeer(LATENESS_P99, 2.0)]),
    row(&VOLCANO_CRON, "# Volcano CronJobs, @", 500, RowLimit::Defaults, CaseLoad::Ticks, &[]),
    row(&VOLCANO_CRON, "# Volcano CronJobs, @", 500, RowLimit::MostWorkers, CaseLoad::Ticks, &[]),
    row(&VOLCANO_CRON, "# Volcano CronJobs, @", 2_000, RowLimit::MostWorkers, CaseLoad::Ticks, &[]),
    row(&TTL, "# Jobs at once, @", 1_000, RowLimit::Defaults, AT_ONCE, &[PartOfPeer(LATENESS_P99, 20.0)]),
    row(&TTL, "# Jobs at once, @", 5_000, RowLimit::MostWorkers, AT_ONCE, &[PartOfPeer(LATENESS_P99, 2.0)]),
    row(&TTL, "# Jobs 1 s apart, @", 60, RowLimit::Defaults, CaseLoad::Expiry(1), &[]),
    row(&VOLCANO_TTL, "# Volcano Jobs at once, @", 1_000, RowLimit::Defaults, AT_ONCE, &[]),
    // As many workers as its Go program had when it was measured.
    row(&VOLCANO_TTL, "# Volcano Jobs at once, @", 1_000, RowLimit::Workers(50), AT_ONCE, &[]),
    row(&POD_GC, "# Pods over the threshold, @", 1_000, RowLimit::Defaults, CaseLoad::TerminatedPods, &[TimesPeer(POD_RATE, 10.0)]),
    row(&POD_GC, "# Pods over the threshold, @", 5_000, RowLimit::Unlimited, CaseLoad::TerminatedPods, &[TimesPeer(POD_RATE, 1.3)]),
    row(&POD_GC, "# Pods on a missing Node, @", 1_000, RowLimit::Defaults, CaseLoad::PodsOnMissingNode, &[TimesPeer(POD_RATE, 10.0)]),
    row(&POD_GC, "# Pods on a missing Node, @", 1_000, RowLimit::Unlimited, CaseLoad::PodsOnMissingNode, &[TimesPeer(POD_RATE, 1.5)]),
];

// === impl BenchTopic ===

impl BenchTopic {
    /// Begins the name of the file of raw numbers.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Cron => "cron",
            Self::Gc => "gc",
            Self::PodGc => "podgc",
            Self::Ttl => "ttl",
        }
    }

    pub(super) fn main_figure(self) -> &'static str {
        match self {
            Self::Cron | Self::Ttl => LATENESS_P99,
            Self::Gc => OBJECT_RATE,
            Self::PodGc => POD_RATE,
        }
    }

    /// Facts without which the numbers mislead: a part of the titles that a note is about, and the note, with `#` for the
    /// requests per second of the equal budget.
    pub(super) fn notes(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Cron => &[
                (
                    "",
                    "at defaults the Go program sends at most 20 requests per second, ours as many as its 5 workers manage",
                ),
                (
                    "",
                    "lateness is from the schedule time, by the server's clock, to the event that the Job exists; the Go program waits 100 ms after a schedule time by design",
                ),
                (
                    "",
                    "Volcano's own controller was measured once, elsewhere, on a machine of this size: 500 CronJobs in one minute p99 18.1 s at defaults, 2.9 s with 50 workers and no limit; these are not from this run",
                ),
            ],
            Self::Gc => &[
                (
                    "defaults",
                    "defaults: theirs is a rate limit (40 requests a second), ours is none; that ratio says little about either program",
                ),
                (
                    "equal budget",
                    "equal budget: both may send # requests a second; the Go collector is given half of it because it doubles its flag",
                ),
                (
                    "",
                    "medians over the legs; a fresh kube-apiserver and etcd (with fsync) in each; both collectors are the same ordinary user, subject to Priority and Fairness; requests are those on ConfigMaps and Events as the API server counted them, without the driver's",
                ),
                (
                    "start",
                    "memory of the garbage collector alone, while the budget for an empty cluster is for all controllers; the Go collector's start ends when its informers have synced, ours when the graph is complete",
                ),
            ],
            Self::PodGc => &[
                (
                    "",
                    "at defaults the Go program sends at most 20 requests per second, ours as many as 20 in flight manage",
                ),
                (
                    "",
                    "without a limit the Go program deletes all terminated Pods at once, and orphans one after the other",
                ),
            ],
            Self::Ttl => &[
                (
                    "",
                    "at defaults the Go program sends at most 20 requests per second, ours as many as its 5 workers manage",
                ),
                (
                    "",
                    "lateness is from finish time plus TTL, by the server's clock, to the event that the Job is being deleted",
                ),
                (
                    "",
                    "Volcano's own controller was measured once, elsewhere, on a machine of this size: 1,000 Jobs expiring together p99 37.8 s at defaults, 6.7 s with 50 workers and no limit; these are not from this run",
                ),
            ],
        }
    }
}

// === impl BenchOptions ===

impl BenchOptions {
    /// Options that leave no case of a benchmark out.
    pub fn new(count: Option<u32>, workers: Vec<u32>, run: BenchRun) -> Self {
        Self {
            count: count.map(|count| count as usize),
            workers,
            budget: REQUEST_BUDGET,
            workloads: Vec::new(),
            modes: Vec::new(),
            run,
        }
    }

    /// The cases of a benchmark that the command line leaves in.
    pub(super) fn cases(&self, topic: BenchTopic) -> Vec<BenchCase> {
        let rows = ROWS.iter().filter(|row| row.subject.topic == topic);
        let mut cases: Vec<BenchCase> = rows.flat_map(|row| row.cases(self)).collect();
        cases.retain(|case| {
            let is_chosen =
                |workload| self.workloads.is_empty() || self.workloads.contains(&workload);
            let has_mode = self.modes.is_empty() || self.modes.contains(&case.settings.mode);
            has_mode
                && match case.row.load {
                    CaseLoad::Cascade(workload) => is_chosen(workload),
                    _ => true,
                }
        });
        cases
    }
}

// === impl CaseRow ===

impl CaseRow {
    fn cases(&'static self, options: &BenchOptions) -> Vec<BenchCase> {
        let most = || options.workers.iter().max().copied();
        let (mode, workers) = match self.limit {
            RowLimit::Defaults => (LimitMode::Defaults, vec![None]),
            RowLimit::Equal => (LimitMode::Equal, vec![None]),
            RowLimit::EachWorkers => {
                let each = options.workers.iter().copied().map(Some);
                (LimitMode::Unlimited, each.collect())
            }
            RowLimit::MostWorkers => (LimitMode::Unlimited, vec![most()]),
            RowLimit::Workers(workers) => (LimitMode::Unlimited, vec![Some(workers)]),
            RowLimit::Unlimited => (LimitMode::Unlimited, vec![None]),
        };
        // Jobs that expire one after the other take as many seconds as there are Jobs.
        let is_fixed = matches!(self.load, CaseLoad::Expiry(1..));
        let count = options.count.filter(|_| !is_fixed).unwrap_or(self.count);
        let case = |workers| BenchCase {
            row: self,
            count,
            settings: SubjectSettings {
                mode,
                budget: options.budget,
                workers,
            },
        };
        workers.into_iter().map(case).collect()
    }
}

// === impl BenchCase ===

impl BenchCase {
    /// The case's name in tables and files.
    pub(super) fn title(&self) -> String {
        let mut limit = match self.settings.mode {
            LimitMode::Defaults => "defaults",
            LimitMode::Equal => "equal budget",
            LimitMode::Unlimited => "unlimited",
        }
        .to_owned();
        if let Some(workers) = self.settings.workers {
            limit.push_str(&format!(", {workers} workers"));
        }
        let count = grouped(&self.count.to_string());
        self.row.title.replace('#', &count).replace('@', &limit)
    }
}

const fn row(
    subject: &'static BenchSubject,
    title: &'static str,
    count: usize,
    limit: RowLimit,
    load: CaseLoad,
    bounds: &'static [FigureBound],
) -> CaseRow {
    CaseRow {
        subject,
        title,
        count,
        limit,
        load,
        bounds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles(topic: BenchTopic, options: &BenchOptions) -> Vec<String> {
        let cases = options.cases(topic);
        cases.iter().map(BenchCase::title).collect()
    }

    #[test]
    fn all_cases_of_the_collector_run_without_a_choice() {
        let options = BenchOptions::new(None, GC_WORKERS.to_vec(), BenchRun::quick("ABBA"));
        let titles = titles(BenchTopic::Gc, &options);
        assert_eq!(titles.len(), 1 + 4 + 1 + 4 + 1, "{titles:?}");
        assert_eq!(titles[9], "orphan 5,000, unlimited, 100 workers");
    }

    #[test]
    fn choices_narrow_the_cases_of_the_collector() {
        let mut options = BenchOptions {
            workloads: vec![GcWorkload::Chain, GcWorkload::Start],
            modes: vec![LimitMode::Unlimited],
            ..BenchOptions::new(Some(200), vec![7], BenchRun::quick("ABBA"))
        };
        assert_eq!(
            titles(BenchTopic::Gc, &options),
            ["chain 200, unlimited, 7 workers", "start at 200"]
        );
        options.workloads = vec![GcWorkload::Start];
        options.modes = vec![LimitMode::Equal];
        assert_eq!(titles(BenchTopic::Gc, &options), [""; 0]);
    }

    #[test]
    fn the_number_of_objects_and_workers_applies_to_every_benchmark() {
        let options = BenchOptions::new(Some(7), vec![3], BenchRun::quick("AB"));
        let titles = |topic| titles(topic, &options);
        assert_eq!(
            titles(BenchTopic::Cron)[1],
            "7 CronJobs, unlimited, 3 workers"
        );
        assert_eq!(
            titles(BenchTopic::PodGc)[1],
            "7 Pods over the threshold, unlimited"
        );
        let ttl = titles(BenchTopic::Ttl);
        assert_eq!(ttl[2], "60 Jobs 1 s apart, defaults");
        assert_eq!(ttl[4], "7 Volcano Jobs at once, unlimited, 50 workers");
    }
}
