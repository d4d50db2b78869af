//! The only writer: a call becomes a request, and its response an answer. Only drivers use it.
//!
//! Requests go out through `kube::Client::send`, because there alone status, headers and body can be read as they came:
//! a text 404 is not a Status 404, and Retry-After is a header. Every write carries the uid and the resourceVersion
//! that were judged, so that the server refuses it if anything changed. Mirrors the requests of upstream's
//! `garbagecollector/operations.go` (1.36), except for what is marked.
//!
//! DEVIATION(one-patch-form): upstream tries a strategic merge patch and falls back to a JSON merge patch for custom
//! kinds. A JSON merge patch with uid and resourceVersion works for all kinds and says what it was made from.

mod rate_limit;
mod response;

use std::fmt;
use std::sync::Arc;

use http::{Method, Request, header};
use jiff::Timestamp;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;

pub use rate_limit::ClientRateLimit;
pub use response::{BODY_MAX, ExchangeError, REQUEST_TIMEOUT, RETRY_AFTER_MAX};
pub(crate) use response::{described, exchange, reason, shortened};

use super::call::{ApiAnswer, ApiCall, CallFailure, CallTarget, FailureKind, JudgedVersion};
use super::kind::{ApiKind, KindCatalog, KindScope};
use super::metrics::ControllerMetrics;
use super::record::{RecordView, Revision};
use rate_limit::RateLimiter;

/// Metadata if the server can, the whole object if it cannot.
const ACCEPT_METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// The whole object.
const ACCEPT_FULL: &str = "application/json";

/// Carries out calls. Clones share the client, the limit and the counts.
#[derive(Clone)]
pub struct Effects {
    client: kube::Client,
    catalog: watch::Receiver<Arc<KindCatalog>>,
    metrics: ControllerMetrics,
    limiter: Option<Arc<RateLimiter>>,
    view: RecordView,
}

/// The answer to a call, with what its HTTP response says beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct PerformedCall {
    pub answer: ApiAnswer,
    /// The HTTP status, if there was a response.
    pub status: Option<u16>,
    /// The server's time, if the response has a `Date`.
    pub date: Option<Timestamp>,
}

/// Why a call cannot become a request. Nothing is sent then.
#[derive(Debug, thiserror::Error)]
enum InvalidCall {
    #[error("the copy that was judged has no resourceVersion to compare")]
    NoVersion,
    #[error("no object is called {0:?}")]
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
        }
    }

    /// The same with a limit on our own side.
    #[must_use]
    pub fn limited(mut self, limit: ClientRateLimit) -> Self {
        self.limiter = Some(Arc::new(RateLimiter::new(limit)));
        self
    }

    /// The same, but answers show so much of an object.
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

    /// Reads the server's time from the `Date` header of any answer; nothing if the answer has none.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn date(&self) -> Result<Option<Timestamp>, ExchangeError> {
        let request = Request::get("/version").body(Body::empty())?;
        let outcome = exchange(&self.client, request).await;
        let status = match &outcome {
            Ok(reply) => Some(reply.status.as_u16()),
            Err(error) => error.status(),
        };
        self.metrics.request(&Method::GET, status);
        outcome.map(|reply| reply.date())
    }

    /// Sends one request and returns its answer.
    pub async fn perform(&self, call: &ApiCall) -> PerformedCall {
        let catalog = self.catalog();
        let Some(kind) = catalog.get(call.target().kind) else {
            let message = "its kind is not served".to_owned();
            return PerformedCall::failed(FailureKind::NotServed, None, message);
        };
        let request = match request(call, kind, self.view) {
            Ok(request) => request,
            Err(error) => {
                return PerformedCall::failed(FailureKind::Refused, None, error.to_string());
            }
        };
        if let Some(limiter) = &self.limiter {
            limiter.acquire().await;
        }
        let method = request.method().clone();
        tracing::debug!(%method, path = request.uri().path(), "sending request");
        let performed = match exchange(&self.client, request).await {
            Ok(reply) => {
                let status = Some(reply.status.as_u16());
                self.metrics.request(&method, status);
                PerformedCall {
                    // What is served now: the kind may have gone while the request was on its way.
                    answer: response::answer(&reply, call, self.view, &self.catalog()),
                    status,
                    date: reply.date(),
                }
            }
            Err(error) => {
                let status = error.status();
                self.metrics.request(&method, status);
                PerformedCall::failed(FailureKind::Unavailable, status, error.to_string())
            }
        };
        match &performed.answer {
            ApiAnswer::Failed(failure) => {
                tracing::debug!(
                    code = failure.status,
                    error = failure.message,
                    "request failed"
                );
            }
            _ => tracing::debug!(code = performed.status, "request answered"),
        }
        performed
    }
}

impl fmt::Debug for Effects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Effects")
    }
}

// === impl PerformedCall ===

impl PerformedCall {
    fn failed(kind: FailureKind, status: Option<u16>, message: String) -> Self {
        Self {
            answer: ApiAnswer::Failed(CallFailure {
                kind,
                status,
                message,
                retry_after: None,
            }),
            status,
            date: None,
        }
    }
}

fn request(call: &ApiCall, kind: &ApiKind, view: RecordView) -> Result<Request<Body>, InvalidCall> {
    let target = call.target();
    if call.judged().is_some_and(|judged| !is_condition(judged)) {
        return Err(InvalidCall::NoVersion);
    }
    let accept = match view {
        RecordView::Metadata => ACCEPT_METADATA,
        RecordView::Full => ACCEPT_FULL,
    };
    let path = match call {
        ApiCall::Get { .. } | ApiCall::Delete { .. } => path(target, kind)?,
        ApiCall::Create {
            subresource: None, ..
        } => collection(target, kind)?,
        ApiCall::Create { subresource, .. } | ApiCall::Patch { subresource, .. } => {
            let subresource = subresource.map(|name| format!("/{name}"));
            path(target, kind)? + &subresource.unwrap_or_default()
        }
    };
    let request = Request::builder().uri(path).header(header::ACCEPT, accept);
    let request = match call {
        ApiCall::Get { .. } => request.method(Method::GET).body(Body::empty()),
        ApiCall::Create { object, .. } => request
            .method(Method::POST)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(object.to_string().into_bytes())),
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
                .body(Body::from(options.to_string().into_bytes()))
        }
        ApiCall::Patch {
            judged,
            form,
            patch,
            ..
        } => request
            .method(Method::PATCH)
            .header(header::CONTENT_TYPE, form.media_type())
            .body(Body::from(
                with_judged(patch, judged)?.to_string().into_bytes(),
            )),
    };
    Ok(request?)
}

/// Whether the server compares this. No version, or version 0, means "whichever there is" in a patch.
fn is_condition(judged: &JudgedVersion) -> bool {
    match &judged.revision {
        Revision::Number(number) => *number > 0,
        Revision::Odd(text) => !text.is_empty(),
    }
}

/// The path of exactly one object. Names come from ownerReferences, where users can write anything: an empty one would make a delete the delete of all objects, and a slash would reach a subresource.
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

/// The path that objects are made at.
fn collection(target: &CallTarget, kind: &ApiKind) -> Result<String, InvalidCall> {
    path(target, kind)?;
    Ok(kind.path(&encoded(&target.namespace), ""))
}

/// Upstream's rule for everything that has to fit between two slashes of a path.
fn can_be_a_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '%'])
}

/// A name as a path spells it.
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

/// The patch with uid and resourceVersion of the judged copy, so that the server refuses it for any other copy.
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
