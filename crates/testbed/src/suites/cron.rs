//! The suite of the CronJob controllers: what a client sees of CronJobs of both kinds and their Jobs.
//!
//! The plays restate the integration and e2e cases of both originals, and add what these never tested. Nobody waits for a
//! slot: a CronJob is made suspended, its status is told that the last slot was long ago, and when it is resumed a slot is
//! overdue. No Job controller runs: plays write the status of Jobs themselves.

mod plays;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::stage::{Made, Stage};
use super::ttl::ended;
use super::{Checked, Play};
use crate::objects::{
    CRON_JOBS, EVENTS, JOBS, Resource, VOLCANO_CRON_JOBS, VOLCANO_JOBS, mk_cron_job, mk_job,
    mk_object, mk_pod_spec, with,
};

/// The controllers it is about.
pub const CONTROLLERS: &[&str] = &[
    "cronjob-controller/batch",
    "cronjob-controller/volcano",
    "ttl-after-finished-controller",
    "gc-controller",
];

/// The plays, by the kind of CronJob.
pub const PLAYS: &[&[Play]] = &[plays::BATCH, plays::VOLCANO];

/// How long ago the slot is that is overdue, in minutes.
const AGO_MINS: i64 = 10;

/// A kind of CronJobs and the Jobs that it makes.
pub struct Kind {
    /// The CronJobs.
    pub crons: Resource,
    /// The Jobs.
    pub jobs: Resource,
    /// The version of both.
    pub api_version: &'static str,
    is_volcano: bool,
}

/// Kubernetes' own.
pub static BATCH: Kind = Kind {
    crons: CRON_JOBS,
    jobs: JOBS,
    api_version: "batch/v1",
    is_volcano: false,
};

/// Volcano's.
pub static VOLCANO: Kind = Kind {
    crons: VOLCANO_CRON_JOBS,
    jobs: VOLCANO_JOBS,
    api_version: "batch.volcano.sh/v1alpha1",
    is_volcano: true,
};

/// A CronJob with a slot that has come.
pub struct Overdue {
    /// The CronJob.
    pub cron: Made,
    /// The slot.
    pub slot: Timestamp,
    /// The name that its Job has to have.
    pub job: String,
}

// === impl Kind ===

impl Kind {
    /// Whether it is Volcano's.
    pub const fn is_volcano(&self) -> bool {
        self.is_volcano
    }

