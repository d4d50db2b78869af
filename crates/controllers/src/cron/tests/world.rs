//! One CronJob in a [`TestWorld`], and short names for what tests do to it and its Jobs.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::super::{CronDialect, CronJobs, CronReason, CronSettings};
use crate::cron::dialects::{CRON_JOBS, JOBS};
use crate::runtime::call::{ApiAnswer, ApiCall, FailureKind};
use crate::runtime::controller::{
    AnsweredCall, Controller, EventNote, NextStep, ObservedChange, Verdict, WakeList,
};
use crate::runtime::driver::clock_skew::TimeSource;
use crate::runtime::kind::{KindId, KindScope, KindState};
use crate::runtime::queue::RETRY_MAX;
use crate::runtime::record::{ObjectRecord, RecordView, Uid};
use crate::test_world::{ObjectPlace, ServerFault, TestWorld, WorldOptions, merged, mk_kind};

/// Tuesday, 10:00 in UTC: upstream's base.
pub(super) const BASE: Timestamp = Timestamp::constant(1_741_687_200, 0);

pub(super) const NS: &str = "volcano";
pub(super) const NAME: &str = "nightly";

const CRONS: KindId = KindId(0);
pub(super) const JOB_KIND: KindId = KindId(1);

pub(super) const REFUSE: ServerFault = ServerFault::Fail(FailureKind::Refused);
pub(super) const NAMESPACE_ENDING: ServerFault = ServerFault::Fail(FailureKind::NamespaceEnding);
pub(super) const CONFLICT: ServerFault = ServerFault::Fail(FailureKind::Conflict);

