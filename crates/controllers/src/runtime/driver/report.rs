//! The reports of a driver: evidence of its writes, metrics, Events, failed requests in the log, and its liveness.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use caretaker_machinery::clock::SteadyTime;
use jiff::Timestamp;
use tokio::time::Instant;

use super::clock_skew::DriverTime;
use super::failure_log::{FailureCause, FailureLine, FailureLog};
use super::liveness::DriverLiveness;
use super::repeated_writes::WriteRepetition;
use super::requests::{FinishedCall, PlannedCall};
use crate::runtime::call::{ApiAnswer, ApiCall, CallFailure, DeletePropagation};
use crate::runtime::controller::{Controller, DecisionReason, EventNote, NextStep, ObjectIdentity};
use crate::runtime::events::EventSink;
use crate::runtime::evidence::{Evidence, EvidenceTrail, FailedCall, WriteStatus};
use crate::runtime::kind::{ApiKind, KindCatalog};
use crate::runtime::metrics::{ControllerLabel, ControllerMetrics, DeleteLabels, QueueMetrics};
use crate::runtime::queue::{DueKey, QueueCounts, WorkQueue};

/// The Event about an object on which the same write is undone again and again.
const WRITE_UNDONE: &str = "WriteUndone";

/// Where one driver reports to, and what it has reported.
pub(super) struct DriverReport<K> {
    /// The controller's name.
    pub(super) name: &'static str,
    /// The component that Events name as their source.
    pub(super) event_source: &'static str,
    pub(super) events: EventSink,
    pub(super) evidence: EvidenceTrail,
    pub(super) metrics: ControllerMetrics,
    pub(super) queue_metrics: QueueMetrics,
    liveness: DriverLiveness,
    failures: FailureLog,
    /// The queue's counts that metrics have.
    counted: QueueCounts,
    /// Since when each key is in process.
    started: BTreeMap<K, SteadyTime>,
    /// The notes of each key's last decision that had any.
    notes: BTreeMap<K, Vec<EventNote>>,
}

/// The object of a call as the log names it: `deployments.apps shop/web`.
pub(super) struct TargetName<'a>(pub(super) &'a ApiCall, pub(super) &'a KindCatalog);

// === impl DriverReport ===

impl<K: Clone + Ord + fmt::Display> DriverReport<K> {
    pub(super) fn new(
        liveness: DriverLiveness,
        event_source: &'static str,
        events: EventSink,
        evidence: EvidenceTrail,
        metrics: ControllerMetrics,
    ) -> Self {
        metrics.follow(liveness.clone());
        Self {
            name: liveness.controller(),
            event_source,
            events,
            evidence,
            queue_metrics: metrics.queue(liveness.queue()),
            metrics,
            liveness,
            failures: FailureLog::default(),
            counted: QueueCounts::default(),
            started: BTreeMap::new(),
            notes: BTreeMap::new(),
        }
    }

    /// A key was taken out of the queue.
    pub(super) fn work_started(&mut self, due: &DueKey<K>, now: SteadyTime) {
        let waited = now.since(due.since).as_secs_f64();
        self.queue_metrics.queue_duration.observe(waited);
        self.started.insert(due.key.clone(), now);
    }

    /// A key is not in process any more.
    pub(super) fn work_ended(&mut self, key: &K, now: SteadyTime) {
        if let Some(start) = self.started.remove(key) {
            let took = now.since(start).as_secs_f64();
            self.queue_metrics.work_duration.observe(took);
        }
    }

    /// Logs a decision that sends no request now. Those that wait for a time are few and worth a line of `-vv`.
    pub(super) fn decided(&self, key: &K, next: &NextStep<K>, because: &impl DecisionReason) {
        let controller = self.name;
        match next {
            NextStep::At(at) => {
                tracing::debug!(controller, %key, reason = %because, until = %at, "decision: wait");
            }
            NextStep::Rest | NextStep::Retry | NextStep::After(_) => {
                tracing::trace!(controller, %key, reason = %because, "decision: no request");
            }
            NextStep::Call(_) => {}
        }
    }

    /// Emits the Events of a decision, except those that the key's last decision had as well.
    pub(super) fn emit_new(&mut self, key: &K, notes: Vec<EventNote>) {
        if notes.is_empty() {
            self.notes.remove(key);
            return;
        }
        let last = self.notes.get(key);
        for note in &notes {
            if !last.is_some_and(|last| last.contains(note)) {
                self.emit(note.clone());
            }
        }
        self.notes.insert(key.clone(), notes);
    }

