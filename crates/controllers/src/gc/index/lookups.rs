//! What the server said about owners when it was asked, and for how long that may be relied on.
//!
//! An owner is looked up under the coordinates a reference gives. Proven absence is final, because a uid is never given
//! out twice; only a server that is set back in time takes it back. Life is not: an owner that was found but that no feed has shown is looked at again, and an owner that
//! waits for its dependents is confirmed before any of them goes because of it, since its user may have changed the
//! policy meanwhile.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::graph::Facts;
use crate::gc::Coordinates;
use crate::runtime::call::AbsenceProof;
use crate::runtime::record::Uid;

/// For how long a waiting owner's state is relied on, and for how many of its dependents: a cascade then costs one
/// question in a hundred deletes, and a change of policy is noticed within a second.
pub(crate) const OWNER_CONFIRM: SignedDuration = SignedDuration::from_secs(1);
/// See [`OWNER_CONFIRM`].
pub(crate) const OWNER_CONFIRM_DEPENDENTS: u32 = 100;

/// When an owner that no feed shows is looked at again: its kind cannot be listed, or its watch lags.
pub(crate) const UNSHOWN_RECHECK: Duration = Duration::from_secs(60);

/// What the server said about an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// It does not exist.
    Absent(AbsenceProof),
    /// It exists; what it was at that time.
    Alive(Facts, Timestamp),
}

/// All that was learned by asking. Entries live as long as their owner's node.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    found: BTreeMap<Uid, BTreeMap<Coordinates, Lookup>>,
    confirmed: BTreeMap<Uid, Confirmed>,
}

#[derive(Debug)]
struct Confirmed {
    at: Timestamp,
    left: u32,
}

// === impl Lookups ===

impl Lookups {
    pub(crate) fn get(&self, coordinates: &Coordinates) -> Option<&Lookup> {
        self.found.get(&coordinates.uid)?.get(coordinates)
    }

    /// Returns what was known before. The first proof stays.
    pub(crate) fn prove_absent(
        &mut self,
        coordinates: Coordinates,
        proof: AbsenceProof,
    ) -> Option<Lookup> {
        let before = self.get(&coordinates).cloned();
        if !matches!(before, Some(Lookup::Absent(_))) {
            self.confirmed.remove(&coordinates.uid);
            self.set(coordinates, Lookup::Absent(proof));
        }
        before
    }

    /// Returns what was known before. Absence is final: who is proven absent does not come alive by a late answer.
    pub(crate) fn found_alive(
        &mut self,
        coordinates: Coordinates,
        facts: Facts,
        now: Timestamp,
    ) -> Option<Lookup> {
        let before = self.get(&coordinates).cloned();
        if !matches!(before, Some(Lookup::Absent(_))) {
            self.set(coordinates, Lookup::Alive(facts, now));
        }
        before
    }

    fn set(&mut self, coordinates: Coordinates, lookup: Lookup) {
        let all = self.found.entry(coordinates.uid.clone()).or_default();
        all.insert(coordinates, lookup);
    }

    /// Forgets what was said about one place of an owner that nobody looks for there any more.
    pub(crate) fn forget_place(&mut self, coordinates: &Coordinates) {
        if let Some(all) = self.found.get_mut(&coordinates.uid) {
            all.remove(coordinates);
        }
    }

    /// A waiting owner was just seen to be waiting.
    pub(crate) fn confirm(&mut self, owner: &Uid, now: Timestamp) {
        let left = OWNER_CONFIRM_DEPENDENTS;
        self.confirmed
            .insert(owner.clone(), Confirmed { at: now, left });
    }

    pub(crate) fn is_confirmed(&self, owner: &Uid, now: Timestamp) -> bool {
        let confirmed = self.confirmed.get(owner);
        confirmed.is_some_and(|confirmed| {
            // A clock that was set back must not make it last longer.
            let since = now.duration_since(confirmed.at);
            !since.is_negative() && since < OWNER_CONFIRM && confirmed.left > 0
        })
    }

    /// One more dependent went because of this owner.
    pub(crate) fn spend(&mut self, owner: &Uid) {
        if let Some(confirmed) = self.confirmed.get_mut(owner) {
            confirmed.left = confirmed.left.saturating_sub(1);
        }
    }

    /// Forgets an owner; returns where it is known to be absent.
    pub(crate) fn forget(&mut self, owner: &Uid) -> Vec<(Coordinates, AbsenceProof)> {
        self.confirmed.remove(owner);
        let all = self.found.remove(owner).unwrap_or_default();
        let absent = all
            .into_iter()
            .filter_map(|(coordinates, lookup)| match lookup {
                Lookup::Absent(proof) => Some((coordinates, proof)),
                Lookup::Alive(..) => None,
            });
        absent.collect()
    }

    /// Forgets everything: the server's past does not count any more.
    pub(crate) fn clear(&mut self) {
        self.found.clear();
        self.confirmed.clear();
    }
}
