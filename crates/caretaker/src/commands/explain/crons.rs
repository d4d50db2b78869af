//! What the CronJob controllers decide about a CronJob: its next slot, and why the last one has no Job.
//!
//! It is learned anew for this, with the Jobs there are. What only the controller at work knows, that a slot's name is
//! somebody else's, is not known here.

use caretaker_controllers::cron::{CronJobs, DIALECTS, Dialect, Settings};
use caretaker_controllers::gc::ORPHAN_HOLD_MAX;
use caretaker_controllers::runtime::controller::{Change, Controller, Wake};
use caretaker_controllers::runtime::record::Record;
use tokio::time::{Instant, sleep_until};

use super::super::Look;
use crate::output::explained::Opinion;
use crate::wiring;

impl Look {
    /// Nothing if it is no CronJob.
    pub(super) async fn opinion_on_cron_job(&mut self, record: &Record) -> Option<Opinion> {
        let kind = self.catalog.get(record.kind)?;
        let mut rows = DIALECTS.into_iter();
        let row = rows.find(|row| *kind.group == *row.group && &*kind.kind == "CronJob")?;
        let crons = self.learn_cron_jobs(row).await;
        let uid = record.meta.uid.clone();
        let verdict = crons.decide(&uid, self.clock.now());
        Some(Opinion::of(row.name, verdict))
    }

    async fn learn_cron_jobs(&mut self, row: &'static Dialect) -> CronJobs {
        let settings = Settings {
            default_zone: wiring::local_zone(),
            ..Settings::default()
        };
        let mut crons = CronJobs::new(row, settings);
        let catalog = Change::Catalog(self.catalog.clone());
        crons.observe(&catalog, self.clock.now(), &mut Wake::default());
        let mut changes = self.feeds.subscribe(row.interest());
        let deadline = Instant::now() + ORPHAN_HOLD_MAX;
        while !crons.index().is_complete() {
            let change = tokio::select! {
                biased;
                change = changes.recv() => change,
                // Somebody who does not listen would hold up the feeds.
                Some(_) = self.changes.recv() => continue,
                // What is not known then is said.
                () = sleep_until(deadline) => None,
            };
            let Some(change) = change else {
                break;
            };
            crons.observe(&change, self.clock.now(), &mut Wake::default());
        }
        crons
    }
}
