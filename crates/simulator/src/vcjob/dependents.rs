//! The dependents of a Volcano Job: reads its tasks, and builds its Pods and its PodGroup.

use serde_json::{Map, Value, json};

use super::pod_annotations;
use crate::cache::ObjectSnapshot;
use crate::objects::pod_of;

/// Label and annotation with the task of a Pod.
const TASK: &str = "volcano.sh/task-spec";
/// The Queue of a Job that specifies none.
const QUEUE_DEFAULT: &str = "default";

/// One task of a Job.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct VolcanoTask {
    pub(super) name: String,
    pub(super) replicas: usize,
    /// Defaults to the number of replicas.
    pub(super) min_available: usize,
    pub(super) has_min_available: bool,
    pub(super) depends_on: Vec<String>,
    /// One of the tasks in `depends_on` is enough.
    pub(super) depends_on_any: bool,
    pub(super) template: Value,
}

/// The tasks in order. Like Volcano's admission, it names a task without a name by its index.
pub(super) fn tasks(job: &ObjectSnapshot) -> Vec<VolcanoTask> {
    let read = |(number, task): (usize, &Value)| {
        let count = |field: &str| {
            task[field]
                .as_u64()
                .and_then(|count| usize::try_from(count).ok())
        };
        let named = task["name"].as_str().filter(|name| !name.is_empty());
        let replicas = count("replicas").unwrap_or(1);
        let depends_on = task["dependsOn"]["name"].as_array().into_iter().flatten();
        VolcanoTask {
            name: named.map_or_else(|| format!("default{number}"), ToOwned::to_owned),
            replicas,
            min_available: count("minAvailable").unwrap_or(replicas),
            has_min_available: count("minAvailable").is_some(),
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

/// The `minAvailable` of a Job. Like Volcano's admission, it defaults to the sum over the tasks.
pub(super) fn min_available(job: &ObjectSnapshot, tasks: &[VolcanoTask]) -> usize {
    let said = job
        .number("/spec/minAvailable")
        .and_then(|count| usize::try_from(count).ok());
    said.filter(|count| *count > 0)
        .unwrap_or_else(|| total(tasks.iter().map(|task| task.min_available)))
}

/// The number of Pods of all tasks.
pub(super) fn replicas(tasks: &[VolcanoTask]) -> usize {
    total(tasks.iter().map(|task| task.replicas))
}

/// A saturating sum: the numbers come from users.
pub(super) fn total(counts: impl Iterator<Item = usize>) -> usize {
    counts.fold(0, usize::saturating_add)
}

pub(super) fn queue(job: &ObjectSnapshot) -> &str {
    match job.text("/spec/queue") {
        "" => QUEUE_DEFAULT,
        queue => queue,
    }
}

pub(super) fn pod_name(job: &ObjectSnapshot, task: &VolcanoTask, number: usize) -> String {
    format!("{}-{}-{number}", job.meta().name, task.name)
}

pub(super) fn group_name(job: &ObjectSnapshot) -> String {
    format!("{}-{}", job.meta().name, job.meta().uid)
}

/// The task of a Pod.
pub(super) fn task_of(pod: &ObjectSnapshot) -> &str {
    let annotations = pod.at("/metadata/annotations");
    annotations[TASK].as_str().unwrap_or_default()
}

/// Builds the Pod of a task with this index.
pub(super) fn pod(job: &ObjectSnapshot, task: &VolcanoTask, number: usize) -> Value {
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
    for (key, value) in pod_annotations(job) {
        let said = &mut pod["metadata"]["annotations"][key];
        if said.is_null()
            || key == crate::annotations::RUN_SECONDS && value == crate::annotations::FOREVER
        {
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

/// Builds the PodGroup of a Job.
pub(super) fn group(job: &ObjectSnapshot, tasks: &[VolcanoTask]) -> Value {
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
