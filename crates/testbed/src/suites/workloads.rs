//! Simulated workloads: what a client sees of Pods that live and of the controllers that make them, and that what they
//! make goes with its owner.
//!
//! The actors are ours in process, beside the embedded and beside the real server; the collector is whoever it is. What
//! they write is judged by the server: on the real one, by its validation.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::play::play;
use super::stage::{Made, Stage};
use super::{Checked, Play};
use crate::objects::{
    COMMANDS, DEPLOYMENTS, JOBS, POD_GROUPS, PODS, REPLICA_SETS, Resource, VOLCANO_JOBS,
    mk_deployment, mk_job, mk_object, mk_pod, mk_volcano_job, with,
};

/// The controllers it takes beside the collector.
pub const CONTROLLERS: &[&str] = super::ttl::CONTROLLERS;

/// The plays.
pub const PLAYS: &[&[Play]] = &[&[
    play!(a_pod_is_bound_runs_and_succeeds, Actors),
    play!(a_pod_fails_if_it_is_told_to, Actors),
    play!(a_deleted_pod_goes_after_its_grace, Actors),
    play!(a_deployment_has_as_many_running_pods_as_it_wants, Actors),
    play!(a_deployment_rolls_to_a_new_template, Actors),
    play!(a_deployment_takes_everything_along_when_it_goes, Actors),
    play!(a_job_reaches_its_completions, Actors),
    play!(a_job_fails_after_its_last_retry, Actors),
    play!(a_job_takes_its_pods_along_when_it_goes, Actors),
    play!(a_job_with_a_ttl_goes_after_its_pods, Actors),
    play!(a_volcano_job_completes, Actors, Crds),
    play!(a_volcano_job_fails, Actors, Crds),
    play!(a_volcano_job_is_terminated, Actors, Crds),
    play!(a_volcano_job_is_aborted, Actors, Crds),
    play!(
        a_volcano_job_obeys_commands_to_abort_and_resume,
        Actors,
        Crds
    ),
    play!(
        a_volcano_job_takes_everything_along_when_it_goes,
        Actors,
        Crds
    ),
    play!(
        a_volcano_job_with_a_ttl_goes_after_its_pods,
        Actors,
        Crds,
        VolcanoTtl
    ),
]];

/// The TTL of Jobs that have one: long enough to be seen.
const TTL_SECS: u32 = 5;

/// Annotations of something that lives as short as can be.
fn briefly() -> Value {
    json!({"simulate.caretaker.dev/start-seconds": "0", "simulate.caretaker.dev/run-seconds": "1"})
}

fn annotated(object: Value, annotations: &Value) -> Value {
    with(object, json!({"metadata": {"annotations": annotations}}))
}

