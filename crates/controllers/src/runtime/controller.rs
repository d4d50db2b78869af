//! What a controller is: what it knows, and what follows from it. No I/O, no clock, no locks.
//!
//! The driver owns a controller, feeds it changes and answers, asks it for decisions and carries them out. Three rules
//! hold for all of them: one decision asks for at most one request; an answer is an observation like any other; safety
//! sits in the driver, between a decision and the API.

use std::fmt::{Debug, Display};
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::call::{Answer, Call, Proof};
use super::kind::{Catalog, KindId, KindState};
use super::metrics::Metrics;
use super::record::{Record, Uid};

/// One controller.
pub trait Controller: Send + 'static {
    /// What one decision is about.
    type Key: Clone + Ord + Debug + Send + Sync + 'static;
    /// Why, as a value: for the log, for evidence, for `explain`.
    type Reason: DecisionReason;

    /// Its name, as `--controllers` spells it.
    fn name(&self) -> &'static str;

    /// Takes note of a change, and says which decisions it may change.
    fn observe(&mut self, change: &Change, now: Timestamp, wake: &mut Wake<Self::Key>);

    /// What follows for `key` from what is known now.
    fn decide(&self, key: &Self::Key, now: Timestamp) -> Verdict<Self::Key, Self::Reason>;

    /// Takes note of the answer to a request, and returns the Events that follow from it. The driver decides the key
    /// again afterwards, as [`Controller::after_write`] says.
    fn answered(&mut self, answered: CallAnswer<'_, Self::Key>) -> Vec<Note>;

    /// When the driver decides a key again after the server has accepted a write of it.
    fn after_write(&self) -> AfterWrite {
        AfterWrite::DecideAtOnce
    }

    /// Counts a step of the driver in metrics that only this controller has. The runtime counts requests, deletes and
    /// the queue itself.
    fn measure(&mut self, _: &DriverStep<'_, Self::Key, Self::Reason>, _: &Metrics) {}

    /// The decisions about an object: what `explain` asks for.
    fn keys(&self, record: &Record) -> Vec<Self::Key>;
}

/// The answer to one request, for the controller that asked for the request.
#[derive(Debug)]
pub struct CallAnswer<'a, K> {
    /// The key whose decision asked for the request.
    pub key: &'a K,
    pub call: &'a Call,
    pub answer: &'a Answer,
    /// The time of the answer, by the clock that the controller's decisions use.
    pub now: Timestamp,
    /// Collects the decisions that the answer may change.
    pub wake: &'a mut Wake<K>,
}

/// When a key is decided again after the server has accepted a write of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterWrite {
    /// At once, so that two writes of one object follow each other closely and conflict rarely.
    DecideAtOnce,
    /// When all other due keys had their turn, so that every key has its first write before any has its second.
    EndOfQueue,
}

/// A step of the driver that a controller may count in metrics of its own.
#[derive(Debug)]
pub enum DriverStep<'a, K, R> {
    /// The controller has decided a key; nothing has been sent yet.
    Decided {
        key: &'a K,
        next: &'a Next<K>,
        because: &'a R,
    },
    /// A request was answered. After a conflict the driver reads the object with the same reason.
    Answered {
        key: &'a K,
        call: &'a Call,
        answer: &'a Answer,
        because: &'a R,
        /// The time of the answer, by the clock that the controller's decisions use.
        now: Timestamp,
    },
}

/// Why something was decided.
pub trait DecisionReason: Display + Clone + Send + Sync + 'static {
    /// The id of the rule that decided, `OwnerAbsent`. Programs compare it, so it does not change.
    fn rule(&self) -> &'static str;

    /// How the absence that this rests on was proven, if it rests on one.
    fn proof(&self) -> Option<&Proof> {
        None
    }

    /// The object because of which this happens: the owner that went, the Job that finished.
    fn cause(&self) -> Option<&Identity> {
        None
    }

    /// The reason as evidence and `explain` show it: the rule's id and the sentence.
    fn to_json(&self) -> Value {
        json!({"rule": self.rule(), "message": self.to_string()})
    }
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
    /// Notes that differ only in this key are different notes, and each gets its Event. It is not written anywhere.
    pub dedup_key: Option<String>,
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
