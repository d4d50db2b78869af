//! The states of the kinds that a controller watches, as far as the driver needs them.

use std::collections::BTreeMap;

use crate::runtime::kind::{KindId, KindState};

/// The kinds that a controller watches.
#[derive(Debug, Default)]
pub(super) struct WatchedKinds {
    states: BTreeMap<KindId, KindState>,
    has_synced: bool,
}

// === impl WatchedKinds ===

impl WatchedKinds {
    /// Takes note of a kind's state. Returns the number of kinds when the last first list is over, once.
    pub(super) fn observe(&mut self, kind: KindId, state: KindState) -> Option<usize> {
        if matches!(state, KindState::Gone) {
            self.states.remove(&kind);
        } else {
            self.states.insert(kind, state);
        }
        let is_listed = |state: &KindState| !matches!(state, KindState::Syncing(_));
        let is_synced = !self.states.is_empty() && self.states.values().all(is_listed);
        if !is_synced || self.has_synced {
            return None;
        }
        self.has_synced = true;
        Some(self.states.len())
    }

    /// Whether a kind that may not be listed is listed from this state on.
    pub(super) fn becomes_readable(&self, kind: KindId, state: KindState) -> bool {
        state == KindState::Synced && self.states.get(&kind) == Some(&KindState::Forbidden)
    }

    /// Whether the resourceVersions of a kind went back: it is not written to until a fresh list was applied.
    pub(super) fn is_frozen(&self, kind: KindId) -> bool {
        self.states.get(&kind) == Some(&KindState::Frozen)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn the_end_of_the_last_first_list_is_reported_once() {
        let syncing = KindState::Syncing(Timestamp::UNIX_EPOCH);
        let mut kinds = WatchedKinds::default();
        assert_eq!(kinds.observe(KindId(0), syncing), None);
        assert_eq!(kinds.observe(KindId(1), syncing), None);
        assert_eq!(kinds.observe(KindId(0), KindState::Synced), None);
        assert_eq!(kinds.observe(KindId(1), KindState::Forbidden), Some(2));
        assert_eq!(kinds.observe(KindId(1), KindState::Synced), None);
        assert_eq!(kinds.observe(KindId(2), syncing), None);
        assert_eq!(kinds.observe(KindId(2), KindState::Synced), None);
    }

    #[test]
    fn a_frozen_kind_thaws_with_any_other_state() {
        let mut kinds = WatchedKinds::default();
        kinds.observe(KindId(0), KindState::Frozen);
        assert!(kinds.is_frozen(KindId(0)));
        kinds.observe(KindId(0), KindState::Synced);
        assert!(!kinds.is_frozen(KindId(0)));
    }
}
