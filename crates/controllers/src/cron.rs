//! Creates Jobs on the schedules of CronJobs: `cronjob-controller`, started once for each of two kinds.
//!
//! - [`dialects`]: the two kinds, a row each.
//! - `facts`: the parts of CronJobs and Jobs that the controller reads.
//! - `index`: all CronJobs, and their Jobs by owner; `owned_jobs`: the Jobs of one owner; `memory`: what answers revealed.
//! - `slots`: the slot that is due, and the Job of a slot or of `caretaker schedule run`; `slot_keeper`: how long the Job of
//!   a slot is kept.
//! - `decide`: the next request; `answers`: what an answer changes; `status`: the status as it should be.
//! - [`explain`]: what the controller will do with one Job, for `caretaker explain`.
//! - [`reason`]: the reason of each decision; `event_texts`: the Events of both originals. [`metrics`]: counters of these
//!   controllers.
//!
//! Mirrors `pkg/controller/cronjob` (1.36) and Volcano's `pkg/controllers/cronjob` (1.15), except for what is marked.
//!
//! **Ticks.** A slot has at most one Job. The Job is named after the slot, so the API server refuses a second one while the
//! first exists. The status records the slot before any controller of ours may delete that Job; until then it is an
//! *unrecorded tick*. A slot that can no longer be served needs no record. Where the Job may be deleted soon, the CronJob is read right before the create. The TTL controllers
//! keep to the same rule (`ttl::interlock`).

mod answers;
mod decide;
pub mod dialects;
mod event_texts;
pub mod explain;
mod facts;
mod index;
mod memory;
pub mod metrics;
mod owned_jobs;
pub mod reason;
mod slot_keeper;
mod slots;
mod status;

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

pub use self::dialects::{BATCH, CRON_JOBS, CronDialect, DIALECTS, JOBS, VOLCANO};
pub(crate) use self::facts::{JobProgress, owner, slot_of_job};
pub use self::index::CronIndex;
use self::metrics::SkipCounter;
pub use self::reason::CronReason;
pub(crate) use self::slot_keeper::{SlotHold, SlotKeeper};
pub use self::slots::{JobOrder, next as next_slot, of_template};
use crate::runtime::call::ApiCall;
use crate::runtime::controller::{
    AfterWrite, AnsweredCall, Controller, DriverStep, EventNote, ObservedChange, Verdict, WakeList,
};
use crate::runtime::feed_set::KindInterest;
use crate::runtime::metrics::ControllerMetrics;
use crate::runtime::record::{ObjectRecord, Uid};

/// A Job that our TTL or history pruning may delete within this time cannot serve as the mark that its slot is taken: the
/// CronJob is read before the Job is created.
pub const SHORT_LIVED: Duration = Duration::from_secs(120);

/// The controller of one kind of CronJobs.
#[derive(Debug)]
pub struct CronJobs {
    index: CronIndex,
    skips: SkipCounter,
}

/// Flags that concern CronJobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronSettings {
    /// The zone of schedules without `timeZone`.
    pub default_zone: TimeZone,
    /// The TTL of aborted Jobs. If it is set, an aborted Job counts as finished.
    pub after_aborted: Option<Duration>,
}

// === impl CronSettings ===

impl Default for CronSettings {
    /// UTC, and aborted Jobs stay.
    fn default() -> Self {
        Self {
            default_zone: TimeZone::UTC,
            after_aborted: None,
        }
    }
}

// === impl CronDialect ===

impl CronDialect {
    /// The kinds that the controller watches.
    #[must_use]
    pub fn interest(&self) -> KindInterest {
        KindInterest::full([(self.group, CRON_JOBS), (self.group, JOBS)])
    }
}

// === impl CronJobs ===

impl CronJobs {
    /// A controller with an empty index.
    #[must_use]
    pub fn new(row: &'static CronDialect, settings: CronSettings) -> Self {
        Self {
            index: CronIndex::new(row, settings),
            skips: SkipCounter::default(),
        }
    }

    /// The index, for diagnostics.
    #[must_use]
    pub fn index(&self) -> &CronIndex {
        &self.index
    }
}

impl Controller for CronJobs {
    type Key = Uid;
    type Reason = CronReason;

    fn name(&self) -> &'static str {
        self.index.row.name
    }

    fn observe(&mut self, change: &ObservedChange, now: Timestamp, wake: &mut WakeList<Uid>) {
        let index = &mut self.index;
        match change {
            ObservedChange::Applied(record) if index.is_cron(record.kind) => {
                index.apply_cron(record, now, wake);
            }
            ObservedChange::Applied(record) if index.is_job(record.kind) => {
                index.apply_job(record, wake);
            }
            ObservedChange::Deleted(record) if index.is_cron(record.kind) => {
                index.forget_cron(&record.meta.uid, wake);
            }
            ObservedChange::Deleted(record) if index.is_job(record.kind) => {
                index.forget_job(&record.meta.uid, wake);
            }
            // A CronJob that a list did not show gets no request.
            ObservedChange::Missing(kind, uid) if index.is_cron(*kind) => {
                index.forget_cron(uid, wake);
            }
            ObservedChange::Missing(kind, uid) if index.is_job(*kind) => index.doubt_job(uid, wake),
            ObservedChange::Kind(kind, state) => index.know_kind(*kind, *state, wake),
            ObservedChange::Catalog(catalog) => index.know_catalog(catalog),
            ObservedChange::Applied(_)
            | ObservedChange::Deleted(_)
            | ObservedChange::Missing(..)
            | ObservedChange::Progress(..) => {}
        }
    }

    fn decide(&self, uid: &Uid, now: Timestamp) -> Verdict<Uid, CronReason> {
        decide::cron_job(&self.index, uid, now)
    }

    fn answered(&mut self, answered: AnsweredCall<'_, Uid>) -> Vec<EventNote> {
        let note = match answered.call {
            ApiCall::Create { .. } => self.created(answered),
            ApiCall::Patch { .. } => return self.recorded(answered),
            ApiCall::Delete { .. } => self.deleted(answered),
            ApiCall::Get { target } if self.index.is_cron(target.kind) => {
                self.confirmed(answered);
                None
            }
            ApiCall::Get { .. } | ApiCall::GetInVersion { .. } | ApiCall::List { .. } => {
                self.found(answered)
            }
        };
        note.into_iter().collect()
    }

    /// A Job that is late matters more than a status that is.
    fn after_write(&self) -> AfterWrite {
        AfterWrite::EndOfQueue
    }

    fn measure(&mut self, step: &DriverStep<'_, Uid, CronReason>, metrics: &ControllerMetrics) {
        self.skips.measure(self.index.row, step, metrics);
    }

    fn keys(&self, record: &ObjectRecord) -> Vec<Uid> {
        if self.index.is_cron(record.kind) {
            return vec![record.meta.uid.clone()];
        }
        let owner = owner(record).filter(|_| self.index.is_job(record.kind));
        owner.map(|owner| owner.uid.clone()).into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
