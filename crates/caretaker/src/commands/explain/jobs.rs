//! The verdicts about a Job: of the TTL controllers, when it is deleted, and whether it has to wait for its CronJob; and of
//! its CronJob's controller, whose history limits and `Replace` delete it.
//!
//! Assumes that the CronJob controller runs in the same process, as in `caretaker run`: the Job of a schedule time is kept
//! until the CronJob's status has that time. This is checked even if the TTL has not expired.

use std::sync::Arc;

use caretaker_controllers::cron::JOBS;
use caretaker_controllers::cron::explain::OwnedJobReason;
use caretaker_controllers::runtime::call::{ApiCall, DeletePropagation};
use caretaker_controllers::runtime::controller::{
    Controller, NextStep, ObservedChange, Verdict, WakeList,
};
use caretaker_controllers::runtime::record::{ObjectRecord, Uid};
use caretaker_controllers::ttl::{KINDS, TtlController, TtlReason, TtlSettings};
use jiff::Timestamp;

use super::super::ClusterSnapshot;
use super::crons::cron_settings;
use super::{answer_call, is_aborted};
use crate::args::ExplainFlags;
use crate::output::explained::ControllerVerdict;

impl ClusterSnapshot {
    /// `None` for kinds without a TTL.
    pub(super) async fn verdict_on_job(
        &self,
        record: &ObjectRecord,
        args: &ExplainFlags,
    ) -> Option<ControllerVerdict> {
        let rules = TtlSettings {
            after_aborted: args.retention.ttl_after_aborted,
            cron_zone: Some(args.zone.find()),
        };
        let mut rows = KINDS.into_iter();
        let (row, mut end) = rows.find_map(|row| {
            let end = self.with_catalog(TtlController::new(row, rules.clone()));
            (!end.keys(record).is_empty()).then_some((row, end))
        })?;
        let (record, now) = self.full_object(record).await?;
        let verdict = end.explain(&record, now)?;
        let over = match verdict.next {
            NextStep::At(at) => Some(at),
            NextStep::Call(_) => Some(now),
            _ => None,
        };
        let held = match over {
            Some(over) => self.held(&mut end, &record, over).await,
            None => None,
        };
        let policy = Some(DeletePropagation::Foreground);
        let shown = match held {
            None => ControllerVerdict::of_deletion(end.name(), verdict, policy),
            Some(held) => {
                let condition = condition(&held.because);
                let shown = match verdict.next {
                    NextStep::Call(_) => ControllerVerdict::of(end.name(), held),
                    _ => ControllerVerdict::of_deletion(end.name(), verdict, policy)
                        .provided(&condition),
                };
                shown.assuming([format!(
                    "{} runs in the same process",
                    row.cron_dialect.name
                )])
            }
        };
        let aborted = is_aborted(&record).then(|| args.retention.of_aborted());
        Some(shown.assuming(aborted))
    }

    /// What the controller of a Job's CronJob will do with the Job. `None` if no CronJob controls it.
    pub(super) async fn cron_verdict_on_job(
        &mut self,
        record: &ObjectRecord,
        args: &ExplainFlags,
    ) -> Option<ControllerVerdict> {
        let row = self.cron_dialect(record.kind, JOBS)?;
        let mut owners = record.meta.owners.iter();
        let owner = owners.find(|owner| owner.controller == Some(true))?;
        if &*owner.kind != "CronJob" {
            return None;
        }
        let (uid, owner) = (&record.meta.uid, owner.uid.clone());
        let (_, now) = self.full_object(record).await?;
        let settings = cron_settings(args);
        let (crons, _) = self.fill_cron_jobs(row, settings, &owner, now).await;
        let verdict = crons.explain_job(uid, now)?;
        let shown = match verdict.because {
            OwnedJobReason::Replaced { .. } => {
                ControllerVerdict::of_deletion(row.name, verdict, row.propagation)
            }
            _ => ControllerVerdict::of(row.name, verdict),
        };
        Some(shown)
    }

    /// The verdict that keeps the Job after its TTL, if there is one.
    async fn held(
        &self,
        end: &mut TtlController,
        record: &Arc<ObjectRecord>,
        over: Timestamp,
    ) -> Option<Verdict<Uid, TtlReason>> {
        let (uid, wake) = (&record.meta.uid, &mut WakeList::default());
        end.observe(&ObservedChange::Applied(record.clone()), over, wake);
        let mut verdict = end.decide(uid, over);
        if let NextStep::Call(call @ ApiCall::Get { target }) = &verdict.next {
            let answer = self.read_full(target.clone()).await.answer;
            answer_call(end, uid, (call, &answer), over);
            verdict = end.decide(uid, over);
        }
        let is_kept = !matches!(verdict.next, NextStep::Call(ApiCall::Delete { .. }));
        is_kept.then_some(verdict)
    }
}

/// The condition for the deletion of a Job.
fn condition(because: &TtlReason) -> String {
    match because {
        TtlReason::TickUnrecorded { cron_job, slot, .. } => {
            format!("the status of CronJob {cron_job} has the schedule time {slot:.0} by then")
        }
        TtlReason::AsksForCronJob { cron_job } => {
            format!(
                "CronJob {cron_job}, which cannot be read, is gone by then or has the schedule time in its status"
            )
        }
        _ => "no other controller needs it by then".to_owned(),
    }
}
