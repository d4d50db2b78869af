//! The CronJobs of a cluster, of both kinds: how they are asked for and what their Jobs look like.
//!
//! What differs between the kinds is a row. Requests are plain: a page of objects, one object, one new Job. What came back
//! instead is sorted by what a user can do about it: the kind is not there, it may not be read, or something else.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use caretaker_controllers::cron::{self, Dialect};
use caretaker_controllers::runtime::clients::Clients;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Limited};
use jiff::Timestamp;
use kube::client::Body;
use serde_json::Value;
use tokio::time::timeout;

use crate::args::Place;

/// Objects in one answer, as kubectl asks for.
const PAGE_OBJECTS: usize = 500;
/// Longest answer: a page of objects that have three mebibytes each is more than anybody has, and this is not much memory.
const ANSWER_BYTES_MAX: usize = 512 * 1024 * 1024;
/// How long one answer may take. Somebody waits for it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A kind of CronJob.
#[derive(Debug)]
pub(super) struct CronKind {
    /// As users name it. The first word is the one it is shown by.
    pub(super) words: &'static [&'static str],
    /// What its controller knows of it.
    pub(super) dialect: &'static Dialect,
    /// As messages name it and its Jobs.
    pub(super) resource: &'static str,
    pub(super) job_resource: &'static str,
}

/// Both of them.
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

/// Where CronJobs are.
pub(super) struct Cluster {
    client: kube::Client,
    /// The namespace that is meant.
    pub(super) namespace: String,
}

/// Objects, and what time it was for whoever gave them.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub(super) objects: Vec<Value>,
    pub(super) date: Option<Timestamp>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The kind exists, the object does not.
    Absent,
    /// The server does not have the kind.
    NotServed,
    /// 401 or 403.
    Forbidden,
    /// The name of what was to be made is taken.
    Taken,
    /// Anything else, in words.
    Other(String),
}

/// An answer as it came.
struct Reply {
    status: u16,
    date: Option<Timestamp>,
    body: Value,
}

// === impl Cluster ===

impl Cluster {
    pub(super) async fn find(place: &Place) -> Result<Self> {
        let (clients, namespace): (Clients, String) = super::super::reach(place).await?;
        Ok(Self {
            client: clients.requests(),
            namespace,
        })
    }

    /// All objects at a path, page by page.
    pub(super) async fn list(&self, path: &str) -> Result<Listed, Refusal> {
        let mut listed = Listed::default();
        let mut more = String::new();
        loop {
            let page = format!("{path}?limit={PAGE_OBJECTS}{more}");
            let Reply { status, date, body } = self.exchange(Method::GET, &page, None).await?;
            if status != 200 {
                return Err(refusal(status, &body, None));
            }
            listed.date = date.or(listed.date);
            let Value::Object(mut body) = body else {
                return Err(Refusal::Other("its answer is no list".to_owned()));
            };
            if let Some(Value::Array(items)) = body.remove("items") {
                listed.objects.extend(items);
            }
            match body
                .get("metadata")
                .and_then(|meta| meta["continue"].as_str())
            {
                Some(token) if !token.is_empty() => more = format!("&continue={}", escaped(token)),
                _ => return Ok(listed),
            }
        }
    }

    pub(super) async fn get(&self, kind: &CronKind, name: &str) -> Result<Value, Refusal> {
        let path = format!(
            "{}/{}",
            kind.path(Some(&self.namespace), "cronjobs"),
            escaped(name)
        );
        let Reply { status, body, .. } = self.exchange(Method::GET, &path, None).await?;
        match status {
            200 => Ok(body),
            status => Err(refusal(status, &body, Some(name))),
        }
    }

    pub(super) async fn create_job(&self, kind: &CronKind, job: &Value) -> Result<(), Refusal> {
        let path = kind.path(Some(&self.namespace), "jobs");
        let Reply { status, body, .. } = self.exchange(Method::POST, &path, Some(job)).await?;
        match status {
            200..300 => Ok(()),
            409 if body["reason"] == "AlreadyExists" => Err(Refusal::Taken),
            status => Err(Refusal::Other(said(status, &body))),
        }
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Reply, Refusal> {
        let other = |why: String| Refusal::Other(why);
        let bytes = body.map(|body| body.to_string().into_bytes());
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(bytes.unwrap_or_default()))
            .map_err(|error| other(error.to_string()))?;
        let answered = timeout(ANSWER_TIMEOUT, async {
            let response = self.client.send(request).await;
            let response = response.map_err(|error| other(error.to_string()))?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| other(error.to_string()))?.to_bytes();
            let date = parts.headers.get(header::DATE);
            let date = date.and_then(|date| jiff::fmt::rfc2822::parse(date.to_str().ok()?).ok());
            Ok(Reply {
                status: parts.status.as_u16(),
                date: date.map(|date| date.timestamp()),
                body: serde_json::from_slice(&body).unwrap_or_default(),
            })
        });
        match answered.await {
            Ok(reply) => reply,
            Err(_) => {
                let secs = ANSWER_TIMEOUT.as_secs();
                Err(other(format!("it does not answer within {secs} s")))
            }
        }
    }
}

// === impl Refusal ===

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "there is none",
            Self::NotServed => "the server does not have the kind",
            Self::Forbidden => "you are not allowed to",
            Self::Taken => "the name is taken",
            Self::Other(why) => why,
        })
    }
}

// === impl CronKind ===

impl CronKind {
    /// Where objects of a resource of this group are.
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

    /// The word it is shown by.
    pub(super) fn word(&self) -> &'static str {
        self.words[0]
    }
}

/// Why a read was refused. A 404 is about the object only if it names it.
fn refusal(status: u16, body: &Value, name: Option<&str>) -> Refusal {
    match status {
        404 if name.is_some_and(|name| body["details"]["name"] == name) => Refusal::Absent,
        404 => Refusal::NotServed,
        401 | 403 => Refusal::Forbidden,
        status => Refusal::Other(said(status, body)),
    }
}

/// What the server says, or at least its code.
fn said(status: u16, body: &Value) -> String {
    match body["message"].as_str() {
        Some(message) => message.to_owned(),
        None => format!("HTTP status {status}"),
    }
}

/// Text as a path or a query spells it.
fn escaped(text: &str) -> String {
    let mut spelled = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            spelled.push(byte.into());
        } else {
            spelled.push_str(&format!("%{byte:02X}"));
        }
    }
    spelled
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_refusal_is_about_the_object_the_kind_or_the_user() {
        let absent = json!({"reason": "NotFound", "details": {"name": "a", "kind": "cronjobs"}});
        let user = json!({"reason": "Forbidden", "message": "cronjobs.batch is forbidden: User \"u\" cannot list resource"});
        let cases = [
            (404, &absent, Some("a"), Refusal::Absent),
            (404, &absent, Some("b"), Refusal::NotServed),
            (404, &Value::Null, Some("a"), Refusal::NotServed),
            (404, &Value::Null, None, Refusal::NotServed),
            (403, &user, None, Refusal::Forbidden),
            (403, &user, Some("a"), Refusal::Forbidden),
            (403, &Value::Null, None, Refusal::Forbidden),
            (
                500,
                &Value::Null,
                None,
                Refusal::Other("HTTP status 500".to_owned()),
            ),
        ];
        for (status, body, name, expected) in cases {
            assert_eq!(refusal(status, body, name), expected, "{status} {body}");
        }
    }

    #[test]
    fn a_job_is_finished_when_its_kind_says_so() {
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
