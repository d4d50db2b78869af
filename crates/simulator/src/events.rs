//! Events of actors: notes about objects, and decisions that carry them.
//!
//! The runtime's recorder writes, combines and limits them (`caretaker_controllers::runtime::events`). Reasons, messages and
//! sources are those of the controller, scheduler or kubelet that an actor stands for, 1.36.

use caretaker_controllers::runtime::call::{ApiCall, CallFailure, FailureKind};
use caretaker_controllers::runtime::controller::{EventNote, EventSource, ObjectIdentity};
use caretaker_controllers::runtime::kind::ApiKind;

use crate::actor::ActorDecision;
use crate::cache::{ObjectCache, ObjectSnapshot};
use crate::pod::PODS;

/// The object as an Event refers to it.
pub(crate) fn identity(cache: &ObjectCache, object: &ObjectSnapshot) -> ObjectIdentity {
    let (meta, kind) = (object.meta(), cache.kind(object.kind()));
    ObjectIdentity {
        api_version: kind.map(ApiKind::api_version).unwrap_or_default(),
        kind: kind.map(|kind| kind.kind.to_string()).unwrap_or_default(),
        namespace: meta.namespace.to_string(),
        name: meta.name.to_string(),
        uid: meta.uid.to_string(),
    }
}

/// The same note with another program as its source.
pub(crate) fn reported_by(component: &'static str, host: &str, note: EventNote) -> EventNote {
    let host = host.to_owned();
    EventNote {
        source: Some(EventSource { component, host }),
        ..note
    }
}

/// The decision with Events that are emitted when the server has accepted its request.
pub(crate) fn on_success(
    mut decision: ActorDecision,
    events: impl IntoIterator<Item = EventNote>,
) -> ActorDecision {
    decision.because.add_events(events);
    decision
}

/// The decision with Events about the state that it found. The driver emits those that the last decision did not have.
pub(crate) fn on_state(
    mut decision: ActorDecision,
    events: impl IntoIterator<Item = EventNote>,
) -> ActorDecision {
    decision.notes.extend(events);
    decision
}

/// The Event of a Pod that its controller has created.
pub(crate) fn pod_created(cache: &ObjectCache, owner: &ObjectSnapshot, name: &str) -> EventNote {
    let about = identity(cache, owner);
    EventNote::normal(about, "SuccessfulCreate", format!("Created pod: {name}"))
}

/// The Event of a Pod that its controller has deleted.
pub(crate) fn pod_deleted(cache: &ObjectCache, owner: &ObjectSnapshot, name: &str) -> EventNote {
    let about = identity(cache, owner);
    EventNote::normal(about, "SuccessfulDelete", format!("Deleted pod: {name}"))
}

/// The Event of a Pod that the server has refused to create or delete.
pub(crate) fn pod_refused(
    cache: &ObjectCache,
    owner: &ObjectSnapshot,
    call: &ApiCall,
    failure: &CallFailure,
) -> Option<EventNote> {
    let is_pod = cache.served(PODS).map(|(id, _)| id) == Some(call.target().kind);
    let (reason, verb) = match call {
        ApiCall::Create {
            subresource: None, ..
        } => ("FailedCreate", "creating"),
        ApiCall::Delete { .. } => ("FailedDelete", "deleting"),
        _ => return None,
    };
    // The driver reads again after a conflict; nothing can be created in a namespace that ends.
    let is_final = matches!(failure.kind, FailureKind::Forbidden | FailureKind::Refused);
    let message = format!("Error {verb}: {}", failure.message);
    (is_pod && is_final).then(|| EventNote::warning(identity(cache, owner), reason, message))
}
