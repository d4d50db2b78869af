//! A small stage for tables: an actor that is told of objects by hand and asked what it would do.

use std::sync::Arc;

use caretaker_controllers::runtime::call::{Answer, Call};
use caretaker_controllers::runtime::controller::{CallAnswer, Change, Controller, Next, Wake};
use caretaker_controllers::runtime::kind::{Catalog, Kind, KindState, Scope, Verbs};
use caretaker_controllers::runtime::record::{View, decode};
use jiff::Timestamp;
use serde_json::Value;

use crate::actor::{Acting, Actor, Decision, Key};
use crate::world::Named;

/// When every table begins.
pub(crate) const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// An actor and the objects it was told of.
pub(crate) struct Stage<A: Actor> {
    acting: Acting<A>,
    catalog: Arc<Catalog>,
    revision: u64,
}

/// A request in short.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) verb: &'static str,
    pub(crate) name: String,
    pub(crate) subresource: Option<&'static str>,
    pub(crate) grace_secs: Option<u32>,
    /// The object or the patch.
    pub(crate) body: Value,
}

/// Kinds with the versions that tests need.
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

// === impl Stage ===

impl<A: Actor> Stage<A> {
    /// An actor that knows all there is: nothing.
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
        let mut stage = Self {
            acting: Acting::new(actor),
            catalog: catalog.clone(),
            revision: 0,
        };
        stage.observe(&Change::Catalog(catalog.clone()));
        for (id, _) in catalog.iter() {
            stage.observe(&Change::Kind(id, KindState::Synced));
        }
        stage
    }

    fn observe(&mut self, change: &Change) {
        self.acting.observe(change, START, &mut Wake::default());
    }

    /// A feed shows an object; it gets the next version, and a uid by its name.
    pub(crate) fn applied(&mut self, named: Named, object: Value) {
        let record = self.record(named, object);
        self.observe(&Change::Applied(record));
    }

    fn record(
        &mut self,
        named: Named,
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

    /// A feed shows an object's end.
    pub(crate) fn deleted(&mut self, named: Named, key: &Key) {
        let object =
            serde_json::json!({"metadata": {"name": &*key.name, "namespace": &*key.namespace}});
        let record = self.record(named, object);
        self.observe(&Change::Deleted(record));
    }

    /// What it decides.
    pub(crate) fn decide(&self, key: &Key, now: Timestamp) -> Decision {
        self.acting.decide(key, now)
    }

    /// Until when it waits, if it does.
    pub(crate) fn at(&self, key: &Key, now: Timestamp) -> Option<Timestamp> {
        match self.decide(key, now).next {
            Next::At(time) => Some(time),
            _ => None,
        }
    }

    /// Whether it waits for a change.
    pub(crate) fn is_resting(&self, key: &Key, now: Timestamp) -> bool {
        self.decide(key, now).next == Next::Rest
    }

    /// Its create or patch is answered with this object.
    pub(crate) fn answer(&mut self, key: &Key, object: Value) {
        let call = call(&self.decide(key, START));
        let kind = self.catalog.get(call.target().kind).unwrap().clone();
        let named = VERSIONS
            .iter()
            .find(|row| *row.0 == *kind.group && *row.1 == *kind.resource)
            .unwrap();
        let record = self.record((named.0, named.1), object);
        let answer = Answer::Object(record);
        self.acting.answered(CallAnswer {
            key,
            call: &call,
            answer: &answer,
            now: START,
            wake: &mut Wake::default(),
        });
    }

    /// The request that was decided is answered, and nothing is shown.
    pub(crate) fn answered(&mut self, key: &Key, decision: &Decision) {
        let (call, done) = (call(decision), Answer::Done);
        self.acting.answered(CallAnswer {
            key,
            call: &call,
            answer: &done,
            now: START,
            wake: &mut Wake::default(),
        });
    }
}

/// The request that was decided.
pub(crate) fn decided(decision: &Decision) -> Asked {
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
        Call::Get { .. } => panic!("actors never look"),
    };
    Asked {
        verb,
        name,
        subresource,
        grace_secs,
        body,
    }
}

fn call(decision: &Decision) -> Call {
    match &decision.next {
        Next::Call(call) => call.clone(),
        other => panic!("{other:?} because {}", decision.because),
    }
}
