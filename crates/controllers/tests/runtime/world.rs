//! An embedded server whose replies can be replaced, and a recorder of the changes that feeds send.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use caretaker_apiserver::{ApiServer, ApiService, UserIdentity};
use caretaker_controllers::runtime::controller::ObservedChange;
use caretaker_controllers::runtime::feed_set::{FeedSet, FeedSetOptions, KindInterest};
use caretaker_controllers::runtime::kind::{KindCatalog, KindId, KindState};
use caretaker_controllers::runtime::record::{ObjectRecord, RecordBody, RecordView};
use caretaker_machinery::clock::{Clock, REAL_TIME};
use caretaker_machinery::rng::Rng;
use futures::{Stream, StreamExt as _};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tower_service::Service;

pub(crate) const START: &str = "2026-03-01T12:00:00Z";

type BoxBody = UnsyncBoxBody<Bytes, std::io::Error>;
type ReplyRule = Box<dyn FnMut(&str) -> Option<FakeReply> + Send>;

/// A server, its clock, and feeds on it.
pub(crate) struct FeedWorld {
    pub(crate) feeds: FeedSet,
    service: ApiService,
    wire: Arc<Mutex<FeedWire>>,
    began: Instant,
}

/// The connection between the feeds and the server.
#[derive(Default)]
struct FeedWire {
    /// The first rule with a reply decides.
    rules: BTreeMap<&'static str, ReplyRule>,
    /// The path and query of each request.
    asked: Vec<String>,
    /// The path and query of each request that the server answered, the status and the content type.
    answered: Vec<(String, u16, String)>,
}

