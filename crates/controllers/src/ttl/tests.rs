//! Tests of the TTL controllers: upstream's cases, changes of a Job, the interlock, and hostile inputs.

mod changes;
mod garbagecollector;
mod hostile;
mod interlock;
mod ttlafterfinished;

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{BATCH, FinishingKind, TtlController, TtlReason, TtlSettings, VOLCANO};
use crate::runtime::call::{AbsenceProof, ApiAnswer, ApiCall, DeletePropagation};
use crate::runtime::controller::{
    Controller, DecisionReason as _, NextStep, ObservedChange, Verdict, WakeList,
};
use crate::runtime::kind::{ApiKind, KindCatalog, KindId, KindScope, KindState};
use crate::runtime::record::{ObjectRecord, RecordView, Uid, decode};
use crate::test_world::mk_kind;

/// The time of the tests.
const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// The kind id of batch Jobs. Volcano's Jobs have the next one.
const BATCH_JOBS: KindId = KindId(0);

fn at(secs: i64) -> Timestamp {
    NOW + SignedDuration::from_secs(secs)
}

fn catalog() -> Arc<KindCatalog> {
    let kind = |row: &FinishingKind| {
        let version = row.api_version.rsplit('/').next().unwrap();
        let scope = KindScope::Namespaced;
        mk_kind(row.group, version, row.kind, row.resource, scope)
    };
    Arc::new(KindCatalog::default().with([kind(&BATCH), kind(&VOLCANO)]))
}

fn mk(row: &'static FinishingKind, settings: TtlSettings) -> TtlController {
    let mut ttl = TtlController::new(row, settings);
    observe(&mut ttl, &ObservedChange::Catalog(catalog()));
    ttl
}

/// A Job with uid and name `a` and version 1, merged with `changes`.
fn mk_job(row: &FinishingKind, changes: Value) -> Arc<ObjectRecord> {
    let mut job =
        json!({"metadata": {"name": "a", "namespace": "shop", "uid": "a", "resourceVersion": "1"}});
    merge(&mut job, changes);
    let kind = catalog().id(row.group, row.resource).unwrap();
    Arc::new(decode(kind, job.to_string().as_bytes(), RecordView::Full).unwrap())
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// A batch Job with this condition, finish time and TTL.
fn batch(condition: &str, finish: impl Into<Value>, ttl: impl Into<Value>) -> Arc<ObjectRecord> {
    let (finish, ttl): (Value, Value) = (finish.into(), ttl.into());
    let condition = json!({"type": condition, "status": "True", "lastTransitionTime": finish});
    mk_job(
        &BATCH,
        json!({"spec": {"ttlSecondsAfterFinished": ttl}, "status": {"conditions": [condition]}}),
    )
}

/// A Volcano Job with this phase, finish time and TTL.
fn volcano(phase: &str, finish: impl Into<Value>, ttl: impl Into<Value>) -> Arc<ObjectRecord> {
    let (finish, ttl): (Value, Value) = (finish.into(), ttl.into());
    let state = json!({"phase": phase, "lastTransitionTime": finish});
    mk_job(
        &VOLCANO,
        json!({"spec": {"ttlSecondsAfterFinished": ttl}, "status": {"state": state}}),
    )
}

/// Applies a change and returns the keys that it wakes.
fn observe(ttl: &mut TtlController, change: &ObservedChange) -> Vec<Uid> {
    let mut wake = WakeList::default();
    ttl.observe(change, NOW, &mut wake);
    wake.drain().map(|(uid, _)| uid).collect()
}

fn apply(ttl: &mut TtlController, record: &Arc<ObjectRecord>) -> Vec<Uid> {
    observe(ttl, &ObservedChange::Applied(record.clone()))
}

fn uid() -> Uid {
    Uid::from("a")
}

/// The decision about a Job that was just applied.
fn judged(row: &'static FinishingKind, record: &Arc<ObjectRecord>) -> Verdict<Uid, TtlReason> {
    let mut ttl = mk(row, TtlSettings::default());
    apply(&mut ttl, record);
    ttl.decide(&uid(), NOW)
}

/// The rule id of a verdict's reason.
fn rule(verdict: &Verdict<Uid, TtlReason>) -> &'static str {
    verdict.because.rule()
}