    /// Has the server serve it.
    pub async fn define(&self, stage: &Stage) -> Checked {
        if self.is_volcano() {
            stage.define_volcano("Job", &self.jobs).await?;
            stage.define_volcano("CronJob", &self.crons).await?;
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

    /// A Job.
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
    pub async fn job_of(&self, stage: &Stage, cron: &Made, name: &str) -> Checked<Made> {
        let owner = with(cron.reference(), json!({"controller": true}));
        let owned = json!({"metadata": {"ownerReferences": [owner]}});
        stage.make(&self.jobs, with(self.mk_job(name), owned)).await
    }

    /// Ends a Job so many seconds ago: `Complete` or `Failed`.
    pub async fn end(&self, stage: &Stage, job: &Made, how: &str, secs_ago: i64) -> Checked {
        let at = stage.now().await? - SignedDuration::from_secs(secs_ago);
        stage.change_status(job, self.ended(how, at)).await
    }

    /// A CronJob that is suspended, whose last slot was two hours ago, with a slot ten minutes ago: it comes once in an
    /// hour. Jobs of `active` are in its status.
    pub async fn suspended(&self, stage: &Stage, name: &str, spec: Value) -> Checked<Overdue> {
        self.define(stage).await?;
        let now = stage.now().await?;
        let slot = now - SignedDuration::from_mins(AGO_MINS);
        let slot = slot - SignedDuration::from_secs(slot.as_second().rem_euclid(60));
        let minute = slot.as_second().div_euclid(60).rem_euclid(60);
        let schedule = json!({"schedule": format!("{minute} * * * *"), "suspend": true});
        let cron = self.mk_cron(name, with(schedule, spec));
        let cron = stage.make(&self.crons, cron).await?;
        let last = slot - SignedDuration::from_hours(2);
        stage
            .change_status(&cron, json!({"lastScheduleTime": last}))
            .await?;
        let job = format!("{name}-{}", slot.as_second().div_euclid(60));
        Ok(Overdue { cron, slot, job })
    }

    /// The same, and it is resumed.
    pub async fn overdue(&self, stage: &Stage, name: &str, spec: Value) -> Checked<Overdue> {
        let overdue = self.suspended(stage, name, spec).await?;
        overdue.resume(stage).await?;
        Ok(overdue)
    }

    /// Tells the status of a CronJob that these Jobs run.
    pub async fn list(&self, stage: &Stage, cron: &Made, jobs: &[&Made]) -> Checked {
        let refs = jobs.iter().map(|job| {
            json!({"apiVersion": self.api_version, "kind": "Job", "name": job.name(), "namespace": stage.ns(), "uid": job.uid()})
        });
        let refs: Vec<Value> = refs.collect();
        stage.change_status(cron, json!({ "active": refs })).await
    }

    /// The Job of this name, once it is there.
    pub async fn started(&self, stage: &Stage, name: &str) -> Checked<Made> {
        let path = format!("{}/{name}", self.jobs.collection(stage.ns()));
        let there = async || {
            let get = crate::session::Ask::get(&path);
            stage.send(get, &[200]).await.map(|_| ())
        };
        stage.until(there).await?;
        stage.known(&self.jobs, name).await
    }
}

// === impl Overdue ===

impl Overdue {
    /// Resumes the CronJob.
    pub async fn resume(&self, stage: &Stage) -> Checked {
        stage
            .change(&self.cron, json!({"spec": {"suspend": false}}))
            .await
    }

    /// The status tells the slot.
    pub async fn recorded(&self, stage: &Stage) -> Checked {
        let cron = stage.there(&self.cron).await?;
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
    pub async fn another(self, stage: &Stage) -> Checked<Self> {
        let slot = self.slot + SignedDuration::from_mins(AGO_MINS / 2);
        let minute = slot.as_second().div_euclid(60);
        let schedule = format!("{} * * * *", minute.rem_euclid(60));
        let changes = [
            json!({"spec": {"schedule": schedule}}),
            // A changed schedule is looked at with the next event: this is one.
            json!({"metadata": {"labels": {"touched": "yes"}}}),
        ];
        for change in changes {
            stage.change(&self.cron, change).await?;
        }
        let job = format!("{}-{minute}", self.cron.name());
        Ok(Self { slot, job, ..self })
    }

    /// The users of the CronJob are told this, in any order, and nothing else.
    pub async fn told(&self, stage: &Stage, meant: &[&str]) -> Checked {
        let exactly = async || {
            let events = stage.list(&EVENTS).await?;
            let about = events
                .iter()
                .filter(|event| event["involvedObject"]["uid"] == self.cron.uid());
            let mut found: Vec<&str> = about.filter_map(|event| event["reason"].as_str()).collect();
            found.sort_unstable();
            match found == meant {
                true => Ok(()),
                false => Err(format!("{found:?} were told instead of {meant:?}")),
            }
        };
        stage.until(&exactly).await?;
        stage.stays(&exactly).await
    }

    /// These Jobs are active.
    pub async fn active(&self, stage: &Stage, meant: &[&str]) -> Checked {
        let cron = stage.there(&self.cron).await?;
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
pub async fn succeeded(stage: &Stage, cron: &Made) -> Checked {
    match stage.there(cron).await?["status"]["lastSuccessfulTime"].is_string() {
        true => Ok(()),
        false => Err("nobody wrote when it succeeded".to_owned()),
    }
}
