//! The only writer: a call becomes a request, its response an answer.
//!
//! Requests go out through `kube::Client::send`, because there alone status, headers and body can be read as they came:
//! a text 404 is not a Status 404, and Retry-After is a header. Every write carries the uid and the resourceVersion
//! that were judged, so that the server refuses it if anything changed. Mirrors the requests of upstream's
//! `garbagecollector/operations.go` (1.36), except for what is marked.
//!
//! DEVIATION(one-patch-form): upstream tries a strategic merge patch and falls back to a JSON merge patch for custom
//! kinds. A JSON merge patch with uid and resourceVersion works for all kinds and says what it was made from.

mod exchange;
mod limit;
mod read;

use std::fmt;
use std::sync::Arc;

use http::{Method, Request, header};
use jiff::Timestamp;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;

pub use exchange::{BODY_MAX, REQUEST_TIMEOUT, RETRY_AFTER_MAX};
pub(crate) use exchange::{described, exchange, reason};
pub use limit::Limit;

use super::call::{Answer, Call, Failure, FailureKind, Judged, Target};
use super::kind::{Catalog, Kind, Scope};
use super::metrics::Metrics;
use super::record::{Revision, View};
use limit::Line;

/// Metadata if the server can, the whole object if it cannot.
const ACCEPT_METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// The whole object.
const ACCEPT_FULL: &str = "application/json";

/// Carries out calls. Clones share the client, the limit and the counts.
#[derive(Clone)]
pub struct Effects {
    client: kube::Client,
    catalog: watch::Receiver<Arc<Catalog>>,
    metrics: Metrics,
    line: Option<Arc<Line>>,
    view: View,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Performed {
    /// The answer.
    pub answer: Answer,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// The server's time, if it told it.
    pub date: Option<Timestamp>,
}

// === impl Effects ===

impl Effects {
    /// Sends calls through `client`, for the kinds of `catalog`.
    #[must_use]
    pub fn new(
        client: kube::Client,
        catalog: watch::Receiver<Arc<Catalog>>,
        metrics: Metrics,
    ) -> Self {
        Self {
            client,
            catalog,
            metrics,
            line: None,
            view: View::Metadata,
        }
    }

    /// The same with a limit on our own side.
    #[must_use]
    pub fn limited(mut self, limit: Limit) -> Self {
        self.line = Some(Arc::new(Line::new(limit)));
        self
    }

    /// The same, but answers show so much of an object.
    #[must_use]
    pub fn showing(mut self, view: View) -> Self {
        self.view = view;
        self
    }

    /// The kinds that are served now.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.borrow().clone()
    }

    /// Asks the server for nothing but its time. Any answer will do, and one that does not tell it is one.
    ///
    /// # Errors
    /// For people, when there was no answer.
    pub async fn date(&self) -> Result<Option<Timestamp>, String> {
        let request = Request::get("/version").body(Body::empty());
        let request = request.map_err(|error| error.to_string())?;
        let outcome = exchange(&self.client, request).await;
        let status = match &outcome {
            Ok(reply) => Some(reply.status.as_u16()),
            Err((status, _)) => *status,
        };
        self.metrics.request(&Method::GET, status);
        outcome
            .map(|reply| reply.date())
            .map_err(|(_, message)| message)
    }

    /// Sends one request and says what it was answered.
    pub async fn perform(&self, call: &Call) -> Performed {
        let catalog = self.catalog();
        let Some(kind) = catalog.get(call.target().kind) else {
            let message = "its kind is not served".to_owned();
            return Performed::failed(FailureKind::NotServed, None, message);
        };
        let request = match request(call, kind, self.view) {
            Ok(request) => request,
            Err(why) => return Performed::failed(FailureKind::Refused, None, why),
        };
        if let Some(line) = &self.line {
            line.turn().await;
        }
        let method = request.method().clone();
        match exchange(&self.client, request).await {
            Ok(reply) => {
                let status = Some(reply.status.as_u16());
                self.metrics.request(&method, status);
                Performed {
                    // What is served now: the kind may have gone while the request was on its way.
                    answer: read::answer(&reply, call, self.view, &self.catalog()),
                    status,
                    date: reply.date(),
                }
            }
            Err((status, message)) => {
                self.metrics.request(&method, status);
                Performed::failed(FailureKind::Unavailable, status, message)
            }
        }
    }
}

impl fmt::Debug for Effects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Effects")
    }
}

// === impl Performed ===

impl Performed {
    fn failed(kind: FailureKind, status: Option<u16>, message: String) -> Self {
        Self {
            answer: Answer::Failed(Failure {
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

fn request(call: &Call, kind: &Kind, view: View) -> Result<Request<Body>, String> {
    let target = call.target();
    if call.judged().is_some_and(|judged| !is_condition(judged)) {
        return Err("the copy that was judged has no resourceVersion to compare".to_owned());
    }
    let accept = match view {
        View::Metadata => ACCEPT_METADATA,
        View::Full => ACCEPT_FULL,
    };
    let path = match call {
        Call::Get { .. } | Call::Delete { .. } => path(target, kind)?,
        Call::Create {
            subresource: None, ..
        } => collection(target, kind)?,
        Call::Create { subresource, .. } | Call::Patch { subresource, .. } => {
            let subresource = subresource.map(|name| format!("/{name}"));
            path(target, kind)? + &subresource.unwrap_or_default()
        }
    };
    let request = Request::builder().uri(path).header(header::ACCEPT, accept);
    let request = match call {
        Call::Get { .. } => request.method(Method::GET).body(Body::empty()),
        Call::Create { object, .. } => request
            .method(Method::POST)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(object.to_string().into_bytes())),
        Call::Delete {
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
        Call::Patch {
            judged,
            form,
            patch,
            ..
        } => request
            .method(Method::PATCH)
            .header(header::CONTENT_TYPE, form.media_type())
            .body(Body::from(
                with_judged(patch, judged).to_string().into_bytes(),
            )),
    };
    request.map_err(|error| error.to_string())
}

/// Whether the server compares this. No version, or version 0, means "whichever there is" in a patch.
fn is_condition(judged: &Judged) -> bool {
    match &judged.revision {
        Revision::Number(number) => *number > 0,
        Revision::Odd(text) => !text.is_empty(),
    }
}

/// The path of exactly one object, or why there is none. Names come from ownerReferences, where anybody can write
/// anything: an empty one would make a delete the delete of all objects, and a slash would reach a subresource.
fn path(target: &Target, kind: &Kind) -> Result<String, String> {
    let namespaced = kind.scope == Scope::Namespaced;
    let used: &[&str] = if namespaced {
        &[&target.namespace, &target.name]
    } else {
        &[&target.name]
    };
    if let Some(odd) = used.iter().find(|name| !can_be_a_name(name)) {
        return Err(format!("no object is called {odd:?}"));
    }
    Ok(kind.path(&encoded(&target.namespace), &encoded(&target.name)))
}

/// The path that objects are made at.
fn collection(target: &Target, kind: &Kind) -> Result<String, String> {
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

/// The patch with what was judged written in, so that the server refuses it for any other copy.
fn with_judged(patch: &Value, judged: &Judged) -> Value {
    let mut patch = patch.as_object().cloned().unwrap_or_default();
    let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
    if !metadata.is_object() {
        *metadata = json!({});
    }
    metadata["uid"] = judged.uid.to_string().into();
    metadata["resourceVersion"] = judged.revision.to_string().into();
    patch.into()
}

#[cfg(test)]
mod tests;
