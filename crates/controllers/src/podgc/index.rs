//! What Pod GC knows: Pods and Nodes as far as its sweeps look at them, and who is due for which sweep since when.
//!
//! Feeds and answers change it, `decide` reads it. Who a sweep wants is worked out when something changes, never by
//! looking at everybody: upstream's `gc` (1.36) lists all Pods and all Nodes every 20 s. What a sweep wants becomes due
//! at the next round, on a grid of 20 s that begins when both kinds have been listed; what it wants no more is not due.

mod nodes;
mod ranked;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

pub(super) use nodes::{Lookup, Node};
use ranked::{Left, Rank, Ranked};

use super::facts::{Phase, PodFacts};
use super::{Key, PERIOD, QUARANTINE, Settings, Sweep};
use crate::runtime::call::CallTarget;
use crate::runtime::controller::WakeList;
use crate::runtime::kind::{KindCatalog, KindId, KindState};
use crate::runtime::queue::later;
use crate::runtime::record::{ObjectRecord, Revision, Uid};

/// All that is known.
#[derive(Debug)]
pub struct Index {
    pub(super) settings: Settings,
    pods_kind: Listed,
    nodes_kind: Listed,
    /// Since when both kinds are known: the first round.
    since: Option<Timestamp>,
    pods: BTreeMap<Uid, Pod>,
    /// Those that a feed shows, and those that Pods are bound to.
    nodes: BTreeMap<Arc<str>, Node>,
    namespaces: BTreeMap<Arc<str>, Namespace>,
    /// Terminated Pods that their namespaces keep.
    cluster: Ranked,
    /// Who is wanted by which sweep, and from when on.
    due: BTreeMap<(Uid, Sweep), Timestamp>,
}

/// A Pod as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pod {
    pub(super) name: Arc<str>,
    pub(super) namespace: Arc<str>,
    /// Empty if it is not bound.
    pub(super) node: Arc<str>,
    pub(super) revision: Revision,
    pub(super) created: Timestamp,
    pub(super) generation: i64,
    pub(super) phase: Phase,
    pub(super) is_evicted: bool,
    pub(super) is_disrupted: bool,
    pub(super) is_terminating: bool,
    /// Its end has no grace period, or none left.
    pub(super) is_forced: bool,
    pub(super) has_finalizers: bool,
    /// Its delete was acknowledged.
    pub(super) is_going: bool,
    /// It was marked for this sweep, and does not change to another one because of that.
    pub(super) marked: Option<Sweep>,
    /// When the server last answered a mark.
    pub(super) marked_at: Option<Timestamp>,
}

/// A namespace with Pods.
#[derive(Debug)]
struct Namespace {
    pods: usize,
    terminated: Ranked,
}

/// How well a kind is known.
#[derive(Debug, Clone, Copy, Default)]
struct Listed {
    id: Option<KindId>,
    is_listed: bool,
    is_frozen: bool,
}

// === impl Index ===

