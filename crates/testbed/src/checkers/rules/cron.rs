//! The rules of ticks: one Job for each slot, none beside another where that is forbidden, none that goes before its slot is
//! recorded, and none that a user started.

use caretaker_machinery::cron::{CronSchedule, zone};
use http::Method;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{ObjectHistory, StoredObject, judged};
use crate::wire::RecordedRequest;

/// Whether a request creates an object. Only the CronJob controllers create any.
pub(super) fn is_start(act: &RecordedRequest) -> bool {
    act.method == Method::POST
}

/// Whether a request tells the status of a CronJob.
pub(super) fn is_record(act: &RecordedRequest) -> bool {
    act.method == Method::PATCH && act.path.contains("/cronjobs/") && act.path.ends_with("/status")
}

/// The CronJob that a Job belongs to as it was when something happened to the Job, unless that was gone or going.
pub(super) fn master<'a>(
    history: &'a ObjectHistory,
    job: &StoredObject,
    at: u64,
) -> Option<&'a StoredObject> {
    let uid = controller(&job.object)?;
    let there = history.before(at);
    there.get(uid).copied().filter(|cron| !cron.is_deleting())
}

/// A Job was made.
pub(super) fn start(history: &ObjectHistory, act: &RecordedRequest) -> Result<(), String> {
    let made = &act.answer;
    let (Some(owner), Some(name)) = (controller(made), made["metadata"]["name"].as_str()) else {
        return Err("S6: a Job was created without an owner".to_owned());
    };
    let uid = made["metadata"]["uid"].as_str().unwrap_or_default();
    let of_owner = |stored: &&StoredObject| controller(&stored.object) == Some(owner);
    let mut others = history.all().filter(of_owner);
    if others.any(|other| other.name() == name && other.uid() != uid) {
        return Err(format!("S6: the slot of {name} had a Job before"));
    }
    let Some(first) = history.of(uid).next() else {
        return Ok(());
    };
    let there = history.before(first.revision);
    let Some(cron) = there.get(owner) else {
        return Ok(());
    };
    let mut jobs = there.values().filter(|stored| of_owner(stored));
    let running = jobs.find(|job| super::ending(&job.object).is_none() && counts(job, cron));
    match (cron.object["spec"]["concurrencyPolicy"].as_str(), running) {
        (Some("Forbid"), Some(running)) => Err(format!("S7: {} still ran", running.name())),
        (Some("Replace"), Some(running)) if !running.is_deleting() => {
            Err(format!("S7: {} was not deleted", running.name()))
        }
        _ => Ok(()),
    }
}

/// A Job was deleted whose CronJob lives. `answer` is the server's answer to the delete.
pub(super) fn delete(
    job: &StoredObject,
    cron: &StoredObject,
    answer: &Value,
) -> Result<(), String> {
    let last = time(&cron.object["status"]["lastScheduleTime"]);
    let recorded = last.map_or(i64::MIN, |last| last.as_second().div_euclid(60));
    let deleted = time(&answer["metadata"]["deletionTimestamp"]);
    let unrecorded = minute(job, cron).filter(|minute| *minute > recorded);
    if unrecorded.is_some_and(|minute| !is_over(minute, cron, deleted)) {
        return Err(format!("S6: the slot of {} was not recorded", job.name()));
    }
    if super::ending(&job.object).is_some() {
        return Ok(());
    }
    let name = job.name();
    match cron.object["spec"]["concurrencyPolicy"].as_str() {
        Some("Replace") if counts(job, cron) => Ok(()),
        Some("Replace") => Err(format!("S7: {name} ran, and it was not the controller's")),
        _ => Err(format!("S7: {name} ran, and nothing was to replace it")),
    }
}

