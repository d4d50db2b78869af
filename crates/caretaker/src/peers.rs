//! Detects active controller managers of Kubernetes and Volcano, so that `caretaker run` does not duplicate their work.
//!
//! kube-controller-manager is detected by its Lease, compared with the server's `Date` because other clocks may be off.
//! Volcano has no Lease by default, so its Pods are listed. The cluster does not show whether a manager runs without our
//! controllers; in that case the user sets `--take-over`. Two active controllers are wasteful, not dangerous: every delete
//! of ours has the judged uid and resourceVersion as preconditions. So a Lease that may not be read does not prevent
//! writes, while a server that does not answer is asked again.

use anyhow::anyhow;
use caretaker_controllers::runtime::controller::ObjectIdentity;
use http::header;
use http_body_util::{BodyExt, Limited};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::args::{
    BATCH_CRON, BATCH_TTL, ControllerSelection, GARBAGE_COLLECTOR, POD_GC, VOLCANO_CRON,
    VOLCANO_TTL,
};

/// The Lease of kube-controller-manager.
const LEASE: &str =
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";

/// The Pods of vc-controller-manager, with the label of its chart. One running Pod is enough.
const PODS: &str = "/api/v1/pods?labelSelector=app%3Dvolcano-controller&limit=100";

/// Duration of a Lease that has none: kube-controller-manager's default.
const LEASE_SECS: i64 = 15;

/// More than a page of a hundred Pods needs.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerManagers {
    /// kube-controller-manager: the holder of its Lease.
    pub(crate) kubernetes: PeerSighting,
    /// vc-controller-manager: one of its Pods.
    pub(crate) volcano: PeerSighting,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PeerSighting {
    /// Holds the name of the Lease holder or of the Pod.
    Alive(String),
    /// Not installed, or its Lease has expired.
    Absent,
    /// The server refused the request; a retry would not help.
    Forbidden(String),
    /// The request failed and has to be repeated.
    Unanswered(String),
}

/// What our controllers do while another manager is active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerPolicy {
    /// Run as a dry run.
    DryRun,
    /// Write as usual, with `--take-over`.
    TakeOver,
}

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

/// A controller manager, and the controllers that it shares with us.
struct PeerManager {
    name: &'static str,
    /// The objects that show whether it is active.
    shown_by: &'static str,
    /// Names in our `--controllers`.
    units: &'static [&'static str],
}

const KUBERNETES: PeerManager = PeerManager {
    name: "kube-controller-manager",
    shown_by: "the lease kube-system/kube-controller-manager",
    units: &[BATCH_CRON, GARBAGE_COLLECTOR, POD_GC, BATCH_TTL],
};

const VOLCANO: PeerManager = PeerManager {
    name: "vc-controller-manager",
    shown_by: "Pods with the label app=volcano-controller",
    units: &[VOLCANO_CRON, VOLCANO_TTL],
};

#[derive(Debug)]
struct PeerResponse {
    status: u16,
    date: Option<Timestamp>,
    body: Vec<u8>,
}

#[derive(Debug, Deserialize)]
struct LeaseObject {
    #[serde(default)]
    spec: LeaseFacts,
}

#[derive(Debug, Deserialize)]
struct PodList {
    items: Vec<Value>,
}

/// Sends one request for each manager.
pub(crate) async fn find(client: &Client) -> PeerManagers {
    PeerManagers {
        kubernetes: sighting(fetch(client, LEASE).await, holder),
        volcano: sighting(fetch(client, PODS).await, running),
    }
}

fn sighting(
    response: anyhow::Result<PeerResponse>,
    read: fn(&PeerResponse) -> PeerSighting,
) -> PeerSighting {
    match response {
        Ok(response) => read(&response),
        Err(error) => PeerSighting::Unanswered(format!("{error:#}")),
    }
}

/// Whether the holder of a Lease has renewed it within its duration, by the server's clock.
pub(crate) fn is_alive(lease: &LeaseFacts, server_date: Timestamp) -> bool {
    let duration = SignedDuration::from_secs(lease.duration_secs.unwrap_or(LEASE_SECS));
    let renewed_in_time = |renewed| server_date.duration_since(renewed) <= duration;
    !lease.holder.is_empty() && lease.renewed.is_some_and(renewed_in_time)
}

// === impl PeerManagers ===

impl PeerManagers {
    /// Whether a controller may write: no other manager does its work, or `--take-over` is set.
    pub(crate) fn may_act(&self, unit: &str, policy: PeerPolicy) -> bool {
        policy == PeerPolicy::TakeOver
            || self.sightings().into_iter().all(|(manager, sighting)| {
                let is_free = matches!(sighting, PeerSighting::Absent | PeerSighting::Forbidden(_));
                is_free || !manager.units.contains(&unit)
            })
    }

    /// Whether a request has to be repeated.
    pub(crate) fn is_unanswered(&self) -> bool {
        let mut sightings = self.sightings().into_iter();
        sightings.any(|(_, sighting)| matches!(sighting, PeerSighting::Unanswered(_)))
    }

