//! The cases, each for both dialects.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{BATCH as KUBERNETES, JobDialect, VOLCANO as VOLCANOS, succeeded};
use crate::case::{CaseBody, CaseNeed, CheckResult, TestCase};
use crate::environment::Environment;
use crate::session::Ask;

/// The table of one dialect: a case's name is its function's, after the dialect's prefix.
macro_rules! table {
    ($prefix:literal, $kind:expr, $needs:expr, [$($function:ident $(; $deviation:literal)?,)*]) => {
        &[$(TestCase {
            name: concat!($prefix, stringify!($function)),
            needs: $needs,
            deviation: table!(@ $($deviation)?),
            body: CaseBody::Checked(|env| Box::pin($function(env, $kind))),
        }),*]
    };
    (@) => { None };
    (@ $deviation:literal) => { Some($deviation) };
}

pub(super) const BATCH: &[TestCase] = table!("cron_batch_", &KUBERNETES, &[], [
    slot_that_is_overdue,
    every_minute,
    nothing_while_suspended,
    allow_runs_both,
    forbid_waits,
    replace_deletes,
    end_leaves_active,
    forgotten_is_forbidden; "cron-derived-active",
    by_hand_is_not_waited_for,
    by_hand_is_not_replaced,
    deleted_leaves_active,
    history_of_successes,
    history_of_failures,
    no_history; "cron-record-first",
    deadline_over,
    deadline_not_over,
    zone_in_stamp,
    slot_of_a_foreign_job,
    slot_made_already; "cron-derived-active",
    ttl_of_zero_runs_once,
    made_by_hand_goes,
]);

pub(super) const VOLCANO: &[TestCase] = table!(
    "cron_volcano_",
    &VOLCANOS,
    &[CaseNeed::Crds, CaseNeed::VolcanoCron],
    [
        slot_that_is_overdue,
        every_minute,
        nothing_while_suspended,
        allow_runs_both,
        forbid_waits,
        replace_deletes,
        end_leaves_active,
        forgotten_is_forbidden,
        by_hand_is_not_waited_for,
        by_hand_is_not_replaced,
        deleted_leaves_active,
        history_of_successes,
        history_of_failures,
        no_history,
        deadline_over,
        deadline_not_over,
        zone_in_stamp,
        slot_of_a_foreign_job,
        slot_made_already,
        ttl_of_zero_runs_once,
        made_by_hand_goes,
        bad_schedule_and_zone,
        terminated_is_failed,
    ]
);

async fn slot_that_is_overdue(env: &Environment, kind: &JobDialect) -> CheckResult {
    let template = json!({"metadata": {"labels": {"a": "b"}, "annotations": {"x": "y"}}});
    let due = kind
        .overdue(env, "a", json!({ "jobTemplate": template }))
        .await?;
    let job = kind.started(env, &due.job).await?;
    let object = env.there(&job).await?;
    let metadata = &object["metadata"];
    let owner = crate::objects::with(
        due.cron.reference(),
        json!({"controller": true, "blockOwnerDeletion": true}),
    );
    let expected = [
        (&metadata["ownerReferences"], json!([owner])),
        (&metadata["labels"]["a"], json!("b")),
        (&metadata["annotations"]["x"], json!("y")),
        (stamp(&object), json!(format!("{:.0}", due.slot))),
    ];
    for (found, meant) in expected {
        if *found != meant {
            return Err(format!("{found} instead of {meant}"));
        }
    }
    env.until(async || due.recorded(env).await).await?;
    due.active(env, &[&due.job]).await?;
    env.until(async || env.has_event(&due.cron, "SuccessfulCreate").await)
        .await?;
    env.count(&kind.jobs, 1).await
}

async fn every_minute(env: &Environment, kind: &JobDialect) -> CheckResult {
    kind.define(env).await?;
    let cron = kind.mk_cron("a", json!({"schedule": "*/1 * * * ?"}));
    env.make(&kind.crons, cron).await?;
    env.until(async || match env.list(&kind.jobs).await?.len() {
        0 | 1 => Err("there are not two Jobs".to_owned()),
        _ => Ok(()),
    })
    .await
}

async fn nothing_while_suspended(env: &Environment, kind: &JobDialect) -> CheckResult {
    let due = kind.suspended(env, "a", json!({})).await?;
    env.stays(async || env.count(&kind.jobs, 0).await).await?;
    due.resume(env).await?;
    kind.started(env, &due.job).await.map(|_| ())
}

