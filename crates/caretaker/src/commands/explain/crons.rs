//! What the CronJob controllers decide about a CronJob: its next slot, and why the last one has no Job.
//!
//! It is learned anew for this, with the Jobs there are, and by the server's time. Before it is said that a Job would be
//! made, whoever has its name is asked for: the controller would learn by trying that it is somebody else's. What it would do
//! before it looks at slots is told and taken for done.

use std::collections::BTreeSet;
use std::sync::Arc;

use caretaker_controllers::cron::{CronJobs, DIALECTS, Dialect, Reason, Settings};
use caretaker_controllers::runtime::call::{Answer, Call};
use caretaker_controllers::runtime::controller::{
    CallAnswer, Change, Controller, Next, Verdict, Wake,
};
use caretaker_controllers::runtime::record::{Record, Uid, View, decode};
use caretaker_machinery::cron::Schedule;
use caretaker_machinery::patch::merge;
use jiff::Timestamp;
use serde_json::Value;

use super::super::Look;
use super::super::schedule::name;
use super::{content, is_aborted};
use crate::args::Explain;
use crate::output::explained::Opinion;

/// Most steps that are looked at for one CronJob: questions, Jobs beyond the history limits, its status.
const STEPS_MAX: usize = 200;

/// What comes before its slots are looked at.
const PRUNES: &str = "Jobs beyond its history limits would be deleted";
const RECORDS: &str = "its status would be brought up to date";

impl Look {
    /// Nothing if it is no CronJob.
    pub(super) async fn opinion_on_cron_job(
        &mut self,
        record: &Record,
        args: &Explain,
    ) -> Option<Opinion> {
        let kind = self.catalog.get(record.kind)?;
        let mut rows = DIALECTS.into_iter();
        let row = rows.find(|row| *kind.group == *row.group && &*kind.kind == "CronJob")?;
        let (record, now) = self.whole(record).await?;
        let uid = &record.meta.uid;
        let settings = Settings {
            default_zone: args.zone.find(),
            after_aborted: args.limits.ttl_after_aborted,
        };
        let mut assumed = Vec::new();
        if needs_zone(&record) {
            let zone = name(&settings.default_zone);
            assumed.push(format!("--default-time-zone={zone}"));
        }
        let (mut crons, has_aborted) = self.learn_cron_jobs(row, settings, uid, now).await;
        if has_aborted {
            assumed.push(args.limits.of_aborted());
        }
        let (verdict, first) = self.judge_cron_job(&mut crons, &record, now).await;
        let opinion = Opinion::of(row.name, verdict).assuming(assumed);
        Some(opinion.after(first))
    }

    /// What its controller would know, and whether one of the CronJob's Jobs was aborted.
    async fn learn_cron_jobs(
        &mut self,
        row: &'static Dialect,
        settings: Settings,
        uid: &Uid,
        now: Timestamp,
    ) -> (CronJobs, bool) {
        let mut crons = self.taught(CronJobs::new(row, settings));
        let mut has_aborted = false;
        let learn = |change: &Change| {
            if let Change::Applied(job) = change {
                let is_its = job.meta.owners.iter().any(|owner| owner.uid == *uid);
                has_aborted |= is_its && is_aborted(job);
            }
            crons.observe(change, now, &mut Wake::default());
            crons.index().is_complete()
        };
        self.show(row.interest(), learn).await;
        (crons, has_aborted)
    }

    /// Asks what the controller would ask or find out by writing, and goes on as if what comes first had been written. Says
    /// what that is.
    async fn judge_cron_job(
        &self,
        crons: &mut CronJobs,
        record: &Arc<Record>,
        now: Timestamp,
    ) -> (Verdict<Uid, Reason>, BTreeSet<&'static str>) {
        let (mut record, uid) = (record.clone(), &record.meta.uid);
        let (mut asked, mut told, mut first) = (BTreeSet::new(), Vec::new(), BTreeSet::new());
        let mut verdict = crons.decide(uid, now);
        for _ in 0..STEPS_MAX {
            let Next::Call(call) = &verdict.next else {
                break;
            };
            let wake = &mut Wake::default();
            match call {
                Call::Get { target } | Call::Create { target, .. } => {
                    let target = target.clone();
                    if !asked.insert(target.clone()) {
                        break;
                    }
                    let answer = self.read_whole(target.clone()).await.answer;
                    if matches!(answer, Answer::Failed(_)) {
                        break;
                    }
                    told.extend(crons.answered(CallAnswer {
                        key: uid,
                        call: &Call::Get { target },
                        answer: &answer,
                        now,
                        wake,
                    }));
                }
                Call::Delete { .. }
                    if matches!(verdict.because, Reason::OverHistoryLimit { .. }) =>
                {
                    first.insert(PRUNES);
                    crons.answered(CallAnswer {
                        key: uid,
                        call,
                        answer: &Answer::Done,
                        now,
                        wake,
                    });
                }
                Call::Patch { patch, .. } => {
                    let Some(next) = patched(&record, patch) else {
                        break;
                    };
                    first.insert(RECORDS);
                    record = Arc::new(next);
                    crons.answered(CallAnswer {
                        key: uid,
                        call,
                        answer: &Answer::Object(record.clone()),
                        now,
                        wake,
                    });
                }
                Call::Delete { .. } => break,
            }
            verdict = crons.decide(uid, now);
        }
        verdict.notes.extend(told);
        (verdict, first)
    }
}

/// A CronJob as it would be after a patch. Nothing if nobody can tell.
fn patched(record: &Record, patch: &Value) -> Option<Record> {
    let mut object = merge::apply(content(record), patch.clone()).ok()?;
    let version = object["metadata"]["resourceVersion"].as_str()?;
    let version: u64 = version.parse().ok()?;
    object["metadata"]["resourceVersion"] = version.checked_add(1)?.to_string().into();
    decode(record.kind, object.to_string().as_bytes(), View::Full).ok()
}

/// Whether a CronJob has to be told by which clocks it runs.
fn needs_zone(record: &Record) -> bool {
    let spec = &content(record)["spec"];
    let schedule = spec["schedule"].as_str().unwrap_or_default();
    let names_one = Schedule::parse(schedule).is_ok_and(|schedule| schedule.zone().is_some());
    spec["timeZone"].is_null() && !names_one && spec["suspend"] != true
}
