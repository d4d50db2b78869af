//! A server that accepts all writes of one actor, for tests that let it act until it rests.

use std::collections::BTreeMap;

use caretaker_controllers::runtime::call::ApiCall;
use caretaker_controllers::runtime::controller::NextStep;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{ActorHarness, START, events};
use crate::actor::{Actor, NamespacedName};
use crate::cache::GroupResource;
use crate::objects::{later, time};
use crate::pod::PODS;

/// More requests than any of these tests needs.
const REQUESTS_MAX: usize = 200;

/// An object of the namespace `n` that the actor decides about, and all others by resource and name.
pub(crate) struct ObjectWorld<A: Actor> {
    pub(crate) harness: ActorHarness<A>,
    pub(crate) now: Timestamp,
    /// Messages of all Events.
    pub(crate) events: Vec<String>,
    own: String,
    objects: BTreeMap<(GroupResource, String), Value>,
    created: i64,
}

// === impl ObjectWorld ===

impl<A: Actor> ObjectWorld<A> {
    /// A world with this object, which the actor decides about.
    pub(crate) fn new(actor: A, object: Value) -> Self {
        let own = object["metadata"]["name"].as_str().unwrap().to_owned();
        let mut world = Self {
            harness: ActorHarness::of(actor),
            now: START,
            events: Vec::new(),
            own,
            objects: BTreeMap::new(),
            created: 0,
        };
        world.show(A::KINDS[0], object);
        world
    }

    /// The watch shows an object.
    pub(crate) fn show(&mut self, named: GroupResource, object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        self.harness.applied(named, object.clone());
        self.objects.insert((named, name), object);
    }

    /// The actor's own object.
    pub(crate) fn own(&self) -> &Value {
        self.get(A::KINDS[0], &self.own)
    }

    /// A user changes the actor's own object.
    pub(crate) fn change(&mut self, patch: &Value) {
        let mut own = self.own().clone();
        merge(&mut own, patch);
        own["metadata"]["generation"] =
            (own["metadata"]["generation"].as_i64().unwrap() + 1).into();
        self.show(A::KINDS[0], own);
    }

    pub(crate) fn get(&self, named: GroupResource, name: &str) -> &Value {
        let object = self.objects.get(&(named, name.to_owned()));
        object.unwrap_or_else(|| panic!("there is no {name}"))
    }

    /// The names of the objects of a resource.
    pub(crate) fn names(&self, named: GroupResource) -> Vec<&str> {
        let keys = self.objects.keys().filter(|(of, _)| *of == named);
        keys.map(|(_, name)| name.as_str()).collect()
    }

    /// Carries out all decisions until the actor rests or waits. Returns the requests other than those for its own status.
    pub(crate) fn run(&mut self) -> Vec<String> {
        let mut requests = Vec::new();
        for _ in 0..REQUESTS_MAX {
            match self.step() {
                None => return requests,
                Some(request) if request == "patch status" => {}
                Some(request) => requests.push(request),
            }
        }
        panic!("endless: {requests:?}");
    }

    /// Carries out one decision. Returns its request, if it has one.
    pub(crate) fn step(&mut self) -> Option<String> {
        let key = NamespacedName::new("n", &self.own);
        let decision = self.harness.decide(&key, self.now);
        let NextStep::Call(call) = &decision.next else {
            return None;
        };
        self.events.extend(events(&decision));
        Some(self.carry_out(call))
    }

    /// The kubelets obey: starting Pods get ready, deleted ones go. Until nothing changes.
    pub(crate) fn settle(&mut self) -> Vec<String> {
        let mut requests = self.run();
        for _ in 0..REQUESTS_MAX {
            let pods: Vec<String> = self
                .names(PODS)
                .into_iter()
                .map(ToOwned::to_owned)
                .collect();
            let is_due = |name: &&String| {
                let pod = self.get(PODS, name);
                pod["status"]["phase"] == "Pending"
                    || !pod["metadata"]["deletionTimestamp"].is_null()
            };
            let due: Vec<String> = pods.iter().filter(is_due).cloned().collect();
            if due.is_empty() {
                return requests;
            }
            for name in due {
                match self.get(PODS, &name)["metadata"]["deletionTimestamp"].is_null() {
                    true => self.ready(&name),
                    false => self.gone(PODS, &name),
                }
            }
            requests.extend(self.run());
        }
        panic!("it does not settle: {requests:?}");
    }

    /// A Pod runs and is ready.
    pub(crate) fn ready(&mut self, name: &str) {
        let mut pod = self.get(PODS, name).clone();
        pod["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True",
            "lastTransitionTime": time(self.now)}]});
        self.show(PODS, pod);
    }

    /// An object is gone.
    pub(crate) fn gone(&mut self, named: GroupResource, name: &str) {
        let object = self.objects.remove(&(named, name.to_owned()));
        let uid = object.unwrap()["metadata"]["uid"].clone();
        let object = json!({"metadata": {"name": name, "namespace": "n", "uid": uid}});
        self.harness.deleted_as(named, object);
    }

    /// An object without a namespace is gone.
    pub(crate) fn gone_cluster(&mut self, named: GroupResource, name: &str) {
        self.objects.remove(&(named, name.to_owned()));
        self.harness.deleted(named, &NamespacedName::new("", name));
    }

    fn carry_out(&mut self, call: &ApiCall) -> String {
        let (name, named) = (call.target().name.to_string(), self.harness.resource(call));
        match call {
            ApiCall::Create { object, .. } => {
                let mut object = object.clone();
                self.created += 1;
                object["metadata"]["creationTimestamp"] = time(later(START, self.created)).into();
                object["metadata"]["uid"] = format!("uid-{}-of-{name}", self.created).into();
                if named == PODS {
                    object["status"] = json!({"phase": "Pending"});
                }
                self.show(named, object);
                format!("create {name}")
            }
            ApiCall::Delete { .. } => {
                if named == PODS {
                    let mut pod = self.get(PODS, &name).clone();
                    pod["metadata"]["deletionTimestamp"] = time(later(self.now, 30)).into();
                    pod["metadata"]["deletionGracePeriodSeconds"] = 30.into();
                    self.show(PODS, pod);
                } else {
                    self.gone(named, &name);
                }
                format!("delete {name}")
            }
            ApiCall::Patch {
                patch, subresource, ..
            } => {
                let mut object = self.get(named, &name).clone();
                merge(&mut object, patch);
                self.show(named, object);
                match subresource {
                    Some(part) => format!("patch {part}"),
                    None => format!("patch {name}"),
                }
            }
            _ => panic!("actors never send GET"),
        }
    }
}

/// Applies a JSON merge patch.
fn merge(object: &mut Value, patch: &Value) {
    let Some(members) = patch.as_object() else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (name, value) in members {
        if value.is_null() {
            object.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut object[name], value);
        }
    }
}
