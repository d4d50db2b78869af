//! The cases of the benchmarks of CronJobs, TTL and Pod GC, as one table, and the way to run and report them.
//!
//! Volcano's rows run ours alone, because its Go program cannot be built from package registries. No program runs or
//! collects the Jobs: a Job deleted in the foreground stays, on both sides alike.

use anyhow::Result;

use super::bounds::{FigureBound, doubts};
use super::grouped;
use super::loads::{CaseLoad, PODS_RATE, PodCause, TimedLoad};
use super::peers::{
    BenchSubject, CRON, POD_GC, RequestLimit, SubjectSettings, TTL, VOLCANO_CRON, VOLCANO_TTL,
};
use super::run::{BenchKit, BenchReport, BenchRun, Measurable};

/// Requests in flight of the CronJob controllers where only workers limit.
pub const CRON_WORKERS: u32 = 50;
/// Requests in flight of the TTL controllers where only workers limit.
pub const TTL_WORKERS: u32 = 20;

/// Figures by which the cases are judged.
pub(super) const LATENESS_P99: &str = "lateness, p99";

/// A benchmark whose cases are rows of this table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BenchTopic {
    /// Lateness of the Jobs of CronJobs whose schedule times fall into the same minute.
    Cron,
    /// Rate of deletes of Pods that terminated beyond the threshold or whose Node does not exist.
    PodGc,
    /// Lateness of the deletes of finished Jobs that expire together, or one after the other.
    Ttl,
}

/// The choices of the command line.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// Objects in every case, instead of the number in its row.
    pub count: Option<usize>,
    /// Requests in flight where only workers limit.
    pub workers: u32,
    pub run: BenchRun,
}

/// The limit of the programs in a row.
#[derive(Clone, Copy, Debug)]
enum RowLimit {
    /// The defaults of each program.
    Defaults,
    /// The number of workers of the command line.
    Chosen,
    /// A fixed number of workers.
    Workers(u32),
    /// No limit, and no flag for workers either.
    Unlimited,
}

/// One row of the table.
struct CaseRow {
    topic: BenchTopic,
    subject: &'static BenchSubject,
    /// Follows the number of objects in the title.
    noun: &'static str,
    count: usize,
    limit: RowLimit,
    load: CaseLoad,
    bound: Option<FigureBound>,
}

/// A row with the choices of the command line applied.
#[derive(Clone, Copy, Debug)]
pub(super) struct BenchCase {
    pub(super) subject: &'static BenchSubject,
    noun: &'static str,
    pub(super) count: usize,
    pub(super) settings: SubjectSettings,
    load: CaseLoad,
    bound: Option<FigureBound>,
}

const CRON_LOAD: CaseLoad = CaseLoad::Timed(TimedLoad {
    command: "cron-run",
    more: "",
    each: "tick",
    kinds: &["cronjobs", "jobs", "events"],
});
const TTL_LOAD: CaseLoad = ttl_load(" --apart 0");

#[rustfmt::skip]
const ROWS: [CaseRow; 14] = [
    row(BenchTopic::Cron, &CRON, "CronJobs", 500, RowLimit::Defaults, CRON_LOAD, part_of_peer(20.0)),
    row(BenchTopic::Cron, &CRON, "CronJobs", 2_000, RowLimit::Chosen, CRON_LOAD, part_of_peer(2.0)),
    row(BenchTopic::Cron, &VOLCANO_CRON, "Volcano CronJobs", 500, RowLimit::Defaults, CRON_LOAD, None),
    row(BenchTopic::Cron, &VOLCANO_CRON, "Volcano CronJobs", 500, RowLimit::Chosen, CRON_LOAD, None),
    row(BenchTopic::Cron, &VOLCANO_CRON, "Volcano CronJobs", 2_000, RowLimit::Chosen, CRON_LOAD, None),
    row(BenchTopic::Ttl, &TTL, "Jobs at once", 1_000, RowLimit::Defaults, TTL_LOAD, part_of_peer(20.0)),
    row(BenchTopic::Ttl, &TTL, "Jobs at once", 5_000, RowLimit::Chosen, TTL_LOAD, part_of_peer(2.0)),
    row(BenchTopic::Ttl, &TTL, STEADY_JOBS, 60, RowLimit::Defaults, ttl_load(" --apart 1"), None),
    row(BenchTopic::Ttl, &VOLCANO_TTL, "Volcano Jobs at once", 1_000, RowLimit::Defaults, TTL_LOAD, None),
    // As many workers as its Go program had when it was measured.
    row(BenchTopic::Ttl, &VOLCANO_TTL, "Volcano Jobs at once", 1_000, RowLimit::Workers(50), TTL_LOAD, None),
    pods(PodCause::Terminated, 1_000, RowLimit::Defaults, 10.0),
    pods(PodCause::Terminated, 5_000, RowLimit::Unlimited, 1.3),
    pods(PodCause::NodeMissing, 1_000, RowLimit::Defaults, 10.0),
    pods(PodCause::NodeMissing, 1_000, RowLimit::Unlimited, 1.5),
];

/// The case whose number of objects is fixed: they expire one after the other, a second apart.
const STEADY_JOBS: &str = "Jobs 1 s apart";

