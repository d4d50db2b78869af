//! The task that owns discovery and decides which feeds run.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use caretaker_machinery::clock::Clock;
use caretaker_machinery::rng::Rng;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::super::controller::ObservedChange;
use super::super::discovery::{DiscoveryReader, DiscoveryResult, merge};
use super::super::feed::{FeedCommand, FeedSetup, FeedTask};
use super::super::kind::{ApiKind, KindCatalog, KindId};
use super::super::record::RecordView;
use super::super::report_interval::ReportInterval;
use super::subscription::{self, FeedPlan, RunningFeed};
use super::{FeedSetOptions, FeedStates, KindInterest};

// DEVIATION(discovery-at-once): upstream looks every 30 s only. A new kind's objects may have owners from the first
// moment on, and a user who has just created a definition should not have to wait.

/// From a request for discovery to its start, so that changes that come together cost one discovery.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// A requested discovery starts no sooner after the last one than this many times its duration: with thousands of kinds
/// it is expensive, and definitions may change all the time.
const COST_FACTOR: u32 = 4;
/// Servers show a new kind a moment after its definition: a requested discovery is repeated after this.
const FOLLOW_UP: Duration = Duration::from_secs(2);
/// The pause after a round that could not read a root; it doubles up to the period of discovery.
const FAILED_RETRY: Duration = Duration::from_secs(1);
/// The pause while parts of discovery cannot be read. The collector holds owners in orphan deletion meanwhile.
const GAP_RETRY: Duration = Duration::from_secs(5);
/// How long kinds may take to sync before it counts as an error, as upstream.
const SYNC_WAIT: Duration = Duration::from_secs(30);

/// Objects of these define kinds: group and resource.
const DEFINITIONS: [(&str, &str); 2] = [
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("apiregistration.k8s.io", "apiservices"),
];

/// A command of [`super::FeedSet`].
pub(super) enum SetCommand {
    Subscribe(KindInterest, mpsc::Sender<ObservedChange>),
    Stop(oneshot::Sender<()>),
}

/// Owns discovery, the tasks of the feeds and those of the subscriptions.
pub(super) struct FeedCoordinator {
    client: kube::Client,
    clock: Clock,
    rng: Rng,
    options: FeedSetOptions,
    states: Arc<FeedStates>,
    /// Counts generations of feeds and subscribers.
    number: u64,
    catalog: Arc<KindCatalog>,
    publish: watch::Sender<Arc<KindCatalog>>,
    plan: watch::Sender<Arc<FeedPlan>>,
    subscribers: BTreeMap<u64, KindInterest>,
    subscriptions: JoinSet<u64>,
    feeds: BTreeMap<KindId, WatchedKind>,
    /// Feeds that have to end and have not ended yet. Their kinds are not watched anew before that.
    leaving: BTreeSet<KindId>,
    tasks: JoinSet<KindId>,
    /// The kind and the generation of each feed's task.
    task_kinds: BTreeMap<Id, (KindId, u64)>,
    /// The generation of each kind's feed that crashed last.
    crashed: BTreeMap<KindId, u64>,
    discovery: DiscoverySchedule,
    /// Rounds in a row that could not read a root.
    failed_rounds: u32,
    reports: ReportInterval,
    /// The time by which all kinds should have synced.
    synced_by: Option<Instant>,
}

/// A kind with a running feed.
struct WatchedKind {
    running: RunningFeed,
    version: Box<str>,
    view: RecordView,
}

/// A discovery that has begun. Returns the reader for the next round, and what was found; nothing if nothing changed.
type DiscoveryRun =
    Pin<Box<dyn Future<Output = (DiscoveryReader, Option<DiscoveryResult>)> + Send>>;

/// When discovery runs.
struct DiscoverySchedule {
    /// Taken by the running discovery.
    reader: DiscoveryReader,
    running: Option<(Instant, DiscoveryRun)>,
    due: Instant,
    /// Whether one is requested that has not begun.
    is_requested: bool,
    /// Whether the last one that began was requested.
    was_requested: bool,
    /// A requested discovery does not begin before this.
    not_before: Instant,
}

