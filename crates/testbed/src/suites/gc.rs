//! The garbage collector's suite: what a client sees of ownership, cascades, orphans and waiting owners.
//!
//! The cases restate upstream's integration and e2e cases and the outcomes of its table of conflicting references, and
//! add inputs that broke other collectors. They run with any collector: the Go one, `caretaker run`, or ours in process. No
//! other controller and no kubelet runs: cases create the Pods of their owners themselves.

mod conflicting;
mod custom;
mod e2e;
mod inputs;
mod integration;
mod switched;

use serde_json::{Value, json};

use super::{CaseSuite, CaseTheme};
use crate::case::CheckResult;
use crate::environment::Environment;
use crate::fixtures::{CreatedObject, blocking, owned};
use crate::objects::{PODS, REPLICATION_CONTROLLERS, mk_object, mk_pod, mk_pod_spec, with};

pub static SUITE: CaseSuite = CaseSuite {
    name: "gc",
    controllers: &[],
    themes: &[
        CaseTheme {
            name: "integration",
            cases: integration::CASES,
        },
        CaseTheme {
            name: "custom",
            cases: custom::CASES,
        },
        CaseTheme {
            name: "e2e",
            cases: e2e::CASES,
        },
        CaseTheme {
            name: "conflicting",
            cases: conflicting::CASES,
        },
        CaseTheme {
            name: "inputs",
            cases: inputs::CASES,
        },
        CaseTheme {
            name: "switched",
            cases: switched::CASES,
        },
    ],
};

/// A finalizer that only the case removes.
const HOLD: &str = "example.com/hold";

/// A ReplicationController; no controller creates Pods for it.
fn mk_controller(name: &str) -> Value {
    let labels = json!({"app": name});
    let template = json!({"metadata": {"labels": labels}, "spec": mk_pod_spec()});
    with(
        mk_object("v1", "ReplicationController", name),
        json!({"spec": {"replicas": 1, "selector": labels, "template": template}}),
    )
}

/// The object with the finalizer [`HOLD`].
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
async fn controller(env: &Environment, name: &str) -> CheckResult<CreatedObject> {
    env.make(&REPLICATION_CONTROLLERS, mk_controller(name))
        .await
}

/// Makes a Pod with these owners.
async fn pod(env: &Environment, name: &str, owners: &[Value]) -> CheckResult<CreatedObject> {
    env.make(&PODS, owned(mk_pod(name), owners)).await
}

/// Creates `count` Pods that a controller owns and waits for.
async fn pods_of(
    env: &Environment,
    owner: &CreatedObject,
    count: usize,
) -> CheckResult<Vec<CreatedObject>> {
    let mut pods = Vec::new();
    for number in 0..count {
        let name = format!("{}-{number}", owner.name());
        let owner = with(blocking(owner.reference()), json!({"controller": true}));
        pods.push(pod(env, &name, &[owner]).await?);
    }
    Ok(pods)
}

/// All of them, as looks take them.
fn all(made: &[CreatedObject]) -> Vec<&CreatedObject> {
    made.iter().collect()
}
