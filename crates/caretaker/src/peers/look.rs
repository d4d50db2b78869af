//! One request about another controller manager, and what its response shows.
//!
//! Every request has a timeout. Only a complete response with code 403 says that a look is forbidden; 401 says that the
//! server does not know us, which is no answer to the question.

use std::time::Duration;

use caretaker_controllers::runtime::controller::ObjectIdentity;
use caretaker_controllers::runtime::effects::described;
use http::header;
use http_body_util::{BodyExt, Limited};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The longest wait for a response.
pub(super) const LOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// More than a hundred Pods need.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The spec of a Lease.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LeaseFacts {
    /// Empty when the Lease was released.
    #[serde(rename = "holderIdentity")]
    pub(crate) holder: String,
    #[serde(rename = "renewTime")]
    pub(crate) renewed: Option<Timestamp>,
    #[serde(rename = "leaseDurationSeconds")]
    pub(crate) duration_secs: Option<i64>,
}

/// The result of one request about a manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PeerLook {
    /// Its Lease, and the server's time.
    Lease(LeaseFacts, Option<Timestamp>),
    /// Holds the name of one of its running Pods.
    Pod(String),
    /// There is no Lease or no running Pod.
    Missing,
    /// 403: a retry would not help.
    Forbidden(String),
    /// 401: the server does not accept the credentials.
    Unauthorized(String),
    /// The server did not answer.
    Unreachable(String),
    /// The server answered with an error.
    Failed(String),
}

#[derive(Debug)]
pub(super) struct PeerResponse {
    pub(super) status: u16,
    pub(super) date: Option<Timestamp>,
    pub(super) body: Vec<u8>,
}

/// Reads the response of one kind of look.
pub(super) type LookReader = fn(&PeerResponse) -> PeerLook;

#[derive(Debug, Deserialize)]
struct LeaseObject {
    #[serde(default)]
    spec: LeaseFacts,
}

#[derive(Debug, Deserialize)]
struct PodList {
    items: Vec<Value>,
}

#[derive(Debug, Deserialize)]
struct RefusalStatus {
    message: String,
}

/// Sends the request of a look and reads its response.
pub(super) async fn look(client: &Client, path: &str, read: LookReader) -> PeerLook {
    match tokio::time::timeout(LOOK_TIMEOUT, fetch(client, path)).await {
        Ok(Ok(response)) => read(&response),
        Ok(Err(why)) => PeerLook::Unreachable(why),
        Err(_) => PeerLook::Unreachable(format!("no answer within {} s", LOOK_TIMEOUT.as_secs())),
    }
}

/// Reads the Lease.
pub(super) fn lease(response: &PeerResponse) -> PeerLook {
    match object::<LeaseObject>(response) {
        Ok(lease) => PeerLook::Lease(lease.spec, response.date),
        Err(other) => other,
    }
}

/// Reads the first running Pod.
pub(super) fn running_pod(response: &PeerResponse) -> PeerLook {
    first_pod(response, |pod| pod["status"]["phase"] == "Running")
}

/// Reads the first Pod that runs and is ready: one that crashes again and again is Running, too.
pub(super) fn ready_pod(response: &PeerResponse) -> PeerLook {
    first_pod(response, |pod| {
        let status = &pod["status"];
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        status["phase"] == "Running"
            && conditions.any(|it| it["type"] == "Ready" && it["status"] == "True")
    })
}

fn first_pod(response: &PeerResponse, is_sign: impl Fn(&Value) -> bool) -> PeerLook {
    let pods = match object::<PodList>(response) {
        Ok(pods) => pods.items,
        Err(other) => return other,
    };
    let pod = pods.iter().find(|pod| is_sign(pod));
    pod.map_or(PeerLook::Missing, |pod| {
        let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
        let identity = ObjectIdentity {
            kind: "Pod".into(),
            namespace: text("namespace").into(),
            name: text("name").into(),
            ..ObjectIdentity::default()
        };
        PeerLook::Pod(identity.to_string())
    })
}

/// The object in a response, or the look without one. A kind that is not served has no objects either.
fn object<T: DeserializeOwned>(response: &PeerResponse) -> Result<T, PeerLook> {
    match response.status {
        200 => serde_json::from_slice(&response.body)
            .map_err(|error| PeerLook::Failed(error.to_string())),
        404 => Err(PeerLook::Missing),
        401 => Err(PeerLook::Unauthorized(refusal(response))),
        403 => Err(PeerLook::Forbidden(refusal(response))),
        _ => Err(PeerLook::Failed(refusal(response))),
    }
}

/// The code of a refusal and the message of its `Status`: `403: leases is forbidden`.
fn refusal(response: &PeerResponse) -> String {
    let status = serde_json::from_slice::<RefusalStatus>(&response.body);
    match status {
        Ok(status) if !status.message.is_empty() => {
            format!("{}: {}", response.status, status.message)
        }
        _ => response.status.to_string(),
    }
}

async fn fetch(client: &Client, path: &str) -> Result<PeerResponse, String> {
    let request = http::Request::get(path)
        .header(header::ACCEPT, "application/json")
        .body(Body::empty())
        .map_err(|error| error.to_string())?;
    let response = client.send(request).await;
    let response = response.map_err(|error| described(&error))?;
    let (parts, body) = response.into_parts();
    let date = parts.headers.get(header::DATE);
    let date = date.and_then(|date| jiff::fmt::rfc2822::parse(date.to_str().ok()?).ok());
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| format!("the answer broke off: {error}"))?;
    Ok(PeerResponse {
        status: parts.status.as_u16(),
        date: date.map(|date| date.timestamp()),
        body: body.to_bytes().to_vec(),
    })
}
