//! The TTL of Jobs that have finished: `ttl-after-finished-controller` and, for Volcano, `gc-controller`.
//!
//! - [`kinds`]: a row for each kind that finishes. The process starts one controller per row.
//! - `index`: the Jobs that expire, and the few fields that decisions need.
//! - `decide`: the decision for one Job.
//! - `interlock`: Jobs of CronJobs, which stay until their tick is recorded or can no longer be served.
//! - [`reason`]: the reason of each decision. [`metrics`]: the metrics that only these controllers have.
//!
//! Mirrors `pkg/controller/ttlafterfinished` (1.36) and Volcano's `pkg/controllers/garbagecollector`. Both check a Job
//! twice before they delete it, in their cache and with a read from the server.
//!
//! DEVIATION(ttl-one-request): the server makes the second check: the delete has the judged uid and resourceVersion as
//! preconditions. On a conflict the Job is read and judged again. Upstream's delete compares the uid only, so a TTL that
//! is raised between its last two requests is ignored.
//! DEVIATION(ttl-no-first-sync): upstream's workers start when the first list is complete. Here each Job is judged when a
//! page shows it; preconditions make that safe.

mod decide;
mod index;
mod interlock;
pub mod kinds;
pub mod metrics;
pub mod reason;

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use self::index::{ExpiryState, TrackedJob, TtlIndex};
use self::interlock::TickInterlock;
pub use self::kinds::{BATCH, FinishingKind, KINDS, VOLCANO};
pub use self::reason::TtlReason;
use crate::cron::CRON_JOBS;
use crate::runtime::call::ApiAnswer;
use crate::runtime::controller::{
    AnsweredCall, Controller, DriverStep, EventNote, ObservedChange, Verdict, WakeList,
};
use crate::runtime::feed_set::KindInterest;
use crate::runtime::kind::{KindId, KindState};
use crate::runtime::metrics::ControllerMetrics;
use crate::runtime::record::{ObjectRecord, Uid};

/// Deletes the finished Jobs of one kind when their TTL has expired.
#[derive(Debug)]
pub struct TtlController {
    row: &'static FinishingKind,
    settings: TtlSettings,
    /// The id of its kind, once discovery has found it.
    kind: Option<KindId>,
    index: TtlIndex,
}

/// The settings of a TTL controller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TtlSettings {
    /// How long after its abort an aborted Job is deleted; `None` keeps aborted Jobs. A longer TTL of the Job wins.
    pub after_aborted: Option<Duration>,
    /// The zone of schedules without `timeZone`, if the CronJob controller of the same dialect runs and writes in this
    /// process too.
    pub cron_zone: Option<TimeZone>,
}

/// The Jobs that wait for their expiry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PendingJobs {
    pub count: usize,
    /// The earliest expiry.
    pub next_expiry: Option<Timestamp>,
}

// === impl TtlController ===

impl TtlController {
    /// Creates a controller of one kind with an empty index.
    #[must_use]
    pub fn new(row: &'static FinishingKind, settings: TtlSettings) -> Self {
        let interlock = TickInterlock::new(row.cron_dialect, settings.cron_zone.clone());
        Self {
            row,
            settings,
            kind: None,
            index: TtlIndex::new(interlock),
        }
    }

    /// The number of Jobs that wait for their expiry. Scans all tracked Jobs.
    #[must_use]
    pub fn pending(&self) -> PendingJobs {
        self.index.pending()
    }

    /// The decision about an object as it is, also if the index would not track it. `None` for objects of other kinds.
    #[must_use]
    pub fn explain(
        &self,
        record: &ObjectRecord,
        now: Timestamp,
    ) -> Option<Verdict<Uid, TtlReason>> {
        let state = decide::judge_expiry(self.row, &self.settings, record);
        let (uid, job) = (&record.meta.uid, TrackedJob::of(record, state));
        self.is_ours(record)
            .then(|| decide::decide_job(self.row, uid, &job, now))
    }

    fn is_ours(&self, record: &ObjectRecord) -> bool {
        self.kind == Some(record.kind)
    }

    fn is_cron_job(&self, kind: KindId) -> bool {
        self.index.interlock.is_cron_job(kind)
    }

    /// Applies the answer to a read of the CronJob that created a Job.
    fn apply_cron_job_answer(&mut self, uid: &Uid, answer: &ApiAnswer, wake: &mut WakeList<Uid>) {
        let job = self.index.get(uid);
        let tick = job.and_then(|job| job.tick.as_ref());
        match answer {
            ApiAnswer::Object(record) if tick.is_some_and(|tick| tick.owner == record.meta.uid) => {
                self.index.interlock.apply(record, wake);
            }
            // The CronJob is gone, or another one has its name.
            ApiAnswer::Object(_) | ApiAnswer::Absent(_) => self.index.release_tick(uid),
            ApiAnswer::Page(_) | ApiAnswer::Done | ApiAnswer::Failed(_) => {}
        }
    }

