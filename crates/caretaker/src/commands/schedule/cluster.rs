//! Requests for CronJobs of both kinds and for their Jobs: a list, one object, one new Job.
//!
//! The differences between the kinds are a row of [`KINDS`]. Errors are sorted by what the user can do: the kind is not
//! served, access is forbidden, or the server's message.

use std::time::Duration;

use anyhow::Result;
use caretaker_controllers::cron::{self, CronDialect};
use caretaker_controllers::runtime::clients::ClusterClients;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Limited};
use jiff::Timestamp;
use kube::client::Body;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::time::timeout;

use crate::args::ClusterFlags;

/// Page size, as in kubectl.
const PAGE_OBJECTS: usize = 500;
/// More than a full page of large CronJobs needs.
const RESPONSE_BYTES_MAX: usize = 512 * 1024 * 1024;
/// Time limit of one request: a user waits for it.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct CronKind {
    /// Names that users may write. The first one is shown.
    pub(super) words: &'static [&'static str],
    /// The row of its controller.
    pub(super) dialect: &'static CronDialect,
    /// `cronjobs.batch`, for messages.
    pub(super) resource: &'static str,
    pub(super) job_resource: &'static str,
}

/// CronJobs of Kubernetes and of Volcano.
pub(super) static KINDS: [CronKind; 2] = [
    CronKind {
        words: &[
            "cronjob",
            "cronjobs",
            "cj",
            "cronjob.batch",
            "cronjobs.batch",
        ],
        dialect: &cron::BATCH,
        resource: "cronjobs.batch",
        job_resource: "jobs.batch",
    },
    CronKind {
        words: &[
            "cronvcjob",
            "cronvj",
            "cronjob.batch.volcano.sh",
            "cronjobs.batch.volcano.sh",
        ],
        dialect: &cron::VOLCANO,
        resource: "cronjobs.batch.volcano.sh",
        job_resource: "jobs.batch.volcano.sh",
    },
];

/// A client and the namespace of the flags.
pub(super) struct CronCluster {
    client: kube::Client,
    pub(super) namespace: String,
}

/// A list with the server's `Date`.
#[derive(Debug, Default)]
pub(super) struct CronList {
    pub(super) objects: Vec<Value>,
    pub(super) date: Option<Timestamp>,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CronRequestError {
    #[error("not found")]
    Absent,
    #[error("the server does not serve this resource type")]
    NotServed,
    #[error("forbidden")]
    Forbidden,
    #[error("already exists")]
    AlreadyExists,
    /// The server's message, or the cause.
    #[error("{0}")]
    Other(String),
}

struct CronResponse {
    status: u16,
    date: Option<Timestamp>,
    body: Value,
}

// === impl CronCluster ===

impl CronCluster {
    pub(super) async fn find(flags: &ClusterFlags) -> Result<Self> {
        let (clients, namespace): (ClusterClients, String) = super::super::connect(flags).await?;
        Ok(Self {
            client: clients.requests(),
            namespace,
        })
    }

    /// All objects at a path, page by page.
    pub(super) async fn list(&self, path: &str) -> Result<CronList, CronRequestError> {
        let mut listed = CronList::default();
        let mut more = String::new();
        loop {
            let page = format!("{path}?limit={PAGE_OBJECTS}{more}");
            let CronResponse { status, date, body } =
                self.exchange(Method::GET, &page, None).await?;
            if status != 200 {
                return Err(error_of(status, &body, None));
            }
            listed.date = date.or(listed.date);
            let Value::Object(mut body) = body else {
                let why = "the response is not a list".to_owned();
                return Err(CronRequestError::Other(why));
            };
            if let Some(Value::Array(items)) = body.remove("items") {
                listed.objects.extend(items);
            }
            let meta = body.get("metadata");
            match meta.and_then(|meta| meta["continue"].as_str()) {
                Some(token) if !token.is_empty() => more = format!("&continue={}", escaped(token)),
                _ => return Ok(listed),
            }
        }
    }

    pub(super) async fn get(&self, kind: &CronKind, name: &str) -> Result<Value, CronRequestError> {
        let all = kind.path(Some(&self.namespace), "cronjobs");
        let path = format!("{all}/{}", escaped(name));
        let CronResponse { status, body, .. } = self.exchange(Method::GET, &path, None).await?;
        match status {
            200 => Ok(body),
            status => Err(error_of(status, &body, Some(name))),
        }
    }

    /// Whether the namespace exists, or may not be read.
    pub(super) async fn may_have_namespace(&self) -> bool {
        let path = format!("/api/v1/namespaces/{}", escaped(&self.namespace));
        let answer = self.exchange(Method::GET, &path, None).await;
        !answer.is_ok_and(|answer| {
            let error = error_of(answer.status, &answer.body, Some(&self.namespace));
            error == CronRequestError::Absent
        })
    }

