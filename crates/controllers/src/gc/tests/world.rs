//! A model of an API server with watches that lag per kind, and of the driver: enough to play cascades to their end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::gc::index::{FOREGROUND, ORPHAN};
use crate::gc::{GarbageCollector, Key, Reason};
use crate::runtime::call::{
    Answer, Call, Failure, FailureKind, Judged, Proof, Propagation, Target,
};
use crate::runtime::controller::{CallAnswer, Change, Controller, Next, Note, Verdict, Wake};
use crate::runtime::kind::{Catalog, Kind, KindId, KindState, Scope, Verbs};
use crate::runtime::record::{Body, Meta, OwnerRef, Record, Revision, Uid};

pub(super) const PODS: KindId = KindId(0);
pub(super) const RCS: KindId = KindId(1);
pub(super) const SETS: KindId = KindId(2);
pub(super) const NODES: KindId = KindId(3);

/// Longer than any sane cascade in these tests takes.
const STEPS_MAX: usize = 2_000_000;

pub(super) struct World {
    pub(super) gc: GarbageCollector,
    pub(super) now: Timestamp,
    pub(super) objects: BTreeMap<Uid, Record>,
    /// What was asked for, in order.
    pub(super) calls: Vec<Call>,
    pub(super) notes: Vec<Note>,
    pub(super) decisions: usize,
    /// Who takes time to stop, and is not gone when its last finalizer is.
    pub(super) graceful: BTreeSet<Uid>,
    /// Targets whose requests fail like this.
    pub(super) broken: BTreeMap<Target, FailureKind>,
    /// Whether a feed shows what a request did before its answer is there.
    pub(super) are_feeds_faster: bool,
    catalog: Arc<Catalog>,
    /// Who was last stored under a name.
    places: BTreeMap<Target, Uid>,
    revision: u64,
    lagging: BTreeSet<KindId>,
    events: BTreeMap<KindId, VecDeque<Change>>,
    queue: VecDeque<Key>,
    queued: BTreeSet<Key>,
    parked: BTreeMap<Key, Vec<Key>>,
    timers: BTreeSet<(Timestamp, Key)>,
}

/// Pods and ReplicationControllers of core, ReplicaSets in two versions, and Nodes of the cluster.
pub(super) fn kinds() -> [Kind; 4] {
    let kind = |group: &str, versions: &[&str], kind: &str, resource: &str, scope| Kind {
        group: group.into(),
        version: versions[0].into(),
        kind: kind.into(),
        resource: resource.into(),
        scope,
        verbs: Verbs {
            get: true,
            list: true,
            watch: true,
            delete: true,
        },
        versions: versions.iter().map(|&version| version.into()).collect(),
        aliases: Vec::new(),
    };
    [
        kind("", &["v1"], "Pod", "pods", Scope::Namespaced),
        kind(
            "",
            &["v1"],
            "ReplicationController",
            "replicationcontrollers",
            Scope::Namespaced,
        ),
        kind(
            "apps",
            &["v1", "v1beta1"],
            "ReplicaSet",
            "replicasets",
            Scope::Namespaced,
        ),
        kind("", &["v1"], "Node", "nodes", Scope::Cluster),
    ]
}

fn api_version(kind: KindId) -> &'static str {
    if kind == SETS { "apps/v1" } else { "v1" }
}

fn kind_name(kind: KindId) -> &'static str {
    ["Pod", "ReplicationController", "ReplicaSet", "Node"][usize::from(kind.0)]
}

/// A reference to an object called `name` whose uid is its name too.
pub(super) fn to(kind: KindId, name: &str) -> OwnerRef {
    OwnerRef {
        api_version: api_version(kind).into(),
        kind: kind_name(kind).into(),
        name: name.into(),
        uid: name.into(),
        controller: None,
        block_owner_deletion: None,
    }
}

pub(super) fn blocking(reference: OwnerRef) -> OwnerRef {
    OwnerRef {
        block_owner_deletion: Some(true),
        ..reference
    }
}

