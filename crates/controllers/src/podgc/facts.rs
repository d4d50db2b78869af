//! The few fields of Pods and Nodes that the sweeps of Pod GC need.
//!
//! Missing fields and nulls read as zero values, as in Go. Pod GC ignores a Pod with fields of a wrong type. A Node that
//! cannot be decoded counts as ready and in service.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Deserialize;

use super::condition::DISRUPTION_TARGET;
use crate::runtime::record::RecordBody;

/// The taint by which a user declares that a Node is shut down and its Pods do not run any more.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The fields of a Pod that the sweeps need, besides its metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PodFacts {
    pub(super) phase: PodLifePhase,
    /// Whether it failed with the reason `Evicted`.
    pub(super) is_evicted: bool,
    /// Whether it has the condition DisruptionTarget = True already.
    pub(super) is_disrupted: bool,
    /// Whether its deletion has no grace period.
    pub(super) is_forced: bool,
    /// The least time if the server gives none, like upstream's zero time.
    pub(super) created: Timestamp,
    pub(super) generation: i64,
}

/// The phase of a Pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PodLifePhase {
    Pending,
    Running,
    Unknown,
    Succeeded,
    Failed,
    /// No phase, or an unknown one.
    Other,
}

/// The fields of a Node that the sweeps need, besides its metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeFacts {
    /// Whether its condition Ready is True; a Node without the condition is not ready.
    pub(super) is_ready: bool,
    /// Whether it has the taint `node.kubernetes.io/out-of-service`.
    pub(super) is_out_of_service: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodBody<'a> {
    metadata: Option<PodMeta>,
    #[serde(borrow)]
    spec: Option<PodSpec<'a>>,
    #[serde(borrow)]
    status: Option<PodStatus<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodMeta {
    creation_timestamp: Option<Timestamp>,
    generation: Option<i64>,
    deletion_grace_period_seconds: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec<'a> {
    #[serde(borrow)]
    node_name: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
struct PodStatus<'a> {
    #[serde(borrow)]
    phase: Option<Cow<'a, str>>,
    #[serde(borrow)]
    reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    conditions: Option<Vec<Option<BodyCondition<'a>>>>,
}

#[derive(Deserialize)]
struct BodyCondition<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    status: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct NodeBody<'a> {
    #[serde(borrow)]
    spec: Option<NodeSpec<'a>>,
    #[serde(borrow)]
    status: Option<NodeStatus<'a>>,
}

#[derive(Default, Deserialize)]
struct NodeSpec<'a> {
    #[serde(borrow)]
    taints: Option<Vec<Option<NodeTaint<'a>>>>,
}

#[derive(Deserialize)]
struct NodeTaint<'a> {
    #[serde(borrow)]
    key: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
struct NodeStatus<'a> {
    #[serde(borrow)]
    conditions: Option<Vec<Option<BodyCondition<'a>>>>,
}

// === impl PodFacts ===

impl PodFacts {
    /// Reads the fields and the name of the Node, which is empty if the Pod is not bound; `None` if the body is not a
    /// valid Pod.
    pub(super) fn read(body: &RecordBody) -> Option<(Self, Cow<'_, str>)> {
        let RecordBody::Json(json) = body else {
            return None;
        };
        let pod: PodBody<'_> = serde_json::from_slice(json).ok()?;
        let meta = pod.metadata.unwrap_or_default();
        let status = pod.status.unwrap_or_default();
        let phase = PodLifePhase::of(status.phase.as_deref().unwrap_or_default());
        let facts = Self {
            phase,
            is_evicted: phase == PodLifePhase::Failed
                && status.reason.as_deref() == Some("Evicted"),
            is_disrupted: is_true(status.conditions.as_deref(), DISRUPTION_TARGET),
            is_forced: meta.deletion_grace_period_seconds == Some(0),
            created: meta.creation_timestamp.unwrap_or(Timestamp::MIN),
            generation: meta.generation.unwrap_or_default(),
        };
        let node = pod.spec.unwrap_or_default().node_name;
        Some((facts, node.unwrap_or_default()))
    }
}

// === impl PodLifePhase ===

impl PodLifePhase {
    fn of(text: &str) -> Self {
        match text {
            "Pending" => Self::Pending,
            "Running" => Self::Running,
            "Unknown" => Self::Unknown,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            _ => Self::Other,
        }
    }

    /// Whether the sweep of terminated Pods counts it: every phase but Pending, Running and Unknown, as upstream.
    pub(super) fn is_terminated(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Other)
    }

    /// Whether the phase is final, so that the Pod needs no mark.
    pub(super) fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

// === impl NodeFacts ===

impl NodeFacts {
    /// Reads the fields. A body that cannot be decoded reads as a ready Node in service, so that no Pod is removed.
    pub(super) fn read(body: &RecordBody) -> Self {
        let unread = Self {
            is_ready: true,
            is_out_of_service: false,
        };
        let RecordBody::Json(json) = body else {
            return unread;
        };
        let Ok(node) = serde_json::from_slice::<NodeBody<'_>>(json) else {
            return unread;
        };
        let taints = node.spec.unwrap_or_default().taints.unwrap_or_default();
        let conditions = node.status.unwrap_or_default().conditions;
        Self {
            is_ready: is_true(conditions.as_deref(), "Ready"),
            is_out_of_service: taints
                .iter()
                .flatten()
                .any(|taint| taint.key.as_deref() == Some(OUT_OF_SERVICE)),
        }
    }

    /// Whether it is not ready and out of service, so that its kubelet will not report the end of its Pods.
    pub(super) fn is_shut_down(self) -> bool {
        !self.is_ready && self.is_out_of_service
    }
}

/// Whether the first condition of a type has the status True.
fn is_true(conditions: Option<&[Option<BodyCondition<'_>>]>, kind: &str) -> bool {
    let mut conditions = conditions.unwrap_or_default().iter().flatten();
    let found = conditions.find(|condition| condition.kind.as_deref() == Some(kind));
    found.is_some_and(|condition| condition.status.as_deref() == Some("True"))
}
