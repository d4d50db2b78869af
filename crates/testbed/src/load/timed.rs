//! Objects with a time of their own, and how late the controllers act on each.
//!
//! The driver creates finished Jobs whose TTL expires, or CronJobs whose schedule time is in the same minute, and watches
//! Jobs. Any controller may do the work. Times are the server's. An expired Job counts as deleted when it has a
//! deletionTimestamp, so no garbage collector is needed. The name of a CronJob's Job tells its CronJob; a second Job of a
//! CronJob is a duplicate. No Job runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use http::Method;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::following::{WatchLine, list, watch};
use super::lateness::{LatenessSamples, LatenessSummary};
use super::server_clock::ServerClock;
use super::{LoadStart, closed_loop, connected, cpu_time, namespace, send};
use crate::objects::with;
use crate::suites::cron::JobDialect;

/// The TTL of all Jobs.
const TTL_SECS: i64 = 1;
/// Time for which duplicates are looked for after the last Job: longer than the first backoff of a create.
const LINGER: Duration = Duration::from_secs(5);

/// Objects to create and to wait for.
#[derive(Clone)]
pub struct TimedLoad {
    pub event: TimedEvent,
    pub dialect: &'static JobDialect,
    pub namespace: String,
    pub count: usize,
    /// Time for the creation, before the first event is due.
    pub lead: Duration,
    /// Number of clients that create objects at the same time.
    pub clients: usize,
    /// Longest wait after the last event is due.
    pub within: Duration,
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimedEvent {
    /// The delete of a finished Job, each this many seconds after the one before.
    JobExpiry { apart: u32 },
    /// The Job of a CronJob, all in the first minute after the lead.
    CronTick,
}

/// The measurements of a run.
#[derive(Debug, Serialize)]
pub struct TimedResult {
    /// Number of events that were observed.
    pub count: usize,
    /// Seconds from the first due time to the last event.
    pub secs: f64,
    #[serde(flatten)]
    pub late: LatenessSummary,
    /// Jobs beyond the one of each CronJob; absent for expiry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicates: Option<usize>,
    /// The driver's requests, by the verb under which the server counts them.
    pub own_requests: BTreeMap<&'static str, usize>,
    /// Processor seconds of the driver for the creation.
    pub making_secs: f64,
    /// Processor seconds of the driver afterwards.
    pub cpu_secs: f64,
}

/// The events that are still missing, and the lateness of the others.
struct EventTracker<'a> {
    load: &'a TimedLoad,
    clock: &'a ServerClock,
    first: Timestamp,
    missing: BTreeSet<String>,
    lateness: LatenessSamples,
    duplicates: usize,
}

// === impl TimedLoad ===

impl TimedLoad {
    /// Creates the objects and waits.
    pub async fn run(&self, kubeconfig: &Path) -> anyhow::Result<TimedResult> {
        let clients = connected(kubeconfig, self.clients.max(1) + 1).await?;
        self.run_with(&clients).await
    }

    async fn run_with(&self, clients: &[Client]) -> anyhow::Result<TimedResult> {
        let (watcher, makers) = clients.split_first().context("two clients at least")?;
        namespace(watcher, &self.namespace).await?;
        let clock = ServerClock::read(watcher).await?;
        let after_lead = clock.now_second() + SignedDuration::try_from(self.lead)?;
        let first = match self.event {
            TimedEvent::JobExpiry { .. } => after_lead,
            TimedEvent::CronTick => minute_from(after_lead),
        };
        let create = async |client: &Client, number: usize| match self.event {
            TimedEvent::JobExpiry { .. } => self.create_job(client, number, first).await,
            TimedEvent::CronTick => self.create_cron_job(client, number, first).await,
        };
        closed_loop(makers, 0..self.count, create).await?;
        ensure!(
            Instant::now() < clock.at(first),
            "the objects were not created within {:?}: a longer lead is needed",
            self.lead
        );
        self.follow(watcher, &clock, first).await
    }

    /// Creates a Job that has finished.
    async fn create_job(
        &self,
        client: &Client,
        number: usize,
        first: Timestamp,
    ) -> anyhow::Result<()> {
        let collection = self.dialect.jobs.collection(&self.namespace);
        let spec = json!({"spec": {"ttlSecondsAfterFinished": TTL_SECS}});
        let job = with(self.dialect.mk_job(&name(number)), spec).to_string();
        let created = send(client, Method::POST, &collection, job.into()).await?;
        let finish = self.due(number, first) - SignedDuration::from_secs(TTL_SECS);
        let mut job: Value = serde_json::from_slice(&created)?;
        job["status"] = self.dialect.ended("Complete", finish);
        let path = format!("{collection}/{}/status", name(number));
        send(client, Method::PUT, &path, job.to_string().into()).await?;
        Ok(())
    }

