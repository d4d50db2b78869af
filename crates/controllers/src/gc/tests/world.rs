//! Pods, ReplicationControllers, ReplicaSets and Nodes in a [`TestWorld`]. The uid of an object is its name.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::gc::index::FOREGROUND;
use crate::gc::index::catch_up::CATCH_UP_WAIT;
use crate::gc::{GarbageCollector, GcKey, GcReason};
use crate::runtime::call::{CallTarget, DeletePropagation, FailureKind};
use crate::runtime::controller::{Controller, EventNote, ObservedChange, Verdict, WakeList};
use crate::runtime::driver::clock_skew::TimeSource;
use crate::runtime::kind::{ApiKind, KindCatalog, KindId, KindScope, KindState};
use crate::runtime::queue::RETRY_MAX;
use crate::runtime::record::{ObjectRecord, OwnerRef, RecordBody, RecordMeta, RecordView, decode};
use crate::test_world::{ObjectPlace, ScriptedServer, TestWorld, WorldOptions, mk_kind, text};

pub(super) const PODS: KindId = KindId(0);
pub(super) const RCS: KindId = KindId(1);
pub(super) const SETS: KindId = KindId(2);
pub(super) const NODES: KindId = KindId(3);

const KINDS: [KindId; 4] = [PODS, RCS, SETS, NODES];

pub(super) struct World {
    world: TestWorld<GarbageCollector>,
    notes: Vec<EventNote>,
}

/// Pods, ReplicationControllers, ReplicaSets in two versions, and Nodes.
pub(super) fn kinds() -> [ApiKind; 4] {
    let rcs = "replicationcontrollers";
    let sets = mk_kind(
        "apps",
        "v1",
        "ReplicaSet",
        "replicasets",
        KindScope::Namespaced,
    );
    [
        mk_kind("", "v1", "Pod", "pods", KindScope::Namespaced),
        mk_kind(
            "",
            "v1",
            "ReplicationController",
            rcs,
            KindScope::Namespaced,
        ),
        ApiKind {
            versions: vec!["v1".into(), "v1beta1".into()],
            ..sets
        },
        mk_kind("", "v1", "Node", "nodes", KindScope::Cluster),
    ]
}

fn api_version(kind: KindId) -> &'static str {
    if kind == SETS { "apps/v1" } else { "v1" }
}

fn kind_name(kind: KindId) -> &'static str {
    ["Pod", "ReplicationController", "ReplicaSet", "Node"][usize::from(kind.0)]
}

/// A reference to the object `name`, whose uid is its name.
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

/// An object whose uid is its name. It is in the namespace `ns`, unless it is a Node.
pub(super) fn object(kind: KindId, name: &str, owners: &[OwnerRef]) -> ObjectRecord {
    ObjectRecord {
        kind,
        meta: RecordMeta {
            name: name.into(),
            namespace: if kind == NODES { "" } else { "ns" }.into(),
            uid: name.into(),
            owners: owners.to_vec(),
            ..RecordMeta::default()
        },
        body: RecordBody::None,
    }
}

// === impl World ===

impl World {
    /// An empty cluster in which all kinds have been listed.
    pub(super) fn new() -> Self {
        let mut world = Self::unsynced();
        for kind in KINDS {
            world.sync(kind);
        }
        // The kinds that discovery found have their feeds.
        world.set_time(world.now() + CATCH_UP_WAIT);
        world
    }

    /// A kind has not been listed yet, and sends nothing.
    pub(super) fn begin_first_list(&mut self, kind: KindId) {
        let now = self.now();
        self.observe(&ObservedChange::Kind(kind, KindState::Syncing(now)));
        self.server().bookmarked.remove(&kind);
    }

    /// A kind has been listed, and its watch sends bookmarks.
    pub(super) fn sync(&mut self, kind: KindId) {
        self.observe(&ObservedChange::Kind(kind, KindState::Synced));
        self.server().bookmarked.insert(kind, 0);
    }

    /// An empty cluster in which no kind has been listed yet.
    pub(super) fn unsynced() -> Self {
        let options = WorldOptions {
            start: Timestamp::UNIX_EPOCH,
            view: RecordView::Metadata,
            retry_max: RETRY_MAX,
            timing: TimeSource::Steady,
        };
        let mut world = TestWorld::new(GarbageCollector::new(7), kinds(), options);
        world.server().delete_check = Some(assert_collectable);
        for kind in KINDS {
            world.observe(&ObservedChange::Kind(kind, KindState::Syncing(world.now())));
        }
        let notes = Vec::new();
        Self { world, notes }
    }

    pub(super) fn gc(&self) -> &GarbageCollector {
        self.controller()
    }

    /// All Events that decisions asked for so far.
    pub(super) fn notes(&mut self) -> &[EventNote] {
        let new = self.world.take_notes();
        self.notes.extend(new);
        &self.notes
    }

    /// Holds back watch events of this kind until the test delivers them.
    pub(super) fn lag(&mut self, kind: KindId) {
        self.lagging.insert(kind);
    }

    /// Makes requests for these objects fail.
    pub(super) fn fail(&mut self, broken: BTreeMap<CallTarget, FailureKind>) {
        self.server().rule = Box::new(move |_, (kind, namespace, name)| {
            let target = CallTarget {
                kind: *kind,
                namespace: namespace.as_str().into(),
                name: name.as_str().into(),
            };
            broken.get(&target).copied()
        });
    }

    pub(super) fn create(&mut self, object: ObjectRecord) {
        let ObjectRecord { kind, meta, .. } = object;
        self.server().store(kind, to_json(&meta));
    }

    /// Stores an object unchanged, without a watch event.
    pub(super) fn restore(&mut self, object: &ObjectRecord) {
        let key = place(object);
        self.server().objects.insert(key, to_json(&object.meta));
    }

