//! What the server said about owners when it was asked, and for how long that may be relied on.
//!
//! An owner is looked up under the coordinates a reference gives. Proven absence is final, because a uid is never given
//! out twice. Life is not: an owner that was found but that no feed has shown is looked at again, and an owner that
//! waits for its dependents is confirmed before any of them goes because of it, since its user may have changed the
//! policy meanwhile.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::graph::Facts;
use crate::gc::Coordinates;
use crate::runtime::call::Proof;
use crate::runtime::kind::KindId;
use crate::runtime::record::Uid;

/// For how long a waiting owner's state is relied on, and for how many of its dependents: a cascade then costs one
/// question in a hundred deletes, and a change of policy is noticed within a second.
pub(crate) const OWNER_CONFIRM: Duration = Duration::from_secs(1);
/// See [`OWNER_CONFIRM`].
pub(crate) const OWNER_CONFIRM_DEPENDENTS: u32 = 100;

/// When an owner that no feed shows is looked at again: its kind cannot be listed, or its watch lags.
pub(crate) const UNSHOWN_RECHECK: Duration = Duration::from_secs(60);

/// What the server said about an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// It does not exist.
    Absent(Proof),
    /// It exists; what it was at that time.
    Alive(Facts, Timestamp),
}

/// All that was learned by asking. Entries live as long as their owner's node.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    found: BTreeMap<Uid, Vec<(Coordinates, Lookup)>>,
    confirmed: BTreeMap<Uid, Confirmed>,
}

#[derive(Debug)]
struct Confirmed {
    until: Timestamp,
    left: u32,
}

// === impl Lookups ===

impl Lookups {
    pub(crate) fn get(&self, coordinates: &Coordinates) -> Option<&Lookup> {
        let all = self.found.get(&coordinates.uid)?;
        let (_, lookup) = all.iter().find(|(other, _)| other == coordinates)?;
        Some(lookup)
    }

    /// Returns whether that is news.
    pub(crate) fn prove_absent(&mut self, coordinates: Coordinates, proof: Proof) -> bool {
        if matches!(self.get(&coordinates), Some(Lookup::Absent(_))) {
            return false;
        }
        self.confirmed.remove(&coordinates.uid);
        self.set(coordinates, Lookup::Absent(proof));
        true
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
        match all.iter_mut().find(|(other, _)| *other == coordinates) {
            Some((_, known)) => *known = lookup,
            None => all.push((coordinates, lookup)),
        }
    }

    /// A waiting owner was just seen to be waiting.
    pub(crate) fn confirm(&mut self, owner: &Uid, now: Timestamp) {
        let until = now.saturating_add(OWNER_CONFIRM).unwrap_or(Timestamp::MAX);
        let left = OWNER_CONFIRM_DEPENDENTS;
        self.confirmed
            .insert(owner.clone(), Confirmed { until, left });
    }

    pub(crate) fn is_confirmed(&self, owner: &Uid, now: Timestamp) -> bool {
        let confirmed = self.confirmed.get(owner);
        confirmed.is_some_and(|confirmed| now < confirmed.until && confirmed.left > 0)
    }

    /// One more dependent went because of this owner.
    pub(crate) fn spend(&mut self, owner: &Uid) {
        if let Some(confirmed) = self.confirmed.get_mut(owner) {
            confirmed.left = confirmed.left.saturating_sub(1);
        }
    }

    /// Forgets an owner; returns where it is known to be absent.
    pub(crate) fn forget(&mut self, owner: &Uid) -> Vec<(Coordinates, Proof)> {
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

    /// Forgets a kind: its past does not count any more.
    pub(crate) fn forget_kind(&mut self, kind: KindId) {
        self.found.retain(|_, all| {
            all.retain(|(coordinates, _)| coordinates.kind != kind);
            !all.is_empty()
        });
        self.confirmed.clear();
    }
}
