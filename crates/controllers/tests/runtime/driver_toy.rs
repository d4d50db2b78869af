//! A small controller of ConfigMaps that uses every feature of a driver:
//!
//! - `doomed-…` is deleted ten seconds after it was first seen;
//! - a finalizer `example.com/toy` is removed;
//! - `child-…-of-X` is deleted if there is no ConfigMap X; all children of X wait for one read;
//! - `sure-…-of-X` is such a child, but an answer about X counts for a hundred of them only;
//! - `vain-…` waits for a key that never has a request;
//! - `waiting-…` asks for a time that is not in the future;
//! - `curious-…` is read, whatever the answer was;
//! - `far-…` has a Secret of the same name read;
//! - `noted-…` emits an Event;
//! - `panic-…` makes the controller panic.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use caretaker_controllers::runtime::call::{
    AbsenceProof, ApiAnswer, ApiCall, CallTarget, DeletePropagation, JudgedVersion, PatchForm,
};
use caretaker_controllers::runtime::controller::{
    AfterWrite, AnsweredCall, Controller, DecisionReason, DriverStep, EventNote, NextStep,
    ObjectIdentity, ObservedChange, Verdict, WakeList,
};
use caretaker_controllers::runtime::kind::KindId;
use caretaker_controllers::runtime::metrics::ControllerMetrics;
use caretaker_controllers::runtime::record::ObjectRecord;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

pub(crate) const FINALIZER: &str = "example.com/toy";

/// How many deletes of `sure-…` are based on one answer.
const SURE_MAX: usize = 100;

/// More decisions than any test needs: a driver that spins should fail, not hang.
const DECISIONS_MAX: usize = 100_000;

const DOOM: SignedDuration = SignedDuration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct ToyController {
    objects: BTreeMap<String, ToyObject>,
    owners: BTreeMap<String, OwnerPresence>,
    /// How many deletes are based on the last answer about an owner.
    rested: BTreeMap<String, usize>,
    pub(crate) decisions: Arc<std::sync::atomic::AtomicUsize>,
    has_turns: bool,
    /// The steps that the driver had measured.
    pub(crate) steps: Vec<String>,
}

#[derive(Debug)]
struct ToyObject {
    record: Arc<ObjectRecord>,
    since: Timestamp,
    is_going: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum OwnerPresence {
    Present,
    Absent,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ToyKey {
    Object(String),
    Owner(String),
}

impl fmt::Display for ToyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(name) => f.write_str(name),
            Self::Owner(name) => write!(f, "owner {name}"),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) enum ToyReason {
    NothingToDo,
    /// With the Events of its delete.
    Doomed(Vec<EventNote>),
    Finalizer,
    OwnerUnknown,
    OwnerAbsent {
        owner: String,
    },
}

impl ToyController {
    pub(crate) fn with_turns(has_turns: bool) -> Self {
        Self {
            has_turns,
            ..Self::default()
        }
    }

    fn about(&self, name: &str, now: Timestamp) -> (NextStep<ToyKey>, ToyReason) {
        let Some(known) = self.objects.get(name) else {
            return (NextStep::Rest, ToyReason::NothingToDo);
        };
        let record = &known.record;
        if known.is_going {
            return (NextStep::Rest, ToyReason::NothingToDo);
        }
        if record.meta.finalizers.iter().any(|own| **own == *FINALIZER) {
            return (NextStep::Call(mk_patch(record)), ToyReason::Finalizer);
        }
        if name.starts_with("doomed-") {
            let due = known.since + DOOM;
            let next = if now < due {
                NextStep::At(due)
            } else {
                NextStep::Call(mk_delete(record))
            };
            let notes = match name.ends_with("-noted") {
                true => self.notes(name),
                false => Vec::new(),
            };
            return (next, ToyReason::Doomed(notes));
        }
        if name.starts_with("waiting-") {
            return (NextStep::Retry, ToyReason::NothingToDo);
        }
        if name.starts_with("curious-") {
            let target = mk_target(name);
            return (
                NextStep::Call(ApiCall::Get { target }),
                ToyReason::NothingToDo,
            );
        }
        if name.starts_with("far-") {
            let target = CallTarget {
                kind: KindId(1),
                ..mk_target(name)
            };
            return (
                NextStep::Call(ApiCall::Get { target }),
                ToyReason::NothingToDo,
            );
        }
        if name.starts_with("vain-") {
            let idle = ToyKey::Owner(String::new());
            return (NextStep::After(vec![idle]), ToyReason::OwnerUnknown);
        }
        if let Some((_, owner)) = name.split_once("-of-") {
            let owner = owner.to_owned();
            let is_unsure = name.starts_with("sure-") && !self.is_sure(&owner);
            return match self.owners.get(&owner).filter(|_| !is_unsure) {
                None => (
                    NextStep::After(vec![ToyKey::Owner(owner)]),
                    ToyReason::OwnerUnknown,
                ),
                Some(OwnerPresence::Present) => (NextStep::Rest, ToyReason::NothingToDo),
                Some(OwnerPresence::Absent) => (
                    NextStep::Call(mk_delete(record)),
                    ToyReason::OwnerAbsent { owner },
                ),
            };
        }
        (NextStep::Rest, ToyReason::NothingToDo)
    }
}

impl Controller for ToyController {
    type Key = ToyKey;
    type Reason = ToyReason;

