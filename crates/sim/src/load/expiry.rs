//! Finished Jobs whose time comes, all in one second or one after the other, and how late each of them is deleted.
//!
//! Who deletes them is none of this driver's business: it makes the Jobs, writes their status, and watches when each gets
//! its deletionTimestamp. Times are the server's: its clock is read from its own `Date`, to the millisecond, by waiting for
//! a second to begin. Nobody takes the finalizer off, so a Job that was deleted stays, and no second controller is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use http::{Method, Request};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::client::Body;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::following::{Event, list, watch};
use super::{Started, closed_loop, connected, namespace, percentile, send};
use crate::objects::{JOBS, mk_job, with};
use crate::suites::ttl::ended;

/// The TTL of all Jobs.
const TTL_SECS: i64 = 1;

/// Jobs to make and to wait for.
#[derive(Clone, Debug)]
pub struct Expiry {
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
    /// How late half of them were at most, in seconds.
    pub p50_secs: f64,
    /// How late 99 of 100 were at most, in seconds.
    pub p99_secs: f64,
    /// How late the last was, in seconds.
    pub max_secs: f64,
    /// How many were deleted before their time.
    pub early: usize,
    /// Requests of this driver, by the verb under which the server counts them.
    pub own_requests: BTreeMap<&'static str, usize>,
    /// Processor time the driver itself took meanwhile, in seconds.
    pub cpu_secs: f64,
}

/// Who has not gone yet, and how late the others were.
struct Seen {
    waiting: BTreeSet<String>,
    late: Vec<Duration>,
    early: usize,
}

/// The server's clock, by ours.
struct ServerClock {
    second: Timestamp,
    began: Instant,
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
        let collection = JOBS.collection(&self.namespace);
        let spec = json!({"spec": {"ttlSecondsAfterFinished": TTL_SECS}});
        let job = with(mk_job(&name(number)), spec).to_string();
        let made = send(client, Method::POST, &collection, job.into()).await?;
        let finish = self.expires(number, first) - SignedDuration::from_secs(TTL_SECS);
        let mut job: Value = serde_json::from_slice(&made)?;
        job["status"] = ended("Complete", finish, Some(finish));
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
        let path = JOBS.collection(&self.namespace);
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
        let started = Started::now();
        let mut seen = Seen {
            waiting: (0..self.jobs).map(name).collect(),
            late: Vec::with_capacity(self.jobs),
            early: 0,
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
        seen.late.sort_unstable();
        let measured = started.measured(self.jobs, 0, Vec::new());
        let secs = |percent| percentile(&seen.late, percent).as_secs_f64();
        let took = Instant::now().saturating_duration_since(clock.at(first));
        let each = self.jobs;
        Ok(Ended {
            count: each,
            secs: took.as_secs_f64(),
            p50_secs: secs(50),
            p99_secs: secs(99),
            max_secs: secs(100),
            early: seen.early,
            own_requests: [("POST", each), ("PUT", each), ("LIST", 1), ("WATCH", 1)].into(),
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
            let due = due(number(&meta.name));
            self.early += usize::from(at < due);
            self.late.push(at.saturating_duration_since(due));
        }
        Ok(())
    }
}

// === impl ServerClock ===

impl ServerClock {
    /// Asks until a second begins.
    async fn read(client: &Client) -> anyhow::Result<Self> {
        let first = date(client).await?;
        loop {
            let asked = Instant::now();
            let second = date(client).await?;
            if second > first {
                // It began between the last question and its answer.
                return Ok(Self {
                    second,
                    began: asked,
                });
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// The second that it is.
    fn now_second(&self) -> Timestamp {
        self.second
            + SignedDuration::from_secs(i64::try_from(self.began.elapsed().as_secs()).unwrap_or(0))
    }

    /// When it is this time there, by our clock; not before the second that was read.
    fn at(&self, time: Timestamp) -> Instant {
        let after = Duration::try_from(time.duration_since(self.second)).unwrap_or_default();
        self.began + after
    }
}

async fn date(client: &Client) -> anyhow::Result<Timestamp> {
    let request = Request::get("/version").body(Body::empty())?;
    let (parts, body) = client.send(request).await?.into_parts();
    body.collect_bytes().await?;
    let date = parts.headers.get(http::header::DATE);
    let date = date
        .context("the server does not tell the time")?
        .to_str()?;
    Ok(jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date)?)
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
    use super::*;
    use crate::target::Target;

    async fn run(apart: u32) -> Ended {
        let target = Target::embedded();
        let _controllers = target.controllers("ttl-after-finished-controller").unwrap();
        let clients = vec![target.client().clone(); 3];
        let expiry = Expiry {
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
        for (apart, secs) in [(0, 0.0), (3, 27.0)] {
            let ended = run(apart).await;
            assert_eq!((ended.count, ended.early), (10, 0), "{ended:?}");
            assert!(ended.max_secs < 0.1, "{ended:?}");
            assert!(ended.secs >= secs && ended.secs < secs + 1.0, "{ended:?}");
        }
    }
}
