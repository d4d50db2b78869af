//! Leader election by a Lease: which of several replicas writes.
//!
//! [`LeaseElection`] is pure: answers and times go in, requests and the state of a gate's row come out. `task` sends the
//! requests and sets the row. The algorithm is client-go's (`tools/leaderelection`, 1.36): a Lease that has not changed for
//! its duration, by the local steady clock, has no leader any more, so the clocks of replicas need not agree. A leader
//! that could not renew the Lease within the renew deadline stops to write; the deadline counts from the beginning of the
//! last request that renewed it, and is shorter than the duration that others wait.
//!
//! DEVIATION(warm-standby): upstream's process exits when it loses the Lease, and a standby starts its informers when it
//! leads. Here every replica keeps its watches and its index, and the row of the gate decides who writes.
//!
//! DEVIATION(lease-expiry): a standby of upstream tries every 2 to 4.4 s. Here it also tries when the Lease runs out, at
//! most a second later. A Lease of another program without a positive duration counts as one of our own duration.

mod task;
#[cfg(test)]
mod tests;

use std::time::Duration;

use caretaker_machinery::rng::Rng;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

pub use task::{LeaseParts, LeaseTask};

use super::controller::ObjectIdentity;
use super::driver::HoldState;

/// A standby waits up to this factor longer than the retry period, so that replicas do not ask at the same time.
const RETRY_JITTER: f64 = 1.2;

/// A standby tries within this time after the Lease has run out.
const EXPIRY_JITTER: Duration = Duration::from_secs(1);

const LEASE_VERSION: &str = "coordination.k8s.io/v1";
const LEASE_KIND: &str = "Lease";

/// The duration of a Lease that was released, in seconds.
const RELEASED_SECS: i64 = 1;

/// Where the Lease is, and who this replica is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseName {
    pub namespace: String,
    pub name: String,
    /// Different for every process.
    pub identity: String,
}

/// The times of an election. The defaults are upstream's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTimes {
    /// How long others wait for a leader that does not renew the Lease.
    pub lease: Duration,
    /// How long a leader that cannot renew the Lease goes on.
    pub renew: Duration,
    /// The time between two attempts.
    pub retry: Duration,
}

/// The state of one replica in an election.
#[derive(Debug)]
pub struct LeaseElection {
    name: LeaseName,
    times: LeaseTimes,
    rng: Rng,
    observed: Option<ObservedLease>,
    /// When the request began by which this replica last took or renewed the Lease.
    held_from: Option<Instant>,
    /// Why the last attempt failed.
    trouble: Option<String>,
    /// Whether the current attempt has read the Lease.
    has_read: bool,
}

/// The Lease as it was last seen.
#[derive(Debug)]
struct ObservedLease {
    object: Value,
    spec: LeaseSpec,
    /// When this state was seen first.
    since: Instant,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LeaseSpec {
    /// Empty when the Lease was released.
    holder_identity: Option<String>,
    lease_duration_seconds: Option<i64>,
    acquire_time: Option<String>,
    renew_time: Option<String>,
    lease_transitions: Option<i64>,
}

/// One request of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum LeaseRequest {
    Read,
    Create(Value),
    /// The object has the resourceVersion that it was read with.
    Replace(Value),
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum LeaseAnswer {
    /// The Lease as it is stored now.
    Lease(Value),
    /// 404: there is no such Lease.
    Missing,
    /// Any other answer, or none. Holds a sentence.
    Failed(String),
}

// === impl LeaseTimes ===

impl Default for LeaseTimes {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            renew: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

impl LeaseTimes {
    /// A sentence if the times contradict each other, by client-go's rules.
    #[must_use]
    pub fn contradiction(&self) -> Option<&'static str> {
        let retry_max = self.retry.mul_f64(RETRY_JITTER);
        match () {
            () if self.retry.is_zero() => Some("the retry period must be above zero"),
            () if self.lease < Duration::from_secs(1) => {
                Some("the lease duration must be at least 1s")
            }
            () if self.lease <= self.renew => {
                Some("the lease duration must be longer than the renew deadline")
            }
            () if self.renew <= retry_max => {
                Some("the renew deadline must be longer than 1.2 times the retry period")
            }
            () => None,
        }
    }

