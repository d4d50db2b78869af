//! A transport between a client and the server that records every request about one object and can inject faults.
//!
//! A [`Wire`] is the transport of a `kube::Client`. A [`FaultInjector`] decides about each request; without one everything
//! passes. After a wire is cut, no request on it has an effect or an answer, neither a new one nor a pending one. That is how
//! a crash of controllers is simulated.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use caretaker_machinery::rng::Rng;
use futures::StreamExt as _;
use http::{Method, Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, BodyStream, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tower_service::Service;

/// One in this number of parts of a garbled answer is overwritten.
const GARBLED_ONE_IN: usize = 3;
/// The least number of bytes that are overwritten: a tag of protocol buffers has at most ten.
const GARBLED_BYTES_MIN: usize = 16;

type Error = Box<dyn std::error::Error + Send + Sync>;
type AnyBody = UnsyncBoxBody<Bytes, Error>;

/// The sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestSender {
    User,
    Controllers,
}

/// One request about one object that the server has carried out or refused.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    pub who: RequestSender,
    pub sent: Instant,
    pub method: Method,
    /// Without the query.
    pub path: String,
    pub body: Value,
    /// The server's answer, even if it never arrived.
    pub status: u16,
    pub answer: Value,
}

/// All requests about single objects, of all senders, in the order of their answers. Clones share the log.
#[derive(Clone, Default)]
pub struct RequestLog(Arc<Mutex<Vec<RecordedRequest>>>);

/// A request as a [`FaultInjector`] sees it.
#[derive(Debug)]
pub struct WireRequest<'a> {
    pub method: &'a Method,
    /// Path and query.
    pub uri: &'a str,
    /// Whether it is about one object, in contrast to lists, watches and discovery.
    pub is_effect: bool,
    /// Whether it is answered by a stream of events.
    pub is_watch: bool,
    pub body: &'a Value,
}

/// What happens to a request.
#[derive(Debug)]
pub enum RequestFate {
    Pass,
    /// It is sent later.
    Late(Duration),
    /// It is sent with another body.
    Body(Value),
    /// It is not sent, and answered like this.
    Reply(FakeReply),
    /// It is carried out, and answered like this.
    Instead(FakeReply),
    /// It is not sent, and never answered.
    Swallowed,
    /// It is carried out, and never answered.
    Ghost,
    /// Its answer ends after this time, even in the middle of an event.
    Cut(Duration),
    /// Every part of its answer is delayed by a random time up to this one; their order stays.
    Lag(Rng, Duration),
    /// Its answer, requested as JSON, is changed before it is delivered.
    Altered(ReplyRewrite),
    /// Its answer pauses once, after the first time and for the second one.
    Stalled(Duration, Duration),
    /// Its answer breaks off with an error after this time or this number of bytes.
    Broken(Duration, usize),
    /// The ends of some parts of its answer are overwritten with bytes that neither JSON nor protocol buffers contain.
    Garbled(Rng),
    /// The wire is cut.
    End(CrashMoment),
}

/// A change of an answer.
pub struct ReplyRewrite(Box<dyn FnOnce(FakeReply) -> FakeReply + Send>);

/// When a wire is cut, as seen from one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashMoment {
    /// Before it reaches the server.
    Before,
    /// When the server has carried it out, before the answer arrives.
    Inside,
    /// When its answer has arrived.
    After,
}

/// An invented answer, or a real one that was read to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct FakeReply {
    pub status: u16,
    pub content_type: String,
    /// The header of this name.
    pub retry_after: Option<String>,
    pub text: String,
}

/// Decides about every request on a wire.
pub trait FaultInjector: Send {
    fn fate(&mut self, asked: &WireRequest<'_>) -> RequestFate;
}

/// The transport of a client. Clones share the wire.
#[derive(Clone)]
pub struct Wire {
    shared: Arc<WireState>,
}

/// Shows whether a wire is still held.
pub struct WireTrace(Weak<WireState>);

struct WireState {
    who: RequestSender,
    server: Client,
    log: RequestLog,
    injector: Mutex<Option<Box<dyn FaultInjector>>>,
    is_cut: watch::Sender<bool>,
}

impl<F: FnMut(&WireRequest<'_>) -> RequestFate + Send> FaultInjector for F {
    fn fate(&mut self, asked: &WireRequest<'_>) -> RequestFate {
        self(asked)
    }
}

// === impl RequestFate ===

impl RequestFate {
    pub fn altered(rewrite: impl FnOnce(FakeReply) -> FakeReply + Send + 'static) -> Self {
        Self::Altered(ReplyRewrite(Box::new(rewrite)))
    }
}

impl std::fmt::Debug for ReplyRewrite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReplyRewrite")
    }
}

