//! The garbage collector over the ownership graph of all kinds: `garbage-collector-controller`.
//!
//! - `index`: the ownership graph and the results of owner lookups. Only the driver's observations change it.
//! - `decide`: the decision for one key, as a pure function of the index and the time.
//! - [`reason`]: the reason of each decision. [`metrics`]: the metrics that only the collector has.
//! - `standing`: the relation of an object to each of its owners.
//! - `patches`: the patches of dependents and owners.
//! - [`view`], [`dot`]: copies of the graph for `caretaker graph` and the debug endpoints.
//! - [`explain`]: the relations of one object, for `caretaker explain`.
//!
//! Mirrors `pkg/controller/garbagecollector`. Upstream's workers read every object from the server before they delete it.
//! Here the judged copy comes from the index, and the server compares its uid and resourceVersion when it deletes.
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

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

pub use self::index::{GraphSize, IndexCoverage, OwnershipIndex};
pub use self::reason::GcReason;
use crate::runtime::call::{AbsenceProof, ApiAnswer, ApiCall, CallTarget};
use crate::runtime::controller::{
    AnsweredCall, Controller, EventNote, ObservedChange, Verdict, WakeList,
};
use crate::runtime::kind::KindId;
use crate::runtime::queue::later;
use crate::runtime::record::{ObjectRecord, Uid};

/// The collector's name, as `--controllers` spells it.
pub const NAME: &str = "garbage-collector-controller";

/// Resources that the collector does not watch, as resource and group. The API server expires Events by itself.
pub const IGNORED: [(&str, &str); 2] = [("events", ""), ("events", "events.k8s.io")];

/// How long owner lookups and releases wait for kinds. The lookup of an owner waits for the first list of its kind,
/// because the list will show the owner. A release waits because there may be unknown dependents: after a foreground
/// deletion for the first lists of all kinds, after an orphan deletion until all kinds have been seen up to that
/// deletion. A kind that takes longer delays nothing; the Event of a release names it.
pub const KIND_WAIT_MAX: Duration = Duration::from_secs(30);

/// Deletes objects whose owners are absent, and completes foreground and orphan deletions.
#[derive(Debug)]
pub struct GarbageCollector {
    index: OwnershipIndex,
    lookups: LookupCounts,
}

/// The object or owner that one decision is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum GcKey {
    /// An object that may be collected, detached, orphaned, released or unblocked.
    Object(Uid),
    /// An owner that has to be read from the server before its dependents can be judged. Many keys may wait for the
    /// same lookup, so they share the coordinates.
    Owner(Arc<OwnerCoordinates>),
    /// A kind that has to be listed before owners in orphan deletion can be released.
    Kind(KindId),
}

/// The place that an ownerReference gives for its owner. Lookups compare all parts: the same uid under another kind,
/// namespace or name is another lookup.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnerCoordinates {
    /// The kind that the reference's apiVersion and kind resolve to.
    pub kind: KindId,
    /// The version that the reference names, if the server prefers another one. Two versions of a group may be served from
    /// different stores.
    pub version: Option<Box<str>>,
    /// The dependent's namespace; empty for cluster-scoped owners.
    pub namespace: Box<str>,
    pub name: Box<str>,
    pub uid: Uid,
}

/// Owner lookups since the start, by result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LookupCounts {
    pub alive: u64,
    pub absent: u64,
    /// Lookups whose answer neither proves the owner absent nor shows it.
    pub failed: u64,
}

// === impl GcKey ===

impl fmt::Display for GcKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(uid) => uid.fmt(f),
            Self::Owner(owner) => write!(f, "owner {} ({})", owner.name, owner.uid),
            Self::Kind(kind) => write!(f, "{kind:?}"),
        }
    }
}

// === impl GarbageCollector ===

impl GarbageCollector {
    /// Creates a collector with an empty index. `seed` makes the order of hash buckets unpredictable.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            index: OwnershipIndex::new(seed),
            lookups: LookupCounts::default(),
        }
    }

    /// The index, for views of the graph and for metrics.
    #[must_use]
    pub fn index(&self) -> &OwnershipIndex {
        &self.index
    }

    /// The number of owner lookups by result.
    #[must_use]
    pub fn lookups(&self) -> LookupCounts {
        self.lookups
    }

    /// Applies the answer to the lookup of an owner.
    fn apply_lookup_answer(&mut self, owner: &OwnerCoordinates, answered: AnsweredCall<'_, GcKey>) {
        let (now, wake) = (answered.now, answered.wake);
        match presence(&owner.uid, answered.answer) {
            ObjectPresence::Alive(record) => {
                self.lookups.alive += 1;
                self.index.record_alive(owner, record, now, wake);
            }
            ObjectPresence::Absent(proof) => {
                self.lookups.absent += 1;
                self.index.record_absent(owner, proof, wake);
            }
            ObjectPresence::Nothing => self.lookups.failed += 1,
        }
    }

    /// Applies the answer to a request about a judged object.
    fn apply_object_answer(&mut self, uid: &Uid, answered: AnsweredCall<'_, GcKey>) {
        let (call, answer, wake) = (answered.call, answered.answer, answered.wake);
        if !call.is_read() {
            self.index.spend_confirmations(uid);
        }
        match (call, presence(uid, answer)) {
            (ApiCall::Get { .. }, ObjectPresence::Alive(record)) => {
                self.index.apply_if_shown(record, wake);
            }
            (ApiCall::Patch { .. }, ObjectPresence::Alive(record)) => {
                self.index.apply_patch_answer(record, wake);
            }
            (ApiCall::Get { target }, ObjectPresence::Absent(proof)) => {
                self.index
                    .mark_absent_if_doubtful(OwnerCoordinates::of(target, uid), proof, wake);
            }
            (ApiCall::Patch { .. } | ApiCall::Delete { .. }, ObjectPresence::Absent(_)) => {
                self.index.mark_going(uid);
            }
            (ApiCall::Delete { .. }, ObjectPresence::Alive(record)) => {
                self.index.apply_if_shown(record, wake);
                self.index.mark_going_unless_deleting(uid);
            }
            (ApiCall::Delete { .. }, ObjectPresence::Nothing) if *answer == ApiAnswer::Done => {
                self.index.mark_going(uid);
            }
            // The collector creates nothing, lists only kinds, and reads only owners in another version.
            (ApiCall::Create { .. } | ApiCall::List { .. } | ApiCall::GetInVersion { .. }, _)
            | (_, ObjectPresence::Nothing) => {}
        }
    }
}

