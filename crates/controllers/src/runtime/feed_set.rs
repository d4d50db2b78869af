//! One feed per kind, for all controllers of the process.
//!
//! A subscriber names the kinds it wants and gets a channel of changes: the catalog first, then for each kind `Syncing`,
//! its objects, `Synced`, and all later changes. A kind is watched once for all subscribers, in full if one of them wants
//! full objects. Discovery runs every half minute, and at once when a CustomResourceDefinition or an APIService changes or
//! a kind turns out not to be served. Mirrors the monitors of upstream's collector (1.36), except that a kind that is not
//! served any more is not watched any more.

mod coordinator;
mod feed_states;
mod subscription;

use std::sync::Arc;
use std::time::Duration;

use caretaker_machinery::clock::Clock;
use caretaker_machinery::rng::Rng;
use tokio::sync::{mpsc, oneshot, watch};

use super::controller::ObservedChange;
use super::kind::{ApiKind, KindCatalog, KindId, KindState};
use super::metrics::ControllerMetrics;
use super::record::RecordView;
use coordinator::{FeedCoordinator, SetCommand};

pub(crate) use feed_states::{FeedStates, ServerTrouble};

/// How many changes a subscriber may be behind before feeds wait for it: a few turns of a driver.
const CHANGES_AHEAD: usize = 1024;

/// All feeds of the process. Clones share them; when the last one is dropped, all feeds end.
#[derive(Clone)]
pub struct FeedSet {
    commands: mpsc::UnboundedSender<SetCommand>,
    catalog: watch::Receiver<Arc<KindCatalog>>,
    feed_states: Arc<FeedStates>,
}

/// The options of a feed set.
#[derive(Debug, Clone)]
pub struct FeedSetOptions {
    /// The time between the end of one round of discovery and the start of the next.
    pub discovery_every: Duration,
    /// Where lists and watches are counted.
    pub metrics: ControllerMetrics,
}

/// The kinds that a subscriber wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KindInterest {
    /// The metadata of all kinds that can be listed, watched and deleted.
    Deletable {
        /// The kinds that are left out: resource and group.
        ignored: Vec<(Box<str>, Box<str>)>,
    },
    /// Named kinds. A kind that does not exist yet is watched as soon as it does.
    Kinds {
        /// The group and the resource of each kind.
        kinds: Vec<(Box<str>, Box<str>)>,
        view: RecordView,
    },
}

// === impl FeedSet ===

impl FeedSet {
    /// Starts discovery; feeds start with their first subscriber. Must be called inside a tokio runtime.
    #[must_use]
    pub fn start(client: kube::Client, clock: Clock, rng: Rng, options: FeedSetOptions) -> Self {
        let (commands, received) = mpsc::unbounded_channel();
        let (publish, catalog) = watch::channel(Arc::default());
        let feed_states = Arc::new(FeedStates::default());
        let coordinator =
            FeedCoordinator::new(client, clock, rng, options, publish, feed_states.clone());
        tokio::spawn(coordinator.run(received));
        Self {
            commands,
            catalog,
            feed_states,
        }
    }

    /// Replays the current objects of the kinds of interest, then streams their changes. A subscriber that does not keep
    /// up slows down its feeds. A subscription ends when its channel is dropped.
    #[must_use]
    pub fn subscribe(&self, interest: KindInterest) -> mpsc::Receiver<ObservedChange> {
        let (sender, receiver) = mpsc::channel(CHANGES_AHEAD);
        // After a stop the command is dropped, and with it the channel.
        let _ = self.commands.send(SetCommand::Subscribe(interest, sender));
        receiver
    }

    /// The kinds that are served now; none before the first round of discovery.
    #[must_use]
    pub fn catalog(&self) -> watch::Receiver<Arc<KindCatalog>> {
        self.catalog.clone()
    }

    /// The state of each kind that is watched now.
    #[must_use]
    pub fn states(&self) -> Vec<(KindId, KindState)> {
        self.feed_states.states()
    }

    /// How many times kinds could not be found or synced: upstream's
    /// `garbagecollector_controller_resources_sync_error_total`.
    #[must_use]
    pub fn sync_errors(&self) -> u64 {
        self.feed_states.sync_errors()
    }

    /// The number of objects that cannot be decoded, each counted once per name and feed.
    #[must_use]
    pub fn unreadable(&self) -> u64 {
        self.feed_states.unreadable()
    }

    /// Whether the watch of a kind is open and shows nothing, not even the bookmarks that it asked for.
    #[must_use]
    pub fn is_blind(&self, kind: KindId) -> bool {
        self.feed_states.is_blind(kind)
    }

    /// Why discovery fails, and since when; nothing if the last round read both roots.
    #[must_use]
    pub fn discovery_trouble(&self) -> Option<String> {
        self.feed_states.discovery_trouble()
    }

    /// Runs discovery soon.
    pub fn refresh(&self) {
        self.feed_states.request_discovery();
    }

    /// Ends all feeds and all channels; returns when they have ended.
    pub async fn stop(&self) {
        let (done, stopped) = oneshot::channel();
        if self.commands.send(SetCommand::Stop(done)).is_ok() {
            // An error means that it has stopped already.
            let _ = stopped.await;
        }
    }
}

// === impl FeedSetOptions ===

impl Default for FeedSetOptions {
    /// Upstream's period between rounds.
    fn default() -> Self {
        Self {
            discovery_every: Duration::from_secs(30),
            metrics: ControllerMetrics::new(),
        }
    }
}

// === impl KindInterest ===

impl KindInterest {
    /// The full objects of these kinds: the group and the resource of each.
    pub(crate) fn full<'a>(kinds: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let kinds = kinds.into_iter();
        Self::Kinds {
            kinds: kinds
                .map(|(group, name)| (group.into(), name.into()))
                .collect(),
            view: RecordView::Full,
        }
    }

    /// Whether a kind is of interest.
    #[must_use]
    pub fn includes(&self, kind: &ApiKind) -> bool {
        self.view(kind).is_some()
    }

    /// How much of each object the subscriber gets.
    #[must_use]
    pub fn shown(&self) -> RecordView {
        match self {
            Self::Deletable { .. } => RecordView::Metadata,
            Self::Kinds { view, .. } => *view,
        }
    }

    /// The view of a kind; `None` if the kind is not of interest.
    fn view(&self, kind: &ApiKind) -> Option<RecordView> {
        match self {
            Self::Deletable { ignored } => {
                let is_ignored = ignored
                    .iter()
                    .any(|(resource, group)| *resource == kind.resource && *group == kind.group);
                (kind.is_deletable() && !is_ignored).then_some(RecordView::Metadata)
            }
            Self::Kinds { kinds, view } => {
                let is_named = kinds
                    .iter()
                    .any(|(group, resource)| *group == kind.group && *resource == kind.resource);
                (is_named && kind.verbs.list && kind.verbs.watch).then_some(*view)
            }
        }
    }
}

#[cfg(test)]
mod tests;
