//! The plays, each for both kinds.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{BATCH as KUBERNETES, Kind, VOLCANO as VOLCANOS, succeeded};
use crate::session::Ask;
use crate::suites::stage::Stage;
use crate::suites::{Checked, Need, Play};

/// The table of one kind: a play's name is that of its function, and of the kind before it.
macro_rules! table {
    ($prefix:literal, $kind:expr, $needs:expr, [$($function:ident $(; $deviation:literal)?,)*]) => {
        &[$(Play {
            name: concat!($prefix, stringify!($function)),
            needs: $needs,
            deviation: table!(@ $($deviation)?),
            run: |stage| Box::pin($function(stage, $kind)),
        }),*]
    };
    (@) => { None };
    (@ $deviation:literal) => { Some($deviation) };
}

pub(super) const BATCH: &[Play] = table!("cron_batch_", &KUBERNETES, &[], [
    slot_that_is_overdue,
    every_minute,
    nothing_while_suspended,
    allow_runs_both,
    forbid_waits,
    replace_deletes,
    end_leaves_active,
    forgotten_is_forbidden; "cron-derived-active",
    deleted_leaves_active,
    history_of_successes,
    history_of_failures,
    no_history; "cron-record-first",
    deadline_over,
    deadline_not_over,
    zone_in_stamp,
    slot_of_somebody_else,
    slot_made_already; "cron-derived-active",
    ttl_of_zero_runs_once,
    made_by_hand_goes,
]);

pub(super) const VOLCANO: &[Play] = table!(
    "cron_volcano_",
    &VOLCANOS,
    &[Need::Crds, Need::VolcanoCron],
    [
        slot_that_is_overdue,
        every_minute,
        nothing_while_suspended,
        allow_runs_both,
        forbid_waits,
        replace_deletes,
        end_leaves_active,
        forgotten_is_forbidden,
        deleted_leaves_active,
        history_of_successes,
        history_of_failures,
        no_history,
        deadline_over,
        deadline_not_over,
        zone_in_stamp,
        slot_of_somebody_else,
        slot_made_already,
        ttl_of_zero_runs_once,
        made_by_hand_goes,
        bad_schedule_and_zone,
        terminated_is_failed,
    ]
);

async fn slot_that_is_overdue(stage: &Stage, kind: &Kind) -> Checked {
    let template = json!({"metadata": {"labels": {"a": "b"}, "annotations": {"x": "y"}}});
    let due = kind
        .overdue(stage, "a", json!({ "jobTemplate": template }))
        .await?;
    let job = kind.started(stage, &due.job).await?;
    let object = stage.there(&job).await?;
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
    stage.until(async || due.recorded(stage).await).await?;
    due.active(stage, &[&due.job]).await?;
    stage
        .until(async || stage.told(&due.cron, "SuccessfulCreate").await)
        .await?;
    stage.count(&kind.jobs, 1).await
}

async fn every_minute(stage: &Stage, kind: &Kind) -> Checked {
    kind.define(stage).await?;
    let cron = kind.mk_cron("a", json!({"schedule": "*/1 * * * ?"}));
    stage.make(&kind.crons, cron).await?;
    stage
        .until(async || match stage.list(&kind.jobs).await?.len() {
            0 | 1 => Err("there are not two Jobs".to_owned()),
            _ => Ok(()),
        })
        .await
}

async fn nothing_while_suspended(stage: &Stage, kind: &Kind) -> Checked {
    let due = kind.suspended(stage, "a", json!({})).await?;
    stage
        .stays(async || stage.count(&kind.jobs, 0).await)
        .await?;
    due.resume(stage).await?;
    kind.started(stage, &due.job).await.map(|_| ())
}

/// A CronJob with this policy, a Job that runs, and a slot that comes then.
async fn overtaken(
    stage: &Stage,
    kind: &Kind,
    policy: &str,
) -> Checked<(super::Overdue, super::Made)> {
    let due = kind
        .suspended(stage, "a", json!({"concurrencyPolicy": policy}))
        .await?;
    let old = kind.job_of(stage, &due.cron, "old").await?;
    kind.list(stage, &due.cron, &[&old]).await?;
    due.resume(stage).await?;
    Ok((due, old))
}

async fn allow_runs_both(stage: &Stage, kind: &Kind) -> Checked {
    let (due, old) = overtaken(stage, kind, "Allow").await?;
    kind.started(stage, &due.job).await?;
    stage
        .until(async || due.active(stage, &["old", &due.job]).await)
        .await?;
    stage.untouched(&[&old]).await
}

async fn forbid_waits(stage: &Stage, kind: &Kind) -> Checked {
    let (due, old) = overtaken(stage, kind, "Forbid").await?;
    let reason = if kind.is_volcano() {
        "ForbidConcurrent"
    } else {
        "JobAlreadyActive"
    };
    stage
        .until(async || stage.told(&due.cron, reason).await)
        .await?;
    stage
        .stays(async || stage.count(&kind.jobs, 1).await)
        .await?;
    kind.end(stage, &old, "Complete", 0).await?;
    kind.started(stage, &due.job).await?;
    stage
        .until(async || due.active(stage, &[&due.job]).await)
        .await
}

