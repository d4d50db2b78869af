//! An API server of a few verbs over JSON objects, without validation: tests store what a real server would refuse.
//!
//! It compares preconditions, counts resourceVersions, keeps objects with finalizers, and makes a watch event of every
//! change. Tests read and change its objects directly, and make its next requests fail.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use caretaker_machinery::clock::Clock;
use caretaker_machinery::patch::merge;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use jiff::Timestamp;
use serde_json::{Value, json};
use tower_service::Service;

use crate::runtime::call::FailureKind;
use crate::runtime::controller::ObservedChange;
use crate::runtime::kind::{KindCatalog, KindId};
use crate::runtime::record::{ObjectRecord, RecordView, decode};

/// The finalizers that a propagation policy adds.
const POLICY_FINALIZERS: [(&str, &str); 2] =
    [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")];

/// Kind, namespace and name of an object.
pub(crate) type ObjectPlace = (KindId, String, String);

/// Decides whether a request fails: verb and object.
type FaultRule = Box<dyn Fn(&str, &ObjectPlace) -> Option<FailureKind> + Send>;

/// Called with the object of every delete before it is carried out, to assert safety rules.
type DeleteCheck = fn(&ScriptedServer, &ObjectPlace);

/// The state of the server.
pub(crate) struct ScriptedServer {
    pub(crate) catalog: Arc<KindCatalog>,
    pub(crate) objects: BTreeMap<ObjectPlace, Value>,
    /// Verb and name of every request: `patch nightly`.
    pub(crate) log: Vec<String>,
    /// The next request of a verb fails like this.
    pub(crate) faults: VecDeque<(&'static str, ServerFault)>,
    pub(crate) rule: FaultRule,
    pub(crate) delete_check: Option<DeleteCheck>,
    /// Whether a patch changes nothing but the resourceVersion, as an admission webhook could arrange.
    pub(crate) ignores_patches: bool,
    /// The uids of objects that stay after their last finalizer, because they take time to stop.
    pub(crate) graceful: BTreeSet<String>,
    pub(crate) revision: u64,
    /// Kinds whose watches send bookmarks, and the version of the last one.
    pub(crate) bookmarked: BTreeMap<KindId, u64>,
    /// Watch events that were not delivered yet.
    pub(crate) events: BTreeMap<KindId, VecDeque<ObservedChange>>,
    view: RecordView,
    clock: Clock,
}

/// A fault that replaces the proper answer of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerFault {
    /// The request fails like this and changes nothing.
    Fail(FailureKind),
    /// The request is carried out, and its answer is lost.
    LoseAnswer,
}

/// The connection from a client to the server.
#[derive(Clone)]
pub(crate) struct ServerWire(pub(crate) Arc<Mutex<ScriptedServer>>);

/// Status code and body of a response.
type ServerReply = (u16, Value);

// === impl ScriptedServer ===

impl ScriptedServer {
    pub(crate) fn new(catalog: Arc<KindCatalog>, view: RecordView, clock: Clock) -> Self {
        Self {
            catalog,
            objects: BTreeMap::new(),
            log: Vec::new(),
            faults: VecDeque::new(),
            rule: Box::new(|_, _| None),
            delete_check: None,
            ignores_patches: false,
            graceful: BTreeSet::new(),
            revision: 100,
            bookmarked: BTreeMap::new(),
            events: BTreeMap::new(),
            view,
            clock,
        }
    }

    /// Stores an object with a new resourceVersion, whatever its state is.
    pub(crate) fn put(&mut self, kind: KindId, mut object: Value) {
        self.stamp(&mut object);
        let event = ObservedChange::Applied(self.record(kind, &object));
        self.events.entry(kind).or_default().push_back(event);
        self.objects.insert(place(kind, &object), object);
    }

    /// Stores an object with a new resourceVersion. No watch shows it.
    pub(crate) fn put_unseen(&mut self, kind: KindId, mut object: Value) {
        self.stamp(&mut object);
        self.objects.insert(place(kind, &object), object);
    }

    /// Stores an object, or removes it if it is being deleted and nothing keeps it.
    pub(crate) fn store(&mut self, kind: KindId, mut object: Value) -> Value {
        let meta = &object["metadata"];
        let is_kept = meta["deletionTimestamp"].is_null()
            || meta["finalizers"]
                .as_array()
                .is_some_and(|own| !own.is_empty())
            || meta["deletionGracePeriodSeconds"].as_u64() > Some(0)
            || self.graceful.contains(text(&meta["uid"]));
        if is_kept {
            let key = place(kind, &object);
            self.put(kind, object);
            return self.objects[&key].clone();
        }
        self.stamp(&mut object);
        self.objects.remove(&place(kind, &object));
        let event = ObservedChange::Deleted(self.record(kind, &object));
        self.events.entry(kind).or_default().push_back(event);
        object
    }

    /// Removes an object, and a watch shows that.
    pub(crate) fn remove(&mut self, key: &ObjectPlace) {
        let object = self.objects.remove(key).expect("the object is there");
        let event = ObservedChange::Deleted(self.record(key.0, &object));
        self.events.entry(key.0).or_default().push_back(event);
    }

    /// An object as a feed shows it.
    pub(crate) fn record(&self, kind: KindId, object: &Value) -> Arc<ObjectRecord> {
        Arc::new(decode(kind, object.to_string().as_bytes(), self.view).expect("it is an object"))
    }

    fn stamp(&mut self, object: &mut Value) {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
    }

    fn answer(
        &mut self,
        method: &Method,
        path: &str,
        is_strategic: bool,
        body: &Value,
    ) -> ServerReply {
        let Some(mut key) = self.parse(path) else {
            return (404, json!("no such path"));
        };
        let verb = match *method {
            Method::POST => "create",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ if key.2.is_empty() => "list",
            _ => "get",
        };
        if verb == "create" {
            text(&body["metadata"]["name"]).clone_into(&mut key.2);
        }
        self.log.push(format!("{verb} {}", key.2));
        let next = self.faults.front().filter(|(own, _)| *own == verb);
        let fault = next.map(|(_, fault)| *fault);
        if fault.is_some() {
            self.faults.pop_front();
        }
        let rule = (self.rule)(verb, &key).map(ServerFault::Fail);
        match fault.or(rule) {
            Some(ServerFault::Fail(kind)) => failed(kind),
            Some(ServerFault::LoseAnswer) => {
                self.perform(verb, &key, is_strategic, body);
                failed(FailureKind::Unavailable)
            }
            None => self.perform(verb, &key, is_strategic, body),
        }
    }

    fn perform(
        &mut self,
        verb: &str,
        key: &ObjectPlace,
        is_strategic: bool,
        body: &Value,
    ) -> ServerReply {
        if verb == "list" {
            return (200, self.list(key.0));
        }
        let Some(object) = self.objects.get(key).cloned() else {
            if verb == "create" {
                return (201, self.create(key, body.clone()));
            }
            return self.not_found(key);
        };
        let judged = match verb {
            "get" => return (200, object),
            "delete" => &body["preconditions"],
            _ => &body["metadata"],
        };
        let is_judged = |part: &str| judged[part] == object["metadata"][part];
        if verb == "create" || !is_judged("uid") || !is_judged("resourceVersion") {
            return failed(FailureKind::Conflict);
        }
        if verb == "patch" {
            return (200, self.patch(key, object, is_strategic, body));
        }
        if let Some(check) = self.delete_check {
            check(self, key);
        }
        let now = self.clock.now();
        self.delete(key, object, body, now)
    }

    fn list(&self, kind: KindId) -> Value {
        let all = self.objects.iter().filter(|((own, ..), _)| *own == kind);
        let items: Vec<&Value> = all.map(|(_, object)| object).collect();
        let revision = self.revision.to_string();
        json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": revision}, "items": items})
    }

    fn create(&mut self, key: &ObjectPlace, mut object: Value) -> Value {
        let meta = &mut object["metadata"];
        meta["uid"] = format!("uid of {} {}", key.2, self.revision).into();
        meta["creationTimestamp"] = self.clock.now().to_string().into();
        self.put(key.0, object);
        self.objects[key].clone()
    }

    fn patch(
        &mut self,
        key: &ObjectPlace,
        object: Value,
        is_strategic: bool,
        body: &Value,
    ) -> Value {
        let earlier = object["metadata"]["resourceVersion"].clone();
        let mut patched = object;
        if !self.ignores_patches {
            let mut body = body.clone();
            if is_strategic {
                merge_conditions(&patched, &mut body);
            }
            patched = merged(patched, body);
        }
        let mut stored = self.store(key.0, patched);
        if !self.objects.contains_key(key) {
            // The last write of an object is its end, and its answer shows the version before.
            stored["metadata"]["resourceVersion"] = earlier;
        }
        stored
    }

    /// Deletes an object as `DeleteOptions` say.
    pub(crate) fn delete(
        &mut self,
        key: &ObjectPlace,
        mut object: Value,
        options: &Value,
        now: Timestamp,
    ) -> ServerReply {
        let meta = &mut object["metadata"];
        let policy = text(&options["propagationPolicy"]);
        let mut finalizers = meta["finalizers"].as_array().cloned().unwrap_or_default();
        finalizers.retain(|own| POLICY_FINALIZERS.iter().all(|(_, name)| own != name));
        let added = POLICY_FINALIZERS.iter().find(|(name, _)| *name == policy);
        finalizers.extend(added.map(|(_, finalizer)| json!(finalizer)));
        let is_held = !finalizers.is_empty();
        meta["finalizers"] = finalizers.into();
        if meta["deletionTimestamp"].is_null() {
            meta["deletionTimestamp"] = now.to_string().into();
        }
        if options["gracePeriodSeconds"].is_null() {
            let stored = self.store(key.0, object);
            return if is_held {
                (200, stored)
            } else {
                (200, success())
            };
        }
        // A Pod with a grace period is marked first and removed then, in two writes.
        meta["deletionGracePeriodSeconds"] = options["gracePeriodSeconds"].clone();
        self.put(key.0, object);
        let stored = self.objects[key].clone();
        if !is_held {
            self.remove(key);
        }
        (200, stored)
    }

    /// Parses a path like `/apis/batch/v1/namespaces/shop/jobs/report/status`. The name of a collection is empty.
    fn parse(&self, path: &str) -> Option<ObjectPlace> {
        let parts: Vec<String> = path.split('/').skip(1).map(decoded).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (group, rest) = match parts.as_slice() {
            ["api", _, rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let kind = self.catalog.id(group, rest.first()?)?;
        let name = rest.get(1).copied().unwrap_or_default();
        Some((kind, namespace.to_owned(), name.to_owned()))
    }

    fn not_found(&self, key: &ObjectPlace) -> ServerReply {
        let kind = self.catalog.get(key.0).expect("the path names a kind");
        let details = json!({"name": key.2, "group": &*kind.group, "kind": &*kind.resource});
        (404, status(404, "NotFound", &details))
    }
}

// === impl ServerWire ===

impl Service<Request<kube::client::Body>> for ServerWire {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let server = self.0.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body
                .collect()
                .await
                .expect("the body is in memory")
                .to_bytes();
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let media = head.headers.get("content-type");
            let is_strategic =
                media.is_some_and(|media| media == "application/strategic-merge-patch+json");
            let mut server = server.lock().expect("no request panicked");
            let (code, body) = server.answer(&head.method, head.uri.path(), is_strategic, &body);
            let response = Response::builder()
                .status(code)
                .header("content-type", "application/json");
            Ok(response
                .body(Full::from(body.to_string()))
                .expect("it is a response"))
        })
    }
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn place(kind: KindId, object: &Value) -> ObjectPlace {
    let part = |name: &str| text(&object["metadata"][name]).to_owned();
    (kind, part("namespace"), part("name"))
}

/// An object after a JSON merge patch.
pub(crate) fn merged(object: Value, patch: Value) -> Value {
    merge::apply(object, patch).expect("the patch is an object")
}

/// Replaces the conditions of a strategic merge patch by the whole list: entries are merged by their type.
fn merge_conditions(object: &Value, patch: &mut Value) {
    let Some(patched) = patch["status"]["conditions"].as_array().cloned() else {
        return;
    };
    let known = &object["status"]["conditions"];
    let mut conditions = known.as_array().cloned().unwrap_or_default();
    for condition in patched {
        match conditions
            .iter_mut()
            .find(|own| own["type"] == condition["type"])
        {
            Some(own) => *own = merged(own.take(), condition),
            None => conditions.push(condition),
        }
    }
    patch["status"]["conditions"] = conditions.into();
}

fn failed(kind: FailureKind) -> ServerReply {
    let terminating = json!({"causes": [{"reason": "NamespaceTerminating"}]});
    let (code, details) = match kind {
        FailureKind::Conflict => (409, json!({})),
        FailureKind::Forbidden => (403, json!({})),
        FailureKind::NamespaceEnding => (403, terminating),
        FailureKind::NotServed => return (404, json!("no such path")),
        FailureKind::TooManyRequests => (429, json!({})),
        FailureKind::Refused => (400, json!({})),
        // No server sends the second one.
        FailureKind::Unavailable | FailureKind::HeldBack => (500, json!({})),
    };
    (code, status(code, "Failure", &details))
}

fn status(code: u16, reason: &str, details: &Value) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": "no", "details": details})
}

fn success() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Success"})
}

/// Undoes the percent encoding of a path.
fn decoded(part: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits: Vec<u8> = rest.by_ref().take(2).collect();
        let digits = String::from_utf8_lossy(&digits).into_owned();
        bytes.push(u8::from_str_radix(&digits, 16).expect("two digits"));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