/// A reply that replaces the server's.
pub(crate) enum FakeReply {
    /// A reply with a status and a text.
    Text(u16, String),
    /// Status 429 with this `Retry-After`, and noon of 2026-03-01 as the server's time.
    Busy(&'static str),
    /// Status 200 and these lines, then this end.
    Lines(Vec<String>, StreamEnd),
    /// There is never a reply.
    Silence,
    /// The task that sends the request panics.
    Crash,
    /// The server's reply to this `Accept`.
    Accept(&'static str),
    /// The server's reply, changed by this function.
    Altered(fn(Value) -> Value),
}

/// How a stream ends.
#[derive(Clone, Copy)]
pub(crate) enum StreamEnd {
    /// The stream stays open and silent.
    Hang,
    /// The stream ends properly after this time.
    End(Duration),
    /// The connection breaks.
    Break,
}

/// The service of the feeds' client.
#[derive(Clone)]
struct FaultyService {
    inner: ApiService,
    wire: Arc<Mutex<FeedWire>>,
}

/// A subscriber that records its changes as short texts.
pub(crate) struct ChangeRecorder {
    receiver: mpsc::Receiver<ObservedChange>,
    pub(crate) catalog: Arc<KindCatalog>,
    pub(crate) changes: Vec<String>,
    pub(crate) records: Vec<Arc<ObjectRecord>>,
    names: BTreeMap<String, String>,
    /// The names of all kinds so far, also of those that are gone.
    kinds: BTreeMap<KindId, String>,
}

// === impl FeedWorld ===

impl FeedWorld {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// A world in which some replies are replaced from the start.
    pub(crate) fn with(prepare: impl FnOnce(&Self)) -> Self {
        let clock = Clock::driven(START.parse().unwrap(), REAL_TIME);
        let server = ApiServer::ephemeral(clock.clone(), Rng::seeded(1));
        let service = server.service(UserIdentity::admin());
        let wire = Arc::new(Mutex::new(FeedWire::default()));
        let faulty = FaultyService {
            inner: service.clone(),
            wire: wire.clone(),
        };
        let client = kube::Client::new(faulty, "default");
        // Feeds send no request before the first await.
        let options = FeedSetOptions::default();
        let world = Self {
            feeds: FeedSet::start(client, clock, Rng::seeded(2), options),
            service,
            wire,
            began: Instant::now(),
        };
        prepare(&world);
        world
    }

    /// Virtual time since the beginning.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Replaces the replies of requests for which `answer` returns one. Replaces a rule of the same name.
    pub(crate) fn rule(
        &self,
        name: &'static str,
        answer: impl FnMut(&str) -> Option<FakeReply> + Send + 'static,
    ) {
        self.wire
            .lock()
            .unwrap()
            .rules
            .insert(name, Box::new(answer));
    }

    pub(crate) fn lift(&self, name: &'static str) {
        self.wire.lock().unwrap().rules.remove(name);
    }

    /// The requests since the last call whose path and query contain `part`.
    pub(crate) fn asked(&self, part: &str) -> Vec<String> {
        let mut wire = self.wire.lock().unwrap();
        let (asked, others) = wire.asked.drain(..).partition(|uri| uri.contains(part));
        wire.asked = others;
        asked
    }

    /// The statuses of the server's own replies to requests for `uri` so far.
    pub(crate) fn statuses(&self, uri: &str) -> Vec<u16> {
        let wire = self.wire.lock().unwrap();
        let answered = wire.answered.iter().filter(|(asked, ..)| asked == uri);
        answered.map(|(_, status, _)| *status).collect()
    }

    /// The content types of the server's own replies to requests with `part` in their path or query so far.
    pub(crate) fn media_types(&self, part: &str) -> Vec<String> {
        let wire = self.wire.lock().unwrap();
        let answered = wire.answered.iter().filter(|(uri, ..)| uri.contains(part));
        answered
            .map(|(.., media_type)| media_type.clone())
            .collect()
    }

    pub(crate) fn everything(&self) -> ChangeRecorder {
        let events = ["", "events.k8s.io"].map(|group| ("events".into(), group.into()));
        self.subscribe(KindInterest::Deletable {
            ignored: events.into(),
        })
    }

    pub(crate) fn kinds(&self, kinds: &[(&str, &str)], view: RecordView) -> ChangeRecorder {
        let kinds = kinds
            .iter()
            .map(|&(group, resource)| (group.into(), resource.into()));
        self.subscribe(KindInterest::Kinds {
            kinds: kinds.collect(),
            view,
        })
    }

    pub(crate) fn config_maps(&self) -> ChangeRecorder {
        self.kinds(&[("", "configmaps")], RecordView::Metadata)
    }

    fn subscribe(&self, interest: KindInterest) -> ChangeRecorder {
        ChangeRecorder {
            receiver: self.feeds.subscribe(interest),
            catalog: Arc::default(),
            changes: Vec::new(),
            records: Vec::new(),
            names: BTreeMap::new(),
            kinds: BTreeMap::new(),
        }
    }

    /// Sends a request to the server directly. It must succeed.
    pub(crate) async fn must(&self, method: &str, path: &str, body: Value) -> Value {
        let content_type = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .body(Full::<Bytes>::from(body))
            .unwrap();
        let response = self.service.clone().call(request).await.unwrap();
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes);
        assert!(status.is_success(), "{method} {path}: {status} {text}");
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Creates an empty ConfigMap.
    pub(crate) async fn create(&self, name: &str) {
        let object = serde_json::json!({"metadata": {"name": name}});
        self.must("POST", "/api/v1/namespaces/default/configmaps", object)
            .await;
    }

    pub(crate) async fn delete(&self, name: &str) {
        let path = format!("/api/v1/namespaces/default/configmaps/{name}");
        self.must("DELETE", &path, Value::Null).await;
    }

    /// The state of a kind, if it is watched.
    pub(crate) fn state(&self, group: &str, resource: &str) -> Option<KindState> {
        let id = self.feeds.catalog().borrow().id(group, resource)?;
        let states = self.feeds.states();
        states
            .iter()
            .find(|(kind, _)| *kind == id)
            .map(|(_, state)| *state)
    }
}

// === impl FaultyService ===

impl Service<Request<kube::client::Body>> for FaultyService {
    type Response = Response<BoxBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<kube::client::Body>) -> Self::Future {
        let uri = request.uri().to_string();
        let fake = {
            let mut wire = self.wire.lock().unwrap();
            wire.asked.push(uri.clone());
            wire.rules.values_mut().find_map(|rule| rule(&uri))
        };
        let (mut inner, wire) = (self.inner.clone(), self.wire.clone());
        Box::pin(async move {
            let mut alter: Option<fn(Value) -> Value> = None;
            match fake {
                Some(FakeReply::Silence) => return std::future::pending().await,
                Some(FakeReply::Crash) => panic!("a fake crash"),
                Some(FakeReply::Text(status, text)) => {
                    let body = Full::from(text).map_err(|never| match never {});
                    return Ok(Response::builder()
                        .status(status)
                        .body(body.boxed_unsync())
                        .unwrap());
                }
                Some(FakeReply::Busy(retry_after)) => {
                    let body = Full::default().map_err(|never| match never {});
                    return Ok(Response::builder()
                        .status(429)
                        .header("date", "Sun, 01 Mar 2026 12:00:00 GMT")
                        .header("retry-after", retry_after)
                        .body(body.boxed_unsync())
                        .unwrap());
                }
                Some(FakeReply::Lines(lines, finish)) => {
                    let body = StreamBody::new(stream(lines, finish));
                    return Ok(Response::new(body.boxed_unsync()));
                }
                Some(FakeReply::Accept(accept)) => {
                    request
                        .headers_mut()
                        .insert("accept", accept.parse().unwrap());
                }
                Some(FakeReply::Altered(by)) => {
                    request.headers_mut().remove("if-none-match");
                    // Only JSON can be altered.
                    if let Some(accept) = request.headers_mut().get_mut("accept") {
                        let json = accept.to_str().unwrap();
                        let json = json.replace("vnd.kubernetes.protobuf", "json");
                        *accept = json.parse().unwrap();
                    }
                    alter = Some(by);
                }
                None => {}
            }
            let response = inner.call(request).await?;
            let media_type = response.headers().get("content-type");
            let media_type = media_type.map_or("", |value| value.to_str().unwrap());
            let answer = (uri, response.status().as_u16(), media_type.to_owned());
            wire.lock().unwrap().answered.push(answer);
            let Some(alter) = alter else {
                return Ok(response.map(BodyExt::boxed_unsync));
            };
            let (mut parts, body) = response.into_parts();
            // The tag of another document.
            parts.headers.remove("etag");
            let bytes = body.collect().await.unwrap().to_bytes();
            let altered = alter(serde_json::from_slice(&bytes).unwrap()).to_string();
            let body = Full::from(altered).map_err(|never| match never {});
            Ok(Response::from_parts(parts, body.boxed_unsync()))
        })
    }
}

fn stream(
    lines: Vec<String>,
    finish: StreamEnd,
) -> impl Stream<Item = Result<Frame<Bytes>, std::io::Error>> + Send {
    let lines = futures::stream::iter(lines);
    let lines = lines.map(|line| Ok(Frame::data(Bytes::from(line + "\n"))));
    let last = futures::stream::once(async move {
        match finish {
            StreamEnd::Hang => std::future::pending().await,
            StreamEnd::End(after) => {
                tokio::time::sleep(after).await;
                Ok(Frame::data(Bytes::new()))
            }
            StreamEnd::Break => Err(std::io::Error::other("cut")),
        }
    });
    lines.chain(last)
}

// === impl ChangeRecorder ===

impl ChangeRecorder {
    /// Records changes until one is equal to `words`; fails after ten virtual minutes.
    pub(crate) async fn until(&mut self, words: &str) {
        while !self.changes.iter().any(|seen| seen == words) {
            assert!(
                self.receive(Duration::from_secs(600)).await,
                "{words}: {:#?}",
                self.changes
            );
        }
    }

