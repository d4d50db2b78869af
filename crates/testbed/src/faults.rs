//! Random ownership under every fault that a proxy can cause, with real processes that are killed and restarted.
//!
//! A seed determines the users' choices, the faults and the kills; on a real network the timing is not repeatable. Users
//! create about a thousand objects and work on them for a while ([`users`]), while `caretaker run` reaches the server
//! through faults ([`trouble`], [`proxy`]) and is killed and started again ([`processes`]). Then the faults end. What is
//! left must be what an independent model predicts ([`model`], [`judge`]), and the checkers judge every write by the
//! server's own history ([`recorder`]). `cargo xtask faults` runs many seeds on both servers; `cargo test` runs small ones
//! with controllers in this process, on paused time.

mod judge;
pub mod model;
mod processes;
mod proxy;
mod recorder;
mod trouble;
mod users;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use caretaker_machinery::rng::Rng;
use tokio::sync::watch;
use tokio::time::Instant;

pub use self::judge::{EndFault, EndFinding};
pub use self::processes::ControllerHost;
pub use self::trouble::{FaultKind, FaultMix};

use self::judge::{ExistingObjects, RunRecords, findings};
use self::model::{ExpectedFate, OwnershipModel};
use self::processes::ControllerFleet;
use self::recorder::HistoryRecorder;
use self::trouble::TroubleState;
use self::users::UserWorld;
use crate::case::CheckResult;
use crate::checkers::{ObjectHistory, violations};
use crate::environment::Environment;
use crate::session::Ask;
use crate::target::Target;

/// Time for which the faults go on after the users' last request.
const AFTERMATH: Duration = Duration::from_secs(4);
/// Longest time after the faults until nothing is left that has to go: three times the longest backoff of the product.
const SETTLED_MAX: Duration = Duration::from_secs(180);
/// Time between two comparisons, and after the last change until the final one.
const LOOK: Duration = Duration::from_secs(1);
const QUIET: Duration = Duration::from_secs(3);
/// Longest wait for the watches of the history.
const HISTORY_MAX: Duration = Duration::from_secs(10);
/// Most objects whose story a report contains.
const STORIES_MAX: usize = 3;
/// Longest time between a kill and the next start.
const DOWN_MAX: Duration = Duration::from_secs(2);
/// Longest time for which a proxy is closed.
const OUTAGE_MAX: Duration = Duration::from_millis(1500);

/// The number of objects and requests of a run.
#[derive(Clone, Copy, Debug)]
pub struct FaultsSize {
    pub users: usize,
    /// Objects that each user creates first.
    pub objects: usize,
    /// Random requests of each user after that.
    pub steps: usize,
    pub pause_max: Duration,
}

/// Everything that a seed determines.
#[derive(Clone, Debug)]
pub struct FaultsPlan {
    pub seed: u64,
    pub size: FaultsSize,
    user_seed: u64,
    fault_seed: u64,
    mix: FaultMix,
    /// For each process, when it is killed and for how long it stays away.
    kills: Vec<Vec<(Duration, Duration)>>,
    /// The same for its proxy.
    outages: Vec<Vec<(Duration, Duration)>>,
}

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultsReport {
    pub seed: u64,
    pub processes: usize,
    pub lies: bool,
    /// Objects that were created.
    pub objects: usize,
    /// Requests of the users that the server accepted.
    pub deeds: usize,
    /// Writes of the controllers that the server accepted.
    pub writes: usize,
    /// Objects that are left.
    pub left: usize,
    /// Objects whose end is a race.
    pub either: usize,
    /// Owners whose incomplete release was announced by an Event.
    pub announced: usize,
    pub faults: BTreeMap<FaultKind, usize>,
    pub kills: usize,
    /// Processes that ended by themselves.
    pub exits: usize,
    /// Time from the end of the faults until nothing was left that had to go.
    pub settled: Duration,
    pub took: Duration,
    pub findings: Vec<EndFinding>,
    /// Safety rules that were broken.
    pub violations: Vec<String>,
    /// What happened to the objects of the first findings.
    pub stories: Vec<String>,
}

/// What a run observes at its end.
struct RunEnd {
    model: OwnershipModel,
    existing: ExistingObjects,
    findings: Vec<EndFinding>,
    settled: Duration,
}

