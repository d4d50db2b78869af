//! What the TTL controllers decide about a Job: when it goes, and whether it has to wait for its CronJob.
//!
//! As beside them in `caretaker run`: the controller of the CronJobs works in the same process, so that the Job of a slot
//! stays until the CronJob tells that slot. Whether it does is asked for also when the Job's time has not come.

use std::sync::Arc;

use caretaker_controllers::runtime::call::{Call, Propagation};
use caretaker_controllers::runtime::controller::{
    CallAnswer, Change, Controller, Next, Verdict, Wake,
};
use caretaker_controllers::runtime::record::{Record, Uid};
use caretaker_controllers::ttl::{KINDS, Reason, Rules, Ttl};
use jiff::Timestamp;

use super::super::Look;
use super::is_aborted;
use crate::args::Explain;
use crate::output::explained::Opinion;

impl Look {
    /// Nothing if it is nothing that finishes.
    pub(super) async fn opinion_on_job(&self, record: &Record, args: &Explain) -> Option<Opinion> {
        let rules = Rules {
            after_aborted: args.limits.ttl_after_aborted,
            with_cron: true,
        };
        let mut rows = KINDS.into_iter();
        let (row, mut end) = rows.find_map(|row| {
            let end = self.taught(Ttl::new(row, rules));
            (!end.keys(record).is_empty()).then_some((row, end))
        })?;
        let (record, now) = self.whole(record).await?;
        let verdict = end.explain(&record, now)?;
        let over = match verdict.next {
            Next::At(at) => Some(at),
            Next::Call(_) => Some(now),
            _ => None,
        };
        let held = match over {
            Some(over) => self.held(&mut end, &record, over).await,
            None => None,
        };
        let policy = Propagation::Foreground;
        let opinion = match held {
            None => Opinion::of_an_end(end.name(), verdict, policy),
            Some(held) => {
                let condition = condition(&held.because);
                let opinion = match verdict.next {
                    Next::Call(_) => Opinion::of(end.name(), held),
                    _ => Opinion::of_an_end(end.name(), verdict, policy).provided(&condition),
                };
                opinion.assuming([format!("{} works in the same process", row.cron.name)])
            }
        };
        let aborted = is_aborted(&record).then(|| args.limits.of_aborted());
        Some(opinion.assuming(aborted))
    }

    /// What keeps a Job when its time is over, if anything does.
    async fn held(
        &self,
        end: &mut Ttl,
        record: &Arc<Record>,
        over: Timestamp,
    ) -> Option<Verdict<Uid, Reason>> {
        let (uid, wake) = (&record.meta.uid, &mut Wake::default());
        end.observe(&Change::Applied(record.clone()), over, wake);
        let mut verdict = end.decide(uid, over);
        if let Next::Call(call @ Call::Get { target }) = &verdict.next {
            let answer = self.read_whole(target.clone()).await.answer;
            end.answered(CallAnswer {
                key: uid,
                call,
                answer: &answer,
                now: over,
                wake,
            });
            verdict = end.decide(uid, over);
        }
        let is_kept = !matches!(verdict.next, Next::Call(Call::Delete { .. }));
        is_kept.then_some(verdict)
    }
}

/// What has to happen before a Job goes.
fn condition(because: &Reason) -> String {
    match because {
        Reason::TickUnrecorded { cron_job, slot } => {
            format!("the CronJob {cron_job} tells its slot {slot:.0} in its status by then")
        }
        Reason::AsksForCronJob { cron_job } => {
            format!("the CronJob {cron_job}, which cannot be read, is gone or tells its slot then")
        }
        _ => "nothing keeps it then".to_owned(),
    }
}