    /// Creates a CronJob with this schedule time every day.
    async fn create_cron_job(
        &self,
        client: &Client,
        number: usize,
        time: Timestamp,
    ) -> anyhow::Result<()> {
        let time = time.to_zoned(TimeZone::UTC);
        let schedule = format!("{} {} * * *", time.minute(), time.hour());
        let spec = json!({"schedule": schedule, "timeZone": "Etc/UTC"});
        let cron = self.dialect.mk_cron(&name(number), spec).to_string();
        let path = self.dialect.crons.collection(&self.namespace);
        send(client, Method::POST, &path, cron.into()).await?;
        Ok(())
    }

    fn due(&self, number: usize, first: Timestamp) -> Timestamp {
        let apart = match self.event {
            TimedEvent::JobExpiry { apart } => i64::from(apart),
            TimedEvent::CronTick => 0,
        };
        first + SignedDuration::from_secs(i64::try_from(number).unwrap_or(i64::MAX) * apart)
    }

    async fn follow(
        &self,
        client: &Client,
        clock: &ServerClock,
        first: Timestamp,
    ) -> anyhow::Result<TimedResult> {
        let path = self.dialect.jobs.collection(&self.namespace);
        let listed = list(client, &path).await?;
        let is_untouched = match self.event {
            TimedEvent::JobExpiry { .. } => {
                let mut jobs = listed.items.iter();
                listed.items.len() == self.count
                    && jobs.all(|job| job.metadata.deletion_timestamp.is_none())
            }
            TimedEvent::CronTick => listed.items.is_empty(),
        };
        ensure!(is_untouched, "a controller acted before the first due time");
        let last = clock.at(self.due(self.count.saturating_sub(1), first));
        let patience = last.saturating_duration_since(Instant::now()) + self.within;
        let revision = listed.metadata.resource_version;
        let mut events = watch(client, &path, &revision, patience + LINGER).await?;
        let (making, started) = (cpu_time(), LoadStart::now());
        let mut tracker = EventTracker {
            load: self,
            clock,
            first,
            missing: (0..self.count).map(name).collect(),
            lateness: LatenessSamples::default(),
            duplicates: 0,
        };
        let all = async {
            while !tracker.missing.is_empty() {
                tracker.note(events.next().await?)?;
            }
            anyhow::Ok(())
        };
        let ended = timeout(patience, all).await;
        ended.with_context(|| {
            let missing = tracker.missing.len();
            format!("after {patience:?} {missing} events are missing")
        })??;
        let took = Instant::now().saturating_duration_since(clock.at(first));
        let has_duplicates = self.event == TimedEvent::CronTick;
        if has_duplicates {
            let more = async {
                loop {
                    tracker.note(events.next().await?)?;
                }
            };
            // Only an error ends it early.
            if let Ok(ended) = timeout(LINGER, more).await {
                let error: anyhow::Result<()> = ended;
                error?;
            }
        }
        Ok(TimedResult {
            count: self.count,
            secs: took.as_secs_f64(),
            duplicates: has_duplicates.then_some(tracker.duplicates),
            late: tracker.lateness.sum_up(),
            own_requests: self.own_requests(),
            making_secs: making.as_secs_f64(),
            cpu_secs: started.measured(self.count, 0, Vec::new()).cpu_secs,
        })
    }

    fn own_requests(&self) -> BTreeMap<&'static str, usize> {
        let mut requests = BTreeMap::from([("POST", self.count), ("LIST", 1), ("WATCH", 1)]);
        if self.event != TimedEvent::CronTick {
            requests.insert("PUT", self.count);
        }
        requests
    }
}

// === impl EventTracker ===

