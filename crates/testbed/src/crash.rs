//! Controllers that crash at every request they send: before it, inside it, after it; and two processes at a time.
//!
//! A reference run counts the requests about single objects. Then the case runs again for every request and every moment:
//! the wire of the controllers is cut there, another process is started in their place, and the final state has to be the
//! reference's. The checkers judge every write in between. Time is tokio's paused time and everything is seeded, so the
//! same numbers mean the same crash.

pub mod cases;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use caretaker_machinery::rng::Rng;
use jiff::SignedDuration;
use serde_json::Value;

pub use cases::SUITE;

use crate::case::{CaseBody, CheckResult, ConvergentSteps, TestCase};
use crate::chaos::faults::WatchLag;
use crate::checkers::{ObjectHistory, violations};
use crate::controllers::process::ProcessOptions;
use crate::environment::{Environment, ProcessFaults};
use crate::suites::cron::VOLCANO;
use crate::wire::{CrashMoment, FaultInjector, RequestFate, WireRequest, WireTrace};

/// Time for controllers to list everything before the users act.
const SETTLED: Duration = Duration::from_secs(5);
/// Time for the remains of crashed controllers to end: their requests are never answered and time out.
const TIMED_OUT: Duration = Duration::from_secs(60);
/// The kinds of a case never change, and each discovery costs as much as all the rest.
const DISCOVERY: Duration = Duration::from_secs(3_600);
/// Longest delay of a watch event of a leader: both leaders observe all objects of a case within [`SETTLED`].
const LEADER_LAG_MAX: Duration = Duration::from_millis(500);

/// The moments of a request at which controllers crash.
pub const MOMENTS: [CrashMoment; 3] =
    [CrashMoment::Before, CrashMoment::Inside, CrashMoment::After];

/// A crash at the n-th request of a process, counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashPoint {
    pub call: usize,
    pub moment: CrashMoment,
}

/// The end of one run of a case.
#[derive(Debug)]
pub struct CrashRun {
    /// Owners, finalizers and deletion of each object that is left, by kind and name.
    pub left: BTreeMap<String, String>,
    /// Number of requests of all processes.
    pub calls: usize,
    /// Number of crashes that happened.
    pub crashes: usize,
    /// The safety rules that were broken.
    pub violations: Vec<String>,
}

/// Cuts its wire at one request.
struct CrashTrigger {
    point: CrashPoint,
    seen: usize,
}

// === impl CrashTrigger ===

impl FaultInjector for CrashTrigger {
    fn fate(&mut self, asked: &WireRequest<'_>) -> RequestFate {
        if !asked.is_effect {
            return RequestFate::Pass;
        }
        self.seen += 1;
        if self.seen == self.point.call {
            RequestFate::End(self.point.moment)
        } else {
            RequestFate::Pass
        }
    }
}

/// Runs a case with a crash at every request and moment. Returns the number of runs.
pub async fn crash_everywhere(case: &TestCase) -> CheckResult<usize> {
    let reference = reference(case).await?;
    let mut runs = 0;
    for call in 1..=reference.calls {
        for moment in MOMENTS {
            compare(case, &reference, &[CrashPoint { call, moment }]).await?;
            runs += 1;
        }
    }
    Ok(runs)
}

/// Runs a case `times` times with two crashes, at requests and moments that `draw` chooses below a limit.
pub async fn crash_twice(
    case: &TestCase,
    times: usize,
    mut draw: impl FnMut(usize) -> usize,
) -> CheckResult {
    let reference = reference(case).await?;
    for _ in 0..times {
        let mut point = || CrashPoint {
            call: 1 + draw(reference.calls),
            moment: MOMENTS[draw(MOMENTS.len())],
        };
        let points = [point(), point()];
        compare(case, &reference, &points).await?;
    }
    Ok(())
}

/// Runs a case `times` times with two processes that both act as the leader, each with other lags and delays.
pub async fn two_leaders(case: &TestCase, times: u64) -> CheckResult {
    let reference = reference(case).await?;
    let mut calls = 0;
    for seed in 0..times {
        let mut rng = Rng::seeded(seed);
        let mut lag =
            || -> Box<dyn FaultInjector> { Box::new(WatchLag::new(rng.fork(), LEADER_LAG_MAX)) };
        let (first, second) = (Cell::new(Some(lag())), lag());
        let run = run_beside(case, &|_| first.take(), Some(second)).await?;
        calls += run.calls as u64;
        // The ends of a case with undetermined objects depend on the order of requests, which lags change.
        if run.violations.is_empty() && !steps(case)?.undetermined.is_empty() {
            continue;
        }
        check_alike(case, &reference, &run, &format!("two leaders, seed {seed}"))?;
    }
    match calls > times * reference.calls as u64 {
        true => Ok(()),
        false => Err(format!("{}: the second leader sent no request", case.name)),
    }
}

