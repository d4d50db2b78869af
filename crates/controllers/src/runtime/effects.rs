//! Sends every request of a decision: a call becomes a request, and its response an answer. Only drivers use it. Events
//! are written by `runtime/events`.
//!
//! Requests go through `kube::Client::send`, which returns status, headers and body unchanged: a text 404 is not a
//! `Status` 404, and Retry-After is a header. Every patch and delete carries the uid and the resourceVersion that the
//! decision was based on, so that the server refuses it if the object has changed. Mirrors the requests of upstream's
//! `garbagecollector/operations.go` (1.36), except for the marked deviations.
//!
//! DEVIATION(one-patch-form): upstream tries a strategic merge patch and falls back to a JSON merge patch for custom
//! kinds. A JSON merge patch with uid and resourceVersion works for all kinds.

mod rate_limit;
mod response;

use std::sync::Arc;

use http::{Method, Request, header};
use jiff::Timestamp;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

pub use rate_limit::ClientRateLimit;
pub use response::{BODY_MAX, ExchangeError, REQUEST_TIMEOUT, RETRY_AFTER_MAX, described};
pub(crate) use response::{exchange, reason, refusal, retry_after, shortened};

use super::call::{ApiAnswer, ApiCall, CallFailure, CallTarget, FailureKind, JudgedVersion};
use super::driver::WriteFence;
use super::feed::{PAGE_LIMIT, list_path};
use super::kind::{ApiKind, KindCatalog, KindScope};
use super::metrics::ControllerMetrics;
use super::record::RecordView;
use rate_limit::RateLimiter;

/// Requests metadata only; a server that does not support this returns the whole object.
const ACCEPT_METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// Requests the metadata of a list.
const ACCEPT_METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// Requests the whole object.
const ACCEPT_FULL: &str = "application/json";

/// Sends calls. Clones share the client, the rate limit and the metrics.
#[derive(Clone)]
pub struct Effects {
    client: kube::Client,
    catalog: watch::Receiver<Arc<KindCatalog>>,
    metrics: ControllerMetrics,
    limiter: Option<Arc<RateLimiter>>,
    view: RecordView,
    /// What every write has to pass before it is sent.
    fence: Option<WriteFence>,
}

/// The answer to a call, with the status and the date of its HTTP response.
#[derive(Debug, Clone, PartialEq)]
pub struct PerformedCall {
    pub answer: ApiAnswer,
    /// The HTTP status, if there was a response.
    pub status: Option<u16>,
    /// The server's time, if the response has a `Date`.
    pub date: Option<Timestamp>,
}

/// Why a call cannot become a request. No request is sent then.
#[derive(Debug, thiserror::Error)]
enum InvalidCall {
    #[error("the judged version has no resourceVersion to compare")]
    NoVersion,
    #[error("{0:?} is not a valid object name")]
    BadName(String),
    #[error("the patch is not a JSON object: {0}")]
    BadPatch(Value),
    #[error("the request is malformed: {0}")]
    Http(#[from] http::Error),
}

// === impl Effects ===

impl Effects {
    /// Sends calls through `client`, for the kinds of `catalog`.
    #[must_use]
    pub fn new(
        client: kube::Client,
        catalog: watch::Receiver<Arc<KindCatalog>>,
        metrics: ControllerMetrics,
    ) -> Self {
        Self {
            client,
            catalog,
            metrics,
            limiter: None,
            view: RecordView::Metadata,
            fence: None,
        }
    }

    /// Checks writes by `fence` immediately before they are sent.
    #[must_use]
    pub(crate) fn fenced(mut self, fence: WriteFence) -> Self {
        self.fence = Some(fence);
        self
    }

    /// Limits the rate of requests on our own side.
    #[must_use]
    pub fn limited(mut self, limit: ClientRateLimit) -> Self {
        self.limiter = Some(Arc::new(RateLimiter::new(limit)));
        self
    }

    /// Sets how much of an object answers hold.
    #[must_use]
    pub fn showing(mut self, view: RecordView) -> Self {
        self.view = view;
        self
    }

    /// The kinds that are served now.
    #[must_use]
    pub fn catalog(&self) -> Arc<KindCatalog> {
        self.catalog.borrow().clone()
    }

