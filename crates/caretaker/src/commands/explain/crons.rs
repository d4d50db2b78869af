//! The verdict of the CronJob controllers about a CronJob: its next time, and why the last time has no Job.
//!
//! A new controller gets the CronJob and its Jobs, with the server's time. Before a create, an existing Job of that name is
//! read, which the controller would discover as a 409. Writes that come before the schedule is considered are named and
//! assumed to succeed.

use std::collections::BTreeSet;
use std::sync::Arc;

use caretaker_controllers::cron::{
    CRON_JOBS, CronDialect, CronJobs, CronReason, CronSettings, DIALECTS,
};
use caretaker_controllers::runtime::call::{ApiAnswer, ApiCall};
use caretaker_controllers::runtime::controller::{
    Controller, NextStep, ObservedChange, Verdict, WakeList,
};
use caretaker_controllers::runtime::kind::KindId;
use caretaker_controllers::runtime::record::{ObjectRecord, RecordView, Uid, decode};
use caretaker_machinery::cron::CronSchedule;
use caretaker_machinery::patch::merge;
use jiff::Timestamp;
use serde_json::Value;

use super::super::ClusterSnapshot;
use super::super::schedule::name;
use super::{answer_call, content, is_aborted};
use crate::args::ExplainFlags;
use crate::output::explained::ControllerVerdict;

/// Limit of decisions for one CronJob: reads, Jobs over the history limits, status updates.
const STEPS_MAX: usize = 200;

/// Writes before the schedule is considered.
const PRUNES: &str = "would delete Jobs over its history limits";
const RECORDS: &str = "would update its status";

impl ClusterSnapshot {
    /// `None` for other kinds.
    pub(super) async fn verdict_on_cron_job(
        &mut self,
        record: &ObjectRecord,
        args: &ExplainFlags,
    ) -> Option<ControllerVerdict> {
        let row = self.cron_dialect(record.kind, CRON_JOBS)?;
        let (record, now) = self.full_object(record).await?;
        let uid = &record.meta.uid;
        let settings = cron_settings(args);
        let mut assumed = Vec::new();
        if needs_zone(&record) {
            let zone = name(&settings.default_zone);
            assumed.push(format!("--default-time-zone={zone}"));
        }
        let (mut crons, has_aborted) = self.fill_cron_jobs(row, settings, uid, now).await;
        if has_aborted {
            assumed.push(args.retention.of_aborted());
        }
        let (verdict, first) = self.judge_cron_job(&mut crons, &record, now).await;
        let verdict = ControllerVerdict::of(row.name, verdict).assuming(assumed);
        Some(verdict.after(first))
    }

    /// The row of CronJobs or of their Jobs, whichever `resource` is; `None` for other kinds.
    pub(super) fn cron_dialect(
        &self,
        kind: KindId,
        resource: &str,
    ) -> Option<&'static CronDialect> {
        let kind = self
            .catalog
            .get(kind)
            .filter(|kind| *kind.resource == *resource)?;
        DIALECTS.into_iter().find(|row| *row.group == *kind.group)
    }

    /// A controller with all CronJobs and Jobs, and whether a Job of this CronJob was aborted.
    pub(super) async fn fill_cron_jobs(
        &mut self,
        row: &'static CronDialect,
        settings: CronSettings,
        uid: &Uid,
        now: Timestamp,
    ) -> (CronJobs, bool) {
        let mut crons = self.with_catalog(CronJobs::new(row, settings));
        let mut has_aborted = false;
        let observe = |change: &ObservedChange| {
            if let ObservedChange::Applied(job) = change {
                let is_its = job.meta.owners.iter().any(|owner| owner.uid == *uid);
                has_aborted |= is_its && is_aborted(job);
            }
            crons.observe(change, now, &mut WakeList::default());
            crons.index().is_complete()
        };
        self.feed(row.interest(), observe).await;
        (crons, has_aborted)
    }

    /// Sends the reads, reads the Job of a create, and assumes that writes before it succeed. Returns these writes, too.
    async fn judge_cron_job(
        &self,
        crons: &mut CronJobs,
        record: &Arc<ObjectRecord>,
        now: Timestamp,
    ) -> (Verdict<Uid, CronReason>, BTreeSet<&'static str>) {
        let (mut record, uid) = (record.clone(), &record.meta.uid);
        let (mut asked, mut notes, mut first) = (BTreeSet::new(), Vec::new(), BTreeSet::new());
        let mut verdict = crons.decide(uid, now);
        for _ in 0..STEPS_MAX {
            let NextStep::Call(call) = &verdict.next else {
                break;
            };
            match call {
                ApiCall::Get { target } | ApiCall::Create { target, .. } => {
                    let target = target.clone();
                    if !asked.insert(target.clone()) {
                        break;
                    }
                    let answer = self.read_full(target.clone()).await.answer;
                    if matches!(answer, ApiAnswer::Failed(_)) {
                        break;
                    }
                    let read = ApiCall::Get { target };
                    notes.extend(answer_call(crons, uid, (&read, &answer), now));
                }
                ApiCall::Delete { .. }
                    if matches!(verdict.because, CronReason::OverHistoryLimit { .. }) =>
                {
                    first.insert(PRUNES);
                    answer_call(crons, uid, (call, &ApiAnswer::Done), now);
                }
                ApiCall::Patch { patch, .. } => {
                    let Some(next) = patched(&record, patch) else {
                        break;
                    };
                    first.insert(RECORDS);
                    record = Arc::new(next);
                    let answer = ApiAnswer::Object(record.clone());
                    answer_call(crons, uid, (call, &answer), now);
                }
                ApiCall::Delete { .. } | ApiCall::GetInVersion { .. } | ApiCall::List { .. } => {
                    break;
                }
            }
            verdict = crons.decide(uid, now);
        }
        verdict.notes.extend(notes);
        (verdict, first)
    }
}

/// The settings of the CronJob controllers as far as flags give them.
pub(super) fn cron_settings(args: &ExplainFlags) -> CronSettings {
    CronSettings {
        default_zone: args.zone.find(),
        after_aborted: args.retention.ttl_after_aborted,
    }
}

/// The CronJob after a patch; `None` if the patch does not apply.
fn patched(record: &ObjectRecord, patch: &Value) -> Option<ObjectRecord> {
    let mut object = merge::apply(content(record), patch.clone()).ok()?;
    let version = object["metadata"]["resourceVersion"].as_str()?;
    let version: u64 = version.parse().ok()?;
    object["metadata"]["resourceVersion"] = version.checked_add(1)?.to_string().into();
    decode(record.kind, object.to_string().as_bytes(), RecordView::Full).ok()
}

/// Whether the schedule of a CronJob depends on `--default-time-zone`.
fn needs_zone(record: &ObjectRecord) -> bool {
    let spec = &content(record)["spec"];
    let schedule = spec["schedule"].as_str().unwrap_or_default();
    let names_one = CronSchedule::parse(schedule).is_ok_and(|schedule| schedule.zone().is_some());
    spec["timeZone"].is_null() && !names_one && spec["suspend"] != true
}
