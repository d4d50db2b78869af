//! How far each kind has been seen, and which orphaning owners wait for it.
//!
//! An owner in orphan deletion is released only after every kind has been seen up to the owner's deletion: a dependent
//! that a lagging watch has not shown yet would lose its owner without losing its reference, and would then be deleted
//! for the owner's absence. A kind has been seen so far if its feed has shown a version that is not older than the
//! owner's, or if a list that began afterwards shows no unknown dependent of the owner. Versions of different kinds can
//! be compared because one etcd counts them. An aggregated API server with a store of its own counts differently: with
//! lower numbers its kinds need a second list, and a higher number may pass for progress.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::OwnershipIndex;
use super::graph::{NodeId, ObjectFacts};
use crate::gc::standing::kind_name;
use crate::gc::{GcKey, KIND_WAIT_MAX};
use crate::runtime::call::{AbsenceProof, ObjectPage};
use crate::runtime::controller::{FeedProgress, WakeList};
use crate::runtime::kind::{KindId, KindState};
use crate::runtime::queue::later;
use crate::runtime::record::{ObjectRecord, Revision, Uid};

/// How long an orphaning owner waits for the watches before the other kinds are listed. Busy watches need no list.
pub(crate) const CATCH_UP_WAIT: Duration = Duration::from_millis(500);
/// How often an orphaning owner is decided again while it waits, and a kind listed again whose list showed an unknown
/// dependent.
pub(crate) const CATCH_UP_INTERVAL: Duration = Duration::from_secs(1);

/// The progress of all feeds and of the lists that replace it.
#[derive(Debug, Default)]
pub(crate) struct CatchUp {
    /// The highest version that the feed of each kind has shown. None while it lists.
    positions: BTreeMap<KindId, u64>,
    /// Since when each kind is forbidden. A refusal may pass: a proxy, an expired token, rights that are being changed.
    forbidden: BTreeMap<KindId, Timestamp>,
    checks: BTreeMap<KindId, KindCheck>,
    owners: BTreeMap<NodeId, OrphaningOwner>,
    last_number: u64,
}

/// An owner in orphan deletion.
#[derive(Debug)]
struct OrphaningOwner {
    /// Numbers grow in the order in which the index saw the deletions.
    number: u64,
    /// The version in which the index first saw the deletion; `None` if it is no number.
    revision: Option<u64>,
    since: Timestamp,
}

/// The list of a kind whose feed has not shown enough.
#[derive(Debug, Default)]
struct KindCheck {
    /// A complete list showed all dependents of owners up to this number, because it was requested after they were seen.
    checked: u64,
    /// The version of that list, and the last owner that was orphaning when its first page was read: it also showed all
    /// dependents of owners that are not newer and up to this number. It was not searched for those of later owners.
    revision: Option<u64>,
    searched: u64,
    /// Of these, the owners of which it showed an unknown dependent.
    unknown: BTreeSet<Uid>,
    /// The last owner that was orphaning at the last answer. A list that begins afterwards was requested later.
    answered: u64,
    /// The version that the feed had shown at the last answer. A list that begins afterwards is not older.
    position: Option<u64>,
    /// When the last list ended.
    ended: Option<Timestamp>,
    /// Whether the last list was older than what the feed had shown before, so that it counts for nothing.
    is_stale: bool,
    current: Option<CurrentList>,
}

/// A list that has not been read to its end.
#[derive(Debug)]
struct CurrentList {
    /// The last owner that was certainly orphaning when the list was requested.
    covers: u64,
    /// The version that the feed had certainly shown when the list was requested.
    shown: Option<u64>,
    revision: Option<u64>,
    /// The last owner that was orphaning when the first page was read.
    searched: u64,
    unknown: BTreeSet<Uid>,
    token: Option<Box<str>>,
}

/// What the check of a kind needs next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CheckStep {
    /// No owner waits for the kind.
    Settled,
    /// List it at this time.
    At(Timestamp),
    /// Request the page with this token, or the first one.
    Page(Option<Box<str>>),
}

// === impl CatchUp ===

impl CatchUp {
    fn is_seen(&self, kind: KindId, id: NodeId, uid: &Uid) -> bool {
        let Some(owner) = self.owners.get(&id) else {
            return true;
        };
        let position = self.positions.get(&kind);
        let is_followed =
            position.is_some_and(|seen| owner.revision.is_some_and(|own| own <= *seen));
        let is_listed = |check: &KindCheck| check.covers(owner) && !check.unknown.contains(uid);
        is_followed || self.checks.get(&kind).is_some_and(is_listed)
    }

    fn advance(&mut self, kind: KindId, revision: &Revision) {
        if let (Some(position), Revision::Number(number)) =
            (self.positions.get_mut(&kind), revision)
        {
            *position = (*position).max(*number);
        }
    }

    /// Forgets everything about a kind that is not watched any more.
    pub(super) fn forget_kind(&mut self, kind: KindId) {
        self.positions.remove(&kind);
        self.forbidden.remove(&kind);
        self.checks.remove(&kind);
    }

