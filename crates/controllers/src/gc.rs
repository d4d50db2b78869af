//! The garbage collector over the ownership graph of all kinds: `garbage-collector-controller`.
//!
//! - `index`: what is known.
//! - `decide`: what follows from it.
//! - [`reason`]: why, in words. [`metrics`]: what only the collector counts.
//! - `standing`: how an object stands with each of its owners.
//! - `patches`: what is written to dependents and owners.
//! - [`view`], [`dot`]: the graph for people.
//! - [`explain`]: one object for people: how it stands with its owners, who holds it up, what hangs on it.
//!
//! Mirrors `pkg/controller/garbagecollector`. There, workers ask the server about every object they look at; here the
//! judged copy comes from the index and the server compares it (uid and resourceVersion) when it deletes.
//!
//! DEVIATION(one-request): one DELETE per collected object where upstream sends a GET before it.
//! DEVIATION(level-triggered): foreground and orphan handling follow from the current objects, not from having seen a
//! transition; upstream can leave finalizers behind (kubernetes#115570, #77081).

mod decide;
pub mod dot;
pub mod explain;
mod index;
pub mod metrics;
mod patches;
pub mod reason;
mod standing;
pub mod view;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

pub use self::index::{Index, Knowledge, Size};
pub use self::reason::Reason;
use crate::runtime::call::{AbsenceProof, ApiAnswer, ApiCall, CallTarget};
use crate::runtime::controller::{
    AnsweredCall, Controller, EventNote, ObservedChange, Verdict, WakeList,
};
use crate::runtime::kind::KindId;
use crate::runtime::record::{ObjectRecord, Uid};

/// The collector's name, as `--controllers` spells it.
pub const NAME: &str = "garbage-collector-controller";

/// What is never looked at, resource and group: events come and go by themselves.
pub const IGNORED: [(&str, &str); 2] = [("events", ""), ("events", "events.k8s.io")];

/// How long the first list of a kind is waited for: with questions about owners of that kind, which the list will
/// answer, and with ends that depend on having seen all dependents. A kind that takes longer holds up nothing.
pub const ORPHAN_HOLD_MAX: Duration = Duration::from_secs(30);

/// The garbage collector.
#[derive(Debug)]
pub struct GarbageCollector {
    index: Index,
    lookups: LookupCounts,
}

/// What one decision is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// An object: whether it goes, stays, or is let go.
    Object(Uid),
    /// An owner whose state has to be asked for before anything follows for its dependents.
    /// Many keys may wait for it, so all of them share it.
    Owner(Arc<Coordinates>),
}

/// Where a reference says its owner is. All parts count: the same uid elsewhere is another question.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Coordinates {
    /// What apiVersion and kind resolve to.
    pub kind: KindId,
    /// The dependent's namespace; empty for owners of the cluster.
    pub namespace: Box<str>,
    /// The owner's name.
    pub name: Box<str>,
    /// The owner's uid.
    pub uid: Uid,
}

/// How questions about owners were answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LookupCounts {
    /// The owner exists.
    pub alive: u64,
    /// The owner does not exist.
    pub absent: u64,
    /// No answer that says anything.
    pub failed: u64,
}

// === impl GarbageCollector ===

