//! Convergent cases of the CronJob controllers: a tick, each concurrency policy, history limits, and Jobs that are deleted
//! at once.

use std::time::Duration;

use futures::FutureExt as _;
use serde_json::{Value, json};

use super::{TTL_NAME, VOLCANO_TTL_NAME, crash_case};
use crate::case::{CaseBody, CaseNeed, CheckResult, ConvergentSteps, TestCase};
use crate::controllers::COLLECTOR as NAME;
use crate::environment::Environment;
use crate::fixtures::CreatedObject;
use crate::suites::cron::{BATCH, JobDialect, OverdueCron, VOLCANO, succeeded};

/// The name for `--controllers`.
pub const CRON_NAME: &str = "cronjob-controller/batch";

/// The controllers of CronJobs and their Jobs.
pub const OF_BATCH: &[&str] = &[CRON_NAME, TTL_NAME, NAME];
pub const OF_VOLCANO: &[&str] = &["cronjob-controller/volcano", VOLCANO_TTL_NAME, NAME];

/// Each case creates a suspended CronJob and Jobs, and resumes it.
pub(super) const CASES: &[TestCase] = &[
    crash_case!("batch_", tick, resume_and_run of BATCH, OF_BATCH),
    crash_case!("batch_", forbid, act_on_forbid of BATCH, OF_BATCH),
    crash_case!("batch_", replace, act_on_replace of BATCH, OF_BATCH),
    crash_case!("batch_", history, resume_and_run of BATCH, OF_BATCH),
    crash_case!("batch_", ttl_of_zero, resume_and_run of BATCH, OF_BATCH),
    crash_case!("batch_", history_of_zero, act_on_history_of_zero of BATCH, OF_BATCH),
    crash_case!("volcano_", tick, resume_and_run of VOLCANO, OF_VOLCANO),
    crash_case!("volcano_", forbid, act_on_forbid of VOLCANO, OF_VOLCANO),
    crash_case!("volcano_", replace, act_on_replace of VOLCANO, OF_VOLCANO),
    crash_case!("volcano_", history, resume_and_run of VOLCANO, OF_VOLCANO),
    crash_case!("volcano_", ttl_of_zero, resume_and_run of VOLCANO, OF_VOLCANO),
    crash_case!("volcano_", history_of_zero, act_on_history_of_zero of VOLCANO, OF_VOLCANO),
];

/// A suspended CronJob whose schedule time has passed.
async fn cron(dialect: &JobDialect, env: &Environment, spec: Value) -> CheckResult<OverdueCron> {
    dialect.suspended(env, "a", spec).await
}

async fn resume(env: &Environment, cron: &CreatedObject) -> CheckResult {
    env.change(cron, json!({"spec": {"suspend": false}})).await
}

/// Waits for the Job of the schedule time and ends it, as a Job controller would.
async fn run(dialect: &JobDialect, env: &Environment, how: &str) -> CheckResult {
    let is_new = |job: &Value| {
        job["metadata"]["name"]
            .as_str()
            .is_some_and(|name| name.starts_with("a-"))
    };
    let there = async || {
        let jobs = env.list(&dialect.jobs).await?;
        jobs.iter()
            .any(is_new)
            .then_some(())
            .ok_or_else(|| "no Job was created".to_owned())
    };
    env.until(there).await?;
    let jobs = env.list(&dialect.jobs).await?;
    let name = jobs
        .iter()
        .find(|job| is_new(job))
        .map(|job| job["metadata"]["name"].clone());
    let name = name.as_ref().and_then(Value::as_str).unwrap_or_default();
    let job = env.known(&dialect.jobs, name).await?;
    dialect.end(env, &job, how, 0).await
}

async fn tick(dialect: &JobDialect, env: &Environment) -> CheckResult<Vec<CreatedObject>> {
    Ok(vec![cron(dialect, env, json!({})).await?.cron])
}

async fn resume_and_run(
    dialect: &JobDialect,
    env: &Environment,
    made: &[CreatedObject],
) -> CheckResult {
    resume(env, &made[0]).await?;
    run(dialect, env, "Complete").await
}

/// A Job of the controller before is active and ends later.
async fn forbid(dialect: &JobDialect, env: &Environment) -> CheckResult<Vec<CreatedObject>> {
    let cron = cron(dialect, env, json!({"concurrencyPolicy": "Forbid"}))
        .await?
        .cron;
    let old = dialect.job_of(env, &cron, "old").await?;
    dialect.list(env, &cron, &[&old]).await?;
    Ok(vec![cron, old])
}

async fn act_on_forbid(
    dialect: &JobDialect,
    env: &Environment,
    made: &[CreatedObject],
) -> CheckResult {
    resume(env, &made[0]).await?;
    tokio::time::sleep(Duration::from_secs(100)).await;
    dialect.end(env, &made[1], "Failed", 0).await
}

async fn replace(dialect: &JobDialect, env: &Environment) -> CheckResult<Vec<CreatedObject>> {
    let cron = cron(dialect, env, json!({"concurrencyPolicy": "Replace"}))
        .await?
        .cron;
    let mut jobs = Vec::new();
    for name in ["old", "older", "oldest"] {
        jobs.push(dialect.job_of(env, &cron, name).await?);
    }
    let listed: Vec<&CreatedObject> = jobs.iter().collect();
    dialect.list(env, &cron, &listed).await?;
    dialect.job_of(env, &cron, "by-hand").await?;
    Ok(vec![cron])
}

async fn act_on_replace(_: &JobDialect, env: &Environment, made: &[CreatedObject]) -> CheckResult {
    resume(env, &made[0]).await
}

async fn history(dialect: &JobDialect, env: &Environment) -> CheckResult<Vec<CreatedObject>> {
    let limits = json!({"successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 1});
    let cron = cron(dialect, env, limits).await?.cron;
    for (name, how, secs_ago) in [
        ("good-1", "Complete", 90),
        ("good-2", "Complete", 80),
        ("bad-1", "Failed", 70),
        ("bad-2", "Failed", 60),
    ] {
        let job = dialect.job_of(env, &cron, name).await?;
        dialect.end(env, &job, how, secs_ago).await?;
    }
    Ok(vec![cron])
}

async fn ttl_of_zero(dialect: &JobDialect, env: &Environment) -> CheckResult<Vec<CreatedObject>> {
    let template = json!({"spec": {"ttlSecondsAfterFinished": 0}});
    let cron = cron(dialect, env, json!({ "jobTemplate": template }))
        .await?
        .cron;
    Ok(vec![cron])
}

async fn history_of_zero(
    dialect: &JobDialect,
    env: &Environment,
) -> CheckResult<Vec<CreatedObject>> {
    let limits = json!({"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0});
    let cron = cron(dialect, env, limits).await?.cron;
    let job = dialect.job_of(env, &cron, "good").await?;
    dialect.end(env, &job, "Complete", 60).await?;
    Ok(vec![cron])
}

async fn act_on_history_of_zero(
    dialect: &JobDialect,
    env: &Environment,
    made: &[CreatedObject],
) -> CheckResult {
    resume(env, &made[0]).await?;
    run(dialect, env, "Failed").await?;
    // Also without a crash: the watch shows the end of a Job before its delete is answered.
    env.until(async || succeeded(env, &made[0]).await).await
}
