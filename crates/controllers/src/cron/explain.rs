//! What the controller will do with one Job of a CronJob, for `caretaker explain`: history limits and the concurrency policy.
//!
//! Decisions are made about CronJobs and delete Jobs on the way. This is the same decision, seen from one Job.

use jiff::Timestamp;

use super::facts::{ConcurrencyPolicy, JobProgress};
use super::index::{CronIndex, CronState};
use super::owned_jobs::OwnedJob;
use super::slot_keeper::SlotKeeper;
use super::{CronJobs, status};
use crate::runtime::call::{ApiCall, JudgedVersion};
use crate::runtime::controller::{DecisionReason, NextStep, Verdict};
use crate::runtime::record::Uid;

/// Why the controller of a CronJob deletes or keeps one of its Jobs. thiserror formats the sentences, although no reason is
/// an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OwnedJobReason {
    #[error("not all CronJobs and Jobs are known")]
    Unlisted,
    #[error("it is being deleted already")]
    Deleting,
    #[error(
        "its CronJob {cron_job} keeps only {kept} {which} Jobs, and {younger} are younger than it"
    )]
    OverHistoryLimit {
        cron_job: String,
        kept: usize,
        /// `successful` or `failed`.
        which: &'static str,
        younger: usize,
    },
    #[error(
        "it is over a history limit, but it stays until the status of CronJob {cron_job} records its slot {slot:.0}"
    )]
    KeptForSlot { cron_job: String, slot: Timestamp },
    #[error("its CronJob {cron_job} keeps {kept} {which} Jobs, and {younger} are younger than it")]
    WithinHistoryLimit {
        cron_job: String,
        kept: usize,
        /// `successful` or `failed`.
        which: &'static str,
        younger: usize,
    },
    #[error("its CronJob {cron_job} keeps all {which} Jobs")]
    NoHistoryLimit {
        cron_job: String,
        /// `successful`, `failed` or `aborted`.
        which: &'static str,
    },
    #[error("it still runs, and the concurrency policy of its CronJob {cron_job} is Replace")]
    Replaced { cron_job: String },
    #[error("slots of its CronJob {cron_job} wait until it ends: the concurrency policy is Forbid")]
    Blocks { cron_job: String },
    #[error("its CronJob {cron_job} starts other Jobs beside it: the concurrency policy is Allow")]
    RunsBeside { cron_job: String },
    #[error("a user started it, so its CronJob {cron_job} neither replaces it nor waits for it")]
    StartedByHand { cron_job: String },
}

// === impl OwnedJobReason ===

impl DecisionReason for OwnedJobReason {
    fn rule(&self) -> &'static str {
        match self {
            Self::Unlisted => "Unlisted",
            Self::Deleting => "Deleting",
            Self::OverHistoryLimit { .. } => "OverHistoryLimit",
            Self::KeptForSlot { .. } => "TickUnrecorded",
            Self::WithinHistoryLimit { .. } => "WithinHistoryLimit",
            Self::NoHistoryLimit { .. } => "NoHistoryLimit",
            Self::Replaced { .. } => "Replaced",
            Self::Blocks { .. } => "Blocks",
            Self::RunsBeside { .. } => "RunsBeside",
            Self::StartedByHand { .. } => "StartedByHand",
        }
    }
}

// === impl CronJobs ===

impl CronJobs {
    /// What the controller will do with a Job. `None` if no CronJob controls the Job.
    #[must_use]
    pub fn explain_job(&self, uid: &Uid, now: Timestamp) -> Option<Verdict<Uid, OwnedJobReason>> {
        let index = &self.index;
        if !index.is_complete() {
            return Some(Verdict::new(NextStep::Rest, OwnedJobReason::Unlisted));
        }
        let owner = index.owner_of(uid)?;
        let (cron, job) = (index.cron(owner)?, index.job(owner, uid)?);
        if job.is_deleting || job.is_going {
            return Some(Verdict::new(NextStep::Rest, OwnedJobReason::Deleting));
        }
        let (next, because) = match index.has_finished(job) {
            true => finished(index, (owner, cron), (uid, job), now),
            false => running(index, (owner, cron), uid, now),
        };
        Some(Verdict::new(next, because))
    }
}

fn finished(
    index: &CronIndex,
    (owner, cron): (&Uid, &CronState),
    (uid, job): (&Uid, &OwnedJob),
    now: Timestamp,
) -> (NextStep<Uid>, OwnedJobReason) {
    let cron_job = cron.name.to_string();
    let (which, kept) = match job.facts.outcome {
        JobProgress::Succeeded => ("successful", cron.spec.succeeded_kept),
        JobProgress::Failed => ("failed", cron.spec.failed_kept),
        JobProgress::Aborted | JobProgress::Unfinished => ("aborted", None),
    };
    let Some(kept) = kept else {
        let because = OwnedJobReason::NoHistoryLimit { cron_job, which };
        return (NextStep::Rest, because);
    };
    let jobs = index.jobs_of(owner);
    let younger = jobs.map_or(0, |jobs| jobs.younger(job.facts.outcome, uid));
    if younger < kept {
        let because = OwnedJobReason::WithinHistoryLimit {
            cron_job,
            kept,
            which,
            younger,
        };
        return (NextStep::Rest, because);
    }
    let slot = cron.unrecorded_tick(job, now);
    let hold = slot.and_then(|slot| SlotKeeper::of(cron, &index.settings).hold(slot, now));
    if let Some(hold) = hold {
        let next = hold.until.map_or(NextStep::Rest, NextStep::At);
        let slot = hold.slot;
        return (next, OwnedJobReason::KeptForSlot { cron_job, slot });
    }
    let because = OwnedJobReason::OverHistoryLimit {
        cron_job,
        kept,
        which,
        younger,
    };
    let delete = index.target_of_job(cron, &job.name).map(|target| {
        NextStep::Call(ApiCall::Delete {
            target,
            judged: JudgedVersion::new(uid, &job.revision),
            propagation: index.row.propagation,
            grace_secs: None,
        })
    });
    (delete.unwrap_or(NextStep::Rest), because)
}

fn running(
    index: &CronIndex,
    (owner, cron): (&Uid, &CronState),
    uid: &Uid,
    now: Timestamp,
) -> (NextStep<Uid>, OwnedJobReason) {
    let cron_job = cron.name.to_string();
    let mut counted = status::running(index, owner, cron, now);
    if !counted.any(|(known, _)| known == uid) {
        return (NextStep::Rest, OwnedJobReason::StartedByHand { cron_job });
    }
    match cron.spec.policy {
        ConcurrencyPolicy::Replace => {
            let is_scheduled = !cron.spec.is_suspended && !cron.is_deleting;
            let next = cron.next(&index.settings, now).filter(|_| is_scheduled);
            let next = next.map_or(NextStep::Rest, NextStep::At);
            (next, OwnedJobReason::Replaced { cron_job })
        }
        ConcurrencyPolicy::Forbid => (NextStep::Rest, OwnedJobReason::Blocks { cron_job }),
        ConcurrencyPolicy::Allow => (NextStep::Rest, OwnedJobReason::RunsBeside { cron_job }),
    }
}