impl Index {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            pods_kind: Listed::default(),
            nodes_kind: Listed::default(),
            since: None,
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            cluster: Ranked::new(settings.threshold),
            due: BTreeMap::new(),
        }
    }

    /// How many Pods are known.
    #[must_use]
    pub fn pods(&self) -> usize {
        self.pods.len()
    }

    /// How many Pods a sweep wants, now or at a later round.
    #[must_use]
    pub fn wanted(&self) -> usize {
        self.due.len()
    }

    pub(super) fn pod(&self, uid: &Uid) -> Option<&Pod> {
        self.pods.get(uid)
    }

    pub(super) fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.get(name)
    }

    /// Whether both kinds have been listed once: before that nothing follows, as upstream.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.since.is_some()
    }

    /// Whether a kind's past was taken back, and a fresh list has not been applied yet.
    pub(super) fn is_frozen(&self) -> bool {
        self.pods_kind.is_frozen || self.nodes_kind.is_frozen
    }

    /// From when on a Pod is due for a sweep; nothing if the sweep does not want it.
    pub(super) fn due(&self, uid: &Uid, sweep: Sweep) -> Option<Timestamp> {
        self.due.get(&(uid.clone(), sweep)).copied()
    }

    pub(super) fn is_pod(&self, kind: KindId) -> bool {
        self.pods_kind.id == Some(kind)
    }

    pub(super) fn is_node(&self, kind: KindId) -> bool {
        self.nodes_kind.id == Some(kind)
    }

    pub(super) fn target_of_pod(&self, pod: &Pod) -> Option<CallTarget> {
        Some(CallTarget {
            kind: self.pods_kind.id?,
            namespace: pod.namespace.as_ref().into(),
            name: pod.name.as_ref().into(),
        })
    }

    pub(super) fn target_of_node(&self, name: &str) -> Option<CallTarget> {
        Some(CallTarget {
            kind: self.nodes_kind.id?,
            namespace: "".into(),
            name: name.into(),
        })
    }

    /// Whether a namespace has too many terminated Pods, and this is one of those that go.
    pub(super) fn is_over_in_namespace(&self, uid: &Uid, pod: &Pod) -> bool {
        let namespace = self.namespaces.get(&pod.namespace);
        match (namespace, self.rank(uid, pod)) {
            (Some(namespace), Some(rank)) => namespace.terminated.is_over(&rank),
            _ => false,
        }
    }

    /// Whether a Pod only waits for others to take their finalizers off: nothing more can be asked for.
    pub(super) fn is_held(&self, pod: &Pod) -> bool {
        let is_told = pod.phase.is_final() || !self.settings.marks_failed;
        pod.is_terminating && pod.is_forced && pod.has_finalizers && is_told
    }

    /// The first round after a time.
    pub(super) fn next_round(&self, now: Timestamp) -> Timestamp {
        let since = self.since.unwrap_or(now);
        let period = i128::try_from(PERIOD.as_nanos()).expect("a period is short");
        let rounds = now.duration_since(since).as_nanos().div_euclid(period) + 1;
        let after = i64::try_from(rounds * period / 1_000_000_000).unwrap_or(i64::MAX);
        let after = SignedDuration::from_secs(after);
        since.checked_add(after).unwrap_or(Timestamp::MAX)
    }

    pub(super) fn know_catalog(&mut self, catalog: &KindCatalog) {
        self.pods_kind.id = catalog.id("", "pods");
        self.nodes_kind.id = catalog.id("", "nodes");
    }

    pub(super) fn know_kind(
        &mut self,
        kind: KindId,
        state: KindState,
        now: Timestamp,
        wake: &mut WakeList<Key>,
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
            // What is known of it is what was known before.
            KindState::Syncing(_) | KindState::Forbidden | KindState::Failing(_) => {}
        }

        let is_complete = self.pods_kind.is_listed && self.nodes_kind.is_listed;
        if !is_complete {
            self.since = None;
            self.due.clear();
        }
        // Of a store that was set back even versions mean something else: what was known would hide what is there.
        if matches!(state, KindState::Gone | KindState::Frozen) {
            self.forget_kind(kind, now, wake);
        }
        if is_complete && self.since.is_none() {
            self.since = Some(now);
            let all: Vec<Uid> = self.pods.keys().cloned().collect();
            for uid in all {
                self.review(&uid, now, wake);
            }
        }
    }

    /// A Pod exists and looks like this.
    pub(super) fn apply_pod(
        &mut self,
        record: &ObjectRecord,
        now: Timestamp,
        wake: &mut WakeList<Key>,
    ) {
        let uid = &record.meta.uid;
        let known = self.pods.get(uid);
        if known.is_some_and(|known| record.meta.revision.is_before(&known.revision)) {
            return;
        }
        let Some(facts) = PodFacts::read(&record.body) else {
            tracing::debug!(namespace = %record.meta.namespace, name = %record.meta.name, "a Pod is not readable");
            return self.forget_pod(uid, now, wake);
        };
        let before = self.pods.get(uid).and_then(|pod| self.rank(uid, pod));
        let pod = self.pod_of(record, &facts);
        let known = self.pods.insert(uid.clone(), pod.clone());
        match known {
            Some(known) if known.node != pod.node => {
                self.unbind(uid, &known.node);
                self.bind(uid, &pod.node);
            }
            Some(_) => {}
            None => {
                self.enter(&pod.namespace);
                self.bind(uid, &pod.node);
            }
        }
        self.settle(uid, before, self.next_round(now), wake);
    }

    /// The same for an answer: a Pod whose end a feed has shown stays ended.
    pub(super) fn apply_known(
        &mut self,
        record: &ObjectRecord,
        now: Timestamp,
        wake: &mut WakeList<Key>,
    ) {
        if self.pods.contains_key(&record.meta.uid) {
            self.apply_pod(record, now, wake);
        }
    }

    /// A Pod was marked, for the sweep that it is due for.
    pub(super) fn mark(&mut self, uid: &Uid, now: Timestamp, wake: &mut WakeList<Key>) {
        let is_due = |sweep: &Sweep| self.due(uid, *sweep).is_some_and(|due| due <= now);
        let sweep = Sweep::ALL.into_iter().find(is_due);
        self.change(uid, now, wake, |pod| {
            pod.marked = sweep.filter(|sweep| *sweep != Sweep::Terminated);
            pod.marked_at = Some(now);
        });
    }

    /// A delete was acknowledged; a feed will show the end.
    pub(super) fn going(&mut self, uid: &Uid, now: Timestamp, wake: &mut WakeList<Key>) {
        self.change(uid, now, wake, |pod| pod.is_going = true);
    }

    fn change(
        &mut self,
        uid: &Uid,
        now: Timestamp,
        wake: &mut WakeList<Key>,
        change: impl FnOnce(&mut Pod),
    ) {
        let before = self.pods.get(uid).and_then(|pod| self.rank(uid, pod));
        if let Some(pod) = self.pods.get_mut(uid) {
            change(pod);
            self.settle(uid, before, self.next_round(now), wake);
        }
    }

    /// A Pod is gone, or nobody knows it any more. That is all the same here.
    pub(super) fn forget_pod(&mut self, uid: &Uid, now: Timestamp, wake: &mut WakeList<Key>) {
        let Some(pod) = self.pods.get(uid).cloned() else {
            return;
        };
        let before = self.rank(uid, &pod);
        self.pods.remove(uid);
        self.unbind(uid, &pod.node);
        self.settle(uid, before, self.next_round(now), wake);
        self.leave(&pod.namespace);
    }

    fn forget_kind(&mut self, kind: KindId, now: Timestamp, wake: &mut WakeList<Key>) {
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

    /// The names that many Pods share are shared.
    fn pod_of(&self, record: &ObjectRecord, facts: &PodFacts<'_>) -> Pod {
        let meta = &record.meta;
        let shared = |known: Option<&Arc<str>>, text: &str| known.cloned().unwrap_or(text.into());
        let namespace = self.namespaces.get_key_value(&*meta.namespace);
        let node = self.nodes.get_key_value(&*facts.node);
        let known = self.pods.get(&meta.uid);
        Pod {
            name: shared(known.map(|pod| &pod.name), &meta.name),
            namespace: shared(namespace.map(|(name, _)| name), &meta.namespace),
            node: shared(node.map(|(name, _)| name), &facts.node),
            revision: meta.revision.clone(),
            created: facts.created,
            generation: facts.generation,
            phase: facts.phase,
            is_evicted: facts.is_evicted,
            is_disrupted: facts.is_disrupted,
            is_terminating: meta.deletion.is_some(),
            is_forced: facts.is_forced,
            has_finalizers: !meta.finalizers.is_empty(),
            is_going: known.is_some_and(|pod| pod.is_going),
            marked: known.and_then(|pod| pod.marked),
            marked_at: known.and_then(|pod| pod.marked_at),
        }
    }

    /// Where a Pod stands among the terminated ones; nowhere if it does not count: it has not terminated, or it goes
    /// already.
    ///
    /// DEVIATION(held-pods): upstream counts a Pod that only waits for a finalizer, and deletes it again every 20 s.
    fn rank(&self, uid: &Uid, pod: &Pod) -> Option<Rank> {
        let goes = pod.is_going || pod.marked.is_some() || self.is_held(pod);
        (pod.phase.is_terminated() && !goes).then(|| Rank {
            is_lasting: !pod.is_evicted,
            created: pod.created,
            name: pod.name.clone(),
            namespace: pod.namespace.clone(),
            uid: uid.clone(),
        })
    }

    /// A Pod changed: its rank did too, perhaps, and with it who is over the threshold.
    fn settle(
        &mut self,
        uid: &Uid,
        before: Option<Rank>,
        round: Timestamp,
        wake: &mut WakeList<Key>,
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
                self.count_out(&before, &mut moved);
            }
            if let Some(after) = after {
                self.count_in(after, &mut moved);
            }
        }
        for uid in &moved {
            self.review(uid, round, wake);
        }
    }

    fn count_in(&mut self, rank: Rank, moved: &mut BTreeSet<Uid>) {
        let Some(namespace) = self.namespaces.get_mut(&rank.namespace) else {
            return;
        };
        let out = namespace.terminated.insert(rank.clone());
        if out.as_ref() != Some(&rank) {
            self.count_in_cluster(rank, moved);
        }
        if let Some(out) = out {
            self.count_out_of_cluster(&out, moved);
            moved.insert(out.uid);
        }
    }

    fn count_out(&mut self, rank: &Rank, moved: &mut BTreeSet<Uid>) {
        let Some(namespace) = self.namespaces.get_mut(&rank.namespace) else {
            return;
        };
        if let Left::Kept(back) = namespace.terminated.remove(rank) {
            self.count_out_of_cluster(rank, moved);
            if let Some(back) = back {
                moved.insert(back.uid.clone());
                self.count_in_cluster(back, moved);
            }
        }
    }

    fn count_in_cluster(&mut self, rank: Rank, moved: &mut BTreeSet<Uid>) {
        let out = self.cluster.insert(rank);
        moved.extend(out.map(|out| out.uid));
    }

    fn count_out_of_cluster(&mut self, rank: &Rank, moved: &mut BTreeSet<Uid>) {
        if let Left::Kept(Some(back)) = self.cluster.remove(rank) {
            moved.insert(back.uid);
        }
    }

    /// Works out which sweeps want a Pod. What is due already stays due since then.
    fn review(&mut self, uid: &Uid, round: Timestamp, wake: &mut WakeList<Key>) {
        if self.since.is_none() {
            return;
        }
        for sweep in Sweep::ALL {
            let key = (uid.clone(), sweep);
            if !self.wants(sweep, uid) {
                self.due.remove(&key);
                continue;
            }
            if self.due.contains_key(&key) {
                continue;
            }
            let at = match sweep {
                Sweep::Orphaned => self.quarantined_until(uid, round),
                Sweep::Terminated | Sweep::OutOfService | Sweep::Unscheduled => round,
            };
            self.due.insert(key, at);
            wake.at(Key::Pod(uid.clone()), at);
        }
    }

    fn wants(&self, sweep: Sweep, uid: &Uid) -> bool {
        let Some(pod) = self.pods.get(uid) else {
            return false;
        };
        if pod.is_going || self.is_held(pod) {
            return false;
        }
        let node = || self.nodes.get(&pod.node);
        match sweep {
            Sweep::Terminated => {
                let is_over = |rank: Rank| self.cluster.is_over(&rank);
                self.rank(uid, pod).is_some_and(is_over) || self.is_over_in_namespace(uid, pod)
            }
            Sweep::OutOfService => {
                let is_lost = || node().is_some_and(Node::is_lost);
                self.settings.sweeps_out_of_service && pod.is_terminating && is_lost()
            }
            Sweep::Orphaned => node().is_some_and(|node| !node.is_shown()),
            Sweep::Unscheduled => pod.is_terminating && pod.node.is_empty(),
        }
    }

    fn enter(&mut self, namespace: &Arc<str>) {
        let threshold = self.settings.threshold_per_namespace;
        let entry = self.namespaces.entry(namespace.clone());
        let new = || Namespace {
            pods: 0,
            terminated: Ranked::new(threshold),
        };
        entry.or_insert_with(new).pods += 1;
    }

    fn leave(&mut self, namespace: &Arc<str>) {
        if let Some(known) = self.namespaces.get_mut(namespace) {
            known.pods -= 1;
            if known.pods == 0 {
                self.namespaces.remove(namespace);
            }
        }
    }
}

/// When a quarantine that begins at a time ends.
pub(super) fn quarantine(from: Timestamp) -> Timestamp {
    later(from, QUARANTINE)
}

/// Whether something that was learned at a time still holds. A clock that was set back must not make it last longer.
pub(super) fn is_fresh(at: Timestamp, lasts: Duration, now: Timestamp) -> bool {
    let age = now.duration_since(at);
    !age.is_negative() && age < SignedDuration::try_from(lasts).unwrap_or(SignedDuration::MAX)
}
