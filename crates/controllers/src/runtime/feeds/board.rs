//! What all feeds write and anybody may read: states and counts. No lock here is held for longer than a map access.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::super::kind::{KindId, KindState};

/// Holds what is known about the feeds as a whole.
#[derive(Debug, Default)]
pub(crate) struct Board {
    states: Mutex<BTreeMap<KindId, KindState>>,
    sync_errors: AtomicU64,
    unreadable: AtomicU64,
    /// Set when discovery should run soon. However often it is set, it is one wish.
    discovery: Notify,
}

// === impl Board ===

impl Board {
    pub(crate) fn set_state(&self, kind: KindId, state: KindState) {
        self.lock().insert(kind, state);
    }

    pub(crate) fn forget(&self, kind: KindId) {
        self.lock().remove(&kind);
    }

    pub(crate) fn states(&self) -> Vec<(KindId, KindState)> {
        let states = self.lock();
        states.iter().map(|(kind, state)| (*kind, *state)).collect()
    }

    pub(crate) fn is_synced(&self, kind: KindId) -> bool {
        self.lock().get(&kind) == Some(&KindState::Synced)
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

    pub(crate) fn ask_for_discovery(&self) {
        self.discovery.notify_one();
    }

    /// Returns when discovery was asked for since the last time.
    pub(crate) async fn discovery_asked_for(&self) {
        self.discovery.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<KindId, KindState>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
