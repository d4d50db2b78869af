//! The controllers of one process with everything they share: watches, Events, evidence, metrics and the summary on stderr.
//!
//! `up`, `run` and `demo` start the same set; they differ in the API server and in what may be written. A controller is
//! a function in `builders` and a row in [`BUILDERS`]. Only the garbage collector is known by name, because diagnostics
//! query its graph. [`ControllerSet::stop`] waits for the requests under way.

mod builders;
mod diagnostics;
mod health;
mod launcher;

use std::sync::Arc;
use std::time::Duration;

use caretaker_controllers::cron;
use caretaker_controllers::gc::metrics::GcMetrics;
use caretaker_controllers::gc::view::{GraphSelection, GraphView};
use caretaker_controllers::gc::{GarbageCollector, IndexCoverage};
use caretaker_controllers::runtime::clients::ClusterClients;
use caretaker_controllers::runtime::driver::DriverMode;
use caretaker_controllers::runtime::driver::clock_skew::TimeSource;
use caretaker_controllers::runtime::effects::ClientRateLimit;
use caretaker_controllers::runtime::events::EventSink;
use caretaker_controllers::runtime::evidence::{Evidence, EvidenceTrail};
use caretaker_controllers::runtime::feed_set::{FeedSet, FeedSetOptions};
use caretaker_controllers::runtime::kind::KindState;
use caretaker_controllers::runtime::lease::{LeaseElection, LeaseParts, LeaseTask};
use caretaker_controllers::runtime::manager::{ControllerManager, CurrentHandle, SharedParts};
use caretaker_controllers::runtime::metrics::ControllerMetrics;
use caretaker_controllers::runtime::record::Uid;
use caretaker_controllers::ttl;
use caretaker_machinery::clock::{Clock, SteadyTime};
use caretaker_machinery::rng::Rng;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub(crate) use self::builders::collected_kinds;
use self::diagnostics::ControllerDiagnostics;
use self::launcher::{ControllerLauncher, RunningController};
use crate::admin::DiagnosticsSource;
use crate::args::{
    BATCH_CRON, BATCH_TTL, ControllerFlags, GARBAGE_COLLECTOR, POD_GC, VOLCANO_CRON, VOLCANO_TTL,
};
use crate::output::summary::ActionSummary;
use crate::peers::{PeerWatch, ServerContact};
use crate::wiring::notice;

/// Starts one controller with its flags.
type ControllerBuilder = fn(&mut ControllerLauncher<'_>) -> Box<dyn RunningController>;

/// All controllers but the garbage collector, by their name in `--controllers`.
const BUILDERS: [(&str, ControllerBuilder); 5] = [
    (BATCH_CRON, |launcher| {
        let workers = launcher.flags.concurrent_cron_job_syncs;
        builders::cron_jobs(launcher, &cron::BATCH, workers)
    }),
    (VOLCANO_CRON, |launcher| {
        let workers = launcher.flags.worker_threads_for_cronjob;
        builders::cron_jobs(launcher, &cron::VOLCANO, workers)
    }),
    (BATCH_TTL, |launcher| {
        let workers = launcher.flags.ttl_workers();
        builders::finished_jobs(launcher, &ttl::BATCH, workers)
    }),
    (VOLCANO_TTL, |launcher| {
        let workers = launcher.flags.worker_threads_for_gc;
        builders::finished_jobs(launcher, &ttl::VOLCANO, workers)
    }),
    (POD_GC, builders::pod_gc),
];

/// Interval at which [`ControllerSet::ready`] checks whether all kinds are listed.
const SYNC_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Time to write the last Events after the controllers have stopped: Events are best effort, and a process that was
/// asked to stop should not wait for a server that does not answer.
const EVENTS_STOP_MAX: Duration = Duration::from_secs(1);

/// Time that the summary task gets to print its last lines after the controllers have stopped. Only a reader of stderr
/// that stalls needs it.
const SUMMARY_STOP_MAX: Duration = Duration::from_secs(1);

pub(crate) struct ControllerSetOptions<'a> {
    pub(crate) clients: ClusterClients,
    pub(crate) clock: Clock,
    pub(crate) rng: Rng,
    pub(crate) flags: &'a ControllerFlags,
    /// Limit on requests per second, if there is one.
    pub(crate) limit: Option<ClientRateLimit>,
    pub(crate) mode: DriverMode,
    /// The looks at other controller managers, which hold back writes while one of them is active.
    pub(crate) peers: Option<&'a PeerWatch>,
    pub(crate) timing: TimeSource,
    /// This replica in the election of a leader; `None` if it is the only one.
    pub(crate) election: Option<LeaseElection>,
}