    fn apply(&mut self, record: &ObjectRecord, now: Timestamp, wake: &mut WakeList<Uid>) {
        let state = decide::judge_expiry(self.row, &self.settings, record);
        if let ExpiryState::Timed(end) = &state
            && end.finish > now
        {
            tracing::warn!(
                controller = self.row.name,
                job = format!("{}/{}", record.meta.namespace, record.meta.name),
                finish = %end.finish,
                "its finish time is in the future, so its deletion is delayed by the difference"
            );
        }
        self.index.apply(record, state, wake);
    }
}

impl Controller for TtlController {
    type Key = Uid;
    type Reason = TtlReason;

    fn name(&self) -> &'static str {
        self.row.name
    }

    fn observe(&mut self, change: &ObservedChange, now: Timestamp, wake: &mut WakeList<Uid>) {
        match change {
            ObservedChange::Applied(record) if self.is_ours(record) => {
                self.apply(record, now, wake);
            }
            ObservedChange::Applied(record) if self.is_cron_job(record.kind) => {
                self.index.interlock.apply(record, wake);
            }
            ObservedChange::Deleted(record) if self.is_cron_job(record.kind) => {
                for job in self.index.interlock.forget(&record.meta.uid, wake) {
                    self.index.release_tick(&job);
                }
            }
            ObservedChange::Deleted(record) => self.index.forget(&record.meta.uid, wake),
            // The CronJob is read from the server before its Jobs are deleted.
            ObservedChange::Missing(kind, uid) if self.is_cron_job(*kind) => {
                self.index.interlock.forget(uid, wake);
            }
            // A relist did not show the Job, so it is not deleted.
            ObservedChange::Missing(_, uid) => self.index.forget(uid, wake),
            // The kind is no longer served, or the store was restored. A full list comes before the next decision.
            ObservedChange::Kind(kind, KindState::Gone | KindState::Frozen)
                if self.kind == Some(*kind) =>
            {
                self.index.clear(wake);
            }
            ObservedChange::Kind(kind, state) if self.is_cron_job(*kind) => {
                self.index.interlock.set_kind_state(*state, wake);
            }
            ObservedChange::Catalog(catalog) => {
                self.index.interlock.set_catalog(catalog, wake);
                self.kind = catalog.id(self.row.group, self.row.resource);
            }
            ObservedChange::Applied(_)
            | ObservedChange::Kind(..)
            | ObservedChange::Progress(..) => {}
        }
    }

    fn decide(&self, uid: &Uid, now: Timestamp) -> Verdict<Uid, TtlReason> {
        decide::decide_tracked(self.row, &self.index, uid, now)
    }

    fn answered(&mut self, answered: AnsweredCall<'_, Uid>) -> Vec<EventNote> {
        let (uid, call, wake) = (answered.key, answered.call, answered.wake);
        if self.is_cron_job(call.target().kind) {
            self.apply_cron_job_answer(uid, answered.answer, wake);
            return Vec::new();
        }
        match answered.answer {
            ApiAnswer::Object(record) if record.meta.uid == *uid && call.is_read() => {
                // Only a feed adds a Job to the index.
                if self.index.get(uid).is_some() {
                    self.apply(record, answered.now, wake);
                }
            }
            ApiAnswer::Object(record) if record.meta.uid == *uid => {
                self.index.mark_going(uid, Some(&record.meta.revision));
            }
            // The Job is gone, or another one has its name. Its feed will show the DELETED event.
            ApiAnswer::Object(_) | ApiAnswer::Absent(_) => self.index.mark_going(uid, None),
            ApiAnswer::Done if !call.is_read() => self.index.mark_going(uid, None),
            ApiAnswer::Page(_) | ApiAnswer::Done | ApiAnswer::Failed(_) => {}
        }
        Vec::new()
    }

    fn measure(&mut self, step: &DriverStep<'_, Uid, TtlReason>, metrics: &ControllerMetrics) {
        metrics::measure(self, step, metrics);
    }

    fn keys(&self, record: &ObjectRecord) -> Vec<Uid> {
        let uid = self.is_ours(record).then(|| record.meta.uid.clone());
        uid.into_iter().collect()
    }
}

// === impl FinishingKind ===

impl FinishingKind {
    /// The kinds that a controller of this row watches.
    #[must_use]
    pub fn interest(&self, settings: &TtlSettings) -> KindInterest {
        let cron_jobs = (self.cron_dialect.group, CRON_JOBS);
        let cron_jobs = settings.cron_zone.as_ref().map(|_| cron_jobs);
        KindInterest::full([(self.group, self.resource)].into_iter().chain(cron_jobs))
    }
}

#[cfg(test)]
mod tests;