    fn name(&self) -> &'static str {
        "toy-controller"
    }

    fn observe(&mut self, change: &ObservedChange, now: Timestamp, wake: &mut WakeList<ToyKey>) {
        match change {
            ObservedChange::Applied(record) => {
                let name = record.meta.name.to_string();
                assert!(!name.starts_with("panic-"), "too much for a toy");
                let since = self.objects.get(&name).map_or(now, |known| known.since);
                let known = ToyObject {
                    record: record.clone(),
                    since,
                    is_going: false,
                };
                self.objects.insert(name.clone(), known);
                wake.now(ToyKey::Object(name));
            }
            ObservedChange::Deleted(record) => {
                self.objects.remove(&*record.meta.name);
                wake.now(ToyKey::Object(record.meta.name.to_string()));
            }
            ObservedChange::Missing(..)
            | ObservedChange::Kind(..)
            | ObservedChange::Progress(..)
            | ObservedChange::Catalog(_) => {}
        }
    }

    fn decide(&self, key: &ToyKey, now: Timestamp) -> Verdict<ToyKey, ToyReason> {
        use std::sync::atomic::Ordering;
        let before = self.decisions.fetch_add(1, Ordering::Relaxed);
        assert!(before < DECISIONS_MAX, "the driver spins");
        let (next, because) = match key {
            ToyKey::Object(name) => self.about(name, now),
            ToyKey::Owner(name) if name.is_empty() || self.is_sure(name) => {
                (NextStep::Rest, ToyReason::NothingToDo)
            }
            ToyKey::Owner(name) => {
                let target = mk_target(name);
                (
                    NextStep::Call(ApiCall::Get { target }),
                    ToyReason::OwnerUnknown,
                )
            }
        };
        let notes = match key {
            ToyKey::Object(name) if name.starts_with("noted-") => self.notes(name),
            _ => Vec::new(),
        };
        Verdict {
            next,
            because,
            notes,
        }
    }

    fn answered(&mut self, answered: AnsweredCall<'_, ToyKey>) -> Vec<EventNote> {
        let AnsweredCall {
            key,
            call,
            answer,
            wake,
            ..
        } = answered;
        // A controller that wakes itself after a failure must not make its driver spin.
        wake.now(key.clone());
        match key {
            ToyKey::Owner(name) => drop(self.rested.insert(name.clone(), 0)),
            ToyKey::Object(name) => {
                let owner = name.split_once("-of-").map_or("", |(_, owner)| owner);
                *self.rested.entry(owner.to_owned()).or_default() += 1;
            }
        }
        match (key, answer) {
            (ToyKey::Owner(name), ApiAnswer::Object(_)) => {
                self.owners.insert(name.clone(), OwnerPresence::Present);
            }
            (ToyKey::Owner(name), ApiAnswer::Absent(_)) => {
                self.owners.insert(name.clone(), OwnerPresence::Absent);
            }
            (ToyKey::Object(name), ApiAnswer::Object(record)) => {
                let is_going = matches!(call, ApiCall::Delete { .. });
                if let Some(known) = self.objects.get_mut(name) {
                    known.record = record.clone();
                    known.is_going = is_going;
                }
            }
            (ToyKey::Object(name), ApiAnswer::Done | ApiAnswer::Absent(_)) => {
                if let Some(known) = self.objects.get_mut(name) {
                    known.is_going = true;
                }
            }
            (_, ApiAnswer::Failed(_) | ApiAnswer::Page(_))
            | (ToyKey::Owner(_), ApiAnswer::Done) => {}
        }
        Vec::new()
    }