    /// Removes an object without a watch event.
    pub(super) fn lose(&mut self, uid: &str) {
        let key = self.find(uid).expect("the object is there");
        self.server().objects.remove(&key);
    }

    /// Changes an object as another client.
    pub(super) fn change(&mut self, uid: &str, change: impl FnOnce(&mut RecordMeta)) {
        let mut object = self.object(uid);
        change(&mut object.meta);
        self.create(object);
    }

    /// Deletes an object as another client.
    pub(super) fn delete(&mut self, uid: &str, policy: DeletePropagation) {
        let key = self.find(uid).expect("the object is there");
        let now = self.now();
        let mut server = self.server();
        let object = server.objects[&key].clone();
        let options = json!({ "propagationPolicy": policy.as_str() });
        server.delete(&key, object, &options, now);
    }

    pub(super) fn exists(&self, uid: &str) -> bool {
        self.find(uid).is_some()
    }

    pub(super) fn object(&self, uid: &str) -> ObjectRecord {
        let key = self.find(uid).expect("the object is there");
        from_json(key.0, &self.server().objects[&key])
    }

    pub(super) fn objects(&self) -> Vec<ObjectRecord> {
        let server = self.server();
        let objects = server.objects.iter();
        objects
            .map(|(key, object)| from_json(key.0, object))
            .collect()
    }

    pub(super) fn names(&self) -> Vec<String> {
        let server = self.server();
        let uids = server.objects.values();
        let mut uids: Vec<String> = uids
            .map(|own| text(&own["metadata"]["uid"]).into())
            .collect();
        uids.sort();
        uids.dedup();
        uids
    }

    /// The decision about an object, without its request.
    pub(super) fn decide(&self, uid: &str) -> Verdict<GcKey, GcReason> {
        self.world.decide(&GcKey::Object(uid.into()))
    }

    fn find(&self, uid: &str) -> Option<ObjectPlace> {
        let server = self.server();
        let mut objects = server.objects.iter();
        let found = objects.find(|(_, object)| object["metadata"]["uid"] == uid);
        found.map(|(key, _)| key.clone())
    }
}

impl Deref for World {
    type Target = TestWorld<GarbageCollector>;

    fn deref(&self) -> &Self::Target {
        &self.world
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.world
    }
}

/// A collector without a driver, in which no kind has been listed yet.
pub(super) fn unsynced_gc() -> (GarbageCollector, Timestamp) {
    let (mut gc, now) = (GarbageCollector::new(7), Timestamp::UNIX_EPOCH);
    let catalog = Arc::new(KindCatalog::default().with(kinds()));
    gc.observe(
        &ObservedChange::Catalog(catalog),
        now,
        &mut WakeList::default(),
    );
    for kind in KINDS {
        let syncing = ObservedChange::Kind(kind, KindState::Syncing(now));
        gc.observe(&syncing, now, &mut WakeList::default());
    }
    (gc, now)
}

/// Asserts safety rule S1: each owner of a deleted object is absent or waits for it.
fn assert_collectable(server: &ScriptedServer, key: &ObjectPlace) {
    let object = from_json(key.0, &server.objects[key]);
    let owners = &object.meta.owners;
    assert!(!owners.is_empty(), "{key:?} has no owner");
    for reference in owners {
        let (
            catalog,
            OwnerRef {
                api_version, kind, ..
            },
        ) = (&server.catalog, reference);
        let served = catalog.resolve(api_version, kind);
        let served = served.map(|kind| (kind, catalog.get(kind).unwrap().scope));
        let retired = catalog.resolve_retired(api_version, kind);
        let found = served.or(retired.map(|kind| (kind.id, kind.scope)));
        let (kind, scope) = found.expect("an owner of an unknown type is presumed alive");
        let is_cluster = scope == KindScope::Cluster;
        let namespace = if is_cluster {
            ""
        } else {
            &object.meta.namespace
        };
        let place = (kind, namespace.to_owned(), reference.name.to_string());
        let owner = server.objects.get(&place).map(|own| from_json(kind, own));
        let owner = owner.filter(|owner| owner.meta.uid == reference.uid);
        let waits = |owner: &ObjectRecord| {
            let finalizers = &owner.meta.finalizers;
            owner.meta.deletion.is_some() && finalizers.iter().any(|own| &**own == FOREGROUND)
        };
        assert!(
            owner.as_ref().is_none_or(waits),
            "{key:?} has a living owner"
        );
    }
}

fn place(object: &ObjectRecord) -> ObjectPlace {
    let RecordMeta {
        namespace, name, ..
    } = &object.meta;
    (object.kind, namespace.to_string(), name.to_string())
}

fn from_json(kind: KindId, object: &Value) -> ObjectRecord {
    decode(kind, object.to_string().as_bytes(), RecordView::Metadata).unwrap()
}

fn to_json(meta: &RecordMeta) -> Value {
    let owners = meta.owners.iter().map(|owner| {
        json!({"apiVersion": &*owner.api_version, "kind": &*owner.kind, "name": &*owner.name,
            "uid": owner.uid.to_string(), "controller": owner.controller,
            "blockOwnerDeletion": owner.block_owner_deletion})
    });
    let finalizers = meta.finalizers.iter().map(ToString::to_string);
    json!({"metadata": {
        "name": &*meta.name, "namespace": &*meta.namespace, "uid": meta.uid.to_string(),
        "resourceVersion": meta.revision.to_string(), "deletionTimestamp": meta.deletion,
        "finalizers": finalizers.collect::<Vec<_>>(), "ownerReferences": owners.collect::<Vec<_>>(),
    }})
}