impl GarbageCollector {
    /// Applies a page of the list of a kind.
    fn apply_page(&mut self, kind: KindId, answered: AnsweredCall<'_, GcKey>) {
        let AnsweredCall {
            call, answer, wake, ..
        } = answered;
        match (call, answer) {
            (ApiCall::List { token, .. }, ApiAnswer::Page(page)) => {
                self.index.check_page(kind, token.as_deref(), page, wake);
            }
            _ => self.index.drop_check(kind),
        }
    }
}

impl Controller for GarbageCollector {
    type Key = GcKey;
    type Reason = GcReason;

    fn name(&self) -> &'static str {
        NAME
    }

    fn observe(&mut self, change: &ObservedChange, now: Timestamp, wake: &mut WakeList<GcKey>) {
        self.index.set_time(now);
        match change {
            ObservedChange::Applied(record) => {
                self.index.apply(record, wake);
                self.index.advance(record);
            }
            ObservedChange::Deleted(record) => {
                self.index.advance(record);
                let ObjectRecord { kind, meta, .. } = &**record;
                let place = CallTarget::new(*kind, &*meta.namespace, &*meta.name);
                let gone = OwnerCoordinates::of(&place, &meta.uid);
                self.index.mark_absent(gone, AbsenceProof::Observed, wake);
            }
            ObservedChange::Missing(kind, uid) => self.index.mark_doubtful(*kind, uid, wake),
            ObservedChange::Kind(kind, state) => self.index.set_kind_state(*kind, *state, wake),
            ObservedChange::Progress(kind, progress) => {
                self.index.set_progress(*kind, progress, wake);
            }
            ObservedChange::Catalog(catalog) => self.index.set_catalog(catalog, wake),
        }
    }

    fn decide(&self, key: &GcKey, now: Timestamp) -> Verdict<GcKey, GcReason> {
        match key {
            GcKey::Object(uid) => decide::decide_object(&self.index, uid, now),
            GcKey::Owner(owner) => decide::decide_owner(&self.index, owner, now),
            GcKey::Kind(kind) => decide::decide_kind(&self.index, *kind, now),
        }
    }

    fn answered(&mut self, answered: AnsweredCall<'_, GcKey>) -> Vec<EventNote> {
        self.index.set_time(answered.now);
        match answered.key {
            GcKey::Object(uid) => self.apply_object_answer(uid, answered),
            GcKey::Owner(owner) => self.apply_lookup_answer(owner, answered),
            GcKey::Kind(kind) => self.apply_page(*kind, answered),
        }
        Vec::new()
    }

    fn keys(&self, record: &ObjectRecord) -> Vec<GcKey> {
        vec![GcKey::Object(record.meta.uid.clone())]
    }
}

// === impl OwnerCoordinates ===

impl OwnerCoordinates {
    fn of(target: &CallTarget, uid: &Uid) -> Self {
        Self {
            kind: target.kind,
            version: None,
            namespace: target.namespace.clone(),
            name: target.name.clone(),
            uid: uid.clone(),
        }
    }

    /// The same coordinates for the version that the feed of the kind shows.
    fn in_any_version(&self) -> Self {
        Self {
            version: None,
            ..self.clone()
        }
    }

    fn target(&self) -> CallTarget {
        CallTarget::new(self.kind, &*self.namespace, &*self.name)
    }
}

/// Whether an answer shows the object with a uid, proves it absent, or says neither.
enum ObjectPresence<'a> {
    Alive(&'a ObjectRecord),
    Absent(AbsenceProof),
    Nothing,
}

fn presence<'a>(uid: &Uid, answer: &'a ApiAnswer) -> ObjectPresence<'a> {
    match answer {
        ApiAnswer::Object(record) if record.meta.uid == *uid => ObjectPresence::Alive(record),
        ApiAnswer::Object(record) => {
            ObjectPresence::Absent(AbsenceProof::OtherUid(record.meta.uid.clone()))
        }
        ApiAnswer::Absent(proof) => ObjectPresence::Absent(proof.clone()),
        ApiAnswer::Page(_) | ApiAnswer::Done | ApiAnswer::Failed(_) => ObjectPresence::Nothing,
    }
}

fn sync_deadline(since: Timestamp) -> Timestamp {
    later(since, KIND_WAIT_MAX)
}

#[cfg(test)]
mod tests;
