//! The two CronJob controllers in the crew: one implementation, started once per kind of CronJob.

use caretaker_controllers::cron::{BATCH, CronJobs, Dialect, Settings, VOLCANO};
use caretaker_controllers::runtime::driver::Options;

use super::member::{Hiring, Member, member};

/// Starts the one of `batch/v1`.
pub(super) fn batch(hiring: &mut Hiring<'_>) -> Box<dyn Member> {
    let workers = hiring.work.concurrent_cron_job_syncs;
    start(hiring, &BATCH, workers)
}

/// Starts the one of Volcano.
pub(super) fn volcano(hiring: &mut Hiring<'_>) -> Box<dyn Member> {
    let workers = hiring.work.worker_threads_for_cronjob;
    start(hiring, &VOLCANO, workers)
}

fn start(hiring: &mut Hiring<'_>, row: &'static Dialect, workers: u16) -> Box<dyn Member> {
    let work = hiring.work;
    let settings = Settings {
        default_zone: work.zone.find(),
        after_aborted: work.limits.ttl_after_aborted,
    };
    let timing = hiring.timing;
    let shape = |options: &mut Options| {
        options.queue = row.queue;
        options.workers = workers.into();
        options.timing = timing;
        options.reporter = Some(row.reporter);
    };
    let make = move || CronJobs::new(row, settings.clone());
    let post = hiring.start(row.name, row.interest(), shape, make);
    // The driver counts what it does.
    member(row.name, post, |_, _| {})
}
