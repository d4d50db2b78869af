//! The environment of a case: a server, a namespace, controllers, and requests to create, change and delete objects.
//!
//! A request that the server refuses is an error, so a case states only its own expectations. Objects without a namespace
//! get the case's namespace as a prefix of their name; [`cleanup`] finds them by it, and likewise CustomResourceDefinitions
//! and the second namespace. `conditions` holds the checks, `recording` what crash and chaos runs add: wires that record
//! every request, and the server's history.

pub(crate) mod cleanup;
mod conditions;
mod recording;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

pub use self::recording::ProcessFaults;

use self::recording::RequestRecording;
use crate::case::CheckResult;
use crate::controllers::{ControllerSource, StartedControllers};
use crate::fixtures::{CreatedObject, CustomKind, owned};
use crate::objects::{
    CONFIG_MAPS, CRDS, NAMESPACES, Resource, Scope, mk_config_map, mk_crd, mk_namespace, with,
};
use crate::session::{Answer, Ask, Session};
use crate::target::{InProcessControllers, Server, Target};

/// Everything one case works with. Dropping it ends the controllers that it started.
pub struct Environment {
    /// The users' requests.
    session: Session,
    /// The server, as the controllers reach it.
    target: Target,
    source: ControllerSource,
    /// The controllers, once they were started; never locked across an await.
    started: Mutex<Option<StartedControllers>>,
    /// The actors, if they were started for this case alone.
    actors: Mutex<Option<InProcessControllers>>,
    /// Number of absent owners handed out, so that each differs from the others.
    absent_owners: AtomicU32,
    recording: RequestRecording,
}

// === impl Environment ===

impl Environment {
    /// Creates the namespace; starts nothing.
    pub async fn new(target: &Target, source: &ControllerSource, ns: String) -> Self {
        let session = Session::new(target.clone(), ns);
        Self::with_session(session, target, source).await
    }

    async fn with_session(session: Session, target: &Target, source: &ControllerSource) -> Self {
        cleanup::create_namespace(&session).await;
        Self {
            session,
            target: target.clone(),
            source: source.clone(),
            started: Mutex::new(None),
            actors: Mutex::new(None),
            absent_owners: AtomicU32::new(0),
            recording: RequestRecording::default(),
        }
    }

    /// Deletes what was created and ends the controllers that were started.
    pub async fn clean_up(self) {
        cleanup::clean_up(&self.session).await;
    }

    pub fn ns(&self) -> &str {
        self.session.ns()
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Starts the controllers and waits until the garbage collector among them works.
    pub async fn start_controllers(&self) -> CheckResult {
        let started = self.source.start(&self.target);
        let started = started.map_err(|error| format!("{error:#}"))?;
        *self.started.lock().unwrap_or_else(PoisonError::into_inner) = Some(started);
        self.seen(&CONFIG_MAPS, mk_config_map("c"))
            .await
            .map_err(|why| self.explain(format!("the garbage collector does not work: {why}")))
    }

    /// Starts actors for this case alone; on a real server all cases share those that the runner started.
    pub async fn start_actors(&self) -> CheckResult {
        if self.is_embedded() {
            let actors = self.target.actors().await;
            let actors = actors.map_err(|error| format!("{error:#}"))?;
            *self.actors.lock().unwrap_or_else(PoisonError::into_inner) = Some(actors);
        }
        Ok(())
    }

    /// Adds to `why` that the controllers have ended, if they have.
    pub fn explain(&self, why: String) -> String {
        match self.check_running() {
            Ok(()) => why,
            Err(end) => format!("{why}; {end}"),
        }
    }

    /// Fails if the controllers that were started have ended by themselves.
    pub fn check_running(&self) -> CheckResult {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        started
            .as_mut()
            .and_then(StartedControllers::ended)
            .map_or(Ok(()), Err)
    }

    /// Waits until the garbage collector has observed all objects of a resource: a canary `like` them, whose owner does
    /// not exist, is collected. The collector observes objects of one kind in the order of their creation.
    pub async fn seen(&self, resource: &Resource, like: Value) -> CheckResult {
        let mut owner = self.absent();
        if resource.scope() == Scope::Cluster {
            // A cluster-scoped object is never collected for a namespaced owner.
            owner["kind"] = "PersistentVolume".into();
        }
        let name = format!("canary-of-{}", owner["name"].as_str().unwrap_or_default());
        let like = with(like, json!({"metadata": {"name": name}}));
        let canary = self.make(resource, owned(like, &[owner])).await?;
        self.goes(&[&canary]).await
    }

    /// A reference to a ConfigMap that never existed; every call returns another one.
    pub fn absent(&self) -> Value {
        let number = self.absent_owners.fetch_add(1, Ordering::Relaxed);
        let mut hasher = DefaultHasher::new();
        (self.ns(), number).hash(&mut hasher);
        let hash = hasher.finish();
        let uid = format!(
            "{:08x}-{:04x}-4000-8000-{:012x}",
            hash >> 32,
            hash & 0xffff,
            hash >> 16
        );
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": format!("absent-{number}"), "uid": uid})
    }

    /// Creates an object; a namespaced one in the case's namespace.
    pub async fn make(&self, resource: &Resource, object: Value) -> CheckResult<CreatedObject> {
        self.make_in(self.ns(), resource, object).await
    }

    pub async fn make_in(
        &self,
        ns: &str,
        resource: &Resource,
        object: Value,
    ) -> CheckResult<CreatedObject> {
        let mut object = object;
        if resource.scope() == Scope::Cluster && *resource != CRDS && *resource != NAMESPACES {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            object["metadata"]["name"] = format!("{}-{name}", self.ns()).into();
        }
        let collection = resource.collection(ns);
        let answer = self.send(Ask::post(&collection, &object), &[201]).await?;
        Ok(CreatedObject::new(collection, &answer.body))
    }

    /// An object of the case's namespace that a controller or an actor has created.
    pub async fn known(&self, resource: &Resource, name: &str) -> CheckResult<CreatedObject> {
        let collection = resource.collection(self.ns());
        let answer = self
            .send(Ask::get(format!("{collection}/{name}")), &[200])
            .await?;
        Ok(CreatedObject::new(collection, &answer.body))
    }

    /// Creates a second namespace and returns its name.
    pub async fn second_ns(&self) -> CheckResult<String> {
        let ns = format!("{}-b", self.ns());
        let namespace = mk_namespace(&ns);
        self.make(&NAMESPACES, namespace).await?;
        Ok(ns)
    }

    /// Defines Gadgets, a custom kind of this case's own, with changes to the definition; waits until it is served.
    pub async fn define(&self, changes: Value) -> CheckResult<CustomKind> {
        let group = format!("{}.example.com", self.ns());
        let definition = with(mk_crd(&group), changes);
        let kind = CustomKind::of(&definition, group);
        let made = self.make(&CRDS, definition).await?;
        let path = kind.resource.everywhere();
        self.until(async || {
            let definition = self.look(&made).await?.unwrap_or_default();
            let mut conditions = definition["status"]["conditions"]
                .as_array()
                .into_iter()
                .flatten();
            if !conditions.any(|c| c["type"] == "Established" && c["status"] == "True") {
                return Err(format!("{} is not established", made.name()));
            }
            self.send(Ask::get(&path), &[200]).await.map(|_| ())
        })
        .await?;
        Ok(CustomKind {
            definition: made,
            ..kind
        })
    }

    /// Defines a kind of Volcano with a schema that keeps every field, unless it is defined already; waits until it is
    /// served.
    pub async fn define_volcano(&self, kind: &str, resource: &Resource) -> CheckResult {
        let (group, plural) = resource.name();
        let singular = kind.to_lowercase();
        let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let version = json!({"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": free}});
        let names = json!({"plural": plural, "singular": singular, "kind": kind});
        let definition = with(
            mk_crd(group),
            json!({"metadata": {"name": format!("{plural}.{group}")}, "spec": {"names": names, "versions": [version]}}),
        );
        let post = Ask::post(CRDS.everywhere(), &definition);
        self.send(post, &[201, 409]).await?;
        let served = async || {
            let list = Ask::get(resource.everywhere());
            self.send(list, &[200]).await.map(|_| ())
        };
        self.until(served).await
    }

