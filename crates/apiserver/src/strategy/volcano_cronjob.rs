//! Rules of Volcano's CronJobs: what its webhooks refuse.
//!
//! Schedule, zone and name are checked as by its webhook for CronJobs (1.13), on every write, without ratchets. Its
//! webhook for Jobs would refuse the Jobs of some CronJobs at every schedule time; what can be seen in the template alone
//! is refused when the CronJob is written: tasks, their names and numbers, plugins, volumes.
//! DEVIATION(volcano-rules): Volcano answers 400 with all messages in one, and accepts any template. Queues, policies,
//! partitions and what single plugins need are not checked here either.

use std::collections::{BTreeMap, BTreeSet};

use caretaker_machinery::cron::{CronSchedule, zone};
use caretaker_machinery::names::{LABEL_CHARS_MAX, qualified_name};
use caretaker_machinery::status::StatusCause;
use serde_json::Value;

use super::cronjob::{NAME_CHARS_MAX, deadline_warnings};
use super::custom::CustomStrategy;
use super::{KindStrategy, ObjectChange, ObjectPart};
use crate::body::FieldError;
use crate::kinds::ServedKind;
use crate::metadata::{self, ObjectTree, value_at};

/// The rules of Volcano's CronJobs, beside those of their schema.
#[derive(Debug)]
pub(super) struct VolcanoCronJobStrategy;

const ZONE_IN_SCHEDULE: &str =
    "schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field";
const LOCAL_ZONE: &str =
    "timeZone can't be Local, and must be defined in https://www.iana.org/time-zones";

/// Most characters between the slashes of a zone's name.
const ZONE_PART_CHARS_MAX: usize = 14;
/// Digits of the schedule time in the name of a Job: minutes since 1970, until 2160.
const MINUTE_DIGITS: usize = 8;

/// Most causes in one answer: a template can have tens of thousands of tasks.
const FAULTS_MAX: usize = 100;

/// Plugins that a Job may name.
const PLUGINS: [&str; 8] = [
    "env",
    "hcclrank",
    "mpi",
    "pytorch",
    "ray",
    "ssh",
    "svc",
    "tensorflow",
];

const JOB: &str = "spec.jobTemplate.spec";

// === impl VolcanoCronJobStrategy ===

impl KindStrategy for VolcanoCronJobStrategy {
    fn normalize(&self, kind: &ServedKind, object: &mut ObjectTree) {
        CustomStrategy.normalize(kind, object);
    }

    fn read(&self, kind: &ServedKind, object: &mut ObjectTree) -> Result<Vec<String>, FieldError> {
        CustomStrategy.read(kind, object)
    }

    fn validate(&self, change: &ObjectChange<'_>) -> Vec<StatusCause> {
        let causes = CustomStrategy.validate(change);
        // The API server does not call the webhook for what the schema refuses.
        if change.part == ObjectPart::Main && causes.is_empty() {
            return faults(change.new);
        }
        causes
    }

    fn warnings(&self, old: Option<&ObjectTree>, new: &ObjectTree) -> Vec<String> {
        deadline_warnings(old, new)
    }
}

/// Returns why the webhooks refuse a CronJob, new or changed.
fn faults(object: &ObjectTree) -> Vec<StatusCause> {
    let spec = value_at(object, "/spec");
    let name = metadata::text(object, "name");
    let mut causes: Vec<StatusCause> = schedule_fault(&spec["schedule"]).into_iter().collect();
    if let Some(zone) = spec["timeZone"].as_str() {
        causes.extend(zone_fault(zone));
    }
    causes.extend(name_fault(name));
    causes.extend(job_faults(&spec["jobTemplate"]["spec"], name));
    causes.truncate(FAULTS_MAX);
    causes
}

fn schedule_fault(schedule: &Value) -> Option<StatusCause> {
    let path = "spec.schedule";
    let text = schedule.as_str().unwrap_or_default();
    if text.is_empty() {
        let why = "schedule is required, but got empty";
        return Some(StatusCause::required(path, why));
    }
    let why = if text.contains("TZ") {
        ZONE_IN_SCHEDULE.to_owned()
    } else {
        let error = CronSchedule::parse(text).err()?;
        format!("schedule is not a valid cron expression: {error}")
    };
    Some(StatusCause::invalid(path, text, &why))
}

fn zone_fault(zone: &str) -> Option<StatusCause> {
    let is_plain = |part: &str| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
        (1..=ZONE_PART_CHARS_MAX).contains(&part.len())
            && part.bytes().all(known)
            && part != "."
            && part != ".."
            && !part.starts_with('-')
    };
    let why = if zone.is_empty() {
        "timeZone must be nil or non-empty string, got empty string"
    } else if !zone.split('/').all(is_plain) {
        "unknown timeZone"
    } else if zone.eq_ignore_ascii_case("Local") {
        LOCAL_ZONE
    } else if zone::find(zone).is_err() {
        "invalid timeZone"
    } else {
        return None;
    };
    Some(StatusCause::invalid("spec.timeZone", zone, why))
}

fn name_fault(name: &str) -> Option<StatusCause> {
    let why = if name.len() > NAME_CHARS_MAX {
        format!(
            "cronJob name must be no more than {NAME_CHARS_MAX} characters to accommodate job name suffix (max {LABEL_CHARS_MAX} total)"
        )
    } else {
        let faults = qualified_name(name);
        if faults.is_empty() {
            return None;
        }
        format!("invalid cronJob name {name:?}: {}", faults.join("; "))
    };
    Some(StatusCause::invalid("metadata.name", name, &why))
}