/// An object in namespace `ns` (or in the cluster, for a Node) whose uid is its name.
pub(super) fn object(kind: KindId, name: &str, owners: &[OwnerRef]) -> Record {
    Record {
        kind,
        meta: Meta {
            name: name.into(),
            namespace: if kind == NODES { "" } else { "ns" }.into(),
            uid: name.into(),
            owners: owners.to_vec(),
            ..Meta::default()
        },
        body: Body::None,
    }
}

impl World {
    /// All kinds are known, and there is nothing.
    pub(super) fn new() -> Self {
        let mut world = Self::unsynced();
        for kind in [PODS, RCS, SETS, NODES] {
            world.observe(&Change::Kind(kind, KindState::Synced));
        }
        world
    }

    /// All kinds are about to be listed.
    pub(super) fn unsynced() -> Self {
        let mut world = Self {
            gc: GarbageCollector::new(7),
            now: Timestamp::UNIX_EPOCH,
            objects: BTreeMap::new(),
            calls: Vec::new(),
            notes: Vec::new(),
            decisions: 0,
            graceful: BTreeSet::new(),
            broken: BTreeMap::new(),
            catalog: Arc::new(Catalog::default().with(kinds())),
            places: BTreeMap::new(),
            revision: 100,
            are_feeds_faster: false,
            lagging: BTreeSet::new(),
            events: BTreeMap::new(),
            queue: VecDeque::new(),
            queued: BTreeSet::new(),
            parked: BTreeMap::new(),
            timers: BTreeSet::new(),
        };
        world.observe(&Change::Catalog(world.catalog.clone()));
        for kind in [PODS, RCS, SETS, NODES] {
            world.observe(&Change::Kind(kind, KindState::Syncing(world.now)));
        }
        world
    }

    /// Replaces what discovery says.
    pub(super) fn serve(&mut self, kinds: impl IntoIterator<Item = Kind>) {
        self.catalog = Arc::new(self.catalog.with(kinds));
        self.observe(&Change::Catalog(self.catalog.clone()));
    }

    pub(super) fn observe(&mut self, change: &Change) {
        let mut wake = Wake::default();
        self.gc.observe(change, self.now, &mut wake);
        self.woken(&mut wake);
    }

    /// From now on events of this kind wait until [`Self::catch_up`].
    pub(super) fn lag(&mut self, kind: KindId) {
        self.lagging.insert(kind);
    }

    pub(super) fn catch_up(&mut self) {
        self.lagging.clear();
        for kind in [PODS, RCS, SETS, NODES] {
            while self.deliver(kind) {}
        }
    }

    /// Shows one event of a kind to the collector.
    pub(super) fn deliver(&mut self, kind: KindId) -> bool {
        let Some(change) = self.events.entry(kind).or_default().pop_front() else {
            return false;
        };
        self.observe(&change);
        true
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.queue.is_empty() && self.events.values().all(VecDeque::is_empty)
    }

    pub(super) fn create(&mut self, object: Record) {
        self.store(object);
    }

    /// Serves an object under another kind, too, and shows it to nobody.
    pub(super) fn twin(&mut self, object: &Record) {
        let place = Target {
            kind: object.kind,
            namespace: object.meta.namespace.clone(),
            name: object.meta.name.clone(),
        };
        self.places.insert(place, object.meta.uid.clone());
    }

    /// A write of somebody else.
    pub(super) fn change(&mut self, uid: &str, change: impl FnOnce(&mut Meta)) {
        let mut object = self.objects[&Uid::from(uid)].clone();
        change(&mut object.meta);
        self.store(object);
    }

    /// A delete of somebody else.
    pub(super) fn delete(&mut self, uid: &str, policy: Propagation) {
        self.end(&Uid::from(uid), policy);
    }

    pub(super) fn exists(&self, uid: &str) -> bool {
        self.objects.contains_key(&Uid::from(uid))
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.objects.keys().map(ToString::to_string).collect()
    }

    /// The decision about an object, and nothing else.
    pub(super) fn decide(&self, uid: &str) -> Verdict<Key, Reason> {
        self.gc.decide(&Key::Object(uid.into()), self.now)
    }

    /// Plays until nothing is left to do now.
    pub(super) fn settle(&mut self) {
        for _ in 0..STEPS_MAX {
            if !self.deliver_any() && !self.step() {
                return;
            }
        }
        panic!("it never settles");
    }

