//! Answers to the collector's own requests, as observations.
//!
//! What a feed shows is the truth about which objects there are; an answer only adds to what is known about them. So an
//! answer never makes a node of an object that no feed has shown, and it ends only what a list has missed already.

use jiff::Timestamp;

use super::graph::{Facts, NodeId};
use super::{Index, Lookup, facts_of};
use crate::gc::{Coordinates, Key};
use crate::runtime::call::AbsenceProof;
use crate::runtime::controller::WakeList;
use crate::runtime::record::{ObjectRecord, RecordMeta, Uid};

// === impl Index ===

impl Index {
    /// The object was read or written: it looks like this, unless a feed has shown its end already.
    pub(crate) fn apply_known(&mut self, record: &ObjectRecord, wake: &mut WakeList<Key>) {
        if self.shown(&record.meta.uid).is_some() {
            self.apply(record, wake);
        }
    }

    /// A patch was carried out. If it let an owner go that leaves orphans behind, dependents that appear later are
    /// orphans too.
    pub(crate) fn patched(&mut self, record: &ObjectRecord, wake: &mut WakeList<Key>) {
        let RecordMeta { uid, revision, .. } = &record.meta;
        let facts = facts_of(&record.meta);
        let Some(id) = self.shown(uid) else {
            // Its feed was faster than the answer.
            if self.deleted_while_orphaning.get(uid).is_some() && !facts.is_orphaning() {
                self.orphaned.remember(uid.clone(), ());
            }
            return;
        };
        if revision.is_before(&self.graph.revision(id)) {
            return;
        }
        if self.graph.node(id).facts.is_orphaning() && !facts.is_orphaning() {
            self.orphaned.remember(uid.clone(), ());
        }
        let was_held = !self.finalizers(id).is_empty();
        self.apply(record, wake);
        // Its last finalizer went, and it with it. The answer may carry the version before that, and then it is no news.
        if was_held && record.meta.deletion.is_some() && record.meta.finalizers.is_empty() {
            self.going(uid);
        }
    }

    /// An owner exists under these coordinates.
    pub(crate) fn found_alive(
        &mut self,
        owner: &Coordinates,
        record: &ObjectRecord,
        now: Timestamp,
        wake: &mut WakeList<Key>,
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
        let before = self.lookups.found_alive(owner.clone(), facts, now);
        // Who asked is told by the driver; the others relied on the earlier answer, or came early and have not asked.
        let is_news = match before {
            Some(Lookup::Alive(known, _)) => known != facts,
            None => self.is_being_listed(owner.kind),
            Some(Lookup::Absent(_)) => false,
        };
        if is_news {
            self.wake_dependents(id, wake);
        }
    }

    /// An owner does not exist under these coordinates. Who asked is told by the driver; others have to be woken only if
    /// they relied on its life.
    pub(crate) fn found_absent(
        &mut self,
        owner: &Coordinates,
        proof: AbsenceProof,
        wake: &mut WakeList<Key>,
    ) {
        let Some(id) = self.graph.find(&owner.uid) else {
            return;
        };
        let before = self.lookups.prove_absent(owner.clone(), proof);
        let was_shown = !self.is_virtual(id) && self.target(id) == owner.target();
        // Who came early has not asked.
        let is_waited_for = || was_shown || self.is_being_listed(owner.kind);
        if matches!(before, Some(Lookup::Alive(..))) || (before.is_none() && is_waited_for()) {
            self.wake_dependents(id, wake);
        }
    }

    /// A read did not find an object. It is absent if a relist did not show it either; else its watch will show the delete.
    pub(crate) fn mark_absent_if_doubtful(
        &mut self,
        gone: Coordinates,
        proof: AbsenceProof,
        wake: &mut WakeList<Key>,
    ) {
        match self.shown(&gone.uid) {
            Some(id) if self.graph.node(id).facts.has(Facts::DOUBTFUL) => {
                self.mark_absent(gone, proof, wake);
            }
            _ => self.going(&gone.uid),
        }
    }

    /// A delete was acknowledged. If finalizers or a grace period hold the object it is deleting, and more may follow.
    pub(crate) fn going_unless_deleting(&mut self, uid: &Uid) {
        if let Some(id) = self.shown(uid)
            && !self.graph.node(id).facts.has(Facts::DELETING)
        {
            self.going(uid);
        }
    }

    /// An object went or was let go: its waiting owners' confirmations serve one dependent less.
    pub(crate) fn spend_confirmations(&mut self, uid: &Uid) {
        let Some(id) = self.shown(uid) else {
            return;
        };
        for (_, edge) in self.graph.owners(id) {
            self.lookups.spend(&self.graph.node(edge.owner).uid);
        }
    }

    fn shown(&self, uid: &Uid) -> Option<NodeId> {
        let id = self.graph.find(uid)?;
        (!self.is_virtual(id)).then_some(id)
    }
}