async fn replace_deletes(stage: &Stage, kind: &Kind) -> Checked {
    let due = kind
        .overdue(stage, "a", json!({"concurrencyPolicy": "Replace"}))
        .await?;
    let old = kind.started(stage, &due.job).await?;
    stage
        .until(async || due.active(stage, &[&due.job]).await)
        .await?;
    let due = due.another(stage).await?;
    kind.started(stage, &due.job).await?;
    stage.goes(&[&old]).await?;
    stage
        .until(async || due.active(stage, &[&due.job]).await)
        .await?;
    let replaced: &[&str] = match kind.is_volcano() {
        true => &["ReplaceConcurrent"],
        false => &[],
    };
    let told = ["SuccessfulCreate", "SuccessfulCreate", "SuccessfulDelete"];
    due.told(stage, &[replaced, &told].concat()).await
}

async fn end_leaves_active(stage: &Stage, kind: &Kind) -> Checked {
    let due = kind.overdue(stage, "a", json!({})).await?;
    let job = kind.started(stage, &due.job).await?;
    stage
        .until(async || due.active(stage, &[&due.job]).await)
        .await?;
    kind.end(stage, &job, "Complete", 0).await?;
    stage.until(async || due.active(stage, &[]).await).await?;
    stage
        .until(async || stage.told(&due.cron, "SawCompletedJob").await)
        .await?;
    succeeded(stage, &due.cron).await?;
    stage.untouched(&[&job]).await
}

/// A Job runs that the status does not tell.
async fn forgotten_is_forbidden(stage: &Stage, kind: &Kind) -> Checked {
    let due = kind
        .suspended(stage, "a", json!({"concurrencyPolicy": "Forbid"}))
        .await?;
    let old = kind.job_of(stage, &due.cron, "old").await?;
    due.resume(stage).await?;
    stage
        .until(async || due.active(stage, &["old"]).await)
        .await?;
    stage
        .stays(async || stage.count(&kind.jobs, 1).await)
        .await?;
    kind.end(stage, &old, "Complete", 0).await?;
    kind.started(stage, &due.job).await.map(|_| ())
}

async fn deleted_leaves_active(stage: &Stage, kind: &Kind) -> Checked {
    let due = kind.overdue(stage, "a", json!({})).await?;
    let job = kind.started(stage, &due.job).await?;
    stage
        .until(async || due.active(stage, &[&due.job]).await)
        .await?;
    stage
        .delete(&job, json!({"propagationPolicy": "Background"}))
        .await?;
    stage.until(async || due.active(stage, &[]).await).await?;
    let reason = if kind.is_volcano() {
        "StaleReference"
    } else {
        "MissingJob"
    };
    stage
        .until(async || stage.told(&due.cron, reason).await)
        .await?;
    stage.stays(async || stage.count(&kind.jobs, 0).await).await
}

/// Three Jobs ended like this, and so many are kept.
async fn history(stage: &Stage, kind: &Kind, how: &str, limits: Value, kept: usize) -> Checked {
    let due = kind.suspended(stage, "a", limits).await?;
    let mut jobs = Vec::new();
    for (number, secs_ago) in [(1, 30), (2, 20), (3, 10)] {
        let job = kind
            .job_of(stage, &due.cron, &format!("old-{number}"))
            .await?;
        kind.end(stage, &job, how, secs_ago).await?;
        jobs.push(job);
    }
    let (gone, stay) = jobs.split_at(jobs.len() - kept);
    stage.goes(&gone.iter().collect::<Vec<_>>()).await?;
    stage
        .until(async || stage.told(&due.cron, "SuccessfulDelete").await)
        .await?;
    stage.remain(&stay.iter().collect::<Vec<_>>()).await
}

async fn history_of_successes(stage: &Stage, kind: &Kind) -> Checked {
    history(
        stage,
        kind,
        "Complete",
        json!({"successfulJobsHistoryLimit": 1}),
        1,
    )
    .await
}

async fn history_of_failures(stage: &Stage, kind: &Kind) -> Checked {
    history(
        stage,
        kind,
        "Failed",
        json!({"failedJobsHistoryLimit": 1}),
        1,
    )
    .await
}

async fn terminated_is_failed(stage: &Stage, kind: &Kind) -> Checked {
    history(
        stage,
        kind,
        "Terminated",
        json!({"failedJobsHistoryLimit": 2}),
        2,
    )
    .await
}

