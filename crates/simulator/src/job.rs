//! Simulated controller of `batch/v1` Jobs: creates Pods until enough have succeeded or too many have failed.
//!
//! Reduced to object lifecycles: no indexes, no failure or success policies, no backoff between failures, and no finalizers
//! on Pods, so finished Pods count only while they exist or the status has counted them. Otherwise mirrors
//! `pkg/controller/job`, 1.36: it sets SuccessCriteriaMet or FailureTarget, deletes the remaining Pods, then finishes the Job.

use caretaker_controllers::runtime::controller::EventNote;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::actor::{Actor, ActorDecision, request, rest, wait_until};
use crate::cache::{GroupResource, ObjectCache, ObjectSnapshot};
use crate::events::{identity, on_success};
use crate::objects::{later, set_condition, set_count, time, time_at, write_status};
use crate::pod::{PODS, delete_pod, has_ended, is_active, make_pod};

const JOBS: GroupResource = ("batch", "jobs");
/// The value of `managedBy` for Jobs of this controller.
const MANAGER: &str = "kubernetes.io/job-controller";

/// Simulates the Job controller.
#[derive(Debug)]
pub(crate) struct JobActor;

/// The Pods of a Job, counted by state.
struct PodCounts<'a> {
    active: Vec<&'a ObjectSnapshot>,
    ready: usize,
    /// Being deleted and not finished.
    terminating: usize,
    succeeded: i64,
    failed: i64,
}

/// An outcome of a Job: the interim and the final condition, with reason and message.
struct JobOutcome {
    interim: &'static str,
    final_condition: &'static str,
    reason: &'static str,
    message: &'static str,
}

const COMPLETE: JobOutcome = JobOutcome {
    interim: "SuccessCriteriaMet",
    final_condition: "Complete",
    reason: "CompletionsReached",
    message: "Reached expected number of succeeded pods",
};
const TOO_MANY_FAILURES: JobOutcome = JobOutcome {
    interim: "FailureTarget",
    final_condition: "Failed",
    reason: "BackoffLimitExceeded",
    message: "Job has reached the specified backoff limit",
};
const TOO_LATE: JobOutcome = JobOutcome {
    interim: "FailureTarget",
    final_condition: "Failed",
    reason: "DeadlineExceeded",
    message: "Job was active longer than specified deadline",
};

// === impl JobActor ===

impl Actor for JobActor {
    const NAME: &'static str = "simulated-jobs";
    const REPORTER: &'static str = "job-controller";
    const KINDS: &'static [GroupResource] = &[JOBS, PODS];

    fn decide(&self, cache: &ObjectCache, job: &ObjectSnapshot, now: Timestamp) -> ActorDecision {
        if job.is_deleting() || job.is_true("Complete") || job.is_true("Failed") {
            return rest("the Job is finished or being deleted");
        }
        if !matches!(job.text("/spec/managedBy"), "" | MANAGER) {
            return rest("another controller manages the Job");
        }
        let counts = PodCounts::of(cache, job);
        let is_suspended = *job.at("/spec/suspend") == true;
        let outcome = outcome(job, &counts, now);
        let wanted = match &outcome {
            _ if is_suspended => 0,
            Some(_) => 0,
            None => counts.wanted(job),
        };
        if job.at("/status/startTime").is_null() && !is_suspended {
            let status = status(job, &counts, None, now);
            return report(cache, job, &status, "the Job starts")
                .unwrap_or_else(|| rest("the status is up to date"));
        }
        let is_new = |outcome: &JobOutcome| !is_suspended && !job.is_true(outcome.interim);
        if let Some(outcome) = outcome.as_ref().filter(|outcome| is_new(outcome)) {
            let status = status(job, &counts, Some(outcome), now);
            let why = "the outcome of the Job is decided";
            return report(cache, job, &status, why)
                .unwrap_or_else(|| rest("the status is up to date"));
        }
        if counts.active.len() > wanted {
            // Choose by name, so that the decision is repeatable.
            let last = counts.active.iter().max_by_key(|pod| &pod.meta().name);
            if let Some(pod) = last {
                return delete_pod(cache, job, pod);
            }
        }
        if counts.active.len() < wanted && !has_interim_condition(job) {
            return make_pod(cache, job);
        }
        let status = status(job, &counts, outcome.as_ref(), now);
        let why = "the status does not match the Pods";
        match (report(cache, job, &status, why), deadline(job)) {
            (Some(decision), _) => decision,
            (None, Some(deadline)) if deadline > now => {
                wait_until(deadline, "the Pods are running")
            }
            (None, _) => rest("the Pods are running"),
        }
    }
}

