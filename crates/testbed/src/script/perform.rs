//! Performs scripts on a server, many at a time, and looks what is left.
//!
//! Every script has two namespaces of its own; all share the server, the collector and the custom kind. They go in
//! step: all objects are made, then piece after piece is done, and in between everybody waits until the collector has
//! seen everything and nothing has changed for a while. Nothing is cleared away: the server is thrown away afterwards.

use std::collections::BTreeMap;
use std::time::Duration;

use caretaker_machinery::rng::Rng;
use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::model::{End, Presence};
use super::{HOLD, Kind, Mistake, Reference, Script, Step, shuffle};
use crate::collector::Collector;
use crate::objects::{
    CONFIG_MAPS, PRIORITY_CLASSES, Resource, SECRETS, SERVICE_ACCOUNTS, mk_config_map, mk_object,
    with,
};
use crate::session::Ask;
use crate::suites::Checked;
use crate::suites::stage::{Kind as Custom, Made, Stage, owned};
use crate::target::{Server, Target};

/// The label that all objects of a group of scripts have.
const GROUP_LABEL: &str = "random";
/// How long nothing may change before the collector is said to rest, and how often that is looked at.
const REST_REAL: (Duration, Duration) = (Duration::from_secs(4), Duration::from_millis(500));
/// The same on paused time.
const REST_PAUSED: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(5));
/// Longest wait for a collector to rest.
const REST_MAX: Duration = Duration::from_secs(300);
/// How often a finalizer is taken off again when somebody else changed the object meanwhile.
const CONFLICTS_MAX: usize = 20;

/// Where scripts are performed: a server whose collector runs and knows the custom kind.
pub struct Theatre<'t> {
    target: &'t Target,
    /// The stage that has started the collector.
    stage: Stage,
    custom: Custom,
    groups: usize,
}

/// One script under way.
struct Performance<'s> {
    script: &'s Script,
    stage: Stage,
    away: String,
    custom: Custom,
    group: String,
    /// What was made, by number.
    made: Vec<Option<Made>>,
    /// The uids that an object's references were made with.
    owners: Vec<Vec<String>>,
}

/// All objects of a group, by uid.
type Seen = BTreeMap<String, Value>;

// === impl Theatre ===

impl<'t> Theatre<'t> {
    /// Defines the custom kind, starts the collector and waits until it collects every kind.
    pub async fn open(target: &'t Target, collector: &Collector) -> Checked<Self> {
        let stage = Stage::set(target, collector, "random".to_owned()).await;
        let custom = stage.define(json!({})).await?;
        stage.start_collector().await?;
        let theatre = Self {
            target,
            stage,
            custom,
            groups: 0,
        };
        theatre.all_seen().await?;
        Ok(theatre)
    }

    /// Performs scripts together; says what became of the objects of each.
    pub async fn perform(&mut self, scripts: &[Script]) -> Checked<Vec<Vec<End>>> {
        self.groups += 1;
        let group = format!("g{}", self.groups);
        let prepared = scripts.iter().map(|script| self.prepare(script, &group));
        let mut all = futures::future::try_join_all(prepared).await?;
        let making = all.iter_mut().map(Performance::make);
        futures::future::try_join_all(making).await?;
        self.all_seen().await?;
        let mut seen = self.rest(&group).await?;
        let pieces = scripts.iter().map(|script| script.pieces.len()).max();
        for piece in 0..pieces.unwrap_or(0) {
            let doing = all.iter().map(|one| one.piece(piece));
            futures::future::try_join_all(doing).await?;
            seen = self.rest(&group).await?;
        }
        Ok(all.iter().map(|one| one.ends(&seen)).collect())
    }

    async fn prepare<'s>(&self, script: &'s Script, group: &str) -> Checked<Performance<'s>> {
        let ns = format!("random-{}", script.seed);
        let stage = Stage::set(self.target, &Collector::Standing, ns).await;
        Ok(Performance {
            away: stage.second_ns().await?,
            stage,
            script,
            custom: self.custom.clone(),
            group: group.to_owned(),
            made: vec![None; script.objects.len()],
            owners: vec![Vec::new(); script.objects.len()],
        })
    }

    /// Waits until the collector has seen everything that was made so far.
    async fn all_seen(&self) -> Checked {
        for kind in Kind::ALL {
            let canary = kind.object(&self.custom, "c");
            self.stage
                .seen(&kind.resource(&self.custom), canary)
                .await?;
        }
        Ok(())
    }

    /// Waits until nothing changes any more; says what is there then.
    async fn rest(&self, group: &str) -> Checked<Seen> {
        let (quiet, step) = match self.target.server() {
            Server::Embedded => REST_PAUSED,
            Server::Real => REST_REAL,
        };
        let deadline = Instant::now() + REST_MAX;
        let (mut seen, mut since) = (self.look(group).await?, Instant::now());
        while since.elapsed() < quiet {
            self.stage.still_collected()?;
            if Instant::now() > deadline {
                return Err(format!("no rest after {} s", REST_MAX.as_secs()));
            }
            tokio::time::sleep(step).await;
            let now = self.look(group).await?;
            if now != seen {
                (seen, since) = (now, Instant::now());
            }
        }
        Ok(seen)
    }

    async fn look(&self, group: &str) -> Checked<Seen> {
        let mut seen = Seen::new();
        for kind in Kind::ALL {
            let path = kind.resource(&self.custom).everywhere();
            let path = format!("{path}?labelSelector={GROUP_LABEL}%3D{group}");
            let list = self.stage.send(Ask::get(path), &[200]).await?;
            for object in list.body["items"].as_array().into_iter().flatten() {
                let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
                seen.insert(uid.to_owned(), object.clone());
            }
        }
        Ok(seen)
    }
}