    /// Emits an Event.
    pub(super) fn emit(&self, note: EventNote) {
        self.events.emit(self.event_source, note);
    }

    /// Records the answer to a request: evidence of a write, and a count of a read.
    pub(super) fn answered<C: Controller<Key = K>>(
        &mut self,
        finished: &FinishedCall<C>,
        catalog: &KindCatalog,
        now: Timestamp,
    ) {
        let (planned, answer) = (&finished.planned, &finished.performed.answer);
        let has_failures = !self.failures.is_empty() || self.evidence.has_failures();
        if !matches!(answer, ApiAnswer::Failed(_)) && has_failures {
            let object = TargetName(&planned.call, catalog).to_string();
            self.failures.succeeded(&object);
            let verb = planned.call.verb();
            self.evidence.call_succeeded(self.name, &object, verb);
        }
        if planned.call.is_read() {
            self.evidence.read();
            return;
        }
        let status = finished.performed.status;
        let PlannedCall {
            key, call, because, ..
        } = planned;
        let mut evidence = self.evidence_of(key, call, because, catalog, now);
        evidence.status = status.map_or(WriteStatus::NoAnswer, WriteStatus::Code);
        evidence.ms = millis(finished.took);
        evidence.requests = planned.progress.requests;
        evidence.done = matches!(answer, ApiAnswer::Object(_) | ApiAnswer::Done);
        let result = match answer {
            ApiAnswer::Object(_) | ApiAnswer::Page(_) | ApiAnswer::Done => "deleted",
            ApiAnswer::Absent(_) => "absent",
            ApiAnswer::Failed(failure) => {
                evidence.error = Some(failure.message.clone());
                match answer.is_conflict() {
                    true => "conflict",
                    false => "failed",
                }
            }
        };
        self.count_delete(call, &evidence, result);
        self.evidence.record(evidence);
    }

    /// Records a write that a dry run does not send.
    pub(super) fn held_back<R: DecisionReason>(
        &self,
        key: &K,
        call: &ApiCall,
        because: &R,
        catalog: &KindCatalog,
        now: Timestamp,
    ) {
        let evidence = self.evidence_of(key, call, because, catalog, now);
        self.count_delete(call, &evidence, "dry-run");
        self.evidence.record(evidence);
    }

    /// Logs a request that failed, unless the same was logged a short while ago.
    pub(super) fn failed(
        &mut self,
        call: &ApiCall,
        failure: &CallFailure,
        retry_in: Duration,
        catalog: &KindCatalog,
        now: DriverTime,
    ) {
        let cause = FailureCause::of(call, catalog, failure.status);
        let object = cause.object.clone();
        let retry_in_secs = retry_in.as_secs_f64();
        self.evidence.call_failed(FailedCall {
            at: now.wall,
            controller: self.name,
            verb: call.verb(),
            object: object.clone(),
            code: failure.status,
            error: failure.message.clone(),
            retry_in_secs,
            failures: 1,
        });
        match self.failures.failed(cause, now.steady) {
            FailureLine::Full { repeated } => tracing::warn!(
                controller = self.name,
                object,
                verb = call.verb(),
                code = failure.status,
                error = failure.message,
                retry_in_secs,
                repeated,
                "request failed; it will be retried"
            ),
            FailureLine::Summary { failures } => tracing::warn!(
                controller = self.name,
                failures,
                example = object,
                error = failure.message,
                "requests for many objects fail; only their number is logged"
            ),
            FailureLine::None => tracing::debug!(
                controller = self.name,
                object,
                verb = call.verb(),
                code = failure.status,
                error = failure.message,
                retry_in_secs,
                "request failed again"
            ),
        }
    }

    /// Counts a write that was accepted several times and is undone each time. Logs it and emits an Event about its
    /// object as often as `line` says.
    pub(super) fn repeated_write<C: Controller<Key = K>>(
        &self,
        planned: &PlannedCall<C>,
        repetition: WriteRepetition,
        line: FailureLine,
        catalog: &KindCatalog,
        now: Timestamp,
    ) {
        let controller = self.name;
        let repeated = &self.metrics.families().writes_repeated;
        repeated
            .get_or_create(&ControllerLabel { controller })
            .inc();
        if !matches!(line, FailureLine::Full { .. }) {
            return;
        }
        let (key, call, because) = (&planned.key, &planned.call, &planned.because);
        let verb = call.verb();
        tracing::warn!(
            controller,
            object = %TargetName(call, catalog),
            verb,
            reason = %because,
            times = repetition.times,
            retry_in_secs = repetition.wait.as_secs_f64(),
            "write was accepted and is needed again; an admission webhook or another client undoes it"
        );
        let about = self.evidence_of(key, call, because, catalog, now).target;
        let message = format!(
            "the server accepted a {verb} of this object several times, and it is needed again ({because}): \
             an admission webhook or another client undoes it; it is repeated at growing intervals"
        );
        self.emit(EventNote::warning(about, WRITE_UNDONE, message));
    }

