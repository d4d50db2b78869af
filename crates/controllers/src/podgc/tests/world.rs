//! A model of an API server with Pods and Nodes, of watches that can lag, and of the driver.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::podgc::{Key, PodGc, Reason, Settings};
use crate::runtime::call::{Answer, Call, Failure, FailureKind, Judged, Proof, Target};
use crate::runtime::controller::{CallAnswer, Change, Controller, Next, Wake};
use crate::runtime::kind::{Catalog, Kind, KindId, KindState, Scope, Verbs};
use crate::runtime::record::{Uid, View, decode};

pub(super) const PODS: KindId = KindId(0);
pub(super) const NODES: KindId = KindId(1);

/// How long the model waits where the driver backs off.
const BACKOFF: Duration = Duration::from_secs(1);
/// Decisions after which a world is never at rest.
const STEPS_MAX: usize = 1_000_000;

pub(super) struct World {
    pub(super) gc: PodGc,
    pub(super) now: Timestamp,
    /// What the server has.
    pub(super) objects: BTreeMap<(KindId, String), Value>,
    /// What the watches have not shown yet.
    pub(super) unseen: VecDeque<Change>,
    /// Whether watches show nothing for now.
    pub(super) lags: bool,
    /// What was asked for, in order: `patch a`, `delete a`, `get node`.
    pub(super) log: Vec<String>,
    /// The calls behind the writes of the log.
    pub(super) writes: Vec<Call>,
    /// Requests that begin like this fail so.
    pub(super) failing: Option<(&'static str, FailureKind)>,
    /// Whether somebody takes marks off before they are stored.
    pub(super) drops_marks: bool,
    /// How many decisions were made.
    pub(super) decisions: usize,
    queue: BTreeMap<Key, Timestamp>,
    revision: u64,
}

/// A Pod to be.
#[derive(Clone)]
pub(super) struct MkPod(pub(super) Value);

// === impl World ===

impl World {
    pub(super) fn new(settings: Settings) -> Self {
        let mut world = Self {
            gc: PodGc::new(settings),
            now: "2026-03-01T12:00:00Z".parse().unwrap(),
            objects: BTreeMap::new(),
            unseen: VecDeque::new(),
            lags: false,
            log: Vec::new(),
            writes: Vec::new(),
            failing: None,
            drops_marks: false,
            decisions: 0,
            queue: BTreeMap::new(),
            revision: 100,
        };
        let kinds = [
            mk_kind("Pod", Scope::Namespaced),
            mk_kind("Node", Scope::Cluster),
        ];
        world.tell(&Change::Catalog(Arc::new(Catalog::default().with(kinds))));
        world
    }

    /// With upstream's threshold, or another one.
    pub(super) fn with_threshold(threshold: Option<usize>) -> Self {
        Self::new(Settings {
            threshold,
            ..Settings::default()
        })
    }

    pub(super) fn tell(&mut self, change: &Change) {
        let mut wake = Wake::default();
        self.gc.observe(change, self.now, &mut wake);
        self.take(&mut wake);
    }

    /// Both kinds have been listed: the first round.
    pub(super) fn sync(&mut self) {
        for kind in [PODS, NODES] {
            self.tell(&Change::Kind(kind, KindState::Synced));
        }
        self.run();
    }

    /// The store is set back to long ago, when it had these objects, and listed anew.
    pub(super) fn set_back(&mut self, objects: Vec<(KindId, Value)>) {
        for kind in [PODS, NODES] {
            self.tell(&Change::Kind(kind, KindState::Frozen));
        }
        self.revision = 1;
        self.objects.clear();
        for (kind, object) in objects {
            self.put(kind, object);
        }
        self.sync();
    }

    /// Time passes, and what becomes due is done.
    pub(super) fn advance(&mut self, secs: i64) {
        let until = self.now + jiff::SignedDuration::from_secs(secs);
        while let Some(next) = self.queue.values().min().copied()
            && next <= until
        {
            self.now = self.now.max(next);
            self.run();
        }
        self.now = until;
    }

    pub(super) fn create_pod(&mut self, pod: &MkPod) {
        self.put(PODS, pod.0.clone());
    }

