//! The stage of a play: a namespace of its own, a collector, and hands to make, change and delete objects.
//!
//! Nothing is written down here. Every step is an error when the server refuses it, so that a play only says what it
//! is about. Objects in no namespace get the play's name in front of theirs; that is how they are found and removed
//! afterwards, as are definitions of custom kinds and a second namespace.

mod checks;
mod clearing;
mod made;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

pub(super) use self::clearing::{clear, make_namespace};
pub use self::made::{Kind, Made, blocking, owned};

use super::Checked;
use crate::collector::{Collector, Running};
use crate::objects::{
    CONFIG_MAPS, CRDS, NAMESPACES, Resource, Scope, mk_config_map, mk_crd, mk_namespace, with,
};
use crate::session::{Answer, Ask, Session};
use crate::target::{Controllers, Server, Target};

/// Where a play takes place.
pub struct Stage {
    session: Session,
    target: Target,
    collector: Collector,
    /// The collector, once it was started; never locked across an await.
    running: Mutex<Option<Running>>,
    /// The actors, if they were started for this play alone.
    actors: Mutex<Option<Controllers>>,
    /// How many owners were made up, so that each is another.
    made_up: AtomicU32,
}

// === impl Stage ===

impl Stage {
    /// A stage with its namespace made and no collector started.
    pub async fn set(target: &Target, collector: &Collector, ns: String) -> Self {
        let session = Session::new(target.clone(), ns);
        make_namespace(&session).await;
        Self {
            session,
            target: target.clone(),
            collector: collector.clone(),
            running: Mutex::new(None),
            actors: Mutex::new(None),
            made_up: AtomicU32::new(0),
        }
    }

    /// Removes what was made and ends the collector that was started.
    pub async fn strike(self) {
        clear(&self.session).await;
    }

    /// The play's namespace.
    pub fn ns(&self) -> &str {
        self.session.ns()
    }

    /// Starts the collector and waits until it collects.
    pub async fn start_collector(&self) -> Checked {
        let running = self.collector.start(&self.target);
        let running = running.map_err(|error| format!("{error:#}"))?;
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
        self.seen(&CONFIG_MAPS, mk_config_map("c"))
            .await
            .map_err(|why| self.explain(format!("nobody collects: {why}")))
    }

    /// Starts actors for this play alone; a real server has had them from the start.
    pub async fn start_actors(&self) -> Checked {
        if self.is_embedded() {
            let actors = self.target.actors().await;
            let actors = actors.map_err(|error| format!("{error:#}"))?;
            *self.actors.lock().unwrap_or_else(PoisonError::into_inner) = Some(actors);
        }
        Ok(())
    }

    /// `why`, and what is known about the collector that explains it.
    pub fn explain(&self, why: String) -> String {
        match self.still_collected() {
            Ok(()) => why,
            Err(end) => format!("{why}; {end}"),
        }
    }

    /// An error if the collector that was started has ended by itself.
    pub fn still_collected(&self) -> Checked {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running
            .as_mut()
            .and_then(Running::ended)
            .map_or(Ok(()), Err)
    }

    /// Waits until the collector knows all objects of a resource made so far: one more, `like` them, whose owner does
    /// not exist, is collected. Objects of one kind are seen in the order in which they were made.
    pub async fn seen(&self, resource: &Resource, like: Value) -> Checked {
        let mut owner = self.absent();
        if resource.scope() == Scope::Cluster {
            // What lives in no namespace is never collected because of an owner that would live in one.
            owner["kind"] = "PersistentVolume".into();
        }
        let name = format!("canary-of-{}", owner["name"].as_str().unwrap_or_default());
        let like = with(like, json!({"metadata": {"name": name}}));
        let canary = self.make(resource, owned(like, &[owner])).await?;
        self.goes(&[&canary]).await
    }