    /// The longest time for one request.
    fn request(&self) -> Duration {
        (self.renew / 2).max(Duration::from_secs(1))
    }
}

// === impl LeaseElection ===

impl LeaseElection {
    /// A replica that has not read the Lease yet. `rng` spreads the attempts of replicas.
    #[must_use]
    pub fn new(name: LeaseName, times: LeaseTimes, rng: Rng) -> Self {
        Self {
            name,
            times,
            rng,
            observed: None,
            held_from: None,
            trouble: None,
            has_read: false,
        }
    }

    /// Whether this replica leads.
    #[must_use]
    pub fn is_leader(&self, now: Instant) -> bool {
        self.leads_until().is_some_and(|until| now < until)
    }

    /// Begins an attempt to take or renew the Lease. A leader writes the Lease as it knows it, without a read.
    pub(crate) fn begin(&mut self, now: Instant, wall: Timestamp) -> LeaseRequest {
        self.has_read = false;
        match &self.observed {
            Some(lease) if self.is_leader(now) => LeaseRequest::Replace(self.taken(lease, wall)),
            _ => self.read(),
        }
    }

    /// Takes an answer. Returns the next request of the attempt, if there is one. `started` and
    /// `now`: when the request began and when its answer arrived.
    pub(crate) fn answered(
        &mut self,
        request: &LeaseRequest,
        answer: LeaseAnswer,
        [started, now]: [Instant; 2],
        wall: Timestamp,
    ) -> Option<LeaseRequest> {
        let is_read = *request == LeaseRequest::Read;
        match answer {
            LeaseAnswer::Lease(object) => {
                self.trouble = None;
                self.observe(object, now);
                if !is_read {
                    self.held_from = Some(started);
                    return None;
                }
                let lease = self.observed.as_ref()?;
                if self.may_take(lease, now) {
                    return Some(LeaseRequest::Replace(self.taken(lease, wall)));
                }
                self.held_from = None;
                None
            }
            LeaseAnswer::Missing if is_read => {
                self.observed = None;
                Some(LeaseRequest::Create(self.new_lease(wall)))
            }
            // The Lease is not as this leader knew it.
            LeaseAnswer::Missing | LeaseAnswer::Failed(_) if !self.has_read => Some(self.read()),
            LeaseAnswer::Missing => {
                self.trouble = Some("the Lease was deleted a moment ago".to_owned());
                None
            }
            LeaseAnswer::Failed(why) => {
                self.trouble = Some(why);
                None
            }
        }
    }

    /// The state of the row in the gates of all drivers.
    pub(crate) fn state(&self, now: Instant) -> HoldState {
        let LeaseName {
            namespace, name, ..
        } = &self.name;
        if let Some(until) = self.leads_until().filter(|until| now < *until) {
            return HoldState::PassUntil(until);
        }
        if let Some(why) = &self.trouble {
            let why = format!("cannot take the Lease {namespace}/{name} ({why}), so writes wait");
            return HoldState::Wait(why.into());
        }
        match self.observed.as_ref().and_then(|lease| lease.spec.holder()) {
            Some(holder) if holder != self.name.identity => {
                let why = format!("{holder} leads: it holds the Lease {namespace}/{name}");
                HoldState::Standby(why.into())
            }
            _ => {
                let why = format!("the Lease {namespace}/{name} is not taken yet, so writes wait");
                HoldState::Wait(why.into())
            }
        }
    }

    /// When the next attempt begins, counted from the end of the last one.
    pub(crate) fn next_attempt(&mut self, now: Instant) -> Instant {
        if self.is_leader(now) {
            return now + self.times.retry;
        }
        let jitter = self.times.retry.mul_f64(RETRY_JITTER);
        let retry = now + self.times.retry + self.rng.duration(Duration::ZERO..jitter);
        let expiry = self.observed.as_ref().and_then(|lease| {
            lease.spec.holder()?;
            lease.since.checked_add(self.duration(lease))
        });
        let expiry = expiry.filter(|expiry| *expiry > now);
        expiry.map_or(retry, |expiry| {
            retry.min(expiry + self.rng.duration(Duration::ZERO..EXPIRY_JITTER))
        })
    }

