//! Terminated Pods in the order in which they go, parted where the threshold is: those who stay and those who are over.
//!
//! Kept parted with every change, so that nobody ever has to sort or count. Mirrors the order of upstream's
//! `byEvictionAndCreationTimestamp`: evicted Pods first, then the oldest, then by name.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use crate::runtime::record::Uid;

/// A Pod's place in the order; the least goes first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// Evicted Pods go first, so that they do not cost others their place.
    pub(crate) is_lasting: bool,
    pub(crate) created: Timestamp,
    pub(crate) name: Arc<str>,
    pub(crate) namespace: Arc<str>,
    pub(crate) uid: Uid,
}

/// Pods by rank, parted: everyone in `over` ranks before everyone in `kept`, and `kept` is full before `over` has any.
#[derive(Debug, Default)]
pub(crate) struct Ranked {
    /// How many are kept; without a threshold nobody is counted.
    threshold: Option<usize>,
    over: BTreeSet<Rank>,
    kept: BTreeSet<Rank>,
}

/// Where somebody was who is not counted any more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Among those who are over.
    Over,
    /// Among those who are kept; that one is kept in its place.
    Kept(Option<Rank>),
}

// === impl Ranked ===

impl Ranked {
    pub(crate) fn new(threshold: Option<usize>) -> Self {
        Self {
            threshold,
            ..Self::default()
        }
    }

    /// Counts one more. Returns who is over because of that: itself, another one, or nobody.
    pub(crate) fn insert(&mut self, rank: Rank) -> Option<Rank> {
        let threshold = self.threshold?;
        if self.kept.contains(&rank) || self.over.contains(&rank) {
            return None;
        }
        if self.over.last().is_some_and(|last| rank < *last) {
            self.over.insert(rank.clone());
            return Some(rank);
        }
        self.kept.insert(rank);
        if self.kept.len() <= threshold {
            return None;
        }
        let out = self.kept.pop_first()?;
        self.over.insert(out.clone());
        Some(out)
    }

    /// Counts one less.
    pub(crate) fn remove(&mut self, rank: &Rank) -> Left {
        if self.over.remove(rank) {
            return Left::Over;
        }
        if !self.kept.remove(rank) {
            return Left::Kept(None);
        }
        let back = self.over.pop_last();
        self.kept.extend(back.clone());
        Left::Kept(back)
    }

    /// Whether a Pod is over.
    pub(crate) fn is_over(&self, rank: &Rank) -> bool {
        self.over.contains(rank)
    }
}

#[cfg(test)]
mod tests {
    use caretaker_machinery::rng::Rng;

    use super::*;

    fn mk_rank(is_lasting: bool, created: i64, name: &str) -> Rank {
        Rank {
            is_lasting,
            created: Timestamp::from_second(created).unwrap(),
            name: name.into(),
            namespace: "ns".into(),
            uid: Uid::from(name),
        }
    }

    #[test]
    fn whatever_comes_and_goes_those_over_the_threshold_are_the_first_of_all() {
        let mut rng = Rng::seeded(7);
        for threshold in [0, 1, 3, 50] {
            let mut ranked = Ranked::new(Some(threshold));
            let mut all = BTreeSet::new();
            for _ in 0..2_000 {
                let name = format!("p{}", rng.below(60));
                let rank = mk_rank(
                    rng.below(4) > 0,
                    i64::try_from(rng.below(5)).unwrap(),
                    &name,
                );
                if all.remove(&rank) {
                    ranked.remove(&rank);
                } else {
                    all.insert(rank.clone());
                    ranked.insert(rank);
                }
                let over = all.len().saturating_sub(threshold);
                let first: Vec<&Rank> = all.iter().take(over).collect();
                assert_eq!(ranked.over.iter().collect::<Vec<_>>(), first);
                assert_eq!(ranked.kept.len(), all.len() - over);
            }
        }
    }

    #[test]
    fn a_move_says_who_moved() {
        let [evicted, old, new] = [(false, 9, "c"), (true, 1, "b"), (true, 2, "a")]
            .map(|(is_lasting, created, name)| mk_rank(is_lasting, created, name));
        let mut ranked = Ranked::new(Some(1));
        assert_eq!(ranked.insert(new.clone()), None);
        assert_eq!(ranked.insert(old.clone()), Some(old.clone()));
        assert_eq!(ranked.insert(evicted.clone()), Some(evicted.clone()));
        assert_eq!(ranked.remove(&new), Left::Kept(Some(old.clone())));
        assert_eq!(ranked.insert(new), Some(old.clone()));
        assert_eq!(ranked.remove(&old), Left::Over);
        assert!(ranked.is_over(&evicted));
    }

    #[test]
    fn without_a_threshold_nobody_is_over_or_remembered() {
        let mut ranked = Ranked::new(None);
        let rank = mk_rank(true, 1, "a");
        assert_eq!(ranked.insert(rank.clone()), None);
        assert_eq!(ranked.remove(&rank), Left::Kept(None));
        assert!(ranked.kept.is_empty() && ranked.over.is_empty());
    }
}
