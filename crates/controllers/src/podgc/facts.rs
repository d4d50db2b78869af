//! What Pod GC reads in Pods and Nodes: the few members that its sweeps look at, and none of the rest.
//!
//! Missing members and nulls read as nothing, as in Go. A Pod whose members have other types than they should is nobody
//! Pod GC could judge; a Node that cannot be read is a Node all the same, and one that is in service.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Deserialize;

use super::condition::DISRUPTION_TARGET;
use crate::runtime::record::RecordBody;

/// The taint of a Node whose Pods are known not to run any more: somebody switched it off.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// What matters of a Pod beside its metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodFacts<'a> {
    /// Empty if it is not bound.
    pub(super) node: Cow<'a, str>,
    pub(super) phase: Phase,
    /// Whether a kubelet threw it out.
    pub(super) is_evicted: bool,
    /// Whether it has the condition DisruptionTarget = True already.
    pub(super) is_disrupted: bool,
    /// Whether its end has no grace period, or none left.
    pub(super) is_forced: bool,
    /// The oldest there is, if the server does not say: upstream's zero time.
    pub(super) created: Timestamp,
    pub(super) generation: i64,
}

/// Where a Pod is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Pending,
    Running,
    Unknown,
    Succeeded,
    Failed,
    /// None, or one that nobody knows.
    Other,
}

/// What matters of a Node beside its metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeFacts {
    /// Whether it says so; a Node that says nothing is not ready.
    pub(super) is_ready: bool,
    /// Whether it has the taint.
    pub(super) is_out_of_service: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pod<'a> {
    metadata: Option<Meta>,
    #[serde(borrow)]
    spec: Option<PodSpec<'a>>,
    #[serde(borrow)]
    status: Option<PodStatus<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
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
    conditions: Option<Vec<Option<Condition<'a>>>>,
}

#[derive(Deserialize)]
struct Condition<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    status: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Node<'a> {
    #[serde(borrow)]
    spec: Option<NodeSpec<'a>>,
    #[serde(borrow)]
    status: Option<NodeStatus<'a>>,
}

#[derive(Default, Deserialize)]
struct NodeSpec<'a> {
    #[serde(borrow)]
    taints: Option<Vec<Option<Taint<'a>>>>,
}

#[derive(Deserialize)]
struct Taint<'a> {
    #[serde(borrow)]
    key: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
struct NodeStatus<'a> {
    #[serde(borrow)]
    conditions: Option<Vec<Option<Condition<'a>>>>,
}

// === impl PodFacts ===

impl<'a> PodFacts<'a> {
    /// What a body says; nothing if it is not a Pod's.
    pub(super) fn read(body: &'a RecordBody) -> Option<Self> {
        let RecordBody::Json(json) = body else {
            return None;
        };
        let pod: Pod<'a> = serde_json::from_slice(json).ok()?;
        let meta = pod.metadata.unwrap_or_default();
        let status = pod.status.unwrap_or_default();
        let phase = Phase::of(status.phase.as_deref().unwrap_or_default());
        Some(Self {
            node: pod.spec.unwrap_or_default().node_name.unwrap_or_default(),
            phase,
            is_evicted: phase == Phase::Failed && status.reason.as_deref() == Some("Evicted"),
            is_disrupted: is_true(status.conditions.as_deref(), DISRUPTION_TARGET),
            is_forced: meta.deletion_grace_period_seconds == Some(0),
            created: meta.creation_timestamp.unwrap_or(Timestamp::MIN),
            generation: meta.generation.unwrap_or_default(),
        })
    }
}

// === impl Phase ===

impl Phase {
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

    /// Whether the first sweep counts it: everything that neither waits nor runs, as upstream.
    pub(super) fn is_terminated(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Other)
    }

    /// Whether it says how its Pod ended, so that nobody has to write that.
    pub(super) fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

// === impl NodeFacts ===

impl NodeFacts {
    /// What a body says. One that cannot be read says that all is well: nothing may follow from it.
    pub(super) fn read(body: &RecordBody) -> Self {
        let unread = Self {
            is_ready: true,
            is_out_of_service: false,
        };
        let RecordBody::Json(json) = body else {
            return unread;
        };
        let Ok(node) = serde_json::from_slice::<Node<'_>>(json) else {
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

    /// Whether Pods that end there will never be reported to have ended.
    pub(super) fn is_lost(self) -> bool {
        !self.is_ready && self.is_out_of_service
    }
}

/// Whether the first condition of a type is true.
fn is_true(conditions: Option<&[Option<Condition<'_>>]>, kind: &str) -> bool {
    let mut conditions = conditions.unwrap_or_default().iter().flatten();
    let found = conditions.find(|condition| condition.kind.as_deref() == Some(kind));
    found.is_some_and(|condition| condition.status.as_deref() == Some("True"))
}