    /// Sends `GET /version` for the `Date` of the response; `None` if the response has no `Date`. Any status will do,
    /// because refusals have a `Date` too.
    ///
    /// # Errors
    /// There is no complete response.
    pub async fn date(&self) -> Result<Option<Timestamp>, ExchangeError> {
        let request = Request::get("/version").body(Body::empty())?;
        let reply = exchange(&self.client, request, &self.metrics).await;
        reply.map(|reply| reply.date())
    }

    /// Sends one request as soon as the rate limit allows it, and returns its answer.
    pub async fn perform(&self, call: &ApiCall) -> PerformedCall {
        self.perform_at(call, self.next_slot()).await
    }

    /// Takes the next place in the rate limit: the time at which a request may be sent.
    pub(crate) fn next_slot(&self) -> Instant {
        let now = Instant::now();
        let limiter = self.limiter.as_ref();
        limiter.map_or(now, |limiter| limiter.reserve(now))
    }

    /// When the rate limit allows the next request; `None`: now.
    pub(crate) fn limited_until(&self, now: Instant) -> Option<Instant> {
        let next = self.limiter.as_ref()?.next(now);
        (next > now).then_some(next)
    }

    /// Sends one request at the time that [`Effects::next_slot`] returned, and returns its answer.
    pub(crate) async fn perform_at(&self, call: &ApiCall, slot: Instant) -> PerformedCall {
        let catalog = self.catalog();
        let Some(kind) = catalog.get(call.target().kind) else {
            let message = "the kind is not served".to_owned();
            return PerformedCall::failed(FailureKind::NotServed, None, message);
        };
        let mut request = match request(call, kind, self.view) {
            Ok(request) => request,
            Err(error) => {
                return PerformedCall::failed(FailureKind::Refused, None, error.to_string());
            }
        };
        if slot > Instant::now() {
            tokio::time::sleep_until(slot).await;
        }
        if let Some(fence) = self.fence.as_ref().filter(|_| !call.is_read()) {
            if let Some(why) = fence.reason() {
                return PerformedCall::failed(FailureKind::HeldBack, None, why);
            }
            request.extensions_mut().insert(fence.clone());
        }
        tracing::debug!(method = %request.method(), path = request.uri().path(), "sending request");
        let performed = match exchange(&self.client, request, &self.metrics).await {
            Ok(reply) => PerformedCall {
                // The current catalog: the kind may have been removed since the request was sent.
                answer: response::answer(&reply, call, self.view, &self.catalog()),
                status: Some(reply.status.as_u16()),
                date: reply.date(),
            },
            Err(ExchangeError::HeldBack(why)) => {
                PerformedCall::failed(FailureKind::HeldBack, None, why)
            }
            Err(error) => {
                PerformedCall::failed(FailureKind::Unavailable, error.status(), error.to_string())
            }
        };
        match &performed.answer {
            ApiAnswer::Failed(failure) => {
                let (code, error) = (failure.status, &failure.message);
                tracing::debug!(code, error, "request failed");
            }
            _ => tracing::debug!(code = performed.status, "request answered"),
        }
        performed
    }
}

// === impl PerformedCall ===

impl PerformedCall {
    /// Whether the request was not sent, because the driver's gate closed after the decision.
    pub(crate) fn is_held_back(&self) -> bool {
        matches!(&self.answer, ApiAnswer::Failed(failure) if failure.kind == FailureKind::HeldBack)
    }

