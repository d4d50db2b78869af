//! Random ownership under disturbance: faults, crashes and lagging watches, all drawn from one seed.
//!
//! A seed gives a small [`OwnershipScript`] and every disturbance of the run. The disturbance ends some time after the
//! user's last request. The final state must be what the model predicts, and the checkers judge every write. The same seed
//! gives the same run.

pub mod faults;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use caretaker_machinery::rng::Rng;
use jiff::SignedDuration;
use serde_json::json;

use self::faults::{Faults, WatchLag};
use crate::case::CheckResult;
use crate::checkers::KnownKind;
use crate::controllers::COLLECTOR;
use crate::controllers::process::ProcessOptions;
use crate::environment::Environment;
use crate::fixtures::CustomKind;
use crate::objects::{CONFIG_MAPS, PRIORITY_CLASSES, SECRETS, SERVICE_ACCOUNTS};
use crate::ownership::model::{ModelScope, ObjectEnd, ObjectPresence, expected};
use crate::ownership::run::ScriptRun;
use crate::ownership::{OwnershipScript, ScriptShape};
use crate::wire::{FaultInjector, RequestLog};

const NAMESPACE: &str = "chaos";
/// Time for which the faults go on after the user's last request.
const AFTERMATH: Duration = Duration::from_secs(60);
/// Time without faults after the creation, in which the controllers observe all objects: they have to discover the kinds
/// and list them, after backoffs of up to half a minute each.
const SETTLED: Duration = Duration::from_secs(90);
/// Longest delay of a watch event after the one before it.
const LAG_MAX: Duration = Duration::from_secs(4);
/// The default of the product, because a discovery may fail.
const DISCOVERY: Duration = Duration::from_secs(30);
/// Longer than a run whose first discovery succeeds: each discovery costs as much as all the rest.
const DISCOVERY_ONCE: Duration = Duration::from_secs(36_000);

/// What disturbs the controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// Requests fail, hang or arrive late, watches break, processes crash.
    Faults,
    /// Every watch shows its events late, each kind at its own pace, from the first object on.
    Lag,
    /// The same, and the user deletes objects before the watches have shown all of them.
    LagAndEarlyDeletes,
}

/// The numbers of a run, which show that something happened in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChaosSummary {
    /// Objects that were created.
    pub objects: usize,
    /// Objects that are left.
    pub left: usize,
    /// Objects whose end the model calls a race.
    pub races: usize,
    /// Requests of the controllers about single objects.
    pub calls: usize,
    pub crashes: usize,
}

impl std::ops::Add for ChaosSummary {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            objects: self.objects + other.objects,
            left: self.left + other.left,
            races: self.races + other.races,
            calls: self.calls + other.calls,
            crashes: self.crashes + other.crashes,
        }
    }
}

/// Runs one seed. An error contains the script and all requests.
pub async fn run(seed: u64, disturbance: Disturbance) -> CheckResult<ChaosSummary> {
    let script = OwnershipScript::of(seed, ScriptShape::SMALL);
    let env = Environment::recorded(NAMESPACE).await?;
    let ended = run_script(&env, &script, disturbance).await;
    ended.map_err(|why| format!("{disturbance:?} {script}{why}\n{}", requests(env.log())))
}

