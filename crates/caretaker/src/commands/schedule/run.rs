//! `caretaker schedule run`: one Job of a CronJob, now.
//!
//! What `kubectl create job --from` does, for both kinds: the Job has the template's labels, annotations and spec, is marked as
//! made by hand and is owned by its CronJob, so that it counts among its active ones and in its history. A CronJob that forbids
//! two runs at a time is asked for its active Jobs first. It may be suspended; that is about its schedule.

use anyhow::{Result, bail};
use caretaker_controllers::cron::{self, Order};
use caretaker_machinery::names;
use caretaker_machinery::rng::Rng;
use serde_json::Value;

use super::cluster::{Cluster, CronKind, KINDS, Refusal};
use crate::args::{CronJobName, ScheduleRun};
use crate::wiring;

/// Behind an `m`, which no tick has: as long as the eight digits of a tick.
const SUFFIX_CHARS: usize = 7;
/// How often a name is made up. One that is taken is one of ten billion.
const ATTEMPTS_MAX: usize = 3;
/// How many active Jobs are named before the rest is counted.
const JOBS_NAMED: usize = 3;

/// Says that somebody made the Job by hand, as kubectl does.
const BY_HAND: (&str, &str) = ("cronjob.kubernetes.io/instantiate", "manual");

/// What was made, as it is to be printed.
pub(in crate::commands) async fn run(args: &ScheduleRun) -> Result<String> {
    let cluster = Cluster::find(&args.place).await?;
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
            Err(Refusal::Taken) => {}
            Err(refusal) => bail!("the server refuses: {refusal}"),
        }
    }
    bail!("every name for a Job of {shown} is taken")
}

/// The CronJob that is meant. A plain name is looked for in both kinds.
async fn find(cluster: &Cluster, wanted: &CronJobName) -> Result<(&'static CronKind, Value)> {
    let (mut found, mut gaps) = (Vec::new(), Vec::new());
    for kind in meant(wanted.kind.as_deref())? {
        match cluster.get(kind, &wanted.name).await {
            Ok(object) => found.push((kind, object)),
            // A kind that the server does not have hides none.
            Err(Refusal::Absent | Refusal::NotServed) => {}
            Err(refusal) => gaps.push(format!("{} cannot be read: {refusal}", kind.resource)),
        }
    }
    let name = &wanted.name;
    match (found.pop(), found.pop()) {
        (Some(one), None) => {
            for gap in gaps {
                eprintln!("caretaker: {gap}");
            }
            Ok(one)
        }
        (Some((second, _)), Some((first, _))) => {
            let (first, second) = (first.word(), second.word());
            bail!("there are two of this name: say {first}/{name} or {second}/{name}")
        }
        (None, _) => {
            let gaps: String = gaps.iter().map(|gap| format!("; {gap}")).collect();
            let namespace = &cluster.namespace;
            let what = wanted.kind.as_deref().unwrap_or("CronJob");
            bail!("there is no {what} {name:?} in namespace {namespace}{gaps}")
        }
    }
}

/// The kinds that a word can mean.
fn meant(word: Option<&str>) -> Result<Vec<&'static CronKind>> {
    let Some(word) = word else {
        return Ok(KINDS.iter().collect());
    };
    let kinds: Vec<&CronKind> = KINDS
        .iter()
        .filter(|kind| kind.words.contains(&word))
        .collect();
    if kinds.is_empty() {
        let known: Vec<&str> = KINDS.iter().map(CronKind::word).collect();
        bail!("{word:?} is no kind of CronJob: say {}", known.join(" or "));
    }
    Ok(kinds)
}

/// The names of its Jobs that have not finished. Who may not list Jobs has to believe the CronJob's status.
async fn active(cluster: &Cluster, kind: &CronKind, cron_job: &Value) -> Result<Vec<String>> {
    let path = kind.path(Some(&cluster.namespace), "jobs");
    match cluster.list(&path).await {
        Ok(listed) => Ok(unfinished(kind, cron_job, &listed.objects)),
        Err(Refusal::Forbidden) => {
            eprintln!(
                "caretaker: the server does not let you list {}: what is active is what the status of the CronJob says",
                kind.job_resource
            );
            Ok(told(cron_job))
        }
        Err(refusal) => bail!("the server does not list {}: {refusal}", kind.job_resource),
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

/// What a CronJob itself says is active.
fn told(cron_job: &Value) -> Vec<String> {
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
        "{shown} forbids two runs at a time, and {named}{more} {are} active; --force runs it nevertheless"
    )
}

/// `<cronjob>-m<seven characters>`.
fn job_name(cron_job: &str, rng: &mut Rng) -> String {
    format!("{cron_job}-m{}", names::suffix(SUFFIX_CHARS, rng))
}

/// The Job. Like kubectl's it does not block the end of its CronJob, which would take a right of its own.
fn job(kind: &CronKind, cron_job: &Value, name: &str) -> Value {
    let text = |field: &str| cron_job["metadata"][field].as_str().unwrap_or_default();
    let order = Order {
        cron_job: text("name"),
        namespace: text("namespace"),
        uid: text("uid"),
        name,
        mark: BY_HAND,
        blocks_owner: false,
    };
    let template = cron_job["spec"]["jobTemplate"].clone();
    cron::of_template(kind.dialect, template, &order)
}

#[cfg(test)]
mod tests;