/// A Pod spec that ends by itself, and at once when it is deleted.
fn mk_brief_pod(name: &str) -> Value {
    let pod = with(
        mk_pod(name),
        json!({"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1}}),
    );
    annotated(pod, &briefly())
}

/// A Deployment whose Pods start at once and have little grace.
fn mk_quick_deployment(name: &str, replicas: u32) -> Value {
    let template = json!({"metadata": {"annotations": {"simulate.caretaker.dev/start-seconds": "0"}},
        "spec": {"terminationGracePeriodSeconds": 1}});
    with(
        mk_deployment(name),
        json!({"spec": {"replicas": replicas, "template": template}}),
    )
}

fn mk_quick_job(name: &str, spec: &Value, outcome: &str) -> Value {
    let annotations = with(
        briefly(),
        json!({"simulate.caretaker.dev/outcome": outcome}),
    );
    let template = json!({"metadata": {"annotations": annotations}, "spec": {"terminationGracePeriodSeconds": 1}});
    with(
        with(mk_job(name), json!({"spec": {"template": template}})),
        json!({ "spec": spec }),
    )
}

fn mk_quick_volcano_job(name: &str, annotations: Value) -> Value {
    let mut job = annotated(mk_volcano_job(name), &with(briefly(), annotations));
    job["spec"]["tasks"][0]["template"]["spec"]["terminationGracePeriodSeconds"] = 1.into();
    job
}

/// Waits until an object says so at a place.
async fn says(stage: &Stage, made: &Made, pointer: &str, meant: &Value) -> Checked<Value> {
    stage
        .until(async || {
            let object = stage.there(made).await?;
            let found = object.pointer(pointer).unwrap_or(&Value::Null);
            if found != meant {
                let path = made.path();
                return Err(format!(
                    "{path} has {found} at {pointer} instead of {meant}"
                ));
            }
            Ok(())
        })
        .await?;
    stage.there(made).await
}

/// Waits until there are so many objects of a resource that are not being deleted, and shows them.
async fn some(stage: &Stage, resource: &Resource, meant: usize) -> Checked<Vec<Value>> {
    let living = async || {
        let mut all = stage.list(resource).await?;
        all.retain(|object| object["metadata"]["deletionTimestamp"].is_null());
        Ok::<Vec<Value>, String>(all)
    };
    stage
        .until(async || {
            let found = living().await?.len();
            if found != meant {
                let path = resource.collection(stage.ns());
                return Err(format!("{found} of {path} instead of {meant}"));
            }
            Ok(())
        })
        .await?;
    living().await
}

/// Types of the conditions that are true, in their order.
fn conditions(object: &Value) -> Vec<&str> {
    let conditions = object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let is_true = conditions.filter(|known| known["status"] == "True");
    is_true.filter_map(|known| known["type"].as_str()).collect()
}

fn must(is_so: bool, what: &str, object: &Value) -> Checked {
    match is_so {
        true => Ok(()),
        false => Err(format!("{what}: {}", object["status"])),
    }
}

async fn a_pod_is_bound_runs_and_succeeds(stage: &Stage) -> Checked {
    let pod = stage.make(&PODS, mk_brief_pod("a")).await?;
    let ran = says(stage, &pod, "/status/phase", &json!("Running")).await?;
    must(ran["spec"]["nodeName"].is_string(), "it has no Node", &ran)?;
    must(conditions(&ran).contains(&"Ready"), "it is not ready", &ran)?;
    let ended = says(stage, &pod, "/status/phase", &json!("Succeeded")).await?;
    must(
        !conditions(&ended).contains(&"Ready"),
        "it is ready",
        &ended,
    )?;
    stage.remain(&[&pod]).await
}

async fn a_pod_fails_if_it_is_told_to(stage: &Stage) -> Checked {
    let told = json!({"simulate.caretaker.dev/outcome": "failed"});
    let pod = stage
        .make(&PODS, annotated(mk_brief_pod("a"), &told))
        .await?;
    let ended = says(stage, &pod, "/status/phase", &json!("Failed")).await?;
    let code = &ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"];
    must(*code == 1, "its container has not failed", &ended)
}

async fn a_deleted_pod_goes_after_its_grace(stage: &Stage) -> Checked {
    let told = json!({"simulate.caretaker.dev/run-seconds": "forever"});
    let pod = annotated(mk_brief_pod("a"), &told);
    let pod = with(pod, json!({"spec": {"terminationGracePeriodSeconds": 3}}));
    let pod = stage.make(&PODS, pod).await?;
    says(stage, &pod, "/status/phase", &json!("Running")).await?;
    stage.delete(&pod, json!({})).await?;
    stage.deleting(&[&pod]).await?;
    stage.goes(&[&pod]).await
}

async fn a_deployment_has_as_many_running_pods_as_it_wants(stage: &Stage) -> Checked {
    let deployment = mk_quick_deployment("d", 3);
    let deployment = stage.make(&DEPLOYMENTS, deployment).await?;
    let available = says(stage, &deployment, "/status/availableReplicas", &json!(3)).await?;
    must(
        conditions(&available) == ["Available", "Progressing"],
        "its conditions are others",
        &available,
    )?;
    some(stage, &REPLICA_SETS, 1).await?;
    for pod in some(stage, &PODS, 3).await? {
        must(pod["status"]["phase"] == "Running", "it does not run", &pod)?;
    }
    let fewer = json!({"spec": {"replicas": 1}});
    stage.change(&deployment, fewer).await?;
    says(stage, &deployment, "/status/replicas", &json!(1)).await?;
    some(stage, &PODS, 1).await.map(|_| ())
}

async fn a_deployment_rolls_to_a_new_template(stage: &Stage) -> Checked {
    let deployment = mk_quick_deployment("d", 2);
    let deployment = stage.make(&DEPLOYMENTS, deployment).await?;
    says(stage, &deployment, "/status/availableReplicas", &json!(2)).await?;
    let image =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "other"}]}}}});
    stage.change(&deployment, image).await?;
    stage
        .until(async || {
            let pods = stage.list(&PODS).await?;
            let is_new = |pod: &&Value| pod["spec"]["containers"][0]["image"] == "other";
            match (pods.len(), pods.iter().filter(is_new).count()) {
                (2, 2) => Ok(()),
                (all, new) => Err(format!("{new} of {all} Pods are new")),
            }
        })
        .await?;
    some(stage, &REPLICA_SETS, 2).await?;
    let done = says(stage, &deployment, "/status/updatedReplicas", &json!(2)).await?;
    must(
        done["status"]["observedGeneration"] == 2,
        "it has not seen the change",
        &done,
    )
}