    pub(super) async fn create_job(
        &self,
        kind: &CronKind,
        job: &Value,
    ) -> Result<(), CronRequestError> {
        let path = kind.path(Some(&self.namespace), "jobs");
        let CronResponse { status, body, .. } =
            self.exchange(Method::POST, &path, Some(job)).await?;
        match status {
            200..300 => Ok(()),
            409 if body["reason"] == "AlreadyExists" => Err(CronRequestError::AlreadyExists),
            status => Err(CronRequestError::Other(message_of(status, &body))),
        }
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<CronResponse, CronRequestError> {
        let other = |why: String| CronRequestError::Other(why);
        let bytes = body.map(|body| body.to_string().into_bytes());
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(bytes.unwrap_or_default()))
            .map_err(|error| other(error.to_string()))?;
        let answered = timeout(RESPONSE_TIMEOUT, async {
            let response = self.client.send(request).await;
            let response = response.map_err(|error| other(error.to_string()))?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, RESPONSE_BYTES_MAX).collect().await;
            let body = body.map_err(|error| other(error.to_string()))?.to_bytes();
            let date = parts.headers.get(header::DATE);
            let date = date.and_then(|date| jiff::fmt::rfc2822::parse(date.to_str().ok()?).ok());
            Ok(CronResponse {
                status: parts.status.as_u16(),
                date: date.map(|date| date.timestamp()),
                body: serde_json::from_slice(&body).unwrap_or_default(),
            })
        });
        let secs = RESPONSE_TIMEOUT.as_secs();
        let late = |_| Err(other(format!("no response within {secs} s")));
        answered.await.unwrap_or_else(late)
    }
}

// === impl CronKind ===

impl CronKind {
    /// Path of a resource of this group.
    pub(super) fn path(&self, namespace: Option<&str>, resource: &str) -> String {
        let api = self.dialect.api_version;
        match namespace {
            Some(namespace) => {
                let namespace = escaped(namespace);
                format!("/apis/{api}/namespaces/{namespace}/{resource}")
            }
            None => format!("/apis/{api}/{resource}"),
        }
    }

    /// The name that is shown.
    pub(super) fn word(&self) -> &'static str {
        self.words[0]
    }
}

/// The error of a failed read. A 404 is about the object only if it names it.
fn error_of(status: u16, body: &Value, name: Option<&str>) -> CronRequestError {
    match status {
        404 if name.is_some_and(|name| body["details"]["name"] == name) => CronRequestError::Absent,
        404 => CronRequestError::NotServed,
        401 | 403 => CronRequestError::Forbidden,
        status => CronRequestError::Other(message_of(status, body)),
    }
}

/// The message of the server, or its status.
fn message_of(status: u16, body: &Value) -> String {
    match body["message"].as_str() {
        Some(message) => message.to_owned(),
        None => format!("HTTP status {status}"),
    }
}

/// Percent-encodes a part of a path or of a query.
fn escaped(text: &str) -> String {
    const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~');
    utf8_percent_encode(text, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_404_is_about_the_object_or_the_kind() {
        let absent = json!({"reason": "NotFound", "details": {"name": "a", "kind": "cronjobs"}});
        let user = json!({"reason": "Forbidden", "message": "cronjobs.batch is forbidden: User \"u\" cannot list resource"});
        let cases = [
            (404, &absent, Some("a"), CronRequestError::Absent),
            (404, &absent, Some("b"), CronRequestError::NotServed),
            (404, &Value::Null, Some("a"), CronRequestError::NotServed),
            (404, &Value::Null, None, CronRequestError::NotServed),
            (403, &user, None, CronRequestError::Forbidden),
            (403, &user, Some("a"), CronRequestError::Forbidden),
            (403, &Value::Null, None, CronRequestError::Forbidden),
            (
                500,
                &Value::Null,
                None,
                CronRequestError::Other("HTTP status 500".to_owned()),
            ),
        ];
        for (status, body, name, expected) in cases {
            assert_eq!(error_of(status, body, name), expected, "{status} {body}");
        }
    }

    #[test]
    fn finished_jobs_are_recognised_per_kind() {
        let condition = |of: &str, status: &str| json!({"status": {"conditions": [{"type": of, "status": status}]}});
        let phase = |phase: &str| json!({"status": {"state": {"phase": phase}}});
        let cases = [
            (0, condition("Complete", "True"), true),
            (0, condition("Failed", "True"), true),
            (0, condition("Complete", "False"), false),
            (0, condition("SuccessCriteriaMet", "True"), false),
            (0, json!({}), false),
            (1, phase("Completed"), true),
            (1, phase("Failed"), true),
            (1, phase("Terminated"), true),
            (1, phase("Aborted"), false),
            (1, phase("Running"), false),
            (1, json!({}), false),
        ];
        for (kind, job, expected) in cases {
            assert_eq!(KINDS[kind].dialect.has_finished(&job), expected, "{job}");
        }
    }
}
