//! Controllers that die at every request they make: before it, inside it, after it.
//!
//! A reference run counts the requests about single objects. Then the scenario is played again for every request and
//! every moment: the wire of the controllers is cut there, which leaves them no way to do anything more, others are
//! started in their place, and the end has to be the reference's. In between the checkers watch every write. Time is
//! tokio's paused time and everything is seeded, so the same numbers mean the same crash.

mod generation;
pub mod scenarios;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::LocalBoxFuture;
use jiff::SignedDuration;
use serde_json::Value;
use tokio::time::Instant;

pub use generation::{Cast, Generation};

use crate::checkers::{History, violations};
use crate::collector::Collector;
use crate::suites::Checked;
use crate::suites::cron::VOLCANO;
use crate::suites::stage::{Made, Stage};
use crate::target::Target;
use crate::wire::{Asked, Fate, Log, Meddler, Moment, Trace, Who, Wire};

/// How long nothing must happen for a run to be over: longer than any backoff and any wait of the collector.
const QUIET: Duration = Duration::from_secs(300);
/// How long controllers get to know everything before the scenario goes on.
const SETTLED: Duration = Duration::from_secs(5);
/// How long what is left of dead controllers may take to end: its requests are never answered and time out.
const GONE: Duration = Duration::from_secs(60);
/// Nothing changes about the kinds of a scenario, and each discovery costs as much as all the rest.
const DISCOVERY: Duration = Duration::from_secs(3_600);
/// Runs that are not over after so many waits are never over.
const WAITS_MAX: usize = 20;

/// The moments of a request at which controllers die.
pub const MOMENTS: [Moment; 3] = [Moment::Before, Moment::Inside, Moment::After];

/// What is played while controllers die.
pub struct Scenario {
    /// What it is about.
    pub name: &'static str,
    /// Who dies.
    pub controllers: &'static [&'static str],
    /// Whether it is about kinds of Volcano.
    pub is_volcano: bool,
    /// Makes the objects, while no controller runs.
    pub make: for<'a> fn(&'a Stage) -> LocalBoxFuture<'a, Checked<Vec<Made>>>,
    /// What users do then.
    pub act: for<'a> fn(&'a Stage, &'a [Made]) -> LocalBoxFuture<'a, Checked>,
    /// Objects that may be there or not in the end, because it depends on who was faster.
    pub open: &'static [&'static str],
}

/// A death: at the n-th request of a generation, counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Which request.
    pub call: usize,
    /// When.
    pub moment: Moment,
}

/// How a run ended.
#[derive(Debug)]
pub struct Run {
    /// What is left: owners, finalizers and whether it is being deleted, by kind and name.
    pub end: BTreeMap<String, String>,
    /// How many requests the controllers made, all generations together.
    pub calls: usize,
    /// How many of the crashes came to pass.
    pub crashes: usize,
    /// What must never happen and did.
    pub violations: Vec<String>,
}

/// A meddler for each generation of controllers, if it is to have one.
pub type Meddlers<'a> = &'a dyn Fn(usize) -> Option<Box<dyn Meddler>>;

/// Ends its wire at one request.
struct Killer {
    crash: Crash,
    seen: usize,
}

// === impl Killer ===

impl Meddler for Killer {
    fn fate(&mut self, asked: &Asked<'_>) -> Fate {
        if !asked.is_effect {
            return Fate::Pass;
        }
        self.seen += 1;
        if self.seen == self.crash.call {
            Fate::End(self.crash.moment)
        } else {
            Fate::Pass
        }
    }
}

/// Plays a scenario with a crash at every request and moment. Gives the number of runs, or what went wrong in which.
pub async fn crash_everywhere(scenario: &Scenario) -> Result<usize, String> {
    let reference = reference(scenario).await?;
    let mut runs = 0;
    for call in 1..=reference.calls {
        for moment in MOMENTS {
            judge(scenario, &reference, &[Crash { call, moment }]).await?;
            runs += 1;
        }
    }
    Ok(runs)
}

/// Plays a scenario with two crashes, so many times, at requests and moments that `draw` chooses below a limit.
pub async fn crash_twice(
    scenario: &Scenario,
    times: usize,
    mut draw: impl FnMut(usize) -> usize,
) -> Result<(), String> {
    let reference = reference(scenario).await?;
    for _ in 0..times {
        let mut crash = || Crash {
            call: 1 + draw(reference.calls),
            moment: MOMENTS[draw(MOMENTS.len())],
        };
        let crashes = [crash(), crash()];
        judge(scenario, &reference, &crashes).await?;
    }
    Ok(())
}