    /// The request that gives up the Lease; nothing if another replica may lead. This replica writes no more.
    pub(crate) fn release(&mut self, now: Instant, wall: Timestamp) -> Option<LeaseRequest> {
        let is_leader = self.is_leader(now);
        self.held_from = None;
        let lease = self.observed.as_ref().filter(|_| is_leader)?;
        let mut object = lease.object.clone();
        let time = micro_time(wall);
        for (field, value) in [
            ("holderIdentity", json!("")),
            ("leaseDurationSeconds", json!(RELEASED_SECS)),
            ("acquireTime", json!(time)),
            ("renewTime", json!(time)),
        ] {
            object["spec"][field] = value;
        }
        Some(LeaseRequest::Replace(object))
    }

    /// The Lease as Events name it.
    pub(crate) fn identity(&self) -> ObjectIdentity {
        let uid = self.observed.as_ref();
        let uid = uid.and_then(|lease| lease.object["metadata"]["uid"].as_str());
        ObjectIdentity {
            api_version: LEASE_VERSION.to_owned(),
            kind: LEASE_KIND.to_owned(),
            namespace: self.name.namespace.clone(),
            name: self.name.name.clone(),
            uid: uid.unwrap_or_default().to_owned(),
        }
    }

    fn leads_until(&self) -> Option<Instant> {
        self.held_from.map(|from| from + self.times.renew)
    }

    fn read(&mut self) -> LeaseRequest {
        self.has_read = true;
        LeaseRequest::Read
    }

    fn observe(&mut self, object: Value, now: Instant) {
        let spec: LeaseSpec = serde_json::from_value(object["spec"].clone()).unwrap_or_default();
        let same = self.observed.as_ref().filter(|lease| lease.spec == spec);
        let since = same.map_or(now, |lease| lease.since);
        self.observed = Some(ObservedLease {
            object,
            spec,
            since,
        });
    }

    fn may_take(&self, lease: &ObservedLease, now: Instant) -> bool {
        let Some(holder) = lease.spec.holder() else {
            return true;
        };
        let expiry = lease.since.checked_add(self.duration(lease));
        holder == self.name.identity || expiry.is_some_and(|expiry| expiry <= now)
    }

    fn duration(&self, lease: &ObservedLease) -> Duration {
        let secs = lease.spec.lease_duration_seconds.unwrap_or_default();
        let secs = u64::try_from(secs).ok().filter(|secs| *secs > 0);
        secs.map_or(self.times.lease, Duration::from_secs)
    }

    /// The Lease with this replica as its holder.
    fn taken(&self, lease: &ObservedLease, wall: Timestamp) -> Value {
        let mut object = lease.object.clone();
        let is_ours = lease.spec.holder() == Some(self.name.identity.as_str());
        let transitions = lease.spec.lease_transitions.unwrap_or_default();
        let acquired = lease.spec.acquire_time.clone().filter(|_| is_ours);
        for (field, value) in [
            ("holderIdentity", json!(self.name.identity)),
            ("leaseDurationSeconds", json!(self.times.lease.as_secs())),
            (
                "acquireTime",
                json!(acquired.unwrap_or_else(|| micro_time(wall))),
            ),
            ("renewTime", json!(micro_time(wall))),
            (
                "leaseTransitions",
                json!(transitions.saturating_add(i64::from(!is_ours))),
            ),
        ] {
            object["spec"][field] = value;
        }
        object
    }

    fn new_lease(&self, wall: Timestamp) -> Value {
        let time = micro_time(wall);
        json!({
            "apiVersion": LEASE_VERSION,
            "kind": LEASE_KIND,
            "metadata": {"namespace": self.name.namespace, "name": self.name.name},
            "spec": {
                "holderIdentity": self.name.identity,
                "leaseDurationSeconds": self.times.lease.as_secs(),
                "acquireTime": time,
                "renewTime": time,
                "leaseTransitions": 0,
            },
        })
    }
}

// === impl LeaseSpec ===

impl LeaseSpec {
    /// The holder; nothing if the Lease was released.
    fn holder(&self) -> Option<&str> {
        self.holder_identity
            .as_deref()
            .filter(|holder| !holder.is_empty())
    }
}

/// A time as upstream's `MicroTime`.
fn micro_time(time: Timestamp) -> String {
    format!("{time:.6}")
}