/// Holds the running controllers and the tasks beside them.
pub(crate) struct ControllerSet {
    manager: ControllerManager,
    diagnostics: Arc<ControllerDiagnostics>,
    feeds: FeedSet,
    /// `None` if the garbage collector is off.
    collector: Option<CurrentHandle<GarbageCollector>>,
    clock: Clock,
    /// Tasks that are aborted at the stop.
    background: Vec<JoinHandle<()>>,
    /// Writes Events; it ends when all controllers and the election have ended.
    recorder: JoinHandle<()>,
    summary: Option<SummaryTask>,
    evidence: EvidenceTrail,
    lease: Option<LeaseTask>,
}

/// Prints summary lines until it is stopped.
struct SummaryTask {
    /// Dropped in order to stop the task after the records that were written so far.
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

// === impl ControllerSet ===

impl ControllerSet {
    /// Starts the controllers that the flags enable. Must be called inside a tokio runtime.
    pub(crate) fn start(options: ControllerSetOptions<'_>) -> Self {
        let ControllerSetOptions {
            clients,
            clock,
            mut rng,
            flags,
            limit,
            mode,
            peers,
            timing,
            election,
        } = options;
        let metrics = start_metrics(&clients);
        let evidence = EvidenceTrail::new();
        let seed = rng.u64();
        let feeds = start_feeds(&clients, &clock, rng, &metrics);
        // The driver of a dry run drops Events: an Event is a write, too.
        let (events, recorder) = EventSink::new(clients.requests(), clock.clone(), metrics.clone());
        let recorder = tokio::spawn(recorder.run());
        let rediscovery =
            peers.map(|peers| tokio::spawn(rediscover(peers.contact(), feeds.clone())));
        let parts = SharedParts {
            client: clients.requests(),
            feeds: feeds.clone(),
            clock: clock.clone(),
            events,
            evidence: evidence.clone(),
            metrics: metrics.clone(),
            limit,
        };
        let lease = election.map(|election| start_election(election, clients.lease(), &parts));
        let mut manager = ControllerManager::new(parts);
        let (collector, controllers) = launch(&mut ControllerLauncher {
            manager: &mut manager,
            flags,
            mode,
            peers,
            lease: lease.as_ref().map(LeaseTask::hold),
            timing,
            seed,
        });
        let diagnostics = ControllerDiagnostics {
            feeds: feeds.clone(),
            metrics,
            evidence: evidence.clone(),
            controllers,
            collector: collector.clone(),
            mode,
            clock: clock.clone(),
            contact: peers.map(PeerWatch::contact),
            clients,
        };
        let mut set = Self {
            manager,
            diagnostics: Arc::new(diagnostics),
            feeds,
            collector,
            clock,
            background: rediscovery.into_iter().collect(),
            recorder,
            summary: None,
            evidence,
            lease,
        };
        if !flags.quiet {
            set.print_summary();
        }
        set
    }

    /// Prints summary lines on stderr from now on.
    pub(crate) fn print_summary(&mut self) {
        let records = self.evidence.subscribe();
        self.summary.get_or_insert_with(|| {
            let (stop, stopped) = oneshot::channel();
            let task = tokio::spawn(print_summary(records, stopped, self.clock.clone()));
            SummaryTask { stop, task }
        });
    }

    /// Prints one line on stderr when every kind is listed or cannot be listed.
    pub(crate) fn announce_sync(&mut self) {
        if let Some(collector) = &self.collector {
            let announcement = announce_sync(self.feeds.clone(), collector.clone());
            self.background.push(tokio::spawn(announcement));
        }
    }

    pub(crate) fn evidence(&self) -> EvidenceTrail {
        self.evidence.clone()
    }

    /// Returns when the garbage collector has every kind that can be listed; at once if it is off.
    pub(crate) async fn ready(&self) {
        if let Some(collector) = &self.collector {
            wait_for_sync(&self.feeds, collector).await;
        }
    }

    /// The watches, which simulated workloads share.
    pub(crate) fn feeds(&self) -> FeedSet {
        self.feeds.clone()
    }

    /// The data source of the admin server.
    pub(crate) fn diagnostics(&self) -> Arc<dyn DiagnosticsSource> {
        self.diagnostics.clone()
    }