fn job_faults(job: &Value, cron_job: &str) -> Vec<StatusCause> {
    let mut causes = task_faults(job, cron_job);
    let plugins = job["plugins"].as_object().into_iter().flatten();
    for (plugin, _) in plugins.filter(|(plugin, _)| !PLUGINS.contains(&plugin.as_str())) {
        let path = format!("{JOB}.plugins");
        causes.push(StatusCause::not_supported(path, plugin, &PLUGINS));
    }
    causes.extend(volume_faults(job));
    causes
}

fn task_faults(job: &Value, cron_job: &str) -> Vec<StatusCause> {
    let tasks = list(&job["tasks"]);
    if tasks.is_empty() {
        let why = "a Job needs at least one task";
        return vec![StatusCause::required(format!("{JOB}.tasks"), why)];
    }
    let mut causes = Vec::new();
    // The first task that has each name.
    let mut known = BTreeMap::new();
    for (index, task) in tasks.iter().enumerate() {
        let name = task_name(task, index);
        causes.extend(task_fault(task, index, &name, cron_job));
        if *known.entry(name.clone()).or_insert(index) != index {
            let why = "another task has this name";
            causes.push(StatusCause::invalid(task_path(index, "name"), &name, why));
        }
    }
    causes.extend(order_faults(tasks, &known));
    let replicas = tasks.iter().map(|task| number(&task["replicas"]));
    let all = replicas.fold(0, i64::saturating_add);
    let least = number(&job["minAvailable"]);
    if least > all {
        let why = "must not be greater than the replicas of all tasks";
        let path = format!("{JOB}.minAvailable");
        causes.push(StatusCause::invalid(path, least, why));
    }
    causes
}

/// Checks one task by itself.
fn task_fault(task: &Value, index: usize, name: &str, cron_job: &str) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    // `<cronjob>-<minute>-<task>-<index>`.
    let rest = MINUTE_DIGITS + index.to_string().len() + 3;
    if cron_job.len() + name.len() + rest > LABEL_CHARS_MAX {
        let room = LABEL_CHARS_MAX - rest;
        let why = format!(
            "names of its Pods would be too long: CronJob and task may have {room} characters together"
        );
        causes.push(StatusCause::invalid(task_path(index, "name"), name, &why));
    }
    let least = number(&task["minAvailable"]);
    if least > number(&task["replicas"]) {
        let why = "must not be greater than the task's replicas";
        let path = task_path(index, "minAvailable");
        causes.push(StatusCause::invalid(path, least, why));
    }
    if list(&task["template"]["spec"]["containers"]).is_empty() {
        let containers = task_path(index, "template.spec.containers");
        causes.push(StatusCause::required(containers, ""));
    }
    causes
}

/// Checks for tasks that depend on one that does not exist, or on each other.
fn order_faults(tasks: &[Value], known: &BTreeMap<String, usize>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    // For each task, the tasks that depend on it, and the number of those it depends on.
    let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); tasks.len()];
    let mut open = vec![0_usize; tasks.len()];
    for (index, task) in tasks.iter().enumerate() {
        for other in list(&task["dependsOn"]["name"]) {
            let found = other.as_str().and_then(|name| known.get(name));
            if let Some(found) = found {
                waiting[*found].push(index);
                open[index] += 1;
            } else {
                let why = "no task has this name";
                let path = task_path(index, "dependsOn.name");
                causes.push(StatusCause::invalid(path, other, why));
            }
        }
    }
    let mut ready: Vec<usize> = (0..tasks.len()).filter(|index| open[*index] == 0).collect();
    let mut started = 0;
    while let Some(index) = ready.pop() {
        started += 1;
        for next in &waiting[index] {
            open[*next] -= 1;
            if open[*next] == 0 {
                ready.push(*next);
            }
        }
    }
    if started < tasks.len() {
        let why = "tasks that depend on each other never start";
        causes.push(StatusCause::forbidden(format!("{JOB}.tasks"), why));
    }
    causes
}

/// Volcano names a task without a name by its index.
fn task_name(task: &Value, index: usize) -> String {
    match task["name"].as_str() {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => format!("default{index}"),
    }
}

fn task_path(task: usize, field: &str) -> String {
    format!("{JOB}.tasks[{task}].{field}")
}

fn volume_faults(job: &Value) -> Vec<StatusCause> {
    let mut mounts = BTreeSet::new();
    let mut causes = Vec::new();
    for (index, volume) in list(&job["volumes"]).iter().enumerate() {
        let path = |field: &str| format!("{JOB}.volumes[{index}].{field}");
        let mount = volume["mountPath"].as_str().unwrap_or_default();
        if !mounts.insert(mount) {
            let why = "another volume is mounted there";
            causes.push(StatusCause::invalid(path("mountPath"), mount, why));
        }
        let named = volume["volumeClaimName"].as_str().unwrap_or_default();
        match (named.is_empty(), volume["volumeClaim"].is_null()) {
            (true, true) => {
                let why = "volumeClaim or volumeClaimName is needed";
                causes.push(StatusCause::required(path("volumeClaim"), why));
            }
            (false, false) => {
                let why = "not together with volumeClaimName";
                causes.push(StatusCause::forbidden(path("volumeClaim"), why));
            }
            _ => {}
        }
    }
    causes
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

#[cfg(test)]
mod tests;
