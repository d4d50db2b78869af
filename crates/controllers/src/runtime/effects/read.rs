//! What a response means. Pure: a reply goes in, an answer comes out.
//!
//! The part that safety rests on is small: an object is absent only if a well-formed `Status` with code 404 and reason
//! NotFound names that very object, of a kind that discovery serves. A page of text, another object's 404, a broken
//! answer mean nothing about the object, and nothing is concluded from them.

use std::sync::Arc;
use std::time::Duration;

use caretaker_machinery::status::Status;
use serde::Deserialize;

use super::exchange::{RETRY_AFTER_MAX, Reply};
use crate::runtime::call::{Answer, Call, Failure, FailureKind, Proof, Target};
use crate::runtime::kind::Catalog;
use crate::runtime::record::{Record, View, decode};

/// How much of a server's words is kept, in bytes: they go to logs and Events.
const MESSAGE_MAX: usize = 512;

/// What an answer begins with, whatever it is.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    kind: String,
    #[serde(default, rename = "apiVersion")]
    api_version: String,
}

/// What `reply` to `call` says.
pub(crate) fn answer(reply: &Reply, call: &Call, view: View, catalog: &Catalog) -> Answer {
    let target = call.target();
    if reply.status.is_success() {
        return success(reply, call, view);
    }
    let status = reply.is_json().then(|| status(&reply.body)).flatten();
    if reply.status.as_u16() == 404
        && let Some(status) = &status
        && is_proof(status, target, catalog)
    {
        return Answer::Absent(Proof::NotFound);
    }
    Answer::Failed(failure(reply, status))
}

fn success(reply: &Reply, call: &Call, view: View) -> Answer {
    let target = call.target();
    let unreadable = |why: &str| {
        Answer::Failed(Failure {
            kind: FailureKind::Unavailable,
            status: Some(reply.status.as_u16()),
            message: format!("the answer is not readable: {why}"),
            retry_after: None,
        })
    };
    if !reply.is_json() {
        return unreadable("it is not JSON");
    }
    if let Some(status) = status(&reply.body) {
        return match (status.status.as_str(), call) {
            // A delete shows nothing when nothing is left, and a binding never does.
            ("Success", Call::Delete { .. } | Call::Create { .. }) => Answer::Done,
            ("Success", _) => unreadable("it is a Status"),
            _ => Answer::Failed(failure(reply, Some(status))),
        };
    }
    match decode(target.kind, &reply.body, view) {
        Err(error) => unreadable(&error.why),
        Ok(record) if record.meta.name != target.name => unreadable("it is another object"),
        // Objects of the cluster have none, whatever namespace they were asked for from.
        Ok(Record { meta, .. })
            if !meta.namespace.is_empty() && meta.namespace != target.namespace =>
        {
            unreadable("it is an object of another namespace")
        }
        Ok(record) => Answer::Object(Arc::new(record)),
    }
}

/// The `Status` that a body is, if it is one.
fn status(body: &[u8]) -> Option<Status> {
    let head: Head = serde_json::from_slice(body).ok()?;
    if head.kind != "Status" || head.api_version != "v1" {
        return None;
    }
    serde_json::from_slice(body).ok()
}

/// Reports if a `Status` proves that the object does not exist (S1 in `docs/safety.md`).
///
/// DEVIATION(proof-of-absence): upstream takes any 404 for proof, also a page of text and one for a path that is not
/// served.
fn is_proof(status: &Status, target: &Target, catalog: &Catalog) -> bool {
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

fn failure(reply: &Reply, status: Option<Status>) -> Failure {
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
    let retry_after = reply.retry_after().or_else(asked_by_status);
    let message = match status {
        Some(status) => shortened(&status.message),
        None if code == 404 => "no such path".to_owned(),
        None => "the answer is no Status".to_owned(),
    };
    Failure {
        kind,
        status: Some(code),
        message,
        retry_after,
    }
}

/// A patch that names the uid of an object that was replaced meanwhile is refused as an attempt to change the uid.
fn is_about_the_uid(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes
        .into_iter()
        .any(|cause| cause.field == "metadata.uid")
}

/// What is created in a namespace that ends is refused, and this is how the server says that.
fn is_about_the_end(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes
        .into_iter()
        .any(|cause| cause.reason == "NamespaceTerminating")
}

fn shortened(text: &str) -> String {
    let end = (0..=text.len().min(MESSAGE_MAX))
        .rev()
        .find(|&end| text.is_char_boundary(end));
    text[..end.unwrap_or(0)].to_owned()
}

#[cfg(test)]
mod tests;
