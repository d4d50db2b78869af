//! Chapters four and five: CronJobs of Volcano and of Kubernetes, which start a Job every minute.
//!
//! One controller looks after both kinds, so there is one way to tell it; what differs is data. The first shows how many
//! Jobs are kept, the second what becomes of a Job that still runs when the next one is due.

use std::sync::Arc;

use anyhow::Result;
use caretaker_controllers::runtime::evidence::Evidence;
use caretaker_simulator::life::{FOREVER, RUN_SECONDS};
use serde_json::{Value, json};

use crate::demo::scene::{Kind, Thing};
use crate::demo::screen::Pause;
use crate::demo::story::Story;

static VOLCANO: Tick = Tick {
    namespace: "volcano-cron",
    sentences: "A CronJob of Volcano starts a Job every minute, which is three seconds here. Only the last one that succeeded
is kept.
",
    kind: Kind {
        group: "batch.volcano.sh",
        version: "v1alpha1",
        kind: "CronJob",
        plural: "cronjobs",
    },
    name: "train",
    end: "OverHistoryLimit",
};

static BATCH: Tick = Tick {
    namespace: "batch-cron",
    sentences: "A CronJob of Kubernetes, whose Jobs take longer than a minute. Its concurrency policy is Replace: the Job that
still runs goes, and the next one starts.
",
    kind: Kind {
        group: "batch",
        version: "v1",
        kind: "CronJob",
        plural: "cronjobs",
    },
    name: "report",
    end: "Replaced",
};

/// A CronJob, and what becomes of its Jobs.
struct Tick {
    namespace: &'static str,
    sentences: &'static str,
    kind: Kind,
    name: &'static str,
    /// The word for which the first Job goes.
    end: &'static str,
}

/// How many Jobs are waited for.
const STARTS: usize = 2;

/// Tells chapter four.
pub(super) async fn volcano(story: &mut Story<'_>) -> Result<()> {
    let task = json!({"name": "worker", "replicas": 1, "template": template("5")});
    let job = json!({"minAvailable": 1, "tasks": [task]});
    let keeps = json!({"successfulJobsHistoryLimit": 1});
    tell(story, &VOLCANO, &job, keeps).await
}

/// Tells chapter five.
pub(super) async fn batch(story: &mut Story<'_>) -> Result<()> {
    let job = json!({"template": template(FOREVER)});
    let replaces = json!({"concurrencyPolicy": "Replace"});
    tell(story, &BATCH, &job, replaces).await
}

async fn tell(
    story: &mut Story<'_>,
    tick: &'static Tick,
    job: &Value,
    mut spec: Value,
) -> Result<()> {
    story.enter(tick.namespace, &[]).await?;
    story.say(tick.sentences)?;
    spec["schedule"] = "* * * * *".into();
    spec["jobTemplate"] = json!({"spec": job});
    let body = json!({"metadata": {"name": tick.name}, "spec": spec});
    let mark = story.mark();
    let cron_job = story.create(&tick.kind, tick.namespace, &body).await?;
    let missing = |story: &Story<'_>| tick.missing(story, &cron_job);
    let took = story.until(&mark, missing).await?;
    let mut lines = Vec::new();
    for deed in story.deeds(&cron_job) {
        lines.push((deed.at.as_nanosecond(), line(&deed)));
    }
    story.number(lines)?;
    let tally = story.tally(&mark, took).await?;
    let line = format!("The controllers: {}", tally.work());
    story.screen().strong(&line)?;
    story.pause(Pause::Long).await;
    Ok(())
}

// === impl Tick ===

impl Tick {
    /// What has not happened yet.
    fn missing(&self, story: &Story<'_>, cron_job: &Thing) -> Option<String> {
        let deeds = story.deeds(cron_job);
        let count = |rule: &str| {
            let of_rule = deeds.iter().filter(|deed| deed.because["rule"] == rule);
            of_rule.count()
        };
        if count("SlotCame") < STARTS {
            return Some(format!("{cron_job} did not start {STARTS} Jobs"));
        }
        (count(self.end) == 0).then(|| format!("the first Job of {cron_job} did not go"))
    }
}

fn line(deed: &Arc<Evidence>) -> String {
    let done = if deed.verb == "create" {
        "made"
    } else {
        "gone"
    };
    let job = format!("Job {}", deed.target.name);
    format!("{done}  {job:<24}{}", deed.reason)
}

fn template(run_seconds: &str) -> Value {
    json!({
        "metadata": {"annotations": {RUN_SECONDS: run_seconds}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "shop/report"}],
        },
    })
}