/// Runs one seed.
pub async fn run(
    target: &Target,
    host: &ControllerHost,
    plan: &FaultsPlan,
) -> CheckResult<FaultsReport> {
    let began = Instant::now();
    let env = Environment::recorded_on(target, &format!("faults-{:06}", plan.seed)).await?;
    let users = UserWorld::new(&env).await?;
    let since = ObjectHistory::now(target.client()).await;
    let since = since.map_err(|error| format!("{error:#}"))?;
    let recorder = HistoryRecorder::default();
    let state = Arc::new(TroubleState::default());
    let fleet = ControllerFleet {
        env: &env,
        plan,
        kinds: &users.kinds,
        state: state.clone(),
        restarts: watch::Sender::new(0),
        kills: AtomicUsize::new(0),
        exits: AtomicUsize::new(0),
    };
    let end = async {
        run_users(plan, &users).await?;
        tokio::time::sleep(AFTERMATH).await;
        state.set_calm(true);
        if plan.mix.lies {
            // A list that was wrong and well-formed cannot be noticed; the next process lists again.
            fleet.restarts.send_modify(|count| *count += 1);
        }
        let end = settle(&env, &users, &state).await?;
        wait_for_history(&recorder, &users, &end.existing).await?;
        Ok::<_, String>(end)
    };
    let end = tokio::select! {
        biased;
        ended = recorder.follow(target.client(), &users.kinds, since) => ended.and(Err("the history ended".to_owned())),
        ended = fleet.run(host) => ended.and(Err("the controllers ended".to_owned())),
        end = end => end,
    }?;
    let history = recorder.history(&users.kinds);
    let report = report(plan, &fleet, &users, &history, end, began, host);
    env.clean_up().await;
    Ok(report)
}

async fn run_users(plan: &FaultsPlan, users: &UserWorld<'_>) -> CheckResult {
    let mut rng = Rng::seeded(plan.user_seed);
    let FaultsSize {
        objects,
        steps,
        pause_max,
        ..
    } = plan.size;
    let all = (0..plan.size.users).map(|_| users.run_user(rng.fork(), objects, steps, pause_max));
    futures::future::try_join_all(all).await.map(|_| ())
}