// === impl RequestLog ===

impl RequestLog {
    pub fn acts(&self) -> Vec<RecordedRequest> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// How many requests of the controllers there are.
    pub fn effects(&self) -> usize {
        let acts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        acts.iter()
            .filter(|act| act.who == RequestSender::Controllers)
            .count()
    }

    /// When the controllers last tried to write something.
    pub fn last_write(&self) -> Option<Instant> {
        let acts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_write = |act: &&RecordedRequest| {
            act.who == RequestSender::Controllers && act.method != Method::GET
        };
        acts.iter().filter(is_write).map(|act| act.sent).max()
    }

    fn push(&self, act: RecordedRequest) {
        let mut acts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        acts.push(act);
    }
}

// === impl RecordedRequest ===

impl RecordedRequest {
    /// Whether the server carried out a write of the controllers.
    pub fn is_controllers_write(&self) -> bool {
        let is_write = self.method != Method::GET && self.status < 300;
        self.who == RequestSender::Controllers && is_write
    }
}

// === impl FakeReply ===

impl FakeReply {
    /// A JSON answer.
    pub fn json(status: u16, body: &Value) -> Self {
        Self {
            status,
            content_type: "application/json".to_owned(),
            retry_after: None,
            text: body.to_string(),
        }
    }

    /// A failure as API servers send it.
    pub fn failure(status: u16, reason: &str) -> Self {
        let status_object = serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "made up", "reason": reason, "code": status});
        Self::json(status, &status_object)
    }

    pub fn text(status: u16, text: &str) -> Self {
        Self {
            status,
            content_type: "text/plain".to_owned(),
            retry_after: None,
            text: text.to_owned(),
        }
    }

    fn into_response(self) -> Result<Response<AnyBody>, Error> {
        let mut response = Response::builder()
            .status(self.status)
            .header(header::CONTENT_TYPE, self.content_type);
        if let Some(wait) = self.retry_after {
            response = response.header(header::RETRY_AFTER, wait);
        }
        Ok(response.body(whole(self.text.into()))?)
    }
}

// === impl WireTrace ===

impl WireTrace {
    /// Whether no client is left that could use the wire.
    pub fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }
}

// === impl Wire ===

impl Wire {
    /// A wire to the server that `server` talks to.
    pub fn new(
        server: &Client,
        who: RequestSender,
        log: &RequestLog,
        injector: Option<Box<dyn FaultInjector>>,
    ) -> Self {
        Self {
            shared: Arc::new(WireState {
                who,
                server: server.clone(),
                log: log.clone(),
                injector: Mutex::new(injector),
                is_cut: watch::Sender::new(false),
            }),
        }
    }

    /// A client that talks through this wire.
    pub fn client(&self) -> Client {
        Client::new(self.clone(), "default")
    }

    /// Replaces who decides about requests.
    pub fn set_injector(&self, injector: Option<Box<dyn FaultInjector>>) {
        let current = self.shared.injector.lock();
        *current.unwrap_or_else(PoisonError::into_inner) = injector;
    }

    /// Ends everything that goes through it.
    pub fn cut(&self) {
        self.shared.is_cut.send_replace(true);
    }

    /// Waits until it is cut.
    pub async fn until_cut(&self) {
        until_cut(&self.shared.is_cut).await;
    }

    /// What tells when it is not used any more.
    pub fn trace(&self) -> WireTrace {
        WireTrace(Arc::downgrade(&self.shared))
    }
}

impl Service<Request<Body>> for Wire {
    type Response = Response<AnyBody>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let shared = self.shared.clone();
        Box::pin(async move { shared.carry(request).await })
    }
}

// === impl WireState ===

impl WireState {
    async fn carry(&self, request: Request<Body>) -> Result<Response<AnyBody>, Error> {
        if *self.is_cut.borrow() {
            return pending().await;
        }
        let (parts, body) = request.into_parts();
        let bytes = body.collect_bytes().await?;
        let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let uri = parts.uri.to_string();
        let asked = WireRequest {
            method: &parts.method,
            uri: &uri,
            is_effect: is_effect(&parts.method, parts.uri.path()),
            is_watch: uri.contains("watch=true") || uri.contains("watch=1"),
            body: &body,
        };
        let fate = {
            let mut injector = self.injector.lock().unwrap_or_else(PoisonError::into_inner);
            injector
                .as_mut()
                .map_or(RequestFate::Pass, |injector| injector.fate(&asked))
        };
        let is_effect = asked.is_effect;
        let request = Request::from_parts(parts, Body::from(bytes.to_vec()));
        let carried = self.meet(fate, request, body, is_effect);
        tokio::select! {
            biased;
            () = until_cut(&self.is_cut) => pending().await,
            answer = carried => answer,
        }
    }