    fn failed(kind: FailureKind, status: Option<u16>, message: String) -> Self {
        Self {
            answer: ApiAnswer::Failed(CallFailure::new(kind, status, message)),
            status,
            date: None,
        }
    }
}

fn request(call: &ApiCall, kind: &ApiKind, view: RecordView) -> Result<Request<Body>, InvalidCall> {
    if call
        .judged()
        .is_some_and(|judged| !judged.revision.is_exact())
    {
        return Err(InvalidCall::NoVersion);
    }
    let accept = match (call, view) {
        (ApiCall::List { .. }, _) => ACCEPT_METADATA_LIST,
        (_, RecordView::Metadata) => ACCEPT_METADATA,
        (_, RecordView::Full) => ACCEPT_FULL,
    };
    let request = Request::builder().uri(call_path(call, kind)?);
    let request = request.header(header::ACCEPT, accept);
    let request = match call {
        ApiCall::Get { .. } | ApiCall::GetInVersion { .. } | ApiCall::List { .. } => {
            request.method(Method::GET).body(Body::empty())
        }
        ApiCall::Create { object, .. } => request
            .method(Method::POST)
            .header(header::CONTENT_TYPE, "application/json")
            .body(json_body(object)),
        ApiCall::Delete {
            judged,
            propagation,
            grace_secs,
            ..
        } => {
            let mut options = json!({
                "kind": "DeleteOptions",
                "apiVersion": "v1",
                "preconditions": {
                    "uid": judged.uid.to_string(),
                    "resourceVersion": judged.revision.to_string(),
                },
            });
            if let Some(propagation) = propagation {
                options["propagationPolicy"] = propagation.as_str().into();
            }
            if let Some(secs) = grace_secs {
                options["gracePeriodSeconds"] = (*secs).into();
            }
            request
                .method(Method::DELETE)
                .header(header::CONTENT_TYPE, "application/json")
                .body(json_body(&options))
        }
        ApiCall::Patch {
            judged,
            form,
            patch,
            ..
        } => request
            .method(Method::PATCH)
            .header(header::CONTENT_TYPE, form.media_type())
            .body(json_body(&with_judged(patch, judged)?)),
    };
    Ok(request?)
}

fn call_path(call: &ApiCall, kind: &ApiKind) -> Result<String, InvalidCall> {
    let target = call.target();
    Ok(match call {
        ApiCall::Get { .. } | ApiCall::Delete { .. } => path(target, kind)?,
        ApiCall::GetInVersion { version, .. } => {
            let version = version.clone();
            path(
                target,
                &ApiKind {
                    version,
                    ..kind.clone()
                },
            )?
        }
        ApiCall::List { token, .. } => list_path(kind, Some(PAGE_LIMIT), token.as_deref()),
        ApiCall::Create {
            subresource: None, ..
        } => {
            path(target, kind)?;
            kind.path(&encoded(&target.namespace), "")
        }
        ApiCall::Create { subresource, .. } | ApiCall::Patch { subresource, .. } => {
            let subresource = subresource.map(|name| format!("/{name}"));
            path(target, kind)? + &subresource.unwrap_or_default()
        }
    })
}

fn json_body(json: &Value) -> Body {
    Body::from(json.to_string().into_bytes())
}

/// The path of exactly one object. Names come from ownerReferences, where users can write anything: with an empty name a
/// delete would delete the whole collection, and with a slash it would reach a subresource.
fn path(target: &CallTarget, kind: &ApiKind) -> Result<String, InvalidCall> {
    let namespaced = kind.scope == KindScope::Namespaced;
    let used: &[&str] = if namespaced {
        &[&target.namespace, &target.name]
    } else {
        &[&target.name]
    };
    if let Some(odd) = used.iter().find(|name| !can_be_a_name(name)) {
        return Err(InvalidCall::BadName((*odd).to_owned()));
    }
    Ok(kind.path(&encoded(&target.namespace), &encoded(&target.name)))
}

/// Upstream's rule for a segment of a path.
fn can_be_a_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '%'])
}

/// Percent-encodes a name for a path.
fn encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:@!$&'()*+,;=".contains(&byte);
    let mut path = String::with_capacity(name.len());
    for byte in name.bytes() {
        if plain(byte) {
            path.push(byte.into());
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
    path
}

/// Adds uid and resourceVersion of the judged version to a patch, so that the server refuses it for any other version.
fn with_judged(patch: &Value, judged: &JudgedVersion) -> Result<Value, InvalidCall> {
    let bad = || InvalidCall::BadPatch(patch.clone());
    let mut fields = patch.as_object().cloned().ok_or_else(bad)?;
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    let metadata = metadata.as_object_mut().ok_or_else(bad)?;
    metadata.insert("uid".to_owned(), judged.uid.to_string().into());
    let version = judged.revision.to_string();
    metadata.insert("resourceVersion".to_owned(), version.into());
    Ok(fields.into())
}

#[cfg(test)]
mod tests;
