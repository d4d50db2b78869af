//! The index of Pod GC: Pods and Nodes, and when each Pod is due for which sweep.
//!
//! Feeds and answers change it, `decide` reads it. A change updates only the Pods that it concerns; upstream's `gc` (1.36)
//! scans all Pods and all Nodes every 20 s. A Pod that a sweep wants becomes due at the next round. Rounds are 20 s apart,
//! from the time when both kinds have been listed. A Pod that the sweep no longer wants is not due any more.

mod nodes;
mod ranked_pods;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

pub(super) use nodes::{KnownNode, NodeLookup};
use ranked_pods::{PodRank, RankRemoval, RankedPods};

use super::facts::PodFacts;
use super::{PERIOD, PodGcKey, PodGcSettings, PodGcWake, PodSweep};
use crate::runtime::call::CallTarget;
use crate::runtime::kind::{KindCatalog, KindId, KindState};
use crate::runtime::record::{ObjectRecord, Revision, Uid};

/// Pods, Nodes, the order of terminated Pods, and the times at which Pods are due.
#[derive(Debug)]
pub struct PodGcIndex {
    pub(super) settings: PodGcSettings,
    pods_kind: KindListing,
    nodes_kind: KindListing,
    /// When both kinds had been listed: the time of the first round.
    complete_since: Option<Timestamp>,
    pods: BTreeMap<Uid, KnownPod>,
    /// Nodes that a feed shows, and names of Nodes that Pods are bound to.
    nodes: BTreeMap<Arc<str>, KnownNode>,
    namespaces: BTreeMap<Arc<str>, NamespacePods>,
    /// Terminated Pods that are not over the threshold of their namespace.
    cluster_terminated: RankedPods,
    /// From when on each Pod is due for a sweep that wants it.
    due: BTreeMap<(Uid, PodSweep), Timestamp>,
}

/// The fields of a Pod that decisions need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownPod {
    pub(super) name: Arc<str>,
    pub(super) namespace: Arc<str>,
    /// Empty if the Pod is not bound.
    pub(super) node: Arc<str>,
    pub(super) revision: Revision,
    pub(super) facts: PodFacts,
    pub(super) is_terminating: bool,
    pub(super) has_finalizers: bool,
    /// The server acknowledged our delete.
    pub(super) is_going: bool,
    /// The sweep that it was marked for. The mark must not move it to the sweep of terminated Pods.
    pub(super) marked: Option<PodSweep>,
    /// When the server last answered a mark.
    pub(super) marked_at: Option<Timestamp>,
}

/// The Pods of one namespace.
#[derive(Debug)]
struct NamespacePods {
    pods: usize,
    terminated: RankedPods,
}

/// The state of a kind's feed.
#[derive(Debug, Clone, Copy, Default)]
struct KindListing {
    id: Option<KindId>,
    is_listed: bool,
    is_frozen: bool,
}

// === impl PodGcIndex ===

impl PodGcIndex {
    pub(super) fn new(settings: PodGcSettings) -> Self {
        Self {
            settings,
            pods_kind: KindListing::default(),
            nodes_kind: KindListing::default(),
            complete_since: None,
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            cluster_terminated: RankedPods::new(settings.threshold),
            due: BTreeMap::new(),
        }
    }

    /// The number of Pods.
    #[must_use]
    pub fn pods(&self) -> usize {
        self.pods.len()
    }

    /// The number of pairs of a Pod and a sweep that wants it, now or at a later round.
    #[must_use]
    pub fn wanted(&self) -> usize {
        self.due.len()
    }

    pub(super) fn pod(&self, uid: &Uid) -> Option<&KnownPod> {
        self.pods.get(uid)
    }

    pub(super) fn node(&self, name: &str) -> Option<&KnownNode> {
        self.nodes.get(name)
    }