    async fn meet(
        &self,
        fate: RequestFate,
        mut request: Request<Body>,
        mut body: Value,
        is_effect: bool,
    ) -> Result<Response<AnyBody>, Error> {
        let cut = || self.is_cut.send_replace(true);
        match fate {
            RequestFate::Reply(reply) => return reply.into_response(),
            RequestFate::Swallowed => return pending().await,
            RequestFate::End(CrashMoment::Before) => {
                cut();
                return pending().await;
            }
            RequestFate::Late(wait) => tokio::time::sleep(wait).await,
            RequestFate::Body(ref other) => {
                body = other.clone();
                *request.body_mut() = Body::from(body.to_string().into_bytes());
            }
            RequestFate::Altered(_) => {
                prefer_json(request.headers_mut());
                // An answer without a body cannot be altered.
                request.headers_mut().remove(header::IF_NONE_MATCH);
            }
            _ => {}
        }
        let response = self.send(request, body, is_effect).await?;
        match fate {
            RequestFate::Instead(reply) => reply.into_response(),
            RequestFate::Ghost => pending().await,
            RequestFate::End(CrashMoment::Inside) => {
                cut();
                pending().await
            }
            RequestFate::End(CrashMoment::After) => {
                cut();
                Ok(response)
            }
            RequestFate::Cut(after) => Ok(response.map(|body| shortened(body, after))),
            RequestFate::Lag(rng, max) => Ok(response.map(|body| delayed(body, rng, max))),
            RequestFate::Altered(alter) => (alter.0)(read(response).await?).into_response(),
            RequestFate::Broken(after, bytes) => {
                Ok(response.map(|body| broken_off(body, after, bytes)))
            }
            RequestFate::Stalled(after, length) => {
                Ok(response.map(|body| stalled(body, after, length)))
            }
            RequestFate::Garbled(rng) => Ok(response.map(|body| garbled(body, rng))),
            _ => Ok(response),
        }
    }

    /// Has the server answer; an answer about one object is written down as soon as it is there.
    async fn send(
        &self,
        request: Request<Body>,
        body: Value,
        is_effect: bool,
    ) -> Result<Response<AnyBody>, Error> {
        let (sent, method) = (Instant::now(), request.method().clone());
        let path = request.uri().path().to_owned();
        let response = self.server.send(request).await?;
        if !is_effect {
            return Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()));
        }
        let (parts, answer) = response.into_parts();
        let answer = answer.collect_bytes().await?;
        self.log.push(RecordedRequest {
            who: self.who,
            sent,
            method,
            path,
            body,
            status: parts.status.as_u16(),
            answer: serde_json::from_slice(&answer).unwrap_or_default(),
        });
        Ok(Response::from_parts(parts, whole(answer)))
    }
}

async fn until_cut(is_cut: &watch::Sender<bool>) {
    // The sender outlives this.
    let _ = is_cut.subscribe().wait_for(|cut| *cut).await;
}

fn whole(bytes: Bytes) -> AnyBody {
    Full::new(bytes)
        .map_err(|never| match never {})
        .boxed_unsync()
}

fn shortened(body: AnyBody, after: Duration) -> AnyBody {
    let stream = BodyStream::new(body).take_until(Box::pin(tokio::time::sleep(after)));
    StreamBody::new(stream).boxed_unsync()
}

fn delayed(body: AnyBody, mut rng: Rng, max: Duration) -> AnyBody {
    let stream = BodyStream::new(body).then(move |frame| {
        let delay = rng.duration(Duration::ZERO..max);
        async move {
            tokio::time::sleep(delay).await;
            frame
        }
    });
    StreamBody::new(stream).boxed_unsync()
}

fn stalled(body: AnyBody, after: Duration, length: Duration) -> AnyBody {
    let from = Instant::now() + after;
    let stream = BodyStream::new(body).then(move |frame| async move {
        if Instant::now() >= from {
            tokio::time::sleep_until(from + length).await;
        }
        frame
    });
    StreamBody::new(stream).boxed_unsync()
}

