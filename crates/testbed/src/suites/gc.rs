//! The garbage collector's suite: what a client sees of ownership, cascades, orphans and waiting owners.
//!
//! The plays restate upstream's integration and e2e cases and the outcomes of its table of conflicting references, and
//! add inputs that went wrong for others. They are played with any collector: the Go one, `caretaker run`, or ours in
//! process. No controller but the collector runs and no kubelet: plays make the Pods of their owners themselves.

mod conflicting;
mod custom;
mod e2e;
mod inputs;
mod integration;
mod switched;

use serde_json::{Value, json};

use super::stage::{Made, Stage, blocking, owned};
use super::{Checked, Play};
use crate::objects::{PODS, REPLICATION_CONTROLLERS, mk_object, mk_pod, mk_pod_spec, with};

/// The plays, by where they come from.
pub const PLAYS: &[&[Play]] = &[
    integration::PLAYS,
    custom::PLAYS,
    e2e::PLAYS,
    conflicting::PLAYS,
    inputs::PLAYS,
    switched::PLAYS,
];

/// A finalizer that nobody but the play takes off.
const HOLD: &str = "example.com/hold";

/// A ReplicationController; nobody makes Pods for it.
fn mk_controller(name: &str) -> Value {
    let labels = json!({"app": name});
    let template = json!({"metadata": {"labels": labels}, "spec": mk_pod_spec()});
    with(
        mk_object("v1", "ReplicationController", name),
        json!({"spec": {"replicas": 1, "selector": labels, "template": template}}),
    )
}

/// An object that a finalizer of the play holds.
fn held(object: Value) -> Value {
    with(object, json!({"metadata": {"finalizers": [HOLD]}}))
}

fn background() -> Value {
    json!({"propagationPolicy": "Background"})
}

fn foreground() -> Value {
    json!({"propagationPolicy": "Foreground"})
}

fn orphan() -> Value {
    json!({"propagationPolicy": "Orphan"})
}

/// Makes a ReplicationController.
async fn controller(stage: &Stage, name: &str) -> Checked<Made> {
    stage
        .make(&REPLICATION_CONTROLLERS, mk_controller(name))
        .await
}

/// Makes a Pod with these owners.
async fn pod(stage: &Stage, name: &str, owners: &[Value]) -> Checked<Made> {
    stage.make(&PODS, owned(mk_pod(name), owners)).await
}

/// Makes so many Pods that a controller owns and waits for.
async fn pods_of(stage: &Stage, owner: &Made, count: usize) -> Checked<Vec<Made>> {
    let mut pods = Vec::new();
    for number in 0..count {
        let name = format!("{}-{number}", owner.name());
        let owner = with(blocking(owner.reference()), json!({"controller": true}));
        pods.push(pod(stage, &name, &[owner]).await?);
    }
    Ok(pods)
}

/// All of them, as looks take them.
fn all(made: &[Made]) -> Vec<&Made> {
    made.iter().collect()
}
