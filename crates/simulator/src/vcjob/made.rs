//! What belongs to a Volcano Job: its tasks read, its Pods and its PodGroup as they are made.

use serde_json::{Map, Value, json};

use super::pod_life;
use crate::objects::pod_of;
use crate::world::Object;

/// Where Pods say which task they are of.
const TASK: &str = "volcano.sh/task-spec";
/// The Queue of a Job that names none.
const QUEUE_DEFAULT: &str = "default";

/// A task of a Job.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Task {
    pub(super) name: String,
    pub(super) replicas: usize,
    /// As many as it has replicas, unless it says otherwise.
    pub(super) min_available: usize,
    pub(super) says_min_available: bool,
    pub(super) depends_on: Vec<String>,
    /// One of them is enough.
    pub(super) depends_on_any: bool,
    pub(super) template: Value,
}

/// The tasks, in their order. One without a name is called after its place, as by Volcano's admission.
pub(super) fn tasks(job: &Object) -> Vec<Task> {
    let read = |(number, task): (usize, &Value)| {
        let count = |field: &str| {
            task[field]
                .as_u64()
                .and_then(|count| usize::try_from(count).ok())
        };
        let named = task["name"].as_str().filter(|name| !name.is_empty());
        let replicas = count("replicas").unwrap_or(1);
        let depends_on = task["dependsOn"]["name"].as_array().into_iter().flatten();
        Task {
            name: named.map_or_else(|| format!("default{number}"), ToOwned::to_owned),
            replicas,
            min_available: count("minAvailable").unwrap_or(replicas),
            says_min_available: count("minAvailable").is_some(),
            depends_on: depends_on
                .filter_map(Value::as_str)
                .map(ToOwned::to_owned)
                .collect(),
            depends_on_any: task["dependsOn"]["iteration"] == "any",
            template: task["template"].clone(),
        }
    };
    job.items("/spec/tasks")
        .iter()
        .enumerate()
        .map(read)
        .collect()
}

/// How many Pods a Job needs; the sum of its tasks' if it does not say, as by Volcano's admission.
pub(super) fn min_available(job: &Object, tasks: &[Task]) -> usize {
    let said = job
        .number("/spec/minAvailable")
        .and_then(|count| usize::try_from(count).ok());
    said.filter(|count| *count > 0)
        .unwrap_or_else(|| total(tasks.iter().map(|task| task.min_available)))
}

/// How many Pods a Job wants.
pub(super) fn replicas(tasks: &[Task]) -> usize {
    total(tasks.iter().map(|task| task.replicas))
}

/// Numbers of users, added up; they may be of any size.
pub(super) fn total(counts: impl Iterator<Item = usize>) -> usize {
    counts.fold(0, usize::saturating_add)
}

pub(super) fn queue(job: &Object) -> &str {
    match job.text("/spec/queue") {
        "" => QUEUE_DEFAULT,
        queue => queue,
    }
}

pub(super) fn pod_name(job: &Object, task: &Task, number: usize) -> String {
    format!("{}-{}-{number}", job.meta().name, task.name)
}

pub(super) fn group_name(job: &Object) -> String {
    format!("{}-{}", job.meta().name, job.meta().uid)
}

/// Which task a Pod is of.
pub(super) fn task_of(pod: &Object) -> &str {
    let annotations = pod.at("/metadata/annotations");
    annotations[TASK].as_str().unwrap_or_default()
}

/// The Pod of a task with this number.
pub(super) fn pod(job: &Object, task: &Task, number: usize) -> Value {
    let mut pod = pod_of(&task.template);
    let (name, namespace) = (&*job.meta().name, &*job.meta().namespace);
    let status = |field: &str| {
        job.number(&format!("/status/{field}"))
            .unwrap_or(0)
            .to_string()
    };
    let common = [
        ("volcano.sh/job-name", name.to_owned()),
        (TASK, task.name.clone()),
        ("volcano.sh/task-index", number.to_string()),
        ("volcano.sh/queue-name", queue(job).to_owned()),
    ];
    for (key, value) in &common {
        pod["metadata"]["labels"][*key] = value.as_str().into();
        pod["metadata"]["annotations"][*key] = value.as_str().into();
    }
    pod["metadata"]["labels"]["volcano.sh/job-namespace"] = namespace.into();
    for (key, value) in [
        ("scheduling.k8s.io/group-name", group_name(job)),
        ("volcano.sh/job-version", status("version")),
        ("volcano.sh/job-retry-count", status("retryCount")),
        ("volcano.sh/template-uid", format!("{name}-{}", task.name)),
    ] {
        pod["metadata"]["annotations"][key] = value.into();
    }
    for (key, value) in pod_life(job) {
        let said = &mut pod["metadata"]["annotations"][key];
        if said.is_null() || key == crate::life::RUN_SECONDS && value == crate::life::FOREVER {
            *said = value;
        }
    }
    let scheduler = match job.text("/spec/schedulerName") {
        "" => "volcano",
        scheduler => scheduler,
    };
    if pod["spec"]["schedulerName"].is_null() {
        pod["spec"]["schedulerName"] = scheduler.into();
    }
    pod
}

/// The PodGroup of a Job.
pub(super) fn group(job: &Object, tasks: &[Task]) -> Value {
    let per_task = tasks
        .iter()
        .map(|task| (task.name.clone(), task.min_available.into()));
    let mut spec = json!({
        "minMember": min_available(job, tasks),
        "minTaskMember": per_task.collect::<Map<String, Value>>(),
        "queue": queue(job),
    });
    let class = job.text("/spec/priorityClassName");
    if !class.is_empty() {
        spec["priorityClassName"] = class.into();
    }
    let part = |of: &str| match job.at(&format!("/metadata/{of}")) {
        Value::Null => json!({}),
        some => some.clone(),
    };
    json!({"metadata": {"labels": part("labels"), "annotations": part("annotations")}, "spec": spec})
}