    pub(super) fn note_state(&mut self, kind: KindId, state: KindState, now: Timestamp) {
        match state {
            KindState::Forbidden => {
                self.forbidden.entry(kind).or_insert(now);
            }
            KindState::Synced => {
                self.forbidden.remove(&kind);
            }
            _ => {}
        }
    }

    /// Whether a kind has been forbidden for so long that no orphaning owner waits for it.
    fn is_closed(&self, kind: KindId, now: Timestamp) -> bool {
        let since = self.forbidden.get(&kind);
        since.is_some_and(|since| later(*since, KIND_WAIT_MAX) <= now)
    }

    pub(super) fn end(&mut self, id: NodeId) {
        self.owners.remove(&id);
        if self.owners.is_empty() {
            self.checks.clear();
        }
    }
}

// === impl KindCheck ===

impl KindCheck {
    /// Whether the list showed all dependents that an owner had when it was deleted.
    fn covers(&self, owner: &OrphaningOwner) -> bool {
        let is_newer = self.revision.zip(owner.revision);
        let is_newer = is_newer.is_some_and(|(listed, own)| own <= listed);
        owner.number <= self.checked || (is_newer && owner.number <= self.searched)
    }
}

// === impl CurrentList ===

impl CurrentList {
    /// Whether a server that lags, or a proxy, has served an old list.
    fn is_stale(&self) -> bool {
        let versions = self.revision.zip(self.shown);
        versions.is_some_and(|(listed, shown)| listed < shown)
    }
}

// === impl OwnershipIndex ===

impl OwnershipIndex {
    /// Takes note of a feed's progress.
    pub fn set_progress(
        &mut self,
        kind: KindId,
        progress: &FeedProgress,
        wake: &mut WakeList<GcKey>,
    ) {
        match progress {
            FeedProgress::UpTo(Revision::Number(number)) => {
                self.catch_up.positions.insert(kind, *number);
                self.wake_seen_owners(wake);
            }
            FeedProgress::UpTo(Revision::Odd(_)) => {}
            FeedProgress::Interrupted | FeedProgress::Relists => self.distrust_past(kind, wake),
        }
    }

    /// The feed of a kind lost its watch, or lists again: the store may have been restored. Proofs of absence of every kind
    /// are void, because each feed notices a restore by itself, and an absent owner may be back before its own feed
    /// notices. An owner in orphan deletion is read again before a dependent loses its reference.
    fn distrust_past(&mut self, kind: KindId, wake: &mut WakeList<GcKey>) {
        self.catch_up.positions.remove(&kind);
        self.void_absences();
        let owners = self.catch_up.owners.keys().copied();
        let of_kind = owners.filter(|id| self.graph.node(*id).kind == kind);
        for id in of_kind.collect::<Vec<_>>() {
            let node = self.graph.node_mut(id);
            node.facts = node.facts.with(ObjectFacts::DOUBTFUL);
            wake.now(self.key(id));
        }
    }

    /// Forgets all proofs of absence, and remembers the owners whose deletion was observed.
    pub(super) fn void_absences(&mut self) {
        let mut owners = self.lookups.forget_absences();
        let remembered = self.absent_owners.take_all();
        let observed = remembered.filter(|(_, (proof, _))| *proof == AbsenceProof::Observed);
        owners.extend(observed.map(|(owner, _)| owner.uid));
        for owner in owners {
            self.unproven_owners.insert(owner, ());
        }
    }

    /// Takes note of an object that a feed has shown: the feed has shown everything up to its version.
    pub fn advance(&mut self, record: &ObjectRecord) {
        self.catch_up.advance(record.kind, &record.meta.revision);
    }

    /// An owner is in orphan deletion: it waits until every kind has been seen.
    pub(super) fn begin_orphaning(&mut self, id: NodeId, wake: &mut WakeList<GcKey>) {
        if self.catch_up.owners.contains_key(&id) {
            return;
        }
        self.catch_up.last_number += 1;
        let owner = OrphaningOwner {
            number: self.catch_up.last_number,
            revision: self.graph.revision(id).number(),
            since: self.now,
        };
        self.catch_up.owners.insert(id, owner);
        let at = later(self.now, CATCH_UP_WAIT);
        for kind in self.states.keys() {
            wake.at(GcKey::Kind(*kind), at);
        }
    }

    /// Since when an owner is in orphan deletion, as far as the index saw it.
    pub(crate) fn orphaning_since(&self, id: NodeId) -> Option<Timestamp> {
        self.catch_up.owners.get(&id).map(|owner| owner.since)
    }

    /// The kinds that have not been seen up to an owner's orphan deletion, except those that have long been forbidden.
    pub(crate) fn unseen_kinds(&self, id: NodeId, now: Timestamp) -> impl Iterator<Item = KindId> {
        let uid = &self.graph.node(id).uid;
        let states = self.states.iter();
        let unseen = states.filter(move |(kind, state)| {
            let is_closed = **state == KindState::Forbidden && self.catch_up.is_closed(**kind, now);
            !is_closed && !self.catch_up.is_seen(**kind, id, uid)
        });
        unseen.map(|(kind, _)| *kind)
    }

