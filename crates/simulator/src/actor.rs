//! An actor: a controller that decides about one object at a time from a cache of objects.
//!
//! Actors run on the same driver and feeds as the real controllers, and only use the API, so they work with any API server.
//! Each actor implements [`Actor::decide`], a pure function; [`ActorController`] does the rest.

use std::borrow::Cow;
use std::fmt;

use caretaker_controllers::runtime::call::{ApiAnswer, ApiCall, CallFailure};
use caretaker_controllers::runtime::controller::{
    AnsweredCall, Controller, DecisionReason, EventNote, NextStep, ObservedChange, Verdict,
    WakeList,
};
use caretaker_controllers::runtime::feed_set::KindInterest;
use caretaker_controllers::runtime::kind::KindState;
use caretaker_controllers::runtime::record::{ObjectRecord, RecordView};
use jiff::Timestamp;
use serde_json::Value;

use crate::cache::{GroupResource, ObjectCache, ObjectSnapshot};
use crate::events::pod_refused;
use crate::objects::{create, write_status};

pub(crate) use crate::cache::NamespacedName;

/// The reason of a decision as text, and the Events of its success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ActorReason {
    text: Cow<'static, str>,
    events: Vec<EventNote>,
}

/// The decision of an actor about one object.
pub(crate) type ActorDecision = Verdict<NamespacedName, ActorReason>;

/// One kind of actor. Its decisions are about objects of the first of [`Self::KINDS`].
pub(crate) trait Actor: Send + 'static {
    /// Controller name in logs and metrics.
    const NAME: &'static str;
    /// The component that Events name as their source; upstream's.
    const REPORTER: &'static str = Self::NAME;
    /// The resources that the actor watches.
    const KINDS: &'static [GroupResource];

    /// Decides about an existing object.
    fn decide(&self, cache: &ObjectCache, object: &ObjectSnapshot, now: Timestamp)
    -> ActorDecision;

    /// Decides about an object that does not exist.
    fn absent(&self, _: &ObjectCache, _: &NamespacedName, _: Timestamp) -> ActorDecision {
        rest("it does not exist")
    }

    /// The Event of a request that the server has refused. `object` is the one that the decision was about.
    fn refused(
        &self,
        cache: &ObjectCache,
        object: &ObjectSnapshot,
        call: &ApiCall,
        failure: &CallFailure,
    ) -> Option<EventNote> {
        pod_refused(cache, object, call, failure)
    }

    /// Observes an added or changed object of the first kind.
    fn observe_own(&mut self, _: &ObjectSnapshot) {}

    /// Objects to decide about even if they do not exist.
    fn roots(&self) -> Vec<NamespacedName> {
        Vec::new()
    }

    /// The objects to decide about again after an object of another kind has changed.
    fn affected(&self, _: &ObjectCache, object: &ObjectSnapshot) -> Vec<NamespacedName> {
        owner_key(object).into_iter().collect()
    }
}

/// Runs an actor as a controller.
#[derive(Debug)]
pub(crate) struct ActorController<A> {
    actor: A,
    cache: ObjectCache,
}

// === impl ActorReason ===

impl ActorReason {
    pub(crate) fn add_events(&mut self, events: impl IntoIterator<Item = EventNote>) {
        self.events.extend(events);
    }
}

impl fmt::Display for ActorReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl DecisionReason for ActorReason {
    fn rule(&self) -> &'static str {
        "Simulated"
    }

    fn events_on_success(&self) -> &[EventNote] {
        &self.events
    }
}

// === impl ActorController ===

impl<A: Actor> ActorController<A> {
    pub(crate) fn new(actor: A) -> Self {
        Self {
            actor,
            cache: ObjectCache::new(A::KINDS),
        }
    }

    /// An object of the cache.
    #[cfg(test)]
    pub(crate) fn known(
        &self,
        named: GroupResource,
        key: &NamespacedName,
    ) -> Option<&ObjectSnapshot> {
        self.cache.get(named, key)
    }

    /// The kinds to subscribe to.
    pub(crate) fn interest() -> KindInterest {
        let named = |(group, resource): &GroupResource| ((*group).into(), (*resource).into());
        KindInterest::Kinds {
            kinds: A::KINDS.iter().map(named).collect(),
            view: RecordView::Full,
        }
    }

    /// Wakes the objects that a change of `object` affects.
    fn touched(&mut self, object: &ObjectSnapshot, wake: &mut WakeList<NamespacedName>) {
        let own = self.cache.served(A::KINDS[0]).map(|(id, _)| id);
        if own == Some(object.kind()) {
            self.actor.observe_own(object);
            wake.now(object.key());
        } else {
            let affected = self.actor.affected(&self.cache, object);
            affected.into_iter().for_each(|key| wake.now(key));
        }
    }
}