/// A CronJob with this policy, a Job that runs, and a slot that comes then.
async fn overtaken(
    env: &Environment,
    kind: &JobDialect,
    policy: &str,
) -> CheckResult<(super::OverdueCron, super::CreatedObject)> {
    let due = kind
        .suspended(env, "a", json!({"concurrencyPolicy": policy}))
        .await?;
    let old = kind.job_of(env, &due.cron, "old").await?;
    kind.list(env, &due.cron, &[&old]).await?;
    due.resume(env).await?;
    Ok((due, old))
}

async fn allow_runs_both(env: &Environment, kind: &JobDialect) -> CheckResult {
    let (due, old) = overtaken(env, kind, "Allow").await?;
    kind.started(env, &due.job).await?;
    env.until(async || due.active(env, &["old", &due.job]).await)
        .await?;
    env.untouched(&[&old]).await
}

async fn forbid_waits(env: &Environment, kind: &JobDialect) -> CheckResult {
    let (due, old) = overtaken(env, kind, "Forbid").await?;
    let reason = if kind.is_volcano() {
        "ForbidConcurrent"
    } else {
        "JobAlreadyActive"
    };
    env.until(async || env.has_event(&due.cron, reason).await)
        .await?;
    env.stays(async || env.count(&kind.jobs, 1).await).await?;
    kind.end(env, &old, "Complete", 0).await?;
    kind.started(env, &due.job).await?;
    env.until(async || due.active(env, &[&due.job]).await).await
}

async fn replace_deletes(env: &Environment, kind: &JobDialect) -> CheckResult {
    let due = kind
        .overdue(env, "a", json!({"concurrencyPolicy": "Replace"}))
        .await?;
    let old = kind.started(env, &due.job).await?;
    env.until(async || due.active(env, &[&due.job]).await)
        .await?;
    let due = due.another(env).await?;
    kind.started(env, &due.job).await?;
    env.goes(&[&old]).await?;
    env.until(async || due.active(env, &[&due.job]).await)
        .await?;
    let replaced: &[&str] = match kind.is_volcano() {
        true => &["ReplaceConcurrent"],
        false => &[],
    };
    let reasons = ["SuccessfulCreate", "SuccessfulCreate", "SuccessfulDelete"];
    due.has_events(env, &[replaced, &reasons].concat()).await
}

async fn end_leaves_active(env: &Environment, kind: &JobDialect) -> CheckResult {
    let due = kind.overdue(env, "a", json!({})).await?;
    let job = kind.started(env, &due.job).await?;
    env.until(async || due.active(env, &[&due.job]).await)
        .await?;
    kind.end(env, &job, "Complete", 0).await?;
    env.until(async || due.active(env, &[]).await).await?;
    env.until(async || env.has_event(&due.cron, "SawCompletedJob").await)
        .await?;
    succeeded(env, &due.cron).await?;
    env.untouched(&[&job]).await
}

/// The Job of an earlier slot runs, and the status does not list it.
async fn forgotten_is_forbidden(env: &Environment, kind: &JobDialect) -> CheckResult {
    let due = kind
        .suspended(env, "a", json!({"concurrencyPolicy": "Forbid"}))
        .await?;
    let last = due.slot - SignedDuration::from_hours(2);
    let name = format!("a-{}", last.as_second().div_euclid(60));
    let old = kind.job_of(env, &due.cron, &name).await?;
    due.resume(env).await?;
    env.until(async || due.active(env, &[&name]).await).await?;
    env.stays(async || env.count(&kind.jobs, 1).await).await?;
    kind.end(env, &old, "Complete", 0).await?;
    kind.started(env, &due.job).await.map(|_| ())
}

/// A Job runs that a user started, as `kubectl create job --from` does. The slot has its Job beside it.
async fn by_hand_is_left_alone(env: &Environment, kind: &JobDialect, policy: &str) -> CheckResult {
    let due = kind
        .suspended(env, "a", json!({"concurrencyPolicy": policy}))
        .await?;
    let job = kind.job_of(env, &due.cron, "a-by-hand").await?;
    due.resume(env).await?;
    kind.started(env, &due.job).await?;
    env.until(async || due.active(env, &[&due.job]).await)
        .await?;
    let reason = if kind.is_volcano() {
        "OrphanedJob"
    } else {
        "UnexpectedJob"
    };
    env.until(async || env.has_event(&due.cron, reason).await)
        .await?;
    let alone = async || {
        due.active(env, &[&due.job]).await?;
        env.count(&kind.jobs, 2).await
    };
    env.stays(alone).await?;
    env.untouched(&[&job]).await
}