/// Runs a case without a crash; fails if a rule is broken or the controllers send nothing.
pub async fn reference(case: &TestCase) -> CheckResult<CrashRun> {
    let reference = run(case, &|_| None).await?;
    let failed = |why: &str| Err(format!("{}: {why}: {reference:?}", case.name));
    if !reference.violations.is_empty() {
        return failed("broken without any crash");
    }
    if reference.calls == 0 {
        return failed("the controllers sent no request");
    }
    Ok(reference)
}

async fn compare(case: &TestCase, reference: &CrashRun, points: &[CrashPoint]) -> CheckResult {
    let triggers = |process: usize| {
        let point = *points.get(process)?;
        Some(Box::new(CrashTrigger { point, seen: 0 }) as Box<dyn FaultInjector>)
    };
    let run = run(case, &triggers).await?;
    check_alike(case, reference, &run, &format!("{points:?}"))?;
    // The first crash always happens; the second only if that many requests were left.
    match run.crashes {
        0 => Err(format!("{} {points:?}: there was no crash", case.name)),
        _ => Ok(()),
    }
}

/// Checks that a run broke no rule and ended like the reference run.
fn check_alike(
    case: &TestCase,
    reference: &CrashRun,
    run: &CrashRun,
    context: &str,
) -> CheckResult {
    let undetermined = steps(case)?.undetermined;
    let determined = |left: &BTreeMap<String, String>| {
        let mut left = left.clone();
        left.retain(|name, _| !undetermined.iter().any(|open| name.ends_with(open)));
        left
    };
    let is_same = determined(&run.left) == determined(&reference.left);
    if is_same && run.violations.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{} {context}: {run:#?}\nwithout a crash: {:#?}",
        case.name, reference.left
    ))
}

/// Runs a case once; each controller process meets its own fault injector.
pub async fn run(case: &TestCase, faults: ProcessFaults<'_>) -> CheckResult<CrashRun> {
    run_beside(case, faults, None).await
}

/// The same; with `second` another process runs from the start to the end.
async fn run_beside(
    case: &TestCase,
    faults: ProcessFaults<'_>,
    second: Option<Box<dyn FaultInjector>>,
) -> CheckResult<CrashRun> {
    let steps = steps(case)?;
    let named = |why: String| format!("{}: {why}", case.name);
    let (kinds, watched) = cases::kinds(steps.is_volcano);
    let env = Environment::recorded("crash").await?;
    if steps.is_volcano {
        VOLCANO.define(&env).await?;
        env.start_history().await?;
    }
    let created = (steps.create)(&env).await.map_err(named)?;
    let act = async {
        tokio::time::sleep(SETTLED).await;
        (steps.act)(&env, &created).await?;
        env.until_quiet().await
    };
    let options = ProcessOptions {
        names: steps.controllers,
        kinds: &watched,
        discovery: DISCOVERY,
        ahead: SignedDuration::ZERO,
    };
    let second = second.map(|injector| env.start_process(&options, Some(injector)));
    let _second = second.transpose()?;
    let mut dead = Vec::new();
    tokio::select! {
        biased;
        ended = env.run_processes(&options, faults, &mut dead) => ended?,
        ended = act => ended.map_err(named)?,
    }
    tokio::time::sleep(TIMED_OUT).await;
    if !dead.iter().all(WireTrace::is_gone) {
        return Err(named("a crashed process still holds its wire".to_owned()));
    }
    let history = env.history(&kinds).await.map_err(named)?;
    Ok(CrashRun {
        left: final_state(&history),
        calls: env.log().effects(),
        crashes: dead.len(),
        violations: violations(&history, &env.log().acts()),
    })
}

fn steps(case: &TestCase) -> CheckResult<ConvergentSteps> {
    match case.body {
        CaseBody::Convergent(steps) => Ok(steps),
        _ => Err(format!("{} is not a convergent case", case.name)),
    }
}

/// What is left, in words that do not depend on uids.
pub(crate) fn final_state(history: &ObjectHistory) -> BTreeMap<String, String> {
    let words = |value: &Value, member: &str| {
        let list = value.as_array().into_iter().flatten();
        let list = list.map(|item| match member {
            "" => item.to_string(),
            member => item[member].to_string(),
        });
        list.collect::<Vec<_>>().join(" ")
    };
    let left = history.end().into_iter().map(|stored| {
        let metadata = &stored.object["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let kind = &history.kinds()[stored.known].kind;
        let status = &stored.object["status"];
        let state = format!(
            "owners [{}] finalizers [{}]{}{}{}{}",
            words(&metadata["ownerReferences"], "name"),
            words(&metadata["finalizers"], ""),
            if metadata["deletionTimestamp"].is_null() {
                ""
            } else {
                " deleting"
            },
            match status["phase"].as_str() {
                Some(phase) => format!(" {phase}"),
                None => String::new(),
            },
            match status["lastScheduleTime"].as_str() {
                Some(last) => format!(" active [{}] last {last}", words(&status["active"], "name")),
                None => String::new(),
            },
            // The time depends on when the case ended the Job.
            match status["lastSuccessfulTime"].is_string() {
                true => " has succeeded",
                false => "",
            },
        );
        (format!("{kind} {name}"), state)
    });
    left.collect()
}
