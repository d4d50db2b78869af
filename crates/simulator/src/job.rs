//! Jobs of `batch/v1`: Pods until enough have succeeded or too many have failed, and a status that the server takes.
//!
//! Reduced to what lifecycles need: no indexes, no policies about failures or success, no pauses between failures, and
//! no finalizers on Pods: ended Pods count as long as they are there. Mirrors `pkg/controller/job` otherwise, 1.36: the
//! criterion is announced (SuccessCriteriaMet, FailureTarget), the last Pods go, then the Job ends.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::actor::{Actor, Decision, ask, at, rest, retry};
use crate::objects::{
    create, delete, free_name, later, pod_of, set_condition, set_count, time, time_at, write_status,
};
use crate::pod::{PODS, has_ended, is_active};
use crate::world::{Named, Object, World};

const JOBS: Named = ("batch", "jobs");
/// Whose Jobs these are, unless they say otherwise.
const MANAGER: &str = "kubernetes.io/job-controller";

/// The controller of Jobs.
#[derive(Debug)]
pub(crate) struct Jobs;

/// What the Pods of a Job come to.
struct Counts<'a> {
    active: Vec<&'a Object>,
    ready: usize,
    /// Deleted, and still there.
    terminating: usize,
    succeeded: i64,
    failed: i64,
}

/// How a Job ends: the condition that announces it, the one that says it, and why.
struct Ending {
    announced: &'static str,
    ended: &'static str,
    reason: &'static str,
    message: &'static str,
}

const COMPLETE: Ending = Ending {
    announced: "SuccessCriteriaMet",
    ended: "Complete",
    reason: "CompletionsReached",
    message: "Reached expected number of succeeded pods",
};
const TOO_MANY_FAILURES: Ending = Ending {
    announced: "FailureTarget",
    ended: "Failed",
    reason: "BackoffLimitExceeded",
    message: "Job has reached the specified backoff limit",
};
const TOO_LATE: Ending = Ending {
    announced: "FailureTarget",
    ended: "Failed",
    reason: "DeadlineExceeded",
    message: "Job was active longer than specified deadline",
};

// === impl Jobs ===

impl Actor for Jobs {
    const NAME: &'static str = "simulated-jobs";
    const KINDS: &'static [Named] = &[JOBS, PODS];

    fn decide(&self, world: &World, job: &Object, now: Timestamp) -> Decision {
        if job.is_deleting() || job.is_true("Complete") || job.is_true("Failed") {
            return rest("it is over");
        }
        if !matches!(job.text("/spec/managedBy"), "" | MANAGER) {
            return rest("somebody else manages it");
        }
        let counts = Counts::of(world, job);
        let is_suspended = *job.at("/spec/suspend") == true;
        let ending = ending(job, &counts, now);
        let wanted = match &ending {
            _ if is_suspended => 0,
            Some(_) => 0,
            None => counts.wanted(job),
        };
        if job.at("/status/startTime").is_null() && !is_suspended {
            return write(job, &status(job, &counts, None, now), "it starts");
        }
        let is_new = |ending: &Ending| !is_suspended && !job.is_true(ending.announced);
        if let Some(ending) = ending.as_ref().filter(|ending| is_new(ending)) {
            return write(job, &status(job, &counts, Some(ending), now), "it will end");
        }
        if counts.active.len() > wanted {
            // The name decides, so that it is always the same one.
            let last = counts.active.iter().max_by_key(|pod| &pod.meta().name);
            if let Some(pod) = last {
                return ask(delete(pod), "it wants fewer Pods");
            }
        }
        if counts.active.len() < wanted && !is_announced(job) {
            let name = free_name(world, job, PODS);
            let pod = pod_of(job.at("/spec/template"));
            return create(world, job, PODS, &name, pod).map_or_else(
                || retry("there are no Pods here"),
                |call| ask(call, "it wants more Pods"),
            );
        }
        let status = status(job, &counts, ending.as_ref(), now);
        match (write_status(job, &status), deadline(job)) {
            (Some(call), _) => ask(call, "its Pods have changed"),
            (None, Some(deadline)) if deadline > now => at(deadline, "its Pods are at work"),
            (None, _) => rest("its Pods are at work"),
        }
    }
}

