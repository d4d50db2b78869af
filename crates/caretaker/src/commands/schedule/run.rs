//! `caretaker schedule run`: creates one Job of a CronJob now.
//!
//! Like `kubectl create job --from`, for both kinds: the Job has the template's labels, annotations and spec, the annotation
//! of a manual run, and the CronJob as its owner, so that it counts as active and in the history. With concurrencyPolicy
//! Forbid the active Jobs are checked first. A suspended CronJob may run: `suspend` is about its schedule.

use anyhow::{Result, bail};
use caretaker_controllers::cron::{self, JobOrder};
use caretaker_machinery::names;
use caretaker_machinery::rng::Rng;
use serde_json::Value;

use super::cluster::{CronCluster, CronKind, CronRequestError, KINDS};
use crate::args::{CronJobName, ScheduleRun};
use crate::wiring::{self, notice};

/// Follows an `m`, which no scheduled Job has; as long as the digits of a scheduled Job.
const SUFFIX_CHARS: usize = 7;
/// Attempts at a free name. A name is taken with a probability of one in ten billion.
const ATTEMPTS_MAX: usize = 3;
/// Active Jobs that a message names; the rest is counted.
const JOBS_NAMED: usize = 3;

/// kubectl's annotation of a manual run.
const MANUAL_RUN: (&str, &str) = ("cronjob.kubernetes.io/instantiate", "manual");

pub(in crate::commands) async fn run(args: &ScheduleRun) -> Result<String> {
    let cluster = CronCluster::find(&args.cluster).await?;
    let (kind, cron_job) = find(&cluster, &args.cron_job).await?;
    let shown = format!("{}/{}", kind.word(), args.cron_job.name);
    if !cron_job["metadata"]["deletionTimestamp"].is_null() {
        bail!("{shown} is being deleted");
    }
    if !args.force && cron_job["spec"]["concurrencyPolicy"] == "Forbid" {
        let active = active(&cluster, kind, &cron_job).await?;
        if !active.is_empty() {
            bail!(forbidden(&shown, &active));
        }
    }
    let mut rng = wiring::rng()?;
    for _ in 0..ATTEMPTS_MAX {
        let name = job_name(&args.cron_job.name, &mut rng);
        match cluster.create_job(kind, &job(kind, &cron_job, &name)).await {
            Ok(()) => {
                let job = kind.job_resource.replacen("jobs", "job", 1);
                return Ok(format!("{job}/{name} created\n"));
            }
            Err(CronRequestError::AlreadyExists) => {}
            Err(error) => bail!("cannot create a Job of {shown}: {error}"),
        }
    }
    bail!("cannot create a Job of {shown}: all generated names exist")
}

/// Finds the CronJob. A plain name is searched in both kinds.
async fn find(cluster: &CronCluster, wanted: &CronJobName) -> Result<(&'static CronKind, Value)> {
    let (mut found, mut gaps) = (Vec::new(), Vec::new());
    for kind in kinds_of(wanted.kind.as_deref())? {
        match cluster.get(kind, &wanted.name).await {
            Ok(object) => found.push((kind, object)),
            Err(CronRequestError::Absent | CronRequestError::NotServed) => {}
            Err(error) => gaps.push(format!("cannot read {}: {error}", kind.resource)),
        }
    }
    let name = &wanted.name;
    match (found.pop(), found.pop()) {
        (Some(one), None) => {
            for gap in gaps {
                notice(&gap);
            }
            Ok(one)
        }
        (Some((second, _)), Some((first, _))) => {
            let (first, second) = (first.word(), second.word());
            bail!("{name} is ambiguous: use {first}/{name} or {second}/{name}")
        }
        (None, _) => {
            let gaps: String = gaps.iter().map(|gap| format!("; {gap}")).collect();
            let namespace = &cluster.namespace;
            let kind = wanted.kind.as_deref().unwrap_or("cronjob");
            bail!("{kind} {name:?} not found in namespace {namespace}{gaps}")
        }
    }
}

/// The kinds with this name.
fn kinds_of(word: Option<&str>) -> Result<Vec<&'static CronKind>> {
    let Some(word) = word else {
        return Ok(KINDS.iter().collect());
    };
    let kinds: Vec<&CronKind> = KINDS
        .iter()
        .filter(|kind| kind.words.contains(&word))
        .collect();
    if kinds.is_empty() {
        let known: Vec<&str> = KINDS.iter().map(CronKind::word).collect();
        bail!(
            "unknown kind of CronJob {word:?}: use {}",
            known.join(" or ")
        );
    }
    Ok(kinds)
}

/// The names of its unfinished Jobs. Falls back to the CronJob's status if Jobs may not be listed.
async fn active(cluster: &CronCluster, kind: &CronKind, cron_job: &Value) -> Result<Vec<String>> {
    let path = kind.path(Some(&cluster.namespace), "jobs");
    match cluster.list(&path).await {
        Ok(listed) => Ok(unfinished(kind, cron_job, &listed.objects)),
        Err(CronRequestError::Forbidden) => {
            let resource = kind.job_resource;
            notice(&format!(
                "forbidden to list {resource}; using the active Jobs in the CronJob's status"
            ));
            Ok(active_in_status(cron_job))
        }
        Err(error) => bail!("cannot list {}: {error}", kind.job_resource),
    }
}

fn unfinished(kind: &CronKind, cron_job: &Value, jobs: &[Value]) -> Vec<String> {
    let uid = &cron_job["metadata"]["uid"];
    let is_owned = |job: &&Value| {
        let owners = job["metadata"]["ownerReferences"].as_array();
        let mut owners = owners.into_iter().flatten();
        owners.any(|owner| owner["controller"] == true && owner["uid"] == *uid)
    };
    let active = jobs.iter().filter(is_owned);
    let active = active.filter(|job| !kind.dialect.has_finished(job));
    let names = active.filter_map(|job| job["metadata"]["name"].as_str());
    names.map(str::to_owned).collect()
}

/// `status.active` of a CronJob.
fn active_in_status(cron_job: &Value) -> Vec<String> {
    let active = cron_job["status"]["active"].as_array();
    let names = active.into_iter().flatten();
    let names = names.filter_map(|job| job["name"].as_str());
    names.map(str::to_owned).collect()
}

fn forbidden(shown: &str, active: &[String]) -> String {
    let named = &active[..active.len().min(JOBS_NAMED)];
    let more = match active.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (named, are) = (
        named.join(", "),
        if active.len() == 1 { "is" } else { "are" },
    );
    format!(
        "{shown} has concurrencyPolicy Forbid, and {named}{more} {are} active; use --force to run it anyway"
    )
}

/// The name is `<cronjob>-m<seven characters>`.
fn job_name(cron_job: &str, rng: &mut Rng) -> String {
    format!("{cron_job}-m{}", names::suffix(SUFFIX_CHARS, rng))
}

/// Like kubectl's Job it does not set blockOwnerDeletion, which would need another permission.
fn job(kind: &CronKind, cron_job: &Value, name: &str) -> Value {
    let text = |field: &str| cron_job["metadata"][field].as_str().unwrap_or_default();
    let order = JobOrder {
        cron_job: text("name"),
        namespace: text("namespace"),
        uid: text("uid"),
        name,
        mark: MANUAL_RUN,
        blocks_owner: false,
    };
    let template = cron_job["spec"]["jobTemplate"].clone();
    cron::of_template(kind.dialect, template, &order)
}

#[cfg(test)]
mod tests;
