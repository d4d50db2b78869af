//! A controller of CronJobs, and a server of a few lines that does what it asks for, until there is nothing to ask.
//!
//! The server is asked as the driver asks: one request after the other, a read after a conflict, an end after a failure.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::super::{CronJobs, Dialect, Reason, Settings};
use crate::cron::dialects::{CRON_JOBS, JOBS};
use crate::runtime::call::{Answer, Call, Failure, FailureKind, Proof};
use crate::runtime::controller::{CallAnswer, Change, Controller, Next, Note, Verdict, Wake};
use crate::runtime::kind::{Catalog, Kind, KindId, KindState, Scope, Verbs};
use crate::runtime::record::{Record, Uid, View, decode};

/// Tuesday, 10:00 in UTC: upstream's base.
pub(super) const BASE: Timestamp = Timestamp::constant(1_741_687_200, 0);

pub(super) const NS: &str = "volcano";
pub(super) const NAME: &str = "nightly";

const CRONS: KindId = KindId(0);
const JOB_KIND: KindId = KindId(1);

/// What the server does with the next request of a verb instead of what it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It refuses it.
    Refuse,
    /// It has no room for anything new.
    Ending,
    /// The object has changed meanwhile.
    Conflict,
    /// It does it, and the answer is lost.
    Lose,
}

