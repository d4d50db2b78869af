//! The suite of the TTL controllers: what a client sees of finished Jobs and their time to go.
//!
//! The plays restate upstream's e2e case and the rules of its unit tests as far as a client can bring them about, and add
//! what upstream never tested. No Job controller runs: plays write the status themselves, as the server's rules have it.
//! The garbage collector runs beside, because a Job goes in the foreground.

mod batch;
mod volcano;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::stage::{Made, Stage};
use super::{Checked, Play};
use crate::objects::{JOBS, mk_job, with};

/// The controllers it is about.
pub const CONTROLLERS: &[&str] = &["ttl-after-finished-controller", "gc-controller"];

/// The plays, by the kind of Job.
pub const PLAYS: &[&[Play]] = &[batch::PLAYS, volcano::PLAYS];

/// Long enough for several requests, and no longer than one likes to wait.
const SHORT_SECS: i64 = 8;
/// Longer than any play takes.
const LONG_SECS: i64 = 86_400;

/// A finalizer that nobody but the play takes off.
const HOLD: &str = "example.com/hold";

/// Makes a Job with a TTL, or without.
pub async fn job(stage: &Stage, name: &str, ttl_secs: Option<i64>) -> Checked<Made> {
    let spec = json!({"spec": {"ttlSecondsAfterFinished": ttl_secs}});
    stage.make(&JOBS, with(mk_job(name), spec)).await
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

/// Ends a Job now, or so many seconds ago; says when that was.
pub async fn end(stage: &Stage, job: &Made, how: &str, secs_ago: i64) -> Checked<Timestamp> {
    let at = stage.now().await? - SignedDuration::from_secs(secs_ago);
    stage.change_status(job, ended(how, at, Some(at))).await?;
    Ok(at)
}

/// Waits until the controllers have seen all Jobs so far: one more, whose time is over, goes.
async fn seen(stage: &Stage, name: &str) -> Checked {
    let canary = job(stage, name, Some(0)).await?;
    end(stage, &canary, "Complete", 0).await?;
    stage.goes(&[&canary]).await
}

async fn set_ttl(stage: &Stage, job: &Made, ttl_secs: Option<i64>) -> Checked {
    let spec = json!({"spec": {"ttlSecondsAfterFinished": ttl_secs}});
    stage.change(job, spec).await
}