// === impl FeedCoordinator ===

impl FeedCoordinator {
    pub(super) fn new(
        client: kube::Client,
        clock: Clock,
        rng: Rng,
        options: FeedSetOptions,
        publish: watch::Sender<Arc<KindCatalog>>,
        states: Arc<FeedStates>,
    ) -> Self {
        let now = Instant::now();
        Self {
            client,
            clock,
            rng,
            options,
            states,
            number: 0,
            catalog: Arc::default(),
            publish,
            plan: watch::Sender::default(),
            subscribers: BTreeMap::new(),
            subscriptions: JoinSet::new(),
            feeds: BTreeMap::new(),
            leaving: BTreeSet::new(),
            tasks: JoinSet::new(),
            task_kinds: BTreeMap::new(),
            crashed: BTreeMap::new(),
            discovery: DiscoverySchedule {
                reader: DiscoveryReader::default(),
                running: None,
                due: now,
                is_requested: false,
                was_requested: false,
                not_before: now,
            },
            failed_rounds: 0,
            reports: ReportInterval::default(),
            synced_by: None,
        }
    }

    /// Runs until it is stopped or all its handles are gone.
    pub(super) async fn run(mut self, mut commands: mpsc::UnboundedReceiver<SetCommand>) {
        loop {
            let discovery = &mut self.discovery;
            let (is_idle, due) = (discovery.running.is_none(), discovery.due);
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    Some(SetCommand::Subscribe(interest, sender)) => self.subscribe(interest, sender),
                    Some(SetCommand::Stop(done)) => {
                        self.stop().await;
                        // The caller may have stopped waiting.
                        let _ = done.send(());
                        return;
                    }
                    None => return self.stop().await,
                },
                Some(ended) = self.subscriptions.join_next() => self.unsubscribe(ended.ok()),
                Some(ended) = self.tasks.join_next_with_id() => self.feed_ended(&ended),
                found = discovery.finished() => self.found(found),
                () = self.states.discovery_requested() => self.discovery.request(),
                () = sleep_until(due), if is_idle => {
                    self.discovery.begin(self.client.clone());
                }
                () = at(self.synced_by) => self.check_sync(),
            }
        }
    }

    /// Ends all tasks and waits for them.
    async fn stop(mut self) {
        self.subscriptions.shutdown().await;
        self.tasks.shutdown().await;
    }

    fn subscribe(&mut self, interest: KindInterest, sender: mpsc::Sender<ObservedChange>) {
        self.number += 1;
        self.subscribers.insert(self.number, interest.clone());
        // The feeds start first, so that the first plan of the subscription has all of them, in the right view.
        self.reconcile();
        let plan = self.plan.subscribe();
        let (number, clock) = (self.number, self.clock.clone());
        let subscription = subscription::run(number, interest, sender, clock, plan);
        self.subscriptions.spawn(subscription);
    }

    /// A subscriber is gone. One whose task panicked cannot be identified; its feeds run on.
    fn unsubscribe(&mut self, subscriber: Option<u64>) {
        if let Some(number) = subscriber {
            self.subscribers.remove(&number);
            self.reconcile();
        }
    }

    fn feed_ended(&mut self, ended: &Result<(Id, KindId), JoinError>) {
        let (id, is_crash) = match ended {
            Ok((id, _)) => (*id, false),
            Err(error) => (error.id(), true),
        };
        let Some((kind, generation)) = self.task_kinds.remove(&id) else {
            return;
        };
        self.leaving.remove(&kind);
        if is_crash {
            // The feed starts again with the next round of discovery and not at once, because the cause is still there.
            let name = self.catalog.get(kind).map(ToString::to_string);
            let name = name.unwrap_or_else(|| "(not served)".to_owned());
            tracing::error!(
                kind = name,
                "feed panicked; it restarts after the next discovery"
            );
            self.feeds.remove(&kind);
            self.crashed.insert(kind, generation);
            self.states.forget(kind);
            self.states.count_sync_error();
            self.publish_plan();
        } else {
            self.reconcile();
        }
    }

    /// Takes the result of a round; nothing if the kinds are those of the last round.
    fn found(&mut self, (found, took): (Option<DiscoveryResult>, Duration)) {
        match found {
            Some(found) => self.accept_round(&found),
            None => {
                self.report(None, false);
                self.reconcile();
            }
        }
        let every = self.options.discovery_every;
        let gap_retry = match self.catalog.gaps().is_empty() {
            true => every,
            false => GAP_RETRY.min(every),
        };
        let pause = match self.failed_rounds {
            0 => gap_retry,
            failed => FAILED_RETRY
                .saturating_mul(1 << (failed - 1).min(10))
                .min(gap_retry),
        };
        self.discovery.pause(pause, took);
    }

    fn accept_round(&mut self, found: &DiscoveryResult) {
        let has_failed = found.failed.core || found.failed.groups || found.kinds.is_empty();
        let error = found.error.as_ref().map(ToString::to_string);
        let error = error.or_else(|| has_failed.then(|| "the server names no kinds".to_owned()));
        self.report(error, has_failed);
        match merge(found, &self.catalog, |id| self.states.has_synced(id)) {
            Some(kinds) => {
                let gaps = found.failed.unknown(&kinds, &self.catalog);
                self.accept(self.catalog.with(kinds).with_gaps(gaps));
            }
            None => self.states.count_sync_error(),
        }
    }

    /// Logs what a round could not read, and counts rounds that could not read a root.
    fn report(&mut self, error: Option<String>, has_failed: bool) {
        self.failed_rounds = match has_failed {
            true => self.failed_rounds.saturating_add(1),
            false => 0,
        };
        let trouble = error.clone().filter(|_| has_failed);
        self.states.set_discovery(trouble, self.clock.now());
        match error {
            None if self.reports.clear() => tracing::info!("discovery is complete again"),
            None => {}
            Some(error) if !self.reports.is_due(&error, Instant::now()) => {
                tracing::debug!(error, "discovery failed again");
            }
            Some(error) if has_failed => {
                tracing::warn!(
                    error,
                    "discovery failed; keeping the known kinds and retrying"
                );
            }
            Some(error) => {
                tracing::warn!(
                    error,
                    "discovery is incomplete; keeping the kinds of missing groups"
                );
            }
        }
    }

    fn accept(&mut self, next: KindCatalog) {
        if next.gaps() != self.catalog.gaps() && !next.gaps().is_empty() {
            let missing = next.gaps().join(", ");
            tracing::warn!(missing, "kinds that the server may have are not watched");
        }
        if next != *self.catalog {
            self.catalog = Arc::new(next);
            self.publish.send_replace(self.catalog.clone());
            self.synced_by = Some(Instant::now() + SYNC_WAIT);
        }
        self.reconcile();
    }

    /// Whether no discovery has succeeded yet.
    fn is_blank(&self) -> bool {
        *self.catalog == KindCatalog::default()
    }

    /// Upstream counts one error per change of the kinds after which not all of them sync in time.
    fn check_sync(&mut self) {
        self.synced_by = None;
        if !self.feeds.keys().all(|id| self.states.is_synced(*id)) {
            self.states.count_sync_error();
        }
    }

    /// Starts, changes and ends feeds as the subscriptions need them, then publishes them to the subscriptions.
    fn reconcile(&mut self) {
        let catalog = self.catalog.clone();
        let mut wanted: BTreeMap<KindId, (&ApiKind, RecordView)> = BTreeMap::new();
        for (id, kind) in catalog.iter() {
            let views = self
                .subscribers
                .values()
                .filter_map(|interest| interest.view(kind));
            if let Some(view) = views.max() {
                wanted.insert(id, (kind, view));
            }
        }
        let unwanted = self.feeds.extract_if(.., |id, _| !wanted.contains_key(id));
        for (id, watched) in unwanted {
            // A feed that has ended by itself needs no command.
            let _ = watched.running.commands.send(FeedCommand::Leave);
            self.leaving.insert(id);
        }
        for (id, (kind, view)) in wanted {
            match self.feeds.get_mut(&id) {
                Some(watched) => watched.follow(kind, view),
                None if self.leaving.contains(&id) => {}
                None => self.start(id, kind, view),
            }
        }
        self.publish_plan();
    }

    /// Publishes the running feeds to the subscriptions.
    fn publish_plan(&self) {
        let feeds = self.feeds.iter();
        let plan = FeedPlan {
            catalog: (!self.is_blank()).then(|| self.catalog.clone()),
            feeds: feeds
                .map(|(id, watched)| (*id, watched.running.clone()))
                .collect(),
            crashed: self.crashed.clone(),
        };
        self.plan.send_replace(Arc::new(plan));
    }

    fn start(&mut self, id: KindId, kind: &ApiKind, view: RecordView) {
        self.number += 1;
        let (commands, received) = mpsc::unbounded_channel();
        let name = (&*kind.group, &*kind.resource);
        let setup = FeedSetup {
            id,
            kind: kind.clone(),
            view,
            client: self.client.clone(),
            metrics: self.options.metrics.clone(),
            clock: self.clock.clone(),
            rng: self.rng.fork(),
            states: self.states.clone(),
            defines_kinds: DEFINITIONS.contains(&name),
        };
        let task = self.tasks.spawn(FeedTask::new(setup, received).run());
        self.task_kinds.insert(task.id(), (id, self.number));
        let watched = WatchedKind {
            running: RunningFeed {
                generation: self.number,
                commands,
            },
            version: kind.version.clone(),
            view,
        };
        self.feeds.insert(id, watched);
    }
}

