//! Whether an original controller manager is alive in the cluster, so that `caretaker run` does not act beside it.
//!
//! kube-controller-manager is recognised by its Lease, judged by the server's own `Date`: clocks of other machines are
//! not trusted. Volcano ships without a Lease, so its Pods are looked for. Both may be there and have our controllers
//! switched off; nothing in the cluster tells, so `--take-over` does. Two who act at the same time are wasteful, not
//! dangerous: every delete names the very copy that was judged. That is why a Lease that may not be read is no reason
//! to stand still, while a server that does not answer has to be asked again.

use caretaker_controllers::runtime::controller::Identity;
use http::header;
use http_body_util::{BodyExt, Limited};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::client::Body;
use serde::Deserialize;

use crate::args::{
    BATCH_CRON, BATCH_TTL, Controllers, GARBAGE_COLLECTOR, POD_GC, VOLCANO_CRON, VOLCANO_TTL,
};

/// The Lease of kube-controller-manager.
const LEASE: &str =
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";

/// The Pods of vc-controller-manager, as its chart labels them; one that runs is enough, and there are never many.
const PODS: &str = "/api/v1/pods?labelSelector=app%3Dvolcano-controller&limit=100";

/// What a Lease without a duration is taken to last: kube-controller-manager's default.
const LEASE_SECS: i64 = 15;

/// More than a hundred Pods take; an answer that is longer is not read.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What is known of the originals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peers {
    /// kube-controller-manager: the holder of its Lease.
    pub(crate) kubernetes: Sighting,
    /// vc-controller-manager: one of its Pods.
    pub(crate) volcano: Sighting,
}

/// What was seen of one original.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sighting {
    /// It is alive, and this is it.
    Alive(String),
    /// It is not there, or not alive any more.
    Absent,
    /// We may not look. Nobody can tell, and waiting would not help.
    Forbidden(String),
    /// The server did not say. It has to be asked again before anything follows.
    Unanswered(String),
}

/// What to do beside a living original.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manners {
    /// Show what would be done, and leave it to the other.
    StandBack,
    /// Act all the same: `--take-over`.
    TakeOver,
}

/// What a Lease says about its holder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LeaseFacts {
    /// Empty when it was released.
    pub(crate) holder: String,
    pub(crate) renewed: Option<Timestamp>,
    pub(crate) duration_secs: Option<i64>,
}

/// An original, and which of our controllers it has too.
struct Original {
    name: &'static str,
    /// What cannot be looked at when it is forbidden.
    shown_by: &'static str,
    /// Names of the units as `--controllers` has them here.
    units: &'static [&'static str],
}

const KUBERNETES: Original = Original {
    name: "kube-controller-manager",
    shown_by: "the lease kube-system/kube-controller-manager",
    units: &[BATCH_CRON, GARBAGE_COLLECTOR, POD_GC, BATCH_TTL],
};

const VOLCANO: Original = Original {
    name: "vc-controller-manager",
    shown_by: "Pods with the label app=volcano-controller",
    units: &[VOLCANO_CRON, VOLCANO_TTL],
};

/// An answer of the server, read.
#[derive(Debug)]
struct Answer {
    status: u16,
    /// The server's time.
    date: Option<Timestamp>,
    body: Vec<u8>,
}

#[derive(Debug, Deserialize)]
struct Lease {
    #[serde(default)]
    spec: LeaseSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeaseSpec {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<i64>,
    renew_time: Option<Timestamp>,
}

#[derive(Debug, Deserialize)]
struct Pods {
    items: Vec<Pod>,
}

#[derive(Debug, Deserialize)]
struct Pod {
    metadata: Named,
    #[serde(default)]
    status: Phased,
}

#[derive(Debug, Deserialize)]
struct Named {
    #[serde(default)]
    namespace: String,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
struct Phased {
    #[serde(default)]
    phase: String,
}

/// Looks for the originals: two requests.
pub(crate) async fn find(client: &Client) -> Peers {
    Peers {
        kubernetes: ask(client, LEASE)
            .await
            .map_or_else(Sighting::Unanswered, |a| holder(&a)),
        volcano: ask(client, PODS)
            .await
            .map_or_else(Sighting::Unanswered, |a| running(&a)),
    }
}

/// Whether the holder of a Lease has renewed it within its duration, by the server's clock.
pub(crate) fn is_alive(lease: &LeaseFacts, server_date: Timestamp) -> bool {
    let duration = SignedDuration::from_secs(lease.duration_secs.unwrap_or(LEASE_SECS));
    let renewed_in_time = |renewed| server_date.duration_since(renewed) <= duration;
    !lease.holder.is_empty() && lease.renewed.is_some_and(renewed_in_time)
}

// === impl Peers ===

impl Peers {
    /// Whether a controller may act: nobody else does its work, or somebody said to take it over.
    pub(crate) fn let_act(&self, unit: &str, manners: Manners) -> bool {
        manners == Manners::TakeOver
            || self.sightings().into_iter().all(|(original, sighting)| {
                let is_free = matches!(sighting, Sighting::Absent | Sighting::Forbidden(_));
                is_free || !original.units.contains(&unit)
            })
    }

