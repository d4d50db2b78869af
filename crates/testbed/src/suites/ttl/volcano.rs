//! Jobs of Volcano, by the least definition that has them: its schema keeps whatever is written.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{LONG_SECS, SHORT_SECS};
use crate::objects::{VOLCANO_JOBS, mk_object, with};
use crate::suites::play::play;
use crate::suites::stage::{Made, Stage};
use crate::suites::{Checked, Play};

pub(super) const PLAYS: &[Play] = &[
    play!(volcano_jobs_go_in_three_phases, Crds, VolcanoTtl),
    play!(a_volcano_job_goes_with_its_ttl, Crds, VolcanoTtl),
    play!(a_volcano_job_that_starts_again_stays, Crds, VolcanoTtl),
    play!(
        a_volcano_job_with_an_absurd_ttl_is_pointed_out,
        Crds,
        VolcanoTtl
    ),
];

const GROUP: &str = "batch.volcano.sh";

/// Defines Volcano's Jobs, unless somebody has.
async fn define(stage: &Stage) -> Checked {
    stage.define_volcano("Job", &VOLCANO_JOBS).await
}

async fn job(stage: &Stage, name: &str, ttl_secs: impl Into<Value>) -> Checked<Made> {
    let object = mk_object(&format!("{GROUP}/v1alpha1"), "Job", name);
    let ttl_secs: Value = ttl_secs.into();
    let spec = json!({"spec": {"minAvailable": 1, "ttlSecondsAfterFinished": ttl_secs}});
    stage.make(&VOLCANO_JOBS, with(object, spec)).await
}

/// Puts a Job into a phase, since so many seconds.
async fn enter(stage: &Stage, job: &Made, phase: &str, secs_ago: i64) -> Checked {
    let at = stage.now().await? - SignedDuration::from_secs(secs_ago);
    let state = json!({"phase": phase, "lastTransitionTime": at});
    stage.change_status(job, json!({ "state": state })).await
}

async fn volcano_jobs_go_in_three_phases(stage: &Stage) -> Checked {
    define(stage).await?;
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
        let job = job(stage, &phase.to_lowercase(), 0).await?;
        enter(stage, &job, phase, 3_600).await?;
        stay.push(job);
    }
    for phase in ["Completed", "Failed", "Terminated"] {
        let name = phase.to_lowercase();
        let expired = job(stage, &name, 0).await?;
        enter(stage, &expired, phase, 0).await?;
        go.push(expired);
        let later = job(stage, &format!("{name}-later"), LONG_SECS).await?;
        enter(stage, &later, phase, 0).await?;
        stay.push(later);
    }
    stage.goes(&go.iter().collect::<Vec<_>>()).await?;
    stage.remain(&stay.iter().collect::<Vec<_>>()).await
}

async fn a_volcano_job_goes_with_its_ttl(stage: &Stage) -> Checked {
    define(stage).await?;
    let job = job(stage, "a", SHORT_SECS).await?;
    enter(stage, &job, "Completed", 0).await?;
    stage.untouched(&[&job]).await?;
    stage.goes(&[&job]).await
}

async fn a_volcano_job_that_starts_again_stays(stage: &Stage) -> Checked {
    define(stage).await?;
    let (again, other) = (
        job(stage, "again", SHORT_SECS).await?,
        job(stage, "other", SHORT_SECS).await?,
    );
    enter(stage, &again, "Failed", 0).await?;
    enter(stage, &other, "Failed", 0).await?;
    enter(stage, &again, "Restarting", 0).await?;
    stage.goes(&[&other]).await?;
    stage.remain(&[&again]).await
}

async fn a_volcano_job_with_an_absurd_ttl_is_pointed_out(stage: &Stage) -> Checked {
    define(stage).await?;
    let absurd = [json!(-1), json!(1.5), json!("5"), json!(1_u64 << 40)];
    let mut jobs = Vec::new();
    for (number, ttl_secs) in absurd.into_iter().enumerate() {
        let job = job(stage, &format!("a-{number}"), ttl_secs).await?;
        enter(stage, &job, "Completed", LONG_SECS).await?;
        jobs.push(job);
    }
    let other = job(stage, "other", 0).await?;
    enter(stage, &other, "Completed", 0).await?;
    stage.goes(&[&other]).await?;
    for job in &jobs {
        stage
            .until(async || stage.told(job, "TTLOutOfRange").await)
            .await?;
    }
    stage.remain(&jobs.iter().collect::<Vec<_>>()).await
}
