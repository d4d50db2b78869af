//! The trait that every controller implements: an index of observed objects, and decisions that follow from it. A
//! controller does no I/O, reads no clock and takes no locks.
//!
//! The driver owns a controller, passes changes and answers to it, asks it for decisions and sends their requests. Three
//! rules hold for all controllers: one decision asks for at most one request; an answer is an observation like any other;
//! the checks between a decision and the API are in the driver.

use std::fmt::{Debug, Display};
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::call::{AbsenceProof, ApiAnswer, ApiCall};
use super::kind::{KindCatalog, KindId, KindState};
use super::metrics::ControllerMetrics;
use super::record::{ObjectRecord, Revision, Uid};

/// A controller, as its driver sees it.
pub trait Controller: Send + 'static {
    /// Identifies the subject of one decision: an object, an owner. Evidence has it as text.
    type Key: Clone + Ord + Debug + Display + Send + Sync + 'static;
    /// The reasons of its decisions, for the log, for evidence and for `explain`.
    type Reason: DecisionReason;

    /// The controller's name, as `--controllers` spells it.
    fn name(&self) -> &'static str;

    /// Applies a change to the index, and wakes the keys whose decisions it may change.
    fn observe(&mut self, change: &ObservedChange, now: Timestamp, wake: &mut WakeList<Self::Key>);

    /// Decides what to do for `key` now.
    fn decide(&self, key: &Self::Key, now: Timestamp) -> Verdict<Self::Key, Self::Reason>;

    /// Applies the answer to a request to the index, and returns the Events that follow from it. The driver decides the
    /// key again afterwards; after a write it does so as [`Controller::after_write`] says.
    fn answered(&mut self, answered: AnsweredCall<'_, Self::Key>) -> Vec<EventNote>;

    /// When the driver decides a key again after the server has accepted a write of it.
    fn after_write(&self) -> AfterWrite {
        AfterWrite::DecideAtOnce
    }

    /// Counts a step of the driver in metrics that only this controller has. The runtime counts requests, deletes and
    /// the queue itself.
    fn measure(&mut self, _: &DriverStep<'_, Self::Key, Self::Reason>, _: &ControllerMetrics) {}

    /// The keys of all decisions about an object, for `explain`.
    fn keys(&self, record: &ObjectRecord) -> Vec<Self::Key>;
}

/// The answer to one request, for the controller that asked for the request.
#[derive(Debug)]
pub struct AnsweredCall<'a, K> {
    /// The key whose decision asked for the request.
    pub key: &'a K,
    pub call: &'a ApiCall,
    pub answer: &'a ApiAnswer,
    /// The time of the answer, by the clock that the controller's decisions use.
    pub now: Timestamp,
    /// Collects the decisions that the answer may change.
    pub wake: &'a mut WakeList<K>,
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
        next: &'a NextStep<K>,
        because: &'a R,
    },
    /// A request was answered. After a conflict the driver reads the object with the same reason.
    Answered {
        key: &'a K,
        call: &'a ApiCall,
        answer: &'a ApiAnswer,
        because: &'a R,
        /// The time of the answer, by the clock that the controller's decisions use.
        now: Timestamp,
    },
}

/// Why something was decided.
pub trait DecisionReason: Display + Clone + Send + Sync + 'static {
    /// The id of the rule that decided, `OwnerAbsent`. Programs compare it, so it does not change.
    fn rule(&self) -> &'static str;

    /// The proof of the absence that the decision is based on, if it is based on one.
    fn proof(&self) -> Option<&AbsenceProof> {
        None
    }

    /// The object that caused the decision: the owner that is absent, the Job that finished.
    fn cause(&self) -> Option<&ObjectIdentity> {
        None
    }

    /// The Events that the driver emits when the server has accepted the write of the decision.
    fn events_on_success(&self) -> &[EventNote] {
        &[]
    }

    /// The reason as evidence and `explain` show it: the rule's id and the sentence.
    fn to_json(&self) -> Value {
        json!({"rule": self.rule(), "message": self.to_string()})
    }
}

/// A change that a feed has observed.
#[derive(Debug, Clone, PartialEq)]
pub enum ObservedChange {
    /// An object exists in this version.
    Applied(Arc<ObjectRecord>),
    /// A watch showed that an object was deleted; this is its last version.
    Deleted(Arc<ObjectRecord>),
    /// A fresh list did not show an object that was known. This is no proof of absence: a controller reads the object
    /// before it acts on it.
    Missing(KindId, Uid),
    /// The state of a kind has changed.
    Kind(KindId, KindState),
    /// How far the feed of a kind has followed the server's history.
    Progress(KindId, FeedProgress),
    /// Discovery found other kinds than before.
    Catalog(Arc<KindCatalog>),
}

