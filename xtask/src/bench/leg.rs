//! One leg of a case: a new server, one program under test on it, one load, and the figures of both.
//!
//! Cascades: the objects exist before the collector starts, and the leg waits for a moment after the collector is ready,
//! so that the phase holds only the cascade. The plain client beside it is subject to Priority and Fairness too.
//!
//! CronJobs and Jobs are made beside the running program, with a time that lies behind the last of them, so the cost of
//! the servers includes making them.
//!
//! Pods are made before the program starts, because its first round comes at once; the driver watches while it starts.
//! Their time counts from the first Pod that goes to the last: the interval of the rounds and the quarantine are the same
//! for both programs and are not measured.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde::de::IgnoredAny;

use super::cases::{BenchCase, CaseLoad, GcWorkload, LimitMode};
use super::driver::LoadOutput;
use super::peers::{POD_GC_KEEPS, ProgramUnderTest};
use super::run::settle;
use super::sampling::{cpu_secs, peak_bytes, resident_bytes};
use super::stand::{BenchStand, PEAK_BYTES, PhaseOutput, PhaseSubject, STEADY_BYTES};
use super::{BenchFigure, FigureUnit};
use crate::real::Identity;

/// The namespaces of the load and of the plain client's objects.
const NAMESPACE: &str = "bench";
const PLAIN_NAMESPACE: &str = "plain";
/// Clients that make the objects.
const MAKERS: usize = 32;
/// Objects that the makers create per second, at the least; the time of the objects comes when all exist.
const MADE_PER_SEC: usize = 100;
/// Time for the program to see the object made last.
const SPARE_SECS: usize = 15;
/// Dependents of one owner, or links of one chain.
const FAN: usize = 500;
/// A Node that does not exist.
const MISSING_NODE: &str = "gone";
/// Time of a program for its work after it is ready.
const SETTLE: Duration = Duration::from_secs(2);
/// Time of the driver to begin to watch before the program starts.
const WATCHING: Duration = Duration::from_secs(3);
/// Wait before memory counts as steady; the Go runtime frees some meanwhile.
const STEADY: Duration = Duration::from_secs(8);

/// Names of figures that are read again, for verdicts and notes.
pub(super) const OBJECT_RATE: &str = "objects/s";
pub(super) const POD_RATE: &str = "Pods/s";
pub(super) const PLAIN_RATE: &str = "plain client's deletes/s";
pub(super) const LATENESS_P99: &str = "lateness, p99";
pub(super) const READY: &str = "start to complete graph";
pub(super) const EMPTY_BYTES: &str = "resident memory, empty cluster";
pub(super) const BYTES_PER_OBJECT: &str = "resident memory per object";

/// The driver's commands of a leg.
struct LegPlan {
    /// Runs before the phase.
    prepare: Option<String>,
    /// Runs until the program under test has done its work.
    run: String,
    subject: PhaseSubject,
    /// Starts the program under test in the phase and not before.
    starts_in_phase: bool,
}

/// Runs one leg on a stand and ends its server.
pub(super) fn measure(case: &BenchCase, mut stand: BenchStand<'_>) -> Result<Vec<BenchFigure>> {
    if case.row.load == CaseLoad::Cascade(GcWorkload::Start) {
        start(case, &mut stand)?;
        return stand.close();
    }
    let is_flat = case.row.load == CaseLoad::Cascade(GcWorkload::Flat);
    if is_flat && case.settings.mode == LimitMode::Unlimited {
        plain_client(case, &mut stand)?;
    }
    let plan = LegPlan::of(case);
    if let Some(prepare) = &plan.prepare {
        stand.drive::<IgnoredAny>(prepare)?;
    }
    let (phase, output, program) = if plan.starts_in_phase {
        let phase = stand.begin(None)?;
        let (output, program) = watch_start(case, &stand, &plan.run)?;
        (phase, output, program)
    } else {
        let program = stand.start(case)?;
        settle(SETTLE)?;
        let phase = stand.begin(Some(&program))?;
        (phase, stand.drive(&plan.run)?, program)
    };
    note_work(&mut stand, &plan, &output);
    stand.end(&phase, &plan.subject, &output, &program)?;
    drop(program);
    stand.close()
}

