//! The recording client of a case: raw requests out, answers recorded.
//!
//! A `Session` belongs to the case that runs. Every exchange is recorded as JSON: the request line, the status, the
//! headers that matter and the body, all as they were; making them comparable is `normalise`'s work. Nothing here
//! decides whether an answer is right: a case only asks, the comparison with the real server's answers judges.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use kube::Client;
use kube::client::Body;
use serde_json::{Map, Value, json};

use crate::objects::Resource;
use crate::target::{Server, Target};

/// Longest wait for one answer; the slowest answer asked for on purpose takes 3 s.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Longest wait for something the server does on its own, such as establishing a CRD.
const UNTIL_MAX: Duration = Duration::from_secs(20);
/// Pause between two looks while waiting.
const UNTIL_STEP: Duration = Duration::from_millis(50);
/// Response headers that are part of an answer. A Content-Type of plain JSON is not written down.
const RECORDED: &[&str] = &["content-type", "warning", "retry-after", "location"];

/// Fields of Pod templates and Services that the server fills in. Cases about other things leave them out.
const DEFAULTED: &[&str] = &[
    "clusterIPs",
    "dnsPolicy",
    "imagePullPolicy",
    "internalTrafficPolicy",
    "ipFamilies",
    "ipFamilyPolicy",
    "progressDeadlineSeconds",
    "resources",
    "restartPolicy",
    "revisionHistoryLimit",
    "schedulerName",
    "securityContext",
    "sessionAffinity",
    "terminationGracePeriodSeconds",
    "terminationMessagePath",
    "terminationMessagePolicy",
];

/// A conversation and its record.
pub struct Session {
    target: Target,
    ns: String,
    transcript: Vec<Value>,
    note: Option<&'static str>,
    hidden: &'static [&'static str],
    defaults: DefaultsView,
}

/// Whether defaulted fields of specs are written down.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DefaultsView {
    Shown,
    Hidden,
}

/// One request, as raw as it gets.
pub struct Ask {
    method: Method,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Bytes,
    token: AskToken,
    shown: &'static [&'static str],
    view: Option<fn(&Value) -> Value>,
}

/// Whose token a request carries.
enum AskToken {
    Admin,
    Other(Option<String>),
}

/// One answer, for the case's own use.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// HTTP status; 0 if none came.
    pub status: u16,
    /// Header values by lower-case name; several values of one name are joined by a line feed.
    pub headers: BTreeMap<String, String>,
    /// The body: JSON as such, anything else as a string, nothing as null.
    pub body: Value,
}

// === impl Session ===

impl Session {
    /// A conversation with `target` in the namespace `ns`, which the caller has made.
    pub fn new(target: Target, ns: String) -> Self {
        Self {
            target,
            ns,
            transcript: Vec::new(),
            note: None,
            hidden: &[],
            defaults: DefaultsView::Shown,
        }
    }

    /// The case's own namespace.
    pub fn ns(&self) -> &str {
        &self.ns
    }

    /// The kind of server this is spoken to.
    pub fn server(&self) -> Server {
        self.target.server()
    }

    /// What was written down, as it was.
    pub fn into_transcript(self) -> Vec<Value> {
        self.transcript
    }

    /// The path of `resource`'s collection, in the case's namespace if it lives in one.
    pub fn path(&self, resource: &Resource) -> String {
        resource.collection(&self.ns)
    }

    /// A word about the next exchange, for the reader of the transcript; none if it is empty.
    pub fn note(&mut self, note: &'static str) -> &mut Self {
        self.note = Some(note).filter(|note| !note.is_empty());
        self
    }

    /// POST to the collection.
    pub async fn post(&mut self, resource: &Resource, body: Value) -> Answer {
        self.post_with(resource, "", body).await
    }

    /// POST to the collection with a query.
    pub async fn post_with(&mut self, resource: &Resource, query: &str, body: Value) -> Answer {
        let path = with_query(self.path(resource), query);
        self.ask(Ask::post(path, &body)).await
    }

    /// GET of one object; `name` may carry a subresource and a query.
    pub async fn get(&mut self, resource: &Resource, name: &str) -> Answer {
        let path = self.item(resource, name);
        self.ask(Ask::get(path)).await
    }