    fn deliver_any(&mut self) -> bool {
        (0..4)
            .map(KindId)
            .any(|kind| !self.lagging.contains(&kind) && self.deliver(kind))
    }

    /// Lets time pass, with everything that is due meanwhile.
    pub(super) fn pass(&mut self, duration: Duration) {
        let end = self.now + duration;
        self.settle();
        while let Some((at, key)) = self.timers.first().cloned()
            && at <= end
        {
            self.timers.remove(&(at, key.clone()));
            self.now = self.now.max(at);
            self.push(key);
            self.settle();
        }
        self.now = end;
        self.settle();
    }

    /// Decides one key and has it carried out, as the driver does.
    pub(super) fn step(&mut self) -> bool {
        let Some(key) = self.queue.pop_front() else {
            return false;
        };
        self.queued.remove(&key);
        self.decisions += 1;
        let verdict = self.gc.decide(&key, self.now);
        self.notes.extend(verdict.notes);
        match verdict.next {
            Next::Rest => self.release(&key),
            Next::At(at) => {
                self.timers.insert((at, key.clone()));
                self.release(&key);
            }
            Next::Retry => {
                let later = self.now + Duration::from_secs(1);
                self.timers.insert((later, key.clone()));
                self.release(&key);
            }
            Next::After(others) => {
                let last = others.last().expect("somebody to wait for").clone();
                self.parked.entry(last).or_default().push(key);
                others.into_iter().for_each(|other| self.push(other));
            }
            Next::Call(call) => {
                let answer = self.perform(&call);
                if self.are_feeds_faster {
                    while self.deliver_any() {}
                }
                self.hear(&key, &call, &answer);
            }
        }
        true
    }

    fn hear(&mut self, key: &Key, call: &Call, answer: &Answer) {
        let mut wake = Wake::default();
        let notes = self.gc.answered(CallAnswer {
            key,
            call,
            answer,
            now: self.now,
            wake: &mut wake,
        });
        self.notes.extend(notes);
        self.woken(&mut wake);
        match answer {
            Answer::Failed(failure) if failure.kind == FailureKind::Conflict => {
                let read = Call::Get {
                    target: call.target().clone(),
                };
                let answer = self.perform(&read);
                self.hear(key, &read, &answer);
            }
            Answer::Failed(_) => {
                let later = self.now + Duration::from_secs(1);
                self.timers.insert((later, key.clone()));
            }
            _ => {
                self.push(key.clone());
                self.release(key);
            }
        }
    }

    fn release(&mut self, key: &Key) {
        for parked in self.parked.remove(key).unwrap_or_default() {
            self.push(parked);
        }
    }

    fn woken(&mut self, wake: &mut Wake<Key>) {
        for (key, at) in wake.drain() {
            match at {
                Some(at) => {
                    self.timers.insert((at, key));
                }
                None => self.push(key),
            }
        }
    }

    fn push(&mut self, key: Key) {
        if self.queued.insert(key.clone()) {
            self.queue.push_back(key);
        }
    }

    // The server.

    fn perform(&mut self, call: &Call) -> Answer {
        self.calls.push(call.clone());
        if let Some(kind) = self.broken.get(call.target()) {
            return failed(*kind);
        }
        let Some(found) = self.at(call.target()) else {
            return Answer::Absent(Proof::NotFound);
        };
        match call {
            Call::Get { .. } => Answer::Object(Arc::new(found)),
            Call::Create { .. } => panic!("the collector creates nothing"),
            Call::Delete {
                judged,
                propagation,
                ..
            } => {
                if !is_judged(&found, judged) {
                    return failed(FailureKind::Conflict);
                }
                self.assert_collectable(&found);
                let policy = propagation.expect("the collector always says");
                self.end(&found.meta.uid, policy)
            }
            Call::Patch { judged, patch, .. } => {
                if !is_judged(&found, judged) {
                    return failed(FailureKind::Conflict);
                }
                let earlier = found.meta.revision.clone();
                let object = patched(found, patch);
                let mut stored = self.store(object);
                if !self.objects.contains_key(&stored.meta.uid) {
                    // The last write of an object is its end, and its answer shows the version before.
                    stored.meta.revision = earlier;
                }
                Answer::Object(Arc::new(stored))
            }
        }
    }

