//! The rules of `batch.volcano.sh`: what Volcano's webhooks refuse.
//!
//! Schedule, zone and name are judged as its webhook for CronJobs does (1.13), on every write, without ratchets. Its webhook
//! for Jobs would refuse the Jobs of some CronJobs at every tick, for ever; what can be told from the template alone is told
//! when the CronJob is written: tasks, their names and numbers, plugins, volumes.
//! DEVIATION(volcano-rules): Volcano answers 400 with all sentences in one, and takes any template. Queues, policies,
//! partitions and what single plugins need are not looked at here either.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{NAME_CHARS_MAX, Tree, name, part};
use crate::cron::{Schedule, zone};
use crate::names::{LABEL_CHARS_MAX, qualified_name};
use crate::status::Cause;

const ZONE_IN_SCHEDULE: &str =
    "schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field";
const NO_PLACE: &str =
    "timeZone can't be Local, and must be defined in https://www.iana.org/time-zones";

/// Longest part of a zone's name between slashes.
const ZONE_PART_CHARS_MAX: usize = 14;
/// Digits of a tick in the name of a Job: minutes since 1970, until 2160.
const TICK_DIGITS: usize = 8;

/// How many faults are told: a template can have tens of thousands of tasks, and nobody reads that much.
const FAULTS_MAX: usize = 100;

/// Plugins that a Job can ask for.
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

/// What is wrong with a CronJob, whether it is created or changed.
#[must_use]
pub fn faults(object: &Tree) -> Vec<Cause> {
    let spec = part(object, "spec");
    let mut causes: Vec<Cause> = schedule_fault(&spec["schedule"]).into_iter().collect();
    if let Some(zone) = spec["timeZone"].as_str() {
        causes.extend(zone_fault(zone));
    }
    causes.extend(name_fault(name(object)));
    causes.extend(job_faults(&spec["jobTemplate"]["spec"], name(object)));
    causes.truncate(FAULTS_MAX);
    causes
}

fn schedule_fault(schedule: &Value) -> Option<Cause> {
    let place = "spec.schedule";
    let text = schedule.as_str().unwrap_or_default();
    if text.is_empty() {
        return Some(Cause::required(
            place,
            "schedule is required, but got empty",
        ));
    }
    let why = if text.contains("TZ") {
        ZONE_IN_SCHEDULE.to_owned()
    } else {
        let error = Schedule::parse(text).err()?;
        format!("schedule is not a valid cron expression: {error}")
    };
    Some(Cause::invalid(place, text, &why))
}

fn zone_fault(zone: &str) -> Option<Cause> {
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
        NO_PLACE
    } else if zone::find(zone).is_err() {
        "invalid timeZone"
    } else {
        return None;
    };
    Some(Cause::invalid("spec.timeZone", zone, why))
}

fn name_fault(name: &str) -> Option<Cause> {
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
    Some(Cause::invalid("metadata.name", name, &why))
}

fn job_faults(job: &Value, cron_job: &str) -> Vec<Cause> {
    let mut causes = task_faults(job, cron_job);
    let plugins = job["plugins"].as_object().into_iter().flatten();
    for (plugin, _) in plugins.filter(|(plugin, _)| !PLUGINS.contains(&plugin.as_str())) {
        let place = format!("{JOB}.plugins");
        causes.push(Cause::not_supported(place, plugin, &PLUGINS));
    }
    causes.extend(volume_faults(job));
    causes
}

fn task_faults(job: &Value, cron_job: &str) -> Vec<Cause> {
    let tasks = list(&job["tasks"]);
    if tasks.is_empty() {
        let why = "a Job needs at least one task";
        return vec![Cause::required(format!("{JOB}.tasks"), why)];
    }
    let mut causes = Vec::new();
    // Which task has a name: the first one.
    let mut known = BTreeMap::new();
    for (index, task) in tasks.iter().enumerate() {
        let name = task_name(task, index);
        causes.extend(task_fault(task, index, &name, cron_job));
        if *known.entry(name.clone()).or_insert(index) != index {
            let why = "another task has this name";
            causes.push(Cause::invalid(place(index, "name"), &name, why));
        }
    }
    causes.extend(order_faults(tasks, &known));
    let replicas = tasks.iter().map(|task| number(&task["replicas"]));
    let all = replicas.fold(0, i64::saturating_add);
    let least = number(&job["minAvailable"]);
    if least > all {
        let why = "must not be greater than the replicas of all tasks";
        causes.push(Cause::invalid(format!("{JOB}.minAvailable"), least, why));
    }
    causes
}

/// What is wrong with one task by itself.
fn task_fault(task: &Value, index: usize, name: &str, cron_job: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    // `<cronjob>-<tick>-<task>-<index>`.
    let rest = TICK_DIGITS + index.to_string().len() + 3;
    if cron_job.len() + name.len() + rest > LABEL_CHARS_MAX {
        let room = LABEL_CHARS_MAX - rest;
        let why = format!(
            "names of its Pods would be too long: CronJob and task may have {room} characters together"
        );
        causes.push(Cause::invalid(place(index, "name"), name, &why));
    }
    let least = number(&task["minAvailable"]);
    if least > number(&task["replicas"]) {
        let why = "must not be greater than the task's replicas";
        causes.push(Cause::invalid(place(index, "minAvailable"), least, why));
    }
    if list(&task["template"]["spec"]["containers"]).is_empty() {
        let containers = place(index, "template.spec.containers");
        causes.push(Cause::required(containers, ""));
    }
    causes
}

/// Tasks that wait for one that does not exist, or for each other.
fn order_faults(tasks: &[Value], known: &BTreeMap<String, usize>) -> Vec<Cause> {
    let mut causes = Vec::new();
    // For each task, who waits for it, and for how many it waits.
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
                causes.push(Cause::invalid(place(index, "dependsOn.name"), other, why));
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
        causes.push(Cause::forbidden(format!("{JOB}.tasks"), why));
    }
    causes
}

/// A task without a name gets one from its place.
fn task_name(task: &Value, index: usize) -> String {
    match task["name"].as_str() {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => format!("default{index}"),
    }
}

fn place(task: usize, field: &str) -> String {
    format!("{JOB}.tasks[{task}].{field}")
}

fn volume_faults(job: &Value) -> Vec<Cause> {
    let mut paths = BTreeSet::new();
    let mut causes = Vec::new();
    for (index, volume) in list(&job["volumes"]).iter().enumerate() {
        let place = |field: &str| format!("{JOB}.volumes[{index}].{field}");
        let path = volume["mountPath"].as_str().unwrap_or_default();
        if !paths.insert(path) {
            let why = "another volume is mounted there";
            causes.push(Cause::invalid(place("mountPath"), path, why));
        }
        let named = volume["volumeClaimName"].as_str().unwrap_or_default();
        match (named.is_empty(), volume["volumeClaim"].is_null()) {
            (true, true) => {
                let why = "volumeClaim or volumeClaimName is needed";
                causes.push(Cause::required(place("volumeClaim"), why));
            }
            (false, false) => {
                let why = "not together with volumeClaimName";
                causes.push(Cause::forbidden(place("volumeClaim"), why));
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