    /// Makes or changes a Node.
    pub(super) fn put_node(&mut self, name: &str, ready: &str, taints: &Value) {
        let known = self.objects.get(&(NODES, name.to_owned()));
        let uid = known.map_or(json!(format!("node-{name}-{}", self.revision)), |node| {
            node["metadata"]["uid"].clone()
        });
        self.put(
            NODES,
            json!({
                "metadata": { "name": name, "uid": uid },
                "spec": { "taints": taints },
                "status": { "conditions": [{ "type": "Ready", "status": ready }] },
            }),
        );
    }

    pub(super) fn put(&mut self, kind: KindId, mut object: Value) {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        self.objects.insert((kind, name), object.clone());
        self.show(Change::Applied(mk_record(kind, &object)));
    }

    pub(super) fn remove(&mut self, kind: KindId, name: &str) {
        let object = self.objects.remove(&(kind, name.to_owned())).unwrap();
        self.show(Change::Deleted(mk_record(kind, &object)));
    }

    /// Shows what watches have not shown.
    pub(super) fn catch_up(&mut self) {
        self.lags = false;
        while let Some(change) = self.unseen.pop_front() {
            self.tell(&change);
        }
    }

    pub(super) fn pod(&self, name: &str) -> Option<&Value> {
        self.objects.get(&(PODS, name.to_owned()))
    }

    /// What was asked for since the last time.
    pub(super) fn asked(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }

    /// Why the controller does what it would do about a Pod now.
    pub(super) fn because(&self, name: &str) -> Reason {
        let uid = self.pod(name).unwrap()["metadata"]["uid"].as_str().unwrap();
        self.gc.decide(&Key::Pod(Uid::from(uid)), self.now).because
    }

    fn show(&mut self, change: Change) {
        if self.lags {
            self.unseen.push_back(change);
        } else {
            self.tell(&change);
        }
    }

    fn take(&mut self, wake: &mut Wake<Key>) {
        for (key, at) in wake.drain() {
            self.schedule(key, at.unwrap_or(self.now));
        }
    }

    fn schedule(&mut self, key: Key, at: Timestamp) {
        let known = self.queue.entry(key).or_insert(at);
        *known = at.min(*known);
    }

    fn run(&mut self) {
        while let Some(key) = self.queue.iter().find(|(_, at)| **at <= self.now) {
            let key = key.0.clone();
            self.queue.remove(&key);
            self.step(key);
        }
    }

    fn step(&mut self, key: Key) {
        self.decisions += 1;
        assert!(self.decisions < STEPS_MAX, "never at rest: {key:?}");
        match self.gc.decide(&key, self.now).next {
            Next::Rest => {}
            Next::At(time) => {
                assert!(time > self.now, "{key:?} waits for the past");
                self.schedule(key, time);
            }
            Next::Retry => self.schedule(key, self.now + BACKOFF),
            Next::After(others) => {
                let asked = self.log.len();
                for other in others {
                    self.step(other);
                }
                let is_failing = self.failing.is_some_and(|(start, _)| start == "get");
                let is_answered = self.log.len() > asked && !is_failing;
                let wait = if is_answered { Duration::ZERO } else { BACKOFF };
                self.schedule(key, self.now + wait);
            }
            Next::Call(call) => self.ask(key, &call),
        }
    }

    fn ask(&mut self, key: Key, call: &Call) {
        let answer = self.perform(call);
        self.answer(&key, call, &answer);
        match answer {
            Answer::Failed(failure) if failure.kind == FailureKind::Conflict => {
                let target = call.target().clone();
                self.ask(key, &Call::Get { target });
            }
            Answer::Failed(_) => self.schedule(key, self.now + BACKOFF),
            Answer::Object(_) | Answer::Done | Answer::Absent(_) => self.step(key),
        }
    }

    fn answer(&mut self, key: &Key, call: &Call, answer: &Answer) {
        let mut wake = Wake::default();
        self.gc.answered(CallAnswer {
            key,
            call,
            answer,
            now: self.now,
            wake: &mut wake,
        });
        self.take(&mut wake);
    }

    fn perform(&mut self, call: &Call) -> Answer {
        let line = format!("{} {}", call.verb(), call.target().name);
        self.log.push(line.clone());
        if !call.is_read() {
            self.writes.push(call.clone());
        }
        if let Some((start, kind)) = self.failing
            && line.starts_with(start)
        {
            return failed(kind);
        }
        let Target { kind, name, .. } = call.target();
        let key = (*kind, name.to_string());
        let Some(object) = self.objects.get(&key).cloned() else {
            return Answer::Absent(Proof::NotFound);
        };
        if call
            .judged()
            .is_some_and(|judged| !is_judged(&object, judged))
        {
            return failed(FailureKind::Conflict);
        }
        match call {
            Call::Get { .. } => Answer::Object(mk_record(*kind, &object)),
            Call::Patch { patch, .. } => {
                let stored = match self.drops_marks {
                    true => object,
                    false => with_status(object, patch),
                };
                self.put(*kind, stored);
                Answer::Object(mk_record(*kind, &self.objects[&key]))
            }
            Call::Delete { .. } => self.delete(&key, object),
            Call::Create { .. } => panic!("Pod GC makes nothing"),
        }
    }