    fn at(&self, target: &Target) -> Option<Record> {
        let uid = self.places.get(target)?;
        self.objects.get(uid).cloned()
    }

    /// Safety rule S1: whatever is deleted, each of its owners is absent or waits for it.
    fn assert_collectable(&self, object: &Record) {
        let owners = &object.meta.owners;
        assert!(!owners.is_empty(), "{} has no owner", object.meta.name);
        for reference in owners {
            let kind = self
                .catalog
                .resolve(&reference.api_version, &reference.kind);
            let kind = kind.expect("an owner of an unknown type is presumed alive");
            let is_cluster = self.catalog.get(kind).unwrap().scope == Scope::Cluster;
            let target = Target {
                kind,
                namespace: if is_cluster {
                    "".into()
                } else {
                    object.meta.namespace.clone()
                },
                name: reference.name.clone(),
            };
            let owner = self.at(&target);
            let owner = owner.filter(|owner| owner.meta.uid == reference.uid);
            let waits = |owner: &Record| {
                let finalizers = &owner.meta.finalizers;
                owner.meta.deletion.is_some() && finalizers.iter().any(|own| &**own == FOREGROUND)
            };
            let name = &object.meta.name;
            assert!(
                owner.as_ref().is_none_or(waits),
                "{name} has a living owner"
            );
        }
    }

    fn store(&mut self, mut object: Record) -> Record {
        self.revision += 1;
        object.meta.revision = Revision::Number(self.revision);
        let uid = object.meta.uid.clone();
        let is_over = object.meta.deletion.is_some()
            && object.meta.finalizers.is_empty()
            && !self.graceful.contains(&uid);
        let place = Target {
            kind: object.kind,
            namespace: object.meta.namespace.clone(),
            name: object.meta.name.clone(),
        };
        self.places.insert(place, uid.clone());
        let shown = Arc::new(object.clone());
        let change = if is_over {
            self.objects.remove(&uid);
            Change::Deleted(shown)
        } else {
            self.objects.insert(uid, object.clone());
            Change::Applied(shown)
        };
        self.events
            .entry(object.kind)
            .or_default()
            .push_back(change);
        object
    }

    fn end(&mut self, uid: &Uid, policy: Propagation) -> Answer {
        let mut object = self.objects[uid].clone();
        let finalizers = &mut object.meta.finalizers;
        finalizers.retain(|own| ![FOREGROUND, ORPHAN].contains(&&**own));
        match policy {
            Propagation::Background => {}
            Propagation::Foreground => finalizers.push(FOREGROUND.into()),
            Propagation::Orphan => finalizers.push(ORPHAN.into()),
        }
        object.meta.deletion.get_or_insert(self.now);
        let is_over = object.meta.finalizers.is_empty();
        let object = self.store(object);
        if is_over {
            Answer::Done
        } else {
            Answer::Object(Arc::new(object))
        }
    }
}

fn is_judged(object: &Record, judged: &Judged) -> bool {
    object.meta.uid == judged.uid && object.meta.revision == judged.revision
}

fn failed(kind: FailureKind) -> Answer {
    Answer::Failed(Failure {
        kind,
        status: None,
        message: format!("{kind:?}"),
        retry_after: None,
    })
}

fn patched(mut object: Record, patch: &Value) -> Record {
    let metadata = &patch["metadata"];
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    if let Some(list) = metadata.get("finalizers") {
        let list = list.as_array().cloned().unwrap_or_default();
        object.meta.finalizers = list.iter().map(|own| text(own).into()).collect();
    }
    if let Some(list) = metadata.get("ownerReferences") {
        let list = list.as_array().cloned().unwrap_or_default();
        let reference = |value: &Value| OwnerRef {
            api_version: text(&value["apiVersion"]).into(),
            kind: text(&value["kind"]).into(),
            name: text(&value["name"]).into(),
            uid: text(&value["uid"]).as_str().into(),
            controller: value["controller"].as_bool(),
            block_owner_deletion: value["blockOwnerDeletion"].as_bool(),
        };
        object.meta.owners = list.iter().map(reference).collect();
    }
    object
}