/// Whether a Job counts for the concurrency policy: it has the name of a slot and no user started it, or the status lists it.
fn counts(job: &StoredObject, cron: &StoredObject) -> bool {
    let metadata = &job.object["metadata"];
    let is_by_hand = metadata["annotations"]["cronjob.kubernetes.io/instantiate"].is_string();
    let active = cron.object["status"]["active"].as_array();
    let mut active = active.into_iter().flatten();
    // A Job is created at its slot or later; clocks may be set back by an hour.
    let created = time(&metadata["creationTimestamp"]).map(|created| created.as_second() / 60);
    let is_slot = |minute: i64| created.is_none_or(|created| minute <= created + 60);
    minute(job, cron).is_some_and(|minute| is_slot(minute) && !is_by_hand)
        || active.any(|active| active["uid"] == job.uid())
}

/// The slot in the name of a Job, in minutes since 1970.
fn minute(job: &StoredObject, cron: &StoredObject) -> Option<i64> {
    let prefix = format!("{}-", cron.name());
    job.name().strip_prefix(&prefix)?.parse().ok()
}

/// Whether a slot could no longer be served then: a later one had come, or its deadline had passed.
fn is_over(minute: i64, cron: &StoredObject, then: Option<Timestamp>) -> bool {
    let spec = &cron.object["spec"];
    let (Some(then), Ok(slot)) = (then, Timestamp::from_second(minute * 60)) else {
        return false;
    };
    let schedule = CronSchedule::parse(spec["schedule"].as_str().unwrap_or_default());
    let zone = spec["timeZone"].as_str().map(zone::find);
    let zone = zone.and_then(Result::ok).unwrap_or(TimeZone::UTC);
    let next = schedule
        .ok()
        .and_then(|schedule| schedule.next(slot, &zone));
    let deadline_secs = spec["startingDeadlineSeconds"].as_i64();
    let late = deadline_secs.map(|secs| slot + SignedDuration::from_secs(secs));
    next.into_iter().chain(late).any(|end| end <= then)
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// The status of a CronJob was written: nothing else has changed.
pub(super) fn record(history: &ObjectHistory, act: &RecordedRequest) -> Result<(), String> {
    let metadata = &act.body["metadata"];
    let Some((before, after)) = judged(history, &metadata["uid"], &metadata["resourceVersion"])?
    else {
        return Ok(());
    };
    let rest = |stored: &StoredObject| {
        let mut object = stored.object.clone();
        object["status"] = Value::Null;
        object["metadata"]["resourceVersion"] = Value::Null;
        object["metadata"]["managedFields"] = Value::Null;
        object
    };
    match rest(before) == rest(after) {
        true => Ok(()),
        false => Err("S4: more than the status was changed".to_owned()),
    }
}

fn controller(object: &Value) -> Option<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let mut owners = owners.into_iter().flatten();
    let owner = owners.find(|owner| owner["controller"] == true && owner["kind"] == "CronJob")?;
    owner["uid"].as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::time::Instant;

    use super::*;
    use crate::checkers::KnownKind;
    use crate::objects::{CRON_JOBS, JOBS};
    use crate::wire::RequestSender;

    /// A version of a Job of the CronJob `c`, or of that itself.
    fn stored(revision: u64, uid: &str, name: &str, changes: Value) -> StoredObject {
        let mut object = json!({"metadata": {"uid": uid, "name": name}});
        if uid != "c" {
            object["metadata"]["ownerReferences"] =
                json!([{"kind": "CronJob", "uid": "c", "controller": true}]);
        }
        StoredObject {
            revision,
            is_gone: false,
            known: usize::from(uid == "c"),
            object: crate::objects::with(object, changes),
        }
    }

    fn history(stored: Vec<StoredObject>) -> ObjectHistory {
        let kinds = [
            KnownKind::new(JOBS, "batch/v1", "Job"),
            KnownKind::new(CRON_JOBS, "batch/v1", "CronJob"),
        ];
        ObjectHistory::new(&kinds, stored)
    }

    fn made(job: &StoredObject) -> RecordedRequest {
        RecordedRequest {
            who: RequestSender::Controllers,
            sent: Instant::now(),
            method: Method::POST,
            path: String::new(),
            body: Value::Null,
            status: 201,
            answer: job.object.clone(),
        }
    }

    #[tokio::test]
    async fn a_second_job_for_a_slot_and_one_beside_another_are_noticed() {
        let policies = [("Allow", false), ("Forbid", true), ("Replace", true)];
        let by_hand = json!({"cronjob.kubernetes.io/instantiate": "manual"});
        // The Job that runs, and whether it counts.
        let jobs = [
            (stored(2, "x", "a-1", json!({})), true),
            (stored(2, "listed", "other", json!({})), true),
            (stored(2, "x", "other", json!({})), false),
            (
                stored(2, "x", "a-1", json!({"metadata": {"annotations": by_hand}})),
                false,
            ),
            (
                stored(
                    2,
                    "x",
                    "a-90",
                    json!({"metadata": {"creationTimestamp": "1970-01-01T00:02:00Z"}}),
                ),
                false,
            ),
        ];
        for (policy, is_strict) in policies {
            for (first, is_counted) in &jobs {
                let cron = stored(
                    1,
                    "c",
                    "a",
                    json!({"spec": {"concurrencyPolicy": policy}, "status": {"active": [{"uid": "listed"}]}}),
                );
                let second = stored(3, "y", "a-2", json!({}));
                let act = made(&second);
                let history = history(vec![cron.clone(), first.clone(), second]);
                let is_broken = is_strict && *is_counted;
                let name = first.name();
                assert_eq!(start(&history, &act).is_err(), is_broken, "{policy} {name}");
                let is_replaced = policy == "Replace" && *is_counted;
                let last = json!({"status": {"lastScheduleTime": "1970-01-01T02:00:00Z"}});
                let cron = StoredObject {
                    object: crate::objects::with(cron.object, last),
                    ..cron
                };
                let deleted = delete(first, &cron, &Value::Null);
                assert_eq!(deleted.is_ok(), is_replaced, "{policy} {name}");
            }
        }
        let cron = stored(1, "c", "a", json!({}));
        let (first, again) = (
            stored(2, "x", "a-1", json!({})),
            stored(3, "y", "a-1", json!({})),
        );
        let act = made(&again);
        let judged = start(&history(vec![cron, first, again]), &act);
        assert_eq!(
            judged,
            Err("S6: the slot of a-1 had a Job before".to_owned())
        );
    }

    #[test]
    fn a_job_that_goes_before_its_slot_is_recorded_is_noticed() {
        let end = json!({"status": {"conditions": [{"type": "Complete", "status": "True"}]}});
        for (name, is_broken) in [
            ("a-1", false),
            ("a-2", false),
            ("a-3", true),
            ("by-hand", false),
        ] {
            let cron = stored(
                1,
                "c",
                "a",
                json!({"status": {"lastScheduleTime": "1970-01-01T00:02:30Z"}}),
            );
            let job = stored(2, "x", name, end.clone());
            assert_eq!(
                delete(&job, &cron, &Value::Null).is_err(),
                is_broken,
                "{name}"
            );
        }
    }

    #[test]
    fn a_slot_that_is_over_need_not_be_recorded() {
        let end = json!({"status": {"conditions": [{"type": "Complete", "status": "True"}]}});
        let job = stored(2, "x", "a-5", end);
        let every = json!({"schedule": "*/5 * * * *"});
        let short = json!({"schedule": "*/5 * * * *", "startingDeadlineSeconds": 60});
        for (spec, deleted, is_broken) in [
            (&every, "1970-01-01T00:09:59Z", true),
            (&every, "1970-01-01T00:10:00Z", false),
            (&short, "1970-01-01T00:05:59Z", true),
            (&short, "1970-01-01T00:06:00Z", false),
        ] {
            let cron = stored(1, "c", "a", json!({"spec": spec}));
            let answer = json!({"metadata": {"deletionTimestamp": deleted}});
            assert_eq!(
                delete(&job, &cron, &answer).is_err(),
                is_broken,
                "{spec} {deleted}"
            );
        }
    }
}
