//! The results of owner lookups, and how long each of them is valid.
//!
//! An owner is looked up under the coordinates that a reference gives. Proven absence is final while the
//! feeds follow their watches, because the server never reuses a uid; a relist may show another history and revokes it. A found owner is not final: one that no feed shows is read
//! again later, and one in foreground deletion is read again before a dependent is deleted because of it, since its user
//! may have changed the propagation policy.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::graph::ObjectFacts;
use crate::gc::OwnerCoordinates;
use crate::runtime::call::AbsenceProof;
use crate::runtime::queue::later;
use crate::runtime::record::Uid;

/// How long the confirmation of a waiting owner is valid. A change of the propagation policy takes effect within this
/// time.
pub(crate) const OWNER_CONFIRM: SignedDuration = SignedDuration::from_secs(1);
/// For how many dependents the confirmation of a waiting owner is valid: a cascade costs one read per hundred deletes.
pub(crate) const OWNER_CONFIRM_DEPENDENTS: u32 = 100;

/// When an owner that was found but that no feed shows is first read again. Its kind cannot be listed, or its watch lags.
/// The time doubles with each read, because a kind that may not be listed may have thousands of owners.
pub(crate) const UNSHOWN_RECHECK: Duration = Duration::from_secs(60);
/// The longest time between two reads of such an owner, as upstream's longest backoff.
const UNSHOWN_RECHECK_MAX: Duration = Duration::from_secs(1_000);

/// The result of reading an owner from the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OwnerLookup {
    Absent(AbsenceProof),
    /// It exists. Its facts, and when it is read again if no feed shows it.
    Alive(ObjectFacts, OwnerRecheck),
}

/// When an owner that no feed shows is read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OwnerRecheck {
    pub(crate) at: Timestamp,
    interval: Duration,
}

/// The results of all lookups. A result is kept as long as the owner's node.
#[derive(Debug, Default)]
pub(crate) struct OwnerLookups {
    found: BTreeMap<Uid, BTreeMap<OwnerCoordinates, OwnerLookup>>,
    confirmed: BTreeMap<Uid, WaitingConfirmation>,
}

#[derive(Debug)]
struct WaitingConfirmation {
    at: Timestamp,
    dependents_left: u32,
}

// === impl OwnerLookups ===

impl OwnerLookups {
    /// The result for these coordinates. An observed deletion holds for every version of the owner's kind.
    pub(crate) fn get(&self, coordinates: &OwnerCoordinates) -> Option<&OwnerLookup> {
        let all = self.found.get(&coordinates.uid)?;
        let observed = || {
            let any = all.get(&coordinates.in_any_version());
            any.filter(|lookup| **lookup == OwnerLookup::Absent(AbsenceProof::Observed))
        };
        all.get(coordinates).or_else(observed)
    }

    /// Records a proof of absence and returns the earlier result. The first proof is kept.
    pub(crate) fn prove_absent(
        &mut self,
        coordinates: OwnerCoordinates,
        proof: AbsenceProof,
    ) -> Option<OwnerLookup> {
        let before = self.get(&coordinates).cloned();
        if !matches!(before, Some(OwnerLookup::Absent(_))) {
            self.confirmed.remove(&coordinates.uid);
            self.set(coordinates, OwnerLookup::Absent(proof));
        }
        before
    }

    /// Records that the owner exists and returns the earlier result. Absence is final: a late answer does not revoke it.
    pub(crate) fn found_alive(
        &mut self,
        coordinates: OwnerCoordinates,
        facts: ObjectFacts,
        now: Timestamp,
    ) -> Option<OwnerLookup> {
        let before = self.get(&coordinates).cloned();
        let recheck = match &before {
            Some(OwnerLookup::Absent(_)) => return before,
            Some(OwnerLookup::Alive(_, recheck)) => recheck.after_read(now),
            None => OwnerRecheck::first(now),
        };
        self.set(coordinates, OwnerLookup::Alive(facts, recheck));
        before
    }

    fn set(&mut self, coordinates: OwnerCoordinates, lookup: OwnerLookup) {
        let all = self.found.entry(coordinates.uid.clone()).or_default();
        all.insert(coordinates, lookup);
    }

    /// Forgets the result for coordinates of a mismatched reference that goes.
    pub(crate) fn forget_coordinates(&mut self, coordinates: &OwnerCoordinates) {
        if let Some(all) = self.found.get_mut(&coordinates.uid) {
            all.remove(coordinates);
        }
    }

    /// Records that a read has just shown the owner in foreground deletion.
    pub(crate) fn confirm(&mut self, owner: &Uid, now: Timestamp) {
        let left = OWNER_CONFIRM_DEPENDENTS;
        self.confirmed.insert(
            owner.clone(),
            WaitingConfirmation {
                at: now,
                dependents_left: left,
            },
        );
    }

    pub(crate) fn is_confirmed(&self, owner: &Uid, now: Timestamp) -> bool {
        let confirmed = self.confirmed.get(owner);
        confirmed.is_some_and(|confirmed| {
            // A clock that was set back must not make the confirmation last longer.
            let since = now.duration_since(confirmed.at);
            !since.is_negative() && since < OWNER_CONFIRM && confirmed.dependents_left > 0
        })
    }

    /// Counts one more dependent that was written to because of this owner.
    pub(crate) fn spend_confirmation(&mut self, owner: &Uid) {
        if let Some(confirmed) = self.confirmed.get_mut(owner) {
            confirmed.dependents_left = confirmed.dependents_left.saturating_sub(1);
        }
    }

    /// Forgets an owner and returns its proofs of absence.
    pub(crate) fn forget(&mut self, owner: &Uid) -> Vec<(OwnerCoordinates, AbsenceProof)> {
        self.confirmed.remove(owner);
        let all = self.found.remove(owner).unwrap_or_default();
        let absent = all
            .into_iter()
            .filter_map(|(coordinates, lookup)| match lookup {
                OwnerLookup::Absent(proof) => Some((coordinates, proof)),
                OwnerLookup::Alive(..) => None,
            });
        absent.collect()
    }

    /// Forgets all proofs of absence. Returns the owners whose deletion was observed.
    pub(crate) fn forget_absences(&mut self) -> Vec<Uid> {
        let mut observed = Vec::new();
        for (owner, all) in &mut self.found {
            all.retain(|_, lookup| match lookup {
                OwnerLookup::Absent(AbsenceProof::Observed) => {
                    observed.push(owner.clone());
                    false
                }
                OwnerLookup::Absent(_) => false,
                OwnerLookup::Alive(..) => true,
            });
        }
        self.found.retain(|_, all| !all.is_empty());
        observed
    }

    /// Forgets everything, because the server's store was restored.
    pub(crate) fn clear(&mut self) {
        self.found.clear();
        self.confirmed.clear();
    }
}

// === impl OwnerRecheck ===

impl OwnerRecheck {
    fn first(now: Timestamp) -> Self {
        let interval = UNSHOWN_RECHECK;
        let at = later(now, interval);
        Self { at, interval }
    }

    /// The next one after a read. A read before its time, because the owner waits for its dependents, does not count.
    fn after_read(self, now: Timestamp) -> Self {
        let interval = match now >= self.at {
            true => (self.interval * 2).min(UNSHOWN_RECHECK_MAX),
            false => self.interval,
        };
        let at = later(now, interval);
        Self { at, interval }
    }
}
