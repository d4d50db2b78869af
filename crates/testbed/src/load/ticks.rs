//! CronJobs whose slot comes in the same minute, and how late the Job of each of them is made.
//!
//! Who makes the Jobs is none of this driver's business: it makes CronJobs with one slot in a day, and watches for their
//! Jobs, whose names say which CronJob they are of. A second Job of a CronJob is a duplicate. Nobody runs the Jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use http::Method;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde::Serialize;
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::following::{Event, list, watch};
use super::lateness::{Late, Lateness};
use super::server_clock::ServerClock;
use super::{Started, closed_loop, connected, cpu_time, namespace, send};
use crate::suites::cron::Kind;

/// How long duplicates are looked for after the last Job: longer than any retry of a create waits at first.
const LINGER: Duration = Duration::from_secs(5);

/// CronJobs to make and to wait for.
#[derive(Clone)]
pub struct Ticks {
    /// Whose CronJobs.
    pub kind: &'static Kind,
    /// Where.
    pub namespace: String,
    /// How many.
    pub cron_jobs: usize,
    /// How long making them may take at least: the slot is the first minute after that.
    pub lead: Duration,
    /// How many make them at once.
    pub clients: usize,
    /// How long after the slot it may take.
    pub within: Duration,
}

/// What came of it.
#[derive(Debug, Serialize)]
pub struct Ticked {
    /// CronJobs whose Job was made.
    pub count: usize,
    /// From the slot to the last Job, in seconds.
    pub secs: f64,
    /// How late they were.
    #[serde(flatten)]
    pub late: Late,
    /// Jobs beyond the one that each CronJob should have.
    pub duplicates: usize,
    /// Requests of this driver, by the verb under which the server counts them.
    pub own_requests: BTreeMap<&'static str, usize>,
    /// Processor time the driver took to make them, in seconds.
    pub making_secs: f64,
    /// Processor time the driver itself took afterwards, in seconds.
    pub cpu_secs: f64,
}

/// Which CronJobs have no Job yet, and how late the others' were.
struct Seen {
    waiting: BTreeSet<String>,
    lateness: Lateness,
    duplicates: usize,
}

// === impl Ticks ===

impl Ticks {
    /// Makes the CronJobs and waits.
    pub async fn run(&self, kubeconfig: &Path) -> anyhow::Result<Ticked> {
        let clients = connected(kubeconfig, self.clients.max(1) + 1).await?;
        self.run_with(&clients).await
    }

    async fn run_with(&self, clients: &[Client]) -> anyhow::Result<Ticked> {
        let (watcher, makers) = clients.split_first().context("two clients at least")?;
        namespace(watcher, &self.namespace).await?;
        let clock = ServerClock::read(watcher).await?;
        let lead = SignedDuration::try_from(self.lead)?;
        let slot = minute_from(clock.now_second() + lead);
        let make = async |client: &Client, number: usize| self.make(client, number, slot).await;
        closed_loop(makers, 0..self.cron_jobs, make).await?;
        ensure!(
            Instant::now() < clock.at(slot),
            "the CronJobs were not made within {:?}: a longer lead is needed",
            self.lead
        );
        self.follow(watcher, clock.at(slot)).await
    }

    /// Makes one CronJob with this slot, and the same every day.
    async fn make(&self, client: &Client, number: usize, slot: Timestamp) -> anyhow::Result<()> {
        let time = slot.to_zoned(TimeZone::UTC);
        let schedule = format!("{} {} * * *", time.minute(), time.hour());
        let spec = json!({"schedule": schedule, "timeZone": "Etc/UTC"});
        let cron = self.kind.mk_cron(&name(number), spec).to_string();
        let path = self.kind.crons.collection(&self.namespace);
        send(client, Method::POST, &path, cron.into()).await?;
        Ok(())
    }

