//! Pods and Nodes in a [`TestWorld`], with short helpers.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::podgc::{PodGcController, PodGcKey, PodGcReason, PodGcSettings};
use crate::runtime::call::{ApiCall, FailureKind};
use crate::runtime::controller::ObservedChange;
use crate::runtime::driver::clock_skew::TimeSource;
use crate::runtime::kind::{KindId, KindScope, KindState};
use crate::runtime::queue::RETRY_MAX;
use crate::runtime::record::{ObjectRecord, RecordView, Uid, decode};
use crate::test_world::{ObjectPlace, TestWorld, WorldOptions, mk_kind};

pub(super) const PODS: KindId = KindId(0);
pub(super) const NODES: KindId = KindId(1);

pub(super) struct World {
    /// Whether watches hold back their events.
    pub(super) lags: bool,
    /// A prefix of requests that fail, such as `delete` or `get node`, and their failure.
    pub(super) failing: Option<(&'static str, FailureKind)>,
    /// Whether the server ignores patches.
    pub(super) ignores_patches: bool,
    world: TestWorld<PodGcController>,
}

/// The JSON of a Pod to create.
#[derive(Clone)]
pub(super) struct MkPod(pub(super) Value);

// === impl World ===

impl World {
    pub(super) fn new(settings: PodGcSettings) -> Self {
        let kinds = [
            mk_kind("", "v1", "Pod", "pods", KindScope::Namespaced),
            mk_kind("", "v1", "Node", "nodes", KindScope::Cluster),
        ];
        let options = WorldOptions {
            start: "2026-03-01T12:00:00Z".parse().unwrap(),
            view: RecordView::Full,
            retry_max: RETRY_MAX,
            timing: TimeSource::Steady,
        };
        let mut world = TestWorld::new(PodGcController::new(settings), kinds, options);
        world.shows_first = true;
        Self {
            lags: false,
            failing: None,
            ignores_patches: false,
            world,
        }
    }

    pub(super) fn with_threshold(threshold: Option<usize>) -> Self {
        Self::new(PodGcSettings {
            threshold,
            ..PodGcSettings::default()
        })
    }

    pub(super) fn gc(&self) -> &PodGcController {
        self.world.controller()
    }

    pub(super) fn decisions(&self) -> usize {
        self.world.decisions()
    }

    /// All requests that were not reads.
    pub(super) fn writes(&self) -> Vec<ApiCall> {
        let calls = self.world.calls().iter();
        calls.filter(|call| !call.is_read()).cloned().collect()
    }

    pub(super) fn observe(&mut self, change: &ObservedChange) {
        self.world.observe(change);
    }

    /// Marks both kinds as listed, and runs the first round.
    pub(super) fn sync(&mut self) {
        for kind in [PODS, NODES] {
            self.observe(&ObservedChange::Kind(kind, KindState::Synced));
        }
        self.advance(0);
    }

    /// Restores the store to an old state with these objects, and lists it again.
    pub(super) fn restore_store(&mut self, objects: Vec<(KindId, Value)>) {
        for kind in [PODS, NODES] {
            self.observe(&ObservedChange::Kind(kind, KindState::Frozen));
        }
        {
            let mut server = self.world.server();
            server.revision = 1;
            server.objects.clear();
        }
        for (kind, object) in objects {
            self.put(kind, object);
        }
        self.sync();
    }

    /// Advances the clock and runs what becomes due.
    pub(super) fn advance(&mut self, secs: i64) {
        self.configure();
        let time = SignedDuration::from_secs(secs);
        self.world.pass(time.unsigned_abs());
    }

    /// Applies the settings of the test to the server and the watches.
    fn configure(&mut self) {
        self.world.lagging = match self.lags {
            true => [PODS, NODES].into(),
            false => [].into(),
        };
        let failing = self.failing;
        let mut server = self.world.server();
        server.ignores_patches = self.ignores_patches;
        server.rule = Box::new(move |verb, key| {
            let request = format!("{verb} {}", key.2);
            failing
                .filter(|(start, _)| request.starts_with(start))
                .map(|(_, kind)| kind)
        });
    }

    pub(super) fn create_pod(&mut self, pod: &MkPod) {
        self.put(PODS, pod.0.clone());
    }

    /// Creates or updates a Node.
    pub(super) fn put_node(&mut self, name: &str, ready: &str, taints: &Value) {
        let revision = self.world.server().revision;
        let known = self.object(NODES, name);
        let uid = known.map_or(json!(format!("node-{name}-{revision}")), |mut node| {
            node["metadata"]["uid"].take()
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

    pub(super) fn put(&mut self, kind: KindId, object: Value) {
        self.configure();
        self.world.server().put(kind, object);
        self.world.deliver_all();
    }

    pub(super) fn remove(&mut self, kind: KindId, name: &str) {
        self.configure();
        self.world.server().remove(&place(kind, name));
        self.world.deliver_all();
    }

    /// Delivers the events that watches held back.
    pub(super) fn catch_up(&mut self) {
        self.lags = false;
        self.world.catch_up();
    }

    /// Drops the events that watches held back.
    pub(super) fn forget_unseen(&mut self) {
        self.world.server().events.clear();
    }

    pub(super) fn object(&self, kind: KindId, name: &str) -> Option<Value> {
        let server = self.world.server();
        server.objects.get(&place(kind, name)).cloned()
    }

    pub(super) fn pod(&self, name: &str) -> Option<Value> {
        self.object(PODS, name)
    }

    /// The names of all objects of a kind.
    pub(super) fn names(&self, kind: KindId) -> Vec<String> {
        let server = self.world.server();
        let keys = server.objects.keys().filter(|key| key.0 == kind);
        keys.map(|key| key.2.clone()).collect()
    }

    /// Removes all objects of a kind without watch events.
    pub(super) fn lose(&mut self, kind: KindId) {
        let mut server = self.world.server();
        server.objects.retain(|key, _| key.0 != kind);
    }

    /// The requests since the last [`World::requests`], without resetting them.
    pub(super) fn log(&self) -> Vec<String> {
        self.world.server().log.clone()
    }

    /// The requests since the last call, such as `patch a`, `delete a` or `get node`.
    pub(super) fn requests(&mut self) -> Vec<String> {
        std::mem::take(&mut self.world.server().log)
    }

    /// The reason of the current decision about a Pod.
    pub(super) fn because(&self, name: &str) -> PodGcReason {
        let pod = self.pod(name).unwrap();
        let uid = Uid::from(pod["metadata"]["uid"].as_str().unwrap());
        self.world.decide(&PodGcKey::Pod(uid)).because
    }
}

// === impl MkPod ===

impl MkPod {
    /// A Pod that is bound to `node`, unless that is empty.
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

fn place(kind: KindId, name: &str) -> ObjectPlace {
    let namespace = if kind == PODS { "default" } else { "" };
    (kind, namespace.to_owned(), name.to_owned())
}

pub(super) fn mk_record(kind: KindId, object: &Value) -> Arc<ObjectRecord> {
    Arc::new(decode(kind, object.to_string().as_bytes(), RecordView::Full).unwrap())
}