    /// Deletes an object, with its uid as a precondition.
    pub async fn delete(&self, made: &CreatedObject, options: Value) -> CheckResult {
        let options = with(json!({"preconditions": {"uid": made.uid()}}), options);
        let ask = Ask::new(Method::DELETE, made.path()).json(&options);
        self.send(ask, &[200, 202]).await.map(|_| ())
    }

    /// Applies a JSON merge patch.
    pub async fn change(&self, made: &CreatedObject, patch: Value) -> CheckResult {
        let ask = Ask::merge_patch(made.path(), &patch);
        self.send(ask, &[200]).await.map(|_| ())
    }

    /// Applies a JSON merge patch to the status.
    pub async fn change_status(&self, made: &CreatedObject, status: Value) -> CheckResult {
        let ask = Ask::merge_patch(made.path() + "/status", &json!({ "status": status }));
        self.send(ask, &[200]).await.map(|_| ())
    }

    /// The server's time by its `Date` header, in whole seconds.
    pub async fn now(&self) -> CheckResult<Timestamp> {
        let path = format!("{}/{}", NAMESPACES.everywhere(), self.ns());
        let answer = self.send(Ask::get(path), &[200]).await?;
        let date = answer.headers.get("date").map_or("", String::as_str);
        let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date);
        date.map_err(|error| format!("the server sends no Date header: {error}"))
    }

    /// Removes all finalizers.
    pub async fn release(&self, made: &CreatedObject) -> CheckResult {
        self.change(made, json!({"metadata": {"finalizers": null}}))
            .await
    }

    /// The object's current state; `None` if no object with this uid exists.
    pub async fn look(&self, made: &CreatedObject) -> CheckResult<Option<Value>> {
        let answer = self.send(Ask::get(made.path()), &[200, 404]).await?;
        Ok((answer.status == 200 && answer.uid() == made.uid()).then_some(answer.body))
    }

    /// All objects of a resource in the case's namespace.
    pub async fn list(&self, resource: &Resource) -> CheckResult<Vec<Value>> {
        self.items(&resource.collection(self.ns())).await
    }

    async fn items(&self, collection: &str) -> CheckResult<Vec<Value>> {
        let list = self.send(Ask::get(collection), &[200]).await?;
        Ok(list.body["items"].as_array().cloned().unwrap_or_default())
    }

    fn is_embedded(&self) -> bool {
        self.target.server() == Server::Embedded
    }

    /// Sends a request; a status that is not `expected` is an error with the server's message.
    pub async fn send(&self, ask: Ask, expected: &[u16]) -> CheckResult<Answer> {
        let line = ask.line();
        let answer = self.session.quietly(ask).await;
        if expected.contains(&answer.status) {
            return Ok(answer);
        }
        let message = answer.body["message"]
            .as_str()
            .map_or_else(|| answer.body.to_string(), ToOwned::to_owned);
        Err(format!("{line} was answered {}: {message}", answer.status))
    }
}
