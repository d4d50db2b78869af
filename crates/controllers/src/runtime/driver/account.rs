//! What a driver writes down: records of writes, counts, and how it is.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::{Driver, Landed};
use crate::runtime::call::{Answer, Call, FailureKind, Propagation};
use crate::runtime::controller::{Controller, DecisionReason, Identity};
use crate::runtime::evidence::{Evidence, Outcome};
use crate::runtime::kind::Kind;
use crate::runtime::metrics::{ControllerLabel, DeleteLabels};

impl<C: Controller> Driver<C> {
    /// Writes down what a request was answered.
    pub(super) fn account(&self, landed: &Landed<C>, now: Timestamp) {
        if landed.call.is_read() {
            self.evidence.read();
            return;
        }
        let answer = &landed.performed.answer;
        let status = landed.performed.status;
        let mut evidence = self.evidence_of(&landed.key, &landed.call, &landed.because, now);
        evidence.status = status.map_or(Outcome::NoAnswer, Outcome::Code);
        evidence.ms = millis(landed.took);
        evidence.requests = landed.trip.requests;
        evidence.done = matches!(answer, Answer::Object(_) | Answer::Done);
        let result = match answer {
            Answer::Object(_) | Answer::Done => "deleted",
            Answer::Absent(_) => "absent",
            Answer::Failed(failure) if failure.kind == FailureKind::Conflict => "conflict",
            Answer::Failed(failure) => {
                tracing::debug!(controller = self.name, object = evidence.object, %failure, "a write failed");
                "failed"
            }
        };
        self.count_delete(&landed.call, &evidence, result);
        self.evidence.record(evidence);
    }

    /// Writes down what a dry run would have done.
    pub(super) fn account_rehearsal(
        &self,
        key: &C::Key,
        call: &Call,
        because: &C::Reason,
        now: Timestamp,
    ) {
        let evidence = self.evidence_of(key, call, because, now);
        self.count_delete(call, &evidence, "dry-run");
        self.evidence.record(evidence);
    }

    /// Counts a key whose object changed faster than it could be judged.
    pub(super) fn account_starved(&self) {
        let controller = self.name;
        let starved = &self.metrics.families().conflicts_starved;
        starved.get_or_create(&ControllerLabel { controller }).inc();
    }

    /// Shows how the driver is.
    pub(super) fn publish(&mut self) {
        let counts = self.queue.counts();
        let metrics = &self.queue_metrics;
        metrics.adds.inc_by(counts.adds - self.counted.adds);
        metrics
            .retries
            .inc_by(counts.retries - self.counted.retries);
        metrics
            .depth
            .set(i64::try_from(counts.due).unwrap_or(i64::MAX));
        self.counted = counts;

        let mut state = self.handle.pulse().state();
        state.due = self.queue.oldest();
        state.asked = self.sent.first_key_value().map(|(_, (sent, _))| *sent);
        state.turned = Some(Instant::now());
        state.started.clear();
        state.started.extend(self.started.values());
    }

    /// A record of a write that was not sent.
    fn evidence_of(
        &self,
        key: &C::Key,
        call: &Call,
        because: &C::Reason,
        now: Timestamp,
    ) -> Evidence {
        let target = call.target();
        let catalog = self.effects.catalog();
        let kind = catalog.get(target.kind);
        let judged = call.judged();
        let uid = judged.map(|judged| judged.uid.to_string());
        let uid = uid.unwrap_or_default();
        let revision = judged.map(|judged| judged.revision.to_string());
        let policy = match call {
            Call::Delete { propagation, .. } => *propagation,
            Call::Get { .. } | Call::Create { .. } | Call::Patch { .. } => None,
        };
        Evidence {
            at: now,
            controller: self.name,
            key: format!("{key:?}"),
            verb: call.verb(),
            object: Object(kind, &target.namespace, &target.name).to_string(),
            resource_version: revision.unwrap_or_default(),
            because: because.to_json(),
            proof: because.proof().map(ToString::to_string),
            status: Outcome::DryRun,
            ms: 0,
            reason: because.to_string(),
            cause: because.cause().cloned(),
            target: Identity {
                api_version: kind.map(Kind::api_version).unwrap_or_default(),
                kind: kind.map(|kind| kind.kind.to_string()).unwrap_or_default(),
                namespace: target.namespace.to_string(),
                name: target.name.to_string(),
                uid: uid.clone(),
            },
            uid,
            group: kind.map(|kind| kind.group.to_string()).unwrap_or_default(),
            resource: kind
                .map(|kind| kind.resource.to_string())
                .unwrap_or_default(),
            policy,
            done: false,
            requests: 0,
        }
    }

    fn count_delete(&self, call: &Call, evidence: &Evidence, result: &'static str) {
        if !matches!(call, Call::Delete { .. }) {
            return;
        }
        let labels = DeleteLabels {
            controller: self.name,
            group: evidence.group.clone(),
            resource: evidence.resource.clone(),
            policy: match evidence.policy {
                Some(Propagation::Background) => "background",
                Some(Propagation::Foreground) => "foreground",
                Some(Propagation::Orphan) => "orphan",
                None => "default",
            },
            result,
        };
        let deletes = &self.metrics.families().deletes;
        deletes.get_or_create(&labels).inc();
    }
}

/// An object as the log names it: `deployments.apps shop/web`.
struct Object<'a>(Option<&'a Kind>, &'a str, &'a str);

impl fmt::Display for Object<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(kind, namespace, name) = self;
        match kind {
            Some(kind) => write!(f, "{kind} ")?,
            None => f.write_str("(not served) ")?,
        }
        if namespace.is_empty() {
            f.write_str(name)
        } else {
            write!(f, "{namespace}/{name}")
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