/// Measures both programs in every case of a benchmark.
pub fn measure(topic: BenchTopic, options: &BenchOptions) -> Result<BenchReport> {
    let cases = options.run.choose(cases(topic, options))?;
    let kit = BenchKit::build(topic.word(), &options.run)?;
    let results = kit.measure(&cases, |case, stand| case.load.measure(case, stand))?;
    let verdicts = cases
        .iter()
        .filter_map(|case| Some(case.bound?.verdict(&case.title(), &results)));
    let doubts = cases
        .iter()
        .flat_map(|case| doubts(&case.title(), topic.main_figure(), &results));
    let notes = topic.notes().iter().map(ToString::to_string);
    let (verdicts, notes) = (verdicts.collect(), notes.chain(doubts).collect());
    Ok(kit.report(&cases, &results, verdicts, notes))
}

// === impl BenchTopic ===

impl BenchTopic {
    /// Begins the name of the file of raw numbers.
    fn word(self) -> &'static str {
        match self {
            Self::Cron => "cron",
            Self::PodGc => "podgc",
            Self::Ttl => "ttl",
        }
    }

    fn main_figure(self) -> &'static str {
        match self {
            Self::Cron | Self::Ttl => LATENESS_P99,
            Self::PodGc => PODS_RATE,
        }
    }

    /// Facts without which the numbers mislead.
    fn notes(self) -> &'static [&'static str] {
        match self {
            Self::Cron => &[
                "at defaults the Go program sends at most 20 requests per second, ours as many as its 5 workers manage",
                "lateness is from the schedule time, by the server's clock, to the event that the Job exists; the Go program waits 100 ms after a schedule time by design",
                "Volcano's own controller was measured once, elsewhere, on a machine of this size: 500 CronJobs in one minute p99 18.1 s at defaults, 2.9 s with 50 workers and no limit; these are not from this run",
            ],
            Self::Ttl => &[
                "at defaults the Go program sends at most 20 requests per second, ours as many as its 5 workers manage",
                "lateness is from finish time plus TTL, by the server's clock, to the event that the Job is being deleted",
                "Volcano's own controller was measured once, elsewhere, on a machine of this size: 1,000 Jobs expiring together p99 37.8 s at defaults, 6.7 s with 50 workers and no limit; these are not from this run",
            ],
            Self::PodGc => &[
                "at defaults the Go program sends at most 20 requests per second, ours as many as 20 in flight manage",
                "without a limit the Go program deletes all terminated Pods at once, and orphans one after the other",
            ],
        }
    }
}

// === impl BenchCase ===

impl Measurable for BenchCase {
    fn title(&self) -> String {
        let count = grouped(&self.count.to_string());
        let how = match self.settings {
            SubjectSettings {
                limit: RequestLimit::Default,
                ..
            } => "defaults".to_owned(),
            SubjectSettings { workers: None, .. } => "unlimited".to_owned(),
            SubjectSettings {
                workers: Some(workers),
                ..
            } => format!("unlimited, {workers} workers"),
        };
        format!("{count} {}, {how}", self.noun)
    }

    fn has_peer(&self) -> bool {
        self.subject.has_peer
    }
}

fn cases(topic: BenchTopic, options: &BenchOptions) -> Vec<BenchCase> {
    let rows = ROWS.iter().filter(|row| row.topic == topic);
    rows.map(|row| {
        let (limit, workers) = match row.limit {
            RowLimit::Defaults => (RequestLimit::Default, None),
            RowLimit::Chosen => (RequestLimit::None, Some(options.workers)),
            RowLimit::Workers(workers) => (RequestLimit::None, Some(workers)),
            RowLimit::Unlimited => (RequestLimit::None, None),
        };
        let chosen = options.count.filter(|_| row.noun != STEADY_JOBS);
        BenchCase {
            subject: row.subject,
            noun: row.noun,
            count: chosen.unwrap_or(row.count),
            settings: SubjectSettings { limit, workers },
            load: row.load,
            bound: row.bound,
        }
    })
    .collect()
}

const fn row(
    topic: BenchTopic,
    subject: &'static BenchSubject,
    noun: &'static str,
    count: usize,
    limit: RowLimit,
    load: CaseLoad,
    bound: Option<FigureBound>,
) -> CaseRow {
    CaseRow {
        topic,
        subject,
        noun,
        count,
        limit,
        load,
        bound,
    }
}

/// A row of Pod GC.
const fn pods(cause: PodCause, count: usize, limit: RowLimit, factor: f64) -> CaseRow {
    let noun = match cause {
        PodCause::Terminated => "Pods over the threshold",
        PodCause::NodeMissing => "Pods on a missing Node",
    };
    let bound = Some(FigureBound::TimesPeer(PODS_RATE, factor));
    row(
        BenchTopic::PodGc,
        &POD_GC,
        noun,
        count,
        limit,
        CaseLoad::Pods(cause),
        bound,
    )
}

const fn ttl_load(more: &'static str) -> CaseLoad {
    CaseLoad::Timed(TimedLoad {
        command: "ttl-run",
        more,
        each: "Job",
        kinds: &["jobs"],
    })
}

const fn part_of_peer(part: f64) -> Option<FigureBound> {
    Some(FigureBound::PartOfPeer(LATENESS_P99, part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_of_the_command_line_apply() {
        let options = BenchOptions {
            count: Some(7),
            workers: 3,
            run: BenchRun::quick("AB"),
        };
        let titles = |topic| -> Vec<String> {
            let cases = cases(topic, &options);
            cases.iter().map(BenchCase::title).collect()
        };
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
