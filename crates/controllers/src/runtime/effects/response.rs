//! Sends one request, reads its whole response, and turns the response into an answer.
//!
//! Every write goes through [`exchange`], so that time and size of a response are limited in one place. [`answer`] is
//! pure: a reply goes in, an answer comes out. An object is absent only if discovery serves its kind and a well-formed
//! `Status` with code 404 and reason NotFound has its name, group and resource; such a `Status` has neither namespace nor
//! uid. A page of text, the 404 of another object or a broken response prove nothing about the object.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use caretaker_machinery::status::Status;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use jiff::Timestamp;
use kube::client::{AuthError, Body};

use crate::runtime::call::{
    AbsenceProof, ApiAnswer, ApiCall, CallFailure, CallTarget, FailureKind,
};
use crate::runtime::clients::held_back;
use crate::runtime::feed::read_metadata_page;
use crate::runtime::kind::KindCatalog;
use crate::runtime::metrics::ControllerMetrics;
use crate::runtime::record::body::JsonMembers;
use crate::runtime::record::{ObjectRecord, RecordView, decode};

/// How long a request may take, its response included, by tokio's clock.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest answer that is read, in bytes. Servers store objects of up to 1.5 MiB, and JSON is longer than what
/// they store.
pub const BODY_MAX: usize = 8 << 20;

/// The longest `Retry-After` that drivers and feeds respect: no server stops a controller for an hour.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// A response that was read completely.
#[derive(Debug, Clone)]
pub(crate) struct HttpReply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// How much of a server's message is kept, in bytes: it goes to logs and Events.
const MESSAGE_MAX: usize = 512;

/// Why a request has no complete response. None of the messages holds credentials.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    #[error("{0}")]
    Connect(String),
    #[error("the answer broke off: {why}")]
    Broken { status: u16, why: String },
    #[error("no answer within {} s", REQUEST_TIMEOUT.as_secs())]
    Timeout { status: Option<u16> },
    #[error("the request is malformed: {0}")]
    Request(#[from] http::Error),
    /// The connection pool did not send a write, because the driver's gate had closed.
    #[error("not sent: {0}")]
    HeldBack(String),
}

/// Sends a request, reads all of the response, and counts the request.
pub(crate) async fn exchange(
    client: &kube::Client,
    request: Request<Body>,
    metrics: &ControllerMetrics,
) -> Result<HttpReply, ExchangeError> {
    let method = request.method().clone();
    let mut seen = None;
    let whole = async {
        let response = client.send(request).await;
        let response = response.map_err(|error| match held_back(&error) {
            Some(why) => ExchangeError::HeldBack(why),
            None => ExchangeError::Connect(described(&error)),
        })?;
        let (head, body) = response.into_parts();
        let status = head.status.as_u16();
        seen = Some(status);
        let body = Limited::new(body, BODY_MAX).collect().await;
        let body = body.map_err(|error| ExchangeError::Broken {
            status,
            why: reason(&*error),
        })?;
        Ok(HttpReply {
            status: head.status,
            headers: head.headers,
            body: body.to_bytes(),
        })
    };
    let outcome = tokio::time::timeout(REQUEST_TIMEOUT, whole).await;
    let outcome = outcome.unwrap_or(Err(ExchangeError::Timeout { status: seen }));
    let status = match &outcome {
        Ok(reply) => Some(reply.status.as_u16()),
        Err(error) => error.status(),
    };
    if !matches!(outcome, Err(ExchangeError::HeldBack(_))) {
        metrics.request(&method, status);
    }
    outcome
}

// === impl ExchangeError ===

impl ExchangeError {
    /// The HTTP status, if one arrived.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Broken { status, .. } => Some(*status),
            Self::Timeout { status } => *status,
            Self::Connect(_) | Self::Request(_) | Self::HeldBack(_) => None,
        }
    }
}

// === impl HttpReply ===

impl HttpReply {
    /// Whether the `Content-Type` is JSON.
    pub(crate) fn is_json(&self) -> bool {
        let media = text(&self.headers, header::CONTENT_TYPE).unwrap_or_default();
        let media = media.split(';').next().unwrap_or_default();
        media.trim().eq_ignore_ascii_case("application/json")
    }

    /// The server's time, from the `Date` header.
    pub(crate) fn date(&self) -> Option<Timestamp> {
        date(&self.headers)
    }
}

/// The `Retry-After` header: seconds, or a date by the server's clock. Capped at [`RETRY_AFTER_MAX`]. A value that cannot
/// be read is ignored; so is zero, because the server has just refused a request.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = text(headers, header::RETRY_AFTER)?.trim();
    let wait = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // Too many digits for a number mean a long time, too.
        Duration::from_secs(text.parse().unwrap_or(u64::MAX))
    } else {
        let wait = http_date(text)?.duration_since(date(headers)?);
        Duration::try_from(wait).ok()?
    };
    (!wait.is_zero()).then(|| wait.min(RETRY_AFTER_MAX))
}