    /// GET of any path.
    pub async fn get_path(&mut self, path: impl Into<String>) -> Answer {
        self.ask(Ask::get(path)).await
    }

    /// GET of the collection with a query.
    pub async fn list(&mut self, resource: &Resource, query: &str) -> Answer {
        let path = with_query(self.path(resource), query);
        self.ask(Ask::get(path)).await
    }

    /// PUT of one object; `name` may carry a subresource and a query.
    pub async fn put(&mut self, resource: &Resource, name: &str, body: Value) -> Answer {
        let path = self.item(resource, name);
        self.ask(Ask::put(path, &body)).await
    }

    /// PATCH with a JSON merge patch.
    pub async fn merge_patch(&mut self, resource: &Resource, name: &str, patch: Value) -> Answer {
        self.patch(resource, name, "merge-patch", patch).await
    }

    /// PATCH with a JSON patch.
    pub async fn json_patch(&mut self, resource: &Resource, name: &str, patch: Value) -> Answer {
        self.patch(resource, name, "json-patch", patch).await
    }

    /// PATCH with a strategic merge patch.
    pub async fn strategic_patch(
        &mut self,
        resource: &Resource,
        name: &str,
        patch: Value,
    ) -> Answer {
        self.patch(resource, name, "strategic-merge-patch", patch)
            .await
    }

    async fn patch(&mut self, resource: &Resource, name: &str, form: &str, patch: Value) -> Answer {
        let path = self.item(resource, name);
        let ask = Ask::new(Method::PATCH, path).body(patch.to_string());
        self.ask(ask.content_type(&format!("application/{form}+json")))
            .await
    }

    /// DELETE of one object without a body; `name` may carry a query.
    pub async fn delete(&mut self, resource: &Resource, name: &str) -> Answer {
        let path = self.item(resource, name);
        self.ask(Ask::new(Method::DELETE, path)).await
    }

    /// DELETE of one object with DeleteOptions.
    pub async fn delete_with(&mut self, resource: &Resource, name: &str, options: Value) -> Answer {
        let path = self.item(resource, name);
        self.ask(Ask::new(Method::DELETE, path).json(&options))
            .await
    }

    /// DELETE of the collection, with a query and DeleteOptions.
    pub async fn delete_all(&mut self, resource: &Resource, query: &str, options: Value) -> Answer {
        let path = with_query(self.path(resource), query);
        self.ask(Ask::new(Method::DELETE, path).json(&options))
            .await
    }

    /// The path of one object; `name` may carry a subresource and a query.
    pub fn item(&self, resource: &Resource, name: &str) -> String {
        format!("{}/{name}", self.path(resource))
    }

    /// Sends any request and writes the exchange down.
    pub async fn ask(&mut self, ask: Ask) -> Answer {
        let mut record = self.opened(&ask);
        let (shown, view) = (ask.shown, ask.view);
        let answer = self.quietly(ask).await;
        record.insert("status".into(), answer.status.into());
        let headers = recorded_headers(&answer, shown);
        if !headers.is_empty() {
            record.insert("headers".into(), headers.into());
        }
        let body = view.map_or_else(|| answer.body.clone(), |view| view(&answer.body));
        if !body.is_null() {
            record.insert("body".into(), self.shown(body));
        }
        self.transcript.push(record.into());
        answer
    }