async fn no_history(stage: &Stage, kind: &Kind) -> Checked {
    let limits = json!({"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0});
    let due = kind.overdue(stage, "a", limits).await?;
    let job = kind.started(stage, &due.job).await?;
    stage
        .until(async || due.active(stage, &[&due.job]).await)
        .await?;
    kind.end(stage, &job, "Complete", 0).await?;
    stage.goes(&[&job]).await?;
    due.recorded(stage).await?;
    stage
        .until(async || succeeded(stage, &due.cron).await)
        .await?;
    let told = ["SawCompletedJob", "SuccessfulCreate", "SuccessfulDelete"];
    due.told(stage, &told).await?;
    stage.count(&kind.jobs, 0).await
}

async fn deadline_over(stage: &Stage, kind: &Kind) -> Checked {
    let late = kind
        .overdue(stage, "late", json!({"startingDeadlineSeconds": 300}))
        .await?;
    let canary = kind.overdue(stage, "canary", json!({})).await?;
    kind.started(stage, &canary.job).await?;
    stage.stays(async || late.active(stage, &[]).await).await?;
    stage.count(&kind.jobs, 1).await
}

async fn deadline_not_over(stage: &Stage, kind: &Kind) -> Checked {
    let due = kind
        .overdue(stage, "a", json!({"startingDeadlineSeconds": 3_000}))
        .await?;
    kind.started(stage, &due.job).await.map(|_| ())
}

/// Where clocks show another minute of the hour, and the stamp says so.
async fn zone_in_stamp(stage: &Stage, kind: &Kind) -> Checked {
    let due = kind.suspended(stage, "a", json!({})).await?;
    // Kathmandu is 5 h 45 min ahead.
    let there = due.slot + SignedDuration::from_mins(45);
    let minute = there.as_second().div_euclid(60).rem_euclid(60);
    let spec = json!({"timeZone": "Asia/Kathmandu", "schedule": format!("{minute} * * * *"), "suspend": false});
    stage.change(&due.cron, json!({ "spec": spec })).await?;
    // A changed schedule is looked at with the next event: this is one.
    stage
        .change(
            &due.cron,
            json!({"metadata": {"labels": {"touched": "yes"}}}),
        )
        .await?;
    let job = kind.started(stage, &due.job).await?;
    let object = stage.there(&job).await?;
    match stamp(&object).as_str() {
        Some(stamp) if stamp.ends_with("+05:45") => Ok(()),
        other => Err(format!("the stamp is {other:?}")),
    }
}

async fn slot_of_somebody_else(stage: &Stage, kind: &Kind) -> Checked {
    let due = kind.suspended(stage, "a", json!({})).await?;
    let other = kind.mk_cron("other", json!({"suspend": true}));
    let other = stage.make(&kind.crons, other).await?;
    let job = kind.job_of(stage, &other, &due.job).await?;
    due.resume(stage).await?;
    let canary = kind.overdue(stage, "canary", json!({})).await?;
    kind.started(stage, &canary.job).await?;
    if kind.is_volcano() {
        stage
            .until(async || stage.told(&due.cron, "ForeignJob").await)
            .await?;
    }
    stage.stays(async || due.active(stage, &[]).await).await?;
    stage.untouched(&[&job]).await
}

/// The Job of the slot is there: somebody died after it was made.
async fn slot_made_already(stage: &Stage, kind: &Kind) -> Checked {
    let due = kind.suspended(stage, "a", json!({})).await?;
    let job = kind.job_of(stage, &due.cron, &due.job).await?;
    due.resume(stage).await?;
    stage.until(async || due.recorded(stage).await).await?;
    due.active(stage, &[&due.job]).await?;
    stage
        .stays(async || stage.count(&kind.jobs, 1).await)
        .await?;
    stage.untouched(&[&job]).await
}

async fn ttl_of_zero_runs_once(stage: &Stage, kind: &Kind) -> Checked {
    let template = json!({"spec": {"ttlSecondsAfterFinished": 0}});
    let due = kind
        .overdue(stage, "a", json!({ "jobTemplate": template }))
        .await?;
    let job = kind.started(stage, &due.job).await?;
    kind.end(stage, &job, "Complete", 0).await?;
    stage.goes(&[&job]).await?;
    due.recorded(stage).await?;
    stage.stays(async || stage.count(&kind.jobs, 0).await).await
}

/// As `kubectl create job --from` makes it: it belongs to the CronJob and bears no tick's name, so its TTL waits for nothing.
async fn made_by_hand_goes(stage: &Stage, kind: &Kind) -> Checked {
    let due = kind.suspended(stage, "a", json!({})).await?;
    let job = kind.job_of(stage, &due.cron, "by-hand").await?;
    let by_hand = json!({"metadata": {"annotations": {"cronjob.kubernetes.io/instantiate": "manual"}},
        "spec": {"ttlSecondsAfterFinished": 0}});
    stage.change(&job, by_hand).await?;
    kind.end(stage, &job, "Complete", 0).await?;
    stage.goes(&[&job]).await
}

async fn bad_schedule_and_zone(stage: &Stage, kind: &Kind) -> Checked {
    kind.define(stage).await?;
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
        let post = Ask::post(kind.crons.collection(stage.ns()), &kind.mk_cron(name, spec));
        // A server that has Volcano's rules takes only what can be read.
        if stage.send(post, &[201, 422]).await?.status == 201 {
            crons.push((stage.known(&kind.crons, name).await?, reason));
        }
    }
    for (cron, reason) in &crons {
        stage.until(async || stage.told(cron, reason).await).await?;
    }
    let due = kind.overdue(stage, "good", json!({})).await?;
    kind.started(stage, &due.job).await.map(|_| ())
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
