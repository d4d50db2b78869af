//! Controllers that are lied to, at random: answers that are late, lost, wrong or rude, watches that break, and deaths.
//!
//! A seed gives a graph, deletes with policies, and every fault of the run. When the users are done, the faults end, and
//! what is left must be what [`model`] says, whatever happened on the way; the checkers judge every write. The same seed
//! gives the same run.

pub mod faults;
pub mod model;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use caretaker_machinery::rng::Rng;
use jiff::SignedDuration;
use serde_json::{Value, json};

use self::faults::Faults;
use self::model::{Policy, Script, Sort};
use crate::checkers::{History, Known, violations};
use crate::collector::{Collector, NAME};
use crate::crash::{Cast, end, live, until_quiet};
use crate::objects::{CLUSTER_ROLES, CONFIG_MAPS, Resource, SECRETS, mk_config_map, mk_object};
use crate::suites::Checked;
use crate::suites::stage::{Kind, Made, Stage, blocking};
use crate::target::Target;
use crate::wire::{Log, Meddler, Who, Wire};

const NAMESPACE: &str = "chaos";
/// How long users take between two deletes, at most.
const HURRY: Duration = Duration::from_secs(10);
/// How long the faults go on when the users are done.
const AFTERMATH: Duration = Duration::from_secs(60);

/// How long everything is quiet when the objects are made, so that the controllers know them: they have to discover
/// the kinds and list them, after backoffs of up to half a minute each.
const SETTLED: Duration = Duration::from_secs(90);
/// How often controllers look for kinds: as often as they do by themselves, because a discovery may fail.
const DISCOVERY: Duration = Duration::from_secs(30);

/// What a run was like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Objects there were.
    pub objects: usize,
    /// Objects that are left.
    pub left: usize,
    /// Requests about single objects.
    pub calls: usize,
    /// Times the controllers died.
    pub deaths: usize,
}

/// Everything one run has.
struct Play {
    stage: Stage,
    gadgets: Kind,
    rng: Rng,
    script: Script,
}

/// Plays one seed. What went wrong is told with everything that is needed to see it again.
pub async fn play(seed: u64) -> Result<Told, String> {
    let mut rng = Rng::seeded(seed);
    let script = Script::draw(&mut rng);
    let told = format!("seed {seed}: {script:?}");
    run(script, rng)
        .await
        .map_err(|why| format!("{told}: {why}"))
}

async fn run(script: Script, mut rng: Rng) -> Result<Told, String> {
    let target = Target::embedded();
    let log = Log::default();
    let users = Wire::new(target.client(), Who::User, &log, None);
    let through = target.through(users.client());
    let stage = Stage::set(&through, &Collector::Standing, NAMESPACE.to_owned()).await;
    let gadgets = stage.define(json!({})).await?;
    let kinds = kinds(&gadgets);
    let since = History::now(target.client()).await;
    let since = since.map_err(|error| format!("{error:#}"))?;
    let is_calm = Arc::new(AtomicBool::new(false));
    let faults = rng.u64();
    let meddlers = |generation: usize| {
        let rng = Rng::seeded(faults.wrapping_add(generation as u64));
        Some(Box::new(Faults::new(rng, is_calm.clone())) as Box<dyn Meddler>)
    };
    let mut play = Play {
        stage,
        gadgets,
        rng,
        script,
    };
    let story = async {
        let made = play.make().await?;
        // A dependent that no watch has shown yet cannot be orphaned, nor waited for: that much is nobody's fault.
        is_calm.store(true, Ordering::Relaxed);
        tokio::time::sleep(SETTLED).await;
        is_calm.store(false, Ordering::Relaxed);
        play.delete(&made).await?;
        tokio::time::sleep(AFTERMATH).await;
        is_calm.store(true, Ordering::Relaxed);
        until_quiet(&log).await?;
        Ok::<_, String>(made)
    };
    let mut dead = Vec::new();
    let cast = Cast {
        names: &[NAME],
        kinds: &kinds,
        discovery: DISCOVERY,
        ahead: SignedDuration::ZERO,
    };
    let lives = live(&target, &cast, &log, &meddlers, &mut dead);
    let made = tokio::select! {
        biased;
        ended = lives => return Err(ended.err().unwrap_or_default()),
        made = story => made?,
    };
    let history = History::read(target.client(), &kinds, since).await;
    let history = history.map_err(|error| format!("{error:#}"))?;
    let left =
        judge(&play.script, &made, &history).map_err(|why| format!("{why}\n{}", written(&log)))?;
    let violations = violations(&history, &log.acts());
    if !violations.is_empty() {
        return Err(format!("{}\n{}", violations.join("\n"), written(&log)));
    }
    Ok(Told {
        objects: made.len(),
        left,
        calls: log.effects(),
        deaths: dead.len(),
    })
}