    /// Sends any request without writing it down.
    pub async fn quietly(&self, ask: Ask) -> Answer {
        let Some(client) = self.client(&ask.token) else {
            return Answer::failed("no client without a token");
        };
        let sent = async {
            let response = client.send(ask.into_request()?).await?;
            let (parts, body) = response.into_parts();
            let bytes = body.collect_bytes().await?;
            anyhow::Ok(Answer::read(parts.status.as_u16(), &parts.headers, &bytes))
        };
        match tokio::time::timeout(ANSWER_MAX, sent).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => Answer::failed(&format!("{error:#}")),
            Err(_) => Answer::failed("no answer"),
        }
    }

    /// Waits until reads that may be stale (resourceVersion 0) see what was written: a fresh read does that on any server.
    pub async fn settle(&self, resource: &Resource) {
        self.quietly(Ask::get(self.path(resource))).await;
    }

    /// Looks at `path`, without writing it down, until `ready` says yes or patience ends.
    pub async fn until(&mut self, path: &str, ready: fn(&Answer) -> bool) {
        self.until_answer(path, || Ask::get(path), ready).await;
    }

    /// Sends the requests of `ask`, without writing them down, until `ready` accepts an answer or patience ends.
    pub async fn until_answer(
        &mut self,
        what: &str,
        mut ask: impl FnMut() -> Ask,
        ready: impl Fn(&Answer) -> bool,
    ) {
        let looking = async {
            while !ready(&self.quietly(ask()).await) {
                tokio::time::sleep(UNTIL_STEP).await;
            }
        };
        if tokio::time::timeout(UNTIL_MAX, looking).await.is_err() {
            self.transcript
                .push(json!({"error": format!("{what} never became what was waited for")}));
        }
    }

    /// From now on these parts of objects are not written down: `spec` and `status`, where a case is not about them.
    pub fn hide(&mut self, parts: &'static [&'static str]) {
        self.hidden = parts;
    }

    /// From now on the fields that Kubernetes fills into specs are not written down.
    pub fn hide_defaults(&mut self) {
        self.defaults = DefaultsView::Hidden;
    }

    fn shown(&self, value: Value) -> Value {
        let value = without(value, self.hidden);
        if self.defaults == DefaultsView::Hidden {
            undefaulted(value)
        } else {
            value
        }
    }

    /// Writes events of a watch down.
    pub(crate) fn record_events(&mut self, request: &str, events: &[Value], then: &str) {
        let events: Vec<Value> = events
            .iter()
            .map(|event| self.shown(event.clone()))
            .collect();
        self.transcript
            .push(json!({"read": request, "events": events, "then": then}));
    }

    /// Writes an entry down as it is.
    pub(crate) fn record(&mut self, entry: Value) {
        self.transcript.push(entry);
    }

    /// The beginning of a record: the request line and what is remarkable about the request.
    pub(crate) fn opened(&mut self, ask: &Ask) -> Map<String, Value> {
        let mut record = Map::new();
        if let Some(note) = self.note.take() {
            record.insert("note".into(), note.into());
        }
        record.insert("request".into(), ask.line().into());
        for (name, value) in &ask.headers {
            if *name != "content-type" || value != "application/json" {
                record.insert((*name).into(), value.clone().into());
            }
        }
        record
    }

    fn client(&self, token: &AskToken) -> Option<Client> {
        match token {
            AskToken::Admin => Some(self.target.client().clone()),
            AskToken::Other(_) => self.target.stranger(),
        }
    }

    /// The all-powerful client.
    pub(crate) fn admin(&self) -> Client {
        self.target.client().clone()
    }
}

// === impl Ask ===

impl Ask {
    /// A request without headers and body.
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            headers: Vec::new(),
            body: Bytes::new(),
            token: AskToken::Admin,
            shown: &[],
            view: None,
        }
    }

    /// A request with a body of this Content-Type.
    pub fn with_body(
        method: Method,
        path: impl Into<String>,
        content_type: &str,
        body: impl Into<Bytes>,
    ) -> Self {
        Self::new(method, path)
            .body(body)
            .content_type(content_type)
    }

    pub fn merge_patch(path: impl Into<String>, patch: &Value) -> Self {
        let content_type = "application/merge-patch+json";
        Self::with_body(Method::PATCH, path, content_type, patch.to_string())
    }

    pub fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    /// A POST of JSON.
    pub fn post(path: impl Into<String>, body: &Value) -> Self {
        Self::new(Method::POST, path).json(body)
    }

    /// A PUT of JSON.
    pub fn put(path: impl Into<String>, body: &Value) -> Self {
        Self::new(Method::PUT, path).json(body)
    }

    /// With this body as JSON.
    pub fn json(self, body: &Value) -> Self {
        self.body(body.to_string()).content_type("application/json")
    }

    /// With these bytes as its body.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// With this Content-Type.
    pub fn content_type(self, value: &str) -> Self {
        self.header("content-type", value)
    }

    /// With this Accept.
    pub fn accept(self, value: &str) -> Self {
        self.header("accept", value)
    }

    /// With this header; it replaces an earlier one of the same name.
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.retain(|(n, _)| *n != name);
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Without any token.
    pub fn anonymous(mut self) -> Self {
        self.token = AskToken::Other(None);
        self
    }

    /// With a token that was never issued.
    pub fn forged(mut self) -> Self {
        self.token = AskToken::Other(Some("forged".to_owned()));
        self
    }

    /// With this token; it is not written down.
    pub fn bearer(mut self, token: &str) -> Self {
        self.token = AskToken::Other(Some(token.to_owned()));
        self
    }

    /// Writes these response headers down as well.
    pub fn showing(mut self, headers: &'static [&'static str]) -> Self {
        self.shown = headers;
        self
    }

    /// Writes down only what `view` makes of the body: for documents that are too large to keep.
    pub fn viewed(mut self, view: fn(&Value) -> Value) -> Self {
        self.view = Some(view);
        self
    }

    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    pub(crate) fn into_request(self) -> Result<Request<Body>, http::Error> {
        let mut builder = Request::builder().method(self.method).uri(self.path);
        for (name, value) in self.headers {
            builder = builder.header(name, value);
        }
        if let AskToken::Other(Some(token)) = self.token {
            builder = builder.header("authorization", format!("Bearer {token}"));
        }
        builder.body(Body::from(self.body))
    }
}