    /// Whether the garbage collector's graph holds these uids. Its watches lag a moment behind the API server.
    pub(crate) async fn has_seen(&self, uids: &[&str]) -> bool {
        let Some(collector) = &self.collector else {
            return true;
        };
        let Some(handle) = collector.borrow().clone() else {
            return false;
        };
        let part = GraphSelection::Above(uids.iter().map(|uid| Uid::from(*uid)).collect());
        let view = handle.query(move |collector, _| GraphView::of(collector.index(), &part));
        let view = view.await.unwrap_or_default();
        let is_shown = |uid: &&str| {
            let mut nodes = view.nodes.iter();
            nodes.any(|node| node.uid == **uid && !node.r#virtual)
        };
        uids.iter().all(is_shown)
    }

    /// Stops the controllers after their requests under way, then prints the remaining summary lines.
    pub(crate) async fn stop(self) {
        self.manager.stop().await;
        if let Some(lease) = self.lease {
            lease.release().await;
        }
        for task in self.background {
            task.abort();
        }
        let recorder = self.recorder.abort_handle();
        if timeout(EVENTS_STOP_MAX, self.recorder).await.is_err() {
            recorder.abort();
        }
        if let Some(SummaryTask { stop, task }) = self.summary {
            drop(stop);
            let _ = timeout(SUMMARY_STOP_MAX, task).await;
        }
    }
}

fn start_metrics(clients: &ClusterClients) -> ControllerMetrics {
    let metrics = ControllerMetrics::new();
    caretaker_controllers::register_metrics(&metrics);
    clients.register_metrics(&metrics);
    metrics
}

fn start_feeds(
    clients: &ClusterClients,
    clock: &Clock,
    rng: Rng,
    metrics: &ControllerMetrics,
) -> FeedSet {
    let options = FeedSetOptions {
        metrics: metrics.clone(),
        ..FeedSetOptions::default()
    };
    FeedSet::start(clients.watches(), clock.clone(), rng, options)
}

fn start_election(election: LeaseElection, client: kube::Client, parts: &SharedParts) -> LeaseTask {
    let parts = LeaseParts {
        client,
        clock: parts.clock.clone(),
        metrics: parts.metrics.clone(),
        events: parts.events.clone(),
        announce: notice,
    };
    LeaseTask::start(election, parts)
}

/// Starts every enabled controller. The garbage collector's handle is also returned by itself.
fn launch(
    launcher: &mut ControllerLauncher<'_>,
) -> (
    Option<CurrentHandle<GarbageCollector>>,
    Vec<Box<dyn RunningController>>,
) {
    let flags = launcher.flags;
    let collector = flags
        .runs(GARBAGE_COLLECTOR)
        .then(|| builders::garbage_collector(launcher));
    let mut controllers: Vec<Box<dyn RunningController>> = Vec::new();
    if let Some(post) = collector.clone() {
        let update = |collector: &GarbageCollector, metrics: &ControllerMetrics| {
            metrics.of::<GcMetrics>().refresh(collector);
        };
        controllers.push(launcher.running(GARBAGE_COLLECTOR, post, update));
    }
    let enabled = BUILDERS.iter().filter(|(name, _)| flags.runs(name));
    controllers.extend(enabled.map(|(_, build)| build(launcher)));
    (collector, controllers)
}

/// Runs discovery as soon as the server answers again, whatever its backoff is.
async fn rediscover(mut contact: watch::Receiver<ServerContact>, feeds: FeedSet) {
    let mut had_trouble = false;
    while contact.changed().await.is_ok() {
        let is_well = *contact.borrow_and_update() == ServerContact::Answers;
        if is_well && had_trouble {
            feeds.refresh();
        }
        had_trouble = !is_well;
    }
}

async fn announce_sync(feeds: FeedSet, collector: CurrentHandle<GarbageCollector>) {
    let known = wait_for_sync(&feeds, &collector).await;
    notice(&format!(
        "the graph is complete: {} objects of {} kinds",
        known.objects, known.kinds
    ));
}

/// Waits until every kind is listed or cannot be listed, and the garbage collector has processed the lists.
async fn wait_for_sync(
    feeds: &FeedSet,
    collector: &CurrentHandle<GarbageCollector>,
) -> IndexCoverage {
    let is_listed = || {
        let states = feeds.states();
        let is_pending = |state: &KindState| matches!(state, KindState::Syncing(_));
        !states.is_empty() && !states.iter().any(|(_, state)| is_pending(state))
    };
    loop {
        let handle = collector.borrow().clone();
        if is_listed()
            && let Some(handle) = handle
            && let Some(known) = handle
                .query(|collector, _| collector.index().coverage())
                .await
            && known.pending == 0
        {
            return known;
        }
        tokio::time::sleep(SYNC_CHECK_INTERVAL).await;
    }
}

/// Prints summary lines on stderr until `stopped` is ready and all records have been read.
async fn print_summary(
    mut records: broadcast::Receiver<Arc<Evidence>>,
    mut stopped: oneshot::Receiver<()>,
    clock: Clock,
) {
    let mut summary = ActionSummary::default();
    loop {
        let due = summary.due();
        tokio::select! {
            biased;
            record = records.recv() => match record {
                Ok(record) => print_lines(summary.add(&record, clock.steady())),
                // The summary misses these records; `/debug/actions` and metrics have them.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => break,
            },
            () = sleep_until(&clock, due) => {}
            // The admin server holds the evidence for as long as it serves, so its end does not show.
            _ = &mut stopped => break,
        }
        print_lines(summary.take_due(clock.steady()));
    }
    print_lines(summary.finish());
}

/// Returns at `due` or earlier.
async fn sleep_until(clock: &Clock, due: Option<SteadyTime>) {
    match due {
        Some(due) => clock.sleep_until_steady(due).await,
        None => std::future::pending().await,
    }
}

fn print_lines(lines: impl IntoIterator<Item = String>) {
    for line in lines {
        notice(&line);
    }
}
