//! Pods and Nodes in a [`TestWorld`], and short names for what tests do to them.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::podgc::{Key, PodGc, Reason, Settings};
use crate::runtime::call::{ApiCall, FailureKind};
use crate::runtime::controller::ObservedChange;
use crate::runtime::kind::{KindId, KindScope, KindState};
use crate::runtime::queue::RETRY_MAX;
use crate::runtime::record::{ObjectRecord, RecordView, Uid, decode};
use crate::test_world::{ObjectPlace, TestWorld, WorldOptions, mk_kind};

pub(super) const PODS: KindId = KindId(0);
pub(super) const NODES: KindId = KindId(1);

pub(super) struct World {
    /// Whether watches show nothing for now.
    pub(super) lags: bool,
    /// Requests that begin like this fail so: `delete`, `get node`.
    pub(super) failing: Option<(&'static str, FailureKind)>,
    /// Whether the server does not keep what patches write.
    pub(super) drops_marks: bool,
    world: TestWorld<PodGc>,
}

/// A Pod to be.
#[derive(Clone)]
pub(super) struct MkPod(pub(super) Value);

// === impl World ===

impl World {
    pub(super) fn new(settings: Settings) -> Self {
        let kinds = [
            mk_kind("", "v1", "Pod", "pods", KindScope::Namespaced),
            mk_kind("", "v1", "Node", "nodes", KindScope::Cluster),
        ];
        let options = WorldOptions {
            start: "2026-03-01T12:00:00Z".parse().unwrap(),
            view: RecordView::Full,
            retry_max: RETRY_MAX,
        };
        let mut world = TestWorld::new(PodGc::new(settings), kinds, options);
        world.shows_first = true;
        Self {
            lags: false,
            failing: None,
            drops_marks: false,
            world,
        }
    }

    /// With upstream's threshold, or another one.
    pub(super) fn with_threshold(threshold: Option<usize>) -> Self {
        Self::new(Settings {
            threshold,
            ..Settings::default()
        })
    }

    pub(super) fn gc(&self) -> &PodGc {
        self.world.controller()
    }

    pub(super) fn decisions(&self) -> usize {
        self.world.decisions()
    }

    /// The requests that were not reads.
    pub(super) fn writes(&self) -> Vec<ApiCall> {
        let calls = self.world.calls().iter();
        calls.filter(|call| !call.is_read()).cloned().collect()
    }

    pub(super) fn tell(&mut self, change: &ObservedChange) {
        self.world.observe(change);
    }

    /// Both kinds have been listed: the first round.
    pub(super) fn sync(&mut self) {
        for kind in [PODS, NODES] {
            self.tell(&ObservedChange::Kind(kind, KindState::Synced));
        }
        self.advance(0);
    }

    /// The store is set back to long ago, when it had these objects, and listed anew.
    pub(super) fn set_back(&mut self, objects: Vec<(KindId, Value)>) {
        for kind in [PODS, NODES] {
            self.tell(&ObservedChange::Kind(kind, KindState::Frozen));
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

    /// Time passes, and the controller does what becomes due.
    pub(super) fn advance(&mut self, secs: i64) {
        self.configure();
        let time = SignedDuration::from_secs(secs);
        self.world.pass(time.unsigned_abs());
    }

    /// Hands the settings of the test to the server and the watches.
    fn configure(&mut self) {
        self.world.lagging = match self.lags {
            true => [PODS, NODES].into(),
            false => [].into(),
        };
        let failing = self.failing;
        let mut server = self.world.server();
        server.ignores_patches = self.drops_marks;
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

    /// Makes or changes a Node.
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

    /// Shows what watches have not shown.
    pub(super) fn catch_up(&mut self) {
        self.lags = false;
        self.world.catch_up();
    }

    /// Watches never show what they have not shown yet.
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

    /// The server loses all objects of a kind, and no watch shows it.
    pub(super) fn lose(&mut self, kind: KindId) {
        let mut server = self.world.server();
        server.objects.retain(|key, _| key.0 != kind);
    }

    /// All requests since the last [`World::asked`].
    pub(super) fn log(&self) -> Vec<String> {
        self.world.server().log.clone()
    }

    /// The requests since the last time: `patch a`, `delete a`, `get node`.
    pub(super) fn asked(&mut self) -> Vec<String> {
        std::mem::take(&mut self.world.server().log)
    }

    /// Why the controller does what it would do about a Pod now.
    pub(super) fn because(&self, name: &str) -> Reason {
        let pod = self.pod(name).unwrap();
        let uid = Uid::from(pod["metadata"]["uid"].as_str().unwrap());
        self.world.decide(&Key::Pod(uid)).because
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

fn place(kind: KindId, name: &str) -> ObjectPlace {
    let namespace = if kind == PODS { "default" } else { "" };
    (kind, namespace.to_owned(), name.to_owned())
}

pub(super) fn mk_record(kind: KindId, object: &Value) -> Arc<ObjectRecord> {
    Arc::new(decode(kind, object.to_string().as_bytes(), RecordView::Full).unwrap())
}