async fn by_hand_is_not_waited_for(env: &Environment, kind: &JobDialect) -> CheckResult {
    by_hand_is_left_alone(env, kind, "Forbid").await
}

async fn by_hand_is_not_replaced(env: &Environment, kind: &JobDialect) -> CheckResult {
    by_hand_is_left_alone(env, kind, "Replace").await
}

async fn deleted_leaves_active(env: &Environment, kind: &JobDialect) -> CheckResult {
    let due = kind.overdue(env, "a", json!({})).await?;
    let job = kind.started(env, &due.job).await?;
    env.until(async || due.active(env, &[&due.job]).await)
        .await?;
    env.delete(&job, json!({"propagationPolicy": "Background"}))
        .await?;
    env.until(async || due.active(env, &[]).await).await?;
    let reason = if kind.is_volcano() {
        "StaleReference"
    } else {
        "MissingJob"
    };
    env.until(async || env.has_event(&due.cron, reason).await)
        .await?;
    env.stays(async || env.count(&kind.jobs, 0).await).await
}

/// Three Jobs ended like this, and the history limit keeps some of them.
async fn history(
    env: &Environment,
    kind: &JobDialect,
    how: &str,
    limit: &str,
    kept: usize,
) -> CheckResult {
    let due = kind.suspended(env, "a", json!({ limit: kept })).await?;
    let mut jobs = Vec::new();
    for (number, secs_ago) in [(1, 30), (2, 20), (3, 10)] {
        let job = kind
            .job_of(env, &due.cron, &format!("old-{number}"))
            .await?;
        kind.end(env, &job, how, secs_ago).await?;
        jobs.push(job);
    }
    let (gone, stay) = jobs.split_at(jobs.len() - kept);
    env.goes(&gone.iter().collect::<Vec<_>>()).await?;
    env.until(async || env.has_event(&due.cron, "SuccessfulDelete").await)
        .await?;
    env.remain(&stay.iter().collect::<Vec<_>>()).await
}

async fn history_of_successes(env: &Environment, kind: &JobDialect) -> CheckResult {
    history(env, kind, "Complete", "successfulJobsHistoryLimit", 1).await
}

async fn history_of_failures(env: &Environment, kind: &JobDialect) -> CheckResult {
    history(env, kind, "Failed", "failedJobsHistoryLimit", 1).await
}

async fn terminated_is_failed(env: &Environment, kind: &JobDialect) -> CheckResult {
    history(env, kind, "Terminated", "failedJobsHistoryLimit", 2).await
}

