//! What a controller is: what it knows, and what follows from it. No I/O, no clock, no locks.
//!
//! The driver owns a controller, feeds it changes and answers, asks it for decisions and carries them out. Three rules
//! hold for all of them: one decision asks for at most one request; an answer is an observation like any other; safety
//! sits in the driver, between a decision and the API.

use std::fmt::{Debug, Display};
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use super::call::{Answer, Call, Proof};
use super::kind::{Catalog, KindId, KindState};
use super::record::{Record, Uid};

/// One controller.
pub trait Controller: Send + 'static {
    /// What one decision is about.
    type Key: Clone + Ord + Debug + Send + Sync + 'static;
    /// Why, as a value: for the log, for evidence, for `explain`.
    type Reason: Reason;

    /// Its name, as `--controllers` spells it.
    fn name(&self) -> &'static str;

    /// Takes note of a change, and says which decisions it may change.
    fn observe(&mut self, change: &Change, now: Timestamp, wake: &mut Wake<Self::Key>);

    /// What follows for `key` from what is known now.
    fn decide(&self, key: &Self::Key, now: Timestamp) -> Verdict<Self::Key, Self::Reason>;

    /// Takes note of what a request of `key` was answered. The driver decides `key` again afterwards.
    fn answered(
        &mut self,
        key: &Self::Key,
        call: &Call,
        answer: &Answer,
        now: Timestamp,
        wake: &mut Wake<Self::Key>,
    ) -> Vec<Note>;

    /// The decisions about an object: what `explain` asks for.
    fn keys(&self, record: &Record) -> Vec<Self::Key>;
}

/// Why something was decided.
pub trait Reason: Display + Serialize + Clone + Send + Sync + 'static {
    /// How the absence that this rests on was proven, if it rests on one.
    fn proof(&self) -> Option<&Proof> {
        None
    }

    /// What upstream counts it as in `pod_gc_collector_force_delete_…`, if it is counted there.
    fn counted_as(&self) -> Option<&'static str> {
        None
    }

    /// The object because of which this happens: the owner that went, the Job that finished.
    fn cause(&self) -> Option<&Identity> {
        None
    }

    /// Since when it should have happened, if there was a time for it.
    fn due(&self) -> Option<Timestamp> {
        None
    }

    /// What became of slots of a schedule that have no Job, if it is about that.
    fn ticks(&self) -> Option<Ticks> {
        None
    }
}

/// Slots without a Job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ticks {
    /// This one has none for now. Counted once for each slot and reason.
    Skipped {
        /// What metrics call the kind.
        kind: &'static str,
        /// Which.
        slot: Timestamp,
        /// Why, in a word.
        reason: &'static str,
    },
    /// So many before the one that has one now.
    Missed {
        /// What metrics call the kind.
        kind: &'static str,
        /// How many.
        count: usize,
    },
}

/// What a feed tells.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// An object exists, and looks like this.
    Applied(Arc<Record>),
    /// A watch showed an object's end; this is how it last looked.
    Deleted(Arc<Record>),
    /// A fresh list did not show an object that was there. It authorises nothing: before anything follows from the
    /// absence, the server is asked.
    Missing(KindId, Uid),
    /// A kind is known better or worse than before.
    Kind(KindId, KindState),
    /// Discovery found other kinds than before.
    Catalog(Arc<Catalog>),
}

/// What was decided, why, and what there is to tell about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict<K, R> {
    /// What happens next.
    pub next: Next<K>,
    /// Why.
    pub because: R,
    /// Events about a state; emitted when they differ from the last ones of that key.
    pub notes: Vec<Note>,
}

/// What happens next with a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Next<K> {
    /// Nothing until something changes.
    Rest,
    /// Decide again at this time.
    At(Timestamp),
    /// Decide those other keys first, and this one when the last of them has its answer or needs none. Many keys may
    /// wait for one: this is how a question is asked once.
    After(Vec<K>),
    /// Nothing to ask now; look again after this key's backoff.
    Retry,
    /// Send this request, then decide again.
    Call(Call),
}

/// Collects the decisions that a change may change.
#[derive(Debug)]
pub struct Wake<K> {
    keys: Vec<(K, Option<Timestamp>)>,
}

/// Something to tell the users of an object: an Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// What it is about.
    pub about: Identity,
    /// Whether something is wrong.
    pub severity: Severity,
    /// A word for programs, `OwnerRefInvalidNamespace`.
    pub reason: &'static str,
    /// A sentence for people.
    pub message: String,
    /// The slot it is about, if it is to be told again with the next one. Nobody is shown it.
    pub slot: Option<Timestamp>,
}

/// Whether something is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// All is as it should be.
    Normal,
    /// Somebody should look.
    Warning,
}

/// An object as messages name it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// `apps/v1`.
    pub api_version: String,
    /// `Deployment`.
    pub kind: String,
    /// Empty for objects of the cluster.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

// === impl Wake ===

impl<K> Wake<K> {
    /// Decide `key` as soon as there is room.
    pub fn now(&mut self, key: K) {
        self.keys.push((key, None));
    }

    /// Decide `key` at `time`.
    pub fn at(&mut self, key: K, time: Timestamp) {
        self.keys.push((key, Some(time)));
    }

    /// What was collected, in order; nothing is left behind.
    pub fn drain(&mut self) -> impl Iterator<Item = (K, Option<Timestamp>)> {
        self.keys.drain(..)
    }
}

impl<K> Default for Wake<K> {
    fn default() -> Self {
        Self { keys: Vec::new() }
    }
}

// === impl Identity ===

/// `Deployment shop/web`.
impl Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.kind, self.name)
        } else {
            write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
        }
    }
}