async fn a_deployment_takes_everything_along_when_it_goes(stage: &Stage) -> Checked {
    let deployment = mk_quick_deployment("d", 2);
    let deployment = stage.make(&DEPLOYMENTS, deployment).await?;
    says(stage, &deployment, "/status/availableReplicas", &json!(2)).await?;
    let foreground = json!({"propagationPolicy": "Foreground"});
    stage.delete(&deployment, foreground).await?;
    stage.goes(&[&deployment]).await?;
    // Its dependents went before it.
    stage.count(&REPLICA_SETS, 0).await?;
    stage.count(&PODS, 0).await
}

async fn a_job_reaches_its_completions(stage: &Stage) -> Checked {
    let spec = json!({"completions": 3, "parallelism": 2});
    let job = stage
        .make(&JOBS, mk_quick_job("j", &spec, "succeeded"))
        .await?;
    says(stage, &job, "/status/active", &json!(2)).await?;
    let over = says(stage, &job, "/status/succeeded", &json!(3)).await?;
    must(
        conditions(&over) == ["SuccessCriteriaMet", "Complete"],
        "its conditions are others",
        &over,
    )?;
    must(
        over["status"]["completionTime"].is_string(),
        "it has no end",
        &over,
    )?;
    must(
        over["status"]["failed"].is_null(),
        "something has failed",
        &over,
    )?;
    stage.count(&PODS, 3).await
}

async fn a_job_fails_after_its_last_retry(stage: &Stage) -> Checked {
    let spec = json!({"backoffLimit": 1});
    let job = stage
        .make(&JOBS, mk_quick_job("j", &spec, "failed"))
        .await?;
    let over = says(stage, &job, "/status/failed", &json!(2)).await?;
    must(
        conditions(&over) == ["FailureTarget", "Failed"],
        "its conditions are others",
        &over,
    )?;
    must(
        over["status"]["completionTime"].is_null(),
        "it is complete",
        &over,
    )
}

async fn a_job_takes_its_pods_along_when_it_goes(stage: &Stage) -> Checked {
    let spec = json!({"template": {"metadata": {"annotations": {"simulate.caretaker.dev/run-seconds": "forever"}}}});
    let job = stage
        .make(&JOBS, mk_quick_job("j", &spec, "succeeded"))
        .await?;
    says(stage, &job, "/status/ready", &json!(1)).await?;
    let background = json!({"propagationPolicy": "Background"});
    stage.delete(&job, background).await?;
    stage.goes(&[&job]).await?;
    stage.until(async || stage.count(&PODS, 0).await).await
}

async fn a_job_with_a_ttl_goes_after_its_pods(stage: &Stage) -> Checked {
    let spec = json!({"completions": 2, "parallelism": 2, "ttlSecondsAfterFinished": TTL_SECS});
    let job = mk_quick_job("j", &spec, "succeeded");
    let job = stage.make(&JOBS, job).await?;
    says(stage, &job, "/status/succeeded", &json!(2)).await?;
    goes_with_its_ttl(stage, &job, "/status/completionTime").await
}

/// A Job that has finished is there with its Pods until its time is over, and then goes after them.
async fn goes_with_its_ttl(stage: &Stage, job: &Made, finish: &str) -> Checked {
    let over = stage.there(job).await?;
    stage.count(&PODS, 2).await?;
    stage.goes(&[job]).await?;
    stage.count(&PODS, 0).await?;
    let finish = over.pointer(finish).and_then(Value::as_str);
    let finish: Option<Timestamp> = finish.and_then(|time| time.parse().ok());
    let finish = finish.ok_or("it says not when it ended")?;
    let due = finish + SignedDuration::from_secs(TTL_SECS.into());
    let now = stage.now().await?;
    match now >= due {
        true => Ok(()),
        false => Err(format!("it was gone at {now}, before {due}")),
    }
}