/// Ends with an error after `after` or `left` bytes, whichever comes first.
fn broken_off(body: AnyBody, after: Duration, left: usize) -> AnyBody {
    let until = Box::pin(tokio::time::sleep(after));
    let pieces = BodyStream::new(body).take_until(until);
    let pieces = pieces.scan(left, |left, piece| {
        let is_over = *left == 0;
        let piece = piece.map(|frame| {
            frame.map_data(|bytes: Bytes| {
                let sent = bytes.slice(..bytes.len().min(*left));
                *left -= sent.len();
                sent
            })
        });
        std::future::ready((!is_over).then_some(piece))
    });
    let error = futures::stream::once(async { Err("the connection broke off".into()) });
    StreamBody::new(pieces.chain(error)).boxed_unsync()
}

fn garbled(body: AnyBody, mut rng: Rng) -> AnyBody {
    let stream = BodyStream::new(body).map(move |frame| {
        let is_hit = rng.below(GARBLED_ONE_IN) == 0;
        frame.map(|frame| {
            frame.map_data(|bytes: Bytes| {
                let mut bytes = bytes.to_vec();
                let kept = rng.below(bytes.len().saturating_sub(GARBLED_BYTES_MIN));
                if is_hit && bytes.len() > GARBLED_BYTES_MIN {
                    bytes[kept..].fill(0xff);
                }
                bytes.into()
            })
        })
    });
    StreamBody::new(stream).boxed_unsync()
}

/// Takes protocol buffers out of the accepted formats.
fn prefer_json(headers: &mut http::HeaderMap) {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok());
    let formats = accept.unwrap_or_default().split(',');
    let formats: Vec<&str> = formats
        .filter(|format| !format.contains("protobuf"))
        .collect();
    if let Ok(accept) = formats.join(",").parse() {
        headers.insert(header::ACCEPT, accept);
    }
}

async fn read(response: Response<AnyBody>) -> Result<FakeReply, Error> {
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await?.to_bytes();
    let header = |name| {
        let value = parts.headers.get(name)?.to_str().ok()?;
        Some(value.to_owned())
    };
    Ok(FakeReply {
        status: parts.status.as_u16(),
        content_type: header(header::CONTENT_TYPE).unwrap_or_default(),
        retry_after: header(header::RETRY_AFTER),
        text: String::from_utf8_lossy(&bytes).into_owned(),
    })
}

/// Whether a request is about one object or a subresource of it: not a list, a watch, discovery, or about an Event.
fn is_effect(method: &Method, path: &str) -> bool {
    let mut segments = path.split('/').filter(|part| !part.is_empty());
    let skipped = match segments.next() {
        Some("api") => 1,
        Some("apis") => 2,
        _ => return false,
    };
    let rest: Vec<&str> = segments.skip(skipped).collect();
    let is_object = match rest[..] {
        ["namespaces", _, "events", ..] => return false,
        ["namespaces", _, _] | [_] if *method == Method::POST => return true,
        // A collection in a namespace has as many parts as the status of a Node.
        [first, _, _] => first != "namespaces",
        _ => [2, 4, 5].contains(&rest.len()),
    };
    is_object && [Method::GET, Method::PATCH, Method::DELETE, Method::PUT].contains(method)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_requests_about_one_object() {
        let table = [
            (Method::GET, "/api/v1/namespaces/n/configmaps/a", true),
            (Method::DELETE, "/api/v1/nodes/a", true),
            (Method::PATCH, "/api/v1/nodes/a/status", true),
            (Method::PATCH, "/api/v1/namespaces/n/pods/a/status", true),
            (Method::DELETE, "/api/v1/namespaces/n/pods", false),
            (
                Method::PATCH,
                "/apis/apps/v1/namespaces/n/deployments/a",
                true,
            ),
            (Method::GET, "/api/v1/namespaces/n", true),
            (Method::GET, "/api/v1/configmaps", false),
            (Method::GET, "/api/v1/namespaces/n/configmaps", false),
            (Method::GET, "/apis", false),
            (Method::GET, "/api", false),
            (Method::GET, "/apis/apps/v1", false),
            (Method::GET, "/apis/apps", false),
            (Method::POST, "/api/v1/namespaces/n/events", false),
            (Method::PATCH, "/api/v1/namespaces/n/events/a", false),
            (Method::POST, "/apis/batch/v1/namespaces/n/jobs", true),
            (Method::POST, "/api/v1/nodes", true),
        ];
        for (method, path, expected) in table {
            assert_eq!(is_effect(&method, path), expected, "{method} {path}");
        }
    }
}
