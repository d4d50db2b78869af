//! The suite of the CronJob controllers: what a client sees of CronJobs of both kinds and their Jobs.
//!
//! The cases restate the integration and e2e cases of both originals and add inputs that these never tested. No case waits
//! for a schedule time: it creates a suspended CronJob, writes a last schedule time of long ago into the status, and resumes
//! the CronJob, so that a schedule time is overdue. No Job controller runs: cases write the status of Jobs themselves.

mod cases;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::ttl::ended;
use super::{CaseSuite, CaseTheme};
use crate::case::CheckResult;
use crate::environment::Environment;
use crate::fixtures::CreatedObject;
use crate::objects::{
    CRON_JOBS, EVENTS, JOBS, Resource, VOLCANO_CRON_JOBS, VOLCANO_JOBS, mk_cron_job, mk_job,
    mk_object, mk_pod_spec, with,
};

/// The controllers under test.
pub const CONTROLLERS: &[&str] = &[
    "cronjob-controller/batch",
    "cronjob-controller/volcano",
    "ttl-after-finished-controller",
    "gc-controller",
];

pub static SUITE: CaseSuite = CaseSuite {
    name: "cron",
    controllers: CONTROLLERS,
    themes: &[
        CaseTheme {
            name: "batch",
            cases: cases::BATCH,
        },
        CaseTheme {
            name: "volcano",
            cases: cases::VOLCANO,
        },
    ],
};

/// How long ago the slot is that is overdue, in minutes.
const AGO_MINS: i64 = 10;

/// A kind of CronJobs and the Jobs that it makes.
pub struct JobDialect {
    pub crons: Resource,
    pub jobs: Resource,
    /// The version of both.
    pub api_version: &'static str,
    is_volcano: bool,
}

/// The Jobs and CronJobs of Kubernetes.
pub static BATCH: JobDialect = JobDialect {
    crons: CRON_JOBS,
    jobs: JOBS,
    api_version: "batch/v1",
    is_volcano: false,
};

/// The Jobs and CronJobs of Volcano.
pub static VOLCANO: JobDialect = JobDialect {
    crons: VOLCANO_CRON_JOBS,
    jobs: VOLCANO_JOBS,
    api_version: "batch.volcano.sh/v1alpha1",
    is_volcano: true,
};

/// A CronJob with a slot that has come.
pub struct OverdueCron {
    pub cron: CreatedObject,
    /// The schedule time that has passed.
    pub slot: Timestamp,
    /// The name that its Job has to have.
    pub job: String,
}

// === impl JobDialect ===

impl JobDialect {
    /// Whether it is Volcano's.
    pub const fn is_volcano(&self) -> bool {
        self.is_volcano
    }

    /// Has the server serve it.
    pub async fn define(&self, env: &Environment) -> CheckResult {
        if self.is_volcano() {
            env.define_volcano("Job", &self.jobs).await?;
            env.define_volcano("CronJob", &self.crons).await?;
        }
        Ok(())
    }

    /// A CronJob, changed by this.
    pub fn mk_cron(&self, name: &str, spec: Value) -> Value {
        let mut cron = mk_cron_job(name);
        if self.is_volcano() {
            let task = json!({"name": "t", "replicas": 1, "template": {"spec": mk_pod_spec()}});
            let job = json!({"minAvailable": 1, "queue": "default", "tasks": [task]});
            cron["spec"]["jobTemplate"] = json!({ "spec": job });
        }
        cron["apiVersion"] = self.api_version.into();
        cron["spec"] = with(cron["spec"].take(), spec);
        cron
    }

    pub fn mk_job(&self, name: &str) -> Value {
        match self.is_volcano() {
            true => with(
                mk_object(self.api_version, "Job", name),
                json!({"spec": {"minAvailable": 1}}),
            ),
            false => mk_job(name),
        }
    }

    /// The status of a Job that ended then: `Complete` or `Failed`.
    pub fn ended(&self, how: &str, at: Timestamp) -> Value {
        match (self.is_volcano(), how) {
            (true, "Complete") => {
                json!({"state": {"phase": "Completed", "lastTransitionTime": at}})
            }
            (true, _) => json!({"state": {"phase": how, "lastTransitionTime": at}}),
            (false, _) => ended(how, at, Some(at)),
        }
    }

    /// A Job that belongs to a CronJob, made by hand.
    pub async fn job_of(
        &self,
        env: &Environment,
        cron: &CreatedObject,
        name: &str,
    ) -> CheckResult<CreatedObject> {
        let owner = with(cron.reference(), json!({"controller": true}));
        let owned = json!({"metadata": {"ownerReferences": [owner]}});
        env.make(&self.jobs, with(self.mk_job(name), owned)).await
    }

    /// Writes that a Job has ended `secs_ago`: `Complete` or `Failed`.
    pub async fn end(
        &self,
        env: &Environment,
        job: &CreatedObject,
        how: &str,
        secs_ago: i64,
    ) -> CheckResult {
        let at = env.now().await? - SignedDuration::from_secs(secs_ago);
        env.change_status(job, self.ended(how, at)).await
    }

