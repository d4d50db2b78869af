//! A bounded map that forgets the oldest entry first. The collector keeps facts about absent owners in it, the writer of
//! Events keeps recent Events, and drivers keep the last write of each key.

use std::collections::BTreeMap;

/// A map of at most `max` entries. An insert beyond that removes the entry that was inserted first.
#[derive(Debug)]
pub(crate) struct BoundedMap<K, V> {
    entries: BTreeMap<K, (u64, V)>,
    order: BTreeMap<u64, K>,
    next: u64,
    max: usize,
}

// === impl BoundedMap ===

impl<K: Clone + Ord, V> BoundedMap<K, V> {
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

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|(_, value)| value)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
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

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let (number, value) = self.entries.remove(key)?;
        self.order.remove(&number);
        Some(value)
    }

    /// All values, in the order of their keys.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values().map(|(_, value)| value)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Removes all entries and returns them, in the order of their keys.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = (K, V)> {
        self.order.clear();
        let entries = std::mem::take(&mut self.entries);
        entries.into_iter().map(|(key, (_, value))| (key, value))
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
    fn removes_the_oldest_entry_and_refreshes_on_insert() {
        let mut absent = BoundedMap::new(2);
        absent.insert("rc1", 1);
        absent.insert("rc2", 2);
        absent.insert("rc1", 3);
        absent.insert("rc3", 4);
        assert_eq!(absent.get(&"rc1"), Some(&3));
        assert_eq!(absent.get(&"rc2"), None);
        assert_eq!(absent.get(&"rc3"), Some(&4));
        assert_eq!(absent.len(), absent.entries.len());
        absent.remove(&"rc3");
        absent.remove(&"rc3");
        assert_eq!((absent.len(), absent.entries.len()), (1, 1));
        absent.clear();
        assert_eq!(absent.get(&"rc1"), None);
    }
}
