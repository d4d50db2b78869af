//! Evidence: one record per write, for the log, for `/debug/actions` and for the summary lines.
//!
//! The driver makes the records. A failed write is recorded with the server's code and message, a write that a dry run
//! held back with the word `dry-run`; reads are only counted. Beside the writes, the trail keeps the last failed request
//! about each object, reads included, for `/debug/failures` and `explain`. No record holds anything of an object but its identity.

mod failed_calls;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::broadcast;

use super::call::DeletePropagation;
use super::controller::ObjectIdentity;
pub use failed_calls::FailedCall;
use failed_calls::FailedCalls;

/// How many records are kept for later readers.
pub const EVIDENCE_RING: usize = 1_000;

/// How many records a slow listener may fall behind before it misses some; its channel reports that.
const LISTENER_LAG_MAX: usize = 4_096;

/// One write. Its JSON is the line in the log; fields that are skipped there are for listeners in this process.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// The time of the answer, or of the decision that a dry run held back.
    pub at: Timestamp,
    pub controller: &'static str,
    /// The key of the decision.
    pub key: String,
    /// `create`, `delete` or `patch`.
    pub verb: &'static str,
    /// The object as in `deployments.apps shop/web`.
    pub object: String,
    /// The uid that was judged.
    pub uid: String,
    /// The version that was judged.
    pub resource_version: String,
    /// The reason: the rule's id and its sentence.
    pub because: Value,
    /// The proof of the absence that the write is based on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proof: Option<String>,
    /// The HTTP code of the answer.
    pub status: WriteStatus,
    /// The server's message if the write failed, or why there was no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// From the request to its answer, in milliseconds.
    pub ms: u64,

    /// The sentence of the reason.
    #[serde(skip)]
    pub reason: String,
    /// The object that caused the write: the owner that is gone, the Job that finished.
    #[serde(skip)]
    pub cause: Option<ObjectIdentity>,
    /// The written object.
    #[serde(skip)]
    pub target: ObjectIdentity,
    /// The group of the written object; metrics name it by group and resource.
    #[serde(skip)]
    pub group: String,
    #[serde(skip)]
    pub resource: String,
    /// The propagation policy of a delete, if the request names one.
    #[serde(skip)]
    pub policy: Option<DeletePropagation>,
    /// Whether the server accepted the write.
    #[serde(skip)]
    pub done: bool,
    /// The number of requests that led here, this one included.
    #[serde(skip)]
    pub requests: u32,
}

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum WriteStatus {
    #[serde(rename = "no answer")]
    NoAnswer,
    /// A dry run did not send it.
    #[serde(rename = "dry-run")]
    DryRun,
    /// The HTTP code of the answer.
    #[serde(untagged)]
    Code(u16),
}

/// The evidence of all controllers of the process. Clones share it.
#[derive(Debug, Clone)]
pub struct EvidenceTrail {
    inner: Arc<TrailState>,
}

#[derive(Debug)]
struct TrailState {
    ring: Mutex<VecDeque<Arc<Evidence>>>,
    listeners: broadcast::Sender<Arc<Evidence>>,
    reads: AtomicU64,
    failures: FailedCalls,
}

// === impl EvidenceTrail ===

impl EvidenceTrail {
    /// A trail without records.
    #[must_use]
    pub fn new() -> Self {
        Self {
            inner: Arc::new(TrailState {
                ring: Mutex::default(),
                listeners: broadcast::Sender::new(LISTENER_LAG_MAX),
                reads: AtomicU64::new(0),
                failures: FailedCalls::default(),
            }),
        }
    }

    /// Logs a write, keeps it, and sends it to all listeners.
    pub fn record(&self, evidence: Evidence) {
        match serde_json::to_string(&evidence) {
            Ok(line) => tracing::info!(target: "caretaker::evidence", "{line}"),
            // A reason whose value is no JSON: the write must be logged all the same.
            Err(error) => tracing::error!(target: "caretaker::evidence", %error, ?evidence),
        }
        let evidence = Arc::new(evidence);
        {
            let ring = self.inner.ring.lock();
            let mut ring = ring.unwrap_or_else(PoisonError::into_inner);
            if ring.len() == EVIDENCE_RING {
                ring.pop_front();
            }
            ring.push_back(evidence.clone());
        }
        // An error means that there is no listener.
        let _ = self.inner.listeners.send(evidence);
    }

