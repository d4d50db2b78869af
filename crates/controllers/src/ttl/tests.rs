//! What follows from a Job as it is, and from what happens to it: upstream's cases, ours, and inputs that make no sense.

mod changes;
mod garbagecollector;
mod hostile;
mod ticks;
mod ttlafterfinished;

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{BATCH, Finishing, Reason, Rules, Ttl, VOLCANO};
use crate::runtime::call::{AbsenceProof, ApiAnswer, ApiCall, DeletePropagation};
use crate::runtime::controller::{
    Controller, DecisionReason as _, NextStep, ObservedChange, Verdict, WakeList,
};
use crate::runtime::kind::{ApiKind, KindCatalog, KindId, KindScope, KindState, KindVerbs};
use crate::runtime::record::{ObjectRecord, RecordView, Uid, decode};

/// When it is now.
const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// The number of batch Jobs; Volcano's have the next one.
const BATCH_JOBS: KindId = KindId(0);

fn at(secs: i64) -> Timestamp {
    NOW + SignedDuration::from_secs(secs)
}

fn catalog() -> Arc<KindCatalog> {
    let kind = |row: &Finishing| {
        let version = row.api_version.rsplit('/').next().unwrap();
        ApiKind {
            group: row.group.into(),
            version: version.into(),
            kind: row.kind.into(),
            resource: row.resource.into(),
            scope: KindScope::Namespaced,
            verbs: KindVerbs::default(),
            versions: vec![version.into()],
            aliases: Vec::new(),
        }
    };
    Arc::new(KindCatalog::default().with([kind(&BATCH), kind(&VOLCANO)]))
}

fn mk(row: &'static Finishing, rules: Rules) -> Ttl {
    let mut ttl = Ttl::new(row, rules);
    observe(&mut ttl, &ObservedChange::Catalog(catalog()));
    ttl
}

/// A Job of a kind, uid and name `a`, version 1, changed by `changes`.
fn mk_job(row: &Finishing, changes: Value) -> Arc<ObjectRecord> {
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

/// A batch Job that ended like this.
fn batch(condition: &str, finish: impl Into<Value>, ttl: impl Into<Value>) -> Arc<ObjectRecord> {
    let (finish, ttl): (Value, Value) = (finish.into(), ttl.into());
    let condition = json!({"type": condition, "status": "True", "lastTransitionTime": finish});
    mk_job(
        &BATCH,
        json!({"spec": {"ttlSecondsAfterFinished": ttl}, "status": {"conditions": [condition]}}),
    )
}

/// A Volcano Job in this phase.
fn volcano(phase: &str, finish: impl Into<Value>, ttl: impl Into<Value>) -> Arc<ObjectRecord> {
    let (finish, ttl): (Value, Value) = (finish.into(), ttl.into());
    let state = json!({"phase": phase, "lastTransitionTime": finish});
    mk_job(
        &VOLCANO,
        json!({"spec": {"ttlSecondsAfterFinished": ttl}, "status": {"state": state}}),
    )
}

/// Shows a change; says who was woken.
fn observe(ttl: &mut Ttl, change: &ObservedChange) -> Vec<Uid> {
    let mut wake = WakeList::default();
    ttl.observe(change, NOW, &mut wake);
    wake.drain().map(|(uid, _)| uid).collect()
}

fn apply(ttl: &mut Ttl, record: &Arc<ObjectRecord>) -> Vec<Uid> {
    observe(ttl, &ObservedChange::Applied(record.clone()))
}

fn uid() -> Uid {
    Uid::from("a")
}

/// What is decided now about a Job of one kind that was just shown.
fn judged(row: &'static Finishing, record: &Arc<ObjectRecord>) -> Verdict<Uid, Reason> {
    let mut ttl = mk(row, Rules::default());
    apply(&mut ttl, record);
    ttl.decide(&uid(), NOW)
}

/// The word for a verdict's reason.
fn rule(verdict: &Verdict<Uid, Reason>) -> &'static str {
    verdict.because.rule()
}
