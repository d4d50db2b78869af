//! The label sets of the metrics.

use prometheus_client::encoding::EncodeLabelSet;

/// The label of metrics that a controller has one of.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ControllerLabel {
    /// The controller's name, as `--controllers` spells it.
    pub controller: &'static str,
}

/// The label of `leader_election_master_status`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct LeaseLabel {
    /// The name of the Lease.
    pub name: String,
}

/// The label of the `workqueue_*` metrics.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct QueueLabel {
    /// Upstream's name of the queue where ours corresponds to one.
    pub name: &'static str,
}

/// The labels of `rest_client_requests_total`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    pub method: String,
    /// `200`, or `<error>` without an answer.
    pub code: String,
}

/// The labels of `caretaker_deletes_total`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DeleteLabels {
    pub controller: &'static str,
    /// The API group of the deleted object.
    pub group: String,
    pub resource: String,
    /// `background`, `foreground`, `orphan` or `default`.
    pub policy: &'static str,
    /// `deleted`, `absent`, `conflict`, `failed` or `dry-run`.
    pub result: &'static str,
}

/// The labels of `caretaker_kind_state`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct KindLabels {
    pub group: String,
    pub resource: String,
    pub state: &'static str,
}

/// The label of `caretaker_events_dropped_total`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DropLabels {
    /// `queue`, `spam` or `refused`.
    pub reason: &'static str,
}

/// The labels of `running_managed_controllers`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RunningLabels {
    /// The controller's name.
    pub name: &'static str,
    /// The name of the program, as upstream's metric has it.
    pub manager: &'static str,
}
