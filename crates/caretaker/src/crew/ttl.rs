//! The two TTL controllers in the crew: one implementation, started once per kind of Job.

use caretaker_controllers::runtime::controller::Controller as _;
use caretaker_controllers::runtime::driver::Options;
use caretaker_controllers::runtime::metrics::{ControllerLabel, Families};
use caretaker_controllers::ttl::{BATCH, Finishing, Rules, Ttl, VOLCANO};

use super::member::{Hiring, Member, member};

/// Starts the one of `batch/v1`.
pub(super) fn batch(hiring: &mut Hiring<'_>) -> Box<dyn Member> {
    let workers = hiring.work.ttl_workers();
    start(hiring, &BATCH, workers)
}

/// Starts the one of Volcano.
pub(super) fn volcano(hiring: &mut Hiring<'_>) -> Box<dyn Member> {
    let workers = hiring.work.worker_threads_for_gc;
    start(hiring, &VOLCANO, workers)
}

fn start(hiring: &mut Hiring<'_>, row: &'static Finishing, workers: u16) -> Box<dyn Member> {
    let rules = Rules {
        after_aborted: hiring.work.limits.ttl_after_aborted,
        with_cron: hiring.acts(row.cron.name),
    };
    let timing = hiring.timing;
    let lateness = (row.lateness)(hiring.metrics.families()).clone();
    let shape = |options: &mut Options| {
        options.queue = row.queue;
        options.workers = workers.into();
        options.timing = timing;
        options.lateness = Some(lateness);
    };
    let make = move || Ttl::new(row, rules);
    let post = hiring.start(row.name, row.interest(rules), shape, make);
    member(row.name, post, count)
}

/// How many Jobs have a time to go, and when the first of them does.
fn count(ttl: &Ttl, families: &Families) {
    let label = ControllerLabel {
        controller: ttl.name(),
    };
    let pending = ttl.pending();
    let count = i64::try_from(pending.count).unwrap_or(i64::MAX);
    families.ttl_pending.get_or_create(&label).set(count);
    match pending.next {
        Some(next) => {
            let gauge = families.ttl_next_expiry.get_or_create(&label);
            gauge.set(next.as_second());
        }
        None => drop(families.ttl_next_expiry.remove(&label)),
    }
}