/// How far a feed has followed the history of its kind. While a feed follows its watch, every object that it shows is
/// progress too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedProgress {
    /// The feed has shown every change up to this version.
    UpTo(Revision),
    /// The feed lost its watch. The server that it finds next may have another history: the store may have been restored.
    Interrupted,
    /// The feed lists again. The list may be of another history, too.
    Relists,
}

/// A decision, its reason and its Events.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict<K, R> {
    pub next: NextStep<K>,
    pub because: R,
    /// Events about a state; the driver emits those that the key's last decision did not have.
    pub notes: Vec<EventNote>,
}

/// The next step for a key.
#[derive(Debug, Clone, PartialEq)]
pub enum NextStep<K> {
    /// Nothing until something changes.
    Rest,
    /// Decide again at this time.
    At(Timestamp),
    /// Decide these other keys first, and this key again when the last of them was answered or needs no request. Many
    /// keys may wait for one, so that the server is asked once for all of them.
    After(Vec<K>),
    /// No request now; decide again after this key's backoff.
    Retry,
    /// Send this request, then decide again.
    Call(ApiCall),
}

/// Collects the keys that have to be decided again.
#[derive(Debug)]
pub struct WakeList<K> {
    keys: Vec<(K, Option<Timestamp>)>,
}

/// An Event about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventNote {
    /// The object of the Event.
    pub about: ObjectIdentity,
    /// The part of the object, `spec.containers{web}`; empty for the whole object.
    pub field_path: String,
    /// The source that the Event names; the reporter of the driver if `None`.
    pub source: Option<EventSource>,
    pub severity: EventSeverity,
    /// The reason that programs compare, `OwnerRefInvalidNamespace`.
    pub reason: &'static str,
    pub message: String,
    /// Notes that differ only in this key are different notes, and each gets its Event. It is not written anywhere.
    pub dedup_key: Option<String>,
}

/// The program that reports an Event, and the Node that it runs on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventSource {
    pub component: &'static str,
    /// Empty for programs that are not bound to a Node.
    pub host: String,
}

/// The type of an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventSeverity {
    Normal,
    Warning,
}

/// An object as messages and evidence identify it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectIdentity {
    /// The `apiVersion`, such as `apps/v1`.
    pub api_version: String,
    /// The kind, such as `Deployment`.
    pub kind: String,
    /// Empty for objects of the cluster.
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

// === impl Verdict ===

impl<K, R> Verdict<K, R> {
    /// A decision without Events.
    pub fn new(next: NextStep<K>, because: R) -> Self {
        Self {
            next,
            because,
            notes: Vec::new(),
        }
    }
}

// === impl EventNote ===

impl EventNote {
    /// A note about a whole object, with the driver's reporter as its source.
    pub fn new(
        severity: EventSeverity,
        about: ObjectIdentity,
        reason: &'static str,
        message: String,
    ) -> Self {
        Self {
            about,
            field_path: String::new(),
            source: None,
            severity,
            reason,
            message,
            dedup_key: None,
        }
    }

    /// A [`EventNote::new`] of type `Normal`.
    pub fn normal(about: ObjectIdentity, reason: &'static str, message: String) -> Self {
        Self::new(EventSeverity::Normal, about, reason, message)
    }

    /// A [`EventNote::new`] of type `Warning`.
    pub fn warning(about: ObjectIdentity, reason: &'static str, message: String) -> Self {
        Self::new(EventSeverity::Warning, about, reason, message)
    }
}

// === impl WakeList ===

impl<K> WakeList<K> {
    /// Decide `key` as soon as a slot is free.
    pub fn now(&mut self, key: K) {
        self.keys.push((key, None));
    }

    /// Decide `key` at `time`.
    pub fn at(&mut self, key: K, time: Timestamp) {
        self.keys.push((key, Some(time)));
    }

    /// Takes out all keys, in the order they came.
    pub fn drain(&mut self) -> impl Iterator<Item = (K, Option<Timestamp>)> {
        self.keys.drain(..)
    }
}

impl<K> Default for WakeList<K> {
    fn default() -> Self {
        Self { keys: Vec::new() }
    }
}

// === impl ObjectIdentity ===

/// Formats the kind, the namespace and the name: `Deployment shop/web`.
impl Display for ObjectIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.kind, self.name)
        } else {
            write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
        }
    }
}
