//! Executes scripts on a server and reads what is left.
//!
//! Every script has two namespaces of its own. [`ScriptRunner`] executes many scripts at a time with one server, one
//! collector and one custom kind: all objects are created, then round after round of requests is sent, and in between the
//! runner waits until the collector has observed everything and nothing has changed for a while. It cleans nothing up,
//! because the server is thrown away afterwards.

use std::collections::BTreeMap;
use std::time::Duration;

use caretaker_machinery::rng::Rng;
use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::model::{ObjectEnd, ObjectPresence};
use super::{
    HOLD, OwnershipScript, ReferenceMistake, ScriptKind, ScriptReference, ScriptStep, shuffle,
};
use crate::case::CheckResult;
use crate::controllers::ControllerSource;
use crate::environment::Environment;
use crate::fixtures::{CreatedObject, CustomKind, owned};
use crate::objects::{
    CONFIG_MAPS, PRIORITY_CLASSES, Resource, SECRETS, SERVICE_ACCOUNTS, mk_config_map, mk_object,
    with,
};
use crate::session::Ask;
use crate::target::{Server, Target};

/// The label that all objects of a group of scripts have.
const GROUP_LABEL: &str = "random";
/// Time without a change after which the collector rests, and the time between two checks.
const REST_REAL: (Duration, Duration) = (Duration::from_secs(4), Duration::from_millis(500));
/// The same on paused time.
const REST_PAUSED: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(5));
/// Longest wait for a collector to rest.
const REST_MAX: Duration = Duration::from_secs(300);
/// Number of attempts to remove a finalizer when other clients change the object meanwhile.
const CONFLICTS_MAX: usize = 20;
/// Longest pause between two requests of a slow user.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// A server whose collector runs and watches the custom kind.
pub struct ScriptRunner<'t> {
    target: &'t Target,
    /// The environment that has started the collector.
    env: Environment,
    custom: CustomKind,
    groups: usize,
}

/// One script on a server.
pub struct ScriptRun<'s> {
    script: &'s OwnershipScript,
    second_ns: String,
    custom: CustomKind,
    group: String,
    /// The created objects, by number.
    created: Vec<Option<CreatedObject>>,
    /// The uids of the references that an object was created with.
    owners: Vec<Vec<String>>,
    /// Draws pauses between requests; `None` for a user without pauses.
    pauses: Option<Rng>,
}

/// All objects of a group, by uid.
type ObservedObjects = BTreeMap<String, Value>;

// === impl ScriptRunner ===

impl<'t> ScriptRunner<'t> {
    /// Defines the custom kind, starts the collector and waits until it collects every kind.
    pub async fn start(target: &'t Target, source: &ControllerSource) -> CheckResult<Self> {
        let env = Environment::new(target, source, "random".to_owned()).await;
        let custom = env.define(json!({})).await?;
        env.start_controllers().await?;
        let runner = Self {
            target,
            env,
            custom,
            groups: 0,
        };
        runner.all_seen().await?;
        Ok(runner)
    }

    /// Executes scripts together; returns the ends of the objects of each.
    pub async fn run(&mut self, scripts: &[OwnershipScript]) -> CheckResult<Vec<Vec<ObjectEnd>>> {
        self.groups += 1;
        let group = format!("g{}", self.groups);
        let prepared = scripts.iter().map(|script| self.prepare(script, &group));
        let mut all = futures::future::try_join_all(prepared).await?;
        let creating = all.iter_mut().map(|(env, run)| run.create(env));
        futures::future::try_join_all(creating).await?;
        self.all_seen().await?;
        let mut observed = self.rest(&group).await?;
        let rounds = scripts.iter().map(|script| script.rounds.len()).max();
        for round in 0..rounds.unwrap_or(0) {
            let sending = all.iter_mut().map(|(env, run)| run.round(env, round));
            futures::future::try_join_all(sending).await?;
            observed = self.rest(&group).await?;
        }
        Ok(all.iter().map(|(_, run)| run.ends(&observed)).collect())
    }

    async fn prepare<'s>(
        &self,
        script: &'s OwnershipScript,
        group: &str,
    ) -> CheckResult<(Environment, ScriptRun<'s>)> {
        let ns = format!("random-{}", script.seed);
        let env = Environment::new(self.target, &ControllerSource::Running, ns).await;
        let run = ScriptRun::new(&env, script, &self.custom, group).await?;
        Ok((env, run))
    }

    /// Waits until the collector has observed everything created so far.
    async fn all_seen(&self) -> CheckResult {
        for kind in ScriptKind::ALL {
            let canary = kind.object(&self.custom, "c");
            self.env.seen(&kind.resource(&self.custom), canary).await?;
        }
        Ok(())
    }

    /// Waits until nothing changes any more; returns the objects that exist then.
    async fn rest(&self, group: &str) -> CheckResult<ObservedObjects> {
        let (quiet, step) = match self.target.server() {
            Server::Embedded => REST_PAUSED,
            Server::Real => REST_REAL,
        };
        let deadline = Instant::now() + REST_MAX;
        let mut observed = observe(&self.env, &self.custom, group).await?;
        let mut since = Instant::now();
        while since.elapsed() < quiet {
            self.env.check_running()?;
            if Instant::now() > deadline {
                return Err(format!("no rest after {} s", REST_MAX.as_secs()));
            }
            tokio::time::sleep(step).await;
            let now = observe(&self.env, &self.custom, group).await?;
            if now != observed {
                (observed, since) = (now, Instant::now());
            }
        }
        Ok(observed)
    }
}

