//! One function per controller that starts it with its flags.

use caretaker_controllers::cron::{CronDialect, CronJobs, CronSettings};
use caretaker_controllers::gc::{self, GarbageCollector};
use caretaker_controllers::podgc::{self, PodGcController};
use caretaker_controllers::runtime::driver::DriverOptions;
use caretaker_controllers::runtime::feed_set::KindInterest;
use caretaker_controllers::runtime::manager::CurrentHandle;
use caretaker_controllers::ttl::metrics::TtlMetrics;
use caretaker_controllers::ttl::{FinishingKind, TtlController, TtlSettings};

use super::launcher::{ControllerLauncher, RunningController};
use crate::args::ResourceName;

/// Upstream's queue that corresponds best to ours: one key per object.
///
/// DEVIATION(gc-one-queue): upstream has two more queues, of observed changes and of owners that orphan their dependents.
const GC_QUEUE: &str = "garbage_collector_attempt_to_delete";

/// Upstream's only queue of Pod GC, which holds names of missing Nodes.
const POD_GC_QUEUE: &str = "orphaned_pods_nodes";

pub(super) fn garbage_collector(
    launcher: &mut ControllerLauncher<'_>,
) -> CurrentHandle<GarbageCollector> {
    let interest = collected_kinds(&launcher.flags.gc_ignored_resources);
    let (workers, seed) = (launcher.flags.concurrent_gc_syncs, launcher.seed);
    let adjust = |options: &mut DriverOptions| {
        options.queue = Some(GC_QUEUE);
        options.workers = workers.into();
    };
    let make = move || GarbageCollector::new(seed);
    launcher.start(gc::NAME, interest, adjust, make)
}

/// The kinds that the garbage collector watches: all that can be deleted, without Events and `ignored`.
pub(crate) fn collected_kinds(ignored: &[ResourceName]) -> KindInterest {
    let named = |(resource, group): (&str, &str)| (resource.into(), group.into());
    let more = ignored
        .iter()
        .map(|name| (name.resource.as_str(), name.group.as_str()));
    KindInterest::Deletable {
        ignored: gc::IGNORED.into_iter().chain(more).map(named).collect(),
    }
}

pub(super) fn pod_gc(launcher: &mut ControllerLauncher<'_>) -> Box<dyn RunningController> {
    let settings = launcher.flags.pod_gc();
    let adjust = |options: &mut DriverOptions| {
        options.queue = Some(POD_GC_QUEUE);
        options.workers = podgc::POD_GC_PARALLEL;
    };
    let make = move || PodGcController::new(settings);
    let current = launcher.start(podgc::NAME, podgc::interest(), adjust, make);
    // Its metrics are counted in `measure`; none is read from its state.
    launcher.running(podgc::NAME, current, |_, _| {})
}

pub(super) fn cron_jobs(
    launcher: &mut ControllerLauncher<'_>,
    row: &'static CronDialect,
    workers: u16,
) -> Box<dyn RunningController> {
    let flags = launcher.flags;
    let settings = CronSettings {
        default_zone: flags.zone.find(),
        after_aborted: flags.retention.ttl_after_aborted,
    };
    let timing = launcher.timing;
    let adjust = |options: &mut DriverOptions| {
        options.queue = row.queue;
        options.workers = workers.into();
        options.timing = timing;
        options.reporter = Some(row.reporter);
    };
    let make = move || CronJobs::new(row, settings.clone());
    let current = launcher.start(row.name, row.interest(), adjust, make);
    // Its metrics are counted in `measure`; none is read from its state.
    launcher.running(row.name, current, |_, _| {})
}

pub(super) fn finished_jobs(
    launcher: &mut ControllerLauncher<'_>,
    row: &'static FinishingKind,
    workers: u16,
) -> Box<dyn RunningController> {
    let zone = launcher.flags.zone.find();
    let rules = TtlSettings {
        after_aborted: launcher.flags.retention.ttl_after_aborted,
        cron_zone: launcher.acts(row.cron_dialect.name).then_some(zone),
    };
    let timing = launcher.timing;
    let adjust = |options: &mut DriverOptions| {
        options.queue = row.queue;
        options.workers = workers.into();
        options.timing = timing;
    };
    let interest = row.interest(&rules);
    let make = move || TtlController::new(row, rules.clone());
    let current = launcher.start(row.name, interest, adjust, make);
    launcher.running(row.name, current, |ttl, metrics| {
        metrics.of::<TtlMetrics>().refresh(ttl);
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use caretaker_controllers::runtime::controller::{Controller as _, ObservedChange, WakeList};
    use caretaker_controllers::runtime::kind::{ApiKind, KindCatalog, KindScope, KindVerbs};
    use caretaker_controllers::runtime::metrics::ControllerMetrics;
    use caretaker_controllers::runtime::record::{RecordView, decode};
    use caretaker_controllers::ttl::KINDS;
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    /// A controller whose catalog holds its kind only.
    fn mk(row: &'static FinishingKind) -> (TtlController, Arc<KindCatalog>) {
        let kind = ApiKind {
            group: row.group.into(),
            version: "v1".into(),
            kind: row.kind.into(),
            resource: row.resource.into(),
            scope: KindScope::Namespaced,
            verbs: KindVerbs {
                get: true,
                list: true,
                watch: true,
                delete: true,
            },
            versions: vec!["v1".into()],
            aliases: Vec::new(),
        };
        let catalog = Arc::new(KindCatalog::default().with([kind]));
        let mut ttl = TtlController::new(row, TtlSettings::default());
        ttl.observe(
            &ObservedChange::Catalog(catalog.clone()),
            Timestamp::UNIX_EPOCH,
            &mut WakeList::default(),
        );
        (ttl, catalog)
    }

    #[test]
    fn ttl_metrics_show_pending_jobs_and_next_expiry() {
        let metrics = ControllerMetrics::new();
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
                Arc::new(decode(kind, job.to_string().as_bytes(), RecordView::Full).unwrap())
            };
            let (early, late) = (job("a", 40), job("b", 140));
            let label = format!("{{controller=\"{}\"}}", row.name);
            // The change, the number of pending Jobs, the first expiry.
            let steps = [
                (ObservedChange::Applied(late.clone()), "1", Some("200")),
                (ObservedChange::Applied(early.clone()), "2", Some("100")),
                (ObservedChange::Deleted(early), "1", Some("200")),
                (ObservedChange::Deleted(late), "0", None),
            ];
            for (change, pending, next) in steps {
                ttl.observe(&change, Timestamp::UNIX_EPOCH, &mut WakeList::default());
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