    async fn follow(&self, client: &Client, slot: Instant) -> anyhow::Result<Ticked> {
        let path = self.kind.jobs.collection(&self.namespace);
        let listed = list(client, &path).await?;
        ensure!(
            listed.items.is_empty(),
            "there are Jobs before the slot has come"
        );
        let patience = slot.saturating_duration_since(Instant::now()) + self.within;
        let revision = listed.metadata.resource_version;
        let mut events = watch(client, &path, &revision, patience + LINGER).await?;
        let (making, started) = (cpu_time(), Started::now());
        let mut seen = Seen {
            waiting: (0..self.cron_jobs).map(name).collect(),
            lateness: Lateness::default(),
            duplicates: 0,
        };
        let all = async {
            while !seen.waiting.is_empty() {
                let together = events.next().await?;
                seen.note(together, slot)?;
            }
            anyhow::Ok(())
        };
        let ended = timeout(patience, all).await;
        ended.with_context(|| {
            let left = seen.waiting.len();
            format!("after {patience:?} {left} CronJobs have no Job")
        })??;
        let took = Instant::now().saturating_duration_since(slot);
        let more = async {
            loop {
                let together = events.next().await?;
                seen.note(together, slot)?;
            }
        };
        // Nothing ends it but time, or an error.
        if let Ok(ended) = timeout(LINGER, more).await {
            let error: anyhow::Result<()> = ended;
            error?;
        }
        let count = self.cron_jobs;
        Ok(Ticked {
            count,
            secs: took.as_secs_f64(),
            late: seen.lateness.sum_up(),
            duplicates: seen.duplicates,
            own_requests: [("POST", count), ("LIST", 1), ("WATCH", 1)].into(),
            making_secs: making.as_secs_f64(),
            cpu_secs: started.measured(count, 0, Vec::new()).cpu_secs,
        })
    }
}

// === impl Seen ===

impl Seen {
    /// Takes note of events that came now.
    fn note(&mut self, together: Vec<Event>, slot: Instant) -> anyhow::Result<()> {
        let now = Instant::now();
        for event in together {
            match event.r#type.as_str() {
                "ADDED" => {}
                "MODIFIED" | "DELETED" | "BOOKMARK" => continue,
                other => bail!("the watch ended with {other}"),
            }
            if self.waiting.remove(cron_job(&event.object.metadata.name)) {
                self.lateness.note(now, slot);
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
    format!("cron-{number}")
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

    #[tokio::test(start_paused = true)]
    async fn the_job_of_each_cron_job_is_seen_when_its_slot_comes_and_so_is_a_second_one() {
        let table = [
            (&BATCH, "cronjob-controller/batch"),
            (&VOLCANO, "cronjob-controller/volcano"),
        ];
        for (kind, controller) in table {
            let target = Target::embedded();
            volcano::install(target.client()).await.unwrap();
            let _controllers = target.controllers(controller).unwrap();
            let clients = vec![target.client().clone(); 3];
            let ticks = Ticks {
                kind,
                namespace: "ticks".to_owned(),
                cron_jobs: 10,
                lead: Duration::from_secs(20),
                clients: 2,
                within: Duration::from_secs(60),
            };
            let second = async {
                let slot_is_over = Duration::from_secs(62);
                tokio::time::sleep(slot_is_over).await;
                let job = kind.mk_job("cron-3-again").to_string();
                let path = kind.jobs.collection("ticks");
                send(target.client(), Method::POST, &path, job.into()).await
            };
            let (ticked, second) = tokio::join!(ticks.run_with(&clients), second);
            second.unwrap();
            let ticked = ticked.unwrap();
            assert_eq!((ticked.count, ticked.late.early), (10, 0), "{ticked:?}");
            assert_eq!(ticked.duplicates, 1, "{ticked:?}");
            assert!(ticked.late.max_secs < 0.1, "{ticked:?}");
        }
    }

    #[test]
    fn the_slot_is_the_first_whole_minute() {
        let table = [
            ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
            ("2026-01-01T00:00:01Z", "2026-01-01T00:01:00Z"),
            ("2026-01-01T23:59:59Z", "2026-01-02T00:00:00Z"),
        ];
        for (time, slot) in table {
            let time: Timestamp = time.parse().unwrap();
            assert_eq!(minute_from(time).to_string(), slot);
        }
    }
}