    /// One sentence for each manager that shares a selected controller.
    pub(crate) fn sentences(
        &self,
        controllers: &ControllerSelection,
        policy: PeerPolicy,
    ) -> Vec<String> {
        let sentences = self
            .sightings()
            .into_iter()
            .filter_map(|(manager, sighting)| {
                let units = manager.units.iter().copied();
                let ours: Vec<&str> = units.filter(|unit| controllers.runs(unit)).collect();
                (!ours.is_empty()).then(|| manager.sentence(sighting, &ours, policy))?
            });
        sentences.collect()
    }

    fn sightings(&self) -> [(&'static PeerManager, &PeerSighting); 2] {
        [(&KUBERNETES, &self.kubernetes), (&VOLCANO, &self.volcano)]
    }
}

// === impl PeerPolicy ===

impl PeerPolicy {
    pub(crate) fn by_flag(take_over: bool) -> Self {
        if take_over {
            Self::TakeOver
        } else {
            Self::DryRun
        }
    }
}

// === impl PeerManager ===

impl PeerManager {
    /// `ours`: the controllers that both have, at least one.
    fn sentence(
        &self,
        sighting: &PeerSighting,
        ours: &[&str],
        policy: PeerPolicy,
    ) -> Option<String> {
        let Self { name, shown_by, .. } = self;
        let list = ours.join(", ");
        // Its flag does not know halves of controllers.
        let off = ours
            .iter()
            .map(|unit| format!(",-{}", unit.split('/').next().unwrap_or(unit)));
        let off: String = off.collect();
        match sighting {
            PeerSighting::Absent => None,
            PeerSighting::Alive(who) if policy == PeerPolicy::TakeOver => Some(format!(
                "{name} is active ({who}); --take-over is set, so these controllers write, too: {list}"
            )),
            PeerSighting::Alive(who) => Some(format!(
                "{name} is active ({who}), so these controllers run as a dry run: {list}. To let them write, start \
                 {name} with --controllers=*{off} and caretaker with --take-over"
            )),
            PeerSighting::Forbidden(why) => Some(format!(
                "cannot tell whether {name} is active ({shown_by}: {why}); if it is, start it with \
                 --controllers=*{off}"
            )),
            PeerSighting::Unanswered(why) => Some(format!(
                "cannot tell whether {name} is active ({why}), so these controllers run as a dry run: {list}"
            )),
        }
    }
}

async fn fetch(client: &Client, path: &str) -> anyhow::Result<PeerResponse> {
    let request = http::Request::get(path)
        .header(header::ACCEPT, "application/json")
        .body(Body::empty())?;
    let response = client.send(request).await?;
    let (parts, body) = response.into_parts();
    let date = parts.headers.get(header::DATE);
    let date = date.and_then(|date| jiff::fmt::rfc2822::parse(date.to_str().ok()?).ok());
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    Ok(PeerResponse {
        status: parts.status.as_u16(),
        date: date.map(|date| date.timestamp()),
        body: body.map_err(|error| anyhow!(error))?.to_bytes().to_vec(),
    })
}

/// Reads the holder of the Lease.
fn holder(response: &PeerResponse) -> PeerSighting {
    let lease = match object::<LeaseObject>(response) {
        Ok(lease) => lease.spec,
        Err(other) => return other,
    };
    match response.date {
        Some(date) if is_alive(&lease, date) => PeerSighting::Alive(lease.holder),
        None if !lease.holder.is_empty() => {
            PeerSighting::Unanswered("the response has no Date".into())
        }
        _ => PeerSighting::Absent,
    }
}

/// Reads the first running Pod.
fn running(response: &PeerResponse) -> PeerSighting {
    let pods = match object::<PodList>(response) {
        Ok(pods) => pods.items,
        Err(other) => return other,
    };
    let pod = pods.iter().find(|pod| pod["status"]["phase"] == "Running");
    pod.map_or(PeerSighting::Absent, |pod| {
        let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
        let identity = ObjectIdentity {
            kind: "Pod".into(),
            namespace: text("namespace").into(),
            name: text("name").into(),
            ..ObjectIdentity::default()
        };
        PeerSighting::Alive(identity.to_string())
    })
}

/// The object in a response, or the sighting without one. A kind that is not served has no objects either.
fn object<T: DeserializeOwned>(response: &PeerResponse) -> Result<T, PeerSighting> {
    let unanswered = |why: String| PeerSighting::Unanswered(why);
    match response.status {
        200 => {
            serde_json::from_slice(&response.body).map_err(|error| unanswered(error.to_string()))
        }
        404 => Err(PeerSighting::Absent),
        401 | 403 => Err(PeerSighting::Forbidden(response.status.to_string())),
        status => Err(unanswered(status.to_string())),
    }
}

#[cfg(test)]
mod tests;
