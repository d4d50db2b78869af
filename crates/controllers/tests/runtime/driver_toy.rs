//! A controller small enough to see through, that uses everything a driver offers. It looks after ConfigMaps:
//!
//! - `doomed-…` is deleted ten seconds after it was first seen;
//! - a finalizer `example.com/toy` is removed;
//! - `child-…-of-X` is deleted if there is no ConfigMap X; all children of X wait for one question;
//! - `sure-…-of-X` is one of these too, but an answer about X is good for a hundred of them only;
//! - `vain-…` waits for somebody who never has anything to ask;
//! - `waiting-…` is looked at again and again;
//! - `curious-…` is read, whatever the answer was;
//! - `far-…` has a Secret of the same name read;
//! - `noted-…` has something to tell;
//! - `panic-…` is more than it can take.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use caretaker_controllers::runtime::call::{
    Answer, Call, Judged, PatchForm, Proof, Propagation, Target,
};
use caretaker_controllers::runtime::controller::{
    AfterWrite, CallAnswer, Change, Controller, DecisionReason, DriverStep, Identity, Next, Note,
    Severity, Verdict, Wake,
};
use caretaker_controllers::runtime::kind::KindId;
use caretaker_controllers::runtime::metrics::Metrics;
use caretaker_controllers::runtime::record::Record;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

pub(crate) const FINALIZER: &str = "example.com/toy";

/// How many deletes of `sure-…` rest on one answer.
const SURE_MAX: usize = 100;

/// More decisions than any test needs: a driver that spins should fail, not hang.
const DECISIONS_MAX: usize = 100_000;

const DOOM: SignedDuration = SignedDuration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct Toy {
    objects: BTreeMap<String, Known>,
    owners: BTreeMap<String, Presence>,
    /// How many deletes rest on the last answer about an owner.
    rested: BTreeMap<String, usize>,
    pub(crate) decisions: Arc<std::sync::atomic::AtomicUsize>,
    has_turns: bool,
    /// The steps that the driver had measured.
    pub(crate) steps: Vec<String>,
}

#[derive(Debug)]
struct Known {
    record: Arc<Record>,
    since: Timestamp,
    is_going: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Presence {
    Present,
    Absent,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Object(String),
    Owner(String),
}

#[derive(Debug, Clone)]
pub(crate) enum Why {
    NothingToDo,
    Doomed,
    Finalizer,
    OwnerUnknown,
    OwnerAbsent { owner: String },
}

impl Toy {
    pub(crate) fn with_turns(has_turns: bool) -> Self {
        Self {
            has_turns,
            ..Self::default()
        }
    }

    fn about(&self, name: &str, now: Timestamp) -> (Next<Key>, Why) {
        let Some(known) = self.objects.get(name) else {
            return (Next::Rest, Why::NothingToDo);
        };
        let record = &known.record;
        if known.is_going {
            return (Next::Rest, Why::NothingToDo);
        }
        if record.meta.finalizers.iter().any(|own| **own == *FINALIZER) {
            return (Next::Call(mk_patch(record)), Why::Finalizer);
        }
        if name.starts_with("doomed-") {
            let due = known.since + DOOM;
            let next = if now < due {
                Next::At(due)
            } else {
                Next::Call(mk_delete(record))
            };
            return (next, Why::Doomed);
        }
        if name.starts_with("waiting-") {
            return (Next::Retry, Why::NothingToDo);
        }
        if name.starts_with("curious-") {
            let target = mk_target(name);
            return (Next::Call(Call::Get { target }), Why::NothingToDo);
        }
        if name.starts_with("far-") {
            let target = Target {
                kind: KindId(1),
                ..mk_target(name)
            };
            return (Next::Call(Call::Get { target }), Why::NothingToDo);
        }
        if name.starts_with("vain-") {
            let nobody = Key::Owner(String::new());
            return (Next::After(vec![nobody]), Why::OwnerUnknown);
        }
        if let Some((_, owner)) = name.split_once("-of-") {
            let owner = owner.to_owned();
            let is_unsure = name.starts_with("sure-") && !self.is_sure(&owner);
            return match self.owners.get(&owner).filter(|_| !is_unsure) {
                None => (Next::After(vec![Key::Owner(owner)]), Why::OwnerUnknown),
                Some(Presence::Present) => (Next::Rest, Why::NothingToDo),
                Some(Presence::Absent) => {
                    (Next::Call(mk_delete(record)), Why::OwnerAbsent { owner })
                }
            };
        }
        (Next::Rest, Why::NothingToDo)
    }
}

impl Controller for Toy {
    type Key = Key;
    type Reason = Why;

    fn name(&self) -> &'static str {
        "toy-controller"
    }

    fn observe(&mut self, change: &Change, now: Timestamp, wake: &mut Wake<Key>) {
        match change {
            Change::Applied(record) => {
                let name = record.meta.name.to_string();
                assert!(!name.starts_with("panic-"), "too much for a toy");
                let since = self.objects.get(&name).map_or(now, |known| known.since);
                let known = Known {
                    record: record.clone(),
                    since,
                    is_going: false,
                };
                self.objects.insert(name.clone(), known);
                wake.now(Key::Object(name));
            }
            Change::Deleted(record) => {
                self.objects.remove(&*record.meta.name);
                wake.now(Key::Object(record.meta.name.to_string()));
            }
            Change::Missing(..) | Change::Kind(..) | Change::Catalog(_) => {}
        }
    }