/// Starts the program under test while the driver watches.
fn watch_start(
    case: &BenchCase,
    stand: &BenchStand<'_>,
    run: &str,
) -> Result<(PhaseOutput, ProgramUnderTest)> {
    thread::scope(|scope| {
        let watching = scope.spawn(|| stand.drive(run));
        settle(WATCHING)?;
        let program = stand.start(case)?;
        let output = watching.join().map_err(|_| anyhow!("the driver panicked"));
        Ok((output?.context("the objects were not deleted")?, program))
    })
}

/// Records the output of the driver. A figure that its command does not measure is left out.
fn note_work(stand: &mut BenchStand<'_>, plan: &LegPlan, output: &PhaseOutput) {
    let rate = output.count as f64 / output.secs;
    stand.figures([
        ("lateness, p50", output.p50_secs, FigureUnit::Seconds),
        (LATENESS_P99, output.p99_secs, FigureUnit::Seconds),
        ("lateness, max", output.max_secs, FigureUnit::Seconds),
        ("before their time", output.early, FigureUnit::Count),
        ("duplicates", output.duplicates, FigureUnit::Count),
        (plan.subject.rate, Some(rate), FigureUnit::PerSecond),
        ("  first one after", output.first_secs, FigureUnit::Seconds),
    ]);
}

/// Measures a client that only deletes, with as many requests in flight as the collector has workers.
fn plain_client(case: &BenchCase, stand: &mut BenchStand<'_>) -> Result<()> {
    let clients = case.settings.workers.context("a number of workers")?;
    let (owners, dependents) = family(case.count);
    let of = format!("{PLAIN_NAMESPACE} --count {}", owners * dependents);
    stand.drive::<LoadOutput>(&format!("create {of} --clients {MAKERS}"))?;
    let delete = format!("delete {of} --clients {clients}");
    let deleted: LoadOutput = stand.drive_as(Identity::Ordinary, &delete)?;
    stand.figures([(PLAIN_RATE, Some(deleted.rate()), FigureUnit::PerSecond)]);
    Ok(())
}

/// Measures a start of the collector on an empty cluster, and one with many objects.
fn start(case: &BenchCase, stand: &mut BenchStand<'_>) -> Result<()> {
    let collector = stand.start(case)?;
    settle(STEADY)?;
    let empty = resident_bytes(collector.pid())?;
    let ready_empty = collector.ready_after.as_secs_f64();
    drop(collector);
    stand.drive::<IgnoredAny>(&create_family(case, GcWorkload::Start))?;
    settle(SETTLE)?;
    let before = stand.moment(None)?;
    let collector = stand.start(case)?;
    let after = stand.moment(Some(&collector))?;
    settle(STEADY)?;
    let steady = resident_bytes(collector.pid())?;
    let (owners, dependents) = family(case.count);
    let each = (steady - empty) / (owners * dependents + owners) as f64;
    let ready = collector.ready_after.as_secs_f64();
    let peak = peak_bytes(collector.pid())?;
    let then = after.program_secs;
    let now = cpu_secs(collector.pid())?;
    let ready_empty_figure = "start to complete graph, empty cluster";
    stand.figures([
        (EMPTY_BYTES, Some(empty), FigureUnit::Bytes),
        (ready_empty_figure, Some(ready_empty), FigureUnit::Seconds),
        (READY, Some(ready), FigureUnit::Seconds),
        (
            "collector's CPU time until then",
            Some(then),
            FigureUnit::Seconds,
        ),
        (
            "collector's CPU time when steady",
            Some(now),
            FigureUnit::Seconds,
        ),
        (STEADY_BYTES, Some(steady), FigureUnit::Bytes),
        (PEAK_BYTES, Some(peak), FigureUnit::Bytes),
        (BYTES_PER_OBJECT, Some(each), FigureUnit::Bytes),
    ]);
    stand.note_disturbance(&before, &after, 0.0);
    Ok(())
}