    /// The names of all that has not been seen up to an owner's orphan deletion: kinds, and parts of discovery. Kinds that
    /// discovery has just found have no feed yet.
    pub(crate) fn unseen_names(&self, id: NodeId, now: Timestamp) -> Vec<String> {
        let unseen = self.unseen_kinds(id, now);
        let mut names: Vec<String> = unseen.map(|kind| kind_name(self, kind)).collect();
        names.extend(self.catalog.gaps().iter().cloned());
        if names.is_empty() && now < later(self.catalog_since, CATCH_UP_WAIT) {
            names.push("kinds that discovery has just found".to_owned());
        }
        names
    }

    /// What the list of a kind needs next. Only a synced kind is listed: another one is being listed by its feed, or
    /// cannot be listed.
    pub(crate) fn next_check(&self, kind: KindId, now: Timestamp) -> CheckStep {
        if self.states.get(&kind) != Some(&KindState::Synced) {
            return CheckStep::Settled;
        }
        let owners = self.catch_up.owners.iter();
        let waiting = owners.filter(|(id, _)| {
            let uid = &self.graph.node(**id).uid;
            !self.catch_up.is_seen(kind, **id, uid)
        });
        let due = waiting.map(|(_, owner)| later(owner.since, CATCH_UP_WAIT));
        match due.min() {
            None => return CheckStep::Settled,
            Some(due) if due > now => return CheckStep::At(due),
            Some(_) => {}
        }
        match self.catch_up.checks.get(&kind) {
            Some(KindCheck {
                current: Some(list),
                ..
            }) => CheckStep::Page(list.token.clone()),
            Some(KindCheck {
                ended: Some(ended),
                unknown,
                is_stale,
                ..
            }) if *is_stale || !unknown.is_empty() => match later(*ended, CATCH_UP_INTERVAL) {
                at if at > now => CheckStep::At(at),
                _ => CheckStep::Page(None),
            },
            _ => CheckStep::Page(None),
        }
    }

    /// Takes a page of the list of a kind. The page with no token before it begins a list.
    pub(crate) fn check_page(
        &mut self,
        kind: KindId,
        asked: Option<&str>,
        page: &ObjectPage,
        wake: &mut WakeList<GcKey>,
    ) {
        let unknown = self.owners_with_unknown_dependents(page);
        let last_number = self.catch_up.last_number;
        let check = self.catch_up.checks.entry(kind).or_default();
        let covers = std::mem::replace(&mut check.answered, last_number);
        let position = self.catch_up.positions.get(&kind).copied();
        let shown = std::mem::replace(&mut check.position, position);
        let mut list = match (asked, check.current.take()) {
            (Some(asked), Some(list)) if list.token.as_deref() == Some(asked) => list,
            (Some(_), _) => return,
            (None, _) => CurrentList {
                covers,
                shown,
                revision: page.revision.number(),
                searched: last_number,
                unknown: BTreeSet::new(),
                token: None,
            },
        };
        list.unknown.extend(unknown);
        if page.token.is_some() {
            list.token.clone_from(&page.token);
            check.current = Some(list);
            return;
        }
        check.ended = Some(self.now);
        check.is_stale = list.is_stale();
        if check.is_stale {
            return;
        }
        check.checked = list.covers;
        check.revision = list.revision;
        check.searched = list.searched;
        check.unknown = list.unknown;
        self.wake_seen_owners(wake);
    }

    /// A page of the list of a kind could not be read, so the list begins again.
    pub(crate) fn drop_check(&mut self, kind: KindId) {
        if let Some(check) = self.catch_up.checks.get_mut(&kind) {
            check.current = None;
        }
    }

    /// The orphaning owners that an object of the page refers to, but no object of the index that is as new.
    fn owners_with_unknown_dependents(&self, page: &ObjectPage) -> BTreeSet<Uid> {
        let owners = page.items.iter().flat_map(|item| {
            let known = self
                .graph
                .find(&item.meta.uid)
                .filter(|id| !self.is_virtual(*id));
            let references = item.meta.owners.iter().map(|reference| &reference.uid);
            references.filter(move |uid| {
                let Some(owner) = self.graph.find(uid) else {
                    return false;
                };
                let is_known = known.is_some_and(|id| {
                    let mut edges = self.graph.owners(id);
                    edges.any(|(_, edge)| edge.owner == owner)
                        || !self.graph.revision(id).is_before(&item.meta.revision)
                });
                self.catch_up.owners.contains_key(&owner) && !is_known
            })
        });
        owners.cloned().collect()
    }

    fn wake_seen_owners(&self, wake: &mut WakeList<GcKey>) {
        for id in self.catch_up.owners.keys() {
            if self.unseen_kinds(*id, self.now).next().is_none() {
                wake.now(self.key(*id));
            }
        }
    }
}
