//! CronJobs: what the server checks of their schedule, their zone, their limits and the Job that is made.
//!
//! Nothing is scheduled here. How a schedule is called that cannot be read is not compared: the words are ours
//! (`schedule-words`).

use serde_json::{Value, json};

use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::{Ask, Session};

pub(super) const CASES: &[TestCase] = &[
    api_case!(a_cron_job_keeps_its_limits_and_its_template),
    api_case!(a_schedule_that_cannot_be_read_is_422),
    api_case!(a_schedule_is_required_and_names_no_zone),
    api_case!(odd_schedules_are_accepted),
    api_case!(a_time_zone_is_one_of_the_database),
    api_case!(numbers_and_policies_of_a_cron_job_are_checked),
    api_case!(a_cron_job_has_a_name_of_52_characters_at_most),
    api_case!(the_job_of_a_cron_job_is_checked),
    api_case!(a_cron_job_is_checked_again_when_it_changes),
    api_case!(the_status_of_a_cron_job_is_written_by_itself),
];

/// Tries to create a CronJob with these members in its spec.
async fn attempt(s: &mut Session, spec: Value) {
    let object = with(mk_cron_job("a"), json!({ "spec": spec }));
    s.post_with(&CRON_JOBS, "dryRun=All", object).await;
}

async fn a_cron_job_keeps_its_limits_and_its_template(s: &mut Session) {
    s.post(&CRON_JOBS, mk_cron_job("a")).await;
    let limits = json!({"spec": {"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0,
        "startingDeadlineSeconds": 0, "concurrencyPolicy": "", "suspend": true, "timeZone": "Europe/Berlin"}});
    s.post(&CRON_JOBS, with(mk_cron_job("b"), limits)).await;
    let labels = json!({"labels": {"a": "b"}, "annotations": {"c": "d"}, "name": "X y", "namespace": "other"});
    let template = json!({"spec": {"jobTemplate": {"metadata": labels}}});
    s.post(&CRON_JOBS, with(mk_cron_job("c"), template)).await;
}

async fn a_schedule_that_cannot_be_read_is_422(s: &mut Session) {
    for schedule in [
        " ",
        "x",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "0 0 0 * *",
        "* * * * 7",
        "5-1 * * * *",
        "*/0 * * * *",
        "1/2/3 * * * *",
        "1-2-3 * * * *",
        "-1 * * * *",
        "* * * FOO *",
        "99999999999999999999 * * * *",
        "@every x",
        "@every 9999999999h",
        "@reboot",
        "@EVERY 1m",
        "TZ=0",
        "TZ=Nowhere/City * * * * *",
    ] {
        let object = with(mk_cron_job("a"), json!({"spec": {"schedule": schedule}}));
        let path = s.path(&CRON_JOBS);
        s.ask(Ask::post(path, &object).viewed(without_words)).await;
    }
}

/// Which fields are wrong, and how.
fn without_words(body: &Value) -> Value {
    let causes = body["details"]["causes"].as_array();
    let causes = causes.into_iter().flatten();
    let faults = causes.map(|cause| json!([cause["field"], cause["reason"]]));
    faults.collect()
}

async fn a_schedule_is_required_and_names_no_zone(s: &mut Session) {
    for spec in [
        json!({"schedule": ""}),
        json!({"schedule": null}),
        json!({"schedule": "TZ=UTC 0 20 * * *"}),
        json!({"schedule": "CRON_TZ=UTC 0 20 * * *", "timeZone": "UTC"}),
    ] {
        attempt(s, spec).await;
    }
}

async fn odd_schedules_are_accepted(s: &mut Session) {
    s.hide(&["spec"]);
    for schedule in [
        "@every 1m",
        "@every -1m",
        "@every 1ns",
        "0 0 31 2 *",
        "1,,2 * * * *",
        "+5 * * * *",
        "? ? ? JAN mon",
    ] {
        attempt(s, json!({ "schedule": schedule })).await;
    }
}

async fn a_time_zone_is_one_of_the_database(s: &mut Session) {
    s.hide(&["spec"]);
    for zone in [
        "",
        "UTC",
        "Europe/Berlin",
        "America/Argentina/Buenos_Aires",
        "Etc/GMT+5",
        "GMT0",
        "EST",
        "Local",
        "LOCAL",
        "utc",
        "europe/berlin",
        "Asia/./Shanghai",
        "America/-NewYork",
        "New York",
        "UTC!",
        "Amerrica/New_York",
        "../UTC",
        "/UTC",
        "UTC/",
        "a//b",
        "Etc/Unknown",
    ] {
        attempt(s, json!({ "timeZone": zone })).await;
    }
}