    /// Counts a key whose object changed faster than it could be judged.
    pub(super) fn starved(&self, call: &ApiCall, catalog: &KindCatalog) {
        tracing::warn!(
            controller = self.name,
            object = %TargetName(call, catalog),
            "object changes faster than it can be written; backing off"
        );
        let controller = self.name;
        let starved = &self.metrics.families().conflicts_starved;
        starved.get_or_create(&ControllerLabel { controller }).inc();
    }

    /// Publishes the queue's counts and the driver's liveness.
    pub(super) fn publish(&mut self, queue: &WorkQueue<K>, oldest_request: Option<Instant>) {
        let counts = queue.counts();
        let metrics = &self.queue_metrics;
        metrics.adds.inc_by(counts.adds - self.counted.adds);
        metrics
            .retries
            .inc_by(counts.retries - self.counted.retries);
        metrics
            .depth
            .set(i64::try_from(counts.due).unwrap_or(i64::MAX));
        self.counted = counts;

        let mut state = self.liveness.state();
        state.due = queue.oldest();
        state.asked = oldest_request;
        state.turned = Some(Instant::now());
        state.started.clear();
        state.started.extend(self.started.values());
    }

    /// The evidence of a write that was not sent.
    fn evidence_of<R: DecisionReason>(
        &self,
        key: &K,
        call: &ApiCall,
        because: &R,
        catalog: &KindCatalog,
        now: Timestamp,
    ) -> Evidence {
        let target = call.target();
        let kind = catalog.get(target.kind);
        let of_kind = |text: fn(&ApiKind) -> String| kind.map_or(String::new(), text);
        let judged = call.judged();
        let uid = judged.map_or(String::new(), |judged| judged.uid.to_string());
        let policy = match call {
            ApiCall::Delete { propagation, .. } => *propagation,
            _ => None,
        };
        Evidence {
            at: now,
            controller: self.name,
            key: key.to_string(),
            verb: call.verb(),
            object: TargetName(call, catalog).to_string(),
            resource_version: judged.map_or(String::new(), |judged| judged.revision.to_string()),
            because: because.to_json(),
            proof: because.proof().map(ToString::to_string),
            status: WriteStatus::DryRun,
            error: None,
            ms: 0,
            reason: because.to_string(),
            cause: because.cause().cloned(),
            target: ObjectIdentity {
                api_version: of_kind(ApiKind::api_version),
                kind: of_kind(|kind| kind.kind.to_string()),
                namespace: target.namespace.to_string(),
                name: target.name.to_string(),
                uid: uid.clone(),
            },
            uid,
            group: of_kind(|kind| kind.group.to_string()),
            resource: of_kind(|kind| kind.resource.to_string()),
            policy,
            done: false,
            requests: 0,
        }
    }

    fn count_delete(&self, call: &ApiCall, evidence: &Evidence, result: &'static str) {
        if !matches!(call, ApiCall::Delete { .. }) {
            return;
        }
        let labels = DeleteLabels {
            controller: self.name,
            group: evidence.group.clone(),
            resource: evidence.resource.clone(),
            policy: match evidence.policy {
                Some(DeletePropagation::Background) => "background",
                Some(DeletePropagation::Foreground) => "foreground",
                Some(DeletePropagation::Orphan) => "orphan",
                None => "default",
            },
            result,
        };
        let deletes = &self.metrics.families().deletes;
        deletes.get_or_create(&labels).inc();
    }
}

// === impl TargetName ===

impl fmt::Display for TargetName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = self.0.target();
        match self.1.get(target.kind) {
            Some(kind) => write!(f, "{kind} ")?,
            None => f.write_str("(not served) ")?,
        }
        if target.namespace.is_empty() {
            f.write_str(&target.name)
        } else {
            write!(f, "{}/{}", target.namespace, target.name)
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