    /// Records changes for this time.
    pub(crate) async fn during(&mut self, seconds: u64) {
        let until = Instant::now() + Duration::from_secs(seconds);
        while self
            .receive(until.saturating_duration_since(Instant::now()))
            .await
        {}
    }

    /// Records one change. False: none arrived in time.
    pub(crate) async fn receive(&mut self, within: Duration) -> bool {
        match tokio::time::timeout(within, self.receiver.recv()).await {
            // Tests of the feed compare its progress.
            Ok(Some(ObservedChange::Progress(..))) => true,
            Ok(Some(change)) => {
                let words = self.words(change);
                self.changes.push(words);
                true
            }
            Ok(None) | Err(_) => false,
        }
    }

    /// Whether the channel is closed and empty.
    pub(crate) fn has_ended(&self) -> bool {
        self.receiver.is_closed() && self.receiver.is_empty()
    }

    /// The changes since the last call.
    pub(crate) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.changes)
    }

    fn words(&mut self, change: ObservedChange) -> String {
        match change {
            ObservedChange::Catalog(catalog) => {
                let names = catalog.iter().map(|(id, kind)| (id, kind.to_string()));
                self.kinds.extend(names);
                self.catalog = catalog;
                "catalog".to_owned()
            }
            ObservedChange::Kind(id, state) => {
                let state = match state {
                    KindState::Syncing(_) => "syncing".to_owned(),
                    KindState::Failing(_) => "failing".to_owned(),
                    other => format!("{other:?}").to_lowercase(),
                };
                format!("{} {state}", self.kind(id))
            }
            ObservedChange::Progress(id, progress) => format!("{} {progress:?}", self.kind(id)),
            ObservedChange::Applied(record) => format!("{} applied", self.name(&record)),
            ObservedChange::Deleted(record) => format!("{} deleted", self.name(&record)),
            ObservedChange::Missing(id, uid) => {
                let unknown = uid.to_string();
                let name = self.names.get(&unknown).unwrap_or(&unknown);
                format!("{} {name} missing", self.kind(id))
            }
        }
    }

    fn name(&mut self, record: &Arc<ObjectRecord>) -> String {
        let name = record.meta.name.to_string();
        self.names.insert(record.meta.uid.to_string(), name.clone());
        self.records.push(record.clone());
        let body = match record.body {
            RecordBody::None => "",
            RecordBody::Json(_) => " in full",
        };
        format!("{} {name}{body}", self.kind(record.kind))
    }

    fn kind(&self, id: KindId) -> &str {
        &self.kinds[&id]
    }
}
