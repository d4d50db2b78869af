//! The two TTL controllers in the crew: one implementation, started once per kind of Job.

use caretaker_controllers::runtime::driver::Options;
use caretaker_controllers::ttl::metrics::TtlMetrics;
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
    let shape = |options: &mut Options| {
        options.queue = row.queue;
        options.workers = workers.into();
        options.timing = timing;
    };
    let make = move || Ttl::new(row, rules);
    let post = hiring.start(row.name, row.interest(rules), shape, make);
    member(row.name, post, |ttl, metrics| {
        metrics.of::<TtlMetrics>().refresh(ttl);
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use caretaker_controllers::runtime::controller::{Change, Controller as _, Wake};
    use caretaker_controllers::runtime::kind::{Catalog, Kind, Scope, Verbs};
    use caretaker_controllers::runtime::metrics::Metrics;
    use caretaker_controllers::runtime::record::{View, decode};
    use caretaker_controllers::ttl::KINDS;
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    /// A controller that knows its kind, and nothing else there is.
    fn mk(row: &'static Finishing) -> (Ttl, Arc<Catalog>) {
        let kind = Kind {
            group: row.group.into(),
            version: "v1".into(),
            kind: row.kind.into(),
            resource: row.resource.into(),
            scope: Scope::Namespaced,
            verbs: Verbs {
                get: true,
                list: true,
                watch: true,
                delete: true,
            },
            versions: vec!["v1".into()],
            aliases: Vec::new(),
        };
        let catalog = Arc::new(Catalog::default().with([kind]));
        let mut ttl = Ttl::new(row, Rules::default());
        ttl.observe(
            &Change::Catalog(catalog.clone()),
            Timestamp::UNIX_EPOCH,
            &mut Wake::default(),
        );
        (ttl, catalog)
    }

    #[test]
    fn how_many_jobs_wait_and_for_when_is_shown_for_each_controller() {
        let metrics = Metrics::new();
        for row in KINDS {
            let (mut ttl, catalog) = mk(row);
            let kind = catalog.id(row.group, row.resource).unwrap();
            let at = "1970-01-01T00:01:00Z";
            let job = |uid: &str, ttl_secs: i64| {
                let conditions =
                    json!([{"type": "Complete", "status": "True", "lastTransitionTime": at}]);
                let state = json!({"phase": "Completed", "lastTransitionTime": at});
                let job = json!({"metadata": {"name": uid, "namespace": "n", "uid": uid, "resourceVersion": "1"},
                    "spec": {"ttlSecondsAfterFinished": ttl_secs},
                    "status": {"conditions": conditions, "state": state}});
                Arc::new(decode(kind, job.to_string().as_bytes(), View::Full).unwrap())
            };
            let (early, late) = (job("a", 40), job("b", 140));
            let label = format!("{{controller=\"{}\"}}", row.name);
            // What happens, then how many wait and when the first of them goes.
            let story = [
                (Change::Applied(late.clone()), "1", Some("200")),
                (Change::Applied(early.clone()), "2", Some("100")),
                (Change::Deleted(early), "1", Some("200")),
                (Change::Deleted(late), "0", None),
            ];
            for (change, pending, next) in story {
                ttl.observe(&change, Timestamp::UNIX_EPOCH, &mut Wake::default());
                metrics.of::<TtlMetrics>().refresh(&ttl);
                let page = metrics.encode();
                let shown = |name: &str| {
                    let prefix = format!("{name}{label} ");
                    page.lines()
                        .find_map(|line| line.strip_prefix(prefix.as_str()))
                };
                assert_eq!(shown("caretaker_ttl_pending"), Some(pending), "{page}");
                assert_eq!(
                    shown("caretaker_ttl_next_expiry_timestamp_seconds"),
                    next,
                    "{page}"
                );
            }
        }
    }
}
