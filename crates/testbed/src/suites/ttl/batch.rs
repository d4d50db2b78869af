//! Jobs of `batch/v1`.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{HOLD, LONG_SECS, SHORT_SECS, end, ended, job, seen, set_ttl};
use crate::case::{CheckResult, TestCase, case};
use crate::environment::Environment;
use crate::fixtures::{CreatedObject, blocking, owned};
use crate::objects::{JOBS, PODS, mk_job, mk_pod, with};

pub(super) const CASES: &[TestCase] = &[
    case!(job_should_be_deleted_once_it_finishes_after_ttl_seconds),
    case!(jobs_go_however_they_ended),
    case!(what_has_not_finished_or_has_no_ttl_stays),
    case!(a_time_that_is_long_over_is_not_waited_for),
    case!(a_finish_in_the_future_is_waited_for),
    case!(a_ttl_that_is_raised_counts),
    case!(a_ttl_that_is_removed_counts),
    case!(pods_go_before_their_job),
    case!(a_successor_of_the_same_name_is_judged_by_itself),
    case!(a_job_that_does_not_say_when_it_finished_is_pointed_out; "ttl-warnings"),
    case!(jobs_that_expired_without_a_controller_go, FreshControllers),
];

/// Upstream's e2e case: not before its time, and not without its finalizer.
async fn job_should_be_deleted_once_it_finishes_after_ttl_seconds(
    env: &Environment,
) -> CheckResult {
    let held = json!({"metadata": {"finalizers": [HOLD]}, "spec": {"ttlSecondsAfterFinished": SHORT_SECS}});
    let job = env.make(&JOBS, with(mk_job("a"), held)).await?;
    let finish = end(env, &job, "Complete", 0).await?;
    env.until(async || env.deleting(&[&job]).await).await?;
    let deleted = &env.there(&job).await?["metadata"]["deletionTimestamp"];
    let deleted: Option<Timestamp> = deleted.as_str().and_then(|text| text.parse().ok());
    let due = finish + SignedDuration::from_secs(SHORT_SECS);
    if deleted.is_none_or(|deleted| deleted < due) {
        return Err(format!("it was deleted at {deleted:?}, before {due}"));
    }
    env.release(&job).await?;
    env.goes(&[&job]).await
}

async fn jobs_go_however_they_ended(env: &Environment) -> CheckResult {
    for how in ["Complete", "Failed"] {
        let job = job(env, &how.to_lowercase(), Some(0)).await?;
        end(env, &job, how, 0).await?;
        env.goes(&[&job]).await?;
    }
    Ok(())
}

async fn what_has_not_finished_or_has_no_ttl_stays(env: &Environment) -> CheckResult {
    let running = job(env, "running", Some(0)).await?;
    let almost = job(env, "almost", Some(0)).await?;
    let at = env.now().await?;
    let met = json!([{"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": at}]);
    let status = json!({"startTime": at, "conditions": met});
    env.change_status(&almost, status).await?;
    let kept = job(env, "kept", None).await?;
    end(env, &kept, "Complete", LONG_SECS).await?;
    let later = job(env, "later", Some(LONG_SECS)).await?;
    end(env, &later, "Failed", 0).await?;
    seen(env, "canary").await?;
    env.remain(&[&running, &almost, &kept, &later]).await
}

async fn a_time_that_is_long_over_is_not_waited_for(env: &Environment) -> CheckResult {
    let job = job(env, "a", Some(3_600)).await?;
    end(env, &job, "Complete", LONG_SECS).await?;
    env.goes(&[&job]).await
}

async fn a_finish_in_the_future_is_waited_for(env: &Environment) -> CheckResult {
    let job = job(env, "a", Some(0)).await?;
    end(env, &job, "Complete", -LONG_SECS).await?;
    seen(env, "canary").await?;
    env.remain(&[&job]).await
}

async fn a_ttl_that_is_raised_counts(env: &Environment) -> CheckResult {
    let raised = job(env, "raised", Some(SHORT_SECS)).await?;
    let other = job(env, "other", Some(SHORT_SECS)).await?;
    end(env, &raised, "Complete", 0).await?;
    end(env, &other, "Complete", 0).await?;
    set_ttl(env, &raised, Some(LONG_SECS)).await?;
    env.goes(&[&other]).await?;
    env.remain(&[&raised]).await?;
    set_ttl(env, &raised, Some(1)).await?;
    env.goes(&[&raised]).await
}

async fn a_ttl_that_is_removed_counts(env: &Environment) -> CheckResult {
    let removed = job(env, "removed", Some(SHORT_SECS)).await?;
    let other = job(env, "other", Some(SHORT_SECS)).await?;
    end(env, &removed, "Failed", 0).await?;
    end(env, &other, "Failed", 0).await?;
    set_ttl(env, &removed, None).await?;
    env.goes(&[&other]).await?;
    env.remain(&[&removed]).await?;
    set_ttl(env, &removed, Some(0)).await?;
    env.goes(&[&removed]).await
}

async fn pods_go_before_their_job(env: &Environment) -> CheckResult {
    let job = job(env, "a", Some(0)).await?;
    let pod = owned(mk_pod("a-0"), &[blocking(job.reference())]);
    let held = json!({"metadata": {"finalizers": [HOLD]}});
    let pod = env.make(&PODS, with(pod, held)).await?;
    end(env, &job, "Complete", 0).await?;
    let both = [&job, &pod];
    env.until(async || env.deleting(&both).await).await?;
    env.held_by(&job, &["foregroundDeletion"]).await?;
    env.release(&pod).await?;
    env.goes(&both).await
}

async fn a_successor_of_the_same_name_is_judged_by_itself(env: &Environment) -> CheckResult {
    let first = job(env, "a", Some(SHORT_SECS)).await?;
    end(env, &first, "Complete", 0).await?;
    let options = json!({"propagationPolicy": "Background"});
    env.delete(&first, options).await?;
    env.goes(&[&first]).await?;
    let second = job(env, "a", Some(LONG_SECS)).await?;
    end(env, &second, "Complete", 0).await?;
    let other = job(env, "other", Some(SHORT_SECS)).await?;
    end(env, &other, "Complete", 0).await?;
    env.goes(&[&other]).await?;
    env.remain(&[&second]).await
}

async fn a_job_that_does_not_say_when_it_finished_is_pointed_out(env: &Environment) -> CheckResult {
    let job = job(env, "a", Some(0)).await?;
    let at = env.now().await?;
    env.change_status(&job, ended("Complete", at, None)).await?;
    seen(env, "canary").await?;
    env.until(async || env.has_event(&job, "FinishTimeUnknown").await)
        .await?;
    env.remain(&[&job]).await?;
    env.change_status(&job, ended("Complete", at, Some(at)))
        .await?;
    env.goes(&[&job]).await
}

async fn jobs_that_expired_without_a_controller_go(env: &Environment) -> CheckResult {
    let mut jobs: Vec<CreatedObject> = Vec::new();
    for number in 0..20 {
        let job = job(env, &format!("a-{number}"), Some(60)).await?;
        end(env, &job, "Complete", 3_600).await?;
        jobs.push(job);
    }
    let later = job(env, "later", Some(LONG_SECS)).await?;
    end(env, &later, "Complete", 0).await?;
    env.start_controllers().await?;
    env.goes(&jobs.iter().collect::<Vec<_>>()).await?;
    env.remain(&[&later]).await
}