pub(super) struct CronWorld {
    pub(super) row: &'static CronDialect,
    pub(super) now: Timestamp,
    /// The faults of the next requests, by verb.
    pub(super) troubles: VecDeque<(&'static str, ServerFault)>,
    /// Verb and name of every request.
    pub(super) asked: Vec<String>,
    /// Reasons of Events, in the order of their emission.
    pub(super) events: Vec<String>,
    pub(super) messages: Vec<String>,
    /// Whether the server drops status writes.
    pub(super) forgets_status: bool,
    /// Whether watches show the effects of requests, before their answers; else they never show them.
    pub(super) shows_first: bool,
    world: TestWorld<CronJobs>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum RunEnd {
    /// No decision until something changes.
    Rest,
    /// The next decision is due after this many seconds.
    In(i64),
    /// A request failed.
    Failed,
}

// === impl CronWorld ===

impl CronWorld {
    /// A world with one CronJob, created at [`BASE`], every five minutes, changed by `spec`.
    pub(super) fn new(row: &'static CronDialect, spec: &Value) -> Self {
        Self::with(row, CronSettings::default(), spec)
    }

    pub(super) fn with(row: &'static CronDialect, settings: CronSettings, spec: &Value) -> Self {
        let version = row.api_version.rsplit('/').next().unwrap();
        let kinds = [("CronJob", CRON_JOBS), ("Job", JOBS)].map(|(kind, resource)| {
            mk_kind(row.group, version, kind, resource, KindScope::Namespaced)
        });
        let options = WorldOptions {
            start: BASE,
            view: RecordView::Full,
            retry_max: RETRY_MAX,
            timing: TimeSource::Own,
        };
        let mut world = Self {
            row,
            now: BASE,
            troubles: VecDeque::new(),
            asked: Vec::new(),
            events: Vec::new(),
            messages: Vec::new(),
            forgets_status: false,
            shows_first: false,
            world: TestWorld::new(CronJobs::new(row, settings), kinds, options),
        };
        world.sync_kinds();
        let cron = json!({
            "metadata": {"name": NAME, "namespace": NS, "uid": "cron-uid", "creationTimestamp": BASE},
            "spec": {"schedule": "*/5 * * * *", "jobTemplate": {
                "metadata": {"labels": {"a": "b"}, "annotations": {"x": "y"}}, "spec": {"k": "v"}}},
        });
        world.put(CRONS, merged(cron, json!({ "spec": spec })));
        world
    }

    fn sync_kinds(&mut self) {
        for kind in [CRONS, JOB_KIND] {
            self.world
                .observe(&ObservedChange::Kind(kind, KindState::Synced));
        }
    }

    /// Another process takes over with an empty index, and its feeds show it all objects.
    pub(super) fn restart(&mut self, settings: CronSettings) {
        self.world.restart(CronJobs::new(self.row, settings));
        self.sync_kinds();
        let all: Vec<Arc<ObjectRecord>> = {
            let server = self.world.server();
            let objects = server.objects.iter();
            objects
                .map(|(key, object)| server.record(key.0, object))
                .collect()
        };
        for record in all {
            self.observe(&ObservedChange::Applied(record));
        }
    }

    pub(super) fn at(&mut self, minutes: i64) -> &mut Self {
        self.now = BASE + SignedDuration::from_mins(minutes);
        self
    }

    fn object(&self, kind: KindId, name: &str) -> Value {
        self.world.server().objects[&place(kind, name)].clone()
    }

    pub(super) fn cron(&self) -> Value {
        self.object(CRONS, NAME)
    }

    pub(super) fn status(&self) -> Value {
        self.cron()["status"].take()
    }

    pub(super) fn active(&self) -> Vec<String> {
        let status = self.status();
        let active = status["active"].as_array().into_iter().flatten();
        active
            .map(|job| job["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The names of the Jobs on the server.
    pub(super) fn jobs(&self) -> Vec<String> {
        let server = self.world.server();
        let jobs = server.objects.keys().filter(|key| key.0 == JOB_KIND);
        jobs.map(|key| key.2.clone()).collect()
    }

    pub(super) fn job(&self, name: &str) -> Value {
        self.object(JOB_KIND, name)
    }

    /// Changes the CronJob and shows it. Returns after how many seconds each woken key is due.
    pub(super) fn change_cron(&mut self, changes: &Value) -> Vec<Option<i64>> {
        self.put(CRONS, merged(self.cron(), changes.clone()))
    }

    /// Changes the CronJob, and no watch shows it.
    pub(super) fn change_unseen(&mut self, changes: &Value) {
        let cron = merged(self.cron(), changes.clone());
        self.world.server().put_unseen(CRONS, cron);
    }

    /// The name of the Job of a slot, in minutes after [`BASE`].
    pub(super) fn name_at(minutes: i64) -> String {
        format!("{NAME}-{}", BASE.as_second() / 60 + minutes)
    }

    /// A Job of a slot in a phase, which ended a minute later. It is not stored.
    pub(super) fn mk_job(&self, minutes: i64, phase: &str) -> Value {
        let slot = BASE + SignedDuration::from_mins(minutes);
        let end = slot + SignedDuration::from_mins(1);
        let mut job = json!({"metadata": {
            "name": Self::name_at(minutes), "namespace": NS, "uid": format!("uid-{minutes}"),
            "creationTimestamp": slot,
            "ownerReferences": [{"apiVersion": self.row.api_version, "kind": "CronJob", "name": NAME,
                "uid": "cron-uid", "controller": true}],
        }});
        let condition = match phase {
            "Completed" => "Complete",
            "Failed" | "Terminated" => "Failed",
            _ => "",
        };
        job["status"] = match self.row.group {
            "batch" if condition.is_empty() => json!({"startTime": slot}),
            "batch" => json!({"startTime": slot, "completionTime": end,
                "conditions": [{"type": condition, "status": "True", "lastTransitionTime": end}]}),
            _ => json!({"state": {"phase": phase, "lastTransitionTime": end}}),
        };
        job
    }

    /// Stores and shows a Job of a slot.
    pub(super) fn add_job(&mut self, minutes: i64, phase: &str) {
        self.put_job(self.mk_job(minutes, phase));
    }

    pub(super) fn put_job(&mut self, job: Value) {
        self.put(JOB_KIND, job);
    }

    /// Stores a Job, and no watch shows it.
    pub(super) fn put_job_unseen(&mut self, job: Value) {
        self.world.server().put_unseen(JOB_KIND, job);
    }

    /// Removes a Job, and no watch shows it.
    pub(super) fn drop_job_unseen(&mut self, name: &str) {
        self.world.server().objects.remove(&place(JOB_KIND, name));
    }

    /// The running Job of a name gets another phase.
    pub(super) fn end_job(&mut self, name: &str, phase: &str) {
        let mut job = self.job(name);
        let minutes = (self.now.as_second() - BASE.as_second()) / 60 - 1;
        job["status"] = self.mk_job(minutes, phase)["status"].take();
        self.put_job(job);
    }

    /// A Job is gone, and its end was shown.
    pub(super) fn drop_job(&mut self, name: &str) {
        self.world.server().remove(&place(JOB_KIND, name));
        self.show();
    }

    /// A relist does not show a Job.
    pub(super) fn miss_job(&mut self, name: &str) {
        let uid = self.record_of_job(name).meta.uid.clone();
        self.observe(&ObservedChange::Missing(JOB_KIND, uid));
    }

    pub(super) fn forbid_jobs(&mut self) {
        self.observe(&ObservedChange::Kind(JOB_KIND, KindState::Forbidden));
    }

    /// Puts references to Jobs into the status.
    pub(super) fn list_active(&mut self, jobs: &[Value]) {
        let refs = jobs
            .iter()
            .map(|job| json!({"name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}));
        let refs: Vec<Value> = refs.collect();
        self.change_cron(&json!({"status": {"active": refs}}));
    }

    fn put(&mut self, kind: KindId, object: Value) -> Vec<Option<i64>> {
        self.world.server().put(kind, object);
        self.show()
    }

    fn show(&mut self) -> Vec<Option<i64>> {
        self.world.set_time(self.now);
        self.world.deliver_all();
        self.woken()
    }

    fn woken(&self) -> Vec<Option<i64>> {
        let secs = |at: &Timestamp| at.duration_since(self.now).as_secs();
        let woken = self.world.woken().iter();
        woken.map(|(_, at)| at.as_ref().map(secs)).collect()
    }

    pub(super) fn observe(&mut self, change: &ObservedChange) -> Vec<Option<i64>> {
        self.world.set_time(self.now);
        self.world.observe(change);
        self.woken()
    }

    pub(super) fn record_of_job(&self, name: &str) -> Arc<ObjectRecord> {
        let server = self.world.server();
        server.record(JOB_KIND, &server.objects[&place(JOB_KIND, name)])
    }

    /// Decides the CronJob, and runs the driver until nothing is left to do now, or a request fails.
    pub(super) fn run(&mut self) -> RunEnd {
        self.world.set_time(self.now);
        self.world.shows_first = self.shows_first;
        {
            let mut server = self.world.server();
            server.faults = std::mem::take(&mut self.troubles);
            server.ignores_patches = self.forgets_status;
        }
        let failures = self.world.failures();
        self.world.wake(Uid::from("cron-uid"));
        while self.world.failures() == failures && self.world.step() {}
        let has_failed = self.world.failures() > failures;
        {
            let mut server = self.world.server();
            self.troubles = std::mem::take(&mut server.faults);
            self.asked.append(&mut server.log);
            // Without `shows_first`, the answers are all that the controller learns of its requests.
            server.events.clear();
        }
        for note in self.world.take_notes() {
            self.events.push(note.reason.to_owned());
            self.messages.push(note.message);
        }
        assert!(
            self.asked.len() < 10_000,
            "it never ends: {:?}",
            &self.asked[..20]
        );
        match self.decide().next {
            _ if has_failed => RunEnd::Failed,
            NextStep::Rest => RunEnd::Rest,
            NextStep::At(time) => RunEnd::In(time.duration_since(self.now).as_secs()),
            other => panic!("the queue lost the CronJob: {other:?}"),
        }
    }

    /// The decision about the CronJob, without its consequences.
    pub(super) fn decide(&self) -> Verdict<Uid, CronReason> {
        self.world.set_time(self.now);
        self.world.decide(&Uid::from("cron-uid"))
    }

    /// Passes a made-up answer to the controller. Returns its Events.
    pub(super) fn answer(&mut self, call: &ApiCall, answer: &ApiAnswer) -> Vec<EventNote> {
        let now = self.now;
        self.world.controller_mut().answered(AnsweredCall {
            key: &Uid::from("cron-uid"),
            call,
            answer,
            now,
            wake: &mut WakeList::default(),
        })
    }

    /// The number of requests so far with this verb.
    pub(super) fn asked_for(&self, verb: &str) -> usize {
        let asked = self.asked.iter();
        asked.filter(|asked| asked.starts_with(verb)).count()
    }
}

fn place(kind: KindId, name: &str) -> ObjectPlace {
    (kind, NS.to_owned(), name.to_owned())
}