// === impl LegPlan ===

impl LegPlan {
    fn of(case: &BenchCase) -> Self {
        match case.row.load {
            CaseLoad::Cascade(workload) => Self {
                prepare: Some(create_family(case, workload)),
                run: {
                    let policy = match workload {
                        GcWorkload::Foreground => "foreground",
                        GcWorkload::Orphan => "orphan",
                        GcWorkload::Flat | GcWorkload::Chain | GcWorkload::Start => "background",
                    };
                    format!("gc-run {} --policy {policy}", kin(case, workload))
                },
                subject: PhaseSubject {
                    each: "object",
                    rate: OBJECT_RATE,
                    kinds: &["configmaps", "events"],
                },
                starts_in_phase: false,
            },
            CaseLoad::Ticks => {
                let kinds = &["cronjobs", "jobs", "events"];
                Self::timed(case, "cron-run", "", "tick", "ticks/s", kinds)
            }
            CaseLoad::Expiry(apart) => {
                let more = format!(" --apart {apart}");
                Self::timed(case, "ttl-run", &more, "Job", "Jobs/s", &["jobs"])
            }
            CaseLoad::TerminatedPods => Self::pods(case.count, POD_GC_KEEPS, ""),
            CaseLoad::PodsOnMissingNode => {
                Self::pods(case.count, 0, &format!(" --node {MISSING_NODE}"))
            }
        }
    }

    /// Objects on which a controller acts when their time comes.
    fn timed(
        case: &BenchCase,
        command: &str,
        more: &str,
        each: &'static str,
        rate: &'static str,
        kinds: &'static [&'static str],
    ) -> Self {
        let is_volcano = case.row.subject.peer_ready.is_none();
        let (count, volcano) = (case.count, if is_volcano { " --volcano" } else { "" });
        let lead = count.div_ceil(MADE_PER_SEC) + SPARE_SECS;
        Self {
            prepare: is_volcano.then(|| "volcano-install".to_owned()),
            run: format!(
                "{command} {NAMESPACE} --count {count} --lead {lead} --clients {MAKERS}{volcano}{more}"
            ),
            subject: PhaseSubject { each, rate, kinds },
            starts_in_phase: false,
        }
    }

    fn pods(count: usize, kept: usize, node: &str) -> Self {
        let pods = count + kept;
        Self {
            prepare: Some(format!(
                "pods-plant {NAMESPACE} --pods {pods}{node} --clients {MAKERS}"
            )),
            run: format!("pods-run {NAMESPACE} --left {kept}"),
            subject: PhaseSubject {
                each: "Pod",
                rate: POD_RATE,
                kinds: &["pods", "nodes"],
            },
            starts_in_phase: true,
        }
    }
}

/// The number of owners, and of dependents of each owner.
fn family(objects: usize) -> (usize, usize) {
    let owners = objects.div_ceil(FAN).max(1);
    (owners, objects / owners)
}

/// The arguments of the driver that name a family.
fn kin(case: &BenchCase, workload: GcWorkload) -> String {
    let (owners, dependents) = family(case.count);
    let is_chain = workload == GcWorkload::Chain;
    let shape = if is_chain { "chain" } else { "flat" };
    format!("{NAMESPACE} --shape {shape} --owners {owners} --dependents {dependents}")
}

fn create_family(case: &BenchCase, workload: GcWorkload) -> String {
    format!("gc-create {} --clients {MAKERS}", kin(case, workload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_the_dependents_of_its_case() {
        let table = [(5_000, (10, 500)), (1_000, (2, 500)), (200, (1, 200))];
        for (objects, (owners, dependents)) in table {
            assert_eq!(family(objects), (owners, dependents));
            assert_eq!(owners * dependents, objects);
        }
    }
}
