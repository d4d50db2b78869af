//! Simulated workloads: what a client sees of Pods that live and of the controllers that make them, and that what they
//! make goes with its owner.
//!
//! The actors are ours in process, beside the embedded and beside the real server; the garbage collector is any. The
//! server judges the actors' writes: the real one by its validation.

mod sets;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{CaseSuite, CaseTheme};
use crate::case::{CheckResult, TestCase, case};
use crate::environment::Environment;
use crate::fixtures::CreatedObject;
use crate::objects::{
    COMMANDS, DEPLOYMENTS, JOBS, POD_GROUPS, PODS, REPLICA_SETS, Resource, VOLCANO_JOBS,
    mk_deployment, mk_job, mk_object, mk_pod, mk_volcano_job, with,
};

/// The controllers beside the garbage collector.
pub const CONTROLLERS: &[&str] = super::ttl::CONTROLLERS;

pub static SUITE: CaseSuite = CaseSuite {
    name: "workloads",
    controllers: CONTROLLERS,
    themes: &[
        CaseTheme {
            name: "workloads",
            cases: CASES,
        },
        CaseTheme {
            name: "sets",
            cases: sets::CASES,
        },
    ],
};

const CASES: &[TestCase] = &[
    case!(a_pod_is_bound_runs_and_succeeds, Actors),
    case!(a_pod_fails_if_its_annotation_says_so, Actors),
    case!(a_deleted_pod_goes_after_its_grace, Actors),
    case!(a_deployment_has_as_many_running_pods_as_it_wants, Actors),
    case!(a_deployment_rolls_to_a_new_template, Actors),
    case!(a_deployment_takes_everything_along_when_it_goes, Actors),
    case!(a_job_reaches_its_completions, Actors),
    case!(a_job_fails_after_its_last_retry, Actors),
    case!(a_job_takes_its_pods_along_when_it_goes, Actors),
    case!(a_job_with_a_ttl_goes_after_its_pods, Actors),
    case!(a_volcano_job_completes, Actors, Crds),
    case!(a_volcano_job_fails, Actors, Crds),
    case!(a_volcano_job_is_terminated, Actors, Crds),
    case!(a_volcano_job_is_aborted, Actors, Crds),
    case!(
        a_volcano_job_obeys_commands_to_abort_and_resume,
        Actors,
        Crds
    ),
    case!(
        a_volcano_job_takes_everything_along_when_it_goes,
        Actors,
        Crds
    ),
    case!(
        a_volcano_job_with_a_ttl_goes_after_its_pods,
        Actors,
        Crds,
        VolcanoTtl
    ),
];

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
async fn says(
    env: &Environment,
    made: &CreatedObject,
    pointer: &str,
    meant: &Value,
) -> CheckResult<Value> {
    env.until(async || {
        let object = env.there(made).await?;
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
    env.there(made).await
}

/// Waits until exactly `meant` objects of a resource are not being deleted; returns them.
async fn some(env: &Environment, resource: &Resource, meant: usize) -> CheckResult<Vec<Value>> {
    let living = async || {
        let mut all = env.list(resource).await?;
        all.retain(|object| object["metadata"]["deletionTimestamp"].is_null());
        Ok::<Vec<Value>, String>(all)
    };
    env.until(async || {
        let found = living().await?.len();
        if found != meant {
            let path = resource.collection(env.ns());
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

fn must(is_so: bool, what: &str, object: &Value) -> CheckResult {
    match is_so {
        true => Ok(()),
        false => Err(format!("{what}: {}", object["status"])),
    }
}

async fn a_pod_is_bound_runs_and_succeeds(env: &Environment) -> CheckResult {
    let pod = env.make(&PODS, mk_brief_pod("a")).await?;
    let ran = says(env, &pod, "/status/phase", &json!("Running")).await?;
    must(ran["spec"]["nodeName"].is_string(), "it has no Node", &ran)?;
    must(conditions(&ran).contains(&"Ready"), "it is not ready", &ran)?;
    let ended = says(env, &pod, "/status/phase", &json!("Succeeded")).await?;
    must(
        !conditions(&ended).contains(&"Ready"),
        "it is ready",
        &ended,
    )?;
    env.remain(&[&pod]).await
}

async fn a_pod_fails_if_its_annotation_says_so(env: &Environment) -> CheckResult {
    let outcome = json!({"simulate.caretaker.dev/outcome": "failed"});
    let pod = env
        .make(&PODS, annotated(mk_brief_pod("a"), &outcome))
        .await?;
    let ended = says(env, &pod, "/status/phase", &json!("Failed")).await?;
    let code = &ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"];
    must(*code == 1, "its container has not failed", &ended)
}

async fn a_deleted_pod_goes_after_its_grace(env: &Environment) -> CheckResult {
    let forever = json!({"simulate.caretaker.dev/run-seconds": "forever"});
    let pod = annotated(mk_brief_pod("a"), &forever);
    let pod = with(pod, json!({"spec": {"terminationGracePeriodSeconds": 3}}));
    let pod = env.make(&PODS, pod).await?;
    says(env, &pod, "/status/phase", &json!("Running")).await?;
    env.delete(&pod, json!({})).await?;
    env.deleting(&[&pod]).await?;
    env.goes(&[&pod]).await
}

async fn a_deployment_has_as_many_running_pods_as_it_wants(env: &Environment) -> CheckResult {
    let deployment = mk_quick_deployment("d", 3);
    let deployment = env.make(&DEPLOYMENTS, deployment).await?;
    let available = says(env, &deployment, "/status/availableReplicas", &json!(3)).await?;
    must(
        conditions(&available) == ["Available", "Progressing"],
        "its conditions are others",
        &available,
    )?;
    some(env, &REPLICA_SETS, 1).await?;
    for pod in some(env, &PODS, 3).await? {
        must(pod["status"]["phase"] == "Running", "it does not run", &pod)?;
    }
    let fewer = json!({"spec": {"replicas": 1}});
    env.change(&deployment, fewer).await?;
    says(env, &deployment, "/status/replicas", &json!(1)).await?;
    some(env, &PODS, 1).await.map(|_| ())
}

async fn a_deployment_rolls_to_a_new_template(env: &Environment) -> CheckResult {
    let deployment = mk_quick_deployment("d", 2);
    let deployment = env.make(&DEPLOYMENTS, deployment).await?;
    says(env, &deployment, "/status/availableReplicas", &json!(2)).await?;
    let image =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "other"}]}}}});
    env.change(&deployment, image).await?;
    env.until(async || {
        let pods = env.list(&PODS).await?;
        let is_new = |pod: &&Value| pod["spec"]["containers"][0]["image"] == "other";
        match (pods.len(), pods.iter().filter(is_new).count()) {
            (2, 2) => Ok(()),
            (all, new) => Err(format!("{new} of {all} Pods are new")),
        }
    })
    .await?;
    some(env, &REPLICA_SETS, 2).await?;
    let done = says(env, &deployment, "/status/updatedReplicas", &json!(2)).await?;
    must(
        done["status"]["observedGeneration"] == 2,
        "it has not seen the change",
        &done,
    )
}