async fn observe(
    env: &Environment,
    custom: &CustomKind,
    group: &str,
) -> CheckResult<ObservedObjects> {
    let mut observed = ObservedObjects::new();
    for kind in ScriptKind::ALL {
        let path = kind.resource(custom).everywhere();
        let path = format!("{path}?labelSelector={GROUP_LABEL}%3D{group}");
        let list = env.send(Ask::get(path), &[200]).await?;
        for object in list.body["items"].as_array().into_iter().flatten() {
            let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
            observed.insert(uid.to_owned(), object.clone());
        }
    }
    Ok(observed)
}

// === impl ScriptRun ===

impl<'s> ScriptRun<'s> {
    /// Creates the second namespace.
    pub async fn new(
        env: &Environment,
        script: &'s OwnershipScript,
        custom: &CustomKind,
        group: &str,
    ) -> CheckResult<Self> {
        Ok(Self {
            script,
            second_ns: env.second_ns().await?,
            custom: custom.clone(),
            group: group.to_owned(),
            created: vec![None; script.objects.len()],
            owners: vec![Vec::new(); script.objects.len()],
            pauses: None,
        })
    }

    /// Makes the user pause at random between requests.
    #[must_use]
    pub fn with_pauses(self, rng: Rng) -> Self {
        Self {
            pauses: Some(rng),
            ..self
        }
    }

    /// Creates all objects in a random order, each with all its references. Objects whose owners come later, as in a
    /// ring, get their references at the end.
    pub async fn create(&mut self, env: &Environment) -> CheckResult {
        let mut order: Vec<usize> = (0..self.script.objects.len()).collect();
        shuffle(&mut order, &mut Rng::seeded(self.script.seed));
        let mut late = Vec::new();
        for number in order {
            let references = self.references(env, number);
            if references.is_none() {
                late.push(number);
            }
            self.create_one(env, number, references.unwrap_or_default())
                .await?;
        }
        for number in late {
            let references = self.references(env, number).unwrap_or_default();
            self.owners[number] = uids(&references);
            if let Some(created) = &self.created[number] {
                let patch = json!({"metadata": {"ownerReferences": references}});
                env.change(created, patch).await?;
            }
        }
        Ok(())
    }

    async fn create_one(
        &mut self,
        env: &Environment,
        number: usize,
        references: Vec<Value>,
    ) -> CheckResult {
        let object = &self.script.objects[number];
        let plain = object.kind.object(&self.custom, &self.script.name(number));
        let labels = json!({"metadata": {"labels": {GROUP_LABEL: self.group}}});
        let mut full = owned(with(plain, labels), &references);
        if let Some(finalizer) = object.finalizer {
            full["metadata"]["finalizers"] = json!([finalizer]);
        }
        let ns = match object.is_away {
            true => self.second_ns.as_str(),
            false => env.ns(),
        };
        let resource = object.kind.resource(&self.custom);
        self.created[number] = Some(env.make_in(ns, &resource, full).await?);
        self.owners[number] = uids(&references);
        Ok(())
    }

    /// The references of an object; `None` if one of its owners is not created yet.
    fn references(&self, env: &Environment, number: usize) -> Option<Vec<Value>> {
        let references = self.script.objects[number].references.iter();
        references
            .map(|reference| self.reference(env, reference))
            .collect()
    }

    fn reference(&self, env: &Environment, reference: &ScriptReference) -> Option<Value> {
        let named = reference.kind.object(&self.custom, "absent");
        let mut value = env.absent();
        value["apiVersion"] = named["apiVersion"].clone();
        value["kind"] = named["kind"].clone();
        if let Some(owner) = reference.owner {
            let owner = self.created[owner].as_ref()?;
            value["name"] = owner.name().into();
            value["uid"] = owner.uid().into();
        }
        match reference.mistake {
            Some(ReferenceMistake::Name) => value["name"] = "another-name".into(),
            Some(ReferenceMistake::Version) => {
                let group = value["apiVersion"].as_str().unwrap_or_default();
                let group = group.rsplit_once('/').map_or("", |(group, _)| group);
                value["apiVersion"] = format!("{group}/v9").trim_start_matches('/').into();
            }
            None => {}
        }
        if reference.blocks {
            value["blockOwnerDeletion"] = true.into();
        }
        if reference.controls {
            value["controller"] = true.into();
        }
        Some(value)
    }