// === impl Performance ===

impl Performance<'_> {
    /// Makes all objects in some order. One has all its references from the moment it has any; those whose owners come
    /// later, as in a ring, get theirs in the end.
    async fn make(&mut self) -> Checked {
        let mut order: Vec<usize> = (0..self.script.objects.len()).collect();
        shuffle(&mut order, &mut Rng::seeded(self.script.seed));
        let mut late = Vec::new();
        for number in order {
            let references = self.references(number);
            if references.is_none() {
                late.push(number);
            }
            self.make_one(number, references.unwrap_or_default())
                .await?;
        }
        for number in late {
            let references = self.references(number).unwrap_or_default();
            self.owners[number] = uids(&references);
            if let Some(made) = &self.made[number] {
                let patch = json!({"metadata": {"ownerReferences": references}});
                self.stage.change(made, patch).await?;
            }
        }
        Ok(())
    }

    async fn make_one(&mut self, number: usize, references: Vec<Value>) -> Checked {
        let object = &self.script.objects[number];
        let plain = object.kind.object(&self.custom, &self.script.name(number));
        let labels = json!({"metadata": {"labels": {GROUP_LABEL: self.group}}});
        let mut full = owned(with(plain, labels), &references);
        if let Some(finalizer) = object.finalizer {
            full["metadata"]["finalizers"] = json!([finalizer]);
        }
        let ns = match object.is_away {
            true => self.away.as_str(),
            false => self.stage.ns(),
        };
        let resource = object.kind.resource(&self.custom);
        self.made[number] = Some(self.stage.make_in(ns, &resource, full).await?);
        self.owners[number] = uids(&references);
        Ok(())
    }

    /// The references of an object, unless one of its owners is not made yet.
    fn references(&self, number: usize) -> Option<Vec<Value>> {
        let references = self.script.objects[number].references.iter();
        references
            .map(|reference| self.reference(reference))
            .collect()
    }

    fn reference(&self, reference: &Reference) -> Option<Value> {
        let named = reference.kind.object(&self.custom, "nobody");
        let mut value = self.stage.absent();
        value["apiVersion"] = named["apiVersion"].clone();
        value["kind"] = named["kind"].clone();
        if let Some(owner) = reference.owner {
            let owner = self.made[owner].as_ref()?;
            value["name"] = owner.name().into();
            value["uid"] = owner.uid().into();
        }
        match reference.mistake {
            Some(Mistake::Name) => value["name"] = "somebody-else".into(),
            Some(Mistake::Version) => {
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

    async fn piece(&self, piece: usize) -> Checked {
        for step in self.script.pieces.get(piece).into_iter().flatten() {
            match step {
                Step::Delete(number, policy) => {
                    let options = json!({"propagationPolicy": policy.word()});
                    self.delete(*number, &options).await?;
                }
                Step::Release(number) => self.release(*number).await?,
            }
        }
        Ok(())
    }

    async fn delete(&self, number: usize, options: &Value) -> Checked {
        if let Some(made) = &self.made[number] {
            let ask = Ask::new(Method::DELETE, made.path()).json(options);
            self.stage.send(ask, &[200, 202, 404]).await?;
        }
        Ok(())
    }

    /// Takes one finalizer off and leaves the others, which are the collector's.
    async fn release(&self, number: usize) -> Checked {
        let Some(made) = &self.made[number] else {
            return Ok(());
        };
        for _ in 0..CONFLICTS_MAX {
            let Some(object) = self.stage.look(made).await? else {
                return Ok(());
            };
            let meta = &object["metadata"];
            let others = texts(&meta["finalizers"]).filter(|own| *own != HOLD);
            let others: Vec<&str> = others.collect();
            let patch = json!({"metadata": {"resourceVersion": meta["resourceVersion"], "finalizers": others}});
            let ask = Ask::new(Method::PATCH, made.path()).body(patch.to_string());
            let ask = ask.content_type("application/merge-patch+json");
            if self.stage.send(ask, &[200, 404, 409]).await?.status != 409 {
                return Ok(());
            }
        }
        Err(format!("{} changes all the time", made.path()))
    }

    fn ends(&self, seen: &Seen) -> Vec<End> {
        let numbers = 0..self.script.objects.len();
        numbers.map(|number| self.end(number, seen)).collect()
    }

    fn end(&self, number: usize, seen: &Seen) -> End {
        let object = self.made[number]
            .as_ref()
            .and_then(|made| seen.get(made.uid()));
        let Some(object) = object else {
            return End::gone();
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
        End {
            is: match meta["deletionTimestamp"].is_string() {
                true => Presence::Deleting,
                false => Presence::There,
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

// === impl Kind ===

impl Kind {
    fn resource(self, custom: &Custom) -> Resource {
        match self {
            Self::ConfigMap => CONFIG_MAPS,
            Self::Secret => SECRETS,
            Self::ServiceAccount => SERVICE_ACCOUNTS,
            Self::Gadget => custom.resource.clone(),
            Self::PriorityClass => PRIORITY_CLASSES,
        }
    }

    fn object(self, custom: &Custom, name: &str) -> Value {
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
