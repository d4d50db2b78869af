//! Jobs of Volcano, by the least definition that has them: its schema keeps whatever is written.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{LONG_SECS, SHORT_SECS};
use crate::case::{CheckResult, TestCase, case};
use crate::environment::Environment;
use crate::fixtures::CreatedObject;
use crate::objects::{VOLCANO_JOBS, mk_object, with};

pub(super) const CASES: &[TestCase] = &[
    case!(volcano_jobs_go_in_three_phases, Crds, VolcanoTtl),
    case!(a_volcano_job_goes_with_its_ttl, Crds, VolcanoTtl),
    case!(a_volcano_job_that_starts_again_stays, Crds, VolcanoTtl),
    case!(
        a_volcano_job_with_an_absurd_ttl_is_pointed_out,
        Crds,
        VolcanoTtl
    ),
];

const GROUP: &str = "batch.volcano.sh";

/// Defines Volcano's Jobs, unless they are defined.
async fn define(env: &Environment) -> CheckResult {
    env.define_volcano("Job", &VOLCANO_JOBS).await
}

async fn job(
    env: &Environment,
    name: &str,
    ttl_secs: impl Into<Value>,
) -> CheckResult<CreatedObject> {
    let object = mk_object(&format!("{GROUP}/v1alpha1"), "Job", name);
    let ttl_secs: Value = ttl_secs.into();
    let spec = json!({"spec": {"minAvailable": 1, "ttlSecondsAfterFinished": ttl_secs}});
    env.make(&VOLCANO_JOBS, with(object, spec)).await
}

/// Writes that a Job has been in a phase for some seconds.
async fn enter(env: &Environment, job: &CreatedObject, phase: &str, secs_ago: i64) -> CheckResult {
    let at = env.now().await? - SignedDuration::from_secs(secs_ago);
    let state = json!({"phase": phase, "lastTransitionTime": at});
    env.change_status(job, json!({ "state": state })).await
}

async fn volcano_jobs_go_in_three_phases(env: &Environment) -> CheckResult {
    define(env).await?;
    let (mut go, mut stay) = (Vec::new(), Vec::new());
    for phase in [
        "Pending",
        "Running",
        "Restarting",
        "Aborting",
        "Aborted",
        "Completing",
        "Terminating",
    ] {
        let job = job(env, &phase.to_lowercase(), 0).await?;
        enter(env, &job, phase, 3_600).await?;
        stay.push(job);
    }
    for phase in ["Completed", "Failed", "Terminated"] {
        let name = phase.to_lowercase();
        let expired = job(env, &name, 0).await?;
        enter(env, &expired, phase, 0).await?;
        go.push(expired);
        let later = job(env, &format!("{name}-later"), LONG_SECS).await?;
        enter(env, &later, phase, 0).await?;
        stay.push(later);
    }
    env.goes(&go.iter().collect::<Vec<_>>()).await?;
    env.remain(&stay.iter().collect::<Vec<_>>()).await
}

async fn a_volcano_job_goes_with_its_ttl(env: &Environment) -> CheckResult {
    define(env).await?;
    let job = job(env, "a", SHORT_SECS).await?;
    enter(env, &job, "Completed", 0).await?;
    env.untouched(&[&job]).await?;
    env.goes(&[&job]).await
}

async fn a_volcano_job_that_starts_again_stays(env: &Environment) -> CheckResult {
    define(env).await?;
    let (again, other) = (
        job(env, "again", SHORT_SECS).await?,
        job(env, "other", SHORT_SECS).await?,
    );
    enter(env, &again, "Failed", 0).await?;
    enter(env, &other, "Failed", 0).await?;
    enter(env, &again, "Restarting", 0).await?;
    env.goes(&[&other]).await?;
    env.remain(&[&again]).await
}

async fn a_volcano_job_with_an_absurd_ttl_is_pointed_out(env: &Environment) -> CheckResult {
    define(env).await?;
    let absurd = [json!(-1), json!(1.5), json!("5"), json!(1_u64 << 40)];
    let mut jobs = Vec::new();
    for (number, ttl_secs) in absurd.into_iter().enumerate() {
        let job = job(env, &format!("a-{number}"), ttl_secs).await?;
        enter(env, &job, "Completed", LONG_SECS).await?;
        jobs.push(job);
    }
    let other = job(env, "other", 0).await?;
    enter(env, &other, "Completed", 0).await?;
    env.goes(&[&other]).await?;
    for job in &jobs {
        env.until(async || env.has_event(job, "TTLOutOfRange").await)
            .await?;
    }
    env.remain(&jobs.iter().collect::<Vec<_>>()).await
}