// === impl WatchedKind ===

impl WatchedKind {
    /// Requests another version or a fuller view, if that is wanted now. The view never shrinks, because that would cost
    /// a list.
    fn follow(&mut self, kind: &ApiKind, view: RecordView) {
        let view = view.max(self.view);
        if self.version == kind.version && self.view == view {
            return;
        }
        self.version = kind.version.clone();
        self.view = view;
        let reset = FeedCommand::Reset(Box::new(kind.clone()), view);
        // A feed that has just ended is started again when its task is joined.
        let _ = self.running.commands.send(reset);
    }
}

// === impl DiscoverySchedule ===

impl DiscoverySchedule {
    fn begin(&mut self, client: kube::Client) {
        self.was_requested = std::mem::take(&mut self.is_requested);
        let mut reader = std::mem::take(&mut self.reader);
        let run = async move {
            let found = reader.round(&client).await;
            (reader, found)
        };
        self.running = Some((Instant::now(), Box::pin(run)));
    }

    /// Waits for the current round, and returns its result and duration; pending for ever if no round is running. May be
    /// cancelled and called again.
    async fn finished(&mut self) -> (Option<DiscoveryResult>, Duration) {
        let Some((began, discovery)) = &mut self.running else {
            return std::future::pending().await;
        };
        let (reader, found) = discovery.await;
        let took = began.elapsed();
        self.reader = reader;
        self.running = None;
        (found, took)
    }

    /// Sets when to begin again.
    fn pause(&mut self, pause: Duration, took: Duration) {
        let now = Instant::now();
        self.not_before = now + took * COST_FACTOR;
        let pause = match self.was_requested {
            true => FOLLOW_UP.min(pause),
            false => pause,
        };
        self.due = now + pause;
        // The discovery that has just ended may have begun before the change that the request is about.
        if self.is_requested {
            self.request();
        }
    }

    /// The kinds may have changed: run soon.
    fn request(&mut self) {
        let soon = (Instant::now() + DEBOUNCE).max(self.not_before);
        self.due = self.due.min(soon);
        self.is_requested = true;
    }
}

/// Sleeps until a time; for ever if there is none.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