    /// A delete without grace: in two writes, as the real server does it, unless finalizers hold the Pod.
    fn delete(&mut self, key: &(KindId, String), mut object: Value) -> Answer {
        let meta = &mut object["metadata"];
        if meta["deletionTimestamp"].is_null() {
            meta["deletionTimestamp"] = json!(self.now.to_string());
        }
        meta["deletionGracePeriodSeconds"] = json!(0);
        self.put(key.0, object);
        let object = self.objects[key].clone();
        if object["metadata"]["finalizers"].is_null() {
            self.remove(key.0, &key.1);
        }
        Answer::Object(mk_record(key.0, &object))
    }
}

// === impl MkPod ===

impl MkPod {
    /// Bound to `node` unless that is empty, one hour younger than the one before.
    pub(super) fn new(name: &str, node: &str, phase: &str) -> Self {
        Self(json!({
            "metadata": {
                "name": name, "namespace": "default", "uid": format!("uid-{name}"),
                "creationTimestamp": "2026-03-01T00:00:00Z", "generation": 1,
            },
            "spec": { "nodeName": node },
            "status": { "phase": phase },
        }))
    }

    pub(super) fn created(mut self, time: &str) -> Self {
        self.0["metadata"]["creationTimestamp"] = json!(time);
        self
    }

    pub(super) fn evicted(mut self) -> Self {
        self.0["status"]["reason"] = json!("Evicted");
        self
    }

    pub(super) fn terminating(mut self) -> Self {
        self.0["metadata"]["deletionTimestamp"] = json!("2026-03-01T12:05:00Z");
        self.0["metadata"]["deletionGracePeriodSeconds"] = json!(300);
        self
    }

    pub(super) fn held(mut self) -> Self {
        self.0["metadata"]["finalizers"] = json!(["test.k8s.io/finalizer"]);
        self
    }

    pub(super) fn with(mut self, pointer: &str, value: Value) -> Self {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        self.0.pointer_mut(parent).unwrap()[name] = value;
        self
    }
}

fn mk_kind(name: &str, scope: Scope) -> Kind {
    Kind {
        group: "".into(),
        version: "v1".into(),
        kind: name.into(),
        resource: format!("{}s", name.to_lowercase()).into(),
        scope,
        verbs: Verbs {
            get: true,
            list: true,
            watch: true,
            delete: true,
        },
        versions: vec!["v1".into()],
        aliases: Vec::new(),
    }
}

pub(super) fn mk_record(kind: KindId, object: &Value) -> Arc<crate::runtime::record::Record> {
    Arc::new(decode(kind, object.to_string().as_bytes(), View::Full).unwrap())
}

fn is_judged(object: &Value, judged: &Judged) -> bool {
    let meta = &object["metadata"];
    meta["uid"] == judged.uid.to_string() && meta["resourceVersion"] == judged.revision.to_string()
}

fn failed(kind: FailureKind) -> Answer {
    Answer::Failed(Failure {
        kind,
        status: None,
        message: String::new(),
        retry_after: None,
    })
}

/// The little of a strategic merge patch that is needed: members, and conditions by their type.
fn with_status(mut object: Value, patch: &Value) -> Value {
    for (member, value) in patch["status"].as_object().unwrap() {
        if member != "conditions" {
            object["status"][member] = value.clone();
            continue;
        }
        let mut conditions = object["status"]["conditions"].as_array().cloned();
        let conditions = conditions.get_or_insert_default();
        for patched in value.as_array().unwrap() {
            let known = conditions.iter_mut().find(|c| c["type"] == patched["type"]);
            match known {
                Some(known) => {
                    let known = known.as_object_mut().unwrap();
                    known.extend(patched.as_object().unwrap().clone());
                }
                None => conditions.push(patched.clone()),
            }
        }
        object["status"]["conditions"] = conditions.clone().into();
    }
    object
}