pub(super) struct World {
    pub(super) row: &'static Dialect,
    pub(super) controller: CronJobs,
    pub(super) now: Timestamp,
    pub(super) objects: BTreeMap<(KindId, String), Value>,
    pub(super) troubles: VecDeque<(&'static str, Trouble)>,
    /// Verb and name of every request.
    pub(super) asked: Vec<String>,
    /// Reasons of Events, in the order in which they were told.
    pub(super) told: Vec<String>,
    pub(super) messages: Vec<String>,
    /// Whether what is written to a status is not kept.
    pub(super) forgets_status: bool,
    /// Whether feeds are faster than answers, with deletes too.
    pub(super) shows_first: bool,
    last_notes: Vec<Note>,
    revision: u64,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ended {
    /// Nothing until something changes.
    Rest,
    /// Again after so many seconds.
    In(i64),
    /// A request failed.
    Failed,
}

// === impl World ===

impl World {
    /// A world with one CronJob, made at [`BASE`], every five minutes, changed by `spec`.
    pub(super) fn new(row: &'static Dialect, spec: &Value) -> Self {
        Self::with(row, Settings::default(), spec)
    }

    pub(super) fn with(row: &'static Dialect, settings: Settings, spec: &Value) -> Self {
        let mut world = Self {
            row,
            controller: CronJobs::new(row, settings),
            now: BASE,
            objects: BTreeMap::new(),
            troubles: VecDeque::new(),
            asked: Vec::new(),
            told: Vec::new(),
            messages: Vec::new(),
            forgets_status: false,
            shows_first: false,
            last_notes: Vec::new(),
            revision: 100,
        };
        world.learn_kinds();
        let mut cron = json!({
            "metadata": {"name": NAME, "namespace": NS, "uid": "cron-uid", "creationTimestamp": BASE},
            "spec": {"schedule": "*/5 * * * *", "jobTemplate": {
                "metadata": {"labels": {"a": "b"}, "annotations": {"x": "y"}}, "spec": {"k": "v"}}},
        });
        merge(&mut cron["spec"], spec);
        world.put(CRONS, NAME, cron);
        world
    }

    fn learn_kinds(&mut self) {
        let version = self.row.api_version.rsplit('/').next().unwrap();
        let kind = |kind: &str, resource: &str| Kind {
            group: self.row.group.into(),
            version: version.into(),
            kind: kind.into(),
            resource: resource.into(),
            scope: Scope::Namespaced,
            verbs: Verbs::default(),
            versions: vec![version.into()],
            aliases: Vec::new(),
        };
        let kinds = [kind("CronJob", CRON_JOBS), kind("Job", JOBS)];
        let catalog = Arc::new(Catalog::default().with(kinds));
        self.observe(&Change::Catalog(catalog));
        for kind in [CRONS, JOB_KIND] {
            self.observe(&Change::Kind(kind, KindState::Synced));
        }
    }

    /// Another process takes over: it knows what it is shown.
    pub(super) fn restart(&mut self, settings: Settings) {
        self.controller = CronJobs::new(self.row, settings);
        self.last_notes.clear();
        self.learn_kinds();
        let all: Vec<(KindId, String)> = self.objects.keys().cloned().collect();
        for (kind, name) in all {
            self.show(kind, &name);
        }
    }

    pub(super) fn at(&mut self, minutes: i64) -> &mut Self {
        self.now = BASE + SignedDuration::from_mins(minutes);
        self
    }

    pub(super) fn cron(&self) -> &Value {
        &self.objects[&(CRONS, NAME.to_owned())]
    }

    pub(super) fn status(&self) -> &Value {
        &self.cron()["status"]
    }

    pub(super) fn active(&self) -> Vec<&str> {
        let active = self.status()["active"].as_array().into_iter().flatten();
        active.map(|job| job["name"].as_str().unwrap()).collect()
    }

    /// The names of the Jobs there are.
    pub(super) fn jobs(&self) -> Vec<&str> {
        let jobs = self.objects.keys().filter(|(kind, _)| *kind == JOB_KIND);
        jobs.map(|(_, name)| name.as_str()).collect()
    }

    pub(super) fn job(&self, name: &str) -> &Value {
        &self.objects[&(JOB_KIND, name.to_owned())]
    }

    /// Changes the CronJob and shows it; says who is woken, and after how many seconds.
    pub(super) fn change_cron(&mut self, changes: &Value) -> Vec<Option<i64>> {
        let mut cron = self.cron().clone();
        merge(&mut cron, changes);
        self.put(CRONS, NAME, cron)
    }

    /// Somebody changes the CronJob, and no feed shows it.
    pub(super) fn change_unseen(&mut self, changes: &Value) {
        let mut cron = self.cron().clone();
        merge(&mut cron, changes);
        self.revision += 1;
        cron["metadata"]["resourceVersion"] = self.revision.to_string().into();
        self.objects.insert((CRONS, NAME.to_owned()), cron);
    }

    /// The name of the Job of a slot, so many minutes after [`BASE`].
    pub(super) fn name_at(minutes: i64) -> String {
        format!("{NAME}-{}", BASE.as_second() / 60 + minutes)
    }

    /// A Job of a slot in a phase, which ended a minute later. It is not shown.
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

    /// A Job of a slot that is there and known.
    pub(super) fn add_job(&mut self, minutes: i64, phase: &str) {
        let job = self.mk_job(minutes, phase);
        self.put_job(job);
    }

    pub(super) fn put_job(&mut self, job: Value) {
        let name = job["metadata"]["name"].as_str().unwrap().to_owned();
        self.put(JOB_KIND, &name, job);
    }

    /// The running Job of a name gets another phase.
    pub(super) fn end_job(&mut self, name: &str, phase: &str) {
        let mut job = self.job(name).clone();
        let minutes = (self.now.as_second() - BASE.as_second()) / 60 - 1;
        job["status"] = self.mk_job(minutes, phase)["status"].clone();
        self.put_job(job);
    }

    /// A Job is gone, and its end was shown.
    pub(super) fn drop_job(&mut self, name: &str) {
        let record = self.record(JOB_KIND, name).unwrap();
        self.objects.remove(&(JOB_KIND, name.to_owned()));
        self.observe(&Change::Deleted(record));
    }

    /// A fresh list does not show a Job.
    pub(super) fn miss_job(&mut self, name: &str) {
        let uid = self.record(JOB_KIND, name).unwrap().meta.uid.clone();
        self.observe(&Change::Missing(JOB_KIND, uid));
    }

    pub(super) fn forbid_jobs(&mut self) {
        self.observe(&Change::Kind(JOB_KIND, KindState::Forbidden));
    }

    /// Puts what refers to Jobs into the status, without showing it as a change of ours.
    pub(super) fn list_active(&mut self, jobs: &[Value]) {
        let refs = jobs
            .iter()
            .map(|job| json!({"name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}));
        let refs: Vec<Value> = refs.collect();
        self.change_cron(&json!({"status": {"active": refs}}));
    }

    /// Stores an object with a new version, and shows it.
    fn put(&mut self, kind: KindId, name: &str, mut object: Value) -> Vec<Option<i64>> {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        self.objects.insert((kind, name.to_owned()), object);
        self.show(kind, name)
    }

    fn show(&mut self, kind: KindId, name: &str) -> Vec<Option<i64>> {
        let record = self.record(kind, name).unwrap();
        self.observe(&Change::Applied(record))
    }

    pub(super) fn observe(&mut self, change: &Change) -> Vec<Option<i64>> {
        let mut wake = Wake::default();
        self.controller.observe(change, self.now, &mut wake);
        let secs = |at: Timestamp| at.duration_since(self.now).as_secs();
        wake.drain().map(|(_, at)| at.map(secs)).collect()
    }

    pub(super) fn record(&self, kind: KindId, name: &str) -> Option<Arc<Record>> {
        let object = self.objects.get(&(kind, name.to_owned()))?;
        Some(Arc::new(
            decode(kind, object.to_string().as_bytes(), View::Full).unwrap(),
        ))
    }

    /// Decides and asks until there is nothing more to do now.
    pub(super) fn run(&mut self) -> Ended {
        for _ in 0..10_000 {
            let verdict = self.decide();
            match verdict.next {
                Next::Rest => return Ended::Rest,
                Next::At(time) => return Ended::In(time.duration_since(self.now).as_secs()),
                Next::Call(call) => {
                    if self.ask(&call) {
                        return Ended::Failed;
                    }
                }
                Next::After(_) | Next::Retry => unreachable!("it never says so"),
            }
        }
        panic!("it never ends: {:?}", &self.asked[..20]);
    }

    pub(super) fn decide(&mut self) -> Verdict<Uid, Reason> {
        let verdict = self.controller.decide(&Uid::from("cron-uid"), self.now);
        let new = verdict
            .notes
            .iter()
            .filter(|note| !self.last_notes.contains(note));
        let new: Vec<Note> = new.cloned().collect();
        self.hear(new);
        self.last_notes.clone_from(&verdict.notes);
        verdict
    }

    fn hear(&mut self, notes: Vec<Note>) {
        for note in notes {
            self.told.push(note.reason.to_owned());
            self.messages.push(note.message);
        }
    }

    /// Sends a request as the driver would. Says whether it failed.
    fn ask(&mut self, call: &Call) -> bool {
        let answer = self.perform(call);
        let is_conflict =
            matches!(&answer, Answer::Failed(failure) if failure.kind == FailureKind::Conflict);
        let has_failed = matches!(answer, Answer::Failed(_));
        self.answer(call, &answer);
        if is_conflict && !call.is_read() {
            return self.ask(&Call::Get {
                target: call.target().clone(),
            });
        }
        has_failed
    }

    pub(super) fn answer(&mut self, call: &Call, answer: &Answer) {
        let mut wake = Wake::default();
        let uid = Uid::from("cron-uid");
        let notes = self.controller.answered(CallAnswer {
            key: &uid,
            call,
            answer,
            now: self.now,
            wake: &mut wake,
        });
        self.hear(notes);
    }

    fn perform(&mut self, call: &Call) -> Answer {
        let target = call.target();
        let (kind, name) = (target.kind, target.name.to_string());
        self.asked.push(format!("{} {name}", call.verb()));
        let failed = |kind, message: &str| {
            let message = message.to_owned();
            Answer::Failed(Failure {
                kind,
                status: Some(400),
                message,
                retry_after: None,
            })
        };
        let trouble = self
            .troubles
            .front()
            .filter(|(verb, _)| *verb == call.verb());
        let trouble = trouble.map(|(_, trouble)| *trouble);
        if trouble.is_some() {
            self.troubles.pop_front();
        }
        match trouble {
            Some(Trouble::Refuse) => return failed(FailureKind::Refused, "no"),
            Some(Trouble::Ending) => return failed(FailureKind::NamespaceEnding, "no"),
            Some(Trouble::Conflict) => return failed(FailureKind::Conflict, "no"),
            Some(Trouble::Lose) | None => {}
        }
        let exists = self.objects.contains_key(&(kind, name.clone()));
        let answer = match call {
            Call::Create { .. } if exists => failed(FailureKind::Conflict, "it exists"),
            Call::Create { object, .. } => {
                let mut object = object.clone();
                object["metadata"]["uid"] = format!("uid of {name} {}", self.revision).into();
                object["metadata"]["creationTimestamp"] = self.now.to_string().into();
                self.store(kind, &name, object)
            }
            _ if !exists => Answer::Absent(Proof::NotFound),
            Call::Get { .. } => Answer::Object(self.record(kind, &name).unwrap()),
            Call::Patch { patch, judged, .. } => {
                let mut object = self.objects[&(kind, name.clone())].clone();
                if object["metadata"]["resourceVersion"] != judged.revision.to_string() {
                    return failed(FailureKind::Conflict, "it changed");
                }
                if !self.forgets_status {
                    merge(&mut object, patch);
                }
                self.store(kind, &name, object)
            }
            Call::Delete { judged, .. } => {
                let object = &self.objects[&(kind, name.clone())];
                if object["metadata"]["resourceVersion"] != judged.revision.to_string() {
                    return failed(FailureKind::Conflict, "it changed");
                }
                self.remove(kind, &name)
            }
        };
        match trouble {
            Some(Trouble::Lose) => failed(FailureKind::Unavailable, "no answer"),
            _ => answer,
        }
    }

    /// Stores what a request has made; nobody is shown it but the one who asked.
    fn store(&mut self, kind: KindId, name: &str, mut object: Value) -> Answer {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        self.objects.insert((kind, name.to_owned()), object);
        if self.shows_first {
            self.show(kind, name);
        }
        Answer::Object(self.record(kind, name).unwrap())
    }

    /// Takes an object out, unless a finalizer holds it.
    fn remove(&mut self, kind: KindId, name: &str) -> Answer {
        let key = (kind, name.to_owned());
        if self.objects[&key]["metadata"]["finalizers"].is_array() {
            let mut object = self.objects[&key].clone();
            object["metadata"]["deletionTimestamp"] = self.now.to_string().into();
            return self.store(kind, name, object);
        }
        let gone = self.record(kind, name).unwrap();
        self.objects.remove(&key);
        if self.shows_first {
            self.observe(&Change::Deleted(gone));
        }
        Answer::Done
    }

    /// How often something was asked for.
    pub(super) fn asked_for(&self, verb: &str) -> usize {
        self.asked
            .iter()
            .filter(|asked| asked.starts_with(verb))
            .count()
    }
}

/// A JSON merge patch.
pub(super) fn merge(into: &mut Value, from: &Value) {
    let Value::Object(from) = from else {
        *into = from.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in from {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut into[key], value);
        }
    }
}