async fn reference(scenario: &Scenario) -> Result<Run, String> {
    let reference = play(scenario, &|_| None).await?;
    let told = |what: &str| Err(format!("{}: {what}: {reference:?}", scenario.name));
    if !reference.violations.is_empty() {
        return told("without any crash");
    }
    if reference.calls == 0 {
        return told("nothing was ever asked");
    }
    Ok(reference)
}

async fn judge(scenario: &Scenario, reference: &Run, crashes: &[Crash]) -> Result<(), String> {
    let killers = |generation: usize| {
        let crash = *crashes.get(generation)?;
        Some(Box::new(Killer { crash, seen: 0 }) as Box<dyn Meddler>)
    };
    let run = play(scenario, &killers).await?;
    let without_open = |end: &BTreeMap<String, String>| {
        let mut end = end.clone();
        end.retain(|name, _| !scenario.open.iter().any(|open| name.ends_with(open)));
        end
    };
    // The first crash always comes to pass; the second only if that many requests were left.
    let is_same = without_open(&run.end) == without_open(&reference.end);
    if is_same && run.violations.is_empty() && run.crashes > 0 {
        return Ok(());
    }
    Err(format!(
        "{} {crashes:?}: {run:#?}\nwithout a crash: {:#?}",
        scenario.name, reference.end
    ))
}

/// Plays a scenario once; each generation of controllers meets its own meddler.
pub async fn play(scenario: &Scenario, meddlers: Meddlers<'_>) -> Result<Run, String> {
    let target = Target::embedded();
    let log = Log::default();
    let (kinds, watched) = scenarios::kinds(scenario.is_volcano);
    let words = |error: anyhow::Error| format!("{}: {error:#}", scenario.name);
    let users = Wire::new(target.client(), Who::User, &log, None);
    let through = target.through(users.client());
    let stage = Stage::set(&through, &Collector::Standing, "crash".to_owned()).await;
    if scenario.is_volcano {
        // The history of a kind begins with its definition.
        VOLCANO.define(&stage).await?;
    }
    let since = History::now(target.client()).await.map_err(words)?;
    let made = (scenario.make)(&stage).await?;
    let story = async {
        tokio::time::sleep(SETTLED).await;
        (scenario.act)(&stage, &made).await?;
        until_quiet(&log).await
    };
    let mut dead = Vec::new();
    let cast = Cast {
        names: scenario.controllers,
        kinds: &watched,
        discovery: DISCOVERY,
        ahead: SignedDuration::ZERO,
    };
    let lives = live(&target, &cast, &log, meddlers, &mut dead);
    tokio::select! {
        biased;
        ended = lives => ended?,
        ended = story => ended.map_err(|why| format!("{}: {why}", scenario.name))?,
    }
    tokio::time::sleep(GONE).await;
    if !dead.iter().all(Trace::is_gone) {
        return Err(format!("{}: something that died lives on", scenario.name));
    }
    let history = History::read(target.client(), &kinds, since)
        .await
        .map_err(words)?;
    Ok(Run {
        end: end(&history),
        calls: log.effects(),
        crashes: dead.len(),
        violations: violations(&history, &log.acts()),
    })
}

/// One generation of controllers after the other, for ever. What is left of those that died can do nothing, and has to
/// end some time.
pub(crate) async fn live(
    target: &Target,
    cast: &Cast<'_>,
    log: &Log,
    meddlers: Meddlers<'_>,
    dead: &mut Vec<Trace>,
) -> Result<(), String> {
    loop {
        let wire = Wire::new(target.client(), Who::Controllers, log, meddlers(dead.len()));
        let _generation = Generation::start(target, &wire, cast)?;
        wire.until_cut().await;
        dead.push(wire.trace());
    }
}

/// Waits until the controllers have written nothing for a while. An owner that no feed shows is asked for for ever.
pub(crate) async fn until_quiet(log: &Log) -> Checked {
    let mut quiet_at = Instant::now() + QUIET;
    for _ in 0..WAITS_MAX {
        tokio::time::sleep_until(quiet_at).await;
        match log.last_write().map(|last| last + QUIET) {
            Some(later) if later > quiet_at => quiet_at = later,
            _ => return Ok(()),
        }
    }
    Err("the controllers are never done".to_owned())
}

/// What is left, in words that do not depend on uids.
pub(crate) fn end(history: &History) -> BTreeMap<String, String> {
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
            // When it was depends on when somebody ran the Job.
            match status["lastSuccessfulTime"].is_string() {
                true => " has succeeded",
                false => "",
            },
        );
        (format!("{kind} {name}"), state)
    });
    left.collect()
}