    fn decide(&self, key: &Key, now: Timestamp) -> Verdict<Key, Why> {
        use std::sync::atomic::Ordering;
        let before = self.decisions.fetch_add(1, Ordering::Relaxed);
        assert!(before < DECISIONS_MAX, "the driver spins");
        let (next, because) = match key {
            Key::Object(name) => self.about(name, now),
            Key::Owner(name) if name.is_empty() || self.is_sure(name) => {
                (Next::Rest, Why::NothingToDo)
            }
            Key::Owner(name) => {
                let target = mk_target(name);
                (Next::Call(Call::Get { target }), Why::OwnerUnknown)
            }
        };
        let notes = match key {
            Key::Object(name) if name.starts_with("noted-") => self.notes(name),
            _ => Vec::new(),
        };
        Verdict {
            next,
            because,
            notes,
        }
    }

    fn answered(&mut self, answered: CallAnswer<'_, Key>) -> Vec<Note> {
        let CallAnswer {
            key,
            call,
            answer,
            wake,
            ..
        } = answered;
        // A controller that wakes itself after a failure must not make its driver spin.
        wake.now(key.clone());
        match key {
            Key::Owner(name) => drop(self.rested.insert(name.clone(), 0)),
            Key::Object(name) => {
                let owner = name.split_once("-of-").map_or("", |(_, owner)| owner);
                *self.rested.entry(owner.to_owned()).or_default() += 1;
            }
        }
        match (key, answer) {
            (Key::Owner(name), Answer::Object(_)) => {
                self.owners.insert(name.clone(), Presence::Present);
            }
            (Key::Owner(name), Answer::Absent(_)) => {
                self.owners.insert(name.clone(), Presence::Absent);
            }
            (Key::Object(name), Answer::Object(record)) => {
                let is_going = matches!(call, Call::Delete { .. });
                if let Some(known) = self.objects.get_mut(name) {
                    known.record = record.clone();
                    known.is_going = is_going;
                }
            }
            (Key::Object(name), Answer::Done | Answer::Absent(_)) => {
                if let Some(known) = self.objects.get_mut(name) {
                    known.is_going = true;
                }
            }
            (_, Answer::Failed(_)) | (Key::Owner(_), Answer::Done) => {}
        }
        Vec::new()
    }

    fn after_write(&self) -> AfterWrite {
        match self.has_turns {
            true => AfterWrite::EndOfQueue,
            false => AfterWrite::DecideAtOnce,
        }
    }

    fn measure(&mut self, step: &DriverStep<'_, Key, Why>, _: &Metrics) {
        let step = match step {
            DriverStep::Decided { because, .. } => format!("decided {}", because.rule()),
            DriverStep::Answered { call, .. } => format!("answered {}", call.verb()),
        };
        self.steps.push(step);
    }

    fn keys(&self, record: &Record) -> Vec<Key> {
        vec![Key::Object(record.meta.name.to_string())]
    }
}

impl Toy {
    fn is_sure(&self, owner: &str) -> bool {
        let rested = self.rested.get(owner).copied().unwrap_or_default();
        self.owners.contains_key(owner) && rested < SURE_MAX
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    fn notes(&self, name: &str) -> Vec<Note> {
        let Some(known) = self.objects.get(name) else {
            return Vec::new();
        };
        let meta = &known.record.meta;
        vec![Note {
            about: Identity {
                api_version: "v1".to_owned(),
                kind: "ConfigMap".to_owned(),
                namespace: meta.namespace.to_string(),
                name: meta.name.to_string(),
                uid: meta.uid.to_string(),
            },
            severity: Severity::Warning,
            reason: "Noted",
            message: format!("it has {} finalizers", meta.finalizers.len()),
            dedup_key: None,
        }]
    }
}

impl DecisionReason for Why {
    fn rule(&self) -> &'static str {
        match self {
            Self::NothingToDo => "NothingToDo",
            Self::Doomed => "Doomed",
            Self::Finalizer => "Finalizer",
            Self::OwnerUnknown => "OwnerUnknown",
            Self::OwnerAbsent { .. } => "OwnerAbsent",
        }
    }

    fn proof(&self) -> Option<&Proof> {
        matches!(self, Self::OwnerAbsent { .. }).then_some(&Proof::NotFound)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingToDo => f.write_str("nothing to do"),
            Self::Doomed => f.write_str("its time has come"),
            Self::Finalizer => f.write_str("it waits for us"),
            Self::OwnerUnknown => f.write_str("its owner is not known"),
            Self::OwnerAbsent { owner } => write!(f, "its owner {owner} does not exist"),
        }
    }
}

fn mk_target(name: &str) -> Target {
    Target {
        kind: KindId(0),
        namespace: "default".into(),
        name: name.into(),
    }
}

fn mk_judged(record: &Record) -> Judged {
    Judged {
        uid: record.meta.uid.clone(),
        revision: record.meta.revision.clone(),
    }
}

pub(crate) fn mk_delete(record: &Record) -> Call {
    Call::Delete {
        target: mk_target(&record.meta.name),
        judged: mk_judged(record),
        propagation: Some(Propagation::Background),
        grace_secs: None,
    }
}

fn mk_patch(record: &Record) -> Call {
    let rest: Vec<&str> = record
        .meta
        .finalizers
        .iter()
        .map(|own| &**own)
        .filter(|own| *own != FINALIZER)
        .collect();
    Call::Patch {
        target: mk_target(&record.meta.name),
        judged: mk_judged(record),
        subresource: None,
        form: PatchForm::Merge,
        patch: json!({"metadata": {"finalizers": rest}}),
    }
}