// === impl Counts ===

impl<'a> Counts<'a> {
    fn of(world: &'a World, job: &Object) -> Self {
        let pods: Vec<&Object> = world.of(job, PODS).collect();
        let ended = |phase: &str, field: &str| {
            let there = pods.iter().filter(|pod| pod.text("/status/phase") == phase);
            let there = i64::try_from(there.count()).unwrap_or(i64::MAX);
            // What was counted once stays counted, also when its Pod is gone.
            there.max(job.number(&format!("/status/{field}")).unwrap_or(0))
        };
        let active: Vec<&Object> = pods.iter().copied().filter(|pod| is_active(pod)).collect();
        Self {
            ready: active.iter().filter(|pod| pod.is_true("Ready")).count(),
            active,
            terminating: pods
                .iter()
                .filter(|pod| pod.is_deleting() && !has_ended(pod))
                .count(),
            succeeded: ended("Succeeded", "succeeded"),
            failed: ended("Failed", "failed"),
        }
    }

    /// How many Pods should be at work.
    fn wanted(&self, job: &Object) -> usize {
        let parallel = job.number("/spec/parallelism").unwrap_or(1);
        let wanted = match job.number("/spec/completions") {
            Some(completions) => parallel.min(completions - self.succeeded),
            // The first success means that there is no more work to hand out.
            None if self.succeeded > 0 => return self.active.len(),
            None => parallel,
        };
        usize::try_from(wanted).unwrap_or(0)
    }

    fn is_quiet(&self) -> bool {
        self.active.is_empty() && self.terminating == 0
    }
}

fn is_announced(job: &Object) -> bool {
    job.is_true("SuccessCriteriaMet") || job.is_true("FailureTarget")
}

fn deadline(job: &Object) -> Option<Timestamp> {
    let secs = job.number("/spec/activeDeadlineSeconds")?;
    Some(later(time_at(job.at("/status/startTime"))?, secs))
}

/// Whether and how a Job ends; what was announced holds.
fn ending(job: &Object, counts: &Counts<'_>, now: Timestamp) -> Option<Ending> {
    if job.is_true(COMPLETE.announced) {
        return Some(COMPLETE);
    }
    let is_enough = match job.number("/spec/completions") {
        Some(completions) => counts.succeeded >= completions,
        None => counts.succeeded > 0 && counts.active.is_empty(),
    };
    let limit = job.number("/spec/backoffLimit").unwrap_or(6);
    let is_late = deadline(job).is_some_and(|deadline| deadline <= now);
    if counts.failed > limit || job.is_true(TOO_MANY_FAILURES.announced) && !is_late {
        Some(TOO_MANY_FAILURES)
    } else if is_late || job.is_true(TOO_LATE.announced) {
        Some(TOO_LATE)
    } else {
        is_enough.then_some(COMPLETE)
    }
}

fn status(job: &Object, counts: &Counts<'_>, ending: Option<&Ending>, now: Timestamp) -> Value {
    let mut status = job.at("/status").clone();
    set_count(&mut status, "active", counts.active.len());
    set_count(
        &mut status,
        "succeeded",
        usize::try_from(counts.succeeded).unwrap_or(0),
    );
    set_count(
        &mut status,
        "failed",
        usize::try_from(counts.failed).unwrap_or(0),
    );
    status["ready"] = counts.ready.into();
    status["terminating"] = counts.terminating.into();
    status["uncountedTerminatedPods"] = json!({});
    let mut conditions = job.items("/status/conditions").to_vec();
    let is_suspended = *job.at("/spec/suspend") == true;
    if is_suspended || job.is_true("Suspended") {
        let (word, reason, message) = if is_suspended {
            ("True", "JobSuspended", "Job suspended")
        } else {
            ("False", "JobResumed", "Job resumed")
        };
        let suspended =
            json!({"type": "Suspended", "status": word, "reason": reason, "message": message});
        add(&mut conditions, suspended, now);
    }
    if is_suspended {
        if let Some(status) = status.as_object_mut() {
            status.remove("startTime");
        }
    } else if status["startTime"].is_null() {
        status["startTime"] = time(now).into();
    }
    if let Some(ending) = ending.filter(|_| !is_suspended) {
        let condition = |of: &str| json!({"type": of, "status": "True", "reason": ending.reason, "message": ending.message});
        if !job.is_true(ending.announced) {
            add(&mut conditions, condition(ending.announced), now);
        }
        if counts.is_quiet() {
            add(&mut conditions, condition(ending.ended), now);
            if ending.ended == COMPLETE.ended {
                status["completionTime"] = time(now).into();
            }
        }
    }
    if !conditions.is_empty() {
        status["conditions"] = conditions.into();
    }
    status
}

