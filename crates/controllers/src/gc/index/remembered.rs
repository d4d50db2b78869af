//! What is remembered about owners that are gone, for dependents that come later. Bounded: what was learned first is
//! forgotten first.
//!
//! While somebody refers to an absent owner its node remembers the proof. Afterwards this saves the question when one
//! more object with a dead owner appears, and it saves that object itself where the owner left orphans behind. A uid is
//! never given out twice, so what is in here stays true, unless the server's store is set back: then all of it goes.

use std::collections::BTreeMap;

/// How many absent owners are remembered; upstream's 500 are few for a cluster that loses a namespace.
pub(crate) const ABSENT_OWNERS: usize = 10_000;

/// The latest entries of a map.
#[derive(Debug)]
pub(crate) struct Remembered<K, V> {
    entries: BTreeMap<K, (u64, V)>,
    order: BTreeMap<u64, K>,
    next: u64,
    max: usize,
}

// === impl Remembered ===

impl<K: Clone + Ord, V> Remembered<K, V> {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            order: BTreeMap::new(),
            next: 0,
            max,
        }
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|(_, value)| value)
    }

    pub(crate) fn remember(&mut self, key: K, value: V) {
        self.next += 1;
        if let Some((earlier, _)) = self.entries.insert(key.clone(), (self.next, value)) {
            self.order.remove(&earlier);
        }
        self.order.insert(self.next, key);
        if self.order.len() > self.max
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.entries.remove(&oldest);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.order.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `TestAbsentOwnerCache` of `garbagecollector_test.go`, as far as it is about the cache.
    #[test]
    fn what_was_learned_first_is_forgotten_first_and_learning_again_counts() {
        let mut absent = Remembered::new(2);
        absent.remember("rc1", 1);
        absent.remember("rc2", 2);
        absent.remember("rc1", 3);
        absent.remember("rc3", 4);
        assert_eq!(absent.get(&"rc1"), Some(&3));
        assert_eq!(absent.get(&"rc2"), None);
        assert_eq!(absent.get(&"rc3"), Some(&4));
        assert_eq!(absent.order.len(), absent.entries.len());
        absent.clear();
        assert_eq!(absent.get(&"rc1"), None);
    }
}
