//! A harness for table tests: it feeds objects to an actor and inspects its decisions.

mod world;

use std::sync::Arc;

use caretaker_controllers::runtime::call::{ApiAnswer, ApiCall, CallFailure, FailureKind};
use caretaker_controllers::runtime::controller::{
    AnsweredCall, Controller, DecisionReason, NextStep, ObservedChange, WakeList,
};
use caretaker_controllers::runtime::kind::{ApiKind, KindCatalog, KindScope, KindState, KindVerbs};
use caretaker_controllers::runtime::record::{RecordView, decode};
use jiff::Timestamp;
use serde_json::Value;

use crate::actor::{Actor, ActorController, ActorDecision, NamespacedName};
use crate::cache::{GroupResource, ObjectSnapshot};

pub(crate) use world::ObjectWorld;

/// The start time of every test.
pub(crate) const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// An actor with the objects that the test has applied.
pub(crate) struct ActorHarness<A: Actor> {
    controller: ActorController<A>,
    catalog: Arc<KindCatalog>,
    revision: u64,
}

/// The parts of a request that tests compare.
#[derive(Debug)]
pub(crate) struct RequestSummary {
    pub(crate) verb: &'static str,
    pub(crate) name: String,
    pub(crate) subresource: Option<&'static str>,
    pub(crate) grace_secs: Option<u32>,
    /// The object of a create, or the patch.
    pub(crate) body: Value,
}

/// The kinds that tests use.
const VERSIONS: [(&str, &str, &str, &str); 24] = [
    ("coordination.k8s.io", "leases", "v1", "Lease"),
    ("apps", "daemonsets", "v1", "DaemonSet"),
    ("apps", "controllerrevisions", "v1", "ControllerRevision"),
    ("", "services", "v1", "Service"),
    ("", "endpoints", "v1", "Endpoints"),
    ("discovery.k8s.io", "endpointslices", "v1", "EndpointSlice"),
    (
        "policy",
        "poddisruptionbudgets",
        "v1",
        "PodDisruptionBudget",
    ),
    ("", "resourcequotas", "v1", "ResourceQuota"),
    ("", "configmaps", "v1", "ConfigMap"),
    ("", "secrets", "v1", "Secret"),
    ("", "persistentvolumeclaims", "v1", "PersistentVolumeClaim"),
    (
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "v1",
        "CustomResourceDefinition",
    ),
    ("example.com", "widgets", "v1", "Widget"),
    ("apps", "statefulsets", "v1", "StatefulSet"),
    ("", "replicationcontrollers", "v1", "ReplicationController"),
    ("", "nodes", "v1", "Node"),
    ("", "pods", "v1", "Pod"),
    ("apps", "replicasets", "v1", "ReplicaSet"),
    ("apps", "deployments", "v1", "Deployment"),
    ("batch", "jobs", "v1", "Job"),
    ("batch.volcano.sh", "jobs", "v1alpha1", "Job"),
    ("bus.volcano.sh", "commands", "v1alpha1", "Command"),
    ("scheduling.volcano.sh", "podgroups", "v1beta1", "PodGroup"),
    ("scheduling.volcano.sh", "queues", "v1beta1", "Queue"),
];

// === impl ActorHarness ===

impl<A: Actor> ActorHarness<A> {
    /// An actor whose kinds are synced and empty.
    pub(crate) fn of(actor: A) -> Self {
        let kinds = VERSIONS.map(|(group, resource, version, kind)| ApiKind {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            resource: resource.into(),
            scope: KindScope::Namespaced,
            verbs: KindVerbs {
                get: true,
                list: true,
                watch: true,
                delete: true,
            },
            versions: vec![version.into()],
            aliases: Vec::new(),
        });
        let catalog = Arc::new(KindCatalog::default().with(kinds));
        let mut harness = Self {
            controller: ActorController::new(actor),
            catalog: catalog.clone(),
            revision: 0,
        };
        harness.observe(&ObservedChange::Catalog(catalog.clone()));
        for (id, _) in catalog.iter() {
            harness.observe(&ObservedChange::Kind(id, KindState::Synced));
        }
        harness
    }

    fn observe(&mut self, change: &ObservedChange) {
        self.controller
            .observe(change, START, &mut WakeList::default());
    }

    /// The watch shows an object. The harness sets its resourceVersion, and a uid derived from its name unless it has one.
    pub(crate) fn applied(&mut self, named: GroupResource, object: Value) {
        let record = self.record(named, object);
        self.observe(&ObservedChange::Applied(record));
    }

