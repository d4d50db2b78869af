//! The suite of the TTL controllers: what a client sees of finished Jobs and their time to go.
//!
//! The cases restate upstream's e2e case and the rules of its unit tests as far as a client can trigger them, and add
//! inputs that upstream never tested. No Job controller runs: cases write a valid status themselves.
//! The garbage collector runs beside, because a Job goes in the foreground.

mod batch;
mod volcano;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{CaseSuite, CaseTheme};
use crate::case::CheckResult;
use crate::environment::Environment;
use crate::fixtures::CreatedObject;
use crate::objects::{JOBS, mk_job, with};

/// The controllers under test.
pub const CONTROLLERS: &[&str] = &["ttl-after-finished-controller", "gc-controller"];

pub static SUITE: CaseSuite = CaseSuite {
    name: "ttl",
    controllers: CONTROLLERS,
    themes: &[
        CaseTheme {
            name: "batch",
            cases: batch::CASES,
        },
        CaseTheme {
            name: "volcano",
            cases: volcano::CASES,
        },
    ],
};

/// Long enough for several requests, and no longer than one likes to wait.
const SHORT_SECS: i64 = 8;
/// Longer than any case runs.
const LONG_SECS: i64 = 86_400;

/// A finalizer that only the case removes.
const HOLD: &str = "example.com/hold";

/// Makes a Job with a TTL, or without.
pub async fn job(
    env: &Environment,
    name: &str,
    ttl_secs: Option<i64>,
) -> CheckResult<CreatedObject> {
    let spec = json!({"spec": {"ttlSecondsAfterFinished": ttl_secs}});
    env.make(&JOBS, with(mk_job(name), spec)).await
}

/// The status of a Job that ended like this (`Complete` or `Failed`), as the server's rules have it. `said` is when its
/// condition says so.
pub fn ended(how: &str, at: Timestamp, said: Option<Timestamp>) -> Value {
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": said});
    match how {
        "Complete" => json!({"startTime": at, "completionTime": at,
            "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]}),
        _ => {
            json!({"startTime": at, "conditions": [condition("FailureTarget"), condition("Failed")]})
        }
    }
}

/// Writes that a Job has ended `secs_ago`; returns that time.
pub async fn end(
    env: &Environment,
    job: &CreatedObject,
    how: &str,
    secs_ago: i64,
) -> CheckResult<Timestamp> {
    let at = env.now().await? - SignedDuration::from_secs(secs_ago);
    env.change_status(job, ended(how, at, Some(at))).await?;
    Ok(at)
}

/// Waits until the controllers have seen all Jobs so far: one more, whose time is over, goes.
async fn seen(env: &Environment, name: &str) -> CheckResult {
    let canary = job(env, name, Some(0)).await?;
    end(env, &canary, "Complete", 0).await?;
    env.goes(&[&canary]).await
}

async fn set_ttl(env: &Environment, job: &CreatedObject, ttl_secs: Option<i64>) -> CheckResult {
    let spec = json!({"spec": {"ttlSecondsAfterFinished": ttl_secs}});
    env.change(job, spec).await
}