/// A Volcano Job with these annotations goes through these phases; what is left of it.
async fn volcano(stage: &Stage, annotations: Value, phases: &[&str], pods: usize) -> Checked {
    let job = mk_quick_volcano_job("j", annotations);
    let job = stage.make(&VOLCANO_JOBS, job).await?;
    let last = phases.last().copied().unwrap_or_default();
    says(stage, &job, "/status/state/phase", &json!(last)).await?;
    stage
        .until(async || stage.count(&POD_GROUPS, 0).await)
        .await?;
    let over = stage.there(&job).await?;
    let went = over["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let went: Vec<&str> = went.filter_map(|known| known["status"].as_str()).collect();
    must(went == phases, "it went another way", &over)?;
    must(
        over["status"]["runningDuration"].is_string(),
        "it says not how long",
        &over,
    )?;
    must(
        over["status"]["taskStatusCount"].is_null(),
        "it still counts",
        &over,
    )?;
    stage.count(&PODS, pods).await
}

async fn a_volcano_job_completes(stage: &Stage) -> Checked {
    volcano(stage, json!({}), &["Pending", "Running", "Completed"], 2).await
}

async fn a_volcano_job_fails(stage: &Stage) -> Checked {
    let end = json!({"simulate.caretaker.dev/end": "Failed"});
    volcano(stage, end, &["Pending", "Running", "Failed"], 2).await
}

async fn a_volcano_job_is_terminated(stage: &Stage) -> Checked {
    let end = json!({"simulate.caretaker.dev/end": "Terminated"});
    let phases = ["Pending", "Running", "Terminating", "Terminated"];
    volcano(stage, end, &phases, 0).await
}

async fn a_volcano_job_is_aborted(stage: &Stage) -> Checked {
    let end = json!({"simulate.caretaker.dev/end": "Aborted"});
    let phases = ["Pending", "Running", "Aborting", "Aborted"];
    volcano(stage, end, &phases, 0).await
}

async fn a_volcano_job_obeys_commands_to_abort_and_resume(stage: &Stage) -> Checked {
    let endless = json!({"simulate.caretaker.dev/run-seconds": "forever"});
    let job = mk_quick_volcano_job("j", endless);
    let job = stage.make(&VOLCANO_JOBS, job).await?;
    says(stage, &job, "/status/running", &json!(2)).await?;
    let command = |action: &str| {
        let command = mk_object("bus.volcano.sh/v1alpha1", "Command", &action.to_lowercase());
        with(
            command,
            json!({"action": action, "target": job.reference()}),
        )
    };
    let abort = stage.make(&COMMANDS, command("AbortJob")).await?;
    stage.goes(&[&abort]).await?;
    says(stage, &job, "/status/state/phase", &json!("Aborted")).await?;
    stage.count(&PODS, 0).await?;
    let resume = stage.make(&COMMANDS, command("ResumeJob")).await?;
    stage.goes(&[&resume]).await?;
    let again = says(stage, &job, "/status/running", &json!(2)).await?;
    must(
        again["status"]["retryCount"] == 1,
        "it does not count retries",
        &again,
    )
}

async fn a_volcano_job_takes_everything_along_when_it_goes(stage: &Stage) -> Checked {
    let endless = json!({"simulate.caretaker.dev/run-seconds": "forever"});
    let job = mk_quick_volcano_job("j", endless);
    let job = stage.make(&VOLCANO_JOBS, job).await?;
    says(stage, &job, "/status/running", &json!(2)).await?;
    stage.count(&POD_GROUPS, 1).await?;
    let foreground = json!({"propagationPolicy": "Foreground"});
    stage.delete(&job, foreground).await?;
    stage.goes(&[&job]).await?;
    // Its dependents went before it.
    stage.count(&PODS, 0).await?;
    stage.count(&POD_GROUPS, 0).await
}

async fn a_volcano_job_with_a_ttl_goes_after_its_pods(stage: &Stage) -> Checked {
    let job = mk_quick_volcano_job("j", json!({}));
    let job = with(job, json!({"spec": {"ttlSecondsAfterFinished": TTL_SECS}}));
    let job = stage.make(&VOLCANO_JOBS, job).await?;
    says(stage, &job, "/status/state/phase", &json!("Completed")).await?;
    goes_with_its_ttl(stage, &job, "/status/state/lastTransitionTime").await
}