    /// A reference to a ConfigMap that does not exist, never did and is nobody else's owner.
    pub fn absent(&self) -> Value {
        let number = self.made_up.fetch_add(1, Ordering::Relaxed);
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

    /// Makes an object, in the play's namespace if it lives in one.
    pub async fn make(&self, resource: &Resource, object: Value) -> Checked<Made> {
        self.make_in(self.ns(), resource, object).await
    }

    /// Makes an object in a namespace.
    pub async fn make_in(&self, ns: &str, resource: &Resource, object: Value) -> Checked<Made> {
        let mut object = object;
        if resource.scope() == Scope::Cluster && *resource != CRDS && *resource != NAMESPACES {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            object["metadata"]["name"] = format!("{}-{name}", self.ns()).into();
        }
        let collection = resource.collection(ns);
        let answer = self.send(Ask::post(&collection, &object), &[201]).await?;
        Ok(Made::new(collection, &answer.body))
    }

    /// An object of the play's namespace that somebody else has made.
    pub async fn known(&self, resource: &Resource, name: &str) -> Checked<Made> {
        let collection = resource.collection(self.ns());
        let answer = self
            .send(Ask::get(format!("{collection}/{name}")), &[200])
            .await?;
        Ok(Made::new(collection, &answer.body))
    }

    /// Makes a second namespace.
    pub async fn second_ns(&self) -> Checked<String> {
        let ns = format!("{}-b", self.ns());
        let namespace = mk_namespace(&ns);
        self.make(&NAMESPACES, namespace).await?;
        Ok(ns)
    }

    /// Defines Gadgets, a custom kind of this play's own, with changes to the definition; waits until it is served.
    pub async fn define(&self, changes: Value) -> Checked<Kind> {
        let group = format!("{}.example.com", self.ns());
        let definition = with(mk_crd(&group), changes);
        let kind = Kind::of(&definition, group);
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
        Ok(Kind {
            definition: made,
            ..kind
        })
    }

    /// Defines a kind of Volcano's, unless somebody has, by the least definition that has it: its schema keeps whatever is
    /// written. Waits until it is served.
    pub async fn define_volcano(&self, kind: &str, resource: &Resource) -> Checked {
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

    /// Deletes an object (this very one) with these options; says whether it is being deleted or gone already.
    pub async fn delete(&self, made: &Made, options: Value) -> Checked {
        let options = with(json!({"preconditions": {"uid": made.uid()}}), options);
        let ask = Ask::new(Method::DELETE, made.path()).json(&options);
        self.send(ask, &[200, 202]).await.map(|_| ())
    }

    /// Changes an object with a JSON merge patch.
    pub async fn change(&self, made: &Made, patch: Value) -> Checked {
        let ask = Ask::new(Method::PATCH, made.path()).body(patch.to_string());
        let ask = ask.content_type("application/merge-patch+json");
        self.send(ask, &[200]).await.map(|_| ())
    }

    /// Changes an object's status with a JSON merge patch.
    pub async fn change_status(&self, made: &Made, status: Value) -> Checked {
        let patch = json!({ "status": status }).to_string();
        let ask = Ask::new(Method::PATCH, made.path() + "/status").body(patch);
        let ask = ask.content_type("application/merge-patch+json");
        self.send(ask, &[200]).await.map(|_| ())
    }

    /// The server's time, in whole seconds.
    pub async fn now(&self) -> Checked<Timestamp> {
        let path = format!("{}/{}", NAMESPACES.everywhere(), self.ns());
        let answer = self.send(Ask::get(path), &[200]).await?;
        let date = answer.headers.get("date").map_or("", String::as_str);
        let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date);
        date.map_err(|error| format!("the server does not tell the time: {error}"))
    }

    /// Takes all finalizers off an object.
    pub async fn release(&self, made: &Made) -> Checked {
        self.change(made, json!({"metadata": {"finalizers": null}}))
            .await
    }

    /// The object as it is, unless it, with this uid, does not exist any more.
    pub async fn look(&self, made: &Made) -> Checked<Option<Value>> {
        let answer = self.send(Ask::get(made.path()), &[200, 404]).await?;
        Ok((answer.status == 200 && answer.uid() == made.uid()).then_some(answer.body))
    }

    /// All objects of a resource in the play's namespace.
    pub async fn list(&self, resource: &Resource) -> Checked<Vec<Value>> {
        self.items(&resource.collection(self.ns())).await
    }

    async fn items(&self, collection: &str) -> Checked<Vec<Value>> {
        let list = self.send(Ask::get(collection), &[200]).await?;
        Ok(list.body["items"].as_array().cloned().unwrap_or_default())
    }

    fn is_embedded(&self) -> bool {
        self.target.server() == Server::Embedded
    }

    /// Sends a request; any other status than those meant is an error that says what was answered.
    pub async fn send(&self, ask: Ask, meant: &[u16]) -> Checked<Answer> {
        let line = ask.line();
        let answer = self.session.quietly(ask).await;
        if meant.contains(&answer.status) {
            return Ok(answer);
        }
        let said = answer.body["message"]
            .as_str()
            .map_or_else(|| answer.body.to_string(), ToOwned::to_owned);
        Err(format!("{line} was answered {}: {said}", answer.status))
    }
}