/// The server's time, from the `Date` header.
fn date(headers: &HeaderMap) -> Option<Timestamp> {
    http_date(text(headers, header::DATE)?)
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// Turns the reply to `call` into an answer.
pub(crate) fn answer(
    reply: &HttpReply,
    call: &ApiCall,
    view: RecordView,
    catalog: &KindCatalog,
) -> ApiAnswer {
    let target = call.target();
    if reply.status.is_success() {
        return success(reply, call, view);
    }
    let status = reply.is_json().then(|| status(&reply.body)).flatten();
    if reply.status.as_u16() == 404
        && let Some(status) = &status
        && is_proof(status, target, catalog)
    {
        return ApiAnswer::Absent(AbsenceProof::NotFound);
    }
    ApiAnswer::Failed(failure(reply, status))
}

fn success(reply: &HttpReply, call: &ApiCall, view: RecordView) -> ApiAnswer {
    let target = call.target();
    let unreadable = |why: &str| {
        let (kind, status) = (FailureKind::Unavailable, reply.status.as_u16());
        let message = format!("the response cannot be used: {why}");
        ApiAnswer::Failed(CallFailure::new(kind, Some(status), message))
    };
    if !reply.is_json() {
        return unreadable("it is not JSON");
    }
    if let Some(status) = status(&reply.body) {
        return match (status.status.as_str(), call) {
            // A delete returns a `Status` if the object is gone, and a binding always does.
            ("Success", ApiCall::Delete { .. } | ApiCall::Create { .. }) => ApiAnswer::Done,
            ("Success", _) => unreadable("it is a Status"),
            _ => ApiAnswer::Failed(failure(reply, Some(status))),
        };
    }
    if let ApiCall::List { .. } = call {
        return match read_metadata_page(target.kind, &reply.body) {
            Some(page) => ApiAnswer::Page(Arc::new(page)),
            None => unreadable("it is no list"),
        };
    }
    match decode(target.kind, &reply.body, view) {
        Err(object) => unreadable(&object.error.to_string()),
        Ok(record) if record.meta.name != target.name => unreadable("it is another object"),
        // Cluster-scoped objects have no namespace, whatever namespace the call names.
        Ok(ObjectRecord { meta, .. })
            if !meta.namespace.is_empty() && meta.namespace != target.namespace =>
        {
            unreadable("it is an object of another namespace")
        }
        Ok(record) => ApiAnswer::Object(Arc::new(record)),
    }
}

/// Decodes a body that is a `Status`; `None` for any other body.
fn status(body: &[u8]) -> Option<Status> {
    let head = JsonMembers::of(body);
    let is_status = head.text("kind") == "Status" && head.text("apiVersion") == "v1";
    is_status.then(|| serde_json::from_slice(body).ok())?
}

/// Whether a `Status` proves that the object does not exist (S1 in `docs/safety.md`).
///
/// DEVIATION(proof-of-absence): upstream accepts any 404 as proof, also a page of text and a path that is not served.
fn is_proof(status: &Status, target: &CallTarget, catalog: &KindCatalog) -> bool {
    let (Some(kind), Some(details)) = (catalog.get(target.kind), &status.details) else {
        return false;
    };
    status.status == "Failure"
        && status.reason == "NotFound"
        && status.code == 404
        && *details.name == *target.name
        && *details.group == *kind.group
        && (*details.kind == *kind.resource || *details.kind == *kind.kind)
}

/// The code of a refusal and the message of its `Status`.
pub(crate) fn refusal(reply: &HttpReply) -> String {
    failure(reply, status(&reply.body)).to_string()
}

fn failure(reply: &HttpReply, status: Option<Status>) -> CallFailure {
    let code = reply.status.as_u16();
    let kind = match code {
        409 => FailureKind::Conflict,
        422 if status.as_ref().is_some_and(is_about_the_uid) => FailureKind::Conflict,
        403 if status.as_ref().is_some_and(is_about_the_end) => FailureKind::NamespaceEnding,
        401 | 403 => FailureKind::Forbidden,
        404 => FailureKind::NotServed,
        429 => FailureKind::TooManyRequests,
        400..500 => FailureKind::Refused,
        _ => FailureKind::Unavailable,
    };
    let asked_by_status = || {
        let secs = status.as_ref()?.details.as_ref()?.retry_after_seconds;
        (secs > 0).then(|| Duration::from_secs(secs.into()).min(RETRY_AFTER_MAX))
    };
    let retry_after = retry_after(&reply.headers).or_else(asked_by_status);
    let message = match status {
        Some(status) => shortened(&status.message),
        None if code == 404 => "the server does not serve this path".to_owned(),
        None => "the response is not a Status".to_owned(),
    };
    CallFailure {
        kind,
        status: Some(code),
        message,
        retry_after,
    }
}

/// Whether a patch was refused because its uid differs: the server takes the uid of a replaced object for an attempt to
/// change it.
fn is_about_the_uid(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.field == "metadata.uid")
}

/// Whether a create was refused because its namespace is terminating.
fn is_about_the_end(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == "NamespaceTerminating")
}

/// The first bytes of a server's message.
pub(crate) fn shortened(text: &str) -> String {
    let end = (0..=text.len().min(MESSAGE_MAX))
        .rev()
        .find(|&end| text.is_char_boundary(end));
    text[..end.unwrap_or(0)].to_owned()
}

/// Parses a date like `Sun, 06 Nov 1994 08:49:37 GMT`, the only form that HTTP servers write today.
fn http_date(text: &str) -> Option<Timestamp> {
    jiff::fmt::rfc2822::DateTimeParser::new()
        .parse_timestamp(text)
        .ok()
}

/// Describes an error of the client. The standard output and the arguments of a credential plugin are left out, because
/// they may hold credentials.
#[must_use]
pub fn described(error: &kube::Error) -> String {
    match error {
        kube::Error::Auth(AuthError::AuthExecRun { out, .. }) => {
            let errors = String::from_utf8_lossy(&out.stderr);
            let (status, errors) = (out.status, errors.trim());
            format!("the credential plugin ended with {status}: {errors}")
        }
        other => reason(other),
    }
}

/// An error and its sources in one line. A source whose text is already there is left out, and so is the client library's
/// word for errors of the layers below it.
pub(crate) fn reason(error: &(dyn Error + 'static)) -> String {
    if let Some(kube::Error::Service(inner)) = error.downcast_ref() {
        return reason(&**inner);
    }
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