impl GarbageCollector {
    /// A collector that knows nothing yet.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            index: Index::new(seed),
            lookups: LookupCounts::default(),
        }
    }

    /// What it knows.
    #[must_use]
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// How its questions about owners were answered.
    #[must_use]
    pub fn lookups(&self) -> LookupCounts {
        self.lookups
    }

    /// The server said something about an owner.
    fn looked_up(
        &mut self,
        owner: &Coordinates,
        answer: &ApiAnswer,
        now: Timestamp,
        wake: &mut WakeList<Key>,
    ) {
        match found(&owner.uid, answer) {
            Found::Alive(record) => {
                self.lookups.alive += 1;
                self.index.found_alive(owner, record, now, wake);
            }
            Found::Absent(proof) => {
                self.lookups.absent += 1;
                self.index.found_absent(owner, proof, wake);
            }
            Found::Nothing => self.lookups.failed += 1,
        }
    }

    /// The server said something about an object that was judged.
    fn heard(&mut self, uid: &Uid, call: &ApiCall, answer: &ApiAnswer, wake: &mut WakeList<Key>) {
        if !call.is_read() {
            self.index.spend_confirmations(uid);
        }
        match (call, found(uid, answer)) {
            (ApiCall::Get { .. }, Found::Alive(record)) => self.index.apply_known(record, wake),
            (ApiCall::Patch { .. }, Found::Alive(record)) => self.index.patched(record, wake),
            (ApiCall::Get { target }, Found::Absent(proof)) => {
                self.index
                    .mark_absent_if_doubtful(Coordinates::of(target, uid), proof, wake);
            }
            (ApiCall::Patch { .. } | ApiCall::Delete { .. }, Found::Absent(_)) => {
                self.index.going(uid);
            }
            (ApiCall::Delete { .. }, Found::Alive(record)) => {
                self.index.apply_known(record, wake);
                self.index.going_unless_deleting(uid);
            }
            (ApiCall::Delete { .. }, Found::Nothing) if *answer == ApiAnswer::Done => {
                self.index.going(uid);
            }
            // The collector creates nothing.
            (ApiCall::Create { .. }, _) | (_, Found::Nothing) => {}
        }
    }
}

impl Controller for GarbageCollector {
    type Key = Key;
    type Reason = Reason;

    fn name(&self) -> &'static str {
        NAME
    }

    fn observe(&mut self, change: &ObservedChange, _: Timestamp, wake: &mut WakeList<Key>) {
        match change {
            ObservedChange::Applied(record) => self.index.apply(record, wake),
            ObservedChange::Deleted(record) => {
                let ObjectRecord { kind, meta, .. } = &**record;
                let gone = Coordinates {
                    kind: *kind,
                    namespace: meta.namespace.clone(),
                    name: meta.name.clone(),
                    uid: meta.uid.clone(),
                };
                self.index.mark_absent(gone, AbsenceProof::Observed, wake);
            }
            ObservedChange::Missing(_, uid) => self.index.doubt(uid, wake),
            ObservedChange::Kind(kind, state) => self.index.know_kind(*kind, *state, wake),
            ObservedChange::Catalog(catalog) => self.index.know_catalog(catalog, wake),
        }
    }

    fn decide(&self, key: &Key, now: Timestamp) -> Verdict<Key, Reason> {
        match key {
            Key::Object(uid) => decide::object(&self.index, uid, now),
            Key::Owner(owner) => decide::owner(&self.index, owner, now),
        }
    }

    fn answered(&mut self, answered: AnsweredCall<'_, Key>) -> Vec<EventNote> {
        let AnsweredCall {
            key,
            call,
            answer,
            now,
            wake,
        } = answered;
        match key {
            Key::Object(uid) => self.heard(uid, call, answer, wake),
            Key::Owner(owner) => self.looked_up(owner, answer, now, wake),
        }
        Vec::new()
    }

    fn keys(&self, record: &ObjectRecord) -> Vec<Key> {
        vec![Key::Object(record.meta.uid.clone())]
    }
}

// === impl Coordinates ===

impl Coordinates {
    fn of(target: &CallTarget, uid: &Uid) -> Self {
        Self {
            kind: target.kind,
            namespace: target.namespace.clone(),
            name: target.name.clone(),
            uid: uid.clone(),
        }
    }

    fn target(&self) -> CallTarget {
        CallTarget {
            kind: self.kind,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

/// What an answer says about the object with a uid.
enum Found<'a> {
    Alive(&'a ObjectRecord),
    Absent(AbsenceProof),
    Nothing,
}

fn found<'a>(uid: &Uid, answer: &'a ApiAnswer) -> Found<'a> {
    match answer {
        ApiAnswer::Object(record) if record.meta.uid == *uid => Found::Alive(record),
        ApiAnswer::Object(record) => Found::Absent(AbsenceProof::OtherUid(record.meta.uid.clone())),
        ApiAnswer::Absent(proof) => Found::Absent(proof.clone()),
        ApiAnswer::Done | ApiAnswer::Failed(_) => Found::Nothing,
    }
}

fn sync_deadline(since: Timestamp) -> Timestamp {
    since
        .saturating_add(ORPHAN_HOLD_MAX)
        .unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
