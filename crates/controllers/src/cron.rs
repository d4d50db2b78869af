//! Makes Jobs on the schedules of CronJobs: `cronjob-controller`, once for each of two kinds.
//!
//! - [`dialects`]: the kinds, a row each; one implementation is started once per row.
//! - `facts`: what is read in CronJobs and Jobs.
//! - `index`: what is known, Jobs by their owner; `family`: those of one owner, in every order that matters.
//! - `slots`: which slot is due, and the names of Jobs.
//! - `decide`: what follows, one request at a time; `answers`: what is learned from the answers.
//! - `job`: the Job of a slot, or by hand. `status`: what a CronJob's status should say. `words`: Events.
//! - [`reason`]: why, in words. [`metrics`]: what only these controllers count.
//!
//! Mirrors `pkg/controller/cronjob` (1.36) and Volcano's `pkg/controllers/cronjob` (1.15), except for what is marked.
//!
//! **Ticks.** A slot has at most one Job. Its name is the slot's, so it cannot be made twice while it is there; the status
//! tells the slot before anything of ours may delete it; and where it may be gone soon, the CronJob is read right before
//! it is made. The TTL controllers keep to the same rule (`ttl::ticks`).

mod answers;
mod decide;
pub mod dialects;
mod facts;
mod family;
mod index;
mod job;
pub mod metrics;
pub mod reason;
mod slots;
mod status;
mod words;

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

pub use self::dialects::{BATCH, CRON_JOBS, DIALECTS, Dialect, JOBS, VOLCANO};
pub(crate) use self::facts::{cron_job_times, owner};
pub use self::index::Index;
pub use self::job::{Order, of_template};
use self::metrics::SkipCounter;
pub use self::reason::Reason;
pub use self::slots::next as next_slot;
pub(crate) use self::slots::{is_open, named};
use crate::runtime::call::Call;
use crate::runtime::controller::{
    AfterWrite, CallAnswer, Change, Controller, DriverStep, Note, Verdict, Wake,
};
use crate::runtime::feed_set::Interest;
use crate::runtime::metrics::Metrics;
use crate::runtime::record::{Record, Uid, View};

/// A Job that our own code may remove so soon after its slot is no lock: its CronJob is read before it is made.
pub const SWIFT: Duration = Duration::from_secs(120);

/// Makes the Jobs of one kind of CronJobs.
#[derive(Debug)]
pub struct CronJobs {
    index: Index,
    skips: SkipCounter,
}

/// What can be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The zone of schedules that name none.
    pub default_zone: TimeZone,
    /// After how long a Job goes that was aborted. If that is said, aborted Jobs have finished.
    pub after_aborted: Option<Duration>,
}

// === impl Settings ===

impl Default for Settings {
    /// UTC, and aborted Jobs stay.
    fn default() -> Self {
        Self {
            default_zone: TimeZone::UTC,
            after_aborted: None,
        }
    }
}

// === impl Dialect ===

impl Dialect {
    /// What a controller of this kind has to be shown.
    #[must_use]
    pub fn interest(&self) -> Interest {
        let kinds = [CRON_JOBS, JOBS].map(|resource| (self.group.into(), resource.into()));
        Interest::Kinds {
            kinds: kinds.to_vec(),
            view: View::Full,
        }
    }
}

// === impl CronJobs ===

impl CronJobs {
    /// A controller of one kind that knows nothing yet.
    #[must_use]
    pub fn new(row: &'static Dialect, settings: Settings) -> Self {
        Self {
            index: Index::new(row, settings),
            skips: SkipCounter::default(),
        }
    }

    /// What it knows.
    #[must_use]
    pub fn index(&self) -> &Index {
        &self.index
    }
}

impl Controller for CronJobs {
    type Key = Uid;
    type Reason = Reason;

    fn name(&self) -> &'static str {
        self.index.row.name
    }

    fn observe(&mut self, change: &Change, now: Timestamp, wake: &mut Wake<Uid>) {
        let index = &mut self.index;
        match change {
            Change::Applied(record) if index.is_cron(record.kind) => {
                index.apply_cron(record, now, wake);
            }
            Change::Applied(record) if index.is_job(record.kind) => index.apply_job(record, wake),
            Change::Deleted(record) if index.is_cron(record.kind) => {
                index.forget_cron(&record.meta.uid, wake);
            }
            Change::Deleted(record) if index.is_job(record.kind) => {
                index.forget_job(&record.meta.uid, wake);
            }
            // Nothing follows from a CronJob that nobody shows.
            Change::Missing(kind, uid) if index.is_cron(*kind) => index.forget_cron(uid, wake),
            Change::Missing(kind, uid) if index.is_job(*kind) => index.doubt_job(uid, wake),
            Change::Kind(kind, state) => index.know_kind(*kind, *state, wake),
            Change::Catalog(catalog) => index.know_catalog(catalog),
            Change::Applied(_) | Change::Deleted(_) | Change::Missing(..) => {}
        }
    }

    fn decide(&self, uid: &Uid, now: Timestamp) -> Verdict<Uid, Reason> {
        decide::cron_job(&self.index, uid, now)
    }

    fn answered(&mut self, answered: CallAnswer<'_, Uid>) -> Vec<Note> {
        let CallAnswer {
            key: uid,
            call,
            answer,
            now,
            wake,
        } = answered;
        let note = match call {
            Call::Create { .. } => self.created(uid, call, answer, now, wake),
            Call::Patch { .. } => return self.recorded(uid, call, answer, now, wake),
            Call::Delete { .. } => self.deleted(uid, call, answer, now, wake),
            Call::Get { target } if self.index.is_cron(target.kind) => {
                self.confirmed(uid, answer, now, wake);
                None
            }
            Call::Get { .. } => self.found(uid, call, answer, now, wake),
        };
        note.into_iter().collect()
    }

    /// A Job that is late matters more than a status that is.
    fn after_write(&self) -> AfterWrite {
        AfterWrite::EndOfQueue
    }

    fn measure(&mut self, step: &DriverStep<'_, Uid, Reason>, metrics: &Metrics) {
        self.skips.measure(self.index.row, step, metrics);
    }

    fn keys(&self, record: &Record) -> Vec<Uid> {
        if self.index.is_cron(record.kind) {
            return vec![record.meta.uid.clone()];
        }
        let owner = owner(record).filter(|_| self.index.is_job(record.kind));
        owner.map(|owner| owner.uid.clone()).into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
