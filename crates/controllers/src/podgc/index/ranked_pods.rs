//! Terminated Pods in the order of their removal, split at the threshold into kept Pods and Pods over the threshold.
//!
//! Every change keeps the split up to date, so no round has to sort or count. Mirrors the order of upstream's
//! `byEvictionAndCreationTimestamp`: evicted Pods first, then the oldest, then by name.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use crate::runtime::record::Uid;

/// The rank of a terminated Pod. Pods with the least rank are removed first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PodRank {
    /// Evicted Pods are removed first.
    pub(crate) is_not_evicted: bool,
    pub(crate) created: Timestamp,
    pub(crate) name: Arc<str>,
    pub(crate) namespace: Arc<str>,
    pub(crate) uid: Uid,
}

/// Pods by rank. Every Pod in `over` ranks before every Pod in `kept`, and `over` is empty unless `kept` is full.
#[derive(Debug, Default)]
pub(crate) struct RankedPods {
    /// How many Pods are kept. Without a threshold no Pod is counted.
    threshold: Option<usize>,
    over: BTreeSet<PodRank>,
    kept: BTreeSet<PodRank>,
}

/// The part that a removed Pod was in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RankRemoval {
    /// It was over the threshold.
    Over,
    /// It was kept, or not counted. The Pod here is kept in its place.
    Kept(Option<PodRank>),
}

// === impl RankedPods ===

impl RankedPods {
    pub(crate) fn new(threshold: Option<usize>) -> Self {
        Self {
            threshold,
            ..Self::default()
        }
    }

    /// Counts one more Pod. Returns the Pod that is over the threshold because of it, if any: this or another one.
    pub(crate) fn insert(&mut self, rank: PodRank) -> Option<PodRank> {
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

    /// Counts one Pod less.
    pub(crate) fn remove(&mut self, rank: &PodRank) -> RankRemoval {
        if self.over.remove(rank) {
            return RankRemoval::Over;
        }
        if !self.kept.remove(rank) {
            return RankRemoval::Kept(None);
        }
        let back = self.over.pop_last();
        self.kept.extend(back.clone());
        RankRemoval::Kept(back)
    }

    pub(crate) fn is_over(&self, rank: &PodRank) -> bool {
        self.over.contains(rank)
    }
}

#[cfg(test)]
mod tests {
    use caretaker_machinery::rng::Rng;

    use super::*;

    fn mk_rank(is_lasting: bool, created: i64, name: &str) -> PodRank {
        PodRank {
            is_not_evicted: is_lasting,
            created: Timestamp::from_second(created).unwrap(),
            name: name.into(),
            namespace: "ns".into(),
            uid: Uid::from(name),
        }
    }

    #[test]
    fn the_first_ranks_are_over_the_threshold() {
        let mut rng = Rng::seeded(7);
        for threshold in [0, 1, 3, 50] {
            let mut ranked = RankedPods::new(Some(threshold));
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
                let first: Vec<&PodRank> = all.iter().take(over).collect();
                assert_eq!(ranked.over.iter().collect::<Vec<_>>(), first);
                assert_eq!(ranked.kept.len(), all.len() - over);
            }
        }
    }

    #[test]
    fn insert_and_remove_return_the_pod_that_moved() {
        let [evicted, old, new] = [(false, 9, "c"), (true, 1, "b"), (true, 2, "a")]
            .map(|(is_lasting, created, name)| mk_rank(is_lasting, created, name));
        let mut ranked = RankedPods::new(Some(1));
        assert_eq!(ranked.insert(new.clone()), None);
        assert_eq!(ranked.insert(old.clone()), Some(old.clone()));
        assert_eq!(ranked.insert(evicted.clone()), Some(evicted.clone()));
        assert_eq!(ranked.remove(&new), RankRemoval::Kept(Some(old.clone())));
        assert_eq!(ranked.insert(new), Some(old.clone()));
        assert_eq!(ranked.remove(&old), RankRemoval::Over);
        assert!(ranked.is_over(&evicted));
    }

    #[test]
    fn without_a_threshold_no_pod_is_counted() {
        let mut ranked = RankedPods::new(None);
        let rank = mk_rank(true, 1, "a");
        assert_eq!(ranked.insert(rank.clone()), None);
        assert_eq!(ranked.remove(&rank), RankRemoval::Kept(None));
        assert!(ranked.kept.is_empty() && ranked.over.is_empty());
    }
}
