//! Applies answers to the collector's own requests.
//!
//! Feeds decide which objects exist; an answer only adds to what is known about them. So an answer never adds an object
//! that no feed has shown, and it removes an object only if a relist did not show it either.

use jiff::Timestamp;

use super::graph::{NodeId, ObjectFacts};
use super::{OwnerLookup, OwnershipIndex, facts_of};
use crate::gc::{GcKey, OwnerCoordinates};
use crate::runtime::call::AbsenceProof;
use crate::runtime::controller::WakeList;
use crate::runtime::record::{ObjectRecord, RecordMeta, Uid};

// === impl OwnershipIndex ===

impl OwnershipIndex {
    /// Applies an object from an answer, unless a feed has shown its DELETED event already.
    pub(crate) fn apply_if_shown(&mut self, record: &ObjectRecord, wake: &mut WakeList<GcKey>) {
        if self.find_shown(&record.meta.uid).is_some() {
            self.apply(record, wake);
        }
    }

    /// Applies the answer to a patch. If the patch ended the life of an owner in orphan deletion, dependents that appear
    /// later are orphaned too. An owner that another finalizer holds lives on and can be deleted with another policy.
    pub(crate) fn apply_patch_answer(&mut self, record: &ObjectRecord, wake: &mut WakeList<GcKey>) {
        let (uid, facts) = (&record.meta.uid, facts_of(&record.meta));
        if let Some(id) = self.find_shown(uid) {
            self.apply_living_answer(id, record, wake);
        }
        // The owner is gone, or not every kind had been seen: by the answer, or by the event before it.
        if self.left_orphaning.get(uid).is_some() && !facts.is_orphaning() {
            self.orphaned_owners.insert(uid.clone(), ());
        }
    }

    fn apply_living_answer(
        &mut self,
        id: NodeId,
        record: &ObjectRecord,
        wake: &mut WakeList<GcKey>,
    ) {
        let RecordMeta { uid, revision, .. } = &record.meta;
        if revision.is_before(&self.graph.revision(id)) {
            return;
        }
        let was_held = !self.finalizers(id).is_empty();
        let was_orphaning = self.graph.node(id).facts.is_orphaning();
        self.apply(record, wake);
        // The patch removed the last finalizer, so the server removed the object. The answer may carry the version that
        // the index has already, and then `apply` ignores it.
        if was_held && record.meta.deletion.is_some() && record.meta.finalizers.is_empty() {
            if was_orphaning {
                self.left_orphaning.insert(uid.clone(), ());
            }
            self.mark_going(uid);
        }
    }

    /// Records that an owner exists under these coordinates.
    pub(crate) fn record_alive(
        &mut self,
        owner: &OwnerCoordinates,
        record: &ObjectRecord,
        now: Timestamp,
        wake: &mut WakeList<GcKey>,
    ) {
        let Some(id) = self.graph.find(&owner.uid) else {
            return;
        };
        let facts = facts_of(&record.meta);
        if facts.is_waiting() {
            self.lookups.confirm(&owner.uid, now);
        }
        if !self.is_virtual(id) && self.target(id) == owner.target() {
            self.apply(record, wake);
            return;
        }
        self.unproven_owners.remove(&owner.uid);
        let before = self.lookups.found_alive(owner.clone(), facts, now);
        // The driver wakes the keys that wait for this lookup. The other dependents relied on the earlier answer, or did
        // not ask because the kind is in its first list.
        let is_news = match before {
            Some(OwnerLookup::Alive(known, _)) => known != facts,
            None => self.is_being_listed(owner.kind),
            Some(OwnerLookup::Absent(_)) => false,
        };
        if is_news {
            self.wake_dependents(id, wake);
        }
    }

    /// Records that an owner does not exist under these coordinates. The driver wakes the keys that wait for this lookup;
    /// other dependents are woken only if they relied on the owner to exist.
    pub(crate) fn record_absent(
        &mut self,
        owner: &OwnerCoordinates,
        proof: AbsenceProof,
        wake: &mut WakeList<GcKey>,
    ) {
        let Some(id) = self.graph.find(&owner.uid) else {
            return;
        };
        let before = self.lookups.prove_absent(owner.clone(), proof);
        let was_shown = !self.is_virtual(id) && self.target(id) == owner.target();
        // Dependents that came during the first list of the kind have not asked.
        let is_waited_for = || was_shown || self.is_being_listed(owner.kind);
        if matches!(before, Some(OwnerLookup::Alive(..))) || (before.is_none() && is_waited_for()) {
            self.wake_dependents(id, wake);
        }
    }

    /// Handles a read that did not find an object. The object is absent if a relist did not show it either; else its watch
    /// will show the DELETED event.
    pub(crate) fn mark_absent_if_doubtful(
        &mut self,
        gone: OwnerCoordinates,
        proof: AbsenceProof,
        wake: &mut WakeList<GcKey>,
    ) {
        match self.find_shown(&gone.uid) {
            Some(id) if self.graph.node(id).facts.has(ObjectFacts::DOUBTFUL) => {
                self.mark_absent(gone, proof, wake);
            }
            _ => self.mark_going(&gone.uid),
        }
    }

    /// Handles an acknowledged delete. An object that finalizers or a grace period keep is deleting and may need more
    /// decisions.
    pub(crate) fn mark_going_unless_deleting(&mut self, uid: &Uid) {
        if let Some(id) = self.find_shown(uid)
            && !self.graph.node(id).facts.has(ObjectFacts::DELETING)
        {
            self.mark_going(uid);
        }
    }

    /// Counts a write to a dependent against the confirmations of its waiting owners.
    pub(crate) fn spend_confirmations(&mut self, uid: &Uid) {
        let Some(id) = self.find_shown(uid) else {
            return;
        };
        for (_, edge) in self.graph.owners(id) {
            self.lookups
                .spend_confirmation(&self.graph.node(edge.owner).uid);
        }
    }

    fn find_shown(&self, uid: &Uid) -> Option<NodeId> {
        let id = self.graph.find(uid)?;
        (!self.is_virtual(id)).then_some(id)
    }
}