/// What was asked of the server, in words.
fn written(log: &Log) -> String {
    let acts = log.acts();
    let Some(began) = acts.first().map(|act| act.sent) else {
        return String::new();
    };
    let words = acts.iter().map(|act| {
        let after = act.sent.saturating_duration_since(began).as_millis();
        let (who, method, path, status) = (act.who, &act.method, &act.path, act.status);
        format!("{after} ms {who:?} {method} {path} {}: {status}", act.body)
    });
    words.collect::<Vec<_>>().join("\n")
}

fn kinds(gadgets: &Kind) -> Vec<Known> {
    vec![
        Known::new(CONFIG_MAPS, "v1", "ConfigMap"),
        Known::new(SECRETS, "v1", "Secret"),
        Known::new(CLUSTER_ROLES, "rbac.authorization.k8s.io/v1", "ClusterRole"),
        Known::new(
            gadgets.resource.clone(),
            &format!("{}/{}", gadgets.group, gadgets.version),
            "Gadget",
        ),
    ]
}

/// Compares what is left with the model; gives how much it is.
fn judge(
    script: &Script,
    made: &BTreeMap<String, Made>,
    history: &History,
) -> Result<usize, String> {
    let left = end(history);
    let stuck: Vec<String> = left
        .iter()
        .filter(|(_, state)| state.contains("deleting") || !state.contains("finalizers []"))
        .map(|(name, state)| format!("{name} {state}"))
        .collect();
    if !stuck.is_empty() {
        return Err(format!("not finished: {stuck:?}"));
    }
    let there: BTreeSet<&str> = left
        .keys()
        .filter_map(|name| name.rsplit([' ', '-']).next())
        .collect();
    let (must_go, may_go) = script.model();
    for name in made.keys() {
        let is_there = there.contains(name.as_str());
        if is_there && must_go.contains(name) {
            return Err(format!("{name} must go"));
        }
        if !is_there && !may_go.contains(name) {
            return Err(format!("{name} must stay"));
        }
    }
    Ok(there.len())
}

// === impl Play ===

impl Play {
    /// Makes the objects, and then says who owns whom: only an object that exists has a uid.
    async fn make(&mut self) -> Checked<BTreeMap<String, Made>> {
        let mut made = BTreeMap::new();
        for name in self.script.owners.keys() {
            let (resource, object) = self.object(name);
            made.insert(name.clone(), self.stage.make(&resource, object).await?);
        }
        for (name, owners) in self.script.owners.clone() {
            let mut references = Vec::new();
            for owner in &owners {
                let reference = made
                    .get(owner)
                    .map_or_else(|| self.absent(&name), Made::reference);
                let is_blocking = self.rng.below(2) == 0;
                references.push(if is_blocking {
                    blocking(reference)
                } else {
                    reference
                });
            }
            let change = json!({"metadata": {"ownerReferences": references}});
            self.stage.change(&made[&name], change).await?;
            if self.rng.below(4) == 0 {
                tokio::time::sleep(self.rng.duration(Duration::ZERO..HURRY)).await;
            }
        }
        Ok(made)
    }

    fn object(&self, name: &str) -> (Resource, Value) {
        match Sort::of(name) {
            Sort::Map => (CONFIG_MAPS, mk_config_map(name)),
            Sort::Secret => (SECRETS, mk_object("v1", "Secret", name)),
            Sort::Role => {
                let role = mk_object("rbac.authorization.k8s.io/v1", "ClusterRole", name);
                (CLUSTER_ROLES, role)
            }
            Sort::Gadget => (self.gadgets.resource.clone(), self.gadgets.object(name)),
        }
    }

    /// A reference to nobody, of a kind that can own the object.
    fn absent(&self, name: &str) -> Value {
        let mut reference = self.stage.absent();
        if Sort::of(name) == Sort::Role {
            reference["apiVersion"] = "rbac.authorization.k8s.io/v1".into();
            reference["kind"] = "ClusterRole".into();
        }
        reference
    }

    /// Deletes what the script says, in any order. Some are gone before their turn comes.
    async fn delete(&mut self, made: &BTreeMap<String, Made>) -> Checked {
        let mut deletes: Vec<(String, Policy)> = self.script.deletes.clone().into_iter().collect();
        while !deletes.is_empty() {
            let (name, policy) = deletes.swap_remove(self.rng.below(deletes.len()));
            if self.stage.look(&made[&name]).await?.is_some() {
                let options = json!({"propagationPolicy": policy.as_str()});
                self.stage.delete(&made[&name], options).await?;
            }
            if self.rng.below(2) == 0 {
                tokio::time::sleep(self.rng.duration(Duration::ZERO..HURRY)).await;
            }
        }
        Ok(())
    }
}
