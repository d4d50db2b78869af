//! Owners that are known not to exist, for dependents that come later.
//!
//! While somebody refers to an absent owner its node remembers the proof. This cache is for afterwards: it saves the
//! question when one more object with a dead owner appears. A uid is never given out twice, so what is in here stays
//! true; it is bounded all the same, and forgets what it learned first.

use std::collections::BTreeMap;

use crate::gc::Coordinates;
use crate::runtime::call::Proof;
use crate::runtime::kind::KindId;

/// How many absent owners are remembered; upstream's 500 are few for a cluster that loses a namespace.
pub(crate) const ABSENT_OWNERS: usize = 10_000;

/// What is known not to exist.
#[derive(Debug)]
pub(crate) struct Absent {
    proofs: BTreeMap<Coordinates, (u64, Proof)>,
    order: BTreeMap<u64, Coordinates>,
    next: u64,
    max: usize,
}

// === impl Absent ===

impl Absent {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            proofs: BTreeMap::new(),
            order: BTreeMap::new(),
            next: 0,
            max,
        }
    }

    pub(crate) fn proof(&self, of: &Coordinates) -> Option<&Proof> {
        self.proofs.get(of).map(|(_, proof)| proof)
    }

    pub(crate) fn remember(&mut self, absent: Coordinates, proof: Proof) {
        self.next += 1;
        let entry = (self.next, proof);
        if let Some((earlier, _)) = self.proofs.insert(absent.clone(), entry) {
            self.order.remove(&earlier);
        }
        self.order.insert(self.next, absent);
        if self.order.len() > self.max
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.proofs.remove(&oldest);
        }
    }

    /// Forgets a kind: its past does not count any more.
    pub(crate) fn forget(&mut self, kind: KindId) {
        self.proofs.retain(|absent, _| absent.kind != kind);
        self.order.retain(|_, absent| absent.kind != kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::record::Uid;

    fn owner(name: &str) -> Coordinates {
        Coordinates {
            kind: KindId(0),
            namespace: "ns".into(),
            name: name.into(),
            uid: Uid::from(name),
        }
    }

    /// `TestAbsentOwnerCache` of `garbagecollector_test.go`, as far as it is about the cache.
    #[test]
    fn what_was_learned_first_is_forgotten_first_and_learning_again_counts() {
        let mut absent = Absent::new(2);
        absent.remember(owner("rc1"), Proof::NotFound);
        absent.remember(owner("rc2"), Proof::NotFound);
        absent.remember(owner("rc1"), Proof::Observed);
        absent.remember(owner("rc3"), Proof::NotFound);
        assert_eq!(absent.proof(&owner("rc1")), Some(&Proof::Observed));
        assert_eq!(absent.proof(&owner("rc2")), None);
        assert_eq!(absent.proof(&owner("rc3")), Some(&Proof::NotFound));
        assert_eq!(absent.order.len(), absent.proofs.len());
    }

    #[test]
    fn all_coordinates_count() {
        let mut absent = Absent::new(9);
        absent.remember(owner("rc1"), Proof::NotFound);
        let elsewhere = Coordinates {
            namespace: "other".into(),
            ..owner("rc1")
        };
        assert_eq!(absent.proof(&elsewhere), None);
        absent.forget(KindId(0));
        assert_eq!(absent.proof(&owner("rc1")), None);
    }
}
