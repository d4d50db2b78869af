//! The rules of ticks: one Job for each slot, none beside another where that is forbidden, and none that goes before its
//! slot is recorded.

use http::Method;
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
    let policy = there
        .get(owner)
        .map(|cron| &cron.object["spec"]["concurrencyPolicy"]);
    let mut jobs = there.values().filter(|stored| of_owner(stored));
    let running = jobs.find(|job| super::ending(&job.object).is_none());
    match (policy.and_then(Value::as_str), running) {
        (Some("Forbid"), Some(running)) => Err(format!("S7: {} still ran", running.name())),
        (Some("Replace"), Some(running)) if !running.is_deleting() => {
            Err(format!("S7: {} was not deleted", running.name()))
        }
        _ => Ok(()),
    }
}

/// A Job was deleted whose CronJob lives.
pub(super) fn delete(job: &StoredObject, cron: &StoredObject) -> Result<(), String> {
    let prefix = format!("{}-", cron.name());
    let minute: Option<i64> = job
        .name()
        .strip_prefix(&prefix)
        .and_then(|minute| minute.parse().ok());
    let last = cron.object["status"]["lastScheduleTime"].as_str();
    let last: Option<jiff::Timestamp> = last.and_then(|last| last.parse().ok());
    let recorded = last.map_or(i64::MIN, |last| last.as_second().div_euclid(60));
    if minute.is_some_and(|minute| minute > recorded) {
        return Err(format!("S6: the slot of {} was not recorded", job.name()));
    }
    if super::ending(&job.object).is_none() && cron.object["spec"]["concurrencyPolicy"] != "Replace"
    {
        return Err(format!(
            "S7: {} ran, and nothing was to replace it",
            job.name()
        ));
    }
    Ok(())
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
        for (policy, is_broken) in policies {
            let cron = stored(1, "c", "a", json!({"spec": {"concurrencyPolicy": policy}}));
            let (first, second) = (
                stored(2, "x", "a-1", json!({})),
                stored(3, "y", "a-2", json!({})),
            );
            let act = made(&second);
            let history = history(vec![cron, first, second]);
            assert_eq!(start(&history, &act).is_err(), is_broken, "{policy}");
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
            assert_eq!(delete(&job, &cron).is_err(), is_broken, "{name}");
        }
        let cron = stored(1, "c", "a", json!({}));
        assert!(
            delete(&stored(2, "x", "by-hand", json!({})), &cron).is_err(),
            "it runs"
        );
    }
}