    fn after_write(&self) -> AfterWrite {
        match self.has_turns {
            true => AfterWrite::EndOfQueue,
            false => AfterWrite::DecideAtOnce,
        }
    }

    fn measure(&mut self, step: &DriverStep<'_, ToyKey, ToyReason>, _: &ControllerMetrics) {
        let step = match step {
            DriverStep::Decided { because, .. } => format!("decided {}", because.rule()),
            DriverStep::Answered { call, .. } => format!("answered {}", call.verb()),
        };
        self.steps.push(step);
    }

    fn keys(&self, record: &ObjectRecord) -> Vec<ToyKey> {
        vec![ToyKey::Object(record.meta.name.to_string())]
    }
}

impl ToyController {
    fn is_sure(&self, owner: &str) -> bool {
        let rested = self.rested.get(owner).copied().unwrap_or_default();
        self.owners.contains_key(owner) && rested < SURE_MAX
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    fn notes(&self, name: &str) -> Vec<EventNote> {
        let Some(known) = self.objects.get(name) else {
            return Vec::new();
        };
        let meta = &known.record.meta;
        let about = ObjectIdentity {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: meta.namespace.to_string(),
            name: meta.name.to_string(),
            uid: meta.uid.to_string(),
        };
        let message = format!("it has {} finalizers", meta.finalizers.len());
        vec![EventNote::warning(about, "Noted", message)]
    }
}

impl DecisionReason for ToyReason {
    fn rule(&self) -> &'static str {
        match self {
            Self::NothingToDo => "NothingToDo",
            Self::Doomed(_) => "Doomed",
            Self::Finalizer => "Finalizer",
            Self::OwnerUnknown => "OwnerUnknown",
            Self::OwnerAbsent { .. } => "OwnerAbsent",
        }
    }

    fn proof(&self) -> Option<&AbsenceProof> {
        matches!(self, Self::OwnerAbsent { .. }).then_some(&AbsenceProof::NotFound)
    }

    fn events_on_success(&self) -> &[EventNote] {
        match self {
            Self::Doomed(notes) => notes,
            _ => &[],
        }
    }
}

impl fmt::Display for ToyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingToDo => f.write_str("nothing to do"),
            Self::Doomed(_) => f.write_str("its time has come"),
            Self::Finalizer => f.write_str("it waits for us"),
            Self::OwnerUnknown => f.write_str("its owner is not known"),
            Self::OwnerAbsent { owner } => write!(f, "its owner {owner} does not exist"),
        }
    }
}

fn mk_target(name: &str) -> CallTarget {
    CallTarget {
        kind: KindId(0),
        namespace: "default".into(),
        name: name.into(),
    }
}

fn mk_judged(record: &ObjectRecord) -> JudgedVersion {
    JudgedVersion {
        uid: record.meta.uid.clone(),
        revision: record.meta.revision.clone(),
    }
}

pub(crate) fn mk_delete(record: &ObjectRecord) -> ApiCall {
    ApiCall::Delete {
        target: mk_target(&record.meta.name),
        judged: mk_judged(record),
        propagation: Some(DeletePropagation::Background),
        grace_secs: None,
    }
}

fn mk_patch(record: &ObjectRecord) -> ApiCall {
    let rest: Vec<&str> = record
        .meta
        .finalizers
        .iter()
        .map(|own| &**own)
        .filter(|own| *own != FINALIZER)
        .collect();
    ApiCall::Patch {
        target: mk_target(&record.meta.name),
        judged: mk_judged(record),
        subresource: None,
        form: PatchForm::Merge,
        patch: json!({"metadata": {"finalizers": rest}}),
    }
}
