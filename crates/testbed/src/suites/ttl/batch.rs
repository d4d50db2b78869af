//! Jobs of `batch/v1`.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{HOLD, LONG_SECS, SHORT_SECS, end, ended, job, seen, set_ttl};
use crate::objects::{JOBS, PODS, mk_job, mk_pod, with};
use crate::suites::play::play;
use crate::suites::stage::{Made, Stage, blocking, owned};
use crate::suites::{Checked, Play};

pub(super) const PLAYS: &[Play] = &[
    play!(job_should_be_deleted_once_it_finishes_after_ttl_seconds),
    play!(jobs_go_however_they_ended),
    play!(what_has_not_finished_or_has_no_ttl_stays),
    play!(a_time_that_is_long_over_is_not_waited_for),
    play!(a_finish_in_the_future_is_waited_for),
    play!(a_ttl_that_is_raised_counts),
    play!(a_ttl_that_is_removed_counts),
    play!(pods_go_before_their_job),
    play!(a_successor_of_the_same_name_is_judged_by_itself),
    play!(a_job_that_does_not_say_when_it_finished_is_pointed_out; "ttl-warnings"),
    play!(jobs_that_expired_while_nobody_looked_go, FreshCollector),
];

/// Upstream's e2e case: not before its time, and not without its finalizer.
async fn job_should_be_deleted_once_it_finishes_after_ttl_seconds(stage: &Stage) -> Checked {
    let held = json!({"metadata": {"finalizers": [HOLD]}, "spec": {"ttlSecondsAfterFinished": SHORT_SECS}});
    let job = stage.make(&JOBS, with(mk_job("a"), held)).await?;
    let finish = end(stage, &job, "Complete", 0).await?;
    stage.until(async || stage.deleting(&[&job]).await).await?;
    let deleted = &stage.there(&job).await?["metadata"]["deletionTimestamp"];
    let deleted: Option<Timestamp> = deleted.as_str().and_then(|text| text.parse().ok());
    let due = finish + SignedDuration::from_secs(SHORT_SECS);
    if deleted.is_none_or(|deleted| deleted < due) {
        return Err(format!("it was deleted at {deleted:?}, before {due}"));
    }
    stage.release(&job).await?;
    stage.goes(&[&job]).await
}

async fn jobs_go_however_they_ended(stage: &Stage) -> Checked {
    for how in ["Complete", "Failed"] {
        let job = job(stage, &how.to_lowercase(), Some(0)).await?;
        end(stage, &job, how, 0).await?;
        stage.goes(&[&job]).await?;
    }
    Ok(())
}

async fn what_has_not_finished_or_has_no_ttl_stays(stage: &Stage) -> Checked {
    let running = job(stage, "running", Some(0)).await?;
    let almost = job(stage, "almost", Some(0)).await?;
    let at = stage.now().await?;
    let met = json!([{"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": at}]);
    let status = json!({"startTime": at, "conditions": met});
    stage.change_status(&almost, status).await?;
    let kept = job(stage, "kept", None).await?;
    end(stage, &kept, "Complete", LONG_SECS).await?;
    let later = job(stage, "later", Some(LONG_SECS)).await?;
    end(stage, &later, "Failed", 0).await?;
    seen(stage, "canary").await?;
    stage.remain(&[&running, &almost, &kept, &later]).await
}

async fn a_time_that_is_long_over_is_not_waited_for(stage: &Stage) -> Checked {
    let job = job(stage, "a", Some(3_600)).await?;
    end(stage, &job, "Complete", LONG_SECS).await?;
    stage.goes(&[&job]).await
}

async fn a_finish_in_the_future_is_waited_for(stage: &Stage) -> Checked {
    let job = job(stage, "a", Some(0)).await?;
    end(stage, &job, "Complete", -LONG_SECS).await?;
    seen(stage, "canary").await?;
    stage.remain(&[&job]).await
}

async fn a_ttl_that_is_raised_counts(stage: &Stage) -> Checked {
    let raised = job(stage, "raised", Some(SHORT_SECS)).await?;
    let other = job(stage, "other", Some(SHORT_SECS)).await?;
    end(stage, &raised, "Complete", 0).await?;
    end(stage, &other, "Complete", 0).await?;
    set_ttl(stage, &raised, Some(LONG_SECS)).await?;
    stage.goes(&[&other]).await?;
    stage.remain(&[&raised]).await?;
    set_ttl(stage, &raised, Some(1)).await?;
    stage.goes(&[&raised]).await
}

async fn a_ttl_that_is_removed_counts(stage: &Stage) -> Checked {
    let removed = job(stage, "removed", Some(SHORT_SECS)).await?;
    let other = job(stage, "other", Some(SHORT_SECS)).await?;
    end(stage, &removed, "Failed", 0).await?;
    end(stage, &other, "Failed", 0).await?;
    set_ttl(stage, &removed, None).await?;
    stage.goes(&[&other]).await?;
    stage.remain(&[&removed]).await?;
    set_ttl(stage, &removed, Some(0)).await?;
    stage.goes(&[&removed]).await
}

async fn pods_go_before_their_job(stage: &Stage) -> Checked {
    let job = job(stage, "a", Some(0)).await?;
    let pod = owned(mk_pod("a-0"), &[blocking(job.reference())]);
    let held = json!({"metadata": {"finalizers": [HOLD]}});
    let pod = stage.make(&PODS, with(pod, held)).await?;
    end(stage, &job, "Complete", 0).await?;
    let both = [&job, &pod];
    stage.until(async || stage.deleting(&both).await).await?;
    stage.held_by(&job, &["foregroundDeletion"]).await?;
    stage.release(&pod).await?;
    stage.goes(&both).await
}

async fn a_successor_of_the_same_name_is_judged_by_itself(stage: &Stage) -> Checked {
    let first = job(stage, "a", Some(SHORT_SECS)).await?;
    end(stage, &first, "Complete", 0).await?;
    let options = json!({"propagationPolicy": "Background"});
    stage.delete(&first, options).await?;
    stage.goes(&[&first]).await?;
    let second = job(stage, "a", Some(LONG_SECS)).await?;
    end(stage, &second, "Complete", 0).await?;
    let other = job(stage, "other", Some(SHORT_SECS)).await?;
    end(stage, &other, "Complete", 0).await?;
    stage.goes(&[&other]).await?;
    stage.remain(&[&second]).await
}

async fn a_job_that_does_not_say_when_it_finished_is_pointed_out(stage: &Stage) -> Checked {
    let job = job(stage, "a", Some(0)).await?;
    let at = stage.now().await?;
    stage
        .change_status(&job, ended("Complete", at, None))
        .await?;
    seen(stage, "canary").await?;
    stage
        .until(async || stage.told(&job, "FinishTimeUnknown").await)
        .await?;
    stage.remain(&[&job]).await?;
    stage
        .change_status(&job, ended("Complete", at, Some(at)))
        .await?;
    stage.goes(&[&job]).await
}

async fn jobs_that_expired_while_nobody_looked_go(stage: &Stage) -> Checked {
    let mut jobs: Vec<Made> = Vec::new();
    for number in 0..20 {
        let job = job(stage, &format!("a-{number}"), Some(60)).await?;
        end(stage, &job, "Complete", 3_600).await?;
        jobs.push(job);
    }
    let later = job(stage, "later", Some(LONG_SECS)).await?;
    end(stage, &later, "Complete", 0).await?;
    stage.start_collector().await?;
    stage.goes(&jobs.iter().collect::<Vec<_>>()).await?;
    stage.remain(&[&later]).await
}