    /// Whether the server has to be asked again.
    pub(crate) fn is_unanswered(&self) -> bool {
        let mut sightings = self.sightings().into_iter();
        sightings.any(|(_, sighting)| matches!(sighting, Sighting::Unanswered(_)))
    }

    /// What there is to say about the originals before these controllers begin, a sentence each.
    pub(crate) fn sentences(&self, controllers: &Controllers, manners: Manners) -> Vec<String> {
        let told = self
            .sightings()
            .into_iter()
            .filter_map(|(original, sighting)| {
                let units = original.units.iter().copied();
                let ours: Vec<&str> = units.filter(|unit| controllers.runs(unit)).collect();
                (!ours.is_empty()).then(|| original.sentence(sighting, &ours, manners))?
            });
        told.collect()
    }

    fn sightings(&self) -> [(&'static Original, &Sighting); 2] {
        [(&KUBERNETES, &self.kubernetes), (&VOLCANO, &self.volcano)]
    }
}

// === impl Manners ===

impl Manners {
    /// By the flag `--take-over`.
    pub(crate) fn by_flag(take_over: bool) -> Self {
        if take_over {
            Self::TakeOver
        } else {
            Self::StandBack
        }
    }
}

// === impl Original ===

impl Original {
    /// `ours`: the controllers that both have, at least one.
    fn sentence(&self, sighting: &Sighting, ours: &[&str], manners: Manners) -> Option<String> {
        let Self { name, shown_by, .. } = self;
        let list = ours.join(", ");
        // Its own flag knows no halves of controllers.
        let off = ours
            .iter()
            .map(|unit| format!(",-{}", unit.split('/').next().unwrap_or(unit)));
        let off: String = off.collect();
        match sighting {
            Sighting::Absent => None,
            Sighting::Alive(who) if manners == Manners::TakeOver => Some(format!(
                "a {name} is alive ({who}), and by --take-over this acts beside it: {list}"
            )),
            Sighting::Alive(who) => Some(format!(
                "a {name} is alive ({who}), so this only shows what it would do: {list}. To let it act, start \
                 {name} with --controllers=*{off}, and this with --take-over"
            )),
            Sighting::Forbidden(why) => Some(format!(
                "nobody may tell us whether a {name} is alive ({shown_by}: {why}); if there is one, start it with \
                 --controllers=*{off}"
            )),
            Sighting::Unanswered(why) => Some(format!(
                "the server does not say whether a {name} is alive ({why}); until it does, this only shows what it \
                 would do: {list}"
            )),
        }
    }
}

async fn ask(client: &Client, path: &str) -> Result<Answer, String> {
    let request = http::Request::get(path)
        .header(header::ACCEPT, "application/json")
        .body(Body::empty())
        .map_err(|error| error.to_string())?;
    let response = client
        .send(request)
        .await
        .map_err(|error| error.to_string())?;
    let (parts, body) = response.into_parts();
    let date = parts.headers.get(header::DATE);
    let date = date.and_then(|date| jiff::fmt::rfc2822::parse(date.to_str().ok()?).ok());
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    Ok(Answer {
        status: parts.status.as_u16(),
        date: date.map(|date| date.timestamp()),
        body: body.map_err(|error| error.to_string())?.to_bytes().to_vec(),
    })
}

/// Who holds the Lease.
fn holder(answer: &Answer) -> Sighting {
    if let Some(other) = no_object(answer) {
        return other;
    }
    let lease: Lease = match serde_json::from_slice(&answer.body) {
        Ok(lease) => lease,
        Err(error) => return Sighting::Unanswered(error.to_string()),
    };
    let facts = LeaseFacts {
        holder: lease.spec.holder_identity.unwrap_or_default(),
        renewed: lease.spec.renew_time,
        duration_secs: lease.spec.lease_duration_seconds,
    };
    match answer.date {
        Some(date) if is_alive(&facts, date) => Sighting::Alive(facts.holder),
        None if !facts.holder.is_empty() => Sighting::Unanswered("no Date in its answer".into()),
        _ => Sighting::Absent,
    }
}

/// The first Pod that runs.
fn running(answer: &Answer) -> Sighting {
    if let Some(other) = no_object(answer) {
        return other;
    }
    let pods: Pods = match serde_json::from_slice(&answer.body) {
        Ok(pods) => pods,
        Err(error) => return Sighting::Unanswered(error.to_string()),
    };
    let pod = pods
        .items
        .into_iter()
        .find(|pod| pod.status.phase == "Running");
    pod.map_or(Sighting::Absent, |pod| {
        let identity = Identity {
            kind: "Pod".into(),
            namespace: pod.metadata.namespace,
            name: pod.metadata.name,
            ..Identity::default()
        };
        Sighting::Alive(identity.to_string())
    })
}

/// What follows from an answer that carries no object. A kind that is not served has no objects either.
fn no_object(answer: &Answer) -> Option<Sighting> {
    match answer.status {
        200 => None,
        404 => Some(Sighting::Absent),
        401 | 403 => Some(Sighting::Forbidden(answer.status.to_string())),
        status => Some(Sighting::Unanswered(status.to_string())),
    }
}

#[cfg(test)]
mod tests;