    /// A CronJob that is suspended, whose last slot was two hours ago, with a slot ten minutes ago: it comes once in an
    /// hour. Jobs of `active` are in its status.
    pub async fn suspended(
        &self,
        env: &Environment,
        name: &str,
        spec: Value,
    ) -> CheckResult<OverdueCron> {
        self.define(env).await?;
        let now = env.now().await?;
        let slot = now - SignedDuration::from_mins(AGO_MINS);
        let slot = slot - SignedDuration::from_secs(slot.as_second().rem_euclid(60));
        let minute = slot.as_second().div_euclid(60).rem_euclid(60);
        let schedule = json!({"schedule": format!("{minute} * * * *"), "suspend": true});
        let cron = self.mk_cron(name, with(schedule, spec));
        let cron = env.make(&self.crons, cron).await?;
        let last = slot - SignedDuration::from_hours(2);
        env.change_status(&cron, json!({"lastScheduleTime": last}))
            .await?;
        let job = format!("{name}-{}", slot.as_second().div_euclid(60));
        Ok(OverdueCron { cron, slot, job })
    }

    /// The same, and it is resumed.
    pub async fn overdue(
        &self,
        env: &Environment,
        name: &str,
        spec: Value,
    ) -> CheckResult<OverdueCron> {
        let overdue = self.suspended(env, name, spec).await?;
        overdue.resume(env).await?;
        Ok(overdue)
    }

    /// Tells the status of a CronJob that these Jobs run.
    pub async fn list(
        &self,
        env: &Environment,
        cron: &CreatedObject,
        jobs: &[&CreatedObject],
    ) -> CheckResult {
        let refs = jobs.iter().map(|job| {
            json!({"apiVersion": self.api_version, "kind": "Job", "name": job.name(), "namespace": env.ns(), "uid": job.uid()})
        });
        let refs: Vec<Value> = refs.collect();
        env.change_status(cron, json!({ "active": refs })).await
    }

    /// The Job of this name, once it is there.
    pub async fn started(&self, env: &Environment, name: &str) -> CheckResult<CreatedObject> {
        let path = format!("{}/{name}", self.jobs.collection(env.ns()));
        let there = async || {
            let get = crate::session::Ask::get(&path);
            env.send(get, &[200]).await.map(|_| ())
        };
        env.until(there).await?;
        env.known(&self.jobs, name).await
    }
}

// === impl OverdueCron ===

impl OverdueCron {
    /// Resumes the CronJob.
    pub async fn resume(&self, env: &Environment) -> CheckResult {
        env.change(&self.cron, json!({"spec": {"suspend": false}}))
            .await
    }

    /// The status tells the slot.
    pub async fn recorded(&self, env: &Environment) -> CheckResult {
        let cron = env.there(&self.cron).await?;
        let last = &cron["status"]["lastScheduleTime"];
        if *last == format!("{:.0}", self.slot) {
            return Ok(());
        }
        Err(format!(
            "the last slot is {last} instead of {:.0}",
            self.slot
        ))
    }

    /// Gives the CronJob another slot that has come, five minutes after this one.
    pub async fn another(self, env: &Environment) -> CheckResult<Self> {
        let slot = self.slot + SignedDuration::from_mins(AGO_MINS / 2);
        let minute = slot.as_second().div_euclid(60);
        let schedule = format!("{} * * * *", minute.rem_euclid(60));
        let changes = [
            json!({"spec": {"schedule": schedule}}),
            // A changed schedule is looked at with the next event: this is one.
            json!({"metadata": {"labels": {"touched": "yes"}}}),
        ];
        for change in changes {
            env.change(&self.cron, change).await?;
        }
        let job = format!("{}-{minute}", self.cron.name());
        Ok(Self { slot, job, ..self })
    }

    /// The CronJob has Events with exactly these reasons, in any order.
    pub async fn has_events(&self, env: &Environment, meant: &[&str]) -> CheckResult {
        let exactly = async || {
            let events = env.list(&EVENTS).await?;
            let about = events
                .iter()
                .filter(|event| event["involvedObject"]["uid"] == self.cron.uid());
            let mut found: Vec<&str> = about.filter_map(|event| event["reason"].as_str()).collect();
            found.sort_unstable();
            match found == meant {
                true => Ok(()),
                false => Err(format!("the Events {found:?} instead of {meant:?}")),
            }
        };
        env.until(&exactly).await?;
        env.stays(&exactly).await
    }

    /// These Jobs are active.
    pub async fn active(&self, env: &Environment, meant: &[&str]) -> CheckResult {
        let cron = env.there(&self.cron).await?;
        let active = cron["status"]["active"].as_array().into_iter().flatten();
        let mut found: Vec<&str> = active.filter_map(|job| job["name"].as_str()).collect();
        found.sort_unstable();
        let mut meant = meant.to_vec();
        meant.sort_unstable();
        if found == meant {
            return Ok(());
        }
        Err(format!("{found:?} are active instead of {meant:?}"))
    }
}

/// The status of a CronJob tells when a Job succeeded.
pub async fn succeeded(env: &Environment, cron: &CreatedObject) -> CheckResult {
    match env.there(cron).await?["status"]["lastSuccessfulTime"].is_string() {
        true => Ok(()),
        false => Err("lastSuccessfulTime is not set".to_owned()),
    }
}