    /// Whether both kinds have been listed. Before that Pod GC writes nothing, as upstream.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete_since.is_some()
    }

    /// Whether the store was restored and one of the kinds has not been listed again.
    pub(super) fn is_frozen(&self) -> bool {
        self.pods_kind.is_frozen || self.nodes_kind.is_frozen
    }

    /// From when on a Pod is due for a sweep; `None` if the sweep does not want it.
    pub(super) fn due(&self, uid: &Uid, sweep: PodSweep) -> Option<Timestamp> {
        self.due.get(&(uid.clone(), sweep)).copied()
    }

    pub(super) fn is_pod(&self, kind: KindId) -> bool {
        self.pods_kind.id == Some(kind)
    }

    pub(super) fn is_node(&self, kind: KindId) -> bool {
        self.nodes_kind.id == Some(kind)
    }

    pub(super) fn target_of_pod(&self, pod: &KnownPod) -> Option<CallTarget> {
        let kind = self.pods_kind.id?;
        Some(CallTarget::new(kind, &*pod.namespace, &*pod.name))
    }

    pub(super) fn target_of_node(&self, name: &str) -> Option<CallTarget> {
        Some(CallTarget::new(self.nodes_kind.id?, "", name))
    }

    /// Whether a terminated Pod is over the threshold of its namespace.
    pub(super) fn exceeds_namespace_threshold(&self, uid: &Uid, pod: &KnownPod) -> bool {
        let namespace = self.namespaces.get(&pod.namespace);
        match (namespace, self.rank(uid, pod)) {
            (Some(namespace), Some(rank)) => namespace.terminated.is_over(&rank),
            _ => false,
        }
    }

    /// Whether a Pod was marked and deleted already, and only finalizers keep it.
    pub(super) fn is_held(&self, pod: &KnownPod) -> bool {
        let needs_no_mark = pod.facts.phase.is_final() || !self.settings.marks_failed;
        pod.is_terminating && pod.facts.is_forced && pod.has_finalizers && needs_no_mark
    }

    /// The first round after a time.
    pub(super) fn next_round(&self, now: Timestamp) -> Timestamp {
        let since = self.complete_since.unwrap_or(now);
        let period = i128::try_from(PERIOD.as_nanos()).expect("a period is short");
        let rounds = now.duration_since(since).as_nanos().div_euclid(period) + 1;
        let after = i64::try_from(rounds * period / 1_000_000_000).unwrap_or(i64::MAX);
        let after = SignedDuration::from_secs(after);
        since.checked_add(after).unwrap_or(Timestamp::MAX)
    }

    pub(super) fn set_catalog(&mut self, catalog: &KindCatalog) {
        self.pods_kind.id = catalog.id("", "pods");
        self.nodes_kind.id = catalog.id("", "nodes");
    }

    pub(super) fn set_kind_state(
        &mut self,
        kind: KindId,
        state: KindState,
        now: Timestamp,
        wake: &mut PodGcWake,
    ) {
        let listed = if self.is_pod(kind) {
            &mut self.pods_kind
        } else if self.is_node(kind) {
            &mut self.nodes_kind
        } else {
            return;
        };
        listed.is_frozen = state == KindState::Frozen;
        match state {
            KindState::Synced => listed.is_listed = true,
            KindState::Gone | KindState::Frozen => listed.is_listed = false,
            // The index keeps the objects that it has.
            KindState::Syncing(_) | KindState::Forbidden | KindState::Failing(_) => {}
        }

        let is_complete = self.pods_kind.is_listed && self.nodes_kind.is_listed;
        if !is_complete {
            self.complete_since = None;
            self.due.clear();
        }
        // After a restore the old resourceVersions are void, and the known copies would hide the restored ones.
        if matches!(state, KindState::Gone | KindState::Frozen) {
            self.forget_kind(kind, now, wake);
        }
        if is_complete && self.complete_since.is_none() {
            self.complete_since = Some(now);
            let all: Vec<Uid> = self.pods.keys().cloned().collect();
            for uid in all {
                self.update_due(&uid, now, wake);
            }
        }
    }

    /// Applies the current state of a Pod. An older copy is ignored.
    pub(super) fn apply_pod(
        &mut self,
        record: &ObjectRecord,
        now: Timestamp,
        wake: &mut PodGcWake,
    ) {
        let uid = &record.meta.uid;
        let known = self.pods.get(uid);
        if known.is_some_and(|known| record.meta.revision.is_before(&known.revision)) {
            return;
        }
        let Some((facts, node)) = PodFacts::read(&record.body) else {
            tracing::debug!(namespace = %record.meta.namespace, name = %record.meta.name, "a Pod cannot be decoded and is ignored");
            return self.forget_pod(uid, now, wake);
        };
        let before = self.pods.get(uid).and_then(|pod| self.rank(uid, pod));
        let pod = self.pod_of(record, facts, &node);
        let known = self.pods.insert(uid.clone(), pod.clone());
        match known {
            Some(known) if known.node != pod.node => {
                self.unbind(uid, &known.node);
                self.bind(uid, &pod.node);
            }
            Some(_) => {}
            None => {
                self.add_to_namespace(&pod.namespace);
                self.bind(uid, &pod.node);
            }
        }
        self.update_rank(uid, before, self.next_round(now), wake);
    }

    /// Applies a Pod from an answer, unless a feed has shown its DELETED event already.
    pub(super) fn apply_if_known(
        &mut self,
        record: &ObjectRecord,
        now: Timestamp,
        wake: &mut PodGcWake,
    ) {
        if self.pods.contains_key(&record.meta.uid) {
            self.apply_pod(record, now, wake);
        }
    }

    /// Records that a Pod was marked, and for which sweep.
    pub(super) fn record_mark(&mut self, uid: &Uid, now: Timestamp, wake: &mut PodGcWake) {
        let is_due = |sweep: &PodSweep| self.due(uid, *sweep).is_some_and(|due| due <= now);
        let sweep = PodSweep::ALL.into_iter().find(is_due);
        self.change(uid, now, wake, |pod| {
            pod.marked = sweep.filter(|sweep| *sweep != PodSweep::Terminated);
            pod.marked_at = Some(now);
        });
    }

    /// Records that a delete was acknowledged. The feed will show the DELETED event.
    pub(super) fn mark_going(&mut self, uid: &Uid, now: Timestamp, wake: &mut PodGcWake) {
        self.change(uid, now, wake, |pod| pod.is_going = true);
    }

    fn change(
        &mut self,
        uid: &Uid,
        now: Timestamp,
        wake: &mut PodGcWake,
        change: impl FnOnce(&mut KnownPod),
    ) {
        let before = self.pods.get(uid).and_then(|pod| self.rank(uid, pod));
        if let Some(pod) = self.pods.get_mut(uid) {
            change(pod);
            self.update_rank(uid, before, self.next_round(now), wake);
        }
    }

    /// Removes a Pod that is gone, or that a relist did not show.
    pub(super) fn forget_pod(&mut self, uid: &Uid, now: Timestamp, wake: &mut PodGcWake) {
        let Some(pod) = self.pods.get(uid).cloned() else {
            return;
        };
        let before = self.rank(uid, &pod);
        self.pods.remove(uid);
        self.unbind(uid, &pod.node);
        self.update_rank(uid, before, self.next_round(now), wake);
        self.remove_from_namespace(&pod.namespace);
    }

    fn forget_kind(&mut self, kind: KindId, now: Timestamp, wake: &mut PodGcWake) {
        if self.is_pod(kind) {
            let all: Vec<Uid> = self.pods.keys().cloned().collect();
            for uid in all {
                self.forget_pod(&uid, now, wake);
            }
        } else {
            let all: Vec<Arc<str>> = self.nodes.keys().cloned().collect();
            for name in all {
                self.hide_node(&name, now, wake);
            }
        }
    }

    /// Builds the record of a Pod. Pods share the texts of their namespace and Node.
    fn pod_of(&self, record: &ObjectRecord, facts: PodFacts, node: &str) -> KnownPod {
        let meta = &record.meta;
        let shared = |known: Option<&Arc<str>>, text: &str| known.cloned().unwrap_or(text.into());
        let namespace = self.namespaces.get_key_value(&*meta.namespace);
        let known_node = self.nodes.get_key_value(node);
        let known = self.pods.get(&meta.uid);
        KnownPod {
            name: shared(known.map(|pod| &pod.name), &meta.name),
            namespace: shared(namespace.map(|(name, _)| name), &meta.namespace),
            node: shared(known_node.map(|(name, _)| name), node),
            revision: meta.revision.clone(),
            facts,
            is_terminating: meta.deletion.is_some(),
            has_finalizers: !meta.finalizers.is_empty(),
            is_going: known.is_some_and(|pod| pod.is_going),
            marked: known.and_then(|pod| pod.marked),
            marked_at: known.and_then(|pod| pod.marked_at),
        }
    }

    /// The rank of a Pod among the terminated ones; `None` if it has not terminated, or is being removed already.
    ///
    /// DEVIATION(held-pods): upstream counts a Pod that only a finalizer keeps, and deletes it again every 20 s.
    fn rank(&self, uid: &Uid, pod: &KnownPod) -> Option<PodRank> {
        let goes = pod.is_going || pod.marked.is_some() || self.is_held(pod);
        (pod.facts.phase.is_terminated() && !goes).then(|| PodRank {
            is_not_evicted: !pod.facts.is_evicted,
            created: pod.facts.created,
            name: pod.name.clone(),
            namespace: pod.namespace.clone(),
            uid: uid.clone(),
        })
    }

    /// Updates the rank of a Pod after a change, and the Pods that this moves over or under a threshold.
    fn update_rank(
        &mut self,
        uid: &Uid,
        before: Option<PodRank>,
        round: Timestamp,
        wake: &mut PodGcWake,
    ) {
        let marked = self.pods.get(uid).and_then(|pod| pod.marked);
        if marked.is_some_and(|sweep| !self.wants(sweep, uid))
            && let Some(pod) = self.pods.get_mut(uid)
        {
            pod.marked = None;
        }
        let after = self.pods.get(uid).and_then(|pod| self.rank(uid, pod));
        let mut moved = BTreeSet::from([uid.clone()]);
        if before != after {
            if let Some(before) = before {
                self.remove_rank(&before, &mut moved);
            }
            if let Some(after) = after {
                self.add_rank(after, &mut moved);
            }
        }
        for uid in &moved {
            self.update_due(uid, round, wake);
        }
    }

    fn add_rank(&mut self, rank: PodRank, moved: &mut BTreeSet<Uid>) {
        let Some(namespace) = self.namespaces.get_mut(&rank.namespace) else {
            return;
        };
        let out = namespace.terminated.insert(rank.clone());
        if out.as_ref() != Some(&rank) {
            self.add_cluster_rank(rank, moved);
        }
        if let Some(out) = out {
            self.remove_cluster_rank(&out, moved);
            moved.insert(out.uid);
        }
    }

    fn remove_rank(&mut self, rank: &PodRank, moved: &mut BTreeSet<Uid>) {
        let Some(namespace) = self.namespaces.get_mut(&rank.namespace) else {
            return;
        };
        if let RankRemoval::Kept(back) = namespace.terminated.remove(rank) {
            self.remove_cluster_rank(rank, moved);
            if let Some(back) = back {
                moved.insert(back.uid.clone());
                self.add_cluster_rank(back, moved);
            }
        }
    }

    fn add_cluster_rank(&mut self, rank: PodRank, moved: &mut BTreeSet<Uid>) {
        let out = self.cluster_terminated.insert(rank);
        moved.extend(out.map(|out| out.uid));
    }

    fn remove_cluster_rank(&mut self, rank: &PodRank, moved: &mut BTreeSet<Uid>) {
        if let RankRemoval::Kept(Some(back)) = self.cluster_terminated.remove(rank) {
            moved.insert(back.uid);
        }
    }

    /// Updates which sweeps want a Pod. A time at which it is due already does not change.
    fn update_due(&mut self, uid: &Uid, round: Timestamp, wake: &mut PodGcWake) {
        if self.complete_since.is_none() {
            return;
        }
        for sweep in PodSweep::ALL {
            let key = (uid.clone(), sweep);
            if !self.wants(sweep, uid) {
                self.due.remove(&key);
                continue;
            }
            if self.due.contains_key(&key) {
                continue;
            }
            let at = match sweep {
                PodSweep::Orphaned => self.quarantined_until(uid, round),
                PodSweep::Terminated | PodSweep::OutOfService | PodSweep::Unscheduled => round,
            };
            self.due.insert(key, at);
            wake.at(PodGcKey::Pod(uid.clone()), at);
        }
    }

    fn wants(&self, sweep: PodSweep, uid: &Uid) -> bool {
        let Some(pod) = self.pods.get(uid) else {
            return false;
        };
        if pod.is_going || self.is_held(pod) {
            return false;
        }
        let node = || self.nodes.get(&pod.node);
        match sweep {
            PodSweep::Terminated => {
                let is_over = |rank: PodRank| self.cluster_terminated.is_over(&rank);
                self.rank(uid, pod).is_some_and(is_over)
                    || self.exceeds_namespace_threshold(uid, pod)
            }
            PodSweep::OutOfService => {
                let is_lost = || node().is_some_and(KnownNode::is_shut_down);
                self.settings.sweeps_out_of_service && pod.is_terminating && is_lost()
            }
            PodSweep::Orphaned => node().is_some_and(|node| !node.is_shown()),
            PodSweep::Unscheduled => pod.is_terminating && pod.node.is_empty(),
        }
    }

    fn add_to_namespace(&mut self, namespace: &Arc<str>) {
        let threshold = self.settings.threshold_per_namespace;
        let entry = self.namespaces.entry(namespace.clone());
        let new = || NamespacePods {
            pods: 0,
            terminated: RankedPods::new(threshold),
        };
        entry.or_insert_with(new).pods += 1;
    }

    fn remove_from_namespace(&mut self, namespace: &Arc<str>) {
        if let Some(known) = self.namespaces.get_mut(namespace) {
            known.pods -= 1;
            if known.pods == 0 {
                self.namespaces.remove(namespace);
            }
        }
    }
}

/// Whether a result from `at` is still valid. A clock that was set back must not make it last longer.
pub(super) fn is_fresh(at: Timestamp, lasts: Duration, now: Timestamp) -> bool {
    let age = now.duration_since(at);
    !age.is_negative() && age < SignedDuration::try_from(lasts).unwrap_or(SignedDuration::MAX)
}