impl<A: Actor> Controller for ActorController<A> {
    type Key = NamespacedName;
    type Reason = ActorReason;

    fn name(&self) -> &'static str {
        A::NAME
    }

    fn observe(
        &mut self,
        change: &ObservedChange,
        _: Timestamp,
        wake: &mut WakeList<NamespacedName>,
    ) {
        if let Some(object) = self.cache.observe(change) {
            self.touched(&object, wake);
        }
        if matches!(change, ObservedChange::Kind(_, KindState::Synced)) && self.cache.is_complete()
        {
            let known = self.cache.all(A::KINDS[0]).map(ObjectSnapshot::key);
            let known = known.chain(self.actor.roots());
            known.for_each(|key| wake.now(key));
        }
    }

    fn decide(&self, key: &NamespacedName, now: Timestamp) -> ActorDecision {
        if !self.cache.is_complete() {
            return rest("the cache is not synced yet");
        }
        match self.cache.get(A::KINDS[0], key) {
            None => self.actor.absent(&self.cache, key, now),
            Some(object) if object.is_stale() => {
                rest("waiting for the watch to show the last change")
            }
            Some(object) => self.actor.decide(&self.cache, object, now),
        }
    }

    fn answered(&mut self, answered: AnsweredCall<'_, NamespacedName>) -> Vec<EventNote> {
        let AnsweredCall {
            key,
            call,
            answer,
            now,
            wake,
        } = answered;
        if let Some(object) = self.cache.apply_answer(call, answer, now) {
            self.touched(&object, wake);
        }
        let ApiAnswer::Failed(failure) = answer else {
            return Vec::new();
        };
        let object = self.cache.get(A::KINDS[0], key);
        let note = object.and_then(|object| self.actor.refused(&self.cache, object, call, failure));
        note.into_iter().collect()
    }

    fn keys(&self, record: &ObjectRecord) -> Vec<NamespacedName> {
        let own = self.cache.served(A::KINDS[0]).map(|(id, _)| id);
        let is_own = own == Some(record.kind);
        is_own
            .then(|| NamespacedName::of(&record.meta))
            .into_iter()
            .collect()
    }
}

/// The name of the object's controller.
pub(crate) fn owner_key(object: &ObjectSnapshot) -> Option<NamespacedName> {
    let namespace = &object.meta().namespace;
    Some(NamespacedName::new(namespace, &object.controller()?.name))
}

/// Do nothing until a watched object changes.
pub(crate) fn rest(why: impl Into<Cow<'static, str>>) -> ActorDecision {
    next(NextStep::Rest, why)
}

/// Do nothing until `time`.
pub(crate) fn wait_until(time: Timestamp, why: impl Into<Cow<'static, str>>) -> ActorDecision {
    next(NextStep::At(time), why)
}

/// Decide again after a backoff.
pub(crate) fn retry(why: impl Into<Cow<'static, str>>) -> ActorDecision {
    next(NextStep::Retry, why)
}

/// Send this request, or rest if there is none.
pub(crate) fn request_or_rest(
    call: Option<ApiCall>,
    why: &'static str,
    otherwise: &'static str,
) -> ActorDecision {
    call.map_or_else(|| rest(otherwise), |call| request(call, why))
}

/// Set the status of the object.
pub(crate) fn set_status(
    object: &ObjectSnapshot,
    status: &Value,
    why: &'static str,
) -> ActorDecision {
    request_or_rest(
        write_status(object, status),
        why,
        "the status is up to date",
    )
}

/// Create an object that `owner` controls; retry while its kind is not served.
pub(crate) fn make(
    cache: &ObjectCache,
    owner: &ObjectSnapshot,
    named: GroupResource,
    (name, object): (&str, Value),
    why: &'static str,
) -> ActorDecision {
    create(cache, owner, named, name, object).map_or_else(
        || retry(format!("{} are not served", named.1)),
        |call| request(call, why),
    )
}

/// Send this request.
pub(crate) fn request(call: ApiCall, why: impl Into<Cow<'static, str>>) -> ActorDecision {
    next(NextStep::Call(call), why)
}

fn next(next: NextStep<NamespacedName>, why: impl Into<Cow<'static, str>>) -> ActorDecision {
    Verdict {
        next,
        because: ActorReason {
            text: why.into(),
            events: Vec::new(),
        },
        notes: Vec::new(),
    }
}