async fn no_history(env: &Environment, kind: &JobDialect) -> CheckResult {
    let limits = json!({"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0});
    let due = kind.overdue(env, "a", limits).await?;
    let job = kind.started(env, &due.job).await?;
    env.until(async || due.active(env, &[&due.job]).await)
        .await?;
    kind.end(env, &job, "Complete", 0).await?;
    env.goes(&[&job]).await?;
    due.recorded(env).await?;
    env.until(async || succeeded(env, &due.cron).await).await?;
    let reasons = ["SawCompletedJob", "SuccessfulCreate", "SuccessfulDelete"];
    due.has_events(env, &reasons).await?;
    env.count(&kind.jobs, 0).await
}

async fn deadline_over(env: &Environment, kind: &JobDialect) -> CheckResult {
    let late = kind
        .overdue(env, "late", json!({"startingDeadlineSeconds": 300}))
        .await?;
    let canary = kind.overdue(env, "canary", json!({})).await?;
    kind.started(env, &canary.job).await?;
    env.stays(async || late.active(env, &[]).await).await?;
    env.count(&kind.jobs, 1).await
}

async fn deadline_not_over(env: &Environment, kind: &JobDialect) -> CheckResult {
    let due = kind
        .overdue(env, "a", json!({"startingDeadlineSeconds": 3_000}))
        .await?;
    kind.started(env, &due.job).await.map(|_| ())
}

/// Where clocks show another minute of the hour, and the stamp says so.
async fn zone_in_stamp(env: &Environment, kind: &JobDialect) -> CheckResult {
    let due = kind.suspended(env, "a", json!({})).await?;
    // Kathmandu is 5 h 45 min ahead.
    let there = due.slot + SignedDuration::from_mins(45);
    let minute = there.as_second().div_euclid(60).rem_euclid(60);
    let spec = json!({"timeZone": "Asia/Kathmandu", "schedule": format!("{minute} * * * *"), "suspend": false});
    env.change(&due.cron, json!({ "spec": spec })).await?;
    // A changed schedule is looked at with the next event: this is one.
    env.change(
        &due.cron,
        json!({"metadata": {"labels": {"touched": "yes"}}}),
    )
    .await?;
    let job = kind.started(env, &due.job).await?;
    let object = env.there(&job).await?;
    match stamp(&object).as_str() {
        Some(stamp) if stamp.ends_with("+05:45") => Ok(()),
        other => Err(format!("the stamp is {other:?}")),
    }
}

async fn slot_of_a_foreign_job(env: &Environment, kind: &JobDialect) -> CheckResult {
    let due = kind.suspended(env, "a", json!({})).await?;
    let other = kind.mk_cron("other", json!({"suspend": true}));
    let other = env.make(&kind.crons, other).await?;
    let job = kind.job_of(env, &other, &due.job).await?;
    due.resume(env).await?;
    let canary = kind.overdue(env, "canary", json!({})).await?;
    kind.started(env, &canary.job).await?;
    if kind.is_volcano() {
        env.until(async || env.has_event(&due.cron, "ForeignJob").await)
            .await?;
    }
    env.stays(async || due.active(env, &[]).await).await?;
    env.untouched(&[&job]).await
}

/// The Job of the schedule time exists: a controller crashed after its creation.
async fn slot_made_already(env: &Environment, kind: &JobDialect) -> CheckResult {
    let due = kind.suspended(env, "a", json!({})).await?;
    let job = kind.job_of(env, &due.cron, &due.job).await?;
    due.resume(env).await?;
    env.until(async || due.recorded(env).await).await?;
    due.active(env, &[&due.job]).await?;
    env.stays(async || env.count(&kind.jobs, 1).await).await?;
    env.untouched(&[&job]).await
}

async fn ttl_of_zero_runs_once(env: &Environment, kind: &JobDialect) -> CheckResult {
    let template = json!({"spec": {"ttlSecondsAfterFinished": 0}});
    let due = kind
        .overdue(env, "a", json!({ "jobTemplate": template }))
        .await?;
    let job = kind.started(env, &due.job).await?;
    kind.end(env, &job, "Complete", 0).await?;
    env.goes(&[&job]).await?;
    due.recorded(env).await?;
    env.stays(async || env.count(&kind.jobs, 0).await).await
}

/// As `kubectl create job --from` makes it: it belongs to the CronJob and bears no tick's name, so its TTL waits for nothing.
async fn made_by_hand_goes(env: &Environment, kind: &JobDialect) -> CheckResult {
    let due = kind.suspended(env, "a", json!({})).await?;
    let job = kind.job_of(env, &due.cron, "by-hand").await?;
    let by_hand = json!({"metadata": {"annotations": {"cronjob.kubernetes.io/instantiate": "manual"}},
        "spec": {"ttlSecondsAfterFinished": 0}});
    env.change(&job, by_hand).await?;
    kind.end(env, &job, "Complete", 0).await?;
    env.goes(&[&job]).await
}

async fn bad_schedule_and_zone(env: &Environment, kind: &JobDialect) -> CheckResult {
    kind.define(env).await?;
    let cases = [
        (
            "words",
            json!({"schedule": "now and then"}),
            "InvalidSchedule",
        ),
        (
            "never",
            json!({"schedule": "0 0 31 2 *"}),
            "InvalidSchedule",
        ),
        (
            "zone",
            json!({"timeZone": "Middle/Earth"}),
            "InvalidTimeZone",
        ),
        ("panic", json!({"schedule": "TZ=0"}), "InvalidSchedule"),
    ];
    let mut crons = Vec::new();
    for (name, spec, reason) in cases {
        let post = Ask::post(kind.crons.collection(env.ns()), &kind.mk_cron(name, spec));
        // A server that has Volcano's rules takes only what can be read.
        if env.send(post, &[201, 422]).await?.status == 201 {
            crons.push((env.known(&kind.crons, name).await?, reason));
        }
    }
    for (cron, reason) in &crons {
        env.until(async || env.has_event(cron, reason).await)
            .await?;
    }
    let due = kind.overdue(env, "good", json!({})).await?;
    kind.started(env, &due.job).await.map(|_| ())
}

/// The annotation that tells the slot.
fn stamp(job: &Value) -> &Value {
    let annotations = &job["metadata"]["annotations"];
    let names = [
        "batch.kubernetes.io/cronjob-scheduled-timestamp",
        "volcano.sh/cronjob-scheduled-timestamp",
    ];
    let mut found = names.iter().map(|name| &annotations[*name]);
    found
        .find(|stamp| stamp.is_string())
        .unwrap_or(&Value::Null)
}
