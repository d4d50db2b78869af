//! A harness for table tests: it feeds objects to an actor and inspects its decisions.

use std::sync::Arc;

use caretaker_controllers::runtime::call::{Answer, Call};
use caretaker_controllers::runtime::controller::{CallAnswer, Change, Controller, Next, Wake};
use caretaker_controllers::runtime::kind::{Catalog, Kind, KindState, Scope, Verbs};
use caretaker_controllers::runtime::record::{View, decode};
use jiff::Timestamp;
use serde_json::Value;

use crate::actor::{Actor, ActorController, ActorDecision, NamespacedName};
use crate::cache::GroupResource;

/// The start time of every test.
pub(crate) const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// An actor with the objects that the test has applied.
pub(crate) struct ActorHarness<A: Actor> {
    controller: ActorController<A>,
    catalog: Arc<Catalog>,
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
const VERSIONS: [(&str, &str, &str, &str); 9] = [
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
        let kinds = VERSIONS.map(|(group, resource, version, kind)| Kind {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            resource: resource.into(),
            scope: Scope::Namespaced,
            verbs: Verbs {
                get: true,
                list: true,
                watch: true,
                delete: true,
            },
            versions: vec![version.into()],
            aliases: Vec::new(),
        });
        let catalog = Arc::new(Catalog::default().with(kinds));
        let mut harness = Self {
            controller: ActorController::new(actor),
            catalog: catalog.clone(),
            revision: 0,
        };
        harness.observe(&Change::Catalog(catalog.clone()));
        for (id, _) in catalog.iter() {
            harness.observe(&Change::Kind(id, KindState::Synced));
        }
        harness
    }

    fn observe(&mut self, change: &Change) {
        self.controller.observe(change, START, &mut Wake::default());
    }

    /// The watch shows an object. The harness sets its resourceVersion, and a uid derived from its name.
    pub(crate) fn applied(&mut self, named: GroupResource, object: Value) {
        let record = self.record(named, object);
        self.observe(&Change::Applied(record));
    }

    fn record(
        &mut self,
        named: GroupResource,
        mut object: Value,
    ) -> Arc<caretaker_controllers::runtime::record::Record> {
        self.revision += 1;
        let kind = self.catalog.id(named.0, named.1).unwrap();
        let uid = format!("uid-of-{}", object["metadata"]["name"].as_str().unwrap());
        object["metadata"]["uid"] = uid.into();
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        let bytes = object.to_string();
        Arc::new(decode(kind, bytes.as_bytes(), View::Full).unwrap())
    }

    /// The watch shows the deletion of an object.
    pub(crate) fn deleted(&mut self, named: GroupResource, key: &NamespacedName) {
        let object =
            serde_json::json!({"metadata": {"name": &*key.name, "namespace": &*key.namespace}});
        let record = self.record(named, object);
        self.observe(&Change::Deleted(record));
    }

    pub(crate) fn decide(&self, key: &NamespacedName, now: Timestamp) -> ActorDecision {
        self.controller.decide(key, now)
    }

    /// The time until which the actor waits, if it does.
    pub(crate) fn at(&self, key: &NamespacedName, now: Timestamp) -> Option<Timestamp> {
        match self.decide(key, now).next {
            Next::At(time) => Some(time),
            _ => None,
        }
    }

    /// Whether the actor waits for a change.
    pub(crate) fn is_resting(&self, key: &NamespacedName, now: Timestamp) -> bool {
        self.decide(key, now).next == Next::Rest
    }

    /// The API server returns this object for the decided create or patch.
    pub(crate) fn answer(&mut self, key: &NamespacedName, object: Value) {
        let call = call(&self.decide(key, START));
        let kind = self.catalog.get(call.target().kind).unwrap().clone();
        let named = VERSIONS
            .iter()
            .find(|row| *row.0 == *kind.group && *row.1 == *kind.resource)
            .unwrap();
        let record = self.record((named.0, named.1), object);
        let answer = Answer::Object(record);
        self.controller.answered(CallAnswer {
            key,
            call: &call,
            answer: &answer,
            now: START,
            wake: &mut Wake::default(),
        });
    }

    /// The decided request succeeds without returning an object.
    pub(crate) fn answered(&mut self, key: &NamespacedName, decision: &ActorDecision) {
        let (call, done) = (call(decision), Answer::Done);
        self.controller.answered(CallAnswer {
            key,
            call: &call,
            answer: &done,
            now: START,
            wake: &mut Wake::default(),
        });
    }
}

/// The decided request.
pub(crate) fn decided(decision: &ActorDecision) -> RequestSummary {
    let call = call(decision);
    let (verb, name) = (call.verb(), call.target().name.to_string());
    let (subresource, grace_secs, body) = match call {
        Call::Create {
            subresource,
            object,
            ..
        } => (subresource, None, object),
        Call::Patch {
            subresource, patch, ..
        } => (subresource, None, patch),
        Call::Delete { grace_secs, .. } => (None, grace_secs, Value::Null),
        Call::Get { .. } => panic!("actors never send GET"),
    };
    RequestSummary {
        verb,
        name,
        subresource,
        grace_secs,
        body,
    }
}

fn call(decision: &ActorDecision) -> Call {
    match &decision.next {
        Next::Call(call) => call.clone(),
        other => panic!("{other:?} because {}", decision.because),
    }
}
