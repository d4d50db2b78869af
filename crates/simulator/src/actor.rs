//! What an actor is: one decision about one object at a time, made from what it knows; and how it becomes a controller.
//!
//! Actors run on the same driver, feeds and effects as the controllers they are there for, and like them they only speak
//! the API: they work beside any server. What differs between them is [`Actor::decide`], a pure function.

use std::borrow::Cow;
use std::fmt;

use caretaker_controllers::runtime::call::Call;
use caretaker_controllers::runtime::controller::{
    CallAnswer, Change, Controller, DecisionReason, Next, Note, Verdict, Wake,
};
use caretaker_controllers::runtime::feed_set::Interest;
use caretaker_controllers::runtime::kind::KindState;
use caretaker_controllers::runtime::record::{Record, View};
use jiff::Timestamp;

use crate::world::{Named, Object, World};

pub(crate) use crate::world::Key;

/// Why an actor does something, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Why(Cow<'static, str>);

/// What an actor decides.
pub(crate) type Decision = Verdict<Key, Why>;

/// One kind of actor. The first of its kinds is what its decisions are about.
pub(crate) trait Actor: Send + 'static {
    /// Its name in logs and metrics.
    const NAME: &'static str;
    /// What it has to know about, group and resource.
    const KINDS: &'static [Named];

    /// What follows for an object from what is known.
    fn decide(&self, world: &World, object: &Object, now: Timestamp) -> Decision;

    /// What follows for an object that does not exist.
    fn absent(&self, _: &World, _: &Key, _: Timestamp) -> Decision {
        rest("it does not exist")
    }

    /// Takes note of an object of its own kind.
    fn note(&mut self, _: &Object) {}

    /// Objects that it looks after whether they exist or not.
    fn roots(&self) -> Vec<Key> {
        Vec::new()
    }

    /// The decisions that a change of another kind's object may change.
    fn affected(&self, _: &World, object: &Object) -> Vec<Key> {
        owner_key(object).into_iter().collect()
    }
}

/// An actor as a controller.
#[derive(Debug)]
pub(crate) struct Acting<A> {
    actor: A,
    world: World,
}

// === impl Why ===

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl DecisionReason for Why {
    fn rule(&self) -> &'static str {
        "Simulated"
    }
}

// === impl Acting ===

impl<A: Actor> Acting<A> {
    pub(crate) fn new(actor: A) -> Self {
        Self {
            actor,
            world: World::new(A::KINDS),
        }
    }

    /// What it wants to be told about.
    pub(crate) fn interest() -> Interest {
        let named = |(group, resource): &Named| ((*group).into(), (*resource).into());
        Interest::Kinds {
            kinds: A::KINDS.iter().map(named).collect(),
            view: View::Full,
        }
    }

    /// Something has happened to an object: what is to be decided again.
    fn touched(&mut self, object: &Object, wake: &mut Wake<Key>) {
        let own = self.world.served(A::KINDS[0]).map(|(id, _)| id);
        if own == Some(object.kind()) {
            self.actor.note(object);
            wake.now(object.key());
        } else {
            let affected = self.actor.affected(&self.world, object);
            affected.into_iter().for_each(|key| wake.now(key));
        }
    }
}

impl<A: Actor> Controller for Acting<A> {
    type Key = Key;
    type Reason = Why;

    fn name(&self) -> &'static str {
        A::NAME
    }

    fn observe(&mut self, change: &Change, _: Timestamp, wake: &mut Wake<Key>) {
        if let Some(object) = self.world.observe(change) {
            self.touched(&object, wake);
        }
        if matches!(change, Change::Kind(_, KindState::Synced)) && self.world.is_complete() {
            let known = self.world.all(A::KINDS[0]).map(Object::key);
            let known = known.chain(self.actor.roots());
            known.for_each(|key| wake.now(key));
        }
    }

    fn decide(&self, key: &Key, now: Timestamp) -> Decision {
        if !self.world.is_complete() {
            return rest("not everything is known yet");
        }
        match self.world.get(A::KINDS[0], key) {
            None => self.actor.absent(&self.world, key, now),
            Some(object) if object.is_stale() => rest("it has just been changed"),
            Some(object) => self.actor.decide(&self.world, object, now),
        }
    }

    fn answered(&mut self, answered: CallAnswer<'_, Key>) -> Vec<Note> {
        let CallAnswer {
            call, answer, wake, ..
        } = answered;
        if let Some(object) = self.world.heard(call, answer) {
            self.touched(&object, wake);
        }
        Vec::new()
    }

    fn keys(&self, record: &Record) -> Vec<Key> {
        let own = self.world.served(A::KINDS[0]).map(|(id, _)| id);
        let is_own = own == Some(record.kind);
        is_own.then(|| Key::of(&record.meta)).into_iter().collect()
    }
}

/// The object that manages this one.
pub(crate) fn owner_key(object: &Object) -> Option<Key> {
    let mut owners = object.meta().owners.iter();
    let controller = owners.find(|owner| owner.controller == Some(true))?;
    Some(Key::new(&object.meta().namespace, &controller.name))
}

/// Nothing until something changes.
pub(crate) fn rest(why: impl Into<Cow<'static, str>>) -> Decision {
    next(Next::Rest, why)
}

/// Nothing until then.
pub(crate) fn at(time: Timestamp, why: impl Into<Cow<'static, str>>) -> Decision {
    next(Next::At(time), why)
}

/// Nothing for a while.
pub(crate) fn retry(why: impl Into<Cow<'static, str>>) -> Decision {
    next(Next::Retry, why)
}

/// This request.
pub(crate) fn ask(call: Call, why: impl Into<Cow<'static, str>>) -> Decision {
    next(Next::Call(call), why)
}

fn next(next: Next<Key>, why: impl Into<Cow<'static, str>>) -> Decision {
    Verdict {
        next,
        because: Why(why.into()),
        notes: Vec::new(),
    }
}
