//! Finished Jobs whose time comes, all in one second or one after the other, and how late each of them is deleted.
//!
//! Who deletes them is none of this driver's business: it makes the Jobs, writes their status, and watches when each gets
//! its deletionTimestamp. Times are the server's. Nobody takes the finalizer off, so a Job that was deleted stays, and no second controller is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use http::Method;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::following::{Event, list, watch};
use super::lateness::{Late, Lateness};
use super::server_clock::ServerClock;
use super::{Started, closed_loop, connected, cpu_time, namespace, send};
use crate::objects::with;
use crate::suites::cron::Kind;

/// The TTL of all Jobs.
const TTL_SECS: i64 = 1;

/// Jobs to make and to wait for.
#[derive(Clone)]
pub struct Expiry {
    /// Whose Jobs.
    pub kind: &'static Kind,
    /// Where.
    pub namespace: String,
    /// How many.
    pub jobs: usize,
    /// Seconds from one Job's time to the next one's; none for all at once.
    pub apart: u32,
    /// How long making them may take: their time begins that much later.
    pub lead: Duration,
    /// How many make them at once.
    pub clients: usize,
    /// How long after the last one's time it may take.
    pub within: Duration,
}

/// What came of it.
#[derive(Debug, Serialize)]
pub struct Ended {
    /// Jobs that were deleted.
    pub count: usize,
    /// From the first one's time to the last delete, in seconds.
    pub secs: f64,
    /// How late they were.
    #[serde(flatten)]
    pub late: Late,
    /// Requests of this driver, by the verb under which the server counts them.
    pub own_requests: BTreeMap<&'static str, usize>,
    /// Processor time the driver took to make them, in seconds.
    pub making_secs: f64,
    /// Processor time the driver itself took afterwards, in seconds.
    pub cpu_secs: f64,
}

/// Who has not gone yet, and how late the others were.
struct Seen {
    waiting: BTreeSet<String>,
    lateness: Lateness,
}

// === impl Expiry ===

impl Expiry {
    /// Makes the Jobs and waits.
    pub async fn run(&self, kubeconfig: &Path) -> anyhow::Result<Ended> {
        let clients = connected(kubeconfig, self.clients.max(1) + 1).await?;
        self.run_with(&clients).await
    }

    async fn run_with(&self, clients: &[Client]) -> anyhow::Result<Ended> {
        let (watcher, makers) = clients.split_first().context("two clients at least")?;
        namespace(watcher, &self.namespace).await?;
        let clock = ServerClock::read(watcher).await?;
        let lead = SignedDuration::from_secs(i64::try_from(self.lead.as_secs())?);
        let first = clock.now_second() + lead;
        let make = async |client: &Client, number: usize| self.make(client, number, first).await;
        closed_loop(makers, 0..self.jobs, make).await?;
        ensure!(
            Instant::now() < clock.at(first),
            "the Jobs were not made within {:?}: a longer lead is needed",
            self.lead
        );
        self.follow(watcher, &clock, first).await
    }

    /// Makes one Job that has finished.
    async fn make(&self, client: &Client, number: usize, first: Timestamp) -> anyhow::Result<()> {
        let collection = self.kind.jobs.collection(&self.namespace);
        let spec = json!({"spec": {"ttlSecondsAfterFinished": TTL_SECS}});
        let job = with(self.kind.mk_job(&name(number)), spec).to_string();
        let made = send(client, Method::POST, &collection, job.into()).await?;
        let finish = self.expires(number, first) - SignedDuration::from_secs(TTL_SECS);
        let mut job: Value = serde_json::from_slice(&made)?;
        job["status"] = self.kind.ended("Complete", finish);
        let path = format!("{collection}/{}/status", name(number));
        send(client, Method::PUT, &path, job.to_string().into()).await?;
        Ok(())
    }

    fn expires(&self, number: usize, first: Timestamp) -> Timestamp {
        let secs = i64::try_from(number).unwrap_or(i64::MAX) * i64::from(self.apart);
        first + SignedDuration::from_secs(secs)
    }

