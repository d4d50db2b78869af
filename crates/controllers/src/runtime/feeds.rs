//! One feed per kind, for all controllers of the process.
//!
//! Whoever wants to know about kinds subscribes and gets a channel of changes: the catalog first, then for each kind
//! `Syncing`, its objects, `Synced`, and what happens from then on. A kind is watched once, however many want it; in full
//! if one of them does. Discovery runs every half minute, and at once when a definition of kinds changes or a kind turns
//! out not to be served. Mirrors the monitors of upstream's collector (1.36), but a kind that is not served any more is
//! really not watched any more.

mod board;
mod courier;
mod hub;

use std::sync::Arc;
use std::time::Duration;

use caretaker_machinery::clock::Clock;
use caretaker_machinery::rng::Rng;
use tokio::sync::{mpsc, oneshot, watch};

use super::controller::Change;
use super::kind::{Catalog, Kind, KindId, KindState};
use super::record::View;
use hub::{Command, Hub};

pub(crate) use board::Board;

/// Changes that a subscriber may be behind before feeds wait for it: a few turns of a driver.
const CHANGES_AHEAD: usize = 1024;

/// All feeds of the process. Clones are the same feeds; when the last one is dropped, all of them end.
#[derive(Clone)]
pub struct Feeds {
    commands: mpsc::UnboundedSender<Command>,
    catalog: watch::Receiver<Arc<Catalog>>,
    board: Arc<Board>,
}

/// What can be chosen about feeds.
#[derive(Debug, Clone)]
pub struct FeedsOptions {
    /// Between the end of one discovery and the start of the next.
    pub discovery_every: Duration,
}

/// What a subscriber wants to know about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interest {
    /// The metadata of everything that can be listed, watched and deleted.
    Deletable {
        /// Except these: resource and group.
        ignored: Vec<(Box<str>, Box<str>)>,
    },
    /// Some kinds. One that does not exist is waited for.
    Kinds {
        /// Group and resource.
        kinds: Vec<(Box<str>, Box<str>)>,
        /// How much of them.
        view: View,
    },
}

// === impl Feeds ===

impl Feeds {
    /// Starts discovery; feeds start when somebody wants them. Must be called inside a tokio runtime.
    #[must_use]
    pub fn start(client: kube::Client, clock: Clock, rng: Rng, options: FeedsOptions) -> Self {
        let (commands, received) = mpsc::unbounded_channel();
        let (publish, catalog) = watch::channel(Arc::default());
        let board = Arc::new(Board::default());
        let hub = Hub::new(client, clock, rng, options, publish, board.clone());
        tokio::spawn(hub.run(received));
        Self {
            commands,
            catalog,
            board,
        }
    }

    /// Everything of interest from now on, beginning with what there is. A subscriber that does not keep up slows down
    /// the feeds it listens to; one that drops the channel is forgotten.
    #[must_use]
    pub fn subscribe(&self, interest: Interest) -> mpsc::Receiver<Change> {
        let (sender, receiver) = mpsc::channel(CHANGES_AHEAD);
        // After a stop nobody takes it, and the channel ends.
        let _ = self.commands.send(Command::Subscribe(interest, sender));
        receiver
    }

    /// The kinds served now; none before the first discovery.
    #[must_use]
    pub fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog.clone()
    }

    /// How well each kind is known that is watched now.
    #[must_use]
    pub fn states(&self) -> Vec<(KindId, KindState)> {
        self.board.states()
    }

    /// How often kinds could not be found or synced: upstream's `garbagecollector_controller_resources_sync_error_total`.
    #[must_use]
    pub fn sync_errors(&self) -> u64 {
        self.board.sync_errors()
    }

    /// How many objects could not be read, each counted once per name and feed.
    #[must_use]
    pub fn unreadable(&self) -> u64 {
        self.board.unreadable()
    }

    /// Asks for the kinds soon.
    pub fn refresh(&self) {
        self.board.ask_for_discovery();
    }

    /// Ends all feeds and all channels; returns when they have ended.
    pub async fn stop(&self) {
        let (done, stopped) = oneshot::channel();
        if self.commands.send(Command::Stop(done)).is_ok() {
            // An error means that it has stopped already.
            let _ = stopped.await;
        }
    }
}

// === impl FeedsOptions ===

impl Default for FeedsOptions {
    /// Upstream's period.
    fn default() -> Self {
        Self {
            discovery_every: Duration::from_secs(30),
        }
    }
}

// === impl Interest ===

impl Interest {
    /// Whether a kind is of interest.
    #[must_use]
    pub fn includes(&self, kind: &Kind) -> bool {
        self.view(kind).is_some()
    }

    /// How much of the kinds of interest.
    #[must_use]
    pub fn shown(&self) -> View {
        match self {
            Self::Deletable { .. } => View::Metadata,
            Self::Kinds { view, .. } => *view,
        }
    }

    /// Whether a kind is of interest, and how much of it.
    fn view(&self, kind: &Kind) -> Option<View> {
        match self {
            Self::Deletable { ignored } => {
                let is_ignored = ignored
                    .iter()
                    .any(|(resource, group)| *resource == kind.resource && *group == kind.group);
                (kind.is_deletable() && !is_ignored).then_some(View::Metadata)
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