    /// Sends the requests of one round.
    pub async fn round(&mut self, env: &Environment, round: usize) -> CheckResult {
        for step in self.script.rounds.get(round).into_iter().flatten() {
            match step {
                ScriptStep::Delete(number, policy) => {
                    let options = json!({"propagationPolicy": policy.word()});
                    self.delete(env, *number, &options).await?;
                }
                ScriptStep::Release(number) => self.release(env, *number).await?,
            }
            if let Some(rng) = &mut self.pauses
                && rng.below(2) == 0
            {
                tokio::time::sleep(rng.duration(Duration::ZERO..PAUSE_MAX)).await;
            }
        }
        Ok(())
    }

    /// The current state of all objects.
    pub async fn read_ends(&self, env: &Environment) -> CheckResult<Vec<ObjectEnd>> {
        Ok(self.ends(&observe(env, &self.custom, &self.group).await?))
    }

    async fn delete(&self, env: &Environment, number: usize, options: &Value) -> CheckResult {
        if let Some(created) = &self.created[number] {
            let ask = Ask::new(Method::DELETE, created.path()).json(options);
            env.send(ask, &[200, 202, 404]).await?;
        }
        Ok(())
    }

    /// Removes [`HOLD`] and leaves the other finalizers, which are the collector's.
    async fn release(&self, env: &Environment, number: usize) -> CheckResult {
        let Some(created) = &self.created[number] else {
            return Ok(());
        };
        for _ in 0..CONFLICTS_MAX {
            let Some(object) = env.look(created).await? else {
                return Ok(());
            };
            let meta = &object["metadata"];
            let others = texts(&meta["finalizers"]).filter(|own| *own != HOLD);
            let others: Vec<&str> = others.collect();
            let patch = json!({"metadata": {"resourceVersion": meta["resourceVersion"], "finalizers": others}});
            let ask = Ask::merge_patch(created.path(), &patch);
            if env.send(ask, &[200, 404, 409]).await?.status != 409 {
                return Ok(());
            }
        }
        Err(format!(
            "{} still conflicts after {CONFLICTS_MAX} attempts",
            created.path()
        ))
    }

    fn ends(&self, observed: &ObservedObjects) -> Vec<ObjectEnd> {
        let numbers = 0..self.script.objects.len();
        numbers.map(|number| self.end(number, observed)).collect()
    }

    fn end(&self, number: usize, observed: &ObservedObjects) -> ObjectEnd {
        let object = self.created[number]
            .as_ref()
            .and_then(|created| observed.get(created.uid()));
        let Some(object) = object else {
            return ObjectEnd::gone();
        };
        let meta = &object["metadata"];
        let references = meta["ownerReferences"].as_array().into_iter().flatten();
        let references = references.map(|reference| {
            let uid = reference["uid"].as_str().unwrap_or_default();
            let at = self.owners[number].iter().position(|known| known == uid);
            (
                at.unwrap_or(usize::MAX),
                reference["blockOwnerDeletion"] == true,
            )
        });
        ObjectEnd {
            presence: match meta["deletionTimestamp"].is_string() {
                true => ObjectPresence::Deleting,
                false => ObjectPresence::There,
            },
            finalizers: texts(&meta["finalizers"]).map(ToOwned::to_owned).collect(),
            references: references.collect(),
        }
    }
}

fn uids(references: &[Value]) -> Vec<String> {
    let uids = references
        .iter()
        .filter_map(|reference| reference["uid"].as_str());
    uids.map(ToOwned::to_owned).collect()
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

// === impl ScriptKind ===

impl ScriptKind {
    fn resource(self, custom: &CustomKind) -> Resource {
        match self {
            Self::ConfigMap => CONFIG_MAPS,
            Self::Secret => SECRETS,
            Self::ServiceAccount => SERVICE_ACCOUNTS,
            Self::Gadget => custom.resource.clone(),
            Self::PriorityClass => PRIORITY_CLASSES,
        }
    }

    fn object(self, custom: &CustomKind, name: &str) -> Value {
        match self {
            Self::ConfigMap => mk_config_map(name),
            Self::Secret => mk_object("v1", "Secret", name),
            Self::ServiceAccount => mk_object("v1", "ServiceAccount", name),
            Self::Gadget => custom.object(name),
            Self::PriorityClass => {
                let plain = mk_object("scheduling.k8s.io/v1", "PriorityClass", name);
                with(plain, json!({"value": 1}))
            }
        }
    }
}
