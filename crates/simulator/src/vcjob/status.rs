//! What a Volcano Job says of itself: its phase, the conditions it went through, and counts of its Pods.
//!
//! Every write while a Job works moves `lastTransitionTime`, also one that only counts; what is written after its end
//! does not, so that it is the time of the end.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::made::task_of;
use crate::objects::{set_count, time, time_at};
use crate::world::Object;

/// The phases of a Job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
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

/// How many Pods are in which state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) pending: usize,
    pub(super) running: usize,
    pub(super) succeeded: usize,
    pub(super) failed: usize,
    pub(super) terminating: usize,
    pub(super) unknown: usize,
    /// By task, then by phase.
    tasks: BTreeMap<String, BTreeMap<String, usize>>,
}

const PHASES: [(&str, Phase); 10] = [
    ("Pending", Phase::Pending),
    ("Running", Phase::Running),
    ("Restarting", Phase::Restarting),
    ("Aborting", Phase::Aborting),
    ("Aborted", Phase::Aborted),
    ("Completing", Phase::Completing),
    ("Completed", Phase::Completed),
    ("Terminating", Phase::Terminating),
    ("Terminated", Phase::Terminated),
    ("Failed", Phase::Failed),
];
/// Counts by their names.
const COUNTS: [&str; 6] = [
    "pending",
    "running",
    "succeeded",
    "failed",
    "terminating",
    "unknown",
];

// === impl Phase ===

impl Phase {
    /// The phase of a Job; none before its first.
    pub(super) fn of(job: &Object) -> Option<Self> {
        let text = job.text("/status/state/phase");
        let known = PHASES.iter().find(|(name, _)| *name == text);
        known.map(|(_, phase)| *phase)
    }

    fn name(self) -> &'static str {
        let known = PHASES.iter().find(|(_, phase)| *phase == self);
        known.map_or("", |(name, _)| name)
    }
}

// === impl Counts ===

impl Counts {
    /// Of all Pods; those that are being deleted count as that only.
    pub(super) fn of(pods: &[&Object]) -> Self {
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
            *task.entry(phase.to_owned()).or_default() += 1;
        }
        counts
    }

    /// While a Job stops only the Pods that are going count.
    pub(super) fn stopped(pods: &[&Object]) -> Self {
        Self {
            terminating: pods.iter().filter(|pod| pod.is_deleting()).count(),
            ..Self::default()
        }
    }

    /// What a Job's status says.
    pub(super) fn told(job: &Object) -> Self {
        let [pending, running, succeeded, failed, terminating, unknown] = COUNTS.map(|field| {
            let count = job.number(&format!("/status/{field}")).unwrap_or(0);
            usize::try_from(count).unwrap_or(0)
        });
        let mut tasks: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
        for (task, said) in job
            .at("/status/taskStatusCount")
            .as_object()
            .into_iter()
            .flatten()
        {
            for (phase, count) in said["phase"].as_object().into_iter().flatten() {
                let count = count.as_u64().and_then(|count| usize::try_from(count).ok());
                let task = tasks.entry(task.clone()).or_default();
                task.insert(phase.clone(), count.unwrap_or(0));
            }
        }
        Self {
            pending,
            running,
            succeeded,
            failed,
            terminating,
            unknown,
            tasks,
        }
    }

    fn write(&self, status: &mut Value) {
        let counts = [
            self.pending,
            self.running,
            self.succeeded,
            self.failed,
            self.terminating,
            self.unknown,
        ];
        for (field, count) in COUNTS.iter().zip(counts) {
            set_count(status, field, count);
        }
        let tasks = self.tasks.iter();
        let tasks: serde_json::Map<String, Value> = tasks
            .map(|(task, phases)| (task.clone(), json!({ "phase": phases })))
            .collect();
        match status.as_object_mut() {
            Some(status) if tasks.is_empty() => {
                status.remove("taskStatusCount");
            }
            _ => status["taskStatusCount"] = tasks.into(),
        }
    }
}

/// The first status of a Job.
pub(super) fn begun(job: &Object, min_available: usize, now: Timestamp) -> Value {
    let mut status = json!({});
    enter(job, &mut status, Phase::Pending, now);
    set_count(&mut status, "minAvailable", min_available);
    status
}

/// The status of a Job that works or stops; the old one if nothing but its time would change.
pub(super) fn worked(
    job: &Object,
    phase: Phase,
    counts: &Counts,
    min_available: usize,
    now: Timestamp,
) -> Value {
    let old = job.at("/status");
    let mut status = old.clone();
    counts.write(&mut status);
    set_count(&mut status, "minAvailable", min_available);
    if status == *old && Phase::of(job) == Some(phase) {
        return status;
    }
    enter(job, &mut status, phase, now);
    status
}

/// The status of a Job that begins to stop.
pub(super) fn turned(job: &Object, phase: Phase, counts: &Counts, now: Timestamp) -> Value {
    let mut status = job.at("/status").clone();
    counts.write(&mut status);
    add_one(&mut status, "version");
    if phase == Phase::Restarting {
        add_one(&mut status, "retryCount");
    }
    enter(job, &mut status, phase, now);
    status["runningDuration"] = duration(job, Some(now)).into();
    status
}

/// The status of a Job that is over, with these counters left.
pub(super) fn settled(job: &Object, left: &Counts) -> Value {
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

/// Sets the phase, and moves its condition to the end.
fn enter(job: &Object, status: &mut Value, phase: Phase, now: Timestamp) {
    let (name, now) = (phase.name(), time(now));
    status["state"] = json!({"phase": name, "lastTransitionTime": now});
    let mut conditions = job.items("/status/conditions").to_vec();
    conditions.retain(|known| known["status"] != name);
    conditions.push(json!({"status": name, "lastTransitionTime": now}));
    status["conditions"] = conditions.into();
}

/// How long a Job has been there, as Go writes it.
fn duration(job: &Object, until: Option<Timestamp>) -> String {
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
