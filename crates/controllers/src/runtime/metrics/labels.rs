//! What metrics are told apart by.

use prometheus_client::encoding::EncodeLabelSet;

/// Who.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ControllerLabel {
    /// As `--controllers` spells it.
    pub controller: &'static str,
}

/// Which queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct QueueLabel {
    /// Upstream's name of the queue where ours corresponds to one.
    pub name: &'static str,
}

/// A request and its end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    /// `GET`.
    pub method: String,
    /// `200`, or `<error>` without an answer.
    pub code: String,
}

/// A delete and its end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DeleteLabels {
    /// Who.
    pub controller: &'static str,
    /// Of what group.
    pub group: String,
    /// Of what resource.
    pub resource: String,
    /// `background`, `foreground`, `orphan` or `default`.
    pub policy: &'static str,
    /// `deleted`, `absent`, `conflict`, `failed` or `dry-run`.
    pub result: &'static str,
}

/// What a kind is, and how well it is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct KindLabels {
    /// Its group.
    pub group: String,
    /// Its resource.
    pub resource: String,
    /// How well.
    pub state: &'static str,
}

/// Why an Event was not written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DropLabels {
    /// `queue`, `spam` or `refused`.
    pub reason: &'static str,
}

/// Who runs where.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RunningLabels {
    /// The controller.
    pub name: &'static str,
    /// The process it runs in.
    pub manager: &'static str,
}