    /// Counts one read request.
    pub fn read(&self) {
        self.inner.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of reads so far.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.inner.reads.load(Ordering::Relaxed)
    }

    /// The last writes, oldest first.
    #[must_use]
    pub fn recent(&self) -> Vec<Arc<Evidence>> {
        let ring = self.inner.ring.lock();
        let ring = ring.unwrap_or_else(PoisonError::into_inner);
        ring.iter().cloned().collect()
    }

    /// Keeps the last failure of a controller's requests about an object.
    pub fn call_failed(&self, call: FailedCall) {
        self.inner.failures.failed(call);
    }

    /// A request of a controller about an object has succeeded.
    pub fn call_succeeded(&self, controller: &'static str, object: &str, verb: &str) {
        self.inner.failures.succeeded(controller, object, verb);
    }

    /// Whether any failure is kept.
    #[must_use]
    pub fn has_failures(&self) -> bool {
        self.inner.failures.has_any()
    }

    /// The last failures about one of these objects, named as in [`Evidence::object`].
    #[must_use]
    pub fn failures(&self, objects: &[&str]) -> Vec<FailedCall> {
        self.inner.failures.about(objects)
    }

    /// A channel of all writes from now on.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Evidence>> {
        self.inner.listeners.subscribe()
    }
}

impl Default for EvidenceTrail {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_evidence(key: &str, status: WriteStatus) -> Evidence {
        Evidence {
            at: Timestamp::UNIX_EPOCH,
            controller: "garbage-collector-controller",
            key: key.to_owned(),
            verb: "delete",
            object: "deployments.apps shop/web".to_owned(),
            uid: "u".to_owned(),
            resource_version: "7".to_owned(),
            because: serde_json::json!({"absent": "owner"}),
            proof: None,
            status,
            error: None,
            ms: 3,
            reason: "its owner is gone".to_owned(),
            cause: None,
            target: ObjectIdentity::default(),
            group: "apps".to_owned(),
            resource: "deployments".to_owned(),
            policy: None,
            done: true,
            requests: 1,
        }
    }

    #[test]
    fn a_line_has_the_documented_fields() {
        let mut evidence = mk_evidence("k", WriteStatus::Code(200));
        let line = serde_json::to_string(&evidence).unwrap();
        assert_eq!(
            line,
            r#"{"at":"1970-01-01T00:00:00Z","controller":"garbage-collector-controller","key":"k","verb":"delete","object":"deployments.apps shop/web","uid":"u","resourceVersion":"7","because":{"absent":"owner"},"status":200,"ms":3}"#
        );
        evidence.status = WriteStatus::Code(403);
        evidence.error = Some("pods \"web\" is forbidden".to_owned());
        let line = serde_json::to_value(&evidence).unwrap();
        assert_eq!(line["error"], "pods \"web\" is forbidden");
        evidence.status = WriteStatus::DryRun;
        evidence.proof = Some("its deletion was observed".to_owned());
        let line = serde_json::to_value(&evidence).unwrap();
        assert_eq!(line["status"], "dry-run");
        assert_eq!(line["proof"], "its deletion was observed");
    }

    #[test]
    fn the_ring_keeps_the_last_records_and_listeners_get_all() {
        let trail = EvidenceTrail::new();
        trail.record(mk_evidence("before", WriteStatus::NoAnswer));
        let mut listener = trail.subscribe();
        for number in 0..EVIDENCE_RING {
            trail.record(mk_evidence(&number.to_string(), WriteStatus::NoAnswer));
        }
        let kept = trail.recent();
        assert_eq!(kept.len(), EVIDENCE_RING);
        assert_eq!(kept[0].key, "0");
        assert_eq!(listener.try_recv().unwrap().key, "0");
        trail.read();
        assert_eq!(trail.reads(), 1);
    }
}