// === impl PodCounts ===

impl<'a> PodCounts<'a> {
    fn of(cache: &'a ObjectCache, job: &ObjectSnapshot) -> Self {
        let pods: Vec<&ObjectSnapshot> = cache.controlled_by(job, PODS).collect();
        let ended = |phase: &str, field: &str| {
            let there = pods.iter().filter(|pod| pod.text("/status/phase") == phase);
            let there = i64::try_from(there.count()).unwrap_or(i64::MAX);
            // A counted Pod stays counted after it is gone.
            there.max(job.number(&format!("/status/{field}")).unwrap_or(0))
        };
        let active: Vec<&ObjectSnapshot> =
            pods.iter().copied().filter(|pod| is_active(pod)).collect();
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

    /// The number of Pods that should be active.
    fn wanted(&self, job: &ObjectSnapshot) -> usize {
        let parallel = job.number("/spec/parallelism").unwrap_or(1);
        let wanted = match job.number("/spec/completions") {
            Some(completions) => parallel.min(completions - self.succeeded),
            // Without completions, no Pods are created after the first success.
            None if self.succeeded > 0 => return self.active.len(),
            None => parallel,
        };
        usize::try_from(wanted).unwrap_or(0)
    }

    fn is_quiet(&self) -> bool {
        self.active.is_empty() && self.terminating == 0
    }
}

fn has_interim_condition(job: &ObjectSnapshot) -> bool {
    job.is_true("SuccessCriteriaMet") || job.is_true("FailureTarget")
}

fn deadline(job: &ObjectSnapshot) -> Option<Timestamp> {
    let secs = job.number("/spec/activeDeadlineSeconds")?;
    Some(later(time_at(job.at("/status/startTime"))?, secs))
}

/// The outcome of a Job, if it is decided. A published interim condition is final.
fn outcome(job: &ObjectSnapshot, counts: &PodCounts<'_>, now: Timestamp) -> Option<JobOutcome> {
    if job.is_true(COMPLETE.interim) {
        return Some(COMPLETE);
    }
    let is_enough = match job.number("/spec/completions") {
        Some(completions) => counts.succeeded >= completions,
        None => counts.succeeded > 0 && counts.active.is_empty(),
    };
    let limit = job.number("/spec/backoffLimit").unwrap_or(6);
    let is_late = deadline(job).is_some_and(|deadline| deadline <= now);
    if counts.failed > limit || job.is_true(TOO_MANY_FAILURES.interim) && !is_late {
        Some(TOO_MANY_FAILURES)
    } else if is_late || job.is_true(TOO_LATE.interim) {
        Some(TOO_LATE)
    } else {
        is_enough.then_some(COMPLETE)
    }
}

fn status(
    job: &ObjectSnapshot,
    counts: &PodCounts<'_>,
    outcome: Option<&JobOutcome>,
    now: Timestamp,
) -> Value {
    let mut status = job.at("/status").clone();
    set_count(&mut status, "active", counts.active.len());
    for (field, count) in [("succeeded", counts.succeeded), ("failed", counts.failed)] {
        set_count(&mut status, field, usize::try_from(count).unwrap_or(0));
    }
    status["ready"] = counts.ready.into();
    status["terminating"] = counts.terminating.into();
    status["uncountedTerminatedPods"] = json!({});
    let mut conditions = job.items("/status/conditions").to_vec();
    let is_suspended = *job.at("/spec/suspend") == true;
    if is_suspended || job.is_true("Suspended") {
        let suspended = if is_suspended {
            json!({"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": "Job suspended"})
        } else {
            json!({"type": "Suspended", "status": "False", "reason": "JobResumed", "message": "Job resumed"})
        };
        add(&mut conditions, suspended, now);
    }
    if is_suspended {
        if let Some(status) = status.as_object_mut() {
            status.remove("startTime");
        }
    } else if status["startTime"].is_null() {
        status["startTime"] = time(now).into();
    }
    if let Some(outcome) = outcome.filter(|_| !is_suspended) {
        let condition = |of: &str| json!({"type": of, "status": "True", "reason": outcome.reason, "message": outcome.message});
        if !job.is_true(outcome.interim) {
            add(&mut conditions, condition(outcome.interim), now);
        }
        if counts.is_quiet() {
            add(&mut conditions, condition(outcome.final_condition), now);
            if outcome.final_condition == COMPLETE.final_condition {
                status["completionTime"] = time(now).into();
            }
        }
    }
    if !conditions.is_empty() {
        status["conditions"] = conditions.into();
    }
    status
}

/// Writes a status, and emits the Events of the conditions that it adds. `None` if the Job has this status.
fn report(
    cache: &ObjectCache,
    job: &ObjectSnapshot,
    status: &Value,
    why: &'static str,
) -> Option<ActorDecision> {
    let decision = request(write_status(job, status)?, why);
    let known = job.items("/status/conditions");
    let is_known = |new: &&Value| {
        let mut known = known.iter();
        known.any(|known| known["type"] == new["type"] && known["status"] == new["status"])
    };
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let events = conditions.filter(|new| !is_known(new)).filter_map(|new| {
        let about = identity(cache, job);
        let normal =
            |reason, message: &str| EventNote::normal(about.clone(), reason, message.into());
        match (new["type"].as_str()?, new["status"].as_str()?) {
            ("Complete", _) => Some(normal("Completed", "Job completed")),
            ("Suspended", "True") => Some(normal("Suspended", "Job suspended")),
            ("Suspended", _) => Some(normal("Resumed", "Job resumed")),
            ("Failed", _) => {
                let outcome = [TOO_MANY_FAILURES, TOO_LATE];
                let outcome = outcome
                    .iter()
                    .find(|outcome| new["reason"] == outcome.reason)?;
                let message = outcome.message.to_owned();
                Some(EventNote::warning(about, outcome.reason, message))
            }
            _ => None,
        }
    });
    Some(on_success(decision, events))
}

/// Adds a condition with `lastProbeTime`, which conditions of Jobs have.
fn add(conditions: &mut Vec<Value>, mut condition: Value, now: Timestamp) {
    let is_new = !conditions
        .iter()
        .any(|known| known["type"] == condition["type"] && known["status"] == condition["status"]);
    if is_new {
        condition["lastProbeTime"] = time(now).into();
        set_condition(conditions, condition, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::NamespacedName;
    use crate::tests::{ActorHarness, START, decided, events};

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

    fn harness(job: Value, pods: &[&str]) -> ActorHarness<JobActor> {
        let mut harness = ActorHarness::of(JobActor);
        harness.applied(JOBS, job);
        for (number, phase) in pods.iter().enumerate() {
            harness.applied(PODS, mk_pod(&format!("p{number}"), phase));
        }
        harness
    }

    fn key() -> NamespacedName {
        NamespacedName::new("n", "j")
    }

    #[test]
    fn job_starts_then_creates_pods() {
        let begun = decided(&harness(mk_job(&json!({}), &json!({})), &[]).decide(&key(), START));
        assert_eq!((begun.verb, begun.subresource), ("patch", Some("status")));
        assert_eq!(begun.body["status"]["startTime"], time(START));
        // The spec of the Job, the phases of its Pods, and the expected verb.
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
            let harness = harness(mk_job(&spec, &started()), pods);
            assert_eq!(
                decided(&harness.decide(&key(), START)).verb,
                verb,
                "{spec} {pods:?}"
            );
        }
    }

    /// The conditions in the next status patch of a Job.
    fn conditions(job: Value, pods: &[&str], now: Timestamp) -> Vec<String> {
        let written = decided(&harness(job, pods).decide(&key(), now));
        assert_eq!(written.verb, "patch");
        let conditions = written.body["status"]["conditions"].as_array().cloned();
        let conditions = conditions.unwrap_or_default();
        let types = conditions
            .iter()
            .map(|known| known["type"].as_str().unwrap().to_owned());
        types.collect()
    }

    #[test]
    fn job_finishes_when_no_pod_is_left() {
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
    fn reports_new_conditions() {
        let suspended = json!([{"type": "Suspended", "status": "True"}]);
        let mut was_suspended = started();
        was_suspended["conditions"] = suspended;
        let (late, suspend) = (
            json!({"activeDeadlineSeconds": 10}),
            json!({"suspend": true}),
        );
        let too_many = "Warning BackoffLimitExceeded: Job has reached the specified backoff limit";
        let too_late = "Warning DeadlineExceeded: Job was active longer than specified deadline";
        /// Spec, status, Pods, seconds since the start, and the Events.
        type Case<'a> = (&'a Value, &'a Value, &'a [&'a str], i64, &'a [&'a str]);
        let cases: [Case<'_>; 7] = [
            (
                &json!({}),
                &started(),
                &["Succeeded"],
                0,
                &["Normal Completed: Job completed"],
            ),
            (&json!({}), &started(), &["Succeeded", "deleted"], 0, &[]),
            (
                &json!({}),
                &started(),
                &["Failed", "Failed"],
                0,
                &[too_many],
            ),
            (&late, &started(), &[], 10, &[too_late]),
            (
                &suspend,
                &started(),
                &[],
                0,
                &["Normal Suspended: Job suspended"],
            ),
            (&suspend, &was_suspended, &["deleted"], 0, &[]),
            (
                &json!({}),
                &was_suspended,
                &["Running"],
                0,
                &["Normal Resumed: Job resumed"],
            ),
        ];
        for (spec, status, pods, secs, expected) in cases {
            let harness = harness(mk_job(spec, status), pods);
            let decision = harness.decide(&key(), later(START, secs));
            assert_eq!(decided(&decision).verb, "patch", "{spec} {pods:?}");
            assert_eq!(events(&decision), expected, "{spec} {pods:?}");
        }
    }

    #[test]
    fn job_waits_for_its_deadline() {
        let spec = json!({"activeDeadlineSeconds": 10});
        let mut status = started();
        status["active"] = 1.into();
        let harness = harness(mk_job(&spec, &status), &["Running"]);
        assert_eq!(harness.at(&key(), START), Some(later(START, 10)));
    }

    #[test]
    fn deletes_running_pods_after_the_interim_condition() {
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
        for (spec, pods, interim) in cases {
            let now = later(START, 10);
            let job = mk_job(spec, &started());
            let mut harness = harness(job.clone(), pods);
            let written = decided(&harness.decide(&key(), now));
            assert_eq!(written.verb, "patch", "{spec} {pods:?}");
            let conditions = &written.body["status"]["conditions"];
            assert_eq!(conditions.as_array().unwrap().len(), 1, "{conditions}");
            assert_eq!(conditions[0]["type"], interim);
            let mut status = started();
            status["conditions"] = conditions.clone();
            harness.applied(JOBS, mk_job(spec, &status));
            let stopped = decided(&harness.decide(&key(), now));
            assert_eq!(stopped.verb, "delete", "{spec} {pods:?}");
        }
    }

    #[test]
    fn counted_pods_stay_counted() {
        let mut status = started();
        status["failed"] = 2.into();
        let job = mk_job(&json!({}), &status);
        assert_eq!(conditions(job, &[], START), ["FailureTarget", "Failed"]);
    }

    #[test]
    fn ignores_finished_jobs_and_jobs_of_other_managers() {
        let over = json!({"conditions": [{"type": "Complete", "status": "True"}]});
        for (spec, status) in [
            (json!({"managedBy": "example.com/mine"}), started()),
            (json!({}), over),
        ] {
            assert!(
                harness(mk_job(&spec, &status), &[]).is_resting(&key(), START),
                "{spec}"
            );
        }
    }
}