/// Waits until nothing is left that has to go, or until the time is over.
async fn settle(
    env: &Environment,
    users: &UserWorld<'_>,
    state: &TroubleState,
) -> CheckResult<RunEnd> {
    let began = Instant::now();
    let mut settled = None;
    loop {
        let existing = existing(env, users).await?;
        let deeds = users.with_book(|book| book.deeds.clone());
        let model = OwnershipModel::of(&deeds, users.excuses(state));
        let findings = findings(&model, &existing);
        let is_wrong = |finding: &EndFinding| finding.fault == EndFault::WrongDelete;
        let is_settled = findings.iter().all(is_wrong);
        let since = *settled.get_or_insert_with(Instant::now);
        let end = RunEnd {
            model,
            existing,
            findings,
            settled: since.saturating_duration_since(began),
        };
        if (is_settled && since.elapsed() >= QUIET) || began.elapsed() > SETTLED_MAX {
            return Ok(end);
        }
        if !is_settled {
            settled = None;
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn existing(env: &Environment, users: &UserWorld<'_>) -> CheckResult<ExistingObjects> {
    let mut existing = ExistingObjects::new();
    for kind in &users.kinds {
        let list = env
            .send(Ask::get(kind.resource.everywhere()), &[200])
            .await?;
        for object in list.body["items"].as_array().into_iter().flatten() {
            let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
            existing.insert(uid.to_owned(), object.clone());
        }
    }
    Ok(existing)
}

/// Waits until the history has all that exists.
async fn wait_for_history(
    recorder: &HistoryRecorder,
    users: &UserWorld<'_>,
    existing: &ExistingObjects,
) -> CheckResult {
    let began = Instant::now();
    let ours = users.with_book(|book| {
        book.deeds
            .iter()
            .map(|deed| deed.uid.clone())
            .collect::<Vec<_>>()
    });
    loop {
        let history = recorder.history(&users.kinds);
        let end = history.before(u64::MAX);
        let is_seen = |uid: &String| end.contains_key(uid.as_str()) == existing.contains_key(uid);
        if ours.iter().all(is_seen) {
            return Ok(());
        }
        if began.elapsed() > HISTORY_MAX {
            return Err("the history of the server lags behind its lists".to_owned());
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn report(
    plan: &FaultsPlan,
    fleet: &ControllerFleet<'_>,
    users: &UserWorld<'_>,
    history: &ObjectHistory,
    end: RunEnd,
    began: Instant,
    host: &ControllerHost,
) -> FaultsReport {
    let requests = fleet.env.log().acts();
    let excuses = users.excuses(&fleet.state);
    let unseen = users.names_of(&excuses.dependents);
    let mut violations = violations(history, &requests);
    violations.retain(|why| {
        let is_announced = excuses.owners.iter().any(|uid| why.contains(uid.as_str()));
        let mut unseen = unseen.iter();
        let is_unseen = unseen.any(|name| why.ends_with(&format!(" {name} still refers to it")));
        // A dependent that appears during a foreground deletion may come too late for the owner to wait for it.
        !why.ends_with(" still blocks it") && !is_announced && !is_unseen
    });
    let lines = users.with_book(|book| book.lines.clone());
    let records = RunRecords {
        users: &lines,
        requests: &requests,
        versions: history.all().collect(),
        began: users.began,
        logs: host.logs(plan.kills.len()),
    };
    let first = end.findings.iter().take(STORIES_MAX);
    let stories = first.map(|finding| format!("{finding}\n{}", records.story(&finding.uid)));
    let is_race = |uid: &&str| end.model.fate(uid) == ExpectedFate::Either;
    FaultsReport {
        seed: plan.seed,
        processes: plan.kills.len(),
        lies: plan.mix.lies,
        objects: end.model.uids().count(),
        deeds: lines.len(),
        writes: requests
            .iter()
            .filter(|request| request.is_controllers_write())
            .count(),
        left: end
            .model
            .uids()
            .filter(|uid| end.existing.contains_key(*uid))
            .count(),
        either: end.model.uids().filter(is_race).count(),
        announced: excuses.owners.len(),
        faults: fleet.state.counts(),
        kills: fleet.kills.load(Ordering::Relaxed),
        exits: fleet.exits.load(Ordering::Relaxed),
        settled: end.settled,
        took: began.elapsed(),
        stories: stories.collect(),
        findings: end.findings,
        violations,
    }
}

// === impl FaultsSize ===

impl FaultsSize {
    /// Five hundred objects at first and about as many later, for real processes.
    pub const LARGE: Self = Self {
        users: 4,
        objects: 125,
        steps: 160,
        pause_max: Duration::from_millis(200),
    };
    /// For many runs on paused time.
    pub const SMALL: Self = Self {
        users: 3,
        objects: 20,
        steps: 30,
        pause_max: Duration::from_secs(1),
    };

    /// The time that the users need at least, on average.
    fn duration(&self) -> Duration {
        let steps = u32::try_from(self.steps).unwrap_or(u32::MAX);
        self.pause_max.saturating_mul(steps) / 2
    }
}

// === impl FaultsPlan ===

impl FaultsPlan {
    /// The plan of a seed: two processes in a third of the seeds, lying lists in another third.
    pub fn of(seed: u64, size: FaultsSize) -> Self {
        let mut rng = Rng::seeded(seed);
        let processes = if seed % 3 == 1 { 2 } else { 1 };
        let lies = seed % 3 == 2;
        let window = size.duration() + AFTERMATH;
        let times = |rng: &mut Rng, count: usize, length: Duration| {
            let times = (0..count).map(|_| rng.duration(Duration::ZERO..window));
            let mut times: Vec<Duration> = times.collect();
            times.sort();
            let times = times.into_iter();
            times
                .map(|at| (at, rng.duration(Duration::ZERO..length)))
                .collect::<Vec<_>>()
        };
        let mut kills = Vec::new();
        let mut outages = Vec::new();
        for _ in 0..processes {
            let count = 1 + rng.below(4);
            kills.push(times(&mut rng, count, DOWN_MAX));
            let count = rng.below(3);
            outages.push(times(&mut rng, count, OUTAGE_MAX));
        }
        Self {
            seed,
            size,
            user_seed: rng.u64(),
            fault_seed: rng.u64(),
            mix: FaultMix::of(&mut rng, lies),
            kills,
            outages,
        }
    }
}

// === impl FaultsReport ===

impl FaultsReport {
    pub fn count(&self, fault: EndFault) -> usize {
        let same = self
            .findings
            .iter()
            .filter(|finding| finding.fault == fault);
        same.count()
    }

    pub fn is_right(&self) -> bool {
        self.findings.is_empty() && self.violations.is_empty()
    }
}

impl fmt::Display for FaultsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed,
            processes,
            objects,
            deeds,
            writes,
            left,
            either,
            kills,
            ..
        } = self;
        let lies = if self.lies { ", lying lists" } else { "" };
        write!(
            f,
            "seed {seed}: {processes} at once{lies}; {objects} objects, {deeds} users' requests, {writes} writes; faults"
        )?;
        for (kind, count) in &self.faults {
            write!(f, " {kind:?} {count}")?;
        }
        write!(
            f,
            "; {kills} kills, {} exits; {left} left, {either} either, {} announced; settled in {:.0} s of {:.0} s: ",
            self.exits,
            self.announced,
            self.settled.as_secs_f64(),
            self.took.as_secs_f64()
        )?;
        if self.is_right() {
            return f.write_str("right");
        }
        write!(
            f,
            "WRONG: {} wrong deletes, {} leftovers, {} lost and {} left references, {} rules broken",
            self.count(EndFault::WrongDelete),
            self.count(EndFault::Leftover),
            self.count(EndFault::LostReference),
            self.count(EndFault::LeftReference),
            self.violations.len()
        )
    }
}
