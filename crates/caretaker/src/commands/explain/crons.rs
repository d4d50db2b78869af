//! What the CronJob controllers decide about a CronJob: its next slot, and why the last one has no Job.
//!
//! It is learned anew for this, with the Jobs there are, and by the server's time. Before it is said that a Job would be
//! made, whoever has its name is asked for: the controller would learn by trying that it is somebody else's.

use caretaker_controllers::cron::{CronJobs, DIALECTS, Dialect, Reason, Settings};
use caretaker_controllers::runtime::call::{Answer, Call};
use caretaker_controllers::runtime::controller::{Change, Controller, Next, Verdict, Wake};
use caretaker_controllers::runtime::record::{Record, Uid};
use caretaker_machinery::cron::Schedule;
use jiff::Timestamp;

use super::super::Look;
use super::super::schedule::name;
use super::{content, is_aborted};
use crate::args::Explain;
use crate::output::explained::Opinion;

/// Questions about one CronJob: itself, and the name of its Job.
const QUESTIONS_MAX: usize = 2;

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
        let verdict = self.judge_cron_job(&mut crons, uid, now).await;
        Some(Opinion::of(row.name, verdict).assuming(assumed))
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

    /// Asks what the controller would ask, or find out by writing.
    async fn judge_cron_job(
        &self,
        crons: &mut CronJobs,
        uid: &Uid,
        now: Timestamp,
    ) -> Verdict<Uid, Reason> {
        let mut told = Vec::new();
        let mut verdict = crons.decide(uid, now);
        for _ in 0..QUESTIONS_MAX {
            let Next::Call(Call::Get { target } | Call::Create { target, .. }) = &verdict.next
            else {
                break;
            };
            let call = Call::Get {
                target: target.clone(),
            };
            let answer = self.read_whole(target.clone()).await.answer;
            if matches!(answer, Answer::Failed(_)) {
                break;
            }
            told.extend(crons.answered(uid, &call, &answer, now, &mut Wake::default()));
            verdict = crons.decide(uid, now);
        }
        verdict.notes.extend(told);
        verdict
    }
}

/// Whether a CronJob has to be told by which clocks it runs.
fn needs_zone(record: &Record) -> bool {
    let spec = &content(record)["spec"];
    let schedule = spec["schedule"].as_str().unwrap_or_default();
    let names_one = Schedule::parse(schedule).is_ok_and(|schedule| schedule.zone().is_some());
    spec["timeZone"].is_null() && !names_one && spec["suspend"] != true
}