    fn record(
        &mut self,
        named: GroupResource,
        mut object: Value,
    ) -> Arc<caretaker_controllers::runtime::record::ObjectRecord> {
        self.revision += 1;
        let kind = self.catalog.id(named.0, named.1).unwrap();
        let uid = format!("uid-of-{}", object["metadata"]["name"].as_str().unwrap());
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = uid.into();
        }
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        let bytes = object.to_string();
        Arc::new(decode(kind, bytes.as_bytes(), RecordView::Full).unwrap())
    }

    /// The watch shows the deletion of an object.
    pub(crate) fn deleted(&mut self, named: GroupResource, key: &NamespacedName) {
        let object =
            serde_json::json!({"metadata": {"name": &*key.name, "namespace": &*key.namespace}});
        self.deleted_as(named, object);
    }

    /// The watch shows the deletion of this object.
    pub(crate) fn deleted_as(&mut self, named: GroupResource, object: Value) {
        let record = self.record(named, object);
        self.observe(&ObservedChange::Deleted(record));
    }

    /// An object of the namespace `n` as the actor knows it.
    pub(crate) fn snapshot(&self, named: GroupResource, name: &str) -> ObjectSnapshot {
        let key = NamespacedName::new("n", name);
        self.controller.known(named, &key).unwrap().clone()
    }

    /// The group and resource of a request.
    pub(crate) fn resource(&self, call: &ApiCall) -> GroupResource {
        let kind = self.catalog.get(call.target().kind).unwrap();
        let mut rows = VERSIONS.iter();
        let row = rows.find(|row| *row.0 == *kind.group && *row.1 == *kind.resource);
        let row = row.unwrap();
        (row.0, row.1)
    }

    pub(crate) fn decide(&self, key: &NamespacedName, now: Timestamp) -> ActorDecision {
        self.controller.decide(key, now)
    }

    /// The time until which the actor waits, if it does.
    pub(crate) fn at(&self, key: &NamespacedName, now: Timestamp) -> Option<Timestamp> {
        match self.decide(key, now).next {
            NextStep::At(time) => Some(time),
            _ => None,
        }
    }

    /// Whether the actor waits for a change.
    pub(crate) fn is_resting(&self, key: &NamespacedName, now: Timestamp) -> bool {
        self.decide(key, now).next == NextStep::Rest
    }

    /// The API server returns this object for the decided create or patch.
    pub(crate) fn answer(&mut self, key: &NamespacedName, object: Value) {
        let call = call(&self.decide(key, START));
        let record = self.record(self.resource(&call), object);
        let answer = ApiAnswer::Object(record);
        self.controller.answered(AnsweredCall {
            key,
            call: &call,
            answer: &answer,
            now: START,
            wake: &mut WakeList::default(),
        });
    }

    /// The API server returns this object of a kind that the actor does not watch for the decided read.
    pub(crate) fn answer_in(
        &mut self,
        key: &NamespacedName,
        named: GroupResource,
        object: Value,
        now: Timestamp,
    ) {
        let call = call(&self.decide(key, now));
        let answer = ApiAnswer::Object(self.record(named, object));
        self.controller.answered(AnsweredCall {
            key,
            call: &call,
            answer: &answer,
            now,
            wake: &mut WakeList::default(),
        });
    }

    /// The server refuses the decided request. Returns the Event, `reason: message`.
    pub(crate) fn failed(
        &mut self,
        key: &NamespacedName,
        decision: &ActorDecision,
        kind: FailureKind,
        message: &str,
    ) -> Option<String> {
        let answer = ApiAnswer::Failed(CallFailure {
            kind,
            status: None,
            message: message.to_owned(),
            retry_after: None,
        });
        let notes = self.controller.answered(AnsweredCall {
            key,
            call: &call(decision),
            answer: &answer,
            now: START,
            wake: &mut WakeList::default(),
        });
        let mut notes = notes.iter();
        notes
            .next()
            .map(|note| format!("{}: {}", note.reason, note.message))
    }

    /// The decided request succeeds without returning an object.
    pub(crate) fn answered(&mut self, key: &NamespacedName, decision: &ActorDecision) {
        let (call, done) = (call(decision), ApiAnswer::Done);
        self.controller.answered(AnsweredCall {
            key,
            call: &call,
            answer: &done,
            now: START,
            wake: &mut WakeList::default(),
        });
    }
}

/// The decided request.
pub(crate) fn decided(decision: &ActorDecision) -> RequestSummary {
    let call = call(decision);
    let (verb, name) = (call.verb(), call.target().name.to_string());
    let (subresource, grace_secs, body) = match call {
        ApiCall::Create {
            subresource,
            object,
            ..
        } => (subresource, None, object),
        ApiCall::Patch {
            subresource, patch, ..
        } => (subresource, None, patch),
        ApiCall::Delete { grace_secs, .. } => (None, grace_secs, Value::Null),
        ApiCall::Get { .. } | ApiCall::GetInVersion { .. } | ApiCall::List { .. } => {
            panic!("actors never send GET")
        }
    };
    RequestSummary {
        verb,
        name,
        subresource,
        grace_secs,
        body,
    }
}

/// The Events of a decision, `source host part type reason: message`: those about its state, then those of its success.
pub(crate) fn events(decision: &ActorDecision) -> Vec<String> {
    let notes = decision.notes.iter();
    let notes = notes.chain(decision.because.events_on_success());
    let texts = notes.map(|note| {
        let source = note.source.as_ref();
        let (of, host) = source.map_or(("", ""), |source| (source.component, &source.host));
        let (part, severity) = (&note.field_path, note.severity);
        let (reason, message) = (note.reason, &note.message);
        format!("{of} {host} {part} {severity:?} {reason}: {message}")
    });
    texts.map(|text| text.trim_start().to_owned()).collect()
}

fn call(decision: &ActorDecision) -> ApiCall {
    match &decision.next {
        NextStep::Call(call) => call.clone(),
        other => panic!("{other:?} because {}", decision.because),
    }
}