    async fn follow(
        &self,
        client: &Client,
        clock: &ServerClock,
        first: Timestamp,
    ) -> anyhow::Result<Ended> {
        let path = self.kind.jobs.collection(&self.namespace);
        let listed = list(client, &path).await?;
        ensure!(
            listed.items.len() == self.jobs
                && listed
                    .items
                    .iter()
                    .all(|job| job.metadata.deletion_timestamp.is_none()),
            "somebody has deleted Jobs before their time"
        );
        let last = clock.at(self.expires(self.jobs.saturating_sub(1), first));
        let patience = last.saturating_duration_since(Instant::now()) + self.within;
        let revision = listed.metadata.resource_version;
        let mut events = watch(client, &path, &revision, patience).await?;
        let (making, started) = (cpu_time(), Started::now());
        let mut seen = Seen {
            waiting: (0..self.jobs).map(name).collect(),
            lateness: Lateness::default(),
        };
        let all = async {
            while !seen.waiting.is_empty() {
                let together = events.next().await?;
                let at = Instant::now();
                for event in together {
                    let due = |number| clock.at(self.expires(number, first));
                    seen.note(event, at, due)?;
                }
            }
            anyhow::Ok(())
        };
        let ended = timeout(patience, all).await;
        ended.with_context(|| {
            let left = seen.waiting.len();
            format!("after {patience:?} {left} Jobs are still there")
        })??;
        let measured = started.measured(self.jobs, 0, Vec::new());
        let took = Instant::now().saturating_duration_since(clock.at(first));
        let each = self.jobs;
        Ok(Ended {
            count: each,
            secs: took.as_secs_f64(),
            late: seen.lateness.sum_up(),
            own_requests: [("POST", each), ("PUT", each), ("LIST", 1), ("WATCH", 1)].into(),
            making_secs: making.as_secs_f64(),
            cpu_secs: measured.cpu_secs,
        })
    }
}

// === impl Seen ===

impl Seen {
    /// Takes note of an event that came at a time; `due` says when a Job's time was.
    fn note(
        &mut self,
        event: Event,
        at: Instant,
        due: impl Fn(usize) -> Instant,
    ) -> anyhow::Result<()> {
        let meta = event.object.metadata;
        let is_deleted = match event.r#type.as_str() {
            "DELETED" => true,
            "MODIFIED" | "ADDED" | "BOOKMARK" => meta.deletion_timestamp.is_some(),
            other => bail!("the watch ended with {other}"),
        };
        if is_deleted && self.waiting.remove(&meta.name) {
            self.lateness.note(at, due(number(&meta.name)));
        }
        Ok(())
    }
}

fn name(number: usize) -> String {
    format!("job-{number}")
}

fn number(name: &str) -> usize {
    let number = name
        .strip_prefix("job-")
        .and_then(|number| number.parse().ok());
    number.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use caretaker_simulator::volcano;

    use super::*;
    use crate::suites::cron::{BATCH, VOLCANO};
    use crate::target::Target;

    async fn run(kind: &'static Kind, controller: &str, apart: u32) -> Ended {
        let target = Target::embedded();
        if kind.is_volcano() {
            volcano::install(target.client()).await.unwrap();
        }
        let _controllers = target.controllers(controller).unwrap();
        let clients = vec![target.client().clone(); 3];
        let expiry = Expiry {
            kind,
            namespace: "expiry".to_owned(),
            jobs: 10,
            apart,
            lead: Duration::from_secs(20),
            clients: 2,
            within: Duration::from_secs(60),
        };
        expiry.run_with(&clients).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn all_at_once_or_one_after_the_other_each_is_seen_in_its_second() {
        let table = [
            (&BATCH, "ttl-after-finished-controller", 0, 0.0),
            (&BATCH, "ttl-after-finished-controller", 3, 27.0),
            (&VOLCANO, "gc-controller", 0, 0.0),
        ];
        for (kind, controller, apart, secs) in table {
            let ended = run(kind, controller, apart).await;
            assert_eq!((ended.count, ended.late.early), (10, 0), "{ended:?}");
            assert!(ended.late.max_secs < 0.1, "{ended:?}");
            assert!(ended.secs >= secs && ended.secs < secs + 1.0, "{ended:?}");
        }
    }
}
