//! The states and counts of all feeds, written by feeds and read by any task. No lock here is held for longer than a map
//! access.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::Notify;

use super::super::kind::{KindId, KindState};

/// The states and counts of all feeds.
#[derive(Debug, Default)]
pub(crate) struct FeedStates {
    states: Mutex<BTreeMap<KindId, FeedState>>,
    sync_errors: AtomicU64,
    unreadable: AtomicU64,
    /// The trouble that all feeds have, since a request of a feed last succeeded or was refused for its kind alone.
    server_trouble: Mutex<Option<ServerTrouble>>,
    /// Why discovery fails, and since when.
    discovery_trouble: Mutex<Option<(Timestamp, String)>>,
    /// Set when discovery should run soon. Setting it twice is one request.
    discovery: Notify,
}

/// Trouble with the server that concerns all kinds alike, so that one line of the log stands for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerTrouble {
    /// The server cannot be reached.
    Unreachable,
    /// The server refuses the credentials.
    Unauthorized,
}

/// The state of one feed.
#[derive(Debug, Clone, Copy)]
struct FeedState {
    state: KindState,
    /// Whether the kind was synced at any time since its feed began, as upstream's `HasSynced`.
    has_synced: bool,
    is_blind: bool,
}

// === impl FeedStates ===

impl FeedStates {
    pub(crate) fn set_state(&self, kind: KindId, state: KindState) {
        let mut states = self.lock();
        let last = states.get(&kind);
        let had_synced = last.is_some_and(|known| known.has_synced);
        let known = FeedState {
            state,
            has_synced: had_synced || state == KindState::Synced,
            is_blind: last.is_some_and(|known| known.is_blind),
        };
        states.insert(kind, known);
    }

    /// Sets whether the watch of a kind shows nothing.
    pub(crate) fn set_blind(&self, kind: KindId, is_blind: bool) {
        if let Some(known) = self.lock().get_mut(&kind) {
            known.is_blind = is_blind;
        }
    }

    pub(crate) fn is_blind(&self, kind: KindId) -> bool {
        self.lock().get(&kind).is_some_and(|known| known.is_blind)
    }

    /// Takes note of the end of a round of discovery: its error if a root could not be read.
    pub(crate) fn set_discovery(&self, error: Option<String>, now: Timestamp) {
        let mut trouble = self.trouble();
        let since = trouble.as_ref().map_or(now, |(since, _)| *since);
        *trouble = error.map(|error| (since, error));
    }

    pub(crate) fn discovery_trouble(&self) -> Option<String> {
        let trouble = self.trouble();
        let (since, error) = trouble.as_ref()?;
        Some(format!("failing since {since:.0}: {error}"))
    }

    pub(crate) fn forget(&self, kind: KindId) {
        self.lock().remove(&kind);
    }

    pub(crate) fn states(&self) -> Vec<(KindId, KindState)> {
        let states = self.lock();
        states
            .iter()
            .map(|(kind, known)| (*kind, known.state))
            .collect()
    }

    pub(crate) fn is_synced(&self, kind: KindId) -> bool {
        let states = self.lock();
        states
            .get(&kind)
            .is_some_and(|known| known.state == KindState::Synced)
    }

    /// Whether a kind that is watched now was synced at any time since its feed began. It may be failing by now.
    pub(crate) fn has_synced(&self, kind: KindId) -> bool {
        self.lock().get(&kind).is_some_and(|known| known.has_synced)
    }

    pub(crate) fn count_sync_error(&self) {
        self.sync_errors.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn sync_errors(&self) -> u64 {
        self.sync_errors.load(Ordering::Relaxed)
    }

    pub(crate) fn count_unreadable(&self) {
        self.unreadable.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn unreadable(&self) -> u64 {
        self.unreadable.load(Ordering::Relaxed)
    }

    /// Takes note of the trouble of a request with the server, or of an answer without such trouble. Returns the trouble
    /// before it.
    pub(crate) fn set_server_trouble(
        &self,
        trouble: Option<ServerTrouble>,
    ) -> Option<ServerTrouble> {
        let known = self.server_trouble.lock();
        std::mem::replace(&mut *known.unwrap_or_else(PoisonError::into_inner), trouble)
    }

    pub(crate) fn request_discovery(&self) {
        self.discovery.notify_one();
    }

    /// Returns when discovery was requested since the last time.
    pub(crate) async fn discovery_requested(&self) {
        self.discovery.notified().await;
    }

    fn trouble(&self) -> MutexGuard<'_, Option<(Timestamp, String)>> {
        self.discovery_trouble
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<KindId, FeedState>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