async fn numbers_and_policies_of_a_cron_job_are_checked(s: &mut Session) {
    let wrong = json!({"startingDeadlineSeconds": -1, "successfulJobsHistoryLimit": -1,
        "failedJobsHistoryLimit": -2, "concurrencyPolicy": "Sometimes"});
    attempt(s, wrong).await;
    let all = json!({"schedule": "", "timeZone": "", "startingDeadlineSeconds": -1, "concurrencyPolicy": "x",
        "successfulJobsHistoryLimit": -1, "failedJobsHistoryLimit": -1,
        "jobTemplate": {"spec": {"parallelism": -1, "template": {"spec": {"restartPolicy": "Always"}}}}});
    attempt(s, all).await;
    s.post(&CRON_JOBS, mk_object("batch/v1", "CronJob", "a"))
        .await;
}

async fn a_cron_job_has_a_name_of_52_characters_at_most(s: &mut Session) {
    s.hide(&["spec"]);
    for chars in [52, 53, 254] {
        s.post(&CRON_JOBS, mk_cron_job(&"a".repeat(chars))).await;
    }
    s.post(&CRON_JOBS, mk_cron_job("A")).await;
}

async fn the_job_of_a_cron_job_is_checked(s: &mut Session) {
    s.hide(&["spec"]);
    for job in [
        json!({"template": {"spec": {"restartPolicy": null}}}),
        json!({"template": {"spec": {"restartPolicy": "OnFailure"}}}),
        json!({"template": {"spec": {"restartPolicy": "Maybe"}}}),
        json!({"template": {"spec": {"containers": []}}}),
        json!({"parallelism": -1, "completions": -1, "backoffLimit": -1, "activeDeadlineSeconds": -1,
            "ttlSecondsAfterFinished": -1}),
        json!({"manualSelector": true}),
        json!({"manualSelector": false}),
        json!({"selector": {"matchLabels": {"a": "b"}}}),
        json!({"completionMode": "x"}),
        json!({"completionMode": "Indexed"}),
        json!({"podReplacementPolicy": "x"}),
        json!({"suspend": true, "ttlSecondsAfterFinished": 0}),
    ] {
        attempt(s, json!({"jobTemplate": {"spec": job}})).await;
    }
}

async fn a_cron_job_is_checked_again_when_it_changes(s: &mut Session) {
    s.hide(&["spec"]);
    s.post(&CRON_JOBS, mk_cron_job("a")).await;
    for spec in [
        json!({"schedule": "TZ=UTC * * * * *"}),
        json!({"schedule": null}),
        json!({"timeZone": "x"}),
        json!({"timeZone": "Asia/Tokyo"}),
        json!({"startingDeadlineSeconds": -1, "concurrencyPolicy": "x", "failedJobsHistoryLimit": -1}),
        json!({"jobTemplate": {"spec": {"parallelism": -1, "template": {"spec": {"restartPolicy": "Always"}}}}}),
        json!({"suspend": true, "concurrencyPolicy": "Forbid"}),
    ] {
        s.merge_patch(&CRON_JOBS, "a", json!({ "spec": spec }))
            .await;
    }
    s.get(&CRON_JOBS, "a").await;
}

async fn the_status_of_a_cron_job_is_written_by_itself(s: &mut Session) {
    s.hide_defaults();
    let born = json!({"status": {"lastScheduleTime": "2020-01-01T00:00:00Z"}});
    s.post(&CRON_JOBS, with(mk_cron_job("a"), born)).await;
    let active = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "x", "namespace": s.ns(),
        "uid": "00000000-0000-0000-0000-000000000001"}]);
    let status = json!({"active": active, "lastScheduleTime": "2026-01-01T00:00:00Z",
        "lastSuccessfulTime": "2020-01-01T00:00:00Z"});
    let patch = json!({"spec": {"schedule": "x"}, "status": status});
    s.merge_patch(&CRON_JOBS, "a/status", patch).await;
    s.merge_patch(&CRON_JOBS, "a", json!({"status": null}))
        .await;
    s.merge_patch(
        &CRON_JOBS,
        "a/status",
        json!({"status": {"active": null, "lastScheduleTime": null}}),
    )
    .await;
}