async fn run_script(
    env: &Environment,
    script: &OwnershipScript,
    disturbance: Disturbance,
) -> CheckResult<ChaosSummary> {
    let mut rng = Rng::seeded(script.seed);
    let gadgets = env.define(json!({})).await?;
    let kinds = kinds(&gadgets);
    env.start_history().await?;
    let is_calm = Arc::new(AtomicBool::new(false));
    let fault_seed = rng.u64();
    let faults = |process: usize| {
        let rng = Rng::seeded(fault_seed.wrapping_add(process as u64));
        let injector: Box<dyn FaultInjector> = match disturbance {
            Disturbance::Faults => Box::new(Faults::new(rng, is_calm.clone())),
            Disturbance::Lag | Disturbance::LagAndEarlyDeletes => {
                Box::new(WatchLag::new(rng, LAG_MAX))
            }
        };
        Some(injector)
    };
    let run = ScriptRun::new(env, script, &gadgets, NAMESPACE).await?;
    let mut run = run.with_pauses(rng);
    let users = async {
        run.create(env).await?;
        if disturbance != Disturbance::LagAndEarlyDeletes {
            is_calm.store(true, Ordering::Relaxed);
            tokio::time::sleep(SETTLED).await;
            is_calm.store(false, Ordering::Relaxed);
        }
        for round in 0..script.rounds.len() {
            run.round(env, round).await?;
        }
        tokio::time::sleep(AFTERMATH).await;
        is_calm.store(true, Ordering::Relaxed);
        env.until_quiet().await?;
        run.read_ends(env).await
    };
    let options = ProcessOptions {
        names: &[COLLECTOR],
        kinds: &kinds,
        discovery: match disturbance {
            Disturbance::Faults => DISCOVERY,
            _ => DISCOVERY_ONCE,
        },
        ahead: SignedDuration::ZERO,
    };
    let mut dead = Vec::new();
    let ends = tokio::select! {
        biased;
        ended = env.run_processes(&options, &faults, &mut dead) => return Err(ended.err().unwrap_or_default()),
        ends = users => ends?,
    };
    let races = judge(script, disturbance, &ends)?;
    check_rules(env, &kinds, disturbance).await?;
    let is_left = |end: &&ObjectEnd| end.presence != ObjectPresence::Gone;
    Ok(ChaosSummary {
        objects: ends.len(),
        left: ends.iter().filter(is_left).count(),
        races,
        calls: env.log().effects(),
        crashes: dead.len(),
    })
}

/// Checks that no safety rule was broken.
async fn check_rules(
    env: &Environment,
    kinds: &[KnownKind],
    disturbance: Disturbance,
) -> CheckResult {
    let mut violations = env.violations(kinds).await?;
    if disturbance == Disturbance::LagAndEarlyDeletes {
        // The collector releases an owner in foreground deletion when it knows of no dependent that blocks it, and deletes a
        // late one afterwards. An owner that leaves orphans waits for the watches.
        violations.retain(|why| !why.ends_with(" still blocks it"));
    }
    match violations.is_empty() {
        true => Ok(()),
        false => Err(violations.join("\n")),
    }
}

/// Compares the ends with the model; returns the number of races.
fn judge(
    script: &OwnershipScript,
    disturbance: Disturbance,
    ends: &[ObjectEnd],
) -> CheckResult<usize> {
    let scope = match disturbance {
        Disturbance::LagAndEarlyDeletes => ModelScope::CaretakerUnsettled,
        _ => ModelScope::Caretaker,
    };
    let expected = expected(script, scope);
    for (number, (expected, end)) in expected.iter().zip(ends).enumerate() {
        let name = script.name(number);
        if end.presence == ObjectPresence::Deleting || !end.finalizers.is_empty() {
            return Err(format!("{name} is not finished: {end:?}"));
        }
        if let Some(why) = expected.difference(end) {
            return Err(format!("{name}: {why}"));
        }
    }
    let races = expected.iter().filter(|end| end.presence.is_none());
    Ok(races.count())
}

/// All recorded requests, a line each.
fn requests(log: &RequestLog) -> String {
    let acts = log.acts();
    let Some(began) = acts.first().map(|act| act.sent) else {
        return String::new();
    };
    let lines = acts.iter().map(|act| {
        let after = act.sent.saturating_duration_since(began).as_millis();
        let (who, method, path, status) = (act.who, &act.method, &act.path, act.status);
        format!("{after} ms {who:?} {method} {path} {}: {status}", act.body)
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn kinds(gadgets: &CustomKind) -> Vec<KnownKind> {
    vec![
        KnownKind::new(CONFIG_MAPS, "v1", "ConfigMap"),
        KnownKind::new(SECRETS, "v1", "Secret"),
        KnownKind::new(SERVICE_ACCOUNTS, "v1", "ServiceAccount"),
        KnownKind::new(PRIORITY_CLASSES, "scheduling.k8s.io/v1", "PriorityClass"),
        KnownKind::new(
            gadgets.resource.clone(),
            &format!("{}/{}", gadgets.group, gadgets.version),
            "Gadget",
        ),
    ]
}