impl EventTracker<'_> {
    /// Takes note of watch events that arrived now.
    fn note(&mut self, together: Vec<WatchLine>) -> anyhow::Result<()> {
        let now = Instant::now();
        for event in together {
            let meta = event.object.metadata;
            let is_first_sight = match event.r#type.as_str() {
                "ADDED" => true,
                "MODIFIED" | "DELETED" | "BOOKMARK" => false,
                other => bail!("the watch ended with {other}"),
            };
            let name = match self.load.event {
                TimedEvent::CronTick if is_first_sight => cron_job(&meta.name),
                TimedEvent::JobExpiry { .. }
                    if event.r#type == "DELETED" || meta.deletion_timestamp.is_some() =>
                {
                    meta.name.as_str()
                }
                _ => continue,
            };
            if self.missing.remove(name) {
                let due = self.load.due(number(name), self.first);
                self.lateness.note(now, self.clock.at(due));
            } else {
                self.duplicates += 1;
            }
        }
        Ok(())
    }
}

/// The first whole minute that is not before a time.
fn minute_from(time: Timestamp) -> Timestamp {
    let past = time.as_second().rem_euclid(60);
    time + SignedDuration::from_secs((60 - past) % 60)
}

fn name(number: usize) -> String {
    format!("timed-{number}")
}

fn number(name: &str) -> usize {
    let number = name
        .strip_prefix("timed-")
        .and_then(|number| number.parse().ok());
    number.unwrap_or_default()
}

/// The CronJob of a Job, by the names that both originals give Jobs.
fn cron_job(job: &str) -> &str {
    job.rsplit_once('-').map_or(job, |(cron_job, _)| cron_job)
}

#[cfg(test)]
mod tests {
    use caretaker_simulator::volcano;

    use super::*;
    use crate::suites::cron::{BATCH, VOLCANO};
    use crate::target::Target;

    fn load(event: TimedEvent, dialect: &'static JobDialect) -> TimedLoad {
        TimedLoad {
            event,
            dialect,
            namespace: "timed".to_owned(),
            count: 10,
            lead: Duration::from_secs(20),
            clients: 2,
            within: Duration::from_secs(60),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn measures_expiry_at_once_and_one_after_the_other() {
        let table = [
            (&BATCH, "ttl-after-finished-controller", 0, 0.0),
            (&BATCH, "ttl-after-finished-controller", 3, 27.0),
            (&VOLCANO, "gc-controller", 0, 0.0),
        ];
        for (dialect, controller, apart, secs) in table {
            let target = Target::embedded();
            if dialect.is_volcano() {
                volcano::install(target.client()).await.unwrap();
            }
            let _controllers = target.controllers(controller).unwrap();
            let clients = vec![target.client().clone(); 3];
            let load = load(TimedEvent::JobExpiry { apart }, dialect);
            let ended = load.run_with(&clients).await.unwrap();
            assert_eq!((ended.count, ended.late.early), (10, 0), "{ended:?}");
            assert!(ended.late.max_secs < 0.1, "{ended:?}");
            assert!(ended.secs >= secs && ended.secs < secs + 1.0, "{ended:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn measures_ticks_and_counts_a_duplicate() {
        let table = [
            (&BATCH, "cronjob-controller/batch"),
            (&VOLCANO, "cronjob-controller/volcano"),
        ];
        for (dialect, controller) in table {
            let target = Target::embedded();
            volcano::install(target.client()).await.unwrap();
            let _controllers = target.controllers(controller).unwrap();
            let clients = vec![target.client().clone(); 3];
            let load = load(TimedEvent::CronTick, dialect);
            let second = async {
                let after_tick = Duration::from_secs(62);
                tokio::time::sleep(after_tick).await;
                let job = dialect.mk_job("timed-3-again").to_string();
                let path = dialect.jobs.collection("timed");
                send(target.client(), Method::POST, &path, job.into()).await
            };
            let (ended, second) = tokio::join!(load.run_with(&clients), second);
            second.unwrap();
            let ended = ended.unwrap();
            assert_eq!((ended.count, ended.late.early), (10, 0), "{ended:?}");
            assert_eq!(ended.duplicates, Some(1), "{ended:?}");
            assert!(ended.late.max_secs < 0.1, "{ended:?}");
        }
    }

    #[test]
    fn a_tick_is_on_the_first_whole_minute() {
        let table = [
            ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
            ("2026-01-01T00:00:01Z", "2026-01-01T00:01:00Z"),
            ("2026-01-01T23:59:59Z", "2026-01-02T00:00:00Z"),
        ];
        for (time, minute) in table {
            let time: Timestamp = time.parse().unwrap();
            assert_eq!(minute_from(time).to_string(), minute);
        }
    }
}