/// Conditions of Jobs also say when they were looked at.
fn add(conditions: &mut Vec<Value>, mut condition: Value, now: Timestamp) {
    let is_new = !conditions
        .iter()
        .any(|known| known["type"] == condition["type"] && known["status"] == condition["status"]);
    if is_new {
        condition["lastProbeTime"] = time(now).into();
        set_condition(conditions, condition, now);
    }
}

fn write(job: &Object, status: &Value, why: &'static str) -> Decision {
    match write_status(job, status) {
        Some(call) => ask(call, why),
        None => rest("nothing about it changes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::Key;
    use crate::tests::{START, Stage, decided};

    fn mk_job(spec: &Value, status: &Value) -> Value {
        let mut job = json!({"metadata": {"name": "j", "namespace": "n"}, "status": status,
            "spec": {"parallelism": 1, "completions": 1, "backoffLimit": 1,
                "template": {"spec": {"containers": [], "restartPolicy": "Never"}}}});
        for (name, value) in spec.as_object().unwrap() {
            job["spec"][name] = value.clone();
        }
        job
    }

    fn mk_pod(name: &str, phase: &str) -> Value {
        let mut pod = json!({"metadata": {"name": name, "namespace": "n", "ownerReferences": [{"apiVersion": "batch/v1",
            "kind": "Job", "name": "j", "uid": "uid-of-j", "controller": true}]}, "status": {"phase": phase}});
        if phase == "deleted" {
            pod["metadata"]["deletionTimestamp"] = time(START).into();
            pod["status"]["phase"] = "Running".into();
        }
        pod
    }

    fn started() -> Value {
        json!({"startTime": time(START), "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}})
    }

    fn stage(job: Value, pods: &[&str]) -> Stage<Jobs> {
        let mut stage = Stage::of(Jobs);
        stage.applied(JOBS, job);
        for (number, phase) in pods.iter().enumerate() {
            stage.applied(PODS, mk_pod(&format!("p{number}"), phase));
        }
        stage
    }

    fn key() -> Key {
        Key::new("n", "j")
    }

    #[test]
    fn a_job_starts_then_makes_the_pods_it_wants() {
        let begun = decided(&stage(mk_job(&json!({}), &json!({})), &[]).decide(&key(), START));
        assert_eq!((begun.verb, begun.subresource), ("patch", Some("status")));
        assert_eq!(begun.body["status"]["startTime"], time(START));
        // What the Job wants, the Pods it has, and whether it makes another, ends one, or neither.
        let cases = [
            (json!({}), &[][..], "create"),
            (json!({}), &["Running"], "patch"),
            (json!({"parallelism": 2}), &["Running"], "patch"),
            (
                json!({"parallelism": 2, "completions": 3}),
                &["Running", "Succeeded"],
                "create",
            ),
            (
                json!({"parallelism": 2, "completions": 3}),
                &["Running", "Succeeded", "Succeeded"],
                "patch",
            ),
            (json!({}), &["Failed"], "create"),
            (json!({"parallelism": 0}), &["Running"], "delete"),
            (json!({"suspend": true}), &["Running"], "delete"),
            (
                json!({"completions": null, "parallelism": 2}),
                &["Running"],
                "create",
            ),
            (
                json!({"completions": null, "parallelism": 2}),
                &["Running", "Succeeded"],
                "patch",
            ),
        ];
        for (spec, pods, verb) in cases {
            let stage = stage(mk_job(&spec, &started()), pods);
            assert_eq!(
                decided(&stage.decide(&key(), START)).verb,
                verb,
                "{spec} {pods:?}"
            );
        }
    }

    /// The conditions that the next write of a Job has.
    fn conditions(job: Value, pods: &[&str], now: Timestamp) -> Vec<String> {
        let written = decided(&stage(job, pods).decide(&key(), now));
        assert_eq!(written.verb, "patch");
        let conditions = written.body["status"]["conditions"].as_array().cloned();
        let conditions = conditions.unwrap_or_default();
        let types = conditions
            .iter()
            .map(|known| known["type"].as_str().unwrap().to_owned());
        types.collect()
    }

    #[test]
    fn an_end_is_announced_and_comes_when_no_pod_is_left() {
        let (complete, failed) = (
            ["SuccessCriteriaMet", "Complete"],
            ["FailureTarget", "Failed"],
        );
        let late = json!({"activeDeadlineSeconds": 10});
        let cases: [(Value, &[&str], i64, &[&str]); 7] = [
            (json!({}), &["Succeeded"], 0, &complete),
            (json!({}), &["Succeeded", "deleted"], 0, &complete[..1]),
            (json!({}), &["Failed", "Failed"], 0, &failed),
            (json!({}), &["Failed", "Failed", "deleted"], 0, &failed[..1]),
            (json!({}), &["Running"], 0, &[]),
            (late, &["deleted"], 10, &failed[..1]),
            (json!({"completions": null}), &["Succeeded"], 0, &complete),
        ];
        for (spec, pods, secs, expected) in cases {
            let job = mk_job(&spec, &started());
            assert_eq!(
                conditions(job, pods, later(START, secs)),
                expected,
                "{spec} {pods:?}"
            );
        }
    }

    #[test]
    fn a_job_that_is_late_knows_when() {
        let spec = json!({"activeDeadlineSeconds": 10});
        let mut status = started();
        status["active"] = 1.into();
        let stage = stage(mk_job(&spec, &status), &["Running"]);
        assert_eq!(stage.at(&key(), START), Some(later(START, 10)));
    }

    #[test]
    fn pods_that_run_are_stopped_when_the_end_is_announced_and_not_before() {
        let late = json!({"activeDeadlineSeconds": 10});
        let cases: [(&Value, &[&str], &str); 3] = [
            (&late, &["Running"], "FailureTarget"),
            (
                &json!({}),
                &["Failed", "Failed", "Running"],
                "FailureTarget",
            ),
            (&json!({}), &["Succeeded", "Running"], "SuccessCriteriaMet"),
        ];
        for (spec, pods, announced) in cases {
            let now = later(START, 10);
            let job = mk_job(spec, &started());
            let mut stage = stage(job.clone(), pods);
            let written = decided(&stage.decide(&key(), now));
            assert_eq!(written.verb, "patch", "{spec} {pods:?}");
            let conditions = &written.body["status"]["conditions"];
            assert_eq!(conditions.as_array().unwrap().len(), 1, "{conditions}");
            assert_eq!(conditions[0]["type"], announced);
            let mut status = started();
            status["conditions"] = conditions.clone();
            stage.applied(JOBS, mk_job(spec, &status));
            let stopped = decided(&stage.decide(&key(), now));
            assert_eq!(stopped.verb, "delete", "{spec} {pods:?}");
        }
    }

    #[test]
    fn what_was_counted_stays_counted() {
        let mut status = started();
        status["failed"] = 2.into();
        let job = mk_job(&json!({}), &status);
        assert_eq!(conditions(job, &[], START), ["FailureTarget", "Failed"]);
    }

    #[test]
    fn jobs_of_others_and_jobs_that_are_over_are_left_alone() {
        let over = json!({"conditions": [{"type": "Complete", "status": "True"}]});
        for (spec, status) in [
            (json!({"managedBy": "example.com/mine"}), started()),
            (json!({}), over),
        ] {
            assert!(
                stage(mk_job(&spec, &status), &[]).is_resting(&key(), START),
                "{spec}"
            );
        }
    }
}