async fn a_deployment_takes_everything_along_when_it_goes(env: &Environment) -> CheckResult {
    let deployment = mk_quick_deployment("d", 2);
    let deployment = env.make(&DEPLOYMENTS, deployment).await?;
    says(env, &deployment, "/status/availableReplicas", &json!(2)).await?;
    let foreground = json!({"propagationPolicy": "Foreground"});
    env.delete(&deployment, foreground).await?;
    env.goes(&[&deployment]).await?;
    // Its dependents went before it.
    env.count(&REPLICA_SETS, 0).await?;
    env.count(&PODS, 0).await
}

async fn a_job_reaches_its_completions(env: &Environment) -> CheckResult {
    let spec = json!({"completions": 3, "parallelism": 2});
    let job = env
        .make(&JOBS, mk_quick_job("j", &spec, "succeeded"))
        .await?;
    says(env, &job, "/status/active", &json!(2)).await?;
    let over = says(env, &job, "/status/succeeded", &json!(3)).await?;
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
    env.count(&PODS, 3).await
}

async fn a_job_fails_after_its_last_retry(env: &Environment) -> CheckResult {
    let spec = json!({"backoffLimit": 1});
    let job = env.make(&JOBS, mk_quick_job("j", &spec, "failed")).await?;
    let over = says(env, &job, "/status/failed", &json!(2)).await?;
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

async fn a_job_takes_its_pods_along_when_it_goes(env: &Environment) -> CheckResult {
    let spec = json!({"template": {"metadata": {"annotations": {"simulate.caretaker.dev/run-seconds": "forever"}}}});
    let job = env
        .make(&JOBS, mk_quick_job("j", &spec, "succeeded"))
        .await?;
    says(env, &job, "/status/ready", &json!(1)).await?;
    let background = json!({"propagationPolicy": "Background"});
    env.delete(&job, background).await?;
    env.goes(&[&job]).await?;
    env.until(async || env.count(&PODS, 0).await).await
}

async fn a_job_with_a_ttl_goes_after_its_pods(env: &Environment) -> CheckResult {
    let spec = json!({"completions": 2, "parallelism": 2, "ttlSecondsAfterFinished": TTL_SECS});
    let job = mk_quick_job("j", &spec, "succeeded");
    let job = env.make(&JOBS, job).await?;
    says(env, &job, "/status/succeeded", &json!(2)).await?;
    goes_with_its_ttl(env, &job, "/status/completionTime").await
}

/// A Job that has finished is there with its Pods until its time is over, and then goes after them.
async fn goes_with_its_ttl(env: &Environment, job: &CreatedObject, finish: &str) -> CheckResult {
    let over = env.there(job).await?;
    env.count(&PODS, 2).await?;
    env.goes(&[job]).await?;
    env.count(&PODS, 0).await?;
    let finish = over.pointer(finish).and_then(Value::as_str);
    let finish: Option<Timestamp> = finish.and_then(|time| time.parse().ok());
    let finish = finish.ok_or("it says not when it ended")?;
    let due = finish + SignedDuration::from_secs(TTL_SECS.into());
    let now = env.now().await?;
    match now >= due {
        true => Ok(()),
        false => Err(format!("it was gone at {now}, before {due}")),
    }
}

/// A Volcano Job with these annotations goes through these phases; what is left of it.
async fn volcano(
    env: &Environment,
    annotations: Value,
    phases: &[&str],
    pods: usize,
) -> CheckResult {
    let job = mk_quick_volcano_job("j", annotations);
    let job = env.make(&VOLCANO_JOBS, job).await?;
    let last = phases.last().copied().unwrap_or_default();
    says(env, &job, "/status/state/phase", &json!(last)).await?;
    env.until(async || env.count(&POD_GROUPS, 0).await).await?;
    let over = env.there(&job).await?;
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
    env.count(&PODS, pods).await
}

async fn a_volcano_job_completes(env: &Environment) -> CheckResult {
    volcano(env, json!({}), &["Pending", "Running", "Completed"], 2).await
}

async fn a_volcano_job_fails(env: &Environment) -> CheckResult {
    let end = json!({"simulate.caretaker.dev/end": "Failed"});
    volcano(env, end, &["Pending", "Running", "Failed"], 2).await
}

async fn a_volcano_job_is_terminated(env: &Environment) -> CheckResult {
    let end = json!({"simulate.caretaker.dev/end": "Terminated"});
    let phases = ["Pending", "Running", "Terminating", "Terminated"];
    volcano(env, end, &phases, 0).await
}

async fn a_volcano_job_is_aborted(env: &Environment) -> CheckResult {
    let end = json!({"simulate.caretaker.dev/end": "Aborted"});
    let phases = ["Pending", "Running", "Aborting", "Aborted"];
    volcano(env, end, &phases, 0).await
}

async fn a_volcano_job_obeys_commands_to_abort_and_resume(env: &Environment) -> CheckResult {
    let endless = json!({"simulate.caretaker.dev/run-seconds": "forever"});
    let job = mk_quick_volcano_job("j", endless);
    let job = env.make(&VOLCANO_JOBS, job).await?;
    says(env, &job, "/status/running", &json!(2)).await?;
    let command = |action: &str| {
        let command = mk_object("bus.volcano.sh/v1alpha1", "Command", &action.to_lowercase());
        with(
            command,
            json!({"action": action, "target": job.reference()}),
        )
    };
    let abort = env.make(&COMMANDS, command("AbortJob")).await?;
    env.goes(&[&abort]).await?;
    says(env, &job, "/status/state/phase", &json!("Aborted")).await?;
    env.count(&PODS, 0).await?;
    let resume = env.make(&COMMANDS, command("ResumeJob")).await?;
    env.goes(&[&resume]).await?;
    let again = says(env, &job, "/status/running", &json!(2)).await?;
    must(
        again["status"]["retryCount"] == 1,
        "it does not count retries",
        &again,
    )
}

async fn a_volcano_job_takes_everything_along_when_it_goes(env: &Environment) -> CheckResult {
    let endless = json!({"simulate.caretaker.dev/run-seconds": "forever"});
    let job = mk_quick_volcano_job("j", endless);
    let job = env.make(&VOLCANO_JOBS, job).await?;
    says(env, &job, "/status/running", &json!(2)).await?;
    env.count(&POD_GROUPS, 1).await?;
    let foreground = json!({"propagationPolicy": "Foreground"});
    env.delete(&job, foreground).await?;
    env.goes(&[&job]).await?;
    // Its dependents went before it.
    env.count(&PODS, 0).await?;
    env.count(&POD_GROUPS, 0).await
}

async fn a_volcano_job_with_a_ttl_goes_after_its_pods(env: &Environment) -> CheckResult {
    let job = mk_quick_volcano_job("j", json!({}));
    let job = with(job, json!({"spec": {"ttlSecondsAfterFinished": TTL_SECS}}));
    let job = env.make(&VOLCANO_JOBS, job).await?;
    says(env, &job, "/status/state/phase", &json!("Completed")).await?;
    goes_with_its_ttl(env, &job, "/status/state/lastTransitionTime").await
}