// === impl Answer ===

impl Answer {
    pub(crate) fn read(status: u16, headers: &HeaderMap, bytes: &[u8]) -> Self {
        let mut kept: BTreeMap<String, String> = BTreeMap::new();
        for (name, value) in headers {
            let value = String::from_utf8_lossy(value.as_bytes());
            kept.entry(name.as_str().to_owned())
                .and_modify(|all| *all = format!("{all}\n{value}"))
                .or_insert_with(|| value.into_owned());
        }
        let body = match serde_json::from_slice(bytes) {
            Ok(value) => value,
            Err(_) if bytes.is_empty() => Value::Null,
            Err(_) => String::from_utf8_lossy(bytes).into_owned().into(),
        };
        Self {
            status,
            headers: kept,
            body,
        }
    }

    pub(crate) fn failed(why: &str) -> Self {
        Self {
            body: json!({ "error": why }),
            ..Self::default()
        }
    }

    /// The object's resourceVersion, or that of the list.
    pub fn rv(&self) -> &str {
        self.body["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default()
    }

    /// The object's uid.
    pub fn uid(&self) -> &str {
        self.body["metadata"]["uid"].as_str().unwrap_or_default()
    }

    /// A query for the page after this one; `query` comes first and ends with `&` unless it is empty.
    pub fn after(&self, query: &str) -> String {
        format!("{query}continue={}", self.token())
    }

    /// The list's continue token.
    pub fn token(&self) -> &str {
        self.body["metadata"]["continue"]
            .as_str()
            .unwrap_or_default()
    }
}

fn with_query(path: String, query: &str) -> String {
    if query.is_empty() {
        path
    } else {
        format!("{path}?{query}")
    }
}

/// The headers of an answer that are written down.
pub(crate) fn recorded_headers(answer: &Answer, shown: &[&str]) -> Map<String, Value> {
    let mut headers = Map::new();
    for name in RECORDED.iter().chain(shown) {
        let Some(value) = answer.headers.get(*name) else {
            continue;
        };
        if *name == "content-type" && value == "application/json" {
            continue;
        }
        headers.insert((*name).into(), value.clone().into());
    }
    headers
}

/// `value` without the hidden parts: of an object, of a list's items, of an event's object.
fn without(mut value: Value, hidden: &[&str]) -> Value {
    if hidden.is_empty() {
        return value;
    }
    if let Some(items) = value.get_mut("items").and_then(Value::as_array_mut) {
        for item in items {
            *item = without(item.take(), hidden);
        }
    } else if let Some(object) = value.get_mut("object") {
        *object = without(object.take(), hidden);
    } else if value["kind"] != "Status"
        && let Some(map) = value.as_object_mut()
    {
        map.retain(|key, _| !hidden.contains(&key.as_str()));
    }
    value
}

fn undefaulted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map
                .into_iter()
                .filter(|(key, _)| !DEFAULTED.contains(&key.as_str()));
            kept.map(|(key, value)| (key, undefaulted(value))).collect()
        }
        Value::Array(items) => items.into_iter().map(undefaulted).collect(),
        other => other,
    }
}
