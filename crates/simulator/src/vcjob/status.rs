//! The status of a Volcano Job: its phase, the conditions, and counts of its Pods.
//!
//! Every write of an unfinished Job changes `lastTransitionTime`, even if only the counts change; writes of a finished Job do
//! not, so that it is the time at which the Job finished.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::dependents::task_of;
use crate::cache::ObjectSnapshot;
use crate::objects::{set_count, time, time_at};

/// The reason of a Job that waits for its Queue.
pub(super) const QUEUE_MISSING: &str = "QueueNotFound";

/// The phase of a Job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum VolcanoPhase {
    Pending,
    Running,
    Restarting,
    Aborting,
    Aborted,
    Completing,
    Completed,
    Terminating,
    Terminated,
    Failed,
}

/// The number of Pods in each state. Like Kubernetes, the status omits zeros.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct TaskCounts {
    pub(super) pending: usize,
    pub(super) running: usize,
    pub(super) succeeded: usize,
    pub(super) failed: usize,
    pub(super) terminating: usize,
    unknown: usize,
    #[serde(rename = "taskStatusCount")]
    tasks: BTreeMap<String, TaskPhases>,
}

/// The number of Pods of one task by phase.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
struct TaskPhases {
    phase: BTreeMap<String, usize>,
}

// === impl VolcanoPhase ===

impl VolcanoPhase {
    /// The phase of a Job; `None` if it has none yet.
    pub(super) fn of(job: &ObjectSnapshot) -> Option<Self> {
        Self::deserialize(job.at("/status/state/phase")).ok()
    }
}

// === impl TaskCounts ===

impl TaskCounts {
    /// Counts all Pods. A Pod that is being deleted counts only as terminating.
    pub(super) fn of(pods: &[&ObjectSnapshot]) -> Self {
        let mut counts = Self::stopped(pods);
        for pod in pods.iter().filter(|pod| !pod.is_deleting()) {
            let phase = pod.text("/status/phase");
            *match phase {
                "Pending" | "" => &mut counts.pending,
                "Running" => &mut counts.running,
                "Succeeded" => &mut counts.succeeded,
                "Failed" => &mut counts.failed,
                _ => &mut counts.unknown,
            } += 1;
            let task = counts.tasks.entry(task_of(pod).to_owned()).or_default();
            *task.phase.entry(phase.to_owned()).or_default() += 1;
        }
        counts
    }

    /// The counts of a stopping Job: only terminating Pods.
    pub(super) fn stopped(pods: &[&ObjectSnapshot]) -> Self {
        Self {
            terminating: pods.iter().filter(|pod| pod.is_deleting()).count(),
            ..Self::default()
        }
    }

    /// Reads the counts from the status of a Job.
    pub(super) fn from_status(job: &ObjectSnapshot) -> Self {
        Self::deserialize(job.at("/status")).unwrap_or_default()
    }

    fn write(&self, status: &mut Value) {
        for (field, count) in json!(self).as_object().into_iter().flatten() {
            if *count == 0 || *count == json!({}) {
                status.as_object_mut().map(|status| status.remove(field));
            } else {
                status[field] = count.clone();
            }
        }
    }
}

/// The first status of a Job.
pub(super) fn initial(job: &ObjectSnapshot, min_available: usize, now: Timestamp) -> Value {
    let mut status = json!({});
    enter(job, &mut status, VolcanoPhase::Pending, now);
    set_count(&mut status, "minAvailable", min_available);
    status
}

/// The status of a Job whose Queue does not exist; the old one if it says so already.
pub(super) fn without_queue(
    job: &ObjectSnapshot,
    min_available: usize,
    why: &str,
    now: Timestamp,
) -> Value {
    if job.text("/status/state/message") == why && lacks_queue(job) {
        return job.at("/status").clone();
    }
    let mut status = initial(job, min_available, now);
    status["state"]["reason"] = QUEUE_MISSING.into();
    status["state"]["message"] = why.into();
    status
}

/// Whether the status of a Job says that its Queue does not exist.
pub(super) fn lacks_queue(job: &ObjectSnapshot) -> bool {
    job.text("/status/state/reason") == QUEUE_MISSING
}

/// The status of an unfinished Job; the old one if only its time would change.
pub(super) fn updated(
    job: &ObjectSnapshot,
    phase: VolcanoPhase,
    counts: &TaskCounts,
    min_available: usize,
    now: Timestamp,
) -> Value {
    let old = job.at("/status");
    let mut status = old.clone();
    counts.write(&mut status);
    set_count(&mut status, "minAvailable", min_available);
    if status == *old && VolcanoPhase::of(job) == Some(phase) {
        return status;
    }
    enter(job, &mut status, phase, now);
    status
}

/// The status of a Job that starts to stop.
pub(super) fn stopping(
    job: &ObjectSnapshot,
    phase: VolcanoPhase,
    counts: &TaskCounts,
    now: Timestamp,
) -> Value {
    let mut status = job.at("/status").clone();
    counts.write(&mut status);
    add_one(&mut status, "version");
    if phase == VolcanoPhase::Restarting {
        add_one(&mut status, "retryCount");
    }
    enter(job, &mut status, phase, now);
    status["runningDuration"] = duration(job, Some(now)).into();
    status
}

/// The status of a finished Job with these counters.
pub(super) fn finished(job: &ObjectSnapshot, left: &TaskCounts) -> Value {
    let old = job.at("/status");
    let mut status = old.clone();
    left.write(&mut status);
    if status == *old && old["runningDuration"].is_string() {
        return status;
    }
    let ended = time_at(job.at("/status/state/lastTransitionTime"));
    status["runningDuration"] = duration(job, ended).into();
    add_one(&mut status, "version");
    status
}

fn add_one(status: &mut Value, field: &str) {
    let count = status[field].as_i64().unwrap_or(0);
    status[field] = (count + 1).into();
}

/// Sets the phase, and moves its condition to the end of the list.
fn enter(job: &ObjectSnapshot, status: &mut Value, phase: VolcanoPhase, now: Timestamp) {
    let (phase, now) = (json!(phase), time(now));
    status["state"] = json!({"phase": phase, "lastTransitionTime": now});
    let mut conditions = job.items("/status/conditions").to_vec();
    conditions.retain(|known| known["status"] != phase);
    conditions.push(json!({"status": phase, "lastTransitionTime": now}));
    status["conditions"] = conditions.into();
}

/// The time since the creation of a Job in Go's format.
fn duration(job: &ObjectSnapshot, until: Option<Timestamp>) -> String {
    let born = time_at(job.at("/metadata/creationTimestamp"));
    let secs = match (born, until) {
        (Some(born), Some(until)) => until.as_second().saturating_sub(born.as_second()).max(0),
        _ => 0,
    };
    let (hours, minutes, secs) = (secs / 3600, secs / 60 % 60, secs % 60);
    match (hours, minutes) {
        (0, 0) => format!("{secs}s"),
        (0, minutes) => format!("{minutes}m{secs}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{secs}s"),
    }
}
