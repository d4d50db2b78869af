//! Small scenarios for crashes of the CronJob controllers: a tick, each policy, history, and Jobs that are gone at once.

use std::time::Duration;

use futures::FutureExt as _;
use serde_json::{Value, json};

use super::{Scenario, TTL_NAME, VOLCANO_TTL_NAME, scenario};
use crate::collector::NAME;
use crate::suites::Checked;
use crate::suites::cron::{BATCH, Kind, Overdue, VOLCANO, succeeded};
use crate::suites::stage::{Made, Stage};

/// What `--controllers` calls it.
pub const CRON_NAME: &str = "cronjob-controller/batch";

/// Who looks after CronJobs and their Jobs.
pub const OF_BATCH: &[&str] = &[CRON_NAME, TTL_NAME, NAME];
/// The same for Volcano's.
pub const OF_VOLCANO: &[&str] = &["cronjob-controller/volcano", VOLCANO_TTL_NAME, NAME];

/// All scenarios: each has a CronJob that is suspended, and Jobs, and resumes it.
pub const SCENARIOS: &[Scenario] = &[
    scenario!(tick of BATCH, OF_BATCH),
    scenario!(forbid of BATCH, OF_BATCH),
    scenario!(replace of BATCH, OF_BATCH),
    scenario!(history of BATCH, OF_BATCH),
    scenario!(ttl_of_zero of BATCH, OF_BATCH),
    scenario!(history_of_zero of BATCH, OF_BATCH),
    scenario!(tick of VOLCANO, OF_VOLCANO),
    scenario!(forbid of VOLCANO, OF_VOLCANO),
    scenario!(replace of VOLCANO, OF_VOLCANO),
    scenario!(history of VOLCANO, OF_VOLCANO),
    scenario!(ttl_of_zero of VOLCANO, OF_VOLCANO),
    scenario!(history_of_zero of VOLCANO, OF_VOLCANO),
];

/// A CronJob with a slot that comes when it is resumed.
async fn cron(kind: &Kind, stage: &Stage, spec: Value) -> Checked<Overdue> {
    kind.suspended(stage, "a", spec).await
}

async fn resume(stage: &Stage, cron: &Made) -> Checked {
    stage
        .change(cron, json!({"spec": {"suspend": false}}))
        .await
}

/// Waits for the Job of the slot, as whoever runs it would, and ends it.
async fn run(kind: &Kind, stage: &Stage, how: &str) -> Checked {
    let is_new = |job: &Value| {
        job["metadata"]["name"]
            .as_str()
            .is_some_and(|name| name.starts_with("a-"))
    };
    let there = async || {
        let jobs = stage.list(&kind.jobs).await?;
        jobs.iter()
            .any(is_new)
            .then_some(())
            .ok_or_else(|| "no Job was made".to_owned())
    };
    stage.until(there).await?;
    let jobs = stage.list(&kind.jobs).await?;
    let name = jobs
        .iter()
        .find(|job| is_new(job))
        .map(|job| job["metadata"]["name"].clone());
    let name = name.as_ref().and_then(Value::as_str).unwrap_or_default();
    let job = stage.known(&kind.jobs, name).await?;
    kind.end(stage, &job, how, 0).await
}

mod tick {
    use super::*;

    pub(super) async fn make(kind: &Kind, stage: &Stage) -> Checked<Vec<Made>> {
        Ok(vec![cron(kind, stage, json!({})).await?.cron])
    }

    pub(super) async fn act(kind: &Kind, stage: &Stage, made: &[Made]) -> Checked {
        resume(stage, &made[0]).await?;
        run(kind, stage, "Complete").await
    }
}

/// A Job runs, and ends later.
mod forbid {
    use super::*;

    pub(super) async fn make(kind: &Kind, stage: &Stage) -> Checked<Vec<Made>> {
        let cron = cron(kind, stage, json!({"concurrencyPolicy": "Forbid"}))
            .await?
            .cron;
        let old = kind.job_of(stage, &cron, "old").await?;
        Ok(vec![cron, old])
    }

    pub(super) async fn act(kind: &Kind, stage: &Stage, made: &[Made]) -> Checked {
        resume(stage, &made[0]).await?;
        tokio::time::sleep(Duration::from_secs(100)).await;
        kind.end(stage, &made[1], "Failed", 0).await
    }
}

mod replace {
    use super::*;

    pub(super) async fn make(kind: &Kind, stage: &Stage) -> Checked<Vec<Made>> {
        let cron = cron(kind, stage, json!({"concurrencyPolicy": "Replace"}))
            .await?
            .cron;
        for name in ["old", "older", "oldest"] {
            kind.job_of(stage, &cron, name).await?;
        }
        Ok(vec![cron])
    }

    pub(super) async fn act(_: &Kind, stage: &Stage, made: &[Made]) -> Checked {
        resume(stage, &made[0]).await
    }
}

mod history {
    use super::*;

    pub(super) async fn make(kind: &Kind, stage: &Stage) -> Checked<Vec<Made>> {
        let limits = json!({"successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 1});
        let cron = cron(kind, stage, limits).await?.cron;
        for (name, how, secs_ago) in [
            ("good-1", "Complete", 90),
            ("good-2", "Complete", 80),
            ("bad-1", "Failed", 70),
            ("bad-2", "Failed", 60),
        ] {
            let job = kind.job_of(stage, &cron, name).await?;
            kind.end(stage, &job, how, secs_ago).await?;
        }
        Ok(vec![cron])
    }

    pub(super) async fn act(kind: &Kind, stage: &Stage, made: &[Made]) -> Checked {
        resume(stage, &made[0]).await?;
        run(kind, stage, "Complete").await
    }
}

mod ttl_of_zero {
    use super::*;

    pub(super) async fn make(kind: &Kind, stage: &Stage) -> Checked<Vec<Made>> {
        let template = json!({"spec": {"ttlSecondsAfterFinished": 0}});
        let cron = cron(kind, stage, json!({ "jobTemplate": template }))
            .await?
            .cron;
        Ok(vec![cron])
    }

    pub(super) async fn act(kind: &Kind, stage: &Stage, made: &[Made]) -> Checked {
        resume(stage, &made[0]).await?;
        run(kind, stage, "Complete").await
    }
}

mod history_of_zero {
    use super::*;

    pub(super) async fn make(kind: &Kind, stage: &Stage) -> Checked<Vec<Made>> {
        let limits = json!({"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0});
        let cron = cron(kind, stage, limits).await?.cron;
        let job = kind.job_of(stage, &cron, "good").await?;
        kind.end(stage, &job, "Complete", 60).await?;
        Ok(vec![cron])
    }

    pub(super) async fn act(kind: &Kind, stage: &Stage, made: &[Made]) -> Checked {
        resume(stage, &made[0]).await?;
        run(kind, stage, "Failed").await?;
        // Without a crash too: the feed shows the end of a Job before its delete is answered.
        stage.until(async || succeeded(stage, &made[0]).await).await
    }
}
